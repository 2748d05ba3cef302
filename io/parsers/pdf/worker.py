"""The process that reads a range of pages (`python -m chunkmill.io.parsers.pdf.worker`): order and PDF on its input."""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import struct
import sys

from chunkmill.io.parsers.pdf.ranges import packed
from chunkmill.io.parsers.pdf.sheets import Options, opened, sheets


def main() -> None:
    """Read the order, write a line per sheet."""
    _die_with_parent()
    size = struct.unpack("<Q", sys.stdin.buffer.read(8))[0]
    start, stop, options = json.loads(sys.stdin.buffer.read(size))
    asked = Options(*options)
    pdf = opened(sys.stdin.buffer.read(), asked.engine)
    for sheet in sheets(pdf, range(start, stop), asked):
        sys.stdout.buffer.write(packed(sheet) + b"\n")
    sys.stdout.buffer.flush()


def _die_with_parent() -> None:
    """On Linux the kernel ends this process when the one that started it is gone, however that went."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    main()
