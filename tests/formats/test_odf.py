"""OpenDocument texts and presentations, zipped and flat."""

from __future__ import annotations

import base64
import contextlib
import io
import random
import time
import zipfile

import pymupdf
import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

OASIS = "urn:oasis:names:tc:opendocument:xmlns"
PREFIXES = {
    "office": "office", "text": "text", "table": "table", "draw": "drawing", "style": "style", "meta": "meta",
    "presentation": "presentation", "fo": "xsl-fo-compatible", "svg": "svg-compatible",
}  # fmt: skip
NAMESPACES = " ".join(f'xmlns:{prefix}="{OASIS}:{name}:1.0"' for prefix, name in PREFIXES.items()) + (
    ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
)
STYLES = """<office:automatic-styles>
<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Title"/>
<style:style style:name="P2" style:family="paragraph" style:parent-style-name="Preformatted_20_Text"/>
<style:style style:name="P3" style:family="paragraph"><style:paragraph-properties fo:break-before="page"/></style:style>
<style:style style:name="T1" style:family="text"><style:text-properties text:display="none"/></style:style>
<style:style style:name="Preformatted_20_Text" style:display-name="Preformatted Text" style:family="paragraph"/>
<style:style style:name="Title" style:family="paragraph"/>
<style:style style:name="Quotations" style:family="paragraph"/>
<text:list-style style:name="L1">
<text:list-level-style-number text:level="1" style:num-suffix="." style:num-format="1"/>
<text:list-level-style-number text:level="2" style:num-suffix=")" style:num-format="a" text:display-levels="2"/>
</text:list-style>
<text:list-style style:name="L2"><text:list-level-style-bullet text:level="1" text:bullet-char="•"/></text:list-style>
<text:outline-style style:name="Outline">
<text:outline-level-style text:level="1" style:num-format="1" style:num-suffix="."/></text:outline-style>
</office:automatic-styles>"""


def document(body: str, kind: str = "text", before: str = "", attributes: str = "") -> str:
    return (
        f'<office:document {NAMESPACES} office:version="1.3">{before}{STYLES}<office:body><office:{kind} {attributes}>{body}'
        f"</office:{kind}></office:body></office:document>"
    )


def package(parts: dict[str, str | bytes], kind: str = "text") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        for name, data in parts.items():
            archive.writestr(name, data)
    return packed.getvalue()


def one(data: str | bytes, name: str = "a.fodt", **options: object) -> Parsed:
    source = data.encode() if isinstance(data, str) else data
    (parsed,) = parse(source, name, {"odt": options, "odp": options})
    assert_sound(parsed)
    return parsed


def texts(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def read(body: str) -> list[tuple[str, str]]:
    return texts(one(document(body)))


def p(text: str, style: str = "") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def items(*inside: str, attributes: str = 'text:style-name="L1"') -> str:
    return f"<text:list {attributes}>{''.join(f'<text:list-item>{item}</text:list-item>' for item in inside)}</text:list>"


def row(*cells: str, attributes: str = "") -> str:
    return f"<table:table-row {attributes}>{''.join(c if c.startswith('<') else cell(c) for c in cells)}</table:table-row>"


def cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}>{p(text) if text else ''}</table:table-cell>"


def table(*rows: str) -> str:
    return f"<table:table>{''.join(rows)}</table:table>"


# Texts


def test_packages_and_flat_files_read_alike() -> None:
    source = document('<text:h text:outline-level="2">A</text:h>' + p("b <text:span>c</text:span>\n   d"))

    assert texts(one(source)) == [("heading", "A"), ("paragraph", "b c d")]
    assert texts(one(package({"content.xml": source}), "a.odt")) == texts(one(source))
    assert one(source).blocks[0].level == 2


def test_headings_carry_the_numbers_of_the_outline() -> None:
    parsed = one(document('<text:h text:outline-level="1">A</text:h><text:h text:outline-level="1">B</text:h>'))

    assert texts(parsed) == [("heading", "1. A"), ("heading", "2. B")]
    assert [block.title for block in parsed.blocks] == ["A", "B"]


def test_white_space_is_what_writer_shows() -> None:
    assert read(p('a<text:s text:c="3"/>b<text:tab/>c<text:line-break/>d')) == [("paragraph", "a   b\tc\nd")]
    assert read(p("def f():", "P2") + p('<text:s text:c="4"/>return 1', "P2")) == [("code", "def f():\n    return 1")]


def test_titles_and_quotes_are_told_by_style() -> None:
    parsed = one(document(p("Book", "P1") + p("q", "Quotations")))

    assert texts(parsed) == [("paragraph", "Book"), ("quote", "q")]
    assert parsed.metadata["title"] == "Book"


