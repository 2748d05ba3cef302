"""Strategies made of others, or of a choice among cuts: optimal, hierarchical, modality, adaptive, auto."""

import itertools
import time

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.adaptive import Adaptive, density
from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.auto import Auto
from chunkmill.chunkers.base import EMPTY, Block, Budget, Document, Embed, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.fixed import Fixed
from chunkmill.chunkers.hierarchical import Hierarchical, Level
from chunkmill.chunkers.measure import tokenizer
from chunkmill.chunkers.optimal import OVER, PRICES, cheapest, deviation, marks, parts
from chunkmill.chunkers.recursive import Recursive
from chunkmill.chunkers.seams import sentences
from chunkmill.chunkers.section import Section
from chunkmill.chunkers.semantic import Semantic
from chunkmill.chunkers.sentence import Sentence
from chunkmill.chunkers.strategies import strategy
from chunkmill.chunkers.stretch import narrowed, stretch, together, whole, within
from test_promises import check_cover, check_parents
from vocabulary import ANSWERS, Bytes, documents

ARTICLE = """\
Artificial intelligence is transforming the way businesses operate. Machine learning,
a core branch of AI, enables systems to learn and improve from experience without being
explicitly programmed. Deep learning, a subset of machine learning, uses neural networks
with many layers to model complex patterns in data.

Natural language processing (NLP) allows computers to understand, interpret, and generate
human language. Applications include sentiment analysis, machine translation, and chatbots.
Large language models like GPT-4o and Claude have pushed NLP capabilities dramatically forward.

Computer vision enables machines to interpret visual information from the world. Convolutional
neural networks (CNNs) excel at image classification, object detection, and segmentation.
Diffusion models now power state-of-the-art image generation."""


def budget(doc, limit):
    return Budget(limit, None, len(doc.text), limit)


def plain(text, *blocks, **metadata):
    return Document("d", "", text, blocks, metadata)


def blocks_of(*stretches):
    """A document out of (kind, text) pairs, a blank line between them."""
    text, blocks = "", []
    for kind, body in stretches:
        blocks.append(Block(kind, Span(len(text), len(text) + len(body)), int(kind == "heading")))
        text += body + "\n\n"
    return plain(text, *blocks)


