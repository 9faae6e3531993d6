"""What a job that runs waits for, as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Task
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.policy import PolicyAction
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryEvent, RetryRule
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.condition import (
    Restart,
    condition_in_list,
    condition_of,
    condition_of_copy,
    pending_restarts,
    waiting_text,
)
from fate_flow.core.planning.view import JobView
from tests.kit.values import GUEST, HOST, NOW, OTHER, a_job, a_seat, a_spec, a_task, a_view, seats

ALL = (GUEST, HOST, OTHER)
F, R, S, STOPPING = TaskStatus.FAILED, TaskStatus.RUNNING, TaskStatus.SUCCESS, TaskStatus.STOPPING
SILENT = PeerTrouble("10001", NOW - 7_000)


def stopping(*party_statuses: TaskStatus, retries: int = 1, policy: str = "", **view: object) -> JobView:
    """A task over three parties that is being stopped, and may begin again so often."""
    spec = a_spec(parties=ALL)
    rule = RetryRule(max_attempts=retries + 1)
    spec = replace(spec, tasks={name: replace(one, retry=rule) for name, one in spec.tasks.items()})
    rows = tuple(
        a_task("a", party, one, STOPPING, reason=Reason.WORKER_ERROR if one is F else Reason.STOPPED, policy=policy)
        for party, one in zip(ALL, party_statuses, strict=True)
    )
    known = {"spec": spec, "tasks": rows, "seats": seats(SeatStatus.STARTED, *ALL), **view}
    return a_view(known.pop("job", None), **known)


@pytest.mark.parametrize(
    ("view", "found"),
    [
        (stopping(F, STOPPING, S), [Restart("a", 1, (HOST,))]),
        (stopping(F, STOPPING, R), [Restart("a", 1, (HOST, OTHER))]),
        (stopping(F, STOPPING, S, retries=0), []),
        (stopping(STOPPING, STOPPING, R, policy=PolicyAction.RESTART_TASK.value), [Restart("a", 1, ALL)]),
        (stopping(STOPPING, STOPPING, R, policy=PolicyAction.COMPLETE_TASK.value), []),
        (stopping(F, STOPPING, R, job=a_job(reason=Reason.STOPPED_BY_USER)), []),
        (a_view(tasks=(a_task(version=2, retry_at=NOW + 12_000),)), [Restart("a", 2, milliseconds=12_000)]),
        (a_view(tasks=(a_task(version=2, retry_at=NOW),)), []),
        (a_view(), []),
    ],
)
def test_what_begins_again(view: JobView, found: list[Restart]) -> None:
    assert list(pending_restarts(view)) == found


@pytest.mark.parametrize(
    ("restart", "text"),
    [
        (Restart("a", 1, (OTHER,)), "begins again as version 1 when host 10001 has stopped"),
        (Restart("a", 1, (HOST, OTHER)), "begins again as version 1 when host 10000, host 10001 have stopped"),
        (Restart("a", 3, milliseconds=12_000), "begins again as version 3 in 12 s"),
        (Restart("a", 3), "begins again as version 3"),
        (Restart("a", 3, starter=GUEST), "begins again as version 3 when guest 9999 starts it"),
        (Restart("a", 1, (HOST,), starter=GUEST),
         "begins again as version 1 when host 10000 has stopped and guest 9999 starts it"),
    ],
)
def test_it_says_what_that_waits_for(restart: Restart, text: str) -> None:
    assert restart.text == text


@pytest.mark.parametrize(("status", "restarts"), [(JobStatus.RUNNING, True), (JobStatus.STOPPING, False)])
def test_a_job_that_was_stopped_while_its_tasks_restarted_restarts_no_more(status: JobStatus, restarts: bool) -> None:
    view = stopping(F, S, STOPPING, job=a_job(status=status, is_restarting=True))
    assert condition_of(view, {}, 90_000).is_restarting is restarts


def test_a_silent_party_is_given_up_in_a_while_and_then_the_task_begins_again() -> None:
    condition = condition_of(stopping(F, S, STOPPING), {"10001": SILENT, "10009": SILENT}, 90_000)
    silence = "host 10001 has not answered for 7 s; given up in 83 s"
    assert condition.troubles == {OTHER: silence}
    assert condition.text == f"{silence}; a begins again as version 1 when host 10001 has stopped"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (SeatStatus.STARTED, "host 10001 has not answered for 7 s; given up in 83 s"),
        (SeatStatus.STOPPING, "host 10001 has not answered for 7 s"),
        (SeatStatus.JOINED, ""),
    ],
)
def test_only_what_runs_somewhere_waits_for_who_is_there(status: SeatStatus, text: str) -> None:
    view = a_view(seats=(a_seat(GUEST, SeatStatus.STARTED), a_seat(OTHER, status)))
    assert condition_of(view, {"10001": SILENT}, 90_000).text == text


def test_a_copy_waits_for_its_initiator() -> None:
    copy = a_job(party=HOST)
    trouble = {"9999": PeerTrouble("9999", NOW - 7_000, "connection refused")}
    assert condition_of_copy(copy, (), trouble, NOW).text == "guest 9999 has not answered for 7 s (connection refused)"
    assert condition_of_copy(copy, (), {"10001": SILENT}, NOW).text == ""


LATER = {"version": 1, "create_time": NOW - 1_000}


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (a_task("a", HOST, STOPPING, R),
         "a: the share of host 10000 is being stopped; guest 9999 decides what follows"),
        (a_task("a", HOST, F, R), "a: the share of host 10000 has ended as failed; guest 9999 decides what follows"),
        (a_task("a", HOST, S, R), ""),
        (a_task("a", HOST, F, F), ""),                                # it is over everywhere
        (a_task("a", HOST, TaskStatus.CANCELED, R, reason=Reason.PARTY_MISSING), ""),
        (a_task("a", HOST, **LATER), "a begins again as version 1 when guest 9999 starts it"),
        (a_task("a", HOST, R, **LATER), ""),
        (a_task("a", HOST), ""),
        (a_task("a", HOST, version=1, create_time=NOW - 50_000), ""),     # a rerun has made it, before the job started
    ],
)  # fmt: skip
def test_a_copy_says_no_more_of_its_shares_than_this_party_knows(share: Task, text: str) -> None:
    assert condition_of_copy(a_job(party=HOST), (share,), {}, NOW).text == text
    stops = a_job(JobStatus.STOPPING, HOST, target=JobStatus.FAILED)
    assert condition_of_copy(stops, (share,), {}, NOW).text == ""


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ((STOPPING, STOPPING), Restart("a", 1, (HOST, OTHER), starter=GUEST)),
        ((STOPPING, S), Restart("a", 1, (HOST,), starter=GUEST)),
        ((F, TaskStatus.CANCELED), Restart("a", 1, starter=GUEST)),
    ],
)
def test_a_copy_knows_that_a_task_begins_again_when_its_initiator_said_so(
    shares: tuple[TaskStatus, TaskStatus], found: Restart
) -> None:
    rows = [a_task("a", party, one, R) for party, one in zip((HOST, OTHER), shares, strict=True)]
    announced = [replace(rows[0], policy=PolicyAction.RESTART_TASK.value), rows[1]]
    known = condition_of_copy(a_job(party=HOST), announced, {}, NOW)
    assert (known.restarts, known.broken, known.text) == ({"a": found}, {}, f"a {found.text}")
    assert condition_of_copy(a_job(party=HOST), rows, {}, NOW).restarts == {}
    ended = [replace(one, status=F) for one in announced]
    assert condition_of_copy(a_job(party=HOST), ended, {}, NOW).text == "", "its initiator has decided otherwise"


def test_of_many_tasks_that_begin_again_three_are_named() -> None:
    shares = [a_task(name, HOST, **LATER) for name in "abcde"]
    text = condition_of_copy(a_job(party=HOST), shares, {}, NOW).text
    begins = "begins again as version 1 when guest 9999 starts it"
    assert text == f"a {begins}; b {begins}; c {begins}; 2 other tasks begin again"


def test_a_job_that_stops_says_who_has_not() -> None:
    job = a_job(JobStatus.STOPPING, target=JobStatus.FAILED, reason=Reason.TASK_FAILED, stop_by=NOW + 9_500)
    view = stopping(F, STOPPING, S, job=job, seats=seats(SeatStatus.DRAINING, *ALL))
    assert condition_of(view, {}, 90_000).text == "ends as failed when host 10000 has stopped, in 9 s at the latest"


def test_a_job_that_stops_to_wait_for_the_party_that_it_lost_says_so() -> None:
    job = a_job(
        JobStatus.STOPPING, target=JobStatus.FAILED, reason=Reason.PARTY_UNREACHABLE, stop_by=NOW + 9_500,
        round_number=1
    )
    view = stopping(S, STOPPING, S, job=job, seats=seats(SeatStatus.DRAINING, *ALL))
    rule = RetryRule(on_events=frozenset({RetryEvent.PARTY_LOST}), max_interruptions=1)
    waits = condition_of(replace(view, spec=replace(view.spec, retry=rule)), {}, 90_000).text
    assert waits == "waits for the return of the lost party when host 10000 has stopped, in 9 s at the latest"


TROUBLES = {"10001": SILENT}


@pytest.mark.parametrize(
    "view",
    [
        stopping(F, STOPPING, S), stopping(F, STOPPING, R), stopping(F, STOPPING, S, retries=0),
        stopping(F, STOPPING, R, job=a_job(reason=Reason.STOPPED_BY_USER)),
        stopping(STOPPING, STOPPING, R, policy=PolicyAction.RESTART_JOB.value, job=a_job(is_restarting=True)),
        a_view(tasks=(a_task(version=2, retry_at=NOW + 12_000),)), a_view(tasks=(a_task(version=2, retry_at=NOW),)),
        a_view(tasks=(a_task("a", HOST, TaskStatus.WAITING, R, waits="no cores", waits_since=NOW - 1_000),)),
        stopping(
            F, STOPPING, S, seats=seats(SeatStatus.DRAINING, *ALL),
            job=a_job(JobStatus.STOPPING, target=JobStatus.FAILED, reason=Reason.TASK_FAILED, stop_by=NOW + 9_500),
        ),
    ],
)  # fmt: skip
def test_a_list_says_the_same_of_a_job_without_its_document(view: JobView) -> None:
    known = {one.name for one in pending_restarts(view)}
    shares = [replace(one, begins_again=one.key.name in known) for one in view.tasks]
    whole = condition_of(view, TROUBLES, 90_000)
    assert condition_in_list(view.job, view.seats, shares, TROUBLES, NOW, 90_000) == whole


def test_a_list_does_not_say_how_a_job_ends_that_may_wait_for_the_party_that_it_lost() -> None:
    job = a_job(JobStatus.STOPPING, target=JobStatus.FAILED, reason=Reason.PARTY_UNREACHABLE, stop_by=NOW + 9_500)
    drains = seats(SeatStatus.DRAINING, *ALL)
    shares = [a_task("a", HOST, STOPPING, STOPPING)]
    ends = "its run ends when host 10000 has stopped, in 9 s at the latest"
    assert condition_in_list(job, drains, shares, {}, NOW, 90_000).text == ends


def test_a_list_waits_for_no_party_that_was_given_up() -> None:
    view = stopping(F, S, STOPPING)
    given_up = (*seats(SeatStatus.STARTED, GUEST, HOST), a_seat(OTHER, SeatStatus.STOPPING))
    shares = [replace(one, begins_again=True) for one in view.tasks]
    assert condition_in_list(view.job, given_up, shares, {}, NOW, 90_000).text == "a begins again as version 1"


def test_a_list_of_another_party_says_what_that_party_knows() -> None:
    copy, share = a_job(party=HOST), a_task("a", HOST, STOPPING, R)
    known = condition_of_copy(copy, (share,), TROUBLES, NOW)
    assert condition_in_list(copy, (), (share,), TROUBLES, NOW, 90_000) == known


WAITS = "waits in Slurm for 2 nodes: Resources"


def test_a_share_without_a_place_says_since_when_it_waits() -> None:
    host = a_task("a", HOST, TaskStatus.WAITING, R, waits=WAITS, waits_since=NOW - 40_000)
    view = a_view(tasks=(a_task("a", GUEST, R, R), host), seats=seats(SeatStatus.STARTED, GUEST, HOST))
    said = "host 10000: waits in Slurm for 2 nodes since 40 s: Resources"
    assert condition_of(view, {}, 0).text == said
    assert condition_of_copy(a_job(status=JobStatus.RUNNING), [host], {}, NOW).text == said


@pytest.mark.parametrize(("waits", "said"), [
    ("waits in Slurm for 2 nodes: Resources (squeue --start there says when)",
     "waits in Slurm for 2 nodes since 40 s: Resources (squeue --start there says when)"),
    ("waits in Ray for resources (see there: ray status)",
     "waits in Ray for resources since 40 s (see there: ray status)"),
    ("waits in Kueue", "waits in Kueue since 40 s"),
])  # fmt: skip
def test_the_time_stands_before_the_reason_of_the_engine_and_what_to_do(waits: str, said: str) -> None:
    share = a_task("a", HOST, TaskStatus.WAITING, R, waits=waits, waits_since=NOW - 40_000)
    assert waiting_text(share, NOW) == said


@pytest.mark.parametrize("share", [
    a_task("a", HOST, R, R, waits=WAITS), a_task("a", HOST, F, STOPPING, waits=WAITS),
    a_task("a", HOST, TaskStatus.WAITING, TaskStatus.WAITING, waits=WAITS),
])  # fmt: skip
def test_what_a_share_waited_for_is_past_when_it_has_begun_or_its_task_has_ended(share: Task) -> None:
    view = a_view(tasks=(a_task("a", GUEST, share.status, share.status), share))
    assert condition_of(view, {}, 0).waiting == {}
