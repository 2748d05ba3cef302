"""Where chunks stand in their document besides the offsets: rows of tables, lines of code; and tables in other forms."""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chunkmill.chunkers.base import Block, Document, Span
from chunkmill.chunkers.table import cells, marked_up

Range = tuple[int, int] | tuple[None, None]
NEWLINE = re.compile(r"\r\n|\r|\n")
NOWHERE: Range = (None, None)
CAPTION = 300  # characters of a paragraph beside a table that may be its caption
CAPTIONED = re.compile(r"\s*(?:table|tab\.|tabelle|tableau|tabla|tabella|表|таблица)\s*[\dIVXivx]", re.I)


def rows(doc: Document, spans: Sequence[Span]) -> list[Range]:
    """The first and last row of the table that each span begins in, from 1 (the header is no row; a span that holds just it
    is in row 0); (None, None) outside tables.
    """
    tables = [b for b in doc.blocks if b.kind == "table" and b.parts]
    if not tables:
        return [NOWHERE] * len(spans)
    starts = np.array([b.span.start for b in tables])
    return [_rows(tables[max(0, int(starts.searchsorted(end)) - 1)], Span(start, end)) for start, end in spans]


def _rows(table: Block, span: Span) -> Range:
    if span.end <= table.span.start or span.start >= table.span.end:
        return NOWHERE
    first = max(0, bisect_right(table.parts, span.start, key=_begin) - 1)
    return first, bisect_left(table.parts, span.end, key=_begin) - 1


def _begin(part: Span) -> int:
    return part.start


def lines(doc: Document, spans: Sequence[Span]) -> list[Range]:
    """The first and last line of each span in a document that is code, from 1; (None, None) in any other."""
    if not is_code(doc):
        return [NOWHERE] * len(spans)
    ends = np.fromiter((m.end() for m in NEWLINE.finditer(doc.text)), np.int64)
    return [(int(ends.searchsorted(a, "right")) + 1, int(ends.searchsorted(max(a, b - 1), "right")) + 1) for a, b in spans]


def is_code(doc: Document) -> bool:
    """Whether the document is code and nothing else."""
    return any(b.kind == "code" for b in doc.blocks) and all(b.kind == "code" for b in doc.blocks)


class Forms(NamedTuple):
    """A table, or some rows of it under its header, as CSV and as Markdown; `caption` is that of the table, if it has one."""

    csv: str
    markdown: str
    caption: str


def forms(doc: Document, span: Span) -> Forms | None:
    """The forms of the rows in the span; None where it is in no table."""
    touched = (i for i, b in enumerate(doc.blocks) if b.span.start < span.end and span.start < b.span.end)
    at = next((i for i in touched if doc.blocks[i].kind == "table"), None)
    if at is None:
        return None
    block = doc.blocks[at]
    delimiter = doc.metadata.get("delimiter", "|")
    grid = marked_up(doc.text, block, 0, doc.metadata.get("header") != "no", delimiter)
    kept = [r for r in grid.rows if r.start < span.end and span.start < r.end]
    heads = [grid.names] if grid.names.start < grid.names.end else []
    table = [[_plain(doc[c], delimiter) for c in cells(doc.text, row, delimiter)] for row in [*heads, *kept]]
    return Forms(_csv(table), _markdown(table, headed=bool(heads)), _caption(doc, at))


def _plain(cell: str, delimiter: str) -> str:
    text = cell.strip().strip(delimiter).strip()
    return text[1:-1] if delimiter != "|" and len(text) > 1 and text[0] == text[-1] == '"' else text


def _csv(table: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    return out.getvalue()


def _markdown(table: Sequence[Sequence[str]], *, headed: bool) -> str:
    width = max(map(len, table), default=0)
    rows = [[c.replace("|", "\\|").replace("\n", " ") for c in [*row, *[""] * (width - len(row))]] for row in table]
    head, body = (rows[0], rows[1:]) if headed and rows else ([""] * width, rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * width, *body])


def _caption(doc: Document, at: int) -> str:
    """The paragraph right before or behind the table that names it ("Table 3: …")."""
    beside = [doc.blocks[i] for i in (at - 1, at + 1) if 0 <= i < len(doc.blocks)]
    texts = [doc[b.span].strip() for b in beside if b.kind == "paragraph" and b.span.end - b.span.start <= CAPTION]
    return next((text for text in texts if CAPTIONED.match(text)), "")
