"""EPUB books: the chapters in the order of the spine, each read by the web-page parser, as one text.

`page` is the place in the spine (from 1), and `spine_items` how many there are. Pages outside the linear order (`linear="no"`)
are kept where they stand: a reader can reach them. A table of contents and the cover are left out, readings over characters
(ruby) too. A chapter without a heading takes its title from the book's navigation. What DRM has encrypted is `encrypted`;
obfuscated fonts are not.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import unquote

from lxml import etree

from chunkmill.chunkers.base import Block, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Image, Parsed, html
from chunkmill.io.parsers.joined import GAP, joined, moved, words
from chunkmill.io.parsers.text import decode
from chunkmill.io.parsers.xmltree import flat, local, tree
from chunkmill.io.parsers.zipped import Package

_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "application/xml", "text/xml", "image/svg+xml")
_FONT_ONLY = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_FONT = re.compile(r"\.(?:otf|ttf|ttc|woff2?|eot|pfb)$", re.I)
_IMAGE = re.compile(r"<(?:img|image)\b[^<>]*>", re.I)
_ATTRIBUTE = re.compile(r"""\b(src|href|alt)\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.I)
_MARK = "\ue000"  # stands for a picture while its place is looked for
_COVER = 300  # a cover page that says more than this is kept
_FALLBACKS = 5


class Item(NamedTuple):
    """A file of the book: its path in the archive, its media type, and the item to take if that can't be read."""

    path: str
    media: str = ""
    fallback: str = ""


@dataclass
class Book:
    """What the package document says: the files of the spine in order, the navigation's titles by file, the cover's page."""

    spine: list[Item] = field(default_factory=list)
    titles: dict[str, tuple[int, str]] = field(default_factory=dict)
    covers: set[str] = field(default_factory=set)
    metadata: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The book as one document. A chapter that is missing or damaged is left out with a warning."""
    package = Package(data, "the book")
    _refuse_drm(package)
    book = _book(package)
    book.warnings += package.warnings
    pages, lost, images = list[Parsed](), list[str](), list[Image]()
    at = 0
    for number, item in enumerate(book.spine, 1):
        if book.spine.index(item) < number - 1:
            continue  # named twice
        try:
            source = _decoded(package.read(item.path))
        except DocumentError as error:
            if error.kind not in ("corrupt", "undecodable"):
                raise
            lost.append(item.path)
            continue
        page = _chapter(source, number, book, item)
        if page.text.strip():
            images += _images(package, source, page, item, number, at) if options.get("images") else ()
            pages.append(page)
            at += len(page.text) + len(GAP)
    if lost and not pages and any(n in package for n in ("META-INF/rights.xml", "META-INF/sinf.xml")):
        raise DocumentError("encrypted", "the book is under DRM: it carries rights, and no chapter can be read")
    if lost and not pages:
        raise DocumentError("corrupt", f"none of the book's {len(book.spine)} chapters can be read (first: {lost[0]})")
    if lost:
        book.warnings.append(f"{len(lost)} of {len(book.spine)} chapters could not be read: {', '.join(lost[:5])}")
    warning = {"warning": "; ".join(book.warnings)} if book.warnings else {}
    metadata = book.metadata | {"spine_items": str(len(book.spine))} | warning
    yield joined(pages)._replace(metadata=metadata, images=tuple(images))


def _refuse_drm(package: Package) -> None:
    """Raise `encrypted` where anything but fonts is encrypted."""
    if "META-INF/encryption.xml" not in package:
        return
    root = tree(package.read("META-INF/encryption.xml"), "META-INF/encryption.xml")
    for data in (e for e in root.iter(etree.Element) if local(e) == "EncryptedData"):
        method = next((str(e.get("Algorithm")) for e in data.iter(etree.Element) if local(e) == "EncryptionMethod"), "")
        files = [str(e.get("URI")) for e in data.iter(etree.Element) if local(e) == "CipherReference"]
        locked = [file for file in files if not _FONT.search(file)]
        if locked and method not in _FONT_ONLY:
            raise DocumentError(
                "encrypted", f"the book is under DRM: {locked[0]!r} is encrypted with {method.rpartition('#')[2]}"
            )


def _book(package: Package) -> Book:
    """The book's parts, or where its package document is missing, its pages by name."""
    path = _package_path(package)
    if not path:
        pages = [Item(n) for n in sorted(package.names) if re.search(r"\.x?html?$", n, re.I)]
        if not pages:
            raise DocumentError("corrupt", "the book has no package document (.opf) and no pages")
        return Book(pages, warnings=["no package document: pages in the order of their names"])
    root = tree(package.read(path), path)
    base = posixpath.dirname(path)
    items = {
        str(e.get("id")): _item(package, base, e) for e in root.iter(etree.Element) if local(e) == "item" and e.get("href")
    }
    spine = [
        items.get(str(e.get("idref"))) or Item(str(e.get("idref"))) for e in root.iter(etree.Element) if local(e) == "itemref"
    ]
    book = Book([_readable(item, items) for item in spine], metadata=_metadata(root))
    book.covers = {
        _path(base, str(e.get("href")))
        for e in root.iter(etree.Element)
        if local(e) == "reference" and e.get("type") == "cover"
    }
    for entry in root.iter(etree.Element):
        if local(entry) == "item" and (_is_nav(entry) or str(entry.get("media-type")) == "application/x-dtbncx+xml"):
            _add_titles(package, _item(package, base, entry).path, book)
    return book


