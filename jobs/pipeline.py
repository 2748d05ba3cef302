"""The whole job on one page: list → prepare → ask → embed → write → one commit."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from heapq import nlargest
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray

from chunkmill import __version__
from chunkmill.chunkers.errors import TRANSIENT, RunError
from chunkmill.io import recipes, runs
from chunkmill.io.parquet import Conflict
from chunkmill.io.runs import Entry
from chunkmill.io.storage import locate, writable
from chunkmill.io.table import evolve
from chunkmill.jobs import asking, cluster, isolation, machines, recent, topics
from chunkmill.jobs.asking import Asking
from chunkmill.jobs.config import Job
from chunkmill.jobs.embedding import Embedder
from chunkmill.jobs.llm import ended
from chunkmill.jobs.meter import shared
from chunkmill.jobs.plan import Plan, plan
from chunkmill.jobs.publish import TABLES, publish, recover, tidy
from chunkmill.jobs.reuse import PLACES, Gathered, gather
from chunkmill.jobs.rows import Slow, slowness
from chunkmill.jobs.stages import SLOWEST, prepare, write
from chunkmill.jobs.tally import STAGES, watched
from chunkmill.jobs.united import United, united
from chunkmill.jobs.upkeep import new_id, vacuum

if TYPE_CHECKING:
    from ray.data import Dataset

BLOCKS_PER_CPU = 4
BLOCK_SOURCES = 1_000  # the most sources in a block: what one task does at the least
PLANS = 5  # how often a run plans anew because another committed first
LIBRARIES = ("ray", "pyarrow", "deltalake", "tiktoken", "torch", "sentence-transformers")
GPU_ROWS = 256  # documents that a GPU gets at once: small ones fill its batches, large ones fit into memory
ENOUGH = 100  # documents before the share of failures says anything


@dataclass(slots=True)
class Summary:
    """What a run did. `statuses` counts documents by `ok`, `empty` and `failed:kind`."""

    run_id: str
    recipe: str
    sources: int = 0
    added: int = 0
    changed: int = 0
    retried: int = 0
    unchanged: int = 0
    gone: int = 0
    touched: int = 0  # sources with a new date and the old content
    kept: int = 0  # sources that can't be read now; what was read before stays
    adopted: int = 0  # sources that a run which died had finished
    chunks: int = 0
    vectors: Counter[str] = field(default_factory=Counter)  # made, reused, repeated; pooled, truncated
    llm: dict[str, Any] = field(default_factory=dict)  # of a language model: calls, cached, tokens, spend, fallbacks
    size_bytes: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # of each kind of failure: a document and its message
    seen: dict[str, float] = field(default_factory=dict)  # of `tally`, so far
    # Seconds of plan and publish, and of all workers those of write and `tally.STAGES`.
    stages: dict[str, float] = field(default_factory=dict)
    slowest: list[Slow] = field(default_factory=list)  # to parse
    seconds: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """Documents processed, in whatever state they ended."""
        return sum(self.statuses.values())

    def correct(self, whole: United) -> None:
        """Documents that seemed good and of which a part failed are failed ones."""
        kinds = Counter(f"failed:{kind}" for kind, _ in whole.failed.values())
        self.statuses.update(kinds)
        self.statuses["ok"] -= kinds.total()
        self.statuses += Counter()  # without what is now none
        self.examples = {kind: f"{uri}: {why}" for uri, (kind, why) in whole.failed.items()} | self.examples
        self.chunks -= whole.chunks

    @property
    def took(self) -> dict[str, float]:
        """`stages` to the millisecond."""
        return {stage: round(seconds, 3) for stage, seconds in self.stages.items()}

    @property
    def failed(self) -> int:
        """Documents that failed, of whatever kind."""
        return sum(n for status, n in self.statuses.items() if status.startswith("failed"))


Report = Callable[[Summary, Plan], None]


def run(job: Job, report: Report = lambda summary, plan: None) -> Summary:
    """Do what the plan says and publish it. `report` hears of progress every second or so.

    What another run publishes meanwhile is planned around: what this one has finished is not done again. Raises ConfigError
    and RunError; one document's trouble is a row in the ledger.
    """
    started, run_id = time.monotonic(), new_id()
    job = job.model_copy(update={"output": str(locate(job.output))})  # workers may stand in another folder
    with cluster.told():
        job = topics.ready(job)
    for left in reversed(range(PLANS)):
        try:
            with cluster.told():
                return _attempt(job, run_id, report, started)
        except Conflict as error:
            if not left:
                raise RunError(
                    f"other runs published to {job.output} {PLANS} times meanwhile: run it again ({error})"
                ) from None
    raise AssertionError("unreachable")


def _attempt(job: Job, run_id: str, report: Report, started: float) -> Summary:
    planned = time.monotonic()
    recover(job.output, at_once=not job.run.retention_s)
    for name in TABLES:
        evolve(job.output, name)
    todo = plan(job)
    summary = _begun(run_id, job, todo)
    summary.stages["plan"] = time.monotonic() - planned
    needed = bool(len(todo.todo) or summary.adopted or todo.gone or todo.versions["documents"] is None)
    if needed:
        writable(job.output)
    report(summary, todo)
    if needed:
        recipes.save(job.output, job.recipe, job.describe())
        entries = process(job, todo, summary, partial(report, summary, todo))
        whole = united(job, entries, run_id)
        summary.correct(whole)
        _check(summary, job)
        if cluster.needed(job, todo.todo):
            cluster.connect(job.run.cpus)
        processed = time.monotonic()
        adopted = todo.adopted._replace(trimmed=[*todo.adopted.trimmed, *whole.trimmed])
        touched, kept = ([s for e in entries for s in getattr(e, name)] for name in ("touched", "kept"))
        summary.versions = publish(job, todo._replace(adopted=adopted), run_id, whole.files, touched, kept)
        summary.seconds, summary.stages["publish"] = time.monotonic() - started, time.monotonic() - processed
        settle(job, todo, summary)
    else:
        runs.forget(job.output, run_id)  # of an attempt that came second to a run that did the same
        if not job.run.retention_s:
            vacuum(job.output, 0)  # of a retention that was longer, or of what put files together since
    summary.seconds = time.monotonic() - started
    return summary


def _begun(run_id: str, job: Job, todo: Plan) -> Summary:
    adopted = len(todo.adopted.sources)
    counts = (len(todo.todo) + adopted, todo.added, todo.changed, todo.retried, todo.unchanged, todo.gone)
    summary = Summary(run_id, job.recipe, *counts, adopted=adopted, chunks=todo.adopted.chunks)
    summary.statuses.update(todo.adopted.statuses)
    summary.examples = dict(todo.adopted.examples)
    return summary


def _check(summary: Summary, job: Job) -> None:
    """A run that went wrong is not published; what it has finished stays in its journal."""
    _check_share(summary, job)
    passing = sum(summary.statuses[f"failed:{kind}"] for kind in TRANSIENT)
    if passing and passing == summary.documents and not (summary.unchanged or summary.gone or summary.kept or summary.touched):
        raise RunError(f"every document failed, nothing was published; the first: {next(iter(summary.examples.values()))}")


def _check_share(summary: Summary, job: Job) -> None:
    """A run that goes wrong stops. What can't be read now counts, although its old rows are kept.

    The share is of the whole input, unchanged sources too: of a night's three new documents one may be bad.
    """
    failed, seen = summary.failed + summary.kept, summary.documents + summary.kept + summary.unchanged + summary.touched
    if failed / max(1, seen) > job.run.max_error_share:
        kinds = [f"{n:,} {s[7:]}" for s, n in summary.statuses.most_common() if s.startswith("failed:")]
        kinds += [f"{summary.kept:,} can't be read now"] * bool(summary.kept)
        example = next(iter(summary.examples.values()), "")
        raise RunError(
            f"{failed:,} of {seen:,} documents failed ({', '.join(kinds)}), more than run.max_error_share "
            f"({job.run.max_error_share:.0%}) allows; nothing was published. For example {example}"
        )


def process(job: Job, plan: Plan, summary: Summary, report: Callable[[], None]) -> list[Entry]:
    """Run the stages over what is to do: what was written, which nobody sees yet."""
    entries: list[Entry] = []
    if not len(plan.todo):
        return entries
    resources = cluster.connect(job.run.cpus) if cluster.needed(job, plan.todo) else None
    known = Gathered([], PLACES.empty_table())
    if job.embedder and job.embedding.pooling == "chunk":
        known = gather(job.output, plan.versions["chunks"], job.embedder, plan.superseded)

    meter = shared(job.llm, summary.run_id) if job.llm and job.asks else None

    def seen(counts: Mapping[str, float]) -> None:
        summary.seen = dict(counts)
        summary.stages |= {stage: counts[name] for stage in STAGES if (name := f"{stage}_seconds") in counts}
        summary.llm = ray.get(meter.read.remote()) if meter else {}
        report()

    with watched(summary.run_id, seen, here=resources is None) as tally:
        what = job, plan.todo, summary.run_id
        if resources:
            rows = machines.watched(flow(*what, resources, tally, known, meter), job, resources).iter_rows()
        else:
            rows = here(*what, tally)
        for row in rows:
            entry = runs.entry(json.loads(row["entry"]))
            entries.append(entry)
            summary.statuses.update(entry.statuses)
            summary.examples = dict(entry.examples) | summary.examples
            summary.vectors.update(json.loads(row["vectors"]))
            summary.slowest = nlargest(SLOWEST, [*summary.slowest, *map(tuple, json.loads(row["slowest"]))], key=slowness)
            summary.stages["write"] = summary.stages.get("write", 0.0) + json.loads(row["seconds"])
            summary.chunks += entry.chunks
            summary.size_bytes += entry.size_bytes
            summary.touched += len(entry.touched)
            summary.kept += len(entry.kept)
            if summary.documents + summary.kept >= ENOUGH:
                _check_share(summary, job)
    if summary.llm.get("stopped"):
        raise ended(summary.llm, len(plan.todo) - finished(entries), summary.sources)
    return entries


def finished(entries: Sequence[Entry]) -> int:
    """How many sources are done."""
    counts: Counter[str] = Counter()
    totals: dict[str, int] = {}
    for entry in entries:
        counts.update({source: n for source, (n, _) in entry.sources.items()})
        totals.update({source: total for source, (_, total) in entry.sources.items() if total >= 0})
    outside = sum(len(entry.touched) + len(entry.kept) for entry in entries)
    return sum(totals.get(source) == n for source, n in counts.items()) + outside


def settle(job: Job, todo: Plan, summary: Summary) -> None:
    """Leave the run's record, take away what is no longer needed of it, of the runs it took over from, and of old versions."""
    intent = runs.intent(job.output, summary.run_id)
    runs.finish(job.output, summary.run_id, record(summary))
    if intent:
        tidy(job.output, intent, at_once=not job.run.retention_s)
    for run_id in todo.adopted.run_ids:
        if run_id != summary.run_id:
            runs.forget(job.output, run_id, intent=False)
    recover(job.output)  # voids the intents that came too late
    vacuum(job.output, job.run.retention_s)


