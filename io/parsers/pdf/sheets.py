"""Pages of one PDF as sheets: laid out, judged, and read by OCR where their text can't be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.pdf import ocr
from chunkmill.io.parsers.pdf.layout import arranged
from chunkmill.io.parsers.pdf.scripts import is_unknown, quality
from chunkmill.io.parsers.pdf.shapes import Damaged, Engine, Extra, Picture, Raw, Sheet

_FEW = 16  # letters: less than this on a page of images is a stamp on a scan
_OUTLINES = 100  # rules and curves on a page without text: its letters may be drawn
_PICTURES = 40  # a page


class Options(NamedTuple):
    """The settings of the format."""

    engine: str = "pymupdf"
    ocr: str = "auto"
    ocr_languages: str = ""
    annotations: bool = False
    form_fields: bool = False
    images: bool = False


def options_of(settings: Mapping[str, object]) -> Options:
    """The settings checked; those of other names are not ours."""
    ocr = settings.get("ocr")
    languages = settings.get("ocr_languages") or ""
    found = Options(
        str(settings.get("engine") or "pymupdf"),
        "auto" if ocr in (None, True) else "off" if ocr is False else str(ocr),  # YAML reads a bare off as false
        languages if isinstance(languages, str) else "+".join(map(str, languages)) if isinstance(languages, Sequence) else "",
        *(bool(settings.get(name, False)) for name in ("annotations", "form_fields", "images")),
    )
    if found.ocr not in ("auto", "off", "force"):
        raise DocumentError("unsupported", f"formats.pdf.ocr is {found.ocr!r}; choose one of: auto, force, off")
    return found


def opened(data: bytes, engine: str) -> Engine:
    """The PDF in the engine of that name."""
    if engine == "pymupdf":
        from chunkmill.io.parsers.pdf.mupdf import Mupdf

        return Mupdf(data)
    if engine == "pypdfium2":
        from chunkmill.io.parsers.pdf.pdfium import Pdfium

        return Pdfium(data)
    raise DocumentError("unsupported", f"formats.pdf.engine is {engine!r}; choose one of: pymupdf, pypdfium2")


def sheets(pdf: Engine, numbers: Sequence[int], options: Options) -> Iterator[Sheet]:
    """These pages (counted from 0), one after another."""
    for number in numbers:
        sheet = _sheet(pdf, number, options)
        if sheet.state != "damaged":
            extras = _extras(pdf, number, options)
            pictures = _pictures(pdf, number) if options.images else ()
            sheet = sheet._replace(extras=extras, pictures=pictures)
        yield sheet


def _extras(pdf: Engine, number: int, options: Options) -> tuple[Extra, ...]:
    if not (options.annotations or options.form_fields):
        return ()
    return tuple(pdf.extras(number, options.annotations, options.form_fields))


def _pictures(pdf: Engine, number: int) -> tuple[Picture, ...]:
    return tuple(picture for picture, _ in zip(pdf.pictures(number), range(_PICTURES), strict=False))


def _sheet(pdf: Engine, number: int, options: Options) -> Sheet:
    try:
        raw = pdf.page(number)
    except Damaged as error:
        return Sheet(number + 1, 0, 0, [], "damaged", note=str(error)[:200])
    raw, hidden = _visible(pdf, number, raw)
    state, note = _state(pdf, number, raw), ""
    raw, unknown = _known(raw)
    if options.ocr == "force" or (options.ocr == "auto" and state in ("scan", "garbage", "doubtful")):
        read = ocr.read(pdf, number, raw, options.ocr_languages)
        if isinstance(read, list) and (any(read) or not raw.lines or options.ocr == "force"):
            return Sheet(number + 1, raw.width, raw.height, read, "ocr" if any(read) else "unread", hidden)
        state, note = (state, read) if isinstance(read, str) else ("" if state == "scan" else state, "OCR found no words")
    width, height, leaves = arranged(raw, number + 1, lambda: pdf.words(number)) if raw.lines else (raw.width, raw.height, [])
    leaves = leaves if state != "garbage" else []
    return Sheet(number + 1, width, height, leaves, state, hidden, note, raw.fields, unknown=unknown)


def _visible(pdf: Engine, number: int, raw: Raw) -> tuple[Raw, int]:
    """Without invisible text among visible, and how many lines that were.

    Most of a page's text, or any on a page of pictures, is what OCR put under a scan: that is kept.
    """
    shown = sum(len(line.text) for line in raw.lines if not line.hidden)
    hidden = sum(len(line.text) for line in raw.lines if line.hidden)
    if not 0 < hidden < shown or pdf.covered(number)[0] > 0.5:
        return raw, 0
    kept = [line for line in raw.lines if not line.hidden]
    return raw._replace(lines=kept), len(raw.lines) - len(kept)


def _known(raw: Raw) -> tuple[Raw, int]:
    """Without lines of nothing but characters that their font doesn't name, and how many those are."""
    kept = [line for line in raw.lines if not is_unknown(line.text)]
    return raw._replace(lines=kept), len(raw.lines) - len(kept)


def _state(pdf: Engine, number: int, raw: Raw) -> str:
    text = "".join(line.text for line in raw.lines)
    letters = sum(c.isalnum() for c in text[: 20 * _FEW])
    if letters < _FEW:
        share, _ = pdf.covered(number)
        if share > 0.25 or (not letters and (share > 0 or len(raw.rules) > _OUTLINES)):
            return "scan" if letters < 4 or share > 0.5 else ""
        if not text.strip():
            return "empty"
    return quality("\n".join(line.text for line in raw.lines))
