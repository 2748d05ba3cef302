"""One schema for the job file and the flags: what a job is, checked before anything runs."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from chunkmill.chunkers.api import chunking
from chunkmill.chunkers.base import Embed
from chunkmill.chunkers.errors import ConfigError, choose
from chunkmill.chunkers.finish import Chunking, digest
from chunkmill.chunkers.strategies import strategy
from chunkmill.io.parsers import FORMATS, parser_version
from chunkmill.io.storage import locate

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_TOKENIZER = "cl100k_base"
EXAMPLES = {"chunk": "{strategy: recursive}", "embed": "{model: NAME}, or null for no vectors", "run": "{keep_text: true}"}


class Settings(BaseModel):
    """A part of a job file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChunkSettings(BaseModel):
    """`chunk`: the strategy, what all strategies share, and (as further keys) the strategy's own settings."""

    model_config = ConfigDict(extra="allow", frozen=True)

    strategy: str = "recursive"
    size: int = 512
    overlap: int | str = "12.5%"
    unit: str = "tokens"
    context: Literal["none", "headings"] = "none"
    min_size: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The strategy's own settings."""
        return dict(self.model_extra or {})


class EmbedSettings(Settings):
    """`embed`: the model the vectors come from."""

    model: str = DEFAULT_MODEL
    overflow: Literal["pool", "error", "truncate"] = "pool"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"


class RunSettings(Settings):
    """`run`: how the run behaves; nothing here changes a chunk."""

    keep_text: bool = True
    max_file_bytes: int = Field(default=1 << 30, gt=0)
    allow_empty: bool = False
    cpus: int | None = Field(default=None, gt=0)


Patterns = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class Job(Settings):
    """A whole job: from where, to where, cut how, embedded with what."""

    input: str
    output: str
    include: Patterns = ()
    exclude: Patterns = ()
    chunk: ChunkSettings = ChunkSettings()
    embed: EmbedSettings | None = EmbedSettings()
    formats: dict[str, dict[str, Any]] = {}
    run: RunSettings = RunSettings()

    @cached_property
    def model(self) -> Any:
        """The embedding model's files (`models.ModelRef`); None without embedding. Raises ConfigError."""
        from chunkmill.jobs.models import resolve

        return resolve(self.embed.model) if self.embed else None

    @cached_property
    def chunking(self) -> Chunking:
        """How documents are cut. Sizes in tokens are those of the model's tokenizer, else of `cl100k_base`."""
        c = self.chunk
        stepped = "step" in c.options and "overlap" not in c.model_fields_set  # the default would contradict it
        overlap = 0 if stepped else c.overlap
        shared: dict[str, Any] = {"size": c.size, "unit": self._unit(), "context": c.context, "min_size": c.min_size}
        return chunking(c.strategy, c.options, overlap=overlap, **shared)

    def _unit(self) -> str:
        if self.chunk.unit != "tokens":
            return self.chunk.unit
        if not self.embed:
            return DEFAULT_TOKENIZER
        from chunkmill.jobs.models import window

        return window(self.model).tokenizer_file

    def check(self) -> None:
        """Everything that can be wrong before a document is read. Raises ConfigError."""
        for name, options in self.formats.items():
            if name not in FORMATS:
                raise choose("a key of formats", name, FORMATS)
            for key in options:
                if key not in FORMATS[name].options:
                    raise choose(f"a key of formats.{name}", key, FORMATS[name].options or ("none: it has no settings",))
        if Embed in strategy(self.chunk.strategy, self.chunk.options).needs and not self.embed:
            raise ConfigError(f"the strategy {self.chunk.strategy!r} asks an embedding model; don't switch embedding off")
        _ = self.chunking.limit
        self._check_places()

    def _check_places(self) -> None:
        source, target = (str(locate(place)).rstrip("/") for place in (self.input, self.output))
        if f"{source}/".startswith(f"{target}/"):
            raise ConfigError(f"output {self.output!r} holds the input {self.input!r}; give the dataset a folder of its own")

    @cached_property
    def recipe(self) -> str:
        """A hash of everything that decides a row's content."""
        return digest(json.dumps(self.describe(), sort_keys=True))[:16]

    def describe(self) -> dict[str, Any]:
        """What the recipe is a hash of, readable."""
        return {
            "chunk": self.chunk.model_dump(mode="json"),
            "strategy": source_of(self.chunk.strategy),
            "keep_text": self.run.keep_text,
            "embed": self.embed and {**self.embed.model_dump(mode="json"), "revision": self.model.revision},
            "formats": self.formats,
            "parsers": {name: parser_version(name) for name in FORMATS},
        }


def source_of(name: str) -> str | None:
    """A hash of the module of a strategy that is not ours: another code makes another recipe."""
    if ":" not in name:
        return None
    module = importlib.import_module(name.partition(":")[0])
    return digest(inspect.getsource(module))


def load(source: str | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Job:
    """The job of a YAML file or a mapping, with the overrides (nested like the file) laid over it; checked.

    Raises ConfigError that names the key, its value and what is valid.
    """
    given = _read(source) if isinstance(source, str) else dict(source)
    try:
        job = Job.model_validate(_merged(given, overrides or {}))
    except ValidationError as error:
        raise ConfigError("; ".join(_message(e) for e in error.errors())) from None
    job.check()
    return job


def _read(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the job file {path!r} can't be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"the job file {path!r} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"the job file {path!r} must hold keys and values (input: …, output: …)")
    return content


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = _merged(inner or {}, value) if isinstance(value, dict) and isinstance(inner, dict | None) else value
    return merged


def _message(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"])
    if error["type"] == "missing":
        return f"{place} is missing"
    if error["loc"][:2] == ("chunk", "overlap"):
        return f"chunk.overlap is {error['input']!r}; it must be a whole number of units or a share like '15%'"
    if error["type"] in ("model_type", "dict_type"):
        return f"{place} is {error['input']!r}; it holds settings of its own, such as {EXAMPLES.get(place, '{key: value}')}"
    return f"{place} is {error['input']!r}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _unknown(loc: tuple[Any, ...]) -> str:
    valid: Any = Job
    for part in loc[:-1]:
        valid = {"chunk": ChunkSettings, "embed": EmbedSettings, "run": RunSettings}.get(part, valid)
    names = sorted(valid.model_fields)
    near = difflib.get_close_matches(str(loc[-1]), names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no setting {'.'.join(map(str, loc))}{hint}; valid here: {', '.join(names)}"
