"""What every store promises of submits that are decided, or are about to be."""

from __future__ import annotations

from typing import Protocol

from fate_flow.store.values import Submission


class Submissions(Protocol):
    """Part of `contract.Transaction`."""

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:
        """None when it is new, or when the one before was refused; otherwise what is known under this request id."""

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None: ...

    def forget_submission(self, job_id: str) -> None:
        """Unless it was accepted: whoever waited for the outcome has been told."""

    def forget_refused_submissions(self) -> None:
        """Those that nobody was left to be told of, since the process that waited has died."""

    def submission_of(self, job_id: str) -> Submission | None: ...
