"""`POST /v1/key/...` with key lists: the newest one counts, and who was removed does not come back unnoticed."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import KeyState, SignedKeyList
from fate_flow.store.contract.party_keys import message_keys
from tests.kit.api.client_world import World
from tests.kit.key_lists import FINGERPRINT, ROOT, signed_list
from tests.kit.site_keys import private_key, site_key

OTHER_ROOT = private_key(102)
ONE, TWO = private_key(1), private_key(2)
FIRST, SECOND = signed_list("10000", 1, ONE), signed_list("10000", 2, TWO)


def save(world: World, signed: SignedKeyList, **more: Any) -> dict[str, Any]:
    return world.ask("key/public/save", {"party_id": "10000", "key": signed.text(), **more})


def keys_of(world: World, party_id: str = "10000", now: int = 1) -> list[str]:
    with world.store.transaction() as tx:
        return [key.key_id for key in message_keys(tx, party_id, now)]


def test_the_newest_list_has_the_keys(world: World) -> None:
    said = save(world, FIRST)
    assert (said["retcode"], said["data"], said["fingerprint"], said["number"]) == (0, "save success", FINGERPRINT, 1)
    assert keys_of(world) == [ONE.public.key_id]
    assert save(world, FIRST)["data"] == "update success"
    assert save(world, SECOND, fingerprint=FINGERPRINT.lower())["number"] == 2
    assert keys_of(world) == [TWO.public.key_id]
    shown = world.ask("key/query", {"party_id": "10000"})
    assert (shown["data"], shown["key_id"]) == (TWO.public.pem, TWO.public.key_id)
    assert (shown["fingerprint"], shown["number"]) == (FINGERPRINT, 2)
    assert world.record.lines == [
        f"key list {number} of party 10000 was saved; its root key: {FINGERPRINT}" for number in (1, 2)
    ]
    with world.store.transaction() as tx:
        assert [one.signed for one in tx.replaced_key_lists("10000")] == [FIRST]


@pytest.mark.parametrize(("signed", "more", "code", "text"), [
    (FIRST, {}, 100, "the list has number 1, and number 2 of party 10000 is here"),
    (signed_list("10000", 2, ONE), {}, 100, "two different lists with number 2"),
    (signed_list("10000", 3, ONE, root=OTHER_ROOT), {}, 100, "another root key than that of party 10000 here"),
    (signed_list("10001", 3, ONE), {}, 101, "10000 was given, and this is the key list of party 10001"),
    (signed_list("10000", 3, ONE), {"replaces": "a" * 64}, 101, "replaces: goes with a key in PEM only"),
    (signed_list("10000", 3, ONE), {"fingerprint": fingerprint_of(OTHER_ROOT.public.key_id)}, 101,
     f"the root key of this list has another one: {FINGERPRINT}"),
    (signed_list("10000", 3, ONE), {"fingerprint": "A" * 55}, 101, "is not a fingerprint"),
    (SignedKeyList(ROOT.public.pem, FIRST.content, SECOND.signature), {}, 101, "its root key has not signed it"),
])
def test_no_other_list_takes_its_place(
    world: World, signed: SignedKeyList, more: dict[str, str], code: int, text: str
) -> None:  # fmt: skip
    save(world, SECOND)
    said = save(world, signed, **more)
    assert said["retcode"] == code, said
    assert text in said["retmsg"]
    assert keys_of(world) == [TWO.public.key_id]


def test_a_list_takes_the_place_of_a_key_that_was_saved_alone(world: World) -> None:
    with world.store.transaction() as tx:
        tx.add_site_key(site_key("10000", ONE), 1)
    save(world, SECOND)
    assert keys_of(world) == [TWO.public.key_id]
    said = world.ask("key/public/save", {"party_id": "10000", "key": ONE.public.pem})
    assert (said["retcode"], "has a key list here (number 2, joined)" in said["retmsg"]) == (100, True)
    said = world.ask("key/public/save", {"party_id": "10000", "key": ONE.public.pem, "fingerprint": FINGERPRINT})
    assert (said["retcode"], "fingerprint: goes with a key list only" in said["retmsg"]) == (101, True)
    world.ask("key/public/delete", {"party_id": "10000"})
    assert keys_of(world) == [], "the key that was saved alone does not come back"


def test_who_was_removed_comes_back_only_with_a_compared_fingerprint(world: World) -> None:
    save(world, FIRST)
    assert world.ask("key/public/delete", {"party_id": "10000"})["retcode"] == 0
    assert (keys_of(world), world.ask("key/query", {"party_id": "10000"})["retcode"]) == ([], 101)
    assert world.ask("key/public/delete", {"party_id": "10000"})["retcode"] == 101
    said = save(world, SECOND)
    assert (said["retcode"], "party 10000 was removed here" in said["retmsg"]) == (100, True)
    other = signed_list("10000", 1, TWO, root=OTHER_ROOT)
    assert save(world, other, fingerprint=fingerprint_of(OTHER_ROOT.public.key_id))["retcode"] == 0
    assert keys_of(world) == [TWO.public.key_id]
    assert world.record.lines[1] == "key list 1 of party 10000 was deleted"


def test_keys_of_a_revoked_party_do_not_count(world: World) -> None:
    save(world, FIRST)
    with world.store.transaction() as tx:
        assert tx.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "ann", 5)
    assert keys_of(world) == []
    for key in (SECOND.text(), TWO.public.pem):
        said = world.ask("key/public/save", {"party_id": "10000", "key": key})
        assert (said["retcode"], "revoked" in said["retmsg"]) == (100, True)


def test_the_own_list_is_not_for_clients_to_save(world: World) -> None:
    said = world.ask("key/public/save", {"party_id": "9999", "key": signed_list("9999", 1, ONE).text()})
    assert (said["retcode"], "9999 is this party itself" in said["retmsg"]) == (100, True)
