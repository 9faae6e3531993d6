"""Submits, decided or not."""

from __future__ import annotations

from typing import Any

from fate_flow.store.database.models import SubmissionRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.sql.unit import SqlUnitOfWork
from fate_flow.store.values import Submission


class Submissions(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:
        this = SubmissionRow.f_request_id == submission.request_id
        row = {
            "f_request_id": submission.request_id, "f_job_id": submission.job_id, "f_digest": submission.digest,
            "f_create_time": at, "f_by": submission.by,
        }  # fmt: skip
        if insert_new(self._database, SubmissionRow, row, this):
            return None
        takes_over = SubmissionRow.update(
            f_job_id=submission.job_id, f_digest=submission.digest, f_retcode=None, f_retmsg=None, f_create_time=at,
            f_by=submission.by,
        ).where(this & _WAS_REFUSED)
        return None if hit(takes_over) else _submission(this)

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None:
        undecided = (SubmissionRow.f_job_id == job_id) & SubmissionRow.f_retcode.is_null()
        hit(SubmissionRow.update(f_retcode=retcode, f_retmsg=retmsg).where(undecided))

    def forget_submission(self, job_id: str) -> None:
        was_not_accepted = SubmissionRow.f_retcode.is_null() | _WAS_REFUSED
        hit(SubmissionRow.delete().where((SubmissionRow.f_job_id == job_id) & was_not_accepted))

    def forget_refused_submissions(self) -> None:
        hit(SubmissionRow.delete().where(_WAS_REFUSED))

    def submission_of(self, job_id: str) -> Submission | None:
        row = _SUBMISSION_OF.row(self._database, job_id)
        return Submission(row[0], row[1], row[2], row[3], row[4] or "", row[5]) if row else None


_SUBMISSION_OF = Prepared(
    lambda job_id: SubmissionRow.select(
        SubmissionRow.f_request_id, SubmissionRow.f_job_id, SubmissionRow.f_digest, SubmissionRow.f_retcode,
        SubmissionRow.f_retmsg, SubmissionRow.f_by,
    ).where(SubmissionRow.f_job_id == job_id),
    1,
)  # fmt: skip
_WAS_REFUSED = SubmissionRow.f_retcode != 0      # an undecided submit has NULL, which this condition does not match


def _submission(where: Any) -> Submission | None:
    row = SubmissionRow.get_or_none(where)
    if row is None:
        return None
    return Submission(row.f_request_id, row.f_job_id, row.f_digest, row.f_retcode, row.f_retmsg or "", row.f_by)
