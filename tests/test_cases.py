"""Faults that peers' users reported, and the articles' own examples, as cases that a file holds.

The cases live outside the repository (`../shared`), with their keys in words of their own: `ours` translates them, `CHECKS`
compare what a key expects, `INVARIANTS` hold, and `FACTS` say in code what a case says in prose. Before comparing, white space
at the ends of a span is trimmed. Where ours is wrong the case stands in `WRONG` until it is right.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import regex

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Block, Complete, Document, Embed, Span
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.finish import Chunk, Chunking
from chunkmill.chunkers.seams import clean, sentences, trim
from chunkmill.chunkers.strategies import STRATEGIES
from chunkmill.io.parsers import Parsed, parse
from vocabulary import ANSWERS, Bytes

SHARED = Path(__file__).parent.parent.parent / "shared"
FILES = (SHARED / "strategies" / "cases.jsonl", SHARED / "bugs" / "cases_open.jsonl")

ELSEWHERE = {  # strategies, or single cases, that no test of chunkers alone can answer
    "job": "about the job on Ray: tests of the run",
    "sink": "about writing and committing: tests of the table",
    "source": "about listing and fetching: tests of the storage",
    "embed": "about the model's batches and vectors: tests of the models",
    "block": "about Arrow blocks: tests of the schema",
    "late": "about vectors of late chunking: tests of the models",
    "dedup": "about duplicates across documents: tests of the run",
    "agentic": "asks a language model",
    "contextual": "asks a language model for the context",
    "propositions": "asks a language model",
    "BUG-101": "DESIGN has no setting for a number of chunks",
}
UNCHECKED = {  # clauses of cases that run here and that nothing of ours can answer yet
    "B-fixed-80-10": "token_counts are those of windows before trimming: the last one, trimmed, has 15",
    "BUG-003": "a counter of shortened contexts",
    "BUG-026": "the separator between context and body is ours, not a setting",
    "BUG-087": "the symbols' names",
    "BUG-127": "the picture's box",
    "BUG-133": "a counter of hidden spans",
    "BUG-147": "deleting one document leaves the other's row: a run's work",
    "BUG-207": "ten sentences per chunk are as many as fit",
}
WRONG: dict[str, str] = {  # case → why ours fails it
}


class Pieces:
    """A unit of size of which one is what `pieces` finds: a sentence, or a run up to a full stop."""

    name = "pieces"
    specials = 0
    additive = False

    def __init__(self, pieces: Callable[[str], Sequence[Span]]) -> None:
        self.pieces = pieces

    def starts(self, text: str) -> np.ndarray:
        return np.array([s.start for s in self.pieces(text)], np.int64)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(self.pieces(t)) for t in texts]


SENTENCES = Pieces(sentences)
STOPS = Pieces(lambda text: [Span(*m.span()) for m in re.finditer(r"[^.]+\.?", text)])
UNITS: dict[str, Any] = {
    "char": "chars",
    "ws": "words",
    "utf8": Bytes(),
    "tokens": "cl100k_base",
    "piece ending in '.'": STOPS,
}
NAMES = {  # the cases' words for strategies
    "character": ("fixed",),
    "markdown": ("section",),
    "html": ("section",),
    "hybrid/heading-context": ("section",),
    "fixed/semchunk-like": ("recursive", "fixed"),
    "clean": ("fixed",),
    "json": ("records",),
    "sentence/late": ("sentence",),
    "all": ("sentence",),
    "BUG-207": ("sentence",),
}
ALWAYS = {"section": {"merge": False}}
OPTIONS = {  # the cases' settings that are a strategy's own here, and what they are called
    "separator_is_regex": "regex",
    "overlap_before": "overlap_before",
    "markers": "markers",
    "language": "language",
    "max_rows_per_chunk": "rows",
    "preset": "preset",
    "parent_size": "parent_size",
    "child_size": "child_size",
    "child_overlap": "child_overlap",
    "window": "window",
}


def load() -> list[dict[str, Any]]:
    return [json.loads(line) for path in FILES if path.exists() for line in path.read_text("utf-8").splitlines()]


CASES = load()


class Run(NamedTuple):
    """A case's document as our settings cut it."""

    doc: Document
    cut: Chunking
    chunks: list[Chunk]
    seconds: float

    @property
    def leaves(self) -> list[Chunk]:
        return [c for c in self.chunks if c.level == 0]

    @property
    def texts(self) -> list[str]:
        return [c.text for c in self.leaves]

    def holding(self, text: str) -> list[Chunk]:
        """The leaves that hold the text."""
        return [c for c in self.leaves if text in c.text]

    def body(self, chunk: Chunk) -> str:
        """The chunk's text without its headings."""
        kept = list(chunk.text)
        for b in self.doc.blocks:
            if b.kind == "heading":
                start, end = (min(max(0, at - chunk.start), len(kept)) for at in b.span)
                kept[start:end] = " " * (end - start)
        return "".join(kept).strip()


