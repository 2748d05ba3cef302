"""AsciiDoc: the source is the text; its lines say where the blocks are.

A scanner of our own: there is no Python library for it that is alive, and what is needed are blocks with offsets. Includes
are never followed, conditions and attributes not evaluated. The header (title, author, revision) is metadata and its title
a heading of level 1. Delimiters, block attributes, attribute entries and comments are no blocks; what stands in example,
sidebar and open blocks is read as the rest of the page is. An admonition is a paragraph, a block's title too (an image's
title or words are its figure).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.lines import Lines
from chunkmill.io.parsers.markdown import front_matter
from chunkmill.io.parsers.text import decode

_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_UNDERLINES = "=-~^+"
_FENCE = re.compile(r"(-{4,}|\.{4,}|\+{4,}|`{3,}[\w#+.-]*)")
_COMMENT = re.compile(r"/{4,}")
_QUOTE = re.compile(r'_{4,}|"{4,}')
_WRAPPER = re.compile(r"={4,}|\*{4,}|--|~{4,}")
_TABLE = re.compile(r"[|,:!]={3,}")
_ATTRIBUTE = re.compile(r":(!?\w[\w-]*!?):(?:[ \t]+(.*))?")
_BLOCK_ATTRIBUTES = re.compile(r"\[(?:[\w\"'.#%,*{\[&][^\n]*)?\]")
_BLOCK_TITLE = re.compile(r"\.(?![. \t]).+")
_MACRO = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif|toc|video|audio|image|gist)::[^\s\[]*\[([^\n]*)\]")
_BREAK = re.compile(r"'{3,}|<{3,}|-{3}|\*{3}|- - -|\* \* \*")
_ITEM = re.compile(r"(\*{1,6}|-|\.{1,6}|[0-9]{1,9}\.|[a-zA-Z]\.|[ivxIVX]{1,9}\)|<(?:[0-9]{1,9}|\.)>|\u2022)[ \t]+\S")
_TERM = re.compile(r"(?!//)\S(?:[^:;\n]|:(?!:)|;(?!;)|::(?=\S)){0,500}?(:{2,4}|;;)(?:[ \t]|$)")
_AUTHOR = re.compile(r"(\w[^<>:\n]{0,200}?)(?:[ \t]*<[^>\n]*>)?(?:;|$)")
_CONDITION = re.compile(r"(?:include|ifdef|ifndef|ifeval|endif)::\S*\[")
_UNSAID = re.compile(r"//|\w+::")
_REVISION = re.compile(r"v?([0-9][\w.-]*)(?:,[ \t]*([^:]{1,100}))?(?::.*)?")
_CELL = re.compile(r"(?:(?<=[ \t\n])|^)(?:([0-9]+)(?:\.[0-9]+)?([+*]))?(?:\.[0-9]+\+)?[<>^.]{0,4}[adehlmsv]?(?<!\\)\|", re.M)
_COLUMNS = re.compile(r"cols=(?:\"([^\"]*)\"|([^,\]\"]+))")
_INLINE = re.compile(
    r"\[\[[^\]]*\]\]|(?:link:|xref:|https?://)[^\s\[]*\[([^\]]*)\]|<<[^,>]*,?([^>]*)>>|\[[^\]\s]*\](?=[*_`#])"
    r"|(?<!\w)\*{1,2}([^*\n]+)\*{1,2}|(?<!\w)_{1,2}([^_\n]+)_{1,2}|`{1,2}\+?([^`\n]+?)\+?`{1,2}|(?<!\w)#{1,2}([^#\n]+)#{1,2}"
)
_KNOWN = {"author": "author", "email": "email", "description": "description", "keywords": "keywords", "lang": "language"} | {
    "revdate": "date",
    "docdate": "date",
    "revnumber": "revision",
}


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The source itself, its blocks, and its header as metadata."""
    text, metadata = decode(data)
    body, front = front_matter(text)
    page = _Page(Lines(text, body))
    page.read()
    yield Parsed(text, tuple(page.blocks), front | page.metadata | metadata)


