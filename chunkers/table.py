"""Tables: groups of rows under their header."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import ClassVar, NamedTuple

from chunkmill.chunkers.base import NOTHING, Block, Budget, Document, Piece, Span
from chunkmill.chunkers.counts import extra
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.seams import cluster_start, trim
from chunkmill.chunkers.structure import BREAK, SHARE

GAP = 2  # units that the break between a context and its body may take
DELIMITERS = ",\t;|"
SAMPLE, SAMPLE_ROWS, FEWEST_ROWS = 1 << 16, 50, 3
# A quoted field with what (wrongly) follows its quote, or a plain one; a quote that is never closed is a character.
_FIELD = r'(?:"(?:[^"]++|"")*+"[^,\r\n]*+|[^,\r\n]*+)'
NEWLINE = re.compile(r"\r\n|\r|\n")
PIPE = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*(?:\||(?=[\r\n])|\Z))++[ \t]*(?=[\r\n]|\Z)")
MOST_HEADER_LINES = 3


class Grid(NamedTuple):
    """A table in the text: `head` (empty where there is none) and `rows` tile it; `names` is the row of the columns' names."""

    head: Span
    names: Span
    rows: Sequence[Span]
    delimiter: str

    @property
    def span(self) -> Span:
        """All of it."""
        return Span(self.head.start, (self.rows[-1] if self.rows else self.head).end)


@dataclass(frozen=True, slots=True)
class Table:
    """Groups of whole rows, each behind the table's header as context; the text around tables is split at its seams.

    The header itself stands in the first group. A row that doesn't fit beside the whole header is cut between its cells: each
    part then has the names of its own columns as context, and (from the second part on) the row's first cell under its name.
    A text without table blocks that reads like CSV or TSV is one table. `rows`: at most so many in a group. `header` False:
    the first row is a row like the others.
    """

    rows: int | None = None
    header: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise ConfigError(f"chunk.rows is {self.rows}; it must be 1 or more")

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """Pieces of kind `table`, and `text` between them, in order."""
        pieces: list[Piece] = []
        at = 0
        for grid in self._grids(doc):
            pieces += _texts(doc, Span(at, grid.span.start), budget)
            pieces += grouped(doc.text, grid, budget, self.rows)
            at = grid.span.end
        return pieces + _texts(doc, Span(at, len(doc.text)), budget)

    def _grids(self, doc: Document) -> Iterator[Grid]:
        blocks = [b for b in doc.blocks if b.kind == "table"]
        divides = doc.metadata.get("delimiter", "|")  # CSV says so; its parser knows too whether there is a header
        header = self.header and doc.metadata.get("header") != "no"
        delimiter = "" if blocks else delimited(doc)
        if delimiter == "|":
            blocks = [Block("table", trim(doc.text, 0, len(doc.text)))]
        elif delimiter:
            yield grid_of(doc.text, record_starts(doc.text, delimiter), len(doc.text), delimiter, self.header)
        at = 0
        for block in blocks:
            grid = marked_up(doc.text, block, at, header, divides)
            if grid.span.start < grid.span.end:
                yield grid
                at = grid.span.end


def _texts(doc: Document, span: Span, budget: Budget) -> list[Piece]:
    return [Piece(s) for s in split(doc.text, span, budget)]


def marked_up(text: str, block: Block, floor: int, header: bool, delimiter: str) -> Grid:
    """The table of a block. Lines in pipes right above it belong to its header, as does the rule of dashes below."""
    start, end = block.span
    while delimiter == "|" and text.startswith("|", start) and (above := _line_above(text, start, floor)) is not None:
        start = above
    starts = [p.start for p in block.parts if block.span.start <= p.start < end]
    ruled = 0
    if not starts:
        starts = [start, *(m.end() for m in NEWLINE.finditer(text, start, end))]
        ruled = next((i for i, s in enumerate(starts[1 : MOST_HEADER_LINES + 1], 1) if RULE.match(text, s, end)), 0)
    return grid_of(text, [start, *starts[ruled + 1 :]], end, delimiter, header, starts[max(0, ruled - 1)])


