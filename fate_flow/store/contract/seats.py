"""The store contract for seats: the initiator's records of the parties of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from fate_flow.core.model.job import Blocker, Seat
from fate_flow.core.model.status import SeatStatus


class Seats(Protocol):
    """Part of `contract.Transaction`."""

    def add_seats(self, seats: Iterable[Seat]) -> None: ...

    def seats(self, job_id: str) -> tuple[Seat, ...]: ...

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, blocked_by: Blocker | None = None,
        short_at: str = "",
    ) -> bool: ...

    def ask_for(self, seat: Seat, cores: int, asks: Mapping[str, int] | None = None) -> bool:
        """Set how many cores the seat has to reserve; `asks`: on each engine, as far as its party has said."""

    def rejoin(self, seat: Seat) -> bool:
        """Move the seat to `joining` in the next run. It may have moved in this run meanwhile; False if its status has
        no move to `joining`."""

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        """Store how long the party keeps the reservation, and the steady time of its renewal."""

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        """Count the party as silent since this steady time; False if it counts so already."""

    def answers_again(self, seat: Seat) -> bool:
        """Count the party as answering."""

    def silent_seats(self) -> tuple[Seat, ...]:
        """Return the seats of running jobs whose party counts as silent."""

    def note_approval(self, seat: Seat, text: str) -> bool:
        """Store the text with which the party approved the job; empty: it has to approve, perhaps again."""

    def mark_plain_v1(self, seat: Seat) -> bool:
        """Mark the party as one that speaks plain v1 only."""

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        """Return the seats of this initiator's unfinished jobs at this party."""

    def plain_v1_seats(self) -> tuple[Seat, ...]:
        """Return the seats at plain v1 parties that run or drain something for us."""

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        """Return the seats of this initiator's ended jobs whose party never confirmed that it knows the end."""

    def parties_with_seats(self) -> tuple[str, ...]:
        """Return the parties that run or hold something for us."""
