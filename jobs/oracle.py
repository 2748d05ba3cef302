"""The language model of a job as one function of this process: for `eval`, which runs no stages on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError, attempt
from chunkmill.chunkers.llm import Refused
from chunkmill.jobs.answers import Answers
from chunkmill.jobs.config import Job
from chunkmill.jobs.llm import Asker
from chunkmill.jobs.meter import Meter

Ask: TypeAlias = Callable[[Sequence[str]], list[str]]


@contextmanager
def oracle(job: Job) -> Iterator[Ask]:
    """What answers the prompts of a job: one answer each, "" where there is none; what was paid for is kept in its output.

    Raises ConfigError where the job names no model; ConfigError and RunError where it stopped answering.
    """
    if job.llm is None:
        raise ConfigError("a language model is to be asked, and no job file names one; give llm: {base_url: URL, model: NAME}")
    meter, answers = Meter(job.llm), Answers(job.output)
    asker = Asker(job.llm, meter, answers, job.llm.concurrency)

    def answered(prompt: str) -> list[str] | DocumentError:
        return attempt(asker, [prompt])  # alone, so that one failure is one answer's

    def ask(prompts: Sequence[str]) -> list[str]:
        with ThreadPoolExecutor(asker.settings.concurrency) as pool:
            found = [*pool.map(answered, prompts)]
        if stopped := meter.read()["stopped"]:
            kind, message = stopped
            raise (ConfigError if kind == "config" else RunError)(message)
        return [Refused(too_long=False) if isinstance(answer, DocumentError) else answer[0] for answer in found]

    try:
        yield ask
    finally:
        answers.flush()