def _line_above(text: str, start: int, floor: int) -> int | None:
    """Where the line above begins if its first character is a pipe."""
    above = text.rfind("\n", floor, max(floor, start - 1)) + 1 or floor
    return above if above < start - 1 and text[start - 1] == "\n" and text[above] == "|" else None


def grid_of(text: str, starts: Sequence[int], end: int, delimiter: str, header: bool, names: int = 0) -> Grid:
    """The table whose rows begin at these offsets, the first one being the header; the columns' names from `names` on."""
    rows = [r for r in (_line(text, a, b) for a, b in pairwise([*starts, end])) if r.start < r.end]
    if not header or len(rows) < 2:
        first = Span(*[rows[0].start if rows else end] * 2)
        return Grid(first, first, rows, delimiter)
    head = rows[0]
    line = NEWLINE.search(text, max(names, head.start), head.end) if delimiter == "|" else None
    return Grid(head, Span(max(names, head.start), line.start() if line else head.end), rows[1:], delimiter)


def _line(text: str, start: int, end: int) -> Span:
    """A row without its newline, empty where it is white. White space in it may be empty cells."""
    if text[start:end].isspace():
        return Span(end, end)
    while end > start and text[end - 1] in "\r\n":
        end -= 1
    return Span(start, end)


def grouped(text: str, grid: Grid, budget: Budget, most: int | None = None) -> list[Piece]:
    """The groups of rows of a table. O(rows), plus the cells of rows that have to be cut."""
    rows, budget = grid.rows, beside(budget, 0)
    most = most or max(1, len(rows))
    if len(rows) <= most and budget.fits(grid.span):
        return [Piece(grid.span, kind="table")]
    header = text[grid.head.start : grid.head.end].strip()
    taken = budget.size(grid.head) + GAP if header else 0
    ends = [budget.index(r.end) for r in rows]
    pieces: list[Piece] = []
    at = 0
    if header:
        at = _reach(ends, budget.index(grid.head.start) + budget.room(grid.head.start), 0, most)
        first = Span(grid.head.start, rows[at - 1].end if at else grid.head.end)
        pieces += [Piece(first, kind="table")] if at or budget.fits(first) else _cells(text, first, grid, budget, head=True)
    while at < len(rows):
        start = rows[at].start
        end = _reach(ends, budget.index(start) + budget.room(start) - taken, at, most)
        if end > at:
            pieces.append(Piece(Span(start, rows[end - 1].end), context=header, kind="table"))
        else:
            pieces += _cells(text, rows[at], grid, budget)
        at = max(end, at + 1)
    return pieces


def _reach(ends: Sequence[int], last: int, at: int, most: int) -> int:
    """How far rows end by the index `last`, from row `at` on; `at` if not even that one does."""
    return bisect_right(ends, last, at, min(len(ends), at + most))


def beside(budget: Budget, units: int) -> Budget:
    """The budget of what stands behind a context of so many units, with no room kept for overlap."""
    limit = max(1, budget.limit - units)
    return replace(budget, limit=limit, fill=limit)


def _cells(text: str, row: Span, grid: Grid, budget: Budget, *, head: bool = False) -> list[Piece]:
    """A row cut between its cells; a cell that is too long is cut inside. Neighbours stay together while they fit."""
    tiles = cells(text, row, grid.delimiter)
    columns = [] if head or grid.names.start == grid.names.end else cells(text, grid.names, grid.delimiter)
    named = list(accumulate((_alone(c, budget) for c in columns), initial=0))
    most = budget.room(row.start) // SHARE
    key = _alone(columns[0], budget) + _alone(tiles[0], budget) if columns else most + 1
    pieces: list[Piece] = []
    at = 0
    while at < len(tiles):
        keyed = at > 0 and key <= most
        beyond = GAP + keyed * key
        room, begin, end = budget.room(tiles[at].start) - beyond, budget.index(tiles[at].start), at
        while end < len(tiles) and budget.index(tiles[end].end) - begin + _between(named, at, end + 1) <= room:
            end += 1
        fitted, end = end > at, max(end, at + 1)
        while end < len(tiles) and cluster_start(text, tiles[end].start) < tiles[end].start:  # an accent on the delimiter
            end += 1
        units = beyond + _between(named, at, end)
        context = _names(text, grid, columns, tiles, at, end, keyed) if columns and (fitted or units <= most) else ""
        if context and not fitted and budget.unit:  # a cell is cut: into the room that there is, not what is reckoned with
            units = min(units, extra([context], BREAK, budget.unit)[0])
        inner = beside(budget, units) if context else budget
        pieces += [Piece(s, context=context, kind="table") for s in fit(text, Span(tiles[at].start, tiles[end - 1].end), inner)]
        at = end
    return pieces


