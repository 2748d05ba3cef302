"""What a run has to do: the listing of the corpus, less what the ledger says is done, less what a dead run had finished."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.errors import TRANSIENT, ConfigError, RunError
from chunkmill.io import recipes, table
from chunkmill.io.corpus import list_sources
from chunkmill.io.schema import LISTING, SCHEMAS
from chunkmill.io.storage import locate
from chunkmill.jobs.adopt import Adopted, adopt
from chunkmill.jobs.config import Job

STAT = ["etag", "size", "modified"]
SEEN = ["source", *STAT, "recipe", "content_hash"]
COLUMNS = [*SEEN, "doc_id", "format", "status", "error_kind", "parser"]
# known: whether the ledger has good rows of it; known_hash: of a source whose content decides; ledger: the file of the
# ledger that holds its text, where only the recipe is new and the parser is not; again: whether all that is wrong is that it
# failed before
TODO = pa.schema([*LISTING, ("known", pa.bool_()), ("known_hash", pa.string()), ("ledger", pa.string()), ("again", pa.bool_())])
RETRIED: dict[str, tuple[str, ...] | None] = {"never": (), "transient": TRANSIENT, "all": None}


class Plan(NamedTuple):
    """`todo`: the sources to process (schema TODO). `superseded`: (source, doc_id) of the rows that go when the run commits.

    `adopted`: what a dead run had finished of it. `versions`: of the tables when the plan was made; None for one that
    doesn't exist.
    """

    todo: pa.Table
    added: int
    changed: int
    retried: int
    unchanged: int
    gone: int
    superseded: pa.Table
    adopted: Adopted
    versions: dict[str, int | None]


def plan(job: Job) -> Plan:
    """Compares the whole listing with the ledger. A source that was in the listing before and is not now is gone.

    Only sources below this job's input count as gone, so a dataset can be filled from several places.
    """
    listing = listed(job)
    versions = {name: table.version(job.output, name) for name in SCHEMAS}
    ledger = table.read(job.output, "documents", [*COLUMNS, table.FILE], version=versions["documents"])
    todo = _todo(job, listing, ledger)
    retried = pc.sum(todo["again"]).as_py() or 0
    is_known = pc.is_in(todo["uri"], value_set=pc.unique(ledger["source"]))
    changed = (pc.sum(is_known).as_py() or 0) - retried
    is_gone = _gone(job, listing, ledger)
    stale = pc.or_(is_gone, pc.is_in(ledger["source"], value_set=todo["uri"]))
    adopted = adopt(job.output, job.recipe, todo, RETRIED[job.run.retry])
    rest = todo.filter(pc.invert(pc.is_in(todo["uri"], value_set=adopted.sources)))
    added, gone = len(todo) - changed - retried, len(pc.unique(ledger["source"].filter(is_gone)))
    superseded = ledger.filter(stale).select(["source", "doc_id"])
    return Plan(rest, added, changed, retried, len(listing) - len(todo), gone, superseded, adopted, versions)


def listed(job: Job) -> pa.Table:
    """The listing of the input, without datasets in it: none of their files is a document."""
    found = pa.concat_tables([LISTING.empty_table(), *list_sources(job.input, include=job.include, exclude=job.exclude)])
    for root in [job.output, *datasets(found["uri"])]:
        found = found.filter(pc.invert(_below(found["uri"], root)))
    return found


def _todo(job: Job, listing: pa.Table, ledger: pa.Table) -> pa.Table:
    """The sources that are new, changed, under another recipe, or to be tried again."""
    known = _by_source(job, ledger)
    joined = listing.append_column("row", pa.array(np.arange(len(listing)))).join(known, "uri", "seen_source")
    joined = joined.sort_by("row")
    stat, recipe = _same_stat(joined), pc.fill_null(pc.equal(joined["seen_recipe"], job.recipe), False)
    again = pc.fill_null(joined["again"], False)
    same = pc.and_(stat, recipe)
    wanted = pc.or_(pc.invert(same), again) if not job.run.verify else pa.array(np.ones(len(joined), bool))
    by_hash = pc.and_(recipe, pc.invert(again))
    by_ledger = pc.and_(pc.and_(stat, pc.invert(recipe)), pc.fill_null(joined["reusable"], False))
    missing = pa.scalar(None, pa.string())
    columns = [
        *(joined[name] for name in LISTING.names),
        pc.fill_null(joined["good"], False),
        pc.if_else(by_hash, joined["seen_content_hash"], missing),
        pc.if_else(by_ledger, joined["path"], missing),
        pc.and_(same, again),
    ]
    return pa.Table.from_arrays([c.cast(f.type) for c, f in zip(columns, TODO, strict=True)], schema=TODO).filter(wanted)


def _by_source(job: Job, ledger: pa.Table) -> pa.Table:
    """One row for each source of the ledger: what was seen of it, whether to try it `again`, whether its text is `reusable`."""
    kinds = RETRIED[job.run.retry]
    failed = pc.equal(ledger["status"], "failed")
    again = (
        failed if kinds is None else pc.fill_null(pc.is_in(ledger["error_kind"], value_set=pa.array(kinds, pa.string())), False)
    )
    reusable = pc.and_(pc.invert(failed), _parsed_alike(job, ledger))
    flagged = ledger.append_column("again", again).append_column("reusable", reusable).append_column("good", pc.invert(failed))
    sums = [("again", "any"), ("good", "any"), ("reusable", "all"), (table.FILE, "min"), (table.FILE, "max")]
    found = flagged.group_by(SEEN, use_threads=False).aggregate(sums)
    whole = pc.equal(found[f"{table.FILE}_min"], found[f"{table.FILE}_max"])  # of a source spread over files, one is not all
    columns = {f"seen_{name}": found[name] for name in SEEN}
    columns |= {
        "again": found["again_any"],
        "good": found["good_any"],
        "reusable": pc.and_(found["reusable_all"], whole),
        "path": found[f"{table.FILE}_min"],
    }
    # A source has one row but for a dataset that was tampered with; then the first decides, and others are superseded.
    firsts = (
        pa.table(columns).append_column("n", pa.array(np.arange(len(found)))).group_by("seen_source").aggregate([("n", "min")])
    )
    return pa.table(columns).take(firsts["n_min"])


def _parsed_alike(job: Job, ledger: pa.Table) -> pa.Array:
    """Which documents today's parsers would read as they were read, with their text at hand."""
    alike = np.zeros(len(ledger), bool)
    kept = [r for r in pc.unique(ledger["recipe"]).to_pylist() if r != job.recipe and _keeps_text(job.output, r)]
    if kept:
        today = pa.array(job.text_parsers, pa.string())
        pairs = pc.and_(pc.is_in(ledger["parser"], value_set=today), pc.is_in(ledger["recipe"], value_set=pa.array(kept)))
        alike = np.asarray(pc.fill_null(pairs, False))
    return pa.array(alike)


