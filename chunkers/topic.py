"""Topics inside a document: sentences that belong together, wherever they stand."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import NOTHING, Budget, Document, Embed, Piece, Plan, Span, Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.lda import NAMED, WORD, Topics, how_many, of_document
from chunkmill.chunkers.pack import pack
from chunkmill.chunkers.similarity import SAME, Scores, units
from chunkmill.chunkers.structure import outline

Labels = npt.NDArray[np.int64]

SENTENCES = 9  # that a topic is taken to have where nobody says how many topics there are
MOST = 20  # topics of a document, where nobody says
FEW = 4  # a text of fewer sentences has one topic
SWITCH = 2.0  # what a change of topic costs, in median differences between a sentence's best topic and its second
STARTS, ROUNDS, SAMPLE = 4, 50, 8192  # of k-means: tries, steps of each, and the sentences it learns from
TIE = 1e-5  # paths of topics whose costs differ by less are equally good: repeated sentences make for ties


@dataclass(frozen=True, slots=True)
class Topic:
    """One chunk for each run of sentences on one topic; what is longer than the limit is packed by sentences.

    `kmeans`: topics are clusters of sentence vectors. `lda`: topics of latent Dirichlet allocation over the counts of words
    in each sentence and its neighbours; needs scikit-learn. `fit`: of this `document` alone, as in the articles, which is
    little text for `lda` to learn from, or once of the whole `corpus`: a run learns them before it cuts the first document, and
    keeps them with the dataset. `topics`: how many (default: one for 9 sentences of a document, from 2 to 20; for 90 of a
    corpus, from 2 to 50). `switch`: the price of a change of topic, in median differences between a sentence's best topic and
    its second (2): by it runs are contiguous, where a single sentence would stray. `seed`: of the random starts.

    The last step of a chunk's heading path is the topic: its number, in order of first appearance, and its words. A topic that
    comes back has several chunks with the same step. `gather`: it has one, as in the articles: each sentence goes to its own
    best topic, at no price, and a chunk is a topic's sentences from wherever they stand, as its spans say.
    """

    method: Literal["kmeans", "lda"] = "kmeans"
    fit: Literal["document", "corpus"] = "document"
    topics: int | None = None
    switch: float | None = None
    gather: bool = False
    seed: int = 0
    language: str = "en"

    def __post_init__(self) -> None:
        if self.topics is not None and self.topics < 1:
            raise ConfigError(f"chunk.topics is {self.topics}; it must be 1 or more")
        if self.switch is not None and not self.switch >= 0:
            raise ConfigError(f"chunk.switch is {self.switch}; it must be 0 or more")
        if self.switch is not None and self.gather:
            raise ConfigError(f"chunk.switch is {self.switch}, and chunk.gather lets every sentence change; drop one")
        if self.seed < 0:
            raise ConfigError(f"chunk.seed is {self.seed}; it must be 0 or more")
        if self.method == "lda" and importlib.util.find_spec("sklearn") is None:
            raise ConfigError("chunk.method is 'lda', which needs scikit-learn; pip install \"chunkmill[embed]\" brings it")

    @property
    def needs(self) -> frozenset[type]:
        """Vectors for `kmeans`, nothing for `lda`."""
        return frozenset({Embed}) if self.method == "kmeans" else NOTHING

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """Asks for the sentences' vectors once, if at all; returns pieces that fit, each with its topic in its path."""
        if self.fit == "corpus":
            raise ConfigError(
                "chunk.fit is 'corpus', and no topics are learnt yet: `chunkmill run` learns them and keeps them in its output"
            )
        parts = units(doc, budget, self.language)
        texts = [doc[p] for p in parts]
        labels = np.zeros(len(parts), np.int64)
        if (count := self._count(len(parts))) > 1:
            if self.method == "kmeans":
                vectors = yield Embed(texts)
                costs = distances_from(vectors, kmeans(vectors, count, self.seed))
            else:
                costs = of_document(texts, count, self.seed, doc.metadata.get("language", self.language))
            labels = numbered(cheapest_path(costs, self.price(costs)))
        return self.pieces(doc, parts, labels, names(texts, labels), budget)

    def _count(self, sentences: int) -> int:
        if sentences < FEW:
            return 1
        return min(sentences, self.topics or min(MOST, max(2, round(sentences / SENTENCES))))

    def pieces(
        self, doc: Document, parts: Sequence[Span], labels: Labels, called: Sequence[str], budget: Budget
    ) -> list[Piece]:
        """The sentences by their labels, each of which is `called` something."""
        return _gathered(parts, labels, called) if self.gather else _pieces(doc, parts, labels, called, budget)

    def price(self, costs: Scores) -> float:
        """What a change of topic costs."""
        if self.gather or costs.shape[1] < 2:
            return 0.0
        best = np.partition(costs, 1, axis=1)
        return (SWITCH if self.switch is None else self.switch) * float(np.median(best[:, 1] - best[:, 0]))


