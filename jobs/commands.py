"""The commands about a dataset's life: what a run would do, what runs did, what changed, keeping it small, going back."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from chunkmill.chunkers.errors import ConfigError
from chunkmill.jobs.completion import strategy_names
from chunkmill.jobs.evalcommand import evaluation
from chunkmill.jobs.pages import counted

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Dataset = Annotated[str, typer.Argument(help="The output of a run.")]
Strategy = Annotated[str | None, typer.Option(help="How to cut; see `chunkmill strategies`.", autocompletion=strategy_names)]


def runs(dataset: Dataset, as_json: Json = False) -> None:
    """List the runs of a dataset: when, what they did, which versions they made."""
    from chunkmill.jobs import report as reports
    from chunkmill.jobs.upkeep import history

    found = history(dataset)
    print(json.dumps(found)) if as_json else reports.show_runs(found, Console())


def diff(
    dataset: Dataset,
    old: Annotated[int, typer.Argument(help="The version a reader has; see `chunkmill runs`.")],
    new: Annotated[int, typer.Argument(help="The version to come to.")],
    vectors: Annotated[bool, typer.Option(help="Give the text, the metadata and the vector of added chunks too.")] = False,
    output: Annotated[str | None, typer.Option(help="Write a Parquet file instead of JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of JSON lines.")] = False,
) -> None:
    """List the chunks to add and to remove, to bring a vector store from one version to another."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from chunkmill.io.diff import changed

    columns = ["doc_id", "uri", "heading_path", "text", "context", "metadata", "vector"] if vectors else []
    added, removed = changed(dataset, old, new, columns)
    if output:
        parts = [part.add_column(0, "op", [[op] * len(part)]) for op, part in (("add", added), ("remove", removed))]
        try:
            pq.write_table(pa.concat_tables(parts, promote_options="default"), output)
        except OSError as error:
            raise ConfigError(f"--output {output!r} can't be written: {error}") from None
        print(f"{len(added):,} to add, {len(removed):,} to remove: {output}", file=sys.stderr)
        if as_json:
            print(json.dumps({"add": len(added), "remove": len(removed), "output": output}))
        return
    if as_json:
        print(json.dumps({op: [_plain(r) for r in part.to_pylist()] for op, part in (("remove", removed), ("add", added))}))
        return
    for op, part in (("remove", removed), ("add", added)):
        for row in part.to_pylist():
            print(json.dumps({"op": op} | _plain(row), ensure_ascii=False))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return row | ({"metadata": dict(row["metadata"] or ())} if "metadata" in row else {})


def compact(dataset: Dataset, as_json: Json = False) -> None:
    """Put the small files of a dataset together, as a new version."""
    from chunkmill.jobs import upkeep

    counts = upkeep.compact(dataset)
    if as_json:
        print(json.dumps({name: {"before": a, "after": b} for name, (a, b) in counts.items()}))
        return
    print("; ".join(f"{name}: {counted(a, 'file')}, now {b:,}" for name, (a, b) in counts.items()))


def rollback(
    dataset: Dataset,
    version: Annotated[int, typer.Argument(help="The version to bring back; see `chunkmill runs`.")],
    as_json: Json = False,
) -> None:
    """Bring an older version back, as a new one. The next run does again what came after it."""
    from chunkmill.jobs import upkeep

    versions = upkeep.rollback(dataset, version)
    if as_json:
        print(json.dumps({"as": version, "versions": versions}))
        return
    print(f"version {versions['chunks']} is as version {version} was")


def plan(
    source: Annotated[str, typer.Argument(metavar="JOB.yaml|INPUT", help="A job file, or a folder, file or s3:// URI.")],
    output: Annotated[str | None, typer.Argument(help="Where the dataset is or will be.")] = None,
    strategy: Strategy = None,
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Chunks only, no vectors.")] = False,
    explain: Annotated[int, typer.Option(min=0, help="Of how many sources to say how they would be cut, and why.")] = 3,
    as_json: Json = False,
) -> None:
    """Say what a run would do, and why; nothing is read but the listing, the ledger and a few examples."""
    from chunkmill.jobs import cli, config, forecast

    overrides = cli.overridden({"strategy": strategy}, None, no_embed)
    job = config.load(*cli.located(source, output, overrides))
    found = forecast.forecast(job, explain)
    print(json.dumps(found)) if as_json else forecast.show(found, Console())