def _keeps_text(root: str, recipe: str) -> bool:
    try:
        return bool(recipes.load(root, recipe).get("keep_text"))
    except ConfigError:
        return False


def _same_stat(joined: pa.Table) -> pa.ChunkedArray:
    same = pc.is_valid(joined["seen_recipe"])
    for name in STAT:
        both_null = pc.and_(pc.is_null(joined[name]), pc.is_null(joined[f"seen_{name}"]))
        same = pc.and_(same, pc.or_(both_null, pc.fill_null(pc.equal(joined[name], joined[f"seen_{name}"]), False)))
    return same


def _gone(job: Job, listing: pa.Table, ledger: pa.Table) -> pa.ChunkedArray:
    """Which documents' sources were in the input and are no longer. Raises RunError where that would be all of them."""
    is_gone = pc.and_(_below(ledger["source"], job.input), pc.invert(pc.is_in(ledger["source"], value_set=listing["uri"])))
    for closed in listing.filter(pc.is_valid(listing["error_kind"]))["uri"].to_pylist():
        is_gone = pc.and_(is_gone, pc.invert(_below(ledger["source"], closed)))  # what could not be listed is not gone
    if not len(listing) and pc.any(is_gone).as_py() and not job.run.allow_empty:
        raise RunError(
            f"{job.input} holds no files now, and {job.output} holds documents of it; nothing was deleted. If the input is "
            "meant to be empty, set run: {allow_empty: true} in a job file"
        )
    return is_gone


def datasets(uris: pa.ChunkedArray) -> list[str]:
    """The folders among the listed ones that are datasets of ours: they hold a recipe."""
    found = pc.extract_regex(uris, r"^(?P<root>.+)/_recipes/[0-9a-f]{16}\.json$")
    return pc.unique(pc.struct_field(pc.drop_null(found), "root")).to_pylist()  # type: ignore[no-any-return]  # pyarrow


def _below(uris: pa.ChunkedArray, location: str) -> pa.ChunkedArray:
    """Which URIs are the location or lie inside it."""
    root = str(locate(location)).rstrip("/")
    return pc.or_(pc.equal(uris, root), pc.starts_with(uris, root + "/"))
