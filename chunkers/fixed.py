"""Windows of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.seams import cluster_start, trim


@dataclass(frozen=True, slots=True)
class Fixed:
    """Windows of exactly `size` units, each `size - overlap` after the one before; the last one carries the tail.

    A window never begins or ends inside a grapheme cluster that fits it. `overlap_before`: the overlap stands in front of
    `size` units instead of being part of them.
    """

    overlap_before: bool = False

    needs: ClassVar[frozenset[type]] = NOTHING
    overlaps: ClassVar[bool] = True

    def sized(self, size: int, overlap: int) -> tuple[int, int]:
        """What a window holds, and what of it is overlap."""
        return (size + overlap if self.overlap_before else size), overlap

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The windows, in order."""
        return [
            Piece(trim(doc.text, *w))
            for w in windows(doc.text, budget, budget.fill - budget.limit if self.overlap_before else 0)
        ]


def windows(text: str, budget: Budget, first: int = 0) -> list[Span]:
    """Steps of `budget.fill` units from the index `first` on; each window ends a `limit` after its start."""
    spans: list[Span] = []
    start, step = 0, max(1, budget.fill)
    while start < budget.length:
        stop = budget.offset(first + budget.limit)
        end = cluster_start(text, stop)
        end = end if end > start else max(stop, start + 1)
        if not spans or end > spans[-1].end:
            spans.append(Span(start, end))
        first += step
        step_start = cluster_start(text, budget.offset(first))
        if not start < step_start <= end:
            step_start, first = end, budget.index(end)
        start = step_start if end < budget.length else budget.length
    return spans
