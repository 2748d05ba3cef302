"""CSV and TSV: the text is the source, its records are the parts of one table."""

from __future__ import annotations

import csv
import io
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.base import Document
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.io.parsers import Parsed, parse
from chunkmill.io.parsers.delimited import fields
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not here")


def one(source: str | bytes, name: str = "a.csv", **options: object) -> Parsed:
    data = source if isinstance(source, bytes) else source.encode()
    (parsed,) = parse(data, name, {"csv": options})
    assert_sound(parsed)
    return parsed


def rows(parsed: Parsed) -> list[str]:
    return [parsed.text[slice(*part)] for part in parsed.blocks[-1].parts]


def values(parsed: Parsed) -> list[list[str]]:
    return [fields(row, parsed.metadata.get("delimiter", "")) for row in rows(parsed)]


def kinds(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def test_the_text_is_the_source_with_quotes_as_a_reader_sees_them_and_a_quoted_field_may_hold_newlines() -> None:
    source = 'id,text\r\n1,"two\r\nlines, and ""more"""\r\n2,plain\r\n'

    parsed = one(source)

    assert parsed.text == source.replace('""', '"')
    assert rows(parsed) == ["id,text", '1,"two\r\nlines, and "more""', "2,plain"]
    assert parsed.metadata == {"encoding": "utf-8", "delimiter": ",", "columns": "2", "rows": "2"}


FIELD = st.text(st.sampled_from('ab1 ,;"\n\r\té日'), max_size=6)


@settings(max_examples=200, deadline=None)
@given(
    table=st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(FIELD, min_size=n, max_size=n), min_size=1, max_size=6)),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_what_a_csv_writer_wrote_is_found_record_by_record(table, delimiter, end) -> None:
    table = [["key", *row] for row in table]
    written = io.StringIO()
    quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL  # the writer quotes only the newlines it writes itself
    csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(table)

    parsed = one(b"\xef\xbb\xbf" + written.getvalue().encode(), delimiter=delimiter)

    assert len(written.getvalue()) - len(parsed.text) == sum(field.count('"') for row in table for field in row)
    records = [parsed.text[slice(*span)] for span in sorted({p for b in parsed.blocks for p in b.parts or (b.span,)})]
    assert len(table) == len(records)
    assert "warning" not in parsed.metadata
    if len(parsed.blocks) == 1 and delimiter != "\t":  # white ends of a block are no part of it
        for row, record in zip(table[:-1], records[:-1], strict=True):
            at = 0
            for field in row:
                at = record.index(field, at) + len(field)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_by_equal_widths(delimiter: str) -> None:
    source = "\n".join(delimiter.join(row) for row in [["name", "price", "note"], ["tea", "1,5", "a; b"], ["cup", "2,5", "c"]])
    quoted = (
        source if delimiter not in ",;" else source.replace("1,5", '"1,5"').replace("2,5", '"2,5"').replace("a; b", '"a; b"')
    )

    assert values(one(quoted)) == [["name", "price", "note"], ["tea", "1,5", "a; b"], ["cup", "2,5", "c"]]


def test_decimal_commas_between_semicolons_are_no_columns() -> None:
    assert values(one("Name;Preis\nTee;1,50\nTasse;2,75\n"))[1] == ["Tee", "1,50"]


def test_a_sep_line_names_the_delimiter_and_is_no_text() -> None:
    parsed = one("sep=;\r\nid;text\r\n1;Grüße, viele\r\n".encode("utf-16"))

    assert parsed.text == "id;text\r\n1;Grüße, viele\r\n"
    assert values(parsed) == [["id", "text"], ["1", "Grüße, viele"]]


def test_the_delimiter_may_be_asked_for() -> None:
    assert values(one("a:b,c\n1:2,3\n", delimiter=":")) == [["a", "b,c"], ["1", "2,3"]]
    with pytest.raises(ConfigError, match="one character"):
        one("a,b", delimiter="::")


