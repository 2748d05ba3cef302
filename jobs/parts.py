"""A document too large to travel in one row goes in parts: stretches of it, cut at its strongest seams, each chunked by itself.

Only the text is held whole; tokens, chunks and Arrow rows exist for one part at a time. The parts come first, each a row whose
chunks are written; the row of the document itself, which is the ledger's, comes last and says how many they were.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Block, Document, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.finish import Chunk
from chunkmill.chunkers.identity import identities
from chunkmill.chunkers.places import NEWLINE, is_code
from chunkmill.chunkers.scan import sentence_ends
from chunkmill.chunkers.seams import VISIBLE, cluster_start
from chunkmill.chunkers.stretch import within
from chunkmill.chunkers.structure import BREAK
from chunkmill.jobs import rows
from chunkmill.jobs.backends import encoder
from chunkmill.jobs.config import Job
from chunkmill.jobs.rows import PART, Row, Whole

SHARE = 4  # a part ends in the last one of so many stretches of it
WHOLE_MOST = 1 << 30  # code points that go in one row where a model decides the cuts: columns of Arrow end at twice that
HEAD_MOST = 1 << 16  # of a table's header that is repeated
LOOK = 64  # characters behind a seam that choose among equals
FIRM_LINE, LINE, WHITE = re.compile(r"\n[ \t\r]*\n(?=\S)"), re.compile(r"(?<=\n)(?=[^\n])"), re.compile(r"(?<=\s)(?=\S)")


class Part(NamedTuple):
    """A stretch of a document as a document of its own, with what is open where it begins: its headings, its page, its table.

    `head` is the header of that table; it stands in front of the text, on lines of its own. `rows` is how much later a row of
    that table comes in the whole, `table_end` where the table ends in the part.
    """

    document: Document
    span: Span
    head: str = ""
    rows: int = 0
    table_end: int = 0

    @property
    def shift(self) -> int:
        """What is to be added to an offset."""
        return self.span.start - _lines_of(self.head)


def too_large(row: Row, job: Job) -> bool:
    """Whether the document goes in parts."""
    return row.document is not None and not job.chunking.needs and len(row.document.text) > job.run.part_size


def bounded(row: Row, job: Job) -> Row:
    """The row of a document that goes whole, or of its failure where that can't be."""
    if row.document is None or len(row.document.text) <= WHOLE_MOST:
        return row
    why = f"its text has {len(row.document.text):,} characters; a strategy that asks a model is given {WHOLE_MOST:,} at most"
    return row._replace(document=None, error=DocumentError("too_large", f"{why}, any other is given it in parts"), images=())


def divided(row: Row, job: Job, skip: int = 0) -> Iterator[pa.Table]:
    """The parts of a document, without the `skip` first ones, each a table of one row, then the document's own row.

    Where a part can't be cut the document's row is that of a failed one, and comes at once.
    """
    doc = row.document
    assert doc is not None
    code, seen, part = is_code(doc), dict[str, int](), Part(Document("", "", ""), Span(0, 0))
    ordinal = tokens = lines = number = 0
    chunks: list[Chunk] = []
    for number, span in enumerate(spans(doc, job.run.part_size)):
        part = part_of(doc, span, opened(part.document), heads=any(c.kind == "table" and c.context for c in chunks))
        outcome = _cut(part.document, job)
        if isinstance(outcome, DocumentError):
            error = DocumentError(outcome.kind, f"from character {span.start:,} on: {outcome.message}")
            yield rows.table([row._replace(document=None, error=error, images=())], None)
            return
        chunks = numbered(headless(outcome, part.head), doc.id, ordinal, seen)
        if number >= skip:
            values = {**row.values, "last": False, "read": _read(row, span.end)}
            own = row._replace(values=values, document=part.document, images=(), status=PART, part=number)
            cut = with_ids(rows.table([own], [chunks], with_forms=job.keeps_apart), job)
            yield rows.moved(cut, part.shift, (part.table_end, part.rows), lines if code else None)
        ordinal, tokens = ordinal + len(chunks), tokens + sum(c.n_tokens for c in chunks)
        lines += len(NEWLINE.findall(doc.text, *span)) if code else 0
    yield _own(row, doc, Whole(number + 1, ordinal, tokens), job)


def _read(row: Row, end: int) -> int:
    """The bytes up to an offset of a source that is this one document; nothing tells of another."""
    assert row.document
    alone = row.values["last"] and not row.values["ordinal"]
    return int(row.values["size"] or 0) * end // len(row.document.text) if alone else 0


def _own(row: Row, doc: Document, whole: Whole, job: Job) -> pa.Table:
    """The document's row: without its text, of which `parser` says so, as nothing can be cut anew from it."""
    values = {**row.values, "parser": f"{row.values['parser']} in {whole.parts} parts"}
    bare, status = replace(doc, text="", blocks=()), "ok" if VISIBLE.search(doc.text) else "empty"
    own = row._replace(values=values, document=bare, status=status, whole=whole)
    return rows.textless(with_ids(rows.table([own], [[]]), job))


def _cut(doc: Document, job: Job) -> list[Chunk] | DocumentError:
    return chunk_all([doc], job.chunking, {})[0] if VISIBLE.search(doc.text) else []


def with_ids(cut: pa.Table, job: Job) -> pa.Table:
    """The rows with what a model will read as ids, if there is one."""
    return rows.with_ids(cut, encoder(job.embed, job.model), late=job.embed.pooling == "late") if job.embed else cut


