"""Large PDFs by ranges of pages, each in a process of its own; what comes back is the same as from one.

The processes are started afresh (no fork: MuPDF and Ray have threads) and die with their parent. A range whose process dies is
halved until the page that killed it is alone; only that page is lost.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from chunkmill.io.parsers.pdf.shapes import Engine, Extra, Picture, Row, Sheet, Table
from chunkmill.io.parsers.pdf.sheets import Options, sheets

LARGE = 200  # pages from which on ranges are worth their processes
_LEAST = 100  # pages of a range
_MOST = 4  # processes
_DEATHS = 24  # of processes, for one document


def all_sheets(data: bytes, pdf: Engine, options: Options, *, processes: int | None = None) -> list[Sheet]:
    """The sheets of all pages, in order."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    several = processes if processes is not None else min(_MOST, cores, pdf.count // _LEAST)
    if several < 2 or (processes is None and pdf.count < LARGE):
        return list(sheets(pdf, range(pdf.count), options))
    edges = [pdf.count * n // several for n in range(several + 1)]
    parts = [range(a, b) for a, b in pairwise(edges) if b > a]
    deaths = [0]
    found: list[list[Sheet]] = [[] for _ in parts]
    workers = [threading.Thread(target=_fill, args=(found, at, data, pages, options, deaths)) for at, pages in enumerate(parts)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [sheet for part in found for sheet in part]


def _fill(found: list[list[Sheet]], at: int, data: bytes, pages: range, options: Options, deaths: list[int]) -> None:
    found[at] = list(_range(data, pages, options, deaths))


def _range(data: bytes, pages: range, options: Options, deaths: list[int]) -> Iterator[Sheet]:
    """The sheets of a range; where its process dies, of its halves."""
    waiting = [pages]
    while waiting:
        part = waiting.pop()
        done = _child(data, part, options) if deaths[0] < _DEATHS else None
        if done is not None:
            yield from done
            continue
        deaths[0] += 1
        if len(part) == 1 or deaths[0] >= _DEATHS:
            yield from (Sheet(number + 1, 0, 0, [], "damaged", note="its process died") for number in part)
        else:
            middle = part[len(part) // 2]
            waiting += [range(middle, part.stop), range(part.start, middle)]


def _child(data: bytes, pages: range, options: Options) -> list[Sheet] | None:
    """The sheets from a process of their own; None where it dies."""
    order = json.dumps([pages.start, pages.stop, list(options)]).encode()
    here = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "chunkmill.io.parsers.pdf.worker"],
            input=b"".join((struct.pack("<Q", len(order)), order, data)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=here,
        )
        lines = done.stdout.splitlines() if not done.returncode else []
        found = [_unpacked(json.loads(line)) for line in lines]
    except (OSError, ValueError):
        return None
    return found if len(found) == len(pages) else None


def packed(sheet: Sheet) -> bytes:
    """The sheet as a line of JSON."""
    *plain, pictures, unknown = sheet
    return json.dumps([*plain, [(box, base64.b64encode(png).decode()) for box, png in pictures], unknown]).encode()


def _unpacked(values: list[Any]) -> Sheet:
    sheet = Sheet(*values)
    return sheet._replace(
        leaves=[[_part(part) for part in leaf] for leaf in sheet.leaves],
        extras=tuple(Extra(kind, tuple(lines)) for kind, lines in sheet.extras),
        pictures=tuple(Picture((x0, y0, x1, y1), base64.b64decode(png)) for (x0, y0, x1, y1), png in sheet.pictures),
    )


def _part(values: Any) -> Row | Table:
    if isinstance(values[0], str):
        return Row(values[0], tuple(values[1]), *values[2:])
    return Table(tuple(values[0]), tuple(map(tuple, values[1])))
