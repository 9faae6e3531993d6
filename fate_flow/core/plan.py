"""What the initiator does next about one job: a view in, a plan out.

The plan is made from the state alone, so asking twice gives the same answer twice, and whatever was lost is asked for
again. A plan is a tuple of actions; the shell carries them out in one transaction and sends the commands after its
commit. Rolling back a reservation is one more plan, not an exception.

The way of a job: `ready` while parties accept; `waiting` in the queue; when its turn comes (`BeginTurn`, the ready
signal) every seat is checked and asked to reserve; refused anywhere, the others give back and the turn ends with a
reason to wait; held everywhere, every seat is started; started everywhere, the job is running. A job that is to end
early goes through `stopping`: every seat is told, drains, and only then the job ends. A rerun (rerun.py) has it wait
again; it has no turn before every party has taken its seat in the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.dag import may_start
from fate_flow.core.job import (
    NO_ROOM,
    NOT_EFFECTIVE,
    NOT_READY,
    UNREACHABLE,
    Command,
    CommandKind,
    Job,
    Lack,
    Seat,
    Task,
    TaskKey,
)
from fate_flow.core.outcome import federated_task_status
from fate_flow.core.reasons import RULES, Reason, job_status_for, task_status_for
from fate_flow.core.retry import NEVER_AGAIN, UNTRIED, Again, RetryEvent, Tries, decide
from fate_flow.core.spec import JobSpec, Party
from fate_flow.core.status import (
    TASK_BROKEN,
    TASK_END,
    JobStatus,
    SeatStatus,
    TaskStatus,
)
from fate_flow.core.text import plain


@dataclass(frozen=True)
class JobView:
    """All the initiator knows of one job at one moment."""

    job: Job
    spec: JobSpec
    seats: tuple[Seat, ...]
    tasks: tuple[Task, ...]          # the newest version of each, at every party
    now: int                         # steady time in milliseconds, handed in, never asked for
    fresh_id: str                    # a random id that a new incarnation may take
    has_turn: bool = False           # the queue lets it ask for cores
    drain_milliseconds: int = 60_000
    retry_milliseconds: int = 2_000


@dataclass(frozen=True)
class MoveJob:
    """The job, and with it the initiator's own row, takes a new status."""

    new: JobStatus
    reason: Reason | None = None
    message: str = ""
    target: JobStatus | None = None
    stop_by: int = 0
    unconfirmed: tuple[str, ...] = ()
    caused_by: str = ""              # the party that gave the reason, where it is known


@dataclass(frozen=True)
class MoveSeat:
    seat: Seat
    new: SeatStatus
    message: str = ""
    lacks: Lack | None = None        # of a refusal


@dataclass(frozen=True)
class RenewHold:
    """What a seat holds is asked for again, so that its lease does not run out while others are still asked."""

    seat: Seat


@dataclass(frozen=True)
class MoveTask:
    """The federated status of a task, in the rows of all its parties."""

    name: str
    version: int
    old: TaskStatus
    new: TaskStatus
    reason: Reason | None = None
    message: str = ""


@dataclass(frozen=True)
class NewVersion:
    """The task begins again everywhere under a new version and incarnation."""

    name: str
    version: int
    incarnation: str
    auto_retries: int
    retry_at: int
    tries: Tries = UNTRIED


@dataclass(frozen=True)
class BeginAgain:
    """The ended job waits again, in its next run; until every party knows it waits for what `wait_reason` says."""

    wait_reason: str


@dataclass(frozen=True)
class Rejoin:
    """The party of the seat is to take part in the next run."""

    seat: Seat


@dataclass(frozen=True)
class AllRejoined:
    """Every party has taken its seat in this run: the queue may give the job a turn."""


@dataclass(frozen=True)
class Send:
    command: Command


@dataclass(frozen=True)
class BeginTurn:
    """Set the ready signal, count up the turn and forget what the last one was refused."""


@dataclass(frozen=True)
class EndTurn:
    """Reset the ready signal; the job goes on waiting for what `wait_reason` says, or runs when it is empty."""

    wait_reason: str = ""
    blocked_on: str = ""
    blocked_cores: int = 0
    retry_at: int = 0
    was_conflict: bool = False       # another party had already reserved
    lacks: Lack | None = None        # what `blocked_on` lacks


