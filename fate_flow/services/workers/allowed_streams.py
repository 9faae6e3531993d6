"""Streams that are no longer allowed: a revoked grant or key ends them while they run, although workers go on.

A worker that has what it read does no more harm by going on; a stream would carry more of it to the other party. The
gateway itself ends the streams over connections of a revoked key; those that came through a proxy show no key there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial

from fate_flow.core.access.limits import Grants
from fate_flow.core.model.errors import BadRequest, OperationFailed
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import JobSpec
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context, StreamsHere
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.allowed import why_not_now
from fate_flow.store.contract.party_keys import message_keys
from fate_flow.store.contract.transaction import Transaction


class AllowedStreams:
    """Looks at the keys of the parties at the other end each time, and at grants when those of an initiator have
    changed."""

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
        grants, keys = cache(tx.grants), cache(partial(self._has_key, tx))
        for one in here:
            with suppress(OperationFailed, BadRequest):         # of rows that cannot be read: others decide then
                spec = unit.spec(one.key.job_id)
                if spec is None or one.key.name not in spec.tasks:
                    continue                          # it is over, and its streams are being ended
                found = grants(spec.initiator.party_id)
                lacking = sorted(party_id for party_id in _others(spec, one.key) if not keys(party_id))
                if lacking:
                    yield one, f"{one.key.party} has no key of party {lacking[0]} any more that is valid"
                elif self._allowed.get(one) != found:
                    if why := why_not_now(unit, spec, one.key):
                        yield one, why
                    else:
                        self._allowed[one] = found

    def _has_key(self, tx: Transaction, party_id: str) -> bool:
        """Return whether requests of a party can still be verified, if they have to be signed."""
        context = self._context
        return not context.site.needs_saved_key(party_id) or bool(message_keys(tx, party_id, context.clock()))


def _others(spec: JobSpec, key: TaskKey) -> set[str]:
    """Return the ids of the parties to which streams of this share lead."""
    ports = spec.tasks[key.name].ports
    return {other.party_id for one in ports for other in (*one.callers_of(key.party), *one.called_by(key.party))}
