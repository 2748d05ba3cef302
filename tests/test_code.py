"""The strategy `code`: definitions stay whole, nothing is lost, offsets are code points, no input hangs or overflows."""

import re
import time
from itertools import pairwise

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chunkmill.chunkers import code
from chunkmill.chunkers.api import chunk, chunk_all, chunking
from chunkmill.chunkers.base import Budget, Document
from chunkmill.chunkers.code import GRAMMARS, Code, Source, divided, parsed
from chunkmill.chunkers.errors import ConfigError
from chunkmill.chunkers.presets import PRESETS
from test_promises import UNITS, check_clusters, check_cover, check_limit, check_order, check_slices


def source(text, language="python"):
    return Document("d", "", text, (), {"language": language})


def texts(text, language="python", size=100, **options):
    return [c.text for c in chunk(source(text, language), "code", size=size, unit="chars", **options)]


def symbols(text, language, size, merge=False):
    """Each chunk's symbol path and text."""
    budget = Budget(size, None, len(text), size)
    found = divided(Source(text, parsed(text, language), budget), merge)
    return {".".join(path): text[span.start : span.end] for span, path in found}


# A definition with what stands above it, its symbol path, and how its chunk begins and ends.
SNIPPETS = [
    ("python", "import os\n\n\n# Twice.\n@cache\n@log(1)\ndef twice(x):\n    return 2 * x\n", "twice", "# Twice.", "2 * x"),
    (
        "python",
        "class A:\n    x = 1\n\n    # Runs.\n    @property\n    def run(self):\n        return 1\n",
        "A.run",
        "# Runs.",
        "1",
    ),
    ("javascript", "import x from 'y';\n\n/** Doc */\nexport const f = (a) => {\n  return a;\n};\n", "f", "/** Doc", "};"),
    ("javascript", "class A {\n  x = 1;\n\n  // Runs.\n  run() {\n    return 1;\n  }\n}\n", "A.run", "// Runs.", "}"),
    ("typescript", "let n = 1;\n\n// Doc\n@Component({})\nexport class Door { x: string }\n", "Door", "// Doc", "}"),
    ("tsx", "const n = 1;\n\n// Doc\nexport function App(p: P) { return <div>{p.a}</div>; }\n", "App", "// Doc", "}"),
    (
        "java",
        "class A {\n  int x;\n\n  /** Runs. */\n  @Override\n  public void run() { x++; }\n\n  int y; }",
        "A.run",
        "/** Runs",
        "}",
    ),
    ("c", "#include <a.h>\n\n/* Adds. */\nstatic int *add(int a) {\n  return 0;\n}\n", "add", "/* Adds", "}"),
    ("cpp", "int n;\n\n// Goes.\ntemplate <class T>\nint Door::go(int a) { return 1; }\n", "Door.go", "// Goes", "}"),
    ("csharp", "using X;\n\n/// <summary>\n[Serializable]\npublic class Door { int P; }\n", "Door", "/// <s", "}"),
    ("go", "package a\n\n// Run runs.\nfunc (a *Door) Run() int { return 1 }\n", "Door.Run", "// Run", "}"),
    ("go", "package a\n\n// Door is one.\ntype Door struct { x int }\n", "Door", "// Door", "}"),
    ("rust", "use a;\n\n/// Doc\n#[derive(Debug)]\npub struct Door { x: i32 }\n", "Door", "/// Doc", "}"),
    (
        "rust",
        "impl T for A {\n  const X: i32 = 1;\n\n  /// Runs.\n  #[inline]\n  pub fn run() {}\n}\n",
        "A.run",
        "/// Runs",
        "}",
    ),
    ("ruby", "class A\n  attr_reader :x, :yyy\n\n  # Runs.\n  def run\n    1\n  end\nend\n", "A.run", "# Runs", "end"),
    ("php", "<?php\n$x = 1;\n\n/** Doc */\n#[Attr]\nclass Door { public $x = 1; }\n", "Door", "/** Doc", "}"),
    ("kotlin", "package a\n/** Doc */\n@Anno\nclass Door(val x: Int) { val y = 1 }\n", "Door", "/** Doc", "}"),
    ("scala", "import a.b\n\n/** Doc */\n@anno\nclass Door(x: Int) { def run(): Int = 1 }\n", "Door", "/** Doc", "}"),
    ("swift", "import A\n\n/// Doc\n@objc\nclass Door: NSObject { var x = 1 }\n", "Door", "/// Doc", "}"),
    ("bash", "x=1\n\n# Runs.\nrun() {\n  echo 1\n}\n", "run", "# Runs", "}"),
    ("sql", "SELECT 1;\n\n-- Doors.\nCREATE TABLE door (\n  id INT\n);\n", "door", "-- Doors", ");"),
    ("lua", "local n = 1\n\n--- Runs.\nfunction Door.run(x)\n  return x\nend\n", "Door.run", "--- Runs", "end"),
    ("r", "n <- 1\n\n# Adds.\nadd <- function(x) {\n  x + 1\n}\n", "add", "# Adds", "}"),
    ("haskell", "module M where\nimport A\n-- | Doc\ndata Door = A | B\n", "Door", "-- | Doc", "B"),
    ("objc", "int n;\n\n// Doc\n@interface Door : NSObject\n- (void)run;\n@end\n", "Door", "// Doc", "@end"),
    ("ocaml", "open A\n\n(* Adds. *)\nlet add x = x + 1\n", "add", "(* Adds", "1"),
    ("proto", 'syntax = "proto3";\n\n// Doc\nmessage Door {\n  int32 x = 1;\n}\n', "Door", "// Doc", "}"),
]


