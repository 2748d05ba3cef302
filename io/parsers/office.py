"""What word processors have in common: paragraphs, list items, tables, notes and figures in reading order → canonical text.

A list, a quote or code goes on for as long as its paragraphs follow each other. A table is one line per row, a cell one
piece of that line: what stands inside it (paragraphs, lists, inner tables, alternative texts) is joined by spaces, and
a merged cell has its text once and empty places for the rest. What is anchored in a paragraph (text boxes, figures)
follows it; notes follow the block that refers to them, so that they stay under its heading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from lxml import etree

from chunkmill.chunkers.base import Kind, Span
from chunkmill.io.parsers import Image, Parsed
from chunkmill.io.parsers.text import Canonical

HEADING_LIMIT = 300  # characters: a longer "heading" is a clause that borrows the style for its number
_INDENT = 8
_HEADING_WORDS = (
    "heading überschrift titre título titulo titolo titlu kop rubrik overskrift otsikko nadpis nagłówek naglowek naslov "
    "antraštė címsor cimsor başlık baslik заголовок επικεφαλίδα כותרת عنوان 标题 標題 見出し 제목 judul virsraksts pealkiri"
)
_HEADING = re.compile(rf"(?:{'|'.join(_HEADING_WORDS.split())})[ _]?([1-9])\Z", re.I)
_CONTENTS = re.compile(r"(?:toc|contents|verzeichnis|inhaltsverzeichnis)[ _](?:heading|\d\d?)\Z|table of figures\Z", re.I)
_CODE = re.compile(r"\bcode\b|source ?code|code ?block|preformatted|verbatim|\blistings?\Z|\bmacro\b", re.I)
_CODE_SIGNS = re.compile(r"[{}<>=;\[\]|\\$#*_]|\w\(|\):")
_MONOSPACED = re.compile(
    r"courier|consolas|\bmono|menlo|monaco|lucida (?:console|sans typewriter)|source code|fira code|inconsolata", re.I
)
_QUOTE = re.compile(r"quotations?\b|quote\b|zitat\b|citation\b|\bblock ?text\b", re.I)


class Role(NamedTuple):
    """What a paragraph is by the name of its style. `level` is that of a heading; `contents`: a line of a table of contents."""

    kind: Kind = "paragraph"
    level: int = 0
    title: bool = False
    contents: bool = False


@lru_cache(1024)
def role(style: str) -> Role:
    """The role a style's name gives, also in the languages whose Word or Writer translates the names."""
    name = style.strip()
    if found := _HEADING.match(name):
        return Role("heading", int(found[1]))
    if _CONTENTS.match(name):
        return Role(contents=True)
    kind: Kind = "quote" if _QUOTE.search(name) else "code" if _CODE.search(name) else "paragraph"
    return Role(kind, title=name.lower() in ("title", "titel", "titre", "título", "titolo", "название"))


@dataclass(slots=True)
class Text:
    """A paragraph under construction. `mark` is its number or bullet, `depth` that of its list (-1: in none)."""

    kind: Kind = "paragraph"
    level: int = 0
    mark: str = ""
    depth: int = -1
    page: int | None = None
    parts: list[str] = field(default_factory=list)
    typed: bool = True  # whether all of it is in a font for code
    inside: list[Text | Table | Figure] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    """A table under construction. `inner` counts the open tables inside it, which are flattened."""

    page: int | None = None
    rows: list[str] = field(default_factory=list)
    row: list[str] = field(default_factory=list)
    cell: list[str] = field(default_factory=list)
    inner: int = 0


@dataclass(slots=True)
class Figure:
    """A picture: its alternative text, and what gives its PNG bytes (b"" where there are none)."""

    text: str
    page: int | None = None
    png: Callable[[], bytes] | None = None


