"""Line numbers: what drafts, pleadings and transcripts print beside the lines of their text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from chunkmill.io.parsers.pdf.rows import grouped
from chunkmill.io.parsers.pdf.shapes import Box, Line

_LINES = 120  # a page, of both its columns


def without_line_numbers(lines: list[Line], rules: Sequence[Box], number: int) -> list[Line]:
    """Without the numbers that drafts, pleadings and transcripts print beside every line of text, or every fifth.

    They go where all of it speaks for that: they count from where the page before may have ended, stand outside the text with
    no rule between them, and the text beside them is running text, most of the page's, with as many lines as they count; or
    they are evenly spaced from one on, beside gaps in the text, too. Else they stay: a table's rows, clauses and the items of a
    list are numbered as well.
    """
    counting = [found for found in _counting(lines) if int(found[0].text) <= _LINES * number]
    numbers = {id(line) for found in counting for line in found}
    text = [line for line in lines if id(line) not in numbers]
    drop = {id(line) for found in counting if _numbers_lines(found, text, rules) for line in found}
    return [line for line in lines if id(line) not in drop] if drop else lines


def _counting(lines: Sequence[Line]) -> list[list[Line]]:
    """Numbers below each other that count by one or by five, from top to bottom."""
    sides: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        if len(line.text.strip()) <= 5 and line.text.strip().isdecimal():
            sides.setdefault((0, round(line.box[0] / 4)), []).append(line)
            sides.setdefault((2, round(line.box[2] / 4)), []).append(line)
    counting = []
    for found in sides.values():
        found.sort(key=lambda line: line.box[1])
        steps = [int(b.text) - int(a.text) for a, b in pairwise(found)]
        if len(steps) >= 7 and max(steps.count(1), steps.count(5)) >= len(found) * 0.8:
            counting.append(found)
    return counting


def _numbers_lines(numbers: Sequence[Line], text: Sequence[Line], rules: Sequence[Box]) -> bool:
    """Whether these number the lines of the text."""
    left, right = min(line.box[0] for line in numbers), max(line.box[2] for line in numbers)
    top, bottom = numbers[0].box[1], numbers[-1].box[3]
    if any(rule[0] < right and rule[2] > left and any(top + 2 < y < bottom - 2 for y in rule[1::2]) for rule in rules):
        return False  # cells
    beside = [line for line in text if top - 2 < _middle(line) < bottom + 2]
    before, behind = all(line.box[0] > right for line in beside), all(line.box[2] < left for line in beside)
    if before == behind or len(beside) < 0.6 * len(text):
        return False
    center = (min(line.box[0] for line in beside) + max(line.box[2] for line in beside)) / 2
    halves = [line for line in beside if line.box[0] < center], [line for line in beside if line.box[0] >= center]
    near, far = halves if before else (halves[1], halves[0])
    if len(near) < 0.3 * len(beside):  # there is one column, and it begins on the other side
        near, far = beside, []
    rows = grouped(near)
    counts = _counted(numbers, rows)
    exact = sum(there == said for there, said in counts)
    if sum(there <= said for there, said in counts) < 0.85 * len(counts) or exact < 0.5 * len(counts):
        return False
    every_fifth = exact >= 0.9 * len(counts) and all(said == 5 for _, said in counts)  # lines of verse are not full
    return every_fifth or _running(rows, far) or _ruler(numbers, rows, far)


def _middle(line: Line) -> float:
    return (line.box[1] + line.box[3]) / 2


def _counted(numbers: Sequence[Line], rows: Sequence[Sequence[Line]]) -> list[tuple[int, int]]:
    """From each number to the next: how many rows there are, and how many the numbers say."""
    heights = sorted(_middle(row[0]) for row in rows)
    at = [bisect_right(heights, _middle(number) + 3) for number in numbers]
    return [(j - i, int(b.text) - int(a.text)) for (i, j), (a, b) in zip(pairwise(at), pairwise(numbers), strict=True)]


def _running(rows: Sequence[Sequence[Line]], far: Sequence[Line]) -> bool:
    """Whether the rows beside numbers are lines of sentences: long, most of them full, and many begin inside a sentence."""
    texts = ["".join(line.text for line in row).strip() for row in rows]
    widths = sorted(row[-1].box[2] - row[0].box[0] for row in rows)
    full = widths[len(widths) * 9 // 10] * 0.85
    single = sum(len(row) == 1 for row in rows) >= 0.8 * len(rows)
    cells = len(far) > 0.2 * len(rows) and sum(len(line.text) for line in far) < 20 * len(far)
    long = sum(map(len, texts)) >= 20 * len(texts) and sum(width >= full for width in widths) >= 0.4 * len(rows)
    return single and not cells and long and sum(text[:1].islower() for text in texts) >= 0.25 * len(texts)


def _ruler(numbers: Sequence[Line], rows: Sequence[Sequence[Line]], far: Sequence[Line]) -> bool:
    """Whether the numbers stand at even distances from one on, whether a row is there or, in several places, none."""
    steps = sorted(b.box[1] - a.box[1] for a, b in pairwise(numbers))
    heights = [_middle(row[0]) for row in rows]
    there = [any(abs(_middle(number) - height) < 0.5 * number.size for height in heights) for number in numbers]
    gaps = sum(a and not b for a, b in pairwise(there))
    single = sum(len(row) == 1 for row in rows) >= 0.6 * len(rows) and len(far) < 0.5 * len(rows)
    long = sum(len(line.text) for row in rows for line in row) >= 20 * len(rows)
    return int(numbers[0].text) == 1 and steps[-1] - steps[0] < 0.1 * steps[0] and gaps >= 2 and single and long
