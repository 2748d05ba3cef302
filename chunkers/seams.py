"""Where a text may be cut: sentences, lines, words and grapheme clusters, as offsets. Nothing here rebuilds text."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import regex
from sentencex import get_sentence_boundaries

from chunkmill.chunkers.base import Offsets, Span

LAST_SPACE = 0x3000  # the white character with the highest code
CLUSTER = regex.compile(r"\X")
BLANK_LINE = re.compile(r"\n[ \t\r]*\n\s*")
NOT_WHITE = re.compile(r"\S")
# A character before which there always is a boundary, whatever stands around it; sought backwards.
SURE = regex.compile(
    r"(?r)(?<![\p{GCB=Prepend}\r])(?<!\p{InCB=Linker})[\p{GCB=Other}--\p{Extended_Pictographic}--\p{InCB=Consonant}]", regex.V1
)
LAST_WHITE = regex.compile(r"(?r)\s")
SLAB, STRETCH = 200_000, 12  # characters the sentence segmenter sees at the most; certain ends of sentences in a stretch
# One set of characters comes first: `re` then looks for these alone, many times faster than for alternatives.
CERTAIN_END = re.compile(r"[.!?。！？\n](?:(?<=[a-z]{4}[.!?])\s++(?=[A-Z])|(?<=[。！？])\s*+(?=[^」』”’）)])|(?<=\n)\s*\n\s*+)")
# Letters between which UAX 29 always has a boundary: nothing here extends, prepends, conjoins or is an emoji.
PLAIN = re.compile(
    "[\0-\x7f\xc0-\u024f\u0391-\u0481\u048a-\u052f\u05d0-\u05ea\u3001\u3002\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff1f]{2}"
)
# A full stop behind white space of more than one byte, on which sentencex 1.0.32 panics ("A\u00a0.").
WIDE_STOP, WIDE_WHITE = re.compile(r"\.(?<=[^\S\x00-\x7f]\.)"), re.compile(r"[^\S\x00-\x7f]\.")
VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Cf}]")  # a text without one is empty to a reader
SURROGATE = re.compile("[\ud800-\udfff]")


def trim(text: str, start: int, end: int) -> Span:
    """The span without white space at its ends; empty at `end` where there is nothing else."""
    if start < end and text[end - 1].isspace():
        kept = end - 1 - start  # mostly it is one space; a search for more costs a copy
        if kept and text[end - 2].isspace():
            kept = len(text[start:end].rstrip())
        start, end = (start, start + kept) if kept else (end, end)
    if start < end and text[start].isspace():
        start = end - len(text[start:end].lstrip())
    return Span(start, end)


def text_from(text: str, start: int) -> int:
    """Where the first character from `start` on is that is not white; the end of the text if there is none."""
    found = NOT_WHITE.search(text, start)
    return found.start() if found else len(text)


def words(text: str, within: Span) -> Offsets:
    """The stretches without white space: (n, 2)."""
    codes = np.frombuffer(text[within.start : within.end].encode("utf-32-le"), np.uint32)
    inside = np.zeros(len(codes) + 2, np.bool_)
    np.logical_not(_white().take(codes, mode="clip"), out=inside[1:-1])
    edges: Offsets = (inside[1:] != inside[:-1]).nonzero()[0].reshape(-1, 2) + within.start
    return edges


@lru_cache(maxsize=1)
def _white() -> npt.NDArray[np.bool_]:
    """For each code point whether it is white space; the last one, which is not, stands for all above it."""
    return np.array([chr(code).isspace() for code in range(LAST_SPACE + 2)])


def between(text: str, cuts: Iterable[int], within: Span) -> list[Span]:
    """The trimmed, non-empty stretches between sorted cut positions inside `within`."""
    spans, start = [], within.start
    for cut in (*cuts, within.end):
        if start < cut <= within.end:
            end = cut - 1 if text[cut - 1].isspace() else cut
            if start < end and not (text[end - 1].isspace() or text[start].isspace()):
                spans.append(Span(start, end))
            elif (span := trim(text, start, end)).start < span.end:
                spans.append(span)
            start = cut
    return spans


def sentences(text: str, within: Span | None = None, language: str = "en") -> list[Span]:
    """The sentences of a stretch, trimmed. A blank line ends a sentence too. Language: an ISO 639-1 code.

    Boundaries are sentencex's; a language it does not know is segmented by its fallback rules.
    """
    within = within or Span(0, len(text))
    return between(text, sentence_starts(text, within, language), within)


def sentence_starts(text: str, within: Span, language: str = "en") -> Iterator[int]:
    """Where each sentence after the first begins.

    The segmenter pairs quotes and brackets over any distance, so one lost quote would change all that follows. It is therefore
    given stretches of some dozen sentences, which begin where the text itself says so: an edit stays inside its stretch.
    """
    at = within.start
    for end in (*_stretches(text, within), within.end):
        while at < end:
            stop = min(end, at + SLAB)
            if at > within.start:
                yield at
            part = text[at:stop]
            if WIDE_STOP.search(part):
                part = WIDE_WHITE.sub(" .", part)
            yield from (at + b["start_index"] for b in get_sentence_boundaries(language, part)[1:])
            at = stop


def _stretches(text: str, within: Span) -> Iterator[int]:
    """Some of the certain ends of sentences, chosen by the text behind them."""
    for match in CERTAIN_END.finditer(text, *within):
        if zlib.crc32(text[match.end() : match.end() + 16].encode()) % STRETCH == 0:
            yield match.end()


def cluster_start(text: str, offset: int) -> int:
    """The largest boundary of a grapheme cluster (UAX 29) that is not after the offset."""
    if not 0 < offset < len(text) or plain(text, offset):
        return offset
    found = SURE.search(text, 0, offset)
    for cluster in CLUSTER.finditer(text, found.start() if found else 0):
        if cluster.end() > offset:
            return int(cluster.start())
    return offset


def plain(text: str, offset: int) -> bool:
    """Whether the characters around the offset are ones between which there always is a boundary."""
    return PLAIN.match(text, offset - 1) is not None and text[offset - 1 : offset + 1] != "\r\n"


def last_white(text: str, start: int, end: int) -> int:
    """Where the last white character in [start, end) is; -1 if there is none. Looks back from the end."""
    found = LAST_WHITE.search(text, start, end)
    return int(found.start()) if found else -1


def clean(text: str) -> tuple[str, int]:
    """The text with each lone surrogate replaced by U+FFFD (same length), and how many there were."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return SURROGATE.subn("\ufffd", text)
    return text, 0
