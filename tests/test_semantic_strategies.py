"""Strategies that follow the meaning: semantic, clusters, topic."""

import hashlib
import importlib.util
import itertools
import random
import re
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.base import Block, Budget, Document, Embed, Piece, Span
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.optimal import cheapest, deviation
from chunkmill.chunkers.semantic import densest, grouped, turns
from chunkmill.chunkers.similarity import depths, distances, peaks, sparseness, units
from chunkmill.chunkers.strategies import strategy
from chunkmill.chunkers.topic import cheapest_path, kmeans, names, numbered
from vocabulary import Bytes

METHODS = ["density", "depth", "percentile", "standard_deviation", "interquartile", "gradient", "mean_drop", "centroid"]
FOLLOWING = [("semantic", {"method": m}) for m in METHODS] + [("clusters", {}), ("topic", {}), ("topic", {"gather": True})]
IDS = ["-".join([name, *map(str, options.values())]) for name, options in FOLLOWING]

TOPICS = {
    "sea": ["harbour", "tide", "sail", "anchor", "captain", "wave", "deck", "storm", "reef", "mast", "keel"],
    "bread": ["flour", "dough", "oven", "yeast", "crust", "loaf", "baker", "salt", "knead", "rise", "crumb"],
    "stars": ["comet", "orbit", "planet", "lens", "galaxy", "moon", "eclipse", "telescope", "nebula", "dust", "light"],
    "law": ["court", "judge", "statute", "appeal", "verdict", "witness", "clause", "contract", "oath", "plea", "jury"],
    "garden": ["soil", "seed", "root", "leaf", "pruning", "compost", "frost", "bloom", "hedge", "spade", "mulch"],
}
COMMON = ["the", "of", "and", "was", "with", "from", "that", "which", "under", "over"]


def hashed(text, size=32):
    """A vector of so many numbers from the text's hash, of unit length."""
    v = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=size).digest(), np.uint8).astype(np.float32) - 127.5
    return v / np.linalg.norm(v)


def bag(text):
    """The sum of its words' vectors, of unit length: texts that share words are alike, as with a real model."""
    v = sum(hashed(w.strip(".#"), 64) for w in text.lower().split())
    return v / np.linalg.norm(v)


def answered(vector):
    return {Embed: lambda texts: np.stack([vector(t) for t in texts])}


BAG = answered(bag)


def sentence(draw, topic):
    words = draw.sample(TOPICS[topic], 6) + draw.sample(COMMON, 3)
    draw.shuffle(words)
    return " ".join(words).capitalize() + "."


def planted(seed, segments=6, lengths=(5, 12)):
    """The sentences of a text whose topic changes, and the numbers of those with which a new one begins."""
    draw = random.Random(seed)
    topics = [draw.choice(sorted(TOPICS))]
    while len(topics) < segments:
        topics.append(draw.choice([t for t in sorted(TOPICS) if t != topics[-1]]))
    sizes = [draw.randint(*lengths) for _ in topics]
    found = [sentence(draw, topic) for topic, n in zip(topics, sizes, strict=True) for _ in range(n)]
    return found, list(itertools.accumulate(sizes))[:-1]


def boundaries(chunks, sentences):
    starts = list(itertools.accumulate((len(s) + 1 for s in sentences), initial=0))
    return [starts.index(c.start) for c in chunks[1:]]


def pk(true, found, n):
    """Beeferman, Berger and Lafferty (1999): how often a probe of half a segment's length is told wrong."""
    k = max(2, round(n / (len(true) + 1) / 2))
    label = [np.searchsorted(sorted(cuts), np.arange(n), "right") for cuts in (true, found)]
    wrong = [(label[0][i] == label[0][i + k]) != (label[1][i] == label[1][i + k]) for i in range(n - k)]
    return sum(wrong) / len(wrong)


def mean_pk(name, options, seeds=range(12)):
    scores = []
    for seed in seeds:
        sentences, true = planted(seed)
        chunks = chunk(" ".join(sentences), name, size=1000, unit="words", answers=BAG, **options)
        scores.append(pk(true, boundaries(chunks, sentences), len(sentences)))
    return sum(scores) / len(scores)


def whole(n, limit=1000):
    """Parts of one unit each, and a budget for them."""
    return [Span(i, i + 1) for i in range(n)], Budget(limit, None, n, limit)


def unit_rows(rows):
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


rows = (
    st.integers(2, 9)
    .flatmap(lambda n: st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3).filter(any), min_size=n, max_size=n))
    .map(unit_rows)
)


# --- LangChain's four

