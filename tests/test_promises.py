"""DESIGN's promises, held to by every registered strategy: SLICE COVER ORDER LIMIT CLUSTER NOEMPTY DISJOINT UNIQ STABLE."""

import pickle
from itertools import chain, pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Document
from chunkmill.chunkers.llm import is_written
from chunkmill.chunkers.measure import tokenizer
from chunkmill.chunkers.strategies import STRATEGIES
from vocabulary import ANSWERS, Bytes, documents

UNITS = {"chars": "chars", "words": "words", "bytes": Bytes(), "cl100k_base": "cl100k_base"}
LEVELS = [
    {"strategy": "section", "size": 50, "merge": False},
    {"strategy": "semantic", "size": 20, "method": "percentile", "amount": 50},
    {"strategy": "fixed", "size": 7},
]
SUMMARIES = [{"strategy": "summaries", "size": 50, "least_tokens": 3}, {"strategy": "fixed", "size": 7}]
CUTS = [(name, {}) for name in STRATEGIES] + [
    ("section", {"merge": False}),
    ("recursive", {"separators": "markdown"}),
    ("recursive", {"separators": ("\n\n", "{sentence}", " "), "keep": "end"}),
    ("semantic", {"method": "percentile", "amount": 50.0, "buffer": 1}),
    *(
        ("semantic", {"method": m})
        for m in ("depth", "standard_deviation", "interquartile", "gradient", "mean_drop", "centroid")
    ),
    ("semantic", {"min_size": 6}),
    ("clusters", {"weight": 8.0}),
    ("topic", {"topics": 3, "gather": True}),
    ("topic", {"method": "lda", "gather": True}),
    ("topic", {"method": "lda", "topics": 2}),
    ("fixed", {"overlap_before": True}),
    ("sentence", {"overlap_sentences": 2}),
    ("sentence", {"stable": False}),
    ("recursive", {"stable": False}),
    ("section", {"stable": False}),
    ("markers", {"markers": ("be.", "x=[")}),
    ("page", {"pack": True}),
    ("records", {"pack": False}),
    ("sliding", {"over": "sentences", "window": 8}),
    ("table", {"rows": 2}),
    ("turns", {"speakers": True}),
    ("adaptive", {"min_size": 5}),
    ("hierarchical", {"levels": LEVELS}),
    ("hierarchical", {"preset": "parent_child", "parent_size": 40, "child_size": 9, "child_overlap": 0}),
    ("modality", {"text": "semantic"}),
    ("optimal", {"target": 1.0}),
    ("llm_boundaries", {"window_tokens": 12}),
    ("propositions", {"window_tokens": 12}),
    ("agentic_groups", {"round": 2, "window_tokens": 20}),
    ("summaries", {"least_tokens": 0, "style": "points", "window_tokens": 15}),
    ("hierarchical", {"levels": SUMMARIES}),
]
IDS = [f"{name}-{'-'.join(options)}" if options else name for name, options in CUTS]


@pytest.mark.parametrize(("name", "options"), CUTS, ids=IDS)
@given(
    docs=st.lists(documents(), min_size=1, max_size=3),
    unit=st.sampled_from(sorted(UNITS)),
    size=st.integers(8, 60),
    overlap=st.integers(0, 7),
    context=st.sampled_from(["none", "headings", "llm"]),
)
@settings(max_examples=150, deadline=None)
def test_every_strategy_keeps_the_promises(name, options, docs, unit, size, overlap, context):
    overlap = 0 if "overlap_sentences" in options else overlap  # both at once are refused
    cut = chunking(name, options, size=size, overlap=overlap, unit=UNITS[unit], context=context)

    outcomes = chunk_all(docs, cut, ANSWERS)

    for doc, chunks in zip(docs, outcomes, strict=True):
        assert isinstance(chunks, list), chunks
        check_promises(doc, chunks, cut, disjoint=not overlap and "overlap_sentences" not in options)
        assert chunk_all([doc], cut, ANSWERS)[0] == chunks, "STABLE: the same alone as in a batch"


def check_promises(doc, chunks, cut, *, disjoint):
    leaves = [c for c in chunks if c.level == 0]
    # what a model wrote has the span of its evidence; what is gathered stands between the chunks of other topics
    extracts = [c for c in leaves if not is_written(c.kind) and not c.spans]
    check_gathered(doc, [c for c in leaves if c.spans])
    check_slices(doc, chunks)
    check_cover(doc, leaves)
    check_order(extracts)
    check_limit(chunks, cut)
    check_parents(chunks)
    check_clusters(doc, leaves, cut)
    if disjoint:
        assert all(a.end <= b.start for a, b in pairwise(extracts)), "DISJOINT"
    assert len({c.id for c in chunks}) == len(chunks), "UNIQ"


