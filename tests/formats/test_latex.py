r"""LaTeX: the source is the text, its blocks lie where the commands say."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkmill.io.parsers.latex import plain
from sound import Readers

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


a = Readers("a.tex", "latex")
read, blocks, parts, headings = a.read, a.blocks, a.parts, a.headings


def test_the_preamble_is_code_and_its_title_metadata() -> None:
    source = (
        "% \\begin{document} not yet\n\\documentclass{article}\n\\title[Short]{A {\\bf Bold} Title}\n"
        "\\author{Ren\\'e Des\\c{c}artes\\\\ Uni X \\and B. B.\\thanks{y}}\n\\date{May 2024}\n"
        "\\begin{document}\n\\maketitle\nWords.\n\\end{document}\nafter\n"
    )

    parsed = read(source)

    assert parsed.text == source
    assert parsed.metadata == {
        "title": "A Bold Title",
        "author": "René Desçartes, B. B.",
        "date": "May 2024",
        "encoding": "utf-8",
    }
    assert [(kind, text[:20]) for kind, text in blocks(source)] == [
        ("code", "% \\begin{document} n"),
        ("paragraph", "\\maketitle\nWords."),
    ]


def test_levels_begin_at_one_with_the_largest_the_file_uses() -> None:
    source = "\\section{A}x\\subsection*{B}\\subsubsection[c]{C}\n\\paragraph{D} words"

    assert headings(source) == [(1, "A"), (2, "B"), (3, "C"), (4, "D")]
    assert headings("\\part{P}\\chapter{C}\\section{S}") == [(1, "P"), (2, "C"), (3, "S")]
    assert headings("\\begin{frame}[fragile]{One}x\\end{frame}\\begin{frame}\\frametitle{Two}\\end{frame}") == [
        (1, "One"),
        (1, "Two"),
    ]


@pytest.mark.parametrize(
    ("title", "seen"),
    [
        (r"The \emph{real} \texttt{thing}~\& more", "The real thing & more"),
        (r"\texorpdfstring{$\alpha$}{alpha}-decay\label{x}", "alpha-decay"),
        (r"na\"{\i}ve \v{S}koda \~n 50\%", "naïve Škoda ñ 50%"),
        (r"Line\\ break % comment", "Line break"),
    ],
)
def test_a_title_is_what_a_reader_sees(title: str, seen: str) -> None:
    assert plain(title) == seen


def test_sections_in_comments_verbatim_and_verb_are_none() -> None:
    source = (
        "% \\section{a}\n\\begin{verbatim}\n\\section{b}\n\\end{verbatim}\n\\verb|\\section{c}| 50\\% \\section{Real}\n"
        "\\\\% \\section{d}\n"
    )

    assert headings(source) == [(1, "Real")]


def test_verbatim_listings_and_drawings_are_code_with_their_indentation() -> None:
    source = (
        "Words\n\\begin{lstlisting}[language=C]\n  int a;\n\n  int b;\n\\end{lstlisting}\n"
        "\\begin{minted}{python}\nx = 1 % 2\n\\end{minted}\n"
        "\\begin{tikzpicture}[x=1]\n\\draw;\n\\end{tikzpicture}\n\\begin{comment}\nnone\n\\end{comment}\nend"
    )

    assert blocks(source) == [
        ("paragraph", "Words"),
        ("code", "  int a;\n\n  int b;"),
        ("code", "x = 1 % 2"),
        ("code", "\\draw;"),
        ("paragraph", "end"),
    ]


def test_items_are_the_parts_of_lists() -> None:
    source = (
        "\\begin{itemize}[leftmargin=1cm]\n\\item One\n\\begin{enumerate}\\item in\\end{enumerate}\n\\item[x] Two\n"
        "\n more\n\\end{itemize}\nend"
    )

    assert [kind for kind, _ in blocks(source)] == ["list", "paragraph"]
    assert parts(source) == ["\\item One\n\\begin{enumerate}\\item in\\end{enumerate}", "\\item[x] Two\n\n more"]
    assert parts("\\begin{thebibliography}{9}\n\\bibitem{a} A.\n\\bibitem{b} B.\n\\end{thebibliography}") == [
        "\\bibitem{a} A.",
        "\\bibitem{b} B.",
    ]


def test_rows_are_the_parts_of_tables() -> None:
    source = (
        "\\begin{tabular}{|l|r|}\n\\hline\nName & Age \\\\ \\hline\nAda & 36 \\\\[2pt]\n\\cmidrule(lr){1-2}\n"
        "\\begin{tabular}{c}x\\\\y\\end{tabular} & 1 \\\\\nlast & 2\n\\bottomrule\n\\end{tabular}"
    )

    assert blocks(source)[0][0] == "table"
    assert parts(source) == [
        "Name & Age \\\\",
        "Ada & 36 \\\\",
        "\\begin{tabular}{c}x\\\\y\\end{tabular} & 1 \\\\",
        "last & 2\n\\bottomrule",
    ]


def test_captions_are_figures_and_placement_is_nothing() -> None:
    source = (
        "\\begin{figure}[ht]\n\\centering\n\\includegraphics[width=3cm]{a.png}\n\\caption[s]{A {nested} caption.}\n"
        "\\label{f}\n\\end{figure}\nx"
    )

    assert blocks(source) == [("figure", "A {nested} caption."), ("paragraph", "x")]


def test_quotes_theorems_and_abstracts() -> None:
    source = (
        "\\begin{abstract}\nShort.\n\\end{abstract}\n\\begin{quote}Cited.\\end{quote}\n\\begin{theorem}[Gauss] All.\n"
        "\nMore.\n\\end{theorem}"
    )

    assert blocks(source) == [
        ("paragraph", "Short."),
        ("quote", "Cited."),
        ("paragraph", "[Gauss] All."),
        ("paragraph", "More."),
    ]


def test_displayed_equations_stay_in_their_paragraph() -> None:
    source = "We have\n\\begin{equation}\na = b \\\\\n\\end{equation}\nfor all $x$, and \\[ c \\] too.\n\n$$d$$"

    assert blocks(source) == [("paragraph", source.partition("\n\n")[0]), ("paragraph", "$$d$$")]


def test_commands_without_words_are_no_paragraphs() -> None:
    source = (
        "\\maketitle\n\\tableofcontents\n\n\\label{x}\n\n% words\n\n\\input{chapter}\n\n\\newpage\n\n\\bibliography{refs}\n"
    )

    assert blocks(source) == []


@pytest.mark.parametrize("newline", ["\r\n"])
def test_any_newline_gives_the_same_blocks(newline: str) -> None:
    source = "\\section{A}\n\nOne\ntwo.\n\nThree.\n\\begin{verbatim}\n  x\n\\end{verbatim}\n"

    assert blocks(source.replace("\n", newline)) == [(kind, text.replace("\n", newline)) for kind, text in blocks(source)]


@pytest.mark.parametrize(
    "source",
    [
        "\\section{" * 40_000,
        "{" * 300_000,
        "\\section[" * 40_000,
        "\\begin{itemize}" * 30_000,
        "\\begin{itemize}" + "\\item " * 60_000,
        "\\verb|" * 50_000,
        "\\begin{tabular}{c}" * 20_000,
        "\\par[" * 60_000,
        ("\\section" + " " * 100) * 3_000,
        "\\caption{" * 40_000,
        "\\begin{lstlisting}[" * 20_000,
        "\\section{\\texorpdfstring{" + "{a}" * 3000 + "}",
        "\\title{" * 40_000,
        "\\section{a}" * 30_000,
        "\\" * 300_000,
        "\n \n" * 100_000,
        "\\label{" * 40_000 + "\n\n",
        "\\begin{frame}" * 30_000,
    ],
)
def test_hostile_sources_take_linear_time(source: str) -> None:
    began = time.process_time()
    read(source)

    assert time.process_time() - began < 5


MARKS = [
    "\\section{",
    "\\begin{itemize}",
    "\\end{itemize}",
    "\\item ",
    "\\begin{tabular}{c}",
    "\\end{tabular}",
    "\\\\",
    "{",
    "}",
    "%",
    "\n\n",
    "\n",
    "\\begin{verbatim}",
    "\\end{verbatim}",
    "\\caption{",
    "\\begin{document}",
    "\\end{document}",
    "[",
    "]",
    "$",
    "word ",
    "\\title{",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=5))).map("".join))
def test_any_text_gives_sound_blocks(source: str) -> None:
    parsed = read(source)

    for block in parsed.blocks:
        text = parsed.text[slice(*block.span)]
        assert text.strip() == (text.lstrip() if block.kind == "code" else text)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora of ../shared are not here")
def test_mutated_papers_of_the_corpus_give_sound_blocks() -> None:
    rng = random.Random(3)
    for path in sorted((CORPUS / "open" / "tex").rglob("*.tex")):
        source = path.read_text("utf-8")
        assert read(source).blocks, path
        for _ in range(5):
            at = rng.randrange(len(source))
            read(source[at : at + 5000] + source[: rng.randrange(3000)])
