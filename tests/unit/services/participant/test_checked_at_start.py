"""What is looked at again when a worker starts: grants, ceilings, the approval, the document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.authority import document_digest
from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.access.permission import Thing
from fate_flow.core.access.site import SiteRule
from fate_flow.core.model.approval import Approval, ApprovalRule, Consent
from fate_flow.core.model.artifact import JSON_MODEL
from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import Answer
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.quotas.disk_space import DiskSpace
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.jobspec.parameters import Change, changed_conf
from fate_flow.services.context.documents import parse_document
from fate_flow.store.values import Document, StoredModel
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import command, create, task_command
from tests.kit.services.two_seats import (
    ARBITER,
    DATA,
    ROLES,
    WORK,
    A,
    change,
    joined,
    reading,
    started,
    strict_host,
    taken,
    unbound,
)
from tests.kit.values import HOST, JOB_ID


def share(host: HandServer) -> tuple[TaskStatus, Reason | None, str]:
    task = host.task("a", HOST)
    return task.party_status, task.reason, task.message


NOT_GRANTED = "host 10000 has not granted party 9999: {} (flow privilege grant, there)"


@pytest.mark.parametrize("revoked", [WORK, DATA])
def test_what_is_no_longer_granted_starts_no_more(revoked: Thing) -> None:
    host = started(strict_host(), reading("granted"))
    Harness(host).use_cases.permissions.revoke("9999", [revoked])
    answer = host.handle(task_command(K.TASK_START))
    assert (answer.is_ok, answer.data["party_status"], answer.data["reason"]) == (True, "failed", "not_allowed")
    assert share(host) == (TaskStatus.FAILED, Reason.NOT_ALLOWED, NOT_GRANTED.format(revoked))
    assert host.engine.launched == []


def test_what_is_revoked_between_order_and_start_is_not_started_again() -> None:
    host = started(strict_host(), reading("granted"))
    taken(host, task_command(K.TASK_START))
    Harness(host).use_cases.permissions.revoke("9999", [DATA])
    host.steady = 5_000         # the order may have been lost: it is given again
    host.watch()
    assert share(host) == (TaskStatus.FAILED, Reason.NOT_ALLOWED, NOT_GRANTED.format(DATA))
    assert len(host.engine.launched) == 1
    assert host.engine.stopped == [worker_of(host)], "the first order may only be late"


def test_what_another_task_needs_stops_only_that_one() -> None:
    document = reading("granted")
    document = replace(document, dsl={"components": {**document.dsl["components"], "b": {"module": "Work"}}})
    host = started(strict_host(), document)
    Harness(host).use_cases.permissions.revoke("9999", [DATA])
    taken(host, task_command(K.TASK_START, "b", incarnation=None))
    assert host.task("b", HOST).party_status is TaskStatus.WAITING
    assert len(host.engine.launched) == 1


def test_ceilings_are_those_of_the_moment() -> None:
    host = started(HandServer("10000"), job(ROLES, A, cores=2))
    host.context = replace(host.context, ceilings=Ceilings(task_cores=1))
    taken(host, task_command(K.TASK_START))
    status, reason, message = share(host)
    assert (status, reason, "task_cores: 2 is more than host 10000 allows" in message) == (
        TaskStatus.FAILED, Reason.NOT_ALLOWED, True), message


@pytest.mark.parametrize(("digest", "is_started"), [("", False), (None, True), ("e" * 64, False)])
def test_an_approval_is_of_one_document(digest: str | None, is_started: bool) -> None:
    host = HandServer("10000", approval=ApprovalRule(required=True))
    taken(host, create(document=job(ROLES, A)), command(K.STATUS, argument="waiting"))
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "ada")
    consent = host.job().consent
    assert consent is not None
    if digest is not None:
        with host.store.transaction() as tx:
            tx.decide_consent(host.job().key, replace(consent, digest=digest))
    taken(host, command(K.APPLY, turn=1), command(K.START), task_command(K.TASK_START))
    assert len(host.engine.launched) == is_started
    text = "" if is_started else f"nobody at host 10000 has approved job {JOB_ID} with this document"
    assert share(host)[2].startswith(text)


def test_an_approval_of_what_was_looked_at_is_of_nothing_else() -> None:
    host = joined(approval=ApprovalRule(required=True))
    taken(host, change(HOST))
    with pytest.raises(Conflict, match="now has parameters of revision 1: look at it again"):
        Harness(host).use_cases.approvals.approve(JOB_ID, "", "ada", revision=0)
    assert host.job().consent == Consent(Approval.PENDING)
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "ada", revision=1)
    assert [host.job(seat).consent is not None and host.job(seat).consent.is_given for seat in (HOST, ARBITER)] == [
        True, True]  # fmt: skip


@pytest.mark.parametrize("digits", [32, 64])
def test_an_approval_by_digest_is_not_of_a_job_that_was_swapped_since(digits: int) -> None:
    """Its initiator withdraws it while not everybody has accepted it, and creates the id again: once it is free."""
    host = HandServer("10000", approval=ApprovalRule(required=True))
    use_cases, harmless, other = Harness(host).use_cases, job(ROLES, A), job(ROLES, A, cores=2)
    taken(host, create(document=harmless))
    seen = document_digest(harmless.dsl, harmless.runtime_conf)
    taken(host, command(K.STATUS, argument="failed", tag="submit_failed"))
    assert "has another document here" in host.handle(create(document=other)).retmsg
    taken(unbound(host), create(document=other))
    now = document_digest(other.dsl, other.runtime_conf)
    with pytest.raises(Conflict, match=f"job {JOB_ID} now has another document \\({now[:32]}\\): look at it again"):
        use_cases.approvals.approve(JOB_ID, "", "ada", revision=0, digest=seen[:digits])
    assert host.job().consent == Consent(Approval.PENDING)
    with pytest.raises(Conflict, match="another document"):
        use_cases.approvals.approve(JOB_ID, "", "ada", digest=now[:31])
    assert use_cases.approvals.approve(JOB_ID, "", "ada", digest=now[:digits]).digest == now
    assert host.job().consent is not None
    assert host.job().consent.is_of(now)


def test_a_job_that_runs_since_an_older_release_can_be_approved_anew() -> None:
    """Until then none of its workers starts."""
    host = HandServer("10000", approval=ApprovalRule(required=True))
    taken(host, create(document=job(ROLES, {"a": [], "b": []})), command(K.STATUS, argument="waiting"))
    use_cases = Harness(host).use_cases
    use_cases.approvals.approve(JOB_ID, "", "ada")
    taken(host, command(K.APPLY, turn=1), command(K.START))
    with host.store.transaction() as tx:      # as migration 3 leaves it
        tx._change(tx._jobs.rows[host.job().key], consent=Consent(Approval.PENDING))
    taken(host, task_command(K.TASK_START, "a"))
    assert host.engine.launched == []
    with pytest.raises(Conflict, match="flow job stop ends it"):
        use_cases.approvals.reject(JOB_ID, "no", "ada")
    use_cases.approvals.approve(JOB_ID, "", "ada")
    taken(host, task_command(K.TASK_START, "b"))
    assert [order.worker.task.name for order in host.engine.launched] == ["b"]
    with pytest.raises(Conflict, match="has been approved and is under way"):
        use_cases.approvals.approve(JOB_ID, "", "ada")


def test_rows_with_another_document_than_the_bound_one_run_nothing() -> None:
    host = started(HandServer("10000"), job(ROLES, A))
    host.context.specs.clear()
    with host.store.transaction() as tx:
        row, document = tx.job(host.job().key), tx.document(JOB_ID)
        assert tx.revise(row, row, replace(document, runtime_conf={**document.runtime_conf, "x": 1}))
        row = tx.job(host.job(ARBITER).key)
        assert tx.revise(row, row, replace(document, runtime_conf={**document.runtime_conf, "x": 1}))
    answer = host.handle(task_command(K.TASK_START))
    assert (answer.retcode, answer.retmsg) == (103, f"job {JOB_ID}: its rows have another document than it is bound to")
    assert host.engine.launched == []


@pytest.mark.parametrize("document", [
    job(ROLES, A, cores=2), job(ROLES, A, cores=999), reading("secret"), reading("nowhere"), reading("granted"),
])  # fmt: skip
def test_who_was_granted_nothing_learns_nothing_else(document: Document) -> None:
    """Neither ceilings nor cores, nor which tables there are: each of these would be refused for something else."""
    host = strict_host(ceilings=Ceilings(task_cores=1))
    Harness(host).use_cases.permissions.revoke("9999", [WORK, DATA])
    for answer in answers(host, document):
        assert answer.retcode == 108
        assert answer.retmsg.startswith("host 10000 has not granted party 9999: component Work")


def answers(host: HandServer, document: Document) -> tuple[Answer, Answer]:
    """What the host says to a job of party 9999, and to the question whether it would take it."""
    preview = Harness(host).use_cases.commands.preview(create(document=document), "9999")
    return host.handle(create(document=document)), preview


def revoke_a_party(host: HandServer) -> None:
    keys = PartyKeys("10001", 1, "", "", 1, KeyState.REVOKED, "bob", 1)
    with host.store.transaction() as tx:
        assert tx.add_party_keys(keys)


def ask_for_keys(host: HandServer) -> None:
    host.context = replace(host.context, site=SiteRule(is_on=True, unsigned_from=frozenset({"9999"})))


def know_the_id(host: HandServer) -> None:
    """Another party has a job of this id here."""
    theirs = job({"guest": ["10001"], "host": ["10000"]})
    Harness(host).use_cases.permissions.grant("10001", [WORK])
    assert host.handle(create(document=theirs), "10001").is_ok


def have_models_of_the_id(host: HandServer) -> None:
    reference = ModelReference(JOB_ID, 0, "a", "m")
    with host.store.transaction() as tx:
        tx.save_model(StoredModel(reference, HOST, JSON_MODEL, "", 0, JOB_ID, "10001", 0, "Work", {"guest": [10001]}))


def have_no_space(host: HandServer) -> None:
    host.context = replace(host.context, disk=lambda: DiskSpace(9, 10))


@pytest.mark.parametrize(("happens", "text"), [
    (revoke_a_party, "party 10001 was revoked at party 10000"),
    (ask_for_keys, "has no public key of party 10001"),
    (know_the_id, "is here already, created first by guest 10001"),
    (have_models_of_the_id, "party 10000 has models of another job with this id"),
    (have_no_space, "its disk is nearly full"),
])  # fmt: skip
def test_what_is_here_is_told_to_nobody_without_a_grant(happens: Callable[[HandServer], None], text: str) -> None:
    """Neither whom this party knows or has revoked, nor which jobs are here, nor how full its disk is."""
    host, document = strict_host(), job({"guest": ["9999", "10001"], "host": ["10000"]}, A)
    happens(host)
    assert all(text in one.retmsg for one in answers(host, document)), answers(host, document)
    Harness(host).use_cases.permissions.revoke("9999", [WORK, DATA])
    for answer in answers(host, document):
        assert (answer.retcode, answer.retmsg) == (108, NOT_GRANTED.format("component Work"))


def test_which_components_are_here_is_told_to_nobody_without_a_grant() -> None:
    host, document = strict_host(), job(ROLES, A)
    document = replace(document, dsl={"components": {"a": {"module": "Nowhere"}}})
    assert all("'Nowhere' is not known here; known: Upload, Work" in one.retmsg for one in answers(host, document))
    Harness(host).use_cases.permissions.revoke("9999", [WORK, DATA])
    for answer in answers(host, document):
        text = "host 10000 has granted nothing to party 9999 (flow privilege grant, there)"
        assert (answer.retcode, answer.retmsg) == (108, text)


@pytest.mark.parametrize("cores", [2, 999])
def test_a_job_that_runs_nothing_here_needs_a_grant_as_well(cores: int) -> None:
    """It would set cores aside, and its refusals would tell of ceilings and sizes."""
    passing = {"common": {"a": {"need_run": False}}}
    document = job(ROLES, A, cores=cores)
    document = replace(document, runtime_conf={**document.runtime_conf, "component_parameters": passing})
    host = strict_host(ceilings=Ceilings(task_cores=1 if cores == 999 else 8))
    Harness(host).use_cases.permissions.revoke("9999", [WORK, DATA])
    for answer in (
        host.handle(create(document=document)),
        Harness(host).use_cases.commands.preview(create(document=document), "9999"),
    ):
        text = "host 10000 has granted nothing to party 9999 (flow privilege grant, there)"
        assert (answer.retcode, answer.retmsg) == (108, text)


@pytest.mark.parametrize("parts", [
    {"job_parameters": {"common": {"task_cores": 1}}}, {"component_parameters": {"common": {"a": {"x": 1}}}},
    {"job_parameters": {"role": {"host": {"0": {"task_cores": 1}}}}}, {},
])  # fmt: skip
def test_a_party_and_its_initiator_have_the_same_document_after_a_change(parts: dict[str, Any]) -> None:
    """What is sent with a change, and a whole document that is sent again, bind the job to the same digest."""
    context = HandServer("9999").context
    document = job(ROLES, A)
    without = replace(document, runtime_conf={**document.runtime_conf, "component_parameters": {}})
    spec = parse_document(context, without.content)
    change = Change(parts.get("job_parameters", {}), parts.get("component_parameters", {}))
    at_initiator = replace(document, runtime_conf=changed_conf(spec, change))
    changed = parse_document(context, at_initiator.content)
    new = changed.conf
    at_party = {**spec.conf, **changed.changeable_conf}
    assert document_digest(document.dsl, at_party) == document_digest(document.dsl, new)
