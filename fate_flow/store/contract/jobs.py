"""The store contract for rows of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.values import Document


class Jobs(Protocol):
    """Part of `contract.Transaction`."""

    def add_job(self, job: Job, document: Document) -> bool:
        """Add the row of a job; False if it exists already."""

    def job(self, key: JobKey) -> Job | None: ...

    def job_here(self, job_id: str) -> Job | None:
        """Return the initiator's row, if this is the initiator's database."""

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        """Return all seats of the job in this database."""

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        """Return the document in the row of this party; without `party`, in the initiator's row, else in the first row.

        All rows of a job have the same `dsl` and `runtime_conf`, those of its binding."""

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        """Move the job: compare-and-set on status and run. Also sets start or end time, and at the end the tag."""

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> bool:
        """Move an ended job to `waiting` in a later run: compare-and-set on status and run.

        Fields of the last run are reset. In the initiator's row the rerun signal is set. `since` is the steady time."""

    def requeue_job(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        """Move a running job back to `waiting` in the same run: compare-and-set.

        At its initiator it waits until `retry_at` (steady time), and the rerun signal is set. The reservation stays."""

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        """Change the parameters of a job: compare-and-set on status, run and revision.

        This writes the configuration, and of `new` the requested resources, time limit, revision and changed
        components; also a pending approval, if `job` needed none."""

    def forgo_return(self, key: JobKey) -> bool:
        """Note that a user asked for the end of a job that ends already, so that it does not wait for a lost party."""

    def rerun_after_end(self, job: Job) -> bool:
        """Set the rerun signal of another initiator's job that still ends here: it waits again when it has ended."""

    def request_force_stop(self, key: JobKey) -> bool:
        """Store the request to kill the workers that drain for the end of this job."""

    def force_stop_sent(self, key: JobKey, stop_by: int) -> bool:
        """Note that the request was sent; the job ends at `stop_by` (steady time) at the latest."""

    def request_stop(self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str) -> bool:
        """Store the request that an unfinished job ends; the first reason stays."""

    def describe(self, key: JobKey, text: str) -> bool:
        """Replace the notes on a job."""

    def add_message(self, key: JobKey, text: str) -> bool:
        """Append text to the message of the row; False if it contains the text already."""

    def set_progress(self, key: JobKey, percent: int) -> bool:
        """Set the progress; it never decreases."""

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        """Name a party with another end of this job; False if it was named already. The end of the job stays."""

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        """Mark the job as a partial success without these parties."""

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        """Set the policy events that wait for their policy, with the steady time at which each policy acts."""

    def restart_job(self, key: JobKey) -> bool:
        """Mark the job as restarting, and count the restart."""

    def restarted(self, key: JobKey) -> bool:
        """Note that the restart is done: the new versions begin."""

    def open_seats(self) -> tuple[JobKey, ...]:
        """Return the rows here of all jobs that are not over, of any initiator."""

    def unfinished_jobs(self) -> tuple[Job, ...]:
        """Return the rows of this party that are ready, running or stopping, have a ready or rerun signal, or hold a
        reservation."""

    def last_create_time(self) -> int: ...
