"""A rule that acts later, and what drops it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.planning.actions import Arm, Disarm, MoveJob, MoveTask, RestartJob
from tests.kit.core.policy_views import (
    KEY,
    LATER,
    STOPPING,
    WRONG,
    A,
    C,
    E,
    F,
    R,
    S,
    broken,
    of_job,
    only,
    plan,
    rows,
    rule,
    silent,
)
from tests.kit.values import GUEST, HOST, NOW, OTHER, a_task


def test_a_rule_that_acts_later_leaves_everything_as_it_is_until_then() -> None:
    """Volcano 43."""
    assert plan(of_job(LATER, tasks=broken())) == [Arm(KEY, NOW + 10_000)]
    waits = of_job(LATER, tasks=broken(), job={"timers": {KEY: NOW + 1}})
    assert plan(waits) == []
    assert only(plan(replace(waits, now=NOW + 1)), MoveJob).reason is Reason.STOPPED_BY_POLICY


def test_other_tasks_go_on_meanwhile() -> None:
    view = of_job(LATER, tasks=broken() + rows(S, S, name="b"), graph={"a": (), "b": ()},
                  job={"timers": {KEY: NOW + 1}})  # fmt: skip
    assert plan(view)[0] == MoveTask("b", 0, R, S, Reason.DONE, caused_by="guest 9999")


@pytest.mark.parametrize(
    "overtaken",
    [
        rows(R, R, version=1),                                  # a new version
        rows(S, S, status=S),                                   # ended otherwise
        (a_task("a", GUEST, R, STOPPING), a_task("a", HOST, F, STOPPING, reason=Reason.WORKER_ERROR)),
    ],
)
def test_a_rule_that_has_been_overtaken_is_dropped(overtaken: tuple[Task, ...]) -> None:
    found = plan(of_job(LATER, tasks=overtaken, job={"timers": {KEY: NOW}}))
    assert Disarm(KEY) in found
    assert not any(isinstance(one, MoveJob) and one.reason is Reason.STOPPED_BY_POLICY for one in found)


def test_a_share_that_begins_after_all_is_no_start_timeout_any_more() -> None:
    """Volcano 34, 43."""
    late = rule(A.CANCEL_JOB, E.START_TIMEOUT, delay=30)
    assert plan(of_job(late, tasks=rows(R, R), job={"timers": {"start_timeout a 0": NOW}})) == [
        Disarm("start_timeout a 0")
    ]  # fmt: skip


def test_a_party_that_answers_again_is_no_cause_any_more() -> None:
    later, key = rule(A.CANCEL_JOB, E.PARTY_UNREACHABLE, delay=60), "party_unreachable a 0 host 10000"
    assert plan(of_job(later, tasks=rows(R, R), seats=silent())) == [Arm(key, NOW + 60_000)]
    back = of_job(later, tasks=rows(R, R), seats=silent(silent_since=0, message=""), job={"timers": {key: NOW}})
    assert plan(back) == [Disarm(key)]


def test_a_second_share_that_breaks_and_meets_no_rule_breaks_the_gang_at_once() -> None:
    tasks = (*broken(), a_task("a", OTHER, F, R, reason=Reason.WORKER_KILLED))
    found = plan(of_job(LATER, tasks=tasks, job={"timers": {KEY: NOW + 1}}))
    assert found[0].new is STOPPING
    assert found[0].policy == ""


@pytest.mark.parametrize(
    ("rules", "is_stopped"),
    [
        ([], True), ([rule(A.COMPLETE_JOB, E.TASK_COMPLETED)], True), ([rule(A.IGNORE, E.WORKER_FAILED)], True),
        ([rule(A.RESTART_TASK, E.WORKER_FAILED)], False), ([rule(A.CANCEL_JOB, E.GANG_BROKEN)], False),
        ([rule(A.FAIL_JOB, exit_code=3)], False), ([rule(A.FAIL_JOB, exit_code=4)], True),
    ],
)  # fmt: skip
def test_the_others_wait_for_workers_that_drain_only_where_a_rule_has_a_say(rules: Any, is_stopped: bool) -> None:
    breaks = a_task("a", HOST, STOPPING, R, reason=Reason.WORKER_ERROR, message=WRONG, exit_code=3)
    found = plan(of_job(*rules, tasks=(a_task("a", GUEST, R), breaks)))
    assert [one.new for one in found if isinstance(one, MoveTask)] == [STOPPING] * is_stopped


def test_of_two_rules_that_are_due_the_one_that_was_due_first_acts() -> None:
    rules = (rule(A.CANCEL_JOB, E.WORKER_FAILED, delay=10), rule(A.FAIL_JOB, E.WORKER_INTERRUPTED, delay=10))
    tasks = (*broken(), a_task("a", OTHER, F, R, reason=Reason.WORKER_KILLED))
    due = {KEY: NOW, "worker_interrupted a 0 host 10001": NOW - 1}
    assert only(plan(of_job(*rules, tasks=tasks, job={"timers": due})), MoveJob).reason is Reason.FAILED_BY_POLICY


def test_a_failed_task_waits_for_its_rule_and_the_job_does_not_end_before() -> None:
    later = rule(A.RESTART_JOB, E.TASK_FAILED, delay=10)
    ended = (a_task("a", GUEST, C, F, reason=Reason.STOPPED), a_task("a", HOST, F, reason=Reason.WORKER_ERROR))
    known = {"timers": {"task_failed a 0": NOW + 1}, "progress": 100}
    assert plan(of_job(later, tasks=ended, job=known)) == []
    late = replace(of_job(later, tasks=ended, job=known), now=NOW + 1)
    assert isinstance(plan(late)[0], RestartJob)
