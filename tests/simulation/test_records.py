"""The records of several parties, compared when everything is over: loss accuses nobody, a lie is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command
from fate_flow.core.record.comparison import Outcome
from fate_flow.core.record.entry import OWN_LOG, log_with, read_entry
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.verifying import Keys, State
from fate_flow.services.witnesses.cosignatures import witness_keys
from tests.kit.core.signers import has_signed
from tests.kit.job_documents import job
from tests.simulation.chaos import run_seed
from tests.simulation.mutants.record_bugs import RECORD_MUTANTS
from tests.simulation.rules.records import accusers, findings, outcomes, sealed
from tests.simulation.world.faults import CALM, rough
from tests.simulation.world.restored_story import last_seconds_story, restored_story
from tests.simulation.world.world import Violation, World


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


def test_each_log_with_another_party_is_anchored_by_it() -> None:
    world, _ = a_run()

    for party in world.parties.values():
        keys = party.witnessing.keys
        with party.store.reading() as tx:
            witnesses = [(other, key) for other, listed in witness_keys(tx).items() for key in listed]
            reports = verify_all(tx, Keys(keys.root, (keys.own.key.key,), witnesses, has_signed))
        assert {one.state for one in reports} == {State.ANCHORED}
        assert all(one.log in ("own", f"with/{one.anchored_by}") for one in reports)


@pytest.mark.parametrize("seed", range(3))
def test_a_restored_backup_begins_anew_and_accuses_nobody(seed: int) -> None:
    world = restored_story(seed)

    assert not any(one.accused for one in findings(world))


@pytest.mark.parametrize("seed", [5, 24, 57])
def test_a_backup_without_the_last_seconds_begins_anew_although_nobody_has_cosigned_them(seed: int) -> None:
    world = last_seconds_story(seed)

    assert world.forgotten
    assert not world.restored.keys() & world.forgotten.keys()
    assert not any(one.accused for one in findings(world))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_party_that_goes_on_in_another_past_is_accused_by_those_who_hold_the_first(seed: int) -> None:
    world = restored_story(seed, forks=True)

    (liar,) = world.forkers
    assert accusers(world, liar) >= {witness for party, witness in world.restored if party == liar}
    assert {liar} >= {name for one in findings(world) if one.outcome is not Outcome.ALTERED for name in one.accused}


@pytest.mark.parametrize("seed", range(2))
def test_a_witness_that_answers_anything_stops_no_other_log_and_begins_the_own_ones_anew_once(seed: int) -> None:
    world = World(seed, parties=3, cores=8, keeps_record=True)
    world.faults = [CALM, rough(0.06, 50, 0.0)][seed]
    world.strange.add("10001")
    for _ in range(2):
        world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, {"a": []}))
        world.run_for(30)
    world.stabilize(60)

    assert not any(one.accused for one in findings(world))
    for party, other in (("9999", "10000"), ("10000", "9999")):
        with world.parties[party].store.reading() as tx:
            epochs = [len({1, *tx.record_epochs(log)}) for log in (OWN_LOG, log_with("10001"), log_with(other))]
            head = tx.record_head(OWN_LOG)
            signed = tx.newest_checkpoint(OWN_LOG, head.epoch)
        assert epochs == [2, 2, 1]
        assert signed is not None
        assert signed.size == head.size


@pytest.mark.parametrize("name", RECORD_MUTANTS)
def test_bugs_of_records_and_witnesses_show(name: str) -> None:
    bug, story, first = RECORD_MUTANTS[name]

    def violation(seed: int) -> str:
        try:
            story(seed)
        except Violation as error:
            return error.message
        return ""

    with bug():
        found = next(filter(None, map(violation, range(first, first + 40))), "")
    assert found
    assert not any(mistake in found for mistake in ("TypeError", "AttributeError", "NameError"))


@pytest.mark.parametrize("seed", range(6))
def test_loss_and_crashes_accuse_nobody(seed: int) -> None:
    world = run_seed(seed)
    found = outcomes(world)
    assert found[Outcome.AGREED] > 0
    assert not set(found) - {Outcome.AGREED, Outcome.IN_DOUBT}
