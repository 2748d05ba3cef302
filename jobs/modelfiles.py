"""What the files of a sentence-transformers model say of it: whether it can be used, what it reads, how it pools.

Small files only: nothing here loads torch. The `revision` is a hash of all that decides a vector.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from chunkmill.chunkers.errors import ConfigError

READ = ("*.json", "*.txt", "*.model", "*.safetensors")  # what a model is loaded from; never pickles
CODE = "*.py"  # only where the job trusts it
UNREAD = {"data_config.json"}  # a record of the training data
NEEDED = {"Transformer": ("config.json", "tokenizer.json"), "Pooling": ("config.json",), "Dense": ("config.json",)}
OFFSET = {"roberta", "xlm-roberta", "camembert", "mpnet"}  # architectures that count positions from behind the padding's id
LFS = b"version https://git-lfs"
COLOUR = re.compile(r"\x1b\[[\d;]*m")
MISSING = re.compile(r"^(.+?)\s*\|\s*MISSING", re.M)
LISTED = re.compile(r"newly initialized[^\[]*(\[[^\]]*\])")
OWN = "sentence_transformers."
DOCUMENT, QUERY = ("document", "passage", "corpus"), ("query",)  # the names of prompts, the first there is counts


def check(name: str, folder: Path, *, trusted: bool = False) -> None:
    """Raise unless the folder holds a model that can be loaded."""
    if wrong := trouble(folder, trusted=trusted):
        raise ConfigError(f"embed.model {name!r}: {wrong}")


def trouble(folder: Path, *, trusted: bool = False) -> str:
    """What keeps a folder from being a usable model; empty if nothing."""
    if not (folder / "modules.json").is_file():
        return f"{folder} has no modules.json, so it isn't a sentence-transformers model"
    modules = modules_of(folder)
    kinds = [kind(module) for module in modules]
    foreign = [module["type"] for module in modules if not module["type"].startswith(OWN)]
    if foreign and not trusted:
        return f"it needs code of its own ({foreign[0]}), which is run only with embed.trust_remote_code: true"
    if (not foreign and kinds[:1] != ["Transformer"]) or "Pooling" not in kinds:
        return f"its modules are {', '.join(kinds)}; only models of a Transformer and a Pooling are supported"
    for module in modules:
        part = folder / module["path"]
        if absent := [file for file in NEEDED.get(kind(module), ()) if not (part / file).is_file()]:
            return f"{part} has no {' and no '.join(absent)}"
        weights, pickles = list(part.glob("*.safetensors")), sorted(part.glob("*.bin")) + sorted(part.glob("*.pt"))
        if not weights and (pickles or kind(module) in ("Transformer", "Dense")):
            has = f"only {pickles[0].name}, a pickle, which can run code when it is loaded" if pickles else "no weights"
            return f"{part} has {has}; save the model as safetensors"
        if pointers := [file.name for file in weights if file.is_file() and _starts(file, LFS)]:
            return f"{part / pointers[0]} is a pointer of Git LFS, not the weights; fetch them with `git lfs pull`"
        for index in part.glob("*.safetensors.index.json"):
            if absent := sorted({f for f in read(index)["weight_map"].values() if not (part / f).is_file()}):
                return f"{part} lacks {absent[0]}"
    return ""


def revision(folder: Path, *, trusted: bool = False) -> str:
    """Hash of the files that decide the vectors: settings, tokenizer and weights of every module (its code, if it runs)."""
    parts = sorted({folder / module["path"] for module in modules_of(folder)} | {folder})
    patterns = (*READ, CODE) if trusted else READ
    found = sorted({file for part in parts for pattern in patterns for file in part.glob(pattern)})
    digest = hashlib.sha256()
    for file in found:
        if file.name not in UNREAD:
            digest.update(f"{file.relative_to(folder).as_posix()} {sha256(file)}\n".encode())
    return digest.hexdigest()[:32]


def sha256(file: Path) -> str:
    """The file's hash, computed once per process; the hub's cache names large files by it."""
    target = file.resolve()
    if target.parent.name == "blobs" and len(target.name) == 64:
        return target.name
    return hashed(str(target), target.stat().st_mtime_ns, target.stat().st_size)


@lru_cache
def hashed(path: str, modified: int, size: int) -> str:
    """The hash of a file in this state."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reads(name: str, root: Path) -> tuple[int, int]:
    """The model's window in tokens (what it was tuned for, else all it can take), and the most that it can take."""
    tuned = [read(file).get("max_seq_length") for file in sorted(root.glob("sentence_*_config.json"))]
    allowed = [read(root / "tokenizer_config.json").get("model_max_length")]
    allowed.append(read(root / "config.json").get("max_position_embeddings"))
    wanted, most = [int(v) for v in tuned if v], [int(v) for v in allowed if v and 0 < v < 10**9]
    if not wanted and not most:
        raise ConfigError(f"embed.model {name!r}: {root} doesn't say how much it reads (max_seq_length)")
    config = read(root / "config.json")
    positions = config.get("max_position_embeddings")
    if positions and config.get("model_type") in OFFSET:
        positions -= config.get("pad_token_id", 1) + 1
    return min(wanted or most), int(positions or max(wanted + most))


