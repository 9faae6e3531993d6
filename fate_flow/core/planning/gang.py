"""A task over all its parties: which share broke it, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fate_flow.core.model.job import CommandKind, Task
from fate_flow.core.model.reasons import RULES, Reason, task_status_for
from fate_flow.core.model.status import TASK_BROKEN, TaskStatus
from fate_flow.core.planning.actions import Action, MoveTask, Send
from fate_flow.core.planning.outcome import federated_task_status
from fate_flow.core.planning.view import JobView, plain_v1_parties, task_command
from fate_flow.core.wire.v1.endings import TaskEnd

GATHERED = "waits for the others of its gang"
"""What a share waits for whose own workers have all arrived, on a cluster. The coordinator knows it by this text."""
BEGINS = "begins with its gang"
"""What such a share waits for once the coordinator lets it begin, until the first of its workers runs."""

_NO_FAULT = (Reason.STOPPED, Reason.PARTY_MISSING, Reason.PARTY_UNREACHABLE)
GOOD = {TaskStatus.SUCCESS: Reason.DONE, TaskStatus.PASS: Reason.NOT_NEEDED}


def failed_row(rows: tuple[Task, ...]) -> Task:
    """Return the row that gives status and reason of the broken task: a share that broke by itself, if there is one.

    A share that was stopped because of another one counts only if there is no such share. The worst status wins, then
    a reason without retry before one with a retry. Among the remaining rows the earliest end is taken; this is only
    for people, because the clocks of parties differ."""
    broken = [row for row in rows if row.party_status in TASK_BROKEN or is_breaking(row)]
    own_fault = [row for row in broken if row.reason not in _NO_FAULT] or broken
    worst = federated_task_status([_end_of(row) for row in own_fault])
    worst_rows = [row for row in own_fault if _end_of(row) is worst]
    final = [row for row in worst_rows if row.reason is not None and RULES[row.reason].retry_event is None]
    return min(final or worst_rows, key=lambda row: (row.end_time, row.key.party))


def is_breaking(row: Task) -> bool:
    """Return whether the share ends badly by itself while its workers still drain. The others need not wait."""
    return row.party_status is TaskStatus.STOPPING and row.reason is not None and row.reason not in _NO_FAULT


def _end_of(row: Task) -> TaskStatus:
    """Return the status with which the share has ended, or will end."""
    if row.party_status is TaskStatus.STOPPING and row.reason is not None:
        return task_status_for(row.reason)
    return row.party_status


def cause_of(row: Task) -> str:
    """Return the party that is the cause of how this share ended or ends."""
    return row.caused_by or str(row.key.party)


def settle(
    view: JobView, rows: tuple[Task, ...], outcome: TaskStatus, reason: Reason, message: str, caused_by: str = "",
    exit_code: int | None = None,
) -> Iterator[Action]:  # fmt: skip
    """End a task with a federated status, and tell every other party the status and the reason.

    An empty `caused_by` means the initiator. `exit_code` is that of the worker that is the cause."""
    caused_by = caused_by or str(view.job.party)
    yield replace(move_task(rows, outcome, reason, message, caused_by=caused_by), exit_code=exit_code)
    end = TaskEnd(reason, message, caused_by, exit_code)
    plain_v1 = plain_v1_parties(view)
    for row in rows:
        if row.key.party != view.job.party:
            more = end.as_plain_v1() if row.key.party in plain_v1 else end.as_body()
            yield Send(task_command(view, row, CommandKind.TASK_STATUS, outcome.value, more))


def move_task(
    rows: tuple[Task, ...], new: TaskStatus, reason: Reason | None = None, message: str = "", policy: str = "",
    caused_by: str = "",
) -> MoveTask:  # fmt: skip
    lead = rows[0]
    return MoveTask(lead.key.name, lead.key.version, lead.status, new, reason, message, policy, caused_by)


def may_begin(task: Task) -> bool:
    """Return whether workers of this share that have arrived may begin."""
    return task.party_status is TaskStatus.RUNNING or task.waits == BEGINS


def let_begin(shares: Sequence[Task]) -> Iterator[Task]:
    """Yield the gathered shares that may begin, once all shares of the task that take part are there."""
    waiting = [one for one in shares if one.party_status is TaskStatus.WAITING]
    if all(one.waits in (GATHERED, BEGINS) for one in waiting):
        yield from (one for one in waiting if one.waits == GATHERED)
