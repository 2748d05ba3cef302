"""One rate limit and one spend cap for a whole job, however many workers ask: they all ask here first."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from chunkmill.jobs.tally import ASKED, Metrics

if TYPE_CHECKING:
    from chunkmill.jobs.settings import LlmSettings

MINUTE = 60.0
RECHECK_S = 0.2  # how soon one asks again whose call may still be paid for, once others have cost less than they might
CHECK_S = 1.0  # how often a worker without limits asks
SLACK_S = 30.0  # beyond the time limit of a call: then what it might cost counts as spent, its worker is gone


class Turn(NamedTuple):
    """Whether a worker may call: `go` after `wait_s`; `wait` and ask again; or `stop`, for good. `succeeded`: calls so far."""

    state: Literal["go", "wait", "stop"]
    wait_s: float = 0.0
    ticket: int = 0
    succeeded: int = 0


class Gate(Protocol):
    """What a worker knows of the meter, here or on another machine."""

    def admit(self, tokens_in: int, tokens_out: int) -> Turn:
        """Ask for a turn for a call of about, and at most, so many tokens."""
        ...

    def settle(self, ticket: int, tokens_in: int, tokens_out: int, *, answered: bool) -> None:
        """Say what the call took."""
        ...

    def pause(self, seconds: float) -> None:
        """Nobody calls for so long."""
        ...

    def stop(self, kind: str, message: str) -> None:
        """Nobody calls any more; the run ends with this message (`config`: the user's error, `run`: the run's)."""
        ...

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the counts."""
        ...

    def succeeded(self) -> int:
        """How many calls were answered so far."""
        ...


class Open(NamedTuple):
    """A call that was let through: what it may take, until when it must be settled."""

    tokens: int
    cost: float
    until: float


class Meter:
    """Turns at an even pace (a leaky bucket for requests and one for tokens), within the money there is. Safe for threads.

    A call is let through only if what is spent, what other calls under way may cost, and what it may cost itself stay within
    `max_spend`. With `run_id` what it counts is also among Ray's metrics.
    """

    def __init__(self, settings: LlmSettings, clock: Callable[[], float] = time.monotonic, run_id: str = "") -> None:
        self.settings, self.clock, self.lock = settings, clock, threading.Lock()
        self.next_request = self.next_tokens = self.paused = 0.0
        self.open: dict[int, Open] = {}
        self.spent = 0.0
        self.ticket = 0
        self.counts: Counter[str] = Counter()
        self.metrics = Metrics(run_id, ASKED if run_id else {})
        self.stopped: tuple[str, str] | None = None

    def admit(self, tokens_in: int, tokens_out: int) -> Turn:
        """As Gate says."""
        with self.lock:
            if self.stopped:
                return Turn("stop")
            now, cost = self.clock(), self.settings.cost(tokens_in, tokens_out)
            if (cap := self.settings.max_spend) is not None:
                self._expire(now)
                if self.spent + cost > cap:
                    self._stop("spend", self._capped(cap, cost))
                    return Turn("stop")
                if self.spent + cost + sum(o.cost for o in self.open.values()) > cap:
                    return Turn("wait", RECHECK_S)
            at = max(now, self.next_request, self.next_tokens, self.paused)
            if self.settings.requests_per_minute:
                self.next_request = at + MINUTE / self.settings.requests_per_minute
            if self.settings.tokens_per_minute:
                self.next_tokens = at + MINUTE * (tokens_in + tokens_out) / self.settings.tokens_per_minute
            self.ticket += 1
            self.open[self.ticket] = Open(tokens_in + tokens_out, cost, at + self.settings.timeout_s + SLACK_S)
            return Turn("go", at - now, self.ticket, self.counts["calls"])

    def settle(self, ticket: int, tokens_in: int, tokens_out: int, *, answered: bool) -> None:
        """As Gate says."""
        with self.lock:
            held = self.open.pop(ticket, None)
            if held and self.settings.tokens_per_minute:
                self.next_tokens -= MINUTE * (held.tokens - tokens_in - tokens_out) / self.settings.tokens_per_minute
            if held is None:  # it had expired, and was counted as spent
                return
            self.spent += self.settings.cost(tokens_in, tokens_out)
            self._count({"tokens_in": tokens_in, "tokens_out": tokens_out, "calls" if answered else "failed_calls": 1})

    def pause(self, seconds: float) -> None:
        """As Gate says."""
        with self.lock:
            self.paused = max(self.paused, self.clock() + seconds)
            self.counts["pauses"] += 1

    def stop(self, kind: str, message: str) -> None:
        """As Gate says."""
        with self.lock:
            self._stop(kind, message)

    def count(self, counts: Mapping[str, int]) -> None:
        """As Gate says."""
        with self.lock:
            self._count(counts)

    def succeeded(self) -> int:
        """As Gate says."""
        return self.counts["calls"]

    def used(self, counts: Mapping[str, int]) -> None:
        """Add what calls took that asked for no turn."""
        with self.lock:
            self._count(counts)
            self.spent += self.settings.cost(counts.get("tokens_in", 0), counts.get("tokens_out", 0))

    def state(self) -> tuple[bool, float]:
        """Whether the run is to stop, and for how long nobody is to call."""
        with self.lock:
            return self.stopped is not None, max(0.0, self.paused - self.clock())

    def read(self) -> dict[str, Any]:
        """The counts, what is spent, and why it stopped."""
        with self.lock:
            self._expire(self.clock())
            return {**self.counts, "spend": round(self.spent, 6), "stopped": self.stopped}

    def _count(self, counts: Mapping[str, int]) -> None:
        self.counts.update(counts)
        self.metrics.add(counts)

    def _capped(self, cap: float, cost: float) -> str:
        if cost > cap:
            return f"llm.max_spend ({cap:g}) is less than one call may cost ({cost:.4g}, with llm.max_tokens of answer)"
        return f"llm.max_spend ({cap:g}) is reached: {self.spent:.4g} is spent"

    def _stop(self, kind: str, message: str) -> None:
        self.stopped = self.stopped or (kind, message)

    def _expire(self, now: float) -> None:
        for ticket in [t for t, o in self.open.items() if o.until < now]:
            self.spent += self.open.pop(ticket).cost


