"""Sentences and their vectors: what the strategies that follow the meaning share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from chunkmill.chunkers.base import Budget, Document, Span, Vectors
from chunkmill.chunkers.pack import fit
from chunkmill.chunkers.seams import sentences

Scores = npt.NDArray[np.float64]

DENSE = 0.6  # the power of a group's size that its similarities are divided by
SAME = 1e-6  # vectors vary by some 1e-7 with the batch they were computed in: what differs by less is equal
WINDOW = 3  # sentences on either side of a seam that are compared for its depth


def units(doc: Document, budget: Budget, language: str = "en") -> list[Span]:
    """The document's sentences, each within the limit, in order; a heading goes with the sentence behind it.

    `language` is used where the document's metadata name none.
    """
    titles = {b.span.start: b.span.end for b in doc.blocks if b.kind == "heading"}
    found: list[Span] = []
    title = 0  # where the heading ends that the last unit is still a part of
    for sentence in sentences(doc.text, language=doc.metadata.get("language", language)):
        joined = Span(found[-1].start, sentence.end) if title else sentence
        if title and budget.packs(joined):
            found[-1] = joined
        else:
            found.append(sentence)
        title = titles.get(sentence.start, title if sentence.end <= title else 0)
    return [s for unit in found for s in fit(doc.text, unit, budget)]


def distances(vectors: Vectors) -> Scores:
    """1 − cosine of neighbours: float (n, dim), unit rows → (n − 1,)."""
    left, right = vectors[:-1].astype(np.float64), vectors[1:].astype(np.float64)
    cosines: Scores = (left * right).sum(axis=1)
    return 1.0 - cosines


def depths(vectors: Vectors, window: int = WINDOW) -> Scores:
    """How deep a valley of similarity each seam lies in: float (n, dim), unit rows → (n − 1,), each 0 or more.

    The score of TextTiling (Hearst, Computational Linguistics 23(1), 1997) over vectors for counts of words, as in Solbiati
    et al. (2021): the similarity at a seam is the cosine between the sums of the `window` sentences on either side; its depth
    is how far one climbs from there to the nearest peak on the left, and on the right, added up.
    """
    valley = _across(vectors, window)
    left, right = valley.copy(), valley.copy()
    for i in range(1, len(valley)):
        if valley[i - 1] >= valley[i]:
            left[i] = left[i - 1]
        if valley[-i] >= valley[-i - 1]:
            right[-i - 1] = right[-i]
    depth: Scores = (left - valley) + (right - valley)
    return depth


def _across(vectors: Vectors, window: int) -> Scores:
    """Cosine between what stands within `window` before and behind each seam; 0 where one side cancels itself out."""
    n = len(vectors)
    sums = np.vstack([np.zeros(vectors.shape[1]), vectors.cumsum(axis=0, dtype=np.float64)])
    seam = np.arange(1, n)
    before = sums[seam] - sums[np.maximum(0, seam - window)]
    behind = sums[np.minimum(n, seam + window)] - sums[seam]
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(behind, axis=1)
    cosines: Scores = (before * behind).sum(axis=1) / np.maximum(lengths, SAME)
    return cosines


def peaks(scores: Scores) -> npt.NDArray[np.bool_]:
    """Which scores are no smaller than their neighbours; of equal ones in a row the first."""
    padded = np.concatenate([[-np.inf], scores, [-np.inf]])
    found: npt.NDArray[np.bool_] = (scores > padded[:-2]) & (scores >= padded[2:])
    return found


def sparseness(vectors: Vectors, first: Sequence[int]) -> Iterator[Scores]:
    """For each vector as the last: minus the density of the group with it and those from every one since `first` on.

    The density of n vectors is Σ (similarity − mean similarity of all) over their pairs / n^0.6: that of Fragkou, Petridis and
    Kehagias (Journal of Intelligent Information Systems 23(2), 2004) over vectors in place of words. Float32 (n, dim), unit
    rows; `first` never goes back. A step costs one product with the vectors since `first`.
    """
    mean = mean_similarity(vectors)
    pairs = np.zeros(len(vectors))
    for last, low in enumerate(first):
        products = (vectors[low:last] @ vectors[last]).astype(np.float64) - mean
        pairs[low:last] += products[::-1].cumsum()[::-1]
        yield -2 * pairs[low : last + 1] / np.arange(last - low + 1, 0, -1) ** DENSE


def mean_similarity(vectors: Vectors) -> float:
    """The mean cosine of all pairs of at least two vectors: float (n, dim), unit rows."""
    n, whole = len(vectors), vectors.sum(axis=0, dtype=np.float64)
    return float(whole @ whole - n) / (n * (n - 1))
