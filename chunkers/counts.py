"""Exact sizes of slices out of a document's token index: only the ends of a slice are encoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from chunkmill.chunkers.base import Budget, Span
from chunkmill.chunkers.measure import Tokenizer

FAR = 48  # characters


def exact(text: str, spans: Sequence[Span], budget: Budget, unit: Tokenizer) -> list[int]:
    """The number of tokens of each slice as if it were encoded alone.

    Up to its first and from its last safe place a slice is encoded again, for there counts add up; between them the index
    answers.
    """
    if budget.starts is None:
        return [end - start for start, end in spans]
    edges: list[str] = []
    inner: list[tuple[int, int]] = []
    lines = getattr(unit, "additive_lines", False)
    for start, end in spans:
        first, last = _safe(text, start, end, lines) if unit.additive else (-1, -1)
        if first < last:
            edges += (text[start:first], text[last:end])
            inner.append((first, last))
        else:
            edges += (text[start:end], "")
            inner.append((0, 0))
    counts = unit.count(edges)
    before, after = budget.indices_of(np.array(inner, np.int64).reshape(-1, 2)).T.tolist()
    return [b - a + n + m for a, b, n, m in zip(before, after, counts[::2], counts[1::2], strict=True)]


def _safe(text: str, start: int, end: int, lines: bool) -> tuple[int, int]:
    """The first and the last safe place inside text[start:end], or one about there; -1 where there is none.

    It is a space that follows a non-white character, or, with `lines` and where spaces are far off, a letter that follows a
    line break.
    """
    first = text.find(" ", start + 1, end)
    while first > 0 and text[first - 1].isspace():
        first = text.find(" ", first + 1, end)
    last = text.rfind(" ", start + 1, end)
    while last > 0 and text[last - 1].isspace():
        last = text.rfind(" ", start + 1, last)
    if lines and (first < 0 or first - start > FAR):
        first = next(_line_starts(text.find, text, start + 1, end if first < 0 else first), first)
    if lines and end - last > FAR:
        last = next(_line_starts(text.rfind, text, max(start + 1, last), end), last)
    return first, last


def _line_starts(find: Callable[[str, int, int], int], text: str, start: int, end: int) -> Iterator[int]:
    """The letters behind line breaks in text[start:end], from the left with `text.find`, from the right with `text.rfind`."""
    while (line := find("\n", start, end)) >= 0:
        if text[line + 1 : line + 2].isalpha():
            yield line + 1
        start, end = (line + 1, end) if find == text.find else (start, line)


def extra(contexts: Sequence[str], behind: str, unit: Tokenizer) -> list[int]:
    """The sizes of contexts, each with what stands `behind` it; 0 where there is none."""
    if not any(contexts):
        return [0] * len(contexts)
    distinct = sorted({c for c in contexts if c})
    size = dict(zip(distinct, unit.count([c + behind for c in distinct]), strict=True))
    return [size.get(c, 0) for c in contexts]
