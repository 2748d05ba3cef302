"""Tables: the grid of drawn rules, or columns that line up without any."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

from chunkmill.io.parsers.pdf.scripts import is_rtl
from chunkmill.io.parsers.pdf.shapes import Box, Line, Table

_THIN = 3.2  # points: a rule; anything thicker is an area
_NEAR = 3.0  # points: rules that meet
_MOST_RULES = 1500  # a page with more is a drawing
CAPTION = re.compile(r"(?:table|tabelle|tableau|tabla|tabella|таблица|表)\s*\d", re.IGNORECASE)
_NUMBER = re.compile(r"[\s$€£¥%().,+\-–−\d*/:]+|-|–|n/?a|yes|no", re.IGNORECASE)


class _Grid(NamedTuple):
    xs: list[float]
    ys: list[float]
    across: list[Box]  # horizontal rules
    down: list[Box]


def ruled(lines: Sequence[Line], rules: Sequence[Box], page: Box, words: Callable[[], list[Line]]) -> list[Table]:
    """Tables whose cells are drawn. `words` are asked for where a line runs over a rule."""
    tables = []
    for grid in _grids(rules, page):
        grid = _with_labels(grid, lines)
        box = (grid.xs[0], grid.ys[0], grid.xs[-1], grid.ys[-1])
        inside = [line for line in lines if within(line.box, box)]
        if any(_crosses(line.box, grid) for line in inside):
            inside = _words_of(inside, words()) or inside
        rows = _as_read(_filled(grid, inside))
        if _sensible(rows):
            tables.append(Table(box, rows))
    return tables


def _words_of(lines: Sequence[Line], words: Sequence[Line]) -> list[Line]:
    """The words of these lines, wherever the table ends, and of no others: some were left out for good reason."""
    at: dict[int, list[Line]] = {}
    for line in lines:
        for y in range(int(line.box[1]) - 1, int(line.box[3]) + 2):
            at.setdefault(y, []).append(line)
    return [w for w in words if any(within(w.box, line.box) for line in at.get(int((w.box[1] + w.box[3]) / 2), ()))]


def _with_labels(grid: _Grid, lines: Sequence[Line]) -> _Grid:
    """The grid with a first column where each of its rows has a label left of the drawn cells."""
    top, bottom, left = grid.ys[0], grid.ys[-1], grid.xs[0]
    beside = [e for e in lines if e.box[2] <= left + 2 and left - e.box[2] < 150 and top < (e.box[1] + e.box[3]) / 2 < bottom]
    rows = {bisect_right(grid.ys, (line.box[1] + line.box[3]) / 2) for line in beside}
    many = len(grid.ys) - 1
    if not beside or len(rows) < 0.7 * many or len(beside) > 1.5 * many or many < 3:
        return grid
    start = min(line.box[0] for line in beside) - 1
    return grid._replace(xs=[start, *grid.xs], across=[*grid.across, *((start, y, left, y) for y in grid.ys)])


def within(inner: Box, outer: Box) -> bool:
    """Whether the middle of one box lies in the other."""
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] - 1 <= x <= outer[2] + 1 and outer[1] - 1 <= y <= outer[3] + 1


def _grids(rules: Sequence[Box], page: Box) -> list[_Grid]:
    """Rules that touch each other, as grids of at least two rows and two columns; the outer one of nested grids."""
    across, down = _edges(rules, page)
    if len(across) < 2 or len(down) < 2 or len(across) + len(down) > _MOST_RULES:
        return []
    grids = []
    for rows, columns in _connected(across, down):
        xs, ys = _places([e[0] for e in columns]), _places([e[1] for e in rows])
        xs, ys = _open_sides(xs, [(e[0], e[2]) for e in rows]), _open_sides(ys, [(e[1], e[3]) for e in columns])
        if len(xs) > 2 and len(ys) > 2 and len(xs) * len(ys) < 50_000 and _is_grid(xs, ys, rows, columns):
            grids.append(_Grid(xs, ys, rows, columns))
    grids.sort(key=lambda g: (g.ys[0], g.xs[0]))
    boxes = [(g.xs[0], g.ys[0], g.xs[-1], g.ys[-1]) for g in grids]
    return [g for at, g in enumerate(grids) if not any(_holds(b, boxes[at]) for other, b in enumerate(boxes) if other != at)]


def _open_sides(places: list[float], rules: Sequence[tuple[float, float]]) -> list[float]:
    """The places, with the ends of the rules that cross them where the outer cells are not closed."""
    first, last = sorted(rule[0] for rule in rules)[1], sorted(rule[1] for rule in rules)[-2]
    return [*([first] if first < places[0] - 12 else []), *places, *([last] if last > places[-1] + 12 else [])]


def _is_grid(xs: list[float], ys: list[float], across: list[Box], down: list[Box]) -> bool:
    """Whether the rules run through: in drawings, boxes touch here and there."""
    wide, high = xs[-1] - xs[0], ys[-1] - ys[0]
    drawn = sum(x1 - x0 for x0, _, x1, _ in across) / wide, sum(y1 - y0 for _, y0, _, y1 in down) / high
    return drawn[0] > 0.4 * len(ys) and drawn[1] > 0.4 * len(xs)


def _holds(outer: Box, inner: Box) -> bool:
    return outer != inner and within(inner, outer) and outer[0] <= inner[0] + 1 and outer[2] >= inner[2] - 1


def _edges(rules: Sequence[Box], page: Box) -> tuple[list[Box], list[Box]]:
    """Horizontal and vertical rules, those in one line and touching made one. An area counts by its sides."""
    across: list[Box] = []
    down: list[Box] = []
    width, height = page[2] - page[0], page[3] - page[1]
    for x0, y0, x1, y1 in rules:
        w, h = x1 - x0, y1 - y0
        if w > width * 0.97 and h > height * 0.8:
            continue
        if h <= _THIN and w > h:
            across.append((x0, (y0 + y1) / 2, x1, (y0 + y1) / 2))
        elif w <= _THIN:
            down.append(((x0 + x1) / 2, y0, (x0 + x1) / 2, y1))
        elif h > 6 and w > 6:
            across += [(x0, y0, x1, y0), (x0, y1, x1, y1)]
            down += [(x0, y0, x0, y1), (x1, y0, x1, y1)]
    if len(across) + len(down) > 8 * _MOST_RULES:
        return [], []
    return [e for e in _merged(across, 1) if e[2] - e[0] > 6], [e for e in _merged(down, 0) if e[3] - e[1] > 4]


def _merged(edges: list[Box], axis: int) -> list[Box]:
    """Edges of nearly one place that touch, as one. `axis` is the coordinate they share: 0 for x, 1 for y."""
    along = 1 - axis
    edges.sort(key=lambda e: e[axis])
    merged: list[Box] = []
    group: list[Box] = []
    for edge in [*edges, None]:
        if group and (edge is None or edge[axis] - group[-1][axis] > 1.5):
            place = median(e[axis] for e in group)
            start = end = None
            for piece in sorted(group, key=lambda e: e[along]):
                if start is None or end is None or piece[along] > end + _NEAR:
                    if start is not None and end is not None:
                        merged.append(_edge(place, start, end, axis))
                    start, end = piece[along], piece[along + 2]
                else:
                    end = max(end, piece[along + 2])
            if start is not None and end is not None:
                merged.append(_edge(place, start, end, axis))
            group = []
        if edge is not None:
            group.append(edge)
    return merged


def _edge(place: float, start: float, end: float, axis: int) -> Box:
    return (start, place, end, place) if axis == 1 else (place, start, place, end)


def _connected(across: list[Box], down: list[Box]) -> list[tuple[list[Box], list[Box]]]:
    """Groups of rules that cross or meet."""
    parent = list(range(len(across) + len(down)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    across.sort(key=lambda e: e[1])
    ys = [e[1] for e in across]
    for v, (x, y0, _, y1) in enumerate(down, len(across)):
        for h in range(bisect_left(ys, y0 - _NEAR), bisect_right(ys, y1 + _NEAR)):
            if across[h][0] - _NEAR <= x <= across[h][2] + _NEAR:
                parent[root(h)] = root(v)
    groups: dict[int, tuple[list[Box], list[Box]]] = {}
    for at, edge in enumerate([*across, *down]):
        groups.setdefault(root(at), ([], []))[at >= len(across)].append(edge)
    return [group for group in groups.values() if len(group[0]) > 1 and len(group[1]) > 1]


def _places(values: list[float]) -> list[float]:
    """Distinct coordinates, those nearer than a few points taken as one."""
    places: list[float] = []
    for value in sorted(values):
        if not places or value - places[-1] > _NEAR:
            places.append(value)
    return places


def _crosses(box: Box, grid: _Grid) -> bool:
    y = (box[1] + box[3]) / 2
    return any(box[0] + 2 < x < box[2] - 2 and a <= y <= b for x, a, _, b in grid.down)


def _filled(grid: _Grid, lines: Sequence[Line]) -> tuple[tuple[str, ...], ...]:
    """The text of each cell; that of cells drawn as one stands in the first of them. Rows and columns without text go."""
    cells: dict[tuple[int, int], list[Line]] = {}
    down, across = _by_place(grid.xs, grid.down, 0), _by_place(grid.ys, grid.across, 1)
    for line in lines:
        x, y = (line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2
        column = max(0, min(bisect_right(grid.xs, x) - 1, len(grid.xs) - 2))
        row = max(0, min(bisect_right(grid.ys, y) - 1, len(grid.ys) - 2))
        while column and not any(e[1] - 1 <= y <= e[3] + 1 for e in down[column]):
            column -= 1
        while row and not any(e[0] - 1 <= x <= e[2] + 1 for e in across[row]):
            row -= 1
        cells.setdefault((row, column), []).append(line)
    columns = sorted({column for _, column in cells})
    rows = []
    for row in sorted({row for row, _ in cells}):
        rows += _split([cells.get((row, column), []) for column in columns])
    return tuple(rows)


def _by_place(places: list[float], edges: Sequence[Box], axis: int) -> list[list[Box]]:
    """The edges at each of the places."""
    found: list[list[Box]] = [[] for _ in places]
    for edge in edges:
        for at in range(bisect_left(places, edge[axis] - _NEAR), bisect_right(places, edge[axis] + _NEAR)):
            found[at].append(edge)
    return found


def _split(cells: Sequence[list[Line]]) -> list[tuple[str, ...]]:
    """A drawn row as rows: several where its columns hold equally many lines and one of them nothing but numbers."""
    stacks = [_stacked(cell) for cell in cells]
    filled = [stack for stack in stacks if stack]
    depth = max(map(len, filled))
    numbers = any(len(stack) == depth and all(_NUMBER.fullmatch(text) for _, text in stack) for stack in filled)
    even = sum(len(stack) == depth for stack in filled)
    if depth < 2 or len(filled) < 2 or not numbers or even < len(filled) * 0.6:
        return [tuple(" ".join(text for _, text in stack) for stack in stacks)]
    places = next([y for y, _ in stack] for stack in filled if len(stack) == depth)
    rows = [[""] * len(stacks) for _ in places]
    for column, stack in enumerate(stacks):
        for y, text in stack:
            at = min(range(depth), key=lambda n: abs(places[n] - y))
            rows[at][column] = f"{rows[at][column]} {text}".strip()
    return [tuple(row) for row in rows]


def _stacked(cell: Sequence[Line]) -> list[tuple[float, str]]:
    """(y, text) of the lines in a cell."""
    rows: list[list[Line]] = []
    for line in sorted(cell, key=lambda item: (item.box[1] + item.box[3]) / 2):
        if rows and (line.box[1] + line.box[3]) / 2 - (rows[-1][0].box[1] + rows[-1][0].box[3]) / 2 < line.size * 0.4:
            rows[-1].append(line)
        else:
            rows.append([line])
    found = []
    for row in rows:
        order = sorted(row, key=lambda item: item.box[0], reverse=is_rtl("".join(line.text for line in row)))
        text = " ".join(" ".join(line.text.split()) for line in order if line.text.strip())
        if text:
            found.append(((row[0].box[1] + row[0].box[3]) / 2, text))
    return found


def _sensible(rows: Sequence[Sequence[str]]) -> bool:
    """Whether it reads as a table, and not as a frame around prose or a drawing."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    cells = [cell for row in rows for cell in row]
    full = [cell for cell in cells if cell]
    longest, total = max(map(len, full)), sum(map(len, full))
    several = sum(sum(map(bool, row)) > 1 for row in rows)
    return several > 1 and not (longest > 300 and longest > total * 0.7) and len(full) > max(2, len(cells) * 0.15)


