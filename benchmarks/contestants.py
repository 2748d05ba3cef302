"""Who is compared: our strategies and the peers' splitters, each as a function of texts, and the texts they get.

Everything is imported in the process that runs it. `src/` is put on the path, so that the environment of the peers
needs nothing of ours installed but the four libraries that cutting stands on.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT.parent / "shared" / "bench" / "text"
ENCODING = "cl100k_base"
FAST = " [toktok]"  # our names end in what counts the tokens
SLOW = " [tiktoken]"
OURS = ("recursive", "fixed", "sentence")
PEERS = (
    "langchain.recursive",
    "langchain.token",
    "llamaindex.sentence",
    "semchunk",
    "sts.text",
    "sts.markdown",
    "chonkie.recursive",
    "chonkie.token",
    "chonkie.sentence",
    "chonkie.recursive [tokie]",
)
DISTRIBUTIONS = {
    "langchain": "langchain-text-splitters",
    "llamaindex": "llama-index-core",
    "semchunk": "semchunk",
    "sts": "semantic-text-splitter",
    "chonkie": "chonkie",
    "tiktoken": "tiktoken",
    "toktok": "toktok-rs",
}

Texts = Sequence[str]
Chunk = Any  # ours, or a string


def versions() -> str:
    """What was measured, in one line."""
    found = []
    for name in sorted(DISTRIBUTIONS.values()):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    return f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs: " + ", ".join(found)


def environment() -> None:
    """One thread everywhere; tiktoken's vocabularies from llama-index-core's package, so that nothing is downloaded."""
    os.environ.update(RAYON_NUM_THREADS="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    if spec := importlib.util.find_spec("llama_index.core"):
        cache = Path(spec.origin or "").parent / "_static" / "tiktoken_cache"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache))
    if str(ROOT / "src") not in sys.path:
        sys.path.insert(0, str(ROOT / "src"))


def text_sets(folder: Path, only: Sequence[str] = ()) -> dict[str, Path]:
    """The sets of a folder by name. Ends the program where there are none."""
    found = {path.name.split(".")[0]: path for path in sorted(folder.glob("*.jsonl.gz"))}
    if not found:
        sys.exit(f'no texts in {folder}: give a folder of *.jsonl.gz, one {{"id", "text"}} a line, with --text FOLDER')
    if missing := set(only) - set(found):
        sys.exit(f"no set {', '.join(sorted(missing))} in {folder}; there are {', '.join(found)}")
    return {name: found[name] for name in only or found}


def load(path: Path, most: int = 120_000) -> list[str]:
    """The texts of a set, shuffled; without those over `most` characters or with special tokens, on which peers raise."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    texts = [t for t in texts if len(t) < most and "<|" not in t]
    random.Random(5).shuffle(texts)
    return texts


def tiktoken_encoding() -> Any:
    """The reference."""
    import tiktoken

    return tiktoken.get_encoding(ENCODING)


def contestant(name: str, size: int, overlap: int, unit: str = ENCODING) -> Callable[[Texts], list[list[Chunk]]]:
    """The function of this name: texts → the chunks of each. `unit`: `cl100k_base` or `chars`."""
    if name.startswith("one pass"):
        return one_pass(name)
    if name.startswith("ours."):
        return our_strategy(name, size, overlap, unit)
    each = peer(name, size, overlap, None if unit == "chars" else tiktoken_encoding())
    return lambda texts: [each(t) for t in texts]


def one_pass(name: str) -> Callable[[Texts], list[list[Chunk]]]:
    """Tokenising alone, into arrays: what no exact chunker can beat."""
    if name.endswith(FAST):
        import toktok

        fast = toktok._encoding(ENCODING).encode_to_numpy
        return lambda texts: [fast(t) for t in texts]
    encode = tiktoken_encoding().encode_to_numpy
    return lambda texts: [encode(t, disallowed_special=()) for t in texts]


def our_strategy(name: str, size: int, overlap: int, unit: str) -> Callable[[Texts], list[list[Chunk]]]:
    """Through the library's own functions. The suffix of the name says which tokenizer CHUNKMILL_FAST selects."""
    os.environ["CHUNKMILL_FAST"] = "0" if name.endswith(SLOW) else "1"
    from chunkmill.chunkers.api import chunk_all, chunking, document

    strategy = name.removeprefix("ours.").split(" ")[0]
    how = chunking(strategy, size=size, overlap=overlap, unit=unit)
    return lambda texts: chunk_all([document(t) for t in texts], how, {})


