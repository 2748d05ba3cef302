"""Damaged files of every format through the real job: it ends, every file is accounted for, and what it gives is sound.

pytest tests/test_fuzz.py               # a small lot
pytest tests/test_fuzz.py -m long -s    # two thousand files, and what became of them
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pymupdf
import pytest

from chunkmill.io import table
from chunkmill.io.parsers import FORMATS, Parsed, detect
from chunkmill.io.schema import blocks_of
from chunkmill.jobs import pipeline, plan
from chunkmill.jobs.config import Job, load
from sound import assert_sound

OPEN = Path(__file__).parents[2] / "shared" / "corpus" / "open"
LARGEST = 300_000  # bytes of a file of the corpus
TIMEOUT_S = 20
PROSE = "The keeper trims the wick at dusk. Is the tide high? “Naïve,” he said – 灯台 שלום 👩‍👩‍👧.\n"


class Seed(NamedTuple):
    """A sound file to be damaged; `name` ends in its extension."""

    name: str
    data: bytes


Mutation = Callable[[random.Random, bytes, bytes], bytes]  # of a file, with another one at hand


def flip(rng: random.Random, data: bytes, other: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(2 ** rng.randrange(7)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def duplicate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A range once more, or so often that work in the square of it would show."""
    a, b = _range(rng, data)
    return data[:b] + data[a:b] * rng.choice((1, 2, LARGEST // (b - a))) + data[b:]


def zero(rng: random.Random, data: bytes, other: bytes) -> bytes:
    a, b = _range(rng, data)
    return data[:a] + bytes(b - a) + data[b:]


def swap(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Exchange two ranges: what is sound alone comes at the wrong place."""
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


MUTATIONS: tuple[Mutation, ...] = (flip, truncate, splice, duplicate, zero, swap)


def _range(rng: random.Random, data: bytes) -> tuple[int, int]:
    at = rng.randrange(len(data))
    return at, min(len(data), at + 2 ** rng.randrange(1, 13))


def mutated(rng: random.Random, seed: Seed, other: Seed) -> Seed:
    """The seed damaged in one way, or under another's name; the new name says how.

    In half of the packed files it is the content that is damaged: their checksums would keep most damage from the parsers.
    """
    mutate = rng.choice((*MUTATIONS, None))
    if mutate is None:
        return Seed(f"renamed {seed.name} to.{other.name.rpartition('.')[2]}", seed.data)
    inside = _inside(rng, seed.data, lambda data: mutate(rng, data, other.data)) if rng.random() < 0.5 else None
    if inside is None:
        return Seed(f"{mutate.__name__} {seed.name}", mutate(rng, seed.data, other.data))
    return Seed(f"{mutate.__name__} inside {seed.name}", inside)


def _inside(rng: random.Random, data: bytes, mutate: Callable[[bytes], bytes]) -> bytes | None:
    """The packed file with one of its files damaged and packed again; None where nothing is packed."""
    if data.startswith(b"\x1f\x8b"):
        return gzip.compress(mutate(gzip.decompress(data)), mtime=0)
    if not data.startswith(b"PK\3\4"):
        return None
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    chosen = rng.choice([name for name, content in files.items() if content])
    return zipped(files | {chosen: mutate(files[chosen])})


def zipped(files: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # without the time of day
    return out.getvalue()


MAIL = """From: Ann <a@b.org>
Subject: =?utf-8?q?caf=C3=A9?=
Date: Thu, 1 Jan 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="x"

--x
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Dear Bo,=20
caf=C3=A9?
> quoted
--x
Content-Type: text/html

<p>b</p>
--x
Content-Type: text/csv; name="t.csv"
Content-Disposition: attachment; filename="t.csv"
Content-Transfer-Encoding: base64

YSxiCjEsMgo=
--x--
"""
RTF = r"{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\info{\title T}}\b One\b0\par \'e9\u8364?\trowd\cellx99 a\cell b\cell\row}"
RST = "One\n===\n\n{}\n.. note:: n\n\n* a\n* b\n\n== ==\nx  y\n== ==\n1  2\n== ==\n\n::\n\n  code\n"
ASCIIDOC = "= One\n:a: b\n\n== Two\n{}\n* a\n** b\n\n|===\n|x |y\n|1 |2\n|===\n\n----\ncode\n----\n"
MARKDOWN = (
    "---\ntitle: A\n---\n# One\n\n{}\n- a\n  - b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n> q\n\n## Two\n"
)
LATEX = r"""\documentclass{article}\title{T}
\begin{document}\section{S}
\begin{itemize}\item a\end{itemize}$x^2$\begin{tabular}{l}a & b \\ c\end{tabular}\end{document}"""
HTML = "<!doctype html><title>T</title><h1>One</h1><p>{}<ul><li>a<li>b</ul><table><tr><th>x<td>y</table><pre>z</pre>"
PYTHON = 'class A:\n    def f(self, x):\n        """Doc."""\n        return {"a": [x, 1]}\n\n\n'
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# One\n", PROSE]},
        {"cell_type": "code", "metadata": {}, "source": "x = 1", "outputs": [{"output_type": "stream", "text": ["out\n"]}]},
    ],
    "metadata": {"kernelspec": {"language": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def small_seeds() -> list[Seed]:
    """A small file of every format."""
    texts = {
        "a.txt": PROSE * 30,
        "b.md": MARKDOWN.format(PROSE) * 4,
        "c.html": HTML.format(PROSE),
        "d.xml": f'<?xml version="1.0"?><article><title>T</title><sec><title>S</title><p>{PROSE}</p></sec></article>',
        "e.rtf": RTF,
        "f.rst": RST.format(PROSE),
        "g.adoc": ASCIIDOC.format(PROSE),
        "h.tex": LATEX,
        "i.csv": "name,says\n" + 'Ann,"one, ""two""\nthree"\nBo,é\n' * 20,
        "j.json": json.dumps({"title": "T", "items": [{"a": 1.5, "b": [None, True, PROSE]}] * 9}),
        "k.jsonl": "".join(json.dumps({"id": n, "text": PROSE * n}) + "\n" for n in range(9)),
        "l.ipynb": json.dumps(NOTEBOOK),
        "m.eml": MAIL,
        "n.mbox": f"From a@b Thu Jan  1 00:00:00 1970\n{MAIL}\n\n" * 3,
        "o.srt": "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n- {n}: {PROSE}\n" for n in range(1, 20)),
        "p.py": PYTHON * 5,
        "q.fodt": f"<?xml version='1.0'?>{tag('office:document', WRITTEN)}",
    }
    files = {name: text.encode() for name, text in texts.items()}
    files |= {"t.pdf": pdf(), "u.parquet": parquet()}
    return [Seed(name, data) for name, data in [*files.items(), *office(), ("G.epub", book()), *containers(files)]]


OASIS = "urn:oasis:names:tc:opendocument:xmlns"
OOXML = "http://schemas.openxmlformats.org"
KINDS = {"w": "wordprocessingml", "p": "presentationml", "s": "spreadsheetml", "a": "drawingml"}
NAMES = {n: f"{OASIS}:{n}:1.0" for n in ("office", "text", "table", "presentation", "style")} | {
    "draw": f"{OASIS}:drawing:1.0",
    "r": f"{OOXML}/officeDocument/2006/relationships",
    **{prefix: f"{OOXML}/{kind}/2006/main" for prefix, kind in KINDS.items()},
}


def tag(name: str, inner: str) -> str:
    """An element with all namespaces."""
    return f"<{name} {' '.join(f'xmlns:{prefix}={chr(34)}{uri}{chr(34)}' for prefix, uri in NAMES.items())}>{inner}</{name}>"


def nested(names: str, inner: str) -> str:
    """Elements in one another."""
    return "".join(f"<{n}>" for n in names.split()) + inner + "".join(f"</{n}>" for n in reversed(names.split()))


PARAGRAPHS = f'<text:h text:outline-level="1">One</text:h><text:p>a<text:s text:c="3"/>{PROSE}</text:p>'
CELL = '<table:table-cell office:value-type="string"><text:p>x</text:p></table:table-cell>'
TABLE = (
    f'<table:table table:name="S"><table:table-row table:number-rows-repeated="2">{CELL * 2}</table:table-row></table:table>'
)
LIST = nested("text:list text:list-item", PARAGRAPHS)
WRITTEN = nested("office:body office:text", PARAGRAPHS + LIST + TABLE)
SLIDES = nested("office:body office:presentation draw:page draw:frame draw:text-box", PARAGRAPHS)
SHEETS = nested("office:body office:spreadsheet", TABLE)
NUMBERED = f"<w:p><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr>{nested('w:r w:t', PROSE)}</w:p>"
WORD = nested("w:body", NUMBERED * 3 + nested("w:tbl w:tr", nested("w:tc", NUMBERED) * 2))
TITLE = '<p:nvSpPr><p:cNvPr id="1" name="x"/><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr>'
SLIDE = nested("p:cSld p:spTree", nested("p:sp", TITLE + nested("p:txBody a:p a:r a:t", PROSE)) * 2)
ROW = '<s:row r="{0}"><s:c r="A{0}" t="inlineStr"><s:is><s:t>x</s:t></s:is></s:c><s:c r="B{0}"><s:v>{0}.5</s:v></s:c></s:row>'
ROWS = nested("s:sheetData", "".join(map(ROW.format, (1, 2, 4))))


def relations(kind: str, target: str) -> str:
    link = f'<Relationship Id="r1" Type="{NAMES["r"]}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{OOXML}/package/2006/relationships">{link}</Relationships>'


def office() -> Iterator[tuple[str, bytes]]:
    """Documents, presentations and workbooks of Office and OpenDocument."""
    types = {"[Content_Types].xml": f'<Types xmlns="{OOXML}/package/2006/content-types"/>'}
    deck, book = (
        '<p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst>',
        '<s:sheets><s:sheet name="S" sheetId="1" r:id="r1"/></s:sheets>',
    )
    written = {"word/document.xml": tag("w:document", WORD)}
    shown = {
        "ppt/presentation.xml": tag("p:presentation", deck),
        "ppt/_rels/presentation.xml.rels": relations("slide", "slides/slide1.xml"),
        "ppt/slides/slide1.xml": tag("p:sld", SLIDE),
    }
    counted = {
        "xl/workbook.xml": tag("s:workbook", book),
        "xl/_rels/workbook.xml.rels": relations("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": tag("s:worksheet", ROWS),
    }
    for name, parts in {"A.docx": written, "B.pptx": shown, "C.xlsx": counted}.items():
        yield name, zipped(types | {"_rels/.rels": relations("officeDocument", next(iter(parts)))} | parts)
    for name, kind, body in (("D.odt", "text", WRITTEN), ("E.odp", "presentation", SLIDES), ("F.ods", "spreadsheet", SHEETS)):
        manifest = {"META-INF/manifest.xml": f'<m:manifest xmlns:m="{OASIS}:manifest:1.0"/>'}
        content = {"content.xml": tag("office:document-content", body)}
        yield name, zipped({"mimetype": f"application/vnd.oasis.opendocument.{kind}"} | content | manifest)


def book() -> bytes:
    item = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
    files = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": nested("container rootfiles", '<rootfile full-path="b.opf" media-type="x"/>'),
        "b.opf": nested("package", f'<manifest>{item}</manifest><spine><itemref idref="a"/></spine>'),
        "a.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>One</h1><p>{PROSE}</p></body></html>',
    }
    return zipped(files)


def containers(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Archives and compressed files around the others."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("a.txt", "c.html", "i.csv"):
            info = tarfile.TarInfo(f"in/{name}")
            info.size = len(files[name])
            archive.addfile(info, io.BytesIO(files[name]))
    yield "v.tar", packed.getvalue()
    yield "w.zip", zipped({"b.md": files["b.md"], "x/j.json": files["j.json"], "deep.zip": zipped({"p.py": files["p.py"]})})
    yield "x.txt.gz", gzip.compress(files["a.txt"], mtime=0)
    yield "x.html.bz2", bz2.compress(files["c.html"])
    yield "x.tar.xz", lzma.compress(packed.getvalue())
    yield "x.csv.zst", pa.compress(files["i.csv"], "zstd", asbytes=True)


def pdf() -> bytes:
    with pymupdf.open() as doc:
        for number in (1, 2):
            page = doc.new_page()
            page.insert_text((72, 72), f"Chapter {number}", fontsize=20)
            page.insert_textbox((72, 100, 500, 300), PROSE * 4)
        doc.set_toc([[1, "Chapter 1", 1], [1, "Chapter 2", 2]])
        return bytes(doc.tobytes(no_new_id=True))


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(20)), "text": [PROSE * (n % 5) for n in range(20)]}), out)
    return out.getvalue()


def corpus_seeds() -> list[Seed]:
    """Real files, where they are here."""
    files = (p for p in sorted(OPEN.rglob("*")) if p.is_file() and 0 < p.stat().st_size < LARGEST)
    return [Seed(p.name, p.read_bytes()) for p in files]


def by_format(seeds: list[Seed]) -> dict[str, list[Seed]]:
    found: dict[str, list[Seed]] = {}
    for seed in seeds:
        found.setdefault(detect(seed.name, seed.data), []).append(seed)
    return found


def damaged(seeds: list[Seed], number: int, rng: random.Random) -> Iterator[Seed]:
    """As many files of each format, each under a name of its own."""
    formats = list(by_format(seeds).values())
    for n in range(number):
        seed = rng.choice(formats[n % len(formats)])
        new = mutated(rng, seed, rng.choice(rng.choice(formats)))
        yield Seed(f"{n:04} {new.name}", new.data)


def job(folder: Path) -> Job:
    settings: dict[str, Any] = {
        "input": str(folder / "in"),
        "output": str(folder / "out"),
        "embed": None,
        "chunk": {"strategy": "auto", "size": 200, "overlap": 20},
        "formats": {"pdf": {"ocr": "off"}},  # whether Tesseract is here must not decide
        "run": {"document_timeout_s": TIMEOUT_S},
    }
    return load(settings)


def survives(folder: Path, seeds: list[Seed], number: int, rng: random.Random) -> list[dict[str, Any]]:
    """The ledger of a run over so many damaged files; asserts what must hold of any run."""
    (folder / "in").mkdir()
    for name, data in damaged(seeds, number, rng):
        (folder / "in" / name).write_bytes(data)
    this = job(folder)
    listed = plan.listed(this)["uri"].to_pylist()

    pipeline.run(this)

    ledger = table.read(this.output, "documents").to_pylist()
    assert len(listed) == number
    assert {row["source"] for row in ledger} == set(listed)
    assert len({row["uri"] for row in ledger}) == len(ledger)
    for row in ledger:
        assert (row["status"], row["error_kind"] is None) in {("ok", True), ("empty", True), ("failed", False)}
        assert_sound(Parsed(row["text"] or "", blocks_of(row["blocks"] or ()), dict(row["metadata"] or ())))
    chunks_are_sound(this, {row["doc_id"]: row for row in ledger})
    return ledger


def chunks_are_sound(this: Job, ledger: dict[str, dict[str, Any]]) -> None:
    chunks = table.read(this.output, "chunks").to_pylist()
    assert len({c["chunk_id"] for c in chunks}) == len(chunks)
    for c in chunks:
        assert ledger[c["doc_id"]]["text"][c["start"] : c["end"]] == c["text"]
    counts = Counter(c["doc_id"] for c in chunks)
    assert {doc_id: counts[doc_id] for doc_id in ledger} == {doc_id: row["n_chunks"] for doc_id, row in ledger.items()}
    assert all((counts[doc_id] > 0) == (row["status"] == "ok") for doc_id, row in ledger.items())


def of_kind(ledger: list[dict[str, Any]], *kinds: str) -> list[str]:
    """Which documents failed so, and why."""
    return [f"{Path(row['source']).name}: {row['error_kind']}: {row['error']}" for row in ledger if row["error_kind"] in kinds]


def test_there_is_a_seed_of_every_format_and_each_gives_chunks(ray_here, tmp_path):
    seeds = small_seeds()
    (tmp_path / "in").mkdir()
    for name, data in seeds:
        (tmp_path / "in" / name).write_bytes(data)

    assert set(by_format(seeds)) == set(FORMATS)
    assert pipeline.run(job(tmp_path)).failed == 0
    read = {Path(row["source"]).name for row in table.read(str(tmp_path / "out"), "documents").to_pylist() if row["n_chunks"]}
    assert read == {seed.name for seed in seeds}


def test_damaged_files_cost_nothing_but_themselves(ray_here, tmp_path):
    ledger = survives(tmp_path, small_seeds(), 120, random.Random(1))

    assert of_kind(ledger, "internal", "timeout", "crashed") == []


@pytest.mark.long
def test_two_thousand_damaged_files_of_all_formats_are_accounted_for(ray_here, tmp_path):
    started = time.monotonic()

    ledger = survives(tmp_path, small_seeds() + corpus_seeds(), 2_000, random.Random(2))

    print(f"\n{len(ledger):,} documents in {time.monotonic() - started:.0f} s")
    print(Counter(row["error_kind"] or row["status"] for row in ledger).most_common())
    crashed = of_kind(ledger, "crashed")
    print(*crashed, sep="\n")
    assert of_kind(ledger, "internal", "timeout") == []
    assert len(crashed) < 10
