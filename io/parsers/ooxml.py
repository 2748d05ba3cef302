"""What the Office Open XML formats share: how parts refer to each other, and the properties of a document.

Names are compared without their namespaces: the strict variant has others than the usual one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from lxml import etree

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.text import mend
from chunkmill.io.parsers.xmltree import damage, local, tree
from chunkmill.io.parsers.zipped import Package

_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "modified": "date",
    "created": "created",
    "language": "language",
    "subject": "subject",
    "keywords": "keywords",
    "description": "description",
}
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")


class Relation(NamedTuple):
    """What a part refers to: the last word of the relation's type, and the name of the other part."""

    kind: str
    part: str


def relations(package: Package, part: str) -> dict[str, Relation]:
    """The relations of a part inside the package, by id; "" is the package itself. Broken ones are none."""
    folder, name = posixpath.split(part)
    where = posixpath.join(folder, "_rels", f"{name}.rels")
    if where not in package:
        return {}
    try:
        found = tree(package.read(where), where)
    except DocumentError as error:
        if error.kind != "corrupt":
            raise
        package.warn(f"{where} could not be read")
        return {}
    if damage(found):
        package.warn(f"{where} is damaged XML, read as far as possible")
    return {
        relation.get("Id", ""): Relation(
            relation.get("Type", "").rpartition("/")[2], _joined(folder, relation.get("Target", ""))
        )
        for relation in found.iter("{*}Relationship")
        if relation.get("TargetMode") != "External"
    }


def _joined(folder: str, target: str) -> str:
    path = unquote(target.replace("\\", "/"))
    return posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/")


def related(links: dict[str, Relation], kind: str) -> list[str]:
    """The parts of one kind that are referred to, in order."""
    return [link.part for link in links.values() if link.kind == kind]


def properties(package: Package) -> dict[str, str]:
    """The core properties of a document, under the names that metadata have here."""
    found: dict[str, str] = {}
    for part in related(relations(package, ""), "core-properties") or ["docProps/core.xml"]:
        if part not in package:
            continue
        try:
            root = tree(package.read(part), part)
        except DocumentError:
            continue  # the text is worth more
        for element in root:
            if value := " ".join((element.text or "").split()):
                found.setdefault(_PROPERTIES.get(local(element), ""), mend(value)[0])
    found.pop("", None)
    if "created" in found:
        found.setdefault("date", found["created"])
    return found


def attribute(element: etree._Element, name: str) -> str:
    """The attribute of this local name, in whatever namespace; "" for none."""
    return next((str(value) for key, value in element.items() if str(key).rpartition("}")[2] == name), "")


def outermost(root: etree._Element, *names: str) -> Iterator[etree._Element]:
    """The elements of these local names that stand in no other of them, in document order: no text comes twice."""
    walk = etree.iterwalk(root, events=("start",), tag=[f"{{*}}{name}" for name in names])
    for _, element in walk:
        yield element
        walk.skip_subtree()


def reference(element: etree._Element) -> str:
    """The id of the relation that an element names: `r:id`, which is not its own `id`."""
    return next((str(v) for k, v in element.items() if str(k).startswith("{") and str(k).endswith("}id")), "")


def unescaped(text: str) -> str:
    """Text with `_x000B_` and the like resolved: what is not white space of these characters is dropped."""
    if "_x" in text:
        text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)
        text = mend(text)[0]
    return _CONTROLS.sub("", text)
