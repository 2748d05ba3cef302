"""Pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.pack import pack
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.seams import between


@dataclass(frozen=True, slots=True)
class Page:
    """One page a chunk; one that is over the limit is split at its strongest seams.

    Pages are those of the document's format, else form feeds divide them. `pack`: neighbouring pages are joined while they fit.
    """

    pack: bool = False

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The pages, in order; one without text gives no piece."""
        found = between(doc.text, _starts(doc), Span(0, len(doc.text)))
        whole = pack(found, budget) if self.pack else found
        return [Piece(s) for page in whole for s in split(doc.text, page, budget)]


def _starts(doc: Document) -> Iterator[int]:
    """Where a page begins: at the first block with its number, at a page break, or behind a form feed."""
    if any(b.page is not None or b.kind == "page_break" for b in doc.blocks):
        page = None
        for block in doc.blocks:
            if block.kind == "page_break" or (block.page is not None and block.page != page):
                yield block.span.start
            page = page if block.page is None else block.page
        return
    at = doc.text.find("\f")
    while at >= 0:
        yield at + 1
        at = doc.text.find("\f", at + 1)
