"""Facts about real files, judged on what a dataset holds of them: text, blocks, metadata, symbols of code."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.base import Block, Document
from chunkmill.chunkers.structure import outline

Fact = Mapping[str, Any]
QUOTES = str.maketrans("‘’‚“”„", "'''\"\"\"")
CODECS = {  # what else is right: encodings that hold the named one
    "iso-8859-1": {"latin-1", "cp1252"},
    "iso-8859-7": {"cp1253"},
    "iso-8859-8": {"cp1255"},
    "iso-8859-9": {"cp1254"},
    "us-ascii": {"ascii", "utf-8"},
    "shift-jis": {"cp932"},
    "gb2312": {"gbk", "gb18030"},
}


@dataclass(frozen=True)
class Held:
    """What a dataset holds of one source: its documents in order, and the dataset's other sources to compare with."""

    documents: list[Document]
    statuses: list[str]
    kinds: list[str | None]
    others: Callable[[str], Held]

    @property
    def text(self) -> str:
        return "\n".join(d.text for d in self.documents)

    @property
    def blocks(self) -> list[tuple[Document, Block]]:
        return [(d, b) for d in self.documents for b in d.blocks]

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.documents[0].metadata if self.documents else {}


def same(text: str) -> str:
    """A text as a reader compares it: white space, quotes and compatibility forms don't count."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(QUOTES).split())


def judge(fact: Fact, held: Held) -> bool:
    """Whether the fact holds."""
    return JUDGES[fact["assertion"]](fact, held)


def contains(fact: Fact, held: Held) -> bool:
    return same(fact["value"]) in same(held.text)


def order(fact: Fact, held: Held) -> bool:
    text, at = same(held.text), 0
    for part in fact["value"]:
        at = text.find(same(part), at)
        if at < 0:
            return False
    return True


def found(held: Held, wanted: str) -> list[tuple[Document, int]]:
    """Where the wanted text begins, in each document that has it; white space may differ."""
    pattern = re.compile(r"\s+".join(map(re.escape, wanted.translate(QUOTES).split())))
    return [(d, m.start()) for d in held.documents for m in pattern.finditer(d.text.translate(QUOTES))]


def page_of(fact: Fact, held: Held) -> bool:
    def page(doc: Document, at: int) -> int | None:
        return next((b.page for b in doc.blocks if b.span.end > at), None)

    return any(page(doc, at) == fact["page"] for doc, at in found(held, fact["value"]))


def page_count(fact: Fact, held: Held) -> bool:
    return held.metadata.get("pages") == str(fact["value"])


def heading_path_of(fact: Fact, held: Held) -> bool:
    wanted = [same(h) for h in fact["heading_path"]]
    for doc, at in found(held, fact["value"]):
        path = [same(h) for h in outline(doc).of(doc.text, at, at + 1)]
        if path[-len(wanted) :] == wanted:
            return True
    return False


def headings(fact: Fact, held: Held) -> bool:
    have = [(b.level, same(b.title or d[b.span])) for d, b in held.blocks if b.kind == "heading"]
    want = [(level, same(title).replace("`", "")) for level, title in fact["value"]]  # a title is plain text here
    if fact.get("match") == "prefix":
        return have[: len(want)] == want
    return not Counter(want) - Counter(have) if fact.get("match") == "subset" else have == want


def not_heading(fact: Fact, held: Held) -> bool:
    titles = [b.title or d[b.span] for d, b in held.blocks if b.kind == "heading"]
    return not any(fact["value"].strip("→") == title.strip() for title in titles)


def table_row(fact: Fact, held: Held) -> bool:
    want = [same(cell) for cell in fact["value"]]
    rows = [same(doc[part]) for doc, block in held.blocks if block.kind == "table" for part in block.parts]
    return any(all(cell in row for cell in want) and row.index(want[0]) <= row.rindex(want[-1]) for row in rows)


def header(fact: Fact, held: Held) -> bool:
    first = next((d[b.parts[0]] for d, b in held.blocks if b.kind == "table" and b.parts), "")
    cells = [cell.strip().strip('"') for cell in re.split(r" \| |[,;\t]", first)]
    return cells[: len(fact["value"])] == fact["value"]


def columns(fact: Fact, held: Held) -> bool:
    have = set(held.metadata) | {line.partition(":")[0] for line in held.text.split("\n")}
    return all(name in have or name == "text" for name in fact["value"])


def count(fact: Fact, held: Held) -> bool:
    what, want = fact["what"], fact["value"]
    if quoted := re.fullmatch(r'occurrences of "(.*)"', what):
        return same(held.text).count(same(quoted[1])) == want
    return want in COUNTS[what](held)


def _rows(held: Held) -> set[int]:
    tables = [b for _, b in held.blocks if b.kind == "table"]
    return {sum(len(b.parts) for b in tables) - len(tables), sum(len(b.parts) for b in tables[:1]) - 1}


def _told(*names: str) -> Callable[[Held], set[int]]:
    return lambda held: {int(held.metadata[name]) for name in names if held.metadata.get(name, "").isdigit()}


COUNTS: Mapping[str, Callable[[Held], set[int]]] = {
    "data rows (without header)": _rows,
    "slides": _told("slides", "pages"),
    "spine items": _told("spine_items", "chapters", "pages"),
    "cells": _told("cells"),
    "records": lambda held: {len(held.documents), sum(b.kind == "record" for _, b in held.blocks), *_told("records")(held)},
    "rows": lambda held: {len(held.documents)},
    "lines": lambda held: {held.text.count("\n"), held.text.count("\n") + 1},
}


def encoding(fact: Fact, held: Held) -> bool:
    have = held.metadata.get("encoding", "").replace("_", "-").lower()
    want = fact["value"].replace("_", "-").lower()
    return have == want or have in CODECS.get(want, ()) or have.replace("-", "") == want.replace("-", "")


def no_text(fact: Fact, held: Held) -> bool:
    return held.kinds == ["no_text"]


def _line_of(doc: Document, offset: int) -> int:
    return len(re.findall(r"\r\n|\r|\n", doc.text[:offset])) + 1


def line_of(fact: Fact, held: Held) -> bool:
    return any(_line_of(doc, at) == fact["line"] for doc, at in found(held, fact["value"]))


def symbol_at(fact: Fact, held: Held) -> bool:
    (doc,) = held.documents
    starts = [0, *accumulate(len(line) for line in re.split(r"(?<=\n)", doc.text))]
    at = starts[fact["line"] - 1]
    at += len(doc.text[at:]) - len(doc.text[at:].lstrip())
    want = fact["value"].split(".")
    for piece in chunk(doc, "code", size=256, overlap=0):
        if piece.start <= at < piece.end:
            path = [name for step in piece.heading_path for name in re.split(r"\.|::", step)]
            return path[-len(want) :] == want or want[-1] in piece.text
    return False


def sheet_states(fact: Fact, held: Held) -> bool:
    known = held.metadata.get("sheets", "") + held.metadata.get("sheet_states", "") + held.metadata.get("hidden_sheets", "")
    return all(name in known for name, state in fact["value"].items() if state != "visible")


def json_value(fact: Fact, held: Held) -> bool:
    value: Any = json.loads(held.text)
    for key in fact["pointer"].strip("/").split("/"):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return bool(value == fact["value"])


def same_text_as(fact: Fact, held: Held) -> bool:
    return same(held.text) == same(held.others(fact["value"]).text)


def near_duplicate_of(fact: Fact, held: Held) -> bool:
    words, others = (same(h.text).split()[:3000] for h in (held, held.others(fact["value"])))
    return SequenceMatcher(None, words, others, autojunk=False).ratio() > 0.8


JUDGES: Mapping[str, Callable[[Fact, Held], bool]] = {
    "contains": contains,
    "not_contains": lambda fact, held: not contains(fact, held),
    "order": order,
    "page_of": page_of,
    "page_count": page_count,
    "heading_path_of": heading_path_of,
    "headings": headings,
    "not_heading": not_heading,
    "table_row": table_row,
    "header": header,
    "columns": columns,
    "count": count,
    "encoding": encoding,
    "no_text": no_text,
    "line_of": line_of,
    "symbol_at": symbol_at,
    "sheet_states": sheet_states,
    "json_value": json_value,
    "same_text_as": same_text_as,
    "near_duplicate_of": near_duplicate_of,
}
