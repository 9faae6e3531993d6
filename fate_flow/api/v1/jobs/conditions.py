"""Add what running jobs and tasks wait for to the view rows of lists, as in `job/explain`.

A row also gets a `status_detail` if that is not its status."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fate_flow.core.model.job import Job, TaskKey
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.condition import RESTARTING, Condition, Restart, condition_of, condition_of_copy
from fate_flow.core.planning.view import JobView
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.views.columns import Row

_RUNS = (JobStatus.RUNNING, JobStatus.STOPPING)
_RUNNING = frozenset(status.value for status in _RUNS)
_TASK_RUNS = (TaskStatus.RUNNING.value, TaskStatus.STOPPING.value)


def with_conditions_of_jobs(context: Context, rows: list[Row]) -> list[Row]:
    """Set `wait_reason` in the rows of running and stopping jobs; return all rows."""
    running = [row for row in rows if row["status"] in _RUNNING]
    others = {
        row["job_id"] for row in running if row["status"] == JobStatus.STOPPING.value or row["restarting"]
    }
    known = _conditions(context, {row["job_id"] for row in running}, others)
    for row in running:
        condition = known.get(row["job_id"])
        if condition is None:
            continue
        row["wait_reason"] = condition.text or row["wait_reason"]
        if condition.is_restarting and row["is_initiator"]:
            row["status_detail"] = RESTARTING
    return rows


def with_conditions_of_tasks(context: Context, rows: list[Row]) -> list[Row]:
    """Set `wait_reason` in the rows of tasks that run or will be retried, "" in all others; return all rows."""
    open_ = [row for row in rows if row["status"] in (*_TASK_RUNS, TaskStatus.WAITING.value)]
    known = _conditions(context, {row["job_id"] for row in open_})
    for row in rows:
        row["wait_reason"] = ""
    for row in open_:
        condition = known.get(row["job_id"])
        if condition is not None:
            _add(row, condition)
    return rows


def _add(row: Row, condition: Condition) -> None:
    party = Party(row["role"], row["party_id"])
    restart = condition.restarts.get(row["component_name"])
    trouble = condition.troubles.get(party, "") if row["status"] in _TASK_RUNS else ""
    if restart is not None and _is_its_next(row, restart):
        row["status_detail"] = RESTARTING
        follows = restart.text
    else:
        key = TaskKey(row["job_id"], row["component_name"], row["task_version"], party)
        follows = condition.broken.get(key, "") or condition.waiting.get(key, "")
    row["wait_reason"] = "; ".join(filter(None, [trouble, follows]))


def _is_its_next(row: Row, restart: Restart) -> bool:
    """Return whether the row is of the ending version, or of the next one."""
    ends = row["status"] in _TASK_RUNS
    return bool(row["task_version"] == restart.version - ends)


def _conditions(context: Context, job_ids: set[str], others: Collection[str] = ()) -> dict[str, Condition]:
    """Return the conditions of those jobs that wait for something; usually, two queries show that none does.

    `others`: jobs that are stopping or restarting, which have one in any case."""
    return context.read(lambda tx: _conditions_of(context, tx, job_ids, others)) if job_ids else {}


def _conditions_of(
    context: Context, tx: Transaction, job_ids: set[str], others: Collection[str]
) -> dict[str, Condition]:
    troubles, found = tx.peer_troubles(), {}
    for job_id in job_ids if troubles else tx.jobs_with_moving_tasks(job_ids) | set(others):
        rows = tx.jobs_here(job_id)
        job = next((row for row in rows if row.is_initiator), rows[0] if rows else None)
        if job is not None and job.status in _RUNS:
            found[job_id] = _condition(context, tx, job, troubles)
    return found


def _condition(context: Context, tx: Transaction, job: Job, troubles: Mapping[str, PeerTrouble]) -> Condition:
    now = tx.steady()
    if not job.is_initiator:
        return condition_of_copy(job, tx.tasks(job.job_id), troubles, now)
    spec = UnitOfWork(context, tx, context.clock()).spec(job.job_id)
    assert spec is not None, "a job row has its document"
    view = JobView(job, spec, tx.seats(job.job_id), tx.tasks(job.job_id), now, fresh_id="0" * 32)
    return condition_of(view, troubles, context.rules.party_silence)