@pytest.mark.parametrize(("language", "text", "path", "first", "last"), SNIPPETS, ids=[f"{s[0]}-{s[2]}" for s in SNIPPETS])
def test_a_definition_keeps_its_decorators_and_comments(language, text, path, first, last):
    found = symbols(text, language, len(text.rstrip()) - 1)

    assert path in found
    assert found[path].startswith(first)
    assert found[path].rstrip("}\n").rstrip().endswith(last.rstrip("}")) or found[path].endswith(last)


def test_at_least_fifteen_languages_are_tried():
    assert len({s[0] for s in SNIPPETS}) >= 20
    assert {s[0] for s in SNIPPETS} <= GRAMMARS


def test_a_long_literal_is_cut_and_not_dropped():
    found = texts('banner = "' + "z" * 400 + '"\nport = 8080\n')

    assert sum(t.count("z") for t in found) == 400
    assert any("port = 8080" in t for t in found)


def test_a_long_comment_is_cut_by_lines():
    lines = [f"# line {i} of a comment" for i in range(40)]

    found = texts("/*\n" + "\n".join(lines) + "\n*/\nint x;\n", "c")

    assert all(line in "\n".join(found).split("\n") for line in lines)


def test_offsets_are_code_points_where_the_tree_has_bytes():
    text = 'naïve = "π"\n\ndef área(r):\n    return 3 * r * r\n'

    (area,) = (c for c in chunk(source(text), "code", size=45, unit="chars", merge=False) if "def área(r):" in c.text)

    assert area.start == 13 == text.index("def")


def test_the_tree_is_not_disturbed_by_wide_letters_and_marks():
    text = "\ufeffclass Größe:\n    α = 1\n\n    def naïve(self):\u00a0\n        return '日本' + \"👩‍👩‍👧\"\n"

    assert symbols(text, "python", 60).keys() == {"Größe", "Größe.naïve"}


def test_what_follows_wide_characters_is_not_shifted():
    text = "# 合計 🧮\ndef total(xs):\n    s = 0  # 和\n    for x in xs:\n        s += x\n    return s\n\n"
    text += "def second():\n    return 2\n"

    assert texts(text)[-1] == "def second():\n    return 2"


def test_dense_code_is_measured_in_the_unit_of_the_job():
    text = "x = [" + "[], " * 200 + "]\n"
    cut = chunking("code", {"language": "python"}, size=64, unit=UNITS["bytes"])

    (chunks,) = chunk_all([source(text)], cut, {})

    check_limit(chunks, cut)
    check_cover(source(text), chunks)


def test_a_decorated_definition_is_one_and_has_its_name():
    text = "import app\n\n@app.route('/health')\n@cached\ndef health():\n    return 'ok'\n\ndef plain():\n    return 1\n"

    assert symbols(text, "python", 100) == {
        "": "import app",
        "health": "@app.route('/health')\n@cached\ndef health():\n    return 'ok'",
        "plain": "def plain():\n    return 1",
    }


