"""What the rules of a running job do: every event, every action, delays that are overtaken, and bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.policy import Policy, PolicyAction, PolicyEvent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryRule, Tries
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import Action, Arm, MoveJob, MoveTask, NewVersion, Restarted, RestartJob, Send, Why
from fate_flow.core.planning.rerun import plan_rerun
from fate_flow.core.planning.view import JobView
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
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
    W,
    broken,
    of_job,
    only,
    plan,
    rows,
    rule,
    silent,
)
from tests.kit.values import FRESH_ID, GUEST, HOST, NOW, a_job, a_task, a_view, seats

NO_RETRY = RetryRule(max_attempts=1, max_interruptions=0)      # as text, as a user may well say it


def stopped(found: list[Action]) -> list[str]:
    return [one.command.to.role for one in _task_stops(found)]


def causes(found: list[Action]) -> list[str | None]:
    """Whose doing it is, as those are told that are stopped."""
    return [one.command.body.get("caused_by") for one in _task_stops(found)]


def _task_stops(found: list[Action]) -> list[Send]:
    return [one for one in found if isinstance(one, Send) and one.command.kind is CommandKind.TASK_STOP]


# ---------------------------------------------------------------------- events


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        (Reason.WORKER_ERROR, E.WORKER_FAILED), (Reason.LAUNCH_FAILED, E.WORKER_FAILED),
        (Reason.TASK_TIMEOUT, E.WORKER_FAILED), (Reason.OUT_OF_MEMORY, E.WORKER_FAILED),
        (Reason.WORKER_KILLED, E.WORKER_INTERRUPTED),
        (Reason.SERVER_LOST, E.WORKER_INTERRUPTED),
    ],
)  # fmt: skip
def test_a_share_that_breaks_is_one_event_of_its_worker(reason: Reason, event: PolicyEvent) -> None:
    """Volcano 28, 29; an eviction that raised both events met the wrong rule there (volcano#5885)."""
    move = only(plan(of_job(rule(A.CANCEL_JOB, event), tasks=broken(reason))), MoveJob)
    text = f"cancel_job after {event.value} of a on host 10000: {WRONG}"
    assert (move.new, move.target, move.reason) == (JobStatus.STOPPING, JobStatus.CANCELED, Reason.STOPPED_BY_POLICY)
    assert (move.message, move.caused_by) == (text, "host 10000")
    other = E.WORKER_FAILED if event is E.WORKER_INTERRUPTED else E.WORKER_INTERRUPTED
    assert isinstance(plan(of_job(rule(A.CANCEL_JOB, other), tasks=broken(reason)))[0], MoveTask)


def test_a_gang_that_breaks_is_asked_for_after_its_workers() -> None:
    """Volcano 30: part runs, part does not."""
    gang = rule(A.FAIL_JOB, E.GANG_BROKEN)
    assert only(plan(of_job(gang, tasks=broken())), MoveJob).reason is Reason.FAILED_BY_POLICY
    both = of_job(gang, rule(A.COMPLETE_JOB, E.WORKER_FAILED), tasks=broken())
    assert only(plan(both), MoveJob).reason is Reason.COMPLETED_BY_POLICY
    ignoring = of_job(gang, own=(rule(A.IGNORE, E.WORKER_FAILED),), tasks=broken())
    assert only(plan(ignoring), MoveJob).reason is Reason.FAILED_BY_POLICY, "another event, which nobody ignores"


def test_a_task_that_is_not_tried_again_has_failed() -> None:
    """Volcano 33."""
    ended = (a_task("a", GUEST, C, F, reason=Reason.STOPPED), a_task("a", HOST, F, reason=Reason.WORKER_ERROR))
    move = only(plan(of_job(rule(A.CANCEL_JOB, E.TASK_FAILED), tasks=ended)), MoveJob)
    text = "cancel_job after task_failed of a: host 10000: worker_error"
    assert (move.target, move.message) == (JobStatus.CANCELED, text)


def test_a_task_that_succeeds_may_complete_the_job() -> None:
    """Volcano 31, 38: the driver is done, the executors are stopped."""
    driver = rule(A.COMPLETE_JOB, E.TASK_COMPLETED)
    executors = rows(R, R, name="b")
    view = of_job(own=(driver,), tasks=rows(S, S) + executors, graph={"a": (), "b": ()})
    found = plan(view)
    assert found[-1] == Arm("task_completed a 0", NOW)
    done = of_job(own=(driver,), tasks=rows(S, S, status=S) + executors, graph={"a": (), "b": ()},
                  job={"timers": {"task_completed a 0": NOW}})  # fmt: skip
    move = only(plan(done), MoveJob)
    assert (move.target, move.reason) == (JobStatus.SUCCESS, Reason.COMPLETED_BY_POLICY)


def test_what_succeeded_in_an_earlier_run_is_nothing_new() -> None:
    driver = rule(A.COMPLETE_JOB, E.TASK_COMPLETED)
    kept = of_job(own=(driver,), tasks=rows(S, S, status=S) + rows(R, R, name="b"), graph={"a": (), "b": ()},
                  job={"progress": 50})  # fmt: skip
    assert plan(kept) == []


def test_a_task_that_does_not_begin_everywhere_in_time() -> None:
    """Volcano 33: PodPending needs a time (volcano#4743: it has to work)."""
    late = rule(A.RESTART_TASK, E.START_TIMEOUT, delay=30)
    tasks, key = rows(R, W), "start_timeout a 0"
    assert plan(of_job(late, tasks=tasks)) == [Arm(key, NOW + 30_000)]
    assert plan(of_job(late, tasks=tasks, job={"timers": {key: NOW + 1}})) == []
    found = plan(of_job(late, tasks=tasks, job={"timers": {key: NOW}}))
    text = "restart_task after start_timeout of a: has not begun at host 10000"
    assert found[0] == MoveTask("a", 0, R, STOPPING, None, text, "restart_task", "host 10000", begins_again=True)
    assert stopped(found) == ["guest", "host"]


def test_a_party_that_does_not_answer() -> None:
    view = of_job(rule(A.CANCEL_JOB, E.PARTY_UNREACHABLE), tasks=rows(R, R), seats=silent())
    move = only(plan(view), MoveJob)
    assert move.reason is Reason.STOPPED_BY_POLICY
    text = "cancel_job after party_unreachable of a on host 10000: party 10000 has not answered for 90 s"
    assert move.message == text
    without = of_job(rule(A.CANCEL_JOB, E.TASK_FAILED), tasks=rows(R, R), seats=silent())
    move = only(plan(without), MoveJob)
    assert (move.reason, move.caused_by) == (Reason.PARTY_UNREACHABLE, "host 10000")


def test_a_silent_party_meets_the_rule_of_a_task_that_runs_there() -> None:
    own, jobs = rule(A.FAIL_JOB, E.PARTY_UNREACHABLE), rule(A.CANCEL_JOB, E.PARTY_UNREACHABLE)
    runs = of_job(jobs, own=(own,), tasks=rows(R, R), seats=silent())
    assert only(plan(runs), MoveJob).reason is Reason.FAILED_BY_POLICY
    over = of_job(jobs, own=(own,), tasks=rows(R, S), seats=silent())
    assert only(plan(over), MoveJob).reason is Reason.STOPPED_BY_POLICY


# ---------------------------------------------------------------------- actions


def test_restart_task_stops_the_gang_and_begins_it_again_without_a_pause() -> None:
    """Volcano 14; what it costs of the attempts is what the retry rule counts."""
    rules = (rule(A.RESTART_TASK, E.WORKER_FAILED),)
    found = plan(of_job(*rules, tasks=broken()))
    text = f"restart_task after worker_failed of a on host 10000: {WRONG}"
    move = MoveTask("a", 0, R, STOPPING, Reason.WORKER_ERROR, text, "restart_task", "host 10000", begins_again=True)
    assert found[0] == move
    assert stopped(found) == ["guest"]
    drained = (
        a_task("a", GUEST, C, STOPPING, reason=Reason.STOPPED, policy="restart_task"),
        a_task("a", HOST, F, STOPPING, reason=Reason.WORKER_ERROR, policy="restart_task"),
    )
    found = plan(of_job(*rules, tasks=drained))
    why = Why(Reason.WORKER_ERROR, "", "host 10000")
    assert only(found, NewVersion) == NewVersion("a", 1, FRESH_ID, 0, NOW, Tries(1, 0, NOW), why)


@pytest.mark.parametrize("action", [A.RESTART_TASK, A.COMPLETE_TASK, A.RESTART_JOB])
@pytest.mark.parametrize("event", [E.WORKER_FAILED, E.GANG_BROKEN, E.START_TIMEOUT])
def test_who_is_stopped_by_a_policy_is_told_whose_doing_it_is(action: PolicyAction, event: PolicyEvent) -> None:
    late, delay = (a_task("a", GUEST, R), a_task("a", HOST, W, R)), 30 * (event is E.START_TIMEOUT)
    tasks = late if event is E.START_TIMEOUT else broken()
    job = {"is_restarting": True} if action is A.RESTART_JOB else {"timers": {"start_timeout a 0": NOW}}
    found = plan(of_job(rule(action, event, delay=delay), tasks=tasks, job=job))
    assert causes(found) == ["host 10000"] * (1 + (tasks is late))


def test_a_job_that_a_policy_ends_for_its_gang_says_whose_share_broke_it() -> None:
    found = plan(of_job(rule(A.CANCEL_JOB, E.GANG_BROKEN), tasks=broken()))
    assert only(found, MoveJob).caused_by == "host 10000"


@pytest.mark.parametrize(
    ("reason", "tries", "retry", "is_again"),
    [
        (Reason.WORKER_ERROR, Tries(1, 9), None, True), (Reason.WORKER_ERROR, Tries(2, 0), None, False),
        (Reason.WORKER_KILLED, Tries(2, 9), None, True), (Reason.WORKER_KILLED, Tries(0, 10), None, False),
        (Reason.WORKER_ERROR, Tries(2, 0), RetryRule(max_attempts=9), True),
        (Reason.WORKER_ERROR, Tries(1, 0), RetryRule(max_attempts=2), False),
        (Reason.WORKER_KILLED, Tries(0, 1), RetryRule(max_interruptions=1), False),
        (Reason.WORKER_ERROR, Tries(0, 0), NO_RETRY, False), (Reason.WORKER_KILLED, Tries(0, 0), NO_RETRY, False),
    ],
)  # fmt: skip
def test_a_task_is_never_restarted_for_ever(
    reason: Reason, tries: Tries, retry: RetryRule | None, is_again: bool
) -> None:
    """Volcano 21; interruptions are free, but capped (volcano#2560)."""
    view = of_job(rule(A.RESTART_TASK, E.ANY), tasks=broken(reason, tries=tries), retry=retry)
    view = replace(view, tasks=tuple(replace(row, tries=tries) for row in view.tasks))
    assert plan(view)[0].policy == ("restart_task" if is_again else "")


def test_what_a_used_up_rule_says_stands_in_the_message_of_the_job() -> None:
    ended = (a_task("a", GUEST, C, F, reason=Reason.STOPPED, tries=Tries(2, 0)),
             a_task("a", HOST, F, reason=Reason.WORKER_ERROR, message=WRONG, tries=Tries(2, 0)))  # fmt: skip
    move = only(plan(of_job(rule(A.RESTART_TASK, E.ANY), tasks=ended)), MoveJob)
    assert move.message == (
        f"a failed on host 10000: {WRONG} (restart_task: attempt 3 of 3 was the last)"
    )


def test_restart_job_begins_all_that_has_begun_again_and_keeps_the_reservation() -> None:
    """Volcano 13, 36, 46."""
    graph = {"z": (), "a": (), "c": ("a",)}
    rules = (rule(A.RESTART_JOB, E.ANY),)
    done, waits = rows(S, S, name="z", status=S), rows(W, W, name="c", status=W)
    text = f"restart_job after worker_failed of a on host 10000: {WRONG}"
    assert plan(of_job(*rules, tasks=done + broken() + waits, graph=graph)) == [RestartJob(text, "host 10000")]
    restarting = {"is_restarting": True, "restarts": 1}
    found = plan(of_job(*rules, tasks=done + broken() + waits, graph=graph, job=restarting))
    assert only(found, MoveTask).policy == "restart_job"
    assert stopped(found) == ["guest"]
    draining = (a_task("a", GUEST, R, STOPPING), a_task("a", HOST, F, STOPPING, reason=Reason.WORKER_ERROR))
    assert plan(of_job(*rules, tasks=done + draining + waits, graph=graph, job=restarting)) == []
    drained = (a_task("a", GUEST, C, STOPPING, reason=Reason.STOPPED), draining[1])
    found = plan(of_job(*rules, tasks=done + drained + waits, graph=graph, job=restarting))
    assert only(found, MoveTask) == MoveTask("a", 0, STOPPING, F, Reason.WORKER_ERROR, caused_by="host 10000")
    ended = (replace(drained[0], status=F), replace(drained[1], status=F))
    found = plan(of_job(*rules, tasks=done + ended + waits, graph=graph, job=restarting))
    assert found[0] == Restarted()
    assert [(one.name, one.version, one.tries) for one in found if isinstance(one, NewVersion)] == [
        ("z", 1, Tries()), ("a", 1, Tries()),
    ]  # fmt: skip
    why = Why(None, "all tasks of the job begin again", "host 10000")
    assert [one.why for one in found if isinstance(one, NewVersion)] == [why, why]
    assert not any(isinstance(one, MoveJob) for one in found)


@pytest.mark.parametrize(("restarts", "retry", "is_again"), [
    (0, None, True), (1, None, True), (2, None, False), (2, RetryRule(max_attempts=4), True),
    (0, RetryRule(max_attempts=1), False), (0, NO_RETRY, False),
])  # fmt: skip
def test_a_job_is_never_restarted_for_ever(restarts: int, retry: RetryRule | None, is_again: bool) -> None:
    view = of_job(rule(A.RESTART_JOB, E.ANY), tasks=broken(), retry=retry, job={"restarts": restarts})
    assert isinstance(plan(view)[0], RestartJob) is is_again


@pytest.mark.parametrize(("restarts", "retry", "text"), [
    (1, RetryRule(max_attempts=2), "restart_job: restart 1 of 1 was the last"),
    (0, RetryRule(max_attempts=1), "restart_job: no restart is allowed"),
])  # fmt: skip
def test_a_job_that_may_not_be_restarted_any_more_says_so(restarts: int, retry: RetryRule, text: str) -> None:
    ended = rows(C, F, status=F)
    view = of_job(rule(A.RESTART_JOB, E.ANY), tasks=ended, retry=retry, job={"restarts": restarts})
    assert text in only(plan(view), MoveJob).message


def test_while_a_job_restarts_nothing_else_is_decided() -> None:
    view = of_job(rule(A.CANCEL_JOB, E.ANY), tasks=broken() + rows(W, W, name="b", status=W),
                  graph={"a": (), "b": ()}, job={"is_restarting": True})  # fmt: skip
    assert [type(one) for one in plan(view)] == [MoveTask, Send]


@pytest.mark.parametrize(
    ("action", "target", "reason"),
    [
        (A.FAIL_JOB, JobStatus.FAILED, Reason.FAILED_BY_POLICY),          # Volcano 15, 37
        (A.CANCEL_JOB, JobStatus.CANCELED, Reason.STOPPED_BY_POLICY),     # 35
        (A.COMPLETE_JOB, JobStatus.SUCCESS, Reason.COMPLETED_BY_POLICY),  # 38
    ],
)
def test_what_ends_a_job_drains_it_first(action: PolicyAction, target: JobStatus, reason: Reason) -> None:
    found = plan(of_job(rule(action, E.ANY), tasks=broken()))
    move = only(found, MoveJob)
    assert (move.new, move.target, move.reason) == (JobStatus.STOPPING, target, reason)


def test_a_completed_job_ends_as_success_when_it_has_drained() -> None:
    """Volcano 23."""
    those = seats(SeatStatus.DRAINING)
    job = a_job(JobStatus.STOPPING, reason=Reason.COMPLETED_BY_POLICY, target=JobStatus.SUCCESS, stop_by=NOW + 1)
    tasks = (a_task("a", GUEST, C, R, reason=Reason.STOPPED), a_task("a", HOST, F, R, reason=Reason.WORKER_ERROR))
    found = plan(a_view(job, tasks=tasks, seats=those))
    assert only(found, MoveJob) == MoveJob(JobStatus.SUCCESS, Reason.COMPLETED_BY_POLICY)
    assert only(found, MoveTask).new is F


def test_complete_task_stops_what_runs_and_counts_as_done() -> None:
    rules = (rule(A.COMPLETE_TASK, E.WORKER_FAILED),)
    found = plan(of_job(*rules, tasks=broken()))
    assert (found[0].new, found[0].policy, stopped(found)) == (STOPPING, "complete_task", ["guest"])
    text = {"federated_message": found[0].message, "federated_caused_by": found[0].caused_by}
    assert text["federated_message"].startswith("complete_task after worker_failed of a on host 10000")
    drained = tuple(
        a_task("a", party, one, STOPPING, reason=why, policy="complete_task", **text)
        for party, one, why in ((GUEST, C, Reason.STOPPED), (HOST, F, Reason.WORKER_ERROR))
    )
    done = MoveTask(
        "a", 0, STOPPING, S, Reason.COMPLETED_BY_POLICY, text["federated_message"], caused_by="host 10000"
    )
    assert plan(of_job(*rules, tasks=drained))[0] == done


def test_nobody_is_missing_from_a_job_whose_task_a_rule_has_completed() -> None:
    done = tuple(
        a_task("a", party, C, S, reason=Reason.STOPPED, policy="complete_task") for party in (GUEST, HOST)
    )
    found = plan(of_job(rule(A.COMPLETE_TASK, E.WORKER_FAILED), tasks=done, job={"progress": 100}))
    assert only(found, MoveJob) == MoveJob(JobStatus.SUCCESS, Reason.DONE)


def test_a_job_says_which_rules_have_completed_its_tasks() -> None:
    text = "complete_task after worker_failed of a on host 10000: it broke"
    done = tuple(
        a_task(
            "a", party, C, S, reason=Reason.STOPPED, policy="complete_task", federated_message=text,
            federated_reason=Reason.COMPLETED_BY_POLICY,
        )
        for party in (GUEST, HOST)
    )  # fmt: skip
    found = plan(of_job(rule(A.COMPLETE_TASK, E.WORKER_FAILED), tasks=done, job={"progress": 100}))
    assert only(found, MoveJob) == MoveJob(JobStatus.SUCCESS, Reason.DONE, text)


def test_a_task_that_succeeds_while_it_is_stopped_for_a_restart_has_succeeded() -> None:
    done = tuple(replace(row, policy="restart_task") for row in rows(S, S, status=STOPPING))
    found = plan(of_job(rule(A.RESTART_TASK, E.START_TIMEOUT, delay=1), tasks=done))
    assert found[0] == MoveTask("a", 0, STOPPING, S, Reason.DONE, caused_by="guest 9999")


def test_ignore_leaves_it_to_the_retry_rule() -> None:
    view = of_job(rule(A.CANCEL_JOB, E.ANY), own=(rule(A.IGNORE, E.WORKER_FAILED, E.GANG_BROKEN),), tasks=broken())
    assert plan(view)[0] == MoveTask("a", 0, R, STOPPING, Reason.WORKER_ERROR, WRONG, caused_by="host 10000")


@pytest.mark.parametrize(
    ("own", "jobs", "acts"),
    [
        ((rule(A.IGNORE, E.WORKER_FAILED),), (rule(A.CANCEL_JOB, E.ANY),), False),
        ((), (rule(A.IGNORE, E.WORKER_FAILED), rule(A.CANCEL_JOB, E.ANY)), False),
        ((rule(A.IGNORE, exit_code=3),), (rule(A.CANCEL_JOB, E.ANY),), False),
        ((rule(A.IGNORE, exit_code=4),), (rule(A.CANCEL_JOB, E.ANY),), True),
        ((rule(A.IGNORE, E.WORKER_INTERRUPTED),), (rule(A.CANCEL_JOB, E.ANY),), True),
        ((rule(A.IGNORE, E.WORKER_FAILED),), (rule(A.CANCEL_JOB, E.GANG_BROKEN),), True),
        ((rule(A.IGNORE, E.WORKER_FAILED), rule(A.CANCEL_JOB, E.GANG_BROKEN)), (rule(A.FAIL_JOB, E.ANY),), True),
    ],
)
def test_any_does_not_act_on_the_gang_of_a_worker_that_is_ignored(
    own: tuple[Policy, ...], jobs: tuple[Policy, ...], acts: bool
) -> None:
    """Volcano 44, 45: per event, but the end of a worker and the breaking of its gang are one thing."""
    found = plan(of_job(*jobs, own=own, tasks=broken(exit_code=3)))
    if acts:
        assert only(found, MoveJob).reason is Reason.STOPPED_BY_POLICY
    else:
        assert found[0] == MoveTask(
            "a", 0, R, STOPPING, Reason.WORKER_ERROR, WRONG, caused_by="host 10000"
        )


def test_what_failed_for_good_meets_any_also_after_its_worker_was_ignored() -> None:
    own, jobs = (rule(A.IGNORE, E.WORKER_FAILED),), rule(A.CANCEL_JOB, E.ANY)
    failed = tuple(replace(row, status=F) for row in broken())
    assert only(plan(of_job(jobs, own=own, tasks=failed)), MoveJob).message.startswith("cancel_job after task_failed")
    own = (rule(A.IGNORE, E.WORKER_FAILED, E.TASK_FAILED),)
    assert only(plan(of_job(jobs, own=own, tasks=failed)), MoveJob).reason is Reason.TASK_FAILED


def test_an_exit_code_meets_its_rule() -> None:
    rules = (rule(A.FAIL_JOB, exit_code=3), rule(A.RESTART_TASK, E.ANY))
    ends = only(plan(of_job(*rules, tasks=broken(exit_code=3))), MoveJob)
    assert (ends.reason, ends.exit_code) == (Reason.FAILED_BY_POLICY, 3)
    assert plan(of_job(*rules, tasks=broken(exit_code=4)))[0].policy == "restart_task"
    assert plan(of_job(*rules, tasks=broken()))[0].policy == "restart_task"


@pytest.mark.parametrize(("action", "code"), [(A.CANCEL_JOB, 3), (A.COMPLETE_JOB, None)])
def test_a_job_that_ends_for_a_broken_gang_has_the_exit_code_of_the_failed_worker(action: A, code: int | None) -> None:
    ends = only(plan(of_job(rule(action, E.GANG_BROKEN), tasks=broken(exit_code=3))), MoveJob)
    assert ends.exit_code == code


# ---------------------------------------------------------------------- what comes before any rule


def test_a_users_stop_beats_all_rules() -> None:
    """Volcano 45."""
    view = of_job(rule(A.COMPLETE_JOB, E.ANY), tasks=broken(), job={"reason": Reason.STOPPED_BY_USER, "message": "m"})
    assert only(plan(view), MoveJob).reason is Reason.STOPPED_BY_USER


@pytest.mark.parametrize("reason", [Reason.STOPPED, Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST, Reason.RELEASED])
def test_what_somebody_else_has_ended_is_no_event(reason: Reason) -> None:
    """volcano#4814: own kills fire no events."""
    status = C if reason in (Reason.STOPPED, Reason.STOPPED_BY_USER) else F
    tasks = (a_task("a", GUEST, R), a_task("a", HOST, status, R, reason=reason))
    found = plan(of_job(rule(A.RESTART_TASK, E.ANY), tasks=tasks))
    assert (found[0].new, found[0].policy) == (STOPPING, "")


@pytest.mark.parametrize("status", [JobStatus.STOPPING, JobStatus.SUCCESS, JobStatus.FAILED])
def test_a_job_that_is_over_or_ends_meets_no_rule_any_more(status: JobStatus) -> None:
    """Volcano 25."""
    known = {"reason": Reason.TASK_FAILED, "target": JobStatus.FAILED, "stop_by": NOW + 1, "timers": {KEY: NOW}}
    view = of_job(LATER, tasks=broken())
    assert not any(isinstance(one, (Arm, RestartJob)) for one in plan(replace(view, job=a_job(status, **known))))


# ---------------------------------------------------------------------- and then


def ended_by(reason: Reason, status: JobStatus) -> JobView:
    tasks = (a_task("a", GUEST, C), a_task("a", HOST, F))
    return a_view(a_job(status, reason=reason, message="why"), tasks=tasks, seats=seats(SeatStatus.LEFT))


def test_a_job_that_a_policy_failed_is_not_rerun_and_one_that_it_cancelled_is_resumed_for_nothing() -> None:
    """Volcano 8, 9, 24 (volcano#3067: a resume spends no retries)."""
    with pytest.raises(Conflict, match=r"was ended for good by a policy \(why\): submit it again"):
        plan_rerun(ended_by(Reason.FAILED_BY_POLICY, JobStatus.FAILED), RerunRequest(force=True), {"a": FRESH_ID})
    again = plan_rerun(ended_by(Reason.STOPPED_BY_POLICY, JobStatus.CANCELED), RerunRequest(), {"a": FRESH_ID})
    assert [one.tries for one in again if isinstance(one, NewVersion)] == [Tries()]
