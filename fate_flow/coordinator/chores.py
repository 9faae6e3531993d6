"""What has to be looked after on every poll: holds, silence, timeouts, workers.

Each chore finds its work in the rows and leaves it done or unchanged; all durations are measured by a stopwatch on
this process's own monotonic clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from fate_flow.audit.events import Event
from fate_flow.coordinator.initiator import InitiatorSide
from fate_flow.coordinator.party import end_job_here, forget_seat, release
from fate_flow.coordinator.stopwatch import Stopwatch
from fate_flow.coordinator.unit import Unit
from fate_flow.coordinator.workers import WorkerWatch
from fate_flow.core.job import Job
from fate_flow.core.reasons import Reason
from fate_flow.core.status import JobStatus, SeatStatus


class Chores:
    def __init__(self, initiator: InitiatorSide, watch: WorkerWatch, stopwatch: Stopwatch) -> None:
        self._initiator = initiator
        self._watch = watch
        self._stopwatch = stopwatch

    def run(self, unit: Unit) -> tuple[Job, ...]:
        """Do all of it; the jobs that are not over."""
        self._watch.look_at_all(unit)
        jobs = unit.tx.unfinished_jobs()
        heard = unit.tx.heard()
        for job in jobs:
            if job.is_initiator:
                self._watch_own(unit, job)
            else:
                self._watch_others(unit, job, heard)
        self._watch_queue(unit)
        self._stopwatch.keep_only(_watched(jobs, heard))
        return jobs

    # ------------------------------------------------------------------ jobs of this initiator

    def _watch_own(self, unit: Unit, job: Job) -> None:
        rules = unit.context.rules
        if job.status is JobStatus.READY:
            if self._stands_still(("ready", job.key), job.run, rules.ready):
                self._initiator.request_stop(
                    unit, job.job_id, Reason.PARTY_REFUSED, "not every party answered in time", False, str(job.party)
                )
        elif job.status is JobStatus.RUNNING and job.timeout_seconds:
            seconds = (unit.now - job.create_time) // 1000
            if seconds > job.timeout_seconds and job.reason is None:
                unit.note(Event.RUN_TIMEOUT, job_id=job.job_id, seconds=seconds)
                self._initiator.request_stop(
                    unit, job.job_id, Reason.JOB_TIMEOUT, f"ran longer than {job.timeout_seconds} s", False,
                    str(job.party),
                )  # fmt: skip

    def _watch_queue(self, unit: Unit) -> None:
        limit = unit.context.rules.resource_waiting
        if not limit:
            return
        for job in unit.tx.waiting_jobs():
            if unit.now - job.create_time > limit and job.reason is None:
                message = f"waited longer than {limit // 1000} s: {job.wait_reason}"
                self._initiator.request_stop(
                    unit, job.job_id, Reason.NO_CAPACITY, message, False, str(job.party)
                )

    def seats_ended(self, unit: Unit, party_id: str, ended: Mapping[str, str]) -> None:
        """A party says that jobs which we believe to run there are over."""
        for job_id, why in ended.items():
            job = unit.tx.job_here(job_id)
            is_ours = job is not None and any(
                seat.party.party_id == party_id and seat.status is SeatStatus.STARTED for seat in unit.tx.seats(job_id)
            )
            if is_ours:
                message = f"party {party_id} has ended it: {why}"
                self._initiator.request_stop(unit, job_id, Reason.PARTY_REFUSED, message, False, party_id)

    def party_lost(self, unit: Unit, party_id: str, seconds: float) -> None:
        """A party has been silent for too long: what runs there counts as lost."""
        for seat in unit.tx.seats_at(party_id):
            job = unit.tx.job_here(seat.job_id)
            if job is not None and job.reason is None and not job.is_final:
                message = f"party {party_id} has not answered for {seconds:.0f} s"
                self._initiator.request_stop(
                    unit, seat.job_id, Reason.PARTY_UNREACHABLE, message, False, str(job.party)
                )

    # ------------------------------------------------------------------ jobs of others

    def _watch_others(self, unit: Unit, job: Job, heard: Mapping[str, int]) -> None:
        rules = unit.context.rules
        if job.status is JobStatus.READY:
            if self._stands_still(("ready", job.key), job.run, rules.ready):
                unit.note(Event.DETECT_NOTE, text=f"{job.key} was created and never accepted everywhere: removed")
                forget_seat(unit, job)
        elif job.status is JobStatus.WAITING and job.holds:
            if self._stands_still(("hold", job.key), (job.claim.token, job.claim.turn), rules.hold):
                self._take_back(unit, job)
        elif job.status in (JobStatus.RUNNING, JobStatus.STOPPING):
            counter = heard.get(job.initiator.party_id, 0)
            is_own = job.initiator.party_id in (unit.context.party_id, "0")
            if not is_own and self._stands_still(("initiator", job.key), counter, rules.initiator_silence):
                seconds = rules.initiator_silence // 1000
                end_job_here(
                    unit, job, Reason.INITIATOR_LOST, f"party {job.initiator.party_id} was silent for {seconds} s"
                )

    def _take_back(self, unit: Unit, job: Job) -> None:
        place = {"role": job.party.role, "party_id": job.party.party_id}
        unit.note(Event.DETECT_RETURN_ASKED, job_id=job.job_id, **place)
        done = release(unit, job)
        unit.note(
            Event.DETECT_RETURNED, job_id=job.job_id, outcome="successfully" if done else "failed", **place
        )

    def _stands_still(self, key: Hashable, token: object, milliseconds: int) -> bool:
        return self._stopwatch.unchanged_seconds(key, token) * 1000 > milliseconds


def _watched(jobs: tuple[Job, ...], heard: Mapping[str, int]) -> set[Hashable]:
    kinds = ("ready", "hold", "initiator")
    return {(kind, job.key) for job in jobs for kind in kinds} | {"scheduler"} | set(heard)
