"""Deliberate bugs in what a party does when it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.actions as actions
from fate_flow.core.model import resources
from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant import ends, job_commands, participant, task_commands
from fate_flow.services.scheduling.capacity import CapacityNotifier, _Capacity
from fate_flow.services.upkeep.maintenance import Maintenance
from fate_flow.services.workers import ending, launching, watch
from tests.simulation.mutants import initiator_bugs


def reserves_the_smallest_needs() -> AbstractContextManager[Any]:
    def together(of_job: int, of_tasks: Any, at_once: int, is_exact: bool) -> int:
        return of_job * at_once if not is_exact and set(of_tasks) <= {of_job} else sum(sorted(of_tasks)[:at_once])

    return patch.object(resources, "_together", together)


def reserves_for_one_task() -> AbstractContextManager[Any]:
    """As many as run at once are forgotten where tasks have needs of their own."""

    def together(of_job: int, of_tasks: Any, at_once: int, is_exact: bool) -> int:
        return of_job * at_once if not is_exact and set(of_tasks) <= {of_job} else max(of_tasks, default=0)

    return patch.object(resources, "_together", together)


@contextmanager
def starts_without_a_hold() -> Iterator[None]:
    """Nobody asks for a hold, and the party does not demand one."""

    def start(unit: UnitOfWork, command: Any, job: Any) -> Any:
        if job.status is JobStatus.WAITING and not job.holds:
            job_commands.move_job(unit, job, actions.MoveJob(JobStatus.RUNNING))
            return job_commands.OK
        return keep(unit, command, job)

    keep = participant._HANDLERS[CommandKind.START]
    handlers: Any = {CommandKind.START: start}
    with patch.dict(participant._HANDLERS, handlers), initiator_bugs.takes_a_check_for_a_hold():
        yield


def forgets_what_it_has_reserved() -> AbstractContextManager[Any]:
    """The row of a job that another party refuses goes, and its cores stay in use."""

    def forget(unit: UnitOfWork, job: Any) -> Any:
        unit.tx.forget_seat(job.key)
        return job_commands.OK

    return patch.object(job_commands, "forget_seat", forget)


def starts_a_worker_for_each_request() -> AbstractContextManager[Any]:
    keep = participant._HANDLERS[CommandKind.TASK_START]

    def start(unit: UnitOfWork, command: Any, job: Any) -> Any:
        task = unit.tx.task(command.task_key)
        if task is not None and task.worker_id and not task.is_over_here and job.status is JobStatus.RUNNING:
            return launching.start_worker(unit, job, task)
        return keep(unit, command, job)

    return patch.dict(participant._HANDLERS, {CommandKind.TASK_START: start})  # type: ignore[arg-type]


def no_record_of_a_move() -> AbstractContextManager[Any]:
    def finalise(unit: UnitOfWork, job: Any, reason: Reason, message: str, caused_by: str) -> None:
        ends.release(unit, job)
        now = unit.tx.job(job.key) or job
        unit.tx.move_job(now, actions.MoveJob(ends.job_status_for(reason), reason, message), unit.now, caused_by)

    return patch.object(ends, "finalise", finalise)


def no_record_of_a_version() -> AbstractContextManager[Any]:
    """What the initiator begins again is not written down at the other parties."""
    return patch.object(task_commands, "note_beginning", lambda *_: None)


def nothing_expires() -> AbstractContextManager[Any]:
    return patch.object(Maintenance, "_stands_still", lambda *_: False)


def ended_workers_are_not_told() -> AbstractContextManager[Any]:
    """The party follows its workers to their ends and keeps that to itself."""
    stack = ExitStack()
    for module in (ending, launching, watch):
        stack.enter_context(patch.object(module, "tell_initiator", lambda unit, task: None))
    return stack


def notifies_everybody_of_capacity() -> AbstractContextManager[Any]:
    """However little there is."""
    return patch.object(_Capacity, "takes", lambda *_: True)


def repeats_capacity_notices() -> AbstractContextManager[Any]:
    return patch.object(CapacityNotifier, "_is_notified", lambda *_: False)


def capacity_notices_go_through_the_outbox() -> AbstractContextManager[Any]:
    keep = CapacityNotifier.notify

    def notify(self: Any, unit: UnitOfWork, informed_party: str) -> None:
        keep(self, unit, informed_party)
        stored = (replace(one, id=unit.tx.put_command(one, unit.now, unit.steady)) for one in unit.pending.hints)
        unit.pending = replace(unit.pending, hints=tuple(stored))

    return patch.object(CapacityNotifier, "notify", notify)
