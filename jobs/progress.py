"""A run as it is watched: one line that moves in a terminal, a line every few seconds in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, TextIO

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from chunkmill.jobs import machines
from chunkmill.jobs.pages import counted, line, shown
from chunkmill.jobs.pipeline import Summary
from chunkmill.jobs.plan import Plan

LOG_S = 10.0
LIVE_S = 0.2
SURE_S = 5.0  # of work before the time left is told
PLAIN: Any = {"highlight": False, "soft_wrap": True, "markup": False}  # how lines with names in them are printed
VECTORS = {  # what is worth saying of Summary.vectors
    "reused": "vectors reused from the dataset",
    "repeated": "vectors of texts that occur again",
    "pooled": "longer than the model's window: mean of windows",
    "truncated": "longer than the model's window: cut",
}


class Progress:
    """Says on `out` (standard error) how far a run is."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self.started = time.monotonic()
        self.said = 0.0
        self.work: list[Seen] = []  # the first, before which Ray and workers start, and the last

    def __call__(self, summary: Summary, plan: Plan) -> None:
        """Called at the start and whenever documents are finished."""
        now = time.monotonic()
        if not self.said:
            self.total = pc.sum(plan.todo["size"]).as_py() or 0
            self.before = plan.adopted.chunks  # by a run that died
            self._say(planned(plan), "\n")
            self.said = now
            return
        if summary.seen and (not self.work or summary.seen.get("done", 0) > self.work[-1].done):
            self.work = [*self.work[:1], Seen(now, summary.seen.get("done", 0), share(summary.seen, self.total))]
        if now - self.said >= (LIVE_S if self.live else LOG_S):
            self._say(self._line(summary, now), "" if self.live else "\n")
            self.said = now

    def close(self) -> None:
        """Clear the moving line."""
        if self.live:
            self.out.write("\r\x1b[K")

    def _say(self, line: str, end: str) -> None:
        self.out.write(f"\r\x1b[K{line}{end}" if self.live else f"{line}{end}")
        self.out.flush()

    def _line(self, summary: Summary, now: float) -> str:
        seen, seconds, size = summary.seen, now - self.started, summary.seen.get("bytes", 0)
        speed = f" ({size / 1e6 / seconds:,.1f} MB/s, {min(1.0, size / self.total):.0%})" if size and self.total else ""
        parts = [f"{counted(int(seen.get('documents', 0)), 'document')} read{speed}"]
        if failed := seen.get("failed", 0):
            parts.append(f"{failed:,} failed")
        if calls := summary.llm.get("calls", 0) + summary.llm.get("cached", 0):
            parts.append(f"{counted(calls, 'answer')} of the language model")
        if embedded := seen.get("embedded", 0):
            parts.append(f"{counted(int(embedded), 'chunk')} embedded ({embedded / seconds:,.0f}/s)")
        if written := summary.chunks - self.before:
            parts.append(f"{counted(written, 'chunk')} written")
        if waits := machines.lacking():
            parts.append(f"waiting for {waits}")
        if left := self._left(now):
            parts.append(f"about {duration(left)} left")
        return f"{duration(seconds)}: {', '.join(parts)}"

    def _left(self, now: float) -> float:
        """Seconds that are left at the pace of the work so far; 0 where that is not known yet."""
        if len(self.work) < 2:
            return 0.0
        first, last = self.work
        took, more = last.at - first.at, last.share - first.share
        return max(0.0, took * (1 - last.share) / more - (now - last.at)) if took >= SURE_S and more > 0 else 0.0


class Seen(NamedTuple):
    """When work was seen to be done, how much by the tally, and which share of all there is."""

    at: float
    done: float
    share: float


def share(seen: Mapping[str, float], total: int) -> float:
    """How much of the work is done, from 0 to 1: of the bytes what is read, and of that what models have been through
    (`due` and `done` of the tally).
    """
    read = min(1.0, seen.get("bytes", 0) / total) if total else 0.0
    due = seen.get("due", 0)
    return read * min(1.0, seen.get("done", 0) / due) if due else read


def planned(plan: Plan) -> str:
    """What a run is about to do, in one line."""
    counts = {
        "new": plan.added,
        "changed": plan.changed,
        "to be tried again": plan.retried,
        "unchanged": plan.unchanged,
        "gone": plan.gone,
        "finished by a run that died": len(plan.adopted.sources),
    }
    return "plan: " + (", ".join(f"{n:,} {name}" for name, n in counts.items() if n) or "the input holds no files")


def duration(seconds: float) -> str:
    """`42 s`, `3 min 5 s` or `2 h 7 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def show(summary: Summary, output: str, console: Console) -> None:
    """The end of a run: counts per status, and where the data is."""
    if not summary.sources and not summary.gone and not summary.versions:
        console.print(f"nothing to do: {summary.unchanged:,} unchanged, {line(output)} is up to date", **PLAIN)
        return
    grid = Table.grid(padding=(0, 2))
    for status, n in sorted(summary.statuses.items(), key=_rank):
        grid.add_row(status.replace(":", ": "), f"{n:,}")
    grid.add_row("chunks", f"{summary.chunks:,}")
    for name, says in VECTORS.items():
        if n := summary.vectors[name]:
            grid.add_row(says, f"{n:,}")
    for name, says in asked(summary).items():
        grid.add_row(name, says)
    for name, n in {"sources gone": summary.gone, "sources kept": summary.kept, "only touched": summary.touched}.items():
        if n:
            grid.add_row(name, f"{n:,}")
    console.print(grid, highlight=False)
    for kind, example in sorted(summary.examples.items()):
        console.print(f"{kind}: for example {shown(example)}", **PLAIN)
    console.print(f"published to {line(output)} in {duration(summary.seconds)}", **PLAIN)


def asked(summary: Summary) -> dict[str, str]:
    """What a language model was asked, in words."""
    found = summary.llm
    if not found:
        return {}
    used = f"{found.get('tokens_in', 0):,} tokens in, {found.get('tokens_out', 0):,} out"
    spent = f", {found['spend']:,.4g} spent" if found.get("spend") else ""
    names = {"cached": "answers known already", "failed_calls": "calls that failed", "refused": "prompts refused"}
    names |= {"too_long": "prompts too long for it: lower llm.window", "refused_statements": "statements refused"}
    names |= {"fallback_documents": "documents cut by rule in places", "fallback_chunks": "chunks cut by rule"}
    more = {says: f"{found[name]:,}" for name, says in names.items() if found.get(name)}
    return {"calls": f"{found.get('calls', 0):,} ({used}{spent})"} | more


def _rank(item: tuple[str, int]) -> tuple[int, int]:
    return ("ok", "empty").index(item[0]) if item[0] in ("ok", "empty") else 2, -item[1]


def as_json(summary: Summary) -> dict[str, Any]:
    """The summary for machines."""
    return {
        "run_id": summary.run_id,
        "recipe": summary.recipe,
        "sources": {
            "added": summary.added,
            "changed": summary.changed,
            "retried": summary.retried,
            "unchanged": summary.unchanged,
            "gone": summary.gone,
            "touched": summary.touched,
            "kept": summary.kept,
            "adopted": summary.adopted,
        },
        "documents": dict(sorted(summary.statuses.items())),
        "chunks": summary.chunks,
        "vectors": dict(sorted((+summary.vectors).items())),
        "llm": {name: value for name, value in sorted(summary.llm.items()) if name != "stopped"},
        "size_bytes": summary.size_bytes,
        "stages": summary.took,
        "seconds": round(summary.seconds, 3),
        "versions": summary.versions,
    }
