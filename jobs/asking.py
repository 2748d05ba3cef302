"""The stage that asks a language model: an actor cuts many documents at once, each as fast as its answers come."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Complete, Document, Embed, Vectors
from chunkmill.chunkers.errors import ChunkmillError, DocumentError
from chunkmill.chunkers.finish import Chunk
from chunkmill.chunkers.llm import FALLBACK, REFUSED
from chunkmill.jobs import backends, rows
from chunkmill.jobs.answers import Answers
from chunkmill.jobs.config import Job
from chunkmill.jobs.llm import UNASKED, Asker
from chunkmill.jobs.meter import Remote
from chunkmill.jobs.rows import LEFT
from chunkmill.jobs.tally import count

if TYPE_CHECKING:
    from ray.data import ActorPoolStrategy

DOCUMENTS = 64  # that an actor has under way at the most, and the rows of a batch
CALLS = 64  # under way in one actor

Outcome = Sequence[Chunk] | DocumentError


class Asking:
    """Cuts the documents that come by with the help of a language model; one that must wait for the next run is LEFT."""

    def __init__(self, job: Job, meter: Any, calls: int, tally: Any) -> None:
        assert job.llm
        self.job, self.gate, self.tally = job, Remote(meter, job.llm), tally
        self.answers = Answers(job.output)
        self.ask = Asker(job.llm, self.gate, self.answers, calls)
        self.trouble: ChunkmillError | None = None
        try:
            self.embed = embedding(job)
        except ChunkmillError as error:  # out of a constructor Ray passes on a trace, and starts the actor anew
            self.trouble = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Schema `rows.ROW` in and out."""
        if self.trouble:
            raise self.trouble
        since = time.perf_counter()
        good = [s == "ok" for s in batch["status"].to_pylist()]
        docs = rows.documents(batch)
        with ThreadPoolExecutor(DOCUMENTS) as threads:
            cut = threads.map(self._cut, (doc for doc, ok in zip(docs, good, strict=True) if ok))
            outcomes = [next(cut) if ok else () for ok in good]
        self.answers.flush()
        self.gate.count(counted(outcomes))
        self.gate.flush()
        done = rows.recut(batch, [() if left(o) else o for o in outcomes], with_forms=self.job.keeps_apart)
        done = rows.with_notes(done, [getattr(o, "notes", {}) for o in outcomes])
        if self.job.embed:
            encoder = backends.encoder(self.job.embedding, self.job.model)
            done = rows.with_ids(done, encoder, late=self.job.embedding.pooling == "late")
        count(self.tally, {"ask_seconds": time.perf_counter() - since, "done": len(batch)})
        return rows.with_status(done, LEFT, [left(o) for o in outcomes])

    def _cut(self, doc: Document) -> Outcome:
        return chunk_all([doc], self.job.chunking, {Complete: self.ask, Embed: self.embed})[0]


def left(outcome: Outcome) -> bool:
    """Whether a document could not be finished because the run asks no more."""
    return isinstance(outcome, DocumentError) and outcome.kind == UNASKED


def counted(outcomes: Sequence[Outcome]) -> Mapping[str, int]:
    """Documents and chunks of which something is by rule because answers could not be used; statements that were refused,
    documents that were left.
    """
    chunks = [outcome for outcome in outcomes if not isinstance(outcome, DocumentError)]
    return {
        "fallback_documents": sum(any("fallbacks" in n or "ungrouped" in n for n in getattr(o, "notes", {})) for o in chunks),
        "fallback_chunks": sum(c.kind.startswith(FALLBACK) for o in chunks for c in o),
        "refused_statements": sum(int(getattr(o, "notes", {}).get(REFUSED, "0").split()[0]) for o in chunks),
        "left": sum(map(left, outcomes)),
    }


def embedding(job: Job) -> Any:
    """What answers a strategy that asks for vectors too: the model, on this machine's CPU; None where none is needed."""
    if Embed not in job.chunking.needs:
        return None
    model = backends.load(job.embedding, job.model, device="cpu", threads=1)
    one_at_a_time = threading.Lock()

    def embed(texts: Sequence[str]) -> Vectors:
        with one_at_a_time:
            return np.asarray(model.embed(texts))

    return embed


def pool(job: Job, blocks: int) -> tuple[ActorPoolStrategy, int]:
    """How many actors ask, and how many calls each has under way: in all as many as `llm.concurrency` says, or a few more."""
    from ray.data import ActorPoolStrategy

    assert job.llm
    size = min(blocks, -(-job.llm.concurrency // CALLS))
    return ActorPoolStrategy(size=size), -(-job.llm.concurrency // size)
