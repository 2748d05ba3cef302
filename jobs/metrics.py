"""How good a ranking of chunks is for questions whose answers are known: pure functions over spans of one long axis.

All documents lie behind one another on the axis, with a gap between them (`axis`), so that a span says its document too.
The measures are those of Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval" (Chroma, 2024), as their code
computes them; recall within a budget of characters is added, because at a fixed number of chunks all of them follow the size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Offsets, Span

Values: TypeAlias = npt.NDArray[np.float64]  # one for each question; NaN where a question says nothing about a measure

GAP = 2  # characters between documents: spans of two of them never touch
BUDGETS = (1_000, 2_000, 4_000)
RESAMPLES = 10_000
BLOCK = 250  # resamples drawn at once


def axis(lengths: Sequence[int]) -> Offsets:
    """Where each document begins: (n,)."""
    found: Offsets = np.cumsum([0, *(n + GAP for n in lengths)], dtype=np.int64)[:-1]
    return found


def length(spans: Iterable[Span]) -> int:
    """How many characters the spans cover together."""
    total, reached = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def added(spans: Iterable[Span]) -> int:
    """The sum of the spans' lengths: what is in two of them counts twice."""
    return sum(end - start for start, end in spans)


def shared(left: Sequence[Span], right: Sequence[Span]) -> int:
    """How many characters are covered by both."""
    return length(left) + length(right) - length([*left, *right])


def recall(gold: Sequence[Span], found: Sequence[Span]) -> float:
    """The share of the gold excerpts that was found."""
    return shared(gold, found) / added(gold)


def precision(gold: Sequence[Span], found: Sequence[Span]) -> float:
    """The share of what was found that is gold; overlap between chunks is paid for twice."""
    paid = added(found)
    return shared(gold, found) / paid if paid else 0.0


def iou(gold: Sequence[Span], found: Sequence[Span]) -> float:
    """What was found of the gold, over what was found or missed."""
    missed = sum(end - start - shared([Span(start, end)], found) for start, end in gold)
    return shared(gold, found) / (added(found) + missed)


def omega(gold: Sequence[Span], chunks: Offsets, holders: Offsets | None = None) -> float:
    """Precision where recall is whole: gold over all chunks that touch it, as far as boundaries alone decide it.

    `chunks`: (n, 2), spans; `holders`: the chunk that each is of, where one may have several. One that ends where an excerpt
    begins touches it, as in the published code.
    """
    near = np.zeros(len(chunks), bool)
    for start, end in gold:
        near |= (chunks[:, 0] <= end) & (chunks[:, 1] >= start)
    touched = near if holders is None else np.isin(holders, holders[near])
    touching = [Span(a, b) for a, b in chunks[touched].tolist()]
    return shared(gold, touching) / length([*gold, *touching]) if touching else 0.0


def handed(ranked: Iterable[Span], budget: int) -> list[Span]:
    """The ranges that are handed over of a ranking: so many characters, each paid for once, the last range cut."""
    given: list[Span] = []
    for span in ranked:
        for start, end in new(span, given):
            given.append(Span(start, min(end, start + budget)))
            budget -= given[-1].end - start
            if budget <= 0:
                return given
    return given


def new(span: Span, known: Iterable[Span]) -> list[Span]:
    """What of the span none of the known ones covers, in order."""
    left = [span]
    for start, end in known:
        left = [Span(*p) for a, b in left for p in ((a, min(b, start)), (max(a, end), b)) if p[0] < p[1]]
    return left


def recall_within(gold: Sequence[Span], ranked: Iterable[Span], budget: int) -> float:
    """The share of the gold excerpts in the first so many characters of the ranking."""
    return shared(gold, handed(ranked, budget)) / added(gold)


def hit(relevant: Mapping[int, float], ranked: Sequence[int], k: int) -> float:
    """Whether one of the first k chunks is of a relevant document. `ranked`: the document of each chunk."""
    return float(any(relevant.get(doc, 0) > 0 for doc in ranked[:k]))


def ndcg(relevant: Mapping[int, float], ranked: Iterable[int], k: int) -> float:
    """nDCG of the first k documents, each at the place of its best chunk; gains are linear, as in trec_eval."""
    gains = [relevant.get(doc, 0.0) for doc in list(dict.fromkeys(ranked))[:k]]
    best = _discounted(sorted(relevant.values(), reverse=True)[:k])
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


class Interval(NamedTuple):
    """A mean and the bounds it is between, most likely."""

    mean: float
    low: float
    high: float

    @property
    def apart(self) -> bool:
        """Whether zero is outside."""
        return self.low > 0 or self.high < 0


def interval(values: Values, *, error: float = 0.05, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean over questions and its bootstrap bounds (percentiles). Of the differences between two: a paired comparison."""
    known = values[~np.isnan(values)]
    if not len(known):
        return Interval(math.nan, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    sizes = [min(BLOCK, resamples - i) for i in range(0, resamples, BLOCK)]
    means = np.concatenate([known[rng.integers(0, len(known), (n, len(known)))].mean(axis=1) for n in sizes])
    low, high = np.quantile(means, [error / 2, 1 - error / 2])
    return Interval(float(known.mean()), float(low), float(high))
