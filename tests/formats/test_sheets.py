"""Workbooks: a heading per sheet, tables between blank rows, cells as a reader sees them, nothing held that is not there."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import time
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.base import Document
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not here")
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
M = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
O = " ".join(f'xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0"' for n in ("office", "table", "text"))  # noqa: E741
NOISE = [b"", b"<", b">", b"\xff", b'r="XFD1048576"', b't="e"', b'"', b"9", b"</row>", b"'", b" ", b"\n"]
# A workbook of Excel 97, zlib and base 85: what test_a_legacy_workbook_is_read says.
LEGACY = (
    "c-rk)O=uHA6#izCZPL)6q_#pUlv1#2Z4V-d2yIlVJtagh{vg;kT`;sJC5eb0v|4i%1VK=|6zaiC)r&vqK@Wllp`r&t5K=w%Bq(@jv%dFsQ_~uu"
    "fm(>{x6GTFH}lQBoq6-K`))3jpMKOfk5%Z02L-DZH6=Plp|+R_g32w6lf~Fi!E#YmsP)rC));tR|JKKI$n!l9jfdV>B!Mp!PGJJkRMPC&KpYes"
    "h85e;r@Z8Q8h0r)pjGT@5*Zh{N#p~m`$FV?(OehVM|Jb+B<8}=?!As5AJ?5y)<9C>iEuuNW*1uUhW+^R4Q1Cga3Gx+9<Q>3c5fYKKvOzsCe1YG"
    "8*vW--~^#J66qZn$fKF2dj>zO4&ZxnUBB#b^&6{KApOskdf#94ewxJ9`kUGdOu`yc?94fG>OEe2DaX=@xS7eJ9<dtRH=?PmnOVd>_6!MBGm$mV"
    "8o&fsrfeoPKI#Fo<}k_lxd~F8KVv4Tfs7eXo7n)L0<voaSL_<~vX<&dj-pZ0Az4vDGJ5g;xA&2eSopMPCgr5C&y%feJS<#c29X=2MC_*%2<R5Z"
    "PLWro)h&{46WL6!L~&QF#Yr5Vk~-I<w2S)LE%*@LR+8RM>D<DRr|r3~;T@Eo9h|?|Jo_;`jZQk>Mv2eQ6na#Tx^tWHEL@D0v-5lw+4{#W<kvyR"
    "cFQ?58?nUejt~-Q=Xi9~a!xyA#cWlEt%S|vaY+Znx)2s9YiPghjNBG;bs4S}uGit(^TMOdTrFI?Uys<alIsz!;cz|Rx4-pTqhB}SF*i&*?Qd*^"
    "XQ*Xat)8LEdIpb^j4H~FstXq`T)1%I!o~VQ$*s@6Yx8}}aPDkA=fBPpg@XH=<iEvHr0B`gC*>g|DNf@;MgFrHhAOtD*2pRTFJv5}-qRSvh}bb!"
    "vH#MYTa~`gnu)>nTSArgU#P^+f875sDYgsW"
)

Value = str | float | bool | None


def relations(links: dict[str, tuple[str, str]]) -> str:
    inner = "".join(f'<Relationship Id="{i}" Type="{R}/{kind}" Target="{target}"/>' for i, (kind, target) in links.items())
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'


def zipped(files: dict[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def cell(ref: str, value: Value, kind: str = "", style: int = 0) -> str:
    if isinstance(value, str) and not kind:
        return f'<c r="{ref}" t="inlineStr"><is><t xml:space="preserve">{value}</t></is></c>'
    kind = "b" if isinstance(value, bool) else kind
    shown = int(value) if isinstance(value, bool) else value
    return f'<c r="{ref}" s="{style}"{f" t={chr(34)}{kind}{chr(34)}" if kind else ""}><v>{shown}</v></c>'


def grid(*rows: Sequence[Value]) -> str:
    return "".join(
        f'<row r="{r}">{"".join(cell(f"{chr(65 + c)}{r}", v) for c, v in enumerate(row) if v is not None)}</row>'
        for r, row in enumerate(rows, 1)
    )


def workbook(
    sheets: dict[str, str],
    states: dict[str, str] | None = None,
    styles: str = "",
    strings: str = "",
    parts: dict[str, str] | None = None,
) -> bytes:
    """A workbook of these sheets' rows; `parts` are more files under xl/."""
    tags = "".join(
        f'<sheet name="{name}" sheetId="{i}" state="{(states or {}).get(name, "visible")}" r:id="s{i}"/>'
        for i, name in enumerate(sheets, 1)
    )
    links = {f"s{i}": ("worksheet", f"worksheets/sheet{i}.xml") for i in range(1, len(sheets) + 1)}
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations({"d": ("officeDocument", "xl/workbook.xml")}),
        "xl/workbook.xml": f'<workbook xmlns="{M}" xmlns:r="{R}"><sheets>{tags}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            links | {"st": ("styles", "styles.xml"), "ss": ("sharedStrings", "strings.xml")}
        ),
        "xl/styles.xml": f'<styleSheet xmlns="{M}">{styles}</styleSheet>',
        "xl/strings.xml": f'<sst xmlns="{M}">{strings}</sst>',
    }
    for i, rows in enumerate(sheets.values(), 1):
        files[f"xl/worksheets/sheet{i}.xml"] = f'<worksheet xmlns="{M}"><sheetData>{rows}</sheetData></worksheet>'
    return zipped(files | {f"xl/{name}": content for name, content in (parts or {}).items()})


