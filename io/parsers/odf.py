"""OpenDocument texts and presentations (zipped or flat XML): what a reader of the final version sees, in reading order.

Headings have their outline levels; lists carry the numbers Writer would show. Deleted and hidden text, tables of contents,
headers and footers (they are metadata) and comments (unless `comments` is on) are left out. Notes stand as `[1] …` after the
block that refers to them. Repeated cells and rows are written out as far as they have text, within bounds. A table of one
cell is layout. A slide is a page: its title a heading, its speaker notes a block of kind `notes`; what a slide's name
says stands in for a title that is missing. Pages of texts are those of the last layout, where it has left its marks.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lxml import etree

from chunkmill.chunkers.base import Kind
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.equations import linear
from chunkmill.io.parsers.office import Counters, Figure, Flow, Level, Table, Text, is_code, is_typewriter, png, role, steps
from chunkmill.io.parsers.xmltree import damage, local, tree
from chunkmill.io.parsers.zipped import Package

_WHAT = "the OpenDocument file"
_NS = "{urn:oasis:names:tc:opendocument:xmlns:"
_OFFICE, _TEXT, _TABLE, _DRAW = (f"{_NS}{name}:1.0}}" for name in ("office", "text", "table", "drawing"))
_STYLE, _META, _SHOW, _FO = (f"{_NS}{name}:1.0}}" for name in ("style", "meta", "presentation", "xsl-fo-compatible"))
_SVG = f"{_NS}svg-compatible:1.0}}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_MATH = "{http://www.w3.org/1998/Math/MathML}math"
_WHITE = re.compile(r"[ \t\r\n]+")
_GENERIC = re.compile(r"\D*\s?\d+\Z")
_SKIPPED = (
    *(_TEXT + name for name in ("tracked-changes", "table-of-content", "illustration-index", "table-index", "object-index")),
    *(_TEXT + name for name in ("ruby-text", "number", "note-citation", "sequence-decls", "variable-decls")),
    *(_TEXT + name for name in ("user-field-decls", "dde-connection-decls", "toc-mark-start", "user-index-source")),
    *(_TEXT + name for name in ("bibliography-source", "alphabetical-index-source", "alphabetical-index-mark")),
    *(_OFFICE + name for name in ("forms", "scripts", "event-listeners", "binary-data")),
    *(_SHOW + name for name in ("footer-decl", "header-decl", "date-time-decl")),
    *(_TABLE + name for name in ("tracked-changes", "shapes", "content-validations", "calculation-settings")),
)
_SPACES = 1_000  # a run of them longer than this is cut
_COLUMNS = 1_000  # columns that one cell may be repeated over
_REPEATED = 1_000_000  # characters of repeated cells and rows that are written out
_MARGIN = 500
_BULLET = Level("bullet")
_FORMATS = {"i": "lowerRoman", "I": "upperRoman", "a": "lowerLetter", "A": "upperLetter", "": "none"}
_META_NAMES = {
    _DC + "title": "title", _DC + "language": "language", _DC + "subject": "subject", _DC + "description": "description",
    _META + "keyword": "keywords",
}  # fmt: skip


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The one document of the file."""
    file = _File(data)
    walk = _Walk(file, options)
    walk.run(file.body)
    parsed = walk.flow.document(file.metadata() | file.margins(walk))
    if walk.title:
        parsed.metadata.setdefault("title", walk.title)
    if warnings := [*file.warnings, *walk.warnings]:
        parsed.metadata["warning"] = "; ".join(warnings[:5])
    yield parsed


