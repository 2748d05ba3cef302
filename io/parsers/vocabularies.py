"""What the elements of XML documents are, by their names: one table for all vocabularies, and what each adds to it."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from chunkmill.io.parsers.xmltree import local

Vocabulary = Mapping[str, str]


def _table(**rows: str) -> dict[str, str]:
    return {name: role for role, names in rows.items() for name in names.split()}


BASE = _table(
    p="p para simpara paragraph ab shortdesc attrib figdesc speaker stagedir stage persona docauthor bridgehead refname "
    "attribution opener closer salute signed dateline trailer byline epigraph v verse scndescr titlepart refpurpose",
    h="title head heading article-title invention-title ",
    sec="sec section chapter part book article sect1 sect2 sect3 sect4 sect5 simplesect refentry refsect1 refsect2 refsect3 "
    "refsection preface appendix glossary bibliography dedication colophon abstract trans-abstract ack app ref-list fn-group "
    "sub-article response topic concept task reference act scene canto personae play poem div div1 div2 div3 div4 set",
    info="front front-stub info articleinfo bookinfo chapterinfo sectioninfo sect1info sect2info appendixinfo prefaceinfo "
    "partinfo refentryinfo title-group article-meta book-meta titlepage doctitle",
    div="body back caption legend figure fig fig-group table-wrap boxed-text statement sidebar "
    "example informalexample note tip warning caution important description claims",
    ul="itemizedlist ul simplelist castlist tableofcontents castgroup",
    ol="orderedlist ol procedure substeps steps calloutlist",
    li="listitem list-item li member step callout castitem",
    dl="variablelist def-list dl glosslist",
    dt="dt glossterm",
    dd="dd def glossdef",
    table="table informaltable tgroup simpletable",
    tr="tr row strow sthead",
    td="td th entry cell stentry",
    pre="programlisting screen literallayout preformat codeblock synopsis programlistingco eg",
    quote="blockquote disp-quote ",
    entry="ref bibliomixed biblioentry bibl biblstruct fn claim witness ",
    speech="sp speech",
    line="l line ",
    group="lg stanza linegroup verse-group",
    br="break br",
    note="footnote",
    authors="contrib-group authorgroup author",
    keywords="kwd-group keywordset",
    formula="inline-formula disp-formula inlineequation informalequation equation math maths formula",
    fields="name string-name personname persname person-group institution-wrap address",
    citation="element-citation nlm-citation",
    label="label",
    drop="journal-meta article-categories aff aff-alternatives author-notes pub-date history permissions funding-group counts "
    "custom-meta-group self-uri related-article article-id volume issue fpage lpage elocation-id supplement "
    "indexterm index toc date copyright legalnotice revhistory edition releaseinfo pubdate publisher isbn issn titleabbrev "
    "processing-meta object-id institution-id teiheader standoff fw sic orig expan del remark alt-text alt-title script style "
    "metadata prolog us-bibliographic-data-application us-bibliographic-data-grant sequence-list drawings "
    "colspec spanspec graphic inline-graphic media imageobject videoobject audioobject productname "
    "contrib-id conference journal-id article-version",
)
_OWN: dict[str, dict[str, str]] = {
    "jats": _table(pre="code", sec="glossary notes app", ul="list", drop=""),
    "docbook": _table(inline="code address name", entry="bibliomixed biblioentry", p="subtitle caption"),
    "tei": _table(
        inline="title date del publisher name desc author copyright edition ",
        note="note",
        ul="list listbibl",
        li="item",
        info="titlepage doctitle",
        sec="text div",
        quote="cit",
        div="front group argument figure",
    ),
    "dita": _table(p="cmd info", ul="choices", li="choice"),
    "svg": _table(p="title desc text"),
    "patent": _table(
        h="heading invention-title", inline="section class", pre="", p="claim-text", sec="claims description abstract"
    ),
}
# A vocabulary nobody knows has no front matter that could be left out.
UNKNOWN = {name: role for name, role in BASE.items() if role not in ("drop", "info", "authors", "keywords")} | _table(
    drop="style script"
)
_PROSE = frozenset(["p", "para", "paragraph", "speech", "stanza", "verse", "lg"])
_SECTIONS = frozenset(["section", "chapter", "sec", "sect1", "act", "scene", "appendix", "preface"])
_TITLES = frozenset(["title", "head", "heading"])


def vocabulary(root: etree._Element) -> Vocabulary | None:
    """The table for the document's vocabulary, by its root element; None for one that has none of its own."""
    name, space = local(root).lower(), str(root.tag).rpartition("}")[0]
    children = {local(child) for child in root.iterchildren(etree.Element)}
    own = ""
    if name in ("tei", "tei.2", "teicorpus"):
        own = "tei"
    elif name.startswith("us-patent"):
        own = "patent"
    elif name == "svg":
        own = "svg"
    elif name in ("topic", "concept", "task", "reference", "dita") and ("title" in children or name == "dita"):
        own = "dita"
    elif name in ("article", "book", "sub-article") and children & {"front", "front-stub", "book-meta"}:
        own = "jats"
    elif "docbook.org" in space or (BASE.get(name) == "sec" and _has(root, "para", "simpara", "screen", "refsect1")):
        own = "docbook"
    return BASE | _OWN[own] if own else None


def _has(root: etree._Element, *names: str) -> bool:
    return any(local(element) in names for element in root.iter(etree.Element))


def is_prose(root: etree._Element) -> bool:
    """Whether an unknown vocabulary has a name for paragraphs, speeches or sections."""
    names = {local(element).lower() for element in root.iter(etree.Element)}
    return bool(names & _PROSE) or any(_is_section(e) for e in root.iter(etree.Element))


def _is_section(element: etree._Element) -> bool:
    return local(element).lower() in _SECTIONS and any(local(child).lower() in _TITLES for child in element)
