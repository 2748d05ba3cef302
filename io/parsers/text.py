"""Plain text, and how every textual format is decoded: exactly, or not at all.

A wrong guess at an encoding is worse than a refusal: nobody notices mojibake in an index. So: byte order marks, then
UTF-8, then what the source declares, then a guess that has to look like a language; a byte without meaning becomes
U+FFFD and is counted.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, pairwise

from chunkmill.chunkers.base import Block, Kind, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, utf16_without_mark

_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig", "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16-be"),
)
# What the guesser may answer: encodings found in the wild, not all that Python has; ASCII is its word for none.
_CANDIDATES = (
    "ascii cp932 euc-jp gb18030 big5 big5hkscs cp949 cp1251 koi8-r koi8-u cp866 mac-cyrillic iso8859-5 cp1253 iso8859-7 "
    "cp1255 iso8859-8 cp1256 iso8859-6 cp874 cp1258 cp1252 cp1250 iso8859-2 cp1254 cp1257 iso8859-4 "
    "iso8859-13 iso8859-15 mac-roman cp437 cp850 cp852 cp037 cp500"
)
# Where the guesser names a wider one, the narrower that is meant is tried first.
_NARROWER = {"euc_jis_2004": "euc_jp", "big5hkscs": "big5", "cp1140": "cp037"}
# Few texts are in these; where Windows-1252 reads as well, it is that if so much of the words has letters above ASCII.
_SELDOM = {"mac_roman": 1.0, "cp437": 1.0, "cp850": 1.0, "cp852": 1.0, "iso8859_15": 1.0, "iso8859_4": 0.25, "iso8859_13": 0.25}
_FEW = 0.09  # the same for all others: in most languages that need them there are more
_VAGUE, _NEAR = 0.05, 1.25  # the guesser's confidence with hardly anything to go by; how much less another may have
_LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257", "cp1258", *_SELDOM)
_DECLARABLE = (
    "ascii",
    "utf",
    "iso",
    "cp",
    "mac",
    "koi8",
    "gb",
    "big5",
    "euc",
    "shift",
    "johab",
    "hz",
    "tis",
    "ptcp",
    "kz",
    "hp",
    "latin",
)
_SAMPLE = 1 << 16
LONGEST = 2000  # characters of a list or mapping that is metadata
_NOT_LATIN = (
    "koi8",
    "cp1251",
    "cp866",
    "mac_cyrillic",
    "iso8859_5",
    "cp1253",
    "iso8859_7",
    "cp1255",
    "iso8859_8",
    "cp1256",
    "iso8859_6",
    "cp874",
)
_ODD_WORDS = re.compile(r"(?:[^\W\d_a-zA-Z]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0e31-\u0e4e]){2,}")
_UTF8_SHAPE = re.compile(rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = re.compile(r"[^\W\d_µªº]+")
_MISPLACED = re.compile(r"[^\W\d_][^\x00-\x7f\w’‘´·–—…“”°™®©\xa0\xad][^\W\d_]|[£¥§¶±][^\W\d_]|[^\W\d_][£¥¶±¿¡]|[¤¨¯¸ƒˆ˜ŠšŽž]")
_SIGNS = re.compile(r"(?<![^\W\d_])(?:[±£¥¢¶¼½¾](?![^\W\d_])|µ[mgslFAVWH]\b)")
_ODD_LINES = re.compile(rb"[^\n\r\x80-\xff]*+[\x80-\xff][^\n\r]*+")
_ASCII_STRETCH = re.compile(rb"([\0-\x7f]{120})[\0-\x7f]*+(?<=([\0-\x7f]{120}))")
_CAPITALS = bytes({*range(128), *range(0xC0, 0xE0), *b"\x84\x85\x93\x94\x96\x97\xab\xb9\xbb"})  # with quotes and dashes
_SMALL = bytes((*range(0xC0), *range(0xE0, 0x100), *range(0xE0, 0x100)))
_CONTROL = re.compile("[\x80-\x84\x86-\x9f]")
_INSIDE = re.compile(r"[^\W\d_][^\x00-\x7f\w’‘·\xad\u0300-\u0323](?=[^\W\d_])")
_BOXED = re.compile(r"[─-▟][^\W\d_]|[^\W\d_][─-▟]")
_MAC_CAPITALS = re.compile(rb"[\x80-\x9f]")
_CONTROLS = bytes({*range(32)} - set(b"\t\n\r"))
_PARAGRAPH = re.compile(r"\S[^\n\r]*+(?:(?:\r\n|\n|\r)[^\S\n\r]*+\S[^\n\r]*+)*+")
_KANA = re.compile("[\u3001\u3002\u3041-\u30fc]")
_HALF_WIDTH = re.compile("[\uff61-\uff9f]")


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The file as it is; a paragraph per stretch between blank lines."""
    text, metadata = decode(data)
    if nuls := text.count("\0"):
        metadata["warning"] = f"{nuls} NUL characters among the text"
    yield Parsed(text, paragraphs(text), metadata)


