"""Whose jobs a party takes: who may ask for one, and what it has to say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.authority import STATEMENTS, Speaker
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import (
    DOCUMENT,
    INCARNATIONS,
    RUN,
    START_A,
    a_host,
    command,
    create,
)
from tests.kit.values import GUEST, HOST, JOB_ID, OTHER


@pytest.mark.parametrize("kind", [kind for kind in K if STATEMENTS[kind] is Speaker.INITIATOR])
def test_only_its_initiator_commands_a_job(kind: K) -> None:
    host = a_host(*RUN)
    seen = host.snapshot()
    asked = replace(START_A, kind=kind, argument="canceled") if kind.value.startswith("task") else command(kind)
    answer = host.handle(asked, caller="10001")
    assert (answer.retcode, answer.retmsg) == (108, f"party 10001 is not the initiator of job {JOB_ID}")
    assert host.snapshot() == seen


@pytest.mark.parametrize(
    ("to", "caller", "document", "retcode", "text"),
    [
        (HOST, "10001", DOCUMENT, 108, "initiator: guest 9999 is not party 10001"),
        (OTHER, "9999", DOCUMENT, 101, "role: host 10001 has no seat"),
        (Party("local", "0"), "9999", job({"guest": ["9999"], "local": ["0"]}), 108, "taken from the own server only"),
        (HOST, "9999", job({"guest": ["9999"], "host": ["10000"]}, cores=9), 103, "asks for 9 cores, more than"),
        (HOST, "9999", replace(DOCUMENT, dsl={"components": {}}), 101, "dsl.components"),
    ],
)
def test_a_job_that_this_party_cannot_take_is_refused_and_leaves_nothing(
    to: Party, caller: str, document: Any, retcode: int, text: str
) -> None:
    host = a_host()
    answer = host.handle(create(to, document), caller)
    assert answer.retcode == retcode
    assert text in answer.retmsg
    assert host.job_or_none(to) is None
    assert host.files.calls == []


def test_the_seats_of_one_job_at_one_party_are_counted_together() -> None:
    two_seats = job({"guest": ["9999"], "host": ["9999", "10000"]}, cores=5, initiator="9999")
    guest = HandServer("9999", cores=8)
    answer = guest.handle(create(GUEST, two_seats))
    assert (answer.retcode, "asks for 10 cores" in answer.retmsg) == (103, True)
    assert a_host(create(HOST, two_seats), cores=8).job().asked.cores == 5


@pytest.mark.parametrize("memory", [0, 100])
def test_memory_that_no_party_has_is_refused(memory: int) -> None:
    document = job({"guest": ["9999"], "host": ["10000"]})
    conf = {**document.runtime_conf, "job_parameters": {"common": {"task_memory": 50, "task_parallelism": 2}}}
    answer = HandServer("10000", memory=memory).handle(create(document=replace(document, runtime_conf=conf)))
    assert answer.is_ok is (memory == 100)
    assert answer.is_ok or "asks for 100 MB of memory, more than host 10000 has" in answer.retmsg


def test_a_job_id_that_another_initiator_uses_already_is_refused() -> None:
    host = a_host(create())
    other = job({"guest": ["10001"], "host": ["10000"]})
    answer = host.handle(create(document=other), caller="10001")
    text = f"job {JOB_ID} is here already, created first by another initiator; submit it again: that takes a new id"
    assert (answer.retcode, answer.retmsg) == (108, text)
    known = {**DOCUMENT.runtime_conf, "initiator": {"role": "host", "party_id": "10001"}}
    known["role"] = {"guest": ["9999"], "host": ["10000", "10001"]}
    answer = host.handle(create(document=replace(DOCUMENT, runtime_conf=known)), caller="10001")
    text = f"job {JOB_ID} is here already, created first by guest 9999; submit it again: that takes a new id"
    assert (answer.retcode, answer.retmsg) == (108, text), "one of its own parties"
    assert host.job().initiator == GUEST


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"dsl": None}, "dsl: is missing"), ({"runtime_conf": []}, "runtime_conf: is missing"),
        ({"incarnations": {"a": "../../x"}}, "incarnations.a: '../../x' is not an incarnation"),
        ({"incarnations": {"a": 7}}, "incarnations.a: 7 is not an incarnation"),
    ],
)  # fmt: skip
def test_a_create_that_is_not_well_formed_is_refused(body: dict[str, Any], text: str) -> None:
    host = a_host()
    answer = host.handle(create(**body))
    assert (answer.retcode, text in answer.retmsg) == (101, True), answer
    assert host.job_or_none() is None


@pytest.mark.parametrize(
    ("body", "name", "description"),
    [
        ({}, "n", "d"), ({"name": None, "description": 5}, "", ""),
        ({"name": "\ud800" + "x" * 600, "description": "a\0b"}, "?" + "x" * 499, "a?b"),
    ],
)  # fmt: skip
def test_names_are_made_fit_for_the_database(body: dict[str, Any], name: str, description: str) -> None:
    host = a_host(create(**body))
    with host.store.reading() as tx:
        document = tx.document(JOB_ID)
    assert (document.name, document.description) == (name, description)


def test_what_create_answers_and_stores() -> None:
    host = a_host()
    answer = host.handle(create())
    assert answer.data["components"] == {"a": {"need_run": True}, "b": {"need_run": True}}
    assert answer.data["cores"] == 2
    assert "batch" in answer.data["extensions"]
    found = host.job()
    assert (found.status, found.is_initiator, found.is_plain_v1, found.asked.cores) == (
        JobStatus.READY,
        False,
        False,
        2,
    )
    assert [host.task(name).incarnation for name in "ab"] == list(INCARNATIONS.values())
    assert [call[0] for call in host.files.calls] == ["write_confs"]


def test_a_plain_v1_initiator_names_no_extensions_and_no_incarnations() -> None:
    body = dict(create().body)
    del body["extensions"], body["incarnations"]
    host = a_host(command(K.CREATE, **body))
    assert host.job().is_plain_v1
    given = {host.task(name).incarnation for name in "ab"}
    assert (len(given), {len(one) for one in given}) == (2, {32})
    again = a_host(command(K.CREATE, **body))      # at another party of ours it is the same
    assert {again.task(name).incarnation for name in "ab"} == given
