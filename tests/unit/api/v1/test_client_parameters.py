"""`POST /v1/job/parameter/update`: what a client asks for, and what it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import Document
from tests.kit.api.client_world import TOY, World

CHANGE = {"component_parameters": {"common": {"toy_0": {"data_num": 20}}}}
WILLING = Answer(data={"previewed": True})


def add_ended(world: World, document: Document = TOY) -> str:
    return world.add_job(status=JobStatus.SUCCESS, document=document)


def test_what_the_job_is_now_is_answered_and_written(world: World) -> None:
    job_id = add_ended(world)
    world.add_seats(job_id)
    world.peers.answer = WILLING
    said = world.ask("job/parameter/update", {"job_id": job_id, "conf_path": "x.json", "verbose": 1, **CHANGE})
    assert (said["retcode"], said["retmsg"]) == (0, "success")
    assert said["data"]["components"] == ["toy_0"]
    assert said["data"]["component_parameters"] == CHANGE["component_parameters"]
    assert said["data"]["job_parameters"]["common"]["task_cores"] == 2
    assert said["data"]["warnings"] == ["verbose: is not known; it is ignored"]
    assert world.peers.asked[-1][1] == "/party/validate"
    [row] = world.ask("job/query", {"job_id": job_id})["data"]
    assert row["f_runtime_conf"]["component_parameters"] == CHANGE["component_parameters"]
    assert (row["f_revision"], row["f_changed_components"]) == (1, ["toy_0"])
    assert world.count("t_outbox") == 1


def test_what_is_not_known_is_named_wherever_it_stands(world: World) -> None:
    """As a submit does."""
    job_id = add_ended(world)
    world.peers.answer = WILLING
    parts = {
        "job_parameters": {"common": {"cores": 2}, "commons": {}, "role": {"host": {"0": {"cores": 3}}}},
        "component_parameters": {"common": {"toy_0": {"data_num": 5, "data_nums": 2}}, "role": {"arbiter": {"0": {}}}},
    }
    said = world.ask("job/parameter/update", {"job_id": job_id, "magic": {"x": 1}, **parts})
    assert said["retcode"] == 0, said
    for text in (
        "component_parameters.role.arbiter: ", "data_nums: SecureAddExample has no such parameter",
        "job_parameters.common.cores: is not known", "job_parameters.commons: is not known",
        "job_parameters.role.host.0.cores: is not known", "magic: is not known; it is ignored",
    ):
        assert any(text in warning for warning in said["data"]["warnings"]), text


def test_what_was_told_of_the_job_at_its_submit_is_not_told_again(world: World) -> None:
    common = {"task_cores": 2, "magic": 1, "model_id": "guest-9999#host-10000#model"}
    job_id = add_ended(world, replace(TOY, runtime_conf={**TOY.runtime_conf, "job_parameters": {"common": common}}))
    world.peers.answer = WILLING
    said = world.ask("job/parameter/update", {"job_id": job_id, "job_parameters": {"common": {"wand": 2}}})
    assert said["data"]["warnings"] == ["job_runtime_conf.job_parameters.common.wand: is not known; it is ignored"]


def test_what_changes_nothing_asks_nobody(world: World) -> None:
    job_id = add_ended(world)
    said = world.ask("job/parameter/update", {"job_id": job_id, "job_parameters": {}})
    assert (said["retcode"], said["data"]["components"], world.peers.asked) == (0, [], [])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(UNREACHABLE, "party 10000 does not answer"), "nothing was changed: host 10000: party 10000 does not"),
        (Answer(103, "too much", {"previewed": True}), "nothing was changed: host 10000: too much"),
    ],
)
def test_a_party_that_says_no_or_nothing_is_named_and_nothing_is_changed(
    world: World, answer: Answer, text: str
) -> None:
    job_id = add_ended(world)
    world.peers.answer = answer
    said = world.ask("job/parameter/update", {"job_id": job_id, **CHANGE})
    assert (said["retcode"], said["retmsg"][: len(text)]) == (103, text)
    assert said["data"]["host"] == {"10000": {"retcode": answer.retcode, "retmsg": answer.retmsg}}
    assert said["data"]["guest"]["9999"]["retcode"] == 0
    [row] = world.ask("job/query", {"job_id": job_id})["data"]
    assert (row["f_revision"], row["f_runtime_conf"]) == (0, TOY.runtime_conf)


def test_a_party_that_cannot_be_asked_is_told(world: World) -> None:
    """A plain v1 one, which may have part in what needs no messages between workers."""
    world.add_table("n", "t", [("1", "2", "3")])
    reads = {"common": {"reader_0": {"table": {"namespace": "n", "name": "t"}}}}
    dsl = {"components": {"reader_0": {"module": "Reader", "output": {"data": ["rows"]}}}}
    job_id = add_ended(world, replace(TOY, dsl=dsl, runtime_conf={**TOY.runtime_conf, "component_parameters": reads}))
    world.peers.answer = Answer(100, "<NotFound '404: Not Found'>")
    change = {"job_parameters": {"common": {"task_cores": 1}}}
    assert world.ask("job/parameter/update", {"job_id": job_id, **change})["retcode"] == 0
    refused = world.ask("job/parameter/update", {"job_id": add_ended(world), **CHANGE})
    assert (refused["retcode"], "needs a server of ours" in refused["retmsg"]) == (103, True)


@pytest.mark.parametrize(
    ("body", "retcode", "text"),
    [
        ({}, 101, "required argument are missing: job_id"),
        ({"job_id": "../x", **CHANGE}, 101, "job_id"),
        ({"job_id": "202601010000000000000", **CHANGE}, 102, "can not found job"),
        ({"job_id": "known"}, 101, "job_parameters or component_parameters"),
        ({"job_id": "known", "component_parameters": {"common": {"toy_1": {}}}}, 101, "components: toy_0"),
        ({"job_id": "known", "component_parameters": {"common": {"toy_0": {"data_num": "many"}}}}, 101, "data_num"),
        ({"job_id": "known", "job_parameters": {"common": {"job_type": "x"}}}, 101, "job_type: cannot be changed"),
        ({"job_id": "known", "job_parameters": {"common": {"task_cores": 900}}}, 103, "900 cores"),
        ({"job_id": "running", **CHANGE}, 103, "is running: the parameters of a job that waits or is over"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(world: World, body: dict[str, Any], retcode: int, text: str) -> None:
    known = {"known": JobStatus.SUCCESS, "running": JobStatus.RUNNING}
    if body.get("job_id") in known:
        body = {**body, "job_id": world.add_job(status=known[body["job_id"]])}
    world.peers.answer = WILLING
    said = world.ask("job/parameter/update", body)
    assert (said["retcode"], text in said["retmsg"]) == (retcode, True), said


def test_files_of_this_machine_are_looked_at_as_by_a_submit(world: World) -> None:
    dsl = {"components": {"upload_0": {"module": "Upload"}}}
    described = {
        "file": str(world.home / "examples" / "a.csv"),
        "namespace": "n",
        "name": "t",
        "head": 1,
        "partition": 1,
    }
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999]},
        "component_parameters": {"common": {"upload_0": described}},
    }
    local = {**conf, "initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]}}
    job_id = add_ended(world, Document(dsl, local, {}))
    change = {"component_parameters": {"common": {"upload_0": {"file": "/etc/passwd"}}}}
    said = world.ask("job/parameter/update", {"job_id": job_id, **change})
    assert (said["retcode"], "is not below" in said["retmsg"]) == (101, True), said
