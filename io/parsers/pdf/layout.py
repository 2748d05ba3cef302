"""A page in reading order: text of each direction by itself, columns one after another, what spans them between.

A column ends where many lines begin (or end) at one place, nothing crosses there for several lines, and both sides are prose:
lines that fill their column. Whatever crosses is read before or after. Side by side without prose is a row, or a table.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

from chunkmill.io.parsers.pdf.numbering import without_line_numbers
from chunkmill.io.parsers.pdf.rows import grouped, row_of
from chunkmill.io.parsers.pdf.scripts import is_rtl
from chunkmill.io.parsers.pdf.shapes import Box, Leaf, Line, Raw, Row, Table
from chunkmill.io.parsers.pdf.tables import Cells, aligned, ruled, within

_LOOKS = 10  # places tried as the edge of a column
_DEPTH = 40
_RULE = -1.0  # the size that marks a drawn rule among lines
_TABLE_ROWS = 25
_LEADERS = re.compile(r"(?:\.\s?){5,}")


def arranged(raw: Raw, number: int, words: Callable[[], list[Line]]) -> tuple[float, float, list[Leaf]]:
    """Width, height (as the text of the page runs) and leaves in reading order. `number` is the page's, from 1."""
    turns = Counter[int]()
    for line in raw.lines:
        turns[line.angle] += len(line.text)
    leaves: list[Leaf] = []
    width, height = raw.width, raw.height
    for nth, (angle, _) in enumerate(turns.most_common()):
        lines = [_upright(line, raw) for line in raw.lines if line.angle == angle]
        if not nth:
            if angle % 180 == 90:
                width, height = height, width
            rules = [_turned(rule, angle, raw) for rule in raw.rules] if angle % 90 == 0 else []
            turned_words = lambda angle=angle: [_upright(w, raw) for w in words() if w.angle == angle]  # noqa: E731  # worked out where it is wanted
            leaves += _laid(lines, rules, (0, 0, width, height), number, turned_words)
        else:
            leaves += [[_as_turned(part) for part in leaf] for leaf in _laid(lines, [], (0, 0, width, height), number, list)]
    return width, height, leaves


def _as_turned(part: Row | Table) -> Row | Table:
    return part._replace(turned=True) if isinstance(part, Row) else part


def _upright(line: Line, raw: Raw) -> Line:
    return line._replace(box=_turned(line.box, line.angle, raw)) if line.angle else line


def _turned(box: Box, angle: int, raw: Raw) -> Box:
    """The box after the page was turned back so that text of this angle is level."""
    if not angle:
        return box
    x0, y0, x1, y1 = box
    if angle == 90:
        return y0, raw.width - x1, y1, raw.width - x0
    if angle == 180:
        return raw.width - x1, raw.height - y1, raw.width - x0, raw.height - y0
    if angle == 270:
        return raw.height - y1, x0, raw.height - y0, x1
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x, y = (x0 + x1) / 2 * c + (y0 + y1) / 2 * s, (y0 + y1) / 2 * c - (x0 + x1) / 2 * s
    w, h = x1 - x0, y1 - y0
    spread = abs(c * c - s * s)  # w and h are those of the box around the turned line
    length = (w * abs(c) - h * abs(s)) / spread if spread > 0.2 else max(w, h)
    tall = (h * abs(c) - w * abs(s)) / spread if spread > 0.2 else min(w, h) / 4
    length, tall = max(1.0, length), max(1.0, tall)
    return x - length / 2, y - tall / 2, x + length / 2, y + tall / 2


def _laid(lines: list[Line], rules: Sequence[Box], page: Box, number: int, words: Callable[[], list[Line]]) -> list[Leaf]:
    lines = without_line_numbers(_once(lines), rules, number)
    tables = ruled(lines, rules, page, words) if rules else []
    across = [Line("", rule, _RULE) for rule in rules if rule[3] - rule[1] < 3 and rule[2] - rule[0] > 80]
    if not tables:
        return [leaf for group in _ordered([*lines, *across], 0) if (leaf := _leaf(group))]
    loose = [line for line in lines if not any(within(line.box, table.box) for table in tables)]
    marks = [Line("", table.box, 0) for table in tables]
    marks += [rule for rule in across if not any(within(rule.box, table.box) for table in tables)]
    leaves: list[Leaf] = []
    for group in _ordered([*loose, *marks], 0):
        leaves += _with_tables(group, tables)
    return leaves


