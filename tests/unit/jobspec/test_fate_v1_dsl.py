"""One table for each rule about the DSL in the v1 adapter."""

from __future__ import annotations

import pytest

from tests.kit.jobspec.fate_v1_documents import a_dsl, read
from tests.kit.jobspec.fate_v1_problems import READER, message_of


@pytest.mark.parametrize(("dsl", "message"), [
    ({}, "dsl.components: is missing"),
    ({"components": None}, "dsl.components: is missing"),
    ({"components": {}}, "dsl.components: has 0 components; 1 to 1000 make a job"),
    ({"components": []}, "dsl.components: a list is not an object"),
    ([], "dsl: a list is not an object"),
    ("{}", "dsl: '{}' is not an object"),
    (a_dsl(**{f"c{number}": {"module": "Reader"} for number in range(1001)}),
     "dsl.components: has 1001 components; 1 to 1000 make a job"),
    (a_dsl(x=None), "dsl.components.x: is missing"),
    (a_dsl(x=[]), "dsl.components.x: a list is not an object"),
    (a_dsl(x={}), "dsl.components.x.module: is missing"),
    (a_dsl(x={"module": 3}), None),
    (a_dsl(pipeline={"module": "Reader"}),
     "dsl.components.pipeline: the name is reserved for the whole job; choose another one"),
    (a_dsl(x={"module": "Reader", "output": []}), "dsl.components.x.output: a list is not an object"),
    (a_dsl(x={"module": "Reader", "output": {"data": "raw"}}), "dsl.components.x.output.data: 'raw' is not a list"),
    (a_dsl(x={"module": "Reader", "output": {"data": {"raw": 1}}}),
     "dsl.components.x.output.data: an object is not a list"),
    (a_dsl(x={"module": "Reader", "output": {"data": ["a", "a"]}}),
     "dsl.components.x.output.data[1]: 'a' is there twice"),
])
def test_a_wrong_dsl_is_refused_with_the_path(dsl, message):
    found = message_of(dsl)
    assert found == message if message else found.startswith("dsl.components.x.module: 3 is not known here")


def test_an_unknown_module_is_refused_and_the_known_ones_are_named():
    assert message_of(a_dsl(x={"module": "Foo"})) == (
        "dsl.components.x.module: 'Foo' is not known here; known: DataTransform, Evaluation, Fussy, HeteroLR, "
        "HeteroSecureBoost, Intersection, Reader, SecureAddExample, Upload; the algorithms of FATE 1 do not run here, "
        "those of FATE 2.2 do, with a provider (docs/reference/fate-components.md)")


@pytest.mark.parametrize("name", ["x", "A-1_b", "_", "0", "a" * 30])
def test_a_component_name_that_is_right(name):
    assert list(read(a_dsl(**{name: {"module": "Reader"}})).tasks) == [name]


@pytest.mark.parametrize("name", ["", "a" * 31, "-x", "--help", "a.b", "a b", "a/b", "..", "x\n", "é", "a\x00b"])
def test_a_component_name_that_is_wrong(name):
    message = message_of(a_dsl(**{name: {"module": "Reader"}}))
    assert message.startswith("dsl.components: ")
    assert "is not a component name (1 to 30 of letters, digits, _ and -, no - first; " in message
    assert "FATE's own tables have room for 30)" in message
    assert message.isprintable()


@pytest.mark.parametrize("alias", ["", "a.b", "../x", "a" * 31, 3, None, "a\n"])
def test_an_output_alias_that_is_wrong(alias):
    assert message_of(a_dsl(x={"module": "Reader", "output": {"data": [alias]}})).startswith(
        "dsl.components.x.output.data[0]: ")


def _after(**inputs):
    """A DSL with a component that takes these inputs."""
    return a_dsl(x=READER, y={"module": "DataTransform", "input": inputs})


