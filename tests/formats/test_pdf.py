"""PDF: what a reader of the pages would read, through both engines where both can."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pymupdf
import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
TEXT = (
    "the harbour lay quiet under a low sky while the boats came in one by one and the keeper wrote their names "
    "into the long book that his father had begun when the light was still fed with oil and turned by hand"
)
LOREM = TEXT.split()
KINDS = {"corrupt", "encrypted", "no_text", "too_deep", "too_large", "type_mismatch"}

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not there")
needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="Tesseract is not installed")


@pytest.fixture(params=["pymupdf", "pypdfium2"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "pypdfium2":
        pytest.importorskip("pypdfium2", reason="the pdfium extra is not installed")
    return str(request.param)


def one(data: bytes, **options: object) -> Parsed:
    (parsed,) = parse(data, "a.pdf", {"pdf": {"ocr": "off"} | options})
    assert_sound(parsed)
    return parsed


def prose(seed: int, words: int) -> str:
    chosen = random.Random(seed).choices(LOREM, k=words)
    return " ".join(chosen).capitalize() + "."


def written(*pages: Sequence[tuple[float, float, str, dict[str, object]]]) -> pymupdf.Document:
    """Pages of (x, y, text, style)."""
    pdf = pymupdf.open()
    for items in pages:
        page = pdf.new_page()
        for x, y, text, style in items:
            page.insert_text((x, y), text, **style)
    return pdf


def blocks(parsed: Parsed, *kinds: str) -> list[str]:
    return [parsed.text[slice(*b.span)] for b in parsed.blocks if not kinds or b.kind in kinds]


def headings(parsed: Parsed) -> list[tuple[int, str]]:
    return [(b.level, parsed.text[slice(*b.span)]) for b in parsed.blocks if b.kind == "heading"]


def refused(data: bytes, **options: object) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        one(data, **options)
    return caught.value


@pytest.mark.parametrize("text", ["A note.\n" * 20_000, "# A comment.\n" * 20_000 + "%PDF-1.7\n"])
def test_a_text_named_like_a_pdf_is_refused_at_once(text: str) -> None:
    started = time.process_time()

    assert refused(text.encode()).kind == "type_mismatch"
    assert time.process_time() - started < 0.5


def test_a_text_that_speaks_of_objects_is_no_pdf_either() -> None:
    assert refused(b"# An object (obj) is a thing.\n" * 500).kind == "type_mismatch"


# reading order


def two_columns(pdf: pymupdf.Document, seed: int = 1) -> None:
    page = pdf.new_page()
    page.insert_text((72, 60), "A title that runs across both of the columns below it", fontsize=16)
    for column, x in enumerate((72, 312)):
        box = (x, 100, x + 220, 700)
        assert page.insert_textbox(box, f"Column{column} begins. {prose(seed + column, 260)} Column{column} ends.") >= 0


def test_columns_are_read_one_after_the_other_below_what_spans_them(engine: str) -> None:
    pdf = pymupdf.open()
    two_columns(pdf)

    text = one(pdf.tobytes(), engine=engine).text

    order = [text.index(mark) for mark in ("A title", "Column0 begins", "Column0 ends", "Column1 begins", "Column1 ends")]
    assert order == sorted(order)


def test_two_addresses_side_by_side_are_read_one_after_the_other(engine: str) -> None:
    ours, theirs = ["Ada Lind", "Lighthouse 1", "1234 Oban"], ["Harbour Board", "Quay 5", "Wick"]
    left: Items = [(60, 60 + 14 * n, line, {}) for n, line in enumerate(ours)]
    right: Items = [(380, 60 + 14 * n, line, {}) for n, line in enumerate(theirs)]
    rows = [item for both in zip(left, right, strict=True) for item in both]

    by_block, by_row = (one(written(items).tobytes(), engine=engine).text.split() for items in ([*left, *right], rows))

    assert by_block == " ".join(ours + theirs).split()
    assert by_row == " ".join(item[2] for item in rows).split()


def test_three_columns_are_read_from_left_to_right(engine: str) -> None:
    pdf = pymupdf.open()
    page = pdf.new_page()
    for column in range(3):
        x = 50 + 175 * column
        page.insert_textbox((x, 80, x + 150, 760), f"Col{column} begins. {prose(column, 200)} Col{column} ends.", fontsize=9)

    text = one(pdf.tobytes(), engine=engine).text

    order = [text.index(f"Col{column} {at}") for column in range(3) for at in ("begins", "ends")]
    assert order == sorted(order)


def test_a_paragraph_goes_on_in_the_next_column_and_keeps_the_page_it_began_on(engine: str) -> None:
    left = [(72, 500 + 14 * n, "words that fill the left column to its edge", {}) for n in range(8)]
    left += [(72, 612, "and then the sentence breaks off before the", {})]
    right = [(320, 500, "very last word of it, which stands over here.", {})]
    right += [(320, 514 + 14 * n, "More words that fill the other column, too", {}) for n in range(8)]

    text = one(written([*left, *right]).tobytes(), engine=engine).text

    assert "breaks off before the very last word of it" in text


def test_footnotes_follow_the_paragraph_that_goes_on_over_the_page(engine: str) -> None:
    body = [(72, 100 + 14 * n, "A line of the body that is long enough to reach the end of its column", {}) for n in range(20)]
    body += [(72, 380, "and the last one of the page stops in the middle of what it was about", {})]
    note = [(72, 700, "1 A footnote in small type.", {"fontsize": 7})]
    following = [(72, 100, "to say when the page was full.", {}), (72, 140, "Another paragraph.", {})]

    parsed = one(written([*body, *note], following).tobytes(), engine=engine)

    whole = next(b for b in parsed.blocks if "what it was about to say when" in parsed.text[slice(*b.span)])
    assert whole.page == 1
    assert parsed.text.index("1 A footnote") > whole.span.start


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_turned_pages_read_like_level_ones(engine: str, turn: int) -> None:
    pdf = pymupdf.open()
    two_columns(pdf)
    level = one(pdf.tobytes(), engine=engine).text

    pdf[0].set_rotation(turn)
    turned = one(pdf.tobytes(), engine=engine).text

    assert len(level) > 1000
    assert turned.split() == level.split()


def test_text_that_runs_upwards_is_whole_and_comes_last(engine: str) -> None:
    pdf = written([(72, 100 + 14 * n, f"Level line {n} of the page.", {}) for n in range(6)])
    pdf[0].insert_text((30, 500), "a stamp at the side of it", rotate=90)
    pdf[0].insert_text((44, 500), "with a second line", rotate=90)

    found = blocks(one(pdf.tobytes(), engine=engine))

    assert found[-1] == "a stamp at the side of it with a second line"


Items = list[tuple[float, float, str, dict[str, object]]]


def running(rows: int, *, x: float = 90, seed: int = 3, pitch: float = 20, long: int = 44) -> Items:
    """Lines of sentences, as a draft has them: most of them full, and many begin inside a sentence."""
    words, lines = iter(random.Random(seed).choices(LOREM, k=rows * long)), list[str]()
    for n in range(rows):
        line = "The" if n % 6 == 0 else next(words)
        while len(line) < (long if n % 6 != 5 else 12):
            line += f" {next(words)}"
        lines.append(f"{line}." if n % 6 == 5 else line)
    return [(x, 100 + pitch * n, line, {}) for n, line in enumerate(lines)]


def numbered(first: int, rows: int, *, x: float = 40, step: int = 1, pitch: float = 20) -> Items:
    return [(x, 100 + pitch * n, str(first + n), {}) for n in range(rows) if not (first + n) % step]


@pytest.mark.parametrize("step", [1, 5])
@pytest.mark.parametrize("x", [40, 480])
def test_line_numbers_that_go_on_from_page_to_page_are_left_out(engine: str, step: int, x: float) -> None:
    pages = [running(45, seed=first, pitch=14) + numbered(first, 45, x=x, step=step, pitch=14) for first in (1, 46, 91)]

    text = one(written(*pages).tobytes(), engine=engine).text

    assert not any(c.isdigit() for c in text)
    assert text.split() == " ".join(item[2] for page in pages for item in page if not item[2].isdigit()).split()


def test_line_numbers_beside_space_are_left_out_too(engine: str) -> None:
    lines = [line for n, line in enumerate(running(28)) if n not in (7, 8, 19)]

    assert not any(c.isdigit() for c in one(written(lines + numbered(1, 28)).tobytes(), engine=engine).text)


def test_every_fifth_line_of_verse_loses_its_number(engine: str) -> None:
    verse: Items = [(90, 100 + 16 * n, f"{LOREM[n % 30].capitalize()} and the {LOREM[-n % 30]} of it", {}) for n in range(44)]
    numbers = numbered(1, 44, x=400, step=5, pitch=16)

    assert not any(c.isdigit() for c in one(written([*verse, *numbers]).tobytes(), engine=engine).text)


def test_the_line_numbers_of_a_cover_are_left_out(engine: str) -> None:
    title = ["IN THE COURT OF THE HARBOUR AND THE SEA", "The Keeper, Petitioner", "v. The Harbour Board and others", ""]
    lines: Items = [(120, 100 + 20 * n, line, {}) for n, line in enumerate([*title * 4, "Washington, D.C."]) if line]

    assert not any(c.isdigit() for c in one(written(lines + numbered(1, 25)).tobytes(), engine=engine).text)


def test_line_numbers_of_two_columns_are_left_out(engine: str) -> None:
    columns = [
        [(x, y, text, {"fontsize": 9}) for x, y, text, _ in running(40, x=x, seed=x, pitch=12, long=36)] for x in (80, 320)
    ]
    numbers = numbered(0, 40, x=40, pitch=12) + numbered(40, 40, x=540, pitch=12)

    assert not any(c.isdigit() for c in one(written(columns[0] + columns[1] + numbers).tobytes(), engine=engine).text)


@pytest.mark.parametrize(
    ("numbers", "cells"),
    [
        (range(2005, 2017), ["the ships", "of the year"]),
        (range(5, 65, 5), ["10 mg", "once a day"]),
        (range(1, 15), ["a lamp that is lit at dusk and put out at dawn", "oil"]),
    ],
)
@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("at", ["left", "right"])
def test_columns_of_numbers_that_count_on_stay_in_their_table(
    engine: str, numbers: range, cells: list[str], drawn: bool, at: str
) -> None:
    rows = [[str(n), *cells] if at == "left" else [*cells, str(n)] for n in numbers]
    pdf = written([(72, 100, prose(1, 12), {}), (72, 640, prose(2, 12), {})])
    if drawn:
        grid(pdf[0], [["Here", "there", "it"], *rows], width=150)
    else:
        for r, row in enumerate(rows):
            for c, cell in enumerate(row):
                pdf[0].insert_text((72 + 210 * c - 160 * (c > 0 and at == "left"), 200 + 16 * r), cell, fontsize=9)

    words = one(pdf.tobytes(), engine=engine).text.split()

    assert {str(n) for n in numbers} <= set(words)


def test_numbers_of_clauses_and_items_stay(engine: str) -> None:
    clauses: Items = [*numbered(1, 12, pitch=40), *((90, 100 + 40 * n, f"The court {prose(n, 8)}", {}) for n in range(12))]
    clauses += [(90, 114 + 40 * n, "and so it goes on in a second line of it", {}) for n in range(12)]
    items: Items = [*numbered(1, 12), *((90, 100 + 20 * n, prose(n, 4 + n % 5), {}) for n in range(12))]
    between: Items = [(90, 60, prose(1, 14), {}), *numbered(1, 9), *running(30)]

    for page in (clauses, items, between):
        words = one(written(page).tobytes(), engine=engine).text.split()
        assert [word for word in words if word.isdigit()] == [text for _, _, text, _ in page if text.isdigit()]


# furniture


def book(pages: int, number: str = "{}") -> pymupdf.Document:
    return written(
        *(
            [
                (72, 40, "The Keeper's Book" if n % 2 else "A Chapter of It", {"fontsize": 9}),
                (72, 100, f"Page {LOREM[n]} begins here.", {}),
                (72, 130, prose(n, 8), {}),
                (300, 810, number.format(n + 7), {"fontsize": 9}),
            ]
            for n in range(pages)
        )
    )


def test_headers_of_odd_and_even_pages_and_page_numbers_are_kept_as_metadata_only(engine: str) -> None:
    parsed = one(book(8).tobytes(), engine=engine)

    assert "Keeper" not in parsed.text
    assert not any(c.isdigit() for c in parsed.text)
    assert parsed.text.count("begins here") == 8
    assert set(parsed.metadata["header"].split(" · ")) == {"The Keeper's Book", "A Chapter of It"}


def test_roman_page_numbers_are_left_out(engine: str) -> None:
    pages = [[(72, 100, prose(n, 9), {}), (300, 810, numeral, {})] for n, numeral in enumerate(("iii", "iv", "v", "vi"))]

    assert not {"iii", "iv", "v", "vi"} & set(one(written(*pages).tobytes(), engine=engine).text.split())


def test_running_titles_that_end_in_the_page_number_go_whatever_they_say(engine: str) -> None:
    pdf = written(*([(72, 40, f"{LOREM[n]} and other matters {n + 3}", {}), (72, 120, prose(n, 9), {})] for n in range(5)))

    parsed = one(pdf.tobytes(), engine=engine)

    assert "other matters" not in parsed.text
    assert "other matters" in parsed.metadata["header"]


def test_page_3_of_10_is_no_text() -> None:
    assert one(written([(72, 100, "Some text.", {}), (280, 800, "Page 3 of 10", {})]).tobytes()).text == "Some text."


def test_a_short_document_keeps_what_stands_at_its_top() -> None:
    pdf = written([(72, 40, "To whom it may concern", {}), (72, 100, "Text.", {})], [(72, 40, "Yours truly", {})])

    assert one(pdf.tobytes()).text.split("\n\n") == ["To whom it may concern", "Text.", "Yours truly"]


def test_pages_that_say_nothing_else_keep_what_they_repeat() -> None:
    assert one(written(*[[(72, 60, "A slide", {})]] * 4).tobytes()).text.count("A slide") == 4


def test_forms_keep_what_was_filled_in_at_their_top(engine: str) -> None:
    def form(n: int) -> list[tuple[float, float, str, dict[str, object]]]:
        lines = [f"Keeper's report {n}", f"Station {20 + 7 * n}", f"Oil drawn: {n * n} gallons", "Wind and weather"]
        lines += [f"Watch {i}: lamp lit at {17 + n}:0{i}" for i in range(8)] + [f"Signed on day {n}"]
        return [(72, 60 + 20 * i, line, {}) for i, line in enumerate(lines[:-1])] + [(72, 800, lines[-1], {})]

    text = one(written(*map(form, range(4))).tobytes(), engine=engine).text

    assert all(line in text for n in range(4) for _, _, line, _ in form(n))


def body(seed: int) -> Items:
    """Rows of text that stand elsewhere on each page: it is no form."""
    return [(72, 120 + 3 * seed + 14 * n, prose(40 * seed + n, 9), {}) for n in range(12)]


@pytest.mark.parametrize(
    ("row", "y", "style"),
    [
        ("{n} A footnote of its own about the {word}.", 780, {"fontsize": 8}),
        ("{n}. The {word} and its parts", 60, {}),
        ("Exercise {n}", 60, {"fontsize": 18}),
        ("{n}", 60, {"fontsize": 30}),
        ("Carried forward: {amount}", 780, {}),
        ("{n} Total of the page: {amount}", 780, {}),
        ("The log of {n} May 2024", 60, {}),
    ],
)
def test_rows_that_are_numbered_like_pages_or_differ_by_amounts_are_text(
    engine: str, row: str, y: float, style: dict[str, object]
) -> None:
    rows = [row.format(n=n, word=LOREM[n], amount=n * n * 37) for n in range(1, 6)]

    text = one(written(*([*body(n), (72, y, said, style)] for n, said in enumerate(rows))).tobytes(), engine=engine).text

    assert all(said in text for said in rows)


@pytest.mark.parametrize("row", ["Chapter {chapter}", "{page} The keeper's book {page}", "Book 7, page {page} (2024)"])
def test_headers_may_count_pages_and_chapters(engine: str, row: str) -> None:
    pages = [[(72, 60, row.format(chapter=n // 4, page=n + 3), {}), *body(n)] for n in range(9)]

    text = one(written(*pages).tobytes(), engine=engine).text

    assert not any(said in text for _, _, said, _ in (page[0] for page in pages[:8]))


# headings


def test_headings_come_from_sizes_and_weight_and_their_numbers_say_how_deep() -> None:
    bold = {"fontname": "hebo"}
    pdf = written(
        [
            (72, 80, "The Work of a Light", {"fontsize": 22}),
            (72, 130, "1 The tower", {"fontsize": 14} | bold),
            (72, 160, prose(1, 11), {}),
            (72, 200, "1.1 The lamp", {"fontsize": 14} | bold),
            (72, 230, prose(2, 11), {}),
            (72, 260, "2 The sea", {"fontsize": 14} | bold),
            (72, 290, prose(3, 11), {}),
        ]
    )

    found = headings(one(pdf.tobytes()))

    assert found == [(1, "The Work of a Light"), (2, "1 The tower"), (3, "1.1 The lamp"), (2, "2 The sea")]


def test_the_outline_says_how_deep_headings_are() -> None:
    pdf = written(
        [(72, 80, "Part of plain size", {}), (72, 120, prose(1, 12), {}), (72, 160, "Below it", {}), (72, 200, "Text.", {})]
    )
    pdf.set_toc([[1, "Part of plain size", 1], [2, "Below it", 1]])

    assert headings(one(pdf.tobytes())) == [(1, "Part of plain size"), (2, "Below it")]


def test_a_line_in_italics_by_itself_is_a_heading_and_one_in_a_sentence_is_none() -> None:
    slant = {"fontname": "heit"}
    pdf = written(
        [(72, 80, "The elastic stop", slant), (72, 96, prose(1, 12), {}), (72, 130, prose(2, 12), {}), (72, 170, "End.", {})]
    )

    assert headings(one(pdf.tobytes())) == [(1, "The elastic stop")]


# paragraphs, lists, code


def test_paragraphs_end_at_space_and_at_indents(engine: str) -> None:
    lines = [
        "First paragraph of the page which runs on",
        "to a line that is as long as all others.",
        "Second one, indented, which runs on as",
    ]
    lines += ["well as the one before it does above it."]
    pdf = written([(72 + 14 * line.startswith("Second"), 100 + 14 * n, line, {}) for n, line in enumerate(lines)])
    pdf[0].insert_text((72, 200), "Third, after a space.")

    found = blocks(one(pdf.tobytes(), engine=engine), "paragraph")

    assert [text.split()[0] for text in found] == ["First", "Second", "Third,"]


def test_a_clause_whose_number_hangs_is_one_paragraph(engine: str) -> None:
    lines: Items = [*numbered(1, 4, x=60, pitch=40)]
    lines += [(90, 100 + 40 * n, f"The court finds in point {n} that the lamp was not lit at the time", {}) for n in range(4)]
    lines += [(90, 114 + 40 * n, "when the ship passed the rock.", {}) for n in range(4)]

    found = blocks(one(written(lines).tobytes(), engine=engine))

    assert [text[:11] for text in found] == [f"{n} The court" for n in range(1, 5)]
    assert all("at the time when the ship" in text for text in found)


def test_items_of_a_list_are_its_parts(engine: str) -> None:
    lines = ["Before it:", "* the first item that goes", "on in a second line", "* the second item", "After it."]
    pdf = written([(72 + 10 * (n == 2), 100 + 14 * n + 20 * (n > 3), line, {}) for n, line in enumerate(lines)])

    parsed = one(pdf.tobytes(), engine=engine)

    (found,) = (b for b in parsed.blocks if b.kind == "list")
    assert [parsed.text[slice(*p)] for p in found.parts] == [
        "* the first item that goes on in a second line",
        "* the second item",
    ]


def test_code_keeps_its_lines_and_indents(engine: str) -> None:
    mono = {"fontname": "cour"}
    pdf = written(
        [
            (72, 80, prose(1, 12), {}),
            (72, 120, "for x in y:", mono),
            (72, 134, "    print(x)", mono),
            (72, 180, prose(2, 12), {}),
        ]
    )

    assert blocks(one(pdf.tobytes(), engine=engine), "code") == ["for x in y:\n    print(x)"]


def test_dots_that_lead_to_a_page_number_are_shortened() -> None:
    lines = [(72, 100 + 14 * n, f"{name} {'.' * 40} {n}", {}) for n, name in enumerate(("Tower", "Lamp", "Sea"))]

    assert one(written(lines).tobytes()).text == "Tower … 0\nLamp … 1\nSea … 2"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["This is an al-", "ternative."], "an alternative."),
        (["TraceMonkey runs. Trace-", "Monkey ran."], "TraceMonkey ran."),
        (["A mode, one mode: a mixed-", "mode run."], "a mixed-mode run."),
        (["He met Anglo-", "Saxon kings."], "Anglo-Saxon kings."),
        (["It was self-", "made."], "self-made."),
        (["The state of it: a state-of-the-", "art lamp."], "state-of-the-art lamp."),
        (["See https://a.org/very-", "long for it."], "https://a.org/very-long for it."),
        (["In the years 1914-", "1918 it was dark."], "1914-1918 it"),
        (["They had COVID-", "19 there."], "COVID-19 there."),
    ],
)
def test_hyphens_at_line_ends_go_and_real_ones_stay(lines: list[str], expected: str) -> None:
    assert expected in one(written([(72, 100 + 14 * n, line, {}) for n, line in enumerate(lines)]).tobytes()).text


# tables


def grid(
    page: pymupdf.Page, rows: list[list[str]], x: float = 72, y: float = 200, width: float = 100, outer: bool = True
) -> None:
    high, wide = len(rows), len(rows[0])
    for n in range(high + 1):
        page.draw_line((x, y + 20 * n), (x + width * wide, y + 20 * n))
    for n in range(wide + 1):
        if outer or 0 < n < wide:
            page.draw_line((x + width * n, y), (x + width * n, y + 20 * high))
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            page.insert_text((x + 4 + width * c, y + 14 + 20 * r), cell, fontsize=9)


@pytest.mark.parametrize("outer", [True, False])
def test_drawn_tables_are_rows_of_cells_and_their_text_stands_once(engine: str, outer: bool) -> None:
    pdf = written([(72, 100, "Before the table.", {}), (72, 400, "After the table.", {})])
    grid(pdf[0], [["Name", "Price", "Stock"], ["Bolt", "3", ""]], outer=outer)

    parsed = one(pdf.tobytes(), engine=engine)

    assert blocks(parsed) == ["Before the table.", "Name | Price | Stock\nBolt | 3 |", "After the table."]
    assert len(parsed.blocks[1].parts) == 2


def test_the_lines_of_a_cell_are_joined(engine: str) -> None:
    pdf = pymupdf.open()
    page = pdf.new_page()
    for y in (100, 120, 160):
        page.draw_line((72, y), (372, y))
    for x in (72, 222, 372):
        page.draw_line((x, 100), (x, 160))
    for x, y, text in (
        (76, 114, "What"),
        (226, 114, "Note"),
        (76, 134, "Lamp"),
        (226, 134, "to be lit"),
        (226, 148, "at dusk"),
    ):
        page.insert_text((x, y), text, fontsize=9)

    assert one(pdf.tobytes(), engine=engine).text == "What | Note\nLamp | to be lit at dusk"


def test_a_line_that_runs_out_of_a_table_is_whole_and_stands_once(engine: str) -> None:
    pdf = written([(72, 100, prose(4, 12), {}), (72, 400, prose(5, 12), {})])
    grid(pdf[0], [["Name", "Price", "Stock"], ["Bolt", "3", ""], ["Nut", "4", ""]])
    pdf[0].insert_text((240, 254), "this one runs over rules and then out of the box", fontsize=9)
    pdf[0].insert_text((290, 234), "hidden", fontsize=9, render_mode=3)
    pdf[0].insert_text((20, 274), "this one begins before the drawn box and ends below it", fontsize=9)

    text = one(pdf.tobytes(), engine=engine).text

    assert all(text.count(word) == 1 for word in ("over", "rules", "out", "before", "drawn", "below"))
    assert "hidden" not in text


def test_columns_of_numbers_that_line_up_are_a_table_without_rules(engine: str) -> None:
    rows = [["Country", "Area", "People"], ["Austria", "83.9", "8.9"], ["France", "543.9", "67.4"], ["Norway", "385.2", "5.4"]]
    items = [(72 + 120 * c, 200 + 16 * r, cell, {}) for r, row in enumerate(rows) for c, cell in enumerate(row)]
    pdf = written([(72, 100, prose(4, 12), {}), *items, (72, 340, prose(5, 12), {})])

    assert blocks(one(pdf.tobytes(), engine=engine), "table") == ["\n".join(" | ".join(row) for row in rows)]


def test_a_sentence_between_two_tables_parts_them_and_no_wrapped_cell_does(engine: str) -> None:
    ports = [["Port", "Water", "Remark"], ["Oban", "4.1", "a lamp"], ["Ayr", "3.0", "none"], ["Wick", "2.7", "a buoy that"]]
    boats = [["Boat", "Tons", "Crew"], ["Ada", "40", "4"], ["Bo", "25", "3"], ["Cy", "12", "1"]]
    items: Items = [(162 + 90 * c, 200 + 18 * r, cell, {}) for r, row in enumerate(ports) for c, cell in enumerate(row)]
    items += [(342, 266, "is lit at dusk", {}), (72, 296, "Below this line stands the table of the boats.", {})]
    items += [(162 + 90 * c, 320 + 18 * r, cell, {}) for r, row in enumerate(boats) for c, cell in enumerate(row)]

    found = blocks(one(written([(72, 100, prose(4, 12), {}), *items]).tobytes(), engine=engine))

    ports[-1][-1] += " is lit at dusk"
    assert found[1:] == [
        "\n".join(" | ".join(row) for row in ports),
        "Below this line stands the table of the boats.",
        "\n".join(" | ".join(row) for row in boats),
    ]


def test_a_frame_around_prose_is_no_table(engine: str) -> None:
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.draw_rect((60, 60, 500, 300))
    page.draw_line((70, 60), (70, 300))
    page.draw_line((60, 80), (500, 80))
    page.insert_text((75, 74), "A note")
    page.insert_text((62, 100), "1")
    page.insert_textbox((75, 85, 490, 295), prose(7, 110))

    parsed = one(pdf.tobytes(), engine=engine)

    assert "table" not in {b.kind for b in parsed.blocks}


# characters


def test_ligatures_are_letters_and_meaningful_forms_stay() -> None:
    from chunkmill.io.parsers.pdf.scripts import cleaned

    assert cleaned("e\ufb03cient o\ufb00ice \ufb02ow") == "efficient office flow"
    assert cleaned("m² ſet ½") == "m² ſet ½"
    assert cleaned("a\u00a0b \uf0b7 c\x01") == "a b • c"


@pytest.mark.parametrize("stored", ["visual", "logical"])
def test_hebrew_is_read_in_order_however_it_is_stored(stored: str) -> None:
    from chunkmill.io.parsers.pdf.scripts import logical

    text = "שלום עולם (15) ABC סוף"
    drawn = "ףוס ABC (15) םלוע םולש"  # as it stands on the page, from left to right
    glyphs = [(10.0 * n, 10.0 * n + 8, c) for n, c in enumerate(drawn)]

    found = logical(glyphs if stored == "visual" else list(reversed(glyphs)))

    assert found == text


def test_lam_and_alef_of_one_glyph_come_in_this_order() -> None:
    from chunkmill.io.parsers.pdf.scripts import logical

    # حلا drawn from the right: hah, then one glyph for lam and alef, reported alef first
    assert logical([(20, 28, "ح"), (10, 18, "ا"), (18, 18, "ل")]) == "حلا"


def test_english_with_an_arabic_word_keeps_its_order() -> None:
    from chunkmill.io.parsers.pdf.scripts import logical

    drawn = "the word باتك means book"
    assert logical([(n, n + 0.9, c) for n, c in enumerate(drawn)]) == "the word كتاب means book"


def test_garbage_is_told_from_words() -> None:
    from chunkmill.io.parsers.pdf.scripts import quality

    assert quality("\ufffd\x02\x03 \x05\x06 ab") == "garbage"
    assert quality("=<6>?J+B:F>*: </+>?7-<#0(1923# K?</676/<# L5?><56#") == "doubtful"
    assert quality("The quick brown fox. Straße, élève; 3.14 kg x = y(2)") == ""
    assert quality("def getHTTPResponse(self): return self._x[0]") == ""
    assert quality("日本語のテキスト") == ""


# text that is not what it seems


def test_a_page_that_cannot_be_read_is_named_and_the_others_are_kept(engine: str) -> None:
    data = written([(72, 100, "The first page.", {})], [(72, 100, "The second page.", {})]).tobytes(no_new_id=True)
    pdf = pymupdf.open(stream=data)
    xref = pdf[1].xref
    pdf.xref_set_key(xref, "Parent", "null")
    pdf.xref_set_key(xref, "Type", "/Nothing")
    damaged = pdf.tobytes()

    parsed = one(damaged, engine=engine)

    assert "The first page." in parsed.text


def test_fonts_without_a_map_are_no_text() -> None:
    pdf = written([(72, 100, "\x01\x02\x03\x04\x05", {})])

    assert refused(pdf.tobytes()).kind == "no_text"


def test_lines_of_unknown_characters_are_left_out_with_a_warning() -> None:
    parsed = one(written([(72, 100, "A line of words that can be read.", {}), (72, 200, "\x01\x02\x03", {})]).tobytes())

    assert parsed.text == "A line of words that can be read."
    assert parsed.metadata["warning"].startswith("1 lines left out")


def test_blank_pages_are_no_text(engine: str) -> None:
    pdf = pymupdf.open()
    pdf.new_page()

    assert refused(pdf.tobytes(), engine=engine).kind == "no_text"


@pytest.mark.parametrize("bad", [{"ocr": "sometimes"}, {"engine": "poppler"}])
def test_an_unknown_setting_is_refused_with_the_choices(bad: dict[str, object]) -> None:
    assert "choose one of" in refused(book(1).tobytes(), **bad).message


# on request


def test_comments_and_form_fields_come_at_the_end_of_their_page_on_request() -> None:
    pdf = written([(72, 100, "A line to be marked.", {}), (72, 300, "Name:", {})], [(72, 100, "Next page.", {})])
    page = pdf[0]
    mark = page.add_highlight_annot(page.search_for("line")[0])
    mark.set_info(title="Ann", content="Which one?")
    mark.update()
    field = pymupdf.Widget()
    field.field_name, field.field_type, field.field_value = "surname", pymupdf.PDF_WIDGET_TYPE_TEXT, "Mill"
    field.rect = pymupdf.Rect(120, 285, 200, 305)
    page.add_widget(field)
    data = pdf.tobytes()

    plain, full = one(data), one(data, annotations=True, form_fields=True)

    assert "Which one?" not in plain.text
    assert blocks(full, "notes", "record") == ["Ann: Which one? “line”", "surname: Mill"]
    assert [b.page for b in full.blocks if b.kind in ("notes", "record")] == [1, 1]
    assert full.blocks[-1].page == 2


def test_values_of_form_fields_are_not_in_the_text_unasked_and_once_on_request(engine: str) -> None:
    pdf = written([(72, 100, "Name:", {}), (72, 200, "Some other text.", {})])
    field = pymupdf.Widget()
    field.field_name, field.field_type, field.field_value = "surname", pymupdf.PDF_WIDGET_TYPE_TEXT, "Mill"
    field.rect = pymupdf.Rect(120, 85, 200, 105)
    pdf[0].add_widget(field)

    plain = one(pdf.tobytes(), engine=engine)

    assert blocks(plain) == ["Name:", "Some other text."]
    if engine == "pymupdf":
        assert plain.metadata["warning"] == "1 values of form fields left out (form_fields: true reads them)"
        asked = one(pdf.tobytes(), form_fields=True)
        assert blocks(asked) == ["Name:", "Some other text.", "surname: Mill"]
        assert "warning" not in asked.metadata


def test_images_come_with_their_captions_on_request(engine: str) -> None:
    pdf = written([(72, 100, prose(1, 12), {}), (72, 330, "Figure 1. A brown square.", {})])
    brown = pymupdf.Pixmap(pymupdf.csRGB, (0, 0, 64, 64))
    brown.set_rect(brown.irect, (200, 120, 40))
    pdf[0].insert_image((72, 150, 222, 300), pixmap=brown)
    data = pdf.tobytes()

    parsed = one(data, images=True, engine=engine)

    (image,) = parsed.images
    assert parsed.text[slice(*image.span)] == image.caption == "Figure 1. A brown square."
    assert image.page == 1
    assert image.box == pytest.approx((72, 150, 222, 300), abs=1)
    back = pymupdf.Pixmap(image.png)
    assert (back.width, back.pixel(5, 5)) == (64, (200, 120, 40))
    assert one(data, engine=engine).images == ()


def test_metadata_is_what_the_file_says_unless_it_says_nothing(engine: str) -> None:
    pdf = written([(72, 80, "The Real Title", {"fontsize": 20}), (72, 120, prose(1, 12), {})])
    pdf.set_metadata({"title": "Microsoft Word - draft7.doc", "author": "Ann", "creationDate": "D:20200131120000+01'00'"})
    pdf.set_language("de")

    metadata = one(pdf.tobytes(), engine=engine).metadata

    assert metadata == {"title": "The Real Title", "author": "Ann", "date": "2020-01-31", "language": "de", "pages": "1"}


# OCR


def scanned(text: str) -> bytes:
    page = written([(72, 120, text, {"fontsize": 20})])[0]
    pdf = pymupdf.open()
    pdf.new_page().insert_image(page.rect, pixmap=page.get_pixmap(dpi=150))
    return bytes(pdf.tobytes())


@needs_tesseract
def test_scans_are_read_where_tesseract_is_installed(engine: str) -> None:
    parsed = one(scanned("The lamp is lit at dusk"), ocr="auto", engine=engine)

    assert "The lamp is lit at dusk" in parsed.text
    assert parsed.metadata["ocr_pages"] == "1"
    assert parsed.blocks[0].page == 1


@needs_tesseract
def test_forced_ocr_reads_pages_that_have_text() -> None:
    data = written([(72, 120, "Read me again", {"fontsize": 20})]).tobytes()

    assert one(data, ocr="force").metadata["ocr_pages"] == "1"
    assert "ocr_pages" not in one(data, ocr="auto").metadata


@needs_tesseract
def test_a_language_that_tesseract_lacks_is_named() -> None:
    error = refused(scanned("Some words"), ocr="auto", ocr_languages=["eng", "xyz"])

    assert "xyz" in error.message
    assert "tesseract-ocr-xyz" in error.message


def test_without_tesseract_a_scan_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    error = refused(scanned("The lamp is lit"), ocr="auto")

    assert error.kind == "no_text"
    assert "Tesseract is not installed" in error.message


def pictured(width: float, text: str = "") -> pymupdf.Document:
    """A page with a picture of this width that holds the text or nothing."""
    page = written([(72, 120, text, {"fontsize": 40})])[0]
    pdf = pymupdf.open()
    picture = page.get_pixmap(dpi=150, clip=pymupdf.Rect(50, 70, 450, 150))
    pdf.new_page().insert_image((60, 60, 60 + width, 60 + width / 5), pixmap=picture)
    return pdf


@needs_tesseract
def test_small_scans_are_read(engine: str) -> None:
    assert one(pictured(250, "The lamp is lit").tobytes(), ocr="auto", engine=engine).text == "The lamp is lit"


@needs_tesseract
def test_a_photo_is_said_to_be_one(engine: str) -> None:
    data = pictured(250).tobytes()

    assert "OCR found no words on 1 with pictures" in refused(data, ocr="auto", engine=engine).message
    assert "1 hold pictures (a scan needs OCR)" in refused(data, ocr="off", engine=engine).message


@needs_tesseract
def test_text_beside_a_picture_stays_where_ocr_finds_nothing(engine: str) -> None:
    pdf = pictured(450)
    pdf[0].insert_image((60, 160, 500, 800), pixmap=pymupdf.Pixmap(pymupdf.csGRAY, (0, 0, 50, 50), 0))
    pdf[0].insert_text((72, 822), "7", fontsize=3)

    assert one(pdf.tobytes(), ocr="auto", engine=engine).text == "7"


def test_a_stamp_on_a_scan_leaves_what_ocr_put_under_it(engine: str) -> None:
    pdf = pymupdf.open(stream=scanned("unread"))
    pdf[0].insert_text((72, 120), "The lamp is lit", render_mode=3)
    pdf[0].insert_text((72, 30), "Case 1:20-cv-01234 Document 17 Filed 3 May 2024 Page 2 of 9", fontsize=9)

    assert "The lamp is lit" in one(pdf.tobytes(), engine=engine).text


def test_a_page_without_text_among_others_is_a_warning() -> None:
    pdf = pymupdf.open(stream=scanned("unread"))
    pdf.new_page().insert_text((72, 100), "A page that can be read.")

    assert one(pdf.tobytes(), ocr="off").metadata["warning"] == "1 of 2 pages have no text layer: 1"


# ranges


def test_ranges_of_pages_give_what_one_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from chunkmill.io.parsers.pdf import ranges

    data = book(24).tobytes()
    serial = one(data, annotations=True)
    monkeypatch.setattr(ranges, "LARGE", 10)
    monkeypatch.setattr(ranges, "_LEAST", 8)
    monkeypatch.setattr(ranges.os, "sched_getaffinity", lambda _: {0, 1, 2})

    assert one(data, annotations=True) == serial


def test_a_page_that_kills_its_process_is_the_only_one_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from chunkmill.io.parsers.pdf import ranges
    from chunkmill.io.parsers.pdf.sheets import Options, opened, sheets

    data = book(12).tobytes()
    pdf = opened(data, "pymupdf")

    def child(data: bytes, pages: range, options: Options) -> object:
        return None if 7 in pages else list(sheets(pdf, pages, options))

    monkeypatch.setattr(ranges, "_child", child)

    found = ranges.all_sheets(data, pdf, Options(ocr="off"), processes=1 + 1)

    assert [sheet.number for sheet in found] == list(range(1, 13))
    assert [sheet.number for sheet in found if sheet.state == "damaged"] == [8]


# whatever the bytes


@pytest.mark.parametrize("seed", range(6))
def test_mutated_files_are_documents_or_document_errors(engine: str, seed: int) -> None:
    pdf = book(3)
    grid(pdf[0], [["Name", "Price"], ["Bolt", "3"]], y=300)
    data = pdf.tobytes(deflate=False)
    chance = random.Random(seed)
    for _ in range(12):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 30)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        cut = chance.choice([len(broken), chance.randrange(len(broken))])
        assert outcome(bytes(broken[:cut]), engine) in {"ok"} | KINDS


def outcome(data: bytes, engine: str) -> str:
    try:
        one(data, engine=engine)
    except DocumentError as error:
        return error.kind
    return "ok"


@needs_corpus
@pytest.mark.parametrize("name", ["multicolumn", "with-attachment", "habibi-rotated", "pdflatex-outline"])
def test_files_of_the_corpus_are_sound(engine: str, name: str) -> None:
    assert one((CORPUS / "open" / "pdf" / "sample-files" / f"{name}.pdf").read_bytes(), engine=engine).text


@needs_corpus
def test_a_scan_of_a_gigapixel_is_not_drawn() -> None:
    error = refused((CORPUS / "hostile" / "pdf" / "scan-35000px-jbig2.pdf").read_bytes(), ocr="auto")

    assert error.kind == "no_text"
