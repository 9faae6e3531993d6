"""What the application answers the gateway before a stream to a worker here is carried."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from fate_flow.api.between_parties.exchange import ExchangeEnvelope
from fate_flow.api.between_parties.streams import stream_blueprint
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, Port
from fate_flow.core.streams.addresses import ends_of
from fate_flow.core.wire.v1.paths import stream_call_path, stream_path
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import StreamSession, StreamSessions

JOB = "20260101120000"
GUEST, HOST, OTHER = Party("guest", "9999"), Party("host", "10000"), Party("host", "10001")
KEY = TaskKey(JOB, "train", 2, GUEST)
SESSION = Session(JOB, KEY.task_id, 2, "a1b2c3d4", "guest", "9999")
ENDS = ends_of((Port("fl", (GUEST,), (HOST,)),), KEY, "a1b2c3d4")
DOCUMENT = "native:" + "a" * 64


class Checks:
    """What this party says about the share now."""

    def __init__(self) -> None:
        self.why = ""
        self.asked: list[TaskKey] = []

    def why_not(self, key: TaskKey) -> str:
        self.asked.append(key)
        return self.why


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path, SpoolLimits(), lambda: None)
    spool.open(SESSION, tuple((one.role, one.party_id) for one in (GUEST, HOST, OTHER)), "token", DOCUMENT)
    return spool


@pytest.fixture
def client(spool: Spool, checks: Checks, tmp_path: Path) -> FlaskClient:
    (tmp_path / "streams").mkdir()
    sessions = StreamSessions(tmp_path / "streams", tmp_path / "streams.sock")
    sessions.open(StreamSession(SESSION, DOCUMENT, ENDS))
    app = Flask("stream_routes")     # a name of no folder of tests: Flask looks for a package of this name
    register_apis(app, Api(ExchangeEnvelope(), (stream_blueprint(spool, sessions, checks, "9999"),)))  # type: ignore[arg-type]
    return app.test_client()


@pytest.fixture
def of_gateway() -> Iterator[dict[str, Any]]:
    """What a request has that the gateway sends."""
    with socket.socket(socket.AF_UNIX) as sock:
        yield {"gunicorn.socket": sock, "HTTP_X_FATE_FLOW_STREAM": "1"}


def path(sender: Party = HOST, receiver: Party = GUEST, port: str = "fl", incarnation: str = "a1b2c3d4") -> str:
    return "/v1" + stream_path(JOB, KEY.task_id, 2, incarnation, sender, receiver, port)


def asked(
    client: FlaskClient, target: str, overrides: dict[str, Any], party_id: str = "10000"
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    response = client.post(target, headers={"src-party-id": party_id}, environ_overrides=overrides)
    assert isinstance(response.json, dict)
    return response.status_code, response.json


def test_the_gateway_is_told_where_the_worker_listens(
    client: FlaskClient, of_gateway: dict[str, Any], checks: Checks
) -> None:  # fmt: skip
    status, said = asked(client, f"{path()}?document={DOCUMENT}", of_gateway)
    assert status == 200
    assert said == {
        "retcode": 0, "retmsg": "success", "session": vars(SESSION), "port": "fl", "from": vars(HOST),
        "address": vars(ENDS.listens[0].address),
    }
    assert checks.asked == [KEY]


@pytest.mark.parametrize(
    ("target", "party_id", "status", "text"),
    [
        (path(), "10001", 403, "party 10001 may not speak for host 10000"),
        (path(sender=OTHER), "10001", 404, "no worker listens at port fl for host 10001"),
        (path(port="xx"), "10000", 404, "no worker listens at port xx for host 10000"),
        (path(sender=Party("host", "10002")), "10002", 404, "host 10002: no such party in session"),
        (path(incarnation="ffffffff"), "10000", 425, "has not started here"),
        (path(port="-x"), "10000", 400, "the name of a port"),
        (f"{path()}?document=native:{'b' * 64}", "10000", 403, "gave the two parties different documents"),
        (f"{path()}?document=x", "10000", 400, "document: 'x' is not"),
    ],
)  # fmt: skip
def test_everything_else_is_refused(
    client: FlaskClient, of_gateway: dict[str, Any], target: str, party_id: str, status: int, text: str
) -> None:
    found, said = asked(client, target, of_gateway, party_id)
    assert (found, said["retcode"]) == (status, status)
    assert text in said["retmsg"]


def test_what_is_no_longer_granted_is_refused(
    client: FlaskClient, of_gateway: dict[str, Any], checks: Checks
) -> None:  # fmt: skip
    checks.why = "guest 9999 has not granted party 10000: incoming streams of component Command"
    assert asked(client, path(), of_gateway)[1]["retmsg"] == checks.why


def test_after_the_end_of_the_attempt_it_is_gone(
    client: FlaskClient, of_gateway: dict[str, Any], spool: Spool
) -> None:  # fmt: skip
    spool.close(SESSION)
    assert asked(client, path(), of_gateway)[0] == 410


def test_nobody_but_the_gateway_is_told_an_address(client: FlaskClient, of_gateway: dict[str, Any]) -> None:
    for overrides in ({}, {"HTTP_X_FATE_FLOW_STREAM": "1"}, {"gunicorn.socket": of_gateway["gunicorn.socket"]}):
        status, said = asked(client, path(), overrides)
        assert (status, "address" in said) == (426, False)


# ---------------------------------------------------------------------- the call before a job


def call(sender: Party = HOST, receiver: Party = GUEST) -> str:
    return "/v1" + stream_call_path(sender, receiver)


def test_a_gateway_that_calls_is_told_that_streams_would_come_this_way(
    client: FlaskClient, of_gateway: dict[str, Any]
) -> None:  # fmt: skip
    assert asked(client, call(), of_gateway) == (200, {"retcode": 0, "retmsg": "success", "call": True})


@pytest.mark.parametrize(
    ("target", "party_id", "status", "text"),
    [
        (call(), "10001", 403, "party 10001 may not speak for host 10000"),
        (call(receiver=OTHER), "10000", 404, "this is the server of party 9999, not of host 10001"),
        (call(sender=Party("local", "10000")), "10000", 403, "are taken from the own server only"),
        (call(sender=Party("hosts", "10000")), "10000", 400, "role: 'hosts' is not one of"),
    ],
)
def test_every_other_call_is_refused(
    client: FlaskClient, of_gateway: dict[str, Any], target: str, party_id: str, status: int, text: str
) -> None:
    found, said = asked(client, target, of_gateway, party_id)
    assert found == status
    assert text in said["retmsg"]


def test_a_call_that_lost_its_upgrade_or_did_not_come_to_a_gateway_is_told_so(
    client: FlaskClient, of_gateway: dict[str, Any]
) -> None:  # fmt: skip
    overrides = {"gunicorn.socket": of_gateway["gunicorn.socket"]}
    assert "a proxy in between has removed it" in asked(client, call(), overrides)[1]["retmsg"]
    assert "its server has no gateway at this address" in asked(client, call(), {})[1]["retmsg"]
