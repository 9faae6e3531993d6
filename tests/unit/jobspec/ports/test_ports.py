"""`ports` of a task: who listens, who connects, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobParameters, Party, Port
from fate_flow.jobspec.formats import NATIVE, parse, parse_or_problems

GUEST, HOST, OTHER = Party("guest", "9999"), Party("host", "10000"), Party("host", "10001")


def a_job_file(ports: Any, component: str = "Command", **task: Any) -> dict[str, Any]:
    parameters = {"command": ["/bin/true"]} if component == "Command" else {}
    return {
        "version": 1, "initiator": "guest 9999", "parties": {"guest": [9999], "host": [10000, 10001]},
        "tasks": {"train": {"component": component, "ports": ports, "parameters": parameters, **task}},
    }  # fmt: skip


def wrong_with(document: dict[str, Any]) -> str:
    found = parse_or_problems(JobDocument(NATIVE, document), modules=CATALOGUE, defaults=JobParameters(), strict=True)
    return "\n".join(map(str, found))


def ports_of(ports: Any, **task: Any) -> tuple[Port, ...]:
    document = JobDocument(NATIVE, a_job_file(ports, **task))
    return parse(document, modules=CATALOGUE, defaults=JobParameters(), strict=True).tasks["train"].ports


def test_places_are_roles_and_parties_of_the_task() -> None:
    found = ports_of({
        "fl": {"listen": ["guest"], "connect": ["host"]}, "pair": {"listen": ["host 10000"], "connect": ["host 10001"]},
    })  # fmt: skip
    assert found == (Port("fl", (GUEST,), (HOST, OTHER)), Port("pair", (HOST,), (OTHER,)))


def test_a_mesh_connects_no_party_with_itself() -> None:
    [mesh] = ports_of({"mesh": {"listen": ["host", "guest"], "connect": ["host"]}})
    assert mesh.callers_of(HOST) == (OTHER,)
    assert mesh.callers_of(GUEST) == (HOST, OTHER)
    assert mesh.called_by(OTHER) == (HOST, GUEST)
    assert mesh.called_by(GUEST) == ()


def test_where_the_task_does_not_run_nobody_listens() -> None:
    [port] = ports_of({"fl": {"listen": ["guest"], "connect": ["host"]}}, at={"host 10001": {"run": False}})
    assert port.connects == (HOST,)


@pytest.mark.parametrize(
    ("ports", "path", "text"),
    [
        ({"fl": {"listen": ["arbiter"], "connect": ["host"]}}, "tasks.train.ports.fl.listen", "is neither a role"),
        ({"fl": {"listen": ["host 10002"], "connect": ["guest"]}}, "tasks.train.ports.fl.listen", "is neither a role"),
        ({"fl": {"listen": ["guest"], "connect": ["guest"]}}, "tasks.train.ports.fl", "connects no two parties"),
        ({"fl": {"listen": ["guest"]}}, "tasks.train.ports.fl", "connect"),
        ({"FL": {"listen": ["guest"], "connect": ["host"]}}, "tasks.train.ports.FL", "1 to 20 lower case letters"),
        ({"fl": {"listen": [], "connect": ["host"]}}, "tasks.train.ports.fl.listen", ""),
        ({"fl": {"listen": ["bank"], "connect": ["host"]}}, "tasks.train.ports.fl.listen", "a role or a party"),
        ({"fl": {"listen": ["guest"], "connect": ["host"], "n": 1}}, "tasks.train.ports.fl.n", "is not known"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_path(ports: Any, path: str, text: str) -> None:
    found = wrong_with(a_job_file(ports))
    assert path in found
    assert text in found


def test_two_seats_of_one_party_need_no_stream() -> None:
    document = a_job_file({"fl": {"listen": ["guest"], "connect": ["host"]}})
    document["parties"] = {"guest": [9999], "host": [9999]}
    assert "two seats of one party" in wrong_with(document)


def test_ports_are_for_programs() -> None:
    document = a_job_file({"fl": {"listen": ["guest"], "connect": ["host"]}}, component="SecureAddExample")
    assert "they are for programs (component Command)" in wrong_with(document)
