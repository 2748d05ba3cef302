"""Pages through pypdfium2 (Apache-2.0 or BSD), for those whom PyMuPDF's AGPL does not suit: `pip install "chunkmill[pdfium]"`.

Lines are put together from the places of their characters. Beside PyMuPDF it lacks: comments and form fields, rules drawn in
form objects, and the weight of fonts that don't declare it.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.pdf.scripts import CJK, RTL, cleaned, logical
from chunkmill.io.parsers.pdf.shapes import Box, Damaged, Extra, Line, Picture, Raw

try:
    _pdfium: Any = importlib.import_module("pypdfium2")  # it carries no types
    _c: Any = importlib.import_module("pypdfium2.raw")
except ImportError as _error:
    raise DocumentError("unsupported", 'formats.pdf.engine is pypdfium2: pip install "chunkmill[pdfium]"') from _error

_MOST_OBJECTS = 20_000
_TINY, _HUGE = 32, 25_000_000  # pixels: of a side, of an image
_INVISIBLE = 3
_SAMPLE = 12  # characters from one look at the font to the next


class _Char(NamedTuple):
    text: str
    box: Box  # as the page is shown


class _Look(NamedTuple):
    size: float
    mono: bool
    bold: bool
    italic: bool
    hidden: bool
    angle: int


class Pdfium:
    """An open PDF."""

    def __init__(self, data: bytes) -> None:
        try:
            self._pdf = _pdfium.PdfDocument(data)
        except _pdfium.PdfiumError as error:
            if "password" in str(error).lower():
                raise DocumentError("encrypted", "needs a password") from error
            raise DocumentError("corrupt", f"not readable as PDF: {error}"[:300]) from error
        self.count: int = len(self._pdf)
        self._loaded: tuple[int, Any] = (-1, None)

    def _page(self, number: int) -> Any:
        if self._loaded[0] != number:
            self._loaded = (-1, None)
            try:
                self._loaded = (number, self._pdf[number])
            except _pdfium.PdfiumError as error:
                raise Damaged(str(error)) from error
        return self._loaded[1]

    def page(self, number: int) -> Raw:
        """Text and rules of a page."""
        page = self._page(number)
        try:
            width, height = page.get_size()
            place = _placing(page)
            return Raw(width, height, _lines(page.get_textpage(), place, (0.0, 0.0, width, height)), _rules(page, place))
        except (_pdfium.PdfiumError, ValueError, ZeroDivisionError) as error:
            raise Damaged(str(error)) from error

    def words(self, number: int) -> list[Line]:
        """The page's words."""
        page = self._page(number)
        width, height = page.get_size()
        return _lines(page.get_textpage(), _placing(page), (0.0, 0.0, width, height), words=True)

    def covered(self, number: int) -> tuple[float, int]:
        """The share of the page under images, and the pixels of the largest."""
        try:
            page = self._page(number)
            width, height = page.get_size()
            area, largest = 0.0, 0
            for image in page.get_objects(filter=[_c.FPDF_PAGEOBJ_IMAGE], max_depth=3):
                x0, y0, x1, y1 = image.get_bounds()
                area += max(0.0, min(x1, width + height) - max(x0, 0)) * max(0.0, min(y1, width + height) - max(y0, 0))
                w, h = image.get_px_size()
                largest = max(largest, w * h)
            return area / max(1.0, width * height), largest
        except (_pdfium.PdfiumError, Damaged):
            return 0.0, 0

    def rendered(self, number: int, scale: float) -> bytes:
        """The page as a grey PNM."""
        try:
            bitmap = self._page(number).render(scale=scale, grayscale=True)
        except (_pdfium.PdfiumError, MemoryError) as error:
            raise Damaged(str(error)) from error
        return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + _packed(bitmap, 1)

    def extras(self, number: int, annotations: bool, form_fields: bool) -> list[Extra]:
        """Nothing: comments and fields need the other engine."""
        return []

    def pictures(self, number: int) -> Iterator[Picture]:
        """The images of a page but tiny ones, huge ones and scans of the whole page."""
        try:
            page = self._page(number)
            width, height = page.get_size()
            place = _placing(page)
            for image in page.get_objects(filter=[_c.FPDF_PAGEOBJ_IMAGE], max_depth=1):
                box, (w, h) = place(*image.get_bounds()), image.get_px_size()
                whole = (box[2] - box[0]) * (box[3] - box[1]) > width * height * 0.85
                if min(w, h) >= _TINY and min(box[2] - box[0], box[3] - box[1]) >= 10 and w * h <= _HUGE and not whole:
                    yield Picture(box, _png(image.get_bitmap()))
        except (_pdfium.PdfiumError, Damaged):
            return

    def outline(self) -> list[tuple[int, str, int]]:
        """(level, title, page from 1)."""
        entries = []
        try:
            for mark in self._pdf.get_toc():
                dest = mark.get_dest()
                at = dest.get_index() if dest else None
                entries.append((mark.level + 1, mark.get_title(), at + 1 if at is not None else -1))
        except (_pdfium.PdfiumError, ValueError):
            pass
        return entries

    def metadata(self) -> dict[str, str]:
        """title, author, dates, language and the names of attachments, as they stand in the file."""
        info = self._pdf.get_metadata_dict()
        found = {"title": info.get("Title"), "author": info.get("Author"), "keywords": info.get("Keywords")}
        found |= {"date": info.get("CreationDate"), "language": _language(self._pdf)}
        try:
            files = [self._pdf.get_attachment(at).get_name() for at in range(min(20, self._pdf.count_attachments()))]
            found["attachments"] = ", ".join(files)
        except _pdfium.PdfiumError:
            pass
        return {key: cleaned(value) for key, value in found.items() if value}

    def close(self) -> None:
        """Give the memory back."""
        self._loaded = (-1, None)
        self._pdf.close()


