from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import peewee
import pytest

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.ceilings import Ceilings
from tests.kit.job_documents import job
from tests.simulation.world.faults import Faults
from tests.simulation.world.releases import coordinators
from tests.simulation.world.world import RULES, World


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def everywhere(world: World, job_id: str, status: str) -> bool:
    found = world.status(job_id)
    return bool(found) and set(found.values()) == {status}


def test_a_job_of_two_parties_succeeds_everywhere(store: str) -> None:
    world = World(1, store=store)
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}))
    world.run_for(5)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    world.stabilize(10)


def test_a_job_like_the_one_before_builds_no_query_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """peewee takes ten times as long to write a query as SQLite to run it."""
    world, built = World(1, store="sqlite"), list[str]()

    def run_job() -> None:
        job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}))
        world.run_for(20)
        assert everywhere(world, job_id, "success"), world.status(job_id)

    def built_by(original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **names: Any) -> Any:
            calls = [one for one in traceback.extract_stack() if "/fate_flow/" in one.filename]
            built.append(f"{calls[-1].filename}:{calls[-1].lineno} {calls[-1].name}")
            return original(*args, **names)

        return counted

    run_job()
    for owner, name in ((peewee.BaseQuery, "sql"), (peewee.Database, "execute")):
        monkeypatch.setattr(owner, name, built_by(getattr(owner, name)))
    run_job()
    assert not built


@pytest.mark.parametrize(("seed", "reserve_early", "requests"), [(1, True, 2), (1, False, 3), (3, True, 3)])
def test_a_job_starts_after_two_requests_to_each_host_that_is_known_to_understand_batches(
    seed: int, reserve_early: bool, requests: int
) -> None:
    """The host is asked to reserve as it is invited; a coordinator of an earlier release asks afterwards."""
    world, hosts = World(seed, parties=3), ["10000", "10001"]
    with coordinators(reserve_early=reserve_early):
        job_id = world.submit("9999", job({"guest": ["9999"], "host": hosts}))
        while [world.status(job_id).get(f"host {one}") for one in hosts] != ["running"] * 2:
            world.run_for(0.001)
    assert [world.sent["9999", one] for one in hosts] == [requests] * 2


def test_branches_and_edges(store: str) -> None:
    world = World(2, parties=3, cores=8, store=store)
    graph = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, graph, parallelism=2))
    world.run_for(20)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    world.stabilize(10)


def test_tasks_follow_each_other_without_data(store: str) -> None:
    """The rule that a task begins after those before it is looked at after every commit."""
    world = World(2, cores=8, store=store)
    order = {"c": {"after": ["a", "b"]}, "d": {"after": ["c"]}}
    graph: dict[str, list[str]] = {name: [] for name in "dcba"}
    job_id = world.submit(
        "9999", job({"guest": ["9999"], "host": ["10000"]}, graph, parallelism=4, task_conf=order)
    )
    world.run_for(20)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    world.rerun("9999", job_id, "c")
    world.run_for(20)
    rows = world.invariants.seen(world.parties["9999"]).tasks
    assert sorted(f"{key.name}{key.version}" for key in rows if key.party.role == "guest") == [
        "a0", "b0", "c0", "c1", "d0", "d1",
    ]  # fmt: skip
    world.stabilize(10)


def test_many_jobs_queue_for_few_cores(store: str) -> None:
    world = World(3, cores=2, store=store)
    ids = [world.submit("9999", job({"guest": ["9999"], "host": ["10000"]})) for _ in range(12)]
    world.run_for(60)
    assert all(everywhere(world, one, "success") for one in ids), [world.status(one) for one in ids]
    world.stabilize(10)


def test_two_initiators_want_the_same_parties(store: str) -> None:
    world = World(4, parties=3, cores=2, store=store)
    ids = []
    for number in range(10):
        at, other = ("9999", "10000") if number % 2 else ("10000", "9999")
        ids.append(world.submit(at, job({"guest": [at], "host": [other, "10001"]}, cores=2)))
    world.run_for(120)
    assert all(everywhere(world, one, "success") for one in ids), [world.status(one) for one in ids]
    world.stabilize(10)


def test_a_stop_by_a_host_ends_the_job_everywhere(store: str) -> None:
    world = World(5, store=store)
    graph = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, graph))
    world.run_for(0.5)
    world.stop("10000", job_id)
    world.run_for(20)
    assert everywhere(world, job_id, "canceled"), world.status(job_id)
    world.stabilize(10)


