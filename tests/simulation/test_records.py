"""The records of several parties, compared when everything is over: loss accuses nobody, a lie is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command
from fate_flow.core.record.comparison import Outcome
from fate_flow.core.record.entry import OWN_LOG, log_with, read_entry
from tests.kit.job_documents import job
from tests.simulation.chaos import run_seed
from tests.simulation.rules.records import findings, outcomes, sealed
from tests.simulation.world.world import World


def a_run(lie: bool = False) -> tuple[World, str]:
    world = World(1, parties=3, cores=8, keeps_record=True)

    def lied(command: Command) -> Command:
        return replace(command, body={**command.body, "x": 1})

    if lie:
        world.lies["9999", "10000"] = lied
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": [], "b": ["a"]}))
    world.run_for(20)
    world.stabilize(20)
    return world, job_id


def test_a_calm_job_is_agreed_on_by_all() -> None:
    world, job_id = a_run()

    found = outcomes(world)
    assert set(found) == {Outcome.AGREED}
    assert found[Outcome.AGREED] >= 20

    traces = set[str]()
    for party in world.parties.values():
        with party.store.reading() as tx:
            traces |= {str(read_entry(one.content).get("trace")) for one in tx.record_of_job(job_id)}
    assert [len(one) for one in traces] == [32], "one trace in all entries about the job, at all parties"


def test_each_change_of_the_job_is_in_the_own_log() -> None:
    world, job_id = a_run()
    party = world.parties["9999"]
    with party.store.reading() as tx:
        history = tx.history(job_id)

    moves = [one for one in sealed(party, OWN_LOG) if (one.kind, one.job_id) == ("status", job_id)]
    entries = [read_entry(one.content) for one in moves]
    recorded = [(one.get("old", ""), one["new"], one["at"]) for one in entries]
    assert recorded == [(one.old, one.new, one.at) for one in history]
    assert len(recorded) >= 10


def test_no_party_learns_of_messages_with_others() -> None:
    world, _ = a_run()

    for other in ("10000", "10001"):
        sent = [one for one in sealed(world.parties["9999"], log_with(other)) if one.kind == "sent"]
        assert sent
        assert {read_entry(one.content)["seat"] for one in sent} == {f"host {other}"}


def test_a_coordinator_that_sends_something_else_than_it_records_is_found() -> None:
    world, _ = a_run(lie=True)

    found = [one for one in findings(world) if one.accused]
    assert found
    assert {one.outcome for one in found} == {Outcome.ALTERED}
    assert {frozenset(one.accused) for one in found} == {frozenset({"9999", "10000"})}


@pytest.mark.parametrize("seed", range(0, 24, 4))
def test_loss_and_crashes_accuse_nobody(seed: int) -> None:
    world = run_seed(seed)

    assert world.keeps_record
    found = outcomes(world)
    assert found[Outcome.AGREED] > 0
    assert not set(found) - {Outcome.AGREED, Outcome.IN_DOUBT}
