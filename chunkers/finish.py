"""What every strategy gets for free: the hard limit, overlap, trimming, context and identity, in that order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import le
from typing import Literal, NamedTuple

import numpy as np

from chunkmill.chunkers.base import Budget, Chunker, Complete, Document, Piece, Span
from chunkmill.chunkers.counts import exact, extra
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.identity import digest as digest
from chunkmill.chunkers.identity import identities
from chunkmill.chunkers.measure import Tokenizer, tokenizer
from chunkmill.chunkers.overlap import apart, overlapped
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.recursive import anchored
from chunkmill.chunkers.seams import CLUSTER, cluster_start, plain, text_from, trim
from chunkmill.chunkers.structure import BREAK, NO_CONTEXT, SHARE, Contexts, heading_contexts, outline, pages, path_contexts

PATH_SHARE = 8  # the path that a strategy names may take one part in so many of the limit
CONTEXT_SHARE = 5  # and the context that a language model writes this part
LITTLE = 64  # units; a chunk of no more has no room for such a path


class Chunk(NamedTuple):
    """A finished chunk. `text` is `document.text[start:end]` unless a model wrote it; offsets are code points.

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
        return Budget(limit, starts, len(doc.text), limit - self.overlap, contexts.at, contexts.sizes)


def finish(doc: Document, pieces: Sequence[Piece], chunking: Chunking, budget: Budget, contexts: Contexts) -> list[Chunk]:
    """Chunks out of pieces. Every leaf is within the limit by an exact count, has some text, and keeps its order."""
    leaves = _with_room([p for p in pieces if not p.level and not p.text], chunking, budget)
    _check(doc, pieces, getattr(chunking.strategy, "covers", True))
    bodies, sizes = _bounded(doc.text, leaves, chunking, budget)
    if chunking.min_size and not getattr(chunking.strategy, "overlaps", False):
        bodies, sizes = _joined(doc.text, bodies, sizes, chunking, budget)
    if getattr(chunking.strategy, "overlaps", False):
        bodies, sizes = _uncontained(bodies, sizes)
    starts = [p.span[0] for p in bodies]
    if chunking.overlap and not getattr(chunking.strategy, "overlaps", False):
        rooms = [0 if alone else n for alone, n in zip(apart(bodies), _rooms(bodies, chunking, budget), strict=True)]
        spans = overlapped(doc.text, [p.span for p in bodies], sizes, rooms, chunking.overlap, budget, chunking.unit)
        bodies = list(map(_at, bodies, spans))
        sizes = exact(doc.text, spans, budget, chunking.unit)
    if len(leaves) < len(pieces):
        others = [_at(p, trim(doc.text, *p.span)) for p in pieces if p.level or p.text]
        others = _written([p for p in others if p.span.start < p.span.end], chunking, budget)
        counts = chunking.unit.count([p.text or doc[p.span] for p in others])
        done = [*zip(bodies, starts, sizes, strict=True), *((p, p.span.start, n) for p, n in zip(others, counts, strict=True))]
        done.sort(key=_order)
        bodies, starts, sizes = [p for p, _, _ in done], [start for _, start, _ in done], [n for _, _, n in done]
    return _chunks(doc, bodies, starts, sizes, chunking, contexts)


def _check(doc: Document, pieces: Sequence[Piece], covers: bool) -> None:
    """What a strategy owes: pieces inside the document that leave no text out. DocumentError if it does not pay.

    A text that a model wrote stands for the span that is its evidence.
    """
    if bad := next((p for p in pieces if not 0 <= p.span[0] <= p.span[1] <= len(doc.text)), None):
        raise DocumentError("internal", f"the strategy gave a piece at {bad.span}, outside the text of {len(doc.text)}")
    if not covers:
        return
    text, end = doc.text, 0
    for start, stop in [*sorted([p.span for p in pieces if not p.level]), (len(text), len(text))]:
        if start > end and (lost := text[end:start].strip()):
            raise DocumentError("internal", f"the strategy left out the text at {end}: {lost[:40]!r}")
        end = max(end, stop)