def ours(case: dict[str, Any]) -> list[Chunking]:
    """The case's configuration in our words, once for each strategy it is about."""
    config = case["config"]
    names = NAMES.get(case["id"]) or NAMES.get(case["strategy"], (case["strategy"],))
    for name in names:
        if name not in STRATEGIES:
            pytest.skip(f"strategy {name} is not registered")
    if count := config.get("sentences_per_chunk"):
        return [chunking("sentence", size=count, unit=SENTENCES), sliding_sentences(count, "chars")]
    levels = config.get("levels", ())
    limits = [config[key] for key in ("size", "limit", "window", "model_limit", "parent_size") if key in config]
    unit = config.get("tokenizer") or config.get("unit") or "chars"
    shared = {
        "size": [*limits, *levels, 1000][0],
        "overlap": config.get("overlap", 0),
        "unit": UNITS.get(unit, unit),
        "context": "headings" if config.get("heading_context") else "none",
    }
    return [chunking(name, options(name, config), **shared) for name in names]


def sliding_sentences(count: int, unit: Any) -> Chunking:
    if "sliding" not in STRATEGIES:
        pytest.skip("strategy sliding is not registered")
    return chunking("sliding", {"window": count, "over": "sentences"}, size=1000, unit=unit)


def options(name: str, config: dict[str, Any]) -> dict[str, Any]:
    found = {ours: config[key] for key, ours in OPTIONS.items() if key in config} | ALWAYS.get(name, {})
    if "separators" in config:
        own = config["separators"]
        found["separators"] = own if isinstance(own, str) else [s for s in own if s]
        found["stable"] = False  # the sources pack greedily
    if config.get("keep_separator") is False:
        found["keep"] = "drop"
    if share := re.fullmatch(r"percentile (\d+)", config.get("method", "")):
        found |= {"method": "percentile", "amount": float(share[1])}
    if config.get("one_definition_per_chunk"):
        found["merge"] = False
    if "levels" in config:
        found["levels"] = [{"strategy": "fixed", "size": size} for size in config["levels"]]
    return found


def source(case: dict[str, Any]) -> tuple[str, str]:
    """The case's text and its format."""
    if "text" in case:
        return case["text"], "txt"
    given = case["input"]
    text = eval(given["python"]) if given["type"] == "generator" else given["text"]  # an expression of the file's own
    return text, given["format"]


def document(data: str | bytes, format: str, name: str = "case") -> Document:
    (parsed,) = parse(data.encode() if isinstance(data, str) else data, f"{name}.{format}")
    return Document(name, f"{name}.{format}", parsed.text, parsed.blocks, parsed.metadata)


def answers(case: dict[str, Any]) -> dict[type, Any]:
    """The embedder the case describes: orthogonal vectors, or any. It is never shown an empty text."""
    orthogonal = any(word in str(case.get("config", {}).get("embedder")) for word in ("e_i", "orthogonal"))

    def embed(texts: list[str]) -> np.ndarray:
        assert all(t.strip() for t in texts)
        return np.eye(len(texts), dtype=np.float32) if orthogonal else ANSWERS[Embed](texts)

    return {Embed: embed}