class Flow:
    """A document under construction: `open` holds the paragraphs and tables begun, the innermost last."""

    def __init__(self) -> None:
        self.open: list[Text | Table] = []
        self._out = Canonical()
        self._blocks = 0
        self._run: list[Text] = []  # paragraphs of the list, quote or code that may go on
        self._notes: list[str] = []  # to the run
        self._fresh: list[str] = []  # to what is open
        self._figures: list[tuple[Figure, int, bool]] = []

    @property
    def table(self) -> Table | None:
        """The table whose cell is being filled, if what is begun last is one."""
        top = self.open[-1] if self.open else None
        return top if isinstance(top, Table) else None

    @property
    def text(self) -> Text | None:
        """The paragraph being filled, if what is begun last is one."""
        top = self.open[-1] if self.open else None
        return top if isinstance(top, Text) else None

    @property
    def in_code(self) -> bool:
        """Whether the paragraph under construction stands right under code."""
        return len(self.open) <= 1 and bool(self._run) and self._run[-1].kind == "code"

    @property
    def in_list(self) -> bool:
        """Whether the paragraph under construction would go on a list."""
        return len(self.open) <= 1 and bool(self._run) and self._run[-1].depth >= 0

    def say(self, words: str, page: int | None = None) -> None:
        """Add words to the open paragraph; the first decide its page. What stands outside paragraphs is dropped."""
        top = self.text
        if top is None:
            return
        if not top.parts:
            top.page = page
        top.parts.append(words)

    def end(self) -> None:
        """The paragraph or table begun last is complete."""
        self.place(self.open.pop())

    def place(self, done: Text | Table | Figure) -> None:
        """Put it where it belongs: into the cell or after the paragraph it stands in, else into the document."""
        inner: list[Text | Table | Figure] = []
        if isinstance(done, Text):
            inner, done.inside = done.inside, []
        if (table := self.table) is not None:
            table.cell += filter(None, (_one_line(item) for item in [done, *inner]))
            for figure in (item for item in [done, *inner] if isinstance(item, Figure)):
                self._figures.append((figure, self._blocks, False))
        elif (host := self.text) is not None:
            host.inside += [done, *inner]
        else:
            for item in [done, *inner]:
                self._write(_demoted(item))

    def note(self, text: str) -> None:
        """A note to the block under construction."""
        if text.strip():
            self._fresh.append(text)

    def end_cell(self, spans: int = 1) -> None:
        """The open table's cell is complete; it covers `spans` columns."""
        if (table := self.table) is not None:
            table.row += [" ".join(table.cell), *[""] * (spans - 1)]
            table.cell = []

    def end_row(self) -> None:
        """The open table's row is complete."""
        if (table := self.table) is not None:
            if any(table.row):
                table.rows.append(" | ".join(table.row).strip())
            table.row = []

    @property
    def begun(self) -> bool:
        """Whether anything is written yet."""
        return self._blocks > 0 or bool(self._run)

    def interrupt(self) -> None:
        """What follows goes on nothing that stands before."""
        self._close()

    def document(self, metadata: dict[str, str]) -> Parsed:
        """The text, its blocks and its pictures."""
        while self.open:
            self.end()
        self._notes += self._fresh
        self._close()
        parsed = self._out.document(metadata)
        return parsed._replace(images=tuple(self._images(parsed)))

    def _write(self, item: Text | Table | Figure) -> None:
        """A block, or more of the run; the notes made in it wait for its end."""
        fresh, self._fresh = self._fresh, []
        written = self._run_on(item) if isinstance(item, Text) and self._runs(item) else self._block(item)
        if written:
            self._add_notes(fresh)
        else:
            self._notes += fresh

    def _runs(self, item: Text) -> bool:
        """Whether the paragraph goes on what stands before it, or may be gone on."""
        return item.kind != "heading" and (item.depth >= 0 or item.kind in ("quote", "code"))

    def _run_on(self, item: Text) -> bool:
        """Join the run, or begin one. False: the block is not written yet."""
        if self._run and _family(self._run[-1]) != _family(item):
            self._close()
        if _lines(item) or (self._run and item.kind == "code"):
            self._run.append(item)
        return False

    def _block(self, item: Text | Table | Figure) -> bool:
        """Write a block, unless there is nothing in it."""
        kind: Kind = "figure"
        level, title = 0, ""
        if isinstance(item, Figure):
            self._figures.append((item, self._blocks, bool(item.text.strip())))
            lines = list(filter(None, [" ".join(item.text.split())]))
        elif isinstance(item, Table):
            kind, lines = "table", item.rows
        else:
            kind, level, lines = item.kind, item.level, _lines(item)
            if kind == "heading":
                title = " ".join(" ".join(lines).split())
                lines = [f"{item.mark} {title}".strip()] if title else []
        if not lines:
            return False
        self._close()
        if isinstance(item, Figure):
            self._figures[-1] = (item, self._blocks, True)
        self._add(
            kind, lines, level=level, page=item.page, title=title, seams=list(range(len(lines))) if kind == "table" else None
        )
        return True

    def _close(self) -> None:
        """What could go on ends here: a block."""
        run, self._run = self._run, []
        if run:
            kind: Kind = "list" if run[0].depth >= 0 else run[0].kind
            lines, seams = _items(run) if kind == "list" else ([line for item in run for line in _lines(item) or [""]], [])
            while not lines[-1]:
                lines.pop()
            self._add(kind, lines, page=run[0].page, seams=seams)
        notes, self._notes = self._notes, []
        self._add_notes(notes)

    def _add_notes(self, notes: list[str]) -> None:
        for note in notes:
            self._add("paragraph", [line.strip() for line in note.split("\n") if line.strip()])

    def _add(
        self,
        kind: Kind,
        lines: list[str],
        *,
        level: int = 0,
        page: int | None = None,
        title: str = "",
        seams: list[int] | None = None,
    ) -> None:
        same = title == lines[0]
        self._out.add(kind, lines, level=level, page=page, title="" if same else title, seams=seams)
        self._blocks += 1

    def _images(self, parsed: Parsed) -> list[Image]:
        images: list[Image] = []
        for figure, at, worded in self._figures:
            if figure.png and (png := figure.png()):
                end = parsed.blocks[at - 1].span.end if 0 < at <= len(parsed.blocks) else 0
                span = parsed.blocks[at].span if worded else Span(end, end)
                images.append(Image(span, png, figure.page, caption=" ".join(figure.text.split())))
        return images


