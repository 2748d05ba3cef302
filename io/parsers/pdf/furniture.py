"""Headers, footers and page numbers: what returns at one place of many pages, left out of the running text.

Two pages are not many: there only a number that counts the pages is furniture. A row counts as repeated when its words are the
same but for page numbers, at the same height of at least three pages of which some follow each other (or every other one);
other numbers must return, too: an amount that stands once is text. So is what is set larger than the text and says something
new (titles are numbered like pages), and what begins with a number and returns nowhere (one footnote a page). Where the text
between returns just so, the pages are filled-in forms, and only their page numbers are furniture.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from chunkmill.io.parsers.pdf.shapes import Row, Sheet, Table

_ZONE = 0.15  # of the height, at the top and at the bottom
_LENGTH = 200
_ROMAN = r"(?=[ivxlc])(?:c{0,3})(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})"
_NUMBER = re.compile(rf"\d+|\b{_ROMAN}\b", re.IGNORECASE)
_LARGE, _HUGE = 1.2, 2.0  # times the size of most text: a title, a number that is one
_PAGE_NUMBER = re.compile(
    rf"(?:\W*(?:page|seite|página|pagina|pág\.?|p\.|стр\.?|第)?\W*(\d{{1,4}}|{_ROMAN})\W*(?:页|頁)?\W*)"
    r"(?:(?:of|von|de|di|sur|из|/)\W*\d{1,4}\W*)?",
    re.IGNORECASE,
)
_OF = re.compile(r"\W*(?:page|seite|página|pagina)\s*\d+\s*(?:(?:of|von|de|di|sur|/)\s*\d+)?\W*", re.IGNORECASE)
_BEFORE = re.compile(r"(?:\b(?:page|seite|página|pagina|pág|pag|pp?|slide|folie|sheet|blatt|стр)|第)[\s.:]*$")
_BEHIND = re.compile(r"\s*(?:(?:of|von|de|di|sur|из|/)\s*\d+(?!\s*[\d/])|页|頁)")
_ROMANS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_LEVELS = 5  # rows of a header or footer
_LOOKED_AT = 50  # pages, to tell whether they are forms
_KEPT = 300


class _Place(NamedTuple):
    sheet: int
    row: Row
    zone: str
    key: str
    value: int | None  # the number it shows, if it is nothing else


def without_furniture(sheets: Sequence[Sheet]) -> tuple[list[Sheet], dict[str, str]]:
    """The sheets without it, and `header` and `footer` for the metadata."""
    places = _told([place for at, sheet in enumerate(sheets) for place in _places(at, sheet)], sheets)
    drop = _numbers(places) | _counted(places)
    if not _forms(sheets[:_LOOKED_AT], {id(place.row) for place in places}):
        drop |= _repeated(places, len(sheets)) | _running(places)
        drop |= _beside(places, drop)
    emptied = sum(all(id(part) in drop for leaf in sheet.leaves for part in leaf) for sheet in sheets if sheet.leaves)
    if not drop or emptied * 2 > len(sheets):  # pages of nothing else: then it is what they say
        return list(sheets), {}
    said: dict[str, Counter[str]] = {"header": Counter(), "footer": Counter()}
    for place in places:
        if id(place.row) in drop and place.value is None:
            said["footer" if place.zone == "bottom" else "header"][" ".join(place.row.text.split())] += 1
    kept = [
        sheet._replace(leaves=[rest for leaf in sheet.leaves if (rest := [part for part in leaf if id(part) not in drop])])
        for sheet in sheets
    ]
    return kept, {key: found for key, texts in said.items() if (found := _summary(texts))}


def _told(places: Sequence[_Place], sheets: Sequence[Sheet]) -> list[_Place]:
    """Without titles: rows at the top that are set larger than most text, unless they say the same on three pages."""
    sizes = Counter[float]()
    for row in (part for sheet in sheets for leaf in sheet.leaves for part in leaf if isinstance(part, Row)):
        sizes[row.size] += len(row.text)
    most = sizes.most_common(1)[0][0] if sizes else 0.0
    said = Counter(text for text, _ in {(place.row.text, place.sheet) for place in places})

    def title(place: _Place) -> bool:
        large = place.row.size >= most * (_LARGE if place.value is None else _HUGE)
        return place.zone == "top" and large and said[place.row.text] < 3

    return [place for place in places if not title(place)]


def _forms(sheets: Sequence[Sheet], outside: set[int]) -> bool:
    """Whether most rows, but for those `outside` the body, are on most pages at the same height, the same but for numbers."""
    rows = [
        (_key(part.text), round(part.box[1] / 4), at)
        for at, sheet in enumerate(sheets)
        for leaf in sheet.leaves
        for part in leaf
        if isinstance(part, Row) and id(part) not in outside
    ]
    pages = Counter((key, height) for key, height, _ in set(rows))
    again = sum(pages[key, height] >= max(3, len(sheets) / 2) for key, height, _ in rows)
    return again * 2 > len(rows)


def _summary(texts: Counter[str]) -> str:
    """The different texts, the most frequent first; those that differ by their numbers once."""
    seen: dict[str, str] = {}
    for text, _ in texts.most_common():
        seen.setdefault(_key(text), text)
    return " · ".join(seen.values())[:_KEPT]


def _key(text: str) -> str:
    return re.sub(r"\s+", "", _NUMBER.sub("#", text.casefold()))


def _places(at: int, sheet: Sheet) -> Iterator[_Place]:
    """Rows that may be furniture: those set off at the top and at the bottom of a page, and those turned at its sides."""
    level = [part for leaf in sheet.leaves for part in leaf if not (isinstance(part, Row) and part.turned)]
    level.sort(key=lambda part: part.box[1])
    top = _set_off([(part, part.box[1], part.box[3]) for part in level], _ZONE * sheet.height)
    level.sort(key=lambda part: -part.box[3])
    bottom = _set_off([(part, -part.box[3], -part.box[1]) for part in level], -(1 - _ZONE) * sheet.height)
    side = [part for leaf in sheet.leaves for part in leaf if isinstance(part, Row) and part.turned]
    for zone, rows in (("top", top), ("bottom", bottom), ("side", side)):
        for row in rows:
            if len(row.text) <= _LENGTH:
                yield _Place(at, row, zone, _key(row.text), _value(row.text))


def _set_off(parts: Sequence[tuple[Row | Table, float, float]], zone: float) -> list[Row]:
    """The first rows of these (row, from, to), as far as there is room behind them: all in the zone, or the very first."""
    found: list[Row] = []
    end, levels, sure = float("-inf"), 0, 0
    for part, start, stop in parts:
        if not isinstance(part, Row):
            sure = len(found) if start - end > 0.4 * 8 else sure
            break
        if start - end > -0.5 * part.size:
            levels += 1
            if start - end > 0.4 * part.size:
                sure = len(found)
            if levels > _LEVELS or (start > zone and found):
                break
        found.append(part)
        end = max(end, stop)
    else:
        sure = len(found)
    return found[:sure]


def _value(text: str) -> int | None:
    """The number of a text that is a page number and nothing else."""
    found = _PAGE_NUMBER.fullmatch(text.strip())
    if not found or not found[1]:
        return None
    digits = found[1].lower()
    if digits.isdecimal():
        return int(digits)
    values = [_ROMANS[c] for c in digits]
    return sum(-v if v < max(values[n:]) else v for n, v in enumerate(values))


def _numbers(places: Sequence[_Place]) -> set[int]:
    """Rows that number the pages: their difference to the page's place is the same on several pages."""
    offsets: dict[tuple[str, int], list[_Place]] = defaultdict(list)
    for place in places:
        if place.value is not None and place.zone != "side":
            offsets[place.zone, place.value - place.sheet].append(place)
    found = set()
    for group in offsets.values():
        pages = {place.sheet for place in group}
        if len(pages) >= 3 or (len(pages) == 2 and max(pages) - min(pages) == 1 and len(group) == 2):
            found |= {id(place.row) for place in group}
    return found


