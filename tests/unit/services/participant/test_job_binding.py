"""A job id is bound at its first `create`: to its initiator, its seats, and one document with its revisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.authority import document_digest
from fate_flow.core.access.permission import Kind, Thing
from fate_flow.core.model.approval import Approval, ApprovalRule, Consent
from fate_flow.core.model.errors import NOT_EFFECTIVE, NOT_READY
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.wire.v1.job_answers import STILL_ENDS
from fate_flow.services.participant.participant import Participant
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import RUN, a_host, command, create, task_command
from tests.kit.services.sights import STOPPED
from tests.kit.services.two_seats import (
    ARBITER,
    ROLES,
    WORK,
    A,
    change,
    joined,
    reading,
    started,
    strict_host,
    tables_read,
    taken,
    unbound,
)
from tests.kit.values import HOST, JOB_ID

# ---------------------------------------------------------------------- attacks


@pytest.mark.parametrize("revision", [0, 1, 2**31 - 1])
def test_a_create_for_another_seat_brings_no_other_document(revision: int) -> None:
    """What was granted for one seat, then a table for the other seat, in a document of a higher revision."""
    host = strict_host()
    assert host.handle(create(HOST, reading("granted"))).is_ok
    answer = host.handle(create(ARBITER, reading("secret", "host"), revision=revision))
    assert not answer.is_ok
    assert (host.job().revision, host.job_or_none(ARBITER)) == (0, None)
    taken(host, command(K.STATUS, argument="waiting"), command(K.APPLY, turn=1), command(K.START))
    taken(host, task_command(K.TASK_START))
    assert tables_read(host) == ["granted"]


def test_every_own_seat_is_accepted_and_not_only_the_one_that_is_asked() -> None:
    host = strict_host()
    answer = host.handle(create(ARBITER, reading("secret", "host")))
    assert (answer.retcode, "table demo/secret" in answer.retmsg) == (108, True)
    assert host.snapshot()["jobs"] == ()


def test_parameters_for_one_seat_are_those_of_all_seats_and_checked_at_each() -> None:
    host = strict_host()
    seats = (HOST, ARBITER)
    taken(host, *(create(seat, reading("granted")) for seat in seats))
    taken(host, *(command(K.STATUS, seat, argument="waiting") for seat in seats))
    conf = reading("secret", "host").runtime_conf
    parts = {kind: conf.get(kind) or {} for kind in ("job_parameters", "component_parameters")}
    answer = host.handle(command(K.PARAMETERS, ARBITER, revision=1, **parts))
    assert (answer.retcode, "table demo/secret" in answer.retmsg) == (108, True)
    assert [host.job(seat).revision for seat in seats] == [0, 0]


def test_another_party_does_not_make_a_running_job_its_own() -> None:
    host = started(strict_host(), reading("granted"))
    Harness(host).use_cases.permissions.grant("10001", [WORK])
    seen = host.snapshot()
    others = {"guest": ["10001"], "host": ["10000"], "arbiter": ["10000"]}
    own = reading("secret", "host", others)
    for asked in (
        create(Party("guest", "10000"), job({"guest": ["10000"], "host": ["10001"]}), revision=9),
        create(Party("guest", "10000"), own, revision=9), create(ARBITER, own, revision=9), create(HOST, own),
        command(K.PARAMETERS, HOST, revision=9, job_parameters={}, component_parameters={}),
        command(K.STATUS, HOST, argument="failed"), command(K.STOP, HOST, argument="canceled"),
        task_command(K.TASK_STATUS, argument="failed"), task_command(K.TASK_STOP, argument="canceled"),
        task_command(K.TASK_CREATE, version=1), task_command(K.TASK_START),
    ):  # fmt: skip
        answer = host.handle(asked, caller="10001")
        assert not answer.is_ok, asked
        assert "granted" not in answer.retmsg or "has not granted" in answer.retmsg
    assert host.snapshot() == seen


def test_another_party_takes_no_free_seat_of_a_job() -> None:
    """The seat is here, the job runs at another one of this party, and nothing that it asks for has to be granted."""
    host = taken(
        strict_host(), create(HOST, reading("granted")), command(K.STATUS, argument="waiting"),
        command(K.APPLY, turn=1), command(K.START),
    )  # fmt: skip
    Harness(host).use_cases.permissions.grant("10001", [WORK])
    seen = host.snapshot()
    own = job({"guest": ["10001"], "arbiter": ["10000"]}, A)
    for asked in (
        create(ARBITER, own, revision=9), create(ARBITER, own), command(K.STATUS, ARBITER, argument="waiting"),
        command(K.PARAMETERS, ARBITER, revision=9, job_parameters={}, component_parameters={}),
        task_command(K.TASK_STATUS, to=ARBITER, argument="failed"),
        task_command(K.TASK_STOP, to=ARBITER, argument="canceled"),
    ):  # fmt: skip
        answer = host.handle(asked, caller="10001")
        assert not answer.is_ok, (asked, answer)
    assert host.snapshot() == seen
    taken(host, task_command(K.TASK_START))
    assert tables_read(host) == ["granted"]


def test_a_seat_begins_no_component_that_has_no_share_there() -> None:
    """Of such a one nothing was looked at, neither for the create nor when its worker would start."""
    host = strict_host()
    only_hosts = Module(roles=frozenset({"guest", "host"}))
    host.context = replace(host.context, modules={**host.context.modules, "Other": only_hosts})
    Harness(host).use_cases.permissions.grant("9999", [Thing(Kind.COMPONENT, "Other")])
    document = reading("granted")
    document = replace(document, dsl={"components": {**document.dsl["components"], "b": {"module": "Other"}}})
    started(host, document)
    Harness(host).use_cases.permissions.revoke("9999", [Thing(Kind.COMPONENT, "Other")])
    begun = [task_command(kind, "b", ARBITER, incarnation="b1" * 16) for kind in (K.TASK_CREATE, K.TASK_START)]
    said, _ = [host.handle(one) for one in begun]
    assert (said.retcode, said.retmsg) == (100, f"component b of job {JOB_ID} does not run at arbiter 10000")
    assert host.engine.launched == []


# ---------------------------------------------------------------------- what is bound


@pytest.mark.parametrize(("other", "text"), [
    (job({"guest": ["10000"], "host": ["10000"], "arbiter": ["10000"]}), "initiator: guest 10000 is not party 9999"),
    (job({"guest": ["9999"], "host": ["10000"], "arbiter": ["10000", "10001"]}), "has other parties here"),
    (job(ROLES, cores=2), "has another document here as revision 0"),
    (job(ROLES, {"b": []}), "has another document here as revision 0"),
])  # fmt: skip
def test_a_second_create_that_differs_is_refused_and_says_in_what(other: Document, text: str) -> None:
    host = a_host(create(HOST, job(ROLES)))
    answer = host.handle(create(ARBITER, other))
    assert (answer.is_ok, text in answer.retmsg) == (False, True), answer
    assert [row.party for row in host.snapshot()["jobs"]] == [HOST]


def test_a_second_create_with_the_same_job_takes_its_seat() -> None:
    document = job(ROLES)
    turned = replace(document, runtime_conf=dict(reversed(document.runtime_conf.items())))
    host = a_host(create(HOST, document), create(ARBITER, turned))
    assert {row.party for row in host.snapshot()["jobs"]} == {HOST, ARBITER}


WITHDRAWN = command(K.STATUS, argument="failed", tag="submit_failed")


def test_a_job_that_was_never_accepted_everywhere_keeps_its_id_as_long_as_its_log_is_here() -> None:
    host = a_host(create(), WITHDRAWN)
    theirs, other = (create(document=job({"guest": [one], "host": ["10000"]}, cores=3)) for one in ("10001", "9999"))
    refused = host.handle(theirs, caller="10001")
    assert (refused.retcode, "is here already, created first by another initiator" in refused.retmsg) == (108, True)
    assert "has another document here" in host.handle(other).retmsg
    assert unbound(host).handle(theirs, caller="10001").is_ok
    with host.unit() as unit:
        spec = unit.spec(JOB_ID)
    assert spec is not None
    assert spec.initiator == Party("guest", "10001")


def test_what_is_parsed_is_known_by_what_it_says_and_not_by_its_number() -> None:
    """A job that begins anew under the id of one that is forgotten is not run by the old document."""
    host = a_host(*RUN[:1])
    with host.unit() as unit:
        assert unit.spec(JOB_ID) is not None
    taken(host, WITHDRAWN)
    taken(unbound(host), create(document=job({"guest": ["9999"], "host": ["10000"]}, {"other": []})))
    with host.unit() as unit:
        spec = unit.spec(JOB_ID)
    assert spec is not None
    assert list(spec.tasks) == ["other"]


@pytest.mark.parametrize(("one", "other", "is_same"), [
    ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}, True), ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ({"a": 1}, {"a": 1.0}, False), ({"a": 1}, {"a": True}, False), ({"a": "1"}, {"a": 1}, False),
    ({"a": "\u00e9"}, {"a": "e\u0301"}, False), ({"a": "\ud83d"}, {"a": "\ufffd"}, False), ({"a": None}, {}, False),
    ({"1": 1}, {"1": 1}, True), ({"a": 10**30}, {"a": 1e30}, False), ({"a": "\U0001f600"}, {"a": "\U0001f600"}, True),
])  # fmt: skip
def test_the_digest_is_of_what_a_document_says(one: Any, other: Any, is_same: bool) -> None:
    assert (document_digest(one, {}) == document_digest(other, {})) is is_same
    assert (document_digest({}, one) == document_digest({}, other)) is is_same
    assert document_digest(one, {}) != document_digest({}, one)


# ---------------------------------------------------------------------- revisions


def test_all_seats_take_a_revision_at_once() -> None:
    host = joined(approval=ApprovalRule(required=True))
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "ada")
    assert host.handle(change(ARBITER)).is_ok
    rows = [host.job(HOST), host.job(ARBITER)]
    assert [(row.revision, row.consent.approval if row.consent else None) for row in rows] == [
        (1, Approval.PENDING)] * 2  # fmt: skip
    with host.unit() as unit:
        assert unit.tx.document(JOB_ID, HOST).runtime_conf == unit.tx.document(JOB_ID, ARBITER).runtime_conf
    seen = host.snapshot()
    assert host.handle(change(HOST)).is_ok, "it is told each seat"
    assert host.snapshot() == seen


def test_a_seat_that_runs_keeps_all_seats_from_a_revision() -> None:
    host = taken(joined(), command(K.APPLY, HOST, turn=1), command(K.START, HOST))
    seen = host.snapshot()
    answer = host.handle(change(ARBITER))
    assert (answer.retcode, answer.data) == (NOT_EFFECTIVE, {STILL_ENDS: True})
    assert host.snapshot() == seen


def test_a_plain_v1_initiator_tells_each_seat_and_changes_the_job_once() -> None:
    host = joined()
    taken(host, change(HOST, None), change(ARBITER, None))
    assert [host.job(seat).revision for seat in (HOST, ARBITER)] == [1, 1]
    taken(host, change(ARBITER, None, 2))
    assert [host.job(seat).revision for seat in (HOST, ARBITER)] == [2, 2]


def test_a_create_with_a_later_revision_changes_the_seats_that_are_there() -> None:
    """As it invites a seat again that had forgotten the job meanwhile."""
    host = a_host(create(HOST, job(ROLES)), command(K.STATUS, argument="waiting"))
    later = job(ROLES, cores=1)
    assert host.handle(create(ARBITER, later, revision=3)).is_ok
    assert [(host.job(seat).revision, host.job(seat).asked.cores) for seat in (HOST, ARBITER)] == [(3, 1), (3, 0)]
    assert host.handle(change(HOST, 2)).is_ok, "out of date"
    assert host.job().revision == 3


def test_a_create_with_a_later_revision_for_a_seat_that_is_there_is_taken_or_refused() -> None:
    host = joined()
    assert host.handle(create(HOST, job(ROLES, cores=2), revision=1)).is_ok
    assert [(host.job(seat).revision, host.job(seat).asked.cores) for seat in (HOST, ARBITER)] == [(1, 2), (1, 0)]
    taken(host, command(K.APPLY, HOST, turn=1), command(K.START, HOST))
    assert host.handle(create(HOST, job(ROLES), revision=2)).data == {STILL_ENDS: True}
    assert host.job().revision == 1


@pytest.mark.parametrize("seat", [HOST, ARBITER])
def test_a_later_revision_brings_no_other_dsl(seat: Party) -> None:
    """Else people would approve the DSL of the rows, and the one of the binding would run."""
    host = a_host(create(HOST, job(ROLES, A)), approval=ApprovalRule(required=True))
    taken(host, command(K.STATUS, argument="waiting"))
    document = job(ROLES, A)
    other = replace(document, dsl={"components": {**document.dsl["components"], "b": {"module": "Work"}}})
    seen = host.snapshot()
    answer = host.handle(create(seat, other, revision=1))
    assert (answer.retcode, "has another dsl here" in answer.retmsg) == (103, True), answer
    assert host.snapshot() == seen
    with host.unit() as unit:
        assert (unit.binding(JOB_ID).revision, list(unit.spec(JOB_ID).tasks)) == (0, ["a"])


def test_a_job_from_before_approvals_were_required_is_approved_with_its_next_parameters() -> None:
    host = joined()
    host.context = replace(host.context, approval=ApprovalRule(required=True))
    taken(host, change(HOST))
    assert [host.job(seat).consent for seat in (HOST, ARBITER)] == [Consent(Approval.PENDING)] * 2
    assert host.handle(command(K.APPLY, turn=1)).retcode == NOT_READY
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "ada", revision=1)
    taken(host, command(K.APPLY, turn=1))


def test_a_job_that_is_forgotten_and_created_in_one_unit_is_bound() -> None:
    host = a_host(create())
    with host.unit() as unit:
        for one in (create(), WITHDRAWN, create()):
            assert Participant().handle(unit, one, "9999").is_ok
    with host.store.reading() as tx:
        assert tx.binding(JOB_ID) is not None


def test_a_create_with_an_earlier_revision_is_out_of_date() -> None:
    host = taken(a_host(create(HOST, job(ROLES)), command(K.STATUS, argument="waiting")), change(HOST))
    assert host.handle(create(HOST, job(ROLES))).is_ok, "the seat is there"
    assert host.handle(create(ARBITER, job(ROLES))).retcode == NOT_EFFECTIVE
    assert (host.job().revision, host.job_or_none(ARBITER)) == (1, None)


def test_a_rerun_with_parameters_waits_for_all_seats_and_then_each_begins() -> None:
    host = started(HandServer("10000"), job(ROLES, A))
    taken(host, task_command(K.TASK_START, to=HOST))
    parameters = {"revision": 1, "components": [], **change(HOST).body}
    again = [
        command(K.STATUS, seat, argument="waiting", run=1, last={"status": "canceled"}, parameters=parameters)
        for seat in (HOST, ARBITER)
    ]
    assert host.handle(again[1]).data == {STILL_ENDS: True}
    assert [host.job(seat).revision for seat in (HOST, ARBITER)] == [0, 0]
    host.engine.sights[worker_of(host)] = STOPPED
    host.watch()
    taken(host, *again)
    assert [(host.job(seat).run, host.job(seat).revision, host.job(seat).status) for seat in (HOST, ARBITER)] == [
        (1, 1, JobStatus.WAITING)] * 2  # fmt: skip