def _demoted(item: Text | Table | Figure) -> Text | Table | Figure:
    """A heading as long as a paragraph is one."""
    if isinstance(item, Text) and item.kind == "heading" and len("".join(item.parts).strip()) > HEADING_LIMIT:
        item.kind, item.depth = "paragraph", 0 if item.mark else -1
    return item


def _family(item: Text) -> str:
    return "list" if item.depth >= 0 else item.kind


def _lines(item: Text) -> list[str]:
    text = "".join(item.parts)
    if item.kind == "code":
        return [line.rstrip() for line in text.strip("\n").split("\n")] if text.strip() else []
    return [line for line in (part.strip() for part in text.split("\n")) if line]


def _one_line(item: Text | Table | Figure) -> str:
    """What is inside a cell, on one line; its own cells and paragraphs are told apart by spaces only."""
    if isinstance(item, Table):
        return " ".join(item.rows)
    if isinstance(item, Figure):
        return " ".join(item.text.split())
    words = " ".join("".join(item.parts).split())
    return f"{item.mark} {words}".strip() if words or item.mark != "-" else ""


def _items(run: list[Text]) -> tuple[list[str], list[int]]:
    """The lines of a list and where its items begin: two spaces a level; what has no mark goes on the item before it."""
    least = min(item.depth for item in run)
    lines: list[str] = []
    seams: list[int] = []
    hang = ""
    for item in run:
        mark = f"{item.mark} " if item.mark else ""
        if mark or not seams:
            seams.append(len(lines))
            indent = "  " * min(item.depth - least, _INDENT) if lines else ""
            first, hang = indent + mark, indent + " " * len(mark)
        else:
            first = hang
        words = _lines(item)
        lines += [first + words[0], *(hang + line for line in words[1:])]
    return lines, seams


class Level(NamedTuple):
    """A level of a numbered list: `text` is the label, `%1` standing for the number of the first level."""

    format: str = "decimal"
    text: str = "%1."
    start: int = 1
    legal: bool = False
    restarts: bool = True


