"""XML that is a document (JATS, DocBook, TEI, DITA, patents, plays): written as HTML, which the web-page parser reads.

A table says what an element is (`vocabularies`). A name in no table is inline inside a paragraph, a paragraph where it holds
text of its own, and else stands for its children. Title, by-line and abstract open the text; the rest of the front matter is
metadata. Footnotes follow the paragraph that calls them, as `[1] …`. A list of references is a list; of a formula the LaTeX
is kept, else its characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from lxml import etree

from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.equations import linear
from chunkmill.io.parsers.joined import page, words
from chunkmill.io.parsers.vocabularies import UNKNOWN, Vocabulary
from chunkmill.io.parsers.xmltree import flat, local

_HEADS = {
    "abstract": "Abstract",
    "ack": "Acknowledgements",
    "ref-list": "References",
    "claims": "Claims",
    "description": "Description",
}
_HTML = {"ul": "ul", "ol": "ol", "li": "li", "dl": "dl", "dt": "dt", "dd": "dd", "table": "table", "tr": "tr", "td": "td"}
_HTML |= {"p": "p", "pre": "pre", "quote": "blockquote", "group": "p", "div": "div", "speech": "p"}
_TEXTUAL = frozenset(["p", "h", "dt", "dd", "td", "pre", "group", "speech", "entry", "line", "citation"])
_SKIPPED = frozenset(["drop", "formula", "authors", "keywords", "citation", "fields", "label"])
_NUMBERED = ("order", "ordered", "alpha-lower", "alpha-upper", "roman-lower", "roman-upper")
_TEX = re.compile(r"\\begin\{document\}(.*)\\end\{document\}", re.S)
_BREAKS = re.compile(r"<br>(?:\s*<br>)+")  # of lines one after another, which are one paragraph
_GIVEN = ("given-names", "firstname", "forename", "givenname", "first-name", "given")
_LAST = ("surname", "last-name", "familyname", "lastname")
_PEOPLE = frozenset(["contrib", "author", "inventor", "us-applicant"])
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_MONTHS = dict(
    zip(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], range(1, 13), strict=True)
)


_INLINE_NAMES = "a b i em strong emphasis bold italic hi u tt code xref link ulink sup sub superscript subscript span"
_INLINE = frozenset(_INLINE_NAMES.split())


class Walk:
    """One pass over a document that writes it as HTML.

    `sections` is how deep its titles are, `textual` how many open elements are one text, `prefix` a label waiting for its text.
    """

    def __init__(self, names: Vocabulary = UNKNOWN) -> None:
        self.names, self.out = names, list[str]()
        self.sections = self.textual = self.tables = self.speeches = 0
        self.notes, self.noted, self.starts = list[str](), 0, list[int]()
        self.prefix = ""
        self.roles = list[str]()

    def document(self, root: etree._Element) -> Parsed:
        """The document's text and blocks, its front matter as metadata."""
        metadata = front_matter(root)
        if title := self._title_elsewhere(root, metadata):
            self.out.append(f"<h1>{escape(title)}</h1>")
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            if event == "end":
                self.leave(element)
            elif not self.enter(element):
                walk.skip_subtree()
        parsed = page("<body>" + _BREAKS.sub("<br>", "".join([*self.out, *self.notes])))
        return parsed._replace(metadata=metadata)

    def _title_elsewhere(self, root: etree._Element, metadata: Mapping[str, str]) -> str:
        """The title where no element of the text holds it."""
        apart = local(root).lower() in ("tei", "tei.2") or local(root).startswith("us-patent")
        if not apart or any(local(e).lower() in ("doctitle", "titlepage") for e in root.iter(etree.Element)):
            return ""
        return metadata.get("title", "")

    def enter(self, element: etree._Element) -> bool:
        """Open what the element begins; whether its children are to be visited."""
        role = self.role(element)
        self.roles.append(role)
        self.starts.append(len(self.out))
        if written := self.whole(element, role):
            self.out.append(written)
        if role in _SKIPPED:
            return False
        self.open(element, role)
        self.textual += role in _TEXTUAL
        if element.text:
            self.write(element.text)
        return True

    def leave(self, element: etree._Element) -> None:
        """Close it, and write what follows it."""
        role, start = self.roles.pop(), self.starts.pop()
        if role not in _SKIPPED:
            self.textual -= role in _TEXTUAL
            self.close(element, role, start)
        if element.tail:
            self.write(element.tail)

    def role(self, element: etree._Element) -> str:
        """What the element is here: what its place makes of it, else its role in the table, else what its text says."""
        name = local(element).lower()
        role = self.names.get(name)
        if not self.roles:
            return "div" if name.startswith("tei") else "sec"
        if placed := self.placed(element, name, role):
            return placed
        if role is not None:
            return role
        if self.textual or name in _INLINE:
            return "inline"
        return "p" if _own_text(element) else "div"

    def placed(self, element: etree._Element, name: str, role: str | None) -> str:
        """The role of an element whose place decides it; "" for all others."""
        above = self.roles[-1]
        if name == "titlepart" and above == "info":
            return "p" if element.get("type") == "sub" else "h"
        if role == "h" and above not in ("sec", "info") and name != "heading":
            return "inline" if self.textual else "p"
        if role in ("p", "group") and self.speeches:
            return "line"
        if role == "entry" and self.textual:
            return "note" if name == "fn" else "inline"
        if role in ("authors", "sec") and self.textual:
            return "inline"
        if name == "author" and role == "authors" and above != "info":
            return "drop"
        if name == "quote":
            return "quoted" if self.textual else "quote"
        if name == "alternatives" and any(local(child) == "tex-math" for child in element):
            return "formula"
        return self.placed_in_list(element, name)

    def placed_in_list(self, element: etree._Element, name: str) -> str:
        """What the parts of lists are where their names are used for other things too."""
        above = local(_parent(element)).lower()
        if name == "term" and above in ("varlistentry", "def-item", "glossentry"):
            return "dt"
        if name == "listitem" and above == "varlistentry":
            return "dd"
        if name == "item" and self.roles[-1] in ("ul", "ol"):
            return "li"
        if name in ("ul", "list"):
            return "ol" if (element.get("list-type") or element.get("type") or "") in _NUMBERED else "ul"
        return ""

    def whole(self, element: etree._Element, role: str) -> str:
        """What is written for an element as one, without visiting it."""
        if role == "authors":
            text = ", ".join(people(element))
            return f"<p>{escape(text)}</p>" if text else ""
        if role == "keywords":
            text = ", ".join(filter(None, (words(flat(k)) for k in element if local(k).lower() in ("kwd", "keyword"))))
            title = next((words(flat(k)) for k in element if local(k).lower() == "title"), "") or "Keywords"
            return f"<p>{escape(title.rstrip(':'))}: {escape(text)}</p>" if text else ""
        if role == "label":
            self.prefix = words(flat(element))
            return ""
        if role == "formula":
            is_block = not self.textual or (
                not self.tables and local(element).lower() in ("disp-formula", "informalequation", "equation")
            )
            text = self.took() + escape(formula(element))
            return f"<p>{text}</p>" if is_block else text
        if role in ("citation", "fields"):
            return self.took() + escape(fields(element))
        return ""

    def open(self, element: etree._Element, role: str) -> None:
        """Write what opens an element."""
        name = local(element).lower()
        if role == "sec":
            self.sections += 1
            if name in _HEADS and not any(local(c).lower() in ("title", "heading", "label") for c in element):
                self.out.append(f"<h{self.level(element)}>{_HEADS[name]}</h{self.level(element)}>")
        elif role == "h":
            self.out.append(f"<h{self.level(element)}>{self.took()}")
        elif role == "quoted":
            self.out.append("“")
        elif role == "entry":
            if _role_beside(self, element.getprevious()) != "entry":
                self.out.append("<ul>")
            self.out.append("<li>" + self.took())
        elif role == "line":
            self.out.append("<br>" + self.took())
        elif role == "br":
            self.out.append(" " if self.tables else "<br>")
        elif role in _HTML:
            if role == "table":
                self.flush_label()
            spans = _spans(element) if role == "td" else ""
            self.out.append(f"<{_HTML[role]}{spans}>" + (self.took() if role in _TEXTUAL else ""))
        self.tables += role == "table"
        self.speeches += role == "speech"

    def close(self, element: etree._Element, role: str, start: int) -> None:
        """Write what closes an element."""
        if self.prefix and not self.textual:
            self.flush_label()
        if role == "sec":
            self.sections -= 1
        elif role == "h":
            self.out.append(f"</h{self.level(element)}>")
        elif role == "quoted":
            self.out.append("”")
        elif role == "entry":
            self.out.append("</li>" if _role_beside(self, element.getnext()) == "entry" else "</li></ul>")
        elif role == "line":
            self.out.append("<br>")
        elif role == "note":
            self.note(start)
        elif role in _HTML:
            self.out.append(f"</{_HTML[role]}>")
        self.tables -= role == "table"
        self.speeches -= role == "speech"
        if local(element).lower() == "speaker" and self.speeches:
            self.name_speaker()
        if self.notes and not self.textual and not self.tables and role in ("p", "table", "ul", "ol", "dl", "h", "quote"):
            self.out += self.notes
            self.notes.clear()

    def name_speaker(self) -> None:
        """A speaker's name ends with a colon, unless it ends with a point."""
        at = len(self.out) - 2
        if at >= 0 and self.out[at].strip() and self.out[at].rstrip()[-1] not in ".:!?":
            self.out[at] = self.out[at].rstrip() + ":"

    def note(self, start: int) -> None:
        """A footnote leaves its number where it was called, and waits for the end of the paragraph."""
        self.noted += 1
        text = "".join(self.out[start:])
        self.out[start:] = [f" [{self.noted}]"]
        self.notes.append(f"<p>[{self.noted}] {text.replace('<p>', '', 1)}</p>")

    def level(self, element: etree._Element) -> int:
        """The level of a title here."""
        own = element.get("level") or "1"  # patents number their headings
        return min(6, max(1, self.sections) + (int(own) - 1 if own in "123456" and local(element) == "heading" else 0))

    def flush_label(self) -> None:
        """A label with no text to go before stands alone."""
        if label := self.took().strip():
            self.out.append(f"<p>{label}</p>")

    def took(self) -> str:
        """The label that goes before the next text (`Figure 1`, `2.3`), once."""
        label, self.prefix = self.prefix, ""
        return f"{escape(label)} " if label else ""

    def write(self, text: str) -> None:
        """Text of the document; white space alone only where it parts words."""
        if self.textual or text.strip():
            self.out.append((self.took() if text.strip() else "") + escape(text, quote=False))