def record(summary: Summary) -> dict[str, Any]:
    """What is kept of a run."""
    known = {f.name: getattr(summary, f.name) for f in fields(summary) if f.name != "seen"}
    return known | {
        "statuses": dict(summary.statuses),
        "vectors": dict(+summary.vectors),
        "documents": summary.documents,
        "stages": summary.took,
        "version": __version__,
        "libraries": libraries(),
    }


def libraries() -> dict[str, str]:
    """The versions of what the run stands on, where they are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def here(job: Job, sources: pa.Table, run_id: str, tally: Any) -> Iterator[dict[str, Any]]:
    """The stages one after another in this process: for little work, which would wait for Ray longer than it takes."""
    cluster.stoppable()
    cluster.carry(job)
    with isolation.dismissed():
        for block in blocks(sources, 1, PLACES.empty_table()):
            for part in prepare(block, job, tally):
                yield from write(part, job, run_id, tally).to_pylist()


def flow(
    job: Job,
    sources: pa.Table,
    run_id: str,
    resources: cluster.Resources,
    tally: Any,
    known: Gathered,
    meter: Any = None,
) -> Dataset:
    """The stages as Ray Data sees them; one row a document from the first to the last."""
    from ray.data import from_arrow

    arrow: dict[str, Any] = {"batch_format": "pyarrow"}
    _ = job.chunking, job.recipe, job.embedder  # resolved here once, and sent along
    cluster.carry(job)
    parts = blocks(sources, max(resources.cpus, cluster.WIDE_CPUS * resources.grows), known.places)
    ds: Dataset = from_arrow(parts)
    ds = ds.map_batches(prepare, batch_size=None, fn_kwargs={"job": job, "tally": tally}, **cluster.tasks(job), **arrow)
    if meter:
        actors, calls = asking.pool(job, len(parts))
        arguments = (job, meter, calls, tally)
        ds = ds.map_batches(
            Asking, batch_size=asking.DOCUMENTS, compute=actors, fn_constructor_args=arguments, num_cpus=0, **arrow
        )
    if job.embed:
        actors, share, device, threads = cluster.pool(resources, len(parts), job)
        ds = ds.map_batches(
            Embedder,
            # What one task prepared, 512 documents or 8 MB of text: with more, actors stand idle. For GPUs Ray wants a number.
            batch_size=GPU_ROWS if device == "cuda" else None,
            compute=actors,
            fn_constructor_args=(job, device, threads, tally, known.refs, recent.shared(actors.max_size)),
            **share,
            **arrow,
        )
    return ds.map_batches(write, batch_size=None, fn_kwargs={"job": job, "run_id": run_id, "tally": tally}, num_cpus=1, **arrow)


def blocks(sources: pa.Table, cpus: int, places: pa.Table) -> list[pa.Table]:
    """The sources in blocks, a few for each CPU; large and small files are spread over all of them.

    Sources of which the dataset has chunks (`places`) or a text are in the order of its files: what a block needs of them is
    then in a few.
    """
    number = min(len(sources), max(cpus * BLOCKS_PER_CPU, -(-len(sources) // BLOCK_SOURCES)))
    place = places["place"].take(pc.index_in(sources["uri"], value_set=places["source"]))
    known = pc.or_(pc.is_valid(place), pc.is_valid(sources["ledger"]))
    old, new = sources.append_column("place", place).filter(known), sources.filter(pc.invert(known))
    of_old = max(1, round(number * len(old) / max(1, len(sources)))) if len(old) else 0
    return [
        *spread(new, max(1, number - of_old)),
        *in_order(old.sort_by([("place", "ascending"), ("ledger", "ascending")]).drop_columns("place"), of_old),
    ]


def spread(sources: pa.Table, number: int) -> list[pa.Table]:
    """The sources in so many blocks of like sizes."""
    number = min(len(sources), number)
    order = sources.sort_by([("size", "descending")])
    return [order.take(pa.array(range(i, len(order), number))) for i in range(number)]


def in_order(sources: pa.Table, number: int) -> list[pa.Table]:
    """The sources as they come, in about so many blocks of about the same number and the same bytes."""
    sizes = pc.fill_null(sources["size"], 0).to_numpy()
    weights = 1 / max(1, len(sizes)) + sizes / max(1, sizes.sum())
    block = (np.cumsum(weights) - weights / 2) / max(1e-9, weights.sum()) * number
    edges = [0, *(np.flatnonzero(np.diff(block.astype(int))) + 1).tolist(), len(sources)]
    return [sources.slice(a, b - a) for a, b in pairwise(edges) if a < b]
