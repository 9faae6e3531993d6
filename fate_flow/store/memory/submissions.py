"""Submits, in memory; the counterpart of `sql/submissions.py`."""

from __future__ import annotations

from fate_flow.core.model.frozen import changed
from fate_flow.store.memory.tables import BY_JOB
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Submission


class Submissions(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:  # noqa: ARG002
        table = self._rows.submissions
        known = table.rows.get(submission.request_id)
        if known is not None and not known.retcode:
            return known
        table.put(submission.request_id, changed(submission, retcode=None, retmsg=""))
        return None

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None:
        table = self._rows.submissions
        for one in table.of(BY_JOB, job_id):
            if one.retcode is None:
                table.put(one.request_id, changed(one, retcode=retcode, retmsg=retmsg))

    def forget_submission(self, job_id: str) -> None:
        table = self._rows.submissions
        for one in table.of(BY_JOB, job_id):
            if one.retcode != 0:
                table.drop(one.request_id)

    def forget_refused_submissions(self) -> None:
        table = self._rows.submissions
        for one in tuple(table.rows.values()):
            if one.retcode:
                table.drop(one.request_id)

    def submission_of(self, job_id: str) -> Submission | None:
        return next(iter(self._rows.submissions.of(BY_JOB, job_id)), None)
