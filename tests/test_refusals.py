"""What S3 refuses is told in one line: what, where, and what to do; whichever library was refused."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from chunkmill.chunkers.errors import ChunkmillError
from chunkmill.io import parquet, recipes, runs, storage, table
from chunkmill.io.corpus import fetch, list_sources
from chunkmill.io.schema import SCHEMAS
from faulty import Fault

RUN = "20260101T000000-aaaaaaaa"
OPERATIONS: dict[str, Callable[[str], Any]] = {
    "listing": lambda bucket: list(list_sources(f"s3://{bucket}/in")),
    "a document": lambda bucket: fetch(f"s3://{bucket}/in/1.txt"),
    "the version": lambda bucket: table.version(f"s3://{bucket}/out", "documents"),
    "a table": lambda bucket: table.read(f"s3://{bucket}/out", "documents"),
    "runs": lambda bucket: runs.records(f"s3://{bucket}/out"),
    "whether it can be written": lambda bucket: storage.writable(f"s3://{bucket}/out"),
    "a recipe": lambda bucket: recipes.save(f"s3://{bucket}/out", "r", {}),
    "a file of a table": lambda bucket: parquet.write(f"s3://{bucket}/out", "documents", ledger(), run_id=RUN),
}
REFUSALS = {
    "wrong key": (Fault(status=403, code="InvalidAccessKeyId"), "set AWS_ACCESS_KEY_ID"),
    "wrong secret": (Fault(status=403, code="SignatureDoesNotMatch"), "set AWS_ACCESS_KEY_ID"),
    "expired": (Fault(status=400, code="ExpiredToken"), "the credentials have expired (ExpiredToken); renew them"),
    "another region": (Fault(status=301, code="PermanentRedirect"), "the bucket is in another region; set AWS_REGION"),
    "signed for another region": (Fault(status=400, code="AuthorizationHeaderMalformed"), "in another region; set AWS_REGION"),
    "forbidden": (Fault(status=403, code="AccessDenied"), "need s3:ListBucket and s3:GetObject"),
    "no bucket": (Fault(status=404, code="NoSuchBucket"), "check its name and AWS_ENDPOINT_URL"),
    "in trouble": (Fault(status=503, code="SlowDown"), "run it again later"),
}
# pyarrow takes a bucket that isn't there for an empty one; it and deltalake take long to give up on a store in trouble
LEFT_OUT = {("no bucket", "runs"), *(("in trouble", operation) for operation in ("the version", "a table", "runs"))}
PAIRS = [pair for pair in product(REFUSALS, OPERATIONS) if pair not in LEFT_OUT]


def ledger() -> pa.Table:
    known = {"doc_id": "a", "uri": "u", "source": "u", "format": "text", "status": "ok", "recipe": "r", "run_id": RUN}
    return pa.Table.from_pylist([dict.fromkeys(SCHEMAS["documents"].names) | known], SCHEMAS["documents"])


@pytest.fixture(scope="module")
def bucket(s3: Any) -> str:
    name: str = s3.bucket({"in/1.txt": b"One text."})
    files = parquet.write(f"s3://{name}/out", "documents", ledger(), run_id=RUN)
    table.commit(f"s3://{name}/out", "documents", add=files, remove=[], expected=None, run_id=RUN, info={})
    return name


def said(operation: str, bucket: str) -> str:
    with pytest.raises(ChunkmillError) as caught:
        OPERATIONS[operation](bucket)
    return str(caught.value)


@pytest.mark.parametrize(("refusal", "operation"), PAIRS)
def test_a_refusal_says_what_where_and_what_to_do(s3, bucket, monkeypatch, refusal, operation):
    fault, advice = REFUSALS[refusal]
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    with s3.front.failing(fault):
        message = said(operation, bucket)

    assert message.splitlines() == [message]
    assert "<" not in message
    assert advice in message
    assert bucket in message
    assert message.count(f"s3://{bucket}") <= 1


def test_what_a_store_in_trouble_told_deltalake_is_told_in_one_line():
    said = "Generic S3 error\x1b[31m\n  \u21b3 after 10 retries\n   \u21b3 <?xml ?>\n<Error><Code>SlowDown</Code></Error>"

    error = storage.passed_on(OSError(said), storage.Place("b", "out"), "can't be opened")

    assert str(error).startswith("s3://b/out can't be opened: S3 is in trouble")
    assert str(error).endswith("(SlowDown); run it again later")


def test_what_has_no_meaning_for_us_is_passed_on_in_one_line():
    said = (
        "Kernel error\x1b[31m\n  \u21b3 418 I'm a teapot\n   \u21b3 <?xml version='1.0'?>\n<Error><Code>Teapot</Code></Error>"
    )

    error = storage.passed_on(OSError(said), storage.Place("b", "out"), "can't be opened")

    assert str(error) == "s3://b/out can't be opened: Kernel error 418 I'm a teapot (Teapot)"
    assert str(storage.passed_on(OSError("AccessDenied"), storage.Place("", "/out"), "is bad")) == "/out is bad: AccessDenied"


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "a document"])  # which waits two minutes for it
def test_an_endpoint_out_of_reach_is_named(s3, bucket, monkeypatch, operation):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", closed)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    message = said(operation, bucket)

    assert message.startswith(f"no answer at {closed} for s3://{bucket}/")
    assert "AWS_ENDPOINT_URL" in message
    assert "\n" not in message
    assert "retries" not in message


@pytest.mark.parametrize("operation", OPERATIONS)
def test_where_there_are_no_credentials_it_says_how_to_give_them(s3, bucket, monkeypatch, operation):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)

    message = said(operation, bucket)

    assert message.startswith(f"no credentials for s3://{bucket}")
    assert "set AWS_ACCESS_KEY_ID" in message
    assert "\n" not in message


def test_the_region_is_named_where_s3_names_it(s3, bucket):
    there = {"x-amz-bucket-region": "eu-west-3"}

    with s3.front.failing(Fault("GET|HEAD", status=400, code="AuthorizationHeaderMalformed", headers=there)):
        message = said("listing", bucket)

    assert "the bucket is in the region eu-west-3; set AWS_REGION=eu-west-3" in message
