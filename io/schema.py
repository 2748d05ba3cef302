"""The declared Arrow schemas: what a row of each table is, on disk and between stages."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from chunkmill.chunkers.base import Block, Span

LISTING = pa.schema(
    [
        ("uri", pa.string()),
        ("etag", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("us", tz="UTC")),
        ("error_kind", pa.string()),  # a name or folder that can't be read; null for a readable source
        ("error", pa.string()),
    ]
)

SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64())])
BLOCK = pa.struct(
    [
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("level", pa.int32()),
        ("page", pa.int32()),
        ("title", pa.string()),
        ("parts", pa.list_(SPAN)),
    ]
)
METADATA = pa.map_(pa.string(), pa.string())

CHUNKS = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("uri", pa.string()),
        ("ordinal", pa.int32()),
        ("level", pa.int32()),
        ("parent_id", pa.string()),
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("page_start", pa.int32()),
        ("page_end", pa.int32()),
        ("row_start", pa.int32()),  # of the table that the chunk begins in, from 1; null outside tables
        ("row_end", pa.int32()),
        ("line_start", pa.int32()),  # of source code, from 1
        ("line_end", pa.int32()),
        ("spans", pa.list_(SPAN)),  # of a chunk that is gathered from several places, these; null of any other
        ("forms", METADATA),  # of a table that `modality` kept apart: csv, markdown, caption
        ("heading_path", pa.list_(pa.string())),
        ("text", pa.large_string()),
        ("context", pa.large_string()),
        ("n_tokens", pa.int32()),
        ("text_hash", pa.string()),
        ("metadata", METADATA),
        ("vector", pa.list_(pa.float32())),
        ("embedder", pa.string()),  # what made the vector: equal ones are interchangeable; null without vectors
        ("overflow", pa.string()),  # pooled | truncated where the text was more than the model reads at once, else null
        ("recipe", pa.string()),
        ("run_id", pa.string()),
        ("format", pa.string()),
    ]
)

DOCUMENTS = pa.schema(
    [
        ("doc_id", pa.string()),
        ("uri", pa.string()),
        ("source", pa.string()),  # the listed file or object the document came from
        ("format", pa.string()),
        ("etag", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("us", tz="UTC")),
        ("content_hash", pa.string()),
        ("status", pa.string()),  # ok | empty | failed
        ("error_kind", pa.string()),
        ("error", pa.string()),
        ("n_chunks", pa.int64()),
        ("n_tokens", pa.int64()),
        ("text", pa.large_string()),
        ("blocks", pa.list_(BLOCK)),
        ("metadata", METADATA),
        ("parser", pa.string()),
        ("recipe", pa.string()),
        ("run_id", pa.string()),
    ]
)

IMAGES = pa.schema(
    [
        ("image_id", pa.string()),
        ("doc_id", pa.string()),
        ("uri", pa.string()),
        ("ordinal", pa.int32()),
        ("page", pa.int32()),
        ("box", pa.list_(pa.float32())),  # x0, y0, x1, y1 in points on the page, from its top left
        ("caption", pa.large_string()),
        ("text", pa.large_string()),  # what OCR read in it
        ("start", pa.int64()),  # its place in the document's text
        ("end", pa.int64()),
        ("png", pa.large_binary()),
        ("recipe", pa.string()),
        ("run_id", pa.string()),
        ("format", pa.string()),
    ]
)

PARTITIONS = {"chunks": ["format"], "images": ["format"], "documents": []}
SCHEMAS = {"chunks": CHUNKS, "images": IMAGES, "documents": DOCUMENTS}


def block_rows(blocks: Iterable[Block]) -> list[dict[str, object]]:
    """Blocks as values of the `blocks` column."""
    return [
        {
            "kind": b.kind,
            "start": b.span.start,
            "end": b.span.end,
            "level": b.level,
            "page": b.page,
            "title": b.title,
            "parts": [{"start": p.start, "end": p.end} for p in b.parts],
        }
        for b in blocks
    ]


def blocks_of(rows: Iterable[dict[str, object]]) -> tuple[Block, ...]:
    """The blocks that `block_rows` wrote."""
    return tuple(
        Block(r["kind"], Span(r["start"], r["end"]), r["level"], r["page"], _spans(r["parts"]), r["title"])  # type: ignore[arg-type]  # as the schema says
        for r in rows
    )


def _spans(rows: object) -> tuple[Span, ...]:
    return tuple(Span(r["start"], r["end"]) for r in rows)  # type: ignore[attr-defined]  # as above
