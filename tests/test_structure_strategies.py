"""Strategies that follow what is in the text: windows, paragraphs, markers, pages, tables, records, turns."""

import json
import random
import time
from itertools import pairwise

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.base import Block, Budget, Document, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.markers import Markers
from chunkmill.chunkers.records import Records, json_tree, xml_tree
from chunkmill.chunkers.sliding import Sliding, slide
from chunkmill.chunkers.table import Table, cells, delimited, record_starts
from chunkmill.chunkers.turns import turns
from chunkmill.io.parsers import parse
from test_promises import check_clusters, check_cover, check_order, check_slices
from vocabulary import Bytes

MARKED_SPACE = regex.compile(r"[^\S\r\n][\p{Grapheme_Extend}\p{GCB=SM}\u200d]|\p{GCB=PP}\s")  # trimming would cut the cluster
STRUCTURED = ("sliding", "paragraph", "markers", "page", "table", "records", "turns")
AI = """Artificial intelligence is transforming the way businesses operate. Machine learning,
a core branch of AI, enables systems to learn and improve from experience without being
explicitly programmed. Deep learning, a subset of machine learning, uses neural networks
with many layers to model complex patterns in data.

Natural language processing (NLP) allows computers to understand, interpret, and generate
human language. Applications include sentiment analysis, machine translation, and chatbots.
Large language models like GPT-4o and Claude have pushed NLP capabilities dramatically forward.

Computer vision enables machines to interpret visual information from the world. Convolutional
neural networks (CNNs) excel at image classification, object detection, and segmentation.
Diffusion models now power state-of-the-art image generation."""


def chars(source, strategy, size, **options):
    return chunk(source, strategy, size=size, unit="chars", **options)


def texts(chunks):
    return [c.text for c in chunks]


def slid(text, strategy, overlap=0, size=512, unit="words"):
    size, overlap = strategy.sized(size, overlap)
    return chunk(text, strategy, size=size, overlap=overlap, unit=unit)


def markdown(source):
    (parsed,) = parse(source.encode(), "a.md")
    return Document("d", "a.md", parsed.text, parsed.blocks)


# Promises, on texts with the structure these strategies look for


scalars = st.one_of(
    st.integers(-9, 10**9), st.booleans(), st.none(), st.text(max_size=30), st.just("word " * 20), st.just('"\\')
)
values = st.recursive(
    scalars, lambda v: st.one_of(st.lists(v, max_size=5), st.dictionaries(st.text(max_size=12), v, max_size=5)), max_leaves=25
)
jsons = st.builds(
    lambda v, indent, a: json.dumps(v, indent=indent, ensure_ascii=a), values, st.sampled_from([None, 1]), st.booleans()
)
words = st.sampled_from(
    ["a", "bolt", "x,y", 'say "hi"', "two\nlines", "東京都", "", " ", "e\u0301", "long " * 9, "|", "<b>", "12:01"]
)


def csv_file(text):
    """The text as the parser of CSV gives it, with a table over it."""
    (parsed,) = parse(text.encode(), "a.csv", format="csv")
    return Document("d", "a.csv", parsed.text, parsed.blocks, parsed.metadata)


def quoted(field):
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field


def element(tag, inner):
    return f"<{tag} a='>'>{inner}</{tag}>"


