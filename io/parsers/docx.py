"""Word documents, straight from their XML: the text a reader of the final version sees, in reading order.

Headings are paragraphs whose style (or what it is based on) is a heading or has an outline level; a Title is text, and the
`title` where the properties name none. Lists carry the numbers Word would show, and so do headings (`title` is without).
Insertions are in, deletions, moved-away and hidden text are out; fields give their result, not their code. Footnotes and
endnotes stand as `[1] …` after the block that refers to them. Left out: tables of contents, headers and footers (they are
metadata), comments (unless `comments` is on). A table of one cell, or one with a heading and text in a cell, is layout:
what is in it is read as if the table were not there. Pages are those of Word's last layout, where it has left its marks.
Embedded office files and chunks of other formats (altChunk) are members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lxml import etree

from chunkmill.io.parsers import Member, Parsed
from chunkmill.io.parsers.equations import linear
from chunkmill.io.parsers.office import (
    Figure,
    Flow,
    Table,
    Text,
    in_symbols,
    is_code,
    is_symbolic,
    is_typewriter,
    numeral,
    png,
    steps,
    symbol,
)
from chunkmill.io.parsers.wordfile import WHAT, Word
from chunkmill.io.parsers.wordstyles import PLAIN, VAL, Style, Styles, W, fonts, outlined, switched, whole
from chunkmill.io.parsers.xmltree import local
from chunkmill.io.parsers.zipped import Package

_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_V = "{urn:schemas-microsoft-com:vml}"
_O = "{urn:schemas-microsoft-com:office:office}"
_SKIPPED_TAGS = (
    "del moveFrom instrText delText delInstrText pPr rPr sectPr tblPr tblGrid trPr tcPr sdtPr sdtEndPr rt rubyPr numPr binData "
    "footnoteRef endnoteRef annotationRef separator continuationSeparator"
)
_SKIPPED = tuple(_SKIPPED_TAGS.split())
_SPACES = {"cr": "\n", "tab": "\t", "ptab": "\t", "noBreakHyphen": "-"}
_SPANS = 64  # columns a merged cell may cover, as in Word


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed | Member]:
    """The document, then the files inside it that are documents of their own."""
    word = Word(Package(data, WHAT))
    walk = _Walk(word, options)
    walk.run(word.root)
    metadata = word.properties() | word.margins(walk.aside)
    parsed = walk.flow.document(metadata)
    if language := word.styles.language(parsed.text):
        metadata.setdefault("language", language)
    if walk.title:
        metadata.setdefault("title", walk.title)
    if word.warnings:
        metadata["warning"] = "; ".join(word.warnings[:5])
    yield parsed
    yield from word.members(walk.embedded)


class _Walk:
    """One pass over the document. What opens an element may answer True: what is in it is not looked at."""

    def __init__(self, word: Word, options: Mapping[str, object]) -> None:
        self.word, self.flow, self.options = word, Flow(), options
        self.title = ""
        self.embedded: list[str] = []
        self.style = PLAIN
        self.font, self.typed = "", False
        self.fields: list[bool] = []  # per open field: whether its code, not its result, is being read
        self.tables: list[Table | None] = []  # None for one that is layout, or inside another
        self.joined: list[str] = []  # of a paragraph whose end was deleted: the next one goes on with it
        self.styles: list[tuple[Style, str, bool]] = []  # of the open paragraphs: style, its id, joined with the next?
        self.page: int | None = 1 if next(word.root.iter(W + "lastRenderedPageBreak"), None) is not None else None
        self.broken = False  # a page break that Word's own mark will repeat
        self.figure: Figure | None = None  # of the drawing being read, if its author described it
        self.notes = {kind: self._notes(f"{kind}s") for kind in ("footnote", "endnote", "comment")}
        self.numbers: dict[str, dict[str, str]] = {"footnote": {}, "endnote": {}}
        self.is_aside = False
        self.enter = self._enters()
        self.leave: dict[str, Callable[[etree._Element], None]] = {
            W + "p": self.end_paragraph,
            W + "tbl": self.end_table,
            W + "tc": self.end_cell,
            W + "tr": self.end_row,
            _M + "oMathPara": self.displayed,
        }

    def _enters(self) -> dict[str, Callable[[etree._Element], bool | None]]:
        found: dict[str, Callable[[etree._Element], bool | None]] = {W + name: _skip for name in _SKIPPED}
        return found | {
            **{W + name: self.space for name in _SPACES},
            W + "p": self.paragraph,
            W + "r": self.run_of_text,
            W + "t": lambda e: self.say(e.text or ""),
            W + "br": self.line_break,
            W + "lastRenderedPageBreak": self.rendered,
            W + "sym": lambda e: self.say(symbol(_hex(e.get(W + "char", "")), e.get(W + "font", ""))),
            W + "fldChar": self.field,
            W + "tbl": self.begin_table,
            W + "tr": self.begin_row,
            W + "tc": self.begin_cell,
            W + "sdt": self.control,
            W + "footnoteReference": lambda e: self.note("footnote", e),
            W + "endnoteReference": lambda e: self.note("endnote", e),
            W + "commentReference": self.comment,
            W + "altChunk": lambda e: self.embedded.append(e.get(_R + "id", "")),
            _M + "oMath": self.equation,
            _M + "oMathPara": self.displayed,
            _MC + "Choice": lambda e: e.getprevious() is not None,
            _MC + "Fallback": lambda e: e.getprevious() is not None,
            _WP + "docPr": self.described,
            _A + "blip": lambda e: self.picture(e.get(_R + "embed", "")),
            _V + "shape": self.described,
            _V + "imagedata": lambda e: self.picture(e.get(_R + "id", "")),
            _V + "textpath": self.word_art,
            _O + "OLEObject": self.ole,
            _DGM + "relIds": lambda e: self.diagram(e.get(_R + "dm", "")),
            _C + "chart": lambda e: self.diagram(e.get(_R + "id", "")),
        }

    def run(self, root: etree._Element) -> None:
        """Visit what is below the root, in document order."""
        walk, enter, leave = steps(root), self.enter, self.leave
        for event, element in walk:
            if event == "start":
                act = enter.get(element.tag)
                if act is not None and act(element) and element is not root:
                    walk.skip_subtree()
            elif (end := leave.get(element.tag)) is not None:
                end(element)
        self.flush_joined()

    def say(self, words: str) -> None:
        """Words of the open paragraph."""
        if words and not any(self.fields):
            self.broken = False
            self.flow.say(words.replace("\xad", ""), self.page)
            if not self.typed and self.flow.text is not None and not words.isspace():
                self.flow.text.typed = False

    # Paragraphs

    def paragraph(self, element: etree._Element) -> None:
        """A paragraph begins: its style and its own properties say what it is."""
        style, id, ends = PLAIN, "", False
        properties = element.find(W + "pPr")
        if properties is not None:
            found = properties.find(W + "pStyle")
            id = "" if found is None else found.get(VAL, "")
            style = outlined(self.word.styles[id], properties)
            numbers = properties.find(W + "numPr")
            if numbers is not None:
                style = _numbered(style, numbers)
            mark = properties.find(W + "rPr")
            ends = mark is not None and any(mark.find(W + name) is not None for name in ("del", "moveFrom"))
        self.style = style
        self.styles.append((style, id, ends))
        self.flow.open.append(Text(kind=style.kind, level=style.level, parts=self.joined, page=self.page))
        self.joined = []

    def end_paragraph(self, element: etree._Element) -> None:
        """The paragraph is complete."""
        text = self.flow.text
        if text is None or not self.styles:
            return
        style, id, joins = self.styles.pop()
        self.fields = [code for code in self.fields if not code]
        self.style = self.styles[-1][0] if self.styles else PLAIN
        if style.contents:
            text.parts = []
        words = "".join(text.parts)
        if joins:
            self.joined, text.parts = text.parts, []
        elif style.numbering not in ("", "0"):
            text.mark, depth = self.word.numbering.label(style.numbering, style.depth, id)
            text.depth = max(depth, style.nested)
        elif style.hangs and self.flow.in_list:
            text.depth = max(style.depth, style.nested, 0)
        if text.depth >= 0 and not text.mark and not self.flow.in_list:
            text.depth = -1
        if text.kind == "paragraph" and text.depth < 0 and not self.word.styles.typed and is_code(text, self.flow.in_code):
            text.kind = "code"
        if style.title and not self.title and not self.is_aside:
            self.title = " ".join(words.split())
        self.flow.end()

    def flush_joined(self) -> None:
        """What should have gone on in a next paragraph, and there was none."""
        if self.joined:
            joined, self.joined = self.joined, []
            self.flow.place(Text(parts=joined, page=self.page))

    def run_of_text(self, element: etree._Element) -> bool | None:
        """A run begins; a hidden one is not looked at."""
        properties = element.find(W + "rPr")
        hidden, self.font = self.style.hidden, self.style.font
        if properties is not None:
            found = properties.find(W + "rStyle")
            if found is not None:
                style = self.word.styles[found.get(VAL, "")]
                hidden, self.font = hidden or style.hidden, style.font or self.font
            said = switched(properties, "vanish")
            hidden, self.font = hidden if said is None else said, fonts(properties) or self.font
        self.typed = is_typewriter(self.font)
        if is_symbolic(self.font) and not hidden:
            for text in element.iterfind(W + "t"):
                text.text = in_symbols(text.text or "", self.font)
        return hidden

    def space(self, element: etree._Element) -> None:
        """An element that stands for a character."""
        self.say(_SPACES[local(element)])

    def line_break(self, element: etree._Element) -> None:
        """A break of line, column or page."""
        self.say("\n")
        if element.get(W + "type") == "page" and self.page is not None:
            self.page += 1
            self.broken = True

    def rendered(self, element: etree._Element) -> None:
        """Where a page began when Word last laid the document out."""
        if self.page is not None and not self.broken:
            self.page += 1
        self.broken = False

    def field(self, element: etree._Element) -> None:
        """A field: its code is not text, its result is; old form fields have none but a state."""
        kind = element.get(W + "fldCharType")
        if kind == "begin":
            self.say(_form_field(element))
            self.fields.append(True)
        elif kind == "separate" and self.fields:
            self.fields[-1] = False
        elif kind == "end" and self.fields:
            self.fields.pop()

    def control(self, element: etree._Element) -> bool:
        """A content control; a table of contents is one that is left out."""
        gallery = element.find(f"{W}sdtPr/{W}docPartObj/{W}docPartGallery")
        return gallery is not None and gallery.get(VAL) == "Table of Contents"

    def equation(self, element: etree._Element) -> bool:
        """An equation is a line of text."""
        self.say(linear(element))
        return True

    def displayed(self, element: etree._Element) -> None:
        """Equations that stand on lines of their own."""
        self.say("\n")

    # Tables

    def begin_table(self, element: etree._Element) -> None:
        """A table that is not layout becomes a table; one inside another, part of its cell."""
        outer = self.flow.table
        if outer is not None:
            outer.inner += 1
        found = None if outer is not None or _is_layout(element, self.word.styles) else Table(self.page)
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
        """A row; a deleted one is not looked at."""
        properties = element.find(W + "trPr")
        if properties is None:
            return False
        before = properties.find(W + "gridBefore")
        if before is not None and self._in_own_cell():
            for _ in range(min(_SPANS, whole(before.get(VAL, ""), 0))):
                self.flow.end_cell()
        return properties.find(W + "del") is not None

    def begin_cell(self, element: etree._Element) -> bool:
        """A cell; what continues one above, or was deleted, is empty."""
        properties = element.find(W + "tcPr")
        if properties is None:
            return False
        merged = (properties.find(W + name) for name in ("vMerge", "hMerge"))
        return properties.find(W + "cellDel") is not None or any(
            m is not None and m.get(VAL, "continue") == "continue" for m in merged
        )

    def end_cell(self, element: etree._Element) -> None:
        """The cell is complete, with an empty place for each further column it covers."""
        self.flush_joined()
        if self._in_own_cell():
            span = element.find(f"{W}tcPr/{W}gridSpan")
            self.flow.end_cell(max(1, min(_SPANS, whole("" if span is None else span.get(VAL, ""), 1))))

    def end_row(self, element: etree._Element) -> None:
        """The row is complete."""
        if self._in_own_cell():
            self.flow.end_row()

    def _in_own_cell(self) -> bool:
        return self.flow.table is not None and not self.flow.table.inner

    # Notes

    def note(self, kind: str, element: etree._Element) -> None:
        """A footnote or endnote: its number here, its text after the block; a mark of the author's own stands in the text."""
        id = element.get(W + "id", "")
        if self.is_aside or any(self.fields):
            return
        first = id not in self.numbers[kind]
        if first:
            self.numbers[kind][id] = numeral(len(self.numbers[kind]) + 1, "lowerRoman" if kind == "endnote" else "decimal")
        number = self.numbers[kind][id]
        own = element.get(W + "customMarkFollows", "0") not in ("0", "false", "off")
        if not own:
            self.say(f"[{number}]")
        if first and id in self.notes[kind]:
            text = self.aside(self.notes[kind][id])
            self.flow.note(text if own else f"[{number}] {text}")

    def comment(self, element: etree._Element) -> None:
        """A comment, after the block it is about, where comments are asked for."""
        found = self.notes["comment"].get(element.get(W + "id", ""))
        if found is not None and not self.is_aside and self.options.get("comments"):
            self.flow.note(f"[{found.get(W + 'author', 'comment')}: {self.aside(found)}]")

    def aside(self, root: etree._Element) -> str:
        """The text of a note, a header or a footer, a line per paragraph."""
        outer = self.flow, self.style, self.styles, self.fields, self.tables, self.joined, self.is_aside, self.page, self.broken
        self.flow, self.styles, self.fields, self.tables, self.joined, self.is_aside = Flow(), [], [], [], [], True
        box = Table()
        self.flow.open.append(box)
        self.run(root)
        self.flow, self.style, self.styles, self.fields, self.tables, self.joined, self.is_aside, self.page, self.broken = outer
        return "\n".join(box.cell)

    def _notes(self, type: str) -> dict[str, etree._Element]:
        root = self.word.part(type) if type != "comments" or self.options.get("comments") else None
        return {} if root is None else {note.get(W + "id", ""): note for note in root}

    # Pictures

    def described(self, element: etree._Element) -> None:
        """What a drawing's author said of it becomes a figure."""
        words = element.get("descr") or element.get("alt") or ""
        decorative = element.find(".//{*}decorative")
        hidden = decorative is not None and decorative.get("val") in ("1", "true")
        self.figure = Figure(words, self.page) if words.strip() and not hidden else None
        if self.figure:
            self.flow.place(self.figure)

    def picture(self, id: str) -> None:
        """The bytes of a picture, where images are asked for."""
        if not self.options.get("images") or id not in self.word.relations:
            return
        if self.figure is None or self.figure.png:
            self.flow.place(Figure("", self.page, lambda: png(self.word.bytes(id))))
        else:
            self.figure.png = lambda: png(self.word.bytes(id))

    def word_art(self, element: etree._Element) -> None:
        """Text drawn as a shape."""
        self.flow.place(Text(parts=[element.get("string", "")], page=self.page))

    def diagram(self, id: str) -> None:
        """What stands in a chart or a diagram (SmartArt), as a figure."""
        root = self.word.related(id)
        if root is not None:
            self.flow.place(Figure(", ".join(_drawn(root)), self.page))

    def ole(self, element: etree._Element) -> None:
        """An embedded office file."""
        id = element.get(_R + "id", "")
        if id in self.word.relations and self.word.relations[id].type == "package":
            self.embedded.append(id)


