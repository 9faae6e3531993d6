"""What may never happen, looked at after every commit of every party, as far as it has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from fate_flow.core.access.bound_document import why_other_document
from fate_flow.core.model.job import Command, CommandKind, Job, JobKey, Task, TaskKey
from fate_flow.core.model.reasons import Author, Reason, may_say
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, SeatStatus, TaskStatus, may_move
from fate_flow.core.planning.policy_events import own_faults
from fate_flow.core.planning.replicas import COLLECTOR
from tests.simulation.rules.capacity import CapacityRules, has_released, refused
from tests.simulation.rules.rows import BY_POLICY, Rules, Seen, present
from tests.simulation.rules.settled import SettledRules
from tests.simulation.world.engine import FakeWorker
from tests.simulation.world.stores import Changes

if TYPE_CHECKING:
    from tests.simulation.world.party import SimParty
    from tests.simulation.world.world import World


_MOST_RESTARTS = 2      # as `RetryRule` counts, and no job asks for more
_GOOD = (TaskStatus.SUCCESS, TaskStatus.PASS)
QUIET_SILENCE = 60_000
"""Milliseconds after which a job that waits must have said why; a scheduler looks at it every two seconds."""


class Invariants(Rules):
    """All rules of a world; those of jobs, tasks and workers are here."""

    def __init__(self, world: World) -> None:
        super().__init__(world, {})
        self.capacity = CapacityRules(world, self._seen)
        self._documents: dict[tuple[str, int, str], tuple[Party, str]] = {}
        self.settled = SettledRules(world, self._seen)

    def committed(self, party: SimParty, owner: str) -> None:
        """A process of this party has committed; `owner` names it if it is one that schedules."""
        seen, changes = self.seen(party), party.books.changes()
        has_written = any(seen.seats.get(key) != seat for key, seat in changes.seats.items())
        for job_key, job in changes.jobs.items():
            before = seen.jobs.get(job_key)
            if before != job:
                has_written = True
                self._check_order(seen, changes, before, job)
                self._job_changed(party, before, job)
        for task_key, task in changes.tasks.items():
            old = seen.tasks.get(task_key)
            if old is None and task is not None:
                self._task_began(party, seen, changes, task)
            if old is not None and task is not None and old != task:
                has_written = True
                self._task_changed(party, old, task)
        waits, has_returned = refused(seen, changes), has_released(seen, changes)
        seen.take(changes)
        for job in changes.jobs.values():
            self._check_nothing_is_kept_in_vain(seen, job)
        self.capacity.check_books(party, seen)
        self.capacity.check_elastic(party, seen, changes, waits, has_returned)
        if owner and has_written and party.books.schedules() != owner:
            self._fail(f"{owner} wrote although {party.books.schedules() or 'nobody'} schedules")

    # ------------------------------------------------------------------ jobs

    def _job_changed(self, party: SimParty, old: Job | None, new: Job | None) -> None:
        if new is None:
            if old is not None:
                self._job_forgotten(old)
            return
        if new.is_initiator and old is not None:
            self._count_policies(old, new)
        self._check_holding(party, old, new)
        if new.is_initiator and new.is_final and not (old is not None and old.is_final):
            self._check_waited_for_return(old, new)
        if new.is_final and new.reason is None:
            self._fail(f"{new.key} is {new.status.value} for no reason")
        if old is not None and new.revision != old.revision:
            self._revised(old, new)
        if new.is_initiator and new.reason is not None and not may_say(Author.INITIATOR, new.reason):
            self._fail(f"{new.key} is {new.status.value} by {new.reason.value}, which is not for it to say")
        if old is not None and new.run != old.run:
            self._run_changed(party, old, new)
        elif old is not None and new.status is not old.status:
            self._job_moved(party, old, new)

    def _check_waited_for_return(self, old: Job | None, new: Job) -> None:
        """A job that asks for it does not end for a party that it has lost, but when that has not returned in time."""
        if (
            new.reason is not Reason.PARTY_UNREACHABLE
            or new.job_id not in self._world.returning
            or not new.round_number
        ):
            return
        has_waited = old is not None and old.lost_since > 0 and self._world.returning[new.job_id] > 0
        if not has_waited and new.losses < 3 and new.job_id not in self._world.stopped:
            self._fail(f"{new.key} has lost a party and does not wait for its return: {new.message}")

    def _check_holding(self, party: SimParty, old: Job | None, new: Job) -> None:
        """What it holds fits what it does, and nothing begins on hold."""
        if new.holds and new.is_final:
            self._fail(f"{new.key} is {new.status.value} and holds")
        if new.status is JobStatus.RUNNING and not new.holds:
            self._fail(f"{new.key} runs and holds nothing")
        self._check_people_are_heard(party, old, new)

    def _check_people_are_heard(self, party: SimParty, old: Job | None, new: Job) -> None:
        """Nothing begins against the word of a user or an operator."""
        if new.holds and not (old is not None and old.holds) and party.is_on_hold:
            self._fail(f"{new.key} has reserved at a party that is on hold")
        if new.holds and new.consent is not None and not new.consent.is_given:
            self._fail(f"{new.key} has reserved and is {new.consent.approval.value}")
        if (
            old is not None
            and old.hold is not None
            and (new.round_number != old.round_number or new.status is JobStatus.RUNNING)
        ):
            self._fail(f"{new.key} was on hold and is {new.status.value} in reservation round {new.round_number}")

    def _check_nothing_is_kept_in_vain(self, seen: Seen, job: Job | None) -> None:
        """A job that the queue holds back has reserved nothing at any party."""
        if job is None or not job.is_initiator or job.status is not JobStatus.WAITING or job.ready_owner:
            return
        if job.wait_reason or job.hold is not None:
            for seat in seen.seats.values():
                if seat.job_id == job.job_id and seat.status is SeatStatus.HELD:
                    self._fail(f"{job.key} waits, and {seat.party} keeps what it has reserved")

    def _check_order(self, seen: Seen, changes: Changes, old: Job | None, new: Job | None) -> None:
        """Nobody who needs the same parties is left standing before a job that is given its reservation round."""
        if old is None or new is None or new.round_number == old.round_number:
            return
        for before in seen.jobs.values():
            now = changes.jobs.get(before.key, before)
            stood = (
                _stands_in_line(before)
                and now is not None
                and _stands_in_line(now)
                and now.round_number == before.round_number
            )
            if stood and now.order < new.order and set(now.parties) == set(new.parties):
                self._fail(f"{new.key} had its reservation round before {now.key}, which stands before it")
    def _count_policies(self, old: Job, new: Job) -> None:
        acted = self._world.acted
        acted["restart_job"] += old.run == new.run and old.restarts < new.restarts
        acted["overtaken"] += sum(key not in new.timers for key in old.timers) if new.status is JobStatus.RUNNING else 0
        if new.reason is not old.reason and new.reason in BY_POLICY:
            acted[new.reason.value] += 1

    def _job_moved(self, party: SimParty, old: Job, new: Job) -> None:
        if new.reason is Reason.OTHER_DOCUMENT and not self._world.lies:
            self._fail(f"{new.key} is {new.status.value}, and nobody has lied: {new.message}")
        if old.status in JOB_END:
            self._fail(f"{new.key} had ended as {old.status.value} and is {new.status.value}")
        through = _passed_at_once(old, new)
        if not may_move(old.status, new.status) and through is None:
            self._fail(f"{new.key} went from {old.status.value} to {new.status.value}")
        if through is not None and not party.record.has_job(new.job_id, through.value):
            self._fail(f"{new.key} went through {through.value} without a record")
        if not party.record.has_job(new.job_id, new.status.value):
            self._fail(f"{new.key} went from {old.status.value} to {new.status.value} without a record")
        if old.status is JobStatus.RUNNING and new.status is JobStatus.WAITING and new.holds:
            self._fail(f"{new.key} waits for its next attempt and holds {new.claim.cores} cores")
        self._check_not_for_who_was_given_up(party, old, new)

    def _check_not_for_who_was_given_up(self, party: SimParty, old: Job, new: Job) -> None:
        """Nobody waits for a party that the job went on without: its silence is no reason to end."""
        if new.reason is not Reason.PARTY_UNREACHABLE or not new.is_initiator:
            return
        for seat in (one for one in self.seen(party).seats.values() if one.job_id == new.job_id):
            went_on = old.status is JobStatus.RUNNING and seat.status in (SeatStatus.STOPPING, SeatStatus.DRAINING)
            if went_on and str(seat.party) == new.caused_by:
                self._fail(f"{new.key} is {new.status.value}: {new.message}, and it had gone on without {seat.party}")

    def _run_changed(self, party: SimParty, old: Job, new: Job) -> None:
        """A run begins when the one before is over here: nothing is held, nothing runs."""
        if new.run < old.run or new.holds:
            self._fail(f"{new.key} went from run {old.run} to run {new.run}, holding {new.claim.cores} cores")
        if not party.record.has_job(new.job_id, JobStatus.WAITING.value):
            self._fail(f"run {new.run} of {new.key} began without a record")
        for task in (one.task for one in party.engine.living()):
            if (task.job_id, task.party) == (new.job_id, new.party):
                self._fail(f"run {new.run} of {new.key} began while {task} had a worker")

    def _revised(self, old: Job, new: Job) -> None:
        """Parameters change while nothing of the job runs here, and never back. One request may change them and then
        reserve: a row that holds something is not changed."""
        is_at_rest = old.is_final or new.is_final or (
            new.status is JobStatus.WAITING and not (new.holds and (old.holds or old.status is not JobStatus.WAITING))
        )
        if new.revision < old.revision or not is_at_rest:
            self._fail(f"{old.key} is {old.status.value} and went from revision {old.revision} to {new.revision}")

    def _job_forgotten(self, old: Job) -> None:
        if old.round_number or old.status in (JobStatus.RUNNING, JobStatus.STOPPING, JobStatus.SUCCESS):
            self._fail(f"{old.key} was forgotten while it was {old.status.value}")

    @contextmanager
    def touches_only_what_it_means(self, party: SimParty, batch: Sequence[Command]) -> Iterator[None]:
        """A return or a start that comes late gives nothing back and starts nothing that a later reservation round has
        reserved."""
        rows = self.seen(party).jobs
        starts, rounds = _rounds(batch, CommandKind.START), _rounds(batch, CommandKind.RETURN)
        waited = {key for key in starts if key in rows and rows[key].status is JobStatus.WAITING}
        later = {
            key: rows[key].claim
            for key, round_number in rounds.items()
            if key in rows and rows[key].claim.round_number > round_number
        }
        yield
        for key in waited:
            now = rows.get(key)
            if now is not None and now.status is JobStatus.RUNNING and now.claim.round_number != starts[key]:
                self._fail(
                    f"a start of reservation round {starts[key]} started what round {now.claim.round_number} "
                    f"of {key} reserved"
                )
        for key, claim in later.items():
            now = rows.get(key)
            if claim.token and now is not None and not now.is_final and now.claim.token != claim.token:
                self._fail(
                    f"a return of reservation round {rounds[key]} gave back what round {claim.round_number} "
                    f"of {key} reserved"
                )

    # ------------------------------------------------------------------ tasks

    def _without_inputs(self, key: TaskKey, rows: Sequence[Task]) -> set[Party]:
        """Who lacks what a task needs, and so takes no part in it."""
        newest: dict[tuple[str, Party], Task] = {}
        for row in sorted(rows, key=lambda one: one.key.version):
            newest[row.key.name, row.key.party] = row
        needs = self._world.graphs[key.job_id][key.name]
        return {party for (name, party), row in newest.items() if name in needs and row.party_status not in _GOOD}

    def _task_began(self, party: SimParty, seen: Seen, changes: Changes, new: Task) -> None:
        """A new version follows on the one before it, which has ended, and there is a cause for it."""
        key = new.key
        jobs = [one for one in present(seen.jobs, changes.jobs).values() if one.job_id == key.job_id]
        job = next((one for one in jobs if one.is_initiator), None)
        if job is None or key.version == 0:
            return
        every = present(seen.tasks, changes.tasks).values()
        before = [one for one in every if _is_version(one, key, key.version - 1)]
        seats = [one for one in present(seen.seats, changes.seats).values() if one.job_id == key.job_id]
        gone = {one.party for one in seats if one.status in (SeatStatus.STOPPING, SeatStatus.DRAINING)}
        gone |= self._without_inputs(key, [one for one in every if one.key.job_id == key.job_id])
        if not before or not all(one.is_final and (one.is_over_here or one.key.party in gone) for one in before):
            self._fail(f"{new.key} began before version {key.version - 1} had ended everywhere")
        was = seen.jobs.get(job.key)
        is_asked = was is None or was.run != job.run or was.restarts < job.restarts or was.is_restarting
        is_asked = is_asked or job.rerun_signal       # a party has not kept what the run that begins was to read
        if not is_asked and not own_faults(before) and not any(one.policy for one in before):
            self._fail(f"{new.key} began and nothing had happened to version {key.version - 1}")
        self._check_bounds(job, new)

    def _check_bounds(self, job: Job, new: Task) -> None:
        """Neither a policy nor the retry rule has anything begin again for ever."""
        if job.restarts > _MOST_RESTARTS or new.tries.errors > _MOST_RESTARTS or new.tries.interruptions > 10:
            self._fail(f"{new.key} began again too often: {new.tries}, its job {job.restarts} times")

    def _policy_noted(self, party: SimParty, seen: Seen, task: Task) -> None:
        """By the initiator, which acts by it; elsewhere a share says only that its initiator has."""
        job = next((one for one in seen.jobs.values() if one.job_id == task.key.job_id and one.is_initiator), None)
        if job is not None:
            self._world.acted[task.policy] += task.policy != "restart_job"      # counted once, by the job
            self._policy_acted(party, seen, job, task)

    def _policy_acted(self, party: SimParty, seen: Seen, job: Job, task: Task) -> None:
        """A rule that acts later acts on what still stands, and not before its time."""
        rules = self._world.policies[task.key.job_id]
        if task.policy == "restart_job" or not all(one.get("timeout") for one in rules):
            return
        with party.store.reading() as tx:
            now = tx.steady()
        mine = f" {task.key.name} {task.key.version}"
        due = [key for key, at in job.timers.items() if mine in key and at <= now]
        rows = [one for one in seen.tasks.values() if _is_version(one, task.key, task.key.version)]
        if not any(_stands(key, rows) for key in due):
            self._fail(f"{task.policy} of {task.key} although nothing that stands was due: {job.timers} at {now}")

    def _task_changed(self, party: SimParty, old: Task, new: Task) -> None:
        for column, before, after in (
            ("status", old.status, new.status),
            ("party_status", old.party_status, new.party_status),
        ):
            if before is after:
                continue
            if column == "party_status" and after is TaskStatus.SUCCESS and new.runs_here:
                self._share_succeeded(party, new)
            if before in TASK_END or not may_move(before, after):
                self._fail(f"{column} of {new.key} went from {before.value} to {after.value}")
            is_reported = column == "party_status" and not new.runs_here      # the request that told is on record
            if not is_reported and not party.record.has_task(column, new.key, after.value):
                self._fail(f"{column} of {new.key} became {after.value} at {party.party_id} without a record")
        is_lost = not new.runs_here and new.reason is Reason.PARTY_UNREACHABLE       # the initiator's word on a share
        if new.reason is not None and not is_lost and not may_say(Author.PARTY, new.reason):
            self._fail(f"{new.key} is {new.party_status.value} by {new.reason.value}, which is not for a party to say")
        if old.incarnation != new.incarnation:
            self._fail(f"{new.key} changed its incarnation")
        self._check_federated_end(old, new)
        if new.policy != old.policy and new.runs_here:
            self._policy_noted(party, self.seen(party), new)

    def _check_federated_end(self, old: Task, new: Task) -> None:
        """A task over all its parties ends for a reason, by somebody's doing, once."""
        if new.is_final and not (new.federated_reason and new.federated_caused_by and new.federated_end_time):
            self._fail(f"{new.key} is {new.status.value} over all its parties for no reason: {new}")
        if old.is_final and _federated_end(old) != _federated_end(new):
            self._fail(f"{new.key} had ended by {_federated_end(old)}, and now by {_federated_end(new)}")

    # ------------------------------------------------------------------ workers

    def worker_begins(self, party: SimParty, worker: FakeWorker, living: list[FakeWorker]) -> None:
        key = worker.task
        for other in living:
            if other is worker or (other.task.task_id, other.task.party) != (key.task_id, key.party):
                continue
            if other.task.version != key.version or other.slot == worker.slot:
                self._fail(f"two workers of {key.task_id} at {key.party}: versions {other.task.version}, {key.version}")
        known = self._world.graphs[key.job_id]
        for name in known[key.name] if not worker.is_stopped else ():
            self._needs_success(key, name)
        claim = self._claim_of(party, key)
        if claim is not None and not claim.holds and not claim.is_final and not worker.is_stopped:
            self._fail(f"a worker of {key} begins and its job holds nothing there")
        if claim is not None and not worker.is_stopped:
            self._check_revision(worker, claim)
        self._check_document(worker)
        self.capacity.check_needs(party, worker, living, claim)

    def _check_document(self, worker: FakeWorker) -> None:
        """Honest parties never refuse each other's messages because of the documents of a job."""
        if self._world.lies:
            return
        key, named = worker.task, worker.order.document
        if not named:
            self._fail(f"a worker of {key} begins and its job names no document")
        attempt = (key.task_id, key.version, worker.order.incarnation)
        seat, other = self._documents.setdefault(attempt, (key.party, named))
        if why := why_other_document(str(key.party), named, str(seat), other):
            self._fail(f"{key}: {why}")

    def _check_revision(self, worker: FakeWorker, row: Job) -> None:
        """While the job runs all of it runs with the parameters that its initiator has."""
        initiator = self._world.seats[row.job_id][0]
        party = self._world.parties[initiator.party_id]
        deciding = self.seen(party).jobs.get(JobKey(row.job_id, initiator))
        if deciding is None or (deciding.run, deciding.status) != (row.run, JobStatus.RUNNING) or not deciding.revision:
            return
        with party.store.reading() as tx:
            conf = tx.document(row.job_id).runtime_conf
        common = (conf.get("component_parameters") or {}).get("common") or {}
        described, has = common.get(worker.task.name, {}).get("x"), worker.order.parameters.get("x")
        self._world.acted["ran changed"] += described is not None
        if row.revision != deciding.revision or has != described:
            has_notified = f"x={has} of revision {row.revision}, not {described} of {deciding.revision}"
            self._fail(f"{worker.task} begins with {has_notified}")

    def _share_succeeded(self, party: SimParty, task: Task) -> None:
        """Of a command: each rank was brought to a good end, and nothing of it runs any more."""
        replicas = [one for one in party.engine.workers.values() if one.task == task.key]
        program = next((one.order.program for one in replicas if one.order.program), None)
        if program is None:
            return
        command = program.command
        if not any(one.slot == COLLECTOR and one.is_good for one in replicas):
            self._fail(f"{task.key} succeeded, and nobody has collected what it made")
        done = {one.order.worker.rank for one in replicas if one.is_good}
        if not set(range(command.size)) <= done:
            self._fail(f"{task.key} succeeded, and of its {command.size} ranks only {done} ended well")
        if any(one.task == task.key for one in party.engine.living()):
            self._fail(f"{task.key} succeeded, and a worker of it runs")

    def needing(self, initiator_id: str, party_id: str) -> set[tuple[str, int]]:
        """The jobs of an initiator, each in its run, of which something runs at this party."""
        seen = self.seen(self._world.parties[initiator_id])
        running = (job for job in seen.jobs.values() if job.is_initiator and job.status is JobStatus.RUNNING)
        return {(job.job_id, job.run) for job in running if self._has_started(seen, job.job_id, party_id)}

    def _has_started(self, seen: Seen, job_id: str, party_id: str) -> bool:
        seats = (seat for key, seat in seen.seats.items() if key[0] == job_id and seat.party.party_id == party_id)
        return any(seat.status is SeatStatus.STARTED for seat in seats)

    def gave_up(self, jobs: set[tuple[str, int]], initiator_id: str, party_id: str) -> None:
        """None of these waits any more for a party that could not reach their initiator for too long."""
        for job_id, run in jobs & self.needing(initiator_id, party_id):
            self._fail(f"run {run} of job {job_id} runs, and party {party_id} cannot reach party {initiator_id}")

    def _claim_of(self, party: SimParty, key: TaskKey) -> Job | None:
        return self.seen(party).jobs.get(JobKey(key.job_id, key.party))

    def _needs_success(self, key: TaskKey, name: str) -> None:
        for party in self._world.seats[key.job_id]:
            seen = self.seen(self._world.parties[party.party_id])
            newest = seen.tasks.get(TaskKey(key.job_id, name, seen.newest.get((key.job_id, name, party), 0), party))
            if newest is None or not (newest.party_status in _GOOD or self._does_without(newest.key)):
                self._fail(f"{key} began before {name} succeeded on {party}")
            elif newest.is_final and newest.status not in _GOOD and self._has_returned(key.job_id):
                self._fail(f"{key} began, and {party} has not kept what {name} made there")

    def _has_returned(self, job_id: str) -> bool:
        """Whether the job has waited for a party that it had lost: then all agree on what was kept."""
        initiator = self._world.seats[job_id][0]
        job = self.seen(self._world.parties[initiator.party_id]).jobs.get(JobKey(job_id, initiator))
        return job is not None and job.losses > 0

    def _does_without(self, key: TaskKey) -> bool:
        """Whether its initiator has let a task succeed without this share; who is lost knows no later version."""
        initiator = self._world.seats[key.job_id][0]
        seen = self.seen(self._world.parties[initiator.party_id])
        row = seen.tasks.get(replace(key, version=seen.newest.get((key.job_id, key.name, key.party), 0)))
        return row is not None and row.status in _GOOD and row.party_status not in _GOOD


