"""Separators in order of strength."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError, choose
from chunkmill.chunkers.pack import fit, pack
from chunkmill.chunkers.seams import between, sentence_starts, trim

SENTENCE = "{sentence}"  # in a list of separators: the end of a sentence, as the segmenter sees it

TEXT = (r"\n[ \t\r]*\n", r"\n", SENTENCE, r"\s")
PRESETS: dict[str, tuple[str, ...]] = {
    "text": TEXT,
    "markdown": (r"\n#{1,6} ", r"```\n", r"\n\*\*\*+\n", r"\n---+\n", r"\n___+\n", r"\n\n", r"\n", r" "),
    "python": (r"\nclass ", r"\ndef ", r"\n\tdef ", r"\n\n", r"\n", r" "),
}


@dataclass(frozen=True, slots=True)
class Recursive:
    """Split by the strongest separator there is, pack neighbours, and go on with the next one inside what is too long.

    `separators`: the name of a preset, or separators from strong to weak, taken literally, or as regular expressions with
    `regex`; `{sentence}` is the end of a sentence. What matched stays at the `start` of the right part, at the `end` of the
    left one, or is dropped (`drop`: the only setting that loses text). The last resort is white space, then clusters.
    """

    separators: str | tuple[str, ...] = "text"
    regex: bool = False
    keep: Literal["start", "end", "drop"] = "start"
    language: str = "en"

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if isinstance(self.separators, str) and self.separators not in PRESETS:
            raise choose("chunk.separators", self.separators, PRESETS)
        self.patterns()

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
        spans = split(doc.text, Span(0, len(doc.text)), budget, self.patterns(), self.keep, self.language)
        return [Piece(s) for s in spans]


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
    for part in parts:
        if budget.fits(part):
            run.append(part)
            continue
        spans += pack(run, budget)
        run = []
        spans += split(text, part, budget, weaker, keep, language)
    return spans + pack(run, budget)


def _parts(text: str, span: Span, separator: str, keep: str, language: str) -> list[Span]:
    if separator == SENTENCE:
        return between(text, sentence_starts(text, span, language), span)
    matches = compiled(separator).finditer(text, *span)
    if keep == "drop":
        return _dropped(text, span, matches)
    return between(text, (m.start() if keep == "start" else m.end() for m in matches), span)


def _dropped(text: str, span: Span, matches: Iterator[re.Match[str]]) -> list[Span]:
    spans, start = [], span.start
    for match in matches:
        spans.append(trim(text, start, match.start()))
        start = match.end()
    return [s for s in (*spans, trim(text, start, span.end)) if s.start < s.end]


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled; ConfigError if it is not one."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"chunk.separators holds {pattern!r}, which is no regular expression: {error}") from error
