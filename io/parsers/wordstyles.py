"""Styles and numbering of a Word document: what a paragraph is, and the number a reader sees before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree

from chunkmill.chunkers.base import Kind
from chunkmill.io.parsers.office import Counters, Level, is_typewriter, role

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
VAL = W + "val"
_BODY = 9  # the outline level of body text
_LEVELS = 9
_SAMPLE = 10_000
_NESTED = re.compile(r"list (?:bullet|number|continue)? ?([2-5])")
_EAST = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]")


class Style(NamedTuple):
    """What a style and those it is based on say."""

    kind: Kind = "paragraph"
    level: int = 0
    title: bool = False
    contents: bool = False
    caption: bool = False
    hidden: bool = False
    font: str = ""
    numbering: str = ""
    depth: int = -1
    nested: int = 0  # how deep its lists are by its name (`List Bullet 3`: 2), which are lists of their own to Word
    hangs: bool = False  # a style for what goes on a list item without a number of its own


PLAIN = Style()


class Styles:
    """The styles of a document by id, each resolved when it is first asked for."""

    def __init__(self, root: etree._Element | None) -> None:
        self._raw = {} if root is None else {s.get(W + "styleId", ""): s for s in root.iterfind(W + "style")}
        self._resolved: dict[str, Style] = {}
        found = None if root is None else root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr")
        language = None if found is None else found.find(W + "lang")
        self._languages = [""] * 3 if language is None else [language.get(W + n, "") for n in ("val", "eastAsia", "bidi")]
        default = next((id for id, s in self._raw.items() if s.get(W + "default") and s.get(W + "type") == "paragraph"), "")
        self.typed = is_typewriter(self[default].font or ("" if found is None else fonts(found)))

    def language(self, text: str) -> str:
        """The language the document was set up for: Word keeps one for each kind of script."""
        sample = text[:_SAMPLE]
        shares = [len(script.findall(sample)) * 3 > len(sample) for script in (_EAST, _RIGHT_TO_LEFT)]
        return self._languages[1 if shares[0] else 2 if shares[1] else 0]

    def __getitem__(self, id: str) -> Style:
        if id not in self._resolved:
            self._resolved[id] = self._resolve(id)
        return self._resolved[id]

    def _resolve(self, id: str) -> Style:
        """The oldest ancestor first, each style in the chain changing what it speaks of."""
        if id not in self._raw:
            return _named(PLAIN, id) if id else PLAIN
        found = PLAIN
        for style in reversed([*self._chain(id)]):
            found = _with_properties(_named(found, _value(style, "name") or style.get(W + "styleId", "")), style)
        return found

    def _chain(self, id: str) -> Iterator[etree._Element]:
        seen: set[str] = set()
        while id in self._raw and id not in seen and len(seen) < 50:
            seen.add(id)
            yield self._raw[id]
            id = _value(self._raw[id], "basedOn")


def _named(style: Style, name: str) -> Style:
    found = role(name)
    if found.level:
        return style._replace(kind="heading", level=found.level)
    name = name.lower()
    return style._replace(
        kind=found.kind if found.kind != "paragraph" else style.kind,
        title=found.title,
        contents=found.contents or style.contents,
        caption=name == "caption" or style.caption,
        nested=int(deep[1]) - 1 if (deep := _NESTED.fullmatch(name)) else style.nested,
        hangs=name.startswith(("list paragraph", "list continue", "listparagraph")),
    )


def _with_properties(style: Style, element: etree._Element) -> Style:
    paragraph, run = element.find(W + "pPr"), element.find(W + "rPr")
    if paragraph is not None:
        style = outlined(style, paragraph)
        numbers = paragraph.find(W + "numPr")
        if numbers is not None:
            numbering = _value(numbers, "numId") or style.numbering
            style = style._replace(numbering=numbering, depth=whole(_value(numbers, "ilvl"), style.depth))
    if run is not None:
        hidden, font = switched(run, "vanish"), fonts(run)
        style = style._replace(hidden=style.hidden if hidden is None else hidden, font=font or style.font)
    return style


def outlined(style: Style, properties: etree._Element) -> Style:
    """The style, with the outline level that these paragraph properties give."""
    level = whole(_value(properties, "outlineLvl"), -1)
    if level < 0:
        return style
    if level < _BODY:
        return style._replace(kind="heading", level=level + 1)
    return style._replace(kind="paragraph" if style.kind == "heading" else style.kind, level=0)


def switched(properties: etree._Element, name: str) -> bool | None:
    """Whether a property is on or off; None where nothing is said."""
    found = properties.find(W + name)
    return None if found is None else found.get(VAL, "1") not in ("0", "false", "off", "none")


def fonts(run: etree._Element) -> str:
    """The font of a run's properties, "" where they name none."""
    found = run.find(W + "rFonts")
    return "" if found is None else found.get(W + "ascii") or found.get(W + "hAnsi") or ""


