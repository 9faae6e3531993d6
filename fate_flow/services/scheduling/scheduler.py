"""The DAG scheduler of one server: it takes events, decides, and hands commands to the transport.

One process schedules at a time; it holds the scheduler lease, a row with its name and a counter. Every transaction of
the scheduler begins by counting up the row. A process that sees the counter stand still for long enough takes the
lease. If the old owner was only stopped and wakes up, it cannot count up any more, and its writes are refused. Events
are handled in groups, one transaction for each group, because a commit costs a disk flush for any number of jobs.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable, Sequence

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.errors import CommitUnknown, FlowError, StorageFailed, StorageUnavailable
from fate_flow.core.model.job import Answer, Command, CommandKind, Job, TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import Context, Transport
from fate_flow.services.context.recording import record_answer
from fate_flow.services.context.stopwatch import SteadyClock, Stopwatch
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.peers import PeerWatch
from fate_flow.services.initiator.plain_v1_hosts import Beats, beats_for
from fate_flow.services.participant.comparison import is_to_compare_again, take_comparison
from fate_flow.services.participant.participant import Participant
from fate_flow.services.participant.standing import take_standing
from fate_flow.services.scheduling.capacity import CapacityNotifier
from fate_flow.services.scheduling.events import (
    Answered,
    HeartbeatAnswered,
    JobChanged,
    OutboxFilled,
    PartyFails,
    PartySilent,
    QueueChanged,
    SchedulerEvent,
    WorkerChanged,
)
from fate_flow.services.scheduling.idle_partners import IdlePartners
from fate_flow.services.scheduling.queue_rounds import QueueRounds
from fate_flow.services.scheduling.silences import Silences
from fate_flow.services.upkeep.maintenance import Maintenance
from fate_flow.services.workers.elastic import tend_elastic
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_COMMITS_AT_ONCE = 64       # ids are given before the commit, so a lower id may be committed after a higher one



class LeaseLost(FlowError):
    """Another process schedules now; nothing was written."""


class Scheduler:
    """Decides for the jobs of this initiator, and follows the workers of this party."""

    def __init__(
        self, context: Context, transport: Transport, owner: str, home_id: str, monotonic: Callable[[], float]
    ) -> None:
        self.context = context
        self.owner = owner
        self._home_id = home_id
        self._transport = transport
        self._party = Participant()
        self._initiator = Coordinator(self._party, owner)
        self._watch = WorkerWatch()
        self._peers = PeerWatch()
        self._silences = Silences(context)
        self._idle = IdlePartners(context.rules.idle_heartbeat, context.rules.heartbeat_interval, self._random)
        self._asked: frozenset[str] | None = None           # parties that get heartbeats; None: not known yet
        self._initiators: frozenset[str] = frozenset()      # other parties whose jobs run here
        self._owner_watch = Stopwatch(monotonic)
        self._steady = SteadyClock(monotonic)
        self._maintenance = Maintenance(self._initiator, self._watch, Stopwatch(monotonic))
        self._notifier = CapacityNotifier()
        self._queue = QueueRounds(context, self._initiator, self._advance)
        self._is_chosen = False
        self._in_flight: set[int] = set()
        self._newest_command = 0
        self._alarms: list[tuple[int, str]] = []            # as in `Pending.alarms`
        self._collecting: set[TaskKey] = set()
        self._unsure: frozenset[str] = frozenset()      # parties of which any answer is an event

    # ------------------------------------------------------------------ who schedules

    def is_chosen(self) -> bool:
        """Return whether this process schedules; try to take the lease if its owner stands still."""
        if self._is_chosen:
            return True
        taken = self.context.write(self._take_over)
        if taken is not None:
            self._is_chosen = True
            self._begin(taken)
        return self._is_chosen

    @property
    def is_in_charge(self) -> bool:
        """Whether this process schedules, as far as it knows."""
        return self._is_chosen

    def _take_over(self, tx: Transaction) -> tuple[str, ...] | None:
        """Return the jobs that were in the middle of a reservation round; None while another process schedules."""
        owner, counter = tx.scheduler()
        still = self._owner_watch.unchanged_seconds("scheduler", (owner, counter))
        # An owner of the same home must be dead, otherwise this process would not run: there is no need to wait.
        is_dead = not owner or owner.startswith(self._home_id)
        may_take = is_dead or still * 1000 >= self.context.rules.scheduler_silence
        if not may_take or not tx.take_scheduler_lease(owner, counter, self.owner):
            return None
        self._steady.go_on_from(tx.steady())
        tx.forget_troubles()
        return tx.take_over(self.owner)

    def _begin(self, taken: Sequence[str]) -> None:
        self._in_flight.clear()
        self._newest_command = 0
        log.info(
            "this process schedules now (%s), %d jobs were in the middle of a reservation round", self.owner, len(taken)
        )
        self.step([OutboxFilled()])

    def release_scheduler_lease(self) -> None:
        """Release the lease on a clean stop, so that the next process can take it at once."""
        if self._is_chosen:
            self.context.write(
                lambda tx: tx.take_scheduler_lease(self.owner, tx.scheduler()[1], ""), is_repeatable=True
            )
            self._is_chosen = False

    # ------------------------------------------------------------------ events

    def step(self, events: Sequence[SchedulerEvent]) -> None:
        """Handle events and carry out what follows, in one transaction.

        What other processes of this server have stored for other parties is sent before that: they work meanwhile."""
        if any(isinstance(one, OutboxFilled) for one in events):
            if not self._send_stored():
                return
            events = [one for one in events if not isinstance(one, OutboxFilled)]

        def take_all(unit: UnitOfWork) -> None:
            for one in events:
                with unit.isolated(one):
                    self._take(unit, one)
            self._settle(unit)

        if events and not self._carry_out(take_all):
            # The answers could not be stored, so their commands must be sent again.
            self._in_flight.difference_update(one.command.id for one in events if isinstance(one, Answered))

    def _send_stored(self) -> bool:
        """Send the commands that other processes of this server have stored; False if another process schedules.

        This needs no decision, so it only reads."""

        def stored(tx: Transaction) -> tuple[Command, ...] | None:
            return self._pick_up(tx) if tx.scheduler()[0] == self.owner else None

        try:
            found = self.context.read(stored)
        except StorageFailed as error:
            log.error("the outbox could not be read; the next poll does it: %s", error.message)
            return True
        if found is None:
            self._stand_by()
            return False
        self._post(found)
        return True

    def _carry_out(self, act: Callable[[UnitOfWork], None]) -> bool:
        """Run one transaction. If it fails, run it again with each job isolated, so that one cannot stop the others.

        Returns False if both fail; the next poll finds the work in the rows again."""
        try:
            self._transact(act, is_careful=False)
        except LeaseLost:
            self._stand_by()
        except (StorageUnavailable, CommitUnknown) as error:
            log.error("a transaction of the scheduler failed: %s", error.message)
            return False
        except Exception:
            log.warning("a transaction of the scheduler failed; now each job by itself", exc_info=True)
            return self._carry_out_carefully(act)
        return True

    def _carry_out_carefully(self, act: Callable[[UnitOfWork], None]) -> bool:
        try:
            self._transact(act, is_careful=True)
        except LeaseLost:
            self._stand_by()
        except Exception:
            log.exception("a transaction of the scheduler failed")
            return False
        return True

    def _transact(self, act: Callable[[UnitOfWork], None], is_careful: bool) -> None:
        def once() -> None:
            steady = self._steady.now()
            with unit_of_work(self.context, is_careful, steady, self._committed) as unit:
                if not unit.tx.renew_scheduler_lease(self.owner, steady):
                    raise LeaseLost
                act(unit)

        self.context.retry(once, is_repeatable=True)

    def _stand_by(self) -> None:
        self._is_chosen = False
        self._alarms.clear()
        self._silences = Silences(self.context)
        log.warning("another process schedules now; this one stands by")

    def _take(self, unit: UnitOfWork, one: SchedulerEvent) -> None:
        match one:
            case JobChanged(job_id):
                unit.touch(job_id)
            case WorkerChanged(worker_id):
                self._watch.observe(unit, worker_id)
            case Answered(command, answer):
                self._take_answer(unit, command, answer)
            case QueueChanged(informed_party):
                unit.free(self.context.party_id)
                unit.inform(informed_party)
            case CapacityNotice():
                self._initiator.take_capacity_notice(unit, one)
            case HeartbeatAnswered():
                self._take_heartbeat(unit, one)
            case PartySilent(party_id, seconds):
                self._maintenance.party_lost(unit, party_id, seconds)
            case PartyFails(party_id, seconds, error):
                self._peers.fails(unit, party_id, seconds, error)

    def _take_heartbeat(self, unit: UnitOfWork, one: HeartbeatAnswered) -> None:
        """Handle the answer to a heartbeat. A party that cannot reach this server counts as silent: no report comes."""
        for body in one.reports:
            self._initiator.take_report_of(unit, body, one.party_id)
        trouble = self._peers.way_back(unit, one.party_id, one.way_back)
        if not trouble.cut_off_since:
            self._maintenance.party_answers(unit, one.party_id)
        self._maintenance.seats_ended(unit, one.party_id, one.ended, one.runs)
        self._initiator.tell_again(unit, one.party_id)

    def _take_answer(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        if not answer.is_silence and self._peers.is_suspect(command.to.party_id):
            self._peers.answers(unit, command.to.party_id)
        if command.kind is CommandKind.CAPACITY:
            record_answer(unit, command, answer)
            self._take_thanks(unit, command, answer)
            return
        if command.kind is CommandKind.ALIGN:
            self._take_sign_of_life(unit, command, answer)
            return
        self._in_flight.discard(command.id)
        if command.kind is CommandKind.TASK_COLLECT:
            self._collecting.discard(command.task_key)
        if self._must_ask_later(unit, command, answer):
            unit.wake_at(unit.steady + self.context.rules.retry_wait)      # it is still in the outbox
            return
        if not unit.tx.take_command(command.id):
            return
        record_answer(unit, command, answer)
        if command.kind in (CommandKind.ASK_STOP, CommandKind.STANDING):
            take_standing(unit, command, answer)
            return
        if command.kind is CommandKind.COMPARE:
            take_comparison(unit, command, answer)
            return
        if command.kind in (CommandKind.REPORT, CommandKind.LOOK_AGAIN):
            return
        self._note_free(unit, command, answer)
        self._initiator.on_answer(unit, command, answer)

    def _must_ask_later(self, unit: UnitOfWork, command: Command, answer: Answer) -> bool:
        if command.kind is CommandKind.COMPARE:
            return is_to_compare_again(unit, command, answer)
        return self._initiator.must_ask_later(unit, command, answer)

    def _take_thanks(self, unit: UnitOfWork, hint: Command, answer: Answer) -> None:
        """Handle the reply to a capacity notice: if the job does not come, notify the next one."""
        if not answer.is_ok:
            self._notifier.declined(unit, hint, answer)
            unit.pending = unit.pending.with_declined_notice()

    def _take_sign_of_life(self, unit: UnitOfWork, align: Command, answer: Answer) -> None:
        """Count any answer of a plain v1 party to `align` as a heartbeat; the transport reports its silence."""
        if not answer.is_silence and self.is_unsure_of(align.to.party_id):
            self._take(unit, HeartbeatAnswered(align.to.party_id))

    def _note_free(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        """Note the free cores that a party stated, and whether the command has freed some."""
        party_id = command.to.party_id
        self._initiator.note_free(party_id, answer.data)
        is_end = command.kind is CommandKind.STATUS and command.argument != JobStatus.WAITING.value
        if is_end or (command.kind is CommandKind.RETURN and not self._is_blocked_on(unit, command.job_id, party_id)):
            unit.free(party_id, command.job_id)

    def _is_blocked_on(self, unit: UnitOfWork, job_id: str, party_id: str) -> bool:
        job = unit.tx.job_here(job_id)
        return job is not None and job.blocked_on == party_id

    def _pick_up(self, tx: Transaction) -> tuple[Command, ...]:
        """Return commands that another process of this server stored, and those left from before a restart.

        Only commands read here count as seen: those sent by this process say nothing about what others stored."""
        found = tx.commands_after(max(0, self._newest_command - _COMMITS_AT_ONCE))
        self._newest_command = max([self._newest_command, *(command.id for command in found)])
        return tuple(one for one in found if one.id not in self._in_flight)

    def _collect(self, unit: UnitOfWork) -> None:
        """Ask plain v1 parties for the status of their shares: some never report, and none as often as ours.

        There is one request at a time for each task; the next poll repeats a lost one."""
        wanted = self._initiator.uncollected(unit)
        self._collecting &= wanted
        for key in sorted(wanted - self._collecting):
            self._collecting.add(key)
            unit.send(Command(CommandKind.TASK_COLLECT, key.job_id, key.party, 0, key.name, key.version))

    def _drop_old_commands(self, unit: UnitOfWork) -> None:
        """Drop commands to parties that are gone for good. Their own leases have ended the shares there."""
        for command in unit.tx.commands_before(unit.steady - self.context.rules.command_keep):
            if self._initiator.give_up(unit, command):
                self._in_flight.discard(command.id)

    def _settle(self, unit: UnitOfWork) -> None:
        self._advance_dirty(unit)
        if unit.pending.concerns_queue:
            self._queue.run(unit)
            self._advance_dirty(unit)
        came_free = unit.pending.freed.get(self.context.party_id)
        if came_free or unit.pending.is_notice_declined:
            self._notifier.notify(unit, unit.pending.informed_party if came_free == frozenset({""}) else "")

    def _advance_dirty(self, unit: UnitOfWork) -> None:
        while dirty := tuple(unit.pending.dirty):
            unit.untouch(*dirty)
            for job_id in dirty:
                self._advance(unit, job_id)

    def _advance(self, unit: UnitOfWork, job_id: str, may_begin_round: bool = False) -> None:
        with unit.isolated(f"job {job_id}"):
            self._initiator.advance(unit, job_id, may_begin_round)
        unit.untouch(job_id)     # nothing is left to do for it now

    def _committed(self, unit: UnitOfWork) -> None:
        """Send what the committed transaction has stored."""
        for one in unit.pending.alarms:
            heapq.heappush(self._alarms, one)
        self._post(unit.pending.outgoing)
        if unit.pending.hints:
            self._notifier.sent(unit)
            self._transport.post(unit.pending.hints)

    def _post(self, commands: Iterable[Command]) -> None:
        """Send commands of the outbox that are not on their way. A poll reads those that it has just stored again."""
        fresh = {one.id: one for one in commands if one.id not in self._in_flight}
        self._in_flight.update(fresh)
        if fresh:
            self._transport.post(tuple(fresh.values()))

    # ------------------------------------------------------------------ polling

    def poll(self) -> None:
        """Look at everything that is not over, to find what lost events were about."""

        def observe_all(unit: UnitOfWork) -> None:
            jobs = self._maintenance.run(unit)
            troubles = self._peers.troubles(unit)
            self._silences.look(unit, troubles)
            for trouble in troubles:
                if self._asked is None or trouble.party_id in self._asked:
                    self._maintenance.party_cut_off(unit, trouble)
                else:
                    self._peers.forget(unit, trouble.party_id)
            self._initiators = frozenset(job.initiator.party_id for job in jobs if _runs_for_another(job))
            self._rounds(unit, jobs)
            self._newest_command = 0
            self._collect(unit)
            self._drop_old_commands(unit)
            unit.pending = unit.pending.with_outgoing(self._pick_up(unit.tx))
            self._advance_dirty(unit)
            self._queue.run(unit)
            self._advance_dirty(unit)
            tend_elastic(unit)
            self._notifier.notify(unit, "")

        self._carry_out(observe_all)

    def stay_in_charge(self) -> None:
        """Show in place of a poll that this process still schedules."""
        self._carry_out(lambda _: None)

    def _rounds(self, unit: UnitOfWork, jobs: Sequence[Job]) -> None:
        mine = [job for job in jobs if job.is_initiator]
        runs = (JobStatus.RUNNING, JobStatus.STOPPING)
        self._round(unit, "running", [job for job in mine if job.status in runs])
        self._round(unit, "ready", [job for job in mine if job.status not in runs and _is_to_decide(job)])
        self._round(unit, "rerun", [job for job in mine if job.rerun_signal])
        unit.touch(*unit.tx.cancelled_waiting(), *unit.tx.jobs_to_forget())
        unit.touch(*(job.job_id for job in jobs if not job.is_initiator and job.status is JobStatus.STOPPING))

    def _round(self, unit: UnitOfWork, kind: str, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        unit.note(Event.ROUND_STARTED, kind=kind)
        unit.note(Event.ROUND_SIZE, count=len(jobs), kind=kind)
        for job in jobs:
            unit.note(Event.ROUND_JOB, kind=kind, job_id=job.job_id)
            self._advance(unit, job.job_id)
        unit.note(Event.ROUND_FINISHED, kind=kind)

    def fire_alarms(self) -> bool:
        """Look at the jobs whose alarms are due; return whether there are any.

        A poll looks at all jobs, so it would cost more the more of them wait."""
        due, now = dict[str, None](), self._steady.now()
        while self._alarms and self._alarms[0][0] <= now:
            due[heapq.heappop(self._alarms)[1]] = None

        def look(unit: UnitOfWork) -> None:
            for job_id in due:
                if job_id:
                    with unit.isolated(f"job {job_id}"):
                        self._look_at(unit, job_id)
                else:
                    self._newest_command = 0
                    unit.pending = unit.pending.with_outgoing(self._pick_up(unit.tx))
            self._settle(unit)

        if due:
            self._carry_out(look)
        return bool(due)

    def _look_at(self, unit: UnitOfWork, job_id: str) -> None:
        """Advance a job; if it waits, the queue decides whether it may begin a reservation round."""
        unit.touch(job_id)
        job = unit.tx.job_here(job_id)
        if job is not None and job.status is JobStatus.WAITING:
            unit.lengthen_queue()

    def seconds_to_alarm(self) -> float | None:
        """Return the seconds until the next alarm; None if there is none."""
        return max(0.0, (self._alarms[0][0] - self._steady.now()) / 1000) if self._alarms else None

    def beat(self) -> None:
        """Send one heartbeat to every party that runs something for us, for any number of jobs.

        Also send one to each party whose jobs run here, so that a broken connection is noticed in time; now and then to
        those that no job binds; and to each that did not answer, or could not reach this server, until that is over."""
        beats = self.context.read(self._elsewhere)
        for party_id, jobs in beats.jobs.items():
            self._transport.heartbeat(party_id, jobs)
        if beats.aligns:
            self._transport.post(beats.aligns)

    def is_unsure_of(self, party_id: str) -> bool:
        """Return whether any answer of the party is an event: it must be told an end again, or it counts as silent."""
        return party_id in self._unsure or self._peers.is_suspect(party_id)

    def _elsewhere(self, tx: Transaction) -> Beats:
        """Return the heartbeats to send; one without jobs for a party that only must be told an end again."""
        self._peers.check(tx)
        doubtful = (*tx.unconfirmed_seats(), *tx.silent_seats())
        self._unsure = frozenset(seat.party.party_id for seat in doubtful)
        bound = {*tx.parties_with_seats(), *self._unsure, *self._initiators}
        revoked = {one.party_id for one in tx.all_party_keys() if one.state is KeyState.REVOKED}
        idle = sorted(set(self.context.routes) - bound - revoked - {self.context.party_id})
        self._asked = frozenset(bound.union(idle))
        every = bound.union(self._idle.due(idle, self._steady.now()), self._peers.suspects.intersection(idle))
        return beats_for(tx, sorted(every - {self.context.party_id, "0"}), doubtful)

    def _random(self, below: int) -> int:
        return int(self.context.fresh_id()[:8], 16) % below


def _is_to_decide(job: Job) -> bool:
    """Return whether the initiator may have to do something for a job that does not run. A job that only waits is the
    queue's."""
    is_idle = job.status is JobStatus.WAITING and not job.ready_owner and job.reason is None
    return not (is_idle or job.rerun_signal)


def _runs_for_another(job: Job) -> bool:
    """Return whether another party's job runs here. Plain v1 initiators do not count: they know no heartbeats."""
    return not (job.is_initiator or job.is_plain_v1) and job.status in (JobStatus.RUNNING, JobStatus.STOPPING)
