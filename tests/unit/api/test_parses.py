"""How often a server parses the document of a job, from the request on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import CommandKind as K
from fate_flow.services.context.documents import digest_of, remember_accepted
from fate_flow.services.context.ports import Context
from tests.kit.api.client_world import TOY, World, make_world
from tests.kit.job_documents import job
from tests.kit.modules import Module
from tests.kit.parses import counted_parses
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import command, create, task_command
from tests.kit.services.two_seats import ARBITER
from tests.kit.values import JOB_ID

NATIVE = """\
version: 1
initiator: guest 9999
parties: {guest: [9999], arbiter: [9999]}
resources: {cores: 1}
tasks:
  a:
    component: Command
    parameters: {command: ["true"]}
"""
DSL = {"components": {"a": {"module": "Command"}}}
CONF = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "arbiter": [9999]},
    "job_parameters": {"common": {"task_cores": 1}},
    "component_parameters": {"common": {"a": {"command": ["true"]}}},
}
BROKEN = {"job_dsl": {"components": {"a": {"module": "Gone"}}}, "job_runtime_conf": CONF}
SENT: Mapping[str, Mapping[str, Any]] = {
    "documents": {"job_dsl": DSL, "job_runtime_conf": CONF}, "job file": {"job_file": NATIVE},
}
sent = pytest.mark.parametrize("body", SENT.values(), ids=SENT)


class ReadsPrograms:
    """A program policy that reads programs before the transaction: these jobs are looked at once more often."""

    reads_programs = True

    def objection(self, *_: object) -> str:
        return ""


def read_programs(context: Context) -> None:
    object.__setattr__(context, "program_policy", ReadsPrograms())


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = make_world(tmp_path)
    read_programs(world.services.context)
    return world


@sent
def test_an_initiator_parses_what_was_sent_and_what_all_parties_get(world: World, body: Mapping[str, Any]) -> None:
    """Both once, however many seats it has: the second has this server's defaults and the name of the model in it."""
    with counted_parses() as parsed:
        said = world.ask("job/submit", body)
    assert (said["retcode"], world.count("t_job")) == (0, 2)
    assert len(parsed) == 2


@sent
def test_a_preview_parses_what_was_sent(world: World, body: Mapping[str, Any]) -> None:
    with counted_parses() as parsed:
        assert world.ask("job/validate", body)["retcode"] == 0
    assert len(parsed) == 1


@pytest.mark.parametrize("path", ["job/submit", "job/validate"])
def test_a_document_that_is_wrong_is_parsed_once(world: World, path: str) -> None:
    with counted_parses() as parsed:
        assert world.ask(path, BROKEN)["retcode"] == 103
    assert len(parsed) == 1


def test_an_upload_is_parsed_like_any_job(world: World) -> None:
    with counted_parses() as parsed:
        said = world.upload({"file": "a.csv", "head": 1, "partition": 1, "namespace": "a", "table_name": "b"}).json
    assert said["retcode"] == 0
    assert len(parsed) == 2


@pytest.fixture
def host() -> HandServer:
    host = HandServer("10000")
    object.__setattr__(host.context, "modules", {"Command": Module()})
    read_programs(host.context)
    return host


ROLES = {"guest": ["9999"], "host": ["10000"], "arbiter": ["10000"]}
JOB = job(ROLES, {"a": []}, commands={"a": {}})


def carry_out(host: HandServer, *commands: Any) -> None:
    for one in commands:
        [answer] = Harness(host).use_cases.commands.carry_out([one], "9999")
        assert answer.is_ok, answer


def test_a_participant_parses_what_it_gets(host: HandServer) -> None:
    """Once for all its seats, up to the start of their workers."""
    with counted_parses() as parsed:
        for party in (create().to, ARBITER):
            carry_out(host, create(party, document=JOB))
        for party in (create().to, ARBITER):
            joined = command(K.STATUS, party, argument="waiting")
            carry_out(host, joined, command(K.CHECK, party, turn=1), command(K.APPLY, party, turn=1))
            carry_out(host, command(K.START, party), task_command(K.TASK_START, to=party))
    assert len(host.engine.launched) == 2
    assert len(parsed) == 1


def test_another_process_parses_the_document_of_the_rows_once(host: HandServer) -> None:
    carry_out(host, create(document=JOB))
    host.context.accepted.clear()
    with counted_parses() as parsed:
        for _ in range(2):
            with host.unit() as unit:
                assert unit.spec(JOB_ID) is not None
    assert len(parsed) == 1


def test_a_participant_parses_for_a_preview_once_and_keeps_nothing(host: HandServer) -> None:
    with counted_parses() as parsed:
        assert Harness(host).use_cases.commands.preview(create(document=JOB), "9999").is_ok
    assert len(parsed) == 1
    assert host.context.accepted == {}


def test_a_refused_document_is_not_kept(host: HandServer) -> None:
    """Otherwise others could fill the memory of this server."""
    too_much = job(ROLES, {"a": []}, cores=999, commands={"a": {}})
    [answer] = Harness(host).use_cases.commands.carry_out([create(document=too_much)], "9999")
    assert answer.retcode == 103
    assert host.context.accepted == {}


def test_only_so_many_accepted_documents_are_kept(host: HandServer) -> None:
    spec = host.parsed(JOB).spec
    for number in range(300):
        remember_accepted(host.context, f"{number:064x}", spec)
    assert len(host.context.accepted) == 200
    assert f"{299:064x}" in host.context.accepted
    assert f"{99:064x}" not in host.context.accepted


def test_an_accepted_document_stands_for_any_order_of_its_keys(host: HandServer) -> None:
    """The digest is the same, and so is the job."""
    blocks = {"0|1": {"a": {"x": 1}}, "0|2": {"a": {"x": 2}}}
    asked = job({"guest": ["9999"], "host": ["10000", "10001", "10002"]}, {"a": []}, commands={"a": {}})
    first, second = (
        replace(asked, runtime_conf={**asked.runtime_conf, "component_parameters": {
            "common": {"a": {"command": ["x"]}}, "role": {"host": order},
        }})
        for order in (blocks, dict(reversed(blocks.items())))
    )  # fmt: skip
    assert digest_of(first) == digest_of(second)
    carry_out(host, create(document=first))
    with counted_parses() as parsed:
        carry_out(host, create(document=second))
    assert len(parsed) == 0
    assert host.parsed(first).spec.tasks == host.parsed(second).spec.tasks


def test_rows_are_looked_at_before_an_accepted_document_is_used(host: HandServer) -> None:
    """What was parsed for the create saves a parse, not the check that the rows have the bound document."""
    carry_out(host, create(document=JOB))
    with host.store.transaction() as tx:
        row, document = tx.job(host.job().key), tx.document(JOB_ID)
        assert tx.revise(row, row, replace(document, runtime_conf={**document.runtime_conf, "x": 1}))
    with pytest.raises(OperationFailed, match="another document than it is bound to"), host.unit() as unit:
        unit.spec(JOB_ID)


def test_routes_that_show_a_job_parse_its_document_once(world: World) -> None:
    job_id = world.add_job(document=TOY)
    seat = {"job_id": job_id, "role": "guest", "party_id": 9999}
    with counted_parses() as parsed:
        for _ in range(2):
            for path in ("job/explain", "tracking/component/parameters", "pipeline/dag/dependency"):
                assert world.ask(path, {**seat, "component_name": "toy_0"})["retcode"] == 0, path
    assert len(parsed) == 1
