"""PowerPoint: slides in order, a page each; titles, lists, tables, charts, diagrams, notes and comments."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zipfile
from pathlib import Path

import pymupdf
import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not here")
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NOISE = [b"", b"<", b">", b"\xff", b"</a:p>", b"<p:sp>", b'"', b"9", b"\0"]
NAMES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="{R}" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def xml(tag: str, inner: str, more: str = "") -> str:
    return f"<{tag} {NAMES} {more}>{inner}</{tag}>"


def para(text: str, style: str = "") -> str:
    return f'<a:p>{style}<a:r><a:rPr lang="en-GB"/><a:t>{text}</a:t></a:r></a:p>'


def shape(*paragraphs: str, place: str | None = None, own: str = "") -> str:
    ph = "" if place is None else f'<p:ph type="{place}"/>' if place else '<p:ph idx="1"/>'
    body = "".join(p if p.startswith("<") else para(p) for p in paragraphs)
    return f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x" {own}/><p:nvPr>{ph}</p:nvPr></p:nvSpPr><p:txBody>{body}</p:txBody></p:sp>'


def frame(inner: str, descr: str = "") -> str:
    head = f'<p:nvGraphicFramePr><p:cNvPr id="1" name="x" descr="{descr}"/></p:nvGraphicFramePr>'
    return f"<p:graphicFrame>{head}<a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"


def picture(descr: str) -> str:
    own = f'<p:cNvPr id="1" name="x" descr="{descr}"/>'
    box = '<a:xfrm><a:off x="12700" y="25400"/><a:ext cx="127000" cy="254000"/></a:xfrm>'
    return f'<p:pic><p:nvPicPr>{own}</p:nvPicPr><p:blipFill><a:blip r:embed="img"/></p:blipFill><p:spPr>{box}</p:spPr></p:pic>'


def relations(links: dict[str, tuple[str, str]]) -> str:
    inner = "".join(f'<Relationship Id="{i}" Type="{R}/{kind}" Target="{target}"/>' for i, (kind, target) in links.items())
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'


def deck(
    *slides: str, links: dict[str, tuple[str, str]] | None = None, order: list[int] | None = None, **parts: str | bytes
) -> bytes:
    """A presentation of these slides; all have the same `links`; `parts` are files under ppt/, `_` for `.`."""
    ids = order or range(1, len(slides) + 1)
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations(
            {"d": ("officeDocument", "ppt/presentation.xml"), "c": ("metadata/core-properties", "core.xml")}
        ),
        "core.xml": '<cp xmlns:dc="d" xmlns:dcterms="t"><dc:title>Deck</dc:title><dc:creator>Ann</dc:creator>'
        "<dcterms:modified>2024-05-01T10:00:00Z</dcterms:modified></cp>",
        "ppt/presentation.xml": xml(
            "p:presentation", "<p:sldIdLst>" + "".join(f'<p:sldId id="{256 + i}" r:id="s{i}"/>' for i in ids) + "</p:sldIdLst>"
        ),
        "ppt/_rels/presentation.xml.rels": relations(
            {f"s{i}": ("slide", f"slides/slide{i}.xml") for i in range(1, len(slides) + 1)}
        ),
    }
    for i, slide in enumerate(slides, 1):
        files[f"ppt/slides/slide{i}.xml"] = (
            slide
            if slide.startswith(("<p:sld", "<!")) or "<" not in slide
            else xml("p:sld", f"<p:cSld><p:spTree>{slide}</p:spTree></p:cSld>")
        )
        files[f"ppt/slides/_rels/slide{i}.xml.rels"] = relations(links or {})
    files |= {f"ppt/{name.replace('_', '.')}": content for name, content in parts.items()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def one(data: bytes, **options: object) -> Parsed:
    (parsed,) = parse(data, "a.pptx", {"pptx": options})
    assert_sound(parsed)
    return parsed


def blocks(parsed: Parsed) -> list[tuple[int | None, str, str]]:
    return [(b.page, b.kind, parsed.text[slice(*b.span)]) for b in parsed.blocks]


def words(data: bytes) -> list[tuple[str, str]]:
    return [(kind, text) for _, kind, text in blocks(one(data))]


def test_slides_come_in_the_order_of_the_presentation_a_page_each() -> None:
    parsed = one(deck(shape("B", place="title"), shape("A", place="ctrTitle") + shape("text"), order=[2, 1]))

    assert blocks(parsed) == [(1, "heading", "A"), (1, "paragraph", "text"), (2, "heading", "B")]
    assert parsed.metadata == {
        "title": "Deck", "author": "Ann", "date": "2024-05-01T10:00:00Z", "language": "en-GB", "slides": "2"
    }  # fmt: skip


def test_the_title_comes_first_on_one_line_and_what_changes_by_itself_is_left_out() -> None:
    number = '<a:p><a:fld type="slidenum"><a:t>7</a:t></a:fld></a:p>'
    title = "<a:p><a:r><a:t>Two</a:t></a:r><a:br/><a:r><a:t>lines</a:t></a:r></a:p>"
    slide = (
        shape("body text")
        + shape(title, place="title")
        + shape("Confidential", place="ftr")
        + shape("1 May", place="dt")
        + shape(number, place="sldNum")
        + shape(f"{para('page')}", number)
    )

    assert words(deck(slide)) == [("heading", "Two lines"), ("paragraph", "body text"), ("paragraph", "page")]


def test_body_placeholders_and_bullets_are_lists_with_levels() -> None:
    body = shape("One", para("deeper", '<a:pPr lvl="1"/>'), "Two", para("aside", "<a:pPr><a:buNone/></a:pPr>"), place="")
    bullets = shape("Before", para("item", '<a:pPr><a:buChar char="•"/></a:pPr>'))

    parsed = one(deck(body + bullets))

    assert [(kind, text) for _, kind, text in blocks(parsed)] == [
        ("list", "- One\n  - deeper\n- Two"),
        ("paragraph", "aside"),
        ("paragraph", "Before"),
        ("list", "- item"),
    ]
    assert [parsed.text[slice(*p)] for p in parsed.blocks[0].parts] == ["- One", "  - deeper", "- Two"]


def test_groups_are_opened_in_place_and_hidden_shapes_left_out() -> None:
    def grouped(inner: str, own: str = "") -> str:
        return f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="1" name="g" {own}/></p:nvGrpSpPr>{inner}</p:grpSp>'

    group, gone = grouped(shape("in") + grouped(shape("deep"))), grouped(shape("hidden too"), 'hidden="1"')

    assert words(deck(shape("first") + group + gone + shape("hidden", own='hidden="1"') + shape("last"))) == [
        ("paragraph", text) for text in ("first", "in", "deep", "last")
    ]


def test_a_table_is_a_line_per_row_and_a_merged_cell_has_its_text_once() -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<a:tc {more}><a:txBody>{''.join(map(para, text.split('/')))}</a:txBody></a:tc>"

    rows = [
        cell("Name") + cell("Age/years"),
        cell("Ann and Bo", 'gridSpan="2"') + cell("", 'hMerge="1"'),
        cell("Cy") + cell("3"),
    ]
    parsed = one(deck(frame(f"<a:tbl>{''.join(f'<a:tr>{row}</a:tr>' for row in rows)}</a:tbl>", "Ages")))

    assert [(k, t) for _, k, t in blocks(parsed)] == [("figure", "Ages"), ("table", "Name | Age years\nAnn and Bo |\nCy | 3")]
    assert len(parsed.blocks[1].parts) == 3


def cache(kind: str, *values: str) -> str:
    points = "".join(f'<c:pt idx="{i}"><c:v>{v}</c:v></c:pt>' for i, v in enumerate(values))
    return f"<c:{kind}><c:strRef><c:strCache>{points}</c:strCache></c:strRef></c:{kind}>"


def test_a_chart_is_its_title_and_the_values_it_keeps() -> None:
    series = [("tea", "1", "2.4000000000000004"), ("cups", "3", "4")]
    inner = "".join(f"<c:ser>{cache('tx', n)}{cache('cat', 'Q1', 'Q2')}{cache('val', *v)}</c:ser>" for n, *v in series)
    chart = xml("c:chartSpace", f"<c:title><c:tx>{para('Sales')}</c:tx></c:title>{inner}")

    data = deck(frame('<c:chart r:id="ch"/>'), links={"ch": ("chart", "../chart.xml")}, chart_xml=chart)

    assert words(data) == [("figure", "Sales"), ("table", "| tea | cups\nQ1 | 1 | 3\nQ2 | 2.4 | 4")]


def test_smart_art_is_a_list_of_what_hangs_together() -> None:
    points = "".join(
        f'<dgm:pt modelId="{i}"><dgm:t>{para(t)}</dgm:t></dgm:pt>' for i, t in [("2", "sub"), ("1", "top"), ("3", "next")]
    )
    links = "".join(
        f'<dgm:cxn srcId="{a}" destId="{b}" srcOrd="{o}"/>' for a, b, o in [("0", "3", 1), ("0", "1", 0), ("1", "2", 0)]
    )
    data = xml(
        "dgm:dataModel", f'<dgm:ptLst><dgm:pt modelId="0" type="doc"/>{points}</dgm:ptLst><dgm:cxnLst>{links}</dgm:cxnLst>'
    )

    deck_ = deck(frame('<dgm:relIds r:dm="dm"/>'), links={"dm": ("diagramData", "../data.xml")}, data_xml=data)

    assert words(deck_) == [("list", "- top\n  - sub\n- next")]


def test_notes_and_comments_follow_their_slide() -> None:
    notes = xml("p:notes", shape("1", place="sldNum") + shape("Say this.", "Then that.", place="body"))
    comments = xml("p:cmLst", '<p:cm authorId="4"><p:text>Why?</p:text></p:cm>')
    authors = xml("p:cmAuthorLst", '<p:cmAuthor id="4" name="Bo"/>')
    links = {"n": ("notesSlide", "../notes.xml"), "c": ("comments", "../comments.xml")}

    data = deck(shape("T", place="title"), links=links, notes_xml=notes, comments_xml=comments, commentAuthors_xml=authors)

    assert words(data) == [("heading", "T"), ("notes", "Say this.\nThen that."), ("notes", "Comment (Bo): Why?")]


def test_hidden_slides_are_read_and_named() -> None:
    hidden = xml("p:sld", f"<p:cSld><p:spTree>{shape('secret')}</p:spTree></p:cSld>", 'show="0"')

    parsed = one(deck(shape("open"), hidden))

    assert "secret" in parsed.text
    assert parsed.metadata["hidden_slides"] == "2"


def test_a_picture_is_its_alternative_text_and_its_bytes_on_request() -> None:
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 2, 2))
    pixmap.clear_with(200)
    jpeg = pixmap.tobytes("jpeg")
    links = {"img": ("image", "../a.jpg")}
    data = deck(shape("x") + picture("A red kite") + picture("image1.jpg"), links=links, a_jpg=jpeg)

    assert blocks(one(data)) == [(1, "paragraph", "x"), (1, "figure", "A red kite")]
    assert one(data).images == ()
    captioned, bare = one(data, images=True).images
    assert (captioned.caption, captioned.span, captioned.page) == ("A red kite", one(data).blocks[1].span, 1)
    assert captioned.box == (1.0, 2.0, 11.0, 22.0)
    assert bare.span.start == bare.span.end == captioned.span.end


def test_newer_mark_up_is_read_instead_of_its_stand_in_and_equations_are_a_line() -> None:
    equation = "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>"
    choice = f"<mc:Choice>{shape(f'<a:p>{equation}</a:p>')}</mc:Choice><mc:Fallback>{shape('picture')}</mc:Fallback>"

    assert words(deck(f"<mc:AlternateContent>{choice}</mc:AlternateContent>")) == [("paragraph", "(a+b)/2")]


def test_a_vertical_tab_is_a_line_end() -> None:
    assert words(deck(shape("one_x000B_two")))[0][1] == "one\ntwo"


def test_slides_that_cannot_be_read_are_told_and_the_rest_kept() -> None:
    parsed = one(deck(shape("kept"), "no mark-up at all"))

    assert parsed.text == "kept"
    assert parsed.metadata["warning"].startswith("1 of 2 slides could not be read: 2: ")
    with pytest.raises(DocumentError) as caught:
        one(deck("none", "none"))
    assert caught.value.kind == "corrupt"


def test_entities_of_its_own_are_refused() -> None:
    bomb = '<!DOCTYPE p [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>' + xml("p:sld", "&b;")

    with pytest.raises(DocumentError) as caught:
        one(deck(bomb))
    assert caught.value.kind == "unsafe_xml"


def test_shapes_inside_shapes_do_not_repeat_their_text() -> None:
    inner = "deep " * 50
    for _ in range(300):
        inner = f"<p:sp><p:txBody>{para('x')}{inner if inner.startswith('<') else para(inner)}</p:txBody></p:sp>"

    assert len(one(deck(inner)).text) < 5_000


def test_any_damage_gives_a_sound_document_or_a_document_error() -> None:
    good = deck(
        shape("T", place="title")
        + shape("a", para("b", '<a:pPr lvl="1"/>'), place="")
        + frame("<a:tbl><a:tr><a:tc/></a:tr></a:tbl>"),
        links={"n": ("notesSlide", "../notes.xml")},
        notes_xml=xml("p:notes", shape("n", place="body")),
    )
    chance = random.Random(3)
    for _ in range(400):
        with contextlib.suppress(DocumentError):
            for parsed in parse(damaged(good, chance), "a.pptx", format="pptx"):
                assert_sound(parsed)


def damaged(good: bytes, chance: random.Random) -> bytes:
    """The archive with bytes of one or two of its parts replaced."""
    with zipfile.ZipFile(io.BytesIO(good)) as packed:
        files = {name: bytearray(packed.read(name)) for name in packed.namelist()}
    for _ in range(chance.randint(1, 6)):
        data = files[chance.choice([*files])]
        at = chance.randrange(len(data) + 1)
        data[at : at + chance.randint(0, 9)] = chance.choice(NOISE)
    worse = io.BytesIO()
    with zipfile.ZipFile(worse, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, bytes(data))
    return worse.getvalue()


def facts() -> list[dict]:
    path = CORPUS / "gold_open.jsonl"
    return [f for f in map(json.loads, path.read_text("utf-8").splitlines()) if f["kind"] == "pptx"] if path.exists() else []


@needs_corpus
@pytest.mark.parametrize("fact", facts(), ids=lambda f: f"{f['path'].rpartition('/')[2]}-{f['assertion']}")
def test_facts_of_open_presentations_hold(fact: dict) -> None:
    parsed = one((CORPUS / fact["path"]).read_bytes())

    if fact["assertion"] == "count":
        assert parsed.metadata["slides"] == str(fact["value"])
    elif fact["assertion"] == "page_of":
        assert [b.page for b in parsed.blocks if fact["value"] in parsed.text[slice(*b.span)]] == [fact["page"]]
    elif fact["assertion"] == "table_row":
        lines = [[cell.strip() for cell in line.split(" | ")] for line in parsed.text.splitlines()]
        assert fact["value"] in lines
    else:
        assert fact["value"] in parsed.text


@needs_corpus
def test_every_open_presentation_is_read_without_a_warning() -> None:
    for path in sorted((CORPUS / "open" / "pptx").rglob("*.pptx")):
        assert "warning" not in one(path.read_bytes(), images=True).metadata, path.name
    with pytest.raises(DocumentError) as caught:
        list(parse((CORPUS / "hostile" / "office" / "encrypted.pptx").read_bytes(), "encrypted.pptx"))
    assert caught.value.kind == "encrypted"