@dataclass(frozen=True)
class Hurry:
    """The wish to kill what drains is being carried out: nobody is waited for beyond `stop_by` (steady time)."""

    stop_by: int


@dataclass(frozen=True)
class Progress:
    percent: int


@dataclass(frozen=True)
class Forget:
    """Nothing of a refused submit stays: rows and files go."""


@dataclass(frozen=True)
class InviteAgain:
    """A party has removed the job, since it did not hear in time that all had accepted it: it is sent once more."""

    seat: Seat


@dataclass(frozen=True)
class NameUnconfirmed:
    """A party had ended the job by itself, and otherwise than the initiator: both keep their word, and this says so."""

    party: Party
    ended_as: str


Action = (
    MoveJob | MoveSeat | RenewHold | MoveTask | NewVersion | BeginAgain | Rejoin | AllRejoined | Send | BeginTurn
    | EndTurn | Hurry | Progress | Forget | NameUnconfirmed | InviteAgain
)  # fmt: skip
Plan = tuple[Action, ...]


def plan_job(view: JobView) -> Plan:
    """What the initiator does next. Asking twice gives the same answer twice."""
    return tuple(_PLANNERS[view.job.status](view))


# ------------------------------------------------------------------ ready: parties are being asked


def _plan_ready(view: JobView) -> Iterator[Action]:
    refused = [seat for seat in view.seats if seat.status is SeatStatus.REFUSED]
    if refused:
        message = "; ".join(f"{seat.party}: {seat.message}" for seat in refused)
        yield from _end(view, Reason.PARTY_REFUSED, message, caused_by=str(refused[0].party))
    elif view.job.reason is not None:
        yield from _end(view, view.job.reason, view.job.message)
    elif all(seat.status is SeatStatus.JOINED for seat in view.seats):
        yield MoveJob(JobStatus.WAITING)
        for seat in _others(view):
            yield _send(view, seat, CommandKind.STATUS, argument=JobStatus.WAITING.value)


# ------------------------------------------------------------------ waiting: the queue and the turn


def _plan_waiting(view: JobView) -> Iterator[Action]:
    if view.job.reason is not None:
        yield from _stop(view, view.job.reason, view.job.message)
    elif view.job.rerun_signal:
        yield from _plan_rejoin(view)
    elif view.job.ready_owner:
        yield from _plan_turn(view)
    elif view.has_turn:
        yield BeginTurn()
        yield from _ask(view, _next_asked(view, view.seats), view.job.turn + 1)


def _plan_rejoin(view: JobView) -> Iterator[Action]:
    """A party that does not take its seat in the next run ends it; one that has not answered is waited for."""
    refused = _in(view, SeatStatus.REFUSED)
    if refused:
        words = "; ".join(f"{seat.party}: {seat.message}" for seat in refused)
        yield from _stop(view, Reason.PARTY_REFUSED, words, caused_by=str(refused[0].party))
    elif all(seat.status is SeatStatus.JOINED for seat in view.seats):
        yield AllRejoined()


def _next_asked(view: JobView, joined: Sequence[Seat]) -> Sequence[Seat]:
    """All parties side by side; the own seats a moment before, since a refusal there spares the others the question.

    After a conflict one by one in ascending order, so that two initiators that want the same parties meet at the first
    and not crosswise. Before all others a party for which the job waits and which more room would not help: while it
    is too small, or silent, the others would reserve for nothing."""
    if view.job.lacks in (Lack.SIZE, Lack.ANSWER):
        hopeless = [seat for seat in joined if seat.party.party_id == view.job.blocked_on]
        if hopeless:
            return hopeless
    if view.job.conflicts:
        return (min(joined, key=_ascending),)
    return [seat for seat in joined if _is_here(view, seat)] or joined


def _ascending(seat: Seat) -> tuple[int, str]:
    return (int(seat.party.party_id), seat.party.role)


def _ask(view: JobView, seats: Sequence[Seat], turn: int) -> Iterator[Action]:
    for seat in seats:
        yield MoveSeat(seat, SeatStatus.CHECKING)
        yield _send(view, seat, CommandKind.CHECK, body={"turn": turn})


_ON_ITS_WAY = frozenset({SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.STARTING})


