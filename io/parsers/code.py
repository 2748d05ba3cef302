"""Source code: the file as it is, and the language it is in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from chunkmill.chunkers.base import Block, Span
from chunkmill.io.parsers import Parsed
from chunkmill.io.parsers.text import decode

# A language, then the extensions (or bare names) it goes by.
_LANGUAGES = """
python py pyi pyx | javascript js mjs cjs jsx | typescript ts mts cts | tsx tsx | java java | c c h
cpp cc cpp cxx hh hpp hxx | csharp cs | go go | rust rs | ruby rb | php php | kotlin kt kts | scala scala
swift swift | objc m mm | bash sh bash zsh | fish fish | powershell ps1 | batch bat cmd | sql sql | lua lua | r r
perl pl pm | haskell hs | ocaml ml mli | elixir ex exs | erlang erl hrl | clojure clj cljs | dart dart | zig zig
nim nim | julia jl | fortran f90 f95 | groovy groovy gradle | proto proto | hcl tf | vue vue | svelte svelte
toml toml | yaml yaml yml | ini ini | css css | scss scss | less less | cmake cmake | make mk makefile gnumakefile
dockerfile dockerfile
"""
_BY_EXTENSION = {
    extension: language
    for line in re.split(r"[|\n]", _LANGUAGES)
    if line.strip()
    for language, *extensions in [line.split()]
    for extension in extensions
}
_INTERPRETERS = {
    "sh": "bash",
    "zsh": "bash",
    "dash": "bash",
    "ksh": "bash",
    "node": "javascript",
    "deno": "typescript",
    "rscript": "r",
    "runghc": "haskell",
    "awk": "awk",
}
_SHEBANG = re.compile(
    rb"#!\s*(?:\S*/)?env\s+(?:-S\s+)?(?:\w+=\S*\s+)*(?:\S*/)?([\w+-]+?)[\d.]*(?:\s|$)|#!\s*\S*?([\w+-]+?)[\d.]*(?:\s|$)"
)
_COOKIE = re.compile(rb"^(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """The file exactly as decoded; one block over its text."""
    cookie = _COOKIE.match(data[:1024])
    text, metadata = decode(data, cookie[1].decode("ascii") if cookie else "")
    if found := language(name, data):
        metadata["language"] = found
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    first = text.rfind("\n", 0, start) + 1 if start < end else start  # indentation belongs to the code
    yield Parsed(text, (Block("code", Span(first, end)),) if start < end else (), metadata)


def language(name: str, data: bytes) -> str:
    """The language by the file's name, else by its first line; "" if unknown."""
    base = name.rpartition("/")[2].lower()
    if base == "cmakelists.txt":
        return "cmake"
    known = _BY_EXTENSION.get(base.rpartition(".")[2].strip(), "")
    shebang = None if known else _SHEBANG.match(data[:256])
    if not shebang:
        return known
    interpreter = (shebang[1] or shebang[2]).decode("ascii", "replace").lower()
    return _INTERPRETERS.get(interpreter, interpreter)
