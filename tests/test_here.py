"""A small run starts no Ray: the same rows, the same summary, the same promises, in this process and one child of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import poison
from chunkmill.chunkers.errors import RunError
from chunkmill.io import runs, table
from chunkmill.jobs import child, cluster, isolation, pipeline, plan, progress
from chunkmill.jobs.config import Job, load

OF_RUN = ["run_id", "modified"]
TEXT = "The keeper lights the lamp at dusk. The fog comes at night.\n\n"


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which no Ray is up, even where other tests have started one."""
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "_start", lambda cpus: pytest.fail("Ray was started"))
    monkeypatch.setattr(isolation, "_idle", [])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.txt").write_text(f"Entry {number}.\n\n" + TEXT * (number % 7 + 1))
    (folder / "guide.md").write_text("# Guide\n\n## Lamp\n\n" + TEXT * 9)
    (folder / "empty.txt").write_text(" \n")
    (folder / "damaged.pdf").write_bytes(b"%PDF-1.7\n" + b"\0" * 50)
    (folder / "rows.jsonl").write_text('{"id": "a", "text": "first record"}\n{"id": "b", "text": ""}\nnot json\n')
    return folder


def job(corpus: Path, out: Path, **settings: Any) -> Job:
    given = {"input": str(corpus), "output": str(out), "embed": None, "chunk": {"size": 60, "overlap": 10}}
    return load(given | settings)


