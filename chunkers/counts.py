"""Exact sizes of slices out of a document's token index: only the ends of a slice are encoded again, where they must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from chunkmill.chunkers.base import Budget, Span
from chunkmill.chunkers.measure import Tokenizer

FAR = 48  # characters
MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~’“”…–—。！？、」』）")  # what no tokenizer takes for a letter


def exact(text: str, spans: Sequence[Span], budget: Budget, unit: Tokenizer) -> list[int]:
    """The number of tokens of each slice as if it were encoded alone.

    Up to its first and from its last safe place a slice is encoded again, for there counts add up; between them the index
    answers.
    """
    if budget.starts is None:
        return [end - start for start, end in spans]
    safe = (_safe_by_lines if getattr(unit, "additive_lines", False) else _safe) if unit.additive else _nowhere
    inner: list[int] = []
    edges: list[str] = []
    owners: list[int] = []
    for i, (start, end) in enumerate(spans):
        first, last = safe(text, start, end)
        if not 0 <= first <= last:
            first = last = end
        inner += (first, last)
        if start < first:
            edges.append(text[start:first])
            owners.append(i)
        if last < end:
            edges.append(text[last:end])
            owners.append(i)
    index = budget.indices_of(np.array(inner, np.int64))
    sizes: list[int] = (index[1::2] - index[::2]).tolist()
    for i, size in zip(owners, unit.count(edges) if edges else (), strict=True):
        sizes[i] += size
    return sizes


def _nowhere(text: str, start: int, end: int) -> tuple[int, int]:
    return -1, -1


def _safe(text: str, start: int, end: int) -> tuple[int, int]:
    """The first and the last space in text[start:end] that follows a non-white character, or one about there; -1 if none."""
    return _first_space(text, start, end), _last_space(text, start, end)


def _safe_by_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The first and the last safe place from `start` to `end`, where no token goes on from one line to a letter of the next.

    Most slices are safe as they are: they begin a line, and end in a letter before white space, or in marks, which may share a
    token with the line break behind them. Else it is a space as in `_safe` or, where spaces are far off, the start of a line.
    """
    first = start if not start or _begins_line(text, start) else _first_place(text, start, end)
    last = _before_white(text, start, end)
    return first, _last_place(text, start, end) if last < 0 else last


def _begins_line(text: str, at: int) -> bool:
    return text[at - 1] == "\n" and text[at] != "/" and not text[at].isspace()  # some encodings have tokens like "\n/"


def _before_white(text: str, start: int, end: int) -> int:
    """The end if it is safe, before white space or behind a single mark, or where the marks before it begin; -1: not known."""
    behind = text[end : end + 1]
    if text[end - 1].isspace() or behind not in " \t\r\n":
        return -1
    if not behind or behind == " ":
        return end
    at, least = end, max(start, end - FAR)
    while at > least and text[at - 1] in MARKS:
        at -= 1
    if at == start:
        return -1
    if text[at - 1] == " ":
        return at - 1
    if not (text[at - 1].isalnum() or _begins_line(text, at)):
        return -1
    return end if at + 1 == end and text[at].isascii() else at  # a byte is one token, alone and before a line break


def _first_place(text: str, start: int, end: int) -> int:
    first = _first_space(text, start, end)
    if first < 0 or first - start > FAR:
        return next(_line_starts(text.find, text, start + 1, end if first < 0 else first), first)
    return first


def _last_place(text: str, start: int, end: int) -> int:
    last = _last_space(text, start, end)
    return next(_line_starts(text.rfind, text, max(start + 1, last), end), last) if end - last > FAR else last


def _first_space(text: str, start: int, end: int) -> int:
    first = text.find(" ", start + 1, end)
    while first > 0 and text[first - 1].isspace():
        first = text.find(" ", first + 1, end)
    return first


def _last_space(text: str, start: int, end: int) -> int:
    last = text.rfind(" ", start + 1, end)
    while last > 0 and text[last - 1].isspace():
        last = text.rfind(" ", start + 1, last)
    return last


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
