"""The few statistics that are needed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def p90(values: Sequence[float]) -> float:
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=10, method="inclusive")[8]


def spread(values: Sequence[float], digits: int = 1) -> dict[str, float]:
    """The median, the 90th percentile and the ends."""
    found = {"median": statistics.median(values), "p90": p90(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in found.items()}


def medians(runs: Sequence[Any]) -> Any:
    """The median over the runs of each number in documents of the same shape; what is no number is left out."""
    first = runs[0]
    if first is None or isinstance(first, (bool, str)):
        return None
    if isinstance(first, (int, float)):
        return round(statistics.median(runs), 4)
    if isinstance(first, dict):
        shared = [key for key in first if all(key in run for run in runs)]
        found = {key: medians([run[key] for run in runs]) for key in shared}
        return {key: value for key, value in found.items() if value is not None}
    return None
