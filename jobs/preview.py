"""How one file would be cut, before anything runs: in the terminal, as JSON, or as a page (previewpage.py). Without Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkmill.chunkers.api import Answers, chunk_all
from chunkmill.chunkers.base import Complete, Document, Embed
from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.chunkers.finish import Chunk
from chunkmill.chunkers.seams import VISIBLE
from chunkmill.chunkers.strategies import SHARED
from chunkmill.io.corpus import list_sources
from chunkmill.jobs import backends, config, documents
from chunkmill.jobs.charts import NO_SIZES, Sizes
from chunkmill.jobs.config import Job
from chunkmill.jobs.pages import counted, line, shown
from chunkmill.jobs.settings import DEFAULT_TOKENIZER

COLOURS = ("cyan", "green", "yellow", "magenta")
JOB_FILES = (".yaml", ".yml")
EMPTY = "empty: there is no text in it, and so no chunk"


class Cut(NamedTuple):
    """One way to cut a document: `doc` and its chunks, or the `error` that the document or the strategy met."""

    job: Job
    doc: Document
    chunks: Sequence[Chunk] = ()
    error: DocumentError | None = None
    why: str = ""

    @property
    def leaves(self) -> list[Chunk]:
        """The chunks that are cut no further."""
        return [c for c in self.chunks if not c.level]

    @property
    def sizes(self) -> Sizes:
        """Of the leaves, in the unit of the job."""
        return NO_SIZES.plus([c.n_tokens for c in self.leaves])


class Seen(NamedTuple):
    """A document and the ways it was cut. `last`: of its source; `data` are the bytes of a source that is one document."""

    uri: str
    format: str
    cuts: Sequence[Cut]
    last: bool = True
    data: bytes = b""


def jobs(source: str, given: str | None, overrides: Mapping[str, Any], compare: str | None = None) -> list[Job]:
    """The job that a file is looked at with, and the one to compare it with: a job file, or another strategy in the first."""
    if given and not given.endswith(JOB_FILES):
        raise ConfigError(f"{given!r} is no job file ({JOB_FILES[0]}); preview looks at one file")
    over = {**overrides, "input": source, "output": f"{source}.chunks"}
    found = [_loaded(given, over)]
    if compare and compare.endswith(JOB_FILES):
        found.append(_loaded(compare, {key: over[key] for key in ("input", "output")}))
    elif compare:
        base = found[0].model_dump(mode="json", exclude_unset=True)
        shared = {key: value for key, value in base.get("chunk", {}).items() if key in SHARED}
        found.append(config.load(base | {"chunk": shared | {"strategy": compare}}))
    return found


def _loaded(given: str | None, over: Mapping[str, Any]) -> Job:
    """The job; where no model was asked for and none is there, sizes are those of the default tokenizer."""
    try:
        return config.load(given or {}, over)
    except ConfigError as error:
        if given or "embed" in over:
            raise
        try:
            return config.load({}, {**over, "embed": None})
        except ConfigError:
            raise error from None


def preview(source: str, jobs: Sequence[Job], most: int) -> list[Seen]:
    """The first `most` documents of a file, cut by each job. Raises ConfigError."""
    row = _listed(source)
    data = documents.read(row, jobs[0].run.max_file_bytes)
    cuts = [[*_cuts(row, data, job, most)] for job in jobs]
    whole = data if isinstance(data, bytes) and len(cuts[0]) == 1 else b""
    return [_seen(*zip(*of_each, strict=True), whole) for of_each in zip(*cuts, strict=False)]


def _seen(known: Sequence[Mapping[str, Any]], cuts: Sequence[Cut], data: bytes) -> Seen:
    return Seen(known[0]["uri"], known[0]["format"], cuts, known[0]["last"], data)


def _listed(source: str) -> dict[str, Any]:
    table = next(list_sources(source), None)
    if table is None or len(table) != 1:
        first = f"; it holds {table['uri'][0].as_py()}, for example" if table else "; it holds none"
        raise ConfigError(f"preview looks at one file, and {source!r} is a folder{first}")
    return {**table.to_pylist()[0], "known": False, "known_hash": None, "ledger": None}


def _cuts(
    source: documents.Source, data: bytes | DocumentError, job: Job, most: int
) -> Iterator[tuple[Mapping[str, Any], Cut]]:
    """Of each document what is known of it, and how this job cuts it."""
    asked = answers(job)
    for row in islice(documents.documents(source, data, job), most):
        yield row.values, cut(row.document, row.error, job, asked)


def cut(doc: Document | None, error: DocumentError | None, job: Job, answers: Answers) -> Cut:
    """A document as this job cuts it."""
    if doc is None or not VISIBLE.search(doc.text):
        return Cut(job, doc or Document("", "", ""), error=error)
    (outcome,) = chunk_all([doc], job.chunking, answers)
    if isinstance(outcome, DocumentError):
        return Cut(job, doc, error=outcome)
    return Cut(job, doc, outcome, why=_why(job, doc) if hasattr(job.chunking.strategy, "explain") else "")


def _why(job: Job, doc: Document) -> str:
    from chunkmill.jobs import forecast  # it brings Ray, which takes seconds to import

    return forecast.why(job, doc)


def answers(job: Job) -> Answers:
    """What answers the requests of the job's strategy: its model is loaded only if it asks. Raises ConfigError."""
    needs = job.chunking.needs
    if Complete in needs:
        raise ConfigError("this job asks a language model, and preview asks none: give another --strategy or --context")
    return {Embed: backends.load(job.embedding, job.model).embed} if Embed in needs else {}