def test_text_between_statements_stays_as_it_is():
    assert texts("if ok:\r\n\tx = 1\r\n\r\n\r\ny = 2\r\n") == ["if ok:\r\n\tx = 1\r\n\r\n\r\ny = 2"]


def test_small_definitions_are_packed_and_a_long_one_keeps_apart():
    small = "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\n"
    long = "def long():\n" + "".join(f"    call({i}, {i})\n" for i in range(12)) + "\n\n"

    found = texts(small + long + "def c():\n    return 3\n")

    assert found[0] == small.rstrip()
    assert found[1].startswith("def long():\n    call(0, 0)")
    assert found[-1] == "def c():\n    return 3"


def test_a_class_that_is_too_long_is_divided_into_its_methods():
    methods = [f"    def m{i}(self):\n        return {i} * 1000000 + {i}\n" for i in range(6)]

    found = texts("class A:\n" + "\n".join(methods), size=60)

    assert all(any(m.strip() in t for t in found) for m in methods)


def test_a_chunk_of_several_symbols_has_the_path_of_what_holds_them():
    text = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n\n" + "    x = 1\n" * 20

    found = symbols(text, "python", 120, merge=True)

    assert list(found) == ["A"]


CPP = "template|class T>|public:|private:"


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        (
            "zig",
            "pub fn a(x: i32) i32 {{\n    return x + {0};\n}}\n\n/// Doc.\npub const P{0} = struct {{ x: i32 }};\n\n",
            "pub",
        ),
        ("cpp", "template <class T>\nclass A{0} {{\n public:\n  void f();\n  void gg(T t);\n private:\n  T t;\n}};\n\n", CPP),
        ("typescript", "export abstract class A{0} {{\n  run() {{ return {0}; }}\n  stop() {{}}\n}}\n", "export|abstract"),
    ],
)
def test_a_word_of_the_language_stays_with_what_it_opens(language, text, words):
    whole = "".join(text.format(i) for i in range(8))

    for size in range(45, 130, 5):
        assert not [t for t in texts(whole, language, size) if re.search(rf"(?:^|\W)(?:{words})$", t)], size


def test_a_template_goes_with_the_head_of_its_class():
    text = (
        "#include <x>\n\n// Doc.\ntemplate <class T>\nclass A {\n" + "".join(f"  void f{i}(T t);\n" for i in range(9)) + "};\n"
    )

    assert texts(text, "cpp", 90)[1].startswith("// Doc.\ntemplate <class T>\nclass A {\n  void f0(T t);")


def test_a_closing_bracket_is_no_chunk():
    text = "".join(f"function f{i}() {{\n  call({i * 1111});\n  other({i});\n}}\n" for i in range(30))

    for size in range(12, 60):
        assert not any(re.fullmatch(r"[\s})\];]+", t) for t in texts(text, "javascript", size)), size


def test_a_bracket_that_finds_no_room_takes_along_what_it_closes():
    text = "run(first(second(third(alpha, beta), gamma), delta), [epsilon, [zeta, [eta]]]);\n"

    for size in range(14, len(text)):
        assert not any(re.fullmatch(r"[\s})\];]+", t) for t in texts(text, "javascript", size)), size


def test_functions_in_one_chunk_have_no_path_in_common():
    assert symbols("def f():\n    pass\n\ndef g():\n    pass\n", "python", 100, merge=True).keys() == {""}


def test_a_mark_that_combines_with_a_quote_stays_with_it():
    text = "x = [" + ", ".join(f'"\u0301a{i}"' for i in range(20)) + "]\n"

    for size in range(2, 30):
        cut = chunking("code", size=size, unit="chars")
        (chunks,) = chunk_all([source(text)], cut, {})
        check_promises(source(text), chunks, cut)


@pytest.mark.parametrize("merge", [True, False])
def test_the_same_strategy_object_is_used_for_all_languages(merge):
    cut = chunking("code", {"merge": merge}, size=60, unit="chars")
    docs = [source(text, language) for language, text, *_ in SNIPPETS]

    for doc, chunks in zip(docs, chunk_all(docs, cut, {}), strict=True):
        check_promises(doc, chunks, cut)
        assert {c.kind for c in chunks} == {"code"}


def check_promises(doc, chunks, cut):
    assert isinstance(chunks, list), chunks
    check_slices(doc, chunks)
    check_cover(doc, chunks)
    check_order(chunks)
    check_limit(chunks, cut)
    check_clusters(doc, chunks, cut)
    assert all(a.end <= b.start for a, b in pairwise(chunks)), "DISJOINT"


