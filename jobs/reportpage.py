"""A report as a page: what the dataset holds, what failed and why, how large chunks are, what the runs did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from chunkmill.jobs.charts import binned, doubled, histogram, meters
from chunkmill.jobs.pages import cards, counted, escape, grid, page
from chunkmill.jobs.progress import duration
from chunkmill.jobs.report import Report, by_format, change_line, plain, run_rows, sizes_line, slowest, stages

RUNS = 30  # in the table
STATUS = {"ok": "ok", "empty": "empty", "failed": "failed"}
SAYS = {
    "pooled": "longer than the model's window, embedded as the mean of windows",
    "truncated": "longer than the model's window, of which only the beginning was embedded",
}


def html(found: Report) -> str:
    """The page."""
    head = f"<header><h1>{escape(_name(found.dataset))}</h1><p class='soft small wrap'>{escape(found.dataset)}</p></header>"
    parts = (_summary, _documents, _errors, _sizes, _largest, _slowest, _runs, _recipes)
    return page(f"Report on {_name(found.dataset)}", [head, "<main>", *(p for part in parts for p in part(found)), "</main>"])


def _name(dataset: str) -> str:
    return f"Dataset {dataset.rstrip('/').rpartition('/')[2]}"


def _summary(found: Report) -> Iterator[str]:
    s = found.statuses
    yield cards(
        {
            "documents": sum(s.values()),
            "of them failed": s.get("failed", 0),
            "chunks": found.sizes.number,
            f"{found.unit} in them": found.sizes.total,
            **({"larger chunks above": found.above} if found.above else {}),
            "with vectors": found.with_vectors,
            "version": found.versions["chunks"] if found.versions["chunks"] is not None else "none",
        }
    )
    yield f"<p>Last change: {escape(change_line(found.change))}.</p>"
    for kind, n in found.overflow.items():
        yield f"<p>{counted(n, 'chunk')} {escape(SAYS.get(kind, kind))}.</p>"


def _documents(found: Report) -> Iterator[str]:
    yield "<h2>Documents</h2>"
    rows = [[name, n, bar] for name, n, bar in meters(found.statuses, STATUS)]
    yield _metered(("status", "documents"), rows)
    yield "<h2>Formats</h2>"
    most = max((r["tokens"] for r in by_format(found)), default=0) or 1
    table = (
        [
            escape(r["format"]),
            *(f"{r[name]:,}" for name in ("ok", "empty", "failed", "chunks", "tokens")),
            f'<span class="meter" style="width:{100 * r["tokens"] / most:.1f}%"></span>',
        ]
        for r in by_format(found)
    )
    yield grid(
        ("format", "ok", "empty", "failed", "chunks", found.unit, f"share of {found.unit}"), table, numbers=(1, 2, 3, 4, 5)
    )


def _metered(heads: tuple[str, str], rows: list[list[str]]) -> str:
    return grid((*heads, "share"), rows, numbers=(1,))


def _errors(found: Report) -> Iterator[str]:
    yield "<h2>What failed</h2>"
    if not found.errors:
        yield "<p>Nothing.</p>"
    for kind, n in found.errors.most_common():
        rows = ([f"<span class=wrap>{escape(uri)}</span>", escape(message)] for uri, message in found.examples[kind])
        more = f" The first {len(found.examples[kind])}:" if n > len(found.examples[kind]) else ""
        head = f"<b class=failed>{escape(kind)}</b>: {counted(n, 'document')}.{more}"
        yield f"<details open><summary>{head}</summary>{grid(('document', 'why'), rows)}</details>"


def _sizes(found: Report) -> Iterator[str]:
    limit = _limit(found)
    yield "<h2>Sizes</h2><div class=halves>"
    chart = histogram(binned(found.sizes, limit), "chunk", found.unit, limit)
    line = escape(sizes_line(found.sizes))
    yield f"<section class=card><h3>{found.unit.capitalize()} per chunk</h3><p class='soft small'>{line}</p>{chart}</section>"
    chart = histogram(doubled(found.per_document), "document", "chunks")
    line = escape(sizes_line(found.per_document))
    yield f"<section class=card><h3>Chunks per document</h3><p class='soft small'>{line}</p>{chart}</section></div>"
    if len(found.levels) > 1:
        levels = ", ".join(f"{n:,} at level {level}" for level, n in sorted(found.levels.items()))
        yield f"<p class=small>Levels: {escape(levels)}. The chart on the left counts level 0.</p>"


def _limit(found: Report) -> int:
    """The size that the recipe sets, where there is one."""
    return int(next(iter(found.recipes.values())).get("chunk", {}).get("size", 0)) if len(found.recipes) == 1 else 0


def _largest(found: Report) -> Iterator[str]:
    if found.largest:
        yield "<h2>Largest documents</h2>"
        rows = (
            [f"<span class=wrap>{escape(uri)}</span>", escape(format), f"{chunks:,}", f"{tokens:,}", f"{size:,}"]
            for tokens, chunks, uri, format, size in found.largest
        )
        yield grid(("document", "format", "chunks", found.unit, "bytes of its source"), rows, numbers=(2, 3, 4))


def _slowest(found: Report) -> Iterator[str]:
    if took := slowest(found):
        yield "<h2>Slowest to parse in the last run</h2>"
        rows = (
            [f"<span class=wrap>{escape(uri)}</span>", f"{seconds:,.3f}", f"{size:,}", escape("".join(killed))]
            for seconds, uri, size, *killed in took
        )
        yield grid(("document", "seconds", "bytes of its source", "ended by"), rows, numbers=(1, 2))


def _runs(found: Report) -> Iterator[str]:
    yield "<h2>Runs</h2>"
    if not found.runs:
        yield "<p>None of them left a record.</p>"
        return
    heads = ("run", "when (UTC)", "what", "version", "documents", "failed", "chunks", "took", "recipe", "chunkmill")
    table = [_run(r) for r in run_rows(found.runs[: -RUNS - 1 : -1])]
    note = f"The last {RUNS} of {len(found.runs):,}, newest first" if len(found.runs) > RUNS else "Newest first"
    yield grid(heads, table, caption=note, numbers=(3, 4, 5, 6, 7))
    if took := stages(found):
        yield "<h3>Where the time of the last run went</h3>"
        yield "<p class=small>Seconds of all workers; <i>forward</i> is the part of <i>embed</i> that the model takes.</p>"
        bars = meters({stage: round(seconds, 1) for stage, seconds in took.items()})
        yield grid(("stage", "seconds", "share"), [[stage, n, bar] for stage, n, bar in bars], numbers=(1,))


def _run(r: Mapping[str, Any]) -> list[str]:
    numbers = ["" if r[name] is None else f"{r[name]:,}" for name in ("version", "documents", "failed", "chunks")]
    took = duration(r["seconds"]) if r["seconds"] is not None else ""
    ids = f"<code>{escape(r['run'])}</code>", f"<code>{escape(r['recipe'])}</code>"
    return [ids[0], _when(r["run"]), escape(r["kind"]), *numbers, took, ids[1], escape(r["chunkmill"])]


def _when(run_id: str) -> str:
    """The time that a run's id begins with."""
    try:
        return f"<code>{datetime.strptime(run_id[:15], '%Y%m%dT%H%M%S'):%Y-%m-%d %H:%M}</code>"
    except ValueError:
        return ""


def _recipes(found: Report) -> Iterator[str]:
    yield "<h2>Recipe</h2>" if len(found.recipes) == 1 else "<h2>Recipes</h2>"
    for recipe, n in found.by_recipe.most_common():
        known = found.recipes[recipe]
        yield (
            f"<details><summary><code>{escape(recipe)}</code>: {counted(n, 'document')}; {escape(_short(known))}</summary>"
            f"<pre>{escape(plain(known))}</pre></details>"
        )


def _short(known: Mapping[str, Any]) -> str:
    if "chunk" not in known:
        return str(known.get("error", ""))
    chunk, embed = known["chunk"], known.get("embed")
    model = f"vectors of {embed['model']}" if embed else "no vectors"
    return f"{chunk['strategy']}, size {chunk['size']} {chunk['unit']}, overlap {chunk['overlap']}, {model}"