def test_lists_carry_the_numbers_writer_shows() -> None:
    body = items(p("a") + p("more") + items(p("b"), p("c"), attributes=""), p("d")) + p("x")
    body += items(p("e"), attributes='text:style-name="L1" text:continue-numbering="true"') + p("y")
    body += items(p("f"), attributes='text:style-name="L2"')

    parsed = one(document(body))

    assert texts(parsed) == [
        ("list", "1. a\n   more\n  1.a) b\n  1.b) c\n2. d"),
        ("paragraph", "x"),
        ("list", "3. e"),
        ("paragraph", "y"),
        ("list", "- f"),
    ]
    assert len(parsed.blocks[0].parts) == 4


def test_what_is_not_shown_is_left_out() -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion></text:changed-region>"
        "</text:tracked-changes>"
        + p('se<text:change text:change-id="x"/>en<text:span text:style-name="T1">hidden</text:span>.')
    )
    body += '<text:section text:display="none">' + p("hidden") + "</text:section>"
    body += "<text:table-of-content><text:index-body>" + p("One 1") + "</text:index-body></text:table-of-content>"
    body += p('x<text:hidden-paragraph text:is-hidden="true"/>')

    assert read(body) == [("paragraph", "seen.")]


def test_notes_follow_their_block_and_comments_are_read_on_request() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        + p("one")
        + p("two")
        + "</text:note-body></text:note>"
    )
    comment = "<office:annotation><dc:creator>Ada</dc:creator><dc:date>2001</dc:date>" + p("why?") + "</office:annotation>"
    source = document(p(f"a{note} b{comment}.") + p("last"))

    assert texts(one(source)) == [("paragraph", "a[1] b."), ("paragraph", "[1] one\ntwo"), ("paragraph", "last")]
    assert texts(one(source, comments=True))[2] == ("paragraph", "[Ada: why?]")


def test_tables_have_a_line_per_row_and_merged_cells_their_text_once() -> None:
    header = "<table:table-header-rows>" + row(
        "A", cell("B", 'table:number-columns-spanned="2"'), "<table:covered-table-cell/>", "C"
    )
    body = (
        header
        + "</table:table-header-rows>"
        + row("1", "2", "3", table(row("i", "j")).join(["<table:table-cell>", "</table:table-cell>"]))
    )

    parsed = one(document(table(body)))

    assert texts(parsed) == [("table", "A | B |  | C\n1 | 2 | 3 | i j")]
    assert len(parsed.blocks[0].parts) == 2


def test_repeated_cells_and_rows_are_written_out_as_far_as_they_have_text() -> None:
    empty = '<table:table-cell table:number-columns-repeated="2"/>'
    far = '<table:table-cell table:number-columns-repeated="16000"/>'
    body = row("a", empty, cell("b", 'table:number-columns-repeated="2"'), far, attributes='table:number-rows-repeated="2"')

    assert read(table(body, row(far, attributes='table:number-rows-repeated="1000000"'))) == [
        ("table", "a |  |  | b | b\na |  |  | b | b")
    ]


def test_repetition_is_bounded_and_said() -> None:
    huge = row(cell("x" * 1000, 'table:number-columns-repeated="16000"'), attributes='table:number-rows-repeated="1000000"')

    parsed = one(document(table(huge * 20)))

    assert len(parsed.text) < 5_000_000
    assert "in part" in parsed.metadata["warning"]


def test_a_table_of_one_cell_is_layout() -> None:
    assert read(table(row(cell("boxed")))) == [("paragraph", "boxed")]


def test_frames_follow_their_paragraph_and_described_pictures_are_figures() -> None:
    pixels = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 2, 2), False)
    pixels.clear_with(90)
    data = base64.b64encode(pixels.tobytes("jpeg")).decode()
    image = f"<draw:image><office:binary-data>{data}</office:binary-data></draw:image>"
    picture = f"<draw:frame>{image}<svg:desc>A dot</svg:desc></draw:frame>"
    source = document(p("a <draw:frame><draw:text-box>" + p("boxed") + "</draw:text-box></draw:frame>b" + picture))

    parsed = one(source, images=True)

    assert texts(parsed) == [("paragraph", "a b"), ("paragraph", "boxed"), ("figure", "A dot")]
    assert [image.span for image in parsed.images] == [parsed.blocks[2].span]
    assert one(source).images == ()


def test_embedded_equations_are_text() -> None:
    math = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mrow><msup><mi>x</mi><mn>2</mn></msup><mo>=</mo>'
        "<mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac></mrow><annotation>x^2</annotation></semantics></math>"
    )
    body = p('so <draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>.')

    parsed = one(package({"content.xml": document(body), "Object 1/content.xml": math}), "a.odt")

    assert texts(parsed) == [("paragraph", "so x^2 = a/(b + 1).")]


