"""PowerPoint presentations, from their XML: slides in the order of the presentation, a page each.

Rules. The title comes first, as a heading; what follows is in the order of the file, which is the reading order PowerPoint
keeps (Selection pane, screen readers), groups opened in place. Paragraphs of body placeholders and those with a bullet are
lists, two spaces a level. Tables, the cached values of charts and the texts of SmartArt are kept, pictures by their
alternative text; notes and comments follow their slide as `notes`. Slide numbers, dates, footers, hidden shapes, masters,
layouts and embedded files are left out; hidden slides are read, and named in `hidden_slides`. What can't be read is told in
`warning`. Elements inside others of their kind are no text of their own, so that the text can't outgrow the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lxml import etree

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Image, Parsed
from chunkmill.io.parsers.equations import linear
from chunkmill.io.parsers.office import png, steps
from chunkmill.io.parsers.ooxml import Relation, attribute, outermost, properties, reference, related, relations, unescaped
from chunkmill.io.parsers.text import Canonical
from chunkmill.io.parsers.xmltree import damage, local, tree
from chunkmill.io.parsers.zipped import Package

_TITLES = frozenset(("title", "ctrTitle"))
_LEFT_OUT = frozenset(("sldNum", "dt", "ftr", "hdr", "sldImg"))
_LISTED = frozenset(("body", "obj", "half", "quarter", ""))
_SHAPES = frozenset(("sp", "pic", "graphicFrame", "grpSp"))
_BULLETS = frozenset(("buChar", "buAutoNum", "buBlip"))
_CHANGING = ("slidenum", "datetime")
_FILE_NAME = re.compile(r"[\w .()/\\:-]+\.(?:png|jpe?g|gif|bmp|emf|wmf|svg|tiff?|webp)", re.I)
_GENERATED = re.compile(
    r"\s*(?:Description automatically generated(?: with \w+ confidence)?|AI-generated content may be incorrect\.?)\s*"
)
_POINT = 12_700  # English Metric Units
_MAX_LEVEL = 9


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """One document. With `images`, its pictures too."""
    package = Package(data, "the presentation")
    main = next(iter(related(relations(package, ""), "officeDocument")), "ppt/presentation.xml")
    slides = _slides(package, main)
    deck = _Deck(package, bool(options.get("images")))
    failed: list[tuple[int, DocumentError]] = []
    for page, part in enumerate(slides, 1):
        try:
            deck.slide(part, page)
        except DocumentError as error:
            failed.append((page, error))
            if error.kind not in ("corrupt", "too_deep") or len(failed) == len(slides):
                raise
    yield deck.document(_metadata(package, deck, len(slides), failed))


def _slides(package: Package, main: str) -> list[str]:
    """The parts of the slides in the order of the presentation; in that of their names where it is lost."""
    links = relations(package, main)
    try:
        ids = dict.fromkeys(reference(s) for s in tree(package.read(main), main).iter("{*}sldId"))
    except DocumentError as error:
        numbered = [(int(m[1]), n) for n in package.names if (m := re.fullmatch(r"ppt/slides/slide(\d{1,9})\.xml", n))]
        if error.kind != "corrupt" or not numbered:
            raise
        return [part for _, part in sorted(numbered)]
    return [links[i].part if i in links else f"(no relation {i})" for i in ids]


def _metadata(package: Package, deck: _Deck, count: int, failed: Sequence[tuple[int, DocumentError]]) -> dict[str, str]:
    found = properties(package)
    if deck.languages and "language" not in found:
        found["language"] = deck.languages.most_common(1)[0][0]
    found["slides"] = str(count)
    if deck.hidden:
        found["hidden_slides"] = ", ".join(map(str, deck.hidden))
    lost = [*package.warnings]
    if failed:
        lost.append(f"{len(failed)} of {count} slides could not be read: {failed[0][0]}: {failed[0][1]}")
    if deck.lost:
        lost.append(f"could not be read: {', '.join(deck.lost[:5])}{', …' if len(deck.lost) > 5 else ''}")
    return found | ({"warning": "; ".join(lost)} if lost else {})


class _Deck:
    """The text of the slides under construction."""

    def __init__(self, package: Package, images: bool) -> None:
        self.package, self.wants_images = package, images
        self.out, self.blocks = Canonical(), 0
        self.hidden: list[int] = []
        self.lost: list[str] = []
        self.languages: Counter[str] = Counter()
        self.images: list[tuple[int, bool, Image]] = []
        self.authors = _authors(package)
        self.page = 0

    def add(self, kind: Kind, lines: list[str], *, level: int = 0, seams: list[int] | None = None) -> None:
        """A block of the page."""
        if lines:
            self.out.add(kind, lines, level=level, page=self.page, seams=seams)
            self.blocks += 1

    def slide(self, part: str, page: int) -> None:
        """A slide, its notes and comments. Raises before anything of it is added."""
        root = _root(self.package, part)
        links = relations(self.package, part)
        self.page = page
        if root.get("show") in ("0", "false"):
            self.hidden.append(page)
        self.languages.update(_languages(root))
        shapes = list(_shapes(root))
        title = next((s for s in shapes if local(s) == "sp" and _placeholder(s) in _TITLES and _plain(s)), None)
        if title is not None:
            self.add("heading", [" ".join(_plain(title).split())], level=1)
        for shape in shapes:
            if shape is not title:
                self.shape(shape, links)
        self.notes(links)
        self.comments(links)

    def shape(self, shape: etree._Element, links: dict[str, Relation]) -> None:
        """A shape with text, a picture, or a frame around something else."""
        if local(shape) == "sp":
            self.text(shape)
        elif local(shape) == "pic":
            self.picture(shape, links)
        else:
            self.caption(shape)
        if local(shape) == "graphicFrame":
            self.frame(shape, links)

    def text(self, shape: etree._Element) -> None:
        """The paragraphs of a shape, lists apart from the rest."""
        place = _placeholder(shape)
        if place in _LEFT_OUT:
            return
        self.paragraphs(_paragraphs(shape, listed=place in _LISTED))

    def paragraphs(self, found: Iterable[tuple[int | None, list[str]]]) -> None:
        """Paragraphs (no level) and runs of items (each with its level) as blocks."""
        lines, seams = list[str](), list[int]()
        for level, text in found:
            if level is None:
                self.add("list", lines, seams=seams)
                lines, seams = [], []
                self.add("paragraph", text)
                continue
            indent = "  " * level if lines else ""
            seams.append(len(lines))
            lines += [f"{indent}- {text[0]}", *(f"{indent}  {line}" for line in text[1:])]
        self.add("list", lines, seams=seams)

    def picture(self, shape: etree._Element, links: dict[str, Relation]) -> None:
        """A picture: its alternative text, and with `images` its bytes."""
        caption = self.caption(shape)
        blip = next(shape.iter("{*}blip"), None)
        link = links.get(attribute(blip, "embed")) if blip is not None else None
        if self.wants_images and link and link.part in self.package:
            if found := png(self.package.read(link.part)):
                self.images.append((self.blocks, bool(caption), Image(Span(0, 0), found, self.page, _box(shape), caption)))
            else:
                self.lost.append(link.part)

    def caption(self, shape: etree._Element) -> str:
        """The alternative text of a shape, as a figure."""
        caption = _alternative(shape)
        self.add("figure", [caption] if caption else [])
        return caption

    def frame(self, shape: etree._Element, links: dict[str, Relation]) -> None:
        """A table, a chart, a diagram, or the picture of something embedded."""
        for element in outermost(shape, "tbl", "chart", "relIds", "pic"):
            if local(element) == "tbl":
                self.table(list(_rows(element)))
            elif local(element) == "pic":
                self.picture(element, links)
            elif link := links.get(attribute(element, "dm" if local(element) == "relIds" else "id")):
                root = self.linked(link.part)
                if root is not None and local(element) == "relIds":
                    self.paragraphs(_diagram(root))
                elif root is not None:
                    self.chart(root)

    def linked(self, part: str) -> etree._Element | None:
        """The root of a part that a slide can do without."""
        try:
            return _root(self.package, part)
        except DocumentError as error:
            if error.kind not in ("corrupt", "too_deep"):
                raise
            self.lost.append(part)
            return None

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """A line per row."""
        lines = [" | ".join(row).strip() for row in rows if any(row)]
        self.add("table", lines, seams=list(range(len(lines))))

    def chart(self, root: etree._Element) -> None:
        """A chart's titles, and its values as a table: categories down, series across."""
        titles = (" ".join(_plain(title).split()) for title in outermost(root, "title"))
        self.add("figure", list(filter(None, titles)))
        self.table(_chart_rows(root))

    def notes(self, links: dict[str, Relation]) -> None:
        """The speaker's notes of the slide."""
        for part in related(links, "notesSlide"):
            root = self.linked(part)
            bodies = [s for s in outermost(root, "sp") if _placeholder(s) not in _LEFT_OUT] if root is not None else []
            self.add("notes", [line for body in bodies for line in _plain(body).splitlines()])

    def comments(self, links: dict[str, Relation]) -> None:
        """The comments on the slide, each with its author, answers behind what they answer."""
        for part in related(links, "comments"):
            root = self.linked(part)
            for comment in root.iter("{*}cm", "{*}reply") if root is not None else ():
                author = self.authors.get(comment.get("authorId", ""), "")
                own = [" ".join(_words(e)) for e in comment if local(e) in ("text", "txBody")]
                text = " ".join(" ".join(own).split())
                self.add("notes", [f"Comment ({author}): {text}" if author else f"Comment: {text}"] if text else [])

    def document(self, metadata: dict[str, str]) -> Parsed:
        """The finished document, its images where their captions are or would be."""
        parsed = self.out.document(metadata)
        images = tuple(image._replace(span=_place(parsed.blocks, at, captioned)) for at, captioned, image in self.images)
        return parsed._replace(images=images)


