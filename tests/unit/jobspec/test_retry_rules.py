"""When a task is tried again: every rule of `core/model/retry.py` and every key of the `retry` block."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.retry import (
    NEVER_AGAIN,
    UNTRIED,
    Again,
    Backoff,
    RetryEvent,
    RetryRule,
    Tries,
    automatic,
    decide_retry,
)
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.fate_v1.job_parameters import job_block
from fate_flow.jobspec.fate_v1.retry_document import read_retry, rule_for
from fate_flow.jobspec.text.document import Findings, Node
from tests.kit.job_documents import job
from tests.kit.jobspec.parsing import parse
from tests.kit.modules import Module

NOW = 1_000_000
ERROR, TIMEOUT, INTERRUPTION = RetryEvent.ERROR, RetryEvent.TIMEOUT, RetryEvent.INTERRUPTION
THREE = RetryRule(max_attempts=3, max_interruptions=2, backoff=Backoff(10, 3, 50, 0))


def asked(rule: RetryRule, tries: Tries, event: RetryEvent, now: int = NOW, chance: float = 0.5) -> Again:
    return decide_retry(rule, tries, event, now, chance)


@pytest.mark.parametrize(
    ("tries", "event", "seconds", "used"),
    [
        (UNTRIED, ERROR, 10, Tries(1, 0, NOW)),
        (UNTRIED, TIMEOUT, 10, Tries(1, 0, NOW)),
        (UNTRIED, RetryEvent.OUT_OF_MEMORY, 10, Tries(1, 0, NOW)),
        (UNTRIED, INTERRUPTION, 10, Tries(0, 1, NOW)),          # free
        (Tries(1, 0, 7), ERROR, 30, Tries(2, 0, 7)),
        (Tries(2, 0, 7), INTERRUPTION, 50, Tries(2, 1, 7)),     # also when all attempts are used up
        (Tries(1, 1, 7), INTERRUPTION, 50, Tries(1, 2, 7)),
    ],
)
def test_it_is_tried_again(tries: Tries, event: RetryEvent, seconds: float, used: Tries) -> None:
    assert asked(THREE, tries, event) == Again(used, seconds)


@pytest.mark.parametrize(
    ("tries", "event", "why"),
    [
        (Tries(2, 0, 7), ERROR, "attempt 3 of 3 was the last"),
        (Tries(2, 0, 7), TIMEOUT, "attempt 3 of 3 was the last"),
        (Tries(2, 0, 7), RetryEvent.OUT_OF_MEMORY, "attempt 3 of 3 was the last"),
        (Tries(0, 2, 7), INTERRUPTION, "interrupted 3 times, 2 are allowed"),
    ],
)
def test_it_is_not_tried_again(tries: Tries, event: RetryEvent, why: str) -> None:
    assert asked(THREE, tries, event).refused == why


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (ERROR, "no retry was asked for after an error"),
        (TIMEOUT, "no retry was asked for after a timeout"),
        (INTERRUPTION, "no retry was asked for after an interruption"),
    ],
)
def test_only_after_what_was_asked_for(event: RetryEvent, why: str) -> None:
    others = frozenset(RetryEvent) - {event}
    assert asked(RetryRule(on_events=others), UNTRIED, event).refused == why
    assert not asked(RetryRule(on_events=frozenset({event})), UNTRIED, event).refused


def test_one_attempt_is_no_retry() -> None:
    assert asked(NEVER_AGAIN, UNTRIED, ERROR).refused == "attempt 1 of 1 was the last"
    assert asked(NEVER_AGAIN, UNTRIED, INTERRUPTION).refused == "interrupted 1 time, 0 are allowed"


def test_no_retry_in_words_is_kept_apart_from_no_word_of_it() -> None:
    said = rule_for(JobParameters(extra={"retry": {"max_attempts": 1, "max_interruptions": 0}}))
    assert (said.for_policies, rule_for(JobParameters()).for_policies) == (said, RetryRule())
    assert not rule_for(JobParameters()).is_said


@pytest.mark.parametrize(("now", "is_over"), [(NOW + 89_000, False), (NOW + 90_000, False), (NOW + 90_001, True)])
def test_the_next_attempt_begins_within_the_duration(now: int, is_over: bool) -> None:
    """The first bad end was at NOW, and the back-off is 10 s."""
    rule = RetryRule(duration=100, backoff=Backoff(10, 1, 10, 0))
    found = asked(rule, Tries(1, 0, NOW), ERROR, now)
    assert found.refused == ("the 100 s for retries are over" if is_over else "")


@pytest.mark.parametrize(
    ("backoff", "tries", "chance", "seconds"),
    [
        (Backoff(15, 2, 600, 0), 1, 0, 15),
        (Backoff(15, 2, 600, 0), 4, 0, 120),
        (Backoff(15, 2, 600, 0), 9, 1, 600),
        (Backoff(15, 2, 600, 0), 10**9, 1, 600),
        (Backoff(10, 1, 10, 0.5), 1, 0, 5),
        (Backoff(10, 1, 10, 0.5), 1, 1, 15),
        (Backoff(0, 2, 600, 0.5), 7, 1, 0),
    ],
)
def test_the_backoff_grows_to_its_longest_with_jitter(
    backoff: Backoff, tries: int, chance: float, seconds: float
) -> None:
    assert backoff.seconds(tries, chance) == seconds


@pytest.mark.parametrize(
    ("retries", "event", "tries", "is_again"),
    [
        (0, ERROR, UNTRIED, False),
        (0, INTERRUPTION, UNTRIED, False),
        (1, ERROR, UNTRIED, True),
        (1, ERROR, Tries(1, 0, 1), False),
        (1, INTERRUPTION, Tries(1, 0, 1), True),
        (1, INTERRUPTION, Tries(0, 1, 1), False),
    ],
)
def test_automatic_retries_are_a_rule(retries: int, event: RetryEvent, tries: Tries, is_again: bool) -> None:
    found = asked(automatic(retries, 2.5), tries, event)
    assert not found.refused if is_again else found.refused
    assert found.seconds == (2.5 if is_again else 0)


# ------------------------------------------------------------------ the document


def read(block: Any, *, strict: bool = False) -> tuple[Any, list[str], list[str]]:
    """What is read, the problems and the warnings."""
    findings = Findings(strict)
    found = read_retry(Node(block, "retry", findings))
    return found, [problem.message for problem in findings.problems], list(findings.warnings)


WHOLE = {
    "on_events": ["error", "no_capacity"], "max_attempts": 4, "max_interruptions": 0, "duration": 90.5,
    "backoff": {"first": 0, "factor": 1.5, "longest": 60, "jitter": 1},
}  # fmt: skip


def test_a_whole_block_is_read_and_becomes_a_rule() -> None:
    assert read(WHOLE) == (WHOLE, [], [])
    assert rule_for(JobParameters(extra={"retry": WHOLE})) == RetryRule(
        frozenset({ERROR, RetryEvent.NO_CAPACITY}), 4, 0, 90.5, Backoff(0, 1.5, 60, 1)
    )


def test_an_empty_block_is_the_default_rule() -> None:
    assert read({}) == ({}, [], [])
    assert rule_for(JobParameters(auto_retries=7, extra={"retry": {}})) == RetryRule()


def test_without_a_block_it_is_what_auto_retries_says() -> None:
    assert rule_for(JobParameters(auto_retries=2, auto_retry_delay_seconds=3), "a") == automatic(2, 3)


def test_a_component_says_only_what_differs() -> None:
    own = {"a": {"retry": {"max_attempts": 9, "backoff": {"first": 1}}}}
    parameters = JobParameters(extra={"retry": WHOLE, "task_conf": own})
    assert rule_for(parameters, "a") == RetryRule(
        frozenset({ERROR, RetryEvent.NO_CAPACITY}), 9, 0, 90.5, Backoff(1, 1.5, 60, 1)
    )
    assert rule_for(parameters, "b") == rule_for(parameters)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ([], "retry: a list is not an object"),
        ({"on_events": "error"}, "retry.on_events: 'error' is not a list"),
        ({"on_events": []}, "retry.on_events: names no event"),
        ({"on_events": ["error", "error"]}, "retry.on_events: names an event twice"),
        ({"on_events": ["oom"]}, "retry.on_events: 'oom' is not one of no_capacity, interruption, error, timeout"),
        ({"on_events": [["error"]]}, "retry.on_events: a list is not one of"),
        ({"max_attempts": 0}, "retry.max_attempts: 0 is not a whole number above 0"),
        ({"max_attempts": 1.5}, "retry.max_attempts: 1.5 is not a whole number above 0"),
        ({"max_interruptions": -1}, "retry.max_interruptions: -1 is not a whole number of 0 or more"),
        ({"duration": -1}, "retry.duration: -1 is not a number of seconds from 0 to"),
        ({"duration": True}, "retry.duration: true is not a number of seconds"),
        ({"backoff": 5}, "retry.backoff: 5 is not an object"),
        ({"backoff": {"first": "1"}}, "retry.backoff.first: '1' is not a number of seconds"),
        ({"backoff": {"factor": 0.5}}, "retry.backoff.factor: 0.5 is not a number from 1 to 100"),
        ({"backoff": {"first": 90, "longest": 60}}, "retry.backoff.first: 90 s are more than longest, 60 s"),
        ({"backoff": {"jitter": 1.1}}, "retry.backoff.jitter: 1.1 is not a part from 0 to 1"),
    ],
)
def test_what_is_wrong_is_named(block: Any, problem: str) -> None:
    _, [found], warnings = read(block)
    assert found.startswith(problem)
    assert warnings == []


@pytest.mark.parametrize(("of_job", "own", "is_right"), [
    (["error"], ["error", "no_capacity"], False), (["error"], ["error"], True), (["error"], None, True),
    (["error", "no_capacity"], ["error", "no_capacity"], True), (["error", "no_capacity"], ["error"], True),
    (None, ["error", "no_capacity"], True), (None, ["error"], True),
])  # fmt: skip
def test_only_the_job_says_what_a_lack_of_capacity_means(
    of_job: list[str] | None, own: list[str] | None, is_right: bool
) -> None:
    """A component that leaves it out waits with the job; to name what the job leaves out would do nothing."""
    blocks = [{"retry": {"on_events": events}} if events else {} for events in (of_job, own)]
    findings = Findings(strict=False)
    job_block(Node({**blocks[0], "task_conf": {"a": blocks[1]}}, "common", findings), ("a",))
    text = "no_capacity is only for the job, which waits for capacity as a whole: name it in common.retry.on_events"
    problems = [] if is_right else [f"common.task_conf.a.retry.on_events: {text}"]
    assert [one.message for one in findings.problems] == problems


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"max_atempts": 5}, "retry.max_atempts: is not known; did you mean max_attempts"),
        ({"backoff": {"frist": 3}}, "retry.backoff.frist: is not known; did you mean first"),
        ({"backoff": {"xyz": 3}}, "retry.backoff.xyz: is not known; known here: first, factor, longest, jitter"),
    ],
)
def test_a_key_that_is_not_known_is_a_problem(block: dict[str, Any], problem: str, is_strict: bool) -> None:
    assert read(block, strict=is_strict)[1:] == ([problem], [])


def test_a_job_with_a_rule_of_its_own_reads_the_same_at_the_other_parties() -> None:
    document = job({"guest": ["9999"]}, {"a": []})
    conf = {**document.runtime_conf, "job_parameters": {"common": {"retry": WHOLE}}}
    described: dict[str, Any] = {"modules": {"Work": Module()}, "defaults": JobParameters(auto_retries=2)}
    spec = parse(document.dsl, conf, **described)
    assert parse(document.dsl, spec.conf, **described).tasks["a"].retry == spec.tasks["a"].retry != automatic(2, 1)
