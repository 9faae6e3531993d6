"""Plans for the tasks of a running job: start them when their inputs are ready, retry broken ones, end them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fate_flow.core.model.dag import may_start
from fate_flow.core.model.job import Command, CommandKind, Task
from fate_flow.core.model.policy import RESTARTS, PolicyAction
from fate_flow.core.model.reasons import RULES, Reason, task_status_for
from fate_flow.core.model.retry import Again, RetryEvent, decide_retry, wait_for_place
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_BROKEN, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import (
    Action,
    Arm,
    EndRound,
    LetBegin,
    LoseShares,
    MoveSeat,
    NewVersion,
    Progress,
    RequeueJob,
    Send,
    Why,
)
from fate_flow.core.planning.gang import GOOD, cause_of, failed_row, is_breaking, let_begin, move_task, settle
from fate_flow.core.planning.outcome import federated_task_status
from fate_flow.core.planning.partial import absent, given_up, outcome_of, shortage, taking_part
from fate_flow.core.planning.plain_v1 import canceled_text, task_row
from fate_flow.core.planning.plan_round import wait_again
from fate_flow.core.planning.plan_stop import end, stop
from fate_flow.core.planning.policy_events import again as policy_allows
from fate_flow.core.planning.policy_events import awaits_policy, completed, has_a_rule, refusals
from fate_flow.core.planning.view import JobView, leads, others, plain_v1_parties, send, task_command
from fate_flow.core.wire.v1.job_bodies import progress_body
from fate_flow.core.wire.v1.task_bodies import GATHERED_BODY, TaskCreate, TaskStop, start_body


def plan_running(view: JobView) -> Iterator[Action]:
    job = view.job
    if job.reason is not None:
        yield from stop(view, job.reason, job.message)
        return
    if job.ready_owner:
        yield EndRound()
        view = replace(view, job=replace(job, ready_owner=""))      # if all tasks were kept, the job ends at once
    moved = tuple(_plan_outcomes(view))
    yield from moved
    if moved:
        return          # one step at a time: the next view shows what follows
    broken = (rows for rows in view.rows_by_name.values() if rows[0].status in TASK_BROKEN)
    hopeless = next((rows for rows in broken if not awaits_policy(view, rows)), None)
    if hopeless:
        yield from _break(view, hopeless)
        return
    yield from _progress(view)
    yield from _let_begin(view)
    statuses = {task.key.name: task.status for task in leads(view)}
    if all(status in GOOD for status in statuses.values()):
        yield from _end_well(view)
        return
    ready = may_start(view.spec, statuses)
    due = _next_due(view, statuses, ready)
    if due > view.now + view.long_backoff_milliseconds and _may_rest(view):
        yield from _requeue(view, due)
    else:
        yield from _start_tasks(view, statuses, ready)


def _let_begin(view: JobView) -> Iterator[Action]:
    """Let the shares of a task begin whose workers wait for each other, once all of them are there."""
    for rows in view.rows_by_name.values():
        if rows[0].status is TaskStatus.RUNNING:
            for row in let_begin(taking_part(view, rows)):
                yield LetBegin(row.key, task_command(view, row, CommandKind.TASK_START, more=GATHERED_BODY))


def _end_well(view: JobView) -> Iterator[Action]:
    """End the job with success. Do not wait for given-up parties; name those that have not confirmed their stop.

    The message of the job names the policies that completed a task, because not all its shares succeeded."""
    silent = [seat for seat in given_up(view) if seat.status is SeatStatus.STOPPING]
    for seat in silent:
        yield MoveSeat(seat, SeatStatus.UNCONFIRMED, seat.message)
    policy_matches = [
        lead.federated_message for lead in leads(view) if lead.federated_reason is Reason.COMPLETED_BY_POLICY
    ]
    yield from end(view, Reason.DONE, "; ".join(policy_matches), tuple(sorted(str(seat.party) for seat in silent)))


def _plan_outcomes(view: JobView) -> Iterator[Action]:
    for rows in view.rows_by_name.values():
        lead = rows[0]
        if lead.is_final:
            continue
        outcome = outcome_of(view, rows)
        if lead.status is TaskStatus.STOPPING:
            yield from _drain_task(view, rows)
        elif (outcome in TASK_BROKEN and not awaits_policy(view, rows)) or _breaks_at_once(view, rows):
            yield from _break_task(view, rows)
        elif outcome in GOOD:
            yield from _succeed(view, rows, outcome)


def _breaks_at_once(view: JobView, rows: tuple[Task, ...]) -> bool:
    """Return whether a task breaks before its broken share has drained, so that the other shares stop at once.

    If a policy or a minimum may decide otherwise, the decision waits until the share has ended."""
    may_go_on = view.spec.tasks[rows[0].key.name].min_available or has_a_rule(view, rows)
    return not may_go_on and any(map(is_breaking, rows))


def _succeed(view: JobView, rows: tuple[Task, ...], outcome: TaskStatus) -> Iterator[Action]:
    yield from settle(view, rows, outcome, GOOD[outcome], "")
    follows = completed(view, rows) if outcome is TaskStatus.SUCCESS else None
    if follows is not None:
        yield Arm(follows.occurrence.key, follows.due)


def _break_task(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    """Stop all shares of a task of which one broke, because a task is a gang."""
    first = failed_row(rows)
    yield from stop_gang(view, rows, first.reason, first.message, caused_by=cause_of(first))


def stop_gang(
    view: JobView, rows: tuple[Task, ...], reason: Reason | None, message: str, policy: PolicyAction | None = None,
    caused_by: str = "",
) -> Iterator[Action]:  # fmt: skip
    """Stop all shares of a task that have not ended. `policy` decides what follows then; None: the retry rule does."""
    action = policy.value if policy else ""
    is_again = begins_again(view, rows, action)
    yield replace(move_task(rows, TaskStatus.STOPPING, reason, message, action, caused_by), begins_again=is_again)
    stop_task = TaskStop(caused_by, is_again).as_body()
    for row in rows:
        if not row.is_over_here:
            yield Send(task_command(view, row, CommandKind.TASK_STOP, TaskStatus.CANCELED.value, stop_task))


def begins_again(view: JobView, rows: tuple[Task, ...], policy: str) -> bool:
    """Return whether a task that is stopped by this policy (empty: by none) will start again.

    Another share may still end in a way that rules it out."""
    if policy:
        return policy in RESTARTS
    if not any(row.party_status in TASK_BROKEN or is_breaking(row) for row in rows):
        return False
    found = retry_of(view, rows[0], failed_row(rows).reason or Reason.WORKER_ERROR)
    return found is not None and not found.refused


def _drain_task(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    shares = taking_part(view, rows)
    if not all(row.is_over_here for row in shares):
        return
    lead, outcome = rows[0], federated_task_status([row.party_status for row in shares])
    if outcome in GOOD:
        yield from _succeed(view, rows, outcome)
        return
    if lead.policy == PolicyAction.COMPLETE_TASK.value:
        text, cause = lead.federated_message, lead.federated_caused_by        # of the policy that stopped it
        yield from settle(view, rows, TaskStatus.SUCCESS, Reason.COMPLETED_BY_POLICY, text, cause)
        return
    first = failed_row(rows)
    reason = first.reason or Reason.WORKER_ERROR
    yield from settle(view, rows, task_status_for(reason), reason, first.message, cause_of(first), first.exit_code)
    found = retry_of(view, lead, reason)
    if found is not None and not found.refused:
        yield from again(view, rows, found, Why(reason, first.message, cause_of(first)))


def retry_of(view: JobView, lead: Task, reason: Reason | None) -> Again | None:
    """Return the decision of the retry rule after such an end; None if there is no rule, or none applies."""
    event, rule = RULES[reason].retry_event if reason else None, view.spec.tasks[lead.key.name].retry
    if lead.policy == PolicyAction.RESTART_TASK.value:
        return policy_allows(view, lead, event or RetryEvent.TIMEOUT)
    if event is RetryEvent.NO_CAPACITY:
        # Longer than `long_backoff`, so that the job releases its cores meanwhile.
        return wait_for_place(rule, lead.tries, 2 * view.long_backoff_milliseconds / 1000)
    if event is None or not rule.is_said:
        return None
    chance = int(view.fresh_id[:8], 16) / 0xFFFFFFFF
    return decide_retry(rule, lead.tries, event, view.now, chance)


def again(view: JobView, rows: tuple[Task, ...], again: Again, why: Why) -> Iterator[Action]:
    """Start the task again at all parties, as a new version."""
    lead, rule = rows[0], view.spec.tasks[rows[0].key.name].retry
    version, left = lead.key.version + 1, max(0, rule.retries - again.tries.errors)
    retry_at = view.now + int(again.seconds * 1000)
    yield NewVersion(lead.key.name, version, view.fresh_id, left, retry_at, again.tries, why)
    for seat in given_up(view):
        yield LoseShares(seat.party, seat.message)      # given-up parties take no part in the new version either
    plain_v1 = plain_v1_parties(view)
    for row in rows:
        if row.key.party != view.job.party:
            key = row.key
            create = TaskCreate(view.fresh_id, left, why.reason, why.message, why.caused_by)
            is_plain_v1 = key.party in plain_v1
            body = create.as_plain_v1(task_row(view, key, version)) if is_plain_v1 else create.as_body()
            yield Send(
                Command(CommandKind.TASK_CREATE, key.job_id, key.party, view.job.run, key.name, version, body=body)
            )


def _break(view: JobView, rows: tuple[Task, ...]) -> Iterator[Action]:
    """Stop the job after a task that ended badly and is not tried again, with a message that names the party."""
    first, status = failed_row(rows), rows[0].status
    reason = Reason.TASK_TIMEOUT if status is TaskStatus.TIMEOUT else Reason.TASK_FAILED
    if first.reason in _ALSO_OF_THE_JOB:
        reason = first.reason
    party = str(first.key.party)
    canceled = canceled_text(view, rows[0], first)
    if canceled:
        yield from stop(view, Reason.STOPPED_BY_USER, canceled, cause_of(first))
        return
    why = first.message or (first.reason.value if first.reason else first.party_status.value)
    found = retry_of(view, rows[0], first.reason)
    refused = [found.refused] if found is not None and found.refused else []
    for text in dict.fromkeys([*refused, *refusals(view, rows)]):
        why = f"{why} ({text})"
    text = f"{first.key.name} {_VERBS[status]} on {party}: {why}"
    yield from stop(view, reason, text, cause_of(first), first.exit_code)


_ALSO_OF_THE_JOB = (Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST)
"""Reasons of a share that become the reason of its job, because no task failed."""


_VERBS = {TaskStatus.FAILED: "failed", TaskStatus.TIMEOUT: "ran out of time", TaskStatus.CANCELED: "was canceled"}


def _progress(view: JobView) -> Iterator[Action]:
    found = leads(view)
    percent = 100 * sum(task.is_final for task in found) // len(found)
    if percent > view.job.progress:
        yield Progress(percent)
        for seat in others(view):
            yield send(view, seat, CommandKind.UPDATE, body=progress_body(percent))


def _start_tasks(view: JobView, statuses: Mapping[str, TaskStatus], ready: Sequence[str]) -> Iterator[Action]:
    """Start as many tasks as the reservation has capacity for: `task_parallelism` tasks at a time."""
    capacity = view.spec.common.task_parallelism - sum(
        status in (TaskStatus.RUNNING, TaskStatus.STOPPING) for status in statuses.values()
    )
    by_name = view.rows_by_name
    for name in ready:
        rows = by_name[name]
        if capacity <= 0:
            return
        if rows[0].retry_at > view.now:
            continue
        capacity -= 1
        missing = absent(view, name)
        too_few = shortage(view, name, missing)
        if too_few:
            yield from stop(view, Reason.TASK_FAILED, too_few, caused_by=str(min(missing)))
            return
        yield move_task(rows, TaskStatus.RUNNING)
        yield from _start_shares(view, rows, missing)


def _start_shares(view: JobView, rows: tuple[Task, ...], missing: frozenset[Party]) -> Iterator[Action]:
    """Start the shares, and tell each party which ones are missing, so that no worker waits for their messages."""
    plain_v1, without = plain_v1_parties(view), start_body(missing)
    for row in rows:
        if row.key.party in missing:
            yield from _pass_over(view, row)
            continue
        if row.key.party in plain_v1:
            yield Send(task_command(view, row, CommandKind.TASK_STATUS, argument=TaskStatus.RUNNING.value))
        yield Send(task_command(view, row, CommandKind.TASK_START, more=without))


def _pass_over(view: JobView, row: Task) -> Iterator[Action]:
    if not row.is_over_here:
        status, body = task_status_for(Reason.PARTY_MISSING), TaskStop(is_passed_over=True).as_body()
        yield Send(task_command(view, row, CommandKind.TASK_STOP, status.value, body))


def _next_due(view: JobView, statuses: Mapping[str, TaskStatus], ready: Sequence[str]) -> int:
    """Return the steady time at which the next task may start; 0: now, or when a running task has ended."""
    if any(status in (TaskStatus.RUNNING, TaskStatus.STOPPING) for status in statuses.values()):
        return 0
    by_name = view.rows_by_name
    return min((by_name[name][0].retry_at for name in ready), default=0)


def _may_rest(view: JobView) -> bool:
    """Return whether the job can go back to `waiting` until its next attempt.

    It cannot with plain v1 parties, which have no move back from running, nor with given-up ones. It cannot with a
    pending policy either: policies act on running jobs only."""
    is_whole = all(seat.status is SeatStatus.STARTED for seat in view.seats)
    return is_whole and not plain_v1_parties(view) and not view.job.timers


def _requeue(view: JobView, due: int) -> Iterator[Action]:
    """Release the cores at all parties; the job asks for them again when its next attempt is due."""
    names = ", ".join(task.key.name for task in leads(view) if task.retry_at == due)
    yield RequeueJob(f"retry_backoff: {names} begins again", due)
    yield from wait_again(view, view.seats)