def cut(doc: Document, how: Chunking, embedder: dict[type, Any] = ANSWERS) -> Run:
    began = time.perf_counter()
    (outcome,) = chunk_all([doc], how, embedder)
    assert isinstance(outcome, list), f"ACCOUNT: {outcome}"
    return Run(doc, how, outcome, time.perf_counter() - began)


def runs(case: dict[str, Any]) -> list[Run]:
    text, format = source(case)
    return [cut(document(text, format), how, answers(case)) for how in ours(case)]


# --- what is expected by key


def trimmed(run: Run, spans: Iterable[Sequence[int]]) -> list[Span]:
    return [trim(run.doc.text, *span) for span in spans]


def check_spans(run: Run, expected: list[list[int]]) -> None:
    assert [(c.start, c.end) for c in run.leaves] == trimmed(run, expected)


def check_parent_spans(run: Run, expected: list[list[int]]) -> None:
    assert [(c.start, c.end) for c in run.chunks if c.level == 1] == trimmed(run, expected)


def check_texts(run: Run, expected: list[str]) -> None:
    assert run.texts == [t.strip() for t in expected]


def check_markers_found(run: Run, expected: list[str]) -> None:
    assert run.cut.strategy.found(run.doc) == expected


def check_n_chunks(run: Run, expected: int) -> None:
    assert len(run.leaves) == expected


def check_contains(run: Run, expected: list[str]) -> None:
    for text in expected:
        assert run.holding(text), text


def check_absent(run: Run, expected: list[str]) -> None:
    for text in expected:
        assert not run.holding(text), text


def check_headings(run: Run, expected: dict[str, list[str]]) -> None:
    for text, path in expected.items():
        assert [list(c.heading_path) for c in run.leaves if text in run.body(c)] == [path], text


def check_all_headings(run: Run, expected: list[list[str]]) -> None:
    assert sorted({c.heading_path for c in run.leaves if run.body(c)}) == sorted(map(tuple, expected))


CHECKS: dict[str, Callable[[Run, Any], None]] = {
    "spans": check_spans,
    "parent_spans": check_parent_spans,
    "texts": check_texts,
    "n_chunks": check_n_chunks,
    "markers_found": check_markers_found,
    "contains": check_contains,
    "absent": check_absent,
    "headings": check_headings,
    "all_headings": check_all_headings,
}


# --- what always holds, by its name in the cases


def invariant_slice(run: Run) -> bool:
    return all(run.doc.text[c.start : c.end] == c.text for c in run.chunks)


def invariant_cover(run: Run) -> bool:
    """Every non-white code point of the text is in a chunk."""
    covered = set().union(*(range(c.start, c.end) for c in run.leaves))
    return all(at in covered or ch.isspace() for at, ch in enumerate(run.doc.text))


def invariant_order(run: Run) -> bool:
    return all(a.start <= b.start and a.end < b.end for a, b in pairwise(run.leaves))


def invariant_disjoint(run: Run) -> bool:
    return all(a.end <= b.start for a, b in pairwise(run.leaves))


def invariant_limit(run: Run) -> bool:
    """What is embedded, counted afresh, is what is stored and within the limit."""
    sizes = run.cut.unit.count([c.embedded for c in run.chunks])
    return sizes == [c.n_tokens - run.cut.unit.specials for c in run.chunks] and max(sizes, default=0) <= run.cut.size


def invariant_noempty(run: Run) -> bool:
    return all(c.text.strip() for c in run.chunks)


def invariant_cluster(run: Run) -> bool:
    """No cut inside a cluster that fits the limit."""
    for m in regex.finditer(r"\X", run.doc.text):
        if len(m.group()) > 1 and run.cut.unit.count([m.group()])[0] <= run.cut.limit:
            inside = range(m.start() + 1, m.end())
            if any(c.start in inside or c.end in inside for c in run.leaves):
                return False
    return True