def _is_nav(element: etree._Element) -> bool:
    return "nav" in str(element.get("properties") or "").split()


def _package_path(package: Package) -> str:
    """Where the package document is: as the container says, else the first there is."""
    if "META-INF/container.xml" in package:
        try:
            root = tree(package.read("META-INF/container.xml"), "META-INF/container.xml")
            for element in root.iter(etree.Element):
                if local(element) == "rootfile" and (path := unquote(str(element.get("full-path")))) in package:
                    return path
        except DocumentError as error:
            if error.kind not in ("corrupt", "unsafe_xml"):
                raise
    return next((n for n in package.names if n.lower().endswith(".opf")), "")


def _item(package: Package, base: str, element: etree._Element) -> Item:
    path = _path(base, str(element.get("href")))
    if path not in package:
        path = next((n for n in package.names if n.lower() == path.lower()), path)
    return Item(path, str(element.get("media-type") or ""), str(element.get("fallback") or ""))


def _path(base: str, reference: str) -> str:
    """The path in the archive of a reference from a file in this folder."""
    return posixpath.normpath(posixpath.join(base, unquote(reference.partition("#")[0]))).lstrip("/")


def _readable(item: Item, items: Mapping[str, Item]) -> Item:
    """The item, or the page it falls back to where it is none."""
    for _ in range(_FALLBACKS):
        if item.media in _PAGES or item.fallback not in items:
            break
        item = items[item.fallback]
    return item


def _metadata(root: etree._Element) -> dict[str, str]:
    """What Dublin Core says: title, author, language, date, publisher, identifier, description, subject."""
    found: dict[str, list[str]] = {}
    for element in root.iter("{http://purl.org/dc/elements/1.1/}*"):
        if text := words(flat(element)):
            found.setdefault(local(element), []).append(text)
    one = {"title": "title", "language": "language", "date": "date", "publisher": "publisher", "identifier": "identifier"}
    several = {"creator": "author", "subject": "subject", "contributor": "contributor"}
    metadata = {key: found[name][0] for name, key in one.items() if name in found}
    return metadata | {key: ", ".join(dict.fromkeys(found[name])) for name, key in several.items() if name in found}


