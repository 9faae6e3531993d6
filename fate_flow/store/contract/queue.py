"""The store contract for waiting jobs: their order, what they wait for, and which may reserve."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.approval import Consent
from fate_flow.core.model.job import Blocker, Hold, Job, JobKey
from fate_flow.core.planning.queue import Waiting


class Queue(Protocol):
    """Part of `contract.Transaction`. The order of the queue is `Job.order`."""

    def all_rejoined(self, key: JobKey, queued: int = 0) -> bool:
        """Reset the rerun signal and the reason to wait, because every party knows that the job waits again."""

    def begin_round(self, key: JobKey, owner: str, at: int) -> bool:
        """Set the ready signal of a waiting job without one, count up its reservation rounds, and clear refusals.

        Pending approvals are kept: only the answer of the party can change them."""

    def end_round(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, blocked_by: Blocker | None, rejoins: bool = False, blocked_at: str = "",
    ) -> bool:
        """Reset the ready signal that `owner` set; with `rejoins`, there is no reservation round before
        `all_rejoined`."""

    def postpone(
        self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int, blocked_at: str = ""
    ) -> bool:  # fmt: skip
        """Store why a waiting job gets no reservation round now."""

    def take_over(self, owner: str) -> tuple[str, ...]:
        """Give the ready signals of all other owners to this one; return the job ids."""

    def jobs_in_round(self) -> tuple[Waiting, ...]:
        """Return the waiting jobs of this initiator whose ready signal is set, in the order of the queue."""

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        """Return, in order, the waiting jobs of this initiator that are not known to be blocked.

        Jobs with a rerun signal are left out: not every party knows yet that they wait again."""

    def queue_heads(self) -> tuple[Waiting, ...]:
        """Return the head of each place that some job is blocked on, which is a party or one engine of it, without
        unschedulable jobs (`Job.is_unschedulable`)."""

    def waiting_unschedulable(self, until: int, limit: int) -> tuple[Waiting, ...]:
        """Return the waiting jobs with a blocker in `UNSCHEDULABLE`, not on hold, that are due by this steady time.

        Those that have been due for longest come first, so that each of many gets its reservation round."""

    def blocked_waiting(
        self, party_id: str, at_most_cores: int, limit: int, tag: str = ""
    ) -> tuple[Waiting, ...]:  # fmt: skip
        """Return, in order, the jobs blocked on this party, at the engine with this tag, that ask there for at most so
        many cores."""

    def waiting(self, job_id: str) -> Waiting | None:
        """Return a job of this initiator if it waits in the queue: not in a reservation round, not on hold, and without
        a rerun signal."""

    def count_pass(self, job_id: str, by: str) -> None:
        """Count, and note, that the later job `by` took capacity that this waiting job of this initiator waits for."""

    def place_in_queue(self, job: Job) -> int:
        """Return the place of a job in the queue; 1 is the first."""

    def waiting_jobs(self) -> tuple[Job, ...]:
        """Return all waiting jobs of this initiator, in order."""

    def overdue_waiting(self, steady: int) -> tuple[Job, ...]:
        """Return, in order, the waiting jobs of this initiator whose time limit is over, without jobs on hold and jobs
        that have a request to stop."""

    def hold_job(self, key: JobKey, hold: Hold) -> bool:
        """Put a waiting job on hold; False if it does not wait. Its start or end removes the hold."""

    def release_job(self, key: JobKey, steady: int) -> bool:
        """Release a job from its hold; False if it is not on hold. The time on hold counts for no limit."""

    def decide_consent(self, key: JobKey, consent: Consent, known: Consent | None = None) -> bool:
        """Store a decision; False if the job needs no approval, or if the seat holds a reservation or runs. False also
        if the stored decision is not `known` any more; None: whichever is stored.

        Exception: a seat with a pending approval that an older release started can be approved until it stops, also by
        the first of two people."""

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        """Return the seats here that wait for this party's approval, by age; at most 1,000."""

    def ask_again(self, job_id: str) -> bool:
        """Make a job of this initiator due at once, if it waits in the queue and is not in a reservation round."""

    def others_waiting(self) -> tuple[Job, ...]:
        """Return one waiting job of each other initiator that has jobs waiting here, in all its seats."""

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        """Set priority and place of a waiting job; False if it does not wait."""

    def count_waiting(self) -> int: ...

    def cancelled_waiting(self) -> tuple[str, ...]:
        """Return the waiting jobs with a request to stop. Jobs that waited too long are in `overdue_waiting`."""
