"""A run in a process of its own, which may be killed: `python driver.py GIVEN` with settings as JSON.

It says `ready` before it begins, and in the end what it did, as a line of JSON. Exit codes and messages are the command line's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

from chunkmill.chunkers.base import Budget, Document, Piece, Span


@dataclass(frozen=True)
class Slow:
    """A chunk for each paragraph, without hurry: so that there is a moment to die in."""

    needs: ClassVar[frozenset[type]] = frozenset()
    seconds: float = 0.03

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        time.sleep(self.seconds)
        pieces, start = [], 0
        for part in doc.text.split("\n\n"):
            if part.strip():
                pieces.append(Piece(Span(start, start + len(part))))
            start += len(part) + 2
        return pieces


def begun(
    job: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, log: Path | None = None, **given: Any
) -> subprocess.Popen[str]:
    """The process of a run of this job. `pause_s`: before and after each step of publishing."""
    command = [sys.executable, __file__, json.dumps({"job": dict(job), **given})]
    paths = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": paths} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=log.open("a") if log else subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )


def ready(process: subprocess.Popen[str]) -> None:
    """Wait until it begins."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"


def ended(process: subprocess.Popen[str], timeout_s: float = 300) -> dict[str, Any]:
    """What it did, once it has done it."""
    out, _ = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, f"the driver ended with {process.returncode}"
    found: dict[str, Any] = json.loads(next(line for line in out.splitlines() if line.startswith("{")))  # Ray prints too
    return found


def paused(module: Any, name: str, seconds: float) -> None:
    """Have a step take longer: the moments before and after it are the ones that matter."""
    step = getattr(module, name)

    @wraps(step)
    def slower(*arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        found = step(*arguments, **options)
        time.sleep(seconds)
        return found

    setattr(module, name, slower)


def main() -> None:
    from chunkmill.io import runs, table
    from chunkmill.jobs import cli, cluster, config, pipeline, progress

    given = json.loads(sys.argv[1])
    with cli.reported():
        job = config.load(given["job"])
        cluster.connect(job.run.cpus)
        if pause_s := given.get("pause_s"):
            for module, name in ((runs, "intend"), (table, "commit"), (runs, "finish")):
                paused(module, name, pause_s)
        print("ready", flush=True)
        summary = pipeline.run(job)
    print(json.dumps(progress.as_json(summary) | {"seen": summary.seen}), flush=True)


if __name__ == "__main__":
    main()