class Cells(NamedTuple):
    """A row of text as cells: their texts and extents, separated by wide gaps."""

    cells: list[tuple[float, float, str]]
    box: Box
    size: float


def aligned(rows: Sequence[Cells]) -> list[tuple[int, int, Table]]:
    """(first row, behind the last, table) for stretches of rows whose cells line up in columns."""
    found = []
    at = 0
    while at < len(rows):
        end = _stretch(rows, at)
        table = _aligned(rows[at:end]) if end - at >= 3 else None
        if table:
            parts = [(a, b, _aligned(rows[a:b]) if b - a >= 3 else None) for a, b in _parts(rows, at, end)]
            whole = [(at, end, table)]
            found += [(a, b, part) for a, b, part in parts if part] if all(part for _, _, part in parts) else whole
        at = max(end, at + 1)
    return found


def _parts(rows: Sequence[Cells], start: int, end: int) -> list[tuple[int, int]]:
    """The stretch, cut where sentences stand in it."""
    parts, last = list[tuple[int, int]](), start
    for at in range(start, end):
        if len(rows[at].cells) == 1 and at > start and _sentence(rows[at], rows[last]):
            parts.append((start, at))
            start = at + 1
        elif len(rows[at].cells) > 1:
            last = at
    return [*parts, (start, end)]