def _add_titles(package: Package, path: str, book: Book) -> None:
    """The first title that the navigation gives each file, and how deep it stands."""
    try:
        root = tree(_decoded(package.read(path)).encode("utf-8", "replace"), path, entities=True)
    except DocumentError as error:
        if error.kind not in ("corrupt", "too_deep", "undecodable"):
            raise
        return
    base, depth = posixpath.dirname(path), 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        name = local(element)
        if name in ("ol", "navPoint"):
            depth += 1 if event == "start" else -1
        if event == "start" and name == "a" and element.get("href"):
            if "cover" in str(element.get("{http://www.idpf.org/2007/ops}type") or "").split():
                book.covers.add(_path(base, str(element.get("href"))))
            _add_title(book, _path(base, str(element.get("href"))), depth, flat(element))
        elif event == "start" and name == "content" and element.get("src"):
            label = next((e for e in _parent(element) if local(e) == "navLabel"), None)
            text = "" if label is None else flat(label)
            _add_title(book, _path(base, str(element.get("src"))), depth, text)


def _add_title(book: Book, path: str, depth: int, title: str) -> None:
    if words(title):
        book.titles.setdefault(path, (max(1, depth), words(title)))


def _parent(element: etree._Element) -> etree._Element:
    above = element.getparent()
    return element if above is None else above


def _decoded(data: bytes) -> str:
    declared = html._CHARSET.search(data[:1024])
    return decode(data, (declared[1] or declared[2]).decode("ascii") if declared else "")[0]


def _chapter(source: str, number: int, book: Book, item: Item) -> Parsed:
    """A page of the spine, its blocks numbered with its place."""
    page = _read(source)
    if item.path in book.covers and len(page.text) <= _COVER:
        return Parsed("")
    if item.path in book.titles and page.text.strip() and not any(b.kind == "heading" for b in page.blocks):
        page = _titled(page, *book.titles[item.path])
    return page._replace(blocks=tuple(b._replace(page=number) for b in page.blocks))


def _read(source: str) -> Parsed:
    return next(html.parse(html.closed(source).encode("utf-8", "replace"), "", {}))


def _titled(page: Parsed, level: int, title: str) -> Parsed:
    """The page under the title: its first paragraph, if that says it, else a heading in front."""
    first = page.blocks[0] if page.blocks else None
    if first and words(page.text[slice(*first.span)]).casefold() == title.casefold():
        return page._replace(blocks=(first._replace(kind="heading", level=level), *page.blocks[1:]))
    blocks = [moved(b, len(title) + len(GAP)) for b in page.blocks]
    return page._replace(text=title + GAP + page.text, blocks=(Block("heading", Span(0, len(title)), level), *blocks))


def _images(package: Package, source: str, page: Parsed, item: Item, number: int, at: int) -> Iterator[Image]:
    """The pictures of a page, each at its place in the text: behind as many characters that are not white as in the source."""
    found = [{k.lower(): a or b for k, a, b in _ATTRIBUTE.findall(tag)} for tag in _IMAGE.findall(source)]
    if not found:
        return
    marked = _read(_IMAGE.sub(rf"{_MARK}\g<0>", source.replace(_MARK, ""))).text.split(_MARK)
    missing = len("".join(page.text.split())) - len("".join("".join(marked).split()))  # a title put in front
    before = accumulate(len("".join(part.split())) for part in marked)
    places = _offsets(page.text, [n + missing for n in before])
    for picture, place in zip(found, places, strict=False):
        if png := _png(package, _path(posixpath.dirname(item.path), picture.get("src") or picture.get("href") or "")):
            yield Image(Span(at + place, at + place), png, number, caption=words(picture.get("alt", "")))


def _offsets(text: str, counts: list[int]) -> list[int]:
    """Where in the text so many characters that are not white have passed. Linear."""
    offsets, passed, at = list[int](), 0, 0
    for count in counts:
        while passed < count and at < len(text):
            passed += not text[at].isspace()
            at += 1
        offsets.append(at)
    return offsets


def _png(package: Package, path: str) -> bytes:
    """The picture as PNG; nothing where it is missing or can't be read."""
    import pymupdf

    if path not in package:
        return b""
    data = package.read(path)
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return data
        return bytes(pymupdf.Pixmap(data).tobytes("png"))  # type: ignore[no-untyped-call]  # MuPDF has no types
    except Exception:
        # MuPDF raises its own errors for any picture it can't read; the text is worth more.
        return b""
