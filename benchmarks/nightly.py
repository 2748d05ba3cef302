"""What a night costs in which 1% of the documents changed: against the run that made the dataset.

    python benchmarks/nightly.py                   # make bench-nightly: 100,000 documents, no vectors, then with vectors
    python benchmarks/nightly.py --documents 20000 --only vectors

Each run is a process of its own, Ray's start included. Of the changed documents four in ten get a new sentence, four are new
and two are gone. What a run must not do is checked as well: chunks whose text is as it was keep their id and their vector.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
from peak import WORDS

from chunkmill.io import table
from chunkmill.io.corpus import list_sources

FOLDER_FILES = 1_000
SENTENCES = 8


def write(root: Path, number: int, version: int = 0) -> Path:
    """A document of about half a KB; another version has one more sentence."""
    rng = np.random.default_rng((number, 7))
    sentences = [f"{' '.join(rng.choice(WORDS.split(), 9)).capitalize()} {number}-{i}." for i in range(SENTENCES)]
    if version:
        sentences.insert(2, f"Corrected on night {version}.")
    path = root / f"{number // FOLDER_FILES:04}" / f"{number:07}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(" ".join(sentences))
    return path


def changed(root: Path, documents: int, night: int) -> None:
    """One in a hundred documents changes, comes or goes."""
    rng = np.random.default_rng(night)
    several = rng.permutation(documents)[: documents // 100]
    edited, gone = several[: len(several) * 2 // 3], several[len(several) * 2 // 3 :]
    for number in edited.tolist():
        write(root, number, night)
    for number in gone.tolist():
        (root / f"{number // FOLDER_FILES:04}" / f"{number:07}.txt").unlink(missing_ok=True)
    for number in range(documents, documents + len(edited)):
        write(root, number)


def run(root: Path, out: Path, arguments: Sequence[str]) -> tuple[float, dict[str, Any]]:
    """Seconds of the clock for the command, and what it says of itself."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "chunkmill.jobs", "run", str(root), str(out), "--json", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began, json.loads(done.stdout)


def state(out: Path, *, vectors: bool) -> dict[tuple[str, str], tuple[str, bytes]]:
    """Of each chunk, by document and text: its id, and a digest of its vector."""
    columns = ["doc_id", "text", "chunk_id", *(["vector"] if vectors else [])]
    found: dict[tuple[str, str], tuple[str, bytes]] = {}
    for batch in table.batches(str(out), "chunks", columns):
        for row in pa.table(batch).to_pylist():
            vector = hashlib.blake2b(np.asarray(row.get("vector") or [], np.float32).tobytes(), digest_size=8).digest()
            found[row["doc_id"], row["text"]] = row["chunk_id"], vector
    return found


def listing_s(root: Path) -> float:
    """Seconds to list the folder."""
    began = time.perf_counter()
    assert sum(map(len, list_sources(str(root))))
    return time.perf_counter() - began


def written_bytes(out: Path) -> tuple[int, int]:
    """Of both tables: bytes that their last commits added, and bytes in all."""
    added = total = 0
    for name in ("chunks", "documents"):
        known = deltalake.DeltaTable(str(out / name))
        log = out / name / "_delta_log" / f"{known.version():020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        added += sum(a["add"]["size"] for a in actions if "add" in a)
        total += sum(known.get_add_actions(flatten=True)["size_bytes"].to_pylist())
    return added, total


def measure(root: Path, out: Path, documents: int, arguments: Sequence[str], *, vectors: bool) -> None:
    """Both runs, and what they say."""
    title = "with vectors" if vectors else "without vectors"
    full_s, first = run(root, out, arguments)
    print(f"{title}: full run {full_s:.1f} s, {first['documents']}, {first['chunks']:,} chunks", flush=True)
    before = state(out, vectors=vectors)
    changed(root, documents, 1)
    night_s, second = run(root, out, arguments)
    added, total = written_bytes(out)
    again_s, _ = run(root, out, arguments)
    after = state(out, vectors=vectors)
    both = before.keys() & after.keys()
    kept = sum(before[key] == after[key] for key in both)
    files_s = listing_s(root)
    print(f"  the night after: {night_s:.1f} s = {night_s / full_s:.1%} of it; {second['sources']}")
    print(f"  less the listing ({files_s:.1f} s each): {(night_s - files_s) / (full_s - files_s):.1%}")
    print(f"  a night without changes: {again_s:.1f} s = {again_s / full_s:.1%}")
    print(f"  rewritten: {added / 1e6:.1f} of {total / 1e6:.1f} MB; vectors {second['vectors']}")
    print(f"  chunks with the same text and document: {len(both):,}; with the same id and vector: {kept:,}", flush=True)
    if kept != len(both):
        sys.exit("a chunk that did not change has another id or vector")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--only", choices=("chunks", "vectors"))
    given = parser.parse_args()
    for kind, arguments in {"chunks": ["--no-embed"], "vectors": []}.items():
        if given.only in (None, kind):
            with tempfile.TemporaryDirectory(prefix="chunkmill-nightly-") as folder:
                root = Path(folder) / "corpus"
                for number in range(given.documents):
                    write(root, number)
                print(f"{given.documents:,} documents; listed in {listing_s(root):.2f} s", flush=True)
                measure(root, Path(folder) / "out", given.documents, arguments, vectors=kind == "vectors")


if __name__ == "__main__":
    main()
