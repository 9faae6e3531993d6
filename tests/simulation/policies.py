"""Rules of the jobs of a simulation, drawn from its seed, and what may be expected of jobs that have some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from fate_flow.core.model.policy import FOLLOWS, PolicyAction, PolicyEvent
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.store.values import Document

LONGEST_DELAY = 5.0
_TIME_FOR_A_START = 8.0       # longer than a start takes while nothing goes wrong

_CALM_EVENTS = frozenset({"start_timeout", "task_completed"})
"""What happens while nothing goes wrong."""

_RESTARTS = (PolicyAction.RESTART_TASK, PolicyAction.RESTART_JOB)


def some_policies(draw: Random) -> list[dict[str, Any]]:
    """None to three rules that a party accepts."""
    count = draw.choice([0, 1, 1, 2, 3])
    if count == 1 and draw.random() < 0.3:
        return [_policy(draw, PolicyEvent.ANY)]
    events = draw.sample([event for event in PolicyEvent if event is not PolicyEvent.ANY], count)
    found = [_policy(draw, event) for event in events]
    return [*found, {"exit_code": 1, "action": "restart_task"}] if count and draw.random() < 0.2 else found


def _policy(draw: Random, event: PolicyEvent) -> dict[str, Any]:
    fits = sorted(FOLLOWS[event], key=lambda one: one.value)
    restarts = [one for one in fits if one in _RESTARTS]
    action = draw.choice(restarts if restarts and draw.random() < 0.5 else fits)
    delay = draw.choice([0, 0, 0.3, 1.5, LONGEST_DELAY])
    if event is PolicyEvent.START_TIMEOUT:
        delay = draw.choice([0.3, 1.5, _TIME_FOR_A_START])
    if action is PolicyAction.IGNORE:
        delay = 0
    return {"event": event.value, "action": action.value, **({"timeout": delay} if delay else {})}


def policies_of(document: Document) -> list[dict[str, Any]]:
    """All rules of a job, its own and those of its tasks."""
    return list(_policies_of(document))


def _policies_of(document: Document) -> Iterator[dict[str, Any]]:
    common = document.runtime_conf["job_parameters"]["common"]
    yield from common.get("policies", ())
    for conf in common.get("task_conf", {}).values():
        yield from conf.get("policies", ())


def acts_without_faults(document: Document) -> bool:
    """Whether one of its rules may end it although nothing goes wrong."""
    return any(
        (one.get("event") in _CALM_EVENTS and one["action"] not in ("ignore", "complete_job"))
        or (one.get("event") == "any" and one.get("timeout"))
        for one in policies_of(document)
    )


def restart(rules: Mapping[str, Any]) -> bool:
    """Whether a rule of a job or of one of its tasks begins a task again."""
    lists = [rules.get("policies") or [], *(own["policies"] for own in rules.get("task_conf", {}).values())]
    return any(PolicyAction(one["action"]) in _RESTARTS for policies in lists for one in policies)


def some_ceilings(draw: Random) -> dict[str, Ceilings]:
    """Sometimes one of two parties that most jobs have is stricter than the jobs of a story are."""
    if draw.random() < 0.8:
        return {}
    return {draw.choice(["9999", "10000"]): Ceilings(max_attempts=draw.choice([1, 2]))}
