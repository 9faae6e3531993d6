"""Databases that are locked, broken off or restarted, with the pauses between two attempts in the test's hand."""

# ruff: noqa: PT012  # what has to fail is a transaction, and that is several statements

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import peewee
import pymysql
import pytest

from fate_flow.core.model.errors import CommitUnknown, StorageFailed, StorageUnavailable
from fate_flow.core.model.job import EngineState, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database import opening as databases
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import create_if_missing, open_database
from fate_flow.store.sql.store import SqlStore, SqlTransaction
from fate_flow.store.values import Document
from tests.kit.servers.mariadb import mariadb_url
from tests.kit.values import a_job, a_seat

JOB = a_job(JobStatus.WAITING)
ENDED = replace(JOB, key=JobKey("ended", JOB.party))
MARIADB = Path(__file__).parents[3] / "bin" / "_mariadb.py"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def a_server() -> str:
    return mariadb_url()


@pytest.fixture
def mysql(a_server: str) -> Iterator[SqlStore]:
    with opened(f"{a_server}/fate_flow_faults_{os.getpid()}") as store:
        yield store
        store.database.execute_sql(f"DROP DATABASE `{store.database.database}`")


@pytest.fixture
def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """One that waits for a lock for a second and no longer."""
    monkeypatch.setattr(databases, "LOCK_SECONDS", 1)
    with opened("", tmp_path) as store:
        yield store


@contextmanager
def opened(url: str, home: Path = Path()) -> Iterator[SqlStore]:
    create_if_missing(url)
    store = SqlStore(open_database(url, home))
    upgrade(store.database)
    yield store
    store.close()


