"""EDIT: one sentence inserted, deleted or changed leaves the ids of the other chunks alone. `make bench-edit` measures more."""

import random

import pytest

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Document

EDITS = 60
# New chunks after an edit: 90% of the edits at most, the worst at most.
BOUNDS = [("recursive", {}, 3, 12), ("sentence", {"overlap_sentences": 2}, 6, 14)]


def words(dice: random.Random) -> list[str]:
    return ["".join(dice.choices("aeionrstldcmpu", k=dice.randint(2, 9))) for _ in range(400)]


def sentence(dice: random.Random, known: list[str]) -> str:
    return " ".join(dice.choices(known, k=dice.randint(4, 30))).capitalize() + "."


def paragraphs(dice: random.Random, known: list[str], length: int) -> list[list[str]]:
    """Paragraphs of sentences, of as many characters in all."""
    found, n = [], 0
    while n < length:
        found.append([sentence(dice, known) for _ in range(dice.randint(1, 9))])
        n += sum(map(len, found[-1]))
    return found


def edited(text: list[list[str]], number: int, dice: random.Random, known: list[str]) -> list[list[str]]:
    """The text after one edit, at a tenth, in the middle, at nine tenths or anywhere."""
    place = (0.1, 0.5, 0.9, dice.random())[number // 3 % 4]
    at = int(len(text) * place)
    paragraph = list(text[at])
    spot = dice.randrange(len(paragraph))
    if number % 3 == 0:
        paragraph.insert(spot, sentence(dice, known))
    elif number % 3 == 1:
        del paragraph[spot]
    else:
        paragraph[spot] = f"{paragraph[spot][:-1]} {dice.choice(known)}."
    return [*text[:at], *([paragraph] if paragraph else []), *text[at + 1 :]]


def ids(strategy: str, options: dict[str, int], text: list[list[str]]) -> set[str]:
    doc = Document("d", "", "\n\n".join(" ".join(p) for p in text))
    (chunks,) = chunk_all([doc], chunking(strategy, options, size=1000, unit="chars"), {})
    return {c.id for c in chunks}


@pytest.mark.parametrize(("strategy", "options", "p90", "worst"), BOUNDS)
def test_an_edit_changes_only_the_chunks_near_it(strategy, options, p90, worst):
    dice = random.Random(11)
    known = words(dice)
    text = paragraphs(dice, known, 100_000)
    before = ids(strategy, options, text)

    new = sorted(len(ids(strategy, options, edited(text, number, dice, known)) - before) for number in range(EDITS))

    assert len(before) > 100
    assert new[0] <= 1
    assert new[int(0.9 * EDITS)] <= p90, new
    assert new[-1] <= worst, new
