"""How far the stages are and how long they took, counted by them while they work; a retried task counts twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.metrics import Counter as Metric

POLL_S = 1.0
PATIENCE_S = 2.0  # that a stage waits for its counts to arrive
STAGES = ("prepare", "ask", "embed", "forward")  # `embed` is with waiting, `forward` the part of it that the model takes
METRICS = {  # of Ray, by what is counted here
    "documents": "Documents read, in whatever state they ended.",
    "failed": "Documents that failed.",
    "bytes": "Bytes of sources that were read, of a large one as far as it is.",
    "chunks": "Chunks written; readers see them when the run commits.",
    "embedded": "Texts that a model made a vector of.",
    "tokens": "Tokens of these texts, without the model's special ones.",
} | {f"{stage}_seconds": f"Seconds that workers spent in the stage {stage}." for stage in (*STAGES, "write")}
ASKED = {  # the same of a language model, by what `meter` counts
    "calls": "Calls of the language model that were answered.",
    "failed_calls": "Calls of the language model that failed.",
    "tokens_in": "Tokens that the language model read.",
    "tokens_out": "Tokens that the language model wrote.",
    "cached": "Questions to the language model whose answers were known.",
}


class Metrics:
    """Counters `chunkmill_<name>` of Ray's metrics, labelled with a run."""

    def __init__(self, run_id: str, says: Mapping[str, str]) -> None:
        self.known = {name: Metric(f"chunkmill_{name}", text, ("run",)) for name, text in says.items()}
        for metric in self.known.values():
            metric.set_default_tags({"run": run_id})

    def add(self, counts: Mapping[str, float]) -> None:
        """Add to those that there are."""
        for name, value in counts.items():
            if name in self.known and value > 0:
                self.known[name].inc(value)


class Tally:
    """Sums of what the stages report, by name; also as metrics, where there is a Ray."""

    def __init__(self, run_id: str) -> None:
        self.counts: Counter[str] = Counter()
        self.metrics = Metrics(run_id, METRICS)

    def add(self, counts: Mapping[str, float]) -> None:
        """Add to the sums."""
        self.counts.update(counts)
        self.metrics.add(counts)

    def read(self) -> dict[str, float]:
        """The sums so far."""
        return dict(self.counts)


def count(tally: Any, counts: Mapping[str, float]) -> None:
    """Add to a tally, of this process or an actor; what a stage has counted is there before its result is."""
    if isinstance(tally, Tally):
        tally.add(counts)
        return
    added = tally.add.remote(counts)
    if isinstance(added, ray.ObjectRef):
        ray.wait([added], timeout=PATIENCE_S)


@contextmanager
def watched(run_id: str, report: Callable[[Mapping[str, float]], None], *, here: bool) -> Iterator[Any]:
    """A tally, in this process or (not `here`) an actor, whose sums are reported every second from a thread of this process, as
    long as the block lasts.

    Should its machine die, nothing is reported any more and the work goes on.
    """
    tally: Any = Tally(run_id) if here else ray.remote(num_cpus=0)(Tally).remote(run_id)
    done = threading.Event()

    def say() -> None:
        with suppress(RayError):
            report(tally.read() if here else ray.get(tally.read.remote()))

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