def _plan_turn(view: JobView) -> Iterator[Action]:
    refused = [seat for seat in view.seats if seat.status is SeatStatus.JOINED and seat.message]
    is_answered = not any(seat.status in _ON_ITS_WAY for seat in view.seats)
    joined = _in(view, SeatStatus.JOINED)
    if refused:
        yield from _roll_back(view, refused, is_answered)
        return
    yield from _renew(view)
    if is_answered and joined:
        yield from _ask(view, _next_asked(view, joined), view.job.turn)
    elif is_answered:
        yield from _start_seats(view)


def _renew(view: JobView) -> Iterator[Action]:
    """A party gives back what it holds and is not told to start: while others still answer, it is asked again."""
    for seat in _in(view, SeatStatus.HELD):
        if seat.renew_at and seat.renew_at <= view.now:
            yield RenewHold(seat)
            yield _send(view, seat, CommandKind.APPLY, body={"turn": view.job.turn})


def _roll_back(view: JobView, refused: list[Seat], is_answered: bool) -> Iterator[Action]:
    if _in(view, SeatStatus.STARTED):
        # A hold ran out here while others had started already; what has started ends by a stop alone.
        yield from _stop(view, Reason.PARTY_REFUSED, _words(refused), caused_by=str(refused[0].party))
        return
    yield from _give_back(view, refused)
    if not is_answered:
        return
    given_up = _gives_up(view, refused)
    if not given_up:
        yield _wait_for(view, refused)
    elif not _in(view, SeatStatus.HELD):
        yield from _stop(view, Reason.NO_CAPACITY, f"{_words(refused)} ({given_up})", str(refused[0].party))


def _gives_up(view: JobView, refused: list[Seat]) -> str:
    """Why the job does not wait for cores that a party has not, in words; empty: it waits."""
    if all(seat.lacks not in (Lack.ROOM, Lack.SIZE) for seat in refused):
        return ""                   # nobody said a word about capacity: a party does not answer
    rule, seconds = view.spec.retry, (view.now - view.job.since) / 1000
    if RetryEvent.NO_CAPACITY not in rule.on_events:
        return "no retry was asked for after a lack of capacity"
    return f"the {rule.duration:g} s for retries are over" if 0 < rule.duration < seconds else ""


def _give_back(view: JobView, refused: list[Seat]) -> Iterator[Action]:
    """What others reserved goes back at once, also while a slow party has not answered yet.

    The turn rides along: a return that arrives late, after the next turn reserved again, returns nothing. So does
    whether the job still waits for room: if so, a party that has let it wait for long keeps what it had for it."""
    still_wants = all(seat.lacks is Lack.ROOM for seat in refused)
    for seat in _in(view, SeatStatus.HELD):
        yield MoveSeat(seat, SeatStatus.JOINED)
        yield _send(view, seat, CommandKind.RETURN, body={"turn": view.job.turn, "still_wants": still_wants})


def _wait_for(view: JobView, refused: list[Seat]) -> EndTurn:
    """Blocked on the first of the parties whose refusal is the hardest to lift."""
    lacks = min((seat.lacks or Lack.ANSWER for seat in refused), key=_HARDEST.index)
    first = min((seat for seat in refused if (seat.lacks or Lack.ANSWER) is lacks), key=_ascending)
    return EndTurn(
        wait_reason=_words(refused),
        blocked_on=first.party.party_id,
        blocked_cores=first.asked_cores,
        retry_at=view.now + view.retry_milliseconds,
        was_conflict=_was_conflict(view, refused),
        lacks=lacks,
    )


_HARDEST = (Lack.SIZE, Lack.ANSWER, Lack.ROOM)


def _words(refused: list[Seat]) -> str:
    return "; ".join(f"{seat.party} {seat.message}" for seat in refused)


def _was_conflict(view: JobView, refused: list[Seat]) -> bool:
    """Whether another party had already reserved: those that are asked first have when others are asked."""
    asked_first = _next_asked(view, view.seats)
    return not all(seat in asked_first for seat in refused)


def _start_seats(view: JobView) -> Iterator[Action]:
    """The own seat is started last: its row is the job, and a job is running when every party accepted `start`."""
    held = [seat for seat in _others(view) if seat.status is SeatStatus.HELD] or _in(view, SeatStatus.HELD)
    for seat in held:
        yield MoveSeat(seat, SeatStatus.STARTING)
        yield _send(view, seat, CommandKind.START, body={"turn": view.job.turn})


# ------------------------------------------------------------------ running: tasks


