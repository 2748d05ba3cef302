"""What the strategies share that ask a language model: quoting, windows, answers that are checked before they are used.

A document in a prompt is data between two marks that its text does not hold. Whatever it says, its model's answer is read by a
schema and by nothing else: a text that gives the model orders can at worst spoil the answer about itself.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import regex

from chunkmill.chunkers.base import Budget, Chunker, Complete, Document, Piece, Plan, Request, Span
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.recursive import Recursive
from chunkmill.chunkers.seams import VISIBLE, clean
from chunkmill.chunkers.stretch import cut

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

BYTES = 3  # of UTF-8 taken for one token of a model whose tokenizer nobody knows: rather too many tokens than too few
ROUND_CHARS = 16 << 20  # of prompts that are held at once for a document
ECHOED = 600  # characters of an unusable answer that are shown to the model again
WRITTEN = frozenset({"proposition", "group", "summary"})  # kinds of pieces whose text a model wrote
FALLBACK = "fallback"  # the kind of a piece that a rule made because the model's answers could not be used
FENCE = "```"
CONTROL = regex.compile(r"\p{Cc}")
# What hides or turns what a reader sees: marks, embeddings, overrides and isolates of direction; invisible signs; tags.
HIDDEN = regex.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
NUMBER = regex.compile(r"\d+")
READ, FALLBACKS, UNGROUPED, REFUSED = "llm.read", "llm.fallbacks", "llm.ungrouped", "llm.refused"  # notes: how many of what
COUNTED = (READ, FALLBACKS, UNGROUPED, REFUSED)
DIFFERENT = 5  # values of another note that are kept where stretches of a document differ
AGAIN = """

Your last answer began with:
{quoted}
It can't be used: {error}. Answer again, with the JSON object alone."""


class AnswerError(ValueError):
    """An answer that can't be used; the message is what the model is told."""


class Refused(str):
    """The answer to a prompt that an endpoint does not take: empty. `too_long`: a shorter one it would."""

    too_long: bool

    def __new__(cls, *, too_long: bool) -> Refused:
        """An empty text, whatever is the matter."""
        made = super().__new__(cls)
        made.too_long = too_long
        return made


class RefusedError(AnswerError):
    """No model has seen the prompt, so that there is nothing to tell it. `too_long` as above."""

    def __init__(self, answer: Refused) -> None:
        super().__init__("the endpoint refused the prompt")
        self.too_long = answer.too_long


def tokens(text: str) -> int:
    """About how many tokens a text is for a language model, rather more than less."""
    return len(text.encode("utf-8", "replace")) // BYTES + 1


def quoted(text: str) -> str:
    """The text between two marks that it does not hold."""
    mark = digest(text)[:12]
    while mark in text:
        mark = digest(mark)[:12]
    return f"<<<{mark}\n{text}\n{mark}>>>"


def ask(
    prompts: Sequence[str], reads: Sequence[Callable[[str], T]], last: Sequence[Callable[[str], T]] | None = None
) -> Generator[Request, Any, list[T | None]]:
    """What `reads[i]` makes of the answer to prompt i. Where it raises AnswerError the model is told why, and asked once more.

    That answer is read by `last[i]` if given; None where it can't be used either, and where the endpoint refuses the prompt.
    """
    found = yield from _asked(prompts, reads, last)
    return [None if isinstance(outcome, AnswerError) else outcome for outcome in found]


def ask_each(
    things: Sequence[K],
    prompt: Callable[[K], str],
    read: Callable[[str, K], T],
    smaller: Callable[[K], Sequence[K]],
    last: Callable[[str, K], T] | None = None,
) -> Generator[Request, Any, dict[K, T | None]]:
    """As `ask`, about each thing. In place of one whose prompt is too long for the endpoint `smaller` ones are asked about."""
    found: dict[K, T | None] = {}
    while things:
        reads, lasts = ([partial(_of, r, thing) for thing in things] for r in (read, last or read))
        outcomes = yield from _asked(map(prompt, things), reads, lasts)
        left: list[K] = []
        for thing, outcome in zip(things, outcomes, strict=True):
            parts = smaller(thing) if is_too_long(outcome) else ()
            left += parts
            if not parts:
                found[thing] = None if isinstance(outcome, AnswerError) else outcome
        things = left
    return found