def test_a_refused_submit_leaves_nothing_anywhere(store: str) -> None:
    world = World(6, parties=3, cores=4, store=store)
    world.parties["10001"].shrink(1)
    world.run_for(6)
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, cores=2))
    world.run_for(10)
    assert world.status(job_id) == {}
    with world.parties["9999"].store.transaction() as tx:
        decided = tx.submission_of(job_id)
    assert decided is not None
    assert decided.retcode == 103
    assert "host 10001" in decided.retmsg
    assert "2 cores" in decided.retmsg


def test_a_job_that_a_party_does_not_allow_leaves_nothing_anywhere(store: str) -> None:
    world = World(6, parties=3, store=store, ceilings_at={"10001": Ceilings(max_attempts=2)})
    parties = {"guest": ["9999"], "host": ["10000", "10001"]}
    refused, allowed = (world.submit("9999", job(parties, retries=retries)) for retries in (2, 1))
    world.run_for(20)
    assert world.status(refused) == {}
    assert everywhere(world, allowed, "success"), world.status(allowed)
    with world.parties["9999"].store.transaction() as tx:
        decided = tx.submission_of(refused)
    assert decided is not None
    assert decided.retmsg == (
        "host 10001: job_runtime_conf.job_parameters.common.auto_retries: 2 is more than host 10001 allows "
        "(ceilings.max_attempts)")


def test_a_failed_task_is_retried_everywhere_then_fails_the_job(store: str) -> None:
    world = World(7, store=store, faults=Faults(fail_task=1.0))
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, retries=2))
    world.run_for(60)
    assert everywhere(world, job_id, "failed"), world.status(job_id)
    for party in world.parties.values():
        with party.store.transaction() as tx:
            assert {task.key.version for task in tx.tasks(job_id)} == {2}
    world.stabilize(10)


def test_a_canceled_job_is_resumed_and_then_rerun_from_a_component(store: str) -> None:
    world = World(12, parties=3, store=store)
    graph = {"a": [], "b": ["a"], "c": ["b"]}
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, graph))
    while not any(one.task.name == "b" for one in world.parties["9999"].engine.living()):
        world.run_for(0.05)
    world.stop("10000", job_id)
    world.run_for(20)
    assert everywhere(world, job_id, "canceled"), world.status(job_id)
    world.rerun("10000", job_id)                    # which is not its initiator
    world.rerun("9999", job_id, resumes=True)
    world.run_for(20)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    world.rerun("9999", job_id, "b")
    world.run_for(20)
    assert world.reruns == 2
    for party_id, party in world.parties.items():
        with party.store.transaction() as tx:
            versions = {task.key.name: task.key.version for task in tx.tasks(job_id)}
            assert {row.run for row in tx.jobs_here(job_id)} == {2}
        assert versions["a"] < versions["b"] == versions["c"], party_id
    world.stabilize(10)


def test_a_rerun_while_a_host_is_away_waits_for_it_and_says_so(store: str) -> None:
    world = World(13, store=store)
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}))
    world.run_for(5)
    world.cut("9999", "10000")
    world.rerun("9999", job_id, force=True)
    world.run_for(60)
    waiting = world.job("9999", job_id)
    assert waiting is not None
    assert (waiting.run, waiting.wait_reason) == (1, "not every party knows yet that it begins again: host 10000")
    other = world.submit("9999", job({"guest": ["9999"]}))
    world.run_for(5)
    assert everywhere(world, other, "success"), world.status(other)
    world.stabilize(30)
    assert everywhere(world, job_id, "success"), world.status(job_id)


def test_a_job_of_which_too_many_workers_fail_fails_everywhere_whatever_retries_are_left(store: str) -> None:
    world = World(7, store=store, faults=Faults(fail_task=1.0))
    parties = {"guest": ["9999"], "host": ["10000"]}
    job_id = world.submit("9999", job(parties, retries=2, max_failed_workers=1))
    world.run_for(60)
    assert everywhere(world, job_id, "failed"), world.status(job_id)
    found = world.job("9999", job_id)
    assert found is not None
    assert "2 workers of its tasks failed, max_failed_workers of the job is 1" in found.message
    with world.parties["9999"].store.reading() as tx:
        assert {task.key.version for task in tx.tasks(job_id)} < {0, 1, 2}, "a retry was left"
    world.stabilize(10)


def test_a_silent_host_fails_the_job_everywhere(store: str) -> None:
    world = World(8, store=store)
    graph = {name: [chr(ord(name) - 1)] if name > "a" else [] for name in "abcdefgh"}
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, graph))
    world.run_for(0.5)
    world.cut("9999", "10000")
    world.cut("10000", "9999")
    world.run_for(120)
    assert everywhere(world, job_id, "failed"), world.status(job_id)
    decided = world.job("9999", job_id)
    assert decided is not None
    assert decided.unconfirmed == ("host 10000",)
    world.stabilize(60)


