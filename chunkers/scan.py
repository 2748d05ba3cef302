"""The seams of plain text found by arithmetic on its characters, many times faster than by a regular expression."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Offsets
from chunkmill.chunkers.seams import text_from

SLAB, AROUND = 1 << 20, 16  # characters looked at at once, and on either side of them
ENDS, WIDE_ENDS = ".!?", "。！？"  # what ends a sentence before white space, and without any
CLOSERS = "\"')]”’」』）"
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]


class Gaps(NamedTuple):
    """Seams in order: where the part before each ends, where the part behind it begins, and its rank (0 the strongest)."""

    ends: Offsets
    begins: Offsets
    ranks: Offsets


def text_gaps(text: str, start: int, end: int) -> Gaps:
    """Blank lines (rank 0), lines (1), and what may end a sentence (2) between two characters that are not white.

    A sentence ends at `.`, `!` or `?` and closing marks before white space, unless a small letter follows, or at their wide
    forms. Only gaps of white space and the wide forms are looked at, so parts come out trimmed. O(n).
    """
    found = [_slab(text, a, min(end, a + SLAB), end) for a in range(start, end, SLAB)]
    columns = [np.concatenate([f[i] for f in found]) for i in range(3)]
    return _single(Gaps(*columns))


def _slab(text: str, start: int, stop: int, end: int) -> Gaps:
    """The seams whose first character is in text[start:stop]; a run of white space may go on behind it, up to `end`."""
    left, right = max(0, start - AROUND), text_from(text, stop) + AROUND
    codes = _codes(text[left : min(end, right)])
    white = table(" ")[codes]
    steps = np.diff(white.view(np.int8))
    ends, begins = np.flatnonzero(steps == 1) + 1, np.flatnonzero(steps == -1) + 1
    begins = begins[1:] if len(begins) and len(ends) and begins[0] < ends[0] else begins
    begins = begins if len(ends) else begins[:0]
    ends = ends[: len(begins)]
    breaks = np.flatnonzero(codes == 10)
    gap = ends.searchsorted(breaks, "right") - 1
    lines = np.bincount(gap[(gap >= 0) & (breaks < begins[gap])], minlength=len(ends)) if len(ends) else ends
    last, before = codes[ends - 1], codes[np.maximum(ends - 2, 0)]
    sentence = table(ENDS)[last] | (table(CLOSERS)[last] & table(ENDS)[before])
    sentence &= ~table("a")[codes[begins]]
    kept = (lines > 0) | sentence
    wide = _wide(codes) if any(c in text for c in WIDE_ENDS) else ends[:0]
    ranks = np.concatenate([2 - np.minimum(lines[kept], 2), np.full(len(wide), 2)]).astype(np.int64)
    gaps = Gaps(np.concatenate([ends[kept], wide]) + left, np.concatenate([begins[kept], wide]) + left, ranks)
    inside = (gaps.ends > start) & (gaps.ends <= stop) & (gaps.begins < end)
    return Gaps(*(column[inside] for column in gaps))


def _wide(codes: Codes) -> Offsets:
    """Behind each wide end of a sentence and its closing marks, unless white space follows (then it is a gap already)."""
    closing = table(CLOSERS) | table(WIDE_ENDS)
    at = np.flatnonzero(table(WIDE_ENDS)[codes]) + 1
    at = at[at < len(codes)]
    while len(at) and (more := closing[codes[at]]).any():
        at = np.unique(np.where(more, at + 1, at))
        at = at[at < len(codes)]
    return at[~table(" ")[codes[at]]].astype(np.int64)


def _single(gaps: Gaps) -> Gaps:
    """In order, each place once."""
    order = np.lexsort((gaps.ranks, gaps.begins))
    ends, begins, ranks = (column[order] for column in gaps)
    first = np.ones(len(begins), np.bool_)
    first[1:] = begins[1:] != begins[:-1]
    return Gaps(ends[first], begins[first], ranks[first])


def _codes(text: str) -> Codes:
    """The code points: uint8 where the text is ASCII, else uint32."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


@lru_cache(maxsize=8)
def table(kind: str) -> npt.NDArray[np.bool_]:
    """For each code point whether it is of a kind: `" "` white space, `"a"` a small letter, else one of the characters."""
    known = np.zeros(sys.maxunicode + 1, np.bool_)
    if kind == " ":
        marks = [i for i in range(0x3001) if chr(i).isspace()]
    elif kind == "a":
        marks = [i for i in range(0x590) if chr(i).islower()]
    else:
        marks = [ord(c) for c in kind]
    known[marks] = True
    return known
