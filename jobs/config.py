"""One schema for the job file and the flags: what a job is, checked before anything runs."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from chunkmill.chunkers.api import chunking
from chunkmill.chunkers.base import Complete, Embed
from chunkmill.chunkers.errors import ConfigError, choose
from chunkmill.chunkers.finish import Chunking, digest
from chunkmill.chunkers.llm import fitted
from chunkmill.chunkers.strategies import checked, imported, strategy
from chunkmill.io.parsers import FORMATS, Parser, parser_version
from chunkmill.io.parsers.formats import OPTIONS
from chunkmill.io.parsers.limits import Limits
from chunkmill.io.storage import locate

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_TOKENIZER = "cl100k_base"
PART_SIZE_MB, SMALLEST_PART = 32, 1 << 10
EXAMPLES = {
    "chunk": "{strategy: recursive}",
    "embed": "{model: NAME}, or null for no vectors",
    "llm": "{base_url: URL, model: NAME}",
    "run": "{keep_text: true}",
}


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
    context: Literal["none", "headings", "llm"] = "none"
    min_size: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The strategy's own settings."""
        return dict(self.model_extra or {})


class Prompts(Settings):
    """`embed.prompts`: what stands in front of every document and every query; nothing: what the model asks for."""

    document: str | None = None
    query: str | None = None


def variable(value: str) -> str:
    """The name of an environment variable, as far as it can be one: a key that was pasted there is not."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("give the name of the environment variable that holds the key, such as OPENAI_API_KEY, not the key")
    return value


Variable = Annotated[str, AfterValidator(variable)]


class EmbedSettings(Settings):
    """`embed`: the model the vectors come from, and how it is used."""

    model: str = DEFAULT_MODEL
    backend: str = "sentence-transformers"
    revision: str | None = None
    prompts: Prompts = Prompts()
    pooling: Literal["chunk", "late"] = "chunk"
    overflow: Literal["pool", "error", "truncate"] = "pool"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_length: int | None = Field(default=None, gt=0)
    trust_remote_code: bool = False
    batch_tokens: int | None = Field(default=None, gt=0)
    # of an endpoint
    base_url: str | None = None
    key_env: Variable = "OPENAI_API_KEY"
    tokenizer: str | None = None
    dimensions: int | None = Field(default=None, gt=0)
    batch_texts: int = Field(default=256, gt=0)
    concurrency: int = Field(default=4, gt=0)
    timeout_s: float = Field(default=60, gt=0)

    def described(self) -> dict[str, Any]:
        """Those that may decide a vector, or that are needed to make one for a query."""
        return self.model_dump(mode="json", exclude={"batch_tokens", "batch_texts", "concurrency", "timeout_s"})


class LlmSettings(Settings):
    """`llm`: the language model that strategies and contexts ask, and what it may cost.

    `window`: the tokens that it reads and writes at once; `price_in`, `price_out`: per million tokens, in the money of
    `max_spend`; `concurrency`: calls under way in the whole job; `parameters`: more of the request's (null leaves one out).
    JSON is asked for as `response_format` too, where the endpoint knows it.
    """

    base_url: str
    model: str
    key_env: Variable = "OPENAI_API_KEY"
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    max_spend: float | None = Field(default=None, ge=0)
    price_in: float = Field(default=0, ge=0)
    price_out: float = Field(default=0, ge=0)
    concurrency: int = Field(default=16, gt=0)
    timeout_s: float = Field(default=120, gt=0)
    max_attempts: int = Field(default=6, gt=0)
    window: int = Field(default=8192, ge=1024)
    max_tokens: int = Field(default=2048, gt=0)
    temperature: float = Field(default=0.0, ge=0)
    parameters: dict[str, Any] = {}

    @field_validator("parameters")
    @classmethod
    def _more(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [name for name in ("model", "messages", "stream", "n") if name in value]:
            raise ValueError(f"{taken[0]} is set by the run itself; drop it")
        return value

    @property
    def url(self) -> str:
        """Where the chat completions are."""
        return self.base_url.rstrip("/") + "/chat/completions"

    @property
    def room(self) -> int:
        """About how many tokens of a document a prompt may hold: the rest is for instructions, a chunk, and the answer."""
        return max(256, (self.window - self.max_tokens) * 3 // 4)

    @property
    def bounded(self) -> bool:
        """Whether a call must wait for its turn."""
        return any(x is not None for x in (self.requests_per_minute, self.tokens_per_minute, self.max_spend))

    def parameters_sent(self) -> dict[str, Any]:
        """What is sent beside model and prompt."""
        plain = {"temperature": self.temperature, "max_tokens": self.max_tokens, "response_format": {"type": "json_object"}}
        sent = plain | self.parameters
        return {name: value for name, value in sent.items() if value is not None}

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """What so many tokens cost."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6

    def described(self) -> dict[str, Any]:
        """What decides an answer, and what is asked."""
        from chunkmill.chunkers import standin

        return {"model": self.model, "parameters": self.parameters_sent(), "room": self.room, "prompts": standin.version()}


