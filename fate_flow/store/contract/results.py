"""The store contract for tables, metrics and summaries, and for connectors to database servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.values import Connector, Metric, OutputTable, Scope, TableMeta


class Results(Protocol):
    """Part of `contract.Transaction`."""

    def save_table(self, table: TableMeta, at: int) -> None: ...

    def table(self, namespace: str, name: str) -> TableMeta | None: ...

    def drop_table(self, namespace: str, name: str) -> bool: ...

    def output_tables(self, before: int, after: tuple[int, str, str], limit: int) -> tuple[TableMeta, ...]:
        """Return the tables that tasks made before a time, oldest first, behind `after` (create time, namespace,
        name)."""

    def save_outputs(self, outputs: Iterable[OutputTable], at: int) -> None: ...

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
        """Return the outputs of the newest version that has any, without tables that were only read."""

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None: ...

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        """Return the metrics of the newest version that has any, in pieces, as they were saved."""

    def metric_size(self, job_id: str) -> int:
        """Return about how many bytes the metrics of a job take, with the names and a fixed number for each piece."""

    def drop_metric(self, key: TaskKey, namespace: str, name: str) -> int:
        """Remove the pieces of one metric of a version of a party task; return the number of rows."""

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None: ...

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None: ...

    def results_of(self, job_id: str) -> tuple[OutputTable, ...]:
        """Return what all tasks of a job handed on or read here, in every version, by component and data name."""

    def jobs_with(self, namespace: str, name: str, limit: int) -> tuple[str, ...]:
        """Return the ids of the jobs whose tasks handed on or read this table here, each once, newest first."""

    def drop_results(self, scope: Scope) -> int:
        """Remove the rows about outputs and summaries, but not the tables; return the number of rows."""

    def drop_metrics(self, scope: Scope) -> int: ...

    def disabled_tables(self, limit: int) -> tuple[TableMeta, ...]: ...

    def save_connector(self, connector: Connector, at: int) -> None:
        """Save a connector; it replaces one with the same name."""

    def connector(self, name: str) -> Connector | None: ...
