"""What a dataset holds, in numbers: for a terminal, as JSON, or as a page (reportpage.py). Only what is counted is read."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkmill import __version__
from chunkmill.chunkers.errors import ChunkmillError, ConfigError
from chunkmill.io import recipes, runs, table
from chunkmill.io.diff import changed
from chunkmill.jobs.charts import NO_SIZES, Sizes, counted_in
from chunkmill.jobs.pages import line, shown
from chunkmill.jobs.progress import duration
from chunkmill.jobs.rows import Slow

LARGEST = 10
ORDER = ("plan", "prepare", "ask", "embed", "forward", "write", "publish")  # of the stages, as a document goes through them
EXAMPLES = 3  # of each kind of error
OF_DOCUMENT = ["uri", "format", "status", "error_kind", "error", "n_chunks", "n_tokens", "size", "recipe"]
OF_CHUNK = ["level", "n_tokens", "format", "recipe", "embedder", "overflow"]


@dataclass(slots=True)
class Report:
    """The numbers of a dataset."""

    dataset: str
    versions: Mapping[str, int | None]
    documents: Counter[tuple[str, str]] = field(default_factory=Counter)  # by format and status
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # of each kind of error: URI and message
    largest: list[tuple[int, int, str, str, int]] = field(default_factory=list)  # tokens, chunks, URI, format, bytes
    chunks: Counter[str] = field(default_factory=Counter)  # leaves by format
    tokens: Counter[str] = field(default_factory=Counter)  # of leaves, by format
    levels: Counter[int] = field(default_factory=Counter)
    sizes: Sizes = NO_SIZES  # of leaves
    per_document: Sizes = NO_SIZES  # chunks of documents that are ok
    source_bytes: int = 0
    with_vectors: int = 0
    overflow: Counter[str] = field(default_factory=Counter)
    by_recipe: Counter[str] = field(default_factory=Counter)  # documents
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    change: dict[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What sizes are counted in; `units` where recipes differ."""
        found = {counted_in(chunk["unit"]) for r in self.recipes.values() if "unit" in (chunk := r.get("chunk", {}))}
        return found.pop() if len(found) == 1 else "units" if found else "tokens"

    @property
    def above(self) -> int:
        """Chunks of a hierarchy that hold others."""
        return sum(n for level, n in self.levels.items() if level)

    @property
    def statuses(self) -> dict[str, int]:
        """Documents by status: ok first."""
        found = Counter[str]()
        for (_, status), n in self.documents.items():
            found[status] += n
        return {s: found[s] for s in ("ok", "empty", "failed") if found[s]}

    @property
    def formats(self) -> list[str]:
        """The formats, the one with the most documents first."""
        found = Counter[str]()
        for (format, _), n in self.documents.items():
            found[format] += n
        return [format for format, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))]


def report(dataset: str) -> Report:
    """Reads a dataset. Raises ConfigError where there is none."""
    versions = {name: table.version(dataset, name) for name in table.SCHEMAS}
    if versions["documents"] is None:
        raise table.absent(dataset)
    found = Report(dataset, versions, runs=runs.records(dataset))
    for batch in table.batches(dataset, "documents", OF_DOCUMENT):
        _documents(found, batch)
    for batch in table.batches(dataset, "chunks", OF_CHUNK):
        _chunks(found, batch)
    found.largest.sort(reverse=True)
    found.recipes = {recipe: _described(dataset, recipe) for recipe in found.by_recipe}
    found.change = _change(found)
    return found


def _documents(found: Report, batch: pa.RecordBatch) -> None:
    for value in _counted(batch, "format", "status"):
        found.documents[value["format"], value["status"]] += value["count"]
    for value in _counted(batch, "recipe"):
        found.by_recipe[value["recipe"]] += value["count"]
    good = batch.filter(pc.equal(batch["status"], "ok"))
    found.per_document = found.per_document.plus(good["n_chunks"])
    found.source_bytes += pc.sum(batch["size"]).as_py() or 0
    for row in batch.filter(pc.equal(batch["status"], "failed")).to_pylist():
        found.errors[row["error_kind"]] += 1
        if len(known := found.examples.setdefault(row["error_kind"], [])) < EXAMPLES:
            known.append((row["uri"], row["error"] or ""))
    top = good.take(pc.select_k_unstable(good, LARGEST, sort_keys=[("n_tokens", "descending")])) if len(good) else good
    rows = [(r["n_tokens"] or 0, r["n_chunks"] or 0, r["uri"], r["format"], r["size"] or 0) for r in top.to_pylist()]
    found.largest = heapq.nlargest(LARGEST, [*found.largest, *rows])


