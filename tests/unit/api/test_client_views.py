"""The read side under load: it finds what it wants by index, takes no lock, and stays bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from client_world import World, make_world

import fate_flow.store.views as views_module
from fate_flow.core.errors import StorageFailed
from fate_flow.core.status import JobStatus
from fate_flow.store.views import JobWish, Page, Views

NEWEST = Page("create_time", True, 10)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path)
    yield world
    world.store.database.log_sql = None
    world.store.close()


def steps(world: World, ask: Callable[[Views], Any]) -> list[str]:
    """How SQLite goes about each query that this asks."""
    asked: list[tuple[str, Any]] = []
    database = world.store.database
    database.log_sql = lambda sql, params: asked.append((sql, params))
    ask(world.services.views)
    database.log_sql = None
    plans = (
        database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params) for sql, params in asked if sql.startswith("SELECT"))
    return [row[3] for plan in plans for row in plan.fetchall()]


@pytest.mark.parametrize("ask", [
    lambda views: views.jobs({"job_id": "20260101120000"}),
    lambda views: views.jobs({"job_id": "20260101120000", "role": "guest", "party_id": "9999"}),
    lambda views: views.jobs({"status": "running"}),
    lambda views: views.job_list(JobWish(), NEWEST),
    lambda views: views.job_list(JobWish(statuses=("waiting",)), NEWEST),
    lambda views: views.picture("20260101120000"),
    lambda views: views.tasks({"job_id": "20260101120000"}),
    lambda views: views.tasks({"job_id": "20260101120000", "status": "running"}),
    lambda views: views.tasks({"status": "running"}),
    lambda views: views.task_list({}, Page("create_time", False, 10)),
    lambda views: views.jobs_that_hold(),
    lambda views: views.queue(50, 0),
])  # fmt: skip
def test_no_table_of_history_is_read_from_end_to_end(world: World, ask: Callable[[Views], Any]) -> None:
    for _ in range(3):
        world.add_task(world.add_job())
    world.add_job("20260101120000")
    found = steps(world, ask)
    assert found
    assert not [step for step in found if step.startswith("SCAN t1") and "INDEX" not in step], found
    assert not [step for step in found if "ix_job_queue (f_is_initiator=?)" in step], found


def test_reading_does_not_wait_for_a_writer(world: World) -> None:
    job_id = world.add_job()
    is_writing, may_end = threading.Event(), threading.Event()

    def write() -> None:
        with world.store.transaction() as tx:
            tx.set_progress(tx.jobs_here(job_id)[0].key, 50)
            is_writing.set()
            may_end.wait(10)
        world.store.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert is_writing.wait(10)
    try:
        assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_progress"] == 0
    finally:
        may_end.set()
        writer.join()
    assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_progress"] == 50


def test_an_answer_holds_so_many_rows_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views_module, "MOST_ROWS", 3)
    monkeypatch.setattr("fate_flow.api.jobs.MOST_ROWS", 3)
    ids = [world.add_job() for _ in range(5)]
    said = world.ask("job/query", {"role": "guest"})
    assert [row["f_job_id"] for row in said["data"]] == ids[:1:-1]
    assert said["retmsg"] == "success: the newest 3; narrow the query"
    listed = world.ask("job/list/job", {"limit": 0})["data"]
    assert (len(listed["jobs"]), listed["count"]) == (3, 5)
    assert len(world.ask("job/list/job", {"limit": 1000})["data"]["jobs"]) == 3


def test_a_list_reads_no_documents(world: World) -> None:
    world.add_job(status=JobStatus.SUCCESS)
    asked: list[str] = []
    world.store.database.log_sql = lambda sql, _: asked.append(sql)
    world.services.views.job_list(JobWish(), NEWEST)
    assert asked
    assert not [sql for sql in asked if "f_dsl" in sql or "f_runtime_conf" in sql]


def test_a_database_that_does_not_answer_is_a_storage_error(world: World) -> None:
    world.store.database.execute_sql("ALTER TABLE t_job RENAME TO t_gone")
    with pytest.raises(StorageFailed, match="the database refused"):
        world.services.views.jobs({"job_id": "20260101120000"})
    response = world.post("job/query", {"job_id": "20260101120000"})
    assert (response.status_code, response.json["retcode"]) == (500, 500)
