"""The OpenAI-compatible endpoint, against a server that behaves as servers do: well, busy, broken, slow, cut off, wrong."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.io import table
from chunkmill.jobs import endpoint as module
from chunkmill.jobs import pipeline
from chunkmill.jobs.config import load
from chunkmill.jobs.endpoint import Endpoint, EndpointModel

DIMENSION = 8


def vector(text: str, dimension: int = DIMENSION) -> list[float]:
    """What the server makes of a text: not of unit length."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
    return (3 * np.random.default_rng(seed).standard_normal(dimension)).tolist()


def unit(texts: list[str]) -> np.ndarray:
    found = np.array([vector(t) for t in texts], np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@dataclass
class Server:
    """`plans` say what happens to the next requests, one each: a function of the handler and the texts; then all goes well."""

    url: str = ""
    plans: list[Callable[[Any, list[str]], None]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    dimension: int = DIMENSION

    @property
    def texts(self) -> list[list[str]]:
        """Of each request what it asked for, without the probe."""
        return [r["input"] for r in self.requests if r["input"] != ["a"]]


def reply(handler: Any, status: int, body: Any, **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def good(handler: Any, texts: list[str], dimension: int = DIMENSION) -> None:
    data = [{"index": i, "embedding": vector(t, dimension)} for i, t in enumerate(texts)]
    reply(handler, 200, {"data": data[::-1]})  # in whatever order


def status(code: int, **headers: str) -> Callable[[Any, list[str]], None]:
    return lambda handler, texts: reply(handler, code, {"error": {"message": "the server's own words"}}, **headers)


def says(body: Any) -> Callable[[Any, list[str]], None]:
    return lambda handler, texts: reply(handler, 200, body)


def cut(handler: Any, texts: list[str]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "10000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


def slow(handler: Any, texts: list[str]) -> None:
    time.sleep(1.0)
    good(handler, texts)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "BACKOFF_S", 0.01)
    state, lock = Server(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                state.requests.append(request)
                state.headers.append(dict(self.headers))
                state.times.append(time.monotonic())
                is_probe = request["input"] == ["a"] and len(state.requests) == 1
                plan = state.plans.pop(0) if state.plans and not is_probe else None
            if plan is None:
                good(self, request["input"], state.dimension)
            else:
                plan(self, request["input"])

        def log_message(self, *args: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{listening.server_port}/v1"
    yield state
    listening.shutdown()
    listening.server_close()


def model(server: Server, **options: Any) -> EndpointModel:
    where = {name: options.pop(name) for name in ("timeout_s", "retries", "dimensions", "key_env") if name in options}
    return EndpointModel(Endpoint("some-model", server.url, **where), **{"unit": "words", "concurrency": 1} | options)


def test_vectors_come_in_order_of_unit_length_and_each_text_once(server: Server) -> None:
    this = model(server)

    vectors = this.embed(["one", "two", "one", "three"])

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, unit(["one", "two", "one", "three"]), atol=1e-6)
    assert server.texts == [["one", "two", "three"]]
    assert (this.dimension, this.embed([]).shape) == (DIMENSION, (0, DIMENSION))
    assert this.seconds > 0


def test_requests_keep_to_the_number_of_texts_and_of_tokens(server: Server) -> None:
    texts = [" ".join([f"w{i}"] * (i % 5 + 1)) for i in range(20)]

    vectors = model(server, batch_texts=4, batch_tokens=9, concurrency=3).embed(texts)

    np.testing.assert_allclose(vectors, unit(texts), atol=1e-6)
    assert sorted(t for batch in server.texts for t in batch) == sorted(texts)
    assert max(map(len, server.texts)) <= 4
    assert max(len(" ".join(batch).split()) for batch in server.texts) <= 9


@pytest.mark.parametrize("trouble", [status(500), status(503), cut, slow, says(b"<html>"), says({"data": []})])
def test_what_passes_is_tried_again(server: Server, trouble: Callable[[Any, list[str]], None]) -> None:
    server.plans = [trouble]

    vectors = model(server, timeout_s=0.4).embed(["one", "two"])

    np.testing.assert_allclose(vectors, unit(["one", "two"]), atol=1e-6)
    assert len(server.texts) == 2


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(server: Server) -> None:
    server.plans = [status(429, Retry_After="1")]

    model(server).embed(["one"])

    assert server.times[2] - server.times[1] >= 1.0


def test_tries_have_an_end_and_the_error_says_what_the_server_said(server: Server) -> None:
    server.plans = [status(429)] * 10

    with pytest.raises(RunError, match=r"/v1/embeddings failed 3 times \(429\): .*the server's own words"):
        model(server, retries=2).embed(["one"])
    assert len(server.texts) == 3


def test_a_server_that_is_not_there(server: Server) -> None:
    gone = Endpoint("m", "http://127.0.0.1:9/v1", retries=1)

    with pytest.raises(RunError, match="doesn't answer after 2 tries: NewConnectionError"):
        EndpointModel(gone, unit="words")


def test_a_cut_off_body_every_time(server: Server) -> None:
    server.plans = [cut] * 9

    with pytest.raises(RunError, match="doesn't answer after 3 tries"):
        model(server, retries=2).embed(["one"])


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"nonsense", "an answer that is none .*nonsense"),
        ({"data": [{"index": 0, "embedding": vector("x")}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]}, "2 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "several widths"),
        ({"data": [{"index": 0, "embedding": ["a"]}, {"index": 1, "embedding": [2.0]}]}, "an answer that is none"),
        (b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1.0]}]}', "aren't finite"),
    ],
)
def test_an_answer_that_does_not_fit_twice_ends_the_run(server: Server, body: Any, wrong: str) -> None:
    server.plans = [says(body)] * 2

    with pytest.raises(RunError, match=wrong):
        model(server).embed(["one", "two"])


