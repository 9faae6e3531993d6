"""Removal of what the tasks of a job made at this party, on request."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.errors import JobNotFound, NotFound, OperationFailed
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import RemoveTableFiles
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import has_workers
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Scope, TableMeta

MADE = "output"          # the origin of a table that a task wrote
_MOST_TABLES = 1_000     # removed at once


@dataclass(frozen=True)
class Cleaned:
    """What was removed."""

    tables: tuple[TableMeta, ...]
    metrics: int


def clean_job(unit: UnitOfWork, scope: Scope) -> Cleaned:
    """Remove the results in `scope`. Tables that the job did not make, but only handed on, stay."""
    check_over(unit, scope.job_id)
    made = tables_made(unit.tx, scope)
    _drop(unit, made)
    unit.tx.drop_results(scope)
    cleaned = Cleaned(made, unit.tx.drop_metrics(scope))
    text = f"job {scope.job_id}: {len(made)} tables and {cleaned.metrics} metrics were removed"
    unit.note(Event.JOB_NOTE, job_id=scope.job_id, text=text)
    return cleaned


def tables_made(tx: Transaction, scope: Scope) -> tuple[TableMeta, ...]:
    """Return the tables that these tasks wrote, without those that readers handed on."""
    named = {(one.namespace, one.name) for one in tx.results_of(scope.job_id) if scope.has(one.task)}
    found = [tx.table(namespace, name) for namespace, name in sorted(named)]
    return tuple(one for one in found if one is not None and (one.origin, one.job_id) == (MADE, scope.job_id))


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
    _drop(unit, found)
    return found


def _drop(unit: UnitOfWork, tables: tuple[TableMeta, ...]) -> None:
    for table in tables:
        unit.tx.drop_table(table.namespace, table.name)
    unit.after_commit(RemoveTableFiles(tables))
