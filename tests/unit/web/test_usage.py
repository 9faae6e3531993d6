"""Cores and memory over time, from the reservations of jobs: means of quarters of an hour, read once in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.status import JobStatus
from fate_flow.store.views.server_state import EngineUse
from fate_flow.store.views.times.usage import DAY, QUARTER, Reservation, Usage, end_of_quarters, usage_of
from fate_flow.web.charts.drawing import drawn
from fate_flow.web.charts.usage import usage_blocks
from fate_flow.web.charts.values import Chart
from tests.kit.api.client_world import START, make_world
from tests.kit.web.browser import Browser, counted_queries

END = end_of_quarters(START)
ENGINE = EngineUse("local", 8, 2, 0, 0, 0, 0)


def test_a_reservation_counts_for_the_part_of_a_quarter_that_it_covers() -> None:
    found = usage_of(
        [Reservation(END - QUARTER, 0, 2, 100), Reservation(END - 2 * QUARTER, END - QUARTER // 2, 4, 0),
         Reservation(END - 2 * DAY, END - DAY, 64, 0), Reservation(END, END + 5, 64, 0)],
        END, END - DAY,
    )  # fmt: skip
    assert (len(found.cores), found.cores[-3:], found.memory[-2:]) == (96, (0.0, 4.0, 4.0), (0.0, 100.0))


def test_quarters_of_which_not_all_jobs_were_read_are_left_out() -> None:
    found = usage_of([Reservation(END - DAY, 0, 2, 0)], END, END - 2 * QUARTER + 1)
    assert found.cores == (2.0,)
    assert usage_of([], END, END).cores == ()


def test_a_chart_begins_at_zero_and_its_table_says_the_same_once() -> None:
    [block] = usage_blocks(Usage(END, (4.0, 4.0, 6.0), (0.0, 0.0, 0.0)), [ENGINE])
    assert isinstance(block.drawing, Chart)
    assert drawn(block.drawing).y_ticks[0].text == "0"
    assert [row[2] for row in block.table.rows] == ["4", "6"]
    assert [line.name for line in block.drawing.lines] == ["reserved, mean of 15 minutes", "all of this party now"]
    assert len(usage_blocks(Usage(END, (4.0,), (10.0,)), [ENGINE])) == 2
    assert usage_blocks(Usage(END, (), ()), [ENGINE]) == ()


def test_the_overview_shows_it_and_reads_it_once_a_quarter(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    for columns in (
        {"status": JobStatus.RUNNING, "f_claim": "c", "f_resource_in_use": True},
        {"status": JobStatus.SUCCESS, "f_return_resource_time": END - QUARTER // 2},
    ):
        world.add_job(f_apply_resource_time=END - 2 * QUARTER, f_cores=3, **columns)
    browser, counts = Browser(world), list[int]()
    for _ in range(2):
        with counted_queries(world) as queries:
            page = browser.page("/board/")
        counts.append(sum("f_apply_resource_time" in one for one in queries))
    assert counts == [1, 0]
    assert "Cores reserved, last day" in page.readable
    assert [row for row in ("6 ", "4.5 ") if row in page.readable] == ["6 ", "4.5 "]
    said = world.ask("resource/history", {})["data"]
    newest = [(one["end"] - one["begin"], one["cores"]) for one in said["reserved"][-3:]]
    assert newest == [(QUARTER, 0), (QUARTER, 6), (QUARTER, 4.5)]
    assert (len(said["reserved"]), said["reserved"][-1]["end"], said["cores"]) == (96, END, 20)


def test_more_jobs_than_are_read_make_the_time_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.store.views.times.usage.MOST_ENDED", 2)
    world = make_world(tmp_path)
    for number in range(4):
        world.add_job(
            status=JobStatus.SUCCESS, f_apply_resource_time=END - 5 * QUARTER, f_cores=1, f_memory=10,
            **dict.fromkeys(("f_return_resource_time", "f_end_time"), END - (4 - number) * QUARTER),
        )  # fmt: skip
    assert world.services.views.board.usage(END) == Usage(END, (1.0, 0.0), (10.0, 0.0))
