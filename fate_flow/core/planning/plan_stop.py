"""Plans for the end of a job: every seat is told to stop and drains, and then the job ends."""

from __future__ import annotations

from collections.abc import Iterator

from fate_flow.core.model.job import CommandKind, Job, Seat, Task
from fate_flow.core.model.reasons import RULES, Reason, job_status_for, task_status_for
from fate_flow.core.model.status import TASK_BROKEN, TASK_END, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import Action, EndRound, ForceStop, MoveJob, MoveSeat, Send
from fate_flow.core.planning.gang import GOOD, cause_of, failed_row, settle
from fate_flow.core.planning.outcome import federated_task_status
from fate_flow.core.planning.partial import missing_parties
from fate_flow.core.planning.party_return import will_come_back
from fate_flow.core.planning.plain_v1 import after_end, before_end
from fate_flow.core.planning.view import JobView, send
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.job_bodies import End, Stop

_IDLE = frozenset({SeatStatus.JOINING, SeatStatus.JOINED, SeatStatus.REFUSED})
"""Seats of a waiting job that hold and run nothing. They need no stop, only the final status."""


def stop(
    view: JobView, reason: Reason, message: str, caused_by: str = "", exit_code: int | None = None
) -> Iterator[Action]:
    """Tell every seat that may hold or run something to stop; the job ends when all have drained.

    `exit_code`: of the worker that is the cause, if one is."""
    if all(seat.status in _IDLE for seat in view.seats):
        yield from end(view, reason, message, caused_by=caused_by)
        return
    target = job_status_for(reason)
    patience = view.drain_milliseconds + _longest_stop(view)
    yield MoveJob(
        JobStatus.STOPPING, reason, message, target=target, stop_by=view.now + patience, caused_by=caused_by,
        exit_code=exit_code,
    )  # fmt: skip
    # The deadline is sent as a duration, because clocks differ. After it, this side goes on without late parties.
    for seat in view.seats:
        if seat.status in (SeatStatus.STOPPING, SeatStatus.DRAINING):
            continue        # the job went on without it, and it was told
        yield MoveSeat(seat, SeatStatus.STOPPING)
        yield stop_command(view, seat, reason, message, patience / 1000, caused_by, exit_code)


def _longest_stop(view: JobView) -> int:
    """Return the longest time in milliseconds that a task of the job needs to stop."""
    return int(1000 * max((task.stop_seconds or 0 for task in view.spec.tasks.values()), default=0))


def stop_command(
    view: JobView, seat: Seat, reason: Reason, message: str, deadline_seconds: float | None, caused_by: str = "",
    exit_code: int | None = None,
) -> Send:  # fmt: skip
    """Return the command to stop.

    After `deadline_seconds`, this side goes on without the party; None: it already has."""
    body = Stop(_end_of(view, reason, message, caused_by, exit_code), deadline_seconds).as_body()
    return send(view, seat, CommandKind.STOP, argument=job_status_for(reason).value, body=body)


def _end_of(view: JobView, reason: Reason, message: str, caused_by: str, exit_code: int | None = None) -> JobEnd:
    """Return the end as it is sent. The cause is the party that first asked for the end, else `caused_by`."""
    code = exit_code if view.job.exit_code is None else view.job.exit_code
    return JobEnd(reason, message, view.job.caused_by or caused_by, code)


def plan_stopping(view: JobView) -> Iterator[Action]:
    job = view.job
    if job.is_force_stop:
        yield from _force_stop(view)
    elif view.has_workers and will_come_back(view):
        return          # the next run begins when this one ends, so no worker of this one may live then
    elif job.stop_by <= view.now:
        late = [seat for seat in view.seats if not _has_drained(view, seat)]
        for seat in late:
            yield MoveSeat(seat, SeatStatus.UNCONFIRMED, "never confirmed that it stopped")
        unconfirmed = tuple(sorted(str(seat.party) for seat in late))
        yield from _finish(view, unconfirmed)
    elif all(_has_drained(view, seat) for seat in view.seats):
        yield from _finish(view, ())


def _force_stop(view: JobView) -> Iterator[Action]:
    job = view.job
    assert job.reason is not None, "a stopping job has a reason"
    yield ForceStop(min(job.stop_by, view.now + view.drain_milliseconds))
    for seat in view.seats:
        if not _has_drained(view, seat):
            yield stop_command(view, seat, job.reason, job.message, 0)


def _has_drained(view: JobView, seat: Seat) -> bool:
    busy = (TaskStatus.RUNNING, TaskStatus.STOPPING)
    return seat.status is SeatStatus.DRAINING and not any(
        task.party_status in busy for task in view.tasks if task.key.party == seat.party
    )


def _finish(view: JobView, unconfirmed: tuple[str, ...]) -> Iterator[Action]:
    job = view.job
    assert job.reason is not None, "a stopping job has a reason"
    for rows in view.rows_by_name.values():
        if not rows[0].is_final:
            yield from settle(view, rows, *last_word(rows, job))
    yield from end(view, job.reason, job.message, unconfirmed)


def last_word(rows: tuple[Task, ...], job: Job) -> tuple[TaskStatus, Reason, str, str, int | None]:
    """Return how a task ends that the end or the restart of its job cut off: status, reason, message, cause, exit code.

    A task gets the message of the job only if it ended because of the job."""
    statuses = [row.party_status for row in rows]
    if all(status in TASK_END for status in statuses):
        outcome = federated_task_status(statuses)
        if outcome in TASK_BROKEN:
            first = failed_row(rows)
            reason = first.reason or Reason.STOPPED
            is_own = RULES[reason].retry_event is not None
            message = first.message if is_own else first.message or job.message
            return task_status_for(reason), reason, message, cause_of(first), first.exit_code
        return outcome, GOOD[outcome], "", "", None
    reason = Reason.STOPPED_BY_USER if job.reason is Reason.STOPPED_BY_USER else Reason.STOPPED
    return TaskStatus.CANCELED, reason, job.message, job.caused_by, None


def end(
    view: JobView, reason: Reason, message: str, unconfirmed: tuple[str, ...] = (), caused_by: str = ""
) -> Iterator[Action]:
    """End the job, and tell every other party, also those that never answered, in case they come back."""
    final = job_status_for(reason)
    if view.job.ready_owner:
        yield EndRound()
    missing = missing_parties(view) if final is JobStatus.SUCCESS else ()
    if missing:
        message = "; ".join(filter(None, [message, f"without {', '.join(missing)}"]))
    is_submit_failed = view.job.status is JobStatus.READY
    body = End(_end_of(view, reason, message, caused_by), is_submit_failed, missing).as_body()
    yield MoveJob(final, reason, message, unconfirmed=unconfirmed, caused_by=caused_by, missing=missing)
    for seat in view.seats:
        if seat.status is SeatStatus.REFUSED:
            continue
        is_own = seat.party == view.job.party
        if str(seat.party) not in unconfirmed:
            yield MoveSeat(seat, SeatStatus.LEFT if is_own else SeatStatus.LEAVING)
        if not is_own:
            yield from before_end(view, seat, final)
            yield send(view, seat, CommandKind.STATUS, argument=final.value, body=body)
            yield from after_end(view, seat)
