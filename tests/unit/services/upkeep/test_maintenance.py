"""What is looked after on every poll, with a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Blocker, Hold, JobKey, TaskKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.services.context.ports import StreamsHere
from fate_flow.store.memory.store import MemoryTransaction
from tests.kit.services.hand_maintenance import RULES, Watched
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import DOCUMENT, HOLD, JOIN, RUN, a_host, command, create, task_command
from tests.kit.services.sights import RUNS, STOPPED
from tests.kit.values import GUEST, HOST, JOB_ID, NOW, OTHER, a_job, a_seat


def host_after(*commands: Any) -> Watched:
    watched = Watched(a_host(*commands, rules=RULES))
    watched.run()
    return watched


def guest_with(status: JobStatus, **fields: Any) -> Watched:
    """The initiator with one job in this status and a seat at the host that runs it."""
    server = HandServer("9999", rules=RULES)
    with server.store.transaction() as tx:
        job = a_job(JobStatus.WAITING if status is JobStatus.RUNNING else status, **fields)
        tx.add_job(job, DOCUMENT)
        started = SeatStatus.STARTED if status is JobStatus.RUNNING else SeatStatus.JOINED
        tx.add_seats([a_seat(GUEST, started), a_seat(HOST, started)])
        if status is JobStatus.RUNNING:
            assert tx.reserve(job.key, "local", 2, 0, "token", 1, NOW)
            server.store._rows.jobs.put(job.key, replace(row_of(server), job=replace(job, status=status, claim=tx.job(
                job.key).claim)))  # fmt: skip
    watched = Watched(server)
    watched.run()
    return watched


def row_of(server: HandServer) -> Any:
    return server.store._rows.jobs.rows[JobKey(JOB_ID, GUEST)]


# ---------------------------------------------------------------------- streams


def test_streams_that_end_after_their_attempt_are_collected() -> None:
    host = host_after(*HOLD)
    late = StreamsHere(TaskKey(JOB_ID, "train", 0, HOST), "abcdef01")
    host.server.exchange.late = (late,)
    host.run()
    assert ("collected", late) in host.server.exchange.calls


# ---------------------------------------------------------------------- jobs of others


def test_a_hold_that_never_starts_falls() -> None:
    host = host_after(*HOLD)
    host.after(60)
    assert (host.server.job().holds, host.server.free_cores()) == (True, 6)
    host.after(0.001)
    assert (host.server.job().holds, host.server.free_cores()) == (False, 8)
    assert host.server.job().status is JobStatus.WAITING
    [described] = [fields for event, fields in host.server.record.events if event.name == "DETECT_RETURNED"]
    assert described["outcome"] == "successfully"


def test_a_hold_that_is_asked_for_again_lasts_longer() -> None:
    host = host_after(*HOLD)
    host.after(50)
    host.server.handle(command(K.APPLY, turn=2))
    host.after(50)
    host.after(50)
    assert host.server.job().holds
    host.after(11)
    assert not host.server.job().holds


def test_a_hold_that_another_process_has_just_started_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MySQL the row may have been started after it was read here."""
    host = host_after(*HOLD)
    give_back = MemoryTransaction.give_back

    def started_just_before(tx: Any, key: JobKey, *rest: Any) -> bool:
        done = give_back(tx, key, *rest)
        row = tx._jobs.rows[key]
        tx._jobs.put(key, replace(row, job=replace(row.job, status=JobStatus.RUNNING)))
        return done

    monkeypatch.setattr(MemoryTransaction, "give_back", started_just_before)
    host.after(61)
    assert (host.server.job().holds, host.server.free_cores()) == (True, 6)


def test_a_job_that_was_never_accepted_everywhere_goes_without_a_trace() -> None:
    host = host_after(create())
    host.after(120)
    assert host.server.job().status is JobStatus.READY
    host.after(0.001)
    assert host.server.job_or_none() is None
    assert ("remove_job", JOB_ID) in host.server.files.calls


def test_a_waiting_job_that_holds_nothing_may_wait_for_ever() -> None:
    host = host_after(*JOIN)
    host.after(1_000_000)
    assert host.server.job().status is JobStatus.WAITING


def test_an_initiator_that_stays_silent_is_lost_and_the_party_stops_its_own_workers() -> None:
    host = host_after(*RUN, task_command(K.TASK_START))
    host.server.engine.sights[worker_of(host.server)] = RUNS
    host.after(119)
    assert host.server.job().status is JobStatus.RUNNING
    host.after(2)
    found = host.server.job()
    assert (found.status, found.reason, found.target) == (
        JobStatus.STOPPING, Reason.INITIATOR_LOST, JobStatus.FAILED)  # fmt: skip
    assert host.server.engine.stopped == [worker_of(host.server)]
    host.server.engine.sights[worker_of(host.server)] = STOPPED
    host.after(1)
    found = host.server.job()
    assert (found.status, found.message) == (JobStatus.FAILED, "party 9999 was silent for 120 s")
    assert (host.server.task().party_status, host.server.task().reason) == (TaskStatus.FAILED, Reason.INITIATOR_LOST)
    # nobody else will say how the tasks ended
    assert [host.server.task(name).is_final for name in "ab"] == [True, True]
    assert host.server.free_cores() == 8


