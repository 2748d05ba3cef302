"""What the contenders of an evaluation share: documents parsed once, models loaded once, texts embedded once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.base import Document, Offsets, Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io.storage import locate
from chunkmill.jobs import backends, metrics, rows
from chunkmill.jobs.config import Job
from chunkmill.jobs.isolation import isolated
from chunkmill.jobs.pages import counted
from chunkmill.jobs.plan import TODO, listed
from chunkmill.jobs.settings import EmbedSettings

SLAB = 512  # texts embedded between two signs of life
WHOLE = {"strategy": "document", "size": 1 << 40, "unit": "chars", "overlap": 0}

Say = Callable[[str], None]


class Failure(NamedTuple):
    """A document that can't take part: its URI, the kind of its error, and the message."""

    document: str
    kind: str
    why: str


class Corpus(NamedTuple):
    """The documents as parsed, where each begins on the axis of `metrics`, and those that failed."""

    docs: list[Document]
    begins: Offsets
    failed: list[Failure]
    batch: pa.Table  # the same as rows


class Parsed:
    """The documents of each contender's corpus: parsed once for all that parse alike."""

    def __init__(self, leave_out: str, say: Say) -> None:
        self.leave_out, self.say = str(locate(leave_out)) if leave_out else "", say
        self.known: dict[str, Corpus] = {}

    def of(self, job: Job) -> Corpus:
        """The corpus of a job."""
        alike = Job.model_validate(
            job.model_dump(include={"input", "output", "include", "exclude", "run"})
            | {"formats": job.parsing, "chunk": WHOLE, "embed": None}
        )
        key = alike.model_dump_json()
        if key not in self.known:
            self.known[key] = self._parsed(alike)
        return self.known[key]

    def _parsed(self, job: Job) -> Corpus:
        sources = listed(job)
        sources = sources.filter(pc.not_equal(sources["uri"], self.leave_out))
        self.say(f"parsing {counted(len(sources), 'file')}")
        blank = [pa.nulls(len(sources), f.type) for f in list(TODO)[len(sources.schema) :]]
        todo = pa.Table.from_arrays([*sources.columns, *blank], schema=TODO)
        batch = pa.concat_tables([rows.ROW.empty_table(), *isolated(todo.to_pylist(), job)])
        bad = batch.filter(pc.equal(batch["status"], "failed")).select(["uri", "error_kind", "error"])
        failed = [Failure(*row.values()) for row in bad.to_pylist()]
        good = batch.filter(pc.equal(batch["status"], "ok"))
        if not len(good):
            why = (
                f"; {counted(len(failed), 'document')} failed, the first: {failed[0].document}: {failed[0].why}"
                if failed
                else ""
            )
            raise ConfigError(f"{job.input} holds no document with text in it{why}")
        docs = rows.documents(good)
        return Corpus(docs, metrics.axis([len(d.text) for d in docs]), failed, good)


class Readers:
    """The models, each loaded once."""

    def __init__(self, say: Say) -> None:
        self.say, self.known = say, dict[str, Reader]()

    def of(self, job: Job) -> Reader:
        """The model of a job. In float32 where the job leaves it open: all contenders can then share it."""
        assert job.embed is not None
        embed = job.embed.model_copy(update={"dtype": "float32" if job.embed.dtype == "auto" else job.embed.dtype})
        key = backends.embedder(embed, job.model)
        if key not in self.known:
            self.say(f"loading {embed.model}")
            self.known[key] = Reader(embed, job.model, self.say)
        return self.known[key]

    @property
    def pace(self) -> float:
        """Tokens per second of all that was embedded."""
        seconds = sum(reader.seconds for reader in self.known.values())
        return sum(reader.tokens for reader in self.known.values()) / seconds if seconds else 0.0


class Reader:
    """A model that reads each text once. `tokens`, `seconds`: what it has read so far, and how long that took."""

    def __init__(self, embed: EmbedSettings, found: Any, say: Say) -> None:
        self.embed_as, self.found, self.say = embed, found, say
        self.model = backends.load(embed, found)
        self.unit = backends.unit(embed, found)
        self.known: dict[str, Vectors] = {}
        self.tokens, self.seconds = 0, 0.0

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dim), unit rows."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self.known]
        for i in range(0, len(fresh), SLAB):
            self.say(f"embedding: {counted(len(fresh) - i, 'text')} to go")
            slab = fresh[i : i + SLAB]
            self.known |= zip(slab, self._timed(self.model.embed, slab), strict=True)
            self.tokens += self.size(slab)
        return np.stack([self.known[text] for text in texts]) if texts else np.empty((0, self.model.dimension), np.float32)

    def late(self, batch: pa.Table) -> Vectors:
        """The vectors of the chunks of a table of rows, pooled from the states of their whole documents."""
        self.say(f"embedding: {counted(len(batch), 'document')}, whole")
        read = rows.with_ids(batch, backends.encoder(self.embed_as, self.found), late=True)
        self.tokens += self.size(batch["text"].to_pylist())
        return np.concatenate(self._timed(self.model.late, rows.readings(read)))

    def queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of questions, with the prompt that the model wants of them."""
        window = backends.window(self.embed_as, self.found)
        model = self.model if window.query == window.document else backends.load(self.embed_as, self.found, query=True)
        vectors: Vectors = model.embed(texts)
        return vectors

    def size(self, texts: Sequence[str]) -> int:
        """The tokens that the model reads of these texts, special ones included."""
        return sum(self.unit.count(texts)) + self.unit.specials * len(texts)

    def _timed(self, work: Callable[..., Any], *args: Any) -> Any:
        started = time.perf_counter()
        done = work(*args)
        self.seconds += time.perf_counter() - started
        return done
