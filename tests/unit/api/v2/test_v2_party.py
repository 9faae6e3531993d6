"""The site, its configuration, providers, grants and logs, as clients of FATE Flow 2 ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.api.v2.party.not_offered import GET
from fate_flow.api.v2.party.not_offered import ROUTES as NOT_OFFERED
from tests.kit.api.client_world import World
from tests.kit.api.shapes import misfits

SUCCESS = {"code": 0, "message": "success"}
PARTY = {"party_id": "10000"}
NUMBERS = {"namespace": "it", "name": "numbers"}


def asked(world: World, path: str, /, **arguments: Any) -> Any:
    return world.client.get(f"/v2/{path}", query_string=arguments).json


def sent(world: World, path: str, /, **body: Any) -> Any:
    return world.client.post(f"/v2/{path}", json=body).json


# ---------------------------------------------------------------------- site and servers


def test_the_site_is_this_party(world: World) -> None:
    assert asked(world, "site/info/query") == {**SUCCESS, "data": {"party_id": "9999"}}


def test_a_party_has_one_server(world: World) -> None:
    [(name, server)] = asked(world, "server/fateflow")["data"].items()
    shape = {"grpc_port": type(None), "host": str, "http_port": int, "timestamp": int, "version": "2.2.0"}
    assert list(misfits(server, {**shape, "instance_id": name})) == []


def test_the_configuration_is_shown_by_section_and_without_secrets(world: World) -> None:
    found = asked(world, "server/query/all")
    assert found["data"]["FATEFLOW"]["http_port"] == 9380
    assert "secret" not in str(found)
    one = asked(world, "server/query", server_name="fateflow")["data"]
    assert one == {"server_name": "FATEFLOW", **found["data"]["FATEFLOW"]}
    assert asked(world, "server/query", server_name="clustermanager") == {
        "code": 6003, "message": "No found server: server_name[clustermanager]",
    }  # fmt: skip


@pytest.mark.parametrize(("method", "path", "what", "instead"), NOT_OFFERED)
def test_what_is_not_offered_is_refused_by_name(
    world: World, method: str, path: str, what: str, instead: str
) -> None:  # fmt: skip
    found = asked(world, path) if method == GET else sent(world, path)
    assert found == {"code": 6001, "message": f"this server does not offer {what} ({path}); instead: {instead}"}


# ---------------------------------------------------------------------- providers


def test_providers_are_listed_by_what_they_are(world: World) -> None:
    [row] = asked(world, "provider/query")["data"]
    shape = {
        "name": "fate_flow", "version": str, "device": "local", "metadata": {"path": str, "venv": ""},
        "provider_name": f"fate_flow:{row['version']}@local", "create_time": int, "update_time": int,
    }  # fmt: skip
    assert list(misfits(row, shape)) == []
    assert asked(world, "provider/query", name="fate_flow", device="local")["data"] == [row]
    assert asked(world, "provider/query", provider_name=row["provider_name"])["data"] == [row]
    assert asked(world, "provider/query", device="docker")["data"] == []


# ---------------------------------------------------------------------- grants


def granted(world: World) -> Any:
    return asked(world, "permission/resource/query", **PARTY)["data"]


def test_a_grant_is_kept_until_it_is_deleted(world: World) -> None:
    assert granted(world) == {"component": [], "dataset": []}
    things = {"component": "reader,secure_sum", "dataset": [NUMBERS]}
    assert sent(world, "permission/resource/grant", **things, **PARTY) == SUCCESS
    assert granted(world) == {"component": ["reader", "secure_sum"], "dataset": [NUMBERS]}
    assert world.ask("permission/query", PARTY)["data"]["component"] == ["Reader", "SecureSum"]
    assert sent(world, "permission/resource/delete", component="reader", **PARTY) == SUCCESS
    assert sent(world, "permission/resource/delete", dataset=[NUMBERS], **PARTY) == SUCCESS
    assert granted(world) == {"component": ["secure_sum"], "dataset": []}


def test_a_star_stands_for_all_components(world: World) -> None:
    assert sent(world, "permission/resource/grant", component="*", **PARTY) == SUCCESS
    assert granted(world)["component"] == ["*"]
    assert sent(world, "permission/resource/delete", component="*", **PARTY) == SUCCESS
    assert granted(world)["component"] == []


@pytest.mark.parametrize(("body", "code", "says"), [
    ({"component": "magic"}, 5006, "component: 'magic' is not one of *, "),
    ({"component": "reader,magic"}, 5006, "component: 'magic' is not one of *, "),
    ({}, 5006, "component or dataset"),
    ({"dataset": [{"name": "numbers"}]}, 5006, "dataset.namespace"),
    ({"dataset": "numbers"}, 5001, "Invalid request."),
    ({"component": "reader", "party_id": "nobody"}, 5001, "party_id"),
])  # fmt: skip
def test_a_grant_of_nothing_known_is_refused(world: World, body: dict[str, Any], code: int, says: str) -> None:
    found = sent(world, "permission/resource/grant", **{**PARTY, **body})
    assert (found["code"], says in found["message"]) == (code, True), found
    assert granted(world) == {"component": [], "dataset": []}


def test_what_was_not_granted_cannot_be_deleted(world: World) -> None:
    found = sent(world, "permission/resource/delete", component="reader", **PARTY)
    assert (found["code"], "was not granted component Reader" in found["message"]) == (5006, True)


def test_roles_are_those_of_clients_here(world: World) -> None:
    known = ["read", "submit", "operate", "approve", "grant", "audit", "metrics"]
    assert asked(world, "permission/role/query")["data"] == known


# ---------------------------------------------------------------------- logs

JOB = "20260101000000000001"
SEAT = {"job_id": JOB, "role": "guest", "party_id": "9999"}


@pytest.mark.parametrize(("log_type", "path", "more"), [
    ("schedule_info", "fate_flow_schedule.log", {}),
    ("schedule_error", "fate_flow_schedule_error.log", {}),
    ("task_info", "guest/9999/INFO.log", {}),
    ("task_error", "guest/9999/toy_0/ERROR.log", {"task_name": "toy_0"}),
])  # fmt: skip
def test_lines_of_each_log_are_counted_and_shown(
    world: World, log_type: str, path: str, more: dict[str, str]
) -> None:  # fmt: skip
    world.add_log(JOB, path, "one\nfrom 10.0.0.2\nthree\n")
    assert asked(world, "log/count", log_type=log_type, **SEAT, **more) == {**SUCCESS, "data": 3}
    lines = asked(world, "log/query", log_type=log_type, **SEAT, **more)["data"]
    assert lines[:2] == [{"line_num": 1, "content": "one"}, {"line_num": 2, "content": "from xxx.xxx.xxx.xxx"}]
    assert len(lines) == 3
    found = asked(world, "log/query", log_type=log_type, begin=2, end=2, **SEAT, **more)["data"]
    assert found == lines[1:2]


def test_a_log_that_is_not_there_has_no_lines(world: World) -> None:
    assert asked(world, "log/count", log_type="task_info", **SEAT)["data"] == 0
    assert asked(world, "log/query", log_type="task_info", **SEAT)["data"] == []


@pytest.mark.parametrize(("arguments", "says"), [
    ({**SEAT, "log_type": "magic"}, "log_type: 'magic' is not one of schedule_info, "),
    ({**SEAT, "log_type": "task_info", "task_name": "../x"}, "'../x'"),
    ({**SEAT, "log_type": "task_info", "job_id": "../../etc"}, "job_id"),
    ({"job_id": JOB, "log_type": "task_info"}, "role"),
])  # fmt: skip
def test_a_log_of_nothing_known_is_refused(world: World, arguments: dict[str, str], says: str) -> None:
    found = asked(world, "log/count", **arguments)
    assert (found["code"], says in found["message"]) == (5001, True), found
