"""Ray as a run finds it: started here on a laptop, or the cluster the job was submitted to; and what the stages may use."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import ray
import ray.cloudpickle
from ray.exceptions import RayError, RayTaskError

from chunkmill.chunkers.errors import ChunkmillError, RunError
from chunkmill.io.storage import COLOUR
from chunkmill.jobs.backends import backend
from chunkmill.jobs.config import Job

if TYPE_CHECKING:  # loaded where Ray is used: it takes as long as a small run
    from ray.data import ActorPoolStrategy

BLOCK_BYTES = 32 << 20
STORE_BYTES = 1 << 30
RAY_DATA_ADDS = "\nFailed to "  # begins what it puts behind the message of an exception
WIDE_CPUS = 16  # of a cluster that may grow: for so many there is work at once, however few it has when the run begins
HERE_BYTES, HERE_SOURCES = 4 << 20, 2_000  # of sources: work that one process has done before Ray has started
CAUSE = re.compile(r"[\w.]+(?:Error|Exception)\b")
SILENCE_S = 6 * 3_600  # without an output of any stage, until a run is given up: large documents embedded on a CPU take long


T = TypeVar("T")


class Resources(NamedTuple):
    """What there is: logical CPUs (none on a cluster at rest), GPUs, machines, and whether more may come when asked for."""

    cpus: int
    gpus: int
    nodes: int
    grows: bool = False


def needed(job: Job, sources: pa.Table) -> bool:
    """Whether a run over these sources (schema `plan.TODO`) takes Ray: where there is one, where a model is asked, where
    documents have no process of their own to die in, and where the work is more than Ray's start.
    """
    if ray.is_initialized() or os.environ.get("RAY_ADDRESS"):
        return True
    asks = bool(len(sources)) and (job.embed is not None or job.asks or not job.run.isolate)
    return asks or len(sources) > HERE_SOURCES or (pc.sum(sources["size"]).as_py() or 0) > HERE_BYTES


def connect(cpus: int | None = None) -> Resources:
    """Use the Ray this process belongs to or is pointed at by RAY_ADDRESS; else start one here, quietly."""
    from ray.data import DataContext

    if not ray.is_initialized():
        if os.environ.get("RAY_ADDRESS"):
            ray.init(logging_level="ERROR")
        else:
            _start(cpus)
        stoppable()
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = BLOCK_BYTES
    context.execution_no_progress_timeout_s = SILENCE_S
    context.raise_original_map_exception = True  # else a task's own error comes back as a text
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it logs the trace of what it raises too
    found, nodes = ray.cluster_resources(), sum(node["Alive"] for node in ray.nodes())
    grows = nodes > 1 or bool(os.environ.get("RAY_ADDRESS"))  # not a Ray that was started here
    return Resources(int(found.get("CPU", 0)), int(found.get("GPU", 0)), nodes, grows)


def stoppable() -> None:
    """Have SIGTERM stop this process as Ctrl-C does; Ray's own handler aborts with a dump."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def each(function: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> list[T]:
    """What the function gives for the arguments of each call: from Ray's tasks where there is a Ray, else from threads here.

    An argument that several calls have is sent once.
    """
    if not ray.is_initialized():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda call: function(*call), calls))
    task = ray.remote(num_cpus=1)(function)
    sent = {key: ray.put(value) for key, value in {id(value): value for call in calls for value in call}.items()}
    return ray.get([task.remote(*(sent[id(value)] for value in call)) for call in calls])


def carry(job: Job) -> None:
    """The user's own modules travel by value: workers may not find them."""
    for module in job.own_modules:
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])


