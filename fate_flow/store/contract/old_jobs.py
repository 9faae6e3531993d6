"""What every store promises of jobs that are over, and of forgetting them."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.job import JobKey


class OldJobs(Protocol):
    """Part of `contract.Transaction`."""

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        """Ids of jobs here from one to the other, each once, in their order."""

    def forget_job(self, job_id: str) -> None:
        """Every row of the job goes, its binding too, but for its submission."""

    def forget_seat(self, key: JobKey) -> None:
        """Every row of one seat goes; with the last seat here also the binding, and the history over all parties."""

    def is_open(self, job_id: str) -> bool:
        """Whether anything of the job still goes on here: a row that is not final or holds something, a worker that has
        not exited, a command that waits."""

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        """(end time, id) of final rows that ended before a time, oldest first, those behind `after`."""

    def jobs_past_ttl(self, now: int, least: int, after: str, limit: int) -> tuple[str, ...]:
        """Ids of jobs with a final row whose ttl is over, or `least` seconds where that is longer; those behind
        `after`, in order."""

    def end_of_newest(self, count: int) -> int:
        """When the last but `count - 1` of the final rows ended; 0 when there are fewer."""

    def forget_ended(self, job_id: str) -> bool:
        """Every row of the job goes, its submission too; the tables it made and its binding stay. False while it
        `is_open`."""

    def jobs_to_forget(self) -> tuple[str, ...]:
        """Refused submits of this initiator that still have rows."""