def calc(rows: str) -> bytes:
    """An OpenDocument workbook of one sheet with these rows."""
    table = f'<table:table table:name="S">{rows}</table:table>'
    body = f"<office:body><office:spreadsheet>{table}</office:spreadsheet></office:body>"
    content = f"<office:document-content {O}>{body}</office:document-content>"
    return zipped(
        {"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": content, "META-INF/manifest.xml": "<m/>"}
    )


def calc_row(*cells: str, times: int = 1) -> str:
    return f'<table:table-row table:number-rows-repeated="{times}">{"".join(cells)}</table:table-row>'


def calc_cell(text: str = "", kind: str = "string", value: object = None, times: int = 1) -> str:
    typed = f' office:value-type="{kind}"' + (f' office:value="{value}"' if value is not None else "") if text else ""
    shown = f"<text:p>{text}</text:p>" if text else ""
    return f'<table:table-cell{typed} table:number-columns-repeated="{times}">{shown}</table:table-cell>'


def one(data: bytes, name: str = "a.xlsx") -> Parsed:
    (parsed,) = parse(data, name)
    assert_sound(parsed)
    return parsed


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(b.kind, parsed.text[slice(*b.span)]) for b in parsed.blocks]


def lines(rows: str, **more: str) -> list[str]:
    """The lines of the only sheet, without its heading."""
    return one(workbook({"S": rows}, **more)).text.split("\n")[2:]


def failure(data: bytes, name: str = "a.xlsx") -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        one(data, name)
    return caught.value


def test_a_sheet_is_a_heading_and_a_table_whose_parts_are_its_rows() -> None:
    parsed = one(
        workbook({"Tea & more".replace("&", "&amp;"): grid(["name", "price"], ["tea", 2.5], ["cup", 3.0]), "Empty": ""})
    )

    assert blocks(parsed) == [("heading", "Tea & more"), ("table", "name | price\ntea | 2.5\ncup | 3")]
    assert [parsed.text[slice(*p)] for p in parsed.blocks[1].parts] == ["name | price", "tea | 2.5", "cup | 3"]
    assert parsed.metadata == {"sheets": "2", "sheet_states": '{"Tea & more": "visible", "Empty": "visible"}'}