def settings(job: Job) -> str:
    """How a job cuts, in one line."""
    c, chunking = job.chunk, job.chunking
    parts = [c.strategy, f"at most {chunking.size:,} {unit(job)}"]
    parts += [f"overlap {chunking.overlap:,}"] if chunking.overlap else []
    parts += [f"context {c.context}"] if c.context != "none" else []
    parts += [f"{key} {value}" for key, value in c.options.items()]
    return " · ".join(parts)


def unit(job: Job) -> str:
    """What sizes are counted in."""
    if job.chunk.unit != "tokens":
        return job.chunk.unit if job.chunk.unit in ("chars", "words") else f"tokens of {job.chunk.unit}"
    if not job.embed:
        return f"tokens of {DEFAULT_TOKENIZER}"
    found = backends.backend(job.embed.backend).unit(job.embed, job.model)  # a tokenizer's name, or the model that has its own
    return f"tokens of {found if isinstance(found, str) else job.embed.model.rstrip('/').rpartition('/')[2]}"


def repeated(leaves: Sequence[Chunk]) -> list[int]:
    """Of each chunk how many characters at its start the chunks before it hold too."""
    found, end = [], 0
    for c in leaves:
        if c.spans:  # gathered from between the others
            found.append(0)
            continue
        found.append(max(0, min(end, c.end) - c.start))
        end = max(end, c.end)
    return found


def facts(cut: Cut) -> dict[str, Any]:
    """The numbers of a cut."""
    leaves, twice = cut.leaves, sum(repeated(cut.leaves))
    held = sum(end - start for c in leaves for start, end in c.ranges)
    sizes = cut.sizes.summary()
    return {
        **sizes,
        "limit": cut.job.chunking.size,
        "full": round(sizes["mean"] / cut.job.chunking.size, 3),
        "repeated": round(twice / max(1, held - twice), 3),
        "parents": len(cut.chunks) - len(leaves),
    }


def shared(a: Cut, b: Cut) -> int:
    """How many boundaries inside the text two cuts have in common."""
    inside = [{c.start + n for c, n in zip(x.leaves, repeated(x.leaves), strict=True)} - {0} for x in (a, b)]
    return len(inside[0] & inside[1])


def as_json(seen: Sequence[Seen]) -> list[dict[str, Any]]:
    """All of it, for machines."""
    return [{"uri": s.uri, "format": s.format, "last": s.last, "cuts": [_cut_json(cut) for cut in s.cuts]} for s in seen]


