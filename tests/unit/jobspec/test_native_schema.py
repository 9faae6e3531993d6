"""The schema of job files: published as it is read, and understood as any other tool understands it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.retry import Backoff, RetryRule
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.formats import NATIVE, parse_or_problems
from fate_flow.jobspec.native.schema import JOB, schema_text
from fate_flow.jobspec.text.document import Findings, Node
from fate_flow.jobspec.text.shape import MESSAGES, Shape
from tests.kit.jobspec.native_documents import FULL, a_file, wrong_with
from tests.kit.peak import begin_anew, peak

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.yaml"))


def _ecma(schema: Any) -> Any:
    """The schema for a validator in Python, whose `$` also stands before a line's end; that of JSON Schema does not."""
    if isinstance(schema, Mapping):
        return {
            key.replace("$", r"\Z") if key.startswith("^") else key:
                inside.replace("$", r"\Z") if key == "pattern" and isinstance(inside, str) else _ecma(inside)
            for key, inside in schema.items()
        }
    return [_ecma(one) for one in schema] if isinstance(schema, list) else schema


VALIDATOR = Draft202012Validator(_ecma(JOB))
OF_KEYS_AND_ELEMENTS = {
    "$ref", "$defs", "properties", "patternProperties", "required", "additionalProperties", "items", "uniqueItems",
}  # fmt: skip
FOR_PEOPLE = {"$schema", "title", "description", "default", "patternErrorMessage"}


def shape_problems(document: Any) -> list[str]:
    findings = Findings(strict=True)
    Shape(JOB).check(Node(document, "", findings))
    return [problem.message for problem in findings.problems]


def test_a_key_of_digits_is_a_key() -> None:
    assert "tasks.1.component: 5 is not text" in shape_problems({"tasks": {"1": {"component": 5}}})


def schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """This one and all inside it."""
    yield schema
    for key in ("properties", "patternProperties", "$defs"):
        for inside in schema.get(key, {}).values():
            yield from schemas(inside)
    if "items" in schema:
        yield from schemas(schema["items"])


# ---------------------------------------------------------------------- what is published


def test_the_published_schema_is_the_one_that_is_read():
    published = (DOCS / "job.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "flow job schema > docs/job.schema.json"
    assert json.loads(published) == JOB


def test_it_is_a_schema():
    Draft202012Validator.check_schema(JOB)


def test_every_keyword_has_a_message_for_people():
    used = {key for schema in schemas(JOB) for key in schema}
    assert used <= OF_KEYS_AND_ELEMENTS | MESSAGES.keys() | FOR_PEOPLE


def test_a_value_with_two_errors_has_one_message():
    [found] = shape_problems(a_file(resources={"cores": 0.5}))
    assert found == "resources.cores: 0.5 is not a whole number"


def test_a_wrong_name_has_one_message_with_its_path():
    [found] = shape_problems(a_file(tasks={"a b": {"component": "Reader"}, "c": {"component": "Reader"}}))
    assert found.startswith("tasks.'a b': 'a b' is not a name of 1 to 30 letters, digits, _ and -, no - first;")


def test_the_memory_for_many_wrong_names_does_not_grow_with_their_square():
    """Each error of `propertyNames` would have a copy of the whole object, with all names."""
    document = a_file(tasks={f"a {number}": {"component": "Reader"} for number in range(5_000)})
    assert len(shape_problems(a_file(tasks={"a b": {"component": "Reader"}}))) == 1
    begin_anew(os.getpid())
    before = peak(os.getpid())
    assert len(shape_problems(document)) == 5_000
    assert peak(os.getpid()) - before < 100 << 20


@pytest.mark.long
def test_the_time_for_many_errors_in_one_list_does_not_grow_with_their_square():
    document = a_file(parties={"guest": [9001], "host": ["x"] * 20_000})
    assert len(shape_problems(document)) == 20_000 + 19_999


def test_patterns_mean_the_whole_text():
    patterns = [schema["pattern"] for schema in schemas(JOB) if "pattern" in schema]
    patterns += [pattern for schema in schemas(JOB) for pattern in schema.get("patternProperties", ())]
    assert patterns
    assert all(pattern.startswith("^") and pattern.endswith("$") for pattern in patterns)


def test_every_key_says_what_it_is_for():
    for schema in schemas(JOB):
        for key, inside in schema.get("properties", {}).items():
            assert inside.get("description") or "$ref" in inside, key


def test_defaults_are_those_of_the_rule():
    described = JOB["$defs"]["retry"]["properties"]
    assert {key: described[key]["default"] for key in ("max_attempts", "max_interruptions", "duration")} == {
        "max_attempts": RetryRule().max_attempts, "max_interruptions": RetryRule().max_interruptions,
        "duration": RetryRule().duration,
    }  # fmt: skip
    backoff = {key: inside["default"] for key, inside in described["backoff"]["properties"].items()}
    assert Backoff(**backoff) == Backoff()
    assert set(backoff) == set(vars(Backoff()))


# ---------------------------------------------------------------------- examples


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_right(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../job.schema.json\n")
    reading = read_yaml(text)
    assert list(VALIDATOR.iter_errors(reading.value)) == []
    document = JobDocument(NATIVE, reading.value)
    assert parse_or_problems(document, modules=CATALOGUE, defaults=JobParameters(), strict=True)[1] == []


# ---------------------------------------------------------------------- two readers of one schema


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**11) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "a.b", "host", "host 9004", "guest 9001", "error", "0", "007", "x" * 600, "9\n"]),
    lambda inside: st.lists(inside, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "host", "data", "cores"]), inside, max_size=2),
    max_leaves=4,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in pairs:
        yield (*path, key)
        yield from places(inside, (*path, key))


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """The file that says everything, with a few values replaced, dropped or added."""
    document = copy.deepcopy(dict(FULL))
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(list(places(document)) or [("a",)]))
        inside: Any = document
        for key in above:
            inside = inside[key]
        what = draw(st.sampled_from(["replace", "replace", "drop", "add"]))
        if what == "drop":
            del inside[last]
        elif what == "add" and isinstance(inside, dict):
            inside[draw(st.sampled_from(["a", "host 9002", "retry", "x y", "timeout"]))] = draw(JSON)
        elif isinstance(inside, dict) or last < len(inside):
            inside[last] = draw(JSON)
    return document


@pytest.mark.long
@given(spoiled())
@settings(deadline=None, max_examples=100)
def test_our_reader_and_any_other_agree_on_what_is_right(document):
    assert (shape_problems(document) == []) == VALIDATOR.is_valid(document)


@pytest.mark.long
@given(spoiled().filter(VALIDATOR.is_valid))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.filter_too_much])     # most are wrong
def test_no_key_that_the_schema_allows_is_unknown_to_the_readers_of_the_documents(document):
    unknown = [found.partition(": is not known")[0] for found in wrong_with(document) if ": is not known" in found]
    assert {path.rpartition(".")[2] for path in unknown} <= {"min_available"}
