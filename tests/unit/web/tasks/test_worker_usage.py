"""The page of what workers use: reserved beside used, over time, and what is not known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.resources import Need, UsageSample, WorkerUsage
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.engines.local.usage import USAGE
from fate_flow.web.charts.values import Chart
from fate_flow.web.charts.worker_usage import MOST_DRAWN, UsedBy, worker_blocks
from tests.kit.api.client_world import GUEST, START, make_world
from tests.kit.web.browser import Browser, counted_queries, of_view
from tests.kit.web.filled_task import add_filled_task, add_worker


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def used_by(slot: int, *samples: tuple[float, float, float], late: int = 0, cores: int = 2) -> UsedBy:
    worker = Worker(f"w{slot}", TaskKey("1", "a", 0, GUEST), WorkerStatus.RUNNING, "local", "", start_time=START + late,
                    slot=slot)  # fmt: skip
    return UsedBy(worker, WorkerUsage(tuple(UsageSample(*one) for one in samples), None), Need(cores, 512))


def test_cores_and_memory_are_drawn_beside_what_is_reserved() -> None:
    cores, memory = worker_blocks([used_by(0, (10, 5, 100), (20, 25, 300)), used_by(1, (10, 1, 50), late=4_000)])
    assert isinstance(cores.drawing, Chart)
    assert isinstance(memory.drawing, Chart)
    assert [(line.name, line.points) for line in cores.drawing.lines] == [
        ("worker 0", ((0, 0.5), (10, 0.5), (10, 2.0), (20, 2.0))), ("worker 1", ((4, 0.1), (14, 0.1))),
        ("reserved for each", ((0, 2), (20, 2))),
    ]  # fmt: skip
    assert cores.table.rows[1:] == (("worker 0", "10", "20", "2"), ("worker 1", "4", "14", "0.1"))
    assert [line.points for line in memory.drawing.lines[:2]] == [((10, 100), (20, 300)), ((14, 50),)]
    assert memory.table.rows[-1] == ("worker 1", "14", "50")


def test_many_workers_are_drawn_in_part_and_counted() -> None:
    many = [used_by(slot, (10, 5, 100), cores=slot % 2 + 1) for slot in range(40)]
    cores, _ = worker_blocks(many)
    assert isinstance(cores.drawing, Chart)
    assert len(cores.drawing.lines) == MOST_DRAWN, "they have different reservations: no line for each"
    assert cores.table.total == 40
    assert f"the first {MOST_DRAWN} of 40 workers of this page" in cores.note


def test_the_page_has_what_is_reserved_and_used(browser: Browser) -> None:
    job_id = add_filled_task(browser.world)
    path = f"/board/jobs/{job_id}/tasks/toy_0/usage?party=guest-9999&version=0"
    with counted_queries(browser.world) as queries:
        page = browser.page(path)
    assert len(of_view(queries)) <= 10, queries
    assert "Attempt 1 at guest 9999" in page.readable
    assert "2 processes Worker Process Seconds" in page.readable
    assert "0 1 75.5 61.25 2 0.81" in page.readable, "2 cores are asked for"
    assert "Cores over time" in page.readable
    assert len([one for one in page.tags if one.name == "svg" and one.attributes.get("class") == "chart"]) == 2
    assert "Nothing is known" not in page.readable
    of_task = browser.page(path.replace("/usage", ""))
    assert path in [one.attributes.get("href") for one in of_task.tags]


def test_what_is_not_measured_is_said(browser: Browser) -> None:
    world = browser.world
    job_id = world.add_job(status=JobStatus.RUNNING, f_start_time=START)
    world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=START)
    path = f"/board/jobs/{job_id}/tasks/toy_0/usage"
    assert "No worker has been started." in browser.page(path).readable
    folder = add_worker(world, job_id, 0, 0).parent
    page = browser.page(path).readable
    assert "Nothing is known of the use of 1 of 1 process here" in page
    (folder / USAGE).write_text('{"seconds": 2, "processor_seconds": 1, "largest_process_mb": 90}\n')
    page = browser.page(path).readable
    assert "None of these workers lived long enough for a look" in page
    assert re.search("2.0 1.00 2 0.50 . none 90", page), "no core is the most of no look"
    (folder / USAGE).write_text("[10, 5, 95]\n")
    assert "10.0 so far 5.00 2 0.50 0.50 none 95" in browser.page(path).readable


def test_of_another_party_nothing_is_known(browser: Browser) -> None:
    job_id = add_filled_task(browser.world)
    page = browser.page(f"/board/jobs/{job_id}/tasks/toy_0/usage?party=host-10000&version=1", 404)
    assert "only host 10000 has what it made there" in page.readable