# langchain-experimental 0.4.2, SemanticChunker with `hashed` as its model, on "Sentence 0 of n. Sentence 1 of n. …" for n of
# 1, 2, 3, 5, 12 and 40: the sentences that begin a chunk.
LANGCHAIN = {
    ("percentile", 95, 0): [[], [], [2], [3], [2], [22, 39]],
    ("percentile", 95, 1): [[], [], [1], [3], [11], [12, 34]],
    ("percentile", 80.5, 0): [[], [], [2], [3], [2, 7], [5, 9, 13, 21, 22, 36, 38, 39]],
    ("percentile", 80.5, 1): [[], [], [1], [3], [8, 11], [9, 12, 17, 18, 25, 29, 34, 36]],
    ("standard_deviation", 3, 0): [[], [], [], [], [], []],
    ("standard_deviation", 1, 0): [[], [], [], [3], [2, 7], [5, 9, 13, 21, 22, 36, 39]],
    ("standard_deviation", 0.5, 1): [[], [], [1], [3], [2, 7, 8, 9, 11], [6, 9, 12, 17, 18, 25, 27, 28, 29, 33, 34, 35, 36]],
    ("interquartile", 1.5, 0): [[], [], [], [], [2], []],
    ("interquartile", 1.5, 1): [[], [], [], [3], [], []],
    ("interquartile", 0.5, 0): [[], [], [2], [3], [2, 3, 7, 8], [5, 9, 12, 13, 21, 22, 26, 30, 36, 38, 39]],
    ("gradient", 95, 0): [[], [1], [], [2], [1], [4, 21]],
    ("gradient", 95, 1): [[], [1], [], [2], [11], [16, 22]],
    ("gradient", 80, 0): [[], [1], [], [2], [1, 2], [4, 8, 11, 20, 21, 25, 28, 38]],
    ("gradient", 80, 1): [[], [1], [], [2], [6, 11], [9, 11, 16, 22, 25, 31, 33, 38]],
}


@pytest.mark.parametrize(("method", "amount", "buffer"), LANGCHAIN)
def test_breakpoints_are_those_of_langchain(method, amount, buffer):
    found = []
    for n in (1, 2, 3, 5, 12, 40):
        sentences = [f"Sentence {i} of {n}." for i in range(n)]
        options = {"method": method, "amount": amount, "buffer": buffer}
        chunks = chunk(" ".join(sentences), "semantic", size=5000, unit="chars", answers=answered(hashed), **options)
        found.append(boundaries(chunks, sentences))

    assert found == LANGCHAIN[method, amount, buffer]


def published(vectors, method, amount):
    """The formulas of langchain-experimental 0.4.2, and how far each seam is from its threshold."""
    v = vectors.astype(np.float64)
    cosines = (v @ v.T) / np.outer(np.linalg.norm(v, axis=1), np.linalg.norm(v, axis=1))
    d = [1 - cosines[i, i + 1] for i in range(len(v) - 1)]
    if method == "percentile":
        return np.array(d) - np.percentile(d, amount)
    if method == "standard_deviation":
        return np.array(d) - (np.mean(d) + amount * np.std(d))
    if method == "interquartile":
        q1, q3 = np.percentile(d, [25, 75])
        return np.array(d) - (np.mean(d) + amount * (q3 - q1))
    g = np.gradient(d, range(len(d)))
    return g - np.percentile(g, amount)


@given(
    vectors=rows.filter(lambda v: len(v) > 2),
    method=st.sampled_from(["percentile", "standard_deviation", "interquartile", "gradient"]),
    amount=st.sampled_from([0.0, 0.5, 1.5, 3.0, 50.0, 95.0]),
)
@settings(max_examples=300, deadline=None)
def test_the_published_formulas_hold_for_any_vectors(vectors, method, amount):
    above = published(vectors, method, amount)

    found = turns(vectors, method, amount)

    assert {i + 1 for i in np.flatnonzero(above > 1e-5)} <= set(found) <= {i + 1 for i in np.flatnonzero(above > 0)}


# --- semantic, the other methods

A, B, C = np.eye(3, dtype=np.float32)


def test_depth_is_the_climb_to_the_peaks_on_both_sides():
    found = depths(np.stack([A, A, A, B, B, B]))

    one, two = 1 / np.sqrt(5), 2 / np.sqrt(5)  # cosines of a + 2b and of 2a + b to a
    assert found == pytest.approx([0, two - one, 2 * two, two - one, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([0, 1, 1, 0], [1]), ([2, 1, 2], [0, 2]), ([1], [0]), ([3, 2, 1], [0]), ([1, 2, 3], [2])],
)
def test_of_equal_peaks_in_a_row_the_first_counts(scores, expected):
    assert np.flatnonzero(peaks(np.array(scores, float))).tolist() == expected


