"""One unit of work for each use case, and the scheduler woken afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work

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
        found = unit.pending
        if found.dirty or found.outgoing or found.concerns_queue or found.capacity_notices:
            self._wake(
                tuple(found.dirty), bool(found.outgoing), found.concerns_queue, found.informed_party,
                found.capacity_notices,
            )  # fmt: skip
