"""Where a language's text is best cut: regular expressions from strong to weak."""

from __future__ import annotations

LINES = (r"\n\n", r"\n", r" ")  # what every list ends in: the blank line, the line, the space


def _lines(*words: str, before: str = "") -> tuple[str, ...]:
    """One separator a word: a line that begins with it; each word may be an alternation."""
    return tuple(rf"\n{before}(?:{word})\b" for word in words)


def _flow(*words: str) -> tuple[str, ...]:
    """Definitions first, then the statements that all languages in C's manner share, at any depth."""
    return (*_lines(*words), *_lines("if|for|while|switch|do|try", before=r"[ \t]*"), *LINES)


_ACCESS = r"(?:(?:public|protected|private|internal|static|final|abstract|sealed|open|override|async|partial|unsafe) +)*"
_EXPORT = r"(?:export +)?(?:default +)?(?:declare +)?(?:abstract +)?"
_C_TYPES = "struct|union|enum|typedef"

_JS = _flow(rf"{_EXPORT}class", rf"{_EXPORT}(?:async +)?function", r"(?:export +)?(?:const|let|var)")
_TS = _flow(
    rf"{_EXPORT}(?:namespace|module)",
    rf"{_EXPORT}(?:class|interface|enum)",
    rf"{_EXPORT}type",
    rf"{_EXPORT}(?:async +)?function",
    r"(?:export +)?(?:const|let|var)",
)
_C = (
    r"\n(?=#\s*(?:if|ifdef|ifndef|define)\b)",
    *_flow(_C_TYPES, "static|extern|void|int|char|long|float|double|unsigned|bool"),
)
_CPP = _flow(
    "namespace",
    "template|class",
    _C_TYPES,
    "static|extern|inline|constexpr|auto|void|int|char|long|float|double|unsigned|bool",
)
_MARKUP_HTML = (
    *(rf"(?i)<{tag}\b" for tag in ("body|main|article|section", "h1", "h2", "h3", "h4|h5|h6", "div", "table|ul|ol|dl|pre")),
    r"(?i)<(?:p|li|tr|br)\b",
    *LINES,
)

PRESETS: dict[str, tuple[str, ...]] = {
    "markdown": (r"\n#{1,6} ", r"```\n", r"\n\*\*\*+\n", r"\n---+\n", r"\n___+\n", *LINES),
    "html": _MARKUP_HTML,
    "latex": (
        *(rf"\n\\{name}\*?\{{" for name in ("(?:part|chapter)", "section", "subsection", "subsubsection", "(?:sub)?paragraph")),
        r"\n\\begin\{",
        r"\n[ \t]*\\item\b",
        r"\$\$",
        *LINES,
    ),
    "rst": (
        r"\n(?=[^\s].*\n(?:=+|#+|\*+)\n)",
        r"\n(?=[^\s].*\n(?:-+|~+|\^+|\"+|'+|`+)\n)",
        r"\n\.\. [\w-]+::",
        r"\n\.\. ",
        *LINES,
    ),
    "python": (r"\nclass ", r"\ndef ", r"\n\tdef ", *LINES),
    "javascript": _JS,
    "typescript": _TS,
    "java": _flow(rf"{_ACCESS}(?:class|interface|enum|record|@interface)", "[ \t]+(?:public|protected|private|static)"),
    "kotlin": _flow(rf"{_ACCESS}(?:data |inner |enum |value )*(?:class|interface|object)", rf"[ \t]*{_ACCESS}fun", "val|var"),
    "scala": _flow("(?:case |sealed |abstract |final )*(?:class|object|trait|enum)", "[ \t]*def", "val|var|type"),
    "swift": _flow(rf"{_ACCESS}(?:class|struct|enum|protocol|extension|actor)", rf"[ \t]*{_ACCESS}(?:func|init)", "let|var"),
    "csharp": _flow(
        "namespace", rf"[ \t]*{_ACCESS}(?:class|interface|struct|enum|record)", "[ \t]+(?:public|protected|private|internal)"
    ),
    "c": _C,
    "cpp": _CPP,
    "go": _flow("func", "type", "var|const"),
    "rust": _flow(
        r"(?:pub(?:\([^)]*\))? +)?(?:mod|impl|trait)",
        r"(?:pub(?:\([^)]*\))? +)?(?:struct|enum|union|type)",
        r"[ \t]*(?:pub(?:\([^)]*\))? +)?(?:const |async |unsafe )*fn",
        "const|static|let|macro_rules!",
        r"[ \t]*(?:match|loop)",
    ),
    "ruby": (
        *_lines("module", "class", before="[ \t]*"),
        *_lines("def", "if|unless|while|for|do|begin|rescue", before="[ \t]*"),
        *LINES,
    ),
    "php": _flow("namespace", rf"{_ACCESS}(?:class|interface|trait|enum)", rf"[ \t]*{_ACCESS}function", "[ \t]*foreach"),
    "bash": (r"\n(?=(?:function )?[\w-]+ *\(\))", *_lines("function", "if|for|while|until|case", before="[ \t]*"), *LINES),
    "powershell": (*_lines("(?i:class|function|filter)", "(?i:if|foreach|for|while|switch|try)", before="[ \t]*"), *LINES),
    "sql": (
        *(
            rf"(?i)\n(?:{words})\b"
            for words in ("create|alter|drop", "insert|update|delete|merge|with|select", "from|where|group|order")
        ),
        r";\n",
        *LINES,
    ),
    "lua": (*_lines("(?:local +)?function", "local", "if|for|while|repeat", before="[ \t]*"), *LINES),
    "r": (r"\n(?=[\w.]+ *(?:<-|=) *function\b)", *_lines("if|for|while|repeat", before="[ \t]*"), *LINES),
    "perl": (*_lines("package", "sub", "my|our", "if|unless|while|for|foreach"), *LINES),
    "haskell": (
        *_lines("module", "import", "data|newtype|type|class|instance"),
        r"\n(?=[a-z_][\w']* *::)",
        *_lines("where|let|in|do|case|if", before="[ \t]+"),
        *LINES,
    ),
    "elixir": (
        *_lines("defmodule|defprotocol|defimpl", "defp?|defmacrop?", "with|cond|case|if|unless", before="[ \t]*"),
        *LINES,
    ),
    "proto": (*_lines("service|message|enum", "(?:extend|import|package|option|syntax)"), *LINES),
}

NAMES = {  # what else a language is called → its name in the table
    "js": "javascript",
    "jsx": "javascript",
    "ts": "typescript",
    "tsx": "typescript",
    "py": "python",
    "rb": "ruby",
    "rs": "rust",
    "kt": "kotlin",
    "golang": "go",
    "c++": "cpp",
    "objc": "c",
    "c#": "csharp",
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
    "tex": "latex",
    "protobuf": "proto",
    "md": "markdown",
}
PRESETS |= {alias: PRESETS[name] for alias, name in NAMES.items()}
