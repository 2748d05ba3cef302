"""Lines that stand side by side, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from chunkmill.io.parsers.pdf.scripts import is_rtl
from chunkmill.io.parsers.pdf.shapes import Line, Row


def grouped(lines: Iterable[Line]) -> list[list[Line]]:
    """Lines that stand side by side, from top to bottom; in each, from left to right."""
    rows: list[list[Line]] = []
    top = bottom = 0.0
    for line in sorted(lines, key=lambda item: (item.box[1] + item.box[3]) / 2):
        x0, y0, x1, y1 = line.box
        overlap = min(bottom, y1) - max(top, y0)
        beside = rows and overlap > 0.5 * min(bottom - top, y1 - y0)
        if beside and not any(
            min(x1, o.box[2]) - max(x0, o.box[0]) > 0.3 * min(x1 - x0, o.box[2] - o.box[0]) for o in rows[-1]
        ):
            rows[-1].append(line)
            if line.size >= 0.85 * max(o.size for o in rows[-1]):
                top, bottom = min(top, y0), max(bottom, y1)
        else:
            rows.append([line])
            top, bottom = y0, y1
    for row in rows:
        row.sort(key=lambda item: item.box[0])
    return rows


def row_of(group: Sequence[Line]) -> Row:
    """Lines side by side as one row; in code, with as many spaces as there is room for."""
    box = (
        min(line.box[0] for line in group),
        min(line.box[1] for line in group),
        max(line.box[2] for line in group),
        max(line.box[3] for line in group),
    )
    inked = [line for line in group if line.text.strip()] or list(group)
    longest = max(inked, key=lambda line: len(line.text))
    mono = all(line.mono for line in inked)
    order = list(group)
    if len(order) > 1 and is_rtl("".join(line.text for line in order)):
        order.reverse()
    text = order[0].text
    for before, line in pairwise(order):
        gap = max(line.box[0] - before.box[2], before.box[0] - line.box[2])
        if mono:
            text += " " * max(0, round(gap / (line.size * 0.6))) + line.text
        else:
            close = gap < line.size * 0.12 or text.endswith(" ") or line.text.startswith(" ")
            text += line.text if close else f" {line.text}"
    looks = (all(getattr(line, look) for line in inked) for look in ("bold", "italic", "hidden"))
    return Row(text.rstrip(), box, longest.size, mono, *looks)
