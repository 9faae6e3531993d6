"""The crowd of `bin/bench --only 12`, small: everybody submits jobs of two and three parties, and none is lost."""

from __future__ import annotations

import pytest

from tests.bench.scale.crowd import Load, crowd_of
from tests.bench.scale.simulated import measure

pytestmark = pytest.mark.long

_SMALL = Load(parties=6, jobs_a_day=20_000, task_seconds=0.5, used=0.5)
_ARRIVE = 15.0
_MOST_COMMANDS = 30
"""Between parties for each job; those to the own party are no requests, and a job has at most three tasks and three
parties."""


def test_a_crowd_loses_no_job_and_says_no_more_than_it_has_to() -> None:
    with crowd_of(_SMALL, is_checked=True, store="memory") as crowd:
        crowd.arrive(crowd.now + int(_ARRIVE * 1000))
        crowd.run_for(_ARRIVE)
        crowd.stabilize(120)
        jobs = len(crowd.submitted)
        assert jobs > 10
        assert crowd.ends() == {"success": jobs, "refused or lost": 0}
        assert crowd.counts.commands["create"] == sum(len(seats) - 1 for seats in crowd.seats.values())
        assert sum(crowd.counts.commands.values()) <= _MOST_COMMANDS * jobs, crowd.counts.commands
        assert all(party.books.engine().remaining_cores == _SMALL.cores for party in crowd.parties.values())


def test_the_bench_counts_what_a_crowd_does() -> None:
    found = measure(parties=3, jobs_a_day=40_000, task_seconds=0.2, round_trip_ms=30, warm_up=3, seconds=6)
    assert found["arrived"] > 0
    assert found["ended"] > 0
    # Each round trip of a start is one of the network: one to be accepted, one to reserve, one to start at least.
    assert found["start_ms"]["median"] >= 2 * 30
    assert found["commands_per_job"]["create"] >= 1
    assert found["statements_per_job"]["SELECT"] > 0
    assert found["rows_per_job"]["t_job"] >= 2
