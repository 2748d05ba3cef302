"""JSON: the same value laid out anew, records over it, linear at any depth."""

from __future__ import annotations

import contextlib
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Document
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def one(source: str | bytes) -> Parsed:
    (parsed,) = parse(source.encode() if isinstance(source, str) else source, "a.json")
    assert_sound(parsed)
    return parsed


def records(source: str | bytes) -> list[str]:
    parsed = one(source)
    assert {block.kind for block in parsed.blocks} <= {"record"}
    return [parsed.text[slice(*block.span)] for block in parsed.blocks]


def kind_of(source: str) -> str:
    with pytest.raises(DocumentError) as caught:
        one(source)
    return caught.value.kind


@settings(max_examples=150, deadline=None)
@given(
    value=VALUES.filter(lambda v: v is not None and not isinstance(v, str)),
    indent=st.sampled_from([None, 1, 4]),
    ascii=st.booleans(),
)
def test_the_text_is_the_same_value_and_the_same_however_it_was_written(value: object, indent: int | None, ascii: bool) -> None:
    parsed = one(json.dumps(value, indent=indent, ensure_ascii=ascii))

    assert json.loads(parsed.text) == value
    assert parsed.text == one(json.dumps(value, ensure_ascii=False)).text


def test_what_fits_stands_on_a_line_and_the_rest_is_opened() -> None:
    value = {"name": "x" * 80, "tags": ["a", "b"], "empty": {}, "numbers": list(range(60))}

    lines = one(json.dumps(value)).text.split("\n")

    assert lines[:4] == ["{", f' "name": "{"x" * 80}",', ' "tags": ["a", "b"],', ' "empty": {},']
    assert lines[4] == ' "numbers": ['
    assert len(lines) == 10
    assert max(map(len, lines)) <= 104


def test_escapes_become_characters_where_json_allows_them() -> None:
    assert one(r'["caf\u00e9 \ud83d\ude00 a\/b", "tab\t \u000a \" \\ \u0022 \\u0041"]').text == (
        r'["café 😀 a/b", "tab\t \n \" \\ \" \\u0041"]'
    )


def test_a_lone_surrogate_is_replaced_and_counted() -> None:
    parsed = one(r'{"a": "x \ud800 y"}')

    assert (parsed.text, parsed.metadata["repaired"]) == ('{"a": "x \ufffd y"}', "1")


def test_numbers_order_and_repeated_keys_stay_as_they_are_written() -> None:
    source = '{"b": 1.10, "a": 1E+2, "a": -0, "n": ' + "9" * 5000 + ', "x": NaN, "y": -Infinity}'
    parsed = one(source)

    assert "".join(parsed.text.split()) == "".join(source.split())
    assert parsed.metadata["warning"] == "not strict JSON: repeated keys, NaN or Infinity"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('[{"id": 1}, {"id": 2}]', ['{"id": 1}', '{"id": 2}']),
        ('{"a": 1, "b": [2]}', ['"a": 1', '"b": [2]']),
        ('{"data": {"rows": [{"id": 1}, {"id": 2}]}}', ['{"id": 1}', '{"id": 2}']),
        (
            '{"type": "F", "all": ["' + '", "'.join("abc" * 9 for _ in range(9)) + '"]}',
            ['"type": "F"', *['"' + "abc" * 9 + '"'] * 9],
        ),
        ('{"id": 1}\n{"id": 2}\n[3]', ['{"id": 1}', '{"id": 2}', "[3]"]),
        ('[1, 2, "x", 3]', ["1, 2", '"x"', "3"]),
        ("5", ["5"]),
        ("[]", ["[]"]),
        ('[{"a": {"b": 1}}]', ['{"a": {"b": 1}}']),
    ],
)
def test_records_are_the_members_of_what_is_most_of_the_file(source: str, expected: list[str]) -> None:
    assert records(source) == expected


def test_records_of_numbers_are_lines_not_numbers() -> None:
    assert len(records(json.dumps(list(range(100_000))))) < 8_000


def test_the_strategy_records_cuts_between_records() -> None:
    parsed = one(json.dumps([{"id": i, "text": "word " * 10} for i in range(50)]))
    document = Document("d", "d", parsed.text, parsed.blocks, parsed.metadata)

    (chunks,) = chunk_all([document], chunking("records", size=300, unit="chars"), {})

    assert isinstance(chunks, list)
    assert all(chunk.text.count("{") == chunk.text.count("}") for chunk in chunks[1:-1])
    assert all(parsed.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)