def check_slices(doc, chunks):
    for c in chunks:
        assert 0 <= c.start < c.end <= len(doc.text)
        assert is_written(c.kind) or "\n".join(doc.text[a:b] for a, b in c.ranges) == c.text, "SLICE"
        assert c.kind != "proposition" or doc.text[c.start : c.end].strip(), "EVIDENCE"
        assert c.text == c.text.strip() != "", "NOEMPTY"


def check_cover(doc, leaves):
    covered = bytearray(len(doc.text))
    for start, end in (span for c in leaves for span in c.ranges):
        covered[start:end] = b"\1" * (end - start)
    assert not [ch for ch, seen in zip(doc.text, covered, strict=True) if not seen and not ch.isspace()], "COVER"


def check_gathered(doc, chunks):
    spans = [*chain.from_iterable(c.spans for c in chunks)]
    assert all(0 <= a < b <= len(doc.text) and not doc.text[a].isspace() and not doc.text[b - 1].isspace() for a, b in spans)
    assert all(a.end <= b.start for a, b in pairwise(sorted(spans))), "DISJOINT"
    for c in chunks:
        assert (c.start, c.end) == (c.spans[0].start, c.spans[-1].end)
        assert all(doc.text[a.end : b.start].strip() for a, b in pairwise(c.spans)), "in order, and as few as can be"


def check_order(leaves):
    for a, b in pairwise(leaves):
        assert a.start <= b.start, "ORDER"
        assert a.end < b.end, "ORDER"
        assert not (b.start <= a.start and a.end <= b.end), "no chunk lies inside another"


def check_limit(chunks, cut):
    for c in chunks:
        true = cut.unit.count([c.embedded])[0] + cut.unit.specials
        assert c.n_tokens == true, "the stored size is the size of what is embedded"
        assert c.level or true <= cut.size or len(c.text) == 1, "LIMIT"


def check_parents(chunks):
    """Each piece lies inside one of the level above, and is told so."""
    top = max((c.level for c in chunks), default=0)
    by_id = {c.id: c for c in chunks}
    for c in chunks:
        parent = by_id.get(c.parent_id)
        assert (c.level == top) == (parent is None), "PARENT"
        assert parent is None or (parent.level == c.level + 1 and parent.start <= c.start and c.end <= parent.end), "PARENT"


def check_clusters(doc, leaves, cut):
    inside = {i for m in regex.finditer(r"\X", doc.text) for i in range(m.start() + 1, m.end())}
    for c in leaves:
        for edge in (c.start, c.end):
            if edge in inside:
                whole = next(m for m in regex.finditer(r"\X", doc.text) if m.start() < edge < m.end())
                kept = cut.reserve if cut.context == "llm" else 0
                room = cut.limit - kept - (cut.unit.count([c.context + "\n"])[0] if c.context else 0)
                assert cut.unit.count([whole.group()])[0] > room or whole.group().isspace(), "CLUSTER"


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_are_values(name):
    strategy = STRATEGIES[name].cls()

    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert hash(strategy) == hash(STRATEGIES[name].cls())
    assert strategy.__dataclass_params__.frozen


@pytest.mark.parametrize("name", [n for n in STRATEGIES if not STRATEGIES[n].cls().needs])
def test_a_huge_unbroken_token_is_cut_not_dropped(name):
    text = "head " + "z" * 20_000 + " tail"
    cut = chunking(name, size=100, unit="chars")

    (chunks,) = chunk_all([Document("d", "", text)], cut, {})

    leaves = [c for c in chunks if c.level == 0]
    assert max(len(c.text) for c in leaves) <= 100
    assert sum(c.text.count("z") for c in leaves) == 20_000


def test_special_tokens_are_plain_text():
    text = "Docs end with <|endoftext|> and start again. " * 40
    cut = chunking("fixed", size=20, unit="cl100k_base")

    (chunks,) = chunk_all([Document("d", "", text)], cut, {})

    import tiktoken

    ordinary = tiktoken.get_encoding("cl100k_base").encode_ordinary
    assert [c.n_tokens for c in chunks] == [len(ordinary(c.text)) for c in chunks]
    assert tokenizer("cl100k_base").count(["Docs end with <|endoftext|> and start again."]) == [13]
