"""Deliberate bugs in the queue, clocks and people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.participant.reservation as reservation
import fate_flow.core.planning.plan_round as plan_round
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.scheduling.queue_rounds import QueueRounds
from fate_flow.services.scheduling.scheduler import Scheduler
from fate_flow.store.memory.store import MemoryTransaction


def outbox_is_forgotten_at_a_restart() -> AbstractContextManager[Any]:
    return patch.object(Scheduler, "_pick_up", lambda self, tx: ())


@contextmanager
def durations_by_the_wall_clock() -> Iterator[None]:
    with patch.object(UnitOfWork, "steady", property(lambda unit: unit.now)):
        yield


def youngest_first() -> AbstractContextManager[Any]:
    keep = QueueRounds._candidates

    def candidates(self: Any, unit: UnitOfWork, heads: Any, asked: Any) -> Any:
        return keep(self, unit, heads, asked)[::-1][:1]

    return patch.object(QueueRounds, "_candidates", candidates)


def a_held_job_goes_on() -> AbstractContextManager[Any]:
    return patch.object(plan_round, "_has_begun", lambda _: True)


def a_held_job_has_reservation_rounds() -> AbstractContextManager[Any]:
    return patch.object(MemoryTransaction, "_with_rounds", lambda self: self._waiting())


def a_held_party_reserves() -> AbstractContextManager[Any]:
    return patch.object(reservation, "why_not_ready", lambda job, hold: None)


def reserves_without_approval() -> AbstractContextManager[Any]:
    return patch.object(reservation, "not_approved", lambda job, consent: None)


def nobody_looks_again() -> AbstractContextManager[Any]:
    """A job that awaits an approval is asked about once."""
    return patch.object(MemoryTransaction, "waiting_unschedulable", lambda *_: ())
