"""A task that can do without some hosts: who is missing, who goes on, how it ends, and what follows on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import CommandKind, Seat, Task
from fate_flow.core.model.policy import Policy, PolicyAction, PolicyEvent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryRule
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import Action, LoseShares, MoveJob, MoveSeat, MoveTask, NewVersion, Send
from fate_flow.core.planning.view import JobView
from tests.kit.core.policy_views import plan
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

ALL = (GUEST, HOST, OTHER)
S, R, F, C, W = TaskStatus.SUCCESS, TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.WAITING
STOPPING = TaskStatus.STOPPING
WHY = {F: Reason.WORKER_ERROR, S: Reason.DONE, C: Reason.STOPPED}


def rows(*party_statuses: TaskStatus, status: TaskStatus = R, name: str = "a", **fields: Any) -> tuple[Task, ...]:
    return tuple(
        a_task(name, party, one, status, reason=WHY.get(one), **fields)
        for party, one in zip(ALL, party_statuses, strict=True)
    )


def of_job(*tasks: Task, fewest: int = 1, graph: Any = None, goes_on: bool = True, **view: Any) -> JobView:
    """A running job of a guest and two hosts, of which so many are enough for each task."""
    spec = a_spec(graph, ALL)
    minimum = {"min_available": {"host": fewest} if fewest < 2 else {},
               "goes_on_without": frozenset({"host"} if goes_on else ())}  # fmt: skip
    rules = view.pop("rules", {})
    tasks_of = {name: replace(one, **minimum, **rules) for name, one in spec.tasks.items()}
    known = {"seats": seats(SeatStatus.STARTED, *ALL), **view}
    return a_view(known.pop("job", None), spec=replace(spec, tasks=tasks_of), tasks=tasks, **known)


def described(found: list[Action], kind: CommandKind) -> list[tuple[Party, Any]]:
    return [(one.command.to, one.command.body) for one in found
            if isinstance(one, Send) and one.command.kind is kind]  # fmt: skip


def ended(found: list[Action]) -> MoveJob:
    [one] = [action for action in found if isinstance(action, MoveJob)]
    return one


# ---------------------------------------------------------------------- a share breaks


def test_the_task_goes_on_while_enough_are_left() -> None:
    """Volcano 19, 55: some failed pods are tolerated."""
    assert plan(of_job(*rows(R, F, R))) == []
    assert plan(of_job(*rows(S, F, S)))[0] == MoveTask("a", 0, R, S, Reason.DONE, caused_by="guest 9999")


@pytest.mark.parametrize(
    ("statuses", "fewest", "goes_on"),
    [
        ((R, F, F), 1, True),          # too few are left (Volcano 17, 18)
        ((R, F, R), 2, True),          # all are needed, as when nobody says anything
        ((F, R, R), 1, True),          # the guest is of another role
        ((R, F, R), 1, False),         # the others would wait for it
    ],
)
def test_otherwise_the_gang_breaks(statuses: tuple[TaskStatus, ...], fewest: int, goes_on: bool) -> None:
    assert plan(of_job(*rows(*statuses), fewest=fewest, goes_on=goes_on))[0].new is STOPPING


def test_a_rule_for_the_worker_comes_before_the_minimum_and_the_gang_is_not_broken() -> None:
    restart = Policy(PolicyAction.RESTART_TASK, frozenset({PolicyEvent.WORKER_FAILED}))
    gang = Policy(PolicyAction.FAIL_JOB, frozenset({PolicyEvent.GANG_BROKEN}))
    assert plan(of_job(*rows(R, F, R), rules={"policies": (restart,)}))[0].policy == "restart_task"
    assert plan(of_job(*rows(R, F, R), rules={"policies": (gang,)})) == []
    broken = of_job(*rows(R, F, F), rules={"policies": (gang,)})
    assert ended(plan(broken)).reason is Reason.FAILED_BY_POLICY


# ---------------------------------------------------------------------- what follows on it


CHAIN = {"a": (), "b": ("a",)}


def test_who_is_missing_is_passed_over_in_what_follows_and_the_others_are_told() -> None:
    view = of_job(*rows(S, F, S, status=S), *rows(W, W, W, name="b", status=W), graph=CHAIN, job=a_job(progress=50))
    found = plan(view)
    assert found[0] == MoveTask("b", 0, W, R)
    body = {"incarnation": INCARNATION, "without": ["host 10000"]}
    assert described(found, CommandKind.TASK_START) == [(GUEST, body), (OTHER, body)]
    stop = {"incarnation": INCARNATION, "reason": "party_missing"}
    assert described(found, CommandKind.TASK_STOP) == [(HOST, stop)]


@pytest.mark.parametrize("passed_over", [W, C])
def test_nobody_waits_for_who_is_passed_over(passed_over: TaskStatus) -> None:
    done = rows(S, F, S, status=S)
    view = of_job(*done, *rows(R, passed_over, S, name="b"), graph=CHAIN, job=a_job(progress=50))
    assert plan(view) == []
    view = of_job(*done, *rows(S, passed_over, S, name="b"), graph=CHAIN, job=a_job(progress=50))
    assert plan(view)[0] == MoveTask("b", 0, R, S, Reason.DONE, caused_by="guest 9999")


def test_a_component_that_starts_with_fewer_still_needs_those_that_it_started_with() -> None:
    done, broken = rows(S, F, S, status=S), rows(R, C, F, name="b")
    found = plan(of_job(*done, *broken, graph=CHAIN, goes_on=False))
    assert found[0].new is STOPPING
    assert [to for to, _ in described(found, CommandKind.TASK_STOP)] == [GUEST]
    drained = rows(C, W, F, name="b", status=STOPPING)
    found = plan(of_job(*done, *drained, graph=CHAIN, goes_on=False, rules={"retry": RetryRule()}))
    assert [one.version for one in found if isinstance(one, NewVersion)] == [1], "nobody waits for who is passed over"


def test_what_cannot_begin_for_want_of_parties_ends_the_job_and_says_who_is_missing() -> None:
    """Two inputs lack one host each; together no host is left."""
    graph = {"a": (), "z": (), "b": ("a", "z")}
    tasks = (*rows(S, F, S, status=S), *rows(S, S, F, name="z", status=S), *rows(W, W, W, name="b", status=W))
    move = ended(plan(of_job(*tasks, graph=graph, job=a_job(progress=66))))
    assert (move.reason, move.caused_by) == (Reason.TASK_FAILED, "host 10000")
    assert move.message == "b needs 1 of its parties of role host, 0 are left: without host 10000, host 10001"


def test_what_nobody_can_take_part_in_ends_the_job_too() -> None:
    completed = Policy(PolicyAction.COMPLETE_TASK, frozenset({PolicyEvent.WORKER_FAILED}))
    tasks = (*rows(C, F, C, status=S), *rows(W, W, W, name="b", status=W))
    view = of_job(*tasks, graph=CHAIN, fewest=2, rules={"policies": (completed,)}, job=a_job(progress=50))
    move = ended(plan(view))
    assert (move.reason, move.message) == (Reason.TASK_FAILED, "b needs 1 of its parties of role guest, 0 are left: "
                                           "without guest 9999")  # fmt: skip


# ---------------------------------------------------------------------- the end


def test_the_job_is_a_partial_success_and_names_who_is_missing() -> None:
    found = plan(of_job(*rows(S, F, S, status=S), job=a_job(progress=100)))
    assert ended(found) == MoveJob(JobStatus.SUCCESS, Reason.DONE, "without host 10000", missing=("host 10000",))
    body = {"reason": "done", "message": "without host 10000", "missing": ["host 10000"]}
    assert described(found, CommandKind.STATUS) == [(HOST, body), (OTHER, body)]


def test_a_full_success_names_nobody() -> None:
    found = plan(of_job(*rows(S, S, S, status=S), job=a_job(progress=100)))
    assert ended(found) == MoveJob(JobStatus.SUCCESS, Reason.DONE)
    assert "missing" not in described(found, CommandKind.STATUS)[0][1]


# ---------------------------------------------------------------------- a party that does not answer


TEXT = "party 10000 has not answered for 90 s"
SILENT = a_seat(HOST, SeatStatus.STARTED, TEXT, silent_since=NOW - 1)


def with_silence(*tasks: Task, seat: Seat = SILENT, **view: Any) -> JobView:
    return of_job(*tasks, seats=(a_seat(GUEST, SeatStatus.STARTED), seat, a_seat(OTHER, SeatStatus.STARTED)), **view)


def test_the_job_goes_on_without_a_party_that_it_can_do_without() -> None:
    found = plan(with_silence(*rows(R, R, R), *rows(W, W, W, name="b", status=W), graph=CHAIN))
    body = {"reason": "party_unreachable", "message": TEXT, "deadline_seconds": None, "caused_by": "host 10000"}
    assert found[:2] == [MoveSeat(SILENT, SeatStatus.STOPPING, TEXT), LoseShares(HOST, TEXT)]
    assert described(found, CommandKind.STOP) == [(HOST, body)]
    assert len(found) == 3


@pytest.mark.parametrize(
    ("tasks", "view"),
    [
        (rows(R, R, F), {}),                              # another is missing already
        (rows(R, R, R), {"fewest": 2}),
        (rows(R, R, R), {"goes_on": False}),              # it has begun, and the others would wait
    ],
)
def test_a_party_that_is_needed_ends_the_job(tasks: tuple[Task, ...], view: Any) -> None:
    assert ended(plan(with_silence(*tasks, **view))).reason is Reason.PARTY_UNREACHABLE


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_party_is_lost_while_its_gang_is_stopped_and_the_next_version_begins_without_it(goes_on: bool) -> None:
    """What was stopped for the restart is not broken: the minimum is asked of the next version."""
    draining = rows(C, STOPPING, F, status=STOPPING)
    found = plan(with_silence(*draining, goes_on=goes_on, rules={"retry": RetryRule()}))
    assert found[:2] == [MoveSeat(SILENT, SeatStatus.STOPPING, TEXT), LoseShares(HOST, TEXT)]


def test_a_party_that_the_next_version_needs_ends_the_job() -> None:
    draining = rows(C, STOPPING, F, status=STOPPING)
    found = plan(with_silence(*draining, fewest=2, rules={"retry": RetryRule()}))
    assert ended(found).reason is Reason.PARTY_UNREACHABLE


def test_a_rule_for_silence_comes_before_the_minimum() -> None:
    cancel = Policy(PolicyAction.CANCEL_JOB, frozenset({PolicyEvent.PARTY_UNREACHABLE}))
    assert ended(plan(with_silence(*rows(R, R, R), rules={"policies": (cancel,)}))).reason is Reason.STOPPED_BY_POLICY


def lost(**fields: Any) -> tuple[Task, ...]:
    """Its share was lost with the party."""
    own, gone, other = rows(R, F, R)
    return own, replace(gone, reason=Reason.PARTY_UNREACHABLE, message=TEXT), replace(other, **fields)


GIVEN_UP = replace(SILENT, status=SeatStatus.STOPPING)


def test_what_is_lost_with_a_party_breaks_nothing() -> None:
    assert plan(with_silence(*lost(), seat=GIVEN_UP)) == []


def test_the_job_ends_without_waiting_for_who_was_given_up() -> None:
    done = tuple(replace(row, status=S, party_status=S) if row.party_status is R else replace(row, status=S)
                 for row in lost())  # fmt: skip
    found = plan(with_silence(*done, seat=GIVEN_UP, job=a_job(progress=100)))
    assert MoveSeat(GIVEN_UP, SeatStatus.UNCONFIRMED, TEXT) in found
    move = ended(found)
    assert (move.missing, move.unconfirmed) == (("host 10000",), ("host 10000",))
    drained = replace(GIVEN_UP, status=SeatStatus.DRAINING)
    found = plan(with_silence(*done, seat=drained, job=a_job(progress=100)))
    assert MoveSeat(drained, SeatStatus.LEAVING) in found
    assert ended(found).unconfirmed == ()


def test_the_others_may_be_tried_again_without_it() -> None:
    own, gone, other = lost()
    drained = (replace(own, status=STOPPING, party_status=C, reason=Reason.STOPPED), replace(gone, status=STOPPING),
               replace(other, status=STOPPING, party_status=F, reason=Reason.WORKER_KILLED))  # fmt: skip
    found = plan(with_silence(*drained, seat=GIVEN_UP, rules={"retry": RetryRule()}))
    assert found[0] == MoveTask("a", 0, STOPPING, F, Reason.WORKER_KILLED, caused_by="host 10001")
    [again] = [one for one in found if isinstance(one, NewVersion)]
    assert (again.version, again.incarnation) == (1, FRESH_ID)


def test_who_was_given_up_is_not_stopped_again() -> None:
    view = with_silence(*lost(), seat=GIVEN_UP, job=a_job(reason=Reason.STOPPED_BY_USER))
    found = plan(view)
    assert [one.seat.party for one in found if isinstance(one, MoveSeat)] == [GUEST, OTHER]
    assert [to for to, _ in described(found, CommandKind.STOP)] == [GUEST, OTHER]
