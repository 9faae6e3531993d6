"""When a task that ended badly is tried again, and how long after: a rule, what was used up of it, and the answer.

Only errors and timeouts use up the attempts. What the component cannot help, a worker that was killed or a server that
was lost, is an interruption: free, but capped by itself, so that a worker that kills itself does not go on for ever.
FATE's `auto_retries` and `auto_retry_delay` are such a rule: as many errors and as many interruptions, one delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fate_flow.core.text.phrases import counted


class RetryEvent(Enum):
    """What a retry can be asked for; the values are those of a job document."""

    NO_CAPACITY = "no_capacity"      # a party has no capacity for the job: it waits in the queue
    INTERRUPTION = "interruption"    # the worker, its server or the way to it was lost
    ERROR = "error"                  # the component failed
    TIMEOUT = "timeout"              # it ran longer than it may
    PARTY_LOST = "party_lost"        # a party was away for too long: the job waits for its return


UNSAID = frozenset(RetryEvent) - {RetryEvent.PARTY_LOST}
"""What a rule is for that names no event."""

OF_THE_JOB = frozenset({RetryEvent.NO_CAPACITY, RetryEvent.PARTY_LOST})
"""What the whole job waits for: a component has no say in it."""


@dataclass(frozen=True)
class Backoff:
    """Seconds from one attempt to the next: `first`, each time `factor` times longer, at most `longest`.

    `jitter` is the part of it that is left to chance, so that many that broke together do not come back together."""

    first: float = 15
    factor: float = 2
    longest: float = 600
    jitter: float = 0.1

    def seconds(self, tries: int, chance: float) -> float:
        """Before the next attempt after `tries` of them; `chance` is from 0 to 1."""
        steps = min(max(tries, 1) - 1, _MOST_STEPS)
        grown = min(self.first * self.factor**steps, self.longest)
        return grown * (1 + self.jitter * (2 * chance - 1))


_MOST_STEPS = 64      # of any factor of 1 or more that has long reached `longest`


@dataclass(frozen=True)
class RetryRule:
    """What a task is tried again after. `duration` is in seconds from its first bad end, 0 for no limit."""

    on_events: frozenset[RetryEvent] = UNSAID
    max_attempts: int = 3            # that ended by an error or a timeout, the first included; 1: never again
    max_interruptions: int = 10
    duration: float = 0
    backoff: Backoff = Backoff()
    is_said: bool = True             # False: the job says nothing of it, which is no more than that

    @property
    def retries(self) -> int:
        """How many errors and timeouts may be followed by another attempt."""
        return self.max_attempts - 1

    @property
    def for_policies(self) -> RetryRule:
        """What restarts by a policy are counted by: the rule of the job, where it has one."""
        return self if self.is_said else RetryRule()


NEVER_AGAIN = RetryRule(max_attempts=1, max_interruptions=0, is_said=False)
"""Of a job that says nothing of it. `max_attempts: 1` in words forbids the restarts of policies as well."""


def automatic(retries: int, delay_seconds: float) -> RetryRule:
    """What `auto_retries` and `auto_retry_delay` mean."""
    if retries == 0:
        return NEVER_AGAIN
    return RetryRule(
        max_attempts=retries + 1,
        max_interruptions=retries,
        backoff=Backoff(delay_seconds, 1, delay_seconds, 0),
    )



@dataclass(frozen=True)
class Tries:
    """What a task has used up: how its earlier versions ended, and at which steady time (ms) the first did."""

    errors: int = 0                  # by an error or a timeout
    interruptions: int = 0
    since: int = 0

    def after(self, event: RetryEvent, now: int) -> Tries:
        """With one more end, at this steady time."""
        is_free = event is RetryEvent.INTERRUPTION
        return Tries(self.errors + (not is_free), self.interruptions + is_free, self.since or now)


UNTRIED = Tries()


@dataclass(frozen=True)
class Again:
    """It is tried again after so many seconds; or not, and why."""

    tries: Tries
    seconds: float = 0
    refused: str = ""


def decide(rule: RetryRule, tries: Tries, event: RetryEvent, now: int, chance: float) -> Again:
    """Whether a task is tried again that has just ended by this event; `now` is steady time in milliseconds."""
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


_AS_TEXT: Mapping[RetryEvent, str] = {
    RetryEvent.NO_CAPACITY: "a lack of capacity",
    RetryEvent.INTERRUPTION: "an interruption",
    RetryEvent.ERROR: "an error",
    RetryEvent.TIMEOUT: "a timeout",
    RetryEvent.PARTY_LOST: "the loss of a party",
}
