"""Rows of many columns come from MariaDB as one JSON array, with the values that the columns have."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peewee import BigIntegerField, BooleanField, CharField, Database, DateTimeField, IntegerField, TextField

from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import Party
from fate_flow.store.database.base import Base
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import create_if_missing, open_database
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.sql.store import SqlStore
from fate_flow.store.views.views import Views
from tests.kit.servers.mariadb import dropped_databases, mariadb_url

pytestmark = pytest.mark.mariadb


class WideRow(Base):
    f_id = CharField(20, primary_key=True)
    f_text = TextField(null=True)
    f_large = BigIntegerField(null=True)
    f_small = IntegerField(null=True)
    f_truth = BooleanField(null=True)
    f_other = CharField(100, null=True)
    f_last = CharField(1, default="")


class DatedRow(WideRow):
    f_date = DateTimeField(null=True)


@pytest.fixture
def database() -> Iterator[Database]:
    url = f"{mariadb_url()}/flow_{secrets.token_hex(4)}"
    with dropped_databases(url, ["9999"]):
        create_if_missing(url)
        found = open_database(url, Path())
        with found.bind_ctx([WideRow, DatedRow]):
            found.create_tables([WideRow, DatedRow])
            yield found
        found.close()


def read(database: Database, model: type[WideRow], statements: list[str]) -> list[tuple[Any, ...]]:
    """The rows, once as they are read and once as the driver shows them."""
    database.log_sql = lambda sql, _: statements.append(sql)
    query = Prepared(lambda: model.select().order_by(model.f_id), 0)
    found = query.rows(database)
    assert query.row(database) == found[0]
    assert query.made(database, list) == tuple(map(list, found))
    plain = database.execute_sql(query.text(database)[0]).fetchall()
    assert [[(one, type(one)) for one in row] for row in found] == [[(one, type(one)) for one in row] for row in plain]
    return found


def test_a_packed_row_has_the_values_of_its_columns(database: Database) -> None:
    rows = [
        ("1", None, None, None, None, None, ""),
        ("2", "", 0, 0, False, "", ""),
        ("3", '["a", {"b": 1.50}]', 2**63 - 1, -1, True, "null", ""),
        ("4", "\0\x1f\x7f\\\"'%s\n\t\u2028</script>é\U0001f600", -(2**63), 2**31 - 1, True, "é" * 100, ""),
        ("5", "x" * 60_000, 1, 1, False, "5", ""),
    ]
    WideRow.insert_many(rows).execute()
    statements = list[str]()
    assert read(database, WideRow, statements) == rows
    assert all("JSON_ARRAY(" in one for one in statements[:3])


def test_a_row_with_a_date_is_read_as_it_is(database: Database) -> None:
    DatedRow.insert(f_id="1", f_date="2026-11-29 12:00:00").execute()
    statements = list[str]()
    [row] = read(database, DatedRow, statements)
    assert str(row[-1]) == "2026-11-29 12:00:00"
    assert not any("JSON_ARRAY(" in one for one in statements)


def test_no_row_is_no_packed_row(database: Database) -> None:
    query = Prepared(lambda: WideRow.select(), 0)
    assert (query.rows(database), query.row(database), query.made(database, list)) == ([], None, ())


def test_jobs_and_lists_of_them_are_read_as_packed_rows(database: Database) -> None:
    upgrade(database)
    statements = list[str]()
    database.log_sql = lambda sql, _: statements.append(sql)
    key = JobKey("202611290000000000000", Party("guest", "9999"))
    with SqlStore(database).transaction() as tx:
        assert tx.job(key) is None
    fields = ("job_id", "role", "party_id", "name", "tag", "status")
    assert Views(database).jobs(fields, {"status": "running"}) == []
    assert Views(database).job(fields, key) is None
    assert sum("JSON_ARRAY(`t1`.`f_job_id`" in one for one in statements) == 3


def test_a_row_that_is_too_long_for_an_array_is_read_as_it_is(database: Database) -> None:
    """A function of the server returns NULL for more than `max_allowed_packet`. A quote takes two bytes of it."""
    [[_, most]] = database.execute_sql("SHOW VARIABLES LIKE 'max_allowed_packet'").fetchall()
    count = int(most) // 2 + 1000
    database.execute_sql("ALTER TABLE wide_row MODIFY f_text LONGTEXT")
    WideRow.insert(f_id="1").execute()
    database.execute_sql("UPDATE wide_row SET f_text = REPEAT('\"', %s)", (count,))
    [row] = Prepared(lambda: WideRow.select(), 0).rows(database)
    assert row == ("1", '"' * count, None, None, None, None, "")


def test_distinct_rows_and_rows_of_texts_are_read_as_they_are(database: Database) -> None:
    statements = list[str]()
    database.log_sql = lambda sql, _: statements.append(sql)
    texts = [WideRow.f_id, WideRow.f_text, WideRow.f_large, WideRow.f_small, WideRow.f_truth, WideRow.f_other]
    for query in (Prepared(lambda: WideRow.select().distinct(), 0), Prepared(lambda: WideRow.select(*texts), 0)):
        assert query.rows(database) == []
    assert len(statements) == 2
    assert not any("JSON_ARRAY(" in one for one in statements)


def test_no_column_of_the_schema_is_changed_by_an_array(database: Database) -> None:
    upgrade(database)
    types = database.execute_sql(
        "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_schema = DATABASE()"
    ).fetchall()
    assert {name for name, in types} <= {"varchar", "longtext", "text", "bigint", "int", "tinyint", "datetime"}
    checks = database.execute_sql(
        "SELECT check_clause FROM information_schema.check_constraints WHERE constraint_schema = DATABASE()"
    ).fetchall()
    assert checks
    assert not [text for text, in checks if "json" in text.lower()]
