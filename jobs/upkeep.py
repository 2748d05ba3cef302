"""What is done to a dataset between runs: small files put together, an older state brought back, old files deleted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.io import parquet, runs, table
from chunkmill.io.runs import Intent, Step
from chunkmill.io.schema import SCHEMAS
from chunkmill.jobs import cluster
from chunkmill.jobs.publish import FULL_BYTES, TABLES, bundled, carry_out, recover

DEAD_S = 30 * 86_400  # a run that began so long ago and has not ended is dead
ORPHANED_S = 86_400  # the age at which a file that no version and no journal names is nobody's


def new_id() -> str:
    """A run's id: sorts by the time of its start."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}"


@cluster.told()
def compact(root: str, cpus: int | None = None) -> dict[str, tuple[int, int]]:
    """Put small files together, in one commit per table; of each table the number of files before and after.

    Raises ConfigError where there is no dataset.
    """
    recover(root)
    if table.version(root, "documents") is None:
        raise table.absent(root)
    cluster.connect(cpus)
    run_id, counts, steps = new_id(), {}, {}
    for name in TABLES:
        files, expected = table.active(root, name), table.version(root, name)
        if expected is None:
            continue
        small = [f for f in files if f.size < FULL_BYTES // 2]
        after = bundled(root, small, run_id, small_bytes=FULL_BYTES // 2)
        made = [f for f in after if f not in small]
        gone = [f for f in small if f not in after]
        counts[name] = len(files), len(files) - len(gone) + len(made)
        steps[name] = Step(expected, tuple(made), tuple(f.path for f in gone))
    if any(step.remove for step in steps.values()):
        _committed(root, run_id, steps, "compact")
    return counts


def rollback(root: str, version: int) -> dict[str, int]:
    """Bring the state of an older version back, as a new version of each table; the new versions.

    Raises ConfigError for a version there is not, RunError where files of it were deleted after the retention.
    """
    recover(root)
    wanted = state(root, version)
    run_id, steps = new_id(), {}
    for name in TABLES:
        expected = table.version(root, name)
        if expected is None:
            continue
        now = {f.path: f for f in table.active(root, name)}
        then = {f.path: f for f in table.active(root, name, wanted[name])} if name in wanted else {}
        back = [f for path, f in then.items() if path not in now]
        if not parquet.exist(root, back):
            raise RunError(f"files of version {version} of {root} were deleted after the retention; it can't be brought back")
        steps[name] = Step(expected, tuple(back), tuple(path for path in now if path not in then))
    return _committed(root, run_id, steps, "rollback")


def state(root: str, version: int) -> dict[str, int]:
    """The versions of all tables when the chunks were at this one."""
    known: dict[str, int] = {}
    for record in runs.records(root):
        known |= record.get("versions") or {}
        if known.get("chunks") == version:
            return dict(known)
    if (newest := table.version(root, "chunks")) is None:
        raise table.absent(root)
    raise ConfigError(f"{root} has no version {version}; it has 0 to {newest}; see `chunkmill runs {root}`")


def _committed(root: str, run_id: str, steps: Mapping[str, Step], kind: str) -> dict[str, int]:
    intent = Intent("", steps)
    runs.intend(root, run_id, intent)
    versions = carry_out(root, run_id, intent)
    runs.finish(root, run_id, {"run_id": run_id, "kind": kind, "versions": versions})
    return versions


def vacuum(root: str, retention_s: float) -> int:
    """Delete files that no version of the last `retention_s` seconds refers to, nor a run that has not ended; how many.

    What a run wrote that has no record is left alone for a day: it may be at work.
    """
    names = [name for name in SCHEMAS if table.version(root, name) is not None]
    keep, ended = _journaled(root), runs.ended(root)
    return sum(
        len(table.sweep(root, name, age_s=retention_s, keep=keep.get(name, ()), ended=ended, orphaned_s=ORPHANED_S))
        for name in names
    )


def _journaled(root: str) -> dict[str, set[str]]:
    """The files of runs that are at work, or died and may be taken over; the journals of those that are too old go."""
    found: dict[str, set[str]] = {name: set() for name in SCHEMAS}
    too_old = f"{datetime.now(UTC) - timedelta(seconds=DEAD_S):%Y%m%dT%H%M%S}"
    for run_id in runs.unfinished(root):
        if run_id < too_old:
            runs.forget(root, run_id)
        for entry in runs.journal(root, run_id):
            for file in entry.files:
                found[file.table].add(file.path)
    return found


def history(root: str) -> list[dict[str, Any]]:
    """The records of all runs, oldest first. Raises ConfigError where there is no dataset."""
    if table.version(root, "documents") is None and not runs.records(root):
        raise table.absent(root)
    return runs.records(root)
