"""A coordinator that gives two hosts different documents: neither runs on where one of them reaches the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Command, CommandKind, EngineState, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import LOCAL
from fate_flow.core.model.spec import Party
from tests.kit.job_documents import job
from tests.simulation.world.world import World

LIAR, ONE, OTHER = "9999", "10000", "10001"
Lie = Callable[[dict[str, Any]], dict[str, Any]]


def with_conf(body: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**body, "runtime_conf": {**body["runtime_conf"], **parts}}


def other_parameters(body: dict[str, Any]) -> dict[str, Any]:
    parameters = body["runtime_conf"].get("component_parameters") or {}
    common = {**parameters.get("common", {}), "a": {"x": 9}}
    return with_conf(body, component_parameters={**parameters, "common": common})


def another_revision(body: dict[str, Any]) -> dict[str, Any]:
    return {**other_parameters(body), "revision": 5}


def without_the_other(body: dict[str, Any]) -> dict[str, Any]:
    return with_conf(body, role={"guest": [int(LIAR)], "host": [int(OTHER)]})


def a_lie(world: World, lie: Lie) -> str:
    """Submit a long job, of which `OTHER` gets another document."""

    def altered(command: Command) -> Command:
        return replace(command, body=lie(dict(command.body))) if command.kind is CommandKind.CREATE else command

    world.submit(LIAR, job({"guest": [LIAR]}, {"a": []}))        # the first job has notes for each host
    world.run_for(5)
    world.longest_task = 100_000
    world.lies[LIAR, OTHER] = altered
    parties = {"guest": [LIAR], "host": [ONE, OTHER]}
    return world.submit(LIAR, job(parties, {"a": [], "b": ["a"]}))


def row(world: World, job_id: str, party_id: str) -> Job:
    seen = world.invariants.seen(world.parties[party_id])
    return next(one for one in seen.jobs.values() if one.job_id == job_id)


def engines(world: World) -> Iterator[EngineState]:
    for party in world.parties.values():
        with party.store.reading() as tx:
            engine = tx.engine(LOCAL)
        assert isinstance(engine, EngineState)
        yield engine


BOTH_WAYS, ONLY_BACK, ONLY_THERE = None, (ONE, OTHER), (OTHER, ONE)


@pytest.mark.parametrize(("lie", "dead"), [
    (other_parameters, BOTH_WAYS), (other_parameters, ONLY_BACK), (other_parameters, ONLY_THERE),
    (another_revision, BOTH_WAYS), (another_revision, ONLY_BACK), (another_revision, ONLY_THERE),
    (without_the_other, BOTH_WAYS), (without_the_other, ONLY_THERE),     # who is left in the dark asks nobody
])  # fmt: skip
def test_no_host_runs_on_with_another_document(lie: Lie, dead: tuple[str, str] | None) -> None:
    for seed in range(4):
        world = World(seed, parties=3)
        if dead is not None:
            world.dead_routes.add(dead)
        job_id = a_lie(world, lie)
        world.run_for(20)
        ends = {one: row(world, job_id, one) for one in (LIAR, ONE, OTHER)}
        assert {one.status.value for one in ends.values()} == {"failed"}, (seed, ends)
        noticed = [one for one in (ONE, OTHER) if ends[one].reason is Reason.OTHER_DOCUMENT]
        assert noticed, (seed, ends)
        for one in noticed:
            assert "the coordinator gave the two parties different documents: host" in ends[one].message
            assert all(party in ends[one].message for party in (ONE, OTHER))
        assert not any(party.engine.living() for party in world.parties.values())
        assert all(seen.remaining_cores == seen.cores for seen in engines(world)), "nothing is held"


def test_two_hosts_that_do_not_reach_each_other_run_on() -> None:
    world = World(1, parties=3)
    world.dead_routes |= {(ONE, OTHER), (OTHER, ONE)}
    job_id = a_lie(world, other_parameters)
    world.run_for(400)
    assert set(world.status(job_id).values()) == {"success"}


def test_what_a_true_coordinator_says_ends_no_job() -> None:
    world = World(2, parties=3)
    parties = {"guest": [LIAR], "host": [ONE, OTHER]}
    job_id = world.submit(LIAR, job(parties, {"a": [], "b": ["a"]}))
    world.run_for(20)
    assert set(world.status(job_id).values()) == {"success"}
    assert row(world, job_id, ONE).parties == (Party("guest", LIAR), Party("host", ONE), Party("host", OTHER))
