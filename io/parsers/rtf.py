"""Rich Text Format, read by a small tokenizer of our own: the one living library (striprtf) gives text without structure.

Characters come from the code page of the document or of their font, and from `\\u`. Headings are paragraphs whose style is a
heading or that have an outline level; lists carry the labels their writer has left beside them; tables come from `\\cell` and
`\\row`. Hidden and deleted text, tables of contents, pictures and comments are left out, headers and footers are metadata;
footnotes stand as `[1] …` after the block that refers to them; fields give their result.
"""

from __future__ import annotations

import codecs
import locale
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.limits import limits
from chunkmill.io.parsers.office import Flow, Table, Text, in_symbols, is_code, is_symbolic, is_typewriter, role
from chunkmill.io.parsers.text import decode, mend

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\(\r\n|.)|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)|\\", re.S
)
_BRACE = re.compile(r"[{}]|\\(?:bin(\d{1,10})[ ]?|.)", re.S)
_ODD = re.compile(r"\\'[89a-fA-F]|[\x80-\xff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 78: "cp932", 80: "gb18030", 81: "big5", 128: "cp932", 129: "cp949", 130: "johab",
    134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
_CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "column": "\n", "page": "\n", "emdash": "—", "endash": "–", "bullet": "•",
    "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": "\u2003", "enspace": "\u2002",
    "qmspace": "\u2005", "zwj": "\u200d", "zwnj": "\u200c", "ltrmark": "\u200e", "rtlmark": "\u200f",
}  # fmt: skip
_SIGNS = {"~": "\xa0", "_": "-", "-": "", "\t": "\t", "\\": "\\", "{": "{", "}": "}"}
_SKIPPED_NAMES = (
    "colortbl filetbl revtbl pict object annotation atnid atnauthor themedata colorschememapping datastore latentstyles "
    "fldinst datafield bkmkstart bkmkend xe tc tcn rxe listtable listoverridetable listpicture rsidtbl generator ftnsep "
    "ftnsepc ftncn aftnsep aftnsepc aftncn nonshppict sp shprslt template private pgptbl pnseclvl passwordhash "
    "nesttableprops nonesttables userprops "
)
_SKIPPED = frozenset(_SKIPPED_NAMES.split())
_THROUGH = frozenset(("rtf", "ud", "shpinst", "moMath", "moMathPara", "mmath"))  # starred, and yet to be read
_MARGINS = {f"{kind}{side}": kind for kind in ("header", "footer") for side in ("", "l", "r", "f")}
_INFO = {"title": "title", "author": "author", "subject": "subject", "keywords": "keywords", "doccomm": "description"}
_DATES = {"yr": 0, "mo": 1, "dy": 2, "hr": 3, "min": 4}
_LABELLED = re.compile(r"\s*(\S{1,8})\t")
_MARGIN = 500
_BODY = 9
_STEP = 360  # twips by which writers indent a level of a list


class _State(NamedTuple):
    """What a group may change, and its end sets back. `to`: where words go ("" nowhere)."""

    to: str = "body"
    skip: int = 1  # how many characters stand in for one given by \\u
    font: str = ""
    hidden: bool = False


class _Font(NamedTuple):
    name: str = ""
    charset: int = 1
    page: str = ""  # of its own; "" for what its charset says


class _Format(NamedTuple):
    """What `\\pard` sets back. `level`: 0 is what the style says, -1 none."""

    style: str = "0"
    level: int = 0
    depth: int = 0
    indent: int = 0
    hangs: bool = False
    in_table: bool = False