csvs = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(words.map(quoted), min_size=n, max_size=n).map(",".join), min_size=1, max_size=8).map("\n".join)
)
pipes = st.lists(
    st.lists(st.sampled_from(["a", "bolt 7", "東京", "", "long cell " * 4]), min_size=3, max_size=3), min_size=2, max_size=8
).map(lambda rows: "\n".join(f"| {' | '.join(r)} |" for r in (rows[0], ["---"] * 3, *rows[1:])))
xmls = st.recursive(
    st.sampled_from(["text", "<!-- > -->", "<br/>", "<![CDATA[ </r> ]]>", "word " * 12, "\n"]),
    lambda v: st.builds(element, st.sampled_from("rab"), st.lists(v, max_size=4).map("\n".join)),
    max_leaves=15,
).map(lambda inner: element("root", inner))
lines = st.sampled_from(
    [
        *(
            "Ann: yes",
            "[12:01] Bo: " + "no " * 12,
            "<cy> well",
            "> quoted",
            ">> deeper",
            "",
            "1",
            "TITLE",
            "Note:",
            "\f",
            "plain words here",
        ),
        *("00:00:01,000 --> 00:00:02,500", "WEBVTT", "On Mon, 1 May, Bob <b@x.org> wrote:", "-----Original Message-----"),
        *("From: Ann <a@b.c>", "Subject: x", "東京：はい", "**Dan:** bold"),
    ]
)
talks = st.lists(lines, max_size=20).map("\n".join)


@st.composite
def structured(draw):
    """JSON, JSON Lines, CSV, XML, pipe tables and conversations, also with a character lost or a piece cut off."""
    text = draw(st.one_of(jsons, st.lists(jsons, max_size=4).map("\n".join), csvs, xmls, talks, pipes))
    blocks = ()
    if text.startswith("|"):
        blocks = (Block("table", Span(0, len(text))),) if draw(st.booleans()) else markdown(text).blocks
        return Document("d", "a.md", text, blocks)
    damage = draw(st.sampled_from(["none", "none", "lost", "cut"]))
    if damage != "none" and text:
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + (text[at + 1 :] if damage == "lost" else "")
    assume(not MARKED_SPACE.search(text))
    name = draw(st.sampled_from(["a.csv", "a.txt", "a file"]))
    return csv_file(text) if name == "a file" else Document("d", name, text)


CUTS = [
    *((name, {}) for name in STRUCTURED),
    ("records", {"pack": False}),
    ("table", {"rows": 1}),
    ("table", {"header": False}),
    ("turns", {"speakers": True}),
]


@pytest.mark.parametrize(("name", "options"), CUTS, ids=[f"{n}-{'-'.join(o)}" for n, o in CUTS])
@given(doc=structured(), unit=st.sampled_from(["chars", "words", "bytes", "cl100k_base"]), size=st.integers(8, 90))
@settings(max_examples=150, deadline=None)
def test_the_promises_hold_on_structured_texts(name, options, doc, unit, size):
    cut = chunking(name, options, size=size, unit=Bytes() if unit == "bytes" else unit)

    (chunks,) = chunk_all([doc], cut, {})

    assert isinstance(chunks, list), chunks
    check_slices(doc, chunks)
    check_cover(doc, chunks)
    check_order(chunks)
    check_clusters(doc, chunks, cut)
    assert all(a.end <= b.start for a, b in pairwise(chunks))
    assert all(cut.unit.count([c.embedded])[0] == c.n_tokens for c in chunks)
    assert all(c.n_tokens <= size or len(c.text) == 1 for c in chunks)


# Sliding


def test_windows_of_words_slide_by_window_less_overlap():
    chunks = slid(AI, Sliding(window=30), overlap=6)

    assert [(c.start, c.end) for c in chunks] == [(0, 213), (168, 381), (333, 571), (532, 765), (719, 841)]
    assert slid(AI, Sliding(window=30, step=24)) == chunks


