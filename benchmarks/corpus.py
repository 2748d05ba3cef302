"""Real and hostile files through the real job: what became of each format, and which known facts hold.

    python benchmarks/corpus.py [--floor]

Reads the corpora beside the project (../shared/corpus). With --floor it fails where less holds than `corpus_floor.json`
says; a floor only rises (--raise writes what holds now).
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from facts import Held, judge, same

from chunkmill.chunkers.base import Document
from chunkmill.io import table
from chunkmill.io.schema import blocks_of
from chunkmill.jobs.config import load
from chunkmill.jobs.pipeline import run

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
FLOOR = Path(__file__).with_name("corpus_floor.json")
ARGUED = {"gz/archive.tar.gz"}  # expected to be refused "or members read safely", which is what we do
SETTINGS: dict[str, Any] = {
    "embed": None,
    "chunk": {"strategy": "auto"},
    "formats": {"pdf": {"ocr": "off"}},  # what is held must not depend on what is installed
    "run": {"document_timeout_s": 60},
}


class Dataset:
    """The ledger of a run over a folder, by the files' names in it."""

    def __init__(self, folder: Path, out: str) -> None:
        self.root = folder
        self.summary = run(load({"input": str(folder), "output": out, **SETTINGS}))
        self.rows = table.read(out, "documents").sort_by("uri")
        self.by_source: dict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self.rows["source"].to_pylist()):
            self.by_source[source[len(str(folder)) + 1 :]].append(number)

    def held(self, name: str) -> Held:
        rows = self.rows.take(pa.array(self.by_source[name], pa.int64())).to_pylist()
        docs = [
            Document(r["doc_id"], r["uri"], r["text"] or "", blocks_of(r["blocks"] or ()), dict(r["metadata"] or ()))
            for r in rows
        ]
        return Held(docs, [r["status"] for r in rows], [r["error_kind"] for r in rows], lambda other: self.held(other[5:]))


def formats(data: Dataset) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    columns = (data.rows[name].to_pylist() for name in ("format", "status", "error_kind"))
    for format, status, kind in zip(*columns, strict=True):
        found[format][f"failed:{kind}" if kind else status] += 1
    return found


def check_open(data: Dataset) -> tuple[dict[str, list[int]], list[str]]:
    """Held and known facts by level, and those that don't hold."""
    score: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    missed = []
    for line in (CORPUS / "gold_open.jsonl").read_text().splitlines():
        fact = json.loads(line)
        try:
            holds = judge(fact, data.held(fact["path"][5:]))
            why = ""
        except (ValueError, KeyError, IndexError, TypeError) as error:
            holds, why = False, f" ({type(error).__name__}: {error})"
        score[fact["level"]][0] += holds
        score[fact["level"]][1] += 1
        if not holds:
            missed.append(f"{fact['level']}: {fact['path']}: {fact['assertion']} {str(fact['value'])[:90]}{why}")
    return score, missed


def check_hostile(data: Dataset) -> tuple[int, int, list[str]]:
    """Files that behaved as expected, all files, and what was wrong with the others."""
    good, wrong = 0, []
    expected = list(csv.DictReader((CORPUS / "hostile" / "EXPECTED.csv").open()))
    for row in expected:
        trouble = "" if row["path"] in ARGUED else verdict(row, data.held(unescaped(row["path"])))
        good += not trouble
        wrong += [f"{row['path']}: {trouble}"] if trouble else []
    return good, len(expected), wrong


def unescaped(path: str) -> str:
    """The name of a file as the list writes it, with backslash escapes in the odd ones."""
    if not path.startswith("names/"):
        return path
    name = path.encode("latin-1", "backslashreplace").decode("unicode_escape")
    return name.encode("utf-16", "surrogatepass").decode("utf-16")


def verdict(row: dict[str, str], held: Held) -> str:
    """What differs from the expectation; "" for nothing."""
    if not held.documents:
        return "not in the ledger"
    text = same(held.text)
    if bad := [t for t in json.loads(row["must_not_contain"]) if same(t) in text]:
        return f"contains {bad[0]!r}"
    is_dead = "ok" not in held.statuses
    kinds = set(held.kinds) | ({"empty"} if "empty" in held.statuses else set())
    if row["expect"] == "dead_letter":
        return "" if is_dead and row["error_kind"] in kinds else f"{held.statuses[:3]} {kinds}, expected {row['error_kind']}"
    if is_dead:
        tolerated = row["expect"] == "ok_or_dead_letter"
        return "" if tolerated else f"{held.statuses[:3]} {kinds}, expected text"
    lost = [t for t in json.loads(row["must_contain"]) if same(t) not in text]
    return f"lacks {lost[0]!r}" if lost else ""


def show(found: dict[str, Counter[str]]) -> None:
    for format, counts in sorted(found.items()):
        print(f"  {format:<12} " + ", ".join(f"{n:,} {status}" for status, n in counts.most_common()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floor", action="store_true", help="fail where less holds than the floor says")
    parser.add_argument("--raise", dest="rise", action="store_true", help="write what holds now as the floor")
    options = parser.parse_args()
    if not CORPUS.is_dir():
        print(f"skipped: {CORPUS} is not here; the check needs its files")
        return 0
    with tempfile.TemporaryDirectory() as out:
        opened, hostile = (Dataset(CORPUS / name, f"{out}/{name}") for name in ("open", "hostile"))
        print(f"open: {opened.summary.sources:,} files in {opened.summary.seconds:.0f} s")
        show(formats(opened))
        score, missed = check_open(opened)
        print("facts held: " + ", ".join(f"{level} {a} of {b}" for level, (a, b) in score.items()))
        print(*(f"  {line}" for line in missed), sep="\n")
        print(f"hostile: {hostile.summary.sources:,} files in {hostile.summary.seconds:.0f} s")
        show(formats(hostile))
        good, total, wrong = check_hostile(hostile)
        print(f"as expected: {good} of {total}")
        print(*(f"  {line}" for line in wrong), sep="\n")
    now = {level: a for level, (a, _) in score.items()} | {"hostile": good}
    if options.rise:
        FLOOR.write_text(json.dumps(now, indent=1) + "\n")
    floor = json.loads(FLOOR.read_text()) if options.floor else {}
    fallen = {name: n for name, n in floor.items() if now[name] < n}
    print(f"below the floor: {fallen}" if fallen else "ok")
    return bool(fallen)


if __name__ == "__main__":
    sys.exit(main())
