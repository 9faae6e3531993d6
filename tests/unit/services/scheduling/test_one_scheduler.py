"""The scheduler of one server: what it does with events, which job may reserve, and what it survives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import CommitUnknown, FlowError, StorageFailed, StorageUnavailable
from fate_flow.core.model.job import Answer, Blocker, Command, JobKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.services.scheduling.events import (
    Answered,
    HeartbeatAnswered,
    JobChanged,
    OutboxFilled,
    PartySilent,
    QueueChanged,
    WorkerChanged,
)
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import RULES, Process, chosen, holding, job_of, local, release, running, submit
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.sights import RUNS, made
from tests.kit.values import GUEST, HOST, JOB_ID, NOW

# ---------------------------------------------------------------------- events


def test_what_another_process_wrote_is_sent_once() -> None:
    process = chosen()
    submit(process, accept=False)
    assert process.sent() == ["create"]
    process.scheduler.step([OutboxFilled()])
    process.scheduler.poll()
    assert process.sent() == ["create"]


def test_an_answer_counts_once() -> None:
    process = chosen()
    submit(process, accept=False)
    [sent] = process.transport.posted
    process.scheduler.step([Answered(sent, Answer(data={}))])
    before = process.server.snapshot()
    free = dict(process.scheduler._initiator.free)
    process.scheduler.step([Answered(sent, Answer(103, "no", {"free_cores": 99}))])
    assert process.server.snapshot() == before
    assert process.scheduler._initiator.free == free, "what it said of its cores is old, too"


def test_what_was_decided_is_said_after_the_commit() -> None:
    process = chosen()
    store, post, order = process.server.store, process.transport.post, list[str]()
    begin = store.transaction

    @contextmanager
    def transaction() -> Iterator[Any]:
        with begin() as tx:
            yield tx
        order.append("commit")

    def posted(commands: tuple[Command, ...]) -> None:
        order.append("post")
        post(commands)

    store.transaction, process.transport.post = transaction, posted  # type: ignore[method-assign]
    submit(process, accept=False)
    assert order[order.index("post") - 1] == "commit"
    assert process.sent() == ["create"]

    store.transaction = lambda: _failing(begin)
    process.answer(K.CREATE, Answer(data={"extensions": {}}))
    assert process.sent() == []


@contextmanager
def _failing(begin: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """A transaction that the database refuses at its commit."""
    with begin() as tx:
        yield tx
        raise StorageFailed("the disk is full")


def test_an_answer_that_was_lost_in_a_crash_is_asked_for_again() -> None:
    process = chosen()
    submit(process, accept=False)
    again = chosen(process.server, owner="home-2")
    assert [one.id for one in again.transport.posted] == [one.id for one in process.transport.posted]


@pytest.mark.parametrize("kind", [K.REPORT, K.ASK_STOP])
def test_what_was_told_to_an_initiator_needs_no_judgement(kind: K) -> None:
    process = chosen(HandServer("10000", rules=RULES))
    with process.server.unit() as unit:
        unit.send(Command(kind, JOB_ID, GUEST, body={"role": "host", "party_id": "10000"}))
    process.scheduler.step([OutboxFilled()])
    process.answer(kind, Answer(103, "whatever"))
    assert process.server.outbox() == []


def test_worker_events_move_the_job_on() -> None:
    process = chosen()
    submit(process, document=job({"guest": ["9999"]}), accept=False)
    assert job_of(process).status is JobStatus.WAITING
    process.scheduler.step([QueueChanged()])
    worker = worker_of(process.server, "work_0", GUEST)
    process.server.engine.sights[worker] = RUNS
    process.scheduler.step([WorkerChanged(worker)])
    process.server.engine.sights[worker] = made("t")
    process.scheduler.step([WorkerChanged(worker), WorkerChanged("0" * 32)])
    assert job_of(process).status is JobStatus.SUCCESS


def test_one_heartbeat_a_party_names_all_that_runs_there() -> None:
    process = chosen()
    process.scheduler.beat()
    assert process.transport.heartbeats == {}
    running(process)
    process.scheduler.beat()
    assert process.transport.heartbeats == {"10000": ((JOB_ID, 0),)}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (HeartbeatAnswered("10000", {JOB_ID: "initiator_lost"}), Reason.INITIATOR_LOST),
        (HeartbeatAnswered("10000", {}), None),
        (PartySilent("10000", 90.0), Reason.PARTY_UNREACHABLE),
        (PartySilent("10001", 90.0), None),
    ],
)
def test_events_of_a_party_may_end_its_jobs(events: Any, reason: Reason | None) -> None:
    process = chosen()
    running(process)
    process.scheduler.step([events])
    assert job_of(process).reason is reason
    assert ("stop failed" in process.sent()) is (reason is not None)


# ---------------------------------------------------------------------- the queue


def ids(count: int) -> list[str]:
    return [f"20260101120000{number:06d}" for number in range(count)]


def statuses(process: Process, names: list[str]) -> list[str]:
    return [job_of(process, name).status.value for name in names]


def test_first_in_first_out_as_far_as_the_cores_go() -> None:
    process, names = chosen(HandServer("9999", cores=4, rules=RULES)), ids(3)
    for name in names:
        submit(process, name, local(), accept=False)
    process.scheduler.poll()
    assert statuses(process, names) == ["running", "running", "waiting"]
    assert job_of(process, names[2]).wait_reason == "guest 9999 has 0 of 4 cores free, 2 asked"


def test_freed_cores_wake_as_many_as_there_is_capacity_for() -> None:
    process, names = chosen(HandServer("9999", cores=4, rules=RULES)), ids(4)
    holding(process, 4)
    for name in names:
        submit(process, name, local(), accept=False)
    process.scheduler.poll()
    rounds = [job_of(process, name).round_number for name in names]
    release(process)
    process.scheduler.step([QueueChanged()])
    assert statuses(process, names) == ["running", "running", "waiting", "waiting"]
    assert [job_of(process, name).round_number for name in names[2:]] == rounds[2:]  # not even asked


def test_a_blocked_job_is_asked_for_again_when_its_time_has_come() -> None:
    process = chosen(HandServer("9999", cores=4, rules=RULES))
    holding(process, 4)
    submit(process, document=local(), accept=False)
    process.scheduler.poll()
    release(process)                                    # nobody says so
    process.scheduler.poll()
    assert job_of(process).status is JobStatus.WAITING
    process.seconds += RULES.retry_wait / 1000
    assert process.scheduler.fire_alarms()
    assert job_of(process).status is JobStatus.RUNNING


def test_a_small_job_passes_a_big_one_only_so_often() -> None:
    process = chosen(HandServer("9999", cores=4, rules=RULES))
    holding(process, 2)
    big, *small = ids(4)
    submit(process, big, local(4), accept=False)
    process.scheduler.poll()
    for name in small:
        submit(process, name, local(1), accept=False)
        process.scheduler.poll()
        worker = worker_of_job(process, name)
        if worker:
            process.server.engine.sights[worker] = made(name)
            process.scheduler.step([WorkerChanged(worker)])
    assert statuses(process, small) == ["success", "success", "waiting"]
    assert job_of(process, big).passes == 2
    assert job_of(process, big).passers == (small[1], small[0])
    assert job_of(process, small[2]).wait_reason == f"waits behind job {big}, which party 9999 has had no capacity for"
    release(process)
    process.scheduler.step([QueueChanged()])
    assert job_of(process, big).status is JobStatus.RUNNING


def test_of_many_small_jobs_at_once_only_as_many_pass_the_big_one() -> None:
    process = chosen(HandServer("9999", cores=8, rules=RULES))
    holding(process, 2)
    big, *small = ids(6)
    submit(process, big, local(8), accept=False)
    process.scheduler.poll()
    for name in small:
        submit(process, name, local(1), accept=False)
    process.scheduler.poll()
    assert statuses(process, small) == ["running", "running", "waiting", "waiting", "waiting"]
    assert job_of(process, big).passes == 2


def test_nobody_waits_behind_a_job_that_asks_a_party_for_more_than_it_has_and_it_is_asked_again() -> None:
    rules = replace(RULES, queue_passes=0)
    process = chosen(HandServer("9999", cores=20, rules=rules))
    big, small = ids(2)
    for name in (big, small):
        submit(process, name)
    process.scheduler.step([QueueChanged()])
    process.answer(K.CHECK, job_id=big)
    process.answer(K.APPLY, Answer(103, "failed", {"why": "too small", "free_cores": 1, "never": True}), big)
    found = job_of(process, big)
    assert (found.status, found.blocked_on, found.blocked_by) == (JobStatus.WAITING, "10000", Blocker.SIZE)
    assert found.wait_reason == "host 10000 too small"
    process.scheduler.poll()
    assert job_of(process, small).ready_owner, "it is in its reservation round, behind nobody"
    round_number = found.round_number
    process.seconds += 10
    process.scheduler.poll()
    assert job_of(process, big).round_number == round_number + 1


def test_a_job_that_asks_for_too_much_waits_behind_a_head_and_still_says_what_it_waits_for() -> None:
    process = chosen(HandServer("9999", cores=4, rules=replace(RULES, queue_passes=0)))
    holding(process, 2)
    head, big = ids(2)
    submit(process, head, local(4), accept=False)
    process.scheduler.poll()
    submit(process, big, local(1), accept=False)
    with process.server.store.transaction() as tx:
        tx.begin_round(JobKey(big, GUEST), "x", NOW)
        tx.end_round(JobKey(big, GUEST), "x", "host 10000 too small", "10000", 2, 0, 0, Blocker.SIZE)
    process.scheduler.poll()
    found = job_of(process, big)
    assert (found.round_number, found.wait_reason, found.blocked_on) == (1, "host 10000 too small", "10000")
    assert found.retry_at > 0


def worker_of_job(process: Process, job_id: str) -> str:
    with process.server.store.reading() as tx:
        return next((task.worker_id for task in tx.tasks(job_id)), "")


def test_a_job_with_two_seats_that_finds_capacity_for_one_does_not_chase_its_own_cores() -> None:
    process = chosen(HandServer("9999", cores=5, rules=RULES))
    holding(process, 2)
    submit(process, document=job({"guest": ["9999"], "host": ["9999"]}, cores=2), accept=False)
    process.scheduler.poll()
    assert (job_of(process).round_number, process.server.free_cores()) == (1, 3)


def test_cores_that_another_party_says_are_free_bound_who_is_asked_again() -> None:
    process, names = chosen(HandServer("9999", cores=20, rules=RULES)), ids(4)
    for name in names:
        submit(process, name)
        process.scheduler.step([QueueChanged()])
        process.answer(K.CHECK, job_id=name)
        full = Answer(103, "failed", {"why": "has 0 of 4 cores free, 2 asked", "free_cores": 0})
        process.answer(K.APPLY, full if name != names[0] else None, name)
    process.transport.take()
    end = Command(K.RETURN, names[3], HOST, body={"turn": 1})
    with process.server.unit() as unit:
        unit.send(end)
    process.scheduler.step([OutboxFilled()])
    before = [job_of(process, name).round_number for name in names]
    with process.server.store.transaction():     # the job that gives back is blocked elsewhere
        row = process.server.store._rows.jobs.rows[JobKey(names[3], GUEST)]
        process.server.store._rows.jobs.put(row.job.key, replace(row, job=replace(row.job, blocked_on="")))
    process.answer(K.RETURN, Answer(data={"remaining_cores": 2}), names[3])
    after = [job_of(process, name).round_number for name in names]
    assert [new - old for old, new in zip(before, after, strict=True)] == [0, 1, 0, 1]


def test_what_a_job_gave_back_where_it_is_blocked_wakes_nobody() -> None:
    process = chosen(HandServer("9999", cores=20, rules=RULES))
    submit(process)
    process.scheduler.step([QueueChanged()])
    process.answer(K.CHECK)
    process.answer(K.APPLY, Answer(104, "no answer in time"))
    round_number = job_of(process).round_number
    process.answer(K.RETURN, Answer(data={"remaining_cores": 9}))
    assert job_of(process).round_number == round_number


# ---------------------------------------------------------------------- what it survives


def poison(process: Process, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whoever touches this job stumbles."""
    advance = process.scheduler._initiator.advance

    def stumble(unit: Any, job_id: str, may_begin_round: bool = False) -> None:
        unit.send(Command(K.CHECK, job_id, HOST))
        if job_id == JOB_ID:
            raise error
        unit.tx.take_command(unit.pending.outgoing[-1].id)
        unit.pending = replace(unit.pending, outgoing=unit.pending.outgoing[:-1])
        advance(unit, job_id, may_begin_round)

    monkeypatch.setattr(process.scheduler._initiator, "advance", stumble)


