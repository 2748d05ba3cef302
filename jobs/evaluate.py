"""Which strategy answers these questions best: the job's own stages on one corpus under several recipes, scored and compared.

Documents are parsed once, a model is loaded once, and a text is embedded once, however many strategies use it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Complete, Document, Embed, Offsets, Span, Vectors
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.finish import Chunk
from chunkmill.chunkers.seams import sentences
from chunkmill.jobs import metrics, ranking, rows
from chunkmill.jobs.charts import counted_in
from chunkmill.jobs.config import Job
from chunkmill.jobs.metrics import BUDGETS, Interval, Values
from chunkmill.jobs.oracle import oracle
from chunkmill.jobs.pages import counted
from chunkmill.jobs.questions import Lost, Placed, Question, place
from chunkmill.jobs.ranking import Chunks, Mode, Queries, family, flat, order
from chunkmill.jobs.readers import Corpus, Failure, Parsed, Reader, Readers, Say

BLOCK = 64  # questions ranked at once
ERROR = 0.05  # of all comparisons together
HEADLINE = "within 2000"
DEEP = 4_000  # places of a ranking looked at: no budget reaches further


class Contender(NamedTuple):
    """A recipe that takes part, under its name."""

    name: str
    job: Job


class Cut(NamedTuple):
    """A corpus in chunks. `spans`: (m, 2) on the axis; `holders`: (m,) the chunk that each span is of, ascending: one that is
    gathered has several; `owners`: the document of each chunk; `asked`: texts that the strategy had the model read.
    """

    outcomes: list[list[Chunk] | DocumentError]
    chunks: list[Chunk]
    spans: Offsets
    holders: Offsets
    owners: Offsets
    asked: set[str]
    seconds: float

    @property
    def texts(self) -> set[str]:
        """What the model reads to give each chunk a vector."""
        return {c.embedded for c in self.chunks}

    @property
    def sizes(self) -> Offsets:
        """The size of each chunk, in the unit of the job."""
        return np.array([c.n_tokens for c in self.chunks])

    @property
    def lengths(self) -> Offsets:
        """The characters of each chunk."""
        found = np.zeros(len(self.chunks), np.int64)
        np.add.at(found, self.holders, self.spans[:, 1] - self.spans[:, 0])
        return found

    @property
    def lines(self) -> Offsets:
        """What `Chunks.lines` says."""
        return ranking.lines_of(self.owners, np.array([c.level for c in self.chunks], np.int64))

    def take(self, at: Offsets) -> Cut:
        """Some of the chunks."""
        numbers = np.repeat(np.arange(len(at)), [len(self.chunks[i].ranges) for i in at])
        chunks = [self.chunks[i] for i in at.tolist()]
        return self._replace(
            chunks=chunks, spans=np.array(self.held(at)).reshape(-1, 2), holders=numbers, owners=self.owners[at]
        )

    def held(self, at: Offsets) -> list[Span]:
        """What some of the chunks hold, on the axis."""
        first, last = (self.holders.searchsorted(at, side) for side in ("left", "right"))
        return [Span(*self.spans[i].tolist()) for a, b in zip(first, last, strict=True) for i in range(a, b)]


@dataclass(slots=True)
class Result:
    """How one recipe did under one kind of search. `values`: of every measure a value for each question."""

    name: str
    search: str
    values: dict[str, Values]
    sizes: Offsets  # of each chunk, in `unit`
    lengths: Offsets  # characters of each chunk
    tokens: int  # that the model read for it
    seconds: float  # cutting, and those tokens at the pace of this run
    failed: list[Failure]  # documents that could not be cut
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What its sizes are counted in."""
        return counted_in(self.settings["chunk"]["unit"])

    @property
    def label(self) -> str:
        """Its name in tables."""
        return f"{self.name} · {self.search}" if self.search != "vectors" else self.name

    def mean(self, measure: str) -> float:
        """Over the questions that have it; NaN without any."""
        known = self.values[measure][~np.isnan(self.values[measure])]
        return float(known.mean()) if len(known) else float("nan")


class Comparison(NamedTuple):
    """The best result and another one, and of each measure the interval of the paired differences."""

    better: str
    worse: str
    differences: dict[str, Interval]


@dataclass(slots=True)
class Evaluation:
    """All of it."""

    k: int
    seed: int
    questions: int
    documents: int
    results: list[Result]
    comparisons: list[Comparison]
    lost: list[Lost]
    failed: list[Failure]
    pace: float  # tokens embedded per second


