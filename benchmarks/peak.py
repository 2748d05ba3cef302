"""What benchmarks share: the memory of a command and its workers while it runs, and the words of made-up texts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

LOOK_S = 0.5
WORDS = """keeper lamp lens wick oil tide fog signal bell boat harbour chart depth rope anchor mast storm gale calm log watch
night dawn dusk tower stair window brass mercury clock weight gear pressure vapour mantle shutter beam range bearing"""


@dataclass
class Peak:
    """The most that was seen, in MB: resident memory without what is shared, and the object store."""

    command: float = 0.0
    worker: float = 0.0
    together: float = 0.0
    store: float = 0.0


def look(command: psutil.Process, peak: Peak) -> None:
    """One look at a process and its descendants."""
    together = 0.0
    for process in [command, *command.children(recursive=True)]:
        with suppress(psutil.Error):
            memory, name = process.memory_info(), process.name()
            own = (memory.rss - memory.shared) / 1e6
            together += own
            if process == command:
                peak.command = max(peak.command, own)
            elif name.startswith(("raylet", "gcs_server")):
                peak.store = max(peak.store, memory.shared / 1e6)
            else:
                peak.worker = max(peak.worker, own)
    peak.together = max(peak.together, together)


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """The peaks of a command, until the block ends."""
    peak, done = Peak(), threading.Event()
    command = psutil.Process(pid)

    def watch() -> None:
        while not done.wait(LOOK_S):
            with suppress(psutil.NoSuchProcess):
                look(command, peak)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
