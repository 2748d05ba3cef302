"""Documents whose text the ledger holds: under a new recipe they are cut again without being read or parsed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.base import Document
from chunkmill.io import parquet
from chunkmill.io.schema import blocks_of
from chunkmill.jobs.rows import OF_DOCUMENT, Row

STORED = [f.name for f in OF_DOCUMENT]
NOTES = "llm."  # what a strategy notes about a document begins so in its metadata
BY_LISTING = ("etag", "size", "modified")


def stored(sources: Sequence[Mapping[str, Any]], root: str) -> Iterator[Row]:
    """The documents of sources whose `ledger` names the file that holds them."""
    for path, group in groupby(sorted(sources, key=lambda s: str(s["ledger"])), key=lambda s: s["ledger"]):
        yield from _file(root, path, {s["uri"]: s for s in group})


def _file(root: str, path: str, sources: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    names = pa.array(list(sources))
    totals = Counter(parquet.body(root, "documents", path, ["source"])["source"].to_pylist())
    seen: Counter[str] = Counter()
    for group in parquet.groups(root, "documents", path, STORED):
        for values in group.filter(pc.is_in(group["source"], value_set=names)).to_pylist():
            source = values["source"]
            ordinal = seen[source]
            seen[source] += 1
            listed = {name: sources[source][name] for name in BY_LISTING}
            yield _row(values | listed | {"ordinal": ordinal, "last": ordinal + 1 == totals[source]})


def _row(values: dict[str, Any]) -> Row:
    blocks = blocks_of(values["blocks"] or ())
    metadata = {k: v for k, v in values["metadata"] or () if not k.startswith(NOTES)}  # of another recipe
    return Row(values, Document(values["doc_id"], values["uri"], values["text"] or "", blocks, metadata))
