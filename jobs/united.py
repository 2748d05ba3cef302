"""Documents that came in parts, put together again: all of their parts count, or none does and the ledger says why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.io import parquet
from chunkmill.io.parquet import Written
from chunkmill.io.runs import Entry, PartRow
from chunkmill.jobs.config import Job

LOST = ("internal", "some of its parts did not come through")


def broken(rows: Iterable[PartRow]) -> dict[str, list[PartRow]]:
    """The documents, by their id, of which a part failed, is missing or came twice, or whose own row did; with their rows."""
    found: dict[str, list[PartRow]] = defaultdict(list)
    for row in rows:
        found[row.doc_id].append(row)
    return {doc_id: rows for doc_id, rows in found.items() if not _whole(rows)}


def _whole(rows: Sequence[PartRow]) -> bool:
    total = max(row.total for row in rows)
    return not any(row.error for row in rows) and sorted(row.number for row in rows) == [-1, *range(total)]


class United(NamedTuple):
    """The files of a run that are as they should be, and those to be taken without the documents beside them.

    `failed` are the documents that the ledger had as good ones and now has as failed: of each URI the kind and the reason.
    `chunks`: how many are void.
    """

    files: list[Written]
    trimmed: list[tuple[Written, pa.Array]]
    failed: dict[str, tuple[str, str]]
    chunks: int


def united(job: Job, entries: Sequence[Entry], run_id: str) -> United:
    """What the entries of a run come to: of a document that is not whole no chunk stays, and its row is a failed one's."""
    spoilt = broken(row for entry in entries for row in entry.parts)
    made = United([], [], {}, sum(row.chunks for rows in spoilt.values() for row in rows))
    for entry in entries:
        mine = sorted({row.doc_id for row in entry.parts if row.doc_id in spoilt})
        good = sorted({row.doc_id for row in entry.parts if row.doc_id in spoilt and row.number < 0})
        for file in entry.files:
            gone = pa.array(good if file.table == "documents" else mine, pa.string())
            if len(gone):
                made.trimmed.append((file, gone))
            else:
                made.files.append(file)
            if len(gone) and file.table == "documents":
                errors = {doc_id: next((r.error for r in spoilt[doc_id] if r.error), LOST) for doc_id in good}
                rows = _failed(job, file, errors)
                made.failed.update((row["uri"], (row["error_kind"], row["error"])) for row in rows.to_pylist())
                made.files.extend(parquet.write(job.output, "documents", rows, run_id=run_id))
    return made


def _failed(job: Job, file: Written, errors: dict[str, tuple[str, ...]]) -> pa.Table:
    """The rows of these documents in a file of the ledger, as failed ones."""
    known = parquet.body(job.output, "documents", file.path, filter=pc.field("doc_id").isin(list(errors)))
    changed = [
        row | {"status": "failed", "error_kind": kind, "error": why, "n_chunks": 0, "n_tokens": 0}
        for row in known.to_pylist()
        for kind, why in [errors[row["doc_id"]]]
    ]
    return pa.Table.from_pylist(changed, schema=known.schema)