def invariant_nofffd(run: Run) -> bool:
    return "\ufffd" in run.doc.text or not run.holding("\ufffd")


def invariant_uniq(run: Run) -> bool:
    return len({c.id for c in run.chunks}) == len(run.chunks)


INVARIANTS: dict[str, Callable[[Run], bool]] = {
    "SLICE": invariant_slice,
    "COVER": invariant_cover,
    "ORDER": invariant_order,
    "DISJOINT": invariant_disjoint,
    "LIMIT": invariant_limit,
    "NOEMPTY": invariant_noempty,
    "CLUSTER": invariant_cluster,
    "NOFFFD": invariant_nofffd,
    "UNIQ": invariant_uniq,
}
BY_RUNNING = ("ACCOUNT", "ALIGN", "ENDS", "STABLE")  # shown by a run that returned chunks, or by a procedure; times are facts


# --- what the cases say in prose


def once(run: Run, texts: Iterable[str]) -> bool:
    """Each of the texts is in exactly one chunk, once."""
    return all(sum(len(re.findall(rf"\b{re.escape(t)}\b", c)) for c in run.texts) == 1 for t in texts)


def rows(run: Run, prefix: str) -> list[int]:
    """How many lines of each chunk begin with a table row of this name."""
    return [len(re.findall(rf"^\| {prefix}\d", c, re.M)) for c in run.texts]


def tiled(run: Run, parents: Iterable[Chunk], *, overlap: bool = False) -> bool:
    """Children lie inside their parent and cover it; only white is between them."""
    for parent in parents:
        children = [c for c in run.chunks if c.parent_id == parent.id]
        if not children or (children[0].start, children[-1].end) != (parent.start, parent.end):
            return False
        for a, b in pairwise(children):
            if run.doc.text[a.end : b.start].strip() or (b.start < a.end and not overlap):
                return False
    return all(c.parent_id for c in run.chunks if c.level == 0)


def delimiter_under_header(run: Run) -> bool:
    """In what is embedded; once, so that it is never among the rows."""
    header = "jan-mar | apr-jun |\n|---|---|---|\n"
    return all(header in c.embedded and c.embedded.count("|---|---|---|") == 1 for c in run.leaves)


def seen_text(run: Run) -> str:
    return " ".join(" ".join(run.texts).split())


