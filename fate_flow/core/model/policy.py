"""What is to be done when something happens to a job: the rules of a job and of its components, and which one wins.

A component's own list is searched before the job's, for each event; in a list the first rule that fits wins. Whatever
no rule fits goes the way that it goes without rules: the gang is stopped, `retry` has its say, the job ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class PolicyEvent(Enum):
    """What may have happened; the values are those of a job document."""

    WORKER_FAILED = "worker_failed"              # a party's share ended by an error, or ran longer than it may
    WORKER_INTERRUPTED = "worker_interrupted"    # its worker was killed, or the server of its worker was lost
    GANG_BROKEN = "gang_broken"                  # a task cannot go on: too many of its shares have ended badly
    START_TIMEOUT = "start_timeout"              # a task has begun, and not every share runs after so long
    TASK_FAILED = "task_failed"                  # a task ended badly and is not tried again
    TASK_COMPLETED = "task_completed"            # a task succeeded
    PARTY_UNREACHABLE = "party_unreachable"      # a party has been silent for longer than its initiator allows
    ANY = "any"                                  # each of them that the action can follow, but a success


class PolicyAction(Enum):
    RESTART_JOB = "restart_job"      # every task that has begun begins again; what was reserved is kept
    RESTART_TASK = "restart_task"    # the task begins again at all parties
    FAIL_JOB = "fail_job"            # for good: a rerun is refused
    CANCEL_JOB = "cancel_job"        # it can be resumed
    COMPLETE_TASK = "complete_task"  # what still runs of it is stopped; it counts as done
    COMPLETE_JOB = "complete_job"    # what still runs is stopped; the job has succeeded
    IGNORE = "ignore"                # as if there were no rule, also no more general one


@dataclass(frozen=True)
class Policy:
    """One rule: what it is about (events, or an exit code), what is done, and how many seconds later."""

    action: PolicyAction
    events: frozenset[PolicyEvent] = frozenset()
    exit_code: int | None = None
    delay: float = 0

    @property
    def text(self) -> str:
        """For people: `worker_failed, gang_broken: restart_task after 5 s`."""
        events = ", ".join(event.value for event in PolicyEvent if event in self.events)
        later = f" after {self.delay:g} s" if self.delay else ""
        return f"{events or f'exit code {self.exit_code}'}: {self.action.value}{later}"

    def fits(self, event: PolicyEvent, exit_code: int | None = None) -> bool:
        """Whether it is about this event; an exit code is one of a worker that ended badly."""
        if self.exit_code is not None:
            return event in WORKER_EVENTS and exit_code == self.exit_code
        if PolicyEvent.ANY in self.events:
            has_time = event is not PolicyEvent.START_TIMEOUT or self.delay > 0
            return event in MISHAPS and self.action in FOLLOWS[event] and has_time
        return event in self.events


WORKER_EVENTS = frozenset({PolicyEvent.WORKER_FAILED, PolicyEvent.WORKER_INTERRUPTED})
MISHAPS = frozenset(PolicyEvent) - {PolicyEvent.ANY, PolicyEvent.TASK_COMPLETED}

_ENDS = frozenset({PolicyAction.FAIL_JOB, PolicyAction.CANCEL_JOB, PolicyAction.COMPLETE_JOB, PolicyAction.IGNORE})
_EVERY = frozenset(PolicyAction)

FOLLOWS: Mapping[PolicyEvent, frozenset[PolicyAction]] = {
    PolicyEvent.WORKER_FAILED: _EVERY,
    PolicyEvent.WORKER_INTERRUPTED: _EVERY,
    PolicyEvent.GANG_BROKEN: _EVERY,
    PolicyEvent.START_TIMEOUT: _EVERY,
    # how often a task is tried again says `retry`, and what has ended does not become a success
    PolicyEvent.TASK_FAILED: _ENDS | {PolicyAction.RESTART_JOB},
    PolicyEvent.TASK_COMPLETED: _ENDS,
    # a party that is silent for so long ends its share of the whole job by itself: nothing begins again there
    PolicyEvent.PARTY_UNREACHABLE: _ENDS,
    PolicyEvent.ANY: _EVERY,
}
"""The actions that make sense after each event."""


def first_fit(
    lists: Iterable[Iterable[Policy]], event: PolicyEvent, exit_code: int | None = None
) -> Policy | None:
    """The rule that wins; None also where that one says `ignore`."""
    found = _winner(lists, event, exit_code)
    return None if found is None or found.action is PolicyAction.IGNORE else found


def is_ignored(lists: Iterable[Iterable[Policy]], event: PolicyEvent, exit_code: int | None = None) -> bool:
    """Whether the rule that wins says `ignore`."""
    found = _winner(lists, event, exit_code)
    return found is not None and found.action is PolicyAction.IGNORE


def _winner(
    lists: Iterable[Iterable[Policy]], event: PolicyEvent, exit_code: int | None
) -> Policy | None:
    return next((one for rules in lists for one in rules if one.fits(event, exit_code)), None)


def named(rules: Iterable[Policy]) -> tuple[Policy, ...]:
    """Those that name their events, and do not mean them by `any`."""
    return tuple(one for one in rules if PolicyEvent.ANY not in one.events)


def may_complete_job(lists: Iterable[Sequence[Policy]]) -> bool:
    """Whether a rule of these may say that the job has succeeded."""
    return any(one.action is PolicyAction.COMPLETE_JOB for policies in lists for one in policies)


def may_restart_task(lists: Sequence[Iterable[Policy]]) -> bool:
    """Whether something may happen to a task that meets a rule by which it begins again."""
    codes = {None, *(one.exit_code for rules in lists for one in rules)}
    met = (first_fit(lists, event, code) for event in MISHAPS for code in codes)
    return any(one is not None and one.action is PolicyAction.RESTART_TASK for one in met)