@dataclass(frozen=True, eq=False)
class Centres:
    """What a corpus is about, as clusters of sentence vectors. `vectors`: their centres, float32 (topics, dim)."""

    vectors: Vectors
    names: tuple[str, ...]

    @property
    def id(self) -> str:
        """A hash of all that decides a label."""
        return digest(*self.names, str(self.vectors.shape), self.vectors.tobytes().hex())

    def costs(self, vectors: Vectors) -> Scores:
        """How far each vector is from each centre, squared: (n, topics)."""
        return distances_from(vectors, self.vectors.astype(np.float64))


def clustered(texts: Sequence[str], vectors: Vectors, count: int | None, seed: int) -> Centres:
    """The topics of a corpus out of sentences from it and their vectors. One where there are none."""
    if not len(texts):
        return Centres(np.zeros((1, vectors.shape[1]), np.float32), ("topic 1",))
    centres = kmeans(vectors, count or how_many(len(texts) // SENTENCES), seed)
    labels = numbered(nearest := distances_from(vectors, centres).argmin(axis=1))
    _, first = np.unique(labels, return_index=True)
    return Centres(centres[nearest[first]].astype(np.float32), tuple(names(texts, labels)))


@dataclass(frozen=True, slots=True)
class Fitted:
    """`topic` with the topics of a corpus. They have the same number and name in all of its documents."""

    strategy: Topic
    topics: Topics | Centres

    @property
    def needs(self) -> frozenset[type]:
        """What the strategy needs."""
        return self.strategy.needs

    @property
    def gather(self) -> bool:
        """Whether a topic's sentences are put together."""
        return self.strategy.gather

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """Asks for the sentences' vectors where topics are clusters of them; returns pieces that fit, each with its topic."""
        parts = units(doc, budget, self.strategy.language)
        if not parts:
            return []
        texts = [doc[p] for p in parts]
        topics = self.topics
        costs = topics.costs((yield Embed(texts))) if isinstance(topics, Centres) else topics.costs(texts)
        labels = cheapest_path(costs, self.strategy.price(costs))
        return self.strategy.pieces(doc, parts, labels, self.topics.names, budget)


def _pieces(doc: Document, parts: Sequence[Span], labels: Labels, called: Sequence[str], budget: Budget) -> list[Piece]:
    headings = outline(doc)
    found = []
    for label, run in groupby(range(len(parts)), key=labels.tolist().__getitem__):
        for span in pack([parts[i] for i in run], budget):
            path = headings.of(doc.text, span.start, span.end) if headings.paths else ()
            found.append(Piece(span, path=(*path, called[label])))
    return found


def _gathered(parts: Sequence[Span], labels: Labels, called: Sequence[str]) -> list[Piece]:
    """A piece for each topic."""
    found = []
    for label in np.unique(labels).tolist():
        mine = tuple(parts[i] for i in np.flatnonzero(labels == label).tolist())
        found.append(Piece(Span(mine[0].start, mine[-1].end), kind="gathered", path=(called[label],), parts=mine))
    return found


def kmeans(vectors: Vectors, count: int, seed: int) -> Scores:
    """The best of four runs of Lloyd's algorithm from k-means++ seeds: (n, dim) → at most `count` distinct centres.

    Learns from at most 8192 vectors, evenly spread.
    """
    sample = vectors[:: -(-len(vectors) // SAMPLE)].astype(np.float64)
    draw = np.random.default_rng(seed)
    runs = [_lloyd(sample, _seeds(sample, count, draw)) for _ in range(STARTS)]
    spread = [float(distances_from(sample, centres).min(axis=1).mean()) for centres in runs]
    return next(centres for centres, mean in zip(runs, spread, strict=True) if mean <= min(spread) + SAME)


def _seeds(vectors: Scores, count: int, draw: np.random.Generator) -> Scores:
    """Centres for a start: each next one a vector drawn by its squared distance from the nearest so far (k-means++)."""
    centres = vectors[[draw.integers(len(vectors))]]
    while len(centres) < count:
        far = distances_from(vectors, centres).min(axis=1)
        far[far < SAME] = 0.0
        if not far.any():
            break
        centres = np.vstack([centres, vectors[draw.choice(len(vectors), p=far / far.sum())]])
    return centres


def _lloyd(vectors: Scores, centres: Scores) -> Scores:
    """Each centre moved to the mean of the vectors nearest to it, until none moves; one that has none stays."""
    nearest = np.full(len(vectors), -1)
    for _ in range(ROUNDS):
        far = distances_from(vectors, centres)
        now = (far <= far.min(axis=1, keepdims=True) + SAME).argmax(axis=1)
        if (now == nearest).all():
            break
        nearest = now
        centres = centres.copy()
        for k in np.unique(nearest):
            centres[k] = vectors[nearest == k].mean(axis=0)
    return centres


def distances_from(vectors: npt.NDArray[Any], centres: Scores) -> Scores:
    """Squared distances: (n, dim) and (k, dim) → (n, k)."""
    squares = (vectors.astype(np.float64) ** 2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    found: Scores = np.maximum(0.0, squares - 2 * (vectors @ centres.T))
    return found


def cheapest_path(costs: Scores, price: float) -> Labels:
    """The labels of least total cost, where each change costs the price (Viterbi): (n, k) → (n,).

    Of labels whose cost is the same within 1e-5 the lower one, and rather none than a change.
    """
    n, k = costs.shape
    back = np.empty((n, k), np.int32)
    total = costs[0].copy()
    for i in range(1, n):
        best = _lowest(total)
        change = total[best] + price
        back[i] = np.where(total <= change + TIE, np.arange(k), best)
        total = np.minimum(total, change) + costs[i]
    labels = np.zeros(n, np.int64)
    labels[-1] = _lowest(total)
    for i in range(n - 1, 0, -1):
        labels[i - 1] = back[i, labels[i]]
    return labels


def _lowest(costs: Scores) -> int:
    return int((costs <= costs.min() + TIE).argmax())


def numbered(labels: Labels) -> Labels:
    """The labels numbered from 0 in order of first appearance."""
    _, at, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.empty(len(at), np.int64)
    order[np.argsort(at)] = np.arange(len(at))
    found: Labels = order[inverse]
    return found


def names(texts: Sequence[str], labels: Labels) -> list[str]:
    """`topic 2: lamp, oil, keeper` for each label: its number from 1, and the words that tell it from the others.

    These are the words with the largest part in the divergence of the topic's words from the document's:
    count · log(share in the topic / share in the document).
    """
    counts = [Counter[str]() for _ in range(int(labels.max(initial=0)) + 1)]
    for text, label in zip(texts, labels.tolist(), strict=True):
        counts[label].update(w.casefold() for w in WORD.findall(text))
    whole = Counter[str]()
    for count in counts:
        whole += count
    return [": ".join(filter(None, (f"topic {i}", ", ".join(_telling(c, whole))))) for i, c in enumerate(counts, 1)]


def _telling(count: Counter[str], whole: Counter[str]) -> list[str]:
    ratio = whole.total() / max(1, count.total())
    scores = {word: n * log(n * ratio / whole[word]) for word, n in count.items()}
    return sorted((w for w, s in scores.items() if s > SAME), key=lambda w: (-scores[w], w))[:NAMED]
