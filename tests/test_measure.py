"""Counting: exact, additive where it says so, and the fast path gives tiktoken's tokens."""

import pickle

import numpy as np
import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers import measure
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.measure import tokenizer
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


@given(text=TEXTS)
@settings(max_examples=500, deadline=None)
def test_starts_are_the_characters_that_hold_the_first_byte_of_each_token_that_is_not_white(text):
    encoding = tiktoken.get_encoding("cl100k_base")
    character = np.repeat(np.arange(len(text)), [len(c.encode()) for c in text]).tolist()
    expected, at = [], 0
    for token in map(encoding.decode_single_token_bytes, encoding.encode_ordinary(text)):
        expected.append(character[at + (len(token) - len(token.lstrip()) if token.strip() else 0)])
        at += len(token)

    assert tokenizer("cl100k_base").starts(text).tolist() == expected


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@given(
    left=TEXTS,
    right=TEXTS,
    letter=st.sampled_from("aZé東ß"),
    line=st.sampled_from(["\n", "\r\n", " \n", "\n\n", "/\n", "\t\n\n"]),
)
@settings(max_examples=300, deadline=None)
def test_counts_add_up_between_a_line_break_and_a_letter_where_the_unit_says_so(name, left, right, letter, line):
    try:
        unit = tokenizer(name)
    except ConfigError:
        pytest.skip(f"the vocabulary of {name} is not here")

    assert unit.additive_lines
    assert unit.count([left + line + letter + right]) == [sum(unit.count([left + line, letter + right]))]


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
