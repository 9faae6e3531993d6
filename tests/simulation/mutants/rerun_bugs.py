"""Deliberate bugs in the next run of a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.actions as actions
import fate_flow.core.planning.plan_round as plan_round
from fate_flow.core.model.reasons import Reason
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant import ends, job_commands, next_run, participant
from fate_flow.services.workers import ending
from fate_flow.store.memory import jobs as memory_jobs


def a_rerun_keeps_the_run() -> AbstractContextManager[Any]:
    keep = memory_jobs.begun_again
    return patch.object(memory_jobs, "begun_again", lambda job, _, *rest, **more: keep(job, job.run, *rest, **more))


def a_rerun_forgets_the_parameters() -> AbstractContextManager[Any]:
    """Of whoever has missed the message."""
    return patch.object(job_commands, "with_parameters", lambda _, __, job: job)


@contextmanager
def takes_a_rerun_while_it_drains() -> Iterator[None]:
    """The share of the last run is written off, its workers are left to themselves."""

    def end_last_run(unit: UnitOfWork, command: Any, job: Any) -> Any:
        ends.finalise(unit, keep(unit, command, job), Reason.STOPPED, "", "")
        for task in unit.tx.tasks(job.job_id):
            if task.key.party == job.party:
                ending.finish_party_task(unit, task, Reason.STOPPED, "")
        return unit.tx.job(job.key)

    keep = job_commands.end_last_run
    with (
        patch.object(job_commands, "end_last_run", end_last_run),
        patch.object(job_commands, "has_workers", lambda *_: False),
    ):
        yield


def has_a_reservation_round_before_all_know() -> AbstractContextManager[Any]:
    return patch.object(plan_round, "_plan_rejoin", lambda view: iter([actions.AllRejoined()]))


def a_long_wait_keeps_the_cores() -> AbstractContextManager[Any]:
    keep = job_commands.requeue_job

    def requeue_job(unit: UnitOfWork, job: Any, *rest: Any) -> None:
        with patch.object(next_run, "release"):
            keep(unit, job, *rest)

    return patch.object(job_commands, "requeue_job", requeue_job)


def commands_of_the_last_run_count() -> AbstractContextManager[Any]:
    keep = participant.Participant._command

    def command_of_any_run(self: Any, unit: UnitOfWork, command: Any, caller: str) -> Any:
        job = unit.tx.job(participant.JobKey(command.job_id, command.to))
        newest = command.run if job is None else max(command.run, job.run)
        return keep(self, unit, replace(command, run=newest), caller)

    return patch.object(participant.Participant, "_command", command_of_any_run)