def _plan_running(view: JobView) -> Iterator[Action]:
    job = view.job
    if job.reason is not None:
        yield from _stop(view, job.reason, job.message)
        return
    if job.ready_owner:
        yield EndTurn()
    moved = tuple(_judge_tasks(view))
    yield from moved
    if moved:
        return          # one step at a time: the next view shows what follows
    hopeless = next((rows for rows in _by_name(view).values() if rows[0].status in TASK_BROKEN), None)
    if hopeless:
        yield from _break(view, hopeless)
        return
    yield from _progress(view)
    statuses = {task.key.name: task.status for task in _leads(view)}
    if all(status in TASK_END for status in statuses.values()):
        yield from _end(view, Reason.DONE, "")
        return
    yield from _start_tasks(view, statuses)


def _leads(view: JobView) -> tuple[Task, ...]:
    """One row a task, to read its federated status from: it is the same in all of them."""
    return tuple(rows[0] for rows in _by_name(view).values())


def _judge_tasks(view: JobView) -> Iterator[Action]:
    for rows in _by_name(view).values():
        lead = rows[0]
        if lead.is_final:
            continue
        outcome = federated_task_status([row.party_status for row in rows])
        if lead.status is TaskStatus.STOPPING:
            yield from _drain_task(view, rows)
        elif outcome in TASK_BROKEN:
            yield from _break_task(view, rows)
        elif outcome in TASK_END:
            yield from _settle(view, rows, outcome, _GOOD[outcome], "")


_GOOD = {TaskStatus.SUCCESS: Reason.DONE, TaskStatus.PASS: Reason.NOT_NEEDED}


