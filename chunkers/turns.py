"""Turns of a conversation: of a dialogue, a mail thread, subtitles."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.pack import pack
from chunkmill.chunkers.paragraph import Paragraph
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.seams import between
from chunkmill.chunkers.structure import SHARE
from chunkmill.chunkers.table import GAP

FEWEST = 2  # speakers' lines that make a dialogue
QUOTE = r"(?:[ \t]?>)*+[ \t]*+"
CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?(?:[ \u202f]?[AaPp]\.?[Mm]\.?)?"
STAMP = rf"(?:\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}},?[ T])?{CLOCK}Z?"
NAME = r"[^\W\d_][\w.'’()/#&-]{0,30}(?: [\w.'’()/#&-]{1,30}){0,3}"

CUE = re.compile(
    rf"^(?:[^\n>]{{1,100}}\n)?(?P<time>(?:\d+:)?\d{{2}}:\d{{2}}[.,]\d{{3}})[ \t]+-->[^\n]*+"
    rf"(?:\n(?:<v(?:\.[\w.]+)? (?P<voice>[^<>\n]{{1,60}})>|(?:- ?)?(?P<speaker>{NAME}):[ \t]))?",
    re.M,
)
SPOKEN = re.compile(
    rf"^[ \t]{{0,8}}(?:[-*] )?(?:\[(?P<t1>{STAMP})\]|\((?P<t2>{STAMP})\)|(?P<t3>{STAMP}))?(?:[ \t]*+[-–—])?[ \t]*+"
    rf"(?:<(?P<nick>[^\s<>]{{1,60}})>"
    rf"|(?:\*\*|__)?(?P<name>{NAME})(?:[ \t]?[(\[](?P<t4>{STAMP})[)\]])?(?:(?:\*\*|__)?[:：]|[:：](?:\*\*|__)))"
    r"(?=\s|[^\x00-\x7f]|\Z)",
    re.M,
)
MAILED = re.compile(
    rf"^{QUOTE}(?:"
    rf"On\b(?P<when>[^\n]{{4,200}}?)(?:\n{QUOTE}[^\n]{{0,200}}?)?\bwrote:[ \t\r]*$"
    r"|-{2,}[ \t]?(?:Original Message|Forwarded message|Urspr\u00fcngliche Nachricht|Message d'origine)[ \t]?-{2,}"
    r"|From [^\s@]{1,100}@\S{1,200} [^\n]{10,60}$"
    rf"|\*?From:\*?[ \t](?P<who>[^\n]{{1,300}})\n(?=(?:[^\n]{{1,400}}\n){{0,4}}?{QUOTE}\*?(?:Sent|Date|To|Subject):))",
    re.M,
)
AUTHOR = re.compile(r"(?:^|[,:] |\d )([^,:<>\d]{2,60}?)[ \t]*(?:<[^<>]*>[ \t]*)?$")
LINE = re.compile(rf"^(?P<quote>{QUOTE})[^\s][^\n]*+", re.M)


class Turn(NamedTuple):
    """Where a turn begins, who has it and when; "" where the text doesn't say."""

    start: int
    speaker: str = ""
    time: str = ""

    @property
    def label(self) -> str:
        """`Speaker (time)`, or the one that is known."""
        return f"{self.speaker} ({self.time})" if self.speaker and self.time else self.speaker or self.time


@dataclass(frozen=True, slots=True)
class Turns:
    """Whole turns, as many as fit; one that alone is over the limit is split at its strongest seams.

    A turn is what one speaker says (`Name: …`, `[12:01] Name: …`, `<name> …`), one mail of a thread or level of quoting, or
    one cue of SRT or VTT subtitles. `speakers`: each chunk has `Speaker (time)` of the turn it begins in as context. A text
    without turns is cut by paragraphs.
    """

    speakers: bool = False

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The packed turns, in order; what stands before the first one counts as one."""
        found = turns(doc.text)
        if not found:
            return Paragraph()(doc, budget)
        labels = [t.label if self.speakers else "" for t in found]
        budget, labels = _labelled(budget, found, labels)
        starts = [t.start for t in found]
        units = between(doc.text, starts, Span(0, len(doc.text)))
        spans = [s for packed in pack(units, budget) for s in split(doc.text, packed, budget)]
        at = (bisect_right(starts, s.start) - 1 for s in spans)
        return [Piece(s, context=labels[i] if i >= 0 else "") for s, i in zip(spans, at, strict=True)]


def _labelled(budget: Budget, found: Sequence[Turn], labels: Sequence[str]) -> tuple[Budget, list[str]]:
    """The budget beside the labels; one that takes more than a third of the room is dropped."""
    at, sizes, kept = [0], [budget.limit - budget.room(0)], list(labels)
    for i, turn in enumerate(found):
        room = budget.room(turn.start)
        head = Span(turn.start, min(budget.length, turn.start + len(labels[i]) + 20))
        units = (len(labels[i]) if budget.starts is None else budget.size(head)) + GAP if labels[i] else 0
        if units > room // SHARE:
            units, kept[i] = 0, ""
        at.append(turn.start)
        sizes.append(budget.limit - room + units)
    if not any(kept):
        return budget, kept
    return replace(budget, context_at=np.array(at, np.int64), context_size=np.array(sizes, np.int64)), kept


def turns(text: str) -> list[Turn]:
    """The turns of a conversation, in order; empty where the text isn't one. Subtitles, then mail, then dialogue."""
    return list(_cues(text)) or _mails(text) or _dialogue(text)


def _cues(text: str) -> Iterator[Turn]:
    for cue in CUE.finditer(text):
        yield Turn(cue.start(), (cue["voice"] or cue["speaker"] or "").strip(), cue["time"])


def _mails(text: str) -> list[Turn]:
    """The mails of a thread: behind attributions, separators and headers, and where the depth of quoting changes."""
    heads = {m.start(): m for m in MAILED.finditer(text)}
    if not heads:
        return []
    found: list[Turn] = []
    depth, headed, announced = 0, -1, False  # `announced`: the line before is a separator, and belongs to the header below
    for line in LINE.finditer(text):
        start, deep = line.start(), line["quote"].count(">")
        if start < headed:
            continue
        if head := heads.get(start):
            mail = _mail(head)
            found.append(mail._replace(start=found.pop().start) if announced else mail)
            depth, headed, announced = -1, head.end(), not head["when"] and not head["who"]
            continue
        if deep != depth and depth >= 0:
            found.append(Turn(start))
        depth, announced = deep, False
    return found


def _mail(head: re.Match[str]) -> Turn:
    line = " ".join((head["when"] or head["who"] or "").replace(">", "> ").split())
    author = AUTHOR.search(line)
    name = author[1].strip(" \"'") if author else ""
    when = line[: author.start(1)].rstrip(" ,") if head["when"] and author else ""
    return Turn(head.start(), name, when)


def _dialogue(text: str) -> list[Turn]:
    found = [
        Turn(m.start(), m["nick"] or m["name"], m["t1"] or m["t2"] or m["t3"] or m["t4"] or "") for m in SPOKEN.finditer(text)
    ]
    return found if len(found) >= FEWEST else []
