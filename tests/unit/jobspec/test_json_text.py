"""JSON that people write, with the path of a key that is there twice."""

from __future__ import annotations

import json

import pytest

from fate_flow.jobspec.text.json_text import RepeatedKey, read_json_text


@pytest.mark.parametrize("text", ['{"a": 1, "b": [{"a": 1}, {"a": 1}]}', b'{"a": {"a": null}}', "[]", "7", '"a"'])
def test_what_has_each_key_once_is_read(text: str | bytes) -> None:
    assert read_json_text(text) == json.loads(text)


@pytest.mark.parametrize(("text", "path"), [
    ('{"a": 1, "a": 2}', "a"),
    ('{"components": {"b": {}, "a": {}, "a": {}}}', "components.a"),
    ('{"job_parameters": {"common": {"task_cores": 1, "task_cores": 1}}}', "job_parameters.common.task_cores"),
    ('{"x": [1, {"y": [{"odd key": 1, "odd key": 2}]}]}', "x[1].y[0].'odd key'"),
    ('{"a": {"b": 1, "b": 2}, "a": {"c": 3}}', "a"),      # what the first of them held is gone
    ('{"\\u0061": 1, "a": 2}', "a"),
])  # fmt: skip
def test_a_key_that_is_there_twice_is_refused_with_its_path(text: str, path: str) -> None:
    with pytest.raises(RepeatedKey) as caught:
        read_json_text(text)
    assert str(caught.value) == f"{path} is there twice: an object has each of its keys once"


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', '{"a": 1, "a": Infinity}'])
def test_what_is_no_json_is_refused_as_such(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_json_text(text)
    assert not isinstance(caught.value, RepeatedKey)
