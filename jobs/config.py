"""One schema for the job file and the flags: what a job is, checked before anything runs."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from chunkmill.chunkers.api import chunking
from chunkmill.chunkers.base import Complete, Embed
from chunkmill.chunkers.errors import ConfigError, choose
from chunkmill.chunkers.finish import Chunking, digest
from chunkmill.chunkers.llm import fitted
from chunkmill.chunkers.strategies import checked, imported, strategy
from chunkmill.chunkers.topic import Fitted, Topic
from chunkmill.io.parsers import FORMATS, Parser, parser_version
from chunkmill.io.parsers.formats import OPTIONS
from chunkmill.io.storage import locate
from chunkmill.jobs.settings import (
    DEFAULT_TOKENIZER,
    PART_SIZE_MB,
    ChunkSettings,
    CpuSettings,
    EmbedSettings,
    GpuSettings,
    LlmSettings,
    Prompts,
    ResourceSettings,
    RunSettings,
    Settings,
)

EXAMPLES = {
    "chunk": "{strategy: recursive}",
    "embed": "{model: NAME}, or null for no vectors",
    "llm": "{base_url: URL, model: NAME}",
    "run": "{keep_text: true}",
}

FormatSettings = Annotated[dict[str, Any], BeforeValidator(lambda v: {"parser": v} if isinstance(v, str) else v)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class Job(Settings):
    """A whole job: from where, to where, cut how, embedded with what."""

    input: str
    output: str
    include: Patterns = ()
    exclude: Patterns = ()
    chunk: ChunkSettings = ChunkSettings()
    embed: EmbedSettings | None = EmbedSettings()
    llm: LlmSettings | None = None
    formats: dict[str, FormatSettings] = Field(default_factory=dict)
    resources: ResourceSettings = ResourceSettings()
    run: RunSettings = RunSettings()

    @model_validator(mode="before")
    @classmethod
    def _late(cls, given: Any) -> Any:
        return late(given) if isinstance(given, dict) else given

    @cached_property
    def model(self) -> Any:
        """The embedding model as found (`models.ModelRef`, `endpoint.Endpoint`); None without embedding. Raises ConfigError."""
        from chunkmill.jobs.backends import backend

        return backend(self.embed.backend).find(self.embed) if self.embed else None

    @property
    def window(self) -> Any:
        """What the model reads at once, on this machine (`models.Window`), with the prompts and the length of the settings."""
        from chunkmill.jobs.backends import window

        return window(self.embed, self.model) if self.embed else None

    @cached_property
    def embedder(self) -> str | None:
        """A hash of exactly what decides a vector from a text: equal ones are interchangeable. None without vectors."""
        from chunkmill.jobs.backends import embedder

        return embedder(self.embedding, self.model) if self.embed else None

    @property
    def embedding(self) -> EmbedSettings:
        """`embed` as it is carried out: where vectors decide the cuts they are exact, so that batches can't change a cut."""
        assert self.embed is not None
        return self._exact() if Embed in self.chunking.needs else self.embed

    def _exact(self) -> EmbedSettings:
        assert self.embed is not None
        return self.embed.model_copy(update={"dtype": "float32"}) if self.embed.dtype == "auto" else self.embed

    def _embedder_of_cuts(self) -> str:
        """The `embedder` of a strategy whose cuts are decided by vectors; asked before it is known whether this is one."""
        from chunkmill.jobs.backends import embedder

        return embedder(self._exact(), self.model) if self.embed else ""

    @property
    def asks(self) -> bool:
        """Whether a language model is asked."""
        return Complete in self.chunking.needs

    @cached_property
    def chunking(self) -> Chunking:
        """How documents are cut. Sizes in tokens are those of the model's tokenizer, else of `cl100k_base`."""
        c = self.chunk
        placed = "step" in c.options or c.options.get("overlap_sentences")  # by the strategy; the default would contradict it
        overlap = 0 if placed and "overlap" not in c.model_fields_set else c.overlap
        shared: dict[str, Any] = {"size": c.size, "unit": self._unit(), "context": c.context, "min_size": c.min_size}
        made = chunking(c.strategy, c.options, overlap=overlap, **shared)
        if isinstance(made.strategy, Topic) and made.strategy.fit == "corpus":
            from chunkmill.jobs import topics

            known = topics.kept(self.output, made.strategy, self._embedder_of_cuts())
            made = replace(made, strategy=Fitted(made.strategy, known)) if known else made
        if self.llm and Complete in made.needs:
            made = replace(made, strategy=fitted(made.strategy, self.llm.room), context_window=self.llm.room)
        return made

    def anew(self) -> Job:
        """The same job with nothing resolved yet."""
        job = self.model_copy()
        for name in [name for name, value in vars(Job).items() if isinstance(value, cached_property)]:
            job.__dict__.pop(name, None)
        return job

    @property
    def keeps_apart(self) -> bool:
        """Whether tables and pictures are pieces of their own: the strategy is `modality`, or one of its levels is."""
        return "modality" in json.dumps(self.chunk.model_dump(mode="json"))

    @cached_property
    def parsing(self) -> dict[str, dict[str, Any]]:
        """The settings of each format. Pictures are taken out of documents where the strategy keeps them apart."""
        wanted = {f.name: {"images": True} for f in FORMATS.values() if self.keeps_apart and "images" in f.options}
        return {name: wanted.get(name, {}) | self.formats.get(name, {}) for name in wanted.keys() | self.formats.keys()}

    @cached_property
    def parsers(self) -> dict[str, str]:
        """What reads each format: the parser's version, and a hash of its settings where it has any."""
        settings = {name: digest(json.dumps(s, sort_keys=True))[:8] for name, s in self.parsing.items() if s}
        versions = {name: parser_version(name) for name in FORMATS} | {
            name: f"{name}-{(source_of(self.formats[name]['parser']) or '')[:8]}" for name in self.own_parsers
        }
        return {name: version + (f"+{settings[name]}" if name in settings else "") for name, version in versions.items()}

    @cached_property
    def own_parsers(self) -> dict[str, Parser]:
        """The functions that `formats` names as `package.module:function`, by their format. Raises ConfigError."""
        found = {name: own for name, given in self.formats.items() if (own := given.get("parser")) is not None}
        return {name: _function(f"formats.{name}.parser", own) for name, own in found.items()}

    @property
    def own_modules(self) -> list[str]:
        """The modules of what is the user's own: strategy, parsers, backend."""
        own = [type(self.chunking.strategy)] if ":" in self.chunk.strategy else []
        backend = [self.model.cls] if self.embed and ":" in self.embed.backend else []
        return sorted({thing.__module__ for thing in (*own, *self.own_parsers.values(), *backend)})

    @property
    def text_parsers(self) -> list[str]:
        """Those of `parsers` that give nothing but text, so that a stored text is all they would give. One of the user's may
        give more.
        """
        more = {name for name, options in self.parsing.items() if options.get("images")} | self.own_parsers.keys()
        return [parser for name, parser in self.parsers.items() if name not in more]

    def _unit(self) -> Any:
        if self.chunk.unit != "tokens":
            return self.chunk.unit
        if not self.embed:
            return DEFAULT_TOKENIZER
        from chunkmill.jobs.backends import unit

        return unit(self.embed, self.model)

    def check(self) -> None:
        """Everything that can be wrong before a document is read. Raises ConfigError."""
        for name, options in self.formats.items():
            if name not in self.own_parsers:
                _check_options(name, options)
        if Embed in strategy(self.chunk.strategy, self.chunk.options).needs and not self.embed:
            raise ConfigError(f"the strategy {self.chunk.strategy!r} asks an embedding model; don't switch embedding off")
        _ = self.chunking.limit
        self._check_llm()
        self._check_embedding()
        self._check_places()

    def _check_embedding(self) -> None:
        if not self.embed:
            return
        window = self.window
        if self.embed.pooling == "late":
            from chunkmill.jobs.backends import no_late

            gathers = getattr(self.chunking.strategy, "gather", False)
            if self.chunk.context != "none" or Complete in self.chunking.needs or gathers:
                raise ConfigError(
                    "embed.pooling is 'late': the document is read whole, nothing stands in front of a chunk, and no chunk has "
                    "a text of its own; set chunk.context to none, and give a strategy that asks no language model nor gathers"
                )
            if why := no_late(self.embed, window):
                raise ConfigError(f"embed.pooling is 'late', and {self.embed.model} {why}")

    def _check_llm(self) -> None:
        if self.llm is None:
            if self.asks:
                asks = "chunk.context: llm" if self.chunk.context == "llm" else f"the strategy {self.chunk.strategy!r}"
                raise ConfigError(f"{asks} asks a language model; give llm: {EXAMPLES['llm']}")
            return
        from chunkmill.jobs.llm import checked

        checked(self.llm.base_url)
        if self.llm.max_spend is not None and not self.llm.price_in + self.llm.price_out:
            raise ConfigError("llm.max_spend needs llm.price_in and llm.price_out, what a million tokens cost; give them too")
        if self.llm.max_tokens * 2 > self.llm.window:
            raise ConfigError(f"llm.max_tokens is {self.llm.max_tokens}; llm.window ({self.llm.window}) is at least twice that")

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
            "embed": self.embed and self._described(),
            "parsers": self.parsers,
            **({"topics": self.chunking.strategy.topics.id} if isinstance(self.chunking.strategy, Fitted) else {}),
            **({"llm": self.llm.described()} if self.llm and self.asks else {}),
            **({"part_size": self.run.part_size} if self.run.part_size_mb != PART_SIZE_MB else {}),
        }

    def _described(self) -> dict[str, Any]:
        assert self.embed is not None
        window = self.window
        prompts = {"document": window.document, "query": window.query}
        return self.embed.described() | {"revision": self.model.revision, "prompts": prompts, "embedder": self.embedder}


