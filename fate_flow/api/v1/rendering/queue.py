"""What clients see of the queue, and of the reasons why a job waits."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.approval import Approval
from fate_flow.core.model.job import Blocker, Hold, Job
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.queue import pausing, why_it_waits
from fate_flow.store.views.job_names import named_jobs
from fate_flow.store.views.snapshots import QueuePage


def queued(page: QueuePage) -> dict[str, Any]:
    """Return the waiting jobs in their order, and the jobs that need an approval here."""
    return {
        "count": page.count,
        "hold": hold_of(page.hold),
        "jobs": [
            {"name": page.names.get(job.job_id, ""), **_queued(job, page, place)}
            for place, job in enumerate(page.jobs, page.first_place)
        ],
        "unapproved": [{"name": page.names.get(job.job_id, ""), **_unapproved(job, page)} for job in page.unapproved],
        "unapproved_count": page.reviews,
    }


def _queued(job: Job, page: QueuePage, place: int) -> dict[str, Any]:
    seats, steady = page.seats[job.job_id], page.steady
    is_asked_again = not (job.hold or job.ready_owner or waits_for(job) == "parties")
    seconds, because = _estimate(job)
    return {
        "place_in_queue": place,
        "job_id": job.job_id,
        "create_time": job.create_time,
        "priority": job.priority,
        "initiator": party_of(job.initiator),
        "parties": [{**party_of(seat.party), "asked_cores": seat.asked_cores} for seat in seats],
        "passed_by": job.passes,
        "passers": named_jobs(job.passers, page.names),
        "is_in_turn": bool(job.ready_owner),
        "wait_reason": why_it_waits(blocked_text(job, steady), place, job.hold),
        "waits_for": waits_for(job),
        "lacks": job.blocked_by.value if job.blocked_by else None,
        "blocked_on": job.blocked_on or None,
        "awaiting_approval": [str(seat.party) for seat in seats if seat.blocked_by is Blocker.APPROVAL],
        "hold": hold_of(job.hold),
        "asked_again_seconds": max(0, job.retry_at - steady) / 1000 if is_asked_again else None,
        "estimate_seconds": seconds,
        "no_estimate_because": because,
    }


def _estimate(job: Job) -> tuple[int | None, str | None]:
    """Return the seconds until the job starts, or why they are unknown: only a job whose turn it is has an estimate."""
    if job.ready_owner:
        return 0, None
    if waits_for(job) == "turn" and not job.blocked_on:
        return 0, None
    return None, _NO_ESTIMATE.get(str(waits_for(job)), "nobody knows how long the jobs before it will run")


_NO_ESTIMATE = {
    "release": "it waits until somebody releases it",
    "parties": "it waits until every party knows that it begins again",
    "retry_backoff": "it pauses before its next attempt, and then waits for its turn",
    "awaiting_approval": "it waits until somebody at another party decides",
    "answer": "it waits until a party is ready again",
    "size": "it asks for more than there is",
}


def _unapproved(job: Job, page: QueuePage) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        **party_of(job.party),
        "initiator": party_of(job.initiator),
        "parties": [party_of(party) for party in job.parties],
        "asked_cores": job.asked.cores,
        "create_time": job.create_time,
        "revision": job.revision,
        "digest": page.digests.get(job.job_id, ""),
    }


def blocked_text(job: Job, steady: int) -> str:
    return pausing(job.wait_reason, job.retry_at - steady) if job.pauses else job.wait_reason


def hold_of(hold: Hold | None) -> dict[str, Any] | None:
    return None if hold is None else {"message": hold.message, "by": hold.by, "time": hold.time}


def waits_for(job: Job) -> str | None:
    """Return a keyword for what a waiting job waits for; None if it does not wait."""
    if job.status is not JobStatus.WAITING:
        return None
    if not job.is_initiator:
        is_pending = job.consent is not None and job.consent.approval is Approval.PENDING
        return "awaiting_approval" if is_pending else "initiator"
    if job.hold is not None:
        return "release"
    if job.rerun_signal:
        return "retry_backoff" if job.pauses else "parties"
    return _WAITS_FOR[job.blocked_by] if job.blocked_by is not None else "turn"


_WAITS_FOR = {
    Blocker.CAPACITY: "room", Blocker.SIZE: "size", Blocker.ANSWER: "answer", Blocker.APPROVAL: "awaiting_approval",
}  # fmt: skip


def party_of(party: Party) -> dict[str, str]:
    return {"role": party.role, "party_id": party.party_id}
