"""How many chunks an edit changes: one sentence inserted, deleted or changed in a long document, by strategy.

    python benchmarks/edit.py                        # make bench-edit
    python benchmarks/edit.py --size 512 --unit cl100k_base --sets "markdown,prose on one line"

A chunk that an edit leaves alone keeps its id and is not embedded again; what counts is the ids that are new afterwards.
A peer's chunk is known by its text and how often that came before, as ours are. Every document is cut afresh after each
edit: nothing is remembered.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import contestants as who

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Block, Document, Span
from chunkmill.chunkers.strategies import STRATEGIES

OURS = ("recursive", "optimal", "section", "sentence", "paragraph", "fixed")
PEERS = ("langchain.recursive", "llamaindex.sentence", "chonkie.recursive", "chonkie.sentence")
PLACES = (0.1, 0.5, 0.9, None)  # None: anywhere
SENTENCE_END = re.compile(r"[.!?](?=\s)\s*|[。！？]\s*|\n+")
LINE_END = re.compile(r"\n")
HEADING = re.compile(r"^(#{1,6}) .*$", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
NEW = "A wholly new remark, number {}, was added here by an editor who had read it twice. "
NEW_CJK = "编辑读了两遍之后，在这里加了第{}句全新的话。"
NEW_ROW = "{},a wholly new row,1998-07-14,42.50\n"


class Set(NamedTuple):
    """Documents, and what an edit of them looks like: where sentences end, and what a new one is."""

    texts: list[str]
    end: re.Pattern[str] = SENTENCE_END
    new: str = NEW


class Cut(NamedTuple):
    """A cutting: sizes of the chunks, and their ids."""

    sizes: list[int]
    ids: set[str]


def joined(texts: Sequence[str], length: int, documents: int) -> list[str]:
    """Long documents: texts one after the other behind blank lines, each of at least so many characters."""
    found, parts, n = [], list[str](), 0
    for text in texts:
        parts.append(text.strip())
        n += len(parts[-1]) + 2
        if n >= length:
            found.append("\n\n".join(parts)[: length + length // 10])
            parts, n = [], 0
        if len(found) == documents:
            break
    return found


def table(seed: int, words: Sequence[str], length: int) -> str:
    """Lines of CSV with distinct numbers."""
    dice = random.Random(seed)
    lines, n = ["id,name,date,amount"], 0
    while n < length:
        name = " ".join(dice.choices(words, k=dice.randint(1, 6)))
        date = f"{dice.randint(1950, 2026)}-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}"
        lines.append(f"{len(lines)},{name},{date},{dice.random() * 1000:.2f}")
        n += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def sets(folder: Path, length: int, documents: int) -> Iterator[tuple[str, Set]]:
    """Documents with paragraphs, and without."""
    paths = who.text_sets(folder)
    for name in ("markdown", "prose"):
        yield name, Set(joined(who.load(paths[name]), length, documents))
    lines = [" ".join(t.split()) for t in joined(who.load(paths["prose"]), length, documents)]
    yield "prose on one line", Set(lines)
    yield "CJK on one line", Set(["".join(t.split()) for t in joined(who.load(paths["cjk"]), length, documents)], new=NEW_CJK)
    words = sorted(set(re.findall(r"[a-z]{3,}", lines[0])))
    yield "CSV lines", Set([table(i, words, length) for i in range(documents)], LINE_END, NEW_ROW)


def sentence(text: str, at: int, end: re.Pattern[str]) -> tuple[int, int]:
    """The first sentence that begins behind this place. A line that fences code is none: without it another text begins."""
    start = found.end() if (found := end.search(text, at)) else at
    while (found := end.search(text, start)) and "```" in text[start : found.end()]:
        start = found.end()
    return start, found.end() if found else len(text)


def edited(text: str, number: int, among: Set, dice: random.Random) -> str:
    """The text after one seeded edit: the sentence at some place inserted before, deleted, or said otherwise."""
    place = PLACES[number // 3 % len(PLACES)]
    at = int(len(text) * (dice.random() * 0.98 if place is None else place))
    start, end = sentence(text, at, among.end)
    what = number % 3
    if what == 0:
        return text[:start] + among.new.format(number) + text[start:]
    if what == 1:
        return text[:start] + text[end:]
    middle = (start + end) // 2
    return text[:middle] + f"{number}{dice.choice(('', 'x', ' and more', ' corrected twice by hand'))}" + text[middle:]


def ours(strategy: str, size: int, unit: str) -> Callable[[str], Cut]:
    how = chunking(strategy, size=size, unit=unit)

    def cut(text: str) -> Cut:
        blocks = tuple(headings(text)) if strategy == "section" else ()
        (chunks,) = chunk_all([Document("d", "", text, blocks)], how, {})
        assert isinstance(chunks, list), chunks
        return Cut([c.n_tokens for c in chunks], {c.id for c in chunks})

    return cut


def headings(text: str) -> Iterator[Block]:
    """ATX headings outside fences: enough for a benchmark."""
    fenced = [m.span() for m in FENCE.finditer(text)]
    for m in HEADING.finditer(text):
        if not any(a <= m.start() < b for a, b in fenced):
            yield Block("heading", Span(*m.span()), len(m[1]))


def theirs(name: str, size: int, unit: str) -> Callable[[str], Cut]:
    function = who.contestant(name, size, 0, unit)
    count = len if unit == "chars" else lambda t: len(who.tiktoken_encoding().encode_ordinary(t))

    def cut(text: str) -> Cut:
        chunks = [c.strip() for c in function([text])[0]]
        seen: Counter[str] = Counter()
        ids = set()
        for c in chunks:
            ids.add(hashlib.blake2b(f"{seen[c]} {c}".encode()).hexdigest())
            seen[c] += 1
        return Cut([count(c) for c in chunks], ids)

    return cut


def row(name: str, cut: Callable[[str], Cut], among: Set, edits: int, arguments: argparse.Namespace) -> list[str]:
    """A line of the report; after `--seconds` of CPU time no more edits are made."""
    dice = random.Random(7)
    began = time.process_time()
    before = [cut(t) for t in among.texts]
    new: list[int] = []
    share: list[float] = []
    for number in range(edits):
        if number and time.process_time() - began > arguments.seconds:
            break
        which = number % len(among.texts)
        after = cut(edited(among.texts[which], number // len(among.texts), among, dice))
        new.append(len(after.ids - before[which].ids))
        share.append(new[-1] / len(after.ids))
    sizes = [n for b in before for n in b.sizes]
    new.sort()
    return [
        name,
        f"{len(sizes) / len(before):.0f}",
        f"{statistics.mean(sizes) / arguments.size:.2f}",
        f"{100 * statistics.mean(share):.1f}",
        f"{statistics.mean(new):.1f}",
        *(str(new[int(q * len(new))]) for q in (0.5, 0.9, 0.99)),
        str(new[-1]),
        str(len(new)),
        f"{time.process_time() - began:.0f}",
    ]


HEAD = ("", "chunks", "size/limit", "% new", "mean", "median", "p90", "p99", "worst", "edits", "CPU s")


def contestants(arguments: argparse.Namespace, name: str) -> Iterator[tuple[str, Callable[[], Any], int]]:
    """What is compared on a set: its name, how to make it, and how many edits it gets."""
    for strategy in OURS:
        if strategy in STRATEGIES and (strategy != "section" or name == "markdown"):
            yield f"ours.{strategy}", lambda s=strategy: ours(s, arguments.size, arguments.unit), arguments.edits
    for peer in PEERS:
        yield peer, lambda p=peer: theirs(p, arguments.size, arguments.unit), arguments.peer_edits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=who.TEXT, help="folder of *.jsonl.gz: markdown, prose and cjk")
    parser.add_argument("--sets", default="", help="names of sets as the tables show them, by commas; default: all")
    parser.add_argument("--only", default="", help="contestants whose name holds one of these")
    parser.add_argument("--edits", type=int, default=1000, help="edits per set for ours")
    parser.add_argument("--peer-edits", type=int, default=90)
    parser.add_argument(
        "--seconds", type=float, default=120, help="CPU time after which a contestant gets no more edits of a set"
    )
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--unit", default="chars", choices=("chars", who.ENCODING))
    parser.add_argument("--length", type=int, default=0, help="characters of a document; default: 110 chunks' worth")
    parser.add_argument("--documents", type=int, default=6)
    arguments = parser.parse_args()
    length = arguments.length or 110 * arguments.size * (1 if arguments.unit == "chars" else 4)
    print(f"{who.versions()}\n\nlimit {arguments.size} {arguments.unit}, documents of about {length} characters\n")
    for name, among in sets(arguments.text, length, arguments.documents):
        if not among.texts or (arguments.sets and name not in arguments.sets.split(",")):
            continue
        print(f"## {name}\n\n| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)
        for label, make, edits in contestants(arguments, name):
            if arguments.only and not any(o in label for o in arguments.only.split(",")):
                continue
            try:
                print("| " + " | ".join(row(label, make(), among, edits, arguments)) + " |", flush=True)
            except ImportError as error:
                print(f"| {label} | not installed: {error} |", flush=True)
        print()


if __name__ == "__main__":
    main()
