"""The two tables of a dataset: Parquet files, and Delta's log that says which of them count.

Files are written under names nobody else uses and mean nothing until `commit` names them, all in one step.
A path is relative to the table's folder and raw, as on disk; Delta's log holds it escaped once more.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from chunkmill.chunkers.errors import ChunkmillError, ConfigError, RunError
from chunkmill.io.schema import PARTITIONS, SCHEMAS
from chunkmill.io.storage import Place, answered, delete, delta_uri, filesystem, locate, new_file, no_bucket, storage_options

FILE = "__filename"  # a column of `read`: the path of the file that holds the row
GROUP_BYTES = 32 << 20  # of Arrow data in a row group: what a reader must hold at once
APP = "chunkmill"
OURS = re.compile(r"(?!_)(.*/)?(?P<hidden>\.)?[^/]+-[0-9a-f]{32}\.parquet(?(hidden)\.tmp)")
LOG_ENTRY = re.compile(r"(\d{20})\.json")
COLOUR = re.compile(r"\x1b\[\d+m")
UNREPEATED = {"chunk_id", "text_hash"}  # a dictionary of values that never repeat only costs


class Conflict(RunError):  # noqa: N818
    """Someone else committed first (and perhaps deleted what was replaced): plan again."""


class Written(NamedTuple):
    """A Parquet file that no reader counts yet; `partition` is not in its body."""

    table: str
    path: str
    size: int
    rows: int
    partition: dict[str, str]


class Rewrite(NamedTuple):
    """A file to remove and the one that takes its place, if any row is left."""

    removed: str
    added: Written | None
    rows_dropped: int


def write(root: str, table: str, data: pa.Table, *, run_id: str) -> list[Written]:
    """Files with the rows of `data`, one per partition: zstd, row groups of some 32 MB, complete or not there."""
    schema = SCHEMAS[table]
    if wrong := set(schema.names).symmetric_difference(data.column_names):
        raise ValueError(f"columns of {table} that are missing or unknown: {', '.join(sorted(wrong))}")
    body = _body_schema(table)
    parts = _split(data.select(schema.names).cast(schema), PARTITIONS[table])
    return [_write(root, table, by, body, _groups(part.select(body.names)), run_id) for by, part in parts]


def version(root: str, table: str) -> int | None:
    """The table's version; None where there is no table yet."""
    opened = _open(root, table)
    return None if opened is None else opened.version()


def absent(root: str) -> ChunkmillError:
    """The error where no dataset is, or where that can't be told."""
    system, path = filesystem(_place(root, "documents"))
    try:
        system.get_file_info(pafs.FileSelector(f"{path}/_delta_log", allow_not_found=True))
    except OSError as error:
        return RunError(f"whether there is a dataset at {root!r} can't be told: {error}")
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
    with _readable(root, table):
        dataset = _dataset(root, table, version)
        if dataset is None:
            return pa.schema([*SCHEMAS[table], (FILE, pa.string())]).empty_table().select(names)
        return dataset.to_table(columns=names, filter=filter)


