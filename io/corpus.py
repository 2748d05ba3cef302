"""Sources: what a corpus holds, and the bytes of one of its files.

Listing and reading are apart so that a plan costs one listing, and a file that vanishes in between is one document's
trouble. A URI is the raw absolute path or `s3://bucket/key`: never escaped, so that no name is ambiguous.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from botocore import exceptions as boto

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.io.schema import LISTING
from chunkmill.io.storage import (
    BAD_CREDENTIALS,
    NO_ANSWER,
    NO_CREDENTIALS,
    S3_ERRORS,
    Place,
    client,
    error_code,
    locate,
    trouble,
)

TABLE_ROWS = 10_000
BODY_ATTEMPTS = 3  # botocore retries a request, not a body that breaks off
PATIENCE_S, PAUSE_S = 120.0, 5.0  # how long to wait for an endpoint that doesn't answer at all, after botocore's own tries
TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

# uri, etag, size, modified (µs or a datetime), error_kind, error
Row: TypeAlias = tuple[str, str, int | None, int | datetime | None, str | None, str | None]


class Filter(NamedTuple):
    """Which relative paths to list; folders end in a slash."""

    include: re.Pattern[str] | None
    exclude: re.Pattern[str] | None

    def excludes(self, path: str) -> bool:
        """Whether the path, or all of the folder, is left out on purpose."""
        return self.exclude is not None and self.exclude.fullmatch(path) is not None

    def keeps(self, path: str) -> bool:
        """Whether a file is to be listed."""
        return (self.include is None or self.include.fullmatch(path) is not None) and not self.excludes(path)


def list_sources(location: str, *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Iterator[pa.Table]:
    """Tables of schema LISTING, in the order of their URIs' code points: all of the location's files, or an error.

    A file or folder that can't be read, and a name that can't be used, is a row with an `error_kind`. Patterns work as
    in .gitignore: `*` and `?` stay within a name, `**` crosses folders, a pattern without a slash fits a name at any
    depth, and one that fits a folder fits all that is in it. A link to a file is followed inside the location;
    a link to a folder inside is not, as the folder is listed itself.

    Raises ConfigError where there is nothing to list, RunError if the listing breaks off.
    """
    place = locate(location)
    chosen = Filter(_matcher(include), _matcher(exclude))
    return _tables(_objects(place, chosen) if place.bucket else _files(place.path, chosen))


def fetch(uri: str, *, limit_bytes: int | None = None) -> bytes:
    """A listed file's bytes. DocumentError: vanished, unreadable, unsupported, or too_large (seen before it is read)."""
    return _fetch_object(locate(uri), limit_bytes) if uri.startswith("s3://") else _fetch_file(uri, limit_bytes)


def _tables(rows: Iterator[Row]) -> Iterator[pa.Table]:
    while batch := list(islice(rows, TABLE_ROWS)):
        columns = zip(LISTING, zip(*batch, strict=True), strict=True)
        yield pa.Table.from_arrays([pa.array(values, field.type) for field, values in columns], schema=LISTING)


def _matcher(patterns: Sequence[str]) -> re.Pattern[str] | None:
    try:
        return re.compile("|".join(map(_regex, patterns)), re.DOTALL) if patterns else None
    except re.error as error:
        raise ConfigError(f"the patterns {list(patterns)} can't be read: {error}") from error


def _regex(pattern: str) -> str:
    body = pattern.strip("/")
    if not body:
        raise ConfigError(f"the pattern {pattern!r} is empty; write one such as '*.pdf' or 'drafts/'")
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    inside = "/.*" if pattern.endswith("/") else "(?:/.*)?"
    return f"{anywhere}{''.join(map(_token, TOKEN.findall(body)))}{inside}"


def _token(token: str) -> str:
    if len(token) > 2 and token[0] == "[":
        inner = token[1:-1].replace("\\", r"\\").replace("[", r"\[")
        return f"(?!/)[{'^' + inner[1:] if inner[0] == '!' else inner}]"
    return WILDCARDS.get(token) or re.escape(token)


# Local disk


def _files(root: str, chosen: Filter) -> Iterator[Row]:
    try:
        found = os.stat(root)
    except FileNotFoundError as error:
        raise ConfigError(f"{root!r} does not exist{_neighbours(root)}") from error
    except OSError as error:
        raise ConfigError(f"{root!r} can't be listed: {error.strerror}") from error
    if stat.S_ISDIR(found.st_mode):
        _check_folder(root)
        return _walk(root, chosen)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{root!r} is neither a file nor a folder")
    return iter([_file(root, found)] if chosen.keeps(os.path.basename(root)) else [])


