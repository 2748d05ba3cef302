"""The table of what makes vectors: adding one is a class and a line here. Nothing here loads torch before a model is loaded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError, choose
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.measure import Tokenizer, tokenizer
from chunkmill.chunkers.strategies import imported
from chunkmill.jobs import models, tokens
from chunkmill.jobs.endpoint import Endpoint, EndpointModel, checked
from chunkmill.jobs.models import Window
from chunkmill.jobs.windows import Reading

if TYPE_CHECKING:
    from chunkmill.jobs.settings import EmbedSettings

ENDPOINT_LIMIT, ENDPOINT_TOKENIZER = 8_191, "cl100k_base"  # what OpenAI's models read, and count by
VERSION = 1  # of how vectors are made here: another one, and none of before is reused


class Model(Protocol):
    """A loaded model. `reads_ids`: it is given ids that the CPU stage made, and no texts. `seconds`: spent computing so far."""

    reads_ids: bool
    dimension: int
    seconds: float

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dimension), rows of unit length; row i is the vector of texts[i]."""
        ...

    def read(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> Vectors:
        """The same for texts, or their ids, that all differ."""
        ...

    def beyond(self, sizes: Sequence[int]) -> list[bool]:
        """Whether a text of so many ids (or units) is more than the model reads at once."""
        ...


class LateModel(Model, Protocol):
    """A model that can also read a document whole."""

    def late(self, documents: Sequence[Reading]) -> list[Vectors]:
        """Of each document the vectors of its chunks."""
        ...


class Backend(NamedTuple):
    """`find`: what the settings mean, cheaply, or ConfigError; `window`: what that reads; `unit`: what its tokenizer is found
    by; `decides`: what of it decides a vector; `load`: the model, in an actor. `local`: it computes here, from ids.
    """

    find: Callable[[EmbedSettings], Any]
    window: Callable[[EmbedSettings, Any], Window]
    unit: Callable[[EmbedSettings, Any], Any]
    decides: Callable[[EmbedSettings, Any], Any]
    load: Callable[..., Model]
    local: bool


def backend(name: str) -> Backend:
    """The backend of this name, or that of the user's own classes for a `package.module:Class`. Raises ConfigError."""
    if ":" in name:
        return OWN
    if name not in BACKENDS:
        raise choose("embed.backend", name, BACKENDS)
    return BACKENDS[name]


def window(embed: EmbedSettings, found: Any) -> Window:
    """What the model reads on this machine: the prompts and the length are those of the settings where they say so."""
    known = backend(embed.backend).window(embed, found)
    most = known.positions or embed.max_length
    if embed.max_length and most and embed.max_length > most:
        raise ConfigError(f"embed.max_length is {embed.max_length}, and {embed.model} has {most} positions")
    document, query = embed.prompts.document, embed.prompts.query
    return replace(
        known,
        limit=embed.max_length or known.limit,
        document=known.document if document is None else document,
        query=known.query if query is None else query,
    )


def unit(embed: EmbedSettings, found: Any) -> Tokenizer:
    """The tokens of the model as a unit of size: special tokens and prompt count."""
    return tokens.unit(backend(embed.backend).unit(embed, found), window(embed, found).document)


def encoder(embed: EmbedSettings, found: Any) -> tokens.Encoder | None:
    """What makes the ids that the model is given; None where it is given texts."""
    known = window(embed, found)
    return tokens.encoder(known.tokenizer_file, known.document) if backend(embed.backend).local else None


def decides(embed: EmbedSettings, found: Any) -> dict[str, Any]:
    """Exactly what decides a vector from a text."""
    known = window(embed, found)
    return {
        "version": VERSION,
        "backend": embed.backend,
        "model": backend(embed.backend).decides(embed, found),
        "prompt": known.document,
        "limit": known.limit,
        "pooling": embed.pooling,
        "overflow": embed.overflow,
        "dtype": embed.dtype,
    }


def embedder(embed: EmbedSettings, found: Any) -> str:
    """A hash of exactly what decides a vector from a text: vectors of equal ones are interchangeable."""
    return digest(json.dumps(decides(embed, found), sort_keys=True))[:16]


def load(
    embed: EmbedSettings, found: Any, *, query: bool = False, device: str | None = None, threads: int | None = None
) -> Any:
    """The model, ready to embed documents or queries."""
    known = window(embed, found)
    prompt = known.query if query else known.document
    return backend(embed.backend).load(embed, found, known, prompt, device=device, threads=threads)


def no_late(embed: EmbedSettings, known: Window) -> str:
    """Why a model's token states can't be pooled under chunks; empty if they can."""
    if not backend(embed.backend).local:
        return "is behind an endpoint or a class of yours, which gives whole vectors and no token states"
    if known.pooling != "mean":
        return (
            f"makes its vector by {known.pooling!r} pooling: a text's meaning is elsewhere than in the mean of its token "
            "states, so a mean over a chunk's tokens would be none. Take a model with mean pooling, or embed.pooling: chunk"
        )
    return ""


def _find_files(embed: EmbedSettings) -> models.ModelRef:
    if embed.base_url or embed.tokenizer or embed.dimensions:
        raise ConfigError("embed.base_url, embed.tokenizer and embed.dimensions are for an endpoint: set embed.backend: openai")
    return models.resolve(embed.model, embed.revision, trusted=embed.trust_remote_code)


def _load_files(
    embed: EmbedSettings, ref: models.ModelRef, known: Window, prompt: str, *, device: str | None, threads: int | None
) -> Model:
    from chunkmill.jobs.transformer import SentenceTransformersModel

    return SentenceTransformersModel(
        ref,
        device=device,
        threads=threads,
        overflow=embed.overflow,
        tokens_per_batch=embed.batch_tokens,
        dtype=embed.dtype,
        limit=known.limit,
        prompt=prompt,
    )


def _find_endpoint(embed: EmbedSettings) -> Endpoint:
    if not embed.base_url:
        raise ConfigError("embed.backend is 'openai'; give embed.base_url too, as https://api.openai.com/v1")
    if "model" not in embed.model_fields_set:
        raise ConfigError("embed.backend is 'openai'; give embed.model too, the name by which the endpoint knows it")
    if embed.revision:
        raise ConfigError("embed.revision can't be checked of an endpoint; leave it out")
    found = Endpoint(embed.model, embed.base_url, embed.key_env, embed.dimensions, embed.timeout_s)
    return checked(found)


def _load_endpoint(
    embed: EmbedSettings, endpoint: Endpoint, known: Window, prompt: str, *, device: str | None, threads: int | None
) -> Model:
    return EndpointModel(
        endpoint,
        unit=known.tokenizer_file,
        limit=known.limit,
        overflow=embed.overflow,
        prompt=prompt,
        batch_texts=embed.batch_texts,
        batch_tokens=embed.batch_tokens,
        concurrency=embed.concurrency,
    )


def _endpoint_window(embed: EmbedSettings, endpoint: Endpoint) -> Window:
    name = embed.tokenizer or ENDPOINT_TOKENIZER
    return Window(ENDPOINT_LIMIT, tokenizer(name).specials, embed.dimensions or 0, name)


class Own(NamedTuple):
    """A class of the user's own, and a hash of its module."""

    cls: Any
    revision: str


class OwnModel:
    """An object of the user's, as a model: it is given texts it has room for, and its vectors are brought to unit length."""

    reads_ids = False

    def __init__(self, own: Any, unit: Tokenizer, limit: int, prompt: str) -> None:
        self.own, self.unit, self.prompt, self.seconds = own, unit, prompt, 0.0
        self.limit = limit
        self.room = limit - unit.specials - unit.count([prompt])[0]
        self.dimension = self.read(["a"], ()).shape[1]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dimension), rows of unit length."""
        rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return self.read(list(rows), ())[[rows[text] for text in texts]]

    def read(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> Vectors:
        """The same for texts that all differ. Raises DocumentError for one that is too long."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        if True in self.beyond(sizes := self.sizes(texts)):
            raise DocumentError(
                "too_large", f"a text of {max(sizes)} tokens; {type(self.own).__name__} reads {self.limit} at once"
            )
        began = time.perf_counter()
        found = np.asarray(self.own.embed([self.prompt + text for text in texts]), np.float32)
        self.seconds += time.perf_counter() - began
        if found.ndim != 2 or len(found) != len(texts) or not (lengths := np.linalg.norm(found, axis=1)).all():
            raise RunError(f"{type(self.own).__name__}.embed gave {found.shape} for {len(texts)} texts, or a vector of zeros")
        vectors: Vectors = found / lengths[:, None]
        return vectors

    def sizes(self, texts: Sequence[str]) -> list[int]:
        """Units of each text, without prompt and special tokens."""
        return self.unit.count(list(texts))

    def beyond(self, sizes: Sequence[int]) -> list[bool]:
        """Whether a text of so many units is longer than what the model reads at once."""
        return [size > self.room for size in sizes]


