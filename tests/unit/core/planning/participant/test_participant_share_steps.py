"""What follows for a worker that has not started, for a share after the end of a worker, and for failed workers."""

from __future__ import annotations

import pytest

from fate_flow.core.model.job import Report, Task, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.participant.share_steps import (
    LaunchStep,
    ShareStep,
    is_to_end,
    plan_launch,
    plan_share,
)
from fate_flow.core.planning.replicas import failures_in
from tests.kit.values import HOST, a_task

W, R, STOPPING, S, F = (
    TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.STOPPING, TaskStatus.SUCCESS, TaskStatus.FAILED,
)  # fmt: skip


def share(status: TaskStatus) -> Task:
    return a_task("a", HOST, status)


def worker(*, is_stopping: bool = False) -> Worker:
    return Worker("w1", share(R).key, WorkerStatus.CREATED, engine="LOCAL", handle="w1", is_stopping=is_stopping)


@pytest.mark.parametrize(
    ("status", "is_stopping", "expected"), [(R, False, False), (R, True, True), (STOPPING, False, True)]
)
def test_a_worker_ends_by_its_own_stop_or_with_its_share(
    status: TaskStatus, is_stopping: bool, expected: bool
) -> None:
    assert is_to_end(worker(is_stopping=is_stopping), share(status)) is expected


@pytest.mark.parametrize(
    ("status", "is_stopping", "waited", "step"),
    [
        (W, False, 0, LaunchStep.WAIT),
        (W, False, 1_999, LaunchStep.WAIT),
        (W, False, 2_000, LaunchStep.AGAIN),
        (R, False, 30_000, LaunchStep.AGAIN),
        (R, False, 30_001, LaunchStep.GIVE_UP),
        (R, True, 5_000, LaunchStep.WAIT),
        (STOPPING, False, 5_000, LaunchStep.WAIT),
        (F, False, 5_000, LaunchStep.WAIT),
        (STOPPING, True, 30_001, LaunchStep.GIVE_UP),
    ],
)
def test_a_worker_that_has_not_started_is_launched_again_until_its_time_is_over(
    status: TaskStatus, is_stopping: bool, waited: int, step: LaunchStep
) -> None:
    found = plan_launch(worker(is_stopping=is_stopping), share(status), waited, longest=30_000, again_after=2_000)
    assert found is step


@pytest.mark.parametrize(
    ("status", "is_program", "has_living", "step"),
    [
        (R, False, False, ShareStep.END),
        (STOPPING, False, False, ShareStep.END),
        (STOPPING, True, True, ShareStep.NOTHING),
        (STOPPING, True, False, ShareStep.END_STOPPED),
        (R, True, False, ShareStep.GO_ON),
        (W, True, False, ShareStep.GO_ON),
        (S, True, False, ShareStep.NOTHING),
        (F, True, True, ShareStep.NOTHING),
    ],
)
def test_a_share_goes_on_or_ends_after_a_worker(
    status: TaskStatus, is_program: bool, has_living: bool, step: ShareStep
) -> None:
    assert plan_share(share(status), is_program=is_program, has_living=has_living) is step


@pytest.mark.parametrize(
    ("status", "reason", "counted", "expected"),
    [
        (F, Reason.WORKER_ERROR, 0, 1),
        (F, Reason.WORKER_ERROR, 3, 3),
        (F, None, 0, 1),
        (F, Reason.WORKER_KILLED, 0, 0),
        (F, Reason.SERVER_LOST, 0, 0),
        (F, Reason.NOT_PLACED, 0, 0),
        (F, Reason.NOT_ALLOWED, 0, 0),
        (R, None, 2, 2),
        (R, None, 0, 0),
        (S, Reason.DONE, 0, 0),
    ],
)
def test_the_failed_workers_that_a_report_states_or_shows(
    status: TaskStatus, reason: Reason | None, counted: int, expected: int
) -> None:
    report = Report(share(R).key, "ab" * 16, status, reason, failed_workers=counted)
    assert failures_in(report) == expected
