"""The tables of a dataset: Delta's log, which says which of their files count. `commit` changes that in one step.

A file's path is relative to the table's folder and raw, as on disk; the log holds it escaped once more.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from chunkmill.chunkers.errors import ChunkmillError, ConfigError, RunError
from chunkmill.io.parquet import Conflict, Written, folder, partition, readable
from chunkmill.io.schema import PARTITIONS, SCHEMAS
from chunkmill.io.storage import Place, answered, delete, delta_uri, filesystem, locate, one_line, passed_on, storage_options

FILE = "__filename"  # a column of `read`: the path of the file that holds the row
APP = "chunkmill"
OURS = re.compile(r"(?!_)(.*/)?(?P<hidden>\.)?[^/]+-[0-9a-f]{32}\.parquet(?(hidden)\.tmp)")
LOG_ENTRY = re.compile(r"(\d{20})\.json")


def version(root: str, table: str) -> int | None:
    """The table's version; None where there is no table yet."""
    opened = _open(root, table)
    return None if opened is None else opened.version()


def absent(root: str) -> ChunkmillError:
    """The error where no dataset is, or where that can't be told."""
    system, path = filesystem(folder(root, "documents"))
    try:
        system.get_file_info(pafs.FileSelector(f"{path}/_delta_log", allow_not_found=True))
    except OSError as error:
        return passed_on(error, locate(root), "can't be looked into for a dataset")
    return ConfigError(f"there is no dataset at {root!r}; make one with: chunkmill run INPUT {shlex.quote(root)}")


def read(
    root: str,
    table: str,
    columns: Sequence[str] | None = None,
    filter: ds.Expression | None = None,
    version: int | None = None,
) -> pa.Table:
    """The rows of a version (default: the newest), of the declared types; none where there is no table yet."""
    names = SCHEMAS[table].names if columns is None else list(columns)
    with readable(root, table):
        dataset = _dataset(root, table, version)
        if dataset is None:
            return pa.schema([*SCHEMAS[table], (FILE, pa.string())]).empty_table().select(names)
        return dataset.to_table(columns=names, filter=filter)


