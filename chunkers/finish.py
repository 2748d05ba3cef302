"""What every strategy gets for free: the hard limit, overlap, trimming, context and identity, in that order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, repeat
from operator import add
from typing import Literal, NamedTuple

from chunkmill.chunkers.base import Budget, Chunker, Complete, Document, Piece, Span
from chunkmill.chunkers.counts import exact, extra
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.gathered import gathered
from chunkmill.chunkers.identity import digest as digest
from chunkmill.chunkers.identity import identities
from chunkmill.chunkers.limit import at, bounded, rooms_of, shrunk
from chunkmill.chunkers.measure import Tokenizer, tokenizer
from chunkmill.chunkers.overlap import apart, overlapped
from chunkmill.chunkers.recursive import anchored
from chunkmill.chunkers.seams import trim
from chunkmill.chunkers.structure import BREAK, NO_CONTEXT, SHARE, Contexts, heading_contexts, outline, pages, path_contexts

PATH_SHARE = 8  # the path that a strategy names may take one part in so many of the limit
CONTEXT_SHARE = 5  # and the context that a language model writes this part
LITTLE = 64  # units; a chunk of no more has no room for such a path


class Chunk(NamedTuple):
    """A finished chunk. `text` is `document.text[start:end]` unless a model wrote it; offsets are code points.

    Of one that is gathered from several places `spans` are these and `text` is their slices, a line each.
    `n_tokens` is the size of what is embedded: context, body and the model's special tokens, in the unit of the job.
    """

    id: str
    doc_id: str
    ordinal: int
    level: int
    parent_id: str | None
    kind: str
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    heading_path: tuple[str, ...]
    text: str
    context: str
    n_tokens: int
    spans: tuple[Span, ...] = ()

    @property
    def ranges(self) -> tuple[Span, ...]:
        """What of the document it holds."""
        return self.spans or (Span(self.start, self.end),)

    @property
    def embedded(self) -> str:
        """What the model reads."""
        return self.context + BREAK + self.text if self.context else self.text


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are cut: a strategy and what all strategies share.

    `size` and `overlap` are in the unit of `tokenizer`: `chars`, `words`, an encoding (`cl100k_base`), or a model's own
    `tokenizer.json`; any other `Tokenizer` will do. A chunk below `min_size` is joined with a neighbour where both fit.
    """

    strategy: Chunker
    size: int = 512
    overlap: int = 0
    tokenizer: str | Tokenizer = "cl100k_base"
    context: Literal["none", "headings", "llm"] = "none"
    min_size: int = 0
    context_window: int = 6000  # tokens of a document that a language model is shown with a chunk, about

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"chunk.size is {self.size} with chunk.overlap {self.overlap}; the size must be 1 or more")
        if not 0 <= self.overlap < self.size:
            raise ConfigError(
                f"chunk.overlap is {self.overlap} with chunk.size {self.size}; it must be 0 or more and less than the size"
            )

        if not 0 <= self.min_size <= self.size:
            raise ConfigError(f"chunk.min_size is {self.min_size} with chunk.size {self.size}; it must be from 0 to the size")
        least = getattr(self.strategy, "min_size", None) or 0
        if least > self.size:
            raise ConfigError(f"chunk.min_size is {least} with chunk.size {self.size}; it must not be more than the size")

    @property
    def limit(self) -> int:
        """What context and body may hold: the size less the special tokens."""
        limit = self.size - self.unit.specials
        if limit <= self.overlap:
            raise ConfigError(
                f"chunk.size is {self.size}; with an overlap of {self.overlap} and {self.unit.specials} special tokens of "
                "the model nothing is left for the text"
            )
        return limit

    @property
    def reserve(self) -> int:
        """What is kept free: for a model's context, or for the path of a piece where a strategy names one to be embedded."""
        if self.context == "llm":
            return max(0, self.limit - self.overlap - 1) // CONTEXT_SHARE
        wanted = self.context == "headings" and getattr(self.strategy, "names_paths", False)
        return max(0, self.limit - self.overlap - LITTLE) // PATH_SHARE if wanted else 0

    @property
    def needs(self) -> frozenset[type]:
        """What is asked of models: by the strategy, and for the context."""
        return self.strategy.needs | ({Complete} if self.context == "llm" else frozenset())

    @property
    def unit(self) -> Tokenizer:
        """The tokenizer, loaded once per process."""
        return tokenizer(self.tokenizer) if isinstance(self.tokenizer, str) else self.tokenizer

    def contexts(self, doc: Document) -> Contexts:
        """The context of each stretch of the document."""
        if self.context != "headings":
            return NO_CONTEXT
        return heading_contexts(outline(doc), self.unit, self.limit - self.overlap)

    def budget(self, doc: Document, contexts: Contexts = NO_CONTEXT) -> Budget:
        """The document's token index under this limit: its text is encoded here, once."""
        starts = self.unit.starts(doc.text)
        limit = self.limit - self.reserve
        return Budget(limit, starts, len(doc.text), limit - self.overlap, contexts.at, contexts.sizes, self.unit)


