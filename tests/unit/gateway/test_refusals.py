"""The operator reads a few lines about each address, and how many were left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fate_flow.core.quotas.quota import Quotas
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.refusals import RefusalLog

Lines = Callable[[], list[str]]


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return lambda: [one.getMessage() for one in caplog.records]


def test_a_flood_of_one_address_is_a_few_lines_a_minute(clock: Clock, lines: Lines) -> None:
    refusals = RefusalLog(clock)
    for number in range(1000):
        refusals.note("10.0.0.2", f"number {number}")
    refusals.note("10.0.0.3", "another")
    shown = [f"refused 10.0.0.2: number {number}" for number in range(5)] + ["refused 10.0.0.3: another"]
    assert lines() == shown
    refusals.tick()
    assert lines() == shown
    clock.seconds = 60
    refusals.tick()
    left_out = "refused 10.0.0.2 995 more times within a minute, which are not logged"
    assert lines() == [*shown, left_out]
    refusals.note("10.0.0.2", "again")
    assert lines() == [*shown, left_out, "refused 10.0.0.2: again"]


def test_the_count_of_a_minute_is_logged_before_the_next_lines_and_at_the_end(clock: Clock, lines: Lines) -> None:
    refusals = RefusalLog(clock)
    for _ in range(6):
        refusals.note("", "x")
    clock.seconds = 61
    for _ in range(6):
        refusals.note("", "y")
    refusals.finish()
    count = "refused connections 1 more time within a minute, which are not logged"
    assert lines() == [*["refused a connection: x"] * 5, count, *["refused a connection: y"] * 5, count]


def test_many_addresses_take_no_more_memory_than_some(clock: Clock) -> None:
    refusals = RefusalLog(clock)
    for number in range(5000):
        refusals.note(f"address {number}", "x")
    assert len(refusals._of) == 1000


@pytest.mark.parametrize(("threads", "shared", "of_party"), [(4, 2, 1), (32, 16, 8), (1024, 512, 32)])
def test_half_of_the_threads_stay_for_clients(threads: int, shared: int, of_party: int) -> None:
    limits = Limits.of_server(threads, 100 << 30, Quotas())
    assert (limits.application_requests, limits.application_requests_of_party) == (shared, of_party)
    assert limits.stored_bytes_of_party == limits.body_bytes == 100 << 30
