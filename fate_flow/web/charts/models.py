"""Models as charts and tables: those that FATE 2's components write as JSON, and any other JSON as a table.

What a model is, is read off its keys: a file of another release lacks some of them, and is then shown as a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fate_flow.web.charts.heat import heat_block
from fate_flow.web.charts.reading import value_blocks
from fate_flow.web.charts.tables import number_of
from fate_flow.web.charts.trees import tree_block
from fate_flow.web.charts.values import Bars, Block, table_of

Object = Mapping[str, Any]


def model_blocks(value: Any) -> tuple[Block, ...]:
    """Return what a page shows of a model."""
    data = value.get("data", value) if isinstance(value, Mapping) else value
    if not isinstance(data, Mapping):
        return tuple(value_blocks("model", value))
    found: list[Block] = []
    for keys, read in _READERS:
        if keys <= data.keys():
            found = list(read(data))
            break
    return tuple(found or value_blocks("model", value))


# ---------------------------------------------------------------------- columns that belong together


def _correlation(data: Object) -> Iterator[Block]:
    """Yield the maps of Pearson's coefficients, and the factors by which a column is explained by the others."""
    for key, title in (("local_corr", "Correlation here"), ("remote_corr", "Correlation with the other party")):
        if _is_objects(data.get(key)):
            yield heat_block(f"{title} (Pearson)", data[key])
    if _numbers(data.get("vif")):
        yield _bars("Variance inflation factor", _numbers(data["vif"]), "factor")


def _importance(data: Object) -> Iterator[Block]:
    names = _object(data.get("fid_name_mapping"))
    rows = [
        (str(names.get(key, key)), number_of(one.get("gain")), one.get("split"))
        for key, one in _object(data.get("feature_importance")).items() if isinstance(one, Mapping)
    ]  # fmt: skip
    rows.sort(key=lambda row: -(row[1] or 0.0))
    if rows:
        bars = tuple((name, gain) for name, gain, _ in rows if gain is not None)
        table = table_of(("column", "gain", "splits"), rows)
        yield Block("Feature importance", table, Bars("gain", bars) if bars else None)


def _trees(data: Object) -> Iterator[Block]:
    yield from _importance(data)
    names = _object(data.get("fid_name_mapping"))
    trees = data["trees"] if isinstance(data["trees"], list) else []
    for number, tree in enumerate(trees, 1):
        nodes = _object(tree).get("nodes")
        block = tree_block(f"Tree {number} of {len(trees)}", nodes, names) if isinstance(nodes, list) else None
        if block is not None:
            yield block


# ---------------------------------------------------------------------- regressions


def _regression(data: Object) -> Iterator[Block]:
    """Yield the weights of this party's columns; of a logistic regression with several classes, for each class."""
    estimator = _object(data["estimator"])
    if _is_trained(estimator):
        yield from _weights("Coefficients", estimator)
    elif estimator and all(_is_trained(_object(one)) for one in estimator.values()):
        for label, one in estimator.items():
            yield from _weights(f"Coefficients of class {label}", one)


def _is_trained(estimator: Object) -> bool:
    return "coef_" in _object(estimator.get("param"))


def _weights(title: str, estimator: Object) -> Iterator[Block]:
    """FATE has a list of one number for each column, and another one for the intercept, which one party has alone."""
    param, names = _object(estimator["param"]), estimator.get("header")
    columns = [str(one) for one in names] if isinstance(names, list) else []
    weights = [_only_number(one) for one in param["coef_"]] if _is_list(param["coef_"]) else []
    if not weights or len(columns) != len(weights):
        return
    found = [*zip(columns, weights, strict=True)]
    found.sort(key=lambda one: -abs(one[1] or 0.0))
    intercept = _only_number(param.get("intercept_"))
    rows = [*found, *([("intercept", intercept)] if intercept is not None else [])]
    bars = tuple((name, value) for name, value in rows if value is not None)
    has, last = estimator.get("is_converged"), number_of(estimator.get("end_epoch"))
    is_known = isinstance(has, bool) and last is not None
    # FATE counts from 0 where it ends early, and otherwise gives the number of all rounds.
    note = f"It has {'' if has else 'not '}converged in {(last or 0) + bool(has):.0f} rounds." if is_known else ""
    yield Block(title, table_of(("column", "coefficient"), rows), Bars("coefficient", bars) if bars else None, note)


