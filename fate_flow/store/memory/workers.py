"""Workers, in memory; the counterpart of `sql/workers.py`."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Claim, TaskKey, Worker, WorkerEnd, WorkerPlace
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.elastic import held_by
from fate_flow.store.contract.changes import UNFINISHED_WORKERS, new_worker, ordered_to_stop, worker_moved
from fate_flow.store.memory.resources import Resources, has_capacity
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, refuse


class Workers(Resources):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_worker(self, worker: Worker) -> None:
        refuse("PRIMARY KEY of t_worker", worker.worker_id in self._rows.workers.rows)
        self._rows.workers.put(worker.worker_id, new_worker(worker))

    def add_elastic_worker(self, worker: Worker) -> bool:
        engine = self.engine(worker.engine)
        if engine is None or not has_capacity(engine, held_by(worker)):
            return False
        self._take(engine, held_by(worker))
        self.add_worker(worker)
        return True

    def worker(self, worker_id: str) -> Worker | None:
        return self._rows.workers.rows.get(worker_id)

    def unfinished_workers(self) -> tuple[Worker, ...]:
        workers = self._rows.workers
        return _in_order(worker for status in UNFINISHED_WORKERS for worker in workers.of(BY_STATUS, status))

    def elastic_workers(self) -> tuple[Worker, ...]:
        return tuple(worker for worker in self.unfinished_workers() if worker.is_elastic)

    def workers_of(self, job_id: str) -> tuple[Worker, ...]:
        return _in_order(self._rows.workers.of(BY_JOB, job_id))

    def workers_of_task(self, key: TaskKey, slot: int | None = None) -> tuple[Worker, ...]:
        return _in_order(
            worker for worker in self._rows.workers.of(BY_JOB, key.job_id)
            if worker.task == key and slot in (None, worker.slot)
        )  # fmt: skip

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, place: WorkerPlace | None = None,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        change = worker_moved(worker, new, at, place, end)
        row = self._rows.workers.rows.get(worker.worker_id)
        if row is None or row.status is not worker.status:
            return False
        moved = changed(row, **change)
        refuse("ck_worker_reason", new is WorkerStatus.EXITED and not moved.caused_by)
        self._rows.workers.put(row.worker_id, moved)
        engine = self.engine(row.engine)
        if new is WorkerStatus.EXITED and engine is not None and held_by(row) != Claim():
            self._come_back(engine, held_by(row))
        return True

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        row = self._rows.workers.rows.get(worker_id)
        if row is not None and row.status in UNFINISHED_WORKERS and not row.is_stopping:
            self._rows.workers.put(worker_id, changed(row, **ordered_to_stop(why)))


def _in_order(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    return tuple(sorted(workers, key=lambda worker: (worker.create_time, worker.worker_id)))