def _running(places: Sequence[_Place]) -> set[int]:
    """Rows that end with the page's number, whatever else they say: the running titles of chapters.

    Rows that begin with it do so too where they return, or others of their height end with it.
    """
    offsets: dict[tuple[str, int], list[_Place]] = defaultdict(list)
    for place in places:
        numbers = re.findall(r"\d+", place.row.text)
        shown = {int(n) for n in (numbers[:1] + numbers[-1:]) if len(n) < 5 and _at_end(place.row.text, n)}
        if place.zone != "side":
            for number in shown:
                offsets[place.zone, number - place.sheet].append(place)
    found = set()
    for (_, offset), group in offsets.items():
        for level in _levels(group):
            if len({place.sheet for place in level}) >= 3:
                last = sum(_bare(place.row.text).endswith(str(place.sheet + offset)) for place in level)
                found |= {id(place.row) for place in level} if last >= 3 else _returning(level)
    return found


def _returning(level: Sequence[_Place]) -> set[int]:
    """The rows whose words and numbers return on another page."""
    keys: dict[str, list[_Place]] = defaultdict(list)
    for place in level:
        keys[place.key].append(place)
    return {row for group in keys.values() if len(group) > 1 for row in _again(group)}


def _bare(text: str) -> str:
    return text.strip(" .-–—|·[]()")


