"""Metrics as they are shown: each once, though its pieces are rows of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fate_flow.core.metrics import form
from fate_flow.store.values import Metric


def joined(pieces: Iterable[Metric]) -> tuple[Metric, ...]:
    """Return each metric of a party task once."""
    listed = list(pieces)
    kept = form.joined({
        "namespace": one.namespace, "name": one.name, "data": one.data, "meta": one.meta,
    } for one in listed)  # fmt: skip
    task = listed[0].task if listed else None
    return tuple(
        Metric(task, one["namespace"], one["name"], tuple(one["data"]), one["meta"]) for one in kept if task is not None
    )


def in_fate_2(metrics: Iterable[Metric]) -> list[dict[str, Any]]:
    """Return metrics as the list of FATE 2."""
    return [form.in_fate_2(one.namespace, one.name, one.data, one.meta) for one in metrics]


def for_fate_1(metric: Metric) -> Metric:
    """Return a metric with points `(key, value)`, and the meta that clients of FATE 1 see."""
    return replace(metric, data=tuple(one[:2] for one in metric.data), meta=form.shown_meta(metric.meta))


def summary_of(metrics: Iterable[Metric]) -> dict[str, Any]:
    """Return the summary of a task whose component gives none."""
    return form.summary_of((one.name, one.data, one.meta) for one in metrics)
