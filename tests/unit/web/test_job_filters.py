"""What the list of jobs shows of all: filters, by time and by all else, and addresses that stay the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import Submission
from fate_flow.store.views.board import PAGE
from tests.kit.api.client_world import START, make_world
from tests.kit.web.browser import Browser, Page, counted_queries, of_view
from tests.kit.web.many_jobs import copy_job


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def listed(page: Page) -> list[str]:
    ids = (str(one.attributes.get("id", "")) for one in page.tags if one.name == "tr")
    return [one.split("-")[1] for one in ids if one.startswith("job-")]


def fields(page: Page) -> dict[str, str | None]:
    """The times in the form."""
    return {str(one.attributes["name"]): one.attributes["value"] for one in page.tags if "data-utc" in one.attributes}


def test_a_list_shows_what_is_asked_for(browser: Browser) -> None:
    world = browser.world
    credit = world.add_job(f_name="credit score")
    other = world.add_job(status=JobStatus.FAILED, f_roles=json.dumps({"guest": [9999], "host": [110000, 10001]}))
    expected = {
        "text=credit": {credit}, f"text={other[:21]}": {other}, "status=failed": {other}, "party=10000": {credit},
        "party=10001": {other}, "party=1000": set(), "text=credit&status=failed": set(),
        "after=2023-11-14": {credit, other}, "before=2023-11-14": set(), "text=%25": set(),
        "after=2023-11-14T22:13:20": {credit, other}, "after=2023-11-14T22:13:21Z": set(),
        "before=2023-11-14T22:13": set(), "before=2023-11-14+23:14%2B01:00": {credit, other},
        "component=toy_0": {credit}, "component=Toy": {credit}, "component=toy": set(), "person=ann": {other},
        "person=ben": {credit}, "person=ben&component=toy_0": {credit}, "person=an": set(), "person=owner": {other},
    }  # fmt: skip
    world.add_task(credit)
    world.write("t_task", {"f_job_id": credit}, f_component_module="Toy")
    world.write("t_job", {"f_job_id": other}, f_approval_by="owner (ann)")
    with world.store.transaction() as tx:
        tx.begin_submission(Submission("r", credit, "d", by="ben"), START)
    assert {query: set(listed(browser.page(f"/board/jobs?{query}"))) for query in expected} == expected


@pytest.mark.parametrize("query", [
    "status=odd", "party=x", "after=yesterday", "after=2026-02-30", "before=2026-01-31T25:00", "before=2026-01-31T08",
    "after=0001-01-01T00:00%2B14:00", "from=1", "from=a-b-c-d", f"text={'x' * 101}", "text=%00",
    f"person={'x' * 101}", "component=%00",
])  # fmt: skip
def test_an_odd_filter_is_refused_by_its_name(browser: Browser, query: str) -> None:
    assert f"{query.partition('=')[0]}:" in browser.page(f"/board/jobs?{query}", 400).readable


def test_a_time_is_a_filter_on_each_page_of_the_list(browser: Browser) -> None:
    world = browser.world
    first = world.add_job("20260101120000000000")
    minute = [first, *copy_job(world, first, 3 * PAGE)]
    for number, job_id in enumerate(minute):
        world.write("t_job", {"f_job_id": job_id}, f_create_time=START - START % 60_000 + number * 1_000)
    path, seen = "/board/jobs?after=2023-11-14T22:14Z&before=2023-11-14T22:15:30Z", list[str]()
    while path:
        with counted_queries(world) as queries:
            page = browser.page(path)
        assert len(of_view(queries)) <= 10, queries
        assert fields(page) == {"after": "2023-11-14T22:14", "before": "2023-11-14T22:15:30"}
        assert "of 90 jobs, newest first" in page.readable
        assert "flow job list -l 50 --after 2023-11-14T22:14Z --before 2023-11-14T22:15:30Z" in page.readable
        seen += listed(page)
        path = next((str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"), "")
    assert seen == minute[60:150][::-1]


@pytest.mark.parametrize(("written", "shown"), [
    ("2026-01-31", "2026-01-31T00:00"), ("2026-01-31T08:30%2B01:00", "2026-01-31T07:30"),
    ("2026-01-31T08:30:05-00:30", "2026-01-31T09:00:05"), ("", ""),
])  # fmt: skip
def test_forms_have_the_time_in_utc(browser: Browser, written: str, shown: str) -> None:
    for page in ("jobs", "audit"):
        assert fields(browser.page(f"/board/{page}?after={written}")) == {"after": shown, "before": ""}, page
