"""What a participant decides about a reservation: to renew, to refuse, to let a job pass the head, or to be short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import NO_CAPACITY, NOT_EFFECTIVE, NOT_READY
from fate_flow.core.model.job import Answer, Claim, EnginePart, EngineState, Hold, Job, JobKey, PendingRequest
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.participant.reservation import (
    ApplyThere,
    ApplyView,
    PendingHead,
    Reserve,
    Shortage,
    StandBehind,
    answer_check,
    granted,
    no_engine,
    not_reserved,
    only_renews,
    plan_apply,
    shortage,
    stays_pending,
    still_needed,
    why_not_applied,
    why_not_returned,
)
from tests.kit.values import ELSE_ID, GUEST, HOST, JOB_ID, OTHER, a_job

HOLD = Hold("maintenance", "Ann")
HELD = Claim(2, 0, token="x")
PENDING, APPROVED = Consent(Approval.PENDING), Consent(Approval.APPROVED, "Ann", "fine")
REJECTED = Consent(Approval.REJECTED, "Ann", "no")
ENGINE = EngineState("local", cores=8, memory=1024, remaining_cores=4, remaining_memory=512)


def waiting(**fields: Any) -> Job:
    return a_job(JobStatus.WAITING, HOST, **fields)


# ---------------------------------------------------------------------- whether this party reserves for the job at all


@pytest.mark.parametrize(
    ("job", "hold", "retcode", "data"),
    [
        (waiting(), None, 0, None),
        (waiting(), HOLD, NOT_READY, None),
        (waiting(claim=HELD), HOLD, 0, None),
        (waiting(consent=PENDING), None, NOT_READY, {"awaits": "approval"}),
        (waiting(consent=REJECTED), None, 103, {"is_rejected": True}),
        (waiting(consent=REJECTED, claim=HELD), None, 0, None),
        (waiting(consent=APPROVED), None, 0, {"approved": "approved by Ann: fine"}),
        (waiting(consent=APPROVED, is_plain_v1=True), None, 0, None),
        (waiting(consent=APPROVED), HOLD, NOT_READY, None),
        (a_job(JobStatus.FAILED, HOST), None, 103, None),
    ],
)
def test_a_check_says_whether_the_job_could_reserve_now(
    job: Job, hold: Hold | None, retcode: int, data: dict[str, Any] | None
) -> None:
    found = answer_check(job, 0, hold)
    assert (found.retcode, found.data or None) == (retcode, data), found
    assert found.is_ok or why_not_applied(job, 0, hold) is not None, "an apply in the same request reserves nothing"


@pytest.mark.parametrize(("revision", "retcode"), [(0, 0), (2, 0), (3, NOT_READY)])
def test_a_check_says_that_later_parameters_are_missing(revision: int, retcode: int) -> None:
    assert answer_check(waiting(revision=2), revision, None).retcode == retcode
    applied = why_not_applied(waiting(revision=2), revision, None)
    assert (applied.retcode if applied else 0) == retcode, "an apply in the same request says the same"


# ---------------------------------------------------------------------- `apply`


@pytest.mark.parametrize(
    ("status", "claim", "expected"),
    [
        (JobStatus.WAITING, HELD, True),
        (JobStatus.RUNNING, HELD, True),
        (JobStatus.STOPPING, HELD, False),
        (JobStatus.WAITING, Claim(), False),
        (JobStatus.RUNNING, Claim(), False),
    ],
)
def test_an_apply_of_a_job_that_holds_only_renews(status: JobStatus, claim: Claim, expected: bool) -> None:
    assert only_renews(a_job(status, HOST, claim=claim)) is expected


@pytest.mark.parametrize("status", sorted(set(JobStatus) - {JobStatus.WAITING}, key=lambda one: one.value))
def test_only_a_waiting_job_may_apply(status: JobStatus) -> None:
    found = why_not_applied(a_job(status, HOST), 0, None)
    assert found is not None
    assert (found.retcode, found.retmsg) == (103, f"job {JOB_ID} on {HOST} is {status.value}, not waiting")


@pytest.mark.parametrize(
    ("fields", "hold", "expected"),
    [
        ({}, None, None),
        ({"consent": APPROVED}, None, None),
        ({}, HOLD, Answer(NOT_READY, "on hold by Ann: maintenance")),
        ({"consent": REJECTED}, HOLD, Answer(103, "rejected by Ann: no", {"is_rejected": True})),
    ],
)
def test_a_hold_and_a_missing_approval_refuse_an_apply(
    fields: dict[str, Any], hold: Hold | None, expected: Answer | None
) -> None:
    assert why_not_applied(waiting(**fields), 0, hold) == expected


def head(needed: int = 4, passes: int = 0, **fields: Any) -> PendingHead:
    known: dict[str, Any] = {"initiator": OTHER, "pending": PendingRequest(100, 100, passes), "queue_key": 50, **fields}
    job = replace(waiting(**known), key=JobKey(ELSE_ID, HOST))
    return PendingHead(job, Claim(needed, 0))


def view(first: PendingHead | None, order: int | None = None, **fields: Any) -> ApplyView:
    """The job asks for two of four free cores, of eight."""
    job = waiting(**fields)
    return ApplyView(job, order, (ApplyThere(ENGINE, job.asked, first),), most_passes=3)


@pytest.mark.parametrize(
    ("case", "is_passing"),
    [
        (view(None), False),
        (view(head()), True),
        (replace(view(head()), places=()), False),
        (view(replace(head(), job=waiting(pending=PendingRequest(100, 100)))), False),   # its own request
        (view(head(needed=2)), False),                                     # enough is left for both
        (view(head(needed=8)), True),
        (view(head(needed=9)), False),                                     # the head could never be served
        (view(head(), asked=Claim(5, 0)), False),                          # the job does not fit itself
        (view(head(), asked=Claim(1, 0)), True),
        (view(head(), pending=PendingRequest(99, 120)), False),            # it waits for longer
        (view(head(), pending=PendingRequest(101, 120)), True),
        (view(head(), pending=PendingRequest(100, 120)), False),           # equally long, with the smaller id
        (view(head(initiator=GUEST), order=49), False),                    # their initiator's queue has it first
        (view(head(initiator=GUEST), order=50), True),
        (view(head(), order=49), True),                                    # of another initiator
    ],
)  # fmt: skip
def test_a_job_that_takes_what_the_head_waits_for_passes_it(case: ApplyView, is_passing: bool) -> None:
    expected = [one.head.job for one in case.places if is_passing and one.head is not None]
    assert plan_apply(case) == Reserve(passed=tuple(expected))


def on_two_engines(cores: int, *heads: PendingHead | None) -> ApplyView:
    """The job asks for two of four free cores on each of two engines, of one more with `cores`."""
    parts = (EnginePart("slurm", cores),)
    job = waiting(asked=Claim(2 + cores, 0, elsewhere=parts))
    engines = (ENGINE, replace(ENGINE, name="slurm"))
    asked = job.asked.by_engine(ENGINE.name)
    places = (ApplyThere(engine, asked[engine.name], one) for engine, one in zip(engines, heads, strict=True))
    return ApplyView(job, None, tuple(places), most_passes=3)


def test_a_job_on_two_engines_passes_the_heads_of_both_each_once() -> None:
    other = replace(head(), job=replace(head().job, key=JobKey("20260101000009", HOST)))
    assert plan_apply(on_two_engines(2, head(), other)) == Reserve((head().job, other.job))
    assert plan_apply(on_two_engines(2, head(), head())) == Reserve((head().job,)), "one job is at both heads"
    assert plan_apply(on_two_engines(2, None, other)) == Reserve((other.job,))
    assert isinstance(plan_apply(on_two_engines(2, None, head(passes=3))), StandBehind)
    assert plan_apply(on_two_engines(5, head(passes=3), None)) == Reserve(), "it does not fit on slurm"


def test_a_head_that_was_passed_as_often_as_allowed_keeps_the_capacity() -> None:
    assert plan_apply(view(head(passes=2))) == Reserve((head(passes=2).job,))
    text = "keeps its capacity for an older job, which has been passed there 3 times"
    assert plan_apply(view(head(passes=3))) == StandBehind(text, ENGINE.name)
    assert plan_apply(view(head(passes=3), pending=PendingRequest(99, 120))) == Reserve()


def test_seats_that_hold_or_have_ended_need_nothing_more() -> None:
    seats = [
        waiting(asked=Claim(2, 10)), waiting(asked=Claim(3, 20)), waiting(asked=Claim(9, 9), claim=HELD),
        a_job(JobStatus.CANCELED, HOST, asked=Claim(9, 9)),
    ]  # fmt: skip
    assert still_needed(seats, "local") == {"local": Claim(5, 30)}
    assert still_needed([], "local") == {}


def test_what_seats_need_is_counted_for_each_engine() -> None:
    parts = (EnginePart("slurm", 2, 5, 1),)
    seats = [waiting(asked=Claim(3, 10, gpus=1, elsewhere=parts)), waiting(asked=Claim(4, 20, engine="slurm"))]
    assert still_needed(seats, "local") == {"local": Claim(1, 5), "slurm": Claim(6, 25, gpus=1)}


def test_the_answer_to_a_granted_apply_states_the_lease_in_seconds() -> None:
    data = {"cores": 2, "memory": 0, "remaining_cores": 4, "lease_seconds": 1.5}
    assert granted(waiting(), 4, 1_500) == Answer(data=data)


# ---------------------------------------------------------------------- too little capacity


@pytest.mark.parametrize(
    ("asked", "is_own", "expected"),
    [
        (Claim(5, 0), False, Shortage("has 4 of 8 cores free, 5 asked")),
        (Claim(2, 600), False, Shortage("has too little memory free, 600 MB asked")),
        (Claim(2, 600), True, Shortage("has 512 of 1024 MB of memory free, 600 asked")),
        (Claim(9, 0), False,
         Shortage("has 4 of 8 cores free, 9 asked: the job asks for more than it has in all", is_lasting=True)),
        (Claim(2, 2000), False,
         Shortage("has too little memory free, 2000 MB asked: the job asks for more than it has in all",
                  is_lasting=True)),
    ],
)  # fmt: skip
def test_a_shortage_says_what_is_missing(asked: Claim, is_own: bool, expected: Shortage) -> None:
    assert shortage(asked, asked, ENGINE, is_own=is_own) == expected


def test_only_own_users_learn_which_of_several_engines_is_short() -> None:
    asked = Claim(5, 0)
    assert shortage(asked, asked, ENGINE, is_own=False, names_it=True).why == "has 4 of 8 cores free, 5 asked"
    own = shortage(asked, asked, ENGINE, is_own=True, names_it=True).why
    assert own == f"has 4 of 8 cores free on engine {ENGINE.name}, 5 asked"


def test_all_seats_of_a_job_together_may_be_too_large() -> None:
    assert not shortage(Claim(5, 0), Claim(5, 0), ENGINE, is_own=False).is_lasting
    assert shortage(Claim(5, 0), Claim(9, 0), ENGINE, is_own=False).is_lasting


@pytest.mark.parametrize(
    ("found", "is_coming", "data"),
    [
        (Shortage("full"), False, {"why": "full", "free_cores": 4}),
        (Shortage("full"), True, {"why": "full; elastic workers are giving theirs back", "free_cores": 4}),
        (Shortage("full", is_lasting=True), False, {"why": "full", "free_cores": 4, "never": True}),
    ],
)
def test_the_answer_to_an_apply_that_reserved_nothing(found: Shortage, is_coming: bool, data: dict[str, Any]) -> None:
    expected = Answer(NO_CAPACITY, f"apply for job {JOB_ID} resource failed", data)
    assert not_reserved(waiting(), found, 4, is_coming=is_coming) == expected


def test_without_an_engine_there_is_no_number_of_free_cores() -> None:
    assert no_engine().data == {"why": "has no computing engine"}


# ---------------------------------------------------------------------- `return`


@pytest.mark.parametrize("status", JobStatus)
def test_only_a_running_job_keeps_its_reservation(status: JobStatus) -> None:
    found = why_not_returned(a_job(status, HOST))
    assert (found.retcode if found is not None else None) == (NOT_EFFECTIVE if status is JobStatus.RUNNING else None)


@pytest.mark.parametrize(
    ("since", "still_wants", "expected"),
    [(100, True, True), (100, False, False), (100, None, None), (0, True, None), (0, False, None)],
)
def test_a_pending_request_stays_if_the_job_waits_for_capacity_elsewhere(
    since: int, still_wants: bool | None, expected: bool | None
) -> None:
    assert stays_pending(waiting(pending=PendingRequest(since, since)), still_wants) is expected
