"""What every store promises of jobs that wait: in which order, for what, and which may reserve."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.approval import Consent
from fate_flow.core.model.job import Blocker, Hold, Job, JobKey
from fate_flow.core.planning.queue import Waiting


class Queue(Protocol):
    """Part of `contract.Transaction`. The order of the queue is `Job.order`."""

    def all_rejoined(self, key: JobKey, queued: int = 0) -> bool:
        """Every party knows that the job waits again: reset the signal, and with it the reason to wait."""

    def begin_round(self, key: JobKey, owner: str, at: int) -> bool:
        """Set the ready signal of a waiting job nobody works on, count up its reservation rounds, forget refusals.

        Not whose approval it awaits: only who is asked says whether that has changed."""

    def end_round(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, blocked_by: Blocker | None, rejoins: bool = False,
    ) -> bool:
        """Reset the ready signal that `owner` set; with `rejoins`, no reservation round before `all_rejoined`."""

    def postpone(self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int) -> bool:
        """Why a waiting job is not even asked for."""

    def take_over(self, owner: str) -> tuple[str, ...]:
        """Hand over the ready signals of all other owners to this one; the job ids."""

    def jobs_in_round(self) -> tuple[Waiting, ...]:
        """Waiting jobs of this initiator whose ready signal is set, in the order of the queue."""

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        """Waiting jobs of this initiator that nothing is known against, in their order.

        Not those of which some party does not know yet that they begin again."""

    def queue_heads(self) -> tuple[Waiting, ...]:
        """The first waiting job for every party that some job is blocked on, but for those apart
        (`Job.is_unschedulable`)."""

    def waiting_unschedulable(self, until: int, limit: int) -> tuple[Waiting, ...]:
        """Waiting jobs that nobody holds, that lack what is not capacity (`UNSCHEDULABLE`), and are due by this steady
        time.

        Those that have been due for longest come first, so that each has its reservation round however many there
        are."""

    def blocked_waiting(self, party_id: str, at_most_cores: int, limit: int) -> tuple[Waiting, ...]:
        """Jobs blocked on this party that ask it for no more than so many cores, in order."""

    def waiting(self, job_id: str) -> Waiting | None:
        """This job of this initiator, when it waits for its turn: it is in none, is not held, and begins not again."""

    def count_pass(self, job_id: str) -> None:
        """A later job took what this waiting one of this initiator lacks."""

    def place_in_queue(self, job: Job) -> int:
        """1 for the first."""

    def waiting_jobs(self) -> tuple[Job, ...]:
        """All waiting jobs of this initiator, in their order."""

    def overdue_waiting(self, steady: int) -> tuple[Job, ...]:
        """Waiting jobs of this initiator whose whole time is over and that nobody has told to end, in their order; none
        that is on hold."""

    def hold_job(self, key: JobKey, hold: Hold) -> bool:
        """False for a job that does not wait. What starts or ends is not held any more."""

    def release_job(self, key: JobKey, steady: int) -> bool:
        """False when nobody held it. The time that it was held counts for no limit."""

    def decide_consent(self, key: JobKey, consent: Consent) -> bool:
        """False where nobody has to approve, and for a seat that has reserved something or runs: but one that still
        awaits an approval, since an older release took it, gets that until it stops."""

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        """Seats here that wait for this party's approval, by age; at most 1,000."""

    def ask_again(self, job_id: str) -> bool:
        """A waiting job of this initiator that is in the queue, and not in its reservation round, is due at once."""

    def others_waiting(self) -> tuple[Job, ...]:
        """Of each other initiator that has jobs waiting here one of them, in all its seats."""

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        """Where a waiting job stands from now on; False for one that does not wait."""

    def count_waiting(self) -> int: ...

    def cancelled_waiting(self) -> tuple[str, ...]:
        """Waiting jobs with a request to stop, and those that waited too long are the caller's to find."""
