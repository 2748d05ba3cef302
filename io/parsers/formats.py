"""The table of formats: which there are, by which names they go, and what reads them."""

from __future__ import annotations

import importlib.metadata
from typing import Any, Literal, NamedTuple

from chunkmill.chunkers.errors import choose


class Format(NamedTuple):
    """A format: `module` holds `parse(data, name, options) -> Iterator[Parsed | Member]`.

    `version` is our revision / the library. `options` are the settings it takes under `formats` in a job file.
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
_COMPRESSED = "gz gzip bz2 zst zstd xz"
_ARCHIVES = "zip tar tgz tbz tbz2 txz tzst"
_ROWS = ("text_column", "id_column")
OPTIONS: dict[str, Any] = {  # what an option may be; those that are not here are true or false
    "engine": Literal["pymupdf", "pypdfium2"],
    "ocr": Literal["auto", "force", "off"] | bool,  # YAML reads a bare off as false
    "ocr_languages": str | tuple[str, ...],
    "text_column": str,
    "id_column": str,
    "delimiter": str,
}
_PDF = ("engine", "ocr", "ocr_languages", "annotations", "form_fields", "images")


def _format(name: str, describes: str, extensions: str, module: str, version: str, options: tuple[str, ...] = ()) -> Format:
    return Format(name, describes, tuple(extensions.split()), f"chunkmill.io.parsers.{module}", version, options)


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        _format("text", "plain text in any encoding", "txt text log org", "text", "3/chardet"),
        _format("markdown", "CommonMark with tables", "md markdown mdown mkd mdx", "markdown", "2/pyromark"),
        _format("html", "web pages", "html htm xhtml html5 shtml", "html", "2/selectolax"),
        _format(
            "xml",
            "XML: JATS, DocBook, OPML, feeds, any other",
            "xml nxml docbook dbk opml rss atom svg tei",
            "markup",
            "2/lxml",
            ("source",),
        ),
        _format("pdf", "PDF", "pdf", "pdf", "3/pymupdf", _PDF),
        _format("docx", "Word documents", "docx docm dotx", "docx", "2/lxml", ("images", "comments")),
        _format("pptx", "PowerPoint presentations", "pptx pptm ppsx potx", "pptx", "2/lxml", ("images",)),
        _format("xlsx", "Excel workbooks", "xlsx xlsm xltx xlsb xls", "sheets", "2/python-calamine"),
        _format("odt", "OpenDocument text", "odt ott fodt", "odf", "2/lxml", ("images", "comments")),
        _format("odp", "OpenDocument presentations", "odp otp fodp", "odf", "2/lxml", ("images", "comments")),
        _format("ods", "OpenDocument spreadsheets", "ods ots", "sheets", "2/python-calamine"),
        _format("epub", "EPUB books", "epub", "epub", "2/selectolax", ("images",)),
        _format("rtf", "Rich Text Format", "rtf", "rtf", "2/chardet"),
        _format("notebook", "Jupyter notebooks", "ipynb", "notebook", "2/pyromark", ("images",)),
        _format("rst", "reStructuredText", "rst rest", "rst", "2/chardet"),
        _format("asciidoc", "AsciiDoc", "adoc asciidoc asc", "asciidoc", "2/chardet"),
        _format("latex", "LaTeX source", "tex ltx latex", "latex", "2/chardet"),
        _format(
            "csv",
            "tables as CSV or TSV, a document per file",
            "csv tsv tab",
            "delimited",
            "2/chardet",
            ("delimiter",),
        ),
        _format("json", "JSON, a document per file", "json geojson json5", "jsontext", "2/chardet"),
        _format("jsonl", "JSON Lines, a document per row", "jsonl ndjson", "records", "2/pyarrow", _ROWS),
        _format("parquet", "Parquet, a document per row", "parquet pq", "records", "2/pyarrow", _ROWS),
        _format(
            "email", "mail messages; attachments are documents of their own", "eml", "mail", "2/selectolax", ("attachments",)
        ),
        _format("mbox", "mailboxes, a document per message", "mbox", "mail", "2/selectolax", ("attachments",)),
        _format("subtitles", "subtitles (SubRip, WebVTT)", "srt vtt", "subtitles", "2/chardet"),
        _format("code", "source code", _CODE, "code", "2/chardet"),
        _format(
            "archive", "ZIP and TAR archives: each member is a document, archive!member", _ARCHIVES, "containers", "2/pyarrow"
        ),
        _format("compressed", "gzip, bzip2, xz and Zstandard around any of these", _COMPRESSED, "containers", "2/pyarrow"),
    )
}
BY_EXTENSION = {extension: f.name for f in FORMATS.values() for extension in f.extensions}
BY_NAME = {"makefile": "code", "gnumakefile": "code", "dockerfile": "code", "cmakelists.txt": "code"}


def base(name: str) -> str:
    """The last part of a source's name, in lower case."""
    return name.rpartition("/")[2].lower()


def extension(name: str) -> str:
    """What follows the last dot of a name, in lower case; "" for none."""
    stem, dot, last = base(name).rpartition(".")
    return last.strip() if dot and stem else ""


def named(name: str) -> str:
    """The format that a source's name claims; "" if it claims none."""
    return BY_NAME.get(base(name)) or BY_EXTENSION.get(extension(name), "")


def parser_version(format: str) -> str:
    """What read the text, for the recipe: `pdf-1/pymupdf-1.28.2` (our revision, the library's version)."""
    if format not in FORMATS:
        raise choose("format", format, FORMATS)
    revision, library = FORMATS[format].version.split("/")
    return f"{format}-{revision}/{library}-{importlib.metadata.version(library)}"
