"""Source code, cut along its syntax tree: definitions stay whole, with the comments and decorators above them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from itertools import chain, count, pairwise, takewhile
from time import thread_time
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import numpy as np
import regex

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.presets import LINES, NAMES, PRESETS
from chunkmill.chunkers.recursive import TEXT, split
from chunkmill.chunkers.seams import cluster_start

if TYPE_CHECKING:
    from tree_sitter import Node
    from tree_sitter_language_pack import SupportedLanguage

Path = tuple[str, ...]

_LANGUAGES = """
bash c cpp csharp css dockerfile elixir erlang fish fortran go groovy haskell hcl java javascript kotlin
lua make nim objc ocaml php powershell proto python r ruby rust scala scss sql swift toml tsx typescript zig
"""
GRAMMARS = frozenset(_LANGUAGES.split())
BROKEN = 4  # a tree with more than one part in so many inside ERROR nodes is not used
ROUND = 12  # bytes that a hundred steps of the parser get at least; the densest sources measured take 18
SECONDS, SLOWEST = 3, 300_000  # of its thread's time that a parse may take, and what it must do in each second more, in bytes
SIGNS, DEPTH = 1000, 200  # signs in a row without a letter or digit, and braces inside braces, that sources have
BLOCK = 1 << 16  # bytes handed to the parser at a time
CLOSERS = 8  # brackets that are kept with what they close while that is divided; more are a unit of their own
DEEPEST = 400  # columns of indentation; what stands further right doesn't count as the beginning of a line

# White space and marks without width, operators, letters: all else is met in literals and comments, where a letter will do.
_STAND_INS = (
    (regex.compile(r"[^\S\0-\x7f]|\p{Cf}"), " "),
    (regex.compile(r"[^\P{Sm}\0-\x7f]"), "+"),
    (regex.compile(r"[^\0-\x7f]"), "a"),
)
_WORDS = np.array([chr(i).isalnum() or i == ord("_") for i in range(128)])
_SIGNS = np.array([not _WORDS[i] and not chr(i).isspace() for i in range(128)])
_COMMENT = re.compile(r"comment|haddock")
_LEADING = re.compile(
    r"comment|haddock|decorator|annotation|attribute_|modifiers?$|pragma|^signature$|^template_parameter_list$|^access_specifier$"
)
_ENDINGS = frozenset(("end", "fi", "done", "esac"))
_DEFINITION = re.compile(
    r"class|module|internal_module|method|singleton_method|function|function_clause|subroutine|data_type|newtype|instance|enum|"
    r"message|service|rpc|companion_object|create_(?:table|view|function|index|type|trigger|procedure)|(?:[a-z]+_)*(?:class|"
    r"constructor|data|delegate|destructor|enum|extension|func?|fun|function|given|impl|interface|let|macro|method|mixin|mod|module|"
    r"namespace|object|proc|procedure|protocol|record|struct|subroutine|trait|type|union)_(?:alias_declaration|binding|decl|"
    r"declaration|declaration_statement|def|definition|implementation|interface|item|signature|spec|specifier|statement)"
)
_BODY = re.compile(
    r"\w*(?:block|body|body_statement|declaration_list|statement_list)|compound_statement|declarations|structure"
)
_ASSIGNMENT = re.compile(r"\w*declarator|(?:public_)?field_definition|\w*assignment\w*|binary_operator|pair")
_WRAPPER = re.compile(r"\w*(?:statement|declaration|definition|method_signature|fun_decl)|program|statement")
_NAME = re.compile(r"(?:simple_|type_)?identifier|constant|name|\w+_name|object_reference")
_FUNCTION = re.compile(r"(?:arrow_|generator_)?function(?:_expression|_definition)?|class|lambda|lambda_expression")
_QUALIFIED = re.compile(r"::|[.:\\]")
_NEXT, _LONGEST_NAME = 4, 200  # wrappers looked through for a definition; code points of a name


@dataclass(frozen=True, slots=True)
class Code:
    """Whole definitions, small neighbours packed; one that is too long is divided into its members, then its statements.

    `language`: its name; "" is what the document says. `merge` False: every definition is a chunk of its own. A file that
    doesn't parse, or whose language has no grammar, is cut by the language's separators, as `recursive` does.
    """

    language: str = ""
    merge: bool = True

    needs: ClassVar[frozenset[type]] = NOTHING
    names_paths: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if why := missing():
            raise ConfigError(why)

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The pieces, in order; all of them fit."""
        language = (self.language or doc.metadata.get("language", "")).lower()
        name = language if language in GRAMMARS else NAMES.get(language, language)
        root = parsed(doc.text, name) if name in GRAMMARS else None
        if root is None:
            spans = split(doc.text, Span(0, len(doc.text)), budget, PRESETS.get(name, TEXT))
            return [Piece(s, kind="code") for s in spans]
        return [Piece(span, kind="code", path=path) for span, path in divided(Source(doc.text, root, budget), self.merge)]


