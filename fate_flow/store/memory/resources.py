"""Cores, memory and GPUs of engines, in memory; the counterpart of `sql/resources.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Claim, EnginePart, EngineState, Hold, Job, JobKey, PendingRequest
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.planning.elastic import held_by
from fate_flow.core.planning.queue import fits
from fate_flow.store.contract.changes import MOST_PENDING, OPEN_JOBS, UNFINISHED_WORKERS
from fate_flow.store.memory.tables import BY_STATUS, as_json, refuse
from fate_flow.store.memory.unit import MemoryUnitOfWork

INTAKE = "intake"


class Resources(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def intake_hold(self) -> Hold | None:
        return self._rows.intake.rows.get(INTAKE)

    def hold_intake(self, hold: Hold) -> None:
        self._rows.intake.put(INTAKE, hold)

    def release_intake(self) -> bool:
        return self._rows.intake.drop(INTAKE)

    def engine(self, name: str) -> EngineState | None:
        return self._rows.engines.rows.get(name)

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:  # noqa: ARG002
        as_json(config)
        old = self.engine(state.name)
        if old is None:
            new = changed(state, remaining_cores=state.cores, remaining_memory=state.memory, remaining_gpus=state.gpus)
        else:
            new = EngineState(
                old.name, state.cores, state.memory, old.remaining_cores + state.cores - old.cores,
                old.remaining_memory + state.memory - old.memory, state.nodes,
                state.section, state.gpus, old.remaining_gpus + state.gpus - old.gpus,
            )  # fmt: skip
        self._rows.engines.put(new.name, new)
        return new

    def reserve(
        self, key: JobKey, engine: str, cores: int, memory: int, token: str, round_number: int, at: int, gpus: int = 0,
        elsewhere: tuple[EnginePart, ...] = (),
    ) -> bool:  # fmt: skip
        row = self._jobs.rows.get(key)
        if row is None or row.job.holds:
            return False
        claim = changed(
            row.job.claim, cores=cores, memory=memory, token=token, round_number=round_number, taken_time=at,
            engine=engine, gpus=gpus, elsewhere=elsewhere,
        )  # fmt: skip
        found = [(self.engine(name), needed) for name, needed in claim.by_engine().items()]
        parts = [(state, needed) for state, needed in found if state is not None]
        if len(parts) < len(found):
            return False
        refuse("ck_job_holds", not token)
        refuse("ck_job_final", row.job.status in JOB_END)
        if not all(has_capacity(state, needed) for state, needed in parts):
            return False
        self._change(row, claim=claim)
        for state, needed in parts:
            self._take(state, needed)
        return True

    def lock_engine(self, name: str) -> None:
        """One transaction at a time has this store."""

    def cores_of_jobs_by(self, party_id: str) -> int:
        return sum(held.cores for held in self._held_by_jobs_of(party_id))

    def gpus_of_jobs_by(self, party_id: str) -> int:
        return sum(held.gpus for held in self._held_by_jobs_of(party_id))

    def _held_by_jobs_of(self, party_id: str) -> list[Claim]:
        theirs = [row.job for row in self._in(OPEN_JOBS) if row.job.initiator.party_id == party_id]
        job_ids = {job.job_id for job in theirs}
        workers = (one for status in UNFINISHED_WORKERS for one in self._rows.workers.of(BY_STATUS, status))
        elastic = [held_by(one) for one in workers if one.is_elastic and one.task.job_id in job_ids]
        return [*elastic, *(job.claim for job in theirs if job.holds)]

    def lock_jobs_by(self, party_id: str) -> None:
        """One transaction at a time has this store."""

    def open_jobs_by(self, party_id: str) -> int:
        theirs = {row.job.job_id for row in self._in(OPEN_JOBS) if row.job.initiator.party_id == party_id}
        return len(theirs & self._rows.bindings.rows.keys())

    def renew_claim(self, key: JobKey, round_number: int) -> None:
        row = self._jobs.rows.get(key)
        if row is not None and row.job.holds and row.job.claim.round_number <= round_number:
            renewed = changed(row.job.claim, round_number=round_number, renewals=row.job.claim.renewals + 1)
            self._change(row, claim=renewed)

    def give_back(self, key: JobKey, at_most_round: int | None, at: int) -> bool:  # noqa: ARG002
        row = self._jobs.rows.get(key)
        if row is None or not row.job.holds:
            return False
        claim = row.job.claim
        if at_most_round is not None and claim.round_number > at_most_round:
            return False
        self._change(row, claim=changed(claim, token=""))
        for name, held in claim.by_engine().items():
            if (engine := self.engine(name)) is not None:
                self._come_back(engine, held)
        return True

    def _take(self, engine: EngineState, needed: Claim) -> None:
        left = changed(
            engine, remaining_cores=engine.remaining_cores - needed.cores,
            remaining_memory=engine.remaining_memory - needed.memory,
            remaining_gpus=engine.remaining_gpus - needed.gpus,
        )  # fmt: skip
        is_too_much = left.remaining_cores > engine.cores or left.remaining_memory > engine.memory
        refuse("ck_engine_remaining", is_too_much)
        refuse("ck_engine_gpus", left.remaining_gpus > engine.gpus)
        self._rows.engines.put(engine.name, left)

    def _come_back(self, engine: EngineState, held: Claim) -> None:
        self._take(engine, Claim(-held.cores, -held.memory, gpus=-held.gpus))

    def pending(self, key: JobKey, asked: int, order: int | None = None) -> None:
        row = self._jobs.rows.get(key)
        if row is not None:
            pending, queue_key = row.job.pending, row.job.queue_key if order is None else order
            self._change(row, pending=changed(pending, since=pending.since or asked, asked=asked), queue_key=queue_key)

    def first_pending(self, asked_after: int) -> Job | None:
        return next(iter(self.pending_requests(asked_after)), None)

    def pending_requests(self, asked_after: int) -> tuple[Job, ...]:
        waiting = (row.job for row in self._jobs.of(BY_STATUS, JobStatus.WAITING))
        found = (job for job in waiting if job.pending.asked > asked_after and not job.holds)
        return tuple(sorted(found, key=lambda job: (job.pending.since, job.job_id, job.party.role))[:MOST_PENDING])

    def count_bypass(self, key: JobKey) -> None:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._change(row, pending=changed(row.job.pending, passes=row.job.pending.passes + 1))

    def forget_pending(self, key: JobKey) -> None:
        row = self._jobs.rows.get(key)
        if row is not None:
            self._change(row, pending=PendingRequest())


def has_capacity(engine: EngineState, needed: Claim) -> bool:
    """Return whether the engine has enough. If its configuration was reduced, less than 0 may remain; then a request of
    0 still fits."""
    return fits(needed, Claim(engine.remaining_cores, engine.remaining_memory, gpus=engine.remaining_gpus))