def told(value: object, scalar: Callable[[object], str] = str) -> str:
    """A list or a mapping as metadata: scalars joined by ", ", others as JSON; "" for an empty one and for what is too long."""
    if isinstance(value, list | tuple) and not any(isinstance(item, list | tuple | dict) for item in value):
        words = ", ".join(word for item in value if (word := scalar(item).strip()))
    else:
        try:
            words = json.dumps(value, ensure_ascii=False, default=scalar) if value else ""
        except (RecursionError, ValueError):  # too deep to be written, or it holds a number that is too long
            return ""
    return mend(words)[0] if len(words) <= LONGEST else ""


def paragraphs(text: str) -> tuple[Block, ...]:
    """A block per stretch of lines that are not blank. Linear."""
    return tuple(Block("paragraph", Span(m.start(), m.start() + len(m.group().rstrip()))) for m in _PARAGRAPH.finditer(text))


def decode(data: bytes, declared: str = "") -> tuple[str, dict[str, str]]:
    """The text, and `encoding` and (where bytes had to be replaced) `repaired` as metadata.

    `declared` is the encoding the source claims, "" for none. Raises `unreadable` where no encoding makes a text of the bytes.
    """
    text, encoding, repaired = _decode(data, declared)
    text, lone = mend(text)
    metadata = {"encoding": encoding}
    if repaired + lone:
        metadata["repaired"] = str(repaired + lone)
    return text, metadata


def mend(text: str) -> tuple[str, int]:
    """The text with pairs of surrogates joined and each lone one replaced by U+FFFD, and how many were lone."""
    if text.isascii() or not _SURROGATE.search(text):
        return text, 0
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.subn("\ufffd", joined)


def _decode(data: bytes, declared: str) -> tuple[str, str, int]:
    for mark, codec, name in _MARKS:
        if data.startswith(mark):
            return _marked(data, codec, name)
    if order := utf16_without_mark(data[:_SAMPLE]):
        return _marked(data, order, order)
    if seven := _seven_bits(data):
        return seven
    if (text := _strictly(data, "utf-8")) is not None:
        return text, "utf-8", 0
    codec = _codec(declared)
    if codec and (text := _strictly(data, codec)) is not None:
        return text, codec, 0
    if _is_damaged_utf8(data[: _SAMPLE * 4]):
        return _repaired(data)
    return _guess(data)


def _marked(data: bytes, codec: str, name: str) -> tuple[str, str, int]:
    try:
        return data.decode(codec, "surrogatepass"), name, 0
    except UnicodeDecodeError:
        text = data.decode(codec, "replace")
    repaired = text.count("\ufffd")
    if repaired > 2 + len(text) * 0.1:
        raise DocumentError("undecodable", f"begins like {name}, but {repaired} of {len(text)} characters don't decode")
    return text, name, repaired


def _seven_bits(data: bytes) -> tuple[str, str, int] | None:
    """ISO-2022-JP and HZ, which would pass for UTF-8; a cut-off last character is one repair."""
    is_hz = min(data.count(b"~{"), data.count(b"~}")) > 2
    for found in ("iso2022_jp", "iso2022_jp_2") if b"\x1b$" in data else ("hz",) if is_hz else ():
        with suppress(UnicodeError):
            text = codecs.getincrementaldecoder(found)().decode(data) if data.isascii() else ""
            if text:
                return (text, found, 0) if _strictly(data, found) is not None else (text + "\ufffd", found, 1)
    return None


def _strictly(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec)
    except (UnicodeError, ValueError):
        return None


def _codec(declared: str) -> str:
    """The codec for a declared name, as browsers read it: Latin-1 and ASCII mean Windows-1252; "" for none."""
    try:
        found = codecs.lookup(declared.strip().lower()) if declared.isascii() and "\0" not in declared else None
    except (LookupError, ValueError):
        return ""
    if found is None or not found.name.startswith(_DECLARABLE) or found.name == "utf-7":
        return ""
    same = {
        "iso8859-1": "cp1252",
        "ascii": "cp1252",
        "shift_jis": "cp932",
        "gb2312": "gb18030",
        "gbk": "gb18030",
        "euc_kr": "cp949",
    }
    return same.get(found.name, found.name)


