"""Lists that do not fit on a page: each says of how many it shows a part, and goes on behind its last row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import Document
from fate_flow.store.views.board import PAGE
from tests.kit.api.client_world import GUEST, HOST, START, make_world
from tests.kit.web.browser import Browser, Page, counted_queries, of_view
from tests.kit.web.many_jobs import copy_job
from tests.kit.web.many_tasks import add_tasks, chain, fill_shares

MOST_QUERIES = 10
UNREADABLE = Document({"components": {"toy_0": {"module": "NobodyKnowsIt"}}}, {"role": 7}, {})
FIRST = "20260101120000000000"


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def following(page: Page) -> str:
    """The address of the next page; empty without one."""
    return next((str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"), "")


def listed(page: Page, prefix: str) -> list[str]:
    ids = (str(one.attributes.get("id", "")) for one in page.tags if one.name == "tr")
    return [one.removeprefix(prefix) for one in ids if one.startswith(prefix)]


def test_the_queue_goes_on_behind_its_last_row_while_it_moves(browser: Browser) -> None:
    world = browser.world
    known = [world.add_job(FIRST), *copy_job(world, FIRST, 2 * PAGE + 9)]
    world.write("t_job", {"f_job_id": known[PAGE + 5]}, f_queue_key=-7)
    first = browser.page("/board/queue")
    assert listed(first, "queued-") == [known[PAGE + 5], *known[: PAGE - 1]]
    assert f"{PAGE} of {2 * PAGE + 10} waiting jobs" in first.readable
    for gone in (known[0], known[3]):
        world.write("t_job", {"f_job_id": gone}, f_status="canceled", f_end_time=START, f_reason="stopped")
    world.write("t_job", {"f_job_id": known[PAGE + 8]}, f_queue_key=-9)       # it passes those that stand still
    stand = [one for one in known[PAGE - 1 :] if one not in (known[PAGE + 5], known[PAGE + 8])]
    seen, page = list[str](), first
    while address := following(page):
        with counted_queries(world) as queries:
            page = browser.page(address)
        assert len(of_view(queries)) <= MOST_QUERIES, queries
        assert f" of {2 * PAGE + 8} waiting jobs, continued" in page.readable
        places = [int(one.split("<")[0]) for one in page.text.split('"><td>')[1:]]
        assert places == list(range(len(known) - 2 - len(stand) + len(seen) + 1, places[-1] + 1))
        seen += listed(page, "queued-")
    assert seen == stand


def test_jobs_to_review_are_paged_under_their_exact_number(browser: Browser) -> None:
    world = browser.world
    world.add_job(FIRST, party=HOST, initiator=GUEST, f_approval="pending")
    known = [FIRST, *copy_job(world, FIRST, 1_099)]
    with world.store.transaction() as tx:
        for one in known[: 3 * PAGE + 1]:
            assert tx.bind(JobBinding(one, GUEST, frozenset({GUEST, HOST}), "ab" * 32))
    with counted_queries(world) as queries:
        page = browser.page("/board/approvals")
    assert len(of_view(queries)) <= MOST_QUERIES, queries
    assert f"{PAGE} of 1100 jobs of other parties, oldest first" in page.readable
    for path in ("/board/", "/board/queue", "/board/approvals", "/board/jobs"):
        assert "Needs review (1100)" in browser.page(path).readable, path
    seen = listed(page, "review-")
    world.write("t_job", {"f_job_id": known[4]}, f_approval="rejected")
    for _ in range(2):
        page = browser.page(following(page))
        seen += listed(page, "review-")
        assert f"{PAGE} of 1099 jobs of other parties, oldest first, continued" in page.readable
    assert seen == known[: 3 * PAGE]
    last = browser.page(f"/board/approvals?from={START + 1_100}-{known[-1]}-host-10000")
    assert not following(last)


@pytest.mark.parametrize("path", ["/board/queue?from=1", "/board/queue?from=x_1_2", "/board/approvals?from=1"])
def test_a_place_that_no_link_has_is_refused(browser: Browser, path: str) -> None:
    assert "from:" in browser.page(path, 400).readable


def test_each_short_list_of_the_overview_says_of_how_many(browser: Browser) -> None:
    world = browser.world
    for number, status in enumerate((JobStatus.FAILED, JobStatus.RUNNING, JobStatus.WAITING)):
        job_id = f"20260101120000{number}00000"
        world.add_job(job_id, status=status)
        copy_job(world, job_id, 8 + number)
    with counted_queries(world) as queries:
        readable = browser.page("/board/").readable
    assert len(of_view(queries)) <= MOST_QUERIES, queries
    assert "8 of 9 that failed among the 2,000 jobs that ended last" in readable
    assert "8 of 10 running jobs, newest first" in readable
    assert "8 of 11 waiting jobs of this party" in readable


def test_a_folded_timeline_says_of_how_many_tracks(browser: Browser) -> None:
    world = browser.world
    job_id = world.add_job()
    add_tasks(world, job_id, [f"toy_{number}" for number in range(60)], f_start_time=START)
    world.store.database.execute_sql("UPDATE t_task SET f_component_module = f_component_name")
    readable = browser.page(f"/board/jobs/{job_id}/history").readable
    assert "The drawing has the first 100 of 120 tracks of components at parties." in readable


def test_a_timeline_goes_on_behind_its_last_task_while_others_start(browser: Browser) -> None:
    world = browser.world
    job_id = world.add_job()
    with world.store.transaction() as tx:
        tx.add_entries([HistoryEntry(job_id, HistoryLevel.JOB, "waiting", "running", START + 200, GUEST)])
    names = [f"toy_{number:03}" for number in range(120)]
    add_tasks(world, job_id, names)
    for number, name in enumerate(names[:60]):
        world.write("t_task", {"f_component_name": name}, f_start_time=START + number)
    page = browser.page(f"/board/jobs/{job_id}/history?tasks=1")
    seen = tracks_of(page)
    assert len(seen) == 100
    world.write("t_task", {"f_component_name": names[100]}, f_start_time=START + 5)        # it is on the first page now
    while address := following(page):
        page = browser.page(address)
        seen += tracks_of(page)
    assert seen == [f"{name} at {party}" for name in names if name != names[100] for party in (GUEST, HOST)]


def tracks_of(page: Page) -> list[str]:
    """The tracks of tasks in the table of a timeline, in their order; it has a row for each phase."""
    return list(dict.fromkeys(re.findall(r'<th scope="row">(toy_\d+ at [a-z]+ \d+)</th>', page.text)))


def test_a_job_of_1000_tasks_at_five_parties_is_paged(browser: Browser) -> None:
    world, hosts = browser.world, (10000, 10001, 10002, 10003)
    job_id = world.add_job(status=JobStatus.RUNNING, document=chain(1_000, hosts), f_start_time=START)
    fill_shares(world, job_id, 1_000, (GUEST, *(Party("host", str(one)) for one in hosts)))
    with counted_queries(world) as queries:
        page = browser.page(f"/board/jobs/{job_id}")
    assert len(of_view(queries)) <= MOST_QUERIES, queries
    assert len(page.text) < 110_000
    assert "100 of 1000 tasks, in the order of the document" in page.readable
    assert page.readable.count("host 10003: running") == 100


def test_the_tasks_of_a_job_go_on_behind_the_last_one(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, document=chain(220), f_start_time=START)
    fill_shares(browser.world, job_id, 150, (GUEST, HOST))
    page = browser.page(f"/board/jobs/{job_id}")
    seen = listed(page, "task-")
    while address := following(page):
        page = browser.page(address)
        seen += listed(page, "task-")
        assert " of 220 tasks, in the order of the document, continued" in page.readable
        parameters = [one for one in page.tags if str(one.attributes.get("id", "")).startswith("parameters-")]
        assert not parameters           # only toy_0 has any
    assert seen == [f"toy_{number}" for number in range(220)]
    assert "from: the job has no task" in browser.page(f"/board/jobs/{job_id}?from=other", 400).readable


def test_a_job_whose_document_cannot_be_read_has_its_tasks(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, document=UNREADABLE, f_start_time=START)
    fill_shares(browser.world, job_id, 120, (GUEST, HOST))
    page = browser.page(f"/board/jobs/{job_id}")
    assert "100 of 120 tasks with rows here: the document cannot be read, so others may be missing" in page.readable
    assert len({*listed(page, "task-"), *listed(browser.page(following(page)), "task-")}) == 120
    assert page.readable.count("host 10000: running") == 100