def batches(
    root: str, table: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the newest version as a stream that holds a few row groups at a time."""
    names = SCHEMAS[table].names if columns is None else list(columns)
    with readable(root, table):
        if dataset := _dataset(root, table, None):
            stream = dataset.to_batches(columns=names, filter=filter, batch_readahead=2, fragment_readahead=1)
            yield from (batch for batch in stream if batch.num_rows)


def paths(root: str, table: str, version: int | None = None) -> list[str]:
    """The files that count (in this version, default the newest), sorted."""
    opened = _open(root, table, version)
    return [] if opened is None else sorted(_active(opened))


def active(root: str, table: str, version: int | None = None) -> list[Written]:
    """The files that count (in this version, default the newest), sorted by path, as if just written."""
    opened = _open(root, table, version)
    if opened is None:
        return []
    actions = pa.table(opened.get_add_actions(flatten=True))
    rows = zip(*(actions[name].to_pylist() for name in ("path", "size_bytes", "num_records")), strict=True)
    return sorted(Written(table, unquote(path), size, n or 0, partition(unquote(path))) for path, size, n in rows)


def committed_by(root: str, table: str, version: int) -> str:
    """The run that committed a version; "" where there is no such version, or no run of ours made it."""
    for line in _log_entry(folder(root, table), version).splitlines():
        if (info := json.loads(line).get("commitInfo")) is not None:
            return str(info.get("run_id", ""))
    return ""


def evolve(root: str, table: str) -> list[str]:
    """Give a table that an earlier version of Chunkmill made the columns that it lacks, in a commit of its own; their names.

    The rows that are there have nothing in them, and stay as they are.
    """
    opened = _open(root, table)
    if opened is None:
        return []
    known = {field.name for field in opened.schema().fields}
    missing = [field for field in SCHEMAS[table] if field.name not in known]
    if missing:
        place = folder(root, table)
        try:
            opened.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
        except (DeltaError, OSError) as error:
            names = ", ".join(field.name for field in missing)
            why = f"{place} lacks the columns {names}, and they can't be added: {one_line(error)}"
            raise RunError(f"{why}; write to another output") from error
    return [field.name for field in missing]


def commit(
    root: str,
    table: str,
    *,
    add: Sequence[Written],
    remove: Sequence[str],
    expected: int | None,
    run_id: str,
    info: Mapping[str, str],
) -> int:
    """Make `add` count and `remove` not, in one step that creates the table if it is the first; its version.

    Raises Conflict if the table is not at version `expected` (None: doesn't exist), whoever changed it.
    """
    place = folder(root, table)
    opened = _open(root, table)
    found = None if opened is None else opened.version()
    if found != expected:
        raise Conflict(f"{place} is at version {found}, not {expected}: someone else committed; plan again")
    next_version = 0 if expected is None else expected + 1
    commit_id = uuid4().hex
    properties = CommitProperties(
        custom_metadata={**info, "run_id": run_id, "commit_id": commit_id},
        max_commit_retries=0,  # a retry would let a commit through that was planned on an older version
        app_transactions=[Transaction(APP, next_version)],
    )
    removals = _removals(opened, remove)
    try:
        _transact(place, table, opened, list(map(_add, add)), removals, properties)
    except (DeltaError, OSError) as error:
        entry = _log_entry(place, next_version)
        if commit_id in entry:  # it went through; what failed came after, or was the answer
            return next_version
        if entry:
            raise Conflict(f"{place}: someone else committed version {next_version} first; plan again") from error
        raise passed_on(error, place, "can't be committed") from error
    return next_version


def sweep(
    root: str,
    table: str,
    *,
    age_s: float,
    only: Collection[str] | None = None,
    keep: Iterable[str] = (),
    ended: Collection[str] = (),
    orphaned_s: float = 0,
) -> list[str]:
    """Delete files of ours that don't count, and name them, so that a glob over the folder gives just the table.

    Kept are files younger than `age_s` (another run may be about to commit them), those of every version that was the
    newest within `age_s` (a reader may be at it), and those of `keep`. `only`: these files and no others, whatever their age.
    Files of runs that have not `ended` are kept for `orphaned_s`, if that is longer.
    """
    place = folder(root, table)
    counts = {*paths(root, table), *keep}
    if only is not None:
        gone = sorted(set(only) - counts)
    else:
        counts.update(*(_paths_at(root, table, old) for old in _recent(place, age_s)))
        least = {True: age_s, False: max(age_s, orphaned_s)}
        spare = ((path, age) for path, age in _ages(place) if OURS.fullmatch(path) and path not in counts)
        gone = [path for path, age in spare if age >= least[_author(path) in ended]]
    delete(place, gone)
    return gone


def _author(path: str) -> str:
    """The run that wrote a file of ours, whole or not."""
    return path.rpartition("/")[2].rpartition("-")[0].rpartition(".")[2]


def _open(root: str, table: str, version: int | None = None) -> DeltaTable | None:
    place = folder(root, table)
    uri, options = delta_uri(place), storage_options(place)
    try:
        return DeltaTable(uri, version=version, storage_options=options)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        which = "" if version is None else f" at version {version}"
        raise passed_on(error, place, f"can't be opened{which}") from error


def _dataset(root: str, table: str, version: int | None) -> ds.Dataset | None:
    opened = _open(root, table, version)
    if opened is None:
        return None
    system, path = filesystem(folder(root, table))
    return opened.to_pyarrow_dataset(filesystem=pafs.SubTreeFileSystem(path, system), schema=SCHEMAS[table])


def _active(opened: DeltaTable) -> dict[str, int]:
    """The size of each file that counts."""
    actions = pa.table(opened.get_add_actions(flatten=True))
    names = [unquote(path) for path in actions["path"].to_pylist()]
    return dict(zip(names, actions["size_bytes"].to_pylist(), strict=True))


def _add(file: Written) -> AddAction:
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size, file.partition, _now_ms(), True, stats)


def _removals(opened: DeltaTable | None, remove: Sequence[str]) -> list[RemoveAction]:
    active = {} if opened is None else _active(opened)
    if unknown := sorted(set(remove) - active.keys()):
        raise RunError(f"{len(unknown)} files to remove are not in the table, the first is {unknown[0]!r}")
    return [RemoveAction(path, True, _now_ms(), active[path], dict(partition(path))) for path in remove]


def _transact(
    place: Place,
    table: str,
    opened: DeltaTable | None,
    additions: list[AddAction],
    removals: list[RemoveAction],
    properties: CommitProperties,
) -> None:
    schema, by = Schema.from_arrow(SCHEMAS[table]), PARTITIONS[table]
    if opened is not None:
        opened.create_write_transaction([*additions, *removals], "append", schema, by, commit_properties=properties)
        return
    create_table_with_add_actions(
        delta_uri(place),
        schema,
        additions,
        "error",
        by,
        storage_options=storage_options(place),
        commit_properties=properties,
    )


def _log_entry(place: Place, version: int) -> str:
    """What Delta's log says of a version; empty if there is none."""
    system, path = filesystem(place.child(f"_delta_log/{version:020}.json"))
    try:
        with answered(place), system.open_input_stream(path) as file:
            return bytes(file.read()).decode()
    except FileNotFoundError:
        return ""


def _recent(place: Place, age_s: float) -> list[int]:
    """The versions that were replaced less than `age_s` ago."""
    found = ((LOG_ENTRY.fullmatch(path), age) for path, age in _ages(place.child("_delta_log")))
    log = sorted((int(entry[1]), age) for entry, age in found if entry)
    return [old for (old, _), (_, age) in pairwise(log) if age < age_s]


def _paths_at(root: str, table: str, version: int) -> list[str]:
    try:
        opened = _open(root, table, version)
    except RunError:  # the log no longer reaches back so far: nobody can read it
        return []
    return [] if opened is None else list(_active(opened))


def _ages(place: Place) -> list[tuple[str, float]]:
    """The files below a folder and the seconds since they were written, never negative."""
    system, path = filesystem(place)
    with answered(place):
        infos = system.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
    files = [info for info in infos if info.type == pafs.FileType.File]
    now = time.time()
    return sorted((info.path[len(path) :].lstrip("/"), max(0.0, now - info.mtime.timestamp())) for info in files)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