def test_an_initiator_that_is_heard_is_not_lost() -> None:
    host = host_after(*RUN)
    for _ in range(5):
        host.after(100)
        host.record_heartbeat()
        host.run()
    assert host.server.job().status is JobStatus.RUNNING


def test_a_restart_of_the_observer_starts_the_watch_anew() -> None:
    host = host_after(*RUN)
    host.after(119)
    again = Watched(host.server)
    again.run()
    again.after(119)
    assert host.server.job().status is JobStatus.RUNNING


def test_the_own_server_is_never_lost() -> None:
    watched = guest_with(JobStatus.RUNNING)
    with watched.server.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, replace(HOST, party_id="9999")), is_initiator=False), DOCUMENT)
    watched.after(1_000)
    watched.after(1_000)
    assert watched.server.job(GUEST).reason is None


# ---------------------------------------------------------------------- jobs of this initiator


def test_a_submit_that_not_everybody_answers_is_given_up() -> None:
    guest = guest_with(JobStatus.READY)
    with guest.server.store.transaction() as tx:
        seat = next(one for one in tx.seats(JOB_ID) if one.party == HOST)
        guest.server.store._rows.seats.put((JOB_ID, HOST), replace(seat, status=SeatStatus.JOINING))
    guest.after(120)
    assert guest.server.job(GUEST).reason is None
    guest.after(0.001)
    found = guest.server.job(GUEST)
    assert (found.status, found.reason) == (JobStatus.FAILED, Reason.PARTY_REFUSED)
    assert found.message == "not every party answered in time: nothing came from host 10000"


@pytest.mark.parametrize(("timeout", "is_stopped"), [(0, False), (61, False), (60, True)])
def test_a_job_that_runs_longer_than_it_may_is_stopped(timeout: int, is_stopped: bool) -> None:
    guest = guest_with(JobStatus.RUNNING, timeout_seconds=timeout)
    guest.after(61)
    found = guest.server.job(GUEST)
    assert found.reason is (Reason.JOB_TIMEOUT if is_stopped else None)
    assert found.message == ("took longer than 60 s in all, the time in the queue included" if is_stopped else "")


@pytest.mark.parametrize(
    ("blocked_by", "text", "cause"),
    [
        ({}, "its turn did not come", "guest 9999"),
        (
            {"wait_reason": "host 10000 has 2 of 8 cores free", "blocked_on": "10000", "blocked_by": Blocker.CAPACITY},
            "host 10000 has 2 of 8 cores free", "host 10000",
        ),
        (
            {
                "wait_reason": "host 10000 has not approved it yet", "blocked_on": "10000",
                "blocked_by": Blocker.APPROVAL,
            },
            "host 10000 has not approved it yet", "host 10000",
        ),
        ({"wait_reason": "train_0 begins again", "rerun_signal": True}, "train_0 begins again", "guest 9999"),
    ],
)  # fmt: skip
def test_a_job_waits_for_no_longer_than_it_may_take_in_all(blocked_by: dict[str, Any], text: str, cause: str) -> None:
    guest = guest_with(JobStatus.WAITING, timeout_seconds=60)
    row = row_of(guest.server)
    with guest.server.store.transaction() as tx:
        guest.server.store._rows.jobs.put(row.job.key, replace(row, job=replace(row.job, **blocked_by)))
        seat = next(one for one in tx.seats(JOB_ID) if one.party == HOST)
        guest.server.store._rows.seats.put((JOB_ID, HOST), replace(seat, blocked_by=blocked_by.get("blocked_by")))
    guest.after(60)
    assert guest.server.job(GUEST).reason is None
    guest.after(0.001)
    found = guest.server.job(GUEST)
    assert (found.reason, found.caused_by) == (Reason.JOB_TIMEOUT, cause)
    assert found.message == f"waited until its 60 s in all were over: {text}"


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.WAITING])
def test_what_a_job_may_take_counts_from_its_creation_however_often_it_was_queued(status: JobStatus) -> None:
    guest = guest_with(status, timeout_seconds=60)
    row = row_of(guest.server)
    rested = replace(row.job, queued=row.job.since + 50_000)
    with guest.server.store.transaction():
        guest.server.store._rows.jobs.put(row.job.key, replace(row, job=rested))
    guest.after(60)
    assert guest.server.job(GUEST).reason is None
    guest.after(0.001)
    assert guest.server.job(GUEST).reason is Reason.JOB_TIMEOUT


