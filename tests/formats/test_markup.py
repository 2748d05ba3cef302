"""XML: articles, books, plays, feeds, outlines and data come out as a reader would read them; nothing is ever expanded."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the shared corpus is not at {CORPUS}")


def read(data: str | bytes, name: str = "a.xml", **options: object) -> Parsed:
    (parsed,) = parse(data if isinstance(data, bytes) else data.encode(), name, {"xml": options})
    assert_sound(parsed)
    return parsed


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(b.kind, parsed.text[slice(*b.span)]) for b in parsed.blocks]


def headings(parsed: Parsed) -> list[tuple[int, str]]:
    return [(b.level, parsed.text[slice(*b.span)]) for b in parsed.blocks if b.kind == "heading"]


JATS = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96)//EN" "JATS-archivearticle1.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML" xml:lang="en"><front>
<journal-meta><journal-title>The Journal</journal-title></journal-meta>
<article-meta><article-id pub-id-type="doi">10.1/x</article-id>
<title-group><article-title>On <italic>mills</italic></article-title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Lee</surname><given-names>Ann</given-names></name></contrib>
<contrib contrib-type="editor"><name><surname>No</surname><given-names>Body</given-names></name></contrib></contrib-group>
<aff>Somewhere</aff><pub-date><day>2</day><month>3</month><year>2020</year></pub-date>
<abstract><p>In short.</p></abstract><kwd-group><kwd>corn</kwd><kwd>wind</kwd></kwd-group></article-meta></front>
<body><sec><label>1</label><title>Methods</title>
<p>We ground<xref>1</xref> it, <inline-formula><tex-math>$x^2$</tex-math></inline-formula>.</p>
<sec><title>Stones</title><p>Two<fn><p>Or three.</p></fn> of them.</p></sec>
<fig><label>Figure 1.</label><caption><title>A mill.</title></caption></fig>
<table-wrap><label>Table 1.</label><caption><p>Yields</p></caption>
<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2<break/>3</td></tr></table></table-wrap>
<list list-type="order"><list-item><p>first</p></list-item><list-item><p>second</p></list-item></list></sec></body>
<back><ref-list><ref><label>1</label>
<element-citation><name><surname>Roe</surname><given-names>B</given-names></name><year>1999</year>
<source>Nature</source></element-citation></ref>
<ref><mixed-citation>Doe, J. <year>2001</year>.</mixed-citation></ref></ref-list></back></article>"""


def test_an_article_reads_as_its_page_does():
    parsed = read(JATS, "a.nxml")

    assert headings(parsed) == [(1, "On mills"), (2, "Abstract"), (2, "1 Methods"), (3, "Stones"), (2, "References")]
    body = [text for kind, text in blocks(parsed) if kind != "heading"]
    assert body[:4] == ["Ann Lee", "In short.", "Keywords: corn, wind", "We ground1 it, $x^2$."]
    assert body[6:10] == ["Figure 1. A mill.", "Table 1. Yields", "A | B\n1 | 2 3", "1. first\n2. second"]
    assert body[4:6] == ["Two [1] of them.", "[1] Or three."]
    assert blocks(parsed)[-1] == ("list", "- 1 B Roe, 1999, Nature\n- Doe, J. 2001.")
    assert "Somewhere" not in parsed.text


def test_the_front_matter_of_an_article_is_metadata():
    metadata = read(JATS).metadata

    expected = {
        "title": "On mills",
        "author": "Ann Lee",
        "date": "2020-03-02",
        "language": "en",
        "journal": "The Journal",
        "doi": "10.1/x",
    }
    assert expected == {key: metadata[key] for key in expected}


