"""A document as one Arrow row between the stages: what is known of it so far, with its chunks nested in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.base import Document, Offsets, Span, Vectors
from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.finish import Chunk, digest
from chunkmill.chunkers.places import forms
from chunkmill.chunkers.places import lines as lines_of
from chunkmill.chunkers.places import rows as rows_of
from chunkmill.chunkers.seams import VISIBLE
from chunkmill.chunkers.structure import BREAK
from chunkmill.io.parsers import Image
from chunkmill.io.runs import PartRow
from chunkmill.io.schema import CHUNKS, DOCUMENTS, IMAGES, block_rows, blocks_of
from chunkmill.jobs.tokens import Encoder
from chunkmill.jobs.windows import Ids, Reading, lists, spans

OF_CHUNK = [f for f in CHUNKS if f.name in {*Chunk._fields, "chunk_id"} - {"doc_id"}]
OF_PLACE = [f for f in CHUNKS if f.name in {"row_start", "row_end", "line_start", "line_end", "forms"}]
OF_DOCUMENT = [f for f in DOCUMENTS if f.name not in ("n_chunks", "n_tokens", "recipe", "run_id")]
# `ids`: what the model will read, without its special tokens; `origin`: where the vector comes from. Neither is written.
OF_VECTOR = [
    pa.field("text_hash", pa.string()),
    pa.field("ids", pa.list_(pa.int32())),
    pa.field("origin", pa.string()),
    pa.field("overflow", pa.string()),
    pa.field("vector", pa.list_(pa.float32())),
]
CHUNK = pa.struct([*OF_CHUNK, *OF_PLACE, *OF_VECTOR])
OF_IMAGE = [f for f in IMAGES if f.name in {*Image._fields, "start", "end"} - {"span"}]
IMAGE = pa.struct(OF_IMAGE)
# `ordinal`: which document of its source it is, from 0; `last`: no more follow
# `part`: of a row that is a part of a document, which; `whole`: of the row of a document that came in parts, what they hold
WHOLE = pa.struct([pa.field("parts", pa.int64()), pa.field("chunks", pa.int64()), pa.field("tokens", pa.int64())])
# `read`: how many bytes of its source are behind it, 0 where nothing tells; `seconds`: that its parser took
PLACE = [
    pa.field("ordinal", pa.int64()),
    pa.field("last", pa.bool_()),
    pa.field("read", pa.int64()),
    pa.field("seconds", pa.float64()),
    pa.field("part", pa.int64()),
    pa.field("whole", WHOLE),
]
# Of a document that the model reads whole: its ids, and the offset of the first character of each. Not written.
TOKENS = pa.struct([pa.field("id", pa.int32()), pa.field("at", pa.int64())])
MORE = [
    pa.field("images", pa.list_(IMAGE)),
    pa.field("tokens", pa.large_list(TOKENS)),
    pa.field("chunks", pa.large_list(CHUNK)),
]
ROW = pa.schema([*OF_DOCUMENT, *PLACE, *MORE])


KILLED = ("timeout", "crashed")  # kinds of failure of a document that ended the process it was in
TOUCHED, KEPT, LEFT, PART = "touched", "kept", "left", "part"  # statuses that are never written


class Whole(NamedTuple):
    """Of a document that came in parts: how many, and what they hold together."""

    parts: int
    chunks: int
    tokens: int


class Row(NamedTuple):
    """A document on its way; `document` is None where `error` says why, or where the row stands for a source of which nothing
    is written: one that was only TOUCHED (its content is what it was), or is KEPT (it can't be read now, but was before).
    """

    values: Mapping[str, Any]
    document: Document | None = None
    error: DocumentError | None = None
    images: Sequence[Image] = ()
    status: str = ""
    part: int | None = None  # then the row is a PART of the document, and `document` that part
    whole: Whole | None = None


def table(
    rows: Sequence[Row], chunks: Sequence[Sequence[Chunk] | DocumentError] | None, *, with_forms: bool = False
) -> pa.Table:
    """Rows as a table of schema ROW; `chunks` None: they are not cut yet. `with_forms`: tables in their other forms too."""
    cut = chunks if chunks is not None else [()] * len(rows)
    columns = [_values(row, outcome) for row, outcome in zip(rows, cut, strict=True)]
    docs = [row.document or Document("", "", "") for row in rows]
    lists = nested([c if not isinstance(c, DocumentError) else () for c in cut], docs, with_forms=with_forms)
    arrays = [pa.array([v[f.name] for v in columns], f.type) for f in (*OF_DOCUMENT, *PLACE)]
    images = pa.array([list(map(_image, row.images)) for row in rows], pa.list_(IMAGE))
    tokens = pa.nulls(len(rows), ROW.field("tokens").type)
    return pa.Table.from_arrays([*arrays, images, tokens, lists], schema=ROW)


def _image(image: Image) -> dict[str, Any]:
    known = image._asdict() | {"start": image.span.start, "end": image.span.end}
    return {f.name: known[f.name] for f in OF_IMAGE}


def _values(row: Row, outcome: Sequence[Chunk] | DocumentError) -> dict[str, Any]:
    doc = row.document
    error = row.error or (outcome if isinstance(outcome, DocumentError) else None)
    status = row.status or ("failed" if error else "ok" if doc and VISIBLE.search(doc.text) else "empty")
    return {
        "seconds": 0.0,
        "read": 0,
        **row.values,
        "part": row.part,
        "whole": row.whole and row.whole._asdict(),
        "status": status,
        "error_kind": error.kind if error else None,
        "error": error.message if error else None,
        "text": doc.text if doc else None,
        "blocks": block_rows(doc.blocks) if doc and row.status != PART else None,
        "metadata": list(doc.metadata.items()) if doc else list(error.metadata.items()) if error else None,
    }


def nested(chunks: Sequence[Sequence[Chunk]], docs: Sequence[Document], *, with_forms: bool = False) -> pa.LargeListArray:
    """Chunks of several documents as one list column, without vectors."""
    flat = [c for of_document in chunks for c in of_document]
    ends = np.cumsum([0, *(len(c) for c in chunks)])
    arrays = [pa.array([_of_chunk(c, f.name) for c in flat], f.type) for f in OF_CHUNK]
    hashes = pa.array([digest(c.context, c.text) for c in flat], pa.string())
    unknown = [pa.nulls(len(flat), f.type) for f in OF_VECTOR[1:]]
    columns = [*arrays, *_places(chunks, docs, with_forms), hashes, *unknown]
    return pa.LargeListArray.from_arrays(ends, pa.StructArray.from_arrays(columns, fields=list(CHUNK)))


def _of_chunk(chunk: Chunk, name: str) -> Any:
    if name == "spans":
        return [span._asdict() for span in chunk.spans] or None
    return getattr(chunk, "id" if name == "chunk_id" else name)


def _places(chunks: Sequence[Sequence[Chunk]], docs: Sequence[Document], with_forms: bool) -> list[pa.Array]:
    """Rows of tables, lines of code, and forms of tables, for every chunk in order (OF_PLACE)."""
    found: list[tuple[Any, ...]] = []
    for of_document, doc in zip(chunks, docs, strict=True):
        stretches = [Span(c.start, c.end) for c in of_document]
        tables = [
            forms(doc, s) if with_forms and c.kind == "table" else None for c, s in zip(of_document, stretches, strict=True)
        ]
        for rows, lines, form in zip(rows_of(doc, stretches), lines_of(doc, stretches), tables, strict=True):
            found.append((*rows, *lines, list(form._asdict().items()) if form else None))
    return [pa.array([values[i] for values in found], f.type) for i, f in enumerate(OF_PLACE)]


def documents(rows: pa.Table) -> list[Document]:
    """The documents of a table of rows; one that failed or is empty has an empty text."""
    columns = [rows[name].to_pylist() for name in ("doc_id", "uri", "text", "blocks", "metadata")]
    return [
        Document(doc_id, uri, text or "", blocks_of(blocks or ()), dict(metadata or ()))
        for doc_id, uri, text, blocks, metadata in zip(*columns, strict=True)
    ]


def recut(rows: pa.Table, chunks: Sequence[Sequence[Chunk] | DocumentError], *, with_forms: bool = False) -> pa.Table:
    """The rows with these chunks; a document that could not be cut becomes a failed one."""
    errors = [c if isinstance(c, DocumentError) else None for c in chunks]
    columns = {
        "status": ["failed" if e else s for e, s in zip(errors, rows["status"].to_pylist(), strict=True)],
        "error_kind": [e.kind if e else k for e, k in zip(errors, rows["error_kind"].to_pylist(), strict=True)],
        "error": [e.message if e else m for e, m in zip(errors, rows["error"].to_pylist(), strict=True)],
    }
    for name, values in columns.items():
        rows = rows.set_column(ROW.get_field_index(name), ROW.field(name), pa.array(values, pa.string()))
    cut = [c if not isinstance(c, DocumentError) else () for c in chunks]
    docs = documents(rows) if any(cut) else [Document("", "", "")] * len(cut)
    lists = nested(cut, docs, with_forms=with_forms)
    return rows.set_column(ROW.get_field_index("chunks"), ROW.field("chunks"), lists)


def with_notes(rows: pa.Table, notes: Sequence[Mapping[str, str]]) -> pa.Table:
    """The rows with more in their documents' metadata."""
    if not any(notes):
        return rows
    known = zip(rows["metadata"].to_pylist(), notes, strict=True)
    merged = [list((dict(old or ()) | new).items()) if new else old for old, new in known]
    field = ROW.field("metadata")
    return rows.set_column(ROW.get_field_index("metadata"), field, pa.array(merged, field.type))


def with_status(rows: pa.Table, status: str, which: Sequence[bool]) -> pa.Table:
    """The rows, of which these have another status."""
    known = zip(rows["status"].to_pylist(), which, strict=True)
    statuses = pa.array([status if change else old for old, change in known], pa.string())
    return rows.set_column(ROW.get_field_index("status"), ROW.field("status"), statuses)


def with_seconds(rows: pa.Table, took: Mapping[str, float]) -> pa.Table:
    """The rows, of which these (by their URI) took so long."""
    if not took:
        return rows
    known = zip(rows["uri"].to_pylist(), rows["seconds"].to_pylist(), strict=True)
    seconds = pa.array([took.get(uri, own) for uri, own in known], pa.float64())
    return rows.set_column(ROW.get_field_index("seconds"), ROW.field("seconds"), seconds)


def embedded_texts(rows: pa.Table) -> list[str]:
    """What the model reads, for every chunk of the rows in order."""
    flat = _flat(rows)
    pairs = zip(flat.field("context").to_pylist(), flat.field("text").to_pylist(), strict=True)
    return [f"{context}{BREAK}{text}" if context else text for context, text in pairs]


def sizes(rows: pa.Table) -> Offsets:
    """`n_tokens` of every chunk in order."""
    found: Offsets = np.asarray(_flat(rows).field("n_tokens"), np.int64)
    return found


def hashes(rows: pa.Table) -> list[str]:
    """Of every chunk in order the hash of what the model reads."""
    return _flat(rows).field("text_hash").to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types


def with_ids(rows: pa.Table, encoder: Encoder | None, *, late: bool) -> pa.Table:
    """The rows with what the model will read as ids: of every chunk, or (`late`) of every document that has chunks."""
    if encoder is None:
        return rows
    if not late:
        return _changed(rows, ids=_list_array(*lists(encoder.ids(embedded_texts(rows))), CHUNK.field("ids").type))
    lengths = pc.list_value_length(rows["chunks"]).to_pylist()
    texts = [text if n else "" for text, n in zip(rows["text"].to_pylist(), lengths, strict=True)]
    located = [encoder.located(text) if text else (np.empty(0, np.int32), np.empty(0, np.int64)) for text in texts]
    ends = np.cumsum([0, *(len(ids) for ids, _ in located)])
    columns = [np.concatenate([part[i] for part in located]) if located else np.empty(0) for i in (0, 1)]
    fields = list(TOKENS)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, fields, strict=True)]
    tokens = pa.LargeListArray.from_arrays(ends, pa.StructArray.from_arrays(arrays, fields=fields))
    return rows.set_column(ROW.get_field_index("tokens"), ROW.field("tokens"), tokens)


