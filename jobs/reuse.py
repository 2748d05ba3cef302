"""Vectors that the dataset holds already: of documents about to be replaced, where the same embedder read the same text.

Ray tasks read them; the embedding actors look them up in the object store, which all actors of a machine share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray

from chunkmill.chunkers.base import Vectors
from chunkmill.io import table
from chunkmill.io.storage import filesystem, locate

BUDGET_BYTES = 512 << 20  # of vectors in the object store
AHEAD = 16  # files looked at, at once
KEY = "S32"  # a text_hash, 32 hex digits

Keys = npt.NDArray[np.bytes_]


class Held(NamedTuple):
    """Sorted, distinct text_hashes and the vector of each."""

    keys: Keys
    vectors: Vectors


class Known:
    """Vectors by text_hash."""

    def __init__(self, parts: Sequence[Held]) -> None:
        self.parts = [part for part in parts if len(part.keys)]

    @classmethod
    def fetched(cls, refs: Sequence[Any]) -> Known:
        """Out of the object store, without a copy."""
        return cls([Held(*part) for part in ray.get(list(refs))]) if refs else cls(())

    def find(self, hashes: Sequence[str]) -> dict[str, Vectors]:
        """The vectors there are of these texts."""
        found: dict[str, Vectors] = {}
        if not self.parts or not hashes:
            return found
        wanted = np.array(hashes, KEY)
        for keys, vectors in self.parts:
            at = keys.searchsorted(wanted).clip(max=len(keys) - 1)
            for i in np.flatnonzero(keys[at] == wanted):
                found.setdefault(hashes[i], vectors[at[i]])
        return found


class Gathered(NamedTuple):
    """References to `Held` in the object store, and of how many files no vector was taken since there was no more room."""

    refs: list[Any]
    left_out: int


def gather(root: str, version: int | None, embedder: str, superseded: pa.Table, *, most_bytes: int = BUDGET_BYTES) -> Gathered:
    """The vectors of this embedder that documents have whose rows are about to go."""
    files = table.active(root, "chunks", version) if version is not None and len(superseded) else []
    if not files:
        return Gathered([], 0)
    doc_ids = ray.put(superseded["doc_id"].combine_chunks())
    task = ray.remote(num_cpus=1, num_returns=2)(held)
    refs: list[Any] = []
    total = 0
    for i in range(0, len(files), AHEAD):
        for size, ref in [task.remote(root, f.path, doc_ids, embedder) for f in files[i : i + AHEAD]]:
            if n := ray.get(size):
                total += n
                refs.append(ref)
        if total >= most_bytes:
            return Gathered(refs, len(files[i + AHEAD :]))
    return Gathered(refs, 0)


def held(root: str, path: str, doc_ids: pa.Array, embedder: str) -> tuple[int, Held]:
    """The vectors of one file, and their size in bytes."""
    system, name = filesystem(locate(root).child("chunks").child(path))
    found = []
    with pq.ParquetFile(name, filesystem=system, pre_buffer=True) as file:
        if "embedder" in file.schema_arrow.names:  # a dataset of before has none
            for i in range(file.num_row_groups):
                known = file.read_row_group(i, columns=["doc_id", "embedder"])
                mask = pc.and_(pc.is_in(known["doc_id"], value_set=doc_ids), pc.equal(known["embedder"], embedder))
                if pc.any(mask).as_py():
                    found.append(file.read_row_group(i, columns=["text_hash", "vector"]).filter(mask))
    return sorted_by_key(pa.concat_tables(found)) if found else (0, Held(np.empty(0, KEY), np.empty((0, 0), np.float32)))


def sorted_by_key(found: pa.Table) -> tuple[int, Held]:
    """Rows of text_hash and vector as `Held`."""
    found = found.filter(pc.is_valid(found["vector"]))
    keys, first = np.unique(np.array(found["text_hash"].to_pylist(), KEY), return_index=True)
    flat = found["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    vectors = flat.reshape(len(found), -1)[first] if len(found) else np.empty((0, 0), np.float32)
    return vectors.nbytes, Held(keys, np.ascontiguousarray(vectors, np.float32))
