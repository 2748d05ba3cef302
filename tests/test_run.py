"""The whole job on a real Ray: from files to a published dataset, and again."""

import json
import os
import shutil
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pymupdf
import pytest

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import table
from chunkmill.io.corpus import list_sources
from chunkmill.io.schema import LISTING
from chunkmill.jobs import cli, documents, pipeline
from chunkmill.jobs import plan as planning
from chunkmill.jobs.config import load

WORDS = [
    "lantern",
    "tide",
    "harbour",
    "signal",
    "fog",
    "storm",
    "keeper",
    "oil",
    "wick",
    "glass",
    "tower",
    "rope",
    "boat",
    "chart",
    "bell",
]


def prose(seed: int, sentences: int = 40) -> str:
    rng = np.random.default_rng(seed)
    lines = [" ".join(rng.choice(WORDS, rng.integers(4, 14))).capitalize() + "." for _ in range(sentences)]
    return "\n\n".join(" ".join(lines[i : i + 5]) for i in range(0, sentences, 5))


@pytest.fixture
def corpus(tmp_path):
    """Good, empty and bad files of every kind that ends differently."""
    folder = tmp_path / "corpus"
    (folder / "deep").mkdir(parents=True)
    (folder / "guide.md").write_text("# Guide\n\n## Lamp\n\n" + prose(1) + "\n\n## Horn\n\n" + prose(2))
    (folder / "page.html").write_text("<html><body><h1>Log</h1><p>" + prose(3) + "</p></body></html>")
    (folder / "deep" / "notes.txt").write_text(prose(4))
    (folder / "tool.py").write_text("def light():\n    return 'on'\n")
    (folder / "rows.jsonl").write_text('{"id": "a", "text": "first record"}\n{"id": "b", "text": ""}\nnot json\n')
    (folder / "empty.txt").write_text("  \n")
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    (folder / "damaged.pdf").write_bytes(b"%PDF-1.7\n" + b"\0" * 50)
    pdf = pymupdf.open()
    pdf.new_page().insert_text((72, 72), "The tide turns at noon.")
    pdf.new_page().insert_text((72, 72), "The fog comes at night.")
    pdf.save(folder / "scan.pdf")
    return folder


def job(corpus, output, **settings):
    chunk = {"size": 100, "overlap": 10} | settings.pop("chunk", {})
    return load({"input": str(corpus), "output": str(output), "embed": None, "chunk": chunk} | settings)


def chunks_of(output):
    return table.read(str(output), "chunks").sort_by([("doc_id", "ascending"), ("ordinal", "ascending")]).to_pylist()


def ledger_of(output):
    return {row["uri"]: row for row in table.read(str(output), "documents").to_pylist()}


def test_every_input_is_accounted_for_and_every_chunk_is_a_slice(ray_here, corpus, tmp_path):
    summary = pipeline.run(job(corpus, tmp_path / "out"))

    ledger = ledger_of(tmp_path / "out")
    assert {os.path.relpath(uri, corpus): (r["status"], r["error_kind"]) for uri, r in ledger.items()} == {
        "guide.md": ("ok", None),
        "page.html": ("ok", None),
        "deep/notes.txt": ("ok", None),
        "tool.py": ("ok", None),
        "scan.pdf": ("ok", None),
        "rows.jsonl#a": ("ok", None),
        "rows.jsonl#b": ("empty", None),
        "rows.jsonl#3": ("failed", "corrupt"),
        "empty.txt": ("empty", None),
        "image.png": ("failed", "unsupported"),
        "damaged.pdf": ("failed", "corrupt"),
    }
    assert summary.statuses == Counter({"ok": 6, "empty": 2, "failed:corrupt": 2, "failed:unsupported": 1})
    chunks = chunks_of(tmp_path / "out")
    assert summary.chunks == len(chunks) == sum(r["n_chunks"] for r in ledger.values())
    for c in chunks:
        assert ledger[c["uri"]]["text"][c["start"] : c["end"]] == c["text"]
        assert c["n_tokens"] <= 100
    assert len({c["chunk_id"] for c in chunks}) == len(chunks)
    assert {c["page_start"] for c in chunks if c["uri"].endswith("scan.pdf")} == {1}
    assert ["Guide", "Horn"] in [c["heading_path"] for c in chunks]


