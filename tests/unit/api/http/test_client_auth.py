"""Requests of clients are signed where the configuration has keys for them; those of other parties are not asked to."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from fate_flow.api import app
from fate_flow.api.http.client_auth import WINDOW_MS
from fate_flow.cli.connection.signature import sign
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.limits import Limits
from tests.kit.api.client_world import FORM_TYPE, World, form, make_world

NOW = 1_700_000_000_000
KEYS = ClientKeys("our-clients", "secret-of-9999")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of the server; may be moved."""
    moment = [NOW]
    monkeypatch.setattr(app, "now_on_the_wall", lambda: moment[0])
    return moment


@pytest.fixture
def world(tmp_path: Path, now: list[int]) -> World:
    return make_world(tmp_path, client_keys=KEYS)


def signed(
    path: str, body: bytes = b"{}", *, at: int = NOW, nonce: str = "n1", key: str = KEYS.app_key,
    secret: str = KEYS.secret_key,
) -> dict[str, str]:  # fmt: skip
    signature = sign(secret, str(at), nonce, key, path, body)
    return {"TIMESTAMP": str(at), "NONCE": nonce, "APP_KEY": key, "SIGNATURE": signature}


def post(world: World, path: str, body: bytes, headers: dict[str, str]) -> TestResponse:
    return world.client.post(path, data=body, headers={"Content-Type": "application/json", **headers})


def retcode(response: TestResponse) -> Any:
    assert response.status_code == 200
    return response.json["retcode"]


def test_a_query_that_the_clients_library_has_escaped_once_more(world: World) -> None:
    path = "/v1/job/query?%7B%22a%22:%22%%22%7D"        # what FATE's client signs where a value has a %
    sent = path.replace("%", "%25")
    assert retcode(post(world, sent, b"{}", signed(path))) == 0
    assert retcode(post(world, sent, b"{}", signed(sent, nonce="n2"))) == 0
    assert retcode(post(world, sent, b"{}", signed(path.replace("%22a", "%22b"), nonce="n3"))) == 109


def test_a_signed_request_is_answered_once(world: World) -> None:
    body = json.dumps({"job_id": "20260101120000"}).encode()
    headers = signed("/v1/job/query", body)
    assert retcode(post(world, "/v1/job/query", body, headers)) == 0
    again = post(world, "/v1/job/query", body, headers)
    assert (retcode(again), "NONCE" in again.json["retmsg"]) == (109, True)
    assert retcode(post(world, "/v1/job/query", body, signed("/v1/job/query", body, nonce="n2"))) == 0


def test_a_nonce_is_known_after_a_restart(world: World, tmp_path: Path) -> None:
    headers = signed("/v1/version/get")
    assert retcode(post(world, "/v1/version/get", b"{}", headers)) == 0
    world.store.database.close()
    assert retcode(post(make_world(tmp_path, client_keys=KEYS), "/v1/version/get", b"{}", headers)) == 109


@pytest.mark.parametrize(("change", "text"), [
    ({"at": NOW - WINDOW_MS - 1}, "TIMESTAMP"), ({"at": NOW + WINDOW_MS + 1}, "TIMESTAMP"),
    ({"key": "others"}, "is not the app key of this server"),
    ({"secret": "another-secret"}, "the secret key is probably wrong"), ({"body": b'{"a": 1}'}, "SIGNATURE"),
    ({"path": "/v1/job/stop"}, "SIGNATURE"), ({"path": "/v1/job/query?a=1"}, "SIGNATURE"),
])  # fmt: skip
def test_what_is_not_right_is_refused(world: World, change: dict[str, Any], text: str) -> None:
    described = {"path": "/v1/job/query", "body": b"{}", **change}
    response = post(world, "/v1/job/query", b"{}", signed(**described))
    assert (retcode(response), text in response.json["retmsg"]) == (109, True)


@pytest.mark.parametrize("missing", ["TIMESTAMP", "NONCE", "APP_KEY", "SIGNATURE"])
def test_every_header_is_needed(world: World, missing: str) -> None:
    headers = signed("/v1/job/query")
    del headers[missing]
    assert retcode(post(world, "/v1/job/query", b"{}", headers)) == 109


