"""Write the PDFs of the example corpus, the same bytes each time: `python examples/make_pdf.py`."""

from __future__ import annotations

from pathlib import Path

import pymupdf

REPORTS = Path(__file__).parent / "corpus" / "reports"
PAGE = pymupdf.paper_rect("a4")
MARGIN = 64.0
BODY, LEADING = 11.0, 1.35
SIZES = {"#": 22.0, "##": 15.0, "": BODY}
FONTS = {"#": "hebo", "##": "hebo", "": "helv"}
TITLE = "Harrow Point Station: report for the year 2023"
DAMAGED_BYTES = 500  # ends before the first page is described

PAGES = (
    """
# Harrow Point Station: report for the year 2023

This report is for the board of the Sarn Sound lights. It says how the light, the fog signal and the weather service
did in 2023, what was spent, and what we ask for.

## Summary

The light was out for five minutes in the whole year, once, in October. The fog signal sounded for 412 hours. Of 2,920
weather reports due, 2,911 were sent on time. Nobody was hurt. The supply boat missed one call, in January, and came
nine days late.

## The light

The only failure was on the night of 11 October, when the main lamp went dark and the changer stuck because of a
broken spring. The keeper turned it by hand, and the standby lamp was burning within the ten minutes we promise. The
spring was thirty years old. All six springs have been replaced, and a set of spares now hangs beside the changer.

The bearing of the lens was flushed and refilled in April. The lens turned by hand for one night meanwhile, and no
ship remarked on it.

## The fog signal

May was the foggiest month on record, with 131 hours of sound. The trumpet rusts where spray collects under the bell.
A drain of bronze would end this.
""",
    """
## The weather service

Nine reports were missed: six while the tower was without power after the lightning of 30 July, and three through
illness. None has been filled in afterwards. The table gives the year by quarter.

|

The strongest gust, 71 knots, came on 14 January. The wettest day was 5 September with 41.2 millimetres. Rain for the
year was a tenth above the mean of the last twenty years, and the sea was nearly one degree warmer.

## Visitors

We had 1,326 guests on 37 open days. Eleven days were lost to swell. The new handrail on the lower steps was praised
more often than the lens.
""",
    """
## Money

The station cost 214,600 crowns, which is 3,100 less than granted. Diesel was the largest part after wages. The solar
panels on the south wall, in their first full year, saved about 900 litres of it.

## What we ask for in 2024

First, a bronze drain for the fog trumpet, at 4,800 crowns. Second, a new battery bank for the light: the present one
holds only seven tenths of what it held when new, and would not carry the lamp through a December night if the engine
failed. Third, a second thermometer screen, so that the old one can be painted without a gap in the record.

Ines Calder, head keeper
""",
)
QUARTERS = (
    ("Quarter", "Mean air temp. (°C)", "Rain (mm)", "Fog (hours)", "Gale days"),
    ("January to March", "5.1", "268", "22", "19"),
    ("April to June", "9.9", "141", "247", "4"),
    ("July to September", "14.6", "236", "96", "3"),
    ("October to December", "8.3", "331", "47", "16"),
)


def report() -> bytes:
    """The yearly report: a page per entry of PAGES, with the table where a paragraph is a bar."""
    pdf = pymupdf.open()
    for source in PAGES:
        page, y = pdf.new_page(width=PAGE.width, height=PAGE.height), MARGIN
        for paragraph in source.strip().split("\n\n"):
            y = table(page, y) if paragraph == "|" else written(page, y, paragraph)
    pdf.set_metadata({"title": TITLE, "author": "Ines Calder"})  # no dates
    return bytes(pdf.tobytes(garbage=3, deflate=True, no_new_id=True))


def written(page: pymupdf.Page, y: float, paragraph: str) -> float:
    """Draw a heading or paragraph below `y`; where the next one may begin."""
    mark, _, title = paragraph.partition(" ") if paragraph.startswith("#") else ("", "", paragraph)
    size, text = SIZES[mark], " ".join(title.split())
    y += size * 0.6 if mark else 0
    box = pymupdf.Rect(MARGIN, y, PAGE.width - MARGIN, PAGE.height - MARGIN)
    left = page.insert_textbox(box, text, fontsize=size, fontname=FONTS[mark], lineheight=LEADING)
    if left < 0:
        raise ValueError(f"the page is full at {text[:40]!r}; move a paragraph to the next entry of PAGES")
    return float(box.y1 - left + BODY * 0.7)


def table(page: pymupdf.Page, y: float) -> float:
    """Draw QUARTERS as a ruled table below `y`; where the next paragraph may begin."""
    height, width = 24.0, (PAGE.width - 2 * MARGIN) / len(QUARTERS[0])
    shape = page.new_shape()
    for number, row in enumerate(QUARTERS):
        for column, cell in enumerate(row):
            left, top = MARGIN + column * width, y + number * height
            shape.draw_rect(pymupdf.Rect(left, top, left + width, top + height))
            shape.insert_text((left + 5, top + 15), cell, fontsize=8.5, fontname=FONTS["#" if number == 0 else ""])
    shape.finish(width=0.6)
    shape.commit()
    return y + len(QUARTERS) * height + BODY


if __name__ == "__main__":
    whole = report()
    (REPORTS / "report-2023.pdf").write_bytes(whole)
    (REPORTS / "damaged.pdf").write_bytes(whole[:DAMAGED_BYTES])
