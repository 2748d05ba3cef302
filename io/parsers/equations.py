"""Equations of office documents (OMML, MathML) on one line: `x=(-b±√(b^2 -4ac))/(2a)`."""

from __future__ import annotations

import re
from collections.abc import Callable

from lxml import etree

from chunkmill.io.parsers.office import steps
from chunkmill.io.parsers.xmltree import local

_END = "\x01"  # ends an index, a power, a function's name: a space, where a letter or digit follows
_FOLLOWED = re.compile(rf"{_END}+\s*(?=\w)")
_SIMPLE = re.compile(r"[\w.']*\Z")
_LONG = 200
_LEAVES = frozenset(("t", "mi", "mn", "mtext", "ms"))
_INVISIBLE = "\u2061\u2062\u2063\u2064 \n\t"
_SPACED = frozenset("=+−±<>≤≥≠≈→-")
_JOINED = {"mr": ", ", "m": "; ", "eqArr": "; ", "mtr": ", ", "mtable": "; "}
_Fold = Callable[[list[str]], str]
_FRACTION: _Fold = lambda p: f"{_in(p[0])}/{_in(p[1])}"  # noqa: E731  # a line each
_POWER: _Fold = lambda p: f"{_in(p[0])}^{_in(p[1])}{_END}"  # noqa: E731  # a line each
_INDEX: _Fold = lambda p: f"{_in(p[0])}_{_in(p[1])}{_END}"  # noqa: E731  # a line each
_BOTH: _Fold = lambda p: f"{_in(p[0])}_{_in(p[1])}^{_in(p[2])}{_END}"  # noqa: E731  # a line each
_FOLDS: dict[str, tuple[int, _Fold]] = {
    "f": (2, _FRACTION),
    "mfrac": (2, _FRACTION),
    "sSup": (2, _POWER),
    "msup": (2, _POWER),
    "limUpp": (2, _POWER),
    "mover": (2, _POWER),
    "sSub": (2, _INDEX),
    "msub": (2, _INDEX),
    "limLow": (2, _INDEX),
    "munder": (2, _INDEX),
    "sSubSup": (3, _BOTH),
    "msubsup": (3, _BOTH),
    "munderover": (3, _BOTH),
    "sPre": (3, lambda p: f"_{_in(p[0])}^{_in(p[1])}{_END}{p[2]}"),
    "func": (2, lambda p: f"{_END}{p[0]} {p[1]}"),
    "mroot": (2, lambda p: f"^{_in(p[1])}√{_in(p[0])}"),
}


def linear(root: etree._Element) -> str:
    """The equation as one line of text. Folded from the leaves up: no recursion."""
    made: list[list[str]] = [[]]
    walk = steps(root)
    for event, element in walk:
        name = local(element)
        if event == "start":
            made.append([])
            if name.endswith("Pr") or name.startswith("annotation") or not name:
                walk.skip_subtree()
        else:
            parts = made.pop()
            made[-1].append(_folded(element, name, parts))
    text = _FOLLOWED.sub(" ", "".join(made[0])).replace(_END, "")
    return " ".join(text.split())


def _folded(element: etree._Element, name: str, parts: list[str]) -> str:
    """What an element says, given what its children say."""
    if name in _LEAVES:
        return element.text or ""
    if name == "mo":
        sign = (element.text or "").strip(_INVISIBLE)
        return f" {sign} " if sign in _SPACED else sign
    kept = [part for part, child in zip(parts, element, strict=False) if not local(child).endswith("Pr")]
    if name in ("d", "mfenced"):
        return _fenced(element, kept)
    if name == "nary":
        lower, upper, body = _named(element, parts, "sub", "sup", "e")
        bounds = (f"_{_in(lower)}" if lower else "") + (f"^{_in(upper)}" if upper else "")
        return f"{_property(element, 'chr', '∫')}{bounds} {body}"
    if name in ("rad", "msqrt"):
        degree, body = _named(element, parts, "deg", "e") if name == "rad" else ("", "".join(kept))
        return f"{'^' + _in(degree) if degree else ''}√{_in(body)}"
    if name == "acc":
        return "".join(kept) + _property(element, "chr", "\u0302")
    if name in _JOINED:
        text = _JOINED[name].join(filter(None, kept))
        return f"[{text}]" if name in ("m", "mtable") else text
    least, fold = _FOLDS.get(name, (len(kept) + 1, "".join))
    return fold([part.strip() for part in kept]) if len(kept) >= least else "".join(kept)


def _in(part: str) -> str:
    """The operand, in parentheses where it needs them."""
    part = part.strip().strip(_END)
    if len(part) > _LONG:
        return f"({part})"
    closed = part[:1] in ("(", "[") and part[-1:] in (")", "]") and not any(sign in part[1:-1] for sign in "()[]")
    return part if len(part) < 2 or closed or _SIMPLE.match(part) else f"({part})"


def _named(element: etree._Element, parts: list[str], *names: str) -> list[str]:
    said = {local(child): part.strip() for child, part in zip(element, parts, strict=False)}
    return [said.get(name, "") for name in names]


def _property(element: etree._Element, name: str, default: str) -> str:
    """A character that an element's properties name."""
    found = element.find(f"{{*}}{local(element)}Pr/{{*}}{name}")
    return default if found is None else next((str(value) for value in found.attrib.values()), "")


def _fenced(element: etree._Element, parts: list[str]) -> str:
    if local(element) == "mfenced":
        return f"{element.get('open', '(')}{', '.join(parts)}{element.get('close', ')')}"
    opening, closing, between = (_property(element, n, d) for n, d in (("begChr", "("), ("endChr", ")"), ("sepChr", "|")))
    inner = between.join(part.strip() for part in parts)
    return inner if opening == "(" and inner[:1] == "[" and inner[-1:] == "]" else f"{opening}{inner}{closing}{_END}"
