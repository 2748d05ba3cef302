"""EPUB: the book in the order of its spine, what is missing said, what is locked refused."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import pymupdf
import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the shared corpus is not at {CORPUS}")
CONTAINER = '<container><rootfiles><rootfile full-path="O/b.opf" media-type="x"/></rootfiles></container>'
DC = (
    "<dc:title>A Book</dc:title><dc:creator>Ann</dc:creator><dc:creator>Bo</dc:creator>"
    "<dc:language>en</dc:language><dc:date>2020-01-02</dc:date>"
)


def page(body: str, head: str = "<title/>") -> str:
    return f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head><body>{body}</body></html>'


def book(pages: dict[str, str | bytes], spine: str = "", manifest: str = "", **files: str | bytes) -> bytes:
    items = "".join(f'<item id="{n}" href="{n}" media-type="application/xhtml+xml"/>' for n in pages)
    refs = spine or "".join(f'<itemref idref="{n}"/>' for n in pages)
    opf = f'<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>{DC}</metadata><manifest>{items}{manifest}</manifest><spine>{refs}</spine></package>'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        for name, data in {
            "META-INF/container.xml": CONTAINER,
            "O/b.opf": opf,
            **{f"O/{n}": d for n, d in pages.items()},
            **files,
        }.items():
            archive.writestr(name, data)
    return out.getvalue()


def read(data: bytes, **options: object) -> Parsed:
    (parsed,) = parse(data, "a.epub", {"epub": options})
    assert_sound(parsed)
    return parsed


def blocks(parsed: Parsed) -> list[tuple[str, int | None, str]]:
    return [(b.kind, b.page, parsed.text[slice(*b.span)]) for b in parsed.blocks]


def test_chapters_follow_the_spine_and_blocks_say_where_they_stand():
    data = book({"b.xhtml": page("<h1>B</h1><p>two</p>"), "a.xhtml": page("<h1>A</h1><p>one</p>")})

    assert blocks(read(data)) == [("heading", 1, "B"), ("paragraph", 1, "two"), ("heading", 2, "A"), ("paragraph", 2, "one")]


def test_the_package_document_is_metadata():
    expected = {"title": "A Book", "author": "Ann, Bo", "language": "en", "date": "2020-01-02", "spine_items": "1"}

    assert expected == read(book({"a.xhtml": page("<p>x</p>")})).metadata


def test_pages_outside_the_linear_order_are_kept_where_they_stand():
    pages = {"a.xhtml": page("<p>one</p>"), "n.xhtml": page("<p>a note</p>")}

    parsed = read(book(pages, '<itemref idref="a.xhtml"/><itemref idref="n.xhtml" linear="no"/><itemref idref="a.xhtml"/>'))

    assert parsed.text == "one\n\na note"


def test_a_chapter_without_a_heading_takes_its_title_from_the_navigation():
    nav = page(
        '<nav><ol><li><a href="a.xhtml#x">First</a><ol><li><a href="b.xhtml">Second <i>one</i></a></li></ol></li>'
        '<li><a href="c.xhtml">Not me</a></li></ol></nav>'
    )
    pages = {"a.xhtml": page("<p>First</p><p>x</p>"), "b.xhtml": page("<p>y</p>"), "c.xhtml": page("<h2>Own</h2>")}

    parsed = read(book(pages, manifest='<item id="n" href="nav.xhtml" properties="nav"/>', **{"O/nav.xhtml": nav}))

    headings = [(b.level, parsed.text[slice(*b.span)]) for b in parsed.blocks if b.kind == "heading"]
    assert headings == [(1, "First"), (2, "Second one"), (2, "Own")]
    assert parsed.text == "First\n\nx\n\nSecond one\n\ny\n\nOwn"


def test_titles_come_from_an_old_navigation_too():
    ncx = '<ncx><navMap><navPoint><navLabel><text>One</text></navLabel><content src="a.xhtml"/></navPoint></navMap></ncx>'

    parsed = read(
        book(
            {"a.xhtml": page("<p>x</p>")},
            manifest='<item id="n" href="t.ncx" media-type="application/x-dtbncx+xml"/>',
            **{"O/t.ncx": ncx},
        )
    )

    assert blocks(parsed) == [("heading", 1, "One"), ("paragraph", 1, "x")]


def test_readings_and_formulas_are_part_of_the_line():
    body = "<p><ruby>山路<rp>(</rp><rt>やまみち</rt><rp>)</rp></ruby>を<math><mi>x</mi><mo>+</mo><mn>1</mn></math>登る</p>"

    assert read(book({"a.xhtml": page(body)})).text == "山路をx + 1登る"


def test_bad_xhtml_is_read_as_a_browser_does():
    assert read(book({"a.xhtml": page("<p>a & b<p>c<br/><div/>")})).text == "a & b\n\nc"


def test_a_missing_or_damaged_chapter_is_left_out_with_a_warning():
    pages = {"a.xhtml": page("<p>one</p>"), "c.xhtml": page("<p>three</p>")}

    parsed = read(book(pages, '<itemref idref="a.xhtml"/><itemref idref="gone"/><itemref idref="c.xhtml"/>'))

    assert parsed.text == "one\n\nthree"
    assert parsed.metadata["warning"] == "1 of 3 chapters could not be read: gone"


def encryption(method: str, file: str) -> dict[str, str]:
    reference = f'<CipherData><CipherReference URI="{file}"/></CipherData>'
    return {
        "META-INF/encryption.xml": f'<encryption><EncryptedData><EncryptionMethod Algorithm="{method}"/>'
        f"{reference}</EncryptedData></encryption>"
    }


def test_a_book_under_drm_is_encrypted():
    with pytest.raises(DocumentError) as error:
        read(
            book({"a.xhtml": b"\x93\0\xfe\x01" * 40}, **encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "O/a.xhtml"))
        )

    assert error.value.kind == "encrypted"


@pytest.mark.parametrize(
    ("method", "file"), [("http://www.idpf.org/2008/embedding", "f.bin"), ("http://x#aes128-cbc", "O/f.otf")]
)
def test_obfuscated_fonts_are_no_drm(method, file):
    assert read(book({"a.xhtml": page("<p>x</p>")}, **encryption(method, file))).text == "x"


def test_rights_over_chapters_that_cannot_be_read_are_drm():
    with pytest.raises(DocumentError) as error:
        read(book({"a.xhtml": bytes(range(128, 256)) * 40}, **{"META-INF/sinf.xml": "<x/>"}))

    assert error.value.kind == "encrypted"


def test_pictures_stand_where_they_are_shown_and_do_not_change_the_text():
    picture = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 2, 2)).tobytes("jpg")
    pages = {
        "a.xhtml": page("<p>first page</p>"),
        "b.xhtml": page('<p>before</p><img alt="A mill" src="i%201.jpg"/><p>after</p>'),
    }
    data = book(pages, **{"O/i 1.jpg": picture})

    parsed = read(data, images=True)

    assert (parsed.text, ()) == (read(data).text, read(data).images)
    (image,) = parsed.images
    assert (parsed.text[: image.span.start], image.caption, image.page) == ("first page\n\nbefore", "A mill", 2)


def test_without_a_package_document_the_pages_are_read_by_name():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("2.xhtml", page("<p>two</p>"))
        archive.writestr("1.html", page("<p>one</p>"))

    parsed = read(out.getvalue())

    assert parsed.text == "one\n\ntwo"
    assert "no package document" in parsed.metadata["warning"]


def test_any_damage_gives_sound_blocks_or_a_document_error():
    rng = random.Random(4)
    seed = book({"a.xhtml": page("<h1>A</h1><p>one</p>"), "b.xhtml": page("<p>two</p>")}, **encryption("x", "y.otf"))
    for _ in range(200):
        data = bytearray(seed)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            for parsed in parse(
                bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.2 else data), "a.epub", format="epub"
            ):
                assert_sound(parsed)
        except DocumentError:
            pass


@needs_corpus
def test_every_book_of_the_open_corpus_is_read_with_its_whole_spine():
    spines = {"kusamakura-japanese-vertical-writing": "16", "love-among-the-chickens": "29", "regime-anticancer-arabic": "3"}
    for path in sorted((CORPUS / "open" / "epub").rglob("*.epub")):
        parsed = read(path.read_bytes())
        assert len(parsed.text) > 3000
        assert "warning" not in parsed.metadata
        assert spines.get(path.stem) in (None, parsed.metadata["spine_items"])
        assert "山路を登りながら" in parsed.text or path.stem != "kusamakura-japanese-vertical-writing"
