"""Whether there is a machine for what each stage takes: Ray waits for one without a word, however little hope there is.

A Ray that was started here stays as it is. A cluster may get more: machines that join it by themselves, and those that its
autoscaler brings, which come when work waits for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import ray
from ray.exceptions import RayError

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.jobs import cluster
from chunkmill.jobs.cluster import Resources
from chunkmill.jobs.config import Job

if TYPE_CHECKING:
    from ray.data import Dataset

LOOK_S = 2.0
JOIN_S = 120.0  # that a cluster without an autoscaler is given for a machine to join it
BRING_S = 900.0  # that an autoscaler is given to begin to bring one: others' machines may have to go first
READ_ONLY = "node_"  # begins the names of the kinds of machines that Ray makes up where no autoscaler has any
UNITS = {"CPU": ("CPU", "CPUs"), "GPU": ("GPU", "GPUs")}
NAMES = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}

Takes = Mapping[str, float]  # by Ray's names for what machines have
_lacking: list[str] = []  # what the run of this process waits for, if it does


class Stage(NamedTuple):
    """A stage as Ray places it: what each task or actor of it takes, and whether one keeps that to the end of the run."""

    work: str
    takes: Takes
    setting: str
    keeps: bool = False


def stages(job: Job, resources: Resources) -> list[Stage]:
    """What one task or actor of each stage takes."""
    asked = cluster.tasks(job)
    found = [Stage("preparing documents", _takes(asked), "resources.cpu"), Stage("writing", {"CPU": 1}, "")]
    if job.embed:
        found.append(Stage("embedding", _takes(cluster.pool(resources, 1, job)[1]), "resources.gpu", keeps=True))
    return found


def _takes(options: Mapping[str, Any]) -> Takes:
    return {name: options[option] for option, name in NAMES.items() if options.get(option)}


def watched(laid: Dataset, job: Job, resources: Resources) -> Dataset:
    """The stages, which end with a RunError if one of them waits for a machine in vain.

    Raises ConfigError where the Ray of this machine can never run them.
    """
    wanted = stages(job, resources)
    _lacking.clear()
    there = machines()
    if not resources.grows:
        check_here(wanted, there)
    elif lacks := without(wanted, there):
        _say(lacks)
        laid.context.custom_execution_callback_classes = [partial(Watch, wanted)]  # type: ignore[list-item]  # makes one
    return laid


def lacking() -> str:
    """What a run that has begun waits for, in words; empty if it has all it takes."""
    return _lacking[0] if _lacking else ""


def _say(wanted: list[Stage]) -> None:
    _lacking[:] = [f"a machine with {amounts(stage.takes)} for {stage.work}" for stage in wanted]


def machines() -> list[Takes]:
    """What each machine has in all."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]  # Ray has no types


def without(wanted: list[Stage], there: list[Takes]) -> list[Stage]:
    """The stages that no machine has room for, however idle it is."""
    return [stage for stage in wanted if not any(fits(stage.takes, machine) for machine in there)]


def fits(takes: Takes, machine: Takes) -> bool:
    """Whether a machine has all of this at once."""
    return all(machine.get(name, 0) >= n for name, n in takes.items())


def check_here(wanted: list[Stage], there: list[Takes]) -> None:
    """Raises ConfigError where these machines can't run a stage, alone or beside actors that keep what they take."""
    for stage in without(wanted, there):
        raise ConfigError(f"{_says(stage)}, and there is only {_have(there)} here; ask for less, or run on a cluster")
    left = sum(machine.get("CPU", 0) for machine in there) - sum(s.takes.get("CPU", 0) for s in wanted if s.keeps)
    for stage in wanted:
        if not stage.keeps and stage.takes.get("CPU", 0) > left:
            kept = " and ".join(f"{_says(s)} to the end of the run" for s in wanted if s.keeps)
            raise ConfigError(f"{kept}, which leaves {amounts({'CPU': left})} here, and {_says(stage)}; ask for less")


def _says(stage: Stage) -> str:
    where = f" ({stage.setting})" if stage.setting else ""
    return f"{stage.work} takes {amounts(stage.takes)}{where}"