def front_matter(root: etree._Element) -> dict[str, str]:
    """Title, authors, date, language and what else the vocabulary says of the document."""
    head = next((e for e in root.iter(etree.Element) if _is_head(e)), root)
    found = {
        "title": _first(head, "article-title", "invention-title", "title")
        or (words(flat(root[0])) if len(root) and local(root[0]).lower() == "title" else ""),
        "author": ", ".join(people(head)) if head is not root or local(root).lower() in ("article", "book") else "",
        "date": _date(head) if head is not root else "",
        "language": root.get(_LANG) or (root.get("lang") or "").lower(),
        "journal": _first(root, "journal-title") if head is not root else "",
        "doi": next((words(flat(e)) for e in head.iter(etree.Element) if e.get("pub-id-type") == "doi"), "")
        if head is not root
        else "",
    }
    return {key: value for key, value in found.items() if value}


def _is_head(element: etree._Element) -> bool:
    name = local(element).lower()
    return name in ("article-meta", "teiheader", "info", "articleinfo", "bookinfo", "book-meta") or name.startswith(
        "us-bibliographic-data"
    )


def _first(element: etree._Element, *names: str) -> str:
    for name in names:
        for found in element.iter(etree.Element):
            if local(found).lower() == name and (text := words(flat(found))):
                return text
    return ""


