"""A language model behind an OpenAI-compatible chat endpoint: a hosted one, or one's own server (vLLM, Ollama, transformers…).

urllib3 does the talking, as for embeddings: it is here anyway, and retries, pace and spending must be decided in one place,
which a client that retries by itself would go around. The key comes from an environment variable and goes into one header; it
is in no setting, recipe or message.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3.util import Timeout

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.llm import CONTROL, HIDDEN, Refused, tokens
from chunkmill.chunkers.seams import clean
from chunkmill.jobs import wire
from chunkmill.jobs.answers import Answer, Answers
from chunkmill.jobs.meter import Gate
from chunkmill.jobs.wire import AGAIN, BACKOFF_S, LONGEST_S, REFUSED, SAID

if TYPE_CHECKING:
    from chunkmill.jobs.settings import LlmSettings

# How endpoints word it: OpenAI, Azure, Anthropic, Gemini, Mistral, Groq, vLLM, SGLang, TGI, llama.cpp, Ollama, LM Studio.
TOO_LONG = re.compile(
    r"context.?(length|window|size|limit)|prompt is too long|(input|prompt|text) too long|reduce the length|request too large"
    r"|exceeds? .{0,60}\btokens|max_new_tokens. must be|must have less than \d+ tokens|max_tokens must be at least 1, got -",
    re.I,
)
TOO_LARGE = re.compile("request too large", re.I)  # for what a minute may hold
FORM = re.compile(r"response.?format|json_object|json_schema|json mode", re.I)  # is not known, or not to this model
NO_JSON = re.compile(r"json_validate_failed|failed to generate json", re.I)  # it is known, and this answer came out wrong
FILTERED = re.compile(r"content.?filter|content management policy|content.?policy|input was flagged|data_inspection", re.I)
UNPAID = re.compile(r"insufficient_quota|billing_hard_limit|billing_not_active", re.I)
PATIENCE_S = 300.0  # the most that a server's Retry-After is followed
MOST_BYTES = 16 << 20  # of an answer
PROBE = 'Answer with the JSON object {"ok": true} alone.'
# Kinds of DocumentError: the run stopped asking; no answer after all tries; the endpoint takes no such prompt.
UNASKED, UNANSWERED, UNTAKEN = "unasked", "unanswered", "refused"
CUT = (urllib3.exceptions.HTTPError, OSError)


class Trouble(NamedTuple):
    """Why there is no answer.

    `again` may help; or the prompt is refused, as `too_long`, for its content (`filtered`), or else (`refused`); or nothing
    will help (`fatal`). `after_s`: when the server wants to be asked again. `paid`: the model may have worked for it. `form`:
    it may be for the sake of `response_format`.
    """

    kind: Literal["again", "too_long", "filtered", "refused", "fatal"]
    message: str
    after_s: float | None = None
    paid: bool = False
    form: bool = False


class Asker:
    """Prompts to answers: from the dataset where they are known, else by requests, `threads` at once. Safe for threads.

    Raises DocumentError for a prompt that goes unanswered (`unanswered`), that the endpoint refuses (`refused`), or that was
    not asked because the run is to stop (`unasked`); the meter then knows why. A prompt that is too long for the endpoint, or
    whose content it does not take, has the empty answer Refused.
    """

    def __init__(self, settings: LlmSettings, gate: Gate, answers: Answers, threads: int) -> None:
        self.settings, self.gate, self.answers = settings, gate, answers
        self.pool, self.http = ThreadPoolExecutor(threads), connect(settings, threads)
        self.lock = threading.Lock()
        self.asking: dict[str, Future[str]] = {}  # the same prompt is asked once at a time
        self.takes_form: bool | None = None  # whether the endpoint knows `response_format`; None: nobody has seen yet

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """One answer to each prompt."""
        keys = [key_of(self.settings, p) for p in prompts]
        found = {key: answer.text for key in set(keys) if (answer := self.answers.find(key)) is not None}
        waiting = {key: self._begun(key, p) for key, p in zip(keys, prompts, strict=True) if key not in found}
        if known := sum(key in found for key in keys):
            self.gate.count({"cached": known})
        wait(waiting.values())  # what is under way is paid for, also if another one fails
        found |= {key: future.result() for key, future in waiting.items()}
        return [found[key] for key in keys]

    def _begun(self, key: str, prompt: str) -> Future[str]:
        with self.lock:
            if key not in self.asking:
                self.asking[key] = self.pool.submit(self._answer, key, prompt)
            return self.asking[key]

    def _answer(self, key: str, prompt: str) -> str:
        try:
            if (known := self.answers.find(key)) is not None:  # since it was looked for
                return known.text
            answer = self._asked(prompt)
            if isinstance(answer, Refused):
                return answer
            self.answers.put(key, answer)
            return answer.text
        finally:
            with self.lock:
                del self.asking[key]

    def _asked(self, prompt: str) -> Answer | Refused:
        """The answer, or that the endpoint takes no such prompt. Raises DocumentError."""
        outcome, before = self._tried(prompt)
        if isinstance(outcome, Answer):
            return outcome
        if outcome.kind == "fatal":
            raise self._stop(outcome)
        if outcome.kind == "again":
            if self.gate.succeeded() == before and not isinstance(self._call(PROBE, form=False)[0], Answer):
                raise self._stop(outcome)  # no one is answered
            raise DocumentError(UNANSWERED, f"no answer after {self.settings.max_attempts} tries: {outcome.message}")
        if not self.gate.succeeded() and isinstance(probed := self._tried(PROBE, form=False)[0], Trouble):
            raise self._stop(probed)  # it is not the prompt's fault
        self.gate.count({"too_long" if outcome.kind == "too_long" else "refused": 1})
        if outcome.kind == "refused":
            raise DocumentError(UNTAKEN, f"{self.settings.url} {outcome.message}")
        return Refused(too_long=outcome.kind == "too_long")

    def _tried(self, prompt: str, *, form: bool = True) -> tuple[Answer | Trouble, int]:
        """What comes of as many tries as there may be; and how many calls had succeeded before the last but one."""
        seen: list[int] = []
        for attempt in range(self.settings.max_attempts):
            outcome, succeeded = self._formed(prompt) if form else self._call(prompt, form=False)
            seen.append(succeeded)
            if isinstance(outcome, Answer) or outcome.kind != "again":
                break
            if attempt + 1 < self.settings.max_attempts:
                self._rest(outcome, attempt)
        return outcome, seen[-2:][0]

    def _formed(self, prompt: str) -> tuple[Answer | Trouble, int]:
        """One request; and where that may help one without `response_format`, which not every endpoint knows."""
        form = self.takes_form is not False and "response_format" in self.settings.parameters_sent()
        outcome, succeeded = self._call(prompt, form=form)
        if form and isinstance(outcome, Answer):
            self.takes_form = True
        elif form and isinstance(outcome, Trouble) and outcome.form:
            unknown = not NO_JSON.search(outcome.message)
            outcome, succeeded = self._call(prompt, form=False)
            if unknown and self.takes_form is None and isinstance(outcome, Answer):
                self.takes_form = False
        return outcome, succeeded

    def _call(self, prompt: str, *, form: bool) -> tuple[Answer | Trouble, int]:
        """One request, when its turn comes; and how many had succeeded before."""
        asked = tokens(prompt)
        while (turn := self.gate.admit(asked, self.settings.max_tokens)).state == "wait":
            time.sleep(turn.wait_s)
        if turn.state == "stop":
            raise DocumentError(UNASKED, "the run stopped before this was asked")
        time.sleep(turn.wait_s)
        outcome = post(self.http, self.settings, prompt, form=form)
        if isinstance(outcome, Answer):
            self.gate.settle(turn.ticket, outcome.tokens_in, outcome.tokens_out, answered=True)
        else:
            self.gate.settle(turn.ticket, asked if outcome.paid else 0, 0, answered=False)
        return outcome, turn.succeeded

    def _rest(self, trouble: Trouble, attempt: int) -> None:
        """Wait before the next try: as the server says, and then everyone does, or longer each time."""
        if trouble.after_s:
            self.gate.pause(trouble.after_s * random.uniform(1.0, 1.1))
            return
        time.sleep(min(LONGEST_S, BACKOFF_S * 2**attempt) * random.uniform(0.5, 1.5))

    def _stop(self, trouble: Trouble) -> DocumentError:
        self.gate.stop("run" if trouble.kind == "again" else "config", f"{self.settings.url} {trouble.message}")
        return DocumentError(UNASKED, trouble.message)


def key_of(settings: LlmSettings, prompt: str) -> str:
    """What the answer to a prompt is kept under."""
    return digest(settings.model, json.dumps(settings.parameters_sent(), sort_keys=True), prompt)


def connect(settings: LlmSettings, size: int) -> urllib3.PoolManager:
    """Connections to the endpoint, through the proxy of the environment where there is one."""
    limit = Timeout(connect=min(10.0, settings.timeout_s), read=settings.timeout_s)
    options: dict[str, Any] = {"maxsize": size, "retries": False, "timeout": limit, "block": False}
    return wire.pool(settings.base_url, **options)


def post(http: urllib3.PoolManager, settings: LlmSettings, prompt: str, *, form: bool = True) -> Answer | Trouble:
    """One request, answered within `timeout_s`; with its `response_format` only if `form`."""
    sent = {key: value for key, value in settings.parameters_sent().items() if form or key != "response_format"}
    body = sent | {"model": settings.model, "messages": [{"role": "user", "content": prompt}]}
    try:
        key = wire.secret(settings.key_env, "llm.key_env")
    except ConfigError as error:
        return Trouble("fatal", f"was not asked: {error}")
    until = time.monotonic() + settings.timeout_s
    try:
        answer = http.request(
            "POST",
            settings.url,
            body=json.dumps(body).encode(),
            headers=wire.headers(key),
            preload_content=False,
            redirect=False,
        )
        data = _received(answer, until)
    except urllib3.exceptions.NewConnectionError as error:
        return Trouble("again", f"doesn't answer: {type(error).__name__}")
    except CUT as error:
        return Trouble("again", f"broke off: {type(error).__name__}", paid=True)
    if answer.status == 200 and (failed := _failure(data)) is None:
        return _read(data, prompt)
    status = answer.status if answer.status != 200 else failed or 500
    return _refusal(settings, status, _said(data, key), answer.headers.get("Retry-After"))


def _received(answer: urllib3.BaseHTTPResponse, until: float) -> bytes:
    """The whole body, if it comes in time: a server may send a byte now and then for ever."""
    data = bytearray()
    try:
        while part := answer.read1(1 << 16):
            data += part
            if time.monotonic() > until or len(data) > MOST_BYTES:
                raise TimeoutError("not in time")
    except BaseException:
        answer.close()
        raise
    answer.release_conn()
    return bytes(data)


def _failure(data: bytes) -> int | None:
    """The status in the body of an error that came with status 200, as gateways send them; 0 where it says none."""
    found = _parsed(data)
    if not isinstance(found, dict) or not found.get("error") or found.get("choices"):
        return None
    code = found["error"].get("code") if isinstance(found["error"], dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 0


def _parsed(data: bytes) -> Any:
    """The JSON that a body is; None for any other."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _read(data: bytes, prompt: str) -> Answer | Trouble:
    """The answer in a body; that of a model that declines is empty."""
    try:
        found = json.loads(data)
        choice = found["choices"][0]
        if choice.get("finish_reason") == "content_filter":
            return Trouble("filtered", "filters the answer", paid=True)
        said = choice["message"].get("content") or ""
        text = said if isinstance(said, str) else "".join(part.get("text", "") for part in said)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        return Trouble("again", f"gave an answer that is none ({type(error).__name__})", paid=True)
    usage = found.get("usage") or {}
    text = clean(text)[0]
    return Answer(text, _number(usage, "prompt_tokens", tokens(prompt)), _number(usage, "completion_tokens", tokens(text)))


