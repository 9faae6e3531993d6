"""The keys that prove the answers of other parties are the stored ones, a second after a change at the latest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.peers.signature import SiteSignature
from fate_flow.server.answer_keys import StoredMessageKeys, expecting_answers
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore
from tests.kit.site_keys import private_key, site_key
from tests.kit.store.migrated_sqlite import migrated_sqlite

OLD, NEW = site_key("10000", private_key(1)), site_key("10000", private_key(2))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    one = SqlStore(migrated_sqlite(tmp_path))
    yield one
    one.close()


def test_a_change_counts_after_a_second(store: SqlStore) -> None:
    seconds = [5.0]
    keys = StoredMessageKeys(store, lambda: 1000, lambda: seconds[0])
    assert keys.of("10000") == ()
    with store.transaction() as tx:
        tx.add_site_key(OLD, 1)
    assert (keys.of("10000"), keys.of("10001")) == ((), ())
    seconds[0] += 1.0
    assert keys.of("10000") == (OLD,)
    with store.transaction() as tx:
        assert tx.replace_site_key(NEW, OLD.key_id, 2)
    seconds[0] += 0.5
    assert keys.of("10000") == (OLD,)
    seconds[0] += 0.5
    assert keys.of("10000") == (NEW,)


def test_while_the_database_is_away_the_last_known_keys_count(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [5.0]
    with store.transaction() as tx:
        tx.add_site_key(OLD, 1)
    keys = StoredMessageKeys(store, lambda: 1000, lambda: seconds[0])
    assert keys.of("10000") == (OLD,)

    def fail() -> None:
        raise StorageFailed("away")

    monkeypatch.setattr(store, "reading", fail)
    seconds[0] += 60.0
    assert keys.of("10000") == (OLD,)
    with pytest.raises(StorageFailed):
        keys.of("10001")


def test_only_where_a_route_requires_it_answers_are_checked(store: SqlStore, tmp_path: Path) -> None:
    signature = SiteSignature(private_key(3), lambda: 1000)
    plain = Settings("9999", tmp_path, routes={"10000": Route("http://ten")})
    strict = replace(plain, routes={"10000": Route("http://ten", signed_answers=True), "10001": Route("http://eleven")})
    assert expecting_answers(signature, plain, store) is signature
    assert expecting_answers(None, strict, store) is None
    expecting = expecting_answers(signature, strict, store)
    assert expecting is not None
    assert expecting.key is signature.key
    assert expecting._answers is not None
    assert [expecting._answers.is_asked(one) for one in ("10000", "10001")] == [True, False]
