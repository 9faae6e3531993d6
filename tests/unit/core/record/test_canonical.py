"""Canonical JSON: the examples of RFC 8785, and a second implementation."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.record.canonical import MOST_INTEGER, MOST_NESTED, NotCanonical, canonical, read_canonical

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MOST_INTEGER, MOST_INTEGER) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


PLAIN = st.dictionaries(st.text(st.characters(max_codepoint=200)), st.integers() | st.text() | st.booleans())


@given(VALUES)
def test_a_second_implementation_writes_the_same(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(PLAIN)
def test_what_entries_mostly_are_is_written_the_same(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        with pytest.raises(NotCanonical, match="beyond 53 bits"):
            canonical(value)
    else:
        assert canonical(value) == expected


@given(VALUES)
def test_what_is_written_is_read_as_the_same_value(value: Any) -> None:
    assert read_canonical(canonical(value)) == value


def test_the_keys_of_rfc_8785_section_3_2_3_are_in_the_order_of_utf_16() -> None:
    names = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}

    assert list(read_canonical(canonical(names)).values()) == [2, 4, 6, 7, 1, 5, 3]


def test_the_string_of_rfc_8785_section_3_2_2_2() -> None:
    text = "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/"

    assert canonical({"string": text}).decode() == '{"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), 2**53, -(2**53), {1: "a"}, {"a": b"b"}, "\ud800", {"\udfff": 1}, {"a": {1, 2}}, object()],
)
def test_a_value_with_two_readings_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical(value)


def test_too_many_levels_are_refused() -> None:
    value: Any = 1
    for _ in range(MOST_NESTED):
        value = [value]
    assert read_canonical(canonical(value)) == value

    with pytest.raises(NotCanonical, match="32 levels"):
        canonical([[value]])


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}', b'{"b":1,"a":2}', b'{"a":1,"a":1}', b"1.0", b"1e3", b"NaN", b'"\\u0041"', b'"\\/"', b"\xff",
        b"9007199254740992", b"", b"[" * 100_000, b'{"a":1}\n', b'"\\ud800"',
    ],
)  # fmt: skip
def test_bytes_in_another_form_are_refused(content: bytes) -> None:
    with pytest.raises(NotCanonical):
        read_canonical(content)
