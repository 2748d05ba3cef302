"""Separators in order of strength."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from operator import sub
from typing import ClassVar, Literal

import numpy as np

from chunkmill.chunkers import presets
from chunkmill.chunkers.anchor import Parts, Window, packed
from chunkmill.chunkers.base import NOTHING, Budget, Document, Offsets, Piece, Span
from chunkmill.chunkers.errors import ConfigError, choose
from chunkmill.chunkers.pack import fit, pack
from chunkmill.chunkers.scan import blank_lines, lines, sentence_ends
from chunkmill.chunkers.seams import sentence_starts, text_from, trim, words

AROUND = 16  # characters on either side of a place to cut that are looked at with it
GRAINS = 8  # of a chunk: what is smaller is not divided before packing
SENTENCE = "{sentence}"  # in a list of separators: the end of a sentence, as the segmenter sees it

# What ends a sentence, looked at without a dictionary: good enough to choose among places to cut.
ENDS = r"""(?:(?<=[.!?])|(?<=[.!?]["')\]”’]))\s++(?![a-z])|(?<=[。！？])"""
WHITE = r"\s"
TEXT = (r"\n[ \t\r]*\n", r"\n", ENDS, WHITE)
Seam = tuple[int, int, int]  # where the part before ends, where the part behind begins, the rank: 0 the strongest
PRESETS = {"text": TEXT, **presets.PRESETS}


@dataclass(frozen=True, slots=True)
class Recursive:
    """Split by the strongest separator there is, pack neighbours, and go on with the next one inside what is too long.

    `separators`: the name of a preset, or separators from strong to weak, taken literally, or as regular expressions with
    `regex`; `{sentence}` is the end of a sentence. What matched stays at the `start` of the right part, at the `end` of the
    left one, or is dropped (`drop`: the only setting that loses text). The last resort is white space, then clusters.
    `stable`: neighbours are packed at boundaries that an edit elsewhere leaves alone (see `anchor`), else greedily.
    """

    separators: str | tuple[str, ...] = "text"
    regex: bool = False
    keep: Literal["start", "end", "drop"] = "start"
    language: str = "en"
    stable: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING

    @property
    def covers(self) -> bool:
        """Whether all text ends in some piece."""
        return self.keep != "drop"

    def __post_init__(self) -> None:
        if isinstance(self.separators, str) and self.separators not in PRESETS:
            raise choose("chunk.separators", self.separators, PRESETS)
        if not self.patterns():
            raise ConfigError(f"chunk.separators is {list(self.separators)!r}; give a preset, or separators that are not empty")

    def patterns(self) -> tuple[str, ...]:
        """The separators as regular expressions."""
        if isinstance(self.separators, str):
            return PRESETS[self.separators]
        literal = not self.regex
        found = tuple(re.escape(s) if literal and s != SENTENCE else s for s in self.separators if s)
        for pattern in found:
            compiled(pattern)
        return found

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The parts, trimmed; every one fits."""
        cut = anchored if self.stable else split
        spans = cut(doc.text, Span(0, len(doc.text)), budget, self.patterns(), self.keep, self.language)
        return [Piece(s) for s in spans]


def anchored(
    text: str,
    span: Span,
    budget: Budget,
    separators: Sequence[str] = TEXT,
    keep: str = "start",
    language: str = "en",
) -> list[Span]:
    """Like `split`, with boundaries that an edit elsewhere leaves alone.

    The text is divided down to a grain by all separators, each seam remembering its own; the last separator divides only
    what does not fit. Then all grains of the text are packed at once.
    """
    span = trim(text, *span)
    if span.start == span.end or budget.fits(span):
        return [span] if span.start < span.end else []
    if tuple(separators) == TEXT and keep == "start":
        return _text_anchored(text, span, budget)
    starts, ends, strengths = grains(text, span, budget, separators[:-1], keep, language)
    return packed(_fitted(text, starts, ends, strengths, budget, separators, keep, language))


def _text_anchored(text: str, span: Span, budget: Budget) -> list[Span]:
    """`anchored` at the separators of TEXT: lines and sentences are looked for only in paragraphs that must be divided."""
    gaps = blank_lines(text, *span)
    begins, stops = [span.start, *[begin for _, begin in gaps]], [*[end for end, _ in gaps], span.end]
    paragraphs = Parts(text, begins, stops, None, budget)
    return packed(paragraphs, Paragraphs(text, begins, stops, [*paragraphs.first, paragraphs.last[-1]], budget))


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """Paragraphs that can be divided into lines and sentences."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    index: Sequence[int]  # of the starts, and of the end
    budget: Budget

    def within(self, a: int, b: int, windows: Sequence[Window]) -> Parts:
        """Paragraphs[a:b] divided by the seams that lie in these windows of the index; what lies between two is one part."""
        seams: list[Seam] = []
        reached = -1
        for low, high in windows:
            low, reached = max(reached + 1, self.budget.offset(low - 1)), self.budget.offset(high)
            seams += self._seams(a, b, low, reached)
        return Parts(self.text, *self._parts(a, b, seams), self.budget)

    def throughout(self, a: int, b: int) -> Parts:
        """Paragraphs[a:b] divided by all seams, and what doesn't fit by force."""
        seams = self._seams(a, b, self.starts[a], self.ends[b - 1])
        return _fitted(self.text, *self._parts(a, b, seams), self.budget, TEXT)

    def _seams(self, a: int, b: int, low: int, high: int) -> list[Seam]:
        """The seams between and inside paragraphs[a:b] that begin from `low` on and end at `high` at the latest."""
        seams: list[Seam] = []
        grain = self.budget.fill // GRAINS
        for i in range(bisect_left(self.ends, low, a, b), b):
            start, end = self.starts[i], self.ends[i]
            if i > a and low <= start and self.ends[i - 1] <= high:
                seams.append((self.ends[i - 1], start, 0))
            if start > high:
                break
            if self.index[i + 1] - self.index[i] > grain:
                behind = self.starts[i + 1] if i + 1 < len(self.starts) else end
                seams += text_grains(self.text, start, end, behind, self.budget, low, high)
        return seams

    def _parts(self, a: int, b: int, seams: Sequence[Seam]) -> tuple[list[int], list[int], list[int]]:
        ends, starts, ranks = zip(*seams, strict=True) if seams else ((), (), ())
        return [self.starts[a], *starts], [*ends, self.ends[b - 1]], [0, *ranks]


def text_grains(text: str, start: int, stop: int, behind: int, budget: Budget, low: int, high: int) -> list[Seam]:
    """The lines of a paragraph, and the sentences in long lines: seams from `low` to `high`. The next one begins `behind`."""
    if start < low and (line := text.rfind("\n", start, low)) >= 0:
        start = text_from(text, line)
    gaps = lines(text, start, stop, high)
    if not gaps or gaps[-1][0] <= high:
        gaps.append((stop, behind))
    begins = [start, *[begin for _, begin in gaps]]
    long = _long(text, begins, budget)
    if True not in long:
        return [(end, after, 1) for end, after in gaps if end <= high and low <= after < behind]
    seams: list[Seam] = []
    for begin, divide, (end, after) in zip(begins, long, gaps, strict=False):
        if divide:
            found = sentence_ends(text, max(begin, low - AROUND), min(end, high + AROUND))
            seams += [(e, b, 2) for e, b in found if low <= b and e <= high]
        if end <= high and low <= after < behind:
            seams.append((end, after, 1))
    return seams


def _long(text: str, begins: Sequence[int], budget: Budget) -> list[bool]:
    """Which of the lines that begin here (the last offset is where the last one ends) are no grains."""
    grain = budget.fill // GRAINS
    if text.isascii() and max(map(sub, begins[1:], begins)) <= grain:  # no character of ASCII is more than one token
        return [False] * (len(begins) - 1)
    index = budget.indices_of(np.array(begins, np.int64)).tolist()
    return [after - before > grain for before, after in pairwise(index)]


def grains(
    text: str, span: Span, budget: Budget, separators: Sequence[str], keep: str, language: str
) -> tuple[list[int], list[int], list[int]]:
    """The parts between the separators (starts, ends) and the rank of the seam before each. A grain is not divided."""
    seams = _gaps(text, span, separators, keep, language)
    ends, begins, ranks = np.array(seams, np.int64).reshape(-1, 3).T
    for rank in range(1, len(separators)):
        edges = np.concatenate([[span.start], begins[ranks < rank], [span.end]])
        sizes = np.diff(budget.indices_of(edges))
        inside = ranks == rank
        within = edges.searchsorted(begins[inside], "right") - 1
        kept = np.ones(len(ranks), np.bool_)
        kept[inside] = sizes[np.minimum(within, len(sizes) - 1)] > budget.fill // GRAINS
        ends, begins, ranks = ends[kept], begins[kept], ranks[kept]
    return _trimmed(text, [span.start, *begins.tolist()], [*ends.tolist(), span.end], [0, *ranks.tolist()])


def _trimmed(text: str, begins: list[int], ends: list[int], ranks: list[int]) -> tuple[list[int], list[int], list[int]]:
    parts: list[Span] = []
    strengths: list[int] = []
    strongest = len(TEXT) + len(ranks)
    for begin, end, rank in zip(begins, ends, ranks, strict=True):
        strongest = min(strongest, rank)
        part = trim(text, begin, end) if begin < end else Span(end, end)
        if part[0] < part[1]:
            parts.append(part)
            strengths.append(strongest)
            strongest = rank + 1 + len(ranks)
    return [p.start for p in parts], [p.end for p in parts], strengths


def _fitted(
    text: str,
    starts: Sequence[int],
    ends: Sequence[int],
    strengths: Sequence[int],
    budget: Budget,
    separators: Sequence[str],
    keep: str = "start",
    language: str = "en",
) -> Parts:
    """The parts, those that don't fit divided by the last separator, and what still doesn't by force."""
    found = Parts(text, starts, ends, strengths, budget)
    if found.fit():
        return found
    parts = np.array((starts, ends, strengths), np.int64)
    last = partial(_pieces, text, separator=separators[-1], keep=keep, language=language)
    for rank, divide in ((len(separators), last), (len(separators) + 1, partial(fit, text, budget=budget))):
        parts = _finer(parts, budget, rank, divide)
    starts, ends, strengths = parts.tolist()
    return Parts(text, starts, ends, strengths, budget)


def _gaps(text: str, span: Span, separators: Sequence[str], keep: str, language: str) -> list[Seam]:
    """The seams of any separators; where two overlap the stronger one counts."""
    found = sorted((e, rank, b) for rank, s in enumerate(separators) for e, b in _seams(text, span, s, keep, language))
    gaps: list[Seam] = []
    for end, rank, begin in found:
        if gaps and end < gaps[-1][1]:
            if rank >= gaps[-1][2]:
                continue
            gaps.pop()
        gaps.append((end, begin, rank))
    return gaps


def _seams(text: str, span: Span, separator: str, keep: str, language: str) -> Iterator[tuple[int, int]]:
    if separator == SENTENCE:
        yield from ((s, s) for s in sentence_starts(text, span, language))
        return
    for match in compiled(separator).finditer(text, *span):
        left, right = match.span()
        if keep == "drop" or (keep == "start" and text[left:right].isspace()):
            yield left, right
        else:
            yield (left, left) if keep == "start" else (right, right)


def _finer(parts: Offsets, budget: Budget, rank: int, divide: Callable[[Span], Sequence[Span] | Offsets]) -> Offsets:
    """The parts (starts, ends, strengths) with those divided that don't fit; a new seam has the strength `rank`."""
    first, last = budget.indices_of(parts[:2])
    finer, done = [], 0
    for i in (last - first > budget.rooms_from(parts[0])).nonzero()[0].tolist():
        spans = np.array(divide(Span(*parts[:2, i].tolist())), np.int64).reshape(-1, 2)
        ranks = np.full(len(spans), rank)
        ranks[:1] = parts[2, i]
        finer += [parts[:, done:i], np.vstack((spans.T, ranks))]
        done = i + 1
    return np.hstack((*finer, parts[:, done:]))


def split(
    text: str,
    span: Span,
    budget: Budget,
    separators: Sequence[str] = TEXT,
    keep: str = "start",
    language: str = "en",
) -> list[Span]:
    """Spans that fit, tiling the non-white text of `span` (less what `keep="drop"` drops)."""
    span = trim(text, *span)
    if span.start == span.end:
        return []
    if budget.fits(span):
        return [span]
    for rank, separator in enumerate(separators):
        parts = _parts(text, span, separator, keep, language)
        if len(parts) > 1 or (parts and parts[0] != span):
            return _refine(text, parts, budget, separators[rank + 1 :], keep, language)
    return fit(text, span, budget)


def _refine(text: str, parts: list[Span], budget: Budget, weaker: Sequence[str], keep: str, language: str) -> list[Span]:
    """Pack the runs of parts that fit; split each of the others further."""
    spans: list[Span] = []
    run: list[Span] = []
    for part, fits in zip(parts, fitting(parts, budget), strict=True):
        if fits:
            run.append(part)
            continue
        spans += pack(run, budget)
        run = []
        spans += split(text, part, budget, weaker, keep, language)
    return spans + pack(run, budget)


def divided(text: str, spans: Sequence[Span], budget: Budget, divide: Callable[[str, Span, Budget], list[Span]]) -> list[Span]:
    """The trimmed spans, those that don't fit divided."""
    return [
        part
        for span, fits in zip(spans, fitting(spans, budget), strict=True)
        for part in ([span] if fits else divide(text, span, budget))
    ]


def fitting(parts: Sequence[Span], budget: Budget) -> list[bool]:
    """For each part whether it fits."""
    index = budget.indices(parts)
    return (index[:, 1] - index[:, 0] <= budget.rooms(parts)).tolist()  # type: ignore[no-any-return]  # numpy


def _parts(text: str, span: Span, separator: str, keep: str, language: str) -> list[Span]:
    """The trimmed stretches between the seams of one separator."""
    parts, start = [], span.start
    for end, begin in (*_seams(text, span, separator, keep, language), (span.end, span.end)):
        if start < end:
            part = trim(text, start, end)
            if part.start < part.end:
                parts.append(part)
        start = begin
    return parts


def _pieces(text: str, span: Span, separator: str, keep: str, language: str) -> Sequence[Span] | Offsets:
    """`_parts`; words, which are many, by arrays: (n, 2)."""
    return words(text, span) if separator == WHITE else _parts(text, span, separator, keep, language)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled; ConfigError if it is not one."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"chunk.separators holds {pattern!r}, which is no regular expression: {error}") from error
