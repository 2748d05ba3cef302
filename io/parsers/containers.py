"""Archives and compressed files: what is inside is parsed as if it lay there itself. Nothing is ever written to disk.

A compressed file is the document it holds (`a.txt.gz` keeps its name); a member of an archive is a document of its own.
Links, devices and folders in a TAR are not followed or made; a name that climbs out (`../x`) is just a name.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Member
from chunkmill.io.parsers.formats import base
from chunkmill.io.parsers.limits import check_inflated
from chunkmill.io.parsers.zipped import Package

_SUFFIXES = (".gz", ".gzip", ".bz2", ".zst", ".zstd", ".xz")
_TARS = (".tgz", ".tbz", ".tbz2", ".txz", ".tzst")
_IGNORED = ("__MACOSX/", ".DS_Store", "Thumbs.db", ".git/")
_STEP = 1 << 20


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Member]:
    """What the container holds, in its order."""
    if data.startswith((b"PK\3\4", b"PK\5\6")):
        yield from _zip(data)
    elif data[257:262] == b"ustar" or base(name).endswith(".tar"):
        yield from _tar(data)
    elif base(name).endswith(".zip"):
        raise DocumentError("corrupt", "named like a ZIP archive, but its beginning is missing or damaged")
    else:
        yield _unfolded(data, name)


def _unfolded(data: bytes, name: str) -> Member:
    """The one file in a compressed stream."""
    whole, trouble = inflate(data)
    if trouble and not whole:
        raise DocumentError("corrupt", trouble)
    return Member("", whole, alias=_inner_name(name), metadata={"warning": trouble} if trouble else {})


def _inner_name(name: str) -> str:
    """The name without its last ending; where that was none of ours, it is no hint and goes too."""
    lower = name.lower()
    if lower.endswith(_TARS):
        return str(PurePosixPath(name).with_suffix(".tar"))
    return (
        name[: -len(next(s for s in _SUFFIXES if lower.endswith(s)))] if lower.endswith(_SUFFIXES) else base(name) + ".unfolded"
    )


def inflate(data: bytes) -> tuple[bytes, str]:
    """The inflated bytes of all streams, and what was wrong ("" for nothing). What could be read before damage counts.

    Raises `too_large` where they unfold to more than the limits allow.
    """
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstandard(data)
    out: list[bytes] = []
    size, rest, trouble = 0, data, ""
    decoder = _decoder(rest)
    while rest or not decoder.eof:
        try:
            part = decoder.decompress(rest, _STEP) if rest or not getattr(decoder, "needs_input", True) else b""
        except (zlib.error, OSError, lzma.LZMAError, ValueError, EOFError) as error:
            trouble = f"damaged after {size:,} bytes: {error}"
            break
        size += len(part)
        check_inflated(size, len(data), "the compressed file")
        out.append(part)
        rest = getattr(decoder, "unconsumed_tail", b"")
        if decoder.eof:
            rest = decoder.unused_data
            following = _decoder(rest, quiet=True)
            if following is None:
                trouble = f"{len(rest):,} bytes after the end were left out" if rest.strip(b"\0") else ""
                break
            decoder = following
        elif not part and not rest:
            trouble = f"cut off after {size:,} bytes"
            break
    return b"".join(out), trouble


def _zstandard(data: bytes) -> tuple[bytes, str]:
    out: list[bytes] = []
    size = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while part := stream.read(_STEP):
                size += len(part)
                check_inflated(size, len(data), "the compressed file")
                out.append(part)
    except (OSError, pa.ArrowException) as error:
        return b"".join(out), f"damaged or cut off after {size:,} bytes: {error}"
    return b"".join(out), ""


def _zip(data: bytes) -> Iterator[Member]:
    package = Package(data, "the ZIP archive")
    members = [*package.members()]
    for number, (name, read) in enumerate(members, 1):
        if not name.endswith("/") and _wanted(name):
            yield _member(name, read)._replace(read=number / len(members))
    for warning in package.warnings:
        yield Member("(the rest)", b"", error=DocumentError("corrupt", warning))


def _tar(data: bytes) -> Iterator[Member]:
    size, found = 0, 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in archive:
                found += 1
                if not info.isreg() or not _wanted(info.name):
                    continue
                size += info.size
                check_inflated(size, len(data), "the TAR archive")
                file = archive.extractfile(info)
                read = min(1.0, (info.offset_data + info.size) / len(data))
                yield Member(info.name, file.read() if file else b"", read=read)
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        if not found:
            raise DocumentError("corrupt", f"the TAR archive can't be read: {error}") from error
        yield Member(
            "(the rest)", b"", error=DocumentError("corrupt", f"the TAR archive is damaged after {found} members: {error}")
        )


def _member(name: str, read: Callable[[], bytes]) -> Member:
    try:
        return Member(name, read())
    except DocumentError as error:
        if error.kind == "too_large":
            raise
        return Member(name, b"", error=error)


def _wanted(name: str) -> bool:
    """Whether it is no leftover of an operating system or a version control."""
    return not any(name.startswith(skip) or f"/{skip}" in f"/{name}" for skip in _IGNORED)


def _decoder(data: bytes, *, quiet: bool = False) -> Any:
    """A streaming decoder for the kind of compression that the bytes begin with."""
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor(memlimit=256 << 20)
    if quiet:
        return None
    raise DocumentError("corrupt", "the beginning of the compressed data is damaged")
