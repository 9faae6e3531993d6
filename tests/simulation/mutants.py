"""Deliberate bugs in the real code, each of which the simulation has to catch within some seeds.

`python -m tests.simulation.mutants` runs them all and prints the seed and the rule that caught each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.actions as actions
import fate_flow.core.planning.partial as partial
import fate_flow.core.planning.plan as plan
import fate_flow.core.planning.plan_policy as plan_policy
import fate_flow.core.planning.plan_round as plan_round
import fate_flow.core.planning.plan_stop as plan_stop
import fate_flow.core.planning.plan_tasks as plan_tasks
import fate_flow.core.planning.policy_events as policy_events
import fate_flow.core.planning.replicas as replicas
import fate_flow.core.planning.replies as replies
from fate_flow.core.model.job import CommandKind, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator import answers, reports
from fate_flow.services.participant import ends, job_commands, next_run, participant, reserving, task_commands
from fate_flow.services.scheduling import scheduler
from fate_flow.services.scheduling.capacity import CapacityNotifier, _Capacity
from fate_flow.services.scheduling.queue_rounds import QueueRounds
from fate_flow.services.scheduling.scheduler import Scheduler
from fate_flow.services.upkeep import maintenance
from fate_flow.services.upkeep.maintenance import Maintenance
from fate_flow.services.workers import elastic, ending, launching, outputs, watch
from fate_flow.store.database.models import EngineRow
from fate_flow.store.memory import jobs as memory_jobs
from fate_flow.store.memory import workers as memory_workers
from fate_flow.store.memory.store import MemoryTransaction
from fate_flow.store.sql import resources
from fate_flow.store.sql import workers as worker_rows
from fate_flow.store.sql.store import SqlTransaction
from tests.simulation.chaos import LONG_TASK, Story, no_gc
from tests.simulation.troubles import (
    clock_step,
    dead_route,
    death,
    isolation,
    long_partition,
    long_stall,
    stall,
    unheard_start,
)
from tests.simulation.world import RULES, Violation


@dataclass(frozen=True)
class Mutant:
    """`within`: so many seeds from `first` have to be enough; `style`: what their worlds have in common (chaos.Style).

    The hunt begins a few seeds before one that is known to show the bug, since the way there is known to be quiet."""

    name: str
    patched: Callable[[], AbstractContextManager[Any]]
    style: Mapping[str, Any] = field(default_factory=dict)
    within: int = 100
    first: int = 0
    store: str = "memory"


_MISTAKES = ("TypeError", "AttributeError", "NameError")


@dataclass(frozen=True)
class Caught:
    name: str
    seed: int = -1            # none caught it
    rule: str = ""

    @property
    def is_caught(self) -> bool:
        """By a rule; a mutant that no longer fits what it changes stumbles, and shows nothing."""
        return self.seed >= 0 and not any(mistake in self.rule for mistake in _MISTAKES)

    @property
    def text(self) -> str:
        missed = f"NOT CAUGHT by {MUTANTS[self.name].within} seeds"
        caught = ("" if self.is_caught else "A MISTAKE OF ITS OWN: ") + f"seed {self.seed}: {self.rule}"
        return f"{self.name}: " + (caught if self.seed >= 0 else missed)


def hunt(name: str) -> Caught:
    """The first seed that catches it."""
    mutant = MUTANTS[name]
    with mutant.patched():
        for seed in range(mutant.first, mutant.first + mutant.within):
            with no_gc():
                try:
                    Story(seed, mutant.store, **mutant.style).run()
                except Violation as error:
                    return Caught(name, seed, error.message)
    return Caught(name)


# ------------------------------------------------------------------ the store


def _no_fence(transaction: type) -> AbstractContextManager[Any]:
    """A scheduler that has lost its lease goes on writing."""
    keep = transaction.renew_scheduler_lease  # type: ignore[attr-defined]

    def renew_scheduler_lease(self: Any, owner: str, steady: int) -> bool:
        keep(self, owner, steady)
        return True

    return patch.object(transaction, "renew_scheduler_lease", renew_scheduler_lease)


def _return_ignores_the_round(transaction: type) -> AbstractContextManager[Any]:
    keep = transaction.give_back  # type: ignore[attr-defined]
    return patch.object(transaction, "give_back", lambda self, key, _, at: keep(self, key, None, at))


def _cores_come_back_twice() -> AbstractContextManager[Any]:
    keep = MemoryTransaction.give_back

    def give_back(self: Any, key: Any, at_most_round: int | None, at: int) -> bool:
        claim = self.job(key).claim
        done = keep(self, key, at_most_round, at)
        engine = self.engine()
        if done and engine.remaining_cores + claim.cores <= engine.cores:
            self._take(engine, -claim.cores, 0)
        return done

    return patch.object(MemoryTransaction, "give_back", give_back)


def _apply_takes_again() -> AbstractContextManager[Any]:
    """A repeated apply reserves a second time."""
    keep = MemoryTransaction.renew_claim

    def renew_claim(self: Any, key: Any, round_number: int) -> None:
        keep(self, key, round_number)
        self._take(self.engine(), self.job(key).claim.cores, 0)

    return patch.object(MemoryTransaction, "renew_claim", renew_claim)


def _sql_reserves_what_is_not_there() -> AbstractContextManager[Any]:
    """The UPDATE of the engine's row without its guard."""
    keep = resources.hit

    def hit(query: Any) -> bool:
        if getattr(query, "model", None) is EngineRow:
            query._where = EngineRow.f_engine_name == "STANDALONE"
        return keep(query)

    return patch.object(resources, "hit", hit)


