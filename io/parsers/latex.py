r"""LaTeX: the source is the text; its commands say where the blocks are.

Nothing is expanded, no macro run, no `\input` followed. The preamble is a block of code; title, author and date are metadata.
Sections are headings whose levels begin at 1 with the largest the file uses (frames of slides count as subsubsections).
Verbatim, listings and drawings are code, lists lists, tabulars tables with a row up to each `\\`, quotations quotes,
captions figures. All other environments (theorems, abstracts, floats) are read as the rest is. Displayed equations belong
to the paragraph they stand in. Comments, labels and commands without words are no blocks of their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.lines import words
from chunkmill.io.parsers.text import decode

_SECTIONS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_LEVELS = {name: level for level, name in enumerate(_SECTIONS)} | {"frametitle": 4}
_CODE = words(
    "verbatim Verbatim BVerbatim LVerbatim lstlisting minted alltt filecontents tikzpicture pgfpicture picture luacode pycode "
    "sagecode python asy algorithmic algorithm algorithm2e forest tikzcd"
)
_RAW = words("verbatim Verbatim BVerbatim LVerbatim lstlisting minted alltt filecontents comment luacode pycode python asy")
_LISTS = words("itemize enumerate description compactitem compactenum inparaenum thebibliography tasks questions")
_TABLES = words("tabular tabularx tabulary longtable longtabu tabu supertabular xltabular tblr longtblr")
_QUOTES = words("quote quotation verse displayquote")
# Whose arguments are measures, no words.
_LAYOUT = words(
    "figure table wrapfigure wraptable SCfigure sidewaysfigure sidewaystable minipage multicols column columns adjustbox"
)
# Of these the boundaries part nothing: they stand in the middle of a sentence.
_MATHS = words(
    "equation align gather multline eqnarray displaymath math flalign alignat array matrix pmatrix bmatrix vmatrix cases split "
    "aligned gathered subequations smallmatrix dcases xymatrix CD IEEEeqnarray"
)
_EVENT = re.compile(
    r"(?P<blank>\n[ \t]*(?=\n)|\r\n[ \t]*(?=\r\n))|%[^\n]*"
    r"|\\(?:(?P<side>begin|end)[ \t]*\{(?P<name>[a-zA-Z]{1,30})\*?\}"
    r"|(?P<section>part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|frametitle)\*?(?=[ \t\n]*[\[{])"
    r"|(?P<item>(?:bib)?item|question|task)(?![a-zA-Z])|(?P<caption>caption)(?:of[ \t]*\{[a-z]{1,20}\})?\*?(?=[ \t\n]*[\[{])"
    r"|(?P<row>\\|tabularnewline(?![a-zA-Z]))"
    r"|verb\*?([^a-zA-Z\s*])[^\n]{0,300}?\8|[a-zA-Z@]+|.)",
    re.S,
)
_BRACE = re.compile(r"(?<!\\)(?:\\\\)*+(?:(?P<open>\{)|(?P<close>\})|%[^\n]*)")
_INFO = re.compile(r"\\(title|author|date)\*?[ \t\n]*(?=[\[{])")
_UNSEEN = re.compile(
    r"(?<!\\)%[^\n]*|\\(?:label|maketitle|tableofcontents|listoffigures|listoftables|newpage|clearpage|cleardoublepage|pagebreak|"
    r"linebreak|vspace|hspace|vskip|noindent|indent|medskip|bigskip|smallskip|par|index|phantomsection|bibliography|bibliographystyle|"
    r"printbibliography|input|include|includeonly|pagestyle|thispagestyle|centering|raggedright|setcounter|addtocounter|setlength|"
    r"addcontentsline|markboth|markright|usepackage|documentclass|newcommand|renewcommand|frontmatter|mainmatter|backmatter|appendix|"
    r"includegraphics|hline|toprule|midrule|bottomrule|cline|cmidrule|vfill|hfill|small|footnotesize|normalsize|large|protect|"
    r"title|author|date|pause|makeindex|printindex|hbox|null|endinput|chapterstyle|clearfloat|FloatBarrier|ifpdf|fi|else)"
    r"(?![a-zA-Z])\*?(?:[ \t]*\[[^\]\n]{0,500}\])*(?:[ \t]*\{[^{}]{0,500}\})*"
    r"|\\(?:begin|end)[ \t]*\{[^{}\n]{0,40}\}|[\\{}\[\]\s]"
)
_ROW_MARKS = re.compile(
    r"(?:\s|\[[^\]\n]{0,40}\](?=\s)|\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot|endlastfoot|addlinespace|specialrule"
    r"|(?:cline|cmidrule)(?:\([a-z.0-9]{0,20}\))?\{[^{}\n]{0,40}\})(?![a-zA-Z])|%[^\n]*\n)*+"
)
_MACRO = re.compile(
    r"\\(?P<accent>[`'^\"~=.]|[Hcvudbk](?![a-zA-Z]))[ \t]*\{?(?P<letter>\\?[a-zA-Z])\}?"
    r"|\\(?:label|index|footnote|thanks|inst|vspace|hspace|cite)\*?"
    r"(?:\[[^\]]{0,200}\])?\{[^{}]{0,500}\}|\\(?:linebreak|newline|protect|and|\\)\s*"
    r"|\\(?P<symbol>[&%$#_{}])|\\[a-zA-Z@]+\*?[ \t]*|[{}]|~"
)
_ACCENTS = dict(
    zip("`'^\"~=.Hcvudbk", "\u0300\u0301\u0302\u0308\u0303\u0304\u0307\u030b\u0327\u030c\u0306\u0323\u0331\u0328", strict=True)
)
_WHITE = re.compile(r"[ \t\r\n]*+")
_LONGEST = 10_000


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The source itself, its blocks, and what its title is made of as metadata."""
    text, metadata = decode(data)
    paper = _Paper(text)
    paper.read()
    yield Parsed(text, tuple(_levelled(paper.blocks)), _about(paper) | metadata)