FACTS: dict[str, Callable[[Run], bool]] = {
    "B-fixed-80-10": lambda r: len(r.leaves) == 3,
    "B-parent-child": lambda r: tiled(r, [c for c in r.chunks if c.level == 1], overlap=True),
    "BUG-001": lambda r: r.leaves[-1].end == 79 and len(r.holding("Waves shape coasts.")) == 1,
    "BUG-002": lambda r: "".join(r.texts).count("z") == 400 and bool(r.holding("port = 8080")),
    "BUG-006": lambda r: not any("\\" in t or "alphabeta" in t for t in r.texts),
    "BUG-007": lambda r: all(a.end - b.start <= 8 for a, b in pairwise(r.leaves)),
    "BUG-011": lambda r: [c.embedded.count("Soil pH") for c in r.leaves] == [1],
    "BUG-014": lambda r: min(c.start for c in r.leaves) >= 0,
    "BUG-018": lambda r: [c.start for c in r.holding("def área(r):")] == [13],
    "BUG-021": lambda r: r.seconds < 1 and 4 <= len(r.leaves) <= 8,
    "BUG-026": lambda r: max(len(c.embedded) for c in r.leaves) <= 40,
    "BUG-028": lambda r: (
        once(r, [f"bolt{i}" for i in range(60)]) and all("| item | count |" in c.embedded for c in r.holding("bolt"))
    ),
    "BUG-030": lambda r: len(r.leaves) >= 12,
    "BUG-036": lambda r: any(c.start <= 5 and c.end >= 12 for c in r.leaves),
    "BUG-041": lambda r: [c.n_tokens for c in r.leaves] == [13],
    "BUG-043": lambda r: [c.n_tokens for c in r.leaves] == [ordinary(c.text) for c in r.leaves],
    "BUG-045": lambda r: r.seconds < 10,
    "BUG-047": lambda r: r.seconds < 60,
    "BUG-050": lambda r: all(t == t.strip() for t in r.texts),
    "BUG-052": lambda r: r.doc.text == "def f(a):\n\tif a:\n\t\treturn 1\n\n\n# end\n",
    "BUG-065": lambda r: (
        all(c.embedded.startswith("| item | qty |") for c in r.leaves)
        and rows(r, "bolt") == [3, 3, 2]
        and once(r, [f"bolt{i}" for i in range(1, 9)])
    ),
    "BUG-067": lambda r: (
        not any(re.search(r"\|[ \t]*\n[ \t]*\n[ \t]*\|", c.embedded) for c in r.leaves)
        and ["Table 7" in t for t in r.texts] == [True] + [False] * (len(r.texts) - 1)
    ),
    "BUG-069": lambda r: delimiter_under_header(r) and once(r, [f"line{i}" for i in range(8)]),
    "BUG-071": lambda r: seen_text(r) == "Loose text Para tail",
    "BUG-075": lambda r: r.seconds < 10,
    "BUG-080": lambda r: len(r.holding("aaaaaaaaaa")) == 1 and r.holding("aaaaaaaaaa") != r.holding("bbbbbbbbbb"),
    "BUG-084": lambda r: bool(r.holding("東京都")),
    "BUG-087": lambda r: all(
        c.text.startswith("@app.route('/health')") and "@cached" in c.text for c in r.holding("def health")
    ),
    "BUG-116": lambda r: (
        r.texts == ["Tiny."]
        and max(c.level for c in r.chunks) == 2
        and {c.parent_id for c in r.chunks} - {None, r.doc.id} <= {c.id for c in r.chunks}
    ),
    "BUG-118": lambda r: len(r.chunks) == 21 and tiled(r, [c for c in r.chunks if c.level > 0]),
}


def ordinary(text: str) -> int:
    import tiktoken

    return len(tiktoken.get_encoding("cl100k_base").encode_ordinary(text))


# --- cases that are a procedure of their own


def bad_windows(case: dict[str, Any], tmp_path: Path) -> None:
    for config in case["config"]["try"]:
        with pytest.raises(ConfigError) as raised:
            chunking(case["strategy"], **config)
        assert "size" in str(raised.value), config
        assert "overlap" in str(raised.value), config


def padding_tokenizer(case: dict[str, Any], tmp_path: Path) -> None:
    """A real tokenizer.json of whole words that pads and truncates to 128."""
    tokenizers = pytest.importorskip("tokenizers", reason="comes with the extra chunkmill[embed]")
    text, _ = source(case)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(["?", *text.split()])}, "?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.enable_truncation(128)
    words.enable_padding(length=128, pad_token="?")
    words.save(str(tmp_path / "tokenizer.json"))

    run = cut(document(text, "txt"), chunking("fixed", size=100, unit=str(tmp_path / "tokenizer.json")))

    assert [c.n_tokens for c in run.leaves] == [100, 100, 100]
    hold(run, case["expected"])


def lone_surrogate(case: dict[str, Any], tmp_path: Path) -> None:
    text, repaired = clean(case["input"]["text"])

    assert text == case["expected"]["parsed_text"]
    assert repaired == 1
    assert text.encode().decode() == text
    hold(cut(Document("d", "", text), chunking("fixed", size=50, unit="chars")), case["expected"])


def under_three_tokenizers(case: dict[str, Any], tmp_path: Path) -> None:
    for name in case["config"]["tokenizers"]:
        hold(cut(document(*source(case)), sliding_sentences(1, UNITS.get(name, name))), case["expected"])


