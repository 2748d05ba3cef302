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
        lead = budget.limit - budget.fill if self.overlap_before else 0
        return [Piece(trim(doc.text, *w)) for w in windows(doc.text, budget, lead)]


def windows(text: str, budget: Budget, lead: int = 0) -> list[Span]:
    """Windows as large as the room where they begin, each from `limit - fill` units before the end of the last one on.

    The first one is `lead` units smaller.
    """
    spans: list[Span] = []
    start = 0
    while start < budget.length:
        stop = budget.offset(budget.index(start) + budget.room(start) - lead)
        end = cluster_start(text, stop)
        end = end if end > start else max(stop, start + 1)
        if not spans or end > spans[-1].end:
            spans.append(Span(start, end))
        start = after(text, Span(start, end), budget) if end < budget.length else end
        lead = 0
    return spans


def after(text: str, window: Span, budget: Budget) -> int:
    """Where the next window begins: in this one as far as they overlap, in any case behind its start."""
    start = cluster_start(text, budget.offset(budget.index(window.end) - (budget.limit - budget.fill)))
    return start if window.start < start <= window.end else window.end
