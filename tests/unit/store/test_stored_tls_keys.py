"""The tls keys that a server accepts of others are those of the stored lists, a second after a change at the latest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.access.key_list import TLS, KeyState, PartyKeys
from fate_flow.core.model.errors import BadSettings, StorageFailed
from fate_flow.peers.tls import NotAPeer
from fate_flow.server.peer_tls import StoredTlsKeys, pinned_parties
from fate_flow.server.runtime import prepare_home
from fate_flow.settings.settings import Settings
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore
from tests.kit.key_lists import ROOT, listed, signed_list
from tests.kit.peers.handshakes import public_pem, tls_party
from tests.kit.site_keys import private_key, site_key

OLD, NEW = tls_party("10000"), tls_party("10000", ecdsa=True)
NOW = 1000


class Keys:
    """The keys as they are seen here, at a time that the test sets."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.now, self.seconds = NOW, 5.0
        self.stored = StoredTlsKeys(store, lambda: self.now, lambda: self.seconds)

    def __call__(self, party_id: str = "10000") -> list[str] | None:
        found = self.stored.of(party_id)
        return None if found is None else [key.pem for key in found]

    def later(self) -> list[str] | None:
        self.seconds += 1.0
        return self()


def keys_of(number: int) -> PartyKeys:
    tls = [listed(TLS, public_pem(OLD.key), NOW + 1), listed(TLS, public_pem(NEW.key))]
    signed = signed_list("10000", number, keys=tuple(tls[number - 1 :]))
    return PartyKeys("10000", number, ROOT.public.key_id, signed, 1, KeyState.JOINED, "ann", 1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings("9999", tmp_path / "home", log_dir=tmp_path / "logs")
    prepare_home(found)
    return found


@pytest.fixture
def store(settings: Settings) -> Iterator[SqlStore]:
    database = open_database(settings.database_url, settings.home)
    upgrade(database)
    one = SqlStore(database, lambda *_: None)
    one.close()
    yield one
    one.close()


def test_keys_are_those_of_the_newest_list_until_their_time_is_over(store: SqlStore) -> None:
    keys = Keys(store)
    assert keys() is None
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(1))
    assert keys() is None, "read less than a second ago"
    assert keys.later() == [public_pem(OLD.key), public_pem(NEW.key)]
    keys.now = NOW + 1
    assert keys() == [public_pem(NEW.key)]
    keys.now = NOW
    with store.transaction() as tx:
        tx.replace_party_keys(keys_of(2), keys_of(1))
    assert (keys.later(), keys("10001")) == ([public_pem(NEW.key)], None)


@pytest.mark.parametrize("state", [KeyState.REVOKED, KeyState.REMOVED])
def test_no_key_of_a_party_counts_that_was_revoked_or_removed(store: SqlStore, state: KeyState) -> None:
    """And there is no other way to recognise it: its server is not reached over an authority's certificate instead."""
    with store.transaction() as tx:
        tx.add_party_keys(replace(keys_of(1), state=state))
    assert Keys(store)() == []


def test_a_removed_party_that_came_back_with_a_message_key_alone_is_recognised_without_a_list(store: SqlStore) -> None:
    with store.transaction() as tx:
        tx.add_party_keys(replace(keys_of(1), state=KeyState.REMOVED))
        tx.add_site_key(site_key("10000", private_key(1)), 1)
    assert Keys(store)() is None


def test_the_connection_of_a_thread_that_only_sends_is_closed(store: SqlStore) -> None:
    keys = Keys(store)
    store.close()
    keys.later()
    assert store.database.is_closed()
    store.database.connect()
    keys.later()
    assert not store.database.is_closed()


def test_a_thread_that_asks_often_keeps_its_connection_until_it_ends(store: SqlStore) -> None:
    keys = Keys(store)
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(1))
    store.close()
    with store.kept_connection():
        keys.later()
        kept = store.database.connection()
        with store.transaction() as tx:
            tx.replace_party_keys(keys_of(2), keys_of(1))
        assert keys.later() == [public_pem(NEW.key)], "the kept connection sees what was committed since"
        assert store.database.connection() is kept
    assert store.database.is_closed()
    keys.later()
    assert store.database.is_closed()


def test_while_the_database_is_away_the_last_known_keys_count(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(2))
    keys, never_read = Keys(store), Keys(store)
    assert keys() == [public_pem(NEW.key)]

    def fail() -> None:
        raise StorageFailed("away")

    monkeypatch.setattr(store, "reading", fail)
    assert keys.later() == [public_pem(NEW.key)]
    with pytest.raises(StorageFailed, match="away"):
        never_read()


def test_without_an_own_key_no_pinned_connection_is_made(settings: Settings, store: SqlStore) -> None:
    pinned = pinned_parties(settings, store)
    assert pinned.of("10000") is None, "a party without a key list needs none"
    with store.transaction() as tx:
        tx.add_party_keys(keys_of(2))
    with pytest.raises(NotAPeer, match="fate_flow key make") as error:
        pinned_parties(settings, store).of("10000")
    assert isinstance(error.value.__cause__, BadSettings)
