"""The rows of seats: their history and their leases."""

from __future__ import annotations

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Seat
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import SeatStatus
from fate_flow.services.context.unit_of_work import UnitOfWork


def note_seat(unit: UnitOfWork, seat: Seat, new: SeatStatus, message: str) -> None:
    unit.moves(HistoryLevel.SEAT, seat.job_id, seat.status, new, party=seat.party, message=message)


def lease_seat(unit: UnitOfWork, seat: Seat, lease: int) -> None:
    """Store for how many milliseconds the party keeps its reservation; it is renewed after a third of them."""
    renew_at = unit.steady + lease // 3 if lease else 0
    unit.tx.lease_seat(seat, lease, renew_at)
    if lease:
        unit.wake_at(renew_at, seat.job_id)


def is_refused(seat: Seat) -> bool:
    """Return whether the party has refused in the present reservation round."""
    return seat.status is SeatStatus.JOINED and seat.message != ""


def place_of(party: Party) -> dict[str, str]:
    """Return the fields that name a party in events of the log."""
    return {"role": party.role, "party_id": party.party_id}
