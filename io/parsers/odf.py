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

from lxml import etree

from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.equations import linear
from chunkmill.io.parsers.odffile import DC, DRAW, NS, OFFICE, SHOW, TABLE, TEXT, File, Style, whole
from chunkmill.io.parsers.office import Counters, Figure, Flow, Table, Text, is_code, png, steps

_SVG = f"{NS}svg-compatible:1.0}}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_MATH = "{http://www.w3.org/1998/Math/MathML}math"
_WHITE = re.compile(r"[ \t\r\n]+")
_GENERIC = re.compile(r"\D*\s?\d+\Z")
_SKIPPED = (
    *(TEXT + name for name in ("tracked-changes", "table-of-content", "illustration-index", "table-index", "object-index")),
    *(TEXT + name for name in ("ruby-text", "number", "note-citation", "sequence-decls", "variable-decls")),
    *(TEXT + name for name in ("user-field-decls", "dde-connection-decls", "toc-mark-start", "user-index-source")),
    *(TEXT + name for name in ("bibliography-source", "alphabetical-index-source", "alphabetical-index-mark")),
    *(OFFICE + name for name in ("forms", "scripts", "event-listeners", "binary-data")),
    *(SHOW + name for name in ("footer-decl", "header-decl", "date-time-decl")),
    *(TABLE + name for name in ("tracked-changes", "shapes", "content-validations", "calculation-settings")),
)
_SPACES = 1_000  # a run of them longer than this is cut
_COLUMNS = 1_000  # columns that one cell may be repeated over
_REPEATED = 1_000_000  # characters of repeated cells and rows that are written out


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The one document of the file."""
    file = File(data)
    walk = _Walk(file, options)
    walk.run(file.body)
    parsed = walk.flow.document(file.metadata() | file.margins(walk.aside))
    if walk.title:
        parsed.metadata.setdefault("title", walk.title)
    if warnings := [*file.warnings, *walk.warnings]:
        parsed.metadata["warning"] = "; ".join(warnings[:5])
    yield parsed


class _Walk:
    """One pass over the body. What opens an element may answer True: what is in it is not looked at."""

    def __init__(self, file: File, options: Mapping[str, object]) -> None:
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
        text = file.body.find(OFFICE + "text")
        self.page: int | None = 1 if text is not None and text.get(TEXT + "use-soft-page-breaks") == "true" else None
        self.enter = self._enters()
        self.leave: dict[str, Callable[[etree._Element], None]] = {
            TEXT + "p": self.end_paragraph,
            TEXT + "h": self.end_paragraph,
            TEXT + "list": self.end_list,
            TABLE + "table": self.end_table,
            TABLE + "table-row": self.end_row,
            TABLE + "table-cell": self.end_cell,
            TABLE + "covered-table-cell": self.end_cell,
        }

    def _enters(self) -> dict[str, Callable[[etree._Element], bool | None]]:
        return {
            **dict.fromkeys(_SKIPPED, _skip),
            TEXT + "p": self.paragraph,
            TEXT + "h": self.paragraph,
            TEXT + "span": lambda e: self.file.styles.get("text", e.get(TEXT + "style-name", "")).hidden,
            TEXT + "section": self.section,
            TEXT + "s": lambda e: self.say(" " * min(_SPACES, whole(e, TEXT + "c", 1))),
            TEXT + "tab": lambda _: self.say("\t"),
            TEXT + "line-break": lambda _: self.say("\n"),
            TEXT + "soft-page-break": self.page_break,
            TEXT + "list": self.begin_list,
            TEXT + "list-item": self.item,
            TEXT + "list-header": self.unmarked,
            TEXT + "note": self.note,
            TEXT + "hidden-text": lambda e: e.get(TEXT + "is-hidden", "true") == "true",
            TEXT + "hidden-paragraph": self.hidden_paragraph,
            OFFICE + "annotation": self.annotation,
            TABLE + "table": self.begin_table,
            TABLE + "table-row": self.begin_row,
            TABLE + "table-cell": self.begin_cell,
            TABLE + "covered-table-cell": _skip,
            DRAW + "frame": self.frame,
            DRAW + "image": self.image,
            DRAW + "object": self.object,
            DRAW + "page": self.slide,
            SHOW + "notes": self.speaker_notes,
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
        style = self.file.styles.get("paragraph", element.get(TEXT + "style-name", ""))
        if style.breaks and self.page is not None and element.tag != TEXT + "note":
            self.page += self.page > 1 or self.flow.begun
        text = Text(kind=style.kind, level=style.level, page=self.page, typed=style.typed)
        if element.tag == TEXT + "h":
            text.kind, text.level = "heading", max(1, min(10, whole(element, TEXT + "outline-level", style.level or 1)))
        self._label(text, element, style)
        self.flow.open.append(text)
        if style.hidden or style.contents:
            self.hidden = text
        return style.hidden or style.contents

    def _label(self, text: Text, element: etree._Element, style: Style) -> None:
        """Its number or bullet, and its place in a list."""
        if self.lists:
            depth = len(self.lists) - 1
            text.depth = depth if text.kind != "heading" else -1
            if self.items[-1]:
                self.items[-1] = False
                text.mark = self.counters.label(self.file.styles.levels(self.lists[-1] or style.list), depth)
        elif text.kind == "heading" and element.get(TEXT + "is-list-header") != "true":
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
        style = self.file.styles.get("paragraph", element.get(TEXT + "style-name", ""))
        if text.kind == "paragraph" and text.depth < 0 and not self.file.styles.typed and is_code(text, self.flow.in_code):
            text.kind = "code"
        if style.title and not self.title and not self.is_aside:
            self.title = " ".join("".join(text.parts).split())
        self.flow.end()

    def section(self, element: etree._Element) -> bool:
        """A section; a hidden one is not looked at."""
        return (
            element.get(TEXT + "display") == "none"
            or self.file.styles.get("section", element.get(TEXT + "style-name", "")).hidden
        )

    def hidden_paragraph(self, element: etree._Element) -> None:
        """The paragraph it stands in is not shown."""
        if element.get(TEXT + "is-hidden") == "true":
            self.hidden = self.flow.text

    def begin_list(self, element: etree._Element) -> None:
        """A list; one inside another goes on with its numbers, and so does one that says so."""
        name = element.get(TEXT + "style-name", "")
        if self.lists:
            self.lists.append(name or self.lists[-1])
        else:
            known = element.get(TEXT + "continue-list") or (name if element.get(TEXT + "continue-numbering") == "true" else "")
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
            if (start := whole(element, TEXT + "start-value", -1)) >= 0:
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
        return element.get(TABLE + "visibility", "visible") != "visible"

    def begin_cell(self, element: etree._Element) -> None:
        """A cell is a place for paragraphs."""

    def end_cell(self, element: etree._Element) -> None:
        """The cell is complete, as often as it is repeated; empty ones only where text follows."""
        table = self.flow.table
        if table is None or table.inner:
            return
        times = whole(element, TABLE + "number-columns-repeated", 1)
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
            table.rows += [row] * self._allowed(row, whole(element, TABLE + "number-rows-repeated", 1) - 1)

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
        body, citation = element.find(TEXT + "note-body"), element.find(TEXT + "note-citation")
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
            author = element.findtext(DC + "creator") or "comment"
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
        role = element.get(SHOW + "class", "")
        if role in ("header", "footer", "date-time", "page-number"):
            return True
        if role == "title" and not self.is_aside:
            self.flow.place(Text("heading", 1, page=self.page, parts=[self.aside(element)]))
            return True
        words = " ".join(filter(None, (element.findtext(_SVG + name) for name in ("title", "desc"))))
        self.figure = Figure(words, self.page)
        pictured = any(element.find(DRAW + name) is not None for name in ("image", "object", "object-ole", "plugin"))
        if pictured and element.find(DRAW + "text-box") is None:
            self.flow.place(self.figure)
        return False

    def image(self, element: etree._Element) -> bool:
        """The bytes of a picture, where images are asked for."""
        href = element.get(_XLINK + "href", "")
        if self.options.get("images") and self.figure.png is None and "ObjectReplacements" not in href:
            data = element.find(OFFICE + "binary-data")
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
            said = (_words(p) for p in root.iter(TEXT + "p"))
            self.figure.text = ", ".join(filter(None, said))
        return True

    def slide(self, element: etree._Element) -> None:
        """A slide is a page. Its name is its heading where it has no title and the name is no mere number."""
        self.flow.interrupt()
        self.page = (self.page or 0) + 1
        titles = element.findall(f"{DRAW}frame[@{SHOW}class='title']")
        name = element.get(DRAW + "name", "").strip()
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
    cells = table.findall(f"{TABLE}table-row/{TABLE}table-cell")
    headed = any(cell.find(TEXT + "h") is not None and len(cell) > 1 for cell in cells)
    return headed or (len(cells) == 1 and table.find(TABLE + "table-header-rows") is None)


def _words(element: etree._Element) -> str:
    return " ".join("".join(str(text) for text in element.itertext()).split())


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""