def _levelled(blocks: list[Block]) -> Iterator[Block]:
    """The largest sections of the file become those of level 1."""
    first = min((block.level for block in blocks if block.kind == "heading"), default=0)
    return (block._replace(level=block.level - first + 1) if block.kind == "heading" else block for block in blocks)


class _Paper:
    """One pass over the commands. `start` is where the paragraph under construction begins."""

    def __init__(self, text: str) -> None:
        self.text, self.groups = text, Groups(text)
        self.blocks: list[Block] = []
        begin = re.search(r"^[^%\n]*?\\begin[ \t]*\{document\}", text, re.M)
        self.body = self.start = begin.end() if begin else 0
        if begin:
            self.add("code", 0, begin.start() + len(begin[0]) - len(begin[0].lstrip()))
        self.box = ""  # the outermost list, table or quote that is open
        self.depth = 0  # how many environments of its kind are open
        self.seams: list[int] = []

    def read(self) -> None:
        """The events in order; what a raw environment holds is passed over."""
        at, text = self.body, self.text
        while event := _EVENT.search(text, at):
            at = event.end()
            if event["side"] == "begin":
                at = self.begin(event)
            elif event["side"]:
                if event["name"] == "document":
                    self.paragraph(event.start())
                    return
                self.end(event)
            elif event["item"]:
                if self.box in _LISTS and self.depth == 1:
                    self.seams.append(event.start())
            elif event["row"]:
                if self.box in _TABLES and self.depth == 1:
                    self.seams.append(event.end())
            elif not self.box:
                at = self.outside(event)
        if self.box:  # it is not closed
            self.close(len(text))
        self.paragraph(len(text))

    def outside(self, event: re.Match[str]) -> int:
        """A blank line, a section or a caption where no list, table or quote is open."""
        if event["blank"]:
            self.paragraph(event.start())
        elif event["section"]:
            return self.heading(event)
        elif event["caption"] and (group := self.groups.argument(event.end())):
            self.paragraph(event.start())
            self.add("figure", *group)
            self.start = group.end + 1
            return self.start
        return event.end()

    def add(self, kind: Kind, start: int, end: int, parts: tuple[Span, ...] = (), *, level: int = 0, title: str = "") -> None:
        """A block, without the white space around it; none where there is nothing else."""
        span = _trimmed(self.text, start, end)
        if span.start < span.end:
            self.blocks.append(Block(kind, span, level, None, parts, title))

    def paragraph(self, end: int) -> None:
        """What stands since the last block is a paragraph if a reader would see words in it."""
        start, text = self.start, self.text
        self.start = max(end, start)
        if end > start and _has_words(text, start, end):
            self.add("paragraph", start, end)

    def heading(self, event: re.Match[str]) -> int:
        """A section with its title, which may have a short form in front."""
        group = self.groups.argument(event.end())
        if not group:
            return event.end()
        self.paragraph(event.start())
        title = plain(self.text[slice(*group)])
        if title:
            self.add("heading", event.start(), group.end + 1, level=_LEVELS[event["section"]], title=title)
        self.start = group.end + 1
        return self.start

    def begin(self, event: re.Match[str]) -> int:
        """An environment begins."""
        name, text = event["name"], self.text
        if name in _RAW or (name in _CODE and not self.box):
            return self.raw(name, event)
        if self.box:
            self.depth += _kin(self.box, name)
        elif name in _LISTS or name in _TABLES or name in _QUOTES:
            self.paragraph(event.start())
            self.box, self.depth, self.start, self.seams = name, 1, event.end(), []
            if name in _TABLES:
                self.start = self.groups.past_arguments(event.end())
                return self.start
        elif name not in _MATHS:
            self.paragraph(event.start())
            self.start = self.groups.past_arguments(event.end()) if name in _LAYOUT else event.end()
            if name == "frame" and (group := self.groups.argument(event.end())):
                self.add("heading", group.start, group.end, level=_LEVELS["frametitle"], title=plain(text[slice(*group)]))
                self.start = group.end + 1
            return self.start
        return event.end()

    def raw(self, name: str, event: re.Match[str]) -> int:
        """An environment in which commands are none, up to its end."""
        text = self.text
        end = re.compile(rf"\\end[ \t]*\{{{name}\*?\}}").search(text, event.end())
        stop, after = (end.start(), end.end()) if end else (len(text), len(text))
        if not self.box:
            self.paragraph(event.start())
            if name != "comment":
                start = self.groups.past_arguments(event.end())
                first = text.find("\n", start, stop) + 1 or start
                first = first if not text[start:first].strip() else start
                self.code(first, stop)
            self.start = after
        return after

    def code(self, start: int, end: int) -> None:
        """Lines as they are: the first keeps its indentation."""
        span = _trimmed(self.text, start, end)
        if span.start < span.end:
            first = max(start, self.text.rfind("\n", start, span.start) + 1)
            self.blocks.append(Block("code", Span(first, span.end)))

    def end(self, event: re.Match[str]) -> None:
        """An environment ends."""
        name = event["name"]
        if self.box:
            self.depth -= _kin(self.box, name)
            if self.depth == 0:
                self.close(event.start())
                self.start = event.end()
        elif name not in _MATHS:
            self.paragraph(event.start())
            self.start = event.end()

    def close(self, end: int) -> None:
        """The list, table or quote is a block."""
        name, seams, text = self.box, self.seams, self.text
        self.box = ""
        if name in _LISTS:
            start = seams[0] if seams else self.start
            parts = (_trimmed(text, a, b) for a, b in pairwise([*seams, end]))
            self.add("list", start, end, tuple(p for p in parts if p.start < p.end))
        elif name in _TABLES:
            marks = [m.end() if (m := _ROW_MARKS.match(text, a, end)) else a for a in (self.start, *seams)]
            parts = (_trimmed(text, a, b) for a, b in zip(marks, [*seams, end], strict=True))
            self.add("table", self.start, end, tuple(p for p in parts if p.start < p.end and text[slice(*p)] != "\\\\"))
        else:
            self.add("quote", self.start, end)
        self.start = end