def _is_damaged_utf8(data: bytes) -> bool:
    """Whether most bytes above ASCII stand in runs of the shape of UTF-8, be it legal (overlong forms and surrogates are not).

    Two bytes of another encoding look like it by chance, whole words hardly ever.
    """
    shaped, all = 0, 0
    for run in _HIGH_RUN.findall(data):
        all += len(run)
        if sum(map(len, _UTF8_SHAPE.findall(run))) >= len(run) * 0.8:
            shaped += len(run)
    return shaped > all * 0.5


def _repaired(data: bytes) -> tuple[str, str, int]:
    """UTF-8 with strangers: a lone one is read as Windows-1252 where that has a letter for it, else it is U+FFFD."""
    strays = 0

    def stray(error: UnicodeError) -> tuple[str, int]:
        nonlocal strays
        assert isinstance(error, UnicodeDecodeError)
        strays += 1
        source, start, end = error.object, error.start, error.end
        continued = source[start] >= 0xC0 and source[end : end + 1] < b"\xc0" and source[end : end + 1] >= b"\x80"
        continues = source[start] < 0xC0 and start > 0 and source[start - 1] >= 0x80
        if end == len(source) or end > start + 1 or continued or continues:  # a broken sequence, no letter of its own
            return "\ufffd", end
        return source[start:end].decode("cp1252", "replace"), end

    codecs.register_error("chunkmill.stray", stray)
    return data.decode("utf-8", "chunkmill.stray"), "utf-8", strays


def _guess(data: bytes) -> tuple[str, str, int]:
    sample = _sample(data)
    for encoding in _guesses(sample):
        if (text := _strictly(data, encoding)) is not None:
            return text, encoding, 0
    high = _high(data)
    if high <= len(data) * 0.01 and (text := _strictly(data, "cp1252")) is not None:
        return text, "cp1252", 0
    if high <= len(data) * 0.25:
        text = data.decode("utf-8", "replace")
        return text, "utf-8", text.count("\ufffd")
    raise DocumentError("undecodable", f"in no known encoding: {high} of {len(data)} bytes are above ASCII and no reading fits")


def _guesses(sample: bytes) -> Iterator[str]:
    """Encodings that the sample may be in, the likeliest first."""
    found = _detected(sample)
    if not sample.translate(None, _CAPITALS):  # the guesser knows small letters better
        found += [guess for guess in _detected(sample.translate(_SMALL)) if guess[1] in ("cp1251", "cp1253")]
        found.sort(key=lambda guess: -guess[0])
    right = (guess for guess in found if _looks_right(sample, guess[1]))
    sure, first = next(right, (0.0, ""))
    yield from (name for name in ("cp932", "euc_jp") if _is_kana(sample, name))
    vague = any(name == "cp1252" and _VAGUE > sure < other * _NEAR for other, name in found)
    if _is_western(sample, first, 1.0 if vague else _FEW):
        yield "cp1252"
    if first == "mac_cyrillic" and not _MAC_CAPITALS.search(sample):
        yield "cp1251"
    for name in chain((first,), (name for _, name in right)):
        yield from dict.fromkeys(filter(None, (_NARROWER.get(name), name)))


def _is_kana(sample: bytes, encoding: str) -> bool:
    """Whether most characters above ASCII are kana, of which the guesser makes nothing where there are no others."""
    text = _strictly(sample, encoding) or ""
    return len(_KANA.findall(text)) > sum(c > "\x7f" for c in text) * 0.7


def _detected(sample: bytes) -> list[tuple[float, str]]:
    from chardet import detect_all

    guesses = detect_all(
        sample, ignore_threshold=True, include_encodings=_CANDIDATES.split(), compat_names=False, no_match_encoding="ascii"
    )
    return [(g["confidence"], g["encoding"].replace("-", "_")) for g in guesses if g["encoding"] not in (None, "ascii")]