class _File:
    """The XML of a document and what its styles say, from a package or a flat file."""

    def __init__(self, data: bytes) -> None:
        self.warnings: list[str] = []
        self.package = Package(data, _WHAT) if data.startswith(b"PK") else None
        self._refuse_encrypted()
        roots = [self._required(data), *filter(None.__ne__, (self._optional(n) for n in ("styles.xml", "meta.xml")))]
        self.roots: list[etree._Element] = [root for root in roots if root is not None]
        if damaged := damage(self.roots[0]):
            self.warnings.append(f"the content is damaged XML, read as far as possible: {damaged}")
        body = self.roots[0].find(_OFFICE + "body")
        if body is None:
            raise DocumentError("corrupt", f"{_WHAT} has no body")
        self.body = body
        self.styles = _Styles(self.roots)
        for title in [*body.iterfind(f"{_OFFICE}presentation/{_DRAW}page/{_DRAW}frame[@{_SHOW}class='title']")]:
            page = title.getparent()
            if page is not None:
                page.insert(0, title)  # what is drawn last need not be read last

    def part(self, name: str) -> bytes:
        """A part of the package; b"" where it is missing or broken."""
        name = name.removeprefix("./")
        try:
            return self.package.read(name) if self.package and name in self.package else b""
        except DocumentError as error:
            if error.kind != "corrupt":
                raise
            return b""

    def xml(self, name: str) -> etree._Element | None:
        """A part as a tree; None where it is missing or broken."""
        data = self.part(name)
        try:
            return tree(data, f"{name} in {_WHAT}") if data else None
        except DocumentError:
            return None

    def metadata(self) -> dict[str, str]:
        """What the properties say."""
        found: dict[str, str] = {}
        for element in (e for root in self.roots for e in root.iterfind(f"{_OFFICE}meta/*")):
            text = " ".join((element.text or "").split())
            if text and element.tag in _META_NAMES:
                key = _META_NAMES[element.tag]
                found[key] = f"{found[key]}, {text}" if key == "keywords" and key in found else text
            elif text:
                found[local(element)] = text
        named = found.get("initial-creator") or found.get("creator", "")
        date = found.get("date") or found.get("creation-date", "")
        kept = {key: value for key, value in found.items() if key in _META_NAMES.values()}
        language = kept.get("language") or self.styles.language
        return kept | {k: v for k, v in (("author", named), ("date", date), ("language", language)) if v}

    def margins(self, walk: _Walk) -> dict[str, str]:
        """The headers and footers of the pages, each once."""
        found: dict[str, str] = {}
        masters = [m for root in self.roots for m in root.iterfind(f"{_OFFICE}master-styles/{_STYLE}master-page")]
        for kind in ("header", "footer"):
            said = (" ".join(walk.aside(part).split()) for m in masters[:50] for part in m if local(part).startswith(kind))
            if texts := dict.fromkeys(text for text in said if any(map(str.isalpha, text))):
                found[kind] = " / ".join(texts)[:_MARGIN]
        return found

    def _refuse_encrypted(self) -> None:
        if self.package and "encryption-data" in self.part("META-INF/manifest.xml").decode("utf-8", "replace"):
            raise DocumentError("encrypted", "an OpenDocument file under a password")

    def _required(self, data: bytes) -> etree._Element:
        return tree(data if self.package is None else self.package.read("content.xml"), _WHAT)

    def _optional(self, name: str) -> etree._Element | None:
        root = self.xml(name)
        if root is None and self.package and name in self.package:
            self.warnings.append(f"{name} could not be read")
        return root


class _Style(NamedTuple):
    """What a style and its parents say."""

    kind: Kind = "paragraph"
    level: int = 0
    title: bool = False
    contents: bool = False
    hidden: bool = False
    typed: bool = False
    breaks: bool = False
    list: str = ""


class _Styles:
    """Styles by family and name, each resolved when it is first asked for; and the levels of lists."""

    def __init__(self, roots: list[etree._Element]) -> None:
        places = [p for root in roots for name in ("styles", "automatic-styles") for p in root.iterfind(_OFFICE + name)]
        self._raw: dict[tuple[str, str], etree._Element] = {}
        self._lists: dict[str, list[Level]] = {}
        self.outline: list[Level] = []
        self.language = ""
        for element in (e for place in places for e in place):
            if element.tag == _STYLE + "style":
                self._raw.setdefault((element.get(_STYLE + "family", ""), element.get(_STYLE + "name", "")), element)
            elif element.tag == _TEXT + "list-style":
                self._lists.setdefault(element.get(_STYLE + "name", ""), _levels(element))
            elif element.tag == _TEXT + "outline-style":
                self.outline = _levels(element)
            elif element.tag == _STYLE + "default-style" and element.get(_STYLE + "family") == "paragraph":
                self.language = _language(element)
        self._resolved: dict[tuple[str, str], _Style] = {}
        self.typed = self.get("paragraph", "Standard").typed  # then a typewriter's font says nothing

    def get(self, family: str, name: str) -> _Style:
        """What the style says, each in its chain changing what it speaks of, the oldest first."""
        if (family, name) not in self._resolved:
            found = _Style()
            for element in reversed([*self._chain(family, name)]):
                found = _said(found, element)
            self._resolved[family, name] = found
        return self._resolved[family, name]

    def levels(self, name: str) -> list[Level]:
        """The levels of a list style; bullets where it is not known."""
        return self._lists.get(name) or [_BULLET]

    def _chain(self, family: str, name: str) -> Iterator[etree._Element]:
        seen: set[str] = set()
        while (family, name) in self._raw and name not in seen and len(seen) < 50:
            seen.add(name)
            yield self._raw[family, name]
            name = self._raw[family, name].get(_STYLE + "parent-style-name", "")


