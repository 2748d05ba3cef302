"""reStructuredText: the source is the text; its lines say where the blocks are.

A scanner of our own: docutils gives no offsets (a third of its body elements have no line either), recurses on nested
quotes and lists, and reports Sphinx's own roles and directives as errors. Nothing is expanded, included or run.
Levels of headings follow the order in which their styles appear. A directive with an argument (a note's first words, a
signature) is a paragraph, its body is read as the rest of the page is; options, targets, comments and substitutions are
no blocks. Code is what stands in literal blocks, doctests and code directives. A field list in front is metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.lines import Lines, words
from chunkmill.io.parsers.text import decode

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*+")
_BULLET = re.compile(r"[-*+\u2022\u2023\u2043](?:[ \t]|$)")
_NUMBERED = re.compile(r"\(?(?:[0-9]{1,9}|#|[a-zA-Z]|[ivxlcdmIVXLCDM]{1,9})[.)](?:[ \t]|$)")
_FIELD = re.compile(r":(?![: ])((?:[^:\\]|\\.|:(?!\s|$)){1,200}+):(?:[ \t]+(.*)|$)")
_OPTION = re.compile(r"(?:--?|/)\w[\w-]*(?:[ =]\S+)?(?:, (?:--?|/)\w[\w-]*(?:[ =]\S+)?)*(?:  |$)")
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|\n]{1,200}\|[ \t]+)?(\w[\w:.+-]*?)[ \t]?::(?:[ \t]+|$)")
_TARGET = re.compile(r"\.\.[ \t]+_(?![ \t])|__[ \t]")
_FOOTNOTE = re.compile(r"\.\.[ \t]+\[[^\]\n]{1,200}\](?:[ \t]+|$)")
_BORDER = re.compile(r"\+(?:[-=]+\+)+")
_RULED = re.compile(r"=+(?:[ ]+=+)+")
_RULES = re.compile(r"[-=](?:[-= ]*[-=])?")
_CODE = words(
    "code code-block sourcecode parsed-literal highlight prompt doctest testcode testoutput testsetup testcleanup ipython raw "
    "productionlist math graphviz digraph graph mermaid uml plantuml jupyter-execute console"
)
_UNSEEN = words(
    "toctree index contents include literalinclude highlight default-role role module currentmodule py:module py:currentmodule "
    "meta sectnum section-numbering header footer sectionauthor moduleauthor codeauthor tabularcolumns automodule autoclass "
    "autofunction default-domain replace unicode date"
)
_ITEM_TABLES = frozenset(("list-table", "flat-table"))
_INLINE = re.compile(
    r":[\w:+.-]{1,60}:(?=`)|``([^`]{1,500})``|`([^`<]{1,500}?)\s*(?:<[^>`]{0,500}>)?`_{0,2}"
    r"|(?<!\w)\*{1,2}(?! )([^*]{1,500})\*{1,2}"
    r"|\|([^|]{1,200})\|_{0,2}|\\(.)|(\w)__?(?!\w)"
)
_INFO = {"author": "author", "authors": "author", "date": "date", "title": "title", "lang": "language", "language": "language"}


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The source itself, its blocks, and its bibliographic fields as metadata."""
    text, metadata = decode(data)
    page = _Page(Lines(text))
    page.read()
    yield Parsed(text, tuple(page.blocks), page.metadata | metadata)


