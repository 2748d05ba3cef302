"""A file's bytes as documents, for the library call: what a run reads, without a job."""

from __future__ import annotations

from chunkmill.chunkers.base import Document
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.seams import clean
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers import parse as parsed_from


def parse(data: bytes, name: str) -> list[Document]:
    """The documents in the bytes of a file, each with its structure; the name (`report.pdf`) tells the format.

    One for most files; rows, mails and members of archives are documents of their own. The uri is the name and what tells a
    document of several (`mails.mbox#3`); the id a hash of it. Raises DocumentError for the first that can't be read.
    """
    if not isinstance(data, bytes):
        raise ConfigError(f"data is {type(data).__name__}; it must be bytes: pathlib.Path(name).read_bytes()")
    return [_document(found, name) for found in parsed_from(data, name)]


def _document(found: Parsed, name: str) -> Document:
    if found.error:
        raise found.error
    text, _ = clean(found.text)
    return Document(digest(name, found.member), name + found.member, text, found.blocks, found.metadata)
