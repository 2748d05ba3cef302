"""Asking a language model over HTTP: pace, money, retries and what is kept of the answers."""

import io
import json
import re
import threading
import time

import hypothesis
import pytest
import urllib3
from hypothesis import example, given
from hypothesis import strategies as st

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.chunkers.llm import Refused
from chunkmill.jobs import answers as kept
from chunkmill.jobs import llm
from chunkmill.jobs.answers import Answer, Answers
from chunkmill.jobs.llm import PROBE, UNANSWERED, UNASKED, Asker
from chunkmill.jobs.meter import Meter
from chunkmill.jobs.settings import LlmSettings
from endpoint_stub import KEY, MODEL, Reply, error, good, served


def sent(value):
    return json.dumps(value).encode()


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
        error(524, "a time-out of a gateway"),
        error(429, "slow down", Retry_After="0.1"),
        error(429, "slow down"),
        Reply(cut=True, text="x" * 500),
        Reply(body=b"<html>gateway</html>"),
        Reply(body=b'{"choices": []}'),
        Reply(body=b""),
    ],
    ids=["500", "503", "524", "429-after", "429", "cut", "html", "no-choice", "nothing"],
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


LONG = [  # as they come, but for what is not read
    (400, "This model's maximum context length is 4097 tokens. However, you requested 4203 tokens", "context_length_exceeded"),
    (400, "This model's maximum context length is 6048 tokens. Please reduce the length of the messages", "BadRequestError"),
    (400, "max_tokens must be at least 1, got -186.", "BadRequestError"),
    (400, "request (4390 tokens) exceeds the available context size (4096 tokens)", "exceed_context_size_error"),
    (500, "Context size has been exceeded.", "server_error"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error"),
    (400, "The input token count (1234567) exceeds the maximum number of tokens allowed (1048576).", None),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 8740 and 500", None),
    (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", None),
    (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.", "rate_limit_exceeded"),
    (413, "Payload Too Large", None),
]


@pytest.mark.parametrize(("status", "words", "code"), LONG)
@pytest.mark.parametrize("form", ["error", "bare", "list", "words"])
def test_a_prompt_that_is_too_long_is_known_by_the_words_and_asked_once(status, words, code, form, tmp_path):
    said = {"message": words, "type": code}
    body = {"error": {"error": said}, "bare": said, "list": [{"error": said}], "words": {"error": words}}[form]
    with served(
        lambda prompt, before: Reply(status=status, body=json.dumps(body).encode()) if "long" in prompt else YES
    ) as stub:
        ask, meter = asking(stub, tmp_path)

        (answer,) = ask(["long"])
        assert ask(["fine"]) == ['{"ok": true}']

    assert isinstance(answer, Refused)
    assert (answer, answer.too_long) == ("", True)
    assert [p for p in stub.prompts if p == "long"] == ["long"]
    assert meter.read()["too_long"] == 1
    assert not meter.read()["stopped"]


@pytest.mark.parametrize(
    "trouble",
    [
        (429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute."),
        (429, "Rate limit reached on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000."),
        (503, "context deadline exceeded"),
        (500, "no message is long enough to exceed all"),
    ],
)
def test_what_passes_is_not_taken_for_a_long_prompt(trouble, tmp_path):
    with served(first(error(*trouble))) as stub:
        ask, meter = asking(stub, tmp_path)

        assert ask(["a"]) == ['{"ok": true}']

    assert "too_long" not in meter.read()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Invalid parameter: 'response_format' of type 'json_object' is not supported with this model."),
        (400, "'response_format.type' must be 'json_schema' or 'text'"),
        (422, "Extra inputs are not permitted"),
        (404, "No endpoints found that support response_format"),
        (500, "response_format is not implemented"),
    ],
)
def test_a_refused_response_format_is_left_out_for_the_rest_of_the_run(status, words, tmp_path):
    with served() as stub:
        stub.behave = lambda prompt, n: error(status, words) if "response_format" in stub.requests[n][1] else YES
        ask, meter = asking(stub, tmp_path, threads=1)

        assert ask(["a", "b"]) == ['{"ok": true}'] * 2

    assert ["response_format" in body for _, body, _ in stub.requests] == [True, False, False]
    assert not meter.read()["stopped"]


def test_json_that_came_out_wrong_does_not_mean_that_json_is_unknown(tmp_path):
    failed = error(400, "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.")
    with served() as stub:
        stub.behave = lambda prompt, n: failed if prompt == "a" and "response_format" in stub.requests[n][1] else YES
        ask, _ = asking(stub, tmp_path, threads=1)
        ask(["a", "b"])

    assert ["response_format" in body for _, body, _ in stub.requests] == [True, False, True]


def test_a_parameter_that_is_not_known_is_the_users_to_put_right(tmp_path):
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with served(lambda prompt, before: error(400, words)) as stub:
        ask, meter = asking(stub, tmp_path)
        with pytest.raises(DocumentError) as raised:
            ask(["a"])

    kind, message = meter.read()["stopped"]
    assert (raised.value.kind, kind) == (UNASKED, "config")
    assert words in message
    assert "llm.parameters: {max_tokens: null} leaves it out" in message


def test_a_window_too_small_for_any_prompt_is_the_users_to_put_right(tmp_path):
    words = "This model's maximum context length is 1024 tokens. However, you requested 2100 tokens"
    with served(lambda prompt, before: error(400, words)) as stub:
        ask, meter = asking(stub, tmp_path)
        with pytest.raises(DocumentError):
            ask(["a"])

    kind, message = meter.read()["stopped"]
    assert kind == "config"
    assert words in message
    assert "llm.max_tokens" in message


def test_a_refusal_while_the_endpoint_is_down_for_a_moment_stops_nothing(tmp_path):
    replies = {"bad": [error(400, "content_filter")] * 3, PROBE: [error(503, "busy"), YES]}
    with served(lambda prompt, before: replies[prompt].pop(0)) as stub:
        ask, meter = asking(stub, tmp_path)

        assert ask(["bad"]) == [""]

    assert not meter.read()["stopped"]


def test_any_other_refusal_is_its_documents_failure_in_the_endpoints_words(tmp_path):
    with served(lambda prompt, before: error(400, "I can\u202e't\x1b[31m parse that") if "odd" in prompt else YES) as stub:
        ask, meter = asking(stub, tmp_path)

        with pytest.raises(DocumentError) as raised:
            ask(["odd"])
        assert ask(["fine"]) == ['{"ok": true}']

    assert raised.value.kind == "refused"
    assert "refuses (400): I can't [31m parse that" in raised.value.message
    assert meter.read()["refused"] == 1
    assert not meter.read()["stopped"]


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."),
        error(403, "Your chosen model requires moderation and your input was flagged"),
        Reply("{", finish="content_filter"),
        Reply(body=b'{"error": {"code": 400, "message": "content_filter"}}'),
    ],
    ids=["azure", "moderation", "finish", "gateway"],
)
def test_content_that_is_filtered_has_the_empty_answer(reply, tmp_path):
    with served(lambda prompt, before: reply if "bad" in prompt else YES) as stub:
        ask, meter = asking(stub, tmp_path)

        (answer,) = ask(["bad"])

    assert isinstance(answer, Refused)
    assert not answer.too_long
    assert meter.read()["refused"] == 1


