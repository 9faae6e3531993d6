"""One unit of work for each use case, and the scheduler woken afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import CapacityNotice, UnitOfWork, unit_of_work

Wake = Callable[[Sequence[str], bool, bool, str, Sequence[CapacityNotice]], None]
"""Wakes the scheduler: ids of jobs that changed, whether the outbox has something new, whether the queue has to be
looked at, since it is longer or cores came free here, which party knows that by an answer, and what others said of
theirs."""

T = TypeVar("T")


class Units:
    """Carries out acts in units of work, and wakes the scheduler where one of them gives it something to do."""

    def __init__(self, context: Context, wake: Wake) -> None:
        self.context = context
        self._wake = wake

    def carry_out(self, act: Callable[[UnitOfWork], T], is_repeatable: bool = True) -> T:
        """What `act` answers; `is_repeatable` as `Retry` has it. Raises StorageFailed."""

        def once() -> T:
            with self._unit() as unit:
                return act(unit)

        return self.context.retry(once, is_repeatable)

    @contextmanager
    def _unit(self) -> Iterator[UnitOfWork]:
        with unit_of_work(self.context) as unit:
            yield unit
        concerns_queue = unit.is_queue_longer or bool(unit.freed)
        if unit.dirty or unit.outgoing or concerns_queue or unit.capacity_notices:
            self._wake(
                tuple(unit.dirty), bool(unit.outgoing), concerns_queue, unit.informed_party, unit.capacity_notices
            )
