"""Which chunks answer a question best: by vectors, by the vectors of their sentences too, by words, or by all of them.

Used by `search` and by `eval`. Exact, over everything: to look at what comes back and to compare, not to serve.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Offsets, Vectors
from chunkmill.chunkers.errors import choose

Scores: TypeAlias = npt.NDArray[np.floating]  # (questions, chunks)

K1, B = 1.2, 0.75  # as in Lucene
WORDS_WEIGHT = 0.4  # of BM25's z-score beside that of the vectors (NUMBERS.md)
# Words; where none are written apart (CJK) each character.
CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")


class Chunks(NamedTuple):
    """What is searched: the chunks' texts and vectors, float32 (n, dim), unit rows.

    `parts`: vectors of what they are made of, (m, dim), at least one for each chunk, in order; `firsts`: (n,), where those of
    each chunk begin. `held`: which of a larger set these chunks are, if they are not all of it; `leaves`: which its parts are.
    """

    texts: Sequence[str]
    vectors: Vectors
    parts: Vectors
    firsts: Offsets
    held: Offsets | None = None
    leaves: Offsets | None = None


def flat(texts: Sequence[str], vectors: Vectors) -> Chunks:
    """Chunks without parts: each is its own."""
    return Chunks(texts, vectors, vectors, np.arange(len(texts)))


def family(chunks: Chunks, ids: Sequence[str], parents: Sequence[str | None]) -> Chunks:
    """The chunks that hold leaves, with those as their parts, and the leaves that are in none: a small find, a large answer.

    Chunks further up are left out.
    """
    at = {name: i for i, name in enumerate(ids)}
    holders = {parent for parent in parents if parent}
    leaves = np.array([i for i, name in enumerate(ids) if name not in holders], np.int64)
    owners = np.array([at.get(parents[i] or "", i) for i in leaves.tolist()], np.int64)
    by_owner = np.argsort(owners, kind="stable")
    held, firsts = np.unique(owners[by_owner], return_index=True)
    texts = [chunks.texts[i] for i in held.tolist()]
    return Chunks(texts, chunks.vectors[held], chunks.vectors[leaves[by_owner]], firsts, held, leaves[by_owner])


class Queries(NamedTuple):
    """Questions and their vectors: float32 (n, dim), unit rows."""

    texts: Sequence[str]
    vectors: Vectors


def by_vectors(chunks: Chunks, queries: Queries) -> Scores:
    """The cosine."""
    found: Scores = queries.vectors @ chunks.vectors.T
    return found


def by_sentences(chunks: Chunks, queries: Queries) -> Scores:
    """The cosine of the chunk and that of its best sentence, added up."""
    best = np.maximum.reduceat(queries.vectors @ chunks.parts.T, chunks.firsts, axis=1)
    return by_vectors(chunks, queries) + best


def by_words(chunks: Chunks, queries: Queries) -> Scores:
    """BM25."""
    index = Words(chunks.texts)
    return np.stack([index.scores(text) for text in queries.texts])


def hybrid(chunks: Chunks, queries: Queries) -> Scores:
    """Vectors and words: the sum of z-scores over all chunks, those of the words at `WORDS_WEIGHT`."""
    return standard(by_vectors(chunks, queries)) + WORDS_WEIGHT * standard(by_words(chunks, queries))


def full(chunks: Chunks, queries: Queries) -> Scores:
    """`hybrid` with the best sentence beside the chunk."""
    return standard(by_sentences(chunks, queries)) + WORDS_WEIGHT * standard(by_words(chunks, queries))


class Mode(NamedTuple):
    """A way to rank, and what of `Chunks` it reads besides the texts."""

    scores: Callable[[Chunks, Queries], Scores]
    vectors: bool
    parts: bool


MODES: dict[str, Mode] = {
    "vectors": Mode(by_vectors, vectors=True, parts=False),
    "sentences": Mode(by_sentences, vectors=True, parts=True),
    "words": Mode(by_words, vectors=False, parts=False),
    "hybrid": Mode(hybrid, vectors=True, parts=False),
    "full": Mode(full, vectors=True, parts=True),
}


def of_parents(mode: Mode, chunks: Chunks, parents: Chunks, queries: Queries) -> tuple[Scores, Scores]:
    """The scores of parents (the `family` of the chunks), and of their leaves in their order.

    A parent has that of its best leaf, or by a mode that reads parts its own.
    """
    assert parents.leaves is not None
    leaves = flat([chunks.texts[i] for i in parents.leaves.tolist()], chunks.vectors[parents.leaves])
    of_leaves = mode.scores(leaves, queries)
    best = mode.scores(parents, queries) if mode.parts else np.maximum.reduceat(of_leaves, parents.firsts, axis=1)
    return best, of_leaves


def mode(name: str) -> Mode:
    """The mode of this name. Raises ConfigError."""
    if name not in MODES:
        raise choose("the kind of search", name, MODES)
    return MODES[name]


def order(scores: Scores) -> Offsets:
    """The chunks from best to worst, for each question: (questions, chunks). Of equal ones the first comes first."""
    found: Offsets = np.argsort(-scores, axis=1, kind="stable")
    return found


def standard(scores: Scores) -> Scores:
    """Z-scores of each row; a row of equal ones is all zero."""
    spread = scores.std(axis=1, keepdims=True)
    found: Scores = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    return found


class Words:
    """An inverted index with BM25's weights (Robertson and Zaragoza 2009; k1 1.2, b 0.75, idf as in Lucene).

    `weights` of `places` are those of one word after another; `begins`: where each word's are.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        found = [words(text) for text in texts]
        self.n = len(texts)
        self.vocabulary: dict[str, int] = {}
        ids = np.array([self.vocabulary.setdefault(w, len(self.vocabulary)) for w in chain.from_iterable(found)], np.int64)
        sizes = np.array([len(of_text) for of_text in found], np.int64)
        pairs, counts = np.unique(ids * self.n + np.repeat(np.arange(self.n), sizes), return_counts=True)
        self.places = pairs % max(1, self.n)
        self.begins = np.searchsorted(pairs, np.arange(len(self.vocabulary) + 1) * self.n)
        with_word = np.diff(self.begins)
        idf = np.log1p((self.n - with_word + 0.5) / (with_word + 0.5))
        norm = K1 * (1 - B + B * sizes / max(1.0, sizes.mean() if self.n else 1.0))
        self.weights = np.repeat(idf, with_word) * counts / (counts + norm[self.places])

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """The score of each text: (n,)."""
        found = np.zeros(self.n)
        for word in words(query):
            if (at := self.vocabulary.get(word)) is not None:
                among = slice(self.begins[at], self.begins[at + 1])
                found[self.places[among]] += self.weights[among]
        return found


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return WORD.findall(text.lower())
