"""The recipes that an evaluation compares: names of strategies, settings in braces, job files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from chunkmill.chunkers.errors import ConfigError
from chunkmill.jobs.config import load
from chunkmill.jobs.evaluate import Contender
from chunkmill.jobs.models import cache

JOB_FILES = (".yaml", ".yml")


def contenders(given: Sequence[str], base: Mapping[str, Any]) -> list[Contender]:
    """Each recipe on the corpus of `base`. Other settings of `base` hold for those that are no job file. Raises ConfigError."""
    if not given:
        raise ConfigError("nothing to compare; give strategies or job files: chunkmill eval CORPUS QUESTIONS recursive my.yaml")
    base = {"output": str(cache().parent / "eval"), **base}  # where nothing is written but the answers of language models
    found = [contender(text, base) for text in given]
    names = [c.name for c in found]
    return [c._replace(name=given[i]) if names.count(c.name) > 1 else c for i, c in enumerate(found)]


def contender(given: str, base: Mapping[str, Any]) -> Contender:
    """One recipe: `recursive`, `{strategy: optimal, size: 150}` or `job.yaml`."""
    if given.endswith(JOB_FILES):
        place = {key: base[key] for key in ("input", "output", "include", "exclude") if key in base}
        return Contender(Path(given).stem, load(given, place))
    chunk = braces(given) if given.startswith("{") else {"strategy": given}
    return Contender(called(chunk), load(base, {"chunk": chunk}))


def braces(given: str) -> dict[str, Any]:
    """Settings as `chunk` has them in a job file, on one line."""
    try:
        found = yaml.safe_load(given)
    except yaml.YAMLError as error:
        raise ConfigError(f"{given!r} can't be read as settings such as '{{strategy: optimal, size: 150}}': {error}") from None
    if not isinstance(found, dict) or "strategy" not in found:
        raise ConfigError(f"{given!r} names no strategy; write '{{strategy: optimal, size: 150}}'")
    return found


def called(chunk: Mapping[str, Any]) -> str:
    """A name for settings: the strategy, the size, and whatever else was said."""
    rest = [f"{key} {value}" for key, value in chunk.items() if key not in ("strategy", "size")]
    return " ".join([str(chunk["strategy"]), *([str(chunk["size"])] if "size" in chunk else []), *rest])
