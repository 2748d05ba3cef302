"""The vocabulary: documents, pieces of them, and what a strategy may ask a model.

Offsets are code points of `Document.text`, half open. Nothing here knows of files, Ray or models.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from chunkmill.chunkers.measure import Tokenizer

Offsets: TypeAlias = npt.NDArray[np.int64]
Vectors: TypeAlias = npt.NDArray[np.float32]

Kind: TypeAlias = Literal["heading", "paragraph", "list", "table", "code", "quote", "figure", "page_break", "record", "notes"]


class Span(NamedTuple):
    """Half-open range of code points."""

    start: int
    end: int


class Block(NamedTuple):
    """A structural unit found by a parser. Blocks of a document are ordered and disjoint.

    `level` is a heading's depth (1 is the top; 0 for anything else), `page` counts from 1,
    `parts` are the block's own seams: rows of a table, items of a list, lines of code.
    `title` is a heading's plain text where it differs from the slice (`## Wiring ##` → `Wiring`).
    """

    kind: Kind
    span: Span
    level: int = 0
    page: int | None = None
    parts: Sequence[Span] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One canonical text and its structure."""

    id: str
    uri: str
    text: str
    blocks: tuple[Block, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, span: Span) -> str:
        return self.text[span.start : span.end]


NOTHING: frozenset[type] = frozenset()
EMPTY: Offsets = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one chunk may hold, answered by subtraction in the document's token index.

    `starts` are the sorted offsets at which the document's tokens begin (None: every code point is one unit), `length`
    is the text's length. `fill` ≤ `limit` is how far neighbours are packed; the rest is room for overlap.
    `context_at`/`context_size`: from each of these offsets on, a chunk carries that many units of context. `unit` counts
    exactly where the index can't: a slice that is encoded alone may have a token more (None: nothing does).
    """

    limit: int
    starts: Offsets | None
    length: int
    fill: int
    context_at: Offsets = field(default_factory=lambda: EMPTY)
    context_size: Offsets = field(default_factory=lambda: EMPTY)
    unit: Tokenizer | None = None

    def index(self, offset: int) -> int:
        """How many tokens begin before the offset. O(log n)."""
        return offset if self.starts is None else int(self.starts.searchsorted(offset))

    def indices(self, spans: Sequence[Span]) -> Offsets:
        """`index` of the starts and ends of many spans at once: (n, 2)."""
        offsets = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans)).reshape(-1, 2)
        return self.indices_of(offsets)

    def indices_of(self, offsets: Offsets) -> Offsets:
        """`index` of many offsets at once."""
        found: Offsets = offsets if self.starts is None else self.starts.searchsorted(offsets)
        return found

    def size(self, span: Span) -> int:
        """Tokens that begin inside the span, without context."""
        return self.index(span[1]) - self.index(span[0])

    def room(self, start: int) -> int:
        """Units a chunk that starts here may hold besides its context; at least 1."""
        if not len(self.context_at):
            return self.limit
        at = int(self.context_at.searchsorted(start, "right")) - 1
        return max(1, self.limit - int(self.context_size[at])) if at >= 0 else self.limit

    def fits(self, span: Span) -> bool:
        """Whether the span can be one chunk."""
        return self.size(span) <= self.room(span[0])

    def rooms(self, spans: Sequence[Span]) -> Offsets:
        """`room` of many spans at once: (n,)."""
        return self.rooms_from(np.fromiter((s[0] for s in spans), np.int64, len(spans)))

    def rooms_from(self, starts: Offsets) -> Offsets:
        """`room` of many starts at once."""
        if not len(self.context_at):
            return np.full(len(starts), self.limit, np.int64)
        at = self.context_at.searchsorted(starts, "right") - 1
        rooms: Offsets = np.maximum(1, self.limit - np.where(at >= 0, self.context_size[at], 0))
        return rooms

    def packs(self, span: Span) -> bool:
        """Whether neighbours that make up this span should be joined: like `fits`, less the room kept for overlap."""
        return self.size(span) <= max(1, self.room(span[0]) - self.limit + self.fill)

    def furthest(self, start: int, limit: int | None = None) -> int:
        """The largest end for which the span from `start` holds at most `limit` (default: the room there) units."""
        limit = self.room(start) if limit is None else limit
        if self.starts is None:
            return min(self.length, start + limit)
        last = self.index(start) + limit
        return int(self.starts[last]) if last < len(self.starts) else self.length

    def offset(self, index: int) -> int:
        """Where the token with this index begins; the text's end for the one after the last."""
        if self.starts is None:
            return min(max(0, index), self.length)
        return int(self.starts[max(0, index)]) if index < len(self.starts) else self.length

    def within(self, limit: int) -> Budget:
        """The same index under another limit, without overlap and context."""
        return Budget(limit, self.starts, self.length, limit)


class Piece(NamedTuple):
    """What a strategy decides about one future chunk.

    `level` 0 is a leaf; a parent has a higher one. `context` is read by the model in front of the body. `text` is set only
    where a model wrote it: the span is then its evidence. `path` (the names of the symbols around it) goes before the headings.
    `parts`: of a leaf that is gathered from several places, these, in order; the span is from the first to the last, and the
    path goes behind the headings that they share.
    """

    span: Span
    level: int = 0
    context: str = ""
    text: str = ""
    kind: str = "text"
    path: tuple[str, ...] = ()
    parts: tuple[Span, ...] = ()


T = TypeVar("T")


class Noted(list[T]):
    """The pieces or chunks of a document, and what is worth saying of how they were made: goes to the document's metadata."""

    def __init__(self, values: Iterable[T], notes: Mapping[str, str]) -> None:
        super().__init__(values)
        self.notes = dict(notes)


class Embed(NamedTuple):
    """Ask for vectors; answered by float32 (len(texts), dim), rows of unit length."""

    texts: Sequence[str]


class Complete(NamedTuple):
    """Ask a language model; answered by one string per prompt."""

    prompts: Sequence[str]


Request: TypeAlias = Embed | Complete
Plan: TypeAlias = Generator[Request, Any, list[Piece]]


@runtime_checkable
class Chunker(Protocol):
    """A strategy: a frozen dataclass whose fields are its configuration.

    One that places its own overlap says so with a class attribute `overlaps = True`. One whose own fields decide the size or
    the overlap has `sized(size, overlap)`, which gives both.
    """

    needs: ClassVar[frozenset[type]]

    def __call__(self, doc: Document, budget: Budget) -> list[Piece] | Plan:
        """The pieces of a document, or a generator that asks for models on the way."""
        ...
