"""The README and docs/ tell the truth: commands parse, Python runs, links lead somewhere, tables are the registries."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
import typer.main
import yaml

from chunkmill.chunkers.strategies import STRATEGIES, needs, strategy
from chunkmill.io.parsers import FORMATS
from chunkmill.io.schema import CHUNKS, DOCUMENTS
from chunkmill.jobs.cli import app
from chunkmill.jobs.config import Job

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
SHELL = [line for text in TEXTS.values() for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]
YAML = [(name, block) for name, text in TEXTS.items() for block in re.findall(r"```yaml\n(.*?)```", text, re.S)]


@pytest.mark.parametrize("line", dict.fromkeys(s for s in SHELL if s.startswith("chunkmill ")))
def test_commands_are_accepted(line):
    command = typer.main.get_command(app)
    name, *arguments = shlex.split(line)[1:]

    context = command.commands[name].make_context(name, arguments)

    assert context.params


@pytest.mark.parametrize("line", [s for s in SHELL if s.startswith("make ")])
def test_make_targets_exist(line):
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_python_gives_what_it_is_said_to_give(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)

    assert (result.attempted > 0) >= (">>> " in TEXTS[page.name])
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(page):
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", TEXTS[page.name]) if not t.startswith("http")]

    assert [t for t in targets if not (page.parent / t.partition("#")[0]).exists()] == []


def test_every_page_is_linked_from_the_readme():
    assert [path.name for path in PAGES[1:] if f"](docs/{path.name})" not in README] == []


@pytest.mark.parametrize(("page", "text"), YAML, ids=lambda value: value.partition("\n")[0])
def test_settings_are_valid(page, text):
    job = Job.model_validate({"input": "in", "output": "out"} | yaml.safe_load(text))

    assert ":" in job.chunk.strategy or strategy(job.chunk.strategy, job.chunk.options)


def test_the_table_of_strategies_is_the_registry():
    rows = [f"| `{name}` | {entry.describes.replace('`', '`')} | {needs(entry.cls)} |" for name, entry in STRATEGIES.items()]

    assert [row for row in rows if row not in README] == []


def test_the_table_of_formats_is_the_registry():
    assert [f.name for f in FORMATS.values() if f"| `{f.name}` | {f.describes} |" not in README] == []


def test_the_columns_are_the_schemas():
    text = " ".join(README.split())

    assert ", ".join(f.name for f in CHUNKS if f.name != "format") in text
    assert ", ".join(f.name for f in DOCUMENTS) in text


def test_the_job_file_is_whole():
    (text,) = (block for page, block in YAML if page == "README.md")

    assert {*yaml.safe_load(text)} >= {"input", "output", "chunk", "embed", "formats", "run"}
