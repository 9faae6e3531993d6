"""What of a training is in the DSL of its prediction."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.errors import BadDocument, BadRequest
from fate_flow.jobspec.fate_v1.predict_dsl import predict_dsl

READER = {"module": "Reader", "output": {"data": ["raw"]}}
EVALUATION = {"module": "Evaluation", "input": {"data": {"data": ["lr_0.scores"]}}}


def transform(data: str = "reader_0.raw", **more: Any) -> dict[str, Any]:
    return {
        "module": "DataTransform", "input": {"data": {"data": [data]}},
        "output": {"data": ["clean"], "model": ["prep"]}, **more,
    }  # fmt: skip


def training(data: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    return {"module": "HeteroLR", "input": {"data": data, **more}, "output": {"data": ["scores"], "model": ["lr"]}}


def made(components: dict[str, Any], *names: str) -> dict[str, Any]:
    found: dict[str, Any] = predict_dsl({"components": components}, names)["components"]
    return found


ALL = {
    "reader_0": READER, "prep_0": transform(), "lr_0": training({"train_data": ["prep_0.clean"]}),
    "report_0": EVALUATION,
}  # fmt: skip


def test_each_deployed_component_reads_the_one_before_it_and_takes_its_own_model():
    assert made(ALL, "lr_0", "prep_0", "reader_0") == {
        "reader_0": READER,
        "prep_0": {
            "module": "DataTransform", "input": {"data": {"data": ["reader_0.raw"]}, "model": ["pipeline.prep_0.prep"]},
            "output": {"data": ["clean"]},
        },
        "lr_0": {
            "module": "HeteroLR", "input": {"data": {"test_data": ["prep_0.clean"]}, "model": ["pipeline.lr_0.lr"]},
            "output": {"data": ["scores"]},
        },
    }  # fmt: skip


def test_what_was_not_named_is_bridged_but_for_the_reader():
    found = made(ALL, "lr_0")
    assert sorted(found) == ["lr_0", "reader_0"]
    assert found["lr_0"]["input"]["data"] == {"test_data": ["reader_0.raw"]}


def test_without_names_all_but_those_that_need_no_deploy():
    components = {**ALL, "report_0": {**EVALUATION, "need_deploy": False}}
    assert sorted(made(components)) == ["lr_0", "prep_0", "reader_0"]
    assert sorted(made(ALL)) == sorted(ALL)


@pytest.mark.parametrize(("data", "wanted"), [
    ({"train_data": ["reader_0.raw"], "validate_data": ["prep_0.clean"]}, {"test_data": ["reader_0.raw"]}),
    ({"train_data": ["reader_0.raw"], "test_data": ["prep_0.clean"]}, {"test_data": ["prep_0.clean"]}),
    ({"eval_data": ["reader_0.raw"]}, {"test_data": ["reader_0.raw"]}),
    ({"data": ["reader_0.raw"], "validate_data": ["prep_0.clean"]}, {"data": ["reader_0.raw"]}),
])
def test_what_was_trained_on_is_what_is_tested(data: dict[str, list[str]], wanted: dict[str, list[str]]):
    components = {"reader_0": READER, "prep_0": transform(), "lr_0": training(data)}
    assert made(components)["lr_0"]["input"]["data"] == wanted


def test_a_model_of_another_component_is_that_of_the_training():
    selected = {"module": "Selection", "input": {
        "data": {"data": ["prep_0.clean"]}, "isometric_model": ["prep_0.prep"],
    }}  # fmt: skip
    found = made({"reader_0": READER, "prep_0": transform(), "pick_0": selected}, "pick_0")
    assert found["pick_0"]["input"] == {"data": {"data": ["reader_0.raw"]}, "model": ["pipeline.prep_0.prep"]}


def test_data_of_many_sources_comes_once_each_however_many_ways_lead_there():
    components: dict[str, Any] = {"reader_0": READER, "prep_0": transform()}
    for level in range(1, 40):
        before = f"prep_{level - 1}.clean"
        twice = {"module": "Union", "input": {"data": {"data": [before], "test_data": [before]}}}
        components[f"prep_{level}"] = {**twice, "output": {"data": ["clean"]}}
    components["lr_0"] = training({"train_data": ["prep_39.clean", "reader_0.raw"]})
    assert made(components, "lr_0")["lr_0"]["input"]["data"] == {"test_data": ["reader_0.raw"]}


def test_a_cache_stays_when_who_made_it_is_deployed():
    keeper = {"module": "Intersection", "output": {"data": ["joined"], "cache": ["kept"]}}
    user = {"module": "Intersection", "input": {"cache": ["keep_0.kept"]}, "output": {"data": ["joined"]}}
    components = {"keep_0": keeper, "use_0": user}
    assert made(components)["use_0"]["input"] == {"cache": ["keep_0.kept"]}
    assert made(components)["keep_0"]["output"] == keeper["output"]
    assert "input" not in made(components, "use_0")["use_0"]


@pytest.mark.parametrize(("dsl", "names", "says"), [
    (None, (), "train_dsl: is missing"),
    ([], (), "train_dsl"),
    ({}, (), "train_dsl.components: is missing"),
    ({"components": {}}, (), "has 0 components"),
    ({"components": {"a_0": {}}}, (), "train_dsl.components.a_0.module: is missing"),
    ({"components": {"a_0": {"module": ["x"]}}}, (), "train_dsl.components.a_0.module"),
    ({"components": {"a_0": {"module": "A", "input": {"data": {"data": ["b_0.x"]}}}}}, (), "no component 'b_0'"),
    ({"components": {"a_0": {"module": "A", "input": {"model": ["pipeline.b_0.x"]}}}}, (), "is a stored model"),
    ({"components": {"a_0": {
        "module": "A", "input": {"data": {"data": ["a_0.x"]}}, "output": {"data": ["x"]}}}}, (), "a_0"),
])  # fmt: skip
def test_what_is_wrong_with_the_training_is_named_with_its_path(dsl: object, names: tuple[str, ...], says: str):
    with pytest.raises(BadDocument, match=says.replace(".", r"\.")):
        predict_dsl(dsl, names)


def test_a_component_that_is_not_there_and_none_at_all():
    with pytest.raises(BadRequest, match="'magic_0' is not one of the components: lr_0, prep_0, reader_0, report_0"):
        made(ALL, "magic_0")
    with pytest.raises(BadRequest, match="names no component"):
        made({"reader_0": {**READER, "need_deploy": False}})