def submit(
    source: Annotated[str, typer.Argument(metavar="JOB.yaml", help="A job file whose input and output the cluster can reach.")],
    address: Annotated[str, typer.Option(help="The cluster's dashboard: http://HEAD:8265.", envvar="RAY_API_SERVER_ADDRESS")],
    name: Annotated[str, typer.Option(help="The job's id at Ray; a second job of that name is refused.")] = "",
    files: Annotated[list[str] | None, typer.Option("--with", help="A file or folder that goes along.")] = None,
    wait: Annotated[bool, typer.Option(help="Follow the log and return the job's exit code.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at the end; the log goes to standard error.")] = False,
) -> None:
    """Run a job on a Ray cluster: its code goes along, its log comes back."""
    from chunkmill.jobs import config, submit

    job = config.load(source)
    code = submit.submit(
        job.model_dump(mode="json", exclude_unset=True),
        address,
        name=name,
        files=files or (),
        wait=wait,
        say=partial(print, file=sys.stderr) if as_json else print,
    )
    if as_json:
        print(json.dumps({"address": address, "name": name or None, "exit_code": code if wait else None}))
    raise typer.Exit(code)


def preview(
    source: Annotated[str, typer.Argument(metavar="FILE|URI", help="One file, local or s3://.")],
    job: Annotated[str | None, typer.Argument(metavar="JOB.yaml", help="The settings to look with; flags win.")] = None,
    strategy: Strategy = None,
    size: Annotated[int | None, typer.Option(help="The most a chunk may hold, in units.")] = None,
    overlap: Annotated[str | None, typer.Option(help="Units repeated from the chunk before, or a share like 15%.")] = None,
    unit: Annotated[str | None, typer.Option(help="tokens, chars, words, or an encoding such as o200k_base.")] = None,
    context: Annotated[str | None, typer.Option(help="none, or headings: embed the heading path with each chunk.")] = None,
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Count sizes without an embedding model.")] = False,
    compare: Annotated[
        str | None, typer.Option(help="Another job file, or a strategy, to set beside it.", autocompletion=strategy_names)
    ] = None,
    html: Annotated[str | None, typer.Option(help="Write a page to look at.")] = None,
    chunks: Annotated[int, typer.Option(min=0, help="How many chunks to print; 0: all.")] = 12,
    documents: Annotated[int, typer.Option(min=1, help="Of a source of many documents, how many.")] = 5,
    pages: Annotated[int, typer.Option(min=0, help="How many pages of a PDF the page shows as pictures.")] = 20,
    as_json: Json = False,
) -> None:
    """Show how one file would be cut: in colour, or as a page with the chunks over the text. Starts no Ray."""
    from chunkmill.jobs import cli
    from chunkmill.jobs import preview as look

    given = {"strategy": strategy, "size": size, "overlap": overlap, "unit": unit, "context": context}
    seen = look.preview(source, look.jobs(source, job, cli.overridden(given, None, no_embed), compare), documents)
    if html:
        from chunkmill.jobs import pages as files
        from chunkmill.jobs import previewpage

        files.save(html, previewpage.html(seen, pages))
    if as_json:
        print(json.dumps(look.as_json(seen), ensure_ascii=False))
    elif html:
        print(f"{counted(len(seen), 'document')}: {html}", file=sys.stderr)
    else:
        look.show(seen, chunks, Console())
    if all(cut.error for document in seen for cut in document.cuts):
        raise typer.Exit(1)


def report(
    dataset: Dataset,
    html: Annotated[str | None, typer.Option(help="Write a page to look at.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a dataset holds: documents by status and format, what failed, sizes, runs, recipes, the last change."""
    from chunkmill.jobs import report as reports

    found = reports.report(dataset)
    if html:
        from chunkmill.jobs import pages, reportpage

        pages.save(html, reportpage.html(found))
    if as_json:
        print(json.dumps(reports.as_json(found), ensure_ascii=False))
    elif html:
        print(f"{counted(sum(found.statuses.values()), 'document')}: {html}", file=sys.stderr)
    else:
        reports.show(found, Console())


def init(
    folder: Annotated[str, typer.Argument(help="A folder or s3:// URI of documents.")],
    output: Annotated[str, typer.Option(help="The job file to write.")] = "job.yaml",
    dataset: Annotated[
        str | None, typer.Option(help="Where its runs will put the dataset; default: beside the folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Look at a folder and write a commented job file for it."""
    from chunkmill.jobs import init as looks

    found = looks.look(folder)
    text = looks.job_file(found, dataset or looks.output_for(folder), output)
    looks.write(output, text, force=force)
    if as_json:
        print(json.dumps(looks.as_json(found, output, text), ensure_ascii=False))
    else:
        looks.show(found, output, looks.extras(found, "embed: null" not in text), Console())


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (plan, preview, report, init, runs, diff, compact, rollback, submit):
        app.command()(command)
    app.command("eval")(evaluation)