def ids(rows: pa.Table) -> tuple[Offsets, Ids]:
    """The ids of all chunks as one array, and where those of each begin, with the end."""
    column = _flat(rows).field("ids")
    offsets = np.asarray(column.offsets).astype(np.int64)
    return offsets - offsets[0] if len(offsets) else offsets, np.asarray(column.flatten())


def readings(rows: pa.Table) -> list[Reading]:
    """Of each document what the model reads and which of it is in which chunk."""
    chunks, tokens = rows["chunks"].combine_chunks(), rows["tokens"].combine_chunks()
    flat, inner = chunks.flatten(), tokens.flatten()
    bounds = np.stack([np.asarray(flat.field(name)) for name in ("start", "end")], axis=1).astype(np.int64)
    found, at = np.asarray(inner.field("id")), np.asarray(inner.field("at"))
    c, t = (np.asarray(column.offsets) - np.asarray(column.offsets)[0] for column in (chunks, tokens))
    return [Reading(found[t[i] : t[i + 1]], spans(at[t[i] : t[i + 1]], bounds[c[i] : c[i + 1]])) for i in range(len(rows))]


def with_vectors(rows: pa.Table, vectors: Vectors, origins: Sequence[str], overflow: Sequence[str | None]) -> pa.Table:
    """The rows with vector i on chunk i: float32 (chunks, dim); the ids have done their work."""
    dim = vectors.shape[1] if len(vectors) else 0
    rows = rows.set_column(ROW.get_field_index("tokens"), ROW.field("tokens"), pa.nulls(len(rows), ROW.field("tokens").type))
    return _changed(
        rows,
        ids=pa.nulls(len(vectors), CHUNK.field("ids").type),
        origin=pa.array(origins, pa.string()),
        overflow=pa.array(overflow, pa.string()),
        vector=_list_array(np.arange(len(vectors) + 1) * dim, vectors.ravel(), CHUNK.field("vector").type),
    )


