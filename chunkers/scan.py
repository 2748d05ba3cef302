"""The seams of plain text, looked for no further than they are needed: blank lines, lines, what may end a sentence.

A seam is a gap: where the part before it ends, and where the part behind it begins; nothing but white space is between.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

ENDS, WIDE_ENDS = ".!?", "。！？"  # what ends a sentence before white space, and without any
CLOSERS = "\"')\\]”’」』）"
LOWER = "\u0590"  # small letters are told from others below this character
BLANK = re.compile(r"\n[^\S\n]*+\n\s*+")
LINE = re.compile(r"\n\s*+")
# One set of characters comes first: `re` then looks for these alone, many times faster than for alternatives.
SENTENCE = re.compile(
    rf"[{ENDS}{WIDE_ENDS}](?:(?<=[{ENDS}])[{CLOSERS}]?(\s++)|(?<=[{WIDE_ENDS}])[{CLOSERS}{WIDE_ENDS}]*+(?!\s))"
)

Gap = tuple[int, int]


def blank_lines(text: str, start: int, end: int) -> list[Gap]:
    """White space with two line breaks or more; text[start:end] is trimmed."""
    gaps = map(re.Match.span, BLANK.finditer(text, start, end))
    return [(_text_end(text, at), begin) if text[at - 1].isspace() else (at, begin) for at, begin in gaps]


def lines(text: str, start: int, end: int, enough: int = sys.maxsize) -> list[Gap]:
    """White space with a line break, up to the first that begins behind `enough`."""
    gaps: list[Gap] = []
    for match in LINE.finditer(text, start, end):
        at, begin = match.span()
        if text[at - 1].isspace():
            at = _text_end(text, at)
        gaps.append((at, begin))
        if at > enough:
            break
    return gaps


def sentence_ends(text: str, start: int, end: int) -> Iterator[Gap]:
    """What may end a sentence inside a trimmed line.

    That is `.`, `!` or `?` and a closing mark before white space, unless a small letter follows, or their wide forms and
    closing marks before anything else.
    """
    for match in SENTENCE.finditer(text, start, end):
        begin = match.end()
        if match.lastindex is None:
            if begin < end:
                yield begin, begin
        elif not (text[begin].islower() and text[begin] < LOWER):
            yield match.start(1), begin


def _text_end(text: str, at: int) -> int:
    while text[at - 1].isspace():
        at -= 1
    return at
