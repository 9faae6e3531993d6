"""Aggregated statuses: of a task from those of its parties, of a job from those of its tasks."""

from __future__ import annotations

from collections.abc import Collection

from fate_flow.core.model.status import TASK_END, TASK_UNFINISHED, JobStatus, TaskStatus

_BROKEN_BY_RANK = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED)
_JOB_BY_RANK = (JobStatus.FAILED, JobStatus.TIMEOUT, JobStatus.CANCELED)
_DRAINING = TASK_END | {TaskStatus.STOPPING}


def federated_task_status(party_statuses: Collection[TaskStatus]) -> TaskStatus:
    """Return the federated status of a task, given the status of each party's share in any order.

    Until a party ends badly, the result only ever changes by moves of `TASK_MOVES`."""
    found = _at_least_one(party_statuses)
    # one bad end breaks the gang; a failure outweighs a timeout, a timeout outweighs a cancel
    for broken in _BROKEN_BY_RANK:
        if broken in found:
            return broken
    # the task runs at no party
    if found == {TaskStatus.PASS}:
        return TaskStatus.PASS
    # done at all parties where it runs
    if found <= {TaskStatus.PASS, TaskStatus.SUCCESS}:
        return TaskStatus.SUCCESS
    # not started at any party
    if found == {TaskStatus.WAITING}:
        return TaskStatus.WAITING
    # every share has ended or drains; not if one still runs or waits, because there is no move back from `stopping`
    if found <= _DRAINING:
        return TaskStatus.STOPPING
    # a share runs, or some have ended and others still wait
    return TaskStatus.RUNNING


def job_status_from_tasks(task_statuses: Collection[TaskStatus]) -> JobStatus | None:
    """Return how a job ended, given the federated statuses of its tasks; None if one of them has not ended."""
    found = _at_least_one(task_statuses)
    # a task that waits, runs or drains keeps the job open, also after another one failed
    if found & TASK_UNFINISHED:
        return None
    # the job ends like its worst task, in the same order as for parties
    for task_status, job_status in zip(_BROKEN_BY_RANK, _JOB_BY_RANK, strict=True):
        if task_status in found:
            return job_status
    # a passed task counts as done: a job has no `pass`
    return JobStatus.SUCCESS


def _at_least_one(statuses: Collection[TaskStatus]) -> frozenset[TaskStatus]:
    if not statuses:
        raise ValueError("no statuses to decide from")
    return frozenset(statuses)
