"""Records of JSON, JSON Lines, CSV and XML, found without parsing them: every piece is a slice of the source.

A text of that kind is a tree. All that is needed of it is where, at each depth, a child begins: its seams. Those of JSON
come from counting brackets outside strings, those of XML from counting tags, so nothing here knows a limit of depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import EMPTY, NOTHING, Budget, Document, Offsets, Piece, Span
from chunkmill.chunkers.pack import pack
from chunkmill.chunkers.recursive import split
from chunkmill.chunkers.seams import between
from chunkmill.chunkers.structure import SHARE
from chunkmill.chunkers.table import GAP, Table, beside, delimited

KEY = re.compile(r'\s*"((?:[^"\\]|\\.)*+)"\s*:', re.S)
PLAIN_KEY = re.compile(r"[^\W\d]\w*")
BETWEEN = re.compile(r"[\s,\ufeff]*+")
LONGEST_KEY, MOST_STEPS = 200, 20
TAG = re.compile(
    r"<!--(?:.*?-->|.*)|<!\[CDATA\[(?:.*?\]\]>|.*)|<\?(?:.*?\?>|.*)|<![^<>]*+>"
    r"|<(?P<close>/?)(?P<name>[^\W\d][\w:.-]*+)(?:[^<>\"'/]++|/(?!>)|\"[^\"]*+\"|'[^']*+')*+(?P<empty>/?)>",
    re.S,
)
MARKS = [ord(c) for c in "{}[],"]


class Tree(NamedTuple):
    """A text as a tree: where the children begin, ordered by depth, then offset; `bounds[d]` is the first one of depth d.

    Depth 0 are the values of the text itself. The first child of a JSON value is taken to begin behind the bracket.
    """

    starts: Offsets
    bounds: Offsets
    is_json: bool

    def at(self, depth: int) -> Offsets:
        """Where the children at this depth begin, in order."""
        return self.starts[self.bounds[depth] : self.bounds[depth + 1]] if depth < len(self.bounds) - 1 else EMPTY


class Step(NamedTuple):
    """One step of a path, `.key` or `[3]`, and its units."""

    text: str
    units: int


class Tile(NamedTuple):
    """A stretch to be cut: a child with what of its parents stands around it.

    `depth` is that of the children in it; `path` its own path (the innermost steps); `context` what it begins in.
    """

    span: Span
    depth: int = 0
    path: tuple[Step, ...] = ()
    context: str = ""
    units: int = 0


@dataclass(frozen=True, slots=True)
class Records:
    """Records of JSON, JSON Lines, CSV or XML, as many as fit; one that is too long is cut between its members.

    What begins inside a JSON value has its path as context (`$.items[3].name`). Rows of CSV, and of any other table that a
    parser found, have their header, as the strategy `table` cuts them. `pack` False: one record a chunk (an element of an
    array, a line, a row, an XML element). Any other text is split at its strongest seams.
    """

    pack: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """Pieces of kind `record` (`table` for rows), in order."""
        budget = beside(budget, 0)
        whole = Span(0, len(doc.text))
        kinds = {b.kind for b in doc.blocks}
        tabular = "table" in kinds and "record" not in kinds
        if not tabular and (tree := json_tree(doc.text) or xml_tree(doc.text)):
            return list(_cut(doc.text, tree, budget, self.pack))
        if starts := [b.span.start for b in doc.blocks if b.kind == "record"]:
            units = between(doc.text, starts, whole)
            packed = pack(units, budget) if self.pack else units
            return [Piece(s, kind="record") for unit in packed for s in split(doc.text, unit, budget)]
        if tabular or delimited(doc):
            return Table(rows=None if self.pack else 1)(doc, budget)
        return [Piece(s) for s in split(doc.text, whole, budget)]


def _cut(text: str, tree: Tree, budget: Budget, packed: bool) -> Iterator[Piece]:
    """Depth first, with a stack of our own: what fits is packed with its neighbours, what doesn't is opened."""
    stack: list[Tile | Piece] = [Tile(_trimmed(text, 0, len(text)))]
    while stack:
        tile = stack.pop()
        if isinstance(tile, Piece):
            yield tile
        else:
            stack += reversed(_opened(text, tree, tile, budget, packed))


