"""Chunkmill: exact chunks and vectors of a corpus, as a batch job on Ray or as a function call."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chunkmill.chunkers.api import chunk as chunk
    from chunkmill.chunkers.base import Block as Block
    from chunkmill.chunkers.base import Complete as Complete
    from chunkmill.chunkers.base import Document as Document
    from chunkmill.chunkers.base import Embed as Embed
    from chunkmill.chunkers.base import Piece as Piece
    from chunkmill.chunkers.base import Span as Span
    from chunkmill.chunkers.errors import ChunkmillError as ChunkmillError
    from chunkmill.chunkers.errors import ConfigError as ConfigError
    from chunkmill.chunkers.errors import DocumentError as DocumentError
    from chunkmill.chunkers.errors import RunError as RunError
    from chunkmill.chunkers.finish import Chunk as Chunk
    from chunkmill.io.parsers import Parsed as Parsed
    from chunkmill.io.reading import parse as parse
    from chunkmill.jobs.config import load as load_job  # noqa: F401  # for type checkers
    from chunkmill.jobs.pipeline import run as run
    from chunkmill.jobs.search import search as search

__version__ = "0.1.0"

_PUBLIC = {
    "Block": "chunkers.base",
    "Chunk": "chunkers.finish",
    "ChunkmillError": "chunkers.errors",
    "Complete": "chunkers.base",
    "ConfigError": "chunkers.errors",
    "Document": "chunkers.base",
    "DocumentError": "chunkers.errors",
    "Embed": "chunkers.base",
    "Parsed": "io.parsers",
    "Piece": "chunkers.base",
    "RunError": "chunkers.errors",
    "Span": "chunkers.base",
    "chunk": "chunkers.api",
    "load_job": "jobs.config:load",
    "parse": "io.reading",
    "run": "jobs.pipeline",
    "search": "jobs.search",
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first used, so that `chunk` needs neither Ray nor torch."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'chunkmill' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(f"chunkmill.{module}"), attribute or name)
