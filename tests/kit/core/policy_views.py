"""A view of a job with rules, and what its plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fate_flow.core.model.job import Task
from fate_flow.core.model.policy import Policy, PolicyAction, PolicyEvent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryRule
from fate_flow.core.model.status import SeatStatus, TaskStatus
from fate_flow.core.planning.actions import Action
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.view import JobView
from tests.kit.values import GUEST, HOST, NOW, OTHER, a_job, a_seat, a_spec, a_task, a_view, seats

E, A = PolicyEvent, PolicyAction
S, R, F, T, C, W = (
    TaskStatus.SUCCESS, TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED,
    TaskStatus.WAITING,
)  # fmt: skip
STOPPING = TaskStatus.STOPPING
WRONG = "it went wrong"


def rule(action: PolicyAction, *events: PolicyEvent, delay: float = 0, **fields: Any) -> Policy:
    return Policy(action, frozenset(events), delay=delay, **fields)


def of_job(*rules: Policy, tasks: tuple[Task, ...], own: tuple[Policy, ...] = (), graph: Any = None,
           retry: RetryRule | None = None, job: Any = None, **view: Any) -> JobView:  # fmt: skip
    """A running job with these rules; `own` are those of its task `a`."""
    spec = a_spec(graph, (GUEST, HOST, OTHER))
    first = replace(spec.tasks["a"], policies=own, retry=retry or spec.tasks["a"].retry)
    spec = replace(spec, policies=rules, tasks={**spec.tasks, "a": first}, retry=retry or spec.retry)
    known = {"seats": seats(SeatStatus.STARTED, GUEST, HOST, OTHER), **view}
    return a_view(a_job(**(job or {})), spec=spec, tasks=tasks, **known)


def rows(*party_statuses: TaskStatus, status: TaskStatus = R, name: str = "a", **fields: Any) -> tuple[Task, ...]:
    return tuple(
        a_task(name, party, one, status, **fields)
        for party, one in zip((GUEST, HOST, OTHER), party_statuses, strict=False)
    )


def broken(reason: Reason = Reason.WORKER_ERROR, **fields: Any) -> tuple[Task, ...]:
    """`a` runs at the guest, its share at the host has ended badly."""
    status = T if reason is Reason.TASK_TIMEOUT else F
    return (a_task("a", GUEST, R), a_task("a", HOST, status, R, reason=reason, message=WRONG, **fields))


def plan(view: JobView) -> list[Action]:
    found = plan_job(view)
    assert plan_job(view) == found
    return list(found)


def only(found: list[Action], kind: type[Action]) -> Any:
    [one] = [action for action in found if isinstance(action, kind)]
    return one


def silent(**fields: Any) -> tuple[Any, ...]:
    text = "party 10000 has not answered for 90 s"
    lost = a_seat(HOST, SeatStatus.STARTED, text, silent_since=NOW - 5_000)
    return (a_seat(GUEST, SeatStatus.STARTED), replace(lost, **fields))


# ---------------------------------------------------------------------- a delay


LATER = rule(A.CANCEL_JOB, E.WORKER_FAILED, delay=10)
KEY = "worker_failed a 0 host 10000"
