"""Late chunking, as far as cutting goes: any strategy's cuts. Its point is in the vectors, which a job pools out of the states
that the model has for the whole document (`embed.pooling: late`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.base import Budget, Chunker, Document, Embed, Plan
from chunkmill.chunkers.drive import pieces_of
from chunkmill.chunkers.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Late:
    """The strategy that `cut` names. A job takes `late` for a preset: that strategy (and its settings) with late pooling."""

    cut: str = "recursive"
    needs: ClassVar[frozenset[type]] = frozenset({Embed})

    def __post_init__(self) -> None:
        if self.cut == "late":
            raise ConfigError("chunk.cut is 'late', which is this strategy; name the one that cuts, as 'recursive'")
        _ = self.inner

    @property
    def inner(self) -> Chunker:
        """The strategy that cuts."""
        from chunkmill.chunkers.strategies import strategy  # the table holds this class too

        return strategy(self.cut, key="chunk.cut")

    @property
    def overlaps(self) -> bool:
        """Whether the strategy that cuts places its own overlap."""
        return bool(getattr(self.inner, "overlaps", False))

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """The pieces of the strategy that cuts."""
        return (yield from pieces_of(self.inner, doc, budget))
