"""Web pages: the text a reader sees, built once in document order, with its blocks recorded on the way.

The tree is walked with a stack of our own: its depth comes from the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from chunkmill.chunkers.base import Kind
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.equations import linear
from chunkmill.io.parsers.text import Canonical, decode, mend

_DROPPED_TAGS = "script style template noscript head nav iframe noframes noembed svg canvas object rt rp"
_DROPPED = frozenset(_DROPPED_TAGS.split())
_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark nobr output q rb "
    "ruby s samp small span strike strong sub sup time tt u var wbr input"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BOXES: dict[str, Kind] = {"table": "table", "ul": "list", "ol": "list", "menu": "list", "dl": "list", "blockquote": "quote"}
_HIDDEN = (
    '[hidden], [style*="display:none"], [style*="display: none"], [style*="visibility:hidden"], [style*="visibility: hidden"], '
    '[role="navigation"], dialog:not([open]), .mw-editsection'
)
_WHITE = re.compile(r"[ \t\n\r\f]+")
_BREAKS = re.compile("\0(?: ?\0)+")  # two `br` or more, as between paragraphs
_PREFIX = re.compile(r"(</?)[\w.-]+:")
_XHTML = re.compile(r"\s*<\?xml\b|[^<]*(?:<!DOCTYPE[^>]*>\s*)?<html\b[^>]*\bxmlns=", re.I)
_VOID = "area base br col embed hr img input link meta param source track wbr"
_EMPTY = re.compile(rf"<(?!(?:{_VOID.replace(' ', '|')})\b)([A-Za-z][\w:.-]*)((?:\s[^<>]*?)?)/>")
_CHARSET = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w-]+)|<\?xml[^>]{0,200}?encoding=[\"']([\w-]+)", re.I)
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^>]*>")
_UNNESTED_TAGS = (
    "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th tbody thead tfoot option optgroup"
)
_UNNESTED = frozenset(_UNNESTED_TAGS.split())
_DEPTH = 512  # as browsers do, the tree is kept from growing deeper
_INDENT = 8
_SPANNED = 1000  # columns or rows that a cell is taken to cover at the most
_NAMED = re.compile(r"\W?\w{1,12}\W?\Z|\S+\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?|ico)\Z|\w+://\S+\Z", re.I)  # icons and files
_SITE = r"(?:\Z|\s+[-|:\u00b7\u00bb\u2013\u2014]\s|:\s)"  # what follows the page's own words in its title


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The readable text of a page; navigation, scripts and hidden elements are left out."""
    declared = _CHARSET.search(data[:4096])
    source, metadata = decode(data, (declared[1] or declared[2]).decode("ascii") if declared else "")
    tree = LexborHTMLParser(_flatter(closed(source) if _XHTML.match(source) else source))
    walk = _Walk(tree)
    if tree.root is not None:
        walk.run(tree.root)
    yield _crowned(walk.out.document(_head(tree) | metadata))


def closed(source: str) -> str:
    """XHTML as HTML has it: an empty element (`<title/>`, `<script/>`) would hold all that follows."""
    return _EMPTY.sub(r"<\1\2></\1>", source)


def _crowned(page: Parsed) -> Parsed:
    """The page with the heading that says what its title says as its top one, where it has no `h1`."""
    headings = [block for block in page.blocks if block.kind == "heading"]
    title = page.metadata.get("title", "")
    if not headings or any(h.level == 1 for h in headings) or not re.match(re.escape(headings[0].title) + _SITE, title):
        return page
    crowned = headings[0]._replace(level=1)
    return page._replace(blocks=tuple(crowned if block is headings[0] else block for block in page.blocks))