def _list_array(offsets: Offsets, values: npt.NDArray[Any], kind: pa.DataType) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, kind.value_type))


def _changed(rows: pa.Table, **columns: pa.Array) -> pa.Table:
    """The rows with these columns of their chunks."""
    column = rows["chunks"].combine_chunks()
    known = dict(zip([f.name for f in CHUNK], column.flatten().flatten(), strict=True)) | columns
    offsets = np.asarray(column.offsets)
    changed = pa.LargeListArray.from_arrays(
        offsets - offsets[0], pa.StructArray.from_arrays(list(known.values()), fields=list(CHUNK))
    )
    return rows.set_column(ROW.get_field_index("chunks"), ROW.field("chunks"), changed)


def origins(rows: pa.Table) -> Counter[str]:
    """How many chunks got their vector in which way, and how many texts were `pooled` or `truncated`."""
    flat = _flat(rows)
    found = [*flat.field("origin").to_pylist(), *flat.field("overflow").to_pylist()]
    return Counter(name for name in found if name)


Slow: TypeAlias = tuple[float, str, int, str]  # seconds, URI, bytes of the source, and how it ended its process or ""


def slowest(rows: pa.Table, number: int) -> list[Slow]:
    """The documents that took longest to parse; first those that ended their process, with the seconds until then."""
    known = rows.select(["seconds", "uri", "size", "error_kind"]).filter(pc.greater(rows["seconds"], 0)).to_pylist()
    found = ((r["seconds"], r["uri"], r["size"] or 0, k if (k := r["error_kind"]) in KILLED else "") for r in known)
    return nlargest(number, found, key=slowness)


