"""The schema: the sum of the migrations is what the models say, on SQLite and on MySQL or MariaDB."""

# ruff: noqa: PT012  # what has to fail is an upgrade under a patch

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import peewee
import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.store.database import migrations
from fate_flow.store.database.migrations import Migration, bind_party, statements, upgrade, version
from fate_flow.store.database.models import MODELS, JobRow, SeatRow, TaskRow, WorkerRow
from fate_flow.store.database.opening import open_database
from tests.kit.store.empty_databases import KINDS, opened

OWN_TABLES = {"t_migration", "t_owner"}
"""Tables of the migrations themselves, which no model reads."""

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Column:
    kind: str
    length: int | None
    is_null: bool


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty one."""
    with opened(request.param, tmp_path, "schema") as found:
        yield found


@pytest.fixture(params=KINDS, scope="module")
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One with all migrations, for tests that leave it as it is."""
    with opened(request.param, tmp_path_factory.mktemp("upgraded"), "upgraded") as found:
        upgrade(found)
        yield found


# ------------------------------------------------------------------ migrations = models


def test_there_is_a_model_for_every_table(database: Any) -> None:
    upgrade(database)
    bind_party(database, "9999")
    assert set(database.get_tables()) - {"sqlite_sequence"} == {_name(model) for model in MODELS} | OWN_TABLES


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.table_name)
def test_columns_are_those_of_the_model(upgraded: Any, model: Any) -> None:
    found = {one.name: _column(one, upgraded) for one in upgraded.get_columns(_name(model))}
    expected = {field.column_name: _of_field(field, upgraded) for field in model._meta.sorted_fields}
    assert found == expected
    assert list(found) == list(expected), "in the same order"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.table_name)
def test_keys_are_those_of_the_model(upgraded: Any, model: Any) -> None:
    assert _key_in_order(upgraded, _name(model)) == [field.column_name for field in model._meta.get_primary_keys()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.table_name)
def test_defaults_are_those_of_the_model(upgraded: Any, model: Any) -> None:
    """A row that an older release or an operator wrote with fewer columns reads the same."""
    found = {one.name: _default(one.default) for one in upgraded.get_columns(_name(model))}
    expected = {field.column_name: _default(field.default) for field in model._meta.sorted_fields}
    assert found == expected


def test_tables_are_innodb_and_compare_bytes(upgraded: Any) -> None:
    if upgraded.is_sqlite:
        pytest.skip("SQLite has neither engines nor character sets")
    rows = upgraded.execute_sql(
        "SELECT table_name, engine, table_collation FROM information_schema.tables WHERE table_schema = DATABASE()"
    ).fetchall()
    modelled = {_name(model) for model in MODELS}
    assert {row[1:] for row in rows if row[0] in modelled} == {("InnoDB", "utf8mb4_bin")}
    assert {row[2] for row in rows} == {"utf8mb4_bin"}


# ------------------------------------------------------------------ status words


STATUS_COLUMNS = [
    (JobRow, "f_status", JobStatus),
    (SeatRow, "f_status", SeatStatus),
    (TaskRow, "f_status", TaskStatus),
    (TaskRow, "f_party_status", TaskStatus),
    (WorkerRow, "f_status", WorkerStatus),
]


@pytest.mark.parametrize(("model", "column", "statuses"), STATUS_COLUMNS)
def test_the_check_has_every_status_and_no_other(
    upgraded: Any, model: Any, column: str, statuses: type[Enum]
) -> None:
    allowed = {word for word in _candidates() if _takes(upgraded, model, column, word)}
    assert allowed == {status.value for status in statuses}


@pytest.mark.parametrize(("model", "column", "statuses"), STATUS_COLUMNS)
def test_the_checks_name_only_statuses(model: Any, column: str, statuses: type[Enum]) -> None:
    text = {status.value for status in statuses}
    ends = {status.value for status in (*JOB_END, *TASK_END)} & text
    for listed in _lists_in_checks(_name(model), column):
        assert listed in (text, ends), "all of them, or exactly the terminal ones"


# ------------------------------------------------------------------ upgrading


def test_upgrading_twice_is_upgrading_once(database: Any) -> None:
    applied = upgrade(database)
    assert applied == migrations.migrations()
    assert version(database) == applied[-1].number
    JobRow.bind(database)
    before = _tables_and_indexes(database)
    assert upgrade(database) == ()
    assert _tables_and_indexes(database) == before


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [one.number for one in migrations.migrations()] == list(range(1, len(migrations.migrations()) + 1))


def test_an_empty_database_has_no_version(database: Any) -> None:
    assert version(database) == 0


