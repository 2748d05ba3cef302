"""reStructuredText: the source is the text, its blocks lie where the lines say."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sound import Readers

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


a = Readers("a.rst", "rst")
read, blocks, parts, headings = a.read, a.blocks, a.parts, a.headings


def test_levels_follow_the_order_in_which_styles_appear() -> None:
    source = "=====\nTitle\n=====\n\nOne\n===\n\nTwo\n---\n\nwords\n\nAgain\n=====\n\n日本語の題\n----------\n"

    assert headings(source) == [(1, "Title"), (2, "One"), (3, "Two"), (2, "Again"), (3, "日本語の題")]
    assert read(source).text == source
    assert blocks(source)[0] == ("heading", "=====\nTitle\n=====")


def test_transitions_and_short_lines_are_no_headings() -> None:
    assert blocks("a\n\n----\n\nb\n\n...\n\nwords\n--\n") == [
        ("paragraph", "a"),
        ("paragraph", "b"),
        ("paragraph", "..."),
        ("paragraph", "words\n--"),
    ]


@pytest.mark.parametrize(
    ("title", "seen"),
    [
        (":mod:`csv` --- *CSV* ``files``", "csv --- CSV files"),
        ("`A link <https://x.org>`_ and |sub| name_", "A link and sub name"),
        (r"snake\_case and **bold**", "snake_case and bold"),
        ("plain_name in a_b_c", "plain_name in a_b_c"),
    ],
)
def test_a_title_is_what_a_reader_sees(title: str, seen: str) -> None:
    assert headings(f"{title}\n{'=' * 40}\n") == [(1, seen)]


def test_literal_blocks_doctests_and_code_directives_are_code_with_their_indentation() -> None:
    source = (
        "Like this::\n\n    def f():\n\n        return 1\n\nand\n\n::\n\n  x\n\n>>> 1 + 1\n2\n\n"
        ".. code-block:: python\n   :linenos:\n\n     y = 1\n   z = 2\n\nend\n"
    )

    assert [text for kind, text in blocks(source) if kind == "code"] == [
        "    def f():\n\n        return 1",
        "  x",
        ">>> 1 + 1\n2",
        "     y = 1\n   z = 2",
    ]
    assert [text for kind, text in blocks(source) if kind == "paragraph"] == ["Like this::", "and", "end"]


def test_a_heading_in_a_literal_block_is_code() -> None:
    assert headings("x::\n\n  A\n  ==\n\nReal\n====\n") == [(1, "Real")]


def test_the_body_of_a_directive_is_read_as_the_page_is() -> None:
    source = (
        ".. note:: First words\n   go on.\n\n   - a\n   - b\n\n   ::\n\n      code\n\n.. function:: f(x)\n"
        "   :module: m\n\n   Returns.\n\nend\n"
    )

    assert blocks(source) == [
        ("paragraph", ".. note:: First words\n   go on."),
        ("list", "- a\n   - b"),
        ("code", "      code"),
        ("paragraph", ".. function:: f(x)"),
        ("paragraph", "Returns."),
        ("paragraph", "end"),
    ]


def test_comments_targets_substitutions_and_contents_are_no_blocks() -> None:
    source = (
        ".. a comment\n   that goes on\n\n..\n  another\n\n.. _target: https://x.org\n\n.. |s| replace:: text\n\n"
        ".. toctree::\n   :maxdepth: 2\n\n   one\n   two\n\n.. include:: secret.txt\n\n__ https://y.org\n\nwords\n"
    )

    assert blocks(source) == [("paragraph", "words")]


def test_an_empty_comment_ends_without_taking_what_follows() -> None:
    assert blocks("a\n\n..\n\n    quoted\n") == [("paragraph", "a"), ("quote", "quoted")]


def test_footnotes_are_paragraphs() -> None:
    assert blocks(".. [1] A note\n   of two lines.\n.. [CIT2001] Cited.\n") == [
        ("paragraph", ".. [1] A note\n   of two lines."),
        ("paragraph", ".. [CIT2001] Cited."),
    ]


def test_captions_and_alternative_words_are_figures() -> None:
    source = (
        ".. figure:: a.png\n   :alt: no\n\n   The *caption*.\n\n   Legend.\n\n.. image:: b.png\n   :width: 3\n"
        "   :alt: Two words\n\n.. image:: c.png\n"
    )

    assert blocks(source) == [("figure", "The *caption*.\n\n   Legend."), ("figure", "Two words")]


@pytest.mark.parametrize(
    ("source", "items"),
    [
        ("- a\n\n  more\n- b\n\n* other\n", ["- a\n\n  more", "- b"]),
        ("1. a\n#. b\n\n   * in\n(3) c\n", ["1. a", "#. b\n\n   * in", "(3) c"]),
        (
            "term\n  Definition.\n\nother : class\n  Two.\n\n  More.\n",
            ["term\n  Definition.", "other : class\n  Two.\n\n  More."],
        ),
        ("words\n\n:field: a\n  b\n:other: c\n", []),
        ("-a        all\n--long=x  two\n", ["-a        all", "--long=x  two"]),
    ],
)
def test_items_are_the_parts_of_lists(source: str, items: list[str]) -> None:
    assert blocks(source)[0][0] == ("list" if items else "paragraph")
    assert parts(source) == items


def test_a_sentence_that_begins_like_an_item_is_a_paragraph() -> None:
    assert blocks("A. Einstein was\na physicist.\n\n- not\nan item\n")[0] == ("paragraph", "A. Einstein was\na physicist.")


def test_rows_are_the_parts_of_tables() -> None:
    grid = "+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n|   | x |\n+---+---+\n| 3     |\n+---+---+\n\nend\n"
    simple = "===  ===\nA    B\n===  ===\n1    2\n     x\n3    4\n===  ===\n\nend\n"
    listed = ".. list-table:: Title\n   :header-rows: 1\n\n   * - A\n     - B\n   * - 1\n     - 2\n"
    csv = ".. csv-table::\n   :header: a, b\n\n   1, 2\n   3, 4\n"

    assert parts(grid) == ["| a | b |", "| 1 | 2 |\n|   | x |", "| 3     |"]
    assert blocks(grid)[1] == ("paragraph", "end")
    assert parts(simple) == ["A    B", "1    2\n     x", "3    4"]
    assert blocks(simple)[1] == ("paragraph", "end")
    assert parts(listed) == ["* - A\n     - B", "* - 1\n     - 2"]
    assert parts(csv) == ["1, 2", "3, 4"]


def test_fields_in_front_are_metadata() -> None:
    source = ":orphan:\n\nTitle\n=====\n\n:Author: A B\n:Date: 2024-05-06\n:Version: 2\n\nWords.\n\n:later: a list\n"

    parsed = read(source)

    assert parsed.metadata == {"title": "Title", "author": "A B", "date": "2024-05-06", "version": "2", "encoding": "utf-8"}
    assert [block.kind for block in parsed.blocks] == ["heading", "paragraph", "list"]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_any_newline_gives_the_same_blocks(newline: str) -> None:
    source = "T\n====\n\n::\n\n  a\n  b\n\n- x\n- y\n"

    assert blocks(source.replace("\n", newline)) == [(kind, text.replace("\n", newline)) for kind, text in blocks(source)]


@pytest.mark.parametrize(
    "source",
    [
        "*" * 500_000,
        "* a\n" * 60_000,
        "".join(" " * i + "a\n\n" for i in range(900)),
        "".join(" " * i + ".. note::\n\n" for i in range(700)),
        "+-+\n" * 60_000,
        "== ==\n\n" * 50_000,
        "== ==\na\n" * 50_000,
        ":" * 500_000,
        ".. \n" * 60_000,
        "::\n\n  a\n\n" * 30_000,
        "a\n b\n" * 50_000,
        "a\n" + "\n" * 300_000,
        "1. a\nb\n" * 40_000,
        "a\n====\n" * 40_000,
    ],
)
def test_hostile_sources_take_linear_time(source: str) -> None:
    began = time.process_time()
    read(source)

    assert time.process_time() - began < 5


MARKS = [
    ".. ",
    "::",
    "\n",
    "\n\n",
    "   ",
    "====\n",
    "----\n",
    "- ",
    "1. ",
    "+-+\n",
    "== ==\n",
    ":a: ",
    ".. note:: ",
    ".. figure:: x\n",
    "| ",
    ">>> ",
    "word ",
    "\t",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=5))).map("".join))
def test_any_text_gives_sound_blocks(source: str) -> None:
    parsed = read(source)

    for block in parsed.blocks:
        text = parsed.text[slice(*block.span)]
        assert text.strip() == (text.lstrip() if block.kind == "code" else text)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora of ../shared are not here")
def test_mutated_pages_of_the_corpus_give_sound_blocks() -> None:
    rng = random.Random(3)
    for path in sorted((CORPUS / "open" / "rst").rglob("*.rst*")):
        source = path.read_text("utf-8")
        assert len([b for b in read(source).blocks if b.kind == "heading"]) > 0, path
        for _ in range(5):
            at = rng.randrange(len(source))
            read(source[at : at + 5000] + source[: rng.randrange(3000)])
