"""Pieces that are gathered from several places of a document: what each chunk of them holds, and how it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from chunkmill.chunkers.base import Budget, Document, Piece, Span
from chunkmill.chunkers.counts import exact, extra
from chunkmill.chunkers.limit import shrunk
from chunkmill.chunkers.seams import trim
from chunkmill.chunkers.structure import BREAK, SHARE, Outline, Path, common, outline, path_contexts

if TYPE_CHECKING:
    from chunkmill.chunkers.finish import Chunking


def gathered(doc: Document, pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces, each as one or more within the limit by an exact count. Each has its parts, in order, and as its text their
    slices, a line each; in front of its path stand the headings that all its parts are under, and with `context: headings` in
    front of its context too, less the one that it begins with.

    A part that is too long alone is cut; a context of its own that is over its share goes.
    """
    text, heads = doc.text, Heads.of(doc, chunking)
    found: list[Piece] = []
    for piece in pieces:
        (own,) = extra([piece.context], BREAK, chunking.unit)
        if own > budget.room(piece.parts[0].start) // SHARE:
            piece, own = piece._replace(context=""), 0
        for several, path in _within(text, piece.parts, own, heads, chunking, budget):
            span, parts = Span(several[0].start, several[-1].end), united(text, several)
            context = BREAK.join(filter(None, (heads.texts[heads.before(several[0], path)], piece.context)))
            whole = (*path, *piece.path)
            found.append(piece._replace(span=span, parts=parts, text=lines(text, parts), path=whole, context=context))
    return found


def lines(text: str, parts: Sequence[Span]) -> str:
    """What the parts read as."""
    return BREAK.join(text[start:end] for start, end in parts)


def united(text: str, parts: Sequence[Span]) -> tuple[Span, ...]:
    """The parts; those between which nothing stands but white space are one."""
    found: list[Span] = []
    for part in parts:
        if found and not text[found[-1].end : part.start].strip():
            found[-1] = Span(found[-1].start, part.end)
        else:
            found.append(part)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Heads:
    """The headings over parts of a text: of each path the text that is embedded in front, and its size (none: 0)."""

    text: str
    outline: Outline
    texts: Mapping[Path, str]
    sizes: Mapping[Path, int]

    @classmethod
    def of(cls, doc: Document, chunking: Chunking) -> Heads:
        """Of a document; nothing is embedded in front unless chunks carry headings."""
        headings = outline(doc)
        most = (chunking.limit - chunking.overlap) // SHARE if chunking.context == "headings" else 0
        texts = path_contexts({(), *headings.paths}, chunking.unit, most)
        return cls(doc.text, headings, texts, dict(zip(texts, extra([*texts.values()], BREAK, chunking.unit), strict=True)))

    def shared(self, parts: Iterable[Span]) -> Iterator[Path]:
        """The headings over the first part, over the first two, over the first three, …"""
        return accumulate((self.outline.of(self.text, *part) for part in parts), common)

    def before(self, first: Span, path: Path) -> Path:
        """Those of the path that the first part does not itself begin with."""
        return common(self.outline.above(first.start), path)


def _within(
    text: str, parts: Sequence[Span], own: int, heads: Heads, chunking: Chunking, budget: Budget
) -> Iterator[tuple[list[Span], Path]]:
    """The parts in as few runs as fit, greedily, each with the headings over it."""
    left = [s for s in (trim(text, *p) for p in parts) if s.start < s.end][::-1]
    limit = budget.limit - own
    (line_break,) = chunking.unit.count([BREAK])
    while left:
        paths = _fitting(text, left, limit, heads, line_break, budget)
        while len(paths) > 1:
            room = limit - heads.sizes[heads.before(left[-1], paths[-1])]
            if chunking.unit.count([lines(text, united(text, left[: -len(paths) - 1 : -1]))])[0] <= room:
                break
            paths.pop()
        if len(paths) == 1:
            (size,) = exact(text, left[-1:], budget, chunking.unit)
            room = max(1, limit - heads.sizes[heads.before(left[-1], paths[0])])
            left[-1:] = shrunk(text, left[-1], size, room, chunking.unit, budget)[::-1]
        yield left[: -len(paths) - 1 : -1], paths[-1]
        del left[-len(paths) :]


def _fitting(text: str, left: Sequence[Span], limit: int, heads: Heads, line_break: int, budget: Budget) -> list[Path]:
    """The headings over the first part (the last one is the first), over the first two, …, as long as these fit by the index;
    at least over one.
    """
    found: list[Path] = []
    size = 0
    for part, path in zip(reversed(left), heads.shared(reversed(left)), strict=True):
        after = left[-len(found)].end if found else part.start
        apart = text[after : part.start].strip()
        size += budget.size(part) + line_break if apart else budget.size(Span(after, part.end))
        if found and size > limit - heads.sizes[heads.before(left[-1], path)]:
            break
        found.append(path)
    return found