def test_cells_are_as_a_reader_sees_them() -> None:
    formats = '<numFmt numFmtId="170" formatCode="0.0%;[Red]-0.0%"/><numFmt numFmtId="171" formatCode="00000"/>'
    xfs = "".join(f'<xf numFmtId="{i}"/>' for i in (0, 9, 170, 171, 14, 22, 46))
    styles = f"<numFmts>{formats}</numFmts><cellXfs>{xfs}</cellXfs>"
    numbers = [
        ("1", 0),
        ("0.30000000000000004", 0),
        ("0.5", 1),
        ("-0.125", 2),
        ("1234", 3),
        ("45000", 4),
        ("45000.25", 5),
        ("1.5", 6),
    ]
    row = "".join(cell(f"{chr(65 + i)}1", v, "n", s) for i, (v, s) in enumerate(numbers))
    more = (
        cell("I1", True)
        + cell("J1", "#DIV/0!", "e")
        + '<c r="K1" s="1"><f>A1/2</f><v>0.5</v></c>'
        + cell("L1", " two\n  lines ")
    )

    (line,) = lines(f'<row r="1">{row}{more}</row>', styles=styles)

    assert line.split(" | ") == [
        "1", "0.3", "50%", "-12.5%", "01234", "2023-03-15", "2023-03-15 06:00:00", "36:00:00", "TRUE",
        "#DIV/0!", "50%", "two lines",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("#,##0.00\\ &quot;€&quot;", "1234.5", "1234.5 €"),
        ("[$$-409]#,##0.00;[Red]-[$$-409]#,##0.00", "-5", "-$5"),
        ("$#,##0", "3", "$3"),
        ("0 &quot;kg &amp; more&quot;", "3", "3 kg & more"),
        ("General&quot; mm&quot;", "100", "100 mm"),
        ("#,##0;(#,##0)", "-1234", "-1234"),
        ("0.0,,&quot;M&quot;", "1500000", "1500000"),
        ("# ?/?", "0.5", "0.5"),
        ("0.00E+00", "12", "12"),
        ("&quot;yes&quot;;;&quot;no&quot;", "1", "1"),
        ("d&quot; o&apos;clock&quot;", "45000", "2023-03-15"),
    ],
)
def test_a_number_has_its_currency_or_unit(code: str, value: str, shown: str) -> None:
    styles = f'<numFmts><numFmt numFmtId="170" formatCode="{code}"/></numFmts><cellXfs><xf numFmtId="170"/></cellXfs>'

    assert lines(f'<row r="1">{cell("A1", value, "n")}</row>', styles=styles) == [shown]


def test_formulas_whose_results_the_file_lacks_are_told() -> None:
    cells = '<c r="A1"><f>B2*2</f><v></v></c><c r="B1"><f>B2</f></c><c r="C1" t="str"><f>""</f><v></v></c>' + cell("D1", 7)

    warning = one(workbook({"Sums": f'<row r="1">{cells}</row>'})).metadata["warning"]

    assert warning == "2 cells of 'Sums' hold a formula whose result the file doesn't have"


def test_blank_rows_part_tables_and_lines_above_a_table_are_paragraphs() -> None:
    rows = grid(["Report"], ["May"], ["item", "n"], ["tea", 1], [], ["city", "pop"], ["Rome", 3], [], ["Source: us"])

    assert blocks(one(workbook({"S": rows})))[1:] == [
        ("paragraph", "Report"),
        ("paragraph", "May"),
        ("table", "item | n\ntea | 1"),
        ("table", "city | pop\nRome | 3"),
        ("paragraph", "Source: us"),
    ]


def test_a_table_goes_on_after_a_blank_row_with_values_under_the_same_header() -> None:
    rows = grid(["item", "n"], ["tea", 1], [], ["cup", 2], [], ["item", "n"], ["pot", 3])

    assert [text for _, text in blocks(one(workbook({"S": rows})))[1:]] == ["item | n\ntea | 1\ncup | 2", "item | n\npot | 3"]


def test_a_column_of_prose_is_paragraphs_and_a_column_of_values_a_table() -> None:
    prose = grid(
        ["Read me first: this workbook was made by hand, over many long years."],
        ["It holds what was counted, who counted it and when, year by year."],
    )

    assert [kind for kind, _ in blocks(one(workbook({"S": prose})))] == ["heading", "paragraph", "paragraph"]
    assert [kind for kind, _ in blocks(one(workbook({"S": grid(["name"], ["Ann"], ["Bo"])})))] == ["heading", "table"]


