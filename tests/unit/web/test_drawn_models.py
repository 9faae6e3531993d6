"""Models on the board: what FATE 2's components write, as drawings with their tables, and who may see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.client_roles import AUDIT, READ, SUBMIT
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.web.charts.drawing import drawn_bars
from fate_flow.web.charts.heat import MOST_DRAWN, Heat, drawn_heat, is_correlation
from fate_flow.web.charts.models import model_blocks
from fate_flow.web.charts.trees import MOST_NODES, Tree, drawn_tree, tree_block
from fate_flow.web.charts.values import Bars, Block
from tests.kit.api.client_world import make_world
from tests.kit.web.browser import Browser
from tests.kit.web.filled_task import CORRELATION, MODEL, NAME, add_filled_task


def blocks(data: Any) -> dict[str, Block]:
    return {one.title: one for one in model_blocks(data)}


SUMMARY = {
    "event_count": {"age": {"0": 4, "1": 6, "10": 0}}, "non_event_count": {"age": {"0": 8, "1": 2, "10": 0}},
    "event_rate": {"age": {"0": 0.4, "1": 0.6}}, "non_event_rate": {"age": {"0": 0.8, "1": 0.2}},
    "woe": {"age": {"0": -0.69, "1": 1.1, "10": float("nan")}}, "iv_array": {"age": {"0": 0.27, "1": 0.44}},
    "is_monotonic": {"age": True}, "iv": {"age": 0.44, "income": 0.02},
}  # fmt: skip


def estimator(weights: list[float], intercept: float | None, **more: Any) -> dict[str, Any]:
    """As `get_model` of FATE 2.2's estimators writes it: a tensor of one column, as lists."""
    param = {"coef_": [[one] for one in weights], "dtype": "float32",
             "intercept_": None if intercept is None else [intercept]}  # fmt: skip
    header = [f"x{number}" for number in range(len(weights))]
    return {"param": param, "header": header, "fit_intercept": intercept is not None, "is_converged": False,
            "end_epoch": 4, "optimizer": {"state": {}}, **more}  # fmt: skip


@pytest.mark.parametrize(("intercept", "more"), [(0.25, {}), (None, {}), (0.25, {"lr": 0.05})])
def test_a_regression_has_its_coefficients_the_largest_first(intercept: float | None, more: dict[str, Any]) -> None:
    """Of both sides of a coordinated regression, a linear one, and one on secret shares."""
    [block] = model_blocks({"data": {"estimator": estimator([0.5, -1.5], intercept, **more)}, "meta": {"epochs": 4}})
    assert block.title == "Coefficients"
    rows = (("x1", -1.5), ("x0", 0.5), *([("intercept", intercept)] if intercept else []))
    assert block.drawing == Bars("coefficient", rows)
    assert block.table.columns == ("column", "coefficient")
    assert block.table.rows == tuple((name, f"{value:g}") for name, value in rows)
    assert block.note == "It has not converged in 4 rounds."


def test_a_regression_with_several_classes_has_coefficients_for_each() -> None:
    of_each = {"0": estimator([1.0], 0.5, is_converged=True, end_epoch=1), "1": estimator([float("nan")], None)}
    found = blocks({"data": {"estimator": of_each}, "meta": {"ovr": True, "labels": [0, 1]}})
    assert list(found) == ["Coefficients of class 0", "Coefficients of class 1"]
    assert found["Coefficients of class 0"].note == "It has converged in 2 rounds."
    assert found["Coefficients of class 1"].drawing is None
    assert found["Coefficients of class 1"].table.rows == (("x0", "-"),)


@pytest.mark.parametrize("odd", [
    estimator([1.0], None, header=["a", "b"]), {"param": {"coef_": 3}, "header": []}, {"param": None}, [], {"0": {}},
])  # fmt: skip
def test_a_regression_of_another_form_is_tables(odd: Any) -> None:
    assert "Coefficients" not in blocks({"data": {"estimator": odd}})


def test_binning_has_iv_and_the_weight_of_evidence_by_bin() -> None:
    found = blocks({"data": {
        "split_pt_dict": {"age": {"0": 30.5, "1": 50.0}}, "bin_count_dict": {"age": 2}, "metrics_summary": SUMMARY,
        "host_metrics_summary": {"host_10000": SUMMARY},
    }, "meta": {"model_type": "binning"}})  # fmt: skip
    assert list(found) == [
        "Information value", "age: weight of evidence", "Information value of host_10000",
        "age of host_10000: weight of evidence",
    ]  # fmt: skip
    assert found["Information value"].table.rows == (("age", "0.44"), ("income", "0.02"))
    of_age = found["age: weight of evidence"]
    assert of_age.drawing == Bars("WOE", (("bin 0", -0.69), ("bin 1", 1.1)))
    assert [row[:3] for row in of_age.table.rows] == [("0", "30.5", "4"), ("1", "50", "6"), ("10", "-", "0")]
    assert of_age.note == "It rises or falls with the bins all along."
    assert found["age of host_10000: weight of evidence"].table.rows[0][1] == "-", "limits of another party"
    assert drawn_bars(of_age.drawing)[0].x < drawn_bars(of_age.drawing)[1].x