class _Walk:
    """One pass over the tree. `line` is the inline text under construction, `box` the list, table or quote it goes to."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self.out = Canonical()
        self.line: list[str] = []
        self.box: Kind | None = None
        self.opened = 0  # depth at which the box was opened
        self.lines: list[str] = []
        self.seams: list[int] = []
        self.cells: list[str] | None = None
        self.row: list[str] = []
        self.column = 0  # where the next cell of the row stands
        self.covered: dict[int, int] = {}  # of columns: how many rows more a cell above goes on
        self.inner = 0  # open tables inside a cell, whose own cells are text of that cell
        self.mark = ""  # what the next line of a list begins with
        self.counts: list[int] = []  # per open list: the number of the last item, or -1 for bullets
        self.pre = 0
        self.hidden = {node.mem_id for node in tree.css(_HIDDEN)} | _permalinks(tree)
        self.open_boxes = _ancestors(tree)

    def run(self, root: LexborNode) -> None:
        """Visit every node below the root in document order."""
        stack = [root]
        self.enter(root, 0)
        node, hidden = root.first_child, self.hidden
        while stack:
            if node is None:
                done = stack.pop()
                self.leave(done, len(stack))
                node = done.next if stack else None
            elif node.is_text_node:
                self.line.append(node.text_content or "")
                node = node.next
            elif (node.tag or "").rpartition(":")[2] == "math":
                self.line.append(_formula(node))
                node = node.next
            elif (
                (tag := node.tag or "") in _DROPPED
                or not node.is_element_node
                or (hidden and node.mem_id in hidden and tag != "body")
            ):
                node = node.next
            else:
                self.enter(node, len(stack))
                stack.append(node)
                node = node.first_child
        self.flush()

    def enter(self, node: LexborNode, depth: int) -> None:
        """Close what the element interrupts and open what it begins."""
        tag = node.tag or ""
        if tag == "img":
            self.line.append(_alternative(node))
        if tag in _INLINE:
            return
        if tag == "br":
            self.line.append("\n" if self.pre else "\0")
            return
        if self.pre:
            return
        self.flush()
        if tag == "pre":
            self.pre = depth
        elif tag in _BOXES:
            if self.box is None and node.mem_id not in self.open_boxes:
                self.box, self.opened = _BOXES[tag], depth
            if _BOXES[tag] == "list":
                self.counts.append(_number(node, "start", 1) - 1 if tag == "ol" else -1)
            self.inner += tag == "table" and self.cells is not None
        elif tag == "li":
            self.item(node)
        elif tag == "dt" and self.box == "list":
            self.seams.append(len(self.lines))
        elif tag == "dd" and self.box == "list":
            self.mark = "  "
        elif tag in ("thead", "tbody", "tfoot") and not self.inner:
            self.covered.clear()
        elif tag == "tr" and self.box == "table" and not self.inner:
            self.cells, self.column = [], 0
        elif tag in ("td", "th") and self.cells is not None and not self.inner:
            self.row = []

    def leave(self, node: LexborNode, depth: int) -> None:
        """Record the block that ends with the element."""
        tag = node.tag or ""
        if tag in _INLINE or tag == "br" or (self.pre and self.pre != depth):
            return
        if self.pre:
            self.code()
        elif tag in _HEADINGS and self.box is None:
            self.heading(_HEADINGS[tag])
        elif tag == "caption" and self.box == "table" and not self.inner:
            self.caption()
        else:
            self.flush()
        if self.inner and self.cells is not None:
            self.inner -= tag == "table"
        elif tag in ("td", "th") and self.cells is not None:
            self.end_cell(node, self.cells)
        elif tag == "tr" and self.cells is not None:
            self.end_row()
        elif tag in _BOXES:
            if _BOXES[tag] == "list" and self.counts:
                self.counts.pop()
                self.mark = ""
            if self.box is not None and self.opened == depth:
                self.close()

    def flush(self) -> None:
        """The line under construction becomes a paragraph, or a line of the box."""
        text = _collapsed(self.line)
        if self.box is None and self.cells is None:
            for paragraph in filter(None, text.split("\n\n")):
                self.place(paragraph.split("\n"))
        elif text:
            self.place(text.replace("\n\n", "\n").split("\n"))

    def place(self, lines: list[str]) -> None:
        """Put finished lines where they belong."""
        if self.cells is not None:
            self.row += lines
            return
        mark, self.mark = self.mark, ""
        if self.box is None:
            self.out.add("paragraph", [mark.lstrip() + lines[0], *lines[1:]])
        else:
            indent = " " * len(mark)
            self.lines += [mark + lines[0], *(indent + line for line in lines[1:])]

    def item(self, node: LexborNode) -> None:
        """An item begins: its first line carries the mark, and is a seam of the list."""
        depth = min(_INDENT, max(0, len(self.counts) - 1))
        if self.counts and self.counts[-1] >= 0:
            self.counts[-1] = _number(node, "value", self.counts[-1] + 1)
            mark = f"{self.counts[-1]}. "
        else:
            mark = "- "
        self.mark = "  " * depth + mark
        if self.box == "list" and (not self.seams or self.seams[-1] < len(self.lines)):
            self.seams.append(len(self.lines))

    def heading(self, level: int) -> None:
        """The line is a heading, on one line."""
        title = " ".join(_collapsed(self.line).split("\n"))
        if title and self.cells is None:
            self.out.add("heading", [title], level=level, title=title)
            self.mark = ""
        elif title:
            self.row.append(title)

    def caption(self) -> None:
        """A table's caption stands in front of it, as a paragraph."""
        text = _collapsed(self.line)
        if text and not self.lines:
            self.out.add("paragraph", text.split("\n"))
        elif text:
            self.lines += text.split("\n")

    def code(self) -> None:
        """Preformatted text keeps its white space."""
        self.pre = 0
        text = mend("".join(self.line).replace("\0", "\n"))[0]
        self.line.clear()
        lines = text.strip("\n").rstrip().split("\n")
        if not text.strip():
            return
        if self.cells is not None:
            self.row.append("\n".join(lines))
        elif self.box is not None:
            self.place(lines)
        else:
            self.out.add("code", lines)

    def end_cell(self, node: LexborNode, cells: list[str]) -> None:
        """A cell stands behind those that reach down from rows above; the columns that it covers besides its own are empty."""
        while self.covered.get(self.column):
            self.covered[self.column] -= 1
            self.column += 1
        cells += [""] * (self.column - len(cells)) + [" ".join(self.row)]
        after = self.column + min(max(1, _number(node, "colspan", 1)), _SPANNED)
        if (rows := min(_number(node, "rowspan", 1), _SPANNED)) > 1:
            self.covered |= dict.fromkeys(range(self.column, after), rows - 1)
        self.column = after

    def end_row(self) -> None:
        """A row is one line (more only where a cell holds preformatted text) and a seam of its table."""
        cells, self.cells = self.cells or [], None
        self.covered = {at: rows - (at >= self.column) for at, rows in self.covered.items() if rows > (at >= self.column)}
        if any(cells):
            self.seams.append(len(self.lines))
            self.lines.append(" | ".join(cells).strip())

    def close(self) -> None:
        """The box ends: a block."""
        kind, lines, seams = self.box, self.lines, self.seams
        self.box, self.lines, self.seams, self.mark = None, [], [], ""
        self.covered.clear()
        if kind and lines:
            starts = [seam for seam, after in pairwise([*seams, len(lines)]) if seam < after]
            skip = len(lines[0]) - len(lines[0].lstrip()) if kind != "quote" else 0
            self.out.add(kind, [lines[0][skip:], *lines[1:]], seams=starts)


