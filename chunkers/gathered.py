"""Pieces that are gathered from several places of a document: what each chunk of them holds, and how it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from chunkmill.chunkers.base import Budget, Piece, Span
from chunkmill.chunkers.counts import exact, extra
from chunkmill.chunkers.limit import shrunk
from chunkmill.chunkers.seams import trim
from chunkmill.chunkers.structure import BREAK, SHARE

if TYPE_CHECKING:
    from chunkmill.chunkers.finish import Chunking


def gathered(text: str, pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces, each as one or more within the limit by an exact count. Each has its parts, in order, and as its text their
    slices, a line each.

    A part that is too long alone is cut; a context of its own that is over its share goes.
    """
    found: list[Piece] = []
    for piece in pieces:
        (own,) = extra([piece.context], BREAK, chunking.unit)
        if own > budget.room(piece.parts[0].start) // SHARE:
            piece, own = piece._replace(context=""), 0
        for parts in _within(text, piece.parts, own, chunking, budget):
            found.append(piece._replace(span=Span(parts[0].start, parts[-1].end), parts=parts, text=lines(text, parts)))
    return found


def lines(text: str, parts: Sequence[Span]) -> str:
    """What the parts read as."""
    return BREAK.join(text[start:end] for start, end in parts)


def united(text: str, parts: Sequence[Span]) -> tuple[Span, ...]:
    """The parts; those between which nothing stands but white space are one."""
    found: list[Span] = []
    for part in parts:
        if found and not text[found[-1].end : part.start].strip():
            found[-1] = Span(found[-1].start, part.end)
        else:
            found.append(part)
    return tuple(found)


def _within(text: str, parts: Sequence[Span], own: int, chunking: Chunking, budget: Budget) -> Iterator[tuple[Span, ...]]:
    """The parts in as few runs as fit, greedily: each as the spans that it comes to."""
    left = [s for s in (trim(text, *p) for p in parts) if s.start < s.end][::-1]
    (line_break,) = chunking.unit.count([BREAK])
    while left:
        room = max(1, budget.room(left[-1].start) - own)
        n = _fitting(text, left, room, line_break, budget)
        while n > 1 and chunking.unit.count([lines(text, united(text, left[: -n - 1 : -1]))])[0] > room:
            n -= 1
        if n == 1:
            (size,) = exact(text, left[-1:], budget, chunking.unit)
            left[-1:] = shrunk(text, left[-1], size, room, chunking.unit, budget)[::-1]
        yield united(text, left[: -n - 1 : -1])
        del left[-n:]


def _fitting(text: str, left: Sequence[Span], room: int, line_break: int, budget: Budget) -> int:
    """How many of the parts (the last one is the first) fit by the index: at least one."""
    size = budget.size(left[-1])
    for n, (after, part) in enumerate(pairwise(reversed(left)), 1):
        apart = text[after.end : part.start].strip()
        size += budget.size(part) + line_break if apart else budget.size(Span(after.end, part.end))
        if size > room:
            return n
    return len(left)
