"""A document that is too large for one row: in parts it has the chunks that it has in one, once, and one row in the ledger."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chunkmill.chunkers import places, structure
from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.base import Block, Document, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.identity import identities
from chunkmill.chunkers.measure import tokenizer
from chunkmill.io import parquet, runs, table
from chunkmill.io.corpus import list_sources
from chunkmill.io.parsers import parse
from chunkmill.jobs import documents, isolation, parts, pipeline, plan, rows, stages, united
from chunkmill.jobs.config import Job, load
from chunkmill.jobs.rows import Row
from counted import Tally

WORDS = ["lamp", "oil", "wick", "tide", "fog", "bell", "harbour", "chart", "anchor", "mast", "storm", "keeper", "signal"]
SIZE_MB = 0.004  # some 4,000 characters
AGAIN = "The same paragraph comes again."


def prose(rng: random.Random, sentences: int) -> str:
    return " ".join(" ".join(rng.choices(WORDS, k=9)).capitalize() + "." for _ in range(sentences))


def markdown(seed: int = 1, sections: int = 60) -> str:
    rng = random.Random(seed)
    body = (f"{'#' * (2 + i % 3)} Part {i}\n\n{prose(rng, 3)}\n\n{AGAIN}\n\n{prose(rng, 4)}\n\n" for i in range(sections))
    return "# The *log*\n\n" + "".join(body)


def csv(rows: int = 900) -> str:
    rng = random.Random(2)
    return "number,keeper,remark\r\n" + "".join(f'{i},{rng.choice(WORDS)},"{prose(rng, 1)}\n"\r\n' for i in range(rows))


def code() -> str:
    rng = random.Random(3)
    return "import os\n\n\n" + "".join(
        f"def {rng.choice(WORDS)}_{i}(n):\n    m = n + {i}\n\n    return m\n\n\n" for i in range(300)
    )


def pipes() -> str:
    rng = random.Random(4)
    body = "".join(f"| {i} | {rng.choice(WORDS)} | {prose(rng, 1)} |\n" for i in range(300))
    return (
        f"# A table\n\nTable 1: what there is.\n\n| n | what | why |\n| - | - | - |\n{body}\n## Behind it\n\n{prose(rng, 90)}\n"
    )


FILES = {
    "log.md": markdown(),
    "log.txt": markdown(5).replace("#", ""),
    "line.txt": prose(random.Random(6), 400),
    "word.txt": "a" * 9_000,
    "wide.txt": "灯台の光は霧の中でも見える。" * 800,
    "keepers.csv": csv(),
    "tool.py": code(),
    "table.md": pipes(),
}
CASES = [
    ("log.md", {"strategy": "section", "context": "headings"}),
    ("log.md", {"strategy": "recursive", "overlap": 8}),
    ("log.md", {"strategy": "hierarchical"}),
    ("log.md", {"strategy": "optimal", "context": "headings"}),
    ("log.md", {"strategy": "fixed"}),
    ("log.txt", {"strategy": "recursive"}),
    ("line.txt", {"strategy": "sentence"}),
    ("word.txt", {"strategy": "recursive", "unit": "chars"}),
    ("wide.txt", {"strategy": "recursive", "unit": "chars"}),
    ("keepers.csv", {"strategy": "table"}),
    ("keepers.csv", {"strategy": "recursive"}),
    ("tool.py", {"strategy": "code"}),
    ("tool.py", {"strategy": "auto"}),
    ("table.md", {"strategy": "table", "context": "headings"}),
    ("table.md", {"strategy": "modality"}),
]


def job(source: Path, chunk: dict[str, Any] | None = None, **settings: Any) -> Job:
    """A job whose parts are small, in this process."""
    run = {"part_size_mb": SIZE_MB, "isolate": False} | settings.pop("run", {})
    shared = {"size": 60, "overlap": 0, "unit": "words"} | (chunk or {})
    given = {"input": str(source), "output": f"{source}-out", "embed": None, "chunk": shared, "run": run}
    return load(given | settings)


def sources(source: Path) -> list[dict[str, Any]]:
    unknown = {"known": False, "known_hash": None, "ledger": None}
    return [row | unknown for row in pa.concat_tables(list_sources(str(source))).to_pylist()]


def prepared(this: Job, source: Path) -> list[dict[str, Any]]:
    found = pa.concat_tables([rows.ROW.empty_table(), *documents.prepared(sources(source), this)])
    return found.drop_columns(["seconds"]).to_pylist()


def chunks_of(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [c for row in found for c in row["chunks"]]


def written(folder: Path, name: str, text: str = "") -> Path:
    path = folder / name
    path.write_bytes((text or FILES[name]).encode())
    return path


def document(path: Path) -> Document:
    """The file as it is parsed."""
    (found,) = parse(path.read_bytes(), str(path))
    return Document("", str(path), found.text, found.blocks, found.metadata)


# What holds of any document in parts


@pytest.mark.parametrize(("name", "chunk"), CASES, ids=lambda value: value if isinstance(value, str) else value["strategy"])
def test_in_parts_a_document_keeps_all_promises(tmp_path: Path, name: str, chunk: dict[str, Any]) -> None:
    path = written(tmp_path, name)
    doc = document(path)

    *pieces, own = prepared(job(path, chunk), path)
    found = chunks_of(pieces)
    leaves = [c for c in found if c["level"] == 0]

    assert len(pieces) > 1
    assert [p["status"] for p in pieces] == ["part"] * len(pieces)
    assert [p["part"] for p in pieces] == list(range(len(pieces)))
    assert (own["status"], own["part"], own["ordinal"], own["last"], own["chunks"]) == ("ok", None, 0, True, [])
    assert own["whole"] == {
        "parts": len(pieces),
        "chunks": len(found),
        "tokens": sum(c["n_tokens"] for c in found),
    }
    assert all(c["text"] == doc.text[c["start"] : c["end"]] for c in found)
    assert [c["ordinal"] for c in found] == list(range(len(found)))
    ids = [c["chunk_id"] for c in found]
    assert ids == identities(own["doc_id"], [c["level"] for c in found], [c["text"] for c in found])
    assert len(set(ids)) == len(ids)
    reached = 0
    for c in leaves:
        assert not doc.text[reached : c["start"]].strip()
        assert c["end"] > reached
        reached = c["end"]
    assert not doc.text[reached:].strip()
    unit = tokenizer(chunk.get("unit", "words"))
    context = ["\n".join(filter(None, (c["context"], c["text"]))) for c in found]
    assert [c["n_tokens"] for c in found] == unit.count(context)
    assert max(c["n_tokens"] for c in leaves) <= 60


@pytest.mark.parametrize(("name", "chunk"), CASES, ids=lambda value: value if isinstance(value, str) else value["strategy"])
def test_chunks_stand_where_they_stand_in_the_whole(tmp_path: Path, name: str, chunk: dict[str, Any]) -> None:
    path = written(tmp_path, name)
    doc = document(path)
    headings, chunk = structure.outline(doc), chunk | {"overlap": 0}

    found = chunks_of(prepared(job(path, chunk), path))

    spans = [Span(c["start"], c["end"]) for c in found]
    if name != "tool.py":  # paths of code are names
        assert [tuple(c["heading_path"]) for c in found] == [headings.of(doc.text, *s) if headings.paths else () for s in spans]
    assert [(c["row_start"], c["row_end"]) for c in found] == places.rows(doc, spans)
    assert [(c["line_start"], c["line_end"]) for c in found] == places.lines(doc, spans)
    if chunk.get("context") == "headings" and name == "log.md":
        known = structure.heading_contexts(headings, tokenizer("words"), 60)
        assert [c["context"] for c in found] == [known.of(s.start) for s in spans]


def test_rows_of_a_table_have_its_header_in_every_part(tmp_path: Path) -> None:
    path = written(tmp_path, "keepers.csv")

    first, *rest = chunks_of(prepared(job(path, {"strategy": "table"}), path))

    assert first["text"].startswith("number,keeper,remark")
    assert {c["context"] for c in rest} == {"number,keeper,remark"}


def test_the_header_of_markdown_goes_with_the_headings(tmp_path: Path) -> None:
    path = written(tmp_path, "table.md")

    found = chunks_of(prepared(job(path, {"strategy": "table", "context": "headings"}), path))

    contexts = Counter(c["context"] for c in found if c["kind"] == "table" and c["row_start"])
    assert contexts.keys() == {"A table\n| n | what | why |\n| - | - | - |"}


def test_chunks_of_a_part_have_their_parents_in_it(tmp_path: Path) -> None:
    path = written(tmp_path, "log.md")
    levels = [{"strategy": "section", "size": 200}, {"strategy": "sentence", "size": 40}]

    found = chunks_of(prepared(job(path, {"strategy": "hierarchical", "levels": levels}), path))

    by_id = {c["chunk_id"]: c for c in found}
    children = [c for c in found if c["level"] == 0]
    assert all(by_id[c["parent_id"]]["start"] <= c["start"] and c["end"] <= by_id[c["parent_id"]]["end"] for c in children)
    assert {c["level"] for c in found} == {0, 1}


def test_a_parent_that_came_before_is_another_one(tmp_path: Path) -> None:
    section = f"## Again\n\n{prose(random.Random(9), 20)}\n\n"
    path = written(tmp_path, "same.md", section * 20)
    levels = [{"strategy": "section", "size": 300}, {"strategy": "sentence", "size": 40}]

    found = chunks_of(prepared(job(path, {"strategy": "hierarchical", "levels": levels}), path))

    by_id = {c["chunk_id"]: c for c in found}
    assert len(by_id) == len(found)
    children = [c for c in found if c["level"] == 0]
    assert all(by_id[c["parent_id"]]["start"] <= c["start"] < by_id[c["parent_id"]]["end"] for c in children)


def test_pages_go_on_from_part_to_part() -> None:
    pages = [prose(random.Random(i), 12) for i in range(30)]
    text, blocks, at = "\n\n".join(pages), [], 0
    for number, page in enumerate(pages, 1):
        half = page.index(". ", len(page) // 2) + 2
        blocks += [
            Block("paragraph", Span(at, at + half - 1), page=number),
            Block("paragraph", Span(at + half, at + len(page))),
        ]
        at += len(page) + 2
    doc = Document("d", "d.pdf", text, tuple(blocks))

    found = [c for part in cut(doc, {"strategy": "page"}) for c in part]

    assert [(c["page_start"], c["page_end"]) for c in found] == [
        (text[: c["start"]].count("\n\n") + 1, text[: c["end"]].count("\n\n") + 1) for c in found
    ]


def cut(doc: Document, chunk: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The chunks of each part."""
    this = job(Path("/nowhere"), chunk)
    tables = parts.divided(row(doc), this)
    return [chunks_of(t.to_pylist()) for t in tables][:-1]