def evaluate(
    contenders: Sequence[Contender],
    questions: Sequence[Question],
    *,
    modes: Sequence[str] = ("vectors",),
    k: int = 5,
    seed: int = 0,
    leave_out: str = "",
    say: Say = lambda line: None,
) -> Evaluation:
    """The contenders on these questions, in the order given. `leave_out`: a file of the corpus that is no document.

    Raises ConfigError where nothing can be compared; what can't be scored is in the result.
    """
    chosen = {name: ranking.mode(name) for name in modes}
    vectors = any(mode.vectors for mode in chosen.values())
    if blind := [c.name for c in contenders if vectors and not c.job.embed]:
        raise ConfigError(f"{blind[0]} makes no vectors, and the search needs them; give it a model, or --search words")
    corpora = Parsed(leave_out, say)
    asked, lost = placed(questions, [corpora.of(c.job) for c in contenders])
    if not asked:
        raise ConfigError(f"no question can be scored: {lost[0].why} ({lost[0].excerpt[:60]!r})" if lost else "no questions")
    readers = Readers(say)
    results: list[Result] = []
    for contender, gold in zip(contenders, zip(*asked, strict=True), strict=True):
        job = contender.job
        reader = readers.of(job) if job.embed and (vectors or Embed in job.chunking.needs) else None
        results += compared(contender, corpora.of(job), gold, chosen, reader, k, say)
    for result in results:
        result.seconds += result.tokens / readers.pace if readers.pace else 0.0
    first = corpora.of(contenders[0].job)
    found = comparisons(results, k, seed)
    return Evaluation(k, seed, len(asked), len(first.docs), results, found, lost, first.failed, readers.pace)


def placed(questions: Sequence[Question], corpora: Sequence[Corpus]) -> tuple[list[tuple[Placed, ...]], list[Lost]]:
    """Each question in terms of every contender's documents; only those that all of them have, so that all are asked alike."""
    known: dict[int, tuple[list[Placed | None], list[Lost]]] = {}
    for corpus in corpora:
        if id(corpus) not in known:
            known[id(corpus)] = each(questions, corpus.docs)
    columns = zip(*(known[id(corpus)][0] for corpus in corpora), strict=True)
    whole = [tuple(p for p in row if p) for row in columns]
    lost = dict.fromkeys(chain.from_iterable(found for _, found in known.values()))
    return [row for row in whole if len(row) == len(corpora)], list(lost)


def each(questions: Sequence[Question], docs: Sequence[Document]) -> tuple[list[Placed | None], list[Lost]]:
    """Of each question its place in the documents, None where it has none."""
    found: list[Placed | None] = []
    lost: list[Lost] = []
    for question in questions:
        here, gone = place([question], docs)
        found.append(here[0] if here else None)
        lost += gone
    return found, lost


def compared(
    contender: Contender,
    corpus: Corpus,
    gold: Sequence[Placed],
    modes: Mapping[str, Mode],
    reader: Reader | None,
    k: int,
    say: Say,
) -> Iterator[Result]:
    """One contender under each kind of search."""
    name, job = contender
    say(f"cutting: {name}")
    done = cut(job, corpus, reader)
    found, stored = searched(job, corpus, done, reader, [*modes.values()])
    failures = zip(corpus.docs, done.outcomes, strict=True)
    uncut = [Failure(doc.uri, why.kind, why.message) for doc, why in failures if isinstance(why, DocumentError)]
    texts = [g.text for g in gold]
    queries = Queries(texts, reader.queries(texts) if reader else np.empty((0, 0), np.float32))
    for label, mode in modes.items():
        say(f"asking {counted(len(gold), 'question')}: {name}, {label}")
        chunks = done if found.held is None else done.take(found.held)
        values = scored(ranked(mode, found, queries), chunks, gold, corpus, k)
        read = done.asked | (stored if mode.parts else done.texts if mode.vectors else set())
        tokens = reader.size([*read]) if reader else 0
        yield Result(name, label, values, chunks.sizes, chunks.lengths, tokens, done.seconds, uncut, described(job))


def cut(job: Job, corpus: Corpus, reader: Reader | None) -> Cut:
    """The corpus cut as the job says."""
    asked: set[str] = set()

    def embed(texts: Sequence[str]) -> Vectors:
        assert reader is not None
        asked.update(texts)
        return reader.embed(texts)

    before, started = reader.seconds if reader else 0.0, time.perf_counter()
    with oracle(job) if Complete in job.chunking.needs else nullcontext() as ask:
        answers: dict[type, Any] = {Embed: embed} | ({Complete: ask} if ask else {})
        outcomes = chunk_all(corpus.docs, job.chunking, answers)
    seconds = time.perf_counter() - started - ((reader.seconds if reader else 0.0) - before)
    good = [[] if isinstance(found, DocumentError) else found for found in outcomes]
    owners = np.repeat(np.arange(len(good)), [len(found) for found in good])
    chunks = [*chain.from_iterable(good)]
    holders = np.repeat(np.arange(len(chunks)), [len(c.ranges) for c in chunks])
    ranges = np.array([*chain.from_iterable(c.ranges for c in chunks)], np.int64).reshape(-1, 2)
    spans = ranges + corpus.begins[owners[holders]][:, None]
    if not chunks:
        raise ConfigError(
            f"{job.chunk.strategy} gave no chunks: {next((o for o in outcomes if isinstance(o, DocumentError)), '')}"
        )
    return Cut(outcomes, chunks, spans, holders, owners, asked, seconds)


