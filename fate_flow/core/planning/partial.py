"""A task that can do without some of its parties: who is missing from it, and whether the others are enough.

A party is missing from a task when its share ended badly and the task goes on without it, when its share of something
that the task needs is not there, or when the party itself was given up. `min_available` says how many of a role are
enough; without it all are needed. A party that is missing stays so for the rest of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fate_flow.core.model.job import Job, Seat, Task
from fate_flow.core.model.policy import PolicyAction
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.outcome import federated_task_status
from fate_flow.core.planning.view import JobView, rows_by_name

_DONE = frozenset({TaskStatus.SUCCESS, TaskStatus.PASS})
_COMPLETED = PolicyAction.COMPLETE_TASK.value
_STOPPED = frozenset({SeatStatus.STOPPING, SeatStatus.DRAINING})

Rows = tuple[Task, ...]


def has_minimum(spec: JobSpec) -> bool:
    """Whether some task can do without a party."""
    return any(task.min_available for task in spec.tasks.values())


def given_up(view: JobView) -> list[Seat]:
    """Seats that a running job has stopped and goes on without; one that ends stops all of them."""
    return [seat for seat in view.seats if is_given_up(view.job, seat)]


def is_given_up(job: Job, seat: Seat) -> bool:
    """Whether a job goes on without this party, whatever it may still say, or not say."""
    return job.status is JobStatus.RUNNING and seat.status in _STOPPED


def absent(view: JobView, name: str) -> frozenset[Party]:
    """Who takes no part in a task: it was given up, or what the task needs is not there at that party."""
    if not _may_miss(view.spec):
        return frozenset()
    task, by_name = view.spec.tasks[name], rows_by_name(view)
    gone = {seat.party for seat in given_up(view)}
    for upstream in task.producers:
        rows = by_name.get(upstream, ())
        if rows and rows[0].status is TaskStatus.SUCCESS:
            gone.update(row.key.party for row in rows if row.party_status not in _DONE)
    return frozenset(gone.intersection(task.parties))


def taking_part(view: JobView, rows: Rows) -> Rows:
    """The shares of a task but for those of absent parties."""
    gone = absent(view, rows[0].key.name)
    return tuple(row for row in rows if row.key.party not in gone) if gone else rows


def remaining(view: JobView, rows: Rows) -> Rows:
    """The shares that say how a task stands: without those that ended badly, where it goes on without them."""
    shares = taking_part(view, rows)
    sound = tuple(row for row in shares if row.party_status not in TASK_BROKEN)
    return sound if len(sound) < len(shares) and goes_on(view, rows) else shares


def outcome_of(view: JobView, rows: Rows) -> TaskStatus:
    """How a task stands, from the shares that count; one that nobody can take part in stands where it stood."""
    if all(row.party_status is TaskStatus.WAITING for row in rows):
        return rows[0].status        # most tasks of a long job: nothing has to be asked about them
    shares = remaining(view, rows)
    return federated_task_status([row.party_status for row in shares]) if shares else rows[0].status


def goes_on(view: JobView, rows: Rows) -> bool:
    """Whether the shares that are not broken are enough, and the task is one that others do not wait in for ever."""
    name = rows[0].key.name
    broken = {row.key.party for row in taking_part(view, rows) if row.party_status in TASK_BROKEN}
    may_break = all(party.role in view.spec.tasks[name].goes_on_without for party in broken)
    return may_break and not shortage(view, name, broken | absent(view, name))


def shortage(view: JobView, name: str, missing: Collection[Party]) -> str:
    """Why a task cannot do without these parties, as text; empty: it can."""
    return too_few(view.spec.tasks[name], missing)


def too_few(task: TaskSpec, missing: Collection[Party]) -> str:
    """As `shortage`, of one task of a job document."""
    size, gone = Counter(party.role for party in task.parties), Counter(party.role for party in missing)
    for role, count in sorted(gone.items()):
        needed, left = task.min_available.get(role, size[role]), size[role] - count
        if left < needed:
            who = ", ".join(str(party) for party in sorted(missing) if party.role == role)
            return f"{task.name} needs {needed} of its parties of role {role}, {left} are left: without {who}"
    return ""


def can_lose(view: JobView, party: Party) -> bool:
    """Whether the job can go on without a party that does not answer: each task that is not over can."""
    if party == view.job.party or not has_minimum(view.spec):
        return False
    open_tasks = [rows for rows in rows_by_name(view).values() if not rows[0].is_final]
    return all(_can_lose(view, rows, party) for rows in open_tasks if any(row.key.party == party for row in rows))


def _can_lose(view: JobView, rows: Rows, party: Party) -> bool:
    """A task that is being stopped needs nobody: only its next version does, which has not begun at any party."""
    lead = rows[0]
    has_begun = lead.status is TaskStatus.RUNNING
    shares = taking_part(view, rows) if has_begun else ()
    broken = {row.key.party for row in shares if row.party_status in TASK_BROKEN}
    may_break = not has_begun or party.role in view.spec.tasks[lead.key.name].goes_on_without
    return may_break and not shortage(view, lead.key.name, {party} | broken | absent(view, lead.key.name))


def missing_parties(view: JobView) -> tuple[str, ...]:
    """Those that a job succeeded without: given up, or without a good share in a task that succeeded.

    Nobody is missing from a task that a rule has completed: that was the request of whoever submitted the job."""
    if not _may_miss(view.spec):
        return ()
    gone = {seat.party for seat in given_up(view)}
    done = [row for row in view.tasks if row.status is TaskStatus.SUCCESS and row.policy != _COMPLETED]
    gone.update(row.key.party for row in done if row.party_status not in _DONE)
    return tuple(str(party) for party in sorted(gone))


def _may_miss(spec: JobSpec) -> bool:
    """Only a minimum or a rule that completes a task leaves anybody behind."""
    return bool(spec.policies) or any(task.min_available or task.policies for task in spec.tasks.values())
