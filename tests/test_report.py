"""A report counts what is in the tables, says what failed, and its page is one that people can read and trust."""

import io
import itertools
import json
import shutil
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from browser import FOUND, WHY, Browser
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io import table
from chunkmill.jobs import charts, cli, pipeline, report, reportpage
from chunkmill.jobs.charts import NO_SIZES
from chunkmill.jobs.config import load
from chunkmill.jobs.search import search
from test_preview import command, opened

HOSTILE = "<img src=x onerror=document.title='owned'> \u202eturned.pdf"


@pytest.fixture(scope="module")
def dataset(ray_here, tmp_path_factory):
    """Two runs over documents of which some fail."""
    folder = tmp_path_factory.mktemp("report")
    corpus = folder / "corpus"
    corpus.mkdir()
    for i in range(6):
        (corpus / f"tower{i}.md").write_text(
            f"# Part {i}\n\n" + f"The keeper climbs the tower {i} times at dusk. " * 10 * (i + 1)
        )
    (corpus / "empty.txt").write_text(" ")
    (corpus / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    (corpus / HOSTILE).write_bytes(b"%PDF-1.7\n" + b"\0" * 50)
    job = load({"input": str(corpus), "output": str(folder / "out"), "embed": None, "chunk": {"size": 60, "overlap": 6}})
    pipeline.run(job)
    (corpus / "tower0.md").write_text("# Part 0\n\nNobody climbs the tower.")
    (corpus / "tower5.md").unlink()
    pipeline.run(job)
    return str(folder / "out")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not FOUND:
        pytest.skip(WHY)
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def test_the_numbers_are_those_of_the_tables(dataset, monkeypatch, capsys):
    found = json.loads(command(["report", dataset, "--json"], monkeypatch, capsys))

    ledger, chunks = (table.read(dataset, name).to_pylist() for name in ("documents", "chunks"))
    sizes = [c["n_tokens"] for c in chunks]
    assert found["documents"] == {s: sum(r["status"] == s for r in ledger) for s in ("ok", "empty", "failed")}
    assert found["chunks"]["tokens"]["total"] == sum(sizes)
    assert found["slowest"][0]["seconds"] >= found["slowest"][-1]["seconds"] > 0
    assert [*found["stages"]] == ["plan", "prepare", "write", "publish"]
    assert found["chunks"]["tokens"]["median"] == int(np.quantile(sizes, 0.5, method="inverted_cdf"))
    assert found["chunks_per_document"]["number"] == sum(r["status"] == "ok" for r in ledger)
    assert {f["format"]: f["chunks"] for f in found["formats"] if f["chunks"]} == {"markdown": len(chunks)}
    assert {kind: e["count"] for kind, e in found["errors"].items()} == {"corrupt": 1, "unsupported": 1}
    assert found["largest"][0]["tokens"] == max(r["n_tokens"] or 0 for r in ledger)


def test_the_last_change_is_the_difference_of_the_versions(dataset):
    change = report.report(dataset).change

    old, new = (set(table.read(dataset, "chunks", ["chunk_id"], version=v)["chunk_id"].to_pylist()) for v in (0, 1))
    assert (change["chunks_added"], change["chunks_removed"]) == (len(new - old), len(old - new))
    assert change["sources"] == {"changed": 1, "gone": 1}
    assert change["chunks_removed"] > 0


def test_a_version_whose_files_are_gone_is_said_and_nothing_fails(dataset, tmp_path):
    shutil.copytree(dataset, tmp_path / "out")
    old = set(table.paths(str(tmp_path / "out"), "chunks", 0)) - set(table.paths(str(tmp_path / "out"), "chunks", 1))
    for path in old:
        (tmp_path / "out" / "chunks" / path).unlink()

    found = report.report(str(tmp_path / "out"))

    assert old
    assert "can no longer be read" in report.change_line(found.change)


def test_a_person_reads_the_same_in_the_terminal(dataset, monkeypatch, capsys):
    out = command(["report", dataset], monkeypatch, capsys)

    assert "6 ok" not in out
    assert "5 ok, 1 empty, 2 failed" in out
    assert "corrupt (1)" in out
    assert "\u202e" not in out


def test_without_vectors_the_way_out_fits_a_job_without_embedding(dataset):
    with pytest.raises(ConfigError, match="--mode words") as found:
        search(dataset, "the tower")

    assert "--no-embed" not in str(found.value)
    assert "tower" in search(dataset, "the tower", 1, "words")[0].text


def test_by_words_only_what_holds_one_is_found(dataset, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["chunkmill", "search", dataset, "zebra giraffe", "--mode", "words"])
    with pytest.raises(SystemExit, match="0"):
        cli.main()

    assert capsys.readouterr() == ("", "nothing was found\n")
    assert [hit.uri.rpartition("/")[2] for hit in search(dataset, "nobody", 5, "words")] == ["tower0.md"]


@pytest.mark.parametrize(
    ("units", "said"),
    [(["chars"], "chars"), (["o200k_base"], "tokens"), (["tokens", "cl100k_base"], "tokens"), (["words", "tokens"], "units")],
)
def test_sizes_are_told_in_the_unit_of_the_recipes(units, said):
    recipes = {f"r{i}": {"chunk": {"unit": unit, "size": 40}} for i, unit in enumerate(units)}
    found = report.Report("d", {"chunks": 0}, recipes=recipes, levels=Counter({0: 5, 1: 2, 2: 1}))
    console = Console(record=True, width=100, file=io.StringIO())

    report.show(found, console)

    assert f"\n{said} per chunk" in console.export_text(clear=False)
    assert f"<h3>{said.capitalize()} per chunk</h3>" in reportpage.html(found)
    assert report.as_json(found)["unit"] == said
    assert f"0 {said}, 3 above them, 0 with vectors" in console.export_text(clear=False)
    assert "<b>3</b><span>larger chunks above</span>" in reportpage.html(found)


def test_of_a_rollback_no_counts_are_told_as_none():
    runs = [
        {"run_id": "a", "documents": 1_200, "chunks": 9, "statuses": {"ok": 1_198, "failed:corrupt": 2}, "seconds": 3},
        {"run_id": "b", "kind": "rollback", "versions": {"chunks": 2}},
    ]
    console = Console(record=True, width=100, file=io.StringIO())

    report.show_runs(runs, console)

    rows = [line.split() for line in console.export_text().splitlines()]
    assert rows[1:] == [["a", "run", "1,200", "2", "9", "3", "s"], ["b", "rollback", "2"]]


def test_where_there_is_no_dataset_it_says_how_to_make_one(tmp_path):
    with pytest.raises(ConfigError, match="chunkmill run"):
        report.report(str(tmp_path / "none"))


def test_a_dataset_on_s3_is_reported(ray_here, s3):
    bucket = s3.bucket({"docs/a.txt": b"One sentence."})
    pipeline.run(load({"input": f"s3://{bucket}/docs", "output": f"s3://{bucket}/out", "embed": None}))

    assert report.report(f"s3://{bucket}/out").statuses == {"ok": 1}


@given(st.lists(st.integers(0, 3_000), max_size=60))
def test_charts_count_everything_once(values):
    sizes = NO_SIZES.plus(values[:20]).plus(values[20:])

    bars, wide = charts.binned(sizes, 512), charts.doubled(sizes)

    assert sum(b.count for b in bars) == sum(v > 0 for v in values)
    assert sum(b.count for b in wide) == len(values)
    assert all(b.count == sum(b.low <= v <= b.high for v in values) for b in [*bars, *wide])
    assert len(bars) <= charts.BINS
    assert all(a.high + 1 == b.low for a, b in itertools.pairwise(bars))
    for share in (0.1, 0.5, 0.9):
        assert not values or sizes.quantile(share) == int(np.quantile(values, share, method="inverted_cdf"))


# In a real browser

CONTRAST = """
(() => {
  const lum = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/rgba\\(.*, 0\\)|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  let worst = 99;
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('svg, script, style')) continue;
    const [a, b] = [lum(getComputedStyle(e).color), lum(behind(e))];
    worst = Math.min(worst, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  }
  return worst;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_loads_nothing_and_is_readable(browser, dataset, tmp_path, dark, width):
    opened(browser, tmp_path / "report.html", reportpage.html(report.report(dataset)), dark=dark, width=width)

    assert browser.js("document.title") == "Report on Dataset out"
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js(CONTRAST) >= 4.5
    assert browser.js("document.images.length") == 0
    assert "⟨U+202E⟩turned.pdf" in browser.js("document.body.innerText")


def test_every_chart_says_its_numbers_in_words(browser, dataset, tmp_path):
    opened(browser, tmp_path / "report.html", reportpage.html(report.report(dataset)))

    labels = browser.js("[...document.querySelectorAll('svg[role=img]')].map(s => s.getAttribute('aria-label'))")

    assert [label.partition(":")[0] for label in labels] == [
        "How many chunks have which size in tokens",
        "How many documents have which size in chunks",
    ]
    assert browser.js("[...document.querySelectorAll('table')].every(t => t.querySelector('th[scope=col]'))") is True