def _collapsed(line: list[str]) -> str:
    """The inline text with white space as a browser shows it; a `br` is a line end, several are two. Empties the list."""
    if not line:
        return ""
    text = _WHITE.sub(" ", "".join(line)).strip(" ").replace("\u00ad", "")
    line.clear()
    if "\0" in text:
        text = "\n\n".join(filter(None, (_broken(paragraph) for paragraph in _BREAKS.split(text))))
    return mend(text)[0] if text.strip() else ""


def _broken(text: str) -> str:
    """The text with a line for each `br`."""
    return "\n".join(filter(None, (part.strip(" ") for part in text.split("\0"))))


def _number(node: LexborNode, attribute: str, default: int) -> int:
    value = (node.attributes.get(attribute) or "").strip()
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else default


def _formula(node: LexborNode) -> str:
    """A formula in one line."""
    root = etree.fromstring(_PREFIX.sub(r"\1", node.html or ""), etree.XMLParser(recover=True, resolve_entities=False))
    return linear(root) if root is not None else node.text()


def _alternative(node: LexborNode) -> str:
    """What a picture shows, in words; nothing where that is a word, as of an icon, or the name of a file."""
    words = (node.attributes.get("alt") or "").strip()
    return "" if not words or _NAMED.match(words) else f" {words} "


