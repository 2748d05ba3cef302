"""One atomic commit per table: the files a run wrote come in, the rows they supersede go out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import ray

from chunkmill.io import table
from chunkmill.io.table import Rewrite, Written
from chunkmill.jobs.config import Job
from chunkmill.jobs.plan import Plan

TABLES = ("chunks", "documents")  # the ledger last: a document is done only once its chunks are visible


def publish(job: Job, plan: Plan, run_id: str, written: Sequence[Written]) -> dict[str, int]:
    """The new version of each table that changes. Readers see the old dataset or the new one.

    Raises `table.Conflict` if another run committed since the plan was made.
    """
    versions = {}
    anew = {name: rewritten(job.output, name, plan.superseded, run_id) for name in TABLES}  # so that the commits are close
    for name, rewrites in anew.items():
        added = [f for f in written if f.table == name] + [r.added for r in rewrites if r.added]
        removed = [r.removed for r in rewrites]
        if added or removed or plan.versions[name] is None:
            versions[name] = table.commit(
                job.output,
                name,
                add=added,
                remove=removed,
                expected=plan.versions[name],
                run_id=run_id,
                info={"recipe": job.recipe},
            )
    return versions


def rewritten(root: str, name: str, doc_ids: pa.Array, run_id: str) -> list[Rewrite]:
    """The files that hold rows of these documents, each written anew without them; one Ray task a file."""
    if not len(doc_ids):
        return []
    task = ray.remote(num_cpus=1)(table.without)
    shared = ray.put(doc_ids)
    found = ray.get([task.remote(root, name, path, shared, run_id=run_id) for path in table.paths(root, name)])
    return [r for r in found if r]
