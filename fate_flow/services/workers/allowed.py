"""What this party allows a job at one of its seats now: checked when the job comes, and whenever one of its workers
starts (docs/explanation/authority.md)."""

from __future__ import annotations

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.access.permission import missing
from fate_flow.core.model.job import JobKey, TaskKey
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.jobspec.ceilings import refusals
from fate_flow.services.artifacts.inputs import named_things
from fate_flow.services.context.unit_of_work import UnitOfWork

_MOST_NAMED = 10          # one message between parties is 1,000 characters long


def not_granted(unit: UnitOfWork, spec: JobSpec, party: Party, task: str = "") -> str:
    """Return text about what the job, or only its task `task`, needs here without a grant; empty if nothing.

    A job that runs nothing here (`need_run: false`) still reserves cores, so its initiator needs at least one grant."""
    rule, initiator = unit.context.permission, spec.initiator.party_id
    if not rule.is_on or initiator in (unit.context.party_id, PARTY_0):
        return ""
    granted = unit.tx.granted(initiator)
    if not granted and all(party in one.passed_at for one in spec.tasks_of(party)):
        return f"{party} has granted nothing to party {initiator} (flow privilege grant, there)"
    missing_things = missing(rule, spec, party, granted, named_things(unit.context.kinds), task)
    if not missing_things:
        return ""
    named = ", ".join(map(str, missing_things[:_MOST_NAMED]))
    return f"{party} has not granted party {initiator}: {named} (flow privilege grant, there)"


def above_ceilings(unit: UnitOfWork, spec: JobSpec, party: Party) -> str:
    """Return text about all ceilings of this party that the job exceeds; empty if there is none."""
    refused = refusals(unit.context.ceilings, spec, party, unit.context.engines.default_size.nodes)
    more = len(refused) - _MOST_NAMED
    return "; ".join((*refused[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])))


def why_not_now(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> str:
    """Return why no worker of this share may start now, although its job was accepted; empty if it may.

    Tables that the task names are checked with its other inputs, and its program is checked when it is launched."""
    return (
        _not_approved(unit, key)
        or not_granted(unit, spec, key.party, key.name)
        or above_ceilings(unit, spec, key.party)
    )


def _not_approved(unit: UnitOfWork, key: TaskKey) -> str:
    """Return text if the document that the job is bound to has not been approved: an approval is for one document."""
    job, bound = unit.tx.job(JobKey(key.job_id, key.party)), unit.binding(key.job_id)
    if job is None or bound is None or job.consent is None or job.consent.is_of(bound.digest):
        return ""
    return f"nobody at {key.party} has approved job {key.job_id} with this document (flow job approve, there)"
