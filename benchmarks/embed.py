"""How fast chunks become vectors: against sentence-transformers' `encode`, and against the model's bare forward passes.

    python benchmarks/embed.py                     # make bench-embed
    python benchmarks/embed.py --device cuda       # make gpu-check, behind the tests that are marked `gpu`
    python benchmarks/embed.py --text FOLDER --texts 2000 --rounds 3 --dtypes bfloat16
    python benchmarks/embed.py --end-to-end 4      # instead a whole run of the job, over so many copies of the texts

(a) `encode` called once for each document, (b) `encode` on all texts at once, (c) the forward passes alone, over batches that
are sorted, packed, padded and on the device already: what no program can beat. Real tokens a second of one core's time (of the
clock's on a card), best of the rounds, which take turns. Padding is the share of computed tokens that are none.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chunkmill.chunkers.api import chunk
from chunkmill.jobs import windows
from chunkmill.jobs.models import resolve
from chunkmill.jobs.transformer import SentenceTransformersModel

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "open"
ALL = 20_000  # texts whose padding is told
NAMES = ("*.md", "*.txt", "*.rst", "*.py", "*.csv")


class Load(NamedTuple):
    """Texts to embed, and the document of each."""

    name: str
    texts: list[str]
    owner: list[int]

    def documents(self) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        for text, owner in zip(self.texts, self.owner, strict=True):
            found.setdefault(owner, []).append(text)
        return list(found.values())


def documents(folder: Path, most: int) -> list[str]:
    """Texts of a folder, none more than 200,000 characters long; made-up ones where there is no folder."""
    files = sorted(f for name in NAMES for f in folder.rglob(name) if f.stat().st_size > 1_000) if folder.is_dir() else []
    if not files:
        rng, words = np.random.default_rng(0), [f"word{i}" for i in range(2_000)]
        return [" ".join(f"{' '.join(rng.choice(words, rng.integers(3, 40)))}." for _ in range(60)) for _ in range(most)]
    texts = [f.read_text("utf-8", "replace")[:200_000] for f in files]
    return [text for text in texts if text.strip()][:most]


def load(name: str, docs: Sequence[str], size: int, strategy: str, most: int) -> Load:
    """Chunks of so many characters at most, evenly out of all documents."""
    pairs = [(c.text, i) for i, doc in enumerate(docs) for c in chunk(doc, strategy, size=size, unit="chars")]
    kept = [pairs[i] for i in sorted(np.random.default_rng(1).permutation(len(pairs))[:most])]
    return Load(name, [text for text, _ in kept], [owner for _, owner in kept])


def best(rounds: int, works: Sequence[Callable[[], Any]], settle: Callable[[], None] | None) -> list[float]:
    """The least seconds of each over the rounds. Without a device to settle, of this process: others may be at work here."""
    clock = time.perf_counter if settle else time.process_time
    took: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for mine, work in zip(took, works, strict=True):
            began = clock()
            work()
            if settle:
                settle()
            mine.append(clock() - began)
    return list(map(min, took))


class Bench:
    """One model on one device in one dtype, and sentence-transformers' own object beside it."""

    def __init__(self, name: str, device: str, dtype: str, rounds: int) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        ref = resolve(name)
        threads = None if device.startswith("cuda") else 1
        self.model = SentenceTransformersModel(ref, device=device, threads=threads, dtype=dtype, overflow="truncate")
        self.peer = SentenceTransformer(ref.path, device=device, local_files_only=True)
        self.rounds = rounds
        self.settle = torch.cuda.synchronize if device.startswith("cuda") else None

    def sequences(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.model.windows(ids)[0] for ids in self.model.tokens.ids(texts)]

    def padding_of(self, lengths: Sequence[int]) -> float:
        """The share of padding where texts of so many tokens are embedded at once; nothing is computed."""
        order = np.argsort([-n for n in lengths], kind="stable")
        batches = self.model.batches([range(n) for n in lengths], order)
        return self.padding([[lengths[i] for i in batch] for batch in batches])

    def padding(self, batches: Sequence[Sequence[int]]) -> float:
        """The share of padding where these lengths are computed together."""
        computed = sum(max(batch) * len(batch) for batch in batches)
        return 1 - sum(map(sum, batches)) / computed

    def run(self, work: Load) -> list[tuple[str, float, float | None]]:
        """Name, real tokens a second and padding of each way."""
        import torch

        ids = self.model.tokens.ids(work.texts)
        sequences = [self.model.windows(part)[0] for part in ids]
        lengths = [len(s) for s in sequences]
        total = sum(lengths)
        order = np.argsort([-n for n in lengths], kind="stable")
        packed = list(self.model.batches(sequences, order))
        features = [self.model.features([sequences[i] for i in batch]) for batch in packed]
        per_document = work.documents()
        by_chars = sorted(range(len(work.texts)), key=lambda i: -len(work.texts[i]))

        def bare() -> None:
            with torch.inference_mode():
                for batch in features:
                    self.model.pool(batch)

        ways: list[tuple[str, Callable[[], Any], float | None]] = [
            ("(a) encode, a document at a time", lambda: [self.peer.encode(texts) for texts in per_document], None),
            (
                "(b) encode, all at once",
                lambda: self.peer.encode(work.texts),
                self.padding([[lengths[j] for j in by_chars[i : i + 32]] for i in range(0, len(by_chars), 32)]),
            ),
            ("(c) bare forward passes", bare, None),
            ("chunkmill, from ids", lambda: self.model.read((), ids), self.padding([[lengths[i] for i in b] for b in packed])),
            ("chunkmill, from texts", lambda: self.model.embed(work.texts), None),
        ]
        took = best(self.rounds, [call for _, call, _ in ways], self.settle)
        return [(name, total / seconds, share) for (name, _, share), seconds in zip(ways, took, strict=True)]

    def late(self, docs: Sequence[str], size: int = 400) -> tuple[float, float]:
        """Document tokens a second, plain and late, over the same chunks."""
        readings, parts, total = [], list[list[int]](), 0
        for doc in docs:
            ids, starts = self.model.tokens.located(doc)
            chunks = chunk(doc, "recursive", size=size, unit="chars")
            spans = windows.spans(starts, np.array([(c.start, c.end) for c in chunks], np.int64).reshape(-1, 2))
            readings.append(windows.Reading(ids, spans))
            parts += self.model.tokens.ids([c.text for c in chunks])
            total += len(ids)
        plain, late = best(self.rounds, [lambda: self.model.read((), parts), lambda: self.model.late(readings)], self.settle)
        return total / plain, total / late