def _kin(box: str, name: str) -> int:
    """1 where an environment is of the kind of the open one, so that it may be nested in it."""
    return int(any(box in kind and name in kind for kind in (_LISTS, _TABLES, _QUOTES)))


class Groups:
    """What stands in braces: all of them are paired once, so that no brace is looked for twice."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.closed: dict[int, int] = {}
        opened: list[int] = []
        for brace in _BRACE.finditer(text):
            if brace["open"]:
                opened.append(brace.end() - 1)
            elif brace["close"] and opened:
                self.closed[opened.pop()] = brace.end() - 1

    def argument(self, at: int) -> Span | None:
        """What stands in the next braces, after optional arguments in brackets; None where they don't close soon."""
        at = self.past_options(at)
        end = self.closed.get(at, -1)
        return Span(at + 1, end) if 0 < end < at + _LONGEST else None

    def past_options(self, at: int) -> int:
        """Behind white space and a few arguments in brackets."""
        for _ in range(4):
            at = _WHITE.match(self.text, at).end()  # type: ignore[union-attr]  # it matches everywhere
            end = self.text.find("]", at, at + 1000) if self.text.startswith("[", at) else -1
            if end < 0:
                break
            at = end + 1
        return at

    def past_arguments(self, at: int) -> int:
        """Behind the arguments in brackets and braces that follow the name of an environment."""
        for _ in range(4):
            end = self.text.find("]", at, at + 1000) if self.text.startswith("[", at) else self.closed.get(at, -1)
            if not 0 < end < at + _LONGEST:
                break
            at = end + 1
        return at