@contextmanager
def told() -> Iterator[None]:
    """What goes wrong in Ray's tasks as what it is: our own errors as they were raised, trouble of Ray's own as a RunError."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, ChunkmillError):
            said, *more = error.cause.args
            error.cause.args = (str(said).partition(RAY_DATA_ADDS)[0], *more)
            raise error.cause from None
        if isinstance(error.cause, OSError):  # a full disk, a limit of the machine
            raise RunError(f"a task failed: {error.cause}") from error
        raise  # a mistake of ours: with all that is known of where
    except OSError as error:
        raise RunError(f"the run can't go on: {error}") from error
    except _of_ray() as error:
        first, *trace = COLOUR.sub("", f"Ray can't go on ({type(error).__name__}): {error}").splitlines()
        cause = next((line for line in reversed(trace) if CAUSE.match(line)), "")  # of an actor that could not be made
        raise RunError(f"{first} {cause}".rstrip()) from error


def _of_ray() -> tuple[type[Exception], ...]:
    if "ray.data" not in sys.modules:
        return (RayError,)
    from ray.data.exceptions import ExecutionTimeoutError

    return RayError, ExecutionTimeoutError


def _start(cpus: int | None) -> None:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # a Ray of this process only
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one tokenizer thread for each worker
    with _quiet():
        ray.init(
            address="local",  # not the one that someone else may have started on this machine
            num_cpus=cpus,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
            object_store_memory=min(STORE_BYTES, _shared_memory()),
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's C++ side warns about every pool of actors (ray issue 53727), and says so when it is told not to.

    Set RAY_BACKEND_LOG_LEVEL to hear it. What goes wrong is raised as an exception either way.
    """
    if "RAY_BACKEND_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
        del os.environ["RAY_BACKEND_LOG_LEVEL"]


def _shared_memory() -> int:
    """Room for the object store: half of what the shared-memory file system has free, at least Ray's minimum."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return STORE_BYTES
    return max(80 << 20, found.f_bavail * found.f_frsize // 2)


def pool(resources: Resources, blocks: int, job: Job) -> tuple[ActorPoolStrategy, dict[str, Any], str | None, int | None]:
    """How many actors embed (no more than there are blocks), what each takes, its device, its threads.

    With GPUs: one each, or as many as share one. Without: one single-threaded actor per CPU, which together take no CPU from
    the tasks that feed them, so that the smallest machine can't deadlock. An endpoint: one, which asks several things at once.
    A cluster gets the GPUs that `num_gpus` asks for although it has none yet, and more of them as long as there are blocks.
    """
    from ray.data import ActorPoolStrategy

    assert job.embed is not None
    if not backend(job.embed.backend).local:
        return ActorPoolStrategy(size=1), {"num_cpus": 0}, None, None
    gpu = job.resources.gpu
    memory = _memory(gpu.memory_mb)
    if resources.gpus or (resources.grows and "num_gpus" in gpu.model_fields_set):
        fit = blocks if resources.grows else max(1, int(resources.gpus / gpu.num_gpus))
        actors = _actors(gpu.concurrency, min(fit, blocks), default=fit)
        return actors, {"num_gpus": gpu.num_gpus, "num_cpus": gpu.num_cpus, **memory}, "cuda", None
    alone = resources.cpus == 1 or (resources.nodes == 1 and resources.cpus > 0)
    size = resources.cpus if alone else max(1, resources.cpus - 1)
    most = blocks if resources.grows and gpu.concurrency else min(size, blocks)
    actors = _actors(gpu.concurrency, most, default=size)  # a small night ends before a second one is up
    return actors, {"num_cpus": 0 if alone else 0.5, **memory}, "cpu", 1


def _actors(asked: int | tuple[int, int] | None, most: int, *, default: int) -> ActorPoolStrategy:
    """As many as asked for (or from so many to so many), no more than `most`."""
    from ray.data import ActorPoolStrategy

    low, high = asked if isinstance(asked, tuple) else (asked or 1, asked or default)
    high = max(1, min(high, most))
    return ActorPoolStrategy(min_size=min(low, high), max_size=high)


def tasks(job: Job) -> dict[str, Any]:
    """What a task takes that prepares documents, and how many run at once."""
    from ray.data import TaskPoolStrategy

    cpu = job.resources.cpu
    at_once = {"compute": TaskPoolStrategy(size=cpu.concurrency)} if cpu.concurrency else {}
    return {"num_cpus": cpu.num_cpus, **_memory(cpu.memory_mb), **at_once}


def _memory(megabytes: int | None) -> dict[str, int]:
    return {"memory": megabytes << 20} if megabytes else {}
