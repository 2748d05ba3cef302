"""PDF: what a reader of its pages would read, in that order.

Text is taken from the text layer (an engine: PyMuPDF or pypdfium2), pages without one that can be used by OCR. Columns are read
one after another; headers, footers, page numbers and printed line numbers are left out and kept as metadata. Headings come from
the outline, else from sizes, weight and numbers. Tables are those with drawn cells, and those whose cells line up. A block's
page is the one it begins on. Invisible text is left out where more visible text stands on the page, unless pictures cover that;
white text is kept: its colour alone does not say that nobody sees it. Text beyond the page's edges is left out, small text at
an angle comes last. What was typed into form fields comes on request.
Attached files are named in the metadata and not opened; no script is run and no link followed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence

from chunkmill.chunkers.base import Block, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Image, Parsed
from chunkmill.io.parsers.pdf.furniture import without_furniture
from chunkmill.io.parsers.pdf.headings import Outline
from chunkmill.io.parsers.pdf.ranges import all_sheets
from chunkmill.io.parsers.pdf.shapes import Engine, Picture, Sheet
from chunkmill.io.parsers.pdf.sheets import Options, opened, options_of
from chunkmill.io.parsers.pdf.writing import Run, written
from chunkmill.io.parsers.text import mend

_PICTURES = 200  # a document
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?")
_NO_TITLE = re.compile(
    r"untitled.*|document\d*|title|slide \d+|unknown|none|\W*|microsoft (?:word|powerpoint|excel) - .*|"
    r".*\.(?:docx?|dvi|indd|tex|qxd|p65|fm|pptx?|xlsx?|pdf|rtf|odt|pages)",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """One document, page numbers on its blocks."""
    asked = options_of(options)
    if b"obj" not in data and not data.startswith(b"%PDF-"):
        raise DocumentError("type_mismatch", "named like a PDF, but there is no object of one in it")
    pdf = opened(data, asked.engine)
    try:
        if not pdf.count:
            raise DocumentError("corrupt", "has no pages")
        found = all_sheets(data, pdf, asked)
        _refuse(found)
        yield _document(pdf, found, asked)
    finally:
        pdf.close()


def _document(pdf: Engine, found: Sequence[Sheet], options: Options) -> Parsed:
    kept, furniture = without_furniture(found)
    out, runs = written(kept, Outline(pdf.outline()))
    parsed = out.document({})
    metadata = _metadata(pdf.metadata(), parsed) | furniture
    counts = {
        "pages": pdf.count,
        "hidden": sum(s.hidden for s in found),
        "damaged_pages": sum(s.state == "damaged" for s in found),
    }
    metadata |= {key: str(count) for key, count in counts.items() if count}
    if read := sum(sheet.state == "ocr" for sheet in found):
        metadata["ocr_pages"] = str(read)
    if warning := _warning(found):
        metadata["warning"] = warning
    images = _images(parsed, runs, found) if options.images else ()
    return _mended(parsed._replace(metadata=metadata, images=images))


def _refuse(found: Sequence[Sheet]) -> None:
    """Raise where there is nothing to read."""
    if any(sheet.leaves or sheet.extras for sheet in found):
        return
    states = [sheet.state for sheet in found]
    known = {"pages": str(len(found))}
    if "damaged" in states and set(states) <= {"damaged", "empty", "unread"}:
        note = next(sheet.note for sheet in found if sheet.state == "damaged")
        raise DocumentError("corrupt", f"none of its {len(found)} pages can be read: {note}"[:300], known)
    note = next((sheet.note for sheet in found if sheet.note), "")
    why = f": {note}" if note else ""
    if "garbage" in states:
        raise DocumentError("no_text", f"its fonts don't say which characters their glyphs are (it needs OCR{why})", known)
    none = f"none of its {len(found)} pages has a text layer"
    if "scan" in states:
        raise DocumentError("no_text", f"{none}; {states.count('scan')} hold pictures (a scan needs OCR{why})", known)
    if "unread" in states:
        raise DocumentError("no_text", f"{none}, and OCR found no words on {states.count('unread')} with pictures", known)
    if fields := sum(sheet.fields for sheet in found):
        raise DocumentError("no_text", f"{none}; {fields} form fields have values (form_fields: true reads them)", known)
    raise DocumentError("no_text", f"{none}: they are blank or hold drawings only", known)


def _warning(found: Sequence[Sheet]) -> str:
    """What was lost or is doubtful, in one line."""
    said = {
        "damaged": "could not be read",
        "scan": "have no text layer",
        "garbage": "have fonts that don't say which characters their glyphs are; left out",
        "doubtful": "have text that makes no words (a font without a map to Unicode?); kept",
    }
    parts = []
    for state, words in said.items():
        pages = [sheet for sheet in found if sheet.state == state]
        if pages:
            note = next((f" ({sheet.note})" for sheet in pages if sheet.note), "")
            parts.append(f"{len(pages)} of {len(found)} pages {words}{note}: {_listed([sheet.number for sheet in pages])}")
    if unknown := sum(sheet.unknown for sheet in found):
        parts.append(f"{unknown} lines left out: their font doesn't say which characters its glyphs are")
    if fields := sum(sheet.fields for sheet in found if not any(extra.kind == "record" for extra in sheet.extras)):
        parts.append(f"{fields} values of form fields left out (form_fields: true reads them)")
    return "; ".join(parts)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:20])) + (", …" if len(numbers) > 20 else "")


def _metadata(info: Mapping[str, str], parsed: Parsed) -> dict[str, str]:
    """What the file says of itself, mended; the first heading where its title is none."""
    tidy = {key: " ".join(mend(html.unescape(value))[0].split())[:500] for key, value in info.items()}
    title = "" if _NO_TITLE.fullmatch(tidy.get("title", "")) else tidy.get("title", "")
    language = tidy.get("language", "")
    found = {
        "title": title or _first_heading(parsed),
        "author": ""
        if tidy.get("author", "").lower() in ("unknown", "user", "admin", "administrator")
        else tidy.get("author", ""),
        "date": _date(tidy.get("date", "")),
        "language": language.replace("_", "-") if _LANGUAGE.fullmatch(language) else "",
        "keywords": tidy.get("keywords", ""),
        "attachments": tidy.get("attachments", ""),
        "repaired_file": tidy.get("repaired", ""),
    }
    return {key: value for key, value in found.items() if value}


def _first_heading(parsed: Parsed) -> str:
    block = next((b for b in parsed.blocks if b.kind == "heading" and (b.page or 1) <= 2), None)
    return parsed.text[slice(*block.span)] if block else ""


def _date(stamp: str) -> str:
    """`D:20200131120000+01'00'` as 2020-01-31."""
    match = _DATE.match(stamp)
    if not match or not 1900 < int(match[1]) < 2200:
        return ""
    return "-".join(part for part in match.groups() if part)


def _images(parsed: Parsed, runs: Sequence[tuple[int, Run]], found: Sequence[Sheet]) -> tuple[Image, ...]:
    """The pictures, each at its caption: the nearest one on its page, below it rather than above."""
    images: list[Image] = []
    for sheet in found:
        captions = [
            (b, r) for b, (page, r) in zip(parsed.blocks, runs, strict=True) if page == sheet.number and b.kind == "figure"
        ]
        for picture in sheet.pictures[: _PICTURES - len(images)]:
            block = _caption(picture, captions)
            span = block.span if block else _place(parsed, sheet.number)
            caption = parsed.text[slice(*span)] if block else ""
            images.append(Image(span, picture.png, sheet.number, picture.box, caption))
    return tuple(images)


def _caption(picture: Picture, captions: Sequence[tuple[Block, Run]]) -> Block | None:
    def distance(run: Run) -> float:
        top, bottom = run.rows[0].box[1], run.rows[-1].box[3]
        return top - picture.box[3] if top >= picture.box[3] - 20 else 2 * (picture.box[1] - bottom) + 20

    near = [(abs(distance(run)), at) for at, (_, run) in enumerate(captions) if run.rows and -40 < distance(run) < 250]
    return captions[min(near)[1]][0] if near else None


def _place(parsed: Parsed, page: int) -> Span:
    """An empty span where the page's text begins."""
    start = next((b.span.start for b in parsed.blocks if (b.page or 1) >= page), len(parsed.text))
    return Span(start, start)


def _mended(parsed: Parsed) -> Parsed:
    text, repaired = mend(parsed.text)
    if len(text) != len(parsed.text):  # a pair of surrogates became one character: keep the spans, mark both halves
        text, repaired = re.subn("[\ud800-\udfff]", "\ufffd", parsed.text)
    return parsed._replace(text=text, metadata=parsed.metadata | ({"repaired": str(repaired)} if repaired else {}))
