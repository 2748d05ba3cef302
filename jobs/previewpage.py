"""A preview as a page: the text of each document with its chunks over it, one column a cut, and the pages of a PDF beside it.

Text is laid in rows that all columns share, so that the same text stands at the same height. Each stretch of text knows the
chunks that hold it; the page's script shows what is known of them.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chunkmill.chunkers.base import Document, Span
from chunkmill.chunkers.finish import Chunk
from chunkmill.chunkers.structure import pages as paged
from chunkmill.io.facsimile import Facsimile, Placed, facsimiles, lines, placed
from chunkmill.jobs.charts import binned, histogram
from chunkmill.jobs.pages import counted, data, escape, grid, marked, page, shown
from chunkmill.jobs.preview import EMPTY, Cut, Seen, facts, more, repeated, settings, shared, unit
from chunkmill.jobs.previewstyle import SCRIPT, STYLE

ROW = 2_500  # characters in a row where the document has no pages
MOST_ROW = 2 * ROW  # where no line ends
HELD = 6  # chunks that a stretch of text names; a window that slides by little has it in hundreds
LISTED = 5_000  # chunks in the table below the text
COLOURS = 4
EVEN = ("code", "csv", "json", "jsonl", "xlsx", "ods", "notebook")  # formats shown in type of one width


class Stretch(NamedTuple):
    """Text that the same chunks hold: their indices among the leaves."""

    start: int
    end: int
    held: tuple[int, ...]


def html(seen: Sequence[Seen], pages: int) -> str:
    """The page; of a PDF the first `pages` pages are drawn."""
    known: list[Any] = []
    body = [part for nth, s in enumerate(seen) for part in _document(s, f"d{nth}", pages, known, single=len(seen) == 1)]
    if seen and not seen[-1].last:
        body.append(f"<p class=soft>{escape(more(len(seen)))}</p>")
    title = f"Preview of {seen[0].uri.rpartition('/')[2]}" if seen else "Preview"
    head = (
        f"<header><h1>{escape(title)}</h1>{_legend(any(c.level for s in seen for cut in s.cuts for c in cut.chunks))}</header>"
    )
    return page(title, [head, "<main>", *body, "</main>", PANEL, data("chunks", known)], style=STYLE, script=SCRIPT)


PANEL = (
    "<aside id=panel hidden aria-live=polite><div id=held></div><div class=keys>"
    "<button type=button id=back>← before</button><button type=button id=on>after →</button>"
    "<button type=button id=close>close</button></div></aside>"
)


def _legend(parents: bool) -> str:
    larger = " <span><b class=p>7</b> where the larger chunk 7 begins</span>" if parents else ""
    return (
        "<p class=legend><span><i class=c0></i><i class=c1></i><i class=c2></i><i class=c3></i> one chunk after another</span> "
        "<span><i class='c0 twice'></i> text that two chunks hold (overlap)</span> "
        f"<span><b class=n>7</b> where chunk 7 begins</span>{larger} <span><b class=x>U+202E</b> a hidden character</span></p>"
        "<p class='soft small'>Point at a chunk to see its size, headings and place; click to hold it; ← and → go on.</p>"
    )


def _document(seen: Seen, name: str, pages: int, known: list[Any], *, single: bool) -> Iterator[str]:
    doc = seen.cuts[0].doc
    yield f"<h2{' class=first' if single else ''}>{escape(seen.uri)}</h2>"
    yield f"<p class='soft small'>{escape(seen.format)} · {len(doc.text):,} characters{_in_common(seen.cuts)}</p>"
    titles = [
        f"{letter}: {settings(cut.job)}" if len(seen.cuts) > 1 else settings(cut.job) for letter, cut in lettered(seen.cuts)
    ]
    yield f"<div class=halves>{''.join(map(_card, titles, seen.cuts))}</div>"
    sheets = facsimiles(seen.data, pages) if seen.format == "pdf" and seen.data and pages else []
    if doc.text.strip():
        names = [f"{name}{letter.lower()}" for letter, _ in lettered(seen.cuts)]
        known += [_known(cut, key) for cut, key in zip(seen.cuts, names, strict=True)]
        yield from _columns(seen, titles, names, sheets)
        yield from map(_list, titles, names, seen.cuts)


def lettered(cuts: Sequence[Cut]) -> Iterator[tuple[str, Cut]]:
    """The columns and what they are called."""
    return zip("AB", cuts, strict=False)


def _in_common(cuts: Sequence[Cut]) -> str:
    return f" · {shared(*cuts):,} boundaries in common" if len(cuts) == 2 else ""


def _card(title: str, cut: Cut) -> str:
    """Settings, numbers and the sizes of a cut."""
    f = facts(cut)
    lead = f"<section class=card><h3>{escape(title)}</h3>"
    if cut.error:
        return f"{lead}<p class=failed>Failed, {escape(cut.error)}</p></section>"
    if not cut.chunks:
        return f"{lead}<p>{escape(EMPTY.capitalize())}.</p></section>"
    words = [
        counted(f["number"], "chunk"),
        f"{f['min']:,} to {f['max']:,}, mean {f['mean']:,}",
        f"{f['full']:.0%} of the limit",
    ]
    words += [f"{f['repeated']:.0%} repeated"] if f["repeated"] else []
    words += [counted(f["parents"], "larger chunk") + " above"] if f["parents"] else []
    why = f"<p class='small'>Why: {escape(cut.why)}</p>" if cut.why else ""
    chart = histogram(binned(cut.sizes, f["limit"]), "chunk", unit(cut.job), f["limit"])
    return f"{lead}<p class=small>{escape(' · '.join(words))}</p>{why}{chart}</section>"


# The text


def _columns(seen: Seen, titles: Sequence[str], names: Sequence[str], sheets: Sequence[Facsimile]) -> Iterator[str]:
    cuts, doc = seen.cuts, seen.cuts[0].doc
    alike = all(cut.doc.text == doc.text for cut in cuts)
    rows = _rows(doc) if alike else {0: Span(0, max(len(c.doc.text) for c in cuts))}
    words: dict[int, list[Placed]] = {}
    for word in placed(doc.text, rows, sheets):
        words.setdefault(word.page, []).append(word)
    drawn = {sheet.number: sheet for sheet in sheets}
    kind = f"columns n{len(cuts)}{' drawn' if sheets else ''}{' even' if seen.format in EVEN else ''}"
    yield f'<div class="{kind}">'
    if len(cuts) > 1:
        heads = "".join(f"<div>{escape(title)}</div>" for title in titles)
        yield f"<div class='row heads'>{'<div></div>' if sheets else ''}{heads}</div>"
    texts = [_Text(cut, name) for cut, name in zip(cuts, names, strict=True)]
    for number, span in rows.items():
        side = _side(drawn.get(number), number, texts[0], words.get(number, [])) if sheets else ""
        yield f"<div class=row>{side}{''.join(f'<div class=text>{t.html(span)}</div>' for t in texts)}</div>"
    yield "</div>"


def _rows(doc: Document) -> dict[int, Span]:
    """The text in rows by number: its pages, or else stretches that end where a line does."""
    pages = paged(doc.blocks)
    if pages.numbers:
        firsts: dict[int, int] = {}
        for start, number in zip(pages.starts, pages.numbers, strict=True):
            if number > max(firsts, default=0):
                firsts[number] = start
        starts = [0, *list(firsts.values())[1:]]
        return {n: Span(a, b) for n, a, b in zip(firsts, starts, [*starts[1:], len(doc.text)], strict=True)}
    edges = [*_edges(doc.text)]
    return {i: Span(a, b) for i, (a, b) in enumerate(itertools.pairwise(edges))}


def _edges(text: str) -> Iterator[int]:
    at = 0
    while at < len(text):
        yield at
        paragraph = text.rfind("\n\n", at + ROW // 2, at + ROW)
        line = text.find("\n", at + ROW, at + MOST_ROW) + 1 or text.find(" ", at + ROW, at + MOST_ROW) + 1
        at = paragraph + 2 if paragraph > 0 else line or at + MOST_ROW
    yield len(text)


class _Text:
    """The text of a cut as HTML, any part of it."""

    def __init__(self, cut: Cut, name: str) -> None:
        self.text, self.name, self.leaves = cut.doc.text, name, cut.leaves
        self.stretches = stretches(len(self.text), [c.ranges for c in self.leaves])
        self.ends = [s.end for s in self.stretches]
        self.parents = sorted((c for c in cut.chunks if c.level), key=lambda c: (c.start, -c.level))
        self.begins = [c.start for c in self.parents]

    def html(self, span: Span) -> str:
        """What stands in the span."""
        first, last = bisect_right(self.ends, span.start), bisect_left(self.ends, span.end)
        return "".join(self._stretch(s, span) for s in self.stretches[first : last + 1])

    def _stretch(self, s: Stretch, span: Span) -> str:
        start, end = max(s.start, span.start), min(s.end, span.end)
        flags = "".join(self._flag(i) for i in s.held if self.leaves[i].start == start)
        above = "".join(f"<b class=p>{p.ordinal + 1}</b>" for p in self._begin(start, end))
        text = marked(self.text[start:end])
        if not s.held:
            return above + text
        names = " ".join(f"{self.name}{self.leaves[i].ordinal}" for i in s.held[:HELD])
        twice = " twice" if len(s.held) > 1 else ""
        kind = f"k c{s.held[0] % COLOURS}{twice} {names}"
        return f'{above}<span class="{kind}" data-k="{names}">{flags}{text}</span>'

    def _begin(self, start: int, end: int) -> Sequence[Chunk]:
        return self.parents[bisect_left(self.begins, start) : bisect_left(self.begins, end)]

    def _flag(self, i: int) -> str:
        name, number = f"{self.name}{self.leaves[i].ordinal}", self.leaves[i].ordinal + 1
        return f'<a class=n id={name} href="#{name}" aria-label="chunk {number}">{number}</a>'


def stretches(length: int, chunks: Sequence[Sequence[Span]]) -> list[Stretch]:
    """The whole text in stretches, each with the chunks that hold it, in their order. Of each chunk the spans that it is."""
    begin: dict[int, list[int]] = {}
    finish: dict[int, list[int]] = {}
    for i, (start, end) in ((i, span) for i, spans in enumerate(chunks) for span in spans):
        begin.setdefault(start, []).append(i)
        finish.setdefault(end, []).append(i)
    edges = sorted({0, length, *begin, *finish})
    held: dict[int, None] = {}
    found = []
    for start, end in itertools.pairwise(edges):
        for i in finish.get(start, ()):
            held.pop(i, None)
        held |= dict.fromkeys(begin.get(start, ()))
        found.append(Stretch(start, end, tuple(held)))
    return found


# Pages of a PDF


def _side(sheet: Facsimile | None, number: int, text: _Text, words: Sequence[Placed]) -> str:
    if sheet is None:
        return f"<div class='sheet soft small'>Page {number} (not drawn)</div>"
    low, high = min((w.span.start for w in words), default=0), max((w.span.end for w in words), default=0)
    near = ((i, c) for i, c in enumerate(text.leaves) if any(a < high and low < b for a, b in c.ranges))
    boxes = "".join(_boxes(i, chunk, text, words) for i, chunk in near)
    return (
        f'<div class=sheet><svg viewBox="0 0 {sheet.width:.0f} {sheet.height:.0f}" role=img aria-label="page {number}">'
        f'<image width="{sheet.width:.0f}" height="{sheet.height:.0f}" href="data:image/png;base64,{_base64(sheet.png)}" />'
        f"{boxes}</svg><p class='soft small'>Page {number}</p></div>"
    )


def _base64(png: bytes) -> str:
    import base64

    return base64.b64encode(png).decode()


def _boxes(i: int, chunk: Chunk, text: _Text, words: Sequence[Placed]) -> str:
    """Those of a chunk among the words of a page."""
    held = chunk.ranges
    inside = [w for w in words if any(a <= w.span.start and w.span.end <= b for a, b in held)]
    name = f"{text.name}{chunk.ordinal}"
    return "".join(
        f'<rect class="k c{i % COLOURS} {name}" data-k="{name}" x={x0 - 1:.1f} y={y0:.1f} width={x1 - x0 + 2:.1f} '
        f"height={y1 - y0:.1f} />"
        for _, (x0, y0, x1, y1) in lines(inside)
    )


# What is known of chunks


def _known(cut: Cut, name: str) -> Mapping[str, Any]:
    """The chunks of a cut for the page's script: names are short because there may be many."""
    ordinals = {c.id: c.ordinal + 1 for c in cut.chunks if c.level}
    twice = {c.ordinal: n for c, n in zip(cut.leaves, repeated(cut.leaves), strict=True)}
    return {
        "name": name,
        "unit": unit(cut.job),
        "chunks": {c.ordinal: _values(cut, c, twice.get(c.ordinal, 0), ordinals) for c in cut.chunks},
    }


