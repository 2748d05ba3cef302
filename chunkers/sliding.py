"""A window that slides over units or over sentences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from chunkmill.chunkers.base import NOTHING, Budget, Document, Piece, Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.fixed import windows
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import sentences, trim


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `window` units, each `step` after the one before; or of so many sentences with `over: sentences`.

    Over units `window` takes the place of `size`. `step` is what is left of the window without the shared `overlap`, which
    counts what the window counts; give one of the two. A window of sentences ends early where the limit says so. No window
    is given that ends where the one before ended.
    """

    window: int | None = None
    step: int | None = None
    over: Literal["units", "sentences"] = "units"
    language: str = "en"

    needs: ClassVar[frozenset[type]] = NOTHING
    overlaps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("window", "step"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"chunk.{name} is {value}; it must be 1 or more")
        if self.over == "sentences" and self.window is None:
            raise ConfigError("chunk.over is 'sentences', which needs chunk.window: how many sentences a window holds")
        if self.step and self.window and self.step > self.window:
            raise ConfigError(
                f"chunk.step is {self.step} with chunk.window {self.window}; text between the windows would be lost"
            )

    def sized(self, size: int, overlap: int) -> tuple[int, int]:
        """The size and overlap that `window` and `step` stand for. Raises ConfigError where the settings contradict."""
        window = self.window or size
        step = self.step or window - overlap
        if self.step and overlap not in (0, window - self.step):
            raise ConfigError(
                f"chunk.step is {self.step} and chunk.overlap is {overlap} with a window of {window}; give one of the two"
            )
        if not 0 < step <= window:
            what = f"step is {step}" if self.step else f"overlap is {overlap}"
            raise ConfigError(f"chunk.{what} with a window of {window}; it must be less than the window")
        return (size if self.over == "sentences" else window), window - step

    def __call__(self, doc: Document, budget: Budget) -> list[Piece]:
        """The windows, in order."""
        if self.over == "units":
            return [Piece(trim(doc.text, *w)) for w in windows(doc.text, budget)]
        language = doc.metadata.get("language", self.language)
        parts = [s for sentence in sentences(doc.text, language=language) for s in fit(doc.text, sentence, budget)]
        window = self.window or 1
        step = self.step or max(1, window - (budget.limit - budget.fill))
        return [Piece(Span(parts[a].start, parts[b - 1].end)) for a, b in slide(parts, window, step, budget)]


def slide(parts: Sequence[Span], window: int, step: int, budget: Budget) -> list[tuple[int, int]]:
    """Half-open ranges of parts: at most `window` of them, as many as fit; each ends behind the one before. O(parts · log)."""
    ends = [budget.index(p.end) for p in parts]
    found: list[tuple[int, int]] = []
    start, last = 0, 0
    while last < len(parts):
        most = budget.index(parts[start].start) + budget.room(parts[start].start)
        end = max(start + 1, bisect_right(ends, most, start, min(len(parts), start + window)))
        if end > last:
            found.append((start, end))
            last = end
        start = min(start + step, last)
    return found
