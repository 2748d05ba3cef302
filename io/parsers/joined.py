"""Documents made of several pages: each is parsed by its own parser, and their texts become one."""

from __future__ import annotations

from collections.abc import Iterable

from chunkmill.chunkers.base import Block, Span
from chunkmill.io.parsers import Parsed, html

GAP = "\n\n"


def words(text: str) -> str:
    """The text on one line, white space as a browser shows it."""
    return " ".join(text.split())


def page(source: str) -> Parsed:
    """What a web page of this source holds; the title and language of its head as metadata."""
    parsed = next(html.parse(source.encode("utf-8", "replace"), "", {}))
    return parsed._replace(metadata={k: v for k, v in parsed.metadata.items() if k not in ("encoding", "repaired")})


def joined(pages: Iterable[Parsed]) -> Parsed:
    """The pages that hold a text as one, a blank line between them, their blocks moved along."""
    texts, blocks, at = list[str](), list[Block](), 0
    for parsed in pages:
        if not parsed.text.strip():
            continue
        blocks += [moved(block, at) for block in parsed.blocks] if at else parsed.blocks
        texts.append(parsed.text)
        at += len(parsed.text) + len(GAP)
    return Parsed(GAP.join(texts), tuple(blocks))


def moved(block: Block, by: int) -> Block:
    """The block, so many characters further on."""
    span, parts = block.span, block.parts
    return block._replace(span=Span(span[0] + by, span[1] + by), parts=tuple(Span(a + by, b + by) for a, b in parts))


def deeper(parsed: Parsed, by: int) -> Parsed:
    """The page with its headings so many levels further down."""
    return parsed._replace(blocks=tuple(b._replace(level=b.level + by) if b.kind == "heading" else b for b in parsed.blocks))
