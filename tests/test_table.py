from __future__ import annotations

import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import parquet as files
from chunkmill.io import table as tables
from chunkmill.io.parquet import Conflict, without, write
from chunkmill.io.schema import CHUNKS, DOCUMENTS
from chunkmill.io.storage import access, client, filesystem, locate, new_file, storage_options
from chunkmill.io.table import batches, commit, paths, read, sweep, version

FORMATS = ["pdf", "c++", "ü ñ", "100%", "a=b/c", "a%20b", "."]
DIM = 4


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A dataset's folder that doesn't exist yet, with a name that needs care."""
    name = "the data+set #1 50% é?"
    if request.param == "local":
        return str(tmp_path / name)
    return f"s3://{request.getfixturevalue('s3').bucket()}/{name}"


@pytest.fixture(params=["local", "s3"])
def plain_root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "dataset")
    return f"s3://{request.getfixturevalue('s3').bucket()}/dataset"


def chunks(*doc_ids: str, format: str = "pdf", text: str = "a chunk") -> pa.Table:
    """One row per document."""
    values = {
        "chunk_id": [f"{doc}-{format}" for doc in doc_ids],
        "doc_id": list(doc_ids),
        "text": [f"{text} of {doc}" for doc in doc_ids],
        "heading_path": [["A", "B"]] * len(doc_ids),
        "metadata": [[("title", doc)] for doc in doc_ids],
        "vector": [[0.5] * DIM] * len(doc_ids),
        "format": [format] * len(doc_ids),
    }
    rows = len(doc_ids)
    return pa.Table.from_arrays(
        [pa.array(values[f.name], f.type) if f.name in values else pa.nulls(rows, f.type) for f in CHUNKS], schema=CHUNKS
    )


def put(root: str, *data: pa.Table, remove: list[str] | None = None) -> int:
    """Write and commit on top of what is there."""
    add = [file for part in data for file in write(root, "chunks", part, run_id="run")]
    options = {"remove": remove or [], "expected": version(root, "chunks"), "run_id": "run", "info": {}}
    return commit(root, "chunks", add=add, **options)


def ids(root: str, **options: object) -> list[str]:
    return sorted(read(root, "chunks", ["doc_id"], **options)["doc_id"].to_pylist())


def open_delta(root: str) -> DeltaTable:
    place = locate(root).child("chunks")
    return DeltaTable(tables.delta_uri(place), storage_options=storage_options(place))


def on_disk(root: str) -> list[str]:
    return sorted(path for path, _ in tables._ages(locate(root).child("chunks")) if "_delta_log" not in path)


def parquet(root: str, path: str) -> pq.ParquetFile:
    system, name = filesystem(locate(root).child("chunks").child(path))
    return pq.ParquetFile(name, filesystem=system)


def size(root: str, path: str) -> int:
    system, name = filesystem(locate(root).child("chunks").child(path))
    return int(system.get_file_info(name).size)


def test_there_is_no_table_before_the_first_commit(root: str) -> None:
    write(root, "chunks", chunks("a"), run_id="run")

    assert version(root, "chunks") is None
    assert paths(root, "chunks") == []
    assert read(root, "chunks") == CHUNKS.empty_table()
    assert read(root, "chunks", ["text", "doc_id"]).schema.names == ["text", "doc_id"]
    assert list(batches(root, "chunks")) == []


def test_the_first_commit_may_be_empty(root: str) -> None:
    assert put(root) == 0
    assert version(root, "chunks") == 0
    assert read(root, "chunks") == CHUNKS.empty_table()
    assert put(root, chunks("a")) == 1


def test_rows_come_back_exactly_with_their_declared_types(root: str) -> None:
    data = pa.concat_tables(chunks(f"doc {name}", format=name) for name in FORMATS)

    assert put(root, data) == 0

    found = read(root, "chunks").sort_by("doc_id")
    assert found.schema == CHUNKS
    assert found.to_pylist() == data.sort_by("doc_id").to_pylist()


def test_documents_with_blocks_come_back_exactly(root: str) -> None:
    block = {"kind": "table", "start": 0, "end": 9, "level": 0, "page": 1, "title": "", "parts": [{"start": 0, "end": 4}]}
    row = {"doc_id": "a", "uri": "/x y", "status": "ok", "text": "a\0é\n", "blocks": [block], "metadata": [("k", "v")]}
    row |= {"size": 1 << 40, "modified": pa.scalar(1_700_000_000_123_456, DOCUMENTS.field("modified").type).as_py()}
    data = pa.Table.from_pylist([row], schema=DOCUMENTS)

    added = write(root, "documents", data, run_id="run")
    commit(root, "documents", add=added, remove=[], expected=None, run_id="run", info={})

    assert read(root, "documents") == data
    assert "/" not in added[0].path


def test_a_written_file_is_named_by_its_partition_and_its_attempt(root: str) -> None:
    data = chunks("a", "b", format="c++")

    [one], [two] = (write(root, "chunks", data, run_id="run") for _ in range(2))

    assert one.path != two.path
    assert one.path.startswith("format=c%2B%2B/run-")
    assert (one.table, one.rows, one.partition) == ("chunks", 2, {"format": "c++"})
    assert one.size == size(root, one.path)
    assert tables.Written(*json.loads(json.dumps(one))) == pickle.loads(pickle.dumps(one)) == one
    assert "format" not in parquet(root, one.path).schema_arrow.names


def test_write_casts_to_the_declared_schema_and_refuses_other_columns(tmp_path: Path) -> None:
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(DIM * 2, np.float32)), DIM)
    data = chunks("a", "b")
    data = data.set_column(CHUNKS.get_field_index("vector"), "vector", fixed)
    data = data.select(list(reversed(CHUNKS.names)))

    put(str(tmp_path), data)

    assert read(str(tmp_path), "chunks")["vector"].to_pylist() == [[1.0] * DIM] * 2
    with pytest.raises(ValueError, match="extra"):
        write(str(tmp_path), "chunks", data.append_column("extra", data["text"]), run_id="run")
    with pytest.raises(ValueError, match="vector"):
        write(str(tmp_path), "chunks", data.drop_columns("vector"), run_id="run")
    with pytest.raises(ValueError, match="format"):
        write(str(tmp_path), "chunks", chunks("a", format=""), run_id="run")
    assert write(str(tmp_path), "chunks", CHUNKS.empty_table(), run_id="run") == []


def test_row_groups_are_cut_by_bytes_and_text_has_no_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_BYTES", 10_000)
    texts = [chunks(f"{i:03}", text="x" * (100 if i else 50_000)) for i in range(200)]

    [written] = write(str(tmp_path), "chunks", pa.concat_tables(texts), run_id="run")

    meta = parquet(str(tmp_path), written.path).metadata
    rows = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    assert rows[0] == 1
    assert sum(rows) == 200
    assert all(10 < n < 80 for n in rows[-4:])
    group = meta.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert {c.path_in_schema for c in columns if c.is_stats_set} >= {"doc_id", "ordinal"}
    assert not any(c.is_stats_set for c in columns if c.path_in_schema.partition(".")[0] in ("text", "vector", "metadata"))
    assert {c.compression for c in columns} == {"ZSTD"}


def test_every_common_reader_sees_the_table(plain_root: str) -> None:
    for name in ["pdf", "c++", "ü ñ"]:
        put(plain_root, chunks("a", "b", format=name))
    expected = sorted((f"{doc}-{name}", name, [0.5] * DIM) for doc in "ab" for name in ["pdf", "c++", "ü ñ"])
    wanted = ["chunk_id", "format", "vector"]
    place = locate(plain_root).child("chunks")
    system, path = filesystem(place)

    delta = open_delta(plain_root).to_pyarrow_table(columns=wanted)
    polars = pl.read_delta(tables.delta_uri(place), storage_options=storage_options(place)).select(wanted)
    glob = ds.dataset(path, filesystem=system, partitioning="hive").to_table(columns=wanted)

    for found in (delta.to_pylist(), polars.to_dicts(), glob.to_pylist()):
        assert expected == sorted((row["chunk_id"], row["format"], row["vector"]) for row in found)


def test_delta_sees_a_table_with_odd_names(root: str) -> None:
    put(root, *(chunks("a", format=name) for name in FORMATS))

    delta = open_delta(root)

    assert sorted(delta.to_pyarrow_table()["format"].to_pylist()) == sorted(FORMATS)
    assert sum(pa.table(delta.get_add_actions(flatten=True))["num_records"].to_pylist()) == len(FORMATS)
    assert paths(root, "chunks") == on_disk(root)


def test_read_selects_columns_rows_and_versions(root: str) -> None:
    put(root, chunks("a", "b"))
    put(root, chunks("c", format="txt"))

    assert ids(root) == ["a", "b", "c"]
    assert ids(root, version=0) == ["a", "b"]
    assert ids(root, filter=pc.field("format") == "txt") == ["c"]
    assert ids(root, filter=pc.field("doc_id").isin(["a", "c"])) == ["a", "c"]
    assert read(root, "chunks", ["format", "doc_id"]).schema.names == ["format", "doc_id"]
    stream = batches(root, "chunks", ["doc_id"], pc.field("doc_id") != "b")
    assert sorted(pa.Table.from_batches(stream)["doc_id"].to_pylist()) == ["a", "c"]
    with pytest.raises(RunError, match="version 7"):
        read(root, "chunks", version=7)


def test_a_commit_adds_and_removes_in_one_step(root: str) -> None:
    put(root, chunks("old"), chunks("kept"))
    [old] = [path for path in paths(root, "chunks") if parquet(root, path).read(["doc_id"])["doc_id"][0].as_py() == "old"]

    assert put(root, chunks("new", format="c++"), remove=[old]) == 1

    assert ids(root) == ["kept", "new"]
    assert ids(root, version=0) == ["kept", "old"]


def test_a_commit_carries_who_made_it(root: str) -> None:
    commit(root, "chunks", add=[], remove=[], expected=None, run_id="night-1", info={"recipe": "é"})
    commit(root, "chunks", add=[], remove=[], expected=0, run_id="night-2", info={"recipe": "b"})

    for number, run_id, recipe in [(0, "night-1", "é"), (1, "night-2", "b")]:
        entry = tables._log_entry(locate(root).child("chunks"), number)
        [made] = [json.loads(line)["commitInfo"] for line in entry.splitlines() if "commitInfo" in line]
        assert (made["run_id"], made["recipe"]) == (run_id, recipe)
    assert open_delta(root).transaction_version("chunkmill") == 1


def test_a_commit_on_an_older_version_is_a_conflict_and_changes_nothing(root: str) -> None:
    put(root, chunks("a"))
    put(root, chunks("b"))
    late = write(root, "chunks", chunks("late"), run_id="late")

    for expected in (None, 0, 5):
        with pytest.raises(Conflict, match="plan again"):
            commit(root, "chunks", add=late, remove=[], expected=expected, run_id="late", info={})
    with pytest.raises(Conflict):
        commit(root + "2", "chunks", add=[], remove=[], expected=0, run_id="late", info={})

    assert ids(root) == ["a", "b"]
    assert version(root, "chunks") == 1


@pytest.mark.parametrize("expected", [None, 0])
def test_of_writers_that_commit_at_once_exactly_one_wins(
    root: str, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if expected == 0:
        put(root, chunks("first"))
    ready, results, real = threading.Barrier(3), [], tables._transact

    def together(*args: object) -> None:
        ready.wait(20)
        real(*args)  # type: ignore[arg-type]  # as it came

    def writer(name: str) -> None:
        add = write(root, "chunks", chunks(name), run_id=name)
        try:
            results.append(commit(root, "chunks", add=add, remove=[], expected=expected, run_id=name, info={}))
        except Conflict as error:
            results.append(error)

    monkeypatch.setattr(tables, "_transact", together)
    threads = [threading.Thread(target=writer, args=(f"writer-{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [0 if expected is None else 1] == [result for result in results if isinstance(result, int)]
    assert sum(isinstance(result, Conflict) for result in results) == 2
    assert len(ids(root)) == (1 if expected is None else 2)


def test_a_commit_whose_answer_got_lost_is_not_taken_for_a_conflict(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tables._transact

    def lost(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]  # as it came
        raise OSError("connection reset")

    monkeypatch.setattr(tables, "_transact", lost)

    assert put(root, chunks("a")) == 0
    assert put(root, chunks("b")) == 1
    assert ids(root) == ["a", "b"]


def test_a_commit_that_fails_leaves_the_table_as_it_was(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, chunks("a"))

    def fails(*_: object) -> None:
        raise OSError("disk full")

    with pytest.raises(RunError, match="not in the table"):
        put(root, chunks("b"), remove=["format=pdf/none.parquet"])
    monkeypatch.setattr(tables, "_transact", fails)
    with pytest.raises(RunError, match="disk full"):
        put(root, chunks("b"))

    assert ids(root) == ["a"]


def test_without_drops_the_rows_of_documents_and_no_others(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_BYTES", 2_000)
    data = pa.concat_tables([chunks(f"{i:03}", format="c++", text="x" * 200) for i in range(50)])
    put(root, data)
    [path] = paths(root, "chunks")
    gone = pa.array(["007", "030", "elsewhere"])

    rewrite = without(root, "chunks", path, gone, run_id="next")

    assert rewrite is not None
    assert rewrite.added is not None
    assert (rewrite.removed, rewrite.rows_dropped, rewrite.added.rows) == (path, 2, 48)
    assert rewrite.added.partition == {"format": "c++"}
    assert len(ids(root)) == 50
    options = {"expected": 0, "run_id": "next", "info": {}}
    commit(root, "chunks", add=[rewrite.added], remove=[rewrite.removed], **options)
    left = data.filter(pc.invert(pc.is_in(data["doc_id"], value_set=gone)))
    assert read(root, "chunks") == left.combine_chunks()
    assert parquet(root, rewrite.added.path).num_row_groups > 1


def test_without_says_when_nothing_is_to_drop_and_when_nothing_is_left(root: str) -> None:
    put(root, chunks("a", "b"))
    [path] = paths(root, "chunks")

    assert without(root, "chunks", path, pa.array(["c"]), run_id="next") is None
    assert without(root, "chunks", path, pa.array([], pa.string()), run_id="next") is None
    assert without(root, "chunks", path, pa.array(["a", "b", "c"]), run_id="next") == (path, None, 2)
    assert on_disk(root) == [path]
    with pytest.raises(RunError, match="none"):
        without(root, "chunks", "format=pdf/none.parquet", pa.array(["a"]), run_id="next")


def test_a_sweep_without_age_leaves_just_the_table_for_a_glob(plain_root: str) -> None:
    put(plain_root, chunks("a", format="c++"))
    put(plain_root, chunks("b", format="c++"), remove=paths(plain_root, "chunks"))
    write(plain_root, "chunks", chunks("orphan"), run_id="dead")
    system, path = filesystem(locate(plain_root).child("chunks"))

    swept = sweep(plain_root, "chunks", age_s=0)

    assert len(swept) == 2
    assert on_disk(plain_root) == paths(plain_root, "chunks")
    assert ds.dataset(path, filesystem=system, partitioning="hive").to_table()["doc_id"].to_pylist() == ["b"]
    assert ids(plain_root) == ["b"]
    with pytest.raises(RunError, match="retention"):
        ids(plain_root, version=0)


def test_a_bucket_that_is_not_there_is_said_to_be_missing(s3: Any) -> None:
    with pytest.raises(ConfigError, match="there is no bucket 'nowhere'"):
        read("s3://nowhere/out", "documents")


def test_a_sweep_leaves_what_a_run_without_an_end_wrote_as_long_as_it_may_be_at_work(tmp_path: Path) -> None:
    root = str(tmp_path)
    put(root, chunks("a"))
    [mine], [done] = (write(root, "chunks", chunks("x"), run_id=run_id) for run_id in ("alive", "done"))
    for run_id in ("alive", "done"):
        left = Path(root, "chunks", f"format=pdf/.{'0' * 32}.{run_id}-{'1' * 32}.parquet.tmp")
        left.write_bytes(b"half")

    swept = sweep(root, "chunks", age_s=0, ended={"done"}, orphaned_s=60)

    assert swept == sorted([done.path, f"format=pdf/.{'0' * 32}.done-{'1' * 32}.parquet.tmp"])
    assert mine.path in on_disk(root)


def test_a_sweep_keeps_what_is_young_or_was_read_lately(tmp_path: Path) -> None:
    root, hour = str(tmp_path), 3600
    for name in "abc":
        put(root, chunks(name), remove=paths(root, "chunks"))
    write(root, "chunks", chunks("orphan"), run_id="dead")
    write(root, "chunks", chunks("running"), run_id="alive")
    log = tmp_path / "chunks/_delta_log"

    def age(path: Path, hours: float) -> None:
        os.utime(path, (then := time.time() - hours * hour, then))

    for number, hours in enumerate([30, 20, 1]):
        age(log / f"{number:020}.json", hours)
    for path in tmp_path.glob("chunks/format=pdf/*"):
        age(path, 0 if path.name.startswith("alive") else 40)
    [dead] = (str(path.relative_to(tmp_path / "chunks")) for path in tmp_path.glob("chunks/format=pdf/dead*"))

    swept = sweep(root, "chunks", age_s=10 * hour)

    assert dead in swept
    assert len(swept) == 2  # and version 0, replaced 20 hours ago; version 1 was read until an hour ago
    assert (ids(root, version=1), ids(root)) == (["b"], ["c"])
    assert any("alive" in path for path in on_disk(root))


def test_a_sweep_touches_only_files_of_ours(root: str) -> None:
    put(root, chunks("a"))
    folder = locate(root).child("chunks")
    for name in ["README.md", "format=pdf/theirs.parquet", "_delta_log/note.parquet"]:
        with new_file(folder.child(name)) as path:
            Path(path).write_bytes(b"x")

    assert sweep(root, "chunks", age_s=0) == []
    assert {"README.md", "format=pdf/theirs.parquet"} < set(on_disk(root))


def test_a_sweep_of_named_files_spares_the_others_and_those_that_count(root: str) -> None:
    put(root, chunks("a"))
    [one], [two] = (write(root, "chunks", chunks("x"), run_id="run") for _ in range(2))

    swept = sweep(root, "chunks", age_s=3600, only=[one.path, *paths(root, "chunks"), "format=pdf/none.parquet"])

    assert swept == sorted([one.path, "format=pdf/none.parquet"])
    assert on_disk(root) == sorted([two.path, *paths(root, "chunks")])


def test_a_file_whose_writing_fails_is_never_seen(root: str) -> None:
    place = locate(root).child("chunks").child("format=pdf/x.parquet")

    def interrupted() -> None:
        with new_file(place) as path:
            Path(path).write_bytes(b"half")
            assert not any(name.endswith(".parquet") for name in on_disk(root))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert on_disk(root) == []


def test_a_dataset_may_be_a_whole_bucket(s3) -> None:
    bucket = s3.bucket()

    for root in (f"s3://{bucket}", f"s3://{bucket}/"):
        put(root, chunks("a"))

    assert all(key.startswith("chunks/") for key in s3.keys(bucket))
    assert len(ids(f"s3://{bucket}")) == 2


def test_an_output_that_cannot_be_opened_is_named(s3) -> None:
    with pytest.raises(ConfigError, match="there is no bucket 'no-such-bucket' at"):
        version("s3://no-such-bucket/x", "chunks")
    with pytest.raises(RunError, match="no-such-bucket"):
        write("s3://no-such-bucket/x", "chunks", chunks("a"), run_id="run")
    with pytest.raises(ConfigError, match="'%20'"):
        version("/data/a%20b", "chunks")


def test_the_other_libraries_are_told_what_boto3_found_out(s3, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.client.create_bucket(Bucket="elsewhere", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    expected = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_SESSION_TOKEN": "token"}
    expected |= {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true"}

    assert storage_options(locate("s3://elsewhere/x")) == expected
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint + "/")
    assert put("s3://elsewhere/x", chunks("a")) == 0
    assert ids("s3://elsewhere/x") == ["a"]


def test_amazons_own_endpoint_is_left_to_each_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr("chunkmill.io.storage._region", lambda *_: "eu-west-1")

    assert access("bucket") == ("x", "x", "", "eu-west-1", "")
    assert client().meta.region_name == "eu-west-1"


def test_a_table_of_an_earlier_version_gets_the_new_columns_and_its_files_stay_readable(tmp_path, monkeypatch):
    root, later = str(tmp_path), {"row_start", "spans", "forms", "embedder", "overflow"}
    at = CHUNKS.get_field_index("overflow")
    with monkeypatch.context() as before:
        before.setitem(tables.SCHEMAS, "chunks", pa.schema([f for f in CHUNKS if f.name not in later]))
        old = [f for doc in "ab" for f in write(root, "chunks", chunks(doc).drop_columns(list(later)), run_id="r1")]
        commit(root, "chunks", add=old, remove=[], expected=None, run_id="r1", info={})

    assert set(tables.evolve(root, "chunks")) == later
    assert tables.evolve(root, "chunks") == []
    rest = without(root, "chunks", old[0].path, pa.array(["a"]), run_id="r2")
    fresh = write(root, "chunks", chunks("c").set_column(at, CHUNKS.field(at), pa.array(["pooled"])), run_id="r2")
    commit(root, "chunks", add=fresh, remove=[rest.removed], expected=1, run_id="r2", info={})

    by_doc = {"b": None, "c": "pooled"}
    assert dict(zip(*read(root, "chunks", ["doc_id", "overflow"]).to_pydict().values(), strict=True)) == by_doc
    assert dict(pl.read_delta(str(tmp_path / "chunks")).select("doc_id", "overflow").iter_rows()) == by_doc
    assert files.counted(root, "chunks", old[1].path, ["doc_id", "overflow", "format"]).num_rows == 1
    assert files.merge(root, tables.active(root, "chunks"), run_id="r3").rows == 2


def test_columns_that_cannot_be_added_are_named_with_the_way_out(tmp_path, monkeypatch):
    root = str(tmp_path)
    with monkeypatch.context() as before:
        before.setitem(tables.SCHEMAS, "chunks", pa.schema([f for f in CHUNKS if f.name != "overflow"]))
        old = write(root, "chunks", chunks("a").drop_columns(["overflow"]), run_id="r1")
        commit(root, "chunks", add=old, remove=[], expected=None, run_id="r1", info={})

    def refused(*_: object) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(tables.DeltaTable, "alter", property(lambda _: type("Alter", (), {"add_columns": refused})()))
    with pytest.raises(RunError, match=r"lacks the columns overflow.*read-only.*another output"):
        tables.evolve(root, "chunks")


def test_two_runs_that_write_the_same_file_at_once_both_end(tmp_path: Path) -> None:
    place = locate(str(tmp_path / "same.json"))

    with new_file(place) as first:
        Path(first).write_text("first")
        with new_file(place) as second:
            Path(second).write_text("second")

    assert (tmp_path / "same.json").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["same.json"]