class _Page:
    """One pass over the lines. `style` is what the attributes of the next block say."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.blocks: list[Block] = []
        self.metadata: dict[str, str] = {}
        self.style = ""

    def read(self) -> None:
        """Each of the kinds is asked in turn whether its like begins here; it gives the line after it, or this one."""
        lines, at = self.lines, 0
        kinds: tuple[Callable[[int], int], ...] = (
            self.unseen, self.heading, self.delimited, self.table, self.image, self.items, self.paragraph,
        )  # fmt: skip
        while (at := lines.past_blank(at)) < len(lines):
            before = self.style
            at = next(after for after in (kind(at) for kind in kinds) if after > at)
            if self.style == before:
                self.style = ""

    def add(self, kind: Kind, first: int, last: int, seams: Sequence[int] = ()) -> int:
        """A block of these lines. Gives the line after it."""
        if block := self.lines.block(kind, first, last, seams=seams):
            self.blocks.append(block)
        return last

    # What is no block

    def unseen(self, at: int) -> int:
        """Comments, attribute entries, block attributes, breaks, directives, delimiters of blocks that hold others."""
        line = self.lines[at]
        if _COMMENT.fullmatch(line):
            return self.closing(at) + 1
        if _ATTRIBUTE.fullmatch(line):
            return self.attribute(at)
        if _BLOCK_ATTRIBUTES.fullmatch(line):
            self.style = f"{self.style} {line}"[-1000:]
            return at + 1
        is_comment = line.startswith("//") and not line.startswith("///")
        if is_comment or line == "+" or _BREAK.fullmatch(line):
            return at + 1
        is_directive = _MACRO.fullmatch(line) and not line.startswith("image")
        return at + 1 if is_directive or _WRAPPER.fullmatch(line) else at

    def attribute(self, at: int) -> int:
        """An attribute entry, which may go on after a backslash."""
        lines, entry = self.lines, _ATTRIBUTE.fullmatch(self.lines[at])
        if entry and entry[2] and (key := _KNOWN.get(entry[1].lower())):
            self.metadata.setdefault(key, " ".join(entry[2].rstrip("\\").split()))
        while lines[at].endswith(" \\") and at + 1 < len(lines):
            at += 1
        return at + 1

    def closing(self, at: int) -> int:
        """The line that closes the block opened on this one; the end where there is none."""
        lines, mark = self.lines, self.lines[at]
        end = at + 1
        while end < len(lines) and lines[end] != (mark if not mark.startswith("`") else "```"):
            end += 1
        return end

    # Headings

    def heading(self, at: int) -> int:
        """A title behind marks, or over a line of them; that of level 1 with the header under it."""
        lines = self.lines
        if found := _HEADING.fullmatch(lines[at]):
            return self.title(at, at + 1, len(found[1]), found[2].removesuffix(f" {found[1]}"))
        level = self.setext(at)
        return self.title(at, at + 2, level, lines[at]) if level else at

    def setext(self, at: int) -> int:
        """The level of the title on this line by the marks under it; 0 for none."""
        lines = self.lines
        line, under = lines[at], lines[at + 1] if at + 1 < len(lines) else ""
        if not under or under[0] not in _UNDERLINES or under != under[0] * len(under) or abs(len(under) - len(line)) > 1:
            return 0
        is_title = (
            len(under) > 1 and line[0].isalnum() and (at == 0 or not lines[at - 1] or lines[at - 1].startswith(("[", "//")))
        )
        return _UNDERLINES.index(under[0]) + 1 if is_title else 0

    def title(self, at: int, last: int, level: int, title: str) -> int:
        """The heading on these lines."""
        self.blocks.append(Block("heading", self.lines.span(at, last), level, title=plain(title)))
        if level > 1 or "title" in self.metadata:
            return last
        self.metadata["title"] = plain(title)
        return self.header(last)

    def header(self, at: int) -> int:
        """Author and revision under the title of the page."""
        lines, end = self.lines, self.lines.blank(at)
        said = [
            number for number in range(at, end) if not _ATTRIBUTE.fullmatch(lines[number]) and not _UNSAID.match(lines[number])
        ]
        if said[:1] == [at]:
            people = (_AUTHOR.match(part.strip()) for part in lines[at].split(";"))
            self.metadata["author"] = ", ".join(person[1].strip() for person in people if person)
            revision = _REVISION.fullmatch(lines[at + 1]) if said[1:2] == [at + 1] else None
            self.metadata |= {
                k: v for k, v in zip(("revision", "date"), revision.groups() if revision else (), strict=False) if v
            }
            return at + (2 if revision else 1)
        return at

    # Delimited blocks

    def delimited(self, at: int) -> int:
        """Listings, literals and passthroughs are code, quotes quotes."""
        line = self.lines[at]
        if _FENCE.fullmatch(line):
            end = self.closing(at)
            self.code(at + 1, end)
            return end + 1
        if _QUOTE.fullmatch(line):
            end = self.closing(at)
            self.add("quote", at + 1, end)
            return end + 1
        return at

    def code(self, first: int, end: int) -> int:
        """Lines as they are."""
        span = self.lines.span(first, end, keep_indent=True) if first < end else Span(0, 0)
        if span.start < span.end:
            self.blocks.append(Block("code", span))
        return end

    def table(self, at: int) -> int:
        """A table: every so many cells a row, or every line where its cells are parted by commas."""
        lines, line = self.lines, self.lines[at]
        if not _TABLE.fullmatch(line):
            return at
        end = self.closing(at)
        first = lines.past_blank(at + 1)
        span = lines.span(first, end) if first < end else Span(0, 0)
        if span.start < span.end:
            starts = self.cells(first, end) if line[0] == "|" else [lines.starts[i] for i in range(first, end) if lines[i]]
            rows = (_trimmed(lines.text, a, b) for a, b in pairwise([*starts, span.end]))
            self.blocks.append(Block("table", span, parts=tuple(row for row in rows if row.start < row.end)))
        return end + 1

    def cells(self, first: int, end: int) -> list[int]:
        """Where the rows begin: the number of columns is what `cols` says, else how many cells the first line holds."""
        lines, starts, filled = self.lines, list[int](), 0
        start, stop = lines.starts[first], lines.starts[min(end, len(lines))]
        columns = self.columns() or sum(_width(m) for m in _CELL.finditer(lines[first])) or 1
        for cell in _CELL.finditer(lines.text, start, stop):
            if filled % columns == 0:
                starts.append(cell.start())
                filled = 0
            filled += _width(cell)
        return starts

    def columns(self) -> int:
        """How many columns the attributes of the table say it has; 0 if they don't."""
        if not (found := _COLUMNS.search(self.style)):
            return 0
        columns = re.split(r"[,;]", (found[1] or found[2] or "").strip(" ,"))
        return sum(int(m[1]) if (m := re.match(r"\s*([0-9]{1,3})\*", column)) else 1 for column in columns)

    def image(self, at: int) -> int:
        """A picture with its title, else with the words that stand for it."""
        lines = self.lines
        has_title = bool(_BLOCK_TITLE.fullmatch(lines[at]))
        macro = at + 1 if has_title else at
        while has_title and macro < len(lines) and _BLOCK_ATTRIBUTES.fullmatch(lines[macro]):
            macro += 1
        found = _MACRO.fullmatch(lines[macro]) if macro < len(lines) and lines[macro].startswith("image::") else None
        if found and (has_title or found[1].split(",")[0].strip()):
            return self.add("figure", at, macro + 1)
        if has_title:
            self.style += " "  # it stays for the block that the title belongs to
            return self.add("paragraph", at, at + 1)
        return macro + 1 if found else at

    # Lists and paragraphs

    def items(self, at: int) -> int:
        """A list with all that is nested in it or attached to its items."""
        lines, seams = self.lines, [at]
        mark = _mark(lines[at])
        if not mark:
            return at
        end = self.item(at)
        while (after := lines.past_blank(end)) < len(lines) and (found := _mark(lines[after])):
            if found == mark:
                seams.append(after)
            end = self.item(after)
        return self.add("list", at, end, seams)

    def item(self, at: int) -> int:
        """The end of an item: of its lines, of its definition, of the blocks that a `+` attaches to it."""
        lines, end = self.lines, self.stretch(at + 1)
        if end == at + 1 and _TERM.fullmatch(lines[at].strip()):
            after = lines.past_blank(end)
            if (
                after < len(lines)
                and not _mark(lines[after])
                and not self.interrupts(after)
                and not _HEADING.fullmatch(lines[after])
            ):
                end = self.stretch(after)
        while end < len(lines) and lines[end] == "+":
            end = self.attached(end + 1)
        return end

    def attached(self, at: int) -> int:
        """The end of the block attached here."""
        lines = self.lines
        while at < len(lines) and (_BLOCK_ATTRIBUTES.fullmatch(lines[at]) or _BLOCK_TITLE.fullmatch(lines[at])):
            at += 1
        if at < len(lines) and any(p.fullmatch(lines[at]) for p in (_FENCE, _QUOTE, _WRAPPER, _TABLE, _COMMENT)):
            return min(self.closing(at) + 1, len(lines))
        return self.stretch(at)

    def stretch(self, at: int) -> int:
        """The end of the lines that belong together from here on."""
        lines = self.lines
        while at < len(lines) and lines[at] and not self.interrupts(at) and not _mark(lines[at]):
            at += 1
        return at

    def interrupts(self, at: int) -> bool:
        """Whether a line ends the paragraph in front of it."""
        line = self.lines[at]
        return (
            line == "+"
            or bool(_CONDITION.match(line))
            or any(p.fullmatch(line) for p in (_FENCE, _QUOTE, _WRAPPER, _TABLE, _COMMENT, _BLOCK_ATTRIBUTES))
        )

    def paragraph(self, at: int) -> int:
        """Lines up to a blank one; indented ones, and those that the attributes say are, are code."""
        lines, end = self.lines, at + 1
        while end < len(lines) and lines[end] and not self.interrupts(end):
            end += 1
        is_code = lines.indent(at) > 0 or any(word in self.style for word in ("[source", "[listing", "[literal", "[,"))
        if is_code:
            return self.code(at, end)
        is_quote = "[quote" in self.style or "[verse" in self.style or lines[at].startswith("> ")
        return self.add("quote" if is_quote else "paragraph", at, end)


def _mark(line: str) -> str:
    """What marks this line as a list's item, numbers and letters being one mark; "" for none."""
    line = line.lstrip()
    if item := _ITEM.match(line):
        mark = item[1]
        return "<1>" if mark[0] == "<" else "1." if mark[0].isdigit() else "a." if mark[0].isalpha() else mark
    term = _TERM.match(line)
    return term[1] if term and not _MACRO.fullmatch(line) else ""


def _width(cell: re.Match[str]) -> int:
    """How many columns a cell takes, or how often it is repeated."""
    return min(int(cell[1]), 1000) if cell[1] else 1


def _trimmed(text: str, start: int, end: int) -> Span:
    while end > start and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return Span(start, end)


def plain(title: str) -> str:
    """What a reader sees of a title's inline marks."""
    if len(title) <= 1000:
        title = _INLINE.sub(lambda m: next((group for group in m.groups() if group), ""), title)
    return " ".join(title.split())
