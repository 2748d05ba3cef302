"""A tally for stages that are called without Ray."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Tally:
    """Counts here, not in an actor."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.add = self

    def remote(self, counts: dict[str, Any]) -> None:
        self.counts.update(counts)
