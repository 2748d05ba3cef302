"""ZIP archives that are cut off, or hold several members of a name, and what is in office files that are."""

from __future__ import annotations

import io
import warnings
import zipfile

import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import detect, parse
from chunkmill.io.parsers.zipped import Package

NOTE = "The keeper lit the lamp. "
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PARTS = "http://schemas.openxmlformats.org/package/2006/relationships"
WORKBOOK = [
    ("[Content_Types].xml", "<Types xmlns='http://schemas.openxmlformats.org/package/2006/content-types'/>"),
    (
        "_rels/.rels",
        f"<Relationships xmlns='{PARTS}'><Relationship Id='r1' Type='{RELATIONS}/officeDocument' Target='xl/workbook.xml'/>"
        "</Relationships>",
    ),
    (
        "xl/workbook.xml",
        f"<workbook xmlns='{SHEETS}' xmlns:r='{RELATIONS}'><sheets><sheet name='S' sheetId='1' r:id='r1'/></sheets></workbook>",
    ),
    (
        "xl/_rels/workbook.xml.rels",
        f"<Relationships xmlns='{PARTS}'><Relationship Id='r1' Type='{RELATIONS}/worksheet' Target='worksheets/sheet1.xml'/>"
        "</Relationships>",
    ),
    (
        "xl/worksheets/sheet1.xml",
        f"<worksheet xmlns='{SHEETS}'><sheetData><row r='1'><c r='A1' t='inlineStr'><is><t>lamp</t></is></c></row></sheetData>"
        "</worksheet>",
    ),
    ("docProps/core.xml", "<coreProperties>" + "<title>Oil</title>" * 20 + "</coreProperties>"),
]


class Pipe(io.RawIOBase):
    """A file that can't be gone back in: sizes are written behind the members."""

    def __init__(self) -> None:
        self.out = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.out += data
        return len(data)


def packed(members: list[tuple[str, str]], *, streamed: bool = False) -> bytes:
    file = Pipe() if streamed else io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return bytes(file.out) if isinstance(file, Pipe) else file.getvalue()


@pytest.mark.parametrize("streamed", [False, True])
def test_the_whole_members_of_an_archive_that_is_cut_off_are_read(streamed: bool) -> None:
    data = packed([("a.txt", NOTE * 9), ("b.txt", NOTE * 5), ("c.txt", NOTE)], streamed=streamed)
    cut = data[: data.index(b"c.txt") + 8]

    found = list(parse(cut, "a.zip"))

    assert [(p.member, p.text) for p in found] == [("!a.txt", NOTE * 9), ("!b.txt", NOTE * 5), ("!(the rest)", "")]
    assert "cut off" in str(found[-1].error)


def test_an_archive_without_a_whole_member_says_that_it_is_cut_off() -> None:
    data = packed([("a.txt", NOTE * 9)])

    with pytest.raises(DocumentError, match="cut off or damaged"):
        list(parse(data[:50], "a.zip"))


def test_a_member_that_would_unfold_without_end_is_refused_when_salvaged() -> None:
    data = packed([("a.txt", "0" * 40_000_000), ("b.txt", NOTE)], streamed=True)

    with pytest.raises(DocumentError) as caught:
        Package(data[:-30], "the archive")

    assert caught.value.kind == "too_large"


def test_members_of_the_same_name_are_documents_each() -> None:
    found = list(parse(packed([("a.txt", "one"), ("a.txt", "two")]), "a.zip"))

    assert [(p.member, p.text) for p in found] == [("!a.txt", "one"), ("!a.txt~2", "two")]


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"name\tsum\nAda\t3\nBo\t4\n", "csv"),
        ("name\tsum\nAda\t3\n".encode("utf-16"), "csv"),
        (b'<?xml version="1.0"?>\n<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"/>', "xml"),
        (b"a letter,\nnot a table", "xlsx"),
    ],
)
def test_a_table_named_like_a_workbook_is_a_table(data: bytes, format: str) -> None:
    assert detect("a.xls", data) == format


def test_a_word_document_that_is_cut_off_is_read_with_a_warning() -> None:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    words = f"<w:document xmlns:w='{space}'><w:body><w:p><w:r><w:t>The lamp is lit.</w:t></w:r></w:p></w:body></w:document>"
    data = packed([("[Content_Types].xml", "<Types/>"), ("word/document.xml", words), ("word/styles.xml", "<styles/>")])

    (parsed,) = parse(data[: data.index(b"word/styles.xml")], "a.docx")

    assert parsed.text == "The lamp is lit."
    assert "cut off" in parsed.metadata["warning"]


def test_a_damaged_part_beside_the_sheets_costs_a_warning() -> None:
    data = bytearray(packed(WORKBOOK))
    at = data.index(b"docProps/core.xml") + len("docProps/core.xml")
    data[at : at + 8] = bytes(8)

    (parsed,) = parse(bytes(data), "a.xlsx")

    assert "lamp" in parsed.text
    assert "docProps/core.xml could not be read" in parsed.metadata["warning"]
