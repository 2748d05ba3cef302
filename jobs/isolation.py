"""Documents prepared in a replaceable process, with limits on time and memory: a crash, a hang or a leak costs one document.

A process a worker, kept for all its work. When it dies, what it had not delivered is done again source by source and
document by document, so that the one it dies of is found, recorded, and left out.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

import psutil
import pyarrow as pa
import ray.cloudpickle

from chunkmill.chunkers.errors import DocumentError
from chunkmill.jobs import rows
from chunkmill.jobs.child import Come, Work
from chunkmill.jobs.config import Job
from chunkmill.jobs.documents import Source, failed, prepared, table

LOOK_S = 0.2  # how often the child's memory is looked at
MOST_DEATHS = 20  # of one source; then the rest of it is given up
REST = "!(the rest)"
CHANGED = "it changed while it was read"  # and was to be read once more, as its process had died
SECONDS_PER_BYTE = 1e-6  # time allowed on top for large sources
READING_S = 400.0  # longer than reading goes on trying by itself, which knows better what is wrong


class Died(Exception):  # noqa: N818  # an outcome to act on, not a mistake
    """The child is gone. `kind` and `why` say how, `at` the document it was at, None where it has not said."""

    def __init__(self, kind: str, why: str, at: str | None) -> None:
        super().__init__(kind, why, at)
        self.kind, self.why, self.at = kind, why, at

    @property
    def reading(self) -> bool:
        """Whether it waited for bytes that didn't come: no fault of the content, which may be read tomorrow."""
        return self.kind == "timeout" and self.at is None


class Child:
    """The other end of `child.py`."""

    def __init__(self) -> None:
        theirs, self._out = (Connection(fd) for fd in os.pipe())
        self._in, answers = (Connection(fd) for fd in os.pipe())
        fds = theirs.fileno(), answers.fileno()
        command = [sys.executable, "-m", "chunkmill.jobs.child", *map(str, fds)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process = subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL, env=environment)
        self._memory = psutil.Process(self._process.pid)
        self._job = b""
        theirs.close()
        answers.close()

    def knows(self, job: bytes) -> None:
        """Tell it the job (pickled), unless it is the one it has."""
        if job != self._job:
            self._out.send_bytes(b"J" + job)
            self._job = job

    def does(self, work: Work, job: Job) -> Iterator[pa.Table]:
        """The tables that come of the work. Raises Died."""
        at: str | None = None
        memory = memory_limit(job)
        timeout = job.run.document_timeout_s + SECONDS_PER_BYTE * max((s["size"] or 0 for s in work.sources), default=0)
        try:
            self._out.send_bytes(b"W" + pickle.dumps(work))
            while (message := self._next(timeout if at is not None else max(timeout, READING_S), memory, at))[:1] != b"D":
                if message[:1] == b"A":
                    at = message[1:].decode()
                elif message[:1] == b"E":
                    raise pickle.loads(message[1:])
                else:
                    at = None  # what follows has not said yet what it is
                    yield pa.ipc.open_stream(self._taken(int(message[1:]))).read_all()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise Died("crashed", self._epitaph(), at) from None

    def _next(self, timeout_s: float, memory_bytes: int, at: str | None) -> bytes:
        until = time.monotonic() + timeout_s
        while not self._in.poll(LOOK_S):
            if time.monotonic() > until:
                self.end()
                setting = "(run.document_timeout_s)" if at is not None else "while it was read"
                raise Died("timeout", f"gave nothing for {timeout_s:.0f} s {setting}", at)
            with contextlib.suppress(psutil.NoSuchProcess):
                if (used := self._memory.memory_info().rss) > memory_bytes:
                    self.end()
                    raise Died(
                        "too_large", f"took {used >> 20:,} MB, more than {memory_bytes >> 20:,} (run.document_memory_mb)", at
                    )
        return self._in.recv_bytes()

    def _taken(self, size: int) -> pa.Buffer:
        """So many bytes of what comes. Raises EOFError."""
        whole = pa.allocate_buffer(size)
        left = memoryview(whole).cast("B")
        while left:
            if not (n := os.readv(self._in.fileno(), [left])):
                raise EOFError
            left = left[n:]
        return whole

    def _epitaph(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"its process died of {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


_idle: list[Child] = []  # of this process: none or one, or one a thread


@contextlib.contextmanager
def dismissed() -> Iterator[None]:
    """No child is left when the block ends: a process that lives on has no more use for it."""
    try:
        yield
    finally:
        while _idle:
            _idle.pop().end()


def isolated(sources: Sequence[Source], job: Job) -> Iterator[pa.Table]:
    """Like `documents.prepared`; whatever a document does to the process it is in, all others come through."""
    if not job.run.isolate:
        yield from prepared(sources, job)
        return
    todo = list(sources)
    while todo:
        received: dict[str, Come] = defaultdict(Come)
        try:
            for part in _doing(Work(todo), job):
                for source, row in zip(part["source"].to_pylist(), _states(part), strict=True):
                    received[source] = received[source].and_then([row])
                yield part
            return
        except Died:
            todo = _unfinished(todo, received)
        died = False
        while todo and not died:
            source = todo.pop(0)
            died = yield from _one(source, job, received[source["uri"]])


def _unfinished(sources: list[Source], received: Mapping[str, Come]) -> list[Source]:
    """The sources from the last one on that anything came of: it may have had more to give."""
    last = max((i for i, s in enumerate(sources) if s["uri"] in received), default=0)
    return sources[last:]


def _one(source: Source, job: Job, received: Come) -> Generator[pa.Table, None, bool]:
    """What is left of a source, document by document; returns whether any of them killed the process."""
    refused: dict[str, DocumentError] = {}
    took: dict[str, float] = {}  # until they ended the process, by URI
    while True:
        since = time.monotonic()
        try:
            for part in _doing(Work([source], True, received, refused), job):
                before, received = received, received.and_then(_states(part))
                if before.version not in ("", received.version):
                    yield _given_up(source, DocumentError("unreadable", CHANGED), before, job)
                    return True
                yield rows.with_seconds(part, took)
                since = time.monotonic()
            return bool(refused)
        except Died as death:
            error = DocumentError("unreadable" if death.reading and not any(received) else death.kind, death.why)
            seconds = time.monotonic() - since
            if not death.at or death.at in refused or len(refused) >= MOST_DEATHS:
                yield _given_up(source, error, received, job, seconds)
                return True
            refused[death.at], took[source["uri"] + death.at] = error, seconds


def _states(part: pa.Table) -> list[tuple[str, str]]:
    """Of each row the status, and the hash of the content that its source was read as."""
    return list(zip(part["status"].to_pylist(), part["content_hash"].to_pylist(), strict=True))


def _given_up(source: Source, error: DocumentError, received: Come, job: Job, seconds: float = 0.0) -> pa.Table:
    """The row that stands for what has not come of a source."""
    row = failed(source, error, job, REST if received.documents else "", received.documents)
    return table([row._replace(values={**row.values, "seconds": seconds})], job)


def _doing(work: Work, job: Job) -> Iterator[pa.Table]:
    child = _idle.pop() if _idle else Child()  # nobody else's until the work is done
    try:
        child.knows(ray.cloudpickle.dumps(job))
        yield from child.does(work, job)
    except BaseException:  # it is dead, or would go on with work that nobody waits for
        child.end()
        raise
    _idle.append(child)


def memory_limit(job: Job) -> int:
    """Bytes that the process may take: the setting, else a CPU's share of the machine."""
    if job.run.document_memory_mb:
        return job.run.document_memory_mb << 20
    return int(psutil.virtual_memory().total // (os.cpu_count() or 1))