def people(element: etree._Element) -> list[str]:
    """The authors named in it, each once."""
    found = (
        [element]
        if local(element).lower() in _PEOPLE
        else [e for e in element.iter(etree.Element) if local(e).lower() in _PEOPLE]
    )
    named = (person(e) for e in found if (e.get("contrib-type") or "author") == "author" and _is_outermost(e))
    return list(dict.fromkeys(filter(None, named)))


def _is_outermost(element: etree._Element) -> bool:
    """Whether it is no author of something cited in the front matter."""
    return not any(
        local(above).lower() in ("sourcedesc", "citation", "mixed-citation", "ref") for above in element.iterancestors()
    )


def person(element: etree._Element) -> str:
    """A name as people write it: given names, then the surname."""
    parts = [(local(e).lower(), words(flat(e))) for e in element.iter(etree.Element)]
    given, last = [t for n, t in parts if n in _GIVEN and t], [t for n, t in parts if n in _LAST and t]
    if given or last:
        return " ".join([*given, *last])
    whole = next((t for n, t in parts if n in ("collab", "string-name", "orgname", "personname", "persname", "name") and t), "")
    return whole or words(element.text or "")


def _date(head: etree._Element) -> str:
    """When it was published, as ISO 8601 as far as it is known."""
    for wanted in ("pub-date", "date", "pubdate"):
        for element in head.iter(etree.Element):
            if local(element).lower() != wanted:
                continue
            parts = {local(e).lower(): words(flat(e)) for e in element}
            if "year" in parts:
                month = parts.get("month", "")
                numbers = [parts["year"], str(_MONTHS.get(month[:3].lower(), month)), parts.get("day", "")]
                return "-".join(n.zfill(2) for n in numbers[: 1 + bool(month) + bool(month and numbers[2])])
            text = element.get("when") or words(flat(element))
            if re.fullmatch(r"\d{8}", text):
                return f"{text[:4]}-{text[4:6]}-{text[6:]}"
            if text:
                return text
    return ""