def _cut_json(cut: Cut) -> dict[str, Any]:
    return {
        "chunk": cut.job.chunk.model_dump(mode="json"),
        "unit": unit(cut.job),
        "characters": len(cut.doc.text),
        "error": {"kind": cut.error.kind, "message": cut.error.message} if cut.error else None,
        "why": cut.why,
        "sizes": facts(cut),
        "chunks": [c._asdict() for c in cut.chunks],
    }


# In the terminal


def show(seen: Sequence[Seen], most: int, console: Console) -> None:
    """The documents, and of each cut the first so many chunks in colour (0: all)."""
    for nth, s in enumerate(seen):
        if nth:
            console.print()
        console.print(Text(f"{line(s.uri)}  ({s.format}, {len(s.cuts[0].doc.text):,} characters)", "bold"), soft_wrap=True)
        console.print(summary(s), highlight=False)
        for cut in s.cuts:
            _show_cut(cut, most, console)
    if seen and not seen[-1].last:
        console.print(Text(f"\n{more(len(seen))}", "dim"), soft_wrap=True)


def more(documents: int) -> str:
    """That a source holds more than these documents."""
    return f"The source holds more than {counted(documents, 'document')}: --documents says how many are looked at."


def summary(seen: Seen) -> Table:
    """A line for each cut: its settings and its sizes."""
    grid = Table("cut", "chunks", "mean", "median", "min", "max", "repeated", box=None, pad_edge=False, header_style="bold")
    for cut in seen.cuts:
        f = facts(cut)
        above = f" + {f['parents']:,} above" if f["parents"] else ""
        sizes = [f"{f[name]:,}" for name in ("mean", "median", "min", "max")]
        grid.add_row(Text(settings(cut.job)), f"{f['number']:,}{above}", *sizes, f"{f['repeated']:.0%}")
    if len(seen.cuts) == 2:
        grid.add_row(Text("boundaries in common"), f"{shared(*seen.cuts):,}", style="dim")
    return grid


def _show_cut(cut: Cut, most: int, console: Console) -> None:
    if cut.error:
        console.print(Text(f"failed, {shown(str(cut.error))}", "red"), soft_wrap=True)
    elif not cut.chunks:
        console.print(Text(EMPTY), soft_wrap=True)
    if cut.why:
        console.print(Text(f"why: {shown(cut.why)}", "italic"), soft_wrap=True)
    chosen = cut.chunks[: most or None]
    twice = repeated(chosen)
    for i, (chunk, n) in enumerate(zip(chosen, twice, strict=True)):
        console.print(Text(f"\n── {title(chunk, n)}", f"bold {COLOURS[i % len(COLOURS)]}"), soft_wrap=True)
        if chunk.context:
            console.print(Text(shown(chunk.context), "dim"), soft_wrap=True)
        console.print(_body(chunk, n, COLOURS[i % len(COLOURS)]), soft_wrap=True)
    if rest := len(cut.chunks) - len(chosen):
        console.print(Text(f"\n… and {rest:,} more: --chunks 0 prints all, --html makes a page of them", "dim"), soft_wrap=True)


def title(chunk: Chunk, repeated: int = 0) -> str:
    """Number, size, place and headings of a chunk, in one line."""
    pages = {p for p in (chunk.page_start, chunk.page_end) if p is not None}
    parts = [
        f"{chunk.ordinal + 1}",
        f"{chunk.n_tokens:,}",
        f"{chunk.start:,}–{chunk.end:,}" + (f" in {len(chunk.spans)} places" if len(chunk.spans) > 1 else ""),
        *([f"level {chunk.level}"] if chunk.level else []),
        *([f"page {'–'.join(map(str, sorted(pages)))}"] if pages else []),
        *([f"the first {repeated:,} characters repeat"] if repeated else []),
        *([line(" > ".join(chunk.heading_path))] if chunk.heading_path else []),
    ]
    return " · ".join(parts)


def _body(chunk: Chunk, repeated: int, colour: str) -> Text:
    known, fresh = (chunk.text[:repeated], chunk.text[repeated:]) if not chunk.level else ("", chunk.text)
    return Text.assemble((shown(known), f"dim underline {colour}"), (shown(fresh), colour))