def _written(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces; the text of a leaf that a model wrote is cut to the limit, each part with the evidence of the whole.

    A context of its own that is over its share goes first.
    """
    done: list[Piece] = []
    sizes = chunking.unit.count([p.text for p in pieces])
    for piece, size, room in zip(pieces, sizes, budget.rooms([p.span for p in pieces]).tolist(), strict=True):
        if piece.level or not piece.text:
            done.append(piece)
            continue
        (own,) = extra([piece.context], BREAK, chunking.unit)
        if own > room // SHARE:
            piece, own = piece._replace(context=""), 0
        if size > room - own:
            done += [piece._replace(text=text) for text in _texts(piece.text, max(1, room - own), chunking.unit)]
        else:
            done.append(piece)
    return done


def _texts(text: str, room: int, unit: Tokenizer) -> list[str]:
    """A text in parts of at most so many units."""
    budget = Budget(room, unit.starts(text), len(text), room)
    parts = anchored(text, Span(0, len(text)), budget)
    sizes = exact(text, parts, budget, unit)
    return [text[a:b] for part, n in zip(parts, sizes, strict=True) for a, b in _shrunk(text, part, n, room, unit, budget)]


def _order(item: tuple[Piece, int, int]) -> tuple[int, Span]:
    return (item[0].level, item[0].span)


def _bounded(text: str, leaves: Sequence[Piece], chunking: Chunking, budget: Budget) -> tuple[list[Piece], list[int]]:
    """The leaves cut to the limit, first by the index, then by recounting each body exactly; and the exact sizes."""
    parts = _unbroken(text, _cut(text, leaves, _rooms(leaves, chunking, budget), budget))
    sizes = exact(text, [p.span for p in parts], budget, chunking.unit)
    rooms = _rooms(parts, chunking, budget)
    if all(map(le, sizes, rooms)):
        return parts, sizes
    if getattr(chunking.strategy, "overlaps", False) and not chunking.overlap and chunking.context == "none":
        first = [*map(le, sizes, rooms)].index(False)  # this window and those behind it are measured exactly, one by one
        windows = _windows(text, parts[first].span.start, budget, chunking.unit)
        done = [*parts[:first], *(_at(parts[first], s) for s in windows)]
        return done, exact(text, [p.span for p in done], budget, chunking.unit)
    done = [
        _at(part, span)
        for part, size, room in zip(parts, sizes, rooms, strict=True)
        for span in _shrunk(text, part.span, size, room, chunking.unit, budget)
    ]
    return done, exact(text, [p.span for p in done], budget, chunking.unit)


def _cut(text: str, leaves: Sequence[Piece], rooms: Sequence[int], budget: Budget) -> list[Piece]:
    """The leaves trimmed, each that is too large by the index cut."""
    spans = [p.span for p in leaves]
    starts, ends = budget.indices_of(np.array(spans, np.int64).reshape(-1, 2)).T.tolist()
    parts: list[Piece] = []
    for leaf, span, start, end, room in zip(leaves, spans, starts, ends, rooms, strict=True):
        if end - start > room:
            parts += [_at(leaf, s) for s in fit(text, span, budget.within(room))]
        elif (trimmed := trim(text, *span)).start < trimmed.end:
            parts.append(_at(leaf, trimmed))
    return parts


def _at(piece: Piece, span: Span) -> Piece:
    """The piece with this span; itself where that is so already, since a copy costs more than all else here."""
    return piece if piece.span == span else piece._replace(span=span)


def _windows(text: str, start: int, budget: Budget, unit: Tokenizer) -> Iterator[Span]:
    """Windows from `start` to the end of the text, each as large as its exact size allows."""
    start = text_from(text, start)
    while start < len(text):
        limit, over = budget.limit, 1
        while over > 0:
            raw = budget.offset(budget.index(start) + limit)
            stop = cluster_start(text, raw)
            stop = stop if stop > start else max(raw, start + 1)
            over = exact(text, [trim(text, start, stop)], budget, unit)[0] - budget.limit if stop > start + 1 else 0
            limit -= max(1, over)
        yield trim(text, start, stop)
        start = text_from(text, stop)


def _unbroken(text: str, parts: list[Piece]) -> list[Piece]:
    """The parts with a boundary inside a grapheme cluster moved to the cluster's start, unless a part would be empty."""
    for i in range(1, len(parts)):
        left, right = parts[i - 1].span, parts[i].span
        if left.end != right.start or plain(text, right.start):
            continue
        start = cluster_start(text, right.start)
        if left.start < start < right.start and (before := trim(text, left.start, start)).start < before.end:
            parts[i - 1] = parts[i - 1]._replace(span=before)
            parts[i] = parts[i]._replace(span=Span(start, right.end))
    return parts


def _rooms(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[int]:
    """The units that the body of each piece may have: the limit less its own context, or else less that of its place."""
    rooms = budget.rooms([p.span for p in pieces]).tolist() if len(budget.context_at) else [budget.limit] * len(pieces)
    if any(p.context for p in pieces):
        own = extra([p.context for p in pieces], BREAK, chunking.unit)
        rooms = [max(1, room - n) for room, n in zip(rooms, own, strict=True)]
    return rooms


def _with_room(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces; one whose own context is over its share and would push some of the body out comes without it."""
    if not any(p.context for p in pieces):
        return list(pieces)
    rooms, (starts, ends) = budget.rooms([p.span for p in pieces]), budget.indices([p.span for p in pieces]).T
    own = extra([p.context for p in pieces], BREAK, chunking.unit)
    dropped = (own > rooms // SHARE) & (ends - starts > rooms - own)
    return [p._replace(context="") if drop else p for p, drop in zip(pieces, dropped.tolist(), strict=True)]


def _shrunk(text: str, span: Span, size: int, room: int, unit: Tokenizer, budget: Budget) -> list[Span]:
    """A span whose exact size is over its room, cut so that every part is within it (down to single characters)."""
    over = size - room
    if over <= 0 or span.end - span.start == 1:
        return [span]
    parts = fit(text, span, budget.within(max(1, min(room - over, budget.size(span) - 1))))
    parts = _healed(text, parts if len(parts) > 1 else _halves(text, span), room, unit, budget)
    sizes = exact(text, parts, budget, unit)
    return [s for part, n in zip(parts, sizes, strict=True) for s in _shrunk(text, part, n, room, unit, budget)]


def _healed(text: str, parts: Sequence[Span], room: int, unit: Tokenizer, budget: Budget) -> list[Span]:
    """The parts with each grapheme cluster put together again that was cut though it has room."""
    healed: list[Span] = []
    for part in parts:
        left = healed[-1] if healed else None
        if left and cluster_start(text, part.start) == left.start:
            end = CLUSTER.match(text, left.start).end()
            if left.start < part.start < end and exact(text, [Span(left.start, end)], budget, unit)[0] <= room:
                healed[-1] = Span(left.start, end)
                part = trim(text, end, part.end) if end < part.end else Span(part.end, part.end)
        if part.start < part.end:
            healed.append(part)
    return healed


def _joined(
    text: str, pieces: Sequence[Piece], sizes: Sequence[int], chunking: Chunking, budget: Budget
) -> tuple[list[Piece], list[int]]:
    """The pieces, each below `min_size` joined with the one before, or else the next one with it, where both fit together.

    Pieces of different kinds, and those with a context of their own, stay apart.
    """
    rooms = _rooms(pieces, chunking, budget)
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


def _halves(text: str, span: Span) -> list[Span]:
    middle = (span.start + span.end) // 2
    cut = cluster_start(text, middle)
    cut = cut if cut > span.start else max(span.start + 1, middle)
    return [s for s in (trim(text, span.start, cut), trim(text, cut, span.end)) if s.start < s.end]


def _chunks(
    doc: Document, done: Sequence[Piece], bodies: Sequence[int], sizes: Sequence[int], chunking: Chunking, contexts: Contexts
) -> list[Chunk]:
    """Pieces in their final place as chunks. `bodies`: where each starts without overlap; sizes are without context."""
    headings, paged = outline(doc), pages(doc.blocks)
    texts = [p.text or doc.text[p.span[0] : p.span[1]] for p in done]
    context = _contexts(done, bodies, chunking, contexts)
    ids = identities(doc.id, [p.level for p in done], texts)
    more = [n + chunking.unit.specials for n in extra(context, BREAK, chunking.unit)]
    columns = zip(done, bodies, sizes, ids, _parents(done, ids), texts, context, more, strict=True)
    return [
        Chunk(
            name,
            doc.id,
            i,
            level,
            parent,
            kind,
            start,
            end,
            paged.of(start) if paged.numbers else None,
            paged.of(end - 1) if paged.numbers else None,
            path or (headings.of(doc.text, body, end) if headings.paths else ()),
            text,
            before,
            size + n,
        )
        for i, (((start, end), level, _, _, kind, path), body, size, name, parent, text, before, n) in enumerate(columns)
    ]


def _contexts(done: Sequence[Piece], bodies: Sequence[int], chunking: Chunking, contexts: Contexts) -> list[str]:
    """What the model reads in front of each piece: the headings, the path, the piece's own context, a line each."""
    named = path_contexts({p.path for p in done}, chunking.unit, chunking.reserve)
    if not contexts.texts and not any(named.values()):
        return [p.context for p in done]
    return [
        BREAK.join(filter(None, (contexts.of(body), named[p.path], p.context))) for p, body in zip(done, bodies, strict=True)
    ]


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
