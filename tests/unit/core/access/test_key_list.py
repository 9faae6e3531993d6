"""Key lists: their one form, and which list takes the place of which."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.access.key_list import (
    LONGEST_TEXT,
    MESSAGE,
    TLS,
    USES,
    KeyList,
    KeyState,
    ListedKey,
    PartyKeys,
    SignedKeyList,
    follows,
    read_key_list,
    read_signed_key_list,
)
from fate_flow.core.model.errors import BadRequest, Conflict

LIST = KeyList("10000", 3, 1000, (ListedKey(TLS, "T", 1), ListedKey(TLS, "U", 1, 50), ListedKey(MESSAGE, "M", 1)))
CHANGED: dict[str, tuple[str, Any, str]] = {
    "another version": ("version", 2, "version is not 1"),
    "no version": ("version", None, "version is not a whole number"),
    "no party": ("party_id", "x", "party_id: 'x' is not a party id"),
    "number 0": ("number", 0, "number is not a whole number from 1 on"),
    "a number that readers round": ("number", 2**53, "number is not a whole number"),
    "yes for a number": ("number", True, "number is not a whole number"),
    "text for a time": ("issued_at", "1", "issued_at is not a whole number"),
    "no keys": ("keys", [], "keys is not a list of 1 to 50 keys"),
    "keys that are none": ("keys", ["T"], r"keys\[0\] is not a JSON object"),
    "another use": ("keys", [{"use": "mail", "key": "T", "from": 1}], r"keys\[0\]: use 'mail' is not one of tls, "),
    "no key": ("keys", [{"use": "tls", "from": 1}], r"keys\[0\]: key is not text"),
    "more about a key": ("keys", [{"use": "tls", "key": "T", "from": 1, "x": 1}], r"keys\[0\]: 'x' is no key of it"),
    "more": ("more", 1, "'more' is no key of it"),
    "a root that is no text": ("next_root", 1, "next_root is not text"),
    "characters beyond ASCII": ("next_root", "\ud800", "next_root is not text in ASCII"),
}


def signed(key_list: KeyList, root: str = "ROOT") -> SignedKeyList:
    return SignedKeyList(root, key_list.content(), "c2ln")


def stored(key_list: KeyList = LIST, root: str = "ROOT", state: KeyState = KeyState.JOINED) -> PartyKeys:
    return PartyKeys("10000", key_list.number, "00", signed(key_list, root), 1, state, "", 1)


times = st.integers(0, 2**53 - 1)
listed = st.builds(ListedKey, st.sampled_from(USES), st.text("ab\n", min_size=1), times, st.none() | times)
lists = st.builds(
    KeyList, st.integers(0, 10**9).map(str), st.integers(1, 2**53 - 1), times,
    st.lists(listed, min_size=1, max_size=5).map(tuple), st.none() | st.text("ab", min_size=1),
)  # fmt: skip


@given(lists)
def test_a_list_is_read_as_it_was_written(key_list: KeyList) -> None:
    assert read_key_list(key_list.content()) == key_list
    assert read_signed_key_list(signed(key_list).text()) == signed(key_list)


@pytest.mark.parametrize("what", CHANGED)
def test_what_is_wrong_with_a_list_is_named(what: str) -> None:
    key, value, text = CHANGED[what]
    with pytest.raises(BadRequest, match=f"key list: {text}"):
        read_key_list(json.dumps({**json.loads(LIST.content()), key: value}))


@pytest.mark.parametrize("text", ["", "[]", "1.0", "{", '{"a": 1, "a": 1}', '{"a": 1.5}', '{"a": NaN}', "[" * 90_000])
def test_other_json_is_no_list(text: str) -> None:
    for read in (read_key_list, read_signed_key_list):
        with pytest.raises(BadRequest, match=r"key list: is not (a JSON object|JSON as a key list has it)"):
            read(text)


def test_a_long_text_is_not_read() -> None:
    with pytest.raises(BadRequest, match=f"more than {LONGEST_TEXT} characters"):
        read_signed_key_list(" " * (LONGEST_TEXT + 1))


@pytest.mark.parametrize(("change", "text"), [
    ({"signature": "!"}, "signature is not base64"), ({"signature": None}, "signature is not text"),
    ({"root_key": ""}, "root_key is not text"), ({"x": 1}, "'x' is no key of it"),
])
def test_what_is_wrong_with_a_file_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        read_signed_key_list(json.dumps({**json.loads(signed(LIST).text()), **change}))


def test_a_key_counts_until_its_time_is_over_or_its_party_is_revoked() -> None:
    assert (LIST.valid(TLS, 49), LIST.valid(TLS, 50), LIST.valid("record", 1)) == (("T", "U"), ("T",), ())
    assert (stored().valid(TLS, 49), stored().valid(MESSAGE, 50)) == (("T", "U"), ("M",))
    for state in (KeyState.REVOKED, KeyState.REMOVED):
        assert stored(state=state).valid(TLS, 1) == ()


def test_only_a_newer_list_of_the_same_root_follows() -> None:
    newer, older = replace(LIST, number=4), replace(LIST, number=2)
    assert follows(None, LIST, signed(LIST), False)
    assert follows(stored(), newer, signed(newer), False)
    assert not follows(stored(), LIST, signed(LIST), False)
    with pytest.raises(Conflict, match=r"number 2, and number 3 of party 10000 is here.* certify --number 4"):
        follows(stored(), older, signed(older), True)
    other = replace(LIST, issued_at=1001)
    with pytest.raises(Conflict, match=r"two different lists with number 3: .* certify --number 4"):
        follows(stored(), other, signed(other), True)
    with pytest.raises(Conflict, match="another root key than that of party 10000"):
        follows(stored(), newer, signed(newer, "OTHER"), True)


def test_an_announced_root_may_sign_the_next_list_and_then_no_other() -> None:
    announcing = replace(LIST, number=4, next_root="NEXT")
    newest = replace(LIST, number=5)
    assert follows(stored(announcing), newest, signed(newest, "NEXT"), False)
    assert follows(stored(announcing), newest, signed(newest, "ROOT"), False)
    same = replace(LIST, number=4)
    with pytest.raises(Conflict, match="two different lists with number 4"):
        follows(stored(announcing), same, signed(same, "NEXT"), False)
    last = replace(LIST, number=6)
    with pytest.raises(Conflict, match="another root key"):
        follows(stored(newest, "NEXT"), last, signed(last, "ROOT"), False)


def test_who_was_revoked_or_removed_does_not_come_back_unnoticed() -> None:
    newer = replace(LIST, number=4)
    for is_compared in (False, True):
        with pytest.raises(Conflict, match=r"was revoked here; .*flow key delete"):
            follows(stored(state=KeyState.REVOKED), newer, signed(newer), is_compared)
    removed = stored(state=KeyState.REMOVED)
    with pytest.raises(Conflict, match=r"was removed here; .*--fingerprint"):
        follows(removed, newer, signed(newer), False)
    assert follows(removed, newer, signed(newer, "OTHER"), True)
