"""Markdown: the source is the text; CommonMark (with tables) says where its blocks are.

Only the block structure is parsed, which is linear and leaves inline marks alone; the inline parser sees headings only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import decode

_KINDS: dict[str, Kind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "table_open": "table",
    "fence": "code",
    "code_block": "code",
    "blockquote_open": "quote",
    "html_block": "paragraph",
}
_LINE = re.compile(r"\r\n|\r|\n")
_FRONT = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\r|\n)")
_INLINE = re.compile(r"[\\`*_\[\]<>&!~]")
_ANCHOR = re.compile(r"(?<!\s)\s{0,9}\{#[\w:.-]{1,200}\}\s*\Z")
_BRACKET = re.compile(r"(?:\A|(?<=[\r\n])) {0,3}\[")
_FRONT_LIMIT = 1 << 16
_TITLE_LIMIT = 1000
STRETCH = 1 << 22  # code points that are parsed at once, and more where a block is longer


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The source itself, its top-level blocks, and its front matter as metadata."""
    text, metadata = decode(data)
    body, front = front_matter(text)
    yield Parsed(text, tuple(blocks(text, body)), front | metadata)


def blocks(text: str, body: int = 0) -> Iterator[Block]:
    """The top-level blocks of a text from `body` on. Linear, and of tokens, which take many times the text, there are those of
    a stretch at a time.

    Nothing is open where a top-level block ends, so that reading on from there finds what reading the whole finds. The last
    block of a stretch may go on behind it, and is read again with the next; a stretch that holds no other grows.
    """
    size = STRETCH
    while body < len(text):
        line = _LINE.search(text, body + size)
        stop = line.end() if line else len(text)
        lines = [body, *(m.end() for m in _LINE.finditer(text, body, stop)), stop]
        found, body = _stretch(text, lines)
        yield from (block for tokens in found for block in _block(text, lines, tokens))
        size = STRETCH if body > lines[0] else 2 * size


def _stretch(text: str, lines: list[int]) -> tuple[list[list[Token]], int]:
    """The tokens of each block of these lines that is what it is whatever follows, and where they end."""
    found = [*_outermost(_parser().parse(text[lines[0] : lines[-1]]))]
    if lines[-1] == len(text):
        return found, len(text)
    settled = _settled(text, lines)
    found = [tokens for tokens in found[:-1] if lines[_rows(tokens)[1]] <= settled]
    return found, lines[_rows(found[-1])[1] if found else 0]


def _settled(text: str, lines: list[int]) -> int:
    """Up to where no block depends on what follows these lines, the last block aside: a line that begins with a bracket may
    begin the definition of a link, which is no block, and which only a blank line is sure to end.
    """
    pairs = zip(reversed(lines[:-1]), reversed(lines), strict=False)
    blank = next((start for start, end in pairs if text[start:end] and not text[start:end].strip(" \t\r\n")), lines[0])
    opening = _BRACKET.search(text, blank, lines[-1])
    return opening.start() if opening else lines[-1]


def _outermost(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each block that is in no other."""
    at = 0
    while at < len(tokens):
        end = at + 1 if tokens[at].nesting == 0 else _closing(tokens, at)
        yield tokens[at:end]
        at = end


def _rows(tokens: list[Token]) -> list[int]:
    """The first line of a block, and the one behind its last."""
    assert tokens[0].map
    return tokens[0].map


def _block(text: str, lines: list[int], tokens: list[Token]) -> Iterator[Block]:
    """The block that the tokens make; none where it is white, or a rule."""
    kind = _KINDS.get(tokens[0].type)
    if not kind:
        return
    span = _span(text, lines, _rows(tokens), keep_indent=kind == "code")
    if span.end <= span.start:
        return
    if kind == "heading":
        yield Block(kind, span, level=int(tokens[0].tag[1]), title=_plain(tokens[1].content))
    else:
        inner = {
            "list": [t for t in tokens if t.type == "list_item_open" and t.level == 1],
            "table": [t for t in tokens if t.type == "tr_open"],
        }
        yield Block(kind, span, parts=_parts(text, lines, span, inner.get(kind, [])))


def _parts(text: str, lines: list[int], block: Span, tokens: Sequence[Token]) -> tuple[Span, ...]:
    spans = (_span(text, lines, t.map) for t in tokens if t.map)
    return tuple(Span(max(s.start, block.start), min(s.end, block.end)) for s in spans if s.end > s.start)


def _closing(tokens: Sequence[Token], at: int) -> int:
    """The index after the token that closes this one. Nested tokens have a higher level."""
    level = tokens[at].level
    at += 1
    while tokens[at].level > level:
        at += 1
    return at + 1


def _span(text: str, lines: list[int], rows: list[int], *, keep_indent: bool = False) -> Span:
    """The code points of the lines [first, last), without white space around (code keeps its indentation)."""
    start, end = lines[min(rows[0], len(lines) - 1)], lines[min(rows[1], len(lines) - 1)]
    while end > start and text[end - 1].isspace():
        end -= 1
    while not keep_indent and start < end and text[start].isspace():
        start += 1
    return Span(start, end)


def _plain(title: str) -> str:
    """What a reader sees of a heading's inline source, without an anchor (`{#id}`)."""
    title = _ANCHOR.sub("", title)
    if len(title) > _TITLE_LIMIT or not _INLINE.search(title):
        return " ".join(title.split())
    seen: list[str] = []
    for token in _inline().parseInline(title):
        seen += [_seen(child) for child in token.children or ()]
    return " ".join("".join(seen).split())


def _seen(token: Token) -> str:
    if token.type in ("text", "code_inline", "image"):
        return token.content
    return " " if token.type in ("softbreak", "hardbreak") else ""


@lru_cache(1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@lru_cache(1)
def _inline() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("strikethrough")


def front_matter(text: str) -> tuple[int, dict[str, str]]:
    """Where the body begins, and the scalars of the YAML or TOML in front of it."""
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
    """The scalars of a mapping as strings; None where the source is no mapping (then it is no front matter)."""
    try:
        # The base loader makes nothing but strings, lists and dicts, whatever tags say.
        loaded = tomllib.loads(source) if fence == "+++" else yaml.load(source, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        loaded = dict(re.findall(r"^([\w-]+)[ \t]*[:=][ \t]*([^\r\n]*)", source, re.M)) or None
    if not isinstance(loaded, dict):
        return None if source.strip() else {}
    scalars = {str(key): value for key, value in loaded.items() if isinstance(key, str) and not isinstance(value, dict | list)}
    return {key: str(value).strip() for key, value in scalars.items() if str(value).strip()}