def _place(blocks: Sequence[Block], at: int, captioned: bool) -> Span:
    """The span of the last of so many blocks if it is the image's caption, else the empty one behind it."""
    if captioned:
        return blocks[at - 1].span
    return Span(*[blocks[at - 1].span.end if at else 0] * 2)


def _root(package: Package, part: str) -> etree._Element:
    """The tree of a part, without what stands in for newer mark-up that we read."""
    root = tree(package.read(part), part)
    if damaged := damage(root):
        package.warn(f"{part} is damaged XML, read as far as possible: {damaged}")
    for fallback in list(root.iter("{*}Fallback")):
        above = fallback.getparent()
        if above is not None and any(local(e) == "Choice" for e in above):
            above.remove(fallback)
    return root


def _placeholder(shape: etree._Element) -> str | None:
    """The type of the placeholder that a shape fills ("" for the plain kind), None where it is none."""
    found = next(shape.iter("{*}ph"), None)
    return None if found is None else found.get("type", "")


def _own(shape: etree._Element) -> etree._Element | None:
    return next(shape.iter("{*}cNvPr"), None)


def _shapes(root: etree._Element) -> Iterator[etree._Element]:
    """The shapes of a slide; groups, and then what is in them. None that is hidden."""
    walk = steps(root)
    for event, element in walk:
        if event == "start" and local(element) in _SHAPES:
            hidden = _is_hidden(element)
            if not hidden:
                yield element
            if hidden or local(element) != "grpSp":
                walk.skip_subtree()


