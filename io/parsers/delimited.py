"""Tables as CSV or TSV: the text is the decoded source itself, a table block lies over it, its parts are the records.

Rules. A leading `sep=` line is syntax, as a byte order mark is, and no part of the text; nor is the second of two quotes that
stand for one. A quote opens a field only where a
field begins, and only if its partner ends one; any other quote is a character. A quoted field whose lines look like records
was never closed: they are records. Lines above the header with (nearly) no fields are paragraphs, as are `#` lines. The first
record is the header unless its numbers say that it is data (metadata `header`: no). NULs stay. Records of another width than
the header's, quotes without a partner and NULs are told in `warning`. Numpy over the characters, one regex over the quotes:
every step is linear, and takes a stretch of the text at a time; of a record four numbers are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Block, Offsets, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import decode

_DELIMITERS = ",;\t|"
_SAMPLE, _SAMPLE_ROWS = 1 << 16, 200
_SEP = re.compile(r"\s*\"?sep=([^\r\n])\"?[ \t]*(?:\r\n|\r|\n|\Z)", re.I)
_NUMBER = re.compile(r"[-+(]?[$€£]?\d[\d.,' ]*+(?:[eE][-+]?\d+)?[%)]?|[-+]?\.\d+|\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,4}.*")
_DARK = np.array([not chr(c).isspace() for c in range(1 << 16)])
_DOUBLE = re.compile('""')
_PREAMBLE = 50  # so many lines may stand above a header
_SWALLOWED, _ALIKE = 20, 0.8  # a field was not closed if it holds so many delimiters, and so many of its lines are like records
_TYPED = 0.8
_SHOWN = 5
STRETCH = 1 << 22  # code points that are looked at at once
DOUBLES = 1 << 16  # quotes that are taken out at once


Counts: TypeAlias = npt.NDArray[np.int32]


class Grid(NamedTuple):
    """The records of a text that are not white: `starts`, `ends` (before the newline), `widths` (fields), `lines` ended inside.

    `strays` are quotes that open a field and have no partner.
    """

    starts: Offsets
    ends: Offsets
    widths: Counts
    lines: Counts
    strays: int = 0


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """One document. `delimiter` is a character; without it, it is found."""
    text, metadata = decode(data)
    delimiter = _asked(options)
    if sep := _SEP.match(text):
        text, delimiter = text[sep.end() :], delimiter or sep[1]
    if not text.strip():
        yield Parsed(text, (), metadata)
        return
    delimiter = delimiter or sniff(text, "\t" if name.lower().endswith((".tsv", ".tab")) else "")
    yield _document(text, recovered(text, records(text, delimiter), delimiter), delimiter, metadata)


def _asked(options: Mapping[str, object]) -> str:
    asked = str(options.get("delimiter") or "")
    asked = {"\\t": "\t", "tab": "\t"}.get(asked.lower(), asked)
    if len(asked) > 1 or asked in ('"', "\r", "\n"):
        raise ConfigError(f"formats.csv.delimiter is {asked!r}; it must be one character, such as ';' or '\\t'")
    return asked


def sniff(text: str, likely: str = "") -> str:
    """What divides the fields: the character by which most of the first records are equally wide; "" for a single column."""
    sample = text[:_SAMPLE]
    best, found = (0.0, 0), ""
    for delimiter in _DELIMITERS:
        widths = records(sample, delimiter).widths[:_SAMPLE_ROWS].tolist()
        if len(sample) < len(text) and 1 < len(widths) < _SAMPLE_ROWS:
            widths.pop()  # the sample may end inside it
        usual, times = max(Counter(w for w in widths if w > 1).items(), key=lambda c: (c[1], c[0]), default=(1, 0))
        share = round(times / max(1, len(widths)), 2)
        score = (share + (delimiter == likely), usual)
        if share > (0 if delimiter == likely else 0.3) and score > best:
            best, found = score, delimiter
    return found


def records(text: str, delimiter: str, *, lines: bool = False) -> Grid:
    """The records of a text: a newline ends one unless a quoted field holds it. `lines`: none does. Linear.

    Between the two characters of \\r\\n there is a white record, left out as others are.
    """
    found, strays = list[Grid](), 0
    begun, held = 0, np.zeros(3, np.int64)  # the record that is open where a stretch begins, and what it has so far
    for at, marks in _stretches(text, delimiter, lines):
        stops = np.flatnonzero(marks.ends) + 1
        bounds = np.append(stops, len(marks.ends))
        until = np.stack([np.flatnonzero(flags).searchsorted(bounds) for flags in marks[1:4]])
        counts: Offsets = np.diff(until, prepend=0)
        counts[:, 0] += held
        edges = np.concatenate([[begun], stops + at])
        splits, newlines, dark = counts[:, :-1].astype(np.int32)
        found.append(_rows(Grid(edges[:-1], edges[1:] - 1, splits + 1, newlines - 1), dark > 0))
        begun, held, strays = int(edges[-1]), counts[:, -1], strays + marks.strays
    splits, newlines, dark = held[:, None].astype(np.int32)
    found.append(_rows(Grid(np.array([begun]), np.array([len(text)]), splits + 1, newlines), dark > 0))
    return _joined(found)._replace(strays=strays)


class _Marks(NamedTuple):
    """Of each code point of a stretch: whether it ends a record, divides fields, is a newline, is not white: bool (length,)."""

    ends: Any
    splits: Any
    newlines: Any
    dark: Any
    strays: int


def _stretches(text: str, delimiter: str, lines: bool) -> Iterator[tuple[int, _Marks]]:
    """Stretches that tile the text: where each begins, and what is in it."""
    quoted = (m.span() for m in _quoted(delimiter, lines).finditer(text)) if '"' in text else iter(())
    span, beside = next(quoted, None), np.array([True])
    for at in range(0, len(text), STRETCH):
        codes = _codes(text[at : at + STRETCH])
        fields = list[tuple[int, int]]()
        while span and span[0] < at + len(codes):
            fields.append((max(span[0] - at, 0), min(span[1] - at, len(codes))))
            if span[1] > at + len(codes):
                break  # it goes on in the next stretch
            span = next(quoted, None)
        newlines = (codes == 10) | (codes == 13)
        splits = codes == ord(delimiter) if delimiter else np.zeros(len(codes), bool)
        outside = ~_inside(fields, len(codes))
        before = np.concatenate([beside, (splits | newlines)])
        strays = int(np.count_nonzero((codes == 34) & before[:-1] & outside))
        beside = before[-1:]
        yield at, _Marks(newlines & outside, splits & outside, newlines, _DARK.take(codes, mode="clip"), strays)


def _codes(text: str) -> Any:
    """The characters' numbers as an array, of bytes where they are small."""
    try:
        return np.frombuffer(text.encode("latin-1"), np.uint8)
    except UnicodeEncodeError:
        return np.frombuffer(text.encode("utf-32-le"), np.uint32)


