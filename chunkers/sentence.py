"""Whole sentences, and whole documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.pack import fit, pack
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.seams import sentences


@dataclass(frozen=True, slots=True)
class Sentence:
    """Whole sentences, as many as fit; one that alone is over the limit is cut at words.

    `language`: ISO 639-1 code of the text; the document's own `language` goes first where its metadata name one.
    """

    language: str = "en"

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The packed sentences, in order."""
        parts = sentences(doc.text, language=doc.metadata.get("language", self.language))
        return [Piece(s) for packed in pack(parts, budget) for s in fit(doc.text, packed, budget)]


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """One chunk for the document where it fits; else it is split at its strongest seams."""

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """One piece, or the least that the limit allows."""
        return [Piece(s) for s in split(doc.text, Span(0, len(doc.text)), budget)]