def batches(
    root: str, table: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the newest version as a stream that holds a few row groups at a time."""
    names = SCHEMAS[table].names if columns is None else list(columns)
    with _readable(root, table):
        if dataset := _dataset(root, table, None):
            stream = dataset.to_batches(columns=names, filter=filter, batch_readahead=2, fragment_readahead=1)
            yield from (batch for batch in stream if batch.num_rows)


def paths(root: str, table: str, version: int | None = None) -> list[str]:
    """The files that count (in this version, default the newest), sorted."""
    opened = _open(root, table, version)
    return [] if opened is None else sorted(_active(opened))


def exist(root: str, files: Iterable[Written]) -> bool:
    """Whether all of these files are there, whole, whether they count or not."""
    for file in files:
        system, name = filesystem(_place(root, file.table).child(file.path))
        with answered(_place(root, file.table)):
            if system.get_file_info(name).size != file.size:
                return False
    return True


def body(
    root: str, table: str, path: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
) -> pa.Table:
    """Rows of one file, whether it counts or not, without its partition columns."""
    system, name = filesystem(_place(root, table).child(path))
    with _readable(root, table), pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
        held = None if columns is None else [c for c in columns if c in file.schema_arrow.names]
        found = pq.read_table(name, columns=held, filters=filter, filesystem=system, partitioning=None)
    return found if columns is None else _filled(found, table, columns)


def _filled(data: pa.Table, table: str, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows; empty where the file is of a version that had no such column."""
    for name in columns:
        if name not in data.column_names:
            data = data.append_column(SCHEMAS[table].field(name), pa.nulls(len(data), SCHEMAS[table].field(name).type))
    return data.select(list(columns))


Changes = Mapping[str, Mapping[str, Any]]  # of sources: the new values of columns of their rows


def without(
    root: str, table: str, path: str, doc_ids: pa.Array, *, run_id: str, changes: Changes | None = None
) -> Rewrite | None:
    """The file without the rows of these documents, and with the `changes` made; None if neither concerns it."""
    system, name = filesystem(_place(root, table).child(path))
    with _readable(root, table), pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
        ids = (file.read_row_group(i, columns=["doc_id"])["doc_id"] for i in range(file.num_row_groups))
        kept = [pc.invert(pc.is_in(column, value_set=doc_ids.cast(column.type))) for column in ids]
        left = sum(pc.sum(mask).as_py() or 0 for mask in kept)
        dropped = file.metadata.num_rows - left
        if not dropped and not _concerns(file, changes):
            return None
        if not left:
            return Rewrite(path, None, dropped)
        rest = (file.read_row_group(i).filter(mask) for i, mask in enumerate(kept) if pc.any(mask).as_py())
        schema = file.schema_arrow.remove_metadata()
        groups = _regroup(_changed(part, changes) for part in rest)
        return Rewrite(path, _write(root, table, _partition(path), schema, groups, run_id), dropped)


def _concerns(file: pq.ParquetFile, changes: Changes | None) -> bool:
    if not changes:
        return False
    sources = file.read(columns=["source"])["source"]
    return bool(pc.any(pc.is_in(sources, value_set=pa.array(list(changes), sources.type))).as_py())


def _changed(data: pa.Table, changes: Changes | None) -> pa.Table:
    """The rows with the new values of their sources."""
    if not changes:
        return data
    sources = data["source"].to_pylist()
    for name in {name for values in changes.values() for name in values}:
        old = data[name].to_pylist()
        new = [changes[s][name] if s in changes else value for s, value in zip(sources, old, strict=True)]
        data = data.set_column(
            data.schema.get_field_index(name), data.schema.field(name), pa.array(new, data.schema.field(name).type)
        )
    return data


def merge(root: str, files: Sequence[Written], *, run_id: str) -> Written:
    """Files of one table and partition as one file."""
    table, schema = files[0].table, _body_schema(files[0].table)
    parts = (group.cast(schema) for file in files for group in groups(root, table, file.path, schema.names))
    return _write(root, table, dict(files[0].partition), schema, _regroup(parts), run_id)


def groups(root: str, table: str, path: str, columns: Sequence[str], only: Sequence[int] | None = None) -> Iterator[pa.Table]:
    """Columns of one file, a row group at a time. `only`: these row groups and no others."""
    system, name = filesystem(_place(root, table).child(path))
    with _readable(root, table), pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
        held = [c for c in columns if c in file.schema_arrow.names]
        for i in range(file.num_row_groups) if only is None else only:
            yield _filled(file.read_row_group(i, columns=held), table, columns)


def counted(root: str, table: str, path: str, columns: Sequence[str]) -> pa.Table:
    """Columns of one file, its partition's among them."""
    found = body(root, table, path, [c for c in columns if c not in PARTITIONS[table]])
    for name, value in _partition(path).items():
        if name in columns:
            found = found.append_column(SCHEMAS[table].field(name), pa.array([value] * len(found), pa.string()))
    return found.select(list(columns)).cast(pa.schema([SCHEMAS[table].field(c) for c in columns]))


def active(root: str, table: str, version: int | None = None) -> list[Written]:
    """The files that count (in this version, default the newest), sorted by path, as if just written."""
    opened = _open(root, table, version)
    if opened is None:
        return []
    actions = pa.table(opened.get_add_actions(flatten=True))
    rows = zip(*(actions[name].to_pylist() for name in ("path", "size_bytes", "num_records")), strict=True)
    return sorted(Written(table, unquote(path), size, n or 0, _partition(unquote(path))) for path, size, n in rows)


def committed_by(root: str, table: str, version: int) -> str:
    """The run that committed a version; "" where there is no such version, or no run of ours made it."""
    for line in _log_entry(_place(root, table), version).splitlines():
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
        place = _place(root, table)
        try:
            opened.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
        except (DeltaError, OSError) as error:
            names = ", ".join(field.name for field in missing)
            why = f"{place} lacks the columns {names}, and they can't be added: {_plain(error)}"
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
    place = _place(root, table)
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
        raise RunError(f"{place} can't be committed: {_plain(error)}") from error
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
    place = _place(root, table)
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


def _place(root: str, table: str) -> Place:
    return locate(root).child(table)


def _body_schema(table: str) -> pa.Schema:
    return pa.schema([field for field in SCHEMAS[table] if field.name not in PARTITIONS[table]])


def _split(data: pa.Table, by: Sequence[str]) -> Iterator[tuple[dict[str, str], pa.Table]]:
    """The rows of each partition that has any, in the order of its values."""
    if not by:
        yield from [({}, data)] if data.num_rows else []
        return
    for key in data.group_by(by).aggregate([]).sort_by([(name, "ascending") for name in by]).to_pylist():
        if empty := [name for name, value in key.items() if not value]:
            raise ValueError(f"a partition column has no value: {', '.join(empty)}")
        mask = True
        for name, value in key.items():
            mask = pc.and_(pc.equal(data[name], value), mask)
        yield key, data.filter(mask)


def _groups(data: pa.Table) -> Iterator[pa.Table]:
    """The table cut in halves until each is small enough: rows differ in size by orders of magnitude."""
    if data.nbytes <= GROUP_BYTES or data.num_rows < 2:
        yield data
        return
    half = data.num_rows // 2
    yield from _groups(data.slice(0, half))
    yield from _groups(data.slice(half))


def _regroup(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in row groups of the usual size."""
    held: list[pa.Table] = []
    for data in tables:
        held.append(data)
        if sum(part.nbytes for part in held) >= GROUP_BYTES:
            yield from _groups(pa.concat_tables(held))
            held = []
    if held:
        yield from _groups(pa.concat_tables(held))


def _write(
    root: str, table: str, partition: dict[str, str], schema: pa.Schema, groups: Iterable[pa.Table], run_id: str
) -> Written:
    folder = "".join(f"{name}={quote(value, safe='')}/" for name, value in partition.items())
    path = f"{folder}{run_id}-{uuid4().hex}.parquet"
    rows = 0
    with new_file(_place(root, table).child(path)) as file:
        with pq.ParquetWriter(file, schema, compression="zstd", **_encodings(schema)) as writer:
            for group in groups:
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                rows += group.num_rows
        size = os.path.getsize(file)
    return Written(table, path, size, rows, partition)


def _encodings(schema: pa.Schema) -> dict[str, list[str]]:
    """Statistics and dictionaries where they help; vectors by byte planes (9% smaller than zstd alone, faster to read)."""
    flat = [f for f in schema if not pa.types.is_nested(f.type) and not pa.types.is_large_string(f.type)]
    repeated = [f.name for f in flat if f.type == pa.string() and f.name not in UNREPEATED]
    vectors = [f"{f.name}.list.element" for f in schema if f.type == pa.list_(pa.float32())]
    nested = ["heading_path.list.element", "metadata.key_value.key", "metadata.key_value.value"]
    return {
        "write_statistics": [f.name for f in flat],
        "use_dictionary": repeated + [name for name in nested if name.partition(".")[0] in schema.names],
        "use_byte_stream_split": vectors,
    }


def _partition(path: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: unquote(value) for name, _, value in pairs}


def _open(root: str, table: str, version: int | None = None) -> DeltaTable | None:
    place = _place(root, table)
    uri, options = delta_uri(place), storage_options(place)
    try:
        return DeltaTable(uri, version=version, storage_options=options)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        if place.bucket and "NoSuchBucket" in str(error):
            raise no_bucket(place) from error
        which = "" if version is None else f" at version {version}"
        raise RunError(f"{place} can't be opened{which}: {_plain(error)}") from error


def _dataset(root: str, table: str, version: int | None) -> ds.Dataset | None:
    opened = _open(root, table, version)
    if opened is None:
        return None
    system, path = filesystem(_place(root, table))
    return opened.to_pyarrow_dataset(filesystem=pafs.SubTreeFileSystem(path, system), schema=SCHEMAS[table])


@contextmanager
def _readable(root: str, table: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        why = "the files of an old version are deleted after the retention"
        raise Conflict(f"{_place(root, table)} can't be read: {error}; {why}") from error
    except OSError as error:
        raise RunError(f"{_place(root, table)} can't be read: {error}") from error


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
    return [RemoveAction(path, True, _now_ms(), active[path], dict(_partition(path))) for path in remove]


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


def _plain(error: Exception) -> str:
    """The message without terminal colours."""
    return COLOUR.sub("", str(error))
