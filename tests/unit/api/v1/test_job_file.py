"""The text of a job file: values, lines, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.api.v1.jobs import job_file
from fate_flow.api.v1.jobs.job_file import MAX_CHARACTERS, read_yaml
from fate_flow.core.model.errors import BadRequest
from fate_flow.jobspec.text.document import MAX_DEPTH


@pytest.fixture(autouse=True, params=["libyaml", "pure Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every build of PyYAML has libyaml."""
    if request.param == "pure Python":
        monkeypatch.setattr(job_file, "_LOADER", yaml.SafeLoader)


@pytest.mark.parametrize(("text", "value"), [
    ("a: 1", {"a": 1}), ("a: -3", {"a": -3}), ("a: 1.5", {"a": 1.5}), ("a: 1e3", {"a": 1000.0}), ("a: .5", {"a": 0.5}),
    ("a: true\nb: False", {"a": True, "b": False}), ("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}),
    ("a: no\non: yes", {"a": "no", "on": "yes"}), ("a: 010", {"a": "010"}), ("a: 0x10", {"a": "0x10"}),
    ("a: 12:30", {"a": "12:30"}), ("a: 2026-01-01", {"a": "2026-01-01"}), ("a: 1_000", {"a": "1_000"}),
    ("a: '1'\nb: \"true\"", {"a": "1", "b": "true"}),
    ("9999: x\ntrue: y", {"9999": "x", "true": "y"}), ("[1, [2], {}]", [1, [2], {}]), ("just text", "just text"),
    ("", None), ("# nothing\n", None), ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
    ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}), ('{"a": [1, "\\u00e4"]}', {"a": [1, "ä"]}),
    ("a: " + "9" * 50, {"a": "9" * 50}), ("host 10001: {run: false}", {"host 10001": {"run": False}}),
])  # fmt: skip
def test_what_a_text_says(text: str, value: Any) -> None:
    assert read_yaml(text).value == value


def test_each_path_has_its_line() -> None:
    text = "version: 1\ntasks:\n  a:\n    retry: {on_events: [error,\n      timeout]}\nat:\n  host 10001: 1\n"
    lines = read_yaml(text).lines
    assert lines == {
        "": 1, "version": 1, "tasks": 2, "tasks.a": 3, "tasks.a.retry": 4, "tasks.a.retry.on_events": 4,
        "tasks.a.retry.on_events[0]": 4, "tasks.a.retry.on_events[1]": 5, "at": 6, "at.'host 10001'": 7,
    }  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), [
    ("a: 1\nb: 2\na: 3\n", "line 3: a is there twice, first in line 1"),
    ("x:\n  a: {b: 1, b: 2}", "line 2: x.a.b is there twice, first in line 2"),
    ("a: 1\n b: 2", "line 2, column 3: mapping values are not allowed"),
    ("a: [1, 2]]\n", "line 1, column 10: "), ("a: !!str 1", "line 1: tags such as 'tag:yaml.org,2002:str'"),
    ("a: !!python/object/apply:os.system ['x']", "line 1: tags such as 'tag:yaml.org,2002:python/object/apply:os"),
    ("a: !x 1", "line 1: tags such as '!x' are not supported"), ("!!str a: 1", "line 1: a key must be a word"),
    ("? [a]\n: 1", "line 1: a key must be a word"), ("'': 1", "line 1: a key must be a word"),
    ("a: &x {b: 1}\nc:\n  <<: *x", "line 3: merge keys (<<) are not supported"),
    ("a: *x", "line 1: *x refers to no complete value before it"),
    ("a: &x [*x]", "line 1: *x refers to no complete value before it"),
    ("a: 1\n---\nb: 2", "line 2: a second document begins; a file has one"),
    ("a: 1\n---\n", "line 2: a second document begins"),
    ("[" * 100_000, f"line 1: is more than {MAX_DEPTH} levels deep"),
    pytest.param("[" + "0," * 100_001 + "0]", "line 1: has more than 100000 values", marks=pytest.mark.heavy),
    ("a: \x00", "is not YAML: "), ("a: \ud800", "is not YAML: "),
    ("x" * (MAX_CHARACTERS + 1), f"has {MAX_CHARACTERS + 1} characters, {MAX_CHARACTERS} is the most"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_yaml(text)
    message = refused.value.message
    assert message.startswith(f"job_file: {problem}") or problem in message
    assert "\n" not in message


def test_what_aliases_repeat_is_shared_and_costs_nothing() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 60))
    found = read_yaml(text).value
    assert found["a59"][0] is found["a58"]


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(BadRequest):
        read_yaml(text)
