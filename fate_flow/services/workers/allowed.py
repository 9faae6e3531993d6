"""What this party allows a job at one of its seats now: checked when the job comes, and whenever one of its workers
starts (docs/explanation/authority.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from fate_flow.core.access.limits import DAY, Grants, TableUse
from fate_flow.core.access.permission import missing
from fate_flow.core.model.job import JobKey, TaskKey
from fate_flow.core.model.modules import KnowsLimits
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.quotas.holding import Held
from fate_flow.core.text.phrases import counted
from fate_flow.jobspec.ceilings import refusals
from fate_flow.services.artifacts.inputs import named_things
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.holding import asked_by, granted_of, is_own
from fate_flow.services.workers.placement import nodes_for, why_not_placed, why_task_not_placed

_MOST_NAMED = 10          # one message between parties is 1,000 characters long


def not_granted(unit: UnitOfWork, spec: JobSpec, party: Party, task: str = "") -> str:
    """Return text about what the job, or only its task `task`, needs here without a grant, or beyond the limits of one;
    empty if nothing.

    A job that runs nothing here (`need_run: false`) still reserves cores, so its initiator needs at least one grant.
    Other parties read the text: it names nothing that the document does not name."""
    rule, initiator = unit.context.permission, spec.initiator.party_id
    if is_own(unit, initiator):
        return ""
    grants, tasks = unit.grants(initiator), [one for one in spec.tasks_of(party) if party not in one.passed_at]
    if not tasks and (why := nothing_granted(unit, initiator, party)):
        return why
    use = TableUse(spec, party, unit.context.modules, named_things(unit.context.kinds))
    found = [*map(str, missing(rule, spec, party, grants.things, use.reads, task)), *_held_beyond(unit, spec, grants)]
    if grants.limits.least_intersection:
        found += _unlimited(unit, [one for one in tasks if task in ("", one.name)])
    for one in tasks if grants.tables else ():
        if task in ("", one.name):
            found += use.beyond(one, grants)
    if not task:
        found += _uses_beyond(unit, use, grants)
    return _refusal(party, initiator, list(dict.fromkeys(found)))


def nothing_granted(unit: UnitOfWork, initiator: str, party: Party) -> str:
    """Return text if permissions are on and this party has granted nothing at all to the initiator; empty if not."""
    if not unit.context.permission.is_on or is_own(unit, initiator) or unit.grants(initiator).things:
        return ""
    return f"{party} has granted nothing to party {initiator} (flow privilege grant, there)"


def _unlimited(unit: UnitOfWork, tasks: Iterable[TaskSpec]) -> Iterator[str]:
    """Yield the components that would let something leave of an intersection of any size."""
    for one in tasks:
        module = unit.context.modules.get(one.module)
        if isinstance(module, KnowsLimits) and module.ignores_least_intersection:
            yield f"component {one.module}, which does not look at least_intersection"


def _refusal(party: Party, initiator: str, found: list[str]) -> str:
    named = ", ".join(found[:_MOST_NAMED])
    return f"{party} has not granted party {initiator}: {named} (flow privilege grant, there)" if found else ""


def _held_beyond(unit: UnitOfWork, spec: JobSpec, grants: Grants) -> Iterator[str]:
    for what in Held:
        most = granted_of(grants, what)
        if most is not None and (asked := what.of(asked_by(unit, spec))) > most:
            yield f"{counted(asked, what.noun)} at once"


def _uses_beyond(unit: UnitOfWork, use: TableUse, grants: Grants) -> Iterator[str]:
    """Yield the tables that the job would use more often than is granted, with what was used lately."""
    if not any(one.uses_a_day is not None for one in grants.tables.values()):
        return
    tasks = (task for task in use.spec.tasks_of(use.party) if use.party not in task.passed_at)
    for table, count in Counter(table for task in tasks for table in use.tables_read(task)).items():
        most, since = grants.limits_of(table).uses_a_day, unit.now - DAY
        if most is not None and unit.tx.uses_of_table(use.spec.initiator.party_id, table, since) + count > most:
            yield f"{counted(count, 'more use')} of {table} now"


def count_uses(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> str:
    """Count the use of each table that this share reads and that is granted for some uses a day.

    Returns text if no use is left; then the share must not start. Further workers of a share are no further use."""
    party, initiator = key.party, spec.initiator.party_id
    if is_own(unit, initiator):
        return ""
    tables = unit.grants(initiator).tables
    limited = {table: one.uses_a_day for table, one in tables.items() if one.uses_a_day is not None}
    if not limited:
        return ""
    use = TableUse(spec, party, unit.context.modules, named_things(unit.context.kinds))
    for table in sorted(use.tables_read(spec.tasks[key.name]) & limited.keys(), key=str):
        if not unit.tx.use_table(initiator, table, _share(key), unit.now, limited[table]):
            return _refusal(party, initiator, [f"1 more use of {table} now"])
    return ""


def _share(key: TaskKey) -> str:
    """Return the name of a share among the uses of a table. Each attempt of a task has its own."""
    return f"{key.job_id}_{key.name}_{key.version}_{key.party.role}_{key.party.party_id}"


def least_intersection(unit: UnitOfWork, spec: JobSpec) -> int:
    """Return how many ids or rows a result of the job must be computed of to leave this party; 0: any number."""
    initiator = spec.initiator.party_id
    return 0 if is_own(unit, initiator) else unit.grants(initiator).limits.least_intersection or 0


def granted_programs(unit: UnitOfWork, initiator: str) -> frozenset[str] | None:
    """Return sha256:DIGEST of the programs that jobs of this party may run here; None: it has no such limit."""
    return None if is_own(unit, initiator) else unit.grants(initiator).limits.programs


def needs_approval(unit: UnitOfWork, initiator: str) -> bool:
    """Return whether a job of this party needs approval here: as its grants say, else as the configuration does."""
    if is_own(unit, initiator):
        return False
    asked = unit.grants(initiator).limits.approval
    return unit.context.approval.asks(initiator, unit.context.party_id) if asked is None else asked


def above_ceilings(unit: UnitOfWork, spec: JobSpec, party: Party) -> str:
    """Return text about all ceilings of this party that the job exceeds; empty if there is none."""
    nodes, is_theirs = nodes_for(unit.context, spec, party), not is_own(unit, spec.initiator.party_id)
    refused = refusals(unit.context.ceilings, spec, party, nodes, is_own=not is_theirs)
    more = len(refused) - _MOST_NAMED
    return "; ".join((*refused[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])))


def why_not_now(unit: UnitOfWork, spec: JobSpec, key: TaskKey) -> str:
    """Return why no worker of this share may start now, although its job was accepted; empty if it may.

    Tables that the task names are checked with its other inputs, and its program is checked when it is launched."""
    return (
        _not_approved(unit, key)
        or not_granted(unit, spec, key.party, key.name)
        or above_ceilings(unit, spec, key.party)
        or why_not_placed(unit.context, spec, key.party)
        or why_task_not_placed(unit.context, spec, spec.tasks[key.name], key.party)
    )


def _not_approved(unit: UnitOfWork, key: TaskKey) -> str:
    """Return text if the document that the job is bound to has not been approved: an approval is for one document."""
    job, bound = unit.tx.job(JobKey(key.job_id, key.party)), unit.binding(key.job_id)
    if job is None or bound is None or job.consent is None or job.consent.is_of(bound.digest):
        return ""
    return f"nobody at {key.party} has approved job {key.job_id} with this document (flow job approve, there)"
