"""The store contract for jobs that are over, and for removing them."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.job import JobKey


class OldJobs(Protocol):
    """Part of `contract.Transaction`."""

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        """Return the ids of jobs here from `first` to `last`, each once, in order."""

    def forget_job(self, job_id: str) -> None:
        """Remove every row of the job, but not its submission. Its binding stays."""

    def forget_seat(self, key: JobKey) -> None:
        """Remove every row of one seat; with the last one here also the history over all parties. The binding stays."""

    def is_open(self, job_id: str) -> bool:
        """Return whether a part of the job still goes on here: a row that is not final or holds a reservation, a worker
        that has not exited, a waiting command."""

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        """Return (end time, id) of final rows that ended before a time and come behind `after`, oldest first."""

    def jobs_past_ttl(self, now: int, least: int, after: str, limit: int) -> tuple[str, ...]:
        """Return, in order, ids behind `after` of jobs with a final row whose ttl has passed.

        A ttl below `least` seconds counts as `least`."""

    def end_of_newest(self, count: int) -> int:
        """Return the end time of the final row that ended as the `count`-th newest; 0 if there are fewer rows."""

    def forget_ended(self, job_id: str) -> bool:
        """Remove every row of the job and its submission; its tables, models and binding stay.

        False while it `is_open`."""

    def jobs_to_forget(self) -> tuple[str, ...]:
        """Return the refused submits of this initiator that still have rows."""