def test_pages_are_those_of_the_last_layout() -> None:
    body = p("a") + "<text:soft-page-break/>" + p("b") + p("c<text:soft-page-break/>d") + p("e", "P3")

    assert [b.page for b in one(document(body, attributes='text:use-soft-page-breaks="true"')).blocks] == [1, 2, 2, 4]
    assert one(document(body)).blocks[0].page is None


def test_properties_and_margins_are_metadata() -> None:
    meta = (
        "<office:meta><dc:title>T</dc:title><meta:initial-creator>Ada</meta:initial-creator><dc:creator>Bob</dc:creator>"
        "<dc:date>2001-02-03T04:05:06</dc:date><dc:language>de-DE</dc:language><meta:keyword>x</meta:keyword><meta:keyword>y</meta:keyword>"
        "</office:meta><office:master-styles><style:master-page><style:header>"
        + p("Secret")
        + "</style:header></style:master-page></office:master-styles>"
    )

    assert one(document(p("text"), before=meta)).metadata == {
        "title": "T",
        "author": "Ada",
        "date": "2001-02-03T04:05:06",
        "language": "de-DE",
        "keywords": "x, y",
        "header": "Secret",
    }


# Presentations


def test_a_slide_is_a_page_with_its_title_first_and_its_notes_last() -> None:
    slide = (
        '<draw:page draw:name="page1"><draw:frame presentation:class="outline"><draw:text-box>'
        + items(p("one"), p("two"), attributes='text:style-name="L2"')
        + '</draw:text-box></draw:frame><draw:frame presentation:class="title"><draw:text-box>'
        + p("Hello")
        + "</draw:text-box></draw:frame><presentation:notes><draw:page-thumbnail/>"
        + '<draw:frame presentation:class="notes"><draw:text-box>'
        + p("say this")
        + '</draw:text-box></draw:frame><draw:frame presentation:class="page-number"><draw:text-box>'
        + p("7")
        + "</draw:text-box></draw:frame></presentation:notes></draw:page>"
    )
    named = '<draw:page draw:name="Summary"><draw:custom-shape>' + p("shape") + "</draw:custom-shape></draw:page>"

    parsed = one(document(slide + named, "presentation"), "a.fodp")

    assert texts(parsed) == [
        ("heading", "Hello"),
        ("list", "- one\n- two"),
        ("notes", "say this"),
        ("heading", "Summary"),
        ("paragraph", "shape"),
    ]
    assert [block.page for block in parsed.blocks] == [1, 1, 1, 2, 2]
    assert parsed.format == "odp"


# Damage


def test_encrypted_files_are_called_so() -> None:
    manifest = '<m:manifest xmlns:m="m"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'

    with pytest.raises(DocumentError) as raised:
        one(package({"META-INF/manifest.xml": manifest, "content.xml": b"\x93\x12garbage"}), "a.odt")

    assert raised.value.kind == "encrypted"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (package({"styles.xml": "<x/>"}), "corrupt"),
        (package({"content.xml": "<x/>"}), "corrupt"),
        (package({"content.xml": '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'}), "unsafe_xml"),
        (package({"content.xml": document("<text:section>" * 3000)}), "too_deep"),
    ],
)
def test_damage_is_called_by_its_name(data: bytes, kind: str) -> None:
    with pytest.raises(DocumentError) as raised:
        one(data, "a.odt")

    assert raised.value.kind == kind


def test_damaged_xml_is_read_as_far_as_possible_and_said() -> None:
    parsed = one(document(p("kept"))[:-50])

    assert parsed.text == "kept"
    assert "damaged" in parsed.metadata["warning"]


def test_deep_and_long_documents_take_linear_time() -> None:
    deep = p("core")
    for _ in range(300):
        deep = table(row(f"<table:table-cell>{deep}</table:table-cell>", "x"))

    began = time.process_time()
    assert "core" in one(document(deep)).text
    assert "core" in one(document("<text:list><text:list-item>" * 400 + p("core") + "</text:list-item></text:list>" * 400)).text
    assert len(one(document(p('x<text:s text:c="9999999"/>y'))).text) < 2000

    assert time.process_time() - began < 5


def test_any_damage_gives_a_document_or_a_document_error() -> None:
    rng = random.Random(5)
    whole = document(
        '<text:h text:outline-level="1">A</text:h>' + items(p("a") + items(p("b"))) + table(row("x", "y"), row("z"))
        + p("n<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        + p("one") + "</text:note-body></text:note>")
    ).encode()  # fmt: skip
    body = whole.index(b"<office:body>")
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            at, to = rng.randrange(body, len(data)), rng.randrange(len(data))
            data[at : at + rng.randint(0, 20)] = data[to : to + rng.randint(0, 80)]
        with contextlib.suppress(DocumentError):
            one(bytes(data))
