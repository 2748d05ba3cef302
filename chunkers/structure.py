"""What the blocks of a document say about any offset: the headings open there, the page, the context a chunk carries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from chunkmill.chunkers.base import EMPTY, Block, Document, Offsets
from chunkmill.chunkers.measure import Tokenizer

Path = tuple[str, ...]
JOINT = " > "  # between the headings of a path
BREAK = "\n"  # between the context and the body, in what is embedded
SHARE = 3  # a context may take one part in so many of the limit


@dataclass(frozen=True, slots=True)
class Outline:
    """The headings of a document: where each starts and ends, and the path that is open behind it."""

    starts: Sequence[int]
    ends: Sequence[int]
    paths: Sequence[Path]

    def before(self, i: int) -> Path:
        """The path that is open where heading i stands: of its ancestors."""
        return self.paths[i][:-1]

    def of(self, text: str, start: int, end: int) -> Path:
        """The heading path of a chunk: that of its first text which is not itself a heading."""
        i = bisect_right(self.starts, start) - 1
        while i + 1 < len(self.starts) and self.starts[i + 1] < end and _white(text, self._body(i, start), i, self):
            i += 1
        return self.paths[i] if i >= 0 else ()

    def shared(self, text: str, start: int, end: int) -> Path:
        """The headings that a whole stretch is under, those of its first text and of its last."""
        i = bisect_left(self.starts, end) - 1
        while i >= 0 and self.starts[i] > start and not text[self.ends[i] : end].strip():
            end = self.starts[i]
            i -= 1
        return common(self.of(text, start, end), self.paths[i] if i >= 0 else ())

    def above(self, start: int) -> Path:
        """The headings over what starts here, without the one that does."""
        i = bisect_right(self.starts, start) - 1
        return () if i < 0 else self.before(i) if start < self.ends[i] else self.paths[i]

    def _body(self, i: int, start: int) -> int:
        return max(start, self.ends[i]) if i >= 0 else start


def _white(text: str, at: int, i: int, outline: Outline) -> bool:
    return not text[at : outline.starts[i + 1]].strip()


NO_OUTLINE = Outline((), (), ())


def common(one: Path, other: Path) -> Path:
    """The steps with which both begin."""
    return tuple(step for step, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def outline(doc: Document) -> Outline:
    """The document's outline. A path holds every open heading that is less deep than the next, outermost first."""
    headings = [b for b in doc.blocks if b.kind == "heading"]
    if not headings:
        return NO_OUTLINE
    paths: list[Path] = []
    open_: list[tuple[int, str]] = []
    for h in headings:
        while open_ and open_[-1][0] >= h.level:
            open_.pop()
        open_.append((h.level, h.title or doc[h.span].strip()))
        paths.append(tuple(title for _, title in open_))
    return Outline([h.span.start for h in headings], [h.span.end for h in headings], paths)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The context of a chunk by where its body starts: from `at[i]` on it is `texts[i]`, of `sizes[i]` units.

    `headings`: the outline that they come from.
    """

    at: Offsets
    sizes: Offsets
    texts: Sequence[str]
    headings: Outline = NO_OUTLINE

    def of(self, start: int) -> str:
        """The context of a chunk whose body starts here; empty where there is none."""
        return self.all([start])[0]

    def all(self, starts: Sequence[int]) -> list[str]:
        """`of` for many chunks at once."""
        found = self.at.searchsorted(np.array(starts, np.int64), "right") - 1
        return [self.texts[i] if i >= 0 else "" for i in found.tolist()]


NO_CONTEXT = Contexts(EMPTY, EMPTY, ())


def heading_contexts(headings: Outline, tokenizer: Tokenizer, limit: int) -> Contexts:
    """Heading paths as contexts. One that takes more than a third of the limit loses its outermost headings."""
    at: list[int] = []
    paths: list[Path] = []
    for i, (start, end) in enumerate(zip(headings.starts, headings.ends, strict=True)):
        at += [start, end]
        paths += [headings.before(i), headings.paths[i]]
    known = _shortened(paths, tokenizer, limit // SHARE)
    sizes = np.array([known[p][1] for p in paths], np.int64)
    return Contexts(np.array(at, np.int64), sizes, [known[p][0] for p in paths], headings)


def path_contexts(paths: Iterable[Path], tokenizer: Tokenizer, most: int) -> dict[Path, str]:
    """Paths as contexts of at most so many units; one that is longer loses its outermost steps."""
    return {path: text for path, (text, _) in _shortened(paths, tokenizer, most).items()} if most else dict.fromkeys(paths, "")


def _shortened(paths: Iterable[Path], tokenizer: Tokenizer, most: int) -> dict[Path, tuple[str, int]]:
    """For each path the text of the longest end of it that is within `most`, and its size. Counted in one call, mostly."""
    known: dict[Path, tuple[str, int]] = {(): ("", 0)}
    new = sorted(set(paths) - known.keys())
    while new:
        texts = [JOINT.join(path) for path in new]
        sizes = tokenizer.count([text + BREAK for text in texts])
        known |= zip(new, zip(texts, sizes, strict=True), strict=True)
        new = sorted({path[1:] for path, size in zip(new, sizes, strict=True) if size > most} - known.keys())
    for path in sorted(known, key=len):
        if known[path][1] > most:
            known[path] = known[path[1:]]
    return known


@dataclass(frozen=True, slots=True)
class Pages:
    """From `starts[i]` on the document is on page `numbers[i]`."""

    starts: Sequence[int]
    numbers: Sequence[int]

    def of(self, offset: int) -> int | None:
        """The page on which the character at this offset stands, from 1; None where the format has no pages."""
        i = bisect_right(self.starts, offset) - 1
        return self.numbers[max(0, i)] if self.numbers else None


NO_PAGES = Pages((), ())


def pages(blocks: Sequence[Block]) -> Pages:
    """Page numbers by offset."""
    paged = [b for b in blocks if b.page is not None]
    if not paged:
        return NO_PAGES
    return Pages([b.span.start for b in paged], [b.page for b in paged if b.page is not None])
