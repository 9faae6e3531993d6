"""What the initiator does about a job that does not run yet: answers, turns, approvals, holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_views import ALL, FULL, moves, plan, to

from fate_flow.core.actions import (
    BeginTurn,
    EndTurn,
    MoveJob,
    MoveSeat,
    RenewHold,
    Send,
)
from fate_flow.core.job import CommandKind, Hold, Lack, Seat
from fate_flow.core.reasons import Reason
from fate_flow.core.retry import RetryEvent, RetryRule
from fate_flow.core.spec import Party
from fate_flow.core.status import JobStatus, SeatStatus
from fate_flow.core.view import JobView
from tests.factories import (
    GUEST,
    HOST,
    NOW,
    OTHER,
    OWN_HOST,
    a_job,
    a_seat,
    a_spec,
    a_view,
    seats,
)


def full(party: Party) -> Seat:
    """A seat whose party had no room for it."""
    return a_seat(party, message=FULL, lacks=Lack.ROOM)


# ---------------------------------------------------------------------- ready


def ready(*those: Seat, **job: object) -> JobView:
    return a_view(a_job(JobStatus.READY, **job), seats=those, tasks=())


def test_a_job_is_not_accepted_before_every_party_has_answered() -> None:
    assert plan(ready(a_seat(GUEST), a_seat(HOST, SeatStatus.JOINING))) == []


def test_accepted_everywhere_it_waits_and_the_others_are_told() -> None:
    found = plan(ready(a_seat(GUEST), a_seat(HOST), a_seat(OTHER)))
    told = [to(party, CommandKind.STATUS, "waiting") for party in (HOST, OTHER)]
    assert found == [MoveJob(JobStatus.WAITING), *told]


def test_a_refusal_ends_it_everywhere_at_once_also_where_nobody_has_answered_yet() -> None:
    own, refused, late = a_seat(GUEST), a_seat(HOST, SeatStatus.REFUSED, "no room"), a_seat(OTHER, SeatStatus.JOINING)
    body = {"reason": "party_refused", "message": "host 10000: no room", "caused_by": "host 10000"}
    assert plan(ready(own, refused, late)) == [
        MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED, "host 10000: no room", caused_by="host 10000"),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(late, SeatStatus.LEAVING),
        to(OTHER, CommandKind.STATUS, "failed", **body, tag="submit_failed"),
    ]


def test_a_wish_to_stop_ends_it_before_it_was_accepted() -> None:
    found = plan(ready(a_seat(GUEST), a_seat(HOST), reason=Reason.STOPPED_BY_USER, message="enough"))
    assert found[0] == MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough")
    assert found[-1] == to(
        HOST, CommandKind.STATUS, "canceled", reason="stopped_by_user", message="enough", tag="submit_failed"
    )


# ---------------------------------------------------------------------- the queue and the turn


def waiting(*those: Seat, **job: object) -> JobView:
    return a_view(a_job(JobStatus.WAITING, **job), seats=those, tasks=(), spec=a_spec(parties=ALL))


def in_turn(*those: Seat, **job: object) -> JobView:
    return waiting(*those, **{"ready_owner": "scheduler", "turn": 3, **job})


def test_without_its_turn_it_only_waits() -> None:
    assert plan(waiting(*seats(SeatStatus.JOINED, *ALL))) == []


def test_its_turn_begins_with_the_own_seats_since_a_refusal_there_costs_nobody_anything() -> None:
    own, own_host, host = a_seat(GUEST), a_seat(OWN_HOST), a_seat(HOST)
    assert plan(replace(waiting(own, own_host, host, turn=4), has_turn=True)) == [
        BeginTurn(),
        MoveSeat(own, SeatStatus.CHECKING),
        to(GUEST, CommandKind.CHECK, turn=5, order=0),
        MoveSeat(own_host, SeatStatus.CHECKING),
        to(OWN_HOST, CommandKind.CHECK, turn=5, order=0),
    ]


def test_then_all_others_are_asked_side_by_side() -> None:
    host, other = a_seat(HOST), a_seat(OTHER)
    assert plan(in_turn(a_seat(GUEST, SeatStatus.HELD), host, other)) == [
        MoveSeat(host, SeatStatus.CHECKING),
        to(HOST, CommandKind.CHECK, turn=3, order=0),
        MoveSeat(other, SeatStatus.CHECKING),
        to(OTHER, CommandKind.CHECK, turn=3, order=0),
    ]


def test_after_a_conflict_they_are_asked_one_by_one_in_ascending_order() -> None:
    first, second, third = a_seat(Party("host", "999")), a_seat(GUEST), a_seat(HOST)
    begun = plan(replace(waiting(second, third, first, conflicts=1), has_turn=True))
    asked = to(first.party, CommandKind.CHECK, turn=1, order=0)
    assert begun == [BeginTurn(), MoveSeat(first, SeatStatus.CHECKING), asked]
    held = replace(first, status=SeatStatus.HELD)
    then = plan(in_turn(second, third, held, conflicts=1))
    assert then == [MoveSeat(second, SeatStatus.CHECKING), to(GUEST, CommandKind.CHECK, turn=3, order=0)]


@pytest.mark.parametrize("status", [SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.STARTING])
def test_nothing_happens_while_an_answer_is_on_its_way(status: SeatStatus) -> None:
    assert plan(in_turn(a_seat(GUEST, SeatStatus.HELD), a_seat(HOST, status), a_seat(OTHER, SeatStatus.HELD))) == []


def test_a_refusal_gives_back_at_once_what_others_hold_also_while_a_slow_party_has_not_answered() -> None:
    own, slow = a_seat(GUEST, SeatStatus.HELD), a_seat(OTHER, SeatStatus.APPLYING)
    assert plan(in_turn(own, full(HOST), slow)) == [
        MoveSeat(own, SeatStatus.JOINED),
        to(GUEST, CommandKind.RETURN, turn=3, still_wants=True),
    ]


def test_when_all_have_answered_the_turn_ends_with_a_reason_to_wait() -> None:
    held = a_seat(GUEST, SeatStatus.HELD)
    found = plan(in_turn(held, full(HOST), full(OTHER)))
    returned = to(GUEST, CommandKind.RETURN, turn=3, still_wants=True)
    assert found[:2] == [MoveSeat(held, SeatStatus.JOINED), returned]
    words = f"host 10000 {FULL}; host 10001 {FULL}"
    assert found[2:] == [EndTurn(words, "10000", 2, NOW + 2_000, was_conflict=True, lacks=Lack.ROOM)]


@pytest.mark.parametrize("lacks", [Lack.SIZE, Lack.ANSWER, None])
def test_a_job_waits_for_the_party_that_room_would_not_help_and_keeps_nobody_else_waiting(lacks: Lack | None) -> None:
    own, other = a_seat(GUEST, SeatStatus.HELD), a_seat(OTHER, message="cannot", lacks=lacks)
    returned, end = plan(in_turn(own, full(HOST), other))[1:]
    assert returned == to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)
    assert isinstance(end, EndTurn)
    assert (end.blocked_on, end.lacks) == ("10001", lacks or Lack.ANSWER)
    assert end.wait_reason == f"host 10000 {FULL}; host 10001 cannot"


def test_of_a_party_that_is_too_small_and_one_that_is_silent_the_job_waits_for_the_first() -> None:
    [end] = plan(in_turn(a_seat(GUEST), a_seat(HOST, message="silent"), a_seat(OTHER, message="x", lacks=Lack.SIZE)))
    assert isinstance(end, EndTurn)
    assert (end.blocked_on, end.lacks) == ("10001", Lack.SIZE)


@pytest.mark.parametrize("conflicts", [0, 2])
@pytest.mark.parametrize(("lacks", "is_first"), [(Lack.SIZE, True), (Lack.ANSWER, True), (Lack.ROOM, False)])
def test_a_party_that_room_would_not_help_is_asked_before_all_others(
    lacks: Lack, is_first: bool, conflicts: int
) -> None:
    own, host, other = a_seat(GUEST), a_seat(HOST), a_seat(OTHER)
    job = {"blocked_on": "10001", "lacks": lacks, "conflicts": conflicts}
    begun = plan(replace(waiting(own, host, other, **job), has_turn=True))
    assert [move.seat for move in moves(begun, MoveSeat)] == [other if is_first else own]
    then = plan(in_turn(own, host, replace(other, status=SeatStatus.HELD), **job))
    assert [move.seat for move in moves(then, MoveSeat)] == [own], "then as always"
    [end] = plan(in_turn(own, host, replace(other, message="cannot", lacks=lacks), **job))
    assert isinstance(end, EndTurn)
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
def test_a_turn_is_a_conflict_when_somebody_had_already_reserved(
    conflicts: int, refused: tuple[Party, ...], was_conflict: bool
) -> None:
    those = [a_seat(party, message=FULL if party in refused else "") for party in (GUEST, OWN_HOST, HOST, OTHER)]
    [end] = plan(in_turn(*those, conflicts=conflicts))
    assert isinstance(end, EndTurn)
    assert end.was_conflict is was_conflict


def test_held_everywhere_the_others_start_first_and_the_own_seat_last() -> None:
    own, host, other = seats(SeatStatus.HELD, *ALL)
    assert plan(in_turn(own, host, other)) == [
        MoveSeat(host, SeatStatus.STARTING),
        to(HOST, CommandKind.START, turn=3),
        MoveSeat(other, SeatStatus.STARTING),
        to(OTHER, CommandKind.START, turn=3),
    ]
    started = [replace(seat, status=SeatStatus.STARTED) for seat in (host, other)]
    assert plan(in_turn(own, *started)) == [MoveSeat(own, SeatStatus.STARTING), to(GUEST, CommandKind.START, turn=3)]
    assert plan(in_turn(replace(own, status=SeatStatus.STARTED), *started)) == []


def test_a_hold_that_ran_out_before_anybody_started_sends_the_job_back_to_waiting() -> None:
    own = a_seat(GUEST, SeatStatus.HELD)
    found = plan(in_turn(own, a_seat(HOST, message="did not start: it holds nothing")))
    returned = to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)
    assert found[:2] == [MoveSeat(own, SeatStatus.JOINED), returned]
    assert isinstance(found[2], EndTurn)
    assert found[2].wait_reason == "host 10000 did not start: it holds nothing"


@pytest.mark.parametrize("slow", [SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.STARTING])
def test_what_is_held_is_asked_for_again_in_time_while_a_slow_party_has_not_answered(slow: SeatStatus) -> None:
    due, later, silent = (a_seat(party, SeatStatus.HELD, lease=60_000, renew_at=at) for party, at in
                          ((GUEST, NOW), (HOST, NOW + 1), (OWN_HOST, 0)))  # fmt: skip
    assert plan(in_turn(due, later, silent, a_seat(OTHER, slow))) == [
        RenewHold(due), to(GUEST, CommandKind.APPLY, turn=3)
    ]  # fmt: skip


def test_what_is_given_back_is_not_asked_for_again() -> None:
    held = a_seat(GUEST, SeatStatus.HELD, lease=60_000, renew_at=NOW)
    found = plan(in_turn(held, full(HOST), a_seat(OTHER, SeatStatus.APPLYING)))
    returned = to(GUEST, CommandKind.RETURN, turn=3, still_wants=True)
    assert found == [MoveSeat(held, SeatStatus.JOINED), returned]


def test_once_somebody_has_started_a_lost_hold_sends_all_back_to_waiting() -> None:
    own, started = a_seat(GUEST, SeatStatus.HELD), a_seat(OTHER, SeatStatus.STARTED)
    lost = a_seat(HOST, message="did not start: x")
    back = [MoveSeat(own, SeatStatus.JOINED), to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)]
    on_its_way = replace(started, status=SeatStatus.STARTING)
    assert plan(in_turn(own, lost, on_its_way)) == back
    given_back = replace(own, status=SeatStatus.JOINED)
    found = plan(in_turn(given_back, lost, started))
    assert found[:2] == [MoveSeat(started, SeatStatus.JOINING), to(OTHER, CommandKind.STATUS, "waiting", turn=3)]
    [end] = found[2:]
    assert isinstance(end, EndTurn)
    assert (end.rejoins, end.wait_reason, end.retry_at) == (True, "host 10000 did not start: x", NOW + 2_000)


def test_a_plain_party_that_has_started_ends_by_a_stop_when_another_lost_its_hold() -> None:
    lost = a_seat(HOST, message="did not start: x")
    those = (a_seat(GUEST, SeatStatus.HELD), lost, a_seat(OTHER, SeatStatus.STARTED, legacy=True))
    found = plan(in_turn(*those))
    words = "host 10000 did not start: x"
    assert found[0] == MoveJob(
        JobStatus.STOPPING, Reason.PARTY_REFUSED, words, JobStatus.FAILED, NOW + 60_000, caused_by="host 10000"
    )
    body = {"reason": "party_refused", "message": words, "deadline_seconds": 60.0, "caused_by": "host 10000"}
    assert found[1:] == [
        one for seat in those for one in (
            MoveSeat(seat, SeatStatus.STOPPING), to(seat.party, CommandKind.STOP, "failed", **body))
    ]  # fmt: skip


def test_a_wish_to_stop_ends_a_waiting_job_at_once_when_nothing_is_held_anywhere() -> None:
    own, host = a_seat(GUEST), a_seat(HOST)
    body = {"reason": "stopped_by_user", "message": "enough"}
    assert plan(waiting(own, host, reason=Reason.STOPPED_BY_USER, message="enough")) == [
        MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough"),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(host, SeatStatus.LEAVING),
        to(HOST, CommandKind.STATUS, "canceled", **body),
    ]


def test_a_wish_to_stop_in_the_middle_of_a_turn_resets_the_ready_signal() -> None:
    found = plan(in_turn(a_seat(GUEST), a_seat(HOST, message=FULL), reason=Reason.QUEUE_CLEANED))
    assert found[:2] == [EndTurn(), MoveJob(JobStatus.CANCELED, Reason.QUEUE_CLEANED)]


@pytest.mark.parametrize("status", [SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.HELD, SeatStatus.STARTING])
def test_a_wish_to_stop_while_a_party_may_hold_something_tells_every_party(status: SeatStatus) -> None:
    own, host = a_seat(GUEST), a_seat(HOST, status)
    body = {"reason": "no_capacity", "message": "too long", "deadline_seconds": 60.0}
    assert plan(in_turn(own, host, reason=Reason.NO_CAPACITY, message="too long")) == [
        MoveJob(JobStatus.STOPPING, Reason.NO_CAPACITY, "too long", JobStatus.TIMEOUT, NOW + 60_000),
        MoveSeat(own, SeatStatus.STOPPING),
        to(GUEST, CommandKind.STOP, "timeout", **body),
        MoveSeat(host, SeatStatus.STOPPING),
        to(HOST, CommandKind.STOP, "timeout", **body),
    ]


# ---------------------------------------------------------------------- a job that does not wait for capacity


@pytest.mark.parametrize(
    ("retry", "since", "lacks", "words"),
    [
        (RetryRule(on_events=frozenset({RetryEvent.ERROR})), NOW, Lack.ROOM, "no retry was asked for after a lack"),
        (RetryRule(on_events=frozenset({RetryEvent.ERROR})), NOW, Lack.SIZE, "no retry was asked for after a lack"),
        (RetryRule(duration=60), NOW - 60_001, Lack.ROOM, "the 60 s for retries are over"),
    ],
)
def test_a_job_that_may_not_wait_for_room_ends_when_a_party_has_none(
    retry: RetryRule, since: int, lacks: Lack, words: str
) -> None:
    full = replace(a_seat(HOST, message=FULL), lacks=lacks)
    view = replace(in_turn(a_seat(GUEST), full, queued=since), spec=replace(a_spec(), retry=retry))
    [end] = [one for one in plan(view) if isinstance(one, MoveJob)]
    assert (end.new, end.reason, end.caused_by) == (JobStatus.TIMEOUT, Reason.NO_CAPACITY, str(HOST))
    assert words in end.message


def test_before_it_ends_what_others_hold_goes_back() -> None:
    full = replace(a_seat(HOST, message=FULL), lacks=Lack.ROOM)
    rule = RetryRule(on_events=frozenset({RetryEvent.ERROR}))
    view = replace(in_turn(a_seat(GUEST, SeatStatus.HELD), full), spec=replace(a_spec(), retry=rule))
    assert [type(one) for one in plan(view)] == [MoveSeat, Send]


@pytest.mark.parametrize(
    ("retry", "since", "lacks"),
    [
        (RetryRule(), NOW - 10**9, Lack.ROOM),
        (RetryRule(duration=60), NOW - 59_000, Lack.ROOM),
        (RetryRule(on_events=frozenset({RetryEvent.ERROR})), NOW, Lack.ANSWER),     # silence is no lack of capacity
    ],
)
def test_others_wait(retry: RetryRule, since: int, lacks: Lack) -> None:
    full = replace(a_seat(HOST, message=FULL), lacks=lacks)
    view = replace(in_turn(a_seat(GUEST), full, queued=since), spec=replace(a_spec(), retry=retry))
    assert [type(one) for one in plan(view)] == [EndTurn]


# ---------------------------------------------------------------------- on hold


HELD = Hold("why", "ann")


def test_a_job_that_is_held_in_its_turn_gives_back_and_waits() -> None:
    own, late = a_seat(GUEST, SeatStatus.HELD), a_seat(HOST, SeatStatus.APPLYING)
    back = MoveSeat(own, SeatStatus.JOINED), to(GUEST, CommandKind.RETURN, turn=3, still_wants=False)
    assert plan(in_turn(own, late, hold=HELD)) == list(back)
    assert plan(in_turn(own, replace(late, status=SeatStatus.JOINED), hold=HELD)) == [*back, EndTurn()]


def test_what_has_begun_to_start_goes_on_although_it_is_held() -> None:
    own, started = a_seat(GUEST, SeatStatus.HELD), a_seat(HOST, SeatStatus.STARTED)
    assert plan(in_turn(own, started, hold=HELD)) == plan(in_turn(own, started)) != []


# ---------------------------------------------------------------------- approval


def unapproved(party: Party, status: SeatStatus = SeatStatus.JOINED, message: str = "") -> Seat:
    return a_seat(party, status, message, lacks=Lack.APPROVAL)


NOT_YET = "has not approved it yet"


def test_until_a_party_has_approved_only_it_is_asked() -> None:
    seats = (a_seat(GUEST), unapproved(OTHER), unapproved(HOST))
    begun = plan(replace(waiting(*seats), has_turn=True))
    assert begun == [BeginTurn(), MoveSeat(seats[2], SeatStatus.CHECKING), to(HOST, CommandKind.CHECK, turn=1, order=0)]


def test_a_job_waits_for_all_who_have_not_approved_it_and_says_their_names() -> None:
    [turn] = plan(in_turn(a_seat(GUEST), unapproved(HOST, message=NOT_YET), unapproved(OTHER)))
    assert isinstance(turn, EndTurn)
    assert turn.wait_reason == f"host 10000 {NOT_YET}; host 10001 {NOT_YET}"
    assert (turn.blocked_on, turn.lacks, turn.was_conflict) == ("10000", Lack.APPROVAL, False)
    assert turn.retry_at == NOW + 5 * 2_000


def test_one_approval_is_not_enough_and_what_it_reserved_is_not_kept() -> None:
    held, pending = a_seat(HOST, SeatStatus.HELD), unapproved(OTHER)
    assert plan(in_turn(a_seat(GUEST), held, pending)) == [
        MoveSeat(pending, SeatStatus.CHECKING), to(OTHER, CommandKind.CHECK, turn=3, order=0),
    ]  # fmt: skip
    back, returned, turn = plan(in_turn(a_seat(GUEST), held, replace(pending, message=NOT_YET)))
    assert (back, returned) == (
        MoveSeat(held, SeatStatus.JOINED), to(HOST, CommandKind.RETURN, turn=3, still_wants=False),
    )  # fmt: skip
    assert isinstance(turn, EndTurn)
    assert (turn.blocked_on, turn.lacks) == ("10001", Lack.APPROVAL)


def test_an_approved_party_without_room_is_not_waited_for_before_the_other_has_approved() -> None:
    seats = (a_seat(GUEST), a_seat(HOST, message="has no room", lacks=Lack.ROOM), unapproved(OTHER))
    [turn] = plan(in_turn(*seats))
    assert isinstance(turn, EndTurn)
    assert turn.wait_reason == f"host 10000 has no room; host 10001 {NOT_YET}"
    assert (turn.blocked_on, turn.lacks) == ("10001", Lack.APPROVAL)
