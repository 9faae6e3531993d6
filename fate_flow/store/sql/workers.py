"""Workers: the processes of shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from peewee import Value

from fate_flow.core.model.job import TaskKey, Worker, WorkerEnd, WorkerPlace
from fate_flow.core.model.status import WorkerStatus
from fate_flow.store.contract.changes import new_worker, ordered_to_stop, worker_moved
from fate_flow.store.database.models import TaskRow, WorkerRow
from fate_flow.store.database.prepared import Prepared, insert, update
from fate_flow.store.database.queries import hit, is_going_on, task_is
from fate_flow.store.database.rows import WORKER_COLUMNS, WORKERS, worker_of
from fate_flow.store.sql.resources import Resources, come_back, taking


class Workers(Resources):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_worker(self, worker: Worker) -> None:
        derived = {"f_worker_name": "task_executor", "f_task_id": worker.task.task_id}
        insert(self._database, WorkerRow, WORKERS.row_of(new_worker(worker)) | derived)

    def add_elastic_worker(self, worker: Worker) -> bool:
        if self.engine(worker.engine) is None:
            return False
        holds = worker.cores or worker.memory or worker.gpus
        if holds and not hit(taking(worker.engine, worker.cores, worker.memory, worker.gpus)):
            return False
        self.add_worker(worker)
        return True

    def worker(self, worker_id: str) -> Worker | None:
        row = _WORKER.row(self._database, worker_id)
        return worker_of(row) if row else None

    def unfinished_workers(self) -> tuple[Worker, ...]:
        return tuple(worker_of(row) for row in _UNFINISHED_WORKERS.rows(self._database))

    def elastic_workers(self) -> tuple[Worker, ...]:
        return tuple(worker_of(row) for row in _ELASTIC_WORKERS.rows(self._database))

    def workers_of(self, job_id: str) -> tuple[Worker, ...]:
        return _by_age(_OF_JOB.made(self._database, worker_of, job_id))

    def workers_of_task(self, key: TaskKey, slot: int | None = None) -> tuple[Worker, ...]:
        of_task = (key.job_id, key.name, key.version, key.party.role, key.party.party_id)
        if slot is None:
            return _by_age(_OF_TASK.made(self._database, worker_of, *of_task))
        return _by_age(_OF_SLOT.made(self._database, worker_of, *of_task, slot))

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, place: WorkerPlace | None = None,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        values = WORKERS.columns_of(worker_moved(worker, new, at, place, end))
        as_read = (("f_worker_id", worker.worker_id), ("f_status", worker.status.value))
        if not update(self._database, WorkerRow, values, as_read):
            return False
        if place is not None:
            hit(TaskRow.update(f_run_pid=place.pid).where(task_is(worker.task)))
        if new is WorkerStatus.EXITED:
            come_back(worker.engine, worker.cores, worker.memory, worker.gpus)
        return True

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        where = (WorkerRow.f_worker_id == worker_id) & is_going_on() & (WorkerRow.f_stopping == False)  # noqa: E712
        WorkerRow.update(**WORKERS.columns_of(ordered_to_stop(why))).where(where).execute()


_WORKER = Prepared(
    lambda worker_id: WorkerRow.select(*WORKER_COLUMNS).where(WorkerRow.f_worker_id == worker_id), 1
)


_OF_JOB = Prepared(lambda job_id: WorkerRow.select(*WORKER_COLUMNS).where(WorkerRow.f_job_id == job_id), 1)
_OF_TASK = Prepared(lambda *task: WorkerRow.select(*WORKER_COLUMNS).where(_is_of_task(*task)), 5)
_OF_SLOT = Prepared(
    lambda job_id, name, version, role, party_id, slot: WorkerRow.select(*WORKER_COLUMNS).where(
        _is_of_task(job_id, name, version, role, party_id) & (WorkerRow.f_slot == Value(slot, converter=False))
    ),
    6,
)


def _is_of_task(job_id: str, name: str, version: str, role: str, party_id: str) -> Any:
    return (
        (WorkerRow.f_job_id == job_id)
        & (WorkerRow.f_component_name == name)
        & (WorkerRow.f_task_version == Value(version, converter=False))
        & (WorkerRow.f_role == role)
        & (WorkerRow.f_party_id == party_id)
    )


def _by_age(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    return tuple(sorted(workers, key=lambda worker: (worker.create_time, worker.worker_id)))


_UNFINISHED_WORKERS = Prepared(
    lambda: (
        WorkerRow.select(*WORKER_COLUMNS)
        # The statuses are listed, because SQLite uses no index for `<>`.
        .where(is_going_on())
        .order_by(WorkerRow.f_create_time, WorkerRow.f_worker_id)
    ),
    0,
)
_ELASTIC_WORKERS = Prepared(
    lambda: (
        WorkerRow.select(*WORKER_COLUMNS)
        .where(is_going_on() & (WorkerRow.f_elastic == True))  # noqa: E712
        .order_by(WorkerRow.f_create_time, WorkerRow.f_worker_id)
    ),
    0,
)
