"""A query of the board, the API or the command line does as much in a long history as in a short one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fate_flow.store.views.board as board
import fate_flow.store.views.board_approvals as board_approvals
import fate_flow.store.views.board_record as board_record
import fate_flow.store.views.board_tables as board_tables
import fate_flow.store.views.count_cache as count_cache
import fate_flow.store.views.job_search as job_search
from fate_flow.store.database.models import MODELS
from fate_flow.store.views.board_record import RecordSearch
from fate_flow.store.views.board_tables import TablePlace, TableSearch
from fate_flow.store.views.views import Views
from tests.bench.scale.million import database_of
from tests.kit.store.many_jobs import add_tasks
from tests.kit.store.view_queries import Ask, plan_of, statements_of, view_queries

pytestmark = pytest.mark.long

_SHORT, _LONG = 200, 2_000
_GROWS = 1.5
_SEARCHED = 50
_MANY_TASKS = 40
_FEW_ROWS = (
    "t_peer", "t_outbox", "t_engine_registry", "t_record_head", "t_record_evidence", "t_party_key", "t_site_key_info",
)  # fmt: skip
"""Tables that do not grow with the history."""
_STEP = 10                   # instructions of SQLite between two counts


@dataclass(frozen=True)
class _History:
    database: Any
    views: Views
    queries: dict[str, Ask]


@cache
def _names() -> list[str]:
    return list(view_queries("j", "9999", "10000", "work_0", 1))


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[_History, _History]]:
    folder: Path = tmp_path_factory.mktemp("histories")
    with database_of(folder / "short", _SHORT) as (short, one), database_of(folder / "long", _LONG) as (long, other):
        yield _history(short, one, _SHORT), _history(long, other, _LONG)


def _history(database: Any, job_id: str, jobs: int) -> _History:
    created = database.execute_sql("SELECT MIN(f_create_time) FROM t_job WHERE f_job_id = ?", (job_id,)).fetchone()[0]
    for number in range(1, jobs + 1):
        database.execute_sql(
            "INSERT INTO t_record_checkpoint (f_log, f_epoch, f_size, f_note, f_edge, f_time)"
            " VALUES ('own', 1, ?, '', '', ?)", (number, number),
        )
        database.execute_sql(
            "INSERT INTO t_record_entry (f_log, f_epoch, f_index, f_kind, f_time, f_text, f_content)"
            " VALUES ('own', 1, ?, 'job', ?, '', '{}')", (number, number),
        )
    database.execute_sql("INSERT INTO t_record_head (f_log, f_epoch, f_size, f_edge) VALUES ('own', 1, ?, '')", (jobs,))
    return _History(database, Views(database), view_queries(job_id, "9999", "10000", "work_0", created))


@pytest.fixture(autouse=True)
def _searches_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of searches are above the jobs of a test."""
    for module in (board, board_approvals, board_record, board_tables):
        monkeypatch.setattr(module, "MOST_SEARCHED", _SEARCHED)
    monkeypatch.setattr(board, "ENDED_LATELY", _SEARCHED)
    monkeypatch.setattr(board_tables, "OUTPUTS_AT_ONCE", _SEARCHED)
    monkeypatch.setattr(board, "MOST_COUNTED", _SEARCHED)
    monkeypatch.setattr(job_search, "COUNTED_AT_ONCE", _SEARCHED)
    monkeypatch.setattr(count_cache, "SETTLED", 10_000)
    monkeypatch.setattr(count_cache, "BUCKET_ROWS", _SEARCHED)


@pytest.mark.parametrize("name", _names())
def test_a_query_does_as_much_in_a_long_history_as_in_a_short_one(
    histories: tuple[_History, _History], name: str
) -> None:
    """Counted in instructions of SQLite, once the numbers of old rows are remembered."""
    short, long = (_instructions(history, name) for history in histories)
    assert long <= _GROWS * short + 2_000, (short, long)


