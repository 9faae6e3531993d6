"""The contract of every store for moves of statuses: one that its table does not have is refused and writes nothing.

The refusal is caught inside its transaction, which then commits: what the store had written before would stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from itertools import product
from typing import Any, TypeVar

import pytest

from fate_flow.core.model.job import Job, Report, Seat, Task, Worker, WorkerPlace
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import _TABLES as status_tables
from fate_flow.core.model.status import (
    JOB_END,
    TASK_END,
    IllegalMove,
    JobStatus,
    SeatStatus,
    TaskStatus,
    WorkerStatus,
    may_move,
)
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.store.contract.transaction import Transaction
from tests.store_contract.cases import (
    DOCUMENT,
    DONE,
    Cases,
    Each,
    a_job,
    a_seat,
    a_task,
    a_worker,
    with_jobs,
    with_tasks,
)

S = TypeVar("S", bound=Enum)


def illegal(statuses: type[S]) -> Iterator[tuple[S, S]]:
    return ((old, new) for old, new in product(statuses, statuses) if not may_move(old, new))  # type: ignore[arg-type]


def refused(each: Each, move: Callable[[Transaction], Any]) -> None:
    with each.store.transaction() as tx, pytest.raises(IllegalMove):
        move(tx)


def job_in(each: Each, status: JobStatus) -> Job:
    """No row begins ended: those that are over were moved there."""
    job = a_job(status.value, status=JobStatus.WAITING if status in JOB_END else status)
    with_jobs(each, job)
    if status in JOB_END:
        assert each.move_job(job, MoveJob(status, Reason.STOPPED, "first"), 4)
    found: Job = each.job(job.key)
    assert found.status is status
    return found


def seat_in(each: Each, status: SeatStatus) -> Seat:
    each.add_seats([a_seat(status.value, status=status, message="first", free_cores=3)])
    [found] = each.seats(status.value)
    assert found.status is status
    return found


def share_in(each: Each, status: TaskStatus) -> Task:
    task = a_task(status.value, party_status=TaskStatus.WAITING if status in TASK_END else status)
    with_tasks(each, task)
    if status in TASK_END:
        assert each.move_party_task(task, status, 4, Reason.STOPPED, "first")
    found: Task = each.task(task.key)
    assert found.party_status is status
    return found


def task_in(each: Each, status: TaskStatus) -> Task:
    task = a_task(status.value, status=TaskStatus.WAITING if status in TASK_END else status)
    with_tasks(each, task)
    if status in TASK_END:
        assert each.move_task("j1", MoveTask(task.key.name, 0, TaskStatus.WAITING, status, Reason.STOPPED, "first"), 4)
    found: Task = each.task(task.key)
    assert found.status is status
    return found


def worker_in(each: Each, status: WorkerStatus) -> Worker:
    worker = a_worker(status.value)
    each.add_worker(worker)
    if status is not WorkerStatus.CREATED:
        assert each.move_worker(worker, status, 4, WorkerPlace(7), DONE)
    found: Worker = each.worker(status.value)
    assert found.status is status
    return found


class MoveContract(Cases):
    def test_no_illegal_move_of_a_job_is_made(self, each: Each) -> None:
        jobs = {status: job_in(each, status) for status in JobStatus}
        for old, new in illegal(JobStatus):
            move = MoveJob(new, Reason.STOPPED_BY_USER, "second", target=JobStatus.FAILED, stop_by=9)
            refused(each, lambda tx, job=jobs[old], move=move: tx.move_job(job, move, 5, "host 10000"))
            assert each.job(jobs[old].key) == jobs[old], (old, new)
            assert each.document(old.value).tag == ("job_end" if old in JOB_END else DOCUMENT.tag)

    def test_only_an_ended_job_begins_again(self, each: Each) -> None:
        for status in set(JobStatus) - JOB_END:
            job = job_in(each, status)
            refused(each, lambda tx, job=job: tx.begin_again(job, 1, 5, "second"))
            assert each.job(job.key) == job

    def test_only_a_running_job_is_requeued(self, each: Each) -> None:
        for status in set(JobStatus) - {JobStatus.RUNNING}:
            job = job_in(each, status)
            refused(each, lambda tx, job=job: tx.requeue_job(job, "second", 5))
            assert each.requeue_job(replace(job, status=JobStatus.RUNNING), "second", 5) is False
            assert each.job(job.key) == job

    def test_no_job_waits_again_that_the_table_does_not_let_wait(
        self, each: Each, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended, running = job_in(each, JobStatus.FAILED), job_in(each, JobStatus.RUNNING)
        monkeypatch.setitem(status_tables, JobStatus, dict.fromkeys(JobStatus, frozenset()))
        refused(each, lambda tx: tx.begin_again(ended, 1, 5, "second"))
        refused(each, lambda tx: tx.requeue_job(running, "second", 5))
        assert (each.job(ended.key), each.job(running.key)) == (ended, running)

    def test_no_illegal_move_of_a_seat_is_made(self, each: Each) -> None:
        seats = {status: seat_in(each, status) for status in SeatStatus}
        for old, new in illegal(SeatStatus):
            refused(each, lambda tx, seat=seats[old], new=new: tx.move_seat(seat, new, "second", 5))
            assert each.seats(old.value) == (seats[old],), (old, new)

    def test_a_seat_rejoins_as_its_table_says_whatever_it_was_when_it_was_read(self, each: Each) -> None:
        for status in SeatStatus:
            seat = seat_in(each, status)
            if may_move(status, SeatStatus.JOINING):
                assert each.rejoin(replace(seat, status=SeatStatus.LEAVING)), status
                continue
            refused(each, lambda tx, seat=seat: tx.rejoin(seat))
            assert each.rejoin(replace(seat, status=SeatStatus.LEAVING)) is False, status
            assert each.seats(status.value) == (seat,)

    def test_no_illegal_move_of_a_task_is_made(self, each: Each) -> None:
        tasks = {status: task_in(each, status) for status in TaskStatus}
        for old, new in illegal(TaskStatus):
            move = MoveTask(tasks[old].key.name, 0, old, new, Reason.STOPPED_BY_USER, "second", "policy", "host 10000")
            refused(each, lambda tx, move=move: tx.move_task("j1", move, 5))
            assert each.task(tasks[old].key) == tasks[old], (old, new)

    def test_no_illegal_move_of_a_share_is_made(self, each: Each) -> None:
        shares = {status: share_in(each, status) for status in TaskStatus}
        for old, new in illegal(TaskStatus):
            share, why = shares[old], (Reason.STOPPED_BY_USER, "second", TaskStatus.FAILED, 3, "host 10000")
            refused(each, lambda tx, share=share, new=new, why=why: tx.move_party_task(share, new, 5, *why))
            assert each.task(share.key) == share, (old, new)

    def test_a_report_of_an_illegal_move_is_not_taken(self, each: Each) -> None:
        """Another party says it, so it is no defect of ours."""
        shares = {status: share_in(each, status) for status in TaskStatus}
        for old, new in illegal(TaskStatus):
            report = Report(shares[old].key, shares[old].incarnation, new, Reason.WORKER_ERROR, "second", 5, 6, 3)
            assert each.take_report(shares[old], report) is False
            assert each.task(shares[old].key) == shares[old], (old, new)

    def test_no_illegal_move_of_a_worker_is_made(self, each: Each) -> None:
        workers = {status: worker_in(each, status) for status in WorkerStatus}
        for old, new in illegal(WorkerStatus):
            refused(each, lambda tx, worker=workers[old], new=new: tx.move_worker(worker, new, 5, WorkerPlace(9), DONE))
            assert each.worker(old.value) == workers[old], (old, new)

    def test_no_worker_ends_without_a_reason(self, each: Each) -> None:
        for status in (WorkerStatus.CREATED, WorkerStatus.RUNNING):
            worker = worker_in(each, status)
            refused(each, lambda tx, worker=worker: tx.move_worker(worker, WorkerStatus.EXITED, 5))
            assert each.worker(status.value) == worker