def row(doc: Document) -> Row:
    names = {f.name for f in rows.OF_DOCUMENT} | {"ordinal", "last"}
    given = {
        "doc_id": doc.id,
        "uri": doc.uri,
        "source": doc.uri,
        "format": "text",
        "parser": "text-1",
        "ordinal": 0,
        "last": True,
    }
    return Row(dict.fromkeys(names) | given, doc)


def test_a_document_that_is_not_larger_is_as_it_was(tmp_path: Path) -> None:
    text = markdown()[:4096]
    exact = written(tmp_path, "exact.md", text)

    small, large = (prepared(job(exact, run={"part_size_mb": mb}), exact) for mb in (4096 / (1 << 20), 32))

    assert small == large
    assert small[0]["text"] == text
    assert [c["chunk_id"] for c in small[0]["chunks"]] == [
        c.id for c in chunk(Document(small[0]["doc_id"], "", text, document(exact).blocks), size=60, unit="words")
    ]


@pytest.mark.parametrize("kept", [1, 4, 9])
def test_an_edit_leaves_most_chunks_alone(tmp_path: Path, kept: int) -> None:
    text = markdown(sections=120)
    path = written(tmp_path, "log.md", text)
    before = {c["chunk_id"] for c in chunks_of(prepared(job(path), path))}
    at = [m.start() for m in re.finditer(AGAIN, text)][kept]
    written(tmp_path, "log.md", f"{text[:at]}{'Something was seen at sea. ' * kept}{text[at:]}")

    after = {c["chunk_id"] for c in chunks_of(prepared(job(path), path))}

    assert len(after - before) <= 12
    assert len(before - after) <= 12