def peer(name: str, size: int, overlap: int, encoding: Any) -> Callable[[str], list[Chunk]]:
    """A peer's splitter with its own defaults. `encoding` None: sizes in characters."""
    count = (lambda t: len(encoding.encode_ordinary(t))) if encoding else len
    if name == "langchain.recursive":
        from langchain_text_splitters import RecursiveCharacterTextSplitter as Recursive

        if encoding:
            return Recursive.from_tiktoken_encoder(ENCODING, chunk_size=size, chunk_overlap=overlap).split_text
        return Recursive(chunk_size=size, chunk_overlap=overlap).split_text
    if name == "langchain.token":
        from langchain_text_splitters import TokenTextSplitter

        return TokenTextSplitter(ENCODING, chunk_size=size, chunk_overlap=overlap, disallowed_special=()).split_text
    if name == "llamaindex.sentence":
        from llama_index.core.node_parser import SentenceSplitter

        tokenizer = (lambda t: encoding.encode(t, allowed_special="all")) if encoding else list
        return SentenceSplitter(chunk_size=size, chunk_overlap=overlap, tokenizer=tokenizer).split_text
    if name == "semchunk":
        import semchunk

        chunker = semchunk.chunkerify(encoding or count, size)
        return lambda t: chunker(t, overlap=overlap) if overlap else chunker(t)
    if name.startswith("sts."):
        import semantic_text_splitter as sts

        cls = sts.TextSplitter if name == "sts.text" else sts.MarkdownSplitter
        return (cls.from_tiktoken_model("gpt-4", size, overlap=overlap) if encoding else cls(size, overlap=overlap)).chunks
    return chonkies(name, size, overlap, encoding)


def chonkies(name: str, size: int, overlap: int, encoding: Any) -> Callable[[str], list[Chunk]]:
    """Chonkie's chunkers; its cache of estimates is emptied before every text, as a corpus would."""
    import chonkie

    tokenizer = encoding or "character"
    if name.endswith("[tokie]"):
        import tokie

        tokenizer = tokie.Tokenizer.from_json(str(tokenizer_json()))
    kind = name.removeprefix("chonkie.").split(" ")[0]
    if kind == "recursive":
        chunker = chonkie.RecursiveChunker(tokenizer, size)
        clear = getattr(chonkie.RecursiveChunker._estimate_token_count, "cache_clear", lambda: None)

        def chunk(text: str) -> list[Chunk]:
            clear()
            return [c.text for c in chunker.chunk(text)]

        return chunk
    cls = {"token": chonkie.TokenChunker, "sentence": chonkie.SentenceChunker}[kind]
    chunker = cls(tokenizer, size, overlap)
    return lambda text: [c.text for c in chunker.chunk(text)]


def tokenizer_json() -> Path:
    """cl100k_base in the form of Hugging Face's tokenizers, which chonkie's own tokenizer reads; written once."""
    path = Path(sys.prefix) / f"{ENCODING}.tokenizer.json"
    if path.exists():
        return path
    encoding = tiktoken_encoding()
    ranks: dict[bytes, int] = encoding._mergeable_ranks
    letters = _byte_letters()
    spell = {token: "".join(letters[b] for b in token) for token in ranks}
    merges = [[spell[p] for p in _halves(token, rank, ranks)] for token, rank in ranks.items() if len(token) > 1]
    split = {"type": "Split", "pattern": {"Regex": encoding._pat_str}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": True,
        "vocab": {spell[token]: rank for token, rank in ranks.items()},
        "merges": [" ".join(pair) for pair in merges],
    }
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": None,
        "decoder": level | {"use_regex": True},
        "model": model,
    }
    path.write_text(json.dumps(whole, ensure_ascii=False), "utf-8")
    return path


def _byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for every byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def _halves(token: bytes, rank: int, ranks: dict[bytes, int]) -> list[bytes]:
    """The two tokens whose merge makes this one: byte-pair encoding with the merges before it."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        pairs = [ranks.get(parts[i] + parts[i + 1], rank) for i in range(len(parts) - 1)]
        at = pairs.index(min(pairs))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


environment()  # also in every process that is spawned, before the libraries are imported
