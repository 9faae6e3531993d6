"""The initiator by hand: submit, the reservation round, requests, and two seats at one party."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import BadDocument, Conflict, FlowError, JobNotFound, Refused
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, Hold
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.wire.v1.fields import count_in
from fate_flow.core.wire.v1.paths import endpoint_of, read_command
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.services.context.ports import Rules
from fate_flow.services.participant import participant as participant
from tests.kit.job_documents import BOTH, job
from tests.kit.services.hand_initiator import Initiator, accepted, report, running
from tests.kit.services.hand_server import worker_of
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.services.sights import FAILED, RUNS, made
from tests.kit.values import GUEST, HOST, JOB_ID, NOW, a_job


def seats_in_history(guest: Initiator) -> list[tuple[str, str, str, str]]:
    with guest.store.reading() as tx:
        return [
            (str(one.party), one.old, one.new, one.message)
            for one in tx.history(JOB_ID) if one.level is HistoryLevel.SEAT and one.new == "joined"
        ]  # fmt: skip


def test_what_parties_give_less_of_is_in_the_history_of_the_job() -> None:
    guest = Initiator(rules=Rules(longest_stop_seconds=60.0))
    common = {**BOTH.runtime_conf["job_parameters"]["common"], "stop_duration": 90}
    guest.submit(replace(BOTH, runtime_conf={**BOTH.runtime_conf, "job_parameters": {"common": common}}))
    capped = {"component_name": "a", "key": "timeout", "asked": 0, "value": 5, "source": "ceilings.task_timeout"}
    guest.answer(K.CREATE, Answer(data={"extensions": {}, "effective": [capped]}))
    assert seats_in_history(guest) == [
        ("guest 9999", "", "joined", "work_0: stop_duration 90 s is 60 s (limits.longest_stop)"),
        ("host 10000", "joining", "joined", "a: timeout no limit is 5 s (ceilings.task_timeout)"),
    ]


def test_a_party_that_gives_what_was_asked_is_not_spoken_of() -> None:
    assert seats_in_history(accepted()) == [("host 10000", "joining", "joined", "")]


def test_the_initiator_keeps_its_own_ceilings() -> None:
    guest = Initiator(ceilings=Ceilings(task_cores=1))
    with pytest.raises(Refused, match=r"guest 9999: .*task_cores: 2 is more than 1, the most that guest 9999 allows"):
        guest.submit()
    assert guest.job_or_none(GUEST) is None


# ---------------------------------------------------------------------- submit


def test_a_submit_asks_the_others_and_holds_rows_for_what_runs_there() -> None:
    guest = Initiator()
    guest.submit()
    assert guest.sent() == ["10000 create"]
    assert (guest.status, guest.seat(GUEST), guest.seat()) == (JobStatus.READY, SeatStatus.JOINED, SeatStatus.JOINING)
    assert not guest.task("work_0", HOST).runs_here
    assert guest.task("work_0", HOST).incarnation == guest.task("work_0", GUEST).incarnation != ""
    assert guest.submission().retcode is None


def test_accepted_everywhere_the_submit_is_decided() -> None:
    guest = accepted()
    assert (guest.status, guest.submission().retcode) == (JobStatus.WAITING, 0)


def test_a_refusal_anywhere_is_the_answer_to_the_submit_and_nothing_stays() -> None:
    guest = Initiator()
    guest.submit()
    guest.answer(K.CREATE, Answer(103, "no capacity for it"))
    decided = guest.submission()
    assert (decided.retcode, decided.retmsg) == (103, "host 10000: no capacity for it")
    assert guest.job_or_none(GUEST) is None
    assert ("remove_job", JOB_ID) in guest.files.calls


def test_the_refusal_of_the_own_party_leaves_nothing_at_all() -> None:
    guest = Initiator(cores=1)
    with pytest.raises(Refused, match=r"^guest 9999: the job asks for 2 cores, a job may have at most 1") as refused:
        guest.submit()
    assert retcode_of(refused.value) == 103
    assert (guest.job_or_none(GUEST), guest.outbox(), guest.submission()) == (None, [], None)


def test_a_request_id_that_comes_again_gives_the_same_job() -> None:
    guest = Initiator()
    assert guest.submit(request_id="r") == JOB_ID
    assert guest.submit(request_id="r", job_id=f"{JOB_ID[:-1]}9") == JOB_ID
    assert guest.sent() == ["10000 create"]
    with pytest.raises(Conflict, match="request id r was used for other content, by job"):
        guest.submit(DOCUMENT, request_id="r", job_id=f"{JOB_ID[:-1]}9")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (job({"guest": ["10000"], "host": ["9999"]}), "this server is party 9999; submit the job at party 10000"),
        (job({"guest": ["9999"], "host": ["555"]}), "party 555 has no route here"),
        (job({"guest": ["9999"], "host": ["10000"]}, {"a": ["b"], "b": ["a"]}), "form a loop"),
    ],
)
def test_a_document_that_cannot_be_taken_is_refused_before_anything_is_sent(document: Any, text: str) -> None:
    guest = Initiator()
    with pytest.raises(BadDocument, match=text):
        guest.submit(document)
    assert (guest.job_or_none(GUEST), guest.outbox()) == (None, [])


# ---------------------------------------------------------------------- the reservation round


def test_the_way_of_a_job_to_success() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    assert (guest.seat(GUEST), guest.sent()) == (
        SeatStatus.HELD, ["10000 dependence/check", "10000 resource/apply"],
    )  # fmt: skip
    guest.answer(K.CHECK)
    guest.answer(K.APPLY)
    assert guest.sent() == ["10000 start"]
    assert guest.status is JobStatus.WAITING       # running only when every party accepted `start`
    guest.answer(K.START)
    assert (guest.status, guest.sent()) == (JobStatus.RUNNING, ["10000 task start"])
    guest.answer(K.TASK_START)
    guest.engine.sights[worker_of(guest, "work_0", GUEST)] = made("t")
    guest.watch("work_0", GUEST)
    assert guest.status is JobStatus.RUNNING
    report(guest, TaskStatus.SUCCESS)
    assert (guest.status, guest.job(GUEST).progress, guest.free_cores()) == (JobStatus.SUCCESS, 100, 8)
    assert guest.sent() == ["10000 task status success", "10000 update", "10000 status success"]
    guest.answer(K.STATUS)
    assert guest.seat() is SeatStatus.LEFT


AHEAD = ["10000 create", "10000 dependence/check", "10000 resource/apply"]


def reserved_ahead() -> Initiator:
    """The host has carried out all that came in the request with `create`."""
    guest = Initiator()
    guest.submit(asks_ahead=True)
    assert guest.sent() == AHEAD
    with guest.unit() as unit:
        for one in guest.outbox():
            assert unit.tx.take_command(one.id)
            guest.side.on_answer(unit, one, Answer(data={"extensions": {}, "lease_seconds": 60}))
        guest.settle(unit)
    assert guest.sent() == ["10000 status waiting"]
    return guest


def test_a_party_that_reserves_in_the_request_that_invites_it_is_asked_two_times_until_the_job_runs() -> None:
    guest = reserved_ahead()
    assert (guest.status, guest.seat()) == (JobStatus.WAITING, SeatStatus.HELD)
    guest.advance(may_begin_round=True)
    assert guest.sent() == ["10000 status waiting", "10000 start"]
    guest.answer(K.START)
    assert (guest.status, guest.job(GUEST).round_number) == (JobStatus.RUNNING, 1)


def test_its_refusal_to_start_costs_a_reservation_round() -> None:
    guest = reserved_ahead()
    guest.advance(may_begin_round=True)
    guest.answer(K.START, Answer(103, "holds nothing"))
    assert (guest.status, guest.seat(), guest.free_cores()) == (JobStatus.WAITING, SeatStatus.JOINED, 8)
    guest.advance(may_begin_round=True)
    assert guest.sent() == ["10000 status waiting", "10000 dependence/check"]
    assert guest.job(GUEST).round_number == 2


def test_every_other_party_is_asked_in_its_request() -> None:
    guest = Initiator()
    guest.submit(job({"guest": ["9999"], "host": ["10000", "10001"]}), asks_ahead=True)
    assert sorted(guest.sent()) == sorted([*AHEAD, *(one.replace("10000", "10001") for one in AHEAD)])


def test_a_job_that_another_party_refuses_ends_at_one_that_has_reserved() -> None:
    guest = Initiator()
    guest.submit(job({"guest": ["9999"], "host": ["10000", "10001"]}), asks_ahead=True)
    for kind in (K.CREATE, K.CHECK, K.APPLY):
        guest.answer(kind, Answer(data={"extensions": {}, "lease_seconds": 60}))
    assert guest.seat() is SeatStatus.HELD
    guest.answer(K.CREATE, Answer(103, "no table"), Party("host", "10001"))
    assert (guest.status, guest.seat()) == (JobStatus.FAILED, SeatStatus.LEAVING)
    [end] = [one for one in guest.outbox() if one.to == HOST]
    assert (end.kind, end.argument, end.body["tag"]) == (K.STATUS, "failed", "submit_failed")


def blocked(guest: Initiator) -> None:
    """Another job of this party waits for capacity."""
    head = replace(a_job(JobStatus.WAITING), key=replace(a_job().key, job_id="20260101120000"), blocked_on="10000")
    with guest.store.transaction() as tx:
        tx.add_job(head, BOTH)
        tx.postpone(head.key, "no capacity", "10000", 2, NOW)


def full_here(guest: Initiator) -> None:
    holder = replace(a_job(JobStatus.RUNNING), key=replace(a_job().key, job_id="20260101120000"))
    with guest.store.transaction() as tx:
        tx.add_job(holder, BOTH)
        assert tx.reserve(holder.key, "local", 7, 0, "t", 1, NOW)


def on_hold(guest: Initiator) -> None:
    with guest.store.transaction() as tx:
        tx.hold_intake(Hold("maintenance", "ann", NOW, 0))


@pytest.mark.parametrize("makes_it_wait", [blocked, full_here, on_hold])
def test_nobody_reserves_at_once_for_a_job_that_will_wait(makes_it_wait: Callable[[Initiator], None]) -> None:
    guest = Initiator()
    makes_it_wait(guest)
    guest.submit(asks_ahead=True)
    assert guest.sent() == ["10000 create"]


def test_a_refusal_gives_back_and_the_job_waits_with_the_reason() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    guest.answer(K.CHECK)
    guest.answer(K.APPLY, Answer(103, "failed", {"why": "has 1 of 8 cores free, 2 asked", "free_cores": 1}))
    found = guest.job(GUEST)
    assert (found.ready_owner, found.wait_reason) == ("", "host 10000 has 1 of 8 cores free, 2 asked")
    assert (found.blocked_on, found.conflicts, found.round_number) == ("10000", 1, 1)
    assert 2_000 <= found.retry_at < 3_000
    assert (guest.free_cores(), guest.seat()) == (8, SeatStatus.JOINED)


def test_a_refusal_of_the_own_party_asks_nobody_else() -> None:
    guest = accepted(cores=2)
    with guest.store.transaction() as tx:
        holder = replace(guest.job(GUEST), key=replace(guest.job(GUEST).key, job_id="20260101120000"))
        tx.add_job(holder, BOTH)
        assert tx.reserve(holder.key, "local", 1, 0, "t", 1, NOW)
    guest.advance(may_begin_round=True)
    found = guest.job(GUEST)
    assert (found.wait_reason, found.conflicts) == ("guest 9999 has 1 of 2 cores free, 2 asked", 0)
    assert guest.sent() == []


def test_an_apply_that_nobody_answered_is_returned() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    guest.answer(K.CHECK)
    guest.answer(K.APPLY, Answer(104, "no answer in time"))
    assert guest.sent() == ["10000 resource/return"]
    assert guest.outbox()[0].body["turn"] == 1
    assert guest.job(GUEST).wait_reason == "host 10000 does not answer: no answer in time"


def test_a_start_that_was_refused_sends_the_job_back_to_waiting() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    for kind in (K.CHECK, K.APPLY):
        guest.answer(kind)
    guest.answer(K.START, Answer(103, "it holds nothing"))
    found = guest.job(GUEST)
    assert (found.status, found.holds) == (JobStatus.WAITING, False)
    assert found.wait_reason == "host 10000 did not start: it holds nothing"
    guest.advance(may_begin_round=True)
    for kind in (K.CHECK, K.APPLY, K.START):
        guest.answer(kind)
    assert guest.status is JobStatus.RUNNING


def test_a_check_that_fails_for_good_ends_the_job_and_it_is_not_forgotten() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    guest.answer(K.CHECK, Answer(100, "inheritance failed"))
    assert (guest.status, guest.sent()) == (JobStatus.STOPPING, ["10000 resource/apply", "10000 stop failed"])
    for kind in (K.APPLY, K.STOP, K.STATUS):
        guest.answer(kind)
    found = guest.job(GUEST)
    assert (found.status, found.reason) == (JobStatus.FAILED, Reason.DEPENDENCE_FAILED)
    assert (found.message, found.caused_by) == ("host 10000: inheritance failed", "host 10000")


def test_an_answer_that_comes_twice_means_nothing_the_second_time() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    sent = guest.answer(K.CHECK)
    before = guest.snapshot()
    with guest.unit() as unit:
        guest.side.on_answer(unit, sent, Answer())
        guest.settle(unit)
    assert guest.snapshot() == before


@pytest.mark.parametrize(
    ("data", "key", "count"),
    [
        ({"n": 5}, "n", 5), ({"n": 0}, "n", 0), ({"n": -1}, "n", None), ({"n": 2**31}, "n", None),
        ({"n": "5"}, "n", None), ({"n": True}, "n", None), ({}, "n", None), (None, "n", None), ([5], "n", None),
    ],
)  # fmt: skip
def test_counts_that_others_tell(data: Any, key: str, count: int | None) -> None:
    assert count_in(data, key) == count


# ---------------------------------------------------------------------- requests, and two seats at one party


def test_a_request_to_stop_is_recorded_once() -> None:
    guest = running()
    with guest.unit() as unit:
        assert guest.side.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "enough", True, "me")
        assert not guest.side.request_stop(unit, JOB_ID, Reason.JOB_TIMEOUT, "late", False, "you")
    found = guest.job(GUEST)
    assert (found.reason, found.message, found.caused_by) == (Reason.STOPPED_BY_USER, "enough", "me")
    assert found.cancel_requested


def test_what_is_stopped_while_it_waits_is_stopped_by_a_user_in_the_rows_of_all_parties() -> None:
    guest = accepted()
    with guest.unit() as unit:
        guest.side.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "enough", True, "host 10000")
    guest.advance()
    for party in (GUEST, HOST):
        task = guest.task("work_0", party)
        assert (task.party_status, task.reason) == (TaskStatus.CANCELED, Reason.STOPPED_BY_USER)
        assert task.caused_by == "host 10000"


def test_who_is_not_the_initiator_cannot_end_a_job() -> None:
    guest = Initiator()
    with guest.unit() as unit, pytest.raises(JobNotFound):
        guest.side.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "", True, "me")


def test_a_second_seat_at_the_initiators_party_ends_with_the_job_also_when_its_worker_does_not() -> None:
    own_host = Party("host", "9999")
    guest = Initiator()
    guest.submit(job({"guest": ["9999"], "host": ["9999"]}, cores=2))
    guest.advance(may_begin_round=True)
    for party in (GUEST, own_host):
        guest.engine.sights[worker_of(guest, "work_0", party)] = RUNS
        guest.watch("work_0", party)
    with guest.unit() as unit:
        guest.side.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "enough", True, "me")
        guest.settle(unit)
    guest.steady = guest.context.rules.drain + 1        # nobody's worker has gone by the deadline
    guest.advance()
    found = guest.job(GUEST)
    assert (found.status, found.unconfirmed) == (JobStatus.CANCELED, ("guest 9999", "host 9999"))
    assert guest.job(own_host).status is JobStatus.CANCELED
    assert guest.free_cores() == 8
    guest.engine.sights[worker_of(guest, "work_0", own_host)] = made("t")
    guest.watch("work_0", own_host)
    assert guest.task("work_0", own_host).party_status is TaskStatus.CANCELED
    assert guest.free_cores() == 8


def test_the_initiators_own_rows_say_what_it_has_decided_itself() -> None:
    """Its stop tells its own seats, too, that the task begins again; what follows is decided when all have stopped."""
    own_host = Party("host", "9999")
    guest = Initiator()
    guest.submit(job({"guest": ["9999"], "host": ["9999"]}, cores=2, retries=1))
    guest.advance(may_begin_round=True)
    for party in (GUEST, own_host):
        guest.engine.sights[worker_of(guest, "work_0", party)] = RUNS
        guest.watch("work_0", party)
    guest.engine.sights[worker_of(guest, "work_0", GUEST)] = FAILED
    guest.watch("work_0", GUEST)
    guest.advance()
    shares = [guest.task("work_0", party) for party in (GUEST, own_host)]
    assert [one.party_status for one in shares] == [TaskStatus.FAILED, TaskStatus.STOPPING]
    assert [one.status for one in shares] == [TaskStatus.STOPPING] * 2
    assert [one.policy for one in shares] == ["", ""]


# ---------------------------------------------------------------------- the wire


@pytest.mark.parametrize("kind", K)
def test_every_command_has_a_path_that_reads_as_the_same_command(kind: K) -> None:
    is_task = kind.value.startswith("task") or kind is K.REPORT
    argument = {K.STATUS: "success", K.STOP: "failed", K.TASK_STATUS: "running", K.TASK_STOP: "canceled",
                K.ASK_STOP: "canceled", K.REPORT: "success"}.get(kind, "")  # fmt: skip
    body = {"role": "host", "party_id": "10000"} if kind in (K.REPORT, K.CAPACITY) else {"x": 1}
    sent = Command(kind, JOB_ID, HOST, 3, "a" if is_task else "", 2 if is_task else 0, argument, body)
    read = read_command(endpoint_of(sent), {**body, "run": 3})
    assert (read.kind, read.job_id, read.to, read.run) == (kind, JOB_ID, HOST, 3)
    if is_task:
        assert (read.task, read.version) == ("a", 2)
    if kind is not K.REPORT:
        assert read.argument == argument


def test_a_command_to_the_own_party_is_carried_out_at_once_with_the_same_records() -> None:
    guest = accepted()
    guest.advance(may_begin_round=True)
    urls = [fields["url"] for event, fields in guest.record.events if event.name == "OWN_REQUEST"]
    assert f"http://127.0.0.1:9380/v1/party/{JOB_ID}/guest/9999/resource/apply" in urls


def test_an_error_of_the_own_party_is_a_value_too(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = accepted()

    def refuse(*_: Any) -> None:
        raise FlowError("out of order")

    monkeypatch.setitem(participant._HANDLERS, K.APPLY, refuse)
    guest.advance(may_begin_round=True)
    assert guest.job(GUEST).wait_reason == "guest 9999 out of order"