def test_behind_an_insertion_parts_soon_begin_where_they_began() -> None:
    text = prose(random.Random(10), 3000)
    more = prose(random.Random(11), 20) + " "

    before, after = ({s.start for s in parts.spans(Document("", "", t), 8000)} for t in (text, more + text))

    common = before & {start - len(more) for start in after}
    assert len(common) > len(before) * 0.7


def test_what_follows_a_large_document_in_its_source_comes_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    texts = ["short", FILES["line.txt"], "short again", FILES["line.txt"][:6000]]
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))

    found = [r for r in prepared(job(path), path) if r["part"] is None]

    assert [(r["uri"][-2:], r["status"], r["ordinal"], r["last"]) for r in found] == [
        ("#1", "ok", 0, False),
        ("#2", "ok", 1, False),
        ("#3", "ok", 2, False),
        ("#4", "ok", 3, True),
    ]


def test_parts_that_came_through_are_not_given_again(tmp_path: Path) -> None:
    doc = Document("d", "d.md", FILES["log.md"], document(written(tmp_path, "log.md")).blocks)
    this = job(tmp_path)
    whole = [t.to_pylist() for t in parts.divided(row(doc), this)]

    assert [t.to_pylist() for t in parts.divided(row(doc), this, 3)] == whole[3:]


