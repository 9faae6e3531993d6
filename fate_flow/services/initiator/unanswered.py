"""The parties whose answer a submitted job still waits for."""

from __future__ import annotations

from fate_flow.core.model.status import SeatStatus
from fate_flow.store.contract.transaction import Transaction


def unanswered_text(tx: Transaction, job_id: str, when: str) -> str:
    """Return e.g. `not every party answered within 5 s: nothing came from host 10000`; `when` is the time limit."""
    silent = sorted(str(seat.party) for seat in tx.seats(job_id) if seat.status is SeatStatus.JOINING)
    names = f": nothing came from {', '.join(silent)}" if silent else ""
    return f"not every party answered {when}{names}"