def _break_task(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    """One party's share broke: the others are stopped, since a task is a gang."""
    first = _culprit(rows)
    yield _move(rows, TaskStatus.STOPPING, first.reason, first.message)
    for row in rows:
        if not row.is_over_here:
            yield Send(_task_command(view, row, CommandKind.TASK_STOP, argument=TaskStatus.CANCELED.value))


def _drain_task(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    if not all(row.is_over_here for row in rows):
        return
    lead = rows[0]
    first = _culprit(rows)
    reason = first.reason or Reason.WORKER_ERROR
    yield from _settle(view, rows, task_status_for(reason), reason, first.message)
    again = _retry(view, lead, reason)
    if again is not None and not again.refused:
        yield from _again(view, rows, again)


def _retry(view: JobView, lead: Task, reason: Reason | None) -> Again | None:
    """What the retry rule of a task says to such an end; None where there is no rule, or none is asked."""
    event, rule = RULES[reason].retry_event if reason else None, view.spec.tasks[lead.key.name].retry
    if event is None or rule == NEVER_AGAIN:
        return None
    chance = int(view.fresh_id[:8], 16) / 0xFFFFFFFF
    return decide(rule, lead.tries, event, view.now, chance)


def _again(view: JobView, rows: tuple[Task, ...], again: Again) -> Iterator[Action]:
    lead, rule = rows[0], view.spec.tasks[rows[0].key.name].retry
    version, left = lead.key.version + 1, rule.retries - again.tries.errors
    retry_at = view.now + int(again.seconds * 1000)
    yield NewVersion(lead.key.name, version, view.fresh_id, left, retry_at, again.tries)
    plain = _plain_parties(view)
    for row in rows:
        if row.key.party != view.job.party:
            key = row.key
            body: dict[str, Any] = {"incarnation": view.fresh_id, "auto_retries": left}
            if key.party in plain:
                body.update(plain_task(view, key, version))
            yield Send(
                Command(CommandKind.TASK_CREATE, key.job_id, key.party, view.job.run, key.name, version, body=body)
            )


def _plain_parties(view: JobView) -> frozenset[Party]:
    """Those that speak plain v1 only."""
    return frozenset(seat.party for seat in view.seats if seat.legacy)


def plain_task(view: JobView, key: TaskKey, version: int) -> dict[str, Any]:
    """The row of a task as a plain v1 server inserts it (party-api-v1, section 3)."""
    waiting = TaskStatus.WAITING.value
    return {
        "job_id": key.job_id,
        "component_name": key.name,
        "task_id": key.task_id,
        "task_version": version,
        "role": key.party.role,
        "party_id": key.party.party_id,
        "initiator_role": view.job.initiator.role,
        "initiator_party_id": view.job.initiator.party_id,
        "federated_mode": view.spec.common.federated_mode,
        "federated_status_collect_type": view.spec.common.collect_type,
        "status": waiting,
        "party_status": waiting,
    }


def _culprit(rows: tuple[Task, ...]) -> Task:
    """The row that says how the task ends and why: one that broke by itself, not one that was stopped for it.

    Among those the worst status decides, and a reason that is final before one after which it may be tried again. That
    the earliest of what is left speaks is for people, and decides nothing: the clocks are not one."""
    broken = [row for row in rows if row.party_status in TASK_BROKEN]
    own_fault = [row for row in broken if row.reason is not Reason.STOPPED] or broken
    worst = federated_task_status([row.party_status for row in own_fault])
    worst_rows = [row for row in own_fault if row.party_status is worst]
    final = [row for row in worst_rows if row.reason is not None and RULES[row.reason].retry_event is None]
    return min(final or worst_rows, key=lambda row: (row.end_time, row.key.party))


def _settle(
    view: JobView, rows: tuple[Task, ...], outcome: TaskStatus, reason: Reason, message: str
) -> Iterator[Action]:
    """The federated end of a task, told to every other party."""
    yield _move(rows, outcome, reason, message)
    for row in rows:
        if row.key.party != view.job.party:
            yield Send(_task_command(view, row, CommandKind.TASK_STATUS, argument=outcome.value))


def _move(rows: tuple[Task, ...], new: TaskStatus, reason: Reason | None = None, message: str = "") -> MoveTask:
    lead = rows[0]
    return MoveTask(lead.key.name, lead.key.version, lead.status, new, reason, message)


def _break(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    """A task ended badly and is not tried again: so does the job, and it says whose share it was."""
    first, status = _culprit(rows), rows[0].status
    reason = Reason.JOB_TIMEOUT if status is TaskStatus.TIMEOUT else Reason.TASK_FAILED
    if first.reason is Reason.STOPPED_BY_USER:
        reason = Reason.STOPPED_BY_USER
    party = str(first.key.party)
    why = first.message or (first.reason.value if first.reason else first.party_status.value)
    again = _retry(view, rows[0], first.reason)
    if again is not None and again.refused:
        why = f"{why} ({again.refused})"
    yield from _stop(view, reason, f"{first.key.name} ended as {status.value} on {party}: {why}", caused_by=party)


def _progress(view: JobView) -> Iterator[Action]:
    leads = _leads(view)
    percent = 100 * sum(task.is_final for task in leads) // len(leads)
    if percent > view.job.progress:
        yield Progress(percent)
        for seat in _others(view):
            yield _send(view, seat, CommandKind.UPDATE, body={"progress": percent})


def _start_tasks(view: JobView, statuses: Mapping[str, TaskStatus]) -> Iterator[Action]:
    """As many as the reservation has room for: `task_parallelism` tasks at a time."""
    room = view.spec.common.task_parallelism - sum(
        status in (TaskStatus.RUNNING, TaskStatus.STOPPING) for status in statuses.values()
    )
    by_name = _by_name(view)
    for name in may_start(view.spec, statuses):
        rows = by_name[name]
        if room <= 0:
            return
        if rows[0].retry_at > view.now:
            continue
        room -= 1
        yield _move(rows, TaskStatus.RUNNING)
        plain = _plain_parties(view)
        for row in rows:
            if row.key.party in plain:
                yield Send(_task_command(view, row, CommandKind.TASK_STATUS, argument=TaskStatus.RUNNING.value))
            yield Send(_task_command(view, row, CommandKind.TASK_START))


# ------------------------------------------------------------------ stopping and the end


_IDLE = frozenset({SeatStatus.JOINING, SeatStatus.JOINED, SeatStatus.REFUSED})
"""Seats of a waiting job that hold nothing and run nothing: that it is over is all that they need to know."""


def _stop(view: JobView, reason: Reason, message: str, caused_by: str = "") -> Iterator[Action]:
    """Every seat that may hold or run something is told; the job ends when they have drained."""
    if all(seat.status in _IDLE for seat in view.seats):
        yield from _end(view, reason, message, caused_by=caused_by)
        return
    target = job_status_for(reason)
    patience = view.drain_milliseconds + _longest_stop(view)
    yield MoveJob(JobStatus.STOPPING, reason, message, target=target, stop_by=view.now + patience, caused_by=caused_by)
    # As a duration: by then this side goes on without whoever has not drained, and clocks are not one.
    for seat in view.seats:
        yield MoveSeat(seat, SeatStatus.STOPPING)
        yield _stop_command(view, seat, reason, message, patience / 1000)


def _longest_stop(view: JobView) -> int:
    """Milliseconds that the tasks of the job ask for to finish what they are at."""
    return int(1000 * max((task.stop_seconds or 0 for task in view.spec.tasks.values()), default=0))


def _stop_command(view: JobView, seat: Seat, reason: Reason, message: str, deadline_seconds: float) -> Send:
    body = {"reason": reason.value, "message": message, "deadline_seconds": deadline_seconds}
    return _send(view, seat, CommandKind.STOP, argument=job_status_for(reason).value, body=body)


def _plan_stopping(view: JobView) -> Iterator[Action]:
    job = view.job
    if job.is_urgent:
        yield from _hurry(view)
    elif job.stop_by <= view.now:
        late = [seat for seat in view.seats if not _has_drained(view, seat)]
        for seat in late:
            yield MoveSeat(seat, SeatStatus.UNCONFIRMED, "never confirmed that it stopped")
        unconfirmed = tuple(sorted(str(seat.party) for seat in late))
        yield from _finish(view, unconfirmed)
    elif all(_has_drained(view, seat) for seat in view.seats):
        yield from _finish(view, ())


def _hurry(view: JobView) -> Iterator[Action]:
    job = view.job
    assert job.reason is not None, "stopping always says why"
    yield Hurry(min(job.stop_by, view.now + view.drain_milliseconds))
    for seat in view.seats:
        if not _has_drained(view, seat):
            yield _stop_command(view, seat, job.reason, job.message, 0)


def _has_drained(view: JobView, seat: Seat) -> bool:
    busy = (TaskStatus.RUNNING, TaskStatus.STOPPING)
    return seat.status is SeatStatus.DRAINING and not any(
        task.party_status in busy for task in view.tasks if task.key.party == seat.party
    )


def _finish(view: JobView, unconfirmed: tuple[str, ...]) -> Iterator[Action]:
    job = view.job
    assert job.reason is not None, "stopping always says why"
    for rows in _by_name(view).values():
        if not rows[0].is_final:
            outcome, reason = _last_word(rows, job)
            yield from _settle(view, rows, outcome, reason, job.message)
    yield from _end(view, job.reason, job.message, unconfirmed)


def _last_word(rows: tuple[Task, ...], job: Job) -> tuple[TaskStatus, Reason]:
    """How a task ends that the end of its job cut off."""
    statuses = [row.party_status for row in rows]
    if all(status in TASK_END for status in statuses):
        outcome = federated_task_status(statuses)
        if outcome in TASK_BROKEN:
            reason = _culprit(rows).reason or Reason.STOPPED
            return task_status_for(reason), reason
        return outcome, _GOOD[outcome]
    if job.reason is Reason.STOPPED_BY_USER:
        return TaskStatus.CANCELED, Reason.STOPPED_BY_USER
    return TaskStatus.CANCELED, Reason.STOPPED


def _end(
    view: JobView, reason: Reason, message: str, unconfirmed: tuple[str, ...] = (), caused_by: str = ""
) -> Iterator[Action]:
    """The job is over; every other party is told, those that never answered too, should they come back."""
    final = job_status_for(reason)
    if view.job.ready_owner:
        yield EndTurn()
    body: dict[str, Any] = {"reason": reason.value, "message": message}
    if view.job.status is JobStatus.READY:
        body["tag"] = "submit_failed"
    yield MoveJob(final, reason, message, unconfirmed=unconfirmed, caused_by=caused_by)
    for seat in view.seats:
        if seat.status is SeatStatus.REFUSED:
            continue
        is_own = seat.party == view.job.party
        if str(seat.party) not in unconfirmed:
            yield MoveSeat(seat, SeatStatus.LEFT if is_own else SeatStatus.LEAVING)
        if not is_own:
            yield _send(view, seat, CommandKind.STATUS, argument=final.value, body=body)


_GONE = frozenset({SeatStatus.LEFT, SeatStatus.REFUSED, SeatStatus.UNCONFIRMED})


def _plan_ended(view: JobView) -> Iterator[Action]:
    """A submit that was refused leaves nothing behind."""
    is_first = view.job.run == 0 and view.job.turn == 0
    never_accepted = is_first and view.job.reason is Reason.PARTY_REFUSED
    if never_accepted and all(seat.status in _GONE for seat in view.seats):
        yield Forget()


_PLANNERS = {
    JobStatus.READY: _plan_ready,
    JobStatus.WAITING: _plan_waiting,
    JobStatus.RUNNING: _plan_running,
    JobStatus.STOPPING: _plan_stopping,
    JobStatus.SUCCESS: _plan_ended,
    JobStatus.FAILED: _plan_ended,
    JobStatus.CANCELED: _plan_ended,
    JobStatus.TIMEOUT: _plan_ended,
}


# ------------------------------------------------------------------ small words


def _others(view: JobView) -> tuple[Seat, ...]:
    return tuple(seat for seat in view.seats if seat.party != view.job.party)


def _is_here(view: JobView, seat: Seat) -> bool:
    return seat.party.party_id == view.job.party.party_id


def _in(view: JobView, status: SeatStatus) -> list[Seat]:
    return [seat for seat in view.seats if seat.status is status]


def _by_name(view: JobView) -> dict[str, tuple[Task, ...]]:
    found: dict[str, list[Task]] = {name: [] for name in view.spec.tasks}
    for task in view.tasks:
        found[task.key.name].append(task)
    return {name: tuple(rows) for name, rows in found.items() if rows}


def _send(
    view: JobView, seat: Seat, kind: CommandKind, argument: str = "", body: Mapping[str, Any] | None = None
) -> Send:
    return Send(Command(kind, view.job.job_id, seat.party, view.job.run, argument=argument, body=body or {}))


def _task_command(view: JobView, row: Task, kind: CommandKind, argument: str = "") -> Command:
    body = {"incarnation": row.incarnation}
    key = row.key
    return Command(kind, key.job_id, key.party, view.job.run, key.name, key.version, argument, body)


# ------------------------------------------------------------------ answers


@dataclass(frozen=True)
class Verdict:
    """What an answer means: actions, task news that came with it, and whether the job has to end for it."""

    actions: Plan = ()
    reports: tuple[Mapping[str, Any], ...] = ()
    stop: Reason | None = None
    message: str = ""


def judge_answer(seat: Seat, command: Command, retcode: int, message: str, data: Any) -> Verdict:
    """What the answer to a job command means for the seat it went to.

    An answer that no longer fits the seat (late, repeated, of an earlier run) means nothing."""
    judge = _JUDGES.get((command.kind, seat.status))
    if judge is None or command.run != seat.run:
        return Verdict()
    return judge(seat, command, retcode, message, data if isinstance(data, Mapping) else {})


def _judge_create(seat: Seat, command: Command, retcode: int, message: str, _: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        return Verdict((MoveSeat(seat, SeatStatus.JOINED),))
    refused = MoveSeat(seat, SeatStatus.REFUSED, message)
    if retcode != UNREACHABLE:
        return Verdict((refused,))
    # Nobody knows whether it accepted; what it may have made is to go.
    reason = Reason.PARTY_REFUSED
    body = {"reason": reason.value, "message": message, "tag": "submit_failed"}
    final = job_status_for(reason).value
    forget = Command(CommandKind.STATUS, command.job_id, seat.party, command.run, argument=final, body=body)
    return Verdict((refused, Send(forget)))


def _judge_invitation(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> Verdict:
    """An answer to `create` that was sent once more; a lost one shows by the next check."""
    if retcode in (0, UNREACHABLE):
        return Verdict()
    return Verdict(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")


def _judge_check(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        apply = Command(CommandKind.APPLY, command.job_id, seat.party, command.run, body=command.body)
        return Verdict((MoveSeat(seat, SeatStatus.APPLYING), Send(apply)))
    if retcode in (NOT_READY, UNREACHABLE):
        return Verdict((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)),))
    if data.get("is_unknown") is True and seat.run == 0:      # what a later run builds on is gone with the rest
        back = MoveSeat(seat, SeatStatus.JOINED, "had removed the job, which is sent again")
        return Verdict((back, InviteAgain(seat)))
    return Verdict(stop=Reason.DEPENDENCE_FAILED, message=f"{seat.party}: {message}")


def _waits(retcode: int, message: str) -> str:
    return f"does not answer: {message}" if retcode == UNREACHABLE else f"is not ready: {message}"


def _judge_apply(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        return Verdict((MoveSeat(seat, SeatStatus.HELD),))
    if retcode == UNREACHABLE:
        # Nobody knows whether it reserved; what it may hold is to go back before it is asked again.
        give_back = Command(CommandKind.RETURN, command.job_id, seat.party, command.run, body=command.body)
        return Verdict((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)), Send(give_back)))
    words = plain(data.get("why"), 500) or message or "refused"
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, words, _lack(retcode, data)),))


def _lack(retcode: int, data: Mapping[str, Any]) -> Lack:
    """What a party lacks that refused to reserve; a plain v1 one does not say, and refuses for want of room."""
    if data.get("never") is True:
        return Lack.SIZE
    return Lack.ROOM if retcode == NO_ROOM else Lack.ANSWER


def _judge_renewal(seat: Seat, _: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    """What was not heard is asked again; a party that holds nothing any more and has no room ends the turn."""
    if retcode in (0, UNREACHABLE):
        return Verdict()
    words = plain(data.get("why"), 500) or message or "refused"
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, f"lost what it held: {words}", _lack(retcode, data)),))