def counted(this: Job, source: Path) -> list[Counter[str]]:
    """What the tally has after each table that is prepared."""
    tally = Tally()
    return [tally.counts.copy() for _ in stages.prepare(pa.Table.from_pylist(sources(source)), this, tally)]


@pytest.mark.parametrize("said", ["", "FAIL"])
def test_the_bytes_of_a_large_file_are_counted_part_by_part_and_once(tmp_path: Path, child: None, said: str) -> None:
    path = corpus(tmp_path / "in", said) / "b.txt"

    *parts_, last = counted(faulty(path), path)

    size = path.stat().st_size
    read = [counts["bytes"] for counts in parts_]
    assert len(read) > 1
    assert all(SIZE_MB * 2**20 / 2 < more < SIZE_MB * 2**20 for more in (b - a for a, b in pairwise([0, *read[:-1]])))
    assert (last["bytes"], last["documents"], last["failed"]) == (size, 1, bool(said))
    assert last["due"] == last["done"] > 0


def test_of_a_source_with_many_documents_bytes_count_document_by_document(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"text": "{FILES["line.txt"]}"}}\n' for _ in range(4)))

    found = counted(job(path), path)

    size = path.stat().st_size
    assert sorted({counts["bytes"] for counts in found}) == pytest.approx([0, size / 4, size / 2, size * 3 / 4, size], abs=1)
    assert (found[-1]["bytes"], found[-1]["documents"]) == (size, 4)


def test_with_late_pooling_a_part_is_read_as_a_document(tmp_path: Path, offline_model: Any) -> None:
    path = written(tmp_path, "line.txt")
    this = job(path, {"unit": "tokens"}, embed={"pooling": "late"})

    found = pa.concat_tables(documents.prepared(sources(path), this))

    for part, reading in zip(found.to_pylist(), rows.readings(found), strict=True):
        spans = reading.spans.tolist()
        assert [b - a for a, b in spans] == [c["n_tokens"] - 2 for c in part["chunks"]]
        assert [*(a for a, _ in spans), len(reading.ids)] == [0, *(b for _, b in spans)]


