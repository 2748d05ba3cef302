"""Notebooks: cells in order, blocks of their Markdown in place, outputs within bounds."""

from __future__ import annotations

import base64
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, parse
from chunkmill.io.parsers.notebook import MOST_OUTPUT
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
Cell = dict[str, Any]


def picture(format: str = "png") -> str:
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 20, 20))
    pixmap.clear_with(200)
    return base64.b64encode(pixmap.tobytes(format)).decode()


def markdown(source: str | list[str], **more: object) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


def code(source: str, *outputs: Cell) -> Cell:
    return {"cell_type": "code", "source": source, "outputs": list(outputs), "execution_count": 1, "metadata": {}}


def stream(text: str | list[str], name: str = "stdout") -> Cell:
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: object) -> Cell:
    return {
        "output_type": "execute_result",
        "data": {key.replace("_", "/"): value for key, value in data.items()},
        "metadata": {},
    }


def source(*cells: Cell, **metadata: object) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)}).encode()


def read(data: bytes, **options: object) -> Parsed:
    (parsed,) = parse(data, "a.ipynb", {"notebook": options})
    assert_sound(parsed)
    return parsed


def blocks(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def test_cells_stand_in_order_with_the_blocks_of_their_markdown() -> None:
    parsed = read(
        source(
            markdown(["# One `x`\n", "\n", "Words.\n", "- a\n- b"]),
            code("\n  x = 1\n\ny = 2\n\n"),
            markdown("## Two\n|a|\n|-|\n|b|"),
        )
    )

    assert parsed.text == "# One `x`\n\nWords.\n- a\n- b\n\n  x = 1\n\ny = 2\n\n## Two\n|a|\n|-|\n|b|"
    assert blocks(parsed) == [
        ("heading", "# One `x`"),
        ("paragraph", "Words."),
        ("list", "- a\n- b"),
        ("code", "  x = 1\n\ny = 2"),
        ("heading", "## Two"),
        ("table", "|a|\n|-|\n|b|"),
    ]
    assert [(block.level, block.title) for block in parsed.blocks if block.kind == "heading"] == [(1, "One x"), (2, "Two")]
    assert [parsed.text[slice(*part)] for part in parsed.blocks[5].parts] == ["|a|", "|b|"]


def test_an_unclosed_fence_ends_with_its_cell() -> None:
    assert blocks(read(source(markdown("```\nopen"), markdown("# Next"))))[-1] == ("heading", "# Next")


def test_what_a_cell_printed_and_answered_is_kept_as_text() -> None:
    outputs = (
        stream(["10%\r", "100%\n", "\x1b[31mred\x1b[0m\n"]),
        stream("warning!", "stderr"),
        result(text_plain=["   a\n", "0  1"], text_html="<table>"),
        {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\x1b[0mTRACE"]},
    )

    assert blocks(read(source(code("f()", *outputs)))) == [
        ("code", "f()"),
        ("code", "100%\nred\n   a\n0  1\nZeroDivisionError: division by zero"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        {"image_png": picture(), "text_plain": "<Figure size 640x480 with 1 Axes>"},
        {"application_vnd.plotly.v1+json": {"data": []}, "text_plain": "Figure({...})"},
        {"text_html": "<b>page</b>"},
        {"text_html": "<b>page</b>", "text_plain": "<IPython.core.display.HTML object>"},
        {"text_plain": "[<matplotlib.lines.Line2D at 0x7f>]"},
    ],
)
def test_pictures_pages_and_widgets_leave_no_words(data: dict[str, object]) -> None:
    assert read(source(code("plot()", result(**data)))).text == "plot()"


def test_outputs_are_cut_at_a_line_and_the_cut_is_said() -> None:
    parsed = read(source(code("print()", stream("line of output\n" * 1000), stream("never")), code("1", stream("x" * 5000))))

    first, second = (text for kind, text in blocks(parsed) if text[0] in "lx")
    assert MOST_OUTPUT - 15 < len(first) <= MOST_OUTPUT
    assert set(first.split("\n")) == {"line of output"}
    assert second == "x" * MOST_OUTPUT
    assert parsed.metadata["warning"] == "the outputs of 2 cells were cut to 2,000 characters"


def test_embedded_base64_is_no_text() -> None:
    data = "A" * 400

    parsed = read(
        source(
            markdown(
                f"![plot](data:image/png;base64,{data}) and ![b](attachment:b.png)",
                attachments={"b.png": {"image/png": picture()}},
            )
        )
    )

    assert parsed.text == "![plot](data:image/png;base64,…) and ![b](attachment:b.png)"
    assert parsed.images == ()


def test_pictures_are_given_when_asked_for() -> None:
    cells = (
        markdown("![b](attachment:b.png)", attachments={"b.png": {"image/png": picture()}}),
        code("plot()", result(image_jpeg=picture("jpeg"), text_plain="<Figure>")),
        code("plot()", result(image_png="bm90IGEgcGljdHVyZQ==")),
    )

    parsed = read(source(*cells), images=True)

    assert [image.span.start for image in parsed.images] == [22, 30]
    assert parsed.metadata["warning"] == "1 pictures could not be read"


def test_metadata_of_the_notebook() -> None:
    metadata = read(
        source(
            markdown("x"),
            code("1"),
            kernelspec={"language": "R", "name": "ir"},
            title="A  title",
            authors=[{"name": "A B"}, {"name": "C"}],
        )
    ).metadata

    assert metadata == {"title": "A title", "author": "A B, C", "language": "r", "cells": "2", "encoding": "utf-8"}


def test_front_matter_in_a_first_raw_cell_is_metadata_and_other_raw_cells_are_paragraphs() -> None:
    raw = {"cell_type": "raw", "source": "---\ntitle: Q\n---\n"}

    parsed = read(source(raw, {"cell_type": "raw", "source": "a\n\nb"}))

    assert parsed.metadata["title"] == "Q"
    assert blocks(parsed) == [("paragraph", "a"), ("paragraph", "b")]


def test_notebooks_of_version_3_are_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Old ", "heading"]},
        {"cell_type": "code", "input": "x = 42", "language": "python", "outputs": [{"output_type": "pyout", "text": "42"}]},
        {"cell_type": "code", "input": "p", "outputs": [{"output_type": "display_data", "png": picture(), "text": "<Figure>"}]},
    ]
    parsed = read(json.dumps({"nbformat": 3, "worksheets": [{"cells": cells[:2]}, {"cells": cells[2:]}]}).encode())

    assert blocks(parsed) == [("heading", "Old heading"), ("code", "x = 42"), ("code", "42"), ("code", "p")]
    assert parsed.blocks[0].level == 2


def test_lone_surrogates_and_odd_cells_do_no_harm() -> None:
    parsed = read(source(markdown("a \ud800 b"), {}, markdown(None), code("c"), {"cell_type": "code", "outputs": {"x": 1}}))  # type: ignore[arg-type]

    assert parsed.text == "a \ufffd b\n\nc"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"cells": [', "not JSON"),
        (b"[1]", "not an object"),
        (b'{"hello": 1}', "no cells; it has: hello"),
        (b'{"cells": 5}', "no cells"),
        (b"words", "not JSON"),
    ],
)
def test_what_is_no_notebook_is_corrupt(data: bytes, says: str) -> None:
    with pytest.raises(DocumentError, match=says) as caught:
        read(data)
    assert caught.value.kind == "corrupt"


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DocumentError) as caught:
        read(b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert caught.value.kind in ("too_deep", "corrupt")


def test_mutated_notebooks_give_sound_documents_or_a_document_error() -> None:
    rng = random.Random(2)
    seed = source(
        markdown("# A\n\n- b\n"),
        code("x", stream("out\n"), result(text_plain="1", image_png=picture())),
        kernelspec={"language": "p"},
    )
    for _ in range(600):
        data = bytearray(seed)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 4)] = rng.choice([b"", b"[", b"{}", b'"', b"null", b"5", b"\xff", b"\\ud800"])
        with contextlib.suppress(DocumentError):
            for parsed in parse(bytes(data), "a.ipynb", {"notebook": {"images": True}}):
                assert_sound(parsed)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpora of ../shared are not here")
def test_notebooks_of_the_corpus_hold_no_base64() -> None:
    for path in (CORPUS / "open" / "ipynb").rglob("*.ipynb"):
        parsed = read(path.read_bytes())

        assert "iVBORw0KGgo" not in parsed.text, path
        assert parsed.blocks, path