def _at_end(text: str, number: str) -> bool:
    bare = _bare(text)
    return bare.startswith(number) or bare.endswith(number)


def _counted(places: Sequence[_Place]) -> set[int]:
    """`Page 3 of 10` needs no second page to be known."""
    return {id(place.row) for place in places if place.zone != "side" and _OF.fullmatch(place.row.text)}


def _repeated(places: Sequence[_Place], pages: int) -> set[int]:
    """Rows with the same words at the same height of three pages or more, whose numbers return as well."""
    groups: dict[tuple[str, str, int], list[_Place]] = defaultdict(list)
    for place in places:
        if any(c.isalpha() for c in place.key):
            groups[place.zone, place.key, round(place.row.size)].append(place)
    found = set()
    for group in groups.values():
        for level in _levels(group):
            at = sorted({place.sheet for place in level})
            near = sum(b - a <= 2 for a, b in pairwise(at))
            if len(at) >= 3 and near >= 2 and (near >= len(at) * 0.4 or len(at) > pages * 0.2):
                found |= _again(level)
    return found


def _again(level: Sequence[_Place]) -> set[int]:
    """The rows whose numbers, three of four at least, count the pages (as on two others) or are the same on another page."""
    numbers = {id(place.row): _shown(place) for place in level}
    same = Counter((at, number) for shown in numbers.values() for at, (number, _) in enumerate(shown))
    ahead = Counter((at, offset) for shown in numbers.values() for at, (_, offset) in enumerate(shown))
    found = set()
    for row, shown in numbers.items():
        counting = [offset is not None and ahead[at, offset] >= 3 for at, (_, offset) in enumerate(shown)]
        known = sum(
            counts or same[at, number] >= 2 for at, (counts, (number, _)) in enumerate(zip(counting, shown, strict=True))
        )
        if known >= 0.75 * len(shown):
            found.add(row)
    return found


def _shown(place: _Place) -> list[tuple[int, int | None]]:
    """Each number of the row, and how far it is ahead of the page's place where it can count pages: a day of a month can't.

    Those of a text at the side say nothing.
    """
    text = _bare(place.row.text.casefold())
    shown: list[tuple[int, int | None]] = []
    for found in _NUMBER.finditer(text) if place.zone != "side" else ():
        number = int(found.group()) if found.group().isdecimal() else _value(found.group()) or 0
        at_end = found.start() == 0 or found.end() == len(text)
        counts = at_end or _BEFORE.search(text[: found.start()]) or _BEHIND.match(text[found.end() :])
        shown.append((number, number - place.sheet if counts else None))
    return shown


def _levels(group: Sequence[_Place]) -> Iterator[list[_Place]]:
    """The places by height, a few points apart at most."""
    level: list[_Place] = []
    for place in sorted(group, key=lambda p: p.row.box[1]):
        if level and place.row.box[1] - level[-1].row.box[1] > 4:
            yield level
            level = []
        level.append(place)
    if level:
        yield level


def _beside(places: Sequence[_Place], drop: set[int]) -> set[int]:
    """What stands on one line with furniture (a chapter's title beside the page number), at heights where that is the rule."""
    lines: dict[tuple[str, int], list[_Place]] = defaultdict(list)
    by_page: dict[tuple[int, str], list[float]] = defaultdict(list)
    for place in places:
        if id(place.row) in drop:
            by_page[place.sheet, place.zone].append((place.row.box[1] + place.row.box[3]) / 2)
    for place in places:
        y = (place.row.box[1] + place.row.box[3]) / 2
        if id(place.row) not in drop and any(abs(y - other) < 3 for other in by_page[place.sheet, place.zone]):
            lines[place.zone, round(y / 6)].append(place)
    return {id(p.row) for group in lines.values() if len({p.sheet for p in group}) >= 3 for p in group if len(p.row.text) < 100}