class CpuSettings(Settings):
    """`resources.cpu`: what a task takes that reads, parses and cuts, and how many of them run at once."""

    num_cpus: float = Field(default=1, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    concurrency: int | None = Field(default=None, gt=0)


class GpuSettings(Settings):
    """`resources.gpu`: what an actor takes that embeds (a share of a GPU lets several have it), and how many there are.

    Without a GPU `memory_mb` and `concurrency` hold for the actors that embed on CPUs.
    """

    num_gpus: float = Field(default=1, gt=0, le=1)
    num_cpus: float = Field(default=0, ge=0)
    memory_mb: int | None = Field(default=None, gt=0)
    concurrency: Annotated[int, Field(gt=0)] | tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] | None = None


class ResourceSettings(Settings):
    """`resources`: what the stages take of a machine; nothing here changes a chunk."""

    cpu: CpuSettings = CpuSettings()
    gpu: GpuSettings = GpuSettings()


class RunSettings(Settings):
    """`run`: how the run behaves; nothing here changes a chunk but `part_size_mb`, that of a document which is larger."""

    keep_text: bool = True
    max_file_bytes: int = Field(default=1 << 30, gt=0)
    max_inflated_bytes: int = Field(default=2 << 30, gt=0)
    document_timeout_s: float = Field(default=120, gt=0)
    document_memory_mb: int | None = Field(default=None, ge=256)
    isolate: bool = True
    max_error_share: float = Field(default=1.0, ge=0, le=1)
    retry: Literal["never", "transient", "all"] = "transient"
    verify: bool = False
    retention: str = "7d"
    allow_empty: bool = False
    cpus: int | None = Field(default=None, gt=0)
    part_size_mb: float = Field(default=PART_SIZE_MB, gt=0)

    @field_validator("retention", mode="before")
    @classmethod
    def _span(cls, value: object) -> str:
        if not re.fullmatch(r"0|\d+[dhms]", str(value)):
            raise ValueError("give a time such as 7d, 12h or 0")
        return str(value)

    @property
    def retention_s(self) -> int:
        """How long old versions stay readable, in seconds; 0: not at all."""
        return int(self.retention.rstrip("dhms")) * {"d": 86_400, "h": 3_600, "m": 60}.get(self.retention[-1], 1)

    @property
    def part_size(self) -> int:
        """The code points of text that travel in one row at most."""
        return max(SMALLEST_PART, int(self.part_size_mb * (1 << 20)))

    @property
    def limits(self) -> Limits:
        """What one source may unfold to."""
        return Limits(inflated_bytes=self.max_inflated_bytes)


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
    formats: dict[str, FormatSettings] = {}
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
        exact = self.embed.dtype == "auto" and Embed in self.chunking.needs
        return self.embed.model_copy(update={"dtype": "float32"}) if exact else self.embed

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
        if self.llm and Complete in made.needs:
            made = replace(made, strategy=fitted(made.strategy, self.llm.room), context_window=self.llm.room)
        return made

    @property
    def keeps_apart(self) -> bool:
        """Whether tables and pictures are pieces of their own: the strategy is `modality`, or one of its levels is."""
        return "modality" in json.dumps(self.chunk.model_dump(mode="json"))

    @property
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

            if self.chunk.context != "none" or Complete in self.chunking.needs:
                raise ConfigError(
                    "embed.pooling is 'late': the document is read whole, nothing stands in front of a chunk, and no chunk has "
                    "a text of its own; set chunk.context to none, and a strategy that asks no language model"
                )
            if why := no_late(self.embed, window):
                raise ConfigError(f"embed.pooling is 'late', and {self.embed.model} {why}")

    def _check_llm(self) -> None:
        if self.llm is None:
            if self.asks:
                asks = "chunk.context is 'llm'" if self.chunk.context == "llm" else f"the strategy {self.chunk.strategy!r}"
                raise ConfigError(f"{asks}, which asks a language model; give llm: {EXAMPLES['llm']}")
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
        raise ConfigError("; ".join(_message(e) for e in error.errors())) from None
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
