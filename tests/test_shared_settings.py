"""What all strategies share: overlap, the smallest size, context, the size of what is embedded."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.base import Block, Document, Span
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.fixed import Fixed
from chunkmill.chunkers.measure import encoding, tokenizer
from chunkmill.chunkers.structure import JOINT, SHARE, Outline, heading_contexts
from chunkmill.io.reading import parse
from test_promises import check_cover, check_limit, check_order, check_slices
from vocabulary import ANSWERS, documents

TEXT = "One fish. Two fish. Red fish. Blue fish. Old fish. New fish."


def texts(chunks):
    return [c.text for c in chunks]


def test_sentences_are_repeated_as_told():
    chunks = chunk(TEXT, "sentence", size=6, unit="words", overlap_sentences=1, stable=False)
    stable = chunk(TEXT, "sentence", size=6, unit="words", overlap_sentences=1)

    assert all(after.text.startswith(before.text.split(". ")[-1]) for before, after in pairwise(stable))
    assert texts(chunks) == ["One fish. Two fish. Red fish.", "Red fish. Blue fish. Old fish.", "Old fish. New fish."]


def test_a_share_is_of_the_size():
    words = "a b c d e f g h i j"

    assert texts(chunk(words, "fixed", size=4, overlap="50%", unit="words")) == ["a b c d", "c d e f", "e f g h", "g h i j"]


def test_overlap_gives_way_to_a_whole_sentence():
    text = " ".join(f"{p}{i}" + ("." if i == 9 else "") for p in "abcd" for i in range(1, 10))

    chunks = chunk(text, "sentence", size=10, overlap=4, unit="words")

    assert 4 <= len(chunks) <= 8
    assert all(c.n_tokens <= 10 for c in chunks)


def test_a_chunk_below_the_smallest_size_is_joined_where_both_fit():
    text = "# A\n\nx\n\n# B\n\n" + "long words here " * 5
    blocks = (Block("heading", Span(0, 3), 1), Block("heading", Span(8, 11), 1))
    doc = Document("d", "", text, blocks)

    assert len(chunk(doc, "section", size=120, unit="chars")) == 2
    assert len(chunk(doc, "section", size=120, unit="chars", min_size=20)) == 1
    assert len(chunk(doc, "section", size=85, unit="chars", min_size=20)) == 2, "the limit is harder than the smallest size"


@given(doc=documents(), min_size=st.integers(1, 12), overlap=st.integers(0, 3), context=st.sampled_from(["none", "headings"]))
@settings(max_examples=150, deadline=None)
def test_joining_keeps_the_promises(doc, min_size, overlap, context):
    cut = chunking("recursive", size=16, overlap=overlap, unit="words", context=context, min_size=min_size)

    (chunks,) = chunk_all([doc], cut, ANSWERS)

    check_slices(doc, chunks)
    check_cover(doc, chunks)
    check_order(chunks)
    check_limit(chunks, cut)


def test_the_heading_path_is_embedded_once_and_counted():
    doc = Document("d", "", "# Soil pH\n\nLime raises it.", (Block("heading", Span(0, 9), 1, None, (), "Soil pH"),))

    whole = chunk(doc, "section", size=50, unit="words", context="headings")
    cut = chunk(doc, "recursive", size=5, unit="words", context="headings")

    assert [c.embedded.count("Soil pH") for c in whole] == [1]
    assert [(c.context, c.text, c.n_tokens) for c in cut if c.context] == []
    assert cut[-1].heading_path == ("Soil pH",)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"size": 10, "overlap": 10}, "less than the size"),
        ({"size": 10, "overlap": -1}, "0 or more"),
        ({"size": 0}, "1 or more"),
        ({"size": 10, "min_size": 11}, "from 0 to the size"),
        ({"size": "64"}, "a whole number"),
        ({"size": 10, "overlap": "lots"}, "15%"),
        ({"size": 10, "unit": "furlongs"}, "choose one of"),
        ({"size": 10, "context": "titles"}, "headings"),
        ({"size": None}, "chunk.size is None; it must be a whole number"),
        ({"overlap": 1.5}, "chunk.overlap is 1.5; it must be a whole number of units or a share"),
        ({"overlap": True}, "chunk.overlap is True"),
        ({"overlap": None}, "chunk.overlap is None"),
        ({"size": 8, "overlap": "-5%"}, "chunk.overlap is '-5%'"),
        ({"overlap": "nan%"}, "chunk.overlap is 'nan%'"),
        ({"overlap": "inf%"}, "chunk.overlap is 'inf%'"),
        ({"min_size": "3"}, "chunk.min_size is '3'; it must be a whole number"),
        ({"min_size": 1.5}, "chunk.min_size is 1.5"),
        ({"min_size": True}, "chunk.min_size is True"),
        ({"min_size": None}, "chunk.min_size is None"),
        ({"context": None}, "chunk.context is None; choose one of: headings"),
        ({"context": ["none"]}, "chunk.context is .*; choose one of: headings"),
        ({"unit": None}, "chunk.unit is None; it must be tokens"),
        ({"unit": "/no/such/tokenizer.json"}, r"chunk.unit is '/no/such/tokenizer.json', and no tokenizer can be read there"),
        ({"unit": "tokenz"}, "did you mean 'tokens'.*; choose one of"),
        ({"separators": []}, r"chunk.separators is \[\]; give a preset"),
        ({"separators": [""]}, r"chunk.separators is \[''\]; give a preset"),
        ({"strategy": None}, "chunk.strategy is None; it must be a strategy's name"),
        ({"strategy": Fixed}, "chunk.strategy is the class Fixed; give an object of it"),
        ({"strategy": len}, "chunk.strategy is <built-in function len>"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(ConfigError, match=says):
        chunk("any text", **{"strategy": "recursive", **settings})


@pytest.mark.parametrize("source", [b"bytes", None, 3, ["a", "list"], Document("d", "", b"bytes")])
def test_what_is_no_text_is_refused_with_the_way_out(source):
    with pytest.raises(ConfigError, match=r"must be .*str.*chunkmill\.parse"):
        chunk(source)


def test_tokens_are_those_of_the_default_encoding():
    assert chunk(TEXT, size=9, unit="tokens") == chunk(TEXT, size=9, unit="cl100k_base")


def test_a_lone_surrogate_is_replaced_in_a_document_as_in_a_text():
    for source in ("lone \ud800 one", Document("d", "", "lone \ud800 one"), Document("d\ud800", "", "lone \ud800 one")):
        assert texts(chunk(source)) == ["lone \ufffd one"]


@pytest.mark.parametrize(("name", "says"), [("gpt2", "take one of these"), ("o200k_base", r"chunkmill\[fast\]")])
def test_a_vocabulary_that_cannot_be_had_says_what_helps(monkeypatch, tmp_path, name, says):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: (tmp_path / "no vocabulary").read_text())

    with pytest.raises(ConfigError, match=rf"vocabulary of {name} .*{says}"):
        encoding(name)


def test_bytes_are_read_into_documents_that_know_their_structure():
    (doc,) = parse(b"# Lamp\n\nTrim it.\n\n## Wick\n\nDaily.\n", "lamp.md")
    rows = parse(b'{"text": "One."}\n{"text": "Two."}\n', "rows.jsonl")

    assert [c.heading_path for c in chunk(doc, "section", merge=False)] == [("Lamp",), ("Lamp", "Wick")]
    assert [(d.uri, d.text) for d in rows] == [("rows.jsonl#1", "One."), ("rows.jsonl#2", "Two.")]
    assert len({doc.id, *(d.id for d in rows)}) == 3


def test_what_cannot_be_read_is_told():
    with pytest.raises(DocumentError, match="unsupported"):
        parse(b"\x00\x01\x02", "a.bin")
    with pytest.raises(ConfigError, match="data is str; it must be bytes"):
        parse("text", "a.md")


def test_settings_of_a_strategy_given_as_an_object_are_refused():
    with pytest.raises(ConfigError, match="overlap_before"):
        chunk("any text", Fixed(), overlap_before=True)


def test_code_says_which_symbol_a_chunk_belongs_to():
    pytest.importorskip("tree_sitter_language_pack", reason="the grammars come with the extra chunkmill[code]")
    source = "class Lamp:\n    def light(self):\n        return 1\n\n    def dim(self):\n        return 0\n"

    chunks = chunk(source, "code", size=60, unit="chars", language="python")

    assert [c.heading_path for c in chunks if "dim" in c.text][-1] == ("Lamp", "dim")


def test_a_smallest_size_is_refused_where_it_would_be_ignored():
    with pytest.raises(ConfigError, match="places its own windows"):
        chunk("any text", "fixed", size=10, min_size=2)


def test_a_window_that_measures_more_alone_leaves_no_crumb():
    draw = random.Random(3)
    words = [
        "tower",
        "naïve",
        "keeper’s",
        "lamp",
        "3.14",
        "Über",
        "x=1",
        "don't",
        "-",
        "ok;",
        "(see",
        "p.7)",
        '"quoted"',
        "été",
    ]
    text = "\n".join(",".join(draw.choice(words) + " " + draw.choice(words) for _ in range(6)) for _ in range(400))

    sizes = [c.n_tokens for c in chunk(text, "fixed", size=64)]

    assert max(sizes) <= 64
    assert min(sizes[:-1]) >= 60


@given(
    st.lists(st.lists(st.sampled_from(["a", "b c", "d e f"]), min_size=1, max_size=5).map(tuple), min_size=1),
    st.integers(0, 30),
)
@settings(max_examples=150, deadline=None)
def test_a_context_is_as_much_of_the_inner_end_of_a_heading_path_as_its_share_holds(paths, limit):
    starts, ends = [3 * i for i in range(len(paths))], [3 * i + 1 for i in range(len(paths))]

    def kept(path):
        return next(t for t in (JOINT.join(path[i:]) for i in range(len(path) + 1)) if len(t.split()) <= limit // SHARE)

    found = heading_contexts(Outline(starts, ends, paths), tokenizer("words"), limit)

    assert [kept(p[:-1]) for p in paths] == found.all(starts)
    assert [kept(p) for p in paths] == found.all(ends)
    assert [len(t.split()) for t in found.texts] == found.sizes.tolist()
