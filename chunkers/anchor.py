"""Packing that an edit can't shift: boundaries are anchored in content.

Greedy packing carries every edit on to the end of a document: each boundary depends on the one before. Here a boundary depends
on what stands around it. Every seam has a priority: its strength first, then a hash of the text behind it (the idea of
content-defined chunking: Muthitacharoen et al., LBFS, 2001). The text is divided at the seam of the highest priority that
leaves enough on either side (a treap over the seams, so that a new seam changes only what is below it) down to stretches of
about three chunks; inside a stretch the fewest chunks are made, and among those ways the one of least price.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Budget, Span

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST, MOST = 1.35, 3.0  # of the limit: what a division leaves on either side, and what is divided no more
HASHED = 16  # characters behind a seam that its hash is made of: few, so that few edits touch them
SLAB = 1 << 14  # parts whose hashes are computed at once
WEIGHTS = np.array([pow(0x9E3779B97F4A7C15, k, 1 << 64) for k in range(1, HASHED + 1)], np.uint64)
NOISE = 0.5  # how much the hash weighs beside the strengths, which are whole numbers


def pack_anchored(text: str, parts: Sequence[Span], budget: Budget, strengths: Sequence[int] | None = None) -> list[Span]:
    """Join neighbouring parts into spans that can be packed, at boundaries that an edit elsewhere leaves alone.

    `strengths[i]` is that of the seam before parts[i], 0 the strongest. A part that alone is too long stays alone.
    """
    if len(parts) < 2:
        return list(parts)
    first, last = np.ascontiguousarray(budget.indices(parts).T)
    prices = noise(text, parts) + (np.array(strengths) if strengths is not None else 0)
    room = np.maximum(1, budget.rooms(parts) - budget.limit + budget.fill) if len(budget.context_at) else None
    limit = max(1, budget.fill)
    cuts: list[int] = []
    todo = [(0, len(parts))]
    while todo:
        a, b = todo.pop()
        if (cut := division(first, last, prices, a, b, limit)) is None:
            cuts += fewest(first, last, prices, a, b, limit, room)
        else:
            cuts.append(cut)
            todo += [(a, cut), (cut, b)]
    edges = [0, *sorted(cuts), len(parts)]
    return [Span(parts[a].start, parts[b - 1].end) for a, b in pairwise(edges)]


def noise(text: str, parts: Sequence[Span]) -> Floats:
    """For the seam before each part a number in [0, NOISE), by the text behind the seam."""
    starts = np.fromiter((p[0] for p in parts), np.int64, len(parts))
    mixed = np.empty(len(parts), np.uint64)
    for i in range(0, len(parts), SLAB):
        at = starts[i : i + SLAB, None] + np.arange(HASHED)
        first, end = int(at[0, 0]), int(at[-1, -1]) + 1
        code = np.frombuffer(text[first:end].ljust(end - first, "\0").encode("utf-32-le"), np.uint32)
        mixed[i : i + SLAB] = (code[at - first].astype(np.uint64) * WEIGHTS).sum(axis=1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(11)).astype(np.float64) * (NOISE / (1 << 53))


def division(first: Ints, last: Ints, prices: Floats, a: int, b: int, limit: int) -> int | None:
    """The cheapest seam inside parts[a:b] that leaves LEAST limits on either side; None in a short stretch."""
    start, end = first[a], last[b - 1]
    if end - start <= MOST * limit:
        return None
    low = a + 1 + int(last[a : b - 1].searchsorted(start + LEAST * limit))
    high = a + 1 + int(first[a + 1 : b].searchsorted(end - LEAST * limit, "right"))
    return low + int(prices[low:high].argmin()) if low < high else None


def fewest(
    first: Ints,
    last: Ints,
    prices: Floats,
    a: int,
    b: int,
    limit: int,
    room: Ints | None,
) -> list[int]:
    """Where to cut parts[a:b] into the fewest chunks, and of those ways the cheapest; exact."""
    if room is None:
        if last[b - 1] - first[a] <= limit:
            return []
        # The cuts after which the rest fits one chunk, and the first cuts that leave one chunk before them.
        rest = a + 1 + int(first[a + 1 : b].searchsorted(last[b - 1] - limit))
        head = a + 1 + int(last[a : b - 1].searchsorted(first[a] + limit, "right"))
        if rest < min(head, b):
            return [rest + int(prices[rest:head].argmin())]
        if a + 1 < head and rest < b and (pair := _two_cuts(first, last, prices, a, head, rest, b, limit)):
            return pair
    return _programme(first, last, prices, a, b, limit, room)


def _two_cuts(first: Ints, last: Ints, prices: Floats, a: int, head: int, rest: int, b: int, limit: int) -> list[int] | None:
    """The cheapest cuts k < m into three chunks: k before `head`, m from `rest` on, what is between them fits."""
    furthest = last[:b].searchsorted(first[a + 1 : head] + limit, "right")  # the last m for each k
    possible = np.flatnonzero(furthest >= rest)
    if not len(possible):
        return None
    cheapest = np.minimum.accumulate(prices[rest:b])
    total = prices[a + 1 : head][possible] + cheapest[np.minimum(furthest[possible], b - 1) - rest]
    k = int(possible[int(total.argmin())])
    m = rest + int(prices[rest : min(int(furthest[k]), b - 1) + 1].argmin())
    return [a + 1 + k, m]


def _programme(first: Ints, last: Ints, prices: Floats, a: int, b: int, limit: int, room: Ints | None) -> list[int]:
    """The same for any number of chunks, by dynamic programming from the end."""
    starts, ends, price = first[a:b].tolist(), last[a:b].tolist(), prices[a:b].tolist()
    rooms = room[a:b].tolist() if room is not None else [limit] * (b - a)
    n = b - a
    best: list[tuple[int, float]] = [(0, 0.0)] * (n + 1)  # of parts[i:]: chunks, price
    after = [n] * (n + 1)
    for i in range(n - 1, -1, -1):
        reach = starts[i] + rooms[i]
        found: tuple[int, float] | None = None
        j = i + 1
        while j <= n and (j == i + 1 or ends[j - 1] <= reach):
            count, cost = best[j]
            option = (count + 1, cost + (price[j] if j < n else 0.0))
            if found is None or option < found:
                found, after[i] = option, j
            j += 1
        best[i] = found or (0, 0.0)
    cuts = []
    i = after[0]
    while i < n:
        cuts.append(a + i)
        i = after[i]
    return cuts
