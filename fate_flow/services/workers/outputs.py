"""The outputs of the shares of a task: published when the task has succeeded at all its parties, else dropped."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import JobKey, Task, TaskKey, Worker
from fate_flow.core.model.modules import has_replicas
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_BROKEN, TASK_END, JobStatus, TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.kind import Maker
from fate_flow.services.context.effects import RemoveArtifacts
from fate_flow.services.context.ports import TaskOutputs
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.storing import store_models
from fate_flow.store.views.metrics import joined, summary_of


def settle_outputs(unit: UnitOfWork, job_id: str, move: MoveTask) -> None:
    """Publish the outputs of this party's shares if the task has succeeded at all parties, else drop them.

    This follows the move of the federated status, so it is done once. Until then the outputs exist only in the worker's
    folder and in files that no row names. So no task reads an output of one party while another party still has to
    make its own.

    Raises OperationFailed if it is not known what a share made, unless the job stops: its end waits for nothing. Then
    the task does not become `success` here either: the command is refused, or the initiator does not go on with the
    job, until the engine is back or the job stops."""
    for task in _finished_here(unit, job_id, move):
        if move.new is TaskStatus.SUCCESS:
            if why := publish_outputs(unit, task):
                _go_on_without(unit, task, why)
        elif move.new in TASK_BROKEN:
            _drop(unit, task)


def _finished_here(unit: UnitOfWork, job_id: str, move: MoveTask) -> list[Task]:
    """Return this party's successful shares of a task that ends with this move."""
    if move.new not in TASK_END:
        return []
    keys = [TaskKey(job_id, move.name, move.version, seat.party) for seat in unit.tx.jobs_here(job_id)]
    found = [task for task in map(unit.tx.task, keys) if task is not None and task.runs_here]
    return [task for task in found if task.party_status is TaskStatus.SUCCESS]


def _maker(unit: UnitOfWork, task: Task) -> Worker | None:
    """Return the worker that reports the outputs of this share."""
    if has_replicas(unit.context.modules, task.module):
        every = unit.tx.workers_of_task(task.key)
        return next((one for one in every if one.slot == COLLECTOR), None)
    return unit.tx.worker(task.worker_id) if task.worker_id else None


def why_unknown(unit: UnitOfWork, task: Task) -> str:
    """Return why this party cannot know what its share made: its engine was taken out of the configuration; empty if
    it can."""
    return _why_unknown(unit, task, _maker(unit, task))


def _why_unknown(unit: UnitOfWork, task: Task, maker: Worker | None) -> str:
    why = unit.why_no_engine(maker.engine) if maker is not None else ""
    return f"the outputs of {task.key.name} are not known: {why}" if why else ""


def _made_by(unit: UnitOfWork, maker: Worker | None) -> TaskOutputs:
    return unit.context.engines.of(maker).observe(maker).made if maker is not None else TaskOutputs()


def reported_by(unit: UnitOfWork, job_id: str, party: Party, name: str) -> tuple[Artifact, ...]:
    """Return the artifacts that the newest version of a party task has made, as its worker reports them."""
    task = _newest(unit, job_id, party, name)
    return _made_by(unit, _maker(unit, task)).artifacts if task is not None else ()


def why_not_reported(unit: UnitOfWork, job_id: str, party: Party, name: str) -> str:
    """Return why this party cannot know what the newest version of a party task has made; empty if it can."""
    task = _newest(unit, job_id, party, name)
    return why_unknown(unit, task) if task is not None else ""


def _newest(unit: UnitOfWork, job_id: str, party: Party, name: str) -> Task | None:
    return next((task for task in unit.tx.tasks(job_id) if (task.key.name, task.key.party) == (name, party)), None)


def _drop(unit: UnitOfWork, task: Task) -> None:
    """Drop what only this attempt has, but not what it handed on, and nothing if it is not known what it made."""
    of_attempt = [
        one for one in _made_by(unit, _maker(unit, task)).artifacts
        if unit.context.kinds[one.kind].is_of_attempt(unit.tx, task.key, one)
    ]  # fmt: skip
    if of_attempt:
        unit.after_commit(RemoveArtifacts(tuple(of_attempt)))


def _go_on_without(unit: UnitOfWork, task: Task, why: str) -> None:
    """Let the job end without these outputs if it stops. Raises OperationFailed if it does not."""
    job = unit.tx.job(JobKey(task.key.job_id, task.key.party))
    if job is None or job.status is not JobStatus.STOPPING:
        raise OperationFailed(why)
    unit.note(Event.JOB_WARNING, job_id=job.job_id, text=f"job {job.job_id} ends without them: {why}")


def publish_outputs(unit: UnitOfWork, task: Task) -> str:
    """Store what the worker made: its artifacts, each as its kind says, and the summary.

    Returns why that is not known, and stores nothing then; empty otherwise. Raises StorageFailed."""
    worker = _maker(unit, task)
    if why := _why_unknown(unit, task, worker):
        return why
    made, spec = _made_by(unit, worker), unit.spec(task.key.job_id)
    task_spec = spec.tasks[task.key.name] if spec is not None else None
    most = unit.context.rules.metrics_max_bytes
    maker = Maker(task.key, task_spec, unit.context.modules.get(task.module), unit.now, most)
    listed = dict[str, Any]()
    for name, kind in unit.context.kinds.items():
        artifacts = [one for one in made.artifacts if one.kind == name]
        if text := kind.publish(unit.tx, maker, artifacts):
            unit.note(Event.JOB_WARNING, job_id=task.key.job_id, text=text)
        if kind.is_stored:
            store_models(unit, task, artifacts)
        for key, said in kind.in_summary(artifacts).items():
            listed[key] = {**listed[key], **said} if key in listed else said      # kinds may share a key
    summary = {**(made.summary or _from_metrics(unit, task)), **listed}
    if summary:
        unit.tx.save_summary(task.key, summary, unit.now)
    return ""


def _from_metrics(unit: UnitOfWork, task: Task) -> dict[str, Any]:
    """Return the summary of a task whose component gives none: from the metrics of this version."""
    key = task.key
    pieces = unit.tx.metrics(key.job_id, key.name, key.party)
    return summary_of(joined(one for one in pieces if one.task == key))
