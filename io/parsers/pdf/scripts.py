"""Characters: ligatures, right-to-left order, and whether what a font says are words at all."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_FORMS = re.compile("[\ufb00-\ufb4f\ufb50-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdfb\ufe70-\ufefc]")
_BULLETS = re.compile("[\uf0b7\uf0a7\uf0d8\uf076\uf0fc\uf02d\uf06e\uf071\uf0a8\u2022\u25cf\uf06c\u25aa\u25a0]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\u200b\ufffe\uffff]")
_SPACES = re.compile("[\xa0\t\n\u2000-\u200a\u202f\u205f\u2028\u2029]")
_UNKNOWN = re.compile("[\ufffd\x00-\x08\x0e-\x1f\x80-\x9f\ue000-\uf8ff]")
_PLAIN = re.compile(r"[ -~\n]*")
_WORDLIKE = re.compile("[!-~\u00a1-\u024f]{4,}")
_LEFT = re.compile(r"[A-Za-z0-9\u00c0-\u058f\u0900-\u1fff\u2c00-\ud7ff]")
_PAIRS = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_WORDS = 150  # looked at on a page
_LETTER, _ADDRESS = re.compile("[A-Za-z]"), re.compile(r"://|@|\w/|_|=")
_VOWEL, _HUMP = re.compile("[aeiouyAEIOUY\u00c0-\u024f]"), re.compile("[a-z][A-Z]")
_MIXED = re.compile(r"[A-Za-z][0-9#$%&^~|<>;:!?\"]+[A-Za-z]")
_ALEFS = "\u0622\u0623\u0625\u0627"


def cleaned(text: str) -> str:
    """Ligatures and presentation forms as letters, every white space as a space, bullets of symbol fonts as •; no controls.

    Compatibility forms that mean something (superscripts, long s, full width) stay.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = _BULLETS.sub("•", _SPACES.sub(" ", text))
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found.group()), _CONTROL.sub("", text))
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def is_rtl(text: str) -> bool:
    """Whether most of its letters run from right to left."""
    found = len(RTL.findall(text))
    return found > 0 and found >= len(_LEFT.findall(re.sub(r"\d", "", text)))


def logical(glyphs: Sequence[tuple[float, float, str]]) -> str:
    """The text of a line in the order it is read, from where its glyphs stand: (x0, x1, characters), in any order.

    Files store lines that run to the left in reading order or in the order of the eye; the places tell.
    """
    drawn = _drawn(glyphs)
    base_rtl = is_rtl("".join(drawn))
    runs = _runs(drawn, base_rtl)
    if base_rtl:
        runs.reverse()
    plain, mirrored = _ordered(runs, False), _ordered(runs, True)
    return mirrored if _closed(mirrored) > _closed(plain) else plain


def _drawn(glyphs: Sequence[tuple[float, float, str]]) -> list[str]:
    """Clusters from left to right: what one glyph stands for, and marks with the letter they sit on, together."""
    clusters: list[tuple[float, float, str]] = []
    for x0, x1, text in sorted(glyphs, key=lambda glyph: (glyph[0] + glyph[1]) / 2):
        mark = bool(text) and unicodedata.combining(text[0]) > 0
        if clusters and (mark or x1 - x0 < 0.01) and text.strip() and clusters[-1][2].strip():
            a, b, before = clusters[-1]
            clusters[-1] = (a, b, _joined(before, text))
        else:
            clusters.append((x0, x1, text))
    return [text for _, _, text in clusters]


def _joined(a: str, b: str) -> str:
    """Two characters at one place: a mark after its letter, the lam of a ligature before its alef."""
    if b == "\u0644" and a[:1] and a[:1] in _ALEFS:
        return b + a
    return b + a if unicodedata.combining(a[0]) else a + b


def _runs(drawn: Sequence[str], base_rtl: bool) -> list[tuple[bool, list[str]]]:
    """Stretches of one direction. Neutral characters between two of the same go with them, others with the line."""
    kinds: list[bool | None] = [True if RTL.search(c) else False if _LEFT.search(c) else None for c in drawn]
    numbers = _numbers(drawn, kinds) if base_rtl else set()
    sides = [True if at in numbers else kind for at, kind in enumerate(kinds)]  # beside a number as beside a letter of the line
    resolved: list[bool] = []
    for at, kind in enumerate(sides):
        if kind is None:
            before = next((k for k in reversed(sides[max(0, at - 8) : at]) if k is not None), base_rtl)
            after = next((k for k in sides[at + 1 : at + 9] if k is not None), base_rtl)
            kind = before if before == after else base_rtl
        resolved.append(kind and at not in numbers)
    runs: list[tuple[bool, list[str]]] = []
    for rtl, cluster in zip(resolved, drawn, strict=True):
        if runs and runs[-1][0] == rtl:
            runs[-1][1].append(cluster)
        else:
            runs.append((rtl, [cluster]))
    return runs


def _numbers(drawn: Sequence[str], kinds: Sequence[bool | None]) -> set[int]:
    """Which characters of a line to the left are of numbers, with their points and signs, and of no phrase in Latin letters."""
    digits = [c.isdigit() for c in drawn]
    found = set()
    for at, c in enumerate(drawn):
        near = digits[max(0, at - 1) : at + 2]
        joins = not digits[at] and ((c in ".,:/-" and sum(near) == 2) or (c in "%$€£+" and any(near)))
        if digits[at] or joins:
            strong = (kinds[n] for n in range(at + 1, min(at + 24, len(kinds))) if kinds[n] is not None and not digits[n])
            if next(strong, True):
                found.add(at)
    return found


def _ordered(runs: Sequence[tuple[bool, list[str]]], mirrored: bool) -> str:
    """The runs one after another, those to the left from their end; files name the shape of a bracket or its meaning."""

    def turned(run: Sequence[str]) -> str:
        return "".join(c.translate(_PAIRS) if mirrored and len(c) == 1 else c for c in reversed(run))

    return "".join(turned(run) if rtl else "".join(run) for rtl, run in runs)


def _closed(text: str) -> int:
    return len(re.findall(r"\([^()]*\)|\[[^\[\]]*\]|«[^«»]*»", text))


def is_unknown(text: str) -> bool:
    """Whether hardly any of the text's characters is known."""
    return _UNKNOWN.search(text) is not None and len(_UNKNOWN.findall(text)) > 0.6 * len("".join(text.split()))


def quality(text: str) -> str:
    """ "" for text, `garbage` where the fonts don't say what their glyphs are, `doubtful` where they seem to say it wrongly."""
    letters = len("".join(text.split()))
    if len(_UNKNOWN.findall(text)) > letters * 0.3:
        return "garbage"
    words = _WORDLIKE.findall(text)
    sample = words[:: max(1, len(words) // _WORDS)]
    latin = sum(map(len, words))
    odd = sum(map(_odd, sample))
    return "doubtful" if words and latin > letters * 0.4 and odd > len(sample) * (0.6 if len(sample) > 3 else 0.9) else ""


def _odd(word: str) -> bool:
    """Whether a word is no word of any language in Latin letters, nor a number, a name of a file or an address."""
    if sum(not c.isalnum() for c in word) > 0.4 * len(word):
        return len(set(word)) > 3
    bare = word.strip("()[]{}<>\"'.,;:!?-*")
    if not _LETTER.search(bare) or _ADDRESS.search(bare):
        return False
    if len(bare) > 4 and not _VOWEL.search(bare):
        return True
    return len(_HUMP.findall(bare)) > 1 or _MIXED.search(bare) is not None
