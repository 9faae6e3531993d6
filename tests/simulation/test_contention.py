"""Many initiators want overlapping parties that have too few cores for all: every job ends, within a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.job import Blocker, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.planning.queue import Place
from fate_flow.core.quotas.queues import tag_of
from fate_flow.store.contract.changes import MOST_PASSERS
from tests.kit.job_documents import job
from tests.kit.mostly_heavy import mostly_heavy
from tests.simulation.parsing import parsed_once
from tests.simulation.world.faults import rough
from tests.simulation.world.party import WITH_GPUS
from tests.simulation.world.world import RULES, START, World

pytestmark = pytest.mark.long

SECONDS_A_JOB = 12.0
"""Virtual seconds that a job may take on average while every party has capacity for one or two at a time."""


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


@pytest.mark.parametrize("seed", mostly_heavy(range(8), 1))
def test_every_job_of_a_crowd_ends(seed: int) -> None:
    world = World(seed, parties=2 + seed % 6, cores=2, servers=1 + seed % 2)
    ids = crowd(world, Random(seed), 30)
    world.stabilize(30 * SECONDS_A_JOB)
    assert all(set(world.status(one).values()) == {"success"} for one in ids), world.ends()


@pytest.mark.parametrize("seed", mostly_heavy(range(8), 1))
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
    assert len(row.passers) == min(row.passes, MOST_PASSERS)
    assert all(one in small and one > big for one in row.passers)
    world.stabilize(120)
    assert world.ends()["success"] == 1 + len(small)


@pytest.mark.heavy
def test_a_job_of_low_priority_is_passed_by_higher_ones_until_it_has_aged() -> None:
    """Ten levels of two seconds each: whoever comes twenty seconds later stands behind it."""
    world = World(1, parties=2, cores=2, rules=replace(RULES, queue_ageing=2_000, queue_passes=0))
    parties = {"guest": ["9999"], "host": ["10000"]}
    for _ in range(3):
        world.submit("9999", job(parties, cores=2, priority=10))
    world.run_for(0.2)
    low, later = world.submit("9999", job(parties, cores=2)), list[str]()
    for _ in range(240):
        later.append(world.submit("9999", job(parties, cores=2, priority=10)))
        world.run_for(0.25)
    rows = {row.job_id: row for row in world.invariants.seen(world.parties["9999"]).jobs.values()}
    before = [one for one in later if 0 < rows[one].start_time < (rows[low].start_time or world.now * 2)]
    assert rows[low].start_time > 0
    assert len(before) > 10, "higher priorities went first"
    assert max(world.submitted[one] for one in before) <= world.submitted[low] + 20_000 + 1_000
    world.stabilize(600)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_job_waits_no_longer_than_it_may_take_and_never_begins(store: str) -> None:
    world = World(3, parties=2, cores=2, store=store)
    parties = {"guest": ["9999"], "host": ["10000"]}
    world.longest_task = 60_000
    world.submit("9999", job(parties, cores=2))
    world.run_for(1)
    late = world.submit("9999", job(parties, cores=2, timeout=3))
    world.run_for(3)
    assert set(world.status(late).values()) == {"waiting"}
    world.run_for(2 * RULES.poll_interval / 1000 + 1)
    assert set(world.status(late).values()) == {"timeout"}
    row = world.job("9999", late)
    assert row is not None
    assert (row.reason, row.start_time) == (Reason.JOB_TIMEOUT, 0)
    assert not any(worker.task.job_id == late for one in world.parties.values() for worker in one.engine.living())
    world.stabilize(120)


def test_what_waits_for_people_keeps_nobody_else_waiting() -> None:
    """One job is held, one awaits an approval; what comes after them runs."""
    world = World(2, parties=3, cores=2, approval=ApprovalRule(True, frozenset({"10001"})))
    pending = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, cores=2))
    world.run_for(1)
    held = world.submit("9999", job({"guest": ["9999"]}, cores=2))
    world.hold("9999", held)
    others = [world.submit("10001", job({"guest": ["10001"], "host": ["9999", "10000"]}, cores=2)) for _ in range(8)]
    others += [world.submit("9999", job({"guest": ["9999"]}, cores=2)) for _ in range(8)]
    world.run_for(40)
    assert [set(world.status(one).values()) for one in others] == [{"success"}] * 16
    assert [set(world.status(one).values()) for one in (pending, held)] == [{"waiting"}] * 2
    row = world.job("9999", pending)
    assert row is not None
    assert (row.blocked_by, row.wait_reason) == (Blocker.APPROVAL, "host 10000 has not approved it yet")
    at = world.now
    world.approve("10000", pending)
    world.release("9999", held)
    world.run_for(1)
    row = world.job("9999", pending)
    assert row is not None
    assert row.start_time - world.parties["9999"].skew - at < 500, "the initiator is told at once"
    world.stabilize(60)


# ---------------------------------------------------------------------- streams of jobs that never let a party empty


_OPEN = 5
"""Jobs of a stream that are not over: more than run at once."""


def flood(world: World, streams: Sequence[tuple[str, str]], seconds: float, until: Sequence[str] = ()) -> None:
    """Stream jobs of half the host's cores from each (initiator, host), so that some wait at any time.

    The flood ends early when all jobs of `until` have succeeded.
    """
    end = world.now + int(seconds * 1000)
    while world.now < end and not (until and all(set(world.status(one).values()) == {"success"} for one in until)):
        for initiator, host in streams:
            document = job({"guest": [initiator], "host": [host]}, cores=2)
            for _ in range(_OPEN - open_jobs(world, initiator, document.runtime_conf["role"])):
                world.submit(initiator, document)
        world.run_for(0.5)


def open_jobs(world: World, initiator: str, roles: dict[str, list[int]]) -> int:
    parties = tuple(Party(role, str(one)) for role, ids in roles.items() for one in ids)
    rows = world.invariants.seen(world.parties[initiator]).jobs.values()
    return sum(row.is_initiator and not row.is_final and row.parties == parties for row in rows)


def started_before(world: World, job_id: str, at: str) -> int:
    """How many jobs that were submitted after this one have started at a party before it; all as of its start."""
    rows = {row.job_id: row for row in world.invariants.seen(world.parties[at]).jobs.values()}
    return sum(
        world.submitted[one] > world.submitted[job_id] and 0 < row.start_time < rows[job_id].start_time
        for one, row in rows.items()
    )


LARGE = {"9999": 200, "10001": 200, "10002": 200, "10003": 200}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_big_job_is_not_starved_by_another_initiator(store: str) -> None:
    world = World(2, parties=3, cores=4, store=store, cores_at={"9999": 200, "10001": 200})
    world.longest_task = 2_000
    flood(world, [("10001", "10000")], 4)
    big = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, cores=4))
    flood(world, [("10001", "10000")], 60, until=[big])
    assert set(world.status(big).values()) == {"success"}, world.job("9999", big)
    assert started_before(world, big, "10000") <= world.rules.queue_passes
    world.stabilize(400)
    assert set(world.ends()) == {"success", "refused or lost"}


def test_one_who_waits_behind_the_job_of_another_initiator_is_told_so() -> None:
    world = World(2, parties=3, cores=4, cores_at={"9999": 200, "10001": 200})
    world.longest_task = 4_000
    flood(world, [("10001", "10000")], 4)
    big = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, cores=4))
    reasons: set[str] = set()
    while set(world.status(big).values()) != {"running"}:
        assert world.now < START + 120_000
        flood(world, [("10001", "10000")], 0.5)
        reasons.update(row.wait_reason for row in world.invariants.seen(world.parties["10001"]).jobs.values())
    assert "host 10000 keeps its capacity for an older job, which has been passed there 16 times" in reasons


def test_an_initiator_that_is_gone_keeps_nobody_waiting() -> None:
    world = World(3, parties=3, cores=4, cores_at={"9999": 200, "10001": 200})
    world.longest_task = 2_000
    flood(world, [("10001", "10000")], 4)
    big = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, cores=4))
    while (row := world.invariants.seen(world.parties["10000"]).jobs.get(_host_of(big))) is None or (
        row.pending.passes < world.rules.queue_passes
    ):
        assert world.now < START + 120_000
        flood(world, [("10001", "10000")], 0.5)
    world.cut("9999", "10000")
    world.run_for(20)
    before = world.ends()["success"]
    flood(world, [("10001", "10000")], 10)
    assert world.ends()["success"] > before
    assert set(world.status(big).values()) == {"waiting"}
    world.stabilize(400)
    assert set(world.status(big).values()) == {"success"}


def _host_of(job_id: str) -> JobKey:
    return JobKey(job_id, Party("host", "10000"))


def test_a_job_over_two_scarce_parties_is_passed_no_more_often_than_one_over_one() -> None:
    world = World(4, parties=3, cores=4, cores_at={"9999": 200})
    world.longest_task = 2_000
    streams = [("9999", "10000"), ("9999", "10001")]
    flood(world, streams, 4)
    big = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, cores=4))
    flood(world, streams, 60, until=[big])
    assert set(world.status(big).values()) == {"success"}, world.job("9999", big)
    assert started_before(world, big, "9999") <= world.rules.queue_passes
    world.stabilize(600)
    assert set(world.ends()) == {"success", "refused or lost"}


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_big_jobs_that_cross_at_two_parties_all_end_while_others_stream_at_each(seed: int) -> None:
    """Each is the head somewhere, asks the parties in another order at first, and all need both."""
    world = World(seed, parties=5, cores=4, cores_at=LARGE | {"10000": 4, "10001": 4})
    world.longest_task = 1_000
    streams = [("10002", "10000"), ("10003", "10001"), ("10002", "10001")]
    flood(world, streams, 3)
    big = [
        world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, cores=4)),
        world.submit("10003", job({"guest": ["10003"], "host": ["10001", "10000"]}, cores=4)),
        world.submit("10000", job({"guest": ["10000"], "host": ["10001"]}, cores=4)),
        world.submit("10001", job({"guest": ["10001"], "host": ["10000"]}, cores=4)),
    ]
    flood(world, streams, 80, until=big)
    assert [set(world.status(one).values()) for one in big] == [{"success"}] * 4
    world.stabilize(400)


def test_a_silent_party_of_a_big_job_does_not_keep_the_cores_of_the_others_idle() -> None:
    """It has no capacity at one party for long, and at another nobody answers: capacity alone would not help it."""
    world = World(5, parties=4, cores=4, cores_at={"9999": 200, "10002": 200})
    world.longest_task = 1_000
    flood(world, [("10002", "10000")], 4)
    big = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, cores=4))
    world.run_for(0.3)
    world.cut("9999", "10001")
    flood(world, [("10002", "10000")], 20)
    before = started_after(world, big, "10000")
    assert before >= 30, "more than half of what fits into 20 seconds"
    flood(world, [("10002", "10000")], 20)
    assert started_after(world, big, "10000") - before >= 40
    assert set(world.status(big).values()) == {"waiting"}
    world.stabilize(400)
    assert set(world.status(big).values()) == {"success"}


def started_after(world: World, job_id: str, at: str) -> int:
    """How many jobs that were submitted after this one have started at a party."""
    rows = world.invariants.seen(world.parties[at]).jobs.values()
    return sum(world.submitted[row.job_id] > world.submitted[job_id] and row.start_time > 0 for row in rows)


# ---------------------------------------------------------------------- a head of another initiator, when there is
# capacity

PATIENT = replace(RULES, retry_wait=20_000, poll_interval=20_000)
"""Whoever has to find capacity by asking again needs far longer than anybody who is told."""

ONE_ROUND = 7 * 5 * 2
"""Milliseconds: the message, and question and answer of check, apply and start; each takes 5 at most, and as long again
until it is taken up."""


def waits_at(world: World, initiator: str, host: str, cores: int) -> str:
    """A job that the host had no capacity for."""
    job_id = world.submit(initiator, job({"guest": [initiator], "host": [host]}, cores=cores))
    world.run_for(1)
    found = world.job(initiator, job_id)
    assert found is not None
    assert (found.status.value, found.blocked_on, found.blocked_by) == ("waiting", host, Blocker.CAPACITY)
    return job_id


def holds_at(world: World, host: str, job_id: str) -> bool:
    return world.invariants.seen(world.parties[host]).jobs[JobKey(job_id, Party("host", host))].holds


def start_at(world: World, at: str, job_id: str) -> int:
    """Milliseconds of the world's clock at which this party started the job."""
    rows = world.invariants.seen(world.parties[at]).jobs.values()
    return next(row.start_time for row in rows if row.job_id == job_id) - world.parties[at].skew


