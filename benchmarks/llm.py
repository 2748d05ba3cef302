"""What asking a language model costs besides the model: 10,000 chunks of contextual retrieval against a local endpoint.

    python benchmarks/llm.py                       # make bench-llm
    python benchmarks/llm.py --chunks 2000 --concurrency 64 --delay 0.05

The endpoint, in a process of its own, answers at once (or after `--delay` seconds). Alone: the same requests by urllib3, from
as many threads, and nothing else. Ours: prompts, pace, answers kept, contexts checked and counted, in one process without
Ray; then again, where everything is known; and the whole job, twice.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Complete, Document
from chunkmill.jobs import pipeline
from chunkmill.jobs.answers import Answers
from chunkmill.jobs.config import load
from chunkmill.jobs.llm import Asker, post
from chunkmill.jobs.meter import Meter
from chunkmill.jobs.settings import LlmSettings

SENTENCE = "The keeper of light {i} writes number {j} into the log and trims the wick before the boat comes back with oil. "
PER_DOCUMENT = 20


def texts(chunks: int) -> list[str]:
    """Documents of about twenty chunks of 60 tokens."""
    size = PER_DOCUMENT * 2
    number = -(-chunks // PER_DOCUMENT)
    return ["\n\n".join(SENTENCE.format(i=i, j=j) + SENTENCE.format(i=j, j=i) for j in range(size // 2)) for i in range(number)]


def serve(delay_s: float, pipe: Any) -> None:
    from endpoint_stub import Reply, served

    with served(lambda prompt, before: Reply('{"context": "From the log of a keeper of the light."}', delay_s=delay_s)) as stub:
        pipe.send(stub.url)
        pipe.recv()


@contextmanager
def endpoint(delay_s: float) -> Iterator[str]:
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(delay_s, theirs), daemon=True)
    process.start()
    try:
        yield mine.recv()
    finally:
        mine.send("end")
        process.join(5)
        process.kill()


def settled(chunks: int, url: str, concurrency: int) -> LlmSettings:
    return LlmSettings(base_url=url, model="stub-1", concurrency=concurrency, timeout_s=60)


def bare(settings: LlmSettings, prompts: Sequence[str]) -> float:
    """Seconds of the clock for the requests alone."""
    http = urllib3.PoolManager(maxsize=settings.concurrency, retries=False)
    began = time.perf_counter()
    with ThreadPoolExecutor(settings.concurrency) as threads:
        list(threads.map(lambda p: post(http, settings, p), prompts))
    return time.perf_counter() - began


def ours(settings: LlmSettings, docs: Sequence[Document], root: str) -> dict[str, Any]:
    """The same by way of the strategy, the meter and the answers that are kept."""
    meter = Meter(settings)
    cutting = chunking("recursive", size=100, context="llm")
    cpu, began = time.process_time(), time.perf_counter()
    ask = Asker(settings, meter, Answers(root), settings.concurrency)
    with ThreadPoolExecutor(64) as threads:
        cut = list(threads.map(lambda doc: chunk_all([doc], cutting, {Complete: ask})[0], docs))
    ask.answers.flush()
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    chunks = [c for outcome in cut for c in outcome]
    assert all(c.context for c in chunks)
    return meter.read() | {"chunks": len(chunks), "seconds": seconds, "cpu_s": used}


def prompts_of(docs: Sequence[Document]) -> list[str]:
    asked: list[str] = []

    def answer(prompts: Sequence[str]) -> list[str]:
        asked.extend(prompts)
        return ['{"context": "Here."}'] * len(prompts)

    chunk_all(docs, chunking("recursive", size=100, context="llm"), {Complete: answer})
    return asked


def job(folder: Path, root: Path, settings: LlmSettings) -> dict[str, Any]:
    given = {
        "input": str(folder),
        "output": str(root),
        "embed": None,
        "chunk": {"strategy": "recursive", "size": 100, "overlap": 0, "context": "llm"},
        "llm": settings.model_dump(mode="json"),
    }
    began = time.perf_counter()
    summary = pipeline.run(load(given))
    return summary.llm | {"chunks": summary.chunks, "seconds": time.perf_counter() - began}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chunks", type=int, default=10_000)
    options.add_argument("--concurrency", type=int, default=16)
    options.add_argument("--delay", type=float, default=0.0)
    options.add_argument("--no-job", action="store_true")
    given = options.parse_args()
    written = texts(given.chunks)
    docs = [Document(str(i), "", text) for i, text in enumerate(written)]
    with endpoint(given.delay) as url, tempfile.TemporaryDirectory() as folder:
        settings = settled(given.chunks, url, given.concurrency)
        prompts = prompts_of(docs)
        alone = bare(settings, prompts)
        report("requests alone", len(prompts), alone)
        for name in ("ours, first", "ours, second"):
            found = ours(settings, docs, f"{folder}/answers")
            report(name, found["chunks"], found["seconds"], found)
        if not given.no_job:
            corpus = Path(folder) / "corpus"
            corpus.mkdir()
            for i, text in enumerate(written):
                (corpus / f"{i}.txt").write_text(text)
            for name, out in (("job, first", "out"), ("job, second", "out2")):
                root = Path(folder) / out
                if out == "out2":
                    root.mkdir()
                    (Path(folder) / "out" / "_answers").rename(root / "_answers")
                found = job(corpus, root, settings)
                report(name, found["chunks"], found["seconds"], found)


def report(name: str, number: int, seconds: float, found: dict[str, Any] | None = None) -> None:
    line = f"{name:16} {number:7,} in {seconds:7.1f} s  {1000 * seconds / number:6.2f} ms each"
    if found:
        cpu = f"  {1000 * found['cpu_s'] / number:5.2f} ms of CPU each" if "cpu_s" in found else ""
        line += f"{cpu}  calls {found.get('calls', 0):,}  known {found.get('cached', 0):,}"
    print(line, flush=True)


if __name__ == "__main__":
    main()
