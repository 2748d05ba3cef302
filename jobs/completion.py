"""What the shell completes after an option: loaded only then, as the tables bring numpy along."""

from __future__ import annotations


def strategy_names(start: str) -> list[str]:
    """The strategies whose names begin so."""
    from chunkmill.chunkers.strategies import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(start)]


def search_modes(start: str) -> list[str]:
    """The ways to search whose names begin so."""
    from chunkmill.jobs.ranking import MODES

    return [name for name in MODES if name.startswith(start)]
