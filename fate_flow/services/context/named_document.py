"""The name of a job's document, by which other parties compare it with theirs."""

from __future__ import annotations

from fate_flow.core.access.bound_document import document_name
from fate_flow.services.context.unit_of_work import UnitOfWork


def named_document(unit: UnitOfWork, job_id: str) -> str:
    """Return the name of the document that the job is bound to. It cannot change while a task of the job runs.

    Empty for a job of an older release: that did not compute the digest which other parties may be bound to."""
    bound, document = unit.binding(job_id), unit.tx.document(job_id)
    if bound is None or document is None or not document.is_compared:
        return ""
    return document_name(document.content.format, bound.digest)