def agreement(one: SentenceTransformersModel, other: SentenceTransformersModel, texts: Sequence[str]) -> tuple[float, float]:
    """The least cosine between two ways of making the same vectors, and the share of the ten nearest that both name."""
    a, b = one.embed(texts), other.embed(texts)
    near = [np.argsort(-(v @ v.T), axis=1)[:, 1:11] for v in (a, b)]
    same = [len(set(x) & set(y)) / 10 for x, y in zip(*near, strict=True)]
    return float((a * b).sum(axis=1).min()), float(np.mean(same))


def end_to_end(docs: Sequence[str], copies: int, cpus: int | None) -> None:
    """A whole run of the job: its wall time, and the share of it that the actors spent inside forward passes."""
    from chunkmill.jobs import cluster, pipeline
    from chunkmill.jobs.config import load as job_of

    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/in")
        for i in range(copies):
            for j, doc in enumerate(docs):
                lines = (f"{i}: {line}" if line.strip() else line for line in doc.splitlines())  # or it would be known
                Path(folder, "in", f"{i}-{j}.txt").write_text("\n".join(lines))
        job = job_of({"input": f"{folder}/in", "output": f"{folder}/out", "run": {"cpus": cpus}})
        seen: dict[str, float] = {}
        cluster.connect(cpus)
        summary = pipeline.run(job, lambda summary, plan: seen.update(summary.seen))
        forward, stage = seen["forward_seconds"], seen["embed_seconds"]
        print(f"\nend to end: {summary.chunks:,} chunks in {summary.seconds:.0f} s, {dict(+summary.vectors)}")
        print(f"  the actors, each from its first batch to its last: {forward:.0f} of {stage:.0f} s in forward passes")
        print(f"  a share of {forward / stage:.1%}; seconds of all stages: {summary.took}")


def told(bench: Bench, work: Load, everything: Sequence[str]) -> None:
    """Print how fast each way is over a load, and the padding in larger ones."""
    found = bench.run(work)
    model, mean = bench.model, sum(map(len, bench.sequences(work.texts))) / len(work.texts)
    print(f"\n{model.dtype}, {len(work.texts):,} {work.name} of {mean:.0f} tokens, batches of {model.tokens_per_batch:,}")
    for name, rate, padding in found:
        print(f"  {name:<34}{rate:>10,.0f} tokens/s" + ("" if padding is None else f"  padding {padding:.1%}"))
    rates = {name: rate for name, rate, _ in found}
    ours = rates["chunkmill, from ids"]
    print("  chunkmill to " + ", ".join(f"{name[:3]} {ours / rate:.2f}" for name, rate, _ in found[:3]))
    lengths = list(map(len, bench.sequences(everything)))
    for n in sorted({min(n, len(lengths)) for n in (1_000, 5_000, len(lengths))}):
        print(f"  padding of {n:,} at once: {bench.padding_of(lengths[:: len(lengths) // n][:n]):.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=CORPUS, help="a folder with texts")
    parser.add_argument("--texts", type=int, default=300, help="how many chunks; four times as many sentences")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--end-to-end", type=int, default=0, metavar="COPIES", help="only a whole run over so many copies")
    options = parser.parse_args()
    docs = documents(options.text, 400)
    if options.end_to_end:
        end_to_end(docs[:60], options.end_to_end, None if options.device.startswith("cuda") else 2)
        return
    ways = {"chunks": (800, "recursive"), "sentences": (160, "sentence")}
    every = {name: load(name, docs, *way, ALL) for name, way in ways.items()}
    loads = [
        load("chunks", docs, *ways["chunks"], options.texts),
        load("sentences", docs, *ways["sentences"], options.texts * 4),
    ]
    if options.device.startswith("cuda"):
        import torch

        print(torch.cuda.get_device_name(0))
    models = {}
    for dtype in options.dtypes:
        bench = Bench(options.model, options.device, dtype, options.rounds)
        models[dtype] = bench.model
        for work in loads:
            told(bench, work, every[work.name].texts)
        plain, late = bench.late([doc[:12_000] for doc in docs[:: max(1, len(docs) // 12)]])
        print(f"\n{dtype}, late pooling: {late:,.0f} tokens/s, {late / plain:.2f} of plain")
    if len(models) == 2:
        cosine, same = agreement(*models.values(), [*loads[0].texts[:500], *loads[1].texts[:500]])
        print(f"\nbfloat16 and float32: least cosine {cosine:.5f}, {same:.1%} of the ten nearest are the same")


if __name__ == "__main__":
    main()
