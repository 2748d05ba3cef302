"""How fast files become text, and how much of it is right: ours beside MarkItDown, on one core and on real files.

    python benchmarks/formats.py                      # make bench-formats
    python benchmarks/formats.py --only pdf,docx

Reads the open corpus beside the project (../shared/corpus). Each contestant is a process of its own on one core, warmed up;
each file is read up to three times, the least CPU time counts. Speeds are of the files that both turn into text. Facts are
those of `gold_open.jsonl` that text alone can hold; a file without text holds none. Markdown's marks don't count against the
peer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
PEER = ROOT / ".venv-formats" / "bin" / "python"
RUNS, ENOUGH_S, MOST_S = 3, 1.0, 120  # runs of a file, unless it took so long; seconds it may take
TEXTUAL = ("contains", "not_contains", "order")
MARKS = re.compile(  # of emphasis, code, escapes, headings, links, and tags
    r"\*\*|__|(?<!\w)[*_`]|[*_`](?!\w)|\\(?=[^\w\s])|^#+ |"
    r"!?\[(?=[^\]\n]*\]\()|(?<=\])\([^)\n]*\)|\](?=\()|</?(?:u|sup|sub|br) ?/?>",
    re.M,
)


class Result(NamedTuple):
    """What a contestant made of a file: CPU seconds, its text, and what our side alone knows."""

    seconds: float
    text: str
    error: str = ""
    format: str = ""
    pages: int = 0


def ours() -> Callable[[Path], tuple[str, str, int]]:
    """All documents of a file as one text, its format, its pages."""
    from chunkmill.io.parsers import parse

    def read(path: Path) -> tuple[str, str, int]:
        found = list(parse(path.read_bytes(), path.name, {"pdf": {"ocr": "off"}}))
        metadata = found[0].metadata if found else {}
        pages = metadata.get("pages") or metadata.get("slides") or "0"
        return "\n".join(p.text for p in found), found[0].format if found else "", int(pages)

    return read


def markitdown() -> Callable[[Path], tuple[str, str, int]]:
    from markitdown import MarkItDown

    convert = MarkItDown(enable_plugins=False).convert

    return lambda path: (convert(path).markdown, "", 0)


CONTESTANTS = {"chunkmill": ours, "markitdown": markitdown}


def work(name: str) -> None:
    """Read the files whose names come in, one a line; a line of JSON for each goes out."""
    out, sys.stdout = sys.stdout, sys.stderr
    read = CONTESTANTS[name]()

    def give_up(*_: object) -> None:
        raise TimeoutError(f"more than {MOST_S} s")

    signal.signal(signal.SIGALRM, give_up)
    print(json.dumps({"version": version(name) if name != "chunkmill" else "here"}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(_timed(read, Path(json.loads(line)))), file=out, flush=True)


def _timed(read: Callable[[Path], tuple[str, str, int]], path: Path) -> Result:
    best, text, error, format, pages = float("inf"), "", "", "", 0
    for _ in range(RUNS):
        started = time.process_time()
        signal.alarm(MOST_S)
        try:
            text, format, pages = read(path)
        except Exception as trouble:
            error = f"{type(trouble).__name__}: {trouble}"[:200]
        finally:
            signal.alarm(0)
        best = min(best, took := time.process_time() - started)
        if took > ENOUGH_S or error:
            break
    return Result(best, text.encode(errors="replace").decode(), error, format, pages)


class Contestant:
    """A process that reads files on one core."""

    def __init__(self, name: str, python: Path, core: int) -> None:
        environment = os.environ | {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
        command = ["taskset", "-c", str(core), str(python), __file__, "--work", name]
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
            "text": True,
        }
        self._process = subprocess.Popen(command, env=environment, **pipes)
        self.name, self.version = name, self._answer()["version"]

    def reads(self, path: Path) -> Result:
        assert self._process.stdin
        print(json.dumps(str(path)), file=self._process.stdin, flush=True)
        return Result(*self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def race(paths: Sequence[Path], contestants: Sequence[Contestant]) -> Iterator[tuple[Path, list[Result]]]:
    """What each made of each file; the smallest file of each kind comes first, unmeasured."""
    warm = {path.suffix: path for path in sorted(paths, key=lambda p: -p.stat().st_size)}
    for path in warm.values():
        for contestant in contestants:
            contestant.reads(path)
    for number, path in enumerate(paths):
        if sys.stderr.isatty():
            print(f"\r{number:,} of {len(paths):,} files", end="", file=sys.stderr)
        yield path, [contestant.reads(path) for contestant in contestants]


def facts() -> Mapping[Path, list[dict[str, Any]]]:
    """Of each file what its text must, should or may hold."""
    found: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    for line in (CORPUS / "gold_open.jsonl").read_text().splitlines():
        if (fact := json.loads(line))["assertion"] in TEXTUAL:
            found[CORPUS / fact["path"]].append(fact)
    return found


def holds(fact: Mapping[str, Any], text: str) -> bool:
    from facts import Held, judge

    from chunkmill.chunkers.base import Document

    def says(text: str) -> bool:
        return judge(fact, Held([Document("", "", text)], ["ok"], [None], lambda other: NotImplemented))

    plain = MARKS.sub("", text)
    if fact["assertion"] == "not_contains":
        return bool(text.strip()) and says(text) and says(plain)
    return says(text) or says(plain)


HEAD = ("format", "files", "MB", "{0} MB/s", "{1} MB/s", "ratio", "{0} pages/s", "{1} pages/s", "{0} read", "{1} read")
Race = list[tuple[Path, list[Result]]]


def report(results: Race, names: Sequence[str]) -> None:
    """A Markdown table: a line for each format."""
    groups: dict[str, Race] = defaultdict(list)
    for path, found in results:
        groups[found[0].format or path.suffix[1:]].append((path, found))
    known = facts()
    print("| " + " | ".join((*HEAD, "{0} facts", "{1} facts")).format(*names) + " |")
    print("|---" + "|---:" * (len(HEAD) + 1) + "|")
    for format, group in sorted(groups.items()):
        print(_line(format, group, known))
    print(_line("all", results, known))


def _line(format: str, group: Race, known: Mapping[Path, list[dict[str, Any]]]) -> str:
    both = [(path, found) for path, found in group if all(r.text.strip() for r in found)]
    size, pages = sum(path.stat().st_size for path, _ in both), sum(found[0].pages for _, found in both)
    seconds = [max(1e-9, sum(found[i].seconds for _, found in both)) for i in (0, 1)]
    share = [sum(holds(fact, found[i].text) for path, found in group for fact in known[path]) for i in (0, 1)]
    total = sum(len(known[path]) for path, _ in group)
    paged = bool(pages) and format != "all"
    cells = [
        format,
        str(len(group)),
        f"{sum(path.stat().st_size for path, _ in group) / 1e6:.1f}",
        *(f"{size / s / 1e6:.2f}" if both else "–" for s in seconds),
        f"{seconds[1] / seconds[0]:.1f}×" if both else "–",
        *(f"{pages / s:.0f}" if paged else "" for s in seconds),
        *(str(sum(bool(found[i].text.strip()) for _, found in group)) for i in (0, 1)),
        *(f"{n} of {total}" if total else "" for n in share),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="folders of the corpus, by commas; default: all")
    parser.add_argument("--core", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    folders = [f for f in arguments.only.split(",") if f] or [""]
    paths = sorted(p for folder in folders for p in (CORPUS / "open" / folder).rglob("*") if p.is_file())
    if not paths:
        print(f"skipped: {CORPUS}/open is not here; the benchmark needs its files")
        return
    pythons = {"chunkmill": Path(sys.executable), "markitdown": PEER}
    contestants = [Contestant(name, python, arguments.core) for name, python in pythons.items()]
    with contextlib.ExitStack() as stack:
        for contestant in contestants:
            stack.callback(contestant.end)
        results = list(race(paths, contestants))
    print(
        f"Python {sys.version.split()[0]}, one core, CPU time; "
        + ", ".join(f"{c.name} {c.version}" for c in contestants)
        + "\n"
    )
    report(results, [c.name for c in contestants])
    for path, found in results:
        if found[0].error:
            print(f"not read by ours: {path.relative_to(CORPUS)}: {found[0].error}")


if __name__ == "__main__":
    main()
