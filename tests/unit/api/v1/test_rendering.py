"""What clients read of rows: the listed fields and no others, in the types that the document says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from peewee import BooleanField, DateTimeField, IntegerField

from fate_flow.api.v1.rendering.engine import ENGINE, HOLDER
from fate_flow.api.v1.rendering.fields import Fields
from fate_flow.api.v1.rendering.job import CONFIG, JOB, LISTED_JOB
from fate_flow.api.v1.rendering.output_table import OUTPUT_TABLE
from fate_flow.api.v1.rendering.statuses import meant_statuses, shown_status
from fate_flow.api.v1.rendering.task import LISTED_TASK, REPORT, TASK
from fate_flow.core.model.status import JobStatus
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.database.models import JobRow, TaskRow
from fate_flow.store.database.result_rows import OutputRow
from fate_flow.store.views.columns import column_of
from tests.kit.api.client_world import START, World, make_world

FILLED_IN = {"update_time", "error_report"}
"""Columns that may be null in the database, and are not in an answer."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path)
    yield world
    world.store.close()


@pytest.mark.parametrize(("fields", "model"), [
    (JOB, JobRow), (TASK, TaskRow), (ENGINE, EngineRow), (OUTPUT_TABLE, OutputRow),
])  # fmt: skip
def test_a_field_has_the_type_of_its_column(fields: Fields, model: Any) -> None:
    for name, field in fields.items():
        column = column_of(model, name)
        if field.kind in (dict, list):          # a text in the database, never null for clients
            assert (type_of(column), field.may_be_null) == (str, False), name
        else:
            assert (field.kind, field.may_be_null) == (type_of(column), column.null and name not in FILLED_IN), name


def type_of(column: Any) -> type:
    kinds = {BooleanField: bool, DateTimeField: datetime, IntegerField: int}
    return next((kind for of, kind in kinds.items() if isinstance(column, of)), str)


@pytest.mark.parametrize(("names", "fields"), [
    (LISTED_JOB, JOB), (HOLDER, JOB), (LISTED_TASK, TASK), (REPORT, TASK),
])  # fmt: skip
def test_smaller_answers_have_fields_of_the_whole(names: Any, fields: Fields) -> None:
    assert set(names) < set(fields)


@pytest.mark.parametrize("name", CONFIG)
def test_the_documents_of_a_job_are_columns(name: str) -> None:
    assert type_of(column_of(JobRow, name)) is str


@contextmanager
def new_columns(world: World) -> Iterator[None]:
    """Give the tables of jobs, tasks, engines and outputs a column each that nobody has listed.

    Nothing may be inserted meanwhile: a process keeps the text of its INSERT statements."""
    models = (JobRow, TaskRow, EngineRow, OutputRow)
    for model in models:
        world.store.database.execute_sql(f"ALTER TABLE {model._meta.table_name} ADD COLUMN f_new INT DEFAULT 7")
        model._meta.add_field("f_new", IntegerField(default=7))
    try:
        yield
    finally:
        for model in models:
            model._meta.remove_field("f_new")


def test_a_new_column_is_in_no_answer_and_no_filter_by_itself(world: World) -> None:
    job_id = world.add_job(status=JobStatus.SUCCESS)
    world.add_task(job_id)
    world.add_output(job_id, world.add_table("demo", "made", [("1", "2", "3")], job_id))
    with new_columns(world):
        answers = [
            world.ask("job/query", {"job_id": job_id})["data"][0],
            world.ask("job/list/job", {})["data"]["jobs"][0],
            world.ask("job/task/query", {"job_id": job_id})["data"][0],
            world.ask("job/list/task", {})["data"]["tasks"][0],
            world.ask("resource/query", {})["data"]["computing_engine_resource"],
            world.ask("job/data/view/query", {"job_id": job_id})["data"][0],
        ]
        said = world.ask("job/query", {"job_id": job_id, "new": 8})
        assert [list(row) for row in JobRow.select(JobRow.f_new).tuples()] == [[7]]
    assert [len(answer) for answer in answers] == [105, 102, 57, 54, 15, 12]
    assert not [answer for answer in answers if {"f_new", "new"} & answer.keys()]
    assert [row["f_job_id"] for row in said["data"]] == [job_id]
    assert said["warnings"] == ["new: is not known; it is ignored"]


def test_a_stopping_job_is_running_for_clients_who_find_it_as_such(world: World) -> None:
    job_id = world.add_job(status=JobStatus.STOPPING, f_start_time=START)
    world.add_task(job_id, f_status="stopping", f_party_status="stopping", f_start_time=START)
    [job] = world.ask("job/query", {"status": "running"})["data"]
    [task] = world.ask("job/task/query", {"party_status": ["running", "failed"]})["data"]
    assert (job["f_job_id"], job["f_status"], job["f_status_detail"]) == (job_id, "running", "stopping")
    assert (task["f_party_status"], task["f_party_status_detail"]) == ("running", "stopping")
    assert world.ask("job/list/job", {"status": "running"})["data"]["count"] == 1
    assert world.ask("job/report", {"job_id": job_id})["data"][0]["status"] == "running"


@pytest.mark.parametrize("status", list(JobStatus))
def test_what_a_client_means_by_a_status_is_what_it_sees(status: JobStatus) -> None:
    seen = shown_status(status.value)
    assert status.value in meant_statuses([seen])
    assert meant_statuses([seen])[0] == seen


def test_answers_name_the_jobs_that_they_mention(world: World) -> None:
    """Beside `data`, so that rows stay as FATE's clients know them; in one query for all jobs of an answer."""
    held = {"status": JobStatus.RUNNING, "f_resource_in_use": True, "f_claim": "a1"}
    ids = [world.add_job(f_name=f"nightly {number}", **held) for number in range(3)]
    for job_id in ids:
        world.add_task(job_id)
    known = {
        job_id: {"name": f"nightly {number}", "status": "running", "status_detail": "running",
                 "create_time": START + number}
        for number, job_id in enumerate(ids)
    }
    of_first = {ids[0]: known[ids[0]]}
    assert world.ask("job/list/task")["jobs"] == known
    assert world.ask("job/task/query", {"job_id": ids[0]})["jobs"] == of_first
    assert world.ask("resource/query")["jobs"] == known
    assert world.ask("job/history", {"job_id": ids[0]})["jobs"] == of_first
    assert world.ask("tracking/component/list", {"job_id": ids[0]})["jobs"] == of_first
    asked: list[str] = []
    database = world.store.database
    database.log_sql = lambda sql, _params: asked.append(sql)
    world.services.views.job_heads(ids)
    database.log_sql = None
    assert len([sql for sql in asked if sql.startswith("SELECT")]) == 1


def test_a_job_that_an_answer_mentions_may_be_restarting(world: World) -> None:
    ids = [world.add_job(status=one, f_restarting=True) for one in (JobStatus.RUNNING, JobStatus.FAILED)]
    for job_id in ids:
        world.add_task(job_id)
    jobs = world.ask("job/list/task")["jobs"]
    assert [(jobs[one]["status"], jobs[one]["status_detail"]) for one in ids] == [
        ("running", "restarting"), ("failed", "failed"),
    ], "the mark of a job that has ended since means nothing"
