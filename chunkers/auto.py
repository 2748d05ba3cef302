"""Rules that choose a strategy for each document by its structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import ClassVar, NamedTuple

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.code import missing
from chunkmill.chunkers.structure import pages

MOSTLY = 0.6  # share of the text in blocks of one kind that makes it the document's kind
SLIDE = 0.5  # a page that takes less of the limit is a slide
FEW = 3  # pages; fewer say nothing about the document


class Choice(NamedTuple):
    """A strategy's name, and the reason in a few words."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Auto:
    """What fits stays whole; slides go by page, code by its syntax, tables and records by rows, the rest by headings, or
    by the strongest separators where there are none. `explain` says which rule held.
    """

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The pieces of the chosen strategy."""
        from chunkmill.chunkers.strategies import STRATEGIES  # the table holds this class too

        pieces = STRATEGIES[choose(doc, budget).name].cls()(doc, budget)
        assert isinstance(pieces, list)  # none of the choices asks a model
        return pieces

    def explain(self, doc: Document, budget: Budget) -> str:
        """The strategy for this document, and why."""
        name, why = choose(doc, budget)
        return f"{name}: {why}"


def choose(doc: Document, budget: Budget) -> Choice:
    """The first of the rules that holds; one whose strategy isn't there is passed over."""
    from chunkmill.chunkers.strategies import STRATEGIES

    there = STRATEGIES.keys() - ({"code"} if missing() else set())
    return next(c for c in _rules(doc, budget) if c and c.name in there)


def _rules(doc: Document, budget: Budget) -> Iterator[Choice | None]:
    yield _whole(doc, budget)
    kinds = Counter[str]()
    for block in doc.blocks:
        kinds[block.kind] += block.span.end - block.span.start
    yield _mostly("code", "code", kinds)
    yield _mostly("record", "records", kinds)
    yield _mostly("table", "table", kinds)
    yield _slides(doc, budget)
    headings = sum(b.kind == "heading" for b in doc.blocks)
    yield Choice("section", f"{headings} headings") if headings > 1 else None
    yield Choice("recursive", "prose without headings" if headings == 0 else "prose under one heading")


def _whole(doc: Document, budget: Budget) -> Choice | None:
    whole = Span(0, len(doc.text))
    return Choice("document", f"its {budget.size(whole)} of {budget.limit} units fit one chunk") if budget.fits(whole) else None


def _mostly(kind: str, name: str, kinds: Counter[str]) -> Choice | None:
    share = kinds[kind] / max(1, kinds.total())
    return Choice(name, f"{share:.0%} of its text is {kind}") if share >= MOSTLY else None


def _slides(doc: Document, budget: Budget) -> Choice | None:
    paged = pages(doc.blocks)
    starts = [s for i, s in enumerate(paged.starts) if i == 0 or paged.numbers[i] != paged.numbers[i - 1]]
    if len(starts) < FEW:
        return None
    typical = median(budget.size(Span(a, b)) for a, b in pairwise([*starts, len(doc.text)]))
    if typical > SLIDE * budget.limit:
        return None
    return Choice("page", f"{len(starts)} pages of {typical:.0f} units, typically")