def _reservation_rounds_are_not_taken_over() -> AbstractContextManager[Any]:
    return patch.object(MemoryTransaction, "take_over", lambda self, owner: ())


# ------------------------------------------------------------------ the party


@contextmanager
def _starts_without_a_hold() -> Iterator[None]:
    """Nobody asks for a hold, and the party does not demand one."""

    def start(unit: UnitOfWork, command: Any, job: Any) -> Any:
        if job.status is JobStatus.WAITING and not job.holds:
            job_commands.move_job(unit, job, actions.MoveJob(JobStatus.RUNNING))
            return job_commands.OK
        return keep(unit, command, job)

    keep = participant._HANDLERS[CommandKind.START]
    with patch.dict(participant._HANDLERS, {CommandKind.START: start}), _takes_a_check_for_a_hold():  # type: ignore[arg-type]
        yield


def _starts_a_worker_for_each_request() -> AbstractContextManager[Any]:
    keep = participant._HANDLERS[CommandKind.TASK_START]

    def start(unit: UnitOfWork, command: Any, job: Any) -> Any:
        task = unit.tx.task(command.task_key)
        if task is not None and task.worker_id and not task.is_over_here and job.status is JobStatus.RUNNING:
            return launching.start_worker(unit, job, task)
        return keep(unit, command, job)

    return patch.dict(participant._HANDLERS, {CommandKind.TASK_START: start})  # type: ignore[arg-type]


def _no_record_of_a_move() -> AbstractContextManager[Any]:
    def finalise(unit: UnitOfWork, job: Any, reason: Reason, message: str, caused_by: str) -> None:
        ends.release(unit, job)
        now = unit.tx.job(job.key) or job
        unit.tx.move_job(now, actions.MoveJob(ends.job_status_for(reason), reason, message), unit.now, caused_by)

    return patch.object(ends, "finalise", finalise)


def _no_record_of_a_version() -> AbstractContextManager[Any]:
    """What the initiator begins again is not written down at the other parties."""
    return patch.object(task_commands, "note_beginning", lambda *_: None)


def _nothing_expires() -> AbstractContextManager[Any]:
    return patch.object(Maintenance, "_stands_still", lambda *_: False)


def _ended_workers_are_not_told() -> AbstractContextManager[Any]:
    """The party follows its workers to their ends and keeps that to itself."""
    stack = ExitStack()
    for module in (ending, launching, watch):
        stack.enter_context(patch.object(module, "tell_initiator", lambda unit, task: None))
    return stack


def _notifies_everybody_of_capacity() -> AbstractContextManager[Any]:
    """However little there is."""
    return patch.object(_Capacity, "takes", lambda *_: True)


def _repeats_capacity_notices() -> AbstractContextManager[Any]:
    return patch.object(CapacityNotifier, "_is_notified", lambda *_: False)


def _capacity_notices_go_through_the_outbox() -> AbstractContextManager[Any]:
    keep = CapacityNotifier.notify

    def notify(self: Any, unit: UnitOfWork, informed_party: str) -> None:
        keep(self, unit, informed_party)
        stored = (replace(one, id=unit.tx.put_command(one, unit.now, unit.steady)) for one in unit.pending.hints)
        unit.pending = replace(unit.pending, hints=tuple(stored))

    return patch.object(CapacityNotifier, "notify", notify)


