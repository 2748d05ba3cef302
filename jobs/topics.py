"""Topics of a whole corpus: learnt once, before a run cuts its first document, and kept with the dataset.

They decide the cuts, so their hash is in the recipe. Later runs take what is kept, whatever has become of the corpus, so that a
night changes only what has changed; another `chunk.seed` learns anew.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

from chunkmill.chunkers.errors import DocumentError, RunError
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.lda import Topics, learnt
from chunkmill.chunkers.seams import sentences
from chunkmill.chunkers.topic import SENTENCES, Topic
from chunkmill.io.corpus import fetch
from chunkmill.io.storage import Place, locate, new_file, writable
from chunkmill.jobs import cluster
from chunkmill.jobs.isolation import isolated
from chunkmill.jobs.parts import WHOLE_MOST
from chunkmill.jobs.plan import TODO, listed
from chunkmill.jobs.settings import ChunkSettings

SOURCES = 1_000  # that are read for it, drawn at random
SHARE = 50  # sources that one task reads
OF_SOURCE, OF_CORPUS = 50, 10_000  # passages that are learnt from


def place(root: str, strategy: Topic) -> Place:
    """Where the topics for these settings are, or will be."""
    settings = {name: value for name, value in asdict(strategy).items() if name in ("topics", "seed", "language")}
    return locate(root).child("_models").child(f"topics-{digest(json.dumps(settings, sort_keys=True))[:16]}.parquet")


def kept(root: str, strategy: Topic) -> Topics | None:
    """The topics that a run has learnt; None where none has."""
    here = place(root, strategy)
    try:
        found = pq.read_table(io.BytesIO(fetch(str(here))))
    except DocumentError as error:
        if error.kind == "vanished":
            return None
        raise RunError(f"the topics of the corpus can't be read: {error.message}") from error
    rows = [np.frombuffer(row, np.float32) for row in found["shares"].to_pylist()]
    shares = np.stack(rows, axis=1) if rows else np.ones((1, 0), np.float32)
    return Topics(tuple(found["word"].to_pylist()), shares)


def keep(root: str, strategy: Topic, topics: Topics) -> None:
    """Write them, whole or not at all."""
    columns = {"word": pa.array(topics.words, pa.string()), "shares": [row.tobytes() for row in topics.weights.T]}
    with new_file(place(root, strategy)) as path:
        pq.write_table(pa.table(columns), path, compression="zstd")


def ready(job: Any) -> Any:
    """The job with the topics that its strategy wants; those that are not kept yet are learnt from the corpus now."""
    wanted = job.chunking.strategy
    if not (isinstance(wanted, Topic) and wanted.fit == "corpus"):
        return job
    writable(job.output)
    keep(job.output, wanted, learnt(sample(job, wanted), wanted.topics, wanted.seed, wanted.language))
    return job.anew()


def sample(job: Any, strategy: Topic) -> list[str]:
    """Passages of the corpus, drawn by the strategy's seed from sources so drawn."""
    draw = np.random.default_rng(strategy.seed)
    listing = listed(job).sort_by("uri")
    drawn = listing.take(pa.array(np.sort(draw.permutation(len(listing))[:SOURCES])))
    columns = [drawn[f.name] if f.name in drawn.column_names else pa.nulls(len(drawn), f.type) for f in TODO]
    sources = pa.Table.from_arrays(columns, schema=TODO)
    cluster.connect(job.run.cpus)
    cluster.carry(job)
    task = ray.remote(num_cpus=1)(passages)
    most = max(OF_SOURCE, OF_CORPUS // max(1, len(sources)))
    asked = [
        task.remote(sources.slice(i, SHARE), read_only(job), strategy.language, most) for i in range(0, len(sources), SHARE)
    ]
    found = [passage for ref in asked for passage in ray.get(ref)]
    return [found[i] for i in np.sort(draw.permutation(len(found))[:OF_CORPUS]).tolist()]


def read_only(job: Any) -> Any:
    """A job that reads and parses as this one does, and leaves each document whole."""
    whole = {"strategy": "document", "unit": "chars", "size": WHOLE_MOST, "overlap": 0}
    run = job.run.model_copy(update={"part_size_mb": WHOLE_MOST >> 20})
    return job.model_copy(update={"chunk": ChunkSettings(**whole), "run": run, "embed": None, "llm": None}).anew()


def passages(sources: pa.Table, job: Any, language: str, most: int) -> list[str]:
    """Of each source up to twice so many passages of nine sentences, evenly spread over its documents."""
    return [p for source in sources.to_pylist() for p in spread(_passages(isolated([source], job), language), most)]


def spread(values: Iterable[str], most: int) -> list[str]:
    """Every first, second, fourth … of the values: as many as there are, or from `most` to twice that."""
    kept: list[str] = []
    step = 1
    for i, value in enumerate(values):
        if not i % step:
            kept.append(value)
        if len(kept) > 2 * most:
            kept, step = kept[::2], 2 * step
    return kept


def _passages(batches: Iterable[pa.Table], language: str) -> Iterator[str]:
    for batch in batches:
        for text in batch["text"].drop_null().to_pylist():
            found = sentences(text, language=language)
            for i in range(0, len(found), SENTENCES):
                yield " ".join(text[a:b] for a, b in found[i : i + SENTENCES])
