"""What a party allows at most: what is refused, what is capped, and how both are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.jobspec.ceilings import Ceilings, refusals, stop_allowed
from fate_flow.jobspec.effective import capped_text, effective_at
from fate_flow.jobspec.fate_v1.layers import blocks_for, place_in
from tests.kit.jobspec.fate_v1_documents import ARBITER, GUEST, HOST, SECOND_HOST, a_conf, a_dsl, read

COMMON = "job_runtime_conf.job_parameters.common"


def spec_of(common: Mapping[str, Any] | None = None, role: Mapping[str, Any] | None = None,
            described: Mapping[str, Any] | None = None) -> JobSpec:  # fmt: skip
    conf = a_conf(
        job_parameters={"common": common or {}, "role": role or {}}, component_parameters={"common": described or {}})
    return read(a_dsl(x={"module": "Reader"}, y={"module": "Reader"}), conf)


def refused(ceilings: Ceilings, spec: JobSpec, party: Party = HOST) -> list[str]:
    return refusals(ceilings, spec, party, 1, is_own=True)


# ---------------------------------------------------------------------- what is refused


RESTART_TASK = {"event": "worker_failed", "action": "restart_task"}
RESTART_JOB = {"event": "task_failed", "action": "restart_job"}
RETRY = {"max_attempts": 4, "max_interruptions": 5, "duration": 60}


@pytest.mark.parametrize(("ceilings", "common", "problems"), [
    (Ceilings(max_attempts=3), {"retry": RETRY}, [f"{COMMON}.retry.max_attempts: 4 is more than 3"]),
    (Ceilings(max_attempts=4, max_interruptions=5, retry_duration=60), {"retry": RETRY}, []),
    (Ceilings(max_attempts=1), {"retry": {"duration": 9}}, [f"{COMMON}.retry.max_attempts: 3 is more than 1"]),
    (Ceilings(max_attempts=3), {"retry": {"max_attempts": 1}, "task_conf": {"y": {"retry": {"max_attempts": 9}}}},
     [f"{COMMON}.task_conf.y.retry.max_attempts: 9 is more than 3"]),
    (Ceilings(max_interruptions=4), {"retry": RETRY}, [f"{COMMON}.retry.max_interruptions: 5 is more than 4"]),
    (Ceilings(max_interruptions=0), {"task_conf": {"x": {"retry": {"max_attempts": 1}}}},
     [f"{COMMON}.task_conf.x.retry.max_interruptions: 10 is more than 0"]),
    (Ceilings(retry_duration=59.5), {"retry": RETRY}, [f"{COMMON}.retry.duration: 60 is more than 59.5"]),
    (Ceilings(retry_duration=60), {"retry": {"max_attempts": 2}},
     [f"{COMMON}.retry.duration: 0 (no limit) is more than 60"]),
    (Ceilings(retry_duration=60), {"retry": {"max_attempts": 1, "max_interruptions": 0}}, []),
    (Ceilings(retry_duration=60), {"auto_retries": 1}, [f"{COMMON}.auto_retries: 0 (no limit) is more than 60"]),
    (Ceilings(max_attempts=3, max_interruptions=1), {"auto_retries": 2},
     [f"{COMMON}.auto_retries: 2 is more than 1, the most that host 9002 allows (ceilings.max_interruptions)"]),
    (Ceilings(max_attempts=2), {"auto_retries": 2}, [f"{COMMON}.auto_retries: 2 is more than 1"]),
    (Ceilings(max_attempts=1, max_interruptions=0, retry_duration=1), {}, []),
    (Ceilings(max_attempts=2), {"policies": [RESTART_TASK]}, [f"{COMMON}.retry.max_attempts: 3 is more than 2"]),
    (Ceilings(max_attempts=2), {"task_conf": {"y": {"policies": [RESTART_TASK]}}},
     [f"{COMMON}.retry.max_attempts: 3 is more than 2"]),
    (Ceilings(max_interruptions=9, retry_duration=60), {"policies": [RESTART_TASK]},
     [f"{COMMON}.retry.max_interruptions: 10 is more than 9",
      f"{COMMON}.retry.duration: 0 (no limit) is more than 60"]),
    (Ceilings(max_attempts=2), {"policies": [RESTART_JOB]}, [f"{COMMON}.retry.max_attempts: 3 is more than 2"]),
    (Ceilings(max_attempts=2), {"task_conf": {"y": {"policies": [RESTART_JOB]}}},
     [f"{COMMON}.retry.max_attempts: 3 is more than 2"]),
    (Ceilings(max_attempts=2), {"policies": [RESTART_JOB], "auto_retries": 2},
     [f"{COMMON}.auto_retries: 2 is more than 1"]),
    (Ceilings(max_attempts=2, max_interruptions=9, retry_duration=60),
     {"policies": [RESTART_TASK, RESTART_JOB], "retry": {"max_attempts": 2, "max_interruptions": 3, "duration": 5}},
     []),
    (Ceilings(max_attempts=1, max_interruptions=0, retry_duration=1),
     {"policies": [RESTART_TASK, RESTART_JOB], "retry": {"max_attempts": 1, "max_interruptions": 0}}, []),
    (Ceilings(job_timeout=100), {"timeout": 101}, [f"{COMMON}.timeout: 101 is more than 100"]),
    (Ceilings(job_timeout=100), {"timeout": 100}, []),
    (Ceilings(job_timeout=100), {}, [f"{COMMON}.timeout: 259200 is more than 100"]),
    (Ceilings(task_cores=2), {"task_cores": 3}, [f"{COMMON}.task_cores: 3 is more than 2"]),
    (Ceilings(task_cores=3), {}, [f"{COMMON}.task_cores: 4 is more than 3"]),
    (Ceilings(task_memory=2), {"task_memory": 3}, [f"{COMMON}.task_memory: 3 is more than 2"]),
    (Ceilings(task_timeout=1), {"task_timeout": 2}, []),
])  # fmt: skip
def test_what_asks_for_more_is_refused_with_its_path_and_the_ceiling(ceilings, common, problems):
    found = refused(ceilings, spec_of(common))
    assert len(found) == len(problems)
    for one, problem in zip(found, problems, strict=True):
        assert one.startswith(problem)
        assert "the most that host 9002 allows (ceilings." in one


def test_another_party_reads_no_number_of_a_ceiling():
    """It could otherwise ask for far too much with `flow job validate`, and read the whole table."""
    ceilings = Ceilings(max_attempts=7, max_interruptions=8, retry_duration=55, job_timeout=100, task_cores=6)
    asked = {"retry": {"max_attempts": 90, "max_interruptions": 91}, "timeout": 1000, "task_cores": 92}
    found = refusals(ceilings, spec_of(asked), HOST, 1, is_own=False)
    assert found == [
        f"{COMMON}.{asked} is more than host 9002 allows (ceilings.{key})" for asked, key in (
            ("task_cores: 92", "task_cores"), ("timeout: 1000", "job_timeout"),
            ("retry.max_attempts: 90", "max_attempts"), ("retry.max_interruptions: 91", "max_interruptions"),
            ("retry.duration: 0 (no limit)", "retry_duration"))]


def test_every_party_is_asked_for_its_own_cores():
    spec = spec_of({"task_cores": 2}, {"host": {"1": {"task_cores": 8}}})
    ceilings = Ceilings(task_cores=4)
    assert refused(ceilings, spec) == refused(ceilings, spec, ARBITER) == []
    assert refused(ceilings, spec, SECOND_HOST) == [
        "job_runtime_conf.job_parameters.role.host.1.task_cores: 8 is more than 4, "
        "the most that host 9004 allows (ceilings.task_cores)"]


def test_what_a_task_states_is_compared_and_what_no_task_takes_is_not():
    described = {"x": {"cores": 3}, "y": {"cores": 1, "gpus": 2}}
    found = refused(Ceilings(task_cores=2, task_gpus=1), spec_of({"task_cores": 4, "task_conf": described}))
    assert found == [
        f"{COMMON}.task_conf.{place} is more than {most}, the most that host 9002 allows (ceilings.task_{key})"
        for place, most, key in (("x.cores: 3", 2, "cores"), ("y.gpus: 2", 1, "gpus"))]


def test_what_does_not_run_at_a_party_is_not_its_business():
    retry = {"task_conf": {"x": {"retry": {"max_attempts": 9}}}}
    assert refused(Ceilings(max_attempts=2), spec_of(retry, described={"x": {"need_run": False}})) == []


def test_replicas_are_counted_at_each_party():
    [found] = refused(Ceilings(replicas=2), spec_of(described={"x": {"replicas": 3}, "y": {"replicas": 2}}))
    assert found == (
        "job_runtime_conf.component_parameters: x at host 9002: replicas: 3 is more than 2, "
        "the most that host 9002 allows (ceilings.replicas)")


def test_an_action_of_a_policy_may_be_refused():
    restart = {"event": "worker_failed", "action": "restart_job"}
    ignore = {"event": "worker_interrupted", "action": "ignore"}
    spec = spec_of({"policies": [ignore, restart], "task_conf": {"y": {"policies": [restart]}}})
    ceilings = Ceilings(refused_actions=frozenset({"restart_job"}))
    assert refused(ceilings, spec) == [
        f"{COMMON}.policies[1].action: restart_job is refused by host 9002 (ceilings.refused_actions)",
        f"{COMMON}.task_conf.y.policies[0].action: restart_job is refused by host 9002 (ceilings.refused_actions)"]


@pytest.mark.parametrize("events", [["party_lost"], ["error", "party_lost"], ["error"], None])
def test_a_party_may_refuse_jobs_that_wait_for_lost_parties(events):
    spec = spec_of({"retry": {"max_attempts": 2, **({"on_events": events} if events else {})}})
    described = f"{COMMON}.retry.on_events: party_lost is refused by host 9002 (ceilings.party_lost_retry)"
    assert refused(Ceilings(party_lost_retry=False), spec) == ([described] if "party_lost" in (events or ()) else [])
    assert refused(Ceilings(max_attempts=9), spec) == []


# ---------------------------------------------------------------------- where it was said


@pytest.mark.parametrize(("party", "keys", "place"), [
    (GUEST, ("timeout",), ".common.timeout"), (GUEST, ("task_cores",), ".common.task_cores"),
    (HOST, ("task_cores",), ".role.host.all.task_cores"), (SECOND_HOST, ("task_cores",), ".role.host.1.task_cores"),
    (SECOND_HOST, ("task_memory",), ".role.host.0|1.task_memory"), (ARBITER, ("task_memory",), ""),
    (GUEST, ("retry", "backoff", "first"), ".common.retry.backoff.first"), (GUEST, ("retry", "duration"), ""),
])  # fmt: skip
def test_the_strongest_block_that_says_a_key_is_its_place(party, keys, place):
    spec = spec_of(
        {"timeout": 5, "task_cores": 1, "retry": {"backoff": {"first": 1}}},
        {"host": {"1": {"task_cores": 3}, "all": {"task_cores": 2}, "0|1": {"task_memory": 7}}})
    conf = {"job_parameters": {**spec.conf["job_parameters"]}}
    conf["job_parameters"]["common"] = {"timeout": 5, "task_cores": 1, "retry": {"backoff": {"first": 1}}}
    found = place_in(blocks_for(conf, spec.parties, party), keys)
    assert found == (place and f"job_runtime_conf.job_parameters{place}")


# ---------------------------------------------------------------------- what is capped


@pytest.mark.parametrize(("asked", "ceiling", "seconds"), [
    (0, None, 0), (9, None, 9), (0, 5, 5), (9, 5, 5), (3, 5, 3)])
def test_a_task_runs_as_long_as_asked_and_allowed(asked, ceiling, seconds):
    assert Ceilings(task_timeout=ceiling).timeout_of(asked) == seconds


@pytest.mark.parametrize(("asked", "grace", "longest", "seconds"), [
    (None, 10, 300, 10), (20, 10, 300, 20), (500, 10, 300, 300), (0, 10, 300, 0), (500, 400, 300, 400)])
def test_a_stop_takes_as_long_as_asked_and_allowed(asked, grace, longest, seconds):
    assert stop_allowed(asked, grace, longest) == seconds


def test_what_is_otherwise_than_asked_is_told_with_its_source():
    spec = spec_of({"task_timeout": 90, "stop_duration": 500, "task_conf": {"y": {"timeout": 30, "stop_duration": 5}}})
    found = [one.as_dict() for one in effective_at(HOST, spec, Ceilings(task_timeout=60), 10, 300)]
    assert [(one["component_name"], one["key"], one["asked"], one["value"], one["source"]) for one in found] == [
        ("x", "timeout", 90, 60, "ceilings.task_timeout"), ("x", "stop_duration", 500, 300, "limits.longest_stop")]
    assert capped_text(found) == (
        "x: timeout 90 s is 60 s (ceilings.task_timeout); x: stop_duration 500 s is 300 s (limits.longest_stop)")


def test_what_the_job_leaves_to_the_party_is_not_capped():
    found = [one.as_dict() for one in effective_at(HOST, spec_of(), Ceilings(task_timeout=60), 10, 300)]
    assert [(one["component_name"], one["key"], one["asked"], one["value"]) for one in found] == [
        ("x", "timeout", 0, 60), ("x", "stop_duration", None, 10), ("y", "timeout", 0, 60),
        ("y", "stop_duration", None, 10)]
    assert capped_text(found) == "x, y: timeout no limit is 60 s (ceilings.task_timeout)"


@pytest.mark.parametrize("described", [None, {}, "x", 3, [], [3], [{}], [{"asked": None}]])
def test_a_party_that_says_nothing_sensible_has_capped_nothing(described):
    assert capped_text(described) == ""


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), True, [1], {"a": 1}, None, "x" * 9999, "a\0b"])
def test_what_another_party_says_makes_short_words(value):
    one = {"component_name": value, "key": value, "asked": value, "value": value, "source": value}
    text = capped_text([one] * 3)
    assert len(text) <= 1000
    assert "\0" not in text


def test_a_party_that_keeps_a_job_for_longer_than_its_ttl_says_so() -> None:
    spec = replace(spec_of(), ttl_seconds=60)
    assert "the job: ttl 60 s is 3600 s (ceilings.least_ttl)" in capped_text(
        [one.as_dict() for one in effective_at(HOST, spec, Ceilings(least_ttl=3_600), 10, 300)]
    )
    for ceilings, one in ((Ceilings(least_ttl=30), spec), (Ceilings(least_ttl=30), spec_of())):
        assert not [found for found in effective_at(HOST, one, ceilings, 10, 300) if found.key == "ttl"]
