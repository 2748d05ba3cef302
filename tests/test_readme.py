"""The README tells the truth: its commands parse, its Python runs, its tables are the registries."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
import typer.main
import yaml

from chunkmill.chunkers.strategies import STRATEGIES, needs
from chunkmill.io.parsers import FORMATS
from chunkmill.io.schema import CHUNKS, DOCUMENTS
from chunkmill.jobs.cli import app
from chunkmill.jobs.config import Job

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines() if line]


@pytest.mark.parametrize("line", [s for s in SHELL if s.startswith("chunkmill ")])
def test_commands_are_accepted(line):
    command = typer.main.get_command(app)
    name, *arguments = shlex.split(line)[1:]

    context = command.commands[name].make_context(name, arguments)

    assert context.params


@pytest.mark.parametrize("line", [s for s in SHELL if s.startswith("make ")])
def test_make_targets_exist(line):
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.M)


def test_the_python_example_gives_what_it_says():
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)

    assert result.attempted >= 3
    assert result.failed == 0


def test_the_table_of_strategies_is_the_registry():
    rows = [f"| `{name}` | {entry.describes.replace('`', '`')} | {needs(entry.cls)} |" for name, entry in STRATEGIES.items()]

    assert [row for row in rows if row not in README] == []


def test_the_table_of_formats_is_the_registry():
    assert [f.name for f in FORMATS.values() if f"| `{f.name}` | {f.describes} |" not in README] == []


def test_the_columns_are_the_schemas():
    text = " ".join(README.split())

    assert ", ".join(f.name for f in CHUNKS if f.name != "format") in text
    assert ", ".join(f.name for f in DOCUMENTS) in text


def test_the_job_file_is_valid():
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.S)

    assert Job.model_validate(yaml.safe_load(text)).chunk.size == 512