def _number(usage: Any, name: str, otherwise: int) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < 1 << 30 else otherwise


def _refusal(settings: LlmSettings, status: int, said: str, after: str | None) -> Trouble:
    """What an endpoint means by a status and its words, which are more certain where they are known."""
    words = f"refuses ({status}): {said}"
    if status == 413 or (status in (*REFUSED, 500) and TOO_LONG.search(said)) or (status == 429 and TOO_LARGE.search(said)):
        return Trouble("too_long", f"{words} (llm.window, llm.max_tokens)")
    if status != 401 and FILTERED.search(said):
        return Trouble("filtered", words)
    if status in (401, 403):
        have = f"{said}: is it not accepted" if status == 403 else "is not accepted"
        have = have if os.environ.get(settings.key_env) else "is not set"
        return Trouble("fatal", f"refuses ({status}): the key in {settings.key_env} {have} (llm.key_env)")
    if status in REFUSED:
        return Trouble("refused", words + _hint(settings, said), form=True)
    form = bool(FORM.search(said))
    if status in AGAIN and not UNPAID.search(said):
        return Trouble("again", f"failed ({status}): {said}", seconds(after), form=form)
    if status == 404:
        return Trouble("fatal", f"knows no model {settings.model!r}, or is not the place (404): {said}", form=form)
    return Trouble("fatal", f"answers with status {status}: {said}", form=form)


