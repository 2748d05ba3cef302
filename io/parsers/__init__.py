"""Bytes of a source → canonical texts and blocks: the one way in, whatever the format.

A parser and the libraries it stands on are imported when the first source of its format arrives. A container (an archive,
a compressed file, a mail with attachments) gives `Member`s, which are parsed as sources of their own. Whatever the bytes,
only `DocumentError` comes out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from chunkmill.chunkers.base import Block, Span
from chunkmill.chunkers.errors import ChunkmillError, DocumentError, choose
from chunkmill.io.parsers.detect import detect, utf16_without_mark
from chunkmill.io.parsers.formats import FORMATS, Format, parser_version
from chunkmill.io.parsers.limits import check_inflated, limits

__all__ = [
    "FORMATS",
    "Format",
    "Image",
    "Member",
    "Parsed",
    "Parser",
    "detect",
    "parse",
    "parser_version",
    "unique_names",
    "utf16_without_mark",
]

NOTHING: Mapping[str, Mapping[str, object]] = {}
NO_METADATA: dict[str, str] = {}
Parser: TypeAlias = Callable[[bytes, str, Mapping[str, object]], Iterator[Any]]
OWN: Mapping[str, Parser] = {}


class Image(NamedTuple):
    """A picture of a document. `span` is its place in the text (its figure block; empty where it has no words).

    `png` are its bytes; `box` is (x0, y0, x1, y1) in points on its page; `text` is what OCR read in it.
    """

    span: Span
    png: bytes
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    caption: str = ""
    text: str = ""


class Parsed(NamedTuple):
    """One document found in a source: its canonical text, and blocks whose spans point into it.

    `member` says which document of the source it is: `#id` for a row, `!name` for a member of an archive; "" where the
    source is one document. `error` is set where this document could not be read and others of the source could.
    White text is allowed: there was nothing to read. What was left out or repaired stands in the metadata's `warning`.
    `read` is the share of the source that is behind its end, from 0 to 1; 0 where the parser can't tell.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    metadata: dict[str, str] = NO_METADATA
    member: str = ""
    error: DocumentError | None = None
    images: tuple[Image, ...] = ()
    format: str = ""
    read: float = 0.0


class Member(NamedTuple):
    """A file inside a source, to be parsed by its own format. With `name` "" it is the source itself, unfolded to `alias`.

    `read` is as in `Parsed`.
    """

    name: str
    data: bytes
    alias: str = ""
    metadata: dict[str, str] = NO_METADATA
    error: DocumentError | None = None
    read: float = 0.0


def parse(
    data: bytes,
    name: str,
    settings: Mapping[str, Mapping[str, object]] = NOTHING,
    *,
    format: str = "",
    own: Mapping[str, Parser] = OWN,
    watch: Callable[[str], None] = lambda member: None,
) -> Iterator[Parsed]:
    """The documents of a source, in order, each with its format. `settings` are the options of each format; `own` are parsers
    of formats of the user's, or in the place of ours.

    `watch` hears of each file (`Parsed.member`) before it is parsed, and may refuse it by a DocumentError. Raises nothing but
    that, whatever the bytes; one that concerns a member of a container comes as `Parsed.error`.
    """
    watch("")
    if format and format not in FORMATS and format not in own:
        raise choose("format", format, FORMATS)
    return _Unfolding(len(data), settings, own, watch).source(data, name, format or detect(name, data, own))


class _Unfolding:
    """One source being parsed: how much came out of it so far."""

    def __init__(
        self,
        packed: int,
        settings: Mapping[str, Mapping[str, object]],
        own: Mapping[str, Parser],
        watch: Callable[[str], None],
    ) -> None:
        self.packed, self.settings, self.own, self.watch = packed, settings, own, watch
        self.inflated = 0

    def source(self, data: bytes, name: str, format: str, trail: str = "", depth: int = 0) -> Iterator[Parsed]:
        """The documents of these bytes, which are the file at `trail` in the source."""
        if not data:
            yield Parsed("", member=trail, format=format)
            return
        unique = unique_names()
        parser = self.own.get(format) or importlib.import_module(FORMATS[format].module).parse
        for found in _guarded(parser, format, data, name, self.settings.get(format, {})):
            if isinstance(found, Parsed):
                yield found._replace(member=trail + found.member, format=format)
            else:
                yield from self.member(found, trail + unique(f"!{found.name}") if found.name else trail, depth + 1)

    def member(self, found: Member, trail: str, depth: int) -> Iterator[Parsed]:
        """The documents of a member; its failure is one of them."""
        format = ""
        try:
            self.watch(trail)
            if found.error:
                raise found.error
            if depth > limits().containers:
                raise DocumentError("unsupported", f"nested in more than {limits().containers} archives or compressions")
            self.inflated += len(found.data)
            check_inflated(self.inflated, self.packed, "the source")
            name = found.alias or found.name
            format = detect(name, found.data, self.own)
            for parsed in self.source(found.data, name, format, trail, depth):
                read = found.read if found.name else parsed.read
                yield parsed._replace(metadata=found.metadata | parsed.metadata, read=read)
        except DocumentError as error:
            if not found.name:
                raise  # it is the source itself
            yield Parsed("", error=error, member=trail, format=format, read=found.read)


def is_fault(error: BaseException) -> bool:
    """Whether a library failed, and nobody wants the process to end: a panic in Rust is no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _guarded(parser: Parser, format: str, data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Any]:
    """What the format's parser gives; every failure of it as a DocumentError."""
    try:
        yield from parser(data, name, options)
    except (ChunkmillError, GeneratorExit):
        raise
    except RecursionError as error:
        raise DocumentError("too_deep", f"the {format} parser met structures nested too deeply") from error
    except MemoryError as error:
        raise DocumentError("too_large", f"the {format} parser ran out of memory") from error
    except BaseException as error:  # the libraries behind the formats raise whatever they like on damaged input
        if not is_fault(error):
            raise
        raise DocumentError("corrupt", f"the {format} parser failed: {type(error).__name__}: {error}"[:500]) from error


def unique_names() -> Callable[[str], str]:
    """A function that makes names unique: the second "a" becomes "a~2"."""
    seen: dict[str, int] = {}

    def unique(member: str) -> str:
        name = member
        while name in seen:
            seen[member] += 1
            name = f"{member}~{seen[member]}"
        seen[name] = 1
        return name

    return unique
