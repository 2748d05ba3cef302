"""Whatever a document does to its process, it alone is lost, once, with a reason; all others come through, once."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import poison
from chunkmill.io.corpus import list_sources
from chunkmill.jobs import isolation, rows
from chunkmill.jobs.config import Job, load
from chunkmill.jobs.isolation import isolated


@pytest.fixture(autouse=True)
def poisoned_child(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """A child of each test's own, whose plain text parser obeys the text."""
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(poison.SITE)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(isolation, "_idle", [])
    yield
    for child in isolation._idle:
        child.end()


def job(folder: Path, **run: Any) -> Job:
    chunk = {"strategy": "poison:Poison", "size": 100_000, "overlap": 0}
    return load({"input": str(folder), "output": str(folder) + "-out", "embed": None, "chunk": chunk, "run": run})


def listed(folder: Path) -> list[dict[str, Any]]:
    unknown = {"known": False, "known_hash": None, "ledger": None}
    return [row | unknown for row in pa.concat_tables(list_sources(str(folder))).to_pylist()]


def outcome(folder: Path, this: Job) -> dict[str, tuple[str, str | None, int]]:
    """Of each document's name: status, kind of error, chunks. Fails where a document comes twice."""
    sources = listed(folder)
    came = [row for part in isolated(sources, this) for row in part.to_pylist()]
    found = {row["uri"][len(str(folder)) + 1 :]: (row["status"], row["error_kind"], len(row["chunks"])) for row in came}
    assert len(found) == len(came)
    return found


def corpus(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir()
    for number in range(6):
        (folder / f"good{number}.txt").write_text(f"good text {number}")
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


GOOD = {f"good{number}.txt": ("ok", None, 1) for number in range(6)}


@pytest.mark.parametrize("when", ["PARSING", "CUTTING"])
@pytest.mark.parametrize("what", ["ABORT", "EXIT"])
def test_a_document_that_kills_its_process_is_recorded_and_the_others_are_read(tmp_path, when, what):
    folder = corpus(tmp_path / "in", bad__txt=f"{when} {what}", good3x__txt="between")

    assert outcome(folder, job(folder)) == GOOD | {"bad.txt": ("failed", "crashed", 0), "good3x.txt": ("ok", None, 1)}


def test_the_reason_names_the_signal(tmp_path):
    folder = corpus(tmp_path / "in", bad__txt="CUTTING ABORT")
    sources = listed(folder)

    errors = [row["error"] for part in isolated(sources, job(folder)) for row in part.to_pylist() if row["error"]]

    assert errors == ["its process died of SIGABRT"]


@pytest.mark.parametrize("when", ["PARSING", "CUTTING"])
def test_a_document_that_hangs_is_timed_out(tmp_path, when):
    folder = corpus(tmp_path / "in", bad__txt=f"{when} HANG")

    started = time.monotonic()
    found = outcome(folder, job(folder, document_timeout_s=2))

    assert found == GOOD | {"bad.txt": ("failed", "timeout", 0)}
    assert time.monotonic() - started < 20


def test_documents_that_end_their_process_are_the_slowest_with_what_they_took(tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "fine")
        file.writestr("b.txt", "PARSING ABORT")
    folder = corpus(tmp_path / "in", hangs__txt="CUTTING HANG", dies__txt="PARSING EXIT", all__zip=archive.getvalue())
    this = job(folder, document_timeout_s=2)

    found = [row for part in isolated(listed(folder), this) for row in rows.slowest(part, 10)]

    killed = {(Path(uri).name, why) for _, uri, _, why in found if why}
    assert killed == {("hangs.txt", "timeout"), ("dies.txt", "crashed"), ("all.zip!b.txt", "crashed")}
    seconds = {Path(uri).name: took for took, uri, _, _ in found}
    assert 2 <= seconds["hangs.txt"] < 20
    assert 0 < seconds["dies.txt"] < 20
    assert 0 < seconds["all.zip!b.txt"] < 20


def test_the_slowest_are_those_that_ended_their_process_and_then_by_time():
    none = dict.fromkeys(rows.ROW.names)
    given = [("a", 9.0, None), ("b", 0.5, "crashed"), ("c", 3.0, "corrupt"), ("d", 2.0, "timeout"), ("e", 0.0, "too_large")]
    known = [none | {"uri": uri, "seconds": took, "size": 7, "error_kind": kind} for uri, took, kind in given]

    found = rows.slowest(pa.Table.from_pylist(known, rows.ROW), 3)

    assert found == [(2.0, "d", 7, "timeout"), (0.5, "b", 7, "crashed"), (9.0, "a", 7, "")]


def test_a_document_that_takes_too_much_memory_is_stopped(tmp_path):
    folder = corpus(tmp_path / "in", bad__txt="CUTTING SWELL")

    assert outcome(folder, job(folder, document_memory_mb=600)) == GOOD | {"bad.txt": ("failed", "too_large", 0)}


def test_several_poisonous_documents_cost_a_row_each(tmp_path):
    bad = {f"bad{number}__txt": f"{'PARSING' if number % 2 else 'CUTTING'} ABORT" for number in range(5)}
    folder = corpus(tmp_path / "in", **bad)

    expected = {f"bad{number}.txt": ("failed", "crashed", 0) for number in range(5)}
    assert outcome(folder, job(folder)) == GOOD | expected


def test_a_poisonous_member_of_an_archive_costs_only_itself(tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in {"a.txt": "fine", "b.txt": "PARSING ABORT", "c.txt": "fine too", "d.txt": "CUTTING ABORT"}.items():
            file.writestr(name, text)
    folder = corpus(tmp_path / "in", all__zip=archive.getvalue())

    assert outcome(folder, job(folder)) == GOOD | {
        "all.zip!a.txt": ("ok", None, 1),
        "all.zip!b.txt": ("failed", "crashed", 0),
        "all.zip!c.txt": ("ok", None, 1),
        "all.zip!d.txt": ("failed", "crashed", 0),
    }


def test_a_poisonous_row_costs_only_itself(tmp_path):
    lines = "".join(f'{{"text": "{"CUTTING ABORT" if number == 700 else "fine"}"}}\n' for number in range(1, 1001))
    folder = corpus(tmp_path / "in", rows__jsonl=lines)

    found = outcome(folder, job(folder))

    bad = {name: result for name, result in found.items() if result[0] != "ok"}
    assert bad == {"rows.jsonl#700": ("failed", "crashed", 0)}
    assert len(found) == 1006


def test_what_the_process_gives_is_what_plain_functions_give(tmp_path):
    folder = corpus(tmp_path / "in", rows__jsonl='{"text": "one"}\n{"text": "two"}\n', page__html="<h1>A</h1><p>b")
    sources = listed(folder)

    apart, here = (
        pa.concat_tables(isolated(sources, job(folder, isolate=isolate))).sort_by("uri") for isolate in (True, False)
    )

    assert apart.drop_columns("seconds").equals(here.drop_columns("seconds"))


def test_the_process_goes_when_its_parent_is_killed(tmp_path):
    folder = corpus(tmp_path / "in", bad__txt="CUTTING HANG")
    code = (
        f"import sys; sys.path[:0] = {sys.path[:2]!r}\n"
        "import test_isolation as t, pathlib\n"
        f"folder = pathlib.Path({str(folder)!r}); t.outcome(folder, t.job(folder))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while not (children := psutil.Process(parent.pid).children()):
        assert parent.poll() is None
        time.sleep(0.1)

    parent.kill()
    parent.wait()

    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