def _chunks(found: Report, batch: pa.RecordBatch) -> None:
    for value in _counted(batch, "level"):
        found.levels[value["level"]] += value["count"]
    leaves = batch.filter(pc.equal(batch["level"], 0))
    found.sizes = found.sizes.plus(leaves["n_tokens"])
    sums = (
        pa.table(leaves.select(["format", "n_tokens"]))
        .group_by("format")
        .aggregate([("n_tokens", "sum"), ("n_tokens", "count")])
    )
    for value in sums.to_pylist():
        found.chunks[value["format"]] += value["n_tokens_count"]
        found.tokens[value["format"]] += value["n_tokens_sum"]
    found.with_vectors += len(batch) - batch["embedder"].null_count
    for value in _counted(batch.filter(batch["overflow"].is_valid()), "overflow"):
        found.overflow[value["overflow"]] += value["count"]


def _counted(batch: pa.RecordBatch, *names: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        pa.table(batch.select(list(names))).group_by(list(names)).aggregate([([], "count_all")]).to_pylist()
    )
    return [row | {"count": row["count_all"]} for row in rows]


def _described(dataset: str, recipe: str) -> dict[str, Any]:
    try:
        return recipes.load(dataset, recipe)
    except ConfigError as error:
        return {"error": str(error)}


def _change(found: Report) -> dict[str, Any]:
    """Chunks that came and went with the last run that made a version, and that run's counts of sources."""
    made = [r for r in found.runs if (r.get("versions") or {}).get("chunks") is not None]
    versions = [r["versions"]["chunks"] for r in made]
    if len(versions) < 2:
        return {}
    last, before = made[-1], max((v for v in versions[:-1] if v < versions[-1]), default=None)
    if before is None:
        return {}
    known = {name: last[name] for name in ("added", "changed", "retried", "gone") if last.get(name)}
    base = {"run_id": last["run_id"], "from": before, "to": versions[-1], "sources": known}
    try:
        fresh, gone = changed(found.dataset, before, versions[-1])
    except (ChunkmillError, OSError) as error:
        return base | {"error": f"version {before} can no longer be read ({type(error).__name__}): its files were deleted"}
    return base | {"chunks_added": len(fresh), "chunks_removed": len(gone)}


def as_json(found: Report) -> dict[str, Any]:
    """The numbers for machines."""
    return {
        "dataset": found.dataset,
        "versions": dict(found.versions),
        "chunkmill": __version__,
        "documents": found.statuses,
        "formats": list(by_format(found)),
        "errors": {k: {"count": n, "examples": found.examples[k]} for k, n in found.errors.most_common()},
        "unit": found.unit,
        "chunks": {"levels": {str(k): n for k, n in sorted(found.levels.items())}, "tokens": found.sizes.summary()},
        "chunks_per_document": found.per_document.summary(),
        "vectors": found.with_vectors,
        "overflow": dict(found.overflow),
        "source_bytes": found.source_bytes,
        "largest": [dict(zip(("tokens", "chunks", "uri", "format", "bytes"), row, strict=True)) for row in found.largest],
        "recipes": {r: {"documents": n, "description": found.recipes[r]} for r, n in found.by_recipe.most_common()},
        "runs": found.runs,
        "stages": stages(found),
        "slowest": [dict(zip(("seconds", "uri", "bytes", "killed"), row, strict=False)) for row in slowest(found)],
        "change": found.change,
    }


def by_format(found: Report) -> Iterator[dict[str, Any]]:
    """Of each format its documents by status, its chunks and its tokens."""
    for format in found.formats:
        statuses = {s: found.documents[format, s] for s in ("ok", "empty", "failed")}
        yield {"format": format, **statuses, "chunks": found.chunks[format], "tokens": found.tokens[format]}


