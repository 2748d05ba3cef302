"""Pages through PyMuPDF: text, rules and images in one pass over the page."""

from __future__ import annotations

import contextlib
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pymupdf

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.pdf.scripts import RTL, cleaned, logical
from chunkmill.io.parsers.pdf.shapes import Damaged, Extra, Line, Picture, Raw

_mupdf: Any = pymupdf  # it carries no types
_mupdf.TOOLS.mupdf_display_errors(False)
_mupdf.TOOLS.mupdf_display_warnings(False)
_mupdf.no_recommend_layout()

_TEXT = pymupdf.TEXT_MEDIABOX_CLIP  # no images; ligatures are taken apart; alpha 0 is text in invisible mode
_WITH_RULES = _TEXT | pymupdf.TEXT_COLLECT_VECTORS
_ITALIC, _MONOSPACED, _BOLD = 2, 8, 16
_STREAM = 1 << 22
_MOST_RULES = 20_000  # a page that draws more is a drawing; its vectors would fill the memory
_DRAWN = re.compile(rb"\s(?:re|l|c|v|y)\s")
_TINY, _HUGE = 32, 25_000_000  # pixels: of a side, of an image
_BROKEN = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
    KeyError,
    ZeroDivisionError,
    AttributeError,
    AssertionError,
    pymupdf.mupdf.FzErrorBase,
)