def blank_documents(case: dict[str, Any], tmp_path: Path) -> None:
    docs = [document(text, "txt", name) for name, text in case["input"]["docs"].items()]
    for name, entry in STRATEGIES.items():
        if entry.cls().needs - set(ANSWERS):
            continue
        how = chunking(name, size=50, overlap=10)

        a, b, c, d = chunk_all(docs, how, ANSWERS)

        assert a == b == [], name
        said = Complete in entry.cls().needs  # the text is the model's, the span its evidence
        leaves = [("Real text." if said else x.text, x.start, x.end) for x in c if x.level == 0]
        assert leaves == [("Real text.", 0, 10)], name
        assert isinstance(d, list), name


def short_of_vectors(case: dict[str, Any], tmp_path: Path) -> None:
    doc = Document("d", "", "Iron rusts. Copper greens. Zinc dulls. Gold stays.")

    (outcome,) = chunk_all([doc], chunking("semantic"), {Embed: lambda texts: ANSWERS[Embed](texts)[:-1]})

    assert isinstance(outcome, DocumentError), outcome
    assert {"4", "3"} <= set(re.findall(r"\d+", str(outcome)))


def same_text_twice(case: dict[str, Any], tmp_path: Path) -> None:
    docs = [Document(name, name, text) for name, text in case["input"]["docs"].items()]

    chunks = [c for outcome in chunk_all(docs, chunking("recursive"), {}) for c in outcome]

    assert len(chunks) == len({c.id for c in chunks}) == case["expected"]["n_chunks"]
    assert len({c.text for c in chunks}) == 1


def json_values(case: dict[str, Any], tmp_path: Path) -> None:
    (how,) = ours(case)
    found = {name: cut(document(text, "json", name), how) for name, text in case["input"]["docs"].items()}

    assert {n for c in found["list"].texts for n in re.findall(r'"id": (\d)', c)} == {"1", "2"}
    assert len(found["num"].texts) == 1
    assert found["num"].holding("5")
    assert len(found["word"].texts) == 1
    assert found["word"].holding("plain")
    assert found["nil"].chunks == []


def picture_between_paragraphs(case: dict[str, Any], tmp_path: Path) -> None:
    """The parser's stub yields a paragraph, a picture on page 2 with its text, a paragraph."""
    parts = re.findall(r"'([^']+)'", case["input"]["steps"][0])
    text, blocks = "", []
    for kind, part in zip(("paragraph", "figure", "paragraph"), parts, strict=True):
        blocks.append(Block(kind, Span(len(text), len(text) + len(part)), page=len(blocks) + 1))
        text += part + "\n\n"
    (how,) = ours(case)

    run = cut(Document("d", "d.pdf", text, tuple(blocks)), how)

    assert [(c.text, c.page_start) for c in run.leaves if c.kind in ("figure", "image")] == [(parts[1], 2)]
    assert run.texts == parts
    assert [c.ordinal for c in run.leaves] == sorted(c.ordinal for c in run.leaves)


def pdf(case: dict[str, Any]) -> Parsed:
    (parsed,) = parse((SHARED / "bugs" / case["input"]["path"]).read_bytes(), "case.pdf")
    return parsed


def pdf_text(case: dict[str, Any], tmp_path: Path) -> None:
    text = " ".join(pdf(case).text.split())
    expected = case["expected"]

    assert [t for t in expected.get("contains", ()) if t not in text] == []
    assert [t for t in expected.get("absent", ()) if t in text] == []


def pdf_columns(case: dict[str, Any], tmp_path: Path) -> None:
    text = pdf(case).text
    places = [text.find(f"{side} {n}") for side in ("Left", "Right") for n in ("one", "two", "three", "four")]

    assert -1 not in places
    assert places == sorted(places)


def pdf_hidden_text(case: dict[str, Any], tmp_path: Path) -> None:
    pdf_text(case, tmp_path)
    parsed = pdf(case)
    run = cut(Document("d", "", parsed.text, parsed.blocks), chunking("recursive"))

    assert not run.holding("pay 9 crowns")


