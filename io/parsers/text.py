"""Plain text, and how every textual format is decoded: exactly, or not at all.

A wrong guess at an encoding is worse than a refusal: nobody notices mojibake in an index. So: byte order marks, then
UTF-8, then what the source declares, then a guess that has to look like a language; a byte without meaning becomes
U+FFFD and is counted.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise

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
# What the guesser may answer: encodings found in the wild, not all that Python has.
_CANDIDATES = (
    "cp932 euc_jp gb18030 big5 big5hkscs cp949 cp1251 koi8_r koi8_u cp866 mac_cyrillic iso8859_5 cp1253 iso8859_7 "
    "cp1255 iso8859_8 cp1256 iso8859_6 cp874 cp1258 cp1252 cp1250 iso8859_2 cp1254 cp1257 iso8859_10 iso8859_4 "
    "iso8859_13 iso8859_15 mac_roman cp437 cp850 cp852 cp037 cp500"
)
# Any bytes decode in any of these; the letters of the languages written in them tell which one it is.
_LATIN: dict[str, tuple[str, ...]] = {
    "cp1252": (
        "éèàêçùôîïëâûœ",
        "äöüß",
        "áéíóúñüºª",
        "ãõçáéíóúâêôà",
        "àèéìòù",
        "åäöé",
        "æøåé",
        "þðáéíóúýæö",
        "ëïéöü",
        "çàèéíïòóúü",
    ),
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),
    "cp1254": ("çğıöşüâîİ",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž"),
    "iso8859_2": ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),
    "iso8859_4": ("ąčęėįšųūž", "āčēģīķļņšūž", "áčđŋšŧž"),
    "mac_roman": ("éèàêçùôîïëâûœ", "äöüß", "áéíóúñüºª"),
    "cp850": ("éèàêçùôîïëâûœ", "äöüß", "áéíóúñüºª"),
    "iso8859_10": ("áčđŋšŧžåäöâ", "þðáéíóúýæö"),
}
_LATIN_GUESSES = frozenset([*_LATIN, "cp437", "cp852", "iso8859_13", "iso8859_15", "cp1258"])
_PUNCTUATION = frozenset("‘’“”„‚–—…«»‹›•€£§©®°·×¿¡´\xa0™½¼²³ªº")
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
_WESTERN = _PUNCTUATION.union(*_LATIN["cp1252"])
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
_SURROGATE = re.compile("[\ud800-\udfff]")
_PARAGRAPH = re.compile(r"\S[^\n\r]*+(?:(?:\r\n|\n|\r)[^\S\n\r]*+\S[^\n\r]*+)*+")
_HALF_WIDTH = re.compile("[\uff61-\uff9f]")


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The file as it is; a paragraph per stretch between blank lines."""
    text, metadata = decode(data)
    if nuls := text.count("\0"):
        metadata["warning"] = f"{nuls} NUL characters among the text"
    yield Parsed(text, paragraphs(text), metadata)


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
    if _share_of_utf8(data[: _SAMPLE * 4]) > 0.5:
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


def _share_of_utf8(data: bytes) -> float:
    """How much of the bytes above ASCII has the shape of UTF-8, be it legal (overlong forms and surrogates are not)."""
    high = _high(data)
    return sum(map(len, _UTF8_SHAPE.findall(data))) / high if high else 1.0


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
    from charset_normalizer import from_bytes

    sample = _sample(data)
    guesses = [m.encoding for m in from_bytes(sample, cp_isolation=_CANDIDATES.split(), enable_fallback=False)]
    if not guesses or guesses[0] in _LATIN_GUESSES or not _looks_right(sample, guesses[0]):
        guesses = [*_latin(sample), *guesses]
    for encoding in ("cp1255", *guesses) if _is_hebrew(sample) else guesses:
        text = _strictly(data, encoding) if _looks_right(sample, encoding) else None
        if text is not None:
            return text, encoding, 0
    high = _high(data)
    if high <= len(data) * 0.25:
        text = data.decode("utf-8", "replace")
        return text, "utf-8", text.count("\ufffd")
    raise DocumentError("undecodable", f"in no known encoding: {high} of {len(data)} bytes are above ASCII and no reading fits")


def _looks_right(sample: bytes, encoding: str) -> bool:
    """Whether the letters above ASCII lie as those of the encoding's languages do."""
    text = sample.decode(encoding, "ignore")
    odd = sum(c > "\x7f" for c in text)
    if encoding == "cp932":  # other alphabets read as Shift JIS become half-width katakana
        return len(_HALF_WIDTH.findall(text)) <= odd / 2
    if encoding == "gb18030":  # anything can be read as rare hanzi
        return sum(c > "\x7f" for c in text.encode("gb2312", "ignore").decode("gb2312")) >= odd * 0.6
    if encoding.startswith(_NOT_LATIN):  # whole words, not single letters between Latin ones
        words = _ODD_WORDS.findall(text)
        cased = sum(len(word) for word in words if word[1:] in (word[1:].lower(), word[1:].upper()))
        return cased >= odd * 0.7
    return True


def _is_hebrew(sample: bytes) -> bool:
    """Hebrew letters only: read as Cyrillic they are all small, and none of them is ы, ь, э, ю or я."""
    letters = re.findall(rb"[\x80-\xff]", sample)
    return (
        len(letters) >= 12
        and all(b"\xe0" <= letter <= b"\xfa" for letter in letters)
        and len(set(letters)) > 5
        and (max(map(len, re.findall(rb"[\xe0-\xfa]+", sample))) > 2)
    )


def _high(data: bytes) -> int:
    return len(data) - len(data.translate(None, bytes(range(128, 256))))


def _sample(data: bytes) -> bytes:
    """Up to 64 KB of whole lines from the first byte above ASCII on."""
    first = re.search(rb"[\x80-\xff]", data)
    start = data.rfind(b"\n", 0, first.start() if first else 0) + 1
    start = max(start, (first.start() if first else 0) - 2048)
    if len(data) - start <= _SAMPLE:
        return data[start:]
    end = data.rfind(b"\n", start, start + _SAMPLE)
    return data[start : end if end > start else start + _SAMPLE]


def _latin(sample: bytes) -> list[str]:
    """Latin encodings in which nearly all letters above ASCII belong to one language, the likeliest first."""
    scores: list[tuple[float, int, str]] = []
    for encoding, alphabets in _LATIN.items():
        text = _strictly(sample, encoding)
        if text is None:
            continue
        odd = [c for c in text.lower() if c > "\x7f"]
        letters = [c for c in odd if c not in _PUNCTUATION]
        known = max(sum(c in alphabet for c in letters) for alphabet in alphabets)
        scores.append((-(known + len(odd) - len(letters)) / max(1, len(odd)), len(scores), encoding))
    likely = [encoding for score, _, encoding in sorted(scores) if score <= -0.8]
    western = sum(c in _WESTERN for c in sample.decode("cp1252", "replace").lower() if c > "\x7f")
    return likely or (["cp1252"] if western >= 0.9 * _high(sample) else [])


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
