"""The parts of a Word file, by their relations; a broken one other than the main one costs a warning."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lxml import etree

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Member
from chunkmill.io.parsers.wordstyles import Numbering, Styles
from chunkmill.io.parsers.xmltree import damage, local, tree
from chunkmill.io.parsers.zipped import Package

WHAT = "the Word document"
_STRICT = (
    (b"http://purl.oclc.org/ooxml/wordprocessingml/main", b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
    (
        b"http://purl.oclc.org/ooxml/officeDocument/relationships",
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    ),
    (b"http://purl.oclc.org/ooxml/officeDocument/math", b"http://schemas.openxmlformats.org/officeDocument/2006/math"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
)
_PROPERTIES = {
    "title": "title", "creator": "author", "language": "language", "subject": "subject", "description": "description",
    "keywords": "keywords", "category": "category",
}  # fmt: skip
_MARGIN = 500  # characters of headers or footers that are kept
_MARGINS = 20  # parts of them that are looked at


class Relation(NamedTuple):
    """A relationship of a part: the last word of its type, and the part it leads to ("" for one outside the file)."""

    type: str
    target: str


class Word:
    """The parts of a Word file. A broken part other than the main one costs a warning."""

    def __init__(self, package: Package) -> None:
        self.package, self.warnings = package, [*package.warnings]
        self.top = self._relations("")
        self.main = self._target(self.top, "officeDocument") or "word/document.xml"
        self.root = _xml(package, self.main)
        if damaged := damage(self.root):
            self.warnings.append(f"{self.main} is damaged XML, read as far as possible: {damaged}")
        self.relations = self._relations(self.main)
        self.styles = Styles(self.part("styles"))
        self.numbering = Numbering(self.part("numbering"))

    def part(self, type: str) -> etree._Element | None:
        """The part of the main part that has this type."""
        return self._read(self._target(self.relations, type))

    def properties(self) -> dict[str, str]:
        """What the core properties say."""
        found: dict[str, str] = {}
        root = self._read(self._target(self.top, "core-properties"))
        dates = {}
        for element in () if root is None else root:
            text, name = " ".join((element.text or "").split()), local(element)
            if text and name in _PROPERTIES:
                found[_PROPERTIES[name]] = text
            elif text and name in ("created", "modified"):
                dates[name] = text
        if date := dates.get("modified") or dates.get("created"):
            found["date"] = date
        return found

    def margins(self, words: Callable[[etree._Element], str]) -> dict[str, str]:
        """The headers and footers, each once; `words` reads one."""
        found: dict[str, str] = {}
        for kind in ("header", "footer"):
            parts = [self._read(r.target) for r in self.relations.values() if r.type == kind and r.target]
            said = (" ".join(words(part).split()) for part in parts[:_MARGINS] if part is not None)
            texts = dict.fromkeys(text for text in said if any(map(str.isalpha, text)))
            if texts:
                found[kind] = " / ".join(texts)[:_MARGIN]
        return found

    def bytes(self, id: str) -> bytes:
        """The part that a relation of the main part leads to; b"" where there is none."""
        target = self.relations[id].target if id in self.relations else ""
        try:
            return self.package.read(target) if target else b""
        except DocumentError as error:
            if error.kind != "corrupt":
                raise
            return b""

    def members(self, ids: list[str]) -> Iterator[Member]:
        """The embedded files."""
        for id in dict.fromkeys(ids):
            if id in self.relations and (data := self.bytes(id)):
                yield Member(posixpath.basename(self.relations[id].target), data)

    def related(self, id: str) -> etree._Element | None:
        """The XML part that a relation of the main part leads to."""
        return self._read(self.relations[id].target) if id in self.relations else None

    def _read(self, name: str) -> etree._Element | None:
        if not name or name not in self.package:
            return None
        try:
            return _xml(self.package, name)
        except DocumentError as error:
            if error.kind in ("too_large", "encrypted"):
                raise
            self.warnings.append(f"{name} could not be read: {error}")
            return None

    def _target(self, relations: Mapping[str, Relation], type: str) -> str:
        return next((r.target for r in relations.values() if r.type == type and r.target in self.package), "")

    def _relations(self, part: str) -> dict[str, Relation]:
        folder, base = posixpath.split(part)
        root = self._read(posixpath.join(folder, "_rels", f"{base}.rels"))
        return {} if root is None else {r.get("Id", ""): _relation(r, folder) for r in root if local(r) == "Relationship"}


def _relation(element: etree._Element, folder: str) -> Relation:
    target, outside = element.get("Target", ""), element.get("TargetMode") == "External"
    path = posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/")
    return Relation(element.get("Type", "").rpartition("/")[2], "" if outside else path)


def _xml(package: Package, name: str) -> etree._Element:
    data = package.read(name)
    if b"purl.oclc.org" in data:
        for strict, transitional in _STRICT:
            data = data.replace(strict, transitional)
    return tree(data, f"{name} in {WHAT}")
