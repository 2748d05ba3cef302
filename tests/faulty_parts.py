"""A strategy that does what a paragraph says, once its part is cut: so that a document fails in one of its later parts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.seams import BLANK_LINE, between


@dataclass(frozen=True)
class Paragraphs:
    """A chunk for each paragraph, but for `FAIL`, `ABORT`, `ONCE path`, which aborts if there is no such file yet, and
    `CHANGE path`, which aborts once the file holds other words.
    """

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        spans = between(doc.text, (m.end() for m in BLANK_LINE.finditer(doc.text)), Span(0, len(doc.text)))
        for span in spans:
            obey(doc[span])
        return [Piece(s) for s in spans]


def obey(paragraph: str) -> None:
    """Fail or die if the paragraph says so."""
    if paragraph == "FAIL":
        raise DocumentError("corrupt", "it says so")
    if paragraph == "ABORT":
        os.abort()
    if paragraph.startswith("ONCE ") and not Path(paragraph[5:]).exists():
        Path(paragraph[5:]).touch()
        os.abort()
    if paragraph.startswith("CHANGE "):
        path = Path(paragraph[7:])
        path.write_text(path.read_text().replace(paragraph, "No more.").replace("e", "i"))
        os.abort()
