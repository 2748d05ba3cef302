"""The seams found by arithmetic are those that a reader of the text would name."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers import scan
from chunkmill.chunkers.scan import text_gaps
from chunkmill.chunkers.seams import trim
from vocabulary import stretches


def parts(text):
    span = trim(text, 0, len(text))
    if span.start == span.end:
        return []
    gaps = text_gaps(text, *span)
    edges = zip([span.start, *gaps.begins], [*gaps.ends, span.end], [0, *gaps.ranks], strict=True)
    return [(text[a:b], int(rank)) for a, b, rank in edges]


def test_seams_have_their_ranks_and_parts_come_trimmed():
    text = 'Dr. Smith said "Hi." Then e.g. this. And \n \n next!  Yes?\nline 3.14 two (end.) Z'

    assert parts(text) == [
        ("Dr.", 0),
        ('Smith said "Hi."', 2),
        ("Then e.g. this.", 2),
        ("And", 2),
        ("next!", 0),
        ("Yes?", 2),
        ("line 3.14 two (end.)", 1),
        ("Z", 2),
    ]


def test_wide_forms_end_a_sentence_without_white_space():
    assert parts("一。「二！」三？四\n五") == [("一。", 0), ("「二！」", 2), ("三？", 2), ("四", 2), ("五", 1)]


TEXTS = st.one_of(stretches, st.text(alphabet=st.sampled_from("aZ.!?。！」) \n\t\u3000é👩"), max_size=60))


@given(text=TEXTS)
@settings(max_examples=400, deadline=None)
def test_nothing_but_white_space_lies_between_parts(text):
    found = parts(text)

    assert "".join(p for p, _ in found).split() == text.split() or "".join("".join(p.split()) for p, _ in found) == "".join(
        text.split()
    )
    assert all(p == p.strip() != "" for p, _ in found)


@given(text=TEXTS)
@settings(max_examples=400, deadline=None)
def test_every_line_break_is_a_seam(text):
    assert not [p for p, _ in parts(text) if "\n" in p]
    blank = len(re.findall(r"\n[^\S\n]*\n\s*(?=\S)", text.strip()))
    assert sum(rank == 0 for _, rank in parts(text)[1:]) == blank


@given(text=TEXTS, slab=st.integers(1, 9))
@settings(max_examples=300, deadline=None)
def test_the_seams_do_not_depend_on_how_much_is_looked_at_at_once(text, slab):
    whole = parts(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "SLAB", slab)
        assert parts(text) == whole
