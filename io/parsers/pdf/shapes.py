"""What the steps of the PDF parser hand each other. Boxes are (x0, y0, x1, y1) in points as the page is shown, y downwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

from chunkmill.chunkers.base import Kind

Box: TypeAlias = tuple[float, float, float, float]


class Line(NamedTuple):
    """Text on one baseline without a wide gap: a whole line, or a cell. `angle` is in degrees, 90 reads downwards."""

    text: str
    box: Box
    size: float
    mono: bool = False
    bold: bool = False
    italic: bool = False
    hidden: bool = False
    angle: int = 0


class Row(NamedTuple):
    """What stands side by side in one column. `turned` if it runs in another direction than most of its page."""

    text: str
    box: Box
    size: float
    mono: bool = False
    bold: bool = False
    italic: bool = False
    hidden: bool = False
    turned: bool = False


class Table(NamedTuple):
    """Rows of cells, the header first."""

    box: Box
    rows: tuple[tuple[str, ...], ...]


Leaf: TypeAlias = list["Row | Table"]


class Picture(NamedTuple):
    """An image on a page."""

    box: Box
    png: bytes


class Extra(NamedTuple):
    """What stands on a page besides its text: a comment, or its form fields."""

    kind: Kind
    lines: tuple[str, ...]


class Raw(NamedTuple):
    """A page as an engine gives it: lines in the file's order, boxes of drawn rules and rectangles.

    `fields` are form fields with a value, which is not among the lines.
    """

    width: float
    height: float
    lines: list[Line]
    rules: list[Box]
    fields: int = 0


class Sheet(NamedTuple):
    """A page laid out: columns of rows and tables in reading order.

    `state` is "" for text that can be used, else `damaged`, `empty`, `scan`, `unread` (by OCR, which found no words), `garbage`
    (no character is known), `doubtful` (the letters make no words) or `ocr`.
    """

    number: int
    width: float
    height: float
    leaves: list[Leaf]
    state: str = ""
    hidden: int = 0
    note: str = ""
    fields: int = 0
    extras: tuple[Extra, ...] = ()
    pictures: tuple[Picture, ...] = ()
    unknown: int = 0  # lines left out because no character of theirs is known


class Damaged(Exception):  # noqa: N818  # not an error of the document
    """A page that its engine can't read."""


class Engine(Protocol):
    """A PDF library. Numbers of pages count from 0."""

    count: int

    def page(self, number: int) -> Raw:
        """Text and rules of a page. Raises `Damaged`."""
        ...

    def words(self, number: int) -> list[Line]:
        """The page's words."""
        ...

    def covered(self, number: int) -> tuple[float, int]:
        """The share of the page under images, and the pixels of the largest."""
        ...

    def rendered(self, number: int, scale: float) -> bytes:
        """The page as a grey PNM."""
        ...

    def extras(self, number: int, annotations: bool, form_fields: bool) -> list[Extra]:
        """Comments and form fields."""
        ...

    def pictures(self, number: int) -> Iterator[Picture]:
        """The images of a page that are neither tiny nor huge."""
        ...

    def outline(self) -> list[tuple[int, str, int]]:
        """(level, title, page from 1)."""
        ...

    def metadata(self) -> dict[str, str]:
        """title, author, date, language, attachments and warning, where known."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...
