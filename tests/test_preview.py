"""A preview shows what a run would do, starts nothing, and its page is safe to open whatever the document says."""

import itertools
import json
import re
import sys

import pymupdf
import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from browser import FOUND, WHY, Browser
from chunkmill.chunkers.api import chunk
from chunkmill.chunkers.base import Span
from chunkmill.chunkers.errors import ConfigError
from chunkmill.io.facsimile import facsimiles, lines, placed
from chunkmill.jobs import cli, pages, preview, previewpage
from chunkmill.jobs.search import Hit
from test_cli import chunkmill

TEXT = "\n\n".join(
    f"# Part {i}\n\n" + f"The keeper climbs the tower {i} times and trims the wick at dusk. " * 6 for i in range(6)
)
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> ' & \"\n"
    "turned \u202eround\u202c, bell \x07, colour \x1b[31m, tag \U000e0041, zero\u200bwidth, \u2066isolate\u2069\n\n"
    "שלום עולם, זהו מבחן של טקסט.\n\nlone\rreturn, \r\nend. ]]> <!-- comment\n"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tower.md"
    path.write_text(TEXT)
    return path


def looked(path, compare=None, documents=5, **chunk_settings):
    given = {"chunk": {"size": 60, "overlap": 8} | chunk_settings, "embed": None}
    return preview.preview(str(path), preview.jobs(str(path), None, given, compare), documents)


def command(arguments, monkeypatch, capsys):
    """What the command prints, in this process."""
    monkeypatch.setattr(sys, "argv", ["chunkmill", *arguments])
    with pytest.raises(SystemExit) as done:
        cli.main()
    out = capsys.readouterr()
    assert not done.value.code, out.err
    return out.out


def test_it_works_where_there_is_no_ray_and_no_torch(file):
    without = "import sys; sys.modules['ray'] = sys.modules['torch'] = None"

    done = chunkmill("preview", str(file), "--size", "60", "--no-embed", code=without)

    assert done.returncode == 0, done.stderr
    assert re.search(r"── 2 · \d+ · [\d,]+–[\d,]+ · the first \d+ characters repeat · Part 0", done.stdout)


def test_the_chunks_are_those_of_the_library_call(file, monkeypatch, capsys):
    arguments = ["preview", str(file), "--size", "60", "--overlap", "8", "--strategy", "sentence", "--no-embed", "--json"]

    (seen,) = json.loads(command(arguments, monkeypatch, capsys))

    expected = [(c.start, c.end, c.n_tokens, c.text) for c in chunk(TEXT, "sentence", size=60, overlap=8)]
    assert [(c["start"], c["end"], c["n_tokens"], c["text"]) for c in seen["cuts"][0]["chunks"]] == expected


def test_without_the_extra_sizes_are_counted_by_the_default_tokenizer(file):
    missing = "import sys; sys.modules['torch'] = sys.modules['sentence_transformers'] = None"

    done = chunkmill("preview", str(file), code=missing)
    semantic = chunkmill("preview", str(file), "--strategy", "semantic", code=missing)

    assert (done.returncode, semantic.returncode) == (0, 2)
    assert "cl100k_base" in done.stdout
    assert 'pip install "chunkmill[embed]"' in semantic.stderr


def test_a_strategy_that_asks_the_model_gets_it(file, offline_model):
    given = {"chunk": {"strategy": "semantic", "size": 60, "overlap": 0}}

    (seen,) = preview.preview(str(file), preview.jobs(str(file), None, given), 1)

    assert len(seen.cuts[0].leaves) > 5
    assert preview.unit(seen.cuts[0].job) == "tokens of all-MiniLM-L6-v2"


def test_flags_lie_over_a_job_file_and_another_can_be_compared(file, tmp_path):
    (tmp_path / "a.yaml").write_text("input: x\noutput: y\nembed: null\nchunk: {strategy: section, size: 50}\n")
    (tmp_path / "b.yaml").write_text("input: x\noutput: y\nembed: null\nchunk: {strategy: fixed, size: 40}\n")

    jobs = preview.jobs(str(file), str(tmp_path / "a.yaml"), {"chunk": {"size": 70}}, str(tmp_path / "b.yaml"))

    assert [(j.chunk.strategy, j.chunk.size, j.input) for j in jobs] == [("section", 70, str(file)), ("fixed", 40, str(file))]


