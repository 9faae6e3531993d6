"""The routes of a witness, as C2SP tlog-witness has them. The client follows that text; it shares no code with ours."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.core.access.key_list import WITNESS
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.site_key import read_public_key
from tests.kit.api.client_world import World, make_world
from tests.kit.services.witness_parties import RecordKeys

PEER = RecordKeys("10000")
ORIGIN = f"{PEER.root}/with/9999/1"
ADD = "/v1/party/record/add-checkpoint"


def leaf(number: int) -> bytes:
    return hashlib.sha256(b"\x00" + str(number).encode()).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


ROOTS = {1: leaf(0), 2: node(leaf(0), leaf(1)), 3: node(node(leaf(0), leaf(1)), leaf(2))}
PROOFS = {(0, 2): [], (2, 3): [leaf(2)], (3, 3): []}


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def note(size: int, root: bytes | None = None) -> tuple[str, str]:
    """The text of a checkpoint, and the whole note."""
    text = f"{ORIGIN}\n{size}\n{encoded(root or ROOTS[size])}\n"
    public = PEER.own.key.key
    key_id = hashlib.sha256(ORIGIN.encode() + b"\n\x01" + public).digest()[:4]
    return text, f"{text}\n\u2014 {ORIGIN} {encoded(key_id + PEER.own.sign(text.encode()))}\n"


def body(old: int, size: int, root: bytes | None = None) -> bytes:
    lines = [f"old {old}", *map(encoded, PROOFS.get((old, size), []))]
    return ("\n".join(lines) + "\n\n" + note(size, root)[1]).encode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A party with keys, which keeps a record and knows the keys of the peer."""
    made = make_world(tmp_path, keeps_record=True)
    settings = made.services.settings
    OwnKeys("9999", settings.keys_dir, settings.private_key, lambda: 0).make()
    with made.services.context.store.transaction() as tx:
        tx.add_party_keys(PEER.listed())
    return made


def post(world: World, path: str, party_id: str = "10000", **content: Any) -> TestResponse:
    """A request over the gateway, which has seen a key of this party."""
    client = FlaskClient(world.app, world.app.response_class)
    head = {"SRC-PARTY-ID": party_id, "X-Fate-Flow-Peer": f"{party_id} {'0' * 64}"}
    with socket.socket(socket.AF_UNIX) as sock:
        return client.post(path, headers=head, environ_overrides={"gunicorn.socket": sock}, **content)


def add(world: World, content: bytes, party_id: str = "10000") -> TestResponse:
    return post(world, ADD, party_id, data=content)


def answered(world: World, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return dict(post(world, f"/v1/party/{path}", json=body).json or {})


def test_a_client_of_the_specification_gets_cosignatures_that_hold(world: World) -> None:
    settings = world.services.settings
    own = OwnKeys("9999", settings.keys_dir, settings.private_key, lambda: 0)
    (pem,) = [key.pem for key in own.last_list().keys if key.use == WITNESS]  # type: ignore[union-attr]
    public = read_public_key(pem).raw
    for old, size in ((0, 2), (2, 3), (3, 3)):
        answer = add(world, body(old, size))
        assert (answer.status_code, answer.headers["SRC-PARTY-ID"]) == (200, "9999")
        mark, name, content = answer.text.rstrip("\n").split(" ")
        raw = base64.b64decode(content, validate=True)
        assert mark == "\u2014"
        assert raw[:4] == hashlib.sha256(name.encode() + b"\n\x04" + public).digest()[:4]
        at = int.from_bytes(raw[4:12], "big")
        signed = f"cosignature/v1\ntime {at}\n{note(size)[0]}".encode()
        Ed25519PublicKey.from_public_bytes(public).verify(raw[12:], signed)
    held = answered(world, "record/held", {})
    assert held["data"]["checkpoints"] == [note(3)[1]]


def test_a_stale_size_is_answered_with_the_size_that_is_held(world: World) -> None:
    assert add(world, body(0, 2)).status_code == 200
    answer = add(world, body(0, 3))
    assert (answer.status_code, answer.text, answer.content_type) == (409, "2\n", "text/x.tlog.size")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (body(2, 3, leaf(9)), 422), (body(2, 2, leaf(9)), 409), (body(3, 2), 400), (b"old 0\n\nnothing", 400),
        (b"\xff", 400), (b"x" * 300_000, 400),
    ],
)
def test_what_does_not_fit_is_refused(world: World, content: bytes, status: int) -> None:
    assert add(world, body(0, 2)).status_code == 200
    assert add(world, content).status_code == status


def test_a_log_of_nobody_is_not_known(world: World) -> None:
    assert add(world, body(0, 2), "10001").status_code == 404


def test_a_caller_without_a_proof_of_its_name_is_refused_as_on_every_route_of_parties(world: World) -> None:
    answer = world.client.post(ADD, data=body(0, 2), headers={"SRC-PARTY-ID": "10000"})
    assert "requires signed requests of party 10000" in answer.json["retmsg"]  # type: ignore[index]
    for asked in ({}, {"after": ""}, {"after": "0" * 32}):
        nothing = {"checkpoints": [], "acknowledged": [], "answers": []}
        assert answered(world, "record/held", asked)["data"] == nothing
    assert "`after` is not the number of a message" in answered(world, "record/held", {"after": "x"})["retmsg"]


def test_without_a_record_there_is_no_witness(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    assert add(world, body(0, 2)).status_code == 404
    assert answered(world, "record/held", {})["retcode"] == 101


def test_a_heartbeat_brings_a_checkpoint_and_its_answer_the_cosignature(world: World) -> None:
    reply = answered(world, "heartbeat", {"jobs": [], "checkpoint": body(0, 2).decode()})
    cosigned = reply["data"]["cosigned"]
    assert cosigned["status"] == 200
    assert cosigned["text"].startswith("\u2014 ")
    assert reply["data"]["ended"] == {}
    assert "cosigned" not in answered(world, "heartbeat", {"jobs": []})["data"]


@pytest.mark.parametrize(("age", "said"), [(0, 7), (100_000, 7), (100_001, None), (None, None)])
def test_a_heartbeat_is_told_how_long_requests_back_take_if_one_was_answered_lately(
    world: World, age: int | None, said: int | None
) -> None:
    """A time from before would say that this party reaches the sender."""
    now = world.services.context.clock()
    at = None if age is None else now - age
    object.__setattr__(world.services.context, "clock", lambda: now)
    world.write_peers(json.dumps({"10000": {"circuit": "closed", "round_trip_ms": 7, "answered_at": at}}))
    assert answered(world, "heartbeat", {"jobs": []})["data"].get("round_trip_ms") == said


def test_a_heartbeat_without_a_record_here_is_answered_as_before(tmp_path: Path) -> None:
    reply = answered(make_world(tmp_path), "heartbeat", {"jobs": [], "checkpoint": "x"})
    assert reply["retcode"] == 0
    assert "cosigned" not in reply["data"]
