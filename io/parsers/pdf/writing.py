"""From rows to paragraphs, lists, headings and code, and to the one canonical text.

A paragraph that breaks off at the end of a column or page goes on where the next one of its size begins with the rest of the
sentence; footnotes, captions and tables that stand between follow it. A hyphen at a line's end goes unless the document
writes the word with it. Dots that lead to a page number become "…".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from chunkmill.chunkers.base import Kind
from chunkmill.io.parsers.pdf.headings import Outline, Style, levels
from chunkmill.io.parsers.pdf.scripts import CJK, RTL
from chunkmill.io.parsers.pdf.shapes import Leaf, Row, Sheet, Table
from chunkmill.io.parsers.pdf.tables import CAPTION as TABLE_CAPTION
from chunkmill.io.parsers.text import Canonical

_BULLET = re.compile(r"[•◦▪‣●○■□➢➤✓❖⁃∙·–—*-]\s*(?![-–—*·.\s])|[•◦▪‣●○■□➢➤❖]$")
_NUMBERED = re.compile(r"(?:\(?(\d{1,3}|[a-z]|[ivx]{1,5})[.)]|\([A-Z]\)|\[\d{1,3}\])\s+\S")
_LONE = re.compile(r"\(?\d{1,3}[.)]?\s+\S")  # the number of a clause, and its text
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|abb(?:ildung|\.)?|figura|figuur|рис(?:унок|\.)|图|圖|図|exhibit|chart|diagram)\s*\d", re.IGNORECASE
)
_ENDED = re.compile(r"[.!?:;…。！？؟۔][\"'”’»)\]]*\s*(?:\[?\d{1,3}\]?)?$")
_LEADERS = re.compile(r"\s*(?:\.\s?){5,}\s*|\s*(?:·\s?){5,}\s*|\s*…{2,}\s*")
_CARRIED = 30  # rows that may go to the page on which their paragraph began
_ADDRESS = re.compile(r"(?:://|www\.|@)\S*$")
_OPEN = re.compile(r"\d[-‐–/]$|[^\W\d_]{2}[-‐]$")  # 1914-, COVID-: a number goes on
_HYPHENS = ("-", "\xad", "‐")


class Run(NamedTuple):
    """Rows that make one block."""

    kind: Kind
    rows: list[Row]
    page: int
    cells: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()
    item: bool = False
    first: bool = False  # of its column
    last: bool = False
    full: bool = False  # its last row reaches the column's end


class Body(NamedTuple):
    """How most of the text is set."""

    size: float
    mono: bool  # set in a typewriter's face: then that says nothing of code
    bold: float  # share


def written(sheets: Sequence[Sheet], outline: Outline) -> tuple[Canonical, list[tuple[int, Run]]]:
    """The text and, for each block of it, its run; blocks and runs are in the same order."""
    body = _body(sheets)
    runs = [run for sheet in sheets for run in _page_runs(sheet, body)]
    runs = _listed(_continued(runs, body))
    words = _words(sheets)
    texts = [_text(run, words) for run in runs]
    found = _levels(runs, texts, body, outline)
    out, blocks = Canonical(), list[tuple[int, Run]]()
    for run, text, level in zip(runs, texts, found, strict=True):
        if any(line.strip() for line in text):
            _add(out, run, text, level)
            blocks.append((run.page, run))
    return out, blocks


def _add(out: Canonical, run: Run, lines: list[str], level: int) -> None:
    if level:
        title = " ".join(lines)
        out.add("heading", [title], level=level, page=run.page, title=title)
    elif run.kind in ("table", "list", "record"):
        out.add(run.kind, lines, page=run.page, seams=list(range(len(lines))))
    else:
        out.add(run.kind, lines, page=run.page)


def _body(sheets: Sequence[Sheet]) -> Body:
    sizes, mono, bold = Counter[float](), 0, 0
    for row in (part for sheet in sheets for leaf in sheet.leaves for part in leaf if isinstance(part, Row)):
        sizes[row.size] += len(row.text)
        mono += len(row.text) * row.mono
        bold += len(row.text) * row.bold
    total = max(1, sum(sizes.values()))
    return Body(sizes.most_common(1)[0][0] if sizes else 0.0, mono > total * 0.6, bold / total)


def _words(sheets: Sequence[Sheet]) -> Counter[str]:
    words = Counter[str]()
    for part in (part for sheet in sheets for leaf in sheet.leaves for part in leaf):
        for text in [part.text] if isinstance(part, Row) else [" ".join(row) for row in part.rows]:
            words.update(_WORD.findall(text.casefold()))
    return words


# rows → runs


def _page_runs(sheet: Sheet, body: Body) -> Iterator[Run]:
    for leaf in sheet.leaves:
        runs = list(_runs(leaf, sheet.number, body))
        if runs:
            runs[0] = runs[0]._replace(first=True)
            runs[-1] = runs[-1]._replace(last=True)
        yield from runs
    for extra in sheet.extras:
        yield Run(extra.kind, [], sheet.number, lines=extra.lines)


def _runs(leaf: Leaf, page: int, body: Body) -> Iterator[Run]:
    rows: list[Row] = []
    for part in leaf:
        if isinstance(part, Table):
            yield from _paragraphs(rows, page, body)
            rows = []
            yield Run("table", [], page, cells=part.rows)
        else:
            rows.append(part)
    yield from _paragraphs(rows, page, body)


def _paragraphs(rows: Sequence[Row], page: int, body: Body) -> Iterator[Run]:
    """The rows of a column by paragraphs, items and code."""
    if not rows:
        return
    pitches = _pitches(rows)
    left, right = min(row.box[0] for row in rows), max(row.box[2] for row in rows)
    run: list[Row] = []
    item = False
    for at, row in enumerate(rows):
        begins = _item(row, rows[at + 1] if at + 1 < len(rows) else None, run if item else [])
        if run and (begins or _ends(run, row, rows[at + 1] if at + 1 < len(rows) else None, pitches, left, right, body, item)):
            yield _run(run, page, body, item, left, right)
            run = []
        if not run:
            item = begins
        run.append(row)
    yield _run(run, page, body, item, left, right)


def _run(rows: list[Row], page: int, body: Body, item: bool, left: float, right: float) -> Run:
    code = not body.mono and all(row.mono for row in rows)
    kind: Kind = "code" if code else "figure" if _CAPTION.match(rows[0].text) and len(rows) < 20 else "paragraph"
    return Run(
        kind,
        rows,
        page,
        item=item and not code and (body.bold > 0.5 or not all(row.bold for row in rows)),
        full=rows[-1].box[2] > left + 0.75 * (right - left),
    )


def _pitches(rows: Sequence[Row]) -> dict[float, float]:
    """The usual distance from a row to the next, for each size that has several."""
    steps: dict[float, list[float]] = {}
    for a, b in pairwise(rows):
        if a.size == b.size and 0 < b.box[3] - a.box[3] < 3 * a.size:
            steps.setdefault(a.size, []).append(b.box[3] - a.box[3])
    return {size: min(median(found), 1.9 * size) for size, found in steps.items() if len(found) > 2}


def _item(row: Row, following: Row | None, before: Sequence[Row]) -> bool:
    """Whether an item of a list begins here. A lone number is none; a dash needs room behind it."""
    if bullet := _BULLET.match(row.text):
        return bullet.group()[0] not in "–—-*·" or bullet.group().endswith(" ")
    return _NUMBERED.match(row.text) is not None and not row.mono


def _ends(
    run: Sequence[Row],
    row: Row,
    following: Row | None,
    pitches: Mapping[float, float],
    left: float,
    right: float,
    body: Body,
    item: bool,
) -> bool:
    """Whether the paragraph ends before this row."""
    last = run[-1]
    size = max(last.size, row.size, 1.0)
    step = row.box[3] - last.box[3]
    if not body.mono and (row.mono != last.mono) and (row.mono or all(r.mono for r in run)):
        return True
    if row.mono and last.mono and not body.mono:
        return step > 3.2 * size
    if abs(row.size - last.size) > size * 0.12 and abs(row.size - max(r.size for r in run)) > size * 0.12:
        return True
    if row.hidden != last.hidden or row.turned != last.turned or step < -size:
        return True
    pitch = pitches.get(row.size, 0.0)
    if step > max(1.32 * pitch, 1.15 * size) if pitch else step > 1.7 * size:
        return True
    if (row.bold, row.italic) != (last.bold, last.italic) and len(run) <= 3 and _sets_off(run, row):
        return True
    if last.text.endswith(_HYPHENS):
        return False
    ended = _ENDED.search(last.text) is not None
    if last.box[2] < left + (right - left) * 0.72 and (ended or not row.text[:1].islower()) and not RTL.search(last.text):
        return ended or last.box[2] < left + (right - left) * 0.5
    return not item and _indented(run, row, following, size)


def _sets_off(run: Sequence[Row], row: Row) -> bool:
    """Whether a change of weight or slant between rows is one between paragraphs, not one inside a sentence."""
    if run[-1].text.endswith((",", "-")) or row.text[:1].islower():
        return False
    return len({(r.bold, r.italic) for r in run}) == 1 and (run[-1].bold or run[-1].italic or row.bold)


def _indented(run: Sequence[Row], row: Row, following: Row | None, size: float) -> bool:
    """Whether the row is the indented first one of a paragraph, or comes back from a hanging indent."""
    if RTL.search(row.text):
        return False
    indent = row.box[0] - run[-1].box[0]
    if 0.7 * size < indent < 6 * size:
        aligned = following is not None and abs(following.box[0] - row.box[0]) < 0.4 * size
        goes_on = _LONE.match(run[0].text) and (row.text[:1].islower() or not _ENDED.search(run[-1].text))
        hangs = len(run) == 1 and (aligned or goes_on)
        return not hangs and (len(run) > 1 or following is None or following.box[0] < row.box[0] - 0.4 * size)
    hung = len(run) > 1 and run[1].box[0] - run[0].box[0] > 0.7 * size
    return hung and abs(row.box[0] - run[0].box[0]) < 0.4 * size and row.box[0] < run[-1].box[0] - 0.7 * size


# runs → blocks


def _continued(runs: Sequence[Run], body: Body) -> list[Run]:
    """Paragraphs that go on in another column or page, made whole where they began; code that does, too."""
    out: list[Run] = []
    opened: int | None = None
    for run in runs:
        prose = run.kind == "paragraph" and run.rows and not run.rows[0].turned
        if opened is not None and prose and run.first and _goes_on(out[opened], run):
            whole = out[opened]
            out[opened] = whole._replace(rows=[*whole.rows, *run.rows], full=run.full)
            if not run.last:
                opened = None
            continue
        out.append(run)
        if prose and abs(run.rows[-1].size - body.size) <= body.size * 0.15:
            opened = len(out) - 1
        elif run.kind in ("code", "list", "notes", "record") or (run.rows and run.rows[0].size > body.size * 1.15):
            opened = None
    return out


def _goes_on(before: Run, run: Run) -> bool:
    """Whether the sentence that `before` leaves open goes on in `run`."""
    last, text = before.rows[-1], run.rows[0].text.lstrip()
    if abs(last.size - run.rows[0].size) > 0.8 or last.bold != run.rows[0].bold or run.item:
        return False
    if run.page - before.page > 1 or len(run.rows) > _CARRIED:
        return False
    if last.text.endswith(_HYPHENS) and text[:1].isalpha():
        return True
    if _ENDED.search(last.text) or not (last.text[-1:].isalnum() or last.text[-1:] in ',-–—)”’"%'):
        return False
    if last.text.endswith(","):
        return True
    return before.full and (text[:1].islower() or (not TABLE_CAPTION.match(text) and len(before.rows) > 2))


def _listed(runs: Sequence[Run]) -> list[Run]:
    """Neighbouring items as one list. A single numbered one is a paragraph."""
    out: list[Run] = []
    items: list[Run] = []
    for run in [*runs, None]:
        if run is not None and run.item and (not items or _alike(items[-1], run)):
            items.append(run)
            continue
        if items:
            out.append(_list(items)) if len(items) > 1 or _BULLET.match(items[0].rows[0].text) else out.extend(items)
            items = []
        if run is not None and run.item:
            items.append(run)
        elif run is not None:
            out.append(run)
    return out


def _alike(a: Run, b: Run) -> bool:
    """Whether two items can be of one list."""
    return b.page - a.page <= 1 and abs(a.rows[0].size - b.rows[0].size) < 0.6


def _list(items: Sequence[Run]) -> Run:
    """One run; its cells hold the rows' texts item by item."""
    return Run(
        "list", [row for item in items for row in item.rows], items[0].page, cells=tuple(_texts(item.rows) for item in items)
    )


