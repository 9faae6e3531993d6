"""A job file between parties: one document is parsed, checked, bound, granted and approved at a party."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.authority import JobBinding, document_digest
from fate_flow.core.model.approval import Approval, ApprovalRule
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import Answer, Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.jobspec.formats import NATIVE, digest_of
from fate_flow.jobspec.parameters import read_change
from fate_flow.store.values import Document
from tests.kit.services.hand_initiator import Initiator
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import command, create, task_command
from tests.kit.services.two_seats import ARBITER, reading, strict_host, tables_read, taken
from tests.kit.values import GUEST, HOST, JOB_ID

DEFAULTS = {"task_cores": 1, "timeout": 77}
SEATS = (HOST, ARBITER)


def a_file(table: str = "granted", **changes: Any) -> dict[str, Any]:
    return {
        "version": 1, "initiator": "guest 9999",
        "parties": {"guest": [9999], "host": [10000], "arbiter": ["10000"]}, "resources": {"memory": 0},
        "tasks": {"a": {"component": "Work", "parameters": {"table": {"namespace": "demo", "name": table}}}}, **changes,
    }  # fmt: skip


def native(
    to: Party = HOST, file: Mapping[str, Any] | None = None, beside: Document | None = None, **more: Any
) -> Command:
    """`create` with a job file; `beside`: the documents of FATE in the same body."""
    one = create(to, beside or reading("granted"), **more)
    document = {"format": NATIVE, "body": a_file() if file is None else file, "defaults": DEFAULTS}
    return replace(one, body={**one.body, "document": document})


def binding(server: HandServer) -> JobBinding:
    with server.store.reading() as tx:
        found = tx.binding(JOB_ID)
    assert isinstance(found, JobBinding)
    return found


def row_document(server: HandServer, party: Party = HOST) -> Document:
    with server.store.reading() as tx:
        found = tx.document(JOB_ID, party)
    assert isinstance(found, Document)
    return found


def test_a_participant_keeps_and_binds_the_file() -> None:
    host = taken(strict_host(), *(native(seat) for seat in SEATS))
    for seat in SEATS:
        document = row_document(host, seat)
        assert document.own == JobDocument(NATIVE, a_file(), DEFAULTS)
        assert document.dsl == {"components": {"a": {"module": "Work"}}}
        assert document.runtime_conf["job_parameters"]["common"]["timeout"] == host.job(seat).timeout_seconds == 77
        assert document.on_party["job_parameters"]["timeout"] == 77
    assert binding(host).digest == digest_of(JobDocument(NATIVE, a_file(), DEFAULTS))


def test_another_process_reads_the_file_in_the_row() -> None:
    host = taken(strict_host(), native())
    with host.unit() as unit:
        first = unit.spec(JOB_ID)
    host.context.accepted.clear()
    host.context.specs.clear()
    with host.unit() as unit:
        assert unit.spec(JOB_ID) == first is not None


# ---------------------------------------------------------------------- attacks


@pytest.mark.parametrize("beside", [reading("secret"), Document({}, {}, {}), Document({"x": [1]}, {"role": 7}, {})])
def test_nothing_beside_the_file_says_what_the_job_is(beside: Document) -> None:
    host = strict_host()
    taken(host, *(native(seat, beside=beside) for seat in SEATS))
    taken(host, command(K.STATUS, argument="waiting"), command(K.APPLY, turn=1), command(K.START))
    taken(host, task_command(K.TASK_START))
    assert tables_read(host) == ["granted"]
    assert row_document(host).runtime_conf["component_parameters"] == {
        "common": {"a": {"table": {"namespace": "demo", "name": "granted"}}}
    }


def test_harmless_documents_beside_a_file_grant_nothing() -> None:
    host = strict_host()
    answer = host.handle(native(file=a_file("secret"), beside=reading("granted")))
    assert (answer.retcode, "table demo/secret" in answer.retmsg) == (108, True)
    assert host.job_or_none() is None


@pytest.mark.parametrize("revision", [0, 1])
def test_another_file_beside_the_same_documents_is_another_job(revision: int) -> None:
    host = taken(strict_host(), native())
    answer = host.handle(native(ARBITER, file=a_file("secret"), revision=revision))
    assert not answer.is_ok
    assert host.job_or_none(ARBITER) is None


def test_the_documents_alone_are_another_job_than_the_file() -> None:
    host = taken(strict_host(), native())
    shown = row_document(host)
    answer = host.handle(create(ARBITER, Document(shown.dsl, shown.runtime_conf, {})))
    assert (answer.retcode, "has another document here" in answer.retmsg) == (108, True)


def test_other_defaults_are_another_job() -> None:
    host = taken(strict_host(), native())
    other = native(ARBITER)
    changed = {**other.body["document"], "defaults": {**DEFAULTS, "timeout": 78}}
    answer = host.handle(replace(other, body={**other.body, "document": changed}))
    assert (answer.retcode, "has another document here" in answer.retmsg) == (108, True)


def test_name_and_description_beside_a_file_are_not_shown() -> None:
    shown = []
    for file in (a_file(name="Sum", description="of salaries"), a_file()):
        host = taken(strict_host(), native(file=file, name="Harmless", description="approved by all"))
        document = row_document(host)
        shown.append((document.name, document.description))
    assert shown == [("Sum", "of salaries"), ("", "")]


def test_a_name_in_a_file_is_made_fit_for_the_database() -> None:
    document = row_document(taken(strict_host(), native(file=a_file(name="a\0b", description="c\0"))))
    assert (document.name, document.description) == ("a?b", "c?")


def test_another_name_in_a_file_is_another_job() -> None:
    host = taken(strict_host(), native(file=a_file(name="Sum")))
    answer = host.handle(native(ARBITER, file=a_file(name="Harmless")))
    assert (answer.retcode, "has another document here" in answer.retmsg) == (108, True)


def test_people_approve_the_file() -> None:
    host = taken(strict_host(approval=ApprovalRule(required=True)), native())
    approvals = Harness(host).use_cases.approvals
    shown = row_document(host)
    with pytest.raises(Conflict):
        approvals.approve(JOB_ID, "", "ann", digest=document_digest(shown.dsl, shown.runtime_conf))
    approvals.approve(JOB_ID, "", "ann", digest=binding(host).digest)
    consent = host.job().consent
    assert consent is not None
    assert (consent.approval, consent.digest) == (Approval.APPROVED, binding(host).digest)


# ---------------------------------------------------------------------- messages


def test_a_refusal_names_the_path_in_the_file() -> None:
    host = HandServer("10000", ceilings=Ceilings(task_cores=1))
    answer = host.handle(native(file=a_file(resources={"cores": 2})))
    assert answer.retmsg.startswith("resources.cores: 2 is more than host 10000 allows")
    answer = host.handle(native(file=a_file(tasks={"a": {"component": "Gone"}})))
    assert answer.retmsg.startswith("tasks.a.component: 'Gone' is not known here")
    answer = host.handle(native(file=a_file(tasks={"a": {"componet": "Work"}})))
    assert answer.retmsg == "tasks.a.componet: is not known; did you mean component"


# ---------------------------------------------------------------------- from submit to a change


def test_all_parties_are_bound_to_the_same_document_before_and_after_a_change() -> None:
    file = a_file(name="Sum", tasks={"a": {"component": "Work"}})
    guest, host = Initiator(), HandServer("10000")
    guest.submit(Document({}, {}, {}, own=JobDocument(NATIVE, file)))
    sent = [one for one in guest.outbox() if one.kind is K.CREATE]
    for one in sent:
        assert one.body["extensions"]["document"] == 1
        assert host.handle(one).is_ok
        guest.answer(K.CREATE, Answer(data={"extensions": {}}), one.to)
    for seat in SEATS:
        taken(host, guest.answer(K.STATUS, to=seat))
    own = row_document(guest, GUEST)
    assert own.own == row_document(host).own == JobDocument(NATIVE, file, sent[0].body["document"]["defaults"])
    assert (own.dsl, own.runtime_conf) == (sent[0].body["dsl"], sent[0].body["runtime_conf"])
    assert (own.dsl, own.runtime_conf) == (row_document(host).dsl, row_document(host).runtime_conf)
    assert own.name == row_document(host).name == sent[0].body["name"] == "Sum"
    assert own.runtime_conf["job_parameters"]["common"]["model_version"] == JOB_ID
    assert binding(guest) == binding(host)
    change = read_change({"job_parameters": {"common": {"timeout": 90, "task_timeout": 5}}})
    with guest.unit() as unit:
        revised = guest.side.change_parameters(unit, JOB_ID, change, 0)
    assert revised.is_change
    for seat in SEATS:
        taken(host, guest.answer(K.PARAMETERS, to=seat))
    assert binding(guest) == binding(host)
    assert binding(host).revision == 1
    changed = row_document(host)
    assert changed.own is None
    assert changed.runtime_conf["job_parameters"]["common"]["model_version"] == JOB_ID
    assert {server.job(party).timeout_seconds for server, party in ((guest, GUEST), (host, HOST))} == {90}
