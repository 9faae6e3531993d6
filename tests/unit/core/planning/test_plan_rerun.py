"""How an ended job begins again: which tasks run anew, what is sent to whom, and how the parties' answers count."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE, UNREACHABLE, BadRequest, Conflict
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.policy import Policy, PolicyAction, PolicyEvent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import UNTRIED
from fate_flow.core.model.status import JOB_UNFINISHED, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import (
    AllRejoined,
    BeginAgain,
    Forget,
    MoveJob,
    MoveSeat,
    NewVersion,
    Rejoin,
    Send,
    Why,
)
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.replies import handle_reply, must_ask_later
from fate_flow.core.planning.rerun import plan_rerun, tasks_anew, why_nothing
from fate_flow.core.planning.view import JobView
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from fate_flow.core.wire.v1.job_answers import STILL_ENDS
from tests.kit.values import GUEST, HOST, JOB_ID, OTHER, a_job, a_seat, a_spec, a_task, a_view, seats

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
IDS = {name: name * 32 for name in DIAMOND}
T = TaskStatus


@pytest.mark.parametrize(
    ("broken", "wanted", "anew"),
    [
        ("", RerunRequest(), ""),
        ("d", RerunRequest(), "d"),
        ("bd", RerunRequest(), "bd"),
        ("c", RerunRequest(), "cd"),                # nothing keeps its success whose inputs are made again
        ("abcd", RerunRequest(), "abcd"),
        ("", RerunRequest("b"), "bd"),
        ("", RerunRequest("a"), "abcd"),
        ("cd", RerunRequest("b"), "bcd"),
        ("d", RerunRequest("d"), "d"),
        ("", RerunRequest("b", force=True), "bd"),
        ("d", RerunRequest(force=True), "abcd"),
        ("", RerunRequest(force=True), "abcd"),
    ],
)
def test_which_tasks_run_anew(broken: str, wanted: RerunRequest, anew: str) -> None:
    statuses = {name: T.CANCELED if name in broken else T.SUCCESS for name in DIAMOND}
    assert tasks_anew(a_spec(DIAMOND), statuses, wanted) == frozenset(anew)


COMPLETES = Policy(PolicyAction.COMPLETE_JOB, frozenset({PolicyEvent.TASK_COMPLETED}))


def a_completed(wanted: RerunRequest, changed: Collection[str] = ()) -> frozenset[str]:
    """Of a job that the success of `work` has completed, while `service` ran and before `late` began."""
    spec = a_spec({"read": (), "work": ("read",), "service": (), "late": ("work",), "report": ("read",)})
    tasks = {**spec.tasks, "work": replace(spec.tasks["work"], policies=(COMPLETES,))}
    statuses = {
        "read": T.SUCCESS, "work": T.SUCCESS, "report": T.SUCCESS, "service": T.CANCELED, "late": T.CANCELED,
    }  # fmt: skip
    return tasks_anew(replace(spec, tasks=tasks), statuses, wanted, changed, is_complete=True)


def test_a_rerun_of_what_a_rule_has_completed_begins_nothing() -> None:
    assert a_completed(RerunRequest()) == frozenset()


@pytest.mark.parametrize("wanted", [RerunRequest("work"), RerunRequest("read"), RerunRequest(force=True)])
def test_what_the_completion_cut_off_begins_again_beside_what_completes_the_job(wanted: RerunRequest) -> None:
    assert a_completed(wanted) >= {"work", "service", "late"}


def test_parameters_that_were_changed_since_are_a_reason_to_begin_again() -> None:
    assert a_completed(RerunRequest(), ["work"]) == {"work", "service", "late"}


def test_a_rerun_that_would_never_end_is_refused() -> None:
    with pytest.raises(Conflict, match=r"\(report\) completes the job; late, service, .* --force runs all"):
        a_completed(RerunRequest("report"))


def test_a_completed_job_says_why_nothing_begins() -> None:
    done = a_job(JobStatus.SUCCESS, reason=Reason.COMPLETED_BY_POLICY, message="complete_job after a")
    tasks = a_task("a", GUEST, T.SUCCESS), a_task("b", GUEST, T.CANCELED)
    view = a_view(done, spec=a_spec({"a": (), "b": ()}), tasks=tasks)
    assert plan_rerun(view, RerunRequest(), IDS) == ()
    assert why_nothing(done, view.spec).startswith("it was completed by a policy (complete_job after a)")
    assert why_nothing(a_job(JobStatus.SUCCESS, reason=Reason.DONE), view.spec).startswith("all 2 have succeeded")


def test_what_was_passed_is_kept() -> None:
    assert tasks_anew(a_spec({"a": ()}), {"a": T.PASS}, RerunRequest()) == frozenset()


def test_an_unknown_component_is_named_with_those_there_are() -> None:
    with pytest.raises(BadRequest, match=r"component_name: 'x' is not one of this job's components: a, b, c, d"):
        tasks_anew(a_spec(DIAMOND), dict.fromkeys(DIAMOND, T.SUCCESS), RerunRequest("x"))


def ended(status: JobStatus = JobStatus.FAILED, is_plain_v1: bool = False, **job: Any) -> JobView:
    """`a` has succeeded, `b` failed in its second version."""
    rows = tuple(
        a_task(name, party, one, version=version)
        for name, one, version in (("a", T.SUCCESS, 0), ("b", T.FAILED, 1))
        for party in (GUEST, HOST)
    )
    reason = Reason.DONE if status is JobStatus.SUCCESS else Reason.TASK_FAILED
    return a_view(
        a_job(status, **{"reason": reason, "message": "b broke", "caused_by": "host 10000", "run": 3, **job}),
        spec=a_spec({"a": (), "b": ("a",)}, auto_retries=2), tasks=rows,
        seats=(a_seat(GUEST, SeatStatus.LEFT, run=3), a_seat(HOST, SeatStatus.LEAVING, run=3, is_plain_v1=is_plain_v1)),
    )  # fmt: skip


def test_the_job_waits_in_its_next_run_and_every_party_is_told_in_one_command() -> None:
    view = ended()
    guest, host = view.seats
    task = {"b": {"version": 2, "incarnation": "b" * 32, "auto_retries": 2}}
    last = {"status": "failed", "reason": "task_failed", "message": "b broke", "caused_by": "host 10000"}
    body = {"tasks": task, "kept": {"a": 0}, "last": last}
    assert list(plan_rerun(view, RerunRequest(), IDS)) == [
        BeginAgain("not every party knows yet that it begins again: host 10000"),
        NewVersion("b", 2, "b" * 32, 2, 0, UNTRIED, Why(message="run 4 begins")),
        Rejoin(guest), Rejoin(host),
        Send(Command(CommandKind.STATUS, JOB_ID, GUEST, 4, argument="waiting", body=body)),
        Send(Command(CommandKind.STATUS, JOB_ID, HOST, 4, argument="waiting", body=body)),
    ]  # fmt: skip


def test_a_plain_v1_party_gets_the_row_of_each_new_version_and_then_the_status() -> None:
    sent = [
        one.command
        for one in plan_rerun(ended(is_plain_v1=True), RerunRequest(force=True), IDS)
        if isinstance(one, Send)
    ]
    host = [one for one in sent if one.to == HOST]
    assert [(one.kind, one.run, one.task, one.version, one.argument) for one in host] == [
        (CommandKind.TASK_CREATE, 4, "a", 1, ""), (CommandKind.TASK_CREATE, 4, "b", 2, ""),
        (CommandKind.STATUS, 4, "", 0, "waiting"),
    ]  # fmt: skip
    body = host[0].body
    assert (body["task_version"], body["status"], body["incarnation"]) == (1, "waiting", "a" * 32)
    assert host[2].body == {}


def test_a_job_in_which_all_has_succeeded_has_no_plan() -> None:
    view = ended(JobStatus.SUCCESS)
    done = tuple(a_task(name, party, T.SUCCESS) for name in "ab" for party in (GUEST, HOST))
    view = a_view(view.job, spec=view.spec, tasks=done, seats=view.seats)
    assert plan_rerun(view, RerunRequest(), IDS) == ()
    assert plan_rerun(view, RerunRequest("b"), IDS) != ()


@pytest.mark.parametrize("status", sorted(JOB_UNFINISHED, key=lambda one: one.value))
def test_only_a_job_that_is_over_is_rerun(status: JobStatus) -> None:
    with pytest.raises(Conflict, match=f"job {JOB_ID} is {status.value}: only a job that is over can be rerun"):
        plan_rerun(ended(status), RerunRequest(force=True), IDS)


# ---------------------------------------------------------------------- until all parties know


def rejoining(*statuses: SeatStatus, **job: Any) -> JobView:
    known = tuple(
        a_seat(party, status, "is not known" if status is SeatStatus.REFUSED else "", run=1)
        for party, status in zip((GUEST, HOST, OTHER), statuses, strict=False)
    )
    row = a_job(JobStatus.WAITING, run=1, rerun_signal=True, **job)
    return a_view(row, seats=known, tasks=(), may_begin_round=True)


def test_a_reservation_round_does_not_begin_before_every_party_has_taken_its_seat() -> None:
    assert plan_job(rejoining(SeatStatus.JOINED, SeatStatus.JOINING)) == ()
    assert plan_job(rejoining(SeatStatus.JOINED, SeatStatus.JOINED)) == (AllRejoined(),)


@pytest.mark.parametrize("reason", [None, Reason.STOPPED_BY_USER])
def test_a_party_that_refuses_ends_the_run_and_so_does_a_user(reason: Reason | None) -> None:
    status = SeatStatus.JOINING if reason else SeatStatus.REFUSED
    plan = plan_job(rejoining(SeatStatus.JOINED, status, SeatStatus.JOINING, reason=reason))
    move = next(one for one in plan if isinstance(one, MoveJob))
    assert move.new is (JobStatus.CANCELED if reason else JobStatus.FAILED)
    assert reason or (move.reason, move.message, move.caused_by) == (
        Reason.PARTY_REFUSED, "host 10000: is not known", "host 10000",
    )  # fmt: skip
    described = [(str(one.command.to), one.command.run, one.command.argument) for one in plan if isinstance(one, Send)]
    others = ["host 10000", "host 10001"] if reason else ["host 10001"]
    assert described == [(party, 1, move.new.value) for party in others]


def test_a_rerun_that_is_refused_is_not_forgotten() -> None:
    for run, forgotten in ((0, (Forget(),)), (1, ())):
        job = a_job(JobStatus.FAILED, run=run, round_number=0, reason=Reason.PARTY_REFUSED)
        assert plan_job(a_view(job, seats=seats(SeatStatus.LEFT))) == forgotten


def answered(
    retcode: int, status: SeatStatus = SeatStatus.JOINING, argument: str = "waiting", run: int = 1,
    is_plain_v1: bool = False
) -> list[tuple[SeatStatus, str]]:
    seat = a_seat(HOST, status, run=1, is_plain_v1=is_plain_v1)
    command = Command(CommandKind.STATUS, JOB_ID, HOST, run, argument=argument)
    actions = handle_reply(seat, command, retcode, "m", {}).actions
    return [(one.new, one.message) for one in actions if isinstance(one, MoveSeat)]


def test_what_the_answer_to_a_rerun_means() -> None:
    assert answered(0) == [(SeatStatus.JOINED, "")]
    for retcode in (NOT_EFFECTIVE, UNREACHABLE):
        assert answered(retcode) == []
    for retcode in (100, 101, 103, 108):
        assert answered(retcode) == [(SeatStatus.REFUSED, "m")]
    assert answered(NOT_EFFECTIVE, is_plain_v1=True) == [(SeatStatus.JOINED, "")]  # it was told before


def test_an_answer_about_another_run_or_another_status_means_nothing() -> None:
    assert answered(0, run=0) == []
    assert answered(0, argument="failed") == []
    for status in (SeatStatus.LEAVING, SeatStatus.UNCONFIRMED):
        assert answered(0, status) == []
        assert answered(0, status, "failed") == [(SeatStatus.LEFT, "")]


@pytest.mark.parametrize(
    ("retcode", "run", "data", "expected"),
    [
        (NOT_EFFECTIVE, 1, {STILL_ENDS: True}, True), (NOT_EFFECTIVE, 1, {}, False), (NOT_EFFECTIVE, 1, None, False),
        (NOT_EFFECTIVE, 0, {STILL_ENDS: True}, False), (0, 1, {STILL_ENDS: True}, False),
    ],
)  # fmt: skip
def test_who_still_ends_the_last_run_is_asked_again(retcode: int, run: int, data: object, expected: bool) -> None:
    command = Command(CommandKind.STATUS, JOB_ID, HOST, run, argument="waiting")
    assert must_ask_later(a_seat(HOST, SeatStatus.JOINING, run=1), command, retcode, data) is expected
