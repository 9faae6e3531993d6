"""The peers of the gateway are the tls keys that count now on the key lists of other parties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.access.key_list import TLS, KeyState, PartyKeys
from fate_flow.gateway.peers import Peers
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.key_lists import sign_key_list
from fate_flow.server.stored_peers import StoredPeers
from fate_flow.store.sql.store import SqlStore
from tests.kit.key_lists import ROOT, key_list, listed
from tests.kit.peers.handshakes import TlsParty, public_pem, tls_party
from tests.kit.site_keys import private_key
from tests.kit.store.migrated_sqlite import migrated_sqlite

NOW = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    found = SqlStore(migrated_sqlite(tmp_path))
    yield found
    found.close()


@pytest.fixture
def now() -> list[int]:
    return [NOW]


@pytest.fixture
def source(store: SqlStore, now: list[int]) -> StoredPeers:
    return StoredPeers(store, "9999", lambda: now[0])


def keys_of(party: TlsParty, until: int | None = None) -> PartyKeys:
    found = key_list(party.party_id, 1, private_key(1))
    found = replace(found, keys=(*found.keys, listed(TLS, public_pem(party.key), until)))
    return PartyKeys(party.party_id, 1, ROOT.public.key_id, sign_key_list(ROOT, found), 1, KeyState.JOINED, "ann", 1)


def test_a_party_is_a_peer_while_it_is_joined(store: SqlStore, source: StoredPeers) -> None:
    nobody = source.read(Peers())
    assert nobody == Peers()
    assert source.read(nobody) is nobody
    party = tls_party("10000")
    with store.transaction() as tx:
        assert tx.add_party_keys(keys_of(party))
    joined = source.read(nobody)
    assert joined == Peers(1, (party.peer,))
    assert source.read(joined) is joined
    with store.transaction() as tx:
        assert tx.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "ann", 2)
    assert source.read(joined) == Peers(2, ())


def test_a_key_is_one_until_its_time_is_over(store: SqlStore, source: StoredPeers, now: list[int]) -> None:
    party = tls_party("10000", ecdsa=True)
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(party, until=NOW + 1))
    found = source.read(Peers())
    assert found.keys == (party.peer,)
    now[0] += 1
    assert source.read(found) == Peers(2, ())


def test_the_own_party_is_no_peer(store: SqlStore, source: StoredPeers) -> None:
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(tls_party("9999")))
    assert source.read(Peers()) == Peers()


def test_a_key_that_cannot_be_used_locks_nobody_else_out(
    store: SqlStore, source: StoredPeers, caplog: pytest.LogCaptureFixture
) -> None:
    good, wrong = tls_party("10000"), key_list("10001", 1, private_key(1))
    wrong = replace(wrong, keys=(*wrong.keys, listed(TLS, "no key")))
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(good))
        tx.add_party_keys(replace(keys_of(tls_party("10001")), signed=sign_key_list(ROOT, wrong)))
    found = source.read(Peers())
    assert found.keys == (good.peer,)
    assert "a tls key of party 10001 cannot be used: it is not a public key in PEM" in caplog.text
    caplog.clear()
    assert source.read(found) is found
    assert caplog.text == ""


def test_invitations_that_cannot_be_read_hide_no_change_of_keys(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, party = tmp_path / "invitations", tls_party("10000")
    folder.write_text("no folder")
    source = StoredPeers(store, "9999", lambda: NOW, Invitations(folder, lambda: NOW).are_open)
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(party))
    joined = source.read(Peers())
    assert (joined.keys, joined.may_join) == ((party.peer,), False)
    with store.transaction() as tx:
        tx.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "ann", 2)
    assert source.read(joined).keys == ()
    assert caplog.text.count("nobody can join: cannot read") == 1, "it is said once, not twice a second"
    folder.unlink()
    source.read(joined)
    folder.write_text("no folder")
    source.read(joined)
    assert caplog.text.count("nobody can join: cannot read") == 2
