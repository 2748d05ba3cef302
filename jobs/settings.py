"""The sections of a job file: what may stand in each, and what it says when it is left out."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from chunkmill.io.parsers.limits import Limits

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_TOKENIZER = "cl100k_base"
PART_SIZE_MB, SMALLEST_PART = 32, 1 << 10


class Settings(BaseModel):
    """A part of a job file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Count = Annotated[int, Field(strict=True)]  # `true` is no number, and 1.5 no whole one


class ChunkSettings(BaseModel):
    """`chunk`: the strategy, what all strategies share, and (as further keys) the strategy's own settings."""

    model_config = ConfigDict(extra="allow", frozen=True)

    strategy: str = "recursive"
    size: Count = 512
    overlap: Count | str = "12.5%"
    unit: str = "tokens"
    context: Literal["none", "headings", "llm"] = "none"
    min_size: Count = 0

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

    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    backend: str = "sentence-transformers"
    revision: str | None = None
    prompts: Prompts = Prompts()
    pooling: Literal["chunk", "late"] = "chunk"
    overflow: Literal["pool", "error", "truncate"] = "pool"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_length: int | None = Field(default=None, gt=0, strict=True)
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