def test_another_strategy_is_compared_under_the_same_shared_settings(file):
    (seen,) = looked(file, "sentence", strategy="section", depth=1)

    first, second = seen.cuts
    assert (second.job.chunk.strategy, second.job.chunk.size, second.job.chunk.overlap) == ("sentence", 60, 8)
    assert preview.shared(first, first) == len(first.leaves) - 1
    assert 0 < preview.shared(first, second) <= len(second.leaves) - 1


def test_records_are_documents_of_their_own_and_failures_are_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "a", "text": "first"}\n{"id": "b", "text": ""}\nnot json\n{"id": "c", "text": "x"}\n'
    )

    out = command(["preview", str(tmp_path / "rows.jsonl"), "--no-embed", "--documents", "3"], monkeypatch, capsys)

    assert [line.rpartition("/")[2].split()[0] for line in out.splitlines() if str(tmp_path) in line] == [
        "rows.jsonl#a",
        "rows.jsonl#b",
        "rows.jsonl#3",
    ]
    assert "failed, corrupt" in out


def test_a_source_that_holds_more_than_is_shown_says_so(tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "text": "first"}\n{"id": "b", "text": "second"}\n')
    arguments = ["preview", str(tmp_path / "rows.jsonl"), "--no-embed"]

    part, whole = (command([*arguments, "--documents", n], monkeypatch, capsys) for n in ("1", "2"))
    (seen,) = preview.preview(arguments[1], preview.jobs(arguments[1], None, {"embed": None}), 1)

    assert "The source holds more than 1 document: --documents" in part
    assert "--documents" not in whole
    assert "holds more than 1 document" in previewpage.html([seen], 0)


def test_an_empty_file_is_said_to_be_empty(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text(" \n")

    assert "empty: there is no text" in command(["preview", str(tmp_path / "a.txt"), "--no-embed"], monkeypatch, capsys)
    assert "Empty: there is no text" in previewpage.html(looked(tmp_path / "a.txt"), 0)


def test_a_failure_has_its_kind_once(tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing")
    seen = looked(tmp_path / "a.pdf")

    assert not preview.as_json(seen)[0]["cuts"][0]["error"]["message"].startswith("corrupt")
    assert "Failed, corrupt: " in previewpage.html(seen, 0)
    assert "corrupt: corrupt" not in previewpage.html(seen, 0)


def test_a_name_stays_on_its_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "a\nb\x1b.txt").write_text("One.")

    out = command(["preview", str(tmp_path / "a\nb\x1b.txt"), "--no-embed"], monkeypatch, capsys)

    assert "a⟨U+000A⟩b⟨U+001B⟩.txt  (text, 4 characters)" in out


def test_larger_chunks_are_counted_apart(file, monkeypatch, capsys):
    (seen,) = looked(file, strategy="hierarchical", size=60)

    parents = sum(c.level > 0 for c in seen.cuts[0].chunks)
    out = command(["preview", str(file), "--no-embed", "--strategy", "hierarchical"], monkeypatch, capsys)
    assert parents > 0
    assert re.search(r"\d+ \+ \d+ above", out)


def test_a_second_file_is_not_taken_for_a_job(file):
    with pytest.raises(ConfigError, match=r"'b.txt' is no job file .*one file"):
        preview.jobs(str(file), "b.txt", {})


@pytest.mark.parametrize(
    ("embed", "unit"),
    [
        ({"backend": "own:Letters", "model": "any"}, "tokens of cl100k_base"),
        ({"backend": "own:Letters", "model": "any", "tokenizer": "o200k_base"}, "tokens of o200k_base"),
        ({"backend": "openai", "model": "big", "base_url": "http://127.0.0.1:9/v1"}, "tokens of cl100k_base"),
    ],
)
def test_the_unit_is_what_the_backend_counts_by(file, tmp_path, monkeypatch, embed, unit):
    (tmp_path / "own.py").write_text("class Letters:\n    def embed(self, texts): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    (job,) = preview.jobs(str(file), None, {"embed": embed})

    assert preview.unit(job) == unit


def test_a_folder_is_refused_with_a_file_of_it(file):
    (file.parent / "zoo.txt").write_text("x")

    with pytest.raises(ConfigError, match=r"one file.*tower\.md"):
        looked(file.parent)


def test_an_object_on_s3_is_previewed(s3):
    bucket = s3.bucket({"docs/a b.txt": b"One sentence. Two sentences."})

    (seen,) = looked(f"s3://{bucket}/docs/a b.txt")

    assert [c.text for c in seen.cuts[0].chunks] == ["One sentence. Two sentences."]


def test_a_terminal_gets_no_control_character_of_a_document(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text(HOSTILE, newline="")

    out = command(["preview", str(tmp_path / "a.txt"), "--no-embed"], monkeypatch, capsys)

    assert not set(out) & {"\x07", "\x1b", "\r", "\u202e", "\u200b"}
    assert "⟨U+202E⟩round⟨U+202C⟩" in out


def test_a_plan_keeps_each_name_on_its_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a\nb\x1b[31m.txt").write_text("One.")

    out = command(
        ["plan", str(tmp_path / "docs"), str(tmp_path / "out"), "--no-embed", "--strategy", "auto"], monkeypatch, capsys
    )

    lines = [line for line in out.splitlines() if str(tmp_path) in line]
    assert len(lines) == 2
    assert all("a⟨U+000A⟩b⟨U+001B⟩[31m.txt" in line for line in lines)


@pytest.mark.parametrize(("number", "said"), [(0, "0 chunks"), (1, "1 chunk"), (2_000, "2,000 chunks")])
def test_one_is_singular(number, said):
    assert pages.counted(number, "chunk") == said


@given(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(1, n)))))
)
def test_stretches_tell_of_every_character_which_spans_hold_it(case):
    length, pairs = case
    spans = [Span(a, b) for a, b in pairs if a < b]

    found = previewpage.stretches(length, [[s] for s in spans])

    assert "".join("x" * (s.end - s.start) for s in found) == "x" * length
    for at in range(length):
        (stretch,) = [s for s in found if s.start <= at < s.end]
        assert sorted(stretch.held) == [i for i, s in enumerate(spans) if s.start <= at < s.end]


