"""Exact search over the vectors of a dataset: to look at what comes back, not to serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io import recipes, table
from chunkmill.jobs.models import BACKENDS, resolve

SHOWN = ["chunk_id", "uri", "heading_path", "page_start", "start", "end", "text", "recipe"]


class Hit(NamedTuple):
    """A chunk that was found; `score` is the cosine to the query."""

    score: float
    chunk_id: str
    uri: str
    heading_path: list[str]
    page: int | None
    start: int
    end: int
    text: str


def search(dataset: str, query: str, k: int = 5) -> list[Hit]:
    """The k chunks nearest to the query, best first, by every vector of the dataset.

    Raises ConfigError where there is no dataset, no vectors, or vectors of more than one model.
    """
    if table.version(dataset, "chunks") is None:
        raise ConfigError(f"there is no dataset at {dataset!r}; make one with: chunkmill run INPUT {dataset}")
    if not query.strip():
        raise ConfigError("the query is empty; say what to look for")
    model = resolve(_model(dataset))
    vector = BACKENDS["sentence-transformers"](model).embed([query])[0]
    best = top(table.batches(dataset, "chunks", [*SHOWN, "vector"]), vector, k)
    return [_hit(score, row) for score, row in best]


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


def _model(dataset: str) -> str:
    described = [recipes.load(dataset, recipe) for recipe in _recipes(dataset)]
    if not described:
        raise ConfigError(f"{dataset} holds no chunks; there is nothing to search")
    models = {d["embed"]["model"] for d in described if d["embed"]}
    if not models:
        raise ConfigError(f"{dataset} holds no vectors: it was made without embedding; run again without --no-embed")
    if len(models) > 1:
        raise ConfigError(f"{dataset} holds vectors of several models ({', '.join(sorted(models))}): run one job over all")
    return str(models.pop())


def _recipes(dataset: str) -> Iterator[str]:
    found = table.read(dataset, "chunks", ["recipe"])["recipe"].unique()
    return iter(found.to_pylist())


def _hit(score: float, row: dict[str, Any]) -> Hit:
    where = (row["heading_path"] or [], row["page_start"], row["start"], row["end"])
    return Hit(score, row["chunk_id"], row["uri"], *where, row["text"])
