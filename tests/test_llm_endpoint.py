"""Asking a language model over HTTP: pace, money, retries and what is kept of the answers."""

import json
import threading
import time

import pytest

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.jobs import answers as kept
from chunkmill.jobs import llm
from chunkmill.jobs.answers import Answer, Answers
from chunkmill.jobs.llm import UNANSWERED, UNASKED, Asker
from chunkmill.jobs.meter import Meter
from chunkmill.jobs.settings import LlmSettings
from endpoint_stub import KEY, MODEL, Reply, error, good, served

YES = Reply('{"ok": true}')


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(llm, "BACKOFF_S", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def settings(stub, **more):
    return LlmSettings(base_url=stub.url, model=MODEL, **{"max_attempts": 3, "timeout_s": 5, **more})


def asking(stub, root, threads=4, **more):
    chosen = settings(stub, **more)
    meter = Meter(chosen)
    return Asker(chosen, meter, Answers(str(root)), threads), meter


def first(reply, *rest):
    """The replies to the first requests, then good ones."""
    replies = [reply, *rest]
    return lambda prompt, before: replies[before] if before < len(replies) else YES


def test_answers_come_in_the_order_of_the_prompts(tmp_path):
    with served(lambda prompt, before: Reply(prompt.upper(), delay_s=0.05 * (before % 2))) as stub:
        ask, meter = asking(stub, tmp_path)

        assert ask(["a", "b", "a", "c"]) == ["A", "B", "A", "C"]

    assert sorted(stub.prompts) == ["a", "b", "c"], "the same prompt is asked once"
    assert meter.read()["calls"] == 3
    sent = stub.requests[0][1]
    asked = {"temperature": 0, "max_tokens": 2048, "response_format": {"type": "json_object"}}
    assert sent == {"model": MODEL, **asked, "messages": sent["messages"]}


def test_an_endpoint_that_knows_no_response_format_is_asked_without(tmp_path):
    with served() as stub:
        stub.behave = lambda prompt, before: YES if "response_format" not in stub.requests[before][1] else error(400, "unknown")
        ask, meter = asking(stub, tmp_path, threads=1)

        assert ask(["a", "b", "c"]) == ['{"ok": true}'] * 3

    assert ["response_format" in body for _, body, _ in stub.requests] == [True, False, False, False]
    assert "refused" not in meter.read()


def test_an_endpoint_that_knows_it_is_asked_with_it_after_a_refusal_too(tmp_path):
    def refuses(prompt, before):
        return error(400, "no such JSON") if prompt == "b" and "response_format" in stub.requests[before][1] else YES

    with served() as stub:
        stub.behave = refuses
        ask, _ = asking(stub, tmp_path, threads=1)
        ask(["a", "b", "c"])

    assert [(body["messages"][0]["content"], "response_format" in body) for _, body, _ in stub.requests] == [
        ("a", True),
        ("b", True),
        ("b", False),
        ("c", True),
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        error(500, "oops"),
        error(503, "busy"),
        error(429, "slow down", Retry_After="0.1"),
        error(429, "slow down"),
        Reply(cut=True, text="x" * 500),
        Reply(body=b"<html>gateway</html>"),
        Reply(body=b'{"choices": []}'),
        Reply(body=b""),
    ],
    ids=["500", "503", "429-after", "429", "cut", "html", "no-choice", "nothing"],
)
def test_what_may_pass_is_tried_again(trouble, tmp_path):
    with served(first(trouble, trouble)) as stub:
        ask, meter = asking(stub, tmp_path)

        assert ask(["a"]) == ['{"ok": true}']

    assert len(stub.requests) == 3
    assert meter.read()["failed_calls"] == 2


def test_retry_after_holds_for_everyone(tmp_path):
    with served(first(error(429, "slow down", Retry_After="1"))) as stub:
        ask, _ = asking(stub, tmp_path, threads=1)
        ask(["a", "b", "c"])

    gaps = [b - a for a, b in zip(stub.times, stub.times[1:], strict=False)]
    assert gaps[0] > 0.95
    assert max(gaps[1:]) < 0.5


@pytest.mark.parametrize("slow", [Reply("late", delay_s=3), Reply("x" * 400, dribble_s=0.02)], ids=["silent", "dribbling"])
def test_a_call_has_its_time_and_no_more(slow, tmp_path):
    with served(first(slow)) as stub:
        ask, meter = asking(stub, tmp_path, timeout_s=0.5)
        began = time.monotonic()

        assert ask(["a"]) == ['{"ok": true}']

    assert time.monotonic() - began < 2.5
    assert meter.read()["tokens_in"] > 100, "what broke off may have to be paid for"


