"""The table of strategies: adding one is a class and a line here."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from chunkmill.chunkers.adaptive import Adaptive
from chunkmill.chunkers.agentic import Agentic
from chunkmill.chunkers.agentic_groups import AgenticGroups
from chunkmill.chunkers.auto import Auto
from chunkmill.chunkers.base import NOTHING, Chunker, Complete, Embed
from chunkmill.chunkers.clusters import Clusters
from chunkmill.chunkers.code import Code
from chunkmill.chunkers.errors import ConfigError, choose
from chunkmill.chunkers.fixed import Fixed
from chunkmill.chunkers.hierarchical import Hierarchical, Level
from chunkmill.chunkers.late import Late
from chunkmill.chunkers.llm_boundaries import LlmBoundaries
from chunkmill.chunkers.markers import Markers
from chunkmill.chunkers.modality import Modality
from chunkmill.chunkers.optimal import Optimal
from chunkmill.chunkers.page import Page
from chunkmill.chunkers.paragraph import Paragraph
from chunkmill.chunkers.propositions import Propositions
from chunkmill.chunkers.records import Records
from chunkmill.chunkers.recursive import Recursive
from chunkmill.chunkers.section import Section
from chunkmill.chunkers.semantic import Semantic
from chunkmill.chunkers.sentence import Sentence, WholeDocument
from chunkmill.chunkers.sliding import Sliding
from chunkmill.chunkers.summaries import Summaries
from chunkmill.chunkers.table import Table
from chunkmill.chunkers.topic import Topic
from chunkmill.chunkers.turns import Turns

SHARED = ("strategy", "size", "overlap", "unit", "context", "min_size")  # what every strategy takes


class Entry(NamedTuple):
    """A strategy's class and what it does, in one line."""

    cls: type
    describes: str


STRATEGIES: dict[str, Entry] = {
    "adaptive": Entry(Adaptive, "paragraphs packed to a size that follows their density: dense text in small chunks"),
    "agentic": Entry(Agentic, "as a language model chooses for each document, by its outline and samples; else `auto`"),
    "agentic_groups": Entry(AgenticGroups, "propositions, gathered by a language model under titles with summaries"),
    "auto": Entry(Auto, "chosen for each document by its structure: whole, by headings, code, tables, slides, or recursive"),
    "clusters": Entry(Clusters, "`optimal` with a term for meaning: sentences that are alike stay together; exact"),
    "code": Entry(Code, "along the syntax tree: whole definitions with what is above them, small neighbours packed"),
    "document": Entry(WholeDocument, "the whole document as one chunk where it fits, else split at its strongest seams"),
    "fixed": Entry(Fixed, "windows of exactly `size` units"),
    "hierarchical": Entry(Hierarchical, "levels of any strategies, each inside the pieces of the one above"),
    "late": Entry(Late, "any `cut`; each vector is pooled from the model's states for the whole document"),
    "llm_boundaries": Entry(LlmBoundaries, "between sentences where a language model says that the topic turns"),
    "markers": Entry(Markers, "sections that begin with a marker: given ones, or lines that look like a title"),
    "modality": Entry(Modality, "tables and figures apart from the text, each kind cut in its own way"),
    "optimal": Entry(Optimal, "the split of least cost: sizes near a target, cuts at strong seams; exact"),
    "page": Entry(Page, "one page, packed or split"),
    "paragraph": Entry(Paragraph, "whole paragraphs, as many as fit"),
    "propositions": Entry(Propositions, "statements that stand alone, written by a language model, each with its evidence"),
    "records": Entry(Records, "records of JSON, JSON Lines, CSV or XML; a large one between its members, with its path"),
    "recursive": Entry(Recursive, "by the strongest separator there is: blank line, line, sentence, word; neighbours packed"),
    "section": Entry(Section, "by headings; sub-sections stay together while they fit"),
    "semantic": Entry(Semantic, "between sentences where the meaning turns, by their vectors"),
    "sentence": Entry(Sentence, "whole sentences, as many as fit"),
    "sliding": Entry(Sliding, "a window that slides over units or sentences by a step"),
    "summaries": Entry(Summaries, "a language model's summary or key points of each section: a level above chunks"),
    "table": Entry(Table, "groups of rows, each behind the table's header"),
    "topic": Entry(Topic, "runs of sentences on one topic, by k-means over their vectors or by LDA"),
    "turns": Entry(Turns, "whole turns of a dialogue, a mail thread or subtitles, as many as fit"),
}


