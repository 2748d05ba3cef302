"""What a recipe's hash stands for, kept beside the tables as `_recipes/<hash>.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chunkmill.chunkers.errors import ConfigError, DocumentError
from chunkmill.io.corpus import fetch
from chunkmill.io.storage import Place, locate, new_file


def save(root: str, recipe: str, description: Mapping[str, Any]) -> None:
    """Write the description of a recipe; the same one may be written again."""
    with new_file(_place(root, recipe)) as path, open(path, "w", encoding="utf-8") as file:
        json.dump(description, file, indent=2, sort_keys=True)


def load(root: str, recipe: str) -> dict[str, Any]:
    """The description of a recipe of this dataset. ConfigError where there is none."""
    place = _place(root, recipe)
    try:
        found: dict[str, Any] = json.loads(fetch(str(place)))
    except DocumentError as error:
        raise ConfigError(f"{root} has no recipe {recipe}: {place} can't be read ({error.kind})") from error
    return found


def _place(root: str, recipe: str) -> Place:
    return locate(root).child("_recipes").child(f"{recipe}.json")
