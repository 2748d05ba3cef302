"""Search in a hierarchy: found by the small chunks, answered with the large ones around them."""

import json
import sys

import numpy as np
import pytest

from chunkmill import search
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io import table
from chunkmill.jobs import cli, pipeline, ranking
from chunkmill.jobs.config import load

LAMP = "Trim the wick of the lamp. Fill the lamp with oil. Light the lamp at dusk. Put the lamp out at dawn."
SOUP = "Peel the potatoes for the soup. Boil the soup with leek. Salt the soup. Serve the soup hot."
SHORT = "Wind the clock."


@pytest.fixture(scope="module")
def dataset(ray_here, offline_model, tmp_path_factory):
    """Two paragraphs with four sentences each, and a document that is one sentence."""
    folder = tmp_path_factory.mktemp("levels")
    (folder / "corpus").mkdir()
    (folder / "corpus" / "house.txt").write_text(f"{LAMP}\n\n{SOUP}\n")
    (folder / "corpus" / "clock.txt").write_text(SHORT)
    levels = [{"strategy": "paragraph", "size": 40}, {"strategy": "sentence", "size": 10}]
    chunk = {"strategy": "hierarchical", "size": 40, "levels": levels}
    pipeline.run(load({"input": str(folder / "corpus"), "output": str(folder / "dataset"), "chunk": chunk}))
    return str(folder / "dataset")


@pytest.mark.parametrize("mode", ranking.MODES)
def test_leaves_of_one_parent_are_one_hit(dataset, mode):
    hits = search(dataset, "how is the lamp lit at dusk?", 3, mode, parents=True)

    assert hits[0].text == LAMP
    assert sorted(h.text for h in hits) == sorted([LAMP, SOUP, SHORT])
    assert hits[0].leaves[0].text == "Light the lamp at dusk."
    assert [leaf.score for leaf in hits[0].leaves] == sorted((leaf.score for leaf in hits[0].leaves), reverse=True)


@pytest.mark.parametrize("mode", ["vectors", "words", "hybrid"])
def test_the_score_of_a_parent_is_that_of_its_best_leaf(dataset, mode):
    hits = search(dataset, "boil the soup", 3, mode, parents=True)

    assert hits[0].text == SOUP
    assert [hit.score for hit in hits if hit.leaves] == [hit.leaves[0].score for hit in hits if hit.leaves]


def test_all_leaves_are_under_the_parent_that_the_table_says(dataset):
    rows = {row["chunk_id"]: row for row in table.read(dataset, "chunks").to_pylist()}
    hits = search(dataset, "boil the soup", 3, parents=True)

    found = {leaf.chunk_id: hit.chunk_id for hit in hits for leaf in hit.leaves}
    assert found == {key: row["parent_id"] for key, row in rows.items() if row["parent_id"]}
    assert all(rows[leaf.chunk_id]["text"] == leaf.text for hit in hits for leaf in hit.leaves)


def test_a_chunk_without_a_parent_stands_for_itself(dataset):
    levels = [row["level"] for row in table.read(dataset, "chunks").to_pylist() if row["text"] == SHORT]
    (hit,) = search(dataset, "when do I wind the clock?", 1, parents=True)

    assert hit.text == SHORT
    assert len(hit.leaves) == len(levels) - 1


def test_without_asking_for_parents_a_hit_names_its_own(dataset):
    rows = {row["chunk_id"]: row for row in table.read(dataset, "chunks").to_pylist()}
    hits = search(dataset, "light the lamp at dusk", 4)

    assert hits[0].text == "Light the lamp at dusk."
    assert rows[hits[0].parent_id]["text"] == LAMP
    assert [hit.leaves for hit in hits] == [()] * 4


@pytest.mark.parametrize("mode", [name for name, each in ranking.MODES.items() if each.parts])
def test_where_no_chunk_has_sentences_a_search_by_them_says_so(ray_here, offline_model, tmp_path, mode):
    (tmp_path / "a.txt").write_text(LAMP)
    pipeline.run(load({"input": str(tmp_path / "a.txt"), "output": str(tmp_path / "out"), "chunk": {"strategy": "document"}}))

    with pytest.raises(ConfigError, match=r"smaller ones inside, and the mode .* --mode hybrid, or .* strategy hierarchical"):
        search(str(tmp_path / "out"), "a lamp", mode=mode)

    assert search(str(tmp_path / "out"), "a lamp", mode="hybrid")[0].text == LAMP


def test_the_command_gives_parents_and_what_they_were_found_by(dataset, monkeypatch, capsys):
    command = ["chunkmill", "search", dataset, "how is the lamp lit at dusk?", "--parents", "-k", "1"]
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", command + more)
        with pytest.raises(SystemExit, match="0"):
            cli.main()

    text, _, answer = capsys.readouterr().out.rpartition("\n[")
    (hit,) = json.loads("[" + answer)
    assert f"{LAMP}\nfound by: Light the lamp at dusk." in text
    assert (hit["text"], hit["leaves"][0]["text"]) == (LAMP, "Light the lamp at dusk.")


def test_a_parent_has_the_score_of_its_best_leaf_and_a_chunk_alone_its_own():
    vectors = np.array([[0, 1], [1, 0], [0.6, 0.8], [0, 1]], np.float32)
    chunks = ranking.flat(["parent", "leaf", "other leaf", "alone"], vectors)
    parents = ranking.family(chunks, ["p", "a", "b", "c"], [None, "p", "p", None])

    scores, of_leaves = ranking.of_parents(ranking.MODES["vectors"], chunks, parents, ranking.Queries(["q"], vectors[1:2]))

    assert parents.held.tolist() == [0, 3]
    assert scores.tolist() == [[1.0, 0.0]]
    assert of_leaves.tolist() == [[1.0, pytest.approx(0.6), 0.0]]
