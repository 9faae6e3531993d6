"""What every store promises of the parties of a job, as its initiator sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fate_flow.core.model.job import Blocker, Seat
from fate_flow.core.model.status import SeatStatus


class Seats(Protocol):
    """Part of `contract.Transaction`."""

    def add_seats(self, seats: Iterable[Seat]) -> None: ...

    def seats(self, job_id: str) -> tuple[Seat, ...]: ...

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, blocked_by: Blocker | None = None
    ) -> bool: ...

    def ask_for(self, seat: Seat, cores: int) -> bool:
        """What the seat is to reserve from now on."""

    def rejoin(self, seat: Seat) -> bool:
        """The seat is `joining` in the next run. In this one it may have moved meanwhile; False when it has become what
        may not rejoin."""

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        """How long the party keeps what it holds, and the steady time at which it is to be asked again."""

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        """The party counts as silent since this steady time; False when it does already."""

    def answers_again(self, seat: Seat) -> bool:
        """It does no more."""

    def silent_seats(self) -> tuple[Seat, ...]:
        """Of jobs that run: those whose party counts as silent."""

    def note_approval(self, seat: Seat, text: str) -> bool:
        """The party has approved the job with these words; none: it has to approve it, maybe once more."""

    def mark_plain_v1(self, seat: Seat) -> bool:
        """The party speaks plain v1 only."""

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        """Seats of unfinished jobs at this party, this initiator's."""

    def plain_v1_seats(self) -> tuple[Seat, ...]:
        """At parties that speak plain v1: those that run or drain something for us."""

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        """Of jobs of this initiator that are over, as far as the party has never said that it knows."""

    def parties_with_seats(self) -> tuple[str, ...]:
        """Parties that run or hold something for us."""
