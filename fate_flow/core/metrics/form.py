"""The form in which metrics are kept, and that of FATE 2.

A metric is kept as `{namespace, name, data, meta}`. The points in `data` are `[key, value]`; those of a curve are
`[step, value]` or `[step, value, seconds since the epoch]`. FATE 2 says `{name, type, groups, step_axis, data}`; both
can be read, and each can be made from the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fate_flow.core.model.grammar import shown
from fate_flow.core.text.phrases import sanitized

LONGEST_NAME = 180
DEFAULT_GROUP = "default"
MOST_BYTES_OF_JOB = 32 * 1024 * 1024
PIECE_BYTES = 256          # what a database takes for a piece of a metric beside names and content: keys, indexes
_FATE_2 = "fate2"                  # in the meta: what the other keys do not say of a metric in FATE 2's form
_CURVE, _OBJECT, _LIST = "curve", "object", "list"
_MOST_WRONG = 5
_V1_KEYS = frozenset({"namespace", "name", "data"})

Kept = dict[str, Any]
"""`{namespace, name, data, meta}`."""


def read_metric(said: Any) -> Kept:
    """Return a metric of either form. Raises ValueError, which names the key and the value."""
    if not isinstance(said, Mapping):
        raise ValueError(f"{shown(said)} is not an object with name and data")
    try:
        return _ours(said) if said.keys() >= _V1_KEYS else _of_fate_2(said)
    except RecursionError:
        raise ValueError(f"metric {shown(said.get('name'))}: it is nested too deeply") from None


def read_metrics(said: Iterable[Any]) -> tuple[list[Kept], list[str]]:
    """Return those that are metrics, and what is wrong with the others."""
    found: list[Kept] = []
    wrong: list[str] = []
    for one in said:
        try:
            found.append(read_metric(one))
        except ValueError as error:
            wrong.append(str(error))
    return found, wrong if len(wrong) <= _MOST_WRONG else [*wrong[:_MOST_WRONG], f"and {len(wrong) - _MOST_WRONG} more"]


def _ours(said: Mapping[str, Any]) -> Kept:
    points, meta = said["data"], said.get("meta") or {}
    name = _name(said)
    if not isinstance(points, list) or not all(isinstance(one, list) and 2 <= len(one) <= 3 for one in points):
        raise ValueError(f"metric {name}: data: {shown(points)} is not a list of [key, value]")
    if not isinstance(meta, Mapping):
        raise ValueError(f"metric {name}: meta: {shown(meta)} is not an object")
    namespace = _text(said["namespace"], f"metric {name}: namespace")
    return {"namespace": namespace, "name": name, "data": plain(points), "meta": plain(dict(meta))}


def _of_fate_2(said: Mapping[str, Any]) -> Kept:
    name = _name(said)
    groups = list(_groups(said.get("groups") or (), name))
    kind, axis = (_optional(said.get(key), f"metric {name}: {key}") for key in ("type", "step_axis"))
    form, points = _points(said.get("data"), name)
    namespace = "/".join(one["name"] if one["index"] is None else f"{one['name']}-{one['index']}" for one in groups)
    meta = {"metric_type": kind, "step_axis": axis, _FATE_2: {"groups": groups, "form": form}}
    return {
        "namespace": sanitized(namespace, LONGEST_NAME) or DEFAULT_GROUP, "name": name, "data": points, "meta": meta,
    }  # fmt: skip


def _name(said: Mapping[str, Any]) -> str:
    return _text(said.get("name"), "name")


def _text(value: Any, key: str) -> str:
    text = sanitized(value, LONGEST_NAME)
    if not text:
        raise ValueError(f"{key}: {shown(value)} is not a text")
    return text


def _optional(value: Any, key: str) -> str | None:
    return None if value is None or value == "" else _text(value, key)


def _groups(said: Any, name: str) -> Iterator[dict[str, Any]]:
    for one in said if isinstance(said, Sequence) and not isinstance(said, str) else [said]:
        index = one.get("index") if isinstance(one, Mapping) else None
        if not isinstance(one, Mapping) or isinstance(index, bool) or not isinstance(index, int | None):
            raise ValueError(f"metric {name}: groups: {shown(one)} is not an object with name and index")
        yield {"name": _text(one.get("name"), f"metric {name}: groups: name"), "index": index}


def _points(data: Any, name: str) -> tuple[str, list[Any]]:
    if isinstance(data, Mapping):
        return _OBJECT, [[str(key), plain(value)] for key, value in data.items()]
    if not isinstance(data, list):
        raise ValueError(f"metric {name}: data: {shown(data)} is neither a list nor an object")
    if data and all(isinstance(one, Mapping) and one.keys() >= {"metric", "step"} for one in data):
        return _CURVE, [list(_step(one)) for one in data]
    return _LIST, [[number, plain(one)] for number, one in enumerate(data)]


def _step(one: Mapping[str, Any]) -> Iterator[Any]:
    yield plain(one["step"])
    yield plain(one["metric"])
    if isinstance(one.get("timestamp"), (int, float)):
        yield plain(one["timestamp"])


def plain(value: Any) -> Any:
    """Return the value as JSON can express it: numbers that are not finite become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