def _numbered(style: Style, numbers: etree._Element) -> Style:
    """The style, with the list that the paragraph itself names."""
    id, depth = numbers.find(W + "numId"), numbers.find(W + "ilvl")
    return style._replace(
        numbering=style.numbering if id is None else id.get(VAL, ""),
        depth=style.depth if depth is None else whole(depth.get(VAL, ""), style.depth),
    )


def _skip(element: etree._Element) -> bool:
    return True


def _hex(digits: str) -> int:
    try:
        return int(digits[:8], 16)
    except ValueError:
        return 0


def _is_layout(table: etree._Element, styles: Styles) -> bool:
    """Whether the table is a frame around text: one cell, or a cell with a heading and something under it."""
    cells = table.findall(f"{W}tr/{W}tc")
    return len(cells) == 1 or any(_is_headed(cell.findall(W + "p"), styles) for cell in cells)


def _is_headed(paragraphs: list[etree._Element], styles: Styles) -> bool:
    if len(paragraphs) < 2:
        return False
    found = (p.find(f"{W}pPr/{W}pStyle") for p in paragraphs)
    return any(style is not None and styles[style.get(VAL, "")].level for style in found)


def _form_field(element: etree._Element) -> str:
    """What an old form field shows: a box, ticked or not, or the choice made."""
    box = element.find(f"{W}ffData/{W}checkBox")
    if box is not None:
        states = [state for state in (switched(box, "checked"), switched(box, "default")) if state is not None]
        return "☒" if states and states[0] else "☐"
    drop = element.find(f"{W}ffData/{W}ddList")
    if drop is None:
        return ""
    chosen, entries = drop.find(W + "result"), drop.findall(W + "listEntry")
    at = 0 if chosen is None else whole(chosen.get(VAL, ""), 0)
    return entries[at].get(VAL, "") if at < len(entries) else ""


def _drawn(root: etree._Element) -> Iterator[str]:
    """The words of a diagram; of a chart its titles, and each series with its values by category."""
    for paragraph in root.iter(_A + "p"):
        if words := "".join(t.text or "" for t in paragraph.iter(_A + "t")).strip():
            yield words
    for series in root.iter(_C + "ser"):
        names, categories, values = (
            [v.text or "" for v in series.iterfind(f"{_C}{part}//{_C}v")] for part in ("tx", "cat", "val")
        )
        if values:
            pairs = zip(categories + [""] * (len(values) - len(categories)), values, strict=False)
            yield f"{' '.join(names)}: " + ", ".join(f"{category} {value}".strip() for category, value in pairs)