def _stretch(rows: Sequence[Cells], start: int) -> int:
    """Behind the last of the rows from here on that have several cells; a row of one cell may be a wrapped one between them."""
    if len(rows[start].cells) < 2:
        return start
    end, at, tall = start + 1, start + 1, rows[start].size
    while at < len(rows) and rows[at].box[1] - rows[at - 1].box[3] < tall * 2.5:
        if len(rows[at].cells) > 1:
            end = at + 1
        elif at - end >= 2:
            break
        at += 1
    last = rows[end - 1]
    while end < len(rows) and _rest(rows[end], rows[end - 1], last):
        end += 1
    return end


def _rest(row: Cells, before: Cells, last: Cells) -> bool:
    """Whether a row goes on with one of the later cells of a table's last row."""
    begins = [x0 for x0, _, _ in last.cells[1:]]
    near = row.box[1] - before.box[3] < 0.5 * row.size
    return near and len(row.cells) == 1 and any(abs(row.cells[0][0] - x0) < 3 for x0 in begins)


def _sentence(row: Cells, above: Cells) -> bool:
    """Whether a row of one cell is a sentence or a caption: it begins before the table's row above, or runs below two cells."""
    x0, x1, text = row.cells[0]
    below = sum(min(x1, b) - max(x0, a) > 0.5 * (b - a) for a, b, _ in above.cells)
    outside = below > 1 or x0 < above.cells[0][0] - row.size
    return outside and len(text) >= 20 and (CAPTION.match(text) is not None or text[-1:] in ".:!?")