def test_binning_without_labels_has_its_limits() -> None:
    found = blocks({"split_pt_dict": {"age": {"10": 9, "2": 3}}, "bin_count_dict": {"age": 2}, "metrics_summary": None})
    assert found["Bins"].table.rows == (("age", "2", "3, 9"),)


def test_correlations_are_a_heat_map() -> None:
    remote = {"age": {"host_x0": 0.5}, "income": {"host_x0": None}}
    found = blocks({"data": {"local_corr": CORRELATION, "remote_corr": remote, "vif": {"age": 1.2, "income": 9.0}}})
    assert list(found) == [
        "Correlation here (Pearson)", "Correlation with the other party (Pearson)", "Variance inflation factor",
    ]  # fmt: skip
    heat = found["Correlation here (Pearson)"].drawing
    assert isinstance(heat, Heat)
    drawn = drawn_heat(heat)
    assert [(one.text, one.sign) for one in drawn.cells[:2]] == [("1.00", "plus"), ("-0.42", "minus")]
    assert max(one.strength for one in drawn.cells) <= 0.45, "text stays readable"
    far = found["Correlation with the other party (Pearson)"]
    assert far.table.rows == (("age", "0.5"), ("income", "-"))
    assert isinstance(far.drawing, Heat)
    assert len(drawn_heat(far.drawing).cells) == 1


def test_a_large_heat_map_says_that_it_is_cut() -> None:
    names = [f"x{number}" for number in range(MOST_DRAWN + 1)]
    value = {name: dict.fromkeys(names, 0.0) for name in names}
    [block] = model_blocks({"local_corr": value})
    assert isinstance(block.drawing, Heat)
    assert (drawn_heat(block.drawing).is_cut, len(block.table.rows)) == (True, MOST_DRAWN + 1)


