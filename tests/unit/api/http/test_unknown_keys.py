"""Keys that no route reads: they are ignored, and named where the answer has room; what FATE's client sends is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fate_flow.api.http.declared import Declaration, an_object, by_name, described, unknown_keys
from fate_flow.core.access.client_roles import READ
from tests.kit.api.client_world import FORM_TYPE, World, form, make_world

UPLOAD = {"file": "a.csv", "head": 1, "partition": 2, "namespace": "demo", "table_name": "fresh"}
MAGIC = ["magic: is not known; it is ignored"]
REPORTED = {"namespace": "demo", "table_name": "known"}
TABLE = {"namespace": "demo", "name": "known"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "home").mkdir()
    world = make_world(tmp_path / "home", data_roots=(tmp_path,))
    (tmp_path / "here.csv").write_text("id,x\n1,2\n")
    world.add_table("demo", "known", [("1", "2", "3")])
    yield world
    world.store.close()


@pytest.mark.parametrize(("path", "body"), [
    ("data/download", REPORTED | {"output_path": "n.csv"}),
    ("table/table_info", REPORTED),
    ("table/delete", REPORTED),
    ("permission/grant", {"party_id": 10000, "component": "*"}),
    ("permission/query", {"party_id": 10000}),
    ("queue/hold", {"message": "m"}),
    ("queue/list", {}),
    ("job/list/job", {}),
    ("resource/query", {}),
])
def test_they_are_named_in_data(world: World, path: str, body: dict[str, Any]) -> None:
    if "output_path" in body:
        body = {**body, "output_path": str(world.home.parent / "n.csv")}
    said = world.ask(path, {**body, "magic": 1})
    assert (said["retcode"], said["data"]["warnings"]) == (0, MAGIC), said


@pytest.mark.parametrize(("path", "body"), [
    ("table/disable", REPORTED), ("data/upload/history", {"limit": 1}), ("job/query", {}), ("version/get", {}),
    ("tracking/component/metrics", {"job_id": "20260101120000", "role": "guest", "party_id": 1, "component_name": "a"}),
    ("provider/get", {}),
])  # fmt: skip
def test_beside_a_list_or_an_object_of_names(world: World, path: str, body: dict[str, Any]) -> None:
    plain, said = world.ask(path, body), world.ask(path, {**body, "magic": 1})
    assert (said.pop("warnings"), said) == (MAGIC, plain)


def test_of_an_upload_wherever_it_has_them(world: World) -> None:
    here = {**UPLOAD, "file": str(world.home.parent / "here.csv"), "magic": 1}
    query = urlencode({**UPLOAD, "magic": 1})
    for said in (
        world.upload({**UPLOAD, "magic": 1}).json,
        world.ask("data/upload", {**here, "use_local_data": 0}),
        world.client.post(f"/v1/data/upload?{query}", data=form(b"id\n1\n"), content_type=FORM_TYPE).json,
    ):
        assert (said["retcode"], said["data"]["warnings"]) == (0, MAGIC), said


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        (
            "table/connector/create",
            {"connector_name": "c", "engine": "PATH", "connector_info": {"path": "downloads", "foo": 1}, "zork": 2},
            ["connector_info.foo", "zork"],
        ),
        ("data/writer", REPORTED | {"address": {"path": "downloads/n.csv", "foo": 1}}, ["address.foo"]),
        (
            "data/writer",
            REPORTED | {"output_name": "other", "address": {"path": "downloads/n.csv", "foo": 1}},
            ["address.foo"],
        ),
        ("permission/grant", {"party_id": 1, "dataset": TABLE | {"foo": 1}}, ["dataset.foo"]),
        ("permission/grant", {"party_id": 1, "dataset": ["*", TABLE | {"foo": 1}]}, ["dataset[1].foo"]),
        (
            "permission/grant/privilege",
            {"src_party_id": 1, "src_role": "guest", "privilege_dataset": TABLE | {"foo": 1}},
            ["privilege_dataset.foo"],
        ),
    ],
)
def test_also_within_objects(world: World, path: str, body: dict[str, Any], names: list[str]) -> None:
    (world.home / "downloads").mkdir()
    said = world.ask(path, body)
    assert (said["retcode"], said["data"]["warnings"]) == (0, [f"{one}: is not known; it is ignored" for one in names])


@pytest.mark.parametrize("path", [
    "job/clean/queue", "component/get", "server/service/get", "info/common", "server/fateflow/info",
    "party/list", "server/config/job/default",
])
def test_where_no_key_is_read_too(world: World, path: str) -> None:
    said = world.ask(path, {"magic": 1})
    assert (said["retcode"], said.get("warnings", said["data"].get("warnings"))) == (0, MAGIC)
    refused = world.ask(path, [1])
    assert (refused["retcode"], refused["retmsg"]) == (101, "the body is not a JSON object")


@pytest.mark.parametrize("key", ["password", "passwd", "db_pwd", "SECRET_KEY", "accessKey", "auth-token"])
def test_a_secret_in_a_connector_is_refused(world: World, key: str) -> None:
    info = {"path": "downloads", key: "hidden"}
    said = world.ask("table/connector/create", {"connector_name": "c", "engine": "PATH", "connector_info": info})
    assert (said["retcode"], said["retmsg"].partition(":")[0]) == (101, f"connector_info.{key}")
    assert "hidden" not in said["retmsg"]
    assert world.ask("table/connector/query", {"connector_name": "c"})["retcode"] == 100


@pytest.mark.parametrize("path", ["table/bind", "table/add"])
def test_of_a_file_that_becomes_a_table_also_within_its_address(world: World, path: str) -> None:
    address = {"path": str(world.home.parent / "here.csv"), "host": "here"}
    body = {"engine": "PATH", "address": address, "namespace": "n", "name": "t", "magic": 1, "schema": 1}
    said = world.ask(path, body)
    assert said["data"]["warnings"] == [
        "schema: has no effect on this server", "address.host: is not known; it is ignored", *MAGIC,
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("data/upload", UPLOAD | {"verbose": 1, "drop": 1, "use_local_data": 1, "conf_path": "c.json"}),
        (
            "table/delete",
            REPORTED | {"job_id": "1", "role": "guest", "party_id": 1, "component_name": "a", "local": {"a": 1}},
        ),
    ],
)
def test_what_the_client_sends_is_known(world: World, path: str, body: dict[str, Any]) -> None:
    said = world.upload(body).json if path == "data/upload" else world.ask(path, body)
    assert (said["retcode"], said["data"].get("warnings", [])) == (0, [])


def test_who_is_refused_hears_of_that_alone(world: World) -> None:
    said = world.ask("table/delete", {"namespace": "demo", "table_name": "none", "magic": 1})
    assert "warnings" not in str(said)


def test_they_are_found_at_any_depth_that_is_declared() -> None:
    one = described(an_object({"a": {}}), "One.")
    several = {"anyOf": [{"const": "*"}, one, {"type": "array", "items": one}]}
    shape = Declaration("Something.", READ, takes={
        "several": several, "of_names": by_name(one), "free": {"type": "object"}, "one": one,
    })  # fmt: skip
    body = {"of_names": {"x": {"a": 1, "b c": 2}, "y": 7}, "free": {"b": 1}, "one": {"a": {"z": 1}, "b": None}}
    body |= {"several": [{"a": 1, "c": 1}, "*"]}
    assert list(unknown_keys(shape, body)) == [
        "of_names.x.'b c': is not known; it is ignored", "one.b: is not known; it is ignored",
        "several[0].c: is not known; it is ignored",
    ]