def test_vectors_of_another_width_than_before_end_the_run(server: Server) -> None:
    this = model(server)
    server.dimension = 5

    with pytest.raises(RunError, match=r"vectors of 5 numbers, and of 8 before: is some-model still the same"):
        this.embed(["one"])


def test_a_vector_without_length_ends_the_run(server: Server) -> None:
    server.plans = [says({"data": [{"index": 0, "embedding": [0.0] * DIMENSION}]})]

    with pytest.raises(RunError, match="have no length"):
        model(server).embed(["one"])


def test_base64_is_understood(server: Server) -> None:
    import base64

    coded = base64.b64encode(np.array(vector("one"), "<f4").tobytes()).decode()
    server.plans = [says({"data": [{"index": 0, "embedding": coded}]})]

    np.testing.assert_allclose(model(server).embed(["one"]), unit(["one"]), atol=1e-6)


def test_a_text_that_is_refused_is_found_among_the_others(server: Server) -> None:
    this = model(server)
    refuse = lambda handler, texts: status(400)(handler, texts) if "bad" in texts else good(handler, texts)  # noqa: E731  # read in place
    server.plans = [refuse] * 9

    with pytest.raises(DocumentError, match=r"refused: .*refused a text \(400\): .*own words"):
        this.embed(["one", "two", "bad", "four"])