def _only_number(value: Any) -> float | None:
    return number_of(value[0] if _is_list(value) and len(value) == 1 else value)


# ---------------------------------------------------------------------- binning


def _binning(data: Object) -> Iterator[Block]:
    limits, counts = _object(data.get("split_pt_dict")), _object(data.get("bin_count_dict"))
    for place, summary in _summaries(data):
        iv = _numbers(summary.get("iv"))
        if iv:
            yield _bars(f"Information value{place}", iv, "IV")
        monotonic = _object(summary.get("is_monotonic"))
        for column in _object(summary.get("woe")):
            yield _bins(column, place, summary, _object(limits.get(column)) if not place else {}, monotonic.get(column))
    if data.get("metrics_summary") is None:
        rows = [(column, counts.get(column), _listed(one)) for column, one in limits.items()]
        yield Block("Bins", table_of(("column", "bins", "upper limits"), rows))


def _summaries(data: Object) -> Iterator[tuple[str, Object]]:
    """Yield what was computed of the own columns, and of those of other parties."""
    if _object(data.get("metrics_summary")):
        yield "", data["metrics_summary"]
    for party, one in _object(data.get("host_metrics_summary")).items():
        if _object(one):
            yield f" of {party}", one


def _bins(column: str, place: str, summary: Object, limits: Object, is_monotonic: Any) -> Block:
    """Return the weight of evidence of each bin of a column, in the order of bins."""
    columns = [
        _object(_object(summary.get(key)).get(column))
        for key in ("event_count", "non_event_count", "event_rate", "non_event_rate", "woe", "iv_array")
    ]  # fmt: skip
    bins = sorted({key for one in columns for key in one}, key=_order)
    rows = [(key, limits.get(key), *(one.get(key) for one in columns)) for key in bins]
    weights = tuple((f"bin {key}", value) for key in bins if (value := number_of(columns[4].get(key))) is not None)
    names = ("bin", "up to", "events", "non-events", "of all events", "of all non-events", "WOE", "IV")
    order = {True: "It rises or falls with the bins all along.", False: "It does not rise or fall all along."}
    note = order.get(is_monotonic, "") if isinstance(is_monotonic, bool) else ""
    drawing = Bars("WOE", weights) if weights else None
    return Block(f"{column}{place}: weight of evidence", table_of(names, rows), drawing, note)


# ---------------------------------------------------------------------- tables of columns


def _scale(data: Object) -> Iterator[Block]:
    info = _object(data["scaler_info"])
    by_column = [key for key, one in info.items() if _numbers(one)]
    columns = list(dict.fromkeys(column for key in by_column for column in info[key]))
    rows = [(column, *(info[key].get(column) for key in by_column)) for column in columns]
    yield Block("Scale of each column", table_of(("column", *by_column), rows))


def _statistics(data: Object) -> Iterator[Block]:
    """Yield a row for each column; FATE stores them by column or by statistic."""
    summary = _object(data["metrics_summary"])
    known = {str(one) for one in data["inner_metric_names"] or ()} if _is_list(data["inner_metric_names"]) else set()
    is_by_statistic = bool(known) and known.issuperset(summary)
    if is_by_statistic:
        columns = dict.fromkeys(column for one in summary.values() for column in _object(one))
        summary = {column: {key: _object(one).get(column) for key, one in summary.items()} for column in columns}
    names = list(dict.fromkeys(key for one in summary.values() for key in _object(one)))
    rows = [(column, *(_object(one).get(name) for name in names)) for column, one in summary.items()]
    yield Block("Statistics of each column", table_of(("column", *names), rows))


