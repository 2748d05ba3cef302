"""The library call: chunks of a text or a document, without Ray, torch or files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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

    `size` and `overlap` are in `unit`: an encoding of tiktoken, `chars`, `words`, a `tokenizer.json`, or a `Tokenizer`.
    Further options are the strategy's own settings. A strategy that asks a model gets its `answers` by kind of request
    (`{Embed: f}` with
    f(list of texts) → float32 (n, dim), unit rows). Raises ConfigError and DocumentError.
    """
    cut = chunking(strategy, options, size=size, overlap=overlap, unit=unit, context=context, min_size=min_size)
    doc = source if isinstance(source, Document) else document(source)
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
    if not isinstance(size, int) or isinstance(size, bool):
        raise ConfigError(f"chunk.size is {size!r}; it must be a whole number")
    cut = named(strategy, options) if isinstance(strategy, str) else strategy
    if context not in ("none", "headings", "llm"):
        raise choose("chunk.context", context, ("none", "headings", "llm"))
    units = share(overlap, getattr(cut, "window", None) or size) if isinstance(overlap, str) else overlap
    whole, units = cut.sized(size, units) if hasattr(cut, "sized") else (size, units)
    if min_size and hasattr(cut, "min_size"):  # a strategy that has a use of its own for it
        cut, min_size = replace(cut, min_size=min_size), 0  # type: ignore[type-var]  # a dataclass
    if min_size and getattr(cut, "overlaps", False):
        raise ConfigError(f"chunk.min_size is {min_size}, and {type(cut).__name__} places its own windows; leave it out")
    return Chunking(cut, whole, units, unit, context, min_size)  # type: ignore[arg-type]  # one of the three


def share(overlap: str, size: int) -> int:
    """`"15%"` of the size, rounded down."""
    try:
        if not overlap.endswith("%"):
            return int(overlap)
        return int(float(overlap[:-1]) * size / 100)
    except ValueError:
        raise ConfigError(f"chunk.overlap is {overlap!r}; it must be a number of units or a share like '15%'") from None


def document(text: str) -> Document:
    """A plain text as a document; a lone surrogate becomes U+FFFD."""
    try:
        name = digest(text)
    except UnicodeEncodeError:
        text, _ = clean(text)
        name = digest(text)
    return Document(name, "", text)


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