@pytest.mark.parametrize("error", [FlowError("broken"), RuntimeError("a defect")])
@pytest.mark.parametrize("by_poll", [True, False])
def test_one_job_that_fails_does_not_stop_the_others(
    error: Exception, by_poll: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process, [good] = chosen(HandServer("9999", rules=RULES)), ids(1)
    submit(process, document=local(), accept=False)
    submit(process, good, local(), accept=False)
    poison(process, monkeypatch, error)
    if by_poll:
        process.scheduler.poll()
    else:
        process.scheduler.step([JobChanged(JOB_ID), JobChanged(good), QueueChanged()])
    assert statuses(process, [JOB_ID, good]) == ["waiting", "running"]
    assert process.transport.posted == []               # what the failed one wanted to send was undone with it
    assert f"job {JOB_ID} failed and is left as it was" in caplog.text


def test_a_database_that_refuses_is_asked_again_by_the_poll(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = chosen()
    submit(process, accept=False)
    [sent] = process.transport.take()
    refuses = [True]
    take = type(process.server.store).transaction

    def flaky(store: Any) -> Any:
        if refuses[0]:
            raise FlowError("the database is locked")
        return take(store)

    monkeypatch.setattr(type(process.server.store), "transaction", flaky)
    process.scheduler.step([Answered(sent, Answer(data={}))])
    assert "a transaction of the scheduler failed" in caplog.text
    refuses[0] = False
    process.scheduler.poll()
    assert job_of(process).status is JobStatus.READY


def test_an_answer_that_could_not_be_stored_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    process = chosen()
    submit(process, accept=False)
    [sent] = process.transport.take()

    def fail(*_: Any) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as broken:
        broken.setattr(process.scheduler._initiator, "on_answer", fail)
        process.scheduler.step([Answered(sent, Answer(data={}))])
    assert process.transport.take() == []
    process.scheduler.poll()
    assert [one.id for one in process.transport.take()] == [sent.id]


@contextmanager
def unavailable() -> Iterator[Any]:
    raise StorageUnavailable("the database is gone")
    yield


def test_an_answer_that_came_while_the_database_was_gone_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    process = chosen()
    submit(process, accept=False)
    [sent] = process.transport.take()
    with monkeypatch.context() as broken:
        broken.setattr(process.server.store, "transaction", unavailable)
        process.scheduler.step([Answered(sent, Answer(data={}))])
    process.scheduler.poll()
    assert [one.id for one in process.transport.take()] == [sent.id]


def test_a_database_that_is_gone_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    process = chosen()
    submit(process, accept=False)
    [sent] = process.transport.take()
    take = process.server.store.transaction
    answers = [unavailable, take]
    monkeypatch.setattr(process.server.store, "transaction", lambda: answers.pop(0)())
    process.scheduler.step([Answered(sent, Answer(data={}))])
    assert answers == []
    assert process.transport.take() != []


def test_who_could_not_store_that_it_schedules_does_not_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(HandServer("9999", rules=RULES))
    take = process.server.store.transaction

    @contextmanager
    def lost() -> Iterator[Any]:
        with take() as tx:
            yield tx
            raise CommitUnknown

    with monkeypatch.context() as broken:
        broken.setattr(process.server.store, "transaction", lost)
        with pytest.raises(CommitUnknown):
            process.scheduler.is_chosen()
    assert not process.scheduler.is_in_charge
    assert process.scheduler.is_chosen()


def test_alarms_fire_once_they_are_due() -> None:
    process = chosen(HandServer("9999", cores=4, rules=RULES))
    assert process.scheduler.seconds_to_alarm() is None
    holding(process, 4)
    submit(process, document=local(), accept=False)
    process.scheduler.poll()
    assert process.scheduler.seconds_to_alarm() == RULES.retry_wait / 1000
    process.seconds += 1.9
    assert not process.scheduler.fire_alarms()
    process.seconds += 0.2
    assert process.scheduler.fire_alarms()
    assert process.scheduler.seconds_to_alarm() is None


def test_the_own_seat_is_started_only_when_the_others_have() -> None:
    process = chosen()
    submit(process)
    process.scheduler.step([QueueChanged()])
    for kind in (K.CHECK, K.APPLY):
        process.answer(kind)
    with process.server.store.reading() as tx:
        assert {seat.party: seat.status for seat in tx.seats(JOB_ID)} == {
            GUEST: SeatStatus.HELD, HOST: SeatStatus.STARTING}  # fmt: skip
    process.answer(K.START)
    assert process.server.task("work_0", GUEST).status is TaskStatus.RUNNING
