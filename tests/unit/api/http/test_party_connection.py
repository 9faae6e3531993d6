"""Whose connection a request came over: believed on the Unix socket of the gateway, and nowhere else. And the listener
of `parties.plain`, where some parties are believed by their names."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.api.http.party_connection import STRANGERS
from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.access.site import SiteRule
from fate_flow.peers.signature import SIGNATURE, Covered, digest_of, sign
from fate_flow.peers.site_key import PrivateKey
from fate_flow.settings.parties import Listen, PlainParties
from tests.kit.api.client_world import World, make_world
from tests.kit.key_lists import ROOT, signed_list
from tests.kit.site_keys import private_key, site_key

KEY = "ab" * 32
HEARTBEAT = "/v1/party/heartbeat"
PATHS_OF_CLIENTS = (
    "/v1/version/get", "/v1/party/list", "/v1/party/list/", "/v1/nothing/here", "/", "/v2",
    "/v1/job/submit", "/index.html", "/v1/openapi.json", "/v2/x",
)  # fmt: skip


@pytest.fixture(params=[False, True], ids=["unsigned", "signed"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    (tmp_path / "home").mkdir()
    return make_world(tmp_path / "home", site=SiteRule(is_on=request.param))


@pytest.fixture(params=[socket.AF_UNIX])
def unix(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with socket.socket(request.param) as found:
        yield found


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET) as found:
        yield found


def asked(world: World, over: socket.socket, path: str = HEARTBEAT, **head: str) -> TestResponse:
    fields = {name.replace("_", "-"): value for name, value in head.items()}
    environ: dict[str, Any] = {"gunicorn.socket": over}
    client = FlaskClient(world.app, world.app.response_class)      # what the gateway sees is not in the document
    return client.post(path, json={"jobs": []}, headers=fields, environ_overrides=environ)


def test_a_party_speaks_for_itself_over_its_connection(world: World, unix: socket.socket) -> None:
    answer = asked(world, unix, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10000")
    assert answer.get_json()["retcode"] == 0
    assert answer.headers["SRC-PARTY-ID"] == "9999"


def test_a_party_that_is_heard_is_noted_with_what_the_gateway_saw(
    world: World, unix: socket.socket, tcp: socket.socket
) -> None:
    asked(world, tcp, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10000", X_Fate_Flow_Tls="TLSv1.3")
    asked(world, unix, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10001", X_Fate_Flow_Tls="TLSv1.3")
    with world.store.reading() as tx:
        assert tx.contacts() == ()
    for _ in range(2):
        asked(world, unix, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10000", X_Fate_Flow_Tls="TLSv1.3")
    with world.store.reading() as tx:
        [found] = tx.contacts()
    assert (found.party_id, found.direction, found.tls, found.key_id) == ("10000", "from", "TLSv1.3", KEY)


@pytest.mark.parametrize("source", ["10001", "9999", "0", "", "10000,10000", "010000"])
def test_a_party_speaks_for_nobody_else(world: World, unix: socket.socket, source: str) -> None:
    answer = asked(world, unix, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID=source)
    assert answer.get_json()["retcode"] == 109
    assert "the connection belongs to party 10000" in answer.get_json()["retmsg"]


@pytest.mark.parametrize("identity", ["", "10000", f"10000 {KEY}x", f"10000  {KEY}", f"10000 {KEY},10001 {KEY}", "x"])
def test_a_connection_of_nobody_is_refused(world: World, unix: socket.socket, identity: str) -> None:
    answer = asked(world, unix, X_Fate_Flow_Peer=identity, SRC_PARTY_ID="10000")
    assert answer.get_json()["retcode"] == 109


@pytest.mark.parametrize("identity", ["9999", "0"])
def test_no_key_speaks_for_this_party(world: World, unix: socket.socket, identity: str) -> None:
    answer = asked(world, unix, X_Fate_Flow_Peer=f"{identity} {KEY}", SRC_PARTY_ID=identity)
    assert answer.get_json()["retcode"] == 109


@pytest.mark.parametrize("path", PATHS_OF_CLIENTS)
def test_no_route_of_clients_exists_there(world: World, unix: socket.socket, path: str) -> None:
    answer = asked(world, unix, path, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10000")
    assert answer.status_code == 404
    assert (answer.mimetype, answer.text) == ("text/plain", f"'{path}': other parties have no such route")


def test_the_same_headers_on_the_port_of_clients_mean_nothing(tmp_path: Path, tcp: socket.socket) -> None:
    (tmp_path / "home").mkdir()
    world = make_world(tmp_path / "home", site=SiteRule(is_on=True))
    answer = asked(world, tcp, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10000")
    assert answer.get_json()["retcode"] == 109
    assert "requires signed requests of party 10000" in answer.get_json()["retmsg"]


def test_a_connection_may_have_signed_answers_too(tmp_path: Path, unix: socket.socket) -> None:
    """A route that requires them may lead to a gateway; the signature of the request has to be right then."""
    (tmp_path / "home").mkdir()
    world, key = make_world(tmp_path / "home", site=SiteRule(is_on=True)), private_key(1)
    with world.store.transaction() as tx:
        tx.add_site_key(site_key("10000", key), 1)
    body = b'{"jobs": []}'
    covered = Covered("POST", HEARTBEAT, digest_of(body), "10000", "9999")
    client = FlaskClient(world.app, world.app.response_class)
    for signer, retcode in ((key, 0), (private_key(2), 109)):
        fields = sign(signer, covered, int(time.time()), "n" * 24, asks=True)
        head = {"X-Fate-Flow-Peer": f"10000 {KEY}", "SRC-PARTY-ID": "10000", "DEST-PARTY-ID": "9999", **fields}
        answer = client.post(HEARTBEAT, data=body, headers=head, environ_overrides={"gunicorn.socket": unix})
        assert (answer.get_json()["retcode"], SIGNATURE in answer.headers) == (retcode, retcode == 0)


def test_the_log_has_the_address_that_the_gateway_names(
    tmp_path: Path, unix: socket.socket, tcp: socket.socket
) -> None:
    (tmp_path / "home").mkdir()
    world = make_world(tmp_path / "home")
    asked(world, unix, X_Fate_Flow_Peer=f"10000 {KEY}", SRC_PARTY_ID="10000", X_Fate_Flow_Address="10.0.0.2")
    asked(world, tcp, SRC_PARTY_ID="10000", X_Fate_Flow_Address="10.0.0.3")
    assert [call[0] for call in world.record.served] == ["10.0.0.2", "127.0.0.1"]


# ---------------------------------------------------------------------- parties.plain


def plain_world(home: Path, site: SiteRule) -> World:
    home.mkdir()
    return make_world(home, site=site, plain_parties=PlainParties(Listen("127.0.0.1", 9391), frozenset({"10000"})))


@pytest.mark.parametrize("site", [SiteRule(), SiteRule(is_on=True)], ids=["unsigned", "signed"])
def test_a_named_party_is_believed_on_the_listener_that_was_opened_for_it(
    tmp_path: Path, unix: socket.socket, tcp: socket.socket, site: SiteRule
) -> None:
    world = plain_world(tmp_path / "home", site)
    assert asked(world, unix, X_Fate_Flow_Peer="plain", SRC_PARTY_ID="10000").get_json()["retcode"] == 0
    for source, said in (("10001", "does not list party 10001 (parties.plain.from)"), ("9999", "party 9999"),
                         ("0", "does not list"), ("", "SRC-PARTY-ID"), ("x", "SRC-PARTY-ID")):
        answer = asked(world, unix, X_Fate_Flow_Peer="plain", SRC_PARTY_ID=source).get_json()
        assert (answer["retcode"], said in answer["retmsg"]) == (109, True), answer
    on_port_of_clients = asked(world, tcp, X_Fate_Flow_Peer="plain", SRC_PARTY_ID="10000").get_json()["retcode"]
    assert on_port_of_clients == (109 if site.is_on else 0), "the list opens no other port"


@pytest.mark.parametrize("path", [*PATHS_OF_CLIENTS, STRANGERS])
def test_clients_have_nothing_on_the_listener_for_plain_v1(tmp_path: Path, unix: socket.socket, path: str) -> None:
    world = plain_world(tmp_path / "home", SiteRule())
    answer = asked(world, unix, path, X_Fate_Flow_Peer="plain", SRC_PARTY_ID="10000")
    assert (answer.status_code, answer.text) == (404, f"'{path}': other parties have no such route")


def test_a_party_with_a_key_list_does_not_go_back_to_plain_v1(tmp_path: Path, unix: socket.socket) -> None:
    world = plain_world(tmp_path / "home", SiteRule())
    signed = signed_list("10000", 1, private_key(1))
    with world.store.transaction() as tx:
        tx.add_party_keys(PartyKeys("10000", 1, ROOT.public.key_id, signed, 1, KeyState.JOINED, "a client", 1))
    for source in ("10000", "010000"):
        answer = asked(world, unix, X_Fate_Flow_Peer="plain", SRC_PARTY_ID=source).get_json()
        assert (answer["retcode"], "knows party 10000 by its keys" in answer["retmsg"]) == (109, True)


def test_nobody_is_believed_by_a_name_where_nobody_is_named(world: World, unix: socket.socket) -> None:
    answer = asked(world, unix, X_Fate_Flow_Peer="plain", SRC_PARTY_ID="10000").get_json()
    assert (answer["retcode"], "does not list party 10000" in answer["retmsg"]) == (109, True)


# ---------------------------------------------------------------------- parties.behind_proxy


@pytest.mark.parametrize("site", [
    SiteRule(), SiteRule(is_on=True), SiteRule(is_on=True, unsigned_from=frozenset({"10000"})),
], ids=["unsigned", "signed", "unsigned_from"])  # fmt: skip
def test_behind_a_proxy_each_request_and_each_answer_is_signed(
    tmp_path: Path, unix: socket.socket, site: SiteRule
) -> None:
    (tmp_path / "home").mkdir()
    world, key, body = make_world(tmp_path / "home", site=site), private_key(1), b'{"jobs": []}'
    with world.store.transaction() as tx:
        tx.add_site_key(site_key("10000", key), 1)
    client, created = FlaskClient(world.app, world.app.response_class), int(time.time())

    def said(number: int, signer: PrivateKey, *, asks: bool, path: str = HEARTBEAT) -> TestResponse:
        covered = Covered("POST", path, digest_of(body), "10000", "9999")
        head = {
            "X-Fate-Flow-Peer": "proxy", "SRC-PARTY-ID": "10000", "DEST-PARTY-ID": "9999",
            **sign(signer, covered, created, str(number) * 24, asks=asks),
        }
        return client.post(path, data=body, headers=head, environ_overrides={"gunicorn.socket": unix})

    answer = said(1, key, asks=True)
    assert (answer.get_json()["retcode"], SIGNATURE in answer.headers) == (0, True)
    for number, signer, asks, why in (
        (1, key, True, "nonce"), (2, private_key(2), True, "keyid"), (3, key, False, "routes.9999.signed_answers"),
    ):
        refusal = said(number, signer, asks=asks).get_json()
        assert (refusal["retcode"], why in refusal["retmsg"]) == (109, True), refusal
    unsigned = asked(world, unix, X_Fate_Flow_Peer="proxy", SRC_PARTY_ID="10000", DEST_PARTY_ID="9999").get_json()
    assert (unsigned["retcode"], "requires signed requests of party 10000" in unsigned["retmsg"]) == (109, True)
    for path in (*PATHS_OF_CLIENTS, STRANGERS):
        assert said(4, key, asks=True, path=path).status_code == 404
