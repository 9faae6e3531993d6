"""The text of frequent statements is built once, and is always the text that peewee would build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from peewee import Database, fn

from fate_flow.store.database import prepared
from fate_flow.store.database.models import JobRow, StorageTableRow
from fate_flow.store.database.prepared import Prepared, insert, select_text, update, update_text
from tests.kit.store.sqlite_in_memory import sqlite_in_memory


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(prepared, "_shapes", {})
    database = sqlite_in_memory().database
    with database.bind_ctx([JobRow, StorageTableRow]):
        yield database


class _Asked:
    """A select of job ids; it counts how often it was built."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.built = 0

    def __call__(self, *conditions: Any, limit: int = 10) -> tuple[str, list[Any]]:
        return select_text(self._database, "ids", conditions, (limit,), lambda: self._build(conditions, limit))

    def right(self, *conditions: Any, limit: int = 10) -> tuple[str, list[Any]]:
        text, values = self._build(conditions, limit).sql()
        return text, list(values)

    def _build(self, conditions: tuple[Any, ...], limit: int) -> Any:
        self.built += 1
        query = JobRow.select(JobRow.f_job_id)
        for condition in conditions:
            query = query if condition is None else query.where(condition)
        return query.limit(limit)


_PAIRS = {
    "equal": (JobRow.f_job_id == "a", JobRow.f_job_id == "b"),
    "and": (
        (JobRow.f_job_id == "a") & (JobRow.f_create_time > 1), (JobRow.f_job_id == "b") & (JobRow.f_create_time > 2),
    ),
    "some": (JobRow.f_status.in_(("running", "waiting")), JobRow.f_status.in_(("failed", "success"))),
    "none of some": (JobRow.f_status.not_in(["running"]), JobRow.f_status.not_in(["failed"])),
    "function": (fn.COALESCE(JobRow.f_status, "") == "running", fn.COALESCE(JobRow.f_status, "x") == "failed"),
    "part": (JobRow.f_description.contains("a"), JobRow.f_description.contains("b")),
}  # fmt: skip


@pytest.mark.parametrize("name", _PAIRS)
def test_other_values_have_the_same_text(name: str, database: Database) -> None:
    asked = _Asked(database)
    for number, condition in enumerate(_PAIRS[name]):
        assert asked(condition, None, limit=number) == asked.right(condition, None, limit=number)
    assert asked.built == 1 + len(_PAIRS[name]), "only the first one, beside those to compare with"


_DIFFERENT = (
    JobRow.f_status == "a", JobRow.f_status != "a", JobRow.f_job_id == "a", JobRow.f_status.in_(("a",)),
    JobRow.f_status.in_(("a", "b")), JobRow.f_status.in_(()), JobRow.f_status.is_null(), JobRow.f_status.is_null(False),
    fn.COALESCE(JobRow.f_status, "") == "a", fn.LOWER(JobRow.f_status) == "a", JobRow.f_description.contains("50%_"),
    (JobRow.f_status == "a") | (JobRow.f_job_id == "b"), (JobRow.f_status == "a") & (JobRow.f_job_id == "b"),
)  # fmt: skip


def test_what_differs_is_never_taken_for_the_same(database: Database) -> None:
    asked = _Asked(database)
    for _ in range(2):
        for first in (None, *_DIFFERENT):
            for second in (None, *_DIFFERENT):
                assert asked(first, second) == asked.right(first, second)


@pytest.mark.parametrize("condition", [
    JobRow.f_create_time == JobRow.select(fn.MAX(JobRow.f_create_time)),
    JobRow.f_create_time.between(1, 2),
])  # fmt: skip
def test_a_condition_of_another_kind_is_built_each_time(condition: Any, database: Database) -> None:
    asked = _Asked(database)
    assert asked(condition) == asked(condition) == asked.right(condition)
    assert asked.built == 3


