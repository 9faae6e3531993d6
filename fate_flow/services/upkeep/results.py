"""Removal of what the tasks of a job made at this party, on request."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.errors import JobNotFound, NotFound, OperationFailed
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.kind import Removed
from fate_flow.services.artifacts.tables import stored
from fate_flow.services.context.effects import RemoveArtifacts
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import has_workers
from fate_flow.store.values import Scope, TableMeta

_MOST_TABLES = 1_000     # removed at once


def clean_job(unit: UnitOfWork, scope: Scope) -> Mapping[str, Removed]:
    """Remove the results in `scope`, and return what was removed, by kind of artifact.

    Artifacts that the job did not make, but only handed on, stay."""
    check_over(unit, scope.job_id)
    kinds = unit.context.kinds
    removed = {name: kind.clear(unit.tx, scope) for name, kind in kinds.items()}
    unit.tx.drop_results(scope)
    unit.after_commit(RemoveArtifacts(tuple(one for each in removed.values() for one in each.artifacts)))
    counts = [f"{removed[name].rows} {kind.noun}s" for name, kind in kinds.items() if kind.has_rows]
    text = f"job {scope.job_id}: {' and '.join(counts)} were removed"
    unit.note(Event.JOB_NOTE, job_id=scope.job_id, text=text)
    return removed


def check_over(unit: UnitOfWork, job_id: str) -> None:
    """Check that the job is over here. Raises JobNotFound; OperationFailed if a seat is not over or a worker lives."""
    rows = unit.tx.jobs_here(job_id)
    if not rows:
        raise JobNotFound(f"can not found job {job_id}")
    for row in rows:
        stands = f"job {job_id} is {row.status.value}"
        if not row.is_final:
            raise OperationFailed(f"{stands}: only what is over is removed; flow job stop ends it")
        if has_workers(unit, row):
            raise OperationFailed(f"{stands}, and its last workers still end: try again in a moment")


def drop_disabled_tables(unit: UnitOfWork) -> tuple[TableMeta, ...]:
    found = unit.tx.disabled_tables(_MOST_TABLES)
    if not found:
        raise NotFound("no find table: none is disabled")
    for table in found:
        unit.tx.drop_table(table.namespace, table.name)
    unit.after_commit(RemoveArtifacts(tuple(map(stored, found))))
    return found
