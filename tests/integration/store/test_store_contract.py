"""The contract of the store on a SQLite file and on a MySQL or MariaDB server, races included.

The server is the one that FATE_FLOW_TEST_MYSQL_URL names (mysql://root@127.0.0.1:3306, without a database).
"""

# ruff: noqa: PT012  # what has to fail is a transaction, and that is several statements

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import peewee
import pymysql
import pytest

from fate_flow.api.v1.rendering.job import JOB, LISTED_JOB
from fate_flow.api.v1.rendering.task import LISTED_TASK, TASK
from fate_flow.core.model.errors import StorageFailed, StorageUnavailable
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.models import MODELS, JobRow, StorageTableRow, TaskRow
from fate_flow.store.database.opening import create_if_missing, is_disk_full, open_database
from fate_flow.store.sql.store import SqlStore
from fate_flow.store.views import board, count_cache
from fate_flow.store.views.board import PAGE
from fate_flow.store.views.board_tables import TablePlace, TableSearch
from fate_flow.store.views.job_search import JobSearch, Place
from fate_flow.store.views.lists import JobQuery, Page
from fate_flow.store.views.snapshots import QueuePlace
from fate_flow.store.views.times import job_times
from fate_flow.store.views.views import Views
from tests.bench.paging import fill
from tests.kit.servers.mariadb import MYSQL, mariadb_url
from tests.kit.store.many_jobs import add_tasks
from tests.kit.store.migrated_sqlite import migrated_sqlite
from tests.kit.store.view_queries import statements_of, view_queries
from tests.store_contract.bindings import BindingContract
from tests.store_contract.cases import DOCUMENT, HOST, Cases, Each, a_job, a_task, an_engine
from tests.store_contract.contract import StoreContract
from tests.store_contract.moves import MoveContract
from tests.store_contract.races import StoreRaces, at_once

pytestmark = pytest.mark.timeout(900)


@contextmanager
def open_and_close(url: str, home: Path) -> Iterator[Any]:
    database = open_database(url, home)
    upgrade(database)
    yield database
    if not database.is_closed():
        database.close()


@pytest.fixture(scope="module")
def mysql() -> Iterator[Any]:
    """An empty database on the server, made once for all tests of this file."""
    url = f"{mariadb_url()}/fate_flow_store_{os.getpid()}"
    create_if_missing(url)
    with open_and_close(url, Path()) as database:
        yield database
        database.execute_sql(f"DROP DATABASE `{database.database}`")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Any]:
    database = migrated_sqlite(tmp_path)
    yield database
    if not database.is_closed():
        database.close()


@pytest.fixture
def mysql_store(mysql: Any) -> SqlStore:
    store = SqlStore(mysql)
    with mysql.atomic():
        for model in MODELS:
            model.delete().execute()
    return store


@pytest.fixture
def sqlite_store(sqlite: Any) -> SqlStore:
    return SqlStore(sqlite)


@pytest.fixture(params=["sqlite", pytest.param("mysql", marks=pytest.mark.mariadb)])
def store(request: pytest.FixtureRequest) -> SqlStore:
    return request.getfixturevalue(f"{request.param}_store")


class TestStoreContract(StoreContract):
    pass


class TestBindings(BindingContract):
    pass


class TestMoves(MoveContract):
    pass


class TestStoreRaces(StoreRaces):
    pass


class TestOneProcessOneDatabase:
    def test_a_second_database_in_one_process_is_noticed(self, sqlite_store: SqlStore, tmp_path: Path) -> None:
        with open_and_close(f"sqlite:///{tmp_path}/other.sqlite", tmp_path) as other:
            SqlStore(other)
            with pytest.raises(AssertionError, match="one database"), sqlite_store.transaction():
                pass
            with pytest.raises(AssertionError, match="one database"), sqlite_store.reading():
                pass