@pytest.mark.parametrize(("value", "expected"), [
    (CORRELATION, True), ({"a": {"a": 1.0}}, False), ({"a": {"a": 1, "b": 2}, "b": {"a": 2, "b": 1}}, False),
    ({"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 1}}, False), ([1], False), ({"a": 1, "b": 2}, False),
])  # fmt: skip
def test_what_is_a_correlation(value: Any, expected: bool) -> None:
    assert is_correlation(value) is expected


@pytest.mark.parametrize(("fid", "bid", "shown", "drawn"), [
    ("age", 12, "age ≤ bin 12", "age ≤ bin 12"), (0, 12, "column 0 ≤ bin 12", "column 0 ≤ bin 12"),
    ("age", -0.26739999651908875, "age ≤ -0.2674", "age ≤ -0.2674"), (None, None, "its column", "its column"),
    ("monthly_income_of_household", 12, "monthly_income_of_household ≤ bin 12", "monthly_i… ≤ bin 12"),
    ("monthly_income_of_household", None, "monthly_income_of_household", "monthly_income_of_…"),
])  # fmt: skip
def test_a_box_shows_where_it_splits_also_by_a_long_name(fid: object, bid: object, shown: str, drawn: str) -> None:
    node = {"nid": 0, "l": 1, "r": 2, "fid": fid, "bid": bid, "sample_num": 9, "sitename": "host_10000"}
    block = tree_block("t", [node], {})
    assert block is not None
    assert block.table.rows[0][1] == shown, "the table has all of it"
    assert isinstance(block.drawing, Tree)
    [one] = drawn_tree(block.drawing).nodes
    assert (one.text, one.place) == (drawn, "host_10000, 9 rows")


def test_trees_are_drawn_with_names_and_importance() -> None:
    found = blocks(MODEL)
    assert list(found) == ["Feature importance", "Tree 1 of 2", "Tree 2 of 2"]
    assert found["Feature importance"].table.rows == (("income", "7.25", "1"), ("age", "4.5", "2"))
    tree = found["Tree 1 of 2"].drawing
    assert isinstance(tree, Tree)
    drawn = drawn_tree(tree)
    assert [(one.text, one.x, one.y, one.is_leaf) for one in drawn.nodes] == [
        ("age ≤ bin 3", 280.0, 2, False), ("income ≤ bin 3", 160.0, 76, False), ("weight 0.2", 400.0, 76, True),
        ("weight 0.3", 80.0, 150, True), ("weight 0.4", 240.0, 150, True),
    ]  # fmt: skip
    assert len(drawn.edges) == 4
    assert drawn.nodes[0].place == "guest_9999, 100 rows"


def test_broken_trees_end_and_large_ones_have_their_table_alone() -> None:
    itself = tree_block("t", [{"nid": 0, "l": 1, "r": 0}, {"nid": 1, "l": 0, "r": 7}], {})
    assert itself is not None
    assert isinstance(itself.drawing, Tree)
    assert drawn_tree(itself.drawing).nodes == (), "no node is above all others"
    large = tree_block("t", [{"nid": number, "l": -1, "r": -1} for number in range(MOST_NODES + 1)], {})
    assert large is not None
    assert (large.drawing, large.table.total) == (None, MOST_NODES + 1)
    assert tree_block("t", [{"nid": 0}, {"nid": 0}], {}) is None
    assert tree_block("t", ["x"], {}) is None


def test_scale_statistics_and_selection_have_a_row_for_each_column() -> None:
    scale = blocks({"data": {"scaler_info": {
        "mean": {"age": 41.5}, "mean_dtype": "float64", "std": {"age": 2.5}, "select_col": ["age"],
    }}})  # fmt: skip
    assert scale["Scale of each column"].table.columns == ("column", "mean", "std")
    by_column = {"inner_metric_names": ["mean", "std"], "metrics_summary": {"age": {"mean": 1.5, "std": 2}}}
    by_statistic = {"inner_metric_names": ["mean", "std"], "metrics_summary": {"mean": {"age": 1.5}, "std": {"age": 2}}}
    for data in (by_column, by_statistic):
        table = blocks({"data": data})["Statistics of each column"].table
        assert (table.columns, table.rows) == (("column", "mean", "std"), (("age", "1.5", "2"),))
    selection = blocks({"data": {"inner_method": ["manual", "iv"], "selection_obj_list": [
        {"method": "manual", "selected_mask": {"age": True, "income": True}},
        {"method": "iv", "selected_mask": {"age": True, "income": False},
         "all_metrics": {"income": {"iv": 0.1}, "age": {"iv": 0.4}},
         "all_selected_mask": {"age": {"iv": True}, "income": {"iv": False}},
         "host_selected_mask": {"host_10000": {"x0": False}}, "all_host_metrics": {"host_10000": {"x0": {"iv": 0.05}}},
         "all_host_selected_mask": {"host_10000": {"x0": {"iv": False}}}},
    ]}})  # fmt: skip
    own = selection["Selection of columns"]
    assert own.table.rows == (("age", "kept", "kept"), ("income", "kept", "removed"))
    assert own.note == "1 of 2 columns are left after the last step."
    assert selection["Selection of columns of host_10000"].table.rows == (("x0", "-", "removed"),)
    looked_at = selection["Step 2, iv: iv of each column"]
    assert looked_at.drawing == Bars("iv", (("✓ age", 0.4), ("✗ income", 0.1)))
    assert looked_at.table.rows == (("age", "0.4", "kept"), ("income", "0.1", "removed"))
    assert "the threshold; it is a parameter of the task" in looked_at.note
    assert selection["Step 2, iv, host_10000: iv of each column"].drawing == Bars("iv", (("✗ x0", 0.05),))


@pytest.mark.parametrize("value", [
    {"a": 1}, [1, 2], "text", None, {}, {"data": None}, {"trees": 7}, {"trees": [7]}, {"split_pt_dict": [1]},
    {"local_corr": 3}, {"scaler_info": "x"}, {"selection_obj_list": "x"}, {"selection_obj_list": []},
    {"inner_metric_names": 1, "metrics_summary": [2]}, {"split_pt_dict": {}, "metrics_summary": {"woe": {"a": 3}}},
    {"feature_importance": {"0": 3}, "trees": []},
    {"selection_obj_list": [
        {"selected_mask": {"a": True}, "all_metrics": [1], "all_selected_mask": 3},
        {"all_metrics": {"a": {"iv": "x"}}, "all_host_metrics": {"h": 3, "i": {"b": {"iv": None}}}},
    ]},
])  # fmt: skip
def test_odd_content_is_shown_as_tables_and_breaks_nothing(value: Any) -> None:
    assert {type(one.drawing) for one in model_blocks(value)} <= {type(None), Bars}


def test_the_page_shows_the_model_to_who_may_read_models(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"))
    path = f"/board/jobs/{add_filled_task(world)}/tasks/{NAME}"
    for roles, status in ((READ | AUDIT, 403), (READ | SUBMIT, 200)):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        assert browser.get(f"{path}/model?output=model").status_code == status
        hrefs = " ".join(str(one.attributes.get("href")) for one in browser.page(path).tags)
        assert ("output=model" in hrefs) is (status == 200)
    readable = browser.page(f"{path}/model?output=model").readable
    assert "Feature importance" in readable
    assert "Tree 2 of 2" in readable
    assert "model credit, version 3" in readable
    assert "has stored no model" in browser.page(f"{path}/model?output=other", 404).readable
    page = browser.page(f"{path}/metrics").text
    assert 'class="chart heat"' in page, "numbers for pairs of names among metrics are a map, too"
