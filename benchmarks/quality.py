"""Retrieval quality of our strategies beside the peers', at about equal context: `chunkmill eval` with the peers as strategies.

    .venv/bin/python benchmarks/quality.py CORPUS QUESTIONS [--only recommended …] [arguments of chunkmill eval]

The peers run in .venv-bench (make .venv-bench/done), which has them and no model; they give spans, and everything else is the
product's own evaluation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parents[1]
PEERS = [
    ("langchain.recursive", 200),
    ("semchunk", 200),
    ("chonkie.recursive", 200),
    ("sts.text", 200),
    ("llamaindex.sentence", 200),
    ("langchain.recursive", 400),
]
OURS = {
    "recursive 200": "{strategy: recursive, size: 200, overlap: 0}",
    "recommended": str(ROOT / "examples" / "recommended.yaml"),
    "optimal 150": "{strategy: optimal, size: 150, target: 0.5, overlap: 0}",
    "optimal 400": "{strategy: optimal, size: 400, overlap: 0}",
}


@lru_cache
def given(file: str) -> dict[str, dict[str, list[list[int]]]]:
    return json.loads(Path(file).read_text("utf-8"))


@dataclass(frozen=True)
class Peer:
    """The spans that a peer gave, as a strategy."""

    peer: str = ""
    file: str = ""

    needs: ClassVar[frozenset[type]] = frozenset()
    overlaps: ClassVar[bool] = True
    covers: ClassVar[bool] = False

    def __call__(self, doc, budget):
        from chunkmill.chunkers.base import Piece, Span

        return [Piece(Span(a, b)) for a, b in given(self.file)[self.peer][Path(doc.uri).name]]


def spans(text: str, chunks: list[str]) -> list[tuple[int, int]]:
    """Where each string stands in the text, in order. Raises ValueError for one that is not of the text."""
    found, start = [], 0
    for chunk in chunks:
        at = text.find(chunk.strip(), start)
        if at < 0:
            raise ValueError(f"not of the text: {chunk[:60]!r}")
        found.append((at, at + len(chunk.strip())))
        start = at + 1
    return found


def by_peers(folder: Path) -> None:
    """Print the spans of each peer for each Markdown file, as JSON; runs in .venv-bench."""
    from contestants import peer, tiktoken_encoding

    texts = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))}
    out = {}
    for name, size in PEERS:
        cut = peer(name, size, 0, tiktoken_encoding())
        out[f"{name} {size}"] = {file: spans(text, cut(text)) for file, text in texts.items()}
    print(json.dumps(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", nargs="?")
    parser.add_argument("--only", nargs="*", help="of ours and the peers'")
    args, more = parser.parse_known_args()
    if not args.questions:
        return by_peers(args.corpus)
    python = ROOT / ".venv-bench" / "bin" / "python"
    done = subprocess.run([python, __file__, str(args.corpus)], stdout=subprocess.PIPE, check=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(done.stdout)
        file.flush()
        peers = [f"{name} {size}" for name, size in PEERS]
        known = OURS | {p: f"{{strategy: 'quality:Peer', peer: {p}, size: 8000, overlap: 0, file: {file.name}}}" for p in peers}
        chosen = [known[name] for name in args.only or known]
        sys.path.insert(0, str(Path(__file__).parent))
        from chunkmill.jobs.cli import app

        app(["eval", str(args.corpus), args.questions, "--include", "*.md", *more, "--strategies", *chosen])
    return None


if __name__ == "__main__":
    main()
