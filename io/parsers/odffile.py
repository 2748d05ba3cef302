"""The parts of an OpenDocument file, zipped or flat, and what its styles and list levels say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lxml import etree

from chunkmill.chunkers.base import Kind
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.office import Level, is_typewriter, role
from chunkmill.io.parsers.xmltree import damage, local, tree
from chunkmill.io.parsers.zipped import Package

_WHAT = "the OpenDocument file"
NS = "{urn:oasis:names:tc:opendocument:xmlns:"
OFFICE, TEXT, TABLE, DRAW = (f"{NS}{name}:1.0}}" for name in ("office", "text", "table", "drawing"))
STYLE, META, SHOW, _FO = (f"{NS}{name}:1.0}}" for name in ("style", "meta", "presentation", "xsl-fo-compatible"))
DC = "{http://purl.org/dc/elements/1.1/}"
_MARGIN = 500  # characters of headers or footers that are kept
BULLET = Level("bullet")
_FORMATS = {"i": "lowerRoman", "I": "upperRoman", "a": "lowerLetter", "A": "upperLetter", "": "none"}
_META_NAMES = {
    DC + "title": "title", DC + "language": "language", DC + "subject": "subject", DC + "description": "description",
    META + "keyword": "keywords",
}  # fmt: skip


class File:
    """The XML of a document and what its styles say, from a package or a flat file."""

    def __init__(self, data: bytes) -> None:
        self.warnings: list[str] = []
        self.package = Package(data, _WHAT) if data.startswith(b"PK") else None
        self.warnings += self.package.warnings if self.package else []
        self._refuse_encrypted()
        roots = [self._required(data), *filter(None.__ne__, (self._optional(n) for n in ("styles.xml", "meta.xml")))]
        self.roots: list[etree._Element] = [root for root in roots if root is not None]
        if damaged := damage(self.roots[0]):
            self.warnings.append(f"the content is damaged XML, read as far as possible: {damaged}")
        body = self.roots[0].find(OFFICE + "body")
        if body is None:
            raise DocumentError("corrupt", f"{_WHAT} has no body")
        self.body = body
        self.styles = Styles(self.roots)
        for title in [*body.iterfind(f"{OFFICE}presentation/{DRAW}page/{DRAW}frame[@{SHOW}class='title']")]:
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
        for element in (e for root in self.roots for e in root.iterfind(f"{OFFICE}meta/*")):
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

    def margins(self, words: Callable[[etree._Element], str]) -> dict[str, str]:
        """The headers and footers of the pages, each once; `words` reads one."""
        found: dict[str, str] = {}
        masters = [m for root in self.roots for m in root.iterfind(f"{OFFICE}master-styles/{STYLE}master-page")]
        for kind in ("header", "footer"):
            said = (" ".join(words(part).split()) for m in masters[:50] for part in m if local(part).startswith(kind))
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


class Style(NamedTuple):
    """What a style and its parents say."""

    kind: Kind = "paragraph"
    level: int = 0
    title: bool = False
    contents: bool = False
    hidden: bool = False
    typed: bool = False
    breaks: bool = False
    list: str = ""


class Styles:
    """Styles by family and name, each resolved when it is first asked for; and the levels of lists."""

    def __init__(self, roots: list[etree._Element]) -> None:
        places = [p for root in roots for name in ("styles", "automatic-styles") for p in root.iterfind(OFFICE + name)]
        self._raw: dict[tuple[str, str], etree._Element] = {}
        self._lists: dict[str, list[Level]] = {}
        self.outline: list[Level] = []
        self.language = ""
        for element in (e for place in places for e in place):
            if element.tag == STYLE + "style":
                self._raw.setdefault((element.get(STYLE + "family", ""), element.get(STYLE + "name", "")), element)
            elif element.tag == TEXT + "list-style":
                self._lists.setdefault(element.get(STYLE + "name", ""), _levels(element))
            elif element.tag == TEXT + "outline-style":
                self.outline = _levels(element)
            elif element.tag == STYLE + "default-style" and element.get(STYLE + "family") == "paragraph":
                self.language = _language(element)
        self._resolved: dict[tuple[str, str], Style] = {}
        self.typed = self.get("paragraph", "Standard").typed  # then a typewriter's font says nothing

    def get(self, family: str, name: str) -> Style:
        """What the style says, each in its chain changing what it speaks of, the oldest first."""
        if (family, name) not in self._resolved:
            found = Style()
            for element in reversed([*self._chain(family, name)]):
                found = _said(found, element)
            self._resolved[family, name] = found
        return self._resolved[family, name]

    def levels(self, name: str) -> list[Level]:
        """The levels of a list style; bullets where it is not known."""
        return self._lists.get(name) or [BULLET]

    def _chain(self, family: str, name: str) -> Iterator[etree._Element]:
        seen: set[str] = set()
        while (family, name) in self._raw and name not in seen and len(seen) < 50:
            seen.add(name)
            yield self._raw[family, name]
            name = self._raw[family, name].get(STYLE + "parent-style-name", "")


def _said(style: Style, element: etree._Element) -> Style:
    name = (element.get(STYLE + "display-name") or element.get(STYLE + "name") or "").replace("_20_", " ")
    named = role(name)
    outline = element.get(STYLE + "default-outline-level", "")
    text, paragraph = element.find(STYLE + "text-properties"), element.find(STYLE + "paragraph-properties")
    font, hidden = "", style.hidden
    if text is not None:
        font = text.get(STYLE + "font-name") or text.get(_FO + "font-family") or ""
        hidden = text.get(TEXT + "display", "none" if hidden else "true") == "none"
    section = element.find(STYLE + "section-properties")
    hidden = hidden or (section is not None and section.get(TEXT + "display") == "none")
    automatic = not element.get(STYLE + "display-name") and re.match(r"[A-Z]+\d+\Z", name) is not None
    level = min(int(outline), 10) if outline.isdecimal() and len(outline) < 4 else named.level or style.level
    return Style(
        kind="heading" if level else named.kind if named.kind != "paragraph" else style.kind,
        level=level,
        title=named.title or (automatic and style.title),
        contents=named.contents or style.contents,
        hidden=hidden,
        typed=is_typewriter(font) if font else style.typed,
        breaks=bool(element.get(STYLE + "master-page-name"))
        or (paragraph is not None and paragraph.get(_FO + "break-before") == "page"),
        list=element.get(STYLE + "list-style-name", style.list),
    )


def _levels(style: etree._Element) -> list[Level]:
    """The levels of a list or of the outline."""
    found = [BULLET] * 10
    for element in style:
        at = whole(element, TEXT + "level", 0)
        if not 1 <= at <= 10:
            continue
        if local(element) in ("list-level-style-number", "outline-level-style"):
            format = element.get(STYLE + "num-format", "")
            shown = range(max(1, at + 1 - whole(element, TEXT + "display-levels", 1)), at + 1)
            numbers = ".".join(f"%{n}" for n in shown if n < 10) if format else ""
            label = element.get(STYLE + "num-prefix", "") + numbers + element.get(STYLE + "num-suffix", "")
            start = whole(element, TEXT + "start-value", 1)
            found[at - 1] = Level(_FORMATS.get(format, "decimal"), label if format else "", start)
    return found


def whole(element: etree._Element, name: str, default: int) -> int:
    """A whole number that an attribute gives."""
    value = element.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 10 else default


def _language(style: etree._Element) -> str:
    text = style.find(STYLE + "text-properties")
    names = [] if text is None else [text.get(_FO + "language", ""), text.get(_FO + "country", "")]
    return "-".join(name for name in names if name and name != "none") if names and names[0] not in ("", "none", "zxx") else ""
