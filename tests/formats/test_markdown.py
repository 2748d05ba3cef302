"""Markdown: what CommonMark and GitHub's tables make blocks, as exact spans, whatever the source."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, markdown, parse

Shown = list[tuple[str, str, list[str]]]


def read(source: str) -> Parsed:
    (parsed,) = parse(source.encode(), "a.md", format="markdown")
    return parsed


def shown(source: str) -> Shown:
    """Kind, text and texts of the parts of each block."""
    text, blocks = (parsed := read(source)).text, parsed.blocks
    return [(b.kind, text[slice(*b.span)], [text[slice(*part)] for part in b.parts]) for b in blocks]


def titles(source: str) -> list[str]:
    return [block.title for block in read(source).blocks]


@pytest.mark.parametrize("table", ["| a | b |\n|---|---|\n| 1 | 2 |", "a | b\n--|--\n1 | 2", "a | b\n| --- | :-: |\n1 | 2"])
@pytest.mark.parametrize("above", ["Costs:", "The costs are\nas follows, café:"])
def test_a_table_may_stand_directly_under_words(above: str, table: str) -> None:
    header, _, row = table.split("\n")

    assert shown(f"{above}\n{table}\n\nEnd.\n") == [
        ("paragraph", above, []),
        ("table", table, [header, row]),
        ("paragraph", "End.", []),
    ]


def test_words_with_pipes_are_no_table() -> None:
    for words in ("a | b\nc | d", "x\na | b | c\n--|--", "x\n--|--", "x\n\n--|--"):
        assert {kind for kind, _, _ in shown(words)} == {"paragraph"}, words


def test_definitions_of_links_are_no_block_and_no_part_of_a_list() -> None:
    assert shown("- a\n- b [x]\n\n[x]: /u 'title'\n\n[y]: /v\nwords\n") == [
        ("list", "- a\n- b [x]", ["- a", "- b [x]"]),
        ("paragraph", "words", []),
    ]


def test_only_outer_items_are_parts() -> None:
    source = "1. one\n\n   - in\n   - it\n\n   para\n2. two\n   > - q\n\n* other"

    assert shown(source) == [
        ("list", source[:-9], ["1. one\n\n   - in\n   - it\n\n   para", "2. two\n   > - q"]),
        ("list", "* other", ["* other"]),
    ]


def test_spans_count_code_points_behind_letters_of_any_width() -> None:
    source = "# Ünïcode 日本 🎉\n\n🎉 é\n\n- 日\n- 本語\n\n| é | 🎉 |\n|---|---|\n| 語 | x |\n\nend"

    assert shown(source) == [
        ("heading", "# Ünïcode 日本 🎉", []),
        ("paragraph", "🎉 é", []),
        ("list", "- 日\n- 本語", ["- 日", "- 本語"]),
        ("table", "| é | 🎉 |\n|---|---|\n| 語 | x |", ["| é | 🎉 |", "| 語 | x |"]),
        ("paragraph", "end", []),
    ]
    assert titles(source)[0] == "Ünïcode 日本 🎉"


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\xa0", "\u2028"])
def test_only_spaces_and_tabs_make_a_blank_line(mark: str) -> None:
    assert shown(f"one\n{mark}\ntwo\n \t \nthree") == [("paragraph", f"one\n{mark}\ntwo", []), ("paragraph", "three", [])]
    assert shown(f"one\n\n{mark}\n    two") == [("paragraph", "one", []), ("paragraph", "two", [])]


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# *Lamp* `oil` ~~gas~~ &amp; ![wick](x.png) <b>fire</b>", "Lamp oil gas & wick fire"),
        ("Two\nlines \\\nof it\n===", "Two lines of it"),
        ("# `{#x}`", "{#x}"),
        ("## *Lamp* {#lamp} ##", "Lamp"),
        ("# /users/{id}", "/users/{id}"),
        ("# [a][b] and [b]\n\n[b]: /u", "[a][b] and [b]"),  # a definition may be megabytes away
        ("# a\x0cb", "a b"),
        ("#", ""),
    ],
)
def test_a_title_is_what_is_read_of_a_heading(heading: str, title: str) -> None:
    assert titles(heading) == [title]


LINES = ["para", "# h *x*", "===", "- item", "  cont", "    code", "2. two", "> q", "```", "<div>", "[a]: /u", "'t'", "a | b"]


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(st.sampled_from([*LINES, "--|--", "| é | b |", "|---|---|", "-", "\x0c", " ", "", ""]), max_size=12))
def test_blocks_are_the_same_with_any_end_of_line(lines: list[str]) -> None:
    expected = shown("\n".join(lines))

    for newline in ("\r\n", "\r"):
        found = shown(newline.join(lines))
        plain = [(kind, text.replace(newline, "\n"), [p.replace(newline, "\n") for p in parts]) for kind, text, parts in found]
        assert plain == expected


class PanicException(BaseException):
    """As pyo3's, which is no Exception."""


def test_a_panic_of_the_parser_is_the_documents_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panicking:
        def events_with_range(self, source: str) -> None:
            raise PanicException("index out of bounds")

    monkeypatch.setattr(markdown, "_parser", Panicking)

    with pytest.raises(DocumentError, match="index out of bounds") as caught:
        read("# A")
    assert caught.value.kind == "corrupt"


@pytest.mark.parametrize(
    "unit",
    [
        "*a",
        "_a ",
        "`",
        "[",
        "](",
        "![",
        "<a",
        "<!--",
        "&a",
        "\\",
        "|",
        "> ",
        "- ",
        "1. ",
        "\0",
        "\r",
        "|\n",
        "-\n",
        "[a]: /u\n",
    ],
)
def test_a_mark_over_and_over_takes_linear_time(unit: str) -> None:
    since = time.process_time()

    text, blocks = (parsed := read(unit * 40_000 + "\n\nend")).text, parsed.blocks

    assert text[slice(*blocks[-1].span)].endswith("end")
    assert time.process_time() - since < 3  # it takes some hundredths