def test_empty_edges_are_left_out_and_a_merged_cell_has_its_text_once() -> None:
    rows = f'<row r="5">{cell("C5", "head")}{cell("E5", "x")}</row><row r="6">{cell("D6", 1.0)}{cell("F6", "")}</row>'

    assert lines(rows + '</sheetData><mergeCells><mergeCell ref="C5:D5"/></mergeCells><sheetData>') == ["head |  | x", "| 1"]


def test_hidden_sheets_are_read_and_very_hidden_ones_left_out() -> None:
    sheets = {name: grid([f"in {name}"]) for name in ("A", "B", "C")}

    parsed = one(workbook(sheets, {"B": "hidden", "C": "veryHidden"}))

    assert parsed.text == "A\n\nin A\n\nB\n\nin B"
    assert json.loads(parsed.metadata["sheet_states"]) == {"A": "visible", "B": "hidden", "C": "veryHidden"}
    assert parsed.metadata["warning"] == "'C' is very hidden and left out"


def test_comments_follow_their_sheet() -> None:
    author, text = "<authors><author>Ann</author></authors>", "<text><r><t>Ann:</t></r><r><t> check</t></r></text>"
    notes = f'<commentList><comment ref="B2" authorId="0">{text}</comment></commentList>'
    parts = {
        "worksheets/_rels/sheet1.xml.rels": relations({"c": ("comments", "../comments1.xml")}),
        "comments1.xml": f'<comments xmlns="{M}">{author}{notes}</comments>',
    }

    assert blocks(one(workbook({"S": grid(["x"])}, parts=parts)))[-1] == ("notes", "Comment on B2 (Ann): check")


def test_groups_of_rows_repeat_the_header() -> None:
    parsed = one(workbook({"S": grid(["name", "price"], *([f"item {i}", float(i)] for i in range(30)))}))

    chunks = [
        c
        for c in chunk(Document("d", "a.xlsx", parsed.text, parsed.blocks), "table", size=100, unit="chars")
        if c.kind == "table"
    ]

    assert len(chunks) > 3
    assert {c.context for c in chunks[1:]} == {"name | price"}


def test_a_legacy_workbook_is_read() -> None:
    parsed = one(zlib.decompress(base64.b85decode("".join(LEGACY))), "a.xls")

    assert (
        parsed.text == "Prices\n\nitem | price | sold\ntea | 2.5 | TRUE\ncup | 3 | FALSE\nwhen | 2024-05-01\n\nNotes\n\nsecret"
    )
    assert json.loads(parsed.metadata["sheet_states"])["Notes"] == "hidden"


def test_an_opendocument_workbook_shows_percents_and_skips_its_filling() -> None:
    rows = (
        calc_row(calc_cell("item"), calc_cell("share"), calc_cell(times=16000))
        + calc_row(calc_cell("tea"), calc_cell("12.5 %", "percentage", 0.125), calc_cell(times=16000)) * 300
        + calc_row(*[calc_cell("2", "float", 2)] * 10)
        + calc_row(calc_cell(times=16384), times=1_048_000)
        + calc_row(calc_cell("end"))
    )

    text = one(calc(rows), "a.ods").text

    assert text == "S\n\nitem | share" + "\ntea | 12.5 %" * 300 + "\n2" + " | 2" * 9 + "\n\nend"


@pytest.mark.parametrize(
    "rows",
    [
        calc_row(calc_cell("v", times=16384), times=1_048_576),
        calc_row(calc_cell("v" * 1000, times=4), times=1_000_000),
        calc_row(
            '<table:table-cell office:value-type="float" office:value="1" table:number-columns-repeated="9"/>', times=1_000_000
        ),
    ],
    ids=["cells", "text", "numbers"],
)
def test_repetition_in_an_opendocument_workbook_is_bounded(rows: str) -> None:
    assert failure(calc(rows), "a.ods").kind == "too_large"