def _alone(cell: Span, budget: Budget) -> int:
    """The units of a cell out of its row, with what divides it from the next: inside a word the index may say 0."""
    return max(1, budget.size(cell)) + GAP


def _between(sums: Sequence[int], first: int, last: int) -> int:
    return sums[min(last, len(sums) - 1)] - sums[min(first, len(sums) - 1)]


def _names(text: str, grid: Grid, columns: Sequence[Span], tiles: Sequence[Span], at: int, end: int, keyed: bool) -> str:
    """`key column: its cell` on a line where asked, then the names of the columns [at, end)."""

    def plain(tile: Span) -> str:
        return text[tile.start : tile.end].strip().strip(grid.delimiter).strip()

    names = " | ".join(filter(None, map(plain, columns[at:end])))
    return "\n".join(filter(None, [f"{plain(columns[0])}: {plain(tiles[0])}" if keyed else "", names]))


def cells(text: str, row: Span, delimiter: str) -> list[Span]:
    """The cells of a row, tiling it: each ends behind its delimiter. A pipe at either end of the row begins no cell."""
    if delimiter == "|":
        cuts = [m.end() for m in PIPE.finditer(text, *row) if row.start < m.start()]
    else:
        cuts = [m.end() for m in _field(delimiter).finditer(text, *row) if m.group().endswith(delimiter)]
    return [Span(a, b) for a, b in pairwise([row.start, *(c for c in cuts if c < row.end), row.end])]


def delimited(doc: Document) -> str:
    """What divides the fields of a text that reads like CSV or TSV; "" where it doesn't.

    Its first rows all have the same number of fields. A comma before most spaces is prose.
    """
    if any(b.kind != "paragraph" for b in doc.blocks):
        return ""
    named = doc.uri.lower().endswith((".csv", ".tsv"))
    sample = doc.text[:SAMPLE]
    for delimiter in DELIMITERS:
        starts = record_starts(sample, delimiter)
        ends = [*starts[1:], len(sample)] if len(sample) == len(doc.text) else starts[1:]
        rows = [trim(sample, a, b) for a, b in zip(starts, ends, strict=False)][:SAMPLE_ROWS]
        widths = {len(cells(sample, row, delimiter)) for row in rows if row.start < row.end}
        spaced = sample.count(delimiter + " ") * 2 > sample.count(delimiter)
        if len(widths) == 1 and widths.pop() > 1 and (named or (len(rows) >= FEWEST_ROWS and not spaced)):
            return delimiter
    return "," if named else ""


def record_starts(text: str, delimiter: str) -> list[int]:
    """Where each record of a delimited text begins, as RFC 4180 has it: a quoted field may hold newlines. Linear."""
    ends = NEWLINE if '"' not in text else _record(delimiter)
    return [0, *(m.end() for m in ends.finditer(text) if m.end() < len(text))]


@lru_cache
def _field(delimiter: str) -> re.Pattern[str]:
    return re.compile(_FIELD.replace(",", delimiter) + f"(?:{re.escape(delimiter)}|(?=[\\r\\n])|\\Z)")


@lru_cache
def _record(delimiter: str) -> re.Pattern[str]:
    field = _FIELD.replace(",", delimiter)
    return re.compile(f"{field}(?:{re.escape(delimiter)}{field})*+(?:\\r\\n|\\r|\\n|\\Z)")
