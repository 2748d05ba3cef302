"""What comes out of the example corpus is pinned: a change of any chunk shows as a change of this file.

`UPDATE_GOLDEN=1 pytest tests/test_golden.py` writes it anew; look at the difference before committing it.
"""

import json
import os
from pathlib import Path

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Document
from chunkmill.io.parsers import parse

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden" / "examples.jsonl"
CUTS = {
    "recursive": chunking("recursive", size=128, overlap=16, context="headings"),
    "section": chunking("section", size=200),
    "sentence": chunking("sentence", size=64),
}


def lines():
    for path in sorted((ROOT / "examples" / "corpus").rglob("*")):
        if path.is_dir() or path.name == "damaged.pdf":
            continue
        data, name = path.read_bytes(), path.relative_to(ROOT).as_posix()
        for parsed in parse(data, name):
            yield from _cut(f"{name}#{parsed.member}", parsed)


def _cut(uri, parsed):
    doc = Document(uri, uri, parsed.text, parsed.blocks, parsed.metadata)
    for name, cut in CUTS.items():
        for c in chunk_all([doc], cut, {})[0]:
            where = {"start": c.start, "end": c.end, "page": c.page_start, "headings": " > ".join(c.heading_path)}
            yield json.dumps({"uri": uri, "cut": name, **where, "n_tokens": c.n_tokens, "id": c.id[:8]}, ensure_ascii=False)


def test_the_example_corpus_gives_the_same_chunks_as_before():
    found = list(lines())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text("\n".join(found) + "\n", encoding="utf-8")

    assert GOLDEN.read_text(encoding="utf-8").splitlines() == found
