"""What every store promises of shares of tasks, and of tasks over all their parties."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from fate_flow.core.model.job import Job, Report, Task, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.store.values import Document


class Tasks(Protocol):
    """Part of `contract.Transaction`."""

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:
        """Rows that exist already stay as they are."""

    def task(self, key: TaskKey) -> Task | None: ...

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        """The newest version of each task, in the rows of all parties."""

    def stopping_tasks(self) -> tuple[Task, ...]:
        """Rows whose federated status is `stopping`, by age."""

    def jobs_with_moving_tasks(self, job_ids: Collection[str]) -> frozenset[str]:
        """Those of these jobs with a task that stops, with a share that stops or has ended badly while the task goes
        on, or with a later version of a task that waits."""

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        """The federated status, in all rows of that version here."""

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
    ) -> bool:
        """Compare-and-set on party status and incarnation."""

    def note_restart(self, key: TaskKey) -> bool:
        """The share is stopped in order to begin again, as the initiator of its job says; True when that is new."""

    def take_report(self, task: Task, report: Report) -> bool:
        """The same in the row that the initiator holds for another party."""

    def count_failed_workers(self, key: TaskKey, count: int) -> None:
        """So many workers of this party task have failed; a lower number than is known is old."""

    def failed_workers(self, job_id: str) -> int:
        """The sum of those counts over all tasks, parties and versions, since the job's run began."""

    def set_worker(self, key: TaskKey, worker_id: str, without: tuple[str, ...] = ()) -> bool:
        """Its worker, and the parties that it runs without; False when the party task has a worker already."""
