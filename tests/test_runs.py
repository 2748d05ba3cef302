"""Runs over time: what changed is done, what died is taken up, what another published is planned around, nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chunkmill.chunkers.errors import RunError
from chunkmill.io import runs, table
from chunkmill.io.parquet import Conflict
from chunkmill.jobs import documents, pipeline, publish, stages
from chunkmill.jobs.forecast import forecast
from chunkmill.jobs.plan import plan
from chunkmill.jobs.upkeep import new_id, vacuum
from counted import Tally
from test_run import chunks_of, job, ledger_of, prose


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number:02}.txt").write_text(prose(number))
    return folder


def settled(out: Path) -> None:
    """What must hold after any run: rows once, chunks that belong to documents, files that nobody else refers to gone."""
    chunks, ledger = chunks_of(out), table.read(str(out), "documents")
    assert len({c["chunk_id"] for c in chunks}) == len(chunks)
    assert len(set(ledger["uri"].to_pylist())) == len(ledger)
    per_document = {d["doc_id"]: d["n_chunks"] for d in ledger.to_pylist() if d["n_chunks"]}
    counts: dict[str, int] = {}
    for c in chunks:
        counts[c["doc_id"]] = counts.get(c["doc_id"], 0) + 1
    assert counts == per_document
    assert runs.unfinished(str(out)) == []


def texts(out: Path) -> set[tuple[str, str]]:
    return {(c["chunk_id"], c["text"]) for c in chunks_of(out)}


# What changed


def test_a_new_date_with_the_old_content_changes_no_chunk_and_is_seen_once(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    before = chunks_of(out)
    os.utime(corpus / "03.txt", (1, 1))

    first, second = pipeline.run(job(corpus, out)), pipeline.run(job(corpus, out))

    assert (first.changed, first.touched, first.documents) == (1, 1, 0)
    assert (second.changed, second.unchanged) == (0, 12)
    assert chunks_of(out) == before
    settled(out)


def test_verify_reads_everything_and_finds_what_a_date_hides(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    path = corpus / "03.txt"
    kept, text = path.stat(), path.read_text()
    path.write_text(text[:-3] + "xyz")
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))

    assert pipeline.run(job(corpus, out)).unchanged == 12
    summary = pipeline.run(job(corpus, out, run={"verify": True}))

    assert (summary.touched, summary.documents) == (11, 1)
    assert any(c["text"].endswith("xyz") for c in chunks_of(out))
    settled(out)


def test_what_cannot_be_read_tonight_stays_as_it_was(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    this = job(corpus, out, run={"isolate": False})
    pipeline.run(this)
    before = texts(out)
    (corpus / "03.txt").write_text("New words that nobody can read tonight.")
    (corpus / "03.txt").chmod(0)
    if os.access(corpus / "03.txt", os.R_OK):  # root reads anything: have the link lead nowhere, but seem to be a file
        listed = plan(this).todo.to_pylist()
        (corpus / "03.txt").unlink()
        row = next(documents.one(listed[0], this, documents.accept))
        assert (row.status, row.error.kind) == ("kept", "vanished")
        return
    summary = pipeline.run(this)
    assert summary.kept == 1
    assert texts(out) == before
    (corpus / "03.txt").chmod(0o644)
    assert pipeline.run(this).documents == 1


def test_a_new_recipe_cuts_again_without_reading_again(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    for path in corpus.iterdir():
        size, stat = path.stat().st_size, path.stat()
        path.write_bytes(b"\0" * size)  # whoever reads it now finds no text
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    summary = pipeline.run(job(corpus, out, chunk={"size": 50, "overlap": 0}))

    assert (summary.changed, summary.statuses["ok"]) == (12, 12)
    assert all(c["n_tokens"] <= 50 for c in chunks_of(out))
    settled(out)


def test_a_text_read_by_another_parser_or_under_other_settings_is_read_again(ray_here, tmp_path):
    folder, out = tmp_path / "corpus", tmp_path / "out"
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"text": "first", "other": "second"}\n')
    pipeline.run(job(folder, out))

    pipeline.run(job(folder, out, formats={"jsonl": {"text_column": "other"}}))

    assert [c["text"] for c in chunks_of(out)] == ["second"]
    settled(out)


def test_without_kept_text_a_new_recipe_reads_again(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out, run={"keep_text": False}))

    todo = plan(job(corpus, out, chunk={"size": 50}, run={"keep_text": False})).todo

    assert todo["ledger"].null_count == len(todo) == 12


# What died


def killed(corpus: Path, out: Path, *, after: int, chunk: dict[str, Any] | None = None) -> None:
    """A run in a process of its own whose driver is killed once its journal has that many entries."""
    code = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from pathlib import Path; from test_run import job; from chunkmill.jobs import pipeline\n"
        "pipeline.BLOCK_SOURCES = 1\n"
        f"pipeline.run(job(Path({str(corpus)!r}), Path({str(out)!r}), chunk={chunk or {}!r}))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
    while process.poll() is None and len([*out.glob("_runs/*/*.json")]) < after:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_run_goes_on_where_it_was(ray_here, corpus, tmp_path):
    out, clean = tmp_path / "out", tmp_path / "clean"
    killed(corpus, out, after=4)
    left = runs.unfinished(str(out))
    assert len(left) == 1
    assert table.version(str(out), "chunks") is None

    summary = pipeline.run(job(corpus, out))

    pipeline.run(job(corpus, clean))
    assert summary.adopted >= 3
    assert summary.documents == 12
    assert texts(out) == texts(clean)
    settled(out)


def test_what_a_killed_run_did_under_another_recipe_is_not_taken(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    killed(corpus, out, after=4, chunk={"size": 60})

    summary = pipeline.run(job(corpus, out))

    assert summary.adopted == 0
    assert len(ledger_of(out)) == 12


def test_a_document_that_changed_since_a_run_died_is_read_again(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    killed(corpus, out, after=4)
    for path in corpus.iterdir():
        path.write_text("Other words.")

    summary = pipeline.run(job(corpus, out))

    assert summary.adopted == 0
    assert {c["text"] for c in chunks_of(out)} == {"Other words."}
    settled(out)


def test_of_a_source_that_was_half_written_nothing_is_taken_or_doubled(ray_here, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "ALONE_ROWS", 512)
    out = tmp_path / "out"
    (corpus / "rows.jsonl").write_text("".join(f'{{"text": "row {n}"}}\n' for n in range(2000)))
    this = job(corpus, out)
    *parts, _ = documents.prepared(plan(this).todo.to_pylist(), this)
    assert len(parts) > 2
    for part in [*parts, parts[0]]:  # one of them twice, as by a task whose result was lost
        stages.write(part, this, "20260101T000000-dead", Tally())

    summary = pipeline.run(this)

    assert summary.adopted == 12
    assert len(ledger_of(out)) == 2012
    settled(out)


# Between the tables


def test_a_publication_cut_off_between_the_tables_is_completed_by_the_next_run(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    commit = table.commit

    def cut_off(root, name, **rest):
        if name == "documents":
            raise KeyboardInterrupt
        return commit(root, name, **rest)

    monkeypatch.setattr(publish.table, "commit", cut_off)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(job(corpus, out))
    monkeypatch.undo()
    assert table.version(str(out), "documents") is None

    summary = pipeline.run(job(corpus, out))

    assert (summary.unchanged, summary.documents) == (12, 0)
    settled(out)
    assert [r["recovered"] for r in runs.records(str(out))] == [True]


def test_an_intent_that_had_not_begun_is_void(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(publish.table, "commit", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(job(corpus, out))
    monkeypatch.undo()

    summary = pipeline.run(job(corpus, out))

    assert summary.adopted == 12
    settled(out)


# Two at once


def test_two_runs_at_once_both_end_and_nothing_is_doubled(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    (corpus / "03.txt").write_text("changed words")
    process = pipeline.process
    others = []

    def meanwhile(*arguments):
        done = process(*arguments)
        if not others:
            others.append(True)
            (corpus / "new.txt").write_text("Added while the first was at work.")
            others.append(pipeline.run(job(corpus, out)))
        return done

    monkeypatch.setattr(pipeline, "process", meanwhile)
    summary = pipeline.run(job(corpus, out))

    assert others[1].documents == 2
    assert (summary.unchanged, summary.documents) == (13, 0)
    assert len(ledger_of(out)) == 13
    settled(out)


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_stop_ends_in_words_and_publishes_nothing(corpus, tmp_path, asked):
    out, given = tmp_path / "out", tmp_path / "job.yaml"
    chunk = {"strategy": "driver:Slow", "overlap": 0, "seconds": 1}
    given.write_text(json.dumps({"input": str(corpus), "output": str(out), "embed": None, "chunk": chunk}))
    command = [sys.executable, "-m", "chunkmill.jobs", "run", str(given)]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(command, env=paths, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(600):
        if any((out / "_runs").rglob("*.json")):
            break
        time.sleep(0.1)

    process.send_signal(asked)

    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "chunkmill: stopped; nothing was published")
    assert table.version(str(out), "documents") is None


def test_a_run_that_always_comes_second_gives_up_with_a_reason(ray_here, corpus, tmp_path, monkeypatch):
    def conflict(*arguments):
        raise Conflict("someone else committed")

    monkeypatch.setattr(pipeline, "publish", conflict)

    with pytest.raises(RunError, match="5 times meanwhile"):
        pipeline.run(job(corpus, tmp_path / "out"))


# Going wrong


def test_a_run_in_which_too_much_fails_stops_and_publishes_nothing(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    for number in range(4):
        (corpus / f"bad{number}.pdf").write_bytes(b"%PDF-1.7 broken")

    with pytest.raises(RunError, match=r"4 of 16 documents failed \(4 corrupt\), more than run.max_error_share \(10%\)"):
        pipeline.run(job(corpus, out, run={"max_error_share": 0.1}))

    assert table.version(str(out), "documents") is None
    with pytest.raises(RunError, match=r"For example .*bad\d.pdf: "):  # the failures of the run before, which it took over
        pipeline.run(job(corpus, out, run={"max_error_share": 0.1}))
    assert pipeline.run(job(corpus, out)).adopted == 16


def test_one_bad_document_does_not_stop_a_night_of_three(ray_here, corpus, tmp_path):
    this = job(corpus, tmp_path / "out", run={"max_error_share": 0.1})
    pipeline.run(this)
    for name, content in (("a.txt", b"One."), ("b.txt", b"Two."), ("bad.pdf", b"%PDF-1.7 broken")):
        (corpus / name).write_bytes(content)

    summary = pipeline.run(this)

    assert (summary.unchanged, summary.statuses) == (12, {"ok": 2, "failed:corrupt": 1})
    settled(tmp_path / "out")
    again = forecast(job(corpus, tmp_path / "out", run={"retry": "all"}))
    assert (again["retried"], again["examples"]) == (1, {"retried": [str(corpus / "bad.pdf")]})


def test_what_a_stopped_run_could_not_read_is_read_by_the_next(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    this = job(corpus, out)
    listed, away = plan(this).todo.to_pylist(), sorted(corpus.iterdir())[:9]
    for path in away:
        path.rename(tmp_path / path.name)
    stages.write(pa.concat_tables(documents.prepared(listed, this)), this, new_id(), Tally())
    for path in away:
        (tmp_path / path.name).rename(path)

    summary = pipeline.run(this)

    assert (summary.adopted, summary.statuses) == (3, {"ok": 12})
    settled(out)


# What is left of it


def test_of_two_runs_at_once_the_last_to_publish_is_the_last_of_the_records(tmp_path):
    for run_id, version in (("20260101T000000-aaaaaaaa", 1), ("20260101T000001-bbbbbbbb", 0)):
        runs.finish(str(tmp_path), run_id, {"run_id": run_id, "versions": {"chunks": version, "documents": version}})

    assert [record["versions"]["chunks"] for record in runs.records(str(tmp_path))] == [0, 1]


def test_every_run_leaves_a_record(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    (corpus / "03.txt").unlink()
    pipeline.run(job(corpus, out))

    first, second = runs.records(str(out))

    assert (first["added"], first["documents"], first["statuses"]) == (12, 12, {"ok": 12})
    assert (second["gone"], second["unchanged"]) == (1, 11)
    assert second["versions"] == {"chunks": 1, "documents": 1}


def test_a_relative_output_is_in_the_folder_where_the_run_was_started(ray_here, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers' folder is another one

    pipeline.run(job(corpus, "out"))

    assert len(table.read(str(tmp_path / "out"), "documents")) == 12


def test_small_files_of_one_run_are_put_together(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))

    assert [len(table.paths(str(out), name)) for name in ("chunks", "documents")] == [1, 1]
    assert pc.sum(table.read(str(out), "documents")["n_chunks"]).as_py() == len(chunks_of(out))


# At the worst moment


def test_another_run_that_looks_in_just_before_the_commit_leaves_it_what_it_needs_to_be_completed(
    ray_here, corpus, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    commit = table.commit

    def looked_at_and_cut_off(root, name, **rest):
        if name == "documents":
            raise KeyboardInterrupt
        assert publish.recover(root) == []  # what another run begins with
        return commit(root, name, **rest)

    monkeypatch.setattr(publish.table, "commit", looked_at_and_cut_off)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(job(corpus, out))
    monkeypatch.undo()

    assert pipeline.run(job(corpus, out)).unchanged == 12
    settled(out)


def test_a_publication_that_another_run_completes_is_ones_own(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    commit = table.commit
    helped: list[list[str]] = []

    def overtaken(root, name, **rest):
        if name == "documents" and not helped:
            helped.append([])
            helped[0] = publish.recover(root)
        return commit(root, name, **rest)

    monkeypatch.setattr(publish.table, "commit", overtaken)
    summary = pipeline.run(job(corpus, out))

    assert helped == [[summary.run_id]]
    assert (summary.documents, summary.versions) == (12, {"chunks": 0, "documents": 0})
    settled(out)


def test_with_no_retention_a_completed_publication_leaves_no_old_file(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    this = job(corpus, out, run={"retention": "0"})
    pipeline.run(this)
    (corpus / "03.txt").write_text("New words.")
    commit = table.commit

    def cut_off(root, name, **rest):
        if name == "documents":
            raise KeyboardInterrupt
        return commit(root, name, **rest)

    monkeypatch.setattr(publish.table, "commit", cut_off)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(this)
    monkeypatch.undo()

    assert pipeline.run(this).unchanged == 12
    for name in ("chunks", "documents"):
        files = [str(path.relative_to(out / name)) for path in (out / name).rglob("*.parquet")]
        assert sorted(files) == table.paths(str(out), name)


def test_files_of_a_run_that_may_be_at_work_are_not_vacuumed(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    this = job(corpus, out)
    pipeline.run(this)
    for path in corpus.iterdir():
        path.write_text(prose(int(path.stem) + 50))
    listed = plan(this).todo.to_pylist()
    for run_id, source in ((new_id(), listed[0]), ("20200101T000000-dead", listed[1])):
        stages.write(pa.concat_tables(documents.prepared([source], this)), this, run_id, Tally())
    files = {run_id: [f.path for e in runs.journal(str(out), run_id) for f in e.files] for run_id in runs.unfinished(str(out))}
    for path in out.rglob("*.parquet"):
        os.utime(path, (1, 1))

    vacuum(str(out), 60)

    old, young = sorted(files)
    there = {path.name for path in out.rglob("*.parquet")}
    assert all(Path(path).name in there for path in files[young])
    assert not any(Path(path).name in there for path in files[old])
    assert runs.unfinished(str(out)) == [young]
    assert pipeline.run(this).adopted == 1
    settled(out)


def test_a_dataset_of_an_earlier_version_goes_on(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    before = {c["chunk_id"]: c["text"] for c in chunks_of(out)}
    for name, lacking in (("chunks", ["row_start", "spans", "forms", "embedder"]), ("documents", ["parser"])):
        older = table.read(str(out), name).drop_columns(lacking)
        deltalake.write_deltalake(str(out / name), older, mode="overwrite", schema_mode="overwrite")
    (corpus / "03.txt").write_text(prose(99))

    summary = pipeline.run(job(corpus, out))

    assert (summary.changed, summary.unchanged) == (1, 11)
    after = {c["chunk_id"]: c for c in chunks_of(out)}
    told = {f.name for f in deltalake.DeltaTable(str(out / "chunks")).schema().fields}
    assert {"row_start", "forms", "embedder"} <= told, "other readers don't see the new columns"
    kept = {name for name, chunk in after.items() if not chunk["uri"].endswith("03.txt")}
    assert {name: after[name]["text"] for name in kept} == {name: before[name] for name in kept}
    assert len(kept) > 11
