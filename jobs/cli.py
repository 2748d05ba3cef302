"""The command line. Flags and job files share one schema (config.Job)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from chunkmill import __version__
from chunkmill.chunkers.errors import ChunkmillError, ConfigError
from chunkmill.jobs import commands
from chunkmill.jobs.completion import search_modes
from chunkmill.jobs.pages import line, shown

app = typer.Typer(
    name="chunkmill", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=True
)
JOB_FILES = (".yaml", ".yml")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Turn a corpus into chunks and vectors: exact, as a batch job on Ray."""
    if version:
        print(f"chunkmill {__version__}")
        raise typer.Exit


@app.command()
def run(
    source: Annotated[str, typer.Argument(metavar="JOB.yaml|INPUT", help="A job file, or a folder, file or s3:// URI.")],
    output: Annotated[str | None, typer.Argument(help="Where the dataset is: a folder or s3:// URI.")] = None,
    strategy: commands.Strategy = None,
    size: Annotated[int | None, typer.Option(help="The most a chunk may hold, in units.")] = None,
    overlap: Annotated[str | None, typer.Option(help="Units repeated from the chunk before, or a share like 15%.")] = None,
    unit: Annotated[str | None, typer.Option(help="tokens, chars, words, or an encoding such as o200k_base.")] = None,
    context: Annotated[str | None, typer.Option(help="none, or headings: embed the heading path with each chunk.")] = None,
    model: Annotated[str | None, typer.Option(help="Embedding model: hub id or local folder.")] = None,
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Chunks only, no vectors.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read everything: the content decides what changed, not its date.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a job: list the input, process what is new or changed, publish it in one commit."""
    from chunkmill.jobs import config, pipeline, progress

    chunk = {"strategy": strategy, "size": size, "overlap": overlap, "unit": unit, "context": context}
    overrides = overridden(chunk, model, no_embed) | ({"run": {"verify": True}} if verify else {})
    watch = progress.Progress()
    job = config.load(*located(source, output, overrides))
    try:
        summary = pipeline.run(job, watch)
    except KeyboardInterrupt:
        print("\nchunkmill: stopped; nothing was published", file=sys.stderr)
        raise typer.Exit(130) from None
    finally:
        watch.close()
    if as_json:
        print(json.dumps(progress.as_json(summary)))
    else:
        progress.show(summary, job.output, Console())


def overridden(chunk: dict[str, Any], model: str | None, no_embed: bool) -> dict[str, Any]:
    """What the flags change, in the shape of a job file."""
    if model and no_embed:
        raise ConfigError("--model and --no-embed contradict each other; give one of them")
    given: dict[str, Any] = {key: value for key, value in chunk.items() if value is not None}
    overrides: dict[str, Any] = {"chunk": given} if given else {}
    if no_embed:
        overrides["embed"] = None
    elif model:
        overrides["embed"] = {"model": model}
    return overrides


def located(source: str, output: str | None, overrides: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The job file, or a mapping of input and output, and what is laid over it."""
    if source.endswith(JOB_FILES) and not source.startswith("s3://"):
        return source, overrides | ({"output": output} if output else {})
    if not output:
        raise ConfigError(
            f"where to? give the dataset too: {source} OUTPUT (a folder or s3:// URI), or a job file ({JOB_FILES[0]})"
        )
    return {"input": source, "output": output}, overrides


@app.command()
def search(
    dataset: Annotated[str, typer.Argument(help="The output of a run.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many chunks.")] = 5,
    mode: Annotated[
        str,
        typer.Option(
            help="Find by vectors, words or hybrid (both); in a hierarchy by sentences (its leaves too) or full (all).",
            autocompletion=search_modes,
        ),
    ] = "vectors",
    parents: Annotated[
        bool, typer.Option("--parents", help="Of a hierarchy: find by the leaves, give the chunks that hold them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the chunks nearest to a query, by exact search over all of them."""
    from chunkmill.jobs.search import search as found

    hits = found(dataset, query, k, mode, parents=parents)
    if as_json:
        print(json.dumps([h.as_json() for h in hits], ensure_ascii=False))
        return
    if not hits:
        print("nothing was found", file=sys.stderr)
    console = Console(width=None if sys.stdout.isatty() else 10_000)
    for hit in hits:
        place = [
            hit.uri,
            *([" > ".join(hit.heading_path)] if hit.heading_path else []),
            *([f"page {hit.page}"] if hit.page else []),
        ]
        head = line(f"{hit.score:.3f}  {'  ·  '.join(place)}")
        console.print(head, style="bold", highlight=False, soft_wrap=True, markup=False)
        console.print(shown(shortened(hit.text)), highlight=False, markup=False)
        for leaf in hit.leaves[:1]:
            console.print(shown(f"found by: {shortened(leaf.text)}"), style="dim", highlight=False, markup=False)
        console.print()


def shortened(text: str, most: int = 280) -> str:
    """The beginning of a text on one line."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1] + "…"


@app.command()
def strategies(as_json: Json = False) -> None:
    """List the strategies: what each does and what it needs."""
    from chunkmill.chunkers.strategies import STRATEGIES, needs

    rows = [{"name": n, "describes": e.describes, "needs": needs(e.cls)} for n, e in STRATEGIES.items()]
    _table(rows, as_json)


@app.command()
def formats(as_json: Json = False) -> None:
    """List the formats: what each is and which names it goes by."""
    from chunkmill.io.parsers import FORMATS

    rows = [{"name": f.name, "describes": f.describes, "extensions": list(f.extensions)} for f in FORMATS.values()]
    _table(rows, as_json)


def _table(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows))
        return
    grid = Table(*rows[0], box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(" ".join(v) if isinstance(v, list) else v for v in row.values()))
    Console().print(grid, highlight=False)


commands.register(app)


@contextmanager
def reported() -> Iterator[None]:
    """Errors as a line on standard error and an exit code: 2 for the user's, 1 for the run's."""
    try:
        yield
    except ConfigError as error:
        print(f"chunkmill: {shown(str(error))}", file=sys.stderr)
        sys.exit(2)
    except ChunkmillError as error:
        print(f"chunkmill: {shown(str(error))}", file=sys.stderr)
        sys.exit(1)


def main(command: Callable[[], Any] = app) -> None:
    """The entry point of `chunkmill` and `python -m chunkmill.jobs`."""
    sys.path.append(os.getcwd())  # where a strategy of the user's own may be
    with reported():
        command()
