"""What one process has to submit.

The workers that one start of a task brings come one by one, within a moment. Where a cluster takes several at once,
they wait here for each other, so that they are one submission. Nothing depends on that: those that come late, because
a folder could not be written or the process was killed, are a submission of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.engines.placed.cluster import Placement

TOGETHER_SECONDS = 1.0
"""For so long after the last one that has come, the others of a batch are waited for."""


@dataclass(eq=False)
class Order:
    """A placement that this process has to submit: nobody else may."""

    placement: Placement
    at: float
    waits: bool = False                      # the cluster was not reached
    tries: int = 0

    @property
    def folder(self) -> Path:
        return self.placement.folder


@dataclass
class Orders:
    """`together`: the cluster takes several at once."""

    together: bool
    clock: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _all: list[Order] = field(default_factory=list, init=False)

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, placement: Placement) -> None:
        with self._lock:
            self._all.append(Order(placement, self.clock()))

    def drop(self, orders: Collection[Order]) -> None:
        with self._lock:
            self._all = [one for one in self._all if one not in orders]

    def folders(self) -> set[Path]:
        with self._lock:
            return {one.folder for one in self._all}

    def due(self, *, polls: bool) -> list[list[Order]]:
        """Return what is to be submitted now, each list at once. Without a poll, a cluster that was not reached is not
        asked again."""
        with self._lock:
            due = [one for one in self._all if polls or not one.waits]
        found: dict[Hashable, list[Order]] = {}
        for one in due:
            found.setdefault(self._kind(one), []).append(one)
        return [some for some in found.values() if self._is_complete(some)]

    def _kind(self, order: Order) -> Hashable:
        """Return what all orders share that are submitted together: one submission has one need."""
        one = order.placement
        if not self.together or one.batch is None or one.batch.size < 2:
            return id(order)
        env = tuple(sorted(one.env.items()))
        return one.batch.name, one.folder.parent, one.need, one.grace_seconds, one.partner, env

    def _is_complete(self, orders: Sequence[Order]) -> bool:
        batch = orders[0].placement.batch
        if not self.together or batch is None or len(orders) >= batch.size:
            return True
        return self.clock() - max(one.at for one in orders) >= TOGETHER_SECONDS
