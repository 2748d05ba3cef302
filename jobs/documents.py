"""Listed sources → documents, parsed and cut: plain functions that know nothing of Ray or of the process they run in."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import pyarrow as pa

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Document
from chunkmill.chunkers.errors import TRANSIENT, DocumentError, attempt
from chunkmill.chunkers.finish import digest
from chunkmill.chunkers.seams import VISIBLE, clean
from chunkmill.io.corpus import fetch
from chunkmill.io.parsers import Parsed, detect, parse
from chunkmill.jobs import rows
from chunkmill.jobs.backends import encoder
from chunkmill.jobs.config import Job
from chunkmill.jobs.rows import KEPT, TOUCHED, Row
from chunkmill.jobs.stored import stored

NOTHING = Document("", "", "")
FETCHES = 8  # files on their way while one is parsed
PART_BYTES = 8 << 20  # text after which a stage hands on what it has
PART_ROWS = 512

Source = Mapping[str, Any]  # a row of schema plan.TODO
Watch = Callable[[str], None]  # hears of a document of a source (its `Parsed.member`) before it is touched; may refuse it


def accept(member: str) -> None:
    """A watch that lets every document through."""


def prepared(sources: Sequence[Source], job: Job, watch: Watch = accept) -> Iterator[pa.Table]:
    """The documents of the sources in tables of bounded size: parsed, and cut unless the strategy needs a model. Schema ROW."""
    fresh = fetched([s for s in sources if not s["ledger"]], job)
    found = chain(
        (row for source, data in fresh for row in documents(source, data, job, watch)),
        stored([s for s in sources if s["ledger"]], job.output),
    )
    yield from (table(part, job) for part in parts(found))


def one(source: Source, job: Job, watch: Watch) -> Iterator[Row]:
    """The documents of one source."""
    if source["ledger"]:
        return stored([source], job.output)
    return documents(source, read(source, job.run.max_file_bytes), job, watch)


def table(part: Sequence[Row], job: Job) -> pa.Table:
    """Documents as a table, cut unless the strategy needs a model; what a model will read is there as its ids."""
    if job.chunking.needs:
        return rows.table(part, None)
    good = [r.document if r.document and VISIBLE.search(r.document.text) else NOTHING for r in part]
    cut = rows.table(part, chunk_all(good, job.chunking, {}), with_forms=job.keeps_apart)
    return rows.with_ids(cut, encoder(job.embed, job.model), late=job.embed.pooling == "late") if job.embed else cut


def fetched(sources: Sequence[Source], job: Job) -> Iterator[tuple[Source, bytes | DocumentError]]:
    """Each source with its bytes, a few of them read ahead."""
    with ThreadPoolExecutor(FETCHES) as pool:
        ahead: deque[tuple[Source, Future[bytes | DocumentError]]] = deque()
        for source in sources:
            ahead.append((source, pool.submit(read, source, job.run.max_file_bytes)))
            if len(ahead) > FETCHES:
                first, future = ahead.popleft()
                yield first, future.result()
        for first, future in ahead:
            yield first, future.result()


def read(source: Source, limit_bytes: int) -> bytes | DocumentError:
    """The source's bytes, or why there are none."""
    if source["error_kind"]:
        return DocumentError(source["error_kind"], source["error"] or "")
    return attempt(fetch, source["uri"], limit_bytes=limit_bytes)


def documents(source: Source, data: bytes | DocumentError, job: Job, watch: Watch = accept) -> Iterator[Row]:
    """The rows a source becomes: one, or one for each of its records; at least one, so that every input is accounted for."""
    if isinstance(data, DocumentError):
        yield failed(source, data, job)
        return
    content_hash = hashlib.blake2b(data, digest_size=16).hexdigest()
    if content_hash == source["known_hash"]:
        yield _row(source, Parsed(""), content_hash, job)._replace(status=TOUCHED)
        return
    found = _parsed(data, source["uri"], job, watch)
    parsed = next(found, Parsed(""))
    ordinal = 0
    for following in found:
        yield _row(source, parsed, content_hash, job, ordinal, last=False)
        parsed, ordinal = following, ordinal + 1
    yield _row(source, parsed, content_hash, job, ordinal)


def failed(source: Source, error: DocumentError, job: Job, member: str = "", ordinal: int = 0, *, last: bool = True) -> Row:
    """The row of a document of which nothing is known but its error."""
    row = _row(source, Parsed("", error=error, member=member), "", job, ordinal, last=last)
    return row._replace(status=KEPT) if source["known"] and not ordinal and error.kind in TRANSIENT else row


def _parsed(data: bytes, name: str, job: Job, watch: Watch) -> Iterator[Parsed]:
    """What the parser gives, and its failure as the last of it."""
    found = attempt(parse, data, name, job.parsing, watch=watch)
    while not isinstance(found, DocumentError):
        outcome = attempt(next, found, None)
        if outcome is None:
            return
        if isinstance(outcome, DocumentError):
            found = outcome
        else:
            yield outcome
    format = attempt(detect, name, data)
    yield Parsed("", error=found, format="" if isinstance(format, DocumentError) else format)


def _row(source: Source, parsed: Parsed, content_hash: str, job: Job, ordinal: int = 0, *, last: bool = True) -> Row:
    uri = source["uri"] + parsed.member
    doc_id = digest(source["uri"], parsed.member)
    values = {
        "doc_id": doc_id,
        "uri": uri,
        "source": source["uri"],
        "format": parsed.format or "unknown",
        "etag": source["etag"],
        "size": source["size"],
        "modified": source["modified"],
        "content_hash": content_hash,
        "parser": job.parsers.get(parsed.format),
        "ordinal": ordinal,
        "last": last,
    }
    if parsed.error:
        return Row(values, None, parsed.error)
    text, repaired = clean(parsed.text)
    metadata = parsed.metadata | ({"repaired": str(repaired)} if repaired else {})
    return Row(values, Document(doc_id, uri, text, parsed.blocks, metadata), images=parsed.images)


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
