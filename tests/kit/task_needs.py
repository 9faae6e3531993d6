"""Tasks of simulated jobs that state resources of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any


def with_needs(
    draw: Random, tasks: Iterable[str], rules: Mapping[str, Any], most_cores: int, has_memory: bool
) -> dict[str, Any]:
    """Return the `task_conf` of a job in which some tasks state their cores, and memory where a party has some."""
    conf = {name: dict(one) for name, one in rules.get("task_conf", {}).items()}
    for name in tasks:
        if draw.random() < 0.7:
            conf.setdefault(name, {})["cores"] = draw.randint(1, max(1, most_cores))
        if has_memory and draw.random() < 0.7:
            conf.setdefault(name, {})["memory"] = draw.choice([0, 300, 900])
    return conf
