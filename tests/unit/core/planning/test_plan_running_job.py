"""What the initiator does about a job that runs: its tasks, their retries, what ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import CommandKind, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryEvent, RetryRule, Tries
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import (
    AllRejoined,
    EndRound,
    MoveJob,
    MoveSeat,
    MoveTask,
    NewVersion,
    Progress,
    RequeueJob,
    Send,
    Why,
)
from fate_flow.core.planning.view import JobView
from tests.kit.core.job_views import ALL, C, F, P, R, S, T, W, moves, plan, settled, task_to, to
from tests.kit.values import (
    FRESH_ID,
    GUEST,
    HOST,
    INCARNATION,
    NOW,
    OTHER,
    a_job,
    a_seat,
    a_spec,
    a_task,
    a_view,
    seats,
)


def task_rows(name: str, *party_statuses: TaskStatus, status: TaskStatus, **fields: object) -> tuple:
    """The rows of a task at guest, host and other, as many as there are statuses."""
    return tuple(
        a_task(name, party, one, status, **fields) for party, one in zip(ALL, party_statuses, strict=False)
    )


def test_what_has_begun_to_run_ends_its_reservation_round_and_starts_the_first_task() -> None:
    assert plan(a_view(a_job(ready_owner="scheduler"))) == [
        EndRound(),
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
def test_a_task_that_runs_or_drains_takes_capacity(busy: TaskStatus) -> None:
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
        RequeueJob("retry_backoff: a begins again", NOW + LONG),
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
        resting(seats=(a_seat(GUEST, SeatStatus.STARTED), a_seat(HOST, SeatStatus.STARTED, is_plain_v1=True))),
    ],
    ids=["soon", "runs", "runs elsewhere", "drains", "plain v1"],
)
def test_it_keeps_them(view: JobView) -> None:
    assert not moves(plan(view), RequeueJob)


def test_with_something_else_to_do_it_does_that() -> None:
    assert [one.name for one in moves(plan(resting(a_task("b"))), MoveTask)] == ["b"]
    assert not moves(plan(resting(a_task("b"))), RequeueJob)


@pytest.mark.parametrize(("status", "retry_at", "goes_on"), [
    (SeatStatus.JOINED, NOW, True), (SeatStatus.JOINED, NOW + 1, False), (SeatStatus.JOINING, NOW, False)])  # fmt: skip
def test_it_applies_anew_when_it_is_due_and_every_party_knows(
    status: SeatStatus, retry_at: int, goes_on: bool
) -> None:
    job = a_job(JobStatus.WAITING, rerun_signal=True, retry_at=retry_at, round_number=1)
    view = a_view(job, seats=(a_seat(GUEST), a_seat(HOST, status)), tasks=())
    assert plan(view) == ([AllRejoined()] if goes_on else [])


def test_a_party_that_has_ended_it_meanwhile_ends_the_rest() -> None:
    job = a_job(JobStatus.WAITING, rerun_signal=True, retry_at=NOW + LONG, round_number=1)
    lost = a_seat(HOST, SeatStatus.REFUSED, "is failed (initiator_lost)")
    [move] = moves(plan(a_view(job, seats=(a_seat(GUEST), lost), tasks=())), MoveJob)
    assert (move.reason, move.message) == (Reason.PARTY_REFUSED, "host 10000: is failed (initiator_lost)")


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


@pytest.mark.parametrize(
    ("reason", "attempts", "says"),
    [
        (Reason.WORKER_ERROR, 2, {"begins_again": True}), (Reason.WORKER_ERROR, 1, {}),
        (Reason.STOPPED_BY_USER, 2, {}),
    ],
)
def test_who_is_stopped_hears_whether_the_task_begins_again_and_the_rows_say_it(
    reason: Reason, attempts: int, says: dict[str, object]
) -> None:
    spec = a_spec(parties=(GUEST, HOST))
    rule = RetryRule(max_attempts=attempts)
    spec = replace(spec, tasks={name: replace(one, retry=rule) for name, one in spec.tasks.items()})
    rows = (a_task("a", GUEST, F, R, reason=reason), a_task("a", HOST, R))
    found = plan(a_view(spec=spec, tasks=rows))
    [stop] = [one.command for one in moves(found, Send)]
    assert (stop.kind, stop.body) == (
        CommandKind.TASK_STOP, {"incarnation": INCARNATION, "caused_by": "guest 9999", **says}
    )
    assert [one.begins_again for one in moves(found, MoveTask)] == [bool(says)], "lists read it from the rows"


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
    [move, described] = plan(draining(*rows, message="why"))
    by = next(party for party, row in zip(ALL, rows, strict=False) if (row[1] or Reason.WORKER_ERROR) is reason)
    assert move == MoveTask("a", 0, TaskStatus.STOPPING, outcome, reason, "why", caused_by=str(by))
    assert described == settled(HOST, "a", outcome, reason, "why", by)


def test_the_exit_code_of_the_failed_worker_is_part_of_how_its_task_has_ended() -> None:
    view = draining((C, Reason.STOPPED, 1), (F, Reason.WORKER_KILLED, 2))
    view = replace(view, tasks=(view.tasks[0], replace(view.tasks[1], exit_code=3)))
    [move, *described] = plan(view)
    assert move == MoveTask(
        "a", 0, TaskStatus.STOPPING, F, Reason.WORKER_KILLED, caused_by="host 10000", exit_code=3
    )
    assert [send.command.body["exit_code"] for send in described] == [3] * len(described)


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
    text = "party 9999 was silent for 120 s"
    rows = (
        a_task("a", GUEST, C, F, reason=Reason.STOPPED, caused_by="guest 9999"),
        a_task("a", HOST, F, F, reason=Reason.INITIATOR_LOST, message=text, caused_by="guest 9999"),
    )
    [move] = moves(plan(a_view(tasks=rows)), MoveJob)
    assert (move.reason, move.caused_by, move.target) == (Reason.INITIATOR_LOST, "guest 9999", JobStatus.FAILED)
    assert move.message == f"a failed on host 10000: {text}"


def test_the_exit_code_of_the_failed_worker_is_the_jobs_and_every_party_is_told() -> None:
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
def test_a_request_to_stop_comes_before_anything_else(reason: Reason, target: JobStatus) -> None:
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


def test_a_task_without_a_place_goes_back_to_the_queue_whether_the_job_has_a_retry_rule_or_not() -> None:
    view = draining((F, Reason.NOT_PLACED, 1), (C, Reason.STOPPED, 2), (C, Reason.STOPPED, 3), retries=0)
    [again] = moves(plan(view), NewVersion)
    assert again.tries == Tries()
    assert again.retry_at > NOW + LONG, "the job releases its cores until then"


def test_a_job_that_does_not_wait_for_capacity_fails_without_a_place() -> None:
    view = draining((F, Reason.NOT_PLACED, 1), (C, Reason.STOPPED, 2), (C, Reason.STOPPED, 3), retries=5)
    rule = RetryRule(on_events=frozenset({RetryEvent.ERROR}))
    spec = replace(view.spec, tasks={name: replace(one, retry=rule) for name, one in view.spec.tasks.items()})
    assert moves(plan(replace(view, spec=spec)), NewVersion) == []