def _aligned(rows: Sequence[Cells]) -> Table | None:
    columns = _columns(rows)
    if len(columns) < 2:
        return None
    placed: list[list[str]] = []
    strays = 0
    for row in rows:
        cells = [""] * len(columns)
        for x0, x1, text in row.cells:
            at = [n for n, (a, b) in enumerate(columns) if x1 > a and x0 < b]
            strays += len(at) != 1
            words = text.split()
            if len(at) > 1 and len(words) == len(at):  # numbers that nearly touch
                for n, word in zip(at, words, strict=True):
                    cells[n] = f"{cells[n]} {word}".strip()
                strays -= 1
                continue
            n = at[0] if at else min(range(len(columns)), key=lambda n: abs(columns[n][0] - x0))
            cells[n] = f"{cells[n]} {text}".strip()
        wrapped = not cells[0] or cells[0][0] == "(" or cells[0][0].islower()
        if placed and sum(map(bool, cells)) == 1 and wrapped:  # the rest of a cell
            placed[-1] = [f"{a} {b}".strip() for a, b in zip(placed[-1], cells, strict=True)]
        else:
            placed.append(cells)
    total = sum(len(row.cells) for row in rows)
    if strays > total * 0.2 or not _tabular(placed):
        return None
    box = (min(r.box[0] for r in rows), rows[0].box[1], max(r.box[2] for r in rows), rows[-1].box[3])
    return Table(box, _as_read(placed))


def _as_read(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The cells of each row in reading order: from the right where the table runs to the left."""
    rtl = is_rtl("".join(cell for row in rows for cell in row))
    return tuple(tuple(reversed(row)) if rtl else tuple(row) for row in rows)


def _columns(rows: Sequence[Cells]) -> list[tuple[float, float]]:
    """Extents of the columns: where hardly any row has ink, one ends."""
    several = [row for row in rows if len(row.cells) > 1]
    left = min(row.box[0] for row in several)
    width = int(max(row.box[2] for row in several) - left) + 2
    if width > 5000:
        return []
    steps = [0] * (width + 1)
    for row in several:
        for x0, x1, _ in row.cells:
            steps[max(0, int(x0 - left))] += 1
            steps[min(width, int(x1 - left) + 1)] -= 1
    few = len(several) * 0.12
    inked = [n > few for n in accumulate(steps)]
    edges = [at for at, (a, b) in enumerate(pairwise([False, *inked, False])) if a != b]
    return [(left + a, left + b) for a, b in zip(edges[::2], edges[1::2], strict=False)]


def _tabular(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows of cells read as a table: short cells, most of them filled, and three columns or numbers in the second."""
    full = [cell for row in rows for cell in row if cell]
    several = [row for row in rows if sum(map(bool, row)) > 1]
    if len(several) < 3 or len(several) < len(rows) * 0.5 or not full:
        return False
    mean = sum(map(len, full)) / len(full)
    numbers = sum(bool(_NUMBER.fullmatch(cell)) for row in rows for cell in row[1:] if cell)
    others = sum(bool(cell) for row in rows for cell in row[1:])
    numeric = numbers > others * 0.5
    share = len(full) / (len(rows) * len(rows[0]))
    bullets = sum(len(row[0]) <= 3 for row in rows)
    if bullets > len(rows) * 0.8 and len(rows[0]) == 2:
        return False
    if not numeric and is_rtl("".join(full)):
        return False  # words drawn out to fill the line
    enough = 0.35 if numeric else 0.45 if len(rows) > 8 else 0.7
    return mean < 40 and share > enough and (numeric or (len(rows[0]) > 2 and mean < 30))
