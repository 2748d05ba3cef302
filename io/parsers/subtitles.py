"""Subtitles (SubRip, WebVTT): a transcript in passages, each behind the time it is spoken.

A cue is too short to be found by what it says, and its times are longer than its words. So cues are joined until the speaker
changes, a pause of two seconds comes, or a sentence ends after thirty seconds. A passage is a paragraph block: a line
`00:00:01.000 --> 00:00:31.500` (which the strategy `turns` takes for one cue), then a line per cue, which are its parts.
Who speaks (`<v Ann>`) is `Ann:`. Tags, positions, cue numbers, styles and notes are left out, and of rolling captions
the lines said twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from itertools import pairwise, zip_longest
from typing import NamedTuple

from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.joined import words
from chunkmill.io.parsers.text import Canonical, decode, paragraphs

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_TIMING = re.compile(rf"^[ \t]*{_TIME}[ \t]*--?>[ \t]*{_TIME}[^\n]*$", re.M)
_VOICE = re.compile(r"<v(?:\.[\w.-]+)?[ \t]+([^<>\n]{1,100})>")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>|<[\d:.]{5,15}>|\{\\[^{}\n]{0,200}\}")
_INLINE_TIME = re.compile(r"<\d\d?:[\d:.]{4,12}>")
_GAP = re.compile(r"\n[ \t]*\n")
_ASIDE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|\Z)")
_HEADER = re.compile(r"WEBVTT[ \t]*(?:-[ \t]*)?([^\n]*)")
_LANGUAGE = re.compile(r"^Language:[ \t]*([\w-]{2,35})[ \t]*$", re.M)
_ENDS = tuple('.!?…。！？"”»)')
_PAUSE, _LONG, _LONGEST = 2.0, 30.0, 90.0  # seconds
_ROLLING = 0.3  # share of cues that repeat a line of the cue before


class Cue(NamedTuple):
    """What is said from `start` to `end` (seconds), in lines; `speaker` "" where the cue doesn't say."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str = ""


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The transcript. A text without a single cue is plain text, with a warning."""
    text, metadata = decode(data)
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    cues = _once(list(_cues(text)))
    if not cues:
        warning = {"warning": "no cue found: read as plain text"} if text.strip() else {}
        yield Parsed(text, paragraphs(text), metadata | warning)
        return
    out = Canonical()
    for passage in _passages(cues):
        lines = [_spoken(cue, before) for before, cue in zip([None, *passage], passage, strict=False)]
        said = [line for cue in lines for line in cue]
        seams, at = list[int](), 1
        for cue in lines:
            seams.append(at)
            at += len(cue)
        out.add("paragraph", [f"{_clock(passage[0].start)} --> {_clock(max(c.end for c in passage))}", *said], seams=seams)
    yield out.document(_facts(text, cues) | metadata)


def _cues(text: str) -> Iterator[Cue]:
    """The cues in order. What stands between two lines of times is the first one's text, but for the number of the next."""
    timings = list(_TIMING.finditer(text))
    for timing, following in zip_longest(timings, timings[1:]):
        end = following.start() if following else len(text)
        body = text[timing.end() + 1 : end]
        lines = _lines(body, end < len(text))
        voice = _VOICE.search(body)
        said = tuple(filter(None, (words(unescape(_TAG.sub("", line))) for line in lines)))
        if said:
            start, stop = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
            yield Cue(start, max(start, stop), said, words(unescape(voice[1])) if voice else "")


def _lines(body: str, goes_on: bool) -> list[str]:
    """The lines of a cue: without notes and styles, and without the last one where that names the next cue."""
    segments = [segment.split("\n") for segment in _GAP.split(body)]
    last = segments[-1]
    if goes_on and (len(segments) > 1 or (len(last) > 1 and last[-2 if not last[-1] else -1].strip().isdigit())):
        del last[-2 if not last[-1] else -1 :]
    return [line for segment in segments if not _ASIDE.match("\n".join(segment)) for line in segment]


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")


def _once(cues: list[Cue]) -> list[Cue]:
    """Rolling captions show a line again while the next appears: each is kept once. Other cues stay as they are."""
    repeated = sum(a.lines[-1] == b.lines[0] for a, b in pairwise(cues))
    if repeated < max(2, _ROLLING * len(cues)):
        return cues
    found: list[Cue] = []
    before: tuple[str, ...] = ()
    for cue in cues:
        new = tuple(line for line in cue.lines if line not in before)
        before = cue.lines
        if new:
            found.append(cue._replace(lines=new))
    return found


def _passages(cues: list[Cue]) -> Iterator[list[Cue]]:
    passage: list[Cue] = []
    for cue in cues:
        if passage and _parts(passage, cue):
            yield passage
            passage = []
        passage.append(cue)
    yield passage


def _parts(passage: list[Cue], cue: Cue) -> bool:
    """Whether a new passage begins with this cue."""
    last, lasted = passage[-1], cue.start - passage[0].start
    is_other = bool(cue.speaker) and cue.speaker != last.speaker
    is_pause = cue.start - last.end >= _PAUSE or cue.start < last.start
    return is_other or is_pause or lasted >= _LONGEST or (lasted >= _LONG and last.lines[-1].endswith(_ENDS))


def _spoken(cue: Cue, before: Cue | None) -> list[str]:
    """The cue's words on one line, or a line for each speaker's dash; the speaker in front where a passage begins."""
    lines = list(cue.lines) if all(line.startswith(("-", "–", "—")) for line in cue.lines) else [" ".join(cue.lines)]
    if cue.speaker and (before is None or before.speaker != cue.speaker):
        lines[0] = f"{cue.speaker}: {lines[0]}"
    return lines


def _clock(seconds: float) -> str:
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def _facts(text: str, cues: list[Cue]) -> dict[str, str]:
    """The title and language of a WebVTT file, and how long it lasts."""
    header, language = _HEADER.match(text), _LANGUAGE.search(text[:1000])
    speakers = ", ".join(dict.fromkeys(cue.speaker for cue in cues if cue.speaker))
    found = {
        "title": words(header[1]) if header else "",
        "language": language[1] if language and header else "",
        "duration": _clock(max(cue.end for cue in cues)),
        "cues": str(len(cues)),
        "speakers": speakers[:500],
    }
    return {key: value for key, value in found.items() if value}