@lru_cache
def _quoted(delimiter: str, lines: bool = False) -> re.Pattern[str]:
    """A quoted field between what may stand beside one. The pattern begins with a literal, so that the search is fast."""
    beside = f"{re.escape(delimiter)}\\r\\n"
    content = '[^"\\r\\n]' if lines else '[^"]'
    padding = " \t".replace(delimiter, "")
    return re.compile(f'"(?<![^{beside}]")(?:{content}++|"")*+"(?=[{padding}]*+(?:[{beside}]|\\Z))')


def _inside(spans: Sequence[tuple[int, int]], length: int) -> Any:
    """Whether each offset lies in one of the disjoint spans: bool (length,)."""
    steps = np.zeros(length + 1, np.int8)
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    np.add.at(steps, bounds[:, 0], 1)
    np.add.at(steps, bounds[:, 1], -1)
    return np.cumsum(steps[:-1], dtype=np.int8).astype(bool)


def recovered(text: str, grid: Grid, delimiter: str) -> Grid:
    """The grid with each record taken apart whose lines look like records: a quote in it was never closed."""
    long = np.flatnonzero(grid.lines > 1)
    usual = _usual(grid.widths[grid.lines <= 1])
    if usual < 2:
        return grid
    pieces, at, strays = list[Grid](), 0, grid.strays
    for i in long[grid.lines[long] * (usual - 1) >= _SWALLOWED].tolist():
        start = int(grid.starts[i])
        apart = records(text[start : int(grid.ends[i])], delimiter, lines=True)
        if np.mean(apart.widths[1:] == usual) >= _ALIKE:
            pieces += [_rows(grid, slice(at, i)), apart._replace(starts=apart.starts + start, ends=apart.ends + start)]
            at, strays = i + 1, strays + 1
    return _joined([*pieces, _rows(grid, slice(at, None))])._replace(strays=strays) if pieces else grid


