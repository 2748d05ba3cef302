"""A job file for a folder that was looked at: what is in it by format and size, and the settings that fit, with the reasons.

Only the listing is read. What is recommended is a start: `chunkmill preview` shows it on a file, `chunkmill plan` on all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkmill.chunkers.errors import ConfigError
from chunkmill.io.corpus import list_sources
from chunkmill.io.parsers.formats import extension, named
from chunkmill.io.schema import LISTING
from chunkmill.io.storage import locate
from chunkmill.jobs import config
from chunkmill.jobs.pages import counted, shown
from chunkmill.jobs.plan import datasets
from chunkmill.jobs.settings import DEFAULT_MODEL

UNKNOWN = "no known name"
PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./~+ -]*[A-Za-z0-9_./~+-]")
CLUTTER = {
    ".git": "a repository's history",
    "node_modules": "installed packages",
    ".venv": "a Python environment",
    "venv": "a Python environment",
    "__pycache__": "compiled Python",
    ".cache": "caches",
    "__MACOSX": "what macOS adds to archives",
}
MEDIA = {
    *("png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "tif", "tiff", "heic", "ttf", "otf", "woff", "woff2"),
    *("mp3", "wav", "ogg", "flac", "m4a", "mp4", "mov", "avi", "mkv", "webm"),
}
WITHOUT_TEXT = "files without text: pictures, sound, video, fonts"
LARGE = 1 << 30
ROWS = ("jsonl", "parquet")
HEADED = ("markdown", "html", "docx", "odt", "rst", "asciidoc", "latex", "epub", "notebook")
TABLES = ("csv", "xlsx", "ods")
MOST = 0.6  # of the bytes: enough to say that a corpus is of one kind


class Format(NamedTuple):
    """How much of a format there is."""

    name: str
    files: int
    size: int
    largest: int


class Look(NamedTuple):
    """What a folder holds."""

    source: str
    formats: Sequence[Format]
    clutter: Sequence[str]  # patterns of what is better left out
    unreadable: int

    @property
    def files(self) -> int:
        """All files but those that can't be read."""
        return sum(f.files for f in self.formats)

    def share(self, *names: str) -> float:
        """Of the bytes, those of these formats."""
        return sum(f.size for f in self.formats if f.name in names) / max(1, sum(f.size for f in self.formats))

    def has(self, *names: str) -> bool:
        """Whether any of these formats is there."""
        return any(f.name in names for f in self.formats)


def look(source: str) -> Look:
    """Lists a folder or a bucket. Raises ConfigError where there is nothing."""
    listing = pa.concat_tables([LISTING.empty_table(), *list_sources(source)])
    if not len(listing):
        raise ConfigError(f"{source!r} holds no files; init looks at a folder (or s3:// URI) of documents")
    roots = datasets(listing["uri"])
    base = str(locate(source)).rstrip("/")
    sizes, clutter, unreadable = dict[str, list[int]](), set[str](), 0
    for uri, size, error in zip(*(listing[name].to_pylist() for name in ("uri", "size", "error_kind")), strict=True):
        if error or any(uri.startswith(f"{root}/") for root in roots):
            unreadable += bool(error)
        elif pattern := left_out(uri.removeprefix(base)):
            clutter.add(pattern)
        else:
            sizes.setdefault(named(uri) or UNKNOWN, []).append(size or 0)
    formats = [Format(name, len(of), sum(of), max(of)) for name, of in sizes.items()]
    return Look(source, sorted(formats, key=lambda f: (-f.size, f.name)), sorted(clutter), unreadable)


def left_out(path: str) -> str:
    """The pattern by which a file is better left out; "" for one to take."""
    if found := CLUTTER.keys() & path.split("/")[:-1]:
        return f"{min(found)}/"
    return f"*.{extension(path)}" if extension(path) in MEDIA and not named(path) else ""


