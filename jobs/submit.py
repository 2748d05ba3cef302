"""Submitting a job to a Ray cluster: the code travels as a wheel, the log comes back, and so does the exit code."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import copy2, copytree
from tempfile import TemporaryDirectory
from typing import Any

import yaml

import chunkmill
from chunkmill.chunkers.errors import ConfigError, RunError

ENTRYPOINT = "python -m chunkmill.jobs run job.yaml"
PASSED = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "CHUNKMILL_FAST", "HF_HOME", "TIKTOKEN_CACHE_DIR")


def submit(
    job: Mapping[str, Any],
    address: str,
    *,
    name: str = "",
    files: Sequence[str] = (),
    wait: bool = True,
    say: Callable[[str], None],
) -> int:
    """Run a job (the mapping of its file) on the cluster at this address; its exit code, or 0 at once without `wait`.

    `name`: an id of the job; a second job of the same name is refused while Ray remembers the first, as a lock for nightly
    runs. `files` go along beside the job file. Raises ConfigError where the cluster can't be reached or refuses.
    """
    logging.getLogger("ray").setLevel(logging.WARNING)
    client = _client(address)
    with TemporaryDirectory(prefix="chunkmill-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        (work / "job.yaml").write_text(yaml.safe_dump(dict(job)), encoding="utf-8")
        for path in [*files, *strategies(job)]:
            _copy(Path(path), work)
        environment = {"working_dir": str(work), "py_modules": [str(wheel(Path(folder)))], "env_vars": _passed()}
        try:
            submission = client.submit_job(
                entrypoint=ENTRYPOINT, submission_id=name or None, runtime_env=environment, entrypoint_num_cpus=0
            )
        except RuntimeError as error:
            raise ConfigError(f"{address} refused the job: {_last_line(error)}") from None
    say(f"submitted as {submission} to {address}")
    return asyncio.run(_follow(client, submission, say)) if wait else 0


async def _follow(client: Any, submission: str, say: Callable[[str], None]) -> int:
    async for lines in client.tail_job_logs(submission):
        for line in lines.rstrip("\n").split("\n"):
            say(line)
    info = client.get_job_info(submission)
    if info.driver_exit_code is None and info.status != "SUCCEEDED":
        raise RunError(f"{submission} ended as {info.status}: {info.message}")
    return int(info.driver_exit_code or 0)


def _client(address: str) -> Any:
    try:
        import aiohttp  # noqa: F401  # the client works only half without it
        from ray.job_submission import JobSubmissionClient
    except ImportError as error:
        raise ConfigError(f'submitting needs {error.name}: pip install "chunkmill[cluster]"') from None
    try:
        return JobSubmissionClient(address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"no Ray answers at {address}: {_last_line(error)}; give the dashboard's address, http://HEAD:8265"
        ) from None


def strategies(job: Mapping[str, Any]) -> list[str]:
    """The files and folders of what is the user's own (strategy, parsers, backend), if they lie in the working directory."""
    parsers = [(f or {}).get("parser", "") if not isinstance(f, str) else f for f in (job.get("formats") or {}).values()]
    named = [(job.get("chunk") or {}).get("strategy", ""), (job.get("embed") or {}).get("backend", ""), *parsers]
    tops = dict.fromkeys(str(name).partition(":")[0].partition(".")[0] for name in named if ":" in str(name))
    return [str(p) for top in tops for p in (Path(f"{top}.py"), Path(top)) if p.exists()]


def wheel(folder: Path) -> Path:
    """The package as it is installed here, as a wheel. Its version carries a hash of it, because Ray caches wheels by name.

    It requires nothing: the cluster has Ray and the libraries already, and a second Ray must not come with it.
    """
    files = dict(_modules())
    version = f"{chunkmill.__version__}+{hashlib.blake2b(b''.join(files.values()), digest_size=6).hexdigest()}"
    info = f"chunkmill-{version}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: chunkmill\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: chunkmill\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"chunkmill-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return path


def _modules() -> Iterator[tuple[str, bytes]]:
    root = Path(chunkmill.__file__).parent
    for folder in (root, *(root / name for name in ("chunkers", "io", "jobs"))):
        pattern = "*" if folder == root else "**/*"
        for path in sorted(folder.glob(pattern)):
            if path.suffix == ".py" or path.name == "py.typed":
                yield str(Path("chunkmill") / path.relative_to(root)), path.read_bytes()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _copy(path: Path, folder: Path) -> None:
    if not path.exists():
        raise ConfigError(f"{str(path)!r} does not exist; it was to go along with the job")
    copytree(path, folder / path.name) if path.is_dir() else copy2(path, folder / path.name)


def _passed() -> dict[str, str]:
    """Of this environment, what decides where things are; never a secret: the cluster has roles or keys of its own."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else type(error).__name__
