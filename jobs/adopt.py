"""What runs that died had finished: taken over by the next one with the same recipe, each document once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.io import parquet, runs
from chunkmill.io.parquet import Written
from chunkmill.io.runs import Entry
from chunkmill.io.schema import SCHEMAS
from chunkmill.jobs.united import broken

KNOWN = ["doc_id", "source", "etag", "size", "modified", "status", "error_kind", "n_chunks"]


class Adopted(NamedTuple):
    """`files` are taken as they are; those of `trimmed` without the documents named beside them."""

    files: list[Written]
    trimmed: list[tuple[Written, pa.Array]]
    sources: pa.Array
    statuses: Counter[str]
    chunks: int
    run_ids: list[str]  # whose journals are no longer needed once all this is published
    examples: dict[str, str]  # of each kind of failure: a document and its message


def nothing() -> Adopted:
    """Where no run died."""
    return Adopted([], [], pa.array([], pa.string()), Counter(), 0, [], {})


class _Taken(NamedTuple):
    """An entry of a journal and the documents in its files: none where the files are gone, and no parts of documents."""

    run_id: str
    entry: Entry
    documents: pa.Table


def adopt(root: str, recipe: str, todo: pa.Table, again: Container[str] | None = ()) -> Adopted:
    """What journals hold of the sources to do: those that are complete, and are now as they were when they were read.

    A source that failed in a way that is to be tried `again` (kinds of errors, None: all) is not finished: what was out of
    reach then may be there now.
    """
    parts = [part for run_id in runs.unfinished(root) for part in _parts(root, run_id, recipe)]
    if not parts:
        return nothing()
    chosen = _complete(parts, todo, again)
    found = nothing()
    seen: set[str] = set()
    sources: set[str] = set()
    for part in parts:
        passing = {row.doc_id: chosen.get(row.source) == part.run_id for row in part.entry.parts if row.number >= 0}
        owner = [chosen.get(source) == part.run_id for source in part.documents["source"].to_pylist()]
        ids = part.documents["doc_id"].to_pylist()
        kept = [mine and doc_id not in seen for mine, doc_id in zip(owner, ids, strict=True)]
        if not any(kept) and not any(passing.values()):
            continue
        seen.update(doc_id for doc_id, keep in zip(ids, kept, strict=True) if keep)
        mine = part.documents.filter(pa.array(kept, pa.bool_()))
        _count(found, mine)
        found = found._replace(
            chunks=found.chunks + (pc.sum(mine["n_chunks"]).as_py() or 0), examples={**part.entry.examples, **found.examples}
        )
        sources.update(mine["source"].to_pylist())
        if all(kept) and all(passing.values()):
            found.files.extend(part.entry.files)
        else:
            gone = [doc_id for doc_id, keep in [*zip(ids, kept, strict=True), *passing.items()] if not keep]
            dropped = pa.array(gone, pa.string())
            found.trimmed.extend((file, dropped) for file in part.entry.files)
    return found._replace(
        run_ids=sorted({part.run_id for part in parts}),
        sources=pa.array(sorted(sources), pa.string()),
        examples={kind: said for kind, said in found.examples.items() if f"failed:{kind}" in found.statuses},
    )


def _count(found: Adopted, documents: pa.Table) -> None:
    pairs = zip(documents["status"].to_pylist(), documents["error_kind"].to_pylist(), strict=True)
    found.statuses.update(f"{status}:{kind}" if kind else status for status, kind in pairs)


def _parts(root: str, run_id: str, recipe: str) -> Iterator[_Taken]:
    """The entries of a run under this recipe."""
    empty = SCHEMAS["documents"].empty_table().select(KNOWN)
    for entry in runs.journal(root, run_id):
        if entry.recipe == recipe:
            there = entry if parquet.exist(root, entry.files) else entry._replace(files=(), parts=())
            ledgers = [f.path for f in there.files if f.table == "documents"]
            yield _Taken(run_id, there, pa.concat_tables([empty, *(_body(root, path) for path in ledgers)]))


def _body(root: str, path: str) -> pa.Table:
    return parquet.body(root, "documents", path, KNOWN)


def _complete(parts: Sequence[_Taken], todo: pa.Table, again: Container[str] | None) -> dict[str, str]:
    """Of each source that a run finished, in the state in which it is listed now: that run."""
    stat = {row["uri"]: row for row in todo.select(["uri", "etag", "size", "modified"]).to_pylist()}
    counts: dict[tuple[str, str], set[str]] = defaultdict(set)
    totals: dict[tuple[str, str], int] = {}
    stale: set[tuple[str, str]] = set()
    for part in parts:
        for row in part.documents.to_pylist():
            key = part.run_id, row["source"]
            counts[key].add(row["doc_id"])
            if _passing(row, again) or not _alike(row, stat.get(row["source"])):
                stale.add(key)
        totals.update({(part.run_id, source): total for source, (_, total) in part.entry.sources.items() if total >= 0})
    for run_id in {part.run_id for part in parts}:
        rows = broken(row for part in parts if part.run_id == run_id for row in part.entry.parts)
        stale.update((run_id, row.source) for several in rows.values() for row in several)
    done = [key for key, ids in counts.items() if totals.get(key) == len(ids) and key not in stale]
    return {source: run_id for run_id, source in reversed(done)}


def _passing(row: dict[str, Any], again: Container[str] | None) -> bool:
    return row["status"] == "failed" and (again is None or row["error_kind"] in again)


def _alike(row: dict[str, Any], now: dict[str, Any] | None) -> bool:
    return now is not None and all(row[name] == now[name] for name in ("etag", "size", "modified"))
