r"""JSON, a document per file: the same value, laid out for reading.

The text is JSON again, with white space of our own: what fits on a line of 100 stands on one, runs of numbers fill lines.
Escapes become the characters they stand for (not those JSON needs, like `\n`), so the same value has the same text however
it was written; numbers, order and repeated keys stay as they are. Records are the members of the file's value (of the one
that is nearly all of it, as in `{"data": […]}`), or its values where there are several. A lone string is its content, a
lone `null` nothing. What is not strict JSON but closes its strings and brackets (comments, JSON5) is kept as written, with
a warning.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple

from chunkmill.chunkers.base import Block, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import decode, mend, paragraphs

_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:(?P<string>"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(?P<scalar>(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+|true|false|null|-?Infinity|NaN)(?![\w.+-]))"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)|(?P<colon>:)|(?P<other>(?s:.)?))"
)
# After a state, what may come. "next" is what follows a value inside a container, "top" what stands outside of all.
_EXPECTED = {
    "top": ("string", "scalar", "open"),
    "value": ("string", "scalar", "open"),
    "first": ("string", "scalar", "open", "close"),
    "first_key": ("string", "close"),
    "key": ("string",),
    "colon": ("colon",),
    "next": ("comma", "close"),
}
_RELAXED = re.compile(
    r"\s++|//[^\n]*+|/\*(?s:.*?)\*/|\"(?:[^\"\\\n]++|\\(?s:.))*+\"|'(?:[^'\\\n]++|\\(?s:.))*+'|[\w.+$-]++|[\[\]{},:]"
)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|.)|[\0-\x1f]", re.S)
_NOT_JSON = ("NaN", "Infinity", "-Infinity")
_METADATA = {"title": ("title", "name"), "author": ("author",), "date": ("date",), "description": ("description",)}
_LONGEST = 300
_WIDTH, _DEEPEST = 100, 8
_MOST = 0.8  # a member of an object that holds more than this of the file is no record: its own members are
_WRAPPERS = 8
_WHOLE = 2  # for one broken line there are so many whole ones


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The value of the file, one record per member. `corrupt` says at which line it stops being JSON."""
    text, metadata = decode(data)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        yield Parsed(text, (), metadata)
        return
    try:
        source = tokens(text)
    except DocumentError as error:
        if found := _lines(text):
            source, metadata["warning"] = found
            yield _document(source, metadata)
            return
        if not _closed(text):
            raise
        metadata["warning"] = f"{error.message}; kept as it is written"
        start = len(text) - len(text.lstrip())
        yield Parsed(text, (Block("code", Span(start, len(text.rstrip()))),), metadata)
        return
    yield _document(source, metadata)


class Source(NamedTuple):
    """Tokens as they are written, `", "` and `": "` among them; `ends[i]` is where the bracket opened at i is closed."""

    tokens: list[str]
    ends: dict[int, int]
    tops: list[int]
    odd: list[str]
    repaired: int


def tokens(text: str) -> Source:
    """The tokens of one or more JSON values. Linear, at any depth. Raises `corrupt` with the line where it is none."""
    found, ends, tops, opened, keys = list[str](), dict[int, int](), list[int](), list[int](), list[set[str]]()
    state, at, odd, repaired = "top", 0, dict[str, None](), 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup or ""
        if token.start() != at or kind not in _EXPECTED[state]:
            break
        at, word = token.end(), token[kind]
        if state == "top":
            tops.append(len(found))
        if kind == "open":
            opened.append(len(found))
            keys.append(set())
            state = "first" if word == "[" else "first_key"
        elif kind == "close":
            if (word == "]") != (found[opened[-1]] == "["):
                at = token.start(kind)
                break
            ends[opened.pop()] = len(found)
            keys.pop()
            state = "next" if opened else "top"
        elif kind == "comma":
            word, state = ", ", "value" if found[opened[-1]] == "[" else "key"
        elif kind == "colon":
            word, state = ": ", "value"
        else:
            if kind == "string" and ("\\" in word or not word.isprintable()):
                word, lone = _readable(word)
                repaired += lone
            elif word in _NOT_JSON:
                odd["NaN or Infinity"] = None
            if state == "key" or state == "first_key":
                if word in keys[-1]:
                    odd["repeated keys"] = None
                keys[-1].add(word)
                state = "colon"
            else:
                state = "next" if opened else "top"
        found.append(word)
    if state != "top" or text[at:].strip():
        raise DocumentError("corrupt", _where(text, at))
    return Source(found, ends, tops, list(odd), repaired)


