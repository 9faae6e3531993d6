"""How a worker ended, why its party's share ends, and how the share is stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Task, Worker, WorkerEnd
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TASK_END, TaskStatus, WorkerStatus
from fate_flow.core.planning.participant.share_end import (
    ShareEnd,
    StopStep,
    WorkerExit,
    code_that_counts,
    end_of_worker,
    how_it_ended,
    plan_share_stop,
    why_share_ends,
    why_workers_stop,
)
from fate_flow.core.text.exit_codes import describe_signal
from tests.kit.values import GUEST, HOST, a_task

LOST = WorkerExit(is_lost=True)
STOPS = a_task(
    party_status=TaskStatus.STOPPING, reason=Reason.STOPPED_BY_USER, message="enough", caused_by="host 10000"
)


def exited(**fields: Any) -> WorkerExit:
    return WorkerExit(**{"cause": "exited", **fields})


# ---------------------------------------------------------------------- how a worker ended


@pytest.mark.parametrize(
    ("seen", "reason", "text"),
    [
        (exited(exit_code=0, succeeded=True), Reason.DONE, ""),
        (exited(exit_code=1, message="column x is missing"), Reason.WORKER_ERROR, "column x is missing"),
        (exited(exit_code=0, message="said failed"), Reason.WORKER_ERROR, "said failed"),
        (exited(exit_code=3), Reason.WORKER_CRASHED, "the process ended with exit code 3 and left no result"),
        (exited(exit_code=0), Reason.WORKER_CRASHED, "the process ended with exit code 0 and left no result"),
        (exited(signal=9), Reason.WORKER_KILLED, f"the process ended with {describe_signal(9)} and left no result"),
        (exited(signal=15), Reason.WORKER_KILLED, "the process ended with signal 15 (SIGTERM) and left no result"),
        *(
            (
                exited(signal=number), Reason.WORKER_CRASHED,
                f"the process crashed with signal {number} ({name}) and left no result",
            )
            for number, name in (
                (4, "SIGILL"), (5, "SIGTRAP"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (11, "SIGSEGV"),
                (31, "SIGSYS"),
            )
        ),
        (
            exited(signal=11, succeeded=True), Reason.WORKER_CRASHED,
            "the process crashed with signal 11 (SIGSEGV) although its result says success",
        ),
        (exited(cause="timeout", signal=6), Reason.TASK_TIMEOUT, "ran longer than the task may"),
        (
            exited(exit_code=1, succeeded=True), Reason.WORKER_CRASHED,
            "the process ended with exit code 1 although its result says success",
        ),
        (exited(cause="timeout", signal=15), Reason.TASK_TIMEOUT, "ran longer than the task may"),
        (exited(cause="timeout", succeeded=True, exit_code=0), Reason.TASK_TIMEOUT, "ran longer than the task may"),
        (
            exited(cause="timeout", exit_code=3, message="the program ended with exit code 3"), Reason.TASK_TIMEOUT,
            "ran longer than the task may",
        ),
        (exited(cause="server_lost"), Reason.SERVER_LOST, "its own server was gone for too long"),
        (exited(cause="not_started"), Reason.LAUNCH_FAILED, "the program could not be started"),
        (exited(cause="not_started", message="no such file"), Reason.LAUNCH_FAILED, "no such file"),
        (exited(cause="out_of_memory", signal=9), Reason.OUT_OF_MEMORY, "used more memory than it may"),
        (
            exited(cause="out_of_memory", signal=9, message="used more than its 512 MB (task_memory)"),
            Reason.OUT_OF_MEMORY, "used more than its 512 MB (task_memory)",
        ),
        (exited(cause="stopped", signal=15), Reason.WORKER_KILLED, "was stopped from outside"),
        (LOST, Reason.WORKER_KILLED, "the process and its runner are gone and left no exit status"),
    ],
)  # fmt: skip
def test_the_reason_follows_from_what_is_seen(seen: WorkerExit, reason: Reason, text: str) -> None:
    assert how_it_ended(a_task(party_status=TaskStatus.RUNNING), seen) == (reason, text)


@pytest.mark.parametrize(
    "seen", [exited(exit_code=0, succeeded=True), exited(signal=9), LOST, exited(exit_code=1, message="no column x")]
)
def test_a_stop_that_was_ordered_beats_what_came_of_it(seen: WorkerExit) -> None:
    assert how_it_ended(STOPS, seen) == (Reason.STOPPED_BY_USER, "enough")
    assert how_it_ended(replace(STOPS, reason=None), seen)[0] is Reason.STOPPED


@pytest.mark.parametrize(
    ("cause", "expected"),
    [("exited", 3), ("", 3), ("timeout", None), ("server_lost", None), ("not_started", None), ("stopped", None),
     ("out_of_memory", None)],
)
def test_an_exit_code_that_our_own_signal_made_does_not_count(cause: str, expected: int | None) -> None:
    assert code_that_counts(exited(cause=cause, exit_code=3)) == expected


def a_worker(**fields: Any) -> Worker:
    return Worker("w", a_task().key, WorkerStatus.RUNNING, "local", "", **fields)


@pytest.mark.parametrize(
    ("worker", "task", "expected"),
    [
        (a_worker(), a_task(party_status=TaskStatus.RUNNING, caused_by="host 10000"),
         WorkerEnd(Reason.WORKER_KILLED, "signal", str(GUEST), "signal 9")),
        (a_worker(), STOPS, WorkerEnd(Reason.WORKER_KILLED, "signal", str(HOST), "signal 9")),
        (a_worker(is_stopping=True, reason=Reason.STOPPED, message="not needed", caused_by="host 10001"), STOPS,
         WorkerEnd(Reason.STOPPED, "not needed", "host 10001", "signal 9")),
        (a_worker(is_stopping=True), STOPS, WorkerEnd(Reason.WORKER_KILLED, "signal", str(HOST), "signal 9")),
        (a_worker(reason=Reason.STOPPED), a_task(), WorkerEnd(Reason.WORKER_KILLED, "signal", str(GUEST), "signal 9")),
    ],
)  # fmt: skip
def test_a_worker_that_was_told_to_stop_exits_for_that_reason(worker: Worker, task: Task, expected: WorkerEnd) -> None:
    assert end_of_worker(worker, task, Reason.WORKER_KILLED, "signal", "signal 9") == expected


# ---------------------------------------------------------------------- stopping a share


@pytest.mark.parametrize(
    ("status", "has_workers", "deadline_seconds", "step"),
    [
        (TaskStatus.WAITING, False, None, StopStep.END),
        (TaskStatus.WAITING, True, None, StopStep.STOP),
        (TaskStatus.RUNNING, False, 0, StopStep.END),
        (TaskStatus.RUNNING, True, 0, StopStep.STOP),
        (TaskStatus.STOPPING, True, None, StopStep.NOTHING),
        (TaskStatus.STOPPING, True, 5, StopStep.NOTHING),
        (TaskStatus.STOPPING, True, 0, StopStep.KILL),
        (TaskStatus.STOPPING, False, 0, StopStep.NOTHING),
        *((status, True, 0, StopStep.NOTHING) for status in sorted(TASK_END, key=lambda one: one.value)),
    ],
)
def test_a_share_stops_at_once_or_after_its_workers(
    status: TaskStatus, has_workers: bool, deadline_seconds: float | None, step: StopStep
) -> None:
    task = a_task(party_status=status)
    assert plan_share_stop(task, has_workers=has_workers, deadline_seconds=deadline_seconds) is step


@pytest.mark.parametrize(
    ("reason", "message", "caused_by", "expected"),
    [
        (Reason.STOPPED, "", "", WorkerEnd(Reason.STOPPED, "", str(GUEST))),
        (Reason.STOPPED_BY_USER, "", "host 10000", WorkerEnd(Reason.STOPPED, "stopped_by_user", "host 10000")),
        (Reason.TASK_TIMEOUT, "too long", "", WorkerEnd(Reason.STOPPED, "too long", str(GUEST))),
    ],
)
def test_workers_are_told_to_stop_with_the_reason_as_text(
    reason: Reason, message: str, caused_by: str, expected: WorkerEnd
) -> None:
    assert why_workers_stop(a_task(), reason, message, caused_by) == expected


@pytest.mark.parametrize(
    ("task", "is_ordered"),
    [
        (STOPS, True),
        (replace(STOPS, reason=None), False),
        (replace(STOPS, party_status=TaskStatus.RUNNING), False),
    ],
)
def test_a_share_ends_for_the_reason_of_an_ordered_stop(task: Task, is_ordered: bool) -> None:
    given = ShareEnd(Reason.WORKER_KILLED, "signal", "guest 9999")
    ordered = ShareEnd(Reason.STOPPED_BY_USER, "enough", "host 10000")
    assert why_share_ends(task, given) == (ordered if is_ordered else given)
