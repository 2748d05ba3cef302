"""Overlap: what stands before a chunk is repeated in it, from a word's start, as far as the limit leaves room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from chunkmill.chunkers.base import Budget, Piece, Span
from chunkmill.chunkers.counts import exact
from chunkmill.chunkers.measure import Tokenizer
from chunkmill.chunkers.seams import cluster_start, trim


def apart(pieces: Sequence[Piece]) -> list[bool]:
    """Which pieces take no overlap: those of another kind than the one before, whole rows and records, and those that bring
    their own context.
    """
    whole = ("table", "record")
    return [bool(p.context) or p.kind != before.kind or p.kind in whole for before, p in pairwise([*pieces[:1], *pieces])]


def overlapped(
    text: str, bodies: Sequence[Span], sizes: Sequence[int], rooms: Sequence[int], overlap: int, budget: Budget, unit: Tokenizer
) -> tuple[list[Span], list[int]]:
    """Each body with up to `overlap` units of what stands before it, as far as the limit leaves room; and the exact sizes."""
    reaches = [min(overlap, room - size) for room, size in zip(rooms, sizes, strict=True)]
    spans, sizes = list(bodies), list(sizes)
    open_ = [i for i in range(1, len(bodies)) if reaches[i] > 0]
    while open_:
        starts = {i: _word_start(text, budget, bodies[i].start, reaches[i], bodies[i - 1].start + 1) for i in open_}
        tried = [Span(starts[i], bodies[i].end) for i in open_]
        counts = exact(text, [*(Span(starts[i], bodies[i].start) for i in open_), *tried], budget, unit)
        added, whole = counts[: len(open_)], counts[len(open_) :]
        again = []
        for i, span, more, size in zip(open_, tried, added, whole, strict=True):
            over = max(more - overlap, size - rooms[i])
            if over <= 0:
                spans[i], sizes[i] = span, size
                continue
            reaches[i] -= over
            if reaches[i] > 0:
                again.append(i)
        open_ = again
    return spans, sizes


def _word_start(text: str, budget: Budget, start: int, reach: int, floor: int) -> int:
    """The first word that begins within `reach` units before `start`; a cluster's start where there is no white space."""
    at = max(floor, budget.offset(budget.index(start) - reach))
    word = at
    while word < start and not (text[word - 1].isspace() and not text[word].isspace()):
        word += 1
    if word < start:
        return word
    snapped = cluster_start(text, at)
    return trim(text, snapped, start).start if snapped >= floor else start
