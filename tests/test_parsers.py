"""Every format: exact text, blocks that point into it, and nothing but `DocumentError` for any bytes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.base import Span
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.io.parsers import FORMATS, Parsed, detect, parse, parser_version
from sound import assert_sound

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
FRENCH = "Le café était très agréable, où l’été s’achève déjà. "
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. "
TURKISH = "Bugün hava çok güzel, ağaçlar yeşil ve ışıl ışıl. "
JAPANESE = "これは日本語の文章です。文字コードを判定します。"
CHINESE = "机器学习是人工智能的一个分支。"
RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве. "


def one(source: bytes | str, name: str) -> Parsed:
    parsed = list(parse(source.encode() if isinstance(source, str) else source, name))
    assert len(parsed) == 1
    return parsed[0]


def texts(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def parts(parsed: Parsed, at: int = 0) -> list[str]:
    return [parsed.text[slice(*part)] for part in parsed.blocks[at].parts]


def headings(parsed: Parsed) -> list[tuple[int, str]]:
    return [(block.level, block.title) for block in parsed.blocks if block.kind == "heading"]


# Any input


def read(data: bytes, name: str, format: str | None) -> None:
    with contextlib.suppress(DocumentError):
        for parsed in parse(data, name, format=format or ""):
            assert_sound(parsed)


MARKS = [
    "# ",
    "- ",
    "> ",
    "```",
    "|",
    "---\n",
    "<p>",
    "<table><tr><td>",
    "</",
    "<li>",
    "<pre>",
    "\n",
    "\r\n",
    "\t",
    "    ",
    '{"text":',
]
MARKED = st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=8))).map("".join)


@pytest.mark.parametrize("format", [*FORMATS, None])
@settings(max_examples=150, deadline=None)
@given(data=st.one_of(st.binary(max_size=300), MARKED.map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_give_sound_documents_or_a_document_error(format: str | None, data: bytes) -> None:
    read(data, "some.file", format)


@pytest.mark.parametrize(
    "head", [b"%PDF-1.7\n", b"PAR1", b"\xff\xfe", b"\xef\xbb\xbf", b"---\n", b"<!doctype html>", b"#!/bin/sh\n"]
)
@settings(max_examples=60, deadline=None)
@given(tail=st.binary(max_size=200))
def test_a_magic_before_any_bytes_gives_sound_documents_or_a_document_error(head: bytes, tail: bytes) -> None:
    read(head + tail, "some.file", None)


@settings(max_examples=100, deadline=None)
@given(text=st.text())
def test_a_text_file_is_its_decoded_content_unchanged(text: str) -> None:
    data = b"\xef\xbb\xbf" + text.encode()

    assert next(parse(data, "a.txt", format="text")).text == text
    assert next(parse(data, "a.md", format="markdown")).text == text
    assert next(parse(data, "a.py", format="code")).text == text


@settings(max_examples=150, deadline=None)
@given(words=st.lists(st.text("abcé日", min_size=1, max_size=5), min_size=1), data=st.data())
def test_no_word_of_a_page_is_lost(words: list[str], data: st.DataObject) -> None:
    tags = ["p", "div", "b", "li", "ul", "td", "tr", "table", "h2", "blockquote", "pre", "dd", "dl", "span", "caption"]
    page = "".join(f"<{data.draw(st.sampled_from(tags))}> {word} </{data.draw(st.sampled_from(tags))}>" for word in words)

    parsed = one(page, "a.html")

    assert_sound(parsed)
    assert sorted(w for w in parsed.text.split() if w not in "-|") == sorted(words)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.pdf", "a.py", "a.jsonl", "a.parquet", "a"])
def test_an_empty_file_is_one_empty_document(name: str) -> None:
    assert one(b"", name)._replace(format="") == Parsed("")


TEXTUAL = ("text", "markdown", "html", "rst", "asciidoc", "latex", "csv", "json", "jsonl", "subtitles", "code", "notebook")


@pytest.mark.parametrize("source", [b" \n\t\n  ", b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb\xbf\r\n"])
@pytest.mark.parametrize("format", TEXTUAL)
def test_white_space_or_a_mark_alone_is_no_text_in_any_textual_format(format: str, source: bytes) -> None:
    found = list(parse(source, "x", format=format))

    assert not any(parsed.text.strip() or parsed.blocks or parsed.error for parsed in found)


def test_importing_the_formats_imports_no_format_library() -> None:
    code = (
        "import sys, chunkmill.io.parsers as p\n"
        "heavy = {'pymupdf', 'selectolax', 'pyromark', 'chardet', 'ray', 'torch'}\n"
        "list(p.parse(b'plain', 'a.txt')); sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("format", FORMATS)
def test_the_recipe_names_our_revision_and_the_librarys_version(format: str) -> None:
    revision, library = parser_version(format).split("/")

    assert re.fullmatch(rf"{format}-\d+", revision)
    assert library.rpartition("-")[2][0].isdigit()


def test_an_unknown_format_is_the_users_error() -> None:
    with pytest.raises(ConfigError, match="markdown"):
        list(parse(b"x", "x", format="markdwn"))


# Detection


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("a.txt", b"%PDF-1.4\n", "pdf"),
        ("a.pdf", b"HTTP/1.1 200 OK\r\n\r\n%PDF-1.4\n", "pdf"),
        ("a.pdf", b"<!DOCTYPE html><title>expired</title>", "html"),
        ("page", b"<?xml version='1.0'?>\n<!-- x -->\n<html>", "html"),
        ("a.md", b"<html>", "markdown"),
        ("A.MD", b"x", "markdown"),
        ("a.mdx", b"x", "markdown"),
        ("a.bin", b"PAR1....", "parquet"),
        ("a.jsonl", b"{}", "jsonl"),
        ("run", b"#!/usr/bin/env python3\n", "code"),
        ("dir.py/run", b"words", "text"),
        ("Makefile", b"all:\n", "code"),
        ("a.json", b"{}", "json"),
        ("a.rst", b"x", "rst"),
        ("noextension", b"words", "text"),
        ("a.txt", "UTF-16 without a mark".encode("utf-16-le"), "text"),
        ("a.txt", b"a few NULs among plain words\0 are no binary\0", "text"),
    ],
)
def test_content_decides_the_format_before_the_name(name: str, data: bytes, format: str) -> None:
    assert detect(name, data) == format


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b"\x89PNG\r\n\x1a\n....", "binary", "PNG"),
        (b"\x7fELF\2\1\1", "binary", "ELF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", "unsupported", "OLE"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted", "password"),
        (bytes(range(256)) * 20, "binary", "binary"),
    ],
)
def test_what_is_no_text_is_refused_by_its_own_name(data: bytes, kind: str, says: str) -> None:
    with pytest.raises(DocumentError, match=says) as caught:
        list(parse(data, "report.txt"))

    assert caught.value.kind == kind


# Text


@pytest.mark.parametrize(
    ("text", "codec", "encoding"),
    [
        (FRENCH, "utf-8", "utf-8"),
        (FRENCH, "utf-8-sig", "utf-8"),
        (FRENCH, "utf-16", "utf-16-le"),
        (FRENCH, "utf-32", "utf-32-le"),
        (FRENCH, "utf-16-le", "utf-16-le"),
        (FRENCH, "cp1252", "cp1252"),
        ("Déjà vu, à côté de l'élève. ", "latin-1", "cp1252"),
        ("Müller wohnt in der Königstraße 5. ", "latin-1", "cp1252"),
        (CZECH, "cp1250", "cp1250"),
        (TURKISH, "cp1254", "cp1254"),
        (RUSSIAN, "koi8_r", "koi8_r"),
        (RUSSIAN, "cp1251", "cp1251"),
        (JAPANESE, "shift_jis", "cp932"),
        (JAPANESE, "euc_jp", "euc_jp"),
        (JAPANESE, "iso2022_jp", "iso2022_jp"),
        (CHINESE, "gb18030", "gb18030"),
        ("𠮷" + CHINESE * 5, "gb18030", "gb18030"),
    ],
)
@pytest.mark.parametrize("times", [1, 20])
def test_an_encoding_is_found_and_recorded(text: str, codec: str, encoding: str, times: int) -> None:
    parsed = one((text * times).encode(codec), "a.txt")

    assert (text * times, encoding) == (parsed.text, parsed.metadata["encoding"])


def test_both_byte_orders_are_told_by_their_marks() -> None:
    assert one(b"\xfe\xff" + CHINESE.encode("utf-16-be"), "a.txt").text == CHINESE
    assert one(b"\xff\xfe" + CHINESE.encode("utf-16-le"), "a.txt").text == CHINESE


def test_a_stray_byte_in_utf8_is_repaired_and_counted() -> None:
    parsed = one("Zürich ist schön\n".encode() * 5 + "Zürich\n".encode("cp1252"), "a.txt")

    assert (parsed.metadata["repaired"], parsed.text.count("Zürich")) == ("1", 6)


def test_bytes_that_mean_nothing_become_the_replacement_character_and_are_counted() -> None:
    parsed = one(b"ok line\n\xc0\xaf overlong\n\xed\xa0\xbd\xed\xb8\x80 cesu-8 pair\nend line\n", "a.txt")

    assert parsed.text.startswith("ok line\n\ufffd\ufffd overlong")
    assert parsed.metadata["repaired"] == str(parsed.text.count("\ufffd"))


def test_bytes_in_no_encoding_are_refused_not_guessed() -> None:
    with pytest.raises(DocumentError) as caught:
        one(bytes((i * 89 + i * i * 7) % 128 + 128 for i in range(4000)), "a.txt")

    assert caught.value.kind == "undecodable"


def test_a_lone_surrogate_is_replaced_and_counted_and_a_pair_is_joined() -> None:
    parsed = one(b"\xff\xfe" + "ratio \ud835 ok \ud83d\ude00 end".encode("utf-16-le", "surrogatepass"), "a.txt")

    assert (parsed.text, parsed.metadata["repaired"]) == ("ratio \ufffd ok 😀 end", "1")


def test_paragraphs_are_what_blank_lines_part() -> None:
    parsed = one("  one\ntwo \n\n \t \r\nthree\r\n\r\n\r\nfour\r\rfive\n", "a.txt")

    assert [text for _, text in texts(parsed)] == ["one\ntwo", "three", "four", "five"]


# Markdown


def test_white_space_inside_a_fence_is_kept() -> None:
    parsed = one("## Config\n\n```yaml\nserver:\n  tls:\n    cert: a.pem\n```\n", "a.md")

    assert texts(parsed)[1] == ("code", "```yaml\nserver:\n  tls:\n    cert: a.pem\n```")


def test_a_comment_in_a_fence_is_no_heading() -> None:
    assert headings(one("# Build\n\n```sh\n# clean first\nrm -r out\n```\n\nThen run.\n", "a.md")) == [(1, "Build")]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert headings(one("# A\n\n```\n## Not a heading, still code\n", "a.md")) == [(1, "A")]


def test_a_fence_inside_a_list_item_belongs_to_the_item() -> None:
    parsed = one("# A\n\n- step\n\n    ```sh\n    # not a title\n    ```\n\n## B\n\nend\n", "a.md")

    assert headings(parsed) == [(1, "A"), (2, "B")]
    assert [kind for kind, _ in texts(parsed)] == ["heading", "list", "heading", "paragraph"]


def test_levels_are_those_of_the_marks_not_of_the_nesting() -> None:
    parsed = one("# Catalog\n\n### Arrays\n\na\n\n### Links\n\nb\n", "a.md")

    assert headings(parsed) == [(1, "Catalog"), (3, "Arrays"), (3, "Links")]


def test_closing_hashes_are_no_part_of_a_title() -> None:
    parsed = one("## Wiring ##\n\nRed first.\n\n# C#\n\nSharp.\n", "a.md")

    assert headings(parsed) == [(2, "Wiring"), (1, "C#")]
    assert texts(parsed)[0] == ("heading", "## Wiring ##")


def test_underlined_headings_are_told_from_rules() -> None:
    parsed = one("Pump manual\n===\n\nStart.\n\nSafety\n---\n\nStop.\n\n---\n\nEnd.\n", "a.md")

    assert headings(parsed) == [(1, "Pump manual"), (2, "Safety")]
    assert texts(parsed)[0] == ("heading", "Pump manual\n===")
    assert texts(parsed)[-1] == ("paragraph", "End.")


def test_a_title_is_what_a_reader_sees() -> None:
    assert headings(one("## Overview {#overview}\n", "a.md")) == [(2, "Overview")]
    assert headings(one("## [Release 2](https://example.org/r2) *notes*\n", "a.md")) == [(2, "Release 2 notes")]


def test_a_markdown_tables_parts_are_its_rows_without_the_delimiter() -> None:
    parsed = one("text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nafter\n", "a.md")

    assert parts(parsed, 1) == ["| a | b |", "| 1 | 2 |", "| 3 | 4 |"]
    assert [kind for kind, _ in texts(parsed)] == ["paragraph", "table", "paragraph"]


def test_a_lists_parts_are_its_items() -> None:
    assert parts(one("- a\n  - aa\n- b\n", "a.md")) == ["- a\n  - aa", "- b"]


def test_quotes_html_and_indented_code_are_blocks() -> None:
    parsed = one("> q\n> # in\n\n    code\n      more\n\n<div>\nz\n</div>\n", "a.md")

    assert texts(parsed) == [("quote", "> q\n> # in"), ("code", "    code\n      more"), ("paragraph", "<div>\nz\n</div>")]


@pytest.mark.parametrize(
    ("front", "found"),
    [
        ("---\ntitle: Deep Sea\nyear: 2021\ntags: [a, b]\n---\n", {"title": "Deep Sea", "year": "2021", "tags": "a, b"}),
        ("---\ntitle: a: b\n---\n", {"title": "a: b"}),
        ('+++\ntitle = "T"\nn = 3\n+++\n', {"title": "T", "n": "3"}),
        ("---\nx: !!python/object/apply:os.getcwd []\ny: 1\n---\n", {"y": "1"}),
    ],
)
def test_front_matter_becomes_metadata_and_no_block(front: str, found: dict[str, str]) -> None:
    parsed = one(front + "\n# Body\n", "a.md")

    assert found | {"encoding": "utf-8"} == parsed.metadata
    assert texts(parsed) == [("heading", "# Body")]
    assert parsed.text.startswith(front)


def test_front_matter_that_is_none_is_content() -> None:
    assert "Body" in texts(one("---\ntitle: x\n\nBody\n", "a.md"))[-1][1]
    assert headings(one("---\na rule above\n---\n", "a.md")) == [(2, "a rule above")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_newline_gives_the_same_blocks(newline: str) -> None:
    parsed = one("# A\n\npara\nmore\n\n- x\n- y\n".replace("\n", newline), "a.md")

    assert ["# A", f"para{newline}more", f"- x{newline}- y"] == [text for _, text in texts(parsed)]


@pytest.mark.parametrize(
    "source", [">" * 10_000 + " deep", "[" * 50_000 + "]" * 50_000, "# " + "[" * 50_000, "> - " * 3000 + "a", "# t\n" * 10_000]
)
def test_hostile_markdown_takes_linear_time(source: str) -> None:
    assert one(source, "a.md").blocks


# HTML


@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        ("<div>Loose text<p>Para</p>tail</div>", ["Loose text", "Para", "tail"]),
        ("<p>Press <b>both</b> keys <i>now</i> please</p>", ["Press both keys now please"]),
        ("<p>See <a href='#x'>fast<span> boat</span></a>.</p>", ["See fast boat."]),
        ("<p>  a \n\t b<br>c </p>", ["a b\nc"]),
        ("<script>x</script><style>y</style><nav>z</nav><noscript>w</noscript><p hidden>v</p>stay", ["stay"]),
        ("<p>para one<p>para two", ["para one", "para two"]),
        ("<p>1 &lt; 2 &amp; caf&eacute;", ["1 < 2 & café"]),
        ("one<br><br>two<br>three<br>\n<br/>four", ["one", "two\nthree", "four"]),
        ("<p>mini&shy;mal <ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>", ["minimal 漢"]),
        ("<h2>Use<a class=headerlink href='#use'>¶</a></h2><p>x", ["Use", "x"]),
        ("<h2>Use <span class=mw-editsection>[<a href=e>edit</a>]</span></h2><p>x", ["Use", "x"]),
        ("<div role=navigation>n</div><p style='visibility:hidden'>v</p><dialog>d</dialog><dialog open>o</dialog>", ["o"]),
        ("<p>See <img src=x alt='the red buoy'> here<img alt=Logo><img alt='a.png'>.", ["See the red buoy here."]),
        ("<ol start=5><li>a<li>b<li value=9>c<li>d</ol>", ["5. a\n6. b\n9. c\n10. d"]),
        ("<p>So <math><mi>a</mi><mo>=</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></math> holds.", ["So a = 1/2 holds."]),
        ("<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><title/><script/><p>x</p></html>", ["x"]),
    ],
)
def test_a_page_reads_as_a_browser_shows_it(page: str, blocks: list[str]) -> None:
    parsed = one(page, "a.html")

    assert blocks == [text for _, text in texts(parsed)]
    assert "\n\n".join(blocks) == parsed.text


def test_headings_of_a_page_carry_level_and_title() -> None:
    parsed = one("<h1>Chapter <em>3</em></h1><p>aa</p><h2>Part\n3.2</h2><p>bb</p>", "a.html")

    assert headings(parsed) == [(1, "Chapter 3"), (2, "Part 3.2")]


def test_a_tables_rows_are_lines_and_parts() -> None:
    page = "<table><caption>cap</caption><tr><th>a<th>b<tr><td><p>c</p><p>d</p><td><ul><li>e</ul><tr><td><td></table>"

    parsed = one(page, "a.html")

    assert texts(parsed) == [("paragraph", "cap"), ("table", "a | b\nc d | e")]
    assert parts(parsed, 1) == ["a | b", "c d | e"]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ("<tr><th rowspan=2>P<th colspan=2>H<tr><th>m<th>n<tr><td>o<td>1<td>2", "P | H\n| m | n\no | 1 | 2"),
        ("<tr><td>a<td colspan=2>b<td>c<tr><td>d<td>e<td>f<td>g", "a | b |  | c\nd | e | f | g"),
        ("<tr><td>a<td rowspan=2>b<tr><td>c<td>d<tr><td>e<td>f", "a | b\nc |  | d\ne | f"),
        ("<tr><td>a<td rowspan=3>b<tr><td>c<tr><td>d<tr><td>e<td>f", "a | b\nc\nd\ne | f"),
        ("<tbody><tr><td rowspan=0>a<td rowspan=9>b</tbody><tbody><tr><td>c<td>d", "a | b\nc | d"),
        ("<tr><td rowspan=x colspan=-1>a<td rowspan=99999999999>b<tr><td>c<td>d", "a | b\nc | d"),
    ],
)
def test_a_cell_stands_in_its_column_whatever_others_cover(rows: str, lines: str) -> None:
    assert texts(one(f"<table>{rows}</table>", "a.html")) == [("table", lines)]


def test_a_table_inside_a_cell_of_a_table_with_headers_is_text_of_that_cell() -> None:
    page = "<table><tr><th>a<th>b<tr><td>c<td>d<table><tr><td>e<td>f</table><tr><td><h3>g</h3>h<td>i</table>"

    assert texts(one(page, "a.html")) == [("table", "a | b\nc | d e f\ng h | i")]


def test_a_table_that_holds_headings_is_layout() -> None:
    assert [kind for kind, _ in texts(one("<table><tr><td><h2>T</h2>x<td>y</table>", "a.html"))] == [
        "heading",
        "paragraph",
        "paragraph",
    ]


def test_items_of_lists_are_parts_and_keep_their_order() -> None:
    parsed = one("<ul><li>x<ul><li>y</li></ul></li><li><p>z</p><p>zz</p></li></ul><ol><li>one<li>two</ol>", "a.html")

    assert [part.replace("\n  ", "\n") for part in parts(parsed)] == ["- x", "  - y", "- z\nzz"]
    assert parts(parsed, 1) == ["1. one", "2. two"]


def test_preformatted_text_keeps_its_white_space() -> None:
    assert texts(one("<pre>\ndef f():\n    &lt;x>\n\n    y\n</pre>", "a.html")) == [("code", "def f():\n    <x>\n\n    y")]


@pytest.mark.parametrize(
    ("title", "levels"),
    [
        ("SELECT", [1, 2, 3]),
        ("SELECT \u2014 Manual", [1, 2, 3]),
        ("SELECTED", [2, 2, 3]),
        ("Manual", [2, 2, 3]),
    ],
)
def test_the_heading_that_a_pages_title_repeats_is_its_top_one(title: str, levels: list[int]) -> None:
    page = f"<title>{title}</title><h2>SELECT</h2><h2>Parameters</h2><h3>WITH</h3>"

    assert [level for level, _ in headings(one(page, "a.html"))] == levels
    assert headings(one(page + "<h1>Own</h1>", "a.html"))[0] == (2, "SELECT")


def test_nuls_among_the_text_are_kept_and_said() -> None:
    parsed = one(b"alpha\0 beta\0", "a.txt")

    assert (parsed.text, parsed.metadata["warning"]) == ("alpha\0 beta\0", "2 NUL characters among the text")


def test_the_head_of_a_page_is_metadata() -> None:
    page = "<html lang=fr><head><title> A \n B</title><meta name=author content=Zoé><meta name=description content=D></head>x"

    found = one(page, "a.html").metadata

    assert found == {"title": "A B", "language": "fr", "author": "Zoé", "description": "D", "encoding": "utf-8"}


def test_a_declared_charset_is_believed_unless_the_bytes_are_utf8() -> None:
    page = "<meta charset=koi8-r><p>да"

    assert one(page.encode("koi8-r"), "a.html").text == "да"
    assert one(page.encode(), "a.html").text == "да"


@pytest.mark.parametrize("tag", ["div", "b", "ul", "blockquote", "x-y"])
def test_a_page_a_hundred_thousand_deep_is_read(tag: str) -> None:
    start = time.process_time()

    parsed = one(f"<p>before</p>{f'<{tag}>' * 100_000}deep text{f'</{tag}>' * 100_000}<p>after</p>", "a.html")

    assert time.process_time() - start < 5
    assert parsed.text.replace("\n\n", "\n").split("\n") == ["before", "deep text", "after"]


# PDF


def made_pdf(**save: object) -> bytes:
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((72, 80), "The Whale", fontsize=24)
    page.insert_text((72, 120), "Some body text that goes on for a while,\nand then a bit longer to be the bo-\ndy of it all.")
    for y in (200, 220, 240):
        page.draw_line((72, y), (272, y))
    for x in (72, 172, 272):
        page.draw_line((x, 200), (x, 240))
    for (x, y), word in {(80, 214): "Name", (180, 214): "Price", (80, 234): "Bolt", (180, 234): "3"}.items():
        page.insert_text((x, y), word)
    page = pdf.new_page()
    page.insert_text((72, 80), "Second part", fontsize=16)
    page.insert_text((72, 110), "More body on page two.")
    pdf.set_metadata({"title": "Whales", "author": "Ann"})
    return bytes(pdf.tobytes(**save))


def test_a_pdf_has_headings_paragraphs_tables_and_pages() -> None:
    parsed = one(made_pdf(), "a.pdf")

    assert_sound(parsed)
    assert headings(parsed) == [(1, "The Whale"), (2, "Second part")]
    assert ("table", "Name | Price\nBolt | 3") in texts(parsed)
    assert parts(parsed, 2) == ["Name | Price", "Bolt | 3"]
    assert [block.page for block in parsed.blocks] == [1, 1, 1, 2, 2]
    assert parsed.metadata == {"title": "Whales", "author": "Ann", "pages": "2"}


def test_lines_of_a_pdf_paragraph_are_joined_and_their_hyphens_healed() -> None:
    assert "for a while, and then a bit longer to be the body of it all." in one(made_pdf(), "a.pdf").text


def test_a_hyphen_stays_where_the_document_writes_the_word_with_it() -> None:
    pdf = pymupdf.open()
    lines = (
        "A mild climate suits the vines.",
        "Last year the cli-",
        "mate turned harsh.",
        "Use a price-setting rule. The price-",
        "setting rule is fair.",
    )
    pdf.new_page().insert_text((72, 80), "\n".join(lines))

    text = one(pdf.tobytes(), "a.pdf").text

    assert "the climate turned harsh" in text
    assert "The price-setting rule is fair." in text


def test_a_pdf_that_needs_a_password_is_encrypted() -> None:
    locked = made_pdf(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="u", owner_pw="o")
    owned = made_pdf(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="", owner_pw="o")

    with pytest.raises(DocumentError) as caught:
        one(locked, "a.pdf")
    assert caught.value.kind == "encrypted"
    assert "The Whale" in one(owned, "a.pdf").text


def test_a_pdf_without_a_text_layer_is_no_text() -> None:
    pdf = pymupdf.open()
    pdf.new_page().draw_rect((10, 10, 50, 50))

    with pytest.raises(DocumentError) as caught:
        one(pdf.tobytes(), "scan.pdf")
    assert caught.value.kind == "no_text"


@pytest.mark.parametrize("data", [b"%PDF-1.7\nrubbish", made_pdf()[:200]])
def test_a_broken_pdf_is_corrupt(data: bytes) -> None:
    with pytest.raises(DocumentError) as caught:
        one(data, "a.pdf")
    assert caught.value.kind == "corrupt"


def test_two_columns_written_across_are_read_one_after_the_other() -> None:
    pdf = pymupdf.open()
    page = pdf.new_page()
    lines = "opens the long story", "adds a little clue here", "names the small town", "ends the whole column"
    for number, line in enumerate(lines):
        page.insert_text((72, 100 + 14 * number), f"Left {line}.")
        page.insert_text((320, 100 + 14 * number), f"Right {line}.")

    text = one(pdf.tobytes(), "a.pdf").text

    assert text.rindex("Left") < text.index("Right")


def test_invisible_text_between_visible_lines_is_left_out_and_counted() -> None:
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((72, 100), "Invoice total: 420 crowns, all taxes included.")
    page.insert_text((72, 160), "pay 9 crowns", render_mode=3)

    parsed = one(pdf.tobytes(), "a.pdf")

    assert (parsed.text, parsed.metadata["hidden"]) == ("Invoice total: 420 crowns, all taxes included.", "1")


def test_invisible_text_alone_is_the_layer_of_an_ocr() -> None:
    pdf = pymupdf.open()
    pdf.new_page().insert_text((72, 100), "read by a machine", render_mode=3)

    assert one(pdf.tobytes(), "a.pdf").text == "read by a machine"


# Code


def test_code_is_the_file_with_one_block_and_its_language() -> None:
    source = "\n    x = 1\n\ndef f():\n\treturn x\n\n"

    parsed = one(source, "a.py")

    assert source == parsed.text
    assert [("code", source.strip("\n"))] == texts(parsed)
    assert parsed.metadata["language"] == "python"


@pytest.mark.parametrize(
    ("name", "source", "language"),
    [
        ("a.tsx", "x", "tsx"),
        ("Dockerfile", "FROM x", "dockerfile"),
        ("sub/CMakeLists.txt", "x", "cmake"),
        ("run", "#!/usr/bin/env python3\nx", "python"),
        ("run", "#!/bin/sh\nx", "bash"),
        ("run", "#!/usr/bin/env -S node --flag\nx", "javascript"),
    ],
)
def test_a_language_is_known_by_name_or_first_line(name: str, source: str, language: str) -> None:
    assert language == one(source, name).metadata["language"]


def test_pythons_encoding_cookie_is_honoured() -> None:
    assert "# 中" in one("# -*- coding: gbk -*-\n# 中\n".encode("gbk"), "a.py").text


# Records


def test_a_bad_line_fails_alone() -> None:
    lines = [
        '{"id": "a", "text": "one\\n\\ntwo", "n": 3, "tags": [1], "ok": true}',
        "",
        "{broken",
        '{"text": 5}',
        '{"text": null}',
    ]

    rows = list(parse("\n".join(lines).encode(), "a.jsonl"))

    assert [row.member for row in rows] == ["#a", "#3", "#4", "#5"]
    assert rows[0].metadata == {"n": "3", "ok": "true", "tags": "1"}
    assert [text for _, text in texts(rows[0])] == ["one", "two"]
    assert [row.error.kind for row in rows if row.error] == ["corrupt", "corrupt"]
    assert rows[1].error is not None
    assert "line 3" in rows[1].error.message
    assert rows[3]._replace(read=0.0) == Parsed("", member="#5", format="jsonl")


def test_members_are_unique() -> None:
    source = "\n".join(json.dumps({"id": i, "text": "x"}) for i in ("a", "a", "a~2", "a"))

    assert [row.member for row in parse(source.encode(), "a.jsonl")] == ["#a", "#a~2", "#a~2~2", "#a~3"]


def test_the_text_column_is_the_usual_one_or_the_asked_one() -> None:
    rows = b'{"question": "q", "answer": "a"}\n'

    with pytest.raises(DocumentError, match=r"no column 'nope'; there are: question, answer.*text_column"):
        list(parse(rows, "a.jsonl", settings={"jsonl": {"text_column": "nope"}}))
    assert [
        (row.text, row.member)
        for row in parse(rows, "a.jsonl", settings={"jsonl": {"text_column": "answer", "id_column": "question"}})
    ] == [("a", "#q")]
    assert [row.text for row in parse(b'{"id": "1", "said": "only"}', "a.jsonl")] == ["only"]


def test_a_row_without_a_text_of_its_own_is_a_record_of_all_its_fields() -> None:
    row = {
        "id": 7,
        "question": "Why?\nHow?",
        "answer": "So.",
        "n": 3,
        "none": None,
        "tags": ["a", {"b": 1}],
        "raw": b"caf\xc3\xa9",
    }
    source = json.dumps({key: value for key, value in row.items() if key != "raw"})

    (parsed,) = parse(source.encode(), "a.jsonl")
    (stored,) = parse(parquet(**{key: [row[key]] for key in ("id", "question", "answer", "raw")}), "a.parquet")

    assert parsed.text == 'question: Why?\nHow?\nanswer: So.\nn: 3\ntags: ["a", {"b": 1}]'
    assert [block.kind for block in parsed.blocks] == ["record"]
    assert parts(parsed) == ["question: Why?\nHow?", "answer: So.", "n: 3", 'tags: ["a", {"b": 1}]']
    assert (parsed.member, parsed.metadata) == ("#7", {"answer": "So.", "n": "3"})
    assert stored.text == "question: Why?\nHow?\nanswer: So.\nraw: café"


def test_a_lone_surrogate_in_a_row_is_counted() -> None:
    (row,) = parse(b'{"text": "a \\ud835 b \\ud83d\\ude00"}', "a.jsonl")

    assert (row.text, row.metadata["repaired"]) == ("a \ufffd b 😀", "1")


def parquet(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def test_a_parquet_row_is_a_document() -> None:
    data = parquet(content=["one", None, "three"], doc_id=[7, 8, 8], year=[1999, None, 2001], vector=[[1.0], [2.0], [3.0]])

    rows = list(parse(data, "a.parquet"))

    assert [(row.member, row.text) for row in rows] == [("#7", "one"), ("#8", ""), ("#8~2", "three")]
    assert [row.metadata for row in rows] == [{"year": "1999"}, {}, {"year": "2001"}]
    assert (Span(0, 3),) == tuple(block.span for block in rows[0].blocks)


@pytest.mark.parametrize(("data", "kind"), [(parquet(text=["x"])[:40], "corrupt"), (b"PAREjunkPARE", "encrypted")])
def test_a_parquet_file_that_cannot_be_read_says_why(data: bytes, kind: str) -> None:
    with pytest.raises(DocumentError) as caught:
        list(parse(data, "a.parquet"))
    assert caught.value.kind == kind


# The corpora beside the project, where they are


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora of ../shared are not here")
@pytest.mark.parametrize("folder", [pytest.param("open", marks=pytest.mark.long), "hostile"])
def test_every_file_of_the_corpora_is_read_or_refused(folder: str) -> None:
    for root, _, names in os.walk(os.fsencode(CORPUS / folder)):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                read(file.read(), os.fsdecode(path), None)
