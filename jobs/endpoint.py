"""A model behind an OpenAI-compatible embeddings endpoint: a hosted one, or one's own server (vLLM, TEI, Ollama, …).

urllib3 does the talking (boto3 brings it along): it knows Retry-After, back-off with jitter and timeouts, also for a body that
is cut off. The key comes from an environment variable and goes into one header; it is in no setting, recipe or message.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import urllib3
from urllib3.util import Retry, Timeout

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.chunkers.measure import Tokenizer, tokenizer
from chunkmill.jobs import windows, wire
from chunkmill.jobs.wire import AGAIN, BACKOFF_S, LONGEST_S, REFUSED, SAID

RETRIES = 6
BATCH_TOKENS = 100_000  # in one request, unless set


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served and under which name; `key_env` names the variable that holds the key, if one is needed."""

    name: str
    base_url: str
    key_env: str = "OPENAI_API_KEY"
    dimensions: int | None = None
    timeout_s: float = 60.0
    retries: int = RETRIES
    revision: str = ""

    @property
    def url(self) -> str:
        """Where the embeddings are."""
        return self.base_url.rstrip("/") + "/embeddings"


class EndpointModel:
    """Texts to vectors by requests, a few at a time, each of so many texts and tokens.

    A text longer than `limit` units of the tokenizer is embedded by pooled windows, refused or cut, as `overflow` says.
    `dimension` is found by one request at the start. `seconds` sums the time spent waiting for answers.
    """

    reads_ids = False

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        unit: str | Tokenizer = "cl100k_base",
        limit: int = 8_191,
        overflow: str = "pool",
        prompt: str = "",
        batch_texts: int = 256,
        batch_tokens: int | None = None,
        concurrency: int = 4,
    ) -> None:
        self.endpoint, self.overflow, self.prompt = endpoint, overflow, prompt
        self.unit = tokenizer(unit) if isinstance(unit, str) else unit
        self.room = limit - self.unit.specials - self.unit.count([prompt])[0]
        self.limit, self.batch_texts, self.batch_tokens = limit, batch_texts, batch_tokens or BATCH_TOKENS
        self.concurrency, self.seconds = concurrency, 0.0
        self.pool = connect(endpoint, concurrency)
        self.dimension = 0
        self.dimension = self.ask([prompt + "a"]).shape[1]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dimension), rows of unit length. DocumentError for a text that overflows or is refused."""
        rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return self.read(list(rows), ())[[rows[text] for text in texts]]

    def beyond(self, sizes: Sequence[int]) -> list[bool]:
        """Whether a text of so many units is longer than what the model reads at once."""
        return [size > self.room for size in sizes]

    def sizes(self, texts: Sequence[str]) -> list[int]:
        """Units of each text, without prompt and special tokens."""
        return self.unit.count(list(texts))

    def read(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> Vectors:
        """Float32 (len(texts), dimension): the vectors of the texts; `ids` are not looked at."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        parts = [self.windows(text, size) for text, size in zip(texts, self.sizes(texts), strict=True)]
        flat = list(chain.from_iterable(parts))
        began = time.perf_counter()
        with ThreadPoolExecutor(self.concurrency) as threads:
            answers = np.concatenate(list(threads.map(self.ask, self.requests(flat))))
        self.seconds += time.perf_counter() - began
        owner = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
        sums = np.zeros((len(parts), self.dimension), np.float32)
        np.add.at(sums, owner, answers)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise RunError(f"{self.endpoint.url}: vectors of {self.endpoint.name} that have no length")
        vectors: Vectors = sums / lengths
        return vectors

    def windows(self, text: str, size: int) -> list[str]:
        """The text behind the prompt: at once, or in overlapping windows of the limit where it is longer."""
        if size <= self.room:
            return [self.prompt + text]
        if self.overflow == "error":
            raise DocumentError("too_large", f"a text of {size} tokens; {self.endpoint.name} reads {self.limit} at once")
        marks = self.unit.starts(text)
        at = [*(range(len(text)) if marks is None else marks.tolist()), len(text)]
        room = max(1, self.room - 2)  # a slice may have a token more at each end
        starts = windows.begins(len(at) - 1, room) if self.overflow == "pool" else [0]
        return [self.prompt + text[at[s] : at[min(s + room, len(at) - 1)]] for s in starts]

    def requests(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts in order, in lists that keep to the number of texts and of tokens."""
        batch: list[str] = []
        held = 0
        for text, size in zip(texts, self.sizes(texts), strict=True):
            if batch and (len(batch) == self.batch_texts or held + size > self.batch_tokens):
                yield batch
                batch, held = [], 0
            batch.append(text)
            held += size
        if batch:
            yield batch

    def ask(self, texts: list[str]) -> Vectors:
        """One request: float32 (len(texts), dimension), as the server gives them. Raises for an answer that doesn't fit."""
        body = {"model": self.endpoint.name, "input": texts, "encoding_format": "float"}
        if self.endpoint.dimensions:
            body["dimensions"] = self.endpoint.dimensions
        for _ in range(2):  # a malformed answer is asked for once more
            status, answer = post(self.pool, self.endpoint, body)
            if status in REFUSED and self.dimension:
                if len(texts) > 1:
                    half = len(texts) // 2
                    return np.concatenate([self.ask(texts[:half]), self.ask(texts[half:])])
                raise DocumentError("refused", f"{self.endpoint.url} refused a text ({status}): {said(answer)}")
            if status != 200:
                raise refusal(self.endpoint, status, answer)
            vectors, wrong = read(answer, len(texts))
            if not wrong:
                break
        else:
            raise RunError(f"{self.endpoint.url}: {wrong}")
        if self.dimension and vectors.shape[1] != self.dimension:
            raise RunError(
                f"{self.endpoint.url} gave vectors of {vectors.shape[1]} numbers, and of {self.dimension} before: "
                f"is {self.endpoint.name} still the same model?"
            )
        return vectors


def checked(endpoint: Endpoint) -> Endpoint:
    """The endpoint, if its address is one. Raises ConfigError."""
    parts = urlsplit(endpoint.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"embed.base_url is {endpoint.base_url!r}; give the address up to /v1, as https://host/v1")
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            "embed.base_url holds a name, a password or a query; give the key in the variable that embed.key_env names"
        )
    return endpoint


