"""What may never happen, looked at after every commit of every party, as far as it has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Command, CommandKind, EngineState, Job, JobKey, Seat, Task, TaskKey, Worker
from fate_flow.core.model.policy import PolicyEvent
from fate_flow.core.model.reasons import Author, Reason, may_say
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, SeatStatus, TaskStatus, WorkerStatus, may_move
from fate_flow.core.planning.policy_events import own_faults
from fate_flow.core.planning.replicas import COLLECTOR
from tests.simulation.engine import FakeWorker
from tests.simulation.stores import Changes

if TYPE_CHECKING:
    from tests.simulation.party import SimParty
    from tests.simulation.world import World

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST_RESTARTS = 2      # as `RetryRule` counts, and no job asks for more
_GOOD = (TaskStatus.SUCCESS, TaskStatus.PASS)
_TASK_ENDS = frozenset(status.value for status in TASK_END)
_REASONS = frozenset({
    "task fails", "worker killed", "power cut", "partition", "cut off", "stopped", "fewer cores", "dead route",
})  # fmt: skip
"""Faults for which a job may fail."""

_DEATHS = frozenset({"crash", "crash before the reply", "killed"})
"""Whoever dies again and again is silent in the end; one death alone is no reason to fail."""

_LOSSES = frozenset({"request lost", "reply lost", "request late", "reply late"})
_SECONDS_THAT_NO_JOB_NEEDS = 3_600
_BY_POLICY = (Reason.FAILED_BY_POLICY, Reason.STOPPED_BY_POLICY, Reason.COMPLETED_BY_POLICY)
_SETTLED_SEATS = (SeatStatus.LEFT, SeatStatus.REFUSED)      # also who was gone for long is told in the end

QUIET_SILENCE = 60_000
"""Milliseconds after which a job that waits must have said why; a scheduler looks at it every two seconds."""


RARE = 60_000
"""Milliseconds: where commands are dropped sooner, some party may never hear of what nobody waits for."""


class Seen:
    """The rows of one party when they were looked at last."""

    def __init__(self) -> None:
        self.jobs: dict[JobKey, Job] = {}
        self.tasks: dict[TaskKey, Task] = {}
        self.newest: dict[tuple[str, str, Party], int] = {}        # the version of a task that was made last
        self.seats: dict[tuple[str, Party], Seat] = {}
        self.engine: EngineState | None = None
        self.elastic: dict[str, Worker] = {}  # those that have not exited, by id
        self.begun: set[str] = set()          # of them those that the last commit has added
        self.is_dirty = True                  # the books have to be balanced again

    def take(self, changes: Changes) -> None:
        self.is_dirty = self.is_dirty or bool(changes.jobs)
        self._take_workers(changes)
        _update(self.jobs, changes.jobs)
        _update(self.tasks, changes.tasks)
        for key, task in changes.tasks.items():
            maker = (key.job_id, key.name, key.party)
            if task is not None and key.version >= self.newest.get(maker, 0):
                self.newest[maker] = key.version
        _update(self.seats, changes.seats)

    def _take_workers(self, changes: Changes) -> None:
        self.begun = set()
        for worker_id, worker in changes.workers.items():
            if worker is not None and worker.is_elastic and worker.status is not WorkerStatus.EXITED:
                self.begun |= {worker_id} - self.elastic.keys()
                self.elastic[worker_id] = worker
                self.is_dirty = True
            elif self.elastic.pop(worker_id, None) is not None:
                self.is_dirty = True


class Invariants:
    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[str, Seen] = {}
        self._checked: Counter[tuple[str, JobKey, int]] = Counter()

    def seen(self, party: SimParty) -> Seen:
        """All rows of this party, as they were at its last commit."""
        return self._seen.setdefault(party.party_id, Seen())

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
        refused, has_released = _refused(seen, changes), _has_released(seen, changes)
        seen.take(changes)
        self._check_books(party, seen)
        self._check_elastic(party, seen, changes, refused, has_released)
        if owner and has_written and party.books.schedules() != owner:
            self._fail(f"{owner} wrote although {party.books.schedules() or 'nobody'} schedules")

    def _fail(self, message: str) -> None:
        self._world.fail(message)

    # ------------------------------------------------------------------ books

    def _check_books(self, party: SimParty, seen: Seen) -> None:
        engine = party.books.engine()
        if engine == seen.engine and not seen.is_dirty:
            return
        seen.engine, seen.is_dirty = engine, False
        claims = [*(job.claim for job in seen.jobs.values() if job.claim.token), *seen.elastic.values()]
        cores, memory = sum(one.cores for one in claims), sum(one.memory for one in claims)
        if engine.remaining_cores + cores != engine.cores or engine.remaining_memory + memory != engine.memory:
            self._fail(f"books of party {party.party_id}: {engine} and {cores} cores, {memory} MB held")
        if (engine.remaining_cores < 0 or engine.remaining_memory < 0) and not party.was_shrunk:
            self._fail(f"more reserved than there is at party {party.party_id}: {engine}")

    def _check_elastic(
        self, party: SimParty, seen: Seen, changes: Changes, refused: set[JobKey], has_released: bool
    ) -> None:
        """They begin while nobody waits for capacity, and a job that waits for no more than they hold has them go."""
        written = [one for one in changes.workers.values() if one is not None and one.is_elastic]
        begun = [one for one in written if one.worker_id in seen.begun]
        self._world.acted["elastic workers begun"] += len(begun)
        self._world.acted["elastic workers lent"] += sum(
            one.reason is Reason.CORES_LENT and one.status is WorkerStatus.EXITED for one in written
        )
        if begun:
            self._check_nobody_waits(party, seen, refused)
        if has_released or any(one.status is WorkerStatus.EXITED for one in written):
            return        # what has come back since the refusal counts when the job asks again
        for key in refused:
            self._check_made_way(party, seen, seen.jobs[key], seen.elastic.values())

    def _check_nobody_waits(self, party: SimParty, seen: Seen, refused: set[JobKey]) -> None:
        with party.store.reading() as tx:
            newest = tx.steady() - 4 * self._world.rules.retry_wait
        for job in seen.jobs.values():
            waits = (
                job.status is JobStatus.WAITING and not job.holds and job.pending.since and job.pending.asked > newest
            )
            if waits and job.key not in refused:
                self._fail(
                    f"an elastic worker begins at party {party.party_id}, and {job.key} waits for capacity there"
                )

    def _check_made_way(self, party: SimParty, seen: Seen, job: Job, elastic: Iterable[Worker]) -> None:
        engine, held = seen.engine, list(elastic)
        assert engine is not None, "it has refused"
        seats = [one.asked for one in seen.jobs.values() if one.job_id == job.job_id and not one.holds]
        needed = sum(one.cores for one in seats), sum(one.memory for one in seats)
        every = [(one.cores, one.memory) for one in held]
        going = [(one.cores, one.memory) for one in held if one.is_stopping]
        is_short = job.asked.cores > engine.free_cores or job.asked.memory > engine.free_memory
        if is_short and _is_enough(engine, needed, every) and not _is_enough(engine, needed, going):
            self._fail(f"{job.key} was refused for what elastic workers of party {party.party_id} hold, and they stay")

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
        if new.reason is not old.reason and new.reason in _BY_POLICY:
            acted[new.reason.value] += 1

    def _job_moved(self, party: SimParty, old: Job, new: Job) -> None:
        if old.status in JOB_END:
            self._fail(f"{new.key} had ended as {old.status.value} and is {new.status.value}")
        if not may_move(old.status, new.status):
            self._fail(f"{new.key} went from {old.status.value} to {new.status.value}")
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
        """Parameters change while nothing of the job runs here, and never back."""
        is_at_rest = old.is_final or new.is_final or (new.status is JobStatus.WAITING and not new.holds)
        if new.revision < old.revision or not is_at_rest:
            self._fail(f"{old.key} is {old.status.value} and went from revision {old.revision} to {new.revision}")

    def _job_forgotten(self, old: Job) -> None:
        if old.holds or old.round_number or old.status in (JobStatus.RUNNING, JobStatus.STOPPING, JobStatus.SUCCESS):
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
                    f"a start of reservation round {starts[key]} started what turn {now.claim.round_number} of {key} "
                    f"reserved"
                )
        for key, claim in later.items():
            now = rows.get(key)
            if claim.token and now is not None and not now.is_final and now.claim.token != claim.token:
                self._fail(
                    f"a return of reservation round {rounds[key]} gave back what turn {claim.round_number} of {key} "
                    f"reserved"
                )

    def sends_capacity_notices(self, party: SimParty, notifier: str, hints: Sequence[Command]) -> None:
        """Only jobs of others that wait for capacity here are told of it, no more than fit, each once until it asks
        again.

        `teller`: the life of the process that tells; the next one does not know whom it told."""
        engine, promised = self.seen(party).engine, [0, 0]
        for hint in hints:
            if hint.id:
                self._fail(f"that there is capacity for {hint.job_id} was stored in the outbox")
            for row in (one for one in self.seen(party).jobs.values() if one.job_id == hint.job_id):
                self._check_notices(notifier, row, hint)
                promised = [promised[0] + row.asked.cores, promised[1] + row.asked.memory]
        assert engine is not None, "it has free cores"
        if promised[0] > engine.remaining_cores or promised[1] > engine.remaining_memory > 0:
            self._fail(f"party {party.party_id} told of more capacity than it has: {promised}, {engine}")

    def _check_notices(self, notifier: str, row: Job, hint: Command) -> None:
        if row.holds or row.status is not JobStatus.WAITING or row.is_initiator or row.initiator != hint.to:
            self._fail(f"{row.key} was told of capacity: {row.status.value}, held {row.claim.cores}, told {hint.to}")
        self._checked[notifier, row.key, row.pending.asked] += 1
        # twice in a moment that the clock does not tell apart
        if self._checked[notifier, row.key, row.pending.asked] > 2:
            self._fail(f"{row.key} was told of capacity again and again, and has not asked since")

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
        jobs = [one for one in _present(seen.jobs, changes.jobs).values() if one.job_id == key.job_id]
        job = next((one for one in jobs if one.is_initiator), None)
        if job is None or key.version == 0:
            return
        every = _present(seen.tasks, changes.tasks).values()
        before = [one for one in every if _is_version(one, key, key.version - 1)]
        seats = [one for one in _present(seen.seats, changes.seats).values() if one.job_id == key.job_id]
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
        """Whether its initiator has let a task succeed without this share."""
        initiator = self._world.seats[key.job_id][0]
        row = self.seen(self._world.parties[initiator.party_id]).tasks.get(key)
        return row is not None and row.status in _GOOD and row.party_status not in _GOOD

    def _may_fail(self, job: Job) -> bool:
        """What was lost, late or doubled, a clock that was set and a process that died are no reason for a job, unless
        so much was lost that a party was not heard for as long as that takes."""
        # nobody took it, or a request
        if job.round_number == 0 or job.job_id in self._world.stopped | self._world.restless:
            return True
        if job.reason is Reason.PARTY_REFUSED and job.job_id in self._world.rejected:
            return True
        if job.reason is Reason.PARTY_UNREACHABLE and self._was_silent(job):
            return True
        if job.reason is Reason.JOB_TIMEOUT:
            return 0 < job.timeout_seconds < _SECONDS_THAT_NO_JOB_NEEDS
        is_silence = job.reason in (Reason.PARTY_UNREACHABLE, Reason.INITIATOR_LOST)
        reasons = _REASONS | _DEATHS if is_silence else _REASONS
        if job.reason in _BY_POLICY and PolicyEvent.PARTY_UNREACHABLE.value in job.message:
            reasons |= _DEATHS | _LOSSES      # a rule may be less patient than the job would be
        return not reasons.isdisjoint(self._world.injected)

    def _was_silent(self, job: Job) -> bool:
        """A party that had no answer for too long, or could not reach this one for as long: either way counts."""
        own, others = job.party.party_id, [party.party_id for party in job.parties]
        ways = [way for other in others for way in ((own, other), (other, own))]
        return max(self._world.longest_silence(*way) for way in ways) > self._world.rules.party_silence

    # ------------------------------------------------------------------ once the faults have stopped

    def unsettled(self) -> str:
        """What is still open somewhere, as text; empty when nothing is."""
        if self._world.under_way:
            return f"{self._world.under_way} requests are under way"
        for party in self._world.parties.values():
            if party.engine.living():
                return f"party {party.party_id} has workers left"
            if party.books.outbox():
                return f"party {party.party_id} has {party.books.outbox()} commands to send"
            what = _unsettled_rows(party.party_id, self.seen(party))
            if what:
                return f"party {party.party_id}: {what}"
        return ""

    def unsettled_while_shrunk(self) -> str:
        """What is open but for jobs that a party is too small for, which wait and say so; as text, empty: nothing."""
        for party in self._world.parties.values():
            for job in self.seen(party).jobs.values():
                is_said = not job.is_initiator or "more than it has in all" in job.wait_reason
                if not job.is_final and not (is_said and self._is_impossible(job.job_id)):
                    return f"{job.key} is {job.status.value}, waits for {job.wait_reason!r}"
        return ""

    def _is_impossible(self, job_id: str) -> bool:
        """It waits, and some party has less in all than all its seats there ask for."""
        for party in self._world.parties.values():
            rows = [job for job in self.seen(party).jobs.values() if job.job_id == job_id]
            cores, memory = sum(row.asked.cores for row in rows), sum(row.asked.memory for row in rows)
            is_short = cores > party.size.cores or memory > party.size.memory > 0
            if is_short and all(row.status is JobStatus.WAITING for row in rows):
                return True
        return False

    def check_settled(self) -> None:
        """Nothing is reserved, and all parties tell the same end of each job."""
        for party in self._world.parties.values():
            engine = party.books.engine()
            if engine.remaining_cores != engine.cores or engine.remaining_memory != engine.memory:
                self._fail(f"party {party.party_id} lacks cores or memory: {engine}")
            if party.record.taken_back and not self._world.injected:
                self._fail(f"a hold ran out at party {party.party_id}, and nothing went wrong")
            self._check_history(party)
            self._check_outputs(party)
        for job_id, seats in self._world.seats.items():
            self._check_agreement(job_id, seats)
        for party in self._world.parties.values():
            for job in self.seen(party).jobs.values():
                # a user may have canceled it before the refusal came
                if job.job_id in self._world.not_allowed and (job.round_number or job.status is not JobStatus.CANCELED):
                    self._fail(f"{job.key} is {job.status.value}, and asks some party for more than that one allows")

    def _check_outputs(self, party: SimParty) -> None:
        """What succeeded at all parties is published, and what did not is not, but for a rerun that has kept it."""
        with party.store.reading() as tx:
            for key, task in self.seen(party).tasks.items():
                made = tx.outputs(key.job_id, key.name, key.party) if task.runs_here else ()
                is_published = any(one.task.version == key.version for one in made)
                is_good = task.status is task.party_status is TaskStatus.SUCCESS
                if task.runs_here and is_good and not made:
                    self._fail(f"{key} succeeded at all parties, and nothing that it made is known")
                if is_published and task.status not in (TaskStatus.SUCCESS, TaskStatus.CANCELED):
                    self._fail(f"{key} is {task.status.value}, and what it made is known")

    def _check_history(self, party: SimParty) -> None:
        """Every change of status of a row has one record, and the records of one row follow from each other."""
        seen, stands = self.seen(party), dict[object, str]()
        with party.store.reading() as tx:
            entries = [entry for job_id in {key.job_id for key in seen.jobs} for entry in tx.history(job_id)]
        for one in entries:
            key: tuple[object, ...] = (one.level, one.job_id, one.party, one.task, one.version)
            key += (_which_worker(one),) if one.level is HistoryLevel.WORKER else ()
            is_end = one.level is HistoryLevel.WORKER and one.new == WorkerStatus.EXITED.value
            if is_end and not (one.reason and one.caused_by):
                self._fail(f"history of party {party.party_id}: {one} ended for no reason, or by nobody's doing")
            began = one.level in (HistoryLevel.JOB, HistoryLevel.TASK) and one.old == ""
            if not began and stands.get(key, one.old) != one.old:
                self._fail(f"history of party {party.party_id}: {key} went from {one.old}, but was {stands[key]}")
            stands[key] = one.new
        self._check_versions(party, entries)
        for job in seen.jobs.values():
            if stands.get((HistoryLevel.JOB, job.job_id, job.party, "", 0)) != job.status.value:
                self._fail(f"history of party {party.party_id}: {job.key} is {job.status.value}, which it does not say")
        for task in seen.tasks.values():
            key = (HistoryLevel.PARTY_TASK, task.key.job_id, task.key.party, task.key.name, task.key.version)
            if stands.get(key, "waiting") != task.party_status.value:
                status = task.party_status.value
                self._fail(f"history of party {party.party_id}: {task.key} is {status}, not {stands.get(key)}")
            over_all = stands.get((HistoryLevel.TASK, task.key.job_id, None, task.key.name, task.key.version))
            if over_all != task.status.value:
                self._fail(f"history of party {party.party_id}: {task.key} is {task.status.value}, not {over_all}")
        self._check_ends(party, entries)

    def _check_ends(self, party: SimParty, entries: list[HistoryEntry]) -> None:
        """How a task ended over all its parties stands in its rows as it does in the history."""
        ends = {(one.job_id, one.task, one.version): one for one in entries if one.level is HistoryLevel.TASK}
        for task in self.seen(party).tasks.values():
            described = ends[task.key.job_id, task.key.name, task.key.version]
            if not task.is_final:
                continue
            code = task.federated_exit_code
            why = (task.federated_reason.value if task.federated_reason else "", task.federated_message)
            whose = (task.federated_caused_by, "" if code is None else f"exit code {code}")
            if (*why, *whose) != (described.reason, described.message, described.caused_by, described.exit_status):
                self._fail(
                    f"{task.key} at party {party.party_id} ended by {why}, {whose}, and its history says {described}"
                )

    def _check_versions(self, party: SimParty, entries: list[HistoryEntry]) -> None:
        """Every version of a task begins once, and both that and its end say whose doing it is."""
        of_tasks = [one for one in entries if one.level is HistoryLevel.TASK]
        begun = Counter((one.job_id, one.task, one.version) for one in of_tasks if one.old == "")
        for key in self.seen(party).tasks:
            count = begun[key.job_id, key.name, key.version]
            if count != 1:
                self._fail(f"history of party {party.party_id}: {key} begins {count} times")
        for one in of_tasks:
            is_announced = one.old == "" or one.new in _TASK_ENDS
            if is_announced and not one.caused_by:
                self._fail(f"history of party {party.party_id}: {one} is nobody's doing")

    def _check_agreement(self, job_id: str, seats: tuple[Party, ...]) -> None:
        found = (self.seen(self._world.parties[one.party_id]).jobs.get(JobKey(job_id, one)) for one in seats)
        rows = [job for job in found if job is not None]
        deciding = next((job for job in rows if job.is_initiator), None)
        if deciding is None:
            if rows:
                self._fail(f"job {job_id} is forgotten by its initiator, not by {rows[0].party}")
            return
        rows = [job for job in rows if not self._refused_the_rerun(deciding, job)]
        for job in rows:
            is_lost = str(job.party) in deciding.unconfirmed or self._world.rules.command_keep < RARE
            if job.revision != deciding.revision and not (is_lost or "fewer cores" in self._world.injected):
                there = f"{job.revision} on {job.party}"
                self._fail(f"job {job_id} has revision {deciding.revision} at its initiator, {there}")
            if job.run != deciding.run:
                self._fail(f"job {job_id} is in run {deciding.run} at its initiator, in run {job.run} on {job.party}")
            if job.status is not deciding.status and str(job.party) not in deciding.unconfirmed:
                self._fail(
                    f"job {job_id} is {deciding.status.value} at its initiator ({deciding.reason}), {job.status.value} "
                    f"({job.reason}) on {job.party}"
                )
            if job.reason is deciding.reason:
                self._check_same_causes(deciding, job)
            self._check_approval(deciding, job)
        if not self._may_fail(deciding) and deciding.status is not JobStatus.SUCCESS:
            self._fail(f"job {job_id} ended as {deciding.status.value} and had no reason to: {deciding.message}")
        self._check_partial(deciding, rows)
        if deciding.unconfirmed and not self._world.injected:
            self._fail(f"job {job_id}: {deciding.unconfirmed} did not confirm, and nothing went wrong")

    def _check_approval(self, deciding: Job, job: Job) -> None:
        """Of a job that ran with an approval its initiator knows by whom it was, and why."""
        if deciding.status is not JobStatus.SUCCESS or job.consent is None or not job.consent.is_given:
            return
        seats = self.seen(self._world.parties[deciding.party.party_id]).seats
        if seats[job.job_id, job.party].approval != job.consent.text:
            self._fail(f"{job.key} was {job.consent.text}, and its initiator knows nothing of that")

    def _check_same_causes(self, deciding: Job, job: Job) -> None:
        """Of a job that ended in the same way everywhere, so has each task the same cause."""
        was_given_up = job.reason is Reason.PARTY_UNREACHABLE and job.caused_by == str(job.party)      # before the job
        same = (job.caused_by, job.exit_code) == (deciding.caused_by, deciding.exit_code)
        if not same and not was_given_up:
            self._fail(
                f"job {job.job_id} ended as {job.reason} by {deciding.caused_by!r}, {deciding.exit_code} at its "
                f"initiator, by {job.caused_by!r}, {job.exit_code} on {job.party}"
            )
        rows = self.seen(self._world.parties[job.party.party_id]).tasks.values()
        own = self.seen(self._world.parties[deciding.party.party_id]).tasks
        newest = self.seen(self._world.parties[job.party.party_id]).newest
        for task in (one for one in rows if one.key.job_id == job.job_id and one.key.party == job.party):
            if job.run and task.key.version < newest[job.job_id, task.key.name, job.party]:
                continue        # of an earlier run, in which both sides may have given each other up
            there = own.get(task.key)
            if there is None or (task.status, task.federated_reason) != (there.status, there.federated_reason):
                continue
            if task.federated_caused_by != there.federated_caused_by:
                self._fail(
                    f"{task.key} ended as {task.federated_reason} by {there.federated_caused_by!r} at its initiator, "
                    f"by {task.federated_caused_by!r} there"
                )

    def _refused_the_rerun(self, deciding: Job, job: Job) -> bool:
        """Who has fewer cores by now may refuse the parameters that come with a rerun: it stays in the run before."""
        is_refused = deciding.reason is Reason.PARTY_REFUSED and "fewer cores" in self._world.injected
        return is_refused and job.run < deciding.run

    def _check_partial(self, deciding: Job, rows: Sequence[Job]) -> None:
        """A success without some parties has a cause, is one of enough parties, and everybody knows of it."""
        missing, job_id = deciding.missing, deciding.job_id
        if not missing:
            return
        self._world.acted["partial"] += 1
        self._world.acted["given up"] += not set(missing).isdisjoint(deciding.unconfirmed)
        fewest = self._world.fewest.get(job_id, 0)
        hosts = [party for party in deciding.parties if party.role == "host" and str(party) not in missing]
        may_miss = fewest and len(hosts) >= fewest and all(one.startswith("host") for one in missing)
        is_completed = any(one["action"] == "complete_task" for one in self._world.policies[job_id])
        if deciding.status is not JobStatus.SUCCESS or not (may_miss or is_completed):
            self._fail(f"job {job_id} ended as {deciding.status.value} without {missing}; {fewest} hosts are enough")
        if not self._world.injected and job_id not in self._world.restless:
            self._fail(f"job {job_id} succeeded without {missing}, and nothing went wrong")
        for job in rows:
            if job.missing != missing and str(job.party) not in deciding.unconfirmed:
                self._fail(f"job {job_id} is without {missing} at its initiator, without {job.missing} on {job.party}")


def _which_worker(entry: HistoryEntry) -> str:
    """Which of the workers of its party task moved; what is said of its end follows that."""
    text = entry.message.partition(": ")[0]
    return text if text.startswith(("worker ", "collects ")) else ""


def _federated_end(task: Task) -> tuple[object, ...]:
    return (
        task.federated_reason, task.federated_message, task.federated_exit_code, task.federated_caused_by,
        task.federated_end_time,
    )


def _is_enough(engine: EngineState, needed: tuple[int, int], more: Sequence[tuple[int, int]]) -> bool:
    """Whether there is so much once all of this has come back."""
    cores, memory = needed
    has_cores = cores <= engine.remaining_cores + sum(one for one, _ in more)
    return has_cores and (not memory or memory <= engine.remaining_memory + sum(one for _, one in more))


def _refused(seen: Seen, changes: Changes) -> set[JobKey]:
    """The seats that this party has just had no capacity for."""
    found = set()
    for key, job in changes.jobs.items():
        before = seen.jobs.get(key)
        is_asked = job is not None and before is not None and job.pending.asked != before.pending.asked
        if job is not None and is_asked and job.pending.since and job.status is JobStatus.WAITING and not job.holds:
            found.add(key)
    return found


def _has_released(seen: Seen, changes: Changes) -> bool:
    """Whether some job has given back what it held."""
    held = {key: seen.jobs[key].claim.token for key in changes.jobs if key in seen.jobs and seen.jobs[key].holds}
    return any((job := changes.jobs[key]) is None or job.claim.token != token for key, token in held.items())


def _stands_in_line(job: Job) -> bool:
    """Nothing is known against its reservation round."""
    is_free = not (job.blocked_on or job.ready_owner or job.rerun_signal or job.reason or job.hold)
    return job.is_initiator and job.status is JobStatus.WAITING and is_free


def _present(seen: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    """The rows as they are after these changes."""
    found = dict(seen)
    _update(found, changes)
    return found


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


def _unsettled_rows(party_id: str, seen: Seen) -> str:
    for job in seen.jobs.values():
        if not job.is_final:
            return f"{job.key} is {job.status.value}, waits for {job.wait_reason!r}"
        if job.ready_owner:
            return f"{job.key} is in the middle of a reservation round of {job.ready_owner}"
    for task in seen.tasks.values():
        if task.party_status not in TASK_END or task.status not in TASK_END:
            return f"{task.key} is {task.status.value}, {task.party_status.value} there"
    for seat in seen.seats.values():
        is_own = seat.status is SeatStatus.UNCONFIRMED and seat.party.party_id == party_id      # nobody tells it again
        if seat.status not in _SETTLED_SEATS and not is_own:
            return f"the seat {seat.party} of job {seat.job_id} is {seat.status.value}"
    return ""


def _update(rows: dict[K, V], changes: Mapping[K, V | None]) -> None:
    for key, row in changes.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
