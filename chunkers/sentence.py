"""Whole sentences, and whole documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.anchor import pack_anchored
from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.pack import fit, pack
from chunkmill.chunkers.recursive import anchored
from chunkmill.chunkers.seams import sentences


@dataclass(frozen=True, slots=True)
class Sentence:
    """Whole sentences, as many as fit; one that alone is over the limit is cut at words.

    `language`: ISO 639-1 code of the text; the document's own `language` goes first where its metadata name one.
    `stable`: packed at boundaries that an edit elsewhere leaves alone, else greedily.
    """

    language: str = "en"
    stable: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The packed sentences, in order."""
        parts = sentences(doc.text, language=doc.metadata.get("language", self.language))
        packed = pack_anchored(doc.text, parts, budget) if self.stable else pack(parts, budget)
        return [Piece(s) for span in packed for s in fit(doc.text, span, budget)]


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """One chunk for the document where it fits; else it is split at its strongest seams."""

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """One piece, or the least that the limit allows."""
        return [Piece(s) for s in anchored(doc.text, Span(0, len(doc.text)), budget)]
