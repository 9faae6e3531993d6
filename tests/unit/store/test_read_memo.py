"""What a transaction on SQLite reads once, and when it reads again."""

from __future__ import annotations

import pytest

from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.database.models import MODELS
from fate_flow.store.database.read_memo import _TABLE, ReadMemo
from fate_flow.store.sql.store import SqlStore
from tests.kit.job_documents import BOTH
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.kit.values import GUEST, HOST, JOB_ID, a_job, a_seat

KEY = JobKey(JOB_ID, GUEST)


@pytest.fixture
def store() -> SqlStore:
    found = sqlite_in_memory()
    with found.transaction() as tx:
        tx.add_job(a_job(JobStatus.WAITING, GUEST), BOTH)
        tx.add_seats([a_seat(GUEST), a_seat(HOST)])
    return found


def reads(store: SqlStore) -> list[str]:
    """The tables of all statements that are executed from now on."""
    tables: list[str] = []
    store.database.log_sql = lambda sql, _: tables.extend(_TABLE.findall(sql)[:1]) if sql.startswith("SELECT") else None
    return tables


def test_a_transaction_reads_a_row_once(store: SqlStore) -> None:
    seen = reads(store)
    with store.transaction() as tx:
        first = tx.job(KEY)
        assert tx.job(KEY) == first is not None
        assert tx.job(KEY) is first, "nobody can change it, so it is not made again"
        assert tx.job(JobKey(JOB_ID, HOST)) is None
    assert seen == ["t_job", "t_job"]
    with store.transaction() as tx:
        assert tx.job(KEY) == first
    assert seen == ["t_job"] * 3, "another transaction may find it changed"


def test_outside_of_a_transaction_every_read_is_made(store: SqlStore) -> None:
    seen = reads(store)
    with store.reading() as tx:
        assert tx.job(KEY) == tx.job(KEY)
    assert seen == ["t_job", "t_job"]


def test_a_write_is_seen_by_the_next_read(store: SqlStore) -> None:
    with store.transaction() as tx:
        job = tx.job(KEY)
        assert job is not None
        assert tx.move_job(job, MoveJob(JobStatus.RUNNING), 5)
        now = tx.job(KEY)
        assert now is not None
        assert (job.status, now.status) == (JobStatus.WAITING, JobStatus.RUNNING)


def test_a_write_forgets_its_own_table_alone(store: SqlStore) -> None:
    with store.transaction() as tx:
        seats, _ = tx.seats(JOB_ID), tx.job(KEY)
        seen = reads(store)
        assert tx.move_seat(seats[0], SeatStatus.CHECKING, "")
        assert tx.job(KEY) is not None
        assert seen == []
        assert tx.seats(JOB_ID)[0].status is SeatStatus.CHECKING
        assert seen == ["t_seat"]


class Undone(Exception):
    pass


def run_and_fail(tx: Transaction) -> None:
    job = tx.job(KEY)
    assert job is not None
    assert tx.move_job(job, MoveJob(JobStatus.RUNNING), 5)
    assert tx.job(KEY) != job
    raise Undone


def test_what_was_undone_is_forgotten(store: SqlStore) -> None:
    with store.transaction() as tx:
        job = tx.job(KEY)
        with pytest.raises(Undone), tx.savepoint():
            run_and_fail(tx)
        assert tx.job(KEY) == job


def test_a_transaction_that_fails_leaves_nothing(store: SqlStore) -> None:
    with pytest.raises(Undone), store.transaction() as tx:
        run_and_fail(tx)
    seen = reads(store)
    with store.reading() as tx:
        tx.job(KEY)
    assert seen == ["t_job"]


def found(memo: ReadMemo, text: str) -> bool:
    """Whether the rows of a query are known; if not, they are from now on."""
    read: list[str] = []
    memo.get(text, (), lambda: read.append(text))
    return not read


JOINED = 'SELECT "t1"."f_x" FROM "t_job" AS "t1" WHERE EXISTS(SELECT 1 FROM "t_job_binding" AS "t2")'


@pytest.mark.parametrize(
    ("statement", "is_known"),
    [
        ('UPDATE "t_job" SET "f_x" = ?', False),
        ('INSERT INTO "t_job_binding" ("f_x") VALUES (?)', False),
        ('INSERT OR IGNORE INTO "t_job" ("f_x") VALUES (?)', False),
        ('DELETE FROM "t_job_binding" WHERE ("t_job_binding"."f_x" = ?)', False),
        ('UPDATE "t_seat" SET "f_x" = ? WHERE EXISTS(SELECT 1 FROM "t_job")', True),
        ('UPDATE "t_jobs" SET "f_x" = ?', True),
        ("UPDATE unknown SET x = ?", False),
        ("ROLLBACK TO SAVEPOINT s1", False),
        ('WITH x AS (SELECT 1) UPDATE "t_seat" SET "f_x" = 1', False),
        ("SAVEPOINT s1", True),
        ("RELEASE SAVEPOINT s1", True),
        ('SELECT "f_x" FROM "t_job"', True),
    ],
)
def test_which_statements_forget_what_was_read(statement: str, is_known: bool) -> None:
    memo = ReadMemo()
    assert not found(memo, JOINED)
    assert found(memo, JOINED)
    memo.before(statement)
    assert found(memo, JOINED) is is_known


def test_the_name_of_every_table_is_recognised() -> None:
    assert all(_TABLE.fullmatch(f'"{model._meta.table_name}"') for model in MODELS)
