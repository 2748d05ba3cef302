"""Cut where the meaning turns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Budget, Document, Embed, Piece, Plan, Span, Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.pack import fit, pack
from chunkmill.chunkers.seams import sentences


@dataclass(frozen=True, slots=True)
class Semantic:
    """Cut after a sentence that is further from the next one than `percentile` percent of all neighbours are.

    Distances are 1 − cosine between the vectors of neighbouring sentences, each read with `buffer` sentences on either
    side, as in Greg Kamradt's "5 Levels of Text Splitting" and LangChain's SemanticChunker. What is longer than the limit is
    packed by sentences.
    """

    percentile: float = 95.0
    buffer: int = 0
    language: str = "en"

    needs: ClassVar[frozenset[type]] = frozenset({Embed})

    def __post_init__(self) -> None:
        if not 0 <= self.percentile <= 100:
            raise ConfigError(f"chunk.percentile is {self.percentile}; it must be from 0 to 100")
        if self.buffer < 0:
            raise ConfigError(f"chunk.buffer is {self.buffer}; it must be 0 or more")

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """Asks for the sentences' vectors once; returns pieces that fit."""
        parts = [
            s
            for sentence in sentences(doc.text, language=doc.metadata.get("language", self.language))
            for s in fit(doc.text, sentence, budget)
        ]
        if len(parts) < 2:
            return [Piece(p) for p in parts]
        vectors = yield Embed([doc[_widened(parts, i, self.buffer)] for i in range(len(parts))])
        breaks = turns(distances(vectors), self.percentile)
        edges = [0, *breaks, len(parts)]
        return [Piece(s) for a, b in pairwise(edges) for s in pack(parts[a:b], budget)]


def distances(vectors: Vectors) -> npt.NDArray[np.float64]:
    """1 − cosine of neighbours: float (n, dim), unit rows → (n − 1,)."""
    left, right = vectors[:-1].astype(np.float64), vectors[1:].astype(np.float64)
    cosines: npt.NDArray[np.float64] = (left * right).sum(axis=1)
    return 1.0 - cosines


def turns(distance: npt.NDArray[np.float64], percentile: float) -> list[int]:
    """The sentences that begin a new stretch: those after a distance above the percentile."""
    return (np.flatnonzero(distance > np.percentile(distance, percentile)) + 1).tolist()


def _widened(parts: list[Span], i: int, buffer: int) -> Span:
    return Span(parts[max(0, i - buffer)].start, parts[min(len(parts) - 1, i + buffer)].end)
