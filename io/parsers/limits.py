"""How much one source may unfold to, whatever it claims: settings of the run, with defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from chunkmill.chunkers.errors import DocumentError

FREE_BYTES = 32 << 20  # below this no ratio is suspicious: blank pages and repeated rows shrink a thousandfold


class Limits(NamedTuple):
    """`inflated_bytes` of one source in all, `ratio` to its own size above 32 MB, `depth` of containers and of markup."""

    inflated_bytes: int = 2 << 30
    ratio: int = 250
    containers: int = 4
    nesting: int = 2_000


_limits: ContextVar[Limits] = ContextVar("limits")


def limits() -> Limits:
    """The limits that hold here."""
    return _limits.get(Limits())


@contextmanager
def limited(to: Limits) -> Iterator[None]:
    """These limits hold inside."""
    token = _limits.set(to)
    try:
        yield
    finally:
        _limits.reset(token)


def check_inflated(inflated: int, packed: int, what: str) -> None:
    """Raise `too_large` where `packed` bytes have unfolded to more than is allowed."""
    allowed = limits()
    if inflated > allowed.inflated_bytes:
        raise DocumentError(
            "too_large", f"{what} unfolds to more than {allowed.inflated_bytes:,} bytes (run.max_inflated_bytes)"
        )
    if inflated > FREE_BYTES and inflated > packed * allowed.ratio:
        raise DocumentError("too_large", f"{what} unfolds to more than {allowed.ratio} times its {packed:,} bytes, as bombs do")
