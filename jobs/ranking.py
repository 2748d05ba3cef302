"""Which chunks answer a question best: by vectors, by the vectors of their sentences too, by words, or by all of them.

Every way but plain vectors and plain words also looks at what stands around a chunk.

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
# How many chunks on either side lend a chunk some of their score, and how much (README, "Measured").
AROUND, LENT = 2, 0.125
RUNS = 3  # sentences in a row that are compared as one, at the most
# Words; where none are written apart (CJK) each character.
CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")


class Chunks(NamedTuple):
    """What is searched: the chunks' texts and vectors, float32 (n, dim), unit rows.

    `parts`: vectors of what they are made of, (m, dim), at least one for each chunk, in order; `firsts`: (n,), where those of
    each chunk begin. `held`: which of a larger set these chunks are, if they are not all of it; `leaves`: which its parts are.
    `lines`: (n,), of each chunk a number for its document and its level there; those with one number are in reading order.
    """

    texts: Sequence[str]
    vectors: Vectors
    parts: Vectors
    firsts: Offsets
    held: Offsets | None = None
    leaves: Offsets | None = None
    lines: Offsets | None = None


def lines_of(documents: Offsets, levels: Offsets) -> Offsets:
    """What `Chunks.lines` says, by the document of each chunk and its level."""
    found: Offsets = documents * (levels.max(initial=0) + 1) + levels
    return found


def flat(texts: Sequence[str], vectors: Vectors, lines: Offsets | None = None) -> Chunks:
    """Chunks without parts: each is its own."""
    return Chunks(texts, vectors, vectors, np.arange(len(texts)), lines=lines)


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
    lines = None if chunks.lines is None else chunks.lines[held]
    return Chunks(texts, chunks.vectors[held], chunks.vectors[leaves[by_owner]], firsts, held, leaves[by_owner], lines)


class Queries(NamedTuple):
    """Questions and their vectors: float32 (n, dim), unit rows."""

    texts: Sequence[str]
    vectors: Vectors


def by_vectors(chunks: Chunks, queries: Queries) -> Scores:
    """The cosine."""
    found: Scores = queries.vectors @ chunks.vectors.T
    return found


def with_sentences(chunks: Chunks, queries: Queries) -> Scores:
    """The cosine of the chunk, and those of the best one, two and three sentences in a row that it has a part in, added up."""
    return by_vectors(chunks, queries) + sum(best_run(chunks, queries, n) for n in range(1, RUNS + 1))


def best_run(chunks: Chunks, queries: Queries, n: int) -> Scores:
    """The cosine of the best `n` parts in a row of which the chunk holds one; there are fewer where a document ends.

    The vector of a run is the sum of theirs. Where nothing is said of documents, runs stay inside their chunks.
    """
    sizes = np.diff(chunks.firsts, append=len(chunks.parts))
    lines = np.arange(len(sizes)) if chunks.lines is None else chunks.lines
    by_line = np.argsort(lines, kind="stable")
    firsts = np.cumsum(sizes[by_line]) - sizes[by_line]
    owner = np.repeat(by_line, sizes[by_line])
    part = np.arange(len(owner)) - np.repeat(firsts - chunks.firsts[by_line], sizes[by_line])
    same = [lines[owner[far:]] == lines[owner[: len(owner) - far]] for far in range(n)]
    runs = chunks.parts[part]
    for far in range(1, n):
        runs[:-far] += chunks.parts[part[far:]] * same[far][:, None]
    of_runs = queries.vectors @ (runs / np.linalg.norm(runs, axis=1, keepdims=True)).T
    best = of_runs.copy()
    for far in range(1, n):
        best[:, far:] = np.maximum(best[:, far:], np.where(same[far], of_runs[:, :-far], -np.inf))
    found = np.empty((len(queries.vectors), len(sizes)), best.dtype)
    found[:, by_line] = np.maximum.reduceat(best, firsts, axis=1)
    return found


def by_sentences(chunks: Chunks, queries: Queries) -> Scores:
    """The chunk, its best sentences, and what stands around."""
    return around(chunks, with_sentences(chunks, queries))


def by_words(chunks: Chunks, queries: Queries) -> Scores:
    """BM25."""
    index = Words(chunks.texts)
    return np.stack([index.scores(text) for text in queries.texts])


def hybrid(chunks: Chunks, queries: Queries) -> Scores:
    """Vectors and words: the sum of z-scores over all chunks, those of the words at `WORDS_WEIGHT`; and what stands around."""
    return around(chunks, standard(by_vectors(chunks, queries)) + WORDS_WEIGHT * standard(by_words(chunks, queries)))


def full(chunks: Chunks, queries: Queries) -> Scores:
    """`hybrid` with the best sentences beside the chunk."""
    return around(chunks, standard(with_sentences(chunks, queries)) + WORDS_WEIGHT * standard(by_words(chunks, queries)))


def around(chunks: Chunks, scores: Scores) -> Scores:
    """The scores, and a part of those of the neighbours in the same document: an answer stands where the subject is its own.

    Of a neighbour counts what it has above the mean of all, so that a chunk loses nothing by standing alone.
    """
    if chunks.lines is None:
        return scores
    by_line = np.argsort(chunks.lines, kind="stable")
    lines = chunks.lines[by_line]
    above = (scores - scores.mean(axis=1, keepdims=True))[:, by_line]
    lent = np.zeros_like(above)
    for far in range(1, AROUND + 1):
        same = lines[far:] == lines[:-far]
        lent[:, far:] += above[:, :-far] * same
        lent[:, :-far] += above[:, far:] * same
    found = scores.copy()
    found[:, by_line] += LENT * lent
    return found


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
    lines = None if chunks.lines is None else chunks.lines[parents.leaves]
    leaves = flat([chunks.texts[i] for i in parents.leaves.tolist()], chunks.vectors[parents.leaves], lines)
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
