"""Which paragraphs are headings, and how deep: by the outline, else by size and weight, put right by their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_LENGTH = 200
_LARGE, _LARGE_BOLD = 1.15, 1.04
_NUMBERED = re.compile(
    r"(?:(?:chapter|section|part|appendix|kapitel|chapitre)\s+)?(\d{1,2}(?:\.\d{1,2})*|[A-Z](?:\.\d{1,2})+)\.?\s+\S"
)
_KNOWN = re.compile(
    r"abstract|introduction|conclusions?|references|bibliography|acknowledge?ments?|appendix|contents|table of contents|"
    r"summary|zusammenfassung|einleitung|literatur(?:verzeichnis)?|inhaltsverzeichnis|"
    r"résumé|bibliographie|resumen|introducción|conclusiones",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?,;…]\s*$")


class Style(NamedTuple):
    """What decides: a paragraph's text on its page, how it is set, and how many rows it takes."""

    text: str
    page: int
    size: float
    bold: bool
    italic: bool
    rows: int
    mono: bool
    hidden: bool
    apart: bool  # nothing else begins on its last row, and space follows


class Outline:
    """The bookmarks: level by page and bare title. Titles that the page does not hold are no headings."""

    def __init__(self, entries: Sequence[tuple[int, str, int]]) -> None:
        self._levels: dict[tuple[int, str], int] = {}
        for level, title, page in entries:
            self._levels.setdefault((page, bare(title)), level)

    def level(self, text: str, page: int) -> int:
        """0 for none. Bookmarks often leave the number out."""
        if not self._levels or len(text) > _LENGTH:
            return 0
        titles = {bare(text), bare(re.sub(r"^[\dA-Z]{1,3}(?:[.)]\d*)*\s+", "", text))} - {""}
        return next((self._levels[p, t] for t in titles for p in (page, page - 1, page + 1) if (p, t) in self._levels), 0)


def bare(title: str) -> str:
    """Letters and digits only, without case."""
    return re.sub(r"[\W_]+", "", title).casefold()


def levels(styles: Sequence[Style], body: float, bold_share: float, outline: Outline) -> list[int]:
    """The level of each paragraph, 0 for those that are no heading."""
    outlined = [outline.level(style.text, style.page) for style in styles]
    sized = [not out and _is_heading(style, body, bold_share) for style, out in zip(styles, outlined, strict=True)]
    ranks = _ranks([style for style, heading in zip(styles, sized, strict=True) if heading], body)
    found = [
        out or (ranks[_look(style, body)] if heading else 0)
        for style, out, heading in zip(styles, outlined, sized, strict=True)
    ]
    known = _outlined_looks(styles, outlined, body)
    for at, (style, heading) in enumerate(zip(styles, sized, strict=True)):
        if heading and known:
            found[at] = _among(known, _look(style, body), style.size)
    if not known:
        _number(styles, found)
    return [min(6, level) for level in found]


def _is_heading(style: Style, body: float, bold_share: float) -> bool:
    text = style.text.strip()
    if re.search(r"…\s*[\divxlc]+$", text):
        return False  # a line of a table of contents
    if (
        not 1 < len(text) <= _LENGTH
        or style.rows > 4
        or style.hidden
        or sum(c.isalpha() for c in text) < max(2, len(text) * 0.4)
    ):
        return False
    if style.size >= body * (_LARGE_BOLD if style.bold else _LARGE) and (not style.mono or style.size >= body * 1.3):
        return style.size >= body * 1.5 or not _SENTENCE.search(text) or len(text) < 60
    if style.size < body * 0.88 or style.mono or not style.apart or _SENTENCE.search(text) or len(text) > 120 or style.rows > 2:
        return False
    numbered = _NUMBERED.match(text) is not None
    capitals = text.isupper() and len(text) > 3
    if style.bold:
        return bold_share < 0.3 and (text[:1].isupper() or numbered or not text[:1].islower())
    if style.italic:
        return style.rows == 1 and len(text) < 80 and text[:1].isupper() and not text.endswith(")")
    return bool(_KNOWN.fullmatch(text.strip(" .:"))) or (capitals and numbered and len(text) < 80)


def _look(style: Style, body: float) -> tuple[float, bool]:
    """Looks that rank alike: half points of difference are noise."""
    return (max(round(style.size), round(body)), style.bold)


def _ranks(styles: Sequence[Style], body: float) -> dict[tuple[float, bool], int]:
    looks = sorted({_look(style, body) for style in styles}, reverse=True)
    return {look: rank for rank, look in enumerate(looks, 1)}


def _outlined_looks(styles: Sequence[Style], outlined: Sequence[int], body: float) -> dict[int, tuple[float, bool]]:
    """level → the look most of its headings have."""
    looks: dict[int, Counter[tuple[float, bool]]] = {}
    for style, level in zip(styles, outlined, strict=True):
        if level:
            looks.setdefault(level, Counter())[_look(style, body)] += 1
    return {level: counts.most_common(1)[0][0] for level, counts in looks.items()}


def _among(known: Mapping[int, tuple[float, bool]], look: tuple[float, bool], size: float) -> int:
    """Where a heading that the outline leaves out stands among those it has: below the smallest that is larger."""
    same = [level for level, other in known.items() if other == look]
    larger = [level for level, other in known.items() if other > look]
    return min(same) if same else max(larger) + 1 if larger else 1


def _number(styles: Sequence[Style], found: list[int]) -> None:
    """Numbered headings are as deep as their numbers say, counted from the shallowest of them."""
    depths = {
        at: match[1].count(".") + 1
        for at, (style, level) in enumerate(zip(styles, found, strict=True))
        if level and (match := _NUMBERED.match(style.text))
    }
    if len(depths) < 3 or len(set(depths.values())) < 2:
        return
    top = min(depths.values())
    base = Counter(found[at] for at, depth in depths.items() if depth == top).most_common(1)[0][0]
    for at, depth in depths.items():
        found[at] = base + depth - top
