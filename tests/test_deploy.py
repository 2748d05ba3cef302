"""What is shipped for clusters: files that their schemas accept, and `submit` against a real head node."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from chunkmill.chunkers.errors import ConfigError
from chunkmill.io import table
from chunkmill.jobs import submit

ROOT = Path(__file__).parents[1]


def documents(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((ROOT / name).read_text())]


def test_rays_own_schema_accepts_the_cluster():
    from ray.autoscaler._private.util import prepare_config, validate_config

    (cluster,) = documents("cluster.yaml")
    prepared = prepare_config(cluster)

    validate_config(prepared)
    workers = prepared["available_node_types"]
    assert workers["gpu"]["max_workers"] > 0
    assert workers["cpu"]["min_workers"] == 0


def test_the_cluster_installs_the_newest_wheel_that_it_is_sent(tmp_path):
    (cluster,) = documents("cluster.yaml")
    [command] = cluster["setup_commands"]
    [(sent_to, sent)] = cluster["file_mounts"].items()
    assert f"--wheel-dir {sent} ." in (ROOT / "docs" / "clusters.md").read_text()
    for age, name in enumerate(["chunkmill-0.10.0-py3-none-any.whl", "chunkmill-0.9.0-py3-none-any.whl"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))

    shell = f'pip() {{ printf "%s\\n" "$@"; }}; {command.replace(sent_to, str(tmp_path))}'
    said = subprocess.run(["bash", "-ec", shell], capture_output=True, text=True, check=True).stdout

    assert said.splitlines()[-1] == f"{tmp_path}/chunkmill-0.10.0-py3-none-any.whl[cluster,code,embed,fast]"


def test_the_image_is_built_from_what_the_package_needs_and_nothing_else():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [source] = project["tool"]["setuptools"]["packages"]["find"]["where"]
    linked = [os.readlink(path).removeprefix("../../") for path in (ROOT / source / "chunkmill").iterdir() if path.is_symlink()]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"], source, *linked}

    lines = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == needed


def test_kubernetes_accepts_the_nightly_job():
    kubernetes = pytest.importorskip("kubernetes_validate", reason="comes with the extra chunkmill[dev]")

    for document in documents("deploy/cronjob.yaml"):
        kubernetes.validate(document, "1.31", strict=True)


def test_kubernetes_accepts_the_pods_of_the_ray_job():
    kubernetes = pytest.importorskip("kubernetes_validate", reason="comes with the extra chunkmill[dev]")
    (job,) = documents("deploy/rayjob.yaml")
    cluster = job["spec"]["rayClusterSpec"]

    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": group["template"]["spec"]}
        kubernetes.validate(pod, "1.31", strict=True)
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    assert job["spec"]["entrypoint"] == "python -m chunkmill.jobs run /etc/chunkmill/job.yaml"


def test_systemd_accepts_the_units():
    done = subprocess.run(["systemd-analyze", "--version"], capture_output=True) if has("systemd-analyze") else None
    if done is None:
        pytest.skip("systemd-analyze is not installed here; the units are read as text only")
    for unit in ("chunkmill.service", "chunkmill.timer"):
        checked = subprocess.run(["systemd-analyze", "verify", str(ROOT / "deploy" / unit)], capture_output=True, text=True)
        assert "Unknown" not in checked.stderr


def has(program: str) -> bool:
    return any((Path(folder) / program).exists() for folder in os.environ["PATH"].split(os.pathsep))


def test_the_wheel_holds_the_package_and_its_name_changes_with_it(tmp_path, monkeypatch):
    first = submit.wheel(tmp_path)
    modules = dict(submit._modules())
    monkeypatch.setattr(submit, "_modules", lambda: (modules | {"chunkmill/new.py": b"x = 1\n"}).items())
    second = submit.wheel(tmp_path)

    names = zipfile.ZipFile(first).namelist()
    assert {"chunkmill/__init__.py", "chunkmill/jobs/pipeline.py", "chunkmill/io/parsers/html.py"} < set(names)
    assert first.name != second.name
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", str(target), str(first)]
    subprocess.run(command, check=True)
    code = "import chunkmill.chunkers.api, chunkmill; print(chunkmill.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(target)}, capture_output=True, text=True
    )
    assert str(target) in done.stdout


def test_no_secret_of_this_environment_travels(monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "OPENAI_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "secret")

    assert "secret" not in json.dumps(submit._passed())


def test_where_no_ray_answers_the_user_is_told_which_address_is_wanted():
    with pytest.raises(ConfigError, match=r"no Ray answers at http://127\.0\.0\.1:9: .*give the dashboard's address"):
        submit.submit({}, "http://127.0.0.1:9", say=print)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a head node of its own, started as users do."""
    pytest.importorskip("aiohttp", reason="submitting comes with the extra chunkmill[cluster]")
    ports = {name: free_port() for name in ("port", "dashboard-port", "dashboard-agent-listen-port", "metrics-export-port")}
    command = [
        str(Path(sys.executable).with_name("ray")),
        "start",
        "--head",
        "--block",
        "--num-cpus=2",
        "--dashboard-host=127.0.0.1",
    ]
    command += [f"--{name}={port}" for name, port in ports.items()] + ["--object-store-memory=200000000"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "PATH": path}
    log = tmp_path_factory.mktemp("head") / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=out, stderr=out)
    address = f"http://127.0.0.1:{ports['dashboard-port']}"
    try:
        for _ in range(240):
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", ports["dashboard-port"])):
                    break
            assert process.poll() is None, log.read_text()
            time.sleep(0.5)
        yield address
    finally:
        node = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        _, alive = psutil.wait_procs([process, *node], timeout=20)
        for left in alive:
            left.kill()


@pytest.mark.long
def test_a_job_runs_on_the_cluster_and_its_log_and_exit_code_come_back(head, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("One text.\n\nAnother one.")
    (tmp_path / "lines.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from chunkmill.chunkers.base import Piece, Span\n\n\n@dataclass(frozen=True)\nclass Lines:\n"
        "    needs: ClassVar[frozenset] = frozenset()\n\n    def __call__(self, doc, budget):\n"
        "        return [Piece(Span(0, 9)), Piece(Span(11, len(doc.text)))]\n"
    )
    job = {
        "input": str(tmp_path / "in"),
        "output": str(tmp_path / "out"),
        "embed": None,
        "chunk": {"strategy": "lines:Lines", "overlap": 0},
    }
    said: list[str] = []

    good = submit.submit(job, head, name="nightly", say=said.append)
    bad = submit.submit(job | {"chunk": {"strategy": "semantik"}}, head, say=said.append)

    assert (good, bad) == (0, 2), said
    assert table.read(str(tmp_path / "out"), "chunks")["text"].to_pylist() == ["One text.", "Another one."]
    assert any("published to" in line for line in said)
    assert any("semantik" in line for line in said)
    with pytest.raises(ConfigError, match="nightly"):
        submit.submit(job, head, name="nightly", say=said.append)
