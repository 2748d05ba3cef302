"""Formats: bytes of a source → canonical text and blocks, one line of `FORMATS` for each.

What a source is shows in its first bytes; its name is asked after that. A parser and the libraries it stands on are imported
when the first source of its format arrives. Whatever the bytes, only `DocumentError` comes out.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chunkmill.chunkers.base import Block
from chunkmill.chunkers.errors import ChunkmillError, DocumentError, choose

NOTHING: Mapping[str, object] = {}
NO_METADATA: dict[str, str] = {}


class Parsed(NamedTuple):
    """One document found in a source: its canonical text, and blocks whose spans point into it.

    `member` says which document of the source it is (the id of a row); "" where the source is one document. `error` is set
    where this member could not be read and the others could. White text is allowed: there was nothing to read.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    metadata: dict[str, str] = NO_METADATA
    member: str = ""
    error: DocumentError | None = None


class Format(NamedTuple):
    """A format: `module` holds `parse(data, name, options) -> Iterator[Parsed]`, `version` is our revision / the library.

    `options` are the settings it takes under `formats` in a job file.
    """

    name: str
    describes: str
    extensions: tuple[str, ...]
    module: str
    version: str
    options: tuple[str, ...] = ()


_CODE = (
    "py pyi pyx js mjs cjs jsx ts mts cts tsx java c h cc cpp cxx hh hpp hxx cs go rs rb php kt kts scala swift m "
    "mm sh bash zsh fish ps1 bat cmd sql lua r pl pm hs ml mli ex exs erl hrl clj cljs dart zig nim jl f90 f95 "
    "groovy gradle proto tf vue svelte toml yaml yml ini css scss less cmake mk makefile dockerfile"
)
_TEXT = "txt text log rst tex adoc org csv tsv json xml svg ipynb eml srt vtt"
_HERE = "chunkmill.io.parsers"
_ROWS = ("text_column", "id_column")

FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format(
            "text",
            "plain text, and for now any other textual file",
            tuple(_TEXT.split()),
            f"{_HERE}.text",
            "1/charset-normalizer",
        ),
        Format(
            "markdown",
            "CommonMark with tables",
            ("md", "markdown", "mdown", "mkd", "mdx"),
            f"{_HERE}.markdown",
            "1/markdown-it-py",
        ),
        Format("html", "web pages", ("html", "htm", "xhtml", "html5", "shtml"), f"{_HERE}.html", "1/selectolax"),
        Format("pdf", "PDF with a text layer", ("pdf",), f"{_HERE}.pdf", "1/pymupdf"),
        Format("code", "source code", tuple(_CODE.split()), f"{_HERE}.code", "1/charset-normalizer"),
        Format("jsonl", "JSON Lines, a document per row", ("jsonl", "ndjson"), f"{_HERE}.records", "1/pyarrow", _ROWS),
        Format("parquet", "Parquet, a document per row", ("parquet", "pq"), f"{_HERE}.records", "1/pyarrow", _ROWS),
    )
}
_BY_EXTENSION = {extension: f.name for f in FORMATS.values() for extension in f.extensions}
_BY_NAME = {"makefile": "code", "gnumakefile": "code", "dockerfile": "code", "cmakelists.txt": "code"}

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"\x1f\x8b", "gzip data"),
    *((b"BZh%d1AY&SY" % level, "bzip2 data") for level in range(1, 10)),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ\x90\0", "a Windows program"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "Ogg audio"),
    (b"ID3\3", "MP3 audio"),
    (b"ID3\4", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"wOFF", "a WOFF font"),
    (b"wOF2", "a WOFF font"),
    (b"{\\rtf", "an RTF document"),
    (b"ARROW1\0\0", "an Arrow file"),
)
_ZIPPED: tuple[tuple[bytes, str], ...] = (
    (b"mimetypeapplication/epub", "an EPUB book"),
    (b"mimetypeapplication/vnd.oasis", "an OpenDocument file"),
    (b"word/", "a Word document (DOCX)"),
    (b"ppt/", "a PowerPoint file (PPTX)"),
    (b"xl/", "an Excel workbook (XLSX)"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]", re.I | re.S)
_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")
_CONTROLS = bytes({*range(1, 32)} - set(b"\t\n\r\f\v\b\x1a\x1b"))
_SNIFF = 1 << 16


def detect(name: str, data: bytes) -> str:
    """The name of the format of these bytes; a `DocumentError` of kind `unsupported` says what else they look like."""
    head = data[:_SNIFF]
    extension = _extension(name)
    named = _BY_NAME.get(_base(name)) or _BY_EXTENSION.get(extension, "")
    if not data:
        return named if named in ("markdown", "html", "code") else "text"
    if head.startswith((b"PAR1", b"PARE")):
        return "parquet"
    if head.startswith(b"%PDF-") or (b"%PDF-" in head[:1024] and named in ("pdf", "")):
        return "pdf"
    _refuse_binary(head, data)
    if named in ("", "text", "pdf", "parquet") and _HTML.match(head[:4096]):
        return "html"
    if named:
        return named
    return "code" if head.startswith((b"#!/", b"#! /")) else "text"


def parse(data: bytes, name: str, format: str | None = None, options: Mapping[str, object] = NOTHING) -> Iterator[Parsed]:
    """The documents of a source, in order. Raises nothing but `DocumentError`, whatever the bytes."""
    known = FORMATS.get(format or detect(name, data))
    if known is None:
        raise choose("format", format or "", FORMATS)
    if not data:
        yield Parsed("")
        return
    module = importlib.import_module(known.module)
    try:
        yield from module.parse(data, name, options)
    except (ChunkmillError, GeneratorExit):
        raise
    except RecursionError as error:
        raise DocumentError("too_deep", f"the {known.name} parser met structures nested too deeply") from error
    except MemoryError as error:
        raise DocumentError("too_large", f"the {known.name} parser ran out of memory") from error
    except Exception as error:
        # The libraries behind the formats raise whatever they like on damaged input.
        raise DocumentError("corrupt", f"the {known.name} parser failed: {type(error).__name__}: {error}"[:500]) from error


def parser_version(format: str) -> str:
    """What read the text, for the recipe: `pdf-1/pymupdf-1.28.2` (our revision, the library's version)."""
    if format not in FORMATS:
        raise choose("format", format, FORMATS)
    revision, library = FORMATS[format].version.split("/")
    return f"{format}-{revision}/{library}-{importlib.metadata.version(library)}"


def _base(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _extension(name: str) -> str:
    stem, dot, extension = _base(name).rpartition(".")
    return extension.strip() if dot and stem else ""


def _refuse_binary(head: bytes, data: bytes) -> None:
    """Raise where the bytes are no text. NULs are allowed where they may be halves of UTF-16, or are few."""
    if head.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DocumentError("encrypted", "an Office document under a password")
        raise DocumentError("unsupported", "looks like an OLE file (legacy .doc, .xls, .ppt, .msg)")
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        looks = next((what for mark, what in _ZIPPED if mark in head or mark in data[-_SNIFF:]), "a ZIP archive")
        raise DocumentError("unsupported", f"looks like {looks}")
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        raise DocumentError("unsupported", f"looks like {head[8:12].decode().strip()} media")
    if head[:3] == b"\0\0\0" and head[4:8] == b"ftyp":
        raise DocumentError("unsupported", "looks like MP4 media")
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise DocumentError("unsupported", f"looks like {what}")
    if head.startswith(_BOMS) or utf16_without_mark(head):
        return
    nul, controls = head.count(0), len(head) - len(head.translate(None, _CONTROLS))
    if nul > len(head) * 0.2 or controls > len(head) * 0.05:
        raise DocumentError("unsupported", f"looks like binary data ({nul} NULs, {controls} controls in {len(head)} bytes)")


def utf16_without_mark(head: bytes) -> str:
    """The byte order where every second byte is (nearly) always NUL, as Latin text in UTF-16 has it; "" where not."""
    pairs = len(head) // 2
    even, odd = head[: pairs * 2 : 2].count(0), head[1 : pairs * 2 : 2].count(0)
    if max(even, odd) < max(2, pairs * 0.4) or min(even, odd) > pairs * 0.05:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"
