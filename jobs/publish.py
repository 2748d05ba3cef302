"""One atomic commit per table: the files a run wrote come in, the rows they supersede go out.

The order is chunks, images, documents: a document is done only once its chunks are visible. What will be committed is
written down before the first commit, so that a publication that is cut off between two of them is completed by the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.io import parquet, runs, table
from chunkmill.io.parquet import Conflict, Rewrite, Written
from chunkmill.io.runs import Intent, Step
from chunkmill.jobs import cluster
from chunkmill.jobs.config import Job
from chunkmill.jobs.plan import Plan

TABLES = ("chunks", "images", "documents")
SMALL_BYTES = 16 << 20  # files below are put together
FULL_BYTES = 128 << 20  # as far as this


NOTHING: parquet.Changes = {}


class Stale(NamedTuple):
    """A file, documents whose rows in it are to go, and new values for those of other sources."""

    file: Written
    doc_ids: pa.Array
    changes: parquet.Changes = NOTHING


def publish(
    job: Job, plan: Plan, run_id: str, written: Sequence[Written], touched: Sequence[str] = (), kept: Sequence[str] = ()
) -> dict[str, int]:
    """The new version of each table. Readers see the old dataset or the new one.

    The rows of `touched` and `kept` sources stay, those of the former with what the listing says of them now. Raises
    `Conflict` if another run committed since the plan was made.
    """
    stay = pc.is_in(plan.superseded["source"], value_set=pa.array([*touched, *kept], pa.string()))
    gone = plan.superseded["doc_id"].filter(pc.invert(stay)).combine_chunks()
    changes = _stat(plan.todo, touched)
    trimmed = [Stale(f, ids) for f, ids in plan.adopted.trimmed]
    rest = zip(rewritten(job.output, trimmed, run_id), trimmed, strict=True)
    files = [*written, *plan.adopted.files, *(f for r, t in rest if (f := r.added if r else t.file))]
    originals = [t.file for t in trimmed]
    steps = {}
    for name in TABLES:
        mine = changes if name == "documents" else {}
        old = [Stale(f, gone, mine) for f in table.active(job.output, name)] if len(gone) or mine else []
        anew = [r for r in rewritten(job.output, old, run_id) if r]
        fresh = [f for f in files if f.table == name] + [r.added for r in anew if r.added]
        added = bundled(job.output, fresh, run_id)
        spare = {f.path for f in (*fresh, *originals) if f.table == name} - {f.path for f in added}
        expected = plan.versions[name]
        if added or expected is not None or name != "images":  # most datasets have no images
            steps[name] = Step(expected, tuple(added), tuple(r.removed for r in anew), tuple(sorted(spare)))
    intent = Intent(job.recipe, steps)
    runs.intend(job.output, run_id, intent)
    return carry_out(job.output, run_id, intent)


def carry_out(root: str, run_id: str, intent: Intent) -> dict[str, int]:
    """Commit what was intended, as far as it is not; the new versions. Raises Conflict where others came first."""
    return {name: _committed(root, run_id, name, step, intent.recipe) for name, step in intent.steps.items()}


def _committed(root: str, run_id: str, name: str, step: Step, recipe: str) -> int:
    upcoming = _upcoming(step)
    if table.committed_by(root, name, upcoming) == run_id:
        return upcoming
    try:
        return table.commit(
            root, name, add=step.add, remove=step.remove, expected=step.expected, run_id=run_id, info={"recipe": recipe}
        )
    except Conflict:
        if table.committed_by(root, name, upcoming) == run_id:  # who came first did it for this run (`recover`)
            return upcoming
        raise


def _upcoming(step: Step) -> int:
    return 0 if step.expected is None else step.expected + 1


def tidy(root: str, intent: Intent, *, at_once: bool) -> None:
    """Delete the files that were written on the way to a publication, and (`at_once`) those it replaced."""
    for name, step in intent.steps.items():
        table.sweep(root, name, age_s=0, only=[*step.spare, *(step.remove if at_once else ())])


def recover(root: str, *, at_once: bool = False) -> list[str]:
    """Complete publications that were cut off between two tables; void intents that came too late. The runs completed.

    An intent whose first version nobody has taken stays: its run may be about to take it, and die right after.
    """
    done = []
    for run_id in runs.unfinished(root):
        if (intent := runs.intent(root, run_id)) is None:
            continue
        first, step = next(iter(intent.steps.items()))
        if table.committed_by(root, first, _upcoming(step)) == run_id:
            versions = carry_out(root, run_id, intent)
            runs.finish(root, run_id, {"run_id": run_id, "recipe": intent.recipe, "versions": versions, "recovered": True})
            tidy(root, intent, at_once=at_once)
            done.append(run_id)
        elif (now := table.version(root, first)) is not None and now >= _upcoming(step):
            runs.forget(root, run_id, journal=False)
    return done


def _stat(todo: pa.Table, touched: Sequence[str]) -> parquet.Changes:
    """What the listing says of these sources, by source."""
    rows = todo.filter(pc.is_in(todo["uri"], value_set=pa.array(touched, pa.string())))
    return {r["uri"]: {n: r[n] for n in ("etag", "size", "modified")} for r in rows.to_pylist()}


def rewritten(root: str, files: Sequence[Stale], run_id: str) -> list[Rewrite | None]:
    """Each file without the rows of the documents beside it; None for one that has none of them. A task a file."""
    return cluster.each(_rewritten, [(root, f.file.table, f.file.path, f.doc_ids, f.changes, run_id) for f in files])


def _rewritten(root: str, name: str, path: str, doc_ids: pa.Array, changes: parquet.Changes, run_id: str) -> Rewrite | None:
    return parquet.without(root, name, path, doc_ids, run_id=run_id, changes=changes)


def bundled(root: str, files: Sequence[Written], run_id: str, *, small_bytes: int = SMALL_BYTES) -> list[Written]:
    """The files with small ones of a partition put together; the originals stay."""
    by_partition: dict[str, list[Written]] = {}
    for file in files:
        if file.size < small_bytes:
            by_partition.setdefault(str(file.partition), []).append(file)
    groups = [group for small in by_partition.values() for group in grouped(small)]
    merged = cluster.each(_merged, [(root, group, run_id) for group in groups if len(group) > 1])
    alone = [group[0] for group in groups if len(group) == 1]
    return [f for f in files if f.size >= small_bytes] + alone + merged


def _merged(root: str, files: Sequence[Written], run_id: str) -> Written:
    return parquet.merge(root, files, run_id=run_id)


def grouped(files: Sequence[Written]) -> list[list[Written]]:
    """Files in groups of about the full size."""
    groups: list[list[Written]] = []
    size = FULL_BYTES
    for file in files:
        if size + file.size > FULL_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups
