"""How fast chunks are cut: ours against the peers, from their packages, on one core and on text never seen before.

    python benchmarks/chunk.py                       # make bench-chunk
    python benchmarks/chunk.py --sets prose --only langchain --overlap 64
    python benchmarks/chunk.py --linear              # seconds per MB at 1, 10 and 100 MB, and memory

Each contestant lives in a process of its own, with its own tokenizer, warmed up on other text. They take turns, slice by
slice, each slice once: caches make a second pass up to ten times faster. CPU time, medians over the slices. What ours
returned is checked in the same run: counts, offsets, limit, lost text.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing as mp
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import contestants as who

SLICE, WARM = 400_000, 1_500_000  # bytes: of a slice, and of the text kept for warming up
WARMED = 4  # one text in so many of those is used

# Ours ≥ so many times the peer, on Latin text and on CJK: what DESIGN's numbers ask for. One pass: the share of it.
TARGETS: dict[str, dict[str, tuple[float, float]]] = {
    who.FAST: {
        "langchain.recursive": (12, 8),
        "semchunk": (12, 10),
        "sts.text": (12, 12),
        "sts.markdown": (15, 15),
        "llamaindex.sentence": (20, 12),
        "chonkie.recursive": (5, 3.5),
        "chonkie.token": (6, 4),
        "chonkie.sentence": (8, 6),
        "chonkie.recursive [tokie]": (1.5, 1.5),
        "one pass" + who.FAST: (0.7, 0.7),
    },
    who.SLOW: {
        "langchain.recursive": (2.8, 2.8),
        "semchunk": (3, 3),
        "llamaindex.sentence": (4.5, 4.5),
        "chonkie.recursive": (1.2, 1.2),
        "one pass" + who.SLOW: (0.9, 0.9),
    },
}
ALIKE = (  # the same idea on both sides
    ("fixed", "langchain.token"),
    ("fixed", "chonkie.token"),
    ("sentence", "chonkie.sentence"),
    ("sentence", "llamaindex.sentence"),
)


class Faults(NamedTuple):
    """What was wrong with ours."""

    chunks: int = 0
    counts: int = 0
    offsets: int = 0
    over: int = 0
    lost: int = 0

    def plus(self, other: Faults) -> Faults:
        return Faults(*(a + b for a, b in zip(self, other, strict=True)))


def slices(texts: Sequence[str], most: int) -> tuple[list[str], list[list[str]]]:
    """Text for warming up, and slices of unseen text."""
    warm: list[str] = []
    found: list[list[str]] = [[]]
    size = 0
    for text in texts:
        n = len(text.encode())
        if size < WARM:
            warm.append(text)
        else:
            if (size - WARM) // SLICE >= len(found):
                found.append([])
            found[-1].append(text)
        size += n
    return warm[::WARMED], [s for s in found[:most] if s]


def work(name: str, arguments: argparse.Namespace, sets: dict[str, Path], pipe: Connection) -> None:
    """A contestant's process: says what is wrong with it or None, then answers (set, slice) by (bytes, seconds, faults)."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        function = who.contestant(name, arguments.size, arguments.overlap)
        data = {s: slices(who.load(path), arguments.slices) for s, path in sets.items()}
        for warm, _ in data.values():
            function(warm)
    except Exception as error:  # a peer that isn't installed, or that fails: the others go on
        pipe.send(f"{type(error).__name__}: {error}"[:200])
        return
    pipe.send(None)
    while (ask := pipe.recv()) is not None:
        texts = data[ask[0]][1][ask[1]]
        gc.collect()
        gc.disable()
        began = time.process_time()
        result = function(texts)
        seconds = time.process_time() - began
        gc.enable()
        faults = faults_of(texts, result, arguments.size) if name.startswith("ours.") else Faults()
        pipe.send((sum(len(t.encode()) for t in texts), seconds, faults))


def faults_of(texts: Sequence[str], result: Sequence[Any], size: int) -> Faults:
    """Our chunks, held against tiktoken and against the text."""
    ordinary = who.tiktoken_encoding().encode_ordinary
    found = Faults()
    for text, chunks in zip(texts, result, strict=True):
        covered = bytearray(len(text))
        for c in chunks:
            covered[c.start : c.end] = b"\1" * (c.end - c.start)
        counts = [len(ordinary(c.embedded)) for c in chunks]
        found = found.plus(
            Faults(
                len(chunks),
                sum(c.n_tokens != n for c, n in zip(chunks, counts, strict=True)),
                sum(text[c.start : c.end] != c.text for c in chunks),
                sum(n > size and len(c.text) > 1 for c, n in zip(chunks, counts, strict=True)),
                sum(not seen and not ch.isspace() for seen, ch in zip(covered, text, strict=True)),
            )
        )
    return found


def names(only: str) -> list[str]:
    """The contestants: all of ours, one pass of each tokenizer, and the peers asked for."""
    ours = [f"ours.{s}{t}" for s in who.OURS for t in (who.FAST, who.SLOW)]
    return [
        "one pass" + who.FAST,
        "one pass" + who.SLOW,
        *ours,
        *(p for p in who.PEERS if not only or any(o in p for o in only.split(","))),
    ]


def race(arguments: argparse.Namespace, sets: dict[str, Path]) -> tuple[dict[str, dict[str, float]], dict[str, Faults]]:
    """Median MB/s by set and contestant, and the faults of ours."""
    spawn = mp.get_context("spawn")
    live: dict[str, Connection] = {}
    for name in names(arguments.only):
        here, there = spawn.Pipe()
        spawn.Process(target=work, args=(name, arguments, sets, there), daemon=True).start()
        live[name] = here
    for name, why in [(n, pipe.recv()) for n, pipe in live.items()]:
        if why:
            print(f"left out {name}: {why}", file=sys.stderr)
            del live[name]
    speeds: dict[str, dict[str, float]] = {}
    faults = {n: Faults() for n in live if n.startswith("ours.")}
    for s, path in sets.items():
        seen: dict[str, list[float]] = {n: [] for n in live}
        for i in range(len(slices(who.load(path), arguments.slices)[1])):
            for name, pipe in live.items():
                pipe.send((s, i))
                size, seconds, found = pipe.recv()
                seen[name].append(size / 1e6 / seconds)
                if name in faults:
                    faults[name] = faults[name].plus(found)
        speeds[s] = {n: statistics.median(v) for n, v in seen.items() if v}
    for pipe in live.values():
        pipe.send(None)
    return speeds, faults


def report(speeds: dict[str, dict[str, float]], faults: dict[str, Faults], arguments: argparse.Namespace) -> None:
    """Markdown tables."""
    sets = list(speeds)
    first = speeds[sets[0]]
    print(f"{who.versions()}\n")
    print(f"## MB/s of CPU time, {arguments.size} tokens of {who.ENCODING}, overlap {arguments.overlap}, unseen text\n")
    table(
        ["", *sets], [[n, *(f"{speeds[s][n]:.1f}" for s in sets)] for n in sorted(first, key=first.__getitem__, reverse=True)]
    )
    for suffix, targets in TARGETS.items():
        mine = f"ours.recursive{suffix}"
        if mine not in first:
            continue
        print(f"\n## {mine} / peer (target)\n")
        rows = [[n, *(ratio(speeds[s], mine, n, targets.get(n), s) for s in sets)] for n in first if not n.startswith("ours.")]
        table(["", *sets], rows)
        print(f"\n## like with like{suffix}\n")
        pairs = [(f"ours.{a}{suffix}", b) for a, b in ALIKE if b in first and f"ours.{a}{suffix}" in first]
        table(["", *sets], [[f"{a} / {b}", *(ratio(speeds[s], a, b, None, s) for s in sets)] for a, b in pairs])
    print("\n## Ours, checked against tiktoken and the text\n")
    table(
        ["", "chunks", "wrong counts", "wrong offsets", "over the limit", "lost characters"],
        [[n, *map(str, found)] for n, found in faults.items()],
    )