def _said(style: _Style, element: etree._Element) -> _Style:
    name = (element.get(_STYLE + "display-name") or element.get(_STYLE + "name") or "").replace("_20_", " ")
    named = role(name)
    outline = element.get(_STYLE + "default-outline-level", "")
    text, paragraph = element.find(_STYLE + "text-properties"), element.find(_STYLE + "paragraph-properties")
    font, hidden = "", style.hidden
    if text is not None:
        font = text.get(_STYLE + "font-name") or text.get(_FO + "font-family") or ""
        hidden = text.get(_TEXT + "display", "none" if hidden else "true") == "none"
    section = element.find(_STYLE + "section-properties")
    hidden = hidden or (section is not None and section.get(_TEXT + "display") == "none")
    automatic = not element.get(_STYLE + "display-name") and re.match(r"[A-Z]+\d+\Z", name) is not None
    level = min(int(outline), 10) if outline.isdecimal() and len(outline) < 4 else named.level or style.level
    return _Style(
        kind="heading" if level else named.kind if named.kind != "paragraph" else style.kind,
        level=level,
        title=named.title or (automatic and style.title),
        contents=named.contents or style.contents,
        hidden=hidden,
        typed=is_typewriter(font) if font else style.typed,
        breaks=bool(element.get(_STYLE + "master-page-name"))
        or (paragraph is not None and paragraph.get(_FO + "break-before") == "page"),
        list=element.get(_STYLE + "list-style-name", style.list),
    )


def _levels(style: etree._Element) -> list[Level]:
    """The levels of a list or of the outline."""
    found = [_BULLET] * 10
    for element in style:
        at = _whole(element, _TEXT + "level", 0)
        if not 1 <= at <= 10:
            continue
        if local(element) in ("list-level-style-number", "outline-level-style"):
            format = element.get(_STYLE + "num-format", "")
            shown = range(max(1, at + 1 - _whole(element, _TEXT + "display-levels", 1)), at + 1)
            numbers = ".".join(f"%{n}" for n in shown if n < 10) if format else ""
            label = element.get(_STYLE + "num-prefix", "") + numbers + element.get(_STYLE + "num-suffix", "")
            start = _whole(element, _TEXT + "start-value", 1)
            found[at - 1] = Level(_FORMATS.get(format, "decimal"), label if format else "", start)
    return found


def _whole(element: etree._Element, name: str, default: int) -> int:
    value = element.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 10 else default


def _language(style: etree._Element) -> str:
    text = style.find(_STYLE + "text-properties")
    names = [] if text is None else [text.get(_FO + "language", ""), text.get(_FO + "country", "")]
    return "-".join(name for name in names if name and name != "none") if names and names[0] not in ("", "none", "zxx") else ""