# ------------------------------------------------------------------ the initiator


def _does_not_roll_back() -> AbstractContextManager[Any]:
    keep = plan_round._give_back

    def give_back(view: Any, refused: Any) -> Iterator[Any]:
        return (action for action in keep(view, refused) if isinstance(action, actions.MoveSeat))

    return patch.object(plan_round, "_give_back", give_back)


def _forgets_to_tell_a_seat_to_stop() -> AbstractContextManager[Any]:
    return _loses_its_last_word("stop", plan_policy, plan_tasks, plan_round)


def _forgets_to_tell_a_seat_the_end() -> AbstractContextManager[Any]:
    return _loses_its_last_word("end", plan, plan_stop, plan_tasks)


@contextmanager
def _loses_its_last_word(name: str, *planners: Any) -> Iterator[None]:
    """The last command of this step is not sent, whoever takes the step."""
    keep = getattr(plan_stop, name)

    def without(*args: Any, **kwargs: Any) -> Iterator[Any]:
        found = list(keep(*args, **kwargs))
        return iter(found[:-1] if isinstance(found[-1], actions.Send) else found)

    with ExitStack() as stack:
        for planner in planners:
            stack.enter_context(patch.object(planner, name, without))
        yield


def _takes_reports_of_older_versions() -> AbstractContextManager[Any]:
    keep = reports.take_report

    def take_report(unit: UnitOfWork, report: Any) -> bool:
        newest = [one for one in unit.tx.tasks(report.task.job_id) if one.key.name == report.task.name]
        key = replace(report.task, version=newest[0].key.version) if newest else report.task
        return keep(unit, replace(report, task=key, incarnation=""))

    return patch.object(reports, "take_report", take_report)


def _starts_before_the_inputs() -> AbstractContextManager[Any]:
    def may_start(spec: Any, statuses: Any) -> tuple[str, ...]:
        return tuple(name for name in spec.tasks if statuses[name] is TaskStatus.WAITING)

    return patch.object(plan_tasks, "may_start", may_start)


def _retries_while_the_gang_still_runs() -> AbstractContextManager[Any]:
    keep = plan_tasks._drain_task

    def over(row: Task) -> Task:
        return row if row.is_over_here else replace(row, party_status=TaskStatus.CANCELED, reason=Reason.STOPPED)

    return patch.object(plan_tasks, "_drain_task", lambda view, rows: keep(view, tuple(over(row) for row in rows)))


def _takes_a_check_for_a_hold() -> AbstractContextManager[Any]:
    """A party that has answered the check counts as one that has reserved."""
    keep = replies.handle_reply

    def handle_reply(seat: Any, command: Any, retcode: int, message: str, data: Any) -> Any:
        if command.kind is CommandKind.CHECK and seat.status is SeatStatus.CHECKING and retcode == 0:
            applying = replace(seat, status=SeatStatus.APPLYING)
            moves = (actions.MoveSeat(seat, applying.status), actions.MoveSeat(applying, SeatStatus.HELD))
            return replies.ReplyOutcome(moves)
        return keep(seat, command, retcode, message, data)

    return patch.object(answers, "handle_reply", handle_reply)


# ------------------------------------------------------------------ rules for what may happen


def _rules_do_not_wait() -> AbstractContextManager[Any]:
    keep = policy_events._meets

    def meets(view: Any, occurrence: Any) -> Any:
        found = keep(view, occurrence)
        return replace(found, due=view.now) if found is not None else None

    return patch.object(policy_events, "_meets", meets)


def _restarts_are_not_counted() -> AbstractContextManager[Any]:
    return patch.object(policy_events, "refusal", lambda *_: "")


def _what_is_overtaken_stands() -> AbstractContextManager[Any]:
    """A share that has begun after all is still taken for one that has not."""

    def of_start(view: Any, rows: Any) -> Any:
        occurrence = policy_events.Occurrence(
            policy_events.PolicyEvent.START_TIMEOUT, rows[0].key.name, rows[0].key.version
        )
        has_begun = rows[0].status is TaskStatus.RUNNING
        return policy_events._asked(view, [occurrence]) if has_begun else []

    return patch.object(policy_events, "_of_start", of_start)


def _goes_on_with_too_few() -> AbstractContextManager[Any]:
    return patch.object(partial, "shortage", lambda *_: "")