@lru_cache(maxsize=1)
def missing() -> str:
    """What the strategy lacks, and the way out; empty if nothing.

    From 1.0 on the package of grammars downloads them when used; a tree-sitter before 0.26.1 crashes when a parse is watched.
    """
    parser, grammars = _version("tree-sitter"), _version("tree-sitter-language-pack")
    if parser >= (0, 26, 1) and (0,) < grammars < (1,):
        return ""
    return 'the strategy code needs tree-sitter and its grammars, in versions that work: pip install "chunkmill[code]"'


def _version(package: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in re.findall(r"\d+", metadata.version(package)))
    except metadata.PackageNotFoundError:
        return ()


def parsed(text: str, language: str) -> Node | None:
    """The root of the syntax tree, with offsets in code points; None where too much of the text makes no sense in this
    language.

    Recovery from errors can take exponential time; it is stopped by a count of steps, so that the same text always gets the
    same answer, and by a clock only where the steps themselves get slow.
    """
    from tree_sitter import Parser
    from tree_sitter_language_pack import get_language

    data = _ascii(text)
    if not _written(data):
        return None
    rounds, most = count(), 100 + len(data) // ROUND
    stop = thread_time() + SECONDS + len(data) / SLOWEST
    try:
        tree = Parser(get_language(cast("SupportedLanguage", language))).parse(
            lambda at, _: data[at : at + BLOCK],
            progress_callback=lambda at, broken: next(rounds) > most or thread_time() > stop,
        )
    except ValueError:  # what the binding raises when it is told to stop
        return None
    return None if _broken(tree.root_node) else tree.root_node


def _ascii(text: str) -> bytes:
    """The text with one ASCII character for each code point: offsets in the tree are offsets in the text.

    Grammars ask C's `isalpha` about any code point and read outside of its table, which crashes the process.
    """
    if not text.isascii():
        for pattern, stand_in in _STAND_INS:
            text = pattern.sub(stand_in, text)
    return text.encode()


def _written(data: bytes) -> bool:
    """Whether this can be source that somebody wrote, or a program for somebody.

    On thousands of signs without a word, or of braces inside braces, grammars take cubic time, gigabytes, or the process with
    them: scanners assert that their stacks are small.
    """
    codes = np.frombuffer(data, np.uint8)
    signs, words = _SIGNS[codes], _WORDS[codes]
    before = np.cumsum(signs, dtype=np.int32)
    run = np.diff(before[words], prepend=0, append=before[-1:]).max(initial=0)
    open_ = np.cumsum((codes == ord("{")).astype(np.int8) - (codes == ord("}")), dtype=np.int32)
    depth = (open_ - np.minimum.accumulate(open_)).max(initial=0)
    return bool(run <= SIGNS and depth <= DEPTH)


