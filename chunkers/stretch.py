"""A stretch of a document as a document of its own, so that a strategy can run on it: how strategies are nested."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from chunkmill.chunkers.base import EMPTY, Block, Budget, Chunker, Complete, Document, Embed, Noted, Offsets, Piece, Plan, Span
from chunkmill.chunkers.drive import no_outcome, pieces_of
from chunkmill.chunkers.seams import CLUSTER, cluster_start, trim


def cut(chunker: Chunker, doc: Document, budget: Budget, span: Span) -> Plan:
    """The pieces of this stretch, in the document's offsets; the strategy sees nothing outside it."""
    pieces = yield from pieces_of(chunker, within(doc, span), stretch(budget, span))
    moved = [_placed(p, span.start) for p in pieces]
    return Noted(moved, pieces.notes) if isinstance(pieces, Noted) else moved


def _placed(piece: Piece, by: int) -> Piece:
    parts = tuple(Span(p.start + by, p.end + by) for p in piece.parts)
    return piece._replace(span=Span(piece.span.start + by, piece.span.end + by), parts=parts)


def together(plans: Sequence[Plan]) -> Generator[Embed | Complete, Any, list[list[Piece]]]:
    """The pieces of each plan; what the plans ask for in one round is asked as one request of each kind."""
    done: dict[int, list[Piece]] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(plans)))
    while replies:
        asked: dict[int, Embed | Complete] = {}
        for i, reply in replies.items():
            try:
                request = plans[i].send(reply)
            except StopIteration as end:
                done[i] = end.value
                continue
            if not isinstance(request, Embed | Complete):
                raise no_outcome(request, asking=True)
            asked[i] = request
        replies = {}
        for kind in (Embed, Complete):
            asking = {i: request[0] for i, request in asked.items() if isinstance(request, kind)}
            if asking:
                answer = yield kind([text for texts in asking.values() for text in texts])
                edges = pairwise(accumulate(map(len, asking.values()), initial=0))
                replies |= {i: answer[a:b] for i, (a, b) in zip(asking, edges, strict=True)}
    return [done[i] for i in range(len(plans))]


def within(doc: Document, span: Span) -> Document:
    """The stretch as a document: the same id and metadata, its text, and the blocks that touch it, cut to it and moved."""
    first = bisect_right(doc.blocks, span.start, key=lambda b: b.span.end)
    last = bisect_left(doc.blocks, span.end, key=lambda b: b.span.start)
    blocks = tuple(_moved(b, span) for b in doc.blocks[first:last])
    return replace(doc, text=doc[span], blocks=blocks)


def _moved(block: Block, span: Span) -> Block:
    first = bisect_right(block.parts, span.start, key=lambda p: p.end)
    last = bisect_left(block.parts, span.end, key=lambda p: p.start)
    return block._replace(span=_clipped(block.span, span), parts=tuple(_clipped(p, span) for p in block.parts[first:last]))


def _clipped(part: Span, span: Span) -> Span:
    return Span(max(part.start, span.start) - span.start, min(part.end, span.end) - span.start)


def stretch(budget: Budget, span: Span) -> Budget:
    """The same limit over the index of a stretch. O(log n) and the stretch's own tokens."""
    starts = None if budget.starts is None else budget.starts[budget.index(span.start) : budget.index(span.end)] - span.start
    at, size = _contexts(budget, span)
    return replace(budget, starts=starts, length=span.end - span.start, context_at=at, context_size=size)


def _contexts(budget: Budget, span: Span) -> tuple[Offsets, Offsets]:
    first = max(0, int(budget.context_at.searchsorted(span.start, "right")) - 1)
    last = int(budget.context_at.searchsorted(span.end))
    return budget.context_at[first:last] - span.start, budget.context_size[first:last]


def narrowed(budget: Budget, limit: int) -> Budget:
    """A smaller limit over the same index, of the body alone; its context takes from what the job's limit leaves."""
    spare = max(0, budget.limit - limit)
    size = (budget.context_size - spare).clip(0)
    at, size = (budget.context_at, size) if size.any() else (EMPTY, EMPTY)
    return replace(budget, limit=limit, fill=min(limit, budget.fill), context_at=at, context_size=size)


def whole(text: str, pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces, trimmed, with no edge inside a grapheme cluster: one that was cut goes with its first part.

    For strategies under a limit below the job's, where a cluster that was too long may yet fit the job's.
    """
    done: list[Piece] = []
    stop = reached = 0  # where the piece before ended, and ends now
    for piece in pieces:
        span = trim(text, *piece.span)
        start, end = cluster_start(text, span.start), _cluster_end(text, span.end)
        if stop <= span.start:
            start = max(start, reached)
        if piece.text or piece.parts:
            done.append(piece)
        elif start < end and end > reached:
            done.append(piece._replace(span=Span(start, end)))
            stop, reached = span.end, end
    return done


def _cluster_end(text: str, offset: int) -> int:
    start = cluster_start(text, offset)
    return offset if start == offset else int(next(CLUSTER.finditer(text, start)).end())