def _has_words(text: str, start: int, end: int) -> bool:
    """Whether anything is left without comments and commands that show nothing. Looks at the beginning first."""
    for stop in (min(end, start + 500), end):
        if _UNSEEN.sub("", text[start:stop]).strip():
            return True
        if stop == end:
            break
    return False


def _trimmed(text: str, start: int, end: int) -> Span:
    while end > start and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return Span(start, end)


def _about(paper: _Paper) -> dict[str, str]:
    """Title, author and date, in the preamble or at the beginning of the body."""
    found: dict[str, str] = {}
    for command in _INFO.finditer(paper.text, 0, paper.body + _LONGEST):
        group = paper.groups.argument(command.end())
        if not group:
            continue
        value = paper.text[slice(*group)]
        if command[1] == "author":
            value = ", ".join(filter(None, (plain(part.split("\\\\")[0]) for part in re.split(r"\\and\b|\\AND\b", value))))
        if "\\today" not in value and (value := plain(value)):
            found.setdefault(command[1], value)
    return found


def plain(source: str) -> str:
    """What a reader sees of a few words with commands in them: their arguments, accents as letters."""

    def seen(macro: re.Match[str]) -> str:
        if macro["accent"]:
            letter = {"\\i": "i", "\\j": "j"}.get(macro["letter"], macro["letter"])
            return unicodedata.normalize("NFC", letter + _ACCENTS[macro["accent"]]) if len(letter) == 1 else ""
        return macro["symbol"] or (" " if macro[0] == "~" or macro[0].startswith(("\\\\", "\\newline", "\\linebreak")) else "")

    source = re.sub(r"(?<!\\)%[^\n]*", "", source[:_LONGEST])
    source = re.sub(r"\\texorpdfstring[ \t]*\{(?:[^{}]|\{[^{}]{0,500}\}){0,500}\}", "", source)
    return " ".join(_MACRO.sub(seen, source).split())