def test_values_that_peewee_converts_are_built_each_time(database: Database) -> None:
    asked = _Asked(database)
    assert [asked(JobRow.f_create_time == text)[1][0] for text in ("1", "2")] == [1, 2]
    assert asked.built == 2


def test_clients_cannot_fill_the_memory_with_shapes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_MOST_SHAPES", 5)
    asked = _Asked(database)
    for count in range(20):
        condition = JobRow.f_status.in_(["a"] * count)
        assert asked(condition) == asked.right(condition)
        assert len(prepared._shapes) <= 5


def test_an_update_has_the_text_and_the_values_of_peewee(database: Database) -> None:
    for status, run, reason in (("failed", 3, None), ("running", 4, "task_failed")):
        changes: dict[str, Any] = {"f_status": status, "f_reason": reason, "f_run": run}
        where = (("f_job_id", "a"), ("f_is_initiator", True))
        is_it = (JobRow.f_job_id == "a") & (JobRow.f_is_initiator == True)  # noqa: E712
        text, values = JobRow.update(**changes).where(is_it).sql()
        assert update_text(database, JobRow, changes, where) == (text, list(values))


def _table(name: str, count: int) -> dict[str, Any]:
    return {"f_namespace": "n", "f_name": name, "f_address": "", "f_engine": "e", "f_schema": "{}", "f_count": count}


_COUNTS = Prepared(
    lambda count: StorageTableRow.select(StorageTableRow.f_name).where(StorageTableRow.f_count == count), 1
)


def test_an_update_says_how_many_rows_it_has_changed(database: Database) -> None:
    for name in ("a", "b"):
        insert(database, StorageTableRow, _table(name, 1))
    assert update(database, StorageTableRow, {"f_count": 2}, (("f_namespace", "n"), ("f_name", "a"))) == 1
    assert update(database, StorageTableRow, {"f_count": 2}, (("f_namespace", "n"), ("f_name", "c"))) == 0
    assert _COUNTS.rows(database, 1) == [("b",)]
    assert _COUNTS.rows(database, 2) == [("a",)]


def test_a_row_may_take_the_place_of_the_one_with_its_key(database: Database) -> None:
    for count in (1, 2):
        insert(database, StorageTableRow, _table("a", count), replaces=True)
    assert (_COUNTS.rows(database, 1), _COUNTS.rows(database, 2)) == ([], [("a",)])


def test_what_is_made_of_rows_is_made_once_in_a_transaction_until_they_change(database: Database) -> None:
    made: list[str] = []

    def make(row: tuple[Any, ...]) -> str:
        made.append(row[0])
        return f"table {row[0]}"

    insert(database, StorageTableRow, _table("a", 1))
    with database.atomic("IMMEDIATE"):
        assert [_COUNTS.made(database, make, 1) for _ in range(3)] == [("table a",)] * 3
        assert made == ["a"]
        update(database, StorageTableRow, {"f_count": 2}, (("f_name", "a"),))
        assert _COUNTS.made(database, make, 1) == ()
        assert _COUNTS.made(database, make, 2) == ("table a",)


class _TooLong:
    """A database of MySQL that returns NULL for an array that is too long, as its functions do."""

    is_sqlite = False

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows
        self.asked: list[str] = []

    def execute_sql(self, text: str, params: list[Any]) -> _TooLong:
        self.asked.append(text)
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [(None,)] * len(self._rows) if "JSON_ARRAY" in self.asked[-1] else self._rows


def test_rows_that_are_too_long_for_an_array_are_read_as_they_are(database: Database) -> None:
    rows = [("one", "long", "row", "of", "six", "columns")]
    found, names = _TooLong(rows), ("f_job_id", "f_role", "f_party_id", "f_name", "f_tag", "f_status")
    query = Prepared(lambda: JobRow.select(*(getattr(JobRow, one) for one in names)), 0)
    assert (query.rows(found), query.row(found)) == (rows, rows[0])
    assert ["JSON_ARRAY" in one for one in found.asked] == [True, False] * 2