def test_a_second_run_does_nothing_and_says_so(ray_here, corpus, tmp_path, capsys, monkeypatch):
    arguments = ["run", str(corpus), str(tmp_path / "out"), "--no-embed", "--size", "100", "--overlap", "10"]
    assert command(arguments, monkeypatch) == 0
    versions = [table.version(str(tmp_path / "out"), name) for name in ("chunks", "documents")]
    capsys.readouterr()

    assert command(arguments, monkeypatch) == 0

    assert "nothing to do: 9 unchanged" in capsys.readouterr().out
    assert [table.version(str(tmp_path / "out"), name) for name in ("chunks", "documents")] == versions


def command(arguments, monkeypatch):
    """The exit code of the command line in this process."""
    monkeypatch.setattr(sys, "argv", ["chunkmill", *arguments])
    with pytest.raises(SystemExit) as done:
        cli.main()
    return done.value.code or 0


def test_a_run_touches_only_what_changed(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    before = {c["chunk_id"]: c for c in chunks_of(out)}
    (corpus / "tool.py").write_text("def light():\n    return 'off'\n")
    (corpus / "deep" / "notes.txt").unlink()
    (corpus / "new.txt").write_text("A new note.")

    summary = pipeline.run(job(corpus, out))

    assert (summary.added, summary.changed, summary.unchanged, summary.gone) == (1, 1, 7, 1)
    after = {c["chunk_id"]: c for c in chunks_of(out)}
    names = {os.path.basename(c["uri"]) for key, c in before.items() if after.get(key) != c}
    assert names == {"tool.py", "notes.txt"}
    assert {os.path.basename(c["uri"]) for key, c in after.items() if key not in before} == {"tool.py", "new.txt"}
    assert "off" in next(c["text"] for c in after.values() if c["uri"].endswith("tool.py"))
    assert not [uri for uri in ledger_of(out) if uri.endswith("notes.txt")]


def test_another_recipe_replaces_every_chunk(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))

    summary = pipeline.run(job(corpus, out, chunk={"strategy": "sentence", "size": 60}))

    assert (summary.changed, summary.unchanged) == (9, 0)
    assert {c["recipe"] for c in chunks_of(out)} == {summary.recipe}


def test_the_same_rows_come_out_whatever_the_batches(ray_here, corpus, tmp_path, monkeypatch):
    pipeline.run(job(corpus, tmp_path / "one"))
    monkeypatch.setattr(pipeline, "BLOCKS_PER_CPU", 1)
    pipeline.run(job(corpus, tmp_path / "two"))

    one, two = (chunks_of(tmp_path / name) for name in ("one", "two"))

    assert [c | {"run_id": ""} for c in one] == [c | {"run_id": ""} for c in two]


def test_vectors_belong_to_their_chunks(ray_here, corpus, tmp_path, offline_model):
    summary = pipeline.run(job(corpus, tmp_path / "out", embed={"dtype": "float32"}, chunk={"context": "headings"}))

    chunks = chunks_of(tmp_path / "out")
    vectors = np.array([c["vector"] for c in chunks], np.float32)
    texts = [f"{c['context']}\n{c['text']}" if c["context"] else c["text"] for c in chunks]
    assert any(c["context"] == "Guide > Lamp" for c in chunks)
    assert summary.chunks == len(chunks) > 10
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    expected = offline_model.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, expected, atol=2e-5)


def test_a_strategy_that_asks_the_model_runs_inside_the_actor(ray_here, corpus, tmp_path, offline_model):
    pipeline.run(job(corpus, tmp_path / "out", embed={}, chunk={"strategy": "semantic", "overlap": 0}))

    ledger = ledger_of(tmp_path / "out")
    chunks = chunks_of(tmp_path / "out")
    assert Counter(r["status"] for r in ledger.values()) == {"ok": 6, "empty": 2, "failed": 3}
    assert all(ledger[c["uri"]]["text"][c["start"] : c["end"]] == c["text"] for c in chunks)
    assert all(len(c["vector"]) == 384 for c in chunks)