class _Page:
    """One pass over the lines. `bases` are the columns at which the bodies of the open directives stand."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.blocks: list[Block] = []
        self.metadata: dict[str, str] = {}
        self.styles: list[tuple[str, bool]] = []
        self.bases = [0]

    def read(self) -> None:
        """Each of the kinds is asked in turn whether its like begins here; it gives the line after it, or this one."""
        lines, at = self.lines, 0
        kinds: tuple[Callable[[int], int], ...] = (
            self.explicit, self.heading, self.grid, self.simple, self.fields, self.doctest, self.items, self.paragraph,
        )  # fmt: skip
        while (at := lines.past_blank(at)) < len(lines):
            indent = lines.indent(at)
            while indent < self.bases[-1]:
                self.bases.pop()
            if indent > self.bases[-1]:
                end = lines.dedent(at, self.bases[-1] + 1)
                self.add("quote", at, end)
                at = end
            else:
                at = next(after for after in (kind(at) for kind in kinds) if after > at)

    def add(self, kind: Kind, first: int, last: int, seams: Sequence[int] = ()) -> int:
        """A block of these lines. Gives the line after it."""
        if block := self.lines.block(kind, first, last, seams=seams):
            self.blocks.append(block)
        return last

    def text(self, at: int) -> str:
        """The line without its indentation."""
        return self.lines[at].lstrip()

    # Headings

    def heading(self, at: int) -> int:
        """A title with a line under it, or between two; a line alone is a transition."""
        lines = self.lines
        line, below = lines[at], lines[at + 1] if at + 1 < len(lines) else ""
        if not below or self.bases[-1]:
            return at + 1 if len(line) >= 4 and _ADORNMENT.fullmatch(line) and not below else at
        if _ADORNMENT.fullmatch(line):
            under = lines[at + 2] if at + 2 < len(lines) else ""
            if under == line and len(line) >= min(4, len(below.strip())):
                return self.title(at, at + 1, at + 3, (line[0], True))
            return at
        if _ADORNMENT.fullmatch(below) and len(below) >= min(4, len(line)):
            return self.title(at, at, at + 2, (below[0], False))
        return at

    def title(self, first: int, at: int, last: int, style: tuple[str, bool]) -> int:
        """The heading on the line `at` of these."""
        if style not in self.styles:
            self.styles.append(style)
        title = plain(self.lines[at].strip())
        self.blocks.append(Block("heading", self.lines.span(first, last), self.styles.index(style) + 1, title=title))
        self.metadata.setdefault("title", title)
        return last

    # Explicit markup: what begins with two dots

    def explicit(self, at: int) -> int:
        """A directive, footnote, target, substitution or comment."""
        line = self.text(at)
        if line != ".." and not line.startswith((".. ", "..\t", "__ ")):
            return at
        end = self.lines.dedent(at + 1, self.bases[-1] + 1)
        if line == ".." and not (at + 1 < len(self.lines) and self.lines[at + 1]):
            return at + 1  # an empty comment ends what stands before it
        if found := _DIRECTIVE.match(line):
            return self.directive(at, max(end, at + 1), found[1].lower(), len(self.lines[at]) - len(line) + found.end())
        if _FOOTNOTE.match(line):
            return self.add("paragraph", at, max(end, at + 1))
        return max(end, at + 1)

    def directive(self, at: int, end: int, name: str, argument: int) -> int:
        """What a directive holds. An unknown one is read like a note: its argument, then its body."""
        lines = self.lines
        name = name if name in _CODE or name in _UNSEEN else name.rpartition(":")[2]
        body = at + 1
        while body < end and lines[body] and not _FIELD.match(self.text(body)):
            body += 1
        head, options = body, body
        while options < end and lines[options]:
            options += 1
        body = lines.past_blank(options)
        if name in _UNSEEN:
            return end
        if name in ("figure", "image"):
            return self.figure(head, options, body, end)
        if name in _CODE:
            first = body if head < options or head == at + 1 else at + 1
            return self.code(first, end)
        if name in _ITEM_TABLES:
            return self.rows(body, end, [i for i in range(body, end) if lines[i] and lines.indent(i) == lines.indent(body)])
        if name == "csv-table":
            return self.rows(body, end, [i for i in range(body, end) if lines[i]])
        if len(lines[at]) > argument or head > at + 1:
            self.add("paragraph", at, head)
        if body < end:
            self.bases.append(lines.indent(body))
        return min(body, end) if body > at else end

    def figure(self, head: int, options: int, body: int, end: int) -> int:
        """The caption of a figure, else the words that stand for the picture."""
        if body < end:
            return self.add("figure", body, end)
        for at in range(head, options):
            field = _FIELD.match(self.text(at))
            if field and field[1] == "alt" and field[2]:
                span = self.lines.span(at, at + 1)
                self.blocks.append(Block("figure", Span(span.end - len(field[2]), span.end)))
        return end

    def rows(self, first: int, end: int, seams: list[int]) -> int:
        """A table whose rows begin at these lines."""
        return self.add("table", first, end, seams) if first < end else end

    def code(self, first: int, end: int) -> int:
        """Lines as they are."""
        span = self.lines.span(first, end, keep_indent=True) if first < end else Span(0, 0)
        if span.start < span.end:
            self.blocks.append(Block("code", span))
        return end

    # Tables

    def grid(self, at: int) -> int:
        """A table with drawn borders; the lines between two of them are a row."""
        lines = self.lines
        if not _BORDER.fullmatch(self.text(at)):
            return at
        end = lines.blank(at)
        seams = [i for i in range(at + 1, end) if lines[i - 1].lstrip().startswith("+") and not _BORDER.fullmatch(self.text(i))]
        return self.table(at, end, seams)

    def simple(self, at: int) -> int:
        """A table ruled by lines of `=`; a line with text in the first column begins a row."""
        lines, base = self.lines, self.bases[-1]
        if not _RULED.fullmatch(self.text(at)):
            return at
        end, rules = at + 1, 1
        while end < len(lines) and not (rules > 1 and not lines[end]) and (not lines[end] or lines.indent(end) >= base):
            rules += bool(_RULED.fullmatch(self.text(end)))
            end += 1
            if rules == 3:
                break
        if rules == 1:
            return at
        seams = [i for i in range(at + 1, end) if lines[i] and lines.indent(i) == base and not _RULES.fullmatch(self.text(i))]
        return self.table(at, end, seams)

    def table(self, first: int, end: int, seams: list[int]) -> int:
        """The table on these lines; each of its rows ends before the border under it."""
        block = self.lines.block("table", first, end)
        if block:
            rows = (self.row(a, b) for a, b in pairwise([*seams, end]))
            self.blocks.append(block._replace(parts=tuple(row for row in rows if row.start < row.end)))
        return end

    def row(self, first: int, last: int) -> Span:
        while last > first and (
            _BORDER.fullmatch(self.text(last - 1)) or _RULES.fullmatch(self.text(last - 1)) or not self.text(last - 1)
        ):
            last -= 1
        return self.lines.span(first, last)

    # Lists and paragraphs

    def fields(self, at: int) -> int:
        """A field list: metadata in front of the page, a list elsewhere."""
        if not _FIELD.match(self.text(at)):
            return at
        end, seams = self.listed(at, lambda line: bool(_FIELD.match(line)))
        if self.bases[-1] or any(block.kind != "heading" for block in self.blocks):
            return self.add("list", at, end, seams)
        for seam in seams:
            field = _FIELD.match(self.text(seam))
            if field and field[2]:
                key = field[1].strip().lower()
                self.metadata[_INFO.get(key, key)] = field[2].strip()
        return end

    def doctest(self, at: int) -> int:
        """An interactive session, up to a blank line."""
        return self.code(at, self.lines.blank(at)) if self.text(at).startswith(">>> ") else at

    def items(self, at: int) -> int:
        """A list: bullets, numbers, options, or terms with indented definitions."""
        line = self.text(at)
        for mark in (_BULLET, _NUMBERED, _OPTION):
            if mark.match(line):
                first = line[:1] if mark is _BULLET else ""
                end, seams = self.listed(at, partial(_begins, mark, first))
                goes_on = at + 1 < end or at + 1 == len(self.lines) or not self.lines[at + 1]
                return self.add("list", at, end, seams) if goes_on else at
        return self.definitions(at)

    def definitions(self, at: int) -> int:
        """Terms, each with its definition indented under it."""
        lines, base, end, seams = self.lines, self.bases[-1], at, []
        while end < len(lines) and lines.indent(end) == base and self.defines(end):
            seams.append(end)
            end = lines.dedent(end + 1, base + 1)
            after = lines.past_blank(end)
            if (
                after < len(lines)
                and lines.indent(after) == base
                and self.defines(after)
                and not _BULLET.match(self.text(after))
            ):
                end = after
        return self.add("list", at, end, seams) if seams else at

    def defines(self, at: int) -> bool:
        """Whether the line is a term: one line, the next one indented, and no literal block announced."""
        lines = self.lines
        under = at + 1 < len(lines) and bool(lines[at + 1]) and lines.indent(at + 1) > lines.indent(at)
        return under and not self.text(at).startswith(("..", "| ")) and not self.text(at).endswith("::")

    def listed(self, at: int, is_item: Callable[[str], bool]) -> tuple[int, list[int]]:
        """The end of a list that begins here, and the lines at which its items do."""
        lines, base, seams, end = self.lines, self.bases[-1], list[int](), at
        while at < len(lines) and lines.indent(at) == base and is_item(self.text(at)):
            seams.append(at)
            end = lines.dedent(at + 1, base + 1)
            at = lines.past_blank(end)
        return end, seams

    def paragraph(self, at: int) -> int:
        """Lines up to a blank one; after a `::` at their end, the indented ones that follow are code."""
        lines, base = self.lines, self.bases[-1]
        end = at + 1
        while end < len(lines) and lines[end] and lines.indent(end) >= base and not lines[end - 1].endswith("::"):
            end += 1
        if self.text(at) != "::":
            self.add("paragraph", at, end)
        if lines[end - 1].endswith("::"):
            body = lines.past_blank(end)
            if body < len(lines) and lines.indent(body) > base:
                return self.code(body, lines.dedent(body, base + 1))
        return end


def _begins(mark: re.Pattern[str], first: str, line: str) -> bool:
    """Whether the line begins with the mark, and with this character."""
    return line.startswith(first) and bool(mark.match(line))


def plain(title: str) -> str:
    """What a reader sees of a title's inline markup."""
    if len(title) > 1000:
        return " ".join(title.split())
    seen = _INLINE.sub(lambda m: next((group for group in m.groups() if group), ""), title)
    return " ".join(seen.split())
