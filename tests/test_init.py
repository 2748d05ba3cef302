"""`init` writes a job file that loads, fits what it saw, and never overwrites unasked."""

import json
import re

import pytest
import yaml

from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.strategies import STRATEGIES
from chunkmill.jobs import init
from chunkmill.jobs.config import load
from test_preview import command


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def folder(tmp_path, files, name="docs"):
    for path, size in files.items():
        (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / path).write_bytes(b"x" * size)
    return name


def made(tmp_path, files, name="docs"):
    """The job and its file's text."""
    found = init.look(folder(tmp_path, files, name))
    text = init.job_file(found, init.output_for(name), "job.yaml")
    (tmp_path / "job.yaml").write_text(text)
    return load("job.yaml"), text


@pytest.mark.parametrize(
    ("files", "strategy"),
    [
        ({"a.py": 900, "b.js": 300, "README.md": 100}, "code"),
        ({"a.csv": 900, "b.txt": 100}, "table"),
        ({"talk.pptx": 900, "b.txt": 100}, "page"),
        ({"film.srt": 900}, "turns"),
        ({"a.md": 500, "b.html": 400, "c.txt": 100}, "section"),
        ({"a.txt": 500, "b.pdf": 400}, "recursive"),
        ({"a.txt": 500, "b.md": 500, "c.csv": 500, "d.py": 500}, "auto"),
        ({"unheard.of": 10}, "auto"),
    ],
)
def test_the_strategy_follows_what_there_is_most_of(tmp_path, files, strategy):
    job, text = made(tmp_path, files)

    assert job.chunk.strategy == strategy
    assert strategy in STRATEGIES
    assert all(line.count(" # ") == 1 for line in text.splitlines() if re.match(r"  (strategy|size|overlap|context):", line))


def test_it_says_what_it_saw_and_leaves_out_what_has_no_text(tmp_path):
    job, text = made(tmp_path, {"a.txt": 1_500, "b.txt": 500, "c.png": 9, ".git/x/config": 9, "node_modules/m/i.js": 9})

    assert "# text: 2 files, 2.0 kB, the largest 1.5 kB" in text
    assert job.exclude == ("*.png", ".git/", "node_modules/")
    assert "code" not in text


def test_what_is_commented_out_is_valid_too(tmp_path):
    _, text = made(tmp_path, {"a.pdf": 10, "b.jsonl": 10, "c.csv": 10, "d.eml": 10, "e.parquet": 10})
    settings = re.sub(r"^# (?=formats:|run:|  )|^#(?=   )", "", text.partition("\ninput:")[2], flags=re.M)

    given = yaml.safe_load("input:" + settings)

    assert set(given["formats"]) == {"pdf", "jsonl", "csv", "email", "parquet"}
    assert given["run"] == {"max_error_share": 0.1, "keep_text": True}
    assert load(given).run.max_error_share == 0.1


@pytest.mark.parametrize(
    "name", ["a b", "it's: #1", 'say "hi"', "line\nbreak", "ünï日本", "- x", "{a}", "null", "1e3", "[x", "\x85 \u2028", "yes"]
)
def test_any_name_of_a_folder_comes_back_as_it_is(tmp_path, name):
    job, _ = made(tmp_path, {"a.txt": 10}, name)

    assert (job.input, job.output) == (name, f"{name}-chunks")


@pytest.mark.parametrize(
    ("source", "output"), [(".", "../chunks"), ("..", "../chunks"), ("a/b/", "a/b-chunks"), ("s3://b/x", "s3://b/x-chunks")]
)
def test_the_dataset_goes_beside_the_folder(source, output):
    assert init.output_for(source) == output


def test_without_a_model_it_says_how_to_have_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr(init, "DEFAULT_MODEL", str(tmp_path))

    job, text = made(tmp_path, {"a.txt": 10})

    assert job.embed is None
    assert 'pip install "chunkmill[embed]"' in text


def test_a_bucket_is_looked_at_too(s3, tmp_path):
    bucket = s3.bucket({"docs/a b.md": b"# x", "docs/deep/b.md": b"# y"})

    found = init.look(f"s3://{bucket}/docs")

    assert [(f.name, f.files) for f in found.formats] == [("markdown", 2)]
    assert load(yaml.safe_load(init.job_file(found, "out", "job.yaml"))).input == f"s3://{bucket}/docs"


def test_a_file_that_is_there_is_replaced_only_when_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "job.yaml").write_text("mine")
    name = folder(tmp_path, {"a.txt": 10})

    with pytest.raises(ConfigError, match="--force"):
        init.write("job.yaml", "other", force=False)
    kept = (tmp_path / "job.yaml").read_text()
    said = json.loads(command(["init", name, "--force", "--json"], monkeypatch, capsys))

    assert kept == "mine"
    assert (tmp_path / "job.yaml").read_text() == said["job"]
    assert said["formats"] == [{"name": "text", "files": 1, "size": 10, "largest": 10}]


@pytest.mark.parametrize("name", ["none", "empty"])
def test_a_folder_without_files_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConfigError, match=r"does not exist|holds no files"):
        init.look(name)
