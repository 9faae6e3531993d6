"""The read side under load: it finds what it wants by index, takes no lock, and stays bounded."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import fate_flow.store.views.lists as lists_module
from fate_flow.api.v1.rendering.engine import HOLDER
from fate_flow.api.v1.rendering.job import JOB, LISTED_JOB
from fate_flow.api.v1.rendering.task import LISTED_TASK, TASK
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.store.database.models import JobRow
from fate_flow.store.values import TableMeta
from fate_flow.store.views import board, count_cache, job_search
from fate_flow.store.views.lists import JobQuery, Page
from fate_flow.store.views.views import Views
from tests.kit.api.client_world import GUEST, HOST, START, World, make_world
from tests.kit.mostly_heavy import mostly_heavy

pytestmark = pytest.mark.long

NEWEST = Page("create_time", True, 10)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path)
    yield world
    world.store.database.log_sql = None
    world.store.close()


def steps(world: World, ask: Callable[[Views], Any]) -> list[str]:
    """How SQLite goes about each query that this asks, but for those of `t_peer`, which has one row a party."""
    asked: list[tuple[str, Any]] = []
    database = world.store.database
    database.log_sql = lambda sql, params: asked.append((sql, params))
    ask(world.services.views)
    database.log_sql = None
    looks = [(sql, params) for sql, params in asked if sql.startswith("SELECT") and '"t_peer"' not in sql]
    plans = (database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params) for sql, params in looks)
    return [row[3] for plan in plans for row in plan.fetchall()]


@pytest.mark.parametrize("ask", [
    lambda views: views.jobs(JOB, {"job_id": "20260101120000"}),
    lambda views: views.jobs(JOB, {"job_id": "20260101120000", "role": "guest", "party_id": "9999"}),
    lambda views: views.jobs(JOB, {"status": "running"}),
    lambda views: views.job_list(LISTED_JOB, JobQuery(), NEWEST),
    lambda views: views.job_list(LISTED_JOB, JobQuery(statuses=("waiting",)), NEWEST),
    lambda views: views.snapshot("20260101120000"),
    lambda views: views.tasks(TASK, {"job_id": "20260101120000"}),
    lambda views: views.tasks(TASK, {"job_id": "20260101120000", "status": "running"}),
    lambda views: views.tasks(TASK, {"status": "running"}),
    lambda views: views.task_list(LISTED_TASK, {}, Page("create_time", False, 10)),
    lambda views: views.task_list(LISTED_TASK, {"role": "host"}, Page("elapsed", False, 10)),
    lambda views: views.jobs_that_hold(HOLDER),
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
            may_end.wait(90)
        world.store.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert is_writing.wait(90)
    try:
        assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_progress"] == 0
    finally:
        may_end.set()
        writer.join()
    assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_progress"] == 50


def test_an_answer_holds_so_many_rows_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_module, "MOST_ROWS", 3)
    monkeypatch.setattr("fate_flow.api.v1.jobs.jobs.MOST_ROWS", 3)
    ids = [world.add_job() for _ in range(5)]
    said = world.ask("job/query", {"role": "guest"})
    assert [row["f_job_id"] for row in said["data"]] == ids[:1:-1]
    assert said["retmsg"] == "success: the newest 3; narrow the query, or request a page"
    listed = world.ask("job/list/job", {"limit": 0})["data"]
    assert (len(listed["jobs"]), listed["count"]) == (3, 5)
    assert len(world.ask("job/list/job", {"limit": 1000})["data"]["jobs"]) == 3


def test_a_list_reads_no_documents(world: World) -> None:
    world.add_job(status=JobStatus.SUCCESS)
    asked: list[str] = []
    world.store.database.log_sql = lambda sql, _: asked.append(sql)
    world.services.views.job_list(LISTED_JOB, JobQuery(), NEWEST)
    assert asked
    assert not [sql for sql in asked if "f_dsl" in sql or "f_runtime_conf" in sql]


def test_a_database_that_does_not_answer_is_a_storage_error(world: World) -> None:
    world.store.database.execute_sql("ALTER TABLE t_job RENAME TO t_gone")
    with pytest.raises(StorageFailed, match="the database refused"):
        world.services.views.jobs(JOB, {"job_id": "20260101120000"})
    response = world.post("job/query", {"job_id": "20260101120000"})
    assert (response.status_code, response.json["retcode"]) == (500, 500)


# pages


@pytest.fixture
def short_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_cache, "BUCKET_ROWS", 4)
    monkeypatch.setattr(count_cache, "SETTLED", 3)


def jobs_of_many_kinds(world: World, status: JobStatus = JobStatus.WAITING) -> None:
    for number in range(30):
        job_id = world.add_job(
            status=status, party=Party("local", "0") if number % 7 == 3 else GUEST, f_elapsed=number * 11 % 17 or None,
            f_start_time=START - number, f_description="odd" if number % 2 else "even",
        )  # fmt: skip
        world.add_task(job_id)
        world.add_task(job_id, party=HOST)


ORDERS = tuple(itertools.product(("create_time", "start_time", "end_time", "elapsed"), ("asc", "desc")))


def orders_for(wanted: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """All orders for a list without a filter, and one in each direction beside a filter."""
    return ORDERS if not wanted else (("create_time", "desc"), ("end_time", "asc"))


def ids_of(world: World) -> list[str]:
    return [row["job_id"] for row in world.ask("job/list/job", {"limit": 0})["data"]["jobs"]]


def paged(world: World, path: str, kind: str, **body: Any) -> list[Any]:
    """All rows of a list, page by page; each page says how many there are."""
    answers = (world.ask(path, {"limit": 4, "page": page, **body})["data"] for page in itertools.count(1))
    pages = list(itertools.takewhile(lambda data: data[kind], answers))
    found = [row for data in pages for row in data[kind]]
    assert {data["count"] for data in pages} <= {len(found)}
    return found


@pytest.mark.usefixtures("short_buckets")
@pytest.mark.parametrize("wanted", mostly_heavy([
    {}, {"status": ["success", "failed"], "role": "guest"}, {"partner": "10000"}, {"description": "odd"},
    {"role": "local"}, {"role": ["local", "guest"]}, {"status": "waiting"}, {"job_id": "202601011"}, {"role": "host"},
    {"status": "success"}, {"status": ["success", "waiting"]},
], 3))  # fmt: skip
def test_the_pages_of_jobs_are_the_list(world: World, wanted: dict[str, Any]) -> None:
    jobs_of_many_kinds(world)
    for number, job_id in enumerate(ids_of(world)):
        if number % 5:
            status = "failed" if number % 5 == 1 else "success"
            end = {"f_status": status, "f_end_time": START + number * 7 % 31, "f_reason": "done"}
            world.write("t_job", {"f_job_id": job_id}, **end)
    for by, order in orders_for(wanted):
        body = {**wanted, "order_by": by, "order": order}
        whole = world.ask("job/list/job", {"limit": 0, **body})["data"]["jobs"]
        assert paged(world, "job/list/job", "jobs", **body) == whole
        keys = [(job[by] or 0, job["job_id"]) for job in whole]
        assert keys == sorted(keys, reverse=order == "desc")


@pytest.mark.usefixtures("short_buckets")
@pytest.mark.parametrize("wanted", mostly_heavy([
    {"role": "guest", "party_id": "9999"}, {}, {"role": "host"}, {"role": "arbiter"}
], 2))  # fmt: skip
def test_the_pages_of_tasks_are_the_list(world: World, wanted: dict[str, Any]) -> None:
    jobs_of_many_kinds(world)
    for number, job_id in enumerate(ids_of(world)):
        if number % 6:
            world.write("t_task", {"f_job_id": job_id}, **ended_task(number * 11 % 17))
    for by, order in orders_for(wanted):
        body = {**wanted, "order_by": by, "order": order}
        pages = paged(world, "job/list/task", "tasks", **body)
        assert pages == world.ask("job/list/task", {"limit": 0, **body})["data"]["tasks"]
        assert len(pages) == {"host": 30, "guest": 30, "arbiter": 0}.get(wanted.get("role", ""), 60)
        assert [task[by] or 0 for task in pages] == sorted((task[by] or 0 for task in pages), reverse=order == "desc")


def ended_task(elapsed: int, end: int = START) -> dict[str, Any]:
    """By a clock of another party, which may say anything."""
    status = {"f_status": "success", "f_party_status": "success"}
    ended = {"f_federated_reason": "done", "f_federated_end_time": end}
    return {**status, **ended, "f_start_time": end - elapsed, "f_end_time": end, "f_elapsed": elapsed}


@pytest.mark.usefixtures("short_buckets")
@pytest.mark.parametrize("most_late", [0, 500])
@pytest.mark.parametrize("by", ["start_time", "end_time", "elapsed"])
def test_a_list_of_tasks_that_was_counted_knows_of_ends_by_any_clock(
    world: World, by: str, most_late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_cache, "MOST_LATE", most_late)
    ids = [world.add_job() for _ in range(16)]
    for number, job_id in enumerate(ids):
        world.add_task(job_id, f_create_time=START + number)
        if number != 5:
            world.write("t_task", {"f_job_id": job_id}, **ended_task(number))

    def listed() -> list[str]:
        return [task["job_id"] for task in paged(world, "job/list/task", "tasks", order_by=by)]

    assert listed()[0] == ids[5], "it has none yet"
    world.write("t_task", {"f_job_id": ids[5]}, **ended_task(99, START - 10**6))
    assert (len(listed()), listed().index(ids[5])) == (16, 15 if by == "elapsed" else 0)


@pytest.mark.usefixtures("short_buckets")
@pytest.mark.parametrize(("path", "wanted"), [
    ("job/query", {"role": "guest"}), ("job/query", {"status": "waiting"}),
    ("job/query", {"status": ["waiting", "success"], "role": ["guest", "local"]}), ("job/task/query", {"role": "host"}),
])  # fmt: skip
def test_what_is_queried_comes_in_pages_too(world: World, path: str, wanted: dict[str, Any]) -> None:
    jobs_of_many_kinds(world)
    whole = world.ask(path, wanted)["data"]
    pages = [world.post(path, {**wanted, "limit": 7, "page": page}).json.get("data", []) for page in range(1, 9)]
    assert [row for page in pages for row in page] == whole
    assert [len(page) for page in pages[:2]] == [7, 7]
    refused = world.post(path, {**wanted, "limit": -1})
    assert (refused.status_code, "'limit'" in refused.json["retmsg"]) == (400, True)


@pytest.mark.usefixtures("short_buckets")
def test_a_list_that_was_counted_grows_and_shrinks(world: World) -> None:
    ids = [world.add_job(status=JobStatus.SUCCESS) for _ in range(12)]
    last = {"limit": 4, "page": 3}
    assert [one["job_id"] for one in world.ask("job/list/job", last)["data"]["jobs"]] == ids[3::-1]
    world.add_job()
    assert [one["job_id"] for one in world.ask("job/list/job", last)["data"]["jobs"]] == ids[4:0:-1]
    with world.store.transaction() as tx:
        assert tx.take_scheduler_lease("", 0, "a server")
        assert tx.forget_ended(ids[0])
        assert tx.forget_ended(ids[5])
    data = world.ask("job/list/job", last)["data"]
    assert (data["count"], [one["job_id"] for one in data["jobs"]]) == (11, [ids[3], ids[2], ids[1]])


@pytest.mark.usefixtures("short_buckets")
def test_a_list_by_notes_that_was_counted_knows_of_other_notes(world: World) -> None:
    ids = [world.add_job(status=JobStatus.SUCCESS) for _ in range(12)]
    with world.store.transaction() as tx:
        assert tx.take_scheduler_lease("", 0, "a server")
    described = {"description": "told"}
    assert world.ask("job/list/job", described)["data"]["count"] == 0
    seat = {"role": "guest", "party_id": 9999}
    assert world.ask("job/update", {"job_id": ids[2], **seat, "notes": "I was told"})["retcode"] == 0
    data = world.ask("job/list/job", described)["data"]
    assert (data["count"], [one["job_id"] for one in data["jobs"]]) == (1, [ids[2]])


@pytest.mark.usefixtures("short_buckets")
@pytest.mark.parametrize("by", ["create_time", "start_time", "end_time", "elapsed"])
def test_a_list_by_status_that_was_counted_knows_of_ends_and_reruns(world: World, by: str) -> None:
    ids = [
        world.add_job(status=JobStatus.WAITING if number % 4 == 1 else JobStatus.SUCCESS, f_end_time=None
                      if number % 4 == 1 else START + number, f_elapsed=None if number % 4 == 1 else number)
        for number in range(16)
    ]  # fmt: skip
    with world.store.transaction() as tx:
        assert tx.take_scheduler_lease("", 0, "a server")

    def found() -> list[str]:
        pages = paged(world, "job/list/job", "jobs", status="success", order_by=by, order="asc")
        return sorted(row["job_id"] for row in pages)

    over = sorted(set(ids) - set(ids[1::4]))
    assert found() == over
    ended = {"f_status": "success", "f_end_time": START + 100, "f_elapsed": 4, "f_reason": "done"}
    world.write("t_job", {"f_job_id": ids[1]}, **ended)
    assert found() == sorted([*over, ids[1]]), "it has ended since"
    with world.store.transaction() as tx:
        [job] = tx.jobs_here(ids[0])
        assert tx.begin_again(job, 1, START, "")
    assert found() == sorted([*over[1:], ids[1]]), "a settled one waits again"


@pytest.mark.usefixtures("short_buckets")
def test_what_was_counted_is_not_counted_again(world: World) -> None:
    jobs_of_many_kinds(world)
    views = world.services.views

    def counts() -> int:
        found = steps(world, lambda _: views.job_list(LISTED_JOB, JobQuery(), NEWEST))
        return sum(step.count("ix_job_created") for step in found)

    first, second = counts(), counts()
    assert second == 4, "rows without a time, the unsettled ones of two buckets, the page"
    assert first - second == 1 + 8 + 9, "the newest row, the 8 buckets of 4, their rows and those without a time"


@pytest.mark.usefixtures("short_buckets")
def test_what_was_counted_is_not_believed_for_ever(world: World) -> None:
    for _ in range(12):
        world.add_job()
    now, by = [0.0], "f_create_time"
    counted = count_cache.CountCache(JobRow, lambda: now[0])

    def total() -> int:
        with world.services.views._reading():
            return counted.count(None, "all", forgotten=7, by=by, age=by).total

    assert total() == 12
    world.store.database.execute_sql("DELETE FROM t_job")
    now[0] = count_cache.MOST_AGE
    assert total() == 8, "two buckets are remembered"
    now[0] += 1
    assert total() == 0


@pytest.mark.parametrize("ask", [
    lambda views: views.job_list(LISTED_JOB, JobQuery(), NEWEST),
    lambda views: views.job_list(LISTED_JOB, JobQuery(roles=("guest",)), NEWEST),
    lambda views: views.job_list(LISTED_JOB, JobQuery(statuses=("success",)), NEWEST),
    lambda views: views.job_list(LISTED_JOB, JobQuery(statuses=("success",)), Page("elapsed", True, 10, 20)),
    lambda views: views.job_list(LISTED_JOB, JobQuery(statuses=("failed", "waiting")), Page("end_time", True, 10)),
    lambda views: views.job_list(LISTED_JOB, JobQuery(), Page("start_time", False, 10)),
    lambda views: views.job_list(LISTED_JOB, JobQuery(), Page("end_time", True, 10)),
    lambda views: views.job_list(LISTED_JOB, JobQuery(), Page("elapsed", True, 10, 500)),
    lambda views: views.jobs(JOB, {"status": "success"}, NEWEST),
    lambda views: views.jobs(JOB, {"role": "guest", "party_id": "9999", "status": "success"}, NEWEST),
    lambda views: views.task_list(LISTED_TASK, {}, NEWEST),
    lambda views: views.task_list(LISTED_TASK, {"role": "host"}, NEWEST),
    lambda views: views.task_list(LISTED_TASK, {}, Page("start_time", False, 10)),
    lambda views: views.task_list(LISTED_TASK, {}, Page("end_time", False, 10)),
    lambda views: views.task_list(LISTED_TASK, {}, Page("elapsed", True, 10, 500)),
    lambda views: views.tasks(TASK, {"status": "success"}, NEWEST),
    lambda views: views.tasks(TASK, {"role": "host", "party_id": "10000"}, NEWEST),
])  # fmt: skip
def test_a_page_is_chosen_by_an_index_alone(world: World, ask: Callable[[Views], Any]) -> None:
    """Rows hold documents: those that are passed over are not to be read, and none is to be sorted."""
    jobs_of_many_kinds(world, JobStatus.SUCCESS)
    found = steps(world, ask)
    chosen = [step for step in found if "t_job" not in step and re.match(r"(SCAN|SEARCH) t[12] USING", step)]
    read = [step for step in chosen if "COVERING INDEX ix_" not in step and "sqlite_autoindex" not in step]
    assert chosen
    assert not read, found
    sorts = [place for place, step in enumerate(found) if step == "USE TEMP B-TREE FOR ORDER BY"]
    assert all("SCAN t" in found[place - 2] for place in sorts), f"the rows of the page alone: {found}"


def test_a_search_goes_on_from_its_place_and_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [world.add_job(f_name="odd" if number % 2 else "even") for number in range(5)][::-1]
    first = world.ask("job/search", {"limit": 3})["data"]
    rest = world.ask("job/search", {"limit": 3, "from": first["next"]})["data"]
    assert [row["job_id"] for data in (first, rest) for row in data["jobs"]] == ids
    assert [(data["count"], data["is_counted"], data["is_cut"]) for data in (first, rest)] == [(5, True, False)] * 2
    assert rest["next"] is None
    monkeypatch.setattr(board, "MOST_SEARCHED", 2)
    cut = world.ask("job/search", {"text": "even"})["data"]
    assert [row["job_id"] for row in cut["jobs"]] == ids[:1]
    assert (cut["count"], cut["is_counted"], cut["is_cut"], cut["looked_at"]) == (1, False, True, 2)
    assert first["looked_at"] == 0
    pieces, place = [], ""
    while place is not None:
        piece = world.ask("job/search/count", {"text": "even", "from": place})["data"]
        pieces.append((piece["count"], piece["looked_at"]))
        place = piece["next"]
    assert pieces == [(1, 2), (1, 2), (1, 1)]


def test_the_tables_of_an_origin_are_listed_from_a_place_on_and_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = world.add_job(f_name="monthly")
    with world.store.transaction() as tx:
        for number, namespace in enumerate(("demo", "two words/ü", "demo", "demo", "demo")):
            schema = {"header": ["x", "y"]} if number else {}
            tx.save_table(TableMeta(namespace, f"t/{number}", "standalone:///x", number, schema, job_id=job_id), START)
        tx.save_table(TableMeta("demo", "bound", "standalone:///x", 1, {}, origin="table_bind"), START)
    first = world.ask("table/search", {"limit": 3})
    assert first["jobs"][job_id]["name"] == "monthly"
    data = first["data"]
    assert data["tables"][0] == {
        "namespace": "two words/ü", "table_name": "t/1", "origin": "upload", "count": 1, "columns": 3, "job_id": job_id,
        "create_time": START, "enable": True,
    }  # fmt: skip
    assert (data["count"], data["is_counted"]) == (5, True)
    names = [one["table_name"] for one in data["tables"]]
    place = data["next"]
    rest = world.ask("table/search", {"limit": 3, "from": place})["data"]
    assert rest["next"] is None
    assert [*names, *(one["table_name"] for one in rest["tables"])] == ["t/1", "t/4", "t/3", "t/2", "t/0"]
    assert world.ask("table/search", {"namespace": "demo"})["data"]["count"] == 4
    [bound] = world.ask("table/search", {"origin": "table_bind"})["data"]["tables"]
    assert (bound["table_name"], bound["origin"], bound["job_id"]) == ("bound", "table_bind", "")
    monkeypatch.setattr(job_search, "COUNTED_AT_ONCE", 2)
    pieces, following = [], ""
    while following is not None:
        piece = world.ask("table/search/count", {"from": following})["data"]
        pieces.append((piece["count"], piece["looked_at"]))
        following = piece["next"]
    assert pieces == [(2, 2), (2, 2), (1, 1)]


@pytest.mark.parametrize("body", [
    {"origin": "odd"}, {"namespace": ""}, {"namespace": 7}, {"from": "1"}, {"from": "1/a"}, {"from": 7},
])  # fmt: skip
def test_a_list_of_tables_refuses_an_odd_word_by_its_name(world: World, body: dict[str, Any]) -> None:
    for path in ("table/search", "table/search/count"):
        said = world.post(path, body).json
        assert said["retcode"] == 101
        assert next(iter(body)) in said["retmsg"]


@pytest.mark.parametrize("body", [
    {"status": "odd"}, {"party": "x"}, {"after": "yesterday"}, {"from": "1"}, {"text": "x" * 101}, {"person": 7},
])  # fmt: skip
def test_a_search_refuses_an_odd_word_by_its_name(world: World, body: dict[str, Any]) -> None:
    said = world.post("job/search", body).json
    assert said["retcode"] == 101
    assert next(iter(body)) in said["retmsg"]


def test_what_failed_lately_is_listed_by_its_end_and_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 3_600_000
    ends = [("failed", 1), ("timeout", 2), ("success", 3), ("failed", 20), ("failed", 30), ("canceled", 1)]
    now = world.services.context.clock()
    ids = [
        world.add_job(status=JobStatus(status), f_end_time=now - ago * hour, f_name="nightly", f_reason="done")
        for status, ago in ends
    ]
    world.add_job(status=JobStatus.RUNNING)
    first = world.ask("job/failed", {"limit": 2})["data"]
    assert [row["job_id"] for row in first["jobs"]] == ids[:2]
    assert {row["name"] for row in first["jobs"]} == {"nightly"}
    assert (first["count"], first["is_counted"]) == (3, True)
    assert [row["job_id"] for row in world.ask("job/failed", {"hours": 48})["data"]["jobs"]] == [*ids[:2], *ids[3:5]]
    monkeypatch.setattr(board, "MOST_SEARCHED", 2)
    assert world.ask("job/failed", {})["data"]["is_counted"] is False
    assert world.post("job/failed", {"hours": 0}).json["retcode"] == 101
    looks = steps(world, lambda views: views.board.failed_jobs(now - hour, 5, ("job_id", "dsl")))
    assert not [step for step in looks if step.startswith("SCAN t")], looks
