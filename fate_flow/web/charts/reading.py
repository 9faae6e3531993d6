"""From metrics to charts and tables, in the forms in which FATE 1, FATE 2 and our trackers report them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fate_flow.core.metrics.form import axis_of, is_curve
from fate_flow.store.values import Metric
from fate_flow.web.charts.heat import heat_block, is_correlation
from fate_flow.web.charts.tables import Source, blocks_of, is_columns, ks_note, number_of, points, precision_recall
from fate_flow.web.charts.values import Bars, Block, Chart, Line, Matrix, table_of

MOST_LINES = 8
_DEEPEST = 8
_NOWHERE = ("", "")
_LONGEST = 300
_WEIGHTS = re.compile(r"importance|weight|coef|(^|[^a-z])iv($|[^a-z])", re.IGNORECASE)
_FATE_1 = {
    "ROC_EVALUATION": ("false positive rate", "true positive rate"), "LIFT_EVALUATION": ("share of the rows", "lift"),
    "GAIN_EVALUATION": ("share of the rows", "gain"), "ACCURACY_EVALUATION": ("share of the rows", "accuracy"),
    "PRECISION_EVALUATION": ("share of the rows", "precision"), "RECALL_EVALUATION": ("share of the rows", "recall"),
    "KS_EVALUATION": ("share of the rows", "rate"),
}  # fmt: skip
"""The axes of curves of FATE 1, by metric type."""


def blocks(metrics: Sequence[Metric]) -> tuple[Block, ...]:
    """Return what a page shows of the metrics of a task: curves first, then everything else in its order."""
    curves, old, rest = list[Metric](), list[Metric](), list[Metric]()
    for one in metrics:
        (curves if is_curve(one.data, one.meta) else old if _is_curve_of_fate_1(one) else rest).append(one)
    return (*_curves(curves), *_curves_of_fate_1(old), *(block for one in rest for block in _others(one)))


def _source(metric: Metric) -> Source:
    return metric.namespace, metric.name


# ---------------------------------------------------------------------- curves


def _curves(metrics: Sequence[Metric]) -> Iterator[Block]:
    """Yield a chart for each name: a training and a validation loss are compared on one scale."""
    by_name: dict[tuple[str, str], list[tuple[Line, Metric]]] = {}
    for metric in metrics:
        for suffix, line in _lines(metric):
            by_name.setdefault((f"{metric.name}{suffix}", axis_of(metric.meta)), []).append((line, metric))
    for (name, axis), found in sorted(by_name.items(), key=lambda one: "loss" not in one[0][0].lower()):
        for first in range(0, len(found), MOST_LINES):
            some = found[first : first + MOST_LINES]
            lines = tuple(line for line, _ in some)
            yield Block(
                name, _table_of_lines(axis, lines), Chart(axis, name, lines), _gaps(lines),
                tuple(dict.fromkeys(_source(metric) for _, metric in some)),
            )  # fmt: skip


def _lines(metric: Metric) -> Iterator[tuple[str, Line]]:
    """Yield the lines of a curve; FATE's losses are lists of one value, those of several classes have more."""
    values = [one[1] if isinstance(one[1], list) else [one[1]] for one in metric.data]
    width = max(map(len, values))
    for place in range(width):
        column = [one[place] if place < len(one) else None for one in values]
        suffix = f"[{place}]" if width > 1 else ""
        yield suffix, Line(metric.namespace, points([one[0] for one in metric.data], column))


def _is_curve_of_fate_1(metric: Metric) -> bool:
    keys = [number_of(one[0]) for one in metric.data]
    values = [number_of(one[1]) for one in metric.data]
    return len(keys) > 1 and None not in keys and any(one is not None for one in values)