def end_at(world: World, at: str, job_id: str) -> int:
    rows = world.invariants.seen(world.parties[at]).jobs.values()
    return next(row.end_time for row in rows if row.job_id == job_id) - world.parties[at].skew


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("seed", mostly_heavy((0, 1, 2, 4, 5), 2))       # in which the first job lasts
def test_the_head_of_another_initiator_starts_as_soon_as_its_cores_are_free(seed: int, store: str) -> None:
    world = World(seed, parties=3, cores=200, rules=PATIENT, store=store, cores_at={"10000": 4})
    world.longest_task = 5_000
    first = world.submit("10001", job({"guest": ["10001"], "host": ["10000"]}, cores=4))
    world.run_for(0.5)
    head = waits_at(world, "9999", "10000", 4)
    world.run_for(10)
    assert set(world.status(head).values()) == {"success"}, world.job("9999", head)
    assert 0 < start_at(world, "9999", head) - end_at(world, "10000", first) <= ONE_ROUND
    world.stabilize(60)


def test_as_many_are_told_as_there_is_capacity_for_in_their_order() -> None:
    world = World(1, parties=4, cores=200, rules=PATIENT, cores_at={"10000": 4})
    world.longest_task = 600_000
    first = world.submit("10001", job({"guest": ["10001"], "host": ["10000"]}, cores=4))
    world.run_for(0.3)
    waiting = [waits_at(world, at, "10000", 2) for at in ("9999", "10002", "9999")]
    world.stop("10001", first)
    world.run_for(1)
    assert [set(world.status(one).values()) for one in waiting] == [{"running"}, {"running"}, {"waiting"}]
    assert world.hints == {"sent": 2, "heeded": 2}
    third = world.job("9999", waiting[2])
    assert third is not None
    assert third.round_number == 1, "it was not even asked for"
    world.stabilize(200)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_party_holds_no_more_than_its_share_and_all_its_jobs_end(store: str) -> None:
    world = World(1, parties=3, cores=200, rules=PATIENT, cores_at={"10000": 4}, cores_share=0.5, store=store)
    ids = [world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, cores=cores)) for cores in (1, 2, 1, 2, 1)]
    world.run_for(0.3)
    other = world.submit("10001", job({"guest": ["10001"], "host": ["10000"]}, cores=2))
    world.run_for(0.5)
    assert "running" in world.status(other).values() or "success" in world.status(other).values(), world.status(other)
    for _ in range(200):
        world.run_for(0.1)
        with world.parties["10000"].store.reading() as tx:
            assert tx.cores_of_jobs_by("9999") <= 2
    assert all(set(world.status(one).values()) == {"success"} for one in (*ids, other))
    ends = [end_at(world, "10000", one) for one in ids]
    assert max(ends) - min(ends) < 5 * ONE_ROUND + 5 * world.longest_task, "each is told when it may"
    world.stabilize(60)


