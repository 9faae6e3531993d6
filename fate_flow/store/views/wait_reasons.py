"""The text that says why a job waits, for lists of clients."""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import Hold, JobKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.queue import pausing, why_a_copy_waits, why_it_waits
from fate_flow.store.database.models import JobRow
from fate_flow.store.database.queries import IN_QUEUE, waiting_here
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.columns import Row
from fate_flow.store.views.document_digests import digests_of

WAIT_FIELDS = (
    "job_id", "role", "party_id", "initiator_role", "initiator_party_id", "is_initiator", "status", "wait_reason",
    "retry_at", "rerun_signal", "held", "hold_message", "hold_by", "approval", "approval_by",
)  # fmt: skip
"""The fields of a job that say why it waits."""
_FEW = 20                    # waiting jobs whose places are counted one by one


def with_wait_reasons(tx: SqlTransaction, rows: list[Row]) -> list[Row]:
    """Set in each waiting job why it waits, with its place in the queue; at other parties, who knows that. Add the
    `document_digest` to each job that this party has to approve. The rows need `WAIT_FIELDS`."""
    waiting = [row for row in rows if row["status"] == JobStatus.WAITING.value]
    unapproved = [row for row in rows if row["approval"] == Approval.PENDING.value]
    digests = digests_of(tx, (row["job_id"] for row in unapproved))
    for row in unapproved:
        row["document_digest"] = digests.get(row["job_id"], "")
    places = _places(tx, [_key(row) for row in waiting if row["is_initiator"]])
    for row in waiting:
        if not row["is_initiator"]:
            initiator = f"{row['initiator_role']} {row['initiator_party_id']}"
            consent = _consent_of(row)
            row["wait_reason"] = why_a_copy_waits(initiator, f"{row['role']} {row['party_id']}", consent)
        elif row["job_id"] in places:
            hold = Hold(row["hold_message"] or "", row["hold_by"]) if row["held"] else None
            text = row["wait_reason"] or ""
            if row["rerun_signal"] and row["retry_at"]:
                text = pausing(text, row["retry_at"] - tx.steady())
            row["wait_reason"] = why_it_waits(text, places[row["job_id"]], hold)
    return rows


def _consent_of(row: Row) -> Consent | None:
    return Consent(Approval(row["approval"]), row["approval_by"]) if row["approval"] else None


def _key(row: Row) -> JobKey:
    return JobKey(row["job_id"], Party(row["role"], row["party_id"]))


def _places(tx: SqlTransaction, keys: Sequence[JobKey]) -> dict[str, int]:
    if len(keys) <= _FEW:
        jobs = (tx.job(key) for key in keys)
        return {job.job_id: tx.place_in_queue(job) for job in jobs if job is not None}
    queue = (
        JobRow.select(JobRow.f_job_id)
        .where(waiting_here())
        .order_by(*IN_QUEUE)
    )
    return {job_id: place for place, (job_id,) in enumerate(queue.tuples(), 1)}
