"""Reason codes: why something ended, which final status follows, and who may give the reason.

Every final status has a reason. The status is always looked up here by its reason, never chosen elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fate_flow.core.model.retry import RetryEvent
from fate_flow.core.model.status import JobStatus, TaskStatus


class Author(Enum):
    """Who gives a reason: a party for its own share, or the initiator for a whole task or job."""

    PARTY = "party"
    INITIATOR = "initiator"


class Reason(Enum):
    DONE = "done"                              # everything succeeded
    NOT_NEEDED = "not_needed"                  # the job says that the component does not run
    WORKER_ERROR = "worker_error"              # the component reported that it failed
    WORKER_CRASHED = "worker_crashed"          # the process crashed by itself: SIGSEGV, SIGABRT, ...
    WORKER_KILLED = "worker_killed"            # the process ended without a result
    OUT_OF_MEMORY = "out_of_memory"            # it was killed because it used more memory than it may
    PREEMPTED = "preempted"                    # the cluster gave its place to another job
    NODE_LOST = "node_lost"                    # the machine on which it ran failed
    NOT_PLACED = "not_placed"                  # the cluster gave it no place within the time that the party waits
    LAUNCH_FAILED = "launch_failed"            # no process was started
    NOT_ALLOWED = "not_allowed"                # the party no longer allows something that the task needs there
    TASK_TIMEOUT = "task_timeout"              # the task exceeded its time limit; for a job: one of its tasks did
    INITIATOR_LOST = "initiator_lost"          # the initiator was silent for longer than this party allows
    SERVER_LOST = "server_lost"                # the worker's own server was gone for too long
    STOPPED = "stopped"                        # ended on command, because something else ended
    STOPPED_BY_USER = "stopped_by_user"
    JOB_TIMEOUT = "job_timeout"                # the job exceeded its time limit
    TASK_FAILED = "task_failed"                # a task of the job ended badly
    PARTY_REFUSED = "party_refused"            # a party did not accept the job or its start
    PARTY_UNREACHABLE = "party_unreachable"    # a party was silent for longer than the initiator allows
    DEPENDENCE_FAILED = "dependence_failed"    # a party's dependence check failed for good
    NO_CAPACITY = "no_capacity"                # the job waited for resources longer than it may
    QUEUE_CLEANED = "queue_cleaned"            # an operator emptied the queue
    CORES_LENT = "cores_lent"                  # an elastic worker ended to free its cores for a waiting job
    PARTY_REVOKED = "party_revoked"            # an operator refuses another party of the job from now on
    OTHER_DOCUMENT = "other_document"          # the coordinator gave two parties different documents
    RELEASED = "released"                      # an operator released the reservation by force
    PARTY_MISSING = "party_missing"            # not run: an output of an earlier task that it needs is missing
    FAILED_BY_POLICY = "failed_by_policy"      # a policy with fail_job: it cannot be rerun
    STOPPED_BY_POLICY = "stopped_by_policy"    # a policy with cancel_job: it can be resumed
    COMPLETED_BY_POLICY = "completed_by_policy"    # a policy with complete_job or complete_task


@dataclass(frozen=True)
class Rule:
    """What follows from a reason."""

    status: str                    # the value of a final JobStatus or TaskStatus
    authors: frozenset[Author]
    retry_event: RetryEvent | None = None     # the event in a retry rule; None: never tried again


_PARTY = frozenset({Author.PARTY})
_INITIATOR = frozenset({Author.INITIATOR})
_BOTH = _PARTY | _INITIATOR

RULES: Mapping[Reason, Rule] = {
    Reason.DONE: Rule("success", _BOTH),
    Reason.NOT_NEEDED: Rule("pass", _BOTH),
    Reason.WORKER_ERROR: Rule("failed", _PARTY, RetryEvent.ERROR),
    Reason.WORKER_CRASHED: Rule("failed", _PARTY, RetryEvent.ERROR),
    Reason.WORKER_KILLED: Rule("failed", _PARTY, RetryEvent.INTERRUPTION),
    Reason.OUT_OF_MEMORY: Rule("failed", _PARTY, RetryEvent.OUT_OF_MEMORY),
    Reason.PREEMPTED: Rule("failed", _PARTY, RetryEvent.INTERRUPTION),
    Reason.NODE_LOST: Rule("failed", _PARTY, RetryEvent.INTERRUPTION),
    Reason.NOT_PLACED: Rule("failed", _PARTY, RetryEvent.NO_CAPACITY),
    Reason.LAUNCH_FAILED: Rule("failed", _PARTY, RetryEvent.ERROR),
    Reason.NOT_ALLOWED: Rule("failed", _PARTY),
    Reason.TASK_TIMEOUT: Rule("timeout", _BOTH, RetryEvent.TIMEOUT),
    Reason.INITIATOR_LOST: Rule("failed", _BOTH),
    Reason.SERVER_LOST: Rule("failed", _PARTY, RetryEvent.INTERRUPTION),
    Reason.STOPPED: Rule("canceled", _BOTH),
    Reason.STOPPED_BY_USER: Rule("canceled", _BOTH),
    Reason.JOB_TIMEOUT: Rule("timeout", _INITIATOR),
    Reason.TASK_FAILED: Rule("failed", _INITIATOR),
    Reason.PARTY_REFUSED: Rule("failed", _INITIATOR),
    Reason.PARTY_UNREACHABLE: Rule("failed", _INITIATOR),
    Reason.DEPENDENCE_FAILED: Rule("failed", _INITIATOR),
    Reason.NO_CAPACITY: Rule("timeout", _BOTH),
    Reason.QUEUE_CLEANED: Rule("canceled", _INITIATOR),
    Reason.CORES_LENT: Rule("canceled", _PARTY),
    Reason.PARTY_REVOKED: Rule("canceled", _BOTH),
    Reason.OTHER_DOCUMENT: Rule("failed", _BOTH),
    Reason.RELEASED: Rule("failed", _BOTH),
    Reason.PARTY_MISSING: Rule("canceled", _BOTH),
    Reason.FAILED_BY_POLICY: Rule("failed", _INITIATOR),
    Reason.STOPPED_BY_POLICY: Rule("canceled", _INITIATOR),
    Reason.COMPLETED_BY_POLICY: Rule("success", _INITIATOR),
}


def may_say(author: Author, reason: Reason) -> bool:
    """Return whether this author may give the reason."""
    return author in RULES[reason].authors


def job_status_for(reason: Reason) -> JobStatus:
    """Return the final job status that follows from a reason."""
    return JobStatus(RULES[reason].status)


def task_status_for(reason: Reason) -> TaskStatus:
    """Return the final task status that follows from a reason."""
    return TaskStatus(RULES[reason].status)
