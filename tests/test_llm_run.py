"""The whole job with a language model behind HTTP: one pace, one cap, nothing asked twice, every fallback said."""

import json
import os
import re
import shutil
import signal
import time

import pyarrow.compute as pc
import pytest

from chunkmill.chunkers import standin
from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import runs, table
from chunkmill.jobs import pipeline
from chunkmill.jobs.answers import Answers
from chunkmill.jobs.config import load
from chunkmill.jobs.forecast import forecast
from chunkmill.jobs.llm import PROBE
from chunkmill.jobs.progress import asked
from chunkmill.jobs.tally import ASKED
from driver import begun, ready
from endpoint_stub import KEY, MODEL, Reply, error, good, served
from test_metrics import PATIENCE_S, counters
from test_run import prose

pytestmark = pytest.mark.usefixtures("ray_here")

FILES = 12


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for i in range(FILES):
        (folder / f"{i:02d}.md").write_text(f"# Light {i}\n\n{prose(i, 20)}\n\n## Horn {i}\n\n{prose(100 + i, 20)}")
    return folder


def job(corpus, output, stub, strategy="llm_boundaries", *, chunk=None, llm=None, **more):
    settings = {
        "input": str(corpus),
        "output": str(output),
        "embed": None,
        "chunk": {"strategy": strategy, "size": 200, "overlap": 0, **(chunk or {})},
        "llm": {"base_url": stub.url, "model": MODEL, "max_attempts": 2, "timeout_s": 10, **(llm or {})},
        **more,
    }
    return load(settings)


def chunks(output):
    return table.read(str(output), "chunks").to_pylist()


def ledger(output):
    return table.read(str(output), "documents").to_pylist()


def test_documents_are_cut_where_the_model_says_and_the_second_night_asks_nothing(corpus, tmp_path):
    with served() as stub:
        asked = job(corpus, tmp_path / "out", stub)
        summary = pipeline.run(asked)
        first = len(stub.requests)
        again = pipeline.run(asked)
        for name in ("chunks", "documents", "_runs"):
            shutil.rmtree(tmp_path / "out" / name)
        anew = pipeline.run(asked)

        assert len(stub.requests) == first, "what is known is not asked again, also when all else is lost"
    assert summary.statuses == {"ok": FILES}
    assert (summary.llm["calls"], summary.llm["tokens_in"]) == (first, 100 * first)
    assert again.sources == 0
    assert (anew.llm.get("calls", 0), anew.llm["cached"]) == (0, first)
    assert anew.chunks == summary.chunks == len(chunks(tmp_path / "out"))
    assert {c["kind"] for c in chunks(tmp_path / "out")} == {"text"}
    assert dict(ledger(tmp_path / "out")[0]["metadata"])["llm.read"] == "whole"
    assert runs.records(asked.output)[-1]["llm"]["cached"] == first


def test_every_chunk_gets_a_context_that_is_embedded_and_counted(corpus, tmp_path):
    with served() as stub:
        summary = pipeline.run(job(corpus, tmp_path / "out", stub, "recursive", chunk={"context": "llm", "overlap": 20}))

    found = chunks(tmp_path / "out")
    assert summary.llm["calls"] == len(found) == len(stub.requests)
    assert {c["context"] for c in found} == {standin.EXAMPLE.strip()}
    assert max(c["n_tokens"] for c in found) <= 200


def test_unusable_answers_fall_back_and_the_rows_say_so(corpus, tmp_path):
    def some(prompt, before):
        return Reply("Sorry!") if re.search("Light 0?[12]\n|Light [12] ", prompt) else good(prompt, before)

    with served(some) as stub:
        summary = pipeline.run(job(corpus, tmp_path / "out", stub))

    spoilt = {d["uri"][-5:] for d in ledger(tmp_path / "out") if "llm.fallbacks" in dict(d["metadata"])}
    assert summary.statuses == {"ok": FILES}
    assert spoilt == {"01.md", "02.md"}
    assert {c["uri"][-5:] for c in chunks(tmp_path / "out") if c["kind"] == "fallback"} == spoilt
    assert {c["uri"][-5:] for c in chunks(tmp_path / "out") if c["kind"] == "text"} == {
        f"{i:02d}.md" for i in range(FILES)
    } - spoilt
    assert summary.llm["fallback_documents"] == 2


def test_another_strategy_keeps_no_notes_of_this_one(corpus, tmp_path):
    with served() as stub:
        pipeline.run(job(corpus, tmp_path / "out", stub))
        pipeline.run(job(corpus, tmp_path / "out", stub, "sentence"))

    assert not [d for d in ledger(tmp_path / "out") if any(k.startswith("llm.") for k, _ in d["metadata"] or ())]


