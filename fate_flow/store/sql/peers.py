"""Other parties: their heartbeats and their jobs here; the scheduler lease."""

from __future__ import annotations

from collections.abc import Mapping

from peewee import Value

from fate_flow.core.model.peer import LONGEST_ERROR, PeerTrouble
from fate_flow.core.model.status import JobStatus
from fate_flow.store.contract.changes import SEATED
from fate_flow.store.database.models import JobRow, PeerRow, SchedulerRow, SeatRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import SCHEDULER, hit
from fate_flow.store.sql.unit import SqlUnitOfWork


class Peers(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def says_who(self, party_id: str) -> bool:
        is_seated = SeatRow.f_status.in_([status.value for status in SEATED])
        of_ours = (SeatRow.f_party_id == party_id) & is_seated & (SeatRow.f_legacy == False)  # noqa: E712
        return SeatRow.select(SeatRow.f_job_id).where(of_ours).limit(1).tuples().first() is not None

    def record_heartbeat(self, party_id: str) -> None:
        if not hit(PeerRow.update(f_heard=PeerRow.f_heard + 1).where(PeerRow.f_party_id == party_id)):
            PeerRow.insert(f_party_id=party_id, f_heard=1).on_conflict_ignore().execute()

    def heartbeats(self) -> Mapping[str, int]:
        return dict(_HEARTBEATS.rows(self._database))

    def note_trouble(self, trouble: PeerTrouble) -> None:
        values = {
            "f_silent_since": trouble.silent_since, "f_silence": trouble.silence[:LONGEST_ERROR],
            "f_cut_off_since": trouble.cut_off_since, "f_cut_off": trouble.cut_off[:LONGEST_ERROR],
        }  # fmt: skip
        PeerRow.insert(f_party_id=trouble.party_id, f_heard=0).on_conflict_ignore().execute()
        PeerRow.update(**values).where(PeerRow.f_party_id == trouble.party_id).execute()

    def peer_troubles(self) -> Mapping[str, PeerTrouble]:
        return {row[0]: PeerTrouble(*row) for row in _TROUBLES.rows(self._database)}

    def forget_troubles(self) -> None:
        PeerRow.update(f_silent_since=0, f_silence="", f_cut_off_since=0, f_cut_off="").where(_IN_TROUBLE).execute()

    def scheduler(self) -> tuple[str, int]:
        row = _SCHEDULER.row(self._database, SCHEDULER)
        return (row[0], row[1]) if row is not None else ("", 0)

    def take_scheduler_lease(self, owner: str, counter: int, new_owner: str) -> bool:
        if (owner, counter) == ("", 0):
            SchedulerRow.insert(f_name=SCHEDULER, f_owner="", f_counter=0).on_conflict_ignore().execute()
        where = (
            (SchedulerRow.f_name == SCHEDULER)
            & (SchedulerRow.f_owner == owner)
            & (SchedulerRow.f_counter == counter)
        )
        return hit(SchedulerRow.update(f_owner=new_owner, f_counter=counter + 1).where(where))

    def renew_scheduler_lease(self, owner: str, steady: int) -> bool:
        return bool(_RENEW.run(self._database, steady, SCHEDULER, owner))

    def steady(self) -> int:
        row = _STEADY.row(self._database, SCHEDULER)
        return int(row[0]) if row else 0

    def forgotten(self) -> int:
        """Return how often jobs were removed or got other notes; after a change of this number, old counts are
        invalid."""
        query = SchedulerRow.select(SchedulerRow.f_forgotten).where(SchedulerRow.f_name == SCHEDULER)
        return int(query.scalar() or 0)

    def copies_that_run(self, initiator_id: str) -> tuple[tuple[str, int], ...]:
        return tuple((job_id, run) for job_id, run in _COPIES.rows(self._database, initiator_id))

    def copies_that_wait(self, after: str, limit: int) -> tuple[str, ...]:
        return tuple(row[0] for row in _WAITING_COPIES.rows(self._database, after, limit))


_WAITING_COPIES = Prepared(
    lambda after, limit: (
        JobRow.select(JobRow.f_job_id)
        .where(
            (JobRow.f_status == JobStatus.WAITING.value) & (JobRow.f_job_id > after)
            & (JobRow.f_is_initiator == False) & (JobRow.f_legacy == False)  # noqa: E712
        )
        .distinct()
        .order_by(JobRow.f_job_id)
        .limit(limit)
    ),
    2,
)  # fmt: skip
_IN_TROUBLE = (PeerRow.f_silent_since > 0) | (PeerRow.f_cut_off_since > 0)
_TROUBLES = Prepared(
    lambda: PeerRow.select(
        PeerRow.f_party_id, PeerRow.f_silent_since, PeerRow.f_silence, PeerRow.f_cut_off_since, PeerRow.f_cut_off,
    ).where(_IN_TROUBLE),
    0,
)  # fmt: skip
_SCHEDULER = Prepared(
    lambda name: SchedulerRow.select(SchedulerRow.f_owner, SchedulerRow.f_counter).where(SchedulerRow.f_name == name), 1
)
_RENEW = Prepared(
    lambda steady, name, owner: SchedulerRow.update(
        f_counter=SchedulerRow.f_counter + 1, f_steady=Value(steady, converter=False)
    ).where((SchedulerRow.f_name == name) & (SchedulerRow.f_owner == owner)),
    3,
)
_STEADY = Prepared(lambda name: SchedulerRow.select(SchedulerRow.f_steady).where(SchedulerRow.f_name == name), 1)
_HEARTBEATS = Prepared(lambda: PeerRow.select(PeerRow.f_party_id, PeerRow.f_heard).where(PeerRow.f_heard > 0), 0)
_COPIES = Prepared(
    lambda initiator_id: (
        JobRow.select(JobRow.f_job_id, JobRow.f_run)
        .where(
            (JobRow.f_status == JobStatus.RUNNING.value)
            & (JobRow.f_is_initiator == False)  # noqa: E712
            & (JobRow.f_initiator_party_id == initiator_id)
        )
        .order_by(JobRow.f_job_id, JobRow.f_run)
    ),
    1,
)