LANGUAGES = [*sorted(GRAMMARS), *sorted(PRESETS), "", "no such", "Python", "../x"]
SCRAPS = [
    '"""',
    "/*",
    "*/",
    "<<EOF\n",
    "'",
    "{",
    "}",
    "((((",
    "))",
    "#if 1\n",
    "é",
    "漢",
    "e\u0301",
    "👩‍👩‍👧",
    "\0",
    "\r\n",
    "\t",
    "\n\n",
    "`",
    "$$",
]
# A mark that combines with white space, which trimming parts from it, in every strategy.
MARKED_SPACE = regex.compile(r"\s[\p{Grapheme_Cluster_Break=Extend}\p{Grapheme_Cluster_Break=SpacingMark}\u200d]")
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(["", *SCRAPS])), max_size=12)


@given(
    snippet=st.sampled_from(SNIPPETS),
    times=st.integers(1, 4),
    edits=EDITS,
    language=st.sampled_from(LANGUAGES),
    right=st.booleans(),
    merge=st.booleans(),
    unit=st.sampled_from(sorted(UNITS)),
    size=st.integers(4, 80),
)
@settings(max_examples=600, deadline=None)
def test_mutated_source_keeps_the_promises(snippet, times, edits, language, right, merge, unit, size):
    text = snippet[1] * times
    for where, gone, scrap in edits:
        at = int(where * len(text))
        text = text[:at] + scrap + text[at + gone :]
    assume(not MARKED_SPACE.search(text))
    cut = chunking(Code(snippet[0] if right else language, merge), size=size, unit=UNITS[unit])

    (chunks,) = chunk_all([source(text)], cut, {})

    check_promises(source(text), chunks, cut)
    assert chunk_all([source(text)], cut, {})[0] == chunks, "STABLE"


@given(text=st.text(max_size=300), language=st.sampled_from(LANGUAGES), size=st.integers(1, 40))
@settings(max_examples=400, deadline=None)
def test_any_text_in_any_language_keeps_the_promises(text, language, size):
    assume(not MARKED_SPACE.search(text))
    cut = chunking("code", size=size, unit="chars")

    (chunks,) = chunk_all([source(text, language)], cut, {})

    check_promises(source(text, language), chunks, cut)


