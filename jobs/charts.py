"""Charts as inline SVG and as bars in tables: no library, readable without colour, with their numbers in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chunkmill.jobs.pages import counted, escape

WIDTH, HEIGHT, BELOW, ABOVE = 480, 150, 34, 14  # of a chart, in its own units
BINS = 24


class Sizes(NamedTuple):
    """How often each size occurs: `counts[n]` times n."""

    counts: npt.NDArray[np.int64]

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    @property
    def total(self) -> int:
        """Their sum."""
        return int((self.counts * np.arange(len(self.counts))).sum())

    def quantile(self, share: float) -> int:
        """The smallest size that so large a share is at most; 0 where there are none."""
        return int(self.counts.cumsum().searchsorted(max(1, math.ceil(share * self.number)))) if self.number else 0

    def plus(self, sizes: npt.ArrayLike) -> Sizes:
        """These and more."""
        more = np.bincount(np.asarray(sizes, np.int64))
        most = max(len(more), len(self.counts))
        return Sizes(np.pad(self.counts, (0, most - len(self.counts))) + np.pad(more, (0, most - len(more))))

    def summary(self) -> dict[str, float]:
        """The numbers that say most."""
        at = np.flatnonzero(self.counts)
        mean = round(self.total / self.number, 1) if self.number else 0
        ends = (int(at[0]), int(at[-1])) if len(at) else (0, 0)
        points = {"median": 0.5, "p10": 0.1, "p90": 0.9}
        return {"number": self.number, "total": self.total, "min": ends[0], "max": ends[1], "mean": mean} | {
            name: self.quantile(share) for name, share in points.items()
        }


NO_SIZES = Sizes(np.zeros(1, np.int64))


def counted_in(unit: str) -> str:
    """What the sizes of a job are counted in, by its `chunk.unit`: chars, words or tokens (of whatever encoding)."""
    return unit if unit in ("chars", "words") else "tokens"


class Bar(NamedTuple):
    """So many of sizes from `low` to `high`, both included."""

    low: int
    high: int
    count: int


def binned(sizes: Sizes, upto: int = 0) -> list[Bar]:
    """At most BINS bars of equal width from 1 to the largest size, or to `upto` if that is more; sizes of 0 are left out."""
    most = max(upto, len(sizes.counts) - 1, 1)
    width = rounded(most / BINS)
    number = -(-most // width)
    sums = np.pad(sizes.counts[1:], (0, number * width + 1 - len(sizes.counts))).reshape(number, width).sum(1)
    return [Bar(i * width + 1, (i + 1) * width, int(n)) for i, n in enumerate(sums.tolist())]


def doubled(sizes: Sizes) -> list[Bar]:
    """Bars of which each is twice as wide as the one before: 0, 1, 2–3, 4–7, …"""
    edges = [0, *(1 << i for i in range(max(1, len(sizes.counts) - 1).bit_length()))]
    ends = [*edges[1:], 2 * edges[-1]]
    return [Bar(a, b - 1, int(sizes.counts[a:b].sum())) for a, b in zip(edges, ends, strict=True)]


def rounded(width: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    scale = 10 ** max(0, math.floor(math.log10(max(1.0, width))))
    return next(int(step * scale) for step in (1, 2, 5, 10) if step * scale >= width)


def histogram(bars: Sequence[Bar], what: str, unit: str, limit: int = 0) -> str:
    """A bar chart of how many of `what` (in the singular) have which size; `limit` is drawn as a line.

    Bars of unequal width stand evenly.
    """
    most = max((b.count for b in bars), default=0) or 1
    wide, tall = WIDTH / max(1, len(bars)), HEIGHT - BELOW - ABOVE
    drawn = "".join(_bar(b, i * wide, wide, tall * b.count / most, what, unit) for i, b in enumerate(bars))
    label = f"How many {what}s have which size in {unit}: " + "; ".join(f"{_range(b)}: {b.count:,}" for b in bars if b.count)
    return (
        f'<svg class=chart viewBox="0 0 {WIDTH} {HEIGHT}" role=img aria-label="{escape(label)}">{drawn}'
        f"<line class=axis x1=0 x2={WIDTH} y1={HEIGHT - BELOW} y2={HEIGHT - BELOW} />{_ticks(bars, wide)}"
        f"<text x=0 y=10>{counted(most, what)}</text><text x={WIDTH} y={HEIGHT - 4} text-anchor=end>{escape(unit)}</text>"
        f"{_line(bars, limit, wide)}</svg>"
    )


def _bar(bar: Bar, x: float, wide: float, tall: float, what: str, unit: str) -> str:
    tall = max(tall, 1.5) if bar.count else 0
    said = escape(f"{_range(bar)} {unit}: {counted(bar.count, what)}")
    top = HEIGHT - BELOW - tall
    return (
        f"<rect class=bar x={x + wide * 0.06:.1f} y={top:.1f} width={wide * 0.88:.1f} height={tall:.1f} rx=1>"
        f"<title>{said}</title></rect>"
    )


def _range(bar: Bar) -> str:
    return f"{bar.low:,}" if bar.low == bar.high else f"{bar.low:,}–{bar.high:,}"


def _ticks(bars: Sequence[Bar], wide: float) -> str:
    """Of bars of one width the edges between some of them, of others where each begins, below it."""
    width = bars[0].high - bars[0].low + 1 if bars else 1
    if any(b.high - b.low + 1 != width for b in bars):
        return "".join(_tick((i + 0.5) * wide, _range(b), "middle") for i, b in enumerate(bars))
    every = max(1, rounded(width * math.ceil(len(bars) / 7)) // width)
    marks = ((i * wide, bars[i].low - 1) for i in range(0, len(bars), every))
    return "".join(_tick(x, f"{value:,}", "middle" if x else "start") for x, value in marks)


def _tick(x: float, said: str, anchor: str) -> str:
    return f"<text x={x:.1f} y={HEIGHT - BELOW + 14} text-anchor={anchor}>{said}</text>"


def _line(bars: Sequence[Bar], limit: int, wide: float) -> str:
    at = next((i for i, b in enumerate(bars) if b.low <= limit <= b.high), None) if limit else None
    if at is None:
        return ""
    x = (at + (limit - bars[at].low + 1) / (bars[at].high - bars[at].low + 1)) * wide
    return (
        f"<line class=limit x1={x:.1f} x2={x:.1f} y1={ABOVE + 2} y2={HEIGHT - BELOW} />"
        f"<text class=limit x={x:.1f} y=10 text-anchor={'end' if x > WIDTH / 2 else 'start'}>limit {limit:,}</text>"
    )


def meters(counts: Mapping[str, float], kinds: Mapping[str, str] | None = None) -> list[tuple[str, str, str]]:
    """Of each name, as HTML: itself, its count, and a bar of that length. `kinds` are the colours of bars by name."""
    most = max(counts.values(), default=0) or 1
    return [
        (
            escape(name),
            f"{n:,}",
            f'<span class="meter {(kinds or {}).get(name, "")}" style="width:{100 * n / most:.1f}%"></span>',
        )
        for name, n in counts.items()
    ]
