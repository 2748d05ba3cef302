"""What fails beside us: storage, network, credentials, disks. A run ends as its user would want, and the next one goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import corpus as sources
from chunkmill.io import runs, table
from chunkmill.io.corpus import fetch
from chunkmill.jobs import isolation, pipeline
from chunkmill.jobs.isolation import isolated
from chunkmill.jobs.plan import plan
from faulty import Fault, Faulty
from test_crashes import Vectors
from test_run import chunks_of, job, ledger_of, prose
from test_runs import settled

DOCUMENTS = 8


@pytest.fixture
def bucket(s3) -> str:
    return s3.bucket({f"in/{n}.txt": prose(n).encode() for n in range(DOCUMENTS)})


def on_s3(bucket: str, **settings: Any) -> Any:
    return job(f"s3://{bucket}/in", f"s3://{bucket}/out", **settings)


def text_of(output: str, name: str) -> str:
    return next(row["text"] for uri, row in ledger_of(output).items() if uri.endswith(name))


def versions(output: str) -> list[int | None]:
    return [table.version(output, name) for name in ("chunks", "documents")]


def once(change: Callable[[], None]) -> Callable[..., None]:
    """A report that does this when it first hears of the run: after the listing, before anything is read."""
    left = [change]

    def report(*_: object) -> None:
        if left:
            left.pop()()

    return report


# S3 is in trouble for a moment


def test_a_store_that_is_busy_or_breaks_off_costs_time_and_nothing_else(ray_here, s3, bucket):
    faults = [
        Fault("GET", "list-type", status=503, times=1),
        Fault("GET", "/in/1.txt", status=500, times=1),
        Fault("GET", "/in/2.txt", drop=True, times=1),
        Fault("GET", "/in/3.txt", cut=True, times=1),
        Fault("GET", "/in/4.txt", delay_s=1, times=1),
        Fault("PUT", "/out/chunks/.*parquet", status=503, times=2),
        Fault("PUT", "/out/documents/.*parquet", drop=True, times=1),
        Fault("PUT", "/out/_runs/", status=500, times=1),
        Fault("PUT", "_delta_log", status=503, times=1),
        Fault("GET", "/out/", status=503, after=3, times=1),
    ]

    with s3.front.failing(*faults):
        summary = pipeline.run(on_s3(bucket))

    assert summary.statuses == Counter(ok=DOCUMENTS)
    assert all(fault.struck for fault in faults), [f for f in faults if not f.struck]
    settled(f"s3://{bucket}/out")


@pytest.mark.parametrize("name", ["chunks", "documents"])
def test_a_commit_whose_answer_is_lost_went_through(ray_here, s3, bucket, name):
    pipeline.run(on_s3(bucket))
    s3.client.put_object(Bucket=bucket, Key="in/3.txt", Body=b"New words.")

    with s3.front.failing(lost := Fault("PUT", f"{name}/_delta_log/.*1.json", lost=True, times=1)):
        summary = pipeline.run(on_s3(bucket))

    assert lost.struck == 1
    assert summary.documents == 1
    assert versions(f"s3://{bucket}/out") == [1, 1]
    settled(f"s3://{bucket}/out")


# An object can't be read


@pytest.mark.parametrize(("status", "code"), [(403, ""), (503, ""), (404, "NoSuchKey")])
def test_what_cannot_be_read_tonight_keeps_its_old_rows_and_is_read_tomorrow(ray_here, s3, bucket, status, code):
    out = f"s3://{bucket}/out"
    pipeline.run(on_s3(bucket))
    old = text_of(out, "3.txt")
    for name in ("3.txt", "4.txt", "new.txt"):
        s3.client.put_object(Bucket=bucket, Key=f"in/{name}", Body=f"New words of {name}.".encode())

    with s3.front.failing(Fault("GET", "/in/(3|new).txt", status=status, code=code)):
        summary = pipeline.run(on_s3(bucket))

    kind = "vanished" if status == 404 else "unreadable"
    assert (summary.kept, summary.statuses) == (1, Counter({"ok": 1, f"failed:{kind}": 1}))
    assert text_of(out, "3.txt") == old
    assert text_of(out, "4.txt") == "New words of 4.txt."
    settled(out)
    assert pipeline.run(on_s3(bucket)).statuses == Counter(ok=2)
    assert text_of(out, "3.txt") == "New words of 3.txt."
    settled(out)


def test_what_cannot_be_read_counts_as_an_error_although_its_rows_are_kept(ray_here, s3, bucket):
    pipeline.run(on_s3(bucket))
    for n in range(4):
        s3.client.put_object(Bucket=bucket, Key=f"in/{n}.txt", Body=b"New words.")

    with (
        s3.front.failing(Fault("GET", "/in/", status=403)),
        pytest.raises(RunError, match=r"4 of 8 documents failed \(4 can't be read now\)"),
    ):
        pipeline.run(on_s3(bucket, run={"max_error_share": 0.4}))

    assert versions(f"s3://{bucket}/out") == [0, 0]


def test_an_input_that_may_be_listed_and_not_read_is_an_error_and_no_dataset(ray_here, s3, bucket):
    with (
        s3.front.failing(Fault("GET", "/in/", status=403)),
        pytest.raises(RunError, match=r"every document failed, nothing was published; the first: .*(?i:access.?denied)"),
    ):
        pipeline.run(on_s3(bucket))

    assert versions(f"s3://{bucket}/out") == [None, None]


def test_reading_that_hangs_is_not_the_documents_fault(s3, bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "READING_S", 3.0)
    monkeypatch.setattr(isolation, "_idle", [])
    this = job(f"s3://{bucket}/in", tmp_path / "out", include=["3.txt"], run={"document_timeout_s": 2})
    (listed,) = plan(this).todo.to_pylist()

    with s3.front.failing(Fault("GET", "/in/3.txt", delay_s=20)):
        found = {
            known: [
                (row["status"], row["error_kind"])
                for part in isolated([listed | {"known": known}], this)
                for row in part.to_pylist()
            ]
            for known in (False, True)
        }

    assert found == {False: [("failed", "unreadable")], True: [("kept", "unreadable")]}
    for child in isolation._idle:
        child.end()


# It is not about one object


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET", "/in/", status=400, code="ExpiredToken", after=3),
        Fault("PUT", "/out/.*parquet", status=400, code="ExpiredToken", after=3),
        Fault("PUT", "/out/.*parquet", status=403, after=3),
        Fault("PUT", "/out/_runs/", status=403, after=1),
    ],
    ids=["read", "write", "denied", "journal"],
)
def test_credentials_that_expire_stop_the_run_and_the_next_goes_on(ray_here, s3, bucket, monkeypatch, fault):
    out = f"s3://{bucket}/out"
    pipeline.run(on_s3(bucket))
    before = chunks_of(out)
    for n in range(DOCUMENTS):
        s3.client.put_object(Bucket=bucket, Key=f"in/{n}.txt", Body=prose(n + 100).encode())

    with s3.front.failing(fault), pytest.raises(RunError, match=r"credentials|access denied") as caught:
        pipeline.run(on_s3(bucket))
    assert "\n" not in str(caught.value)

    assert chunks_of(out) == before
    assert versions(out) == [0, 0]
    summary = pipeline.run(on_s3(bucket))
    assert (summary.documents, summary.kept) == (DOCUMENTS, 0)
    assert [text_of(out, f"/{n}.txt") for n in range(DOCUMENTS)] == [prose(n + 100) for n in range(DOCUMENTS)]
    settled(out)


def test_a_publication_that_is_refused_between_the_tables_is_completed_by_the_next_run(ray_here, s3, bucket):
    out = f"s3://{bucket}/out"
    pipeline.run(on_s3(bucket))
    s3.client.put_object(Bucket=bucket, Key="in/3.txt", Body=b"New words.")

    with (
        s3.front.failing(Fault("PUT", "documents/_delta_log", status=403)),
        pytest.raises(RunError, match="can't be committed"),
    ):
        pipeline.run(on_s3(bucket))

    assert versions(out) == [1, 0]
    summary = pipeline.run(on_s3(bucket))
    assert (summary.unchanged, summary.documents) == (DOCUMENTS, 0)
    assert versions(out) == [1, 1]
    settled(out)


def test_an_endpoint_that_stays_silent_ends_the_run_not_the_document(s3, bucket, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(sources, "PAUSE_S", 0.1)
    with s3.front.failing(Fault("GET", "/in/3.txt", drop=True, times=2)):
        assert fetch(f"s3://{bucket}/in/3.txt") == prose(3).encode()

    monkeypatch.setattr(sources, "PATIENCE_S", 0.5)
    with s3.front.failing(Fault("GET", "/in/3.txt", drop=True)), pytest.raises(RunError, match=r"no answer.*run it again"):
        fetch(f"s3://{bucket}/in/3.txt")


# A file changes between the listing and the reading


@pytest.mark.parametrize("where", ["s3", "disk"])
def test_what_changes_after_the_listing_is_read_as_it_is_and_seen_to_be_so_the_next_night(
    ray_here, s3, bucket, tmp_path, where
):
    if where == "s3":
        this = on_s3(bucket)
        put = lambda name, body: s3.client.put_object(Bucket=bucket, Key=f"in/{name}", Body=body)  # noqa: E731  # a line each
    else:
        this = job(tmp_path / "in", tmp_path / "out")
        (tmp_path / "in").mkdir()
        put = lambda name, body: (tmp_path / "in" / name).write_bytes(body)  # noqa: E731  # a line each
    for n in range(3):
        put(f"{n}.txt", prose(n).encode())

    first = pipeline.run(this, once(lambda: put("1.txt", b"Other words.")))
    second = pipeline.run(this)

    assert text_of(this.output, "1.txt") == "Other words."
    assert first.failed == 0
    assert (second.changed, second.touched, second.documents) == (1, 1, 0)
    assert pipeline.run(this).changed == 0
    settled(this.output)


@pytest.mark.parametrize("becomes", ["nothing", "a folder", "a pipe", "a link to nowhere"])
def test_a_file_that_is_gone_when_it_is_read_keeps_its_rows_until_the_listing_says_so(ray_here, tmp_path, becomes):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.txt").write_text(prose(n))
    pipeline.run(job(folder, out))
    (folder / "1.txt").write_text("New words.")
    (folder / "new.txt").write_text("A new text.")

    def change() -> None:
        for path in (folder / "1.txt", folder / "new.txt"):
            path.unlink()
            if becomes == "a folder":
                path.mkdir()
            elif becomes == "a pipe":
                os.mkfifo(path)
            elif becomes == "a link to nowhere":
                path.symlink_to(tmp_path / "nowhere")

    summary = pipeline.run(job(folder, out), once(change))

    settled(out)
    if becomes in ("nothing", "a link to nowhere"):
        assert (summary.kept, summary.statuses) == (1, Counter({"failed:vanished": 1}))
        assert text_of(str(out), "/1.txt") == prose(1)
    else:
        assert (summary.kept, summary.statuses) == (0, Counter({"failed:unsupported": 2}))


# The embedding endpoint


@pytest.fixture
def embeddings() -> Iterator[Faulty]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Vectors)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    front = Faulty(f"http://127.0.0.1:{server.server_port}")
    yield front
    front.close()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        ({"status": 403}, ConfigError, "refuses .403.: the key"),
        pytest.param({"status": 503}, RunError, "failed 7 times .503.", marks=pytest.mark.long),
        pytest.param({"drop": True}, RunError, "doesn't answer after 7 tries", marks=pytest.mark.long),
    ],
)
def test_an_endpoint_that_dies_ends_the_run_and_supersedes_nothing(ray_here, tmp_path, embeddings, fault, error, says):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for n in range(20):
        (folder / f"{n}.txt").write_text(prose(n))
    this = job(folder, out, embed={"backend": "openai", "base_url": embeddings.url + "/v1", "model": "m", "batch_texts": 4})
    pipeline.run(this)
    before = chunks_of(out)
    for n in range(20):
        (folder / f"{n}.txt").write_text(prose(n + 100))

    with embeddings.failing(Fault("POST", after=4, **fault)), pytest.raises(error, match=says):
        pipeline.run(this)

    assert chunks_of(out) == before
    assert pipeline.run(this).documents == 20
    settled(out)


# The disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    (place := tmp_path / "disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def sized(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def random_texts(folder: Path, number: int) -> None:
    folder.mkdir()
    for n in range(number):
        (folder / f"{n:02}.txt").write_text("\n\n".join(os.urandom(40).hex() for _ in range(1200)))


def test_a_disk_that_fills_up_is_said_and_the_next_run_goes_on(ray_here, tmp_path, small_disk, monkeypatch):
    random_texts(tmp_path / "in", 24)
    monkeypatch.setattr(pipeline, "BLOCK_SOURCES", 1)
    this = job(tmp_path / "in", small_disk / "out", chunk={"unit": "chars", "size": 1000, "overlap": 0})

    with pytest.raises(RunError, match=r"can't be written: .*No space left on device"):
        pipeline.run(this)

    assert versions(this.output) == [None, None]
    assert not [*small_disk.rglob(".*.tmp")]
    sized(small_disk, "100m")
    summary = pipeline.run(this)
    assert (summary.adopted > 0, summary.documents) == (True, 24)
    settled(small_disk / "out")


def test_a_disk_that_is_full_when_it_is_published_leaves_the_old_dataset(ray_here, tmp_path, small_disk, monkeypatch):
    sized(small_disk, "30m")
    random_texts(tmp_path / "in", 4)
    this = job(tmp_path / "in", small_disk / "out", chunk={"unit": "chars", "size": 1000, "overlap": 0})
    pipeline.run(this)
    before = chunks_of(this.output)
    (tmp_path / "in" / "00.txt").write_text("New words.")
    publish = pipeline.publish

    def full(*arguments: Any) -> Any:
        sized(small_disk, f"{shutil.disk_usage(small_disk).used // 4096 * 4}k")
        return publish(*arguments)

    monkeypatch.setattr(pipeline, "publish", full)
    with pytest.raises(RunError, match="No space left on device"):
        pipeline.run(this)
    monkeypatch.undo()

    assert chunks_of(this.output) == before
    sized(small_disk, "100m")
    summary = pipeline.run(this)
    assert (summary.adopted, summary.documents) == (1, 1)
    settled(small_disk / "out")


# Poison


def test_a_document_that_crashed_is_not_tried_every_night(ray_here, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "good.txt").write_text("A good text.")
    (folder / "bad.txt").write_text("CUTTING ABORT")
    poison: dict[str, Any] = {"chunk": {"strategy": "poison:Poison", "size": 100_000, "overlap": 0}}

    assert pipeline.run(job(folder, out, **poison)).statuses == Counter({"ok": 1, "failed:crashed": 1})

    again = pipeline.run(job(folder, out, **poison))
    assert (again.unchanged, again.documents) == (2, 0)
    asked = pipeline.run(job(folder, out, **poison, run={"retry": "all"}))
    assert (asked.retried, asked.statuses) == (1, Counter({"failed:crashed": 1}))
    assert runs.unfinished(str(out)) == []
    settled(out)
