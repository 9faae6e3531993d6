"""What a participant decides at the commands about a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Answer, Job, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.participant.task_command import (
    StopShare,
    answer_to_status,
    plan_task_stop,
    why_needed,
    why_not_created,
    why_share_not_started,
)
from fate_flow.core.wire.v1.reports import report_of
from fate_flow.core.wire.v1.task_bodies import TaskStop
from tests.kit.values import GUEST, HOST, JOB_ID, OTHER, a_job, a_spec, a_task

W, R, S, F, STOPPING = (
    TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.STOPPING,
)  # fmt: skip
KEY = f"job {JOB_ID} on {HOST}"
AT_GUEST_ALONE = a_spec({"a": ()}, (GUEST, HOST))
AT_GUEST_ALONE = replace(AT_GUEST_ALONE, tasks={"a": replace(AT_GUEST_ALONE.tasks["a"], parties=(GUEST,))})


def copy(status: JobStatus = JobStatus.RUNNING, **fields: Any) -> Job:
    return a_job(status, HOST, **fields)


def share(party_status: TaskStatus = W, status: TaskStatus | None = None, **fields: Any) -> Task:
    return a_task("a", HOST, party_status, status, **{"runs_here": True, **fields})


@pytest.mark.parametrize(
    ("job", "spec", "expected"),
    [
        (copy(), a_spec(), None),
        (copy(JobStatus.WAITING), a_spec(), None),
        (copy(), None, Answer(100, f"job {JOB_ID} has no component a")),
        (copy(), a_spec({"b": ()}), Answer(100, f"job {JOB_ID} has no component a")),
        (copy(), AT_GUEST_ALONE, Answer(100, f"component a of job {JOB_ID} does not run at {HOST}")),
        (copy(JobStatus.STOPPING), a_spec(), Answer(NOT_EFFECTIVE, f"{KEY} is stopping: no task begins there")),
        (copy(JobStatus.FAILED), a_spec(), Answer(NOT_EFFECTIVE, f"{KEY} is failed: no task begins there")),
        (copy(JobStatus.FAILED, is_plain_v1=True), a_spec(), None),
        (copy(JobStatus.STOPPING, is_plain_v1=True), a_spec(), None),
    ],
)
def test_a_task_begins_only_where_it_has_a_place(job: Job, spec: JobSpec | None, expected: Answer | None) -> None:
    assert why_not_created(job, spec, "a") == expected


@pytest.mark.parametrize(
    ("job", "task", "expected"),
    [
        (copy(), share(), None),
        (copy(JobStatus.WAITING), share(), Answer(103, f"{KEY} is waiting, not running")),
        (copy(JobStatus.STOPPING), share(), Answer(103, f"{KEY} is stopping, not running")),
        (copy(), share(R, worker_id="w"), Answer(data=report_of(share(R, worker_id="w")))),
        (copy(), share(F), Answer(data=report_of(share(F)))),
    ],
)
def test_a_share_starts_once_and_only_in_a_running_job(job: Job, task: Task, expected: Answer | None) -> None:
    assert why_share_not_started(job, task) == expected


def test_a_party_starts_without_others_only_as_far_as_its_document_says() -> None:
    of_task = a_spec({"a": ()}, (GUEST, HOST, OTHER)).tasks["a"]
    enough = replace(of_task, min_available={"host": 1})
    assert why_needed(of_task, ()) == ""
    assert why_needed(enough, (str(OTHER),)) == ""
    assert why_needed(of_task, (str(OTHER),)) != ""
    assert why_needed(enough, (str(HOST), str(OTHER))) != ""


@pytest.mark.parametrize(
    ("job", "task", "new", "expected"),
    [
        (copy(), share(R), S, None),
        (copy(), share(S, R), S, None),
        (copy(), share(R), R, Answer()),
        (copy(), share(S), F, Answer()),
        (copy(is_initiator=True), share(R), S, Answer()),
        (copy(), share(W), F, None),
        (copy(is_plain_v1=True), share(R), F, None),
        (
            copy(is_plain_v1=True), share(W), F,
            Answer(NOT_EFFECTIVE, f"task {JOB_ID}_a 0 on {HOST} is waiting and stays so"),
        ),
    ],
)  # fmt: skip
def test_a_task_takes_a_new_status_that_it_can_have(
    job: Job, task: Task, new: TaskStatus, expected: Answer | None
) -> None:
    assert answer_to_status(job, task, new) == expected


BY_GUEST = str(GUEST)


@pytest.mark.parametrize(
    ("job", "task", "asked", "expected"),
    [
        (copy(), share(R), TaskStop(), StopShare(Reason.STOPPED, BY_GUEST)),
        (copy(), share(W), TaskStop("host 10001"), StopShare(Reason.STOPPED, "host 10001")),
        (copy(), share(R), TaskStop(is_passed_over=True), StopShare(Reason.PARTY_MISSING, BY_GUEST)),
        (copy(), share(R), TaskStop(begins_again=True), StopShare(Reason.STOPPED, BY_GUEST, notes_restart=True)),
        (copy(), share(STOPPING), TaskStop(), StopShare(Reason.STOPPED, BY_GUEST)),
        (copy(), share(S), TaskStop(), None),
        (copy(is_plain_v1=True), share(W), TaskStop(), None),
        (copy(is_plain_v1=True), share(R), TaskStop(), StopShare(Reason.STOPPED, BY_GUEST)),
    ],
)
def test_a_share_is_stopped_while_it_is_not_over(
    job: Job, task: Task, asked: TaskStop, expected: StopShare | None
) -> None:
    assert plan_task_stop(job, task, asked, HOST.party_id) == expected


def test_the_initiators_own_party_notes_no_restart() -> None:
    assert plan_task_stop(copy(), share(R), TaskStop(begins_again=True), GUEST.party_id) == StopShare(
        Reason.STOPPED, BY_GUEST
    )
