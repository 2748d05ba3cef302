"""PDF through PyMuPDF: paragraphs, headings by size or outline, ruled tables, pages."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pymupdf

from chunkmill.chunkers.base import Kind
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import Canonical, mend

_mupdf: Any = pymupdf  # it carries no types
_mupdf.TOOLS.mupdf_display_errors(False)
_mupdf.TOOLS.mupdf_display_warnings(False)
_mupdf.no_recommend_layout()

_FLAGS = pymupdf.TEXT_MEDIABOX_CLIP  # no images; ligatures are taken apart; alpha 0 is text in invisible mode
_MONOSPACED, _BOLD = 8, 16
_HEADING_FACTOR, _BOLD_HEADING_FACTOR = 1.15, 1.05
_HEADING_LENGTH = 200
_RULES = 6  # drawn lines and rectangles from which on a page looks tabular
_STREAM = 1 << 22
_MOST_RULES = 5000  # a page with more is a drawing
_BULLET = re.compile(r"[•◦▪‣●○■–—*-]\s|\(?(?:\d{1,3}|[a-z])[.)]\s")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_MEANINGLESS = re.compile("[\ufffd\x00-\x08\x0e-\x1f\ue000-\uf8ff]")


class _Line(NamedTuple):
    text: str
    box: tuple[float, float, float, float]
    size: float
    mono: bool
    bold: bool
    hidden: bool


class _Run(NamedTuple):
    """Lines that make one block: of one kind, one after another."""

    kind: Kind
    lines: list[_Line]
    size: float = 0.0
    rows: tuple[str, ...] = ()


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The text layer of all pages, page numbers on the blocks."""
    with _opened(data) as pdf:
        pages, hidden, damaged = [], 0, 0
        for number in range(pdf.page_count):
            runs, unseen = _page(pdf, number)
            pages.append(runs)
            hidden, damaged = hidden + max(0, unseen), damaged + (unseen < 0)
        if damaged == len(pages):
            raise DocumentError("corrupt", f"none of its {damaged} pages can be read")
        _refuse_textless(pages)
        out = _written(pages, _outline(pdf))
        metadata = {key: mend(str(pdf.metadata.get(key) or ""))[0].strip() for key in ("title", "author")}
        counts = {"pages": pdf.page_count, "hidden": hidden, "damaged_pages": damaged}
        metadata |= {key: str(count) for key, count in counts.items() if count}
    yield _mended(out.document({key: value for key, value in metadata.items() if value}))


def _opened(data: bytes) -> Any:
    try:
        pdf = _mupdf.open(stream=data, filetype="pdf")
    except Exception as error:  # MuPDF's own errors share no base but this
        raise DocumentError("corrupt", f"not readable as PDF: {error}"[:300]) from error
    if pdf.needs_pass:
        raise DocumentError("encrypted", "needs a password")
    if not pdf.page_count:
        raise DocumentError("corrupt", "has no pages")
    return pdf


def _page(pdf: Any, number: int) -> tuple[list[_Run], int]:
    """The runs of a page in reading order, and how many invisible lines were left out; -1 where the page is damaged."""
    try:
        page = pdf[number]
        blocks = page.get_text("dict", flags=_FLAGS)["blocks"]
    except (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase):
        return [], -1
    found = [lines for block in blocks if block["type"] == 0 and (lines := _lines(block))]
    shown = sum(len(line.text) for lines in found for line in lines if not line.hidden)
    hidden = sum(len(line.text) for lines in found for line in lines if line.hidden)
    unseen = 0
    if 0 < hidden < shown:  # else the invisible text is the layer that OCR put under a scan
        unseen = sum(line.hidden for lines in found for line in lines)
        found = [kept for lines in found if (kept := [line for line in lines if not line.hidden])]
    tables = _tables(page) if found else []
    runs: list[_Run] = []
    placed: set[int] = set()
    for lines in found:
        loose: list[_Line] = []
        for line in _columns(lines):
            at = _inside(line, tables)
            if at < 0:
                loose.append(line)
            elif at not in placed:
                runs += _runs(loose)
                loose, placed = [], placed | {at}
                runs.append(_Run("table", [], rows=tables[at][1]))
        runs += _runs(loose)
    return runs, unseen