class Mupdf:
    """An open PDF."""

    def __init__(self, data: bytes) -> None:
        try:
            self._pdf = _mupdf.open(stream=data, filetype="pdf")
        except Exception as error:  # MuPDF's own errors share no base but this
            raise DocumentError("corrupt", f"not readable as PDF: {error}"[:300]) from error
        if not self._pdf.is_pdf:  # MuPDF reads other formats too, and looks at the content first
            self._pdf.close()
            raise DocumentError("type_mismatch", "named like a PDF, but MuPDF takes it for another format")
        if self._pdf.needs_pass:
            raise DocumentError("encrypted", "needs a password")
        self.count = self._pdf.page_count
        self._loaded: tuple[int, Any] = (-1, None)

    def _page(self, number: int) -> Any:
        """The page, kept while it is the one worked on."""
        if self._loaded[0] != number:
            self._loaded = (-1, None)
            try:
                page = self._pdf[number]
                _hide_fields(page)
                self._loaded = (number, page)
            except _BROKEN as error:
                raise Damaged(str(error)) from error
        return self._loaded[1]

    def page(self, number: int) -> Raw:
        """Text and rules of a page."""
        page = self._page(number)
        try:
            _mupdf.TOOLS.reset_mupdf_warnings()
            flags = _WITH_RULES if self._few_rules(page) else _TEXT
            found = page.get_text("dict", flags=flags)
            if "error" in _mupdf.TOOLS.mupdf_warnings() and not found["blocks"]:
                raise Damaged("its content can't be read")
            lines = [line for block in found["blocks"] if block["type"] == 0 for line in _lines(block)]
            if any(RTL.search(line.text) for line in lines):
                raw = page.get_text("rawdict", flags=_TEXT)
                lines = [line for block in raw["blocks"] if block["type"] == 0 for line in _lines(block)]
            rules = [block["bbox"] for block in found["blocks"] if block["type"] == 3]
        except _BROKEN as error:
            raise Damaged(str(error)) from error
        return Raw(found["width"], found["height"], lines, rules, len(_fields(page)))

    def words(self, number: int) -> list[Line]:
        """The page's words."""
        try:
            words = self._page(number).get_text("words", flags=_TEXT)
        except _BROKEN:
            return []
        return [Line(cleaned(w[4]), tuple(w[:4]), w[3] - w[1]) for w in words]

    def covered(self, number: int) -> tuple[float, int]:
        """The share of the page under images, and the pixels of the largest."""
        try:
            page = self._page(number)
            infos = page.get_image_info()
            area = sum(abs(_mupdf.Rect(info["bbox"]) & page.rect) for info in infos)
            return area / max(1.0, abs(page.rect)), max((info["width"] * info["height"] for info in infos), default=0)
        except _BROKEN:
            return 0.0, 0

    def rendered(self, number: int, scale: float) -> bytes:
        """The page as a grey PNM."""
        try:
            pixels = self._page(number).get_pixmap(matrix=_mupdf.Matrix(scale, scale), colorspace=_mupdf.csGRAY, alpha=False)
            return bytes(pixels.tobytes("pnm"))
        except _BROKEN as error:
            raise Damaged(str(error)) from error

    def extras(self, number: int, annotations: bool, form_fields: bool) -> list[Extra]:
        """Comments with their author and the words they mark, then the form fields."""
        extras = []
        try:
            page = self._page(number)
            for note in page.annots() if annotations else ():
                if text := _comment(page, note):
                    extras.append(Extra("notes", (text,)))
            fields = _fields(page) if form_fields else []
        except _BROKEN:
            return extras
        return [*extras, Extra("record", tuple(fields))] if fields else extras

    def pictures(self, number: int) -> Iterator[Picture]:
        """The images of a page but tiny ones, huge ones and scans of the whole page."""
        try:
            page = self._page(number)
            for info in page.get_image_info(xrefs=True):
                box = _mupdf.Rect(info["bbox"]) & page.rect
                small = min(info["width"], info["height"]) < _TINY or min(box.width, box.height) < 10
                if small or info["width"] * info["height"] > _HUGE or abs(box) > abs(page.rect) * 0.85 or not info["xref"]:
                    continue
                yield Picture(tuple(box), _png(self._pdf, info["xref"]))
        except _BROKEN:
            return

    def outline(self) -> list[tuple[int, str, int]]:
        """(level, title, page from 1)."""
        try:
            return [(level, title, page) for level, title, page, *_ in self._pdf.get_toc()]
        except _BROKEN:
            return []

    def metadata(self) -> dict[str, str]:
        """title, author, dates, language and the names of attachments, as they stand in the file."""
        info = self._pdf.metadata or {}
        found = {"title": info.get("title"), "author": info.get("author"), "keywords": info.get("keywords")}
        found |= {"date": info.get("creationDate"), "modified": info.get("modDate")}
        try:
            found["language"] = self._pdf.xref_get_key(self._pdf.pdf_catalog(), "Lang")[1]
            found["attachments"] = ", ".join(self._pdf.embfile_names()[:20])
        except _BROKEN:
            pass
        found["repaired"] = "its cross-reference table was damaged and rebuilt" if self._pdf.is_repaired else ""
        return {key: cleaned(value) for key, value in found.items() if value and value != "null"}

    def close(self) -> None:
        """Give the memory back."""
        self._loaded = (-1, None)
        self._pdf.close()

    def _few_rules(self, page: Any) -> bool:
        """Whether the page draws so little that all of it may be asked for. Bombs are not unpacked to find out."""
        streams = [_stream(self._pdf, xref) for xref in page.get_contents()]
        drawn = sum(len(_DRAWN.findall(stream)) for stream in streams)
        return drawn < _MOST_RULES and sum(map(len, streams)) < _STREAM


def _hide_fields(page: Any) -> None:
    """Take the values of form fields out of what the page shows: MuPDF would give them as text, before their labels."""
    with contextlib.suppress(*_BROKEN):  # a broken field costs no page
        field = _mupdf.mupdf.pdf_first_widget(page._pdf_page())
        while field.m_internal:
            _mupdf.mupdf.pdf_set_annot_flags(field, _mupdf.mupdf.pdf_annot_flags(field) | _mupdf.PDF_ANNOT_IS_HIDDEN)
            field = _mupdf.mupdf.pdf_next_widget(field)


def _fields(page: Any) -> list[str]:
    """`name: value` of each form field that has both, up to one that is broken."""
    found = []
    with contextlib.suppress(*_BROKEN):
        for widget in page.widgets():
            found.append(_field(widget))
    return [line for line in found if line]


