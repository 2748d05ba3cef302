"""A chat-completions endpoint on the loopback that speaks the protocol, and fails in every way that real ones do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chunkmill.chunkers import standin

MODEL = "stub-1"
KEY = "sk-secret-4711"


@dataclass
class Reply:
    """What the endpoint does with a request. `dribble_s`: between one byte and the next; `cut`: breaks off in the body."""

    text: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay_s: float = 0.0
    dribble_s: float = 0.0
    cut: bool = False
    refusal: str | None = None
    usage: bool = True
    finish: str = "stop"


def error(status: int, message: str, **headers: str) -> Reply:
    body = json.dumps({"error": {"message": message, "type": "stub", "code": None}}).encode()
    return Reply(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


Behaviour = Callable[[str, int], Reply]  # the prompt, and how many requests came before


@dataclass
class Stub:
    """`requests` are those that came, with their time; `prompts` what was asked in them."""

    url: str
    behave: Behaviour
    key: str = ""
    requests: list[tuple[float, dict, dict]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    under_way: int = 0
    most_under_way: int = 0

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][0]["content"] for _, body, _ in self.requests]

    @property
    def times(self) -> list[float]:
        return [at for at, _, _ in self.requests]


def good(prompt: str, before: int) -> Reply:
    return Reply(standin.answer(prompt) or '{"ok": true}')


@contextmanager
def served(behave: Behaviour = good, key: str = "") -> Iterator[Stub]:
    """The endpoint as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with stub.lock:
                before = len(stub.requests)
                stub.requests.append((time.monotonic(), body, dict(self.headers)))
                stub.under_way += 1
                stub.most_under_way = max(stub.most_under_way, stub.under_way)
            try:
                self.answer(body, before)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                with stub.lock:
                    stub.under_way -= 1

        def answer(self, body: dict, before: int) -> None:
            if self.path != "/v1/chat/completions":
                return self.send(error(404, "no such path"))
            if stub.key and self.headers.get("Authorization") != f"Bearer {stub.key}":
                return self.send(error(401, f"Incorrect API key provided: {self.headers.get('Authorization')}"))
            if body["model"] != MODEL:
                return self.send(error(404, f"The model {body['model']!r} does not exist"))
            reply = stub.behave(body["messages"][0]["content"], before)
            return self.send(reply, body)

        def send(self, reply: Reply, asked: dict | None = None) -> None:
            time.sleep(reply.delay_s)
            data = reply.body if reply.body is not None else completion(reply, asked or {})
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.cut:
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
                return
            if reply.dribble_s:
                for byte in data:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(reply.dribble_s)
                return
            self.wfile.write(data)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *args: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    stub = Stub(f"http://127.0.0.1:{server.server_port}/v1", behave, key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()


def completion(reply: Reply, asked: dict) -> bytes:
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    made = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": asked.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
    }
    if reply.usage:
        made["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return json.dumps(made).encode()
