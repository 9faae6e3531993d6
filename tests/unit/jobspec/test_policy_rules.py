"""Which rule wins, and what a document may say: every row of Volcano's policies and admission that has a place here."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.policy import FOLLOWS, MISHAPS, Policy, PolicyAction, PolicyEvent, first_fit
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.fate_v1.policy_document import policies_for, read_policies
from fate_flow.jobspec.text.document import Findings, Node

E, A = PolicyEvent, PolicyAction
PATH = "job_runtime_conf.job_parameters.common.policies"


def rule(action: PolicyAction, *events: PolicyEvent, **fields: Any) -> Policy:
    return Policy(action, frozenset(events), **fields)


# ---------------------------------------------------------------------- which rule wins


def test_the_first_rule_that_fits_wins() -> None:
    first, second = rule(A.CANCEL_JOB, E.WORKER_FAILED), rule(A.FAIL_JOB, E.WORKER_FAILED, E.TASK_FAILED)
    assert first_fit([(first, second)], E.WORKER_FAILED) is first
    assert first_fit([(first, second)], E.TASK_FAILED) is second
    assert first_fit([(first, second)], E.TASK_COMPLETED) is None


def test_a_components_own_rule_beats_the_jobs_per_event() -> None:
    own, jobs = rule(A.CANCEL_JOB, E.WORKER_FAILED), rule(A.RESTART_JOB, E.ANY)
    assert first_fit([(own,), (jobs,)], E.WORKER_FAILED) is own
    assert first_fit([(own,), (jobs,)], E.WORKER_INTERRUPTED) is jobs


def test_ignore_hides_a_more_general_rule() -> None:
    own, jobs = rule(A.IGNORE, E.WORKER_FAILED), rule(A.CANCEL_JOB, E.ANY)
    assert first_fit([(own,), (jobs,)], E.WORKER_FAILED) is None
    assert first_fit([(own,), (jobs,)], E.GANG_BROKEN) is jobs


@pytest.mark.parametrize("event", sorted(PolicyEvent, key=lambda one: one.value))
@pytest.mark.parametrize("action", sorted(PolicyAction, key=lambda one: one.value))
def test_any_is_every_mishap_that_the_action_can_follow(event: PolicyEvent, action: PolicyAction) -> None:
    is_meant = event in MISHAPS and action in FOLLOWS[event]
    assert rule(action, E.ANY, delay=1).fits(event) is is_meant
    assert rule(action, E.ANY).fits(event) is (is_meant and event is not E.START_TIMEOUT)     # which needs a time


@pytest.mark.parametrize(
    ("event", "code", "fits"),
    [
        (E.WORKER_FAILED, 3, True), (E.WORKER_INTERRUPTED, 3, True), (E.WORKER_FAILED, 4, False),
        (E.WORKER_FAILED, None, False), (E.GANG_BROKEN, 3, False), (E.TASK_FAILED, 3, False),
    ],
)  # fmt: skip
def test_an_exit_code_is_one_of_a_worker(event: PolicyEvent, code: int | None, fits: bool) -> None:
    assert rule(A.RESTART_TASK, exit_code=3).fits(event, code) is fits


# ---------------------------------------------------------------------- what a document may say


def problems(value: object) -> list[str]:
    findings = Findings(strict=True)
    read_policies(Node(value, PATH, findings))
    return [problem.message.removeprefix(PATH) for problem in findings.problems]


def one(action: str = "cancel_job", **said: Any) -> dict[str, Any]:
    return {"action": action, **said}


@pytest.mark.parametrize(
    "said",
    [
        one(event="worker_failed"),
        one(events=["worker_failed", "gang_broken"], timeout=2.5),
        one("restart_task", exit_code=137),
        one("restart_job", event="*"),
        one("restart_job", events=["any"]),
        one("complete_job", event="task_completed", timeout=60),
        one("ignore", event="party_unreachable"),
        one("ignore", event="start_timeout"),
        one("restart_task", event="start_timeout", timeout=30),
    ],
)
def test_it_is_taken(said: dict[str, Any]) -> None:
    assert problems([said]) == []


def test_what_was_said_becomes_rules_of_the_job_and_of_the_component() -> None:
    common = {
        "policies": [one("restart_job", event="*", timeout=3)],
        "task_conf": {"a": {"policies": [one("fail_job", exit_code=2), one(events=["task_failed", "gang_broken"])]}},
    }
    parameters = JobParameters(extra=common)
    assert policies_for(parameters) == (rule(A.RESTART_JOB, E.ANY, delay=3),)
    assert policies_for(parameters, "a") == (
        rule(A.FAIL_JOB, exit_code=2), rule(A.CANCEL_JOB, E.TASK_FAILED, E.GANG_BROKEN),
    )  # fmt: skip
    assert policies_for(parameters, "b") == policies_for(JobParameters()) == ()


EVENTS = "worker_failed, worker_interrupted, gang_broken, start_timeout, task_failed, task_completed, "
EVENTS += "party_unreachable, any"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("restart", ": 'restart' is not a list of policies"),
        ([7], "[0]: 7 is not an object"),
        ([one()], "[0]: has none; a policy must have exactly one of event, events and exit_code"),
        ([one(event="any", exit_code=3)], "[0]: has event and exit_code; a policy must have exactly "
         "one of event, events and exit_code"),
        ([one(event="sick")], f"[0].event: 'sick' is not one of {EVENTS}"),
        ([one(events=["task_failed", 4])], f"[0].events[1]: 4 is not one of {EVENTS}"),
        ([one(events="task_failed")], "[0].events: 'task_failed' is not a list"),
        ([one(events=[])], f"[0].events: names no event; there are {EVENTS}"),
        ([{"event": "any"}], "[0].action: is missing"),
        ([one("dance", event="any")], "[0].action: 'dance' is not one of restart_job, restart_task, fail_job, "
         "cancel_job, complete_task, complete_job, ignore"),
        ([one("restart_party", event="worker_failed")], "[0].action: restart_party: no component can rejoin a running "
         "task; restart_task restarts it at all parties"),
        ([one(exit_code=0)], "[0].exit_code: 0 is not a whole number from 1 to 255: 0 is no failure"),
        ([one(exit_code=256)], "[0].exit_code: 256 is not a whole number from 1 to 255: 0 is no failure"),
        ([one(exit_code=True)], "[0].exit_code: true is not a whole number from 1 to 255: 0 is no failure"),
        ([one(event="any", timeout=-1)], "[0].timeout: -1 is not a number of seconds from 0 to 2147483647"),
        ([one(event="any", timeout="1")], "[0].timeout: '1' is not a number of seconds from 0 to 2147483647"),
        ([one(event="start_timeout")], "[0].timeout: is missing or 0; start_timeout counts these seconds from the "
         "start of the task"),
        ([one("ignore", event="any", timeout=1)], "[0].timeout: has nothing to delay: the action is ignore"),
        ([one("restart_task", event="task_completed")], "[0].action: restart_task cannot follow task_completed; "
         "possible actions are cancel_job, complete_job, fail_job, ignore"),
        ([one("restart_job", event="task_completed")], "[0].action: restart_job cannot follow task_completed; "
         "possible actions are cancel_job, complete_job, fail_job, ignore"),
        ([one("complete_task", event="task_failed")], "[0].action: complete_task cannot follow task_failed; "
         "possible actions are cancel_job, complete_job, fail_job, ignore, restart_job"),
        ([one("restart_task", event="task_failed")], "[0].action: restart_task cannot follow task_failed; "
         "possible actions are cancel_job, complete_job, fail_job, ignore, restart_job"),
        ([one("restart_job", event="party_unreachable")], "[0].action: restart_job cannot follow party_unreachable; "
         "possible actions are cancel_job, complete_job, fail_job, ignore"),
        ([one(event="task_failed"), one(events=["task_failed"])], ": has task_failed 2 times; the first one applies, "
         "so the others have no effect"),
        ([one(events=["task_failed", "task_failed"])], ": has task_failed 2 times; the first one applies, so the "
         "others have no effect"),
        ([one(event="*"), one(event="task_failed")], ": has any and task_failed; any must be the only event in the "
         "list"),
        ([one(exit_code=3), one("fail_job", exit_code=3)], ": has exit_code 3 2 times; the first one applies, so "
         "the others have no effect"),
        ([one(event="any", delay=3)], "[0].delay: is not known; known here: event, events, exit_code, action, timeout"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_path_of_the_key(said: object, problem: str) -> None:
    assert problems(said) == [problem]


def test_two_lists_may_name_the_same_event() -> None:
    assert problems([one(event="any"), one("fail_job", exit_code=3)]) == []
