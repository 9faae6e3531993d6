"""What an upgrade of the schema makes of the rows that an older release has written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import peewee
import pytest

from fate_flow.core.model.job import TaskKey, Worker, WorkerPlace
from fate_flow.core.model.status import WorkerStatus
from fate_flow.store.database import migrations
from fate_flow.store.database.migrations import upgrade, version
from fate_flow.store.database.models import JobRow, WorkerRow
from fate_flow.store.database.rows import WORKER_COLUMNS, worker_of
from tests.kit.store.empty_databases import KINDS, opened
from tests.kit.values import GUEST

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty one."""
    with opened(request.param, tmp_path, "rows") as found:
        yield found


def _upgrade_to(database: Any, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    known = migrations.migrations()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda: known[:number])
        upgrade(database)


def test_an_approval_of_a_document_that_was_not_written_down_is_asked_for_anew(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the job waits, runs or is over; what was rejected stays so, and what is of one document too."""
    _upgrade_to(database, monkeypatch, 2)
    JobRow.bind(database)
    rows = [
        ("a", "waiting", "approved", ""), ("b", "running", "approved", ""), ("c", "failed", "approved", ""),
        ("d", "waiting", "approved", "d" * 64), ("e", "waiting", "pending", ""), ("f", "failed", "rejected", ""),
        ("g", "waiting", "", ""),
    ]  # fmt: skip
    for job_id, status, approval, digest in rows:
        fields = (JobRow._meta.fields[one.name] for one in database.get_columns("t_job"))
        _insert(database, "t_job", {
            **{field.name: _plain_value(field) for field in fields if not field.null},
            "f_job_id": job_id, "f_status": status, "f_end_time": 7 if status == "failed" else None,
            "f_reason": "task_failed" if status == "failed" else None,
            "f_approval": approval, "f_approval_by": "ada",
            "f_approval_message": "contract 7", "f_approval_time": 5, "f_approval_digest": digest,
        })  # fmt: skip
    upgrade(database)
    columns = (JobRow.f_job_id, JobRow.f_approval, JobRow.f_approval_by, JobRow.f_approval_message)
    found = {row[0]: row[1:] for row in JobRow.select(*columns).tuples()}
    asked, kept = ("pending", "", None), ("ada", "contract 7")
    assert found == {
        "a": asked, "b": asked, "c": asked, "d": ("approved", *kept), "e": ("pending", *kept),
        "f": ("rejected", *kept), "g": ("", *kept),
    }  # fmt: skip


def _insert(database: Any, table: str, values: dict[str, object]) -> None:
    """Insert a row with these columns only; a model knows columns that are not there yet."""
    marks = ", ".join(["?" if database.is_sqlite else "%s"] * len(values))
    database.execute_sql(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))


def _plain_value(field: Any) -> object:
    if field.default is not None:
        return field.default() if callable(field.default) else field.default
    return 0 if isinstance(field, (peewee.IntegerField, peewee.BigIntegerField, peewee.BooleanField)) else ""


_OLD_WORKER = (
    "INSERT INTO t_worker (f_worker_id, f_worker_name, f_job_id, f_component_name, f_task_id, f_task_version, f_role,"
    " f_party_id, f_status, f_folder, f_run_pid, f_run_pid_started, f_create_time) VALUES"
    " ('w1', 'task_executor', 'j1', 'a', 'j1_a', 0, 'guest', '9999', 'running', '/home/jobs/j1/w1', 4711, 99, 1000),"
    " ('w2', 'task_executor', 'j1', 'b', 'j1_b', 0, 'guest', '9999', 'created', '/home/jobs/j1/w2', NULL, 0, 1000)"
)


def test_workers_that_run_during_an_upgrade_are_found_as_before(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _upgrade_to(database, monkeypatch, 2)
    database.execute_sql(_OLD_WORKER)
    upgrade(database)
    WorkerRow.bind(database)
    rows = WorkerRow.select(*WORKER_COLUMNS).order_by(WorkerRow.f_worker_id).tuples()
    first, second = TaskKey("j1", "a", 0, GUEST), TaskKey("j1", "b", 0, GUEST)
    assert [worker_of(row) for row in rows] == [
        Worker("w1", first, WorkerStatus.RUNNING, "local", "/home/jobs/j1/w1", 1000, WorkerPlace(4711), rank=None),
        Worker("w2", second, WorkerStatus.CREATED, "local", "/home/jobs/j1/w2", 1000, rank=None),
    ]


def test_an_upgrade_is_cut_off_after_each_of_its_statements_and_goes_on(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement has run, and its mark has not been written: MySQL refuses it the second time."""
    _upgrade_to(database, monkeypatch, 2)
    run, cuts = database.execute_sql, 0

    def cut_off(sql: str, *args: Any) -> Any:
        done = run(sql, *args)
        if sql.startswith("ALTER TABLE"):
            raise KeyboardInterrupt
        return done

    while version(database) < len(migrations.migrations()) and cuts < 100:
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(database, "execute_sql", cut_off)
            upgrade(database)
        if database.is_sqlite:      # all of it or nothing
            upgrade(database)
        cuts += 1
    assert version(database) == len(migrations.migrations())
    found = [one.name for one in database.get_columns("t_worker")]
    assert found == [field.column_name for field in WorkerRow._meta.sorted_fields]
