"""An evaluation as a table, as CSV, as JSON, as a page, and in plain sentences."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkmill.jobs import metrics
from chunkmill.jobs.charts import NO_SIZES, binned, histogram
from chunkmill.jobs.evaluate import HEADLINE, Comparison, Evaluation, Result, headline, measures
from chunkmill.jobs.metrics import BUDGETS, Interval
from chunkmill.jobs.pages import cards, counted, escape, grid, line, page
from chunkmill.jobs.readers import Failure

LOST_SHOWN = 5
WIDE_TERMINAL = 110  # columns that all columns need
FEW = 20  # questions under which a bootstrap says nothing
WIDE, ROW, LEFT, RIGHT = 640, 26, 230, 60  # of a plot, in its own units


def known(evaluation: Evaluation) -> dict[str, str]:
    """The measures that these questions say something about, and what each is called."""
    first = evaluation.results[0]
    return {name: label for name, label in measures(evaluation.k).items() if not math.isnan(first.mean(name))}


def scale(measure: str) -> float:
    """What a value is multiplied by to be shown: shares are percent."""
    return 1.0 if measure == "context" else 100.0


def digits(value: float, measure: str, sign: str = "") -> str:
    """A value as it is shown."""
    return f"{value * scale(measure):{sign},.0f}" if measure == "context" else f"{value * scale(measure):{sign}.1f}"


def short(measure: str) -> str:
    """A heading that is no wider than its values: `r@5` is recall of 5 chunks, `r 2k` in 2,000 characters, `omega`
    precision-omega, `chars` what the chunks hold.
    """
    if measure.startswith("within "):
        return f"r {int(measure.split()[1]) // 1000}k"
    names = {"precision": "prec", "iou": "IoU", "context": "chars", "ndcg": "nDCG"}
    return names.get(measure, measure.replace("recall", "r"))


def verdict(comparison: Comparison, names: dict[str, str], questions: int) -> str:
    """Which differences between two are real, in one sentence."""
    real = {n: d for n, d in comparison.differences.items() if d.apart and n in names}
    ahead = [_difference(names[n], d) for n, d in real.items() if d.mean > 0]
    behind = [_difference(names[n], d) for n, d in real.items() if d.mean < 0]
    same = [names[n] for n in comparison.differences if n in names and n not in real]
    if not real:
        return f"{comparison.better} and {comparison.worse}: {questions:,} questions can't tell them apart by any measure."
    said = [f"is better by {', '.join(ahead)}"] if ahead else []
    said += [f"is worse by {', '.join(behind)}"] if behind else []
    said += [f"can't be told apart by {', '.join(same)}"] if same else []
    return f"{comparison.better}, against {comparison.worse}, {'; '.join(said)}."


def _difference(name: str, found: Interval) -> str:
    low, high = sorted((abs(found.low), abs(found.high)))
    return f"{name} ({abs(found.mean) * 100:.1f} points, {low * 100:.1f} to {high * 100:.1f})"


def verdicts(evaluation: Evaluation) -> list[str]:
    """A sentence for each comparison, or one for all where there are too few questions."""
    if evaluation.comparisons and evaluation.questions < FEW:
        return [f"{counted(evaluation.questions, 'question')} can't tell which is better: take {FEW} or more."]
    return [verdict(c, known(evaluation), evaluation.questions) for c in evaluation.comparisons]


def show(evaluation: Evaluation, console: Console) -> None:
    """All of it in the terminal."""
    names, wide = known(evaluation), console.width >= WIDE_TERMINAL
    shown = [name for name in names if wide or name not in ("precision", "context")]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, head in enumerate(("strategy", "chunks", "size", *map(short, shown), *(("embedded", "time") if wide else ()))):
        table.add_column(head, justify="right" if i else "left", overflow="fold", no_wrap=bool(i))
    for r in evaluation.results:
        scores = [digits(r.mean(n), n) for n in shown]
        cost = (f"{r.tokens:,}", f"{r.seconds:.0f} s") if wide else ()
        table.add_row(Text(line(r.label)), f"{len(r.sizes):,}", f"{r.sizes.mean():.0f}", *scores, *cost)
    console.print(table, highlight=False)
    for said in (*notes(evaluation), *verdicts(evaluation)):
        console.print(line(said), highlight=False, markup=False, soft_wrap=True)


def notes(evaluation: Evaluation) -> Iterator[str]:
    """What the table is of, and what is missing from it."""
    asked, over = counted(evaluation.questions, "question"), counted(evaluation.documents, "document")
    yield f"{asked} over {over}; {_legend(evaluation)}"
    if failed := evaluation.failed:
        yield f"documents that failed: {', '.join(f'{n:,} {kind}' for kind, n in _kinds(failed).items())}"
        yield from _named(failed)
    for result in evaluation.results:
        if result.failed:
            yield f"{result.label}: {counted(len(result.failed), 'document')} could not be cut"
            yield from _named(result.failed)
    if lost := evaluation.lost:
        left = counted(len({x.question for x in lost}), "question")
        yield f"left out: {left}, for want of {counted(len(lost), 'answer')}:"
        yield from (f"  {f'{x.excerpt[:60]!r}: ' * bool(x.excerpt)}{x.why} (of {x.question[:60]!r})" for x in lost[:LOST_SHOWN])
        if len(lost) > LOST_SHOWN:
            yield f"  and {len(lost) - LOST_SHOWN:,} more; --json lists all"


def _kinds(failed: Sequence[Failure]) -> Counter[str]:
    return Counter(failure.kind for failure in failed)


def _named(failed: Sequence[Failure]) -> Iterator[str]:
    """The first of them, a line each."""
    yield from (f"  {f.document}: {f.kind}: {f.why}" for f in failed[:LOST_SHOWN])
    if len(failed) > LOST_SHOWN:
        yield f"  and {len(failed) - LOST_SHOWN:,} more; --json lists all"


def _legend(evaluation: Evaluation) -> str:
    """What the columns are."""
    names = known(evaluation)
    spans = ["recall (r) of so many chunks or in so many characters", "precision", "IoU", "precision-omega"]
    shares = ", ".join(spans * (HEADLINE in names) + ["questions with a hit", "nDCG"] * ("hit" in names))
    units = {r.unit for r in evaluation.results}
    size = f"size in {units.pop()}" if len(units) == 1 else "size in the unit of each"
    return f"{shares}: in percent; {size}, embedded in tokens"


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """All of it for machines; shares are from 0 to 1."""
    return {
        "k": evaluation.k,
        "seed": evaluation.seed,
        "questions": evaluation.questions,
        "documents": evaluation.documents,
        "failed": _kinds(evaluation.failed),
        "failures": [f._asdict() for f in evaluation.failed],
        "lost": [x._asdict() for x in evaluation.lost],
        "results": [_row(r, evaluation) for r in evaluation.results],
        "comparisons": [
            {"better": c.better, "worse": c.worse, "differences": {n: d._asdict() for n, d in c.differences.items()}}
            for c in evaluation.comparisons
        ],
        "verdicts": verdicts(evaluation),
    }


def _row(r: Result, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "strategy": r.name,
        "search": r.search,
        "chunks": len(r.sizes),
        "unit": r.unit,
        "size_mean": float(r.sizes.mean()),
        "size_max": int(r.sizes.max()),
        "chars_mean": float(r.lengths.mean()),
        "tokens_embedded": r.tokens,
        "seconds": round(r.seconds, 3),
        "failed": len(r.failed),
        "failures": [f._asdict() for f in r.failed],
        "measures": {n: metrics.interval(r.values[n], seed=evaluation.seed)._asdict() for n in known(evaluation)},
        "settings": r.settings,
    }


def as_csv(evaluation: Evaluation) -> str:
    """A line for each result: every measure with the bounds of its 95% interval."""
    out = io.StringIO()
    lines = [_flat(_row(r, evaluation)) for r in evaluation.results]
    writer = csv.DictWriter(out, [*lines[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if name not in ("measures", "settings", "failures")}
    ends = {"mean": "", "low": " low", "high": " high"}
    return plain | {n + ends[end]: value for n, found in row["measures"].items() for end, value in found.items()}


def as_page(evaluation: Evaluation) -> str:
    """All of it as a page that stands alone."""
    names = known(evaluation)
    best = max(evaluation.results, key=headline)
    body = [
        "<header><h1>Which strategy answers these questions</h1></header><main>",
        cards(
            {
                "questions": evaluation.questions,
                "documents": evaluation.documents,
                "highest recall in 2k characters" if HEADLINE in names else "highest nDCG": best.label,
            }
        ),
        "<h2>In words</h2>",
        *(f"<p>{escape(line)}</p>" for line in (*verdicts(evaluation), *notes(evaluation))),
        "<h2>In numbers</h2>",
        _numbers(evaluation, names),
        "<h2>Each measure</h2><p class=soft>The mean over the questions, and the 95% interval of a bootstrap over them.</p>",
        "<div class=halves>" + "".join(_dots(evaluation, n, label) for n, label in names.items()) + "</div>",
        *(_curves(evaluation) if HEADLINE in names else ()),
        "<h2>Sizes of chunks</h2><div class=halves>",
        *(f"<div><h3>{escape(r.label)}</h3>{_sizes(r)}</div>" for r in evaluation.results),
        "</div><h2>Settings</h2>",
        *(f"<details><summary>{escape(r.label)}</summary><pre>{escape(_yaml(r))}</pre></details>" for r in evaluation.results),
        "</main>",
    ]
    return page("chunkmill eval", body, style=".plot text { font-size: 12px; fill: var(--ink); } svg.plot { width: 100%; }")


def _yaml(r: Result) -> str:
    return yaml.safe_dump(r.settings | {"search": r.search}, sort_keys=False, allow_unicode=True)


def _sizes(r: Result) -> str:
    return histogram(binned(NO_SIZES.plus(r.sizes)), "chunk", r.unit)


def _numbers(evaluation: Evaluation, names: dict[str, str]) -> str:
    heads = ["strategy", "chunks", "mean size", *names.values(), "tokens embedded", "seconds"]
    rows = [
        [
            escape(r.label),
            f"{len(r.sizes):,}",
            f"{r.sizes.mean():.0f}",
            *(digits(r.mean(n), n) for n in names),
            f"{r.tokens:,}",
            f"{r.seconds:.1f}",
        ]
        for r in evaluation.results
    ]
    return grid(heads, rows, numbers=range(1, len(heads)))


def _dots(evaluation: Evaluation, measure: str, label: str) -> str:
    """Of each result the mean as a dot on its interval."""
    found = [(r.label, metrics.interval(r.values[measure], seed=evaluation.seed)) for r in evaluation.results]
    low, high = min(i.low for _, i in found), max(i.high for _, i in found)
    wide = (WIDE - LEFT - RIGHT) / max(high - low, 1e-9)
    rows = "".join(_dot(n, LEFT - low * wide, wide, name, i, measure) for n, (name, i) in enumerate(found))
    said = escape(f"{label}: " + "; ".join(f"{name} {digits(i.mean, measure)}" for name, i in found))
    box = f'viewBox="0 0 {WIDE} {ROW * len(found) + 8}"'
    return f'<div><h3>{escape(label)}</h3><svg class=plot {box} role=img aria-label="{said}">{rows}</svg></div>'


def _dot(row: int, zero: float, wide: float, name: str, found: Interval, measure: str) -> str:
    y = ROW * row + ROW / 2
    low, mean, high = (zero + wide * value for value in (found.low, found.mean, found.high))
    return (
        f"<text x=0 y={y + 4}><title>{escape(name)}</title>{escape(name[:33] + '…' * (len(name) > 33))}</text>"
        f"<text x={WIDE} y={y + 4} text-anchor=end>{digits(found.mean, measure)}</text>"
        f'<line x1={low:.1f} x2={high:.1f} y1={y} y2={y} stroke="var(--bar)" stroke-width=3 />'
        f'<circle cx={mean:.1f} cy={y} r=5 fill="var(--bar)" />'
    )


def _curves(evaluation: Evaluation) -> Iterator[str]:
    """Recall as the budget of characters grows."""
    yield "<h2>Recall within a budget</h2><p class=soft>The share of the answers in so many characters of the ranking.</p>"
    heads = ["strategy", *(f"{n:,}" for n in BUDGETS), ""]
    rows = [[escape(r.label), *(digits(r.mean(f"within {n}"), "") for n in BUDGETS), _spark(r)] for r in evaluation.results]
    yield grid(heads, rows, numbers=range(1, len(BUDGETS) + 1))


def _spark(r: Result) -> str:
    points = [(20 + 60 * i, 44 - 40 * r.mean(f"within {n}")) for i, n in enumerate(BUDGETS)]
    path = " ".join(f"{x},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx={x} cy={y:.1f} r=3 fill="var(--bar)" />' for x, y in points)
    frame = "".join(f'<line x1=0 x2=160 y1={y} y2={y} stroke="var(--line)" />' for y in (4, 44))
    line = f'<polyline points="{path}" fill=none stroke="var(--bar)" />'
    return f'<svg viewBox="0 0 160 48" width=160 aria-hidden=true>{frame}{line}{dots}</svg>'
