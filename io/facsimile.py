"""What pages of a PDF look like, and where on them a span of the document's text stands: for people who look at chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Span

Box = tuple[float, float, float, float]  # x0, y0, x1, y1 in points, from the page's top left

WIDEST, TALLEST = 900, 1_300  # pixels of an image
PASSES = 4  # how often what is left over is aligned again: columns read in another order
CERTAIN = 3  # words in a row that count as found, after the first pass
WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff66-\uff9f"  # scripts written without spaces
WORD = re.compile(f"[{WIDE}]|[^\\s{WIDE}]+")
NO_LETTER = re.compile(r"[\W_]+")


class Word(NamedTuple):
    """A word of a page: what it is compared by, and where it stands."""

    key: str
    box: Box


class Facsimile(NamedTuple):
    """A page: its number from 1, its size in points, its picture and its words."""

    number: int
    width: float
    height: float
    png: bytes
    words: Sequence[Word]


class Placed(NamedTuple):
    """A word of the document's text, and where it stands on its page."""

    span: Span
    page: int
    box: Box


def facsimiles(data: bytes, first: int) -> list[Facsimile]:
    """The first so many pages; one that can't be drawn is left out, and all are if the file can't be opened."""
    import pymupdf

    mupdf: Any = pymupdf  # it carries no types
    broken = (RuntimeError, ValueError, IndexError, TypeError, KeyError, mupdf.mupdf.FzErrorBase)
    found = []
    try:
        with mupdf.open(stream=data, filetype="pdf") as pdf:
            for number in range(min(first, len(pdf))):
                try:
                    found.append(_facsimile(pdf[number], number + 1))
                except broken:
                    continue
    except broken:
        return found
    return found


def _facsimile(page: Any, number: int) -> Facsimile:
    import pymupdf

    mupdf: Any = pymupdf
    width, height = page.rect.width, page.rect.height
    scale = min(WIDEST / width, TALLEST / height)
    pixels = page.get_pixmap(matrix=mupdf.Matrix(scale, scale), alpha=False)
    if _is_grey(np.frombuffer(pixels.samples_mv, np.uint8).reshape(-1, pixels.n)):
        pixels = mupdf.Pixmap(mupdf.csGRAY, pixels)  # half the time and half the size
    words = [
        word
        for *box, text, _, _, _ in page.get_text("words", flags=mupdf.TEXT_MEDIABOX_CLIP)
        for word in _words(text, tuple(box))
    ]
    return Facsimile(number, width, height, pixels.tobytes("png"), words)


def _is_grey(pixels: npt.NDArray[np.uint8]) -> bool:
    """Whether no pixel has a colour: (pixels, 3)."""
    return all(np.array_equal(pixels[:, 0], pixels[:, i]) for i in range(1, pixels.shape[1]))


def _words(text: str, box: Box) -> Iterator[Word]:
    """A run of a page as words; each sign of a script without spaces is one, in its share of the box."""
    x0, y0, x1, y1 = box
    step = (x1 - x0) / max(1, len(text))
    for match in WORD.finditer(text):
        if key := _key(match[0]):
            yield Word(key, (x0 + step * match.start(), y0, x0 + step * match.end(), y1))


def _key(text: str) -> str:
    return NO_LETTER.sub("", text).casefold()


def placed(text: str, pages: Mapping[int, Span], shown: Sequence[Facsimile]) -> list[Placed]:
    """Where the words of a document stand, as far as they are found on the page (`pages`: its text by number) or the next."""
    found: list[Placed] = []
    carried: list[tuple[str, Span]] = []
    for sheet in shown:
        start, end = pages.get(sheet.number, Span(0, 0))
        here = [(key, Span(*m.span())) for m in WORD.finditer(text, start, end) if (key := _key(m[0]))]
        words = [*carried, *here]
        pairs = aligned([key for key, _ in words], [word.key for word in sheet.words])
        found += [Placed(words[i][1], sheet.number, sheet.words[j].box) for i, j in pairs]
        carried = words[max((i for i, _ in pairs), default=-1) + 1 :] if pairs else []
    return found


def aligned(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Which words are the same: pairs of indices, sorted."""
    pairs: list[tuple[int, int]] = []
    a, b = list(range(len(left))), list(range(len(right)))
    for nth in range(PASSES):
        blocks = SequenceMatcher(None, [left[i] for i in a], [right[j] for j in b], autojunk=False).get_matching_blocks()
        fresh = [(a[i + k], b[j + k]) for i, j, n in blocks if n >= (CERTAIN if nth else 1) for k in range(n)]
        if not fresh:
            break
        pairs += fresh
        used_a, used_b = {i for i, _ in fresh}, {j for _, j in fresh}
        a, b = [i for i in a if i not in used_a], [j for j in b if j not in used_b]
    return sorted(pairs)


def lines(words: Sequence[Placed]) -> list[tuple[int, Box]]:
    """Words of one chunk as boxes around what stands in a row: (page, box)."""
    rows: list[tuple[int, Box]] = []
    for _, page, box in words:
        if rows and rows[-1][0] == page and _beside(rows[-1][1], box):
            last = rows[-1][1]
            box = min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3])
            rows[-1] = (page, box)
        else:
            rows.append((page, box))
    return rows


def _beside(row: Box, word: Box) -> bool:
    """Whether the word goes on in the row: as high, and not far behind its end."""
    shared = min(row[3], word[3]) - max(row[1], word[1])
    tall = min(row[3] - row[1], word[3] - word[1])
    return shared > 0.5 * tall and -tall < word[0] - row[2] < 4 * max(tall, 1.0)