def ask_one(prompt: str, read: Callable[[str], T], last: Callable[[str], T]) -> Generator[Request, Any, T | AnswerError]:
    """What is made of the answer to a prompt, as `ask` does; what is wrong with it where it can't be used."""
    (outcome,) = yield from _asked([prompt], [read], [last])
    return outcome


def is_too_long(outcome: object) -> bool:
    """Whether the endpoint would have taken a shorter prompt."""
    return isinstance(outcome, RefusedError) and outcome.too_long


def halves(run: tuple[int, int]) -> list[tuple[int, int]]:
    """A run of parts (first, behind the last) as two; of a single part nothing."""
    middle = sum(run) // 2
    return [(run[0], middle), (middle, run[1])] if run[1] - run[0] > 1 else []


def _of(read: Callable[[str, K], T], thing: K, answer: str) -> T:
    return read(answer, thing)


def _asked(
    prompts: Iterable[str], reads: Sequence[Callable[[str], T]], last: Sequence[Callable[[str], T]] | None
) -> Generator[Request, Any, list[T | AnswerError]]:
    found: list[T | AnswerError] = []
    for first, part in _rounds(prompts):
        answers = yield Complete(part)
        read = [_read(r, answer) for r, answer in zip(reads[first:], answers, strict=False)]
        wrong = [
            i for i, outcome in enumerate(read) if isinstance(outcome, AnswerError) and not isinstance(outcome, RefusedError)
        ]
        if wrong:
            told = (_again(answers[i], read[i]) for i in wrong)
            answers = yield Complete([part[i] + again for i, again in zip(wrong, told, strict=True)])
            for i, answer in zip(wrong, answers, strict=True):
                read[i] = _read((last or reads)[first + i], answer)
        found += read
    return found


def _again(answer: str, error: object) -> str:
    """What is said of an answer that can't be used. It and the error may hold whatever the model wrote."""
    return AGAIN.format(quoted=quoted(clean(answer)[0][:ECHOED]), error=clean(str(error))[0][:ECHOED])


