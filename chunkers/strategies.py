"""The table of strategies: adding one is a class and a line here."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import re
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from chunkmill.chunkers.adaptive import Adaptive
from chunkmill.chunkers.agentic import Agentic
from chunkmill.chunkers.agentic_groups import AgenticGroups
from chunkmill.chunkers.auto import Auto
from chunkmill.chunkers.base import NOTHING, Chunker, Complete, Embed
from chunkmill.chunkers.clusters import Clusters
from chunkmill.chunkers.code import GRAMMARS, Code
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
from chunkmill.chunkers.presets import NAMES
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
_ISO_639_1 = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es et eu
fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn
ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os
pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt
tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
LANGUAGES = frozenset(_ISO_639_1.split())


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


def strategy(
    name: str, options: Mapping[str, Any] | None = None, key: str = "chunk.strategy", shared: Collection[str] = SHARED
) -> Chunker:
    """The strategy of this name, or the class at `package.module:Class`, with its fields set from the options.

    Raises ConfigError for an unknown name (of the setting `key`), an unknown option or a value of the wrong type.
    """
    cls = _imported(name, key) if ":" in name else _registered(name, key)
    fields = get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls) if f.init]
    values = {}
    for option, value in (options or {}).items():
        if option not in known:
            raise _unknown(option, name, [*known, *shared])
        values[option] = checked(f"chunk.{option}", value, fields[option])
        if option == "language" and ":" not in name:
            _check_language(values[option], code=cls is Code)
    return cls(**values)  # type: ignore[no-any-return]  # of the table


def _registered(name: str, key: str) -> Any:
    if name not in STRATEGIES:
        raise choose(key, name, STRATEGIES)
    return STRATEGIES[name].cls


def _imported(name: str, key: str) -> Any:
    cls = imported(name, key)
    if not (dataclasses.is_dataclass(cls) and callable(cls) and hasattr(cls, "needs")):
        raise ConfigError(
            f"{key} is {name!r}, which is no strategy: it must be a frozen dataclass with "
            "`needs: ClassVar[frozenset[type]]` and `__call__(self, doc, budget)`"
        )
    return cls


def _unknown(key: str, name: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ConfigError(f"chunk.{key}: the strategy {name!r} has no such setting{hint}; it takes {', '.join(known)}")


def imported(name: str, key: str) -> Any:
    """What is at `package.module:attribute`, the value of the setting `key`. Raises ConfigError."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{key} is {name!r}, and that can't be imported: {error}") from error


def _check_language(value: str, *, code: bool) -> None:
    if code and value and value.lower() not in (names := GRAMMARS | NAMES.keys()):
        raise choose("chunk.language", value, names)
    if not code and re.split("[-_]", value)[0].lower() not in LANGUAGES:
        raise ConfigError(f"chunk.language is {value!r}; give the text's two letters of ISO 639-1, as 'en' or 'de'")


def checked(key: str, value: Any, hint: Any) -> Any:
    """The value of the setting `key` as its type wants it: lists become tuples, whole numbers pass as floats."""
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
    size, overlap = (checked(f"{key}.{k}", value.get(k, 0), int) for k in ("size", "overlap"))
    try:
        return Level(strategy(checked("chunk.strategy", name, str), options, shared=Level._fields), size, overlap)
    except ConfigError as error:  # a strategy speaks of its settings as the job's; here they are the level's
        raise ConfigError(re.sub(r"\bchunk\.(?=[a-z])", f"{key}.", str(error))) from None


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
