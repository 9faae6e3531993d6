"""Requests to a party whose key list is stored go to the owner of its keys, and to nobody else."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import requests

from fate_flow.core.model.errors import UNREACHABLE, BadSettings, StorageFailed
from fate_flow.core.model.job import Answer
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.inquiry import Inquirer
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp, PeerResponse
from fate_flow.peers.pinned import PinnedParties
from fate_flow.peers.tls import LEAF_LIFE, OwnTls, PeerKey, peer_of, server_context
from tests.kit.peers.handshakes import DAY, NOW, TlsParty, hostile_context, make_certificate, ms, tls_party
from tests.kit.peers.tls_peer import TlsPeer
from tests.kit.tls import Authority
from tests.kit.values import HOST
from tests.kit.waiting import eventually

START = NOW + 730 * DAY           # all clocks are two years on
SECONDS = 60.0


@dataclass
class Here:
    """This party, 9999: its clock, its key, and what it has stored of others."""

    time: datetime = START
    keys: dict[str, tuple[PeerKey, ...]] = field(default_factory=dict)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.party = tls_party("9999", clock=self.clock)
        self.pinned = PinnedParties(self.own, self.keys_of, self.clock)
        self.http = PeerHttp(pinned=self.pinned)

    def clock(self) -> int:
        return ms(self.time)

    def own(self) -> OwnTls:
        return self.party.own

    def keys_of(self, party_id: str) -> tuple[PeerKey, ...] | None:
        if self.error is not None:
            raise self.error
        return self.keys.get(party_id)

    def post(self, peer: TlsPeer, to: str = "10000", ca_file: str = "", seconds: float = SECONDS) -> PeerResponse:
        return self.http.post(
            f"{peer.url}/v1/x", b"{}", headers("9999", to), seconds=seconds, most_bytes=1000, ca_file=ca_file
        )

    def refused(self, peer: TlsPeer, to: str = "10000") -> str:
        with pytest.raises(requests.RequestException) as error:
            self.post(peer, to)
        return describe_network_error(error.value)


@pytest.fixture
def here() -> Iterator[Here]:
    one = Here()
    yield one
    one.http.close()


@pytest.fixture
def there(here: Here) -> TlsParty:
    """Party 10000, whose key list is stored here."""
    one = tls_party("10000", clock=here.clock)
    here.keys["10000"] = (one.peer,)
    return one


@pytest.fixture
def peer(here: Here, there: TlsParty) -> Iterator[TlsPeer]:
    """The server of party 10000, which knows this party."""
    one = TlsPeer(server_context(there.own, [here.party.peer]))
    yield one
    one.close()


def test_both_sides_know_each_other_and_the_connection_is_kept(here: Here, there: TlsParty, peer: TlsPeer) -> None:
    for _ in range(3):
        assert here.post(peer).status == 200
    assert [peer_of(leaf, [here.party.peer], here.clock()).party_id for leaf in peer.shown] == ["9999"] * 3
    assert len(peer.clients) == 1


def test_questions_and_answers_go_the_same_way(here: Here, peer: TlsPeer) -> None:
    inquirer = Inquirer("9999", {"10000": peer.url}, SECONDS, pinned=here.pinned)
    assert inquirer.ask(HOST, "/x", {}) == Answer(data=1)
    here.keys["10000"] = ()
    refused = inquirer.ask(HOST, "/x", {})
    assert (refused.retcode, "no tls key of party 10000 is valid here" in refused.retmsg) == (UNREACHABLE, True)


def test_who_is_in_between_with_a_valid_key_of_another_party_gets_nothing(here: Here, peer: TlsPeer) -> None:
    other = tls_party("10001", clock=here.clock)
    here.keys["10001"] = (other.peer,)
    between = TlsPeer(server_context(other.own, [here.party.peer]))
    try:
        assert here.post(between, "10001").status == 200
        said = here.refused(between)
        assert "no TLS connection (its server shows no valid key of party 10000; " in said
        assert "routes.10000.ca)" in said
        assert len(between.asked) == 1
    finally:
        between.close()


def test_an_authority_does_not_vouch_for_a_party_with_keys(
    here: Here, peer: TlsPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that the whole system trusts, nor in place of the keys; where a route names one, it does."""
    authority = Authority(tmp_path)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(authority.file))
    monkeypatch.setattr("fate_flow.peers.peer_http.DEFAULT_CA_BUNDLE_PATH", str(authority.file))
    peer.context = authority.server_context()
    assert "shows no valid key of party 10000" in here.refused(peer)
    assert peer.asked == []
    assert here.post(peer, ca_file=str(authority.file)).status == 200
    del here.keys["10000"]
    assert here.post(peer).status == 200, "a party without a key list: as its authority says"


def test_another_key_is_used_as_soon_as_it_is_stored(here: Here, there: TlsParty, peer: TlsPeer) -> None:
    here.post(peer)
    after = tls_party("10000", clock=here.clock)
    here.keys["10000"] = (there.peer, after.peer)
    here.post(peer)
    peer.context = server_context(after.own, [here.party.peer])
    here.keys["10000"] = (after.peer,)
    assert here.post(peer).status == 200
    assert len(peer.clients) == 3, "no connection outlives the keys that it was made with"
    here.keys["10000"] = (there.peer,)
    assert "shows no valid key of party 10000" in here.refused(peer)


