"""Markdown: the source is the text; CommonMark (with tables) says where its blocks are.

pulldown-cmark tells of every mark and word and of its bytes; kept are the outermost blocks, and the items and rows in them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import yaml
from pyromark import Markdown, Options

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import decode, told

_KINDS: dict[str, Kind] = {
    "Heading": "heading",
    "Paragraph": "paragraph",
    "List": "list",
    "Table": "table",
    "CodeBlock": "code",
    "BlockQuote": "quote",
    "HtmlBlock": "paragraph",
}
_PARTS = ("Item", "TableHead", "TableRow")
_LINE = re.compile(r"\r\n|\r|\n")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_DELIMITERS = re.compile(r"^ {0,3}(?:\|[ \t]*)?:?-+:?[ \t]*\|[ \t:|-]*\r?$", re.M)
_FRONT = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\r|\n)")
_ANCHOR = re.compile(r"(?<!\s)\s{0,9}\{#[\w:.-]{1,200}\}\s*\Z")
_FRONT_LIMIT = 1 << 16
STRETCH = 1 << 18  # code points that are parsed at once, and more where an item, a row or a block without such is longer


class _Found(NamedTuple):
    """A block that is in no other, by the parser's name, with its items or rows; behind `end` the next may begin."""

    what: str
    start: int
    end: int
    level: int
    parts: list[Span]


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The source itself, its top-level blocks, and its front matter as metadata."""
    text, metadata = decode(data)
    if nuls := text.count("\0"):
        metadata["warning"] = f"{nuls} NUL characters among the text"
    body, front = front_matter(text)
    yield Parsed(text, tuple(blocks(text, body)), front | metadata)


def blocks(text: str, body: int = 0) -> Iterator[Block]:
    """The top-level blocks of a text from `body` on. Linear, and of what the parser makes, which can take many times the text,
    there is that of a stretch at a time.

    What follows a stretch can change nothing but its last block, which is read again with the next; of a list or a table that
    is all of the stretch, the last item or row alone is. A stretch without an end of anything grows.
    """
    size, head = STRETCH, ""
    begun: _Found | None = None
    while body < len(text):
        line = _LINE.search(text, body + size)
        stop = line.end() if line else len(text)
        found = [*_outermost(text, body, stop, head)]
        if begun:
            begun.parts.extend(part for part in found[0].parts if part.start >= body)
            found[0] = begun._replace(end=found[0].end)
        settled = found if stop == len(text) else found[:-1]
        yield from _blocks(text, _with_tables(text, settled))
        if stop == len(text):
            return
        since = body
        if settled:
            size, head, begun, body = STRETCH, "", None, settled[-1].end
        elif found and len(found[0].parts) > 1:
            begun = found[0]
            head = _head(text, begun)
            body = _line_start(text, begun.parts.pop().start)
        if body == since:
            size *= 2


def _head(text: str, begun: _Found) -> str:
    """What makes the further parts of a block what they are: the header of a table, and the line under it."""
    return text[_line_start(text, begun.start) : _line_start(text, begun.parts[1].start)] if begun.what == "Table" else ""


def _line_start(text: str, at: int) -> int:
    """Where the line begins that is white up to `at`."""
    while at and text[at - 1] in " \t":
        at -= 1
    return at


def _outermost(text: str, at: int, stop: int, head: str = "") -> Iterator[_Found]:
    """The blocks in a range of the text, behind the lines of `head`, that are in no other."""
    source = _source(head + text[at:stop])
    points = _points(source)
    begin = at - len(head)
    depth = 0
    event: Any
    for event, where in _parser().events_with_range(source):
        if "Start" in event:
            if depth == 0:
                what, level, outer, parts = *_named(event["Start"]), where, []
            elif depth == 1 and event["Start"] in _PARTS:
                inner = where
                parts.append(_trimmed(text, begin + points[inner["start"]], begin + points[inner["end"]]))
            depth += 1
        elif "End" in event:
            depth -= 1
            if depth == 0:
                # The range of a list holds the definitions of links behind it, too.
                last = inner if what == "List" else outer
                yield _Found(what, begin + points[outer["start"]], begin + points[last["end"]], level, parts)


def _source(text: str) -> str:
    """The text as the parser has to see it, as long: to it form feeds would be blank, and a return alone no end of a line."""
    text = text.replace("\x0b", "\x1f").replace("\x0c", "\x1f")
    return _LONE_RETURN.sub("\n", text) if "\r" in text else text


def _points(source: str) -> Sequence[int]:
    """How many code points begin before each byte of the UTF-8 of the source, and before its end."""
    if source.isascii():
        return range(len(source) + 1)
    begins = np.frombuffer(source.encode(), np.int8) >= -64  # all but 0b10xxxxxx
    points = np.zeros(len(begins) + 1, np.int32)
    np.cumsum(begins, out=points[1:])
    return points.data


def _named(what: Any) -> tuple[str, int]:
    """The name of a block, and the level of a heading."""
    if isinstance(what, str):
        return what, 0
    ((name, about),) = what.items()
    return name, int(about["level"][1]) if name == "Heading" else 0


def _with_tables(text: str, found: Iterable[_Found]) -> Iterator[_Found]:
    """The blocks, and those that the parser took for words of a paragraph from a table in it on."""
    for block in found:
        above = _table(text[block.start : block.end]) if block.what == "Paragraph" else 0
        if above:
            yield block._replace(end=block.start + above)
            yield from _outermost(text, block.start + above, block.end)
        else:
            yield block


def _table(paragraph: str) -> int:
    """Where a table begins behind the first line, 0 for nowhere: on GitHub it may, and need have no pipe in front."""
    if "|" not in paragraph:
        return 0
    source = _source(paragraph)
    for line in _DELIMITERS.finditer(source):
        above = source.rfind("\n", 0, max(line.start() - 1, 0)) + 1
        if any(found.what == "Table" for found in _outermost(source, above, line.end())):
            return above
    return 0


def _blocks(text: str, found: Iterable[_Found]) -> Iterator[Block]:
    """The blocks without white space around (code keeps its indentation), and without those that are white."""
    for what, start, end, level, parts in found:
        span = _trimmed(text, _line_start(text, start), end, keep_indent=what == "CodeBlock")
        if span.end > span.start:
            title = _title(text[span.start : span.end]) if level else ""
            yield Block(_KINDS[what], span, level, None, tuple(part for part in parts if part.end > part.start), title)


def _trimmed(text: str, start: int, end: int, *, keep_indent: bool = False) -> Span:
    held = text[start:end].rstrip()
    return Span(start if keep_indent else start + len(held) - len(held.lstrip()), start + len(held))


def _title(heading: str) -> str:
    """What a reader sees of a heading, without an anchor (`{#id}`)."""
    events: Iterable[Any] = _inline().events(_source(heading.replace("\r\n", "\n")))
    seen = [event for event in events if "Start" not in event and "End" not in event]
    if seen and "Text" in seen[-1]:
        seen[-1] = {"Text": _ANCHOR.sub("", seen[-1]["Text"])}
    words = (" " if isinstance(event, str) else event.get("Text", "") or event.get("Code", "") for event in seen)
    return " ".join("".join(words).split())


@lru_cache(1)
def _parser() -> Markdown:
    return Markdown(options=Options.ENABLE_TABLES)


@lru_cache(1)
def _inline() -> Markdown:
    return Markdown(options=Options.ENABLE_STRIKETHROUGH)


def front_matter(text: str) -> tuple[int, dict[str, str]]:
    """Where the body begins, and the values of the YAML or TOML in front of it."""
    opening = _FRONT.match(text)
    if not opening:
        return 0, {}
    fence = re.escape(opening[1]) + (r"|\.\.\." if opening[1] == "---" else "")
    closing = re.compile(rf"^(?:{fence})[ \t]*(?:\r?\n|\r|\Z)", re.M).search(text, opening.end(), opening.end() + _FRONT_LIMIT)
    if not closing:
        return 0, {}
    values = _values(opening[1], text[opening.end() : closing.start()])
    return (0, {}) if values is None else (closing.end(), values)


def _values(fence: str, source: str) -> dict[str, str] | None:
    """The values of a mapping as strings; None where the source is no mapping (then it is no front matter)."""
    try:
        # The base loader makes nothing but strings, lists and dicts, whatever tags say.
        loaded = tomllib.loads(source) if fence == "+++" else yaml.load(source, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        loaded = dict(re.findall(r"^([\w-]+)[ \t]*[:=][ \t]*([^\r\n]*)", source, re.M)) or None
    if not isinstance(loaded, dict):
        return None if source.strip() else {}
    said = {key: _said(value) for key, value in loaded.items() if isinstance(key, str)}
    return {key: words for key, words in said.items() if words}


def _said(value: object) -> str:
    return told(value) if isinstance(value, dict | list) else str(value).strip()
