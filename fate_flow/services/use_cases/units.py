"""Run each use case in a unit of work, and wake the scheduler afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work

Wake = Callable[[Sequence[str], bool, bool, str, Sequence[CapacityNotice]], None]
"""Wakes the scheduler with: ids of changed jobs; whether the outbox has new commands; whether the queue must run,
because it is longer or cores came free here; the party that knows of these cores by an answer; and capacity notices of
other parties."""

T = TypeVar("T")


class Units:
    """Carries out acts in units of work, and wakes the scheduler if one gives it something to do."""

    def __init__(self, context: Context, wake: Wake) -> None:
        self.context = context
        self._wake = wake

    def carry_out(self, act: Callable[[UnitOfWork], T], is_repeatable: bool = True) -> T:
        """Run `act` in a unit of work and return its result; `is_repeatable` as in `Retry`. Raises StorageFailed."""

        def once() -> T:
            with unit_of_work(self.context, committed=self._wake_scheduler) as unit:
                return act(unit)

        return self.context.retry(once, is_repeatable)

    def _wake_scheduler(self, unit: UnitOfWork) -> None:
        found = unit.pending
        if found.dirty or found.outgoing or found.concerns_queue or found.capacity_notices:
            self._wake(
                tuple(found.dirty), bool(found.outgoing), found.concerns_queue, found.informed_party,
                found.capacity_notices,
            )  # fmt: skip
