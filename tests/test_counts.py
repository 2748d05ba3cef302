"""Sizes of slices out of the index are those of the slices encoded alone, and the fewest chunks are the fewest."""

import random
from itertools import accumulate, combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.anchor import Parts, fewest, packed
from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.base import Budget, Span
from chunkmill.chunkers.counts import exact
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.measure import tokenizer
from chunkmill.chunkers.recursive import Paragraphs
from chunkmill.chunkers.scan import blank_lines
from vocabulary import stretches

# What tokens share with white space around it, or seem to: marks before line breaks, slashes behind them, wide white space.
PARTS = [
    "a",
    "Word",
    "12",
    "é",
    "e\u0301",
    "東",
    "。",
    ".",
    '."',
    "'",
    "'s",
    "...",
    "#",
    "/",
    "//",
    "*",
    "\x1c",
    "👩",
    "x" * 60,
    "-" * 60,
]
SPACES = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", " \n"]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS + SPACES), max_size=12),
    st.lists(st.sampled_from([*'.#/"a', "\n", "\n/", " ", "。"]), max_size=12),
    st.lists(stretches, max_size=4),
)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@given(parts=TEXTS)
@settings(max_examples=300, deadline=None)
def test_the_size_of_any_slice_is_that_of_the_slice_alone(name, parts):
    try:
        unit = tokenizer(name)
    except ConfigError:
        pytest.skip(f"the vocabulary of {name} is not here")
    text = "".join(parts)
    spans = [Span(a, b) for a, b in combinations(accumulate(map(len, parts), initial=0), 2) if a < b]

    sizes = exact(text, spans, Budget(1, unit.starts(text), len(text), 1), unit)

    assert sizes == unit.count([text[a:b] for a, b in spans])


@given(
    sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=9),
    prices=st.lists(st.sampled_from([0.1, 0.2, 0.3, 1.2, 2.25]), min_size=9, max_size=9),
    limit=st.integers(5, 14),
    rooms=st.one_of(st.none(), st.lists(st.integers(5, 14), min_size=9, max_size=9)),
)
@settings(max_examples=250, deadline=None)
def test_parts_are_cut_into_the_fewest_chunks_and_of_those_ways_the_cheapest(sizes, prices, limit, rooms):
    first, last, at = [], [], 0
    for gap, size in sizes:
        first.append(at + gap)
        at += gap + size
        last.append(at)
    parts = SimpleNamespace(first=first, last=last, limit=limit, rooms=rooms, prices=prices)
    parts.cheapest = lambda a, b: min(range(a, b), key=prices.__getitem__)
    n = len(sizes)

    def cost(cuts: tuple[int, ...]) -> tuple[int, float]:
        return len(cuts), round(sum(prices[c] for c in cuts), 6)

    def fits(cuts: tuple[int, ...]) -> bool:
        edges = zip((0, *cuts), (*cuts, n), strict=True)
        return all(last[b - 1] - first[a] <= (rooms[a] if rooms else limit) for a, b in edges)

    found = tuple(fewest(parts, 0, n))

    assert fits(found)
    assert cost(found) == min(cost(c) for k in range(n) for c in combinations(range(1, n), k) if fits(c))


class Everywhere(Paragraphs):
    """Paragraphs that are divided by all seams at once."""

    def within(self, a, b, windows):
        return self.throughout(a, b)


@given(st.integers(0, 10**9), st.integers(60, 200), st.lists(st.integers(0, 20), max_size=4))
@settings(max_examples=250, deadline=None)
def test_seams_that_are_looked_for_in_windows_alone_give_the_same_chunks(seed, limit, contexts):
    rng = random.Random(seed)
    words = ("".join(rng.choices("abcdefghij", k=rng.randint(1, 9))) + rng.choice(["", "", "", "."]) for _ in range(150))
    text = "x" + "".join(rng.choice([" ", " ", " ", "\n", "\n\n"]) + word for word in words)
    at = np.array(sorted(rng.sample(range(len(text)), len(contexts))), np.int64)
    budget = Budget(limit, None, len(text), limit, at, np.array(contexts, np.int64))
    gaps = blank_lines(text, 0, len(text))
    starts, ends = [0, *(b for _, b in gaps)], [*(e for e, _ in gaps), len(text)]
    parts = Parts(text, starts, ends, None, budget)

    found = packed(parts, Paragraphs(text, starts, ends, [*starts, len(text)], budget))

    assert found == packed(parts, Everywhere(text, starts, ends, [*starts, len(text)], budget))
    assert all(map(budget.fits, found))


SCRIPTS = {
    "Devanagari": "सभी लोग स्वतन्त्र जन्म लेते हैं और सबका सम्मान समान है। ",
    "Telugu": "మనుషులందరూ స్వేచ్ఛగా పుడతారు, గౌరవంలో సమానులు. ",
    "Korean": "모든 사람은 자유롭게 태어나며 존엄에서 서로 같다. ",
    "Japanese": "人はみな自由に生まれ、尊厳において等しい。",
    "Chinese": "人人生来自由，在尊严上彼此平等。",
    "English": "Everybody is born free, and equal in dignity. ",
}


@pytest.mark.parametrize("overlap", [0, 8])
@pytest.mark.parametrize("script", SCRIPTS)
def test_fixed_windows_are_full_in_every_script(script, overlap):
    chunks = chunk(SCRIPTS[script] * 60, "fixed", size=64, overlap=overlap)

    assert len(chunks) > 4
    assert all(c.n_tokens >= 56 for c in chunks[:-1])
    assert all((before.end > behind.start) == bool(overlap) for before, behind in pairwise(chunks))
