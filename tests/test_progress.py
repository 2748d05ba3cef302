"""What is said of a run while it works: the time that is left, from what was read and what models have been through."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chunkmill.io.parsers import parse
from chunkmill.jobs import documents, progress, stages
from chunkmill.jobs.adopt import nothing
from chunkmill.jobs.config import load
from chunkmill.jobs.pipeline import Summary
from chunkmill.jobs.plan import TODO, Plan
from chunkmill.jobs.progress import Progress, share

TOTAL = 1_000_000_000  # bytes to read
STARTS = 40  # seconds until the first worker is there
UNITS = {"h": 3600, "min": 60, "s": 1}


def plan() -> Plan:
    row = dict.fromkeys(TODO.names) | {"uri": "a", "size": TOTAL}
    return Plan(pa.Table.from_pylist([row], TODO), 1, 0, 0, 0, 0, pa.table({}), nothing(), {})


def said(seen: Callable[[float], dict[str, float]], until: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, int | None]:
    """Of each second at which a line is said, the seconds that it says are left."""
    clock = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    out, summary, whole = io.StringIO(), Summary("run", "recipe"), plan()
    watch = Progress(out)
    watch(summary, whole)
    found: dict[int, int | None] = {}
    for second in range(1, until):
        clock[0] = 1000.0 + second
        summary.seen = seen(second)
        at = out.tell()
        watch(summary, whole)
        if line := out.getvalue()[at:]:
            parts = re.search(r"about (.*) left", line)
            times = re.findall(r"(\d+) (h|min|s)\b", parts[1]) if parts else []
            found[second] = sum(int(n) * UNITS[unit] for n, unit in times) if parts else None
    return found


def embedding(seconds: float) -> dict[str, float]:
    """A run that reads everything in 400 s, while its vectors take an hour and come in batches of 100 s."""
    worked = seconds - STARTS
    if worked < 2:
        return {}
    read = min(1.0, worked // 2 * 2 / 400)
    return {"bytes": read * TOTAL, "documents": read * 900, "due": read * 2.5e8, "done": worked // 100 * 100 / 3600 * 2.5e8}


def test_the_time_left_is_right_from_the_first_vectors_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(embedding, STARTS + 3600, monkeypatch)

    assert all(found[second] is None for second in found if second < STARTS + 100)
    for second in (s for s in found if s >= STARTS + 100):
        true = STARTS + 3600 - second
        assert found[second] == pytest.approx(true, rel=0.1, abs=60), second


def test_without_a_model_it_follows_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(seconds: float) -> dict[str, float]:
        read = max(0.0, seconds - STARTS) / 1000
        return {"bytes": read * TOTAL, "due": read * 1e6, "done": read * 1e6} if read else {}

    found = said(reading, STARTS + 1000, monkeypatch)

    assert {second: left for second, left in found.items() if second > STARTS + 20} == pytest.approx(
        {second: STARTS + 1000 - second for second in found if second > STARTS + 20}, abs=2
    )


def test_where_no_source_has_been_read_to_its_end_nothing_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(lambda second: {"documents": second, "due": 9.0 * second, "done": 9.0 * second}, 60, monkeypatch)

    assert found
    assert not any(found.values())


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, 0.0),
        ({"bytes": 50, "documents": 3}, 0.5),  # nothing of it had a chunk
        ({"bytes": 50, "due": 400, "done": 100}, 0.125),
        ({"bytes": 100, "due": 400}, 0.0),
        ({"bytes": 130, "due": 400, "done": 500}, 1.0),  # a task that was retried counts twice
    ],
)
def test_models_have_to_have_been_through_what_is_read(seen: dict[str, float], expected: float) -> None:
    assert share(seen, 100) == expected


def test_nothing_is_said_of_inputs_without_bytes() -> None:
    assert share({"documents": 3}, 0) == 0.0


def test_what_a_run_that_died_had_written_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    out, summary = io.StringIO(), Summary("run", "recipe", chunks=8_889)
    whole = plan()._replace(adopted=nothing()._replace(chunks=8_889))
    watch = Progress(out)
    watch(summary, whole)
    for second, chunks in ((1011.0, 8_889), (1022.0, 8_900)):
        clock[0], summary.chunks = second, chunks
        watch(summary, whole)

    _, *lines = out.getvalue().splitlines()
    assert ["written" in line for line in lines] == [False, True]
    assert lines[1].endswith("11 chunks written")


# How far a large file is


TEXTS = [f"Note {i}: " + "the lamp burns until dawn. " * 40 for i in range(200)]


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for i, text in enumerate(TEXTS):
            archive.writestr(f"{i}.txt", text)
    return packed.getvalue()


def tarred() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for i, text in enumerate(TEXTS):
            info = tarfile.TarInfo(f"{i}.txt")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), sink)
    return sink.getvalue()


JSONL = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
LARGE = {
    "rows.jsonl": JSONL,
    "rows.jsonl.gz": gzip.compress(JSONL),
    "latin.jsonl": "".join(json.dumps({"text": f"Küste {t}"}, ensure_ascii=False) + "\n" for t in TEXTS).encode("latin-1"),
    "rows.parquet": parquet(),
    "box.mbox": "".join(f"From a@b Mon Jan 1 00:00:00 2024\nSubject: {i}\n\n{t}\n\n" for i, t in enumerate(TEXTS)).encode(),
    "all.zip": zipped(),
    "all.tar": tarred(),
}


@pytest.mark.parametrize("name", LARGE)
def test_each_document_of_many_says_how_much_of_its_source_is_behind_it(name: str) -> None:
    reads = [found.read for found in parse(LARGE[name], name)]

    assert len(reads) == len(TEXTS)
    assert reads == pytest.approx([(i + 1) / len(TEXTS) for i in range(len(TEXTS))], abs=0.05)
    assert reads == sorted(reads)
    assert reads[-1] <= 1


class Tally:
    """Keeps what is counted."""

    def __init__(self) -> None:
        self.counts: list[dict[str, float]] = []
        self.add = self

    def remote(self, counts: dict[str, float]) -> None:
        self.counts.append(counts)


def test_bytes_count_while_one_file_of_many_documents_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "BATCH_BYTES", 20_000)
    sources = []
    for name, data in LARGE.items():
        (path := tmp_path / name).write_bytes(data)
        sources.append(dict.fromkeys(TODO.names) | {"uri": str(path), "etag": "", "size": len(data)})
    job = load({"input": str(tmp_path), "output": str(tmp_path / "out"), "embed": None, "run": {"isolate": False}})
    tally = Tally()

    list(stages.prepare(pa.Table.from_pylist(sources, TODO), job, tally))

    read, total = [counts["bytes"] for counts in tally.counts], sum(map(len, LARGE.values()))
    assert sum(read) == total
    assert max(read) < total / 10
    assert min(read) >= 0