def test_the_cap_stops_the_run_keeps_what_is_done_and_the_next_goes_on(corpus, tmp_path):
    priced = {"price_in": 1000.0, "price_out": 0, "concurrency": 1}  # a call costs 0.1, and may cost 1
    with served() as stub:
        capped = job(corpus, tmp_path / "out", stub, llm=priced | {"max_spend": 1.6}, run={"cpus": 2})
        with pytest.raises(
            RunError, match=r"llm.max_spend \(1.6\) is reached.* of 12 sources remain; nothing was published"
        ) as raised:
            pipeline.run(capped)
        spent = len(stub.requests) * 0.1
        remained = int(re.search(r"(\d+) of 12", str(raised.value))[1])
        assert table.version(str(tmp_path / "out"), "chunks") is None

        summary = pipeline.run(job(corpus, tmp_path / "out", stub, llm=priced | {"max_spend": 50.0}))
        whole = len(stub.requests)

    assert 0 < spent <= 1.6
    assert 0 < remained < FILES
    assert summary.adopted == FILES - remained
    assert summary.statuses == {"ok": FILES}
    assert whole == len(set(stub.prompts)), "nothing was asked twice"


def test_a_wrong_model_is_the_users_error(corpus, tmp_path):
    with served() as stub, pytest.raises(ConfigError, match=r"knows no model 'stub-9'.*nothing was published"):
        pipeline.run(job(corpus, tmp_path / "out", stub, llm={"model": "stub-9"}))

    assert table.version(str(tmp_path / "out"), "documents") is None


@pytest.mark.long
def test_an_endpoint_that_is_down_publishes_nothing(corpus, tmp_path):
    with served(lambda prompt, before: error(503, "down")) as stub, pytest.raises(RunError, match="later the same command"):
        pipeline.run(job(corpus, tmp_path / "out", stub))


def test_a_document_without_an_answer_fails_alone_and_is_tried_again(corpus, tmp_path):
    def poisoned(prompt, before):
        return error(500, "oops") if "Light 3" in prompt else Reply("{}") if prompt == PROBE else good(prompt, before)

    with served(poisoned) as stub:
        summary = pipeline.run(job(corpus, tmp_path / "out", stub))
        stub.behave = good
        second = pipeline.run(job(corpus, tmp_path / "out", stub))

    assert summary.statuses == {"ok": FILES - 1, "failed:unanswered": 1}
    assert "500" in summary.examples["unanswered"]
    assert (second.retried, second.statuses) == (1, {"ok": 1})


def test_what_an_endpoint_refuses_costs_no_more_than_it_must_and_is_said(corpus, tmp_path):
    too_long = "This model's maximum context length is 512 tokens. However, you requested 2600 tokens"

    def picky(prompt, before):
        if "response_format" in stub.requests[before][1]:
            return error(400, "'response_format.type' must be 'json_schema' or 'text'")
        if "Light 3\n" in prompt:
            return error(400, "can't parse the request")
        return error(400, too_long) if len(prompt) > 3000 else partly(prompt, before)

    with served() as stub:
        stub.behave = picky
        summary = pipeline.run(job(corpus, tmp_path / "out", stub, "propositions", llm={"concurrency": 1}))

    metadata = {d["uri"][-5:]: dict(d["metadata"] or ()) for d in ledger(tmp_path / "out") if d["status"] == "ok"}
    assert summary.statuses == {"ok": FILES - 1, "failed:refused": 1}
    assert "can't parse the request" in summary.examples["refused"]
    assert sum("response_format" in body for _, body, _ in stub.requests) == 1
    assert summary.llm["too_long"] >= FILES - 1
    assert summary.llm["refused"] >= 1
    assert not [p for p in stub.prompts if "It can't be used" in p and "propositions[0].evidence" not in p]
    for notes in metadata.values():  # one statement in each answer, at the least
        assert int(notes["llm.refused"].split()[0]) >= int(notes["llm.read"].removeprefix("in ").split()[0]) > 1
    assert summary.llm["refused_statements"] == sum(int(m["llm.refused"].split()[0]) for m in metadata.values())
    assert "statements refused" in asked(summary)


def partly(prompt, before):
    """Good propositions, and one without evidence."""
    made = json.loads(good(prompt.partition("\n\nYour last answer began")[0], before).text)
    return Reply(
        json.dumps({"propositions": [{"text": "Whales sing.", "evidence": "whales sing songs"}, *made["propositions"]]})
    )


