"""Newer key lists are fetched from their party, and nothing that its root key has not signed takes their place."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.core.access.key_list import KeyState, PartyKeys, SignedKeyList
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.server.periodic.list_fetcher import MOST_A_DAY, ListFetcher
from tests.kit.key_lists import ROOT, signed_list
from tests.kit.services.hand_server import HandServer
from tests.kit.site_keys import private_key

FIRST, SECOND = (signed_list("10000", number, private_key(number)) for number in (1, 2))


class Fetched:
    """A server that has saved the first list of party 10000, which answers what a test says."""

    def __init__(self, answer: Answer | None = None, state: KeyState = KeyState.JOINED) -> None:
        self.server = HandServer()
        self.asked: list[tuple[Party, str]] = []
        self.answer = answer or Answer(data={"key_list": SECOND.text()})
        with self.server.store.transaction() as tx:
            tx.add_party_keys(PartyKeys("10000", 1, ROOT.public.key_id, FIRST, 1, state, "ann", 1))
        ListFetcher(self.server.context, self.ask, lambda: True, lambda: None).look()

    def ask(self, to: Party, endpoint: str, _: Mapping[str, Any]) -> Answer:
        self.asked.append((to, endpoint))
        return self.answer

    @property
    def saved(self) -> SignedKeyList:
        with self.server.store.reading() as tx:
            keys = tx.party_keys("10000")
        assert keys is not None
        return keys.signed


def test_a_newer_list_is_saved() -> None:
    found = Fetched()
    assert found.asked == [(Party("host", "10000"), "/party/keys")]
    assert found.saved == SECOND
    with found.server.store.reading() as tx:
        keys = tx.party_keys("10000")
        assert [one.signed for one in tx.replaced_key_lists("10000")] == [FIRST]
    assert keys is not None
    assert (keys.number, keys.state_by) == (2, "ann")


@pytest.mark.parametrize("state", [KeyState.REVOKED, KeyState.REMOVED])
def test_a_party_whose_keys_do_not_count_is_not_asked(state: KeyState) -> None:
    found = Fetched(state=state)
    assert (found.asked, found.saved) == ([], FIRST)


@pytest.mark.parametrize("data", [
    None, [], {}, {"key_list": 1}, {"key_list": FIRST.text()}, {"key_list": "x"}, {"key_list": "{}"},
    {"key_list": signed_list("10001", 2, private_key(2)).text()},
    {"key_list": signed_list("10000", 2, private_key(2), root=private_key(103)).text()},
    {"key_list": SignedKeyList(SECOND.root_key, SECOND.content, FIRST.signature).text()},
    {"key_list": signed_list("10000", 1, private_key(3)).text()},
])  # fmt: skip
def test_nothing_else_takes_its_place(data: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert Fetched(Answer(data=data)).saved == FIRST
    is_list = isinstance(data, dict) and isinstance(data.get("key_list"), str) and data["key_list"] != FIRST.text()
    assert bool(caplog.records) is is_list


def test_a_party_that_does_not_answer_is_left_alone() -> None:
    assert Fetched(Answer(UNREACHABLE, "no answer in time")).saved == FIRST


def test_a_party_that_changes_its_list_all_the_time_has_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    found = Fetched()
    server = found.server
    server.now += 1                          # the first list was replaced before the others
    fetcher = ListFetcher(server.context, found.ask, lambda: True, lambda: None)
    lists = {number: signed_list("10000", number, private_key(number % 2)) for number in range(3, MOST_A_DAY + 4)}
    for listed in lists.values():
        found.answer = Answer(data={"key_list": listed.text()})
        fetcher.look()
    assert found.saved == lists[MOST_A_DAY + 1]
    assert "the key list 15 that party 10000 has sent is not saved yet" in caplog.messages[-1]
    server.now += 24 * 3600 * 1000 - 1
    fetcher.look()
    assert found.saved == lists[MOST_A_DAY + 3], "the first one has been replaced for a day"
