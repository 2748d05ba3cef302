"""Whatever is killed, and whenever: nothing is lost or doubled, finished work stays finished, no reader sees a half state."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from chunkmill.io import runs, table
from driver import begun, ended, ready
from test_run import prose

NODES = 1  # beside the head
PAUSE_S = 0.15
TARGETS = ("driver", "worker", "actor", "raylet")
IN_CI = [("driver", 5), ("driver", 6), ("worker", 10), ("raylet", 16)]
LONG = [(TARGETS[seed % 4], seed) for seed in range(100, 200)]


@dataclass
class Scene:
    """A cluster of several raylets, and a dataset one night old whose corpus has changed since."""

    cluster: Any
    job: dict[str, Any]
    yesterday: Path
    seconds: float = 0.0  # that the second night takes
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    workers: list[Any] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {"RAY_ADDRESS": self.cluster.address, "RAY_AUTH_MODE": "disabled"}

    def run(self, out: Path, **given: Any) -> subprocess.Popen[str]:
        job = self.job | {"output": str(out)}
        return begun(job, environment=self.environment, log=out.parent / "log", **given)


State = dict[str, Any]  # rows by id, without what differs from run to run


def rows(out: Path, name: str, version: int | None = None) -> State:
    key = {"chunks": "chunk_id", "documents": "doc_id"}[name]
    found = table.read(str(out), name, version=version).drop_columns(["run_id"]).to_pylist()
    by_key = {row[key]: row for row in found}
    assert len(by_key) == len(found), f"rows of {name} that are there twice"
    return by_key


class Vectors(BaseHTTPRequestHandler):
    """An embeddings endpoint whose vectors are made of a text's hash."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        time.sleep(0.02)
        hashes = [blake2b(text.encode(), digest_size=8).digest() for text in texts]
        data = [{"index": i, "embedding": [b - 127.5 for b in h]} for i, h in enumerate(hashes)]
        body = json.dumps({"data": data}).encode()
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Vectors)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and two more raylets, none of which this process is connected to."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def scene(cluster: Any, endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("crashes")
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(20):
        (corpus / f"{number:02}.txt").write_text(prose(number))
    (corpus / "rows.jsonl").write_text("".join(f'{{"text": "{prose(n, 2)}"}}\n' for n in range(60)))
    job = {
        "input": str(corpus),
        "chunk": {"strategy": "driver:Slow", "size": 200, "overlap": 0},
        "run": {"isolate": False},
        "embed": {"backend": "openai", "base_url": endpoint, "model": "hash"},
    }
    made = Scene(cluster, job, folder / "yesterday")
    made.workers = [cluster.add_node(num_cpus=1, object_store_memory=100 << 20) for _ in range(NODES)]
    ended(made.run(made.yesterday))
    for number in range(8):
        (corpus / f"{number:02}.txt").write_text(prose(number + 500))
    for number in range(8, 11):
        (corpus / f"{number:02}.txt").unlink()
    for number in range(30, 42):
        (corpus / f"{number:02}.txt").write_text(prose(number))
    (corpus / "rows.jsonl").write_text("".join(f'{{"text": "{prose(n, 2)}"}}\n' for n in range(30, 90)))
    shutil.copytree(made.yesterday, today := folder / "undisturbed" / "out")
    process = made.run(today, pause_s=PAUSE_S)
    ready(process)
    started = time.monotonic()
    ended(process)
    made.seconds = time.monotonic() - started
    for state, out in ((made.before, made.yesterday), (made.after, today)):
        state.update({name: rows(out, name) for name in ("chunks", "documents")})
    assert made.before["chunks"].keys() != made.after["chunks"].keys()
    return made


