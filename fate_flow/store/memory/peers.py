"""Other parties and schedulers, in memory; the counterpart of `sql/peers.py`."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JobStatus
from fate_flow.store.contract.changes import SEATED
from fate_flow.store.memory.tables import BY_STATUS
from fate_flow.store.memory.unit import MemoryUnitOfWork

SCHEDULER = "dag"
_NOBODY = ("", 0, 0)


class Peers(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def copies_that_run(self, initiator_id: str) -> tuple[tuple[str, int], ...]:
        running = (row.job for row in self._jobs.of(BY_STATUS, JobStatus.RUNNING) if not row.job.is_initiator)
        return tuple(sorted((job.job_id, job.run) for job in running if job.initiator.party_id == initiator_id))

    def copies_that_wait(self, after: str, limit: int) -> tuple[str, ...]:
        waiting = (row.job for row in self._jobs.of(BY_STATUS, JobStatus.WAITING))
        copies = {job.job_id for job in waiting if not (job.is_initiator or job.is_plain_v1) and job.job_id > after}
        return tuple(sorted(copies)[:limit])

    def says_who(self, party_id: str) -> bool:
        seats = (seat for status in SEATED for seat in self._rows.seats.of(BY_STATUS, status))
        return any(seat.party.party_id == party_id and not seat.is_plain_v1 for seat in seats)

    def record_heartbeat(self, party_id: str) -> None:
        self._rows.peers.put(party_id, self._rows.peers.rows.get(party_id, 0) + 1)

    def heartbeats(self) -> Mapping[str, int]:
        return dict(self._rows.peers.rows)

    def note_trouble(self, trouble: PeerTrouble) -> None:
        if trouble.is_over:
            self._rows.troubles.drop(trouble.party_id)
        else:
            self._rows.troubles.put(trouble.party_id, trouble)

    def peer_troubles(self) -> Mapping[str, PeerTrouble]:
        return dict(self._rows.troubles.rows)

    def forget_troubles(self) -> None:
        for party_id in tuple(self._rows.troubles.rows):
            self._rows.troubles.drop(party_id)

    def scheduler(self) -> tuple[str, int]:
        owner, counter, _ = self._rows.schedulers.rows.get(SCHEDULER, _NOBODY)
        return owner, counter

    def take_scheduler_lease(self, owner: str, counter: int, new_owner: str) -> bool:
        found = self._rows.schedulers.rows.get(SCHEDULER, _NOBODY)
        if found[:2] != (owner, counter):
            return False
        self._rows.schedulers.put(SCHEDULER, (new_owner, counter + 1, found[2]))
        return True

    def renew_scheduler_lease(self, owner: str, steady: int) -> bool:
        found = self._rows.schedulers.rows.get(SCHEDULER)
        if found is None or found[0] != owner:
            return False
        self._rows.schedulers.put(SCHEDULER, (owner, found[1] + 1, steady))
        return True

    def steady(self) -> int:
        found = self._rows.schedulers.rows.get(SCHEDULER)
        return found[2] if found else 0
