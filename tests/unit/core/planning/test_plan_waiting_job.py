"""What the initiator does about a job that does not run yet: answers, turns, approvals, holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Blocker, CommandKind, Hold, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryEvent, RetryRule
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import BeginRound, EndRound, MoveJob, MoveSeat, RenewReservation, Send
from fate_flow.core.planning.view import JobView
from tests.kit.core.job_views import ALL, FULL, moves, plan, to
from tests.kit.values import GUEST, HOST, NOW, OTHER, OWN_HOST, a_job, a_seat, a_spec, a_view, seats


def full(party: Party) -> Seat:
    """A seat whose party had no capacity for it."""
    return a_seat(party, message=FULL, blocked_by=Blocker.CAPACITY)


# ---------------------------------------------------------------------- ready


def ready(*those: Seat, **job: object) -> JobView:
    return a_view(a_job(JobStatus.READY, **job), seats=those, tasks=())


def test_a_job_is_not_accepted_before_every_party_has_answered() -> None:
    assert plan(ready(a_seat(GUEST), a_seat(HOST, SeatStatus.JOINING))) == []


def test_accepted_everywhere_it_waits_and_the_others_are_told() -> None:
    found = plan(ready(a_seat(GUEST), a_seat(HOST), a_seat(OTHER)))
    described = [to(party, CommandKind.STATUS, "waiting") for party in (HOST, OTHER)]
    assert found == [MoveJob(JobStatus.WAITING), *described]


def test_who_has_reserved_already_is_told_the_same() -> None:
    found = plan(ready(a_seat(GUEST), a_seat(HOST, SeatStatus.HELD)))
    assert found == [MoveJob(JobStatus.WAITING), to(HOST, CommandKind.STATUS, "waiting")]


def test_a_refusal_ends_it_everywhere_at_once_also_where_nobody_has_answered_yet() -> None:
    own, refused, late = (
        a_seat(GUEST),
        a_seat(HOST, SeatStatus.REFUSED, "no capacity"),
        a_seat(OTHER, SeatStatus.JOINING),
    )
    body = {"reason": "party_refused", "message": "host 10000: no capacity", "caused_by": "host 10000"}
    assert plan(ready(own, refused, late)) == [
        MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED, "host 10000: no capacity", caused_by="host 10000"),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(late, SeatStatus.LEAVING),
        to(OTHER, CommandKind.STATUS, "failed", **body, tag="submit_failed"),
    ]


def test_a_request_to_stop_ends_it_before_it_was_accepted() -> None:
    found = plan(ready(a_seat(GUEST), a_seat(HOST), reason=Reason.STOPPED_BY_USER, message="enough"))
    assert found[0] == MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough")
    assert found[-1] == to(
        HOST, CommandKind.STATUS, "canceled", reason="stopped_by_user", message="enough", tag="submit_failed"
    )


# ---------------------------------------------------------------------- the queue and the reservation round


def waiting(*those: Seat, **job: object) -> JobView:
    return a_view(a_job(JobStatus.WAITING, **job), seats=those, tasks=(), spec=a_spec(parties=ALL))


def in_round(*those: Seat, **job: object) -> JobView:
    return waiting(*those, **{"ready_owner": "scheduler", "round_number": 3, **job})


def test_without_a_reservation_round_it_only_waits() -> None:
    assert plan(waiting(*seats(SeatStatus.JOINED, *ALL))) == []


def test_its_reservation_round_begins_with_the_own_seats_since_a_refusal_there_costs_nobody_anything() -> None:
    own, own_host, host = a_seat(GUEST), a_seat(OWN_HOST), a_seat(HOST)
    assert plan(replace(waiting(own, own_host, host, round_number=4), may_begin_round=True)) == [
        BeginRound(),
        MoveSeat(own, SeatStatus.CHECKING),
        to(GUEST, CommandKind.CHECK, turn=5, order=0),
        MoveSeat(own_host, SeatStatus.CHECKING),
        to(OWN_HOST, CommandKind.CHECK, turn=5, order=0),
    ]


def test_what_is_reserved_before_the_first_reservation_round_is_not_asked_for() -> None:
    own, held, host = a_seat(GUEST), a_seat(OTHER, SeatStatus.HELD), a_seat(HOST)
    assert plan(replace(waiting(own, held, host), may_begin_round=True)) == [
        BeginRound(), MoveSeat(own, SeatStatus.CHECKING), to(GUEST, CommandKind.CHECK, turn=1, order=0),
    ]  # fmt: skip
    own = replace(own, status=SeatStatus.HELD)
    assert moves(plan(in_round(own, held, host)), MoveSeat) == [MoveSeat(host, SeatStatus.CHECKING)]
    assert moves(plan(in_round(own, held)), MoveSeat) == [MoveSeat(held, SeatStatus.STARTING)]


@pytest.mark.parametrize("why", [{"wait_reason": "stands behind job 7"}, {"hold": Hold("later", "ann", NOW, 0)}])
def test_it_is_released_if_the_job_has_to_wait_after_all(why: dict[str, Any]) -> None:
    held, host = a_seat(OTHER, SeatStatus.HELD), a_seat(HOST)
    assert plan(waiting(a_seat(GUEST), held, host)) == [], "the queue has not looked at it yet"
    assert plan(waiting(a_seat(GUEST), held, host, **why)) == [
        MoveSeat(held, SeatStatus.JOINED), to(OTHER, CommandKind.RETURN, turn=1, still_wants=False),
    ]  # fmt: skip


def test_then_all_others_are_asked_side_by_side() -> None:
    host, other = a_seat(HOST), a_seat(OTHER)
    assert plan(in_round(a_seat(GUEST, SeatStatus.HELD), host, other)) == [
        MoveSeat(host, SeatStatus.CHECKING),
        to(HOST, CommandKind.CHECK, turn=3, order=0, is_applied_for=True),
        to(HOST, CommandKind.APPLY, turn=3, order=0),
        MoveSeat(other, SeatStatus.CHECKING),
        to(OTHER, CommandKind.CHECK, turn=3, order=0, is_applied_for=True),
        to(OTHER, CommandKind.APPLY, turn=3, order=0),
    ]


@pytest.mark.parametrize(
    ("seat", "job"),
    [
        ({"is_plain_v1": True}, {}),
        ({"blocked_by": Blocker.APPROVAL}, {}),
        ({}, {"blocked_by": Blocker.ANSWER, "blocked_on": "10000"}),
        ({}, {"blocked_by": Blocker.SIZE, "blocked_on": "10000"}),
    ],
    ids=["plain v1", "awaits approval", "did not answer", "was too small"],
)
def test_a_party_that_may_not_take_the_apply_gets_the_check_alone(seat: dict[str, Any], job: dict[str, Any]) -> None:
    host = a_seat(HOST, **seat)
    assert plan(in_round(a_seat(GUEST, SeatStatus.HELD), host, **job)) == [
        MoveSeat(host, SeatStatus.CHECKING), to(HOST, CommandKind.CHECK, turn=3, order=0),
    ]  # fmt: skip


def test_after_a_conflict_they_are_asked_one_by_one_in_ascending_order() -> None:
    first, second, third = a_seat(Party("host", "999")), a_seat(GUEST), a_seat(HOST)
    begun = plan(replace(waiting(second, third, first, conflicts=1), may_begin_round=True))
    asked = to(first.party, CommandKind.CHECK, turn=1, order=0, is_applied_for=True)
    applied = to(first.party, CommandKind.APPLY, turn=1, order=0)
    assert begun == [BeginRound(), MoveSeat(first, SeatStatus.CHECKING), asked, applied]
    held = replace(first, status=SeatStatus.HELD)
    then = plan(in_round(second, third, held, conflicts=1))
    assert then == [MoveSeat(second, SeatStatus.CHECKING), to(GUEST, CommandKind.CHECK, turn=3, order=0)]


@pytest.mark.parametrize("status", [SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.STARTING])
def test_nothing_happens_while_an_answer_is_on_its_way(status: SeatStatus) -> None:
    assert plan(in_round(a_seat(GUEST, SeatStatus.HELD), a_seat(HOST, status), a_seat(OTHER, SeatStatus.HELD))) == []


def test_a_refusal_gives_back_at_once_what_others_hold_also_while_a_slow_party_has_not_answered() -> None:
    own, slow = a_seat(GUEST, SeatStatus.HELD), a_seat(OTHER, SeatStatus.APPLYING)
    assert plan(in_round(own, full(HOST), slow)) == [
        MoveSeat(own, SeatStatus.JOINED),
        to(GUEST, CommandKind.RETURN, turn=3, still_wants=True),
    ]


def test_when_all_have_answered_the_reservation_round_ends_with_a_reason_to_wait() -> None:
    held = a_seat(GUEST, SeatStatus.HELD)
    found = plan(in_round(held, full(HOST), full(OTHER)))
    returned = to(GUEST, CommandKind.RETURN, turn=3, still_wants=True)
    assert found[:2] == [MoveSeat(held, SeatStatus.JOINED), returned]
    text = f"host 10000 {FULL}; host 10001 {FULL}"
    assert found[2:] == [EndRound(text, "10000", 2, NOW + 6_000, was_conflict=True, blocked_by=Blocker.CAPACITY)]


@pytest.mark.parametrize(
    ("waited", "seat", "pause"),
    [
        (0, {}, 2_000), (8_000, {}, 2_000), (16_000, {}, 4_000), (3_600_000, {}, 6_000),
        (3_600_000, {"is_plain_v1": True}, 2_000),
        (3_600_000, {"blocked_by": Blocker.SIZE}, 2_000), (3_600_000, {"blocked_by": Blocker.ANSWER}, 2_000),
        (3_600_000, {"blocked_by": Blocker.APPROVAL}, 10_000),
    ],
    ids=lambda one: str(one),
)  # fmt: skip
def test_who_says_when_it_has_capacity_again_is_asked_less_often_the_longer_the_job_has_waited(
    waited: int, seat: dict[str, Any], pause: int
) -> None:
    [end] = plan(in_round(replace(full(HOST), **seat), queued=NOW - waited))
    assert isinstance(end, EndRound)
    assert end.retry_at == NOW + pause


@pytest.mark.parametrize("blocked_by", [Blocker.SIZE, Blocker.ANSWER, None])
def test_a_job_waits_for_the_party_that_capacity_would_not_help_and_keeps_nobody_else_waiting(
    blocked_by: Blocker | None,
) -> None:
    own, other = a_seat(GUEST, SeatStatus.HELD), a_seat(OTHER, message="cannot", blocked_by=blocked_by)
    returned, end = plan(in_round(own, full(HOST), other))[1:]
    assert returned == to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)
    assert isinstance(end, EndRound)
    assert (end.blocked_on, end.blocked_by) == ("10001", blocked_by or Blocker.ANSWER)
    assert end.wait_reason == f"host 10000 {FULL}; host 10001 cannot"


def test_of_a_party_that_is_too_small_and_one_that_is_silent_the_job_waits_for_the_first() -> None:
    [end] = plan(
        in_round(a_seat(GUEST), a_seat(HOST, message="silent"), a_seat(OTHER, message="x", blocked_by=Blocker.SIZE))
    )
    assert isinstance(end, EndRound)
    assert (end.blocked_on, end.blocked_by) == ("10001", Blocker.SIZE)


@pytest.mark.parametrize("conflicts", [0, 2])
@pytest.mark.parametrize(
    ("blocked_by", "is_first"), [(Blocker.SIZE, True), (Blocker.ANSWER, True), (Blocker.CAPACITY, False)]
)
def test_a_party_that_capacity_would_not_help_is_asked_before_all_others(
    blocked_by: Blocker, is_first: bool, conflicts: int
) -> None:
    own, host, other = a_seat(GUEST), a_seat(HOST), a_seat(OTHER)
    job = {"blocked_on": "10001", "blocked_by": blocked_by, "conflicts": conflicts}
    begun = plan(replace(waiting(own, host, other, **job), may_begin_round=True))
    assert [move.seat for move in moves(begun, MoveSeat)] == [other if is_first else own]
    then = plan(in_round(own, host, replace(other, status=SeatStatus.HELD), **job))
    assert [move.seat for move in moves(then, MoveSeat)] == [own], "then as always"
    [end] = plan(in_round(own, host, replace(other, message="cannot", blocked_by=blocked_by), **job))
    assert isinstance(end, EndRound)
    assert end.was_conflict is not is_first, "nobody else had reserved"


@pytest.mark.parametrize(
    ("conflicts", "refused", "was_conflict"),
    [
        (0, (GUEST,), False),             # the own party alone was asked
        (0, (GUEST, OWN_HOST), False),
        (0, (HOST,), True),               # the own party had reserved
        (0, (HOST, OTHER), True),
        (2, (GUEST,), False),             # the first in order: nobody had been asked before it
        (2, (HOST,), True),
        (2, (OTHER,), True),
    ],
)
def test_a_reservation_round_is_a_conflict_when_somebody_had_already_reserved(
    conflicts: int, refused: tuple[Party, ...], was_conflict: bool
) -> None:
    those = [a_seat(party, message=FULL if party in refused else "") for party in (GUEST, OWN_HOST, HOST, OTHER)]
    [end] = plan(in_round(*those, conflicts=conflicts))
    assert isinstance(end, EndRound)
    assert end.was_conflict is was_conflict


def test_held_everywhere_the_others_start_first_and_the_own_seat_last() -> None:
    own, host, other = seats(SeatStatus.HELD, *ALL)
    assert plan(in_round(own, host, other)) == [
        MoveSeat(host, SeatStatus.STARTING),
        to(HOST, CommandKind.START, turn=3),
        MoveSeat(other, SeatStatus.STARTING),
        to(OTHER, CommandKind.START, turn=3),
    ]
    started = [replace(seat, status=SeatStatus.STARTED) for seat in (host, other)]
    assert plan(in_round(own, *started)) == [MoveSeat(own, SeatStatus.STARTING), to(GUEST, CommandKind.START, turn=3)]
    assert plan(in_round(replace(own, status=SeatStatus.STARTED), *started)) == []
    view = in_round(own, host)
    view = replace(view, job=replace(view.job, revision=2))
    assert plan(view)[1:] == [to(HOST, CommandKind.START, turn=3, revision=2)], "the parameters that it must have"


def test_a_hold_that_ran_out_before_anybody_started_sends_the_job_back_to_waiting() -> None:
    own = a_seat(GUEST, SeatStatus.HELD)
    found = plan(in_round(own, a_seat(HOST, message="did not start: it holds nothing")))
    returned = to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)
    assert found[:2] == [MoveSeat(own, SeatStatus.JOINED), returned]
    assert isinstance(found[2], EndRound)
    assert found[2].wait_reason == "host 10000 did not start: it holds nothing"


@pytest.mark.parametrize("slow", [SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.STARTING])
def test_what_is_held_is_asked_for_again_in_time_while_a_slow_party_has_not_answered(slow: SeatStatus) -> None:
    due, later, silent = (a_seat(party, SeatStatus.HELD, lease=60_000, renew_at=at) for party, at in
                          ((GUEST, NOW), (HOST, NOW + 1), (OWN_HOST, 0)))  # fmt: skip
    assert plan(in_round(due, later, silent, a_seat(OTHER, slow))) == [
        RenewReservation(due), to(GUEST, CommandKind.APPLY, turn=3)
    ]  # fmt: skip


def test_what_is_given_back_is_not_asked_for_again() -> None:
    held = a_seat(GUEST, SeatStatus.HELD, lease=60_000, renew_at=NOW)
    found = plan(in_round(held, full(HOST), a_seat(OTHER, SeatStatus.APPLYING)))
    returned = to(GUEST, CommandKind.RETURN, turn=3, still_wants=True)
    assert found == [MoveSeat(held, SeatStatus.JOINED), returned]


def test_once_somebody_has_started_a_lost_hold_sends_all_back_to_waiting() -> None:
    own, started = a_seat(GUEST, SeatStatus.HELD), a_seat(OTHER, SeatStatus.STARTED)
    lost = a_seat(HOST, message="did not start: x")
    back = [MoveSeat(own, SeatStatus.JOINED), to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)]
    on_its_way = replace(started, status=SeatStatus.STARTING)
    assert plan(in_round(own, lost, on_its_way)) == back
    given_back = replace(own, status=SeatStatus.JOINED)
    found = plan(in_round(given_back, lost, started))
    assert found[:2] == [MoveSeat(started, SeatStatus.JOINING), to(OTHER, CommandKind.STATUS, "waiting", turn=3)]
    [end] = found[2:]
    assert isinstance(end, EndRound)
    assert (end.rejoins, end.wait_reason, end.retry_at) == (True, "host 10000 did not start: x", NOW + 2_000)


def test_a_plain_party_that_has_started_ends_by_a_stop_when_another_lost_its_hold() -> None:
    lost = a_seat(HOST, message="did not start: x")
    those = (a_seat(GUEST, SeatStatus.HELD), lost, a_seat(OTHER, SeatStatus.STARTED, is_plain_v1=True))
    found = plan(in_round(*those))
    text = "host 10000 did not start: x"
    assert found[0] == MoveJob(
        JobStatus.STOPPING, Reason.PARTY_REFUSED, text, JobStatus.FAILED, NOW + 60_000, caused_by="host 10000"
    )
    body = {"reason": "party_refused", "message": text, "deadline_seconds": 60.0, "caused_by": "host 10000"}
    assert found[1:] == [
        one for seat in those for one in (
            MoveSeat(seat, SeatStatus.STOPPING), to(seat.party, CommandKind.STOP, "failed", **body))
    ]  # fmt: skip


def test_a_request_to_stop_ends_a_waiting_job_at_once_when_nothing_is_held_anywhere() -> None:
    own, host = a_seat(GUEST), a_seat(HOST)
    body = {"reason": "stopped_by_user", "message": "enough"}
    assert plan(waiting(own, host, reason=Reason.STOPPED_BY_USER, message="enough")) == [
        MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough"),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(host, SeatStatus.LEAVING),
        to(HOST, CommandKind.STATUS, "canceled", **body),
    ]


def test_a_request_to_stop_in_the_middle_of_a_reservation_round_resets_the_ready_signal() -> None:
    found = plan(in_round(a_seat(GUEST), a_seat(HOST, message=FULL), reason=Reason.QUEUE_CLEANED))
    assert found[:2] == [EndRound(), MoveJob(JobStatus.CANCELED, Reason.QUEUE_CLEANED)]


@pytest.mark.parametrize("status", [SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.HELD, SeatStatus.STARTING])
def test_a_request_to_stop_while_a_party_may_hold_something_tells_every_party(status: SeatStatus) -> None:
    own, host = a_seat(GUEST), a_seat(HOST, status)
    body = {"reason": "no_capacity", "message": "too long", "deadline_seconds": 60.0}
    assert plan(in_round(own, host, reason=Reason.NO_CAPACITY, message="too long")) == [
        MoveJob(JobStatus.STOPPING, Reason.NO_CAPACITY, "too long", JobStatus.TIMEOUT, NOW + 60_000),
        MoveSeat(own, SeatStatus.STOPPING),
        to(GUEST, CommandKind.STOP, "timeout", **body),
        MoveSeat(host, SeatStatus.STOPPING),
        to(HOST, CommandKind.STOP, "timeout", **body),
    ]


# ---------------------------------------------------------------------- a job that does not wait for capacity


@pytest.mark.parametrize(
    ("retry", "since", "blocked_by", "text"),
    [
        (
            RetryRule(on_events=frozenset({RetryEvent.ERROR})),
            NOW,
            Blocker.CAPACITY,
            "no retry was asked for after a lack",
        ),
        (RetryRule(on_events=frozenset({RetryEvent.ERROR})), NOW, Blocker.SIZE, "no retry was asked for after a lack"),
        (RetryRule(duration=60), NOW - 60_001, Blocker.CAPACITY, "the 60 s for retries are over"),
    ],
)
def test_a_job_that_may_not_wait_for_capacity_ends_when_a_party_has_none(
    retry: RetryRule, since: int, blocked_by: Blocker, text: str
) -> None:
    full = replace(a_seat(HOST, message=FULL), blocked_by=blocked_by)
    view = replace(in_round(a_seat(GUEST), full, queued=since), spec=replace(a_spec(), retry=retry))
    [end] = [one for one in plan(view) if isinstance(one, MoveJob)]
    assert (end.new, end.reason, end.caused_by) == (JobStatus.TIMEOUT, Reason.NO_CAPACITY, str(HOST))
    assert text in end.message


def test_before_it_ends_what_others_hold_goes_back() -> None:
    full = replace(a_seat(HOST, message=FULL), blocked_by=Blocker.CAPACITY)
    rule = RetryRule(on_events=frozenset({RetryEvent.ERROR}))
    view = replace(in_round(a_seat(GUEST, SeatStatus.HELD), full), spec=replace(a_spec(), retry=rule))
    assert [type(one) for one in plan(view)] == [MoveSeat, Send]


@pytest.mark.parametrize(
    ("retry", "since", "blocked_by"),
    [
        (RetryRule(), NOW - 10**9, Blocker.CAPACITY),
        (RetryRule(duration=60), NOW - 59_000, Blocker.CAPACITY),
        (RetryRule(on_events=frozenset({RetryEvent.ERROR})), NOW, Blocker.ANSWER),  # silence is no lack of capacity
    ],
)
def test_others_wait(retry: RetryRule, since: int, blocked_by: Blocker) -> None:
    full = replace(a_seat(HOST, message=FULL), blocked_by=blocked_by)
    view = replace(in_round(a_seat(GUEST), full, queued=since), spec=replace(a_spec(), retry=retry))
    assert [type(one) for one in plan(view)] == [EndRound]


# ---------------------------------------------------------------------- on hold


HELD = Hold("why", "ann")


def test_a_job_that_is_held_in_its_reservation_round_gives_back_and_waits() -> None:
    own, late = a_seat(GUEST, SeatStatus.HELD), a_seat(HOST, SeatStatus.APPLYING)
    back = MoveSeat(own, SeatStatus.JOINED), to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)
    assert plan(in_round(own, late, hold=HELD)) == list(back)
    assert plan(in_round(own, replace(late, status=SeatStatus.JOINED), hold=HELD)) == [*back, EndRound()]


def test_what_has_begun_to_start_goes_on_although_it_is_held() -> None:
    own, started = a_seat(GUEST, SeatStatus.HELD), a_seat(HOST, SeatStatus.STARTED)
    assert plan(in_round(own, started, hold=HELD)) == plan(in_round(own, started)) != []


# ---------------------------------------------------------------------- approval


def unapproved(party: Party, status: SeatStatus = SeatStatus.JOINED, message: str = "") -> Seat:
    return a_seat(party, status, message, blocked_by=Blocker.APPROVAL)


NOT_YET = "has not approved it yet"


def test_until_a_party_has_approved_only_it_is_asked() -> None:
    seats = (a_seat(GUEST), unapproved(OTHER), unapproved(HOST))
    begun = plan(replace(waiting(*seats), may_begin_round=True))
    assert begun == [
        BeginRound(),
        MoveSeat(seats[2], SeatStatus.CHECKING),
        to(HOST, CommandKind.CHECK, turn=1, order=0),
    ]


def test_a_job_waits_for_all_who_have_not_approved_it_and_says_their_names() -> None:
    [round_number] = plan(in_round(a_seat(GUEST), unapproved(HOST, message=NOT_YET), unapproved(OTHER)))
    assert isinstance(round_number, EndRound)
    assert round_number.wait_reason == f"host 10000 {NOT_YET}; host 10001 {NOT_YET}"
    assert (round_number.blocked_on, round_number.blocked_by, round_number.was_conflict) == (
        "10000",
        Blocker.APPROVAL,
        False,
    )
    assert round_number.retry_at == NOW + 5 * 2_000


def test_one_approval_is_not_enough_and_what_it_reserved_is_not_kept() -> None:
    held, pending = a_seat(HOST, SeatStatus.HELD), unapproved(OTHER)
    assert plan(in_round(a_seat(GUEST), held, pending)) == [
        MoveSeat(pending, SeatStatus.CHECKING), to(OTHER, CommandKind.CHECK, turn=3, order=0),
    ]  # fmt: skip
    back, returned, round_number = plan(in_round(a_seat(GUEST), held, replace(pending, message=NOT_YET)))
    assert (back, returned) == (
        MoveSeat(held, SeatStatus.JOINED), to(HOST, CommandKind.RETURN, turn=3, still_wants=False),
    )  # fmt: skip
    assert isinstance(round_number, EndRound)
    assert (round_number.blocked_on, round_number.blocked_by) == ("10001", Blocker.APPROVAL)


def test_an_approved_party_without_capacity_is_not_waited_for_before_the_other_has_approved() -> None:
    seats = (a_seat(GUEST), a_seat(HOST, message="has no capacity", blocked_by=Blocker.CAPACITY), unapproved(OTHER))
    [round_number] = plan(in_round(*seats))
    assert isinstance(round_number, EndRound)
    assert round_number.wait_reason == f"host 10000 has no capacity; host 10001 {NOT_YET}"
    assert (round_number.blocked_on, round_number.blocked_by) == ("10001", Blocker.APPROVAL)