def _language(pdf: Any) -> str:
    size = _c.FPDFCatalog_GetLanguage(pdf, None, 0)
    if size < 4:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    _c.FPDFCatalog_GetLanguage(pdf, buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


def _placing(page: Any) -> Any:
    """A function from (left, bottom, right, top) in the file's coordinates to a box as the page is shown."""
    bounds = _c.FS_RECTF()
    _c.FPDF_GetPageBoundingBox(page, bounds)
    left, bottom, right, top = bounds.left, bounds.bottom, bounds.right, bounds.top
    turn = page.get_rotation()

    def place(x0: float, y0: float, x1: float, y1: float) -> Box:
        if turn == 90:
            return y0 - bottom, x0 - left, y1 - bottom, x1 - left
        if turn == 180:
            return right - x1, y0 - bottom, right - x0, y1 - bottom
        if turn == 270:
            return top - y1, right - x1, top - y0, right - x0
        return x0 - left, top - y1, x1 - left, top - y0

    place.turn = turn  # type: ignore[attr-defined]  # told beside what it does
    return place


def _lines(text: Any, place: Any, page: Box, *, words: bool = False) -> list[Line]:
    """The lines of a page in the file's order; a wide gap begins another, as in tables."""
    lines: list[Line] = []
    run: list[_Char] = []
    look = _Look(0, False, False, False, False, 0)
    since = 0
    for at in range(text.count_chars()):
        char = _char(text, at, place)
        if char is None or (words and char.text.isspace()):
            lines += _line(run, look, page)
            run = []
            continue
        if run and look.angle == 0 and _below(run[-1], char):
            look = look._replace(angle=90)  # written from top to bottom
        elif run and _apart(run[-1], char, look):
            lines += _line(run, look, page)
            run = []
        if not char.text.isspace() and (not run or since >= _SAMPLE or run[-1].text.isspace()):
            seen = _look(text, at, place)
            seen = seen._replace(angle=90) if run and look.angle == 90 and CJK.match(char.text) else seen
            if run and (seen.angle != look.angle or (abs(seen.size - look.size) > 0.35 * look.size and len(run) > 1)):
                lines += _line(run, look, page)
                run = []
            if run:
                seen = seen._replace(
                    size=max(look.size, seen.size),
                    mono=look.mono and seen.mono,
                    bold=look.bold and seen.bold,
                    italic=look.italic and seen.italic,
                )
            look, since = seen, 0
        since += 1
        run.append(char)
    return lines + _line(run, look, page)


def _char(text: Any, at: int, place: Any) -> _Char | None:
    """A character and where it is; None at the end of a line."""
    code = _c.FPDFText_GetUnicode(text, at)
    if code in (10, 13):
        return None
    if code == 2:  # PDFium's mark for a hyphen at a line's end
        code = 0x2D
    box = _c.FS_RECTF()
    _c.FPDFText_GetLooseCharBox(text, at, box)
    return _Char(chr(code) if code else "\ufffd", place(box.left, box.bottom, box.right, box.top))


def _apart(last: _Char, char: _Char, look: _Look) -> bool:
    """Whether a character stands too far from the one before to be on its line."""
    a, b = last.box, char.box
    if look.angle % 180 == 90:
        a, b = (a[1], a[0], a[3], a[2]), (b[1], b[0], b[3], b[2])
    tall = max(a[3] - a[1], b[3] - b[1], 1.0)
    if char.text.isspace() and b[2] - b[0] < 0.01:
        return False
    if look.angle % 90:
        return abs(a[0] - b[0]) + abs(a[1] - b[1]) > 3 * tall
    gap = max(b[0] - a[2], a[0] - b[2])
    return abs((a[1] + a[3]) - (b[1] + b[3])) > tall * 1.1 or gap > 0.85 * tall


def _below(last: _Char, char: _Char) -> bool:
    """Whether an ideograph stands under the one before."""
    a, b = last.box, char.box
    tall = a[3] - a[1]
    under = abs((a[0] + a[2]) - (b[0] + b[2])) < 0.6 * tall and 0.4 * tall < (b[1] + b[3] - a[1] - a[3]) / 2 < 1.6 * tall
    return under and CJK.match(last.text) is not None and CJK.match(char.text) is not None


def _look(text: Any, at: int, place: Any) -> _Look:
    """How a character is set."""
    matrix = _c.FS_MATRIX()
    _c.FPDFText_GetMatrix(text, at, matrix)
    size = _c.FPDFText_GetFontSize(text, at) * (math.hypot(matrix.c, matrix.d) or 1.0)
    flags, name = ctypes.c_int(), ctypes.create_string_buffer(128)
    _c.FPDFText_GetFontInfo(text, at, name, 128, flags)
    font = name.value.decode("utf-8", "replace").lower()
    mode = _c.FPDFTextObj_GetTextRenderMode(_c.FPDFText_GetTextObject(text, at))
    degrees = round((place.turn - math.degrees(math.atan2(matrix.b, matrix.a))) % 360)
    nearest = round(degrees / 90) * 90
    return _Look(
        round(size * 2) / 2,
        bool(flags.value & 1) or "mono" in font or "courier" in font,
        _c.FPDFText_GetFontWeight(text, at) >= 600 or "bold" in font or "black" in font,
        bool(flags.value & 64) or "italic" in font or "oblique" in font,
        mode == _INVISIBLE,
        nearest % 360 if abs(degrees - nearest) <= 5 else round(degrees / 5) * 5 % 360,
    )


def _line(run: list[_Char], look: _Look, page: Box) -> list[Line]:
    """The characters as a line; none where there is no ink, or none on the page."""
    while run and run[-1].text.isspace():
        run = run[:-1]
    inked = [char for char in run if not char.text.isspace()]
    if not inked:
        return []
    text = "".join(char.text for char in run)
    if RTL.search(text):
        text = logical([(char.box[0], char.box[2], char.text) for char in run])
    box = (
        min(char.box[0] for char in inked),
        min(char.box[1] for char in inked),
        max(char.box[2] for char in inked),
        max(char.box[3] for char in inked),
    )
    outside = box[2] < page[0] or box[0] > page[2] or box[3] < page[1] or box[1] > page[3]
    text = cleaned(text)
    return [] if outside or not text.strip() else [Line(text, box, *look)]


def _rules(page: Any, place: Any) -> list[Box]:
    """Boxes of the straight pieces of drawn paths, and of rectangles."""
    rules: list[Box] = []
    for seen, path in enumerate(page.get_objects(filter=[_c.FPDF_PAGEOBJ_PATH], max_depth=1)):
        if seen > _MOST_OBJECTS:
            return []
        segments = _c.FPDFPath_CountSegments(path)
        if segments <= 5:
            rules.append(place(*path.get_bounds()))
        elif segments < 2000:
            rules += [place(*box) for box in _pieces(path, segments)]
    return rules


def _pieces(path: Any, segments: int) -> Iterator[Box]:
    m = path.get_matrix()
    x, y = ctypes.c_float(), ctypes.c_float()
    last: tuple[float, float] | None = None
    for at in range(segments):
        segment = _c.FPDFPath_GetPathSegment(path, at)
        _c.FPDFPathSegment_GetPoint(segment, x, y)
        point = (m.a * x.value + m.c * y.value + m.e, m.b * x.value + m.d * y.value + m.f)
        if last is not None and _c.FPDFPathSegment_GetType(segment) == _c.FPDF_SEGMENT_LINETO:
            yield min(last[0], point[0]), min(last[1], point[1]), max(last[0], point[0]), max(last[1], point[1])
        last = point


def _packed(bitmap: Any, channels: int) -> bytes:
    """The bitmap's rows without what pads them, RGB where there are colours."""
    rows = bytes(bitmap.buffer)
    step, width = bitmap.stride, bitmap.width * channels
    return b"".join(rows[at : at + width] for at in range(0, step * bitmap.height, step))


def _png(bitmap: Any) -> bytes:
    """A bitmap as PNG: grey, or BGR(x) turned to RGB."""
    channels = bitmap.n_channels
    pixels = bytearray(_packed(bitmap, channels))
    if channels >= 3:
        rgb = bytearray(len(pixels) // channels * 3)
        for to, source in enumerate((2, 1, 0)):
            rgb[to::3] = pixels[source::channels]
        pixels = rgb
    depth = 3 if channels >= 3 else 1
    width = bitmap.width * depth
    raw = b"".join(b"\0" + pixels[at : at + width] for at in range(0, width * bitmap.height, width))
    head = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, 2 if depth == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(*part) for part in ((b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
