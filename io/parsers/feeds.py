"""Feeds and outlines: RSS, RDF and Atom with a heading per entry, OPML as a nested list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from html import escape

from lxml import etree

from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.joined import deeper, joined, page, words
from chunkmill.io.parsers.text import Canonical
from chunkmill.io.parsers.xmltree import flat, local

FEEDS = frozenset(("rss", "rdf", "feed"))
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|&(?:#?\w+);")
_BODIES = ("encoded", "content", "description", "summary", "subtitle", "tagline")


def feed(root: etree._Element) -> Parsed:
    """The feed's title and description, then its entries: title, date and author, and what they hold as a page of its own."""
    channel = next((e for e in root if local(e).lower() == "channel"), root)
    entries = [e for e in root.iter(etree.Element) if local(e).lower() in ("item", "entry")]
    parsed = joined([_entry(channel, 1), *(_entry(e, 2) for e in entries)])
    language = _field(channel, "language") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or ""
    date = _iso(_field(channel, "lastbuilddate") or _field(channel, "pubdate") or _field(channel, "updated"))
    found = {"title": _field(channel, "title"), "author": _field(channel, "author"), "date": date, "language": language}
    return parsed._replace(metadata={key: value for key, value in found.items() if value})


def _entry(element: etree._Element, level: int) -> Parsed:
    out = Canonical()
    if title := _field(element, "title"):
        out.add("heading", [title], level=level)
    if level > 1 and (by := list(_byline(element))):
        out.add("paragraph", [" · ".join(by)])
    return joined([out.document({}), deeper(_body(element), level)])


def _byline(element: etree._Element) -> Iterator[str]:
    for names in (("pubdate", "published", "updated", "date"), ("author", "creator")):
        if found := next(filter(None, (_field(element, name) for name in names)), ""):
            yield found
    if tags := [words(e.text or e.get("term") or "") for e in element if local(e).lower() == "category"]:
        yield ", ".join(filter(None, tags))


def _body(element: etree._Element) -> Parsed:
    """The fullest of the entry's texts, read as HTML where it is that."""
    children = {local(e).lower(): e for e in element if local(e).lower() in _BODIES}
    child = next((children[name] for name in _BODIES if name in children), None)
    if child is None:
        return Parsed("")
    if len(child):  # XHTML, as elements
        return page(etree.tostring(child, encoding="unicode", method="html", with_tail=False))
    text = child.text or ""
    return page(text if _TAG.search(text) else f"<p>{escape(text)}</p>")


def _field(element: etree._Element, name: str) -> str:
    found = next((e for e in element if local(e).lower() == name), None)
    if found is None:
        return ""
    person = next((e for e in found if local(e).lower() == "name"), found)
    text = words(flat(person))
    return words(page(text).text) if _TAG.search(text) else text


def _iso(date: str) -> str:
    try:
        return parsedate_to_datetime(date).isoformat()
    except (TypeError, ValueError, IndexError, OverflowError):
        return date


def outline(root: etree._Element) -> Parsed:
    """The outline as a list, an item for each entry with its note and its address."""
    out = list[str]()
    head = {local(e).lower(): words(e.text or "") for e in root.iter(etree.Element) if local(_above(e)).lower() == "head"}
    if title := head.get("title", ""):
        out.append(f"<h1>{escape(title)}</h1>")
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if local(element).lower() not in ("outline", "body"):
            continue
        inner = any(local(e).lower() == "outline" for e in element)
        item = local(element).lower() == "outline"
        if event == "start":
            out.append(("<li>" + _item(element)) * item + "<ul>" * inner)
        else:
            out.append("</ul>" * inner + "</li>" * item)
    found = {
        "title": title,
        "author": head.get("ownername", ""),
        "date": _iso(head.get("datemodified") or head.get("datecreated", "")),
    }
    return page("".join(out))._replace(metadata={key: value for key, value in found.items() if value})


def _item(element: etree._Element) -> str:
    text, note = (element.get(name) or "" for name in ("text", "_note"))
    address = element.get("xmlUrl") or element.get("url") or element.get("htmlUrl") or ""
    text = words(page(text or element.get("title") or "").text)
    return escape(text) + (f" ({escape(address)})" if address else "") + (f"<br>{escape(words(note))}" if note else "")


def _above(element: etree._Element) -> etree._Element:
    above = element.getparent()
    return element if above is None else above