def test_quotes_inside_fields_are_characters_in_tsv() -> None:
    parsed = one('id\ttext\n1\t5" pipe\n2\tsay "hi" now\n3\t"q" and more\n', "a.tsv")

    assert [r[1] for r in values(parsed)] == ["text", '5" pipe', 'say "hi" now', '"q" and more']


def test_a_quote_without_a_partner_swallows_nothing() -> None:
    parsed = one('id,text\n1,"never closed\n2,b\n3,"closed, though"\n')

    assert rows(parsed) == ["id,text", '1,"never closed', "2,b", '3,"closed, though"']
    assert parsed.metadata["warning"] == "quotes that open a field and are never closed, read as characters: 1"


def test_a_quote_that_a_later_one_seems_to_close_swallows_nothing() -> None:
    lines = [f"{i},row {i},x" for i in range(40)]
    lines[3], lines[36] = '3,"stray,x', '36,5",x'
    source = "\n".join(["id,text,more", *lines])

    parsed = one(source)

    assert rows(parsed) == source.split("\n")
    assert "never closed" in parsed.metadata["warning"]


def test_a_long_text_in_quotes_is_one_field() -> None:
    poem = "\n".join(f"line {i}, with a comma, or two, say" if i % 2 else "a line" for i in range(60))

    assert len(rows(one(f'id,text,more\n1,"{poem}",x\n2,b,y\n'))) == 3


def test_a_few_lines_in_quotes_are_one_field_even_where_they_look_like_records() -> None:
    assert len(rows(one('id,towns\n1,"Rome, IT\nParis, FR\nBonn, DE"\n2,none\n'))) == 3


def test_ragged_rows_are_kept_and_told() -> None:
    parsed = one("a,b,c\n1,2\n1,2,3\n1,2,3,4\n")

    assert len(rows(parsed)) == 4
    assert parsed.metadata["warning"] == "2 of 3 rows don't have the header's 3 fields: 1, 3"


@pytest.mark.parametrize(
    "above", ["Sales report\nGenerated 2024-05-01\n\n", "Sales report,,,\nGenerated 2024-05-01,,,\n", "# Sales, by us\n"]
)
def test_lines_above_the_header_are_paragraphs(above: str) -> None:
    parsed = one(above + "region,year,units,price\nnorth,2023,4,1.5\nsouth,2024,5,2.5\n")

    assert rows(parsed)[0] == "region,year,units,price"
    assert {kind for kind, _ in kinds(parsed)[:-1]} == {"paragraph"}
    assert kinds(parsed)[0][1] in ("Sales report", "# Sales, by us")


def test_numbers_over_numbers_are_no_header() -> None:
    assert one("1,0.5,x\n2,0.7,y\n3,0.1,z\n").metadata["header"] == "no"
    assert one("id,share,x\n2,0.7,y\n3,0.1,z\n").metadata.get("header") is None
    assert one("2019,2020\na,b\nc,d\n").metadata.get("header") is None


def test_one_column_is_a_table_too() -> None:
    assert rows(one("Industry\nRetail\nOther\n")) == ["Industry", "Retail", "Other"]


def test_a_header_alone_is_a_table_without_rows() -> None:
    assert one("id,text,label\n").metadata["rows"] == "0"


def test_nuls_stay_and_are_told() -> None:
    parsed = one("id,text\n1,a\0b\n2,fine\n")

    assert parsed.text == "id,text\n1,a\0b\n2,fine\n"
    assert parsed.metadata["warning"] == "NUL characters: 1"


def test_ten_thousand_columns_and_a_field_above_the_csv_limit_are_read() -> None:
    wide = ",".join(f"c{i}" for i in range(10_000))

    assert one(f"{wide}\n{wide}\n").metadata["columns"] == "10000"
    assert rows(one(f"id,text\n1,{'word ' * 40_000}\n2,after\n"))[2] == "2,after"


def test_groups_of_rows_repeat_the_header() -> None:
    parsed = one("name,price\n" + "".join(f"item {i},{i}\n" for i in range(30)))

    chunks = chunk(Document("d", "a.csv", parsed.text, parsed.blocks), "table", size=100, unit="chars")

    assert len(chunks) > 3
    assert {c.context for c in chunks[1:]} == {"name,price"}
    assert all(c.text.split("\n")[0].startswith("item") for c in chunks[1:])