@pytest.mark.parametrize("text", ["", "x" * 20_000, "one two " * 4_000, "line\n" * 4_000, "para\n\n" * 3_000, "\n" * 9_000])
def test_rows_hold_the_whole_text(text):
    edges = [*previewpage._edges(text)]

    assert edges == sorted({0, *edges, len(text)}) or not text
    assert max((b - a for a, b in itertools.pairwise(edges)), default=0) <= previewpage.MOST_ROW


def test_hidden_characters_are_badges_and_the_rest_is_escaped():
    assert pages.marked("<b>\u202e\r\n&\r") == (
        '&lt;b&gt;<b class=x title="RIGHT-TO-LEFT OVERRIDE">U+202E</b>\n&amp;<b class=x title="control character">U+000D</b>\n'
    )
    assert pages.escape('"\x00') == "&quot;⟨U+0000⟩"
    assert "</script" not in pages.data("d", {"a": "</script><script>"}).removesuffix("</script>").partition(">")[2]


def pdf(path, turned=0):
    made = pymupdf.open()
    for number in range(3):
        page = made.new_page()
        page.insert_text((72, 90), f"Chapter {number}", fontsize=20)
        for i in range(12):
            page.insert_text(
                (72, 130 + 18 * i), f"The fog signal of page {number} sounds {i} times an hour in line w{number}x{i}."
            )
        page.set_rotation(turned)
    made.save(path)
    return path


@pytest.mark.parametrize("turned", [0, 90])
def test_the_boxes_of_a_span_are_where_its_words_stand_on_the_page(tmp_path, turned):
    (seen,) = looked(pdf(tmp_path / "fog.pdf", turned))
    doc = seen.cuts[0].doc
    sheets = facsimiles(seen.data, 2)
    words = placed(doc.text, previewpage._rows(doc), sheets)

    at = doc.text.index("w1x7")
    ((page, box),) = lines([w for w in words if at <= w.span.start < at + 4])

    with pymupdf.open(stream=seen.data) as made:
        (found,) = [w for w in made[1].get_text("words") if w[4] == "w1x7."]
    assert page == 2
    assert box == pytest.approx(found[:4], abs=1)
    assert len(words) > 0.95 * len([w for s in sheets for w in s.words])