def _once(lines: Sequence[Line]) -> list[Line]:
    """Without lines drawn again a hair beside themselves, for weight or for a shadow."""
    seen: dict[str, list[Box]] = {}
    kept = []
    for line in lines:
        boxes = seen.setdefault(line.text, [])
        if not any(
            abs(a - b) < 0.2 * line.size
            for box in boxes[-4:]
            for a, b in [(box[0], line.box[0])]
            if abs(box[1] - line.box[1]) < 2
        ):
            kept.append(line)
            boxes.append(line.box)
    return kept


def _with_tables(group: Sequence[Line], tables: Sequence[Table]) -> Iterator[Leaf]:
    """A column's text, cut where its tables stand."""
    boxes = {table.box: table for table in tables}
    places = sorted((line for line in group if not line.text and line.box in boxes), key=lambda line: line.box[1])
    rest = [line for line in group if line.text]
    for place in places:
        above = [line for line in rest if (line.box[1] + line.box[3]) / 2 < place.box[1]]
        if leaf := _leaf(above):
            yield leaf
        yield [boxes[place.box]]
        rest = [line for line in rest if (line.box[1] + line.box[3]) / 2 >= place.box[1]]
    if leaf := _leaf(rest):
        yield leaf


def _ordered(lines: list[Line], depth: int) -> Iterator[list[Line]]:
    """Groups of lines, each of one column, in reading order."""
    found = _column(lines) if len(lines) >= 6 and depth < _DEPTH else None
    if not found:
        if lines:
            yield lines
        return
    gutter, top, bottom = found
    above, left, right, below = [], [], [], []
    for line in lines:
        y = (line.box[1] + line.box[3]) / 2
        if y <= top:
            above.append(line)
        elif y >= bottom:
            below.append(line)
        elif (line.box[0] + line.box[2]) / 2 < gutter:
            left.append(line)
        else:
            right.append(line)
    if is_rtl("".join(line.text for line in [*left[:20], *right[:20]])):
        left, right = right, left
    for part in (above, left, right, below):
        yield from _ordered(part, depth + 1)


def _column(lines: Sequence[Line]) -> tuple[float, float, float] | None:
    """The gutter that divides the most lines: x, and the y between which nothing crosses it. None: there is one column."""
    best: tuple[int, tuple[float, float, float]] | None = None
    ys = [((line.box[1] + line.box[3]) / 2, line) for line in lines]
    ys.sort(key=lambda item: item[0])
    for x in _edges(lines):
        for top, bottom, left, right, framed in _bands(ys, x):
            weight = min(len(left), len(right))
            if framed and weight <= _TABLE_ROWS:
                continue  # between two rules across: a table
            code = weight >= 3 and _typed(left) and _typed(right)  # code with remarks beside it
            if weight >= 3 and not code and (best is None or weight > best[0]) and _prose(left, 1) and _prose(right, 2):
                best = (weight, (x, top, bottom))
    return best[1] if best else None


def _edges(lines: Sequence[Line]) -> list[float]:
    """Places at which several lines begin or end."""
    counts = Counter[float]()
    x0, x1 = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    for line in lines:
        if not line.text:
            continue
        counts[round(line.box[0] / 3) * 3 - 3.5] += 1
        counts[round(line.box[2] / 3) * 3 + 3.5] += 1
    common = counts.most_common(4 * _LOOKS)
    return [x for x, n in common if n >= 3 and x0 + 40 < x < x1 - 40][:_LOOKS]


def _bands(ys: Sequence[tuple[float, Line]], x: float) -> Iterator[tuple[float, float, list[Line], list[Line], bool]]:
    """(top, bottom, lines left, lines right, between rules) of each stretch in which no line and no rule crosses x."""
    top, left, right, ruled_above = -math.inf, list[Line](), list[Line](), False
    for y, line in ys:
        if line.box[0] < x - 1 and line.box[2] > x + 1:
            if left and right:
                yield top, y - 0.01, left, right, ruled_above and line.size == _RULE
            top, left, right, ruled_above = y + 0.01, [], [], line.size == _RULE
        elif line.text:
            (left if line.box[2] <= x + 1 else right).append(line)
    if left and right:
        yield top, math.inf, left, right, False


def _typed(lines: Sequence[Line]) -> bool:
    return sum(line.mono for line in lines) > len(lines) * 0.6


