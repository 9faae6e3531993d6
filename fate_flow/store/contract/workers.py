"""What every store promises of the processes of shares."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.job import TaskKey, Worker, WorkerEnd
from fate_flow.core.model.status import WorkerStatus


class Workers(Protocol):
    """Part of `contract.Transaction`."""

    def add_worker(self, worker: Worker) -> None:
        """One that works with what its job has reserved."""

    def add_elastic_worker(self, worker: Worker) -> bool:
        """The row, and what the worker holds from the engine: both, or none where the engine has less."""

    def worker(self, worker_id: str) -> Worker | None: ...

    def unfinished_workers(self) -> tuple[Worker, ...]: ...

    def elastic_workers(self) -> tuple[Worker, ...]:
        """Those that have not exited and hold something beside the claims of their jobs, by age."""

    def workers_of(self, job_id: str) -> tuple[Worker, ...]: ...

    def workers_of_task(self, key: TaskKey) -> tuple[Worker, ...]:
        """Those of one version of a party task, by age."""

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, pid: int = 0, pid_started: int = 0,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        """Compare-and-set on the status. What an elastic worker holds goes back to the engine when it has exited."""

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        """It has been told to stop; what it was told first stands, and one that has exited stays as it is."""
