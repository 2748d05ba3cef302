"""Parquet rows whose values Python has no type for."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from chunkmill.io.parsers import parse
from sound import assert_sound


def test_a_day_that_python_cannot_hold_costs_no_row() -> None:
    days = pa.array([0, 4_000_000], pa.date32())
    nested = pa.StructArray.from_arrays([days, pa.ListArray.from_arrays([0, 0, 2], days)], ["day", "days"])
    file = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2], "day": days, "nested": nested}), file)

    rows = list(parse(file.getvalue(), "a.parquet"))

    for row in rows:
        assert_sound(row)
    assert [row.text.split("\n")[:2] for row in rows] == [["n: 1", "day: 1970-01-01"], ["n: 2", "day: 12921-08-18"]]
    assert '"days": ["1970-01-01", "12921-08-18"]' in rows[1].text


def test_lists_and_mappings_beside_the_text_are_metadata() -> None:
    row = {
        "text": "words",
        "tags": ["red", "blue", None, 3],
        "meta": {"by": "Ada", "of": [1, 2]},
        "none": [],
        "long": ["x" * 3000],
    }

    (parsed,) = parse(json.dumps(row).encode(), "a.jsonl")

    assert parsed.metadata == {"tags": "red, blue, 3", "meta": '{"by": "Ada", "of": [1, 2]}'}


def test_nested_columns_of_parquet_are_metadata_and_vectors_are_not() -> None:
    file = io.BytesIO()
    columns = {"text": ["words"], "tags": [["red", "blue"]], "meta": [{"by": "Ada", "of": [1]}], "vector": [[0.5, 0.25]]}
    pq.write_table(pa.table(columns), file)

    (parsed,) = parse(file.getvalue(), "a.parquet")

    assert parsed.metadata == {"tags": "red, blue", "meta": '{"by": "Ada", "of": [1]}'}