# ---------------------------------------------------------------------- several


def joined(metrics: Iterable[Kept]) -> list[Kept]:
    """Return each metric once. Points come in pieces; what FATE 2 says is no curve counts as it was said last."""
    found: dict[tuple[str, str], Kept] = {}
    for one in metrics:
        known = found.get((one["namespace"], one["name"]))
        if known is None or _comes_whole(one["meta"]):
            found[one["namespace"], one["name"]] = {**one, "data": list(one["data"]), "meta": dict(one["meta"])}
        else:
            known["data"] += one["data"]
            known["meta"] |= one["meta"]
    return list(found.values())


def _comes_whole(meta: Mapping[str, Any]) -> bool:
    said = meta.get(_FATE_2)
    return isinstance(said, Mapping) and said.get("form") != _CURVE


def is_curve(data: Sequence[Sequence[Any]], meta: Mapping[str, Any]) -> bool:
    """Return whether the points belong to steps, as the loss by iterations."""
    return _form(data, meta) == _CURVE


def _form(data: Sequence[Sequence[Any]], meta: Mapping[str, Any]) -> str:
    said = meta.get(_FATE_2)
    if isinstance(said, Mapping):
        return str(said.get("form"))
    steps = [point[0] for point in data]
    is_numbered = bool(steps) and all(isinstance(one, int) and not isinstance(one, bool) for one in steps)
    return _CURVE if is_numbered else _OBJECT


def axis_of(meta: Mapping[str, Any]) -> str:
    """Return what the steps of a curve are; `unit_name` is FATE 1's word."""
    return str(meta.get("step_axis") or meta.get("unit_name") or "step")


def shown_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meta for clients of FATE 1."""
    return {key: value for key, value in meta.items() if key != _FATE_2}


def in_fate_2(namespace: str, name: str, data: Sequence[Sequence[Any]], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metric in FATE 2's form."""
    said, form = meta.get(_FATE_2), _form(data, meta)
    groups = said["groups"] if isinstance(said, Mapping) else [{"name": namespace, "index": None}]
    return {
        "name": name, "type": meta.get("metric_type"), "groups": groups,
        "step_axis": axis_of(meta) if form == _CURVE else None, "data": _in_fate_2(data, form),
    }  # fmt: skip


def _in_fate_2(data: Sequence[Sequence[Any]], form: str) -> Any:
    if form == _CURVE:
        return [{"metric": one[1], "step": one[0], "timestamp": one[2] if len(one) > 2 else None} for one in data]
    return [one[1] for one in data] if form == _LIST else {str(one[0]): one[1] for one in data}


def summary_of(metrics: Iterable[tuple[str, Sequence[Sequence[Any]], Mapping[str, Any]]]) -> dict[str, Any]:
    """Return a summary of metrics `(name, data, meta)`: of a curve the last step, of anything else all of it.

    What a component calls its `summary` stands for itself."""
    found: dict[str, Any] = {}
    for name, data, meta in metrics:
        form = _form(data, meta)
        if form == _CURVE and data:
            found[name] = {"last": data[-1][1], axis_of(meta): data[-1][0], "count": len(data)}
        elif name == "summary" and form == _OBJECT:
            found.update(_in_fate_2(data, form))
        else:
            found[name] = _in_fate_2(data, form)
    return found