def test_an_error_that_comes_with_status_200_is_one(tmp_path):
    busy = Reply(body=b'{"error": {"code": 502, "message": "Provider returned error"}}')
    with served(first(busy, Reply(body=b'{"error": "no idea"}'))) as stub:
        ask, meter = asking(stub, tmp_path)

        assert ask(["a"]) == ['{"ok": true}']

    assert meter.read()["failed_calls"] == 2


def test_the_words_of_an_error_with_status_200_are_passed_on(tmp_path):
    odd = Reply(body=b'{"error": {"code": 422, "message": "Provider can\'t parse it"}}')
    with served(lambda prompt, before: odd if "odd" in prompt else YES) as stub:
        ask, _ = asking(stub, tmp_path)

        with pytest.raises(DocumentError, match=r"refuses \(422\): Provider can't parse it"):
            ask(["odd"])


def test_without_credit_nothing_is_waited_for(tmp_path):
    body = {"error": {"message": "You exceeded your current quota, please check your plan", "code": "insufficient_quota"}}
    with served(lambda prompt, before: Reply(status=429, body=json.dumps(body).encode())) as stub:
        ask, meter = asking(stub, tmp_path)
        with pytest.raises(DocumentError):
            ask(["a"])

    assert len(stub.requests) == 1
    assert meter.read()["stopped"][0] == "config"