def _broken(root: Node) -> bool:
    """Whether the outermost ERROR nodes hold too much. Only nodes with an error inside are visited."""
    most = (root.end_byte - root.start_byte) // BROKEN
    cursor, bad = root.walk(), 0
    while True:
        node = cursor.node
        assert node is not None
        if node.is_error:
            bad += node.end_byte - node.start_byte
        elif node.has_error and cursor.goto_first_child():
            continue
        if bad > most:
            return True
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False


class Unit(NamedTuple):
    """Neighbours in the tree that belong together: comments, decorators, what they are about, the bracket behind it."""

    span: Span
    nodes: Sequence[Node]
    indent: int  # of the line that it begins; -1 if it begins none


@dataclass(frozen=True, slots=True)
class Source:
    """A text with its tree, and the budget that decides how far it is divided."""

    text: str
    root: Node
    budget: Budget

    def start(self, node: Node) -> int:
        """Where the node begins."""
        return cluster_start(self.text, node.start_byte)

    def indent(self, node: Node) -> int:
        """How far in the node stands if it begins its line, else -1."""
        column = node.start_point.column
        if column > DEEPEST:
            return -1
        before = self.text[node.start_byte - column : node.start_byte]
        return column if not before or before.isspace() else -1

    def near(self, left: Node, right: Node) -> bool:
        """Whether there is no blank line between the two."""
        return self.text.count("\n", max(0, left.end_byte - 1), right.start_byte) < 2

    def tight(self, start: int, end: int) -> Span:
        """The span without white space at its ends, found without a copy of what is between."""
        text = self.text
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        return Span(start, end)

    def slice(self, node: Node) -> str:
        """What the node says, in one line; empty if that is too long for a name."""
        start, end = node.byte_range
        return " ".join(self.text[start:end].split()) if end - start <= _LONGEST_NAME else ""

    def units(self, nodes: Iterable[Node], within: Span) -> Iterator[Unit]:
        """The units of a row of siblings, tiling the non-white text of `within`."""
        held: list[Node] = []
        start, leading = within.start, False  # whether the last of `held` waits for what it is about
        for node in nodes:
            if not held or _joins(self, held[-1], leading, node):
                if node.type == ":":  # of `private:`, `else:`
                    pass
                elif not node.type.isspace():
                    leading = _is_word(node) or (_leads(node) and (not held or leading or self.indent(node) >= 0))
                held.append(node)
                continue
            comment = _swallowed(self, held[-1], node)
            cut = self.start(comment or node)
            if cut >= within.end:
                break
            if cut > start:
                yield Unit(self.tight(start, cut), held, self.indent(held[0]))
                start = cut
            held, leading = [node], _is_word(node) or _leads(node)
        yield Unit(self.tight(start, within.end), held, self.indent(held[0]) if held else -1)

    def inner(self, unit: Unit) -> Iterator[Unit]:
        """What a unit that is too long consists of: its largest node divided, or its nodes one by one."""
        main = max((n for n in unit.nodes if n.child_count), key=lambda n: n.end_byte - n.start_byte, default=None)
        if main is None or (main != unit.nodes[0] and not self.budget.fits(self.tight(unit.span.start, self.start(main)))):
            yield from self._each(unit)
            return
        place = unit.nodes.index(main)
        ahead, behind = unit.nodes[:place], unit.nodes[place + 1 :]
        if len(behind) <= CLOSERS:  # they go with the last of the children, as deep as that is divided
            yield from self.units(chain(ahead, _children(main), behind), unit.span)
            return
        end = min(max(unit.span.start, self.start(behind[0])), unit.span.end)
        yield from self.units(chain(ahead, _children(main)), Span(unit.span.start, end))
        yield Unit(self.tight(end, unit.span.end), behind, self.indent(behind[0]))

    def _each(self, unit: Unit) -> Iterator[Unit]:
        start = unit.span.start
        for node, after in pairwise((*unit.nodes, None)):
            end = min(max(start, self.start(after)), unit.span.end) if after else unit.span.end
            assert node is not None
            yield Unit(self.tight(start, end), [node], self.indent(node))
            start = end