def _check_folder(root: str) -> None:
    try:
        os.scandir(root).close()
    except OSError as error:
        raise ConfigError(f"{root!r} can't be listed: {error.strerror}; run as a user who may") from error


def _walk(root: str, chosen: Filter) -> Iterator[Row]:
    """Depth first over a stack of what is still to be seen, the next one last."""
    start = len(os.path.join(root, ""))
    real_root = os.path.realpath(root)
    stack = _entries(root)
    while stack:
        entry = stack.pop()
        if isinstance(entry, tuple):
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            if not chosen.excludes(entry.path[start:] + "/"):
                stack += _entries(entry.path)
        elif chosen.keeps(entry.path[start:]) and (row := _entry(entry, real_root)):
            yield row


def _entries(folder: str) -> list[os.DirEntry[str] | Row]:
    """What the folder holds, the first one last; a row of trouble if it can't be read."""
    try:
        with os.scandir(folder) as entries:
            return [*sorted(entries, key=_order, reverse=True)]
    except (FileNotFoundError, NotADirectoryError):  # gone since its parent was read
        return []
    except PermissionError as error:
        return [_bad(folder, "unreadable", f"the folder can't be listed: {error.strerror}")]
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return [_bad(folder, "bad_path", "the path is too long to be opened")]
        raise RunError(f"the listing broke off: {error}") from error


def _order(entry: os.DirEntry[str]) -> str:
    """A folder sorts as the prefix of its content, as in S3."""
    return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name


def _entry(entry: os.DirEntry[str], real_root: str) -> Row | None:
    """The row of anything but a folder; None if it is gone or listed elsewhere."""
    path = entry.path
    if not _is_text(path):
        return _bad(path, "bad_path", "the name is not UTF-8")
    try:
        return _link(path, real_root) if entry.is_symlink() else _file(path, entry.stat(follow_symlinks=False))
    except FileNotFoundError:  # gone since the folder was read
        return None
    except OSError as error:
        return _bad(path, "unreadable", str(error.strerror))


def _link(path: str, real_root: str) -> Row | None:
    try:
        target = os.path.realpath(path, strict=True)
    except OSError as error:
        kind = "unreadable" if isinstance(error, PermissionError) else "bad_path"
        return _bad(path, kind, f"a link that leads nowhere: {error.strerror}")
    if not _is_inside(target, real_root):
        return _bad(
            path, "bad_path", f"a link that leaves the location, to {os.fsencode(target).decode(errors='backslashreplace')!r}"
        )
    if not os.path.isdir(target):
        return _file(path, os.stat(path))
    if _is_inside(os.path.realpath(os.path.dirname(path)), target):
        return _bad(path, "bad_path", "a link to a folder it is in")
    return None  # the folder is listed under its own name


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _file(path: str, found: os.stat_result) -> Row:
    if not stat.S_ISREG(found.st_mode):
        return _bad(path, "unsupported", "not a regular file")
    if not _is_text(path):
        return _bad(path, "bad_path", "the name is not UTF-8")
    return path, "", found.st_size, found.st_mtime_ns // 1000, None, None


def _bad(path: str, kind: str, message: str) -> Row:
    return os.fsencode(path).decode(errors="backslashreplace"), "", None, None, kind, message


