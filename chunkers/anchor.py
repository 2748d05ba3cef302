"""Packing that an edit can't shift: boundaries are anchored in content.

Greedy packing carries every edit on to the end of a document: each boundary depends on the one before. Here a boundary depends
on what stands around it. Every seam has a priority: its strength first, then a hash of the text behind it (the idea of
content-defined chunking: Muthitacharoen et al., LBFS, 2001). The text is divided at the seam of the highest priority that
leaves enough on either side (a treap over the seams, so that a new seam changes only what is below it) down to stretches of
about three chunks; inside a stretch the fewest chunks are made, and among those ways the one of least price.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, compress, pairwise, repeat
from operator import add, le, sub
from typing import Protocol

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Budget, Span

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Window = tuple[int, int]

LEAST, MOST = 1.35, 3.0  # of the limit: what a division leaves on either side, and what is divided no more
SLACK = 16  # units on either side of where a cut can be: white space between chunks takes some, and belongs to none
HASHED = 16  # characters behind a seam that its hash is made of: few, so that few edits touch them
TIED = 80  # as many as break a tie between two of them
SLAB = 1 << 14  # parts whose hashes are computed at once
MANY, SPARSE = 256, 64  # from so many on, all text between them is looked at, unless it is more characters a part than this
WEIGHTS = np.array([pow(0x9E3779B97F4A7C15, k, 1 << 64) for k in range(1, TIED + 1)], np.uint64)
NOISE = 0.5  # how much the hash weighs beside the strengths, which are whole numbers
MIXER, SHIFT = np.uint64(0x94D049BB133111EB), np.uint64(29)
KEPT, SCALE = np.uint64(11), np.float64(NOISE / (1 << 53))  # bits too many for a float; what is left, below NOISE


class Parts:
    """Parts to be packed: where each starts and ends in the text, and in the index (`first`, `last`).

    `strengths[i]` is that of the seam before part i, 0 the strongest (None: all of them). A chunk may hold `limit`, or
    `rooms[i]` if it begins with part i. Lists and `bisect`: documents of some dozen parts are the rule, for which numpy costs
    more than it gives.
    """

    def __init__(
        self, text: str, starts: Sequence[int], ends: Sequence[int], strengths: Sequence[int] | None, budget: Budget
    ) -> None:
        self.text, self.starts, self.ends, self.strengths = text, starts, ends, strengths
        self.first: list[int]
        self.last: list[int]
        offsets = np.array((starts, ends), np.int64)
        self.first, self.last = budget.indices_of(offsets).tolist()
        self.limit = max(1, budget.fill)
        self.rooms: list[int] | None = None
        if len(budget.context_at):
            self.rooms = np.maximum(1, budget.rooms_from(offsets[0]) - (budget.limit - budget.fill)).tolist()

    @cached_property
    def prices(self) -> list[float]:
        """What a cut before each part costs."""
        prices = noise(self.text, self.starts)
        return list(map(add, prices, self.strengths)) if self.strengths else prices

    def size(self, a: int, b: int) -> int:
        """What parts[a:b] hold."""
        return self.last[b - 1] - self.first[a]

    def room(self, a: int, b: int) -> int:
        """The most that a chunk may hold which begins in parts[a:b]."""
        return self.limit if self.rooms is None else max(self.rooms[a:b])

    def fit(self) -> bool:
        """Whether every part fits a chunk."""
        rooms = repeat(self.limit) if self.rooms is None else self.rooms
        return all(map(le, map(sub, self.last, self.first), rooms))

    def cheapest(self, a: int, b: int) -> int:
        """The seam in [a, b) of the least price; of equals the one in the middle, else repeated text costs quadratic time."""
        if b - a == 1:
            return a
        prices = self.prices[a:b]
        least = min(prices)
        first = prices.index(least)
        if least not in prices[first + 1 :]:
            return a + first
        middle = len(prices) // 2
        before, behind = prices[middle::-1], prices[middle:]
        near = [middle - before.index(least)] if least in before else []
        near += [middle + behind.index(least)] if least in behind else []
        return a + min(near, key=lambda at: abs(at - middle))

    def fits(self, a: int, b: int, cuts: Sequence[int]) -> bool:
        """Whether every chunk fits that these cuts of parts[a:b] make."""
        for end in (*cuts, b):
            if self.size(a, end) > self.room(a, a + 1):
                return False
            a = end
        return True

    def joined(self, a: int, b: int, cuts: Sequence[int]) -> list[Span]:
        """The spans between the cuts of parts[a:b]."""
        return [Span(self.starts[i], self.ends[j - 1]) for i, j in pairwise((a, *cuts, b))]


class Finer(Protocol):
    """Divides parts[a:b] further, where the parts as they are don't make the fewest chunks."""

    def within(self, a: int, b: int, windows: Sequence[Window]) -> Parts:
        """Parts[a:b] divided by the seams that lie in these windows of the index; what lies between two is one part."""
        ...

    def throughout(self, a: int, b: int) -> Parts:
        """Parts[a:b] divided by all seams, and what doesn't fit by force."""
        ...