def _permalinks(tree: LexborHTMLParser) -> set[int]:
    """Links in headings that are signs for a link alone: `¶`, `#`."""
    links = tree.css(", ".join(f"{heading} a" for heading in _HEADINGS))
    return {link.mem_id for link in links if not any(map(str.isalnum, link.text()))}


def _ancestors(tree: LexborHTMLParser) -> set[int]:
    """Elements that are layout, no blocks of their own: they hold a heading, a table or (outside tables) preformatted text.

    A table with headers of its own is one, with whatever is in its cells but for a heading of the page.
    """
    found: set[int] = set()
    headed = {table.mem_id for th in tree.css("th") if (table := _table_of(th)) is not None}
    tables = {table.mem_id for table in tree.css("table")}
    for selector, ends in (("h1, h2", set[int]()), ("h3, h4, h5, h6, table", headed), ("pre", tables)):
        for node in tree.css(selector):
            above = node.parent
            while above is not None and above.mem_id not in found and above.mem_id not in ends:
                found.add(above.mem_id)
                above = above.parent
    return found


def _table_of(cell: LexborNode) -> LexborNode | None:
    above = cell.parent
    while above is not None and above.tag != "table":
        above = above.parent
    return above


def _head(tree: LexborHTMLParser) -> dict[str, str]:
    found: dict[str, str] = {}
    if title := tree.css_first("title"):
        found["title"] = " ".join(title.text().split())
    if tree.root is not None and (language := tree.root.attributes.get("lang") or tree.root.attributes.get("xml:lang")):
        found["language"] = language.strip()
    for meta in tree.css("head meta[name]"):
        name, content = (meta.attributes.get("name") or "").lower(), meta.attributes.get("content") or ""
        if name in ("author", "description") and content.strip():
            found.setdefault(name, " ".join(content.split()))
    return {key: mend(value)[0] for key, value in found.items() if value}


def _flatter(source: str) -> str:
    """The source without the tags that would nest deeper than browsers allow: building such a tree takes quadratic time."""
    if _deepest(source) <= _DEPTH * 4:
        return source
    depth, dropped, kept, last = 0, dict[str, int](), list[str](), 0
    for tag in _TAG.finditer(source):
        name = tag[2].lower()
        if name in _UNNESTED:
            continue
        if tag[1] and dropped.get(name):
            dropped[name] -= 1
        elif tag[1]:
            depth = max(0, depth - 1)
            continue
        elif depth < _DEPTH:
            depth += 1
            continue
        else:
            dropped[name] = dropped.get(name, 0) + 1
        kept += [source[last : tag.start()], " " if name in _INLINE else "<br>"]
        last = tag.end()
    return "".join([*kept, source[last:]])


def _deepest(source: str) -> int:
    """An upper bound of how deep the tags nest, at the speed of numpy."""
    octets = np.frombuffer(source.encode("utf-8", "replace"), np.uint8)
    opens = np.flatnonzero(octets[:-1] == ord("<"))
    after = octets[opens + 1]
    steps = np.where(after == ord("/"), -1, np.where((after | 32) - ord("a") < 26, 1, 0))
    return int(np.cumsum(steps).max(initial=0)) if len(steps) else 0
