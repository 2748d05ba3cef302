"""The split of least cost, where sentences that are alike want to be together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chunkmill.chunkers.base import Budget, Document, Embed, Plan
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.optimal import PRICES, Costs, cheapest, parts, pieces
from chunkmill.chunkers.similarity import sparseness


@dataclass(frozen=True, slots=True)
class Clusters:
    """`optimal` with a term for meaning: from the cost of a split goes `weight` (1) times the density of its chunks.

    That density (`similarity.sparseness`) counts the similarities of all pairs of sentences inside a chunk, each less the mean
    of the document: pairs that are more alike than that want to be together, and others on either side of a cut. The idea of
    an exact objective over sentence similarities is from Chroma's ClusterSemanticChunker (Smith and Troynikov 2024). `target`:
    as in `optimal`, but small chunks cost more (`deviation`, `even`): meaning alone would make many of one sentence, and some
    very large ones. Time grows with the sentences times those in one chunk.
    """

    target: float = 0.7
    weight: float = 1.0
    language: str = "en"

    needs: ClassVar[frozenset[type]] = frozenset({Embed})

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ConfigError(f"chunk.target is {self.target}; it is a share of the size: above 0, at most 1")
        if not 0 <= self.weight <= 1000:
            raise ConfigError(f"chunk.weight is {self.weight}; it must be from 0 to 1000")

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """Asks for the sentences' vectors once; returns the pieces of the best split, all of which fit."""
        units, strength = parts(doc, budget, doc.metadata.get("language", self.language))
        if len(units) < 2:
            return pieces(doc.text, units, [(i, i + 1) for i in range(len(units))], budget)
        vectors = yield Embed([doc[u] for u in units])

        def meaning(first: Sequence[int]) -> Iterator[Costs]:
            return (self.weight * sparse for sparse in sparseness(vectors, first))

        groups = cheapest(units, PRICES[np.array(strength, np.int64)], budget, self.target, meaning, even=True)
        return pieces(doc.text, units, groups, budget)
