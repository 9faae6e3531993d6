"""The route by which parties join: for strangers of the gateway alone, and it reveals nothing of this party."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.core.access.invitation import LIFE_MS, Invitation
from fate_flow.core.access.key_list import KeyState
from fate_flow.core.access.site import SiteRule
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.joining import JoiningSide
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.tls import OwnTls, load_tls_key
from tests.kit.api.client_world import World, make_world
from tests.kit.key_lists import signed_list
from tests.kit.peers.handshakes import tls_party
from tests.kit.site_keys import private_key

PATH = "/v1/party/join"
ADDRESS = "https://10.0.0.2:9390"


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(params=[False, True], ids=["unsigned", "signed"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    (tmp_path / "home").mkdir()
    found = make_world(tmp_path / "home", site=SiteRule(is_on=request.param))
    keys_of(found).make()
    return found


@pytest.fixture
def unix() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as found:
        yield found


def keys_of(world: World) -> OwnKeys:
    settings = world.services.settings
    return OwnKeys("9999", settings.keys_dir, settings.private_key, now)


def own_tls(world: World) -> OwnTls:
    return OwnTls("9999", load_tls_key(world.services.settings.keys_dir / "tls.pem"), now)


def invited(world: World) -> Invitation:
    found = Invitation(
        "https://10.0.0.1:9390", "9999", keys_of(world).root().key_id, "10000", b"s" * 16, now() + LIFE_MS
    )
    Invitations(world.services.settings.invitations_dir, now).add(found, "ann")
    return found


def joining(invitation: Invitation) -> JoiningSide:
    party = tls_party("10000", clock=now)
    return JoiningSide(invitation, "10000", ADDRESS, signed_list("10000", 1, private_key(1), tls=party), now)


def posted(world: World, over: socket.socket | None, identity: str, body: object) -> TestResponse:
    environ: dict[str, Any] = {"gunicorn.socket": over} if over is not None else {}
    client = FlaskClient(world.app, world.app.response_class)      # no route of clients: it is in no document
    fields = {"X-Fate-Flow-Peer": identity, "SRC-PARTY-ID": "10000"}
    return client.post(PATH, json=body, headers=fields, environ_overrides=environ)


def stranger(world: World) -> str:
    return f"stranger {own_tls(world).key_id}"


def test_a_party_joins_and_its_keys_and_address_are_stored(world: World, unix: socket.socket) -> None:
    invitation = invited(world)
    side = joining(invitation)
    answer = posted(world, unix, stranger(world), {"text": side.message})
    assert (answer.status_code, answer.get_json()["retcode"], answer.headers["SRC-PARTY-ID"]) == (200, 0, "9999")
    found = side.check(answer.get_json()["data"]["text"], own_tls(world).leaf().certificate, "bob")
    with world.store.reading() as tx:
        [stored] = tx.joined_parties()
        keys = tx.party_keys("10000")
    assert (stored.address, stored.phrase, stored.joined_by) == (ADDRESS, found.party.phrase, "ann")
    assert keys is not None
    assert (keys.state, keys.state_by, keys.number) == (KeyState.JOINED, "ann", 1)
    again = posted(world, unix, stranger(world), {"text": side.message}).get_json()
    assert (again["retcode"], "it was used" in again["retmsg"]) == (108, True)


def test_a_party_that_is_known_under_another_root_key_is_not_replaced(world: World, unix: socket.socket) -> None:
    invitation = invited(world)
    old = signed_list("10000", 1, private_key(5), root=private_key(105))
    saved = world.ask("key/public/save", {"party_id": "10000", "key": old.text()})
    assert saved["retcode"] == 0
    answer = posted(world, unix, stranger(world), {"text": joining(invitation).message}).get_json()
    assert answer["retcode"] != 0
    assert "another root key than that of party 10000 here has signed this list" in answer["retmsg"]
    with world.store.reading() as tx:
        keys = tx.party_keys("10000")
        assert tx.joined_parties() == ()
    assert keys is not None
    assert keys.signed == old


def test_nobody_but_strangers_of_the_gateway_has_the_route(world: World, unix: socket.socket) -> None:
    message = {"text": joining(invited(world)).message}
    known = posted(world, unix, f"10000 {'ab' * 32}", message)
    assert (known.status_code, known.text) == (404, f"'{PATH}': other parties have no such route")
    for over in (None, socket.socket(socket.AF_INET)):
        answer = posted(world, over, stranger(world), message)
        assert answer.status_code == 404 or answer.get_json()["retcode"] != 0
        if over is not None:
            over.close()
    with world.store.reading() as tx:
        assert tx.joined_parties() == ()


@pytest.mark.parametrize("path", ["/v1/party/heartbeat", "/v1/party/list", "/v1/job/submit", "/v2/x", "/nothing"])
def test_a_stranger_has_no_other_route(world: World, unix: socket.socket, path: str) -> None:
    client = FlaskClient(world.app, world.app.response_class)
    fields = {"X-Fate-Flow-Peer": stranger(world), "SRC-PARTY-ID": "10000"}
    answer = client.post(path, json={}, headers=fields, environ_overrides={"gunicorn.socket": unix})
    assert answer.status_code == 404


@pytest.mark.parametrize("body", [{}, {"text": 1}, {"text": ""}, {"text": "x"}, [], {"text": "{}"}])
def test_what_is_no_message_is_refused(world: World, unix: socket.socket, body: object) -> None:
    invited(world)
    answer = posted(world, unix, stranger(world), body)
    assert answer.get_json()["retcode"] == 101


def test_a_home_whose_files_are_wrong_reveals_nothing(
    world: World, unix: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    invitation = invited(world)
    message = {"text": joining(invitation).message}
    folder = world.services.settings.invitations_dir
    (folder / f"{invitation.id}.json").write_text(json.dumps({"state": "open"}))
    with caplog.at_level(logging.ERROR):
        answer = posted(world, unix, stranger(world), message).get_json()
    assert answer["retmsg"] == "this server cannot use its keys or invitations; its log says why"
    assert str(folder) in caplog.text
