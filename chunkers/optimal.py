"""The split of least cost: sizes near a target, cuts where the text itself has seams. No model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import between, cluster_start, sentence_starts
from chunkmill.chunkers.stretch import whole

Costs = npt.NDArray[np.float64]
Extra: TypeAlias = Callable[[Sequence[int]], Iterable[Costs]]

FORCED, SENTENCE, LINE, BREAK = range(4)  # how strong a seam is
PRICES = np.array([1.5, 0.5, 0.2, 0.0])  # of a cut there, where missing the size target by 100% costs 1
SMALL = 1.0  # of a chunk far below the target, where those count as much as far larger ones
OVER = 1e6  # of a unit that alone is over the limit: nothing else is as bad
CRUMB = 15  # a "sentence" of fewer characters (`1.`, `e.g.`) belongs to the next one
PART = 0.4  # a sentence above this share of a chunk may be cut inside
NEAR = 40  # characters around an even cut in which white space or, better, the end of a clause is looked for

LINES = re.compile(r"\n\s*")
# Ends of sentences inside quotes and brackets, which the segmenter takes for one sentence; `so . Then` is how corpora write.
ENDS = re.compile(r"""(?:\b[a-z]{2,}|(?<=[\s)\]”"’%]))[.!?]["'”’)\]]*\s+(?=["'“‘(\[]*[ \t]?[A-Z])""")
CLAUSE = re.compile(r"[;:,|、，；：]\s*")
WHITE = re.compile(r"\s+")
# A heading where no parser named any: `# Title`, `= Title =` as in wikis and AsciiDoc, `= = Title = =` as in WikiText.
TITLE = re.compile(r"^[ \t]{0,3}(?:#{1,6}[ \t]+\S.{0,200}|(?:= ?){1,6}[^=\s].{0,200}=)[ \t]*$", re.MULTILINE)
ESCAPED = re.compile(r"(?<!\\)(?:\\r)?((?:\\n)+)\s*|\}\s?,\s?(?=\{)")  # line ends and records in a dump on one line


@dataclass(frozen=True, slots=True)
class Optimal:
    """The cuts of least total cost: squared relative distance from the size target, and a price per cut by its seam.

    A cut before a heading or at a blank line is free, at a line it costs 0.2, between sentences 0.5, inside a sentence or
    behind a heading 1.5. `target`: the size aimed at, as a share of what a chunk may hold. Exact dynamic programme; time
    grows with the text times the seams in one chunk.
    """

    target: float = 0.7
    language: str = "en"

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ConfigError(f"chunk.target is {self.target}; it is a share of the size: above 0, at most 1")

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The pieces of the best split; all of them fit."""
        units, strength = parts(doc, budget, doc.metadata.get("language", self.language))
        groups = cheapest(units, PRICES[np.array(strength, np.int64)], budget, self.target)
        return pieces(doc.text, units, groups, budget)


def pieces(text: str, units: Sequence[Span], groups: Iterable[tuple[int, int]], budget: Budget) -> list[Piece]:
    """The groups of units as pieces that fit, none of which begins or ends inside a grapheme cluster."""
    best = whole(text, (Piece(Span(units[a].start, units[b - 1].end)) for a, b in groups))
    return [Piece(s) for piece in best for s in fit(text, piece.span, budget)]


def parts(doc: Document, budget: Budget, language: str = "en") -> tuple[list[Span], list[int]]:
    """What is never cut further, trimmed and in order, and for each how strong the seam in front of it is."""
    units, strength = _whole(doc, marks(doc, language))
    most = max(1, int(PART * budget.fill))
    starts, ends = budget.indices(units).T
    if not (ends - starts > most).any():
        return units, strength
    small: list[Span] = []
    strong: list[int] = []
    for unit, seam, size in zip(units, strength, (ends - starts).tolist(), strict=True):
        found = [(unit, seam)] if size <= most else [*_sentences(doc.text, unit, seam, most, budget)]
        small += [part for part, _ in found]
        strong += [how for _, how in found]
    return small, strong


def _sentences(text: str, unit: Span, seam: int, most: int, budget: Budget) -> Iterator[tuple[Span, int]]:
    """What an over-long unit is made of, each at most about `most`, and how strong the seam in front of it is."""
    for sentence in between(text, (m.end() for m in ENDS.finditer(text, *unit)), unit):
        size = budget.size(sentence)
        for part in [sentence] if size <= most else _divided(text, sentence, -(-size // most), budget):
            yield part, seam
            seam = FORCED
        seam = SENTENCE


def marks(doc: Document, language: str) -> dict[int, int]:
    """Where the text may be cut, and how strong each seam is (the strongest of those that fall together)."""
    text = doc.text
    found = dict.fromkeys(sentence_starts(text, Span(0, len(text)), language), SENTENCE)
    found |= {m.end(): BREAK if text.count("\n", *m.span()) > 1 else LINE for m in LINES.finditer(text)}
    if text.count("\\n") > text.count("\n"):
        found |= {m.end(): LINE if m[1] and len(m[1]) == 2 else BREAK for m in ESCAPED.finditer(text)}
    for block in doc.blocks:
        found |= {part.start: max(LINE, found.get(part.start, 0)) for part in block.parts}
        found[block.span.start] = BREAK
    titles = [b.span for b in doc.blocks if b.kind == "heading"]
    if not titles and not any(b.kind in ("code", "table") for b in doc.blocks):
        titles = [Span(*m.span()) for m in TITLE.finditer(text)]
    found |= {start: BREAK for start, _ in titles}
    return found | {end: FORCED for _, end in titles}


def _whole(doc: Document, found: dict[int, int]) -> tuple[list[Span], list[int]]:
    """The trimmed stretches between the marks; crumbs go with what follows them on the same line."""
    text = doc.text
    units: list[Span] = []
    strength: list[int] = []
    start, seam = 0, BREAK
    for cut in (*sorted(found), len(text)):
        body = text[start:cut]
        full = body.strip()
        if full:
            first = start + len(body) - len(body.lstrip())
            if units and seam == SENTENCE and units[-1].end - units[-1].start < CRUMB:
                units[-1] = Span(units[-1].start, first + len(full))
            else:
                units.append(Span(first, first + len(full)))
                strength.append(seam)
            start, seam = cut, found.get(cut, FORCED)
        elif cut < len(text):
            start, seam = cut, FORCED if seam == FORCED else max(seam, found[cut])
    return units, strength


def _divided(text: str, unit: Span, n: int, budget: Budget) -> list[Span]:
    """About n even parts of an over-long unit, cut at clauses where there are any near, else at white space."""
    first, last = budget.index(unit.start), budget.index(unit.end)
    reach = max(0, (last - first) // (4 * n))
    cuts = []
    for k in range(1, n):
        middle = first + (last - first) * k // n
        at = budget.offset(middle)
        low, high = max(budget.offset(middle - reach), at - NEAR), min(budget.offset(middle + reach), at + NEAR)
        found = [m.end() for m in CLAUSE.finditer(text, low, high)] or [m.end() for m in WHITE.finditer(text, low, high)]
        cuts.append(min(found, key=lambda cut: abs(cut - at)) if found else cluster_start(text, at))
    return between(text, cuts, unit)


def cheapest(
    units: Sequence[Span], prices: Costs, budget: Budget, target: float, extra: Extra | None = None, *, even: bool = False
) -> list[tuple[int, int]]:
    """The grouping of least cost, as half-open ranges of units. A unit over the limit stays alone.

    `prices`: of a cut in front of each unit. `extra`: what else groups cost; it is given the first unit that each unit can be
    in a group with, and gives for each unit as the last one the costs with every first one from there on. `target` 0: no size
    costs more than another; `even`: see `deviation`. Exact: each unit is tried as the last of a group with all first ones that
    fit.
    """
    starts, ends = budget.indices(units).T
    limit = max(1, budget.fill)
    context = budget.limit - budget.rooms(units)
    cost = deviation(limit, int(context.max(initial=0)), target, even=even)
    first = np.minimum(starts.searchsorted(ends - limit), np.arange(len(units))).tolist()
    base = starts - context
    back: list[int] = []
    before = prices.copy()  # of unit i: the least cost of all before it, and of the cut in front of it
    more = extra(first) if extra else repeat(None, len(first))
    for last, (low, end, added) in enumerate(zip(first, ends.tolist(), more, strict=True)):
        totals = cost.take(end - base[low : last + 1], mode="clip")
        if added is not None:
            totals += added
        totals += before[low : last + 1]
        chosen = int(totals.argmin())
        least = totals[chosen]
        if least == np.inf:
            chosen, least = last - low, before[last] + OVER
        back.append(low + chosen)
        if last + 1 < len(units):
            before[last + 1] += least
    groups, stop = [], len(units)
    while stop:
        groups.append((back[stop - 1], stop))
        stop = back[stop - 1]
    return groups[::-1]


def deviation(limit: int, context: int, target: float, *, even: bool = False) -> Costs:
    """What a chunk of each size costs: (limit + context + 2,); infinite above the limit, nothing where there is no target.

    A small chunk costs next to nothing; with `even` half the target costs as much as twice, 0.5, and nothing small more than
    `SMALL`, which is less than a cut inside a sentence.
    """
    size = np.arange(limit + context + 2)
    if not target:
        return np.where(size > limit, np.inf, 0.0)
    goal = max(1.0, target * limit)
    share = np.maximum(1, size) / goal
    off = (share - 1) ** 2
    cost = np.minimum(off / share, np.where(share < 1, SMALL, np.inf)) if even else off * np.minimum(1, share)
    return np.where(size > limit, np.inf, cost)
