"""Many initiators want overlapping parties that have too few cores for all: every job ends, within a bound."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.faults import rough
from tests.simulation.parsing import parsed_once
from tests.simulation.world import World, job

SECONDS_A_JOB = 12.0
"""Virtual seconds that a job may take on average while every party has room for one or two at a time."""


@pytest.fixture(autouse=True)
def _fast():
    with parsed_once():
        yield


def crowd(world: World, draw: Random, jobs: int) -> list[str]:
    """Jobs of all initiators at once, each over two parties or more, with one core or all that there are."""
    ids = []
    for number in range(jobs):
        initiator = world.party_ids[number % len(world.party_ids)]
        others = [one for one in world.party_ids if one != initiator]
        hosts = draw.sample(others, draw.randint(1, len(others)))
        ids.append(world.submit(initiator, job({"guest": [initiator], "host": hosts}, cores=draw.randint(1, 2))))
    return ids


@pytest.mark.parametrize("seed", range(8))
def test_every_job_of_a_crowd_ends(seed: int) -> None:
    world = World(seed, parties=2 + seed % 6, cores=2, servers=1 + seed % 2)
    ids = crowd(world, Random(seed), 30)
    world.stabilize(30 * SECONDS_A_JOB)
    assert all(set(world.status(one).values()) == {"success"} for one in ids), world.ends()


@pytest.mark.parametrize("seed", range(8))
def test_every_job_of_a_crowd_ends_when_all_goes_wrong_meanwhile(seed: int) -> None:
    world = World(seed, parties=2 + seed % 6, cores=2)
    crowd(world, Random(seed), 30)
    world.run_for(0.5)
    world.faults = rough(0.03, 50, 0.01)
    world.run_for(20)
    world.stabilize(30 * SECONDS_A_JOB)
    assert world.ends()["success"] > 15, world.ends()


def test_a_big_job_is_not_starved_by_small_ones() -> None:
    """Those that take what it lacks pass it so often and no more."""
    world = World(1, parties=2, cores=4)
    world.longest_task = 2_000
    parties = {"guest": ["9999"], "host": ["10000"]}
    small = [world.submit("9999", job(parties)) for _ in range(4)]
    world.run_for(0.3)
    big = world.submit("9999", job(parties, cores=4))
    for _ in range(60):
        world.run_for(0.3)
        small.append(world.submit("9999", job(parties)))
    world.run_for(30)
    assert set(world.status(big).values()) == {"success"}, world.status(big)
    row = world.job("9999", big)
    assert row is not None
    assert 0 < row.passes <= world.rules.queue_passes
    world.stabilize(120)
    assert world.ends()["success"] == 1 + len(small)