def _lines(block: Mapping[str, Any]) -> Iterator[Line]:
    for line in block["lines"]:
        spans = line["spans"]
        text = _text(spans)
        if not text.strip():
            continue
        inked = [span for span in spans if not _of(span).isspace()] or spans
        longest = max(inked, key=lambda span: span["bbox"][2] - span["bbox"][0]) if len(inked) > 1 else inked[0]
        flags = [span["flags"] for span in inked]
        yield Line(
            text,
            line["bbox"],
            round(longest["size"] * 2) / 2,
            all(flag & _MONOSPACED for flag in flags),
            all(flag & _BOLD for flag in flags) or _bold_name(inked),
            all(flag & _ITALIC for flag in flags),
            all(span["alpha"] == 0 for span in inked),
            _angle(line["dir"]),
        )


def _of(span: Mapping[str, Any]) -> str:
    return span["text"] if "text" in span else "".join(char["c"] for char in span["chars"])


def _bold_name(spans: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        "bold" in (name := span["font"].lower()) or "black" in name or name.endswith(("-bd", "cmbx10")) for span in spans
    )


def _text(spans: Sequence[Mapping[str, Any]]) -> str:
    if "chars" not in spans[0]:
        return cleaned("".join(span["text"] for span in spans))
    chars = [char for span in spans for char in span["chars"]]
    if not any(RTL.match(char["c"]) for char in chars):
        return cleaned("".join(char["c"] for char in chars))
    return cleaned(logical([(char["bbox"][0], char["bbox"][2], char["c"]) for char in chars]))


def _angle(direction: Sequence[float]) -> int:
    """Degrees clockwise, small ones as none: a scan is never quite level."""
    if direction[0] > 0.996:
        return 0
    degrees = round(math.degrees(math.atan2(direction[1], direction[0]))) % 360
    nearest = round(degrees / 90) * 90
    return nearest % 360 if abs(degrees - nearest) <= 5 else round(degrees / 5) * 5 % 360


def _comment(page: Any, note: Any) -> str:
    """`Author: comment`, and the words it marks. Links, fields and popups are none."""
    if note.type[0] in (_mupdf.PDF_ANNOT_LINK, _mupdf.PDF_ANNOT_WIDGET, _mupdf.PDF_ANNOT_POPUP):
        return ""
    author, said = note.info.get("title", "").strip(), " ".join(note.info.get("content", "").split())
    marks = note.type[0] in (
        _mupdf.PDF_ANNOT_HIGHLIGHT,
        _mupdf.PDF_ANNOT_UNDERLINE,
        _mupdf.PDF_ANNOT_STRIKE_OUT,
        _mupdf.PDF_ANNOT_SQUIGGLY,
    )
    words = page.get_text("words", flags=_TEXT, clip=note.rect) if marks else []
    marked = " ".join(word[4] for word in words if _mupdf.Point((word[0] + word[2]) / 2, (word[1] + word[3]) / 2) in note.rect)[
        :500
    ]
    text = " ".join(part for part in (said, f"“{marked}”" if marked and marked != said else "") if part)
    return cleaned(f"{author}: {text}" if author and text else text)


def _field(widget: Any) -> str:
    name = " ".join((widget.field_label or widget.field_name or "").split())
    value = widget.field_value
    text = " ".join(str(value).split()) if value not in (None, False) else ""
    if widget.field_type in (_mupdf.PDF_WIDGET_TYPE_BUTTON, _mupdf.PDF_WIDGET_TYPE_SIGNATURE) or not name or not text:
        return ""
    return cleaned(f"{name}: {text}")


def _png(pdf: Any, xref: int) -> bytes:
    pixels = _mupdf.Pixmap(pdf, xref)
    if pixels.colorspace is None or pixels.colorspace.n > 3:
        pixels = _mupdf.Pixmap(_mupdf.csRGB, pixels)
    return bytes(pixels.tobytes("png"))


def _stream(pdf: Any, xref: int) -> bytes:
    """The beginning of a stream. MuPDF would unpack all of it, a bomb too."""
    raw = pdf.xref_stream_raw(xref) or b""
    filters = pdf.xref_get_key(xref, "Filter")[1].strip("[] ")
    if filters == "null":
        return bytes(raw[:_STREAM])
    try:
        return zlib.decompressobj().decompress(raw, _STREAM) if filters == "/FlateDecode" else b""
    except zlib.error:
        return b""