@contextmanager
def watched(out: Path, scene: Scene) -> Iterator[Counter[str]]:
    """A reader that opens both tables all the time; afterwards all it read must have been whole."""
    seen: Counter[str] = Counter()
    wrong: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                look(out, scene, seen)
            except BaseException as error:
                wrong.append(error)
                return
            done.wait(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        done.set()
        reader.join()
    if wrong:
        raise wrong[0]


def look(out: Path, scene: Scene, seen: Counter[str]) -> None:
    """Each table is one of its states. Both are of the same night where they are opened at the ledger's version."""
    states = {"nothing": {"chunks": {}, "documents": {}}, "before": scene.before, "after": scene.after}
    for name in ("chunks", "documents"):
        found = rows(out, name)
        which = [night for night, state in states.items() if found == state[name]]
        assert which, f"{name} is neither as before nor as after"
        seen[f"{name} {which[0]}"] += 1
    if (version := table.version(str(out), "documents")) is None:
        return
    chunks = Counter(c["doc_id"] for c in rows(out, "chunks", version).values())
    assert chunks == {key: d["n_chunks"] for key, d in rows(out, "documents", version).items() if d["n_chunks"]}


# What is killed


WORK = {"worker": ("MapBatches(", "without", "merge", "held"), "actor": ("MapWorker(",)}


def processes(scene: Scene, *titles: str) -> list[psutil.Process]:
    """The workers of the cluster's raylets that are at something of these titles."""
    found = []
    for node in scene.cluster.list_all_nodes():
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        wanted = tuple(f"ray::{title}" for title in titles)
        found += [child for child in raylet.children() if titled(child).startswith(wanted)]
    return found


def titled(process: psutil.Process) -> str:
    try:
        return process.cmdline()[0]
    except (psutil.NoSuchProcess, psutil.ZombieProcess, IndexError):
        return ""


def kill_one(scene: Scene, chance: random.Random, titles: Sequence[str], process: subprocess.Popen[str]) -> str:
    """Kill a worker at one of these, as soon as there is one; what it was at, empty if the run ended first."""
    while process.poll() is None:
        if found := processes(scene, *titles):
            victim = chance.choice(sorted(found, key=lambda p: p.pid))
            name = titled(victim)
            victim.send_signal(signal.SIGKILL)
            return name
        time.sleep(0.02)
    return ""


def kill(target: str, scene: Scene, chance: random.Random, process: subprocess.Popen[str]) -> str:
    if target == "driver":
        process.kill()
        process.wait()
        return "driver"
    if target == "raylet":
        node = chance.choice(scene.workers)
        os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        scene.workers.remove(node)
        scene.cluster.remove_node(node, allow_graceful=False)
        scene.workers.append(scene.cluster.add_node(num_cpus=1, object_store_memory=100 << 20))
        return "raylet"
    return kill_one(scene, chance, WORK[target], process)


def await_moment(out: Path, chance: random.Random, process: subprocess.Popen[str]) -> str:
    """Wait for a moment by chance: after so many entries of the journal, or at a step of the publication; which it was."""
    versions = {name: table.version(str(out), name) for name in ("chunks", "documents")}
    steps: list[tuple[str, Callable[[], bool]]] = [
        *((f"{n} entries", partial(lambda n: len(left(out)) >= n, n)) for n in range(8)),
        ("intended", lambda: any(path.name == runs.INTENT for path in left(out))),
        ("chunks published", lambda: table.version(str(out), "chunks") != versions["chunks"]),
        ("documents published", lambda: table.version(str(out), "documents") != versions["documents"]),
    ]
    name, holds = chance.choice(steps[:8] if chance.random() < 0.6 else steps[8:])
    while process.poll() is None and not holds():
        time.sleep(0.01)
    time.sleep(2 * PAUSE_S * chance.random())
    return name


def left(out: Path) -> list[Path]:
    """What runs that have not ended left."""
    return [path for path in out.glob("_runs/*/*.json") if path.name != runs.RECORD]


def finished(out: Path) -> set[str]:
    """The sources that journals say are complete."""
    have: Counter[str] = Counter()
    totals: dict[str, int] = {}
    for run_id in runs.unfinished(str(out)):
        for entry in runs.journal(str(out), run_id):
            for source, (n, total) in entry.sources.items():
                have[source] += n
                if total >= 0:
                    totals[source] = total
    return {source for source, total in totals.items() if have[source] >= total}


def survives(target: str, seed: int, scene: Scene, folder: Path) -> None:
    chance = random.Random(seed)
    out = folder / "out"
    first = not chance.randrange(3)  # of all nights
    if not first:
        shutil.copytree(scene.yesterday, out)
    with watched(out, scene) as seen:
        process = scene.run(out, pause_s=PAUSE_S)
        ready(process)
        moment = await_moment(out, chance, process)
        killed = kill(target, scene, chance, process)
        if target == "driver":
            wait_until(lambda: not processes(scene, *WORK["worker"], *WORK["actor"]), 30)
            done, intended = finished(out), [runs.intent(str(out), r) for r in runs.unfinished(str(out))]
            process = scene.run(out)
            ready(process)
        summary = ended(process)
    assert seen["chunks nothing" if first else "chunks before"]
    same(out, scene, f"{killed} killed at {moment}")
    sources = summary["sources"]
    if target == "driver":
        again = sources["added"] + sources["changed"] - sources["adopted"]
        assert sources["adopted"] >= len(done) or (any(intended) and again == 0)
        counts = f"{len(done)} were finished, {sources['adopted']} adopted, {again} done again"
        print(f"{seed} {target} at {moment}: {counts}, intent: {any(intended)}, first: {first}")
    else:
        print(f"{seed} {target} at {moment}: {killed}, seen {summary['seen']}")


def same(out: Path, scene: Scene, what: str) -> None:
    """Nothing is lost or doubled, and nothing is left over."""
    for name in ("chunks", "documents"):
        assert rows(out, name) == scene.after[name], f"{what}: {name} differ"
    assert table.version(str(out), "chunks") == table.version(str(out), "documents")
    assert runs.unfinished(str(out)) == []


def wait_until(holds: Callable[[], bool], timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(("target", "seed"), IN_CI)
def test_a_killed_process_costs_nothing_but_its_time(scene, tmp_path, target, seed):
    survives(target, seed, scene, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("target", "seed"), LONG)
def test_a_hundred_killed_processes(scene, tmp_path, target, seed):
    survives(target, seed, scene, tmp_path)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_two_processes_that_do_the_same_at_once_both_end_well(scene, tmp_path, seed):
    chance = random.Random(seed)
    out = tmp_path / "out"
    if seed % 2:
        shutil.copytree(scene.yesterday, out)
    with watched(out, scene):
        both = [scene.run(out, pause_s=PAUSE_S) for _ in range(2)]
        for process in both:
            ready(process)
            time.sleep(chance.choice((0.0, chance.random() * scene.seconds)))
        summaries = [ended(process) for process in both]

    same(out, scene, "both ran")
    print(f"{seed}: {[s['sources'] for s in summaries]}, {table.version(str(out), 'chunks')}")