def numbered(chunks: Sequence[Chunk], doc_id: str, ordinal: int, seen: dict[str, int]) -> list[Chunk]:
    """The chunks of a part with the ordinals and ids that they have in the whole. `seen`: how often each text came before."""
    ids = identities(doc_id, [c.level for c in chunks], [c.text for c in chunks], seen)
    names = dict(zip((c.id for c in chunks), ids, strict=True))
    return [
        c._replace(id=name, ordinal=ordinal + i, parent_id=names[c.parent_id] if c.parent_id else None)
        for i, (c, name) in enumerate(zip(chunks, ids, strict=True))
    ]


def headless(chunks: Sequence[Chunk], head: str) -> list[Chunk]:
    """The chunks without the header that stands in front of the part: what they hold of it is context, as in any other chunk.

    The model reads the same, so that no size changes.
    """
    n = _lines_of(head)
    kept = [c for c in chunks if c.end > n]
    return [c if c.start >= n else _headless(c, n - c.start) for c in kept]


def _headless(chunk: Chunk, n: int) -> Chunk:
    context = BREAK.join(filter(None, (chunk.context, chunk.text[: n - len(BREAK)])))
    return chunk._replace(start=chunk.start + n, text=chunk.text[n:], context=context)


def _lines_of(head: str) -> int:
    """The characters that a header takes in front of a part."""
    return len(head) + len(BREAK) if head else 0


def spans(doc: Document, size: int) -> Iterator[Span]:
    """Stretches of at most `size` code points that tile the text."""
    start = 0
    while len(doc.text) - start > size:
        end = seam(doc, start + size - size // SHARE, start + size)
        yield Span(start, end)
        start = end
    yield Span(start, len(doc.text))


def seam(doc: Document, low: int, high: int) -> int:
    """The strongest place to cut behind `low` and up to `high`.

    Among equals the text behind them chooses, so that what is inserted or deleted elsewhere does not move it.
    """
    found = next(filter(None, (list(places) for places in _places(doc, low, high))), None)
    if not found:
        cut = cluster_start(doc.text, high)
        return cut if cut > low else high
    return min(found, key=lambda at: (zlib.crc32(doc.text[at : at + LOOK].encode()), at))


def _places(doc: Document, low: int, high: int) -> Iterator[Iterator[int]]:
    """Places to cut, the strongest kind first: headings, blocks, their parts, blank lines, lines, sentences, words."""
    touched = doc.blocks[bisect_right(doc.blocks, low, key=_end) : bisect_left(doc.blocks, high, key=_start)]
    blocks = [b for b in touched if low < b.span.start]
    least = min((b.level for b in blocks if b.kind == "heading"), default=0)
    yield (b.span.start for b in blocks if least and b.level == least)
    yield (b.span.start for b in blocks)
    yield (p.start for b in touched for p in _between(b, low, high) if low < p.start)
    for pattern in (FIRM_LINE, LINE):
        yield (m.end() for m in pattern.finditer(doc.text, low + 1, high))
    yield (begin for _, begin in sentence_ends(doc.text, low + 1, high) if begin < high)
    yield (m.end() for m in WHITE.finditer(doc.text, low + 1, high))


def _between(block: Block, low: int, high: int) -> Sequence[Span]:
    first, last = (bisect_left(block.parts, at, key=lambda p: p.start) for at in (low, high))
    return block.parts[first:last]


def _start(block: Block) -> int:
    return block.span.start


def _end(block: Block) -> int:
    return block.span.end


def opened(doc: Document) -> tuple[Block, ...]:
    """What is open at the end of a document, as blocks of no width: its page, and the headings that the next text is under."""
    page: int | None = None
    headings: list[Block] = []
    for block in doc.blocks:
        page = block.page if block.page is not None else page
        if block.kind == "heading":
            headings = [h for h in headings if h.level < block.level]
            headings.append(block._replace(span=Span(0, 0), page=None, title=block.title or doc[block.span].strip()))
    front = [Block("page_break", Span(0, 0), page=page)] if page is not None else []
    return (*front, *headings)


def part_of(doc: Document, span: Span, front: tuple[Block, ...], *, heads: bool) -> Part:
    """The stretch as a document. `front`: what is open where it begins; `heads`: whether the header of a table is repeated."""
    inner = within(doc, span)
    first = bisect_right(doc.blocks, span.start, key=_end)
    table = doc.blocks[first] if first < len(doc.blocks) else None
    if table is None or table.kind != "table" or table.span.start >= span.start or not table.parts:
        return Part(replace(inner, blocks=(*front, *inner.blocks)), span)
    before = bisect_right(table.parts, span.start, key=lambda p: p.end)
    head = doc.text[table.span.start : table.parts[1].start].strip() if heads and before > 1 else ""
    head = "" if doc.metadata.get("header") == "no" or len(head) > HEAD_MOST else head
    n = _lines_of(head)
    blocks = [_behind(b, n) for b in inner.blocks]
    if head:
        top = blocks[0]
        blocks[0] = top._replace(span=Span(0, top.span.end), parts=(Span(0, len(head)), *top.parts))
    text = f"{head}{BREAK}{inner.text}" if head else inner.text
    whole = replace(inner, text=text, blocks=(*front, *blocks))
    return Part(whole, span, head, before - bool(head), blocks[0].span.end)


def _behind(block: Block, n: int) -> Block:
    """The block behind so many more characters."""
    parts = tuple(Span(a + n, b + n) for a, b in block.parts)
    return block._replace(span=Span(block.span.start + n, block.span.end + n), parts=parts)
