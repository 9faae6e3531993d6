"""Reports: a party's statement about its share. When it is sent to the initiator, and what of it counts there.

`core/wire/v1/reports.py` writes and reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fate_flow.core.model.job import Report, Task
from fate_flow.core.model.reasons import RULES, Author, Reason, may_say
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_BROKEN, TaskStatus
from fate_flow.core.wire.v1.endings import PLAIN_V1_REASONS
from fate_flow.core.wire.v1.reports import report_to
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.failed_workers import failed_workers_of


def tell_initiator(unit: UnitOfWork, task: Task) -> None:
    """Report this party's share to the initiator; if that is this party, only note that the job has changed."""
    job_id = task.key.job_id
    if unit.tx.job_here(job_id) is not None:
        unit.touch(job_id)
        return
    own = next((job for job in unit.tx.jobs_here(job_id) if job.party == task.key.party), None)
    if own is None:
        return
    unit.touch(job_id)      # a row that is draining may end now
    unit.send(report_to(own, task, failed_workers_of(unit, task)))


def within_its_say(report: Report, parties: Collection[Party]) -> Report:
    """Return the report without what a party may not state: a reason of the initiator, and another party as cause.

    Another party of the job may be named as cause only if the share was stopped, because then the initiator may have
    named it."""
    reason = report.reason
    if reason is not None and not may_say(Author.PARTY, reason):
        reason = PLAIN_V1_REASONS.get(report.status)
    own, named = report.task.party, {str(party): party for party in parties}.get(report.caused_by)
    cause = named if named is not None and reason is not None and _may_name_cause(reason) else own
    return replace(report, reason=reason, caused_by=str(cause) if reason else "")


def _may_name_cause(reason: Reason) -> bool:
    """Return whether a share with this reason was ended from outside, not by its own workers."""
    rule = RULES[reason]
    return may_say(Author.INITIATOR, reason) and rule.retry_event is None and TaskStatus(rule.status) in TASK_BROKEN