def test_search_finds_the_chunk_that_says_it(ray_here, tmp_path, offline_model, monkeypatch, capsys):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "lamp.md").write_text("# Lamp\n\nTrim the wick every evening before sunset.")
    (tmp_path / "corpus" / "soup.md").write_text("# Soup\n\nBoil the potatoes with leek and salt.")
    pipeline.run(job(tmp_path / "corpus", tmp_path / "out", embed={}))

    assert command(["search", str(tmp_path / "out"), "how do I cook?", "-k", "1", "--json"], monkeypatch) == 0

    (hit,) = json.loads(capsys.readouterr().out)
    assert hit["uri"].endswith("soup.md")
    assert hit["heading_path"] == ["Soup"]


def test_input_and_output_on_s3_with_odd_keys(ray_here, s3):
    texts = {
        f"docs/{name}": prose(i).encode() for i, name in enumerate(["a b.txt", "50%.txt", "ü+é.txt", "x/日本.txt", "q?#.txt"])
    }
    bucket = s3.bucket(texts | {"docs/": b"", "docs/sub/": b"", "docs2/other.txt": b"not mine"})
    out = f"s3://{bucket}/out put/data+set"

    summary = pipeline.run(job(f"s3://{bucket}/docs", out))

    assert {row["uri"]: row["text"].encode() for row in ledger_of(out).values()} == {
        f"s3://{bucket}/{key}": body for key, body in texts.items()
    }
    assert summary.statuses == Counter(ok=5)
    assert pipeline.run(job(f"s3://{bucket}/docs", out)).unchanged == 5


def test_a_plain_parquet_reader_sees_the_same_rows(ray_here, corpus, tmp_path):
    pipeline.run(job(corpus, tmp_path / "out"))

    files = ds.dataset(tmp_path / "out" / "chunks", partitioning="hive", exclude_invalid_files=True)

    assert sorted(files.to_table()["chunk_id"].to_pylist()) == sorted(c["chunk_id"] for c in chunks_of(tmp_path / "out"))


def test_a_source_that_vanishes_after_the_listing_is_a_failed_row(corpus, tmp_path):
    this = job(corpus, tmp_path / "out")
    known = {"known": False, "known_hash": None, "ledger": None}
    gone = {"uri": str(corpus / "no.txt"), "etag": "", "size": 1, "modified": None, "error_kind": None, "error": None} | known

    (row,) = documents.one(gone, this, documents.accept)

    assert row.error.kind == "vanished"


def test_a_document_the_model_refuses_fails_alone(ray_here, tmp_path, offline_model):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "long.txt").write_text("word " * 400)
    (tmp_path / "corpus" / "short.txt").write_text("A short text.")
    settings = {"embed": {"overflow": "error"}, "chunk": {"size": 450, "overlap": 0}}

    summary = pipeline.run(job(tmp_path / "corpus", tmp_path / "out", **settings))

    assert summary.statuses == Counter({"ok": 1, "failed:too_large": 1})
    assert [len(c["vector"]) for c in chunks_of(tmp_path / "out")] == [384]


@pytest.mark.parametrize(
    ("retry", "kind", "again"),
    [
        ("transient", "unreadable", True),
        ("transient", "crashed", False),
        ("all", "crashed", True),
        ("never", "unreadable", False),
    ],
)
def test_which_failures_are_tried_again_is_a_setting(ray_here, corpus, tmp_path, monkeypatch, retry, kind, again):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    rows = table.read(str(out), "documents", [*table.SCHEMAS["documents"].names, table.FILE])
    is_it = pc.equal(rows["uri"], str(corpus / "damaged.pdf"))
    kinds = pc.if_else(is_it, kind, rows["error_kind"])
    rows = rows.set_column(rows.column_names.index("error_kind"), "error_kind", kinds)
    monkeypatch.setattr(planning.table, "read", lambda *a, **k: rows.select(a[2]))

    found = planning.plan(job(corpus, out, run={"retry": retry}))

    assert (str(corpus / "damaged.pdf") in found.todo["uri"].to_pylist()) == again
    assert (found.retried, found.changed) == (len(found.todo), 0)


def test_documents_below_a_folder_that_cannot_be_listed_are_kept(ray_here, corpus, tmp_path, monkeypatch):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    listed = pa.concat_tables(list_sources(str(corpus)))
    rest = listed.filter(pc.invert(pc.starts_with(listed["uri"], str(corpus / "deep"))))
    closed = pa.table([[str(corpus / "deep")], [""], [None], [None], ["unreadable"], ["Permission denied"]], schema=LISTING)
    monkeypatch.setattr(planning, "list_sources", lambda *a, **k: [rest, closed])

    assert planning.plan(job(corpus, out)).gone == 0