def _curves_of_fate_1(metrics: Sequence[Metric]) -> Iterator[Block]:
    """Yield the charts of curves that have a metric each: K-S and precision with recall are two of them."""
    by_family: dict[tuple[str, str, str], list[Metric]] = {}
    for metric in metrics:
        kind = str(metric.meta.get("metric_type") or "")
        family = re.sub(r"_(tpr|fpr)$", "", metric.name) if kind == "KS_EVALUATION" else metric.name
        by_family.setdefault((metric.namespace, family, kind), []).append(metric)
    for (namespace, family, kind), some in by_family.items():
        lines = tuple(Line(one.name.removeprefix(f"{family}_"), _points(one)) for one in some)
        x_name, y_name = _FATE_1.get(kind, (axis_of(some[0].meta), family))
        rates = {line.name: line.points for line in lines}
        is_ks = {"tpr", "fpr"} <= set(rates)
        note = ks_note(rates["tpr"], rates["fpr"], some[0].meta.get("thresholds")) if is_ks else ""
        yield Block(
            f"{namespace}: {family}", _table_of_lines(x_name, lines),
            Chart(x_name, y_name, lines, has_diagonal=kind == "ROC_EVALUATION"), note, tuple(map(_source, some)),
        )  # fmt: skip
    yield from _precision_recall_of_fate_1(metrics)


def _precision_recall_of_fate_1(metrics: Sequence[Metric]) -> Iterator[Block]:
    found = {(one.namespace, one.name): one for one in metrics}
    for (namespace, name), recall in found.items():
        precision = found.get((namespace, f"{name.removesuffix('recall')}precision"))
        if name.endswith("recall") and precision is not None and len(precision.data) == len(recall.data):
            title = f"{namespace}: {name.removesuffix('recall').rstrip('_')}"
            of_precision, of_recall = ([one[1] for one in metric.data] for metric in (precision, recall))
            yield precision_recall(title, of_precision, of_recall, (_source(precision), _source(recall)))


def _points(metric: Metric) -> tuple[tuple[float, float | None], ...]:
    return points([one[0] for one in metric.data], [one[1] for one in metric.data])


def _table_of_lines(axis: str, lines: Sequence[Line]) -> Any:
    """Return a row for each place on the axis; several lines have a column each, as far as their names differ."""
    rows: dict[float, list[float | None]] = {}
    for place, line in enumerate(lines):
        for x, y in line.points:
            rows.setdefault(x, [None] * len(lines))[place] = y
    names = [line.name for line in lines]
    columns = names if len(set(names)) == len(names) else [f"{name} ({at})" for at, name in enumerate(names, 1)]
    return table_of((axis, *columns), [(x, *rows[x]) for x in sorted(rows)], is_end=True)


def _gaps(lines: Sequence[Line]) -> str:
    count = sum(1 for line in lines for _, y in line.points if y is None)
    return "" if not count else f"{count} of the values {'is' if count == 1 else 'are'} no finite number."


# ---------------------------------------------------------------------- everything else


def _others(metric: Metric) -> Iterator[Block]:
    source = _source(metric)
    if {"tp", "fp", "fn", "tn"} <= metric.meta.keys():
        yield from _matrix_of_fate_1(metric)
        return
    names = [str(one[0]) for one in metric.data]
    is_object = len(set(names)) == len(names)
    value: Any = dict(zip(names, (one[1] for one in metric.data), strict=True)) if is_object else list(metric.data)
    title = metric.name if metric.namespace in ("", "default") else f"{metric.namespace}: {metric.name}"
    yield from _read(title, value, source, 0)


def value_blocks(title: str, value: Any) -> Iterator[Block]:
    """Yield the blocks of a value that belongs to no metric, such as a model."""
    for one in _read(title, value, _NOWHERE, 0):
        yield replace(one, sources=())


def _matrix_of_fate_1(metric: Metric) -> Iterator[Block]:
    columns = {name: metric.meta[name] for name in ("tp", "fp", "fn", "tn")}
    thresholds = metric.meta.get("thresholds")
    if isinstance(thresholds, list) and all(isinstance(one, list) for one in columns.values()):
        columns["threshold"] = thresholds
    if is_columns(columns):
        yield from blocks_of(f"{metric.namespace}: {metric.name}", columns, _source(metric))
        return
    numbers = [number_of(one) or 0.0 for one in columns.values()]
    table = table_of(("tp", "fp", "fn", "tn"), [numbers])
    yield Block(f"{metric.namespace}: {metric.name}", table, Matrix(None, *numbers), "", (_source(metric),))