def whole(digits: str, default: int) -> int:
    """The number that an attribute holds; the default for what is none."""
    return int(digits) if digits.isdecimal() and len(digits) < 10 else default


def _value(element: etree._Element, name: str) -> str:
    found = element.find(W + name)
    return "" if found is None else found.get(VAL, "")


class Numbering:
    """The lists of a document: levels by abstract list, and the counters that run through them."""

    def __init__(self, root: etree._Element | None) -> None:
        nothing: list[etree._Element] = []
        abstracts = nothing if root is None else root.findall(W + "abstractNum")
        self._abstract = {a.get(W + "abstractNumId", ""): a for a in abstracts}
        self._linked = {_value(a, "styleLink"): id for id, a in self._abstract.items() if _value(a, "styleLink")}
        self._nums = {n.get(W + "numId", ""): n for n in (nothing if root is None else root.findall(W + "num"))}
        self._levels: dict[str, tuple[str, list[Level], dict[str, int]]] = {}
        self._counters: dict[str, Counters] = {}
        self._used: set[str] = set()

    def label(self, id: str, depth: int, style: str) -> tuple[str, int]:
        """The label of the next paragraph of this list and its depth: "-" for bullets, "" for no label."""
        if id not in self._nums:
            return "-", max(depth, 0)
        if id not in self._levels:
            self._levels[id] = self._read(id)
        abstract, levels, of_style = self._levels[id]
        depth = min(of_style.get(style, 0) if depth < 0 else depth, _LEVELS - 1)
        counters = self._counters.setdefault(abstract, Counters())
        if id not in self._used:
            self._used.add(id)
            for at, start in _restarts(self._nums[id]):
                counters.restart(at, start)
        return counters.label(levels, depth), depth

    def _read(self, id: str) -> tuple[str, list[Level], dict[str, int]]:
        num = self._nums[id]
        abstract = _value(num, "abstractNumId")
        if abstract in self._abstract and (link := _value(self._abstract[abstract], "numStyleLink")):
            abstract = self._linked.get(link, abstract)
        found = [Level("bullet")] * _LEVELS
        of_style: dict[str, int] = {}
        defined = [self._abstract[abstract]] if abstract in self._abstract else []
        for level in (element for part in [*defined, *num.iterfind(W + "lvlOverride")] for element in part.iterfind(W + "lvl")):
            at = whole(level.get(W + "ilvl", ""), _LEVELS)
            if at < _LEVELS:
                found[at] = _level(level)
                of_style[_value(level, "pStyle")] = at
        return abstract, found, of_style


def _level(element: etree._Element) -> Level:
    legal, restarts = element.find(W + "isLgl") is not None, _value(element, "lvlRestart") != "0"
    return Level(
        _value(element, "numFmt") or "decimal", _value(element, "lvlText"), whole(_value(element, "start"), 1), legal, restarts
    )


def _restarts(num: etree._Element) -> Iterator[tuple[int, int]]:
    """(depth, first number) where a list starts its levels anew."""
    for override in num.iterfind(W + "lvlOverride"):
        depth, start = whole(override.get(W + "ilvl", ""), -1), whole(_value(override, "startOverride"), -1)
        if depth >= 0 <= start:
            yield depth, start
