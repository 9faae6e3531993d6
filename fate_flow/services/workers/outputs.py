"""The outputs of the shares of a task: published when the task has succeeded at all its parties, else dropped."""

from __future__ import annotations

from fate_flow.core.model.job import Task, TaskKey
from fate_flow.core.model.modules import has_replicas
from fate_flow.core.model.status import TASK_BROKEN, TASK_END, TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.services.artifacts.kind import Maker
from fate_flow.services.context.effects import RemoveArtifacts
from fate_flow.services.context.ports import TaskOutputs
from fate_flow.services.context.unit_of_work import UnitOfWork


def settle_outputs(unit: UnitOfWork, job_id: str, move: MoveTask) -> None:
    """Publish the outputs of this party's shares if the task has succeeded at all parties, else drop them.

    This follows the move of the federated status, so it is done once. Until then the outputs exist only in the worker's
    folder and in files that no row names. So no task reads an output of one party while another party still has to
    make its own."""
    for task in _finished_here(unit, job_id, move):
        if move.new is TaskStatus.SUCCESS:
            publish_outputs(unit, task)
        elif move.new in TASK_BROKEN:
            _drop(unit, task)


def _finished_here(unit: UnitOfWork, job_id: str, move: MoveTask) -> list[Task]:
    """Return this party's successful shares of a task that ends with this move."""
    if move.new not in TASK_END:
        return []
    keys = [TaskKey(job_id, move.name, move.version, seat.party) for seat in unit.tx.jobs_here(job_id)]
    found = [task for task in map(unit.tx.task, keys) if task is not None and task.runs_here]
    return [task for task in found if task.party_status is TaskStatus.SUCCESS]


def _made_by(unit: UnitOfWork, task: Task) -> TaskOutputs:
    if has_replicas(unit.context.modules, task.module):
        every = unit.tx.workers_of_task(task.key)
        worker = next((one for one in every if one.slot == COLLECTOR), None)
    else:
        worker = unit.tx.worker(task.worker_id) if task.worker_id else None
    return unit.context.engines.of(worker).observe(worker).made if worker is not None else TaskOutputs()


def _drop(unit: UnitOfWork, task: Task) -> None:
    """Drop what only this attempt has, but not what it handed on."""
    of_attempt = [
        one for one in _made_by(unit, task).artifacts
        if unit.context.kinds[one.kind].is_of_attempt(unit.tx, task.key, one)
    ]  # fmt: skip
    if of_attempt:
        unit.after_commit(RemoveArtifacts(tuple(of_attempt)))


def publish_outputs(unit: UnitOfWork, task: Task) -> None:
    """Store what the worker made: its artifacts, each as its kind says, and the summary."""
    made, spec = _made_by(unit, task), unit.spec(task.key.job_id)
    task_spec = spec.tasks[task.key.name] if spec is not None else None
    maker = Maker(task.key, task_spec, unit.context.modules.get(task.module), unit.now)
    summary = dict(made.summary)
    for name, kind in unit.context.kinds.items():
        artifacts = [one for one in made.artifacts if one.kind == name]
        kind.publish(unit.tx, maker, artifacts)
        summary.update(kind.in_summary(artifacts))
    if summary:
        unit.tx.save_summary(task.key, summary, unit.now)
