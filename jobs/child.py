"""The process in which documents are parsed and cut: it may die, and nothing is lost but the document it died of.

It hears of one piece of work at a time over a pipe and answers with messages (`isolation.py` is the other end):
`b"T" + size`, then so many bytes that are an Arrow stream: documents; `b"A" + text`: it begins with this document of a source,
a sign of life too (of documents that follow each other fast only one now and then, but the first after a table at once);
`b"E" + pickle`: an exception that ends the run; `b"D"`: the work is done.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

import pyarrow as pa

from chunkmill.chunkers.errors import ChunkmillError, DocumentError, RunError
from chunkmill.io.parsers.limits import limited
from chunkmill.jobs.config import Job
from chunkmill.jobs.documents import Source, Watch, one, prepared, table, tables
from chunkmill.jobs.rows import PART, Row

PR_SET_PDEATHSIG = 1
SIGN_S = 0.1  # between signs of life: a message a document would cost as much as a short document does


class Come(NamedTuple):
    """What came of a source: its documents, then the first parts of one more; and the hash of the content that it had."""

    documents: int = 0
    parts: int = 0
    version: str = ""

    def and_then(self, rows: Iterable[tuple[str, str]]) -> Come:
        """With rows of these statuses and content hashes behind it."""
        come = self
        for status, version in rows:
            ended = status != PART
            come = Come(come.documents + ended, 0 if ended else come.parts + 1, version or come.version)
        return come


class Work(NamedTuple):
    """Sources to prepare. `careful`: one document at a time, announced before it is touched, without what came through before
    (`skip`) and those `refused`, which fail with the given error.
    """

    sources: list[Source]
    careful: bool = False
    skip: Come = Come()
    refused: Mapping[str, DocumentError] = {}


def main() -> None:
    """Serve until the other end is closed."""
    incoming, outgoing = (Connection(int(fd)) for fd in sys.argv[1:3])
    _prepare_to_die()
    job = Job.model_construct()
    while True:
        try:
            message = incoming.recv_bytes()
        except EOFError:
            return
        if message[:1] == b"J":
            job = pickle.loads(message[1:])
            gc.freeze()  # what is loaded stays: looking through it again and again took a fifth of the time
            continue
        _serve(pickle.loads(message[1:]), job, outgoing)


def _serve(work: Work, job: Job, outgoing: Connection) -> None:
    signs = Signs(work, outgoing)
    try:
        with limited(job.run.limits):
            for part in _carefully(work, job, signs) if work.careful else prepared(work.sources, job, signs):
                _hand_over(packed(part), outgoing)
                signs.due = 0.0  # after a table nobody knows what it is at
    except ChunkmillError as error:
        outgoing.send_bytes(b"E" + pickle.dumps(error))
    except Exception:
        # No document's fault: what documents raise is caught where they are. The run should hear of it.
        outgoing.send_bytes(b"E" + pickle.dumps(RunError(f"preparing documents failed:\n{traceback.format_exc()}")))
    outgoing.send_bytes(b"D")


def _hand_over(table: pa.Buffer, outgoing: Connection) -> None:
    """Bare, as a `Connection` copies what it is given and what it gets."""
    outgoing.send_bytes(b"T%d" % table.size)
    left = memoryview(table)
    while left:
        left = left[os.write(outgoing.fileno(), left) :]


class Signs:
    """A watch that says which document is begun: of careful work each, of other work one now and then."""

    def __init__(self, work: Work, outgoing: Connection) -> None:
        self.refused, self.outgoing = work.refused, outgoing
        self.every_s = 0.0 if work.careful else SIGN_S
        self.due = 0.0

    def __call__(self, member: str) -> None:
        """Raises the error with which a document is refused."""
        if member in self.refused:
            raise self.refused[member]
        if (now := time.monotonic()) >= self.due:
            self.outgoing.send_bytes(b"A" + member.encode())
            self.due = now + self.every_s


def _carefully(work: Work, job: Job, watch: Watch) -> Iterator[pa.Table]:
    (source,) = work.sources
    for number, row in enumerate(one(source, job, watch)):
        if number >= work.skip.documents:
            yield from _cut(row, job, watch, work.skip.parts if number == work.skip.documents else 0)


def _cut(row: Row, job: Job, watch: Watch, skip: int) -> Iterator[pa.Table]:
    """The document as tables, without the `skip` first parts; it may be the cutting that kills."""
    member = row.values["uri"][len(row.values["source"]) :]
    try:
        watch(member)
    except DocumentError as error:
        yield table([row._replace(document=None, error=error, images=())], job)
        return
    for cut in tables([row], job, skip):
        yield cut
        if PART in cut["status"].to_pylist():
            watch(member)  # there is more of it to come


def packed(part: pa.Table) -> pa.Buffer:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema) as writer:
        writer.write_table(part)
    return sink.getvalue()


def _prepare_to_die() -> None:
    """Go when the parent goes, leave no core file, and leave Ctrl-C and standard output to the parent."""
    with suppress(OSError):  # it may have been closed
        os.dup2(2, 1)  # what a strategy or a library prints is no part of `--json`
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit()


if __name__ == "__main__":
    main()
