"""Whole sentences, and whole documents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from chunkmill.chunkers.anchor import Parts, pack_anchored, packed
from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.pack import fit, pack
from chunkmill.chunkers.recursive import anchored, divided
from chunkmill.chunkers.seams import sentences


@dataclass(frozen=True, slots=True)
class Sentence:
    """Whole sentences, as many as fit; one that alone is over the limit is cut at lines, at what may end a
    sentence, at words.

    `language`: ISO 639-1 code of the text; the document's own `language` goes first where its metadata name one.
    `stable`: packed at boundaries that an edit elsewhere leaves alone, else greedily. `overlap_sentences`: a chunk begins with
    so many of the last sentences of the one before, as far as they fit; with `stable` they get half of it at the most.
    """

    language: str = "en"
    stable: bool = True
    overlap_sentences: int = 0

    needs: ClassVar[frozenset[type]] = NOTHING

    def __post_init__(self) -> None:
        if self.overlap_sentences < 0:
            raise ConfigError(f"chunk.overlap_sentences is {self.overlap_sentences}; it must be 0 or more")

    @property
    def overlaps(self) -> bool:
        """Whether the overlap is placed here."""
        return self.overlap_sentences > 0

    def sized(self, size: int, overlap: int) -> tuple[int, int]:
        """The overlap is in sentences or in units, not both."""
        if self.overlaps and overlap:
            raise ConfigError("chunk.overlap and chunk.overlap_sentences are both given; leave one out")
        return size, overlap

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The packed sentences, in order."""
        parts = sentences(doc.text, language=doc.metadata.get("language", self.language))
        if self.overlaps:
            short = [s for part in parts for s in fit(doc.text, part, budget)]
            place = overlapping_stable if self.stable else overlapping
            return [Piece(s) for s in place(doc.text, short, budget, self.overlap_sentences)]
        packed = pack_anchored(doc.text, parts, budget) if self.stable else pack(parts, budget)
        return [Piece(s) for s in divided(doc.text, packed, budget, anchored if self.stable else fit)]


def overlapping_stable(text: str, parts: Sequence[Span], budget: Budget, repeated: int) -> list[Span]:
    """Parts packed at boundaries that an edit elsewhere leaves alone, with room for `repeated` parts in front; then those."""
    if not parts:
        return []
    found = Parts(text, [p.start for p in parts], [p.end for p in parts], None, budget)
    first, last = found.first, found.last
    whole = [budget.room(p.start) for p in parts]
    front = [at - first[max(0, i - repeated)] for i, at in enumerate(first)]
    found.rooms = [max(room // 2, room - size) for room, size in zip(whole, front, strict=True)]
    spans: list[Span] = []
    begins = [bisect_left(found.starts, span.start) for span in packed(found)]
    before = 0
    for begin, end in pairwise((*begins, len(parts))):
        low = max(before, begin - repeated)
        low = next((i for i in range(low, begin) if last[end - 1] - first[i] <= whole[i]), begin)
        spans.append(Span(parts[low].start, parts[end - 1].end))
        before = begin
    return spans


def overlapping(text: str, parts: Sequence[Span], budget: Budget, repeated: int) -> list[Span]:
    """Parts packed greedily, each span beginning with up to `repeated` parts of the one before; every span ends further on."""
    last = budget.indices(parts)[:, 1].tolist() if parts else []
    spans: list[Span] = []
    begin, end = 0, 0
    while end < len(parts):
        reach = budget.index(parts[begin].start) + budget.room(parts[begin].start)
        stop = bisect_right(last, reach, begin)
        if stop <= end and begin < end:  # with so many repeated nothing new fits
            begin += 1
            continue
        end = max(stop, begin + 1)
        spans.append(Span(parts[begin].start, parts[end - 1].end))
        begin = max(begin + 1, end - repeated)
    return spans


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """One chunk for the document where it fits; else it is split at its strongest seams."""

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """One piece, or the least that the limit allows."""
        return [Piece(s) for s in anchored(doc.text, Span(0, len(doc.text)), budget)]