def _opened(text: str, tree: Tree, tile: Tile, budget: Budget, packed: bool) -> Sequence[Tile | Piece]:
    """The tile as one piece where it fits; else its children, packed, with those that don't fit as tiles."""
    span = tile.span
    children, depth, inner = _children(tree, tile)
    alone = not packed and len(children) > 1 and (depth == 0 or not _are_members(text, tree, int(children[0])))
    if beside(budget, tile.units).fits(span) and not (alone and tile.depth == 0):
        return [Piece(span, context=tile.context, kind="record")]
    path = _longer(text, tree, tile.path, range(tile.depth, depth), inner, budget)
    inside, units = _context(path, depth, budget.room(span.start) // SHARE)
    smaller = beside(budget, max(units, tile.units))
    if len(children) < 2:
        parts = split(text, span, smaller)
        return [Piece(s, context=inside if i else tile.context, kind="record") for i, s in enumerate(parts)]
    found: list[Tile | Piece] = []
    run: list[Span] = []

    def flush() -> None:
        packs = run if alone else pack(run, smaller)
        found.extend(Piece(s, context=inside if s.start > span.start else tile.context, kind="record") for s in packs)
        run.clear()

    for a, b in pairwise([span.start, *children[1:].tolist(), span.end]):
        child = _trimmed(text, a, b)
        if smaller.fits(child):
            run.append(child)
            continue
        flush()
        own = _longer(text, tree, path, range(depth, depth + 1), max(a, int(children[0])), budget)
        front = (tile.context, tile.units) if a == span.start else (inside, units)
        found.append(Tile(child, depth + 1, own, *front))
    flush()
    return [f for f in found if f.span.start < f.span.end]


def _children(tree: Tree, tile: Tile) -> tuple[Offsets, int, int]:
    """Where the children of a tile begin, how deep, and where the last value begins whose only child it passed through."""
    depth, inner = tile.depth, tile.span.start
    while True:
        starts = tree.at(depth)
        found = starts[starts.searchsorted(tile.span.start) : starts.searchsorted(tile.span.end)]
        if len(found) != 1:
            return found, depth, inner
        depth, inner = depth + 1, int(found[0])


def _trimmed(text: str, start: int, end: int) -> Span:
    """As `trim`, without copying the body: a deep value is trimmed once a level."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


def _are_members(text: str, tree: Tree, first: int) -> bool:
    """Whether the children of which this is the first are members of an object, with keys."""
    return tree.is_json and text[first - 1] == "{"


def _longer(text: str, tree: Tree, path: tuple[Step, ...], depths: range, offset: int, budget: Budget) -> tuple[Step, ...]:
    """The path with the steps at these depths to the value around the offset; the innermost ones of it. XML has none."""
    if not tree.is_json:
        return ()
    steps = (_step(text, tree, depth, offset, budget) for depth in depths[-MOST_STEPS:] if depth)
    return (*path, *steps)[-MOST_STEPS:]


def _step(text: str, tree: Tree, depth: int, offset: int, budget: Budget) -> Step:
    starts, parents = tree.at(depth), tree.at(depth - 1)
    at = int(starts.searchsorted(offset, "right")) - 1
    first = int(starts.searchsorted(parents[parents.searchsorted(starts[at], "right") - 1]))
    if not _are_members(text, tree, int(starts[first])):
        step = f"[{at - first}]"
        return Step(step, len(step))
    key = KEY.match(text, int(starts[at]), int(starts[at]) + LONGEST_KEY)
    if not key:
        return Step("", LONGEST_KEY)
    step = f".{key[1]}" if PLAIN_KEY.fullmatch(key[1]) else f'["{key[1]}"]'
    return Step(step, len(step) if budget.starts is None else budget.size(Span(*key.span(1))) + len(step) - len(key[1]))


def _context(path: Sequence[Step], depth: int, most: int) -> tuple[str, int]:
    """The path as a context, and its units. Over `most` it loses its outermost steps (`$..`). Empty for the root."""
    steps: list[str] = []
    units = GAP + len("$")
    for step in reversed(path):
        if not step.text or units + step.units > most:
            break
        steps.append(step.text)
        units += step.units
    if not steps:
        return "", 0
    root = "$" if len(steps) == depth - 1 else "$." if steps[-1].startswith(".") else "$.."
    return root + "".join(reversed(steps)), units + len(root) - 1


def json_tree(text: str) -> Tree | None:
    """The tree of JSON, of JSON Lines, or of values one behind another; None where brackets or strings don't close.

    Counts brackets and commas outside strings: a numpy pass, some 40 bytes of memory for a character.
    """
    if not text[:LONGEST_KEY].lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return None
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    quotes = _quotes(codes)
    marks = np.flatnonzero(np.isin(codes, MARKS))
    marks = marks[quotes.searchsorted(marks) % 2 == 0]
    kinds = codes[marks]
    opens, closes = (kinds == ord("{")) | (kinds == ord("[")), (kinds == ord("}")) | (kinds == ord("]"))
    depths = np.cumsum(opens.astype(np.int64) - closes)
    if len(quotes) % 2 or not len(marks) or depths[-1] or depths.min() < 0 or not _paired(kinds, depths, opens, closes):
        return None
    tops = marks[opens & (depths == 1)]
    if not _alone(text, tops, marks[closes & (depths == 0)]):
        return None
    inner = ~closes & (depths > 0)
    starts, depth = np.concatenate([tops, marks[inner] + 1]), np.concatenate([np.zeros_like(tops), depths[inner]])
    return _tree(starts, depth, is_json=True)


def _quotes(codes: npt.NDArray[np.uint32]) -> Offsets:
    """The quotes that open and close strings: those not behind an odd number of backslashes."""
    quotes = np.flatnonzero(codes == ord('"'))
    slashes = np.flatnonzero(codes == ord("\\"))
    if not len(slashes) or not len(quotes):
        return quotes
    first = np.concatenate([[True], np.diff(slashes) > 1])  # of a run
    run = slashes[np.maximum.accumulate(np.where(first, np.arange(len(slashes)), 0))]
    at = (slashes.searchsorted(quotes) - 1).clip(0)
    real: Offsets = quotes[(slashes[at] != quotes - 1) | ((quotes - run[at]) % 2 == 0)]
    return real


def _paired(
    kinds: npt.NDArray[np.uint32], depths: Offsets, opens: npt.NDArray[np.bool_], closes: npt.NDArray[np.bool_]
) -> bool:
    """Whether every bracket is closed by its like: at one depth, opening and closing ones alternate."""
    brackets = opens | closes
    order = np.argsort((depths + closes)[brackets], kind="stable")
    kinds = kinds[brackets][order]
    return bool((kinds[1::2] == kinds[::2] + 2).all())


def _alone(text: str, opened: Offsets, closed: Offsets) -> bool:
    """Whether nothing but white space and commas stands between the values of the text."""
    gaps = zip([0, *(closed + 1).tolist()], [*opened.tolist(), len(text)], strict=True)
    return all(BETWEEN.fullmatch(text, a, b) for a, b in gaps)


def xml_tree(text: str) -> Tree | None:
    """The tree of XML elements; None where a tag isn't closed, or text stands outside."""
    if not text[:LONGEST_KEY].lstrip("\ufeff \t\r\n").startswith("<"):
        return None
    starts: list[int] = []
    depths: list[int] = []
    names: list[str] = []
    outside = 0
    for tag in TAG.finditer(text):
        if not names and not BETWEEN.fullmatch(text, outside, tag.start()):
            return None
        name = tag["name"]
        if name and not tag["close"]:
            starts.append(tag.start())
            depths.append(len(names))
            names += [] if tag["empty"] else [name]
        elif name and (not names or names.pop() != name):
            return None
        outside = tag.end()
    if not starts or names or not BETWEEN.fullmatch(text, outside):
        return None
    return _tree(np.array(starts, np.int64), np.array(depths, np.int64), is_json=False)


def _tree(starts: Offsets, depths: Offsets, *, is_json: bool) -> Tree:
    order = np.argsort(depths, kind="stable")
    return Tree(starts[order], depths[order].searchsorted(np.arange(int(depths.max()) + 2)), is_json)