@pytest.mark.parametrize(("inputs", "message"), [
    ({"data": ["x.raw"]}, "input.data: a list is not an object"),
    ({"data": {"data": "x.raw"}}, "input.data.data: 'x.raw' is not a list"),
    ({"data": {"data": [7]}}, "input.data.data[0]: 7 is not <component>.<output>"),
    ({"data": {"data": ["raw"]}}, "input.data.data[0]: 'raw' is not <component>.<output>"),
    ({"data": {"data": ["x.raw.more"]}}, "input.data.data[0]: 'x.raw.more' is not <component>.<output>"),
    ({"data": {"data": ["x.raw", "z.raw"]}}, "input.data.data[1]: 'z.raw': there is no component 'z'"),
    ({"data": {"data": ["x.row"]}}, "input.data.data[0]: 'x.row': the data outputs of x are: raw"),
    ({"data": {"data": ["x.m"]}}, "input.data.data[0]: 'x.m': the data outputs of x are: raw"),
    ({"model": "x.m"}, "input.model: 'x.m' is not a list"),
    ({"model": {"a": 1}}, "input.model.a: 1 is not a list"),
    ({"model": {"a b": ["x.m"]}}, "input.model.'a b': 'a b' is not an output name "
     "(1 to 30 of letters, digits, _ and -, no - first; FATE's own tables have room for 30)"),
    ({"model": ["x.raw"]}, "input.model[0]: 'x.raw': the model outputs of x are: m"),
    ({"isometric_model": ["x.c"]}, "input.isometric_model[0]: 'x.c': the model outputs of x are: m"),
    ({"cache": ["x.m"]}, "input.cache[0]: 'x.m': the cache outputs of x are: c"),
    ({"model": ["pipeline.x.m"]},
     "input.model[0]: 'pipeline.x.m' is a stored model without its id: submit a job of job_type predict with model_id "
     'and model_version, or name {"model": {"id": ..., "version": ..., "task": ..., "output": ...}}'),
    ({"data": {"a b": ["x.raw"]}}, "input.data.'a b': 'a b' is not an output name "
     "(1 to 30 of letters, digits, _ and -, no - first; FATE's own tables have room for 30)"),
    ({"data": {"data": ["y.raw"]}}, "input.data.data[0]: 'y.raw': the data outputs of y are: none"),
])
def test_a_wrong_input_is_refused_with_the_path(inputs, message):
    assert message_of(_after(**inputs)) == f"dsl.components.y.{message}"


@pytest.mark.parametrize(("inputs", "kind", "key"), [
    ({"data": {"data": ["x.raw"]}}, "data", "data"),
    ({"data": {"train_data": ["x.raw"]}}, "data", "train_data"),
    ({"data": {"validate_data": ["x.raw"]}}, "data", "validate_data"),
    ({"data": {"test_data": ["x.raw"]}}, "data", "test_data"),
    ({"data": {"eval_data": ["x.raw"]}}, "data", "eval_data"),
    ({"model": ["x.m"]}, "model", "model"),
    ({"isometric_model": ["x.m"]}, "isometric_model", "isometric_model"),
    ({"cache": ["x.c"]}, "cache", "cache"),
])
def test_every_kind_of_input_makes_an_edge(inputs, kind, key):
    spec = read(_after(**inputs), strict=True)
    task = spec.tasks["y"]
    assert [(one.kind, one.key) for one in task.inputs] == [(kind, key)]
    assert task.upstream == {"x"}


def test_an_unusual_data_key_is_used_with_a_warning():
    spec = read(_after(data={"left": ["x.raw"]}))
    assert spec.tasks["y"].upstream == {"x"}
    assert len(spec.warnings) == 1
    assert spec.warnings[0].startswith("dsl.components.y.input.data.left: is not one of data, eval_data")
    assert message_of(_after(data={"left": ["x.raw"]}), strict=True).startswith("dsl.components.y.input.data.left: ")


@pytest.mark.parametrize("inputs", [{}, {"data": {}}, {"data": {"data": []}}, {"data": None, "model": None}])
def test_no_input_makes_no_edge(inputs):
    assert read(_after(**inputs)).tasks["y"].inputs == ()


def test_one_input_may_have_several_sources():
    task = read(_after(data={"data": ["x.raw", "x.raw"]})).tasks["y"]
    assert [source.alias for source in task.inputs[0].sources] == ["raw", "raw"]


def test_components_may_stand_in_any_order():
    dsl = a_dsl(
        c={"module": "DataTransform", "input": {"data": {"data": ["b.raw"]}}},
        b={**READER, "input": {"data": {"data": ["a.raw"]}}},
        a=READER)
    assert list(read(dsl).tasks) == ["a", "b", "c"]


def test_a_loop_is_refused_and_drawn():
    dsl = a_dsl(
        a={**READER, "input": {"data": {"data": ["b.raw"]}}},
        b={**READER, "input": {"model": ["a.m"]}})
    assert message_of(dsl) in ("dsl.components: a->b form a loop", "dsl.components: b->a form a loop")


def test_a_component_that_takes_from_itself_is_a_loop():
    assert message_of(a_dsl(a={**READER, "input": {"data": {"data": ["a.raw"]}}})) == "dsl.components: a form a loop"


def test_a_component_that_runs_nowhere_is_refused():
    assert message_of(a_dsl(x={"module": "Upload"})) == (
        "dsl.components.x.module: 'Upload' runs at local; the job has only guest, host, arbiter")