class _Named(NamedTuple):
    name: str = ""
    level: int = 0
    base: str = ""


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The one document of the file."""
    source = data.decode("latin-1")
    reader = _Reader(source, _code_page(source))
    reader.read()
    yield reader.document()


def _code_page(source: str) -> str:
    """The code page of the document; where it names none, the one its bytes look like."""
    head = source[:4096]
    if (found := re.search(r"\\ansicpg(\d{1,6})", head)) and (codec := _codec(int(found[1]))):
        return codec
    if found := re.search(r"\\(mac|pca|pc)(?![a-zA-Z])", head):
        return _PAGES[found[1]]
    odd = "\n".join(line for line in source[: 1 << 20].split("\n") if _ODD.search(line))
    if not odd:
        return "cp1252"
    try:
        return decode(re.sub(r"\\'([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), odd).encode("latin-1"))[1]["encoding"]
    except DocumentError:
        return "cp1252"


def _codec(page: int) -> str:
    name = {10000: "mac_roman", 936: "gb18030", 65001: "utf-8", 1361: "johab"}.get(page, f"cp{page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return ""


class _Reader:
    """One pass over the tokens. `state` is that of the innermost group, `format` that of the paragraph."""

    def __init__(self, source: str, page: str) -> None:
        self.source, self.page = source, page
        self.state, self.format = _State(), _Format()
        self.stack: list[tuple[_State, _Format]] = []
        self.octets, self.octets_page, self.octets_font = bytearray(), page, ""  # characters still to be decoded
        self.pending = 0  # stand-ins still to be passed over
        self.starred = self.skips_next = False
        self.captures: list[list[str]] = []  # words of what is not the body, by open destination
        self.flow, self.text = Flow(), Text()
        self.outer: list[tuple[Text, _Format, bool]] = []  # what a text box interrupts
        self.row_begun = False
        self.label = ""
        self.notes, self.numbered = 0, False
        self.fonts: dict[str, _Font] = {}
        self.font, self.default_font, self.charsets = "", "", set[int]()
        self.styles: dict[str, _Named] = {}
        self.named, self.key = _Named(), "0"
        self.metadata: dict[str, str] = {}
        self.margins: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
        self.date = [0] * 5
        self.title, self.repaired, self.whole = "", 0, False
        self.words: dict[str, Callable[[int | None], None]] = self._words()
        self.begins: dict[str, Callable[[str], None]] = self._destinations()
        self.ends: dict[str, Callable[[str], None]] = {
            "note": self.end_note, "label": self.end_label, "box": self.end_box, "style": self.end_style, "font": self.end_font,
            "margin": self.end_margin, "property": self.end_property, "created": self.end_date, "revised": self.end_date,
        }  # fmt: skip
        self.about: list[str] = []  # what the open margins and properties are

    def read(self) -> None:
        """All tokens in turn."""
        at, source = 0, self.source
        while at < len(source) and not self.whole:
            token = _TOKEN.match(source, at)
            if token is None:
                break
            at = token.end()
            if token[6]:
                self.run(token[6])
            elif token[1]:
                at = self.control(token[1], token[2], at)
            elif token[3]:
                self.octet(int(token[3], 16))
            elif token[5]:
                at = self.brace(token[5], at)
            elif token[4]:
                self.sign(token[4])

    def document(self) -> Parsed:
        """What was read."""
        for _ in range(len(self.stack)):
            self.close()
        self.end_paragraph()
        metadata = self.metadata | {kind: " / ".join(said)[:_MARGIN] for kind, said in self.margins.items() if said}
        if self.title:
            metadata.setdefault("title", self.title)
        if self.repaired:
            metadata["repaired"] = str(self.repaired)
        if not self.whole:
            metadata["warning"] = "the file ends inside a group: what follows is lost"
        return self.flow.document({key: mend(value)[0] for key, value in metadata.items() if value})

    # Groups

    def brace(self, brace: str, at: int) -> int:
        """A group begins or ends."""
        self.pending = 0
        if brace == "}":
            self.close()
            self.whole = not self.stack
            return at
        if len(self.stack) >= limits().nesting:
            raise DocumentError("too_deep", f"the RTF file nests deeper than {limits().nesting} groups")
        self.stack.append((self.state, self.format))
        if self.skips_next:
            self.skips_next = False
            return self.skip(at)
        return at

    def close(self) -> None:
        """The innermost group ends, and what it was for with it."""
        if not self.stack:
            return
        self.starred = self.skips_next = False
        inner, outer = self.state, self.stack[-1][0]
        if inner.to != outer.to:
            self.flush()
            self.leave(inner.to)
        self.state, self.format = self.stack.pop()

    def leave(self, to: str) -> None:
        """A destination is complete."""
        if (end := self.ends.get(to)) is not None:
            if to == "box":
                end("")
            else:
                end(mend("".join(self.captures.pop()))[0] if self.captures else "")

    def skip(self, at: int) -> int:
        """Where the innermost group's closing brace stands."""
        depth = 1
        while found := _BRACE.search(self.source, at):
            at = found.end() + (int(found[1]) if found[1] else 0)
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if not depth:
                return at - 1
        return len(self.source)

    # Tokens

    def control(self, word: str, digits: str | None, at: int) -> int:
        """A control word; it may say what its group is for."""
        starred, self.starred = self.starred, False
        value = int(digits) if digits else None
        if word == "bin":
            return at + max(0, value or 0)
        if word == "u" and value is not None:
            self.unicode(value)
        elif word in _CHARACTERS:
            if self.pending:
                self.pending -= 1
            else:
                self.say(_CHARACTERS[word])
        elif word in _SKIPPED or (word[:1] == "m" and word.endswith("Pr")):
            return self.skip(at)
        elif (begin := self.begins.get(word)) is not None:
            begin(word)
        elif (act := self.words.get(word)) is not None and not starred:
            self.pending = 0
            act(value)
        elif starred and word not in _THROUGH:
            return self.skip(at)
        return at

    def sign(self, sign: str) -> None:
        """A control symbol."""
        if sign == "*":
            self.starred = True
        elif sign in ("\n", "\r", "\r\n"):
            self.end_line(None)
        elif self.pending:
            self.pending -= 1
        else:
            self.say(_SIGNS.get(sign, ""))

    def run(self, run: str) -> None:
        """Plain characters."""
        passed = min(self.pending, len(run))
        self.pending -= passed
        if passed < len(run) and self.state.to and not self.state.hidden:
            self.add(run[passed:].encode("latin-1"))

    def octet(self, value: int) -> None:
        """A character given as the number of its byte."""
        if self.pending:
            self.pending -= 1
        elif self.state.to and not self.state.hidden:
            self.add(bytes((value,)))

    def unicode(self, value: int) -> None:
        """A character given as its code point, and how many that stand in for it follow."""
        code = value + 0x10000 if value < 0 else value
        self.say(chr(code) if 0 < code < 0x110000 else "\ufffd")
        self.pending = self.state.skip

    def add(self, octets: bytes) -> None:
        """Bytes in the code page of the font: characters may take two of them."""
        page, font = self._page(), self.state.font
        if page != self.octets_page or font != self.octets_font:
            self.flush()
            self.octets_page, self.octets_font = page, font
        self.octets += octets

    def flush(self) -> None:
        """Decode what is waiting."""
        if self.octets:
            words = self.octets.decode(self.octets_page, "replace")
            self.octets.clear()
            self.repaired += words.count("\ufffd")
            self._put(words, self.octets_font)

    def say(self, words: str) -> None:
        """Words where the group's words go."""
        self.flush()
        if words and self.state.to and not self.state.hidden:
            self._put(words, self.state.font)

    def _put(self, words: str, id: str) -> None:
        font = self.fonts.get(id or self.default_font, _Font())
        if is_symbolic(font.name) or font.charset == 2:
            words = in_symbols(words, font.name)
        if self.captures and self.state.to not in ("body", "box"):
            self.captures[-1].append(words)
            if self.state.to == "font" and ";" in words:
                self.end_font("".join(self.captures[-1]))
                self.captures[-1].clear()
        elif self.state.to in ("body", "box"):
            self.text.parts.append(words)
            self.text.typed = self.text.typed and (is_typewriter(font.name) or words.isspace())

    def _page(self) -> str:
        """The code page of the font. Charset 0 is what the document says, unless its fonts tell charsets apart."""
        font = self.fonts.get(self.state.font or self.default_font, _Font())
        if font.charset == 2:
            return "latin-1"
        if font.page or self.state.to == "font":
            return font.page or self.page
        if font.charset == 0 and self.charsets <= {0, 1, 2}:
            return self.page
        return _CHARSETS.get(font.charset, self.page)

    # Destinations

    def _destinations(self) -> dict[str, Callable[[str], None]]:
        return {
            "fonttbl": lambda _: self.capture("font"),
            "stylesheet": lambda _: self.divert("styles"),
            "info": lambda _: self.divert("info"),
            "footnote": self.begin_note,
            "listtext": self.begin_label,
            "pntext": self.begin_label,
            "shptxt": self.begin_box,
            "creatim": lambda _: self.capture("created"),
            "revtim": lambda _: self.capture("revised"),
            "upr": self.begin_upr,
            **dict.fromkeys(_MARGINS, self.begin_margin),
            **dict.fromkeys(_INFO, self.begin_property),
        }

    def divert(self, to: str) -> None:
        """The group's words go there."""
        self.flush()
        self.state = self.state._replace(to=to)

    def capture(self, to: str) -> None:
        """The group's words are collected."""
        if self.state.to == to:
            return
        self.divert(to)
        self.captures.append([])

    def begin_upr(self, word: str) -> None:
        """The same text twice: the first is for readers without Unicode."""
        self.skips_next = True

    def begin_note(self, word: str) -> None:
        """A footnote."""
        if self.state.to in ("body", "box"):
            self.capture("note")
            self.state = self.state._replace(hidden=False)

    def end_note(self, text: str) -> None:
        """The note, under its number."""
        self.flow.note(f"[{self.notes}] {text.strip()}" if self.numbered else text)
        self.numbered = False

    def begin_label(self, word: str) -> None:
        """The label of a list item, as its writer has shown it."""
        self.capture("label")

    def end_label(self, text: str) -> None:
        """Anything without letters and digits is a bullet."""
        label = " ".join(text.split())
        if self.stack and self.stack[-1][0].to in ("body", "box"):
            self.label = label if any(map(str.isalnum, label)) else "-"

    def begin_box(self, word: str) -> None:
        """A text box: its paragraphs follow the one it hangs on."""
        if self.state.to != "body":
            return
        self.divert("box")
        self.outer.append((self.text, self.format, self.row_begun))
        self.flow.open.append(self.text)
        self.text, self.format, self.row_begun = Text(), _Format(), False

    def end_box(self, text: str) -> None:
        """The text box is complete."""
        self.end_paragraph()
        if not self.outer:
            return
        self.text, self.format, self.row_begun = self.outer.pop()
        while self.flow.open and self.flow.open[-1] is not self.text:
            self.flow.end()
        self.flow.open.pop()

    def begin_margin(self, word: str) -> None:
        """A header or footer."""
        if self.state.to == "body":
            self.about.append(_MARGINS[word])
            self.capture("margin")

    def end_margin(self, text: str) -> None:
        """Kept once, if there is a word in it."""
        if any(map(str.isalpha, text)):
            self.margins[self.about.pop()][" ".join(text.split())] = None

    def begin_property(self, word: str) -> None:
        """A property of the document."""
        if self.state.to == "info":
            self.about.append(_INFO[word])
            self.capture("property")

    def end_property(self, text: str) -> None:
        """Kept as metadata."""
        self.metadata[self.about.pop()] = " ".join(text.split())

    def end_date(self, text: str) -> None:
        """The last change, else the making, as the document's date."""
        year, month, day, hour, minute = self.date
        if year and month and day:
            self.metadata["date"] = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00"
        self.date = [0] * 5

    def end_font(self, text: str) -> None:
        """A font of the table; its name ends with a semicolon."""
        name = text.split(";")[0].strip()
        if self.font and name:
            self.fonts[self.font] = self.fonts.get(self.font, _Font())._replace(name=name)

    def end_style(self, text: str) -> None:
        """A style of the sheet."""
        self.styles[self.key] = self.named._replace(name=text.split(";")[0].split(",")[0].strip())

    # Words

    def _words(self) -> dict[str, Callable[[int | None], None]]:
        return {
            "par": self.end_line,
            "sect": self.end_line,
            "cell": self.end_cell,
            "nestcell": self.end_line,
            "nestrow": self.end_line,
            "row": self.end_row,
            "trowd": lambda _: self.begin_row(),
            "pard": lambda _: self.reset(),
            "plain": lambda _: self._set(hidden=False, font=""),
            "s": self.styled,
            "outlinelevel": self.outlined,
            "sbasedon": lambda n: self._name(base=str(n)),
            "ilvl": lambda n: self._form(depth=min(8, n or 0)),
            "li": lambda n: self._form(indent=n or 0),
            "fi": lambda n: self._form(hangs=(n or 0) < 0),
            "intbl": lambda _: self._form(in_table=True),
            "f": self.in_font,
            "deff": lambda n: setattr(self, "default_font", str(n)),
            "fcharset": self.in_charset,
            "cpg": self.in_page,
            "uc": lambda n: self._set(skip=max(0, min(9, 1 if n is None else n))),
            "v": lambda n: self._set(hidden=n != 0),
            "deleted": lambda n: self._set(hidden=n != 0),
            "chftn": lambda _: self.numbered_note(),
            "deflang": self.in_language,
            **{word: partial(self._date, at) for word, at in _DATES.items()},
        }

    def _set(self, **changes: object) -> None:
        self.state = self.state._replace(**changes)  # type: ignore[arg-type]  # each name as its field asks

    def _form(self, **changes: object) -> None:
        if self.state.to in ("body", "box"):
            self.format = self.format._replace(**changes)  # type: ignore[arg-type]  # as above

    def _name(self, **changes: object) -> None:
        self.named = self.named._replace(**changes)  # type: ignore[arg-type]  # as above

    def _date(self, at: int, value: int | None) -> None:
        self.date[at] = min(9999, max(0, value or 0))

    def reset(self) -> None:
        """The paragraph's format is set back."""
        if self.state.to in ("body", "box"):
            self.format = _Format()

    def styled(self, number: int | None) -> None:
        """The style of the paragraph; in the style sheet, the one to be named."""
        if self.state.to == "styles":
            self.capture("style")
            self.named, self.key = _Named(), str(number)
        elif self.state.to in ("body", "box"):
            self._form(style=str(number))

    def outlined(self, number: int | None) -> None:
        """The outline level of the paragraph or of the style."""
        level = -1 if number is None or not 0 <= number < _BODY else number + 1
        if self.state.to == "style":
            self._name(level=level)
        else:
            self._form(level=level)

    def in_font(self, number: int | None) -> None:
        """The font of the group; in the font table, the one to be named."""
        if self.state.to == "font":
            self.flush()
            self.font = str(number)
            self.fonts.setdefault(self.font, _Font())
        else:
            self._set(font=str(number))

    def in_charset(self, number: int | None) -> None:
        """What a font of the table is encoded in."""
        if self.state.to == "font" and self.font and number is not None:
            self.charsets.add(number)
            self.fonts[self.font] = self.fonts[self.font]._replace(charset=number)

    def in_page(self, number: int | None) -> None:
        """The same, as a code page."""
        if self.state.to == "font" and self.font and (page := _codec(number or 0)):
            self.fonts[self.font] = self.fonts[self.font]._replace(page=page)

    def in_language(self, number: int | None) -> None:
        """The language of the document."""
        if name := locale.windows_locale.get(number or 0):
            self.metadata["language"] = name.replace("_", "-")

    def numbered_note(self) -> None:
        """The number of the note that follows."""
        if self.state.to in ("body", "box"):
            self.notes += 1
            self.numbered = True
            self.say(f"[{self.notes}]")

    # Paragraphs and tables

    def end_line(self, _: int | None) -> None:
        """A paragraph ends; in a note or a margin, a line."""
        self.flush()
        if self.state.to in ("body", "box"):
            self.end_paragraph()
        elif self.captures:
            self.captures[-1].append("\n")

    def end_paragraph(self) -> None:
        """The paragraph is complete: into the cell, the text box or the document."""
        self.flush()
        in_table = self.format.in_table or self.row_begun
        if in_table and self.flow.table is None:
            self.flow.open.append(Table())
        elif not in_table and self.flow.table is not None:
            self.flow.end()
        text, self.text = self.text, Text()
        self.flow.place(self._formatted(text))
        self.label = ""

    def _formatted(self, text: Text) -> Text:
        """The paragraph as its style and format say."""
        words, lone = mend("".join(text.parts))
        self.repaired += lone
        text.parts = [_CONTROLS.sub("", words)]
        style = self.styles.get(self.format.style, _Named())
        found = role(style.name)
        level = self.format.level or self._level(self.format.style)
        if found.contents:
            text.parts = []
        text.kind, text.level = ("heading", level) if level > 0 else (found.kind if found.kind != "heading" else "paragraph", 0)
        self._labelled(text)
        if text.kind == "paragraph" and text.depth < 0 and self._may_be_code() and is_code(text, self.flow.in_code):
            text.kind = "code"
        if found.title and not self.title:
            self.title = " ".join(words.split())
        return text

    def _may_be_code(self) -> bool:
        return not is_typewriter(self.fonts.get(self.default_font, _Font()).name)

    def _labelled(self, text: Text) -> None:
        """Its label: given beside it, or written in front of a hanging paragraph."""
        depth = self.format.depth
        if not self.label and self.format.hangs and (found := _LABELLED.match(text.parts[0])):
            label = found[1]
            if not any(map(str.isalnum, label)) or label[-1] in ".)":
                self.label = label if any(map(str.isalnum, label)) else "-"
                text.parts = [text.parts[0][found.end() :]]
                depth = min(8, max(0, self.format.indent // _STEP - 1))
        if self.label and text.kind != "heading":
            text.mark, text.depth = self.label, depth
        elif text.kind == "heading" and self.label != "-":
            text.mark = self.label

    def _level(self, key: str) -> int:
        """A style's outline level, its own or of what it is based on; 0 for none."""
        for _ in range(20):
            style = self.styles.get(key)
            if style is None:
                return 0
            if found := style.level or role(style.name).level:
                return found
            key = style.base
        return 0

    def begin_row(self) -> None:
        """A row of a table is described; its cells follow, or came before."""
        if self.state.to in ("body", "box"):
            self.row_begun = True

    def end_cell(self, _: int | None) -> None:
        """A cell is complete."""
        if self.state.to not in ("body", "box"):
            return
        self.row_begun = True
        self.end_paragraph()
        self.flow.end_cell()

    def end_row(self, _: int | None) -> None:
        """A row is complete."""
        if self.state.to not in ("body", "box"):
            return
        if "".join(self.text.parts).strip() or self.octets:
            self.end_cell(None)
        self.flow.end_row()
        self.row_begun = False
