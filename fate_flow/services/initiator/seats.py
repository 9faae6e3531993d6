"""The rows of seats: their history and their leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Seat
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import SeatStatus
from fate_flow.services.context.unit_of_work import UnitOfWork

_LONGEST_LEASE = 1e9      # seconds; a longer lease is ignored


def note_seat(unit: UnitOfWork, seat: Seat, new: SeatStatus, message: str) -> None:
    unit.moves(HistoryLevel.SEAT, seat.job_id, seat.status, new, party=seat.party, message=message)


def lease_seat(unit: UnitOfWork, seat: Seat, lease: int) -> None:
    """Store for how many milliseconds the party keeps its reservation; it is renewed after a third of them."""
    renew_at = unit.steady + lease // 3 if lease else 0
    unit.tx.lease_seat(seat, lease, renew_at)
    if lease:
        unit.wake_at(renew_at)


def lease_in(data: Mapping[str, Any]) -> int:
    """Return the lease in the data of an answer, in milliseconds; 0 if there is none that makes sense.

    A plain v1 party states none."""
    seconds = data.get("lease_seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < _LONGEST_LEASE:
        return 0
    return max(3, int(seconds * 1000))


def is_refused(seat: Seat) -> bool:
    """Return whether the party has refused in the present reservation round."""
    return seat.status is SeatStatus.JOINED and seat.message != ""


def place_of(party: Party) -> dict[str, str]:
    """Return the fields that name a party in events of the log."""
    return {"role": party.role, "party_id": party.party_id}
