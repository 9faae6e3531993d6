"""Which chart and which table a page makes of each form of metrics, and where the parts of a drawing are."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fate_flow.core.model.job import TaskKey
from fate_flow.web.charts import drawing
from fate_flow.web.charts.drawing import drawn, drawn_bars, thinned, ticks
from fate_flow.web.charts.reading import blocks
from fate_flow.web.charts.values import MOST_ROWS, Bars, Block, Chart, Line, Matrix, as_text
from tests.kit.api.client_world import GUEST
from tests.kit.web.filled_task import METRICS, loss, metric_of

KEY = TaskKey("1", "toy_0", 0, GUEST)


def read(*said: dict[str, Any]) -> dict[str, Block]:
    found = blocks([metric_of(KEY, one) for one in said])
    by_title = {one.title: one for one in found}
    assert len(by_title) == len(found)
    return by_title


def test_each_form_has_its_chart_and_its_table() -> None:
    found = read(*METRICS)
    of = "evaluation: train: train_set"
    assert {title: type(one.drawing).__name__ for title, one in found.items()} == {
        "loss": "Chart", "train: lr_0_ks": "Chart", "train: lr_0_roc": "Chart", "correlation": "Heat", of: "NoneType",
        f"{of}: ks_table: ROC": "Chart", f"{of}: ks_table: K-S": "Chart",
        f"{of}: confusion_matrix: confusion matrix": "Matrix",
        f"{of}: lift: lift": "Chart", f"{of}: gain: gain": "Chart",
        f"{of}: biclass_precision_table: precision": "Chart", f"{of}: biclass_recall_table: recall": "Chart",
        f"{of}: biclass_accuracy_table: accuracy": "Chart", f"{of}: precision and recall": "Chart",
        "feature_importance": "Bars", "metrics_summary": "NoneType", "train: auc": "NoneType",
    }  # fmt: skip
    assert all(one.table.rows and one.table.is_whole and one.sources for one in found.values())
    for one in found.values():
        if isinstance(one.drawing, Chart):
            assert all(path for _, path in drawn(one.drawing).paths), one.title


def test_curves_of_one_name_are_compared_in_one_chart() -> None:
    found = read(loss("loss", 3, 1.0), loss("loss", 2, 2.0, "validate"))["loss"]
    assert isinstance(found.drawing, Chart)
    assert [(line.name, len(line.points)) for line in found.drawing.lines] == [("train", 3), ("validate", 2)]
    assert found.table.columns == ("iterations", "train", "validate")
    assert found.table.rows[0] == ("0", "1", "2")
    assert found.table.rows[2][2] == "-", "the second curve has ended"


def test_a_curve_that_has_values_which_are_no_numbers_has_gaps() -> None:
    points = [{"metric": value, "step": step} for step, value in enumerate([1.0, math.nan, 3.0, math.inf])]
    found = read({"name": "loss", "data": points})["loss"]
    assert found.note == "2 of the values are no finite number."
    assert isinstance(found.drawing, Chart)
    [(_, path)] = drawn(found.drawing).paths
    assert path.count("M") == 2
    assert len(drawn(found.drawing).dots) == 2


def test_the_largest_distance_of_ks_is_said_in_both_forms() -> None:
    found = read(*METRICS)
    text = "The largest distance is 0.4725, at 0.4 and threshold 0.6."
    most = max((math.sqrt(at / 20) - (at / 20) ** 2, at / 20) for at in range(21))
    assert (round(most[0], 4), most[1]) == (0.4725, 0.4)
    assert found["train: lr_0_ks"].note == found["evaluation: train: train_set: ks_table: K-S"].note == text


def test_a_confusion_matrix_is_that_of_the_middle_threshold() -> None:
    title = "evaluation: train: train_set: confusion_matrix: confusion matrix"
    matrix = read(*METRICS)[title].drawing
    assert matrix == Matrix(0.5, 35.0, 12.0, 15.0, 38.0)
    old = {"namespace": "n", "name": "m", "data": [], "meta": {"tp": 1, "fp": 2, "fn": 3, "tn": 4}}
    assert read(old)["n: m"].drawing == Matrix(None, 1, 2, 3, 4)


def test_statistics_are_rows_by_column_of_the_data() -> None:
    table = read(*METRICS)["metrics_summary"].table
    assert table.columns == ("name", "mean", "std", "min", "max")
    assert table.rows[1] == ("income", "30000", "9000", "0", "-")


def test_a_long_curve_is_drawn_with_its_peaks_and_its_table_says_how_long_it_is() -> None:
    values = [0.0] * 5_000
    values[3_107] = 9.0
    found = read({"name": "loss", "data": [{"metric": one, "step": at} for at, one in enumerate(values)]})["loss"]
    assert isinstance(found.drawing, Chart)
    points = thinned(found.drawing.lines[0].points)
    assert len(points) <= drawing.MOST_POINTS
    assert (3_107.0, 9.0) in points
    assert (len(found.table.rows), found.table.total, found.table.rows[-1][0]) == (MOST_ROWS, 5_000, "4999")


@pytest.mark.parametrize("data", [
    {}, [], {"a": None}, {"a": {"b": {"c": {"d": [[[[1]]]]}}}}, [["x"]], {"a": [{}]},
    {"a": [{"metric": "m", "val": {}}]},
    {"t": {"tpr": ["x", "y"], "fpr": [1, 2]}}, {"t": {"tp": [], "fp": [], "fn": [], "tn": []}},
    {"t": {"liftx": [[1], [2]], "lifty": [1, 2]}}, {"weights": {"a": 1e308, "b": -1e308}}, {"t": {"p": [1, 2]}},
])  # fmt: skip
def test_odd_metrics_have_a_table_and_break_nothing(data: object) -> None:
    for one in read({"name": "odd", "data": data}).values():
        if isinstance(one.drawing, Chart):
            drawn(one.drawing)
        if isinstance(one.drawing, Bars):
            drawn_bars(one.drawing)
        assert all(isinstance(cell, str) for row in one.table.rows for cell in row)


@pytest.mark.parametrize(("low", "high"), [
    (0.0, 1.0), (-3.2, 17.0), (1e-9, 2e-9), (999_999.5, 1_000_001.0), (-1e6, 1e6),
])  # fmt: skip
def test_ticks_are_round_numbers_within_the_axis(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 3 <= len(found) <= 7
    assert all(low - 1e-6 * (high - low) <= one <= high + 1e-6 * (high - low) for one in found)


def test_a_line_of_one_value_and_a_chart_without_values_are_drawn() -> None:
    flat = drawn(Chart("x", "y", (Line("a", ((1.0, 5.0), (2.0, 5.0))),)))
    assert flat.paths[0][1].startswith("M")
    assert drawn(Chart("x", "y", (Line("a", ((1.0, None),)),))).paths == (("a", ""),)


def test_bars_go_to_the_left_for_negative_values() -> None:
    up, down = drawn_bars(Bars("value", (("a", 2.0), ("b", -1.0))))
    assert up.x == pytest.approx(down.x + down.width, abs=0.2)
    assert up.width == pytest.approx(2 * down.width, abs=0.2)


def test_cells_are_short() -> None:
    assert [as_text(one) for one in (None, True, 1 / 3, 10, "x")] == ["-", "true", "0.333333", "10", "x"]