def pack_anchored(text: str, spans: Sequence[Span], budget: Budget) -> list[Span]:
    """Join neighbours into spans that can be packed, at boundaries that an edit elsewhere leaves alone.

    A span that alone is too long stays alone.
    """
    if len(spans) < 2:
        return list(spans)
    return packed(Parts(text, [s[0] for s in spans], [s[1] for s in spans], None, budget))


def packed(parts: Parts, finer: Finer | None = None) -> list[Span]:
    """The parts joined as `pack_anchored` says, divided further where they must be."""
    spans: list[Span] = []
    todo = [(0, len(parts.starts))] if parts.starts else []
    while todo:
        a, b = todo.pop()
        if (cut := division(parts, a, b)) is not None:
            todo += [(cut, b), (a, cut)]
        elif finer is None:
            spans += parts.joined(a, b, fewest(parts, a, b))
        else:
            spans += _refined(parts, a, b, finer)
    return spans


def _refined(parts: Parts, a: int, b: int, finer: Finer) -> list[Span]:
    """Parts[a:b] packed as they are if that gives the fewest chunks, else divided where a cut can be, else everywhere."""
    size = parts.size(a, b)
    least = -(-size // parts.room(a, b))
    if size > MOST * parts.limit:
        return packed(finer.throughout(a, b))
    cuts = few(parts, a, b)
    if cuts is None and parts.rooms is not None:
        cuts = _programme(parts, a, b)
        # A weaker seam costs 1 or more: no way with one is cheaper than one that costs less.
        sure = len(cuts) < 3 or sum(parts.prices[cut] for cut in cuts) < 1
        cuts = cuts if sure and parts.fits(a, b, cuts) else None
    if cuts is not None and len(cuts) < least:
        return parts.joined(a, b, cuts)
    fine = finer.within(a, b, _windows(parts, a, b, least))
    cuts = few(fine, 0, len(fine.starts))
    if cuts is not None and len(cuts) < least:
        return fine.joined(0, len(fine.starts), cuts)
    return packed(finer.throughout(a, b))


def _windows(parts: Parts, a: int, b: int, count: int) -> list[Window]:
    """Where the cuts can be, if parts[a:b] are to be so many chunks or fewer: stretches of the index, in order and apart."""
    windows: list[Window] = []
    for i in range(1, count):
        low = parts.last[b - 1] - (count - i) * parts.limit - SLACK
        high = parts.first[a] + i * parts.limit + SLACK
        if windows and low <= windows[-1][1]:
            low = windows.pop()[0]
        windows.append((low, high))
    return windows


def noise(text: str, starts: Sequence[int]) -> list[float]:
    """For the seam before each start a number in [0, NOISE), by the text behind it."""
    if len(starts) > SLAB:
        return [n for i in range(0, len(starts), SLAB) for n in noise(text, starts[i : i + SLAB])]
    values = _hashes(text, starts, HASHED)
    order = values.argsort()
    again = (values[order[1:]] == values[order[:-1]]).nonzero()[0]
    if len(again):  # texts that begin alike, as rows do: the first of them must not win for its place
        tied = np.zeros(len(values), np.bool_)
        tied[order[again]] = tied[order[again + 1]] = True
        values[tied] += _hashes(text, list(compress(starts, tied.tolist())), TIED) / (1 << 24)
    found: list[float] = values.tolist()
    return found


def _hashes(text: str, starts: Sequence[int], length: int) -> Floats:
    """A number in [0, NOISE) for the text of this length behind each of the offsets."""
    apart = len(starts) < MANY or starts[-1] - starts[0] > SPARSE * len(starts)
    mixed = (_sums if apart else _sums_of_all)(text, starts, length)
    mixed ^= mixed >> SHIFT
    mixed *= MIXER
    mixed >>= KEPT
    return mixed * SCALE


def _sums(text: str, starts: Sequence[int], length: int) -> Words:
    """For each offset the weighted sum of the code points of the text of this length behind it."""
    behind = "".join([text[at : at + length] for at in starts])
    if len(behind) < length * len(starts):
        behind = "".join([text[at : at + length].ljust(length, "\0") for at in starts])
    codes = np.frombuffer(behind.encode("utf-32-le"), np.uint32).reshape(-1, length)
    sums: Words = np.dot(codes.astype(np.uint64), WEIGHTS[:length])
    return sums


def _sums_of_all(text: str, starts: Sequence[int], length: int) -> Words:
    """The same out of one array of all text between the offsets: less work where they are words."""
    first, end = starts[0], starts[-1] + length
    codes = np.frombuffer(text[first:end].ljust(end - first, "\0").encode("utf-32-le"), np.uint32).astype(np.uint64)
    at = np.array(starts) - first
    sums = np.zeros(len(starts), np.uint64)
    for k in range(length):
        sums += codes.take(at + k) * WEIGHTS[k]
    return sums


def division(parts: Parts, a: int, b: int) -> int | None:
    """The cheapest seam inside parts[a:b] that leaves LEAST limits on either side; None in a short stretch."""
    if parts.size(a, b) <= MOST * parts.limit:
        return None
    least = LEAST * parts.limit
    low = bisect_left(parts.last, parts.first[a] + least, a, b - 1) + 1
    high = bisect_right(parts.first, parts.last[b - 1] - least, a + 1, b)
    return parts.cheapest(low, high) if low < high else None


def fewest(parts: Parts, a: int, b: int) -> list[int]:
    """Where to cut parts[a:b] into the fewest chunks, and of those ways the cheapest; exact."""
    cuts = few(parts, a, b)
    return _programme(parts, a, b) if cuts is None else cuts


def few(parts: Parts, a: int, b: int) -> list[int] | None:
    """The same where up to three chunks do; else None."""
    return _few(parts, a, b) if parts.rooms is None else _few_of(parts, parts.rooms, a, b)


def _few(parts: Parts, a: int, b: int) -> list[int] | None:
    """`few` where all chunks have one limit."""
    first, last, limit = parts.first, parts.last, parts.limit
    if last[b - 1] - first[a] <= limit:
        return []
    # The cuts after which the rest fits one chunk, and the first cuts that leave one chunk before them.
    rest = bisect_left(first, last[b - 1] - limit, a + 1, b)
    head = bisect_right(last, first[a] + limit, a, b - 1) + 1
    if rest < min(head, b):
        return [parts.cheapest(rest, head)]
    return _two_cuts(parts, a, head, rest, b) if a + 1 < head and rest < b else None


def _two_cuts(parts: Parts, a: int, head: int, rest: int, b: int) -> list[int] | None:
    """The cheapest cuts k < m into three chunks: k before `head`, m from `rest` on, what is between them fits."""
    first, last, prices, limit = parts.first, parts.last, parts.prices, parts.limit
    cheapest = list(accumulate(prices[rest:b], min))
    best: tuple[float, int, int] | None = None
    furthest = rest
    for k in range(bisect_left(first, last[rest - 1] - limit, a + 1, head), head):
        furthest = bisect_right(last, first[k] + limit, max(k, furthest), b - 1)
        total = prices[k] + cheapest[furthest - rest]
        if best is None or total < best[0]:
            best = total, k, furthest
    return [best[1], parts.cheapest(rest, best[2] + 1)] if best else None


def _few_of(parts: Parts, rooms: Sequence[int], a: int, b: int) -> list[int] | None:
    """`few` where the limit depends on the part that a chunk begins with; None too where a part alone is over its own."""
    first, last, prices = parts.first, parts.last, parts.prices
    if last[b - 1] - first[a] <= rooms[a]:
        return []
    if not all(map(le, map(sub, last[a:b], first[a:b]), rooms[a:b])):
        return None
    head = bisect_right(last, first[a] + rooms[a], a, b - 1) + 1
    least = bisect_left(first, last[b - 1] - max(rooms[a:b]), a + 1, b)
    rest = [m for m in range(least, b) if last[b - 1] - first[m] <= rooms[m]]  # the cuts after which the rest fits one chunk
    if rest and rest[0] < head:
        return [min(rest[: bisect_left(rest, head)], key=prices.__getitem__)]
    cheapest = list(accumulate([prices[m] for m in rest], min))
    best: tuple[float, int, int] | None = None
    for k in range(a + 1, head):
        reached = bisect_left(rest, bisect_right(last, first[k] + rooms[k], k, b - 1) + 1)
        if reached and (best is None or prices[k] + cheapest[reached - 1] < best[0]):
            best = prices[k] + cheapest[reached - 1], k, reached
    return [best[1], min(rest[: best[2]], key=prices.__getitem__)] if best else None


def _programme(parts: Parts, a: int, b: int) -> list[int]:
    """The same for any number of chunks, by dynamic programming from the end. O(n log n)."""
    starts, ends, prices = parts.first[a:b], parts.last[a:b], [*parts.prices[a:b], 0.0]
    n = b - a
    rooms = parts.rooms[a:b] if parts.rooms is not None else [parts.limit] * n
    after = [n] * n
    best = (0, 0.0)  # of parts[i + 1:]: chunks, price
    # The cuts j that may be the best for some part before them: the nearer one is, the dearer; by -j, with what it costs.
    cuts: list[int] = []
    costs: list[tuple[int, float]] = []
    for i in range(n - 1, -1, -1):
        cost = best[0] + 1, best[1] + prices[i + 1]
        while costs and costs[-1] >= cost:
            cuts.pop()
            costs.pop()
        cuts.append(-i - 1)
        costs.append(cost)
        furthest = max(i + 1, bisect_right(ends, starts[i] + rooms[i], i))
        at = bisect_left(cuts, -furthest)
        best, after[i] = costs[at], -cuts[at]
    found = []
    i = after[0]
    while i < n:
        found.append(a + i)
        i = after[i]
    return found
