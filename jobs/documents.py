"""Listed sources → documents, parsed and cut: plain functions that know nothing of Ray or of the process they run in."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, starmap
from typing import Any

import pyarrow as pa

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Document
from chunkmill.chunkers.errors import TRANSIENT, DocumentError, attempt
from chunkmill.chunkers.finish import digest
from chunkmill.chunkers.seams import VISIBLE, clean
from chunkmill.io.corpus import fetch
from chunkmill.io.parsers import Parsed, detect, parse
from chunkmill.jobs import parts, rows
from chunkmill.jobs.config import Job
from chunkmill.jobs.rows import KEPT, TOUCHED, Row
from chunkmill.jobs.stored import stored

NOTHING = Document("", "", "")
FETCHES, FETCHED_BYTES = 8, 64 << 20  # files on their way while one is parsed, and what they have together
BATCH_BYTES = 8 << 20  # text after which a stage hands on what it has
BATCH_ROWS, ALONE_ROWS = 512, 2_048  # the latter where no model waits for them: each is files and an entry in the journal

Source = Mapping[str, Any]  # a row of schema plan.TODO
Watch = Callable[[str], None]  # hears of a document of a source (its `Parsed.member`) before it is touched; may refuse it


def accept(member: str) -> None:
    """A watch that lets every document through."""


def prepared(sources: Sequence[Source], job: Job, watch: Watch = accept) -> Iterator[pa.Table]:
    """The documents of the sources in tables of bounded size: parsed, and cut unless the strategy needs a model. Schema ROW."""
    fresh = fetched([s for s in sources if not s["ledger"]], job)
    parsed = starmap(partial(documents, job=job, watch=watch), fresh)  # which keeps no hold of the bytes
    found = chain(chain.from_iterable(parsed), stored([s for s in sources if s["ledger"]], job.output))
    yield from chain.from_iterable(map(partial(tables, job=job), batches(found, job)))


def one(source: Source, job: Job, watch: Watch) -> Iterator[Row]:
    """The documents of one source."""
    if source["ledger"]:
        return stored([source], job.output)
    return documents(source, read(source, job.run.max_file_bytes), job, watch)


def tables(batch: Sequence[Row], job: Job, skip: int = 0) -> Iterator[pa.Table]:
    """Documents as one table; one that is too large as a table for each of its parts, without the `skip` first ones."""
    if len(batch) == 1 and parts.too_large(batch[0], job):
        return parts.divided(batch[0], job, skip)
    return iter([table(batch, job)])


def table(batch: Sequence[Row], job: Job) -> pa.Table:
    """Documents as a table, cut unless the strategy needs a model; what a model will read is there as its ids."""
    if job.chunking.needs:
        return rows.table([parts.bounded(row, job) for row in batch], None)
    good = [r.document if r.document and VISIBLE.search(r.document.text) else NOTHING for r in batch]
    cut = rows.table(batch, chunk_all(good, job.chunking, {}), with_forms=job.keeps_apart)
    return parts.with_ids(cut, job)


def fetched(sources: Sequence[Source], job: Job) -> Iterator[tuple[Source, bytes | DocumentError]]:
    """Each source with its bytes, a few of them read ahead."""
    with ThreadPoolExecutor(FETCHES) as pool:
        ahead: deque[tuple[Source, Future[bytes | DocumentError]]] = deque()
        for source in sources:
            ahead.append((source, pool.submit(read, source, job.run.max_file_bytes)))
            while len(ahead) > FETCHES or sum(s["size"] or 0 for s, _ in ahead) > FETCHED_BYTES:
                yield _taken(ahead)
        while ahead:
            yield _taken(ahead)


def _taken(ahead: deque[tuple[Source, Future[bytes | DocumentError]]]) -> tuple[Source, bytes | DocumentError]:
    """The first of them, of which nothing keeps hold here."""
    source, future = ahead.popleft()
    return source, future.result()


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
    found = _timed(_parsed(data, source["uri"], job, watch))
    del data  # the parser lets go of the bytes once all is parsed
    parsed, seconds = next(found, (Parsed(""), 0.0))
    ordinal = 0
    for following in found:
        yield _row(source, parsed, content_hash, job, ordinal, last=False, seconds=seconds)
        (parsed, seconds), ordinal = following, ordinal + 1
    yield _row(source, parsed, content_hash, job, ordinal, seconds=seconds)


def failed(source: Source, error: DocumentError, job: Job, member: str = "", ordinal: int = 0, *, last: bool = True) -> Row:
    """The row of a document of which nothing is known but its error."""
    row = _row(source, Parsed("", error=error, member=member), "", job, ordinal, last=last)
    return row._replace(status=KEPT) if source["known"] and not ordinal and error.kind in TRANSIENT else row


def _timed(found: Iterator[Parsed]) -> Iterator[tuple[Parsed, float]]:
    """Each with the seconds that it took."""
    since = time.perf_counter()
    for parsed in found:
        yield parsed, time.perf_counter() - since
        del parsed  # a large text is not to be held while the next is read
        since = time.perf_counter()


def _parsed(data: bytes, name: str, job: Job, watch: Watch) -> Iterator[Parsed]:
    """What the parser gives, and its failure as the last of it."""
    found = attempt(parse, data, name, job.parsing, own=job.own_parsers, watch=watch)
    while not isinstance(found, DocumentError):
        outcome = attempt(next, found, None)
        if outcome is None:
            return
        if isinstance(outcome, DocumentError):
            found = outcome
        else:
            yield outcome
    format = attempt(detect, name, data, job.own_parsers)
    yield Parsed("", error=found, format="" if isinstance(format, DocumentError) else format)


def _row(
    source: Source,
    parsed: Parsed,
    content_hash: str,
    job: Job,
    ordinal: int = 0,
    *,
    last: bool = True,
    seconds: float = 0.0,
) -> Row:
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
        "read": int(parsed.read * (source["size"] or 0)),
        "seconds": seconds,
    }
    if parsed.error:
        return Row(values, None, parsed.error)
    text, repaired = clean(parsed.text)
    metadata = parsed.metadata | ({"repaired": str(repaired)} if repaired else {})
    return Row(values, Document(doc_id, uri, text, parsed.blocks, metadata), images=parsed.images)


def batches(found: Iterable[Row], job: Job) -> Iterator[list[Row]]:
    """Rows in lists of a bounded size; a document that goes in parts is alone."""
    most = BATCH_ROWS if job.embed or job.chunking.needs else ALONE_ROWS
    batch: list[Row] = []
    size = 0
    for row in found:
        alone = parts.too_large(row, job)
        if batch and alone:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row.document.text) if row.document else 0
        del row  # its text is not to be held while the next one is read
        if alone or size >= BATCH_BYTES or len(batch) >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
