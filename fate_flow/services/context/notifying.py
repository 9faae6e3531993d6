"""Notifications, stored by the transaction of what they are about. So none is lost, and what was undone is not in one.

They are sent by another thread of the process that schedules (server/notifying/): a receiver that hangs costs a job
nothing. Where nobody is notified of anything, nothing here runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fate_flow.core.access.recorded_names import client_in
from fate_flow.core.model.approval import Approval
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.notifications import sentences
from fate_flow.core.notifications.notification import (
    LONGEST_NAME,
    LONGEST_SENTENCE,
    Notification,
    Occasion,
    notification_id,
    one_line,
)
from fate_flow.core.record.comparison import Finding
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.services.context.ports import Context
from fate_flow.store.contract.transaction import Transaction

_ENDS = frozenset(status.value for status in JOB_END)


def notify_of_moves(context: Context, tx: Transaction, moves: Iterable[HistoryEntry], now: int) -> None:
    """Store the notifications of jobs that have ended here, and of those that wait for this party's approval."""
    for one in moves:
        if one.level is not HistoryLevel.JOB or one.party is None:
            continue
        if one.new in _ENDS and one.new != one.old:
            _notify_of_end(context, tx, JobKey(one.job_id, one.party), now)
        elif one.new == JobStatus.WAITING.value and context.approval.required:
            _notify_of_approval(context, tx, JobKey(one.job_id, one.party), now)


def notify_of_evidence(context: Context, tx: Transaction, one: Evidence) -> None:
    """Store the notification of two checkpoints of another party that do not fit together."""
    sentence = sentences.of_contradiction(one.party_id, one.size, is_proof=one.is_proof)
    about = one.origin, one.size, one.is_proof
    notify(context, tx, Occasion.CONTRADICTION, about, one.at, sentence, partner=one.party_id)


def notify_of_findings(context: Context, tx: Transaction, party_id: str, found: Iterable[Finding]) -> None:
    """Store the notification of what a comparison with the record of this party accuses somebody of; the same
    accusations are notified once."""
    accusing = [one for one in found if one.accused]
    if accusing:
        counts = Counter(one.outcome.value for one in accusing)
        about = "compared", party_id, *sorted(f"{one.outcome.value} {one.number} {one.why}" for one in accusing)
        sentence = sentences.of_accusations(party_id, counts)
        notify(context, tx, Occasion.CONTRADICTION, about, context.clock(), sentence, partner=party_id)


def notify_of_damage(context: Context, tx: Transaction, log: str, epoch: int, index: int) -> None:
    """Store the notification that an entry of this party's own record is not what was sealed."""
    sentence = sentences.of_damage(log, index)
    notify(context, tx, Occasion.CONTRADICTION, ("own record", log, epoch, index), context.clock(), sentence)


def notify_of_silence(
    context: Context, tx: Transaction, party_id: str, seconds: int, since: int, *, is_cut_off: bool
) -> None:  # fmt: skip
    """Store the notification that a party is silent. `since`: when people are notified of it, which names it."""
    sentence, status = sentences.of_silence(party_id, seconds, is_cut_off=is_cut_off), "silent"
    notify(context, tx, Occasion.PARTNER_SILENT, (party_id, since, status), since, sentence, partner=party_id,
           status=status)  # fmt: skip


def notify_of_answer(context: Context, tx: Transaction, party_id: str, since: int, now: int) -> None:
    """Store the notification that a party answers again, of whose silence people were notified at `since`."""
    status = "answers"
    notify(context, tx, Occasion.PARTNER_SILENT, (party_id, since, status), now, sentences.of_answer(party_id),
           partner=party_id, status=status)  # fmt: skip


def notify(
    context: Context, tx: Transaction, occasion: Occasion, about: tuple[object, ...], at: int, sentence: str, *,
    job: Job | None = None, partner: str = "", status: str = "", reason: str = "", without: str = "",
) -> None:  # fmt: skip
    """Store a notification for all who are to get it. `about`: what distinguishes it from others of this occasion;
    `without`: a person who knows of it."""
    subscribers = context.subscribers
    if not subscribers.wants(occasion):
        return
    owner = _owner(tx, job) if job is not None and occasion is Occasion.JOB_ENDED else ""
    targets = tuple(subscribers.targets(occasion, tx.chosen_occasions(), owner, without))
    if targets:
        name = one_line(tx.name_of_job(job.job_id), LONGEST_NAME) if job is not None else ""
        tx.add_notification(Notification(
            notification_id(context.party_id, occasion, *about), occasion, at, one_line(sentence, LONGEST_SENTENCE),
            job.job_id if job is not None else "", name, job.run if job is not None else 0, partner, status, reason,
        ), targets)  # fmt: skip


def _owner(tx: Transaction, job: Job) -> str:
    """Return who has submitted an own job; empty if it is not known, or another party's."""
    submission = tx.submission_of(job.job_id) if job.is_initiator else None
    return submission.by if submission is not None else ""


def _notify_of_end(context: Context, tx: Transaction, key: JobKey, now: int) -> None:
    """A party with several seats is notified once; as the initiator, by the end of the job itself."""
    job = tx.job(key)
    is_own = job is not None and job.initiator.party_id in (context.party_id, "0")
    if job is None or (is_own and not job.is_initiator):
        return
    sentence = sentences.of_end(job.job_id, job.status.value, job.reason, job.caused_by)
    partner = "" if is_own else job.initiator.party_id
    notify(
        context, tx, Occasion.JOB_ENDED, (job.job_id, job.run), now, sentence, job=job, partner=partner,
        status=job.status.value, reason=job.reason.value if job.reason else "",
    )  # fmt: skip


def _notify_of_approval(context: Context, tx: Transaction, key: JobKey, now: int) -> None:
    """A document that has changed needs approval again, and where two people have to approve, the second one is asked
    for once the first has."""
    job = tx.job(key)
    if job is None or job.consent is None or job.status is not JobStatus.WAITING:
        return
    if job.consent.approval is not Approval.PENDING:
        return
    first = client_in(job.consent.by) if job.consent.is_first else ""
    about = job.job_id, job.run, job.revision, bool(first)
    notify(
        context, tx, Occasion.APPROVAL_NEEDED, about, now, sentences.of_approval(job.job_id, str(job.initiator), first),
        job=job, partner=job.initiator.party_id, without=first,
    )  # fmt: skip
