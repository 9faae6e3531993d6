"""What the board, the API and the command line ask of the database, by name, and how SQLite goes about each query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from peewee import Database

from fate_flow.api.v1.rendering.engine import HOLDER
from fate_flow.api.v1.rendering.job import JOB, LISTED_JOB
from fate_flow.api.v1.rendering.task import LISTED_TASK, TASK
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.values import Document
from fate_flow.store.views.board_record import RecordSearch
from fate_flow.store.views.board_tables import TablePlace, TableSearch
from fate_flow.store.views.board_task import WorkerPlace
from fate_flow.store.views.job_search import JobSearch, Place
from fate_flow.store.views.lists import JobQuery, Page
from fate_flow.store.views.snapshots import QueuePlace
from fate_flow.store.views.times.job_times import SharePlace
from fate_flow.store.views.views import Views
from fate_flow.store.views.wait_reasons import moving_of

Ask = Callable[[Views], Any]

_NEWEST = Page("create_time", True, 10)


def view_queries(job_id: str, guest: str, partner: str, task: str, created: int) -> dict[str, Ask]:
    """`job_id`, `task`, `created`: a job that is here, one of its tasks, and when the job was made (milliseconds)."""
    key = TaskKey(job_id, task, 0, Party("guest", guest))
    return {**_board(job_id, key, partner, created), **_lists(job_id, guest, partner), **_single(job_id, key)}


def _board(job_id: str, key: TaskKey, partner: str, created: int) -> Mapping[str, Ask]:
    return {
        "board, overview": lambda views: views.board.overview(),
        "board, jobs": lambda views: views.board.jobs(JobSearch(), None),
        "board, jobs behind a place": lambda views: views.board.jobs(
            JobSearch(), Place(created, job_id, key.party.role, key.party.party_id)
        ),
        "board, jobs that failed": lambda views: views.board.jobs(JobSearch(status="failed"), None),
        "board, jobs with success": lambda views: views.board.jobs(JobSearch(status="success"), None),
        "board, jobs that failed, of a time": lambda views: views.board.jobs(
            JobSearch(status="failed", after=created - 1, before=created + 1), None
        ),
        "board, jobs by a text that none has": lambda views: views.board.jobs(JobSearch(text="nobody wrote it"), None),
        "board, jobs by an id": lambda views: views.board.jobs(JobSearch(text=job_id), None),
        "board, jobs of a partner": lambda views: views.board.jobs(JobSearch(party=partner), None),
        "board, jobs of a party that is in none": lambda views: views.board.jobs(JobSearch(party="31415"), None),
        "board, jobs of a person that none is of": lambda views: views.board.jobs(JobSearch(person="nobody"), None),
        "board, jobs of a component that none has": lambda views: views.board.jobs(JobSearch(component="none"), None),
        "board, counting on": lambda views: views.board.count_jobs(JobSearch(), None),
        "board, counting jobs that failed": lambda views: views.board.count_jobs(JobSearch(status="failed"), None),
        "board, counting jobs of a partner": lambda views: views.board.count_jobs(JobSearch(party=partner), None),
        "board, counting jobs of a component that none has": lambda views: views.board.count_jobs(
            JobSearch(component="none"), None
        ),
        "job list of flow": lambda views: views.board.jobs_found(JobSearch(), None, 10, tuple(LISTED_JOB)),
        "completion of an id": lambda views: views.board.jobs_found(
            JobSearch(text=job_id[:9], after=created - 1, before=created + 1), None, 50, tuple(LISTED_JOB)
        ),
        "failed jobs of flow top": lambda views: views.board.failed_jobs(created - 1, 5, tuple(LISTED_JOB)),
        "jobs by their ids": lambda views: views.job_heads([job_id, "unknown"]),
        "board, what jobs that run and stop wait for": lambda _: moving_of(
            [{"job_id": job_id, "status": "running"}, {"job_id": "another", "status": "stopping"}], created, {}
        ),
        "board, a job": lambda views: views.board.job(job_id),
        "board, a task": lambda views: views.board.task(job_id, key.name),
        "board, a share of a task": lambda views: views.board.share(key),
        "board, metrics": lambda views: (views.board.metrics(key), views.board.metrics_until(key)),
        "board, models of a share": lambda views: views.board.models(key),
        "board, tables": lambda views: views.board.tables(TableSearch("output"), None),
        "board, tables of a namespace": lambda views: views.board.tables(TableSearch("output", "demo"), None),
        "board, tables of a namespace behind a place": lambda views: views.board.tables(
            TableSearch("output", "demo"), TablePlace(created, "demo", "m")
        ),
        "board, counting tables": lambda views: views.board.count_tables(TableSearch("output"), None),
        "board, counting tables of a namespace behind a place": lambda views: views.board.count_tables(
            TableSearch("output", "demo"), TablePlace(created, "demo", "m")
        ),
        "board, counting uses of a table": lambda views: views.board.count_uses("demo", "m", ""),
        "board, counting uses of a table behind a job": lambda views: views.board.count_uses("demo", "m", job_id),
        "board, counting entries of the record": lambda views: views.board.count_entries(RecordSearch(kind="act"), 0),
        "board, counting entries about a job": lambda views: views.board.count_entries(RecordSearch(job_id=job_id), 0),
        "board, record": lambda views: views.board.record(RecordSearch(), 0),
        "board, record of a job": lambda views: views.board.record(RecordSearch(job_id=job_id), 0),
        "board, record by what is in an entry": lambda views: views.board.record(
            RecordSearch(before=created, person="nobody", status="failed", digest="ab" * 16), 0
        ),
        "board, drawn record of a job": lambda views: views.board.record_of_job(job_id, 0),
        "board, a table": lambda views: views.board.table("demo", "m"),
        "board, approved before": lambda views: views.board.approved_before(
            job_id, partner, Document({"components": {}}, {}, {})
        ),
        "board, queue behind a place": lambda views: views.board.queue(QueuePlace(0, created, job_id)),
        "board, jobs to review": lambda views: views.board.jobs_to_review(
            Place(created, job_id, key.party.role, key.party.party_id)
        ),
        "board, a share behind a worker": lambda views: views.board.share(key, WorkerPlace(0, 0, "w")),
        "board, history": lambda views: views.board.times(job_id),
        "board, history behind a task": lambda views: views.board.times(
            job_id, 0, SharePlace(created, key.name, 0, key.party), is_folded=False
        ),
        "board, reviews": lambda views: views.board.reviews(),
    }


def _lists(job_id: str, guest: str, partner: str) -> Mapping[str, Ask]:
    by_elapsed = Page("elapsed", False, 10)
    queries = {
        "": JobQuery(), " of a status that few have": JobQuery(statuses=("failed",)),
        " of a status that most have": JobQuery(statuses=("success",)), " that wait": JobQuery(statuses=("waiting",)),
        " of a role": JobQuery(roles=("guest",)), " of a party": JobQuery(party_id=guest),
        " of a partner": JobQuery(partner=partner), " of a part of a description": JobQuery(description="nobody"),
        " of a part of an id": JobQuery(job_id=job_id[2:]),
    }  # fmt: skip

    def listed(query: JobQuery, page: Page) -> Ask:
        return lambda views: views.job_list(LISTED_JOB, query, page)

    return {
        **{f"job list{name}": listed(query, _NEWEST) for name, query in queries.items()},
        "job list by elapsed": listed(JobQuery(), by_elapsed),
        "job query by status": lambda views: views.jobs(JOB, {"status": "running"}),
        "job query by role, first page": lambda views: views.jobs(JOB, {"role": "guest"}, _NEWEST),
        "task list": lambda views: views.task_list(LISTED_TASK, {}, Page("create_time", False, 10)),
        "task list of a role, by elapsed": lambda views: views.task_list(LISTED_TASK, {"role": "host"}, by_elapsed),
        "task query by status": lambda views: views.tasks(TASK, {"status": "running"}),
        "jobs that hold cores": lambda views: views.jobs_that_hold(HOLDER),
        "queue": lambda views: views.queue(50, 0),
        "metrics of the server": lambda views: views.server_state(),
    }


def _single(job_id: str, key: TaskKey) -> Mapping[str, Ask]:
    seat = {"job_id": job_id, "role": key.party.role, "party_id": key.party.party_id}
    return {
        "job query -j": lambda views: views.jobs(JOB, {"job_id": job_id}),
        "job query -j -r -p": lambda views: views.jobs(JOB, seat),
        "job explain": lambda views: views.snapshot(job_id),
        "job history": lambda views: views.history(job_id),
        "task query -j": lambda views: views.tasks(TASK, {"job_id": job_id}),
        "task query -j -s": lambda views: views.tasks(TASK, {"job_id": job_id, "status": "running"}),
        "outputs of a task": lambda views: views.outputs(job_id, key.name, key.party),
    }


def statements_of(database: Database, views: Views, ask: Ask) -> list[tuple[str, Any]]:
    """The SELECTs that this asks, with their values."""
    asked: list[tuple[str, Any]] = []
    execute = database.execute_sql

    def execute_sql(sql: str, params: Any = None, *args: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, *args)

    database.execute_sql = execute_sql
    try:
        ask(views)
    finally:
        database.execute_sql = execute
    return [(sql, params) for sql, params in asked if sql.startswith(("SELECT", "WITH"))]


def plan_of(database: Database, sql: str, params: Any) -> list[str]:
    """How SQLite goes about a query: a text for each step."""
    return [str(row[3]) for row in database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()]