def output_for(source: str) -> str:
    """Where the dataset goes if nothing else is said: beside the folder."""
    bare = source.rstrip("/")
    return f"{bare}-chunks" if re.search(r"[^./~]", bare.rpartition("/")[2]) and bare != "s3:" else "../chunks"


# What is recommended


class Choice(NamedTuple):
    """A setting and why."""

    value: str
    why: str


def strategy(found: Look) -> Choice:
    """The strategy that fits what there is most of."""
    kinds = {
        "code": (("code",), "mostly source code: whole functions and classes"),
        "table": (TABLES, "mostly tables: groups of rows, each behind its header"),
        "page": (("pptx", "odp"), "mostly slides: one slide after another"),
        "turns": (("subtitles",), "mostly dialogue: whole turns"),
        "section": (HEADED, "mostly documents with headings: sections stay together while they fit"),
        "recursive": (("text", "pdf", "rtf", "jsonl", "parquet"), "mostly plain text: paragraphs, then lines, then sentences"),
    }
    for name, (formats, why) in kinds.items():
        if found.share(*formats) >= MOST:
            return Choice(name, why)
    return Choice("auto", "formats of several kinds: each document is cut by its own structure")


def context(found: Look) -> Choice:
    """Whether headings are embedded with the chunks."""
    if found.has(*HEADED, "pdf"):
        return Choice("headings", "the headings a chunk stands under are embedded with it; none: the text alone")
    return Choice("none", "nothing here has headings")


def extras(found: Look, embeds: bool) -> list[str]:
    """The extras that the job needs and that are not installed."""
    wanted = {
        "embed": embeds and not find_spec("sentence_transformers"),
        "code": found.has("code") and not find_spec("tree_sitter"),
    }
    return [name for name, missing in wanted.items() if missing]


# The file


def job_file(found: Look, output: str, path: str) -> str:
    """The job file, to be written at `path`: commented, and valid for `config.load` on this machine."""
    text = "\n".join(_lines(found, output, path, embeds=True)) + "\n"
    return text if _valid(text) else "\n".join(_lines(found, output, path, embeds=False)) + "\n"


def _valid(text: str) -> bool:
    try:
        config.load(yaml.safe_load(text))
    except ConfigError:
        return False
    return True


def _lines(found: Look, output: str, path: str, *, embeds: bool) -> Iterator[str]:
    yield f"# Made by `chunkmill init` from a look at {counted(found.files, 'file')}. What is commented out is the default."
    yield f"# chunkmill preview FILE {quoted(path)}   how a file would be cut"
    yield f"# chunkmill plan {quoted(path)}           what a run would do"
    yield f"# chunkmill run {quoted(path)}"
    yield "#"
    yield from (f"# {line}" for line in _found(found))
    yield ""
    yield f"input: {quoted(found.source)}"
    yield f"output: {quoted(output)}  # a folder of its own, or s3://; a second run does only what is new or changed"
    yield from _patterns(found)
    yield from ("", "chunk:")
    cut, around = strategy(found), context(found)
    yield f"  strategy: {cut.value}  # {cut.why}"
    yield "  size: 512  # the most a chunk may hold, in tokens; smaller finds more exactly, larger brings more context"
    yield "  overlap: 12.5%  # repeated from the chunk before; 0 for none"
    yield f"  context: {around.value}  # {around.why}"
    yield from ("", *_embedding(embeds), *_formats(found), *_run(found))


def _found(found: Look) -> Iterator[str]:
    for f in found.formats:
        yield f"{f.name}: {counted(f.files, 'file')}, {size(f.size)}, the largest {size(f.largest)}"
    if found.unreadable:
        yield unreadable(found)


def unreadable(found: Look) -> str:
    """That not everything could be looked at."""
    return f"{found.unreadable:,} of the files and folders can't be read now: a run records the reason of each"


def _patterns(found: Look) -> Iterator[str]:
    if found.clutter:
        yield f"exclude: {json.dumps(found.clutter)}  # {_clutter(found)}"
    else:
        yield '# exclude: ["drafts/"]  # patterns as in .gitignore; include: ["*.md"] takes only these'