class World:
    """What happens between two attempts, and how often one was made."""

    def __init__(self, store: SqlStore, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.store, self.meanwhile = store, meanwhile
        self.attempts = 0

    def record_heartbeat(self, before_commit: Callable[[], object] = lambda: None, is_repeatable: bool = False) -> None:
        """Count one sign of life of party 10000."""

        def once() -> None:
            self.attempts += 1
            with self.store.transaction() as tx:
                tx.record_heartbeat("10000")
                before_commit()

        Retry(lambda: 0.0, lambda _: self.meanwhile())(once, is_repeatable)

    def heartbeats(self) -> int:
        with self.store.reading() as tx:
            return tx.heartbeats().get("10000", 0)


def only_once(act: Callable[[], object]) -> Callable[[], None]:
    left = [act]
    return lambda: left.pop()() if left else None  # type: ignore[func-returns-value]


def kill(store: SqlStore) -> None:
    """End this thread's connection from another one."""
    number = store.database.execute_sql("SELECT CONNECTION_ID()").fetchone()[0]
    with beside(store) as cursor:
        cursor.execute(f"KILL CONNECTION {number}")


@contextmanager
def beside(store: SqlStore) -> Iterator[Any]:
    """A cursor of another session on the same database."""
    params = store.database.connect_params
    address = {name: params[name] for name in ("host", "port", "user", "password")}
    connection = pymysql.connect(**address, database=store.database.database, ssl_disabled=True)
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


@pytest.mark.mariadb
class TestMariaDb:
    def test_a_connection_that_is_lost_before_the_commit_costs_nothing(self, mysql: SqlStore) -> None:
        world = World(mysql)

        def lose() -> None:
            kill(mysql)
            mysql.database.execute_sql("SELECT 1")

        world.record_heartbeat(before_commit=only_once(lose))
        assert (world.attempts, world.heartbeats()) == (2, 1)

    def test_a_commit_whose_answer_is_lost_is_not_repeated(self, mysql: SqlStore) -> None:
        world = World(mysql)
        with pytest.raises(CommitUnknown, match="gone while it committed"):
            world.record_heartbeat(before_commit=only_once(lambda: kill(mysql)))
        assert (world.attempts, world.heartbeats()) == (1, 0)

    def test_unless_twice_is_once(self, mysql: SqlStore) -> None:
        world = World(mysql)
        world.record_heartbeat(before_commit=only_once(lambda: kill(mysql)), is_repeatable=True)
        assert (world.attempts, world.heartbeats()) == (2, 1)

    def test_an_error_of_ours_is_not_hidden_by_the_lost_connection(self, mysql: SqlStore) -> None:
        with pytest.raises(ZeroDivisionError), mysql.transaction() as tx:
            tx.record_heartbeat("10000")
            kill(mysql)
            raise ZeroDivisionError

    def test_who_waits_too_long_for_a_row_is_refused_and_gets_it_later(self, mysql: SqlStore) -> None:
        with beside(mysql) as other:
            World(mysql).record_heartbeat()
            mysql.database.execute_sql("SET SESSION innodb_lock_wait_timeout = 1")
            other.execute("UPDATE t_peer SET f_heard = 5")
            world = World(mysql, meanwhile=lambda: other.execute("ROLLBACK"))
            world.record_heartbeat()
        assert (world.attempts, world.heartbeats()) == (2, 2)

    def test_a_question_waits_while_a_checkpoint_of_the_one_before_is_kept(self, mysql: SqlStore) -> None:
        """Otherwise its answer would not have the checkpoint."""
        locked = "SELECT f_questions FROM t_record_question FOR UPDATE NOWAIT"
        with mysql.transaction() as tx:
            assert tx.put_questions("10000", (), ("one",))
        with beside(mysql) as other:
            with mysql.transaction() as tx:
                assert tx.is_newest_question("10000", "one")
                with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
                    other.execute(locked)
            other.execute(locked)
            assert other.fetchall() == (("one",),)

    def test_nobody_waits_longer_for_a_row_than_another_party_for_us(self, mysql: SqlStore) -> None:
        [[seconds]] = mysql.database.execute_sql("SELECT @@innodb_lock_wait_timeout").fetchall()
        assert int(seconds) == databases.LOCK_SECONDS

    def test_both_of_a_deadlock_get_through(self, mysql: SqlStore) -> None:
        for party_id in ("1", "2"):
            with mysql.transaction() as tx:
                tx.record_heartbeat(party_id)
        meet = threading.Barrier(2)

        def cross(first: str, second: str) -> None:
            waits = only_once(meet.wait)

            def once() -> None:
                with mysql.transaction() as tx:
                    tx.record_heartbeat(first)
                    waits()
                    tx.record_heartbeat(second)

            Retry()(once)
            mysql.close()

        threads = [threading.Thread(target=cross, args=pair) for pair in (("1", "2"), ("2", "1"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with mysql.reading() as tx:
            assert tx.heartbeats() == {"1": 3, "2": 3}

    @pytest.mark.parametrize(("act", "locked"), [
        (lambda tx: tx.reserve(JOB.key, "local", 1, 0, "token", 1, 2), "UPDATE t_engine_registry SET f_nodes = 7"),
        (lambda tx: tx.forget_ended("ended"), "UPDATE t_seat SET f_message = 'x'"),
    ], ids=["reserve", "forget_ended"])  # fmt: skip
    def test_a_deadlock_between_two_writes_that_belong_together_is_begun_anew(
        self, mysql: SqlStore, act: Callable[[SqlTransaction], bool], locked: str
    ) -> None:
        """The database drops the savepoint with the transaction; the error said that there is no savepoint."""
        with mysql.transaction() as tx:
            tx.register_engine(EngineState("local", 4, 0, 4, 0), {}, 1)
            for job in (JOB, ENDED):
                tx.add_job(job, Document({}, {}, {}))
            tx.move_job(ENDED, MoveJob(JobStatus.SUCCESS, Reason.DONE), 5)
            tx.add_seats((replace(a_seat(), job_id="ended"),))
            for number in range(50):
                tx.record_heartbeat(str(number))
        attempts = []

        def once() -> bool:
            attempts.append(1)
            with mysql.transaction() as tx:
                return act(tx)

        [[own]] = mysql.database.execute_sql("SELECT CONNECTION_ID()").fetchall()
        with beside(mysql) as other, beside(mysql) as watcher:
            # The database rolls back the one that has written less.
            other.execute("UPDATE t_peer SET f_heard = 100")
            other.execute(locked)
            crossing = threading.Thread(target=lambda: _cross(other, watcher, own))
            crossing.start()
            assert Retry()(once)
            crossing.join()
        assert len(attempts) == 2

    @pytest.mark.usefixtures("a_server")
    def test_a_server_that_restarts_is_waited_for(self, tmp_path: Path) -> None:
        try:
            with opened(f"{mariadb('start', tmp_path)}/faults") as store:
                world = World(store, meanwhile=lambda: mariadb("start", tmp_path))
                world.record_heartbeat()
                mariadb("stop", tmp_path)
                world.record_heartbeat()
                assert (world.attempts, world.heartbeats()) == (3, 2)
        finally:
            mariadb("stop", tmp_path)


def _cross(other: Any, watcher: Any, holder: int) -> None:
    """Asks for a row as soon as the connection that holds it waits for one of ours, and lets go of all."""
    waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    deadline = time.monotonic() + databases.LOCK_SECONDS
    while time.monotonic() < deadline:
        watcher.execute(f"{waits} AND trx_mysql_thread_id = {holder}")
        if watcher.fetchone()[0]:
            break
        time.sleep(0.15)      # the table is read anew when nobody has read it for 0.1 s
    other.execute("UPDATE t_job SET f_name = 'x'")
    other.execute("ROLLBACK")


def mariadb(verb: str, folder: Path) -> str:
    """The address of the server in this folder once it has started; nothing for one that was stopped."""
    done = subprocess.run(
        [sys.executable, str(MARIADB), verb, "--dir", str(folder)], capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)["url"]) if verb == "start" else ""


HOLDS_IT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
HOLDS_THE_LOCK = """
import fcntl, sys
file = open(sys.argv[1] + "-turn", "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(code: str, store: SqlStore) -> Iterator[Callable[[], object]]:
    """Another process holds the database until it is told to let go."""
    with subprocess.Popen(
        [sys.executable, "-c", code, store.database.database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.communicate
        process.communicate()


@contextmanager
def no_more_pages(store: SqlStore) -> Iterator[None]:
    """The database may not grow meanwhile."""
    [[pages]] = store.database.execute_sql("PRAGMA page_count").fetchall()
    store.database.execute_sql(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        store.database.execute_sql("PRAGMA max_page_count = 1000000")


def grow(tx: SqlTransaction) -> None:
    for number in range(10_000):
        tx.record_heartbeat(f"{number:030}")


def grow_in_savepoint(tx: SqlTransaction) -> None:
    with tx.savepoint():
        grow(tx)


@contextmanager
def no_file_grows() -> Iterator[Callable[[], None]]:
    """From the call on no file of this process may be written beyond its beginning, until the block ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def raising(text: str) -> Callable[..., None]:
    """As peewee raises what SQLite says."""

    def act(*_: object) -> None:
        with peewee.__exception_wrapper__:
            raise sqlite3.OperationalError(text)

    return act


class TestSqlite:
    @pytest.mark.parametrize(("code", "text"), [(HOLDS_IT, "locked"), (HOLDS_THE_LOCK, "no turn to write")])
    def test_a_database_that_stays_locked_is_told_in_a_sentence(self, sqlite: SqlStore, code: str, text: str) -> None:
        world = World(sqlite)
        world.record_heartbeat()
        with held_elsewhere(code, sqlite), pytest.raises(StorageUnavailable, match=text), sqlite.transaction() as tx:
            tx.record_heartbeat("10000")
        world.record_heartbeat()
        assert world.heartbeats() == 2

    @pytest.mark.parametrize("code", [HOLDS_IT, HOLDS_THE_LOCK])
    def test_and_is_written_once_it_is_free(self, sqlite: SqlStore, code: str) -> None:
        World(sqlite).record_heartbeat()
        with held_elsewhere(code, sqlite) as let_go:
            world = World(sqlite, meanwhile=only_once(let_go))
            world.record_heartbeat()
        assert (world.attempts, world.heartbeats()) == (2, 2)

    def test_reading_waits_for_nobody(self, sqlite: SqlStore) -> None:
        World(sqlite).record_heartbeat()
        with held_elsewhere(HOLDS_IT, sqlite):
            assert World(sqlite).heartbeats() == 1

    @pytest.mark.parametrize("act", [grow, grow_in_savepoint])
    def test_a_full_database_is_told_as_such_and_goes_on_when_there_is_capacity(
        self, sqlite: SqlStore, act: Callable[[SqlTransaction], None]
    ) -> None:
        text = "the disk of the database is full: database or disk is full"
        with no_more_pages(sqlite), pytest.raises(StorageFailed, match=text), sqlite.transaction() as tx:
            act(tx)
        World(sqlite).record_heartbeat()
        assert World(sqlite).heartbeats() == 1

    def test_a_write_that_finds_no_space_is_run_again_when_the_reserve_was_given_back(self, sqlite: SqlStore) -> None:
        def make_space() -> bool:
            sqlite.database.execute_sql("PRAGMA max_page_count = 1000000")
            return True

        def act() -> None:
            with sqlite.transaction() as tx:
                grow(tx)

        with no_more_pages(sqlite):
            Retry(make_space=make_space)(act)
        with sqlite.reading() as tx:
            assert len(tx.heartbeats()) == 10_000

    def test_a_commit_that_fails_is_told_and_not_the_rollback_that_fails_after_it(self, sqlite: SqlStore) -> None:
        World(sqlite).record_heartbeat()
        text = "the database refused: disk I/O error"
        with no_file_grows() as begin, pytest.raises(StorageFailed, match=text), sqlite.transaction() as tx:
            tx.record_heartbeat("10000")
            begin()
        World(sqlite).record_heartbeat()
        assert World(sqlite).heartbeats() == 2

    def test_a_commit_that_was_locked_is_begun_anew_though_its_rollback_failed(
        self, sqlite: SqlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rollback = sqlite.database.rollback
        monkeypatch.setattr(sqlite.database, "commit", raising("database is locked"))
        monkeypatch.setattr(sqlite.database, "rollback", raising("cannot rollback - no transaction is active"))

        def recover() -> None:
            monkeypatch.undo()
            rollback()

        world = World(sqlite, meanwhile=only_once(recover))
        world.record_heartbeat()
        assert (world.attempts, world.heartbeats()) == (2, 1)

    def test_an_older_error_that_is_being_handled_is_not_taken_for_it(
        self, sqlite: SqlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite.database, "commit", raising("disk I/O error"))
        with pytest.raises(StorageFailed, match="the database refused: disk I/O error"):
            try:
                raising("database is locked")()
            except peewee.OperationalError:
                World(sqlite).record_heartbeat()
