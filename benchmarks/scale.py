"""How a run's memory grows with its corpus, and what Ray costs beside a plain loop of the same functions.

    python benchmarks/scale.py                     # make bench-scale
    python benchmarks/scale.py --only rows --documents 1000000

`rows`: a tenth of the documents, then all of them, as records of JSON Lines, 1 KB each. `files`: 100,000 files in one folder.
`loop`: 200 MB of text in files through one process that calls the stages' functions one after another, and through the job on
one CPU. Memory is resident memory without what is shared, looked at twice a second, of the command and of its largest
worker; the object store is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import psutil
from peak import WORDS, Peak, watched

ROWS_A_FILE = 25_000


def run(root: Path, out: Path) -> tuple[float, Peak, dict[str, Any]]:
    """Seconds, peaks, and what the command says."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "chunkmill.jobs", "run", str(root), str(out), "--json", "--no-embed"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with watched(process.pid) as peak:
        said, _ = process.communicate()
    if process.returncode:
        sys.exit(f"the run ended with {process.returncode}")
    return time.perf_counter() - began, peak, json.loads(said)


def text(number: int, characters: int = 1_000) -> str:
    rng = np.random.default_rng(number)
    words = WORDS.split()
    return f"Entry {number}. " + " ".join(words[i] for i in rng.integers(0, len(words), characters // 6).tolist())


def records(root: Path, documents: int) -> None:
    """JSON Lines of so many documents."""
    root.mkdir(parents=True)
    for first in range(0, documents, ROWS_A_FILE):
        lines = (json.dumps({"id": str(n), "text": text(n)}) for n in range(first, min(first + ROWS_A_FILE, documents)))
        (root / f"{first:08}.jsonl").write_text("\n".join(lines))


def files(root: Path, number: int, characters: int = 1_000) -> None:
    """So many files in one folder."""
    root.mkdir(parents=True)
    for n in range(number):
        (root / f"{n:07}.txt").write_text(text(n, characters))


def told(name: str, root: Path, out: Path) -> Peak:
    """A run, in a line."""
    seconds, peak, said = run(root, out)
    made = deltalake.DeltaTable(str(out / "chunks")).get_add_actions(flatten=True)
    sizes = [size / 1e6 for size in made["size_bytes"].to_pylist()]
    print(
        f"{name}: {seconds:.0f} s, {said['documents']}, {said['chunks']:,} chunks in {len(sizes)} files of "
        f"{min(sizes):.0f} to {max(sizes):.0f} MB; peak MB: command {peak.command:.0f}, largest worker {peak.worker:.0f}, "
        f"object store {peak.store:.0f}",
        flush=True,
    )
    return peak


def rows(scratch: Path, documents: int) -> None:
    """The same job at one tenth and in full."""
    peaks = []
    for part in (documents // 10, documents):
        records(root := scratch / f"rows{part}", part)
        peaks.append(told(f"{part:,} records of 1 KB", root, scratch / f"out{part}"))
    few, many = peaks
    print(f"ten times the corpus: command {many.command / few.command:.2f}×, worker {many.worker / few.worker:.2f}×")


def folder(scratch: Path, documents: int) -> None:
    """One folder with many files."""
    files(scratch / "files", number := documents // 10)
    told(f"{number:,} files in a folder", scratch / "files", scratch / "out-files")


def loop(scratch: Path, documents: int) -> None:
    """The stages called one after another in this process, and the job on one CPU."""
    files(root := scratch / "loop", 2_000, documents // 10)
    began = time.perf_counter()
    chunks = plain_loop(root, scratch / "out-loop")
    print(f"a plain loop: {time.perf_counter() - began:.1f} s, {chunks:,} chunks", flush=True)
    for name, isolate in {"the job": True, "the job, `isolate: false`": False}.items():
        job = {"input": str(root), "output": str(scratch / f"out-{isolate}"), "embed": None}
        said = job_alone(job | {"run": {"cpus": 1, "isolate": isolate}})
        print(f"{name}: {said['seconds']:.1f} s, {said['chunks']:,} chunks", flush=True)


def job_alone(job: Mapping[str, Any]) -> dict[str, Any]:
    """What a job says that finds Ray started, with a worker that is ready."""
    code = (
        "import json, sys, ray; from chunkmill.jobs import cluster, config, pipeline, progress, stages\n"
        "cluster.connect(1); ray.get(ray.remote(lambda: 0).remote())\n"
        "print(json.dumps(progress.as_json(pipeline.run(config.load(json.loads(sys.argv[1]))))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(job)], capture_output=True, text=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def plain_loop(root: Path, out: Path) -> int:
    """The chunks that the stages' functions write when a loop calls them."""
    from chunkmill.io import parquet
    from chunkmill.jobs import config, documents
    from chunkmill.jobs import plan as plans
    from chunkmill.jobs import rows as made

    job = config.load({"input": str(root), "output": str(out), "embed": None})
    todo = plans.plan(job).todo
    chunks = 0
    for part in documents.prepared(todo.to_pylist(), job):
        cut = made.chunk_table(part, job.recipe, "loop")
        parquet.write(str(out), "chunks", cut, run_id="loop")
        parquet.write(str(out), "documents", made.document_table(part, job.recipe, "loop", keep_text=True), run_id="loop")
        chunks += len(cut)
    return chunks


PARTS = {"rows": rows, "files": folder, "loop": loop}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--documents", type=int, default=1_000_000)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GB", flush=True)
    for name in [given.only] if given.only else PARTS:
        with tempfile.TemporaryDirectory(prefix="chunkmill-scale-") as scratch:
            PARTS[name](Path(scratch), given.documents)


if __name__ == "__main__":
    main()