def run_rows(runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a person wants to see of each run."""
    for r in runs:
        statuses: dict[str, int] = r.get("statuses", {})
        yield {
            "run": r["run_id"],
            "kind": r.get("kind", "run" if "documents" in r else "recovered"),
            "version": (r.get("versions") or {}).get("chunks"),
            "documents": r.get("documents"),
            "failed": sum(n for status, n in statuses.items() if status.startswith("failed")) if "documents" in r else None,
            "chunks": r.get("chunks"),
            "seconds": r.get("seconds"),
            "recipe": r.get("recipe", ""),
            "chunkmill": r.get("version", ""),
        }


def stages(found: Report) -> dict[str, float]:
    """Seconds of the stages in the last run that read documents: plan and publish, and of all workers the others."""
    last: dict[str, float] = next((r["stages"] for r in reversed(found.runs) if "prepare" in r.get("stages", ())), {})
    return dict(sorted(last.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else len(ORDER)))


def slowest(found: Report) -> list[Slow]:
    """Of the last run that read documents those that took longest to parse."""
    return next(([*map(tuple, r["slowest"])] for r in reversed(found.runs) if r.get("slowest")), [])


def stages_line(found: Report) -> str:
    """The same in one line."""
    return ", ".join(f"{stage} {seconds:,.1f} s" for stage, seconds in stages(found).items()) or "no run says"


def change_line(change: Mapping[str, Any]) -> str:
    """What changed with the last run, in one line."""
    if not change:
        return "there is no earlier version to compare with"
    sources = ", ".join(f"{n:,} {name}" for name, n in change["sources"].items())
    lead = f"from version {change['from']} to {change['to']}: "
    if "error" in change:
        return lead + change["error"]
    said = f"chunks that came: {change['chunks_added']:,}, that went: {change['chunks_removed']:,}"
    return lead + said + (f" (sources: {sources})" if sources else "")


def sizes_line(sizes: Sizes) -> str:
    """Sizes in one line."""
    s = sizes.summary()
    return f"{s['min']:,} to {s['max']:,}, median {s['median']:,}, mean {s['mean']:,}, 9 in 10 at most {s['p90']:,}"


def show(found: Report, console: Console) -> None:
    """The numbers for a person."""
    statuses = ", ".join(f"{n:,} {status}" for status, n in found.statuses.items())
    console.print(Text(f"{line(found.dataset)}, version {found.versions['chunks']}", "bold"), soft_wrap=True)
    above = f"{found.above:,} above them, " if found.above else ""
    lines = {
        "documents": statuses,
        "chunks": f"{found.sizes.number:,} with {found.sizes.total:,} {found.unit}, {above}{found.with_vectors:,} with vectors",
        f"{found.unit} per chunk": sizes_line(found.sizes),
        "chunks per document": sizes_line(found.per_document),
        "stages of the last run": stages_line(found),
        "last change": change_line(found.change),
    }
    grid = Table.grid(padding=(0, 2))
    for name, says in lines.items():
        grid.add_row(name, Text(says))
    console.print(grid, highlight=False)
    console.print()
    _show_table([{found.unit if k == "tokens" else k: v for k, v in row.items()} for row in by_format(found)], console)
    for kind, n in found.errors.most_common():
        uri, message = found.examples[kind][0]
        console.print(Text(f"{kind} ({n:,}): {line(uri)}: {shown(message)}"), soft_wrap=True)
    console.print()
    show_runs(found.runs[: -LARGEST - 1 : -1], console)


def show_runs(runs: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A line for each."""
    kept = ("run", "kind", "version", "documents", "failed", "chunks")
    _show_table([{k: r[k] for k in kept} | {"took": _took(r)} for r in run_rows(runs)], console)


def _took(run: Mapping[str, Any]) -> str:
    return duration(run["seconds"]) if run["seconds"] is not None else ""


def _show_table(rows: list[dict[str, Any]], console: Console) -> None:
    if not rows:
        return
    grid = Table(*rows[0], box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(Text("" if v is None else f"{v:,}" if isinstance(v, int) else shown(str(v))) for v in row.values()))
    console.print(grid)


def plain(description: Mapping[str, Any]) -> str:
    """A recipe as text."""
    return json.dumps(description, indent=2, ensure_ascii=False, sort_keys=True)
