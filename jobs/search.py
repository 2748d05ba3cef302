"""Exact search over the vectors of a dataset: to look at what comes back, not to serve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io import recipes, table
from chunkmill.jobs import backends, ranking
from chunkmill.jobs.settings import EmbedSettings

SHOWN = ["chunk_id", "parent_id", "uri", "heading_path", "page_start", "start", "end", "text", "recipe"]


class Leaf(NamedTuple):
    """A chunk inside the one that was found, and its own score."""

    score: float
    chunk_id: str
    start: int
    end: int
    text: str


class Hit(NamedTuple):
    """A chunk that was found; `score` is the cosine to the query, or what `mode` makes of it.

    `parent_id`: the chunk around it, in a hierarchy. `leaves`: of a parent that was found by them, best first.
    """

    score: float
    chunk_id: str
    uri: str
    heading_path: list[str]
    page: int | None
    start: int
    end: int
    text: str
    parent_id: str | None = None
    leaves: tuple[Leaf, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """With names everywhere."""
        return self._asdict() | {"leaves": [leaf._asdict() for leaf in self.leaves]}


def search(dataset: str, query: str, k: int = 5, mode: str = "vectors", *, parents: bool = False) -> list[Hit]:
    """The k chunks nearest to the query, best first, by every vector of the dataset. `mode`: one of `ranking.MODES`; by
    `words` those that hold none are not found.

    `parents`: of a hierarchy the k chunks that hold the best leaves, each once, however many of its leaves are near; a leaf
    without a parent is its own.

    Raises ConfigError where there is no dataset, no vectors, or vectors of more than one model, and where a mode that compares
    parts finds no chunk that has any.
    """
    if table.version(dataset, "chunks") is None:
        raise table.absent(dataset)
    if not query.strip():
        raise ConfigError("the query is empty; say what to look for")
    chosen = ranking.mode(mode)
    if not chosen.vectors:
        return ranked(dataset, query, np.empty(0, np.float32), k, chosen, parents=parents)
    embed = _embedder(dataset)
    if chosen.parts and not pc.any(table.read(dataset, "chunks", ["parent_id"])["parent_id"].is_valid()).as_py():
        raise ConfigError(
            f"no chunk of {dataset} has smaller ones inside, and the mode {mode} compares those: search it with --mode hybrid, "
            "or make it with the strategy hierarchical"
        )
    vector = backends.load(embed, backends.backend(embed.backend).find(embed), query=True).embed([query])[0]
    if mode != "vectors" or parents:
        return ranked(dataset, query, vector, k, chosen, parents=parents)
    best = top(table.batches(dataset, "chunks", [*SHOWN, "vector"]), vector, k)
    return [_hit(score, row) for score, row in best]


def ranked(dataset: str, query: str, vector: Vectors, k: int, mode: ranking.Mode, *, parents: bool = False) -> list[Hit]:
    """The k best chunks by a way that needs all of them at once: float32 (dim,). Costs the memory of their texts and vectors.

    Of a hierarchy those are found that hold the leaves where the mode reads parts, or with `parents`.
    """
    found, chunks = _read(dataset, mode)
    if not len(found):
        return []
    queries = ranking.Queries([query], vector[None])
    whole = (
        ranking.family(chunks, *(found[c].to_pylist() for c in ("chunk_id", "parent_id"))) if parents or mode.parts else chunks
    )
    scores, of_leaves = ranking.of_parents(mode, chunks, whole, queries) if parents else (mode.scores(whole, queries), None)
    best = ranking.order(scores)[0][:k]
    best = best if mode.vectors else best[scores[0][best] > 0]
    rows = found.select(SHOWN).take(best if whole.held is None else whole.held[best]).to_pylist()
    hits = [_hit(float(score), row) for score, row in zip(scores[0][best], rows, strict=True)]
    if of_leaves is None:
        return hits
    return [hit._replace(leaves=_leaves(found, whole, of_leaves[0], int(at))) for hit, at in zip(hits, best, strict=True)]


def _read(dataset: str, mode: ranking.Mode) -> tuple[pa.Table, ranking.Chunks]:
    """All chunks that the mode can find, in reading order."""
    found = table.read(dataset, "chunks", [*SHOWN, "doc_id", "level", "context", *(["vector"] if mode.vectors else [])])
    found = found.filter(found["vector"].is_valid()) if mode.vectors else found
    found = found.sort_by([(name, "ascending") for name in ("doc_id", "level", "start", "chunk_id")])
    vectors = np.empty((len(found), 0), np.float32)
    if mode.vectors and len(found):
        vectors = found["vector"].combine_chunks().flatten().to_numpy().reshape(len(found), -1)
    texts = [f"{context}\n{text}" for context, text in zip(*(found[c].to_pylist() for c in ("context", "text")), strict=True)]
    documents, levels = np.unique(found["doc_id"].to_numpy(), return_inverse=True)[1], found["level"].to_numpy()
    return found, ranking.flat(texts, vectors, ranking.lines_of(documents, levels))


def _leaves(found: pa.Table, parents: ranking.Chunks, scores: ranking.Scores, at: int) -> tuple[Leaf, ...]:
    """Those of one parent, best first; none where it is a leaf itself. `scores`: of all leaves, (leaves,)."""
    assert parents.held is not None
    assert parents.leaves is not None
    end = parents.firsts[at + 1] if at + 1 < len(parents.firsts) else len(parents.leaves)
    inside = np.arange(parents.firsts[at], end)
    if parents.leaves[inside[0]] == parents.held[at]:
        return ()
    inside = inside[np.argsort(-scores[inside], kind="stable")]
    rows = found.select(Leaf._fields[1:]).take(parents.leaves[inside]).to_pylist()
    return tuple(Leaf(float(score), **row) for score, row in zip(scores[inside], rows, strict=True))


def top(batches: Iterable[pa.RecordBatch], query: Vectors, k: int) -> list[tuple[float, dict[str, Any]]]:
    """The k rows whose `vector` has the largest dot product with the query: float32 (dim,); ties by chunk_id."""
    best: list[tuple[float, dict[str, Any]]] = []
    for batch in batches:
        batch = batch.filter(batch["vector"].is_valid())
        vectors = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
        scores = vectors @ query if len(batch) else np.empty(0, np.float32)
        nearest = np.argsort(-scores, kind="stable")[:k]
        best += [(float(scores[i]), batch.slice(i, 1).drop_columns(["vector"]).to_pylist()[0]) for i in nearest]
        best = sorted(best, key=lambda hit: (-hit[0], hit[1]["chunk_id"]))[:k]
    return best


def _embedder(dataset: str) -> EmbedSettings:
    """What made the dataset's vectors, if it is one thing and can still be had."""
    used = table.read(dataset, "chunks", ["recipe", "embedder"]).group_by(["recipe", "embedder"]).aggregate([]).to_pylist()
    if not used:
        raise ConfigError(f"{dataset} holds no chunks; there is nothing to search")
    described = {row["embedder"]: recipes.load(dataset, row["recipe"])["embed"] for row in used if row["embedder"]}
    if not described:
        raise ConfigError(
            f"{dataset} holds no vectors: it was made without embedding. Search it with --mode words, or run its job with an "
            "embedding model"
        )
    if len(described) > 1:
        names = ", ".join(sorted(f"{known['model']} ({embedder})" for embedder, known in described.items()))
        raise ConfigError(f"{dataset} holds vectors of several models or settings ({names}): run one job over all")
    ((embedder, known),) = described.items()
    embed = EmbedSettings.model_validate({name: known[name] for name in EmbedSettings.model_fields if name in known})
    return _unchanged(dataset, embed, embedder)


def _unchanged(dataset: str, embed: EmbedSettings, embedder: str) -> EmbedSettings:
    found = backends.backend(embed.backend).find(embed)
    exact = embed.model_copy(update={"dtype": "float32"})  # of a strategy that asks the model
    if embedder not in (backends.embedder(embed, found), backends.embedder(exact, found)):
        raise ConfigError(
            f"the vectors of {dataset} were made by another revision of {embed.model} than the one that is here: queries would "
            "not be comparable. Run the job again"
        )
    return embed


def _hit(score: float, row: dict[str, Any]) -> Hit:
    where = (row["heading_path"] or [], row["page_start"], row["start"], row["end"])
    return Hit(score, row["chunk_id"], row["uri"], *where, row["text"], row["parent_id"])
