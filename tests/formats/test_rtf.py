"""Rich Text Format: what a reader sees, in whichever code page it was written."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

FONTS = (
    r"{\fonttbl{\f0\froman\fcharset0 Times New Roman;}{\f1\fnil\fcharset2 Symbol;}{\f2\fmodern\fcharset0 Courier New;}"
    r"{\f3\fnil\fcharset204 Arial Cyr;}{\f4\fnil\fcharset128 MS Mincho{\*\falt x};}}"
)
STYLES = (
    r"{\stylesheet{\ql \fs24 Normal;}{\s1\ql\outlinelevel0 \sbasedon0 heading 1;}{\s2 \sbasedon1 My own;}"
    r"{\*\cs10 Default Paragraph Font;}{\s15 Title;}{\s16 toc 1;}{\s17 \'dcberschrift 2;}"
    r"{\s18 HTML Preformatted;}{\s19 Quote;}}"
)


def rtf(body: str, head: str = r"\ansi\ansicpg1252\deff0") -> bytes:
    return rf"{{\rtf1{head}{FONTS}{STYLES}{body}}}".encode("latin-1")


def one(data: bytes) -> Parsed:
    (parsed,) = parse(data, "a.rtf")
    assert_sound(parsed)
    return parsed


def texts(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def read(body: str) -> list[tuple[str, str]]:
    return texts(one(rtf(body)))


# Characters


def test_characters_come_from_the_code_page_of_the_document_and_of_the_font() -> None:
    assert read(r"caf\'e9 {\f3 \'cc\'ee\'f1\'ea\'e2\'e0} {\f4 \'93\'fa\'96{\b\'7b}} {\f1\'61\'b3}\par") == [
        ("paragraph", "café Москва 日本 α≥")
    ]


def test_charset_zero_is_the_documents_code_page_where_fonts_tell_no_charsets_apart() -> None:
    data = rb"{\rtf1\ansi\ansicpg1251\deff0{\fonttbl{\f0\fcharset0 Arial;}}\f0 \'cc\'ee\'f1\'ea\'e2\'e0\par}"

    assert one(data).text == "Москва"


def test_undeclared_bytes_are_read_as_the_language_they_look_like() -> None:
    russian = "Все люди рождаются свободными и равными в своем достоинстве и правах. " * 3
    escaped = "".join(rf"\'{byte:02x}" if byte > 127 else chr(byte) for byte in russian.encode("cp1251"))

    assert one(rf"{{\rtf1 {escaped}\par}}".encode()).text == russian.strip()


def test_unicode_is_read_and_its_stand_ins_passed_over() -> None:
    assert read(r"\u233?\uc2\u28450\'8a\'bf x{\uc0\u8364}y\uc1\u-10179?\u-8704? \u8211\endash z\par") == [
        ("paragraph", "é漢 x€y😀 –z")
    ]
    assert "\ufffd" in one(rtf(r"\u-10179?alone\par")).text


def test_special_characters_read_as_a_reader_sees_them() -> None:
    found = read("\\ldblquote a\\rdblquote\\emdash b\\~c\\_d\\-e\\tab f\\line g \\{x\\}\\\\\r\n y\\par")

    assert found == [("paragraph", "“a”—b\xa0c-de\tf\ng {x}\\ y")]


# Structure


def test_headings_are_found_by_style_and_by_outline_level() -> None:
    parsed = one(
        rtf(
            r"\pard\s1 A\par\pard\s2 B\par\pard\s17 C\par"
            r"\pard\outlinelevel3 D\par\pard{\pard\s1 E\par}F\par\pard\s1\outlinelevel9 G\par"
        )
    )

    assert [(block.kind, block.level) for block in parsed.blocks] == [
        ("heading", 1), ("heading", 1), ("heading", 2), ("heading", 4), ("heading", 1), ("paragraph", 0), ("paragraph", 0),
    ]  # fmt: skip


def test_lists_carry_the_labels_beside_them() -> None:
    body = (
        r"{\listtext\pard\plain\f1 \'b7\tab}\pard\ls1\ilvl0 a\par{\listtext\pard\plain 1)\tab}\ilvl1 b\par"
        r"{\pntext\f1\'b7\tab}\pard\ilvl0{\*\pn\pnlvlblt{\pntxtb\'b7}}c\par\pard plain\par"
    )

    parsed = one(rtf(body))

    assert texts(parsed) == [("list", "- a\n  1) b\n- c"), ("paragraph", "plain")]
    assert len(parsed.blocks[0].parts) == 3


def test_a_hanging_paragraph_with_a_label_of_its_own_is_an_item() -> None:
    assert read(r"\pard\li360\fi-360 \bullet\tab a\par\pard\li720\fi-360 1.\tab b\par\pard Year\tab x\par") == [
        ("list", "- a\n  1. b"),
        ("paragraph", "Year\tx"),
    ]


def test_a_heading_carries_its_number_and_is_titled_without() -> None:
    parsed = one(rtf(r"{\listtext 1.\tab}\pard\s1 Scope\par"))

    assert texts(parsed) == [("heading", "1. Scope")]
    assert parsed.blocks[0].title == "Scope"


def test_tables_have_a_line_per_row() -> None:
    row = r"\trowd\cellx1\cellx2\pard\intbl %s\cell %s\cell\trowd\cellx1\row"
    body = (
        r"before\par"
        + row % ("A", "B")
        + row % (r"x\par y", r"\itap2 n\nestcell m\nestcell{\*\nesttableprops\trowd\nestrow}{\nonesttables\par}z")
    )

    parsed = one(rtf(body + r"\pard after\par"))

    assert texts(parsed) == [("paragraph", "before"), ("table", "A | B\nx y | n m z"), ("paragraph", "after")]
    assert len(parsed.blocks[1].parts) == 2


def test_code_quotes_titles_and_contents_are_told_by_style() -> None:
    parsed = one(
        rtf(r"\pard\s15 Book\par\pard\s16 One\tab 1\par\pard\s18 a = 1\par   b = 2\par\pard\s19 q\par\pard\f2 f(x)\par")
    )

    assert texts(parsed) == [("paragraph", "Book"), ("code", "a = 1\n  b = 2"), ("quote", "q"), ("code", "f(x)")]
    assert parsed.metadata["title"] == "Book"


def test_footnotes_follow_the_block_that_refers_to_them() -> None:
    note = r"{\super\chftn{\footnote\pard\plain{\super\chftn} The note.\par more}}"

    assert read(rf"a{note} b\par c*{{\footnote * own}}\par d\par") == [
        ("paragraph", "a[1] b"),
        ("paragraph", "[1] The note.\nmore"),
        ("paragraph", "c*"),
        ("paragraph", "* own"),
        ("paragraph", "d"),
    ]


def test_a_text_box_follows_its_paragraph_once() -> None:
    shape = (
        r"{\shp{\*\shpinst{\sp{\sn name}{\sv value}}{\shptxt\pard\s1 boxed\par in\par}}{\shprslt{\*\do{\dptxbxtext boxed}}}}"
    )

    assert read(rf"\pard host {shape}text\par next\par") == [
        ("paragraph", "host text"),
        ("heading", "boxed"),
        ("heading", "in"),
        ("paragraph", "next"),
    ]


def test_what_is_not_shown_is_left_out() -> None:
    body = (
        r"see{\v hidden}{\deleted gone}n{\field{\*\fldinst HYPERLINK x}{\fldrslt  link}}{\pict\pngblip 89504e47}"
        r"{\*\unknown text}"
        r"{\*\annotation why}{\upr{ansi}{\*\ud unicode}}{\xe{index}}{\object{\*\objdata 00}{\result seen}}\par"
    )

    assert read(body) == [("paragraph", "seen linkunicode")]


def test_binary_data_is_passed_over_whatever_it_holds() -> None:
    assert read("a{\\pict\\bin5 }}}}}x}b\\bin3 xyzc\\par") == [("paragraph", "abc")]


def test_properties_and_margins_are_metadata() -> None:
    info = r"{\info{\title A \'dcber}{\author Ada}{\creatim\yr2001\mo1\dy2}{\revtim\yr2002\mo3\dy4\hr5\min6}}"
    info += r"{\header\pard Secret\par}{\footer 3\par}"

    parsed = one(rtf(info + r"text\par", r"\ansi\ansicpg1252\deff0\deflang1031"))

    assert parsed.metadata == {
        "title": "A Über",
        "author": "Ada",
        "date": "2002-03-04T05:06:00",
        "language": "de-DE",
        "header": "Secret",
    }
    assert parsed.text == "text"


# Damage


def test_a_cut_file_keeps_what_there_is_and_says_so() -> None:
    parsed = one(rtf(r"one\par two")[:-1])

    assert texts(parsed) == [("paragraph", "one"), ("paragraph", "two")]
    assert "ends inside a group" in parsed.metadata["warning"]
    assert "warning" not in one(rtf("x")).metadata


def test_groups_without_end_are_too_deep() -> None:
    with pytest.raises(DocumentError, match="2000 groups") as raised:
        one(rb"{\rtf1 " + b"{" * 1_000_000)

    assert raised.value.kind == "too_deep"


def test_long_runs_take_linear_time() -> None:
    began = time.process_time()
    one(rb"{\rtf1 {\pict " + b"89" * 2_000_000 + b"}" + b"a" * 2_000_000 + rb"\'e9}")
    one(rb"{\rtf1 " + rb"\cell" * 30_000 + b"}")
    one(rb"{\rtf1 " + rb"{\shptxt" * 1000 + b"x" + b"}" * 1001)

    assert time.process_time() - began < 5


def test_any_damage_gives_a_document_or_a_document_error() -> None:
    rng = random.Random(3)
    whole = rtf(
        r"\pard\s1 A\par{\listtext 1.\tab}\pard\ls1 i\par\trowd\pard\intbl a\cell b\cell\row\pard x{\chftn{\footnote n}}"
        r"{\shp{\*\shpinst{\shptxt box\par}}}{\info{\title T}}{\header h}\u233?\uc2\par"
    )
    for _ in range(800):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            at, to = rng.randrange(6, len(data)), rng.randrange(len(data))
            data[at : at + rng.randint(0, 8)] = data[to : to + rng.randint(0, 30)]
        with contextlib.suppress(DocumentError):
            one(bytes(data))
