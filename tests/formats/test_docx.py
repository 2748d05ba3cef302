"""Word documents: what a reader of the final version sees, and nothing but `DocumentError` for damaged ones."""

from __future__ import annotations

import contextlib
import io
import random
import time
import zipfile
from pathlib import Path

import pymupdf
import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:o="urn:schemas-microsoft-com:office:office" xmlns:v="urn:schemas-microsoft-com:vml"'
)
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
OFFICE = f'<Relationship Id="r0" Type="{RELATIONS}officeDocument" Target="word/document.xml"/>'
STYLES = """
<w:docDefaults><w:rPrDefault><w:rPr>
<w:lang w:val="fr-FR" w:eastAsia="zh-CN" w:bidi="ar-SA"/></w:rPr></w:rPrDefault></w:docDefaults>
<w:style w:type="paragraph" w:default="1" w:styleId="Standard"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/>
<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="My Section"/><w:basedOn w:val="berschrift2"/></w:style>
<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/><w:basedOn w:val="Standard"/></w:style>
<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="Verzeichnis1"><w:name w:val="toc 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Quelltext"><w:name w:val="Source Code"/></w:style>
<w:style w:type="paragraph" w:styleId="Zitat"><w:name w:val="Quote"/></w:style>
<w:style w:type="paragraph" w:styleId="ListParagraph"><w:name w:val="List Paragraph"/></w:style>
<w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="loop"/><w:basedOn w:val="Loop"/></w:style>
<w:style w:type="character" w:styleId="Secret"><w:name w:val="secret"/><w:rPr><w:vanish/></w:rPr></w:style>
"""


def level(at: int, format: str, text: str, start: int = 1) -> str:
    return f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:numFmt w:val="{format}"/><w:lvlText w:val="{text}"/></w:lvl>'


NUMBERING = (
    f'<w:abstractNum w:abstractNumId="0">{level(0, "decimal", "%1.")}{level(1, "lowerLetter", "%1.%2)")}'
    f'{level(2, "lowerRoman", "(%3)")}</w:abstractNum><w:abstractNum w:abstractNumId="1">{level(0, "bullet", "&#xF0B7;")}'
    f"{level(1, 'bullet', 'o')}</w:abstractNum>"
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="0"/>'
    '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num>'
)


