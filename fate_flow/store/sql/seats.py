"""Seats: the initiator's records of the parties of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.model.job import Blocker, Seat
from fate_flow.core.model.status import SeatStatus
from fate_flow.store.contract.changes import LIVE_SEATS, REJOINING_SEATS, new_seat, seat_moved, seat_rejoins
from fate_flow.store.database.models import SeatRow
from fate_flow.store.database.prepared import Prepared, insert, update
from fate_flow.store.database.queries import hit
from fate_flow.store.database.rows import SEAT_COLUMNS, SEATS, seat_of
from fate_flow.store.sql.unit import Pairs, SqlUnitOfWork


class Seats(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_seats(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            insert(self._database, SeatRow, SEATS.row_of(new_seat(seat)))

    def seats(self, job_id: str) -> tuple[Seat, ...]:
        return _SEATS.made(self._database, seat_of, job_id)

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, blocked_by: Blocker | None = None,
        short_at: str = "",
    ) -> bool:
        values = SEATS.columns_of(seat_moved(seat, new, message, free_cores, blocked_by, short_at))
        return bool(update(self._database, SeatRow, values, (*_key(seat), ("f_status", seat.status.value))))

    def ask_for(self, seat: Seat, cores: int, asks: Mapping[str, int] | None = None) -> bool:
        values = SEATS.columns_of({"asked_cores": cores, "asks": dict(asks or {})})
        return hit(SeatRow.update(**values).where(_seat_is(seat)))

    def rejoin(self, seat: Seat) -> bool:
        values = SEATS.columns_of(seat_rejoins(seat))
        may_rejoin = SeatRow.f_status.in_([status.value for status in REJOINING_SEATS])
        return hit(SeatRow.update(**values).where(_seat_is(seat) & may_rejoin))

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        return bool(update(self._database, SeatRow, {"f_lease": lease, "f_renew_at": renew_at}, _key(seat)))

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        where = _seat_is(seat) & (SeatRow.f_silent_since == 0)
        return hit(SeatRow.update(f_silent_since=since, f_message=message).where(where))

    def answers_again(self, seat: Seat) -> bool:
        return hit(SeatRow.update(f_silent_since=0, f_message="").where(_seat_is(seat)))

    def silent_seats(self) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _SILENT_SEATS.rows(self._database))

    def note_approval(self, seat: Seat, text: str) -> bool:
        return hit(SeatRow.update(f_approval=text).where(_seat_is(seat)))

    def mark_plain_v1(self, seat: Seat) -> bool:
        return hit(SeatRow.update(f_legacy=True).where(_seat_is(seat)))

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _SEATS_AT.rows(self._database, party_id))

    def plain_v1_seats(self) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _PLAIN_V1_SEATS.rows(self._database))

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        return tuple(seat_of(row) for row in _UNCONFIRMED.rows(self._database))

    def parties_with_seats(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _PARTIES_WITH_SEATS.rows(self._database))


_SEATS = Prepared(
    lambda job_id: (
        SeatRow.select(*SEAT_COLUMNS).where(SeatRow.f_job_id == job_id).order_by(SeatRow.f_role, SeatRow.f_party_id)
    ),
    1,
)


def _is_live() -> Any:
    return SeatRow.f_status.in_([status.value for status in LIVE_SEATS])


def _seat_is(seat: Seat) -> Any:
    return (
        (SeatRow.f_job_id == seat.job_id)
        & (SeatRow.f_role == seat.party.role)
        & (SeatRow.f_party_id == seat.party.party_id)
        & (SeatRow.f_run == seat.run)
    )


def _key(seat: Seat) -> Pairs:
    """Return the same as columns with their values."""
    party = seat.party
    return ("f_job_id", seat.job_id), ("f_role", party.role), ("f_party_id", party.party_id), ("f_run", seat.run)


_PARTIES_WITH_SEATS = Prepared(
    lambda: SeatRow.select(SeatRow.f_party_id).where(_is_live()).distinct().order_by(SeatRow.f_party_id), 0
)


def _seats_where(where: Any) -> Any:
    return SeatRow.select(*SEAT_COLUMNS).where(where).order_by(SeatRow.f_job_id, SeatRow.f_role, SeatRow.f_party_id)


_SILENT_SEATS = Prepared(
    lambda: _seats_where((SeatRow.f_status == SeatStatus.STARTED.value) & (SeatRow.f_silent_since > 0)), 0
)
_SEATS_AT = Prepared(lambda party_id: _seats_where((SeatRow.f_party_id == party_id) & _is_live()), 1)
_PLAIN_V1_SEATS = Prepared(lambda: _seats_where(_is_live() & (SeatRow.f_legacy == True)), 0)  # noqa: E712
_UNCONFIRMED = Prepared(lambda: _seats_where(SeatRow.f_status == SeatStatus.UNCONFIRMED.value), 0)
