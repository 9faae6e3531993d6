"""Policies: the rules of a job and of its components for what to do after an event, and which rule wins.

For each event, a component's own list is searched before the job's; in a list the first rule that fits wins. If no
rule fits, the default applies: the gang is stopped, `retry` decides about another attempt, otherwise the job ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class PolicyEvent(Enum):
    """What can trigger a policy; the values are those of a job document."""

    WORKER_FAILED = "worker_failed"              # a party's share ended by an error, or exceeded its time limit
    WORKER_INTERRUPTED = "worker_interrupted"    # its worker was killed, or the server of its worker was lost
    GANG_BROKEN = "gang_broken"                  # a task cannot go on: too many of its shares have ended badly
    START_TIMEOUT = "start_timeout"              # a task started, but after the delay not every share runs
    TASK_FAILED = "task_failed"                  # a task ended badly and is not tried again
    TASK_COMPLETED = "task_completed"            # a task succeeded
    PARTY_UNREACHABLE = "party_unreachable"      # a party has been silent for longer than its initiator allows
    ANY = "any"                                  # every event that the action can follow, except a success


class PolicyAction(Enum):
    RESTART_JOB = "restart_job"      # start all tasks again that have started; keep the reservation
    RESTART_TASK = "restart_task"    # start the task again at all parties
    FAIL_JOB = "fail_job"            # end the job for good: a rerun is refused
    CANCEL_JOB = "cancel_job"        # end the job; it can be resumed
    COMPLETE_TASK = "complete_task"  # stop the shares that still run; the task has succeeded
    COMPLETE_JOB = "complete_job"    # stop the tasks that still run; the job has succeeded
    IGNORE = "ignore"                # apply the default, even if a later rule fits


RESTARTS = frozenset({PolicyAction.RESTART_TASK.value, PolicyAction.RESTART_JOB.value})


@dataclass(frozen=True)
class Policy:
    """One rule: its events or its exit code, its action, and after how many seconds the action follows."""

    action: PolicyAction
    events: frozenset[PolicyEvent] = frozenset()
    exit_code: int | None = None
    delay: float = 0

    @property
    def text(self) -> str:
        """The rule as text for people: `worker_failed, gang_broken: restart_task after 5 s`."""
        events = ", ".join(event.value for event in PolicyEvent if event in self.events)
        later = f" after {self.delay:g} s" if self.delay else ""
        return f"{events or f'exit code {self.exit_code}'}: {self.action.value}{later}"

    def fits(self, event: PolicyEvent, exit_code: int | None = None) -> bool:
        """Return whether the rule applies to this event; `exit_code` is that of a worker that ended badly."""
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
    # no RESTART_TASK: `retry` decides how often a task runs again; no COMPLETE_TASK: a task that has ended stays so
    PolicyEvent.TASK_FAILED: _ENDS | {PolicyAction.RESTART_JOB},
    PolicyEvent.TASK_COMPLETED: _ENDS,
    # no restarts: a party that is silent for so long ends its share of the whole job by itself
    PolicyEvent.PARTY_UNREACHABLE: _ENDS,
    PolicyEvent.ANY: _EVERY,
}
"""The actions that make sense after each event."""


def first_fit(
    lists: Iterable[Iterable[Policy]], event: PolicyEvent, exit_code: int | None = None
) -> Policy | None:
    """Return the rule that wins; None if no rule fits, or if the winning rule says `ignore`."""
    found = _winner(lists, event, exit_code)
    return None if found is None or found.action is PolicyAction.IGNORE else found


def is_ignored(lists: Iterable[Iterable[Policy]], event: PolicyEvent, exit_code: int | None = None) -> bool:
    """Return whether the winning rule says `ignore`."""
    found = _winner(lists, event, exit_code)
    return found is not None and found.action is PolicyAction.IGNORE


def _winner(
    lists: Iterable[Iterable[Policy]], event: PolicyEvent, exit_code: int | None
) -> Policy | None:
    return next((one for rules in lists for one in rules if one.fits(event, exit_code)), None)


def named(rules: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return the rules that do not have the event `any`."""
    return tuple(one for one in rules if PolicyEvent.ANY not in one.events)


def may_complete_job(lists: Iterable[Sequence[Policy]]) -> bool:
    """Return whether one of these rules has the action `complete_job`."""
    return any(one.action is PolicyAction.COMPLETE_JOB for policies in lists for one in policies)


def may_restart_task(lists: Sequence[Iterable[Policy]]) -> bool:
    """Return whether some event of a task can lead to `restart_task` by these lists of rules."""
    codes = {None, *(one.exit_code for rules in lists for one in rules)}
    met = (first_fit(lists, event, code) for event in MISHAPS for code in codes)
    return any(one is not None and one.action is PolicyAction.RESTART_TASK for one in met)
