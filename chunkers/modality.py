"""Text, tables and figures of a document apart, each kind cut in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.base import NOTHING, Budget, Chunker, Document, Kind, Piece, Plan, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import trim
from chunkmill.chunkers.stretch import cut, together
from chunkmill.chunkers.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """What a figure says in words, as pieces of kind `image`: its caption, its alternative text."""

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """All of the stretch, forced into the limit."""
        return [Piece(s, kind="image") for s in fit(doc.text, Span(0, len(doc.text)), budget)]


APART: dict[Kind, Chunker] = {"figure": Figure(), "table": Table()}  # kinds of blocks that are never mixed with text


@dataclass(frozen=True, slots=True)
class Modality:
    """Tables as pieces of kind `table` (by rows where they are too long, under their header), figures that have words as
    pieces of kind `image`, and the text between them by the strategy that `text` names.
    """

    text: str = "recursive"

    def __post_init__(self) -> None:
        if self.text == "modality":
            raise ConfigError("chunk.text is 'modality', which is this strategy; name the one for the text, as 'recursive'")
        _ = self.inner

    @property
    def inner(self) -> Chunker:
        """The strategy for the text."""
        from chunkmill.chunkers.strategies import strategy  # the table holds this class too

        return strategy(self.text, key="chunk.text")

    @property
    def needs(self) -> frozenset[type]:
        """What the strategy for the text asks for."""
        return self.inner.needs

    @property
    def overlaps(self) -> bool:
        """Whether the strategy for the text places its own overlap."""
        return bool(getattr(self.inner, "overlaps", False))

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """The pieces of all kinds, in order of the text."""
        inner = self.inner
        found = yield from together([cut(APART[kind] if kind else inner, doc, budget, span) for span, kind in runs(doc)])
        return [piece for pieces in found for piece in pieces]


def runs(doc: Document) -> Iterator[tuple[Span, Kind | None]]:
    """The tables and figures, each with its kind, and the text between them (None), in order; trimmed, none empty."""
    at = 0
    for block in doc.blocks:
        if block.kind in APART:
            yield from _run(doc, Span(at, block.span.start), None)
            yield from _run(doc, block.span, block.kind)
            at = block.span.end
    yield from _run(doc, Span(at, len(doc.text)), None)


def _run(doc: Document, span: Span, kind: Kind | None) -> Iterator[tuple[Span, Kind | None]]:
    trimmed = trim(doc.text, *span)
    if trimmed.start < trimmed.end:
        yield trimmed, kind
