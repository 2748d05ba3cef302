"""Ids out of content: the same text in the same document is the same chunk, in every run and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def identities(doc_id: str, levels: Sequence[int], texts: Sequence[str]) -> list[str]:
    """`chunk_id`s: a hash of the document, the level, the text and how often that text came before in the document."""
    document = hashlib.blake2b(_sized(doc_id.encode()), digest_size=16)
    begun = {level: _behind(document, b"%d" % level) for level in set(levels)}
    seen: dict[bytes, int] = {}
    ids = []
    for level, text in zip(levels, texts, strict=True):
        h = begun[level].copy()
        h.update(_sized(text.encode()))
        first = h.digest()
        before = seen[first] = seen.get(first, -1) + 1
        ids.append(_behind(h, b"%d" % before).hexdigest() if before else first.hex())
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
