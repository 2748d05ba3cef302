"""What a user meets on the command line: exit codes, and messages that name the value and the way out."""

import json
import subprocess
import sys

import pytest

from chunkmill import __version__
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.strategies import STRATEGIES
from chunkmill.io.parsers import FORMATS
from chunkmill.jobs import cli
from chunkmill.jobs.config import load

NO_RAY = "import ray\nray.init = lambda *a, **k: print('Ray was started') or exit(99)"


def chunkmill(*arguments: str, code: str = "") -> subprocess.CompletedProcess:
    program = f"{code}\nfrom chunkmill.jobs.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("One sentence.")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["DIR/nowhere", "OUT"], ["'DIR/nowhere' does not exist"]),
        (["DIR/dosc", "OUT"], ["does not exist", "docs"]),
        (["DIR/docs"], ["OUTPUT"]),
        (["DIR/docs", "OUT", "--strategy", "semantik"], ["'semantik'", "did you mean 'semantic'", "recursive"]),
        (["DIR/docs", "OUT", "--strategy", "no.module:Class"], ["no.module:Class", "can't be imported"]),
        (["DIR/docs", "OUT", "--size", "0"], ["chunk.size is 0", "overlap", "1 or more"]),
        (["DIR/docs", "OUT", "--size", "10", "--overlap", "10"], ["chunk.overlap is 10", "less than the size"]),
        (["DIR/docs", "OUT", "--overlap", "half"], ["'half'", "15%"]),
        (["DIR/docs", "OUT", "--unit", "cl100k_bass"], ["cl100k_bass", "did you mean 'cl100k_base'"]),
        (["DIR/docs", "OUT", "--context", "titles"], ["chunk.context", "titles", "headings"]),
        (["DIR/docs", "OUT", "--strategy", "semantic"], ["embedding model"]),
        (["ftp://host/x", "OUT"], ["ftp", "s3://"]),
        (["DIR/none.yaml"], ["none.yaml", "can't be read"]),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_before_ray_starts(folder, arguments, says):
    arguments = [a.replace("DIR", str(folder)).replace("OUT", str(folder / "out")) for a in arguments]

    done = chunkmill("run", *arguments, "--no-embed", code=NO_RAY)

    assert done.returncode == 2, done.stderr
    for part in says:
        assert part.replace("DIR", str(folder)) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_not_there_is_refused_with_the_way_out(folder):
    done = chunkmill("run", str(folder / "docs"), str(folder / "out"), "--model", str(folder / "docs"))

    assert done.returncode == 2
    assert str(folder / "docs") in done.stderr
    assert "sentence-transformers" in done.stderr


def test_without_the_extra_a_run_names_it(folder):
    missing = "import sys; sys.modules['torch'] = sys.modules['sentence_transformers'] = None"

    done = chunkmill("run", str(folder / "docs"), str(folder / "out"), code=missing)

    assert done.returncode == 2
    assert 'pip install "chunkmill[embed]"' in done.stderr
    assert "--no-embed" in done.stderr


def test_search_without_a_dataset_says_how_to_make_one(folder):
    done = chunkmill("search", str(folder / "none"), "anything")

    assert done.returncode == 2
    assert "chunkmill run" in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("input: a\noutput: b\nchunk: {sise: 3}\nembed: null", ["chunk.sise", "did you mean 'size'"]),
        ("input: a\noutput: b\nchunck: {}", ["chunck", "did you mean 'chunk'"]),
        ("input: a\noutput: b\nchunk: {size: many}", ["chunk.size", "many"]),
        ("input: a\noutput: b\nchunk: {overlap: 12.5}\nembed: null", ["chunk.overlap is 12.5", "15%"]),
        ("input: a\noutput: b\nchunk: {min_sise: 5}\nembed: null", ["chunk.min_sise", "did you mean 'min_size'"]),
        ("input: a", ["output is missing"]),
        ("- a\n- b", ["keys and values"]),
        ("input: [", ["not valid YAML"]),
        ("input: a\noutput: b\nembed: null\nformats: {pfd: {}}", ["pfd", "did you mean 'pdf'"]),
        ("input: a\noutput: b\nembed: null\nchunk: {strategy: fixed, window: 3}", ["chunk.window", "no such setting"]),
        ("input: a\noutput: b\nembed: null\nchunk: {strategy: section, depth: deep}", ["chunk.depth", "a whole number"]),
        ("input: a\noutput: b\nembed: {modell: x}", ["embed.modell", "did you mean 'model'"]),
    ],
)
def test_a_wrong_key_or_value_in_a_job_file_is_named(tmp_path, text, says):
    (tmp_path / "job.yaml").write_text(text)

    with pytest.raises(ConfigError) as error:
        load(str(tmp_path / "job.yaml"))

    for part in says:
        assert part in str(error.value)


def test_flags_lie_over_the_job_file(tmp_path):
    (tmp_path / "job.yaml").write_text("input: a\noutput: b\nchunk: {strategy: sentence, size: 99}\n")
    overrides = cli.overridden({"strategy": None, "size": 50}, None, True)

    job = load(*cli.located(str(tmp_path / "job.yaml"), "c", overrides))

    assert (job.chunk.strategy, job.chunk.size, job.output, job.embed) == ("sentence", 50, "c", None)


def test_the_recipe_follows_what_decides_the_rows_and_nothing_else():
    base = {"input": "a", "output": "b", "embed": None}

    assert load(base).recipe == load(base | {"input": "z", "output": "y", "run": {"cpus": 1}}).recipe
    assert load(base).recipe != load(base | {"chunk": {"size": 100}}).recipe


def test_tables_list_every_strategy_and_format():
    names = [row["name"] for row in json.loads(chunkmill("strategies", "--json").stdout)]
    kinds = [row["name"] for row in json.loads(chunkmill("formats", "--json").stdout)]

    assert names == list(STRATEGIES)
    assert kinds == list(FORMATS)


def test_help_and_version_and_the_module_are_the_command():
    done = subprocess.run([sys.executable, "-m", "chunkmill.jobs", "--help"], capture_output=True, text=True, check=True)

    assert all(name in done.stdout for name in ("run", "search", "strategies", "formats"))
    assert chunkmill("--version").stdout == f"chunkmill {__version__}\n"
