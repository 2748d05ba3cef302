"""AsciiDoc: the source is the text, its blocks lie where the lines say."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sound import Readers

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


a = Readers("a.adoc", "asciidoc")
read, blocks, parts, headings = a.read, a.blocks, a.parts, a.headings


def test_the_header_is_metadata_and_its_title_a_heading() -> None:
    source = (
        "// comment\n= The _Title_\nJane Doe <jane@x.org>; Bob Roe\nv1.2, 2024-05-06: remark\n:keywords: a, b\n"
        ":lang: de\n:toc:\n\nWords.\n"
    )

    parsed = read(source)

    assert parsed.metadata == {
        "title": "The Title",
        "author": "Jane Doe, Bob Roe",
        "revision": "1.2",
        "date": "2024-05-06",
        "keywords": "a, b",
        "language": "de",
        "encoding": "utf-8",
    }
    assert blocks(source) == [("heading", "= The _Title_"), ("paragraph", "Words.")]


def test_a_header_without_author_or_with_front_matter() -> None:
    assert read("= T\n:author: A\n\nx").metadata["author"] == "A"
    assert read("= T\nifdef::x[]\n\nx").metadata == {"title": "T", "encoding": "utf-8"}
    assert read("---\nauthor: F\n---\n= T\n\nx").metadata == {"author": "F", "title": "T", "encoding": "utf-8"}


def test_levels_are_those_of_the_marks() -> None:
    source = "= A\n\n== B ==\n\n=== C\n\nSet in two\n~~~~~~~~~~\n\n== D `x`\n\n#x no\n\n== E https://x.org[link]\n"

    assert headings(source) == [(1, "A"), (2, "B"), (3, "C"), (3, "Set in two"), (2, "D x"), (2, "E link")]


def test_a_listing_under_a_line_is_no_heading() -> None:
    assert headings("A long line of text:\n----\ncode\n----\n") == []
    assert headings("----\nA\n--\n----\n") == []


def test_listings_literals_and_indented_lines_are_code() -> None:
    source = (
        "----\n  a\n\n== b\n----\n\n....\nc\n....\n\n```ruby\nd\n```\n\n $ e\n\n[source,ruby]\nf\n\n[,python]\ng\n\nwords\n"
    )

    assert [text for kind, text in blocks(source) if kind == "code"] == ["  a\n\n== b", "c", "d", " $ e", "f", "g"]
    assert [text for kind, text in blocks(source) if kind != "code"] == ["words"]


def test_an_unclosed_listing_runs_to_the_end() -> None:
    assert blocks("----\na\n\n== no heading") == [("code", "a\n\n== no heading")]


def test_what_stands_in_examples_sidebars_and_open_blocks_is_read() -> None:
    source = "[NOTE]\n====\nInside.\n\n. a\n. b\n====\n\n****\nSide.\n****\n\n--\nOpen.\n--\n\nNOTE: Short.\n"

    assert blocks(source) == [
        ("paragraph", "Inside."),
        ("list", ". a\n. b"),
        ("paragraph", "Side."),
        ("paragraph", "Open."),
        ("paragraph", "NOTE: Short."),
    ]


def test_quotes() -> None:
    assert blocks("[quote,Someone]\n____\nA.\n\nB.\n____\n\n[verse]\nC\n\n> D\n") == [
        ("quote", "A.\n\nB."),
        ("quote", "C"),
        ("quote", "> D"),
    ]


def test_comments_attributes_directives_and_breaks_are_no_blocks() -> None:
    source = (
        "// a\n\n////\nb\n\n== c\n////\n\n:d: e \\\nf\n\ninclude::secret.adoc[]\n\nifdef::x[]\n[[anchor]]\n"
        "words\nendif::[]\n\n'''\n\n<<<\n\ntoc::[]\n"
    )

    assert blocks(source) == [("paragraph", "words")]


@pytest.mark.parametrize(
    ("source", "items"),
    [
        ("* a\n** in\n* b\ngoes on\n\n* c\n\nend", ["* a\n** in", "* b\ngoes on", "* c"]),
        ("* a\n+\n----\ncode\n\nmore\n----\n+\nwords\n* b\n", ["* a\n+\n----\ncode\n\nmore\n----\n+\nwords", "* b"]),
        ("1. a\n2. b\n", ["1. a", "2. b"]),
        ("One:: first\nTwo::\n  second\n\nThree::\n\nthird\n", ["One:: first", "Two::\n  second", "Three::\n\nthird"]),
        ("<1> a\n<2> b\n", ["<1> a", "<2> b"]),
        ("- a\n\n\n- b\n", ["- a", "- b"]),
    ],
)
def test_items_are_the_parts_of_lists(source: str, items: list[str]) -> None:
    assert blocks(source)[0][0] == "list"
    assert parts(source) == items


@pytest.mark.parametrize("source", ["*bold* words", ".Title", "std::vector is fast", "https://x.org::y", "1.5 is a number"])
def test_what_only_looks_like_an_item_is_a_paragraph(source: str) -> None:
    assert blocks(source) == [("paragraph", source)]


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("|===\n|a |b\n|1 |2\n|===\n", ["|a |b", "|1 |2"]),
        ("|===\n|a |b\n\n|1\n|2\n\n|3\n|4\n|===\n", ["|a |b", "|1\n|2", "|3\n|4"]),
        ('[cols="1,2m"]\n|===\n|a\n|b\n2+|wide\n|1\na|* x\n|===\n', ["|a\n|b", "2+|wide", "|1\na|* x"]),
        ("[cols=3*]\n|===\n|a |b\n|c \\| d\n|1 |2 |3\n|===\n", ["|a |b\n|c \\| d", "|1 |2 |3"]),
        (",===\na,b\n1,2\n,===\n", ["a,b", "1,2"]),
    ],
)
def test_rows_are_the_parts_of_tables(source: str, rows: list[str]) -> None:
    assert blocks(source)[0][0] == "table"
    assert parts(source) == rows


def test_an_image_with_words_is_a_figure_and_a_title_a_paragraph() -> None:
    source = (
        ".A picture\n[#id]\nimage::x.png[]\n\nimage::y.png[Alt words,200]\n\nimage::z.png[]\n\n.A listing\n"
        "[source]\n----\nx\n----\n"
    )

    assert blocks(source) == [
        ("figure", ".A picture\n[#id]\nimage::x.png[]"),
        ("figure", "image::y.png[Alt words,200]"),
        ("paragraph", ".A listing"),
        ("code", "x"),
    ]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_any_newline_gives_the_same_blocks(newline: str) -> None:
    source = "= T\n\n* a\n* b\n\n----\nx\n\ny\n----\n\n|===\n|a |b\n|===\n"

    assert blocks(source.replace("\n", newline)) == [(kind, text.replace("\n", newline)) for kind, text in blocks(source)]


@pytest.mark.parametrize(
    "source",
    [
        "= a" + " " * 300_000 + "b",
        "====\n" * 60_000,
        "----\n" * 60_000,
        "".join("-" * (4 + i) + "\n" for i in range(900)),
        "* a\n" * 40_000,
        "* a\n+\n" * 30_000,
        "image::[" + "[" * 500_000,
        "[a" * 300_000,
        ".a\n" * 40_000,
        "a::\n" * 40_000,
        "a:" * 300_000,
        "|===\n" + "|a\n" * 60_000,
        "|===\n" + "1" * 300_000,
        "ab\n--\n" * 30_000,
        "a\n" + "\n" * 300_000,
    ],
)
def test_hostile_sources_take_linear_time(source: str) -> None:
    began = time.process_time()
    read(source)

    assert time.process_time() - began < 5


MARKS = [
    "= ",
    "== ",
    "\n",
    "\n\n",
    "----\n",
    "====\n",
    "____\n",
    "|===\n",
    "|",
    "* ",
    ". ",
    "a:: ",
    "+\n",
    "[source]\n",
    ":a: b\n",
    "//",
    "////\n",
    ".T\n",
    "image::x[",
    "]",
    " ",
    "word ",
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
    for path in sorted((CORPUS / "open" / "adoc").rglob("*.adoc")):
        source = path.read_text("utf-8")
        assert read(source).metadata["title"], path
        for _ in range(5):
            at = rng.randrange(len(source))
            read(source[at : at + 5000] + source[: rng.randrange(3000)])
