"""The policy events of a running job, the policy that each one meets, and when that policy acts.

The events follow from the state. If an event no longer holds (the party answers again, the share has started after
all, the task has a new version), it is gone, and so is its delayed action. A worker that a server killed itself is not
a policy event. `t_job.f_policy_timers` only stores when the policies of the present events are due.

One fact may be two events: a worker fails, and its gang breaks. The worker's event comes first; the gang's event is
only considered if no policy fits the first. If the worker's event is ignored, a policy with `any` does not act on the
gang's event either; only a policy that names `gang_broken` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fate_flow.core.model.job import Seat, Task
from fate_flow.core.model.policy import Policy, PolicyAction, PolicyEvent, first_fit, is_ignored, named
from fate_flow.core.model.reasons import RULES
from fate_flow.core.model.retry import Again, Backoff, RetryEvent, decide_retry
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.gang import failed_row, is_breaking
from fate_flow.core.planning.partial import goes_on, taking_part
from fate_flow.core.planning.view import JobView


@dataclass(frozen=True)
class Occurrence:
    """An event of one version of a task, or of a party while none of its tasks runs."""

    event: PolicyEvent
    task: str = ""
    version: int = 0
    party: Party | None = None       # the party of the share or server
    exit_code: int | None = None
    message: str = ""                # for people
    retry_event: RetryEvent = RetryEvent.ERROR      # what a restart because of it counts as
    is_ignored: bool = False         # its cause is ignored: only a policy that names this event acts on it

    @property
    def key(self) -> str:
        """The key of its timer."""
        where = f" {self.party}" if self.party else ""
        return f"{self.event.value} {self.task} {self.version}{where}"


@dataclass(frozen=True)
class PolicyMatch:
    """An occurrence and the policy that it meets."""

    occurrence: Occurrence
    policy: Policy
    due: int                         # steady time at which the policy acts


def has_policies(spec: JobSpec) -> bool:
    return bool(spec.policies) or any(task.policies for task in spec.tasks.values())


def policy_matches(view: JobView) -> list[PolicyMatch]:
    """Return all present events that meet a policy: first those of tasks, then those of silent parties."""
    if not has_policies(view.spec):
        return []
    found = [one for rows in view.rows_by_name.values() for one in _of_task(view, rows)]
    return [*found, *_of_silent_parties(view)]


def pending_matches(view: JobView) -> list[PolicyMatch]:
    """Return the present events whose policy acts later."""
    job = view.job
    if job.status is not JobStatus.RUNNING or job.reason is not None or job.is_restarting or not job.timers:
        return []
    return [one for one in policy_matches(view) if one.occurrence.key in job.timers]


def awaits_policy(view: JobView, rows: tuple[Task, ...]) -> bool:
    """Return whether a policy will still act: on every fault that broke this task, or on the break of its gang."""
    if not has_policies(view.spec):
        return False
    if rows[0].is_final:
        return any(_of_task(view, rows))
    waits, faults = {one.occurrence.party for one in _of_broken(view, rows)}, own_faults(rows)
    return bool(faults) and (None in waits or waits >= {row.key.party for row in faults})


def has_a_rule(view: JobView, rows: tuple[Task, ...]) -> bool:
    """Return whether the fault of a share whose workers still drain will meet a policy once they have ended."""
    ends = [_worker_ended(row) for row in rows if is_breaking(row)]
    return any(_meets(view, end) or _meets(view, _breaks_gang(view, end, [end])) for end in ends)


def completed(view: JobView, rows: tuple[Task, ...]) -> PolicyMatch | None:
    """Return the policy that the success of a task meets. Call it at the moment of the success only: a success of an
    earlier run is not an event."""
    lead = rows[0]
    occurrence = Occurrence(PolicyEvent.TASK_COMPLETED, lead.key.name, lead.key.version)
    return _meets(view, occurrence)


def own_faults(rows: Iterable[Task]) -> list[Task]:
    """Return the shares that ended badly by themselves, not because a user or a party stopped them."""
    broken = [row for row in rows if row.party_status in TASK_BROKEN]
    return [row for row in broken if row.reason is None or RULES[row.reason].retry_event is not None]


# ------------------------------------------------------------------ the events


def _of_task(view: JobView, rows: tuple[Task, ...]) -> Iterator[PolicyMatch]:
    lead = rows[0]
    if lead.status in (TaskStatus.WAITING, TaskStatus.RUNNING):
        yield from _of_broken(view, rows) or _of_start(view, rows)
    elif lead.status in TASK_BROKEN and own_faults(rows):
        yield from _asked(view, [_task_failed(rows)])
    elif lead.status is TaskStatus.SUCCESS:
        found = completed(view, rows)
        if found is not None and found.occurrence.key in view.job.timers:
            yield found


def _of_broken(view: JobView, rows: tuple[Task, ...]) -> list[PolicyMatch]:
    """Return a match for each broken share; if one of them meets no policy, also that of the broken gang."""
    faults = own_faults(rows)
    found = _asked(view, map(_worker_ended, faults))
    if len(found) == len(faults) or goes_on(view, rows):
        return found
    return [*found, *_asked(view, [_gang_broken(view, rows)])]


def _worker_ended(row: Task) -> Occurrence:
    event = (RULES[row.reason].retry_event if row.reason else None) or RetryEvent.ERROR
    is_interruption = event is RetryEvent.INTERRUPTION
    return Occurrence(
        PolicyEvent.WORKER_INTERRUPTED if is_interruption else PolicyEvent.WORKER_FAILED, row.key.name,
        row.key.version, row.key.party, row.exit_code, _text(row), event,
    )  # fmt: skip


def _gang_broken(view: JobView, rows: tuple[Task, ...]) -> Occurrence:
    ends = [end for end in map(_worker_ended, own_faults(rows)) if _meets(view, end) is None]
    return _breaks_gang(view, _worker_ended(failed_row(rows)), ends)


def _breaks_gang(view: JobView, cause: Occurrence, ends: Sequence[Occurrence]) -> Occurrence:
    """Return the event of the broken gang; `ends`: the ends of its workers that no policy acts on."""
    is_silent = bool(ends) and all(is_ignored(_lists(view, one), one.event, one.exit_code) for one in ends)
    return replace(cause, event=PolicyEvent.GANG_BROKEN, party=None, exit_code=None, is_ignored=is_silent)


def _task_failed(rows: tuple[Task, ...]) -> Occurrence:
    first = failed_row(rows)
    return Occurrence(
        PolicyEvent.TASK_FAILED, first.key.name, first.key.version, message=f"{first.key.party}: {_text(first)}"
    )


def _of_start(view: JobView, rows: tuple[Task, ...]) -> list[PolicyMatch]:
    lead = rows[0]
    if lead.status is not TaskStatus.RUNNING:
        return []
    late = [row for row in taking_part(view, rows) if row.party_status is TaskStatus.WAITING]
    if not late:
        return []
    where = ", ".join(str(row.key.party) for row in late)
    return _asked(view, [
        Occurrence(
            PolicyEvent.START_TIMEOUT, lead.key.name, lead.key.version, message=f"has not begun at {where}",
            retry_event=RetryEvent.TIMEOUT,
        )
    ])  # fmt: skip


def _of_silent_parties(view: JobView) -> list[PolicyMatch]:
    found = [_meets_silence(view, seat) for seat in silent(view)]
    return [one for one in found if one is not None]


def _meets_silence(view: JobView, seat: Seat) -> PolicyMatch | None:
    """Return the policy for a silent party: of a task that runs there, else of the job."""
    running = [row for row in view.tasks if row.key.party == seat.party and row.status is TaskStatus.RUNNING]
    shares = [row for row in running if not row.is_over_here]
    silence = Occurrence(PolicyEvent.PARTY_UNREACHABLE, party=seat.party, message=seat.message)
    tasks = [replace(silence, task=row.key.name, version=row.key.version) for row in shares] or [silence]
    return next((found for found in (_meets(view, one) for one in tasks) if found is not None), None)


def silent(view: JobView) -> list[Seat]:
    """Return the seats whose party has not answered for longer than this initiator allows."""
    return [seat for seat in view.seats if seat.silent_since and seat.status is SeatStatus.STARTED]


def _text(row: Task) -> str:
    return row.message or (row.reason.value if row.reason else row.party_status.value)


# ------------------------------------------------------------------ the policy of an event


def _asked(view: JobView, occurrences: Iterable[Occurrence]) -> list[PolicyMatch]:
    found = (_meets(view, one) for one in occurrences)
    return [one for one in found if one is not None]


def _meets(view: JobView, occurrence: Occurrence) -> PolicyMatch | None:
    policy = _rule(view, occurrence)
    if policy is None or refusal(view, occurrence, policy):
        return None
    return PolicyMatch(occurrence, policy, view.job.timers.get(occurrence.key, view.now + int(policy.delay * 1000)))


def _rule(view: JobView, occurrence: Occurrence) -> Policy | None:
    lists = _lists(view, occurrence)
    if occurrence.is_ignored:
        lists = tuple(map(named, lists))
    return first_fit(lists, occurrence.event, occurrence.exit_code)


def _lists(view: JobView, occurrence: Occurrence) -> tuple[Sequence[Policy], ...]:
    """Return the component's own policies, then those of the job."""
    return view.spec.tasks[occurrence.task].policies if occurrence.task else (), view.spec.policies


