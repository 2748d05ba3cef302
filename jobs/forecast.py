"""What a run would do, before it does it: how many of what, which for example, how long, and how they would be cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from chunkmill.chunkers.base import Document
from chunkmill.io import runs
from chunkmill.jobs.config import Job
from chunkmill.jobs.documents import accept, one
from chunkmill.jobs.estimate import estimate
from chunkmill.jobs.pages import counted, line, shown
from chunkmill.jobs.plan import Plan, plan
from chunkmill.jobs.progress import PLAIN, duration

EXAMPLES = 3
COUNTS = ("added", "changed", "retried", "unchanged", "gone")


def forecast(job: Job, explain: int = 0) -> dict[str, Any]:
    """The plan in words and numbers."""
    todo = plan(job)
    size = pc.sum(todo.todo["size"]).as_py() or 0
    return {
        **{name: getattr(todo, name) for name in COUNTS},
        "adopted": len(todo.adopted.sources),
        "reparsed": todo.todo["ledger"].null_count,
        "size_bytes": size,
        "seconds": seconds(job, size),
        "examples": examples(todo),
        "choices": list(choices(job, todo.todo, explain)),
        "llm": estimate(job, todo.todo),
        "recipe": job.recipe,
    }


def seconds(job: Job, size: int) -> float | None:
    """How long so many bytes would take, by the last run of this recipe that read some; None where there was none."""
    alike = [r for r in runs.records(job.output) if r.get("recipe") == job.recipe and r.get("size_bytes") and r.get("seconds")]
    return size * alike[-1]["seconds"] / alike[-1]["size_bytes"] if alike else None


def examples(todo: Plan) -> dict[str, list[str]]:
    """A few names of each kind."""
    known = pc.is_in(todo.todo["uri"], value_set=pc.unique(todo.superseded["source"]))
    was, again = todo.superseded["source"], todo.todo["again"]
    stays = pc.or_(pc.is_in(was, todo.todo["uri"]), pc.is_in(was, todo.adopted.sources))
    kinds = {
        "added": todo.todo["uri"].filter(pc.invert(known)),
        "changed": todo.todo["uri"].filter(pc.and_(known, pc.invert(again))),
        "retried": todo.todo["uri"].filter(again),
        "gone": pc.unique(was.filter(pc.invert(stays))),
    }
    return {kind: uris.slice(0, EXAMPLES).to_pylist() for kind, uris in kinds.items() if len(uris)}


def choices(job: Job, sources: pa.Table, number: int) -> Iterator[dict[str, str]]:
    """How the first sources would be cut, where the strategy decides by the document and can say why."""
    strategy = job.chunking.strategy
    if not hasattr(strategy, "explain"):
        return
    for source in sources.slice(0, number).to_pylist():
        row = next(iter(one(source, job, accept)), None)
        if row and row.document:
            yield {"uri": row.values["uri"], "why": why(job, row.document)}


def why(job: Job, doc: Document) -> str:
    """What a strategy that decides by the document (it has `explain`) says of this one."""
    chunking: Any = job.chunking
    said = chunking.strategy.explain(doc, chunking.budget(doc, chunking.contexts(doc)))
    return said if isinstance(said, str) else "; ".join(said[:EXAMPLES])


def show(found: dict[str, Any], console: Console) -> None:
    """The forecast for a person."""
    counts = [f"{found[name]:,} {'new' if name == 'added' else name}" for name in COUNTS if found[name]]
    console.print(", ".join(counts) or "the input holds no files", highlight=False)
    if found["adopted"]:
        console.print(f"{found['adopted']:,} of them were finished by a run that died", highlight=False)
    for kind, uris in found["examples"].items():
        for uri in uris:
            console.print(f"{'new' if kind == 'added' else kind}: {line(uri)}", **PLAIN)
    for choice in found["choices"]:
        console.print(f"{line(choice['uri'])}: {shown(choice['why'])}", **PLAIN)
    for said in asking(found["llm"]):
        console.print(said, **PLAIN)
    took = f"about {duration(found['seconds'])}, by the last run" if found["seconds"] is not None else "no earlier run to go by"
    console.print(f"{found['size_bytes']:,} bytes to read: {took}", highlight=False)


def asking(found: dict[str, Any]) -> Iterator[str]:
    """What a language model would be asked, in words."""
    if not found:
        return
    used = f"{found['tokens_in']:,} tokens in, {found['tokens_out']:,} out"
    known = f"; {counted(found['cached'], 'answer')} known already" if found["cached"] else ""
    cost = f"{found['cost']:,.4g} by llm.price_in and price_out"
    yield f"about {counted(found['calls'], 'call')} of the language model ({used}), {cost}{known}"
    if found["max_spend"] is not None and found["cost"] > found["max_spend"]:
        yield f"that is more than llm.max_spend ({found['max_spend']:g}): the run would stop there, and the next go on"
    if found["least_minutes"]:
        yield f"at least {duration(60 * found['least_minutes'])} by the limits per minute"
    yield f"estimated {found['assumes']}"
