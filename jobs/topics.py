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

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.errors import DocumentError, RunError
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.lda import Topics, learnt
from chunkmill.chunkers.seams import sentences
from chunkmill.chunkers.topic import SENTENCES, Centres, Topic, clustered
from chunkmill.io.corpus import fetch
from chunkmill.io.storage import Place, locate, new_file, writable
from chunkmill.jobs import backends, cluster
from chunkmill.jobs.isolation import isolated
from chunkmill.jobs.parts import WHOLE_MOST
from chunkmill.jobs.plan import TODO, listed
from chunkmill.jobs.settings import ChunkSettings

SOURCES = 1_000  # that are read for it, drawn at random
SHARE = 50  # sources that one task reads
OF_SOURCE, OF_CORPUS = 50, 10_000  # passages that are learnt from
OF_VECTORS = 4_096  # sentences whose vectors are: a minute of a CPU's time
AT_ONCE = 1_024  # of these that a task embeds at the least


def place(root: str, strategy: Topic, embedder: str) -> Place:
    """Where the topics for these settings are, or will be. `embedder`: what makes the vectors that they are clusters of."""
    settings = {name: value for name, value in asdict(strategy).items() if name in ("topics", "seed", "language")}
    settings |= {"embedder": embedder} if strategy.method == "kmeans" else {}
    return locate(root).child("_models").child(f"topics-{digest(json.dumps(settings, sort_keys=True))[:16]}.parquet")


def kept(root: str, strategy: Topic, embedder: str = "") -> Topics | Centres | None:
    """The topics that a run has learnt; None where none has."""
    here = place(root, strategy, embedder)
    try:
        found = pq.read_table(io.BytesIO(fetch(str(here))))
    except DocumentError as error:
        if error.kind == "vanished":
            return None
        raise RunError(f"the topics of the corpus can't be read: {error.message}") from error
    names, rows = tuple(found.column(0).to_pylist()), [np.frombuffer(row, np.float32) for row in found.column(1).to_pylist()]
    if strategy.method == "kmeans":
        return Centres(np.stack(rows), names)
    return Topics(names, np.stack(rows, axis=1) if rows else np.ones((1, 0), np.float32))


def keep(root: str, strategy: Topic, topics: Topics | Centres, embedder: str = "") -> None:
    """Write them, whole or not at all: of each word its shares, or of each topic its centre."""
    if isinstance(topics, Centres):
        columns = {"topic": pa.array(topics.names, pa.string()), "centre": [row.tobytes() for row in topics.vectors]}
    else:
        columns = {"word": pa.array(topics.words, pa.string()), "shares": [row.tobytes() for row in topics.weights.T]}
    with new_file(place(root, strategy, embedder)) as path:
        pq.write_table(pa.table(columns), path, compression="zstd")


def ready(job: Any) -> Any:
    """The job with the topics that its strategy wants; those that are not kept yet are learnt from the corpus now."""
    wanted = job.chunking.strategy
    if not (isinstance(wanted, Topic) and wanted.fit == "corpus"):
        return job
    writable(job.output)
    passages = sample(job, wanted)
    if wanted.method == "kmeans":
        keep(job.output, wanted, of_vectors(job, wanted, passages), job.embedder)
    else:
        keep(job.output, wanted, learnt(passages, wanted.topics, wanted.seed, wanted.language))
    return job.anew()


def of_vectors(job: Any, strategy: Topic, passages: list[str]) -> Centres:
    """Clusters of the vectors of sentences in these passages, evenly drawn."""
    texts = list(dict.fromkeys(p[a:b] for p in passages for a, b in sentences(p, language=strategy.language)))
    texts = texts[:: -(-len(texts) // OF_VECTORS) or 1]
    actors, share, device, threads = cluster.pool(cluster.connect(job.run.cpus), max(1, len(texts) // AT_ONCE), job)
    task = ray.remote(max_calls=1, **share)(embedded)  # a process that has loaded a model is not to stay
    slices = np.array_split(np.arange(len(texts)), int(actors.max_size))
    asked = [task.remote(job, device, threads, [texts[i] for i in part.tolist()]) for part in slices]
    return clustered(texts, np.concatenate(ray.get(asked)), strategy.topics, strategy.seed)


def embedded(job: Any, device: str | None, threads: int | None, texts: list[str]) -> Vectors:
    """The vectors of texts, by a model that is loaded for them."""
    vectors: Vectors = backends.load(job.embedding, job.model, device=device, threads=threads).embed(texts)
    return vectors


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
