"""What the initiator does until a job has ended everywhere, and what holds for its plan whatever it sees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.reasons import RULES, Author, Reason, task_status_for
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import EndRound, ForceStop, Forget, MoveJob, MoveSeat, MoveTask
from fate_flow.core.planning.view import JobView
from tests.kit.core.job_views import ALL, FULL, C, F, P, R, S, W, moves, plan, settled, stopping, to
from tests.kit.values import GUEST, HOST, NOW, a_job, a_seat, a_spec, a_task, a_view, seats


def test_a_request_to_force_the_stop_is_told_to_those_that_still_drain() -> None:
    rows = (a_task("a", GUEST, C, R), a_task("a", HOST, R, R))
    view = stopping(
        a_seat(GUEST, SeatStatus.DRAINING), a_seat(HOST, SeatStatus.DRAINING), tasks=rows, is_force_stop=True,
        stop_by=NOW + 900_000,
    )  # fmt: skip
    body = {"reason": "stopped_by_user", "message": "enough", "deadline_seconds": 0}
    assert plan(view) == [ForceStop(NOW + 60_000), to(HOST, CommandKind.STOP, argument="canceled", **body)]


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
        EndRound(),
        MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough"),
        MoveSeat(own, SeatStatus.LEFT),
        MoveSeat(host, SeatStatus.LEAVING),
        to(HOST, CommandKind.STATUS, "canceled", reason="stopped_by_user", message="enough"),
    ]


@pytest.mark.parametrize(
    ("statuses", "job_reason", "outcome", "reason", "text"),
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
    statuses: tuple[TaskStatus, ...], job_reason: Reason, outcome: TaskStatus, reason: Reason, text: str
) -> None:
    why = {S: Reason.DONE, P: Reason.NOT_NEEDED, F: Reason.WORKER_ERROR, C: Reason.STOPPED, W: None}
    rows = [
        a_task("a", party, one, R, reason=why[one], message="no data" if one is F else "")
        for party, one in zip((GUEST, HOST), statuses, strict=True)
    ]
    found = plan(stopping(*seats(SeatStatus.DRAINING), tasks=tuple(rows), reason=job_reason))
    assert found[0] == MoveTask("a", 0, R, outcome, reason, text, caused_by="guest 9999")


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
    job = a_job(JobStatus.FAILED, reason=Reason.PARTY_REFUSED, round_number=0, start_time=0)
    found = plan(a_view(job, seats=(a_seat(GUEST, SeatStatus.LEFT), a_seat(HOST, host))))
    assert found == ([Forget()] if forgets else [])


def test_a_job_that_was_accepted_is_never_forgotten_also_when_a_party_did_not_start_it() -> None:
    job = a_job(JobStatus.FAILED, reason=Reason.PARTY_REFUSED, round_number=1, start_time=0)
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
    return a_view(job, seats=those, tasks=tasks, spec=spec, may_begin_round=draw(st.booleans()))


@pytest.mark.long
@settings(max_examples=400)
@given(some_view())
def test_whatever_is_seen_the_plan_is_legal_the_same_twice_and_moves_nothing_twice(view: JobView) -> None:
    found = plan(view)
    moved = [action.seat.party for action in found if isinstance(action, MoveSeat)]
    assert len(moved) == len(set(moved))
    for action in found:
        if isinstance(action, MoveTask) and action.reason is not None:      # the status follows from the reason
            assert action.new is TaskStatus.STOPPING or task_status_for(action.reason) is action.new