class _Walk:
    """One pass over the body. What opens an element may answer True: what is in it is not looked at."""

    def __init__(self, file: _File, options: Mapping[str, object]) -> None:
        self.file, self.options, self.flow = file, options, Flow()
        self.warnings: list[str] = []
        self.title = ""
        self.lists: list[str] = []  # styles of the open lists
        self.items: list[bool] = []  # per open list: whether its item has not said its label yet
        self.counters = Counters()  # of the open list
        self.finished: dict[str, Counters] = {}  # of the lists before, by id and by style
        self.outline = Counters()
        self.tables: list[Table | None] = []
        self.repeats = _REPEATED
        self.gap = 0  # repeated empty cells, written only if a cell with text follows
        self.notes = 0
        self.is_aside = False
        self.figure = Figure("")  # of the frame being read
        self.hidden: Text | None = None
        text = file.body.find(_OFFICE + "text")
        self.page: int | None = 1 if text is not None and text.get(_TEXT + "use-soft-page-breaks") == "true" else None
        self.enter = self._enters()
        self.leave: dict[str, Callable[[etree._Element], None]] = {
            _TEXT + "p": self.end_paragraph,
            _TEXT + "h": self.end_paragraph,
            _TEXT + "list": self.end_list,
            _TABLE + "table": self.end_table,
            _TABLE + "table-row": self.end_row,
            _TABLE + "table-cell": self.end_cell,
            _TABLE + "covered-table-cell": self.end_cell,
        }

    def _enters(self) -> dict[str, Callable[[etree._Element], bool | None]]:
        return {
            **dict.fromkeys(_SKIPPED, _skip),
            _TEXT + "p": self.paragraph,
            _TEXT + "h": self.paragraph,
            _TEXT + "span": lambda e: self.file.styles.get("text", e.get(_TEXT + "style-name", "")).hidden,
            _TEXT + "section": self.section,
            _TEXT + "s": lambda e: self.say(" " * min(_SPACES, _whole(e, _TEXT + "c", 1))),
            _TEXT + "tab": lambda _: self.say("\t"),
            _TEXT + "line-break": lambda _: self.say("\n"),
            _TEXT + "soft-page-break": self.page_break,
            _TEXT + "list": self.begin_list,
            _TEXT + "list-item": self.item,
            _TEXT + "list-header": self.unmarked,
            _TEXT + "note": self.note,
            _TEXT + "hidden-text": lambda e: e.get(_TEXT + "is-hidden", "true") == "true",
            _TEXT + "hidden-paragraph": self.hidden_paragraph,
            _OFFICE + "annotation": self.annotation,
            _TABLE + "table": self.begin_table,
            _TABLE + "table-row": self.begin_row,
            _TABLE + "table-cell": self.begin_cell,
            _TABLE + "covered-table-cell": _skip,
            _DRAW + "frame": self.frame,
            _DRAW + "image": self.image,
            _DRAW + "object": self.object,
            _DRAW + "page": self.slide,
            _SHOW + "notes": self.speaker_notes,
            _SVG + "title": _skip,
            _SVG + "desc": _skip,
            _MATH: self.equation,
        }

    def run(self, root: etree._Element) -> None:
        """Visit what is below the root, in document order; white space is one space, as in HTML."""
        walk, enter, leave = steps(root), self.enter, self.leave
        for event, element in walk:
            if event == "start":
                act = enter.get(element.tag)
                if act is not None and element is not root and act(element):
                    walk.skip_subtree()
                elif element.text:
                    self.say(_WHITE.sub(" ", element.text))
            else:
                end = leave.get(element.tag)
                if end is not None and element is not root:
                    end(element)
                if element.tail and element is not root:
                    self.say(_WHITE.sub(" ", element.tail))

    def say(self, words: str) -> None:
        """Words of the open paragraph."""
        if self.flow.text is not None:
            self.flow.say(words.replace("\xad", ""), self.page)

    # Paragraphs and lists

    def paragraph(self, element: etree._Element) -> bool:
        """A paragraph or heading begins; a hidden one is not looked at."""
        style = self.file.styles.get("paragraph", element.get(_TEXT + "style-name", ""))
        if style.breaks and self.page is not None and element.tag != _TEXT + "note":
            self.page += self.page > 1 or self.flow.begun
        text = Text(kind=style.kind, level=style.level, page=self.page, typed=style.typed)
        if element.tag == _TEXT + "h":
            text.kind, text.level = "heading", max(1, min(10, _whole(element, _TEXT + "outline-level", style.level or 1)))
        self._label(text, element, style)
        self.flow.open.append(text)
        if style.hidden or style.contents:
            self.hidden = text
        return style.hidden or style.contents

    def _label(self, text: Text, element: etree._Element, style: _Style) -> None:
        """Its number or bullet, and its place in a list."""
        if self.lists:
            depth = len(self.lists) - 1
            text.depth = depth if text.kind != "heading" else -1
            if self.items[-1]:
                self.items[-1] = False
                text.mark = self.counters.label(self.file.styles.levels(self.lists[-1] or style.list), depth)
        elif text.kind == "heading" and element.get(_TEXT + "is-list-header") != "true":
            text.mark = self.outline.label(self.file.styles.outline, text.level - 1)
        if text.kind == "heading" and text.mark == "-":
            text.mark = ""

    def end_paragraph(self, element: etree._Element) -> None:
        """The paragraph is complete."""
        text = self.flow.text
        if text is None:
            return
        if text is self.hidden:
            text.parts = []
        style = self.file.styles.get("paragraph", element.get(_TEXT + "style-name", ""))
        if text.kind == "paragraph" and text.depth < 0 and not self.file.styles.typed and is_code(text, self.flow.in_code):
            text.kind = "code"
        if style.title and not self.title and not self.is_aside:
            self.title = " ".join("".join(text.parts).split())
        self.flow.end()

    def section(self, element: etree._Element) -> bool:
        """A section; a hidden one is not looked at."""
        return (
            element.get(_TEXT + "display") == "none"
            or self.file.styles.get("section", element.get(_TEXT + "style-name", "")).hidden
        )

    def hidden_paragraph(self, element: etree._Element) -> None:
        """The paragraph it stands in is not shown."""
        if element.get(_TEXT + "is-hidden") == "true":
            self.hidden = self.flow.text

    def begin_list(self, element: etree._Element) -> None:
        """A list; one inside another goes on with its numbers, and so does one that says so."""
        name = element.get(_TEXT + "style-name", "")
        if self.lists:
            self.lists.append(name or self.lists[-1])
        else:
            known = element.get(_TEXT + "continue-list") or (
                name if element.get(_TEXT + "continue-numbering") == "true" else ""
            )
            self.counters = self.finished.get(known, Counters()) if known else Counters()
            self.finished[name] = self.finished[element.get("{http://www.w3.org/XML/1998/namespace}id", name)] = self.counters
            self.lists.append(name)
        self.items.append(False)

    def end_list(self, element: etree._Element) -> None:
        """The list is complete."""
        if self.lists:
            self.lists.pop()
            self.items.pop()

    def item(self, element: etree._Element) -> None:
        """An item: its first paragraph carries the label."""
        if self.items:
            self.items[-1] = True
            if (start := _whole(element, _TEXT + "start-value", -1)) >= 0:
                self.counters.restart(len(self.items) - 1, start)

    def unmarked(self, element: etree._Element) -> None:
        """What heads a list has no label."""
        if self.items:
            self.items[-1] = False

    def page_break(self, element: etree._Element) -> None:
        """Where a page began in the last layout."""
        if self.page is not None:
            self.page += 1

    def equation(self, element: etree._Element) -> bool:
        """An equation is a line of text."""
        self.say(linear(element))
        return True

    # Tables

    def begin_table(self, element: etree._Element) -> None:
        """A table that is not layout becomes a table; one inside another, part of its cell."""
        outer = self.flow.table
        if outer is not None:
            outer.inner += 1
        found = None if outer is not None or _is_layout(element) else Table(self.page)
        if found:
            self.flow.open.append(found)
        self.tables.append(found)

    def end_table(self, element: etree._Element) -> None:
        """The table is complete."""
        found = self.tables.pop() if self.tables else None
        if found:
            self.flow.end()
        elif self.flow.table is not None:
            self.flow.table.inner -= 1

    def begin_row(self, element: etree._Element) -> bool:
        """A row; a filtered or collapsed one is not looked at."""
        return element.get(_TABLE + "visibility", "visible") != "visible"

    def begin_cell(self, element: etree._Element) -> None:
        """A cell is a place for paragraphs."""

    def end_cell(self, element: etree._Element) -> None:
        """The cell is complete, as often as it is repeated; empty ones only where text follows."""
        table = self.flow.table
        if table is None or table.inner:
            return
        times = _whole(element, _TABLE + "number-columns-repeated", 1)
        words = " ".join(table.cell)
        if not words and times > 1:
            self.gap += times
            return
        table.row += [""] * self._allowed("", self.gap)
        self.gap = 0
        self.flow.end_cell()
        table.row += [words] * self._allowed(words, times - 1)

    def end_row(self, element: etree._Element) -> None:
        """The row is complete, as often as it is repeated."""
        table = self.flow.table
        if table is None or table.inner:
            return
        self.gap, before = 0, len(table.rows)
        self.flow.end_row()
        if len(table.rows) > before:
            row = table.rows[-1]
            table.rows += [row] * self._allowed(row, _whole(element, _TABLE + "number-rows-repeated", 1) - 1)

    def _allowed(self, words: str, times: int) -> int:
        """How often a repeated text may be written out."""
        if times <= 0:
            return 0
        allowed = min(times, _COLUMNS, self.repeats // (len(words) + 3))
        self.repeats -= allowed * (len(words) + 3)
        if allowed < times and words:
            self._warn("repeated cells or rows were written out in part")
        return allowed

    def _warn(self, what: str) -> None:
        if what not in self.warnings:
            self.warnings.append(what)

    # Notes

    def note(self, element: etree._Element) -> bool:
        """A footnote or endnote: its number here, its text after the block."""
        body, citation = element.find(_TEXT + "note-body"), element.find(_TEXT + "note-citation")
        if body is not None and not self.is_aside:
            self.notes += 1
            number = _words(citation) if citation is not None else ""
            number = number or str(self.notes)
            self.say(f"[{number}]")
            self.flow.note(f"[{number}] {self.aside(body)}")
        return True

    def annotation(self, element: etree._Element) -> bool:
        """A comment, after the block it is about, where comments are asked for."""
        if self.options.get("comments") and not self.is_aside:
            author = element.findtext(_DC + "creator") or "comment"
            self.flow.note(f"[{author}: {self.aside(element)}]")
        return True

    def aside(self, root: etree._Element) -> str:
        """The text of a note, a header, a footer or a title, a line per paragraph."""
        outer = (
            self.flow,
            self.lists,
            self.items,
            self.counters,
            self.tables,
            self.gap,
            self.is_aside,
            self.page,
            self.hidden,
            self.figure,
        )
        self.flow, self.lists, self.items, self.tables, self.gap, self.is_aside = Flow(), [], [], [], 0, True
        box = Table()
        self.flow.open.append(box)
        self.run(root)
        (
            self.flow,
            self.lists,
            self.items,
            self.counters,
            self.tables,
            self.gap,
            self.is_aside,
            self.page,
            self.hidden,
            self.figure,
        ) = outer
        return "\n".join(box.cell)

    # Pictures and slides

    def frame(self, element: etree._Element) -> bool:
        """A frame: a slide's title is a heading; its margins are left out; a described picture is a figure."""
        role = element.get(_SHOW + "class", "")
        if role in ("header", "footer", "date-time", "page-number"):
            return True
        if role == "title" and not self.is_aside:
            self.flow.place(Text("heading", 1, page=self.page, parts=[self.aside(element)]))
            return True
        words = " ".join(filter(None, (element.findtext(_SVG + name) for name in ("title", "desc"))))
        self.figure = Figure(words, self.page)
        pictured = any(element.find(_DRAW + name) is not None for name in ("image", "object", "object-ole", "plugin"))
        if pictured and element.find(_DRAW + "text-box") is None:
            self.flow.place(self.figure)
        return False

    def image(self, element: etree._Element) -> bool:
        """The bytes of a picture, where images are asked for."""
        href = element.get(_XLINK + "href", "")
        if self.options.get("images") and self.figure.png is None and "ObjectReplacements" not in href:
            data = element.find(_OFFICE + "binary-data")
            self.figure.png = lambda: png(self.file.part(href) if data is None else _base64(data.text or ""))
        return True

    def object(self, element: etree._Element) -> bool:
        """An embedded object: an equation is text, a chart's words are its figure."""
        href = element.get(_XLINK + "href", "").removeprefix("./").rstrip("/")
        root = self.file.xml(f"{href}/content.xml") if href else next(iter(element), None)
        math = None if root is None else root if root.tag == _MATH else root.find(f".//{_MATH}")
        if math is not None:
            self.flow.place(Text(parts=[linear(math)], page=self.page)) if self.flow.text is None else self.say(linear(math))
        elif root is not None and not self.figure.text:
            said = (_words(p) for p in root.iter(_TEXT + "p"))
            self.figure.text = ", ".join(filter(None, said))
        return True

    def slide(self, element: etree._Element) -> None:
        """A slide is a page. Its name is its heading where it has no title and the name is no mere number."""
        self.flow.interrupt()
        self.page = (self.page or 0) + 1
        titles = element.findall(f"{_DRAW}frame[@{_SHOW}class='title']")
        name = element.get(_DRAW + "name", "").strip()
        if name and not _GENERIC.match(name) and not any(map(_words, titles)):
            self.flow.place(Text("heading", 1, page=self.page, parts=[name]))

    def speaker_notes(self, element: etree._Element) -> bool:
        """What the speaker wrote for himself."""
        if not self.is_aside:
            self.flow.place(Text("notes", page=self.page, parts=[self.aside(element)]))
        return True


def _skip(element: etree._Element) -> bool:
    return True


def _is_layout(table: etree._Element) -> bool:
    """Whether the table is a frame around text: one cell, or a cell with a heading and something under it."""
    cells = table.findall(f"{_TABLE}table-row/{_TABLE}table-cell")
    headed = any(cell.find(_TEXT + "h") is not None and len(cell) > 1 for cell in cells)
    return headed or (len(cells) == 1 and table.find(_TABLE + "table-header-rows") is None)


def _words(element: etree._Element) -> str:
    return " ".join("".join(str(text) for text in element.itertext()).split())


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""