def _texts(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(row.text for row in rows)


def _text(run: Run, words: Mapping[str, int]) -> list[str]:
    """The lines of a block."""
    if run.lines:
        return list(run.lines)
    if run.kind == "table":
        return [" | ".join(_LEADERS.sub(" ", cell).strip() for cell in row).strip() for row in run.cells if any(row)]
    if run.kind == "list":
        return [joined(item, words) for item in run.cells]
    if run.kind == "code":
        return _code(run.rows)
    if len(run.rows) > 1 and sum(_LEADERS.search(row.text) is not None for row in run.rows) > len(run.rows) * 0.5:
        return [joined([row.text], words) for row in run.rows]
    return [joined(_texts(run.rows), words)]


def _code(rows: Sequence[Row]) -> list[str]:
    """Rows of code, indented as they stand; an empty line where there is room for one."""
    left = min(row.box[0] for row in rows)
    steps = sorted(b.box[3] - a.box[3] for a, b in pairwise(rows) if b.box[3] > a.box[3])
    usual = steps[len(steps) // 4] if steps else 0.0
    lines = [_indent(rows[0], left)]
    for a, b in pairwise(rows):
        if usual and b.box[3] - a.box[3] > 1.6 * usual:
            lines.append("")
        lines.append(_indent(b, left))
    lines[0] = lines[0].lstrip()
    return lines


def _indent(row: Row, left: float) -> str:
    if row.text[:1] == " ":
        return row.text
    return " " * min(80, max(0, round((row.box[0] - left) / max(1.0, row.size * 0.6)))) + row.text


def _levels(runs: Sequence[Run], texts: Sequence[list[str]], body: Body, outline: Outline) -> list[int]:
    """The level of each block; 0 for what is no heading."""
    at = [
        n
        for n, run in enumerate(runs)
        if run.rows and run.kind in ("paragraph", "code") and len(texts[n]) == 1 and not run.rows[0].turned
    ]
    styles = []
    for n in at:
        rows = runs[n].rows
        size = max(row.size for row in rows)
        bold, italic, mono, hidden = (all(getattr(row, name) for row in rows) for name in ("bold", "italic", "mono", "hidden"))
        apart = n + 1 < len(runs) and runs[n + 1].kind != "table"
        styles.append(Style(texts[n][0], runs[n].page, size, bold, italic, len(rows), mono and not body.mono, hidden, apart))
    found = [0] * len(runs)
    for n, level in zip(at, levels(styles, body.size, body.bold, outline), strict=True):
        found[n] = level
    return found


def joined(rows: Sequence[str], words: Mapping[str, int]) -> str:
    """The rows of a paragraph as one line."""
    parts: list[str] = []
    for row in rows:
        line = (
            " ".join(_LEADERS.sub(" … ", row).split())
            if "  " in row or "..." in row or ". ." in row or "…" in row
            else row.strip()
        )
        last = parts[-1] if parts else ""
        if not last:
            parts.append(line)
        elif last.endswith(_HYPHENS) and len(last) > 1 and last[-2].isalpha() and line[:1].isalpha():
            kept = _ADDRESS.search(last) is not None or _keeps_hyphen(last, line, words)
            parts[-1] = last if kept else last[:-1]
            parts.append(line)
        elif (_OPEN.search(last) and line[:1].isdigit()) or (CJK.match(last[-1:]) and CJK.match(line[:1])):
            parts.append(line)
        else:
            parts += [" ", line]
    return "".join(parts).replace("\xad", "")


def _keeps_hyphen(last: str, line: str, words: Mapping[str, int]) -> bool:
    if last.endswith("\xad"):
        return False
    head, tail = _WORD.findall(last[:-1]), _WORD.match(line)
    if not head or not tail:
        return True
    a, b = head[-1].casefold(), tail[0].casefold()
    whole, hyphened = words.get(a + b, 0), words.get(f"{a}-{b}", 0)
    if whole or hyphened:
        return hyphened > whole
    if not line[:1].islower() and not (head[-1].isupper() and len(head[-1]) > 1):
        return True  # a name: Anglo-Saxon
    if a == "self":
        return True
    if "-" in a or "-" in b:
        compound = "-" in a
        a, b = a.rpartition("-")[2], b.partition("-")[0]
        if compound and len(a) <= 3 and words.get(a, 0) and not words.get(a + b, 0):
            return True  # state-of-the-art
    if a.endswith("ed") and len(a) > 4 and words.get(b, 0) > 1 and len(b) > 3:
        return True  # mixed-mode: no word goes on after a participle
    return words.get(a, 0) > 1 and words.get(b, 0) > 1 and len(a) > 2 and len(b) > 2  # words of their own, besides this place
