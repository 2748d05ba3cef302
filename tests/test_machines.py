"""A stage that no machine has room for is told at once where none can come, and where one may, after a time in vain."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.util import get_node_ip_address

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.jobs import machines, pipeline
from chunkmill.jobs.machines import Autoscaler, Stage, Watch, amounts, check_here, without
from chunkmill.jobs.progress import Progress
from test_run import chunks_of, job, prose


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (folder := tmp_path / "in").mkdir()
    (folder / "a.txt").write_text(prose(1))
    return folder


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        (
            {"cpu": {"num_cpus": 9}},
            r"preparing documents takes 9 CPUs \(resources\.cpu\), .* only 2 CPUs and [\d,]+ MB of memory",
        ),
        ({"cpu": {"memory_mb": 1 << 30}}, r"takes 1 CPU and 1,073,741,824 MB of memory \(resources\.cpu\)"),
    ],
)
def test_what_this_machine_can_never_run_is_refused_at_once(ray_here, corpus, tmp_path, resources, says):
    with pytest.raises(ConfigError, match=says):
        pipeline.run(job(corpus, tmp_path / "out", resources=resources))


@pytest.mark.parametrize("gpu", [{"num_gpus": 1}, {"num_gpus": 0.5, "memory_mb": 1 << 30}])
def test_on_a_cluster_a_stage_that_waits_in_vain_says_what_for_and_ends(
    ray_here, corpus, tmp_path, monkeypatch, offline_model, gpu
):
    monkeypatch.setenv("RAY_ADDRESS", "auto")  # this is a cluster that others started
    monkeypatch.setattr(machines, "JOIN_S", 4)
    monkeypatch.setattr("chunkmill.jobs.progress.LOG_S", 0)
    out = io.StringIO()

    with pytest.raises(RunError) as caught:
        pipeline.run(job(corpus, tmp_path / "out", embed={}, resources={"gpu": gpu}), Progress(out))

    said = str(caught.value)
    assert said.startswith(f"embedding takes {gpu['num_gpus']:g} GPU")
    assert "(resources.gpu); no machine of the cluster has that (they have 2 CPUs and " in said
    assert "it has no autoscaler, and none joined" in said
    assert "waiting for a machine with" in out.getvalue()


def test_what_the_cluster_has_is_not_waited_for(ray_here, corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setattr(machines, "Watch", None)

    pipeline.run(job(corpus, tmp_path / "out"))

    assert chunks_of(tmp_path / "out")
    assert machines.lacking() == ""


# The waiting itself, with a clock and a cluster of its own


BIG = Stage("embedding", {"GPU": 1.0, "memory": 4 << 30}, "resources.gpu")
SMALL = {"CPU": 4.0, "memory": 8 << 30}
NONE, IDLE, BRINGING = Autoscaler(), Autoscaler(True, False), Autoscaler(True, True)


def waited(monkeypatch: pytest.MonkeyPatch, scaler: Any, there: Any, until: int) -> int | None:
    """The second at which the watch gives up, None if it has not until then."""
    clock = [0.0]
    monkeypatch.setattr(machines.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(machines, "machines", lambda: there(clock[0]))
    monkeypatch.setattr(Autoscaler, "asked", lambda: scaler(clock[0]))
    watch = Watch([BIG])
    for second in range(until):
        clock[0] = float(second)
        try:
            watch.on_execution_step(None)
        except RunError:
            return second
    return None


@pytest.mark.parametrize(
    ("scaler", "there", "expected"),
    [
        (lambda s: NONE, lambda s: [SMALL], 122),
        (lambda s: IDLE, lambda s: [], 902),
        (lambda s: BRINGING, lambda s: [SMALL], None),
        (lambda s: BRINGING if 600 < s < 1000 else IDLE, lambda s: [SMALL], 1900),
        (lambda s: NONE, lambda s: [SMALL, {"CPU": 1.0, "GPU": 1.0, "memory": 4 << 30}] if s > 100 else [SMALL], None),
        (lambda s: NONE, lambda s: [SMALL, {"GPU": 8.0, "memory": 1 << 30}], 122),  # all of it, but not on one machine
    ],
)
def test_it_waits_as_long_as_there_is_hope(monkeypatch, scaler, there, expected):
    assert waited(monkeypatch, scaler, there, 3_000) == expected


HEAD = {"ffff": "ray.head.default"}


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"node_type_mapping": {"0a5d": "node_0a5d"}, "pending_launches": {}, "pending_nodes": []}, NONE),
        ({"node_type_mapping": HEAD, "active_nodes": {}, "pending_launches": {}, "pending_nodes": []}, IDLE),
        ({"node_type_mapping": HEAD, "pending_launches": {"gpu": 1}, "pending_nodes": []}, BRINGING),
        ({"node_type_mapping": HEAD, "pending_launches": {}, "pending_nodes": [["10.0.0.2", "gpu", "setting-up"]]}, BRINGING),
        ({"node_type_mapping": HEAD, "active_nodes": {"cpu": 2}, "pending_launches": {"cpu": 1}, "pending_nodes": []}, IDLE),
        ({"node_type_mapping": HEAD, "active_nodes": {"cpu": 2}, "pending_launches": {"cpu": 1, "gpu": 1}}, BRINGING),
        (None, NONE),
    ],
)
def test_an_autoscaler_is_known_by_its_kinds_of_machines(monkeypatch, report, expected):
    """As Ray 2.60 reports it: of a cluster put together by hand, of one at rest, of one that grows."""
    status = json.dumps({"autoscaler_report": report}).encode()
    monkeypatch.setattr("ray.experimental.internal_kv._internal_kv_get", lambda key: status)

    assert Autoscaler.asked() == expected


def test_a_machine_must_have_all_of_it_at_once():
    there = [{"CPU": 8.0}, {"GPU": 1.0, "CPU": 1.0}]

    def lacks(**takes: float) -> bool:
        return bool(without([Stage("work", takes, "")], there))

    assert [lacks(CPU=8), lacks(GPU=1, CPU=1), lacks(GPU=0.5), lacks(GPU=1, CPU=2), lacks(memory=1), lacks()] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("takes", "says"),
    [
        ({"CPU": 1}, "1 CPU"),
        ({"CPU": 0.5, "GPU": 2}, "0.5 CPUs and 2 GPUs"),
        ({"CPU": 2, "GPU": 1, "memory": 2 << 30}, "2 CPUs, 1 GPU and 2,048 MB of memory"),
    ],
)
def test_amounts_are_words(takes, says):
    assert amounts(takes) == says


@pytest.mark.parametrize(
    ("embedding", "preparing", "says"),
    [
        ({"GPU": 1, "CPU": 1}, 1, ""),
        ({"GPU": 1}, 2, ""),
        (
            {"GPU": 1, "CPU": 2},
            1,
            r"embedding takes 1 GPU and 2 CPUs .* leaves 0 CPUs here, and preparing takes 1 CPU \(resources\.cpu\)",
        ),
        ({"GPU": 1, "CPU": 1}, 2, r"leaves 1 CPU here, and preparing takes 2 CPUs"),
    ],
)
def test_the_actors_that_embed_leave_a_machine_enough_to_feed_them(embedding, preparing, says):
    wanted = [
        Stage("preparing", {"CPU": preparing}, "resources.cpu"),
        Stage("embedding", embedding, "resources.gpu", keeps=True),
    ]

    with pytest.raises(ConfigError, match=says) if says else nullcontext():
        check_here(wanted, [{"CPU": 2.0, "GPU": 1.0}])


# A cluster that grows, with Ray's own autoscaler for tests


EMPTY = (
    "initialization_commands setup_commands head_setup_commands worker_setup_commands head_start_ray_commands "
    "worker_start_ray_commands cluster_synced_files rsync_exclude rsync_filter"
)
GROWING = {
    "cluster_name": "growing",
    "max_workers": 1,
    "upscaling_speed": 1.0,
    "idle_timeout_minutes": 1,
    "head_node_type": "ray.head.default",
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "cpu": {"resources": {"CPU": 2, "object_store_memory": 100 << 20}, "node_config": {}, "max_workers": 1},
    },
    "file_mounts": {},
    "file_mounts_sync_continuously": False,
    "auth": {},
    "docker": {},
} | {name: [] for name in EMPTY.split()}
DRIVER = """
import json, sys
from chunkmill.jobs import cli, config, machines, pipeline, progress
progress.LOG_S, machines.JOIN_S, machines.BRING_S = 1, 1, 20
with cli.reported():
    summary = pipeline.run(config.load(json.loads(sys.argv[1])), progress.Progress())
