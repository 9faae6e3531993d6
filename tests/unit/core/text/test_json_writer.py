"""The writer of JSON that is made once writes what `json` writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fate_flow.core.text.json_writer import json_writer

VALUES: list[Any] = [
    None, True, 0, -(2**70), 1.5, "", "a\"b\n\x00é\U0001f600", [], {}, [1, [2, {"b": 1, "a": [None]}]],
    {"b": "ü", "a": {"d": 1, "c": (1, 2)}, "é": False},
]  # fmt: skip


@pytest.mark.parametrize("has_c", [True, False])
@pytest.mark.parametrize("options", [{"ensure_ascii": True}, {"ensure_ascii": False}])
@pytest.mark.parametrize("sort_keys", [True, False])
def test_it_writes_as_json_does(
    monkeypatch: pytest.MonkeyPatch, has_c: bool, options: dict[str, bool], sort_keys: bool
) -> None:  # fmt: skip
    if not has_c:
        monkeypatch.setattr("json.encoder.c_make_encoder", None)
    write = json_writer(sort_keys=sort_keys, **options)
    for value in VALUES:
        assert write(value) == json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), **options)


def test_it_refuses_what_json_refuses() -> None:
    write = json_writer(sort_keys=True, allow_nan=False)
    with pytest.raises(ValueError, match="Out of range"):
        write({"a": float("nan")})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write({"a": object()})