def test_a_lone_string_is_its_content_and_a_lone_null_nothing() -> None:
    assert one(r'"First.\n\nSecond \u00e9."').text == "First.\n\nSecond é."
    assert [block.kind for block in one('"a\\n\\nb"').blocks] == ["paragraph", "paragraph"]
    assert one("null").text == ""


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_any_unicode_encoding_is_read(encoding: str) -> None:
    assert records('{"a": "é"}'.encode(encoding)) == ['"a": "é"']


def test_a_title_is_what_a_file_calls_itself() -> None:
    source = {"name": "pkg", "author": "A  B", "description": "d" * 500, "nested": {"title": "no"}, "date": "2024-05-06"}

    metadata = one(json.dumps(source)).metadata

    assert {key: metadata.get(key) for key in ("title", "author", "date", "description")} == {
        "title": "pkg",
        "author": "A B",
        "date": "2024-05-06",
        "description": None,
    }
    assert "title" not in one('[{"title": "x"}]').metadata


@pytest.mark.parametrize("source", ['{"a": 1, // why\n "b": 2,}', "{a: 'x', /* ] */ b: +.5}", "[1, 2,]", '[1 "2"]'])
def test_what_is_nearly_json_is_kept_as_written_with_a_warning(source: str) -> None:
    parsed = one(f"\n{source}\n")

    assert parsed.text == f"\n{source}\n"
    assert [block.kind for block in parsed.blocks] == ["code"]
    assert "not JSON at line" in parsed.metadata["warning"]


@pytest.mark.parametrize(
    "source", ["[1,", '{"a": "b', "[1}", "]", "hello", "<html>", '{"a": 1} x', "{'a: 1}", "[" * 100_000, "[/*]"]
)
def test_what_is_cut_off_or_no_json_is_corrupt(source: str) -> None:
    assert kind_of(source) == "corrupt"


def test_an_error_names_line_and_column() -> None:
    with pytest.raises(DocumentError, match=r"line 2, column 6.*'x}"):
        one('{"a": 1,\n"b": x}[')


@pytest.mark.parametrize(
    "source",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        '{"b":1,"a":' * 30_000 + "1" + "}" * 30_000,
        "[" + " " * 500_000,
        "1 " * 100_000,
        '"' + "\\" * 500_000,
        "/*" * 200_000,
        "['" * 200_000,
        '["' + "\\u00e9" * 100_000 + '"]',
    ],
    ids=[
        "deep arrays",
        "deep objects",
        "deep with siblings",
        "white",
        "many values",
        "backslashes",
        "comments",
        "apostrophes",
        "escapes",
    ],
)
def test_hostile_json_takes_linear_time(source: str) -> None:
    began = time.process_time()
    with contextlib.suppress(DocumentError):
        one(source)

    assert time.process_time() - began < 5


def test_mutated_json_gives_sound_documents_or_a_document_error() -> None:
    rng = random.Random(1)
    seed = json.dumps({"a": [1, {"b": "é \ud83d\ude00"}], "c": ["x" * 90, "y" * 90], "d": None}).encode()
    for _ in range(1500):
        data = bytearray(seed)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 3)] = rng.choice([b"", b"[", b"]", b"}", b'"', b"\\", b",", b"\xff", b"/*", b"NaN"])
        with contextlib.suppress(DocumentError):
            for parsed in parse(bytes(data), "a.json"):
                assert_sound(parsed)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora of ../shared are not here")
def test_two_spellings_of_the_same_tweets_differ_in_rounded_numbers_only() -> None:
    folder = CORPUS / "open" / "json" / "simdjson-data"
    plain, escaped = (one((folder / name).read_bytes()).text.split("\n") for name in ("twitter.json", "twitterescaped.json"))

    different = [(a, b) for a, b in zip(plain, escaped, strict=True) if a != b]

    assert all(float(a.rstrip(",").split(": ")[1]) == float(b.rstrip(",").split(": ")[1]) for a, b in different)


def test_a_broken_line_of_json_lines_costs_that_line() -> None:
    parsed = one('{"a": 1}\n{"b": 2}\n{"c": \n{"d": 4}\n')

    assert parsed.text == '{"a": 1}\n{"b": 2}\n{"d": 4}'
    assert parsed.metadata["warning"] == "1 lines are no JSON and left out: 3"


def test_a_broken_object_over_lines_is_no_json_lines() -> None:
    with pytest.raises(DocumentError, match="not JSON at line"):
        one('{\n{"a": 1},\n{"b": 2},\n{"c": 3}')