def _read(title: str, value: Any, source: Source, depth: int) -> Iterator[Block]:
    """Yield the blocks of a value: tables and groups of numbers by themselves, single values in one table."""
    if is_columns(value):
        yield from blocks_of(title, value, source)
    elif isinstance(value, list) and value and all(_is_entry(one) for one in _flat(value)):
        yield from _evaluation(title, _flat(value), source)
    elif is_correlation(value):
        yield replace(heat_block(title, value), sources=(source,))
    elif isinstance(value, Mapping) and value and _is_grid(value):
        yield _grid(title, value, source)
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        yield from _object(title, value, source, depth)
    else:
        yield Block(title, table_of(("value",), [(_short(value),)]), sources=(source,))


def _object(title: str, value: Mapping[str, Any], source: Source, depth: int) -> Iterator[Block]:
    inner = {key: one for key, one in value.items() if isinstance(one, Mapping | list) and one and not _is_plain(one)}
    plain = {key: one for key, one in value.items() if key not in inner}
    if plain:
        yield _values(title, plain, source)
    for key, one in inner.items():
        yield from _read(f"{title}: {key}", one, source, depth + 1)


def _values(title: str, plain: Mapping[str, Any], source: Source) -> Block:
    """Return a table of names and values; of weights with a drawing, the largest first."""
    numbers = {key: found for key, one in plain.items() if (found := number_of(one)) is not None}
    drawing = None
    rows = [(key, _short(one)) for key, one in plain.items()]
    if len(numbers) == len(plain) > 1 and _WEIGHTS.search(title):
        ranked = sorted(numbers.items(), key=lambda one: -abs(one[1]))
        drawing = Bars("value", tuple(ranked))
        rows = [(key, plain[key]) for key, _ in ranked]
    return Block(title, table_of(("name", "value"), rows), drawing, "", (source,))


def _evaluation(title: str, entries: Sequence[Mapping[str, Any]], source: Source) -> Iterator[Block]:
    """Yield what FATE 2's evaluation says of one set of rows: single values in a table, tables with their charts."""
    single = {str(one["metric"]): one["val"] for one in entries if not is_columns(one["val"])}
    if single:
        yield Block(title, table_of(("metric", "value"), [(key, _short(one)) for key, one in single.items()]),
                    sources=(source,))  # fmt: skip
    tables = {str(one["metric"]): one["val"] for one in entries if is_columns(one["val"])}
    for name, columns in tables.items():
        yield from blocks_of(f"{title}: {name}", columns, source)
    found: dict[str, Sequence[Any]] = {}
    for columns in tables.values():
        for short, name in (("p", "precision"), ("r", "recall")):
            if short in columns or name in columns:
                found[name] = columns[short if short in columns else name]
    if len(found) == 2 and len(found["precision"]) == len(found["recall"]):
        yield precision_recall(title, found["precision"], found["recall"], (source,))


def _grid(title: str, value: Mapping[str, Mapping[str, Any]], source: Source) -> Block:
    """Return a row for each name, such as a column of a table, with what was found out about it."""
    columns = list(dict.fromkeys(key for one in value.values() for key in one))
    rows = [(name, *(_short(one.get(key)) for key in columns)) for name, one in value.items()]
    return Block(title, table_of(("name", *columns), rows), sources=(source,))


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() >= {"metric", "val"}


def _flat(value: Sequence[Any]) -> list[Any]:
    return [inner for one in value for inner in (_flat(one) if isinstance(one, list) else [one])]


def _is_grid(value: Mapping[str, Any]) -> bool:
    """Return whether these are objects of plain values, with names in common: rows of one table."""
    if not all(isinstance(one, Mapping) and one and all(map(_is_plain, one.values())) for one in value.values()):
        return False
    return len(value) > 1 and len({key for one in value.values() for key in one}) <= 40


def _is_plain(value: Any) -> bool:
    """Return whether a value fits into a cell: a text, a number, or a short list of them."""
    if isinstance(value, list):
        return len(value) <= 10 and not any(isinstance(one, list | Mapping) for one in value)
    return not isinstance(value, Mapping)


def _short(value: Any) -> Any:
    if not isinstance(value, list | Mapping):
        return value if not isinstance(value, str) or len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value)})"
    text = ", ".join(map(str, value)) if _is_plain(value) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
