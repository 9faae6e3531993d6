"""The check after joining asks the other party as the server would: by its route, and signed if the server signs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.access.site import SiteRule
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.signature import INPUT
from fate_flow.server.reach import named_problem, reach
from fate_flow.server.runtime import prepare_home
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore
from tests.kit.key_lists import ROOT, signed_list
from tests.kit.peers.handshakes import tls_party
from tests.kit.peers.peer_server import Peer
from tests.kit.peers.tls_peer import TlsPeer
from tests.kit.site_keys import private_key
from tests.kit.store.migrated_sqlite import migrated_sqlite
from tests.kit.tls import Authority


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings("9999", tmp_path / "home", log_dir=tmp_path / "logs")
    prepare_home(found)
    OwnKeys("9999", found.keys_dir, found.private_key, lambda: time.time_ns() // 1_000_000).make()
    return found


@pytest.fixture
def store(settings: Settings) -> Iterator[SqlStore]:
    found = SqlStore(migrated_sqlite(settings.home))
    yield found
    found.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    found = Peer()
    yield found
    found.close()


@pytest.mark.parametrize("is_on", [True, False])
def test_it_signs_like_the_server_and_wants_signed_answers(
    settings: Settings, store: SqlStore, peer: Peer, is_on: bool
) -> None:
    route = Route(f"http://127.0.0.1:{peer.port}", signed_answers=is_on)
    found = reach(replace(settings, site=SiteRule(is_on=is_on), routes={"10000": route}), store, "10000", 0.0)
    [(_, _, head)] = peer.asked
    assert (INPUT in head) is is_on
    assert found.url == route.url
    assert found.there.partition(" (")[0] == (
        "key: its answer is not signed, as routes.10000.signed_answers requires" if is_on else ""
    )


def test_an_authority_of_the_route_vouches_for_its_server(settings: Settings, store: SqlStore, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = TlsPeer(authority.server_context())
    try:
        by_authority = replace(settings, routes={"10000": Route(server.url, str(authority.file))})
        found = reach(by_authority, store, "10000", 0.0)
    finally:
        server.close()
    assert (found.there, len(server.asked)) == ("", 1)


@pytest.mark.parametrize(("text", "named"), [
    ("not authenticated: expires: is 90 s before the time of party 10000: correct the clocks", "clock"),
    ("not authenticated: nonce: a request with this nonce was already accepted", "key"),
    ("connection refused", "port"),
])  # fmt: skip
def test_a_problem_begins_with_what_has_to_be_corrected(text: str, named: str) -> None:
    assert named_problem(text) == f"{named}: {text}"


def test_a_party_that_was_removed_meanwhile_is_not_asked(settings: Settings, store: SqlStore, peer: Peer) -> None:
    signed = signed_list("10000", 1, private_key(1), tls=tls_party("10000"))
    keys = PartyKeys("10000", 1, ROOT.public.key_id, signed, 1, KeyState.REMOVED, "ann", 1)
    with store.transaction() as tx:
        tx.add_party_keys(keys)
    by_https = replace(settings, routes={"10000": Route(f"https://127.0.0.1:{peer.port}")})
    assert "no tls key of party 10000 is valid here" in reach(by_https, store, "10000", 0.0).there
    assert reach(settings, store, "10000", 0.0).there == "port: party 10000 has no route here any more"
    assert peer.asked == []
