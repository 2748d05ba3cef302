"""What every strategy gets for free: the hard limit, overlap, trimming, context and identity, in that order."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from chunkmill.chunkers.base import Budget, Chunker, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.measure import Tokenizer, tokenizer
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import cluster_start, trim
from chunkmill.chunkers.structure import BREAK, NO_CONTEXT, Contexts, heading_contexts, outline, pages


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
    `tokenizer.json`; any other `Tokenizer` will do.
    """

    strategy: Chunker
    size: int = 512
    overlap: int = 0
    tokenizer: str | Tokenizer = "cl100k_base"
    context: Literal["none", "headings"] = "none"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"chunk.size is {self.size}; it must be 1 or more")
        if not 0 <= self.overlap < self.size:
            raise ConfigError(
                f"chunk.overlap is {self.overlap} with chunk.size {self.size}; it must be 0 or more and less than the size"
            )

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
        limit = self.limit
        return Budget(limit, starts, len(doc.text), limit - self.overlap, contexts.at, contexts.sizes)


def finish(doc: Document, pieces: Sequence[Piece], chunking: Chunking, budget: Budget, contexts: Contexts) -> list[Chunk]:
    """Chunks out of pieces. Every leaf is within the limit by an exact count, has some text, and keeps its order."""
    leaves = [p for p in pieces if not p.level and not p.text]
    bodies = _bounded(doc.text, leaves, chunking, budget)
    if getattr(chunking.strategy, "overlaps", False):
        bodies = _uncontained(bodies)
        spans = [p.span for p in bodies]
    else:
        spans = _overlapped(doc.text, [p.span for p in bodies], chunking, budget)
    others = [p._replace(span=trim(doc.text, *p.span)) for p in pieces if p.level or p.text]
    finished = [(p._replace(span=s), p.span.start) for p, s in zip(bodies, spans, strict=True)]
    finished += [(p, p.span.start) for p in others if p.span.start < p.span.end]
    return _chunks(doc, sorted(finished, key=_order), chunking, budget, contexts)


def _order(item: tuple[Piece, int]) -> tuple[int, int, int]:
    return (item[0].level, item[0].span.start, item[0].span.end)


def _bounded(text: str, leaves: Sequence[Piece], chunking: Chunking, budget: Budget) -> list[Piece]:
    """The leaves cut to the limit: first by the index, then by recounting each body exactly."""
    parts = [p._replace(span=s) for p in leaves for s in fit(text, p.span, budget)]
    sizes = exact(text, [p.span for p in parts], budget, chunking.unit)
    if all(n <= budget.room(p.span.start) for n, p in zip(sizes, parts, strict=True)):
        return parts
    done = []
    for part, size in zip(parts, sizes, strict=True):
        done += [part._replace(span=s) for s in _shrunk(text, part.span, size, chunking.unit, budget)]
    return done


def _shrunk(text: str, span: Span, size: int, unit: Tokenizer, budget: Budget) -> list[Span]:
    """A span whose exact size is over the limit, cut so that every part is within it (down to single clusters)."""
    over = size - budget.room(span.start)
    if over <= 0 or len(text[span.start : span.end]) == 1:
        return [span]
    tighter = replace(budget, limit=max(1, min(budget.limit - over, budget.size(span) - 1)))
    parts = fit(text, span, tighter)
    if len(parts) == 1:
        parts = _halves(text, span)
    sizes = exact(text, parts, budget, unit)
    return [s for part, n in zip(parts, sizes, strict=True) for s in _shrunk(text, part, n, unit, budget)]


def _uncontained(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without those that lie inside another one, as the rest of a cut window can."""
    kept: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p.span.start, -p.span.end)):
        if not kept or piece.span.end > kept[-1].span.end:
            kept.append(piece)
    return kept


def _halves(text: str, span: Span) -> list[Span]:
    middle = (span.start + span.end) // 2
    cut = cluster_start(text, middle)
    cut = cut if cut > span.start else max(span.start + 1, middle)
    return [s for s in (trim(text, span.start, cut), trim(text, cut, span.end)) if s.start < s.end]


def _overlapped(text: str, bodies: Sequence[Span], chunking: Chunking, budget: Budget) -> list[Span]:
    """Each body with up to `overlap` units of what stands before it, as far as the limit leaves room."""
    spans = list(bodies)
    if not chunking.overlap:
        return spans
    for i in range(1, len(bodies)):
        floor = bodies[i - 1].start + 1
        room = budget.room(bodies[i].start)
        reach = min(chunking.overlap, room - budget.size(bodies[i]))
        while reach > 0:
            start = _word_start(text, budget, bodies[i].start, reach, floor)
            (size,) = exact(text, [Span(start, bodies[i].end)], budget, chunking.unit)
            if size <= room and exact(text, [Span(start, bodies[i].start)], budget, chunking.unit)[0] <= chunking.overlap:
                spans[i] = Span(start, bodies[i].end)
                break
            reach -= max(1, size - room)
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


def _chunks(
    doc: Document, pieces: Sequence[tuple[Piece, int]], chunking: Chunking, budget: Budget, contexts: Contexts
) -> list[Chunk]:
    headings, paged = outline(doc), pages(doc.blocks)
    texts = [p.text or doc[p.span] for p, _ in pieces]
    context = [p.context or contexts.of(body) for p, body in pieces]
    spans = [p.span for p, _ in pieces]
    sizes = exact(doc.text, spans, budget, chunking.unit)
    ids = identities(doc.id, [(p.level, text) for (p, _), text in zip(pieces, texts, strict=True)])
    parents = _parents([p for p, _ in pieces], ids)
    extra = _extra(pieces, context, chunking.unit)
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
            paged.of(piece.span.start),
            paged.of(piece.span.end - 1),
            headings.of(doc.text, body, piece.span.end) if len(headings.starts) else (),
            texts[i],
            context[i],
            sizes[i] + extra[i] + chunking.unit.specials,
        )
        for i, (piece, body) in enumerate(pieces)
    ]


def _extra(pieces: Sequence[tuple[Piece, int]], context: Sequence[str], unit: Tokenizer) -> list[int]:
    """The sizes of the contexts with the break behind them."""
    distinct = sorted({c for c in context if c})
    size = dict(zip(distinct, unit.count([c + BREAK for c in distinct]), strict=True))
    return [size.get(c, 0) for c in context]


def identities(doc_id: str, texts: Sequence[tuple[int, str]]) -> list[str]:
    """`chunk_id`s: a hash of the document, the level, the text and how often that text came before in the document."""
    seen: Counter[tuple[int, str]] = Counter()
    ids = []
    for level, text in texts:
        ids.append(digest(doc_id, str(level), text, str(seen[level, text])))
        seen[level, text] += 1
    return ids


def digest(*parts: str) -> str:
    """BLAKE2b-128 of the parts, each behind its length, in hex: no two lists of parts run together."""
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode()
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def _parents(pieces: Sequence[Piece], ids: Sequence[str]) -> list[str | None]:
    """For each piece the id of the piece one level up that holds its start."""
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
