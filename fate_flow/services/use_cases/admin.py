"""An operator's actions on the party's own database, while the server runs or not.

They use the same use cases and guards as the server: a row that the server moves meanwhile is not moved twice, and the
scheduler finds the changes with its next poll. A running worker loses nothing that it needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fate_flow.core.model.errors import Conflict, JobNotFound, OperationFailed
from fate_flow.core.model.job import Claim, EngineState, Job, JobKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.ends import end_job_here, release
from fate_flow.services.participant.participant import Participant
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.contract.transaction import Transaction

_LOOK_SECONDS = 0.2
_AFTER_GRACE_SECONDS = 10.0      # from SIGKILL until the runner has recorded the end


@dataclass(frozen=True)
class Held:
    """The engines that jobs reserve or have reserved on, and the jobs and workers that hold cores or memory of them."""

    engines: tuple[EngineState, ...]     # the default first
    jobs: tuple[Job, ...]
    elastic: tuple[Worker, ...]      # elastic workers, which hold cores beside the claims of the jobs


class Operator:
    """The operator's use cases, for a process outside the server."""

    def __init__(
        self, context: Context, monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep, by: str = "",
    ) -> None:  # fmt: skip
        """`by`: the name of the operator, for the record; empty for one who only looks."""
        self._context, self._by = context, by
        self._monotonic, self._sleep = monotonic, sleep
        self._initiator = Coordinator(Participant())
        self._watch = WorkerWatch()

    def held(self) -> Held:
        """Return what is held here, and by which jobs and workers."""
        return self._context.read(self._held)

    def release(self, key: JobKey, why: str, stops: bool) -> Claim:
        """Release the reservation of a seat by force, and end the job there if it has started; return what was held.

        If `stops`, live workers of the job are stopped first. Raises JobNotFound; Conflict if nothing is held, or if
        workers live and `stops` is false; OperationFailed if the workers do not end."""
        claim, is_released = self._context.retry(lambda: self._begin(key, why, stops))
        if not is_released:
            self._await_release(key, why)
        return claim

    def _begin(self, key: JobKey, why: str, stops: bool) -> tuple[Claim, bool]:
        with unit_of_work(self._context) as unit:
            job = unit.tx.job(key)
            if job is None:
                raise JobNotFound(f"{key} is not known here")
            if not job.holds:
                raise Conflict(f"{key} is {job.status.value} and holds nothing")
            living = self._living(unit, key)
            if living and not stops:
                raise Conflict(f"{key}: {_named(living)} runs; end the job with flow job stop, or say --stop")
            self._end(unit, job, f"released by an operator: {why}")
            return job.claim, not living and self._release(unit, key, why)

    def _end(self, unit: UnitOfWork, job: Job, message: str) -> None:
        """End a started job in the normal way; a waiting job keeps its place."""
        if job.status not in (JobStatus.RUNNING, JobStatus.STOPPING):
            return
        if job.is_initiator:
            self._initiator.request_stop(unit, job.job_id, Reason.RELEASED, message, False, str(job.party))
            self._initiator.advance(unit, job.job_id)
        else:
            end_job_here(unit, job, Reason.RELEASED, message, caused_by=str(job.party))

    def _await_release(self, key: JobKey, why: str) -> None:
        patience = self._context.rules.stop_grace_seconds + _AFTER_GRACE_SECONDS
        deadline = self._monotonic() + patience
        while not self._context.retry(lambda: self._remaining(key, why)):
            if self._monotonic() > deadline:
                raise OperationFailed(f"{key}: its workers have not ended within {patience:g} s; nothing was released")
            self._sleep(_LOOK_SECONDS)

    def _remaining(self, key: JobKey, why: str) -> bool:
        """Release the reservation once all workers have ended; return whether that is done."""
        with unit_of_work(self._context) as unit:
            for worker in _unfinished(unit.tx, key):
                self._watch.observe(unit, worker.worker_id)
            self._initiator.advance(unit, key.job_id)
            return not self._living(unit, key) and self._release(unit, key, why)

    def _release(self, unit: UnitOfWork, key: JobKey, why: str) -> bool:
        job = unit.tx.job(key)
        assert job is not None, "a row with a reservation is never removed"
        unit.tx.add_message(key, f"released by an operator: {why}")
        record_act(unit, "release by an operator", self._by, key.job_id, why)
        release(unit, job)
        text = f"what {key} held was released by an operator: {why}"
        unit.note(Event.JOB_WARNING, job_id=key.job_id, text=text)
        unit.note(Event.SERVED, job_id=key.job_id, text=text)
        unit.note(Event.SERVER_NOTE, text=text)
        return True

    def _living(self, unit: UnitOfWork, key: JobKey) -> tuple[Worker, ...]:
        engines = self._context.engines
        unfinished = _unfinished(unit.tx, key)
        return tuple(one for one in unfinished if engines.of(one).observe(one).state not in ("exited", "lost"))

    def _held(self, tx: Transaction) -> Held:
        jobs, elastic = tuple(job for job in tx.unfinished_jobs() if job.holds), tx.elastic_workers()
        used = (*(name for job in jobs for name in job.claim.by_engine()), *(worker.engine for worker in elastic))
        states = map(tx.engine, dict.fromkeys((*self._context.engines, *used)))
        return Held(tuple(one for one in states if one is not None), jobs, elastic)


def _unfinished(tx: Transaction, key: JobKey) -> list[Worker]:
    workers = (one for one in tx.workers_of(key.job_id) if one.task.party == key.party)
    return [one for one in workers if one.status is not WorkerStatus.EXITED]


def _named(workers: tuple[Worker, ...]) -> str:
    return ", ".join(f"worker {one.worker_id} of {one.task.name} (pid {_pid_of(one)})" for one in workers)


def _pid_of(worker: Worker) -> str:
    return str(worker.place.pid) if worker.place is not None and worker.place.pid else "not known yet"
