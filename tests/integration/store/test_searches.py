"""What a search for jobs finds is the same on each database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from fate_flow.store.database.migrations import upgrade
from fate_flow.store.sql.store import SqlStore
from fate_flow.store.views.job_search import JobSearch
from fate_flow.store.views.lists import NEWEST, JobQuery
from fate_flow.store.views.views import Views
from tests.kit.store.empty_databases import KINDS, opened
from tests.store_contract.cases import DOCUMENT, a_job


@pytest.fixture(scope="module", params=KINDS)
def views(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Views]:
    with opened(request.param, tmp_path_factory.mktemp("home"), "searches") as database:
        upgrade(database)
        with closing(SqlStore(database)) as store:
            with store.transaction() as tx:
                tx.add_job(a_job("j1"), replace(DOCUMENT, name="Fraud in KÖLN", description="100% of May_2026"))
                tx.add_job(a_job("j2"), replace(DOCUMENT, name="fraud in Köln", description="1000 of MayX2026"))
            for job_id, by in (("j1", "Ann (on call)"), ("j2", "the board (ann)")):
                database.execute_sql(f"UPDATE t_job SET f_hold_by = '{by}' WHERE f_job_id = '{job_id}'")
            yield Views(database)


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("Fraud", "j1 j2"), ("FRAUD IN K", "j1 j2"), ("köln", "j1 j2"), ("KÖLN", "j1 j2"), ("koln", ""), ("0%", "j1"),
        ("may_2", "j1"), ("MAY", "j1 j2"), ("j1", "j1"),
    ],
)  # fmt: skip
def test_a_text_is_found_in_either_case(views: Views, text: str, jobs: str) -> None:
    found = views.board.jobs_found(JobSearch(text=text), None, 9, ("job_id",)).rows
    assert sorted(row["job_id"] for row in found) == jobs.split()


@pytest.mark.parametrize(("part", "jobs"), [("may", "j1 j2"), ("OF MAY_", "j1"), ("of june", "")])
def test_a_part_of_the_notes_is_found_in_either_case(views: Views, part: str, jobs: str) -> None:
    found, count = views.job_list(("job_id",), JobQuery(description=part), NEWEST)
    assert (sorted(row["job_id"] for row in found), count) == (jobs.split(), len(jobs.split()))


@pytest.mark.parametrize(("person", "jobs"), [("Ann", "j1"), ("ann", "j2"), ("nn", ""), ("the board", "j2")])
def test_a_person_is_found_by_the_name_as_it_is_written(views: Views, person: str, jobs: str) -> None:
    found = views.board.jobs_found(JobSearch(person=person), None, 9, ("job_id",)).rows
    assert sorted(row["job_id"] for row in found) == jobs.split()
