"""XML: the document a reader of it would see, never its mark-up.

Articles and books (JATS, DocBook, TEI, DITA, patents, anything with paragraphs) become a page of HTML and go through the
web-page parser; feeds an entry per heading; OPML a nested list; SVG its texts. Any other XML is data: each of the repeated
children is a `record` of `name: value` lines (attributes too), which embeds better than tags do. `source: true` keeps the
decoded source as the text instead, without blocks, for the strategy `records`, which cuts at the tags themselves.

Entities: the names HTML knows are read, any other reference stays as it is written, none is ever expanded. One declared with
something to fetch or unfold in it is `unsafe_xml`; harmless short ones only stay unread.
"""

from __future__ import annotations

import html.entities
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from lxml import etree

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.articles import Walk
from chunkmill.io.parsers.feeds import FEEDS, feed, outline
from chunkmill.io.parsers.joined import page, words
from chunkmill.io.parsers.text import Canonical, decode
from chunkmill.io.parsers.vocabularies import is_prose, vocabulary
from chunkmill.io.parsers.xmltree import flat, local, mended

_DECLARATION = re.compile(r"\s*<\?xml\b[^>]{0,500}?\?>")
_ENCODING = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_DOCTYPE = re.compile(
    r"""(?P<before>(?:\s++|<!--.*?-->|<\?.*?\?>)*+)<!DOCTYPE(?:[^\[<>"']++|"[^"]*+"|'[^']*+')*+"""
    r"""(?:\[(?P<inside>(?:[^\]<"']++|"[^"]*+"|'[^']*+'|<!--.*?-->|<(?:[^>"']++|"[^"]*+"|'[^']*+')*+>)*+)\]\s*+)?+>""",
    re.S | re.I,
)
_ENTITY = re.compile(r"""<!ENTITY\s+(?P<name>%\s*\S+|[^\s%]+)\s+(?:"(?P<a>[^"]*)"|'(?P<b>[^']*)'|(?P<fetched>\w+))""", re.I)
_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|&(?P<name>[^\s&;<>\"'#]{1,60};|#[xX]?[0-9a-fA-F]{1,8};)?", re.S
)
_XML_OWN = frozenset(["lt;", "gt;", "amp;", "quot;", "apos;"])
_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HARMLESS = 1000
_DEEPEST_LIST = 4
_NAMES = 4  # of a path
_XSI = "{http://www.w3.org/2001/XMLSchema-instance}"


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The document, read by the vocabulary its root element names."""
    declared = _ENCODING.match(data[:500])
    source, metadata = decode(data, declared[1].decode("ascii") if declared else "")
    if options.get("source"):
        yield Parsed(source, (), metadata)
        return
    source, warning = _safe(source)
    root, damage = mended(source.encode("utf-8", "replace"), "the document")
    if damage:
        warning = "; ".join(filter(None, (warning, f"not well-formed XML ({damage}): read as far as it goes")))
    parsed = _document(root, source)
    warned = {"warning": warning} if warning else {}
    yield parsed._replace(metadata=parsed.metadata | metadata | warned)


def _document(root: etree._Element, source: str) -> Parsed:
    kind = local(root).lower()
    if kind in FEEDS:
        return feed(root)
    if kind == "opml":
        return outline(root)
    if kind == "html":
        return page(source)
    if (known := vocabulary(root)) is not None:
        return Walk(known).document(root)
    if is_prose(root):
        return Walk().document(root)
    parent, name = _list(root)
    if parent is None and any(_is_mixed(element) for element in root.iter(etree.Element)):
        return Walk().document(root)
    return _records(root, parent, name)


def _safe(source: str) -> tuple[str, str]:
    """The source without its declaration and document type, every reference in it one that means a character; and a warning."""
    declaration = _DECLARATION.match(source)
    start = declaration.end() if declaration else 0
    found = _DOCTYPE.match(source, start, start + (1 << 20))
    left = _refuse_unsafe(found["inside"] or "") if found else 0
    start = found.end() if found else start
    source = _CONTROLS.sub("", source[start:].lstrip("\ufeff \t\r\n"))
    warning = f"{left} entities of its own are left as written" if left else ""
    return _REFERENCE.sub(_character, source) if "&" in source else source, warning


def _refuse_unsafe(declarations: str) -> int:
    """How many harmless entities are declared. Raises `unsafe_xml` for one that could unfold or fetch."""
    found = list(_ENTITY.finditer(declarations))
    for entity in found:
        value = entity["a"] or entity["b"] or ""
        if entity["fetched"] or entity["name"].startswith("%") or "&" in value or "%" in value or len(value) > _HARMLESS:
            raise DocumentError(
                "unsafe_xml", f"the document declares an entity {entity['name']!r} that unfolds or fetches something"
            )
    return len(found)


def _character(reference: re.Match[str]) -> str:
    """A reference as XML can read it without a document type."""
    text = reference.group()
    if text[0] != "&":
        return text  # a comment or CDATA, where nothing is a reference
    name = reference["name"] or ""
    if name in _XML_OWN or name.startswith("#"):
        return text
    if name in html.entities.html5:
        return html.entities.html5[name]
    return "&amp;" + name


def _list(root: etree._Element) -> tuple[etree._Element | None, str]:
    """The outermost element most of whose children go by one name, and that name; None where nothing is repeated."""
    row = [root]
    for _ in range(_DEEPEST_LIST):
        for element in row:
            tags = Counter(child.tag for child in element.iterchildren(etree.Element))
            if tags:
                tag, count = tags.most_common(1)[0]
                if count > 1 and count * 2 > tags.total() and _are_records(element, str(tag)):
                    return element, str(tag)
        row = [child for element in row for child in element.iterchildren(etree.Element)]
    return None, ""


def _are_records(element: etree._Element, tag: str) -> bool:
    """Whether the children of this name hold values of their own (and are no paragraphs with mark-up in them)."""
    children = list(element.iterchildren(tag))
    return any((len(child) or child.attrib) and not _is_mixed(child) for child in children)


def _is_mixed(element: etree._Element) -> bool:
    """Whether text and elements stand beside each other in it."""
    return len(element) > 0 and _has_text(element)


def _has_text(element: etree._Element) -> bool:
    """Whether the element holds text of its own."""
    return bool((element.text and element.text.strip()) or any(child.tail and child.tail.strip() for child in element))


def _records(root: etree._Element, parent: etree._Element | None, name: str) -> Parsed:
    """A block per record; what stands around them in blocks of the same form."""
    out, lines = Canonical(), list[str]()
    path: list[str] = []  # names of the open elements; "" for those above a record
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        inside = element.getparent()
        begins = (inside is root and len(element) > 0) if parent is None else (inside is parent and element.tag == name)
        if event == "start":
            if begins:
                _close(out, lines)
            path.append("" if element is root or (parent is not None and begins) else local(element))
            lines += _values(element, _since(path))
            if _is_mixed(element):
                walk.skip_subtree()
        else:
            path.pop()
            if begins:
                _close(out, lines)
    _close(out, lines)
    language = root.get("{http://www.w3.org/XML/1998/namespace}lang")
    return out.document({"language": language} if language else {})


def _since(path: list[str]) -> str:
    """The names of the innermost elements, from the record on."""
    inner = path[-_NAMES:]
    while "" in inner:
        inner = inner[inner.index("") + 1 :]
    return ".".join(inner)


def _values(element: etree._Element, named: str) -> list[str]:
    """Lines for the element's own text and attributes, behind its name."""
    text = flat(element) if _is_mixed(element) else element.text or ""
    kept = element.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"
    value = text.strip() if kept else words(text)
    found = [f"{named}: {value}" if named else value] if value else []
    for key, attribute in element.attrib.items():
        if not str(key).startswith(_XSI) and words(str(attribute)):
            label = str(key).rpartition("}")[2]
            found.append(f"{named}.{label}: {words(str(attribute))}" if named else f"{label}: {words(str(attribute))}")
    return found


def _close(out: Canonical, lines: list[str]) -> None:
    if lines:
        out.add("record", "\n".join(lines).split("\n"))
        lines.clear()
