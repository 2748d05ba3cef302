"""Paragraphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.anchor import pack_anchored
from chunkmill.chunkers.base import NOTHING, Block, Budget, Document, Piece, Span
from chunkmill.chunkers.pack import pack
from chunkmill.chunkers.recursive import anchored, divided, split
from chunkmill.chunkers.seams import BLANK_LINE, between


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Whole paragraphs, as many as fit; one that alone is over the limit is split at lines, sentences, words.

    A paragraph is a block of the document (a list, a table or a quote is one too), or what stands between blank lines
    where the document has no blocks. A heading stays with what follows it. `stable`: packed and split at boundaries that an
    edit elsewhere leaves alone, else greedily.
    """

    stable: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The packed paragraphs, in order."""
        parts = paragraphs(doc)
        packed = pack_anchored(doc.text, parts, budget) if self.stable else pack(parts, budget)
        return [Piece(s) for s in divided(doc.text, packed, budget, anchored if self.stable else split)]


def paragraphs(doc: Document) -> list[Span]:
    """The paragraphs, trimmed; text between two blocks goes with the first of them."""
    cuts = _starts(doc.blocks) if doc.blocks else (m.end() for m in BLANK_LINE.finditer(doc.text))
    return between(doc.text, cuts, Span(0, len(doc.text)))


def _starts(blocks: tuple[Block, ...]) -> Iterator[int]:
    headed = False
    for block in blocks:
        if not headed:
            yield block.span.start
        headed = block.kind == "heading"