def test_a_host_that_gave_a_job_up_before_it_heard_that_all_had_accepted_gets_it_again(store: str) -> None:
    world = World(8, store=store)
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, {"a": [], "b": ["a"]}))
    while world.status(job_id) != {"guest 9999": "ready", "host 10000": "ready"}:
        world.run_for(0.001)
    world.cut("9999", "10000")
    world.run_for(RULES.ready / 1000 + 5)
    assert world.status(job_id) == {"guest 9999": "waiting"}
    world.cuts.clear()
    world.run_for(20)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    world.stabilize(10)


def test_a_hold_that_runs_out_while_another_party_has_started_costs_a_reservation_round_and_not_the_job(
    store: str,
) -> None:
    world = World(8, parties=3, store=store)
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}))
    slow = world.parties["10001"]
    while not any(row.holds for row in world.invariants.seen(slow).jobs.values()):
        world.run_for(0.001)
    world.cut("9999", "10001")
    world.run_for(RULES.hold / 1000 + 5)
    # 10001 has reserved as it was invited, and not heard that all have accepted
    assert world.status(job_id) == {"guest 9999": "waiting", "host 10000": "running", "host 10001": "ready"}
    assert slow.record.taken_back == 1
    world.cuts.clear()
    world.run_for(20)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    ended = world.job("9999", job_id)
    assert ended is not None
    assert (ended.run, ended.round_number) == (0, 2)
    world.stabilize(10)


def test_a_clock_that_jumps_an_hour_breaks_nothing(store: str) -> None:
    world = World(9, parties=3, cores=2, store=store)
    graph = {"a": [], "b": ["a"], "c": ["b"]}
    ids = [world.submit("9999", job({"guest": ["9999"], "host": ["10000", "10001"]}, graph)) for _ in range(4)]
    for step in (3_600_000, -3_600_000, -3_600_000, 3_600_000):
        world.run_for(0.4)
        for party in world.parties.values():
            party.skew += step
    world.run_for(30)
    assert all(everywhere(world, one, "success") for one in ids), [world.status(one) for one in ids]
    world.stabilize(10)


def test_two_servers_of_one_party_schedule_one_at_a_time(store: str) -> None:
    """The one that schedules is stopped for longer than it may stand still; the other takes over, and keeps it."""
    world = World(10, store=store, servers=2)
    world.longest_task = 4_000
    graph = {name: [chr(ord(name) - 1)] if name > "a" else [] for name in "abcdef"}
    job_id = world.submit("9999", job({"guest": ["9999"], "host": ["10000"]}, graph))
    world.run_for(3)
    party = world.parties["9999"]
    stopped = next(one for one in party.servers if party.books.schedules().startswith(one.name))
    stopped.scheduling.halt()
    world.run_for(world.rules.scheduler_silence / 1000 + world.rules.poll_interval / 1000 + 1)
    assert not party.books.schedules().startswith(stopped.name)
    stopped.scheduling.go_on()
    world.run_for(60)
    assert everywhere(world, job_id, "success"), world.status(job_id)
    world.stabilize(10)


def test_a_job_id_that_a_member_has_taken_elsewhere_costs_one_submit(store: str) -> None:
    """It saw the id, and was first at a third party: the refusal names it, and the next submit has its way."""
    world = World(4, parties=3, cores=8, store=store)
    document = job({"guest": ["9999"], "host": ["10000", "10001"]})
    taken = world.submit("9999", document)
    other = {**document.runtime_conf, "initiator": {"role": "host", "party_id": "10000"}}
    third = world.parties["10001"].any_server()
    assert third is not None
    body = {"dsl": document.dsl, "runtime_conf": other}
    squat = Command(CommandKind.CREATE, taken, Party("host", "10001"), body=body)
    assert [one.retcode for one in third.use_cases.commands.carry_out([squat], "10000")] == [0]
    world.run_for(5)
    assert set(world.status(taken)) <= {"host 10001"}, "what the member has put there itself"
    with world.parties["9999"].store.transaction() as tx:
        decided = tx.submission_of(taken)
    assert decided is not None
    assert decided.retmsg.startswith(f"host 10001: job {taken} is here already, created first by host 10000")
    again = world.submit("9999", document)
    world.run_for(20)
    assert everywhere(world, again, "success"), world.status(again)
