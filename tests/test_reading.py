"""What the README says of reading a dataset works, library by library, and `diff` keeps a vector store up to date."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from chunkmill.io import table
from chunkmill.jobs import pipeline
from chunkmill.jobs.config import load

EXAMPLES = Path(__file__).parent.parent / "examples" / "reading"
LEFT_OUT = {  # of the extra `dev`
    "chromadb": "chromadb isn't installed: with onnxruntime and a Kubernetes client it is too heavy for the extra `dev`",
    "llama_index.core": "llama-index-core isn't installed: its many dependencies are too heavy for the extra `dev`",
}
TEXTS = {
    "lamp.md": "# Lamp\n\nTrim the wick every evening.",
    "soup.md": "# Soup\n\nBoil the potatoes with leek.",
    "fog.txt": "Fog.",
}


@pytest.fixture(scope="module")
def two_versions(ray_here, offline_model, tmp_path_factory):
    """A corpus and a dataset of it with vectors at version 0; a function that changes the corpus and runs again."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "corpus").mkdir()
    for name, text in TEXTS.items():
        (folder / "corpus" / name).write_text(text)
    job = load({"input": str(folder / "corpus"), "output": str(folder / "dataset"), "chunk": {"size": 100}})
    pipeline.run(job)
    shutil.copytree(folder / "dataset", folder / "first")
    (folder / "corpus" / "soup.md").write_text("# Soup\n\nFry the onions in butter.")
    (folder / "corpus" / "fog.txt").unlink()
    (folder / "corpus" / "new.txt").write_text("A boat in the harbour.")
    pipeline.run(job)
    return folder / "first", folder / "dataset"


@pytest.fixture
def dataset(two_versions):
    return str(two_versions[1])


@pytest.fixture
def growing(two_versions, tmp_path):
    """A dataset at version 0, and a function that brings it to version 1."""
    first, second = two_versions
    shutil.copytree(first, tmp_path / "dataset")
    return str(tmp_path / "dataset"), lambda: shutil.copytree(second, tmp_path / "dataset", dirs_exist_ok=True)


def example(name: str):
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chunks(dataset: str) -> dict[str, dict]:
    return {row["chunk_id"]: row for row in table.read(dataset, "chunks").to_pylist()}


def test_polars_reads_the_ledger(dataset):
    rows = example("with_polars").heaviest(dataset)

    assert sorted(Path(uri).name for uri in rows["uri"]) == ["lamp.md", "new.txt", "soup.md"]


def test_pandas_reads_the_chunks(dataset):
    assert set(example("with_pandas").chunks(dataset)["chunk_id"]) == set(chunks(dataset))


def test_ray_reads_the_chunks(dataset):
    assert example("with_ray").tokens(dataset) == sum(row["n_tokens"] for row in chunks(dataset).values())


def test_duckdb_counts_and_finds_the_nearest(dataset):
    duckdb = example("with_duckdb")
    key, row = next(iter(chunks(dataset).items()))

    assert [(format, n) for format, n, _ in duckdb.sizes(dataset)] == [("markdown", 2), ("text", 1)]
    assert duckdb.nearest(dataset, row["vector"], 1)[0] == (key, pytest.approx(1, abs=1e-5))


def test_langchain_documents_are_the_chunks(dataset):
    found = {d.id: d.page_content for d in example("with_langchain").documents(dataset)}

    assert found == {key: row["text"] for key, row in chunks(dataset).items()}


def test_llama_index_nodes_are_the_chunks_with_their_vectors(dataset):
    pytest.importorskip("llama_index.core", reason=LEFT_OUT["llama_index.core"])
    found = {n.node_id: (n.text, n.embedding) for n in example("with_llama_index").nodes(dataset)}

    assert found == {key: (row["text"], row["vector"]) for key, row in chunks(dataset).items()}


def test_a_qdrant_collection_follows_the_dataset(growing):
    dataset, grow = growing
    qdrant = example("with_qdrant")
    client = qdrant.QdrantClient(":memory:")
    version = qdrant.fill(client, "chunks", dataset)
    grow()

    assert (version, qdrant.update(client, "chunks", dataset, version)) == (0, 1)

    points, _ = client.scroll("chunks", limit=100)
    assert {p.payload["chunk_id"]: p.payload["text"] for p in points} == {k: r["text"] for k, r in chunks(dataset).items()}


def test_a_lance_table_follows_the_dataset(growing, tmp_path):
    dataset, grow = growing
    lance = example("with_lancedb")
    db = lance.lancedb.connect(tmp_path / "lance")
    version = lance.fill(db, dataset)
    grow()

    assert (version, lance.update(db, dataset, version)) == (0, 1)

    rows = db.open_table("chunks").to_arrow().to_pylist()
    assert {r["chunk_id"]: r["text"] for r in rows} == {k: r["text"] for k, r in chunks(dataset).items()}


def test_a_chroma_collection_follows_the_dataset(growing):
    pytest.importorskip("chromadb", reason=LEFT_OUT["chromadb"])
    dataset, grow = growing
    chroma = example("with_chroma")
    collection = chroma.chromadb.EphemeralClient().create_collection("chunks", embedding_function=None)
    version = chroma.fill(collection, dataset)
    grow()

    assert (version, chroma.update(collection, dataset, version)) == (0, 1)

    found = collection.get()
    assert dict(zip(found["ids"], found["documents"], strict=True)) == {k: r["text"] for k, r in chunks(dataset).items()}