@pytest.mark.parametrize(
    ("ends", "step", "limit", "windows"),
    [
        ([1, 2, 3, 4], 1, 100, [(0, 3), (1, 4)]),
        ([1, 2, 12], 1, 10, [(0, 2), (2, 3)]),
        ([5, 10, 15], 3, 5, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_a_window_that_ends_where_the_last_one_ended_is_not_given(ends, step, limit, windows):
    parts = [Span(a, b) for a, b in pairwise([0, *ends])]

    assert slide(parts, 3, step, Budget(limit, None, ends[-1], limit)) == windows


def test_windows_of_sentences():
    text = "Rain fell. It stopped. Sun came. Birds sang."

    chunks = slid(text, Sliding(window=3, step=1, over="sentences"))

    assert texts(chunks) == ["Rain fell. It stopped. Sun came.", "It stopped. Sun came. Birds sang."]
    assert chunks == slid(text, Sliding(window=3, over="sentences"), overlap=2)


def test_a_window_of_sentences_ends_where_the_limit_says_so():
    text = "One two three. Four five six. Seven eight nine. Ten."

    chunks = slid(text, Sliding(window=3, step=1, over="sentences"), size=6)

    assert [text[0:29], text[15:47], text[30:52]] == texts(chunks)


@pytest.mark.parametrize(
    ("window", "step", "overlap", "says"),
    [
        (10, 20, 0, "lost"),
        (10, 4, 2, "one of the two"),
        (10, None, 10, "less than"),
        (0, None, 0, "1 or more"),
        (None, 600, 0, "window"),
    ],
)
def test_a_window_that_can_not_slide_is_refused(window, step, overlap, says):
    with pytest.raises(ConfigError, match=says):
        Sliding(window=window, step=step).sized(512, overlap)


def test_sentences_without_a_window_are_refused():
    with pytest.raises(ConfigError, match="window"):
        Sliding(over="sentences")


# Paragraphs and pages


def test_paragraphs_are_packed_whole():
    text = "aaaa aaaa\n\nbbbb bbbb\n \ncccc cccc\n\ndddd"

    assert texts(chars(text, "paragraph", 20)) == ["aaaa aaaa\n\nbbbb bbbb", "cccc cccc\n\ndddd"]


def test_only_a_paragraph_over_the_limit_is_split():
    text = "Short.\n\nOne here. Another one is.\n\nEnd."

    assert texts(chars(text, "paragraph", 20)) == ["Short.", "One here.", "Another one is.", "End."]


def test_a_list_is_one_paragraph_and_a_heading_stays_with_what_follows():
    doc = markdown("Intro text.\n\n# Tools\n\n- saw\n\n- axe\n\nEnd of it.\n")

    assert texts(chars(doc, "paragraph", 22)) == ["Intro text.", "# Tools\n\n- saw\n\n- axe", "End of it."]


def test_form_feeds_divide_pages():
    text = "page one\nmore\fpage two\f \fpage four"

    assert texts(chars(text, "page", 100)) == ["page one\nmore", "page two", "page four"]
    assert [text[:22], "page four"] == texts(chars(text, "page", 25, pack=True))


def test_pages_are_those_of_the_blocks():
    text = "one\n\ntwo\n\nthree\n\nfour"
    spans = [Span(0, 3), Span(5, 8), Span(10, 15), Span(17, 21)]
    doc = Document("d", "", text, tuple(Block("paragraph", s, page=p) for s, p in zip(spans, [1, 1, None, 3], strict=True)))

    assert texts(chars(doc, "page", 100)) == ["one\n\ntwo\n\nthree", "four"]


# Markers

MARKED = "Widgets at work\nINTRODUCTION\nA widget turns.\nIt hums.\nMETHOD:\nWe turned it.\nCONCLUSION\nIt works.\n"


@pytest.mark.parametrize(
    ("markers", "spans", "found"),
    [
        (("INTRODUCTION", "CONCLUSION"), [(0, 15), (16, 75), (76, 96)], ["INTRODUCTION", "CONCLUSION"]),
        ("auto", [(0, 15), (16, 53), (54, 75), (76, 96)], ["INTRODUCTION", "METHOD:", "CONCLUSION"]),
    ],
)
def test_each_marker_begins_a_chunk(markers, spans, found):
    assert spans == [(c.start, c.end) for c in chunk(MARKED, "markers", markers=markers)]
    assert found == Markers(markers).found(Document("", "", MARKED))


def test_the_markers_found_are_told_of_each_chunk_and_of_the_document():
    doc = markdown("# The wheel\n\nWidgets.\n\nMETHOD:\nWe turned it. " + "Again. " * 6 + "\n\n# RESULT\n\nIt works.\n")

    chunks = chars(doc, "markers", 60)

    assert [c.heading_path for c in chunks] == [
        ("The wheel",),
        ("The wheel", "METHOD:"),
        ("The wheel", "METHOD:"),
        ("RESULT",),
    ]
    assert Markers(("METHOD:", "RESULT"), anywhere=True).explain(doc, Budget(9, None, 9, 9)) == "2 markers: METHOD:; RESULT"
    assert Markers(("none",)).explain(doc, Budget(9, None, 9, 9)) == "0 markers"


def test_markers_are_whole_words_at_the_start_of_a_line():
    text = "STEP one\nsee STEP two\nSTEPS\n  STEP three"

    assert Markers(("STEP",)).found(Document("", "", text)) == ["STEP", "STEP"]
    assert Markers(("STEP",), anywhere=True).found(Document("", "", text)) == ["STEP", "STEP", "STEP"]


def test_markers_may_be_regular_expressions():
    text = "x\nArt. 1 One\nart. 2 Two, Art. 3"

    assert Markers((r"(?i)art\. \d+",), regex=True).found(Document("", "", text)) == ["Art. 1", "art. 2"]
    assert Markers((r"Art\. \d+",), regex=True, anywhere=True).found(Document("", "", text)) == ["Art. 1", "Art. 3"]


def test_code_holds_no_automatic_markers():
    doc = markdown("SETUP\n\n```py\nif x:\n    y\n```\n\nThen:\n\nit.\n")

    assert Markers().found(doc) == ["SETUP", "Then:"]


def test_a_line_of_eleven_words_is_no_marker():
    assert Markers().found(Document("", "", "one two three four five six seven eight nine ten eleven:\n")) == []


@pytest.mark.parametrize("options", [{"regex": True}, {"anywhere": True}, {"markers": ()}, {"markers": ("(",), "regex": True}])
def test_markers_that_mean_nothing_are_refused(options):
    with pytest.raises(ConfigError, match=r"chunk\."):
        Markers(**options)


# Tables

BOLTS = "| item | qty |\n| --- | --- |\n" + "".join(f"| bolt{i} | {i} |\n" for i in range(1, 9))


def test_every_group_of_rows_has_the_header():
    chunks = chunk(markdown(BOLTS), "table", rows=3)

    assert [c.text.count("bolt") for c in chunks] == [3, 3, 2]
    assert all(c.embedded.startswith("| item | qty |\n| --- | --- |\n") for c in chunks)
    assert [c.context for c in chunks] == [""] + ["| item | qty |\n| --- | --- |"] * 2
    assert {"table"} == {c.kind for c in chunks}


def test_a_caption_is_not_repeated():
    chunks = chunk(markdown("Table 7: Fuel on board\n\n" + BOLTS), "table", rows=4)

    assert [c.text.count("Table 7") for c in chunks] == [1, 0, 0]
    assert not any("\n\n" in c.text for c in chunks)


def test_the_header_ends_with_the_rule_of_dashes():
    source = "| group | q1 | q2 |\n| | jan-mar | apr-jun |\n|---|---|---|\n" + "".join(
        f"| line{i} | {i}1 | {i}2 |\n" for i in range(8)
    )
    header = "| group | q1 | q2 |\n| | jan-mar | apr-jun |\n|---|---|---|"

    chunks = chunk(markdown(source), "table", rows=4)
    plain = chunk(Document("d", "", source, (Block("table", Span(0, len(source) - 1)),)), "table", rows=4)

    assert [header + source[len(header) :].split("| line4")[0].rstrip(), chunks[1].text] == texts(chunks)
    assert ["", header] == [c.context for c in chunks]
    assert texts(chunks) == texts(plain)


def test_rows_headings_and_the_repeated_header_share_one_limit():
    source = "# Stock list of the northern depot\n\n| item | count |\n| --- | --- |\n" + "".join(
        f"| bolt{i} | {i} |\n" for i in range(60)
    )

    chunks = chunk(markdown(source), "table", size=160, unit="chars", context="headings")
    tables = [c for c in chunks if c.kind == "table"]

    assert [sum(f"| bolt{i} |" in c.text for c in chunks) for i in range(60)] == [1] * 60
    assert all("| item | count |" in c.embedded for c in tables)
    assert max(len(c.embedded) for c in chunks) <= 160


def test_text_around_tables_is_text():
    doc = markdown("Before it.\n\n" + BOLTS + "\nAfter it.\n")

    assert [c.kind for c in chunk(doc, "table")] == ["text", "table", "text"]


def test_a_row_in_quotes_may_hold_newlines():
    text = 'a,b\n1,"x\n""y"\n2,z\n'

    assert record_starts(text, ",") == [0, 4, 14]
    assert texts(chars(text, "table", 13)) == ['a,b\n1,"x\n""y"', "2,z"]


def test_a_quote_that_is_never_closed_is_a_character():
    assert record_starts('a,b\n",1\n2,3\n', ",") == [0, 4, 8]


def test_cells_tile_their_row():
    row = '1,"a,b",,x'

    assert [row[a:b] for a, b in cells(row, Span(0, len(row)), ",")] == ["1,", '"a,b",', ",", "x"]
    assert [r"| a | b\|c | |"[a:b] for a, b in cells(r"| a | b\|c | |", Span(0, 14), "|")] == ["| a |", r" b\|c |", " |"]


@pytest.mark.parametrize(
    ("text", "uri", "delimiter"),
    [
        ("a,b\n1,2\n3,4\n", "", ","),
        ("a\tb\n1\t2\n3\t4\n", "", "\t"),
        ("a;b\n1,5;2\n3;4,5\n", "x.csv", ";"),
        ("Well, yes.\nNo, no.\nSo, what.\n", "", ""),
        ("One line, no more\n", "", ""),
        ("name\nann\nbo\n", "x.csv", ","),
    ],
)
def test_what_reads_like_delimited_text(text, uri, delimiter):
    assert delimiter == delimited(Document("d", uri, text))


def test_a_row_that_does_not_fit_is_cut_between_cells_under_its_own_columns():
    header = [f"column{i}" for i in range(12)]
    text = "\n".join(",".join(r) for r in (header, *([f"v{r}-{i}" for i in range(12)] for r in range(3))))

    chunks = [c for c in chars(text, "table", 60) if "v" in c.text]

    for c in chunks:
        columns = [f"column{cell.partition('-')[2]}" for cell in c.text.strip(",").split(",")]
        assert " | ".join(columns) == c.context.splitlines()[-1]
        key = f"v{c.text[1]}-0"
        assert c.text.startswith(key) or c.context.startswith(f"column0: {key}\n")


def test_a_cell_over_the_limit_is_cut():
    text = "key,note\nk1," + "word " * 40 + "\nk2,short\n"

    chunks = chars(text, "table", 50)

    assert sum(c.text.count("word") for c in chunks) == 40
    assert [c.text for c in chunks if "k2" in c.text] == ["k2,short"]


def test_rows_are_counted_from_one():
    with pytest.raises(ConfigError, match="rows"):
        Table(rows=0)


# Records


def test_a_leaf_is_measured_with_its_path():
    chunks = chars('{"plant": {"unit": {"a": "aaaaaaaaaa", "b": "bbbbbbbbbb"}}}', "records", 43)

    assert texts(chunks) == ['{"plant": {"unit": {"a": "aaaaaaaaaa",', '"b": "bbbbbbbbbb"}}}']
    assert [c.context for c in chunks] == ["", "$.plant.unit"]


def test_a_list_or_a_scalar_at_the_top_is_not_lost():
    source = '[{"id": 1, "x": "ok"}, {"id": 2, "x": "no"}]'

    assert [source] == texts(chars(source, "records", 100))
    assert texts(chars(source, "records", 100, pack=False)) == ['[{"id": 1, "x": "ok"},', '{"id": 2, "x": "no"}]']
    assert [texts(chars(s, "records", 100)) for s in ("5", '"plain"')] == [["5"], ['"plain"']]


def test_text_is_measured_as_it_is_written():
    source = '{"ort": "東京都", "notiz": "über 中国語"}'

    assert [source] == texts(chars(source, "records", 35))


def test_what_is_inside_a_record_has_its_path():
    items = [{"id": i, "name": "word " * (30 if i == 3 else 2), "a key": [1]} for i in range(5)]

    chunks = chars(json.dumps({"first": [[1], [2]], "items": items}), "records", 90)
    contexts = [c.context for c in chunks]

    assert sorted(set(contexts)) == ["", "$.items", "$.items[3]", "$.items[3].name"]
    assert {"$.items[3].name"} == {c.context for c in chunks if "word" in c.text and '"' not in c.text}


def test_a_deep_path_loses_its_outermost_steps():
    deep = {"leaf": {f"k{i}": "x" * 20 for i in range(9)}}
    for i in range(12):
        deep = {f"level{i}": deep}

    chunks = chars(json.dumps(deep), "records", 100)

    assert "$..level2.level1.level0.leaf" in {c.context for c in chunks}


@given(st.lists(st.dictionaries(st.text(max_size=8), scalars, max_size=4), min_size=2, max_size=8), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_records_are_whole_values(rows, indent):
    array, rest = json.dumps(rows, indent=indent or None), "\n".join(map(json.dumps, rows))

    singles = [
        json.loads(t.strip().removeprefix("[").strip(" \n").removesuffix("]").strip().removesuffix(","))
        for t in texts(chars(array, "records", 9999, pack=False))
    ]

    assert rows == singles
    assert rows == [json.loads(t) for t in texts(chars(rest, "records", 9999, pack=False))]


@pytest.mark.parametrize(
    "text",
    [
        "{1]",
        "[[1]",
        '["a]',
        "[1]]",
        "[a](b) is a link",
        "{{x}} in a template",
        "<b>bold</b> text",
        "<a><b></a></b>",
        "<p>one<br>two</p>",
        "<",
        "",
    ],
)
def test_what_only_begins_like_json_or_xml_is_text(text):
    assert json_tree(text) is None
    assert xml_tree(text) is None
    assert [text] * bool(text) == texts(chars(text, "records", 100))


def test_backslashes_and_brackets_in_strings_are_no_structure():
    for value in ('a\\"]', "\\\\", '}"{', "\\"):
        tree = json_tree(json.dumps([value, {"k": value}]))

        assert tree is not None
        assert tuple(len(tree.at(d)) for d in range(3)) == (1, 2, 1)


def test_children_of_the_root_are_records_of_xml():
    text = '<?xml version="1.0"?>\n<r>\n<i a=">">one</i>\n<!-- <i> -->\n<i><![CDATA[</i>]]></i>\n<i/>\n</r>\n'

    pieces = texts(chars(text, "records", 200, pack=False))

    assert [text[: text.index("<i><!")].rstrip(), "<i><![CDATA[</i>]]></i>", "<i/>\n</r>"] == pieces


def test_rows_of_csv_are_records_under_their_header():
    chunks = chars("a,b\n1,2\n3,4\n5,6\n", "records", 100, pack=False)

    assert [(c.context, c.text) for c in chunks] == [("", "a,b\n1,2"), ("a,b", "3,4"), ("a,b", "5,6")]


@pytest.mark.parametrize("pack", [True, False])
def test_records_of_a_csv_file_are_those_of_its_text_and_never_cut_at_a_newline_in_a_cell(pack):
    rows = [f'{i},"line one of {i}\nsecond line of {i}"' for i in range(1, 6)]
    text = "\n".join(["id,note", *rows])

    file, plain = (chars(doc, "records", 90, pack=pack) for doc in (csv_file(text), text))

    assert [(c.kind, c.context, c.text) for c in file] == [(c.kind, c.context, c.text) for c in plain]
    assert "\n".join(texts(file)) == text
    assert {c.context for c in file[1:]} == {"id,note"}
    assert all(c.text.endswith('"') for c in file)


def test_a_file_whose_numbers_say_that_it_has_no_header_repeats_none():
    chunks = chars(csv_file("1,2.5\n2,3.5\n3,4.5\n4,5.5\n"), "records", 13)

    assert [(c.context, c.text) for c in chunks] == [("", "1,2.5\n2,3.5"), ("", "3,4.5\n4,5.5")]


def test_rows_of_a_table_in_other_formats_are_records_too():
    doc = markdown("Intro.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n")

    chunks = chars(doc, "records", 99, pack=False)

    assert [(c.kind, c.text) for c in chunks] == [
        ("text", "Intro."),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("table", "| 3 | 4 |"),
    ]


def test_a_cell_that_begins_with_an_accent_is_not_cut_from_its_delimiter():
    chunks = chars("bolt,bolt,x,y\n ,\u0301,a,a", "table", 8)

    assert all(not c.text.startswith("\u0301") for c in chunks)


def test_lines_of_json_are_records():
    text = '{"a": 1}\n{"b": 2}\n\n{"c": 3}\n'

    assert texts(chars(text, "records", 18)) == ['{"a": 1}\n{"b": 2}', '{"c": 3}']


# Turns

SRT = "1\n00:00:01,000 --> 00:00:02,000\nHello.\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n"
VTT = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Roger>Hi\n\nx\n00:03.000 --> 00:04.000\nAnn: Bye\n"
MAIL = """Thanks!

On Mon, 1 May 2023 at 10:00, Bob Stone <bob@x.org> wrote:
> Hello
>
> On Sunday, Ann <a@b.c> wrote:
>> first
>
> reply
"""


@pytest.mark.parametrize(
    ("text", "labels", "begins"),
    [
        ("Ann: hi\nBo: yes\nmore\nAnn: bye\n", ["Ann", "Bo", "Ann"], ["Ann: ", "Bo: y", "Ann: "]),
        ("[12:01] Ann: yes\n[12:02:30] Bo Lee: no\n", ["Ann (12:01)", "Bo Lee (12:02:30)"], ["[12:0", "[12:0"]),
        ("12:01 <ann> yes\n<bo> no\n", ["ann (12:01)", "bo"], ["12:01", "<bo> "]),
        ("**Ann:** yes\n\nBo Lee (9:30): no\n", ["Ann", "Bo Lee (9:30)"], ["**Ann", "Bo Le"]),
        (SRT, ["00:00:01,000", "00:00:03,000"], ["1\n00:", "2\n00:"]),
        (VTT, ["Roger (00:01.000)", "Ann (00:03.000)"], ["00:01", "x\n00:"]),
        (MAIL, ["Bob Stone (Mon, 1 May 2023 at 10:00)", "Ann (Sunday)", ""], ["On Mo", "> On ", "> rep"]),
        ("Hi\n\n-----Original Message-----\nFrom: Ann Lee <a@b>\nSent: Monday\nTo: Bo\n\nbody\n", ["Ann Lee"], ["-----"]),
        ("Note: this is prose.\nSee http://x.org: it has no turns.\n", [], []),
    ],
)  # fmt: skip
def test_turns_are_found_with_speaker_and_time(text, labels, begins):
    found = turns(text)

    assert labels == [t.label for t in found]
    assert begins == [text[t.start : t.start + 5] for t in found]


def test_turns_are_packed_whole():
    text = "Ann: hello there\nBo: good day\nAnn: I have a long story to tell you\nBo: go on\n"

    chunks = chars(text, "turns", 30)

    assert texts(chunks) == ["Ann: hello there\nBo: good day", "Ann: I have a long story to", "tell you", "Bo: go on"]


def test_each_chunk_may_carry_who_speaks():
    text = "[9:15] Ann: " + "I talk on and on. " * 9 + "\n[9:20] Bo: fine\n"

    chunks = chars(text, "turns", 80, speakers=True)

    assert {"Ann (9:15)", "Bo (9:20)"} == {c.context for c in chunks}
    assert chunks[-1].context == "Bo (9:20)"


def test_a_text_without_turns_is_cut_by_paragraphs():
    assert texts(chars(AI, "paragraph", 300)) == texts(chars(AI, "turns", 300))


# Cost


def seconds(text, name, options):
    budget = Budget(2000, None, len(text), 2000)
    strategy = chunking(name, options, unit="chars").strategy
    start = time.process_time()
    strategy(Document("d", "a.csv" if name == "table" else "", text), budget)
    return time.process_time() - start


def nested(n):
    return "[1," * (n // 4) + "1" + "]" * (n // 4)


HOSTILE = {
    "lines": lambda n: "ab cd\n" * (n // 6),
    "one line": lambda n: "word " * (n // 5),
    "unbroken": lambda n: "z" * n,
    "white": lambda n: "a" + " " * n + "b",
    "newlines": lambda n: "a" + "\n" * n + "b",
    "csv": lambda n: "id,name,note\n" + "12,bolt,x\n" * (n // 10),
    "quotes": lambda n: 'a,b\n"' + '""' * (n // 2),
    "open quotes": lambda n: 'a,"b\n' * (n // 5),
    "wide row": lambda n: ",".join(["h"] * (n // 4)) + "\n" + ",".join(["v"] * (n // 4)),
    "json": lambda n: json.dumps([{"id": 1, "x": "y" * 20}] * (n // 40)),
    "deep": nested,
    "deeper": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "deep objects": lambda n: '{"k":' * (n // 6) + "1" + "}" * (n // 6),
    "long string": lambda n: json.dumps({"a": "word " * (n // 5)}),
    "backslashes": lambda n: '["' + "\\" * (n // 2 * 2) + '"]',
    "xml": lambda n: "<r>" + "<i>text</i>" * (n // 11) + "</r>",
    "deep xml": lambda n: "<r>" * (n // 7) + "</r>" * (n // 7),
    "comments": lambda n: "<r>" + "<!-- " * (n // 5),
    "open tags": lambda n: "<r>" + "<a \"" * (n // 4),
    "talk": lambda n: "Ann: so so so\n" * (n // 14),
    "no talk": lambda n: "Ann Bo Cy Dee Ee and so on\n" * (n // 27),
    "mail": lambda n: "On " + "x" * 90 + "\n" + "> a\n" * (n // 8) + "From: b\nTo: c\n" + "On it\n" * (n // 12),
    "quoting": lambda n: "From: b\nTo: c\n" + ">" * n,
    "cues": lambda n: "00:00:01,000 --> 00:00:02,000\nhi\n\n" * (n // 35),
    "rules": lambda n: "| a |\n" + "-" * n,
    "form feeds": lambda n: "a\f" * (n // 2),
    "titles": lambda n: "TITLE\n" * (n // 6),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize(
    ("name", "options"), [*((n, {}) for n in STRUCTURED), ("turns", {"speakers": True}), ("records", {"pack": False})]
)
def test_no_text_takes_quadratic_time(name, options, kind):
    n = 1 << 17

    assert (
        seconds(HOSTILE[kind](n), name, options) < 3
    )  # 0.05 to 0.5 s each; a quadratic pass over 131,072 characters takes hours


def test_depth_has_no_limit():
    rng = random.Random(1)
    text = "".join('{"k": [' if rng.random() < 0.5 else '[{"k": [' for _ in range(100_000))
    text += "1" + "".join({"{": "}", "[": "]"}.get(c, "") for c in reversed(text))

    (chunks,) = chunk_all([Document("d", "", text)], chunking(Records(), size=2000, unit="chars"), {})

    assert isinstance(chunks, list)
    assert sum(len("".join(c.text.split())) for c in chunks) == len("".join(text.split()))