DEEP = {
    "brackets": ("javascript", "x = " + "[" * 10_000 + "]" * 10_000),
    "open brackets": ("python", "x = " + "(" * 10_000),
    "a long sum": ("python", "x = " + " + ".join(["a"] * 10_000)),
    "calls of calls": ("javascript", "f" + "()" * 10_000),
    "else if": ("java", "class A { void f() { if (a) { b(); }" + " else if (a) { b(); }" * 3_000 + "}}"),
    "blocks": ("c", "int f() " + "{" * 5_000 + "}" * 5_000),
    "strings in strings": ("kotlin", "val x = " + '"${' * 2_000),
    "no end of errors": ("python", "/*\n" * 20_000 + "*/\n" * 20_000),
    "wide characters": ("bash", "".join(map(chr, range(0x80, 0xD800, 7))) * 3),
    "commas": ("javascript", "x = [" + "," * 20_000 + "]"),
    "a chain under comments": ("python", "# c\n" * 6_000 + "f" + "()" * 6_000),
    "comments": ("python", "# comment\n" * 10_000 + "def f():\n    pass\n"),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_or_wide_trees_end_soon(name):
    language, text = DEEP[name]
    cut = chunking("code", size=100, unit="chars")
    began = time.process_time()

    (chunks,) = chunk_all([source(text, language)], cut, {})

    check_promises(source(text, language), chunks, cut)
    assert time.process_time() - began < 30


def test_a_minified_file_takes_seconds():
    line = "".join(f"function f{i}(a,b){{var c=a+b*{i};if(c>3){{return g(c,[1,2,{{x:c}}])}}return h(c)}}" for i in range(9000))
    cut = chunking("code", size=1000, unit="chars")
    began = time.process_time()

    (chunks,) = chunk_all([source(line, "javascript")], cut, {})

    assert len(line) > 700_000
    assert time.process_time() - began < 30
    check_cover(source(line), chunks)


def test_what_is_not_the_language_is_cut_by_separators(monkeypatch):
    prose = "It's late; the fox (brown) isn't: here, {or} there [at all.\n\n" * 50
    asked = []
    monkeypatch.setattr(code, "split", lambda text, span, budget, separators: asked.append(separators) or [])

    Code("java")(source(prose), Budget(100, None, len(prose), 100))

    assert asked == [PRESETS["java"]]


def test_error_recovery_is_stopped_by_its_steps(monkeypatch):
    monkeypatch.setattr(code, "ROUND", 10**9)

    assert parsed("x = 1\n" * 5000, "python") is None


VERSIONS = [("", ""), ("0.26.1", ""), ("", "0.13.0"), ("0.26.1", "1.25.0"), ("0.25.2", "0.13.0")]


@pytest.mark.parametrize(("parser", "grammars"), VERSIONS)
def test_without_the_extra_the_error_names_it(monkeypatch, parser, grammars):
    def installed(name):
        if not (version := {"tree-sitter": parser, "tree-sitter-language-pack": grammars}[name]):
            raise code.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(code.metadata, "version", installed)
    code.missing.cache_clear()
    try:
        with pytest.raises(ConfigError, match=re.escape('pip install "chunkmill[code]"')):
            chunking("code")
    finally:
        code.missing.cache_clear()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_ends_in_blank_line_line_and_space(name):
    assert PRESETS[name][-3:] == (r"\n\n", r"\n", " ")
    for pattern in PRESETS[name]:
        re.compile(pattern)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_takes_linear_time(name):
    from chunkmill.chunkers.recursive import split

    for unit in ("\n" + " " * 50, "public static ", "\n<", "\nexport default ", "a b\n====\n", "\n# "):
        text = unit * (200_000 // len(unit))
        began = time.process_time()
        split(text, code.Span(0, len(text)), Budget(500, None, len(text), 500), PRESETS[name])
        assert time.process_time() - began < 10, unit


PRESET_CASES = [
    ("javascript", "const a = 1;\nfunction f() {\n  return 1;\n}\nclass B {\n  m() {}\n}\n", "class B {"),
    ("go", "package a\n\nvar x = 1\nfunc F() int {\n\treturn 1\n}\n", "func F() int {"),
    ("rust", "use a;\nuse bbbb;\npub(crate) async fn run() {\n    go();\n}\n", "pub(crate) async fn run() {"),
    ("java", "package a;\nimport b;\n\npublic final class A {\n  int x;\n}\n", "public final class A {"),
    ("sql", "select 1;\n\nCREATE TABLE a (\n  id int\n);\n", "CREATE TABLE a ("),
    ("html", "<body><p>one</p><h2>Two</h2><p>three</p></body>", "<h2>Two</h2>"),
    ("latex", "Text before it.\n\\section{Two}\nMore text here.\n", "\\section{Two}"),
    ("rst", "Intro text\n\nTitle\n=====\n\nBody of the section\n", "Title\n====="),
]


@pytest.mark.parametrize(("name", "text", "begins"), PRESET_CASES, ids=[c[0] for c in PRESET_CASES])
def test_a_preset_cuts_before_the_strong_seam(name, text, begins):
    from chunkmill.chunkers.recursive import split

    spans = split(text, code.Span(0, len(text)), Budget(len(text) - 8, None, len(text), len(text) - 8), PRESETS[name])

    assert any(text[s.start : s.end].startswith(begins) for s in spans)


def test_a_chunk_says_its_symbol():
    text = "class Door:\n    x = 1\n\n    def open(self):\n        return self.key * 12345\n"

    chunks = chunk(source(text), "code", size=60, unit="chars", merge=False)

    assert [c.heading_path for c in chunks] == [("Door",), ("Door", "open")]


@pytest.mark.parametrize(("size", "context"), [(60, ""), (400, "Door > open_7")])
def test_the_symbol_path_is_embedded_where_the_job_asks_for_it(size, context):
    text = "class Door:\n" + "".join(f"    def open_{i}(self):\n        return self.key_{i}\n\n" for i in range(40))
    cut = chunking("code", {"merge": False}, size=size, overlap=10, unit="chars", context="headings")

    (chunks,) = chunk_all([source(text)], cut, {})
    (seventh,) = (c for c in chunks if c.text.endswith("key_7"))

    check_limit(chunks, cut)
    check_cover(source(text), chunks)
    assert (seventh.heading_path, seventh.context) == (("Door", "open_7"), context)
