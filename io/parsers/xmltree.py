"""XML of unknown origin as a tree: no entity is expanded, nothing is fetched, and it may not nest without end."""

from __future__ import annotations

import re

from lxml import etree

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.limits import limits

_ENTITY = re.compile(rb"<!ENTITY\s+(?:%\s+)?[^\s>]+\s+(?:SYSTEM|PUBLIC|[\"'])", re.I)
_DOCTYPE = re.compile(rb"<!DOCTYPE", re.I)
_HEAD = 1 << 10
_SURROGATE = re.compile(
    rb"&#(?:0*5(?:529[6-9]|5[3-9]\d\d|6\d{3}|7[0-2]\d\d|73[0-3]\d|734[0-3])|[xX]0*[dD][89a-fA-F][0-9a-fA-F]{2});"
)
_OPENING = re.compile(rb"<(/?)[A-Za-z_][^<>]*?(/?)>")


def tree(data: bytes, what: str, *, entities: bool = False) -> etree._Element:
    """The root element. `recover`s from small damage: the text is worth more than the mark-up.

    Raises DocumentError: `unsafe_xml` where entities are declared (unless `entities` says that they may be: they stay
    unexpanded), `too_deep`, and `corrupt` where nothing can be read.
    """
    return mended(data, what, entities=entities)[0]


def mended(data: bytes, what: str, *, entities: bool = False) -> tuple[etree._Element, str]:
    """As `tree`, and the first damage that was recovered from, with its line; "" for none."""
    if not entities and declares_entities(data):
        raise DocumentError("unsafe_xml", f"{what} declares entities of its own, which can unfold or fetch without end")
    _check_depth(data, what)
    if b"&#" in data:  # libxml2 recovers from a lone surrogate with bytes that are no UTF-8
        data = _SURROGATE.sub(b"&#xFFFD;", data)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=True,
        recover=True,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise DocumentError("corrupt", f"{what} is not XML: {error}") from error
    if root is None:
        raise DocumentError("corrupt", f"{what} holds no element")
    damage = next((f"line {e.line}: {e.message}" for e in parser.error_log if e.level_name == "FATAL"), "")
    return root, damage


def damage(root: etree._Element) -> str:
    """What the reader had to recover from when it made this tree; "" where the XML was sound."""
    parser = root.getroottree().parser
    errors = [entry.message.strip() for entry in parser.error_log if entry.level > 1] if parser is not None else []
    return errors[0] if errors else ""


def declares_entities(data: bytes) -> bool:
    """Whether a document type declares entities; in UTF-16 too."""
    plain = data.replace(b"\0", b"") if b"\0" in data[:_HEAD] else data
    return bool(_DOCTYPE.search(plain)) and bool(_ENTITY.search(plain))


def local(element: etree._Element) -> str:
    """The element's name without its namespace; "" for what is no element (a comment, an entity)."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def flat(element: etree._Element) -> str:
    """All the text in it, comments and instructions aside."""
    return "".join(element.itertext(etree.Element))  # type: ignore[arg-type]  # lxml takes it, its stubs know names alone


def _check_depth(data: bytes, what: str) -> None:
    allowed = limits().nesting
    if data.count(b"<") < allowed:
        return
    depth = 0
    for match in _OPENING.finditer(data):
        depth += -1 if match[1] else 0 if match[2] else 1
        if depth > allowed:
            raise DocumentError("too_deep", f"{what} nests deeper than {allowed} elements")