def test_the_capacity_of_an_initiator_that_does_not_answer_is_left_to_the_next() -> None:
    world = World(1, parties=4, cores=200, rules=PATIENT, cores_at={"10000": 4})
    world.longest_task = 600_000
    first = world.submit("10001", job({"guest": ["10001"], "host": ["10000"]}, cores=4))
    world.run_for(0.3)
    silent, second = waits_at(world, "9999", "10000", 4), waits_at(world, "10002", "10000", 4)
    world.cut("10000", "9999")
    world.stop("10001", first)
    world.run_for(1.4)
    assert set(world.status(second).values()) == {"waiting"}, "the first in order is given the time of an answer"
    world.run_for(0.4)
    assert [set(world.status(one).values()) for one in (silent, second)] == [{"waiting"}, {"running"}]
    world.longest_task = 400
    world.stabilize(200)
    assert set(world.status(silent).values()) == {"success"}


def test_what_was_reserved_with_the_acceptance_is_released_if_the_queue_holds_the_job_back() -> None:
    """While one party of a job has not answered, a job that the other one has too little capacity for becomes the
    head."""
    world = World(3, parties=3, cores=200, rules=replace(RULES, queue_passes=0), cores_at={"10000": 4})
    world.longest_task = 60_000
    at_one, at_both = ({"guest": ["9999"], "host": hosts} for hosts in (["10000"], ["10000", "10001"]))
    runs = world.submit("9999", job(at_one, cores=3))
    world.run_for(0.5)
    slow = world.parties["10001"].servers[0].http
    slow.halt()
    head = world.submit("9999", job(at_one, cores=3))
    later = world.submit("9999", job(at_both, cores=1))
    world.run_for(0.3)
    assert [holds_at(world, "10000", one) for one in (runs, head, later)] == [True, False, True]
    slow.go_on()
    world.run_for(0.1)
    assert [holds_at(world, "10000", one) for one in (runs, head, later)] == [True, False, False]
    assert set(world.status(later).values()) == {"waiting"}
    world.longest_task = 400
    world.stabilize(200)
    assert set(world.status(later).values()) == {"success"}


