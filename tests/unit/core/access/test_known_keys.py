"""Old keys of a party stay known, with the time for which its lists here had them."""

from __future__ import annotations

from fate_flow.core.access.key_list import MESSAGE, TLS, KeyState, PartyKeys, ReplacedKeyList, SignedKeyList, key_id_of
from fate_flow.core.access.known_keys import known_keys
from tests.kit.key_lists import ROOT, listed, signed_list
from tests.kit.peers.handshakes import public_pem, tls_party
from tests.kit.site_keys import private_key

OLD, NEW, OTHER_ROOT = private_key(1), private_key(2), private_key(102)
TLS_PEM = public_pem(tls_party("10000").key)


def newest(signed: SignedKeyList, received_at: int) -> PartyKeys:
    return PartyKeys("10000", 1, ROOT.public.key_id, signed, received_at, KeyState.JOINED, "ann", 1)


def seen(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["use"], row["key_id"], row["until"], row["listed_from"], row["listed_until"]) for row in rows]


def test_each_key_has_the_time_of_all_lists_that_had_it() -> None:
    tls, old, new = listed(TLS, TLS_PEM), listed(MESSAGE, OLD.public.pem), listed(MESSAGE, NEW.public.pem)
    ending = listed(MESSAGE, OLD.public.pem, 900)
    lists = [
        ReplacedKeyList(signed_list("10000", 1, keys=(tls, old)), 100, 200),
        ReplacedKeyList(signed_list("10000", 2, keys=(tls, ending, new)), 200, 300),
    ]
    found = known_keys(newest(signed_list("10000", 3, keys=(tls, new), root=OTHER_ROOT), 300), lists)
    assert seen(found) == [
        ("root", ROOT.public.key_id, None, 100, 300), ("tls", key_id_of(TLS_PEM), None, 100, None),
        ("message", OLD.public.key_id, 900, 100, 300), ("message", NEW.public.key_id, None, 200, None),
        ("root", OTHER_ROOT.public.key_id, None, 300, None),
    ]  # fmt: skip
    assert [row["from"] for row in found] == [1] * 5


def test_a_party_with_one_list_has_its_keys_alone() -> None:
    found = known_keys(newest(signed_list("10000", 1, OLD), 100), ())
    assert seen(found) == [
        ("root", ROOT.public.key_id, None, 100, None), ("message", OLD.public.key_id, None, 100, None)
    ]  # fmt: skip


def test_a_key_that_was_away_has_two_times() -> None:
    lists = [
        ReplacedKeyList(signed_list("10000", number, key), number * 100, number * 100 + 100)
        for number, key in ((1, OLD), (2, NEW))
    ]
    found = known_keys(newest(signed_list("10000", 3, OLD), 300), lists)
    assert seen(found)[1:] == [
        ("message", OLD.public.key_id, None, 100, 200), ("message", NEW.public.key_id, None, 200, 300),
        ("message", OLD.public.key_id, None, 300, None),
    ]  # fmt: skip