def test_a_drop_below_the_mean_ends_a_chunk_once_it_holds_50_units():
    text = ("lamp " * 29 + "lamp. ").capitalize() * 2 + ("bread " * 29 + "bread. ").capitalize() * 3

    (first, second) = chunk(text, "semantic", size=500, unit="words", method="mean_drop", answers=BAG)
    (early,) = chunk(text.replace("lamp ", "", 40), "semantic", size=500, unit="words", method="mean_drop", answers=BAG)

    assert (first.n_tokens, second.n_tokens) == (60, 90)
    assert early.n_tokens == 110, "its first turn comes after 20 units, and there is no other"


def test_a_sentence_far_from_the_mean_of_the_chunk_so_far_begins_a_new_one():
    angles = [0, 0, 0, 30, 45, 46]  # degrees; the mean of the first four is 7.4
    vectors = [np.array([np.cos(a), np.sin(a)], np.float32) for a in np.radians(angles)]
    text = " ".join(f"Sentence {i}." for i in range(6))

    chunks = chunk(text, "semantic", method="centroid", amount=0.8, answers={Embed: lambda texts: np.stack(vectors)})

    assert [c.text for c in chunks] == ["Sentence 0. Sentence 1. Sentence 2. Sentence 3.", "Sentence 4. Sentence 5."]


def groupings(n):
    for k in range(n):
        for cuts in itertools.combinations(range(1, n), k):
            yield list(itertools.pairwise([0, *cuts, n]))


def density(vectors, groups):
    """The sum over the groups of Σ (similarity − mean) over their pairs / n^0.6, from its definition."""
    n = len(vectors)
    similar = vectors.astype(float) @ vectors.T.astype(float)
    mean = (similar.sum() - np.trace(similar)) / (n * (n - 1))
    total = 0.0
    for a, b in groups:
        pairs = [similar[i, j] - mean for i in range(a, b) for j in range(a, b) if i != j]
        total += sum(pairs) / (b - a) ** 0.6
    return total


@given(vectors=rows, price=st.sampled_from([0.1, 0.4, 2.0]), limit=st.sampled_from([3, 1000]))
@settings(max_examples=100, deadline=None)
def test_no_other_grouping_is_denser(vectors, price, limit):
    n = len(vectors)
    parts, room = whole(n, limit)

    def cost(groups):
        return price * len(groups) - density(vectors, groups)

    found = densest(parts, vectors, room, price)

    best = min(cost(g) for g in groupings(n) if all(b - a <= limit for a, b in g))
    assert cost(list(itertools.pairwise([0, *found, n]))) == pytest.approx(best, abs=1e-4)


def test_a_turn_ends_no_chunk_below_the_smallest_size():
    parts, room = whole(8, 5)

    def sizes(least):
        return [b - a for a, b in grouped(parts, lambda first, i: i in (1, 3, 7), room, least)]

    assert sizes(0) == [1, 2, 4, 1]
    assert sizes(2) == [3, 5], "the last one goes with the one before"
    assert sizes(4) == [5, 3], "the limit is harder than the smallest size"


def test_a_smallest_size_above_the_size_is_refused():
    with pytest.raises(ConfigError, match=r"chunk\.min_size is 90 with chunk\.size 80; it must be from 0"):
        chunk("Some text.", "semantic", size=80, min_size=90, answers=BAG)


# --- clusters


@given(vectors=rows, target=st.sampled_from([0.3, 0.7]), weight=st.sampled_from([0.1, 0.5, 3.0]))
@settings(max_examples=100, deadline=None)
def test_no_other_grouping_costs_less_in_size_seams_and_meaning(vectors, target, weight):
    n, limit = len(vectors), 6
    parts, room = whole(n, limit)
    prices = np.array([0.0, *itertools.islice(itertools.cycle([0.5, 0.2, 0.0]), n - 1)])

    def cost(groups):
        sizes = deviation(limit, 0, target)
        return sum(prices[a] + sizes[b - a] for a, b in groups) - weight * density(vectors, groups)

    found = cheapest(parts, prices, room, target, lambda first: (weight * s for s in sparseness(vectors, first)))

    best = min(cost(g) for g in groupings(n) if all(b - a <= limit for a, b in g))
    assert cost(found) == pytest.approx(best, abs=1e-4)


