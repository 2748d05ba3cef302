"""The layers hold in a fresh process: chunking needs no Ray, torch, Arrow or files; reading and writing no Ray or torch."""

import json
import subprocess
import sys

import pytest

import chunkmill

HEAVY = {"ray", "torch", "sentence_transformers", "transformers", "pydantic", "pyarrow", "boto3", "pymupdf", "selectolax"}


IMPORT_ALL = """
import pkgutil, importlib, chunkmill.{0} as package
for m in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(m.name)
"""


def modules_after(code: str) -> set[str]:
    code += "\nimport sys, json; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_library_call_loads_nothing_heavy():
    assert not modules_after("import chunkmill; assert chunkmill.chunk('One. Two.')") & HEAVY


def test_importing_every_chunker_loads_nothing_heavy():
    assert not modules_after(IMPORT_ALL.format("chunkers")) & HEAVY


def test_storage_and_parsers_load_no_ray_and_no_torch():
    assert not modules_after(IMPORT_ALL.format("io")) & {"ray", "torch", "sentence_transformers", "transformers"}


@pytest.mark.parametrize("name", chunkmill.__all__)
def test_public_names_are_there(name):
    assert getattr(chunkmill, name) is not None


def test_the_command_line_starts_without_ray_or_torch():
    assert not modules_after("import chunkmill.jobs.cli") & {"ray", "torch", "pyarrow"}
