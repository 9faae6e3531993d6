"""What the initiator does next: every situation of a job, and the actions that follow from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.core.actions import (
    Action,
    AllRejoined,
    BeginTurn,
    EndTurn,
    Forget,
    Hurry,
    MoveJob,
    MoveSeat,
    MoveTask,
    NewVersion,
    Progress,
    PutOff,
    RenewHold,
    Send,
    Why,
)
from fate_flow.core.job import Command, CommandKind, Hold, Lack, Seat, Task
from fate_flow.core.plan import plan_job
from fate_flow.core.reasons import RULES, Author, Reason, task_status_for
from fate_flow.core.retry import RetryEvent, RetryRule, Tries
from fate_flow.core.spec import Party
from fate_flow.core.status import TASK_BROKEN, JobStatus, SeatStatus, TaskStatus, check_move
from fate_flow.core.view import JobView
from tests.factories import (
    FRESH_ID,
    GUEST,
    HOST,
    INCARNATION,
    JOB_ID,
    NOW,
    OTHER,
    OWN_HOST,
    a_job,
    a_seat,
    a_spec,
    a_task,
    a_view,
    seats,
)

ALL = (GUEST, HOST, OTHER)
FULL = "has 1 of 8 cores free, 2 asked"


def full(party: Party) -> Seat:
    """A seat whose party had no room for it."""
    return a_seat(party, message=FULL, lacks=Lack.ROOM)


def to(party: Party, kind: CommandKind, argument: str = "", **body: object) -> Send:
    """A job command as the plan sends it."""
    return Send(Command(kind, JOB_ID, party, argument=argument, body=body))


def settled(party: Party, name: str, status: TaskStatus, reason: Reason, message: str = "", by: Party = GUEST) -> Send:
    """How a task has ended over all its parties, as another one of them is told."""
    why = {"reason": reason.value, "message": message, "caused_by": str(by)}
    return task_to(party, CommandKind.TASK_STATUS, name, status.value, incarnation=INCARNATION, **why)


def task_to(
    party: Party, kind: CommandKind, name: str = "a", argument: str = "", version: int = 0, **body: object
) -> Send:
    return Send(Command(kind, JOB_ID, party, 0, name, version, argument, body or {"incarnation": INCARNATION}))


def plan(view: JobView) -> list[Action]:
    """The plan, which is the same when it is asked for again and asks for no move that the tables do not have."""
    found = plan_job(view)
    assert plan_job(view) == found
    for action in found:
        check_is_legal(view, action)
    return list(found)


def check_is_legal(view: JobView, action: Action) -> None:
    if isinstance(action, MoveJob):
        check_move(view.job.status, action.new)
        assert action.new not in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.TIMEOUT) or action.reason
    elif isinstance(action, MoveSeat):
        assert action.seat in view.seats
        check_move(action.seat.status, action.new)
    elif isinstance(action, MoveTask):
        check_move(action.old, action.new)


def moves(found: list[Action], kind: type[Action]) -> list[Action]:
    return [action for action in found if isinstance(action, kind)]


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


# ---------------------------------------------------------------------- running


def task_rows(name: str, *party_statuses: TaskStatus, status: TaskStatus, **fields: object) -> tuple:
    """The rows of a task at guest, host and other, as many as there are statuses."""
    return tuple(
        a_task(name, party, one, status, **fields) for party, one in zip(ALL, party_statuses, strict=False)
    )


def test_what_has_begun_to_run_ends_its_turn_and_starts_the_first_task() -> None:
    assert plan(a_view(a_job(ready_owner="scheduler"))) == [
        EndTurn(),
        MoveTask("a", 0, TaskStatus.WAITING, TaskStatus.RUNNING),
        task_to(GUEST, CommandKind.TASK_START),
        task_to(HOST, CommandKind.TASK_START),
    ]


@pytest.mark.parametrize(("parallelism", "begun"), [(1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])])
def test_as_many_tasks_start_as_cores_were_reserved_for(parallelism: int, begun: list[str]) -> None:
    spec = a_spec({"a": (), "b": (), "c": (), "d": ("a",)}, task_parallelism=parallelism)
    view = a_view(spec=spec, tasks=tuple(a_task(name) for name in "abcd"))
    assert [one.name for one in moves(plan(view), MoveTask)] == begun


@pytest.mark.parametrize("busy", [TaskStatus.RUNNING, TaskStatus.STOPPING])
def test_a_task_that_runs_or_drains_takes_room(busy: TaskStatus) -> None:
    rows = (a_task("a", party_status=TaskStatus.RUNNING, status=busy), a_task("b"))
    assert plan(a_view(spec=a_spec({"a": (), "b": ()}), tasks=rows)) == []


@pytest.mark.parametrize("upstream", [TaskStatus.SUCCESS, TaskStatus.PASS])
def test_a_task_starts_when_its_inputs_are_there_and_progress_is_told(upstream: TaskStatus) -> None:
    view = a_view(spec=a_spec({"a": (), "b": ("a",)}), tasks=(a_task("a", party_status=upstream), a_task("b")))
    assert plan(view) == [
        Progress(50),
        to(HOST, CommandKind.UPDATE, progress=50),
        MoveTask("b", 0, TaskStatus.WAITING, TaskStatus.RUNNING),
        task_to(GUEST, CommandKind.TASK_START, "b"),
    ]


def test_progress_is_told_once() -> None:
    rows = (a_task("a", party_status=TaskStatus.SUCCESS), a_task("b", party_status=TaskStatus.RUNNING))
    view = a_view(a_job(progress=50), spec=a_spec({"a": (), "b": ("a",)}), tasks=rows)
    assert plan(view) == []


def test_a_retry_waits_for_its_delay() -> None:
    rows = (a_task("a", retry_at=NOW + 1), a_task("b"))
    view = a_view(spec=a_spec({"a": (), "b": ()}), tasks=rows)
    assert [one.name for one in moves(plan(view), MoveTask)] == ["b"]
    assert [one.name for one in moves(plan(replace(view, now=NOW + 1)), MoveTask)] == ["a"]


LONG = 30_001       # milliseconds


def resting(*others: Task, retry_at: int = NOW + LONG, **fields: Any) -> JobView:
    """`a` is tried again a good while later; `b` is whatever is given."""
    rows = (a_task("a", retry_at=retry_at, version=1), a_task("a", HOST, retry_at=retry_at, version=1), *others)
    return a_view(spec=a_spec({"a": (), **({"b": ()} if others else {})}), **{"tasks": rows, **fields})


def test_a_job_that_rests_for_long_gives_its_cores_back() -> None:
    assert plan(resting()) == [
        PutOff("retry_backoff: a begins again", NOW + LONG),
        *(
            action
            for party in (GUEST, HOST)
            for action in (
                MoveSeat(a_seat(party, SeatStatus.STARTED), SeatStatus.JOINING),
                to(party, CommandKind.STATUS, "waiting", turn=1),
            )
        ),
    ]


@pytest.mark.parametrize(
    "view",
    [
        resting(retry_at=NOW + LONG - 1),
        resting(a_task("b", party_status=TaskStatus.RUNNING)),
        resting(a_task("b", party_status=TaskStatus.SUCCESS, status=TaskStatus.RUNNING)),
        resting(a_task("b", party_status=TaskStatus.STOPPING)),
        resting(seats=(a_seat(GUEST, SeatStatus.STARTED), a_seat(HOST, SeatStatus.STARTED, legacy=True))),
    ],
    ids=["soon", "runs", "runs elsewhere", "drains", "plain v1"],
)
def test_it_keeps_them(view: JobView) -> None:
    assert not moves(plan(view), PutOff)


def test_with_something_else_to_do_it_does_that() -> None:
    assert [one.name for one in moves(plan(resting(a_task("b"))), MoveTask)] == ["b"]
    assert not moves(plan(resting(a_task("b"))), PutOff)


@pytest.mark.parametrize(("status", "retry_at", "goes_on"), [
    (SeatStatus.JOINED, NOW, True), (SeatStatus.JOINED, NOW + 1, False), (SeatStatus.JOINING, NOW, False)])  # fmt: skip
def test_it_applies_anew_when_it_is_due_and_every_party_knows(
    status: SeatStatus, retry_at: int, goes_on: bool
) -> None:
    job = a_job(JobStatus.WAITING, rerun_signal=True, retry_at=retry_at, turn=1)
    view = a_view(job, seats=(a_seat(GUEST), a_seat(HOST, status)), tasks=())
    assert plan(view) == ([AllRejoined()] if goes_on else [])


def test_a_party_that_has_ended_it_meanwhile_ends_the_rest() -> None:
    job = a_job(JobStatus.WAITING, rerun_signal=True, retry_at=NOW + LONG, turn=1)
    lost = a_seat(HOST, SeatStatus.REFUSED, "is failed (initiator_lost)")
    [move] = moves(plan(a_view(job, seats=(a_seat(GUEST), lost), tasks=())), MoveJob)
    assert (move.reason, move.message) == (Reason.PARTY_REFUSED, "host 10000: is failed (initiator_lost)")


S, R, F, T, C, W, P = (
    TaskStatus.SUCCESS, TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED,
    TaskStatus.WAITING, TaskStatus.PASS,
)  # fmt: skip


@pytest.mark.parametrize(
    ("party_statuses", "outcome", "reason"),
    [((S, S), S, Reason.DONE), ((S, P), S, Reason.DONE), ((P, P), P, Reason.NOT_NEEDED)],
)
def test_done_at_all_parties_a_task_ends_and_the_others_are_told(
    party_statuses: tuple[TaskStatus, ...], outcome: TaskStatus, reason: Reason
) -> None:
    view = a_view(tasks=task_rows("a", *party_statuses, status=R))
    assert plan(view) == [
        MoveTask("a", 0, R, outcome, reason, caused_by="guest 9999"),
        settled(HOST, "a", outcome, reason),
    ]


@pytest.mark.parametrize("party_statuses", [(R, R), (S, R), (W, S), (P, W)])
def test_while_one_party_is_not_done_nothing_follows(party_statuses: tuple[TaskStatus, ...]) -> None:
    assert plan(a_view(tasks=task_rows("a", *party_statuses, status=R))) == []


def test_one_party_breaks_and_the_whole_gang_is_stopped() -> None:
    rows = (
        a_task("a", GUEST, R),
        a_task("a", HOST, F, R, reason=Reason.WORKER_ERROR, message="it went wrong"),
        a_task("a", OTHER, W, R),
    )
    assert plan(a_view(tasks=rows, seats=seats(SeatStatus.STARTED, *ALL))) == [
        MoveTask("a", 0, R, TaskStatus.STOPPING, Reason.WORKER_ERROR, "it went wrong", caused_by="host 10000"),
        task_to(GUEST, CommandKind.TASK_STOP, argument="canceled", incarnation=INCARNATION, caused_by="host 10000"),
        task_to(OTHER, CommandKind.TASK_STOP, argument="canceled", incarnation=INCARNATION, caused_by="host 10000"),
    ]


def test_a_task_that_never_began_breaks_too() -> None:
    rows = (a_task("a", GUEST, W), a_task("a", HOST, F, W, reason=Reason.INITIATOR_LOST))
    stopping = MoveTask("a", 0, W, TaskStatus.STOPPING, Reason.INITIATOR_LOST, caused_by="host 10000")
    assert plan(a_view(tasks=rows))[0] == stopping


def draining(*rows: tuple[TaskStatus, Reason | None, int], retries: int = 0, message: str = "") -> JobView:
    """A task that is stopping: for each party its status, its reason and when it ended."""
    tasks = tuple(
        a_task("a", party, status, TaskStatus.STOPPING, reason=reason, end_time=end, auto_retries=retries,
               message=message)
        for party, (status, reason, end) in zip(ALL, rows, strict=False)
    )  # fmt: skip
    spec = a_spec(auto_retries=retries, auto_retry_delay_seconds=2.5)
    return a_view(tasks=tasks, spec=spec, seats=seats(SeatStatus.STARTED, *ALL))


def test_a_stopping_task_waits_for_the_last_party() -> None:
    assert plan(draining((F, Reason.WORKER_ERROR, 1), (R, None, 0), retries=3)) == []


@pytest.mark.parametrize(
    ("rows", "outcome", "reason"),
    [
        ([(F, Reason.WORKER_ERROR, 5), (C, Reason.STOPPED, 1)], F, Reason.WORKER_ERROR),
        ([(C, Reason.STOPPED, 1), (T, Reason.TASK_TIMEOUT, 2)], T, Reason.TASK_TIMEOUT),
        ([(T, Reason.TASK_TIMEOUT, 1), (F, Reason.WORKER_KILLED, 9)], F, Reason.WORKER_KILLED),   # failed > timeout
        ([(F, Reason.WORKER_KILLED, 9), (F, Reason.LAUNCH_FAILED, 8)], F, Reason.LAUNCH_FAILED),  # the earlier speaks
        ([(S, Reason.DONE, 1), (F, Reason.SERVER_LOST, 2)], F, Reason.SERVER_LOST),
        ([(C, Reason.STOPPED, 1), (C, Reason.STOPPED, 2)], C, Reason.STOPPED),
        ([(C, Reason.STOPPED_BY_USER, 1), (F, Reason.WORKER_ERROR, 2)], F, Reason.WORKER_ERROR),
        ([(F, None, 1), (S, Reason.DONE, 2)], F, Reason.WORKER_ERROR),                            # a plain v1 peer
    ],
)
def test_a_drained_task_ends_as_its_worst_own_fault(
    rows: list[tuple[TaskStatus, Reason | None, int]], outcome: TaskStatus, reason: Reason
) -> None:
    [move, told] = plan(draining(*rows, message="why"))
    by = next(party for party, row in zip(ALL, rows, strict=False) if (row[1] or Reason.WORKER_ERROR) is reason)
    assert move == MoveTask("a", 0, TaskStatus.STOPPING, outcome, reason, "why", caused_by=str(by))
    assert told == settled(HOST, "a", outcome, reason, "why", by)


def test_the_exit_code_of_the_culprit_is_part_of_how_its_task_has_ended() -> None:
    view = draining((C, Reason.STOPPED, 1), (F, Reason.WORKER_KILLED, 2))
    view = replace(view, tasks=(view.tasks[0], replace(view.tasks[1], exit_code=3)))
    [move, *told] = plan(view)
    assert move == MoveTask(
        "a", 0, TaskStatus.STOPPING, F, Reason.WORKER_KILLED, caused_by="host 10000", exit_code=3
    )
    assert [send.command.body["exit_code"] for send in told] == [3] * len(told)


def test_a_task_is_tried_again_as_a_new_version_everywhere_with_one_retry_less() -> None:
    found = plan(draining((F, Reason.WORKER_ERROR, 1), (C, Reason.STOPPED, 2), (C, Reason.STOPPED, 3), retries=2))
    why = {"reason": "worker_error", "message": "", "caused_by": "guest 9999"}
    body = {"incarnation": FRESH_ID, "auto_retries": 1, **why}
    assert found[0] == MoveTask("a", 0, TaskStatus.STOPPING, F, Reason.WORKER_ERROR, caused_by="guest 9999")
    assert moves(found, NewVersion) == [
        NewVersion("a", 1, FRESH_ID, 1, NOW + 2_500, Tries(1, 0, NOW), Why(Reason.WORKER_ERROR, "", "guest 9999"))
    ]
    assert found[-2:] == [task_to(party, CommandKind.TASK_CREATE, version=1, **body) for party in (HOST, OTHER)]


@pytest.mark.parametrize("reason", [Reason.INITIATOR_LOST, Reason.STOPPED_BY_USER])
def test_some_ends_are_not_tried_again(reason: Reason) -> None:
    status = C if reason is Reason.STOPPED_BY_USER else F
    assert moves(plan(draining((status, reason, 1), (C, Reason.STOPPED, 1), retries=9)), NewVersion) == []


def test_a_share_that_breaks_and_still_drains_ends_the_others_at_once() -> None:
    rows = (
        a_task("a", GUEST, R, R), a_task("a", HOST, TaskStatus.STOPPING, R, reason=Reason.WORKER_ERROR, message="why"),
        a_task("a", OTHER, S, R),
    )  # fmt: skip
    found = plan(a_view(tasks=rows, seats=seats(SeatStatus.STARTED, *ALL)))
    assert found[0] == MoveTask("a", 0, R, TaskStatus.STOPPING, Reason.WORKER_ERROR, "why", caused_by="host 10000")
    asked = [one.command for one in moves(found, Send) if one.command.kind is CommandKind.TASK_STOP]
    assert [one.to for one in asked] == [GUEST, HOST]


def test_a_share_that_is_stopped_for_another_one_breaks_nothing() -> None:
    rows = (a_task("a", GUEST, R, R), a_task("a", HOST, TaskStatus.STOPPING, R, reason=Reason.STOPPED))
    assert plan(a_view(tasks=rows)) == []


def test_two_parties_that_fail_at_once_cause_one_retry() -> None:
    found = plan(draining((F, Reason.WORKER_ERROR, 1), (F, Reason.WORKER_KILLED, 1), retries=2))
    assert len(moves(found, NewVersion)) == 1


def test_a_second_branch_goes_on_while_the_first_drains() -> None:
    rows = (
        *(a_task("a", party, R, TaskStatus.STOPPING) for party in (GUEST, HOST)),
        *(a_task("b", party, S, R) for party in (GUEST, HOST)),
    )
    found = plan(a_view(spec=a_spec({"a": (), "b": ()}, task_parallelism=2), tasks=rows))
    assert found[0] == MoveTask("b", 0, R, S, Reason.DONE, caused_by="guest 9999")


ENDED = {F: "failed", T: "ran out of time", C: "was canceled"}


@pytest.mark.parametrize(
    ("status", "reason", "job_reason", "target"),
    [
        (F, Reason.WORKER_ERROR, Reason.TASK_FAILED, JobStatus.FAILED),
        (T, Reason.TASK_TIMEOUT, Reason.TASK_TIMEOUT, JobStatus.TIMEOUT),
        (C, Reason.STOPPED_BY_USER, Reason.STOPPED_BY_USER, JobStatus.CANCELED),
        (C, Reason.STOPPED, Reason.TASK_FAILED, JobStatus.FAILED),
    ],
)
def test_a_task_that_ended_badly_stops_the_job_and_the_message_names_the_party(
    status: TaskStatus, reason: Reason, job_reason: Reason, target: JobStatus
) -> None:
    rows = (
        a_task("a", GUEST, C, status, reason=Reason.STOPPED),
        a_task("a", HOST, status, reason=reason, message="it went wrong"),
        a_task("b", GUEST, R),
    )
    found = plan(a_view(spec=a_spec({"a": (), "b": ()}), tasks=rows))
    message = f"a {ENDED[status]} on host 10000: it went wrong"
    if reason is Reason.STOPPED:
        message = "a was canceled on guest 9999: stopped"
    party = message.split(" on ")[1].split(":")[0]
    assert found[0] == MoveJob(JobStatus.STOPPING, job_reason, message, target, NOW + 60_000, caused_by=party)
    assert [one.new for one in moves(found, MoveSeat)] == [SeatStatus.STOPPING] * 2
    assert [one.command.argument for one in moves(found, Send)] == [target.value] * 2


def test_a_share_that_ended_since_its_initiator_was_silent_names_the_initiator_as_the_cause() -> None:
    """Its report may come before the answer to a heartbeat: both lead to the same end."""
    words = "party 9999 was silent for 120 s"
    rows = (
        a_task("a", GUEST, C, F, reason=Reason.STOPPED, caused_by="guest 9999"),
        a_task("a", HOST, F, F, reason=Reason.INITIATOR_LOST, message=words, caused_by="guest 9999"),
    )
    [move] = moves(plan(a_view(tasks=rows)), MoveJob)
    assert (move.reason, move.caused_by, move.target) == (Reason.INITIATOR_LOST, "guest 9999", JobStatus.FAILED)
    assert move.message == f"a failed on host 10000: {words}"


def test_the_exit_code_of_the_culprit_is_the_jobs_and_every_party_is_told() -> None:
    rows = (a_task("a", GUEST, C, F, reason=Reason.STOPPED), a_task("a", HOST, F, F, reason=Reason.WORKER_ERROR))
    broken = a_view(tasks=(rows[0], replace(rows[1], exit_code=3)), seats=seats(SeatStatus.STARTED, GUEST, HOST))
    found = plan(broken)
    assert moves(found, MoveJob)[0].exit_code == 3
    assert [one.command.body["exit_code"] for one in moves(found, Send)] == [3, 3]
    drained = replace(
        broken, job=a_job(JobStatus.STOPPING, reason=Reason.TASK_FAILED, exit_code=3, stop_by=NOW + 9),
        seats=seats(SeatStatus.DRAINING, GUEST, HOST),
    )
    assert [one.command.body["exit_code"] for one in moves(plan(drained), Send)] == [3]


def test_all_tasks_done_the_job_is_done() -> None:
    own, host = seats(SeatStatus.STARTED)
    assert plan(a_view(tasks=task_rows("a", S, S, status=S))) == [
        Progress(100),
        to(HOST, CommandKind.UPDATE, progress=100),
        MoveJob(JobStatus.SUCCESS, Reason.DONE),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(host, SeatStatus.LEAVING),
        to(HOST, CommandKind.STATUS, "success", reason="done", message=""),
    ]


def test_a_passed_task_counts_as_done() -> None:
    assert MoveJob(JobStatus.SUCCESS, Reason.DONE) in plan(a_view(tasks=task_rows("a", P, P, status=P)))


@pytest.mark.parametrize(
    ("reason", "target"),
    [
        (Reason.STOPPED_BY_USER, JobStatus.CANCELED), (Reason.JOB_TIMEOUT, JobStatus.TIMEOUT),
        (Reason.PARTY_UNREACHABLE, JobStatus.FAILED), (Reason.INITIATOR_LOST, JobStatus.FAILED),
    ],
)  # fmt: skip
def test_a_wish_to_stop_comes_before_anything_else(reason: Reason, target: JobStatus) -> None:
    view = a_view(a_job(reason=reason, message="m", ready_owner="s"), tasks=task_rows("a", S, S, status=R))
    found = plan(view)
    assert found[0] == MoveJob(JobStatus.STOPPING, reason, "m", target, NOW + 60_000)
    assert len(found) == 1 + 2 * len(view.seats)


@pytest.mark.parametrize(("asked", "seconds"), [(None, 60), (0, 60), (7.5, 67.5)])
def test_a_job_that_asks_for_time_to_stop_is_waited_for_longer(asked: float | None, seconds: float) -> None:
    spec = a_spec({"a": (), "b": ()})
    slow = {**spec.tasks, "b": replace(spec.tasks["b"], stop_seconds=asked)}
    found = plan(a_view(a_job(reason=Reason.STOPPED_BY_USER), spec=replace(spec, tasks=slow)))
    assert found[0].stop_by == NOW + seconds * 1000
    stops = [one.command for one in found if isinstance(one, Send)]
    assert [one.body["deadline_seconds"] for one in stops] == [seconds] * len(stops)


# ---------------------------------------------------------------------- stopping and the end


def stopping(*those: Seat, tasks: tuple = (), reason: Reason = Reason.STOPPED_BY_USER, **job: object) -> JobView:
    known = {"reason": reason, "message": "enough", "target": JobStatus.CANCELED, "stop_by": NOW + 1, **job}
    return a_view(a_job(JobStatus.STOPPING, **known), seats=those, tasks=tasks)


def test_a_wish_to_hurry_is_told_to_those_that_still_drain() -> None:
    rows = (a_task("a", GUEST, C, R), a_task("a", HOST, R, R))
    view = stopping(
        a_seat(GUEST, SeatStatus.DRAINING), a_seat(HOST, SeatStatus.DRAINING), tasks=rows, is_urgent=True,
        stop_by=NOW + 900_000,
    )  # fmt: skip
    body = {"reason": "stopped_by_user", "message": "enough", "deadline_seconds": 0}
    assert plan(view) == [Hurry(NOW + 60_000), to(HOST, CommandKind.STOP, argument="canceled", **body)]


@pytest.mark.parametrize(
    ("host", "host_task"),
    [
        (SeatStatus.STOPPING, C),       # has not confirmed
        (SeatStatus.DRAINING, R),       # confirmed, its worker still ends
        (SeatStatus.DRAINING, TaskStatus.STOPPING),
    ],
)
def test_a_job_ends_only_when_every_party_has_drained(host: SeatStatus, host_task: TaskStatus) -> None:
    rows = (a_task("a", GUEST, C, R), a_task("a", HOST, host_task, R))
    assert plan(stopping(a_seat(GUEST, SeatStatus.DRAINING), a_seat(HOST, host), tasks=rows)) == []


def test_drained_everywhere_the_job_ends_and_every_task_that_it_cut_off() -> None:
    own, host = seats(SeatStatus.DRAINING)
    rows = (
        a_task("a", GUEST, S, S), a_task("a", HOST, S, S),
        a_task("b", GUEST, C, R, reason=Reason.STOPPED_BY_USER), a_task("b", HOST, C, R, reason=Reason.STOPPED_BY_USER),
        a_task("c", GUEST, W), a_task("c", HOST, W),
    )  # fmt: skip
    view = replace(stopping(own, host, tasks=rows, ready_owner="s"), spec=a_spec({"a": (), "b": ("a",), "c": ("b",)}))
    assert plan(view) == [
        MoveTask("b", 0, R, C, Reason.STOPPED_BY_USER, "enough", caused_by="guest 9999"),
        settled(HOST, "b", C, Reason.STOPPED_BY_USER, "enough"),
        MoveTask("c", 0, W, C, Reason.STOPPED_BY_USER, "enough", caused_by="guest 9999"),
        settled(HOST, "c", C, Reason.STOPPED_BY_USER, "enough"),
        EndTurn(),
        MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough"),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(host, SeatStatus.LEAVING),
        to(HOST, CommandKind.STATUS, "canceled", reason="stopped_by_user", message="enough"),
    ]


@pytest.mark.parametrize(
    ("statuses", "job_reason", "outcome", "reason", "words"),
    [
        ((S, S), Reason.STOPPED_BY_USER, S, Reason.DONE, ""),
        ((P, P), Reason.STOPPED_BY_USER, P, Reason.NOT_NEEDED, ""),
        ((F, C), Reason.STOPPED_BY_USER, F, Reason.WORKER_ERROR, "no data"),      # its own, not those of the stop
        ((C, C), Reason.TASK_FAILED, C, Reason.STOPPED, "enough"),
        ((W, W), Reason.STOPPED_BY_USER, C, Reason.STOPPED_BY_USER, "enough"),
        ((W, S), Reason.TASK_FAILED, C, Reason.STOPPED, "enough"),
    ],
)
def test_how_a_task_ends_that_the_end_of_its_job_cut_off(
    statuses: tuple[TaskStatus, ...], job_reason: Reason, outcome: TaskStatus, reason: Reason, words: str
) -> None:
    why = {S: Reason.DONE, P: Reason.NOT_NEEDED, F: Reason.WORKER_ERROR, C: Reason.STOPPED, W: None}
    rows = [
        a_task("a", party, one, R, reason=why[one], message="no data" if one is F else "")
        for party, one in zip((GUEST, HOST), statuses, strict=True)
    ]
    found = plan(stopping(*seats(SeatStatus.DRAINING), tasks=tuple(rows), reason=job_reason))
    assert found[0] == MoveTask("a", 0, R, outcome, reason, words, caused_by="guest 9999")


def test_at_the_deadline_who_never_confirmed_is_listed_and_the_job_ends_all_the_same() -> None:
    own, host = a_seat(GUEST, SeatStatus.DRAINING), a_seat(HOST, SeatStatus.STOPPING)
    rows = (a_task("a", GUEST, C, R), a_task("a", HOST, R, R))
    found = plan(stopping(own, host, tasks=rows, stop_by=NOW))
    assert found[0] == MoveSeat(host, SeatStatus.UNCONFIRMED, "never confirmed that it stopped")
    assert MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough", unconfirmed=("host 10000",)) in found
    assert found[-2] == MoveSeat(own, SeatStatus.LEFT)
    # it is told all the same, should it come back
    assert found[-1] == to(HOST, CommandKind.STATUS, "canceled", reason="stopped_by_user", message="enough")


def test_an_own_worker_that_never_ends_is_unconfirmed_too() -> None:
    own, host = seats(SeatStatus.DRAINING)
    rows = (a_task("a", GUEST, TaskStatus.STOPPING, R), a_task("a", HOST, C, R))
    found = plan(stopping(own, host, tasks=rows, stop_by=NOW))
    assert moves(found, MoveSeat) == [
        MoveSeat(own, SeatStatus.UNCONFIRMED, "never confirmed that it stopped"), MoveSeat(host, SeatStatus.LEAVING)
    ]  # fmt: skip
    assert [one.unconfirmed for one in moves(found, MoveJob)] == [("guest 9999",)]


ENDS = [JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.TIMEOUT]


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("seat", [SeatStatus.LEAVING, SeatStatus.LEFT, SeatStatus.UNCONFIRMED])
def test_nothing_follows_for_a_job_that_is_over(status: JobStatus, seat: SeatStatus) -> None:
    those = (a_seat(GUEST, SeatStatus.LEFT), a_seat(HOST, seat))
    assert plan(a_view(a_job(status, reason=Reason.DONE), seats=those)) == []


@pytest.mark.parametrize(
    ("host", "forgets"),
    [(SeatStatus.LEFT, True), (SeatStatus.REFUSED, True), (SeatStatus.UNCONFIRMED, True), (SeatStatus.LEAVING, False)],
)
def test_a_refused_submit_is_forgotten_once_everybody_knows(host: SeatStatus, forgets: bool) -> None:
    job = a_job(JobStatus.FAILED, reason=Reason.PARTY_REFUSED, turn=0, start_time=0)
    found = plan(a_view(job, seats=(a_seat(GUEST, SeatStatus.LEFT), a_seat(HOST, host))))
    assert found == ([Forget()] if forgets else [])


def test_a_job_that_was_accepted_is_never_forgotten_also_when_a_party_did_not_start_it() -> None:
    job = a_job(JobStatus.FAILED, reason=Reason.PARTY_REFUSED, turn=1, start_time=0)
    assert plan(a_view(job, seats=seats(SeatStatus.LEFT))) == []


# ---------------------------------------------------------------------- anything that can be seen


SEEN_SEATS = {
    JobStatus.READY: [SeatStatus.JOINING, SeatStatus.JOINED, SeatStatus.REFUSED],
    JobStatus.WAITING: [
        SeatStatus.JOINED, SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.HELD, SeatStatus.STARTING,
        SeatStatus.STARTED,
    ],
    JobStatus.RUNNING: [SeatStatus.STARTED],
    JobStatus.STOPPING: [SeatStatus.STOPPING, SeatStatus.DRAINING],
}  # fmt: skip
REASONS = [None, Reason.STOPPED_BY_USER, Reason.JOB_TIMEOUT, Reason.PARTY_UNREACHABLE, Reason.NO_CAPACITY]
PARTY_REASONS = {
    status: [reason for reason, rule in RULES.items() if Author.PARTY in rule.authors and rule.status == status.value]
    for status in TaskStatus
}


@st.composite
def some_task(draw: st.DrawFn, name: str) -> tuple:
    statuses = [draw(st.sampled_from(TaskStatus)) for _ in ALL]
    is_broken = any(status in TASK_BROKEN for status in statuses)
    known = [W, R, TaskStatus.STOPPING] if is_broken else [W, R]
    federated = draw(st.sampled_from(known))
    return tuple(
        a_task(
            name, party, status, federated, auto_retries=draw(st.integers(0, 2)), end_time=draw(st.integers(0, 9)),
            reason=draw(st.sampled_from(PARTY_REASONS[status] or [None])),
        )
        for party, status in zip(ALL, statuses, strict=True)
    )  # fmt: skip


@st.composite
def some_view(draw: st.DrawFn) -> JobView:
    status = draw(st.sampled_from(list(SEEN_SEATS)))
    reason = draw(st.sampled_from(REASONS if status is not JobStatus.STOPPING else REASONS[1:]))
    job = a_job(
        status, reason=reason, message="m", ready_owner=draw(st.sampled_from(["", "s"])),
        conflicts=draw(st.integers(0, 2)), target=JobStatus.FAILED, stop_by=draw(st.sampled_from([NOW - 1, NOW + 1])),
    )  # fmt: skip
    queues = status is JobStatus.WAITING and not job.ready_owner
    seen = [SeatStatus.JOINED] if queues else SEEN_SEATS[status]
    those = tuple(a_seat(party, draw(st.sampled_from(seen)), draw(st.sampled_from(["", FULL]))) for party in ALL)
    tasks = () if status in (JobStatus.READY, JobStatus.WAITING) else draw(some_task("a")) + draw(some_task("b"))
    spec = a_spec({"a": (), "b": ("a",)}, ALL)
    return a_view(job, seats=those, tasks=tasks, spec=spec, has_turn=draw(st.booleans()))


@settings(max_examples=400)
@given(some_view())
def test_whatever_is_seen_the_plan_is_legal_the_same_twice_and_moves_nothing_twice(view: JobView) -> None:
    found = plan(view)
    moved = [action.seat.party for action in found if isinstance(action, MoveSeat)]
    assert len(moved) == len(set(moved))
    for action in found:
        if isinstance(action, MoveTask) and action.reason is not None:      # the status follows from the reason
            assert action.new is TaskStatus.STOPPING or task_status_for(action.reason) is action.new


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