def test_the_picture_of_a_huge_page_is_small(tmp_path):
    made = pymupdf.open()
    made.new_page(width=2_000_000, height=1_000_000).insert_text((72, 900_000), "far", fontsize=50_000)

    (sheet,) = facsimiles(made.tobytes(), 1)

    picture = pymupdf.Pixmap(sheet.png)
    assert (picture.width, picture.height) == (900, 450)


@pytest.mark.parametrize(("colour", "channels"), [((0, 0, 0), 1), ((0.5, 0.5, 0.5), 1), ((0, 0.4, 0), 3)])
def test_a_page_without_colour_is_drawn_in_grey(colour, channels):
    made = pymupdf.open()
    made.new_page().insert_text((72, 90), "The fog signal.", fontsize=20, color=colour)

    (sheet,) = facsimiles(made.tobytes(), 1)

    picture = pymupdf.Pixmap(sheet.png)
    assert picture.n == channels
    assert len(set(picture.samples)) > 2


def test_on_a_page_only_the_chunks_are_looked_for_that_it_holds(tmp_path, monkeypatch):
    inner, asked = previewpage._boxes, []
    monkeypatch.setattr(previewpage, "_boxes", lambda i, *more: asked.append(i) or inner(i, *more))
    (seen,) = looked(pdf(tmp_path / "fog.pdf"), "sentence", size=20)

    html = previewpage.html([seen], 3)

    leaves = seen.cuts[0].leaves
    assert len(leaves) > 10
    assert set(asked) == set(range(len(leaves)))
    assert len(asked) <= len(leaves) + 2  # one may go on over each end of a page
    assert len(set(re.findall(r'<rect class="k c\d ([^"]+)"', html))) == len(leaves)


def test_as_many_pages_are_drawn_as_asked_for(tmp_path, monkeypatch, capsys):
    path, out = pdf(tmp_path / "fog.pdf"), tmp_path / "out.html"

    command(["preview", str(path), "--no-embed", "--html", str(out), "--pages", "2"], monkeypatch, capsys)

    assert out.read_text().count("data:image/png;base64,") == 2
    assert "Page 3 (not drawn)" in out.read_text()


def test_a_page_that_cannot_be_written_is_said(file):
    with pytest.raises(ConfigError, match="can't be written"):
        pages.save(str(file / "below.html"), "")


# In a real browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not FOUND:
        pytest.skip(WHY)
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def opened(browser, path, html, **how):
    path.write_text(html, encoding="utf-8")
    browser.open(path, **how)
    assert [url for url in browser.asked if not url.startswith("data:")] == [path.as_uri()]
    assert browser.said == []


def test_a_hostile_text_is_shown_and_does_nothing(browser, tmp_path):
    path = tmp_path / "<img src=x onerror=document.title='owned'>.txt"
    path.write_text(HOSTILE, newline="")

    opened(browser, tmp_path / "page.html", previewpage.html(looked(path, "sentence", context="headings"), 3))

    assert browser.js("document.title") == f"Preview of {path.name}"
    assert browser.js("document.images.length + document.querySelectorAll('main script, main a[href^=http]').length") == 0
    shown = browser.js(
        "(t => { t.querySelectorAll('.n').forEach(n => n.remove());"
        " t.querySelectorAll('.x').forEach(x => x.replaceWith(String.fromCodePoint(parseInt(x.textContent.slice(2), 16))));"
        " return t.textContent; })(document.querySelector('.text'))"
    )
    assert shown == HOSTILE.replace("\r\n", "\n").replace("\r", "\r\n")