class TestATick(Cases):
    """A tick costs what the active jobs cost, not what the history weighs."""

    @pytest.fixture
    def store(self, sqlite_store: SqlStore) -> SqlStore:
        return sqlite_store

    @pytest.mark.parametrize(
        ("method", "args"),
        [
            ("unfinished_jobs", ()),
            ("jobs_to_forget", ()),
            ("last_create_time", ()),
            ("unblocked_waiting", (64,)),
            ("queue_heads", ()),
            ("blocked_waiting", ("10000", 4, 16)),
            ("waiting_unschedulable", (9, 16)),
            ("first_pending", (9,)),
            ("cores_of_jobs_by", ("10001",)),
            ("gpus_of_jobs_by", ("10001",)),
            ("others_waiting", ()),
            ("unapproved_jobs", (9,)),
            ("intake_hold", ()),
            ("place_in_queue", (a_job(),)),
            ("count_waiting", ()),
            ("cancelled_waiting", ()),
            ("jobs_in_round", ()),
            ("job_here", ("j1",)),
            ("jobs_here", ("j1",)),
            ("seats", ("j1",)),
            ("seats_at", ("10000",)),
            ("tasks", ("j1",)),
            ("unfinished_workers", ()),
            ("workers_of", ("j1",)),
            ("commands_after", (7,)),
            ("submission_of", ("j1",)),
            ("open_seats", ()),
            ("is_open", ("j1",)),
            ("ended_jobs", (9_000, (10, "j1"), 20)),
            ("jobs_past_ttl", (9_000, 60, "j1", 20)),
            ("failed_workers", ("j1",)),
            ("end_of_newest", (1_000,)),
            ("output_tables", (9_000, (10, "n", "t"), 20)),
        ],
    )
    def test_no_table_is_read_from_end_to_end(
        self, store: SqlStore, each: Each, method: str, args: tuple[Any, ...]
    ) -> None:
        asked: list[tuple[str, Any]] = []
        store.database.log_sql = lambda sql, params: asked.append((sql, params))
        getattr(each, method)(*args)
        store.database.log_sql = None
        reads = [one for one in asked if one[0].startswith("SELECT")]
        assert reads
        for sql, params in reads:
            plan = [row[3] for row in store.database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()]
            assert not [step for step in plan if step.startswith("SCAN")], (sql, plan)


    @pytest.mark.parametrize(
        ("method", "args", "index"),
        [
            ("unblocked_waiting", (64,), "ix_job_queue (f_is_initiator=? AND f_status=? AND f_apart=? AND f_b"),
            ("blocked_waiting", ("1", 4, 16), "ix_job_queue (f_is_initiator=? AND f_status=? AND f_apart=? AND f_b"),
            (
                "waiting_unschedulable",
                (9, 16),
                "ix_job_lacks (f_is_initiator=? AND f_status=? AND f_lacks=? AND f_retry_at<?)",
            ),
            ("place_in_queue", (a_job(),), "ix_job_order (f_is_initiator=? AND f_status=? AND f_queue_key<?)"),
            ("unapproved_jobs", (9,), "ix_job_approval (f_approval=? AND f_status=?)"),
        ],
    )
    def test_the_queue_is_read_by_the_index_that_has_its_order(
        self, store: SqlStore, each: Each, method: str, args: tuple[Any, ...], index: str
    ) -> None:
        """However many jobs wait, only those that are looked for are read."""
        asked: list[tuple[str, Any]] = []
        store.database.log_sql = lambda sql, params: asked.append((sql, params))
        getattr(each, method)(*args)
        store.database.log_sql = None
        [(sql, params)] = [one for one in asked if one[0].startswith("SELECT")]
        plan = [row[3] for row in store.database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()]
        assert index in plan[0]


    def test_the_cores_that_a_party_holds_are_summed_by_an_index_alone(self, store: SqlStore, each: Each) -> None:
        """Otherwise each reservation reads the documents of all jobs that wait."""
        asked: list[tuple[str, Any]] = []
        store.database.log_sql = lambda sql, params: asked.append((sql, params))
        each.cores_of_jobs_by("10001")
        store.database.log_sql = None
        sql, params = asked[0]
        [step] = [row[3] for row in store.database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()]
        assert "COVERING INDEX ix_job_held (f_resource_in_use=? AND f_initiator_party_id=?)" in step


class TestAFullDisk(Cases):
    @pytest.fixture
    def store(self, sqlite_store: SqlStore) -> SqlStore:
        return sqlite_store

    def test_nothing_is_written_and_it_is_told_apart(self, store: SqlStore, each: Each) -> None:
        pages = store.database.execute_sql("PRAGMA page_count").fetchone()[0]
        store.database.execute_sql(f"PRAGMA max_page_count = {pages}")
        large = Command(CommandKind.CREATE, "j1", HOST, body={"text": "x" * 1_000_000})
        text = "disk of the database is full: database or disk is full"
        with pytest.raises(StorageFailed, match=text) as failed, store.transaction() as tx:
            tx.record_heartbeat("10000")
            tx.put_command(large, 1)
        assert is_disk_full(failed.value)
        assert not isinstance(failed.value, StorageUnavailable), "it is not begun anew"
        assert each.heartbeats() == {}

    def test_what_was_lost_with_the_transaction_is_not_committed_without_it(self, store: SqlStore, each: Each) -> None:
        """SQLite may drop the whole transaction: whoever stops the error at a savepoint must not commit the rest."""
        with pytest.raises(StorageFailed, match="dropped"), store.transaction() as tx:
            tx.record_heartbeat("before")
            with pytest.raises(ZeroDivisionError), tx.savepoint():
                store.database.execute_sql("ROLLBACK")
                raise ZeroDivisionError
            tx.record_heartbeat("after")
        assert each.heartbeats() == {}