def test_two_cells_in_opposite_corners_are_two_cells() -> None:
    rows = f'<row r="1">{cell("A1", "first")}</row><row r="1048576">{cell("XFD1048576", "last")}</row>'

    assert blocks(one(workbook({"S": rows})))[1:] == [("paragraph", "first"), ("paragraph", "last")]


@pytest.mark.parametrize(
    "rows",
    [
        f'<row r="1">{cell("A1", 1.0)}{cell("XFD1048576", 2.0)}</row>',
        "<row r='1'><c r='A1'><v>1</v></c></row><row r='1048576'><c r='XFD1048576'><v>2</v></c></row>",
        '<row r="1"><c r = "A1"><v>1</v></c></row><row r="1048576"><c r = "XFD1048576"><v>2</v></c></row>',
        '<row r="1"><c\nr\n=\n"A1"><v>1</v></c></row><row r="1048576"><c\nr\n=\n"XFD1048576"><v>2</v></c></row>',
        f'{cell("A1", 1.0)}<x:row xmlns:x="{M}" r="1048576"><x:c r="XFD1048576"><x:v>2</x:v></x:c></x:row>',
        '<row r="4294967290"><c r="A4294967290"><v>1</v></c></row>',
        '<row r="99999999999"><c r="ZZZZ99999999999"><v>1</v></c></row>',
        '<row r="1"><c r="A1"><v>1</v></c><c r="B99999999999"><v>2</v></c></row>',
        '<row r="1"><c r="A1"><v>1</v></c><c r="ZZZZZZ1"><v>2</v></c></row>',
        '<row r="1"><c r="a1"><v>1</v></c></row><row r="1048576"><c r="xfd1048576"><v>2</v></c></row>',
    ],
)
def test_no_spelling_of_a_place_makes_a_sheet_huge(rows: str) -> None:
    began = time.process_time()

    with contextlib.suppress(DocumentError):
        assert len(one(workbook({"S": rows})).text) < 100
    assert time.process_time() - began < 2


def test_cells_without_a_place_are_counted_whatever_their_prefix() -> None:
    far = f'<x:row xmlns:x="{M}" r="60000">{"<x:c><x:v>2</x:v></x:c>" * 9000}</x:row>'

    assert one(workbook({"S": f'<row r="1">{cell("A1", 1.0)}</row>{far}'})).text.startswith("S\n\n1\n\n2 | 2 | ")


