"""What runs leave beside the tables, in `_runs/<run_id>/`: a journal while they work, an intent to commit, a record when done.

A journal entry names files that were written and the documents in them. Should the run die, the next one with the same
recipe takes over what is finished (`plan.adopt`). The intent says what each table's commit will be, so that whoever comes
next can complete a publication that was cut off between two tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow.fs as pafs

from chunkmill.io.parquet import Written
from chunkmill.io.storage import Place, answered, delete, filesystem, locate, new_file, passed_on

FOLDER = "_runs"
INTENT = "commit.json"
RECORD = "run.json"


class PartRow(NamedTuple):
    """A row of a document that came in parts: one of them by its `number`, or the document's own (-1) with how many there are.

    `error`: why a part failed, its kind and what was wrong; empty for one that did not. `chunks` are the part's.
    """

    doc_id: str
    source: str
    number: int
    total: int
    chunks: int
    error: tuple[str, ...]


class Entry(NamedTuple):
    """One write of a run: its files, and of each source in them how many documents, and how many it has in all (-1: more
    may follow). `touched` sources turned out to be unchanged; `kept` ones can't be read now and were before.
    """

    recipe: str
    files: tuple[Written, ...]
    sources: Mapping[str, tuple[int, int]]
    statuses: Mapping[str, int]
    examples: Mapping[str, str]
    chunks: int
    size_bytes: int
    touched: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    parts: tuple[PartRow, ...] = ()


class Step(NamedTuple):
    """The commit of one table: what comes in, what goes, and the version it was planned on (None: no table yet).

    `spare` files were written on the way, and no version refers to them.
    """

    expected: int | None
    add: tuple[Written, ...]
    remove: tuple[str, ...]
    spare: tuple[str, ...] = ()


class Intent(NamedTuple):
    """All commits of a run, in order, by table."""

    recipe: str
    steps: Mapping[str, Step]


def note(root: str, run_id: str, entry: Entry) -> None:
    """Add an entry to a run's journal."""
    _write(root, run_id, f"{uuid4().hex}.json", as_json(entry))


def as_json(entry: Entry) -> dict[str, Any]:
    """The entry as values of JSON; `entry` reads it."""
    return entry._asdict() | {"files": [f._asdict() for f in entry.files]}


def journal(root: str, run_id: str) -> list[Entry]:
    """The entries of a run's journal, in an order that doesn't change."""
    names = sorted(name for name in _names(root, run_id).get(run_id, ()) if name not in (INTENT, RECORD))
    return [entry(found) for name in names if (found := _read(root, run_id, name))]


def entry(known: Mapping[str, Any]) -> Entry:
    """The entry that `_asdict` and JSON made of one."""
    files = tuple(Written(**f) for f in known["files"])
    sources = {uri: (n, total) for uri, (n, total) in known["sources"].items()}
    lists = {name: tuple(known[name]) for name in ("touched", "kept")}
    parts = tuple(PartRow(*row)._replace(error=tuple(row[-1])) for row in known.get("parts", ()))
    return Entry(**{**known, "files": files, "sources": sources, "parts": parts, **lists})


def intend(root: str, run_id: str, intent: Intent) -> None:
    """Say what is about to be committed."""
    steps = {name: s._asdict() | {"add": [f._asdict() for f in s.add]} for name, s in intent.steps.items()}
    _write(root, run_id, INTENT, {"recipe": intent.recipe, "steps": steps})


def intent(root: str, run_id: str) -> Intent | None:
    """What a run was about to commit; None where it had not come so far."""
    found = _read(root, run_id, INTENT)
    if not found:
        return None
    steps = {
        name: Step(s["expected"], tuple(Written(**f) for f in s["add"]), tuple(s["remove"]), tuple(s["spare"]))
        for name, s in found["steps"].items()
    }
    return Intent(found["recipe"], steps)


def finish(root: str, run_id: str, record: Mapping[str, Any]) -> None:
    """Leave the run's record and take its journal and intent away."""
    _write(root, run_id, RECORD, record)
    forget(root, run_id)


def forget(root: str, run_id: str, *, journal: bool = True, intent: bool = True) -> None:
    """Delete a run's journal and intent, or one of them. Its record stays."""
    kept = {RECORD: True, INTENT: not intent}
    delete(_folder(root, run_id), [name for name in _names(root, run_id).get(run_id, ()) if not kept.get(name, not journal)])


def records(root: str) -> list[dict[str, Any]]:
    """The records of all runs that ended, in the order of their versions: of two at once the first to begin may end last."""
    found = [_read(root, run_id, RECORD) for run_id, names in sorted(_names(root).items()) if RECORD in names]
    return sorted(filter(None, found), key=lambda record: (record.get("versions") or {}).get("chunks", -1))


def ended(root: str) -> set[str]:
    """The runs that ended: what they wrote and no version names is of no use."""
    return {run_id for run_id, names in _names(root).items() if set(names) == {RECORD}}


def unfinished(root: str) -> list[str]:
    """The runs that left a journal or an intent: still at work, or dead."""
    return [run_id for run_id, names in sorted(_names(root).items()) if set(names) - {RECORD}]


def _folder(root: str, run_id: str) -> Place:
    return locate(root).child(FOLDER).child(run_id)


def _names(root: str, run_id: str = "") -> dict[str, list[str]]:
    """What each run left (or just this one), in one listing however many there were."""
    place = locate(root).child(FOLDER)
    system, path = filesystem(_folder(root, run_id) if run_id else place)
    found: dict[str, list[str]] = {}
    with answered(place):
        infos = system.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
    for info in infos:
        if info.type == pafs.FileType.File and info.base_name.endswith(".json") and info.base_name[0] != ".":
            found.setdefault(info.path.rsplit("/", 2)[-2], []).append(info.base_name)
    return found


def _write(root: str, run_id: str, name: str, content: Mapping[str, Any]) -> None:
    with new_file(_folder(root, run_id).child(name)) as path, open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def _read(root: str, run_id: str, name: str) -> dict[str, Any]:
    """The content; {} where it is gone (another run may have ended meanwhile)."""
    system, path = filesystem(_folder(root, run_id).child(name))
    try:
        with system.open_input_stream(path) as file:
            found: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise passed_on(error, _folder(root, run_id).child(name), "can't be read") from error
    return found
