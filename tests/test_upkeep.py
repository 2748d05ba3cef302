"""Between runs: small files put together, an older version brought back, what changed listed, old files deleted."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import runs, table
from chunkmill.io.diff import changed
from chunkmill.jobs import cluster, pipeline, report, upkeep
from chunkmill.jobs.search import search
from test_run import chunks_of, command, job, prose
from test_runs import corpus, settled, texts

__all__ = ["corpus"]


@pytest.fixture
def three_nights(ray_here, corpus: Path, tmp_path: Path) -> Path:
    """A dataset of three versions: all, one changed, one gone."""
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    (corpus / "03.txt").write_text(prose(99))
    pipeline.run(job(corpus, out))
    (corpus / "04.txt").unlink()
    pipeline.run(job(corpus, out))
    return out


def ids(out: Path, version: int | None = None) -> set[str]:
    return set(table.read(str(out), "chunks", ["chunk_id"], version=version)["chunk_id"].to_pylist())


def test_a_difference_brings_one_version_to_the_other(three_nights):
    for old, new in ((0, 2), (2, 0), (1, 2), (1, 1)):
        added, removed = changed(str(three_nights), old, new)
        was, now = ids(three_nights, old), ids(three_nights, new)

        assert (was - set(removed["chunk_id"].to_pylist())) | set(added["chunk_id"].to_pylist()) == now
        assert not set(added["chunk_id"].to_pylist()) & was
        assert set(removed["chunk_id"].to_pylist()) == was - now


def test_a_difference_gives_what_a_vector_store_needs(three_nights, tmp_path, monkeypatch, capsys):
    arguments = ["diff", str(three_nights), "0", "1"]
    assert command([*arguments, "--vectors"], monkeypatch) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert command([*arguments, "--vectors", "--output", str(tmp_path / "d.parquet")], monkeypatch) == 0
    rows = pq.read_table(tmp_path / "d.parquet").to_pylist()
    assert command([*arguments, "--output", str(tmp_path / "none" / "d.parquet")], monkeypatch) == 2

    assert [(line["op"], line["chunk_id"]) for line in sorted(lines, key=lambda r: r["op"])] == [
        (row["op"], row["chunk_id"]) for row in rows
    ]
    by_id = {c["chunk_id"]: c for c in chunks_of(three_nights)}
    for line in lines:
        if line["op"] == "add":
            assert line["text"] == by_id[line["chunk_id"]]["text"]


def test_a_version_whose_files_are_deleted_can_not_be_compared_and_the_message_says_why(tmp_path):
    (tmp_path / "a.txt").write_text("One.")
    this = job(tmp_path / "a.txt", tmp_path / "out", run={"retention": "0"})
    pipeline.run(this)
    (tmp_path / "a.txt").write_text("Two words.")
    pipeline.run(this)

    with pytest.raises(RunError, match=r"version 0 of .* can't be read any more: its files were deleted after the retention"):
        changed(str(tmp_path / "out"), 0, 1)


def test_a_chunk_with_other_metadata_or_headings_is_put_in_again_and_its_neighbours_are_not(tmp_path):
    (folder := tmp_path / "in").mkdir()
    rows = [
        {"id": "a", "text": "Row a.", "who": "Ann"},
        {"id": "b", "text": "Row b.", "who": "Bea"},
        {"id": "c", "text": "Row c."},
    ]
    out, this = tmp_path / "out", job(folder, tmp_path / "out", chunk={"strategy": "section", "merge": False, "size": 20})
    for who, title in (("Ann", "Lamps"), ("Amy", "Lights")):
        rows[0]["who"] = who
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "a.md").write_text(f"# {title}\n\n{prose(1, 1)}\n\n## Wicks\n\n{prose(2, 1)}\n\n# Bells\n\n{prose(3, 1)}\n")
        pipeline.run(this)

    added, removed = changed(str(out), 0, 1, ["uri", "text", "heading_path", "metadata"])

    before, after = ids(out, 0), ids(out, 1)
    again = [row for row in added.to_pylist() if row["chunk_id"] in before]
    assert set(removed["chunk_id"].to_pylist()) == before - after
    assert [dict(r["metadata"]).get("who") for r in again if r["uri"].endswith("#a")] == ["Amy"]
    assert not any(r["uri"].endswith(("#b", "#c")) for r in added.to_pylist())
    assert {tuple(r["heading_path"]) for r in again if r["uri"].endswith(".md")} == {("Lights", "Wicks")}
    assert changed(str(out), 1, 1)[0].num_rows == 0


@pytest.mark.parametrize("version", [3, -1])
def test_a_version_there_is_not_is_refused_with_those_there_are(three_nights, version):
    with pytest.raises(ConfigError, match=f"no version {version}; it has 0 to 2"):
        changed(str(three_nights), 0, version)


def test_compacting_keeps_every_row_and_old_versions(three_nights, corpus):
    (corpus / "new.txt").write_text("A new text.")
    pipeline.run(job(corpus, three_nights))
    before = chunks_of(three_nights)

    counts = upkeep.compact(str(three_nights))

    assert counts["documents"] == (2, 1)
    assert chunks_of(three_nights) == before
    assert len(ids(three_nights, 0)) > 0
    assert changed(str(three_nights), 3, 4)[0].num_rows == 0
    settled(three_nights)
    assert upkeep.compact(str(three_nights))["documents"] == (1, 1)


def test_a_version_is_brought_back_and_the_next_run_does_again_what_came_after(three_nights, corpus):
    wanted = ids(three_nights, 0)

    upkeep.rollback(str(three_nights), 0)

    assert ids(three_nights) == wanted
    summary = pipeline.run(job(corpus, three_nights))
    assert (summary.changed, summary.gone) == (1, 1)
    assert ids(three_nights) == ids(three_nights, 2)
    settled(three_nights)


def test_with_no_retention_a_plain_glob_is_the_table(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    for seed in (1, 2):
        (corpus / "03.txt").write_text(prose(seed + 50))
        pipeline.run(job(corpus, out, run={"retention": "0"}))

    files = [*(out / "chunks").rglob("*.parquet")]

    assert {row for f in files for row in pq.read_table(f, partitioning=None)["chunk_id"].to_pylist()} == ids(out)
    assert sum(pq.read_metadata(f).num_rows for f in files) == len(ids(out))
    with pytest.raises(RunError, match="deleted after the retention"):
        upkeep.rollback(str(out), 0)


def test_what_a_longer_retention_kept_goes_with_the_first_run_without_one(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    for number in range(2):
        (corpus / "a.txt").write_text(prose(number + 70))
        pipeline.run(job(corpus, out))
    upkeep.compact(str(out))
    assert len(list((out / "chunks").rglob("*.parquet"))) > len(table.paths(str(out), "chunks"))

    pipeline.run(job(corpus, out, run={"retention": "0"}))

    for name in ("chunks", "documents"):
        files = [str(path.relative_to(out / name)) for path in (out / name).rglob("*.parquet")]
        assert sorted(files) == table.paths(str(out), name)


def test_files_of_versions_older_than_the_retention_are_deleted(three_nights, corpus):
    for path in three_nights.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 8 * 86_400,) * 2)
    (corpus / "05.txt").write_text(prose(7))

    pipeline.run(job(corpus, three_nights))

    with pytest.raises(RunError, match="retention"):
        table.read(str(three_nights), "chunks", version=0)
    assert texts(three_nights)


def test_the_plan_says_what_a_run_would_do_and_does_nothing(three_nights, corpus, monkeypatch, capsys):
    (corpus / "06.txt").write_text("A change.")
    (corpus / "new.txt").write_text("New.")
    (corpus / "07.txt").unlink()
    versions = [table.version(str(three_nights), name) for name in ("chunks", "documents")]
    arguments = ["plan", str(corpus), str(three_nights), "--no-embed", "--strategy", "auto", "--json"]

    assert command(arguments, monkeypatch) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["added"], found["gone"]) == (1, 1)
    assert found["examples"]["added"] == [str(corpus / "new.txt")]
    assert found["choices"][0]["why"].startswith(("document: ", "recursive: "))
    assert versions == [table.version(str(three_nights), name) for name in ("chunks", "documents")]


def test_runs_are_listed(three_nights, monkeypatch, capsys):
    assert command(["runs", str(three_nights), "--json"], monkeypatch) == 0

    found = json.loads(capsys.readouterr().out)

    assert [r["versions"]["chunks"] for r in found] == [0, 1, 2]
    assert [r["documents"] for r in found] == [12, 1, 0]


def test_all_of_it_on_s3(ray_here, s3, corpus, tmp_path):
    bucket = s3.bucket()
    for path in corpus.iterdir():
        s3.client.upload_file(str(path), bucket, f"in/{path.name}")
    this = job(f"s3://{bucket}/in", f"s3://{bucket}/out", run={"retention": "0"})
    pipeline.run(this)
    s3.client.put_object(Bucket=bucket, Key="in/03.txt", Body=prose(99).encode())
    s3.client.delete_object(Bucket=bucket, Key="in/04.txt")

    summary = pipeline.run(this)

    assert (summary.changed, summary.gone, summary.unchanged) == (1, 1, 10)
    upkeep.compact(this.output)
    assert [r["versions"]["chunks"] for r in runs.records(this.output)][:2] == [0, 1]
    settled(this.output)


@pytest.mark.parametrize(
    "ask",
    [
        report.report,
        upkeep.history,
        upkeep.compact,
        lambda place: search(place, "query"),
        lambda place: changed(place, 0, 1),
        lambda place: upkeep.rollback(place, 0),
    ],
    ids=["report", "runs", "compact", "search", "diff", "rollback"],
)
def test_where_no_dataset_is_every_command_says_how_to_make_one(ask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "connect", lambda *given: pytest.fail("Ray was started for nothing"))

    with pytest.raises(ConfigError, match=rf"no dataset at .*: chunkmill run INPUT '{tmp_path}/no set'$"):
        ask(str(tmp_path / "no set"))
