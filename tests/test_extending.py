"""docs/extending.md is true: its three modules, as they stand there, make a dataset in workers that can't import them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from chunkmill.io import recipes, table
from chunkmill.io.parsers import detect, parse
from chunkmill.jobs import pipeline
from chunkmill.jobs.config import load
from chunkmill.jobs.search import search
from chunkmill.jobs.submit import strategies

DOCS = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
MODULES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", DOCS, re.S))
JOB = yaml.safe_load(re.search(r"```yaml\n(.*?)```", DOCS, re.S)[1])
NOTES = "== The lamp ==\n§ Zinc and zebras.\n== The boat ==\n§ Bobbing boats."


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the modules and a corpus; the modules are forgotten afterwards, so that each test has its own."""
    for name, code in MODULES.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "harbour.wiki").write_text(NOTES)
    (tmp_path / "notes" / "bad.wiki").write_bytes(b"\xff\xfe\xfd")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(JOB, "input", str(tmp_path / "notes"))  # Ray's workers stay where it was started
    monkeypatch.setitem(JOB, "output", str(tmp_path / "dataset"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("name", ["verses.py", "wiki.py", "letters.py"])
def test_each_takes_no_more_than_twenty_lines(name):
    assert len([line for line in MODULES[name].splitlines() if line.strip()]) <= 20


def test_all_three_make_a_dataset_that_can_be_searched(here, ray_here):
    summary = pipeline.run(load(JOB))

    rows = sorted(table.read(JOB["output"], "chunks").to_pylist(), key=lambda row: row["start"])
    assert summary.statuses == {"ok": 1, "failed:undecodable": 1}
    assert [(row["text"], row["format"]) for row in rows] == [
        ("== The lamp ==", "wiki"),
        ("§ Zinc and zebras.\n== The boat ==", "wiki"),
        ("§ Bobbing boats.", "wiki"),
    ]
    assert [row["heading_path"][-1:] for row in rows][2] == ["The boat"]
    assert dict(rows[0]["metadata"])["title"] == "Notes"
    assert [len(row["vector"]) for row in rows] == [26] * 3
    assert search(JOB["output"], "zzz", 1)[0].chunk_id == rows[1]["chunk_id"]
    assert recipes.load(JOB["output"], rows[0]["recipe"])["embed"]["backend"] == "letters:Letters"


def test_a_change_of_any_of_the_modules_makes_another_recipe(here):
    found = {load(JOB).recipe}
    for name in MODULES:
        sys.modules.pop(name.removesuffix(".py"), None)
        (here / name).write_text(MODULES[name] + "\nCHANGED = True\n")
        found.add(load(JOB).recipe)

    assert len(found) == 4


def test_a_text_beyond_the_limit_fails_as_one_document(here, ray_here):
    (here / "notes" / "long.wiki").write_text("word " * 700)
    summary = pipeline.run(load(JOB | {"chunk": {"strategy": "document", "size": 2000}}))

    assert summary.statuses == {"ok": 1, "failed:undecodable": 1, "failed:too_large": 1}


def test_a_format_of_ones_own_may_take_the_place_of_ours():
    parser = {"csv": lambda data, name, options: iter(parse(b"replaced", "x.txt"))}

    (found,) = parse(b"a,b\n1,2\n", "table.csv", own=parser)

    assert (found.text, found.format) == ("replaced", "csv")
    assert detect("a.wiki", b"%PDF-1.7", ["wiki"]) == "wiki"


def test_they_go_along_with_a_job(here):
    assert sorted(strategies(JOB)) == sorted(MODULES)
    assert strategies({"formats": {"wiki": "wiki:parse"}}) == ["wiki.py"]


def test_preview_reads_them_too(here):
    (here / "job.yaml").write_text(yaml.safe_dump(JOB))
    command = [sys.executable, "-m", "chunkmill.jobs", "preview", "notes/harbour.wiki", "job.yaml", "--json"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "Bobbing boats" in json.dumps(json.loads(done.stdout))
