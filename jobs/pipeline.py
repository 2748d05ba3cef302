"""The whole job on one page: list → prepare → embed → write → one commit."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import ray.cloudpickle
import ray.data

from chunkmill.chunkers.errors import RunError
from chunkmill.io import recipes
from chunkmill.io.storage import writable
from chunkmill.io.table import Conflict, Written
from chunkmill.jobs import cluster
from chunkmill.jobs.config import Job
from chunkmill.jobs.plan import Plan, plan
from chunkmill.jobs.publish import publish
from chunkmill.jobs.stages import Embedder, prepare, write
from chunkmill.jobs.tally import watched

BLOCKS_PER_CPU = 4
BLOCK_SOURCES = 1_000  # the most sources in a block: what one task does at the least


@dataclass(slots=True)
class Summary:
    """What a run did. `statuses` counts documents by `ok`, `empty` and `failed:kind`."""

    run_id: str
    recipe: str
    sources: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    gone: int = 0
    chunks: int = 0
    size_bytes: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # of each kind of failure: a document and its message
    seen: dict[str, int] = field(default_factory=dict)  # while it runs: documents, failed, embedded so far
    seconds: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """Documents processed, in whatever state they ended."""
        return sum(self.statuses.values())


def run(job: Job, report: Callable[[Summary, Plan], None] = lambda summary, plan: None) -> Summary:
    """Do what the plan says and publish it. `report` hears of progress every second or so.

    Raises ConfigError and RunError; one document's trouble is a row in the ledger.
    """
    started = time.monotonic()
    todo = plan(job)
    summary = Summary(_run_id(), job.recipe, len(todo.todo), todo.added, todo.changed, todo.unchanged, todo.gone)
    report(summary, todo)
    if len(todo.todo) or todo.gone or todo.versions["documents"] is None:
        writable(job.output)
        written = process(job, todo.todo, summary, partial(report, summary, todo))
        _check(summary)
        recipes.save(job.output, job.recipe, job.describe())
        try:
            summary.versions = publish(job, todo, summary.run_id, written)
        except Conflict:
            raise RunError(f"another run published to {job.output} meanwhile; nothing of this one was: run it again") from None
    summary.seconds = time.monotonic() - started
    return summary


def _check(summary: Summary) -> None:
    """A run over a whole input in which nothing but our or a strategy's own errors came out is not published."""
    nothing_else = not summary.unchanged and not summary.gone
    if nothing_else and summary.documents and summary.statuses["failed:internal"] == summary.documents:
        raise RunError(f"every document failed, nothing was published; the first: {summary.examples['internal']}")


def process(job: Job, sources: pa.Table, summary: Summary, report: Callable[[], None]) -> list[Written]:
    """Run the stages over the sources; the files that were written, which nobody sees yet."""
    resources = cluster.connect(job.run.cpus)
    written: list[Written] = []
    if not len(sources):
        return written

    def seen(counts: Mapping[str, int]) -> None:
        summary.seen = dict(counts)
        report()

    with watched(seen) as tally:
        for row in flow(job, sources, summary.run_id, resources, tally).iter_rows():
            written += [Written(**f) for f in json.loads(row["written"])]
            summary.statuses.update(json.loads(row["counts"]))
            summary.examples = json.loads(row["examples"]) | summary.examples
            summary.chunks += row["chunks"]
            summary.size_bytes += row["bytes"]
    return written


def flow(job: Job, sources: pa.Table, run_id: str, resources: cluster.Resources, tally: Any) -> ray.data.Dataset:
    """The stages as Ray Data sees them; one row a document from the first to the last."""
    arrow: dict[str, Any] = {"batch_format": "pyarrow"}
    _ = job.chunking, job.recipe  # resolved here once, and sent along
    if ":" in job.chunk.strategy:  # the user's own module travels by value: workers may not find it
        ray.cloudpickle.register_pickle_by_value(sys.modules[type(job.chunking.strategy).__module__])
    parts = blocks(sources, resources.cpus)
    ds = ray.data.from_arrow(parts)
    ds = ds.map_batches(prepare, batch_size=None, fn_kwargs={"job": job, "tally": tally}, num_cpus=1, **arrow)
    if job.embed:
        actors, share, device, threads = cluster.pool(resources, len(parts))
        ds = ds.map_batches(
            Embedder, batch_size=256, compute=actors, fn_constructor_args=(job, device, threads, tally), **share, **arrow
        )
    return ds.map_batches(write, batch_size=None, fn_kwargs={"job": job, "run_id": run_id}, num_cpus=1, **arrow)


def blocks(sources: pa.Table, cpus: int) -> list[pa.Table]:
    """The sources in blocks, a few for each CPU; large and small files are spread over all of them."""
    number = min(len(sources), max(cpus * BLOCKS_PER_CPU, -(-len(sources) // BLOCK_SOURCES)))
    order = sources.sort_by([("size", "descending")])
    return [order.take(pa.array(range(i, len(order), number))) for i in range(number)]


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"