def _who_was_given_up_is_lost_again() -> AbstractContextManager[Any]:
    return patch.object(maintenance, "is_given_up", lambda *_: False)


def _who_found_it_out_is_blamed() -> AbstractContextManager[Any]:
    """Of an end that a party took for the initiator's silence."""
    keep = Maintenance._stop

    def stop(self: Any, unit: Any, job: Any, reason: Reason, message: str, caused_by: str = "") -> None:
        notifier = message.partition(" has ended it")[0]
        keep(self, unit, job, reason, message, notifier if reason is Reason.INITIATOR_LOST else caused_by)

    return patch.object(Maintenance, "_stop", stop)


def _who_is_cut_off_is_waited_for() -> AbstractContextManager[Any]:
    return patch.object(Maintenance, "party_cut_off", lambda *_: None)


def _initiators_get_no_heartbeat() -> AbstractContextManager[Any]:
    """While nothing is to be reported to them nobody notices that they cannot be reached."""
    return patch.object(scheduler, "_runs_for_another", lambda _: False)


def _does_not_wait_for_who_comes_back() -> AbstractContextManager[Any]:
    return patch.object(plan, "comes_back", lambda _: False)


def _nobody_asks_what_was_kept() -> AbstractContextManager[Any]:
    return patch.object(job_commands, "missing_shares", lambda *_: [])


@contextmanager
def _nobody_is_told_who_is_missing() -> Iterator[None]:
    keep = plan_stop.send

    def send(view: Any, seat: Any, kind: Any, argument: str = "", body: Any = None) -> Any:
        described = {key: value for key, value in (body or {}).items() if key != "missing"}
        return keep(view, seat, kind, argument, described)

    with patch.object(plan_stop, "send", send):
        yield


# ------------------------------------------------------------------ the next run


def _a_rerun_keeps_the_run() -> AbstractContextManager[Any]:
    keep = memory_jobs.begun_again
    return patch.object(memory_jobs, "begun_again", lambda job, _, *rest, **more: keep(job, job.run, *rest, **more))


def _a_rerun_forgets_the_parameters() -> AbstractContextManager[Any]:
    """Of whoever has missed the message."""
    return patch.object(job_commands, "with_parameters", lambda _, __, job: job)


@contextmanager
def _takes_a_rerun_while_it_drains() -> Iterator[None]:
    """The share of the last run is written off, its workers are left to themselves."""

    def end_last_run(unit: UnitOfWork, command: Any, job: Any) -> Any:
        ends.finalise(unit, keep(unit, command, job), Reason.STOPPED, "", "")
        for task in unit.tx.tasks(job.job_id):
            if task.key.party == job.party:
                ending.finish_party_task(unit, task, Reason.STOPPED, "")
        return unit.tx.job(job.key)

    keep = job_commands.end_last_run
    with (
        patch.object(job_commands, "end_last_run", end_last_run),
        patch.object(job_commands, "has_workers", lambda *_: False),
    ):
        yield


def _has_a_reservation_round_before_all_know() -> AbstractContextManager[Any]:
    return patch.object(plan_round, "_plan_rejoin", lambda view: iter([actions.AllRejoined()]))


def _a_long_wait_keeps_the_cores() -> AbstractContextManager[Any]:
    keep = job_commands.requeue_job

    def requeue_job(unit: UnitOfWork, job: Any, *rest: Any) -> None:
        with patch.object(next_run, "release"):
            keep(unit, job, *rest)

    return patch.object(job_commands, "requeue_job", requeue_job)


def _commands_of_the_last_run_count() -> AbstractContextManager[Any]:
    keep = participant.Participant._command

    def command_of_any_run(self: Any, unit: UnitOfWork, command: Any, caller: str) -> Any:
        job = unit.tx.job(participant.JobKey(command.job_id, command.to))
        newest = command.run if job is None else max(command.run, job.run)
        return keep(self, unit, replace(command, run=newest), caller)

    return patch.object(participant.Participant, "_command", command_of_any_run)


# ------------------------------------------------------------------ programs of several workers


def _a_share_succeeds_with_its_first_worker() -> AbstractContextManager[Any]:
    def next_step(command: Any, present: Any) -> Any:
        return replicas.Done() if any(one.reason is Reason.DONE for one in present) else keep(command, present)

    keep = launching.next_step
    return patch.object(launching, "next_step", next_step)


