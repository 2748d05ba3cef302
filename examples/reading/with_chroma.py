"""Fill a Chroma collection and keep it up to date by `diff`: python with_chroma.py DATASET FOLDER"""

import sys

import chromadb
import pyarrow as pa
from deltalake import DeltaTable

from chunkmill.io.diff import changed

COLUMNS = ["chunk_id", "uri", "text", "vector"]
BATCH = 1_000


def fill(collection: chromadb.Collection, dataset: str) -> int:
    """All chunks; the version it is at, for `update`. Make the collection with `embedding_function=None`."""
    table = DeltaTable(f"{dataset}/chunks")
    _put(collection, table.to_pyarrow_table(columns=COLUMNS))
    return table.version()


def update(collection: chromadb.Collection, dataset: str, old: int) -> int:
    """What changed since version `old`, and nothing else; the version it is at now."""
    new = DeltaTable(f"{dataset}/chunks").version()
    added, removed = changed(dataset, old, new, COLUMNS)
    if len(removed):
        collection.delete(removed["chunk_id"].to_pylist())
    _put(collection, added)
    return new


def _put(collection: chromadb.Collection, rows: pa.Table) -> None:
    for batch in rows.to_batches(max_chunksize=BATCH):
        ids, uris, texts, vectors = (batch[name].to_pylist() for name in COLUMNS)
        collection.upsert(ids, vectors, [{"uri": uri} for uri in uris], texts)


if __name__ == "__main__":
    client = chromadb.PersistentClient(sys.argv[2])
    print("at version", fill(client.get_or_create_collection("chunks", embedding_function=None), sys.argv[1]))