def test_cells_spread_beyond_reason_cost_their_sheet_alone() -> None:
    def letters(n: int) -> str:
        return (letters((n - 1) // 26) if n > 26 else "") + chr(65 + (n - 1) % 26)

    diagonal = "".join(f'<row r="{i}">{cell(f"{letters(i)}{i}", 1.0)}</row>' for i in range(1, 6000))

    parsed = one(workbook({"Bad": diagonal, "Good": grid(["kept"])}))

    assert parsed.text == "Good\n\nkept"
    assert "5,999 cells spread over" in parsed.metadata["warning"]
    assert failure(workbook({"Bad": diagonal})).kind == "too_large"


def test_a_string_shared_by_every_cell_is_counted_before_it_is_copied() -> None:
    cells = '<row><c t="s"><v>0</v></c></row>' * 5000

    assert failure(workbook({"S": cells}, strings=f"<si><t>{'x' * 32_000}</t></si>")).kind == "too_large"


def test_a_broken_sheet_is_told_and_the_others_are_kept() -> None:
    parsed = one(workbook({"A": grid(["a"]), "B": '<row><c t="s"><v>99</v></c></row>', "C": grid(["c"])}))

    assert parsed.text == "A\n\na\n\nC\n\nc"
    assert parsed.metadata["warning"].startswith("'B' could not be read")


def test_what_is_no_workbook_says_so() -> None:
    assert failure(b"just,text\n1,2\n").kind == "type_mismatch"
    entities = zipped(
        {"[Content_Types].xml": "<T/>", "xl/workbook.xml": '<!DOCTYPE w [<!ENTITY a "b">]><workbook>&a;</workbook>'}
    )
    assert failure(entities).kind == "unsafe_xml"
    assert (
        failure(workbook({"S": "", "T": ""}, parts={"worksheets/sheet3.xml": '<!DOCTYPE w [<!ENTITY a "b">]><w/>'})).kind
        == "unsafe_xml"
    )
    assert failure(zipped({"[Content_Types].xml": "<T/>", "xl/other.xml": "<a/>"})).kind == "corrupt"
    manifest = '<manifest:encryption-data xmlns:manifest="m"/>'
    ods = zipped(
        {"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "x", "META-INF/manifest.xml": manifest}
    )
    assert failure(ods, "a.ods").kind == "encrypted"


def test_any_damage_gives_a_sound_document_or_a_document_error() -> None:
    good = [
        (
            workbook(
                {"A": grid(["a", 1.5, True], [], ["b"]), "B": '<row><c t="s"><v>0</v></c></row>'}, strings="<si><t>s</t></si>"
            ),
            "a.xlsx",
        ),
        (calc(calc_row(calc_cell("a"), calc_cell("2", "float", 2), times=2)), "a.ods"),
        (zlib.decompress(base64.b85decode("".join(LEGACY))), "a.xls"),
    ]
    chance = random.Random(5)
    for _ in range(400):
        data, name = chance.choice(good)
        with contextlib.suppress(DocumentError):
            for parsed in parse(damaged(data, chance), name, format="ods" if name.endswith("ods") else "xlsx"):
                assert_sound(parsed)


def damaged(good: bytes, chance: random.Random) -> bytes:
    """The file, or the parts of the archive, with some bytes replaced."""
    files = {"": bytearray(good)}
    if good.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(good)) as packed:
            files = {name: bytearray(packed.read(name)) for name in packed.namelist()}
    for _ in range(chance.randint(1, 6)):
        data = files[chance.choice([*files])]
        at = chance.randrange(len(data) + 1)
        data[at : at + chance.randint(0, 9)] = chance.choice(NOISE)
    return bytes(files[""]) if "" in files else zipped({name: bytes(data) for name, data in files.items()})


def facts() -> list[dict]:
    path = CORPUS / "gold_open.jsonl"
    return [f for f in map(json.loads, path.read_text("utf-8").splitlines()) if f["kind"] == "xlsx"] if path.exists() else []


@needs_corpus
@pytest.mark.parametrize("fact", facts(), ids=lambda f: f"{f['path'].rpartition('/')[2]}-{f['assertion']}")
def test_facts_of_open_workbooks_hold(fact: dict) -> None:
    parsed = one((CORPUS / fact["path"]).read_bytes())
    tables = [[parsed.text[slice(*p)].split(" | ") for p in b.parts] for b in parsed.blocks if b.kind == "table"]

    if fact["assertion"] == "count":
        assert sum(len(table) - 1 for table in tables) == fact["value"]
    elif fact["assertion"] == "sheet_states":
        assert json.loads(parsed.metadata["sheet_states"]) == fact["value"]
    elif fact["assertion"] == "table_row":
        assert tables[0][0][: len(fact["header"])] == fact["header"]
        assert fact["value"] in [row[: len(fact["value"])] for row in tables[0][1:]]
    else:
        assert fact["value"] in parsed.text


@needs_corpus
def test_hostile_workbooks_are_read_as_expected() -> None:
    hostile = CORPUS / "hostile" / "office"
    began = time.process_time()

    assert len(one((hostile / "huge-sheet-dimension.xlsx").read_bytes()).text) < 500
    assert one((hostile / "sparse-last-cell.xlsx").read_bytes()).text == "S1\n\nfirst\n\nlast"
    assert failure((hostile / "encrypted.xlsx").read_bytes()).kind == "encrypted"
    with pytest.raises(DocumentError):
        list(parse((hostile / "truncated.xlsx").read_bytes(), "truncated.xlsx"))
    assert time.process_time() - began < 5
