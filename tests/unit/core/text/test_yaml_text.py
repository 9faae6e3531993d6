"""What is written for a worker is the same value to any reader of YAML, and to ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from fate_flow.core.text.yaml_text import read_yaml_text, yaml_text

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])]
TEXT = st.text(st.characters(codec="utf-8"))
SHORT_TEXT = st.text(st.characters(codec="utf-8"), max_size=80)         # also with each character escaped


def values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inside: st.lists(inside) | st.dictionaries(keys, inside),
        max_leaves=20,
    )


VALUES = values(TEXT)


def is_same(one: Any, other: Any) -> bool:
    """As JSON has it, where 1 is neither 1.0 nor true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.parametrize("loader", LOADERS)
@given(value=VALUES)
@example(value=1e-05)
@example(value=-1e22)
@example(value="\U0001f600 a\\ud83d\\ude00 \\\U0001f600")
@example(value={"k" * 2000: [1e-7, "1e-05"], "é" * 300: 1, "": {"<<": 1, "=": 2, "y": "no"}})
@example(value={"? " * 600: {'" : ' * 300: {"? \"a\" : ": '? "a" : '}}})
@example(value={"\x85\u2028\ufeff\x7f\x00\ud7ff\ue000\uffff": "2026-11-22 1:20 0o7 ~ null"})
def test_every_json_value_is_read_as_it_was_written(loader, value):
    assert is_same(yaml.load(yaml_text(value), Loader=loader), value)
    assert is_same(read_yaml_text(yaml_text(value)), value)
    assert is_same(read_yaml_text(yaml_text(value, indent=1)), value)


@given(value=values(SHORT_TEXT))
def test_without_a_long_key_the_text_is_json(value):
    assert is_same(json.loads(yaml_text(value)), value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud83d", {"\ude00": 1}, object()])
def test_what_is_no_json_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        yaml_text(value)


def test_keys_may_be_in_order():
    assert yaml_text({"b": 1, "a": {"d": 1e-05, "c": 2}}, sort_keys=True) == '{"a": {"c": 2, "d": 1.0e-05}, "b": 1}'


@pytest.mark.parametrize("text", ["", "{", "a: 1", '{"a": NaN}', '? "a" : 1', "['1']", '{? "a" : Infinity}'])
def test_what_was_not_written_so_is_refused(text):
    with pytest.raises(ValueError, match=r"is not JSON|Expecting|Extra data"):
        read_yaml_text(text)