def _rows(grid: Grid, which: Any) -> Grid:
    """These records of them: indices, a slice, or flags."""
    return Grid(grid.starts[which], grid.ends[which], grid.widths[which], grid.lines[which])


def _joined(grids: list[Grid]) -> Grid:
    """The records of all; the list is left empty, so that no more than a column is there twice."""
    columns = [list(column) for column in zip(*(grid[:4] for grid in grids), strict=True)]
    grids.clear()
    starts, ends, widths, lines = (np.concatenate(columns.pop(0)) for _ in range(4))
    return Grid(starts, ends, widths, lines)


def _usual(widths: Counts) -> int:
    """The commonest width of the first records; 0 for none."""
    return Counter(widths[: _SAMPLE_ROWS * 10].tolist()).most_common(1)[0][0] if len(widths) else 0


class Rows(Sequence[Span]):
    """The spans of records, as two arrays: of some table there are a hundred million."""

    def __init__(self, starts: Offsets, ends: Offsets) -> None:
        self.starts, self.ends = starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Span, ...]: ...
    def __getitem__(self, at: int | slice) -> Span | tuple[Span, ...]:
        if isinstance(at, slice):
            return tuple(Rows(self.starts[at], self.ends[at]))
        return Span(int(self.starts[at]), int(self.ends[at]))

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self.starts.tolist(), self.ends.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def _document(text: str, grid: Grid, delimiter: str, metadata: dict[str, str]) -> Parsed:
    """The lines above the table as paragraphs, the table, and what is worth saying about it."""
    first = _header_at(text, grid, delimiter)
    blocks = [Block("paragraph", _trimmed(text, span, delimiter)) for span in Rows(grid.starts[:first], grid.ends[:first])]
    rows, widths = Rows(grid.starts[first:], grid.ends[first:]), grid.widths[first:]
    rows.starts[0] = _trimmed(text, rows[0]).start
    rows.ends[-1] = _trimmed(text, rows[-1]).end
    blocks.append(Block("table", Span(rows[0].start, rows[-1].end), parts=rows))
    headed = _is_headed(text, rows[:_SAMPLE_ROWS], delimiter)
    facts = {
        "delimiter": delimiter,
        "columns": str(widths[0]),
        "rows": str(len(rows) - headed),
        "header": "" if headed else "no",
    }
    facts["warning"] = "; ".join(_warnings(text, grid, widths))
    parsed = Parsed(text, tuple(blocks), metadata | {key: value for key, value in facts.items() if value})
    return _without_doubles(parsed, delimiter)


