"""Fill a LanceDB table and keep it up to date by `diff`: python with_lancedb.py DATASET FOLDER"""

import sys

import lancedb
import pyarrow as pa
from deltalake import DeltaTable

from chunkmill.io.diff import changed

COLUMNS = ["chunk_id", "uri", "heading_path", "text", "vector"]


def fill(db: lancedb.DBConnection, dataset: str) -> int:
    """A new table with all chunks; the version it is at, for `update`."""
    table = DeltaTable(f"{dataset}/chunks")
    db.create_table("chunks", _fixed(table.to_pyarrow_table(columns=COLUMNS)))
    return table.version()


def update(db: lancedb.DBConnection, dataset: str, old: int) -> int:
    """What changed since version `old`, and nothing else; the version it is at now."""
    table, new = db.open_table("chunks"), DeltaTable(f"{dataset}/chunks").version()
    added, removed = changed(dataset, old, new, COLUMNS)
    if len(removed):
        table.delete(f"chunk_id IN ({', '.join(repr(key) for key in removed['chunk_id'].to_pylist())})")
    if len(added):
        table.merge_insert("chunk_id").when_matched_update_all().when_not_matched_insert_all().execute(_fixed(added))
    return new


def _fixed(rows: pa.Table) -> pa.Table:
    """The vectors in the type that Lance wants: lists of one length."""
    vectors = rows["vector"].combine_chunks()
    dim = len(vectors[0])
    return rows.set_column(
        rows.column_names.index("vector"), "vector", pa.FixedSizeListArray.from_arrays(vectors.flatten(), dim)
    )


if __name__ == "__main__":
    print("at version", fill(lancedb.connect(sys.argv[2]), sys.argv[1]))
