"""The work of a run, as functions over Arrow batches that Ray Data maps: prepare, embed, write.

One row is one document in every stage. Nothing here knows how many workers there are.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Document, Embed, Vectors
from chunkmill.chunkers.errors import DocumentError, attempt
from chunkmill.chunkers.finish import digest
from chunkmill.chunkers.seams import VISIBLE, clean
from chunkmill.io import table
from chunkmill.io.corpus import fetch
from chunkmill.io.parsers import Parsed, detect, parse, parser_version
from chunkmill.jobs import rows
from chunkmill.jobs.config import Job
from chunkmill.jobs.models import BACKENDS
from chunkmill.jobs.rows import Row

NOTHING = Document("", "", "")
FETCHES = 8  # files on their way while one is parsed
PART_BYTES = 8 << 20  # text after which a stage hands on what it has
PART_ROWS = 512
EMBED_TEXTS = 1024  # handed to the model at once: enough to sort by length, few enough to see it move


def prepare(batch: pa.Table, job: Job, tally: Any) -> Iterator[pa.Table]:
    """Listed sources → documents: read, parsed, and cut unless the strategy needs a model. Schema `rows.ROW`."""
    late = bool(job.chunking.strategy.needs)
    for part in parts(row for source, data in fetched(batch.to_pylist(), job) for row in documents(source, data, job)):
        good = [r.document if r.document and VISIBLE.search(r.document.text) else NOTHING for r in part]
        done = rows.table(part, None if late else chunk_all(good, job.chunking, {}))
        tally.add.remote({"documents": len(part), "failed": pc.sum(pc.equal(done["status"], "failed")).as_py()})
        yield done


def fetched(sources: list[dict[str, Any]], job: Job) -> Iterator[tuple[dict[str, Any], bytes | DocumentError]]:
    """Each source with its bytes, a few of them read ahead."""
    with ThreadPoolExecutor(FETCHES) as pool:
        ahead: deque[tuple[dict[str, Any], Future[bytes | DocumentError]]] = deque()
        for source in sources:
            ahead.append((source, pool.submit(_read, source, job.run.max_file_bytes)))
            if len(ahead) > FETCHES:
                first, future = ahead.popleft()
                yield first, future.result()
        for first, future in ahead:
            yield first, future.result()


def _read(source: Mapping[str, Any], limit_bytes: int) -> bytes | DocumentError:
    if source["error_kind"]:
        return DocumentError(source["error_kind"], source["error"] or "")
    return attempt(fetch, source["uri"], limit_bytes=limit_bytes)


def documents(source: Mapping[str, Any], data: bytes | DocumentError, job: Job) -> Iterator[Row]:
    """The rows a source becomes: one, or one for each of its records; at least one, so that every input is accounted for."""
    if isinstance(data, DocumentError):
        yield _row(source, Parsed("", error=data), "", "")
        return
    content_hash = hashlib.blake2b(data, digest_size=16).hexdigest()
    format = attempt(detect, source["uri"], data)
    if isinstance(format, DocumentError):
        yield _row(source, Parsed("", error=format), "", content_hash)
        return
    found = _parsed(data, source["uri"], format, job)
    yield _row(source, next(found, Parsed("")), format, content_hash)
    yield from (_row(source, parsed, format, content_hash) for parsed in found)


def _parsed(data: bytes, name: str, format: str, job: Job) -> Iterator[Parsed]:
    """What the parser gives, and its failure as the last of it."""
    found = parse(data, name, format, job.formats.get(format, {}))
    while True:
        outcome = attempt(next, found, None)
        if isinstance(outcome, DocumentError):
            yield Parsed("", error=outcome)
            return
        if outcome is None:
            return
        yield outcome


def _row(source: Mapping[str, Any], parsed: Parsed, format: str, content_hash: str) -> Row:
    uri = f"{source['uri']}#{parsed.member}" if parsed.member else source["uri"]
    doc_id = digest(source["uri"], parsed.member)
    values = {
        "doc_id": doc_id,
        "uri": uri,
        "source": source["uri"],
        "format": format or "unknown",
        "etag": source["etag"],
        "size": source["size"],
        "modified": source["modified"],
        "content_hash": content_hash,
        "parser": parser_version(format) if format else None,
    }
    if parsed.error:
        return Row(values, None, parsed.error)
    text, repaired = clean(parsed.text)
    metadata = parsed.metadata | ({"repaired": str(repaired)} if repaired else {})
    return Row(values, Document(doc_id, uri, text, parsed.blocks, metadata))


def parts(found: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows in lists of a bounded size."""
    part: list[Row] = []
    size = 0
    for row in found:
        part.append(row)
        size += len(row.document.text) if row.document else 0
        if size >= PART_BYTES or len(part) >= PART_ROWS:
            yield part
            part, size = [], 0
    if part:
        yield part


