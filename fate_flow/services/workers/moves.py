"""Writing the states of tasks, of this party's shares and of its workers, with the history and the log lines."""

from __future__ import annotations

from fate_flow.core.metrics.spans import Step, StepName, span_of_worker
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Claim, Task, TaskKey, Worker, WorkerEnd, WorkerPlace
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.elastic import held_by
from fate_flow.core.planning.participant.share_end import end_of_worker
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.tracing import did
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.outputs import settle_outputs


def move_party_task(
    unit: UnitOfWork, task: Task, new: TaskStatus, reason: Reason | None = None, message: str = "",
    target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
) -> bool:  # fmt: skip
    """Write the party status, with the log lines for operators. Returns False if the row has moved on."""
    caused_by = (caused_by or str(task.key.party)) if reason else ""
    unit.note(Event.TASK_STATUS_ASKED, **version_fields(task.key))
    done = unit.tx.move_party_task(task, new, unit.now, reason, message, target, exit_code, caused_by)
    if done:
        note_share(unit, task, new, reason, message, caused_by)
    event = Event.TASK_STATUS_WRITTEN if done else Event.TASK_STATUS_UNCHANGED
    unit.note(event, info={"party_status": new.value}, **version_fields(task.key))
    return done


def move_federated(unit: UnitOfWork, job_id: str, move: MoveTask, is_decided: bool = True) -> None:
    """Write a federated status that another party has decided, or that follows from the end of the job.

    `is_decided`: the initiator has decided it. A task that only ends here with the job may have succeeded everywhere,
    and a rerun may keep it, so its outputs are not dropped."""
    version = {"job_id": job_id, "task_id": f"{job_id}_{move.name}", "task_version": move.version}
    unit.note(Event.TASK_STATUS_ASKED, **version)
    done = unit.tx.move_task(job_id, move, unit.now)
    if done:
        note_task(unit, job_id, move)
        if is_decided or move.new is TaskStatus.SUCCESS:
            settle_outputs(unit, job_id, move)
    event = Event.TASK_STATUS_WRITTEN if done else Event.TASK_STATUS_UNCHANGED
    unit.note(event, info={"status": move.new.value}, **version)


def note_share(
    unit: UnitOfWork, task: Task, new: TaskStatus, reason: Reason | None, message: str, caused_by: str = ""
) -> None:
    """Add to the history that the share of one party in a task has moved."""
    key = task.key
    unit.moves(
        HistoryLevel.PARTY_TASK, key.job_id, task.party_status, new, party=key.party, task=key.name,
        version=key.version,
        reason=reason, message=message, caused_by=caused_by,
    )  # fmt: skip


def note_task(unit: UnitOfWork, job_id: str, move: MoveTask) -> None:
    """Add to the history that the federated status of a task has moved."""
    unit.moves(
        HistoryLevel.TASK, job_id, move.old, move.new, task=move.name, version=move.version, reason=move.reason,
        message=move.message, caused_by=move.caused_by,
        exit_status=exit_text(move.exit_code),
    )  # fmt: skip


def note_version(
    unit: UnitOfWork, key: TaskKey, caused_by: str, reason: Reason | None = None, message: str = ""
) -> None:
    """Add to the history that a version of a task begins at all its parties: why, and which party is the cause."""
    unit.moves(
        HistoryLevel.TASK, key.job_id, None, TaskStatus.WAITING, task=key.name, version=key.version, reason=reason,
        message=message, caused_by=caused_by,
    )  # fmt: skip


def _which(worker: Worker) -> str:
    """Return text that names one of several workers; empty for the first one of its party task."""
    if worker.slot == 0 == worker.attempt:
        return ""
    if worker.slot == COLLECTOR:
        return "collects the outputs"
    without = "elastic" if worker.is_elastic else "spare"
    rank = without if worker.rank is None else f"rank {worker.rank}"
    return f"worker {worker.slot} ({rank}), process {worker.attempt}"


def exit_text(code: int | None) -> str:
    """Return an exit code as text for the history; empty if there is none."""
    return "" if code is None else f"exit code {code}"


def exit_worker(
    unit: UnitOfWork, worker: Worker, task: Task, reason: Reason, message: str, exit_status: str = ""
) -> None:
    """Write that a worker has exited: with the reason of its stop if it was told to stop, else with this reason."""
    move_worker(unit, worker, WorkerStatus.EXITED, end=end_of_worker(worker, task, reason, message, exit_status))


def move_worker(
    unit: UnitOfWork, worker: Worker, new: WorkerStatus, place: WorkerPlace | None = None, end: WorkerEnd | None = None
) -> None:
    """Write the state of a worker, and note that its own cores came free if it has exited."""
    if unit.tx.move_worker(worker, new, unit.now, place, end):
        key, given = worker.task, end.message if end else ""
        unit.moves(
            HistoryLevel.WORKER, key.job_id, worker.status, new, party=key.party, task=key.name, version=key.version,
            reason=end.reason if end else None, message=": ".join(filter(None, (_which(worker), given))),
            caused_by=end.caused_by if end else "", exit_status=end.exit_status if end else "",
        )  # fmt: skip
        if new is WorkerStatus.EXITED:
            why = end.reason.value if end and end.reason else ""
            begun = span_of_worker(worker.worker_id)
            did(unit, Step(StepName.WORKER_ENDED, key.job_id, key.party, key.name, key.version, why, after=begun))
        if new is WorkerStatus.EXITED and held_by(worker) != Claim():
            unit.free(unit.context.party_id, key.job_id)


def version_fields(key: TaskKey) -> dict[str, object]:
    """Return the fields that name a version of a task in the operator log."""
    return {"job_id": key.job_id, "task_id": key.task_id, "task_version": key.version}


def place_fields(key: TaskKey) -> dict[str, object]:
    """Return the fields that name one party's share in a version of a task in the operator log."""
    return {**version_fields(key), "role": key.party.role, "party_id": key.party.party_id}


def read_again(unit: UnitOfWork, task: Task) -> Task:
    """Return the task as it is now in this transaction."""
    found = unit.tx.task(task.key)
    assert found is not None, "a task row is never removed while its job runs"
    return found
