"""What a run has to do: the listing of the corpus less what the ledger says is done."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.errors import RunError
from chunkmill.io import table
from chunkmill.io.corpus import list_sources
from chunkmill.io.schema import LISTING
from chunkmill.io.storage import locate
from chunkmill.jobs.config import Job

SEEN = ["source", "etag", "size", "modified", "recipe"]
RETRIED = ("unreadable", "vanished", "internal", "crashed", "timeout")  # failures that may pass: not of the content


class Plan(NamedTuple):
    """`todo`: the sources to process (schema LISTING). `superseded`: documents whose rows go when the run commits.

    `versions`: of the two tables when the plan was made; None for one that doesn't exist.
    """

    todo: pa.Table
    added: int
    changed: int
    unchanged: int
    gone: int
    superseded: pa.Array
    versions: dict[str, int | None]


def plan(job: Job) -> Plan:
    """Compares the whole listing with the ledger. A source that was in the listing before and is not now is gone.

    Only sources below this job's input count as gone, so a dataset can be filled from several places.
    """
    listing = pa.concat_tables([LISTING.empty_table(), *list_sources(job.input, include=job.include, exclude=job.exclude)])
    listing = listing.filter(pc.invert(_below(listing["uri"], job.output)))  # a dataset inside its corpus is no document
    for root in datasets(listing["uri"]):
        listing = listing.filter(pc.invert(_below(listing["uri"], root)))
    versions = {name: table.version(job.output, name) for name in ("chunks", "documents")}
    ledger = table.read(job.output, "documents", [*SEEN, "doc_id", "error_kind"], version=versions["documents"])
    here = _below(ledger["source"], job.input)
    again = ledger["source"].filter(pc.is_in(ledger["error_kind"], value_set=pa.array(RETRIED)))
    known = ledger.select(SEEN).group_by(SEEN).aggregate([])
    numbers = pa.array(np.arange(len(listing)))
    before = known.rename_columns({n: f"seen_{n}" for n in SEEN})
    joined = listing.append_column("row", numbers).join(before, "uri", "seen_source", join_type="left outer")
    same = pc.and_(
        pc.fill_null(_same(joined, job.recipe), False), pc.invert(pc.is_in(joined["uri"], value_set=pc.unique(again)))
    )
    unchanged = pc.unique(joined.filter(same)["row"])
    todo = listing.filter(pc.invert(pc.is_in(numbers, value_set=unchanged)))
    is_known = pc.is_in(todo["uri"], value_set=pc.unique(known["source"]))
    changed = pc.sum(is_known).as_py() or 0
    is_gone = pc.and_(here, pc.invert(pc.is_in(ledger["source"], value_set=listing["uri"])))
    for closed in listing.filter(pc.is_valid(listing["error_kind"]))["uri"].to_pylist():
        is_gone = pc.and_(is_gone, pc.invert(_below(ledger["source"], closed)))  # what could not be listed is not gone
    if not len(listing) and pc.any(is_gone).as_py() and not job.run.allow_empty:
        raise RunError(
            f"{job.input} holds no files now, and {job.output} holds documents of it; nothing was deleted. If the input is "
            "meant to be empty, set run: {allow_empty: true} in a job file"
        )
    stale = pc.or_(is_gone, pc.is_in(ledger["source"], value_set=todo["uri"]))
    gone = len(pc.unique(ledger["source"].filter(is_gone)))
    superseded = ledger["doc_id"].filter(stale).combine_chunks()
    return Plan(todo, len(todo) - changed, changed, len(unchanged), gone, superseded, versions)


def _same(joined: pa.Table, recipe: str) -> pa.ChunkedArray:
    same = pc.equal(joined["seen_recipe"], recipe)
    for name in ("etag", "size", "modified"):
        both_null = pc.and_(pc.is_null(joined[name]), pc.is_null(joined[f"seen_{name}"]))
        same = pc.and_(same, pc.or_(both_null, pc.fill_null(pc.equal(joined[name], joined[f"seen_{name}"]), False)))
    return same


def datasets(uris: pa.ChunkedArray) -> list[str]:
    """The folders among the listed ones that are datasets of ours: they hold a recipe."""
    recipes = pc.extract_regex(uris, r"^(?P<root>.+)/_recipes/[0-9a-f]{16}\.json$")
    return pc.unique(pc.struct_field(pc.drop_null(recipes), "root")).to_pylist()  # type: ignore[no-any-return]


def _below(uris: pa.ChunkedArray, location: str) -> pa.ChunkedArray:
    """Which URIs are the location or lie inside it."""
    root = str(locate(location)).rstrip("/")
    return pc.or_(pc.equal(uris, root), pc.starts_with(uris, root + "/"))
