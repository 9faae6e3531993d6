"""The trace of a job, which never changes: a process reads it once."""

from __future__ import annotations

from fate_flow.services.context.ports import Context
from fate_flow.store.contract.transaction import Transaction

_KEPT = 5_000


def trace_of(context: Context, tx: Transaction, job_id: str) -> str:
    """Return the id of the trace of a job; empty if the job is not here, or comes from an earlier release."""
    known = context.traces.get(job_id)
    if known is not None or not job_id:
        return known or ""
    rows = tx.jobs_here(job_id)
    if not rows:
        return ""
    if len(context.traces) >= _KEPT:
        context.traces.pop(next(iter(context.traces), ""), None)
    return context.traces.setdefault(job_id, rows[0].trace)
