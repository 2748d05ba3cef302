"""Topics as words that go together: latent Dirichlet allocation over one document, or learnt once from a whole corpus."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.similarity import Scores

WORD = re.compile(r"[^\W\d_]{3,}")
NAMED = 3  # words that name a topic
WORDS = 10_000  # of a corpus, the most frequent ones
PASSAGES, MOST = 10, 50  # passages that a topic of a corpus is taken to have, and its topics, where nobody says how many
TOPIC_PRIOR, WORD_PRIOR = 0.1, 0.01
ROUNDS, SLAB = 30, 64  # steps to the shares of topics in a text; texts at once
LEAST = 1e-9  # of a share that a logarithm is taken of


def of_document(texts: Sequence[str], count: int, seed: int, language: str = "en") -> Scores:
    """How ill each topic of these texts alone suits each of them: −log of its share, (n, count).

    A text is counted together with the one before and the one behind. One topic where no word is left to count.
    """
    try:
        counts = _counter(language, max_df=0.9).fit_transform(blocks(texts))
    except ValueError:  # an empty vocabulary
        return np.zeros((len(texts), 1))
    shares: Scores = _allocation(count, seed).fit_transform(counts)
    return -np.log(shares + LEAST)


def learnt(passages: Sequence[str], count: int | None, seed: int, language: str = "en") -> Topics:
    """The topics of a corpus out of passages from it. No words where too few come again. Costs seconds to minutes."""
    counter = _counter(language, max_df=0.5, max_features=WORDS)
    try:
        counts = counter.fit_transform(passages)
    except ValueError:
        return Topics((), np.ones((1, 0), np.float32))
    weights = _allocation(count or how_many(len(passages)), seed).fit(counts).components_
    shares = weights / weights.sum(axis=1, keepdims=True)
    return Topics(tuple(counter.get_feature_names_out().tolist()), shares.astype(np.float32))


def how_many(passages: int) -> int:
    """The topics that a corpus is taken to have where nobody says how many."""
    return min(MOST, max(2, passages // PASSAGES))


def _counter(language: str, **options: Any) -> Any:
    words = importlib.import_module("sklearn.feature_extraction.text")
    stop = "english" if language == "en" else None
    return words.CountVectorizer(stop_words=stop, min_df=2, token_pattern=WORD.pattern, **options)


def _allocation(count: int, seed: int) -> Any:
    model = importlib.import_module("sklearn.decomposition")
    priors = {"doc_topic_prior": TOPIC_PRIOR, "topic_word_prior": WORD_PRIOR}
    return model.LatentDirichletAllocation(count, learning_method="batch", max_iter=20, random_state=seed, **priors)


def blocks(texts: Sequence[str]) -> list[str]:
    """Each text with the one before and the one behind."""
    return [" ".join(texts[max(0, i - 1) : i + 2]) for i in range(len(texts))]


@dataclass(frozen=True, eq=False)
class Topics:
    """What a corpus is about. `weights`: the share of each of the `words` in each topic, float32 (topics, words)."""

    words: tuple[str, ...]
    weights: Vectors

    @property
    def id(self) -> str:
        """A hash of all that decides a label."""
        return digest(*self.words, str(self.weights.shape), self.weights.tobytes().hex())

    @property
    def names(self) -> list[str]:
        """`topic 7: lamp, oil, keeper` for each: its number from 1, and the words with the largest part in what tells it from
        the corpus: share · log(share / mean share).
        """
        telling = self.weights * np.log(np.maximum(self.weights, LEAST) / np.maximum(self.weights.mean(axis=0), LEAST))
        best = np.argsort(-telling, axis=1, kind="stable")[:, :NAMED].tolist()
        said = [", ".join(self.words[w] for w in several) for several in best]
        return [": ".join(filter(None, (f"topic {i}", words))) for i, words in enumerate(said, 1)]

    def costs(self, texts: Sequence[str]) -> Scores:
        """How ill each topic suits each text: −log of its share in it and its neighbours, (n, topics)."""
        counts = [Counter(filter(None, map(self._numbers.get, WORD.findall(b.lower())))) for b in blocks(texts)]
        found = [self._shares(counts[i : i + SLAB]) for i in range(0, len(counts), SLAB)]
        return -np.log(np.concatenate([np.empty((0, len(self.weights))), *found]) + LEAST)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words, 1)}  # 0 stands for no word

    def _shares(self, counts: Sequence[Counter[int]]) -> Scores:
        """Of each text the shares of the topics that make its words most likely, given the topics: (n, topics).

        Each step gives a word to the topics by their shares so far, and counts what each got (EM: Hofmann's folding-in, with
        the prior that the topics were learnt under).
        """
        longest = max(1, *map(len, counts)) if counts else 1
        numbers, often = np.zeros((len(counts), longest), np.int64), np.zeros((len(counts), longest))
        for i, count in enumerate(counts):
            numbers[i, : len(count)], often[i, : len(count)] = list(count.keys()), list(count.values())
        table = np.vstack([np.ones(len(self.weights)), self.weights.T.astype(np.float64)])[numbers]
        shares = np.full((len(counts), len(self.weights)), 1 / len(self.weights))
        for _ in range(ROUNDS):
            likely = (table @ shares[:, :, None])[:, :, 0]
            shares = TOPIC_PRIOR + shares * ((often / likely)[:, None, :] @ table)[:, 0, :]
            shares /= shares.sum(axis=1, keepdims=True)
        return shares