def _children(node: Node) -> Iterator[Node]:
    """The children one by one: a node may have millions."""
    cursor = node.walk()
    more = cursor.goto_first_child()
    while more:
        child = cursor.node
        assert child is not None
        yield child
        more = cursor.goto_next_sibling()


def _is_word(node: Node) -> bool:
    """Whether a node is a word of the language, as `pub`, `template` or `class`, that opens something."""
    return not node.is_named and node.type[:1].isalnum() and node.type not in _ENDINGS


def _leads(node: Node) -> bool:
    """Whether a node belongs to what follows it."""
    return node.is_named and _leading_type(node.type)


@lru_cache(maxsize=4096)
def _leading_type(kind: str) -> bool:
    return _LEADING.search(kind) is not None


@lru_cache(maxsize=4096)
def _is_body(kind: str) -> bool:
    return _BODY.fullmatch(kind) is not None


def _joins(source: Source, left: Node, leading: bool, node: Node) -> bool:
    """Whether a node goes with its left neighbour."""
    if not node.is_named:
        return not node.type[:1].isalnum() or node.type in _ENDINGS or (leading and source.near(left, node))
    if node.start_byte == node.end_byte or (leading and source.near(left, node)):
        return True
    if node.type == "function_body":
        return left.type.endswith("_signature")
    return "comment" in node.type and source.indent(node) < 0


def _swallowed(source: Source, left: Node, node: Node) -> Node | None:
    """The comment above a node that the grammar took for the end of what stands before it."""
    last: Node | None = left
    for _ in range(_NEXT):
        if last is None or not last.child_count or last.end_byte != left.end_byte:
            return None
        last = last.child(last.child_count - 1)
        if last is not None and _COMMENT.search(last.type):
            return last if source.indent(last) >= 0 and source.near(last, node) else None
    return None


@dataclass(slots=True)
class _Frame:
    """The units of a unit that is being divided, and where they are: in which symbol, behind what."""

    units: Iterator[Unit]
    path: Path
    owner: Node | None  # the definition whose name ends the path
    indent: int = -1  # of the last unit that began a line
    divided: bool = False  # whether the last unit was


@dataclass(slots=True)
class _Pieces:
    """Neighbours packed as they come, as `pack` does; a run ends where the strategy says so."""

    budget: Budget
    done: list[tuple[Span, Path]] = field(default_factory=list)
    run: Span | None = None
    path: Path | None = None

    def add(self, span: Span, path: Path) -> None:
        """The next span; in the run if that can hold it."""
        if self.run and not self.overflows(span):
            self.run, self.path = Span(self.run.start, span.end), _shared(self.path, path)
        else:
            self.flush()
            self.run, self.path = span, path or None

    def overflows(self, span: Span) -> bool:
        """Whether there is a run that can't hold the span."""
        return self.run is not None and not self.budget.packs(Span(self.run.start, span.end))

    def flush(self) -> None:
        """End the run."""
        if self.run:
            self.done.append((self.run, self.path or ()))
        self.run = None


