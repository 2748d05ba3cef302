"""The two moves every strategy is made of: fill chunks with neighbours, and force what is too long into the limit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from chunkmill.chunkers.base import Budget, Span
from chunkmill.chunkers.seams import cluster_start, last_white, trim


def pack(parts: Sequence[Span], budget: Budget) -> list[Span]:
    """Join neighbours while the result can be packed; a part that alone is too long stays alone.

    Greedy from the left. O(chunks · log parts).
    """
    if len(parts) < 2:
        return list(parts)
    index = budget.indices(parts)
    last = index[:, 1].tolist()
    most = (index[:, 0] + np.maximum(1, budget.rooms(parts) - budget.limit + budget.fill)).tolist()
    packed, i = [], 0
    while i < len(parts):
        j = max(i + 1, bisect_right(last, most[i], i))
        packed.append(Span(parts[i].start, parts[j - 1].end))
        i = j
    return packed


def fit(text: str, span: Span, budget: Budget) -> list[Span]:
    """Force a span into the limit: cut at white space where there is any, else between grapheme clusters.

    A cluster is cut only where it alone is over the limit; a code point never.
    """
    pieces = []
    span = trim(text, *span)
    while span.start < span.end and not budget.fits(span):
        cut = _cut(text, span, budget)
        pieces.append(trim(text, span.start, cut))
        span = trim(text, cut, span.end)
    return [*pieces, span] if span.start < span.end else pieces


def _cut(text: str, span: Span, budget: Budget) -> int:
    stop = min(span.end - 1, budget.furthest(span.start))
    if text[stop].isspace() or (white := last_white(text, span.start, stop)) < 0:
        cut = stop if text[stop].isspace() else cluster_start(text, stop)
    else:
        cut = white
    return cut if cut > span.start else max(stop, span.start + 1)