def test_what_is_asked_is_counted_where_rays_metrics_are(corpus, tmp_path):
    def busy_once(prompt, before):
        return error(503, "busy") if not before else good(prompt, before)

    counts = {}
    with served(busy_once) as stub:
        for limits in ({}, {"requests_per_minute": 6000}):  # told in sums, and call by call
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            summary = pipeline.run(job(corpus, tmp_path / "out", stub, llm=limits))
            counts[summary.run_id] = {name: summary.llm.get(name, 0) for name in ASKED}
        shutil.rmtree(tmp_path / "out" / "documents")
        known = pipeline.run(job(corpus, tmp_path / "out", stub))

    first, second = counts.values()
    assert (first["calls"], first["failed_calls"]) == (second["calls"], 1) == (len(stub.requests) // 2, 1)
    assert (first["tokens_in"], first["tokens_out"]) == (100 * first["calls"], 20 * first["calls"])
    assert served_counts(known.run_id, ["cached"]) == {"cached": first["calls"]}
    for run_id, expected in counts.items():
        want = {name: n for name, n in expected.items() if n}
        assert served_counts(run_id, want) == want


def served_counts(run_id, names):
    """These counters of a run, once the node serves them."""
    until = time.monotonic() + PATIENCE_S
    while not (found := counters(run_id)).keys() >= set(names):
        assert time.monotonic() < until, found
        time.sleep(1)
    return {name: found[name] for name in names}


@pytest.mark.long
def test_two_workers_keep_one_pace(corpus, tmp_path):
    with served() as stub:
        paced = {"concurrency": 128, "requests_per_minute": 600}
        pipeline.run(job(corpus, tmp_path / "out", stub, llm=paced))

    times = sorted(stub.times)
    assert times[-1] - times[0] >= (len(times) - 1) * 0.1 - 0.3
    assert len(times) >= FILES


def test_the_plan_says_what_it_would_cost_without_asking(corpus, tmp_path):
    with served() as stub:
        priced = {"price_in": 1.0, "price_out": 2.0, "max_spend": 0.001, "requests_per_minute": 2}
        planned = job(corpus, tmp_path / "out", stub, "agentic_groups", llm=priced)
        found = forecast(planned)["llm"]
        assert not stub.requests

        pipeline.run(job(corpus, tmp_path / "out", stub, "agentic_groups"))
        after = forecast(job(corpus, tmp_path / "out2", stub, "agentic_groups"))["llm"]

    assert found["calls"] == len(stub.requests) == after["calls"]
    assert found["cost"] == pytest.approx((found["tokens_in"] + 2 * found["tokens_out"]) / 1e6, abs=1e-4)
    assert found["least_minutes"] == pytest.approx(found["calls"] / 2)
    assert found["max_spend"] == 0.001


def test_the_plan_knows_what_is_answered_already(corpus, tmp_path):
    with served() as stub:
        pipeline.run(job(corpus, tmp_path / "out", stub))
        shutil.rmtree(tmp_path / "out" / "documents")
        found = forecast(job(corpus, tmp_path / "out", stub))["llm"]

    assert (found["calls"], found["cached"]) == (0, len(stub.requests))


def test_the_recipe_has_the_model_and_the_prompts_but_no_secret(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with served() as stub:
        one = job(corpus, tmp_path / "out", stub, llm={"key_env": "MY_KEY"})
        faster = job(corpus, tmp_path / "out", stub, llm={"concurrency": 3, "max_spend": 1, "price_in": 1})
        other = job(corpus, tmp_path / "out", stub, llm={"model": "stub-2"})
        without = job(corpus, tmp_path / "out", stub, "sentence")
        plain = load(without.model_dump(exclude={"llm"}))

    assert one.recipe == faster.recipe != other.recipe
    assert one.describe()["llm"]["prompts"] == standin.version()
    assert without.recipe == plain.recipe, "a model that is not asked decides nothing"
    assert KEY not in json.dumps(one.describe())
    assert stub.url not in json.dumps(one.describe())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"llm": None}, "the strategy 'llm_boundaries' asks a language model; give llm: {base_url"),
        ({"llm": None, "chunk": {"strategy": "sentence", "context": "llm"}}, "chunk.context: llm asks a language model"),
        ({"llm": {"base_url": "http://user:pw@x/v1", "model": "m"}}, "holds a name, a password"),
        ({"llm": {"base_url": "x", "model": "m"}}, "give the address"),
        ({"llm": {"base_url": "http://x/v1", "model": "m", "max_spend": 1}}, "max_spend needs llm.price_in"),
        ({"llm": {"base_url": "http://x/v1", "model": "m", "modell": 1}}, "did you mean 'model'"),
        ({"llm": {"base_url": "http://x/v1", "model": "m", "window": 1024}}, "llm.max_tokens is 2048"),
        ({"embed": {"model": "all-MiniLM-L6-v2", "pooling": "late"}}, "asks no language model"),
    ],
)
def test_wrong_settings_are_told_before_anything_runs(changes, says, tmp_path):
    given = {
        "input": str(tmp_path / "in"),
        "output": str(tmp_path / "out"),
        "embed": None,
        "chunk": {"strategy": "llm_boundaries"},
        "llm": {"base_url": "http://127.0.0.1:9/v1", "model": "m"},
    }

    with pytest.raises(ConfigError, match=re.escape(says)):
        load(given | changes)


