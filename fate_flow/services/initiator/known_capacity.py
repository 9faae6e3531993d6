"""The known free cores of all parties, and the jobs that wait for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

from fate_flow.core.model.job import Job, Seat
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.queue import Asked, Place
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.seats import is_refused
from fate_flow.services.workers.places import free_at_engines

_ASKED = (SeatStatus.CHECKING, SeatStatus.APPLYING)        # `apply` may be sent with the check


class KnownCapacity:
    """What this process knows of the free cores of other parties; a new process knows nothing."""

    def __init__(self) -> None:
        self.free: dict[Place, int] = {}        # of other parties: the free cores in their last answers
        # by job id: the reservation round, and the party whose notice came before its refusal
        self._overtaken: dict[str, tuple[int, str]] = {}

    def with_own(self, unit: UnitOfWork) -> dict[Place, int]:
        """Return the free cores, as far as they are known, with those of this party."""
        return {**self.free, **free_at_engines(unit)}

    def note(self, party_id: str, cores: int | None, places: Mapping[str, int]) -> None:
        """Note the free cores that a party has stated: of each engine by its tag, if it has several."""
        if places:
            self.free.update({Place(party_id, tag): free for tag, free in places.items()})
        elif cores is not None:
            self.free[Place(party_id)] = cores

    def take_notice(self, unit: UnitOfWork, notice: CapacityNotice) -> None:
        """Take the notice that a party has capacity for a waiting job, so that the queue looks at the job at once.

        The notice may arrive before the refusal that it follows; then the reservation round has to end first."""
        job = unit.tx.job_here(notice.job_id)
        if job is None or not awaits_capacity(unit, job, notice.party_id):
            return
        self.note(notice.party_id, notice.cores, dict(notice.places))
        if not job.ready_owner:
            unit.reconsider(job.job_id)
        elif any(is_refused(seat) or seat.status in _ASKED for seat in _seats_at(unit, job, notice)):
            self._overtaken[job.job_id] = (job.round_number, notice.party_id)
        text = f"job {job.job_id}: party {notice.party_id} has capacity again, {notice.cores} cores are free"
        unit.note(Event.JOB_NOTE, job_id=job.job_id, text=text)

    def take_overtaken(self, job_id: str) -> tuple[int, str] | None:
        """Return and forget the round and the party of a notice that came before its refusal; None if there is none."""
        return self._overtaken.pop(job_id, None)


def awaits_capacity(unit: UnitOfWork, job: Job, party_id: str) -> bool:
    """Return whether a job waits for capacity at this party, or is asking for it in its reservation round."""
    if job.status is not JobStatus.WAITING or job.reason is not None or job.rerun_signal or job.hold is not None:
        return False
    if not job.ready_owner:
        return job.blocked_on == party_id
    seats = unit.tx.seats(job.job_id)
    asked = [seat for seat in seats if is_refused(seat)] or seats
    return any(seat.party.party_id == party_id for seat in asked)


def _seats_at(unit: UnitOfWork, job: Job, notice: CapacityNotice) -> list[Seat]:
    return [seat for seat in unit.tx.seats(job.job_id) if seat.party.party_id == notice.party_id]


def asked_by(unit: UnitOfWork) -> Asked:
    """Return a function that gives the cores that a job requests at each place; each job is read once."""

    @cache
    def asked(job_id: str) -> Mapping[Place, int]:
        found: Counter[Place] = Counter()
        for seat in unit.tx.seats(job_id):
            for tag, cores in (seat.asks or {"": seat.asked_cores}).items():
                found[Place(seat.party.party_id, tag)] += cores
        return found

    return asked
