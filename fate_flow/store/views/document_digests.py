"""The digests of the documents that jobs are bound to here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fate_flow.jobspec.formats import digest_of
from fate_flow.store.database.models import BindingRow
from fate_flow.store.values import Document

_AT_ONCE = 500


class _Documents(Protocol):
    def document(self, job_id: str) -> Document | None: ...


def digests_of(tx: _Documents, job_ids: Iterable[str], *, reads_documents: bool = True) -> dict[str, str]:
    """Return the SHA-256 of the present documents by job id; for a job without a stored binding, of its rows, or
    nothing if `reads_documents` is false: a document may have megabytes."""
    ids = sorted(set(job_ids))
    found: dict[str, str] = {}
    for first in range(0, len(ids), _AT_ONCE):
        some = BindingRow.f_job_id.in_(ids[first : first + _AT_ONCE])
        found |= dict(BindingRow.select(BindingRow.f_job_id, BindingRow.f_digest).where(some).tuples())
    for job_id in ids if reads_documents else ():
        if job_id not in found and (document := tx.document(job_id)) is not None:
            found[job_id] = digest_of(document.content)
    return found