def test_an_input_that_became_empty_deletes_nothing_unless_told(ray_here, corpus, tmp_path):
    out = tmp_path / "out"
    pipeline.run(job(corpus, out))
    shutil.rmtree(corpus)
    corpus.mkdir()

    with pytest.raises(RunError, match="allow_empty"):
        pipeline.run(job(corpus, out))

    assert pipeline.run(job(corpus, out, run={"allow_empty": True})).gone == 9
    assert chunks_of(out) == []


def test_a_run_in_which_every_document_fails_publishes_nothing(ray_here, corpus, tmp_path):
    with pytest.raises(RunError, match=r"every document failed.*ZeroDivisionError"):
        pipeline.run(job(corpus, tmp_path / "out", include=["*.md"], chunk={"strategy": "test_drive:Boom"}))

    assert table.version(str(tmp_path / "out"), "documents") is None


def test_a_text_nobody_can_see_is_empty(ray_here, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "zero.txt").write_text("\u200b\u200b \n")

    assert pipeline.run(job(tmp_path / "corpus", tmp_path / "out")).statuses == Counter(empty=1)


@pytest.mark.parametrize("kind", ["file", "below a file"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(corpus, tmp_path, kind):
    (tmp_path / "file").write_text("in the way")
    output = tmp_path / "file" if kind == "file" else tmp_path / "file" / "below"

    with pytest.raises(ConfigError, match="can't be written"):
        pipeline.run(job(corpus, output))


def test_a_dataset_over_its_own_input_is_refused(corpus):
    with pytest.raises(ConfigError, match="holds the input"):
        job(corpus, corpus)


def test_one_failing_document_does_not_stop_the_runs_that_follow(ray_here, corpus, tmp_path):
    lose = {"chunk": {"strategy": "test_drive:LoseCode"}, "include": ["*.md", "*.py"]}
    assert pipeline.run(job(corpus, tmp_path / "out", **lose)).statuses == Counter({"ok": 1, "failed:internal": 1})

    again = pipeline.run(job(corpus, tmp_path / "out", **lose))

    assert (again.unchanged, again.statuses) == (1, Counter({"failed:internal": 1}))


def test_a_dataset_inside_the_input_is_no_document(ray_here, corpus, tmp_path):
    pipeline.run(job(corpus, corpus / "out one"))

    assert planning.plan(job(corpus, corpus / "two")).added == 9


def test_modality_keeps_tables_and_pictures_apart(ray_here, tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = "".join(f"<tr><td>n{n}</td><td>value {n}</td></tr>" for n in range(1, 31))
    (folder / "page.html").write_text(
        f"<p>Before.</p><p>Table 1: values</p><table><tr><th>name<th>value</tr>{rows}</table><p>After.</p>"
    )
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((72, 72), "The tide turns at noon, and the boats come home.")
    page.insert_image((72, 100, 172, 200), pixmap=pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 64, 64), 0))
    page.insert_text((72, 220), "Figure 1: the harbour")
    pdf.save(folder / "scan.pdf")
    (folder / "tool.py").write_text("def light():\n    return 'on'\n")

    pipeline.run(job(folder, tmp_path / "out", chunk={"strategy": "modality", "size": 60, "overlap": 0}))

    chunks = chunks_of(tmp_path / "out")
    tables = [c for c in chunks if c["kind"] == "table"]
    assert [n for c in tables for n in range(max(1, c["row_start"]), c["row_end"] + 1)] == [*range(1, 31)]
    for c in tables:
        forms = dict(c["forms"])
        assert forms["csv"].startswith("name,value\n")
        assert forms["caption"] == "Table 1: values"
    assert {c["forms"] for c in chunks if c["kind"] == "text"} == {None}
    (image,) = table.read(str(tmp_path / "out"), "images").to_pylist()
    assert image["png"].startswith(b"\x89PNG")
    assert (image["page"], image["caption"]) == (1, "Figure 1: the harbour")
    assert [round(x) for x in image["box"]] == [72, 100, 172, 200]
    assert [(c["line_start"], c["line_end"]) for c in chunks if c["uri"].endswith("tool.py")] == [(1, 2)]