def late(given: Mapping[str, Any]) -> dict[str, Any]:
    """`strategy: late` is a preset: the strategy that `cut` names (and its settings), and `embed.pooling: late`."""
    chunk = given.get("chunk")
    if not isinstance(chunk, Mapping) or chunk.get("strategy") != "late":
        return dict(given)
    embed = given.get("embed", {})
    if embed is None:
        raise ConfigError("the strategy 'late' needs an embedding model; don't switch embedding off")
    pooling = embed.get("pooling", "late") if isinstance(embed, Mapping) else "late"
    cut = chunk.get("cut", "recursive")
    if pooling != "late" or cut == "late":
        wrong = f"embed.pooling is {pooling!r}" if pooling != "late" else "chunk.cut is 'late' too"
        raise ConfigError(f"chunk.strategy is 'late' and {wrong}; `late` is any cut with embed.pooling: late")
    chunk = {key: value for key, value in chunk.items() if key != "cut"} | {"strategy": cut}
    return {**given, "chunk": chunk, "embed": {**embed, "pooling": "late"} if isinstance(embed, Mapping) else embed}


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    if name not in FORMATS:
        raise choose("a key of formats", name, FORMATS)
    for key, value in options.items():
        if key not in FORMATS[name].options:
            raise choose(f"a key of formats.{name}", key, FORMATS[name].options or ("none: it has no settings",))
        if value is not None:
            checked(f"formats.{name}.{key}", value, OPTIONS.get(key, bool))