def ratio(speed: dict[str, float], mine: str, theirs: str, target: tuple[float, float] | None, name: str) -> str:
    value = speed[mine] / speed[theirs]
    if target is None:
        return f"{value:.2f}"
    wanted = target[1] if name == "cjk" else target[0]
    return f"{value:.2f} ({'≥' if value >= wanted else 'MISSED'} {wanted:g})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table, aligned for reading as text."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, ["-" * w for w in widths], *rows):
        print("| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |")
    sys.stdout.flush()


# --- linear: seconds per MB as the document grows


class Shape(NamedTuple):
    """A kind of document that grows, and the strategies that meet it."""

    make: Callable[[int, Path], Any]
    strategies: tuple[str, ...]


def prose(size: int, folder: Path) -> Any:
    return _plain(_filled(size, folder, ("prose", "peps", "markdown")))


def one_line(size: int, folder: Path) -> Any:
    return _plain(" ".join(_filled(size, folder, ("prose", "peps", "markdown")).split()))


def one_word(size: int, folder: Path) -> Any:
    return _plain("".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=size)))


def cjk(size: int, folder: Path) -> Any:
    return _plain(_filled(size, folder, ("cjk",)).replace("\n", ""))


def headings(size: int, folder: Path) -> Any:
    """A heading every 100 bytes: a million of them in 100 MB."""
    from chunkmill.chunkers.base import Block, Document, Span

    line = "Some words stand under this heading, a sentence or two of them, as in a manual."
    text, blocks, at = [], [], 0
    for i in range(max(1, size // 100)):
        title = f"{'#' * (i % 3 + 1)} H{i}"
        blocks.append(Block("heading", Span(at, at + len(title)), i % 3 + 1))
        text.append(f"{title}\n\n{line}\n\n")
        at += len(text[-1])
    return Document("d", "", "".join(text), tuple(blocks))


def rows(size: int, folder: Path) -> Any:
    """One table: 10,000 rows to the MB."""
    from chunkmill.chunkers.base import Block, Document, Span

    lines = ["| number | name | amount | remark |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {i:9d} | bolt {i % 977} | {i * 7 % 10007} | {'kept dry in the northern depot ' * 2}|" for i in range(size // 100)
    ]
    spans, at = [], 0
    for line in lines:
        spans.append(Span(at, at + len(line)))
        at += len(line) + 1
    text = "\n".join(lines)
    return Document("d", "", text, (Block("table", Span(0, len(text)), parts=(spans[0], *spans[2:])),))


SHAPES = {
    "prose in one document": Shape(prose, ("recursive", "sentence", "fixed", "paragraph", "optimal")),
    "one line": Shape(one_line, ("recursive", "sentence", "fixed", "optimal")),
    "one word": Shape(one_word, ("recursive", "fixed")),
    "CJK, no line breaks": Shape(cjk, ("recursive", "sentence", "fixed")),
    "a heading every 100 bytes": Shape(headings, ("section", "recursive")),
    "a row every 100 bytes": Shape(rows, ("table", "recursive")),
}


def _plain(text: str) -> Any:
    from chunkmill.chunkers.base import Document

    return Document("d", "", text)


def _filled(size: int, folder: Path, wanted: Sequence[str]) -> str:
    """Texts one after the other, from the start again where they end, up to so many bytes."""
    sets = who.text_sets(folder)
    texts = [t for s in wanted if s in sets for t in who.load(sets[s], 10**9)] or who.load(next(iter(sets.values())), 10**9)
    found, n = [], 0
    while n < size:
        for text in texts:
            found.append(text)
            n += len(text.encode()) + 2
            if n >= size:
                break
    return "\n\n".join(found)


def measure(shape: str, strategy: str, megabytes: int, arguments: argparse.Namespace, pipe: Connection) -> None:
    """One measurement, in its own process: bytes, CPU seconds, how far memory grew at its peak."""
    from chunkmill.chunkers.api import chunk_all, chunking

    how = chunking(strategy, size=arguments.size, overlap=arguments.overlap, unit=who.ENCODING)
    chunk_all([_plain("Warm, wärmer — 東京。 " * 200)], how, {})
    doc = SHAPES[shape].make(megabytes * 1_000_000, arguments.text)
    size = len(doc.text.encode())
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of what follows
    began = time.process_time()
    (outcome,) = chunk_all([doc], how, {})
    seconds = time.process_time() - began
    pipe.send((size, seconds, resident("VmHWM") - before) if isinstance(outcome, list) else str(outcome))


def resident(what: str) -> int:
    """Bytes of memory this process holds now (`VmRSS`) or held at most (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


def linear(arguments: argparse.Namespace) -> None:
    """One row per shape, strategy and tokenizer; a measurement over the time limit ends the row."""
    from chunkmill.chunkers.strategies import STRATEGIES

    sizes = [int(m) for m in arguments.megabytes.split(",")]
    print(f"{who.versions()}\n")
    print("## CPU seconds per MB as one document grows; beside it the growth of peak memory over the size of the text\n")
    head = ["document", "strategy", *(f"{m} MB" for m in sizes), f"{sizes[-1]} MB / {sizes[0]} MB"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for shape, (_, strategies) in SHAPES.items():
        for strategy in strategies:
            if strategy not in STRATEGIES or (arguments.only and arguments.only not in f"{shape} {strategy}"):
                continue
            results = list(growing(shape, strategy, sizes, arguments))
            cells = [r if isinstance(r, str) else f"{r[1] / r[0] * 1e6:.3f} s, ×{r[2] / r[0]:.1f}" for r in results]
            cells += [""] * (len(sizes) - len(cells))
            costs = [r[1] / r[0] for r in results if not isinstance(r, str)]
            slope = f"{costs[-1] / costs[0]:.2f}" if len(costs) == len(sizes) else ""
            print("| " + " | ".join([shape, strategy, *cells, slope]) + " |", flush=True)


def growing(shape: str, strategy: str, sizes: Sequence[int], arguments: argparse.Namespace) -> Iterator[Any]:
    """The measurements in turn, each in a fresh process, up to the first that doesn't end in time."""
    spawn = mp.get_context("spawn")
    for megabytes in sizes:
        here, there = spawn.Pipe()
        process = spawn.Process(target=measure, args=(shape, strategy, megabytes, arguments, there), daemon=True)
        process.start()
        there.close()
        try:
            answer = here.recv() if here.poll(arguments.timeout) else f"> {arguments.timeout} s"
        except EOFError:
            answer = "the process died"
        process.terminate()
        process.join()
        yield answer
        if isinstance(answer, str):
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=who.TEXT, help='folder of *.jsonl.gz, one {"id", "text"} a line')
    parser.add_argument("--sets", default="", help="names of sets, by commas; default: all")
    parser.add_argument("--only", default="", help="peers whose name holds one of these; with --linear: one shape or strategy")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--overlap", type=int, default=0)
    parser.add_argument("--slices", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the speeds here")
    parser.add_argument("--linear", action="store_true", help="seconds per MB as one document grows")
    parser.add_argument("--megabytes", default="1,10,100", help="sizes for --linear")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one measurement of --linear")
    arguments = parser.parse_args()
    sets = who.text_sets(arguments.text, [s for s in arguments.sets.split(",") if s])
    if arguments.linear:
        linear(arguments)
        return
    speeds, faults = race(arguments, sets)
    report(speeds, faults, arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(speeds, indent=1))
    if any(sum(found[1:]) for found in faults.values()):
        sys.exit("ours was wrong: see the last table")


if __name__ == "__main__":
    main()
