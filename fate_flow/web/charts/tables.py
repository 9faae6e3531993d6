"""Charts of tables of equal columns, as FATE's evaluation stores them: ROC, K-S, lift, gain and their like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fate_flow.web.charts.values import Block, Chart, Line, Matrix, Point, table_of

Columns = Mapping[str, Sequence[Any]]
Source = tuple[str, str]

MIDDLE = 0.5
"""The threshold at which a confusion matrix is shown."""
_OVER_THRESHOLD = {
    "p": "precision", "precision": "precision", "r": "recall", "recall": "recall", "accuracy": "accuracy",
    "f_score": "F score",
}  # fmt: skip


def number_of(value: Any) -> float | None:
    """Return a number that can be drawn; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None      # NaN is not below it either


def is_columns(value: Any) -> bool:
    """Return whether this is a table: an object of lists of one length."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(one, list) for one in value.values()):
        return False
    if any(_has_objects(cell) for column in value.values() for cell in column):
        return False
    return len({len(one) for one in value.values()}) == 1 and len(next(iter(value.values()))) > 1


def blocks_of(title: str, columns: Columns, source: Source) -> Iterator[Block]:
    """Yield the charts of a table; what is not known has its table alone."""
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    table = table_of(names, [[_cell(one) for one in row] for row in rows])
    made = list(_charts(title, columns))
    for name, drawing, note in made:
        yield Block(name, table, drawing, note, (source,))
    if not made:
        yield Block(title, table, sources=(source,))


def precision_recall(title: str, precision: Sequence[Any], recall: Sequence[Any], sources: tuple[Source, ...]) -> Block:
    """Return the curve of two columns that were computed for the same thresholds."""
    pairs = [(x, y) for x, y in zip(map(number_of, recall), map(number_of, precision), strict=True) if x is not None]
    chart = Chart("recall", "precision", (Line("precision", tuple(pairs)),))
    return Block(f"{title}: precision and recall", table_of(("recall", "precision"), pairs), chart, "", sources)


def _charts(title: str, columns: Columns) -> Iterator[tuple[str, Chart | Matrix, str]]:
    names = columns.keys()
    if names >= {"tpr", "fpr"}:
        yield f"{title}: ROC", _roc(columns), ""
        yield f"{title}: K-S", *_ks(columns)
    if names >= {"tp", "fp", "fn", "tn"}:
        yield f"{title}: confusion matrix", _matrix(columns), ""
    for name in ("lift", "gain"):
        if names >= {f"{name}x", f"{name}y"}:
            yield f"{title}: {name}", _by_label(name, columns), ""
    known = [name for name in names if name in _OVER_THRESHOLD]
    if "threshold" in names and known and not names & {"tp", "tpr"}:
        lines = tuple(Line(_OVER_THRESHOLD[name], points(columns["threshold"], columns[name])) for name in known)
        texts = ", ".join(_OVER_THRESHOLD[name] for name in known)
        yield f"{title}: {texts}", Chart("threshold", texts, lines), ""


def _roc(columns: Columns) -> Chart:
    line = Line("ROC", points(columns["fpr"], columns["tpr"]))
    return Chart("false positive rate", "true positive rate", (line,), has_diagonal=True)


def _ks(columns: Columns) -> tuple[Chart, str]:
    steps = columns.get("cuts") or list(range(len(columns["tpr"])))
    lines = tuple(Line(name, points(steps, columns[name])) for name in ("tpr", "fpr"))
    chart = Chart("share of the rows, highest scores first", "rate", lines)
    return chart, ks_note(lines[0].points, lines[1].points, columns.get("threshold"))


def ks_note(tpr: Sequence[Point], fpr: Sequence[Point], thresholds: Sequence[Any] | None) -> str:
    """Return the largest distance of the two lines, and where it is."""
    if len(tpr) != len(fpr):
        return ""
    gaps = [(y - other, at) for at, ((_, y), (_, other)) in enumerate(zip(tpr, fpr, strict=True))
            if y is not None and other is not None]  # fmt: skip
    if not gaps:
        return ""
    most, at = max(gaps, key=lambda one: one[0])
    threshold = number_of(thresholds[at]) if thresholds is not None and at < len(thresholds) else None
    where = "" if threshold is None else f" and threshold {threshold:.6g}"
    return f"The largest distance is {most:.6g}, at {tpr[at][0]:.6g}{where}."


def _matrix(columns: Columns) -> Matrix:
    thresholds = [number_of(one) for one in columns.get("threshold") or ()]
    known = [(abs(one - MIDDLE), at) for at, one in enumerate(thresholds) if one is not None]
    at = min(known)[1] if known else 0
    tp, fp, fn, tn = (number_of(columns[name][at]) or 0.0 for name in ("tp", "fp", "fn", "tn"))
    return Matrix(thresholds[at] if known else None, tp, fp, fn, tn)


def _by_label(name: str, columns: Columns) -> Chart:
    """Return the lines of both labels; FATE stores a pair for each threshold, that of label 0 first."""
    xs, ys = columns[f"{name}x"], columns[f"{name}y"]
    if all(isinstance(one, list) and len(one) == 2 for one in (*xs, *ys)):
        lines = tuple(
            Line(f"label {label}", points([one[label] for one in xs], [one[label] for one in ys])) for label in (1, 0)
        )
    else:
        lines = (Line(name, points(xs, ys)),)
    return Chart("share of the rows, highest scores first", name, lines)


def points(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[Point, ...]:
    found = ((number_of(x), number_of(y)) for x, y in zip(xs, ys, strict=True))
    return tuple((x, y) for x, y in found if x is not None)


def _has_objects(cell: Any) -> bool:
    inner = cell if isinstance(cell, list) else ()
    return isinstance(cell, Mapping) or any(isinstance(one, Mapping | list) for one in inner)


def _cell(value: Any) -> Any:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else value
