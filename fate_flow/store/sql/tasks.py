"""Tasks: the shares of parties, and the federated status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from peewee import Case, Database, Value, fn

from fate_flow.core.model.job import Job, Report, Task, TaskKey
from fate_flow.core.model.policy import PolicyAction
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.store.contract.changes import (
    SHARE_MOVING,
    Change,
    federated_moved,
    new_task,
    newest_tasks,
    task_moved,
    task_reported,
)
from fate_flow.store.database.json_text import to_json
from fate_flow.store.database.models import TaskRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new, task_is
from fate_flow.store.database.rows import TASK_COLUMNS, TASKS, date, task_of, with_dates
from fate_flow.store.sql.unit import Pairs, SqlUnitOfWork
from fate_flow.store.values import Document


class Tasks(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:
        for task in tasks:
            insert_new(self._database, TaskRow, _task_values(task, job, document), task_is(task.key))

    def task(self, key: TaskKey) -> Task | None:
        party = key.party
        values = (key.job_id, key.task_id, key.version, party.role, party.party_id)
        return next(iter(_TASK.made(self._database, task_of, *values)), None)

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        return newest_tasks(tasks_in_all_versions(self._database, job_id))

    def stopping_tasks(self) -> tuple[Task, ...]:
        return tuple(task_of(row) for row in _STOPPING_TASKS.rows(self._database))

    def jobs_with_moving_tasks(self, job_ids: Collection[str]) -> frozenset[str]:
        wanted, found = sorted(job_ids), set[str]()
        for begin in range(0, len(wanted), _MOST_JOBS):
            of_these = TaskRow.f_job_id.in_(wanted[begin:begin + _MOST_JOBS])
            found.update(job_id for (job_id,) in TaskRow.select(TaskRow.f_job_id).where(of_these, _IS_MOVING).tuples())
        return frozenset(found)

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        values = TASKS.columns_of(federated_moved(move, at))
        where = (
            ("f_job_id", job_id), ("f_task_id", f"{job_id}_{move.name}"), ("f_task_version", move.version),
            ("f_status", move.old.value),
        )  # fmt: skip
        return self._update(job_id, TaskRow, values, where)

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
    ) -> bool:  # fmt: skip
        return self._change_task(task, task_moved(task, new, at, reason, message, target, exit_code, caused_by))

    def note_waiting(self, key: TaskKey, text: str, at: int, *, counts_anew: bool = False) -> bool:
        note = _WAITS_ANEW if counts_anew else _WAITS
        values = (at, text, key.job_id, key.task_id, key.version, key.party.role, key.party.party_id)
        return self._run(key.job_id, *note.text(self._database, *values))

    def note_restart(self, key: TaskKey) -> bool:
        where = task_is(key) & (TaskRow.f_policy == "")
        return self._write(key.job_id, TaskRow.update(f_policy=PolicyAction.RESTART_TASK.value).where(where))

    def take_report(self, task: Task, report: Report) -> bool:
        change = task_reported(task, report)
        return change is not None and self._change_task(task, change)

    def _change_task(self, task: Task, change: Change) -> bool:
        values = with_dates(TASKS.columns_of(change))
        began = change.get("start_time") or task.start_time
        if began and "end_time" in change:
            values["f_elapsed"] = max(0, change["end_time"] - began)
        return self._update(task.key.job_id, TaskRow, values, _as_read(task))

    def count_failed_workers(self, key: TaskKey, count: int) -> None:
        where = task_is(key) & (TaskRow.f_failed_workers < count)
        TaskRow.update(f_failed_workers=count).where(where).execute()

    def failed_workers(self, job_id: str) -> int:
        query = TaskRow.select(fn.SUM(TaskRow.f_failed_workers)).where(TaskRow.f_job_id == job_id)
        return int(query.scalar() or 0)

    def set_worker(
        self, key: TaskKey, worker_id: str, without: tuple[str, ...] = (),
        provider_info: Mapping[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        where = task_is(key) & TaskRow.f_worker_id.is_null()
        values = {
            "f_worker_id": worker_id,
            "f_without_parties": to_json(list(without)) if without else None,
            "f_provider_info": to_json(provider_info) if provider_info else None,
        }
        return hit(TaskRow.update(**values).where(where))


def _is_it(job_id: str, task_id: str, version: str, role: str, party_id: str) -> Any:
    return (
        (TaskRow.f_job_id == job_id)
        & (TaskRow.f_task_id == task_id)
        & (TaskRow.f_task_version == Value(version, converter=False))
        & (TaskRow.f_role == role)
        & (TaskRow.f_party_id == party_id)
    )


def _noted(text: str, key: Sequence[str], since: Any) -> Any:
    is_new = (TaskRow.f_party_status == TaskStatus.WAITING.value) & (TaskRow.f_waits != text)
    return TaskRow.update(f_waits_since=since, f_waits=text).where(_is_it(*key) & is_new)


_TASK = Prepared(lambda *key: TaskRow.select(*TASK_COLUMNS).where(_is_it(*key)), 5)
_WAITS_ANEW = Prepared(lambda at, text, *key: _noted(text, key, Value(at, converter=False)), 7)
_WAITS = Prepared(
    lambda at, text, *key: _noted(
        text, key, Case(None, [(TaskRow.f_waits_since == 0, Value(at, converter=False))], TaskRow.f_waits_since)
    ),
    7,
)
_TASKS = Prepared(
    lambda job_id: (
        TaskRow.select(*TASK_COLUMNS)
        .where(TaskRow.f_job_id == job_id)
        .order_by(
            TaskRow.f_create_time, TaskRow.f_task_id, TaskRow.f_task_version, TaskRow.f_role, TaskRow.f_party_id
        )
    ),
    1,
)
_MOST_JOBS = 500           # in one query; SQLite allows so many variables
_IS_MOVING = (
    (TaskRow.f_status == TaskStatus.STOPPING.value)
    | ((TaskRow.f_status == TaskStatus.WAITING.value) & (TaskRow.f_task_version > 0))
    | (
        (TaskRow.f_status == TaskStatus.RUNNING.value)
        & (
            TaskRow.f_party_status.in_(sorted(one.value for one in SHARE_MOVING))
            | ((TaskRow.f_party_status == TaskStatus.WAITING.value) & (TaskRow.f_waits != ""))
        )
    )
)  # fmt: skip
_STOPPING_TASKS = Prepared(
    lambda: (
        TaskRow.select(*TASK_COLUMNS)
        .where(TaskRow.f_status == TaskStatus.STOPPING.value)
        .order_by(
            TaskRow.f_create_time, TaskRow.f_job_id, TaskRow.f_task_id, TaskRow.f_task_version, TaskRow.f_role,
            TaskRow.f_party_id,
        )
    ),
    0,
)


def tasks_in_all_versions(database: Database, job_id: str) -> tuple[Task, ...]:
    """Return the party tasks of a job, those of earlier versions, too, in one query."""
    return _TASKS.made(database, task_of, job_id)


def _as_read(task: Task) -> Pairs:
    """Return what the row has if it has not moved since it was read; a late report of an older incarnation does not
    match."""
    key = task.key
    return (
        ("f_job_id", key.job_id), ("f_task_id", key.task_id), ("f_task_version", key.version),
        ("f_role", key.party.role), ("f_party_id", key.party.party_id), ("f_party_status", task.party_status.value),
        ("f_incarnation", task.incarnation),
    )  # fmt: skip


def _task_values(task: Task, job: Job, document: Document) -> dict[str, Any]:
    return TASKS.row_of(new_task(task)) | {
        "f_task_id": task.key.task_id,
        "f_component_module": task.module,      # empty, and not NULL, in the rows of other parties
        "f_create_date": date(task.create_time),
        "f_initiator_role": job.initiator.role,
        "f_initiator_party_id": job.initiator.party_id,
        "f_federated_mode": document.federated_mode,
        "f_federated_status_collect_type": document.collect_type,
    }
