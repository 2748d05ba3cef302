"""A document as one Arrow row between the stages: what is known of it so far, with its chunks nested in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from chunkmill.chunkers.base import Document, Vectors
from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.finish import Chunk, digest
from chunkmill.chunkers.seams import VISIBLE
from chunkmill.chunkers.structure import BREAK
from chunkmill.io.schema import CHUNKS, DOCUMENTS, block_rows, blocks_of

OF_CHUNK = [f for f in CHUNKS if f.name in {*Chunk._fields, "chunk_id"} - {"doc_id"}]
OF_DOCUMENT = [f for f in DOCUMENTS if f.name not in ("n_chunks", "n_tokens", "recipe", "run_id")]
CHUNK = pa.struct([*OF_CHUNK, pa.field("vector", pa.list_(pa.float32()))])
ROW = pa.schema([*OF_DOCUMENT, pa.field("chunks", pa.large_list(CHUNK))])


class Row(NamedTuple):
    """A document on its way; `document` is None where `error` says why."""

    values: Mapping[str, Any]
    document: Document | None = None
    error: DocumentError | None = None


def table(rows: Sequence[Row], chunks: Sequence[Sequence[Chunk] | DocumentError] | None) -> pa.Table:
    """Rows as a table of schema ROW; `chunks` None: they are not cut yet."""
    cut = chunks if chunks is not None else [()] * len(rows)
    columns = [_values(row, outcome) for row, outcome in zip(rows, cut, strict=True)]
    lists = nested([c if not isinstance(c, DocumentError) else () for c in cut])
    arrays = [pa.array([v[f.name] for v in columns], f.type) for f in OF_DOCUMENT]
    return pa.Table.from_arrays([*arrays, lists], schema=ROW)


def _values(row: Row, outcome: Sequence[Chunk] | DocumentError) -> dict[str, Any]:
    doc = row.document
    error = row.error or (outcome if isinstance(outcome, DocumentError) else None)
    status = "failed" if error else "ok" if doc and VISIBLE.search(doc.text) else "empty"
    return {
        **row.values,
        "status": status,
        "error_kind": error.kind if error else None,
        "error": error.message if error else None,
        "text": doc.text if doc else None,
        "blocks": block_rows(doc.blocks) if doc else None,
        "metadata": list(doc.metadata.items()) if doc else None,
    }


def nested(chunks: Sequence[Sequence[Chunk]]) -> pa.LargeListArray:
    """Chunks of several documents as one list column, without vectors."""
    flat = [c for of_document in chunks for c in of_document]
    ends = np.cumsum([0, *(len(c) for c in chunks)])
    names = ["id" if f.name == "chunk_id" else f.name for f in OF_CHUNK]
    arrays = [pa.array([getattr(c, name) for c in flat], f.type) for name, f in zip(names, OF_CHUNK, strict=True)]
    vectors = pa.nulls(len(flat), pa.list_(pa.float32()))
    return pa.LargeListArray.from_arrays(ends, pa.StructArray.from_arrays([*arrays, vectors], fields=list(CHUNK)))


def documents(rows: pa.Table) -> list[Document]:
    """The documents of a table of rows; one that failed or is empty has an empty text."""
    columns = [rows[name].to_pylist() for name in ("doc_id", "uri", "text", "blocks", "metadata")]
    return [
        Document(doc_id, uri, text or "", blocks_of(blocks or ()), dict(metadata or ()))
        for doc_id, uri, text, blocks, metadata in zip(*columns, strict=True)
    ]


def recut(rows: pa.Table, chunks: Sequence[Sequence[Chunk] | DocumentError]) -> pa.Table:
    """The rows with these chunks; a document that could not be cut becomes a failed one."""
    errors = [c if isinstance(c, DocumentError) else None for c in chunks]
    columns = {
        "status": ["failed" if e else s for e, s in zip(errors, rows["status"].to_pylist(), strict=True)],
        "error_kind": [e.kind if e else k for e, k in zip(errors, rows["error_kind"].to_pylist(), strict=True)],
        "error": [e.message if e else m for e, m in zip(errors, rows["error"].to_pylist(), strict=True)],
    }
    for name, values in columns.items():
        rows = rows.set_column(ROW.get_field_index(name), ROW.field(name), pa.array(values, pa.string()))
    lists = nested([c if not isinstance(c, DocumentError) else () for c in chunks])
    return rows.set_column(ROW.get_field_index("chunks"), ROW.field("chunks"), lists)


def embedded_texts(rows: pa.Table) -> list[str]:
    """What the model reads, for every chunk of the rows in order."""
    flat = _flat(rows)
    pairs = zip(flat.field("context").to_pylist(), flat.field("text").to_pylist(), strict=True)
    return [f"{context}{BREAK}{text}" if context else text for context, text in pairs]


def with_vectors(rows: pa.Table, vectors: Vectors) -> pa.Table:
    """The rows with vector i on chunk i: float32 (chunks, dim)."""
    column = rows["chunks"].combine_chunks()
    flat = _flat(rows)
    dim = vectors.shape[1] if len(vectors) else 0
    ends = pa.array(np.arange(len(vectors) + 1) * dim, pa.int32())
    lists = pa.ListArray.from_arrays(ends, pa.array(vectors.ravel()))
    struct = pa.StructArray.from_arrays([*flat.flatten()[:-1], lists], fields=list(CHUNK))
    offsets = np.asarray(column.offsets)
    column = pa.LargeListArray.from_arrays(offsets - offsets[0], struct)
    return rows.set_column(ROW.get_field_index("chunks"), ROW.field("chunks"), column)


def _flat(rows: pa.Table) -> pa.StructArray:
    return rows["chunks"].combine_chunks().flatten()


def chunk_table(rows: pa.Table, recipe: str, run_id: str) -> pa.Table:
    """The chunks of the rows as a table of schema CHUNKS."""
    column = rows["chunks"].combine_chunks()
    owner = column.value_parent_indices()
    flat = column.flatten()
    known = dict(zip([f.name for f in CHUNK], flat.flatten(), strict=True))
    known |= {name: rows[name].combine_chunks().take(owner) for name in ("doc_id", "uri", "metadata", "format")}
    pairs = zip(known["context"].to_pylist(), known["text"].to_pylist(), strict=True)
    known["text_hash"] = pa.array([digest(context, text) for context, text in pairs], pa.string())
    known |= {"recipe": _same(recipe, len(flat)), "run_id": _same(run_id, len(flat))}
    return pa.table([known[f.name] for f in CHUNKS], schema=CHUNKS)


def document_table(rows: pa.Table, recipe: str, run_id: str, *, keep_text: bool) -> pa.Table:
    """The rows as a table of schema DOCUMENTS."""
    column = rows["chunks"].combine_chunks()
    sizes = np.asarray(column.flatten().field("n_tokens"), np.int64)
    offsets = np.asarray(column.offsets) - np.asarray(column.offsets)[0]
    totals = np.concatenate([[0], np.cumsum(sizes)])
    known = {name: rows[name] for name in rows.column_names}
    known["n_chunks"] = pa.array(np.diff(offsets))
    known["n_tokens"] = pa.array(totals[offsets[1:]] - totals[offsets[:-1]])
    if not keep_text:
        known |= {name: pa.nulls(len(rows), DOCUMENTS.field(name).type) for name in ("text", "blocks")}
    known |= {"recipe": _same(recipe, len(rows)), "run_id": _same(run_id, len(rows))}
    return pa.table([known[f.name] for f in DOCUMENTS], schema=DOCUMENTS)


def _same(value: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), n)