def _without_doubles(parsed: Parsed, delimiter: str) -> Parsed:
    """The document with one quote where a quoted field doubles it, as a reader sees it."""
    text = parsed.text
    if '""' not in text:
        return parsed
    fields = (m.span() for m in _quoted(delimiter).finditer(text))
    gone = np.fromiter((m.start() for a, b in fields for m in _DOUBLE.finditer(text, a + 1, b - 1)), np.int64)
    if not len(gone):
        return parsed

    def moved(offsets: Offsets) -> Offsets:
        return offsets - gone.searchsorted(offsets)

    def block(old: Block) -> Block:
        span = Span(*moved(np.array(old.span)).tolist())
        rows = old.parts
        return old._replace(span=span, parts=Rows(moved(rows.starts), moved(rows.ends)) if isinstance(rows, Rows) else ())

    return parsed._replace(text="".join(_without(text, gone)), blocks=tuple(map(block, parsed.blocks)))


def _without(text: str, gone: Offsets) -> Iterator[str]:
    """The text without the characters at these offsets, in stretches."""
    edges = np.concatenate([[-1], gone, [len(text)]])
    for i in range(0, len(gone) + 1, DOUBLES):
        yield "".join([text[a + 1 : b] for a, b in pairwise(edges[i : i + DOUBLES + 1].tolist())])


def _trimmed(text: str, span: Span, beyond: str = "") -> Span:
    """The span without white space around it, nor the delimiters that pad a line above the table."""
    line = text[span.start : span.end]
    kept = line.strip().strip(beyond).strip() or line.strip()
    start = span.start + line.find(kept)
    return Span(start, start + len(kept))


def _header_at(text: str, grid: Grid, delimiter: str) -> int:
    """The index of the first record that is no remark: one with more than a few of the table's fields filled."""
    usual, widths = _usual(grid.widths), grid.widths[: _PREAMBLE + 1].tolist()
    for at, span in enumerate(Rows(grid.starts, grid.ends)[: _PREAMBLE + 1] if usual > 1 else ()):
        remark = text.startswith("#", span.start) and (widths[at] != usual or text.startswith("##", span.start))
        few = max(1, usual // 4)
        if not remark and widths[at] > few and sum(map(bool, fields(text[slice(*span)], delimiter))) > few:
            return at
    return 0


def _is_headed(text: str, rows: Sequence[Span], delimiter: str) -> bool:
    """Whether the first row names the columns: it has words over columns of numbers, or there are no numbers."""
    sample = [fields(text[slice(*row)], delimiter) for row in rows if row.end - rows[0].start <= _SAMPLE]
    first, below = (sample or [[]])[0], [row for row in sample[1:] if len(row) == len(sample[0])]
    votes = 0
    for column, value in enumerate(first):
        filled = [row[column] for row in below if row[column]]
        if filled and sum(bool(_NUMBER.fullmatch(cell)) for cell in filled) >= _TYPED * len(filled):
            votes += -1 if _NUMBER.fullmatch(value) else bool(value)
    return votes >= 0


def fields(record: str, delimiter: str) -> list[str]:
    """The values of one record, without the quotes."""
    cuts, at = [-1], 0
    for start, end in [*(m.span() for m in _quoted(delimiter).finditer(record)), (len(record), len(record))]:
        cuts += [m.start() for m in re.compile(re.escape(delimiter)).finditer(record, at, start)] if delimiter else []
        at = end
    values = (record[a + 1 : b].strip() for a, b in pairwise([*cuts, len(record)]))
    return [v[1:-1].replace('""', '"') if len(v) > 1 and v[0] == v[-1] == '"' else v for v in values]


def _warnings(text: str, grid: Grid, widths: Counts) -> Iterator[str]:
    ragged = np.flatnonzero(widths != widths[0])
    if len(ragged):
        shown = ", ".join(map(str, ragged[:_SHOWN].tolist())) + (", …" if len(ragged) > _SHOWN else "")
        yield f"{len(ragged)} of {len(widths) - 1} rows don't have the header's {widths[0]} fields: {shown}"
    if grid.strays:
        yield f"quotes that open a field and are never closed, read as characters: {grid.strays}"
    if nuls := text.count("\0"):
        yield f"NUL characters: {nuls}"