def width(folder: Path, modules: list[dict[str, str]]) -> int:
    """The width of the model's vectors: what the last module that changes it says."""
    last = next(m for m in reversed(modules) if kind(m) in ("Pooling", "Dense"))
    config = read(folder / last["path"] / "config.json")
    if kind(last) == "Dense":
        return int(config["out_features"])
    hidden = int(config.get("embedding_dimension") or config["word_embedding_dimension"])
    return hidden * max(1, len(modes(config)))


def pooling(folder: Path, modules: list[dict[str, str]]) -> str:
    """How the model makes a vector of token states: `mean`, `cls`, `lasttoken`, …; several joined by `+`."""
    (first, *more) = [module for module in modules if kind(module) == "Pooling"]
    return "+".join([*modes(read(folder / first["path"] / "config.json")), *(kind(m) for m in more)])


def modes(config: Mapping[str, Any]) -> list[str]:
    """The modes of a Pooling, by the names of its newest format."""
    if given := config.get("pooling_mode"):
        return [given] if isinstance(given, str) else list(given)
    old = [key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on]
    return [{"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max"}.get(name, name) for name in old]


def prompts(folder: Path) -> tuple[str, str]:
    """What the model wants in front of a document and in front of a query."""
    config = read(folder / "config_sentence_transformers.json")
    known = {name: text for name, text in (config.get("prompts") or {}).items() if text}
    if wrong := next((name for name, text in known.items() if not isinstance(text, str)), ""):
        raise ConfigError(f"{folder / 'config_sentence_transformers.json'}: the prompt {wrong!r} is no text: {known[wrong]!r}")
    usual = known.get(config.get("default_prompt_name") or "", "")
    document, query = (next((known[n] for n in names if n in known), usual) for names in (DOCUMENT, QUERY))
    return document, query


def missing(said: Iterable[str]) -> list[str]:
    """The weights that a report of transformers calls missing, but for the pooler's, which nothing here uses.

    Release 5 has a line for each, `name | MISSING`, in colour; release 4 lists names behind `newly initialized`.
    """
    plain = [COLOUR.sub("", text) for text in said]
    found = [name for text in plain for name in MISSING.findall(text)]
    found += [name for text in plain for names in LISTED.findall(text) for name in re.findall("'([^']+)'", names)]
    return [name for name in found if "pooler." not in name]


def kind(module: Mapping[str, str]) -> str:
    """A module's class name."""
    return module["type"].rpartition(".")[2]


def modules_of(folder: Path) -> list[dict[str, str]]:
    """The model's modules in order: their type and their folder."""
    modules: list[dict[str, str]] = read(folder / "modules.json", list)
    return modules


def read(file: Path, holds: type = dict) -> Any:
    """A JSON file; empty if there is none. ConfigError where it is damaged or holds something else."""
    if not file.is_file():
        return holds()
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} of the embedding model can't be read as JSON: {error}") from error
    if not isinstance(found, holds):
        raise ConfigError(f"{file} of the embedding model holds a {type(found).__name__}, where models have a {holds.__name__}")
    return found


def _starts(file: Path, magic: bytes) -> bool:
    with open(file, "rb") as opened:
        return opened.read(len(magic)) == magic