def _where(text: str, at: int) -> str:
    at += len(text[at : at + 10_000]) - len(text[at : at + 10_000].lstrip())
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"not JSON at line {line}, column {column}: " + (
        f"found {text[at : at + 20]!r}" if at < len(text) else "it ends too early"
    )


def _readable(string: str) -> tuple[str, int]:
    """A string with the characters its escapes stand for, where JSON allows them, and how many surrogates were lone."""

    def character(escape: re.Match[str]) -> str:
        if escape["code"] or escape[0] < " ":
            c = chr(int(escape["code"], 16)) if escape["code"] else escape[0]
            return json.dumps(c)[1:-1] if c < " " or c in '"\\' else c
        return "/" if escape[0] == "\\/" else escape[0]

    return mend(_ESCAPE.sub(character, string))


def _lines(text: str) -> tuple[Source, str] | None:
    """The values of JSON Lines of which some are broken, and which those are; None where it isn't that."""
    good, broken = list[str](), list[int]()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            whole = len(tokens(line).tops) == 1 and line.lstrip()[0] in "[{"
        except DocumentError:
            whole = False
        if whole:
            good.append(line)
        else:
            broken.append(number)
    if len(good) < 2 or len(broken) * _WHOLE > len(good):
        return None
    where = ", ".join(map(str, broken[:5])) + (", …" if len(broken) > 5 else "")
    return tokens("\n".join(good)), f"{len(broken)} lines are no JSON and left out: {where}"


def _closed(text: str) -> bool:
    """Whether all strings, comments and brackets of something like JSON are closed. Linear."""
    at, opened, seen = 0, list[str](), False
    for token in _RELAXED.finditer(text):
        if token.start() != at:
            return False
        at, mark = token.end(), token[0]
        if mark in ("[", "{"):
            opened.append("]" if mark == "[" else "}")
            seen = True
        elif mark in ("]", "}"):
            if not opened or opened.pop() != mark:
                return False
        elif not opened and not mark.isspace() and not mark.startswith((",", "//", "/*")):
            return False
    return seen and not opened and at == len(text)


def _document(source: Source, metadata: dict[str, str]) -> Parsed:
    found = source.tokens
    if source.repaired:
        metadata["repaired"] = str(source.repaired + int(metadata.get("repaired", "0")))
    if source.odd:
        odd = f"not strict JSON: {', '.join(source.odd)}"
        metadata["warning"] = f"{metadata['warning']}; {odd}" if "warning" in metadata else odd
    if found == ["null"]:
        return Parsed("", (), metadata)
    if len(found) == 1 and found[0].startswith('"'):
        text = mend(json.loads(found[0]))[0]
        return Parsed(text, paragraphs(text), metadata)
    layout = _Layout(source)
    text = layout.run()
    records = [Block("record", Span(layout.offset(a), layout.offset(b - 1, after=True))) for a, b in _records(source)]
    return Parsed(text, tuple(records), _about(source) | metadata)


def _records(source: Source) -> Iterator[tuple[int, int]]:
    """The tokens of each record; numbers come in runs."""
    widths = [0, *accumulate(map(len, source.tokens))]
    run: tuple[int, int] | None = None
    for start, stop in _unwrapped(source, widths):
        number = stop == start + 1 and source.tokens[start][0] != '"'
        if run and not (number and widths[stop] - widths[run[0]] <= _WIDTH):
            yield run
            run = None
        if not number:
            yield start, stop
        else:
            run = (run[0] if run else start, stop)
    if run:
        yield run