class Counters:
    """The numbers of one list, as they run through the document."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def restart(self, depth: int, start: int) -> None:
        """The next item at this depth is the number `start`."""
        self._counts[depth] = start - 1

    def label(self, levels: Sequence[Level], depth: int) -> str:
        """The label of the next item at this depth: "-" for any bullet that shows, "" for none."""
        here = levels[depth] if depth < len(levels) else Level("bullet")
        self._counts[depth] = self._counts.get(depth, here.start - 1) + 1
        for deeper in [d for d in self._counts if d > depth and (d >= len(levels) or levels[d].restarts)]:
            del self._counts[deeper]
        if here.format == "bullet":
            return "-" if here.text.strip() else ""

        def number(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            level = levels[at] if at < len(levels) else Level()
            value = self._counts.setdefault(at, level.start) if at <= depth else level.start
            return numeral(value, "decimal" if here.legal and level.format != "none" else level.format)

        return re.sub(r"%([1-9])", number, here.text).strip()


_ROMAN = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    )
)


def numeral(value: int, format: str) -> str:
    """The number as Word writes it in a format of its (`lowerRoman`, `upperLetter` …); decimal in those not known here."""
    if format in ("lowerRoman", "upperRoman") and 0 < value < 5000:
        digits = ""
        for worth, sign in _ROMAN:
            digits += sign * (value // worth)
            value %= worth
        return digits.upper() if format == "upperRoman" else digits
    if format in ("lowerLetter", "upperLetter") and 0 < value < 1000:
        letters = chr(97 + (value - 1) % 26) * ((value - 1) // 26 + 1)
        return letters.upper() if format == "upperLetter" else letters
    if format == "decimalZero":
        return f"{value:02}"
    return "" if format == "none" else str(value)


_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
    + " " * 33
    + "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…|—↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ ⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭ "
)
_DINGS = {
    0x4A: "☺", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x72: "❒", 0x75: "◆", 0x76: "❖", 
    0x9F: "•", 0xA7: "▪", 0xA8: "☐",
    0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip


def symbol(code: int, font: str) -> str:
    """The character of a symbol font (Symbol, Wingdings: 0x20–0xFF, or the same at U+F000); "" for a mere ornament."""
    low = code - 0xF000 if 0xF000 <= code <= 0xF0FF else code
    if low > 0xFF:
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
    if "wingdings" in font.lower() or "webdings" in font.lower():
        return _DINGS.get(low, "")
    if font.lower() == "symbol" or code != low:
        return _SYMBOL[low - 0x20].strip() if 0x20 < low < 0x20 + len(_SYMBOL) else ""
    return chr(low)


def in_symbols(text: str, font: str) -> str:
    """Text set in a symbol font, as the characters it shows."""
    return "".join(symbol(ord(c), font) if c != " " else c for c in text)


def is_code(text: Text, after_code: bool) -> bool:
    """Whether a paragraph wholly in a font for code is code, and not a letter from a typewriter."""
    words = "".join(text.parts)
    return text.typed and bool(words.strip()) and (after_code or words[:1].isspace() or bool(_CODE_SIGNS.search(words)))


def is_typewriter(font: str) -> bool:
    """Whether all characters of the font are of one width, by its name."""
    return bool(_MONOSPACED.search(font))


def is_symbolic(font: str) -> bool:
    """Whether the font gives its characters other shapes than Unicode does."""
    return font.lower() in ("symbol", "wingdings", "wingdings 2", "wingdings 3", "webdings")


def steps(root: etree._Element) -> Any:
    """`("start" | "end", element)` for each element in document order, with `skip_subtree()`; no recursion."""
    return etree.iterwalk(root, events=("start", "end"))


def png(data: bytes) -> bytes:
    """The picture as PNG; b"" where it is none that can be read (metafiles, damaged ones)."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return data
    import pymupdf

    try:
        pixmap: Any = pymupdf.Pixmap
        picture = pixmap(data)
        return bytes((picture if picture.n - picture.alpha < 4 else pixmap(pymupdf.csRGB, picture)).tobytes("png"))
    except Exception:
        # A picture that can't be decoded costs its bytes, never the text.
        return b""
