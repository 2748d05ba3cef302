"""Ids out of content: the same text in the same document is the same chunk, in every run and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def identities(doc_id: str, levels: Sequence[int], texts: Sequence[str], seen: dict[str, int] | None = None) -> list[str]:
    """`chunk_id`s: a hash of the document, the level, the text and how often that text came before in the document.

    `seen` goes on from what came before, where the texts are those of a part of it; it is added to.
    """
    document = hashlib.blake2b(_sized(doc_id.encode()), digest_size=16)
    begun = {level: _behind(document, b"%d" % level) for level in set(levels)}
    seen = {} if seen is None else seen
    ids = []
    for level, text in zip(levels, texts, strict=True):
        h = begun[level].copy()
        h.update(_sized(text.encode()))
        name = h.hexdigest()
        before = seen[name] = seen.get(name, -1) + 1
        ids.append(_behind(h, b"%d" % before).hexdigest() if before else name)
    return ids


def digest(*parts: str) -> str:
    """BLAKE2b-128 of the parts, each behind its length, in hex: no two lists of parts run together."""
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        h.update(_sized(part.encode()))
    return h.hexdigest()


def _behind(begun: hashlib.blake2b, data: bytes) -> hashlib.blake2b:
    h = begun.copy()
    h.update(_sized(data))
    return h


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