@pytest.mark.parametrize("key", ["sk-with\nbreak", "sk-with space", "sk-schlüssel"])
def test_a_key_that_no_header_can_hold_is_not_said(key, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with served() as stub:
        ask, meter = asking(stub, tmp_path)
        with pytest.raises(DocumentError) as raised:
            ask(["a"])

    assert not stub.requests
    assert meter.read()["stopped"][0] == "config"
    assert "OPENAI_API_KEY holds" in raised.value.message
    assert "sk-" not in str(raised.value) + repr(meter.read())


def test_a_line_break_behind_a_key_is_none_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with served(key=KEY) as stub:
        ask, _ = asking(stub, tmp_path)

        assert ask(["a"]) == ['{"ok": true}']


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


WORDS = st.one_of(
    st.text(max_size=30), st.sampled_from(["", f"{KEY}", "\ud800", "\u202e\x1b[2J", "content_filter", "a" * 2000])
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(), WORDS)
KEYS = "error message code type param detail choices content text finish_reason refusal usage prompt_tokens completion_tokens"
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=6),
    max_leaves=25,
)
CHOICE = st.fixed_dictionaries(
    {"message": ANYTHING | st.fixed_dictionaries({"content": ANYTHING})}, optional={"finish_reason": LEAVES}
)
BODIES = st.one_of(
    st.binary(max_size=80),
    st.sampled_from([b"[" * 100_000, b'{"error": ' * 50_000, b"9" * 5000]),
    st.fixed_dictionaries({"choices": st.lists(CHOICE, max_size=2)}, optional={"usage": ANYTHING, "error": ANYTHING}).map(sent),
    st.fixed_dictionaries({"error": ANYTHING}, optional={"choices": ANYTHING}).map(sent),
    ANYTHING.map(sent),
)


class Canned:
    """Connections over which one thing comes back, whatever is asked."""

    def __init__(self, status, body, headers):
        self.made = {"status": status, "body": body, "headers": headers}

    def request(self, *args, **options):
        return urllib3.HTTPResponse(**self.made | {"body": io.BytesIO(self.made["body"])}, preload_content=False)


@given(
    status=st.sampled_from([200, 200, 200, 204, 302, 400, 401, 403, 404, 413, 418, 422, 429, 500, 503, 529]),
    body=BODIES,
    after=st.one_of(
        st.none(), st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"]), max_size=30), st.integers().map(str)
    ),
)
@example(status=429, body=b"", after="Mon, 01 Jan 99999999999999999999 00:00:00 GMT")
@hypothesis.settings(max_examples=600, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_whatever_comes_back_is_an_answer_or_a_reason(status, body, after, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    http = Canned(status, body, {"Retry-After": after} if after is not None else {})

    outcome = llm.post(http, LlmSettings(base_url="http://127.0.0.1:9/v1", model=MODEL), "a")

    if isinstance(outcome, Answer):
        assert outcome.text.encode() is not None
        assert 0 <= outcome.tokens_in < 1 << 31 > outcome.tokens_out >= 0
        return
    assert outcome.kind in ("again", "too_long", "filtered", "refused", "fatal")
    assert KEY not in outcome.message
    assert not re.search(r"[\x00-\x1f\u202a-\u202e\ud800-\udfff]", outcome.message)
    assert len(outcome.message) < 700
    assert outcome.after_s is None or 0 <= outcome.after_s <= llm.PATIENCE_S


def test_the_stub_is_good_by_default():
    assert good("hello", 0).text == '{"ok": true}'
