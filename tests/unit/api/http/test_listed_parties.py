"""Parties that have a key list here: on the port of clients they sign, whatever `authentication.site` says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from fate_flow.api import app as public
from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.access.site import SiteRule
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.site_key import PrivateKey
from tests.kit.api.client_world import World, make_world
from tests.kit.key_lists import ROOT, signed_list
from tests.kit.site_keys import write_private_key

NOW = 1_700_000_000_000
HEARTBEAT, BODY = "/v1/party/heartbeat", b'{"jobs": []}'

Head = dict[str, str]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "now_on_the_wall", lambda: NOW)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    """The message key of party 10000."""
    return write_private_key(tmp_path / "10000.pem", 1)


def signed(key: PrivateKey) -> Head:
    """The headers of a heartbeat as the server of party 10000 sends it."""
    head = headers("10000", "9999")
    return head | SiteSignature(key, lambda: NOW).fields("POST", HEARTBEAT, head, BODY)


def post(world: World, head: Mapping[str, str]) -> TestResponse:
    return world.client.post(HEARTBEAT, data=BODY, headers=dict(head))


def refusal(response: TestResponse) -> str:
    said = response.get_json()
    assert (response.status_code, said["retcode"]) == (200, 109), said
    return str(said["retmsg"])


def with_list(world: World, key: PrivateKey, state: KeyState = KeyState.JOINED) -> World:
    """Save a key list of party 10000, with this message key."""
    signed_now = signed_list("10000", 1, key)
    with world.store.transaction() as tx:
        tx.add_party_keys(PartyKeys("10000", 1, ROOT.public.key_id, signed_now, NOW, state, "a client", NOW))
    return world


@pytest.mark.parametrize("rule", [SiteRule(), SiteRule(unsigned_from=frozenset({"10000"})),
                                  SiteRule(is_on=True, unsigned_from=frozenset({"10000"}))])
def test_a_party_with_a_key_list_is_not_believed_by_its_name(
    home: Path, key: PrivateKey, rule: SiteRule
) -> None:
    world = with_list(make_world(home, site=rule), key)
    for name in ("10000", "010000", " 10000"):
        response = post(world, {"src-party-id": name})
        said = response.get_json()
        assert said["retcode"] != 0, name
        assert name.strip() != name or "requires signed requests of party 10000 (" in refusal(response)
    assert post(world, signed(key)).get_json()["retcode"] == 0
    assert "nonce" in refusal(post(world, signed_twice(world, key)))
    if not rule.is_on:
        assert post(world, {"src-party-id": "10001"}).get_json()["retcode"] == 0, "as before: it has no key list"


def signed_twice(world: World, key: PrivateKey) -> Head:
    """The headers of a request that was accepted already."""
    head = signed(key)
    assert post(world, head).get_json()["retcode"] == 0
    return head


@pytest.mark.parametrize("state", [KeyState.REMOVED, KeyState.REVOKED])
def test_a_party_whose_key_list_was_removed_does_not_become_one_that_is_believed(
    home: Path, key: PrivateKey, state: KeyState
) -> None:
    world = with_list(make_world(home), key, state)
    assert "requires signed requests" in refusal(post(world, {"src-party-id": "10000"}))
    assert "has no public key of party 10000" in refusal(post(world, signed(key)))


def test_a_list_that_is_saved_counts_within_a_second(
    home: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    monkeypatch.setattr(public, "steady_now", lambda: passed[0])
    world = make_world(home)
    assert post(world, {"src-party-id": "10000"}).get_json()["retcode"] == 0
    with_list(world, key)
    passed[0] += 1.0
    assert "requires signed requests" in refusal(post(world, {"src-party-id": "10000"}))
