"""Which tokens are read together where a text is longer than the model's window, and which of them make up a chunk's vector.

Arithmetic on positions only: token counts in, positions and weights out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Offsets

Ids = npt.NDArray[np.int32]
OVERLAP = 8  # windows share one token in so many at least


def begins(size: int, room: int) -> list[int]:
    """Where the windows of `room` tokens over `size` tokens begin: evenly spaced, no more than needed to overlap by an eighth.

    Every window is full but the one of a text that fits.
    """
    if size <= room:
        return [0]
    overlap = room // OVERLAP
    count = -(-(size - overlap) // (room - overlap))
    return [i * (size - room) // (count - 1) for i in range(count)]


class Reading(NamedTuple):
    """A document that the model reads whole. `ids`: its tokens, int32 (tokens,), without prompt and special tokens; `spans`:
    of each chunk its first token and the one after its last, int64 (chunks, 2).
    """

    ids: Ids
    spans: Offsets


class Part(NamedTuple):
    """A window over a document: its tokens from `start` to `end`; `rows`: the chunks that get something of it;
    `weights`: float32 (rows, before + tokens + after), what of each state goes into each chunk's sum.
    """

    start: int
    end: int
    rows: Offsets
    weights: npt.NDArray[np.float32]


def spans(starts: Offsets, chunks: Offsets) -> Offsets:
    """Offsets of chunks as tokens: int64 (chunks, 2). `starts`: of each token the offset of its first non-white character.

    A token belongs to the chunk that its first character is in; a chunk in which none begins gets the one it is inside of.
    """
    found = starts.searchsorted(chunks)
    inside = found[:, 1] <= found[:, 0]
    found[inside, 0] = np.maximum(found[inside, 0] - 1, 0)
    found[inside, 1] = np.minimum(found[inside, 0] + 1, len(starts))
    return found.astype(np.int64)


def parts(reading: Reading, room: int, before: int, after: int, unpooled: int = 0) -> list[Part]:
    """The windows of a document. A token that two windows share counts half in each; what stands `before` the text (less the
    `unpooled` first ones) goes into the chunks that begin with its first token, what stands `after` into those with its last.
    """
    size = len(reading.ids)
    starts = begins(size, room)
    seen = np.zeros(size, np.int64)
    for start in starts:
        seen[start : start + room] += 1
    first, last = reading.spans.T
    found = []
    for start in starts:
        end = min(size, start + room)
        opens = (first == 0) & (start == 0)
        closes = (last == size) & (end == size)
        rows = np.flatnonzero(((first < end) & (last > start)) | opens | closes)
        position = np.arange(start, end)
        inside = (position >= first[rows, None]) & (position < last[rows, None])
        weights = np.zeros((len(rows), before + end - start + after), np.float32)
        weights[:, before : before + end - start] = inside / seen[start:end]
        weights[opens[rows], unpooled:before] = 1
        weights[closes[rows], weights.shape[1] - after :] = 1
        found.append(Part(start, end, rows, weights))
    return found


def counts(reading: Reading, before: int, after: int) -> npt.NDArray[np.float32]:
    """How many states the sum of each chunk holds: float32 (chunks,), at least 1."""
    first, last = reading.spans.T
    found = last - first + before * (first == 0) + after * (last == len(reading.ids))
    return np.maximum(found, 1).astype(np.float32)


def lists(ids: Sequence[Sequence[int]]) -> tuple[Offsets, Ids]:
    """Lists of ids as one array and the offsets at which each begins, with the end: int64 (n + 1,)."""
    offsets = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(i) for i in ids], out=offsets[1:])
    flat = np.empty(offsets[-1], np.int32)
    for i, part in enumerate(ids):
        flat[offsets[i] : offsets[i + 1]] = part
    return offsets, flat