def rows(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Of both tables, without what differs from run to run."""
    found = {
        name: table.read(str(out), name).drop_columns(OF_RUN[: 1 + (name == "documents")]) for name in pipeline.TABLES[::2]
    }
    keys = {"chunks": [("chunk_id", "ascending")], "documents": [("doc_id", "ascending")]}
    return {name: data.sort_by(keys[name]).to_pylist() for name, data in found.items()}


def edit(corpus: Path) -> None:
    (corpus / "03.txt").write_text("Corrected.\n\n" + TEXT)
    (corpus / "04.txt").unlink()
    (corpus / "new.txt").write_text(TEXT * 3)
    os.utime(corpus / "05.txt", (1, 1))  # a new date, the old content


def said(summary: pipeline.Summary) -> dict[str, Any]:
    """The summary without times and names of the run; with what the stages counted."""
    counts = {name: n for name, n in summary.seen.items() if not name.endswith("_seconds")}
    return {k: v for k, v in progress.as_json(summary).items() if k not in ("run_id", "seconds", "stages")} | {"seen": counts}


def test_a_first_run_and_a_night_give_the_same_rows_and_say_the_same_with_and_without_ray(
    ray_here: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_ray, without = [tmp_path / "ray"], [tmp_path / "here"]
    for change in (lambda folder: None, edit):
        change(corpus)
        with_ray.append(said(pipeline.run(job(corpus, with_ray[0]))))
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "needed", lambda job, sources: False)
            patch.setattr(cluster.ray, "is_initialized", lambda: False)
            without.append(said(pipeline.run(job(corpus, without[0]))))

        assert rows(with_ray[0]) == rows(without[0])
    assert with_ray[1:] == without[1:]
    assert without[2]["sources"] | {"unchanged": 0} == without[2]["sources"] | {
        "changed": 2,
        "added": 1,
        "gone": 1,
        "unchanged": 0,
    }
    assert without[1]["seen"]["documents"] == 36


def test_no_child_is_left_behind(no_ray: None, corpus: Path, tmp_path: Path) -> None:
    pipeline.run(job(corpus, tmp_path / "out"))

    assert not [p for p in psutil.Process().children() if "chunkmill.jobs.child" in " ".join(p.cmdline())]


def test_a_document_that_kills_its_process_is_a_row(
    no_ray: None, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(poison.SITE)
    monkeypatch.syspath_prepend(str(site))
    (tmp_path / "corpus").mkdir()
    for name, text in {"a": "good", "b": "PARSING ABORT", "c": "good too"}.items():
        (tmp_path / "corpus" / f"{name}.txt").write_text(text)

    summary = pipeline.run(job(tmp_path / "corpus", tmp_path / "out"))

    assert summary.statuses == {"ok": 2, "failed:crashed": 1}
    assert summary.versions == {"chunks": 0, "documents": 0}


def test_what_goes_wrong_here_is_a_run_error_and_publishes_nothing(
    no_ray: None, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "note", full)

    with pytest.raises(RunError, match="No space left on device"):
        pipeline.run(job(corpus, tmp_path / "out"))
    assert table.version(str(tmp_path / "out"), "documents") is None


@pytest.mark.parametrize(
    ("expected", "settings", "number", "environment"),
    [
        (False, {}, 30, {}),
        (True, {}, cluster.HERE_SOURCES, {}),
        (True, {"embed": {"backend": "openai", "base_url": "http://127.0.0.1:9", "model": "m"}}, 30, {}),
        (True, {"run": {"isolate": False}}, 30, {}),
        (True, {}, 30, {"RAY_ADDRESS": "127.0.0.1:1"}),
    ],
)
def test_ray_is_taken_where_it_helps(
    no_ray: None,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected: bool,
    settings: Any,
    number: int,
    environment: Any,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    this = job(corpus, tmp_path / "out")
    todo = plan.plan(this).todo
    many = todo.take([i % len(todo) for i in range(number + 1)])

    assert cluster.needed(this.model_copy(update=load_settings(this, settings)), many) is expected


def load_settings(this: Job, settings: Any) -> dict[str, Any]:
    changed = Job.model_validate(this.model_dump(include={"input", "output", "run"}) | {"embed": None} | settings)
    return {name: getattr(changed, name) for name in settings}


def test_much_text_takes_ray(no_ray: None, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("x" * (cluster.HERE_BYTES + 1))
    this = job(tmp_path / "corpus", tmp_path / "out")

    assert cluster.needed(this, plan.plan(this).todo)


def test_sigterm_ends_a_small_run_as_ctrl_c_does(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("PARSING HANG")
    (tmp_path / "sitecustomize.py").write_text(poison.SITE)
    paths = os.pathsep.join([str(tmp_path), *(p for p in sys.path if p)])
    command = [sys.executable, "-m", "chunkmill.jobs", "run", str(tmp_path / "corpus"), str(tmp_path / "out"), "--no-embed"]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "plan: 1 new" in process.stderr.readline()
    while not (children := psutil.Process(process.pid).children()):
        pass
    process.send_signal(signal.SIGTERM)

    assert "nothing was published" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert not psutil.wait_procs(children, timeout=20)[1]


class Sent:
    """The near end of a pipe that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def send_bytes(self, message: bytes) -> None:
        self.messages.append(message)


@pytest.mark.parametrize(("careful", "expected"), [(True, [b"A0", b"A1", b"A2", b"A3"]), (False, [b"A0", b"A3"])])
def test_a_sign_of_life_is_not_given_for_each_document_unless_each_may_kill(careful: bool, expected: list[bytes]) -> None:
    signs = child.Signs(child.Work([], careful), sent := Sent())  # type: ignore[arg-type]  # stands in

    for number in range(4):
        if number == 3:
            signs.due = 0.0  # as after a table
        signs(str(number))

    assert sent.messages == expected


NOISY = """
from dataclasses import dataclass
from typing import ClassVar
from chunkmill import Piece, Span

@dataclass(frozen=True)
class Noisy:
    needs: ClassVar[frozenset] = frozenset()

    def __call__(self, doc, budget):
        print("noise")
        return [Piece(Span(0, len(doc.text)))]
"""


def test_what_a_strategy_prints_is_no_part_of_the_json(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("One sentence.")
    command = [sys.executable, "-m", "chunkmill.jobs", "run", "in", "out", "--no-embed", "--json", "--strategy", "noisy:Noisy"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["chunks"] == 1
    assert "noise" in done.stderr
