"""Rows of tables, lines of code, and tables as CSV and Markdown, by the spans of chunks."""

from __future__ import annotations

import csv
import io

import pytest

from chunkmill import chunk
from chunkmill.chunkers.base import Document, Span
from chunkmill.chunkers.places import forms, lines, rows
from chunkmill.io.parsers import parse

TABLE = "".join(f"| n{n} | value {n} of many |\n" for n in range(1, 41))
MARKDOWN = f"# Report\n\nTable 1: values\n\n| name | value |\n|---|---|\n{TABLE}\nAfterwards.\n"


def parsed(source: str, name: str) -> Document:
    (found,) = parse(source.encode(), name)
    return Document("d", name, found.text, found.blocks, found.metadata)


def test_every_row_is_in_the_range_of_the_chunk_that_holds_it():
    doc = parsed(MARKDOWN, "a.md")
    chunks = [c for c in chunk(doc, "table", size=60) if c.kind == "table"]

    ranges = rows(doc, [Span(c.start, c.end) for c in chunks])

    assert [n for first, last in ranges for n in range(max(1, first), last + 1)] == [*range(1, 41)]
    for c, (first, last) in zip(chunks, ranges, strict=True):
        assert f"| n{max(1, first)} |" in c.text
        assert f"| n{last} |" in c.text


def test_outside_tables_there_are_no_rows():
    doc = parsed(MARKDOWN, "a.md")
    at = doc.text.index("Afterwards")

    assert rows(doc, [Span(0, 8), Span(at, at + 5)]) == [(None, None)] * 2


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.md", MARKDOWN),
        ("a.csv", "name,value\n" + "".join(f'n{n},"value {n}, of many"\n' for n in range(1, 41))),
        ("a.html", "<table><tr><th>name<th>value" + "".join(f"<tr><td>n{n}<td>value {n} of many" for n in range(1, 41))),
    ],
)
def test_a_table_piece_is_csv_and_markdown_under_its_header(name, source):
    doc = parsed(source, name)
    chunks = [c for c in chunk(doc, "table", size=60, overlap=0) if c.kind == "table"]
    seen = []
    for c in chunks:
        found = forms(doc, Span(c.start, c.end))
        head, *body = csv.reader(io.StringIO(found.csv))
        assert head == ["name", "value"]
        assert found.markdown.startswith("| name | value |\n| --- | --- |\n")
        assert len(found.markdown.split("\n")) == len(body) + 2
        seen += [row[0] for row in body]

    assert seen == [f"n{n}" for n in range(1, 41)]


def test_the_caption_is_the_paragraph_that_names_the_table():
    doc = parsed(MARKDOWN, "a.md")
    (table,) = (b for b in doc.blocks if b.kind == "table")

    assert forms(doc, table.span).caption == "Table 1: values"


def test_the_lines_of_code_chunks_are_those_an_editor_shows():
    source = "".join(f"def f{n}():\r\n    return {n}\r\n\r\n" for n in range(30))
    doc = parsed(source, "a.py")
    chunks = chunk(doc, "code", size=40, overlap=0)

    for c, (first, last) in zip(chunks, lines(doc, [Span(c.start, c.end) for c in chunks]), strict=True):
        shown = source.split("\r\n")[first - 1 : last]
        assert shown[0].strip() == c.text.split("\r\n")[0].strip()
        assert shown[-1].strip() == c.text.split("\r\n")[-1].strip()
    assert lines(parsed("# A\n\ntext", "a.md"), [Span(0, 3)]) == [(None, None)]
