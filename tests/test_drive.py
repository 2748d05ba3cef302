"""Strategies that ask a model: batched over documents, and one that fails stops no other."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from chunkmill.chunkers.api import chunk_all, chunking
from chunkmill.chunkers.base import Document, Embed, Piece, Span
from chunkmill.chunkers.drive import drive, pieces_of
from chunkmill.chunkers.errors import DocumentError
from vocabulary import ANSWERS


@dataclass(frozen=True, slots=True)
class Twice:
    """Asks two rounds, then gives the whole document."""

    needs: ClassVar[frozenset[type]] = frozenset({Embed})

    def __call__(self, doc, budget):
        first = yield Embed([doc.text])
        second = yield Embed([doc.text, "again"])
        assert len(first) == 1
        assert len(second) == 2
        return [Piece(Span(0, len(doc.text)), context=f"{first[0][0]} {second[0][0]}")]


@dataclass(frozen=True, slots=True)
class Outer:
    needs: ClassVar[frozenset[type]] = Twice.needs

    def __call__(self, doc, budget):
        return (yield from pieces_of(Twice(), doc, budget))


def docs(*texts):
    return [Document(t, "", t) for t in texts]


def lengths(texts):
    return np.array([[len(t)] for t in texts], np.float32)


def test_a_round_of_requests_is_one_call():
    calls = []

    def answer(texts):
        calls.append(texts)
        return lengths(texts)

    outcomes = drive(Twice(), docs("a", "bb"), [None, None], {Embed: answer})

    assert calls == [["a", "bb"], ["a", "again", "bb", "again"]]
    assert [p.context for (p,) in outcomes] == ["1.0 1.0", "2.0 2.0"]
    assert drive(Outer(), docs("a", "bb"), [None, None], {Embed: lengths}) == outcomes


def test_a_document_whose_answer_fails_stops_no_other():
    def answer(texts):
        if any("bad" in t for t in texts):
            raise DocumentError("too_large", "longer than the window")
        return lengths(texts)

    good, bad = drive(Twice(), docs("good", "bad"), [None, None], {Embed: answer})

    assert good[0].span == (0, 4)
    assert bad.kind == "too_large"


@dataclass(frozen=True, slots=True)
class Picky:
    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        return [Piece(Span(0, len(doc.text) // (len(doc.text) - 3)))]


def test_an_error_in_a_strategy_is_that_documents_failure_with_its_place():
    cut = chunking(Picky(), size=10, unit="chars")

    good, bad = chunk_all(docs("four", "bad"), cut, ANSWERS)

    assert [c.text for c in good] == ["four"]
    assert bad.kind == "internal"
    assert "ZeroDivisionError" in bad.message
    assert "test_drive.py" in bad.message


@dataclass(frozen=True, slots=True)
class Wrong:
    gives: object
    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        return self.gives


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        ([Piece(Span(5, 9))], "left out the text at 0: 'some'"),
        ([Piece(Span(0, 99))], "outside the text of 9"),
        ((Piece(Span(0, 9)),), "a list of Piece, not tuple"),
        (None, "not NoneType"),
    ],
)
def test_a_strategy_that_breaks_its_word_is_told_how(gives, says):
    (outcome,) = chunk_all(docs("some text"), chunking(Wrong(gives), size=20, unit="chars"), ANSWERS)

    assert outcome.kind == "internal"
    assert says in outcome.message


@dataclass(frozen=True, slots=True)
class Boom:
    """For the tests of the job, which name it as test_drive:Boom."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        return 1 // 0


@dataclass(frozen=True, slots=True)
class LoseCode:
    """For the tests of the job: leaves out text of one document."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        return [Piece(Span(5 if doc.uri.endswith(".py") else 0, len(doc.text)))]