def searched(job: Job, corpus: Corpus, done: Cut, reader: Reader | None, modes: Sequence[Mode]) -> tuple[Chunks, set[str]]:
    """What is searched, and the texts of which vectors have to be stored where sentences are searched."""
    texts = [c.embedded for c in done.chunks]
    if not reader or not any(mode.vectors for mode in modes):
        return flat(texts, np.empty((len(texts), 0), np.float32)), set()
    late = reader.embed_as.pooling == "late"
    found = flat(texts, reader.late(rows.recut(corpus.batch, done.outcomes)) if late else reader.embed(texts), done.lines)
    if not any(mode.parts for mode in modes):
        return found, set()
    if max(c.level for c in done.chunks):
        return family(found, [c.id for c in done.chunks], [c.parent_id for c in done.chunks]), done.texts
    inner = [[c.text[a:b] for a, b in sentences(c.text)] or [c.text] for c in done.chunks]
    every = [*chain.from_iterable(inner)]
    firsts = np.cumsum([0, *map(len, inner)])[:-1]
    return found._replace(parts=reader.embed(every), firsts=firsts), done.texts | set(every)


def ranked(mode: Mode, chunks: Chunks, queries: Queries) -> Iterator[Offsets]:
    """For each question the chunks from best to worst."""
    for i in range(0, len(queries.texts), BLOCK):
        some = Queries(queries.texts[i : i + BLOCK], queries.vectors[i : i + BLOCK])
        yield from order(mode.scores(chunks, some))


def scored(rankings: Iterable[Offsets], chunks: Cut, gold: Sequence[Placed], corpus: Corpus, k: int) -> dict[str, Values]:
    """Every measure for each question: (questions,); NaN where a question says nothing about it."""
    found = [_scores(best, chunks, asked, corpus, k) for best, asked in zip(rankings, gold, strict=True)]
    return {name: np.array([scores.get(name, np.nan) for scores in found]) for name in measures(k)}


def measures(k: int) -> dict[str, str]:
    """What is measured, and what it is called."""
    of_chunks = {f"recall@{k}": f"recall@{k}", "precision": "precision", "iou": "IoU", "omega": "precision-omega"}
    budgets = {f"within {n}": f"recall in {n // 1000}k chars" for n in BUDGETS}
    return of_chunks | budgets | {"context": f"chars in {k}", "hit": f"hit@{k}", "ndcg": f"nDCG@{k}"}


def _scores(best: Offsets, chunks: Cut, asked: Placed, corpus: Corpus, k: int) -> dict[str, float]:
    scores: dict[str, float] = {}
    if asked.gold:
        gold = [Span(s.start + int(corpus.begins[doc]), s.end + int(corpus.begins[doc])) for doc, s in asked.gold]
        ranking, found = chunks.held(best[:DEEP]), chunks.held(best[:k])
        scores |= {f"recall@{k}": metrics.recall(gold, found), "precision": metrics.precision(gold, found)}
        scores |= {"iou": metrics.iou(gold, found), "omega": metrics.omega(gold, chunks.spans, chunks.holders)}
        scores |= {f"within {n}": metrics.recall_within(gold, ranking, n) for n in BUDGETS}
        scores["context"] = float(metrics.length(found))
    if asked.relevant:
        docs = chunks.owners[best].tolist()
        scores |= {"hit": metrics.hit(asked.relevant, docs, k), "ndcg": metrics.ndcg(asked.relevant, docs, k)}
    return scores


def described(job: Job) -> dict[str, Any]:
    """A recipe as its job file would say it."""
    said = job.model_dump(mode="json", include={"chunk", "formats"})
    return said | {"embed": job.embed.model_dump(mode="json", exclude_defaults=True) if job.embed else None}


def comparisons(results: Sequence[Result], k: int, seed: int) -> list[Comparison]:
    """The best one by the headline with each of the others; the bounds are so wide that all of them together err with ERROR.

    That is a comparison with the best (Hsu, Annals of Statistics 9(5), 1981), bounded after Bonferroni.
    """
    best, *others = sorted(results, key=headline, reverse=True)
    return [_comparison(best, other, k, seed, ERROR / len(others)) for other in others]


def headline(result: Result) -> float:
    """What a ranking of contenders goes by: it is the one measure that a size can't be traded for, or else nDCG."""
    found = result.mean(HEADLINE)
    return result.mean("ndcg") if np.isnan(found) else found


def _comparison(better: Result, worse: Result, k: int, seed: int, error: float) -> Comparison:
    names = [name for name in measures(k) if name != "context" and not np.isnan(better.mean(name))]
    differences = {n: metrics.interval(better.values[n] - worse.values[n], error=error, seed=seed) for n in names}
    return Comparison(better.label, worse.label, differences)
