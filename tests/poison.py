"""A strategy and a patch of the plain text parser that do to their process what the text says."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

from chunkmill.chunkers.base import Budget, Document, Piece, Span

SITE = """
import chunkmill.io.parsers.text as text, poison
inner = text.parse
def parse(data, name, options):
    poison.obey(data.decode("latin-1"), "PARSING")
    yield from inner(data, name, options)
text.parse = parse
"""


def obey(text: str, when: str) -> None:
    """Die, hang or swell if the text says so for this moment."""
    if f"{when} ABORT" in text:
        os.abort()
    if f"{when} EXIT" in text:
        os._exit(3)
    if f"{when} HANG" in text:
        time.sleep(600)
    if f"{when} SWELL" in text:
        held = [b"x" * (16 << 20) for _ in range(200)]
        time.sleep(600)
        del held


@dataclass(frozen=True)
class Poison:
    """One chunk a document."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        obey(doc.text, "CUTTING")
        return [Piece(Span(0, len(doc.text)))]
