"""Jupyter notebooks: the cells in order, a blank line between them.

Markdown cells keep their Markdown and give its blocks, code cells are code, and so is what they printed or answered as plain
text, up to 2,000 characters a cell. Left out: pictures (`images` gives them as pictures), HTML and widgets with the
representation that stands for them, warnings on stderr, tracebacks (the error's last line stays), embedded base64. Raw
cells are paragraphs; front matter in the first cell is metadata. `language` is that of the code.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Image, Parsed
from chunkmill.io.parsers.markdown import blocks, front_matter
from chunkmill.io.parsers.text import decode, mend, paragraphs

MOST_OUTPUT = 2_000
_LONGEST_ERROR = 300
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
_EMBEDDED = re.compile(r"(data:[\w/.+-]{1,80};base64,)[A-Za-z0-9+/=]{32,}")
_REPRESENTATION = re.compile(r"\[?<[^\n]*>\]?")
_PLAIN = ("text/plain", "text", "text/markdown", "text/latex", "latex")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/bmp", "png", "jpeg")
_PNG = b"\x89PNG\r\n\x1a\n"


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The cells of the notebook. `corrupt` where it is no JSON, or JSON of something else."""
    source, metadata = decode(data)
    if not source.strip("\ufeff \t\r\n"):
        yield Parsed("", (), metadata)
        return
    notebook = _loaded(source.removeprefix("\ufeff"))
    cells = _cells(notebook)
    book = _Book(bool(options.get("images")))
    for cell in cells:
        book.cell(cell)
    about = _about(notebook) | {"cells": str(len(cells))}
    yield Parsed(
        "".join(book.out), tuple(book.blocks), book.front | about | metadata | book.warning(), images=tuple(book.images)
    )