@pytest.mark.parametrize(("code", "says"), [(401, "the key in MY_KEY is not set"), (404, "knows no model 'some-model'")])
def test_what_is_the_users_to_mend_is_a_config_error(
    server: Server, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    server.requests.append({"input": ["a"]})  # so that the probe is no exception
    server.plans = [status(code)]

    with pytest.raises(ConfigError, match=says):
        model(server, key_env="MY_KEY")


def test_the_key_goes_into_the_header_and_nowhere_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret")
    settings = {"backend": "openai", "model": "some-model", "base_url": server.url, "key_env": "MY_KEY"}
    job = load({"input": "a", "output": "b", "embed": settings})

    model(server, key_env="MY_KEY", dimensions=3)
    server.plans = [status(401)]
    with pytest.raises(ConfigError, match="the key in MY_KEY is not accepted") as error:
        model(server, key_env="MY_KEY")

    assert server.headers[0]["Authorization"] == "Bearer very-secret"
    assert server.requests[0] == {"model": "some-model", "input": ["a"], "encoding_format": "float", "dimensions": 3}
    assert "very-secret" not in json.dumps(job.describe()) + repr(job) + str(error.value)


def test_a_run_says_what_the_endpoint_says(ray_here: None, server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One sentence.")
    settings = {"backend": "openai", "model": "some-model", "base_url": server.url}
    server.plans = [status(404)] * 99

    with pytest.raises(ConfigError, match="knows no model 'some-model'"):
        pipeline.run(load({"input": str(tmp_path / "a.txt"), "output": str(tmp_path / "out"), "embed": settings}))


@pytest.mark.parametrize("key", ["sk-with\nbreak", "sk-schlüssel"])
def test_a_key_that_no_header_can_hold_is_not_said(server: Server, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("MY_KEY", key)

    with pytest.raises(ConfigError, match="MY_KEY holds white space or characters beyond ASCII") as error:
        model(server, key_env="MY_KEY")

    assert "sk-" not in str(error.value)
    assert not server.requests


def test_a_text_longer_than_the_limit_is_read_in_windows(server: Server) -> None:
    text = " ".join(f"w{i}" for i in range(50))

    pooled = model(server, limit=20).embed([text])[0]
    parts = server.texts[-1]
    (cut_off,) = model(server, limit=20, overflow="truncate").embed([text])

    assert (len(parts), parts[0].split()[0], parts[-1].split()[-1]) == (3, "w0", "w49")
    assert {f"w{i}" for i in range(50)} == {word for part in parts for word in part.split()}
    assert max(len(part.split()) for part in parts) <= 20
    mean = np.sum([vector(part) for part in parts], axis=0)
    np.testing.assert_allclose(pooled, mean / np.linalg.norm(mean), atol=1e-5)
    np.testing.assert_allclose(cut_off, unit([parts[0]])[0], atol=1e-6)
    with pytest.raises(DocumentError, match="a text of 50 tokens; some-model reads 20 at once"):
        model(server, limit=20, overflow="error").embed([text])


def test_the_prompt_is_in_front_and_counts(server: Server) -> None:
    settings = {"backend": "openai", "model": "m", "base_url": server.url, "prompts": {"document": "a passage of it: "}}
    job = load({"input": "a", "output": "b", "embed": settings})

    model(server, prompt="doc: ").embed(["one"])

    assert server.requests[-1]["input"] == ["doc: one"]
    assert job.chunking.unit.specials == 6


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"backend": "openai"}, "give embed.base_url too"),
        ({"backend": "openai", "base_url": "http://x/v1"}, "give embed.model too"),
        ({"model": ""}, "embed.model"),
        ({"max_length": True}, "embed.max_length"),
        ({"backend": "opena", "base_url": "http://x"}, "embed.backend is 'opena' .did you mean 'openai'"),
        ({"backend": "openai", "model": "m", "base_url": "localhost:8000"}, "give the address up to /v1"),
        ({"backend": "openai", "model": "m", "base_url": "http://user:secret@x/v1"}, "holds a name, a password"),
        ({"backend": "openai", "model": "m", "base_url": "http://x/v1", "revision": "abc"}, "can't be checked of an endpoint"),
        ({"base_url": "http://x/v1"}, "set embed.backend: openai"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        load({"input": "a", "output": "b", "embed": settings})
    assert "secret" not in str(error.value)


def test_a_whole_run_and_a_search(ray_here: None, server: Server, tmp_path: Any) -> None:
    from chunkmill.jobs.search import search

    (tmp_path / "in").mkdir()
    for i in range(3):
        (tmp_path / "in" / f"{i}.txt").write_text(" ".join(f"w{i}{j}" for j in range(60)))
    settings = {"backend": "openai", "model": "m", "base_url": server.url, "prompts": {"query": "q: "}}
    job = load({"input": str(tmp_path / "in"), "output": str(tmp_path / "out"), "embed": settings, "chunk": {"size": 40}})

    summary = pipeline.run(job)
    rows = table.read(job.output, "chunks").to_pylist()
    (hit, *_) = search(job.output, "w10", 1)

    assert summary.vectors["made"] == len(rows) == summary.chunks > 3
    np.testing.assert_allclose([r["vector"] for r in rows], unit([r["text"] for r in rows]), atol=1e-6)
    assert {r["embedder"] for r in rows} == {job.embedder}
    assert server.requests[-1]["input"] == ["q: w10"]
    assert -1 <= hit.score <= 1
