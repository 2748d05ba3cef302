"""What the blocks of a document say about any offset: the headings open there, the page, the context a chunk carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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

    starts: Offsets
    ends: Offsets
    paths: Sequence[Path]

    def before(self, i: int) -> Path:
        """The path that is open where heading i stands: of its ancestors."""
        return self.paths[i][:-1]

    def of(self, text: str, start: int, end: int) -> Path:
        """The heading path of a chunk: that of its first text which is not itself a heading."""
        i = int(self.starts.searchsorted(start, "right")) - 1
        while i + 1 < len(self.starts) and self.starts[i + 1] < end and _white(text, self._body(i, start), i, self):
            i += 1
        return self.paths[i] if i >= 0 else ()

    def _body(self, i: int, start: int) -> int:
        return max(start, int(self.ends[i])) if i >= 0 else start


def _white(text: str, at: int, i: int, outline: Outline) -> bool:
    return not text[at : int(outline.starts[i + 1])].strip()


NO_OUTLINE = Outline(EMPTY, EMPTY, ())


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
    return Outline(_column(h.span.start for h in headings), _column(h.span.end for h in headings), paths)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The context of a chunk by where its body starts: from `at[i]` on it is `texts[i]`, of `sizes[i]` units."""

    at: Offsets
    sizes: Offsets
    texts: Sequence[str]

    def of(self, start: int) -> str:
        """The context of a chunk whose body starts here; empty where there is none."""
        i = int(self.at.searchsorted(start, "right")) - 1
        return self.texts[i] if i >= 0 else ""


NO_CONTEXT = Contexts(EMPTY, EMPTY, ())


def heading_contexts(headings: Outline, tokenizer: Tokenizer, limit: int) -> Contexts:
    """Heading paths as contexts. One that takes more than a third of the limit loses its outermost headings."""
    at: list[int] = []
    paths: list[Path] = []
    for i, (start, end) in enumerate(zip(headings.starts.tolist(), headings.ends.tolist(), strict=True)):
        at += [start, end]
        paths += [headings.before(i), headings.paths[i]]
    known: dict[Path, tuple[str, int]] = {(): ("", 0)}
    for path in set(paths):
        _shorten(path, tokenizer, limit // SHARE, known)
    return Contexts(_column(at), _column(known[p][1] for p in paths), [known[p][0] for p in paths])


def path_contexts(paths: Iterable[Path], tokenizer: Tokenizer, most: int) -> dict[Path, str]:
    """Paths as contexts of at most so many units; one that is longer loses its outermost steps."""
    known: dict[Path, tuple[str, int]] = {(): ("", 0)}
    return {path: _shorten(path, tokenizer, most, known)[0] if most else "" for path in paths}


def _shorten(path: Path, tokenizer: Tokenizer, most: int, known: dict[Path, tuple[str, int]]) -> tuple[str, int]:
    if path not in known:
        text = JOINT.join(path)
        (size,) = tokenizer.count([text + BREAK])
        known[path] = (text, size) if size <= most else _shorten(path[1:], tokenizer, most, known)
    return known[path]


@dataclass(frozen=True, slots=True)
class Pages:
    """From `starts[i]` on the document is on page `numbers[i]`."""

    starts: Offsets
    numbers: Sequence[int]

    def of(self, offset: int) -> int | None:
        """The page on which the character at this offset stands, from 1; None where the format has no pages."""
        i = int(self.starts.searchsorted(offset, "right")) - 1
        return self.numbers[max(0, i)] if self.numbers else None


NO_PAGES = Pages(EMPTY, ())


def pages(blocks: Sequence[Block]) -> Pages:
    """Page numbers by offset."""
    paged = [b for b in blocks if b.page is not None]
    if not paged:
        return NO_PAGES
    return Pages(_column(b.span.start for b in paged), [b.page for b in paged if b.page is not None])


def _column(values: object) -> Offsets:
    return np.fromiter(values, np.int64)  # type: ignore[call-overload,no-any-return]
