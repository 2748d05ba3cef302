"""What a run counts can be read where Ray's own metrics are, and in its record."""

import re
import time
from urllib.request import urlopen

import ray

from chunkmill.io import runs
from chunkmill.jobs import pipeline
from chunkmill.jobs.config import load

PATIENCE_S = 60


def test_counters_are_served_by_the_node(ray_here, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i in range(7):
        (corpus / f"{i}.txt").write_text(f"The keeper climbs the tower {i} times. " * 20)
    (corpus / "broken.pdf").write_bytes(b"%PDF-1.7\n" + b"\0" * 50)
    before = counters(["documents"])
    summary = pipeline.run(load({"input": str(corpus), "output": str(tmp_path / "out"), "embed": None}))

    until = time.monotonic() + PATIENCE_S
    while (now := counters(["documents", "failed", "bytes", "chunks", "prepare_seconds", "write_seconds"])) == before or len(
        now
    ) < 6:
        assert time.monotonic() < until, now
        time.sleep(1)

    assert now["documents"] - before.get("documents", 0) >= summary.documents == 8
    assert now["failed"] >= 1
    assert now["chunks"] >= summary.chunks > 0
    assert now["bytes"] >= sum(f.stat().st_size for f in corpus.iterdir())


def counters(names):
    """The sums over all workers of the counters of ours that the node serves."""
    (node,) = ray.nodes()
    with urlopen(f"http://127.0.0.1:{node['MetricsExportPort']}/metrics", timeout=10) as answer:
        served = answer.read().decode()
    found = {}
    for name in names:
        values = re.findall(rf"^ray_chunkmill_{name}_total\{{.*\}} (\S+)$", served, re.M)
        if values:
            found[name] = sum(map(float, values))
    return found


def test_the_record_says_where_the_time_went_and_what_it_stood_on(ray_here, tmp_path):
    (tmp_path / "a.txt").write_text("The keeper climbs the tower. " * 20)
    out = tmp_path / "out"
    summary = pipeline.run(load({"input": str(tmp_path / "a.txt"), "output": str(out), "embed": None}))

    (record,) = runs.records(str(out))

    assert set(record["stages"]) == {"plan", "prepare", "write", "publish"}
    assert all(0 < seconds < 600 for seconds in record["stages"].values())
    assert record["stages"]["plan"] + record["stages"]["publish"] < summary.seconds
    assert record["libraries"]["ray"] == ray.__version__
    assert {"python", "pyarrow", "deltalake"} <= set(record["libraries"])