@pytest.mark.parametrize(
    "unit", [',""a""a', ',"a,""b', ',"""a', 'x,"y\n', '"a" ', '"a"  \t', "\n", ",", '""', '"', ',"\n'], ids=repr
)
@pytest.mark.long
def test_time_grows_with_the_source_whatever_the_quotes(unit: str) -> None:
    def seconds(times: int) -> float:
        data = ("a,b\n" + unit * times).encode()
        began = time.process_time()
        one(data)
        return time.process_time() - began

    seconds(10)
    small = max(seconds(20_000), 0.002)

    assert seconds(160_000) < small * 60 + 0.2


SEEDS = [b'id,text\n1,"a\nb"\n2,c\n', b"sep=;\na;b\n", "a\té\n1\t2\n".encode("utf-16"), b'"a";"b"\r\n1;"x""y"\r\n']
NOISE = [b'"', b",", b";", b"\n", b"\r", b"\t", b"\0", b"\xff", b'""', b"sep=", b"|"]


def test_any_bytes_give_a_sound_document_or_a_document_error() -> None:
    random_ = random.Random(7)
    for _ in range(1500):
        data = bytearray(random_.choice(SEEDS) * random_.randint(1, 4))
        for _ in range(random_.randint(1, 8)):
            at = random_.randrange(len(data) + 1)
            data[at : at + random_.randint(0, 2)] = random_.choice(NOISE)
        try:
            for parsed in parse(bytes(data), random_.choice(["a.csv", "a.tsv"]), format="csv"):
                assert_sound(parsed)
                assert all(block.kind in ("paragraph", "table") for block in parsed.blocks)
        except DocumentError:
            pass


@needs_corpus
@pytest.mark.parametrize(
    ("name", "count", "warns", "holds"),
    [
        ("embedded-newlines-ragged.csv", 5, True, ["line two, with comma"]),
        ("unclosed-quote.csv", 2000, True, ["row 1999"]),
        ("field-over-131072.csv", 3, False, ["after the big field"]),
        ("nul-bytes.csv", 3, True, ["fine"]),
        ("header-only.csv", 1, False, []),
        ("10k-columns.csv", 2, False, ["c9999"]),
        ("semicolon-decimal-cp1252.csv", 3, False, ["Königstraße 5", "Müller"]),
        ("sep-line-utf16.csv", 2, False, ["Grüße"]),
        ("tsv-quotes-literal.tsv", 4, False, ['5" pipe', "plain"]),
    ],
)
def test_hostile_tables_are_read_as_expected(name: str, count: int, warns: bool, holds: list[str]) -> None:
    parsed = one((CORPUS / "hostile" / "csv" / name).read_bytes(), name)

    assert len(rows(parsed)) == count
    assert ("warning" in parsed.metadata) == warns
    assert all(text in parsed.text for text in holds)


def facts() -> list[dict]:
    path = CORPUS / "gold_open.jsonl"
    found = map(json.loads, path.read_text("utf-8").splitlines()) if path.exists() else ()
    known_wrong = ("encoding", "open/csv/data/police_killings.csv")  # mangled upstream: any single-byte reading loses nothing
    return [f for f in found if f["path"].startswith("open/csv/") and (f["assertion"], f["path"]) != known_wrong]


@needs_corpus
@pytest.mark.parametrize("fact", facts(), ids=lambda f: f"{f['path'].rpartition('/')[2]}-{f['assertion']}")
def test_facts_of_open_tables_hold(fact: dict) -> None:
    parsed = one((CORPUS / fact["path"]).read_bytes(), fact["path"])

    if fact["assertion"] == "count":
        assert len(rows(parsed)) - 1 == fact["value"] == int(parsed.metadata["rows"])
    elif fact["assertion"] == "header":
        assert values(parsed)[0][: len(fact["value"])] == fact["value"]
    elif fact["assertion"] == "encoding":
        assert parsed.metadata["encoding"] == fact["value"]
    else:
        assert fact["value"] in parsed.text
