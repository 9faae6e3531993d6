"""The keys that prove the answers of other parties are the stored ones, a second after a change at the latest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.access.site import SiteKey, SiteRule
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.signature import INPUT, SIGNATURE, SiteSignature, digest_of
from fate_flow.peers.signed_answers import CoveredAnswer, NotProved, sign_answer
from fate_flow.peers.site_key import PrivateKey
from fate_flow.server.other_parties.answer_keys import expecting_answers
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore
from tests.kit.key_lists import ROOT, signed_list
from tests.kit.site_keys import private_key, site_key
from tests.kit.store.migrated_sqlite import migrated_sqlite

OURS, OLD, NEW = private_key(3), private_key(1), private_key(2)
ROUTES = {"10000": Route("http://ten", signed_answers=True), "10001": Route("http://127.0.0.1:1")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    one = SqlStore(migrated_sqlite(tmp_path))
    yield one
    one.close()


class Asking:
    """A server that asks party 10000, at a time that the test sets."""

    def __init__(self, store: SqlStore, home: Path) -> None:
        self.seconds = 5.0
        settings = Settings("9999", home, routes=ROUTES)
        found = expecting_answers(SiteSignature(OURS, lambda: 1000), settings, store, lambda: self.seconds)
        assert found is not None
        self.signature = found

    def believes(self, key: PrivateKey, by: str = "10000") -> bool:
        """Whether an answer that is signed with this key counts."""
        asked = self.signature.fields("POST", "/v1/party/heartbeat", headers("9999", by), b"{}")
        covered = CoveredAnswer(200, digest_of(b"{}"), by, asked[INPUT], asked[SIGNATURE])
        try:
            self.signature.check_answer(by, asked, 200, sign_answer(key, covered), b"{}")
        except NotProved:
            return False
        return True


def saved(key: PrivateKey) -> SiteKey:
    return site_key("10000", key)


def test_a_change_of_keys_counts_after_a_second(store: SqlStore, tmp_path: Path) -> None:
    asking = Asking(store, tmp_path)
    assert not asking.believes(OLD)
    with store.transaction() as tx:
        tx.add_site_key(saved(OLD), 1)
    assert not asking.believes(OLD), "read less than a second ago"
    asking.seconds += 1.0
    assert asking.believes(OLD)
    with store.transaction() as tx:
        assert tx.replace_site_key(saved(NEW), OLD.public.key_id, 2)
    asking.seconds += 1.0
    assert (asking.believes(OLD), asking.believes(NEW)) == (False, True)
    with store.transaction() as tx:
        assert tx.drop_site_key("10000")
    asking.seconds += 1.0
    assert not asking.believes(NEW)


def test_no_answer_of_the_own_machine_has_to_be_signed(store: SqlStore, tmp_path: Path) -> None:
    assert Asking(store, tmp_path).believes(NEW, by="10001")
    signature, settings = SiteSignature(OURS, lambda: 1000), Settings("9999", tmp_path, routes=ROUTES)
    assert expecting_answers(None, settings, store) is None
    plain = Settings("9999", tmp_path, routes={"10001": ROUTES["10001"]})
    assert expecting_answers(signature, plain, store) is signature


@pytest.mark.parametrize(("route", "rule", "is_listed", "is_asked"), [
    (Route("http://ten"), SiteRule(True), False, True),
    (Route("http://ten"), SiteRule(True), True, True),
    (Route("https://ten", "ca.pem"), SiteRule(True), True, True),
    (Route("https://ten"), SiteRule(True), False, True),
    (Route("https://ten"), SiteRule(True), True, False),
    (Route("https://ten", signed_answers=True), SiteRule(True), True, True),
    (Route("https://127.0.0.1:1"), SiteRule(True), False, False),
    (Route("dialed://10000"), SiteRule(True), False, False),
    (Route("http://ten", signed_answers=False), SiteRule(True), True, False),
    (Route("http://ten"), SiteRule(True, unsigned_from=frozenset({"10000"})), False, False),
    (Route("http://ten"), SiteRule(True, plain_from=frozenset({"10000"})), False, False),
])  # fmt: skip
def test_answers_have_to_be_signed_unless_a_key_ends_the_connection_or_the_configuration_excepts_the_party(
    store: SqlStore, tmp_path: Path, route: Route, rule: SiteRule, is_listed: bool, is_asked: bool
) -> None:
    if is_listed:
        with store.transaction() as tx:
            signed = signed_list("10000", 1, NEW)
            assert tx.add_party_keys(PartyKeys("10000", 1, ROOT.public.key_id, signed, 1, KeyState.JOINED, "ann", 1))
    signature = SiteSignature(OURS, lambda: 1000)
    found = expecting_answers(signature, Settings("9999", tmp_path, routes={"10000": route}, site=rule), store)
    assert found is not None
    asked = found.fields("POST", "/v1/x", headers("9999", "10000"), b"{}")
    assert ('tag="fate_flow-request"' in asked[INPUT]) == is_asked
