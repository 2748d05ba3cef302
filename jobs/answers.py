"""What a language model has answered, kept in the dataset's folder as `_answers/`: a question is paid for once.

Files are written whole, under a name made of their content, and never changed, so that any number of workers and runs can
write at once and one that dies leaves no half of a file. Small files are put together, first written and then deleted: a reader
that misses a file looks again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from chunkmill.chunkers.identity import digest
from chunkmill.io.storage import delete, filesystem, locate, new_file

FOLDER = "_answers"
SCHEMA = pa.schema([("key", pa.string()), ("answer", pa.large_string()), ("tokens_in", pa.int32()), ("tokens_out", pa.int32())])
FLUSH, FLUSH_S = 256, 5.0  # so many answers, or those of so many seconds, are a file
MERGED = 16  # files of one writer that become one, and so many of those again
MOST_FILES = 32  # in the folder, before a reader puts them together
LOOKS = 5


class Answer(NamedTuple):
    """What a model said, and what it was."""

    text: str
    tokens_in: int
    tokens_out: int


class Answers:
    """The answers of a dataset by key: those that were there at the start, and those of this process. Safe for threads."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.lock = threading.Lock()
        self.keys, self.known = loaded(root)
        self.new: dict[str, Answer] = {}
        self.unsaved: dict[str, Answer] = {}
        self.since = 0.0
        self.files: list[list[str]] = []  # of this process, by how often they were put together

    def find(self, key: str) -> Answer | None:
        """The answer, if there is one. O(log n)."""
        if (found := self.new.get(key)) is not None:
            return found
        at = int(self.keys.searchsorted(key.encode()))
        if at == len(self.keys) or self.keys[at] != key.encode():
            return None
        return Answer(*(self.known.column(i)[at].as_py() for i in (1, 2, 3)))

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer; it is in a file within seconds."""
        with self.lock:
            self.since = self.since if self.unsaved else time.monotonic()
            self.new[key] = self.unsaved[key] = answer
            due = len(self.unsaved) >= FLUSH or time.monotonic() - self.since > FLUSH_S
        if due:
            self.flush()

    def flush(self) -> None:
        """Write what is in no file yet."""
        with self.lock:
            fresh, self.unsaved = self.unsaved, {}
            if not fresh:
                return
            name, rank = write(self.root, table(fresh)), 0
            while True:
                if rank == len(self.files):
                    self.files.append([])
                self.files[rank].append(name)
                if len(self.files[rank]) < MERGED:
                    return
                name, self.files[rank], rank = merge(self.root, self.files[rank]), [], rank + 1


def table(answers: dict[str, Answer]) -> pa.Table:
    """Answers as a table of SCHEMA, by key."""
    rows = sorted(answers.items())
    columns = [[key for key, _ in rows], *([a[i] for _, a in rows] for i in range(3))]
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def loaded(root: str) -> tuple[npt.NDArray[np.bytes_], pa.Table]:
    """All answers in the dataset's folder: sorted, distinct keys, and the rows in their order."""
    for left in reversed(range(LOOKS)):
        names = listed(root)
        found = {name: read(root, name) for name in names}
        if all(part is not None for part in found.values()) or not left:
            break
    parts = [part for part in found.values() if part is not None]
    if len(names) > MOST_FILES and len(parts) == len(names):
        merge(root, names)
    whole = pa.concat_tables([SCHEMA.empty_table(), *parts]).combine_chunks()
    keys = np.array(whole["key"].to_pylist(), "S32") if len(whole) else np.empty(0, "S32")
    keys, firsts = np.unique(keys, return_index=True)
    return keys, whole.take(pa.array(firsts)).combine_chunks()


def listed(root: str) -> list[str]:
    """The names of the files that hold answers."""
    system, path = filesystem(locate(root).child(FOLDER))
    infos = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    return sorted(i.base_name for i in infos if i.base_name.endswith(".parquet") and not i.base_name.startswith("."))


def read(root: str, name: str) -> pa.Table | None:
    """The answers of a file; None where it is gone, nothing where it is no such file (those answers are asked for again)."""
    system, path = filesystem(locate(root).child(FOLDER).child(name))
    try:
        with system.open_input_file(path) as file:
            return pq.read_table(file, schema=SCHEMA)
    except FileNotFoundError:
        return None
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return SCHEMA.empty_table()


def write(root: str, answers: pa.Table) -> str:
    """Write a file; its name, which is a hash of its keys and answers."""
    name = f"{digest(*answers['key'].to_pylist(), *answers['answer'].to_pylist())}.parquet"
    with new_file(locate(root).child(FOLDER).child(name)) as path:
        pq.write_table(answers, path, compression="zstd")
    return name


def merge(root: str, names: Sequence[str]) -> str:
    """Put files together; the name of the one that takes their place."""
    parts = [part for name in names if (part := read(root, name)) is not None]
    whole = pa.concat_tables([SCHEMA.empty_table(), *parts]).combine_chunks()
    firsts = np.unique(np.array(whole["key"].to_pylist(), "S32"), return_index=True)[1]
    name = write(root, whole.take(pa.array(firsts)))
    delete(locate(root).child(FOLDER), [n for n in names if n != name])
    return name