def _selection(data: Object) -> Iterator[Block]:
    steps = [one for one in data["selection_obj_list"] if isinstance(one, Mapping)] if (
        _is_list(data["selection_obj_list"])) else []
    hosts = dict.fromkeys(key for one in steps for key in _object(one.get("host_selected_mask")))
    for place in (None, *hosts):
        masks = [
            _object(one.get("selected_mask") if place is None else _object(one.get("host_selected_mask")).get(place))
            for one in steps
        ]  # fmt: skip
        columns = list(dict.fromkeys(column for mask in masks for column in mask))
        if not columns:
            continue
        rows = [(column, *(_kept(mask.get(column)) for mask in masks)) for column in columns]
        names = [f"{at}. {one.get('method', 'step')}" for at, one in enumerate(steps, 1)]
        kept = sum(1 for column in columns if masks[-1].get(column) is True)
        where = "" if place is None else f" of {place}"
        yield Block(
            f"Selection of columns{where}", table_of(("column", *names), rows), None,
            f"{kept} of {len(columns)} columns are left after the last step.",
        )  # fmt: skip
    for at, one in enumerate(steps, 1):
        title = f"Step {at}, {one.get('method', '')}"
        yield from _looked_at(title, one.get("all_metrics"), one.get("all_selected_mask"))
        of_hosts = _object(one.get("all_host_selected_mask"))
        for host, metrics in _object(one.get("all_host_metrics")).items():
            yield from _looked_at(f"{title}, {host}", metrics, of_hosts.get(host))


def _looked_at(title: str, metrics: Any, masks: Any) -> Iterator[Block]:
    """Yield bars of each value by which a step has chosen, the largest first, and what the value alone decided."""
    by_column, chosen = _object(metrics), _object(masks)
    if metrics and not _is_objects(metrics):
        yield from value_blocks(title, metrics)
        return
    for name in dict.fromkeys(name for one in by_column.values() for name in _object(one)):
        numbers = {column: number_of(_object(one).get(name)) for column, one in by_column.items()}
        ranked = sorted(((column, one) for column, one in numbers.items() if one is not None), key=lambda one: -one[1])
        kept = {column: _kept(_object(chosen.get(column)).get(name)) for column in numbers}
        bars = Bars(name, tuple((f"{_SIGNS.get(kept[column], '')}{column}", value) for column, value in ranked))
        in_order = [*dict(ranked), *(column for column, value in numbers.items() if value is None)]
        rows = [(column, _object(by_column[column]).get(name), kept[column]) for column in in_order]
        table = table_of(("column", name, "by this value"), rows)
        yield Block(
            f"{title}: {name} of each column", table, bars if ranked else None,
            "✓: the value was enough to keep the column, ✗: it was not. The model does not have the threshold; it is a "
            "parameter of the task.",
        )  # fmt: skip


_SIGNS = {"kept": "✓ ", "removed": "✗ "}


def _kept(value: Any) -> str:
    return "kept" if value is True else "removed" if value is False else "-"


# ---------------------------------------------------------------------- parts


_READERS = (
    (frozenset({"trees"}), _trees), (frozenset({"local_corr"}), _correlation),
    (frozenset({"split_pt_dict"}), _binning), (frozenset({"scaler_info"}), _scale),
    (frozenset({"selection_obj_list"}), _selection), (frozenset({"estimator"}), _regression),
    (frozenset({"inner_metric_names", "metrics_summary"}), _statistics),
)  # fmt: skip
"""By the keys that such a model has. The first that fits counts."""


def _bars(title: str, numbers: Mapping[str, float], name: str) -> Block:
    rows = sorted(numbers.items(), key=lambda one: -abs(one[1]))
    return Block(title, table_of(("column", name), rows), Bars(name, tuple(rows)))


def _object(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}


def _is_objects(value: Any) -> bool:
    return bool(_object(value)) and all(isinstance(one, Mapping) for one in value.values())


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _numbers(value: Any) -> Mapping[str, float]:
    """Return the numbers of an object of numbers; {} for anything else."""
    found = {key: number_of(one) for key, one in _object(value).items()}
    return {key: one for key, one in found.items() if one is not None}


def _order(key: str) -> tuple[float, str]:
    """Bins are numbered, and their keys are texts in JSON."""
    try:
        return float(key), key
    except ValueError:
        return float("inf"), key


def _listed(value: Any) -> str:
    found = _object(value)
    return ", ".join(str(found[key]) for key in sorted(found, key=_order))
