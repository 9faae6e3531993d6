"""What the move tables promise, and the table of reasons."""

from __future__ import annotations

import pytest

from fate_flow.core.model.reasons import RULES, Author, Reason, job_status_for, task_status_for
from fate_flow.core.model.status import (
    JOB_END,
    JOB_MOVES,
    JOB_UNFINISHED,
    SEAT_MOVES,
    TASK_BROKEN,
    TASK_END,
    TASK_MOVES,
    TASK_UNFINISHED,
    WORKER_MOVES,
    IllegalMove,
    JobStatus,
    SeatStatus,
    TaskStatus,
    WorkerStatus,
    check_move,
    may_move,
)

MACHINES = [(JobStatus, JOB_MOVES), (TaskStatus, TASK_MOVES), (SeatStatus, SEAT_MOVES), (WorkerStatus, WORKER_MOVES)]


def reachable(moves, start):
    """All statuses that some way leads to."""
    found, pending = {start}, [start]
    while pending:
        for new in moves[pending.pop()] - found:
            found.add(new)
            pending.append(new)
    return found


@pytest.mark.parametrize(("statuses", "moves"), MACHINES)
def test_every_status_has_a_row(statuses, moves):
    assert set(moves) == set(statuses)


@pytest.mark.parametrize(("statuses", "moves"), MACHINES)
def test_no_status_moves_to_itself(statuses, moves):
    assert not [one for one in statuses if one in moves[one]]


@pytest.mark.parametrize(("statuses", "moves"), MACHINES)
def test_every_status_can_be_reached_from_the_first(statuses, moves):
    assert reachable(moves, next(iter(statuses))) == set(statuses)


@pytest.mark.parametrize("status", sorted(JOB_END, key=str))
def test_a_job_that_has_ended_can_only_be_run_again(status):
    assert JOB_MOVES[status] == {JobStatus.WAITING}


@pytest.mark.parametrize("status", sorted(TASK_END, key=str))
def test_a_task_that_has_ended_stays_so(status):
    assert TASK_MOVES[status] == frozenset()


@pytest.mark.parametrize("status", sorted(JOB_UNFINISHED, key=str))
def test_every_job_can_end(status):
    assert JOB_MOVES[status] & JOB_END


@pytest.mark.parametrize("status", sorted(TASK_UNFINISHED, key=str))
def test_every_task_can_end_well_and_badly(status):
    assert TASK_MOVES[status] >= TASK_BROKEN | {TaskStatus.SUCCESS}


def test_what_stops_does_not_start_again():
    assert JOB_MOVES[JobStatus.STOPPING] == JOB_END
    assert TASK_MOVES[TaskStatus.STOPPING] <= TASK_END


def test_the_groups_of_statuses_are_disjoint_and_complete():
    assert set(JobStatus) == JOB_END | JOB_UNFINISHED
    assert set(TaskStatus) == TASK_END | TASK_UNFINISHED
    assert not JOB_END & JOB_UNFINISHED
    assert not TASK_END & TASK_UNFINISHED
    assert {TaskStatus.SUCCESS, TaskStatus.PASS} == TASK_END - TASK_BROKEN


@pytest.mark.parametrize(("statuses", "moves"), MACHINES)
def test_a_move_is_checked_against_its_own_table(statuses, moves):
    for old in statuses:
        for new in statuses:
            assert may_move(old, new) == (new in moves[old])


def test_a_status_of_another_machine_is_never_a_move():
    assert not may_move(JobStatus.WAITING, TaskStatus.RUNNING)
    with pytest.raises(IllegalMove, match="JobStatus: success -> running"):
        check_move(JobStatus.SUCCESS, JobStatus.RUNNING)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_a_terminal_status_and_an_author(reason):
    assert task_status_for(reason) in TASK_END
    assert RULES[reason].authors
    assert RULES[reason].authors <= set(Author)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.NOT_NEEDED])
def test_a_reason_ends_a_job_as_it_ends_a_task(reason):
    assert job_status_for(reason) in JOB_END
    assert job_status_for(reason).value == task_status_for(reason).value


def test_the_reasons_are_those_of_the_table():
    assert set(RULES) == set(Reason)


def test_every_terminal_status_has_a_reason():
    assert {task_status_for(reason) for reason in Reason} == TASK_END


def test_only_what_a_party_saw_of_its_own_worker_is_tried_again():
    retryable = [rule for rule in RULES.values() if rule.retry_event is not None]
    assert retryable
    assert all(Author.PARTY in rule.authors for rule in retryable)
    assert all(TaskStatus(rule.status) in TASK_BROKEN for rule in retryable)
