"""The lists of the board say of a job that runs or stops what `flow job list` says: what it waits for, and whether it
is restarting. They read few queries for all jobs together, and no documents. So do the pages of a job and of a task."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from tests.kit.api.client_world import HOST, START, World, make_world
from tests.kit.api.running_jobs import copy_of_a_job, running_job, trouble
from tests.kit.web.browser import Browser, Page, counted_queries, of_view
from tests.kit.web.filled_task import add_filled_task

MOST_QUERIES = 10
NO_TIME = "\N{EN DASH}"
SILENT = {"silent_since": 1_000, "silence": "connection refused"}
STOPS = {"f_party_status": "stopping", "f_reason": "stopped", "f_target": "canceled"}


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def row(browser: Browser, path: str, job_id: str) -> str:
    """What is to be read in the rows of a job on a page."""
    found = re.findall(rf'<tr id="[a-z]+-{job_id}-.*?</tr>', browser.page(path).text, re.DOTALL)
    assert found, path
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", " ".join(found))).split())


def with_a_silent_party(world: World) -> str:
    trouble(world, **SILENT)
    return running_job(world)


def with_a_silent_party_that_it_has_given_up(world: World) -> str:
    job_id = with_a_silent_party(world)
    world.write("t_seat", {"f_job_id": job_id, "f_role": "host"}, f_status="stopping")
    return job_id


def with_a_task_that_is_stopped_to_begin_again(world: World) -> str:
    job_id = running_job(world, retries=1)
    world.write("t_task", {"f_job_id": job_id}, f_status="stopping", f_begins_again=1)
    world.write("t_task", {"f_job_id": job_id, "f_role": "guest"}, f_party_status="failed", f_reason="worker_error",
                f_end_time=1)  # fmt: skip
    return job_id


def with_a_task_that_is_stopped_for_good(world: World) -> str:
    job_id = with_a_task_that_is_stopped_to_begin_again(world)
    world.write("t_task", {"f_job_id": job_id}, f_begins_again=0)
    world.write("t_task", {"f_job_id": job_id, "f_role": "guest"}, f_reason="stopped_by_user")
    return job_id


def with_a_version_that_is_not_due(world: World) -> str:
    job_id = running_job(world, retries=1)
    world.write("t_task", {"f_job_id": job_id}, f_status="failed", f_party_status="failed", f_reason="worker_error",
                f_end_time=1, f_federated_reason="worker_error", f_federated_end_time=1)  # fmt: skip
    for party in (Party("guest", "9999"), HOST):
        world.add_task(job_id, party=party, version=1, f_retry_at=12_000)
    trouble(world)
    return job_id


def that_restarts(world: World) -> str:
    job_id = running_job(world)
    world.write("t_job", {"f_job_id": job_id}, f_restarting=True, f_restarts=1)
    world.write("t_task", {"f_job_id": job_id}, f_status="stopping", f_policy="restart_job", f_begins_again=1)
    return job_id


def that_restarts_and_whose_tasks_have_all_ended(world: World) -> str:
    job_id = that_restarts(world)
    world.write("t_task", {"f_job_id": job_id}, f_status="canceled", f_party_status="canceled", f_reason="stopped",
                f_end_time=1, f_federated_reason="stopped", f_federated_end_time=1)  # fmt: skip
    return job_id


def that_was_stopped_while_it_restarted(world: World) -> str:
    job_id = that_restarts(world)
    world.write("t_job", {"f_job_id": job_id}, f_status="stopping", f_target="canceled", f_reason="stopped_by_user",
                f_stop_by=50_000)  # fmt: skip
    world.write("t_seat", {"f_job_id": job_id}, f_status="draining")
    trouble(world)
    return job_id


def that_waits_for_a_place(world: World) -> str:
    job_id = running_job(world)
    world.write("t_task", {"f_job_id": job_id, "f_role": "guest"}, f_party_status="waiting", f_waits_since=1_000,
                f_waits="waits in Slurm for 2 nodes: Resources")  # fmt: skip
    trouble(world)
    return job_id


def of_a_silent_initiator(world: World) -> str:
    trouble(world, **SILENT)
    return copy_of_a_job(world)


def whose_share_is_being_stopped(world: World) -> str:
    job_id = copy_of_a_job(world)
    world.write("t_task", {"f_job_id": job_id}, **STOPS)
    return job_id


def whose_share_is_stopped_to_begin_again(world: World) -> str:
    job_id = whose_share_is_being_stopped(world)
    world.write("t_task", {"f_job_id": job_id}, f_policy="restart_task")
    return job_id


def whose_next_version_is_announced(world: World) -> str:
    ended = {"f_reason": "worker_error", "f_federated_reason": "worker_error", "f_federated_end_time": START + 1}
    job_id = copy_of_a_job(world, f_status="failed", f_party_status="failed", f_end_time=START + 1, **ended)
    world.add_task(job_id, version=1)
    return job_id


SILENCE = "host 10000 has not answered for 7 s (connection refused)"
AGAIN = "toy_0 begins again as version 1"


@pytest.mark.parametrize(("job", "status", "text"), [
    (running_job, "running", ""),
    (with_a_silent_party, "running", f"{SILENCE}; given up in 83 s"),
    (with_a_silent_party_that_it_has_given_up, "running", SILENCE),
    (with_a_task_that_is_stopped_to_begin_again, "running", f"{AGAIN} when host 10000 has stopped"),
    (with_a_task_that_is_stopped_for_good, "running", ""),
    (with_a_version_that_is_not_due, "running", f"{AGAIN} in 4 s"),
    (that_restarts, "restarting", f"{AGAIN} when guest 9999, host 10000 have stopped"),
    (that_restarts_and_whose_tasks_have_all_ended, "restarting", ""),
    (that_was_stopped_while_it_restarted, "stopping",
     "ends as canceled when guest 9999, host 10000 have stopped, in 42 s at the latest"),
    (that_waits_for_a_place, "running", "guest 9999: waits in Slurm for 2 nodes since 7 s: Resources"),
    (of_a_silent_initiator, "running", SILENCE),
    (whose_share_is_being_stopped, "running",
     "toy_0: the share of guest 9999 is being stopped; host 10000 decides what follows"),
    (whose_share_is_stopped_to_begin_again, "running",
     f"{AGAIN} when guest 9999 has stopped and host 10000 starts it"),
    (whose_next_version_is_announced, "running", f"{AGAIN} when host 10000 starts it"),
])  # fmt: skip
def test_a_list_says_what_a_job_waits_for_as_the_command_does(
    browser: Browser, job: Callable[[World], str], status: str, text: str
) -> None:
    job_id = job(browser.world)
    [listed] = browser.world.ask("job/search")["data"]["jobs"]
    assert (listed["status_detail"], listed["wait_reason"] or "") == (status, text)
    explained = browser.world.ask("job/explain", {"job_id": job_id})["data"]
    assert (explained["status_detail"], explained["wait_reason"]) == (status, text)
    listed_here = row(browser, "/board/jobs", job_id)
    assert listed_here.startswith(f"{job_id} {status} guest 9999 ")
    assert listed_here.endswith(text or NO_TIME), "the end of the job is the last column without a reason"
    if status != "stopping":
        progress = "0 % 0 %" + (" restarting" if status == "restarting" else "")
        assert row(browser, "/board/", job_id).endswith(f"{progress} {text}".strip())


@pytest.mark.parametrize(("job", "status", "text"), [
    (running_job, "running", ""),
    (with_a_silent_party, "running", SILENCE),
    (with_a_task_that_is_stopped_to_begin_again, "restarting",
     "begins again as version 1 when host 10000 has stopped"),
    (with_a_task_that_is_stopped_for_good, "stopping", ""),
    (with_a_version_that_is_not_due, "restarting", "begins again as version 1 in 4 s"),
    (that_restarts, "restarting", "begins again as version 1 when guest 9999, host 10000 have stopped"),
    (that_was_stopped_while_it_restarted, "stopping", ""),
    (that_waits_for_a_place, "running", "guest 9999: waits in Slurm for 2 nodes since 7 s: Resources"),
    (of_a_silent_initiator, "running", ""),
    (whose_share_is_being_stopped, "running",
     "the share of guest 9999 is being stopped; host 10000 decides what follows"),
    (whose_share_is_stopped_to_begin_again, "restarting",
     "begins again as version 1 when guest 9999 has stopped and host 10000 starts it"),
    (whose_next_version_is_announced, "restarting", "begins again as version 1 when host 10000 starts it"),
])  # fmt: skip
def test_a_task_says_what_its_newest_version_waits_for(
    browser: Browser, job: Callable[[World], str], status: str, text: str
) -> None:
    page = browser.page(f"/board/jobs/{job(browser.world)}/tasks/toy_0")
    assert status_in_heading(page) == status
    assert re.findall(r'id="waits">(.*?)</p>', page.text) == ([text] if text else [])


def status_in_heading(page: Page) -> str:
    [found] = re.findall(r"<h1>.*?<span class=.status is-[a-z]+.>([a-z]+)</span></h1>", page.text)
    return str(found)


def test_an_earlier_version_of_a_task_that_starts_again_is_not_restarting(browser: Browser) -> None:
    task = f"/board/jobs/{with_a_version_that_is_not_due(browser.world)}/tasks/toy_0"
    before = browser.page(f"{task}?party=host-10000&version=0")
    assert (status_in_heading(before), 'id="waits"' in before.text) == ("failed", False)


def test_the_page_of_a_job_that_restarts_says_so_in_its_title_too(browser: Browser) -> None:
    job_id = that_restarts(browser.world)
    page = browser.page(f"/board/jobs/{job_id}")
    assert f"<title>{job_id}: restarting" in page.text
    assert status_in_heading(page) == "restarting"
    assert re.search(rf'id="why">{AGAIN} when guest 9999, host 10000 have stopped<', page.text)
    assert re.search(r"toy_0 SecureAddExample ↻? ?restarting 1 ", page.readable)


def test_another_seat_of_the_initiator_says_the_same(browser: Browser) -> None:
    world = browser.world
    job_id = with_a_task_that_is_stopped_to_begin_again(world)
    world.add_job(job_id, status=JobStatus.RUNNING, party=Party("arbiter", "9999"))
    for path in ("/board/jobs", "/board/"):
        assert row(browser, path, job_id).count(f"{AGAIN} when host 10000 has stopped") == 2, path


@pytest.mark.parametrize("path", ["/board/", "/board/jobs", "/board/jobs?text=2026", "/board/jobs?status=running"])
def test_a_list_asks_the_same_queries_for_one_job_and_for_many(browser: Browser, path: str) -> None:
    world = browser.world
    of_one = queries_of(browser, path, [with_a_silent_party(world)])
    others = [with_a_task_that_is_stopped_to_begin_again(world) for _ in range(7)]
    of_many = queries_of(browser, path, others)
    assert len(of_one) == len(of_many) <= MOST_QUERIES, of_many
    assert not re.search(r"f_dsl|f_runtime_conf|f_component_parameters|f_document", " ".join(of_many))


def test_the_page_of_a_task_asks_few_queries_the_first_time_too(browser: Browser) -> None:
    """It reads the document of the job once; other pages have not read it here."""
    trouble(browser.world, **SILENT)
    task = f"/board/jobs/{add_filled_task(browser.world)}/tasks/toy_0"
    with counted_queries(browser.world) as queries:
        browser.page(task)
    assert len(of_view(queries)) <= MOST_QUERIES, queries


def queries_of(browser: Browser, path: str, jobs: list[str]) -> list[str]:
    """What the page is read with; it has to show a reason of each of these jobs. An overview reads less then, the next
    time within a quarter of an hour."""
    fresh = Browser(browser.world)
    with counted_queries(browser.world) as queries:
        text = fresh.page(path).readable
    assert text.count("has not answered" if len(jobs) == 1 else AGAIN) >= len(jobs)
    return of_view(queries)
