"""Where a text may be cut: sentences, lines, words and grapheme clusters, as offsets. Nothing here rebuilds text."""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import regex
from sentencex import get_sentence_boundaries

from chunkmill.chunkers.base import Offsets, Span

LAST_SPACE = 0x3000  # the white character with the highest code
CLUSTER = regex.compile(r"\X")
BLANK_LINE = re.compile(r"\n[ \t\r]*\n\s*")
NOT_WHITE = re.compile(r"\S")
# A character before which there always is a boundary, whatever stands further off; sought backwards and forwards.
SURE = (
    r"(?<![\p{GCB=Prepend}\r])(?:[\p{GCB=Other}--\p{Extended_Pictographic}--\p{InCB=Consonant}]"
    r"|(?<!\u200d)[\p{Extended_Pictographic}&&\p{GCB=Other}]|(?<![\p{InCB=Linker}\p{InCB=Extend}])\p{InCB=Consonant})"
)
SURE_BEFORE, SURE_BEHIND = regex.compile("(?r)" + SURE, regex.V1), regex.compile(SURE, regex.V1)
FLAGS = regex.compile(r"\p{GCB=Regional_Indicator}{3,}")
FAR = 256  # characters in which a sure boundary is sought before it is looked whether there is one
LAST_WHITE = regex.compile(r"(?r)\s")
SEEN, STRETCH = 8_192, 12  # characters the sentence segmenter sees at the most; certain ends of sentences in a stretch, about
HASHED = 16  # characters behind an end, by which it is chosen
# One set of characters comes first: `re` then looks for these alone, many times faster than for alternatives.
SMALL, LARGE = "a-zß-öø-ÿα-ωа-яё", "A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ"
CERTAIN_END = re.compile(
    rf"[.!?。！？\n](?:(?<=[{SMALL}]{{4}}[.!?])\s++(?=[{LARGE}])|(?<=[。！？])\s*+(?=[^」』”’）)])|(?<=\n)\s*\n\s*+)"
)
# What may divide a long stretch without any, the best first: a line, what may end a sentence, white space.
ENDS = re.compile(r"\n\s*+"), re.compile(r"[.!?।][\"')\]”’]?\s++"), re.compile(r"\s++")
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

    The segmenter pairs quotes and brackets over any distance, so one lost quote would change all that follows, and takes
    quadratic time for many of them. It is therefore given stretches of some dozen sentences, which begin where the text itself
    says so: an edit stays inside its stretch.
    """
    at = within.start
    for end in (*_stretches(text, within), within.end):
        while at < end:
            stop = end if end - at <= SEEN else _division(text, at)
            if at > within.start:
                yield at
            part = text[at:stop]
            if WIDE_STOP.search(part):
                part = WIDE_WHITE.sub(" .", part)
            yield from (at + b["start_index"] for b in get_sentence_boundaries(language, part)[1:])
            at = stop


def _stretches(text: str, within: Span) -> Iterator[int]:
    """Some of the certain ends of sentences, chosen by the text behind them."""
    return (m.end() for m in CERTAIN_END.finditer(text, *within) if _hash(text, m.end()) % STRETCH == 0)


def _division(text: str, start: int) -> int:
    """Where to divide a stretch that starts here and is too long: in the second half of what may be seen, by the text there."""
    low, high = start + SEEN // 2, start + SEEN
    found = (ends for ends in ([m.end() for m in end.finditer(text, low, high)] for end in ENDS) if ends)
    return min(next(found, [high]), key=partial(_hash, text))


def _hash(text: str, at: int) -> int:
    return zlib.crc32(text[at : at + HASHED].encode())


def cluster_start(text: str, offset: int) -> int:
    """The largest boundary of a grapheme cluster (UAX 29) that is not after the offset."""
    if not 0 < offset < len(text) or plain(text, offset):
        return offset
    near = SURE_BEFORE.search(text, max(0, offset - FAR), offset)
    if not near and offset > FAR:
        return _in_run(text, offset)
    for cluster in CLUSTER.finditer(text, near.start() if near else 0):
        if cluster.end() > offset:
            return int(cluster.start())
    return offset


def _in_run(text: str, offset: int) -> int:
    """The same in a long run without a sure boundary, such as a thousand flags. The clusters of a run are found once."""
    runs = _runs(text)
    at = bisect_right(runs, offset, key=itemgetter(0)) - 1
    if at < 0 or runs[at][1] <= offset:
        before, behind = SURE_BEFORE.search(text, 0, offset), SURE_BEHIND.search(text, offset + 1)
        start, end = before.start() if before else 0, behind.start() if behind else len(text)
        # As many characters with the same boundaries: those of flags alone are found in quadratic time.
        part = FLAGS.sub(lambda flags: ("a\u0301" * len(flags[0]))[: len(flags[0])], text[start:end])
        at += 1
        runs.insert(at, (start, end, [start + cluster.start() for cluster in CLUSTER.finditer(part)]))
    clusters = runs[at][2]
    return clusters[bisect_right(clusters, offset) - 1]


@lru_cache(maxsize=1)
def _runs(text: str) -> list[tuple[int, int, list[int]]]:
    """The long runs of a text that were looked at: where each starts and ends, and its clusters. Filled on the way."""
    return []


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
