"""`/v1/party/validate`: what another initiator asks before it submits, and what nothing is kept of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.api.v1.jobs.submission import ask_parties
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.services.context.documents import parse_document
from tests.kit.api.client_world import TOY, TOY_CONF, TOY_DSL, World, make_world

CONF = {**TOY_CONF, "initiator": {"role": "guest", "party_id": 10000}, "role": {"guest": [10000], "host": [9999]}}
TABLES = ("t_job", "t_task", "t_seat", "t_submission", "t_outbox", "t_history")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, ceilings=Ceilings(max_attempts=2, task_timeout=60))
    yield world
    world.store.close()


def asking(**changes: Any) -> dict[str, Any]:
    """What initiator 10000 sends to host 9999."""
    common = {"role": "host", "party_id": "9999", "job_id": "2026010112000000000001", "dsl": TOY_DSL}
    return {**common, "runtime_conf": CONF, "extensions": {}, "incarnations": {}, **changes}


def with_parameters(**common: Any) -> dict[str, Any]:
    return asking(runtime_conf={**CONF, "job_parameters": {"common": {"task_cores": 2, **common}}})


def ask(world: World, body: dict[str, Any], caller: str = "10000") -> dict[str, Any]:
    said = world.ask("party/validate", body, headers={"SRC-PARTY-ID": caller} if caller else {})
    assert [world.count(table) for table in TABLES] == [0] * len(TABLES)
    assert world.rung == []
    assert isinstance(said, dict)
    return said


def test_a_party_says_what_holds_for_its_workers(world: World) -> None:
    said = ask(world, with_parameters(task_timeout=90))
    assert (said["retcode"], said["data"]) == (0, {"previewed": True, "effective": [
        {"component_name": "toy_0", "key": "timeout", "asked": 90, "value": 60, "source": "ceilings.task_timeout"},
        {"component_name": "toy_0", "key": "stop_duration", "asked": None, "value": 10, "source": "limits.stop_grace"},
    ]})  # fmt: skip


@pytest.mark.parametrize(("body", "text"), [
    (with_parameters(auto_retries=5), "auto_retries: 5 is more than host 9999 allows (ceilings.max_attempts)"),
    (with_parameters(task_cores=21), "asks for 21 cores"),
    (asking(dsl={"components": {"toy_0": {"module": "Magic"}}}), "dsl.components.toy_0.module: 'Magic' is not known"),
    (asking(dsl=3), "dsl: is missing or is not an object"),
    (asking(role="guest"), "guest 9999 has no seat in job"),
])  # fmt: skip
def test_what_a_create_would_be_refused_for_is_refused(world: World, body: dict[str, Any], text: str) -> None:
    said = ask(world, body)
    assert text in said["retmsg"]
    assert (said["retcode"] != 0, said["data"]) == (True, {"previewed": True})


@pytest.mark.parametrize(("body", "caller", "text"), [
    (asking(), "555", "initiator: guest 10000 is not party 555"), (asking(), "", "SRC-PARTY-ID"),
    (asking(party_id="10000"), "10000", "this server is party 9999, not 10000"),
    (asking(role="local"), "10000", "role local and party 0 are taken from the own server only"),
    (asking(role="hosts"), "10000", "role: 'hosts' is not one of"), (asking(job_id="../x"), "10000", "job_id: '../x'"),
])  # fmt: skip
def test_only_the_initiator_of_a_job_may_ask(world: World, body: dict[str, Any], caller: str, text: str) -> None:
    said = ask(world, body, caller)
    assert said["retcode"] != 0
    assert text in said["retmsg"]


@pytest.mark.parametrize(("path", "retcode"), [
    ("party/validate", 101), ("party/heartbeat", 0), ("party/history", 102), ("party/nothing", 101),
    ("party/2026010112000000000001/host/10000/start", 101), ("initiator/2026010112000000000001/guest/9999/ready", 0),
])  # fmt: skip
def test_every_answer_says_whose_server_it_is(world: World, path: str, retcode: int) -> None:
    """Whoever meant another party, as one of these did, sees that it has not reached that."""
    body = {"jobs": [], "job_id": "2026010112000000000001"}
    response = world.client.post(f"/v1/{path}", json=body, headers={"SRC-PARTY-ID": "10000"})
    assert (response.json["retcode"], response.headers["SRC-PARTY-ID"]) == (retcode, "9999")


def test_the_question_is_what_create_would_be(world: World) -> None:
    """What an initiator asks, a server of ours can answer."""
    asked: list[dict[str, Any]] = []
    services = replace(world.services, ask_party=lambda to, _, body: asked.append(dict(body)) or Answer())
    answers = ask_parties(services, TOY, parse_document(services.context, TOY.content))
    assert [str(party) for party in answers] == ["guest 9999", "host 10000"]
    (body,) = asked
    assert body["runtime_conf"]["job_parameters"]["common"]["timeout"] == 259200  # with every default filled in
    said = services.use_cases.commands.preview(
        Command(CommandKind.CREATE, body["job_id"], Party("guest", "9999"), body=body), "9999"
    )
    assert (said.retcode, said.data["previewed"]) == (0, True)