print(summary.statuses["ok"])
"""


@pytest.fixture(scope="module")
def growing(tmp_path_factory):
    """The address of a head without CPUs, whose autoscaler starts one machine of two CPUs when it is asked for."""
    folder = tmp_path_factory.mktemp("growing")
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    address = f"{get_node_ip_address()}:{port}"
    provider = {"type": "fake_multinode", "gcs_address": address}
    (folder / "cluster.json").write_text(json.dumps(GROWING | {"provider": provider}))
    options = ["--num-cpus=0", f"--port={port}", f"--object-store-memory={100 << 20}", "--include-dashboard=false"]
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", *options]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "PATH": path}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, f"--autoscaling-config={folder / 'cluster.json'}"],
            env=os.environ | environment | {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"},
            start_new_session=True,
            stdout=log,
            stderr=log,
        )
    try:
        until = time.monotonic() + 60
        while "To connect to this Ray cluster" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.5)
        yield address
    finally:
        node = [process, *psutil.Process(process.pid).children(recursive=True)]
        for each in reversed(node):
            with suppress(psutil.NoSuchProcess):
                each.kill()


@pytest.mark.long
def test_a_cluster_that_scales_from_nothing_is_waited_for(growing, corpus, tmp_path):
    given = {"input": str(corpus), "output": str(tmp_path / "out"), "embed": None, "resources": {"cpu": {"num_cpus": 2}}}
    environment = os.environ | {"RAY_ADDRESS": growing, "RAY_AUTH_MODE": "disabled"}

    command = [sys.executable, "-c", DRIVER, json.dumps(given)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1:] == ["1"]