def _lines(block: Mapping[str, Any]) -> list[_Line]:
    lines = []
    for line in block["lines"]:
        spans = [span for span in line["spans"] if span["text"]]
        text = "".join(span["text"] for span in spans).strip()
        if text:
            longest = max(spans, key=lambda span: len(span["text"]))
            mono = all(span["flags"] & _MONOSPACED for span in spans if span["text"].strip())
            bold = all(span["flags"] & _BOLD for span in spans if span["text"].strip())
            hidden = all(span.get("alpha", 255) == 0 for span in spans)
            indent = "".join(span["text"] for span in spans) if mono else text
            lines.append(
                _Line(indent.rstrip() if mono else text, line["bbox"], round(longest["size"] * 2) / 2, mono, bold, hidden)
            )
    return lines


def _columns(lines: list[_Line]) -> list[_Line]:
    """Lines of a block in reading order: where it runs across two columns of prose, the left one comes first."""
    across = [(a, b) for a, b in pairwise(lines) if abs(a.box[1] - b.box[1]) < 2 and b.box[0] - a.box[2] > 6]
    if len(across) < 3 or len(across) * 3 < len(lines):
        return lines
    gutter = (max(a.box[2] for a, _ in across) + min(b.box[0] for _, b in across)) / 2
    left = [line for line in lines if line.box[2] <= gutter]
    right = [line for line in lines if line.box[0] >= gutter]
    prose = min(_mean_length(left), _mean_length(right)) >= 20
    return left + right if prose and len(left) + len(right) == len(lines) else lines


def _mean_length(lines: Sequence[_Line]) -> float:
    return sum(len(line.text) for line in lines) / max(1, len(lines))


def _runs(lines: list[_Line]) -> list[_Run]:
    """Neighbouring lines of one size (and of one kind) together."""
    runs: list[_Run] = []
    for line in lines:
        kind: Kind = "code" if line.mono else "paragraph"
        last = runs[-1] if runs else None
        alike = last is not None and last.kind == kind and (kind == "code" or abs(last.size - line.size) <= last.size * 0.1)
        if last is not None and (alike or abs(line.box[1] - last.lines[-1].box[1]) < 1):
            last.lines.append(line)
        else:
            runs.append(_Run(kind, [line], line.size))
    return runs


def _tables(page: Any) -> list[tuple[tuple[float, float, float, float], tuple[str, ...]]]:
    """Box and rows (cells joined by " | ") of the ruled tables of a page. Searched only where lines are drawn."""
    try:
        if not _RULES <= _rules(page) <= _MOST_RULES:
            return []
        found = page.find_tables(strategy="lines_strict").tables
        tables = []
        for table in found:
            rows = [[" ".join((cell or "").split()) for cell in row] for row in table.extract()]
            rows = [row for row in rows if any(row)]
            if len(rows) > 1 and max(map(len, rows)) > 1 and _whole(page, table.bbox, rows):
                tables.append((tuple(table.bbox), tuple(" | ".join(row).strip() for row in rows)))
    except (RuntimeError, ValueError, IndexError, TypeError, ZeroDivisionError, AttributeError, pymupdf.mupdf.FzErrorBase):
        return []  # the table finder gives up on some drawings; the text stays as it is
    return tables


def _rules(page: Any) -> int:
    """How many strokes and rectangles the first megabytes of the page's streams hold, roughly."""
    return sum(len(re.findall(rb"\s(?:re|l)\s", _stream(page.parent, xref))) for xref in page.get_contents())


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


def _whole(page: Any, box: Sequence[float], rows: list[list[str]]) -> bool:
    """Whether the cells hold the text under the table, so that nothing is lost by taking them instead."""
    inside = "".join(page.get_text("text", clip=box, flags=_FLAGS).split())
    cells = "".join("".join(cell.split()) for row in rows for cell in row)
    return not Counter(inside) - Counter(cells)