def _loaded(source: str) -> dict[str, Any]:
    try:
        loaded = json.loads(source, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise DocumentError(
            "corrupt", f"the notebook is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    if not isinstance(loaded, dict):
        raise DocumentError("corrupt", "no notebook: its JSON is not an object")
    return loaded


def _cells(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells; those of all worksheets in notebooks of version 3."""
    sheets = notebook.get("worksheets", [])
    lists = (
        [notebook.get("cells"), *(sheet.get("cells") for sheet in sheets if isinstance(sheet, dict))]
        if isinstance(sheets, list)
        else []
    )
    found = [cells for cells in lists or [notebook.get("cells")] if isinstance(cells, list)]
    if not found:
        raise DocumentError("corrupt", f"no notebook: its JSON has no cells; it has: {', '.join(notebook)[:200] or 'nothing'}")
    return [cell for cells in found for cell in cells if isinstance(cell, dict)]


class _Book:
    """The text under construction, with its blocks and pictures."""

    def __init__(self, with_images: bool) -> None:
        self.with_images = with_images
        self.out: list[str] = []
        self.length = self.cut = self.unread = 0
        self.blocks: list[Block] = []
        self.images: list[Image] = []
        self.front: dict[str, str] = {}

    def cell(self, cell: Mapping[str, Any]) -> None:
        """Add a cell."""
        kind = cell.get("cell_type")
        source = clean(_joined(cell.get("source", cell.get("input"))))
        if kind == "code":
            self.add("code", source)
            self.outputs(cell.get("outputs"))
        elif kind == "heading":
            self.add("heading", " ".join(source.split()), int(level) if (level := str(cell.get("level"))) in "123456" else 1)
        elif kind == "raw":
            self.raw(source)
        else:
            start = self.append(source.strip("\n").rstrip())
            self.place(start, blocks(self.out[-1]) if start >= 0 else ())
        attachments = cell.get("attachments")
        for bundle in attachments.values() if isinstance(attachments, dict) else ():
            self.picture(bundle)

    def raw(self, source: str) -> None:
        """A raw cell: paragraphs, or the front matter of the notebook."""
        if not self.length and not self.front:
            body, self.front = front_matter(source)
            source = source[body:]
        start = self.append(source.strip("\n").rstrip())
        self.place(start, paragraphs(self.out[-1]) if start >= 0 else ())

    def append(self, text: str) -> int:
        """Add text behind a blank line. Gives where it begins; -1 where it is white."""
        if not text.strip():
            return -1
        if self.length:
            self.out.append("\n\n")
            self.length += 2
        self.out.append(text)
        start, self.length = self.length, self.length + len(text)
        return start

    def add(self, kind: Kind, text: str, level: int = 0) -> None:
        """A block of this text, without blank lines around it."""
        lines = text.strip("\n").rstrip()
        if (start := self.append(lines)) >= 0:
            self.blocks.append(Block(kind, Span(start, self.length), level))

    def place(self, start: int, found: Iterable[Block]) -> None:
        """Blocks of a cell, moved to where it begins."""
        for block in found:
            parts = tuple(Span(a + start, b + start) for a, b in block.parts)
            self.blocks.append(block._replace(span=Span(block.span.start + start, block.span.end + start), parts=parts))

    def outputs(self, outputs: object) -> None:
        """What a cell printed and answered, up to a bound."""
        said: list[str] = []
        room = MOST_OUTPUT
        for output in outputs if isinstance(outputs, list) else ():
            if not isinstance(output, dict):
                continue
            bundle = output.get("data", output)
            self.picture(bundle)
            text = _said(output, bundle)
            if len(text) > room:
                self.cut += 1
                text = text[:room]
                text = text[: text.rfind("\n") if "\n" in text else room]
                said.append(text)
                break
            room -= len(text)
            said.append(text)
        self.add("code", "\n".join(text.rstrip() for text in said if text.strip()))

    def picture(self, bundle: object) -> None:
        """The picture in a bundle of one thing in several forms."""
        form = next((form for form in _PICTURES if form in bundle), "") if self.with_images and isinstance(bundle, dict) else ""
        if not form or not isinstance(bundle, dict):
            return
        try:
            png = _png(_joined(bundle[form]))
        except (ValueError, RuntimeError):
            self.unread += 1
        else:
            self.images.append(Image(Span(self.length, self.length), png))

    def warning(self) -> dict[str, str]:
        """What was left out beyond the rules."""
        said = [f"the outputs of {self.cut} cells were cut to {MOST_OUTPUT:,} characters"] if self.cut else []
        said += [f"{self.unread} pictures could not be read"] if self.unread else []
        return {"warning": "; ".join(said)} if said else {}


def _said(output: Mapping[str, Any], bundle: object) -> str:
    """The plain text of one output; "" where its words only stand for a picture, a widget or a page."""
    kind = output.get("output_type")
    if kind == "stream":
        is_error = "stderr" in (output.get("name"), output.get("stream"))
        return "" if is_error else _printed(output.get("text"))
    if kind in ("error", "pyerr"):
        return _printed(f"{output.get('ename', '')}: {output.get('evalue', '')}")[:_LONGEST_ERROR]
    if not isinstance(bundle, dict) or any(form in _PICTURES or form.startswith(("image/", "application/")) for form in bundle):
        return ""
    text = next((_printed(bundle[form]) for form in _PLAIN if form in bundle), "")
    return "" if _REPRESENTATION.fullmatch(text.strip()) else text


def _printed(value: object) -> str:
    """Text of a terminal as it looks at the end: without colours, and of lines written over only the last state.

    Looks at four times what is kept: more is cut anyway.
    """
    text = _joined(value, MOST_OUTPUT * 4)
    return clean(_OVERWRITTEN.sub("", _ANSI.sub("", text)))


def _joined(value: object, most: int = -1) -> str:
    """A text, which may be a list of lines; no more than about so many characters."""
    if isinstance(value, str):
        return value if most < 0 else value[:most]
    joined: list[str] = []
    for line in value if isinstance(value, list) else ():
        if isinstance(line, str) and most:
            joined.append(line if most < 0 else line[:most])
            most = most if most < 0 else most - len(joined[-1])
    return "".join(joined)


def clean(text: str) -> str:
    """Text with plain line ends, without embedded data and lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return mend(_EMBEDDED.sub("\\1\u2026", text))[0]


def _png(encoded: str) -> bytes:
    """The picture as PNG. Raises ValueError or RuntimeError where it is none."""
    data = binascii.a2b_base64(encoded)
    if data.startswith(_PNG):
        return data
    import pymupdf

    try:
        return bytes(pymupdf.Pixmap(data).tobytes("png"))  # type: ignore[no-untyped-call]  # MuPDF has no types
    except pymupdf.mupdf.FzErrorBase as error:
        raise ValueError(str(error)) from error


def _about(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Title, authors and the language of the code."""
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kernel, info = (found if isinstance(found := metadata.get(key), dict) else {} for key in ("kernelspec", "language_info"))
    authors = metadata.get("authors")
    names = (
        [author.get("name") if isinstance(author, dict) else author for author in authors if author]
        if isinstance(authors, list)
        else []
    )
    about = {
        "title": metadata.get("title") or metadata.get("name"),
        "author": ", ".join(name for name in names if isinstance(name, str)),
        "language": info.get("name") or kernel.get("language") or metadata.get("language"),
    }
    about["language"] = str(about["language"]).lower() if isinstance(about["language"], str) else ""
    return {key: mend(" ".join(value.split()))[0] for key, value in about.items() if isinstance(value, str) and value.strip()}
