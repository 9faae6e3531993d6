"""The store contract for workers, the processes of shares."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.job import TaskKey, Worker, WorkerEnd, WorkerPlace
from fate_flow.core.model.status import WorkerStatus


class Workers(Protocol):
    """Part of `contract.Transaction`."""

    def add_worker(self, worker: Worker) -> None:
        """Add a worker that the reservation of its job covers."""

    def add_elastic_worker(self, worker: Worker) -> bool:
        """Add an elastic worker and take its cores from its engine: both, or none if the engine has too few."""

    def worker(self, worker_id: str) -> Worker | None: ...

    def unfinished_workers(self) -> tuple[Worker, ...]: ...

    def elastic_workers(self) -> tuple[Worker, ...]:
        """Return the workers that have not exited and hold cores beside the claims of their jobs, by age."""

    def workers_of(self, job_id: str) -> tuple[Worker, ...]: ...

    def workers_of_task(self, key: TaskKey, slot: int | None = None) -> tuple[Worker, ...]:
        """Return the workers of one version of a party task, by age; `slot`: only those in this one."""

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, place: WorkerPlace | None = None,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        """Move the worker: compare-and-set on the status. The exit of an elastic worker gives its cores back to
        its engine.

        `place`: where a worker runs that has started."""

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        """Note that the worker was told to stop; the first reason stays, and an exited worker is not changed."""