def _who_has_started_is_not_told_to_wait() -> AbstractContextManager[Any]:
    """Its seat alone goes back."""
    def wait_again(_: Any, seats: Any) -> Iterator[Any]:
        for seat in seats:
            yield actions.MoveSeat(seat, SeatStatus.JOINING)

    return patch.object(plan_round, "wait_again", wait_again)


def _what_one_party_made_is_published_at_once() -> AbstractContextManager[Any]:
    def finish(unit: UnitOfWork, task: Any, *why: Any, **more: Any) -> None:
        keep(unit, task, *why, **more)
        now = unit.tx.task(task.key)
        if now is not None and now.party_status is TaskStatus.SUCCESS:
            outputs.publish_outputs(unit, now)

    keep = ending.finish_party_task
    stack = ExitStack()
    for module in (ending, launching):
        stack.enter_context(patch.object(module, "finish_party_task", finish))
    return stack


def _elastic_workers_stay() -> AbstractContextManager[Any]:
    """Whoever waits for what they hold."""
    return patch.object(reserving, "reclaim_capacity", lambda *_: False)


def _elastic_workers_begin_while_others_wait() -> AbstractContextManager[Any]:
    return patch.object(elastic, "_has_spare_capacity", lambda _: True)


def _elastic_workers_keep_their_cores() -> AbstractContextManager[Any]:
    keep = memory_workers.worker_moved
    return patch.object(memory_workers, "worker_moved", lambda *moved: {**keep(*moved), "cores": 0})


def _elastic_workers_take_nothing() -> AbstractContextManager[Any]:
    """They run beside the books."""
    return patch.object(
        worker_rows, "taking", lambda name, *_: EngineRow.update(f_nodes=1).where(resources._engine_is(name))
    )


def _outbox_is_forgotten_at_a_restart() -> AbstractContextManager[Any]:
    return patch.object(Scheduler, "_pick_up", lambda self, unit: None)


@contextmanager
def _durations_by_the_wall_clock() -> Iterator[None]:
    with patch.object(UnitOfWork, "steady", property(lambda unit: unit.now)):
        yield


def _youngest_first() -> AbstractContextManager[Any]:
    keep = QueueRounds._candidates

    def candidates(self: Any, unit: UnitOfWork, heads: Any) -> Any:
        return keep(self, unit, heads)[::-1][:1]

    return patch.object(QueueRounds, "_candidates", candidates)


def _a_held_job_goes_on() -> AbstractContextManager[Any]:
    return patch.object(plan_round, "_has_begun", lambda _: True)


def _a_held_job_has_reservation_rounds() -> AbstractContextManager[Any]:
    return patch.object(MemoryTransaction, "_with_rounds", lambda self: self._waiting())


def _a_held_party_reserves() -> AbstractContextManager[Any]:
    return patch.object(reserving, "_not_ready", lambda unit, job: None)


def _reserves_without_approval() -> AbstractContextManager[Any]:
    return patch.object(reserving, "not_approved", lambda job, consent: None)


def _nobody_looks_again() -> AbstractContextManager[Any]:
    """A job that awaits an approval is asked about once."""
    return patch.object(MemoryTransaction, "waiting_unschedulable", lambda *_: ())