def connect(endpoint: Endpoint, size: int) -> urllib3.PoolManager:
    """Connections to the endpoint, through the proxy of the environment where there is one."""
    retry = Retry(
        endpoint.retries,
        allowed_methods=None,
        status_forcelist=AGAIN,
        backoff_factor=BACKOFF_S,
        backoff_max=LONGEST_S,
        backoff_jitter=BACKOFF_S,
        retry_after_max=int(LONGEST_S),
        redirect=0,
        raise_on_status=False,
    )
    options: dict[str, Any] = {"maxsize": size, "retries": retry, "timeout": Timeout(connect=10, read=endpoint.timeout_s)}
    return wire.pool(checked(endpoint).base_url, **options)


def post(pool: urllib3.PoolManager, endpoint: Endpoint, body: dict[str, Any]) -> tuple[int, bytes]:
    """Status and body of the answer, after retries. Raises RunError where none comes."""
    headers = wire.headers(wire.secret(endpoint.key_env, "embed.key_env"))
    try:
        answer = pool.request("POST", endpoint.url, body=json.dumps(body).encode(), headers=headers)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise RunError(f"{endpoint.url} doesn't answer after {endpoint.retries + 1} tries: {type(reason).__name__}") from None
    return answer.status, answer.data


def refusal(endpoint: Endpoint, status: int, answer: bytes) -> ConfigError | RunError:
    """What a status means for the user."""
    if status in (401, 403):
        have = "is not accepted" if os.environ.get(endpoint.key_env) else "is not set"
        return ConfigError(f"{endpoint.url} refuses ({status}): the key in {endpoint.key_env} {have} (embed.key_env)")
    if status == 404:
        return ConfigError(f"{endpoint.url} knows no model {endpoint.name!r}, or is not the place (404): {said(answer)}")
    if status in REFUSED:
        return ConfigError(f"{endpoint.url} refuses ({status}): {said(answer)}")
    return RunError(f"{endpoint.url} failed {endpoint.retries + 1} times ({status}): {said(answer)}")


def read(answer: bytes, number: int) -> tuple[Vectors, str]:
    """The vectors of an answer in the order of the request; and what is wrong with it, empty if nothing."""
    nothing = np.empty((0, 0), np.float32)
    try:
        items = sorted(json.loads(answer)["data"], key=lambda item: int(item["index"]))
        rows = [decoded(item["embedding"]) for item in items]
    except (ValueError, KeyError, TypeError) as error:
        return nothing, f"an answer that is none ({type(error).__name__}): {said(answer)}"
    if [int(item["index"]) for item in items] != list(range(number)):
        return nothing, f"{len(rows)} vectors for {number} texts"
    if len({row.shape for row in rows}) != 1 or rows[0].ndim != 1 or not len(rows[0]):
        return nothing, "vectors of several widths in one answer"
    vectors = np.stack(rows)
    return vectors, "" if np.isfinite(vectors).all() else "vectors that aren't finite"


def decoded(embedding: Any) -> Vectors:
    """An embedding's numbers: a list, or the base64 form of float32 that some servers prefer."""
    return np.array(np.frombuffer(base64.b64decode(embedding), "<f4") if isinstance(embedding, str) else embedding, np.float32)


def said(answer: bytes) -> str:
    """The beginning of an answer, on one line."""
    return " ".join(answer.decode("utf-8", "replace").split())[:SAID]
