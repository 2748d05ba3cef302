"""`topic` over a whole corpus, by LDA or k-means: learnt once, kept with the dataset, part of the recipe."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.base import Document, Embed
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.lda import Topics, learnt
from chunkmill.chunkers.strategies import strategy
from chunkmill.chunkers.topic import Centres, Fitted, Topic, clustered
from chunkmill.io import recipes, table
from chunkmill.jobs import pipeline, topics
from chunkmill.jobs.config import load
from chunkmill.jobs.plan import plan
from test_promises import check_promises
from test_semantic_strategies import BAG, TOPICS, sentence

if importlib.util.find_spec("sklearn") is None:
    pytest.skip('scikit-learn isn\'t installed: pip install "chunkmill[embed]"', allow_module_level=True)

SETTINGS = {"strategy": "topic", "method": "lda", "fit": "corpus", "topics": 3, "size": 200, "unit": "words", "overlap": 0}
ABOUT = ("sea", "bread", "stars")


def passage(draw: random.Random, topic: str, n: int = 9) -> str:
    return " ".join(sentence(draw, topic) for _ in range(n))


def made(seed: int = 0) -> Topics:
    draw = random.Random(seed)
    return learnt([passage(draw, topic) for topic in ABOUT for _ in range(30)], 3, 0)


def told(found: Topics) -> dict[str, str]:
    """Of each subject the name of the topic that suits a passage about it."""
    texts = [passage(random.Random(9), topic) for topic in ABOUT]
    return {about: found.names[int(found.costs([text]).argmin())] for about, text in zip(ABOUT, texts, strict=True)}


def test_what_is_learnt_from_passages_tells_texts_apart_the_same_each_time() -> None:
    first, second = made(), made()

    assert len(set(told(first).values())) == 3
    assert (first.id, told(first)) == (second.id, told(second))
    assert made(1).id != first.id
    assert all(name.startswith(f"topic {i}: ") for i, name in enumerate(first.names, 1))
    shares = np.exp(-first.costs([passage(random.Random(3), "sea")] * 3 + ["Nothing known here."] * 3))
    assert shares.sum(axis=1) == pytest.approx(np.ones(6), abs=1e-6)
    assert shares[0].max() > 0.9
    assert shares[5] == pytest.approx([1 / 3] * 3), "no word of the corpus"


def test_a_corpus_without_words_has_one_topic_and_says_so() -> None:
    empty = learnt(["1 2 3", "4 5 6"], None, 0)

    (chunks,) = chunk_all([Document("d", "", "One. Two. Three.")], chunking(Fitted(Topic("lda", "corpus"), empty)), {})

    assert [c.heading_path for c in chunks] == [("topic 1",)]


@pytest.mark.parametrize("gather", [False, True])
def test_topics_have_the_same_name_in_all_documents(gather: bool) -> None:
    cut = chunking(Fitted(Topic("lda", "corpus", gather=gather), found := made()), size=300, unit="words")
    draw = random.Random(7)
    texts = [" ".join(passage(draw, t) for t in order) for order in (("sea", "bread", "sea"), ("stars", "bread"))]
    docs = [Document(str(i), "", text) for i, text in enumerate([*texts, "", "Harbour and tide."])]

    outcomes = chunk_all(docs, cut, {})

    names = told(found)
    assert [[c.heading_path[-1] for c in chunks] for chunks in outcomes] == [
        [names["sea"], names["bread"], *([] if gather else [names["sea"]])],
        [names["stars"], names["bread"]],
        [],
        [names["sea"]],
    ]
    for doc, chunks in zip(docs, outcomes, strict=True):
        check_promises(doc, chunks, cut, disjoint=True)


def test_what_is_kept_is_what_was_learnt(tmp_path: Path) -> None:
    this = Topic("lda", "corpus", topics=3)
    assert topics.kept(str(tmp_path), this) is None

    topics.keep(str(tmp_path), this, found := made())

    again = topics.kept(str(tmp_path), this)
    assert again is not None
    assert (again.id, again.words) == (found.id, found.words)
    assert np.array_equal(again.weights, found.weights)
    assert topics.kept(str(tmp_path), Topic("lda", "corpus", topics=3, seed=1)) is None
    assert topics.kept(str(tmp_path), Topic("lda", "corpus", topics=3, switch=1.0, gather=False)) is not None
    topics.keep(str(tmp_path), this, learnt([], None, 0))
    assert topics.kept(str(tmp_path), this).weights.shape == (1, 0)


def centres(seed: int = 0, start: int = 0) -> Centres:
    draw = random.Random(seed)
    texts = [sentence(draw, topic) for _ in range(60) for topic in ABOUT]
    return clustered(texts, BAG[Embed](texts), 3, start)


def test_clusters_of_a_corpus_have_the_words_that_tell_them_apart() -> None:
    found = centres()

    subjects = [{about for about in ABOUT for word in TOPICS[about] if word in name} for name in found.names]
    assert subjects == [{"sea"}, {"bread"}, {"stars"}], "in the order in which they come"
    vectors = BAG[Embed]([sentence(random.Random(9), about) for about in ABOUT])
    assert [centres(0, start).costs(vectors).argmin(axis=1).tolist() for start in range(5)] == [[0, 1, 2]] * 5
    assert found.id != centres(1).id
    assert [name.partition(":")[0] for name in found.names] == ["topic 1", "topic 2", "topic 3"]
    assert len(clustered(["A b c."] * 900, np.ones((900, 4), np.float32), None, 0).names) == 1
    assert clustered([], np.empty((0, 4), np.float32), None, 0).names == ("topic 1",)


@pytest.mark.parametrize("gather", [False, True])
def test_clusters_of_a_corpus_have_the_same_name_in_all_documents(gather: bool) -> None:
    cut = chunking(Fitted(Topic("kmeans", "corpus", gather=gather), found := centres()), size=300, unit="words")
    draw = random.Random(7)
    texts = [" ".join(passage(draw, t) for t in order) for order in (("stars", "sea", "stars"), ("bread",))]
    docs = [Document(str(i), "", text) for i, text in enumerate([*texts, "", "Harbour and tide."])]

    outcomes = chunk_all(docs, cut, BAG)

    sea, bread, stars = found.names
    assert [[c.heading_path[-1] for c in chunks] for chunks in outcomes] == [
        [stars, sea] if gather else [stars, sea, stars],
        [bread],
        [],
        [sea],
    ]
    for doc, chunks in zip(docs, outcomes, strict=True):
        check_promises(doc, chunks, cut, disjoint=True)


def test_clusters_are_kept_with_what_made_their_vectors(tmp_path: Path) -> None:
    this = Topic("kmeans", "corpus", topics=3)

    topics.keep(str(tmp_path), this, found := centres(), "one model")

    again = topics.kept(str(tmp_path), this, "one model")
    assert isinstance(again, Centres)
    assert (again.id, again.names) == (found.id, found.names)
    assert topics.kept(str(tmp_path), this, "another") is None
    assert topics.kept(str(tmp_path), Topic("lda", "corpus", topics=3), "one model") is None


def test_a_run_learns_clusters_once_and_a_night_takes_them(ray_here: None, tmp_path: Path, offline_model: Any) -> None:
    folder = corpus(tmp_path / "in")
    given = {"strategy": "topic", "fit": "corpus", "topics": 3, "size": 200, "overlap": 0}
    job = load({"input": str(folder), "output": str(tmp_path / "out"), "chunk": given})

    first = pipeline.run(job.anew())
    rows = table.read(job.output, "chunks").to_pylist()
    kept = topics.kept(job.output, Topic("kmeans", "corpus", topics=3), job.embedder)
    (folder / "03.txt").write_text(" ".join(passage(random.Random(5), "stars") for _ in range(3)))
    night = pipeline.run(load({"input": str(folder), "output": str(tmp_path / "out"), "chunk": given}))

    assert isinstance(kept, Centres)
    vectors = offline_model.encode([passage(random.Random(9), about) for about in ABOUT], normalize_embeddings=True)
    subjects = kept.costs(vectors).argmin(axis=1).tolist()
    assert sorted(subjects) == [0, 1, 2], "each subject is a topic of the corpus"
    for row in rows:
        number = int(row["uri"].rsplit("/")[-1][:2])
        assert row["heading_path"][-1] in {kept.names[subjects[(number + k) % 3]] for k in (0, 1)}
    assert (first.added, {row["heading_path"][-1] for row in rows}) == (30, set(kept.names))
    assert (night.changed, night.unchanged, night.recipe) == (1, 29, first.recipe)
    assert recipes.load(job.output, first.recipe)["topics"] == kept.id


def corpus(folder: Path) -> Path:
    """Thirty documents about two subjects each, in a folder."""
    draw = random.Random(4)
    folder.mkdir()
    for i in range(30):
        order = [ABOUT[i % 3], ABOUT[(i + 1) % 3]]
        (folder / f"{i:02}.txt").write_text(" ".join(passage(draw, t) for t in order))
    return folder


def job_over(folder: Path, output: Path, **more: Any) -> Any:
    return load({"input": str(folder), "output": str(output), "embed": None, "chunk": SETTINGS | more})


def learnt_by(job: Any) -> Topics:
    """The topics that a run of the job has kept."""
    found = topics.kept(job.output, strategy("topic", job.chunk.options))
    assert isinstance(found, Topics)
    return found


def test_a_run_learns_once_and_a_night_takes_what_is_kept(
    ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "SHARE", 1)  # so that no task sees two subjects that the corpus has besides
    folder, draw = corpus(tmp_path / "in"), random.Random(5)

    def job(**more: Any) -> Any:
        return job_over(folder, tmp_path / "out", **more)

    first = pipeline.run(job())
    (file,) = (tmp_path / "out" / "_models").iterdir()
    before, rows = file.read_bytes(), table.read(str(tmp_path / "out"), "chunks").to_pylist()
    (folder / "03.txt").write_text(" ".join(passage(draw, "stars") for _ in range(3)))
    night = pipeline.run(job())

    paths = {row["heading_path"][-1] for row in rows}
    assert (first.added, first.chunks, len(paths)) == (30, 60, 3)
    assert set(told(learnt_by(job())).values()) == paths, "each subject is a topic of the corpus"
    assert (night.changed, night.unchanged, night.recipe) == (1, 29, first.recipe)
    assert file.read_bytes() == before
    changed = [r for r in table.read(str(tmp_path / "out"), "chunks").to_pylist() if r["uri"].endswith("03.txt")]
    assert len({r["heading_path"][-1] for r in changed} - paths) == 0
    described = recipes.load(str(tmp_path / "out"), first.recipe)
    assert described["topics"] == learnt_by(job()).id
    assert job(gather=True).chunking.strategy.topics.id == described["topics"], "how they are used is another matter"
    other = pipeline.run(job(seed=1))
    assert (other.changed, other.recipe != first.recipe) == (30, True)
    assert len([*(tmp_path / "out" / "_models").iterdir()]) == 2


def test_the_seed_and_the_corpus_decide_what_is_learnt(ray_here: None, tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")

    def found(output: str, **more: Any) -> Topics:
        return learnt_by(topics.ready(job_over(folder, tmp_path / output, **more)))

    first, again, reseeded = found("a"), found("b"), found("a", seed=1)
    for i in range(30, 40):
        (folder / f"{i}.txt").write_text(passage(random.Random(i), "law"))
    grown = found("c")

    assert first.id == again.id
    assert reseeded.id != first.id
    assert reseeded.words == first.words, "of the same passages"
    assert "court" in grown.words
    assert "court" not in first.words
    assert found("a").id == first.id, "and what is kept is not learnt again"


def test_passages_are_drawn_from_the_whole_corpus_by_the_seed(
    ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for i in range(20):
        (tmp_path / "in" / f"{i:02}.txt").write_text(f"Document {i:02} is here.")
    monkeypatch.setattr(topics, "SHARE", 3)
    this = job_over(tmp_path / "in", tmp_path / "out")

    def drawn(seed: int) -> list[int]:
        return [int(p[9:11]) for p in topics.sample(this, Topic("lda", "corpus", topics=3, seed=seed))]

    everything = drawn(0)
    monkeypatch.setattr(topics, "SOURCES", 8)
    of_some = [drawn(seed) for seed in (0, 0, 1)]
    monkeypatch.setattr(topics, "OF_CORPUS", 5)

    assert everything == list(range(20))
    assert of_some[0] == of_some[1] != of_some[2]
    assert [len(set(several)) for several in of_some] == [8, 8, 8]
    assert max(max(several) for several in of_some) > 14, "not the first ones"
    assert len(few := drawn(0)) == 5
    assert set(few) < set(of_some[0])


def test_passages_come_from_all_sources_and_not_too_many_from_one(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(" ".join(f"Sentence number {i} is long." for i in range(9 * 500)))
    (tmp_path / "many.jsonl").write_text("".join(json.dumps({"text": f"Row {i}."}) + "\n" for i in range(100)))
    (tmp_path / "short.md").write_text("# Title\n\nOne sentence alone.")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    more = {"embed": None, "run": {"isolate": False, "part_size_mb": 0.001}}
    job = topics.read_only(load({"input": str(tmp_path), "output": str(tmp_path / "out")} | more))

    found = topics.passages(plan(job).todo, job, "en", 20)

    kinds = [sum(start in passage for passage in found) for start in ("Sentence number", "Row", "One sentence")]
    assert kinds == [32, 25, 1]
    assert found[0].count("Sentence number") == 9
    assert [p[16:20] for p in found[:3]] == ["0 is", "144 ", "288 "], "from all of it"
    assert topics.spread("abcdefg", 3) == ["a", "c", "e", "g"]


def test_topics_of_a_corpus_need_a_run() -> None:
    with pytest.raises(ConfigError, match="no topics are learnt yet: `chunkmill run` learns them"):
        chunk("One. Two.", "topic", method="lda", fit="corpus")
    with pytest.raises(ConfigError, match="no topics are learnt yet"):
        chunk("One. Two.", "topic", fit="corpus", answers=BAG)
    level = {"strategy": "topic", "method": "lda", "fit": "corpus", "size": 100}
    with pytest.raises(ConfigError, match=r"chunk.levels\[0\].fit is 'corpus'"):
        strategy("hierarchical", {"levels": [level]})
