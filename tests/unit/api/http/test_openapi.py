"""The document of the routes of clients: complete, valid, and true to what the handlers take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response
from jsonschema import Draft202012Validator

from fate_flow.api.http.declared import NOTHING, TEXT, declared, or_null
from fate_flow.api.v1.envelope import ok
from fate_flow.api.v1.openapi import Undeclared, document
from fate_flow.core.access.client_roles import READ
from fate_flow.settings.client_keys import ClientKeys
from tests.kit.api.client_world import World, make_world

UPLOAD = "/v1/data/upload"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = make_world(tmp_path_factory.mktemp("home"))
    yield world
    world.store.close()


@pytest.fixture(scope="module")
def served(world: World) -> dict[str, Any]:
    response = world.client.get("/v1/openapi.json")
    assert (response.status_code, response.mimetype) == (200, "application/json")
    return dict(response.json)


def operations(served: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """But for HEAD, which is as GET."""
    for path, methods in served["paths"].items():
        for method, operation in methods.items():
            if method != "head":
                yield path, method, operation


def test_every_route_of_clients_is_in_it_and_no_other(world: World, served: dict[str, Any]) -> None:
    rules = {rule.rule for rule in world.app.url_map.iter_rules()}
    of_parties = {
        rule for rule in rules
        if rule.startswith(("/v1/party/", "/v1/initiator/", "/v1/tracker/")) and rule != "/v1/party/list"
    }  # fmt: skip
    of_fate_2 = {rule for rule in rules if rule.startswith("/v2/")}
    assert len(served["paths"]) == len(rules - of_parties - of_fate_2)
    assert {"/v1/job/submit", "/v1/queue/list", "/v1/task/log", "/v1/provider/{name}/get"} <= served["paths"].keys()
    assert not {path for path in served["paths"] if path.startswith(("/v1/initiator", "/v1/party/batch"))}


def test_a_route_that_says_nothing_of_itself_is_refused() -> None:
    app = Flask("some", static_folder=None)

    @app.post("/v1/new/route")
    def new_route() -> Response:
        return ok()

    with pytest.raises(Undeclared, match=r"new_route \(/v1/new/route\): write above the handler @declared\("):
        document(app, is_signed=False)


def test_operations_have_names_of_their_own(served: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(served)]
    assert len(names) == len(set(names))


@pytest.mark.long
def test_every_schema_is_one(served: dict[str, Any]) -> None:
    bodies = [one.get("requestBody", {"content": {}})["content"] for _, _, one in operations(served)]
    answers = [answer.get("content", {}) for _, _, one in operations(served) for answer in one["responses"].values()]
    answers += [answer["content"] for answer in served["components"]["responses"].values()]
    schemas = [media["schema"] for content in bodies + answers for media in content.values() if "schema" in media]
    assert len(schemas) > 200
    distinct = {json.dumps(schema) for schema in (*schemas, *served["components"]["schemas"].values())}
    for schema in sorted(distinct):
        Draft202012Validator.check_schema(json.loads(schema))


def test_one_of_two_schemas_with_one_title_would_be_lost() -> None:
    app = Flask("some", static_folder=None)
    for name, schema in (("one", TEXT), ("two", {"type": "integer"})):
        view = declared("Something.", READ, data={**schema, "title": "Same"})(lambda: ok())
        app.add_url_rule(f"/v1/{name}", name, view, methods=["POST"])
    with pytest.raises(ValueError, match="two schemas have the title Same"):
        document(app, is_signed=False)


def test_what_is_required_is_what_the_server_misses(world: World, served: dict[str, Any]) -> None:
    """In an empty body."""
    for path, method, operation in operations(served):
        schema = operation.get("requestBody", {"content": {}})["content"].get("application/json", {}).get("schema", {})
        if "anyOf" in schema:
            continue
        said = (world.client.open(path, method=method, json={}).json or {}).get("retmsg", "")
        begin, _, names = said.partition("required argument are missing: ")
        missing = set() if begin else set(names.removesuffix("; ").split(","))
        assert missing - {""} == set(schema.get("required", ())), (path, said)


def test_who_signs_is_in_it_where_clients_have_to(tmp_path: Path, served: dict[str, Any]) -> None:
    assert "security" not in served
    world = make_world(tmp_path, client_keys=ClientKeys("our-clients", "secret-of-9999"))
    signed = world.client.get("/v1/openapi.json").json
    assert signed["security"] == [{"TIMESTAMP": [], "NONCE": [], "APP-KEY": [], "SIGNATURE": []}]
    assert signed["paths"]["/v1/openapi.json"]["get"]["security"] == []
    assert set(signed["paths"]) == set(served["paths"])
    world.store.close()


def test_keys_that_are_not_known_are_ignored_and_it_says_so(served: dict[str, Any]) -> None:
    schema = served["paths"]["/v1/job/submit"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["additionalProperties"] == {"description": "Ignored, and named in warnings."}
    assert "named in data.warnings" in schema["properties"]["job_runtime_conf"]["description"]
    assert "warnings" in served["components"]["schemas"]["SubmittedJob"]["required"]


def test_an_upload_is_a_form_or_a_path_on_the_server(served: dict[str, Any]) -> None:
    content = served["paths"][UPLOAD]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "multipart/form-data"}
    assert content["multipart/form-data"]["schema"]["properties"]["file"]["format"] == "binary"


def test_what_is_null_anyway_is_that_once() -> None:
    assert or_null(NOTHING) == NOTHING
    assert or_null(TEXT) == {"type": ["string", "null"]}


def test_head_is_in_it_where_get_is_and_brings_no_body(served: dict[str, Any]) -> None:
    for methods in served["paths"].values():
        assert ("head" in methods) == ("get" in methods)
        if "head" in methods:
            assert methods["head"]["responses"].keys() == methods["get"]["responses"].keys()
            assert not any("content" in answer for answer in methods["head"]["responses"].values())


def test_every_operation_has_the_answers_to_what_is_no_request(served: dict[str, Any]) -> None:
    for _, _, operation in operations(served):
        assert {"400", "408", "414", "417", "431", "500", "501", "503"} <= operation["responses"].keys()
    assert {"UnknownPath", "MethodNotAllowed"} <= served["components"]["responses"].keys()


def test_it_says_who_else_asks_and_that_this_is_not_in_it(served: dict[str, Any]) -> None:
    text = " ".join(served["info"]["description"].split())
    for said in ("`/v1/party`, `/v1/initiator`, `/v1/tracker` and `/v1/exchange`", "not for clients"):
        assert said in text
