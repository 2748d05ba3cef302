"""Levels: small pieces to find, the larger ones around them to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

from chunkmill.chunkers.base import EMPTY, Budget, Chunker, Document, Noted, Piece, Plan, Span
from chunkmill.chunkers.drive import pieces_of
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.finish import Chunking
from chunkmill.chunkers.fixed import Fixed
from chunkmill.chunkers.limit import bounded
from chunkmill.chunkers.llm import merged
from chunkmill.chunkers.recursive import Recursive
from chunkmill.chunkers.section import Section
from chunkmill.chunkers.sentence import Sentence
from chunkmill.chunkers.stretch import cut, narrowed, together, whole


class Level(NamedTuple):
    """A strategy and the most units one of its pieces may hold, special tokens included.

    `overlap`: of the last level, between pieces of one parent.
    """

    strategy: Chunker
    size: int
    overlap: int = 0


LEVELS = (Level(Section(), 2048), Level(Recursive(), 512), Level(Sentence(), 128))


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Pieces inside pieces: every level cuts each piece of the one above it, and is never larger or across two of them.

    `levels`: outermost first; the last one gives the leaves (level 0), whose size is at most that of the job. `preset:
    parent_child` are windows of `parent_size` units, and in each windows of `child_size` that share `child_overlap`. The
    overlap is the levels' own; the job's is not used. A level holds its size by an exact count of what stands in its pieces
    (but for a grapheme cluster that alone has more): the headings of `context` come on top, within the job's size.
    """

    levels: tuple[Level, ...] = LEVELS
    preset: Literal["", "parent_child"] = ""
    parent_size: int = 1000
    child_size: int = 200
    child_overlap: int = 20

    overlaps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.chosen:
            raise ConfigError("chunk.levels is empty; give one or more of {strategy: …, size: …}, outermost first")
        if self.preset and self.levels != LEVELS:
            raise ConfigError(f"chunk.preset is {self.preset!r}, which is levels too, and chunk.levels is given; drop one")
        if not self.preset and (self.parent_size, self.child_size, self.child_overlap) != (1000, 200, 20):
            raise ConfigError("chunk.parent_size, child_size and child_overlap are those of `preset: parent_child`; add it")
        names = ("parent", "child") if self.preset else range(len(self.levels))
        keys = [f"chunk.{name}_" if self.preset else f"chunk.levels[{name}]." for name in names]
        for key, level in zip(keys, self.chosen, strict=True):
            _check(key, level, leaf=key is keys[-1])
        for (above, outer), (key, inner) in pairwise(zip(keys, self.chosen, strict=True)):
            if inner.size > outer.size:
                raise ConfigError(f"{key}size is {inner.size}, and {above}size is {outer.size}; the larger one is outside")

    @property
    def chosen(self) -> tuple[Level, ...]:
        """The levels, outermost first."""
        if not self.preset:
            return self.levels
        return Level(Fixed(), self.parent_size), Level(Fixed(), self.child_size, self.child_overlap)

    @property
    def needs(self) -> frozenset[type]:
        """What any of the levels asks for."""
        return frozenset().union(*(level.strategy.needs for level in self.chosen))

    def __call__(self, doc: Document, budget: Budget) -> Plan:
        """The pieces of all levels, parents first, with what is to be said of any level."""
        pieces: list[Piece] = []
        notes: list[Mapping[str, str]] = []
        spans = [Span(0, len(doc.text))]
        for depth, level in enumerate(self.chosen):
            number = len(self.chosen) - 1 - depth
            held: Any = partial(_held, level, len(doc.text))
            parts = yield from together([cut(held, doc, _budget(budget, level, number), span) for span in spans])
            notes += [part.notes for part in parts if isinstance(part, Noted)]
            found = [p._replace(level=number) for part in parts for p in part]
            pieces += found
            spans = [p.span for p in found]
        return Noted(pieces, merged(notes)) if notes else pieces


def _held(level: Level, length: int, doc: Document, budget: Budget) -> Plan:
    """The pieces of a level in one stretch of a text of this length, each within the level's size by an exact count.

    The stretch is encoded anew: as a text of its own it may have other tokens at its ends.
    """
    if budget.unit and len(doc.text) < length:
        budget = replace(budget, starts=budget.unit.starts(doc.text))
    pieces = yield from pieces_of(level.strategy, doc, budget)
    found = _exactly(level, doc.text, whole(doc.text, pieces), budget)
    return Noted(found, pieces.notes) if isinstance(pieces, Noted) else found


def _exactly(level: Level, text: str, pieces: Sequence[Piece], budget: Budget) -> list[Piece]:
    written = [p for p in pieces if p.text or p.parts]
    if budget.unit is None or len(written) == len(pieces):
        return list(pieces)
    size = budget.limit + budget.unit.specials
    shared = Chunking(level.strategy, size, min(level.overlap, size - 1), budget.unit)
    done, _ = bounded(text, [p for p in pieces if not (p.text or p.parts)], shared, budget)
    done = whole(text, done)
    return sorted([*done, *written], key=lambda p: p.span) if written else done


def _budget(budget: Budget, level: Level, number: int) -> Budget:
    """The limit of a level: its own. That of the leaves is at most the job's, less their context; parents carry none."""
    limit = level.size - (budget.unit.specials if budget.unit else 0)
    if limit < 1:
        raise ConfigError(
            f"the size of a level is {level.size}, and the model's special tokens leave nothing of it for the text"
        )
    if number:
        return replace(budget, limit=limit, fill=limit, context_at=EMPTY, context_size=EMPTY)
    limit = min(limit, budget.limit)
    return replace(narrowed(budget, limit), fill=limit - min(level.overlap, limit - 1))


def _check(key: str, level: Level, leaf: bool) -> None:
    if level.size < 1:
        raise ConfigError(f"{key}size is {level.size}; it must be 1 or more")
    if not 0 <= level.overlap < level.size:
        raise ConfigError(f"{key}overlap is {level.overlap}; it must be 0 or more, and less than the size of {level.size}")
    if level.overlap and not (leaf and getattr(level.strategy, "overlaps", False)):
        raise ConfigError(f"{key}overlap is {level.overlap}; only the last level overlaps, and only with windows (`fixed`)")
    if getattr(level.strategy, "gather", False):
        raise ConfigError(f"{key}gather puts together what stands apart, and a level is a stretch of the text; leave it out")
    if getattr(level.strategy, "fit", "") == "corpus":
        raise ConfigError(f"{key}fit is 'corpus'; topics of a corpus are for the strategy `topic` alone")
    if isinstance(level.strategy, Hierarchical):
        raise ConfigError(f"{key}strategy is hierarchical itself; list its levels here instead")