def _have(there: list[Takes]) -> str:
    """The machines in words, alike ones once."""
    known = {amounts({name: m[name] for name in NAMES.values() if m.get(name)}) or "nothing": 1 for m in there}
    return "; ".join(known) or "none"


def amounts(takes: Takes) -> str:
    """`1 GPU, 0.5 CPUs and 2,048 MB of memory`."""
    parts = [f"{n:,g} {UNITS[name][n != 1]}" for name, n in takes.items() if name in UNITS]
    parts += [f"{takes['memory'] / (1 << 20):,.0f} MB of memory"] if takes.get("memory") else []
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


class Watch:
    """Looks while Ray Data works (as its ExecutionCallback) whether the machines that stages wait for have come."""

    def __init__(self, wanted: list[Stage]) -> None:
        self.wanted = wanted
        self.looked = self.hoped = time.monotonic()

    def before_execution_starts(self, executor: object) -> None:
        """Nothing is to be done yet."""

    def on_execution_step(self, executor: object) -> None:
        """Called some times a second. Raises RunError where there is no more hope."""
        now = time.monotonic()
        if not self.wanted or now - self.looked < LOOK_S:
            return
        self.looked, there = now, machines()
        self.wanted = without(self.wanted, there)
        _say(self.wanted)
        scaler = Autoscaler.asked()
        if scaler.bringing or not self.wanted:
            self.hoped = now
        if (waited := now - self.hoped) > (BRING_S if scaler.there else JOIN_S):
            raise RunError(_in_vain(self.wanted[0], there, scaler, waited))

    def after_execution_succeeds(self, executor: object) -> None:
        """Nothing is to be done any more."""

    def after_execution_fails(self, executor: object, error: Exception) -> None:
        """Nothing is to be done any more."""


def _in_vain(stage: Stage, there: list[Takes], scaler: Autoscaler, waited: float) -> str:
    who = "its autoscaler began to bring none" if scaler.there else "it has no autoscaler, and none joined"
    wants = f"{_says(stage)}; no machine of the cluster has that (they have {_have(there)})"
    return f"{wants}, and {who} in {waited / 60:.0f} min. Add such a machine to the cluster, or ask for less"


class Autoscaler(NamedTuple):
    """The cluster's autoscaler: whether there is one with kinds of machines to choose from, and whether it is bringing one of a
    kind that is not there yet: those that are there are known to be too small, or nothing would wait.
    """

    there: bool = False
    bringing: bool = False

    @classmethod
    def asked(cls) -> Autoscaler:
        """As it says by itself; where it can't be understood it is waited for, as long as Ray does."""
        try:
            return cls._asked()
        except (ImportError, AttributeError, KeyError, TypeError, ValueError, RayError):  # of a Ray other than those known
            return cls(there=True, bringing=True)

    @classmethod
    def _asked(cls) -> Autoscaler:
        """In the way of its old version or of its new one."""
        from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled
        from ray.core.generated.autoscaler_pb2 import DEAD, GetClusterStatusReply  # type: ignore[attr-defined]  # generated
        from ray.experimental.internal_kv import _internal_kv_get

        if status := _internal_kv_get(DEBUG_AUTOSCALING_STATUS):
            report = json.loads(status).get("autoscaler_report") or {}
            kinds = [*(report.get("node_type_mapping") or {}).values(), *report.get("pending_launches", ())]
            there = any(not kind.startswith(READ_ONLY) for kind in kinds)
            coming = {*(report.get("pending_launches") or ()), *(kind for _, kind, _ in report.get("pending_nodes") or ())}
            return cls(there, bool(coming - {*(report.get("active_nodes") or ())}))
        reply = GetClusterStatusReply()
        reply.ParseFromString(GcsClient(ray.get_runtime_context().gcs_address).get_cluster_status(timeout_s=10))
        state, nodes = reply.autoscaling_state, reply.cluster_resource_state.node_states
        known = {node.ray_node_type_name for node in nodes if node.status != DEAD}
        coming = {each.ray_node_type_name for each in (*state.pending_instance_requests, *state.pending_instances)}
        return cls(any(known), bool(coming - known))
