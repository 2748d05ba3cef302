"""Sections that begin with a marker."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.seams import between
from chunkmill.chunkers.structure import outline

LINE = re.compile(r"[^\n\r]+")
INDENT = re.compile(r"[^\S\n\r]*+")
MOST_WORDS = 10
LONGEST = 100  # characters of a marker that are told
SHOWN = 10  # markers of a document that `explain` names


@dataclass(frozen=True, slots=True)
class Markers:
    """Each marker begins a chunk; what is too long up to the next one is split at its strongest seams.

    `markers`: texts that begin a line (as whole words; regular expressions with `regex`; at any place with `anywhere`), or
    `auto`: every line of at most 10 words that is all upper case or ends in a colon, outside code and tables. A chunk's marker
    is the last step of its heading path.
    """

    markers: Literal["auto"] | tuple[str, ...] = "auto"
    regex: bool = False
    anywhere: bool = False

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if self.markers == "auto" and (self.regex or self.anywhere):
            name = "regex" if self.regex else "anywhere"
            raise ConfigError(f"chunk.{name} says how the markers of a list are found; chunk.markers is 'auto': give a list")
        if not self.markers or not all(self.markers):
            raise ConfigError("chunk.markers is empty or holds an empty text; give markers, or 'auto'")
        self._patterns()

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The text before the first marker, then each marker with all up to the next."""
        found = sorted(self._spans(doc))
        starts = [s.start for s in found]
        parts = between(doc.text, starts, Span(0, len(doc.text)))
        headings, titles = outline(doc), {b.span.start for b in doc.blocks if b.kind == "heading"}
        pieces: list[Piece] = []
        for part in parts:
            above = headings.of(doc.text, *part) if headings.paths else ()
            at = bisect_right(starts, part.start) - 1
            own = (_told(doc[found[at]]),) if at >= 0 and starts[at] not in titles else ()
            path = above if above[-1:] == own else (*above, *own)  # a marker may be in a heading
            pieces += [Piece(s, path=path) for s in split(doc.text, part, budget)]
        return pieces

    def explain(self, doc: Document, budget: Budget) -> str:
        """The markers found: how many, and the first ones."""
        found = [_told(marker) for marker in self.found(doc)]
        more = "; …" if len(found) > SHOWN else ""
        return f"{len(found)} marker{'s' * (len(found) != 1)}{': ' * bool(found)}{'; '.join(found[:SHOWN])}{more}"

    def found(self, doc: Document) -> list[str]:
        """The markers in the document, in order."""
        return [doc[span] for span in sorted(self._spans(doc))]

    def _spans(self, doc: Document) -> Iterator[Span]:
        if self.markers == "auto":
            return automatic(doc)
        found = (_anywhere if self.anywhere else _at_lines)(doc.text, self._patterns())
        return (Span(m.start(), m.end()) for m in found)

    def _patterns(self) -> list[re.Pattern[str]]:
        if self.markers == "auto":
            return []
        if self.regex:
            return [_compiled(marker) for marker in self.markers]
        longest = sorted(self.markers, key=len, reverse=True)
        return [re.compile("|".join(map(_word, longest)))]


def _told(marker: str) -> str:
    return " ".join(marker.split())[:LONGEST]


def automatic(doc: Document) -> Iterator[Span]:
    """Lines that look like a marker, trimmed, in order."""
    closed = [b.span for b in doc.blocks if b.kind in ("code", "table")]
    at = 0
    for line in LINE.finditer(doc.text):
        while at < len(closed) and closed[at].end <= line.start():
            at += 1
        if at == len(closed) or closed[at].start >= line.end():
            name = line.group().strip()
            if name and looks_like_a_marker(name):
                start = doc.text.index(name[0], line.start())
                yield Span(start, start + len(name))


def looks_like_a_marker(line: str) -> bool:
    """At most 10 words, all upper case or ending in a colon."""
    return (line[-1] in ":：" or line.isupper()) and len(line.split(None, MOST_WORDS)) <= MOST_WORDS


def _at_lines(text: str, patterns: list[re.Pattern[str]]) -> Iterator[re.Match[str]]:
    for line in LINE.finditer(text):
        start = line.start()
        indented = INDENT.match(text, start).end()  # type: ignore[union-attr]  # it matches everywhere
        found = (p.match(text, at) for p in patterns for at in (start, indented))
        if match := next(filter(None, found), None):
            yield match


def _anywhere(text: str, patterns: list[re.Pattern[str]]) -> Iterator[re.Match[str]]:
    return (match for pattern in patterns for match in pattern.finditer(text))


def _word(marker: str) -> str:
    """The pattern of a literal marker that doesn't begin or end inside a word."""
    before, after = r"(?<!\w)" if marker[0].isalnum() else "", r"(?!\w)" if marker[-1].isalnum() else ""
    return before + re.escape(marker) + after


def _compiled(marker: str) -> re.Pattern[str]:
    try:
        return re.compile(marker, re.M)
    except re.error as error:
        raise ConfigError(f"chunk.markers holds {marker!r}, which is no regular expression: {error}") from error
