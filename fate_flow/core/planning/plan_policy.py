"""Plans for a running job with policies: which of them acts now, and what it does.

Policies come after a user's request, and before any other decision about the tasks. Their actions use the same steps
as a job without policies: a task is stopped at all parties and starts again as a new version, or the job stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fate_flow.core.model.job import Task
from fate_flow.core.model.policy import PolicyAction, PolicyEvent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import UNTRIED, Again
from fate_flow.core.model.status import SeatStatus, TaskStatus
from fate_flow.core.planning.actions import Action, Arm, Disarm, LoseShares, MoveSeat, Restarted, RestartJob, Why
from fate_flow.core.planning.gang import failed_row, settle
from fate_flow.core.planning.partial import can_lose, taking_part
from fate_flow.core.planning.plan_stop import last_word, stop, stop_command
from fate_flow.core.planning.plan_tasks import again, plan_running, stop_gang
from fate_flow.core.planning.policy_events import Occurrence, PolicyMatch, own_faults, policy_matches, silent
from fate_flow.core.planning.view import JobView


def plan_matches(view: JobView) -> Iterator[Action]:
    """Plan a running job: first its policies, unless a user has asked for its end."""
    job, most = view.job, view.spec.max_failed_workers
    if job.reason is None and most is not None and view.failed_workers > most:
        count = "1 worker" if view.failed_workers == 1 else f"{view.failed_workers} workers"
        text = f"{count} of its tasks failed, max_failed_workers of the job is {most}"
        yield from stop(view, Reason.TASK_FAILED, text)
        return
    if job.reason is None and not job.ready_owner:
        decided = tuple(_plan_restart(view) if job.is_restarting else _plan_rules(view))
        yield from decided
        if decided or job.is_restarting:
            return
    yield from plan_running(view)


def _plan_rules(view: JobView) -> Iterator[Action]:
    found = policy_matches(view)
    due = [one for one in found if one.due <= view.now]
    if due:
        yield from _act(view, min(due, key=lambda one: one.due))
        return
    yield from _set_timers(view, found)
    silences = [one.occurrence for one in found if one.occurrence.event is PolicyEvent.PARTY_UNREACHABLE]
    yield from _stop_for_silence(view, silences)


def _set_timers(view: JobView, found: list[PolicyMatch]) -> Iterator[Action]:
    known, standing = view.job.timers, {one.occurrence.key: one.due for one in found}
    for key in known:
        if key not in standing:
            yield Disarm(key)
    for key, due in standing.items():
        if key not in known:
            yield Arm(key, due)


def _stop_for_silence(view: JobView, matches: list[Occurrence]) -> Iterator[Action]:
    """Apply the default for a party that is silent for too long: go on without it if possible, else stop the job."""
    known = {one.party for one in matches}
    lost = next((seat for seat in silent(view) if seat.party not in known), None)
    if lost is not None and can_lose(view, lost.party):
        yield MoveSeat(lost, SeatStatus.STOPPING, lost.message)
        yield LoseShares(lost.party, lost.message)
        yield stop_command(view, lost, Reason.PARTY_UNREACHABLE, lost.message, None, str(lost.party))
    elif lost is not None:
        yield from stop(view, Reason.PARTY_UNREACHABLE, lost.message, caused_by=str(lost.party))


_REASONS: Mapping[PolicyAction, Reason] = {
    PolicyAction.FAIL_JOB: Reason.FAILED_BY_POLICY,
    PolicyAction.CANCEL_JOB: Reason.STOPPED_BY_POLICY,
    PolicyAction.COMPLETE_JOB: Reason.COMPLETED_BY_POLICY,
}


def _act(view: JobView, one: PolicyMatch) -> Iterator[Action]:
    action, what = one.policy.action, one.occurrence
    if action is PolicyAction.RESTART_JOB:
        yield RestartJob(_text(action, what), _cause(view, what))
    elif action in (PolicyAction.RESTART_TASK, PolicyAction.COMPLETE_TASK):
        rows = view.rows_by_name[what.task]
        reason = failed_row(rows).reason if own_faults(rows) else None
        yield from stop_gang(view, rows, reason, _text(action, what), action, _cause(view, what))
    else:
        yield from stop(view, _REASONS[action], _text(action, what), _cause(view, what), _exit_code(view, one))


def _cause(view: JobView, what: Occurrence) -> str:
    """Return the party of the event; for an event of a whole task, the party that is the cause."""
    return str(what.party) if what.party else _party_of_failed_row(view.rows_by_name.get(what.task, ()))


def _exit_code(view: JobView, one: PolicyMatch) -> int | None:
    """Return the exit code of the worker that is the cause if the job ends badly; None if it succeeds."""
    rows = view.rows_by_name.get(one.occurrence.task, ())
    if one.policy.action is PolicyAction.COMPLETE_JOB or not own_faults(rows):
        return None
    code = one.occurrence.exit_code
    return failed_row(rows).exit_code if code is None else code


def _party_of_failed_row(rows: tuple[Task, ...]) -> str:
    """Return the party whose share broke, else one whose share has not begun; empty if there is none."""
    if own_faults(rows):
        return str(failed_row(rows).key.party)
    begun = [row for row in rows if row.status is TaskStatus.RUNNING]
    late = [row.key.party for row in begun if row.party_status is TaskStatus.WAITING]
    return str(min(late)) if late else ""


def _text(action: PolicyAction, what: Occurrence) -> str:
    where = f" on {what.party}" if what.party else ""
    task = f" of {what.task}" if what.task else ""
    why = f": {what.message}" if what.message else ""
    return f"{action.value} after {what.event.value}{task}{where}{why}"


def _plan_restart(view: JobView) -> Iterator[Action]:
    """Stop the tasks that run, everywhere; when nothing runs any more, start all tasks again that had begun."""
    lost = tuple(_stop_for_silence(view, []))
    if lost:
        yield from lost
        return
    tasks = view.rows_by_name.values()
    ending = tuple(action for rows in tasks for action in _end_for_restart(view, rows))
    yield from ending
    if ending or any(rows[0].status in (TaskStatus.RUNNING, TaskStatus.STOPPING) for rows in tasks):
        return
    yield Restarted()
    why = Why(message=_ALL_AGAIN, caused_by=_party_of_failed_row(view.tasks))
    for rows in tasks:
        if rows[0].is_final:
            yield from again(view, rows, Again(UNTRIED), why)


_ALL_AGAIN = "all tasks of the job begin again"


def _end_for_restart(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    lead = rows[0]
    if lead.status is TaskStatus.RUNNING:
        yield from stop_gang(view, rows, None, _ALL_AGAIN, PolicyAction.RESTART_JOB, _party_of_failed_row(view.tasks))
    elif lead.status is TaskStatus.STOPPING and all(row.is_over_here for row in taking_part(view, rows)):
        yield from settle(view, rows, *last_word(taking_part(view, rows), view.job))