@pytest.mark.mariadb
class TestMySql(Cases):
    @pytest.fixture
    def store(self, mysql_store: SqlStore) -> SqlStore:
        return mysql_store

    def test_a_connection_that_the_server_dropped_is_replaced(self, store: SqlStore, each: Each) -> None:
        each.record_heartbeat("10000")
        _kill(store)
        Retry()(lambda: each.record_heartbeat("10000"))
        assert each.heartbeats() == {"10000": 2}

    @pytest.mark.parametrize("reads", [SqlStore.reading, SqlStore.snapshot])
    def test_a_reader_that_lost_its_connection_reads_again(self, store: SqlStore, each: Each, reads: Any) -> None:
        each.record_heartbeat("10000")
        _kill(store)
        with pytest.raises(StorageFailed), reads(store) as tx:
            tx.heartbeats()
        with reads(store) as tx:
            assert tx.heartbeats() == {"10000": 1}

    def test_a_connection_lost_in_the_middle_loses_the_transaction(self, store: SqlStore, each: Each) -> None:
        with pytest.raises(StorageFailed), store.transaction() as tx:
            tx.record_heartbeat("10000")
            _kill(store)
            tx.record_heartbeat("10000")
        assert each.heartbeats() == {}

    def test_nor_is_its_second_half_committed(self, store: SqlStore, each: Each) -> None:
        with pytest.raises(StorageFailed), store.transaction() as tx:
            tx.record_heartbeat("10000")
            with pytest.raises(StorageFailed), tx.savepoint():
                _kill(store)
                tx.record_heartbeat("10001")
            tx.record_heartbeat("10002")
        assert each.heartbeats() == {}

    def test_a_deadlock_behind_a_savepoint_loses_the_transaction(self, store: SqlStore, each: Each) -> None:
        """InnoDB rolls back all of a victim's transaction; what it wrote before must not be missing from a commit."""
        each.add_job(a_job("a"), DOCUMENT)
        each.add_job(a_job("b"), DOCUMENT)
        meet = threading.Barrier(2)
        outcomes: dict[str, str] = {}

        def cross(first: str, second: str) -> None:
            try:
                with store.transaction() as tx:
                    tx.set_progress(a_job(first).key, 10)
                    meet.wait()
                    try:
                        with tx.savepoint():
                            tx.set_progress(a_job(second).key, 20)
                    except StorageFailed:
                        outcomes[first] = "victim"
                outcomes.setdefault(first, "through")
            except StorageFailed:
                outcomes[first] += " and told so"
            store.close()

        threads = [threading.Thread(target=cross, args=pair) for pair in (("a", "b"), ("b", "a"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes.values()) == ["through", "victim and told so"]
        winner = next(name for name, outcome in outcomes.items() if outcome == "through")
        progress = {name: each.job_here(name).progress for name in "ab"}
        assert progress == {name: 10 if name == winner else 20 for name in "ab"}

    def test_what_others_committed_is_seen_at_once(self, store: SqlStore, each: Each) -> None:
        """READ COMMITTED: a transaction that lost a race reads what the winner wrote."""
        each.register_engine(an_engine(8), {}, 1)
        with store.snapshot() as tx:             # REPEATABLE READ, and it alone
            assert tx.engine("local").cores == 8
        with store.transaction() as tx:
            assert tx.engine("local").cores == 8
            at_once(store, lambda other: other.register_engine(an_engine(16), {}, 2))
            assert tx.engine("local").cores == 16

    def test_an_update_that_changes_nothing_counts(self, store: SqlStore, each: Each) -> None:
        each.add_job(a_job(), DOCUMENT)
        for _ in range(2):
            assert each.postpone(a_job().key, "why", "10000", 4, 99)

    def test_all_connections_offer_tls_with_one_context(self, store: SqlStore) -> None:
        contexts = []

        def connect() -> None:
            contexts.append(store.database.connection().ctx)
            store.close()

        connect()
        at_once(store, lambda _: contexts.append(store.database.connection().ctx))
        assert contexts[0] is contexts[1] is not None

    def test_a_wrong_password_is_told_in_one_line(self, mysql: Any) -> None:  # the fixture skips
        url = os.environ[MYSQL].replace("root@", "nobody:wrong@")
        with pytest.raises(StorageFailed, match="refuses the connection"):
            create_if_missing(f"{url}/x")
        other = SqlStore(open_database(f"{url}/x", Path()))
        with pytest.raises(StorageFailed), other.transaction():
            pass


def _kill(store: SqlStore) -> None:
    """What the server does to a connection that idles for too long."""
    number = store.database.execute_sql("SELECT CONNECTION_ID()").fetchone()[0]
    connection = pymysql.connect(**_address(store.database), ssl_disabled=True)
    with connection.cursor() as cursor:
        cursor.execute(f"KILL {number}")
    connection.close()


def _address(database: peewee.MySQLDatabase) -> dict[str, Any]:
    return {name: database.connect_params[name] for name in ("host", "port", "user", "password")}


FIRST = Page("create_time", True, 10)


MANY, AT = 3_000, 10**12


@pytest.fixture(scope="module")
def full_views(mysql: Any) -> Views:
    """Of a database with so many jobs, a second apart."""
    store = SqlStore(mysql)
    with mysql.atomic():
        for model in MODELS:
            model.delete().execute()
    with store.transaction() as tx:
        assert tx.add_job(a_job(create_time=AT), DOCUMENT)
        tx.add_tasks([a_task(create_time=AT)], a_job(), DOCUMENT)
    ended = {"f_status": "success", "f_end_time": AT}
    JobRow.update(**ended, f_reason="done").execute()
    over_all = {"f_federated_reason": "done", "f_federated_end_time": ended["f_end_time"]}
    TaskRow.update(**ended, **over_all, f_party_status="success").execute()
    fill(mysql, "j1", range(MANY), with_special=True)
    mysql.execute_sql("DROP TABLE bench_copy")
    return Views(mysql)


class TestPagesOnMariaDb:
    """A page is found in few rows of an index, however many there are. SQLite's plans: test_client_views.py."""

    @pytest.mark.mariadb
    @pytest.mark.parametrize("ask", [
        lambda views, page: views.job_list(LISTED_JOB, JobQuery(), replace(FIRST, offset=page)),
        lambda views, page: views.job_list(LISTED_JOB, JobQuery(roles=("local",)), FIRST),
        lambda views, page: views.job_list(LISTED_JOB, JobQuery(statuses=("success",)), replace(FIRST, offset=page)),
        lambda views, page: views.job_list(LISTED_JOB, JobQuery(), replace(FIRST, order_by="elapsed", offset=page)),
        lambda views, page: views.job_list(
            LISTED_JOB, JobQuery(statuses=("success",)), replace(FIRST, order_by="elapsed", offset=page)
        ),
        lambda views, page: views.job_list(
            LISTED_JOB, JobQuery(roles=("guest",)), replace(FIRST, order_by="end_time", offset=page)
        ),
        lambda views, page: views.jobs(JOB, {"role": "guest"}, replace(FIRST, offset=page // 2)),
        lambda views, page: views.jobs(JOB, {"status": "success"}, replace(FIRST, offset=page)),
        lambda views, page: views.jobs(JOB, {"role": "guest", "party_id": "9999", "status": "success"}, FIRST),
        lambda views, page: views.task_list(LISTED_TASK, {}, replace(FIRST, offset=page)),
        lambda views, page: views.task_list(
            LISTED_TASK, {"role": "guest", "party_id": "9999"}, replace(FIRST, offset=page // 2)
        ),
        lambda views, page: views.tasks(TASK, {"role": "guest", "party_id": "9999"}, FIRST),
        lambda views, page: views.task_list(LISTED_TASK, {}, replace(FIRST, order_by="elapsed")),
        lambda views, page: views.task_list(
            LISTED_TASK, {"role": "guest"}, replace(FIRST, order_by="elapsed", offset=page // 2)
        ),
    ])  # fmt: skip
    def test_few_rows_are_read(
        self, mysql: Any, full_views: Views, ask: Callable[[Views, int], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(count_cache, "BUCKET_ROWS", 100)
        monkeypatch.setattr(count_cache, "SETTLED", 60_000)    # a minute: 60 copies
        middle = MANY // 2
        assert ask(full_views, middle)          # counts
        before = rows_read(mysql)
        ask(full_views, middle)
        assert rows_read(mysql) - before < 900

    def test_the_lists_of_the_board_are_counted(self, full_views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
        known = JobRow.select().count()
        page, *_ = full_views.board.jobs(JobSearch(), None)
        assert (page.count, page.is_counted) == (known, True)
        monkeypatch.setattr(board, "MOST_SEARCHED", MANY // 2)
        for search, fit in ((JobSearch(party="9999"), known), (JobSearch(person="ann", component="sum"), 0)):
            pieces = [full_views.board.count_jobs(search, None)]
            while (place := pieces[-1].next) is not None:
                pieces.append(full_views.board.count_jobs(search, place))
            assert (len(pieces), sum(one.looked_at for one in pieces)) == (3, known)
            assert sum(one.count for one in pieces) == fit
        assert full_views.board.tables(TableSearch("upload"), None).is_counted

    def test_parts_of_the_board_say_of_how_many(self, mysql: Any, full_views: Views) -> None:
        ended = JobRow.select(JobRow.f_status).order_by(JobRow.f_end_time.desc()).limit(board.ENDED_LATELY)
        overview, failed = full_views.board.overview(), [one for (one,) in ended.tuples() if one == "failed"]
        assert [ask(full_views) for ask in view_queries("j1", "9999", "10000", "reader_0", AT).values()]
        assert (len(overview.failed), overview.failed_count) == (8, len(failed))
        lately = full_views.board.failed_jobs(0, 5, ("job_id", "status"))
        every = JobRow.select().where(JobRow.f_status.in_(["failed", "timeout"])).count()
        assert (len(lately.rows), lately.count, lately.is_counted) == (5, every, True)
        assert set(full_views.job_heads(row["job_id"] for row in lately.rows)) == {row["job_id"] for row in lately.rows}
        assert job_times.folded_shares("j1")[1] == 1
        assert full_views.board.queue(QueuePlace(0, AT, "j1"))[1] is None
        assert full_views.board.jobs_to_review(Place(AT, "j1", "guest", "9999"))[1] is None

    def test_a_page_of_tables_is_read_in_its_order(self, mysql: Any, full_views: Views) -> None:
        row, made = StorageTableRow, 1_010
        row.insert_many([
            {"f_namespace": f"n{number % 2}", "f_name": f"{number:04}", "f_origin": "output", "f_create_time": AT,
             "f_address": "{}", "f_engine": "LOCAL", "f_schema": "{}"} for number in range(made)
        ]).execute()  # fmt: skip
        mysql.execute_sql(f"ANALYZE TABLE {_META}").fetchall()
        for namespace, index, fit in (("", "ix_table_age", made), ("n0", "ix_table_namespace", made // 2)):
            found, behind = [], None
            while behind is None or len(found) % PAGE == 0:
                found += full_views.board.tables(TableSearch("output", namespace), behind).rows
                behind = found[-1].place
            assert len({(one.namespace, one.name) for one in found}) == len(found) == fit
            for place in (None, behind):
                asked = statements_of(mysql, full_views, partial(_tables, namespace, place))
                plans = [mysql.execute_sql(f"EXPLAIN {sql}", params) for sql, params in asked if _META in sql]
                steps = [step for plan in plans for step in plan.fetchall() if step[2] == "listed"]
                assert [step[5] for step in steps] == [index] * 2, steps
                assert not [step for step in steps if "filesort" in step[-1]], (namespace, place)

    def test_a_search_for_a_component_reads_no_tasks_but_those_that_fit(
        self, mysql: Any, full_views: Views, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked_at = 500
        monkeypatch.setattr(board, "MOST_SEARCHED", looked_at)
        add_tasks(mysql, 8)
        mysql.execute_sql("ANALYZE TABLE t_task").fetchall()
        before = rows_read(mysql)
        assert full_views.board.count_jobs(JobSearch(component="none"), None).count == 0
        assert rows_read(mysql) - before < 8 * looked_at


_META = "t_storage_table_meta"


def _tables(namespace: str, place: TablePlace | None, views: Views) -> Any:
    return views.board.tables(TableSearch("output", namespace), place)


def rows_read(database: Any) -> int:
    """By this session, in tables and indexes, since it began."""
    found = database.execute_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'").fetchall()
    return sum(int(count) for _, count in found)
