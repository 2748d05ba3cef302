"""What a language model might answer, without one: well-formed, of the usual length, and the same every time.

For forecasts, which follow the real strategies through their questions before anything is spent, and for tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from chunkmill.chunkers import agentic, agentic_groups, llm_boundaries, propositions, situate, summaries
from chunkmill.chunkers.identity import digest
from chunkmill.chunkers.seams import sentences

QUOTED = re.compile(r"<<<([0-9a-f]{12})\n(.*?)\n\1>>>", re.S)
NUMBERED = re.compile(r"^\[(\d+)\] ", re.M)
TOPIC = 8  # sentences
EXAMPLE = "This part of the document says what was said before it, and names the people, places and numbers that matter here. "


def answers(prompts: Sequence[str]) -> list[str]:
    """One answer to each prompt."""
    return [answer(p) for p in prompts]


def answer(prompt: str) -> str:
    """The answer to a prompt of ours; an empty one to any other."""
    return next((reply(prompt) for begin, reply in REPLIES.items() if prompt.startswith(begin)), "")


def version() -> str:
    """A hash of all prompts: another one makes another recipe."""
    prompts = [module.PROMPT for module in (agentic, agentic_groups, llm_boundaries, propositions, situate, summaries)]
    return digest(*prompts, summaries.SUMMARY, summaries.KEY_POINTS)[:8]


def _last(prompt: str) -> str:
    return [m[2] for m in QUOTED.finditer(prompt)][-1]


def _starts(prompt: str) -> str:
    numbers = [int(n) for n in NUMBERED.findall(_last(prompt))]
    return json.dumps({"starts": numbers[TOPIC::TOPIC]})


def _propositions(prompt: str) -> str:
    text = _last(prompt)
    said = [" ".join(text[s.start : s.end].split()) for s in sentences(text)]
    made = [{"text": f"It is said that {s}"[:900], "evidence": s} for s in said]
    return json.dumps({"propositions": made}, ensure_ascii=False)


def _groups(prompt: str) -> str:
    numbers = [int(n) for n in NUMBERED.findall(_last(prompt))]
    runs = [numbers[i : i + TOPIC] for i in range(0, len(numbers), TOPIC)]
    named = [{"group": None, "title": f"From {r[0]} on", "summary": EXAMPLE.strip(), "propositions": r} for r in runs]
    return json.dumps({"groups": named})


def _summary(prompt: str) -> str:
    if '{"points"' in prompt:
        return json.dumps({"points": [EXAMPLE.strip()] * 3})
    return json.dumps({"summary": (EXAMPLE * 3).strip()})


REPLIES: dict[str, Callable[[str], str]] = {
    agentic.PROMPT.partition("{strategies}")[0]: lambda prompt: json.dumps(
        {"strategy": "recursive", "size": None, "settings": {}, "tags": ["example"], "why": EXAMPLE.strip()}
    ),
    agentic_groups.PROMPT: _groups,
    llm_boundaries.PROMPT: _starts,
    propositions.PROMPT: _propositions,
    situate.PROMPT: lambda prompt: json.dumps({"context": EXAMPLE.strip()}),
    summaries.PROMPT.partition("{wanted}")[0]: _summary,
}
