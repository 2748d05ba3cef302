"""The error tree: whose fault it is decides what happens next."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

TRANSIENT = ("unreadable", "vanished", "internal", "unanswered")  # kinds of failure that may pass: not of the content


class ChunkmillError(Exception):
    """Anything Chunkmill raises on purpose."""


class ConfigError(ChunkmillError):
    """The configuration is wrong; raised before any document is read. Exit code 2."""


class DocumentError(ChunkmillError):
    """One document can't be processed: a row in the ledger with this `kind`; the run goes on.

    `metadata` is what is known of it all the same.
    """

    def __init__(self, kind: str, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class RunError(ChunkmillError):
    """The run as a whole can't go on; what is finished stays finished. Exit code 1."""


def choose(what: str, value: object, valid: Iterable[str]) -> ConfigError:
    """The error for a name that is not one of the valid ones; names the nearest."""
    names = sorted(valid)
    near = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ConfigError(f"{what} is {value!r}{hint}; choose one of: {', '.join(names)}")


P = ParamSpec("P")
T = TypeVar("T")


def attempt(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | DocumentError:
    """What the work gives, or what went wrong with this one document. The row boundary: nothing else catches everything.

    The user's and the run's errors pass through.
    """
    try:
        return work(*args, **options)
    except DocumentError as error:
        return error
    except (ConfigError, RunError):
        raise
    except MemoryError:
        return DocumentError("too_large", "not enough memory for this document")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return DocumentError("internal", f"{type(error).__name__}: {error} ({where.name}, {where.filename}:{where.lineno})")
