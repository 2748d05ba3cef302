"""The library call: chunks of a text or a document, without Ray, torch or files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from chunkmill.chunkers.base import Budget, Chunker, Document, Noted, Piece, Request
from chunkmill.chunkers.drive import drive, pieces_of
from chunkmill.chunkers.errors import ConfigError, DocumentError, attempt, choose
from chunkmill.chunkers.finish import Chunk, Chunking, digest, finish
from chunkmill.chunkers.llm import told
from chunkmill.chunkers.measure import Tokenizer
from chunkmill.chunkers.seams import clean
from chunkmill.chunkers.situate import situated
from chunkmill.chunkers.strategies import strategy as named
from chunkmill.chunkers.structure import NO_CONTEXT, Contexts

DEFAULT_UNIT = "cl100k_base"  # what a token is where no model says so
READ = "chunkmill.parse(data, name) gives the documents of a file's bytes"

Answers = Mapping[type, Callable[[list[str]], Sequence[Any]]]


def chunk(
    source: str | Document,
    strategy: str | Chunker = "recursive",
    *,
    size: int = 512,
    overlap: int | str = 0,
    unit: str | Tokenizer = "cl100k_base",
    context: str = "none",
    min_size: int = 0,
    answers: Answers | None = None,
    **options: Any,
) -> list[Chunk]:
    """The chunks of one text or document, in order.

    `size` and `overlap` are in `unit`: an encoding of tiktoken (`tokens` is cl100k_base), `chars`, `words` (by white space), a
    `tokenizer.json`, or a `Tokenizer`. Further options are the strategy's own settings. A strategy that asks a model gets its
    `answers` by kind of request (`{Embed: f}` with f(list of texts) → float32 (n, dim), unit rows). Of a text the id is a hash
    of all of it. Raises ConfigError and DocumentError.
    """
    cut = chunking(strategy, options, size=size, overlap=overlap, unit=unit, context=context, min_size=min_size)
    doc = readable(source) if isinstance(source, Document) else document(source)
    if not isinstance(answers, Mapping | None):
        raise ConfigError(f"answers is {type(answers).__name__}; it must be a dict: {{Embed: function}}, with chunkmill.Embed")
    if missing := [kind for kind in cut.needs if kind not in (answers or {})]:
        raise ConfigError(f"the strategy asks for {missing[0].__name__}; pass answers={{{missing[0].__name__}: function}}")
    (outcome,) = chunk_all([doc], cut, answers or {})
    if isinstance(outcome, DocumentError):
        raise outcome
    return outcome


def chunking(
    strategy: str | Chunker,
    options: Mapping[str, Any] | None = None,
    *,
    size: int = 512,
    overlap: int | str = 0,
    unit: str | Tokenizer = "cl100k_base",
    context: str = "none",
    min_size: int = 0,
) -> Chunking:
    """What a user's settings mean: `overlap` may be a share of the size (`"15%"`). Raises ConfigError."""
    if options and not isinstance(strategy, str):
        raise ConfigError(f"settings {', '.join(options)} go to the strategy itself, which was given as an object")
    _whole("size", size)
    _whole("min_size", min_size)
    cut = named(strategy, options) if isinstance(strategy, str) else _object(strategy)
    if context not in ("none", "headings", "llm"):
        raise choose("chunk.context", context, ("none", "headings", "llm"))
    units = share(overlap, getattr(cut, "window", None) or size) if isinstance(overlap, str) else overlap
    _whole("overlap", units, "a whole number of units or a share like '15%'")
    unit = DEFAULT_UNIT if unit == "tokens" else unit
    if not isinstance(unit, str) and not (hasattr(unit, "starts") and hasattr(unit, "count")):
        raise ConfigError(f"chunk.unit is {unit!r}; it must be tokens, chars, words, an encoding, or a Tokenizer")
    whole, units = cut.sized(size, units) if hasattr(cut, "sized") else (size, units)
    if hasattr(cut, "min_size"):  # a strategy that has a use of its own for it, besides
        cut = replace(cut, min_size=min_size) if min_size else cut  # type: ignore[type-var]  # a dataclass
        min_size = getattr(cut, "min_size", None) or 0
    if min_size and getattr(cut, "overlaps", False):
        raise ConfigError(f"chunk.min_size is {min_size}, and {type(cut).__name__} places its own windows; leave it out")
    return Chunking(cut, whole, units, unit, context, min_size)  # type: ignore[arg-type]  # one of the three