def needs(cls: type) -> str:
    """What a strategy asks for, in words: `nothing`, `embedding model` or `language model`."""
    names = {Embed: "embedding model", Complete: "language model"}
    declared = getattr(cls, "needs", NOTHING)
    asked = declared if isinstance(declared, frozenset) else cls().needs  # one that is made of others needs what they need
    return ", ".join(names[kind] for kind in names if kind in asked) or "nothing"


def strategy(name: str, options: Mapping[str, Any] | None = None) -> Chunker:
    """The strategy of this name, or the class at `package.module:Class`, with its fields set from the options.

    Raises ConfigError for an unknown name, an unknown option or a value of the wrong type.
    """
    cls = _imported(name) if ":" in name else _registered(name)
    fields = get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls) if f.init]
    values = {}
    for key, value in (options or {}).items():
        if key not in known:
            raise _unknown(key, name, known)
        values[key] = _checked(f"chunk.{key}", value, fields[key])
    return cls(**values)  # type: ignore[no-any-return]


def _registered(name: str) -> Any:
    if name not in STRATEGIES:
        raise choose("chunk.strategy", name, STRATEGIES)
    return STRATEGIES[name].cls


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"chunk.strategy is {name!r}, and that can't be imported: {error}") from error
    if not (dataclasses.is_dataclass(cls) and callable(cls) and hasattr(cls, "needs")):
        raise ConfigError(
            f"chunk.strategy is {name!r}, which is no strategy: it must be a frozen dataclass with "
            "`needs: ClassVar[frozenset[type]]` and `__call__(self, doc, budget)`"
        )
    return cls


def _unknown(key: str, name: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(key, [*known, *SHARED], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ConfigError(f"chunk.{key}: the strategy {name!r} has no such setting{hint}; it takes {', '.join([*known, *SHARED])}")


def _checked(key: str, value: Any, hint: Any) -> Any:
    """The value as the field's type wants it: lists become tuples, whole numbers pass as floats."""
    for option in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        origin = get_origin(option) or option
        if origin is Literal:
            if value in get_args(option):
                return value
        elif get_args(option)[:1] == (Level,) and isinstance(value, list | tuple):
            return tuple(_level(f"{key}[{i}]", v) for i, v in enumerate(value))
        elif origin is tuple and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
            return tuple(value)
        elif origin is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        elif isinstance(origin, type) and isinstance(value, origin) and isinstance(value, bool) == (origin is bool):
            return value
    raise ConfigError(f"{key} is {value!r}; it must be {_words(hint)}")


def _level(key: str, value: Any) -> Level:
    """A level out of `{strategy: …, size: …}` and, beside them, the strategy's own settings."""
    if isinstance(value, Level):
        return value
    if not isinstance(value, Mapping) or not {"strategy", "size"} <= value.keys():
        raise ConfigError(f"{key} is {value!r}; it must hold a strategy and its size, as {{strategy: sentence, size: 100}}")
    name, options = value["strategy"], {k: v for k, v in value.items() if k not in Level._fields}
    size, overlap = (_checked(f"{key}.{k}", value.get(k, 0), int) for k in ("size", "overlap"))
    return Level(strategy(_checked(f"{key}.strategy", name, str), options), size, overlap)


def _words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_words(h) for h in get_args(hint))
    if get_args(hint)[:1] == (Level,):
        return "a list of {strategy: …, size: …}"
    names = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        tuple: "a list of texts",
        type(None): "nothing",
    }
    return names.get(get_origin(hint) or hint, str(hint))