def test_a_time_that_is_no_number_is_refused(world: World) -> None:
    response = post(world, "/v1/job/query", b"{}", {**signed("/v1/job/query"), "TIMESTAMP": "-1"})
    assert (retcode(response), "TIMESTAMP" in response.json["retmsg"]) == (109, True)


def test_the_sdk_sends_an_empty_object_and_signs_none(world: World) -> None:
    assert retcode(post(world, "/v1/job/list/job", b"{}", signed("/v1/job/list/job", b""))) == 0
    other = post(world, "/v1/job/query", b'{"a": 1}', signed("/v1/job/query", b"", nonce="n2"))
    assert retcode(other) == 109


def test_of_an_upload_the_query_is_signed_and_not_the_file(world: World) -> None:
    path = "/v1/data/upload?%7B%22file%22:%20%22x.csv%22%7D"
    headers = {**signed(path, b""), "Content-Type": FORM_TYPE}
    response = world.client.post(path, data=form(b"id,x\n1,2\n"), headers=headers)
    assert (retcode(response), "missing" in response.json["retmsg"]) == (100, True), "it was let in"
    unsigned = world.client.post(path, data=form(b"id,x\n1,2\n"), headers={"Content-Type": FORM_TYPE})
    assert retcode(unsigned) == 109


def a_form(**fields: str) -> bytes:
    """Fields, and the file behind them, as `requests` writes it."""
    parts = (f'--frontier\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
             for key, value in fields.items())
    return "".join(parts).encode() + form(b"a model")


FIELDS = {"role": "guest", "model_id": "a b&c=d", "party_id": "9999"}
SIGNED_FIELDS = b"model_id=a%20b%26c%3Dd&party_id=9999&role=guest"


def test_of_a_form_the_fields_are_signed_and_not_the_file(world: World) -> None:
    path = "/v1/model/import"
    for nonce, fields, described in (("n1", SIGNED_FIELDS, 101), ("n2", b"", 109), ("n3", b"role=host", 109)):
        signature = sign(KEYS.secret_key, str(NOW), nonce, KEYS.app_key, path, b"", fields)
        headers = {**signed(path, nonce=nonce), "SIGNATURE": signature, "Content-Type": FORM_TYPE}
        response = world.client.post(path, data=a_form(**FIELDS), headers=headers)
        assert retcode(response) == described
        assert ("is not an exported model" in response.json["retmsg"]) is (described == 101), response.json
        assert world.uploads == [], "what nobody takes does not stay"


URLENCODED = "application/x-www-form-urlencoded"


@pytest.mark.parametrize("kind", [
    FORM_TYPE, "multipart/form-data", "multipart/form-data; boundary=x", URLENCODED, "text/plain", "",
])  # fmt: skip
def test_a_body_is_signed_whatever_its_content_type_says(world: World, kind: str) -> None:
    path, body = "/v1/job/query", b'{"job_id": "20260101120000"}'
    for nonce, described, wanted in (("n1", body, 0), ("n2", b"", 109), ("n3", b"{}", 109)):
        response = world.client.post(
            path, data=body, headers={**signed(path, described, nonce=nonce), "Content-Type": kind}
        )
        assert retcode(response) == wanted, described


@pytest.mark.parametrize("kind", [FORM_TYPE, URLENCODED])
def test_a_body_of_unknown_or_excessive_length_is_signed_whatever_its_content_type_says(
    world: World, kind: str
) -> None:
    path, body = "/v1/job/query", b'{"job_id": "%s"}' % (b"x" * 600_000)
    headers = {**signed(path, b""), "Content-Type": kind}
    assert retcode(world.client.post(path, data=body, headers=headers)) == 109
    chunked = world.client.post(
        path, input_stream=BytesIO(b'{"job_id": "20260101120000"}'), headers={**headers, "NONCE": "n1"},
        environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
    )
    assert retcode(chunked) == 109


