"""The sentence of each notification. No text that a program, a user or another party has written gets into one, but
the ids of jobs and parties."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.reasons import Reason

WHY: Mapping[Reason, str] = {
    Reason.DONE: "all of it succeeded",
    Reason.NOT_NEEDED: "the job says that it need not run",
    Reason.WORKER_ERROR: "a component reported an error",
    Reason.WORKER_CRASHED: "a worker crashed",
    Reason.WORKER_KILLED: "a worker ended without a result",
    Reason.OUT_OF_MEMORY: "a worker used more memory than it may",
    Reason.PREEMPTED: "the cluster gave the place of a worker to another job",
    Reason.NODE_LOST: "the machine of a worker failed",
    Reason.NOT_PLACED: "the cluster had no place for a worker within the time that the party waits",
    Reason.LAUNCH_FAILED: "a worker could not be started",
    Reason.NOT_ALLOWED: "a party no longer allows something that a task needs",
    Reason.TASK_TIMEOUT: "a task exceeded its time limit",
    Reason.INITIATOR_LOST: "the initiator was silent for too long",
    Reason.SERVER_LOST: "the server of a worker was gone for too long",
    Reason.STOPPED: "it was stopped because something else had ended",
    Reason.STOPPED_BY_USER: "a user stopped it",
    Reason.JOB_TIMEOUT: "the job exceeded its time limit",
    Reason.TASK_FAILED: "a task ended badly",
    Reason.PARTY_REFUSED: "a party did not accept it",
    Reason.PARTY_UNREACHABLE: "a party was silent for too long",
    Reason.DEPENDENCE_FAILED: "the check of its dependences failed at a party",
    Reason.NO_CAPACITY: "it waited for cores longer than it may",
    Reason.QUEUE_CLEANED: "an operator emptied the queue",
    Reason.CORES_LENT: "its cores were lent to a waiting job",
    Reason.PARTY_REVOKED: "a party of it was revoked",
    Reason.OTHER_DOCUMENT: "the coordinator gave two parties different documents",
    Reason.RELEASED: "an operator released its reservation by force",
    Reason.PARTY_MISSING: "an output that it needs is missing",
    Reason.FAILED_BY_POLICY: "a policy of the job failed it",
    Reason.STOPPED_BY_POLICY: "a policy of the job canceled it",
    Reason.COMPLETED_BY_POLICY: "a policy of the job completed it",
}


def of_end(job_id: str, status: str, reason: Reason | None, caused_by: str) -> str:
    """Return the sentence about the end of a job. `caused_by`: the party where the cause is; empty: not known."""
    why = f": {WHY[reason]}" if reason is not None else ""
    where = f" (the cause is at {caused_by})" if caused_by and reason not in (None, Reason.DONE) else ""
    return f"Job {job_id} ended as {status}{why}{where}."


def of_approval(job_id: str, initiator: str, first: str) -> str:
    """Return the sentence about a job that waits for approval. `first`: the person who has approved it already, where
    two have to; empty: nobody."""
    if first:
        return f"Job {job_id} of {initiator} was approved by {first}: a second person of this party has to approve it."
    return f"Job {job_id} of {initiator} waits for the approval of this party."


def of_silence(party_id: str, seconds: int, *, is_cut_off: bool) -> str:
    if is_cut_off:
        return f"Party {party_id} says that it cannot reach this server, for {seconds} s now."
    return f"Party {party_id} has not answered for {seconds} s."


def of_answer(party_id: str) -> str:
    return f"Party {party_id} answers again."


def of_contradiction(party_id: str, size: int, *, is_proof: bool) -> str:
    """Return the sentence about two checkpoints of a log of another party. `size`: entries of the first one."""
    if is_proof:
        return f"Party {party_id} has signed two different pasts of its record with this party, of {size} entries."
    return (
        f"Party {party_id} has not shown that its record with this party continues the one of {size} entries that is "
        "cosigned here."
    )


def of_accusations(party_id: str, accusations: Mapping[str, int]) -> str:
    """Return the sentence about a comparison of both records. `accusations`: how many there are, by outcome."""
    listed = ", ".join(f"{outcome}: {count}" for outcome, count in accusations.items())
    return f"A comparison with the record of party {party_id} has found contradictions ({listed})."


def of_damage(log: str, index: int) -> str:
    """Return the sentence about an entry of the own record that is not what was sealed."""
    return f"The record of this party is damaged: entry {index} of its log {log} is not what was sealed."
