"""Workers that come when there is capacity and go when another job needs it, at both stores, nothing going wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from fate_flow.core.model.job import Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.services.context.ports import LaunchOrder
from tests.kit.job_documents import job
from tests.simulation.world.engine import FakeEngine
from tests.simulation.world.world import World

pytestmark = pytest.mark.long

BOTH = {"guest": ["9999"], "host": ["10000"]}
MADE = {"outputs": [{"name": "data", "path": "data.csv", "kind": "table"}]}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def elastic(world: World, at: str) -> list[Worker]:
    with world.parties[at].store.reading() as tx:
        found: list[Worker] = list(tx.elastic_workers())
    return found


def slots(world: World, at: str) -> list[int]:
    return sorted(worker.slot for worker in elastic(world, at))


def free(world: World, at: str) -> int:
    return int(world.parties[at].books.engine().remaining_cores)


def a_long_one(world: World, retries: int = 0, **parameters: object) -> str:
    """A job of one core at each party that wants more, and whose workers run for longer than all others here."""
    wants = {"replicas": 4, "min_replicas": 1, **MADE, **(parameters or {"max_failed_workers": 1})}
    job_id = world.submit("9999", job(BOTH, {"a": []}, commands={"a": wants}, retries=retries))
    for party in world.parties.values():
        party.engine.launch = partial(_launch_for_long, party.engine, party.engine.launch, job_id)
    world.run_for(3)
    return job_id


def _launch_for_long(
    engine: FakeEngine, launch: Callable[[LaunchOrder], None], job_id: str, order: LaunchOrder
) -> None:
    launch(order)
    worker = engine.workers[order.worker.handle]
    if order.worker.task.job_id == job_id and worker.slot != COLLECTOR:
        worker.ends_at = worker.started_at + 100_000


def test_they_take_what_is_free_and_give_it_to_each_job_that_comes(store: str) -> None:
    """However often: what is killed to free capacity counts for nothing."""
    world = World(1, cores=4, store=store)
    job_id = a_long_one(world)
    assert [free(world, at) for at in world.party_ids] == [0, 0]
    for _ in range(5):
        other = world.submit("9999", job(BOTH, cores=3))
        world.run_for(4)
        assert set(world.status(other).values()) == {"success"}, world.status(other)
        world.run_for(world.rules.retry_wait * 4 / 1000 + 10)
        assert [free(world, at) for at in world.party_ids] == [0, 0], "they are back"
    with world.parties["10000"].store.reading() as tx:
        [task] = [one for one in tx.tasks(job_id) if one.key.party.party_id == "10000"]
        workers = tx.workers_of_task(task.key)
    assert (task.party_status, task.key.version) == (TaskStatus.RUNNING, 0)
    ended = [one.reason for one in workers if one.end_time]
    assert set(ended) == {Reason.CORES_LENT}
    assert len(ended) >= 15
    world.stabilize(150)
    assert set(world.status(job_id).values()) == {"success"}


def test_no_more_go_than_are_needed_and_the_last_that_came_goes_first(store: str) -> None:
    world = World(2, cores=5, store=store)
    a_long_one(world)
    world.run_for(5)
    assert slots(world, "10000") == [1, 2, 3]
    world.longest_task = 60_000
    other = world.submit("9999", job(BOTH, cores=3))
    world.run_for(3)
    assert set(world.status(other).values()) == {"running"}
    assert slots(world, "10000") == [1]
    world.stabilize(150)


def test_who_waits_for_more_than_they_hold_has_none_of_them_go(store: str) -> None:
    world = World(3, cores=4, store=store)
    first = a_long_one(world, replicas=2, max_failed_workers=1)
    other = world.submit("9999", job(BOTH, cores=4))
    world.run_for(10)
    assert [len(elastic(world, at)) for at in world.party_ids] == [1, 1]
    row = world.job("9999", other)
    assert row is not None
    assert row.wait_reason == "guest 9999 has 2 of 4 cores free, 4 asked"
    world.stabilize(200)
    assert [set(world.status(one).values()) for one in (first, other)] == [{"success"}] * 2


def test_a_party_that_takes_nothing_in_and_one_that_shrinks(store: str) -> None:
    world = World(4, cores=4, store=store)
    a_long_one(world)
    assert len(elastic(world, "10000")) == 3
    world.parties["10000"].shrink(2)
    world.run_for(5)
    assert (len(elastic(world, "10000")), free(world, "10000")) == (1, 0)
    world.hold_intake("10000")
    world.run_for(0.1)
    world.parties["10000"].resize(world.parties["9999"].size)
    world.run_for(10)
    assert (len(elastic(world, "10000")), free(world, "10000")) == (1, 2), "held: nothing new begins"
    world.release_intake("10000")
    world.run_for(5)
    assert free(world, "10000") == 0
    world.stabilize(200)


def test_spare_workers_of_a_gang_may_be_elastic_and_the_next_version_begins_without_them(store: str) -> None:
    world = World(5, cores=3, store=store)
    job_id = a_long_one(world, retries=1, replicas=3, size=1)
    assert [len(elastic(world, at)) for at in world.party_ids] == [2, 2]
    host = world.parties["10000"]
    ranked = next(one for one in host.engine.living() if one.order.worker.rank == 0)
    ranked.is_killed, ranked.ends_at = True, world.now
    world.inject("worker killed", "by this test")
    host.worker_changed(ranked.order.worker.worker_id)
    world.run_for(1)
    with host.store.reading() as tx:
        replicas = [(one.task.version, one.slot, one.rank, one.is_elastic) for one in tx.workers_of(job_id)]
    assert sorted(replicas, key=str) == [(0, 0, 0, False), (0, 1, None, True), (0, 2, None, True)]
    world.run_for(5)
    assert [slots(world, at) for at in world.party_ids] == [[1, 2], [0, 2]]
    world.stabilize(100)
    assert set(world.status(job_id).values()) == {"success"}