def _is_text(path: str) -> bool:
    """Whether the name's bytes are UTF-8: the others come as lone surrogates."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _neighbours(path: str) -> str:
    """The nearest folder that exists and what there looks like the wanted name, as the end of a message."""
    folder, name = os.path.split(path)
    while not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    try:
        return f"; {folder!r} does{_near(name, os.listdir(folder))}"
    except OSError:
        return f"; {folder!r} does"


def _near(name: str, others: Iterable[str]) -> str:
    folded = {other.casefold(): other for other in others}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3)]
    return f" and holds {', '.join(map(repr, close))}" if close else ""


def _fetch_file(path: str, limit_bytes: int | None) -> bytes:
    try:
        # Not to wait for the other end, should the name now be a pipe's.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG((found := os.fstat(file.fileno())).st_mode):
                raise DocumentError("unsupported", f"{path!r} is not a regular file")
            _check_size(path, found.st_size, limit_bytes)
            data = file.read() if limit_bytes is None else file.read(limit_bytes + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DocumentError("vanished", f"{path!r} is gone since it was listed") from error
    except IsADirectoryError as error:
        raise DocumentError("unsupported", f"{path!r} is now a folder") from error
    except (OSError, ValueError) as error:
        raise DocumentError("unreadable", str(error)) from error
    _check_size(path, len(data), limit_bytes)
    return data


def _check_size(uri: str, size: int, limit_bytes: int | None) -> None:
    if limit_bytes is not None and size > limit_bytes:
        raise DocumentError("too_large", f"{uri!r} has more than {limit_bytes:,} bytes")


# S3


def _objects(place: Place, chosen: Filter) -> Iterator[Row]:
    """The key itself, then all keys in the folder of that name."""
    seen = 0
    try:
        for item in _items(place):
            seen += 1
            key = item["Key"]
            is_folder = key.endswith("/") and not item["Size"]
            if not is_folder and chosen.keeps(_relative(key, place.path)):
                uri = str(Place(place.bucket, key))
                yield uri, item["ETag"].strip('"'), item["Size"], item["LastModified"], None, None
    except S3_ERRORS as error:
        known = trouble(error, place)
        if seen:
            raise RunError(f"the listing broke off after {seen:,} objects, nothing was concluded: {known}") from error
        raise known from error
    if not seen and place.path.strip("/"):
        raise ConfigError(f"there is nothing at {place}{_near_keys(place)}")


def _items(place: Place) -> Iterator[dict[str, Any]]:
    s3 = client()
    folder = place.path if place.path.endswith("/") or not place.path else place.path + "/"
    if folder != place.path:  # of all keys that begin with a key, the key itself comes first
        first = s3.list_objects_v2(Bucket=place.bucket, Prefix=place.path, MaxKeys=1).get("Contents", [])
        yield from (item for item in first if item["Key"] == place.path)
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=folder):
        yield from page.get("Contents", [])


def _relative(key: str, path: str) -> str:
    """The key as seen from the location; its last name if it is the location."""
    folder = path if path.endswith("/") or not path else path + "/"
    return key.removeprefix(folder) if key.startswith(folder) else key.rpartition("/")[2]


def _near_keys(place: Place) -> str:
    folder, slash, name = place.path.rstrip("/").rpartition("/")
    try:
        page = client().list_objects_v2(Bucket=place.bucket, Prefix=folder + slash, Delimiter="/")
    except S3_ERRORS:
        return ""
    keys = [item["Prefix"] for item in page.get("CommonPrefixes", [])] + [item["Key"] for item in page.get("Contents", [])]
    parent = Place(place.bucket, folder)
    if near := _near(name, [key.removeprefix(folder + slash).rstrip("/") for key in keys]):
        return f"; {parent} exists{near}"
    return "; check the prefix"


def _fetch_object(place: Place, limit_bytes: int | None) -> bytes:
    for left in reversed(range(BODY_ATTEMPTS)):
        body = _open_object(place, limit_bytes)
        try:
            return bytes(body.read())
        except boto.BotoCoreError as error:
            if not left:
                raise DocumentError("unreadable", f"{place}: {error}") from error
    raise AssertionError("unreachable")


def _open_object(place: Place, limit_bytes: int | None) -> Any:
    until = time.monotonic() + PATIENCE_S
    while (answer := _answer(place, until)) is None:
        time.sleep(PAUSE_S)
    try:
        _check_size(str(place), answer["ContentLength"], limit_bytes)
    except DocumentError:
        answer["Body"].close()
        raise
    return answer["Body"]


def _answer(place: Place, until: float) -> Any:
    """What S3 says; None where nothing answers before this moment. RunError for what isn't this object's trouble."""
    try:
        return client().get_object(Bucket=place.bucket, Key=place.path)
    except S3_ERRORS as error:
        silent = isinstance(error, NO_ANSWER)
        if silent and time.monotonic() < until:
            return None
        if silent or isinstance(error, NO_CREDENTIALS) or error_code(error) in BAD_CREDENTIALS:
            raise RunError(f"{trouble(error, place)}; what is finished stays finished, run it again") from error
        if error_code(error) in ("NoSuchKey", "404"):
            raise DocumentError("vanished", f"{place} is gone since it was listed") from error
        gone = error_code(error) == "NoSuchBucket"
        raise DocumentError("vanished" if gone else "unreadable", str(trouble(error, place))) from error
