"""What the board shows beside a document that waits for an approval: the last one of its kind that was approved."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.approval import Approval
from fate_flow.jobspec.formats import digest_of
from fate_flow.store.database.document_columns import kept_document
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.database.models import JobRow
from fate_flow.store.values import Document
from fate_flow.store.views.board import MOST_SEARCHED


@dataclass(frozen=True)
class ApprovedBefore:
    """A job of the same initiator that this party has approved. `digest`: of its document. `has_same_name`: found by
    its name; otherwise by its DSL. `is_as_approved`: its document is still the one that was approved."""

    job_id: str
    by: str
    time: int
    document: Document
    digest: str
    has_same_name: bool
    is_as_approved: bool


def approved_before(job_id: str, initiator_id: str, document: Document) -> ApprovedBefore | None:
    """Look at the approved ones among the newest `MOST_SEARCHED` jobs: those with the same name first."""
    newest = JobRow.select(JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id).order_by(
        JobRow.f_create_time.desc(), JobRow.f_job_id.desc(), JobRow.f_role.desc(), JobRow.f_party_id.desc()
    ).limit(MOST_SEARCHED).alias("newest")  # fmt: skip
    row = JobRow.alias("approved")
    is_it = (row.f_job_id == newest.c.f_job_id) & (row.f_role == newest.c.f_role)
    fits = (row.f_approval == Approval.APPROVED.value) & (row.f_initiator_party_id == initiator_id)
    is_named = row.f_name == document.name
    is_alike = row.f_dsl == to_json(document.dsl)
    query = (
        row.select(
            row.f_job_id, row.f_approval_by, row.f_approval_time, row.f_approval_digest, row.f_dsl, row.f_runtime_conf,
            row.f_name, row.f_format, row.f_document,
        )
        .join(newest, on=is_it & (row.f_party_id == newest.c.f_party_id))
        .where(fits & (row.f_job_id != job_id) & (is_alike | is_named if document.name else is_alike))
        .order_by(is_named.desc(), row.f_create_time.desc())
    )  # fmt: skip
    found = query.limit(1).tuples().first()
    if found is None:
        return None
    known, by, time, digest, dsl, conf, name, own_format, kept = found
    rest = kept_document(own_format, kept)
    approved = Document(from_json(dsl), from_json(conf), {}, name or "", own=rest.own, disclosure=rest.disclosure)
    has_same_name = bool(document.name) and name == document.name
    present = digest_of(approved.content)
    return ApprovedBefore(known, by, time or 0, approved, present, has_same_name, present == digest)