def _hint(settings: LlmSettings, said: str) -> str:
    """How to leave out the parameter that a refusal names."""
    named = [name for name in settings.parameters_sent() if re.search(rf"\b{re.escape(name)}\b", said)]
    return f" (llm.parameters: {{{named[0]}: null}} leaves it out)" if named else ""


def seconds(after: str | None) -> float | None:
    """A Retry-After header: seconds, or a date; None where it is neither."""
    if not after:
        return None
    try:
        found = float(after)
    except ValueError:
        try:
            found = parsedate_to_datetime(after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(PATIENCE_S, max(0.0, found)) if found == found else None


def _said(data: bytes, key: str) -> str:
    """What an error says, on one line: its message and codes, or else how it begins. Without the key, should it be in there."""
    text = _message(_parsed(data)) or data.decode("utf-8", "replace")
    text = " ".join(HIDDEN.sub("", CONTROL.sub(" ", clean(text)[0])).split())
    return (text.replace(key, "…") if key else text)[:SAID]


def _message(found: Any) -> str:
    """The words of an error in any of the forms that servers have for it: an object, a list of one, or under `error`."""
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict) and found.get("error"):
        found = found["error"]
    if not isinstance(found, dict):
        return found if isinstance(found, str) else ""
    words = [found.get(name) for name in ("message", "code", "type", "param")]
    said = [word for word in words if isinstance(word, str) and word.strip()]
    return " · ".join(said) if isinstance(words[0], str) else ""


def checked(base_url: str) -> None:
    """ConfigError if the address is none, or holds a secret."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"llm.base_url is {base_url!r}; give the address up to /v1, as https://host/v1")
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            "llm.base_url holds a name, a password or a query; the key belongs in the variable that llm.key_env names"
        )


def ended(found: dict[str, Any], remain: int, of: int) -> RunError | ConfigError:
    """The error of a run that stopped asking."""
    kind, message = found["stopped"]
    rest = (
        f"{message}. {remain:,} of {of:,} sources remain; nothing was published, and what is finished is kept: "
        + {"spend": "with a higher llm.max_spend", "run": "later"}.get(kind, "with that put right")
        + " the same command goes on from there"
    )
    return ConfigError(rest) if kind == "config" else RunError(rest)
