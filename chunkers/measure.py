"""Units of size: a tokenizer gives, in one pass over a document, where each of its tokens begins."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import regex

from chunkmill.chunkers.base import Offsets
from chunkmill.chunkers.errors import ConfigError, choose

if TYPE_CHECKING:
    import tiktoken

SLAB = 1 << 18  # code points looked at at once
WORD = regex.compile(r"\S+")


class Tokenizer(Protocol):
    """A unit of size.

    `specials` is what a model adds around every text. `additive`: counts of the parts add up when a text is cut before a
    space that follows a non-white character (true of tokenizers whose pre-tokenizer never joins across such a place).
    """

    name: str
    specials: int
    additive: bool

    def starts(self, text: str) -> Offsets | None:
        """For each token the offset of its first non-white character (its first where there is none), sorted.

        None where every code point is a token.
        """
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, special tokens not included."""
        ...


class Chars:
    """One code point is one unit."""

    name = "chars"
    specials = 0
    additive = True

    def starts(self, text: str) -> Offsets | None:
        """None: every code point."""
        return None

    def count(self, texts: Sequence[str]) -> list[int]:
        """Lengths."""
        return [len(t) for t in texts]


class Words:
    """A run without white space is one unit."""

    name = "words"
    specials = 0
    additive = True

    def starts(self, text: str) -> Offsets | None:
        """Where the words begin."""
        return np.fromiter((m.start() for m in WORD.finditer(text)), np.int64)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Numbers of words."""
        return [len(t.split()) for t in texts]


class Tiktoken:
    """A byte-pair encoding of OpenAI's, counted exactly as tiktoken's ordinary encoding does.

    Text that spells a special token is plain text. Where toktok is installed (the extra `fast`), it does the encoding of all
    texts on which the two are known to agree.
    """

    specials = 0
    additive = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.additive_lines = name in ("cl100k_base", "o200k_base", "o200k_harmony")  # also between a line break and a letter
        self._encoding = encoding(name)
        self._fast = faster(self._encoding)
        tokens = {rank: token for token, rank in self._encoding._mergeable_ranks.items()}
        table = [tokens.get(rank, b"") for rank in range(max(tokens) + 1)]
        self._table = np.array([_shape(token) for token in table], np.uint8)

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return tokenizer, (self.name,)

    def starts(self, text: str) -> Offsets | None:
        """Cumulative numbers of the characters that begin in each token. O(n), one encoding."""
        best = self._encoding if self._fast is None else self._fast
        tokens = best.encode_to_numpy(text, disallowed_special=())
        if best is self._fast and not agreed(text):  # asked afterwards: toktok leaves the text's UTF-8 with it
            tokens = self._encoding.encode_to_numpy(text, disallowed_special=())
        found = self._table.take(tokens, axis=0)
        begins: Offsets = np.add.accumulate(found[:, 0], dtype=np.int64)
        begins -= found[:, 1]
        return begins

    def count(self, texts: Sequence[str]) -> list[int]:
        """Lengths of the ordinary encodings."""
        if self._fast is not None and agreed("".join(texts)):
            return list(map(self._fast.count, texts))
        return [len(self._encoding.encode_ordinary(t)) for t in texts]


# Characters that Unicode 16 and 17 brought: toktok knows them for letters and digits, tiktoken does not yet. Found by comparing
# the two on all code points in several surroundings.
NEWER = (
    *((0x88F, 0x88F), (0xC5C, 0xC5C), (0xCDC, 0xCDC), (0xA7CE, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4), (0xA7F1, 0xA7F1)),
    *((0x10940, 0x10959), (0x10EC5, 0x10EC7), (0x11DB0, 0x11DDB), (0x11DE0, 0x11DE9), (0x16EA0, 0x16EB8), (0x16EBB, 0x16ED3)),
    *((0x16FF2, 0x16FF6), (0x187F8, 0x187FF), (0x18D09, 0x18D1E), (0x18D80, 0x18DF2), (0x1E6C0, 0x1E6FF), (0x2B73A, 0x2B73F)),
    *((0x2CEA2, 0x2CEAD), (0x323B0, 0x33479)),
)
LEADS = {chr(code).encode()[:1] for codes in NEWER for code in codes}  # the bytes with which they begin in UTF-8
CONTINUING = bytes(range(0x80, 0xC0))  # the bytes of UTF-8 with which no character begins
SAMPLE = "It's 3.14 o'clock;\n\n  naïve café — 東京タワー 👩‍👩‍👧 <|endoftext|>\r\n\tdef f(x): return x**2  # don't\u0301"


def agreed(text: str) -> bool:
    """Whether toktok and tiktoken are known to give the same tokens for the text."""
    return text.isascii() or not any(_has_newer(text[i : i + SLAB]) for i in range(0, len(text), SLAB))


def _has_newer(text: str) -> bool:
    data = text.encode()
    if not any(lead in data for lead in LEADS):  # as for most texts; told many times faster than by the table
        return False
    return bool(newer().take(np.frombuffer(text.encode("utf-32-le"), np.uint32)).any())


@lru_cache(maxsize=1)
def newer() -> npt.NDArray[np.bool_]:
    """For each code point whether it is in NEWER."""
    known = np.zeros(sys.maxunicode + 1, np.bool_)
    for first, last in NEWER:
        known[first : last + 1] = True
    return known


def faster(reference: tiktoken.Encoding) -> Any | None:
    """toktok's form of the encoding, if it is installed, wanted (CHUNKMILL_FAST is not 0) and agrees on a sample."""
    if os.environ.get("CHUNKMILL_FAST") == "0" or reference.name != "cl100k_base":
        return None
    try:
        import toktok

        fast = toktok._encoding(reference.name)
        same = fast.encode_to_numpy(SAMPLE, disallowed_special=()).tolist() == reference.encode_ordinary(SAMPLE)
    except (ImportError, AttributeError, KeyError, TypeError):  # not there, or of another release than the one known
        return None
    return fast if same else None