def test_time_on_hold_counts_for_no_limit_of_the_job() -> None:
    guest = guest_with(JobStatus.WAITING, timeout_seconds=60)
    guest.do(lambda unit: unit.tx.hold_job(unit.tx.job_here(JOB_ID).key, Hold("audit", "ann", since=unit.steady)))
    guest.after(100)
    assert guest.server.job(GUEST).reason is None
    guest.do(lambda unit: unit.tx.release_job(unit.tx.job_here(JOB_ID).key, unit.steady))
    guest.after(60)
    assert guest.server.job(GUEST).reason is None
    guest.after(1)
    assert guest.server.job(GUEST).reason is Reason.JOB_TIMEOUT


def test_a_waiting_job_may_lack_capacity_for_too_long() -> None:
    guest = guest_with(JobStatus.WAITING)
    guest.after(300)
    assert guest.server.job(GUEST).reason is None
    guest.after(0.001)
    found = guest.server.job(GUEST)
    assert (found.status, found.reason) == (JobStatus.TIMEOUT, Reason.NO_CAPACITY)
    assert found.message == "waited longer than 300 s: "


def test_waiting_for_ever_is_allowed_unless_it_is_said_otherwise() -> None:
    server = HandServer("9999", rules=replace(RULES, resource_waiting=0))
    with server.store.transaction() as tx:
        tx.add_job(a_job(JobStatus.WAITING), DOCUMENT)
    watched = Watched(server)
    watched.after(10_000_000)
    assert server.job(GUEST).status is JobStatus.WAITING


@pytest.mark.parametrize(
    ("party_id", "ended", "reason"),
    [
        ("10000", {JOB_ID: "initiator_lost"}, Reason.INITIATOR_LOST),
        ("10000", {JOB_ID: "it is not known here"}, Reason.PARTY_REFUSED),
        ("10000", {"20260101120000": "done"}, None),          # none of ours
        ("10001", {JOB_ID: "done"}, None),                    # has no seat
        ("10000", {}, None),
    ],
)
def test_a_party_that_has_ended_what_runs_there_ends_the_job(
    party_id: str, ended: dict[str, str], reason: Reason | None
) -> None:
    guest = guest_with(JobStatus.RUNNING)
    guest.do(guest.maintenance.seats_ended, party_id, ended, {})
    found = guest.server.job(GUEST)
    assert found.reason is reason
    if reason:
        assert found.message == f"host 10000 has ended it: {ended[JOB_ID]}"
        # who was silent is the cause, there and here, and not who found that out
        assert found.caused_by == ("guest 9999" if reason is Reason.INITIATOR_LOST else "host 10000")


def test_what_a_party_says_of_a_job_that_does_not_run_there_means_nothing() -> None:
    guest = guest_with(JobStatus.WAITING)
    guest.do(guest.maintenance.seats_ended, "10000", {JOB_ID: "done"}, {})
    assert guest.server.job(GUEST).reason is None


@pytest.mark.parametrize(("run", "reason"), [(0, Reason.PARTY_REFUSED), (1, None)])
def test_what_a_party_says_of_another_run_means_nothing(run: int, reason: Reason | None) -> None:
    guest = guest_with(JobStatus.RUNNING)
    guest.do(guest.maintenance.seats_ended, "10000", {JOB_ID: "done"}, {JOB_ID: run})
    assert guest.server.job(GUEST).reason is reason


@pytest.mark.parametrize(
    ("party_id", "status", "reason"),
    [
        ("10000", JobStatus.RUNNING, Reason.PARTY_UNREACHABLE), ("10000", JobStatus.WAITING, None),
        (OTHER.party_id, JobStatus.RUNNING, None),
    ],
)  # fmt: skip
def test_a_silent_party_costs_the_jobs_that_run_there(
    party_id: str, status: JobStatus, reason: Reason | None
) -> None:
    guest = guest_with(status)
    guest.do(guest.maintenance.party_lost, party_id, 90.4)
    guest.do(guest.maintenance.party_lost, party_id, 99.0)
    found = guest.server.job(GUEST)
    assert found.reason is reason
    if reason:
        assert found.message == "party 10000 has not answered for 90 s"


def test_what_is_over_is_forgotten_by_the_stopwatch() -> None:
    host = host_after(*HOLD)
    assert host.maintenance._stopwatch._seen
    host.server.handle(command(K.STATUS, argument="canceled"))
    host.run()
    assert host.maintenance._stopwatch._seen.keys() <= {"waiting copies"}


def test_it_keeps_no_time_for_anybody_else() -> None:
    host = host_after(*HOLD)
    host.maintenance._stopwatch.unchanged_seconds("scheduler", 1)
    host.run()
    assert "scheduler" not in host.maintenance._stopwatch._seen


# ---------------------------------------------------------------------- what a crash left


@pytest.mark.parametrize(
    ("commands", "is_over"),
    [(JOIN, False), (HOLD, False), (RUN, False), ((*RUN, command(K.STATUS, argument="success")), True)],
)
def test_messages_are_swept_of_jobs_that_are_over_alone(commands: Any, is_over: bool) -> None:
    host = host_after(*commands)
    host.run()
    asks = [call[1] for call in host.server.exchange.calls if call[0] == "sweep"]
    assert asks[-1](JOB_ID) is is_over
    assert asks[-1]("20260101000000000000000")
