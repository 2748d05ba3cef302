"""Workbooks (XLSX, XLSM, XLSB, legacy XLS, ODS) over calamine: a heading per sheet, a table per stretch of rows.

Rules. Cells are as a reader sees them: 1 for 1.0, ISO dates, TRUE and FALSE, percents, currencies, units, leading zeros and
errors as shown (in XLSX); formulas by their stored results, and `warning` says where there are none. White space in a cell,
newlines too, is one space; a merged cell has its text once.
Blank rows part tables, unless what follows goes on in the same columns with values and no header. Lines of a single cell
above a table are paragraphs, as is a column of prose. Left out: empty rows and columns around a table, empty cells at the
end of a row, empty sheets, charts, text boxes, and very hidden sheets, which no menu shows. Hidden sheets are read;
`sheet_states` (JSON) says which they are. Comments follow their sheet as `notes`. A sheet that can't be read, or whose few
cells are spread too far, is told in `warning`.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from python_calamine import CalamineSheet, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, is_fault
from chunkmill.io.parsers.text import Canonical
from chunkmill.io.parsers.workbooks import Prepared, mended, prepared

T = TypeVar("T")

_HIDDEN = ((SheetVisibleEnum.Hidden, "hidden"), (SheetVisibleEnum.VeryHidden, "veryHidden"))
_READ = (SheetTypeEnum.WorkSheet, SheetTypeEnum.MacroSheet)
_PAD = 4 << 20  # cells before the first one that are cheaper to pass over than to avoid
_TITLES = 6  # so many lines of a single cell may stand above a table
_PROSE = 60  # characters in the middle cell of a column from which on it is prose, not a list of values


class Row(NamedTuple):
    """A row with something in it: the first column filled, how many are, its text from there on, and whether all are words."""

    first: int
    filled: int
    text: str
    words: bool


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """One document: the sheets of the workbook."""
    if not data.startswith((b"PK", b"\xd0\xcf\x11\xe0")):
        raise DocumentError("type_mismatch", "named like a workbook, but neither a ZIP archive nor an OLE file")
    ready = prepared(data) if data.startswith(b"PK") else Prepared(data)
    try:
        book = _open(ready)
    except DocumentError:
        if not data.startswith(b"PK"):
            raise
        book = _open(mended(ready))
    out, states, lost, failures = Canonical(), dict[str, str](), ready.lost, list[DocumentError]()
    for index, sheet in enumerate(book.sheets_metadata):
        if sheet.typ not in _READ:
            continue
        states[sheet.name] = next((state for value, state in _HIDDEN if sheet.visible == value), "visible")
        if states[sheet.name] == "veryHidden":
            lost.append(f"{sheet.name!r} is very hidden and left out")
            continue
        try:
            if index in ready.refused:
                raise ready.refused[index]
            _add_sheet(out, sheet.name, book, index, ready.comments.get(index, []))
            if count := ready.unsolved.get(index):
                lost.append(f"{count:,} cells of {sheet.name!r} hold a formula whose result the file doesn't have")
        except DocumentError as error:
            failures.append(error)
            lost.append(f"{sheet.name!r} could not be read ({error})")
    if failures and len(failures) == len(states):
        raise DocumentError(failures[0].kind, "; ".join(lost)[:500])
    told = {"sheets": str(len(states)), "sheet_states": json.dumps(states, ensure_ascii=False), "warning": "; ".join(lost)}
    yield out.document(ready.metadata | {key: value for key, value in told.items() if value})


def _open(ready: Prepared) -> CalamineWorkbook:
    return _calm(lambda: CalamineWorkbook.from_filelike(io.BytesIO(ready.data)))


def _calm(read: Callable[[], T]) -> T:
    """What calamine gives; its panics, which are no Exceptions, and its errors as DocumentErrors."""
    try:
        return read()
    except PasswordError as error:
        raise DocumentError("encrypted", "a workbook under a password") from error
    except BaseException as error:  # as `is_fault` says
        if not is_fault(error):
            raise
        raise DocumentError("corrupt", f"calamine can't read it: {error}"[:300]) from error


def _add_sheet(out: Canonical, name: str, book: CalamineWorkbook, index: int, comments: list[str]) -> None:
    """The sheet's name, its tables and the lines between them, its comments; nothing for an empty sheet."""
    sheet = _calm(lambda: book.get_sheet_by_index(index))
    groups = [[*group] for group in _groups(_calm(lambda: _grid(sheet)))]
    if groups or comments:
        out.add("heading", [" ".join(name.split()) or f"Sheet {index + 1}"], level=1)
    for group in groups:
        _add_group(out, group)
    for comment in comments:
        out.add("notes", [comment])


