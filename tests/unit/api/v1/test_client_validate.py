"""What validate says of a job before it is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from tests.kit.api.client_world import TOY_CONF, TOY_DSL, World


def test_validate_shows_what_each_party_would_run(world: World) -> None:
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    guest, host = said["data"]["parties"]
    assert (guest["role"], guest["party_id"], guest["cores"], guest["task_cores"]) == ("guest", "9999", 2, 2)
    (task,) = host["tasks"]
    del task["values"]
    assert task == {
        "component_name": "toy_0", "module": "SecureAddExample", "stage": "default", "need_run": True, "after": [],
        "min_available": {}, "parameters": {"data_num": 10},
    }
    assert host["job_parameters"]["task_cores"] == 2
    assert said["data"]["warnings"] == []
    assert (world.count("t_job"), world.count("t_submission"), world.rung) == (0, 0, [])


def validated(world: World, **common: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of guest and host of the toy with these job parameters."""
    conf = {**TOY_CONF, "job_parameters": {"common": {"task_cores": 2, **common}}}
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": conf})
    guest, host = said["data"]["parties"]
    return guest, host


def test_validate_asks_each_other_party_and_tells_where_its_values_come_from(world: World) -> None:
    capped = {"component_name": "toy_0", "key": "timeout", "asked": 9, "value": 5, "source": "ceilings.task_timeout"}
    world.peers.answer = Answer(data={"previewed": True, "effective": [capped, "nonsense"]})
    guest, host = validated(world, task_timeout=9, stop_duration=3)
    assert (guest["asked"], host["asked"], host["message"]) == ("accepts", "accepts", "")
    common = "job_runtime_conf.job_parameters.common"
    values = guest["tasks"][0]["values"]
    assert values["timeout"] == {"value": 9, "from": "document", "where": f"{common}.task_timeout"}
    assert values["stop_duration"] == {"value": 3, "from": "document", "where": f"{common}.stop_duration"}
    at_host = host["tasks"][0]["values"]["timeout"]
    assert at_host == {"value": 5, "from": "party", "where": "ceilings.task_timeout of host 10000"}
    cores, memory = host["values"]["task_cores"], host["values"]["task_memory"]
    assert cores == {"value": 2, "from": "document", "where": f"{common}.task_cores"}
    assert memory == {"value": 0, "from": "server default", "where": "job_default_config.task_memory"}
    assert world.peers.asked == [(Party("host", "10000"), f"/party/{query}") for query in ("intake", "validate")]


@pytest.mark.parametrize(("answer", "message"), [
    (Answer(104, "party 10000 does not answer: ConnectTimeout"), "party 10000 does not answer: ConnectTimeout"),
    (Answer(100, "it went wrong there"), "it does not offer to be asked"),
    (Answer(0, "success", []), "it does not offer to be asked"),
])  # fmt: skip
def test_a_party_that_says_nothing_to_it_is_named_as_not_asked(world: World, answer: Answer, message: str) -> None:
    world.peers.answer = answer
    guest, host = validated(world)
    assert (guest["asked"], host["asked"], host["message"]) == ("accepts", "not asked", message)
    stop = {"value": None, "from": "party", "where": "its limits.stop_grace"}
    assert host["tasks"][0]["values"]["stop_duration"] == stop
    assert guest["tasks"][0]["values"]["stop_duration"]["value"] == 10


@pytest.mark.parametrize(("module", "stance"), [("SecureAddExample", "refuses"), ("Reader", "not asked")])
def test_a_server_of_fate_is_not_asked_whether_it_carries_messages(world: World, module: str, stance: str) -> None:
    world.peers.answer = Answer(100, "<NotFound '404: Not Found'>")
    conf = {**TOY_CONF, "component_parameters": {"common": {"toy_0": {"table": {"name": "t", "namespace": "n"}}}}}
    world.add_table("n", "t", [("1", "2", "3")])
    dsl = {"components": {"toy_0": {"module": module}}}
    said = world.ask("job/validate", {"job_dsl": dsl, "job_runtime_conf": conf})
    host = said["data"]["parties"][1]
    text = "speaks plain FATE v1, whose servers carry no messages of toy_0 (SecureAddExample): "
    assert (host["asked"], host["message"].startswith(text)) == (stance, stance == "refuses")


def test_only_so_many_may_wait_for_other_parties_at_once(world: World) -> None:
    submits = world.services.use_cases.submits
    with submits.waiting(), submits.waiting(), submits.waiting(), submits.waiting():
        response = world.post("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert len(validated(world)) == 2


def test_a_party_that_would_refuse_the_submit_refuses_now(world: World) -> None:
    text = "job_runtime_conf.job_parameters.common.task_cores: 2 is more than host 10000 allows"
    world.peers.answer = Answer(103, text, {"previewed": True})
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    assert (said["retcode"], said["retmsg"]) == (103, f"host 10000: {text}")
    assert said["data"]["problems"] == [said["retmsg"]]
    assert [one["asked"] for one in said["data"]["parties"]] == ["accepts", "refuses"]
    assert (world.count("t_job"), world.count("t_outbox")) == (0, 0)


def test_validate_lists_all_that_is_wrong(world: World) -> None:
    conf = {**TOY_CONF, "dsl_version": 1, "component_parameters": {"common": {"toy_0": {"data_num": -1}}}}
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": conf})
    assert said["retcode"] == 103
    problems = said["data"]["problems"]
    assert said["retmsg"] == problems[0]
    assert any("dsl_version" in one for one in problems)
    assert any("data_num" in one for one in problems)


@pytest.mark.parametrize(("change", "offender"), [
    ({"initiator": {"role": "host", "party_id": 10000}}, "submit the job at party 10000"),
    ({"role": {"guest": [9999], "host": [10001]}}, "party 10001 has no route"),
    ({"job_parameters": {"common": {"task_cores": 21}}}, "asks for 21 cores"),
])
def test_validate_checks_what_only_this_server_knows(world: World, change: dict[str, Any], offender: str) -> None:
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": {**TOY_CONF, **change}})
    assert said["retcode"] == 103
    assert offender in said["retmsg"]
    assert said["data"]["problems"] == [said["retmsg"]]


def test_tasks_stand_in_the_order_of_the_dag_at_every_party(world: World) -> None:
    """Each after those that it needs, whatever its name and wherever the document has it."""
    reads = {"component_parameters": {"common": {"c_first": {"table": {"name": "t", "namespace": "n"}}}}}
    world.add_table("n", "t", [("1", "2", "3")])
    match = {"module": "Intersection", "output": {"data": ["data"]}}
    dsl = {"components": {
        "a_second": {**match, "input": {"data": {"data": ["c_first.data"]}}},
        "b_third": {**match, "input": {"data": {"data": ["a_second.data"]}}},
        "c_first": {"module": "Reader", "output": {"data": ["data"]}},
    }}  # fmt: skip
    said = world.ask("job/validate", {"job_dsl": dsl, "job_runtime_conf": {**TOY_CONF, **reads}})
    guest = said["data"]["parties"][0]
    assert [one["component_name"] for one in guest["tasks"]] == ["c_first", "a_second", "b_third"]
