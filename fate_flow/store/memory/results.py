"""The results of tasks and connectors, in memory; the counterpart of `sql/results.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.metrics.form import PIECE_BYTES
from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.contract.changes import newest_version
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.memory.tables import BY_JOB, BY_MAKER, as_json
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import READ, Connector, Metric, OutputTable, Scope, TableMeta


class Results(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def save_table(self, table: TableMeta, at: int) -> None:
        kept = changed(
            table, schema=as_json(table.schema), partitions=table.partitions or 1,
            id_delimiter=table.id_delimiter or ",", create_time=at,
        )  # fmt: skip
        self._rows.tables.put((table.namespace, table.name), kept)

    def table(self, namespace: str, name: str) -> TableMeta | None:
        return self._rows.tables.rows.get((namespace, name))

    def drop_table(self, namespace: str, name: str) -> bool:
        return self._rows.tables.drop((namespace, name))

    def output_tables(self, before: int, after: tuple[int, str, str], limit: int) -> tuple[TableMeta, ...]:
        made = [one for one in self._rows.tables.rows.values() if one.origin == "output"]
        aged = sorted((one for one in made if after < _table_age(one) and one.create_time < before), key=_table_age)
        return tuple(aged)[:limit]

    def save_outputs(self, outputs: Iterable[OutputTable], at: int) -> None:  # noqa: ARG002
        for one in outputs:
            self._rows.outputs.put((one.task, one.data_name), one)

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
        rows = [row for row in self._rows.outputs.of(BY_MAKER, (job_id, task, party)) if row.data_name != READ]
        newest = newest_version(row.task for row in rows)
        return tuple(sorted((row for row in rows if row.task.version == newest), key=lambda row: row.data_name))

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None:  # noqa: ARG002
        for one in metrics:
            pairs = from_json(to_json({"data": [list(pair) for pair in one.data]}))["data"]
            kept = changed(one, data=tuple(map(tuple, pairs)), meta=as_json(one.meta))
            number = next(self._rows.metric_ids)
            self._rows.metrics.put(number, (number, kept))

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        rows = [row for _, row in sorted(self._rows.metrics.of(BY_MAKER, (job_id, task, party)), key=_number)]
        newest = newest_version(row.task for row in rows)
        return tuple(row for row in rows if row.task.version == newest)

    def metric_size(self, job_id: str) -> int:
        every = [one for _, one in self._rows.metrics.rows.values() if one.task.job_id == job_id]
        return sum(
            PIECE_BYTES + len(one.namespace) + len(one.name)
            + len(to_json([list(pair) for pair in one.data])) + len(to_json(dict(one.meta)))
            for one in every
        )  # fmt: skip

    def drop_metric(self, key: TaskKey, namespace: str, name: str) -> int:
        rows = self._rows.metrics.rows.items()
        gone = [
            number for number, (_, one) in rows if (one.task, one.namespace, one.name) == (key, namespace, name)
        ]
        return sum(self._rows.metrics.drop(number) for number in gone)

    def results_of(self, job_id: str) -> tuple[OutputTable, ...]:
        made = self._rows.outputs.of(BY_JOB, job_id)
        return tuple(sorted(made, key=lambda one: (one.task.name, one.data_name, one.task.version, one.task.party)))

    def jobs_with(self, namespace: str, name: str, limit: int) -> tuple[str, ...]:
        every = self._rows.outputs.rows.values()
        found = {one.task.job_id for one in every if (one.namespace, one.name) == (namespace, name)}
        return tuple(sorted(found, reverse=True))[:limit]

    def drop_results(self, scope: Scope) -> int:
        rows = self._rows
        outputs = [key for key, one in rows.outputs.rows.items() if scope.has(one.task)]
        summaries = [key for key in rows.summaries.rows if scope.has(key)]
        return sum([rows.outputs.drop(key) for key in outputs] + [rows.summaries.drop(key) for key in summaries])

    def drop_metrics(self, scope: Scope) -> int:
        gone = [number for number, (_, one) in self._rows.metrics.rows.items() if scope.has(one.task)]
        return sum(self._rows.metrics.drop(number) for number in gone)

    def disabled_tables(self, limit: int) -> tuple[TableMeta, ...]:
        hidden = [one for one in self._rows.tables.rows.values() if one.is_disabled]
        return tuple(sorted(hidden, key=lambda one: (one.namespace, one.name)))[:limit]

    def save_connector(self, connector: Connector, at: int) -> None:  # noqa: ARG002  # only SQL stores the time
        self._rows.connectors.put(connector.name, changed(connector, info=as_json(connector.info)))

    def connector(self, name: str) -> Connector | None:
        return self._rows.connectors.rows.get(name)

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None:  # noqa: ARG002
        self._rows.summaries.put(key, (key, as_json(summary)))

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        rows = self._rows.summaries.of(BY_MAKER, (job_id, task, party))
        return max(rows, key=lambda row: row[0].version)[1] if rows else None


def _table_age(table: TableMeta) -> tuple[int, str, str]:
    return (table.create_time, table.namespace, table.name)


def _number(row: tuple[int, Metric]) -> int:
    return row[0]
