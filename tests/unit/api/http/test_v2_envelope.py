"""Clients of FATE Flow 2 read `code` and `message` of every answer: both are there, whatever they ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask, Response

from fate_flow.api.http.declared import FREE, TEXT, WHOLE, YES_NO, a_list, declared
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import CodeEnvelope, ok
from fate_flow.core.access.client_roles import READ
from fate_flow.settings.client_keys import ClientKeys
from tests.kit.api.client_world import World, make_world
from tests.kit.api.signed_requests import asked

KEYS = ClientKeys("our-clients", "secret-of-9999")
NOT_FOUND = {"code": 6000, "message": "<NotFound '404: Not Found'>"}
NOT_ALLOWED = {"code": 6000, "message": "<MethodNotAllowed '405: Method Not Allowed'>"}


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, client_keys=KEYS)
    yield world
    world.store.close()


@pytest.mark.parametrize("path", ["", "/", "/no/such/path", "//x", "/job", "/job/submitted"])
def test_an_unknown_path_is_answered_as_fate_does(world: World, path: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        response = world.client.open(f"/v2{path}", method=method)
        assert (response.status_code, response.content_type) == (200, "application/json")
        assert response.json == NOT_FOUND


def test_another_method_is_answered_as_fate_does(world: World) -> None:
    for method in ("GET", "PUT", "OPTIONS"):
        response = world.client.open("/v2/job/stop", method=method)
        assert (response.status_code, response.json) == (200, NOT_ALLOWED)


def test_paths_beside_it_are_not_meant(world: World) -> None:
    assert "retcode" in world.client.post("/v2x/job/submit", json={}).json


def test_a_page_of_another_site_is_refused(world: World) -> None:
    for path in ("/v2/job/stop", "/v2/no/such/path"):
        response = world.client.post(path, json={}, headers={"Host": "fate.example.org"})
        assert (response.status_code, response.json["code"]) == (403, 5005)


# ---------------------------------------------------------------------- arguments


@pytest.fixture
def app() -> Flask:
    @declared(
        "Show what was sent.", READ, needs={"job_id": TEXT},
        takes={"limit": WHOLE, "role": a_list(TEXT), "dag": FREE, "force": YES_NO},
    )
    def shows() -> Response:
        return ok(arguments())

    app = Flask("arguments", static_folder=None)
    app.add_url_rule("/v2/show", view_func=shows, methods=["GET", "POST"])
    register_apis(app, Api(CodeEnvelope(), path="/v2"))
    return app


@pytest.mark.parametrize(("query", "expected"), [
    ("job_id=7&path=/x", {"job_id": "7"}),
    ("job_id=7&limit=20&role=guest&role=host&force=true", {
        "job_id": "7", "limit": 20, "role": ["guest", "host"], "force": True,
    }),
])  # fmt: skip
def test_declared_keys_of_a_query_have_their_types_and_others_are_ignored(
    app: Flask, query: str, expected: dict[str, object]
) -> None:
    assert app.test_client().get(f"/v2/show?{query}").json == {"code": 0, "data": expected, "message": "success"}


@pytest.mark.parametrize(("query", "key", "problem"), [
    ("", "job_id", "Missing data for required field."),
    ("job_id=7&limit=many", "limit", "Not a valid integer."),
    ("job_id=7&force=perhaps", "force", "Not a valid boolean."),
])  # fmt: skip
def test_a_wrong_query_names_place_and_key(app: Flask, query: str, key: str, problem: str) -> None:
    assert app.test_client().get(f"/v2/show?{query}").json == {
        "code": 5001, "message": "Invalid request.", "data": {"querystring": {key: [problem]}},
    }  # fmt: skip


@pytest.mark.parametrize(("body", "key", "problem"), [
    ({}, "job_id", "Missing data for required field."),
    ({"job_id": None}, "job_id", "Field may not be null."),
    ({"job_id": 7}, "job_id", "Not a valid string."),
    ({"job_id": "7", "dag": []}, "dag", "Not a valid mapping type."),
    ({"job_id": "7", "role": "guest"}, "role", "Not a valid list."),
    ([], "_schema", "Invalid input type."),
])  # fmt: skip
def test_a_wrong_body_names_place_and_key(app: Flask, body: object, key: str, problem: str) -> None:
    assert app.test_client().post("/v2/show", json=body).json == {
        "code": 5001, "message": "Invalid request.", "data": {"json": {key: [problem]}},
    }  # fmt: skip


@pytest.mark.parametrize("body", [b"{", b"null", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(app: Flask, body: bytes) -> None:
    found = app.test_client().post("/v2/show", data=body).json
    assert found == {"code": 5001, "message": "the body is not JSON"}


# ---------------------------------------------------------------------- clients that have to sign


def test_who_does_not_sign_is_refused(signed: World) -> None:
    found = signed.client.post("/v2/job/stop", json={"job_id": "1"}).json
    assert found["code"] == 5004
    assert "requests have to be signed" in found["message"]


def test_the_signature_of_fate_2_is_refused_by_name(signed: World) -> None:
    headers = {"appId": "a", "userName": "", "Nonce": "n", "Timestamp": "1", "Signature": "00"}
    found = signed.client.post("/v2/job/stop", json={"job_id": "1"}, headers=headers).json
    assert found["code"] == 5004
    assert found["message"].startswith("appId: the signature of FATE 2's clients covers neither")


def test_the_signature_of_fate_1_counts(signed: World) -> None:
    found = asked(signed, KEYS, "/v2/job/stop", {"job_id": "20260101000000000001"}).json
    assert found == {"code": 1001, "message": "No found job: job_id[20260101000000000001]"}
