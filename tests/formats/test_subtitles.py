"""Subtitles: what is spoken, in passages long enough to be found, each behind its time."""

from __future__ import annotations

import random
import time

import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.turns import turns
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

SRT = """1
00:00:01,000 --> 00:00:03,500
<i>Hello</i> there,
my friend.

2
00:00:03,600 --> 00:00:05,000
{\\an8}How are you?

3
00:00:09,000 --> 00:00:11,000
- Fine.
- Good &amp; well.
4
00:00:12,000 --> 00:00:13,000
In

1999
"""
VTT = """WEBVTT - A talk
Language: en

NOTE no comment

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Roger Bingham>We are in <c.x>New York</c>

NOTE none here
either

00:02.100 --> 00:03.000
<v.loud Ann>Yes.

00:03.000 --> 00:04.000
<v Ann>Truly
"""


def read(source: str | bytes, name: str = "a.srt") -> Parsed:
    (parsed,) = parse(source if isinstance(source, bytes) else source.encode(), name)
    assert_sound(parsed)
    return parsed


def passages(parsed: Parsed) -> list[str]:
    return [parsed.text[slice(*b.span)] for b in parsed.blocks]


def test_cues_are_joined_to_passages_behind_their_time():
    assert passages(read(SRT)) == [
        "00:00:01.000 --> 00:00:05.000\nHello there, my friend.\nHow are you?",
        "00:00:09.000 --> 00:00:13.000\n- Fine.\n- Good & well.\nIn 1999",
    ]


def test_a_passage_has_its_cues_as_parts():
    parsed = read(SRT)

    assert [parsed.text[slice(*part)] for part in parsed.blocks[1].parts] == ["- Fine.\n- Good & well.", "In 1999"]


def test_speakers_are_named_once_and_notes_and_styles_are_left_out():
    parsed = read(VTT, "a.vtt")

    assert passages(parsed) == [
        "00:00:01.000 --> 00:00:02.000\nRoger Bingham: We are in New York",
        "00:00:02.100 --> 00:00:04.000\nAnn: Yes.\nTruly",
    ]
    expected = {"title": "A talk", "language": "en", "duration": "00:00:04.000", "cues": "3", "speakers": "Roger Bingham, Ann"}
    assert expected == {key: parsed.metadata[key] for key in expected}


def test_the_strategy_turns_finds_speaker_and_time():
    assert [turn.label for turn in turns(read(VTT, "a.vtt").text)] == ["Roger Bingham (00:00:01.000)", "Ann (00:00:02.100)"]


def test_a_long_speech_is_parted_at_the_ends_of_sentences():
    cues = "".join(
        f"{i}\n00:{i // 30:02}:{i * 2 % 60:02},0 --> 00:{i // 30:02}:{i * 2 % 60 + 1:02},9\n"
        f"word {i}{'.' if i % 4 == 3 else ''}\n\n"
        for i in range(60)
    )

    found = passages(read(cues))

    assert [True] * (len(found) - 1) == [p.endswith(".") for p in found[:-1]]
    assert 3 <= len(found) <= 5


def test_lines_of_rolling_captions_are_kept_once():
    rolling = "WEBVTT\n\n" + "\n\n".join(
        f"00:0{i}.000 --> 00:0{i + 1}.000\nline {i}\nline <00:0{i}.500><c>{i + 1}</c>" for i in range(5)
    )

    assert passages(read(rolling, "a.vtt")) == ["00:00:00.000 --> 00:00:05.000\nline 0 line 1\nline 2\nline 3\nline 4\nline 5"]


def test_a_word_said_twice_stays():
    assert (
        "No!\nNo!"
        in read(
            "1\n00:00:01,0 --> 00:00:02,0\nNo!\n\n2\n00:00:02,0 --> 00:00:03,0\nNo!\n\n3\n00:00:03,0 --> 00:00:04,0\nStop\n"
        ).text
    )


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "cp1251"])
def test_any_encoding_and_line_ending_is_read(codec):
    source = SRT.replace("How are you?", "Как у вас дела сегодня утром?").replace("\n", "\r\n")

    assert passages(read(source.encode(codec)))[0].endswith("Как у вас дела сегодня утром?")


def test_a_text_without_cues_is_plain_text_with_a_warning():
    parsed = read("Just a text.\n\nNo times.\n")

    assert passages(parsed) == ["Just a text.", "No times."]
    assert "no cue" in parsed.metadata["warning"]


@pytest.mark.long
def test_time_grows_with_the_number_of_cues():
    def seconds(times: int) -> float:
        begin = time.process_time()
        list(parse((SRT * times).encode(), "a.srt"))
        return time.process_time() - begin

    seconds(10)
    assert seconds(4000) < 12 * max(0.02, seconds(1000))


def test_any_damage_gives_sound_blocks_or_a_document_error():
    rng = random.Random(4)
    for _ in range(400):
        data = bytearray(rng.choice((SRT, VTT)).encode())
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 20))] = rng.choice(
                (b"\n", b"-->", b"99:99:99,999", b"<v ", b"\xff", b"\n\n", b"{\\", b"\t")
            )
        try:
            for parsed in parse(bytes(data), rng.choice(("a.srt", "a.vtt"))):
                assert_sound(parsed)
        except DocumentError:
            pass
