"""The hard limit: pieces cut until each is within it by an exact count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import le
from typing import TYPE_CHECKING

from chunkmill.chunkers.base import Budget, Chunker, Piece, Span
from chunkmill.chunkers.counts import exact, extra
from chunkmill.chunkers.fixed import Fixed, after
from chunkmill.chunkers.measure import Tokenizer
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import CLUSTER, cluster_start, plain, text_from, trim
from chunkmill.chunkers.sliding import Sliding
from chunkmill.chunkers.structure import BREAK

if TYPE_CHECKING:
    from chunkmill.chunkers.finish import Chunking


def bounded(text: str, leaves: Sequence[Piece], chunking: Chunking, budget: Budget) -> tuple[list[Piece], list[int]]:
    """The leaves cut to the limit, first by the index, then by recounting each body exactly; and the exact sizes."""
    parts = _unbroken(text, _cut(text, leaves, rooms_of(leaves, chunking, budget), budget))
    sizes = exact(text, [p.span for p in parts], budget, chunking.unit)
    rooms = rooms_of(parts, chunking, budget)
    if all(map(le, sizes, rooms)):
        return parts, sizes
    if _in_windows(chunking.strategy):
        first = [*map(le, sizes, rooms)].index(False)  # this window and those behind it are measured exactly, one by one
        windows = _windows(text, parts[first].span, budget, chunking.unit)
        done = [*parts[:first], *(at(parts[first], s) for s in windows)]
        return done, exact(text, [p.span for p in done], budget, chunking.unit)
    done = [
        at(part, span)
        for part, size, room in zip(parts, sizes, rooms, strict=True)
        for span in shrunk(text, part.span, size, room, chunking.unit, budget)
    ]
    return done, exact(text, [p.span for p in done], budget, chunking.unit)


def _in_windows(strategy: Chunker) -> bool:
    """Whether the pieces are windows, each of which may begin anywhere."""
    return isinstance(strategy, Fixed) or (isinstance(strategy, Sliding) and strategy.over == "units")


def _cut(text: str, leaves: Sequence[Piece], rooms: Sequence[int], budget: Budget) -> list[Piece]:
    """The leaves trimmed, each that is too large by the index cut."""
    index = budget.indices([p.span for p in leaves])
    parts: list[Piece] = []
    for leaf, size, room in zip(leaves, (index[:, 1] - index[:, 0]).tolist(), rooms, strict=True):
        start, end = leaf.span
        if size > room:
            parts += [at(leaf, s) for s in fit(text, leaf.span, budget.within(room))]
        elif start < end and not (text[start].isspace() or text[end - 1].isspace()):
            parts.append(leaf)
        elif (trimmed := trim(text, start, end)).start < trimmed.end:
            parts.append(at(leaf, trimmed))
    return parts


def at(piece: Piece, span: Span) -> Piece:
    """The piece with this span; itself where that is so already, since a copy costs more than all else here."""
    return piece if piece.span == span else piece._replace(span=span)


def _windows(text: str, first: Span, budget: Budget, unit: Tokenizer) -> Iterator[Span]:
    """Windows from where the `first` one begins to the end of the text, each as large as its exact size allows."""
    start, most = first.start, budget.size(first)
    while start < len(text):
        room, over = min(most, budget.room(start)), 1
        limit = room
        while over > 0:
            raw = budget.offset(budget.index(start) + limit)
            stop = cluster_start(text, raw)
            stop = stop if stop > start else max(raw, start + 1)
            over = exact(text, [trim(text, start, stop)], budget, unit)[0] - room if stop > start + 1 else 0
            limit -= max(1, over)
        yield trim(text, start, stop)
        start = text_from(text, after(text, Span(start, stop), budget)) if text_from(text, stop) < len(text) else len(text)
        most = budget.limit


def _unbroken(text: str, parts: list[Piece]) -> list[Piece]:
    """The parts with a boundary inside a grapheme cluster moved to the cluster's start, unless a part would be empty."""
    touching = [i for i, (left, right) in enumerate(pairwise(parts), 1) if left.span[1] == right.span[0]]
    for i in touching:
        left, right = parts[i - 1].span, parts[i].span
        if plain(text, right.start):
            continue
        start = cluster_start(text, right.start)
        if left.start < start < right.start and (before := trim(text, left.start, start)).start < before.end:
            parts[i - 1] = parts[i - 1]._replace(span=before)
            parts[i] = parts[i]._replace(span=Span(start, right.end))
    return parts


def rooms_of(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[int]:
    """The units that the body of each piece may have: the limit less its own context, or else less that of its place."""
    rooms = budget.rooms([p.span for p in pieces]).tolist() if len(budget.context_at) else [budget.limit] * len(pieces)
    if any(p.context for p in pieces):
        own = extra([p.context for p in pieces], BREAK, chunking.unit)
        rooms = [max(1, room - n) for room, n in zip(rooms, own, strict=True)]
    return rooms


def shrunk(text: str, span: Span, size: int, room: int, unit: Tokenizer, budget: Budget) -> list[Span]:
    """A span whose exact size is over its room, cut so that every part is within it (down to single characters)."""
    over = size - room
    if over <= 0 or span.end - span.start == 1:
        return [span]
    parts = fit(text, span, budget.within(max(1, min(room - over, budget.size(span) - 1))))
    parts = _healed(text, parts if len(parts) > 1 else _halves(text, span), room, unit, budget)
    sizes = exact(text, parts, budget, unit)
    return [s for part, n in zip(parts, sizes, strict=True) for s in shrunk(text, part, n, room, unit, budget)]


def _healed(text: str, parts: Sequence[Span], room: int, unit: Tokenizer, budget: Budget) -> list[Span]:
    """The parts with each grapheme cluster put together again that was cut though it has room."""
    healed: list[Span] = []
    for part in parts:
        left = healed[-1] if healed else None
        if left and cluster_start(text, part.start) == left.start:
            end = CLUSTER.match(text, left.start).end()
            if left.start < part.start < end and exact(text, [Span(left.start, end)], budget, unit)[0] <= room:
                healed[-1] = Span(left.start, end)
                part = trim(text, end, part.end) if end < part.end else Span(part.end, part.end)
        if part.start < part.end:
            healed.append(part)
    return healed


def _halves(text: str, span: Span) -> list[Span]:
    middle = (span.start + span.end) // 2
    cut = cluster_start(text, middle)
    cut = cut if cut > span.start else max(span.start + 1, middle)
    return [s for s in (trim(text, span.start, cut), trim(text, cut, span.end)) if s.start < s.end]