def test_where_a_model_decides_a_document_goes_whole_or_fails(tmp_path: Path, offline_model: Any, monkeypatch: Any) -> None:
    path = written(tmp_path, "line.txt")
    this = job(path, {"strategy": "semantic", "unit": "tokens"}, embed={})
    (whole,) = prepared(this, path)
    monkeypatch.setattr(parts, "WHOLE_MOST", 1000)

    (failed,) = prepared(this, path)

    assert (whole["status"], whole["text"]) == ("ok", FILES["line.txt"])
    assert (failed["status"], failed["error_kind"]) == ("failed", "too_large")
    assert "a strategy that asks a model" in failed["error"]


# Failures


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A child of the test's own, which finds the strategy."""
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    monkeypatch.setattr(isolation, "_idle", [])
    yield
    for each in isolation._idle:
        each.end()


def corpus(folder: Path, said: str = "") -> Path:
    """Two small documents and, between them, a large one that says something in a later part."""
    folder.mkdir()
    (folder / "a.txt").write_text("first")
    text = prose(random.Random(8), 400).replace(". ", ".\n\n")
    at = text.index("\n\n", 10_000)
    (folder / "b.txt").write_text(f"{text[:at]}\n\n{said}{text[at:]}")
    (folder / "c.txt").write_text("last")
    return folder


def faulty(folder: Path, **run: Any) -> Job:
    return job(folder, {"strategy": "faulty_parts:Paragraphs"}, run=run)


@pytest.mark.parametrize(("said", "isolate"), [("FAIL", False), ("FAIL", True), ("ABORT", True)])
def test_a_failure_in_a_later_part_is_that_of_the_document(tmp_path: Path, child: None, said: str, isolate: bool) -> None:
    folder = corpus(tmp_path / "in", said)

    found = [r for t in isolation.isolated(sources(folder), faulty(folder, isolate=isolate)) for r in t.to_pylist()]

    ended = [(Path(r["uri"]).name, r["status"], r["error_kind"]) for r in found if r["status"] != "part"]
    kind = {"FAIL": "corrupt", "ABORT": "crashed"}[said]
    assert sorted(ended) == [("a.txt", "ok", None), ("b.txt", "failed", kind), ("c.txt", "ok", None)]
    if said == "FAIL":
        (error,) = (r["error"] for r in found if r["error"])
        assert re.fullmatch(r"from character [6-9],\d{3} on: it says so", error)


def test_a_part_whose_process_dies_once_comes_once(tmp_path: Path, child: None) -> None:
    folder = corpus(tmp_path / "in", f"ONCE {tmp_path / 'died'}")

    found = [r for t in isolation.isolated(sources(folder), faulty(folder, isolate=True)) for r in t.to_pylist()]

    assert (tmp_path / "died").exists()
    large = [r for r in found if r["uri"].endswith("b.txt")]
    assert [r["part"] for r in large] == [*range(len(large) - 1), None]
    assert large[-1]["status"] == "ok"
    assert [c["ordinal"] for c in chunks_of(large)] == list(range(large[-1]["whole"]["chunks"]))


@pytest.mark.parametrize("known", [False, True])
def test_a_file_that_changes_before_its_rest_is_read_again_is_not_mixed_of_both(
    tmp_path: Path, child: None, known: bool
) -> None:
    folder = corpus(tmp_path / "in", f"CHANGE {tmp_path / 'in' / 'b.txt'}")
    rows_ = [row | {"known": known} for row in sources(folder)]

    found = [r for t in isolation.isolated(rows_, faulty(folder, isolate=True)) for r in t.to_pylist()]

    *before, last = (r for r in found if r["uri"].endswith("b.txt"))
    assert before
    assert {r["status"] for r in before} == {"part"}
    assert len({r["content_hash"] for r in before}) == 1
    assert (last["status"], last["error_kind"]) == ("kept" if known else "failed", "unreadable")
    assert "changed while it was read" in last["error"]
    assert found[-1]["uri"].endswith("c.txt")


