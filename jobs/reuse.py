"""Vectors that the dataset holds already: of documents about to be replaced, where the same embedder read the same text.

Ray tasks make an index of them, some 16 bytes a chunk, that all actors of a machine share in the object store. The vectors
stay where they are: an actor reads the row groups in which it finds a text, and holds a few of them. So that it finds many
texts in each, sources are worked on in the order in which their old chunks lie in the files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import ray

from chunkmill.chunkers.base import Offsets, Vectors
from chunkmill.io import parquet, table
from chunkmill.io.parquet import Written

PART_ROWS = 1 << 20  # of the files that one task looks at
HELD_BYTES = 64 << 20  # of row groups that an actor holds
PLACES = pa.schema([("source", pa.string()), ("place", pa.int64())])
# Of a chunk: the row group it is in, the row in that, and the row in all files that are looked at.
WHERE = pa.schema(
    [("doc_id", pa.string()), ("text_hash", pa.string()), ("group", pa.int64()), ("row", pa.int64()), ("place", pa.int64())]
)

Keys = npt.NDArray[np.uint64]


class Part(NamedTuple):
    """Which texts some files hold a vector of. `keys`: sorted, the first halves of their hashes, uint64 (n,); `at`: of each the
    row group (its number in `groups`, where its file and its number there are) and the row in it, int32 (n, 2).
    """

    groups: list[tuple[str, int]]
    keys: Keys
    at: npt.NDArray[np.int32]


class Gathered(NamedTuple):
    """References to `Part`s in the object store; and the sources whose documents are replaced, with the place of the first of
    their chunks among all in the files (schema PLACES).
    """

    refs: list[Any]
    places: pa.Table


def gather(root: str, version: int | None, embedder: str, superseded: pa.Table) -> Gathered:
    """Where the vectors of this embedder are that documents have whose rows are about to go."""
    files = table.active(root, "chunks", version) if version is not None and len(superseded) else []
    doc_ids = ray.put(superseded["doc_id"].combine_chunks()) if files else None
    task: Any = ray.remote(num_cpus=1, num_returns=2)(indexed)
    asked = [task.remote(root, [f.path for f in several], doc_ids, embedder) for several in bundles(files)]
    documents, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    refs, before = [], 0
    for first, ref in asked:
        seen, rows, total = ray.get(first)
        documents.append(seen)
        places.append(rows + before)
        refs += [ref] * bool(len(seen))
        before += total
    sources = superseded["source"].take(pa.array(np.concatenate(documents)))
    found = pa.table([sources, np.concatenate(places)], schema=PLACES).group_by("source").aggregate([("place", "min")])
    return Gathered(refs, found.select(["source", "place_min"]).rename_columns(PLACES.names))


def bundles(files: Sequence[Written]) -> Iterator[list[Written]]:
    """The files in lists of about PART_ROWS rows."""
    held: list[Written] = []
    for file in files:
        if held and sum(f.rows for f in held) + file.rows > PART_ROWS:
            yield held
            held = []
        held.append(file)
    if held:
        yield held


def indexed(root: str, paths: Sequence[str], doc_ids: pa.Array, embedder: str) -> tuple[tuple[Offsets, Offsets, int], Part]:
    """The vectors in these files that this embedder made for these documents.

    And which of the documents have any, with the row of the first in all of the files, and how many rows those have.
    """
    found, groups, before = [WHERE.empty_table()], list[tuple[str, int]](), 0
    for path in paths:
        for number, rows in enumerate(parquet.groups(root, "chunks", path, ["doc_id", "text_hash", "embedder"])):
            good = np.flatnonzero(pc.fill_null(pc.equal(rows["embedder"], embedder), False))
            columns = [rows[name].take(pa.array(good)) for name in ("doc_id", "text_hash")]
            found.append(pa.table([*columns, np.full(len(good), len(groups)), good, before + good], schema=WHERE))
            groups.append((path, number))
            before += len(rows)
    known = pa.concat_tables(found)
    owner = pc.index_in(known["doc_id"], value_set=doc_ids)
    mine = known.filter(pc.is_valid(owner))
    documents, first = np.unique(owner.drop_null().to_numpy(), return_index=True)
    seen = documents.astype(np.int64), mine["place"].to_numpy()[first], before
    return seen, _sorted(mine, groups)


def _sorted(rows: pa.Table, groups: list[tuple[str, int]]) -> Part:
    """The rows (schema WHERE) as a part; one is enough of a text that a row group has often."""
    keys, group, row = keys_of(rows["text_hash"].to_pylist()), rows["group"].to_numpy(), rows["row"].to_numpy()
    order = np.lexsort([group, keys])
    new = np.diff(group[order], prepend=-1).astype(bool) | np.diff(keys[order], prepend=keys[order][:1]).astype(bool)
    order = order[new]
    return Part(groups, keys[order], np.stack([group[order], row[order]], axis=1).astype(np.int32))


def keys_of(hashes: Sequence[str]) -> Keys:
    """The first halves of hashes of 32 hex digits as numbers."""
    halves = bytes.fromhex("".join([h[:16] for h in hashes]))
    return np.frombuffer(halves, ">u8").astype(np.uint64)


class Known:
    """Vectors by text_hash, read from the dataset's files as they are asked for."""

    def __init__(self, root: str, parts: Sequence[Part]) -> None:
        self.root, self.parts, self.most_bytes = root, parts, HELD_BYTES
        self.held: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()

    @classmethod
    def fetched(cls, root: str, refs: Sequence[Any]) -> Known:
        """Out of the object store, without a copy."""
        return cls(root, ray.get(list(refs)) if refs else ())

    def find(self, hashes: Sequence[str]) -> dict[str, Vectors]:
        """The vectors there are of these texts, which all differ."""
        found: dict[str, Vectors] = {}
        if not self.parts:
            return found
        names = np.array(hashes, object)
        where = self._where(keys_of(hashes))
        # A text may be in many row groups: those at hand come first, then those in which most of the texts are.
        for group in sorted(where, key=lambda group: (group not in self.held, -len(where[group][0]))):
            texts, rows = where[group]
            if (left := np.array([names[i] not in found for i in texts])).any():
                found |= self._read(group, names[texts[left]], rows[left])
        return found

    def _where(self, wanted: Keys) -> dict[tuple[str, int], tuple[Offsets, Offsets]]:
        """Of each row group that may hold some of the texts: which, and in which row."""
        order = wanted.argsort()  # a search in order is several times as fast
        where = {}
        for groups, keys, at in self.parts:
            low, high = (keys.searchsorted(wanted[order], side) for side in ("left", "right"))
            counts = high - low
            texts = np.repeat(order, counts)
            places = at[np.arange(counts.sum()) + np.repeat(low - np.cumsum(counts) + counts, counts)]
            for number in np.unique(places[:, 0]):
                inside = places[:, 0] == number
                where[groups[number]] = texts[inside], places[inside, 1].astype(np.int64)
        return where

    def _read(self, group: tuple[str, int], names: npt.NDArray[np.object_], rows: Offsets) -> dict[str, Vectors]:
        """The vectors in these rows of a row group; of a row whose text only seemed to be the one of this name none."""
        held = self._held(group)
        same = np.flatnonzero(np.array(held["text_hash"].take(pa.array(rows)).to_pylist(), object) == names)
        vectors = held["vector"].take(pa.array(rows[same])).combine_chunks()
        flat = vectors.flatten().to_numpy(zero_copy_only=False)
        return dict(zip(names[same].tolist(), flat.reshape(len(same), -1), strict=True)) if len(same) else {}

    def _held(self, group: tuple[str, int]) -> pa.Table:
        if group not in self.held:
            path, number = group
            (self.held[group],) = parquet.groups(self.root, "chunks", path, ["text_hash", "vector"], only=[number])
        self.held.move_to_end(group)
        while len(self.held) > 1 and sum(part.nbytes for part in self.held.values()) > self.most_bytes:
            self.held.popitem(last=False)
        return self.held[group]