def _unwrapped(source: Source, widths: list[int]) -> list[tuple[int, int]]:
    """The values of the file; those in the only one; those in its largest member where that is most of it, and so on."""
    if len(source.tops) > 1:
        return list(pairwise([*source.tops, len(source.tokens)]))
    found, value = [(0, len(source.tokens))], 0
    for _ in range(_WRAPPERS):
        if value + 1 >= source.ends.get(value, 0):  # none, a scalar, or empty
            break
        found = [r for a, b in found for r in (members(source, value) if a <= value < b else [(a, b)])]
        large = 0 if len(found) == 1 else widths[-1] * _MOST
        value = next(
            (a + 2 for a, b in found if b - a > 2 and source.tokens[a + 1] == ": " and widths[b] - widths[a] > large), -1
        )
    return found


def members(source: Source, at: int) -> Iterator[tuple[int, int]]:
    """The members of the container opened at this token: of each its first token and the one after its last."""
    end, start = source.ends[at], at + 1
    while start < end:
        value = start + 2 if source.tokens[at] == "{" else start
        stop = source.ends.get(value, value) + 1
        yield start, stop
        start = stop + 1


class _Layout:
    """The tokens as lines, and where each stands. Only what does not fit on a line is opened."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.widths = [0, *accumulate(map(len, source.tokens))]
        self.out: list[str] = []
        self.length = self.line = 0  # of the text, and where its last line begins
        self.closing: list[int] = []  # where the open brackets are closed
        self.placed: list[int] = []  # the first token of every stretch that was put at once
        self.offsets: list[int] = []  # and where it stands

    def run(self) -> str:
        """The text."""
        found, at = self.source.tokens, 0
        while at < len(found):
            if at and not self.closing:
                self.new_line()
            if at in self.source.ends:
                at = self.container(at)
            elif found[at] == ", ":
                at = self.comma(at)
            else:
                if self.closing and at == self.closing[-1]:
                    self.closing.pop()
                    self.new_line()
                at = self.put(at, at + 1)
        return "".join(self.out)

    def put(self, start: int, stop: int) -> int:
        """Add these tokens to the line."""
        self.placed.append(start)
        self.offsets.append(self.length)
        self.out.append(self.source.tokens[start] if stop == start + 1 else "".join(self.source.tokens[start:stop]))
        self.length += self.widths[stop] - self.widths[start]
        return stop

    def new_line(self) -> None:
        """A line begins, indented."""
        self.out.append("\n" + " " * min(len(self.closing), _DEEPEST))
        self.line = self.length + 1
        self.length += len(self.out[-1])

    def fits(self, start: int, stop: int) -> bool:
        """Whether these tokens find room on the line."""
        return self.length - self.line + self.widths[stop] - self.widths[start] <= _WIDTH

    def container(self, at: int) -> int:
        """An array or object: on the line if it fits, else only its bracket."""
        end = self.source.ends[at]
        if end == at + 1 or self.fits(at, end + 1):
            return self.put(at, end + 1)
        self.closing.append(end)
        self.put(at, at + 1)
        self.new_line()
        return at + 1

    def comma(self, at: int) -> int:
        """Between two members: a line end, unless both are numbers and there is room."""
        found = self.source.tokens
        if found[at - 1][-1] not in '"]}' and found[at + 1][0] not in '"[{' and self.fits(at, at + 2):
            return self.put(at, at + 1)
        self.out.append(",")
        self.length += 1
        self.new_line()
        return at + 1

    def offset(self, token: int, *, after: bool = False) -> int:
        """Where a token stands; or its end."""
        stretch = bisect_right(self.placed, token) - 1
        return self.offsets[stretch] + self.widths[token + after] - self.widths[self.placed[stretch]]


def _about(source: Source) -> dict[str, str]:
    """Title, author, date and description where the members of the one object of the file say them in a few words."""
    found, strings = source.tokens, dict[str, str]()
    if len(source.tops) > 1 or found[0] != "{":
        return {}
    for at, _ in members(source, 0):
        if found[at + 2].startswith('"') and len(found[at + 2]) <= _LONGEST:
            strings.setdefault(json.loads(found[at]), " ".join(json.loads(found[at + 2]).split()))
    about = {name: next((strings[key] for key in keys if strings.get(key)), "") for name, keys in _METADATA.items()}
    return {name: mend(value)[0] for name, value in about.items() if value}