def _function(key: str, name: Any) -> Any:
    found = imported(name, key) if isinstance(name, str) and ":" in name else None
    if not callable(found):
        raise ConfigError(
            f"{key} is {name!r}; it must name a function `parse(data, name, options)`, as package.module:function"
        )
    return found


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
        raise ConfigError("; ".join(dict.fromkeys(map(_message, error.errors())))) from None
    job.check()
    return job


class _Loader(yaml.SafeLoader):
    """A key that is given twice is an error: YAML would take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping. Raises YAMLError."""
        keys = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        seen: set[Any] = set()
        for key in keys:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return super().construct_mapping(node, deep)


def _read(path: str) -> dict[str, Any]:
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
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
    said = error["msg"].removeprefix("Value error, ")
    if place.endswith("key_env"):  # what was given may be the key
        return f"{place}: {said}"
    return f"{place} is {error['input']!r}: {said[:1].lower()}{said[1:]}"


PARTS: dict[str, type[BaseModel]] = {
    "chunk": ChunkSettings,
    "embed": EmbedSettings,
    "llm": LlmSettings,
    "prompts": Prompts,
    "resources": ResourceSettings,
    "cpu": CpuSettings,
    "gpu": GpuSettings,
    "run": RunSettings,
}


def _unknown(loc: tuple[Any, ...]) -> str:
    valid: Any = Job
    for part in loc[:-1]:
        valid = PARTS.get(str(part), valid)
    names = sorted(valid.model_fields)
    near = difflib.get_close_matches(str(loc[-1]), names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no setting {'.'.join(map(str, loc))}{hint}; valid here: {', '.join(names)}"