def fields(element: etree._Element) -> str:
    """The text of an element that is made of fields: with white space or commas between them where it has none of its own."""
    name = local(element).lower()
    if _own_text(element) or not len(element):
        return re.sub(r"\s+", " ", flat(element))
    if name in ("name", "string-name", "personname", "persname"):
        return person(element) or words(flat(element))
    kept = (child for child in element if local(child) != "pub-id" or child.get("pub-id-type") == "doi")
    parts = (fields(c) if local(c).lower() in ("name", "person-group", "string-name") else words(flat(c)) for c in kept)
    return ", ".join(filter(None, parts))


def formula(element: etree._Element) -> str:
    """LaTeX where there is some, else the characters."""
    label = next((f" {words(flat(child))}" for child in element if local(child) == "label"), "")
    for found in element.iter(etree.Element):
        if local(found).lower() == "tex-math":
            inner = _TEX.search(flat(found))
            return words(inner[1] if inner else flat(found)) + label
        if local(found) == "math":
            return linear(found) + label
    return words(flat(element))


def _spans(cell: etree._Element) -> str:
    """The rows and columns that a cell covers, as HTML says it; of a CALS table by the names of its columns."""
    more = cell.get("morerows") or ""
    rows = str(int(more) + 1) if more.isdecimal() else cell.get("rowspan") or ""
    columns = cell.get("colspan") or ""
    if last := cell.get("nameend"):
        group = next(cell.iterancestors("{*}tgroup", "tgroup"), cell)
        names = [column.get("colname") for column in group if local(column) == "colspec"]
        first = cell.get("namest")
        columns = str(names.index(last) - names.index(first) + 1) if {first, last} <= set(names) else ""
    found = {"rowspan": rows, "colspan": columns}
    return "".join(f' {name}="{value}"' for name, value in found.items() if value.isdecimal())


def _own_text(element: etree._Element) -> bool:
    return bool((element.text and element.text.strip()) or any(child.tail and child.tail.strip() for child in element))


def _parent(element: etree._Element) -> etree._Element:
    above = element.getparent()
    return element if above is None else above


def _role_beside(walk: Walk, element: etree._Element | None) -> str:
    return "" if element is None else walk.names.get(local(element).lower(), "")