def test_a_refusal_is_an_empty_answer(tmp_path):
    with served(lambda prompt, before: Reply(None, refusal="I can't help with that")) as stub:
        ask, _ = asking(stub, tmp_path)

        assert ask(["a"]) == [""]


def test_a_prompt_that_is_refused_has_an_empty_answer_and_others_go_on(tmp_path):
    with served(lambda prompt, before: error(400, "content filter") if "bad" in prompt else YES) as stub:
        ask, meter = asking(stub, tmp_path)

        assert ask(["bad"]) == [""]
        assert ask(["fine", "also bad"]) == ['{"ok": true}', ""]

    assert meter.read()["refused"] == 2
    assert not meter.read()["stopped"]


def test_a_prompt_without_an_answer_is_its_documents_failure_if_others_have_theirs(tmp_path):
    with served(lambda prompt, before: error(500, "oops") if "poison" in prompt else YES) as stub:
        ask, meter = asking(stub, tmp_path, threads=1)

        with pytest.raises(DocumentError, match="no answer after 3 tries") as raised:
            ask(["poison"])
        assert raised.value.kind == UNANSWERED
        assert ask(["fine"]) == ['{"ok": true}']

    assert not meter.read()["stopped"]


def test_an_endpoint_that_answers_nobody_stops_the_run(tmp_path):
    with served(lambda prompt, before: error(503, "down")) as stub:
        ask, meter = asking(stub, tmp_path)

        with pytest.raises(DocumentError) as raised:
            ask(["a"])
        assert raised.value.kind == UNASKED
        number = len(stub.requests)
        with pytest.raises(DocumentError):
            ask(["b", "c"])

    assert len(stub.requests) == number, "nothing is asked after that"
    assert meter.read()["stopped"][0] == "run"


def test_no_endpoint_stops_the_run(tmp_path):
    with served() as stub:
        pass
    ask, meter = asking(stub, tmp_path)

    with pytest.raises(DocumentError):
        ask(["a"])
    assert "doesn't answer" in meter.read()["stopped"][1]


@pytest.mark.parametrize(
    ("key", "more", "says"),
    [
        ("", {"model": "stub-2"}, "knows no model 'stub-2'"),
        (KEY, {}, "the key in OPENAI_API_KEY is not set"),
    ],
)
def test_what_the_user_must_put_right_stops_the_run_at_once(key, more, says, tmp_path):
    with served(key=key) as stub:
        chosen = settings(stub).model_copy(update=more)
        meter = Meter(chosen)

        with pytest.raises(DocumentError):
            Asker(chosen, meter, Answers(str(tmp_path)), 4)(["a"])

    assert len(stub.requests) == 1
    assert meter.read()["stopped"][0] == "config"
    assert says in meter.read()["stopped"][1]
    assert isinstance(llm.ended(meter.read(), 3, 5), ConfigError)


def test_the_key_goes_into_one_header_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with served(first(error(500, f"bad key {KEY}"), error(500, f"bad key {KEY}"), error(500, f"{KEY}")), key=KEY) as stub:
        ask, meter = asking(stub, tmp_path)
        with pytest.raises(DocumentError) as raised:
            ask(["poison"])
        ask(["a"])
        ask.answers.flush()

    assert stub.requests[0][2]["Authorization"] == f"Bearer {KEY}"
    everything = [str(raised.value), repr(meter.read()), repr(ask.settings), json.dumps(ask.settings.described())]
    everything += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in everything if KEY in text]


def test_a_second_reader_finds_every_answer(tmp_path):
    with served(lambda prompt, before: Reply(f"{prompt}é")) as stub:
        ask, _ = asking(stub, tmp_path)
        ask([f"p{i}" for i in range(600)])
        ask.answers.flush()
        asked = len(stub.requests)
        again, meter = asking(stub, tmp_path)

        assert again([f"p{i}" for i in range(600)]) == [f"p{i}é" for i in range(600)]

    assert len(stub.requests) == asked
    assert meter.read() == {"cached": 600, "spend": 0, "stopped": None}


def test_other_parameters_are_another_question(tmp_path):
    with served(lambda prompt, before: Reply(str(before))) as stub:
        for more in ({}, {"temperature": 0.5}, {"parameters": {"seed": 1}}, {"parameters": {"max_tokens": None}}):
            ask, _ = asking(stub, tmp_path, **more)
            ask(["a"])
            ask.answers.flush()

    assert len(stub.requests) == 4
    assert "max_tokens" not in stub.requests[3][1]


