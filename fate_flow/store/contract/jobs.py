"""What every store promises of rows of jobs."""

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
        """False when the row exists already."""

    def job(self, key: JobKey) -> Job | None: ...

    def job_here(self, job_id: str) -> Job | None:
        """The initiator's row when this is its database."""

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        """All seats of the job in this database."""

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        """As it stands in the row of this party; without one, in the initiator's, else in the first of the rows here.

        All rows of a job have the same `dsl` and `runtime_conf`, those of its binding."""

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        """Compare-and-set on status and run; stamps start and end, and the tag `job_end`."""

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> bool:
        """An ended job waits in a later run: compare-and-set on status and run; what the last one left is reset.

        In the row of its initiator the rerun signal is set. `since` is the steady time."""

    def requeue_job(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        """A running job waits in the same run, at its initiator until `retry_at` (steady time): compare-and-set.

        In the row of its initiator the rerun signal is set. What it holds is not touched."""

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        """Other parameters: compare-and-set on status, run and revision.

        Written are the configuration, what `new` asks for, its limit of time, revision and what has changed; and
        that `new` has to be approved, where `job` had not."""

    def forgo_return(self, key: JobKey) -> bool:
        """Somebody asks for the end of a job that ends already: it is not to wait for a party that it lost."""

    def rerun_after_end(self, job: Job) -> bool:
        """A job of another initiator, which still ends here, is to wait again once it has: set the signal."""

    def request_force_stop(self, key: JobKey) -> bool:
        """Note the request that what drains for the end of this job is killed now."""

    def force_stop_sent(self, key: JobKey, stop_by: int) -> bool:
        """The request has been passed on; nobody is waited for beyond `stop_by` (steady time)."""

    def request_stop(self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str) -> bool:
        """Record the request that an unfinished job ends; the first reason stays."""

    def describe(self, key: JobKey, text: str) -> bool:
        """Notes on a job, in place of those that its row has."""

    def add_message(self, key: JobKey, text: str) -> bool:
        """Text for people behind those that the row has; False when it has them already."""

    def set_progress(self, key: JobKey, percent: int) -> bool:
        """Only forward."""

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        """Name a party that does not share the end of this job; False when it was named already. The end stays."""

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        """The job is a partial success: without these parties."""

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        """What has happened to the job and waits for its policy, with the steady time at which that acts."""

    def restart_job(self, key: JobKey) -> bool:
        """Its tasks are to begin again; count it."""

    def restarted(self, key: JobKey) -> bool:
        """They begin again."""

    def open_seats(self) -> tuple[JobKey, ...]:
        """The rows here of all jobs that are not over, whoever decides for them."""

    def unfinished_jobs(self) -> tuple[Job, ...]:
        """Rows of this party in ready, running or stopping, those with a ready or rerun signal, those that hold
        something."""

    def last_create_time(self) -> int: ...