def _grid(sheet: CalamineSheet) -> Iterable[list[Any]]:
    """The rows, one at a time unless much that is empty comes before them."""
    padding = sheet.total_height * sheet.total_width - sheet.height * sheet.width
    return sheet.iter_rows() if padding < _PAD else sheet.to_python()


def _groups(grid: Iterable[list[Any]]) -> Iterator[list[Row]]:
    """The rows between blank ones. A table that goes on after a blank row is one."""
    group, blank = list[Row](), False
    for values in grid:
        row = _row(values)
        if row is None:
            blank = True
            continue
        if group and blank and not _goes_on(group, row):
            yield group
            group = []
        group.append(row)
        blank = False
    if group:
        yield group


def _row(values: list[Any]) -> Row | None:
    """The row in words; None for an empty one."""
    texts = [_SHOWN[type(value)](value) for value in values]
    filled = [i for i, text in enumerate(texts) if text]
    if not filled:
        return None
    words = all(type(values[i]) is str for i in filled)
    return Row(filled[0], len(filled), " | ".join(texts[filled[0] : filled[-1] + 1]), words)


def _goes_on(group: list[Row], row: Row) -> bool:
    """Whether a row after a blank one belongs to the table above: values under its header, in as many columns."""
    heads = next((head for head in group[:_TITLES] if head.filled > 1), None)
    return (
        heads is not None
        and len(group) > 1
        and heads.words
        and not row.words
        and (row.first, row.filled) == (heads.first, heads.filled)
    )


def _add_group(out: Canonical, group: list[Row]) -> None:
    """A table behind its titles; prose as paragraphs."""
    top = next((i for i, row in enumerate(group) if row.filled > 1), len(group))
    if top == len(group) and (top == 1 or len(sorted(group, key=lambda row: len(row.text))[top // 2].text) > _PROSE):
        titles, table = group, list[Row]()
    else:
        titles, table = (group[:top], group[top:]) if top <= _TITLES and top < len(group) else ([], group)
    for row in titles:
        out.add("paragraph", [row.text])
    if table:
        first = min(row.first for row in table)
        lines = [(" | " * (row.first - first) + row.text).lstrip() for row in table]
        out.add("table", lines, seams=list(range(len(lines))))


def _words(value: str) -> str:
    return " ".join(value.split())


def _number(value: float) -> str:
    """With the 15 digits that spreadsheets keep, and no more than it needs."""
    return f"{value:.15g}"


def _moment(value: datetime.datetime | datetime.time) -> str:
    exact = "milliseconds" if value.microsecond else "seconds"
    return value.isoformat(timespec=exact) if isinstance(value, datetime.time) else value.isoformat(" ", exact)


def _duration(value: datetime.timedelta) -> str:
    """Hours, minutes and seconds: 255:10:10."""
    seconds = round(abs(value.total_seconds()))
    sign = "-" if value < datetime.timedelta() else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


_SHOWN: dict[type, Callable[[Any], str]] = {
    str: _words,
    float: _number,
    int: str,
    bool: lambda value: "TRUE" if value else "FALSE",
    datetime.date: datetime.date.isoformat,
    datetime.datetime: _moment,
    datetime.time: _moment,
    datetime.timedelta: _duration,
}
