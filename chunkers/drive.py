"""Run a strategy over many documents in lockstep: the requests of a round are answered in one batch per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

import numpy as np

from chunkmill.chunkers.base import Budget, Chunker, Complete, Document, Embed, Piece, Plan, Request, Vectors
from chunkmill.chunkers.errors import ConfigError, DocumentError, attempt

Answers = Mapping[type, Callable[[list[str]], Sequence[Any]]]
Outcome = list[Piece] | DocumentError


def drive(chunker: Chunker, docs: Sequence[Document], budgets: Sequence[Budget], answers: Answers) -> list[Outcome]:
    """One outcome per document, in order: its pieces, or the error that stopped it (the others go on)."""
    outcomes: dict[int, Outcome] = {}
    plans: dict[int, Plan] = {}
    asked: dict[int, Request] = {}

    def settle(i: int, outcome: object) -> None:
        if isinstance(outcome, Embed | Complete):
            asked[i] = outcome
        else:
            outcomes[i] = outcome if isinstance(outcome, list | DocumentError) else no_outcome(outcome, i in plans)

    for i, (doc, budget) in enumerate(zip(docs, budgets, strict=True)):
        outcome = attempt(chunker, doc, budget)
        if isinstance(outcome, GeneratorType):
            plans[i] = outcome
            settle(i, attempt(_resume, outcome, None))
        else:
            settle(i, outcome)
    while asked:
        asking, asked = asked, {}
        for i, answer in _answered(asking, answers):
            settle(i, answer if isinstance(answer, DocumentError) else attempt(_resume, plans[i], answer))
    return [outcomes[i] for i in range(len(docs))]


def no_outcome(given: object, asking: bool) -> DocumentError:
    """What is wrong with that which a strategy gave, or yielded or returned as a generator."""
    may = " (a generator yields Embed or Complete, and returns the list)" if asking else ""
    return DocumentError("internal", f"a strategy must give a list of Piece, not {type(given).__name__}{may}")


def _resume(plan: Plan, answer: Any) -> list[Piece] | Request:
    try:
        return plan.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # a generator may return anything


def _answered(asking: Mapping[int, Request], answers: Answers) -> Iterator[tuple[int, Sequence[Any] | DocumentError]]:
    """The answer to each request; where a batch fails for one document's sake, each request is asked alone."""
    for kind in (Embed, Complete):
        requests = [(i, r) for i, r in asking.items() if isinstance(r, kind)]
        if not requests:
            continue
        if kind not in answers:
            error = DocumentError("internal", f"the strategy asks for {kind.__name__}; its `needs` must name it")
            yield from ((i, error) for i, _ in requests)
            continue
        texts = [text for _, r in requests for text in r[0]]
        replies = attempt(_asked, kind, answers[kind], texts)
        if isinstance(replies, DocumentError) and len(requests) == 1:
            yield requests[0][0], replies
            continue
        if isinstance(replies, DocumentError):
            yield from ((i, attempt(_asked, kind, answers[kind], list(r[0]))) for i, r in requests)
            continue
        at = 0
        for i, request in requests:
            yield i, replies[at : at + len(request[0])]
            at += len(request[0])


def _asked(kind: type, answer: Callable[[list[str]], Sequence[Any]], texts: list[str]) -> Sequence[Any]:
    replies: Any = _rows(answer(texts)) if kind is Embed else answer(texts)
    if len(replies) != len(texts):
        raise DocumentError("internal", f"the model gave {len(replies)} answers to {len(texts)} texts")
    return replies  # type: ignore[no-any-return]  # counted above


def _rows(given: Any) -> Vectors:
    """What answers `Embed`, as float32 rows: an array, lists of numbers, a tensor. Raises ConfigError for anything else."""
    try:
        found = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"what answers Embed gave {type(given).__name__}; it must give a vector a text ({error})") from error
    if found.ndim != 2:
        raise ConfigError(f"what answers Embed gave an array of {found.ndim} dimensions; it must give a row a text")
    if not np.isfinite(found).all():
        raise DocumentError("internal", "what answers Embed gave numbers that are not finite")
    return found


def pieces_of(chunker: Chunker, doc: Document, budget: Budget) -> Plan:
    """Let one strategy use another, whether or not that one asks for models: `pieces = yield from pieces_of(…)`."""
    result: Any = chunker(doc, budget)
    asking = isinstance(result, GeneratorType)
    pieces = (yield from result) if asking else result
    if not isinstance(pieces, list):
        raise no_outcome(pieces, asking)
    return pieces