class Embedder:
    """Holds the model in an actor; cuts what could not be cut without it, and puts a vector on every chunk."""

    def __init__(self, job: Job, device: str | None, threads: int | None, tally: Any) -> None:
        assert job.embed is not None
        backend = BACKENDS["sentence-transformers"]
        self.job, self.tally = job, tally
        self.model = backend(job.model, device=device, threads=threads, overflow=job.embed.overflow, dtype=job.embed.dtype)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Schema `rows.ROW` in and out."""
        if self.job.chunking.strategy.needs:
            batch = rows.recut(batch, chunk_all(rows.documents(batch), self.job.chunking, {Embed: self.model.embed}))
        return self._embedded(batch)

    def _embedded(self, batch: pa.Table) -> pa.Table:
        """The batch with vectors; a document whose texts the model refuses becomes a failed one."""
        vectors = attempt(self._vectors, rows.embedded_texts(batch))
        if not isinstance(vectors, DocumentError):
            return rows.with_vectors(batch, vectors)
        if len(batch) == 1:
            return rows.with_vectors(rows.recut(batch, [vectors]), np.empty((0, 0), np.float32))
        return pa.concat_tables(self._embedded(batch.slice(i, 1)) for i in range(len(batch)))

    def _vectors(self, texts: list[str]) -> Vectors:
        slabs = [self._slab(texts[i : i + EMBED_TEXTS]) for i in range(0, len(texts), EMBED_TEXTS)]
        return np.concatenate(slabs) if slabs else np.empty((0, 0), np.float32)

    def _slab(self, texts: list[str]) -> Vectors:
        vectors = self.model.embed(texts)
        self.tally.add.remote({"embedded": len(texts)})
        return vectors


RESULT = pa.schema(
    [
        ("written", pa.string()),
        ("counts", pa.string()),
        ("examples", pa.string()),
        ("chunks", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


def write(batch: pa.Table, job: Job, run_id: str) -> pa.Table:
    """Documents → Parquet files that nobody sees yet, and one row that says what was written (schema RESULT)."""
    chunks = rows.chunk_table(batch, job.recipe, run_id)
    ledger = rows.document_table(batch, job.recipe, run_id, keep_text=job.run.keep_text)
    files = table.write(job.output, "chunks", chunks, run_id=run_id) if len(chunks) else []
    files += table.write(job.output, "documents", ledger, run_id=run_id)
    known = ledger.select(["status", "error_kind", "uri", "error"]).to_pylist()
    counts = Counter(f"{d['status']}:{d['error_kind']}" if d["error_kind"] else d["status"] for d in known)
    examples = {d["error_kind"]: f"{d['uri']}: {d['error']}" for d in reversed(known) if d["error_kind"]}
    size = pc.sum(ledger["size"]).as_py() or 0
    return pa.table(
        [[json.dumps([f._asdict() for f in files])], [json.dumps(counts)], [json.dumps(examples)], [len(chunks)], [size]],
        schema=RESULT,
    )
