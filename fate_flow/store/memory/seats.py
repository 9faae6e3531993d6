"""Seats, in memory; the counterpart of `sql/seats.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Blocker, Seat
from fate_flow.core.model.status import SeatStatus
from fate_flow.store.contract.changes import LIVE_SEATS, REJOINING_SEATS, new_seat, seat_moved, seat_rejoins
from fate_flow.store.memory.tables import BY_JOB, BY_STATUS, refuse, seat_key
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Seats(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_seats(self, seats: Iterable[Seat]) -> None:
        table, every = self._rows.seats, [new_seat(seat) for seat in seats]
        new = {seat_key(seat): seat for seat in every}
        refuse("PRIMARY KEY of t_seat", len(new) != len(every) or any(key in table.rows for key in new))
        for key, seat in new.items():
            table.put(key, seat)

    def seats(self, job_id: str) -> tuple[Seat, ...]:
        return tuple(sorted(self._rows.seats.of(BY_JOB, job_id), key=seat_key))

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, blocked_by: Blocker | None = None,
        short_at: str = "",
    ) -> bool:
        change = seat_moved(seat, new, message, free_cores, blocked_by, short_at)
        row = self._rows.seats.rows.get(seat_key(seat))
        return row is not None and row.status is seat.status and self._change_seat(seat, **change)

    def ask_for(self, seat: Seat, cores: int, asks: Mapping[str, int] | None = None) -> bool:
        return self._change_seat(seat, asked_cores=cores, asks=dict(asks or {}))

    def rejoin(self, seat: Seat) -> bool:
        change = seat_rejoins(seat)
        row = self._rows.seats.rows.get(seat_key(seat))
        return row is not None and row.status in REJOINING_SEATS and self._change_seat(seat, **change)

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        return self._change_seat(seat, lease=lease, renew_at=renew_at)

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        row = self._rows.seats.rows.get(seat_key(seat))
        is_new = row is not None and not row.silent_since
        return is_new and self._change_seat(seat, silent_since=since, message=message)

    def answers_again(self, seat: Seat) -> bool:
        return self._change_seat(seat, silent_since=0, message="")

    def silent_seats(self) -> tuple[Seat, ...]:
        started = self._rows.seats.of(BY_STATUS, SeatStatus.STARTED)
        return tuple(sorted((seat for seat in started if seat.silent_since), key=seat_key))

    def note_approval(self, seat: Seat, text: str) -> bool:
        return self._change_seat(seat, approval=text)

    def mark_plain_v1(self, seat: Seat) -> bool:
        return self._change_seat(seat, is_plain_v1=True)

    def _change_seat(self, seat: Seat, **values: Any) -> bool:
        row = self._rows.seats.rows.get(seat_key(seat))
        if row is None or row.run != seat.run:
            return False
        self._rows.seats.put(seat_key(seat), changed(row, **values))
        return True

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        return tuple(sorted((seat for seat in self._live_seats() if seat.party.party_id == party_id), key=seat_key))

    def plain_v1_seats(self) -> tuple[Seat, ...]:
        return tuple(sorted((seat for seat in self._live_seats() if seat.is_plain_v1), key=seat_key))

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        return tuple(sorted(self._rows.seats.of(BY_STATUS, SeatStatus.UNCONFIRMED), key=seat_key))

    def parties_with_seats(self) -> tuple[str, ...]:
        return tuple(sorted({seat.party.party_id for seat in self._live_seats()}))

    def _live_seats(self) -> list[Seat]:
        return [seat for status in LIVE_SEATS for seat in self._rows.seats.of(BY_STATUS, status)]
