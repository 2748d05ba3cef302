"""How far the stages are, counted by them while they work; for the eyes only, a retried task counts twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import RayError

POLL_S = 1.0


@ray.remote(num_cpus=0)
class Tally:
    """Sums of what the stages report, by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, counts: Mapping[str, int]) -> None:
        """Add to the sums."""
        self.counts.update(counts)

    def read(self) -> dict[str, int]:
        """The sums so far."""
        return dict(self.counts)


@contextmanager
def watched(report: Callable[[Mapping[str, int]], None]) -> Iterator[Any]:
    """A tally whose sums are reported every second, from a thread of this process, as long as the block lasts.

    Should its machine die, nothing is reported any more and the work goes on.
    """
    tally = Tally.remote()
    done = threading.Event()

    def say() -> None:
        with suppress(RayError):
            report(ray.get(tally.read.remote()))

    def poll() -> None:
        while not done.wait(POLL_S):
            say()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield tally
    finally:
        done.set()
        thread.join()
    say()
