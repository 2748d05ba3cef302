"""Files that are ZIP archives inside (office formats, EPUB): their parts, read within limits and never written anywhere."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.limits import check_inflated

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, OverflowError)
_STEP = 1 << 20


class Package:
    """The parts of a ZIP archive by name. Raises `corrupt`, `encrypted` or `too_large` (DocumentError) and nothing else."""

    def __init__(self, data: bytes, what: str) -> None:
        self._what, self._packed, self._inflated = what, len(data), 0
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise DocumentError("corrupt", f"{what} can't be opened: {error}") from error
        self._names = {info.filename.replace("\\", "/").lstrip("/"): info for info in self._zip.infolist()}

    @property
    def names(self) -> Sequence[str]:
        """The names of the parts, as in the directory of the archive."""
        return list(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        """The part's bytes. Raises `corrupt` where it is missing."""
        info = self._names.get(name)
        if info is None:
            raise DocumentError("corrupt", f"{self._what} has no part {name!r}")
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