_HOLDS = {"holds": 1.0, "approvals": 0.0, "is_crowded": True, "parties": 3, "cores": 2, "longest_task": 400}
_LONG_ROUNDS = _HOLDS | {"delay": 200, "is_gentle": False, "trouble": 0.0, "crash": 0.0}
_APPROVALS = _HOLDS | {"holds": 0.0, "approvals": 1.0}
_STALLS = {"servers": 2, "trouble": 0.8, "troubles": (stall,), "longest_task": 8_000}
_CROWD = {"is_crowded": True, "has_echoes": True, "parties": 4, "cores": 2, "longest_task": 400}
_BROKEN = {"broken": 0.3, "rate": 0.07}
_SLOW_STOPS = _BROKEN | {"delay": 200, "longest_stop": 20_000, "reruns": 0.0}
_REPEATS = {"rate": 0.07, "delay": 200, "has_echoes": True}
_DEATHS = {"trouble": 0.8, "troubles": (death,), "crash": 0.04, "command_keep": RULES.command_keep}
_UNHEARD = {"parties": 3, "trouble": 1.0, "troubles": (unheard_start,), "delay": 50}
_RERUNS = {"reruns": 1.0, "rate": 0.07, "delay": 200}
_PLAIN_V1 = {
    "crash": 0.0, "trouble": 0.0, "programs": 0.0, "policies": 0.0, "partial": 0.0, "holds": 0.0, "approvals": 0.0,
}
_LATE_RERUNS = _RERUNS | _PLAIN_V1 | {"has_echoes": True, "parties": 2, "longest_task": 2_000}
_LATE_RETURNS = _CROWD | _PLAIN_V1 | {"parties": 3, "rate": 0.07, "reruns": 0.0, "broken": 0.0}
_CHANGES = _RERUNS | {"changes": 1.0, "command_keep": 45_000}
_SLOW = {"returns": 0.0, "longest_task": 90_000, "longest_stop": 20_000}
_SLOW_RERUNS = _RERUNS | _PLAIN_V1 | _SLOW | {"trouble": 0.8, "troubles": (isolation, death), "parties": 2}
_MATCH = {"policies": 1.0, "broken": 0.3}
_LATE_STARTS = {"policies": 1.0, "delay": 200, "rate": 0.07, "longest_task": 8_000}
_QUIET = {"rate": 0.0, "trouble": 0.0, "crash": 0.0}
_PARTIAL = {"partial": 1.0, "broken": 0.3, "parties": 4, "programs": 0.0}
_LONG = {"longest_task": LONG_TASK, "returns": 0.0}
_GIVEN_UP = _PARTIAL | _LONG | {"broken": 0.0, "trouble": 0.9, "troubles": (long_partition,)}
_STALLED = _QUIET | _LONG | {"trouble": 1.0, "troubles": (long_stall,), "policies": 0.0}
_RETURNS = {
    "returns": 1.0, "policies": 0.0, "partial": 0.0, "longest_task": LONG_TASK, "trouble": 1.0, "reruns": 0.0,
    "troubles": (long_partition,), "crash": 0.0, "command_keep": RULES.command_keep, "programs": 0.0,
}  # fmt: skip
_CUT_OFF = _QUIET | _LONG | {"trouble": 1.0, "troubles": (dead_route,), "policies": 0.0}
_PROGRAMS = {"programs": 1.0, "parties": 3}
_ELASTIC = _PROGRAMS | {"elastic": 1.0, "cores": 3, "parties": 2, "longest_task": 8_000, "is_gentle": True}
_CLOCKS = _MATCH | {"trouble": 1.0, "troubles": (clock_step,), "longest_task": 8_000}

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        Mutant("no fence, in memory", lambda: _no_fence(MemoryTransaction), _STALLS),
        Mutant("no fence, in SQL", lambda: _no_fence(SqlTransaction), _STALLS, first=4, store="sqlite"),
        Mutant("a return ignores the round", lambda: _return_ignores_the_round(MemoryTransaction),
               _LATE_RETURNS, first=31),
        Mutant("a return ignores the round, in SQL", lambda: _return_ignores_the_round(SqlTransaction),
               _LATE_RETURNS, first=33, store="sqlite"),
        Mutant("cores come back twice", _cores_come_back_twice),
        Mutant("a repeated apply takes cores again", _apply_takes_again, _REPEATS),
        Mutant("the UPDATE reserves what is not there", _sql_reserves_what_is_not_there, _CROWD, store="sqlite"),
        Mutant("reservation rounds are not taken over", _reservation_rounds_are_not_taken_over, _DEATHS, first=17),
        Mutant("held without a reservation", _takes_a_check_for_a_hold),
        Mutant("starts without a hold", _starts_without_a_hold),
        Mutant("a worker for each request to start", _starts_a_worker_for_each_request, _REPEATS, first=8),
        Mutant("no record of a move", _no_record_of_a_move),
        Mutant("no record of a version", _no_record_of_a_version, first=6),
        Mutant("nothing expires", _nothing_expires, _DEATHS, within=50, first=100),
        Mutant("the initiator is not told", _ended_workers_are_not_told),
        Mutant("everybody is told of capacity", _notifies_everybody_of_capacity, _CROWD, first=4),
        Mutant("capacity notices are repeated", _repeats_capacity_notices, _CROWD),
        Mutant("capacity notices pile up in the outbox", _capacity_notices_go_through_the_outbox, _CROWD),
        Mutant("no roll back", _does_not_roll_back, _CROWD),
        Mutant("one seat is not told to stop", _forgets_to_tell_a_seat_to_stop, _BROKEN, first=29),
        Mutant("one seat is not told the end", _forgets_to_tell_a_seat_the_end),
        Mutant("reports of older versions count", _takes_reports_of_older_versions, _SLOW_STOPS, first=286),
        Mutant("a task begins before its inputs", _starts_before_the_inputs, first=48),
        Mutant("a retry while the gang still runs", _retries_while_the_gang_still_runs, _BROKEN),
        Mutant("the outbox is forgotten at a restart", _outbox_is_forgotten_at_a_restart, _DEATHS),
        Mutant("a rerun keeps the run", _a_rerun_keeps_the_run, _RERUNS),
        Mutant("a party takes a rerun while it drains", _takes_a_rerun_while_it_drains, _SLOW_RERUNS, first=72),
        Mutant("a rerun forgets the parameters", _a_rerun_forgets_the_parameters, _CHANGES, first=182),
        Mutant("a reservation round before all know of the rerun", _has_a_reservation_round_before_all_know, _RERUNS),
        Mutant("commands of the last run count", _commands_of_the_last_run_count, _LATE_RERUNS, within=50, first=230),
        Mutant("who has started is not told to wait", _who_has_started_is_not_told_to_wait, _UNHEARD),
        Mutant("a long wait keeps the cores", _a_long_wait_keeps_the_cores, _BROKEN, first=59),
        Mutant("rules do not wait", _rules_do_not_wait, _MATCH, within=200, first=8),
        Mutant("restarts are not counted", _restarts_are_not_counted, _MATCH, first=59),
        Mutant("what is overtaken still stands", _what_is_overtaken_stands, _LATE_STARTS, within=200, first=8),
        Mutant("a task goes on with too few parties", _goes_on_with_too_few, _PARTIAL, within=300, first=33),
        Mutant("who was given up is lost again", _who_was_given_up_is_lost_again, _GIVEN_UP),
        Mutant("who found a silence out is blamed", _who_found_it_out_is_blamed, _STALLED, first=6),
        Mutant("who is cut off is waited for", _who_is_cut_off_is_waited_for, _CUT_OFF, first=48),
        Mutant("initiators get no heartbeat", _initiators_get_no_heartbeat, _CUT_OFF, first=48),
        Mutant("a job does not wait for who comes back", _does_not_wait_for_who_comes_back, _RETURNS),
        Mutant("nobody asks what was kept", _nobody_asks_what_was_kept, _RETURNS | {"is_gentle": True},
               within=400, first=39),
        Mutant("nobody is told who is missing", _nobody_is_told_who_is_missing, _PARTIAL | _QUIET),
        Mutant("a share succeeds with its first worker", _a_share_succeeds_with_its_first_worker, _PROGRAMS),
        Mutant("what one party made is published at once", _what_one_party_made_is_published_at_once,
               _PROGRAMS, first=33),
        Mutant("elastic workers stay whoever waits", _elastic_workers_stay, _ELASTIC, first=9),
        Mutant("elastic workers begin while others wait", _elastic_workers_begin_while_others_wait, _ELASTIC, first=17),
        Mutant("what an elastic worker held is lost", _elastic_workers_keep_their_cores, _ELASTIC),
        Mutant("elastic workers run beside the books", _elastic_workers_take_nothing, _ELASTIC, store="sqlite"),
        Mutant("durations by the wall clock", _durations_by_the_wall_clock, _CLOCKS, first=33),
        Mutant("the last in the queue goes first", _youngest_first, _CROWD, first=21),
        Mutant("a held job goes on in its reservation round", _a_held_job_goes_on, _LONG_ROUNDS, first=100),
        Mutant("a held job has reservation rounds", _a_held_job_has_reservation_rounds, _HOLDS),
        Mutant("reserves without approval", _reserves_without_approval, _APPROVALS),
        Mutant("nobody looks whether it is approved", _nobody_looks_again, _APPROVALS),
        Mutant("a held party reserves", _a_held_party_reserves, _HOLDS, first=5),
    )
}  # fmt: skip


def hunt_all(names: Iterable[str], jobs: int) -> Iterator[Caught]:
    if jobs == 1:
        yield from map(hunt, names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(hunt, names)


def main() -> int:
    missed = 0
    for caught in hunt_all(sys.argv[1:] or MUTANTS, 2):
        missed += not caught.is_caught
        print(caught.text, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
