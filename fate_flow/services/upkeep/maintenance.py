"""The periodic checks of every poll: reservations, silence, time limits, workers.

Each check finds its work in the rows, and leaves it done or unchanged. All durations are measured with this process's
own monotonic clock, by a stopwatch or in steady time (stopwatch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import Job, Seat
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.partial import has_minimum, is_given_up
from fate_flow.core.planning.party_return import expiry
from fate_flow.core.planning.policy_events import has_policies
from fate_flow.core.text.phrases import sanitized
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import CollectStreams
from fate_flow.services.context.ports import Context
from fate_flow.services.context.stopwatch import Stopwatch
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.unanswered import unanswered_text
from fate_flow.services.participant.ends import end_job_here, forget_seat, release
from fate_flow.services.participant.plain_v1 import tell_given_up
from fate_flow.services.participant.reserving import hold_of
from fate_flow.services.participant.standing import ask_standing
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.contract.transaction import Transaction


def sweep_exchange(context: Context, tx: Transaction) -> None:
    """Drop the messages of jobs that are over from the spool of this home."""
    context.exchange.sweep(lambda job_id: all(job.is_final for job in tx.jobs_here(job_id)))


class Maintenance:
    def __init__(self, initiator: Coordinator, watch: WorkerWatch, stopwatch: Stopwatch) -> None:
        self._initiator = initiator
        self._watch = watch
        self._stopwatch = stopwatch
        self._copies_asked = (0, "")       # how often copies were asked about, and the last job id

    def run(self, unit: UnitOfWork) -> tuple[Job, ...]:
        """Run all checks, and return the jobs that are not over."""
        # The sweep comes before this transaction ends a job: if the commit failed, purged messages would be lost.
        with unit.isolated("the sweep of the exchange"):
            sweep_exchange(unit.context, unit.tx)
            for one in unit.context.exchange.uncollected_streams():
                unit.after_commit(CollectStreams(one))
        self._watch.observe_all(unit)
        jobs = unit.tx.unfinished_jobs()
        heartbeats = unit.tx.heartbeats()
        for job in jobs:
            with unit.isolated(job.key):
                if job.is_initiator:
                    self._watch_own(unit, job)
                else:
                    self._watch_others(unit, job, heartbeats)
        self._watch_queue(unit)
        self._ask_of_waiting_copies(unit)
        self._stopwatch.keep_only(_watched(jobs) | self._watch_drains(unit) | {_COPIES})
        return jobs

    # ------------------------------------------------------------------ jobs of this initiator

    def _watch_own(self, unit: UnitOfWork, job: Job) -> None:
        rules = unit.context.rules
        if job.reason is not None:
            return
        if job.status is JobStatus.READY and self._stands_still(("ready", job.key), job.run, rules.ready):
            self._stop(unit, job, Reason.PARTY_REFUSED, unanswered_text(unit.tx, job.job_id, "in time"))
        elif job.lost_since:
            self._watch_loss(unit, job)
        elif job.status is JobStatus.RUNNING and 0 < job.timeout_seconds * 1000 < unit.steady - job.since:
            self._time_out(unit, job, f"took longer than {job.timeout_seconds} s in all, {_WITH_QUEUE}")

    def _watch_loss(self, unit: UnitOfWork, job: Job) -> None:
        """Stop a job that has waited for its lost party for longer than its retry rule allows."""
        spec = unit.spec(job.job_id)
        limit = spec.retry.duration if spec is not None else 0
        if job.status is JobStatus.WAITING and 0 < limit * 1000 < unit.steady - job.lost_since:
            self._stop(unit, job, Reason.PARTY_UNREACHABLE, expiry(limit))

    def _time_out(self, unit: UnitOfWork, job: Job, message: str, caused_by: str = "") -> None:
        unit.note(Event.RUN_TIMEOUT, job_id=job.job_id, seconds=(unit.steady - job.since) // 1000)
        self._stop(unit, job, Reason.JOB_TIMEOUT, message, caused_by)

    def _watch_queue(self, unit: UnitOfWork) -> None:
        for job in unit.tx.overdue_waiting(unit.steady):
            why = job.wait_reason or "its turn did not come"
            text = f"waited until its {job.timeout_seconds} s in all were over: {why}"
            self._time_out(unit, job, text, _waited_for(unit, job))
        limit = unit.context.rules.resource_waiting
        if not limit:
            return
        for job in unit.tx.waiting_jobs():
            if unit.steady - job.queued > limit and job.reason is None and job.hold is None:
                self._stop(unit, job, Reason.NO_CAPACITY, f"waited longer than {limit // 1000} s: {job.wait_reason}")

    def _watch_drains(self, unit: UnitOfWork) -> set[Hashable]:
        """Stop jobs with a stopped task that a party does not end in time; return the keys of the watched drains.

        The limit is the time that a party may be silent, plus a drain, so that a job survives a network partition as
        long as elsewhere."""
        rules, keys = unit.context.rules, set[Hashable]()
        for task in unit.tx.stopping_tasks():
            key, patience = ("drain", task.key), rules.party_silence + rules.drain
            keys.add(key)
            job = unit.tx.job_here(task.key.job_id)
            if job is None or job.reason is not None or task.is_over_here:
                continue
            if self._stands_still(key, task.incarnation, patience):
                text = f"{task.key.name} did not end within {patience // 1000} s on {task.key.party}"
                self._stop(unit, job, Reason.TASK_FAILED, text, str(task.key.party))
        return keys

    def _stop(self, unit: UnitOfWork, job: Job, reason: Reason, message: str, caused_by: str = "") -> None:
        self._initiator.request_stop(unit, job.job_id, reason, message, False, caused_by or str(job.party))

    def seats_ended(
        self, unit: UnitOfWork, party_id: str, ended: Mapping[str, str], runs: Mapping[str, int]
    ) -> None:
        """Stop jobs that are over at a party, as it says, but run there as far as this initiator knows.

        `ended`: reason by job id; `runs`: the run of each job in the heartbeat."""
        for job_id, why in ended.items():
            job = unit.tx.job_here(job_id)
            seat = next((one for one in unit.tx.seats(job_id) if _runs_at(one, party_id)), None)
            if job is not None and seat is not None and runs.get(job_id, seat.run) == seat.run:
                is_lost = why == Reason.INITIATOR_LOST.value
                reason = Reason.INITIATOR_LOST if is_lost else Reason.PARTY_REFUSED
                cause = job.party if is_lost else seat.party      # the silent party, not the one that noticed it
                self._stop(unit, job, reason, f"{seat.party} has ended it: {sanitized(why, 200)}", str(cause))

    def party_lost(self, unit: UnitOfWork, party_id: str, seconds: float) -> None:
        """Count all that runs at a party as lost, because it was silent for too long. Called again while that lasts."""
        self._lose(unit, party_id, lambda _job, _seat: f"party {party_id} has not answered for {seconds:.0f} s")

    def party_cut_off(self, unit: UnitOfWork, trouble: PeerTrouble) -> None:
        """Count a party as silent if it has not reached this server for too long."""
        cut_off, since = trouble.without_silence(), trouble.cut_off_since
        if since and unit.steady - since > unit.context.rules.party_silence:
            self._lose(unit, cut_off.party_id, lambda job, seat: cut_off.explain(seat.party, job.party, unit.steady))

    def _lose(self, unit: UnitOfWork, party_id: str, text: Callable[[Job, Seat], str]) -> None:
        for seat in unit.tx.seats_at(party_id):
            job = unit.tx.job_here(seat.job_id)
            if job is not None and job.reason is None and not job.is_final and not is_given_up(job, seat):
                message = text(job, seat)
                if self._is_left_to_rules(unit, job, seat):
                    if unit.tx.fall_silent(seat, max(1, unit.steady), message):
                        unit.touch(job.job_id)
                    continue
                self._stop(unit, job, Reason.PARTY_UNREACHABLE, message, str(seat.party))

    def _is_left_to_rules(self, unit: UnitOfWork, job: Job, seat: Seat) -> bool:
        spec = unit.spec(job.job_id)
        is_running = job.status is JobStatus.RUNNING and seat.status is SeatStatus.STARTED
        return is_running and spec is not None and (has_policies(spec) or has_minimum(spec))

    def party_answers(self, unit: UnitOfWork, party_id: str) -> None:
        """Note that the party answers, so that policies waiting for its silence do not act."""
        for seat in unit.tx.silent_seats():
            if seat.party.party_id == party_id:
                unit.tx.answers_again(seat)
                unit.touch(seat.job_id)

    # ------------------------------------------------------------------ jobs of others

    def _watch_others(self, unit: UnitOfWork, job: Job, heartbeats: Mapping[str, int]) -> None:
        rules = unit.context.rules
        if job.status is JobStatus.READY:
            if self._stands_still(("ready", job.key), job.run, rules.ready):
                unit.note(Event.DETECT_NOTE, text=f"{job.key} was created and never accepted everywhere: removed")
                forget_seat(unit, job)
            else:
                self._watch_reservation(unit, job)
        elif job.status is JobStatus.WAITING:
            self._watch_reservation(unit, job)
        elif job.status in (JobStatus.RUNNING, JobStatus.STOPPING):
            counter = heartbeats.get(job.initiator.party_id, 0)
            is_own = job.initiator.party_id in (unit.context.party_id, "0")
            silence = rules.plain_silence if job.is_plain_v1 else rules.initiator_silence
            if not is_own and self._stands_still(("initiator", job.key), counter, silence):
                text = f"party {job.initiator.party_id} was silent for {silence // 1000} s"
                end_job_here(unit, job, Reason.INITIATOR_LOST, text)
                if job.status is JobStatus.RUNNING:
                    tell_given_up(unit, job)

    def _watch_reservation(self, unit: UnitOfWork, job: Job) -> None:
        """Release a reservation that its initiator neither starts nor renews."""
        if job.holds and self._stands_still(("hold", job.key), job.claim, hold_of(unit.context.rules, job)):
            self._take_back(unit, job)

    def _ask_of_waiting_copies(self, unit: UnitOfWork) -> None:
        """Ask for the standing of some waiting copies from time to time, to find those that their initiator has
        forgotten."""
        if not self._stands_still(_COPIES, self._copies_asked, unit.context.rules.copy_check):
            return
        found = unit.tx.copies_that_wait(self._copies_asked[1], _COPIES_AT_ONCE)
        ask_standing(unit, found)
        self._copies_asked = (self._copies_asked[0] + 1, found[-1] if len(found) == _COPIES_AT_ONCE else "")

    def _take_back(self, unit: UnitOfWork, job: Job) -> None:
        place = {"role": job.party.role, "party_id": job.party.party_id}
        unit.note(Event.DETECT_RETURN_ASKED, job_id=job.job_id, **place)
        outcome = "successfully" if _released_while_waiting(unit, job) else "failed"
        unit.note(Event.DETECT_RETURNED, job_id=job.job_id, outcome=outcome, **place)

    def _stands_still(self, key: Hashable, token: object, milliseconds: int) -> bool:
        return self._stopwatch.unchanged_seconds(key, token) * 1000 > milliseconds


_COPIES, _COPIES_AT_ONCE = "waiting copies", 64
_WITH_QUEUE = "the time in the queue included"


def _waited_for(unit: UnitOfWork, job: Job) -> str:
    """Return the party that a waiting job is blocked on; empty if there is none."""
    if job.blocked_by is None:
        return ""
    seats = [seat for seat in unit.tx.seats(job.job_id) if seat.party.party_id == job.blocked_on]
    return next((str(seat.party) for seat in seats if seat.blocked_by is job.blocked_by), "")


def _runs_at(seat: Seat, party_id: str) -> bool:
    return seat.party.party_id == party_id and seat.status is SeatStatus.STARTED


def _released_while_waiting(unit: UnitOfWork, job: Job) -> bool:
    """Release the reservation, unless another process has just started the job (possible on MySQL only)."""
    try:
        with unit.part():
            done = release(unit, job)
            now = unit.tx.job(job.key)
            if now is not None and now.status not in (JobStatus.READY, JobStatus.WAITING):
                raise Conflict
            return done
    except Conflict:
        return False


def _watched(jobs: tuple[Job, ...]) -> set[Hashable]:
    kinds = ("ready", "hold", "initiator")
    return {(kind, job.key) for job in jobs for kind in kinds}
