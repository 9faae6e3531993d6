"""Cores, memory and GPUs: capacity, reservations, pending requests, and the hold of the party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peewee import Case, Value, fn

from fate_flow.core.model.job import Claim, EnginePart, EngineState, Hold, Job, JobKey
from fate_flow.core.model.resources import name_in_fate
from fate_flow.core.model.status import JobStatus
from fate_flow.store.contract.changes import MOST_PENDING
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.database.json_text import to_json
from fate_flow.store.database.models import BindingRow, IntakeRow, JobRow, PeerRow, WorkerRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new, is_going_on, is_unfinished, job_is
from fate_flow.store.database.rows import JOB_COLUMNS, date, job_of, parts_to_json
from fate_flow.store.sql.jobs import Jobs
from fate_flow.store.sql.unit import TakenBack

COMPUTING = "computing"
INTAKE = "intake"


class Resources(Jobs):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def engine(self, name: str) -> EngineState | None:
        row = _ENGINE.row(self._database, name_in_fate(name))
        if row is None:
            return None
        cores, memory, free_cores, free_memory, nodes, section, gpus, free_gpus = row
        return EngineState(name, cores, memory, free_cores, free_memory, nodes, section or "", gpus, free_gpus)

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:
        totals = {
            "f_cores": state.cores, "f_memory": state.memory, "f_nodes": state.nodes, "f_gpus": state.gpus,
            "f_engine_entrance": state.section, "f_engine_config": to_json(dict(config)), "f_update_time": at,
            "f_update_date": date(at),
        }  # fmt: skip
        while not self._set_totals(self.engine(state.name), state, totals, at):
            pass    # another server changed the totals in between: compute the difference from the new ones
        found = self.engine(state.name)
        assert found is not None, "just written"
        return found

    def _set_totals(
        self, old: EngineState | None, state: EngineState, totals: dict[str, Any], at: int
    ) -> bool:
        if old is None:
            row = {
                "f_engine_type": COMPUTING, "f_engine_name": name_in_fate(state.name),
                "f_remaining_cores": state.cores, "f_remaining_memory": state.memory,
                "f_remaining_gpus": state.gpus, "f_create_time": at,
                "f_create_date": date(at), **totals,
            }  # fmt: skip
            return insert_new(self._database, EngineRow, row, _engine_is(state.name))
        as_read = (
            (EngineRow.f_cores == old.cores) & (EngineRow.f_memory == old.memory) & (EngineRow.f_gpus == old.gpus)
        )
        return hit(
            EngineRow.update(
                f_remaining_cores=EngineRow.f_remaining_cores + (state.cores - old.cores),
                f_remaining_memory=EngineRow.f_remaining_memory + (state.memory - old.memory),
                f_remaining_gpus=EngineRow.f_remaining_gpus + (state.gpus - old.gpus),
                **totals,
            ).where(_engine_is(old.name) & as_read)
        )

    def reserve(
        self, key: JobKey, engine: str, cores: int, memory: int, token: str, round_number: int, at: int, gpus: int = 0,
        elsewhere: tuple[EnginePart, ...] = (),
    ) -> bool:  # fmt: skip
        parts = _by_name(Claim(cores, memory, engine=engine, gpus=gpus, elsewhere=elsewhere))
        if any(self.engine(name) is None for name, _ in parts):
            return False
        claim = {
            JobRow.f_engine_name: name_in_fate(engine), JobRow.f_engine_type: COMPUTING, JobRow.f_cores: cores,
            JobRow.f_memory: memory, JobRow.f_remaining_cores: cores, JobRow.f_remaining_memory: memory,
            JobRow.f_resource_in_use: True, JobRow.f_apply_resource_time: at, JobRow.f_claim: token,
            JobRow.f_claim_turn: round_number, JobRow.f_gpus: gpus,
            JobRow.f_elsewhere: parts_to_json(elsewhere),
        }  # fmt: skip
        free = job_is(key) & (JobRow.f_resource_in_use == False)  # noqa: E712
        # The row of the job first, as in `give_back`; with another order, the two could wait for each other.
        try:
            with self.savepoint():
                if not hit(JobRow.update(claim).where(free)):
                    return False
                for name, part in parts:
                    if part != Claim() and not hit(taking(name, part.cores, part.memory, part.gpus)):
                        raise TakenBack
        except TakenBack:
            return False
        return True

    def lock_engine(self, name: str) -> None:
        if not self._database.is_sqlite:      # else one transaction at a time may write
            hit(EngineRow.update(f_nodes=EngineRow.f_nodes).where(_engine_is(name)))

    def cores_of_jobs_by(self, party_id: str) -> int:
        found = (query.row(self._database, party_id) for query in (_CORES_HELD, _ELASTIC_CORES))
        return sum(int(row[0] or 0) for row in found if row)

    def gpus_of_jobs_by(self, party_id: str) -> int:
        found = (query.row(self._database, party_id) for query in (_GPUS_HELD, _ELASTIC_GPUS))
        return sum(int(row[0] or 0) for row in found if row)

    def lock_jobs_by(self, party_id: str) -> None:
        if self._database.is_sqlite:
            return          # one transaction at a time may write
        # Any write locks the row, also one that changes nothing. The row is kept; without heartbeats it says nothing.
        lock = PeerRow.update(f_heard=PeerRow.f_heard).where(PeerRow.f_party_id == party_id)
        if not hit(lock):
            PeerRow.insert(f_party_id=party_id, f_heard=0).on_conflict_ignore().execute()
            hit(lock)

    def open_jobs_by(self, party_id: str) -> int:
        row = _OPEN_JOBS_BY.row(self._database, party_id)
        return int(row[0]) if row else 0

    def renew_claim(self, key: JobKey, round_number: int) -> None:
        held = job_is(key) & (JobRow.f_resource_in_use == True)  # noqa: E712
        renewed = JobRow.update(f_claim_turn=round_number, f_claim_renewals=JobRow.f_claim_renewals + 1)
        hit(renewed.where(held & (JobRow.f_claim_turn <= round_number)))

    def give_back(self, key: JobKey, at_most_round: int | None, at: int) -> bool:
        job = self.job(key)
        if job is None or not job.holds:
            return False
        where = job_is(key) & (JobRow.f_claim == job.claim.token) & (JobRow.f_resource_in_use == True)  # noqa: E712
        if at_most_round is not None:
            where &= JobRow.f_claim_turn <= at_most_round
        if not hit(JobRow.update({**_NO_CLAIM, JobRow.f_return_resource_time: at}).where(where)):
            return False
        for name, part in _by_name(job.claim):
            come_back(name, part.cores, part.memory, part.gpus)
        return True

    def pending(self, key: JobKey, asked: int, order: int | None = None) -> None:
        values = {"f_wish_since": Case(JobRow.f_wish_since, [(0, asked)], JobRow.f_wish_since), "f_wish_asked": asked}
        if order is not None:
            values["f_queue_key"] = order
        hit(JobRow.update(**values).where(job_is(key)))

    def first_pending(self, asked_after: int) -> Job | None:
        row = _FIRST_PENDING.row(self._database, asked_after)
        return job_of(row) if row else None

    def pending_requests(self, asked_after: int) -> tuple[Job, ...]:
        return tuple(job_of(row) for row in _PENDING.rows(self._database, asked_after))

    def count_bypass(self, key: JobKey) -> None:
        hit(JobRow.update(f_wish_passes=JobRow.f_wish_passes + 1).where(job_is(key)))

    def forget_pending(self, key: JobKey) -> None:
        hit(JobRow.update(f_wish_since=0, f_wish_asked=0, f_wish_passes=0).where(job_is(key)))

    def intake_hold(self) -> Hold | None:
        row = _INTAKE.row(self._database, INTAKE)
        return Hold(row[0] or "", *row[1:]) if row else None

    def hold_intake(self, hold: Hold) -> None:
        self.release_intake()
        IntakeRow.insert(
            f_name=INTAKE, f_message=hold.message, f_by=hold.by, f_time=hold.time, f_since=hold.since
        ).execute()

    def release_intake(self) -> bool:
        return hit(IntakeRow.delete().where(IntakeRow.f_name == INTAKE))


def _by_name(claim: Claim) -> list[tuple[str, Claim]]:
    """Return what of a claim is on each engine, by name: all transactions lock the rows of engines in this order."""
    return sorted(claim.by_engine().items(), key=lambda one: one[0])


_NO_CLAIM: dict[Any, Any] = {
    JobRow.f_resource_in_use: False,
    JobRow.f_claim: "",
    JobRow.f_remaining_cores: 0,
    JobRow.f_remaining_memory: 0,
}
_ENGINE = Prepared(
    lambda in_fate: EngineRow.select(
        EngineRow.f_cores, EngineRow.f_memory, EngineRow.f_remaining_cores, EngineRow.f_remaining_memory,
        EngineRow.f_nodes, EngineRow.f_engine_entrance, EngineRow.f_gpus, EngineRow.f_remaining_gpus,
    ).where((EngineRow.f_engine_type == COMPUTING) & (EngineRow.f_engine_name == in_fate)),
    1,
)  # fmt: skip
_INTAKE = Prepared(
    lambda name: IntakeRow.select(IntakeRow.f_message, IntakeRow.f_by, IntakeRow.f_time, IntakeRow.f_since).where(
        IntakeRow.f_name == name
    ),
    1,
)


def _pending_query(asked_after: str | int, limit: int) -> Any:
    return (
        JobRow.select(*JOB_COLUMNS)
        .where(
            (JobRow.f_status == JobStatus.WAITING.value)
            & (JobRow.f_wish_asked > Value(asked_after, converter=False))
            & (JobRow.f_claim == "")
        )
        .order_by(JobRow.f_wish_since, JobRow.f_job_id, JobRow.f_role)
        .limit(limit)
    )


_OPEN_JOBS_BY = Prepared(
    # The rows of bindings are small and found by their key. Those of jobs have documents before the initiator, so they
    # are counted by an index alone.
    lambda party_id: JobRow.select(fn.COUNT(JobRow.f_job_id.distinct())).where(
        is_unfinished()
        & fn.EXISTS(
            BindingRow.select(Value(1)).where(
                (BindingRow.f_job_id == JobRow.f_job_id) & (BindingRow.f_initiator_party_id == party_id)
            )
        )
    ),
    1,
)


def _held(of_jobs: Any) -> Prepared:
    """Return the query for the sum of a column of the jobs of an initiator that have a reservation."""
    return Prepared(
        lambda party_id: JobRow.select(fn.SUM(of_jobs)).where(
            (JobRow.f_resource_in_use == True) & (JobRow.f_initiator_party_id == party_id)  # noqa: E712
        ),
        1,
    )


def _held_by_elastic(of_workers: Any) -> Prepared:
    """Return the query for the sum of a column of the elastic workers of the jobs of an initiator."""
    return Prepared(
        lambda party_id: WorkerRow.select(fn.SUM(of_workers)).where(
            is_going_on()
            & (WorkerRow.f_elastic == True)  # noqa: E712
            & fn.EXISTS(
                JobRow.select(Value(1)).where(
                    (JobRow.f_job_id == WorkerRow.f_job_id)
                    & is_unfinished()
                    & (JobRow.f_initiator_party_id == party_id)
                )
            )
        ),
        1,
    )


_CORES_HELD, _ELASTIC_CORES = _held(JobRow.f_cores), _held_by_elastic(WorkerRow.f_cores)
# No index has the GPUs: only the few rows that hold something are read, and only where a party has GPUs.
_GPUS_HELD, _ELASTIC_GPUS = _held(JobRow.f_gpus), _held_by_elastic(WorkerRow.f_gpus)
_FIRST_PENDING = Prepared(lambda asked_after: _pending_query(asked_after, 1), 1)
_PENDING = Prepared(lambda asked_after: _pending_query(asked_after, MOST_PENDING), 1)


def _engine_is(name: str) -> Any:
    return (EngineRow.f_engine_type == COMPUTING) & (EngineRow.f_engine_name == name_in_fate(name))


def _has_capacity(name: str, cores: int, memory: int, gpus: int) -> Any:
    """Return the condition that the engine has enough. A request of 0 always fits: less than 0 may remain, if the
    configuration was reduced."""
    where = _engine_is(name)
    if cores:
        where &= EngineRow.f_remaining_cores >= cores
    if memory:
        where &= EngineRow.f_remaining_memory >= memory
    if gpus:
        where &= EngineRow.f_remaining_gpus >= gpus
    return where


def taking(name: str, cores: int, memory: int, gpus: int) -> Any:
    """Return the update that takes all of it from the engine; it matches no row if the engine has too few."""
    return EngineRow.update(
        f_remaining_cores=EngineRow.f_remaining_cores - cores,
        f_remaining_memory=EngineRow.f_remaining_memory - memory,
        f_remaining_gpus=EngineRow.f_remaining_gpus - gpus,
    ).where(_has_capacity(name, cores, memory, gpus))


def come_back(name: str, cores: int, memory: int, gpus: int) -> None:
    if cores or memory or gpus:
        hit(
            EngineRow.update(
                f_remaining_cores=EngineRow.f_remaining_cores + cores,
                f_remaining_memory=EngineRow.f_remaining_memory + memory,
                f_remaining_gpus=EngineRow.f_remaining_gpus + gpus,
            ).where(_engine_is(name))
        )
