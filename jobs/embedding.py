"""The embedding stage: an actor holds the model and puts a vector on every chunk of the documents that come by."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Embed, Vectors
from chunkmill.chunkers.errors import ChunkmillError, DocumentError, attempt
from chunkmill.jobs import backends, rows, windows
from chunkmill.jobs.config import Job
from chunkmill.jobs.recent import Remembered
from chunkmill.jobs.reuse import Known
from chunkmill.jobs.tally import count

SLAB = 8_192  # texts handed to the model at once: enough to sort by length, few enough to see it move
LATE_TOKENS = 1 << 20  # of documents read whole, handed to the model at once
MADE, REUSED, REPEATED = "made", "reused", "repeated"  # where a vector comes from: the model, the dataset, this run


class Embedder:
    """Holds the model; cuts what could not be cut without it, and puts a vector on every chunk."""

    def __init__(
        self, job: Job, device: str | None, threads: int | None, tally: Any, known: Sequence[Any] = (), shared: Any = None
    ) -> None:
        self.job, self.tally = job, tally
        self.late = job.embedding.pooling == "late"
        self.since = 0.0
        self.remembered = Remembered(shared)
        self.trouble: ChunkmillError | None = None
        try:
            self.model = backends.load(job.embedding, job.model, device=device, threads=threads)
            self.encoder = backends.encoder(job.embedding, job.model)
            self.known = Known.fetched(job.output, known)
        except ChunkmillError as error:  # out of a constructor Ray passes on a trace, and starts the actor anew
            self.trouble = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Schema `rows.ROW` in and out."""
        if self.trouble:
            raise self.trouble
        self.since = self.since or time.perf_counter()
        done = self._done(batch)
        now = time.perf_counter()
        finished = len(batch) if self.job.chunking.needs == {Embed} else 0
        count(self.tally, {"embed_seconds": now - self.since, "done": finished})  # from batch to batch: waiting counts
        self.since = now
        return done

    def _done(self, batch: pa.Table) -> pa.Table:
        if self.job.chunking.needs == {Embed}:  # a language model's stage has cut what it is needed for
            cut = chunk_all(rows.documents(batch), self.job.chunking, {Embed: self.model.embed})
            batch = rows.recut(batch, cut, with_forms=self.job.keeps_apart)
            batch = rows.with_ids(batch, self.encoder, late=self.late)
        return self._embedded(batch)

    def _embedded(self, batch: pa.Table) -> pa.Table:
        """The batch with vectors; a document whose texts the model refuses becomes a failed one."""
        made = attempt(self._late if self.late else self._vectors, batch)
        if not isinstance(made, DocumentError):
            return rows.with_vectors(batch, *made)
        if len(batch) == 1:
            return rows.with_vectors(rows.recut(batch, [made]), *nothing())
        half = len(batch) // 2  # until the one that is refused is alone
        return pa.concat_tables(map(self._embedded, (batch.slice(0, half), batch.slice(half))))

    def _vectors(self, batch: pa.Table) -> Made:
        """A vector for each text: the dataset's or one of this run where there is one, else the model's."""
        hashes = rows.hashes(batch)
        distinct = {text_hash: i for i, text_hash in reversed([*enumerate(hashes)])}  # to its first place
        found = self.known.find(list(distinct))
        origins = dict.fromkeys(found, REUSED)
        again = self.remembered.find(distinct.keys() - found.keys())
        found.update(again)
        origins.update(dict.fromkeys(again, REPEATED))
        offsets, ids = rows.ids(batch)
        texts = [] if self.model.reads_ids else rows.embedded_texts(batch)
        sizes = np.diff(offsets).tolist() if self.model.reads_ids else self.model.sizes(texts)
        fresh = sorted(at for text_hash, at in distinct.items() if text_hash not in found)
        due = rows.sizes(batch)
        count(self.tally, self._finished(due.sum() - due[fresh].sum()))
        for i in range(0, len(fresh), SLAB):
            slab = fresh[i : i + SLAB]
            vectors = self._computed([texts[at] for at in slab if texts], [ids[offsets[at] : offsets[at + 1]] for at in slab])
            count(self.tally, {"tokens": sum(sizes[at] for at in slab)} | self._finished(due[slab].sum()))
            names = [hashes[at] for at in slab]
            found.update(zip(names, vectors, strict=True))
            origins.update(dict.fromkeys(names, MADE))
            self.remembered.add(names, vectors)
        where = [REPEATED if origins[h] == MADE and distinct[h] != at else origins[h] for at, h in enumerate(hashes)]
        label = {"pool": "pooled", "truncate": "truncated"}.get(self.job.embedding.overflow)
        overflow = [label if beyond else None for beyond in self.model.beyond(sizes)]
        return Made(np.stack([found[h] for h in hashes]) if hashes else nothing().vectors, where, overflow)

    def _finished(self, units: int) -> dict[str, int]:
        """What chunks hold that have their vectors now, as `done`; where a model decides the cuts that counts documents."""
        return {} if self.job.chunking.needs else {"done": int(units)}

    def _computed(self, texts: list[str], ids: list[Any]) -> Vectors:
        before = self.model.seconds
        vectors: Vectors = self.model.read(texts, [part.tolist() for part in ids] if self.model.reads_ids else ())
        count(self.tally, {"embedded": len(vectors), "forward_seconds": self.model.seconds - before})
        return vectors

    def _late(self, batch: pa.Table) -> Made:
        """A vector for each chunk out of the states of its whole document: it depends on the document, so none is reused."""
        found: list[Vectors] = []
        for group in grouped(rows.readings(batch)):
            before = self.model.seconds
            found += self.model.late(group)
            made, tokens = sum(map(len, found[-len(group) :])), sum(len(reading.ids) for reading in group)
            count(self.tally, {"embedded": made, "tokens": tokens, "forward_seconds": self.model.seconds - before})
        count(self.tally, self._finished(rows.sizes(batch).sum()))
        vectors = np.concatenate(found) if sum(map(len, found)) else nothing().vectors
        return Made(vectors, [MADE] * len(vectors), [None] * len(vectors))


class Made(NamedTuple):
    """Of each chunk the vector, where it comes from, and whether the text was more than the model reads at once."""

    vectors: Vectors
    origins: Sequence[str]
    overflow: Sequence[str | None]


def nothing() -> Made:
    """For no chunks."""
    return Made(np.empty((0, 0), np.float32), [], [])


def grouped(readings: Sequence[windows.Reading]) -> list[list[windows.Reading]]:
    """Documents in lists of a bounded number of tokens."""
    groups: list[list[windows.Reading]] = []
    held = LATE_TOKENS
    for reading in readings:
        if held + len(reading.ids) > LATE_TOKENS:
            groups.append([])
            held = 0
        groups[-1].append(reading)
        held += len(reading.ids)
    return groups
