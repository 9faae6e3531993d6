"""A job that lost a party and waits for its return: when it does, and what it makes anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import UNSAID, RetryEvent, RetryRule, Tries
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import BeginAgain, EndRound, MakeAnew, MoveJob, NewVersion, Rejoin, Send, Why
from fate_flow.core.planning.party_return import comes_back, plan_missing_shares
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.replies import handle_reply
from fate_flow.core.planning.view import JobView
from fate_flow.jobspec.fate_v1.job_parameters import job_block
from fate_flow.jobspec.text.document import Findings, Node
from tests.kit.values import FRESH_ID, GUEST, HOST, JOB_ID, NOW, a_job, a_seat, a_spec, a_task, a_view

RETURNS = RetryRule(on_events=UNSAID | {RetryEvent.PARTY_LOST}, max_interruptions=2, duration=600)
TEXT = "party 10000 has not answered for 90 s"
S, C, W = TaskStatus.SUCCESS, TaskStatus.CANCELED, TaskStatus.WAITING
CHAIN = {"a": (), "b": ("a",)}


def lost(
    rule: RetryRule = RETURNS, status: JobStatus = JobStatus.FAILED, is_plain_v1: bool = False, **job: Any
) -> JobView:
    """It has just ended since the host was silent, while the second of its two tasks ran."""
    fields = {"reason": Reason.PARTY_UNREACHABLE, "message": TEXT, "caused_by": "host 10000", "run": 3, **job}
    rows = [a_task("a", party, S) for party in (GUEST, HOST)]
    rows += [a_task("b", party, C, version=1, tries=Tries(1, 1, 7), auto_retries=1) for party in (GUEST, HOST)]
    seats = (
        a_seat(GUEST, SeatStatus.LEFT, run=3),
        a_seat(HOST, SeatStatus.UNCONFIRMED, run=3, is_plain_v1=is_plain_v1),
    )
    spec = replace(a_spec(CHAIN), retry=rule)
    return a_view(a_job(status, **fields), spec=spec, tasks=tuple(rows), seats=seats)


def test_it_waits_in_its_next_run_and_goes_on_with_what_it_has_used_up() -> None:
    guest, host = lost().seats
    begin, version, *rest = plan_job(lost())
    assert begin == BeginAgain(f"waits for the return of a party, for 600 s at most: {TEXT}", is_loss=True)
    why = Why(Reason.PARTY_UNREACHABLE, TEXT, "host 10000")
    assert version == NewVersion("b", 2, FRESH_ID, 1, 0, Tries(1, 1, 7), why)
    assert rest[:2] == [Rejoin(guest), Rejoin(host)]
    assert [(one.command.to, one.command.run, one.command.body["kept"]) for one in rest[2:]] == [
        (GUEST, 4, {"a": 0}), (HOST, 4, {"a": 0})]  # fmt: skip


@pytest.mark.parametrize("reason", [Reason.PARTY_UNREACHABLE, Reason.INITIATOR_LOST])
def test_either_side_may_have_been_away(reason: Reason) -> None:
    assert comes_back(lost(reason=reason))


@pytest.mark.parametrize(
    "view",
    [
        lost(rule=RetryRule()),                            # nobody asked for it
        lost(losses=2),                                    # it has been lost too often
        lost(lost_since=NOW - 1),                          # it has waited, and nobody came
        lost(cancel_requested=True),                       # a user wanted its end meanwhile
        lost(reason=Reason.TASK_FAILED),
        lost(round_number=0),                              # it was never accepted, or never had a reservation round
        lost(is_plain_v1=True),
        lost(status=JobStatus.CANCELED),
    ],
)
def test_it_ends_where_waiting_was_not_asked_for_or_is_of_no_use(view: JobView) -> None:
    assert not comes_back(view)
    assert plan_job(view) == ()


def test_its_next_run_does_not_begin_beside_a_worker_of_this_one() -> None:
    seats = (a_seat(GUEST, SeatStatus.DRAINING, run=3), a_seat(HOST, SeatStatus.STOPPING, run=3))
    ends = {"status": JobStatus.STOPPING, "target": JobStatus.FAILED, "stop_by": NOW - 1}
    assert plan_job(replace(lost(**ends), seats=seats, has_workers=True)) == ()
    assert plan_job(replace(lost(**ends), seats=seats))
    assert plan_job(replace(lost(**ends, rule=RetryRule()), seats=seats, has_workers=True))


def test_a_run_that_keeps_everything_ends_as_soon_as_it_has_begun() -> None:
    """All shares had succeeded, and the party was lost before that was known."""
    rows = tuple(a_task("a", party, S) for party in (GUEST, HOST))
    view = a_view(a_job(run=1, ready_owner="me"), tasks=rows)
    assert [type(one) for one in plan_job(view)].count(EndRound) == 1
    assert MoveJob(JobStatus.SUCCESS, Reason.DONE) in plan_job(view)


def waiting() -> JobView:
    rows = [a_task("a", party, S) for party in (GUEST, HOST)]
    rows += [a_task("b", party, W, version=2, incarnation="b" * 32, auto_retries=1) for party in (GUEST, HOST)]
    return a_view(
        a_job(JobStatus.WAITING, run=4, rerun_signal=True), spec=a_spec(CHAIN), tasks=tuple(rows),
        seats=(a_seat(GUEST, SeatStatus.JOINED, run=4), a_seat(HOST, SeatStatus.JOINING, run=4)),
    )  # fmt: skip


def test_what_a_party_has_not_kept_is_made_again_and_all_of_the_run_is_told() -> None:
    version, described = plan_missing_shares(waiting(), ["a", "b", "unknown"])
    assert isinstance(version, NewVersion)
    assert (version.name, version.version, version.incarnation) == ("a", 1, FRESH_ID)
    tasks = {
        "a": {"version": 1, "incarnation": FRESH_ID, "auto_retries": 0},
        "b": {"version": 2, "incarnation": "b" * 32, "auto_retries": 1},
    }
    body = {"tasks": tasks, "kept": {}}
    assert described == Send(Command(CommandKind.STATUS, JOB_ID, HOST, 4, argument="waiting", body=body))


def test_what_is_made_again_already_is_nothing_new() -> None:
    assert list(plan_missing_shares(waiting(), ["b"])) == []
    running = replace(waiting(), job=a_job(JobStatus.RUNNING, run=4))
    assert list(plan_missing_shares(running, ["a"])) == []


@pytest.mark.parametrize(
    ("data", "found"),
    [({"lacks": ["a", 3]}, [MakeAnew]), ({"lacks": []}, []), ({}, [])],
)
def test_an_answer_may_name_what_was_not_kept(data: Any, found: list[type]) -> None:
    seat = a_seat(HOST, SeatStatus.JOINING, run=4)
    described = Command(CommandKind.STATUS, JOB_ID, HOST, 4, argument="waiting")
    actions = handle_reply(seat, described, 103, "has not kept a", data).actions
    assert [type(one) for one in actions if isinstance(one, MakeAnew)] == found
    assert len(actions) == 1, "else it takes no part any more"


@pytest.mark.parametrize(
    ("of_job", "of_task", "is_right"),
    [
        (["error", "party_lost"], ["error", "party_lost"], True), (["error", "party_lost"], ["error"], True),
        (None, ["party_lost"], False), (["error"], ["party_lost"], False), (["party_lost"], None, True),
    ],
)
def test_only_the_job_waits_for_a_party(of_job: Any, of_task: Any, is_right: bool) -> None:
    block: dict[str, Any] = {"retry": {"on_events": of_job}} if of_job else {}
    if of_task:
        block["task_conf"] = {"a": {"retry": {"on_events": of_task}}}
    findings = Findings(strict=False)
    job_block(Node(block, "common", findings), ["a"])
    text = "party_lost is only for the job, which waits for a party as a whole: name it in common.retry.on_events"
    assert [one.message.endswith(text) for one in findings.problems] == ([] if is_right else [True])