# ------------------------------------------------------------------ the limit of restarts


def again(view: JobView, lead: Task, event: RetryEvent) -> Again:
    """Decide whether a policy may restart a task, at once, for any event, within the limits of its retry rule.

    If the job has no retry rule, the defaults of `RetryRule` apply."""
    rule = view.spec.tasks[lead.key.name].retry.for_policies
    any_event = replace(rule, on_events=frozenset(RetryEvent), backoff=_AT_ONCE)
    return decide_retry(any_event, lead.tries, event, view.now, 0.5)


_AT_ONCE = Backoff(0, 1, 0, 0)


def refusal(view: JobView, occurrence: Occurrence, policy: Policy) -> str:
    """Return why this policy no longer acts on the event; empty if it does."""
    if policy.action is PolicyAction.RESTART_JOB:
        used, most = view.job.restarts, view.spec.retry.for_policies.retries
        if used < most:
            return ""
        return f"restart {used} of {most} was the last" if most else "no restart is allowed"
    if policy.action is PolicyAction.RESTART_TASK:
        lead = next(row for row in view.tasks if row.key.name == occurrence.task)
        return again(view, lead, occurrence.retry_event).refused
    return ""


def refusals(view: JobView, rows: tuple[Task, ...]) -> list[str]:
    """Return texts for people that say why the policies of this broken task no longer act on it."""
    if not has_policies(view.spec) or not own_faults(rows):
        return []
    occurrences = [*map(_worker_ended, own_faults(rows)), _gang_broken(view, rows), _task_failed(rows)]
    met = [(one, _rule(view, one)) for one in occurrences]
    message = [(policy.action.value, refusal(view, one, policy)) for one, policy in met if policy is not None]
    return list(dict.fromkeys(f"{action}: {why}" for action, why in message if why))