def slowness(row: Slow) -> tuple[bool, float]:
    """By which the slowest are found."""
    return bool(row[3]), row[0]


def _flat(rows: pa.Table) -> pa.StructArray:
    return rows["chunks"].combine_chunks().flatten()


def chunk_table(rows: pa.Table, recipe: str, run_id: str, embedder: str | None = None) -> pa.Table:
    """The chunks of the rows as a table of schema CHUNKS."""
    column = rows["chunks"].combine_chunks()
    owner = column.value_parent_indices()
    flat = column.flatten()
    known = dict(zip([f.name for f in CHUNK], flat.flatten(), strict=True))
    known |= {name: rows[name].combine_chunks().take(owner) for name in ("doc_id", "uri", "metadata", "format")}
    made = pc.if_else(pc.is_valid(known["vector"]), pa.scalar(embedder, pa.string()), pa.scalar(None, pa.string()))
    known |= {"recipe": _same(recipe, len(flat)), "run_id": _same(run_id, len(flat)), "embedder": made}
    return pa.table([known[f.name] for f in CHUNKS], schema=CHUNKS)


def image_table(rows: pa.Table, recipe: str, run_id: str) -> pa.Table:
    """The pictures of the rows as a table of schema IMAGES."""
    column = rows["images"].combine_chunks()
    flat = column.flatten()
    known = dict(zip([f.name for f in OF_IMAGE], flat.flatten(), strict=True))
    owner = column.value_parent_indices()
    known |= {name: rows[name].combine_chunks().take(owner) for name in ("doc_id", "uri", "format")}
    firsts = np.asarray(column.offsets) - np.asarray(column.offsets)[0]
    ordinals = np.arange(len(flat)) - firsts[np.asarray(owner)]
    known["ordinal"] = pa.array(ordinals, pa.int32())
    names = zip(known["doc_id"].to_pylist(), ordinals.tolist(), strict=True)
    known["image_id"] = pa.array([digest(doc_id, str(ordinal)) for doc_id, ordinal in names], pa.string())
    known |= {"recipe": _same(recipe, len(flat)), "run_id": _same(run_id, len(flat))}
    return pa.table([known[f.name] for f in IMAGES], schema=IMAGES)