def test_pointing_at_a_chunk_shows_what_is_known_of_it(browser, file, tmp_path):
    (seen,) = looked(file, "sentence")
    chunks = seen.cuts[0].leaves

    opened(browser, tmp_path / "page.html", previewpage.html([seen], 0))
    browser.point(".d0a2:not(.twice)")

    said = browser.js("document.getElementById('panel').innerText")
    assert "A · chunk 3" in said
    for value in (chunks[2].id, f"{chunks[2].n_tokens} tokens of cl100k_base", " > ".join(chunks[2].heading_path)):
        assert value in said
    lit = browser.js("[...document.querySelectorAll('.lit')].map(e => e.className.includes('d0a2')).every(x => x)")
    assert lit is True


def test_text_of_two_chunks_names_both_and_the_keys_go_on(browser, file, tmp_path):
    opened(browser, tmp_path / "page.html", previewpage.html(looked(file), 0))

    browser.point(".twice.d0a1", click=True)
    both = browser.js("[...document.querySelectorAll('#held strong')].map(e => e.textContent).join()")
    browser.js("document.getElementById('on').click()")

    assert both == "chunk 1,chunk 2"
    assert browser.js("document.querySelector('#held strong').textContent") == "chunk 2"


def test_on_a_phone_the_keys_are_in_reach_however_much_is_known(browser, file, tmp_path):
    opened(browser, tmp_path / "page.html", previewpage.html(looked(file), 0), width=360, height=480)

    browser.point(".twice.d0a1", click=True)

    below = "document.getElementById('close').getBoundingClientRect().bottom"
    assert browser.js("document.getElementById('panel').scrollHeight") > 0.4 * 480
    assert browser.js(below) <= 480


def test_two_cuts_have_the_same_text_at_the_same_height(browser, file, tmp_path):
    opened(browser, tmp_path / "page.html", previewpage.html(looked(file, "fixed"), 0))

    rows = browser.js(
        "[...document.querySelectorAll('.row:not(.heads)')].map(row => [...row.querySelectorAll('.text')].map(text => {"
        " text.querySelectorAll('.n').forEach(n => n.remove()); "
        " return [text.getBoundingClientRect().top, text.textContent]; }))"
    )

    assert "".join(left[1] for left, _ in rows) == TEXT
    assert all(left == right for left, right in rows)


def test_boxes_on_a_page_light_up_with_their_text(browser, tmp_path):
    opened(browser, tmp_path / "page.html", previewpage.html(looked(pdf(tmp_path / "fog.pdf")), 2))

    browser.point("svg rect.d0a1")

    assert browser.js("document.querySelectorAll('.text .lit').length") > 0
    assert browser.js("document.querySelector('.sheet image').getBoundingClientRect().width") > 300


def test_a_long_document_stays_usable(browser, tmp_path):
    (tmp_path / "long.md").write_text(TEXT * 430)
    (seen,) = looked(tmp_path / "long.md")
    last = seen.cuts[0].leaves[-1].ordinal

    opened(browser, tmp_path / "page.html", previewpage.html([seen], 0))
    browser.point(f"#d0a{last}")

    assert len(seen.cuts[0].doc.text) > 1_000_000
    assert f"chunk {last + 1}" in browser.js("document.getElementById('panel').innerText")
    assert browser.js("performance.now()") < 20_000


# What all commands promise


def test_every_command_speaks_json():
    commands = typer.main.get_command(cli.app).commands

    assert {name for name, c in commands.items() if not any("--json" in p.opts for p in c.params)} <= {"submit"}


def test_search_prints_a_text_as_it_is(monkeypatch, capsys):
    hit = Hit(0.5, "id", "/a [b].txt", [], None, 0, 1, "[/red] a \x1b[31m b")
    monkeypatch.setattr("chunkmill.jobs.search.search", lambda *a, **k: [hit])

    out = command(["search", "dataset", "query"], monkeypatch, capsys)

    assert "/a [b].txt" in out
    assert "[/red] a ⟨U+001B⟩[31m b" in out


def test_the_shell_completes_commands(monkeypatch):
    asked = {"_CHUNKMILL_COMPLETE": "complete_bash", "COMP_WORDS": "chunkmill pre", "COMP_CWORD": "1"}
    code = f"import os, sys; os.environ |= {asked!r}; sys.argv[0] = 'chunkmill'"

    assert chunkmill(code=code).stdout.split() == ["preview"]