def test_without_a_valid_key_nothing_is_sent(here: Here, peer: TlsPeer) -> None:
    here.post(peer)
    here.keys["10000"] = ()
    assert "no tls key of party 10000 is valid here (flow key save --list)" in here.refused(peer)
    here.error = StorageFailed("the database is away")
    assert "the database is away" in here.refused(peer)
    assert len(peer.asked) == 1


def test_a_key_that_is_no_longer_valid_ends_the_connections_to_its_server(here: Here, peer: TlsPeer) -> None:
    other = tls_party("10001", clock=here.clock)
    here.keys["10001"] = (other.peer,)
    stays = TlsPeer(server_context(other.own, [here.party.peer]))
    try:
        assert (here.post(peer).status, here.post(stays, "10001").status) == (200, 200)
        here.keys["10000"] = ()
        eventually(lambda: peer.ended, "the end of the unused connection", SECONDS / 2)      # the peer would end it
        assert here.post(stays, "10001").status == 200
        assert (len(stays.clients), stays.ended) == (1, [])
    finally:
        stays.close()


def test_the_thread_that_looks_at_connections_says_when_it_begins_and_ends(here: Here, peer: TlsPeer) -> None:
    threads: list[str] = []

    @contextmanager
    def watching() -> Iterator[None]:
        threads.append(threading.current_thread().name)
        yield
        threads.append("end")

    here.http = PeerHttp(pinned=PinnedParties(here.own, here.keys_of, here.clock, watching=watching))
    assert (here.post(peer).status, here.post(peer).status) == (200, 200)
    eventually(lambda: threads == ["keys of connections"], lambda: threads)
    here.http.close()
    eventually(lambda: threads == ["keys of connections", "end"], lambda: threads)


@pytest.mark.parametrize("left", [(), None])
def test_a_key_that_is_no_longer_valid_ends_a_request_under_way(
    here: Here, peer: TlsPeer, left: tuple[PeerKey, ...] | None
) -> None:
    assert here.post(peer).status == 200           # so a connection is kept, and its request would be repeated
    go_on, said = threading.Event(), list[str]()
    peer.answers = lambda _: go_on.wait(SECONDS)
    asking = threading.Thread(target=lambda: said.append(here.refused(peer)), daemon=True)
    asking.start()
    eventually(lambda: len(peer.asked) == 2, "the request to be there")
    if left is None:
        del here.keys["10000"]
    else:
        here.keys["10000"] = left
    asking.join(SECONDS / 2)
    go_on.set()
    assert "TLS" in said[0]
    assert len(peer.asked) == 2, "it is not sent again"


def test_while_the_keys_cannot_be_read_connections_stay(here: Here, peer: TlsPeer) -> None:
    asked = threading.Semaphore(0)

    def fails(_: str) -> tuple[PeerKey, ...]:
        asked.release()
        raise StorageFailed("the database is away")

    assert here.post(peer).status == 200
    here.keys_of = fails  # type: ignore[method-assign]
    here.pinned._open._keys_of = fails
    assert asked.acquire(timeout=SECONDS)
    assert asked.acquire(timeout=SECONDS)
    assert peer.ended == []


def test_without_an_own_key_the_command_that_makes_it_is_named(here: Here, peer: TlsPeer) -> None:
    def own() -> OwnTls:
        raise BadSettings("tls.pem: there is no private key of this party: fate_flow key make -c CONF")

    here.http = PeerHttp(pinned=PinnedParties(own, here.keys_of, here.clock))
    assert "fate_flow key make" in here.refused(peer)
    assert peer.asked == []


def test_who_does_not_know_our_key_is_told_apart(here: Here, there: TlsParty, peer: TlsPeer) -> None:
    stranger = tls_party("10002", clock=here.clock)
    peer.context = server_context(there.own, [stranger.peer])
    said = here.refused(peer)
    # the refusal comes after the client's handshake: a request on its way may cut it off
    assert "our newest key list" in said or said == "connection lost"
    assert peer.asked == []


def test_a_leaf_outside_its_dates_names_the_clocks(here: Here, there: TlsParty, peer: TlsPeer) -> None:
    late = make_certificate(there.issuer, there.key, since=START - 40 * DAY, until=START - DAY)
    peer.context = hostile_context(ssl.PROTOCOL_TLS_SERVER, late.chain())
    assert "compare the clocks of both servers" in here.refused(peer)
    assert peer.asked == []


def test_the_own_leaf_is_renewed_at_half_of_its_life(here: Here, peer: TlsPeer) -> None:
    here.post(peer)
    here.time += LEAF_LIFE / 2 - timedelta(seconds=1)
    here.post(peer)
    here.time += timedelta(seconds=1)
    here.post(peer)
    assert (peer.shown[0] == peer.shown[1], peer.shown[1] == peer.shown[2]) == (True, False)
    assert peer_of(peer.shown[2], [here.party.peer], ms(here.time + LEAF_LIFE)).party_id == "9999"


def test_a_handshake_that_nobody_answers_ends_in_time(here: Here, there: TlsParty) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/v1/x"
        with pytest.raises(requests.RequestException) as error:
            here.http.post(url, b"{}", headers("9999", "10000"), seconds=0.5, most_bytes=1000)
    assert describe_network_error(error.value) in ("no answer in time", "no connection in time")
