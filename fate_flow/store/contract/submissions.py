"""The store contract for submits, decided or not."""

from __future__ import annotations

from typing import Protocol

from fate_flow.store.values import Submission


class Submissions(Protocol):
    """Part of `contract.Transaction`."""

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:
        """Store a submit and return None. If one with this request id exists and was not refused, return that one."""

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None: ...

    def forget_submission(self, job_id: str) -> None:
        """Remove a submit unless it was accepted; its client has got the result."""

    def forget_refused_submissions(self) -> None:
        """Remove refused submits whose client got no result, because the process that waited has died."""

    def submission_of(self, job_id: str) -> Submission | None: ...