def _federated_end(task: Task) -> tuple[object, ...]:
    return (
        task.federated_reason, task.federated_message, task.federated_exit_code, task.federated_caused_by,
        task.federated_end_time,
    )


def _stands_in_line(job: Job) -> bool:
    """Nothing is known against its reservation round."""
    is_free = not (job.blocked_on or job.ready_owner or job.rerun_signal or job.reason or job.hold)
    return job.is_initiator and job.status is JobStatus.WAITING and is_free


def _is_version(task: Task, key: TaskKey, version: int) -> bool:
    return (task.key.job_id, task.key.name, task.key.version) == (key.job_id, key.name, version)


def _stands(timer: str, rows: Sequence[Task]) -> bool:
    """Whether what this timer is for was still so."""
    event = timer.split()[0]
    if event == "start_timeout":
        return any(row.party_status is TaskStatus.WAITING for row in rows)
    return bool(own_faults(rows))


def _rounds(batch: Sequence[Command], kind: CommandKind) -> dict[JobKey, int]:
    """The reservation round that each command of this kind belongs to; the last of a batch that has several for one
    row."""
    return {
        JobKey(one.job_id, one.to): int(one.body["turn"]) for one in batch if one.kind is kind and "turn" in one.body
    }


def _passed_at_once(old: Job, new: Job) -> JobStatus | None:
    """Return the status that a job passes through in one transaction: one request says that all have accepted it, and
    that it starts."""
    return JobStatus.WAITING if (old.status, new.status) == (JobStatus.READY, JobStatus.RUNNING) else None