def _inside(line: _Line, tables: Sequence[tuple[tuple[float, float, float, float], tuple[str, ...]]]) -> int:
    x, y = (line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2
    for at, ((x0, y0, x1, y1), _) in enumerate(tables):
        if x0 <= x <= x1 and y0 <= y <= y1:
            return at
    return -1


def _refuse_textless(pages: Sequence[Sequence[_Run]]) -> None:
    text = "".join(line.text for runs in pages for run in runs for line in run.lines) + "".join(
        row for runs in pages for run in runs for row in run.rows
    )
    if not text.strip():
        raise DocumentError("no_text", f"none of its {len(pages)} pages has a text layer (a scan needs OCR)")
    if len(_MEANINGLESS.findall(text)) > len(text) * 0.3:
        raise DocumentError("no_text", "its fonts don't say which characters their glyphs are (it needs OCR)")


def _outline(pdf: Any) -> dict[tuple[int, str], int]:
    """(page, bare title) → level, for the entries of the outline."""
    try:
        return {(page, _bare(title)): min(6, level) for level, title, page, *_ in pdf.get_toc()}
    except (RuntimeError, ValueError, IndexError, TypeError, pymupdf.mupdf.FzErrorBase):
        return {}


def _bare(title: str) -> str:
    return re.sub(r"[\W_]+", "", title).casefold()


def _written(pages: Sequence[Sequence[_Run]], outline: Mapping[tuple[int, str], int]) -> Canonical:
    sizes: Counter[float] = Counter()
    for run in (run for runs in pages for run in runs if run.kind == "paragraph"):
        sizes[run.size] += sum(len(line.text) for line in run.lines)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    words = Counter(
        word.casefold() for runs in pages for run in runs for line in run.lines for word in _WORD.findall(line.text)
    )
    big = [run for runs in pages for run in runs if _is_big(run, body)]
    level_of = {size: min(6, rank) for rank, size in enumerate(sorted({run.size for run in big}, reverse=True), 1)}
    out = Canonical()
    for number, runs in enumerate(pages, 1):
        for run in runs:
            if run.kind == "table":
                out.add("table", list(run.rows), page=number, seams=list(range(len(run.rows))))
                continue
            if run.kind == "code":
                out.add("code", [line.text for line in run.lines], page=number)
                continue
            text = _joined([line.text for line in run.lines], words)
            level = outline.get((number, _bare(text)), 0) if len(text) <= _HEADING_LENGTH else 0
            level = level or (level_of[run.size] if _is_big(run, body) else 0)
            title = " ".join(text.split()) if level else ""
            out.add("heading" if level else "paragraph", [title or text], level=level, page=number, title=title)
    return out


def _is_big(run: _Run, body: float) -> bool:
    """Whether the run is set like a heading: clearly larger than the body, short, with letters."""
    length = sum(len(line.text) for line in run.lines)
    large = run.kind == "paragraph" and run.size >= body * (
        _BOLD_HEADING_FACTOR if all(line.bold for line in run.lines) else _HEADING_FACTOR
    )
    return (
        large
        and 1 < length <= _HEADING_LENGTH
        and len(run.lines) <= 4
        and any(c.isalpha() for line in run.lines for c in line.text)
    )


def _joined(lines: Sequence[str], words: Mapping[str, int]) -> str:
    """Lines of a paragraph as one; a hyphen at a line's end goes unless the document writes the word with it."""
    parts = [lines[0]]
    for line in lines[1:]:
        last = parts[-1]
        if _BULLET.match(line):
            parts += ["\n", line]
        elif last.endswith(("-", "\xad", "‐")) and len(last) > 1 and last[-2].isalpha() and line[:1].islower():
            parts[-1] = last if _keeps_hyphen(last, line, words) else last[:-1]
            parts.append(line)
        elif _CJK.match(last[-1:]) and _CJK.match(line[:1]):
            parts.append(line)
        else:
            parts += [" ", line]
    return "".join(parts)


def _keeps_hyphen(last: str, line: str, words: Mapping[str, int]) -> bool:
    if last.endswith("\xad"):
        return False
    head, tail = _WORD.findall(last[:-1]), _WORD.match(line)
    if not head or not tail:
        return True
    a, b = head[-1].casefold(), tail[0].casefold()
    joined, hyphened = words.get(a + b, 0), words.get(f"{a}-{b}", 0)
    if joined or hyphened:
        return hyphened > joined
    return words.get(a, 0) > 1 and words.get(b, 0) > 1  # words of their own, besides this place


def _mended(parsed: Parsed) -> Parsed:
    text, repaired = mend(parsed.text)
    if len(text) != len(parsed.text):  # a pair of surrogates became one character: keep the spans, mark both halves
        text, repaired = re.subn("[\ud800-\udfff]", "\ufffd", parsed.text)
    return parsed._replace(text=text, metadata=parsed.metadata | ({"repaired": str(repaired)} if repaired else {}))