def _shared(a: Path | None, b: Path) -> Path | None:
    """The symbol that holds both; text outside of all symbols doesn't count, None is nothing but such."""
    if a is None or not b:
        return a if a is not None else b or None
    return tuple(x for x, _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def divided(source: Source, merge: bool = True) -> list[tuple[Span, Path]]:
    """The units of the tree that fit, packed; the others divided in turn, with an explicit stack. Each with its symbol path.

    What follows in the line or further in goes on with the run, so that a header has some of its body; a unit that is too
    long and stands beside others doesn't mix with them.
    """
    text, budget = source.text, source.budget
    pieces = _Pieces(budget)
    frames = [_Frame(source.units(_children(source.root), Span(0, len(text))), (), None)]
    while frames:
        frame = frames[-1]
        unit = next(frame.units, None)
        if unit is None:
            frames.pop()
            continue
        if unit.span.start == unit.span.end:
            continue
        path, owner = _symbol(source, unit, frame)
        fits = budget.fits(unit.span)
        alone = not merge and owner is not frame.owner
        beside = unit.indent >= 0 and (frame.divided or (not fits and unit.indent <= frame.indent))
        if alone or (beside and not text.startswith("{", unit.span.start)):
            pieces.flush()
        fits = fits and not (pieces.overflows(unit.span) and any(_is_body(n.type) for n in unit.nodes))
        frame.indent, frame.divided = unit.indent if unit.indent >= 0 else frame.indent, not fits
        if fits:
            pieces.add(unit.span, path)
            if alone:
                pieces.flush()
        elif len(unit.nodes) > 1 or (unit.nodes and unit.nodes[0].child_count):
            frames.append(_Frame(source.inner(unit), path, owner))
        else:
            for span in split(text, unit.span, budget, LINES[:-1]):
                pieces.add(span, path)
    pieces.flush()
    return pieces.done


def _symbol(source: Source, unit: Unit, frame: _Frame) -> tuple[Path, Node | None]:
    """The symbol path of a unit and the definition that it is, if one."""
    for first in unit.nodes:
        node: Node | None = first
        for _ in range(_NEXT):
            if node is None or not (role := _role(node.type)) or not node.is_named:
                break
            if node == frame.owner:
                return frame.path, frame.owner
            if name := _assigned(source, node) if role == "assignment" else _name(source, node) if role == "definition" else ():
                return (*frame.path, *name), node
            node = _wrapped(node)
    return frame.path, frame.owner


@lru_cache(maxsize=4096)
def _role(kind: str) -> str:
    """What a node of this type may have to do with a definition: be one, assign one, hold one; empty for nothing."""
    roles = (("definition", _DEFINITION), ("assignment", _ASSIGNMENT), ("wrapper", _WRAPPER))
    return next((role for role, pattern in roles if pattern.fullmatch(kind)), "")


def _wrapped(node: Node) -> Node | None:
    """What a decorated, exported or templated definition is about; the only thing in a statement."""
    for label in ("definition", "declaration"):
        if inner := node.child_by_field_name(label):
            return inner
    if node.named_child_count > 2 * _NEXT:
        return None
    named = [n for n in node.named_children if not _leads(n)]
    return named[-1] if len(named) == 1 or node.type == "template_declaration" else None


def _name(source: Source, node: Node) -> Path:
    """The name that a definition gives, as steps of a path: `A::go` has two."""
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return ()
    label = "type" if node.type == "impl_item" else "name"
    named = node.child_by_field_name(label) or _declared(node) or _first_name(node)
    name = source.slice(named) if named else ""
    receiver = node.child_by_field_name("receiver")
    owner = re.findall(r"\w+", source.slice(receiver).partition("[")[0])[-1:] if receiver else []
    steps = _QUALIFIED.split(name)
    return (*owner, *steps) if all(steps) else (name,) if name else ()


def _assigned(source: Source, node: Node) -> Path:
    """`name = function …` in languages where that is how one is made."""
    for value, target in (("value", "name"), ("value", "property"), ("value", "key"), ("rhs", "lhs"), ("right", "left")):
        made = node.child_by_field_name(value)
        if made and made.is_named and _FUNCTION.fullmatch(made.type) and (named := node.child_by_field_name(target)):
            return tuple(step for step in source.slice(named).split(".") if step)
    return ()


def _declared(node: Node) -> Node | None:
    """The name inside C's declarators: `*f(int a)`."""
    found = None
    while inner := node.child_by_field_name("declarator"):
        found = node = inner
    return found


def _first_name(node: Node) -> Node | None:
    for i in range(min(_NEXT, node.named_child_count)):
        child = node.named_child(i)
        if child and _NAME.fullmatch(child.type):
            return child
    return None