def document_table(rows: pa.Table, recipe: str, run_id: str, *, keep_text: bool) -> pa.Table:
    """The rows as a table of schema DOCUMENTS."""
    column = rows["chunks"].combine_chunks()
    sizes = np.asarray(column.flatten().field("n_tokens"), np.int64)
    offsets = np.asarray(column.offsets) - np.asarray(column.offsets)[0]
    totals = np.concatenate([[0], np.cumsum(sizes)])
    known = {name: rows[name] for name in rows.column_names}
    known["n_chunks"] = _with_parts(rows, "chunks", np.diff(offsets))
    known["n_tokens"] = _with_parts(rows, "tokens", totals[offsets[1:]] - totals[offsets[:-1]])
    if not keep_text:
        known |= {name: pa.nulls(len(rows), DOCUMENTS.field(name).type) for name in ("text", "blocks")}
    known |= {"recipe": _same(recipe, len(rows)), "run_id": _same(run_id, len(rows))}
    return pa.table([known[f.name] for f in DOCUMENTS], schema=DOCUMENTS)


def _with_parts(rows: pa.Table, name: str, own: Offsets) -> pa.Array:
    """What each document has in its own row, and in its parts."""
    return pc.add(pa.array(own, pa.int64()), pc.fill_null(pc.struct_field(rows["whole"].combine_chunks(), name), 0))


def part_rows(rows: pa.Table) -> tuple[PartRow, ...]:
    """Of the rows those of documents that came in parts, as the journal has them."""
    known = rows.select(["doc_id", "source", "part", "whole", "error_kind", "error"]).to_pylist()
    sizes = pc.list_value_length(rows["chunks"]).to_pylist()
    return tuple(
        PartRow(
            row["doc_id"],
            row["source"],
            row["part"] if row["part"] is not None else -1,
            row["whole"]["parts"] if row["whole"] else -1,
            n or 0,
            (row["error_kind"], row["error"]) if row["error_kind"] else (),
        )
        for row, n in zip(known, sizes, strict=True)
        if row["part"] is not None or row["whole"]
    )


def textless(rows: pa.Table) -> pa.Table:
    """The rows without their text and structure."""
    for name in ("text", "blocks"):
        rows = rows.set_column(ROW.get_field_index(name), ROW.field(name), pa.nulls(len(rows), ROW.field(name).type))
    return rows


def moved(rows: pa.Table, by: int, table: tuple[int, int], lines: int | None) -> pa.Table:
    """Parts with the places that their chunks have in the whole, without text. `by` is added to offsets, `lines` to line
    numbers (None: there are none), and `table` says up to where rows of a table begun in an earlier part go, and what is added.
    """
    flat, (until, more) = _flat(rows), table
    inside = pc.less(flat.field("start"), until)
    columns = {name: pc.add(flat.field(name), by) for name in ("start", "end")}
    for name in ("row_start", "row_end"):
        columns[name] = pc.if_else(inside, _plus(flat.field(name), more), flat.field(name))
    for name in ("line_start", "line_end"):
        columns[name] = pa.nulls(len(flat), pa.int32()) if lines is None else _plus(flat.field(name), lines)
    spans = flat.field("spans")
    if spans.null_count < len(spans):
        known = [s and [{name: n + by for name, n in span.items()} for span in s] for s in spans.to_pylist()]
        columns["spans"] = pa.array(known, spans.type)
    tokens = rows["tokens"].combine_chunks()
    if not tokens.null_count:
        inner = tokens.flatten()
        places = pa.StructArray.from_arrays([inner.field("id"), pc.add(inner.field("at"), by)], fields=list(TOKENS))
        tokens = pa.LargeListArray.from_arrays(np.asarray(tokens.offsets), places)
        rows = rows.set_column(ROW.get_field_index("tokens"), ROW.field("tokens"), tokens)
    return textless(_changed(rows, **columns))


def _plus(numbers: pa.Array, more: int) -> pa.Array:
    return pc.add(numbers, pa.scalar(more, pa.int32()))


def _same(value: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), n)