def _rounds(prompts: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The prompts in lists of a bounded number of characters, each with the number of its first."""
    first, held = 0, 0
    part: list[str] = []
    for prompt in prompts:
        if part and held + len(prompt) > ROUND_CHARS:
            yield first, part
            first, held, part = first + len(part), 0, []
        part.append(prompt)
        held += len(prompt)
    if part:
        yield first, part


def _read(read: Callable[[str], T], answer: str) -> T | AnswerError:
    if isinstance(answer, Refused):
        return RefusedError(answer)
    try:
        return read(answer)
    except AnswerError as error:
        return error


def fields(answer: str, *names: str) -> list[Any]:
    """The values of these keys of the JSON object that the answer is."""
    found = content(answer)
    if missing := [name for name in names if name not in found]:
        raise AnswerError(f"the key {missing[0]!r} is missing")
    return [found[name] for name in names]


def content(answer: str) -> dict[str, Any]:
    """The JSON object that the answer is; nothing may stand around it but a code fence.

    What stands before a closing `</think>` is the model's own business.
    """
    body = answer.rpartition("</think>")[2].strip()
    if not body:
        raise AnswerError("it is empty")
    if body.startswith(FENCE) and body.endswith(FENCE) and len(body) > 2 * len(FENCE):
        body = body.removeprefix(FENCE).removeprefix("json").removesuffix(FENCE).strip()
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        more = ", and breaks off: write a shorter answer" if breaks_off(body) and "Extra" not in str(error) else ""
        raise AnswerError(f"it is not JSON ({str(error)[:80]}){more}") from None
    if not isinstance(found, dict):
        raise AnswerError("it is not a JSON object")
    return found


def breaks_off(body: str) -> bool:
    """Whether a JSON object begins but doesn't end: the endpoint cuts answers at `max_tokens`."""
    begun = body.removeprefix(FENCE).removeprefix("json").lstrip()
    return begun.startswith("{") and not begun.endswith(("}", FENCE))


def line(value: Any, what: str, most: int) -> str:
    """A text on one line that has something to read and at most so many characters, without those that hide or turn text."""
    if not isinstance(value, str):
        raise AnswerError(f"{what} is not a text")
    text = " ".join(HIDDEN.sub("", CONTROL.sub(" ", clean(value)[0])).split())
    if not VISIBLE.search(text):
        raise AnswerError(f"{what} is empty")
    if len(text) > most:
        raise AnswerError(f"{what} has {len(text)} characters; at most {most} are allowed")
    return text


def items(value: Any, what: str, most: int) -> list[Any]:
    """A list of at most so many."""
    if not isinstance(value, list):
        raise AnswerError(f"{what} is not a list")
    if len(value) > most:
        raise AnswerError(f"{what} has {len(value)} entries; at most {most} are allowed")
    return value


def number(value: Any, what: str, least: int, most: int) -> int:
    """A whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise AnswerError(f"{what} is not a whole number")
    if not least <= value <= most:
        raise AnswerError(f"{what} is out of range: it must be from {least} to {most}")
    return value


def windows(doc: Document, parts: Sequence[Span], most: int, lap: int = 0, beside: int = 0) -> list[tuple[int, int]]:
    """Runs of parts (first, behind the last) of at most so many tokens or of one part; neighbours share up to `lap`.

    `beside`: the tokens that are shown with each part.
    """
    sizes = [tokens(doc[p]) + beside for p in parts]
    found: list[tuple[int, int]] = []
    first = 0
    while first < len(parts):
        end, held = first + 1, sizes[first]
        while end < len(parts) and held + sizes[end] <= most:
            held += sizes[end]
            end += 1
        found.append((first, end))
        if end == len(parts):
            break
        first = max(first + 1, end - min(lap, (end - first) // 2))
    return found


def numbered(doc: Document, parts: Sequence[Span], first: int) -> str:
    """The parts on a line each, with their numbers, of which the first is `first`."""
    return "\n".join(f"[{i}] {' '.join(doc[p].split())}" for i, p in enumerate(parts, first))


def fallback(doc: Document, budget: Budget, span: Span) -> Plan:
    """A stretch cut by the strongest separators, each piece marked."""
    return [marked(p) for p in (yield from cut(Recursive(), doc, budget, span))]


def marked(piece: Piece) -> Piece:
    """The piece, said to be a rule's work where a model's was asked for."""
    return piece._replace(kind=FALLBACK if piece.kind == "text" else f"{FALLBACK}:{piece.kind}")


def is_written(kind: str) -> bool:
    """Whether a model wrote the text of a piece or chunk of this kind: it is no slice of the document then."""
    return kind.removeprefix(f"{FALLBACK}:") in WRITTEN


def fitted(strategy: Chunker, most: int) -> Chunker:
    """The strategy with windows of at most so many tokens, and so those it is made of."""
    known: Any = strategy
    changed: dict[str, Any] = {}
    for name in ("window_tokens", "round_tokens"):
        if getattr(known, name, 0) > most:
            changed[name] = most
    if levels := getattr(known, "levels", ()):
        changed["levels"] = tuple(level._replace(strategy=fitted(level.strategy, most)) for level in levels)
    return dataclasses.replace(known, **changed) if changed and Complete in known.needs else strategy


def reading(number: int) -> dict[str, str]:
    """The note on how a document was shown to the model."""
    return {READ: "whole" if number < 2 else f"in {number} windows"}


def failures(unusable: int, asked: int) -> dict[str, str]:
    """The note on answers that could not be used, which is `told` only if there are any."""
    return {FALLBACKS: f"{unusable} of {asked}"}


def told(notes: Mapping[str, str]) -> dict[str, str]:
    """The notes without those that say that nothing went wrong."""
    return {key: value for key, value in notes.items() if not (key.startswith((FALLBACKS, REFUSED)) and value.startswith("0 "))}


def merged(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The notes on stretches of a document as notes on the document: counts are added up, of others the first few are kept."""
    found: dict[str, list[str]] = {}
    for notes in parts:
        for key, value in notes.items():
            found.setdefault(key, []).append(value)
    return {key: _added(values) if key in COUNTED else _first(values) for key, values in found.items()}


def _added(values: Sequence[str]) -> str:
    """Values of the same wording with the sums of their numbers: a stretch that was read whole is a window."""
    sums: dict[str, list[int]] = {}
    for value in values:
        said = "in 1 windows" if value == "whole" and len(values) > 1 else value
        numbers = [int(n) for n in NUMBER.findall(said)]
        wording = NUMBER.sub("{}", said)
        sums[wording] = [a + b for a, b in zip(sums.get(wording, [0] * len(numbers)), numbers, strict=True)]
    return "; ".join(wording.format(*numbers) for wording, numbers in sums.items())


def _first(values: Sequence[str]) -> str:
    different = list(dict.fromkeys(values))
    return "; ".join([*different[:DIFFERENT], *["…"] * (len(different) > DIFFERENT)])
