"""A model of the sentence-transformers format on torch: ids in, vectors out, batches filled by their tokens with padding.

Vectors vary by some 1e-7 (in bfloat16 some 1e-3) with the batch they were computed in: never hash them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from chunkmill.chunkers.base import Offsets, Vectors
from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError, choose
from chunkmill.jobs import windows
from chunkmill.jobs.models import ModelRef, load, locate, need_extra, window
from chunkmill.jobs.tokens import Encoder, encoder
from chunkmill.jobs.windows import Reading

if TYPE_CHECKING:
    import torch

OVERFLOWS = ("pool", "error", "truncate")
DTYPES = ("auto", "float32", "bfloat16", "float16")
CPU_TOKENS = 1_024  # in a batch: more falls out of the caches (measured)
GPU_TOKENS = (8_192, 16_384, 32_768, 65_536, 131_072)  # tried at the start
GAIN = 1.05  # a larger batch must be faster by this much
BATCHES = 48  # a batch costs, besides its tokens, one part in so many of a full one: 20 to 40 tokens on a CPU (measured)
SPANS = 128  # chunks of a window pooled at once

Sequences: TypeAlias = Sequence[Sequence[int]]


class SentenceTransformersModel:
    """A local model, fed by token budget.

    A text longer than the window is embedded by pooled windows (`overflow="pool"`), refused ("error") or cut ("truncate").
    `limit` is the window (default: the model's own). `dtype` "auto" is bfloat16 where the hardware computes in it, else
    float32. `seconds` sums the time spent in forward passes.
    """

    reads_ids = True

    def __init__(
        self,
        ref: ModelRef,
        *,
        device: str | None = None,
        threads: int | None = None,
        overflow: str = "pool",
        tokens_per_batch: int | None = None,
        dtype: str = "auto",
        limit: int | None = None,
        prompt: str = "",
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
        self.on_gpu = self.device.startswith("cuda")
        # Beside one-thread CPU actors a tokenizer's own threads only compete; a GPU waits for them.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if self.on_gpu else "false")
        self.dtype = fastest(self.device) if dtype == "auto" else dtype
        self.ref, self.overflow, self.seconds = ref, overflow, 0.0
        known = window(ref)
        self.dimension = known.dimension

        model = load(ref, self.device, self.dtype)
        if "message" in getattr(model[0], "modality_config", {}):
            raise ConfigError(f"embed.model {ref.name} wraps texts in a chat template, which isn't supported")
        modules = list(model)
        pooling = next(i for i, module in enumerate(modules) if type(module).__name__ == "Pooling")
        self.encoder = torch.nn.Sequential(*modules[:pooling]).to(getattr(torch, self.dtype))
        self.pooling = modules[pooling]
        self.rest = torch.nn.Sequential(*modules[pooling + 1 :]).float()

        self.tokens: Encoder = encoder(known.tokenizer_file, prompt)
        self.before, self.after, self.lead = self.tokens.before, self.tokens.after, self.tokens.lead
        self.limit = limit or min(known.limit, model.max_seq_length or known.limit)
        self.room = self.limit - len(self.before) - len(self.after) - len(self.lead)
        if self.room < 1:
            raise ConfigError(f"embed.model {ref.name} reads {self.limit} tokens at once: the prompt {prompt!r} leaves no room")
        tokenizer = model.tokenizer
        self.pad = next((t for t in (tokenizer.pad_token_id, tokenizer.eos_token_id) if t is not None), 0)
        self.pads_left = tokenizer.padding_side == "left"
        self.unpooled = 0 if getattr(self.pooling, "include_prompt", True) or not prompt else len(self.before) + len(self.lead)
        self.copying = torch.cuda.Stream(self.device) if self.on_gpu else None
        self.tokens_per_batch = tokens_per_batch or CPU_TOKENS
        if self.on_gpu and not tokens_per_batch:
            self.tokens_per_batch = self.probed()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Float32 (len(texts), dimension), rows of unit length; row i is the vector of texts[i].

        A text that occurs twice is computed once. Give many texts at a time (1,024 or more): sorting by length then
        leaves next to no padding. Raises DocumentError for a text that overflows, RunError for a broken vector.
        """
        rows = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        vectors = self.read((), self.tokens.ids(list(rows)))
        return vectors[[rows[text] for text in texts]]

    def beyond(self, sizes: Sequence[int]) -> list[bool]:
        """Whether a text of so many ids, the prompt's among them, is longer than what the model reads at once."""
        room = self.room + len(self.lead)
        return [size > room for size in sizes]

    def read(self, texts: Sequence[str], ids: Sequences) -> Vectors:
        """Float32 (len(ids), dimension): the vectors of texts given as ids, the prompt's among them."""
        import torch

        if not len(ids):
            return np.empty((0, self.dimension), np.float32)
        sequences = [self.windows(part) for part in ids]
        counts = torch.tensor([len(parts) for parts in sequences])
        with torch.inference_mode():
            pooled = self.forward(list(chain.from_iterable(sequences)))
            owner = torch.arange(len(ids)).repeat_interleave(counts).to(self.device)
            means = pooled.new_zeros(len(ids), pooled.shape[1]).index_add_(0, owner, pooled)
            means /= counts.to(self.device)[:, None]  # windows of one text are equally long
            return self.finished(means)

    def late(self, documents: Sequence[Reading]) -> list[Vectors]:
        """Of each document the vectors of its chunks, float32 (chunks, dimension): it is read whole (in windows that overlap,
        if it must be), and the states under each chunk are averaged. Pooling must be a mean.
        """
        import torch

        head, tail = [*self.before, *self.lead], self.after
        parts = [windows.parts(d, self.room, len(head), len(tail), self.unpooled) for d in documents]
        flat = [(d, part) for d, of_document in enumerate(parts) for part in of_document]
        sequences = [[*head, *documents[d].ids[p.start : p.end].tolist(), *tail] or [self.pad] for d, p in flat]
        sizes = [len(d.spans) for d in documents]
        offsets = np.cumsum([0, *sizes])
        if not offsets[-1]:
            return [np.empty((0, self.dimension), np.float32) for _ in documents]
        counts = np.concatenate([windows.counts(d, len(head) - self.unpooled, len(tail)) for d in documents])
        with torch.inference_mode():
            sums: torch.Tensor | None = None
            for index, states in self.over(sequences, self.states):
                if sums is None:
                    sums = states.new_zeros(int(offsets[-1]), states.shape[2])
                for rows, weights in self.weighed(
                    [flat[i][1] for i in index], [offsets[flat[i][0]] for i in index], states.shape[1]
                ):
                    target = torch.from_numpy(rows.reshape(-1)).to(self.device)
                    gains = torch.bmm(torch.from_numpy(weights).to(self.device), states)
                    sums.index_add_(0, target, gains.reshape(len(target), -1))
            assert sums is not None
            vectors = self.finished(sums / torch.from_numpy(counts).to(self.device)[:, None])
        return np.split(vectors, offsets[1:-1])

    def weighed(self, parts: Sequence[windows.Part], bases: Sequence[int], length: int) -> Iterator[tuple[Offsets, Vectors]]:
        """The weights of the windows of a batch in slices of so many chunks: (batch, ≤ SPANS) rows of the sums, and float32
        (batch, ≤ SPANS, length), zero where a window has fewer.
        """
        for start in range(0, max(len(p.rows) for p in parts), SPANS):
            most = min(SPANS, max(len(p.rows) for p in parts) - start)
            rows = np.zeros((len(parts), most), np.int64)
            weights = np.zeros((len(parts), most, length), np.float32)
            for i, (part, base) in enumerate(zip(parts, bases, strict=True)):
                mine, values = part.rows[start : start + most], part.weights[start : start + most]
                rows[i, : len(mine)] = mine + base
                at = length - values.shape[1] if self.pads_left else 0
                weights[i, : len(mine), at : at + values.shape[1]] = values
            yield rows, weights

    def finished(self, means: torch.Tensor) -> Vectors:
        """What the model makes of pooled states, of unit length, checked."""
        import torch

        out = self.rest({"sentence_embedding": means})["sentence_embedding"]
        vectors: Vectors = torch.nn.functional.normalize(out, dim=1).cpu().numpy()
        self.check(vectors)
        return vectors

    def windows(self, ids: Sequence[int]) -> list[list[int]]:
        """What the model reads of a text: one sequence, or equally long ones that overlap by an eighth or more, each behind the
        prompt.
        """
        led = self.tokens.led(ids)
        lead, ids = list(ids[:led]), ids[led:]
        room = self.room + len(self.lead) - led
        if len(ids) > room and self.overflow == "error":
            total = len(ids) + self.limit - room
            raise DocumentError("too_large", f"a text of {total} tokens; {self.ref.name} reads {self.limit} at once")
        starts = windows.begins(len(ids), room) if self.overflow == "pool" else [0]
        # A model without special tokens still has to read something of an empty text.
        return [[*self.before, *lead, *ids[s : s + room], *self.after] or [self.pad] for s in starts]

    def forward(self, sequences: Sequences) -> torch.Tensor:
        """Pooled states, float32 (len(sequences), hidden), in their order."""
        import torch

        found = list(self.over(sequences, self.pool))
        order = np.concatenate([index for index, _ in found])
        return torch.cat([pooled for _, pooled in found])[torch.from_numpy(np.argsort(order)).to(self.device)]

    def over(
        self, sequences: Sequences, work: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    ) -> Iterator[tuple[Offsets, torch.Tensor]]:
        """What `work` makes of each batch, and which sequences are in it. Longest first: memory runs out at once.

        A batch that is too large for the memory halves all that follow.
        """
        import torch

        order = np.argsort([-len(ids) for ids in sequences], kind="stable")
        marks: list[tuple[Any, Any]] = []
        at = 0
        while at < len(order):
            full = 0
            for index, features in self.fed(sequences, order[at:]):
                began = self.mark()
                try:
                    done = work(features)
                except torch.OutOfMemoryError as error:
                    longest = len(sequences[index[0]])
                    if len(index) == 1:
                        raise RunError(f"{self.ref.name}: no memory on {self.device} for {longest} tokens") from error
                    full = len(index) // 2 * longest
                    break
                marks.append((began, self.mark()))
                at += len(index)
                yield index, done
            if full:  # outside `except`, where the traceback still holds the tensors
                self.tokens_per_batch = full
                torch.cuda.empty_cache()
        self.seconds += self.elapsed(marks)

    def fed(self, sequences: Sequences, order: Offsets) -> Iterator[tuple[Offsets, dict[str, torch.Tensor]]]:
        """The batches on the device. For a GPU the next one is made and copied in a thread while this one is computed."""
        batches = self.batches(sequences, order)
        if not self.copying:
            yield from ((index, self.features([sequences[i] for i in index])) for index in batches)
            return
        import torch

        with ThreadPoolExecutor(1) as thread:
            ahead = None
            for index in chain(batches, [None]):
                before = ahead
                ahead = index is not None and (index, thread.submit(self.features, [sequences[i] for i in index]))
                if before:
                    features = before[1].result()
                    torch.cuda.current_stream(self.device).wait_stream(self.copying)
                    for tensor in features.values():
                        tensor.record_stream(torch.cuda.current_stream(self.device))
                    yield before[0], features

    def batches(self, sequences: Sequences, order: Offsets) -> Iterator[Offsets]:
        """The order in runs that hold no more tokens than the budget when all are padded to the first, the longest.

        Few texts differ by much in length: a run then ends where its own tokens come cheapest, for padding costs what tokens
        cost, and every batch something besides.
        """
        lengths = np.array([max(1, len(sequences[i])) for i in order])
        ends = np.concatenate([[0], np.cumsum(lengths)])
        beside, at = self.tokens_per_batch / BATCHES, 0
        while at < len(order):
            most = min(max(1, self.tokens_per_batch // int(lengths[at])), len(order) - at)
            computed = lengths[at] * np.arange(1, most + 1)
            count = int(np.argmin((computed + beside) / (ends[at + 1 : at + most + 1] - ends[at]))) + 1
            yield order[at : at + count]
            at += count

    def features(self, batch: Sequences) -> dict[str, torch.Tensor]:
        """A batch padded, as the model takes it, on the device (its copy may still be under way on the stream `copying`)."""
        import torch

        ids = np.full((len(batch), max(map(len, batch))), self.pad, np.int64)
        mask = np.zeros_like(ids)
        for row, sequence in enumerate(batch):
            part = slice(-len(sequence), None) if self.pads_left else slice(len(sequence))
            ids[row, part] = sequence
            mask[row, part] = 1
        arrays = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        if not self.copying:
            return arrays
        with torch.cuda.stream(self.copying):
            return {name: a.pin_memory().to(self.device, non_blocking=True) for name, a in arrays.items()}

    def states(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        """The state of every token of a batch, float32 (batch, length, hidden): one forward pass."""
        states: torch.Tensor = self.encoder(dict(features))["token_embeddings"].float()
        return states * features["attention_mask"][:, :, None]  # what stands at padding may be anything

    def pool(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        """Pooled states of one batch: one forward pass. Pooled in float32 whatever the model computes in."""
        states = self.encoder(dict(features))
        states["token_embeddings"] = states["token_embeddings"].float()
        if self.unpooled:
            states["prompt_length"] = self.unpooled
        pooled: torch.Tensor = self.pooling(states)["sentence_embedding"]
        return pooled

    def mark(self) -> Any:
        """A moment, on the GPU's own clock where there is one."""
        if not self.on_gpu:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, marks: Sequence[tuple[Any, Any]]) -> float:
        """Seconds between pairs of moments; on a GPU it waits for the last."""
        if not self.on_gpu:
            return sum(end - began for began, end in marks)
        if marks:
            marks[-1][1].synchronize()
        return sum(began.elapsed_time(end) for began, end in marks) / 1e3

    def probed(self) -> int:
        """The smallest budget that is about as fast as any: measured on random ids until memory or the gain runs out."""
        import torch

        best, rate = GPU_TOKENS[0], 0.0
        length = min(self.limit, 256)
        for tokens in GPU_TOKENS:
            batch = [[self.pad] * length] * max(1, tokens // length)
            self.tokens_per_batch = tokens
            try:
                with torch.inference_mode():
                    seconds = min(self._timed(batch) for _ in range(3))
            except torch.OutOfMemoryError:
                break
            if tokens / seconds < rate * GAIN:
                break
            best, rate = tokens, tokens / seconds
        if self.on_gpu:
            torch.cuda.empty_cache()
        return best

    def _timed(self, batch: Sequences) -> float:
        features = self.features(batch)
        if self.on_gpu:
            import torch

            torch.cuda.synchronize(self.device)
        began = self.mark()
        self.pool(features)
        return self.elapsed([(began, self.mark())])

    def check(self, vectors: Vectors) -> None:
        """Raise unless every vector is finite, of unit length and of the declared width."""
        good = np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3  # false for NaN
        if vectors.shape[1] != self.dimension or not good.all():
            what = f"{np.count_nonzero(~good)} of {len(vectors)} vectors aren't finite and of unit length"
            raise RunError(f"{self.ref.name} on {self.device}: {what} (width {vectors.shape[1]} of {self.dimension})")


def fastest(device: str) -> str:
    """bfloat16 where the device computes in it (a CPU with AVX512-bf16 is 1.8 times as fast in it), else float32."""
    import torch

    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return "bfloat16" if known is not None and known() else "float32"
