"""The life cycles of gangs over several parties, each case by itself: who dies when, and what that comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command, CommandKind, Job, Task, TaskKey
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.wire.v1.reports import report_of
from fate_flow.jobspec.parameters import Change
from tests.kit.job_documents import job, private_note
from tests.simulation.world.engine import FakeWorker
from tests.simulation.world.world import World

pytestmark = pytest.mark.long

GUEST, HOST, OTHER = "9999", "10000", "10001"
TWO, THREE = {"guest": [GUEST], "host": [HOST]}, {"guest": [GUEST], "host": [HOST, OTHER]}
FOREVER = 10_000_000


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def until(world: World, condition: Callable[[], object], seconds: float = 60) -> None:
    """Conditions read what the steps of the world change: without a step, none is looked at again."""
    end, steps = world.now + seconds * 1000, -1
    while steps == world.steps or not condition():
        assert world.now < end, "\n".join(world.transcript[-40:])
        steps = world.steps
        world.run_for(0.002)


def running(world: World, version: int, *parties: str) -> list[FakeWorker]:
    """The workers of this version, once each of the parties has one; they run until they are told otherwise."""
    found: list[FakeWorker] = []

    def all_run() -> bool:
        every = [one for party_id in parties for one in world.parties[party_id].engine.living()]
        found[:] = [one for one in every if one.task.version == version]
        for one in found:
            one.ends_at = world.now + FOREVER
        return {one.task.party.party_id for one in found} == set(parties)

    until(world, all_run)
    return found


def end(world: World, worker: FakeWorker, **how: bool) -> None:
    """It ends now: well, or as `how` says (succeeds=False, is_killed=True)."""
    for name, value in how.items():
        setattr(worker, name, value)
    worker.ends_at = world.now
    world.parties[worker.task.party.party_id].worker_changed(worker.order.worker.worker_id)


def ended(world: World, job_id: str, status: JobStatus) -> None:
    until(world, lambda: set(world.status(job_id).values()) == {status.value})


def rows(world: World, job_id: str) -> list[Task]:
    """The newest versions, as each party has its own share."""
    found = []
    for party in world.parties.values():
        with party.store.reading() as tx:
            found += [row for row in tx.tasks(job_id) if row.key.party.party_id == party.party_id]
    return found


def timers(world: World, job_id: str) -> object:
    found = world.job(GUEST, job_id)
    return found.timers if found is not None else {}


def troubles(world: World, at: str) -> Mapping[str, PeerTrouble]:
    """What is wrong, as this party knows, with the ways to the others and back."""
    with world.parties[at].store.reading() as tx:
        found: Mapping[str, PeerTrouble] = tx.peer_troubles()
    return found


def is_over(world: World, job_id: str) -> bool:
    return all(row.is_final for party in world.parties.values() for row in world.invariants.seen(party).jobs.values()
               if row.job_id == job_id)  # fmt: skip


def versions(world: World, job_id: str) -> set[int]:
    return {row.key.version for row in rows(world, job_id)}


def test_simultaneous_failures_at_two_parties_give_one_restart(store: str) -> None:
    world = World(1, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE, retries=3))
    for worker in running(world, 0, GUEST, HOST, OTHER)[1:]:
        end(world, worker, succeeds=False)
    for worker in running(world, 1, GUEST, HOST, OTHER):
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    assert versions(world, job_id) == {1}
    with world.parties[GUEST].store.reading() as tx:
        assert {row.tries.errors for row in tx.tasks(job_id)} == {1}
    world.stabilize(10)


def test_between_two_attempts_a_job_takes_other_parameters(store: str) -> None:
    world = World(12, store=store)
    job_id = world.submit(GUEST, job(TWO, retries=1, retry_delay=10))
    end(world, running(world, 0, GUEST, HOST)[1], succeeds=False)
    until(world, lambda: (row := world.job(GUEST, job_id)) is not None and row.pauses)
    world.run_for(1)
    world.change(GUEST, job_id, Change({}, {"common": {"work_0": {"x": 7}}}))
    world.run_for(1)
    for worker in running(world, 1, GUEST, HOST):
        party_id = worker.order.worker.task.party.party_id
        assert worker.order.parameters == {"x": 7, "env": {"NOTE": private_note(party_id)}}
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    found = world.job(GUEST, job_id)
    assert found is not None
    assert (found.revision, found.run) == (1, 0)
    world.stabilize(10)


def test_success_at_one_party_and_then_failure_at_another_restarts_both(store: str) -> None:
    world = World(2, store=store)
    job_id = world.submit(GUEST, job(TWO, retries=1))
    well, badly = running(world, 0, GUEST, HOST)
    end(world, well)
    until(world, lambda: TaskStatus.SUCCESS in {row.party_status for row in rows(world, job_id)})
    end(world, badly, is_killed=True)
    for worker in running(world, 1, GUEST, HOST):
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    assert versions(world, job_id) == {1}
    world.stabilize(10)


def test_a_late_success_of_a_version_changes_nothing_after_the_next_has_begun(store: str) -> None:
    world = World(3, store=store)
    job_id = world.submit(GUEST, job(TWO, retries=1))
    old = running(world, 0, GUEST, HOST)
    with world.parties[HOST].store.reading() as tx:
        row = tx.task(TaskKey(job_id, "work_0", 0, Party("host", HOST)))
    assert row is not None
    end(world, old[0], succeeds=False)
    new = running(world, 1, GUEST, HOST)
    world.run_for(0.5)
    before = rows(world, job_id)
    late = report_of(replace(row, party_status=TaskStatus.SUCCESS, reason=Reason.DONE, end_time=world.now))
    server = world.parties[GUEST].any_server()
    assert server is not None
    to, success = Party("guest", GUEST), TaskStatus.SUCCESS.value
    report = Command(CommandKind.REPORT, job_id, to, 0, row.key.name, row.key.version, success, late)
    [answer] = server.use_cases.commands.carry_out([report], HOST)
    assert answer.is_ok      # it is heard, so that nobody sends it again
    world.run_for(0.5)
    assert rows(world, job_id) == before
    for worker in new:
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    world.stabilize(10)


def test_a_stop_while_parties_start_ends_the_job_at_all_of_them(store: str) -> None:
    world = World(4, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE))
    seats = world.invariants.seen(world.parties[GUEST]).seats
    until(world, lambda: SeatStatus.STARTING in {seat.status for seat in seats.values()})
    world.stop(HOST, job_id)
    ended(world, job_id, JobStatus.CANCELED)
    assert not [one for party in world.parties.values() for one in party.engine.living()]
    world.stabilize(10)


def test_a_rerun_while_the_parties_are_told_the_end_waits_for_them(store: str) -> None:
    world = World(5, store=store)
    job_id = world.submit(GUEST, job(TWO))
    for worker in running(world, 0, GUEST, HOST):
        end(world, worker)
    until(world, lambda: world.status(job_id).get(f"guest {GUEST}") == "success")
    assert world.status(job_id)[f"host {HOST}"] == "running"
    world.rerun(GUEST, job_id, force=True)
    for worker in running(world, 1, GUEST, HOST):
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    with world.parties[HOST].store.reading() as tx:
        assert {row.run for row in tx.jobs_here(job_id)} == {1}
    world.stabilize(10)


def test_a_policy_whose_delay_has_been_overtaken_does_nothing(store: str) -> None:
    world = World(6, store=store)
    late = [{"event": "start_timeout", "action": "cancel_job", "timeout": 4}]
    job_id = world.submit(GUEST, job(TWO, policies=late))
    until(world, lambda: world.status(job_id).get(f"guest {GUEST}") == "running")
    world.cut(HOST, GUEST)                          # its share runs, and nobody hears of it
    workers = running(world, 0, GUEST, HOST)
    until(world, lambda: timers(world, job_id))
    world.run_for(2)
    world.cuts.clear()
    until(world, lambda: not timers(world, job_id))
    world.run_for(5)
    assert set(world.status(job_id).values()) == {"running"}
    for worker in workers:
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    world.stabilize(10)


def test_a_restart_of_the_initiator_with_all_workers_alive_keeps_the_version(store: str) -> None:
    world = World(7, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE, retries=1))
    workers = running(world, 0, GUEST, HOST, OTHER)
    for server in world.parties[GUEST].servers:
        server.end()
    world.run_for(1)
    end(world, workers[1])      # while nobody is there to be told
    world.run_for(10)
    for worker in (workers[0], workers[2]):
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    assert versions(world, job_id) == {0}
    world.stabilize(10)


def test_one_party_lost_moves_the_version_at_all(store: str) -> None:
    world = World(8, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE, retries=1))
    running(world, 0, GUEST, HOST, OTHER)
    world.parties[OTHER].power_cut()
    for worker in running(world, 1, GUEST, HOST, OTHER):
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    assert versions(world, job_id) == {1}
    world.stabilize(10)


def test_a_job_goes_on_without_a_party_that_stays_silent(store: str) -> None:
    """For much longer than it took to give it up: it is told how the job ended when it answers again."""
    world = World(9, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE, fewest_hosts=1))
    workers = running(world, 0, GUEST, HOST, OTHER)
    for way in ((GUEST, OTHER), (OTHER, GUEST)):
        world.cut(*way)
    world.run_for(60)
    assert world.status(job_id) == {f"guest {GUEST}": "running", f"host {HOST}": "running", f"host {OTHER}": "failed"}
    for worker in workers[:2]:
        end(world, worker)
    until(world, lambda: world.status(job_id)[f"host {HOST}"] == "success")
    found = world.job(GUEST, job_id)
    assert found is not None
    assert (found.status, found.missing, found.unconfirmed) == (
        JobStatus.SUCCESS, (f"host {OTHER}",), (f"host {OTHER}",))  # fmt: skip
    world.stabilize(30)


def test_an_initiator_that_stood_still_for_too_long_is_the_cause_everywhere(store: str) -> None:
    world = World(10, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE))
    running(world, 0, GUEST, HOST, OTHER)
    stopped = [process for server in world.parties[GUEST].servers for process in (server.http, server.scheduling)]
    world.inject("stopped", GUEST)
    for process in stopped:
        process.halt()
    world.run_for(world.rules.initiator_silence / 1000 + 10)
    for process in stopped:
        process.go_on()
    ended(world, job_id, JobStatus.FAILED)
    for party in world.parties.values():
        [row] = world.invariants.seen(party).jobs.values()
        assert (row.reason, row.caused_by) == (Reason.INITIATOR_LOST, f"guest {GUEST}")
    world.stabilize(10)


def test_a_host_that_cannot_reach_its_initiator_ends_the_job_which_says_who_cannot_reach_whom(store: str) -> None:
    world = World(11, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE))
    running(world, 0, GUEST, HOST, OTHER)
    world.kill_route(HOST, GUEST)
    noticed = world.now
    until(world, lambda: HOST in troubles(world, GUEST), 2 * world.rules.heartbeat_interval / 1000 + 1)
    assert troubles(world, GUEST)[HOST].cut_off == "connection refused"
    until(world, lambda: is_over(world, job_id), (world.rules.party_silence + world.rules.drain) / 1000 + 10)
    assert world.now - noticed > world.rules.party_silence
    for party in world.parties.values():
        [row] = world.invariants.seen(party).jobs.values()
        assert (row.status, row.reason, row.caused_by) == (
            JobStatus.FAILED, Reason.PARTY_UNREACHABLE, f"host {HOST}")  # fmt: skip
        assert row.message.startswith(f"host {HOST} cannot reach guest {GUEST} (connection refused, for 2")
        assert not row.unconfirmed
    world.stabilize(10)


def test_parties_without_a_job_notice_within_a_minute_which_way_is_closed(store: str) -> None:
    world = World(13, store=store)
    seconds = world.rules.idle_heartbeat / 1000
    world.run_for(2 * seconds)
    assert (troubles(world, GUEST), troubles(world, HOST)) == ({}, {})
    world.kill_route(HOST, GUEST)
    until(world, lambda: GUEST in troubles(world, HOST), seconds + 2)
    assert troubles(world, HOST)[GUEST].silence == "connection refused"
    until(world, lambda: HOST in troubles(world, GUEST), seconds + 2)
    found = troubles(world, GUEST)[HOST]
    assert (found.silent_since, found.cut_off) == (0, "connection refused")
    world.dead_routes.clear()
    until(world, lambda: not troubles(world, HOST), 2 * world.rules.heartbeat_interval / 1000 + 1)
    until(world, lambda: not troubles(world, GUEST), 2 * world.rules.heartbeat_interval / 1000 + 1)
    world.stabilize(10)


def test_what_ends_at_a_host_that_cannot_reach_its_initiator_is_heard_of_with_its_heartbeats(store: str) -> None:
    world = World(12, store=store)
    job_id = world.submit(GUEST, job(TWO, {"a": [], "b": ["a"]}))
    workers = running(world, 0, GUEST, HOST)
    world.kill_route(HOST, GUEST)
    for worker in workers:
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    world.stabilize(20)


def test_a_host_that_cannot_reach_the_initiator_takes_no_part(store: str) -> None:
    world = World(14, store=store)
    world.kill_route(HOST, GUEST)
    job_id = world.submit(GUEST, job(TWO))
    world.run_for(2)
    assert world.status(job_id) == {}, "nothing of it is left"
    world.dead_routes.clear()
    ended(world, world.submit(GUEST, job(TWO)), JobStatus.SUCCESS)
    world.stabilize(10)


def test_a_way_that_works_again_is_forgotten(store: str) -> None:
    world = World(13, store=store)
    job_id = world.submit(GUEST, job(TWO))
    workers = running(world, 0, GUEST, HOST)
    world.kill_route(HOST, GUEST)
    until(world, lambda: HOST in troubles(world, GUEST))
    world.dead_routes.clear()
    until(world, lambda: not troubles(world, GUEST) and not troubles(world, HOST), 20)
    world.run_for(world.rules.party_silence / 1000)
    for worker in workers:
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    world.stabilize(10)


def test_a_copy_that_its_initiator_has_forgotten_ends_while_another_job_of_the_same_parties_goes_on(
    store: str
) -> None:
    """As after a restore of the host from an older home: nobody tells it the end again."""
    world = World(15, store=store)
    world.longest_task = FOREVER
    over = world.submit(GUEST, job(TWO))
    workers = running(world, 0, GUEST, HOST)
    goes_on = world.submit(GUEST, job(TWO))
    until(world, lambda: len(world.parties[HOST].engine.living()) == 2)
    world.kill_route(GUEST, HOST)
    for worker in workers:
        end(world, worker)
    until(world, lambda: world.status(over).get(f"guest {GUEST}") == "success")
    with world.parties[GUEST].store.transaction() as tx:
        for command in tx.commands_after(0):
            if command.job_id == over:
                tx.take_command(command.id)
    for server in world.parties[GUEST].servers:
        server.scheduling.end()
    until(world, lambda: all(server.scheduling.is_up for server in world.parties[GUEST].servers))
    world.dead_routes.clear()
    assert world.status(over)[f"host {HOST}"] == "running"
    ended(world, over, JobStatus.SUCCESS)
    assert world.status(goes_on)[f"host {HOST}"] == "running"


# ---------------------------------------------------------------------- a party that is away for long, and comes back


def isolate(world: World, party_id: str) -> None:
    for other in set(world.party_ids) - {party_id}:
        world.cut(party_id, other)
        world.cut(other, party_id)


def row_of(world: World, at: str, job_id: str) -> Job:
    found = world.job(at, job_id)
    assert found is not None
    return found


def free(world: World, at: str) -> int:
    with world.parties[at].store.reading() as tx:
        return int(tx.engine("local").remaining_cores)


CHAIN = {"a": [], "b": ["a"]}


def lost_in_b(store: str, returns: float) -> tuple[World, str]:
    """The host is gone while the second of two tasks runs, for longer than anybody is patient."""
    world = World(16, parties=3, store=store)
    job_id = world.submit(GUEST, job(THREE, CHAIN, returns=returns))
    for worker in running(world, 0, GUEST, HOST, OTHER):
        end(world, worker)
    until(world, lambda: {one.task.name for one in world.parties[HOST].engine.living()} == {"b"})
    running(world, 0, GUEST, HOST, OTHER)
    world.run_for(1)
    isolate(world, HOST)
    until(world, lambda: row_of(world, GUEST, job_id).run == 1, 60)
    return world, job_id


def test_a_job_that_asks_for_it_waits_for_a_party_that_it_lost_and_goes_on_from_where_it_was(store: str) -> None:
    world, job_id = lost_in_b(store, returns=0)
    waits = row_of(world, GUEST, job_id)
    assert (waits.status, waits.losses, waits.rerun_signal) == (JobStatus.WAITING, 1, True)
    assert waits.wait_reason.startswith("waits for the return of a party: party 10000 has not answered for 2")
    world.run_for(60)
    assert row_of(world, GUEST, job_id).status is JobStatus.WAITING
    assert (free(world, GUEST), free(world, OTHER)) == (4, 4), "nobody keeps cores for it"
    assert free(world, HOST) == 4, "nor does the party that is away"
    world.cuts.clear()
    for worker in running(world, 1, GUEST, HOST, OTHER):
        assert worker.task.name == "b"
        end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    found = {(row.key.name, row.key.version, row.status) for row in rows(world, job_id)}
    assert found == {("a", 0, TaskStatus.SUCCESS), ("b", 1, TaskStatus.SUCCESS)}
    assert {row_of(world, GUEST, job_id).run} == {1}
    world.stabilize(10)


def test_it_waits_no_longer_than_its_rule_says(store: str) -> None:
    world, job_id = lost_in_b(store, returns=30)
    until(world, lambda: row_of(world, GUEST, job_id).is_final, 40)
    found = row_of(world, GUEST, job_id)
    assert (found.status, found.reason) == (JobStatus.FAILED, Reason.PARTY_UNREACHABLE)
    assert found.message == "the party that was lost has not returned within 30 s"
    world.stabilize(30)


def test_a_user_ends_what_waits_for_a_party_or_is_about_to(store: str) -> None:
    world, job_id = lost_in_b(store, returns=0)
    world.stop(GUEST, job_id)
    until(world, lambda: row_of(world, GUEST, job_id).is_final, 5)
    assert row_of(world, GUEST, job_id).status is JobStatus.CANCELED
    world.stabilize(30)


def test_a_user_who_stops_a_job_that_ends_for_a_lost_party_has_it_end(store: str) -> None:
    world = World(17, store=store)
    job_id = world.submit(GUEST, job(TWO, returns=0))
    running(world, 0, GUEST, HOST)
    isolate(world, HOST)
    until(world, lambda: row_of(world, GUEST, job_id).status is JobStatus.STOPPING)
    world.stop(GUEST, job_id)
    until(world, lambda: row_of(world, GUEST, job_id).is_final, 20)
    assert row_of(world, GUEST, job_id).reason is Reason.PARTY_UNREACHABLE
    world.stabilize(30)


def test_what_a_party_dropped_since_it_had_not_heard_of_the_success_is_made_again_by_all(store: str) -> None:
    """Both sides agree on what was kept."""
    world = World(18, store=store)
    job_id = world.submit(GUEST, job(TWO, CHAIN, returns=0))
    workers = running(world, 0, GUEST, HOST)
    end(world, workers[1])
    until(world, lambda: any(row.key.party.party_id == HOST and row.party_status is TaskStatus.SUCCESS
                             for row in rows(world, job_id)))  # fmt: skip
    world.run_for(1)
    isolate(world, HOST)
    end(world, workers[0])
    until(world, lambda: row_of(world, GUEST, job_id).run == 1, 60)
    world.run_for(world.rules.initiator_silence / 1000)
    world.cuts.clear()
    for name in ("a", "b"):
        for worker in running(world, 1, GUEST, HOST):
            assert worker.task.name == name
            end(world, worker)
    ended(world, job_id, JobStatus.SUCCESS)
    assert {(row.key.name, row.key.version) for row in rows(world, job_id)} == {("a", 1), ("b", 1)}
    world.stabilize(10)