def pdf_pages(case: dict[str, Any], tmp_path: Path) -> None:
    pymupdf = pytest.importorskip("pymupdf")
    book = pymupdf.open()
    for n in range(1, 31):
        left = book.new_page().insert_textbox((40, 40, 560, 800), f"page-{n} " * 200, fontsize=8)
        assert left >= 0
    data = book.tobytes()
    for _ in range(20):
        (parsed,) = parse(data, "book.pdf")

        by_page: dict[int | None, list[str]] = {}
        for b in parsed.blocks:
            by_page.setdefault(b.page, []).extend(parsed.text[slice(*b.span)].split())
        assert by_page == {n: [f"page-{n}"] * 200 for n in range(1, 31)}


PROCEDURES: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "BUG-020": bad_windows,
    "BUG-034": padding_tokenizer,
    "BUG-038": lone_surrogate,
    "BUG-082": json_values,
    "BUG-095": under_three_tokenizers,
    "BUG-097": blank_documents,
    "BUG-103": short_of_vectors,
    "BUG-125": picture_between_paragraphs,
    "BUG-127": picture_between_paragraphs,
    "BUG-129": pdf_text,
    "BUG-130": pdf_columns,
    "BUG-132": pdf_text,
    "BUG-133": pdf_hidden_text,
    "BUG-147": same_text_twice,
    "BUG-216": pdf_pages,
}


# --- the tests


def params() -> list[Any]:
    if not CASES:
        return [pytest.param({}, marks=pytest.mark.skip(f"no cases: {SHARED} is not there"), id="none")]
    return [pytest.param(case, marks=marks(case), id=case["id"]) for case in CASES]


def marks(case: dict[str, Any]) -> list[pytest.MarkDecorator]:
    id, strategy = case["id"], case["strategy"]
    if id not in NAMES and (why := ELSEWHERE.get(id) or ELSEWHERE.get(strategy)):
        return [pytest.mark.skip(f"{strategy}: {why}")]
    return [pytest.mark.xfail(reason=WRONG[id], strict=True)] if id in WRONG else []


@pytest.mark.parametrize("case", params())
def test_case(case, tmp_path):
    if case["id"] in PROCEDURES:
        PROCEDURES[case["id"]](case, tmp_path)
        return
    for run in runs(case):
        hold(run, case.get("expected", case))
        assert FACTS.get(case["id"], lambda run: True)(run), case.get("expected", {}).get("then")


def hold(run: Run, expected: dict[str, Any]) -> None:
    for key in CHECKS.keys() & expected.keys():
        CHECKS[key](run, expected[key])
    for name in expected.get("invariants", ("SLICE", "LIMIT", "NOEMPTY", "ORDER")):
        assert name in BY_RUNNING or INVARIANTS[name](run), name


@pytest.mark.skipif(not CASES, reason=f"no cases: {SHARED} is not there")
def test_nothing_a_case_says_is_left_unread():
    """Every key has its check, every sentence in prose its fact, and no table names a case that doesn't exist."""
    here = [c for c in CASES if c["id"] in NAMES or not (c["id"] in ELSEWHERE or c["strategy"] in ELSEWHERE)]
    prose = {c["id"] for c in here if c.get("expected", {}).get("then") or c.get("expected", {}).get("raises")}
    plain = [c for c in here if "expected" in c and c["id"] not in PROCEDURES]

    assert prose - FACTS.keys() - PROCEDURES.keys() == {"BUG-003"}  # its only clause that isn't generic is UNCHECKED
    assert {key for c in plain for key in c["expected"]} <= CHECKS.keys() | {"then", "invariants"}
    assert {name for c in here for name in c.get("expected", {}).get("invariants", ())} <= {*INVARIANTS, *BY_RUNNING}
    known = {c["id"] for c in CASES} | {c["strategy"] for c in CASES}
    assert {*FACTS, *PROCEDURES, *UNCHECKED, *WRONG, *ELSEWHERE, *NAMES} <= known
