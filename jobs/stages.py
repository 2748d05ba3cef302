"""The work of a run, as functions over Arrow batches that Ray Data maps: prepare and write (between them, embedding.py).

One row is one document in every stage. Nothing here knows how many workers there are.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.io import parquet, runs
from chunkmill.io.runs import Entry
from chunkmill.jobs import rows
from chunkmill.jobs.config import Job
from chunkmill.jobs.isolation import isolated
from chunkmill.jobs.tally import count


def prepare(batch: pa.Table, job: Job, tally: Any) -> Iterator[pa.Table]:
    """Listed sources → documents: read, parsed, and cut unless the strategy needs a model. Schema `rows.ROW`."""
    since, ahead = time.perf_counter(), 0
    for part in isolated(batch.to_pylist(), job):
        of_parts = pc.equal(part["status"], rows.PART)
        documents = len(part) - (pc.sum(of_parts).as_py() or 0)
        failed = pc.sum(pc.equal(part["status"], "failed")).as_py()
        new, ahead = _read(part, ahead)
        counts = {"documents": documents, "failed": failed, "bytes": new}
        count(tally, counts | _due(part, job) | {"prepare_seconds": time.perf_counter() - since})
        yield part
        since = time.perf_counter()


def _read(part: pa.Table, ahead: int) -> tuple[int, int]:
    """The bytes that these rows add to what is read, and how many then count of the source that goes on; before: `ahead`."""
    lasts = np.flatnonzero(np.asarray(part["last"]))
    going = pc.max(part["read"].slice(lasts[-1] + 1 if len(lasts) else 0)).as_py() or 0
    if not len(lasts):
        return max(0, going - ahead), max(ahead, going)
    return (pc.sum(part["size"].filter(part["last"])).as_py() or 0) - ahead + going, going


def _due(part: pa.Table, job: Job) -> dict[str, float]:
    """What of it waits for a model (`due`), and is `done` when no model is asked: documents where one decides the cuts, else
    what their chunks hold.
    """
    due = len(part) if job.chunking.needs else int(rows.sizes(part).sum())
    return {"due": due} if job.chunking.needs or job.embed else {"due": due, "done": due}


SLOWEST = 10
RESULT = pa.schema([(name, pa.string()) for name in ("entry", "vectors", "slowest", "seconds")])  # all JSON


def write(batch: pa.Table, job: Job, run_id: str, tally: Any) -> pa.Table:
    """Documents → Parquet files that nobody sees yet; the result is the entry about them in the run's journal, how many
    vectors came from where, which documents took longest to parse, and the seconds of this.
    """
    since = time.perf_counter()
    outside = {status: pc.equal(batch["status"], status) for status in (rows.TOUCHED, rows.KEPT, rows.LEFT)}
    untouched, kept, _ = (pc.unique(batch["source"].filter(mask)).to_pylist() for mask in outside.values())
    inside = batch.filter(pc.invert(reduce(pc.or_, outside.values())))
    documents = inside.filter(pc.is_null(inside["part"]))
    files = _files(inside, documents, job, run_id)
    known = documents.select(["status", "error_kind", "uri", "error"]).to_pylist()
    entry = Entry(
        job.recipe,
        tuple(files),
        _sources(documents),
        Counter(f"{d['status']}:{d['error_kind']}" if d["error_kind"] else d["status"] for d in known),
        {d["error_kind"]: f"{d['uri']}: {d['error']}" for d in reversed(known) if d["error_kind"]},
        sum(f.rows for f in files if f.table == "chunks"),
        pc.sum(inside["size"].filter(inside["last"])).as_py() or 0,
        tuple(untouched),
        tuple(kept),
        rows.part_rows(inside),
    )
    runs.note(job.output, run_id, entry)
    took = time.perf_counter() - since
    count(tally, {"chunks": entry.chunks, "write_seconds": took})
    told = entry if job.asks else entry._replace(sources={})  # the journal has them; only a run that may stop early counts them
    results = runs.as_json(told), rows.origins(inside), rows.slowest(documents, SLOWEST), took
    return pa.table([[json.dumps(result)] for result in results], schema=RESULT)


def _files(batch: pa.Table, documents: pa.Table, job: Job, run_id: str) -> list[parquet.Written]:
    made = {
        "chunks": rows.chunk_table(batch, job.recipe, run_id, job.embedder),
        "images": rows.image_table(batch, job.recipe, run_id),
        "documents": rows.document_table(documents, job.recipe, run_id, keep_text=job.run.keep_text),
    }
    return [file for name, data in made.items() if len(data) for file in parquet.write(job.output, name, data, run_id=run_id)]


def _sources(batch: pa.Table) -> dict[str, tuple[int, int]]:
    """Of each source: how many of its documents are here, and how many it has in all, -1 if its last is not among them."""
    counts = Counter(batch["source"].to_pylist())
    lasts = batch.filter(batch["last"])
    totals = dict(zip(lasts["source"].to_pylist(), lasts["ordinal"].to_pylist(), strict=True))
    return {source: (n, totals[source] + 1 if source in totals else -1) for source, n in counts.items()}
