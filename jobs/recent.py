"""The vectors that a run has made: an actor remembers its own, and one place for all those of the others, so that a text which
occurs again is computed once. Both forget what was not asked for longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from chunkmill.chunkers.base import Vectors

OWN_BYTES, SHARED_BYTES = 64 << 20, 512 << 20  # of vectors that an actor remembers, and the run
PATIENCE_S = 5.0  # that an actor waits to hear of others' vectors, before it makes its own


class Recent:
    """Vectors by text_hash, of at most so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.held_bytes, self.held = most_bytes, 0, OrderedDict[str, Vectors]()

    def find(self, names: Iterable[str]) -> dict[str, Vectors]:
        """The vectors of these texts that are held."""
        found = {name: self.held[name] for name in names if name in self.held}
        for name in found:
            self.held.move_to_end(name)
        return found

    def add(self, names: Sequence[str], vectors: Vectors) -> None:
        """Hold the rows of (n, dim) under these names; those that were not asked for longest go."""
        for name, vector in zip(names, vectors, strict=True):
            if name not in self.held:
                self.held[name] = vector.copy()  # a row alone: the slab it is of would stay with it
                self.held_bytes += vector.nbytes
        while self.held_bytes > self.most_bytes:
            self.held_bytes -= self.held.popitem(last=False)[1].nbytes


class Remembered:
    """What an actor may take instead of asking the model. `shared`: the run's `Recent`, as a Ray actor; None: there is none.

    With many actors that one place is busy: who waits too long for it does without from then on, and none tells it more while
    it has not taken in what it was told before.
    """

    def __init__(self, shared: Any = None) -> None:
        self.own, self.shared = Recent(OWN_BYTES), shared
        self.told: list[Any] = []

    def find(self, names: Iterable[str]) -> dict[str, Vectors]:
        """The vectors of these texts that this actor or another one has made."""
        found = self.own.find(wanted := list(names))
        missing = [name for name in wanted if name not in found]
        if self.shared and missing:
            try:
                found |= ray.get(self.shared.find.remote(missing), timeout=PATIENCE_S)
            except RayError:  # on a machine that is gone, or slow: texts are embedded again
                self.shared = None
        return found

    def add(self, names: Sequence[str], vectors: Vectors) -> None:
        """Remember the rows of (n, dim) under these names, and tell the others."""
        self.own.add(names, vectors)
        if self.shared and not (self.told and ray.wait(self.told, timeout=0)[1]):
            self.told = [self.shared.add.remote(list(names), vectors)]


def shared(actors: int) -> Any:
    """A place for so many actors of a run, on the machine of the driver or any other. None where one is alone."""
    actor: Any = ray.remote(num_cpus=0)(Recent)
    return actor.remote(SHARED_BYTES) if actors > 1 else None
