"""What changed between two versions of a dataset's chunks, for bringing a vector store up to date."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import parquet, table
from chunkmill.io.schema import SCHEMAS

KEY = ["chunk_id", "text_hash", "recipe", "heading_path", "metadata"]
BETWEEN, WITHIN = "\x1e", "\x1f"  # Unicode's separators of records and of units


def changed(root: str, old: int, new: int, columns: Sequence[str] = ()) -> tuple[pa.Table, pa.Table]:
    """The chunks to put in (with these columns) and the ids to take out, to come from one version to another.

    A chunk whose id stayed but whose vector (a new model), headings or metadata are others is put in and not taken out. Reads
    only the files in which the versions differ. Raises ConfigError for a version there is not, RunError for one whose files
    are deleted.
    """
    before, after = (set(table.paths(root, "chunks", version)) for version in (_known(root, old), _known(root, new)))
    was = _rows(root, old, before - after, KEY)
    now = _rows(root, new, after - before, list(dict.fromkeys([*KEY, *columns])))
    fresh = now.filter(pc.invert(pc.is_in(_state(now), value_set=_state(was))))
    gone = was.filter(pc.invert(pc.is_in(was["chunk_id"], value_set=now["chunk_id"].combine_chunks())))
    return fresh.select(["chunk_id", *(c for c in columns if c != "chunk_id")]), gone.select(["chunk_id"])


def _known(root: str, version: int) -> int:
    newest = table.version(root, "chunks")
    if newest is None:
        raise table.absent(root)
    if not 0 <= version <= newest:
        raise ConfigError(f"{root} has no version {version}; it has 0 to {newest}; see `chunkmill runs {root}`")
    return version


def _rows(root: str, version: int, paths: set[str], columns: list[str]) -> pa.Table:
    empty = SCHEMAS["chunks"].empty_table().select(columns)
    try:
        return pa.concat_tables([empty, *(parquet.counted(root, "chunks", path, columns) for path in sorted(paths))])
    except parquet.Conflict as error:
        why = "its files were deleted after the retention (run: {retention: 7d} keeps them for a week)"
        raise RunError(f"version {version} of {root} can't be read any more: {why}") from error


def _state(rows: pa.Table) -> pa.Array:
    """Of each chunk all by which it is compared, in one string."""
    found = [_said(rows[name].combine_chunks()) for name in KEY]
    return pc.binary_join_element_wise(*found, BETWEEN, null_handling="replace")


def _said(values: pa.Array) -> pa.Array:
    """A column of strings, of lists of them or of maps, as strings."""
    if pa.types.is_map(values.type):
        keys, items = (pa.ListArray.from_arrays(values.offsets, part) for part in (values.keys, values.items))
        return pc.binary_join_element_wise(pc.binary_join(keys, WITHIN), pc.binary_join(items, WITHIN), BETWEEN)
    return pc.binary_join(values, WITHIN) if pa.types.is_list(values.type) else values