def finish(doc: Document, pieces: Sequence[Piece], chunking: Chunking, budget: Budget, contexts: Contexts) -> list[Chunk]:
    """Chunks out of pieces. Every leaf is within the limit by an exact count, has some text, and keeps its order."""
    _check(doc, pieces, getattr(chunking.strategy, "covers", True))
    leaves = _with_room([p for p in pieces if not (p.level or p.text or p.parts)], chunking, budget)
    if not getattr(chunking.strategy, "overlaps", False):
        _check_order(leaves)
    bodies, sizes = bounded(doc.text, leaves, chunking, budget)
    overlaps = getattr(chunking.strategy, "overlaps", False)
    if chunking.min_size and not overlaps:
        bodies, sizes = _joined(doc.text, bodies, sizes, chunking, budget)
    if overlaps:
        bodies, sizes = _uncontained(bodies, sizes)
    starts = [p.span[0] for p in bodies]
    if chunking.overlap and not overlaps:
        rooms = [0 if alone else n for alone, n in zip(apart(bodies), rooms_of(bodies, chunking, budget), strict=True)]
        bare = [p.span for p in bodies]
        spans, sizes = overlapped(doc.text, bare, sizes, rooms, chunking.overlap, budget, chunking.unit)
        bodies = list(map(at, bodies, spans))
    if len(leaves) < len(pieces):
        others = [at(p, trim(doc.text, *p.span)) for p in pieces if p.level or p.text]
        others = _written(doc, [p for p in others if p.span.start < p.span.end], chunking, budget)
        others += gathered(doc, [p for p in pieces if p.parts and not (p.level or p.text)], chunking, budget)
        counts = chunking.unit.count([p.text or doc[p.span] for p in others])
        done = [*zip(bodies, starts, sizes, strict=True), *((p, p.span.start, n) for p, n in zip(others, counts, strict=True))]
        done.sort(key=_order)
        bodies, starts, sizes = [p for p, _, _ in done], [start for _, start, _ in done], [n for _, _, n in done]
    return _chunks(doc, bodies, starts, sizes, chunking, contexts)


def _check(doc: Document, pieces: Sequence[Piece], covers: bool) -> None:
    """What a strategy owes: pieces inside the document that leave no text out. DocumentError if it does not pay.

    A text that a model wrote stands for the span that is its evidence.
    """
    text, size = doc.text, len(doc.text)
    if alien := [p for p in pieces if not isinstance(p, Piece)]:
        raise DocumentError("internal", f"a strategy must give a list of Piece; there is {alien[0]!r:.80} in it")
    if bad := [s for p in pieces for s in (p.span, *p.parts) if not 0 <= s[0] <= s[1] <= size]:
        raise DocumentError("internal", f"the strategy gave a piece at {bad[0]}, outside the text of {size}")
    if not covers:
        return
    reached = 0
    for start, stop in [*sorted([s for p in pieces if not p.level for s in p.parts or (p.span,)]), (size, size)]:
        if start > reached and not text[reached:start].isspace():
            lost = text[reached:start].strip()
            raise DocumentError("internal", f"the strategy left out the text at {reached}: {lost[:40]!r}")
        if stop > reached:
            reached = stop