def test_cores_that_the_configuration_adds_are_told_of() -> None:
    world = World(1, parties=3, cores=200, rules=PATIENT, cores_at={"10000": 4})
    host = world.parties["10000"]
    world.longest_task = 60_000
    world.submit("10001", job({"guest": ["10001"], "host": ["10000"]}, cores=3))
    world.run_for(0.5)
    head = waits_at(world, "9999", "10000", 3)
    host.resize(replace(host.size, cores=8))
    while set(world.status(head).values()) != {"running"}:
        assert world.now < START + 10_000
        world.run_for(0.1)


# ---------------------------------------------------------------------- a party that has become too small


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_nobody_waits_behind_a_job_that_a_party_has_become_too_small_for(store: str) -> None:
    rules = replace(RULES, queue_passes=2)
    world = World(6, parties=3, cores=4, rules=rules, store=store, cores_at={"9999": 200, "10001": 200})
    world.longest_task = 2_000
    flood(world, [("9999", "10000")], 2)
    big = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, cores=4))
    flood(world, [("9999", "10000")], 0.5)      # it waits: at each reservation round, others had cores
    host = world.parties["10000"]
    host.shrink(2)
    host.stays_shrunk = True
    host.recover()
    flood(world, [("9999", "10000"), ("10001", "10000")], 5)
    while world.invariants.settled.unsettled_while_shrunk():
        world.run_for(1)
        assert world.now < START + 600_000
    world.run_for(12)       # it has been asked for once more since the last core came back
    waits = world.job("9999", big)
    assert waits is not None
    assert waits.wait_reason == (
        "host 10000 has 2 of 2 cores free, 4 asked: the job asks for more than it has in all"
    )
    assert (waits.blocked_on, waits.blocked_by) == ("10000", Blocker.SIZE)
    world.stabilize(120)
    assert set(world.status(big).values()) == {"success"}, "the operator gave the cores back"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_job_that_waits_for_one_engine_is_no_head_for_jobs_of_another(store: str) -> None:
    """Although no job may pass another one: the engine with the GPUs is full, and the other one is free."""
    world = World(1, cores=2, store=store, gpus=1, rules=replace(RULES, queue_passes=0))
    world.longest_task = 2_000_000
    both = {"guest": ["9999"], "host": ["10000"]}
    holder, waiter = (world.submit("9999", job(both, {"a": []}, cores=1, gpus=1)) for _ in range(2))
    world.run_for(10)
    world.longest_task = 1
    sides = (both, {"guest": ["10000"], "host": ["9999"]})
    beside = [world.submit(one["guest"][0], job(one, {"a": []}, cores=2)) for one in sides]
    world.run_for(60)
    assert [set(world.status(one).values()) for one in (holder, waiter)] == [{"running"}, {"waiting"}]
    assert [set(world.status(one).values()) for one in beside] == [{"success"}] * 2
    with world.parties["9999"].store.reading() as tx:
        found = tx.job_here(waiter)
        [head] = tx.queue_heads()
    assert (head.job_id, head.place) == (waiter, Place("9999", tag_of("9999", WITH_GPUS)))
    assert found.passes == 0
    assert found.wait_reason == "guest 9999 has 0 of 1 GPU free on engine big, 1 asked"
