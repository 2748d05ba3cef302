"""One document of 2 GB: that it comes through, how long it takes, and what memory.

    python benchmarks/large.py                       # make bench-large: a text of 2 GB, no vectors
    python benchmarks/large.py --mb 200 --format csv

The run is a process of its own. Memory is sampled each half second over all processes below it, without what is shared: the
largest one, and the sum. Afterwards the chunks are held against the text: each is a slice of it, together
they cover it, parts meet without a gap, and the ledger has one row with their sums.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from peak import WORDS, Peak, watched

from chunkmill.io import table

SENTENCES = 20_000  # of which paragraphs are made
BLOCK = 1 << 20  # characters written at once


def paragraphs(kind: str, size: int) -> Iterator[str]:
    """Paragraphs (rows, functions) of so many characters in all; each has a number of its own."""
    rng, words = random.Random(7), WORDS.split()
    sentences = [" ".join(rng.choices(words, k=11)).capitalize() + "." for _ in range(SENTENCES)]
    yield {"csv": "number,keeper,place,remark\n", "md": "# The log\n\n"}.get(kind, "")
    written = number = 0
    while written < size:
        number += 1
        said = rng.sample(sentences, 5)
        if kind == "csv":
            text = f'{number},{words[number % 39]},{words[number % 37]},"{number % 7}, {said[0]}"\n'
        elif kind == "py":
            text = f"def light_{number}(n):\n    {words[number % 39]} = n + {number}\n    return {said[0]!r}\n\n\n"
        else:
            heading = f"## Night {number}\n\n" if kind == "md" and number % 20 == 1 else ""
            text = f"{heading}{' '.join(said)} {number}\n\n"
        written += len(text)
        yield text


def write(path: Path, kind: str, size: int) -> None:
    """A file of about so many bytes, all of them ASCII."""
    with path.open("w", encoding="ascii") as file:
        held: list[str] = []
        length = 0
        for text in paragraphs(kind, size):
            held.append(text)
            length += len(text)
            if length >= BLOCK:
                file.write("".join(held))
                held, length = [], 0
        file.write("".join(held))


def run(source: Path, out: Path, settings: dict[str, Any]) -> tuple[float, Peak, dict[str, Any]]:
    """Seconds of the clock, memory, and what the run says of itself."""
    job = out.parent / "job.yaml"
    limits = {"max_file_bytes": 4 << 30, "max_inflated_bytes": 4 << 30}
    job.write_text(yaml.safe_dump({"input": str(source), "output": str(out), "embed": None, "run": limits} | settings))
    command = [sys.executable, "-m", "chunkmill.jobs", "run", str(job), "--no-embed", "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    with watched(process.pid) as peak:
        said, _ = process.communicate()
    if process.returncode:
        sys.exit(f"the run ended with {process.returncode}")
    return time.perf_counter() - began, peak, json.loads(said.splitlines()[-1])


def check(source: Path, out: Path) -> str:
    """What is to be said of the chunks, once they are true to the text, cover it, and agree with the ledger."""
    text = source.read_bytes()  # ASCII: an offset is that of a byte
    ledger = table.read(str(out), "documents").to_pylist()
    assert [row["status"] for row in ledger] == ["ok"], [(row["status"], row["error"]) for row in ledger]
    starts, ends, ordinals, tokens = [], [], [], 0
    for batch in table.batches(str(out), "chunks", ["start", "end", "ordinal", "n_tokens", "text"]):
        for start, end, slice_ in zip(*(batch[name].to_pylist() for name in ("start", "end", "text")), strict=True):
            assert text[start:end] == slice_.encode(), f"{start}: not a slice"
        starts.append(np.asarray(batch["start"]))
        ends.append(np.asarray(batch["end"]))
        ordinals.append(np.asarray(batch["ordinal"]))
        tokens += int(np.asarray(batch["n_tokens"], np.int64).sum())
    order = np.argsort(np.concatenate(starts))
    begin, end, ordinal = (np.concatenate(column)[order] for column in (starts, ends, ordinals))
    assert (ordinal == np.arange(len(ordinal))).all(), "ordinals don't run from 0 on"
    assert (np.diff(end) > 0).all(), "ends go back"
    reached = np.concatenate([[0], end])
    for a, b in zip(reached.tolist(), [*begin.tolist(), len(text)], strict=True):
        assert a >= b or not text[a:b].strip(), f"text is lost at {a}: {text[a:b][:40]!r}"
    assert (ledger[0]["n_chunks"], ledger[0]["n_tokens"]) == (len(begin), tokens)
    ids = pa.concat_tables(map(pa.Table.from_batches, ([b] for b in table.batches(str(out), "chunks", ["chunk_id"]))))
    assert len(ids["chunk_id"].unique()) == len(begin), "a chunk_id comes twice"
    sizes = [file.size for file in table.active(str(out), "chunks")]
    files = f"{len(sizes)} files of {min(sizes) >> 20:,} to {max(sizes) >> 20:,} MB"
    return f"{len(begin):,} chunks with {tokens:,} tokens in {files}; ledger: {ledger[0]['parser']}"


def large(mb: int = 2048, kind: str = "txt", settings: dict[str, Any] | None = None) -> None:
    """Write such a document, chunk it, check it, and say what it took."""
    with tempfile.TemporaryDirectory(prefix="chunkmill-large-") as folder:
        source, out = Path(folder) / f"large.{kind}", Path(folder) / "out"
        write(source, kind, mb << 20)
        size = source.stat().st_size
        took, peak, summary = run(source, out, settings or {})
        print(f"{kind}: {size / 1e6:,.0f} MB in {took:.0f} s ({size / 1e6 / took:.1f} MB/s); {summary['documents']}")
        print(f"  MB: largest worker {peak.worker:,.0f}, all {peak.together:,.0f}, object store {peak.store:,.0f}", flush=True)
        print(f"  {check(source, out)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=2048)
    parser.add_argument("--format", choices=("txt", "md", "csv", "py"), default="txt")
    parser.add_argument("--strategy", default="recursive")
    given = parser.parse_args()
    large(given.mb, given.format, {"chunk": {"strategy": given.strategy}})


if __name__ == "__main__":
    main()
