"""What a language model would be asked and what that would cost, before anything is spent.

Some documents are read, and the strategy follows its questions through to the end, with what the dataset knows already and
otherwise stand-in answers of the usual length. The rest of the corpus is taken to be like them, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chunkmill.chunkers import standin
from chunkmill.chunkers.api import chunk_all
from chunkmill.chunkers.base import Complete, Embed, Vectors
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.measure import tokenizer
from chunkmill.chunkers.seams import VISIBLE
from chunkmill.jobs.answers import Answers
from chunkmill.jobs.config import Job
from chunkmill.jobs.documents import accept, one
from chunkmill.jobs.llm import key_of
from chunkmill.jobs.settings import DEFAULT_TOKENIZER

SAMPLED, SAMPLED_CHARS = 20, 2_000_000  # sources, and text of them, that are read
SAYS = "from {sampled} of {sources} sources, with answers of the usual length and tokens of {unit}"


def estimate(job: Job, sources: pa.Table) -> dict[str, Any]:
    """Calls, tokens, money and minutes for these sources (schema plan.TODO); {} where no model is asked."""
    if not (job.llm and job.asks) or not len(sources):
        return {}
    found, read_bytes, sampled = _sampled(job, sources)
    scale = (pc.sum(sources["size"]).as_py() or 0) / max(1, read_bytes)
    counts = {name: round(found[name] * scale) for name in ("calls", "cached", "tokens_in", "tokens_out")}
    per_minute = ((counts["calls"], job.llm.requests_per_minute), (_tokens(counts), job.llm.tokens_per_minute))
    unit = DEFAULT_TOKENIZER if _unit() else "4 bytes"
    return counts | {
        "cost": round(job.llm.cost(counts["tokens_in"], counts["tokens_out"]), 4),
        "max_spend": job.llm.max_spend,
        "least_minutes": round(max(n / limit if limit else 0.0 for n, limit in per_minute), 1),
        "assumes": SAYS.format(sampled=f"{sampled:,}", sources=f"{len(sources):,}", unit=unit),
    }


def _tokens(counts: dict[str, int]) -> int:
    return counts["tokens_in"] + counts["tokens_out"]


def _sampled(job: Job, sources: pa.Table) -> tuple[Counter[str], int, int]:
    """What is asked about some sources, evenly spread over the sizes; their bytes, and how many they are."""
    order = sources.sort_by([("size", "ascending")])
    ranks = sorted({round(i) for i in np.linspace(0, len(order) - 1, min(SAMPLED, len(order)))})
    trial = Trial(job)
    read_bytes = sampled = 0
    for source in order.take(pa.array(ranks)).to_pylist():
        chars = 0
        for row in one(source, job, accept):
            if row.document and VISIBLE.search(row.document.text):
                chunk_all([row.document], job.chunking, {Complete: trial.answer, Embed: vectors})
                chars += len(row.document.text)
            if trial.chars + chars > SAMPLED_CHARS:
                break
        cut = trial.chars + chars > SAMPLED_CHARS
        read_bytes += min(source["size"], chars) if cut else source["size"]
        trial.chars += chars
        sampled += 1
        if cut:
            break
    return trial.counts, read_bytes, sampled


class Trial:
    """Answers without a model, and counts what it would have been asked."""

    def __init__(self, job: Job) -> None:
        assert job.llm
        self.settings, self.known, self.unit = job.llm, Answers(job.output), _unit()
        self.counts: Counter[str] = Counter()
        self.chars = 0

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """An answer to each prompt."""
        found = [self.known.find(key_of(self.settings, p)) for p in prompts]
        made = [known.text if known else standin.answer(p) for p, known in zip(prompts, found, strict=True)]
        fresh = [(p, m) for p, m, known in zip(prompts, made, found, strict=True) if known is None]
        self.counts["cached"] += len(prompts) - len(fresh)
        self.counts["calls"] += len(fresh)
        self.counts["tokens_in"] += sum(self._sizes([p for p, _ in fresh]))
        self.counts["tokens_out"] += sum(self._sizes([m for _, m in fresh]))
        return made

    def _sizes(self, texts: list[str]) -> list[int]:
        return self.unit.count(texts) if self.unit else [len(t.encode()) // 4 for t in texts]


def _unit() -> Any:
    try:
        return tokenizer(DEFAULT_TOKENIZER)
    except ConfigError:  # its vocabulary is not here
        return None


def vectors(texts: Sequence[str]) -> Vectors:
    """Some vector for each text, for cuts of the usual number."""
    seeds = [int.from_bytes(hashlib.blake2b(t.encode(), digest_size=8).digest(), "big") for t in texts]
    drawn = np.array([np.random.default_rng(s).normal(size=8) for s in seeds], np.float32).reshape(-1, 8)
    found: Vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return found
