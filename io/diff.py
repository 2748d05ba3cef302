"""What changed between two versions of a dataset's chunks, for bringing a vector store up to date."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.errors import ConfigError
from chunkmill.io import parquet, table
from chunkmill.io.schema import SCHEMAS

KEY = ["chunk_id", "text_hash", "recipe"]


def changed(root: str, old: int, new: int, columns: Sequence[str] = ()) -> tuple[pa.Table, pa.Table]:
    """The chunks to put in (with these columns) and the ids to take out, to come from one version to another.

    A chunk whose id stayed but whose vector is another's (a new model) is put in and not taken out. Reads only the files in
    which the versions differ. Raises ConfigError for a version there is not.
    """
    before, after = (set(table.paths(root, "chunks", version)) for version in (_known(root, old), _known(root, new)))
    was = _rows(root, before - after, KEY)
    now = _rows(root, after - before, list(dict.fromkeys([*KEY, *columns])))
    keys = [f for f in KEY if f != "chunk_id"]
    fresh = now.filter(pc.invert(pc.is_in(_joined(now, keys), value_set=_joined(was, keys).combine_chunks())))
    gone = was.filter(pc.invert(pc.is_in(was["chunk_id"], value_set=now["chunk_id"].combine_chunks())))
    return fresh.select(["chunk_id", *(c for c in columns if c != "chunk_id")]), gone.select(["chunk_id"])


def _known(root: str, version: int) -> int:
    newest = table.version(root, "chunks")
    if newest is None:
        raise table.absent(root)
    if not 0 <= version <= newest:
        raise ConfigError(f"{root} has no version {version}; it has 0 to {newest}; see `chunkmill runs {root}`")
    return version


def _rows(root: str, paths: set[str], columns: list[str]) -> pa.Table:
    empty = SCHEMAS["chunks"].empty_table().select(columns)
    return pa.concat_tables([empty, *(parquet.counted(root, "chunks", path, columns) for path in sorted(paths))])


def _joined(rows: pa.Table, keys: Sequence[str]) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(rows["chunk_id"], *(rows[k] for k in keys), "/")
