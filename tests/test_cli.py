"""What a user meets on the command line: exit codes, and messages that name the value and the way out."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import typer.main

from chunkmill import __version__
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.strategies import STRATEGIES
from chunkmill.io.parsers import FORMATS
from chunkmill.jobs import cli
from chunkmill.jobs.config import load

CHUNK = "input: a\noutput: b\nembed: null\nchunk: "
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
        ("input: a\noutput: b\ninput: c", ["'input' is given twice", "line 3"]),
        (
            CHUNK + "{strategy: hierarchical, levels: [{strategy: sentense, size: 9}]}",
            ["chunk.levels[0].strategy", "'sentence'"],
        ),
        (
            CHUNK + "{strategy: hierarchical, levels: [{strategy: page, size: 9}, {strategy: fixed, size: 8, paks: 1}]}",
            ["chunk.levels[1].paks", "it takes overlap_before, strategy, size, overlap"],
        ),
        (
            CHUNK + "{strategy: hierarchical, levels: [{strategy: section, size: 9, depth: deep}]}",
            ["chunk.levels[0].depth is 'deep'"],
        ),
        (
            CHUNK + "{strategy: hierarchical, levels: [{strategy: modality, size: 9, text: recursiv}]}",
            ["chunk.levels[0].text is 'recursiv'", "did you mean 'recursive'"],
        ),
        (CHUNK + "{strategy: modality, text: recursiv}", ["chunk.text is 'recursiv'", "did you mean 'recursive'"]),
        (
            CHUNK + "{strategy: hierarchical, preset: parent_child, parent_size: 9}",
            ["chunk.child_size is 200", "parent_size is 9"],
        ),
        (
            CHUNK + "{strategy: hierarchical, preset: parent_child, child_overlap: 200}",
            ["chunk.child_overlap is 200", "less than the size of 200"],
        ),
        (CHUNK + "{strategy: sentence, language: english}", ["chunk.language is 'english'", "ISO 639-1"]),
        (CHUNK + "{strategy: code, language: pyhton}", ["chunk.language is 'pyhton'", "did you mean 'python'"]),
        (CHUNK + "{strategy: sentence, overlap: 5, overlap_sentences: 1}", ["overlap_sentences are both given"]),
        ("input: a\noutput: b\nembed: null\nformats: {pdf: {ocr: 5}}", ["formats.pdf.ocr is 5", "'auto', 'force', 'off'"]),
        (
            "input: a\noutput: b\nembed: null\nformats: {docx: {images: many}}",
            ["formats.docx.images is 'many'", "true or false"],
        ),
        ("input: a\noutput: b\nembed: null\nformats: {wiki: no.module:parse}", ["formats.wiki.parser", "can't be imported"]),
        (
            "input: a\noutput: b\nembed: null\nformats: {wiki: parse}",
            ["formats.wiki.parser is 'parse'", "package.module:function"],
        ),
        ("input: a\noutput: b\nembed: {backend: 'json:loads'}", ["embed.backend", "a class with `embed(self, texts)`"]),
    ],
)
def test_a_wrong_key_or_value_in_a_job_file_is_named(tmp_path, text, says):
    (tmp_path / "job.yaml").write_text(text)

    with pytest.raises(ConfigError) as error:
        load(str(tmp_path / "job.yaml"))

    for part in says:
        assert part in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "<<: {output: c}\ninput: a\noutput: b\nembed: null",
        CHUNK + "{strategy: sentence, overlap_sentences: 1, language: pt-BR}",
        CHUNK + "{strategy: sentence, overlap: 0, overlap_sentences: 1}",
        CHUNK + "{strategy: code, language: ''}",
        CHUNK + "{}\nformats: {pdf: {ocr: off, ocr_languages: [eng, deu], images: true}, csv: {delimiter: null}}",
    ],
)
def test_what_is_right_beside_it_is_accepted(tmp_path, text):
    (tmp_path / "job.yaml").write_text(text)

    assert load(str(tmp_path / "job.yaml")).output == "b"


def test_an_output_that_cannot_be_written_is_told_before_the_plan(folder):
    (folder / "out").write_text("in the way")

    done = chunkmill("run", str(folder / "docs"), str(folder / "out"), "--no-embed", code=NO_RAY)

    assert done.returncode == 2
    assert done.stderr.startswith("chunkmill: output ")


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


def test_every_command_has_json():
    commands = typer.main.get_command(cli.app).commands

    assert [name for name, command in commands.items() if not any("--json" in p.opts for p in command.params)] == []


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("run docs out --strategy rec", ["records", "recursive"]),
        ("preview a.md --compare sem", ["semantic"]),
        ("search dataset query --mode w", ["words"]),
        ("eval docs q.csv --search hy", ["hybrid"]),
    ],
)
def test_the_shell_completes_names(words, completed):
    asked = {
        "_CHUNKMILL_COMPLETE": "complete_bash",
        "COMP_WORDS": f"chunkmill {words}",
        "COMP_CWORD": str(words.count(" ") + 1),
    }
    code = f"import os, sys; os.environ |= {asked!r}; sys.argv[0] = 'chunkmill'"

    assert chunkmill(code=code).stdout.split() == completed


def test_a_file_that_is_not_there_or_cannot_be_read_is_said_once(folder):
    (folder / "docs" / "a.pdf").write_bytes(b"%PDF-1.7\nnothing")

    done = chunkmill("eval", str(folder / "docs"), str(folder / "q.csv"), "--strategies", "fixed")
    seen = chunkmill("preview", str(folder / "docs" / "a.pdf"), "--no-embed")

    assert (done.returncode, done.stderr.strip().rpartition(": ")[2]) == (2, "there is no such file")
    assert (seen.returncode, seen.stdout.count("corrupt")) == (1, 1)


def test_a_dataset_that_may_not_be_read_is_not_said_to_be_missing(folder):
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("root may read everything, and setpriv isn't here to take that away")
    program = [sys.executable, "-c", "from chunkmill.jobs.cli import main; main()"]
    (folder / "closed" / "dataset").mkdir(parents=True)
    (folder / "closed").chmod(0)

    done = subprocess.run(
        [*(drop if os.geteuid() == 0 else []), *program, "report", str(folder / "closed" / "dataset")],
        capture_output=True,
        text=True,
        check=False,
    )

    (folder / "closed").chmod(0o700)
    assert (done.returncode, "looked into" in done.stderr, "chunkmill run" in done.stderr) == (1, True, False), done.stderr


def test_a_message_carries_no_control_character_to_the_terminal(folder):
    done = chunkmill("report", str(folder / "\x1b[31m\u202e"))

    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert "there is no dataset" in done.stderr