def _clutter(found: Look) -> str:
    return ", ".join(dict.fromkeys(CLUTTER.get(name.rstrip("/"), WITHOUT_TEXT) for name in found.clutter))


def _embedding(embeds: bool) -> Iterator[str]:
    if embeds:
        yield "embed:  # `embed: null` writes chunks without vectors"
        yield f"  model: {DEFAULT_MODEL}  # a hub id or a local folder; small and fast, English"
        return
    yield "embed: null  # no vectors: the default model can't be had here. With one:"
    yield '# embed:  # pip install "chunkmill[embed]", and the model on this machine or reachable'
    yield f"#   model: {DEFAULT_MODEL}  # a hub id or a local folder"


def _formats(found: Look) -> Iterator[str]:
    lines = {
        "pdf": "pdf: {ocr: auto}  # pages without text are read by OCR, where tesseract is installed",
        **dict.fromkeys(ROWS, "{name}: {{text_column: text, id_column: id}}  # found by their usual names"),
        "csv": 'csv: {delimiter: ";"}  # found by looking at the first lines',
        "email": "email: {attachments: true}  # attachments are documents of their own",
    }
    known = [line.format(name=name) if name in ROWS else line for name, line in lines.items() if found.has(name)]
    if known:
        yield from ("", "# formats:", *(f"#   {line}" for line in known))


def _run(found: Look) -> Iterator[str]:
    yield ""
    largest = max((f.largest for f in found.formats), default=0)
    if largest > LARGE:
        yield from ("run:", f"  max_file_bytes: {largest * 2}  # the largest file has {size(largest)}; the default is 1 GiB")
    else:
        yield "# run:"
    yield "#   max_error_share: 0.1  # a run in which more documents fail publishes nothing; default: 1.0"
    yield "#   keep_text: true  # the documents' text stays in the dataset, so that a new strategy needs no parsing"


def quoted(text: str) -> str:
    """A text as a value of YAML."""
    plain = PLAIN.fullmatch(text) and yaml.safe_load(f"x: {text}") == {"x": text}
    return text if plain else json.dumps(text)


def size(number: int) -> str:
    """`1.2 MB`, as people say it."""
    value, units = float(number), iter(("bytes", "kB", "MB", "GB"))
    name = next(units)
    for larger in units:
        if value < 1000:
            break
        value, name = value / 1000, larger
    return f"{value:,.0f} {name}" if name == "bytes" or value >= 100 else f"{value:,.1f} {name}"


def write(path: str, text: str, *, force: bool) -> None:
    """Write the file. Raises ConfigError where there is one, unless it may be replaced."""
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path!r} is there already; give another --output, or --force to replace it") from None
    except OSError as error:
        raise ConfigError(f"--output {path!r} can't be written: {error.strerror}") from None


def as_json(found: Look, path: str, text: str) -> dict[str, Any]:
    """What was seen and written, for machines."""
    formats = [f._asdict() for f in found.formats]
    return {"output": path, "formats": formats, "exclude": list(found.clutter), "unreadable": found.unreadable, "job": text}


def show(found: Look, path: str, missing: Sequence[str], console: Console) -> None:
    """What was seen, and what to do next."""
    grid = Table("format", "files", "size", "largest", box=None, pad_edge=False, header_style="bold")
    for f in found.formats:
        grid.add_row(f.name, f"{f.files:,}", size(f.size), size(f.largest))
    console.print(grid, highlight=False)
    if found.unreadable:
        console.print(Text(unreadable(found)), soft_wrap=True)
    console.print(Text(f"wrote {shown(path)}: look at it, then run `chunkmill plan {shown(path)}`"), soft_wrap=True)
    for name in missing:
        console.print(Text(f'it needs: pip install "chunkmill[{name}]"'), soft_wrap=True)
