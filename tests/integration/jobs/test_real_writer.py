"""Tables that are written to a MariaDB server and read from it; its address and password are the operator's alone."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from pymysql.cursors import Cursor

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.builtin import fetch, writer
from fate_flow.components.tables.table import Schema, Table, TableExists, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.components.worker.task import TaskContext
from fate_flow.core.model.spec import Party
from tests.kit.servers.home_files import contents_below
from tests.kit.servers.mariadb import mariadb_url, open_mariadb
from tests.kit.servers.party_servers import BASE_PORT, GUEST, Cluster, csv_text, running_cluster

pytestmark = [pytest.mark.mariadb, pytest.mark.timeout(900)]

PASSWORD = "hidden:w@rd/1"
ROWS = [("b", "1", "ä\n'`%s"), ("a", "2", "")]


@pytest.fixture(scope="module")
def server() -> str:
    return mariadb_url()


@pytest.fixture(scope="module")
def database(server: str) -> Iterator[str]:
    """The URL of an empty database, with a user of its own."""
    name = f"writer_{secrets.token_hex(4)}"
    with closing(open_mariadb(f"{server}/mysql")) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE USER {name}@'%%' IDENTIFIED BY %s", (PASSWORD,))
        cursor.execute(f"CREATE USER {name}@localhost IDENTIFIED BY %s", (PASSWORD,))
        cursor.execute(f"GRANT ALL ON {name}.* TO {name}@'%'")
        cursor.execute(f"GRANT ALL ON {name}.* TO {name}@localhost")
        parts = urlsplit(server)
        yield f"mysql://{name}:{quote(PASSWORD, safe='')}@{parts.hostname}:{parts.port}/{name}"
        cursor.execute(f"DROP DATABASE {name}")
        cursor.execute(f"DROP USER {name}@'%', {name}@localhost")


@pytest.fixture
def look(server: str, database: str) -> Any:
    """What a statement finds in that database."""
    def look(statement: str) -> list[tuple[Any, ...]]:
        url = f"{server}/{urlsplit(database).path[1:]}"
        with closing(open_mariadb(url)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(row.values()) for row in cursor.fetchall()]
    return look


def address_of(database: str, **changes: Any) -> dict[str, Any]:
    parts = urlsplit(database)
    described = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": PASSWORD}
    return {**described, "db": parts.path[1:], **changes}


def a_writer(
    folder: Path, storage: dict[str, Any], target: str, task_id: str = "job_writer_0", **more: Any
) -> TaskContext:
    uri = format_uri(folder, "demo", "a")
    if not (folder / "demo").exists():
        with TableWriter(uri, Schema(("x", "a `%s` column"), "id")) as made:
            made.add(ROWS)
    parameters = {"namespace": "demo", "name": "a", "connector": "warehouse", "target": target, **more}
    return TaskContext(task_id, "0", "writer_0", "writer", Party("local", "0"), parameters=parameters, storage=storage,
                data_dir=folder)  # fmt: skip


# ---------------------------------------------------------------------- the component


def test_the_rows_are_there_under_their_names(tmp_path: Path, database: str, look: Any) -> None:
    assert writer.run(a_writer(tmp_path, address_of(database), "fresh")).summary == {"count": 2}
    assert look("SELECT * FROM fresh ORDER BY x") == ROWS
    assert [row[0] for row in look("SHOW COLUMNS FROM fresh")] == ["id", "x", "a `%s` column"]


def test_a_table_of_others_stays_unless_it_is_to_be_replaced(tmp_path: Path, database: str, look: Any) -> None:
    writer.run(a_writer(tmp_path, address_of(database), "theirs"))
    writer.run(a_writer(tmp_path, address_of(database), "theirs"))       # a second attempt of the same task
    with pytest.raises(ComponentError, match=r"table 'theirs' of .* exists already; it is replaced with \"drop\": 1"):
        writer.run(a_writer(tmp_path, address_of(database), "theirs", "job2_writer_0"))
    writer.run(a_writer(tmp_path, address_of(database), "theirs", "job2_writer_0", destroy=True))
    assert look("SELECT count(*) FROM theirs") == [(2,)]
    assert [row for row in look("SHOW TABLES") if row[0].startswith("fate_flow_")] == []


@pytest.fixture
def change(server: str, database: str) -> Any:
    """Statements of an administrator, in that database."""
    def change(*statements: str) -> None:
        with closing(open_mariadb(f"{server}/{urlsplit(database).path[1:]}")) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
    return change


def left_behind(look: Any) -> list[str]:
    return [row[0] for row in look("SHOW TABLES") if row[0].startswith("fate_flow_")]


@pytest.mark.parametrize(("name", "made", "says", "is_as_before"), [
    ("parent", "CREATE TABLE child (id INT, p VARCHAR(20), FOREIGN KEY (p) REFERENCES parent (id))",
     r"table writer_\w+\.child refers to it by a foreign key", "INSERT INTO child VALUES (1, 'z')"),
    ("child", "CREATE TABLE child (id VARCHAR(20), FOREIGN KEY (id) REFERENCES parent (id))",
     "it has the foreign key ", "INSERT INTO child VALUES ('z')"),
    ("parent", "CREATE TRIGGER watches BEFORE INSERT ON parent FOR EACH ROW SET NEW.a = 7",
     "it has the trigger watches", "INSERT INTO parent VALUES ('new', 1)"),
    ("seen", "CREATE VIEW seen AS SELECT * FROM parent", "it is no table but a view", "UPDATE seen SET a = 2"),
])
def test_a_table_that_something_hangs_on_is_not_replaced(
    tmp_path: Path, database: str, look: Any, change: Any, name: str, made: str, says: str, is_as_before: str
) -> None:
    change("CREATE TABLE parent (id VARCHAR(20) PRIMARY KEY, a INT)", "INSERT INTO parent VALUES ('z', 1)", made)
    try:
        before = look(f"SHOW CREATE TABLE {name}")
        for destroy in (True, False):
            with pytest.raises(ComponentError, match=f"exists already and is not replaced, drop or not: {says}"):
                writer.run(a_writer(tmp_path, address_of(database), name, destroy=destroy))
        assert look(f"SHOW CREATE TABLE {name}") == before
        change(is_as_before)
        assert left_behind(look) == []
    finally:
        change("DROP VIEW IF EXISTS seen", "DROP TABLE IF EXISTS child", "DROP TABLE parent")


def test_a_foreign_key_that_the_user_cannot_see_keeps_the_table_as_it_was(
    tmp_path: Path, database: str, look: Any, change: Any
) -> None:
    own, other = urlsplit(database).path[1:], f"other_{secrets.token_hex(4)}"
    change("CREATE TABLE held (id VARCHAR(20) PRIMARY KEY)", "INSERT INTO held VALUES ('z')",
           f"CREATE DATABASE {other}",
           f"CREATE TABLE {other}.child (p VARCHAR(20), FOREIGN KEY (p) REFERENCES {own}.held (id))")  # fmt: skip
    try:
        with pytest.raises(ComponentError, match="foreign key constraint"):
            writer.run(a_writer(tmp_path, address_of(database), "held", destroy=True))
        assert look("SELECT * FROM held") == [("z",)]
        change(f"INSERT INTO {other}.child VALUES ('z')")
        assert left_behind(look) == []
    finally:
        change(f"DROP DATABASE {other}", "DROP TABLE held")


@pytest.mark.parametrize("fails_at", ["INSERT", "RENAME TABLE", "DROP TABLE"])
def test_a_connection_that_is_lost_leaves_all_as_it_was(
    tmp_path: Path, database: str, look: Any, change: Any, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    change("CREATE TABLE IF NOT EXISTS lasting (id INT)", "DELETE FROM lasting", "INSERT INTO lasting VALUES (1)")
    pending, real = [fails_at], Cursor.execute

    def execute(cursor: Cursor, query: str | bytes, args: object = None) -> int:
        begins = query[:20] if isinstance(query, str) else bytes(query[:20]).decode()
        if pending and begins.startswith(pending[0]):
            pending.clear()
            change(f"KILL {cursor.connection.thread_id()}")
        return real(cursor, query, args)

    monkeypatch.setattr(Cursor, "execute", execute)
    with pytest.raises(ComponentError, match="MYSQL at "):
        writer.run(a_writer(tmp_path, address_of(database), "lasting", destroy=True))
    assert not pending
    assert look("SELECT * FROM lasting") == [(1,)]
    assert left_behind(look) == []


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(
    tmp_path: Path, server: str, database: str, look: Any, change: Any
) -> None:
    dead, living, other = (f"fate_flow_{digit * 16}" for digit in "abc")
    ours = "COMMENT 'made by fate_flow, task job_writer_0'"
    change(*(f"CREATE TABLE {name} (id INT) {ours}" for name in (dead, living)))
    change(*(f"CREATE TABLE {name} (id INT)" for name in (f"{dead}_old", f"{living}_old", other)))
    with closing(open_mariadb(f"{server}/mysql")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", (living,))
        writer.run(a_writer(tmp_path, address_of(database), "lasting", destroy=True))
        assert left_behind(look) == [living, f"{living}_old", other]
    change(*(f"DROP TABLE {name}" for name in (living, f"{living}_old", other)))


@pytest.mark.parametrize(("changes", "says"), [
    ({"password": "another"}, "Access denied"), ({"port": 1}, "Can't connect"), ({"db": "mysql"}, "denied"),
])
def test_what_the_server_refuses_is_told_without_the_password(
    tmp_path: Path, database: str, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ComponentError, match=says) as caught:
        writer.run(a_writer(tmp_path, address_of(database, **changes), "fresh"))
    assert PASSWORD not in caught.value.message


def test_names_that_differ_in_case_alone_leave_nothing(tmp_path: Path, database: str, look: Any) -> None:
    with TableWriter(format_uri(tmp_path, "demo", "a"), Schema(("x", "X"), "id")) as made:
        made.add([("1", "2", "3")])
    with pytest.raises(ComponentError, match="Duplicate column name"):
        writer.run(a_writer(tmp_path, address_of(database), "twice"))
    assert [row for row in look("SHOW TABLES") if row[0].startswith(("fate_flow_", "twice"))] == []


def test_a_connector_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match="has the connector no more"):
        writer.run(a_writer(tmp_path, {}, "fresh"))


# ---------------------------------------------------------------------- the way back


def a_fetch(
    folder: Path, storage: dict[str, Any], source: str, task_id: str = "job_fetch_0", **more: Any
) -> TaskContext:
    parameters = {"namespace": "demo", "name": "b", "connector": "warehouse", "source": source, **more}
    return TaskContext(task_id, "0", "fetch_0", "fetch", Party("local", "0"), parameters=parameters, storage=storage,
                data_dir=folder)  # fmt: skip


@pytest.fixture(scope="module")
def kinds(server: str, database: str) -> Iterator[str]:
    """A table with columns of many kinds."""
    with closing(open_mariadb(f"{server}/{urlsplit(database).path[1:]}")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE kinds (x DOUBLE, `the id` BIGINT, at DATETIME, amount DECIMAL(10, 2), raw VARBINARY(9))"
        )
        cursor.execute("CREATE TABLE empty (id INT)")
        cursor.execute("INSERT INTO kinds VALUES (1.5, 7, '2026-01-02 03:04:05', 2.50, 'text'), (NULL, 8, NULL, 0, '')")
    return "kinds"


def test_what_was_written_is_fetched_as_it_was(tmp_path: Path, database: str) -> None:
    writer.run(a_writer(tmp_path, address_of(database), "there_and_back", destroy=True))
    outcome = fetch.run(a_fetch(tmp_path, address_of(database), "there_and_back"))
    with Table(outcome.tables["data"]) as table:
        assert sorted(table) == sorted(ROWS)
        assert table.schema == Schema(("x", "a `%s` column"), "id")


def test_columns_are_chosen_and_values_become_text(tmp_path: Path, database: str, kinds: str) -> None:
    fetch.run(a_fetch(tmp_path, address_of(database), kinds, id_column="the id"))
    with Table(format_uri(tmp_path, "demo", "b")) as table:
        assert list(table) == [("7", "1.5", "2026-01-02 03:04:05", "2.50", "text"), ("8", "", "", "0.00", "")]
    chosen = {"id_column": "the id", "feature_column": "amount, x", "destroy": True}
    outcome = fetch.run(a_fetch(tmp_path, address_of(database), kinds, "job2_fetch_0", **chosen))
    assert outcome.summary["schema"] == {"header": ["amount", "x"], "sid": "the id"}


@pytest.mark.parametrize(("more", "says"), [
    ({"source": "nothing"}, "doesn't exist"),
    ({"id_column": "y"}, "id_column: 'y' is not one of the columns x, the id, at, amount, raw"),
    ({"feature_column": "at,y"}, "feature_column: 'y' is not one of the columns"),
    ({"feature_column": "x,at"}, "names a column twice, or that of the ids"),
    ({"feature_column": "at,at"}, "names a column twice"),
    ({}, "row 2 has no id in column 'x'"),
    ({"source": "empty"}, "source: the table has no rows"),
])
def test_what_cannot_be_fetched_leaves_nothing(
    tmp_path: Path, database: str, kinds: str, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(ComponentError, match=says):
        fetch.run(a_fetch(tmp_path, address_of(database), more.pop("source", kinds), **more))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_id_that_is_there_twice_and_a_table_that_is_there(tmp_path: Path, database: str, look: Any) -> None:
    with TableWriter(format_uri(tmp_path, "demo", "a"), Schema(("x",), "id")) as made:
        made.add([("a", "1"), ("b", "1")])
    writer.run(a_writer(tmp_path, address_of(database), "twice_x", destroy=True))
    with pytest.raises(ComponentError, match="an id is twice in column 'x' of 'twice_x'"):
        fetch.run(a_fetch(tmp_path, address_of(database), "twice_x", id_column="x"))
    last = fetch.run(a_fetch(tmp_path, address_of(database), "twice_x", id_column="x", duplicate_ids="last"))
    assert last.summary["count"] == 1
    fetch.run(a_fetch(tmp_path, address_of(database), "twice_x", "job1_fetch_0", destroy=True))
    fetch.run(a_fetch(tmp_path, address_of(database), "twice_x", "job1_fetch_0"))     # its second attempt
    with pytest.raises(TableExists, match="table 'b' in namespace 'demo' exists already"):
        fetch.run(a_fetch(tmp_path, address_of(database), "twice_x", "job2_fetch_0"))


# ---------------------------------------------------------------------- a server that has such a connector


@pytest.fixture(scope="module")
def party(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overlay = {GUEST: {"connectors": {"warehouse": {"engine": "MYSQL", "url": database}}}}
    root = tmp_path_factory.mktemp("writer") / "servers"
    with running_cluster(root, (GUEST,), base_port=BASE_PORT + 40, overlays=overlay) as cluster:
        yield cluster
        cluster.check_idle()


def test_a_table_is_written_and_the_password_told_to_the_worker_alone(party: Cluster, look: Any) -> None:
    guest = party.guest
    guest.has_table("numbers", csv_text(["id", "x"], {"a": [1], "b": [2]}))
    body = {
        "namespace": "it", "table_name": "numbers", "storage_engine": "MYSQL",
        "address": {"connector_name": "warehouse", "name": "numbers"},
    }  # fmt: skip
    answer = guest.post("data/writer", body)
    assert answer["retcode"] == 0, answer
    guest.wait(answer["jobId"], "success")
    assert look("SELECT * FROM numbers ORDER BY id") == [("a", "1"), ("b", "2")]
    bound = {"engine": "MYSQL", "address": body["address"], "namespace": "it", "name": "back", "partitions": 3}
    answer = guest.post("table/bind", {**bound, "options": {"x": 1}})
    assert answer["data"]["warnings"] == ["options: has no effect with MYSQL"]
    guest.wait(answer["jobId"], "success")
    info = guest.ask("table/table_info", {"namespace": "it", "table_name": "back"})
    assert (info["count"], info["partition"], info["origin"]) == (2, 3, "table_bind")
    assert guest.post("table/add", bound)["retmsg"].startswith("The data table already exists")
    connector = guest.ask("table/connector/query", {"connector_name": "warehouse"})
    assert connector.keys() == {"connector_name", "engine", "host", "port", "db"}
    assert "hidden" not in str([connector, guest.ask("server/service/get"), guest.job(answer["jobId"])])
    described = [path for path, content in contents_below(guest.home).items() if b"hidden" in content]
    assert {path.name for path in described} == {"config.yaml", "local.service_conf.yaml"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in described if path.name == "config.yaml"} == {0o600}


def test_a_job_that_would_take_a_foreign_key_along_fails_and_changes_nothing(
    party: Cluster, look: Any, change: Any
) -> None:
    change("CREATE TABLE parent (id VARCHAR(20) PRIMARY KEY)", "INSERT INTO parent VALUES ('z')",
           "CREATE TABLE child (p VARCHAR(20), FOREIGN KEY (p) REFERENCES parent (id))")  # fmt: skip
    try:
        party.guest.has_table("numbers", csv_text(["id", "x"], {"a": [1], "b": [2]}))
        body = {
            "namespace": "it", "table_name": "numbers", "storage_engine": "MYSQL", "drop": 1,
            "address": {"connector_name": "warehouse", "name": "parent"},
        }  # fmt: skip
        answer = party.guest.post("data/writer", body)
        assert "child refers to it by a foreign key" in party.guest.wait(answer["jobId"], "failed")["f_message"]
        assert look("SELECT * FROM parent") == [("z",)]
        assert left_behind(look) == []
    finally:
        change("DROP TABLE child", "DROP TABLE parent")


def test_where_tables_came_from_and_which_jobs_read_them(party: Cluster) -> None:
    """A copy of what was bound from a file by chosen columns, and a file of that copy."""
    guest = party.guest
    (guest.home / "examples").mkdir(exist_ok=True)
    (guest.home / "examples" / "way.csv").write_text("y,key,x\n1,a,2\n1,b,3\n")
    bound, copied = ({"namespace": "it", "table_name": name} for name in ("way_in", "way_on"))
    jobs = []
    for path, body in (
        ("table/bind", {"engine": "PATH", "address": {"path": "examples/way.csv"}, "namespace": "it", "name": "way_in",
                        "id_column": "key", "feature_column": "x,y"}),
        ("data/writer", {**bound, "output_name": "way_on"}),
        ("data/download", {**copied, "output_path": "downloads/way.csv"}),
    ):  # fmt: skip
        answer = guest.post(path, body)
        assert answer["retcode"] == 0, answer
        guest.wait(answer["jobId"], "success")
        jobs.append(answer["jobId"])
    assert (guest.home / "downloads" / "way.csv").read_text() == "key,x,y\na,2,1\nb,3,1\n"
    infos = [guest.ask("table/table_info", one) for one in (bound, copied)]
    assert [(one["count"], one["origin"]) for one in infos] == [(2, "table_bind"), (2, "writer")]
    assert guest.ask("table/tracking/source", bound) == []
    assert guest.ask("table/tracking/source", copied) == [{
        "parent_table_namespace": "it", "parent_table_name": "way_in",
        "source_table_namespace": "it", "source_table_name": "way_in",
    }]
    assert guest.ask("table/tracking/job", bound) == {"count": 2, "job": [jobs[1], jobs[0]], "models": []}
    assert guest.ask("table/tracking/job", copied) == {"count": 2, "job": [jobs[2], jobs[1]], "models": []}
    assert {job_id for one in guest.ask("data/upload/history", {"limit": 100}) for job_id in one}.isdisjoint(jobs)
    seat = {"job_id": jobs[2], "role": "local", "party_id": "0", "component_name": "download_0"}
    assert guest.ask("tracking/component/output/data", seat) == []
    assert guest.post("job/data/view/query", {"job_id": jobs[2]}).get("data", []) == []


def test_a_client_leads_the_server_nowhere_else(party: Cluster) -> None:
    table = {"namespace": "it", "table_name": "numbers", "storage_engine": "MYSQL"}
    for address, says in (
        ({"connector_name": "other", "name": "t"}, "'other' is not one of connectors in service_conf.yaml: warehouse"),
        ({"host": "127.0.0.1", "user": "root", "db": "mysql", "name": "t"}, "address.connector_name: null"),
        ({"connector_name": "warehouse", "name": "a`b"}, "address.name: 'a`b' is not the name of a table"),
    ):
        party.guest.has_table("numbers", csv_text(["id", "x"], {"a": [1], "b": [2]}))
        bound = {"engine": "MYSQL", "namespace": "it", "name": "new", "address": address}
        for path, body in (("data/writer", {**table, "address": address}), ("table/bind", bound)):
            answer = party.guest.post(path, body)
            assert (answer["retcode"], says in answer["retmsg"]) == (101, True), answer
    made = {"connector_name": "warehouse", "engine": "PATH", "connector_info": {"path": "examples"}}
    assert "is one of connectors in service_conf.yaml" in party.guest.post("table/connector/create", made)["retmsg"]