class Remote:
    """The meter of a job that runs in an actor. Safe for threads.

    Where nothing is limited no call waits for the actor: it is asked now and then whether to stop or pause, and told the sums.
    """

    def __init__(self, actor: Any, settings: LlmSettings) -> None:
        self.actor, self.bounded, self.lock = actor, settings.bounded, threading.Lock()
        self.answered = 0
        self.stopped, self.paused, self.checked = False, 0.0, -CHECK_S
        self.sums: Counter[str] = Counter()

    def admit(self, tokens_in: int, tokens_out: int) -> Turn:
        """As Gate says."""
        if self.bounded:
            turn: Turn = ray.get(self.actor.admit.remote(tokens_in, tokens_out))
            return turn._replace(succeeded=self.answered)
        self._check()
        pause = max(0.0, self.paused - time.monotonic())
        return Turn("stop") if self.stopped else Turn("go", pause, succeeded=self.answered)

    def settle(self, ticket: int, tokens_in: int, tokens_out: int, *, answered: bool) -> None:
        """As Gate says."""
        self.answered += answered
        if self.bounded:
            self.actor.settle.remote(ticket, tokens_in, tokens_out, answered=answered)
        else:
            self.count({"tokens_in": tokens_in, "tokens_out": tokens_out, "calls" if answered else "failed_calls": 1})

    def pause(self, seconds: float) -> None:
        """As Gate says; other workers hear of it within a second."""
        self.paused = max(self.paused, time.monotonic() + seconds)
        self.actor.pause.remote(seconds)

    def stop(self, kind: str, message: str) -> None:
        """As Gate says."""
        self.stopped = True
        ray.get(self.actor.stop.remote(kind, message))

    def count(self, counts: Mapping[str, int]) -> None:
        """As Gate says; see `flush`."""
        with self.lock:
            self.sums.update(counts)

    def succeeded(self) -> int:
        """How many calls of this worker were answered so far."""
        return self.answered

    def flush(self) -> None:
        """Have all that was counted reach the meter."""
        with self.lock:
            sums, self.sums = self.sums, Counter()
        if sums:
            ray.get(self.actor.used.remote(dict(sums)))

    def _check(self) -> None:
        """Hear whether to stop or pause, and tell the sums, every second."""
        with self.lock:
            now = time.monotonic()
            if now - self.checked < CHECK_S:
                return
            self.checked = now
        stopped, pause = ray.get(self.actor.state.remote())
        self.stopped, self.paused = self.stopped or stopped, max(self.paused, time.monotonic() + pause)
        self.flush()


def shared(settings: LlmSettings, run_id: str) -> Any:
    """The meter of a run as an actor, one for all its attempts, on the machine of the driver: it lives as long as the run."""
    return _shared(settings.model_dump_json(), run_id)


@lru_cache(maxsize=1)
def _shared(settings: str, run_id: str) -> Any:
    from chunkmill.jobs.settings import LlmSettings

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options: dict[str, Any] = {"name": f"chunkmill-llm-{run_id}", "get_if_exists": True, "num_cpus": 0}
    return (
        ray.remote(Meter)
        .options(**options, scheduling_strategy=here)
        .remote(LlmSettings.model_validate_json(settings), run_id=run_id)
    )