def test_many_writers_lose_nothing_and_the_files_stay_few(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FLUSH", 5)

    def writer(number):
        mine = Answers(str(tmp_path))
        for i in range(200):
            mine.put(f"{number:016x}{i:016x}", Answer(f"answer {number} {i}", 1, 2))
        mine.flush()

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = Answers(str(tmp_path))
    assert all(found.find(f"{n:016x}{i:016x}").text == f"answer {n} {i}" for n in range(6) for i in range(200))
    Answers(str(tmp_path))
    assert len(kept.listed(str(tmp_path))) <= kept.MOST_FILES


def test_half_a_file_is_no_answer(tmp_path):
    mine = Answers(str(tmp_path))
    mine.put("a" * 32, Answer("yes", 1, 1))
    mine.flush()
    (tmp_path / "_answers" / "broken.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "_answers" / ".x.parquet.tmp").write_bytes(b"half")

    found = Answers(str(tmp_path))

    assert found.find("a" * 32).text == "yes"
    assert found.find("b" * 32) is None


def test_answers_are_kept_in_a_bucket_too(s3):
    root = f"s3://{s3.bucket()}/dataset"
    mine = Answers(root)
    mine.put("a" * 32, Answer("yes", 1, 1))
    mine.flush()

    assert Answers(root).find("a" * 32) == Answer("yes", 1, 1)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def metered(**more):
    clock = Clock()
    return Meter(LlmSettings(base_url="http://x/v1", model="m", **more), clock), clock


def test_requests_come_at_an_even_pace():
    meter, clock = metered(requests_per_minute=60)

    waits = [meter.admit(10, 10).wait_s for _ in range(4)]
    clock.now += 10

    assert waits == [0, 1, 2, 3]
    assert meter.admit(10, 10).wait_s == 0


def test_tokens_come_at_a_pace_and_what_was_not_used_is_given_back():
    meter, _ = metered(tokens_per_minute=6000)

    turn = meter.admit(100, 100)
    assert meter.admit(100, 100).wait_s == pytest.approx(2)
    meter.settle(turn.ticket, 50, 50, answered=True)

    assert meter.admit(1, 1).wait_s == pytest.approx(3)


def test_the_cap_is_never_passed_by_calls_under_way():
    meter, _ = metered(max_spend=1.0, price_in=1e6, price_out=0)  # a token costs one

    first = meter.admit(1, 0)
    assert meter.admit(1, 0).state == "wait"
    meter.settle(first.ticket, 0, 0, answered=True)
    second = meter.admit(1, 0)
    assert second.state == "go"
    meter.settle(second.ticket, 1, 0, answered=True)

    assert meter.admit(1, 0).state == "stop"
    assert "llm.max_spend (1) is reached" in meter.read()["stopped"][1]


def test_what_a_dead_worker_had_under_way_counts_as_spent():
    meter, clock = metered(max_spend=1.0, price_in=1e6, price_out=0, timeout_s=10)
    meter.admit(1, 0)
    clock.now += 100

    assert meter.admit(1, 0).state == "stop"
    assert meter.read()["spend"] == 1.0


def test_the_pace_holds_over_http_for_all_threads(tmp_path):
    with served() as stub:
        ask, _ = asking(stub, tmp_path, threads=8, requests_per_minute=1200)
        ask([f"p{i}" for i in range(20)])

    assert stub.times[-1] - stub.times[0] >= 19 * 0.05 - 0.05


def test_concurrency_is_what_it_says(tmp_path):
    with served(lambda prompt, before: Reply("{}", delay_s=0.05)) as stub:
        ask, _ = asking(stub, tmp_path, threads=3)
        ask([f"p{i}" for i in range(12)])

    assert stub.most_under_way == 3


@pytest.mark.parametrize(
    ("after", "expected"), [("2", 2.0), ("1e9", 300.0), ("-1", 0.0), ("soon", None), ("nan", None), (None, None)]
)
def test_retry_after_is_read_with_sense(after, expected):
    assert llm.seconds(after) == expected


def test_a_date_to_try_again_is_read_too():
    from email.utils import formatdate

    assert 3 < llm.seconds(formatdate(time.time() + 5, usegmt=True)) <= 5


def test_the_end_of_a_run_says_what_remains():
    message = str(llm.ended({"stopped": ("spend", "llm.max_spend (2) is reached: 1.99 is spent")}, 312, 1000))

    assert "312 of 1,000 sources remain" in message
    assert "with a higher llm.max_spend the same command goes on from there" in message
    assert isinstance(llm.ended({"stopped": ("run", "x")}, 1, 2), RunError)


def test_the_stub_is_good_by_default():
    assert good("hello", 0).text == '{"ok": true}'
