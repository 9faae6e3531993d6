"""Gangs of which one party or several place their workers on a cluster: they begin together, whatever is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from fate_flow.core.model.job import Task
from fate_flow.core.planning import plan_tasks
from fate_flow.core.planning.gang import GATHERED
from fate_flow.services.workers import watch
from tests.kit.job_documents import job
from tests.kit.mostly_heavy import mostly_heavy
from tests.simulation.world.faults import CALM, Faults, rough
from tests.simulation.world.world import Violation, World

ALL = {"guest": ["9999"], "host": ["10000", "10001"]}
JOBS = 2
PLACED = (("10000",), ("9999",), ("10000", "10001"), ("9999", "10000", "10001"))
SEEDS = mostly_heavy(range(40), 3)


def run(seed: int, faults: Faults) -> tuple[World, list[str]]:
    world = World(seed, parties=3, cores=4)
    for party_id in PLACED[seed % len(PLACED)]:
        world.parties[party_id].engine.gathers = True
    ids = [world.submit("9999", job(ALL, {"a": [], "b": ["a"]}, retries=5)) for _ in range(JOBS)]
    world.run_for(0.2)
    assert all(map(world.status, ids)), "the jobs are accepted before anything goes wrong"
    world.faults = faults
    world.run_for(15)
    world.stabilize(200)
    return world, ids


@pytest.mark.parametrize("seed", range(len(PLACED)))
def test_jobs_succeed_when_nothing_goes_wrong(seed: int) -> None:
    world, ids = run(seed, CALM)
    assert [set(world.status(one).values()) for one in ids] == [{"success"}] * JOBS
    assert world.injected["gang begins"] == JOBS * 2 * len(PLACED[seed])


@pytest.mark.parametrize("seed", SEEDS)
def test_gangs_begin_together_whatever_is_lost(seed: int) -> None:
    world, _ = run(seed, rough(0.1, 50, 0.01, 0.1))
    assert world.injected["gang begins"]


def begins_when_any_share_is_there(patch: pytest.MonkeyPatch) -> None:
    def wrong(shares: Iterable[Task]) -> Iterator[Task]:
        yield from (one for one in shares if one.waits == GATHERED)

    patch.setattr(plan_tasks, "let_begin", wrong)


def begins_without_the_coordinator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(watch, "may_begin", lambda _: True)


@pytest.mark.parametrize("mutate", [begins_when_any_share_is_there, begins_without_the_coordinator])
def test_a_bug_is_found(mutate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(mutate)
    mutate(monkeypatch)
    with pytest.raises(Violation):
        run_all()


def run_all() -> None:
    for seed in range(len(PLACED)):
        run(seed, CALM)
