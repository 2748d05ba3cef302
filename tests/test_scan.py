"""The seams of plain text are those that a reader of the text would name."""

import re
import sys
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers import seams
from chunkmill.chunkers.anchor import _sums, _sums_of_all
from chunkmill.chunkers.base import Budget, Span
from chunkmill.chunkers.recursive import Paragraphs
from chunkmill.chunkers.scan import blank_lines, lines, sentence_ends
from chunkmill.chunkers.seams import sentences, trim, words
from vocabulary import stretches


def divided(text, span, rank=0):
    """The parts of a trimmed stretch by all seams, each with the rank of the seam before it."""
    if rank == 3 or span.start == span.end:
        return [(span, 0)] if span.start < span.end else []
    gaps = list((blank_lines, lines, sentence_ends)[rank](text, *span))
    edges = zip([span.start, *(b for _, b in gaps)], [*(e for e, _ in gaps), span.end], strict=True)
    found = [divided(text, Span(*edge), rank + 1) for edge in edges]
    return [(s, r if i or not n else rank) for n, inner in enumerate(found) for i, (s, r) in enumerate(inner)]


def parts(text):
    return [(text[a:b], rank) for (a, b), rank in divided(text, trim(text, 0, len(text)))]


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


@given(text=TEXTS, low=st.integers(0, 60), high=st.integers(0, 60))
@settings(max_examples=400, deadline=None)
def test_looking_in_a_window_finds_the_seams_that_lie_there(text, low, high):
    span = trim(text, 0, len(text))
    if span.start == span.end or low > high:
        return
    budget = Budget(1, None, len(text), 1)  # no grain is short
    gaps = blank_lines(text, *span)
    starts, ends = [span.start, *(b for _, b in gaps)], [*(e for e, _ in gaps), span.end]
    paragraphs = Paragraphs(text, starts, ends, [*starts, span.end], budget)
    every = paragraphs._seams(0, len(starts), 0, len(text))

    found = paragraphs._seams(0, len(starts), low, high)

    assert {s for s in every if low < s[1] and s[0] < high} <= set(found) <= set(every)
    assert found == sorted(found)
    assert [s[1] for s in every] == [a for (a, _), _ in divided(text, span)][1:]


def test_a_full_stop_behind_wide_white_space_does_not_stop_the_segmenter():
    assert sentences("Salut\u00a0. Voila. A\u2003.") == [Span(0, 7), Span(8, 14), Span(15, 18)]


@given(text=TEXTS, start=st.integers(0, 60))
@settings(max_examples=400, deadline=None)
def test_words_are_what_white_space_leaves(text, start):
    start = min(start, len(text))

    found = words(text, Span(start, len(text)))

    assert found.tolist() == [list(m.span()) for m in re.compile(r"\S+").finditer(text, start)]


def test_every_white_character_ends_a_word():
    white = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]

    assert len(words("x" + "x".join(white) + "x", Span(0, 2 * len(white) + 1))) == len(white) + 1


@given(text=TEXTS)
@settings(max_examples=400, deadline=None)
def test_seams_are_hashed_alike_one_by_one_and_all_together(text):
    starts = [start for start, _ in words(text, Span(0, len(text))).tolist()]
    if starts:
        assert _sums(text, starts, 16).tolist() == _sums_of_all(text, starts, 16).tolist()


JOINING = "a\r\n\u0301\u200d👩😀©🇩🇪🏽\ufe0fक\u094dष\u093f\u093c\u0600가각ം\u0d4dല\u200c字 \u0e33"


@given(text=st.text(alphabet=st.sampled_from(JOINING), max_size=40), far=st.sampled_from([1, 3, seams.FAR]))
@settings(max_examples=600, deadline=None)
def test_a_cluster_starts_where_the_standard_says(text, far):
    starts = [m.start() for m in seams.CLUSTER.finditer(text)]
    seams._runs.cache_clear()
    with mock.patch.object(seams, "FAR", far):
        found = [seams.cluster_start(text, at) for at in range(len(text))]

    assert found == [max(start for start in starts if start <= at) for at in range(len(text))]


@pytest.mark.parametrize("mark", ["`", "Use `a` and `b` here\n", "THIS ENDS. AND THIS? ", "word ", "字", '"'])
def test_the_segmenter_never_sees_much_at_once(mark):
    text = mark * (40_000 // len(mark))
    with mock.patch.object(seams, "get_sentence_boundaries", side_effect=seams.get_sentence_boundaries) as asked:
        found = sentences(text)

    assert max(len(call.args[1]) for call in asked.call_args_list) <= seams.SEEN
    assert "".join("".join(text[slice(*s)] for s in found).split()) == "".join(text.split())
    assert " " not in mark or all(text[s.start - 1].isspace() for s in found[1:])
