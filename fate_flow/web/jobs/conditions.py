"""What the jobs of a list wait for, and which of them restart. Of running and stopping jobs as `flow job list` says
it; in the queue, each job has its reason already."""

from __future__ import annotations

from fate_flow.core.model.approval import Approval
from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.condition import RESTARTING, Condition, condition_in_list
from fate_flow.store.views.columns import Row
from fate_flow.store.views.wait_reasons import Moving

_RUNS = frozenset({JobStatus.RUNNING.value, JobStatus.STOPPING.value})


def with_conditions(rows: list[Row], moving: Moving, limit: int) -> list[Row]:
    """Set `status_detail` in all rows, and `wait_reason` in those of running and stopping jobs and of waiting ones that
    are in no queue of this party; return all rows.

    `limit`: milliseconds after which a silent party is given up."""
    for row in rows:
        row["status_detail"] = row["status"]
        if row["status"] in _RUNS:
            condition = _condition(row, moving, limit)
            row["wait_reason"] = condition.text
            if condition.is_restarting and row["is_initiator"]:
                row["status_detail"] = RESTARTING
        elif row["status"] == JobStatus.WAITING.value and not row["is_initiator"]:
            row["wait_reason"] = _why_elsewhere(row, moving)
    return rows


def _why_elsewhere(row: Row, moving: Moving) -> str:
    if row["approval"] == Approval.PENDING.value:
        return "waits for an approval of this party"
    initiator = Party(row["initiator_role"], row["initiator_party_id"])
    trouble = moving.troubles.get(initiator.party_id)
    if trouble is None or trouble.is_over:
        return f"{initiator} decides"
    return trouble.explain(initiator, Party(row["role"], row["party_id"]), moving.steady)


def _condition(row: Row, moving: Moving, limit: int) -> Condition:
    """Return the condition of the job. If its initiator is another seat of this party, that one knows all of it."""
    initiator, party = Party(row["initiator_role"], row["initiator_party_id"]), Party(row["role"], row["party_id"])
    decides_here = initiator.party_id == party.party_id
    job = Job(
        JobKey(row["job_id"], initiator if decides_here else party), initiator, decides_here,
        JobStatus(row["status"]), target=JobStatus(row["target"]) if row["target"] else None,
        reason=Reason(row["reason"]) if row["reason"] else None, start_time=row["start_time"] or 0,
        stop_by=row["stop_by"], is_restarting=row["restarting"],
    )  # fmt: skip
    seats, tasks = moving.seats.get(row["job_id"], ()), moving.tasks.get(row["job_id"], ())
    return condition_in_list(job, seats, tasks, moving.troubles, moving.steady, limit)