def _whole(key: str, value: Any, wanted: str = "a whole number") -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"chunk.{key} is {value!r}; it must be {wanted}")


def _object(strategy: Any) -> Chunker:
    if isinstance(strategy, type) or not callable(strategy) or not hasattr(strategy, "needs"):
        what = f"the class {strategy.__name__}; give an object of it" if isinstance(strategy, type) else f"{strategy!r}"
        raise ConfigError(f"chunk.strategy is {what}; it must be a strategy's name, or an object with `needs` that is called")
    return strategy  # type: ignore[no-any-return]  # looked at above


def share(overlap: str, size: int) -> int:
    """`"15%"` of the size, rounded down."""
    try:
        if not overlap.endswith("%"):
            return int(overlap)
        percent = float(overlap[:-1])
    except ValueError:
        percent = -1
    if not 0 <= percent < inf:
        raise ConfigError(f"chunk.overlap is {overlap!r}; it must be a number of units or a share like '15%'")
    return int(percent * size / 100)


def readable(doc: Document) -> Document:
    """The document; a lone surrogate in its text or its id becomes U+FFFD."""
    if not isinstance(doc.text, str):
        raise ConfigError(f"the text of a Document is {type(doc.text).__name__}; it must be str: {READ}")
    (text, n), (name, m) = clean(doc.text), clean(doc.id)
    return replace(doc, text=text, id=name) if n or m else doc


def document(text: str) -> Document:
    """A plain text as a document; a lone surrogate becomes U+FFFD."""
    if not isinstance(text, str):
        raise ConfigError(f"the source is {type(text).__name__}; it must be a str or a Document: {READ}")
    text, _ = clean(text)
    return Document(digest(text), "", text)


def chunk_all(docs: Sequence[Document], chunking: Chunking, answers: Answers) -> list[list[Chunk] | DocumentError]:
    """The chunks of each document, or what was wrong with it; requests of all documents are answered together."""
    contexts = [chunking.contexts(doc) for doc in docs]
    budgets = [chunking.budget(doc, context) for doc, context in zip(docs, contexts, strict=True)]
    if chunking.context == "llm":
        situating: Any = partial(_situated, chunking)
        return drive(situating, docs, budgets, answers)  # type: ignore[return-value]  # chunks, not pieces
    outcomes = drive(chunking.strategy, docs, budgets, answers)
    return [
        pieces if isinstance(pieces, DocumentError) else _finished(doc, pieces, chunking, budget, context)
        for doc, pieces, budget, context in zip(docs, outcomes, budgets, contexts, strict=True)
    ]


def _finished(
    doc: Document, pieces: Sequence[Piece], chunking: Chunking, budget: Budget, contexts: Contexts
) -> list[Chunk] | DocumentError:
    done = attempt(finish, doc, pieces, chunking, budget, contexts)
    return Noted(done, told(pieces.notes)) if isinstance(pieces, Noted) and not isinstance(done, DocumentError) else done


def _situated(chunking: Chunking, doc: Document, budget: Budget) -> Generator[Request, Any, list[Chunk]]:
    """The chunks of one document, each with the context that a language model writes for it."""
    pieces = yield from pieces_of(chunking.strategy, doc, budget)
    chunks = finish(doc, pieces, chunking, budget, NO_CONTEXT)
    return (yield from situated(doc, Noted(chunks, getattr(pieces, "notes", {})), chunking, budget))
