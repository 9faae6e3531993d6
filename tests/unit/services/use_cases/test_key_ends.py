"""Operators hear of keys that end before jobs stop for lack of one."""

from __future__ import annotations

import logging

import pytest

from fate_flow.core.access.key_ends import SOON_MS, ending_soon
from fate_flow.core.access.key_list import MESSAGE, RECORD, TLS, KeyList, KeyState, ListedKey, PartyKeys
from fate_flow.core.model.errors import BadSettings, StorageUnavailable
from fate_flow.peers.key_lists import sign_key_list
from fate_flow.server.periodic.key_watch import KeyWatch
from fate_flow.services.use_cases.joining import described_parties
from fate_flow.services.use_cases.key_ends import key_warnings
from tests.kit.key_lists import ROOT
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import a_host

DAY = 24 * 3600 * 1000
PEM = ROOT.public.pem


def a_list(party_id: str, *keys: tuple[str, int | None]) -> KeyList:
    return KeyList(party_id, 1, 1, tuple(ListedKey(use, PEM, 1, until) for use, until in keys))


@pytest.mark.parametrize(("keys", "ends"), [
    ((), []),
    (((TLS, None), (MESSAGE, None)), []),
    (((TLS, 100 * DAY),), ["tls"]),
    (((TLS, 100 * DAY + SOON_MS),), ["tls"]),
    (((TLS, 101 * DAY + SOON_MS),), []),
    (((TLS, 100 * DAY), (TLS, None)), []),
    (((TLS, 100 * DAY), (TLS, 200 * DAY)), []),
    (((TLS, 50 * DAY), (MESSAGE, 101 * DAY)), ["tls", "message"]),
    (((RECORD, 100 * DAY),), []),
])  # fmt: skip
def test_a_use_whose_last_key_ends_soon_is_named(keys: tuple[tuple[str, int | None], ...], ends: list[str]) -> None:
    found = list(ending_soon(a_list("10000", *keys), "9999", 100 * DAY))
    assert [text.split()[2] for text in found] == ends


def test_a_warning_says_whose_key_it_is_and_what_to_do() -> None:
    [of_other] = ending_soon(a_list("10000", (TLS, 110 * DAY + DAY // 2)), "9999", 100 * DAY)
    assert of_other.startswith("the last tls key of party 10000 ends in 10 days; without one, jobs with other parties")
    assert of_other.endswith("ask the operators of party 10000 for a newer key list")
    [of_own] = ending_soon(a_list("9999", (MESSAGE, 90 * DAY)), "9999", 100 * DAY)
    assert of_own.startswith("the last message key of this party has ended; ")
    [today] = ending_soon(a_list("9999", (MESSAGE, 100 * DAY + 1)), "9999", 100 * DAY)
    assert today.startswith("the last message key of this party ends within a day; ")
    assert of_own.endswith("make the next one (fate_flow key announce --use message)")


def with_ending_key(server: HandServer, party_id: str, state: KeyState = KeyState.JOINED) -> None:
    signed = sign_key_list(ROOT, a_list(party_id, (TLS, server.context.clock() + DAY)))
    with server.store.transaction() as tx:
        assert tx.add_party_keys(PartyKeys(party_id, 1, ROOT.public.key_id, signed, 1, state, "ann", 1))


def test_parties_whose_keys_do_not_count_are_left_out() -> None:
    host = a_host()
    with_ending_key(host, "9999")
    with_ending_key(host, "10001", KeyState.REVOKED)
    own = a_list("10000", (MESSAGE, host.context.clock() + DAY))
    assert [text.split(" ends ")[0] for text in key_warnings(host.context, lambda: own)] == [
        "the last message key of this party", "the last tls key of party 9999",
    ]
    shown = described_parties(host.context)
    assert [len(shown[one]["warnings"]) for one in ("9999", "10001")] == [1, 0]


def test_a_list_that_cannot_be_read_is_named() -> None:
    def broken() -> KeyList | None:
        raise BadSettings("list.json: is no key list")

    assert key_warnings(a_host().context, broken) == [
        "the key list of this party cannot be read: list.json: is no key list"
    ]


def test_the_log_has_each_warning_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    host, seconds = a_host(), [0.0]
    with_ending_key(host, "9999")
    watch = KeyWatch(host.context, lambda: None, lambda: seconds[0])
    with caplog.at_level(logging.WARNING):
        for now, lines in ((0.0, 1), (60.0, 1), (86_399.0, 1), (86_400.0, 2), (86_460.0, 2)):
            seconds[0] = now
            watch.look()
            assert len(caplog.messages) == lines, now
    assert caplog.messages[0].startswith("the last tls key of party 9999 ends in 1 day; ")


def test_a_database_that_is_away_is_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer that looks would log a traceback."""
    host = a_host()

    def away() -> None:
        raise StorageUnavailable("locked")

    monkeypatch.setattr(host.store, "reading", away)
    KeyWatch(host.context, lambda: None, lambda: 0.0).look()
    assert caplog.messages[-1] == "which keys end soon cannot be read: locked"
