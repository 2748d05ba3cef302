"""Counting: exact, additive where it says so, and the fast path gives tiktoken's tokens."""

import pickle

import numpy as np
import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers import measure
from chunkmill.chunkers.measure import code_points, tokenizer
from vocabulary import Bytes, stretches

TEXTS = st.one_of(stretches, st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=200))


@given(text=TEXTS)
@settings(max_examples=300, deadline=None)
def test_starts_are_one_per_token_in_order_inside_the_text(text):
    unit = tokenizer("cl100k_base")

    starts = unit.starts(text)

    assert len(starts) == len(tiktoken.get_encoding("cl100k_base").encode_ordinary(text)) == unit.count([text])[0]
    assert (np.diff(starts) >= 0).all()
    assert all(0 <= s < len(text) for s in starts)


@pytest.mark.skipif(tokenizer("cl100k_base")._fast is None, reason="toktok is not installed (the extra chunkmill[fast])")
@given(text=TEXTS)
@settings(max_examples=500, deadline=None)
def test_the_fast_path_gives_tiktokens_tokens_wherever_it_is_taken(text):
    unit = tokenizer("cl100k_base")

    if measure.agreed(text):
        ids = unit._fast.encode_to_numpy(text, disallowed_special=()).tolist()
        assert ids == tiktoken.get_encoding("cl100k_base").encode_ordinary(text)


def test_characters_newer_than_tiktokens_tables_take_the_slow_path():
    text = "don't\u088f's"

    assert not measure.agreed(text)
    assert measure.agreed(text.replace("\u088f", "e"))
    assert tokenizer("cl100k_base").count([text]) == [len(tiktoken.get_encoding("cl100k_base").encode_ordinary(text))]


@given(text=st.text(min_size=1, max_size=30), data=st.data())
def test_byte_offsets_become_code_points(text, data):
    text = text.encode("utf-8", "replace").decode()
    size = len(text.encode())
    begins = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1))), np.int64)
    character = np.repeat(np.arange(len(text)), [len(c.encode()) for c in text])

    assert code_points(text, begins).tolist() == character[begins].tolist()


def test_an_unknown_word_cannot_hide_a_megabyte(offline_model):
    from chunkmill.jobs.models import resolve, window

    unit = tokenizer(window(resolve("all-MiniLM-L6-v2")).tokenizer_file)

    assert unit.count(["z" * 1000]) == [10]
    assert len(unit.starts("z" * 1000)) == 10
    assert unit.count(["a [SEP] b"]) == [5]


@pytest.mark.parametrize("name", ["cl100k_base", "chars", "words"])
def test_units_travel_to_workers(name):
    assert pickle.loads(pickle.dumps(tokenizer(name))).count(["a b"]) == tokenizer(name).count(["a b"])


def test_the_stand_in_of_the_tests_counts_bytes():
    assert Bytes().count(["é"]) == [2]
    assert Bytes().starts("aé").tolist() == [0, 1, 1]
