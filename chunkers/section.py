"""Sections: what stands under one heading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

from chunkmill.chunkers.anchor import pack_anchored
from chunkmill.chunkers.base import NOTHING, Block, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.pack import pack
from chunkmill.chunkers.recursive import anchored, divided, split
from chunkmill.chunkers.seams import text_from, trim

Join = Callable[[Sequence[Span]], list[Span]]


@dataclass(frozen=True, slots=True)
class Section:
    """One section a chunk; its sub-sections together with it while they fit, else packed, else split by paragraph.

    `depth`: headings deeper than this don't divide. `merge` False: every heading begins a chunk of its own. `stable`: packed
    and split at boundaries that an edit elsewhere leaves alone, else greedily.
    """

    depth: int = 6
    merge: bool = True
    stable: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= 6:
            raise ConfigError(f"chunk.depth is {self.depth}; a heading's level is 1 to 6")

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The sections, in order; all of them fit."""
        headings = [b for b in doc.blocks if b.kind == "heading" and b.level <= self.depth]
        parts = sections(doc, headings)
        join = partial(pack_anchored, doc.text, budget=budget) if self.stable else partial(pack, budget=budget)
        whole = outline(parts, budget, join) if self.merge else [span for span, _ in parts]
        return [Piece(s) for s in divided(doc.text, whole, budget, anchored if self.stable else split)]


def sections(doc: Document, headings: Sequence[Block]) -> list[tuple[Span, int]]:
    """The text before the first heading (level 0), then each heading with all up to the next; trimmed, none empty.

    A heading with nothing under it goes with the deeper one that follows it.
    """
    edges, levels = [0], [0]
    bare_end = -1
    for h in headings:
        if not (h.span.start == bare_end and h.level > levels[-1]):
            edges.append(h.span.start)
            levels.append(h.level)
        bare_end = text_from(doc.text, h.span.end) if h.span.start in (edges[-1], bare_end) else -1
    spans = (trim(doc.text, a, b) for a, b in zip(edges, [*edges[1:], len(doc.text)], strict=True))
    return [(s, level) for s, level in zip(spans, levels, strict=True) if s.start < s.end]


def outline(parts: Sequence[tuple[Span, int]], budget: Budget, join: Join) -> list[Span]:
    """Sections joined with their sub-sections while they fit; one that doesn't is its own text and its sub-sections, packed.

    Sections of the top are not joined with one another. Recursion is as deep as there are levels.
    """
    return [s for first, last in ranges(parts, 0, len(parts)) for s in _section(parts, first, last, budget, join)]


def ranges(parts: Sequence[tuple[Span, int]], first: int, last: int) -> list[tuple[int, int]]:
    """The sections of the highest order in parts[first:last]: each ends before the next that is not deeper."""
    heads: list[int] = []
    level = 0
    for i in range(first, last):
        if not heads or parts[i][1] <= level:
            heads.append(i)
            level = parts[i][1]
    return list(pairwise([*heads, last]))


def _section(parts: Sequence[tuple[Span, int]], first: int, last: int, budget: Budget, join: Join) -> list[Span]:
    whole = Span(parts[first][0].start, parts[last - 1][0].end)
    if budget.fits(whole) or last - first == 1:
        return [whole]
    spans: list[Span] = []
    run: list[Span] = []
    for a, b in [(first, first + 1), *ranges(parts, first + 1, last)]:
        child = Span(parts[a][0].start, parts[b - 1][0].end)
        if budget.fits(child):
            run.append(child)
            continue
        spans += join(run)
        run = []
        spans += _section(parts, a, b, budget, join)
    return spans + join(run)