def test_only_what_is_missing_is_applied(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = upgrade(database)
    sql = "CREATE TABLE t_more (f_a INTEGER);\n-- a comment; with a semicolon\nCREATE INDEX ix_more ON t_more (f_a);"
    more = Migration(first[-1].number + 1, "more", sql)
    monkeypatch.setattr(migrations, "migrations", lambda: (*first, more))
    assert upgrade(database) == (more,)
    assert version(database) == more.number
    assert "t_more" in database.get_tables()


def test_a_newer_database_is_refused(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = upgrade(database)
    newer = Migration(first[-1].number + 1, "newer", "CREATE TABLE t_newer (f_a INTEGER)")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda: (*first, newer))
        upgrade(database)
    with pytest.raises(StorageFailed, match="install the newer release"):
        upgrade(database)


def _killed(database: Any, monkeypatch: pytest.MonkeyPatch, statement: str, after: int) -> None:
    """An upgrade that ends before a statement that begins like this, when it has run so many of them."""
    run, seen = database.execute_sql, 0

    def until_killed(sql: str, *args: Any) -> Any:
        nonlocal seen
        if sql.startswith(statement):
            if seen == after:
                raise KeyboardInterrupt
            seen += 1
        return run(sql, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(database, "execute_sql", until_killed)
        upgrade(database)
    assert version(database) == 0


@pytest.mark.parametrize("statement", ["INSERT INTO t_migration", "CREATE ", "UPDATE t_migration"])
def test_an_upgrade_that_was_cut_off_goes_on(database: Any, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Killed in the middle, SQLite has none of it and MySQL a part, which the next upgrade completes."""
    for after in (0, 0, 3, 1, 0) if statement != "INSERT INTO t_migration" else (0, 0):
        _killed(database, monkeypatch, statement, after)
    first, *_ = upgrade(database)
    assert version(database) >= first.number == 1
    assert {_name(model) for model in MODELS} <= set(database.get_tables())


def test_a_wrong_migration_fails(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exists already is passed over only where an upgrade was cut off."""
    sql = "CREATE TABLE t_one (f_a INTEGER); CREATE TABLE t_two (f_a INTEGER); CREATE TABLE t_two (f_a INTEGER)"
    monkeypatch.setattr(migrations, "migrations", lambda: (Migration(1, "wrong", sql),))
    with pytest.raises(StorageFailed, match="t_two"):
        upgrade(database)
    assert version(database) == 0


def test_tables_of_somebody_else_are_not_taken_for_ours(database: Any) -> None:
    """FATE's own database has a t_job too."""
    database.execute_sql("CREATE TABLE t_job (f_job_id VARCHAR(25))")
    for _ in range(2):
        with pytest.raises(StorageFailed, match="tables of another program: t_job"):
            upgrade(database)
    assert version(database) == 0


# ------------------------------------------------------------------ digests


def test_a_database_with_another_migration_of_that_number_is_refused(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = upgrade(database)
    edited = Migration(1, "initial", first.sql.replace("f_tag VARCHAR(50)", "f_tag VARCHAR(51)"))
    monkeypatch.setattr(migrations, "migrations", lambda: (edited, *others))
    for refused in (upgrade, migrations.check_digests):
        with pytest.raises(StorageFailed, match=r"migration 0001 is not the one of this release.*empty database"):
            refused(database)


def _as_before_digests(database: Any, sql: str) -> None:
    """What a server that recorded no digests has left behind."""
    todo = list(statements(sql, is_sqlite=database.is_sqlite))
    for statement in todo:
        database.execute_sql(statement)
    database.execute_sql(
        "CREATE TABLE t_migration"
        " (f_number INTEGER NOT NULL PRIMARY KEY, f_name VARCHAR(100) NOT NULL, f_left INTEGER NOT NULL)"
    )
    database.execute_sql("INSERT INTO t_migration (f_number, f_name, f_left) VALUES (1, 'initial', 0)")
    bind_party(database, "9999")


def test_a_database_without_digests_is_upgraded_when_its_tables_are_those_of_migration_1(database: Any) -> None:
    first, *others = migrations.migrations()
    _as_before_digests(database, first.sql)
    assert version(database) == 1
    assert upgrade(database) == tuple(others)
    assert version(database) == migrations.migrations()[-1].number
    assert upgrade(database) == ()
    migrations.check_digests(database)


OLDER = {
    "column": ("  f_hold_by VARCHAR(100) NOT NULL DEFAULT '',\n", "", "column f_hold_by of table t_job is missing"),
    "index": ("CREATE INDEX ix_job_turn ON t_job (f_ready_signal, f_is_initiator, f_status);\n", "",
              "index ix_job_turn of table t_job is missing"),
    "table": ("CREATE TABLE t_intake", "CREATE TABLE t_other", "table t_intake is missing"),
    "unknown column": ("  f_hold_by ", "  f_old INTEGER,\n  f_hold_by ", "column f_old of table t_job is unknown"),
}  # fmt: skip


@pytest.mark.parametrize("old", OLDER.values(), ids=OLDER)
def test_a_database_of_an_unreleased_schema_is_refused(database: Any, old: tuple[str, str, str]) -> None:
    """It was started and answered 500 to requests."""
    wanted, had, says = old
    first = migrations.migrations()[0]
    assert wanted in first.sql
    _as_before_digests(database, first.sql.replace(wanted, had))
    for _ in range(2):
        with pytest.raises(StorageFailed, match=f"cannot be upgraded: {says}.*Start with an empty database: set"):
            upgrade(database)


def test_a_database_with_an_older_check_is_refused(tmp_path: Path) -> None:
    database = open_database("", tmp_path)
    _as_before_digests(database, migrations.migrations()[0].sql.replace("'room', 'size', ", "'room', "))
    with pytest.raises(StorageFailed, match="table t_job has other types or checks"):
        upgrade(database)
    database.close()


# ------------------------------------------------------------------ one party


def test_a_database_belongs_to_one_party(database: Any) -> None:
    upgrade(database)
    bind_party(database, "9999")
    bind_party(database, "9999")
    with pytest.raises(StorageFailed, match="belongs to party 9999, this server is party 10000"):
        bind_party(database, "10000")
    bind_party(database, "9999")


def test_a_database_that_cannot_be_opened_is_storage_failed(tmp_path: Path) -> None:
    (tmp_path / "fate_flow.sqlite").write_text("this is no database, but something else of some length" * 50)
    database = open_database("", tmp_path)
    with pytest.raises(StorageFailed, match="not a database"):
        upgrade(database)
    database.close()


# ------------------------------------------------------------------ reading a schema


def _name(model: Any) -> str:
    return str(model._meta.table_name)


def _column(one: Any, database: Any) -> Column:
    full = (one.data_type if database.is_sqlite else one.full_type).upper()
    kind, _, rest = full.partition("(")
    is_text = kind == "VARCHAR"
    return Column(_KINDS.get(kind, kind), int(rest.rstrip(")")) if is_text else None, one.null)


_KINDS = {"BOOLEAN": "BOOL", "TINYINT": "BOOL", "LONGTEXT": "TEXT", "INT": "INTEGER"}


def _of_field(field: Any, database: Any) -> Column:
    kind = field.field_type
    if kind == "BIGAUTO":
        kind = "INTEGER" if database.is_sqlite else "BIGINT"
    length = field.max_length if kind == "VARCHAR" else None
    return Column({"INT": "INTEGER"}.get(kind, kind), length, field.null)


def _default(value: Any) -> str:
    """None, '', 0 and False as both sides write them."""
    if value is None or value == "NULL":
        return ""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return text.strip("'").replace("''", "")


def _key_in_order(database: Any, table: str) -> list[str]:
    if database.is_sqlite:
        rows = database.execute_sql(f"PRAGMA table_info({table})").fetchall()
        return [row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5]]
    rows = database.execute_sql(f"SHOW INDEX FROM {table} WHERE Key_name = 'PRIMARY'").fetchall()
    return [row[4] for row in sorted(rows, key=lambda row: row[3])]


def _tables_and_indexes(database: Any) -> dict[str, Any]:
    return {
        table: (database.get_columns(table), sorted(database.get_indexes(table)))
        for table in sorted(database.get_tables())
    }


def _candidates() -> set[str]:
    every = {status.value for statuses in (JobStatus, SeatStatus, TaskStatus, WorkerStatus) for status in statuses}
    quoted = set(re.findall(r"'(\w+)'", _all_sql()))
    return every | quoted | {"", "Success", "complete", "unknown"}


def _all_sql() -> str:
    return ";\n".join(one.sql for one in migrations.migrations())


def _takes(database: Any, model: Any, column: str, word: str) -> bool:
    """Whether the database takes a row with this word, whatever else its other CHECKs ask for."""
    row = {field.column_name: _filler(field) for field in model._meta.sorted_fields if not field.null}
    row[column] = word
    columns = {one.column_name for one in model._meta.sorted_fields}
    row |= {name: "stopped" for name in ("f_reason", "f_federated_reason", "f_caused_by") if name in columns}
    ends = [name for name in ("f_end_time", "f_federated_end_time") if name in columns]
    times = [dict.fromkeys(some, 1) for some in ([], ends[:1], ends[1:], ends)]
    return any(_inserts(database, _name(model), row | one) for one in times)


def _filler(field: Any) -> Any:
    if field.name in ("f_status", "f_party_status"):
        return "running"
    if field.default is not None:
        return field.default
    return 0 if field.field_type in ("INT", "BIGINT", "BOOL") else "x"


def _inserts(database: Any, table: str, row: dict[str, Any]) -> bool:
    marks = ", ".join(["?" if database.is_sqlite else "%s"] * len(row))
    with database.atomic() as attempt:
        try:
            database.execute_sql(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
        except (peewee.IntegrityError, peewee.OperationalError):
            return False
        finally:
            attempt.rollback()
    return True


def _lists_in_checks(table: str, column: str) -> list[set[str]]:
    body = next(
        statement
        for statement in statements(_all_sql(), is_sqlite=True)
        if statement.startswith(f"CREATE TABLE {table} ")
    )
    lists = re.findall(rf"\b{column} (?:NOT )?IN\s*\(([^)]*)\)", body)
    assert lists, f"{table}.{column} has no CHECK"
    return [set(re.findall(r"'(\w+)'", one)) for one in lists]