def test_rows_that_follow_a_change_are_not_taken_for_the_rest_of_what_was_there(tmp_path: Path, child: None) -> None:
    through = documents.ALONE_ROWS  # have come when the process dies
    path, texts = tmp_path / "rows.jsonl", [f"Row {i}. {prose(random.Random(i), 3)}" for i in range(through + 700)]
    texts[through + 200] = f"CHANGE {path}"
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))

    found = [r for t in isolation.isolated(sources(path), faulty(path, isolate=True)) for r in t.to_pylist()]

    *before, last = found
    assert len(before) == through
    assert len({r["content_hash"] for r in before}) == 1
    assert (last["uri"], last["status"], last["error_kind"]) == (f"{path}!(the rest)", "failed", "unreadable")


def stored(this: Job, tables: Sequence[pa.Table], run_id: str = "dead") -> list[runs.Entry]:
    """What a run writes of these tables."""
    for each in tables:
        stages.write(each, this, run_id, Tally())
    return runs.journal(this.output, run_id)


def test_a_part_that_no_model_can_read_makes_the_document_a_failed_one(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    this = job(folder)
    tables = list(documents.prepared(sources(folder), this))
    at = next(i for i, t in enumerate(tables) if t["part"].to_pylist() == [1])
    tables[at] = rows.recut(tables[at], [DocumentError("unreadable", "no")])
    entries = stored(this, tables)

    found = united.united(this, entries, "dead")

    bodies = [parquet.body(this.output, f.table, f.path) for f in found.files]
    kept = [row for body in bodies if "status" in body.column_names for row in body.to_pylist()]
    assert sorted((Path(r["uri"]).name, r["status"], r["error"], r["n_chunks"]) for r in kept) == [
        ("a.txt", "ok", None, 1),
        ("b.txt", "failed", "no", 0),
        ("c.txt", "ok", None, 1),
    ]
    (large,) = (r["doc_id"] for r in kept if r["status"] == "failed")
    held = {f.path for f, gone in found.trimmed if gone.to_pylist() == [large]}
    of_parts = {f.path for e in entries for f in e.files if any(p.doc_id == large for p in e.parts)}
    assert held == of_parts
    assert found.chunks == sum(e.chunks for e in entries if e.parts)
    assert list(found.failed.values()) == [("unreadable", "no")]


def test_what_a_dead_run_left_of_a_document_counts_only_if_it_is_whole(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    this = job(folder)
    tables = list(documents.prepared(sources(folder), this))
    by_part = {t["part"].to_pylist()[0]: t for t in tables if t["uri"][0].as_py().endswith("b.txt")}
    others = [t for t in tables if not t["uri"][0].as_py().endswith("b.txt")]

    def adopted(run_id: str, *given: pa.Table) -> list[str]:
        stored(this, given, run_id)
        names = [Path(uri).name for uri in plan.plan(this).adopted.sources.to_pylist()]
        runs.forget(this.output, run_id)
        return names

    large = list(by_part.values())
    assert adopted("all", *others, *large) == ["a.txt", "b.txt", "c.txt"]
    assert adopted("one missing", *others, *(t for n, t in by_part.items() if n != 1)) == ["a.txt", "c.txt"]
    assert adopted("no end", *others, *(t for n, t in by_part.items() if n is not None)) == ["a.txt", "c.txt"]
    assert adopted("one twice", *others, *large, by_part[2]) == ["a.txt", "c.txt"]
    assert adopted("in one file", pa.concat_tables([*others, by_part[0], by_part[1]])) == ["a.txt", "c.txt"]


# Runs


def state(out: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Chunks and ledger by id, without what differs from run to run. Fails where one comes twice."""
    found = []
    for name, key in (("chunks", "chunk_id"), ("documents", "doc_id")):
        read = table.read(out, name).drop_columns(["run_id"]).to_pylist()
        found.append({r[key]: r for r in read})
        assert len(found[-1]) == len(read)
    return found[0], found[1]


def test_a_run_that_died_between_parts_goes_on_and_nothing_is_doubled_or_lost(ray_here: None, tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    this = job(folder)
    expected = pipeline.run(this.model_copy(update={"output": str(tmp_path / "undisturbed")}))
    tables = list(documents.prepared(sources(folder), this))
    stored(this, [t for t in tables if t["part"].to_pylist() != [2] and t["uri"][0].as_py()[-5:] != "c.txt"])

    summary = pipeline.run(this)

    assert summary.adopted == 1  # a.txt
    assert state(this.output) == state(str(tmp_path / "undisturbed"))
    assert (summary.chunks, summary.statuses) == (expected.chunks, expected.statuses)
    ledger = {Path(r["uri"]).name: r for r in state(this.output)[1].values()}
    chunks = [c for c in state(this.output)[0].values() if c["uri"].endswith("b.txt")]
    assert (ledger["b.txt"]["n_chunks"], ledger["b.txt"]["n_tokens"]) == (len(chunks), sum(c["n_tokens"] for c in chunks))
    assert ledger["b.txt"]["text"] is ledger["b.txt"]["blocks"] is None
    assert ledger["b.txt"]["parser"].endswith(" parts")
    assert ledger["a.txt"]["text"] == "first"


def test_nights_on_which_it_changes_and_recipes_under_which_it_is_read_again(ray_here: None, tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    pipeline.run(job(folder))
    before, _ = state(job(folder).output)
    text = (folder / "b.txt").read_text()
    (folder / "b.txt").write_text(text.replace("\n\n", "\n\nA ship passed.\n\n", 1))

    summary = pipeline.run(job(folder))
    after, _ = state(job(folder).output)
    assert (summary.changed, summary.unchanged) == (1, 2)
    assert len(after.keys() - before.keys()) <= 4

    again = job(folder, {"size": 30})
    assert [bool(s["ledger"]) for s in plan.plan(again).todo.sort_by("uri").to_pylist()] == [True, False, True]
    assert pipeline.run(again).statuses == {"ok": 3}
    assert all(c["n_tokens"] <= 30 for c in state(again.output)[0].values())


def test_a_large_file_that_changes_after_the_listing_is_read_as_it_is_and_looked_at_once_more(
    ray_here: None, tmp_path: Path
) -> None:
    folder = corpus(tmp_path / "in")
    this, changed = job(folder), [f"Other words, {i}." for i in range(1_000)]

    def change(*_: object) -> None:
        if changed:
            (folder / "b.txt").write_text("\n\n".join(changed))
            changed.clear()

    first = pipeline.run(this, change)
    second = pipeline.run(this)

    chunks, ledger = state(this.output)
    words = " ".join(c["text"] for c in sorted(chunks.values(), key=lambda c: c["start"]) if c["uri"].endswith("b.txt"))
    assert [int(n) for n in re.findall(r"Other words, (\d+)\.", words)] == list(range(1_000))
    assert first.statuses == {"ok": 3}
    assert (second.changed, second.touched, second.documents) == (1, 1, 0)
    assert pipeline.run(this).unchanged == 3
    assert {r["size"] for r in ledger.values()} == {path.stat().st_size for path in folder.iterdir()}


def test_of_a_document_that_fails_in_a_later_part_a_run_leaves_no_chunk(ray_here: None, tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in", "FAIL")
    this = faulty(folder, retention="0")

    summary = pipeline.run(this)

    chunks, ledger = state(this.output)
    assert sorted((Path(r["uri"]).name, r["status"], r["n_chunks"]) for r in ledger.values()) == [
        ("a.txt", "ok", 1),
        ("b.txt", "failed", 0),
        ("c.txt", "ok", 1),
    ]
    assert sorted(Path(c["uri"]).name for c in chunks.values()) == ["a.txt", "c.txt"]
    assert (summary.chunks, summary.statuses) == (2, {"ok": 2, "failed:corrupt": 1})
    assert len(list(Path(this.output, "chunks").rglob("*.parquet"))) == 1  # a plain glob is right
