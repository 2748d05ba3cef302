"""The Parquet files of a dataset's tables. They are written under names nobody else uses, and mean nothing until `table.commit`
names them. A path is relative to the table's folder and raw, as on disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from chunkmill.chunkers.errors import RunError
from chunkmill.io.schema import PARTITIONS, SCHEMAS
from chunkmill.io.storage import Place, answered, filesystem, locate, new_file, passed_on

GROUP_BYTES = 32 << 20  # of Arrow data in a row group: what a reader must hold at once


UNREPEATED = {"chunk_id", "text_hash"}  # a dictionary of values that never repeat only costs


class Conflict(RunError):  # noqa: N818  # an outcome to go on from, not a mistake
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


def exist(root: str, files: Iterable[Written]) -> bool:
    """Whether all of these files are there, whole, whether they count or not."""
    for file in files:
        system, name = filesystem(folder(root, file.table).child(file.path))
        with answered(folder(root, file.table)):
            if system.get_file_info(name).size != file.size:
                return False
    return True


def body(
    root: str, table: str, path: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
) -> pa.Table:
    """Rows of one file, whether it counts or not, without its partition columns."""
    system, name = filesystem(folder(root, table).child(path))
    with readable(root, table), pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
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
    system, name = filesystem(folder(root, table).child(path))
    with readable(root, table), pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
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
        return Rewrite(path, _write(root, table, partition(path), schema, groups, run_id), dropped)


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
    system, name = filesystem(folder(root, table).child(path))
    with readable(root, table), pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
        held = [c for c in columns if c in file.schema_arrow.names]
        for i in range(file.num_row_groups) if only is None else only:
            yield _filled(file.read_row_group(i, columns=held), table, columns)


def counted(root: str, table: str, path: str, columns: Sequence[str]) -> pa.Table:
    """Columns of one file, its partition's among them."""
    found = body(root, table, path, [c for c in columns if c not in PARTITIONS[table]])
    for name, value in partition(path).items():
        if name in columns:
            found = found.append_column(SCHEMAS[table].field(name), pa.array([value] * len(found), pa.string()))
    return found.select(list(columns)).cast(pa.schema([SCHEMAS[table].field(c) for c in columns]))


def folder(root: str, table: str) -> Place:
    """Where a table is."""
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
    inside = "".join(f"{name}={quote(value, safe='')}/" for name, value in partition.items())
    path = f"{inside}{run_id}-{uuid4().hex}.parquet"
    rows = 0
    with new_file(folder(root, table).child(path)) as file:
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


def partition(path: str) -> dict[str, str]:
    """The values of the partition columns, which a file's path says."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: unquote(value) for name, _, value in pairs}


@contextmanager
def readable(root: str, table: str) -> Iterator[None]:
    """What goes wrong with a file of a table as a Conflict where it is gone, else as a RunError."""
    try:
        yield
    except FileNotFoundError as error:
        why = "the files of an old version are deleted after the retention"
        raise Conflict(f"{folder(root, table)} can't be read: {error}; {why}") from error
    except OSError as error:
        raise passed_on(error, folder(root, table), "can't be read") from error
