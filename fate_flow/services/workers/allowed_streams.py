"""Streams that are no longer allowed: a revoked grant ends them while they run, although it lets running workers go on.

A worker that has what it read does no more harm by going on; a stream would carry more of it to the other party.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fate_flow.core.access.limits import Grants
from fate_flow.core.model.errors import FlowError
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context, StreamsHere
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.allowed import why_not_now
from fate_flow.store.contract.transaction import Transaction


class AllowedStreams:
    """Looks at the streams here again when the grants of their initiators have changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._allowed: dict[StreamsHere, Grants] = {}          # by which each was allowed last

    def look(self) -> None:
        """End the streams that are no longer allowed. Raises StorageFailed, OSError."""
        here = tuple(self._context.exchange.with_streams())
        self._allowed = {one: grants for one, grants in self._allowed.items() if one in here}
        for one, why in self._context.read(lambda tx: [*self._refused(tx, here)]) if here else ():
            self._context.exchange.end_streams(one, why)
            text = f"the streams of job {one.key.job_id}, task {one.key.name} at {one.key.party} were ended: {why}"
            self._context.record.emit(Event.DETECT_NOTE, text=text)

    def _refused(self, tx: Transaction, here: tuple[StreamsHere, ...]) -> Iterator[tuple[StreamsHere, str]]:
        """Yield what is no longer allowed, and why."""
        unit = UnitOfWork(self._context, tx, self._context.clock())
        known: dict[str, Grants] = {}
        for one in here:
            with suppress(FlowError):                 # of a job whose rows cannot be read; its end is decided elsewhere
                spec = unit.spec(one.key.job_id)
                if spec is None or one.key.name not in spec.tasks:
                    continue                          # it is over, and its streams are being ended
                initiator = spec.initiator.party_id
                grants = known.setdefault(initiator, tx.grants(initiator))
                if self._allowed.get(one) == grants:
                    continue
                if why := why_not_now(unit, spec, one.key):
                    yield one, why
                else:
                    self._allowed[one] = grants