def _is_hidden(shape: etree._Element) -> bool:
    own = _own(shape)
    return own is not None and own.get("hidden") in ("1", "true")


def _alternative(shape: etree._Element) -> str:
    """What the author wrote for those who can't see the shape: no file names, nothing for decoration."""
    own = _own(shape)
    if own is None or any(d.get("val") in ("1", "true") for d in own.iter("{*}decorative")):
        return ""
    text = _GENERATED.sub("", unescaped(own.get("descr", ""))).strip()
    return "" if _FILE_NAME.fullmatch(text) else " ".join(text.split())


def _paragraphs(shape: etree._Element, *, listed: bool) -> Iterator[tuple[int | None, list[str]]]:
    """Each paragraph's lines, with its level where it is an item. A single one in a placeholder is no list."""
    found = [(p, lines) for p in outermost(shape, "p") if (lines := _lines(p))]
    several = len(found) > 1
    for paragraph, lines in found:
        style = next((e for e in paragraph if local(e) == "pPr"), None)
        marks = {local(e) for e in style} if style is not None else set()
        is_item = bool(marks & _BULLETS) or (listed and several and "buNone" not in marks)
        yield _level(style) if is_item else None, lines


def _level(style: etree._Element | None) -> int:
    level = style.get("lvl", "0") if style is not None else "0"
    return min(_MAX_LEVEL, int(level)) if level.isdecimal() else 0


def _lines(paragraph: etree._Element) -> list[str]:
    """The lines of a paragraph that hold anything."""
    return [line.strip() for line in "".join(_words(paragraph)).splitlines() if line.strip()]


def _words(element: etree._Element) -> Iterator[str]:
    """The texts in an element, equations too, without the fields that change by themselves."""
    for e in outermost(element, "t", "br", "oMath", "fld", "text"):
        if local(e) == "br":
            yield "\n"
        elif local(e) == "oMath":
            yield linear(e)
        elif local(e) != "fld":
            yield unescaped(e.text or "")
        elif not e.get("type", "").startswith(_CHANGING):
            yield unescaped("".join(t.text or "" for t in outermost(e, "t")))


def _plain(element: etree._Element) -> str:
    """The text of all paragraphs in an element."""
    return "\n".join(line for p in outermost(element, "p") for line in _lines(p))


def _rows(table: etree._Element) -> Iterator[list[str]]:
    """The cells of each row, on one line; those merged into another are empty."""
    for row in outermost(table, "tr"):
        yield [" ".join(_plain(cell).split()) for cell in row if local(cell) == "tc"]