# --- optimal


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    seams=st.lists(st.integers(0, 3), min_size=9, max_size=9),
    target=st.sampled_from([0.3, 0.7, 1.0]),
    context=st.integers(0, 4),
    even=st.booleans(),
)
@settings(max_examples=500, deadline=None)
def test_no_other_grouping_costs_less(sizes, seams, target, context, even):
    limit, n = 15, len(sizes)
    edges = [0, *itertools.accumulate(sizes)]
    units = [Span(a, b) for a, b in itertools.pairwise(edges)]
    at, carried = np.array([edges[n // 2]]), np.array([context])
    room = Budget(limit, None, edges[-1], limit, at, carried)
    prices = PRICES[seams[:n]]

    def cost(cuts):
        total = 0.0
        for a, b in itertools.pairwise([0, *cuts, n]):
            carries = context if edges[a] >= at[0] else 0
            size = edges[b] - edges[a] + carries
            alone = b == a + 1 and size > limit
            total += prices[a] + (OVER if alone else deviation(limit, 99, target, even=even)[size])
        return total

    groups = cheapest(units, prices, room, target, even=even)

    every = (c for k in range(n) for c in itertools.combinations(range(1, n), k))
    assert [a for a, _ in groups] == [0, *(b for _, b in groups[:-1])]
    assert cost([a for a, _ in groups][1:]) == pytest.approx(min(map(cost, every)), abs=1e-6, rel=0)


def test_a_blank_line_is_preferred_to_a_sentence_end_nearer_the_target():
    first, second = "One is here. Two is here.", "Three is there. Four is there. Five is there."

    chunks = chunk(f"{first}\n\n{second}", "optimal", size=50, unit="chars")

    assert [c.text for c in chunks] == [first, second]


def test_seams_are_as_strong_as_what_stands_between():
    text = "One is. Two is.\nThree is.\n \nFour is."

    found = marks(plain(text), "en")

    assert [found[text.index(word)] for word in ("Two", "Three", "Four")] == [1, 2, 3]


def test_blocks_are_seams_and_crumbs_are_none():
    doc = plain("A first line\nA block. No. It goes on with more.", Block("paragraph", Span(13, 46)))

    units, strength = parts(doc, budget(doc, 1000), "en")

    assert [doc[u] for u in units] == ["A first line", "A block. No. It goes on with more."]
    assert strength == [3, 3]


def test_no_cut_falls_behind_a_heading_that_fits_with_its_text():
    text = "".join(f"# Title {i}\n\n" + "Some words stand here. " * 9 + "\n\n" for i in range(20))

    chunks = chunk(text, "optimal", size=150, unit="chars")

    assert not [c.text for c in chunks if c.text.splitlines()[-1].startswith("#")]
    assert sum(c.text.startswith("#") for c in chunks) == 20


@pytest.mark.parametrize("title", ["# Title", "### Title here", "= Title =", "== Title ==", " = = Title = = "])
def test_headings_of_plain_text_are_seams(title):
    text = f"Before it.\n{title}\nBehind it."

    found = marks(plain(text), "en")

    assert found[text.index(title)] == 3
    assert found[text.index(title) + len(title)] == 0


@pytest.mark.parametrize("line", ["=====", "a = b = c", "#!/bin/sh", "= b", "#tag"])
def test_lines_that_only_look_like_headings_are_not(line):
    text = f"Before it.\n{line}\nBehind it."

    assert marks(plain(text), "en")[text.index(line)] < 3


def test_a_dump_on_one_line_is_cut_at_its_escaped_line_ends_and_records():
    text = r"[{'content': 'One thing.\n\nTwo things.\nThree.'}, {'content': 'Four'}]"

    found = marks(plain(text), "en")

    assert [found.get(text.index(s)) for s in ("Two", "Three", "{'content': 'Four")] == [3, 2, 3]


def test_a_backslash_in_ordinary_lines_is_no_seam():
    text = "Open C:\\new\\notes\nthen go on\nand on."

    assert text.index("ew") not in marks(plain(text), "en")


def test_an_over_long_sentence_is_cut_evenly_and_at_a_clause():
    text = "word " * 30 + "comma, " + "word " * 30

    units, strength = parts(plain(text), budget(plain(text), 400), "en")

    assert [text[u.start : u.end][-6:] for u in units] == ["comma,", "d word"]
    assert strength == [3, 0]


@pytest.mark.parametrize("text", ['He said: "{}."', "(In short: {}.)", 'He said: " {} . "'])
def test_an_over_long_sentence_is_cut_where_those_quoted_in_it_end(text):
    end = " . " if " . " in text else ". "
    text = text.format(end.join(f"This is what was said about number {i} that day" for i in range(6)))
    assert len(sentences(text)) == 1

    chunks = chunk(text, "optimal", size=130, unit="chars", target=0.8)

    assert [c.text.count("This is") for c in chunks] == [2, 2, 2]
    assert all("day" in c.text[-8:] for c in chunks)


def test_sizes_gather_around_the_target():
    text = " ".join(f"Sentence number {i} says something of its own." for i in range(400))

    low, high = ([len(c.text) for c in chunk(text, "optimal", size=500, unit="chars", target=t)] for t in (0.5, 0.9))

    assert 250 < np.mean(low) < max(low) < 350  # the price of cuts between sentences makes them somewhat larger
    assert 400 < np.mean(high) < max(high) <= 500


def test_small_costs_little_or_half_the_target_as_much_as_twice_but_less_than_half_a_sentence():
    costs, even = deviation(100, 0, 0.3), deviation(100, 0, 0.3, even=True)

    assert costs[[30, 60, 15, 3]].tolist() == pytest.approx([0, 1, 0.125, 0.081])
    assert even[[30, 60, 15, 90, 10, 1]].tolist() == pytest.approx([0, 0.5, 0.5, 4 / 3, 1, 1])
    assert even[:30].max() < PRICES[0]


@pytest.mark.parametrize("target", [0.0, -0.1, 1.01])
def test_a_target_outside_the_size_is_refused(target):
    with pytest.raises(ConfigError, match=r"chunk\.target"):
        strategy("optimal", {"target": target})


@pytest.mark.parametrize("name", ["optimal", "adaptive", "hierarchical", "modality", "auto"])
@pytest.mark.parametrize("text", ["Some words here. ", "Line by line\n", "# Title\n\nText.\n\n", "= a = b =", "\n"])
@pytest.mark.long
def test_time_grows_with_the_text_and_no_faster(name, text):
    def seconds(n):
        doc = plain((text * n)[: n * 30])
        cut = chunking(name, size=300, unit="chars")
        at = time.process_time()
        chunk_all([doc], cut, {})
        return time.process_time() - at

    seconds(100)
    small, large = min(seconds(1_000) for _ in range(3)), seconds(16_000)

    assert large < 60 * small + 0.2  # 16 times the text; 256 would be quadratic


# --- stretches of a document


@given(doc=documents(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_stretch_is_the_document_cut_out(doc, data):
    start = data.draw(st.integers(0, max(0, len(doc.text) - 1)))
    span = Span(start, data.draw(st.integers(min(start + 1, len(doc.text)), len(doc.text))))
    starts = np.arange(0, len(doc.text), 3)
    at = np.array([b.span.start for b in doc.blocks], np.int64)
    whole_budget = Budget(20, starts, len(doc.text), 18, at, np.arange(len(at)) % 7)

    inner, room = within(doc, span), stretch(whole_budget, span)

    assert inner.text == doc[span]
    touching = [b for b in doc.blocks if b.span.start < span.end and b.span.end > span.start]
    assert [b.kind for b in inner.blocks] == [b.kind for b in touching]
    for block, outer in zip(inner.blocks, touching, strict=True):
        assert 0 <= block.span.start < block.span.end <= len(inner.text)
        assert inner[block.span] in doc[outer.span]
    for i in range(len(inner.text)):
        assert room.size(Span(0, i)) == whole_budget.size(Span(start, start + i))
        assert room.room(i) == whole_budget.room(start + i)


def test_a_narrowed_budget_takes_contexts_from_the_rest_of_the_limit_first():
    outer = Budget(100, None, 1000, 90, np.array([0, 50, 80]), np.array([0, 30, 75]))

    inner = narrowed(outer, 40)

    assert [inner.room(at) for at in (0, 50, 80)] == [40, 40, 25]
    assert narrowed(outer, 25).context_at is EMPTY


def test_a_cluster_that_was_cut_goes_with_its_first_part():
    text = "ab👩‍👩‍👧cd"

    pieces = whole(text, [Piece(Span(0, 3)), Piece(Span(3, 5)), Piece(Span(5, 9))])

    assert [text[p.span.start : p.span.end] for p in pieces] == ["ab👩‍👩‍👧", "cd"]


def test_questions_of_all_stretches_are_asked_together():
    doc = blocks_of(("paragraph", "One is. Two is. Three is."), ("table", "a b"), ("paragraph", "Four is. Five is."))
    asked = []

    def answer(texts):
        asked.append(texts)
        return ANSWERS[Embed](texts)

    cut = chunking("modality", {"text": "semantic"}, size=100, unit="chars")
    (chunks,) = chunk_all([doc], cut, {Embed: answer})

    assert asked == [["One is.", "Two is.", "Three is.", "Four is.", "Five is."]]
    assert "".join(c.text for c in chunks).replace(" ", "").replace("\n", "") == doc.text.replace(" ", "").replace("\n", "")


def test_plans_that_ask_in_different_rounds_get_their_own_answers():
    def plan(name, rounds):
        heard = []
        for i in range(rounds):
            heard += list((yield Embed([f"{name}{i}"] * (i + 1))))
        return heard

    run = together([plan("a", 2), plan("b", 0), plan("c", 1)])
    request = next(run)
    found = None
    while found is None:
        try:
            request = run.send([t.upper() for t in request.texts])
        except StopIteration as done:
            found = done.value

    assert found == [["A0", "A1", "A1"], [], ["C0"]]


# --- hierarchical


def test_the_preset_of_parents_and_children_is_windows_in_windows():
    chunks = chunk(ARTICLE, "hierarchical", preset="parent_child", parent_size=150, child_size=50, child_overlap=5)

    parents = [c for c in chunks if c.level == 1]
    assert [(p.start, p.end) for p in parents] == [(0, 819), (819, 841)]
    for parent in parents:
        children = [c for c in chunks if c.parent_id == parent.id]
        assert (children[0].start, children[-1].end) == (parent.start, parent.end)
        assert all(b.start < a.end for a, b in itertools.pairwise(children))
    assert [c.n_tokens for c in chunks if c.level == 0][:2] == [50] * 2


def test_levels_lie_inside_one_another_and_keep_their_own_sizes():
    text = "".join(f"# Part {i}\n\n" + "A sentence stands here. " * 30 + "\n\n" for i in range(5))
    doc = plain(text, *(Block("heading", Span(at, at + 8), 1) for at in range(len(text)) if text.startswith("# ", at)))
    levels = [
        {"strategy": "section", "size": 500, "merge": False},
        {"strategy": "recursive", "size": 200},
        {"strategy": "sentence", "size": 60},
    ]

    chunks = chunk(doc, "hierarchical", size=100, unit="chars", levels=levels)

    by_id = {c.id: c for c in chunks}
    for level, most in ((2, 500), (1, 200), (0, 60)):
        sizes = [len(c.text) for c in chunks if c.level == level]
        assert most / 3 < max(sizes) <= most
    for c in chunks:
        assert (c.parent_id is None) == (c.level == 2)
        if c.parent_id:
            parent = by_id[c.parent_id]
            assert parent.level == c.level + 1
            assert parent.start <= c.start < c.end <= parent.end


def test_a_leaf_that_counts_more_alone_is_cut_inside_its_parent():
    head, body = "# Intro\nalpha \n\nalpha \n\nalpha \n\n", "be. naïve alpha alpha alpha alpha be."
    text = f"{head}{body} \n\n# Intro\nalpha \n\nalpha \n\n"
    at = text.rindex("# Intro")
    blocks = [Block("heading", Span(i, i + 7), 1, title="Intro") for i in (0, at)]

    (chunks,) = chunk_all([Document("d", "memory", text, tuple(blocks))], chunking("hierarchical", {}, size=8, overlap=0), {})

    leaves = [c for c in chunks if c.level == 0]
    assert max(c.n_tokens for c in leaves) <= 8, "one leaf is 8 units of the index and 9 alone"
    assert all(c.end <= at or c.start >= at for c in leaves)
    assert {c.parent_id for c in leaves} <= {c.id for c in chunks if c.level == 1}


class Framed(Bytes):
    """A unit of a model that puts a token on either side of a text."""

    name = "framed"
    specials = 2


SIZED = [
    [Level(Recursive(), 40), Level(Fixed(), 16)],
    [Level(Recursive(), 40), Level(Fixed(), 16, 5)],
    [Level(Fixed(), 60), Level(Sentence(), 30), Level(Recursive(), 15)],
    [Level(Section(), 90), Level(Adaptive(), 15)],
]


@given(doc=documents(), levels=st.sampled_from(SIZED), unit=st.sampled_from(["cl100k_base", "words", Bytes(), Framed()]))
@settings(max_examples=150, deadline=None)
def test_each_level_holds_its_own_size_by_an_exact_count(doc, levels, unit):
    cut = chunking(Hierarchical(tuple(levels)), size=512, unit=unit)

    (chunks,) = chunk_all([doc], cut, {})

    check_cover(doc, [c for c in chunks if c.level == 0])
    check_parents(chunks)
    for c in chunks:
        most = levels[-1 - c.level].size
        clusters = cut.unit.count(regex.findall(r"\X", c.text))
        assert c.n_tokens <= most or max(clusters) + cut.unit.specials > most


def test_a_level_that_the_special_tokens_fill_is_refused():
    with pytest.raises(ConfigError, match="size of a level is 2"):
        chunk("Some text.", Hierarchical((Level(Fixed(), 2),)), unit=Framed())


def test_leaves_are_held_to_the_limit_of_the_job():
    text = " ".join(f"Sentence number {i} is short." for i in range(100))

    chunks = chunk(text, "hierarchical", size=80, unit="chars")

    leaves = [c.text for c in chunks if c.level == 0]
    assert max(map(len, leaves)) <= 80
    assert all(leaf.startswith("Sentence") and leaf.endswith(".") for leaf in leaves)
    assert max(len(c.text) for c in chunks if c.level == 2) > 80


def test_levels_may_ask_a_model():
    made = strategy("hierarchical", {"levels": [{"strategy": "semantic", "size": 300}, {"strategy": "sentence", "size": 90}]})

    assert made == Hierarchical((Level(Semantic(), 300), Level(Sentence(), 90)))
    assert made.needs == {Embed}
    assert Hierarchical().needs == frozenset()
    chunks = chunk(ARTICLE, made, size=90, unit="chars", answers=ANSWERS)
    assert {c.level for c in chunks} == {0, 1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"levels": []}, "levels is empty"),
        ({"levels": "section"}, r"must be a list of \{strategy"),
        ({"levels": ["section"]}, r"levels\[0\] is 'section'"),
        ({"levels": [{"strategy": "section"}]}, "strategy and its size"),
        ({"levels": [{"strategy": "sektion", "size": 9}]}, "did you mean 'section'"),
        ({"levels": [{"strategy": "section", "size": 9, "dept": 1}]}, "did you mean 'depth'"),
        ({"levels": [{"strategy": "section", "size": "9"}]}, r"levels\[0\]\.size is '9'; it must be a whole number"),
        ({"levels": [{"strategy": "section", "size": 0}]}, r"levels\[0\]\.size is 0"),
        (
            {"levels": [{"strategy": "section", "size": 9}, {"strategy": "sentence", "size": 10}]},
            r"levels\[1\].size is 10, and chunk.levels\[0\].size is 9",
        ),
        ({"levels": [{"strategy": "sentence", "size": 9, "overlap": 2}]}, "only with windows"),
        ({"levels": [{"strategy": "fixed", "size": 9, "overlap": 9}]}, "less than the size of 9"),
        ({"levels": [{"strategy": "hierarchical", "size": 9}]}, "hierarchical itself"),
        ({"levels": [{"strategy": "topic", "size": 9, "gather": True}]}, r"levels\[0\].gather puts together what stands apart"),
        ({"levels": [{"strategy": "section", "size": 9}], "preset": "parent_child"}, "levels is given"),
        ({"child_size": 100}, "preset: parent_child"),
    ],
)
def test_levels_that_make_no_sense_are_refused(options, says):
    with pytest.raises(ConfigError, match=says):
        strategy("hierarchical", options)


# --- modality


TABLE = "| city | people |\n|---|---|\n" + "".join(f"| town {i:02} | {i}000 |\n" for i in range(20)).rstrip()
MIXED = [("paragraph", "Before the table."), ("table", TABLE), ("figure", "Map of the towns"), ("paragraph", "Behind both.")]


def test_tables_and_figures_are_pieces_of_their_own():
    chunks = chunk(blocks_of(*MIXED), "modality", size=2000, unit="chars")

    assert [(c.kind, c.text) for c in chunks] == [
        ("text", "Before the table."),
        ("table", TABLE),
        ("image", "Map of the towns"),
        ("text", "Behind both."),
    ]


def test_a_long_table_is_cut_between_rows_under_its_header():
    chunks = chunk(blocks_of(*MIXED), "modality", size=120, unit="chars")

    tables = [c for c in chunks if c.kind == "table"]
    assert len(tables) > 3
    assert max(c.n_tokens for c in tables) <= 120
    assert all(c.context.startswith("| city | people |") for c in tables[1:])
    assert all(line.startswith("|") and line.endswith("|") for c in tables for line in c.text.splitlines())


def test_the_text_goes_by_the_strategy_that_is_named():
    made = strategy("modality", {"text": "sentence"})
    chunks = chunk(blocks_of(("paragraph", "One is here. Two is here."), *MIXED[1:]), made, size=15, unit="chars")

    assert [c.text for c in chunks if c.kind == "text"][:2] == ["One is here.", "Two is here."]
    assert strategy("modality", {"text": "semantic"}).needs == {Embed}


@pytest.mark.parametrize(("name", "says"), [("modality", "this strategy"), ("recursiv", "did you mean 'recursive'")])
def test_a_text_strategy_that_cannot_be_is_refused(name, says):
    with pytest.raises(ConfigError, match=says):
        strategy("modality", {"text": name})


# --- adaptive


SPARSE = "well you know we went to the old house and then we went to the old shop and so on. " * 8
DENSE = (
    "Photosynthetic efficiency is the ratio η = P/A; at 25°C, 1.87 ± 0.04 µmol (n=312). "
    "Stoichiometric thermodynamics: ΔG° = −RT·ln K, where K denotes equilibrium; 6CO2+6H2O → C6H12O6. "
) * 4


def test_formulae_figures_and_definitions_are_denser_than_small_talk():
    assert density(SPARSE).score < 0.4 < 0.6 < density(DENSE).score
    assert density("").score < 0.2


def test_dense_text_gets_smaller_chunks():
    doc = plain(f"{SPARSE.strip()}\n\n{DENSE.strip()}\n\n{SPARSE.strip()}")

    chunks = chunk(doc, "adaptive", size=600, unit="chars")

    dense = [len(c.text) for c in chunks if "η" in c.text or "ΔG" in c.text]
    sparse = [len(c.text) for c in chunks if "shop" in c.text]
    assert max(dense) < 350
    assert max(sparse) > 400
    assert not [c.text for c in chunks if "shop" in c.text and "η" in c.text]


def test_the_smallest_size_bounds_the_densest_text():
    doc = plain("η=1.8; Δ=2.9; " * 100)

    sizes = [len(c.text) for c in chunk(doc, "adaptive", size=600, unit="chars", min_size=590)]

    assert max(sizes) > 550


def test_a_smallest_size_above_the_size_is_refused():
    with pytest.raises(ConfigError, match="min_size is 700"):
        chunk("Some text.", "adaptive", size=600, unit="chars", min_size=700)
    with pytest.raises(ConfigError, match="min_size is 0"):
        strategy("adaptive", {"min_size": 0})


def test_no_chunk_is_below_the_smallest_size_that_has_room_beside_it():
    doc = plain("\n\n".join([SPARSE[:250], DENSE[:150]] * 12))

    free, held = (chunk(doc, "adaptive", size=150, **options) for options in ({}, {"min_size": 60}))

    assert min(c.n_tokens for c in free) < 60
    for a, b in itertools.pairwise(held):
        together = tokenizer("cl100k_base").count([doc.text[a.start : b.end]])[0]
        assert min(a.n_tokens, b.n_tokens) >= 60 or together > 150
    assert held == chunk(doc, Adaptive(min_size=60), size=150)


def test_as_a_level_it_joins_what_is_below_its_smallest_size_too():
    doc = plain("\n\n".join([SPARSE[:250], DENSE[:150]] * 12))

    found = chunk(doc, Hierarchical((Level(Adaptive(min_size=200), 600),)), size=600, unit="chars")

    assert min(len(c.text) for c in chunk(doc, Hierarchical((Level(Adaptive(), 600),)), size=600, unit="chars")) < 200
    assert all(min(len(a.text), len(b.text)) >= 200 or b.end - a.start > 600 for a, b in itertools.pairwise(found))


def test_adaptive_says_why_for_each_stretch():
    doc = plain(f"{SPARSE.strip()}\n\n{DENSE.strip()}")

    lines = Adaptive().explain(doc, budget(doc, 2000))

    assert len(lines) == 2
    assert lines[0].startswith(f"0-{len(SPARSE.strip())}: density 0.")
    assert "definitions per 100 words" in lines[1]


# --- auto


PROSE = ("paragraph", "Words that go on and on, as prose does. " * 10)


@pytest.mark.parametrize(
    ("doc", "chosen"),
    [
        (plain("Short enough."), "document"),
        (blocks_of(PROSE, PROSE), "recursive"),
        (blocks_of(("heading", "# One"), PROSE, ("heading", "# Two"), PROSE), "section"),
        (blocks_of(("heading", "# One"), PROSE, PROSE), "recursive"),
        (blocks_of(("table", TABLE), ("paragraph", "A caption.")), "table"),
        (blocks_of(("code", "x = 1\n" * 60)), "code"),
        (blocks_of(("record", "name: Ann\n" * 30)), "records"),
    ],
)
def test_auto_chooses_by_structure(doc, chosen):
    assert Auto().explain(doc, budget(doc, 200)).split(":")[0] == chosen


def test_slides_go_by_page_and_full_pages_do_not():
    def paged(words):
        text, blocks = "", []
        for page in range(1, 7):
            body = "Words on it. " * words
            blocks.append(Block("paragraph", Span(len(text), len(text) + len(body)), 0, page))
            text += body + "\n\n"
        return plain(text, *blocks)

    assert Auto().explain(paged(6), budget(paged(6), 200)) == "page: 6 pages of 80 units, typically"
    assert Auto().explain(paged(12), budget(paged(12), 200)).startswith("recursive:")


def test_auto_gives_what_the_chosen_strategy_gives():
    doc = blocks_of(("heading", "# One"), PROSE, ("heading", "# Two"), PROSE)

    assert Auto()(doc, budget(doc, 200)) == Section()(doc, budget(doc, 200))