def _check_order(leaves: Sequence[Piece]) -> None:
    """Leaves stand one behind another: only a strategy that says so (`overlaps`) places its own overlap."""
    before = Span(0, 0)
    for piece in leaves:
        if piece.span[0] < before[1]:
            raise DocumentError(
                "internal",
                f"the strategy gave a piece at {tuple(piece.span)} behind the one at {tuple(before)}: pieces are in order, and "
                "overlap only where the strategy has `overlaps: ClassVar[bool] = True`",
            )
        before = piece.span


def _written(doc: Document, pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces; the text of a leaf that a model wrote is cut to the limit, each part with the evidence of the whole.

    A context of its own that is over its share goes first. With `context: headings` those that all of its evidence is under are
    in its context.
    """
    done: list[Piece] = []
    sizes, above = chunking.unit.count([p.text for p in pieces]), _above(doc, pieces, chunking)
    for piece, size, head in zip(pieces, sizes, above, strict=True):
        ahead, own = extra([head, piece.context], BREAK, chunking.unit)
        if not piece.level and own > (budget.limit - ahead) // SHARE:
            piece = piece._replace(context="")
        if head:
            piece = piece._replace(context=BREAK.join(filter(None, (head, piece.context))))
        room = max(1, budget.limit - extra([piece.context], BREAK, chunking.unit)[0])
        if piece.level or not piece.text or size <= room:
            done.append(piece)
        else:
            done += [piece._replace(text=text) for text in _texts(piece.text, room, chunking.unit)]
    return done


def _above(doc: Document, pieces: Sequence[Piece], chunking: Chunking) -> list[str]:
    """Of each piece whose text a model wrote the headings that all of its evidence is under, if chunks carry headings."""
    headings = outline(doc)
    if chunking.context != "headings" or not headings.paths:
        return [""] * len(pieces)
    paths = [headings.shared(doc.text, *p.span) if p.text else () for p in pieces]
    named = path_contexts(set(paths), chunking.unit, (chunking.limit - chunking.overlap) // SHARE)
    return [named[path] for path in paths]


def _texts(text: str, room: int, unit: Tokenizer) -> list[str]:
    """A text in parts of at most so many units."""
    budget = Budget(room, unit.starts(text), len(text), room)
    parts = anchored(text, Span(0, len(text)), budget)
    sizes = exact(text, parts, budget, unit)
    return [text[a:b] for part, n in zip(parts, sizes, strict=True) for a, b in shrunk(text, part, n, room, unit, budget)]


def _order(item: tuple[Piece, int, int]) -> tuple[int, Span]:
    return (item[0].level, item[0].span)


def _with_room(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces; one whose own context is over its share and would push some of the body out comes without it."""
    if not any(p.context for p in pieces):
        return list(pieces)
    rooms, (starts, ends) = budget.rooms([p.span for p in pieces]), budget.indices([p.span for p in pieces]).T
    own = extra([p.context for p in pieces], BREAK, chunking.unit)
    dropped = (own > rooms // SHARE) & (ends - starts > rooms - own)
    return [p._replace(context="") if drop else p for p, drop in zip(pieces, dropped.tolist(), strict=True)]


def _joined(
    text: str, pieces: Sequence[Piece], sizes: Sequence[int], chunking: Chunking, budget: Budget
) -> tuple[list[Piece], list[int]]:
    """The pieces, each below `min_size` joined with the one before, or else the next one with it, where both fit together.

    Pieces of different kinds, and those with a context of their own, stay apart.
    """
    rooms = rooms_of(pieces, chunking, budget)
    kept: list[tuple[Piece, int, int]] = []
    for piece, size, room in zip(pieces, sizes, rooms, strict=True):
        if kept and min(size, kept[-1][1]) < chunking.min_size and not (piece.context or kept[-1][0].context):
            before, _, before_room = kept[-1]
            span = Span(before.span.start, piece.span.end)
            (together,) = exact(text, [span], budget, chunking.unit)
            if together <= before_room - chunking.overlap and piece.kind == before.kind:
                kept[-1] = (before._replace(span=span), together, before_room)
                continue
        kept.append((piece, size, room))
    return [p for p, _, _ in kept], [n for _, n, _ in kept]


def _uncontained(pieces: Sequence[Piece], sizes: Sequence[int]) -> tuple[list[Piece], list[int]]:
    """The pieces without those that lie inside another one, as the rest of a cut window can."""
    kept: list[tuple[Piece, int]] = []
    for piece, size in sorted(zip(pieces, sizes, strict=True), key=lambda p: (p[0].span.start, -p[0].span.end)):
        if not kept or piece.span.end > kept[-1][0].span.end:
            kept.append((piece, size))
    return [p for p, _ in kept], [n for _, n in kept]


def _chunks(
    doc: Document, done: Sequence[Piece], bodies: Sequence[int], sizes: Sequence[int], chunking: Chunking, contexts: Contexts
) -> list[Chunk]:
    """Pieces in their final place as chunks. `bodies`: where each starts without overlap; sizes are without context."""
    if not done:
        return []
    spans, levels, _, written, kinds, paths, parts = zip(*done, strict=True)
    starts, ends = zip(*spans, strict=True)
    text = doc.text
    texts = [own or text[start:end] for own, (start, end) in zip(written, spans, strict=True)]
    before = _contexts(done, bodies, chunking, contexts)
    ids = identities(doc.id, levels, texts)
    headings = contexts.headings if contexts.texts else outline(doc)
    paged, specials = pages(doc.blocks), chunking.unit.specials
    if headings.paths:
        under = [headings.shared if own else headings.of for own in written]
        places = zip(paths, parts, under, bodies, ends, strict=True)  # gathered parts have all headings that they share
        paths = tuple(p if p or several else of(text, a, b) for p, several, of, a, b in places)
    columns = (
        ids,
        repeat(doc.id),
        count(),
        levels,
        _parents(done, ids),
        kinds,
        starts,
        ends,
        map(paged.of, starts) if paged.numbers else repeat(None),
        (paged.of(end - 1) for end in ends) if paged.numbers else repeat(None),
        paths,
        texts,
        before,
        map(add, sizes, [n + specials for n in extra(before, BREAK, chunking.unit)]),
        parts,
    )
    return list(map(Chunk._make, zip(*columns, strict=False)))


def _contexts(done: Sequence[Piece], bodies: Sequence[int], chunking: Chunking, contexts: Contexts) -> list[str]:
    """What the model reads in front of each piece: the headings, the path, the piece's own context, a line each."""
    if not contexts.texts and not any(p.path for p in done):
        return [p.context for p in done]
    named = path_contexts({p.path for p in done}, chunking.unit, chunking.reserve)
    above = ["" if p.text else head for p, head in zip(done, contexts.all(bodies), strict=True)]
    return [BREAK.join(filter(None, (head, named[p.path], p.context))) for p, head in zip(done, above, strict=True)]


def _parents(pieces: Sequence[Piece], ids: Sequence[str]) -> list[str | None]:
    """For each piece the id of the piece one level up that holds its start."""
    if not pieces or pieces[-1].level == pieces[0].level:
        return [None] * len(pieces)
    by_level: dict[int, list[int]] = {}
    for i, piece in enumerate(pieces):
        by_level.setdefault(piece.level, []).append(i)
    starts = {level: [pieces[i].span.start for i in at] for level, at in by_level.items()}
    found: list[str | None] = []
    for piece in pieces:
        up = piece.level + 1
        i = bisect_right(starts[up], piece.span.start) - 1 if up in starts else -1
        found.append(ids[by_level[up][i]] if i >= 0 and piece.span.end <= pieces[by_level[up][i]].span.end else None)
    return found