def _chart_rows(root: etree._Element) -> list[list[str]]:
    """Categories and values as the file keeps them beside the workbook they come from."""
    series = [(_name(s), _points(s, "cat", "xVal"), _points(s, "val", "yVal")) for s in outermost(root, "ser")]
    if not any(values or labels for _, labels, values in series):
        return []
    labels = {at: label for _, own, _ in reversed(series) for at, label in own.items()}
    places = sorted({at for _, own, values in series for at in (*own, *values)})
    if len({tuple(own.values()) for _, own, _ in series if own}) > 1:  # points of a scatter chart, each at its own x
        return [row for s in series for row in _points_of(*s)]
    header = ["", *(name or f"Series {i}" for i, (name, _, _) in enumerate(series, 1))]
    return [header, *([labels.get(at, ""), *(values.get(at, "") for _, _, values in series)] for at in places)]


def _points_of(name: str, labels: dict[int, str], values: dict[int, str]) -> Iterator[list[str]]:
    yield ["", name or "Series"]
    yield from ([labels.get(at, ""), values.get(at, "")] for at in sorted({*labels, *values}))


def _name(series: etree._Element) -> str:
    title = next((e for e in series if local(e) == "tx"), None)
    return " ".join(v.text or "" for v in title.iter("{*}v")).strip() if title is not None else ""


def _points(series: etree._Element, *kinds: str) -> dict[int, str]:
    """The cached points of a series by their index; categories of several levels joined."""
    found: dict[int, str] = {}
    for element in (e for e in series if local(e) in kinds):
        for point in element.iter("{*}pt"):
            at, value = point.get("idx", ""), next((v.text or "" for v in point.iter("{*}v")), "")
            if at.isdecimal() and len(at) < 8:
                found[int(at)] = f"{_number(value)} {found.get(int(at), '')}".strip()
    return {at: " ".join(value.split()) for at, value in found.items()}


def _number(value: str) -> str:
    """A cached number as a reader would see it: 2.4 for 2.4000000000000004."""
    try:
        return format(float(value), ".15g") if "." in value or "e" in value.lower() else value
    except ValueError:
        return value


def _diagram(root: etree._Element) -> Iterator[tuple[int, list[str]]]:
    """The texts of SmartArt, indented as they hang together."""
    points = {p.get("modelId", ""): p for p in outermost(root, "pt")}
    below: dict[str, list[tuple[int, str]]] = {}
    for link in root.iter("{*}cxn"):
        if link.get("type", "parOf") == "parOf":
            order = link.get("srcOrd", "0")
            below.setdefault(link.get("srcId", ""), []).append((int(order) if order.isdecimal() else 0, link.get("destId", "")))
    stack = [(0, i) for i, p in reversed(points.items()) if p.get("type") == "doc"]
    unseen = {i for i, p in points.items() if p.get("type", "node") in ("node", "asst")}
    stack = [(0, i) for i in reversed(points) if i in unseen] + stack
    while stack:
        level, at = stack.pop()
        if at in unseen and (lines := _plain(points[at]).split("\n")) != [""]:
            yield min(level, _MAX_LEVEL), lines
            level += 1
        if at in unseen or (at in points and points[at].get("type") == "doc"):
            unseen.discard(at)
            stack += [(level, child) for _, child in sorted(below.pop(at, ()), reverse=True)]


def _languages(root: etree._Element) -> Iterator[str]:
    """The language of each run that has text."""
    for run in root.iter("{*}r"):
        style = next((e for e in run if local(e) == "rPr"), None)
        if style is not None and (language := style.get("lang")):
            yield language


def _authors(package: Package) -> dict[str, str]:
    """The names of those who comment, by id."""
    found: dict[str, str] = {}
    for part in ("ppt/commentAuthors.xml", "ppt/authors.xml"):
        if part in package:
            try:
                root = tree(package.read(part), part)
            except DocumentError:
                continue
            found |= {a.get("id", ""): a.get("name", "") for a in root.iter("{*}cmAuthor", "{*}author")}
    return found


def _box(shape: etree._Element) -> tuple[float, float, float, float] | None:
    """Where a shape lies on its slide, in points; None inside groups, which have co-ordinates of their own."""
    frame, above = next(shape.iter("{*}xfrm"), None), shape.getparent()
    if frame is None or above is None or local(above) != "spTree":
        return None
    numbers = {f"{local(e)}.{key!s}": value for e in frame for key, value in e.items()}
    try:
        x, y, width, height = (int(numbers[key]) / _POINT for key in ("off.x", "off.y", "ext.cx", "ext.cy"))
    except (KeyError, ValueError):
        return None
    return x, y, x + width, y + height