def _judge_start(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        return Verdict((MoveSeat(seat, SeatStatus.STARTED),))
    # What it held has run out: as if it had refused to reserve.
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, f"did not start: {message}"),))


def _judge_stop(seat: Seat, _: Command, __: int, ___: str, data: Mapping[str, Any]) -> Verdict:
    tasks = data.get("tasks")
    reports = tuple(one for one in tasks if isinstance(one, Mapping)) if isinstance(tasks, list) else ()
    return Verdict((MoveSeat(seat, SeatStatus.DRAINING),), reports)


def _judge_rejoin(seat: Seat, command: Command, retcode: int, message: str, _: Mapping[str, Any]) -> Verdict:
    """A plain v1 party that is told a second time has nothing to change, and says that it changes nothing."""
    if command.argument != JobStatus.WAITING.value:
        return Verdict()
    if retcode == 0 or (retcode == NOT_EFFECTIVE and seat.legacy):
        return Verdict((MoveSeat(seat, SeatStatus.JOINED),))
    if retcode in (NOT_EFFECTIVE, UNREACHABLE):
        return Verdict()
    return Verdict((MoveSeat(seat, SeatStatus.REFUSED, message),))


def _judge_end(seat: Seat, command: Command, _: int, __: str, data: Mapping[str, Any]) -> Verdict:
    if command.argument == JobStatus.WAITING.value:
        return Verdict()        # that it was to wait is overtaken; how it ended has an answer of its own
    left = MoveSeat(seat, SeatStatus.LEFT)
    ended_as = plain(data.get("ended_as"), 20)
    if ended_as in ("", command.argument):
        return Verdict((left,))
    return Verdict((left, NameUnconfirmed(seat.party, ended_as)))