def _prose(lines: Sequence[Line], columns: int) -> bool:
    """Whether lines beside a gutter are those of a column: they fill it, and they are no short cells."""
    rows = grouped(lines)
    if len(rows) < 3:
        return False
    x0, x1 = min(line.box[0] for line in lines), max(line.box[2] for line in lines)
    wide = median(row[-1].box[2] - row[0].box[0] if len(row) > 1 else row[0].box[2] - row[0].box[0] for row in rows)
    if len(rows) > 8 and columns > 1:  # more columns may follow: look at the nearest one
        x1 = min(x1, x0 + max(1.0, 1.6 * sorted(line.box[2] - line.box[0] for line in lines)[len(lines) * 3 // 4]))
    characters = sum(len(line.text) for line in lines) / len(rows)
    wide_gaps = [sum(b.box[0] - a.box[2] > 0.7 * a.size for a, b in pairwise(row)) for row in rows]
    if sum(_LEADERS.search(line.text) is not None for line in lines) > len(lines) * 0.3:
        return False
    unbroken = sum(map(bool, wide_gaps)) < len(rows) * 0.5  # else columns of their own, whose pieces are long, too
    pieces_long = sum(len(line.text) for line in lines) >= 20 * (sum(wide_gaps) + len(rows))
    return characters >= 14 and wide >= (x1 - x0) * 0.5 and (unbroken or pieces_long)


def _leaf(lines: Sequence[Line]) -> Leaf:
    """Rows and aligned tables of a column."""
    groups = _blocks(grouped(line for line in lines if line.text), lines)
    rows = [row_of(group) for group in groups]
    if sum(len(group) > 1 for group in groups) < 3:
        return [row for row in rows if row.text.strip()]
    cells = [_cells(group, row) for group, row in zip(groups, rows, strict=True)]
    leaf: Leaf = []
    at = 0
    for start, end, table in aligned(cells):
        if all(row.mono for row in rows[start:end]) and not _numeric(table):
            continue  # columns of code
        leaf += [row for row in rows[at:start] if row.text.strip()]
        leaf.append(table)
        at = end
    return leaf + [row for row in rows[at:] if row.text.strip()]


def _blocks(groups: Sequence[list[Line]], lines: Sequence[Line]) -> list[list[Line]]:
    """The rows, but blocks that stand side by side (two addresses) one after the other.

    They begin at two places far from each other, and the file holds the one before the other: in tables it holds rows.
    """
    order = {id(line): at for at, line in enumerate(lines)}
    found: list[list[Line]] = []
    at = 0
    while at < len(groups):
        end = _beside_each_other(groups, at)
        left, right = [group[0] for group in groups[at:end]], [group[-1] for group in groups[at:end]]
        if end - at >= 3 and max(order[id(line)] for line in left) < min(order[id(line)] for line in right):
            found += [[line] for line in [*left, *right]]
            at = end
        else:
            found.append(groups[at])
            at += 1
    return found


def _beside_each_other(groups: Sequence[list[Line]], start: int) -> int:
    """Behind the last of the rows from here on that have two lines each, far apart, below those of the first and near them."""
    end = start
    while end < len(groups) and len(groups[end]) == 2:
        left, right = groups[end]
        far = right.box[0] - left.box[2] > 6 * left.size and not right.text.strip(" .,%€$£-–").isdecimal()
        even = all(abs(a.box[0] - b.box[0]) < 2 for a, b in zip(groups[start], groups[end], strict=True))
        if not far or not even or (end > start and left.box[1] - groups[end - 1][0].box[3] > 0.8 * left.size):
            break
        end += 1
    return end


def _numeric(table: Table) -> bool:
    cells = [cell for row in table.rows[1:] for cell in row[1:] if cell]
    return sum(any(c.isdigit() for c in cell) for cell in cells) > len(cells) * 0.6


def _cells(group: Sequence[Line], row: Row) -> Cells:
    """The row's texts, those less than a space and a half apart together."""
    cells: list[tuple[float, float, str]] = []
    for line in group:
        x0, _, x1, _ = line.box
        if cells and x0 - cells[-1][1] < line.size * 0.7:
            cells[-1] = (cells[-1][0], max(x1, cells[-1][1]), _beside(cells[-1][2], line.text, x0 - cells[-1][1], line.size))
        elif line.text.strip():
            cells.append((x0, x1, " ".join(line.text.split())))
    return Cells(cells, row.box, row.size)


def _beside(a: str, b: str, gap: float, size: float) -> str:
    close = gap < size * 0.12 or a.endswith(" ") or b.startswith(" ")
    if is_rtl(a + b):
        a, b = b, a
    return " ".join((a + b if close else f"{a} {b}").split())
