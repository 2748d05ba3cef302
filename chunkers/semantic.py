"""Cut where the meaning turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from chunkmill.chunkers.base import Budget, Document, Embed, Piece, Plan, Span, Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.optimal import cheapest
from chunkmill.chunkers.similarity import SAME, depths, distances, peaks, sparseness, units

Method: TypeAlias = Literal[
    "density", "depth", "percentile", "standard_deviation", "interquartile", "gradient", "mean_drop", "centroid"
]
Turn: TypeAlias = Callable[[int, int], bool]

AMOUNTS: dict[Method, tuple[float, float, float]] = {  # the usual one, and the least and the most that make sense
    "density": (0.4, 0.0, 1000.0),
    "depth": (1.0, -10.0, 10.0),
    "percentile": (95.0, 0.0, 100.0),
    "standard_deviation": (3.0, -10.0, 10.0),
    "interquartile": (1.5, -10.0, 10.0),
    "gradient": (95.0, 0.0, 100.0),
    "mean_drop": (0.3, 0.0, 2.0),
    "centroid": (0.75, -1.0, 1.0),
}
MIN_DROP = 50  # units that a chunk has before `mean_drop` may end it


@dataclass(frozen=True, slots=True)
class Semantic:
    """Cut between sentences where `method` finds a turn, by the vectors of the sentences.

    `density`: the cuts for which the chunks are densest, at a price of `amount` (0.4) each; the best measured. `depth`: in the
    valleys of similarity that are `amount` (1) standard deviations deeper than the mean. By the distance (1 − cosine) to the
    next sentence, as in Greg Kamradt's "5 Levels of Text Splitting" and LangChain's SemanticChunker: above the `percentile`
    (95); above the mean by so many `standard_deviation` (3) or `interquartile` ranges (1.5); where the `gradient` of the
    distance is above its percentile (95). `mean_drop`: where the similarity to the next sentence is `amount` (0.3) below the
    mean, in chunks of at least 50 units. `centroid`: where the similarity to the mean of the chunk so far is below `amount`
    (0.75). The last two are absolute: what is much for one model is little for another.

    `buffer`: sentences on either side that each one is read with (LangChain: 1). `min_size`: no turn ends a chunk with
    fewer units. What is longer than the limit is packed by sentences.
    """

    method: Method = "density"
    amount: float | None = None
    buffer: int = 0
    min_size: int | None = None
    language: str = "en"

    needs: ClassVar[frozenset[type]] = frozenset({Embed})

    def __post_init__(self) -> None:
        _, least, most = AMOUNTS[self.method]
        if self.amount is not None and not least <= self.amount <= most:
            raise ConfigError(f"chunk.amount is {self.amount}; for {self.method} it must be from {least:g} to {most:g}")
        if self.buffer < 0:
            raise ConfigError(f"chunk.buffer is {self.buffer}; it must be 0 or more")
        if self.min_size is not None and self.min_size < 0:
            raise ConfigError(f"chunk.min_size is {self.min_size}; it must be 0 or more")

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """Asks for the sentences' vectors once; returns pieces that fit. ConfigError where `min_size` is above the size."""
        least = self._least(budget)
        parts = units(doc, budget, self.language)
        if len(parts) < 2:
            return [Piece(p) for p in parts]
        vectors = yield Embed([doc[_widened(parts, i, self.buffer)] for i in range(len(parts))])
        return [Piece(s) for s in grouped(parts, self._turn(parts, vectors, budget), budget, least)]

    def _least(self, budget: Budget) -> int:
        if self.min_size is None:
            return min(MIN_DROP if self.method == "mean_drop" else 0, budget.limit)
        if self.min_size > budget.limit:
            raise ConfigError(
                f"chunk.min_size is {self.min_size}; it must be at most chunk.size ({budget.limit} without special tokens)"
            )
        return self.min_size

    def _turn(self, parts: Sequence[Span], vectors: Vectors, budget: Budget) -> Turn:
        """Whether a chunk that began with one sentence ends before another."""
        amount = AMOUNTS[self.method][0] if self.amount is None else self.amount
        if self.method == "centroid":
            return partial(_strays, vectors, amount)
        found = set(
            densest(parts, vectors, budget, amount) if self.method == "density" else turns(vectors, self.method, amount)
        )
        return lambda _, sentence: sentence in found


def densest(parts: Sequence[Span], vectors: Vectors, budget: Budget, price: float) -> list[int]:
    """The sentences that begin a chunk where chunks that fit are densest in total, less a price for each.

    Exact dynamic programme; time grows with the sentences times those in one chunk.
    """
    groups = cheapest(parts, np.full(len(parts), price + SAME), budget, 0.0, partial(sparseness, vectors))
    return [first for first, _ in groups[1:]]


def turns(vectors: Vectors, method: Method, amount: float) -> list[int]:
    """The sentences that begin a new stretch: those behind a score above the method's threshold. At least two vectors."""
    score = distances(vectors)
    if method == "depth":
        score = depths(vectors)
        threshold = float(score.mean() + amount * score.std())
        score = np.where(peaks(score), score, 0.0)
    elif method == "gradient":
        if len(score) == 1:
            return [1]  # LangChain's answer to two sentences
        score = np.gradient(score)
        threshold = float(np.percentile(score, amount))
    elif method == "percentile":
        threshold = float(np.percentile(score, amount))
    elif method == "interquartile":
        low, high = np.percentile(score, [25, 75])
        threshold = float(score.mean() + amount * (high - low))
    else:
        threshold = float(score.mean() + amount * (score.std() if method == "standard_deviation" else 1.0))
    return (np.flatnonzero(score > threshold + SAME) + 1).tolist()


def _strays(vectors: Vectors, least: float, first: int, sentence: int) -> bool:
    """Whether a sentence is less similar than that to the mean of those from the first one on."""
    centre = vectors[first:sentence].sum(axis=0, dtype=np.float64)
    length = float(np.linalg.norm(centre))
    return float(centre @ vectors[sentence]) < (least - SAME) * length


def grouped(parts: Sequence[Span], turn: Turn, budget: Budget, least: int) -> list[Span]:
    """Neighbours joined until they turn (and hold at least so many units) or no more can be packed.

    A last one below that is joined with the one before where both fit.
    """
    index = budget.indices(parts)
    begins, ends = index.T.tolist()
    most = (index[:, 0] + np.maximum(1, budget.rooms(parts) - budget.limit + budget.fill)).tolist()
    firsts = [0]
    for i in range(1, len(parts)):
        first = firsts[-1]
        if ends[i] > most[first] or (ends[i - 1] - begins[first] >= least and turn(first, i)):
            firsts.append(i)
    if len(firsts) > 1 and ends[-1] - begins[firsts[-1]] < least and ends[-1] <= most[firsts[-2]]:
        firsts.pop()
    return [Span(parts[a].start, parts[b - 1].end) for a, b in zip(firsts, [*firsts[1:], len(parts)], strict=True)]


def _widened(parts: Sequence[Span], i: int, buffer: int) -> Span:
    return Span(parts[max(0, i - buffer)].start, parts[min(len(parts) - 1, i + buffer)].end)
