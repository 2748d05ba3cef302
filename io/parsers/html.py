"""Web pages: the text a reader sees, built once in document order, with its blocks recorded on the way.

The tree is walked with a stack of our own: its depth comes from the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from selectolax.lexbor import LexborHTMLParser, LexborNode

from chunkmill.chunkers.base import Kind
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import Canonical, decode, mend

_DROPPED_TAGS = "script style template noscript head nav iframe noframes noembed svg canvas object"
_DROPPED = frozenset(_DROPPED_TAGS.split())
_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math nobr output q rb rp "
    "rt ruby s samp small span strike strong sub sup time tt u var wbr input"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BOXES: dict[str, Kind] = {"table": "table", "ul": "list", "ol": "list", "menu": "list", "dl": "list", "blockquote": "quote"}
_WHITE = re.compile(r"[ \t\n\r\f]+")
_CHARSET = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w-]+)|<\?xml[^>]{0,200}?encoding=[\"']([\w-]+)", re.I)
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^>]*>")
_UNNESTED_TAGS = (
    "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th tbody thead tfoot option optgroup"
)
_UNNESTED = frozenset(_UNNESTED_TAGS.split())
_DEPTH = 512  # as browsers do, the tree is kept from growing deeper
_INDENT = 8
_SITE = r"(?:\Z|\s+[-|:\u00b7\u00bb\u2013\u2014]\s|:\s)"  # what follows the page's own words in its title


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The readable text of a page; navigation, scripts and hidden elements are left out."""
    declared = _CHARSET.search(data[:4096])
    source, metadata = decode(data, (declared[1] or declared[2]).decode("ascii") if declared else "")
    tree = LexborHTMLParser(_flatter(source))
    walk = _Walk(tree)
    if tree.root is not None:
        walk.run(tree.root)
    yield _crowned(walk.out.document(_head(tree) | metadata))


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
        self.mark = ""  # what the next line of a list begins with
        self.counts: list[int] = []  # per open list: the number of the last item, or -1 for bullets
        self.pre = 0
        self.hidden = {n.mem_id for n in tree.css('[hidden], [style*="display:none"], [style*="display: none"]')}
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
                self.counts.append(0 if tag == "ol" else -1)
        elif tag == "li":
            self.item()
        elif tag == "dt" and self.box == "list":
            self.seams.append(len(self.lines))
        elif tag == "dd" and self.box == "list":
            self.mark = "  "
        elif tag == "tr" and self.box == "table":
            self.cells = []
        elif tag in ("td", "th") and self.cells is not None:
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
        elif tag == "caption" and self.box == "table":
            self.caption()
        else:
            self.flush()
        if tag in ("td", "th") and self.cells is not None:
            self.cells.append(" ".join(self.row))
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
        if text:
            self.place(text.split("\n"))

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

    def item(self) -> None:
        """An item begins: its first line carries the mark, and is a seam of the list."""
        depth = min(_INDENT, max(0, len(self.counts) - 1))
        if self.counts and self.counts[-1] >= 0:
            self.counts[-1] += 1
            mark = f"{self.counts[-1]}. "
        else:
            mark = "- "
        self.mark = "  " * depth + mark
        if self.box == "list" and (not self.seams or self.seams[-1] < len(self.lines)):
            self.seams.append(len(self.lines))

    def heading(self, level: int) -> None:
        """The line is a heading, on one line."""
        title = _collapsed(self.line).replace("\n", " ")
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

    def end_row(self) -> None:
        """A row is one line (more only where a cell holds preformatted text) and a seam of its table."""
        cells, self.cells = self.cells or [], None
        if any(cells):
            self.seams.append(len(self.lines))
            self.lines.append(" | ".join(cells).strip())

    def close(self) -> None:
        """The box ends: a block."""
        kind, lines, seams = self.box, self.lines, self.seams
        self.box, self.lines, self.seams, self.mark = None, [], [], ""
        if kind and lines:
            starts = [seam for seam, after in pairwise([*seams, len(lines)]) if seam < after]
            skip = len(lines[0]) - len(lines[0].lstrip()) if kind != "quote" else 0
            self.out.add(kind, [lines[0][skip:], *lines[1:]], seams=starts)


def _collapsed(line: list[str]) -> str:
    """The inline text with white space as a browser shows it; a `br` is a line end. Empties the list."""
    if not line:
        return ""
    text = _WHITE.sub(" ", "".join(line)).strip(" ")
    line.clear()
    if "\0" in text:
        text = "\n".join(part for part in (p.strip(" ") for p in text.split("\0")) if part)
    return mend(text)[0] if text.strip() else ""


def _ancestors(tree: LexborHTMLParser) -> set[int]:
    """Elements that are layout, no blocks of their own: they hold a heading, a table or (outside tables) preformatted text."""
    found: set[int] = set()
    for selector in ("h1, h2, h3, h4, h5, h6, table", "pre"):
        for node in tree.css(selector):
            above = node.parent
            while above is not None and above.mem_id not in found and not (selector == "pre" and above.tag == "table"):
                found.add(above.mem_id)
                above = above.parent
    return found


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
