"""Decisions of this party's people whether it takes part in a job of another party."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.access.joint_approval import joint_consent
from fate_flow.core.model.approval import SHORT_DIGEST, Approval, Consent, is_digest_of
from fate_flow.core.model.errors import Conflict, JobNotFound
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Command, CommandKind, Job
from fate_flow.core.model.status import JobStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.use_cases.units import Units


@dataclass(frozen=True)
class Decision:
    """What was decided on: the document with this digest, of this revision of the parameters."""

    digest: str
    revision: int
    consent: Consent         # of the party, after the decision; still pending after the first of two approvals


class Approvals:
    """Decisions of this party on jobs that need its approval."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def approve(
        self, job_id: str, reason: str, by: str, revision: int | None = None, digest: str = ""
    ) -> Decision:
        """Approve a job of another party, and return what was approved.

        `revision` and `digest` name the document that the user has read. Raises JobNotFound; Conflict if the job needs
        no approval, or if its document has changed since."""
        return self._decide(job_id, Approval.APPROVED, by, reason, revision, digest)

    def reject(self, job_id: str, reason: str, by: str) -> None:
        """Reject a job of another party: it ends with the reason. Raises the same errors as `approve`."""
        self._decide(job_id, Approval.REJECTED, by, reason)

    def _decide(
        self, job_id: str, approval: Approval, by: str, reason: str, revision: int | None = None, digest: str = ""
    ) -> Decision:
        def decide(unit: UnitOfWork) -> Decision:
            rows, bound = unit.tx.jobs_here(job_id), unit.binding(job_id)
            if not rows or bound is None:
                raise JobNotFound(f"can not found job {job_id} on party {self._units.context.party_id}")
            if revision not in (None, bound.revision):
                raise Conflict(f"job {job_id} now has parameters of revision {bound.revision}: look at it again")
            if digest and not is_digest_of(digest, bound.digest):
                short = bound.digest[:SHORT_DIGEST]
                raise Conflict(f"job {job_id} now has another document ({short}): look at it again")
            given = consent = Consent(approval, by, reason, unit.now, bound.digest)
            is_changed = False
            for row in rows:
                known = _decidable(row, given)
                consent = joint_consent(self._units.context.approval, known, given)
                if consent is known:         # this person, or two people, have said so before
                    continue
                is_changed = True
                if not unit.tx.decide_consent(row.key, consent, known):
                    raise Conflict(f"{row.key} has moved on: look at it again")
                party, message = row.party, consent.text
                unit.moves(
                    HistoryLevel.JOB, job_id, row.status, row.status, party=party, message=message, caused_by=str(party)
                )
            if is_changed:
                record_act(unit, f"job {approval.value}", by, job_id, reason)
                unit.note(Event.JOB_NOTE, job_id=job_id, text=f"job {job_id} was {consent.text}")
            if is_changed and not consent.is_first and rows[0].status is JobStatus.WAITING and not rows[0].is_plain_v1:
                unit.send(Command(CommandKind.LOOK_AGAIN, job_id, rows[0].initiator, rows[0].run))
            return Decision(bound.digest, bound.revision, consent)

        return self._units.carry_out(decide)


def _decidable(row: Job, consent: Consent) -> Consent:
    """Return the present decision, if it can be changed to this one.

    A rejected job is over, and can be approved for a rerun. A job that runs with a pending approval was approved by an
    older release, and can be approved again. Raises Conflict."""
    if row.consent is None:
        raise Conflict(f"{row.key} needs no approval here (approval in service_conf.yaml)")
    is_anew = (row.consent.approval, consent.approval) == (Approval.PENDING, Approval.APPROVED)
    is_under_way = row.holds or row.status is JobStatus.RUNNING
    if row.status is JobStatus.STOPPING or (is_under_way and not is_anew):
        raise Conflict(f"{row.key} has been approved and is under way: flow job stop ends it")
    was_rejected = row.consent.approval is Approval.REJECTED or row.consent.is_first
    is_for_rerun = was_rejected and consent.approval is Approval.APPROVED
    if row.is_final and not is_for_rerun:
        why = ": ".join(filter(None, (row.reason.value if row.reason else "", row.message)))
        raise Conflict(f"{row.key} has ended as {row.status.value} ({why}): it needs no approval any more")
    return row.consent
