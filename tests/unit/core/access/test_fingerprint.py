"""Fingerprints: mistakes of people who read them out are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.access.fingerprint import fingerprint_of, read_fingerprint
from fate_flow.core.model.errors import BadRequest

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
key_ids = st.binary(min_size=32, max_size=32).map(bytes.hex)


def test_a_fingerprint_has_eight_groups_of_seven() -> None:
    shown = fingerprint_of("00" * 31 + "01")
    assert shown == "AAAAAAA-AAAAAAA-AAAAAAA-AAAAAAA-AAAAAAA-AAAAAAA-AAAAAAA-AAAAAQ7"
    assert read_fingerprint(shown) == "00" * 31 + "01"


@given(key_ids)
def test_it_is_read_back_however_it_is_written(key_id: str) -> None:
    shown = fingerprint_of(key_id)
    assert read_fingerprint(shown) == key_id
    assert read_fingerprint(f" {shown.lower().replace('-', ' ')}\n") == key_id
    assert read_fingerprint(shown.replace("O", "0").replace("I", "1").replace("B", "8")) == key_id


@given(key_ids, st.integers(0, 55), st.sampled_from(ALPHABET))
def test_one_wrong_character_is_noticed(key_id: str, place: int, char: str) -> None:
    plain = fingerprint_of(key_id).replace("-", "")
    if plain[place] == char:
        return
    with pytest.raises(BadRequest, match=f"fingerprint: group .*{place // 14 * 2 + 1} or .* has a wrong character"):
        read_fingerprint(plain[:place] + char + plain[place + 1 :])


@given(key_ids, st.integers(0, 54))
def test_two_characters_in_the_wrong_order_are_noticed(key_id: str, place: int) -> None:
    plain = fingerprint_of(key_id).replace("-", "")
    one, other = plain[place : place + 2]
    swapped = plain[:place] + other + one + plain[place + 2 :]
    if one == other or place % 14 == 13 or {one, other} == {"A", "7"}:       # values 0 and 31 add up alike
        return
    with pytest.raises(BadRequest):
        read_fingerprint(swapped)


@pytest.mark.parametrize("value", [None, 1, "", "AAAA", "A" * 55, "A" * 57, "-" * 56, "9" * 56, "ä" * 56])
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(BadRequest, match=r"is not a fingerprint \(8 groups of 7 .*fate_flow key fingerprint"):
        read_fingerprint(value)