def _values(cut: Cut, chunk: Chunk, twice: int, parents: Mapping[str, int]) -> dict[str, str]:
    written = chunk.text if chunk.text != cut.doc.text[chunk.start : chunk.end] else ""
    found = {
        "Size": f"{chunk.n_tokens:,}",
        "Headings": " > ".join(chunk.heading_path),
        "Page": _page(chunk),
        "Characters": ", ".join(f"{start:,} to {end:,}" for start, end in chunk.ranges),
        "Repeats": f"its first {twice:,} characters" if twice else "",
        "Context": chunk.context,
        "Text": written,
        "Kind": chunk.kind if chunk.kind != "text" else "",
        "Part of": f"chunk {parents[chunk.parent_id]}" if chunk.parent_id in parents else "",
        "Id": chunk.id,
    }
    return {key: shown(value) for key, value in found.items() if value}


def _page(chunk: Chunk) -> str:
    numbers = sorted({p for p in (chunk.page_start, chunk.page_end) if p is not None})
    return "–".join(map(str, numbers))


def _list(title: str, name: str, cut: Cut) -> str:
    """All chunks as a table: for readers without a pointer, and to search in."""
    rows = (
        [
            f'<a href="#{name}{c.ordinal}">{c.ordinal + 1}</a>' if not c.level else f"{c.ordinal + 1} (level {c.level})",
            f"{c.n_tokens:,}",
            f"{c.start:,}–{c.end:,}",
            _page(c),
            escape(" > ".join(c.heading_path)),
            escape(" ".join(c.text[:160].split())[:90]),
        ]
        for c in cut.chunks[:LISTED]
    )
    heads = ("chunk", "size", "characters", "page", "headings", "begins with")
    more = f"the first {LISTED:,} of {len(cut.chunks):,}" if len(cut.chunks) > LISTED else f"all {len(cut.chunks):,}"
    head = f"<summary>Chunks as a table ({more}): {escape(title)}</summary>"
    return f"<details>{head}{grid(heads, rows, numbers=(1, 2, 3))}</details>"
