"""Workbooks as ZIP archives, made ready for calamine: it keeps neither number formats nor errors, and trusts what it reads.

Every part is read within the limits and handed on in an archive of our own, so that calamine sees what was measured. On the
way errors become strings, as do percents, numbers with leading zeros, and those with a currency or unit; far-off cells are
drawn near, because calamine holds the whole rectangle around the cells of a sheet, and repeated ones are counted before they
are repeated.
"""

from __future__ import annotations

import io
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from lxml import etree

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.limits import FREE_BYTES, check_inflated
from chunkmill.io.parsers.ooxml import attribute, outermost, properties, reference, related, relations
from chunkmill.io.parsers.xmltree import damage, declares_entities, local, tree
from chunkmill.io.parsers.zipped import Package

_DENSE = 1 << 16  # cells of a rectangle that are few, however few of them are filled
_SPARSE = 16  # a larger one may have so many times its filled cells
_AREA = 4 << 20  # or so many, where drawing its cells together was not enough
_COLUMNS = 1 << 14
_HEAD = 60  # bytes of the XML declaration, which often ends a line
# The patterns begin with a literal where they can, so that searching is fast; what they don't expect is respelled before.
_ODD = (b"='", b" =", b"= ")
_BROKEN = re.compile(rb'["\w=][\t\r\n]+["\w=]')
_LETTERS = re.compile(rb' r="([A-Za-z]++)\d')
_DIGITS = re.compile(rb' r="[A-Za-z]*+(\d++)"')
_PLACE = re.compile(rb'(<(?:\w+:)?(?:row|c)\b[^<>]*? r=")([A-Za-z]*+)(\d++)(?=")')
_LONG = 9  # letters or digits of a place; more are as far off as these
_CELL = re.compile(rb"<(?:\w+:)?c[ />]")
_ERROR = re.compile(rb'(<(?:\w+:)?c\b[^<>]*? t=")e(?=")')
_SHARED = re.compile(rb't="s"[^<>]*+>\s*<(?:\w+:)?v>(\d{1,9})<')
_STRING = re.compile(rb"<(?:\w+:)?si\b")
_VALUE = re.compile(
    rb'(<(?:\w+:)?c\b(?=[^<>]*? s="(\d{1,9})")(?![^<>]*? t="(?!n"))[^<>]*+>)'
    rb"((?:<(?:\w+:)?f\b[^<>]*+>(?:[^<]*+</(?:\w+:)?f>)?)?<(?:\w+:)?v>)([^<]++)"
)
_PIECE = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<money>[^\]-]*)[^\]]*\]|\[[^\]]*\]|[_*].|(?P<digits>General|[#0?.,]+)|(?P<sign>.)',
    re.I,
)
_QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|_.|\*.')
_UNSOLVED = re.compile(
    rb'<(?:\w+:)?c\b(?![^<>]* t="str")[^<>]*+>\s*<(?:\w+:)?f\b(?:[^<>]*/>|[^<>]*>[^<]*+</(?:\w+:)?f>)\s*'
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_BUILT_IN = {"9": "0%", "10": "0.00%"}
_THREADED = "[Threaded comment]"
_DISPLAYED = ("percentage", "currency")

Show = Callable[[float], str]


@dataclass(slots=True)
class Prepared:
    """What calamine may read, and by the index of a sheet: why it can't be read, the comments on it, and how many of its cells
    hold a formula without a result; `lost` says what else could not be read.
    """

    data: bytes
    metadata: dict[str, str] = field(default_factory=dict)
    refused: dict[int, DocumentError] = field(default_factory=dict)
    comments: dict[int, list[str]] = field(default_factory=dict)
    unsolved: dict[int, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)


def prepared(data: bytes) -> Prepared:
    """The workbook, ready. Raises DocumentError where it is no archive of one."""
    package = Package(data, "the workbook")
    ready = Prepared(data, lost=package.warnings)
    wanted = [n for n in package.names if n.lower().endswith((".xml", ".rels", ".bin")) or n == "mimetype"]
    parts = {name: content for name in wanted if (content := _read(package, name, ready)) is not None}
    for part, content in parts.items():
        if not part.endswith(".bin") and declares_entities(content):
            raise DocumentError("unsafe_xml", f"{part} declares entities of its own, which can unfold or fetch without end")
    if "content.xml" in parts:
        try:
            ready.metadata = _described(parts.get("meta.xml", b""))
        except DocumentError:
            ready.lost.append("meta.xml could not be read")
        _opendocument(parts, ready)
    else:
        ready.metadata = properties(package)
        _ooxml(package, parts, ready)
    ready.data = _archive(parts)
    return ready


def _read(package: Package, name: str, ready: Prepared) -> bytes | None:
    """The part; None where it is damaged, which costs a warning unless the workbook is nothing without it."""
    try:
        return package.read(name)
    except DocumentError as error:
        if error.kind != "corrupt" or name in ("content.xml", "xl/workbook.xml", "xl/workbook.bin"):
            raise
        ready.lost.append(f"{name} could not be read")
        return None


def mended(ready: Prepared) -> Prepared:
    """The workbook with what can be read of its broken XML, where calamine, which reads none that is, has refused it."""
    with zipfile.ZipFile(io.BytesIO(ready.data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, content in parts.items():
        if name.endswith((".xml", ".rels")) and content.strip():
            root = tree(content, name)
            if damage(root):
                parts[name] = etree.tostring(root)
                ready.lost.append(f"{name} is damaged XML, read as far as possible")
    ready.data = _archive(parts)
    return ready


def _archive(parts: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def _ooxml(package: Package, parts: dict[str, bytes], ready: Prepared) -> None:
    """Amend the sheets of an Excel workbook, and collect the comments on them."""
    main = next(iter(related(relations(package, ""), "officeDocument")), "xl/workbook.xml")
    if main not in parts:
        raise DocumentError("corrupt", f"the workbook has no part {main!r}")
    for part in parts:
        if part.startswith("xl/worksheets/") and part.endswith(".bin"):
            _check_area(*_binary_extent(parts[part]))
    if main.endswith(".bin"):
        return
    links = relations(package, main)
    shows = _shows(_first(parts, related(links, "styles")))
    lengths = _lengths(_first(parts, related(links, "sharedStrings")))
    people = _people(package, related(links, "person"))
    repeated = 0
    for index, sheet in enumerate(tree(parts[main], main).iter("{*}sheet")):
        part = links[reference(sheet)].part if reference(sheet) in links else ""
        if part not in parts:
            continue
        parts[part] = _plain(parts[part], part)
        repeated += _repeated(parts[part], lengths)
        check_inflated(repeated, len(ready.data), "the text of the sheets")
        try:
            parts[part] = _shown(_near(parts[part]), shows)
        except DocumentError as error:
            ready.refused[index] = error
        ready.comments[index] = list(_comments(package, part, people))
        ready.unsolved[index] = len(_UNSOLVED.findall(parts[part]))


def _first(parts: dict[str, bytes], names: list[str]) -> bytes:
    return next((parts[name] for name in names if name in parts), b"")


def _check_area(rows: int, columns: int, cells: int) -> None:
    """Raise where the rectangle is large beyond reason for so many cells."""
    if rows * columns > max(_AREA, cells * _SPARSE):
        raise DocumentError("too_large", f"{cells:,} cells spread over {rows:,} rows and {columns:,} columns")


def _plain(content: bytes, part: str) -> bytes:
    """The sheet in the spelling that nearly all programs use: double quotes, one space before an attribute."""
    lines = any(end in content[_HEAD:] for end in (b"\n", b"\t", b"\r"))
    odd = any(odd in content for odd in _ODD) or (lines and _BROKEN.search(content, _HEAD))
    return bytes(etree.tostring(tree(content, part))) if odd else content


def _near(content: bytes) -> bytes:
    """The sheet, without the gaps where its cells lie too far apart. Raises `too_large` where that is not enough."""
    cells = len(_CELL.findall(content)) if b":c" in content else sum(map(content.count, (b"<c ", b"<c>", b"<c/")))
    letters, rows = _LETTERS.findall(content), {_row(number) for number in set(_DIGITS.findall(content))}
    columns = {name: _column(name) for name in set(letters)}
    implied = min(_COLUMNS, cells - len(letters)) if cells > len(letters) else 0
    if max(rows, default=1) * (max(columns.values(), default=1) + implied) <= max(_DENSE, cells * _SPARSE):
        return content
    new_rows, closed = _closed(rows), _closed(set(columns.values()))
    new_columns = {name: _letters(closed[column]) for name, column in columns.items()}
    _check_area(max(new_rows.values(), default=1), len(new_columns) * 2 + implied, cells)

    def moved(place: re.Match[bytes]) -> bytes:
        return place[1] + new_columns.get(place[2], place[2]) + b"%d" % new_rows.get(_row(place[3]), 1)

    return _PLACE.sub(moved, content)


def _closed(places: set[int]) -> dict[int, int]:
    """New numbers for these, from 1 on in the same order, where a gap of any width is one."""
    closed, last, at = dict[int, int](), 0, 0
    for place in sorted(places):
        at += min(2, place - last) if last else 1
        closed[place], last = at, place
    return closed


def _row(digits: bytes) -> int:
    """The number of a row. Digits beyond the longest that make sense would wrap around in calamine."""
    return int(digits.lstrip(b"0")[:_LONG] or b"0")


def _column(letters: bytes) -> int:
    """The number of a column: 28 for AB."""
    number = 0
    for letter in letters[:_LONG].upper():
        number = number * 26 + letter - 64
    return number


def _letters(column: int) -> bytes:
    """The name of a column: AB for 28."""
    name = b""
    while column > 0:
        column, last = divmod(column - 1, 26)
        name = bytes([65 + last]) + name
    return name


def _binary_extent(content: bytes) -> tuple[int, int, int]:
    """Rows, columns and cells of a sheet of an XLSB workbook: its records are a type, a size, and so many bytes."""
    at = rows = columns = cells = 0
    while at < len(content):
        kind, at = _varint(content, at, 2)
        size, at = _varint(content, at, 4)
        value = int.from_bytes(content[at : at + 4], "little")
        if kind == 0:
            rows = max(rows, value + 1)
        elif kind < 12:
            columns, cells = max(columns, value + 1), cells + 1
        at += size
    return rows, columns, cells


def _varint(content: bytes, at: int, most: int) -> tuple[int, int]:
    value = shift = 0
    for octet in content[at : at + most]:
        value, at = value | (octet & 0x7F) << shift, at + 1
        shift += 7
        if octet < 0x80:
            break
    return value, at


def _lengths(strings: bytes) -> list[int]:
    """About how long each shared string is."""
    starts = [m.start() for m in _STRING.finditer(strings)]
    return [b - a for a, b in pairwise([*starts, len(strings)])]


def _repeated(content: bytes, lengths: list[int]) -> int:
    """How much text a sheet takes from the shared strings, or more than that where it can't be much."""
    most = max(lengths, default=0) * content.count(b't="s"')
    if most <= FREE_BYTES:
        return most
    return sum(lengths[int(i)] * times for i, times in Counter(_SHARED.findall(content)).items() if int(i) < len(lengths))


def _shown(content: bytes, shows: dict[bytes, Show]) -> bytes:
    """The sheet with errors, percents and padded numbers as strings."""
    if b't="e"' in content:
        content = _ERROR.sub(rb"\1str", content)
    return _VALUE.sub(lambda cell: _as_string(cell, shows), content) if shows else content


def _as_string(cell: re.Match[bytes], shows: dict[bytes, Show]) -> bytes:
    show = shows.get(cell[2])
    try:
        shown = escape(show(float(cell[4])), quote=False).encode() if show else b""
    except (ValueError, OverflowError):
        return cell[0]
    return cell[1][:-1].replace(b' t="n"', b"") + b' t="str">' + cell[3] + shown if shown else cell[0]


def _shows(styles: bytes) -> dict[bytes, Show]:
    """How the numbers of a cell with such a style are shown, where that is not as they are."""
    if not styles:
        return {}
    root = tree(styles, "styles.xml")
    codes = _BUILT_IN | {f.get("numFmtId", ""): f.get("formatCode", "") for f in root.iter("{*}numFmt")}
    formats = [x.get("numFmtId", "") for cells in outermost(root, "cellXfs") for x in cells if local(x) == "xf"]
    return {b"%d" % i: show for i, format in enumerate(formats) if (show := _show(codes.get(format, "")))}


def _show(code: str) -> Show | None:
    """What a format makes of a number: a percent, leading zeros, or a number with its currency or unit."""
    plain = _QUOTED.sub("", code.partition(";")[0])
    if "%" in plain:
        decimals = min(20, len(re.sub(r"[^0#?]", "", plain.partition(".")[2])))
        return lambda value: f"{value:.{decimals}%}"
    if re.fullmatch("0{2,20}", plain):
        return lambda value: f"{value:0{len(plain)}.0f}"
    return _with_unit(code.partition(";")[0])


def _with_unit(code: str) -> Show | None:
    """The words and currencies that a format puts around a number, whose digits stay as they are; None where it has none, or
    where it is of dates, fractions, powers or thousands.
    """
    around, digits = ["", ""], ""
    for piece in _PIECE.finditer(code):
        if piece["digits"]:
            digits += piece["digits"]
        elif (sign := piece["sign"] or "") and (sign.isalpha() or sign in "/@"):
            return None
        else:
            around[bool(digits)] += piece["quoted"] or piece["escaped"] or piece["money"] or sign
    before, after = around
    if not digits or digits.endswith(",") or not any(c.isalpha() or unicodedata.category(c) == "Sc" for c in before + after):
        return None
    return lambda value: f"{'-' if value < 0 else ''}{before.lstrip()}{abs(value):.15g}{after.rstrip()}"


def _people(package: Package, parts: list[str]) -> dict[str, str]:
    """The names of those who take part in threads, by id."""
    found = (person for part in parts for person in _elements(package, part, "person"))
    return {person.get("id", ""): person.get("displayName", "") for person in found}


def _comments(package: Package, part: str, people: dict[str, str]) -> Iterator[str]:
    """The comments on a sheet, as `Comment on B2 (author): text`; threads once."""
    links = relations(package, part)
    for threads in related(links, "threadedComment"):
        for comment in _elements(package, threads, "threadedComment"):
            yield from _comment(comment, people.get(comment.get("personId", ""), ""))
    for notes in related(links, "comments"):
        authors = [" ".join((a.text or "").split()) for a in _elements(package, notes, "author")]
        for comment in _elements(package, notes, "comment"):
            at = comment.get("authorId", "")
            yield from _comment(comment, authors[int(at)] if at.isdecimal() and int(at) < len(authors) else "")


def _comment(comment: etree._Element, author: str) -> Iterator[str]:
    text = " ".join("".join(e.text or "" for e in comment.iter("{*}t", "{*}text")).split())
    if text and not text.startswith(_THREADED):
        by = f" ({author})" if author else ""
        yield f"Comment on {comment.get('ref', 'a cell')}{by}: {text.removeprefix(f'{author}:').strip() or text}"


def _elements(package: Package, part: str, name: str) -> list[etree._Element]:
    """The elements of a name in a part that may be missing or broken."""
    try:
        return list(outermost(tree(package.read(part), part), name))
    except DocumentError as error:
        if error.kind != "corrupt":
            raise
        package.warn(f"{part} could not be read")
        return []


def _described(meta: bytes) -> dict[str, str]:
    """The metadata of an OpenDocument file."""
    names = {"initial-creator": "author", "creator": "author", "creation-date": "created", "date": "date"}
    found: dict[str, str] = {}
    for element in tree(meta, "meta.xml").iter() if meta else ():
        name, value = local(element), " ".join((element.text or "").split())
        if value and name in ("title", "language", "subject", "description", *names):
            found.setdefault(names.get(name, name), value)
    if "created" in found:
        found.setdefault("date", found["created"])
    return found


def _opendocument(parts: dict[str, bytes], ready: Prepared) -> None:
    """Amend the sheets of an OpenDocument workbook, and collect the comments on them."""
    if b"encryption-data" in parts.get("META-INF/manifest.xml", b""):
        raise DocumentError("encrypted", "an OpenDocument workbook under a password")
    root = tree(parts["content.xml"], "content.xml")
    if damaged := damage(root):
        ready.lost.append(f"content.xml is damaged XML, read as far as possible: {damaged}")
    for index, table in enumerate(outermost(root, "table")):
        ready.comments[index] = list(_annotations(table))
        try:
            _sensible(table, len(ready.data))
        except DocumentError as error:
            ready.refused[index] = error
            for element in list(table):
                table.remove(element)
    parts["content.xml"] = etree.tostring(root, encoding="utf-8", xml_declaration=True)


def _annotations(table: etree._Element) -> Iterator[str]:
    for note in list(outermost(table, "annotation")):
        author = next((" ".join((e.text or "").split()) for e in note if local(e) == "creator"), "")
        text = " ".join(" ".join("".join(map(str, p.itertext())) for p in note if local(p) == "p").split())
        if text:
            yield f"Comment{f' ({author})' if author else ''}: {text}"
        if (above := note.getparent()) is not None:
            above.remove(note)


def _sensible(table: etree._Element, packed: int) -> None:
    """Shorten what only fills the sheet up, show percents and currencies as displayed; raise where too much is repeated."""
    height = width = cells = text = 0
    for row in list(outermost(table, "table-row")):
        filled, wide, length = _measured(row)
        times = _times(row, "rows", 2 if not filled else 1 << 30)
        height, width, cells, text = height + times, max(width, wide), cells + filled, text + times * length
    _check_area(height, width, cells)
    check_inflated(text, packed, "the text of the sheet")


def _measured(row: etree._Element) -> tuple[int, int, int]:
    """How many of a row's cells are filled, its width up to the last of them, and the length of its text."""
    cells = [c for c in row if local(c) in ("table-cell", "covered-table-cell")]
    while cells and not len(cells[-1]) and not attribute(cells[-1], "value-type"):
        cells.pop()  # calamine leaves these out
    filled = wide = length = 0
    for cell in cells:
        times = _times(cell, "columns", 1 << 30)
        filled, wide = filled + bool(len(cell) or attribute(cell, "value-type")), wide + times
        length += times * sum(len(t) for t in cell.itertext())
        if len(cell) and attribute(cell, "value-type") in _DISPLAYED:
            _as_displayed(cell)
    return filled, wide, length


def _as_displayed(cell: etree._Element) -> None:
    """A string cell, of the text that shows the value."""
    for key, value in list(cell.attrib.items()):
        if str(key).endswith("}value-type") and value in _DISPLAYED:
            cell.set(key, "string")
        elif str(key).endswith("}value"):
            del cell.attrib[key]


def _times(element: etree._Element, what: str, most: int) -> int:
    """How often an element is repeated; no more than `most`, from now on."""
    value = attribute(element, f"number-{what}-repeated")
    times = min(most, int(value)) if value.isdecimal() and len(value) < 10 else 1
    if value:
        key = next(key for key in element.keys() if str(key).endswith(f"}}number-{what}-repeated"))  # noqa: SIM118  # an element of lxml iterates over its children
        element.set(key, str(times))
    return times
