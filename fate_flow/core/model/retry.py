"""Retry rules: whether a task that ended badly is tried again, and after how many seconds.

Errors, timeouts and a lack of memory use up attempts. A killed worker or a lost server is not the component's fault and
counts as an interruption. Interruptions use up no attempts, but they have their own limit, so that a worker that kills
itself does not run for ever. FATE's `auto_retries` and `auto_retry_delay` give such a rule: the same number of errors
and of interruptions, and one delay.

`planning/plan_tasks.py` asks (`retry_of`); `reasons.py` says which event a reason is (`RULES`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fate_flow.core.text.phrases import counted


class RetryEvent(Enum):
    """What a retry rule can react to; the values are those of a job document."""

    NO_CAPACITY = "no_capacity"      # a party has no capacity for the job: it waits in the queue
    INTERRUPTION = "interruption"    # the worker, its server or the connection to it was lost
    ERROR = "error"                  # the component failed
    TIMEOUT = "timeout"              # the task exceeded its time limit
    OUT_OF_MEMORY = "out_of_memory"  # the worker was killed, because it used more memory than it may
    PARTY_LOST = "party_lost"        # a party was away for too long: the job waits for its return


UNSAID = frozenset(RetryEvent) - {RetryEvent.PARTY_LOST}
"""The events of a rule that names none."""

OF_THE_JOB = frozenset({RetryEvent.NO_CAPACITY, RetryEvent.PARTY_LOST})
"""Events after which the whole job waits. The rule of a component cannot name them."""


@dataclass(frozen=True)
class Backoff:
    """Seconds from one attempt to the next: `first`, each time `factor` times longer, at most `longest`.

    `jitter` is the largest random deviation, as a part of the delay, so that tasks that failed together do not start
    again together."""

    first: float = 15
    factor: float = 2
    longest: float = 600
    jitter: float = 0.1

    def seconds(self, tries: int, chance: float) -> float:
        """Return the seconds before the next attempt, after `tries` attempts; `chance` is a number from 0 to 1."""
        steps = min(max(tries, 1) - 1, _MOST_STEPS)
        grown = min(self.first * self.factor**steps, self.longest)
        return grown * (1 + self.jitter * (2 * chance - 1))


_MOST_STEPS = 64      # after so many steps, `longest` is long reached, and the power could overflow


@dataclass(frozen=True)
class RetryRule:
    """After which events, and how often, a task is tried again.

    `duration` is the limit in seconds from the first bad end; 0 for no limit."""

    on_events: frozenset[RetryEvent] = UNSAID
    max_attempts: int = 3            # attempts that ended by anything but an interruption, with the first; 1: no retry
    max_interruptions: int = 10
    duration: float = 0
    backoff: Backoff = Backoff()
    is_said: bool = True             # False: the job gives no rule, so that policies may still restart its tasks

    @property
    def retries(self) -> int:
        """How many bad ends, interruptions apart, may be followed by another attempt."""
        return self.max_attempts - 1

    @property
    def for_policies(self) -> RetryRule:
        """The rule that limits restarts by policies: the rule of the job if it gives one, else the default."""
        return self if self.is_said else RetryRule()


NEVER_AGAIN = RetryRule(max_attempts=1, max_interruptions=0, is_said=False)
"""The rule of a job that gives none. A job that says `max_attempts: 1` also forbids the restarts of policies."""


def automatic(retries: int, delay_seconds: float) -> RetryRule:
    """Return the rule that `auto_retries` and `auto_retry_delay` mean."""
    if retries == 0:
        return NEVER_AGAIN
    return RetryRule(
        max_attempts=retries + 1,
        max_interruptions=retries,
        backoff=Backoff(delay_seconds, 1, delay_seconds, 0),
    )



@dataclass(frozen=True)
class Tries:
    """What a task has used up of its retry rule: how its earlier versions ended."""

    errors: int = 0                  # versions that ended by an error, a timeout or a lack of memory
    interruptions: int = 0
    since: int = 0                   # steady time (ms) at which the first one ended

    def after(self, event: RetryEvent, now: int) -> Tries:
        """Return these tries with one more bad end, at steady time `now`."""
        is_free = event is RetryEvent.INTERRUPTION
        return Tries(self.errors + (not is_free), self.interruptions + is_free, self.since or now)


UNTRIED = Tries()


@dataclass(frozen=True)
class Again:
    """The decision about another attempt."""

    tries: Tries
    seconds: float = 0               # before the next attempt
    refused: str = ""                # why there is none; empty: there is one


def decide_retry(rule: RetryRule, tries: Tries, event: RetryEvent, now: int, chance: float) -> Again:
    """Decide whether a task that just ended by this event is tried again.

    `now` is steady time in milliseconds; `chance` is a random number from 0 to 1 for the jitter."""
    used = tries.after(event, now)
    if event not in rule.on_events:
        return Again(used, refused=f"no retry was asked for after {_AS_TEXT[event]}")
    if used.errors >= rule.max_attempts:
        return Again(used, refused=f"attempt {used.errors} of {rule.max_attempts} was the last")
    if used.interruptions > rule.max_interruptions:
        often = f"interrupted {counted(used.interruptions, 'time')}"
        allowed = counted(rule.max_interruptions, "is allowed", "are allowed")
        return Again(used, refused=f"{often}, {allowed}")
    seconds = rule.backoff.seconds(used.errors + used.interruptions, chance)
    if rule.duration and now + 1000 * seconds > used.since + 1000 * rule.duration:
        return Again(used, refused=f"the {rule.duration:g} s for retries are over")
    return Again(used, seconds)


def wait_for_place(rule: RetryRule, tries: Tries, seconds: float) -> Again:
    """Decide about a task for which a party had no place in time, although its cores were reserved: it uses up nothing,
    and the job waits as it does for capacity. `seconds`: to the next attempt; the job waits in the queue meanwhile."""
    if RetryEvent.NO_CAPACITY not in rule.on_events:
        return Again(tries, refused=f"no retry was asked for after {_AS_TEXT[RetryEvent.NO_CAPACITY]}")
    return Again(tries, seconds)


_AS_TEXT: Mapping[RetryEvent, str] = {
    RetryEvent.NO_CAPACITY: "a lack of capacity",
    RetryEvent.INTERRUPTION: "an interruption",
    RetryEvent.ERROR: "an error",
    RetryEvent.TIMEOUT: "a timeout",
    RetryEvent.OUT_OF_MEMORY: "a lack of memory",
    RetryEvent.PARTY_LOST: "the loss of a party",
}
