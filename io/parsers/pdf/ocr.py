"""Reading pages as pictures, by the `tesseract` program where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from statistics import median

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.pdf.scripts import cleaned
from chunkmill.io.parsers.pdf.shapes import Damaged, Engine, Leaf, Raw, Row

_DPI = 300
_PIXELS = 16_000_000  # of the picture that is read
_SOURCE = 150_000_000  # pixels of an image that has to be unpacked for it
_SECONDS = 120  # a page
_SURE = 25  # of 100: words below are noise, and so are pages whose median is


def read(pdf: Engine, number: int, raw: Raw, languages: str) -> list[Leaf] | str:
    """The rows of a page by paragraphs, or why it could not be read."""
    program = shutil.which("tesseract")
    if not program:
        return "Tesseract is not installed"
    chosen = _chosen(program, languages)
    _, largest = pdf.covered(number)
    if largest > _SOURCE:
        return f"its image of {largest:,} pixels is above the {_SOURCE:,} that OCR unpacks"
    scale = min(_DPI / 72, (_PIXELS / max(1.0, raw.width * raw.height)) ** 0.5)
    try:
        picture = pdf.rendered(number, scale)
        done = subprocess.run(
            [program, "stdin", "stdout", "-l", chosen, "--dpi", str(max(70, round(72 * scale))), "tsv"],
            input=picture,
            capture_output=True,
            timeout=_SECONDS,
            env=os.environ | {"OMP_THREAD_LIMIT": "1"},
        )
    except subprocess.TimeoutExpired:
        return f"OCR took more than {_SECONDS} s"
    except (Damaged, OSError) as error:
        return f"OCR failed: {error}"[:200]
    if done.returncode:
        return f"OCR failed: {done.stderr.decode(errors='replace').strip()}"[:200]
    return _leaves(done.stdout.decode(errors="replace"), scale)


@cache
def installed(program: str) -> frozenset[str]:
    """The languages that Tesseract has."""
    try:
        listed = subprocess.run([program, "--list-langs"], capture_output=True, timeout=30).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(listed.split("\n")[1:]) - {"", "osd"}


def _chosen(program: str, languages: str) -> str:
    """The languages asked for, else English, else whatever there is."""
    there = installed(program)
    asked = [language for language in languages.replace(",", "+").split("+") if language.strip()]
    missing = [language for language in asked if language.strip() not in there]
    if missing:
        raise DocumentError(
            "unsupported",
            f"ocr_languages has {missing[0]!r}, which Tesseract lacks; it has: {', '.join(sorted(there))}"
            f" (Debian: apt-get install tesseract-ocr-{missing[0]})",
        )
    return "+".join(language.strip() for language in asked) or ("eng" if "eng" in there or not there else min(there))


def _leaves(tsv: str, scale: float) -> list[Leaf]:
    """Tesseract's paragraphs, in its order, as leaves of rows."""
    header, *rest = tsv.split("\n")
    names = header.split("\t")
    words = [dict(zip(names, cells, strict=True)) for line in rest if len(cells := line.split("\t")) == len(names)]
    words = [word for word in words if word["level"] == "5" and word["text"].strip()]
    if not words or median(float(word["conf"]) for word in words) < _SURE:
        return []
    lines: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for word in words:
        if float(word["conf"]) >= _SURE:
            lines.setdefault((word["block_num"], word["par_num"], word["line_num"]), []).append(word)
    leaves: dict[tuple[str, ...], Leaf] = {}
    for key, found in lines.items():
        leaves.setdefault(key[:2], []).append(_row(found, scale))
    return list(leaves.values())


def _row(words: list[Mapping[str, str]], scale: float) -> Row:
    boxes = [[float(word[name]) / scale for name in ("left", "top", "width", "height")] for word in words]
    x0, y0 = min(box[0] for box in boxes), min(box[1] for box in boxes)
    x1, y1 = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    text = " ".join(cleaned(word["text"]) for word in words)
    return Row(text, (x0, y0, x1, y1), 10.0, hidden=True)  # one size: heights of words say little
