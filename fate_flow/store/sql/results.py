"""The results of tasks: tables, metrics, summaries; and connectors to database servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from peewee import Model, Value, fn

from fate_flow.core.metrics.form import PIECE_BYTES
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.database.models import ConnectorRow, StorageTableRow
from fate_flow.store.database.prepared import Prepared, insert
from fate_flow.store.database.result_rows import MetricRow, OutputRow, SummaryRow
from fate_flow.store.sql.unit import SqlUnitOfWork
from fate_flow.store.values import READ, Connector, Metric, OutputTable, Scope, TableMeta

M = TypeVar("M", bound=Model)


class Results(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def save_table(self, table: TableMeta, at: int) -> None:
        self.drop_table(table.namespace, table.name)
        insert(self._database, StorageTableRow, {
            "f_namespace": table.namespace, "f_name": table.name, "f_address": table.uri, "f_engine": "STANDALONE",
            "f_count": table.count, "f_schema": to_json(dict(table.schema)), "f_partitions": table.partitions,
            "f_origin": table.origin, "f_job_id": table.job_id, "f_id_delimiter": table.id_delimiter,
            "f_have_head": table.have_head, "f_extend_sid": table.extend_sid, "f_disable": table.is_disabled,
            "f_create_time": at, "f_replaced": table.replaced,
        })  # fmt: skip

    def table(self, namespace: str, name: str) -> TableMeta | None:
        row = _TABLE.row(self._database, namespace, name)
        found = None if row is None else _table_of(_read(StorageTableRow, row))
        # For MariaDB, `a ` and `a` are one name; limits are looked for by the name that was asked for.
        return found if found is not None and (found.namespace, found.name) == (namespace, name) else None

    def drop_table(self, namespace: str, name: str) -> bool:
        return bool(_DROP_TABLE.run(self._database, namespace, name))

    def output_tables(self, before: int, after: tuple[int, str, str], limit: int) -> tuple[TableMeta, ...]:
        row = StorageTableRow
        at, namespace, name = after
        behind = (
            (row.f_create_time > at)
            | (row.f_namespace > namespace)
            | ((row.f_namespace == namespace) & (row.f_name > name))
        )
        aged = (row.f_create_time >= at) & (row.f_create_time < before)
        query = row.select().where((row.f_origin == "output") & aged & behind)
        by_age = query.order_by(row.f_create_time, row.f_namespace, row.f_name)
        return tuple(_table_of(one) for one in by_age.limit(limit))

    def save_outputs(self, outputs: Iterable[OutputTable], at: int) -> None:
        for one in outputs:
            key = one.task
            insert(self._database, OutputRow, {
                "f_job_id": key.job_id, "f_component_name": key.name, "f_task_id": key.task_id,
                "f_task_version": key.version, "f_data_name": one.data_name, "f_role": key.party.role,
                "f_party_id": key.party.party_id, "f_table_name": one.name, "f_table_namespace": one.namespace,
                "f_written_by": one.written_by, "f_create_time": at,
            }, replaces=True)  # fmt: skip

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
        made = OutputRow.select().where(_made_by(OutputRow, job_id, task, party) & (OutputRow.f_data_name != READ))
        rows = list(made.order_by(OutputRow.f_data_name))
        newest = max((row.f_task_version for row in rows), default=0)
        return tuple(
            _output_of(row)
            for row in rows
            if row.f_task_version == newest
        )

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None:
        for one in metrics:
            key = one.task
            row = {
                "f_job_id": key.job_id, "f_component_name": key.name, "f_task_id": key.task_id,
                "f_task_version": key.version, "f_role": key.party.role, "f_party_id": key.party.party_id,
                "f_metric_namespace": one.namespace, "f_metric_name": one.name,
                "f_data": to_json([list(pair) for pair in one.data]), "f_meta": to_json(dict(one.meta)),
                "f_create_time": at,
            }  # fmt: skip
            insert(self._database, MetricRow, row)

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        found = _METRICS.rows(self._database, job_id, task, party.role, party.party_id)
        newest = max((row[_VERSION] for row in found), default=0)
        return tuple(metric_of(_read(MetricRow, row)) for row in found if row[_VERSION] == newest)

    def metric_size(self, job_id: str) -> int:
        row = _METRIC_SIZE.row(self._database, job_id)
        return int(row[0] or 0) if row else 0

    def drop_metric(self, key: TaskKey, namespace: str, name: str) -> int:
        of_version = (key.job_id, key.name, key.party.role, key.party.party_id, key.version)
        return _DROP_METRIC.run(self._database, *of_version, namespace, name)

    def results_of(self, job_id: str) -> tuple[OutputTable, ...]:
        row = OutputRow
        query = row.select().where(row.f_job_id == job_id)
        by_name = query.order_by(row.f_component_name, row.f_data_name, row.f_task_version, row.f_role, row.f_party_id)
        return tuple(_output_of(one) for one in by_name)

    def jobs_with(self, namespace: str, name: str, limit: int) -> tuple[str, ...]:
        row = OutputRow
        is_it = (row.f_table_namespace == namespace) & (row.f_table_name == name)
        query = row.select(row.f_job_id).where(is_it).distinct().order_by(row.f_job_id.desc()).limit(limit)
        return tuple(found[0] for found in query.tuples())

    def drop_results(self, scope: Scope) -> int:
        return sum(int(model.delete().where(_in_scope(model, scope)).execute()) for model in (OutputRow, SummaryRow))

    def drop_metrics(self, scope: Scope) -> int:
        return int(MetricRow.delete().where(_in_scope(MetricRow, scope)).execute())

    def disabled_tables(self, limit: int) -> tuple[TableMeta, ...]:
        row = StorageTableRow
        query = row.select().where(row.f_disable == True).order_by(row.f_namespace, row.f_name)  # noqa: E712
        return tuple(_table_of(one) for one in query.limit(limit))

    def save_connector(self, connector: Connector, at: int) -> None:
        ConnectorRow.replace(
            f_name=connector.name, f_engine=connector.engine, f_connector_info=to_json(dict(connector.info)),
            f_create_time=at,
        ).execute()  # fmt: skip

    def connector(self, name: str) -> Connector | None:
        row = ConnectorRow.get_or_none(ConnectorRow.f_name == name)
        return None if row is None else Connector(row.f_name, row.f_engine, from_json(row.f_connector_info))

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None:
        values = {
            "f_job_id": key.job_id, "f_role": key.party.role, "f_party_id": key.party.party_id,
            "f_component_name": key.name, "f_task_id": key.task_id, "f_task_version": key.version,
            "f_summary": to_json(dict(summary)), "f_create_time": at,
        }  # fmt: skip
        insert(self._database, SummaryRow, values, replaces=True)

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        query = SummaryRow.select(SummaryRow.f_summary).where(_made_by(SummaryRow, job_id, task, party))
        row = query.order_by(SummaryRow.f_task_version.desc()).tuples().first()
        return from_json(row[0]) if row else None


def metric_of(row: MetricRow) -> Metric:
    key = TaskKey(row.f_job_id, row.f_component_name, row.f_task_version or 0, Party(row.f_role, row.f_party_id))
    data = tuple(map(tuple, json.loads(row.f_data)))
    return Metric(key, row.f_metric_namespace, row.f_metric_name, data, from_json(row.f_meta))


def _table_is(namespace: str, name: str) -> Any:
    return (StorageTableRow.f_namespace == namespace) & (StorageTableRow.f_name == name)


def _table_of(row: StorageTableRow) -> TableMeta:
    return TableMeta(
        row.f_namespace, row.f_name, row.f_address, row.f_count or 0, from_json(row.f_schema),
        row.f_partitions or 1, row.f_origin, row.f_job_id, row.f_id_delimiter or ",", row.f_have_head,
        row.f_disable, row.f_create_time or 0, row.f_extend_sid, row.f_replaced,
    )  # fmt: skip


def _output_of(row: OutputRow) -> OutputTable:
    key = TaskKey(row.f_job_id, row.f_component_name, row.f_task_version, Party(row.f_role, row.f_party_id))
    return OutputTable(key, row.f_data_name, row.f_table_namespace, row.f_table_name, row.f_written_by)


def _made_by(model: Any, job_id: str, task: str, party: Party) -> Any:
    return (
        (model.f_job_id == job_id)
        & (model.f_component_name == task)
        & (model.f_role == party.role)
        & (model.f_party_id == party.party_id)
    )


def _read(model: type[M], row: tuple[Any, ...]) -> M:
    """Return the model of a row with all its columns."""
    fields = model._meta.sorted_fields
    found: M = model(**{field.name: field.python_value(one) for field, one in zip(fields, row, strict=True)})
    return found


_TABLE = Prepared(lambda namespace, name: StorageTableRow.select().where(_table_is(namespace, name)), 2)
_DROP_TABLE = Prepared(lambda namespace, name: StorageTableRow.delete().where(_table_is(namespace, name)), 2)
_VERSION = [field.name for field in MetricRow._meta.sorted_fields].index("f_task_version")
_METRICS = Prepared(
    lambda job_id, task, role, party_id: (
        MetricRow.select().where(_made_by(MetricRow, job_id, task, Party(role, party_id))).order_by(MetricRow.f_id)
    ),
    4,
)
_DROP_METRIC = Prepared(
    lambda job_id, task, role, party_id, version, namespace, name: MetricRow.delete().where(
        _made_by(MetricRow, job_id, task, Party(role, party_id))
        & (MetricRow.f_task_version == Value(version, converter=False))
        & (MetricRow.f_metric_namespace == namespace)
        & (MetricRow.f_metric_name == name)
    ),
    7,
)
_SIZED = (MetricRow.f_metric_namespace, MetricRow.f_metric_name, MetricRow.f_data, MetricRow.f_meta)
_METRIC_SIZE = Prepared(
    lambda job_id: MetricRow.select(
        fn.SUM(sum((fn.LENGTH(one) for one in _SIZED), start=Value(PIECE_BYTES)))
    ).where(MetricRow.f_job_id == job_id),
    1,
)


def _in_scope(model: Any, scope: Scope) -> Any:
    where = model.f_job_id == scope.job_id
    if scope.party is not None:
        where &= (model.f_role == scope.party.role) & (model.f_party_id == scope.party.party_id)
    return where & (model.f_component_name == scope.task) if scope.task else where