DOCBOOK = """<!DOCTYPE book PUBLIC "-//OASIS//DTD DocBook XML V4.4//EN" "docbookx.dtd">
<book><bookinfo><title>The Mill</title><author><firstname>Ann</firstname><surname>Lee</surname></author></bookinfo>
<chapter><title>Caf&eacute;s &amp; &vendor;</title>
<para>He said <quote>go</quote>.<footnote><para>Twice.</para></footnote> So.</para>
<programlisting>a  =  1
  b</programlisting><itemizedlist>
<listitem><para>one</para></listitem><listitem><para>two</para></listitem></itemizedlist>
<variablelist><varlistentry><term>corn</term><listitem><para>a cereal</para></listitem></varlistentry></variablelist>
<table><title>Yields</title><tgroup>
<thead><row><entry>A</entry><entry>B</entry></row></thead>
<tbody><row><entry>1</entry><entry>2</entry></row></tbody></tgroup></table>
<blockquote><para>To be.</para></blockquote><section><title>Deeper</title><para>End.</para></section></chapter></book>"""


def test_a_book_in_docbook_has_its_parts():
    parsed = read(DOCBOOK, "a.docbook")

    assert headings(parsed) == [(1, "The Mill"), (2, "Cafés & &vendor;"), (3, "Deeper")]
    assert blocks(parsed)[3:11] == [
        ("paragraph", "He said “go”. [1] So."),
        ("paragraph", "[1] Twice."),
        ("code", "a  =  1\n  b"),
        ("list", "- one\n- two"),
        ("list", "corn\n  a cereal"),
        ("paragraph", "Yields"),
        ("table", "A | B\n1 | 2"),
        ("quote", "To be."),
    ]
    assert parsed.metadata["author"] == "Ann Lee"


