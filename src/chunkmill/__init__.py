"""Chunkmill: exact chunks and vectors of a corpus, as a batch job on Ray or as a function call."""

__version__ = "0.1.0"