@pytest.mark.long
def test_a_strategy_that_asks_both_models_gets_both_and_vectors(corpus, tmp_path, offline_model):
    with served() as stub:
        both = job(
            corpus,
            tmp_path / "out",
            stub,
            "semantic",
            chunk={"context": "llm"},
            embed={"model": "all-MiniLM-L6-v2", "dtype": "float32"},
        )
        summary = pipeline.run(both)

    found = table.read(str(tmp_path / "out"), "chunks")
    assert summary.llm["calls"] == len(found) > FILES
    assert pc.min(pc.list_value_length(found["vector"])).as_py() == 384
    row = found.to_pylist()[0]
    expected = offline_model.encode([row["context"] + "\n" + row["text"]], normalize_embeddings=True)[0]
    assert max(abs(a - b) for a, b in zip(row["vector"], expected.tolist(), strict=True)) < 1e-4


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"key_env": "sk-proj-abcdef"}, "llm.key_env: give the name of the environment variable"),
        ({"parameters": {"stream": True}}, "stream is set by the run itself"),
    ],
)
def test_settings_that_would_spoil_every_call_are_refused(settings, says):
    llm = {"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings}

    with pytest.raises(ConfigError, match=says) as refused:
        load({"input": "docs", "output": "out", "llm": llm})

    assert "abcdef" not in str(refused.value), "it may be the key"


def test_a_cap_below_one_call_says_so(corpus, tmp_path):
    with served() as stub, pytest.raises(RunError, match=r"less than one call may cost"):
        pipeline.run(job(corpus, tmp_path / "out", stub, llm={"price_out": 1000.0, "max_spend": 0.9}))


def test_documents_that_stay_unanswered_do_not_end_a_run_in_which_others_were_only_touched(corpus, tmp_path):
    bad = "silent"
    (corpus / "bad.txt").write_text(f"A {bad} keeper climbs the tower. " * 20)

    def answer(prompt, before):
        return Reply(status=500) if bad in prompt else good(prompt, before)

    given = {"llm": {"max_attempts": 1}, "run": {"verify": True}}
    with served(answer) as stub:
        first = pipeline.run(job(corpus, tmp_path / "out", stub, **given))
        second = pipeline.run(job(corpus, tmp_path / "out", stub, **given))

    assert first.statuses["failed:unanswered"] == second.statuses["failed:unanswered"] == 1
    assert second.touched == first.documents - 1


def test_summaries_are_parents_in_the_dataset(corpus, tmp_path):
    levels = [{"strategy": "summaries", "size": 2048, "least_tokens": 5}, {"strategy": "recursive", "size": 100}]
    with served() as stub:
        pipeline.run(job(corpus, tmp_path / "out", stub, "hierarchical", chunk={"levels": levels}))

    found = chunks(tmp_path / "out")
    parents = {c["chunk_id"]: c for c in found if c["level"] == 1}
    assert {c["kind"] for c in parents.values()} == {"summary"}
    assert all(parents[c["parent_id"]]["start"] <= c["start"] for c in found if c["level"] == 0)


@pytest.mark.long
def test_a_run_that_is_killed_pays_for_nothing_twice_but_the_last_seconds(corpus, tmp_path):
    def steady(prompt, before):
        return Reply('{"context": "A light."}', delay_s=0.5)

    with served(steady) as stub:
        fine = {"context": "llm", "size": 60}
        given = job(corpus, tmp_path / "out", stub, "recursive", chunk=fine, llm={"concurrency": 4}, run={"cpus": 2})
        process = begun(given.model_dump(mode="json"))
        ready(process)
        until = time.monotonic() + 150
        while len(stub.requests) < 60:
            assert time.monotonic() < until
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(2)
        before, known = len(stub.requests), len(Answers(given.output).keys)
        summary = pipeline.run(given)

    assert summary.statuses == {"ok": FILES}
    assert summary.llm["cached"] == known > 20
    assert len(stub.prompts) - len(set(stub.prompts)) <= before - known + 30  # its workers outlive it by a moment
