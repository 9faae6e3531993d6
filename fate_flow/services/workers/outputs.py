"""The outputs of the shares of a task: published when the task has succeeded at all its parties, else dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.job import Task, TaskKey
from fate_flow.core.model.modules import KeepsTables, NamesOutputs, has_replicas
from fate_flow.core.model.status import TASK_BROKEN, TASK_END, TaskStatus
from fate_flow.core.planning.actions import MoveTask
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.services.context.effects import RemoveTableFiles
from fate_flow.services.context.ports import TaskOutputs
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.values import READ, Metric, OutputTable, TableMeta


def settle_outputs(unit: UnitOfWork, job_id: str, move: MoveTask) -> None:
    """Publish the outputs of this party's shares if the task has succeeded at all parties, else drop them.

    This follows the move of the federated status, so it is done once. Until then the outputs exist only in the worker's
    folder and in files that no row names. So no task reads an output of one party while another party still has to
    make its own."""
    for task in _finished_here(unit, job_id, move):
        if move.new is TaskStatus.SUCCESS:
            publish_outputs(unit, task)
        elif move.new in TASK_BROKEN:
            _drop(unit, task)


def _finished_here(unit: UnitOfWork, job_id: str, move: MoveTask) -> list[Task]:
    """Return this party's successful shares of a task that ends with this move."""
    if move.new not in TASK_END:
        return []
    keys = [TaskKey(job_id, move.name, move.version, seat.party) for seat in unit.tx.jobs_here(job_id)]
    found = [task for task in map(unit.tx.task, keys) if task is not None and task.runs_here]
    return [task for task in found if task.party_status is TaskStatus.SUCCESS]


def _made_by(unit: UnitOfWork, task: Task) -> TaskOutputs:
    if has_replicas(unit.context.modules, task.module):
        every = unit.tx.workers_of_task(task.key)
        worker = next((one for one in every if one.slot == COLLECTOR), None)
    else:
        worker = unit.tx.worker(task.worker_id) if task.worker_id else None
    return unit.context.engine.observe(worker).made if worker is not None else TaskOutputs()


def _drop(unit: UnitOfWork, task: Task) -> None:
    """Drop the tables of this attempt, but not those that it only handed on."""
    for _, table in _made_by(unit, task).tables:
        if table.namespace == f"output_{task.key.job_id}" and unit.tx.table(table.namespace, table.name) is None:
            unit.after_commit(RemoveTableFiles((table,)))


def publish_outputs(unit: UnitOfWork, task: Task) -> None:
    """Store what the worker made: tables, metrics, summary."""
    made, names = _made_by(unit, task), _aliases(unit, task)
    outputs = []
    for key, table in made.tables:
        saved = _save_table(unit, task, table)
        outputs.append(OutputTable(task.key, names.get(key, key), table.namespace, table.name, saved.job_id))
    unit.tx.save_outputs([*outputs, *_read_by(unit, task)], unit.now)
    unit.tx.save_metrics((Metric(task.key, *metric) for metric in made.metrics), unit.now)
    if made.summary:
        unit.tx.save_summary(task.key, made.summary, unit.now)


def _read_by(unit: UnitOfWork, task: Task) -> list[OutputTable]:
    """Return the table that the task read by its parameters, for the lineage.

    A table in the parameter `table` needs no entry: the task hands it on as its output."""
    spec = unit.spec(task.key.job_id)
    if spec is None or not spec.tasks[task.key.name].reads_by_name:
        return []
    table = spec.tasks[task.key.name].table_at(task.key.party)
    return [OutputTable(task.key, READ, *table)] if table else []


def _parameters(unit: UnitOfWork, task: Task) -> Mapping[str, Any]:
    """Return the parameters of the task at this party."""
    spec = unit.spec(task.key.job_id)
    return spec.tasks[task.key.name].parameters.get(task.key.party, {}) if spec is not None else {}


def _aliases(unit: UnitOfWork, task: Task) -> dict[str, str]:
    """Return the DSL's names of a component's outputs, by the component's own names, in their order."""
    spec = unit.spec(task.key.job_id)
    if spec is None:
        return {}
    aliases = [one.alias for one in spec.tasks[task.key.name].outputs if one.kind == "data"]
    module = unit.context.modules.get(task.module)
    return dict(zip(module.outputs, aliases, strict=False)) if isinstance(module, NamesOutputs) else {}


def _save_table(unit: UnitOfWork, task: Task, table: TableMeta) -> TableMeta:
    """Store the row of a table. A component that only hands on a table does not change its row."""
    given = _parameters(unit, task)
    module = unit.context.modules.get(task.module)
    origin = module.table_origin(given) if isinstance(module, KeepsTables) else ""
    known = unit.tx.table(table.namespace, table.name)
    if known is not None and known.uri == table.uri and not origin:
        return known
    saved = _as_kept(table, origin, given) if origin else table
    unit.tx.save_table(saved, unit.now)
    return saved


def _as_kept(table: TableMeta, origin: str, given: Mapping[str, Any]) -> TableMeta:
    """Return the table with the settings that the parameters of the task give.

    The removal of a job's results does not touch a table of this origin."""
    return replace(
        table, origin=origin, partitions=given.get("partition") or 1,
        id_delimiter=given.get("id_delimiter") or ",",
        have_head=bool(given.get("head", 1)), extend_sid=bool(given.get("extend_sid")),
    )