def test_clusters_without_weight_go_by_size_and_seams_alone():
    sentences, _ = planted(3)
    text = "\n".join(sentences)
    same = {Embed: lambda texts: unit_rows(np.ones((len(texts), 2)))}

    def cuts(answers=BAG, **options):
        return [(c.start, c.end) for c in chunk(text, "clusters", size=60, unit="words", answers=answers, **options)]

    assert cuts(weight=0.0) == cuts(same, weight=0.0) != cuts()


def test_a_blank_line_decides_where_the_meaning_does_not():
    text = "Lamp oil lamp. Lamp oil lamp.\n\nLamp oil lamp. Lamp oil lamp. Lamp oil lamp."

    chunks = chunk(text, "clusters", size=9, unit="words", target=1.0, answers=BAG)

    assert [c.n_tokens for c in chunks] == [6, 9]


# --- topic


def test_a_topic_that_comes_back_has_its_number_again():
    draw = random.Random(5)
    order = ["sea"] * 6 + ["bread"] * 6 + ["sea"] * 6
    text = " ".join(sentence(draw, topic) for topic in order)

    chunks = chunk(text, "topic", size=200, unit="words", topics=2, answers=BAG)

    first, second, third = (c.heading_path[-1] for c in chunks)
    assert [first[:9], second[:9]] == ["topic 1: ", "topic 2: "]
    assert first == third != second
    assert set(first[9:].split(", ")) <= set(TOPICS["sea"])
    assert set(second[9:].split(", ")) <= set(TOPICS["bread"])


def test_the_topic_comes_behind_the_headings():
    text = "# Ships\n\n" + " ".join(sentence(random.Random(i), "sea") for i in range(6))
    doc = Document("d", "", text, (Block("heading", Span(0, 7), 1, None, (), "Ships"),))

    chunks = chunk(doc, "topic", size=200, unit="words", topics=1, answers=BAG)

    assert [c.heading_path for c in chunks] == [("Ships", "topic 1")]


