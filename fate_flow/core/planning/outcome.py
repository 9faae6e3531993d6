"""The status of many from the statuses of each: what a task is over its parties, what a job is over its tasks."""

from __future__ import annotations

from collections.abc import Collection

from fate_flow.core.model.status import TASK_END, TASK_UNFINISHED, JobStatus, TaskStatus

_BROKEN_BY_RANK = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED)
_JOB_BY_RANK = (JobStatus.FAILED, JobStatus.TIMEOUT, JobStatus.CANCELED)
_DRAINING = TASK_END | {TaskStatus.STOPPING}


def federated_task_status(party_statuses: Collection[TaskStatus]) -> TaskStatus:
    """The federated status of a task from what its parties saw, one status a party, in any order.

    Followed step by step it never asks for a move that `TASK_MOVES` has not, until a party ended badly."""
    found = _at_least_one(party_statuses)
    # one party that ended badly ends the gang; a failure says more than a timeout, a timeout more than a cancel
    for broken in _BROKEN_BY_RANK:
        if broken in found:
            return broken
    # told not to run everywhere: nobody did anything
    if found == {TaskStatus.PASS}:
        return TaskStatus.PASS
    # passed at some parties and done at the others: done
    if found <= {TaskStatus.PASS, TaskStatus.SUCCESS}:
        return TaskStatus.SUCCESS
    # nothing has begun anywhere
    if found == {TaskStatus.WAITING}:
        return TaskStatus.WAITING
    # whoever has not ended is draining. While one still runs or waits it is not: `stopping` has no way back
    if found <= _DRAINING:
        return TaskStatus.STOPPING
    # running somewhere, or done here and still waiting there
    return TaskStatus.RUNNING


def job_status_from_tasks(task_statuses: Collection[TaskStatus]) -> JobStatus | None:
    """How a job ended, from the federated statuses of its tasks; None while one of them has not."""
    found = _at_least_one(task_statuses)
    # a task that waits, runs or drains keeps the job open, also after another one failed
    if found & TASK_UNFINISHED:
        return None
    # one task that ended badly ends the job so; the same order as over parties
    for task_status, job_status in zip(_BROKEN_BY_RANK, _JOB_BY_RANK, strict=True):
        if task_status in found:
            return job_status
    # a passed task counts as done: a job has no `pass`
    return JobStatus.SUCCESS


def _at_least_one(statuses: Collection[TaskStatus]) -> frozenset[TaskStatus]:
    if not statuses:
        raise ValueError("no statuses to decide from")
    return frozenset(statuses)
