"""`chunkmill eval`: what it is asked, and where its answers go."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.jobs.completion import search_modes, strategy_names
from chunkmill.jobs.pages import counted

EVERY_S = 5.0  # between two lines of a log


def evaluation(
    corpus: Annotated[str, typer.Argument(help="The documents: a folder, a file or s3:// URI.")],
    questions: Annotated[str, typer.Argument(help="Questions with their answers: CSV or JSON Lines; see the README.")],
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[STRATEGY]...", help="The same as --strategies.", show_default=False)
    ] = None,
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
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Without vectors, by words alone; not for job files.")] = False,
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
    from chunkmill.jobs import cli
    from chunkmill.jobs.contenders import contenders
    from chunkmill.jobs.evaluate import evaluate
    from chunkmill.jobs.questions import read

    given = [*(strategies or ()), *(more or ())]
    base: dict[str, Any] = {"input": corpus, **cli.overridden({"size": size, "overlap": overlap}, model, no_embed)}
    base |= {name: files for name, files in {"include": include, "exclude": exclude}.items() if files}
    if make_questions:
        make(base, questions, given, make_questions, seed, as_json=as_json)
        return
    check([path for path in (html, csv) if path])
    watch, modes, asked = Lines(), search or ["words" if no_embed else "vectors"], read(questions)
    try:
        found = evaluate(contenders(given, base), asked, modes=modes, k=k, seed=seed, leave_out=questions, say=watch)
    finally:
        watch.close()
    give(found, html, csv, as_json=as_json)


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


def make(base: dict[str, Any], target: str, given: list[str], number: int, seed: int, *, as_json: bool) -> None:
    """Draft questions into a file that is not there yet. Raises RunError where none can be made."""
    from chunkmill.jobs import questions, readers
    from chunkmill.jobs.contenders import contenders
    from chunkmill.jobs.oracle import oracle

    if Path(target).exists():
        raise ConfigError(f"{target!r} is there already; give --make-questions a new file")
    if len(given) != 1:
        raise ConfigError("--make-questions takes one job file, whose llm drafts them: --strategies job.yaml")
    ((_, job),) = contenders(given, base)
    check([target])
    with oracle(job) as ask:
        corpus = readers.Parsed(target, lambda line: None).of(job)
        drafted = questions.draft(corpus.docs, number, ask, seed=seed)
    for why, n in drafted.refused.most_common():
        print(f"{counted(n, 'answer')} of no use: {why}", file=sys.stderr)
    if not drafted.questions:
        raise RunError(f"no question could be drafted, and {target!r} was not written")
    write(target, "".join(questions.as_line(q) + "\n" for q in drafted.questions))
    if as_json:
        print(json.dumps({"output": target, "questions": len(drafted.questions), "refused": dict(drafted.refused)}))
    print(f"{counted(len(drafted.questions), 'question')} in {target}; read them before you trust them", file=sys.stderr)


def write(path: str, text: str) -> None:
    """Write a file. Raises ConfigError where that can't be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path!r} can't be written: {error.strerror}") from None


def check(paths: Sequence[str]) -> None:
    """Whether these files can be written: before the work for them, not after. Raises ConfigError."""
    for path in paths:
        new = not Path(path).exists()
        try:
            Path(path).open("a").close()
        except OSError as error:
            raise ConfigError(f"{path!r} can't be written: {error.strerror}") from None
        if new:
            Path(path).unlink()


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