def test_a_topic_is_gathered_from_wherever_its_sentences_stand():
    draw = random.Random(2)
    order = ["sea"] * 8 + ["bread"] + ["sea"] * 8 + ["bread"] * 8
    text = " ".join(sentence(draw, topic) for topic in order)

    runs, gathered, free = (
        chunk(text, "topic", size=300, unit="words", topics=2, answers=BAG, **options)
        for options in ({}, {"gather": True}, {"switch": 0.0})
    )

    assert [c.n_tokens // 9 for c in runs] == [17, 8]
    assert [c.n_tokens // 9 for c in free] == [8, 1, 8, 8]
    a, b, c, d = (Span(c.start, c.end) for c in free)
    assert [c.spans for c in gathered] == [(a, c), (b, d)]
    assert [c.text for c in gathered] == [f"{free[0].text}\n{free[2].text}", f"{free[1].text}\n{free[3].text}"]
    assert [(c.start, c.end, c.kind) for c in gathered] == [(a.start, c.end, "gathered"), (b.start, d.end, "gathered")]
    assert [c.heading_path for c in gathered] == [free[0].heading_path, free[1].heading_path]


def test_a_gathered_topic_beyond_the_limit_is_cut_between_sentences_and_counted_exactly():
    draw = random.Random(2)
    sentences = [sentence(draw, topic) for _ in range(30) for topic in ("sea", "bread")]
    text = " ".join(sentences)

    chunks = chunk(text, "topic", size=50, topics=2, gather=True, context="headings", answers=BAG)

    from chunkmill.chunkers.measure import tokenizer

    assert len(chunks) > 10
    assert [c.n_tokens for c in chunks] == tokenizer("cl100k_base").count([c.embedded for c in chunks])
    assert max(c.n_tokens for c in chunks) <= 50
    assert min(c.n_tokens for c in chunks if c is not chunks[-1]) > 15
    assert sorted(line for c in chunks for line in c.text.split("\n")) == sorted(sentences)


class ByLines(Bytes):
    """Words, and three more where a sentence ends a line: more than the index says of what is put together."""

    additive = False

    def starts(self, text):
        return np.array([m.start() for m in re.finditer(r"\S+", text)], np.int64)

    def count(self, texts):
        return [len(t.split()) + 3 * t.count(".\n") for t in texts]


def test_a_gathered_topic_is_within_the_limit_by_what_it_reads_as():
    draw = random.Random(2)
    doc = headed([("# All of this", [sentence(draw, topic) for _ in range(30) for topic in ("sea", "bread")])])
    options = {"topics": 2, "gather": True, "answers": BAG}

    chunks = chunk(doc, "topic", size=47, unit=ByLines(), **options)
    under = chunk(doc, "topic", size=47, unit=ByLines(), context="headings", **options)

    assert {c.n_tokens for c in chunks[:-1]} >= {4 * 9 + 3 * 3}
    assert max(c.n_tokens for c in chunks) <= 47
    assert {c.n_tokens for c in under[:-1]} >= {3 * 9 + 2 * 3 + 3}, "with three words in front four are too many"
    assert max(c.n_tokens for c in under) <= 47


@dataclass(frozen=True)
class Ends:
    """The first and the last sentence, put together."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        found = units(doc, budget)
        return [Piece(Span(found[0].start, found[-1].end), parts=(found[0], found[-1]))]


def test_what_stands_between_gathered_parts_must_be_somewhere_too():
    assert chunk("One. Two.", Ends())[0].spans == (Span(0, 9),)
    with pytest.raises(DocumentError, match=r"the strategy left out the text at 4: 'Two\.'"):
        chunk("One. Two. Three.", Ends())


def headed(parts):
    """A document out of headings with their sentences."""
    text = "\n\n".join(f"{title}\n\n{' '.join(sentences)}" for title, sentences in parts)
    blocks, at = [], 0
    for title, _ in parts:
        at = text.index(f"{title}\n", at)
        blocks.append(Block("heading", Span(at, at + len(title)), title.count("#"), None, (), title.strip("# ")))
        at += 1
    return Document("d", "", text, tuple(blocks))


def about(draw, topic, n=4):
    return [sentence(draw, topic) for _ in range(n)]


def subject(text):
    """A vector with a number for each topic: how many of its words there are."""
    v = np.array([sum(w in text.lower() for w in words) for words in TOPICS.values()], np.float32)
    return v / np.linalg.norm(v)


@pytest.mark.parametrize("context", ["none", "headings"])
def test_the_headings_of_a_gathered_topic_are_those_over_all_of_it(context):
    draw = random.Random(1)
    doc = headed([(title, about(draw, "sea")) for title in ("# Ships", "## Old", "## New")])

    (c,) = chunk(doc, "topic", size=500, unit="words", topics=1, gather=True, context=context, answers=BAG)

    assert c.heading_path == ("Ships", "topic 1")
    assert (c.context, c.text) == ("", doc.text), "it begins with the heading itself"
    assert c.spans == (Span(0, len(doc.text)),), "what stands together is one"


def test_what_is_embedded_in_front_of_a_gathered_topic_is_true_of_all_its_sentences():
    draw = random.Random(4)
    doc = headed(
        [
            ("# Coast", about(draw, "law")),
            ("## Old", [*about(draw, "bread"), *about(draw, "sea")]),
            ("## New", [*about(draw, "bread"), *about(draw, "sea")]),
            ("# Inland", about(draw, "bread")),
        ]
    )
    options = {"size": 300, "unit": "words", "topics": 3, "gather": True, "context": "headings"}

    law, bread, sea = chunk(doc, "topic", answers=answered(subject), **options)

    assert [doc.text[s.start :].split("\n")[0] for s in bread.spans] == ["## Old", "## New", "# Inland"]
    assert (law.context, bread.context, sea.context) == ("", "", "Coast"), "'Coast > Old' is true of the first alone"
    assert [c.heading_path[:-1] for c in (law, bread, sea)] == [("Coast",), (), ("Coast",)]
    assert sea.embedded == f"Coast\n{sea.text}"
    assert sea.n_tokens == len(sea.embedded.split())


def test_each_chunk_of_a_gathered_topic_has_the_headings_over_its_own_sentences_and_room_for_them():
    draw = random.Random(4)
    titles = ("# A coast of many names", "## Old", "## New")
    doc = headed([(title, [*about(draw, "bread", 2), *about(draw, "sea", 9)]) for title in titles])
    options = {"size": 60, "unit": "words", "topics": 2, "gather": True, "context": "headings"}

    chunks = chunk(doc, "topic", answers=answered(subject), **options)

    coast = "A coast of many names"
    assert {c.context for c in chunks} == {"", coast, f"{coast} > Old", f"{coast} > New"}
    assert [c.n_tokens for c in chunks] == [len(c.embedded.split()) for c in chunks]
    assert max(c.n_tokens for c in chunks) <= 60
    for c in chunks:
        *over, _ = c.heading_path
        assert all(path_at(doc, span)[: len(over)] == over for span in c.spans)
        assert c.context == " > ".join(over[:-1] if c.text.startswith("#") else over)


def path_at(doc, span):
    """The headings open at the end of a stretch."""
    path = []
    for block in doc.blocks:
        if block.span.start < span.end:
            path = [*path[: block.level - 1], block.title]
    return path


@dataclass(frozen=True)
class Alternating:
    """Every second sentence, and the others."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        found = units(doc, budget)
        return [Piece(Span(several[0].start, several[-1].end), parts=tuple(several)) for several in (found[::2], found[1::2])]


def test_what_a_users_strategy_gathers_is_under_the_headings_over_all_of_it_too():
    doc = headed([("# Ships", ["One.", "Two.", "Three."]), ("## Old", ["Four.", "Five.", "Six."])])

    first, second = chunk(doc, Alternating(), size=50, unit="words", context="headings")

    assert (first.heading_path, first.context) == (("Ships",), "")
    assert (second.heading_path, second.context) == (("Ships",), "Ships")
    assert second.embedded == "Ships\nTwo.\n## Old\n\nFour.\nSix."
    apart = headed([("# Notes", ["One.", "Two."]), ("# Ships", ["Three.", "Four."]), ("# Notes", ["Five.", "Six."])])
    assert [c.heading_path for c in chunk(apart, Alternating(), size=50, unit="words")] == [(), ()]


@dataclass(frozen=True)
class Halves:
    """The heading and what is under it, gathered."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        (heading,) = doc.blocks
        end = len(doc.text)
        return [Piece(Span(0, end), parts=(heading.span, Span(heading.span.end, end)))]


@pytest.mark.parametrize("words", [13, 50])
def test_a_part_that_is_too_long_alone_is_cut_with_room_for_its_headings(words):
    doc = headed([("# Ships men sail", [f"{' '.join(f'w{i}' for i in range(words))}."])])

    chunks = chunk(doc, Halves(), size=12, unit="words", context="headings")

    assert {c.context for c in chunks if c.start > doc.text.index("w0")} == {"Ships men sail"}
    assert 10 <= max(c.n_tokens for c in chunks) <= 12
    assert " ".join(c.text for c in chunks).split() == doc.text.split()


def test_what_a_change_of_topic_costs_decides_how_many_there_are():
    sentences, true = planted(4)

    def cuts(switch):
        return len(chunk(" ".join(sentences), "topic", size=1000, unit="words", switch=switch, answers=BAG)) - 1

    assert cuts(0.0) > cuts(2.0) > cuts(1e6) == 0
    assert abs(cuts(2.0) - len(true)) <= 1


@given(
    costs=st.integers(1, 7).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=n, max_size=n)
    ),
    price=st.sampled_from([0.0, 1.0, 4.0, 100.0]),
)
@settings(max_examples=200, deadline=None)
def test_no_other_labels_cost_less(costs, price):
    costs = np.array(costs, float)

    def cost(labels):
        changes = sum(a != b for a, b in itertools.pairwise(labels))
        return costs[range(len(labels)), list(labels)].sum() + price * changes

    found = cheapest_path(costs, price)

    assert cost(found) == min(cost(labels) for labels in itertools.product(range(3), repeat=len(costs)))


def test_topics_are_numbered_as_they_come():
    assert numbered(np.array([4, 4, 0, 4, 2])).tolist() == [0, 0, 1, 0, 2]


def test_a_topic_is_named_by_the_words_that_tell_it_from_the_others():
    texts = ["The lamp burns oil.", "The oil lamp is lit.", "The clock is wound.", "The clock is slow and slow."]

    assert names(texts, np.array([0, 0, 1, 1])) == ["topic 1: lamp, oil, burns", "topic 2: clock, slow, and"]
    assert names(texts, np.zeros(4, int)) == ["topic 1"], "nothing to tell it from"


def test_clusters_of_vectors_are_found_whatever_the_seed():
    draw = np.random.default_rng(0)
    means = np.eye(4) * 3
    vectors = unit_rows(np.repeat(means, 25, axis=0) + draw.normal(scale=0.2, size=(100, 4)))

    for seed in range(5):
        centres = kmeans(vectors, 4, seed)
        nearest = (vectors @ centres.T).argmax(axis=1).reshape(4, 25)

        assert (nearest == nearest[:, :1]).all()
        assert len(set(nearest[:, 0])) == 4
        assert centres[nearest[:, 0]] == pytest.approx(vectors.reshape(4, 25, 4).mean(axis=1), abs=1e-6)


def test_equal_vectors_are_one_cluster():
    assert len(kmeans(np.repeat(unit_rows([[1, 2, 3]]), 9, axis=0), 3, 0)) == 1


def test_a_text_of_three_sentences_is_one_topic_and_no_model_is_asked():
    chunks = chunk("Light the lamp. Wind the clock. Bake bread.", "topic", answers={Embed: None})

    assert [c.heading_path for c in chunks] == [("topic 1",)]


def test_lda_gives_the_same_each_time():
    pytest.importorskip("sklearn", reason="scikit-learn comes with the extra chunkmill[embed]")
    draw = random.Random(1)
    text = " ".join(sentence(draw, draw.choice(sorted(TOPICS))) for _ in range(60))

    first, *others = (chunk(text, "topic", size=1000, unit="words", method="lda", gather=True) for _ in range(3))

    assert others == [first, first]
    assert first != chunk(text, "topic", size=1000, unit="words", method="lda", gather=True, seed=1)


def test_lda_counts_words_and_asks_no_model():
    pytest.importorskip("sklearn", reason="scikit-learn comes with the extra chunkmill[embed]")
    draw = random.Random(1)
    sentences = [sentence(draw, topic) for topic in ["sea"] * 20 + ["bread"] * 20]

    chunks = chunk(" ".join(sentences), "topic", size=1000, unit="words", method="lda", topics=2)

    assert strategy("topic", {"method": "lda"}).needs == frozenset()
    assert len(chunks) == 2
    assert abs(boundaries(chunks, sentences)[0] - 20) <= 1
    assert [c.heading_path[0][:9] for c in chunks] == ["topic 1: ", "topic 2: "]


def test_lda_of_a_text_without_a_word_to_count_is_one_topic():
    pytest.importorskip("sklearn", reason="scikit-learn comes with the extra chunkmill[embed]")

    chunks = chunk("1 2. 3 4. 5 6. 7 8. 9 0.", "topic", size=100, unit="words", method="lda", topics=2)

    assert [c.heading_path for c in chunks] == [("topic 1",)]


def test_lda_without_scikit_learn_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=r'pip install "chunkmill\[embed\]"'):
        strategy("topic", {"method": "lda"})


# --- all of them


@pytest.mark.parametrize(("name", "options"), FOLLOWING, ids=IDS)
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_no_sentence_one_two_and_equal_ones_are_cut_by_the_limit_alone(name, options, n):
    chunks = chunk("Light the lamp at dusk. " * n, name, size=100, unit="words", answers=BAG, **options)

    sizes = [c.n_tokens for c in chunks]
    alone = options.get("method") == "gradient" and n == 2  # LangChain's answer to two sentences
    assert sizes == {0: [], 1: [5], 2: [5, 5] if alone else [10], 40: [100, 100]}[n]


@pytest.mark.parametrize(("name", "options"), FOLLOWING, ids=IDS)
def test_what_the_batch_does_to_vectors_changes_no_chunk(name, options):
    draw = np.random.default_rng(0)
    for seed in range(8):
        sentences, _ = planted(seed)
        text = " ".join([*sentences, *sentences[:9], *sentences[:9]])  # and repeats, for ties
        cut = chunking(name, options, size=300, unit="words")

        def noisy(texts):
            exact = BAG[Embed](texts)
            return (exact + draw.uniform(-1e-7, 1e-7, exact.shape)).astype(np.float32)

        first, second = (chunk_all([Document("d", "", text)], cut, {Embed: noisy})[0] for _ in range(2))

        assert first == second


@pytest.mark.parametrize(("name", "options"), FOLLOWING, ids=IDS)
def test_the_sentences_of_all_documents_are_asked_together_and_once(name, options):
    calls = []

    def embed(texts):
        calls.append(len(texts))
        return BAG[Embed](texts)

    docs = [Document(str(i), "", " ".join(planted(i)[0])) for i in range(3)]
    chunk_all(docs, chunking(name, options, size=300, unit="words"), {Embed: embed})

    assert calls == [sum(len(planted(i)[0]) for i in range(3))]


@pytest.mark.parametrize(
    ("name", "options"),
    [("semantic", {}), ("semantic", {"method": "depth"}), ("clusters", {}), ("topic", {})],
    ids=["density", "depth", "clusters", "topic"],
)
def test_planted_topics_are_found_better_than_by_a_percentile(name, options):
    percentile = mean_pk("semantic", {"method": "percentile"})

    assert mean_pk(name, options) < 0.15 < 0.2 < percentile


REAL = {
    "cooking": (
        "Knead the dough until it is smooth and springs back. Let it rise under a damp cloth for an hour. "
        "Heat the oven while the loaf proves a second time. Brush the crust with milk before baking. "
        "The bread is done when it sounds hollow underneath."
    ),
    "astronomy": (
        "Jupiter is the largest planet of the solar system. Its four big moons can be seen with a small telescope. "
        "Galileo drew them night after night in 1610. Their eclipses were later used to measure the speed of light. "
        "The planet's rings were only found by a space probe."
    ),
    "law": (
        "The tenant must give notice in writing three months before leaving. The landlord holds the deposit until the lease "
        "ends. A court may order repairs if the owner refuses them. Either party can appeal the decision within thirty days. "
        "The contract is void if it was signed under threat."
    ),
}


@pytest.mark.parametrize(
    ("name", "options"),
    [("semantic", {}), ("semantic", {"method": "depth"}), ("clusters", {}), ("topic", {"topics": 3})],
    ids=["density", "depth", "clusters", "topic"],
)
def test_a_real_model_tells_real_topics_apart(name, options, offline_model):
    answers = {Embed: lambda texts: offline_model.encode(list(texts), normalize_embeddings=True)}

    chunks = chunk(" ".join(REAL.values()), name, size=256, unit="words", answers=answers, **options)

    assert [c.text for c in chunks] == list(REAL.values())


def test_a_heading_goes_with_the_sentence_behind_it():
    text = "# Part one\n\n## Lamps\n\nLight the lamp. Trim the wick.\n\n## Clocks\n\nWind the clock."
    blocks = tuple(
        Block("heading", Span(text.index(t), text.index(t) + len(t)), t.count("#"))
        for t in ("# Part one", "## Lamps", "## Clocks")
    )
    doc = Document("d", "", text, blocks)

    found = [doc[s] for s in units(doc, Budget(100, None, len(text), 100))]

    assert found == ["# Part one\n\n## Lamps\n\nLight the lamp.", "Trim the wick.", "## Clocks\n\nWind the clock."]


def test_distances_are_those_of_neighbours():
    assert distances(np.stack([A, A, B, (B + C) / np.sqrt(2)])) == pytest.approx([0, 1, 1 - np.sqrt(0.5)])


@pytest.mark.parametrize(("name", "options"), FOLLOWING, ids=IDS)
def test_the_hard_limit_holds_for_sentences_of_any_length(name, options):
    text = "Short one. " + "a long one without an end " * 30 + ". Next. " + "漢字" * 60 + "。 Last."
    asked = []

    def embed(texts):
        asked.extend(texts)
        return BAG[Embed](texts)

    chunks = chunk(text, name, size=64, unit=Bytes(), answers={Embed: embed}, **options)

    assert max(c.n_tokens for c in chunks) <= 64
    assert max(len(t.encode()) for t in asked) <= 64, "a model reads no more of a sentence than a chunk may hold"
    assert "".join("".join(c.text.split()) for c in chunks) == "".join(text.split())


@pytest.mark.parametrize(("name", "options"), FOLLOWING, ids=IDS)
@pytest.mark.long
def test_time_grows_with_the_sentences_and_no_faster(name, options):
    vectors = unit_rows(np.random.default_rng(0).normal(size=(4000, 8)))

    def seconds(n):
        doc = Document("d", "", "Some words are here. " * n)
        cut = chunking(name, options, size=100, unit="words")
        at = time.process_time()
        chunk_all([doc], cut, {Embed: lambda texts: vectors[: len(texts)]})
        return time.process_time() - at

    seconds(100)
    small, large = min(seconds(250) for _ in range(3)), seconds(4000)

    assert large < 60 * small + 0.3  # 16 times the sentences; 256 would be quadratic


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("semantic", {"amount": -1.0}, "for density it must be from 0 to 1000"),
        ("semantic", {"method": "percentile", "amount": 101.0}, "for percentile it must be from 0 to 100"),
        ("semantic", {"method": "depths"}, "one of 'density', 'depth'"),
        ("semantic", {"buffer": -1}, "0 or more"),
        ("semantic", {"min_size": -1}, "0 or more"),
        ("clusters", {"target": 0.0}, "above 0"),
        ("clusters", {"weight": -0.1}, "from 0"),
        ("topic", {"topics": 0}, "1 or more"),
        ("topic", {"switch": float("nan")}, "0 or more"),
        ("topic", {"switch": 1.0, "gather": True}, "drop one"),
        ("topic", {"seed": -1}, "0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, options, says):
    with pytest.raises(ConfigError, match=says):
        strategy(name, options)