_JUDGES = {
    (CommandKind.CREATE, SeatStatus.JOINING): _judge_create,
    (CommandKind.CREATE, SeatStatus.JOINED): _judge_invitation,
    (CommandKind.CHECK, SeatStatus.CHECKING): _judge_check,
    (CommandKind.APPLY, SeatStatus.APPLYING): _judge_apply,
    (CommandKind.APPLY, SeatStatus.HELD): _judge_renewal,
    (CommandKind.START, SeatStatus.STARTING): _judge_start,
    (CommandKind.STOP, SeatStatus.STOPPING): _judge_stop,
    (CommandKind.STATUS, SeatStatus.JOINING): _judge_rejoin,
    (CommandKind.STATUS, SeatStatus.LEAVING): _judge_end,
    (CommandKind.STATUS, SeatStatus.UNCONFIRMED): _judge_end,
}

STILL_ENDS = "still_ends"
"""In the data of an answer: the party takes no news of this run while its share of an earlier one has not ended."""


def is_put_off(seat: Seat, command: Command, retcode: int, data: Any) -> bool:
    """Whether a party that still ends an earlier run is to be asked the same again, a little later."""
    if command.kind is not CommandKind.STATUS or command.run != seat.run or retcode != NOT_EFFECTIVE:
        return False
    return isinstance(data, Mapping) and bool(data.get(STILL_ENDS))
