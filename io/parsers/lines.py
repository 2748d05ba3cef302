"""A source read line by line: what the scanners of markup languages (RST, AsciiDoc, LaTeX) share.

Their text is the source itself: only its lines are looked at, each a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from chunkmill.chunkers.base import Block, Kind, Span

_LINE_END = re.compile(r"\r\n|\r|\n")


def words(listed: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(listed.split())


class Lines(Sequence[str]):
    """The lines of a text, without what ends them, from `start` on."""

    def __init__(self, text: str, start: int = 0) -> None:
        ends = [*_LINE_END.finditer(text, start)]
        self.text = text
        self.starts = [start, *(m.end() for m in ends)]
        self._lines = [text[a:b].rstrip() for a, b in zip(self.starts, [*(m.start() for m in ends), len(text)], strict=True)]
        self.starts.append(len(text))

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, at: int) -> str:  # type: ignore[override]  # a sequence that nobody slices
        return self._lines[at]

    def indent(self, at: int) -> int:
        """How many columns of white space a line begins with; tabs reach the next multiple of 8."""
        line = self._lines[at]
        if line[:1] not in (" ", "\t"):
            return 0
        white = line[: len(line) - len(line.lstrip())]
        return len(white.expandtabs(8))

    def span(self, first: int, last: int, *, keep_indent: bool = False) -> Span:
        """The code points of lines [first, last), without white space around (code keeps its first indentation)."""
        start, end = self.starts[min(first, len(self))], self.starts[min(last, len(self))]
        while end > start and self.text[end - 1].isspace():
            end -= 1
        while start < end and self.text[start].isspace():
            start += 1
        if keep_indent and start < end:
            start = max(self.starts[first], self.text.rfind("\n", 0, start) + 1, self.text.rfind("\r", 0, start) + 1)
        return Span(start, end)

    def block(
        self, kind: Kind, first: int, last: int, *, seams: Sequence[int] = (), level: int = 0, title: str = ""
    ) -> Block | None:
        """A block of these lines; `seams` are the lines at which its parts begin. None where they are white."""
        span = self.span(first, last)
        if span.end <= span.start:
            return None
        parts = (self.span(a, b) for a, b in pairwise([*seams, last]))
        return Block(kind, span, level, None, tuple(p for p in parts if p.start < p.end), title)

    def past_blank(self, at: int) -> int:
        """The first line from here on that is not blank."""
        while at < len(self) and not self._lines[at]:
            at += 1
        return at

    def blank(self, at: int) -> int:
        """The first line from here on that is blank."""
        while at < len(self) and self._lines[at]:
            at += 1
        return at

    def dedent(self, at: int, column: int) -> int:
        """The end of the lines from here on that are indented to this column or blank, without trailing blank ones."""
        end = at
        while at < len(self):
            if self._lines[at]:
                if self.indent(at) < column:
                    break
                end = at + 1
            at += 1
        return end
