"""Tasks, in memory; the counterpart of `sql/tasks.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Job, Report, Task, TaskKey
from fate_flow.core.model.policy import PolicyAction
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TASK_END, TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.store.contract.changes import (
    federated_moved,
    is_moving,
    new_task,
    newest_tasks,
    task_moved,
    task_reported,
)
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, refuse
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Document


class Tasks(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:  # noqa: ARG002
        for task in tasks:
            if task.key not in self._tasks.rows:
                refuse("ck_task_ended", task.party_status in TASK_END)
                refuse("ck_task_federated_ended", task.is_final)
                self._tasks.put(task.key, new_task(task))

    def task(self, key: TaskKey) -> Task | None:
        return self._tasks.rows.get(key)

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        newest = newest_tasks(self._tasks.of(BY_JOB, job_id))
        return tuple(sorted(newest, key=lambda task: (task.create_time, task.key)))

    def stopping_tasks(self) -> tuple[Task, ...]:
        stopping = self._tasks.of(BY_STATUS, TaskStatus.STOPPING)
        return tuple(sorted(stopping, key=lambda task: (task.create_time, task.key)))

    def jobs_with_moving_tasks(self, job_ids: Collection[str]) -> frozenset[str]:
        return frozenset(one for one in job_ids if any(map(is_moving, self._tasks.of(BY_JOB, one))))

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        change = federated_moved(move, at)
        rows = [
            task
            for task in self._tasks.of(BY_JOB, job_id)
            if task.key.name == move.name and task.key.version == move.version and task.status is move.old
        ]
        for task in rows:
            new = changed(task, **change)
            refuse("ck_task_federated_reason", new.is_final and new.federated_reason is None)
            self._tasks.put(task.key, new)
        return bool(rows)

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
    ) -> bool:  # fmt: skip
        return self._change_task(task, task_moved(task, new, at, reason, message, target, exit_code, caused_by))

    def note_waiting(self, key: TaskKey, text: str, at: int, *, counts_anew: bool = False) -> bool:
        row = self._tasks.rows.get(key)
        if row is None or row.party_status is not TaskStatus.WAITING or row.waits == text:
            return False
        since = at if counts_anew else row.waits_since or at
        self._tasks.put(key, changed(row, waits=text, waits_since=since))
        return True

    def note_restart(self, key: TaskKey) -> bool:
        row = self._tasks.rows.get(key)
        if row is None or row.policy:
            return False
        self._tasks.put(key, changed(row, policy=PolicyAction.RESTART_TASK.value))
        return True

    def take_report(self, task: Task, report: Report) -> bool:
        change = task_reported(task, report)
        return change is not None and self._change_task(task, change)

    def _change_task(self, task: Task, change: Mapping[str, Any]) -> bool:
        row = self._tasks.rows.get(task.key)
        if row is None or row.party_status is not task.party_status or row.incarnation != task.incarnation:
            return False
        self._tasks.put(task.key, changed(row, **change))
        return True

    def count_failed_workers(self, key: TaskKey, count: int) -> None:
        failed = self._rows.failed_workers
        if key in self._tasks.rows and failed.rows.get(key, (key, 0))[1] < count:
            failed.put(key, (key, count))

    def failed_workers(self, job_id: str) -> int:
        return sum(count for _, count in self._rows.failed_workers.of(BY_JOB, job_id))

    def set_worker(
        self, key: TaskKey, worker_id: str, without: tuple[str, ...] = (),
        provider_info: Mapping[str, Any] | None = None,  # noqa: ARG002  # no client reads these rows
    ) -> bool:  # fmt: skip
        row = self._tasks.rows.get(key)
        if row is None or row.worker_id:
            return False
        self._tasks.put(key, changed(row, worker_id=worker_id, without=without))
        return True
