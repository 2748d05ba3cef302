"""Strategies that ask a model: batched over documents, and one that fails stops no other."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.base import Document, Embed, Piece, Span
from chunkmill.chunkers.drive import drive, pieces_of
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.hierarchical import Hierarchical, Level
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


@dataclass(frozen=True, slots=True)
class Gives:
    """Gives pieces at these spans, whatever the document."""

    spans: tuple[Span, ...]
    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        return [Piece(span) for span in self.spans]


@dataclass(frozen=True, slots=True)
class GivesOverlapping(Gives):
    overlaps: ClassVar[bool] = True


class Yields:
    """Yields pieces as an ordinary generator would."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        yield Piece(Span(0, len(doc.text)))


class Forgets:
    """Asks without having said so."""

    needs: ClassVar[frozenset[type]] = frozenset()

    def __call__(self, doc, budget):
        yield Embed([doc.text])


class Nothing(Yields):
    def __call__(self, doc, budget):
        return None


class GivesSpans(Yields):
    def __call__(self, doc, budget):
        return [Span(0, len(doc.text))]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (Gives((Span(4, 7), Span(0, 4))), r"a piece at \(0, 4\) behind the one at \(4, 7\)"),
        (Gives((Span(0, 5), Span(3, 7))), r"`overlaps: ClassVar\[bool\] = True`"),
        (Yields(), "must give a list of Piece, not Piece .a generator yields Embed or Complete, and returns the list"),
        (GivesSpans(), r"must give a list of Piece; there is Span\(start=0, end=7\)"),
        (Hierarchical((Level(Yields(), 9),)), "must give a list of Piece, not Piece"),
        (Hierarchical((Level(Nothing(), 9),)), "must give a list of Piece, not NoneType"),
        (Nothing(), "must give a list of Piece, not NoneType"),
        (Forgets(), "asks for Embed; its `needs` must name it"),
    ],
)
def test_a_strategy_that_breaks_the_rules_is_told_which(made, says):
    (outcome,) = chunk_all(docs("one two"), chunking(made), {})

    assert isinstance(outcome, DocumentError)
    with pytest.raises(DocumentError, match=says):
        raise outcome


def test_a_strategy_that_says_so_places_its_own_overlap():
    (chunks,) = chunk_all(docs("one two"), chunking(GivesOverlapping((Span(3, 7), Span(0, 5)))), {})

    assert [c.text for c in chunks] == ["one t", "two"]


TWO = "One cat sat. Two dogs ran."


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (lambda texts: None, ConfigError, "gave an array of 0 dimensions; it must give a row a text"),
        (lambda texts: [1.0] * len(texts), ConfigError, "gave an array of 1 dimensions"),
        (lambda texts: [[1.0], [1.0, 2.0]], ConfigError, "gave list; it must give a vector a text"),
        (lambda texts: [["a"]] * len(texts), ConfigError, "gave list; it must give a vector a text"),
        (lambda texts: [[1.0, float("nan")]] * len(texts), DocumentError, "numbers that are not finite"),
        (lambda texts: [[1.0, 0.0]], DocumentError, "gave 1 answers to 2 texts"),
    ],
)
def test_vectors_that_are_none_are_refused(answer, error, says):
    with pytest.raises(error, match=says):
        chunk(TWO, "semantic", size=6, unit="words", answers={Embed: answer})


def test_vectors_may_be_lists():
    rows = {"One cat sat.": [1.0, 0.0], "Two dogs ran.": [0.0, 1.0]}

    chunks = chunk(TWO, "semantic", size=6, unit="words", answers={Embed: lambda texts: [rows[t] for t in texts]})

    assert "".join(c.text for c in chunks).replace(" ", "") == TWO.replace(" ", "")


def test_answers_are_by_kind():
    with pytest.raises(ConfigError, match=r"answers is function; it must be a dict: \{Embed: function\}"):
        chunk(TWO, "semantic", answers=lambda texts: texts)
