"""The store contract for tasks: the shares of parties, and the federated status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from fate_flow.core.model.job import Job, Report, Task, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.store.values import Document


class Tasks(Protocol):
    """Part of `contract.Transaction`."""

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:
        """Add rows; rows that exist already stay as they are."""

    def task(self, key: TaskKey) -> Task | None: ...

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        """Return the newest version of each task, in the rows of all parties."""

    def stopping_tasks(self) -> tuple[Task, ...]:
        """Return the rows whose federated status is `stopping`, by age."""

    def jobs_with_moving_tasks(self, job_ids: Collection[str]) -> frozenset[str]:
        """Return those of these jobs that have a task that is stopping, a share that stops or has ended badly while the
        task goes on, or a later version of a task that waits."""

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        """Move the federated status, in all rows of that version here."""

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
    ) -> bool:
        """Move the party status: compare-and-set on party status and incarnation."""

    def note_waiting(self, key: TaskKey, text: str, at: int, *, counts_anew: bool = False) -> bool:
        """Store what a share waits for that has not begun; True if that is new. `at`: steady time; it counts if the
        share did not wait for anything before, or the new text `counts_anew`."""

    def note_restart(self, key: TaskKey) -> bool:
        """Note that the share is stopped to start again, as the job's initiator says; True if that is new."""

    def take_report(self, task: Task, report: Report) -> bool:
        """Move the party status in the row that the initiator keeps for another party, by its report."""

    def count_failed_workers(self, key: TaskKey, count: int) -> None:
        """Store how many workers of this party task have failed; a lower number than the stored one is outdated."""

    def failed_workers(self, job_id: str) -> int:
        """Return the sum of these counts over all tasks, parties and versions, since the job's run began."""

    def set_worker(
        self, key: TaskKey, worker_id: str, without: tuple[str, ...] = (),
        provider_info: Mapping[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        """Store its worker, and the parties that it runs without; False if the party task has a worker already.

        `provider_info`: what clients see of the provider of its component. No decision reads it."""
