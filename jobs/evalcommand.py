"""`chunkmill eval`: what it is asked, and where its answers go."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from chunkmill.chunkers.errors import ConfigError
from chunkmill.jobs.completion import search_modes, strategy_names

EVERY_S = 5.0  # between two lines of a log


def evaluation(
    corpus: Annotated[str, typer.Argument(help="The documents: a folder, a file or s3:// URI.")],
    questions: Annotated[str, typer.Argument(help="Questions with their answers: CSV or JSON Lines; see the README.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="[STRATEGY]...", show_default=False)] = None,
    strategies: Annotated[
        list[str] | None,
        typer.Option(
            help="What to compare: names of strategies, '{strategy: optimal, size: 150}', or job files.",
            autocompletion=strategy_names,
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Chunks that a question is answered with.")] = 5,
    search: Annotated[
        list[str] | None,
        typer.Option(help="vectors, sentences, words, hybrid or full; give it again to compare.", autocompletion=search_modes),
    ] = None,
    size: Annotated[int | None, typer.Option(help="The most a chunk may hold; not for job files.")] = None,
    overlap: Annotated[str | None, typer.Option(help="Units or a share such as 15%; not for job files.")] = None,
    model: Annotated[str | None, typer.Option(help="Embedding model; not for job files.")] = None,
    include: Annotated[list[str] | None, typer.Option(help="Only these files, by patterns as in .gitignore.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Not these files.")] = None,
    html: Annotated[str | None, typer.Option(help="Write a page with plots.")] = None,
    csv: Annotated[str | None, typer.Option(help="Write the table as CSV.")] = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap, and of the passages questions are made from.")] = 0,
    make_questions: Annotated[
        int | None, typer.Option(min=1, help="Draft so many questions by the language model of a job file, into QUESTIONS.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Compare strategies by questions whose answers are known, with the error bars of the comparison."""
    from chunkmill.jobs.contenders import contenders
    from chunkmill.jobs.evaluate import evaluate
    from chunkmill.jobs.questions import read

    given = [*(strategies or ()), *(more or ())]
    chunk = {"size": size, "overlap": overlap}
    base: dict[str, Any] = {"input": corpus, "chunk": {name: v for name, v in chunk.items() if v is not None}}
    base |= given_ones(include=include, exclude=exclude, embed={"model": model} if model else None)
    if make_questions:
        make(base, questions, given, make_questions, seed)
        return
    watch = Lines()
    modes, asked = search or ["vectors"], read(questions)
    found = evaluate(contenders(given, base), asked, modes=modes, k=k, seed=seed, leave_out=questions, say=watch)
    watch.close()
    give(found, html, csv, as_json=as_json)


def given_ones(**settings: Any) -> dict[str, Any]:
    """The settings that were given."""
    return {name: value for name, value in settings.items() if value}


def give(found: Any, html: str | None, csv: str | None, *, as_json: bool) -> None:
    """Write and print what was found."""
    from chunkmill.jobs import pages, scorecard

    if html:
        pages.save(html, scorecard.as_page(found))
    if csv:
        write(csv, scorecard.as_csv(found))
    if as_json:
        print(json.dumps(scorecard.as_json(found), ensure_ascii=False, allow_nan=False))
    else:
        scorecard.show(found, Console(width=None if sys.stdout.isatty() else 10_000))


def make(base: dict[str, Any], target: str, given: list[str], number: int, seed: int) -> None:
    """Draft questions into a file that is not there yet."""
    from chunkmill.jobs import questions, readers
    from chunkmill.jobs.contenders import contenders
    from chunkmill.jobs.oracle import oracle

    if Path(target).exists():
        raise ConfigError(f"{target!r} is there already; give --make-questions a new file")
    if len(given) != 1:
        raise ConfigError("--make-questions takes one job file, whose llm drafts them: --strategies job.yaml")
    ((_, job),) = contenders(given, base)
    with oracle(job) as ask:
        corpus = readers.Parsed(target, lambda line: None).of(job)
        drafted = questions.draft(corpus.docs, number, ask, seed=seed)
    write(target, "".join(questions.as_line(q) + "\n" for q in drafted.questions))
    for why, n in drafted.refused.most_common():
        print(f"{n:,} answers were of no use: {why}", file=sys.stderr)
    print(f"{len(drafted.questions):,} questions in {target}; read them before you trust them", file=sys.stderr)


def write(path: str, text: str) -> None:
    """Write a file. Raises ConfigError where that can't be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path!r} can't be written: {error.strerror}") from None


class Lines:
    """What is being done, on standard error: one line that moves in a terminal, a line now and then in a log."""

    def __init__(self) -> None:
        self.live, self.said = sys.stderr.isatty(), -EVERY_S

    def __call__(self, line: str) -> None:
        """Say it, unless something was said just now in a log."""
        now = time.monotonic()
        if self.live:
            sys.stderr.write(f"\r\x1b[K{line[:100]}")
        elif now - self.said >= EVERY_S:
            print(line, file=sys.stderr)
            self.said = now
        sys.stderr.flush()

    def close(self) -> None:
        """Clear the moving line."""
        if self.live:
            sys.stderr.write("\r\x1b[K")