class WordPieces:
    """A model's own fast tokenizer (a `tokenizer.json`), without truncation and padding.

    A token that stands for more than `LONG` characters (an unknown word) counts once for each `LONG` of them, so that no
    chunk can hide a megabyte behind one token.
    """

    LONG = 100

    def __init__(self, path: str) -> None:
        self.name = self._path = path
        self._fast = _of_file(path)
        self._fast.no_truncation()
        self._fast.no_padding()
        self.specials = self._fast.num_special_tokens_to_add(False)
        self.additive = self._fast.pre_tokenizer is not None
        with contextlib.suppress(AttributeError):  # older releases lack the switch
            self._fast.encode_special_tokens = True

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return tokenizer, (self._path,)

    def starts(self, text: str) -> Offsets | None:
        """Offsets of the tokens, moved past white space."""
        spans = self._fast.encode(text, add_special_tokens=False).offsets
        return np.array([at for span in spans for at in self._marks(text, *span)], np.int64)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Numbers of tokens, a long one as the class says."""
        return [sum(max(1, -((a - b) // self.LONG)) for a, b in e.offsets) for e in self._encodings(texts)]

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        return list(self._fast.encode_batch(list(texts), add_special_tokens=False))

    def _marks(self, text: str, start: int, end: int) -> range | tuple[int]:
        while start < end - 1 and text[start].isspace():
            start += 1
        return range(start, max(end, start + 1), self.LONG) if end - start > self.LONG else (start,)


def _of_file(path: str) -> Any:
    try:
        from tokenizers import Tokenizer as Fast

        return Fast.from_file(path)
    except ImportError:
        raise ConfigError(f'chunk.unit is {path!r}, and a tokenizer.json needs pip install "chunkmill[embed]"') from None
    except Exception as error:  # the library raises nothing narrower: no such file, no tokenizer in it
        raise ConfigError(
            f"chunk.unit is {path!r}, and no tokenizer can be read there ({error}); give the tokenizer.json of a model"
        ) from error


def _shape(token: bytes) -> tuple[int, int]:
    """What the index needs of a token, each at most 128, so that one look-up of two bytes gives it.

    The number of characters that begin in it; how many of them come behind the character that holds its first byte which is not
    white, that one included.
    """
    heads = len(token.translate(None, CONTINUING))
    lead = len(token) - len(token.lstrip()) if token.strip() else 0
    inside = token[lead : lead + 1] in CONTINUING and token != b""
    return heads, heads - lead + inside


@lru_cache(maxsize=16)
def tokenizer(name: str) -> Tokenizer:
    """The unit called `chars` or `words`, an encoding of tiktoken (`cl100k_base`), or the path of a `tokenizer.json`.

    Raises ConfigError for an unknown name or a vocabulary that can't be had.
    """
    if name == "chars":
        return Chars()
    if name == "words":
        return Words()
    if name.endswith(".json"):
        return WordPieces(name)
    return Tiktoken(name)


def encoding(name: str) -> tiktoken.Encoding:
    """tiktoken's encoding; its vocabulary comes from tiktoken's cache, from toktok's wheel, or from the network."""
    import tiktoken

    if name not in tiktoken.list_encoding_names():
        raise choose("chunk.unit", name, ["tokens", "chars", "words", *tiktoken.list_encoding_names()])
    seed_cache(name)
    try:
        return tiktoken.get_encoding(name)
    except Exception as error:  # requests' errors, whichever they are: the vocabulary can't be downloaded
        brought = (
            'pip install "chunkmill[fast]" brings it'
            if name in BROUGHT
            else f"the extra `fast` brings {', '.join(BROUGHT)}: take one of these"
        )
        raise ConfigError(
            f"the vocabulary of {name} is not on this machine and can't be downloaded ({type(error).__name__}); "
            f"{brought}, or set TIKTOKEN_CACHE_DIR to a folder that holds it, or measure in characters (--unit chars)"
        ) from error


BROUGHT = ("cl100k_base", "o200k_base", "o200k_harmony")  # by toktok's wheel
VOCABULARIES = "https://openaipublic.blob.core.windows.net/encodings/"


def seed_cache(name: str) -> None:
    """Put the vocabulary that toktok's wheel holds where tiktoken looks first; tiktoken checks its hash.

    Nothing happens where it is there already, where toktok isn't installed, or where the cache can't be written.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "data-gym-cache")
    path = os.path.join(folder, hashlib.sha1(f"{VOCABULARIES}{name}.tiktoken".encode()).hexdigest())
    if os.path.exists(path):
        return
    with contextlib.suppress(ImportError, KeyError, OSError):
        import toktok

        tokens = toktok._encoding(name).token_byte_values()
        lines = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens))
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(lines)
        os.replace(file.name, path)
