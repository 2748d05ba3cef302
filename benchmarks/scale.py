"""How a run's memory grows with its corpus, and what Ray costs beside a plain loop of the same functions.

    python benchmarks/scale.py                     # make bench-scale
    python benchmarks/scale.py --only rows --documents 1000000

`rows`: a tenth of the documents, then all of them, as records of JSON Lines, 1 KB each. `files`: 100,000 files in one folder.
`loop`: 200 MB of text in files through one process that calls the job's functions one after another, and through the job on
one CPU, with Ray started: seconds of the clock, and of all CPUs together. Memory is resident memory without what is shared,
looked at twice a second, of the command and of its largest worker; the object store is told apart.
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
    """Prose of about so many characters: paragraphs of two to seven sentences of six to twenty-three words."""
    rng, words = np.random.default_rng(number), WORDS.split()
    said, size = [f"Entry {number}."], 0
    while size < characters:
        lengths = rng.integers(6, 24, rng.integers(2, 8)).tolist()
        said.append(" ".join(" ".join(words[i] for i in rng.integers(0, len(words), n)).capitalize() + "." for n in lengths))
        size += len(said[-1])
    return "\n\n".join(said)[:characters]


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
    """The job's functions called one after another in this process, and the job on one CPU; a tenth of the files, then all."""
    names = {"the job": True, "the job, `isolate: false`": False}
    took: dict[str, list[float]] = {name: [] for name in ("a plain loop", *names)}
    for number in (200, 2_000):
        files(root := scratch / f"loop{number}", number, documents // 10)
        seconds, cpu_s, chunks = plain_loop(root, scratch / f"out-loop{number}")
        print(f"a plain loop: {seconds:.1f} s, {cpu_s:.1f} s of CPU, {chunks:,} chunks", flush=True)
        took["a plain loop"].append(cpu_s)
        for name, isolate in names.items():
            job = {"input": str(root), "output": str(scratch / f"out-{number}{isolate}"), "embed": None}
            said, cpu_s = job_alone(job | {"run": {"cpus": 1, "isolate": isolate}})
            print(
                f"{name}: {said['seconds']:.1f} s, {cpu_s:.1f} s of CPU, {said['chunks']:,} chunks; {said['stages']}",
                flush=True,
            )
            took[name].append(cpu_s)
    (few, many), *jobs = took.values()
    for name, (tenth, whole) in zip(names, jobs, strict=True):
        share = (whole - tenth) / (many - few)
        print(
            f"{name}: {tenth - few * share:.1f} s of CPU whatever there is, and then {share:.2f} times the loop's", flush=True
        )


def job_alone(job: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """What a job says that finds Ray started, with a worker that is ready; and the CPU seconds of all processes meanwhile."""
    code = (
        "import json, sys, ray; from chunkmill.jobs import cluster, config, pipeline, progress, stages\n"
        "cluster.connect(1); ray.get(ray.remote(lambda: 0).remote()); print('ready', flush=True); input()\n"
        "print(json.dumps(progress.as_json(pipeline.run(config.load(json.loads(sys.argv[1]))))), flush=True); input()\n"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    equal = os.environ | {"RAY_worker_niceness": "0"}  # Ray's workers yield to whatever else the machine does; the loop doesn't
    with subprocess.Popen([sys.executable, "-c", code, json.dumps(job)], env=equal, **pipes) as process:
        next(line for line in process.stdout if line == "ready\n")
        before = cpu_seconds(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        said: dict[str, Any] = json.loads(process.stdout.readline())
        spent = cpu_seconds(process.pid) - before
        process.communicate("\n")
    return said, spent


def cpu_seconds(pid: int) -> float:
    """Of a process and its descendants, those that have ended among them."""
    command = psutil.Process(pid)
    return sum(sum(process.cpu_times()[:4]) for process in [command, *command.children(recursive=True)])


def plain_loop(root: Path, out: Path) -> tuple[float, float, int]:
    """What it takes to write and commit chunks when a loop calls the job's functions: seconds, those of CPU, the chunks."""
    from chunkmill.io import runs
    from chunkmill.jobs import config, documents, publish, stages
    from chunkmill.jobs import plan as plans
    from chunkmill.jobs.tally import Tally

    job, tally = config.load({"input": str(root), "output": str(out), "embed": None}), Tally("loop")
    began, worked = time.perf_counter(), time.process_time()
    plan = plans.plan(job)
    written = [stages.write(part, job, "loop", tally) for part in documents.prepared(plan.todo.to_pylist(), job)]
    entries = [runs.entry(json.loads(row["entry"])) for result in written for row in result.to_pylist()]
    publish.publish(job, plan, "loop", [file for entry in entries for file in entry.files])
    return time.perf_counter() - began, time.process_time() - worked, sum(entry.chunks for entry in entries)


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
