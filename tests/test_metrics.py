"""What a run counts can be read where Ray's own metrics are, and in its record."""

import re
import time
from urllib.request import urlopen

import ray

from chunkmill.io import runs
from chunkmill.jobs import pipeline
from chunkmill.jobs.config import load

PATIENCE_S = 60
NAMES = ("documents", "failed", "bytes", "chunks", "prepare_seconds", "write_seconds")


def test_counters_are_served_by_the_node(ray_here, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i in range(7):
        (corpus / f"{i}.txt").write_text(f"The keeper climbs the tower {i} times. " * 20)
    (corpus / "broken.pdf").write_bytes(b"%PDF-1.7\n" + b"\0" * 50)
    summary = pipeline.run(load({"input": str(corpus), "output": str(tmp_path / "out"), "embed": None}))

    size = sum(f.stat().st_size for f in corpus.iterdir())
    expected = {"documents": 8, "failed": 1, "chunks": summary.chunks, "bytes": size}
    until = time.monotonic() + PATIENCE_S
    while (found := counters(summary.run_id)).keys() < set(NAMES) or any(found[name] < n for name, n in expected.items()):
        assert time.monotonic() < until, found
        time.sleep(1)

    assert {name: found[name] for name in expected} == expected
    assert 0 < found["write_seconds"] < PATIENCE_S
    assert 0 < found["prepare_seconds"] < PATIENCE_S


def counters(run_id):
    """The counters of a run that the node serves."""
    (node,) = ray.nodes()
    with urlopen(f"http://127.0.0.1:{node['MetricsExportPort']}/metrics", timeout=10) as answer:
        served = answer.read().decode()
    lines = [line for line in served.splitlines() if f'run="{run_id}"' in line]
    found = (re.match(r"ray_chunkmill_(\w+)_total\{.*\} (\S+)$", line) for line in lines)
    return {match[1]: float(match[2]) for match in found if match}


def test_the_record_says_where_the_time_went_and_what_it_stood_on(ray_here, tmp_path):
    (tmp_path / "a.txt").write_text("The keeper climbs the tower. " * 20)
    out = tmp_path / "out"
    summary = pipeline.run(load({"input": str(tmp_path / "a.txt"), "output": str(out), "embed": None}))

    (record,) = runs.records(str(out))

    assert set(record["stages"]) == {"plan", "prepare", "write", "publish"}
    assert all(0 < seconds < 600 for seconds in record["stages"].values())
    assert record["stages"]["plan"] + record["stages"]["publish"] < summary.seconds
    ((took, uri, size, killed),) = record["slowest"]
    assert (uri, size, killed) == (str(tmp_path / "a.txt"), (tmp_path / "a.txt").stat().st_size, "")
    assert 0 < took < record["stages"]["prepare"]
    assert record["libraries"]["ray"] == ray.__version__
    assert {"python", "pyarrow", "deltalake"} <= set(record["libraries"])