def test_speeches_of_a_play_are_paragraphs_behind_their_speaker():
    tei = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt><title>Faust</title>
    <author>Goethe</author></titleStmt></fileDesc></teiHeader>
    <text><body><div><head>Act I</head><sp><speaker>Faust</speaker><l>Line one</l><l>Line two</l></sp>
    <stage>He goes.</stage></div></body></text></TEI>"""
    parsed = read(tei)

    assert blocks(parsed) == [
        ("heading", "Faust"),
        ("heading", "Act I"),
        ("paragraph", "Faust:\nLine one\nLine two"),
        ("paragraph", "He goes."),
    ]
    assert (parsed.metadata["title"], parsed.metadata["author"]) == ("Faust", "Goethe")


def test_namespaces_cdata_and_mixed_content_read_in_order():
    source = "<r xmlns:x='urn:x'><x:t><![CDATA[a < b && c]]></x:t><!-- comment --><?pi x?><t>mixed <b>bold</b> tail</t></r>"

    assert blocks(read(source)) == [("paragraph", "a < b && c"), ("paragraph", "mixed bold tail")]


def test_an_unknown_document_loses_nothing():
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    source = "<doc><author>one</author><date>two</date><p>three <x>four</x> five</p><aff>six</aff><z><y>seven</y></z></doc>"

    assert words == read(source).text.split()


CATALOG = """<catalog><updated>today</updated><book id="1"><author>G &amp; M</author><title>XML</title>
<price cur="EUR">4</price><tags><t>a</t><t>b</t></tags></book><book id="2"><title>Rain<b>y</b> days</title></book></catalog>"""


def test_each_of_the_repeated_children_of_data_is_a_record_of_names_and_values():
    assert blocks(read(CATALOG)) == [
        ("record", "updated: today"),
        ("record", "id: 1\nauthor: G & M\ntitle: XML\nprice: 4\nprice.cur: EUR\ntags.t: a\ntags.t: b"),
        ("record", "id: 2\ntitle: Rainy days"),
    ]


def test_records_may_lie_deeper_and_be_attributes_only():
    source = "<response><status>ok</status><rows><row Id='1' Body='x'/><row Id='2' Body='y'/></rows></response>"

    assert [text for _, text in blocks(read(source))] == ["status: ok", "Id: 1\nBody: x", "Id: 2\nBody: y"]


def test_the_source_itself_can_be_the_text():
    assert read(CATALOG, source=True)[:2] == (CATALOG, ())


def test_a_feed_has_a_heading_for_each_entry_and_its_fullest_text():
    rss = """<rss xmlns:content="urn:c" xmlns:dc="urn:d"><channel>
    <title>News &amp; co</title><description>All of it</description>
    <item><title>One</title><pubDate>Mon, 06 Jun 2005 22:21:22 +0200</pubDate>
    <dc:creator>Ann</dc:creator><description>short</description>
    <content:encoded><![CDATA[<h1>Big</h1><p>Long <b>text</b></p><!-- never closed]]></content:encoded></item>
    <item><title>Two</title><description>a &lt; b</description></item></channel></rss>"""
    parsed = read(rss, "a.rss")

    assert headings(parsed) == [(1, "News & co"), (2, "One"), (3, "Big"), (2, "Two")]
    assert [t for k, t in blocks(parsed) if k == "paragraph"] == [
        "All of it",
        "Mon, 06 Jun 2005 22:21:22 +0200 · Ann",
        "Long text",
        "a < b",
    ]


def test_an_outline_is_a_nested_list():
    outline = '<outline text="a &lt;b&gt;x&lt;/b&gt;"><outline text="c" xmlUrl="http://u"/></outline>'
    opml = f"<opml><head><title>T</title></head><body>{outline}</body></opml>"

    assert blocks(read(opml, "a.opml")) == [("heading", "T"), ("list", "- a x\n  - c (http://u)")]


def test_of_a_drawing_only_its_words_are_read():
    words = '<title>A mill</title><path d="M0 0"/><text>Wind <tspan>here</tspan></text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><style>.a{{}}</style>{words}</svg>'

    assert [text for _, text in blocks(read(svg, "a.svg"))] == ["A mill", "Wind here"]


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">',
        f'<!ENTITY a "{"x" * 2000}">',
        '<!ENTITY f SYSTEM "file:///etc/passwd">',
        '<!ENTITY % p SYSTEM "http://x/y"> %p;',
    ],
)
def test_entities_that_unfold_or_fetch_are_refused(declarations):
    with pytest.raises(DocumentError) as error:
        read(f"<!DOCTYPE r [{declarations}]><r><p>&a;&b;&f;</p></r>")

    assert error.value.kind == "unsafe_xml"


def test_a_harmless_entity_stays_as_it_is_written():
    parsed = read('<!DOCTYPE r [<!ENTITY v "]>1.2"> <!-- ]> -->]><r><p a="&v;">Version &v;, &nbsp;&#65;</p></r>')

    assert parsed.text.replace("\xa0", " ") == "Version &v;,  A"
    assert "left as written" in parsed.metadata["warning"]


def test_what_is_no_reference_is_an_ampersand():
    assert read("<r><p>AT&T &amp; more &; &amp;amp</p></r>").text == "AT&T & more &; &amp"


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        ('<?xml version="1.0" encoding="UTF-8"?><r><p>caf\xe9 cr\xe8me</p></r>'.encode("latin-1"), "café crème", "cp1252"),
        ('<?xml version="1.0" encoding="UTF-16"?><r><p>café</p></r>'.encode("utf-16"), "café", "utf-16-le"),
        (
            '<?xml version="1.0" encoding="Shift_JIS"?><r><p>日本語の文章です</p></r>'.encode("cp932"),
            "日本語の文章です",
            "cp932",
        ),
        ('<?xml version="1.0" encoding="windows-1250"?><r><p>Łódź</p></r>'.encode("cp1250"), "Łódź", "cp1250"),
        ('<?xml version="1.0" encoding="US-ASCII"?><r><p>café</p></r>'.encode(), "café", "utf-8"),
    ],
)
def test_a_wrong_declared_encoding_is_put_right(data, text, encoding):
    parsed = read(data)

    assert (text, encoding) == (parsed.text, parsed.metadata["encoding"])


def test_characters_xml_does_not_have_are_left_out_and_the_rest_is_read():
    parsed = read("<r><p>be\x0bfore</p><p>af\x00ter</p></r>")

    assert (parsed.text, "warning" in parsed.metadata) == ("before\n\nafter", False)


def test_of_a_truncated_document_the_beginning_is_kept_with_a_warning():
    parsed = read("<doc><p>Whole one.</p><p>Half a sen")

    assert parsed.text == "Whole one.\n\nHalf a sen"
    assert "not well-formed" in parsed.metadata["warning"]


def test_depth_is_limited():
    with pytest.raises(DocumentError) as error:
        read("<a>" * 100_000 + "</a>" * 100_000)

    assert error.value.kind == "too_deep"


@pytest.mark.parametrize("inner", ["<a>x</a>", "<p>x</p>", "<a b='1'><c>d</c></a>", "<sec><title>t</title><p>x</p></sec>"])
@pytest.mark.long
def test_time_grows_with_the_length_of_the_document(inner):
    def seconds(times: int) -> float:
        data = ("<r>" + inner * times + "</r>").encode()
        begin = time.process_time()
        list(parse(data, "a.xml"))
        return time.process_time() - begin

    seconds(100)
    assert seconds(20_000) < 12 * max(0.02, seconds(5_000))


SEEDS = [JATS, DOCBOOK, CATALOG, "<rss><channel><item><title>x</title><description>y</description></item></channel></rss>"]


def test_any_damage_gives_sound_blocks_or_a_document_error():
    rng = random.Random(4)
    for turn in range(300):
        data = bytearray(rng.choice(SEEDS).encode())
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 30))] = rng.choice(
                (b"<", b">", b"&x;", b"\xff", b"</p>", b"<![CDATA[", b"\0", b"<!--", b"")
            )
        try:
            for parsed in parse(bytes(data[: rng.randint(1, len(data))] if turn % 3 == 0 else data), "a.xml", format="xml"):
                assert_sound(parsed)
        except DocumentError:
            pass


@needs_corpus
def test_every_document_of_the_open_corpus_is_read():
    for path in sorted((CORPUS / "open" / "xml").rglob("*")):
        if path.is_file() and path.suffix != ".txt":
            parsed = read(path.read_bytes(), path.name)
            assert "<" not in parsed.text[:40]
            assert "xlink" not in parsed.text or "pandoc" in str(path)
            assert parsed.text.strip() or path.suffix == ".svg"


def test_cells_of_journal_and_docbook_tables_stand_in_their_columns():
    cals = (
        "<article xmlns='http://docbook.org/ns/docbook'><title>T</title><informaltable><tgroup cols='3'><colspec colname='a'/>"
        "<colspec colname='b'/><colspec colname='c'/><thead><row>"
        "<entry morerows='1'>P</entry><entry namest='b' nameend='c'>H</entry>"
        "</row><row><entry>m</entry><entry>n</entry></row></thead><tbody><row><entry namest='a' nameend='b'>w</entry>"
        "<entry>x</entry></row></tbody></tgroup></informaltable></article>"
    )
    html = "<table><tr><th rowspan='2'>P</th><th colspan='2'>H</th></tr><tr><th>m</th><th>n</th></tr></table>"

    assert blocks(read(cals))[1:] == [("table", "P | H\n| m | n\nw |  | x")]
    assert ("table", "P | H\n| m | n") in blocks(
        read(f"<article><body><sec><title>S</title><p>x</p><table-wrap>{html}</table-wrap></sec></body></article>")
    )


def test_a_formula_in_marks_is_one_line():
    math = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>a</mi><mo>=</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></math>'
    body = f"<p>Let <inline-formula>{math}</inline-formula> be.</p>"
    article = f"<article><body><sec><title>S</title>{body}</sec></body></article>"

    assert ("paragraph", "Let a = 1/2 be.") in blocks(read(article))