def _looks_right(sample: bytes, encoding: str) -> bool:
    """Whether the letters above ASCII lie as those of the encoding's languages do."""
    text = sample.decode(encoding, "ignore")
    odd = sum(c > "\x7f" for c in text)
    if encoding in ("cp037", "cp1140", "cp500"):
        return sum(c.isascii() and c.isprintable() for c in text) >= len(text) * 0.8
    if len(_CONTROL.findall(text)) > odd * 0.02:
        return False
    if encoding in _LATIN and odd > 4:
        return _is_latin(text)
    if encoding == "cp932":  # other alphabets read as Shift JIS become half-width katakana
        return len(_HALF_WIDTH.findall(text)) <= odd / 2
    if encoding == "gb18030":  # anything can be read as rare hanzi
        return sum(c > "\x7f" for c in text.encode("gb2312", "ignore").decode("gb2312")) >= odd * 0.6
    if encoding.startswith(_NOT_LATIN):  # whole words, not single letters between Latin ones
        words = _ODD_WORDS.findall(text)
        cased = sum(len(word) for word in words if word[1:] in (word[1:].lower(), word[1:].upper()))
        return cased >= odd * 0.7
    return True


def _is_latin(text: str) -> bool:
    """Whether the words are of Latin letters with accents on some and capitals in front; no signs stand in them.

    Other alphabets read as Latin become words of accented letters alone, and what is no text has capitals anywhere.
    """
    words = _WORDS.findall(text)
    odd = [word for word in words if not word.isascii()]
    accented = sum(c > "\x7f" for word in odd for c in word)
    orderly = sum(word[1:].islower() or word.isupper() or len(word) == 1 for word in odd)
    if len(_INSIDE.findall(text)) > sum(c > "\x7f" for c in text) * 0.2:
        return False
    return accented <= sum(map(len, words)) * 0.7 and orderly >= len(odd) * 0.7 and not _BOXED.search(text)


def _high(data: bytes) -> int:
    return len(data) - len(data.translate(None, bytes(range(128, 256))))


def _sample(data: bytes) -> bytes:
    """Up to 64 KB of the lines with bytes above ASCII, without most of what is ASCII in long ones."""
    found, size = list[bytes](), 0
    for line in _ODD_LINES.finditer(data):
        found.append(_ASCII_STRETCH.sub(rb"\1 \2", line[0]).translate(None, _CONTROLS))
        size += len(found[-1])
        if size > _SAMPLE:
            break
    return b"\n".join(found)[:_SAMPLE]


def _is_western(sample: bytes, guessed: str, most: float) -> bool:
    """Whether the sample is Windows-1252 rather than what was guessed, or reads the same in it.

    What is odd stands where people write it; and at most this share of the words is, or the guess has letters for signs
    that stand alone.
    """
    text = _strictly(sample, "cp1252")
    other = _strictly(sample, guessed) if guessed else None
    if text is None or text == other:
        return text is not None
    words = _WORDS.findall(text)
    odd = [word for word in words if not word.isascii()]
    if _MISPLACED.search(text) or sum(map(_is_western_word, odd)) < len(odd) * 0.7:
        return False
    lone = other is not None and len(other) == len(text) and any(other[m.start()].isalpha() for m in _SIGNS.finditer(text))
    return lone or len(odd) <= max(len(words) * _SELDOM.get(guessed, most), 2 * (guessed in _SELDOM))


def _is_western_word(word: str) -> bool:
    """Whether a word has capitals only at its beginning or throughout, and letters of ASCII too."""
    plain = sum(c.isascii() for c in word)
    return len(word) == 1 or (plain * 3 >= len(word) and (word[1:].islower() or word.isupper()))


class Canonical:
    """A canonical text under construction: blocks are recorded as their text is added, a blank line between them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._length = 0

    def add(
        self,
        kind: Kind,
        lines: list[str],
        *,
        level: int = 0,
        page: int | None = None,
        title: str = "",
        seams: list[int] | None = None,
    ) -> None:
        """A block of these lines. `seams` are the indices of the lines at which its parts begin."""
        if self._blocks:
            self._parts.append("\n\n")
            self._length += 2
        start = self._length
        text = "\n".join(lines)
        self._parts.append(text)
        self._length += len(text)
        self._blocks.append(Block(kind, Span(start, self._length), level, page, _parts(start, lines, seams or []), title))

    def document(self, metadata: dict[str, str]) -> Parsed:
        """The text and its blocks."""
        return Parsed("".join(self._parts), tuple(self._blocks), metadata)


def _parts(start: int, lines: list[str], seams: list[int]) -> tuple[Span, ...]:
    parts, offset, line = [], start, 0
    for begin, end in pairwise([*seams, len(lines)]):
        offset += sum(len(text) + 1 for text in lines[line:begin])
        stop = offset + sum(len(text) + 1 for text in lines[begin:end])
        parts.append(Span(offset, stop - 1))
        offset, line = stop, end
    return tuple(parts)