def test_the_fields_of_an_upload_are_signed(world: World) -> None:
    path, fields = "/v1/data/upload", {"namespace": "a", "table_name": "b", "head": "1", "partition": "1"}
    described = b"head=1&namespace=a&partition=1&table_name=b"
    for nonce, of_form, wanted in (
        ("n1", b"", 109),
        ("n2", described.replace(b"=b", b"=c"), 109),
        ("n3", described, 0),
    ):
        signature = sign(KEYS.secret_key, str(NOW), nonce, KEYS.app_key, path, b"", of_form)
        headers = {**signed(path, nonce=nonce), "SIGNATURE": signature, "Content-Type": FORM_TYPE}
        response = world.client.post(path, data=a_form(**fields), headers=headers)
        assert retcode(response) == wanted, response.json
        assert len(world.uploads) == (wanted == 0)


@pytest.mark.parametrize("body", [b"", b"no form", b"--frontier\r\n", form(b"x") + form(b"y"), 2 * form(b"x")[:-4]])
def test_what_is_no_form_is_not_let_in(world: World, body: bytes) -> None:
    path = "/v1/data/upload"
    headers = {**signed(path, secret="another-secret"), "Content-Type": FORM_TYPE}
    assert retcode(world.client.post(path, data=body, headers=headers)) == 109
    assert world.uploads == []


def test_a_form_beyond_what_a_body_may_hold_is_not_read_before_it_is_known_whose_it_is(tmp_path: Path) -> None:
    world = make_world(tmp_path, Limits(max_request_bytes=1000), client_keys=KEYS)
    path = "/v1/data/upload"
    headers = {**signed(path, secret="another-secret"), "Content-Type": FORM_TYPE}
    assert retcode(world.client.post(path, data=form(b"x" * 2000), headers=headers)) == 109
    assert not (tmp_path / "uploads").exists()


def test_where_a_file_is_expected_the_status_is_not_200(world: World) -> None:
    response = world.client.post("/v1/job/log/download", json={"job_id": "20260101120000"})
    assert (response.status_code, response.json["retcode"]) == (403, 403)
    assert "signed" in response.json["retmsg"]


@pytest.mark.parametrize("path", [
    "/v1/party/heartbeat", "/v1/party/batch", "/v1/party/task/log", "/v1/party/validate",
    "/v1/party/20260101120000/host/10000/start",
    "/v1/initiator/20260101120000/guest/9999/rerun", "/v1/tracker/20260101120000/a_0/guest/9999/output/table",
    "/v1/nowhere",
])
def test_other_parties_need_no_key_of_ours(world: World, path: str) -> None:
    assert world.client.post(path, json={}).json["retcode"] != 109


OPEN = ("/index.html", "/v1/openapi.json", "/healthz")
PROBES = ("/readyz", "/schedules")
"""Open as well; 503 without a scheduler."""


@pytest.mark.parametrize("path", OPEN)
def test_pages_that_tell_nothing_of_a_party_are_open(world: World, path: str) -> None:
    assert world.client.get(path).status_code == 200


def test_every_other_route_asks_for_a_signature(world: World) -> None:
    rules = [rule for rule in world.client.application.url_map.iter_rules() if "<" not in rule.rule]
    asked = {
        rule.rule: world.client.open(rule.rule, method="GET" if "GET" in (rule.methods or ()) else "POST", json={})
        for rule in rules if rule.rule == "/v1/party/list" or not rule.rule.startswith(("/v1/party/", *OPEN, *PROBES))
    }
    assert len(asked) > 60
    codes = {path: response.json.get("retcode") or response.json["code"] for path, response in asked.items()}
    assert {path for path, code in codes.items() if code not in (109, 403, 5004)} == set()


def test_old_nonces_are_forgotten(world: World, now: list[int], tmp_path: Path) -> None:
    post(world, "/v1/version/get", b"{}", signed("/v1/version/get"))
    now[0] += 3 * WINDOW_MS
    post(world, "/v1/version/get", b"{}", signed("/v1/version/get", at=now[0]))
    assert [int(path.name.partition("-")[0]) for path in (tmp_path / "run" / "nonces").iterdir()] == [now[0]]


def test_without_keys_nobody_needs_to_sign(tmp_path: Path) -> None:
    assert retcode(post(make_world(tmp_path), "/v1/version/get", b"{}", {})) == 0
