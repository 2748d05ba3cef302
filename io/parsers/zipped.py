"""Files that are ZIP archives inside (office formats, EPUB): their parts, read within limits and never written anywhere."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.limits import check_inflated

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, OverflowError)
_STEP = 1 << 20
_FAILURES = 100  # headers without a whole part, after which no more are looked for
_LOCAL = b"PK\3\4"
# A part's own header: signature, version, flags, method, time, date, CRC, sizes packed and not, lengths of name and extra.
_HEADER = struct.Struct("<4s5H3I2H")
_DIRECTORY = struct.Struct("<4s6H3I5H2I")  # the entry of the directory at the end
_END = struct.Struct("<4s4H2IH")


class Package:
    """The parts of a ZIP archive by name. Raises `corrupt`, `encrypted` or `too_large` (DocumentError) and nothing else.

    Where the directory at the end is cut off or damaged, the parts that are whole are found by their own headers. `warnings`
    say so.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self._what, self._packed, self._inflated = what, len(data), 0
        self.warnings: list[str] = []
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            self._zip = self._salvaged(data, error)
        self._names = {_named(info): info for info in self._zip.infolist()}

    def _salvaged(self, data: bytes, error: BaseException) -> zipfile.ZipFile:
        entries = [*_entries(data, self._what)]
        if not data.startswith(b"PK"):
            raise DocumentError("corrupt", f"{self._what} can't be opened: it is no ZIP archive") from error
        if not entries:
            raise DocumentError(
                "corrupt", f"{self._what} is cut off or damaged: it has no directory, and no part of it is whole"
            ) from error
        self.warnings.append(f"{self._what} is cut off or damaged at its end; {len(entries)} parts are whole")
        directory = b"".join(entries)
        count = min(len(entries), 0xFFFF)
        end = _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), len(data), 0)
        try:
            return zipfile.ZipFile(io.BytesIO(data + directory + end))
        except _BROKEN as second:
            raise DocumentError("corrupt", f"{self._what} can't be opened: {second}") from second

    @property
    def names(self) -> Sequence[str]:
        """The names of the parts, as in the directory of the archive."""
        return list(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def warn(self, what: str) -> None:
        """Add this to the warnings, once."""
        if what not in self.warnings:
            self.warnings.append(what)

    def read(self, name: str) -> bytes:
        """The part's bytes, of several of its name the last one's. Raises `corrupt` where it is missing."""
        info = self._names.get(name)
        if info is None:
            raise DocumentError("corrupt", f"{self._what} has no part {name!r}")
        return self._read(name, info)

    def members(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """The name of every part, and what reads it; there may be several of a name."""
        for info in self._zip.infolist():
            name = _named(info)
            yield name, partial(self._read, name, info)

    def _read(self, name: str, info: zipfile.ZipInfo) -> bytes:
        if info.flag_bits & 1:
            raise DocumentError("encrypted", f"{name!r} in {self._what} is under a password")
        parts: list[bytes] = []
        try:
            with self._zip.open(info) as file:
                while part := file.read(_STEP):
                    self._inflated += len(part)
                    check_inflated(self._inflated, self._packed, self._what)
                    parts.append(part)
        except _BROKEN as error:
            raise DocumentError("corrupt", f"{name!r} in {self._what} can't be read: {error}") from error
        return b"".join(parts)


def _named(info: zipfile.ZipInfo) -> str:
    return info.filename.replace("\\", "/").lstrip("/")


def _entries(data: bytes, what: str) -> Iterator[bytes]:
    """For each part that is whole, by its own header, what a directory would say of it."""
    at = failed = 0
    while (at := data.find(_LOCAL, at)) >= 0 and at + _HEADER.size <= len(data) and failed < _FAILURES:
        _, version, flags, method, time, date, crc, packed, size, name, extra = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size + name + extra
        if flags & 8 and not packed:
            packed, size, crc = _measured(data, start, what) if method == 8 else (-1, 0, 0)
        if packed < 0 or start + packed > len(data):
            at, failed = at + len(_LOCAL), failed + 1
            continue
        fields = (20, version, flags, method, time, date, crc, packed, size, name, 0, 0, 0, 0, 0, at)
        yield _DIRECTORY.pack(b"PK\1\2", *fields) + data[at + _HEADER.size : at + _HEADER.size + name]
        at = start + packed


def _measured(data: bytes, start: int, what: str) -> tuple[int, int, int]:
    """The sizes packed and unpacked, and the CRC, of a deflated part whose header leaves them out; -1 where it isn't whole."""
    decoder, size, crc, rest, at = zlib.decompressobj(-15), 0, 0, b"", start
    with suppress(zlib.error):
        while not decoder.eof and (rest or at < len(data)):
            if not rest:
                rest = data[at : at + _STEP]
                at += len(rest)
            part = decoder.decompress(rest, _STEP)
            size, crc, rest = size + len(part), zlib.crc32(part, crc), decoder.unconsumed_tail
            check_inflated(size, len(data), what)
        if decoder.eof:
            return at - len(decoder.unused_data) - start, size, crc
    return -1, 0, 0
