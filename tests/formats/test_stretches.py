"""Markdown and CSV are parsed a stretch at a time, which must not be seen in what comes out."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, delimited, markdown, parse

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
MODULES = {"markdown": markdown, "csv": delimited}
SUFFIXES = {".md": "markdown", ".txt": "markdown", ".csv": "csv", ".tsv": "csv"}
LARGEST = 100_000  # bytes of a file that is also read in the smallest stretches


def parsed(source: str | bytes, format: str, stretch: int = 1 << 22) -> list[Parsed] | str:
    """What is found when so many code points are looked at at once, or the failure."""
    data = source if isinstance(source, bytes) else source.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULES.get(format, markdown), "STRETCH", stretch)
        patch.setattr(delimited, "DOUBLES", min(stretch, delimited.DOUBLES))
        try:
            return list(parse(data, "a", format=format))
        except DocumentError as error:
            return str(error)


MARKDOWN = """para|more text|# h|## h2 ##|===|---|- item|  - sub|   cont|    code|1. one|2. two|- |> q|>|```|~~~|<div>|</div>
<!--|-->|<b>|[a]: /u|[b|[b]: <x|]: /u|"title|end"|'t'|    "t"|* x|[link](x)|<?php|?>|[c]:|/dest|(paren|x)|\\|10) z|***"""
LINES = [
    *MARKDOWN.replace("\n", "|").split("|"),
    "| a | b |",
    "|---|---|",
    "| 1 | 2 |",
    "a | b",
    "--|--",
    "-",
    "  - x",
    "\ttab",
    "\x0c",
    "\xa0",
    "",
    "",
    "",
    " ",
]


@settings(max_examples=400, deadline=None)
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=30),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    stretch=st.sampled_from([1, 5, 20, 60, 150]),
)
@example(lines=["- x", "[b", "===", "more", "]: /u", "end"], newline="\n", stretch=12)
@example(lines=["a", "", "[b]: /u", '    "title', "text", '"', "end"], newline="\n", stretch=24)
@example(lines=["a", "a", "---|---", "x", "", "# h"], newline="\n", stretch=1)
@example(lines=["```", *["line", ""] * 20, "```", "# h", "end"], newline="\n", stretch=5)
def test_markdown_in_stretches_is_markdown(lines: list[str], newline: str, stretch: int) -> None:
    source = newline.join(lines)

    assert parsed(source, "markdown") == parsed(source, "markdown", stretch)


ROW = "| é | the lamp was lit |\n"
ITEM = "- the lamp was lit at dusk\n"


@pytest.mark.parametrize(
    ("kind", "head", "unit", "n"),
    [("table", f"{ROW}|---|---|\n", ROW, 2_001), ("list", ITEM, ITEM, 2_001), ("list", ITEM, f"{ITEM}\n  more\n\n", 2_001)],
)
def test_a_list_or_a_table_of_many_stretches_is_one_block(
    monkeypatch: pytest.MonkeyPatch, kind: str, head: str, unit: str, n: int
) -> None:
    seen: list[int] = []
    source_as_it_is = markdown._source
    monkeypatch.setattr(markdown, "_source", lambda text: seen.append(len(text)) or source_as_it_is(text))

    (whole,) = parsed(f"Above\n\n{head}{unit * 2_000}\n\n# Below\n", "markdown", 4_000)

    assert [block.kind for block in whole.blocks] == ["paragraph", kind, "heading"]
    assert len(whole.blocks[1].parts) == n
    assert {whole.text[slice(*part)] for part in whole.blocks[1].parts} <= {head.split("\n")[0], unit.strip()}
    assert max(seen) < 5_000
    assert sum(seen) < 1.1 * len(whole.text)


CELLS = ["a", "2.5", "word", "é", "日", "", "#", " ", '"', '""', '"q"', '"a,b"', '"a\nb"', '"say ""hi"" now"', '"open', 'end"']


@settings(max_examples=150, deadline=None)
@given(
    table=st.lists(st.lists(st.sampled_from(CELLS), min_size=1, max_size=4), min_size=1, max_size=30),
    above=st.sampled_from(["", "sep=,\n", "# remark\n", "A title\n\n"]),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    stretch=st.sampled_from([1, 2, 7, 40, 200]),
)
def test_a_table_in_stretches_is_the_table(table: list[list[str]], above: str, newline: str, stretch: int) -> None:
    source = above + newline.join(map(",".join, table))

    assert parsed(source, "csv") == parsed(source, "csv", stretch)


def test_a_field_may_go_over_many_stretches_and_an_open_quote_too() -> None:
    field = "\n".join(f"line {i} of a long text" for i in range(50))
    rows = "".join(f"{i},x\n" for i in range(90))
    closed, open_ = f'a,b\n{rows}1,"{field}"\n2,x\n', f'a,b\n{rows}1,"{field}\n2,x\n'

    (whole,), (lines,) = parsed(closed, "csv", 16), parsed(open_, "csv", 16)

    assert [closed[slice(*row)] for row in whole.blocks[0].parts][-2:] == [f'1,"{field}"', "2,x"]
    assert [open_[slice(*row)] for row in lines.blocks[-1].parts][-2:] == ["line 49 of a long text", "2,x"]
    assert "never closed" in lines.metadata["warning"]


def files() -> list[Path]:
    found = (path for path in CORPUS.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return sorted(path for path in found if path.stat().st_size < 4 * LARGEST)


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not here")
def test_real_files_in_stretches_are_what_they_are_whole() -> None:
    for path in files():
        data, format = path.read_bytes(), SUFFIXES[path.suffix]
        whole = parsed(data, format)
        for stretch in (211, 4001) if len(data) < LARGEST else (4001,):
            assert whole == parsed(data, format, stretch), (path, stretch)


def peak(data: bytes, format: str) -> int:
    """Bytes that parsing takes at the most, besides the source."""
    tracemalloc.start()
    try:
        parsed(data, format, 1 << 15)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_little_more_than_that_of_plain_text() -> None:
    prose = b"".join(b"## Night %d\n\n%s\n\n" % (i, b"The lamp was lit at dusk. " * 8) for i in range(8_000))
    table = b"".join(b'%d,lamp,"oil, and wick",the tide came in at dusk and went\n' % i for i in range(30_000))

    plain = peak(prose, "text")

    assert peak(prose, "markdown") < 1.4 * plain
    assert peak(table, "csv") < 2.5 * len(table)
    for rows in (
        b"- the lamp was lit at dusk, and the tide came in\n" * 20_000,
        b"|a|b|\n|-|-|\n" + b"|the lamp|was lit at dusk|\n" * 30_000,
    ):
        assert peak(rows, "markdown") < 10 * len(rows)
