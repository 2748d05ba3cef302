"""Dense text in small chunks, sparse text in large ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, NamedTuple

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.paragraph import paragraphs
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.stretch import narrowed, whole

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+")  # a run of letters; a single one in scripts without spaces
DIGIT = re.compile(r"\d")
SYMBOL = re.compile(r"[=+*/<>^~|\\{}\[\]%$€£°±×÷≤≥≈∑∏∫√∂∞∈α-ωΑ-Ω]")
DEFINES = re.compile(
    r"\b(?:is (?:an?|the|defined|called)|means|refers to|denotes|stands for|is known as)\b|:=|≡", re.IGNORECASE
)
WINDOW = 50  # words over which types are counted: the ratio falls with length, whatever the text
USUAL = 0.75  # the ratio of types to tokens that little text is taken to have
SIGNS = (  # from where on each sign counts, where it counts in full, and what it then takes from the sparseness
    (0.60, 0.95, 0.4),  # different words per word
    (4.0, 6.5, 0.4),  # letters a word
    (0.0, 0.15, 0.5),  # digits
    (0.0, 0.08, 0.5),  # symbols
    (0.0, 4.0, 0.4),  # definitions
)
SHARE = 4  # by default the densest text gets one part in so many of the size


class Density(NamedTuple):
    """How much a stretch says in few words, from 0 to 1, and what that was read from.

    `types`: different words, per word. `letters`: per word. `digits`, `symbols`: per visible character. `definitions`: per 100
    words.
    """

    score: float
    types: float
    letters: float
    digits: float
    symbols: float
    definitions: float


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Paragraphs packed to a size that follows how dense they are: from the full size (sparse) down to `min_size` (dense).

    A chunk is as large as its densest paragraph allows, so that a turn from sparse to dense is a cut. A heading goes by the
    paragraph behind it. `min_size`: the size of the densest text, a quarter of the full one unless given; where it is given, a
    chunk below it is joined with a neighbour if both fit the full size. `explain` says what decided.
    """

    min_size: int | None = None

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if self.min_size is not None and self.min_size < 1:
            raise ConfigError(f"chunk.min_size is {self.min_size}; it must be 1 or more")

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The packed stretches; every piece fits the limit of each stretch in it."""
        budgets: dict[int, Budget] = {}
        spans: list[Span] = []
        for span, most in self._packed(doc, budget):
            if budget.size(span) <= most and budget.fits(span):
                spans.append(span)
                continue
            if most not in budgets:
                budgets[most] = narrowed(budget, most)
            spans += split(doc.text, span, budgets[most])
        return whole(doc.text, map(Piece, _joined(spans, budget, self.min_size or 0)))

    def _packed(self, doc: Document, budget: Budget) -> list[tuple[Span, int]]:
        """Neighbours joined while they fit the smallest of their limits, each with that limit."""
        packed: list[tuple[Span, int]] = []
        for span in stretches(doc, budget):
            own = self.limit(density(doc[span]), budget)
            if packed:
                before, most = packed[-1]
                joined, least = Span(before.start, span.end), min(own, most)
                if budget.size(joined) <= least and budget.packs(joined):
                    packed[-1] = joined, least
                    continue
            packed.append((span, own))
        return packed

    def limit(self, found: Density, budget: Budget) -> int:
        """The size for a stretch of this density. ConfigError where `min_size` is above the size."""
        least = self._least(budget)
        return budget.limit - round((budget.limit - least) * found.score)

    def _least(self, budget: Budget) -> int:
        least = max(1, budget.limit // SHARE) if self.min_size is None else self.min_size
        if least > budget.limit:
            raise ConfigError(
                f"chunk.min_size is {least}; it must be at most chunk.size ({budget.limit} without special tokens)"
            )
        return least

    def explain(self, doc: Document, budget: Budget) -> list[str]:
        """One line for each stretch: where it is, how dense, what that was read from, and the size it gets."""
        lines = []
        for span in stretches(doc, budget):
            found = density(doc[span])
            lines.append(
                f"{span.start}-{span.end}: density {found.score:.2f} → {self.limit(found, budget)} of {budget.limit} "
                f"({found.types:.2f} different words, {found.letters:.1f} letters a word, {found.digits:.0%} digits, "
                f"{found.symbols:.0%} symbols, {found.definitions:.1f} definitions per 100 words)"
            )
        return lines


def _joined(spans: Sequence[Span], budget: Budget, least: int) -> list[Span]:
    """The spans, each below `least` joined with the one before, or the next one with it, where both fit together."""
    kept: list[Span] = []
    for span in spans:
        joined = Span(kept[-1].start, span.end) if kept else span
        if kept and min(budget.size(kept[-1]), budget.size(span)) < least and budget.packs(joined):
            kept[-1] = joined
        else:
            kept.append(span)
    return kept


def stretches(doc: Document, budget: Budget) -> list[Span]:
    """The paragraphs; one that is longer than the limit in parts that fit."""
    return [s for paragraph in paragraphs(doc) for s in split(doc.text, paragraph, budget)]


def density(text: str) -> Density:
    """How dense a text is: 0 for small talk, towards 1 for formulae, figures, definitions and long, ever different words.

    Each sign alone can make a text dense; no list of words is used. Linear, and the same every time.
    """
    words = [w.lower() for w in WORD.findall(text)]
    visible = max(1, len(text) - sum(map(str.isspace, text)))
    found = (
        _types(words),
        fmean(map(len, words)) if words else 0.0,
        len(DIGIT.findall(text)) / visible,
        len(SYMBOL.findall(text)) / visible,
        100 * len(DEFINES.findall(text)) / max(len(words), WINDOW),
    )
    sparse = 1.0
    for value, (low, high, weight) in zip(found, SIGNS, strict=True):
        sparse *= 1 - weight * min(1.0, max(0.0, (value - low) / (high - low)))
    return Density(1 - sparse, *found)


def _types(words: Sequence[str]) -> float:
    """Different words per word, over windows of `WINDOW`; a text shorter than one counts as filled up with usual text."""
    windows = [words[i : i + WINDOW] for i in range(0, max(1, len(words) - WINDOW + 1), WINDOW)]
    return fmean((len(set(w)) + USUAL * (WINDOW - len(w))) / WINDOW for w in windows)
