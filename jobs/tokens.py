"""Texts as the ids that a model reads, made where documents are cut: the actor that holds the model pads and computes.

Prompt included, special tokens not. Only `tokenizers` is loaded here, never torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from chunkmill.chunkers.base import Offsets
from chunkmill.chunkers.measure import tokenizer
from chunkmill.jobs.models import ModelRef, window
from chunkmill.jobs.windows import Ids

STEP = 1_024  # texts encoded at once: an Encoding holds far more than its ids


class Encoder:
    """A model's tokenizer behind a prompt. `before`, `after`: what it puts around every text; `lead`: the prompt's own ids."""

    def __init__(self, path: str, prompt: str = "") -> None:
        from tokenizers import Tokenizer

        self.path, self.prompt = path, prompt
        self.tokenizer = Tokenizer.from_file(path)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.before, self.after = wrapping(self.tokenizer)
        self.tokenizer.encode_special_tokens = True  # in a text they are plain text
        self.lead = self._lead()

    def __reduce__(self) -> tuple[Callable[[str, str], Encoder], tuple[str, str]]:
        return encoder, (self.path, self.prompt)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Of each text the ids, the prompt's among them."""
        asked = [self.prompt + text for text in texts] if self.prompt else list(texts)
        slices = (asked[i : i + STEP] for i in range(0, len(asked), STEP))
        return [e.ids for part in slices for e in self.tokenizer.encode_batch_fast(part, add_special_tokens=False)]

    def located(self, text: str) -> tuple[Ids, Offsets]:
        """The ids of a document without the prompt's, int32, and the offset of each one's first non-white character, int64."""
        encoding = self.tokenizer.encode(self.prompt + text, add_special_tokens=False)
        bounds = np.array(encoding.offsets, np.int64).reshape(-1, 2) - len(self.prompt)
        own = int((bounds[:, 1] > 0).argmax()) if (bounds[:, 1] > 0).any() else len(bounds)
        starts = bounds[own:, 0].clip(0)
        for i in np.flatnonzero([text[s : s + 1].isspace() for s in starts.tolist()]):
            inside = text[starts[i] : bounds[own + i, 1]]
            starts[i] += len(inside) - len(inside.lstrip()) if inside.strip() else 0
        return np.array(encoding.ids[own:], np.int32), np.maximum.accumulate(starts) if len(starts) else starts

    def led(self, ids: Sequence[int]) -> int:
        """How many of the ids of a text are the prompt's."""
        return len(self.lead) if list(ids[: len(self.lead)]) == self.lead else 0

    def _lead(self) -> list[int]:
        """The prompt's ids that are the same in front of any text."""
        if not self.prompt:
            return []
        found = self.tokenizer.encode(self.prompt + "a", add_special_tokens=False)
        return [i for i, (_, end) in zip(found.ids, found.offsets, strict=True) if end <= len(self.prompt)]


@lru_cache(maxsize=4)
def encoder(path: str, prompt: str = "") -> Encoder:
    """The encoder, made once per process."""
    return Encoder(path, prompt)


def wrapping(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens a tokenizer puts before and after a text."""
    probe = tokenizer.encode("a")
    inside = [i for i, special in enumerate(probe.special_tokens_mask) if not special]
    return probe.ids[: inside[0]], probe.ids[inside[-1] + 1 :]


class Prompted:
    """A unit of size where every text has a prompt in front of it, which counts like a special token.

    It travels by name: the files of a model may be elsewhere on another machine.
    """

    def __init__(self, of: ModelRef | str, prompt: str) -> None:
        self.of, self.prompt = of, prompt
        self.inner = tokenizer(of if isinstance(of, str) else window(of).tokenizer_file)
        self.name, self.additive = self.inner.name, self.inner.additive
        self.additive_lines = getattr(self.inner, "additive_lines", False)
        self.specials = self.inner.specials + (self.inner.count([prompt])[0] if prompt else 0)

    def __reduce__(self) -> tuple[Callable[..., Prompted], tuple[ModelRef | str, str]]:
        return unit, (self.of, self.prompt)

    def starts(self, text: str) -> Offsets | None:
        """Those of the inner unit."""
        return self.inner.starts(text)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Those of the inner unit."""
        return self.inner.count(texts)


@lru_cache(maxsize=4)
def unit(of: ModelRef | str, prompt: str) -> Prompted:
    """The unit of a model, or of this name, behind a prompt; loaded once per process."""
    return Prompted(of, prompt)
