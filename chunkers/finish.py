"""What every strategy gets for free: the hard limit, overlap, trimming, context and identity, in that order."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from chunkmill.chunkers.base import Budget, Chunker, Document, Offsets, Piece, Span
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.measure import Tokenizer, tokenizer
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import CLUSTER, cluster_start, plain, text_from, trim
from chunkmill.chunkers.structure import BREAK, NO_CONTEXT, SHARE, Contexts, heading_contexts, outline, pages, path_contexts

PATH_SHARE = 8  # the path that a strategy names may take one part in so many of the limit
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
    context: Literal["none", "headings"] = "none"
    min_size: int = 0

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
        """What is kept free for the path of a piece, where the strategy names it and it is to be embedded."""
        wanted = self.context == "headings" and getattr(self.strategy, "names_paths", False)
        return max(0, self.limit - self.overlap - LITTLE) // PATH_SHARE if wanted else 0

    @property
    def unit(self) -> Tokenizer:
        """The tokenizer, loaded once per process."""
        return tokenizer(self.tokenizer) if isinstance(self.tokenizer, str) else self.tokenizer

    def contexts(self, doc: Document) -> Contexts:
        """The context of each stretch of the document."""
        if self.context == "none":
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
    _check(doc, pieces, leaves, getattr(chunking.strategy, "covers", True))
    bodies, sizes = _bounded(doc.text, leaves, chunking, budget)
    if chunking.min_size and not getattr(chunking.strategy, "overlaps", False):
        bodies, sizes = _joined(doc.text, bodies, sizes, chunking, budget)
    spans = [p.span for p in bodies]
    if getattr(chunking.strategy, "overlaps", False):
        bodies, sizes = _uncontained(bodies, sizes)
        spans = [p.span for p in bodies]
    elif chunking.overlap:
        rooms = np.where(_apart(bodies), 0, _rooms(bodies, chunking, budget))
        spans = _overlapped(doc.text, spans, sizes, rooms, chunking, budget)
        sizes = exact(doc.text, spans, budget, chunking.unit)
    done = [Finished(p._replace(span=s), p.span.start, n) for p, s, n in zip(bodies, spans, sizes, strict=True)]
    if len(leaves) < len(pieces):
        others = [p._replace(span=trim(doc.text, *p.span)) for p in pieces if p.level or p.text]
        others = [p for p in others if p.span.start < p.span.end]
        counts = chunking.unit.count([p.text or doc[p.span] for p in others])
        done += [Finished(p, p.span.start, n) for p, n in zip(others, counts, strict=True)]
        done.sort(key=_order)
    return _chunks(doc, done, chunking, contexts)


def _check(doc: Document, pieces: Sequence[Piece], leaves: Sequence[Piece], covers: bool) -> None:
    """What a strategy owes: pieces inside the document that leave no text out. DocumentError if it does not pay."""
    if bad := next((p for p in pieces if not 0 <= p.span[0] <= p.span[1] <= len(doc.text)), None):
        raise DocumentError("internal", f"the strategy gave a piece at {bad.span}, outside the text of {len(doc.text)}")
    if not covers or len(leaves) < sum(not p.level for p in pieces):
        return
    end = 0
    for start, stop in [*sorted(p.span for p in leaves), Span(len(doc.text), len(doc.text))]:
        if start > end and (lost := doc.text[end:start].strip()):
            raise DocumentError("internal", f"the strategy left out the text at {end}: {lost[:40]!r}")
        end = max(end, stop)


class Finished(NamedTuple):
    """A piece in its final place; `body` is where it starts without overlap, `size` is exact and without context."""

    piece: Piece
    body: int
    size: int


def _order(item: Finished) -> tuple[int, int, int]:
    return (item.piece.level, item.piece.span.start, item.piece.span.end)


def _bounded(text: str, leaves: Sequence[Piece], chunking: Chunking, budget: Budget) -> tuple[list[Piece], list[int]]:
    """The leaves cut to the limit, first by the index, then by recounting each body exactly; and the exact sizes."""
    index = budget.indices([p.span for p in leaves])
    rooms = _rooms(leaves, chunking, budget)
    fits = index[:, 1] - index[:, 0] <= rooms
    parts: list[Piece] = []
    for leaf, whole, room in zip(leaves, fits.tolist(), rooms.tolist(), strict=True):
        spans = [trim(text, *leaf.span)] if whole else fit(text, leaf.span, budget.within(room))
        parts += [leaf if s == leaf.span else leaf._replace(span=s) for s in spans if s.start < s.end]
    parts = _unbroken(text, parts)
    sizes = exact(text, [p.span for p in parts], budget, chunking.unit)
    rooms = _rooms(parts, chunking, budget)
    if (np.array(sizes) <= rooms).all():
        return parts, sizes
    if getattr(chunking.strategy, "overlaps", False) and not chunking.overlap and chunking.context == "none":
        first = int((np.array(sizes) > rooms).argmax())  # this window and those behind it are measured exactly, one by one
        windows = _windows(text, parts[first].span.start, budget, chunking.unit)
        done = [*parts[:first], *(parts[first]._replace(span=s) for s in windows)]
        return done, exact(text, [p.span for p in done], budget, chunking.unit)
    done = [
        part._replace(span=span)
        for part, size, room in zip(parts, sizes, rooms.tolist(), strict=True)
        for span in _shrunk(text, part.span, size, room, chunking.unit, budget)
    ]
    return done, exact(text, [p.span for p in done], budget, chunking.unit)


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


def _rooms(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> Offsets:
    """The units that the body of each piece may have: the limit less its own context, or else less that of its place."""
    rooms = budget.rooms([p.span for p in pieces])
    if any(p.context for p in pieces):
        extra = np.array(_extra([p.context for p in pieces], chunking.unit), np.int64)
        rooms = np.maximum(1, rooms - extra)
    return rooms


def _with_room(pieces: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The pieces; one whose own context is over its share and would push some of the body out comes without it."""
    if not any(p.context for p in pieces):
        return list(pieces)
    rooms, index = budget.rooms([p.span for p in pieces]), budget.indices([p.span for p in pieces])
    extra = np.array(_extra([p.context for p in pieces], chunking.unit), np.int64)
    dropped = (extra > rooms // SHARE) & (index[:, 1] - index[:, 0] > rooms - extra)
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
    rooms = _rooms(pieces, chunking, budget).tolist()
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


def _apart(pieces: Sequence[Piece]) -> list[bool]:
    """Which pieces take no overlap: those of another kind than the one before, whole rows and records, and those that bring
    their own context.
    """
    whole = ("table", "record")
    return [bool(p.context) or p.kind != before.kind or p.kind in whole for before, p in pairwise([*pieces[:1], *pieces])]


def _overlapped(
    text: str, bodies: Sequence[Span], sizes: Sequence[int], within: Offsets, chunking: Chunking, budget: Budget
) -> list[Span]:
    """Each body with up to `overlap` units of what stands before it, as far as the limit leaves room."""
    rooms = within.tolist()
    reaches = [min(chunking.overlap, room - size) for room, size in zip(rooms, sizes, strict=True)]
    spans = list(bodies)
    open_ = [i for i in range(1, len(bodies)) if reaches[i] > 0]
    while open_:
        starts = {i: _word_start(text, budget, bodies[i].start, reaches[i], bodies[i - 1].start + 1) for i in open_}
        tried = [Span(starts[i], bodies[i].end) for i in open_]
        added = exact(text, [Span(starts[i], bodies[i].start) for i in open_], budget, chunking.unit)
        whole = exact(text, tried, budget, chunking.unit)
        again = []
        for i, span, extra, size in zip(open_, tried, added, whole, strict=True):
            over = max(extra - chunking.overlap, size - rooms[i])
            if over <= 0:
                spans[i] = span
                continue
            reaches[i] -= over
            if reaches[i] > 0:
                again.append(i)
        open_ = again
    return spans


def _word_start(text: str, budget: Budget, start: int, reach: int, floor: int) -> int:
    """The first word that begins within `reach` units before `start`; a cluster's start where there is no white space."""
    at = max(floor, budget.offset(budget.index(start) - reach))
    word = at
    while word < start and not (text[word - 1].isspace() and not text[word].isspace()):
        word += 1
    if word < start:
        return word
    snapped = cluster_start(text, at)
    return trim(text, snapped, start).start if snapped >= floor else start


def exact(text: str, spans: Sequence[Span], budget: Budget, unit: Tokenizer) -> list[int]:
    """The number of tokens of each slice as if it were encoded alone.

    Only the ends of a slice are encoded again: up to its first and from its last space that follows a non-white character,
    where counts add up; between them the index answers.
    """
    if budget.starts is None:
        return [s.end - s.start for s in spans]
    edges: list[str] = []
    inner: list[int] = []
    for span in spans:
        first, last = _safe(text, span) if unit.additive else (-1, -1)
        if first < last:
            edges += [text[span.start : first], text[last : span.end]]
            inner.append(budget.index(last) - budget.index(first))
        else:
            edges += [text[span.start : span.end], ""]
            inner.append(0)
    counts = unit.count(edges)
    return [n + a + b for n, a, b in zip(inner, counts[::2], counts[1::2], strict=True)]


def _safe(text: str, span: Span) -> tuple[int, int]:
    first = text.find(" ", span.start + 1, span.end)
    while first > 0 and text[first - 1].isspace():
        first = text.find(" ", first + 1, span.end)
    last = text.rfind(" ", span.start + 1, span.end)
    while last > 0 and text[last - 1].isspace():
        last = text.rfind(" ", span.start + 1, last)
    return first, last


def _chunks(doc: Document, done: Sequence[Finished], chunking: Chunking, contexts: Contexts) -> list[Chunk]:
    headings, paged = outline(doc), pages(doc.blocks)
    texts = [p.text or doc.text[p.span.start : p.span.end] for p, _, _ in done]
    named = path_contexts({p.path for p, _, _ in done}, chunking.unit, chunking.reserve)
    context = [BREAK.join(filter(None, (contexts.of(body), named[p.path], p.context))) for p, body, _ in done]
    ids = identities(doc.id, [p.level for p, _, _ in done], texts)
    parents = _parents([p for p, _, _ in done], ids)
    extra = _extra(context, chunking.unit)
    specials = chunking.unit.specials
    return [
        Chunk(
            ids[i],
            doc.id,
            i,
            piece.level,
            parents[i],
            piece.kind,
            piece.span.start,
            piece.span.end,
            paged.of(piece.span.start) if paged.numbers else None,
            paged.of(piece.span.end - 1) if paged.numbers else None,
            piece.path or (headings.of(doc.text, body, piece.span.end) if headings.paths else ()),
            texts[i],
            context[i],
            size + extra[i] + specials,
        )
        for i, (piece, body, size) in enumerate(done)
    ]


def _extra(context: Sequence[str], unit: Tokenizer) -> list[int]:
    """The sizes of the contexts with the break behind them."""
    if not any(context):
        return [0] * len(context)
    distinct = sorted({c for c in context if c})
    size = dict(zip(distinct, unit.count([c + BREAK for c in distinct]), strict=True))
    return [size.get(c, 0) for c in context]


def identities(doc_id: str, levels: Sequence[int], texts: Sequence[str]) -> list[str]:
    """`chunk_id`s: a hash of the document, the level, the text and how often that text came before in the document."""
    seen: Counter[bytes] = Counter()
    document = hashlib.blake2b(_sized(doc_id.encode()), digest_size=16)
    ids = []
    for level, text in zip(levels, texts, strict=True):
        h = document.copy()
        h.update(_sized(b"%d" % level))
        h.update(_sized(text.encode()))
        first = h.digest()
        if (before := seen[first]) > 0:
            h.update(_sized(b"%d" % before))
        seen[first] += 1
        ids.append(h.hexdigest())
    return ids


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data


def digest(*parts: str) -> str:
    """BLAKE2b-128 of the parts, each behind its length, in hex: no two lists of parts run together."""
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        h.update(_sized(part.encode()))
    return h.hexdigest()


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
