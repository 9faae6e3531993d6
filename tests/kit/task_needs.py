"""Tasks of simulated jobs that state resources of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any


def with_needs(
    draw: Random, tasks: Iterable[str], rules: Mapping[str, Any], most_cores: int, has_memory: bool,
    queues: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the `task_conf` of a job in which some tasks state their cores, memory where a party has some, and one of
    the queues, with as many GPUs at most as its engine has."""
    conf = {name: dict(one) for name, one in rules.get("task_conf", {}).items()}
    for name in tasks:
        if draw.random() < 0.7:
            conf.setdefault(name, {})["cores"] = draw.randint(1, max(1, most_cores))
        if has_memory and draw.random() < 0.7:
            conf.setdefault(name, {})["memory"] = draw.choice([0, 300, 900])
        if queues and draw.random() < 0.6:
            queue = draw.choice(list(queues))
            conf.setdefault(name, {}).update({"queue": queue, **({} if queues[queue] else {"gpus": 0})})
    return conf
