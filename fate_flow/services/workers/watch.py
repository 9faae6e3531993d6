"""Observing workers, and following them to their ends.

The state of a worker is what its engine observes, never what a message says.
"""

from __future__ import annotations

from fate_flow.core.model.job import Task, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.gang import GATHERED, may_begin
from fate_flow.core.planning.participant.share_end import code_that_counts, how_it_ended
from fate_flow.core.planning.participant.share_steps import LaunchStep, is_to_end, plan_launch
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import ReleaseWorker
from fate_flow.services.context.ports import Observation, seen_without_engine
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.storing import models_text
from fate_flow.services.workers.ending import stop_worker
from fate_flow.services.workers.launching import continue_share, launch_later
from fate_flow.services.workers.moves import (
    exit_text,
    exit_worker,
    move_party_task,
    move_worker,
    place_fields,
    read_again,
)
from fate_flow.services.workers.recorded_workers import record_end
from fate_flow.services.workers.reports import tell_initiator


class WorkerWatch:
    """Observes workers and moves their party tasks accordingly."""

    def observe(self, unit: UnitOfWork, worker_id: str) -> None:
        """Observe one worker, after an event or because it is due."""
        worker = unit.tx.worker(worker_id)
        if worker is not None and worker.status is not WorkerStatus.EXITED:
            self._follow(unit, worker)

    def observe_all(self, unit: UnitOfWork) -> None:
        """Observe every worker that has not exited, in case an event was lost."""
        for worker in unit.tx.unfinished_workers():
            with unit.isolated(f"worker {worker.worker_id} of {worker.task}"):
                self._follow(unit, worker)

    def _follow(self, unit: UnitOfWork, worker: Worker) -> None:
        task = unit.tx.task(worker.task)
        if task is None:
            return
        observation = _observed(unit, worker)
        if observation.state == "created":
            if observation.is_placed:
                self._await_place(unit, worker, task, observation)
            else:
                self._await_launch(unit, worker, task)
            return
        if worker.status is WorkerStatus.CREATED and observation.place is not None:
            worker, task = self._started(unit, worker, task, observation)
        if observation.state in ("exited", "lost"):
            self._ended(unit, worker, task, observation)
        elif is_to_end(worker, task):
            stop_worker(unit, worker)

    def _await_place(self, unit: UnitOfWork, worker: Worker, task: Task, seen: Observation) -> None:
        """Say what it waits for. Its engine counts how long it may."""
        if is_to_end(worker, task):
            stop_worker(unit, worker)
        elif seen.has_arrived and may_begin(task):      # or the effect of its release was lost
            unit.after_commit(ReleaseWorker(worker))
        elif not seen.has_arrived:
            _note_waiting(unit, task, seen.waits)
        elif _has_gathered(unit, worker):
            _note_waiting(unit, task, GATHERED)

    def _await_launch(self, unit: UnitOfWork, worker: Worker, task: Task) -> None:
        if is_to_end(worker, task):
            stop_worker(unit, worker)
        rules = unit.context.rules
        step = plan_launch(
            worker, task, unit.steady - worker.since, longest=rules.launch, again_after=rules.poll_interval
        )
        if step is LaunchStep.GIVE_UP:
            self._give_up(unit, worker, task)
        elif step is LaunchStep.AGAIN and (spec := unit.spec(worker.task.job_id)) is not None:
            launch_later(unit, worker, task, spec)      # a launch is idempotent by worker id
            now = unit.tx.worker(worker.worker_id)
            if now is not None and now.status is WorkerStatus.EXITED:
                stop_worker(unit, worker)      # it is refused now, and the first order may only be late

    def _give_up(self, unit: UnitOfWork, worker: Worker, task: Task) -> None:
        problem = unit.context.launch_problems.pop(worker.worker_id, "")
        text = f"no process started within {unit.context.rules.launch // 1000} s"
        message = f"{text}: {problem}" if problem else text
        exit_worker(unit, worker, task, Reason.LAUNCH_FAILED, message)
        stop_worker(unit, worker)      # if the process starts after all, it must not run beside the next attempt
        continue_share(unit, task, Reason.LAUNCH_FAILED, message)

    def _started(self, unit: UnitOfWork, worker: Worker, task: Task, observation: Observation) -> tuple[Worker, Task]:
        move_worker(unit, worker, WorkerStatus.RUNNING, observation.place)
        unit.note(Event.EXECUTOR_STARTED, outcome="success", **place_fields(task.key))
        if task.party_status is TaskStatus.WAITING:
            move_party_task(unit, task, TaskStatus.RUNNING)
            task = read_again(unit, task)
            tell_initiator(unit, task)
        return unit.tx.worker(worker.worker_id) or worker, task

    def _ended(self, unit: UnitOfWork, worker: Worker, task: Task, observation: Observation) -> None:
        seen = observation.exit
        reason, message = how_it_ended(task, seen)
        exit_worker(unit, worker, task, reason, message, _exit_text(observation))
        record_end(unit, worker, reason, observation)
        unit.context.launch_problems.pop(worker.worker_id, None)
        if reason is Reason.DONE:
            message = message or models_text(unit, task, observation.made.artifacts)
        if task.is_over_here:
            return          # the job did not wait for it, so its outputs do not count
        if reason is not Reason.DONE and not is_to_end(worker, task):
            _note_error(unit, task, f"{reason.value}: {message}")
        continue_share(unit, task, reason, message, code_that_counts(seen))


def _note_waiting(unit: UnitOfWork, task: Task, waits: str) -> None:
    if task.party_status is not TaskStatus.WAITING:
        return
    if unit.tx.note_waiting(task.key, waits, unit.steady, counts_anew=waits == GATHERED):
        tell_initiator(unit, read_again(unit, task))


def _has_gathered(unit: UnitOfWork, worker: Worker) -> bool:
    """Return whether all workers of a share have arrived, of which this one has. The first of them looks for all."""
    first, *others = (one for one in unit.tx.workers_of_task(worker.task) if one.status is not WorkerStatus.EXITED)
    return worker.worker_id == first.worker_id and all(_observed(unit, one).has_arrived for one in others)


def _observed(unit: UnitOfWork, worker: Worker) -> Observation:
    why = unit.why_no_engine(worker.engine)
    return seen_without_engine(worker, why) if why else unit.context.engines.of(worker).observe(worker)


def _exit_text(observation: Observation) -> str:
    if observation.exit_code is not None:
        return exit_text(observation.exit_code)
    return f"signal {observation.signal}" if observation.signal is not None else observation.cause or observation.state


def _note_error(unit: UnitOfWork, task: Task, report: str) -> None:
    key = task.key
    unit.note(
        Event.TASK_ERROR_REPORT, job_id=key.job_id, role=key.party.role, party_id=key.party.party_id,
        task_id=key.task_id, report=report,
    )  # fmt: skip