@pytest.mark.parametrize("name", _names())
def test_no_table_of_history_is_read_but_by_an_index(histories: tuple[_History, _History], name: str) -> None:
    history = histories[0]
    _bind(history)
    found = statements_of(history.database, history.views, history.queries[name])
    assert found
    read = {sql: plan_of(history.database, sql, params) for sql, params in found if not _has_few_rows(sql)}
    ends = {sql: plan for sql, plan in read.items() if _reads_a_whole_table(plan)}
    assert not ends


def test_the_list_of_uploads_is_found_by_an_index(histories: tuple[_History, _History]) -> None:
    """Most metrics are of other namespaces."""
    history = histories[0]
    _bind(history)
    [(sql, params), *_] = statements_of(history.database, history.views, lambda views: views.uploads(10))
    [step] = plan_of(history.database, sql, params)
    assert "ix_metric_namespace (f_metric_namespace=?)" in step


@pytest.mark.parametrize("name", [one for one in _names() if "of a component" in one])
def test_a_search_for_a_component_does_as_much_where_jobs_have_many_tasks(
    histories: tuple[_History, _History], name: str
) -> None:
    history = histories[0]
    few = _instructions(history, name)
    with history.database.atomic() as transaction:
        add_tasks(history.database, _MANY_TASKS)
        many = _instructions(history, name)
        transaction.rollback()
    assert many <= _GROWS * few, (few, many)


def test_the_overview_has_what_failed_last(histories: tuple[_History, _History]) -> None:
    for history in histories:
        _bind(history)
        rows = history.views.board.overview().failed
        assert {row["status"] for row in rows} == {"failed"}
        ends = [row["end_time"] for row in rows]
        newest = history.database.execute_sql(
            "SELECT f_end_time FROM t_job WHERE f_status = 'failed' ORDER BY f_end_time DESC LIMIT 8"
        ).fetchall()
        assert ends == [end for (end,) in newest]


def test_the_page_of_the_record_has_the_newest_checkpoint(histories: tuple[_History, _History]) -> None:
    for history, jobs in zip(histories, (_SHORT, _LONG), strict=True):
        _bind(history)
        [log] = history.views.board.record(RecordSearch(), 0).logs
        assert (log.name, log.epoch, log.size, log.signed_size, log.signed_time) == ("own", 1, jobs, jobs, jobs)


@pytest.mark.parametrize("namespace", ["", "demo"])
@pytest.mark.parametrize("behind", [None, TablePlace(1_000, "demo", "made_5")])
def test_a_page_of_tables_is_read_in_its_order(
    histories: tuple[_History, _History], namespace: str, behind: TablePlace | None
) -> None:
    """Nothing is sorted, and the tables of another namespace are not read."""
    history = histories[0]
    _bind(history)
    search = TableSearch("output", namespace)
    asked = statements_of(history.database, history.views, lambda views: views.board.tables(search, behind))
    steps = [step for sql, params in asked if "t_storage_table_meta" in sql
             for step in plan_of(history.database, sql, params)]  # fmt: skip
    assert len([step for step in steps if step.startswith("SEARCH")]) == 2
    assert not [step for step in steps if "TEMP B-TREE" in step]
    if namespace:
        assert all("ix_table_namespace (f_namespace=? AND f_origin=?" in one for one in steps if "SEARCH" in one)


def _instructions(history: _History, name: str) -> int:
    """How many instructions SQLite needs for a query that was asked before, about."""
    _bind(history)
    ask, counted = history.queries[name], [0]
    ask(history.views)

    def count() -> int:
        counted[0] += _STEP
        return 0

    connection = history.database.connection()
    connection.set_progress_handler(count, _STEP)
    ask(history.views)
    connection.set_progress_handler(None, _STEP)
    return counted[0]


def _bind(history: _History) -> None:
    """The models are bound to one database at a time."""
    history.database.bind(MODELS)


def _has_few_rows(sql: str) -> bool:
    return any(f'"{table}"' in sql for table in _FEW_ROWS)


def _reads_a_whole_table(plan: list[str]) -> bool:
    """Whether a table is read from end to end. What a query has chosen before is read, too, and has a name as well."""
    chosen = {step.split()[1] for step in plan if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
    scans = [step for step in plan if step.startswith("SCAN")]
    return any(step.split()[1] not in chosen and "INDEX" not in step for step in scans)
