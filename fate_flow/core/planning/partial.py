"""Tasks that can do without some of their parties: which parties are missing, and whether the others are enough.

A party is missing from a task in three cases: its share ended badly and the task goes on without it; its share of an
upstream task has no output; or the party itself was given up. `min_available` is the number of parties of a role that
are enough; without it all are needed. A missing party stays missing for the rest of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fate_flow.core.model.job import Job, Seat, Task
from fate_flow.core.model.policy import PolicyAction
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.outcome import federated_task_status
from fate_flow.core.planning.view import JobView

_DONE = frozenset({TaskStatus.SUCCESS, TaskStatus.PASS})
_COMPLETED = PolicyAction.COMPLETE_TASK.value
_STOPPED = frozenset({SeatStatus.STOPPING, SeatStatus.DRAINING})

Rows = tuple[Task, ...]


def has_minimum(spec: JobSpec) -> bool:
    """Return whether some task can do without a party."""
    return any(task.min_available for task in spec.tasks.values())


def given_up(view: JobView) -> list[Seat]:
    """Return the seats that a running job has stopped and goes on without."""
    return [seat for seat in view.seats if is_given_up(view.job, seat)]


def is_given_up(job: Job, seat: Seat) -> bool:
    """Return whether a running job goes on without this party. A job that ends stops all seats; that does not count."""
    return job.status is JobStatus.RUNNING and seat.status in _STOPPED


def absent(view: JobView, name: str) -> frozenset[Party]:
    """Return the parties that take no part in a task: they were given up, or lack the output of an upstream task."""
    if not view.spec.may_miss_parties:
        return frozenset()
    task, by_name = view.spec.tasks[name], view.rows_by_name
    gone = {seat.party for seat in given_up(view)}
    for upstream in task.producers:
        rows = by_name.get(upstream, ())
        if rows and rows[0].status is TaskStatus.SUCCESS:
            gone.update(row.key.party for row in rows if row.party_status not in _DONE)
    return frozenset(gone.intersection(task.parties))


def taking_part(view: JobView, rows: Rows) -> Rows:
    """Return the shares of a task without those of absent parties."""
    gone = absent(view, rows[0].key.name)
    return tuple(row for row in rows if row.key.party not in gone) if gone else rows


def remaining(view: JobView, rows: Rows) -> Rows:
    """Return the shares that count for the status of a task: without broken ones, if it goes on without them."""
    shares = taking_part(view, rows)
    sound = tuple(row for row in shares if row.party_status not in TASK_BROKEN)
    return sound if len(sound) < len(shares) and goes_on(view, rows) else shares


def outcome_of(view: JobView, rows: Rows) -> TaskStatus:
    """Return the federated status from the shares that count; if no party can take part, the status stays."""
    if all(row.party_status is TaskStatus.WAITING for row in rows):
        return rows[0].status        # a shortcut for most tasks of a long job
    shares = remaining(view, rows)
    return federated_task_status([row.party_status for row in shares]) if shares else rows[0].status


def goes_on(view: JobView, rows: Rows) -> bool:
    """Return whether the task goes on without its broken shares.

    It does if the other shares are enough, and if they do not wait for messages of the broken roles."""
    name = rows[0].key.name
    broken = {row.key.party for row in taking_part(view, rows) if row.party_status in TASK_BROKEN}
    may_break = all(party.role in view.spec.tasks[name].goes_on_without for party in broken)
    return may_break and not shortage(view, name, broken | absent(view, name))


def shortage(view: JobView, name: str, missing: Collection[Party]) -> str:
    """Return text that says why a task cannot do without these parties; empty if it can."""
    return too_few(view.spec.tasks[name], missing)


def too_few(task: TaskSpec, missing: Collection[Party]) -> str:
    """Do the same as `shortage` for a task of a job document."""
    size, gone = Counter(party.role for party in task.parties), Counter(party.role for party in missing)
    for role, count in sorted(gone.items()):
        needed, left = task.min_available.get(role, size[role]), size[role] - count
        if left < needed:
            who = ", ".join(str(party) for party in sorted(missing) if party.role == role)
            return f"{task.name} needs {needed} of its parties of role {role}, {left} are left: without {who}"
    return ""


def can_lose(view: JobView, party: Party) -> bool:
    """Return whether the job can go on without a party that does not answer: each unfinished task must be able to."""
    if party == view.job.party or not has_minimum(view.spec):
        return False
    open_tasks = [rows for rows in view.rows_by_name.values() if not rows[0].is_final]
    return all(_can_lose(view, rows, party) for rows in open_tasks if any(row.key.party == party for row in rows))


def _can_lose(view: JobView, rows: Rows, party: Party) -> bool:
    """Return the same for one task. One that is being stopped counts like one that has not begun: its next version
    will be started without the party."""
    lead = rows[0]
    has_begun = lead.status is TaskStatus.RUNNING
    shares = taking_part(view, rows) if has_begun else ()
    broken = {row.key.party for row in shares if row.party_status in TASK_BROKEN}
    may_break = not has_begun or party.role in view.spec.tasks[lead.key.name].goes_on_without
    return may_break and not shortage(view, lead.key.name, {party} | broken | absent(view, lead.key.name))


def missing_parties(view: JobView) -> tuple[str, ...]:
    """Return the parties without which a job succeeded: given up, or without a good share in a task that succeeded.

    In a task that a policy completed, no party counts as missing: the job itself asked for that."""
    if not view.spec.may_miss_parties:
        return ()
    gone = {seat.party for seat in given_up(view)}
    done = [row for row in view.tasks if row.status is TaskStatus.SUCCESS and row.policy != _COMPLETED]
    gone.update(row.key.party for row in done if row.party_status not in _DONE)
    return tuple(str(party) for party in sorted(gone))