def r(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(*runs: str, style: str = "", properties: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    inside = "".join(run if run.startswith("<") else r(run) for run in runs)
    return f"<w:p><w:pPr>{named}{properties}</w:pPr>{inside}</w:p>"


def item(text: str, number: int, depth: int = 0) -> str:
    return p(text, properties=f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>')


def cell(*inside: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{''.join(x if x.startswith('<') else p(x) for x in inside)}</w:tc>"


def table(*rows: str) -> str:
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def word(*body: str, parts: dict[str, str | bytes] | None = None, relations: str = "", top: str = OFFICE) -> bytes:
    """A Word file of these paragraphs and further parts of word/."""
    document = f"<w:document {NAMESPACES}><w:body>{''.join(body)}</w:body></w:document>"
    known = "".join(
        f'<Relationship Id="k{n}" Type="{RELATIONS}{n}" Target="{n}.xml"/>'
        for n in ("styles", "numbering", "footnotes", "endnotes", "comments")
    )
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": f"<Relationships>{top}</Relationships>",
        "word/_rels/document.xml.rels": f"<Relationships>{known}{relations}</Relationships>",
        "word/document.xml": document,
        "word/styles.xml": f"<w:styles {NAMESPACES}>{STYLES}</w:styles>",
        "word/numbering.xml": f"<w:numbering {NAMESPACES}>{NUMBERING}</w:numbering>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (files | {f"word/{name}": data for name, data in (parts or {}).items()}).items():
            archive.writestr(name, data)
    return packed.getvalue()


def one(data: bytes, **options: object) -> Parsed:
    parsed = next(iter(parse(data, "a.docx", {"docx": options})))
    assert_sound(parsed)
    return parsed


def texts(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def read(*body: str) -> list[tuple[str, str]]:
    return texts(one(word(*body)))


# Headings and paragraphs


def test_headings_are_found_by_style_by_what_it_is_based_on_and_by_outline_level() -> None:
    body = [
        p("A", style="berschrift1"),
        p("B", style="Mine"),
        p("C", properties='<w:outlineLvl w:val="2"/>'),
        p("D"),
        p("E", style="Heading4"),
    ]

    parsed = one(word(*body))

    assert [(b.kind, b.level) for b in parsed.blocks] == [
        ("heading", 1),
        ("heading", 2),
        ("heading", 3),
        ("paragraph", 0),
        ("heading", 4),
    ]


def test_a_heading_carries_its_number_and_is_titled_without() -> None:
    parsed = one(word(p("Scope", style="berschrift1", properties='<w:numPr><w:numId w:val="1"/></w:numPr>')))

    assert texts(parsed) == [("heading", "1. Scope")]
    assert parsed.blocks[0].title == "Scope"


def test_a_clause_in_the_style_of_a_heading_is_a_paragraph() -> None:
    assert read(p("The supplier shall " * 20 + "pay", style="berschrift1")) == [
        ("paragraph", "The supplier shall " * 20 + "pay")
    ]


def test_body_text_may_not_be_a_heading_by_outline_level_nine() -> None:
    assert read(p("x", style="berschrift1", properties='<w:outlineLvl w:val="9"/>')) == [("paragraph", "x")]


def test_a_title_is_text_and_metadata_and_styles_that_loop_end() -> None:
    parsed = one(word(p("The Book", style="Titel"), p("x", style="Loop")))

    assert texts(parsed) == [("paragraph", "The Book"), ("paragraph", "x")]
    assert parsed.metadata["title"] == "The Book"


def test_code_and_quotes_run_on_and_end() -> None:
    found = read(
        p("def f():", style="Quelltext"),
        p("    return 1", style="Quelltext"),
        p("a", style="Zitat"),
        p("b", style="Zitat"),
        p("c"),
    )

    assert found == [("code", "def f():\n    return 1"), ("quote", "a\nb"), ("paragraph", "c")]


def test_a_paragraph_in_a_typewriters_font_is_code_if_it_looks_like_it() -> None:
    courier = '<w:rFonts w:ascii="Courier New"/>'

    found = read(p(r("x = f(1)", courier)), p(r("return x", courier)), p("then"), p(r("Dear Madam", courier)))

    assert found == [("code", "x = f(1)\nreturn x"), ("paragraph", "then"), ("paragraph", "Dear Madam")]


# What runs say


def test_insertions_are_kept_and_deletions_left_out() -> None:
    insertion, deletion = f"<w:ins>{r('new ')}</w:ins>", "<w:del><w:r><w:delText>old </w:delText><w:tab/></w:r></w:del>"
    moved = f"<w:moveFrom>{r('there ')}</w:moveFrom><w:moveTo>{r('here ')}</w:moveTo>"

    assert read(p("A ", insertion, deletion, moved, "text.")) == [("paragraph", "A new here text.")]


def test_a_paragraph_whose_end_was_deleted_goes_on_with_the_next() -> None:
    gone = "<w:rPr><w:del/></w:rPr>"

    assert read(p("one ", properties=gone), p("two")) == [("paragraph", "one two")]
    assert read(p("last", properties=gone)) == [("paragraph", "last")]


def test_hidden_text_is_left_out_by_property_and_by_style() -> None:
    assert read(p(r("no", "<w:vanish/>"), r("no", '<w:rStyle w:val="Secret"/>'), r("seen.", '<w:vanish w:val="0"/>'))) == [
        ("paragraph", "seen.")
    ]


def test_fields_say_their_result_and_not_their_code() -> None:
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText><w:t>code</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )

    assert read(p("Page ", field, f'<w:fldSimple w:instr="X">{r(" of 9.")}</w:fldSimple>')) == [("paragraph", "Page 7 of 9.")]


def test_a_field_that_never_ends_does_not_swallow_the_document() -> None:
    assert read(p('<w:r><w:fldChar w:fldCharType="begin"/></w:r>'), p("after")) == [("paragraph", "after")]


def test_old_check_boxes_show_their_state() -> None:
    box = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:checked/></w:checkBox></w:ffData></w:fldChar></w:r>'

    assert read(p(box)) == [("paragraph", "☒")]


def test_special_characters_read_as_a_reader_sees_them() -> None:
    runs = "<w:r><w:t>co</w:t><w:softHyphen/><w:t>op\u00ad</w:t><w:noBreakHyphen/><w:t>x</w:t><w:tab/><w:t>y</w:t>"
    runs += "<w:br/><w:t>z</w:t></w:r>"
    symbols = '<w:r><w:sym w:font="Symbol" w:char="F061"/><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>'
    typed = r("b\uf0b3", '<w:rFonts w:ascii="Symbol"/>')

    assert read(p(runs)) == [("paragraph", "coop-x\ty\nz")]
    assert read(p(symbols, typed)) == [("paragraph", "α✓β≥")]


def test_content_controls_and_hyperlinks_are_read_through() -> None:
    control = (
        f"<w:sdt><w:sdtPr/><w:sdtContent>{p('in ', '<w:hyperlink>' + r('a link') + '</w:hyperlink>')}</w:sdtContent></w:sdt>"
    )

    assert read(control) == [("paragraph", "in a link")]


def test_a_table_of_contents_is_left_out() -> None:
    gallery = '<w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'

    found = read(
        f"<w:sdt>{gallery}<w:sdtContent>{p('Contents')}</w:sdtContent></w:sdt>", p("One\t3", style="Verzeichnis1"), p("text")
    )

    assert found == [("paragraph", "text")]


def test_equations_are_one_line() -> None:
    fraction = "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    power = "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    root = f"<m:rad><m:radPr><m:degHide/></m:radPr><m:deg/><m:e>{power}<m:r><m:t>y</m:t></m:r></m:e></m:rad>"

    assert read(p("so ", f"<m:oMath>{fraction}<m:r><m:t>=</m:t></m:r>{root}</m:oMath>")) == [
        ("paragraph", "so (a+b)/2=√(x^2 y)")
    ]


# Lists


def test_lists_carry_the_numbers_word_shows() -> None:
    parsed = one(
        word(
            item("a", 1),
            item("b", 1, 1),
            item("c", 1, 1),
            item("d", 1, 2),
            item("e", 1),
            p("between"),
            item("f", 1),
            item("g", 3),
        )
    )

    assert texts(parsed) == [
        ("list", "1. a\n  1.a) b\n  1.b) c\n    (i) d\n2. e"),
        ("paragraph", "between"),
        ("list", "3. f\n5. g"),
    ]
    assert len(parsed.blocks[0].parts) == 5


def test_what_has_no_number_in_a_list_goes_on_its_item() -> None:
    assert read(item("a", 2), p("more", style="ListParagraph"), item("b", 2)) == [("list", "- a\n  more\n- b")]
    assert read(p("alone", style="ListParagraph")) == [("paragraph", "alone")]


def test_number_zero_takes_a_paragraph_off_its_list() -> None:
    assert read(item("a", 0)) == [("paragraph", "a")]


# Tables


def test_a_table_has_a_line_per_row_and_merged_cells_their_text_once() -> None:
    head = cell("A") + cell("B", properties='<w:gridSpan w:val="2"/>') + cell("C")
    first = cell("x", "y", properties='<w:vMerge w:val="restart"/>') + cell("1") + cell("2") + cell("3")
    second = cell("x", properties="<w:vMerge/>") + cell("4") + cell("5") + cell("6")

    parsed = one(word(table(head, first, second)))

    assert texts(parsed) == [("table", "A | B |  | C\nx y | 1 | 2 | 3\n| 4 | 5 | 6")]
    assert len(parsed.blocks[0].parts) == 3


def test_a_table_in_a_cell_is_part_of_it() -> None:
    inner = table(cell("i") + cell("j"))

    assert read(table(cell("a") + cell("b", inner, p("c")), cell("d") + cell("e"))) == [("table", "a | b i j c\nd | e")]


def test_layout_tables_are_read_as_if_they_were_not_there() -> None:
    assert read(table(cell("boxed", item("item", 2)))) == [("paragraph", "boxed"), ("list", "- item")]
    assert read(table(cell(p("Work", style="berschrift1"), "long") + cell("side"))) == [
        ("heading", "Work"),
        ("paragraph", "long"),
        ("paragraph", "side"),
    ]


def test_automatic_numbers_in_a_table_are_its_text() -> None:
    assert read(table(cell(item("", 1)) + cell("a"), cell(item("", 1)) + cell("b"))) == [("table", "1. | a\n2. | b")]


def test_deleted_rows_are_left_out() -> None:
    rows = (
        "<w:tbl><w:tr>"
        + cell("a")
        + cell("b")
        + "</w:tr><w:tr><w:trPr><w:del/></w:trPr>"
        + cell("c")
        + cell("d")
        + "</w:tr></w:tbl>"
    )

    assert read(rows) == [("table", "a | b")]


# Boxes, notes, pictures


def box(*inside: str) -> str:
    content = f"<w:txbxContent>{''.join(inside)}</w:txbxContent>"
    return (
        f"<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wps:txbx>{content}</wps:txbx></w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict><v:textbox>{content}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )


def test_a_text_box_follows_its_paragraph_once() -> None:
    found = read(p("before ", box(p("Boxed", style="berschrift1"), table(cell("x") + cell("y"))), "after"), p("next"))

    assert found == [("paragraph", "before after"), ("heading", "Boxed"), ("table", "x | y"), ("paragraph", "next")]


def note(kind: str, id: int, *text: str) -> str:
    return f'<w:{kind} w:id="{id}">{"".join(p(f"<w:r><w:{kind}Ref/></w:r>", t) for t in text)}</w:{kind}>'


def test_notes_follow_the_block_that_refers_to_them() -> None:
    def reference(kind: str, id: int) -> str:
        return f'<w:r><w:{kind}Reference w:id="{id}"/></w:r>'

    body = [
        p("A", reference("footnote", 3), " b", reference("endnote", 2), "."),
        p("last"),
        item("i", 2),
        p("j", reference("footnote", 3)),
    ]
    parts: dict[str, str | bytes] = {
        "footnotes.xml": f"<w:footnotes {NAMESPACES}>{note('footnote', 3, 'one', 'two')}</w:footnotes>",
        "endnotes.xml": f"<w:endnotes {NAMESPACES}>{note('endnote', 2, 'end')}</w:endnotes>",
    }

    assert texts(one(word(*body, parts=parts))) == [
        ("paragraph", "A[1] b[i]."),
        ("paragraph", "[1] one\ntwo"),
        ("paragraph", "[i] end"),
        ("paragraph", "last"),
        ("list", "- i"),
        ("paragraph", "j[1]"),
    ]


def test_a_note_in_a_list_waits_for_the_end_of_the_list() -> None:
    reference = '<w:r><w:footnoteReference w:id="1"/></w:r>'
    first = item("a", 2).replace("</w:p>", f"{reference}</w:p>")
    parts: dict[str, str | bytes] = {"footnotes.xml": f"<w:footnotes {NAMESPACES}>{note('footnote', 1, 'n')}</w:footnotes>"}

    assert texts(one(word(first, item("b", 2), parts=parts))) == [("list", "- a[1]\n- b"), ("paragraph", "[1] n")]


def test_comments_are_read_where_they_are_asked_for() -> None:
    comments = f'<w:comments {NAMESPACES}><w:comment w:id="0" w:author="Ada">{p("why?")}</w:comment></w:comments>'
    data = word(p("text", '<w:r><w:commentReference w:id="0"/></w:r>'), parts={"comments.xml": comments})

    assert texts(one(data)) == [("paragraph", "text")]
    assert texts(one(data, comments=True)) == [("paragraph", "text"), ("paragraph", "[Ada: why?]")]


def test_pictures_are_figures_and_png_where_images_are_asked_for() -> None:
    picture = '<w:r><w:drawing><wp:docPr id="1" name="n" descr="A red dot"/><a:blip r:embed="p1"/></w:drawing></w:r>'
    pixels = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 2, 2), False)
    pixels.clear_with(90)
    relation = f'<Relationship Id="p1" Type="{RELATIONS}image" Target="media/a.jpg"/>'
    data = word(p("text", picture), parts={"media/a.jpg": pixels.tobytes("jpeg")}, relations=relation)

    assert one(data).images == ()
    parsed = one(data, images=True)

    assert texts(parsed) == [("paragraph", "text"), ("figure", "A red dot")]
    assert [(parsed.blocks[1].span, "A red dot")] == [(image.span, image.caption) for image in parsed.images]


def test_embedded_files_and_chunks_of_other_formats_are_members() -> None:
    relations = f'<Relationship Id="c1" Type="{RELATIONS}aFChunk" Target="chunk.html"/>'
    relations += f'<Relationship Id="e1" Type="{RELATIONS}package" Target="embeddings/inner.docx"/>'
    parts: dict[str, str | bytes] = {
        "chunk.html": "<html><body><p>from html</p></body></html>",
        "embeddings/inner.docx": word(p("within")),
    }
    body = [p("outer", '<w:r><w:object><o:OLEObject r:id="e1"/></w:object></w:r>'), '<w:altChunk r:id="c1"/>']

    found = [(parsed.member, parsed.text) for parsed in parse(word(*body, parts=parts, relations=relations), "a.docx")]

    assert found == [("", "outer"), ("!inner.docx", "within"), ("!chunk.html", "from html")]


def test_pages_are_those_of_words_last_layout() -> None:
    rendered, hard = "<w:r><w:lastRenderedPageBreak/></w:r>", '<w:r><w:br w:type="page"/></w:r>'

    parsed = one(word(p("one"), p(hard), p(rendered, "two"), p(rendered, "three")))

    assert [block.page for block in parsed.blocks] == [1, 2, 3]
    assert [block.page for block in one(word(p("one", hard), p("two"))).blocks] == [None, None]


# The package


def test_properties_and_margins_are_metadata() -> None:
    core = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
    top = OFFICE + f'<Relationship Id="c" Type="{core}" Target="word/core.xml"/>'
    properties = (
        '<cp:coreProperties xmlns:cp="c" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="t"><dc:title>T</dc:title>'
        "<dc:creator>Ada</dc:creator><dcterms:created>2001-01-01T00:00:00Z</dcterms:created></cp:coreProperties>"
    )
    header = f"<w:hdr {NAMESPACES}>{p('Confidential')}</w:hdr>"
    relation = f'<Relationship Id="h" Type="{RELATIONS}header" Target="header1.xml"/>'

    parsed = one(word(p("text"), parts={"core.xml": properties, "header1.xml": header}, relations=relation, top=top))

    assert parsed.metadata == {
        "title": "T",
        "author": "Ada",
        "date": "2001-01-01T00:00:00Z",
        "header": "Confidential",
        "language": "fr-FR",
    }
    assert parsed.text == "text"


def test_the_language_is_that_of_the_script() -> None:
    assert one(word(p("机器学习是人工智能的一个分支。"))).metadata["language"] == "zh-CN"


def test_strict_documents_are_read_alike() -> None:
    data = word(p("A", style="berschrift1"))
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            strict = old.read(name).replace(
                b"schemas.openxmlformats.org/wordprocessingml/2006/main", b"purl.oclc.org/ooxml/wordprocessingml/main"
            )
            new.writestr(name, strict.replace(RELATIONS.encode(), b"http://purl.oclc.org/ooxml/officeDocument/relationships/"))

    assert texts(one(packed.getvalue())) == [("heading", "A")]


def test_a_broken_part_costs_a_warning_and_damaged_xml_is_read_as_far_as_possible() -> None:
    parsed = one(word(p("A", style="Heading1"), parts={"styles.xml": "no xml"}))

    assert texts(parsed) == [("heading", "A")]
    assert "styles.xml" in parsed.metadata["warning"]
    cut = one(word(p("whole"), parts={"document.xml": f"<w:document {NAMESPACES}><w:body>{p('kept')}<w:p><w:r><w:t>and"}))
    assert "kept" in cut.text
    assert "damaged" in cut.metadata["warning"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (word(p("x"))[:300], "corrupt"),
        (word(parts={"document.xml": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'}), "unsafe_xml"),
        (word("<w:sdt>" * 3000), "too_deep"),
        (word("<w:p/>" * 8_000_000), "too_large"),
    ],
)
def test_damage_and_bombs_are_called_by_their_names(data: bytes, kind: str) -> None:
    with pytest.raises(DocumentError) as raised:
        one(data)

    assert kind == raised.value.kind


def test_depth_and_length_take_linear_time() -> None:
    deep = p("innermost")
    for _ in range(500):
        deep = table(cell(deep) + cell("x"))
    boxes = p("core")
    for _ in range(8):  # written twice at each depth
        boxes = p(box(boxes))
    many = "".join(p("w" * 20, '<w:r><w:footnoteReference w:id="1"/></w:r>') for _ in range(3000))
    notes = f"<w:footnotes {NAMESPACES}>{note('footnote', 1, 'n' * 100_000)}</w:footnotes>"

    began = time.process_time()
    assert "innermost" in one(word(deep)).text
    assert "core" in one(word(boxes)).text
    assert 100_000 < len(one(word(many, parts={"footnotes.xml": notes})).text) < 250_000

    assert time.process_time() - began < 5


def test_any_damage_gives_documents_or_a_document_error() -> None:
    rng = random.Random(7)
    whole = word(
        p("A", style="berschrift1"), item("a", 1), table(cell("x") + cell("y")), p(box(p("in"))),
        p('<w:r><w:footnoteReference w:id="1"/></w:r>'),
        parts={"footnotes.xml": f"<w:footnotes {NAMESPACES}>{note('footnote', 1, 'n')}</w:footnotes>"},
    )  # fmt: skip
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        document, numbering = archive.read("word/document.xml"), archive.read("word/numbering.xml")
    for _ in range(150):
        pieces = [bytearray(document), bytearray(numbering)]
        for piece in pieces:
            for _ in range(rng.randint(1, 5)):
                at, to = rng.randrange(len(piece)), rng.randrange(len(piece))
                piece[at : at + rng.randint(0, 20)] = piece[to : to + rng.randint(0, 80)]
        with contextlib.suppress(DocumentError):
            one(word(parts={"document.xml": bytes(pieces[0]), "numbering.xml": bytes(pieces[1])}), comments=True)


# The corpus


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not here")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("open/docx/*/*.docx")), ids=lambda path: path.stem)
def test_documents_of_the_corpus_are_sound(path: Path) -> None:
    for parsed in parse(path.read_bytes(), path.name, {"docx": {"images": True, "comments": True}}):
        assert_sound(parsed)


def test_the_lists_that_word_names_by_depth_are_nested() -> None:
    numbers = '<w:pPr><w:numPr><w:numId w:val="{1}"/></w:numPr></w:pPr>'
    style = f'<w:style w:type="paragraph" w:styleId="{{0}}"><w:name w:val="{{0}}"/>{numbers}</w:style>'
    styles = style.format("List Number", 1) + style.format("List Bullet 2", 2) + style.format("List Bullet 3", 2)
    body = [
        p("one", style="List Number"),
        p("a", style="List Bullet 2"),
        p("b", style="List Bullet 3"),
        p("two", style="List Number"),
    ]

    text = one(word(*body, parts={"styles.xml": f"<w:styles {NAMESPACES}>{styles}</w:styles>"})).text

    assert text == "1. one\n  - a\n    - b\n2. two"
