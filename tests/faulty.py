"""A front to an HTTP server that fails on demand: what it is told of the next requests it does, all others it passes on."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "date", "server"}


@dataclass
class Fault:
    """What happens to requests of this method and path (regular expressions; the path with its query, unescaped).

    An answer of this `status` and S3 `code` (with these `headers`), or none at all (`drop`; `lost`: although it was done);
    `delay_s` before whatever it is, `cut`: half the body. The first `after` such requests go well, no more than `times` badly.
    """

    method: str = ".*"
    path: str = ".*"
    status: int = 0
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    lost: bool = False
    cut: bool = False
    after: int = 0
    times: int = 1_000_000
    seen: int = 0

    def strikes(self, method: str, path: str) -> bool:
        if not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        self.seen += 1
        return self.after < self.seen <= self.after + self.times

    @property
    def struck(self) -> int:
        """How many requests it hit."""
        return min(max(0, self.seen - self.after), self.times)


class Faulty:
    """The front. `url` is its address."""

    def __init__(self, behind: str) -> None:
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        self.server = _server(self, urlsplit(behind).netloc)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @contextmanager
    def failing(self, *faults: Fault) -> Iterator[None]:
        """As long as the block lasts, these."""
        self.faults = list(faults)
        try:
            yield
        finally:
            self.faults = []

    def fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            return next((f for f in self.faults if f.strikes(method, unquote(path))), None)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _server(front: Faulty, behind: str) -> ThreadingHTTPServer:
    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.behind = HTTPConnection(behind)

        def finish(self) -> None:
            self.behind.close()
            with suppress(OSError):
                super().finish()

        def any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = front.fault(self.command, self.path)
            if fault:
                time.sleep(fault.delay_s)
            if fault and fault.drop:
                self.close_connection = True
                return
            if fault and fault.status:
                code = fault.code or {403: "AccessDenied", 500: "InternalError", 503: "SlowDown"}[fault.status]
                answer = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
                self.answer(fault.status, [("Content-Type", "application/xml"), *fault.headers.items()], answer, len(answer))
                return
            status, headers, answer = self.passed_on(body)
            if fault and fault.lost:
                self.close_connection = True
                return
            self.answer(status, headers, answer[: len(answer) // 2] if fault and fault.cut else answer, len(answer))

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = any  # noqa: N815  # the names that http.server calls

        def passed_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            for again in (True, False):
                try:
                    self.behind.request(self.command, self.path, body, dict(self.headers))
                    found = self.behind.getresponse()
                    return found.status, found.getheaders(), found.read()
                except (HTTPException, OSError):  # the server closed a connection that was kept
                    self.behind.close()
                    if not again:
                        raise
            raise AssertionError("unreachable")

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, length: int) -> None:
            self.send_response_only(status)
            known = [(name, value) for name, value in headers if name.lower() not in HOP]
            for name, value in known:
                self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in known):
                self.send_header("Content-Length", str(length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            if len(body) < length:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away."""

    server = Quiet(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
