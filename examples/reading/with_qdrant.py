"""Fill a Qdrant collection and keep it up to date by `diff`: python with_qdrant.py DATASET COLLECTION_FOLDER"""

import sys
import uuid

import pyarrow as pa
from deltalake import DeltaTable
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointIdsList, PointStruct, VectorParams

from chunkmill.io.diff import changed

COLUMNS = ["chunk_id", "uri", "heading_path", "text", "vector"]
BATCH = 256


def fill(client: QdrantClient, name: str, dataset: str) -> int:
    """A new collection with all chunks; the version it is at, for `update`."""
    table = DeltaTable(f"{dataset}/chunks")
    rows = table.to_pyarrow_table(columns=COLUMNS)
    client.create_collection(name, vectors_config=VectorParams(size=len(rows["vector"][0]), distance=Distance.COSINE))
    _put(client, name, rows)
    return table.version()


def update(client: QdrantClient, name: str, dataset: str, old: int) -> int:
    """What changed since version `old`, and nothing else; the version it is at now."""
    new = DeltaTable(f"{dataset}/chunks").version()
    added, removed = changed(dataset, old, new, COLUMNS)
    _put(client, name, added)
    if len(removed):
        client.delete(name, PointIdsList(points=[_id(key) for key in removed["chunk_id"].to_pylist()]))
    return new


def _put(client: QdrantClient, name: str, rows: pa.Table) -> None:
    for batch in rows.to_batches(max_chunksize=BATCH):
        points = [PointStruct(id=_id(row["chunk_id"]), vector=row.pop("vector"), payload=row) for row in batch.to_pylist()]
        client.upsert(name, points)


def _id(chunk_id: str) -> str:
    return str(uuid.UUID(chunk_id))  # a chunk_id is as long as a UUID


if __name__ == "__main__":
    store = QdrantClient(path=sys.argv[2])
    print("at version", fill(store, "chunks", sys.argv[1]))
    store.close()