def _find_own(embed: EmbedSettings) -> Own:
    from chunkmill.jobs.config import source_of

    cls = imported(embed.backend, "embed.backend")
    if not callable(getattr(cls, "embed", None)):
        raise ConfigError(f"embed.backend is {embed.backend!r}; it must name a class with `embed(self, texts)`")
    return Own(cls, source_of(embed.backend) or "")


def _own_tokenizer(embed: EmbedSettings, found: Own) -> str:
    return embed.tokenizer or getattr(found.cls, "tokenizer", ENDPOINT_TOKENIZER)


def _own_window(embed: EmbedSettings, found: Own) -> Window:
    name = _own_tokenizer(embed, found)
    return Window(getattr(found.cls, "limit", ENDPOINT_LIMIT), tokenizer(name).specials, 0, name)


def _load_own(
    embed: EmbedSettings, found: Own, known: Window, prompt: str, *, device: str | None, threads: int | None
) -> Model:
    return OwnModel(found.cls(embed.model), tokenizer(known.tokenizer_file), known.limit, prompt)


OWN = Backend(
    _find_own,
    window=_own_window,
    unit=_own_tokenizer,
    decides=lambda embed, found: [embed.model, found.revision, embed.tokenizer],
    load=_load_own,
    local=False,
)
BACKENDS: dict[str, Backend] = {
    "sentence-transformers": Backend(
        _find_files,
        window=lambda embed, ref: models.window(ref),
        unit=lambda embed, ref: ref,
        decides=lambda embed, ref: ref.revision,
        load=_load_files,
        local=True,
    ),
    "openai": Backend(
        _find_endpoint,
        window=_endpoint_window,
        unit=lambda embed, endpoint: embed.tokenizer or ENDPOINT_TOKENIZER,
        decides=lambda embed, endpoint: [endpoint.url, endpoint.name, endpoint.dimensions, embed.tokenizer],
        load=_load_endpoint,
        local=False,
    ),
}
