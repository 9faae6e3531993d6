"""Leases and fences: a hold is renewed while others answer, given back in order when it is lost, and a lost reservation
round is noticed."""

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import UNREACHABLE, Conflict
from fate_flow.core.model.job import Answer
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import BeginRound
from fate_flow.records.operator_log.events import Event
from fate_flow.services.scheduling.events import Answered, QueueChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import Process, after, chosen, job_of, seat, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.values import JOB_ID

GRANTED = Answer(data={"cores": 2, "remaining_cores": 6, "lease_seconds": 60.0})
SILENCE = Answer(UNREACHABLE, "no answer in time")
ACCEPTED = Answer(data={"extensions": {}})
THREE = job({"guest": ["9999"], "host": ["10000", "10001"]}, cores=2)


def answer(process: Process, kind: K, party_id: str, what: Answer | None = None) -> None:
    found = next(one for one in process.transport.posted if one.kind is kind and one.to.party_id == party_id)
    process.transport.posted.remove(found)
    process.scheduler.step([Answered(found, what or Answer())])


def with_a_slow_party(granted: Answer = GRANTED) -> Process:
    """Host 10000 holds under a lease; host 10001 has not answered its check."""
    process = chosen(HandServer("9999"))
    submit(process, document=THREE, accept=False)
    for party_id in ("10000", "10001"):
        answer(process, K.CREATE, party_id, ACCEPTED)
    for party_id in ("10000", "10001"):
        answer(process, K.STATUS, party_id)
    process.scheduler.step([QueueChanged()])
    answer(process, K.CHECK, "10000")
    answer(process, K.APPLY, "10000", granted)
    return process


def sent_to(process: Process, party_id: str) -> list[str]:
    return [one.kind.value for one in process.transport.posted if one.to.party_id == party_id]


def test_a_hold_is_renewed_each_third_of_its_lease_until_the_slow_party_answers() -> None:
    process = with_a_slow_party()
    after(process, 19.9)
    assert sent_to(process, "10000") == []
    for _ in range(3):
        after(process, 20.1)
        assert sent_to(process, "10000") == ["resource/apply"]
        answer(process, K.APPLY, "10000", GRANTED)
    answer(process, K.CHECK, "10001")
    answer(process, K.APPLY, "10001", GRANTED)
    assert [sent_to(process, one) for one in ("10000", "10001")] == [["start"], ["start"]]


def test_a_renewal_wakes_the_scheduler_by_itself() -> None:
    process = with_a_slow_party()
    assert process.scheduler.seconds_to_alarm() == 20.0


@pytest.mark.parametrize("lease", [None, 0, -1, True, "60", float("nan"), float("inf"), 1e12])
def test_a_party_that_tells_no_lease_that_can_be_kept_is_not_asked_again(lease: object) -> None:
    process = with_a_slow_party(Answer(data={"cores": 2, "lease_seconds": lease}))
    after(process, 1_000)
    assert (seat(process, "10000").status, sent_to(process, "10000")) == (SeatStatus.HELD, [])


def test_a_hold_that_was_lost_ends_the_reservation_round_in_order() -> None:
    process = with_a_slow_party()
    after(process, 20.1)
    answer(process, K.APPLY, "10000", Answer(103, "failed", {"why": "has 0 of 4 cores free, 2 asked"}))
    assert seat(process, "10000").status is SeatStatus.JOINED
    answer(process, K.CHECK, "10001")
    answer(process, K.APPLY, "10001", GRANTED)
    assert sent_to(process, "10001") == ["resource/return"]
    found = job_of(process)
    assert (found.status, found.ready_owner) == (JobStatus.WAITING, "")
    assert found.wait_reason == "host 10000 lost what it held: has 0 of 4 cores free, 2 asked"
    assert process.server.free_cores() == 8


def test_a_renewal_without_an_answer_is_asked_again_and_decides_nothing() -> None:
    process = with_a_slow_party()
    after(process, 20.1)
    answer(process, K.APPLY, "10000", SILENCE)
    assert (seat(process, "10000").status, sent_to(process, "10000")) == (SeatStatus.HELD, [])
    after(process, 20.1)
    assert sent_to(process, "10000") == ["resource/apply"]


def test_what_the_next_scheduler_finds_held_it_renews_too() -> None:
    process = with_a_slow_party()
    process.transport.take()
    again = chosen(process.server, owner="home-2")
    after(again, 20.1)
    assert "resource/apply" in sent_to(again, "10000")


# ---------------------------------------------------------------------- a reservation round that is somebody else's


def with_a_round_of_another() -> Process:
    """As if the fence had not held: the reservation round that this scheduler began is another's."""
    process = chosen(HandServer("9999"))
    submit(process)
    with process.server.store.transaction() as tx:
        assert tx.take_over("other") == (JOB_ID,)
    return process


def test_a_reservation_round_that_somebody_else_has_begun_is_noticed() -> None:
    process = with_a_round_of_another()
    with pytest.raises(Conflict, match="its reservation round"), process.server.unit() as unit:
        process.scheduler._initiator._actions.carry_out(unit, job_of(process), BeginRound())


def test_the_end_of_a_reservation_round_that_is_somebody_elses_is_noticed_and_not_logged_as_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    process = with_a_round_of_another()
    before = len(process.server.record.seen(Event.READY_SIGNAL_RESET))
    answer(process, K.CHECK, "10000")
    answer(process, K.APPLY, "10000", Answer(103, "failed", {"why": "has 0 of 4 cores free, 2 asked"}))
    assert (job_of(process).status, job_of(process).ready_owner) == (JobStatus.WAITING, "other")
    assert "its reservation round belongs to other, not to home-1" in caplog.text
    assert len(process.server.record.seen(Event.READY_SIGNAL_RESET)) == before
