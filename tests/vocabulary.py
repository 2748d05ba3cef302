"""What many tests share: units of size that are easy to reason about, documents, and stand-ins for models."""

import hashlib

import numpy as np
from hypothesis import strategies as st

from chunkmill.chunkers import standin
from chunkmill.chunkers.base import Block, Complete, Document, Embed, Span


class Bytes:
    """One byte of UTF-8 is one token: the worst case of a byte-level encoding."""

    name = "bytes"
    specials = 0
    additive = True

    def starts(self, text):
        return np.repeat(np.arange(len(text)), [len(c.encode()) for c in text]).astype(np.int64)

    def count(self, texts):
        return [len(t.encode()) for t in texts]


def vector(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    v = np.random.default_rng(seed).normal(size=8).astype(np.float32)
    return v / np.linalg.norm(v)


ANSWERS = {Embed: lambda texts: np.stack([vector(t) for t in texts]), Complete: standin.answers}

WORDS = [
    *("alpha", "be.", "Gamma!", "d'être", "naïve", "東京。", "漢字", "한국어", "👩‍👩‍👧", "🇫🇷🇩🇪", "e\u0301\u0327\u0300", "नमस्ते"),
    *("<|endoftext|>", "[SEP]", "\u200b", "\ufb01", "a" * 40, "x=[1,2];", "Dr.", "3.14", "ไทย", "لا", "\x00", "\u2028"),
    *("- item", "| a | b |"),
]
GAPS = [" ", " ", " ", "\n", "\n\n", "\r\n", "\t", "   ", "\u3000", "\u00a0", " \n \n ", ""]

stretches = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)), max_size=30).map(
    lambda parts: "".join(a + b for a, b in parts)
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Texts with headings at any levels, paragraphs, tables, code and pages; blocks ordered and disjoint."""
    text, blocks = draw(st.sampled_from(["", "\n", "  \n\n"])), []
    page = draw(st.sampled_from([None, 1]))
    for body in draw(st.lists(stretches, max_size=6)):
        if draw(st.booleans()):
            title = draw(st.sampled_from(["Intro", "Soil pH", "標題", "A very long heading " * 4]))
            start = len(text)
            text += f"# {title}\n"
            blocks.append(Block("heading", Span(start, len(text) - 1), draw(st.integers(1, 4)), page, (), title.strip()))
        if body.strip():
            kind = draw(st.sampled_from(["paragraph", "table", "code", "list"]))
            blocks.append(Block(kind, Span(len(text), len(text) + len(body.rstrip())), 0, page))
        text += body + draw(st.sampled_from(["\n\n", "\n", " "]))
        page = page and page + draw(st.integers(0, 1))
    return Document("d", "memory", text, tuple(blocks))
