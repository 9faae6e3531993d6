"""Metrics in the form that is kept, and in FATE 2's."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.metrics.form import (
    axis_of,
    in_fate_2,
    is_curve,
    joined,
    read_metric,
    read_metrics,
    shown_meta,
    summary_of,
)

LOSS = {
    "name": "lr_loss", "type": "loss", "groups": [{"name": "default", "index": None}, {"name": "fold", "index": 1}],
    "step_axis": "iterations",
    "data": [{"metric": 0.7, "step": 0, "timestamp": 1.5}, {"metric": 0.6, "step": 1, "timestamp": 2.5}],
}
SUMMARY = {
    "name": "summary", "type": None, "groups": [{"name": "default", "index": None}], "step_axis": None,
    "data": {"intersect_count": 569},
}
ROC = {**SUMMARY, "name": "roc", "type": "roc", "data": [[0.1, 0.2], [0.3, 0.4]]}


@pytest.mark.parametrize("said", [LOSS, SUMMARY, ROC, {**ROC, "data": []}], ids=lambda one: str(one["name"]))
def test_what_fate_2_says_is_given_back_as_it_was(said: dict[str, Any]) -> None:
    assert in_fate_2(**read_metric(said)) == said


def test_how_metrics_of_fate_2_are_kept() -> None:
    assert read_metric(LOSS) == {
        "namespace": "default/fold-1", "name": "lr_loss", "data": [[0, 0.7, 1.5], [1, 0.6, 2.5]],
        "meta": {
            "metric_type": "loss", "step_axis": "iterations", "fate2": {"groups": LOSS["groups"], "form": "curve"},
        },
    }  # fmt: skip
    assert read_metric(SUMMARY)["data"] == [["intersect_count", 569]]
    assert read_metric(ROC)["data"] == [[0, [0.1, 0.2]], [1, [0.3, 0.4]]]
    least = read_metric({"name": "n", "data": {}})
    assert (least["namespace"], in_fate_2(**least)["groups"]) == ("default", [])
    assert shown_meta(read_metric(LOSS)["meta"]) == {"metric_type": "loss", "step_axis": "iterations"}


@pytest.mark.parametrize(("data", "meta", "form"), [
    ((("total", "1.5"),), {"metric_type": "S"}, {"type": "S", "step_axis": None, "data": {"total": "1.5"}}),
    (((0, 0.5), (1, 0.25)), {"unit_name": "iters"}, {
        "type": None, "step_axis": "iters", "data": [
            {"metric": 0.5, "step": 0, "timestamp": None}, {"metric": 0.25, "step": 1, "timestamp": None}]}),
    (((0, 0.5), ("auc", 1)), {}, {"type": None, "step_axis": None, "data": {"0": 0.5, "auc": 1}}),
])  # fmt: skip
def test_metrics_of_our_own_components_have_the_form_of_fate_2(data: Any, meta: Any, form: dict[str, Any]) -> None:
    groups = [{"name": "train", "index": None}]
    assert in_fate_2("train", "m", data, meta) == {"name": "m", "groups": groups, **form}


@pytest.mark.parametrize(("said", "why"), [
    (None, "null is not an object with name and data"),
    ({"data": []}, "name: null is not a text"),
    ({"name": ""}, "name: '' is not a text"),
    ({"name": "a"}, "metric a: data: null is neither a list nor an object"),
    ({"name": "a", "data": {}, "type": 7}, "metric a: type: 7 is not a text"),
    ({"name": "a", "data": {}, "step_axis": []}, "metric a: step_axis: a list is not a text"),
    ({"name": "a", "data": {}, "groups": "fold"}, "metric a: groups: 'fold' is not an object with name and index"),
    ({"name": "a", "data": {}, "groups": [{"name": "g", "index": True}]}, "metric a: groups: .* is not an object"),
    ({"name": "a", "namespace": 3, "data": []}, "metric a: namespace: 3 is not a text"),
    ({"name": "a", "namespace": "n", "data": [], "meta": 1}, "metric a: meta: 1 is not an object"),
])
def test_a_wrong_metric_is_refused_with_its_key_and_value(said: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_metric(said)


def test_a_metric_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="metric 'a': it is nested too deeply"):
        read_metric({"name": "a", "data": deep})


def test_of_many_wrong_metrics_the_first_are_named() -> None:
    found, wrong = read_metrics([LOSS, *range(9)])
    assert [one["name"] for one in found] == ["lr_loss"]
    assert (len(wrong), wrong[-1]) == (6, "and 4 more")


def test_numbers_that_json_cannot_express_become_text() -> None:
    data = {"a": float("nan"), "b": [float("inf"), {"c": float("-inf")}], "d": 1.5}
    assert read_metric({"name": "m", "data": data})["data"] == [
        ["a", "NaN"], ["b", ["Infinity", {"c": "-Infinity"}]], ["d", 1.5],
    ]  # fmt: skip
    kept = read_metric({"namespace": "n", "name": "m", "data": [["a", float("nan")]], "meta": {"b": float("inf")}})
    assert (kept["data"], kept["meta"]) == ([["a", "NaN"]], {"b": "Infinity"})


def test_the_points_of_a_curve_come_in_pieces_and_anything_else_whole() -> None:
    later = {**LOSS, "data": [{"metric": 0.5, "step": 2, "timestamp": 3.5}]}
    pieces = [read_metric(one) for one in (LOSS, SUMMARY, later, {**SUMMARY, "data": {"intersect_count": 570}})]
    loss, summary = joined(pieces)
    assert [point[1] for point in loss["data"]] == [0.7, 0.6, 0.5]
    assert summary["data"] == [["intersect_count", 570]]
    assert len(pieces[0]["data"]) == 2, "what is joined stays as it was"
    parts = [{"namespace": "n", "name": "m", "data": [["a", 1]], "meta": {}},
             {"namespace": "n", "name": "m", "data": [["b", 2]], "meta": {"unit": "x"}}]  # fmt: skip
    assert joined(parts) == [{"namespace": "n", "name": "m", "data": [["a", 1], ["b", 2]], "meta": {"unit": "x"}}]


def test_which_metrics_are_curves() -> None:
    assert is_curve(**{key: read_metric(LOSS)[key] for key in ("data", "meta")})
    assert is_curve([(0, 0.5)], {})
    for data, meta in (([], {}), ([(True, 1)], {}), ([("a", 1)], {}), ([(0, 1)], read_metric(ROC)["meta"])):
        assert not is_curve(data, meta)
    assert (axis_of({}), axis_of({"unit_name": "iters"}), axis_of({"step_axis": "epochs"})) == (
        "step", "iters", "epochs",
    )  # fmt: skip


def test_a_summary_has_the_last_step_of_a_curve_and_all_of_anything_else() -> None:
    kept = map(read_metric, (LOSS, SUMMARY, {**ROC, "data": [1, 2]}, {**SUMMARY, "name": "evaluation"}))
    assert summary_of((one["name"], one["data"], one["meta"]) for one in kept) == {
        "lr_loss": {"last": 0.6, "iterations": 1, "count": 2}, "intersect_count": 569, "roc": [1, 2],
        "evaluation": {"intersect_count": 569},
    }  # fmt: skip
