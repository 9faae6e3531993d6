"""The check of the tables of this party that a job names, and of their columns, before any of its tasks runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import KnowsColumns, MakesNamedTable, ModuleInfo
from fate_flow.core.model.spec import JobSpec, NamedTable, Party, TaskSpec
from fate_flow.jobspec.text.document import nearest
from fate_flow.services.artifacts.inputs import why_unreadable
from fate_flow.services.artifacts.kinds import Kinds
from fate_flow.services.artifacts.tables import table_named, table_of_output
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import TableMeta

_MOST_COLUMNS = 50


def _called(table: TableMeta, task: TaskSpec, party: Party, is_own: bool) -> str:
    output = None if is_own else task.output_at(party)
    return f"table {table.namespace}.{table.name}" if output is None else str(output)


@dataclass(frozen=True)
class TablesAtSubmit:
    """The check of a job's tables at one seat of this party, before any task runs.

    A table that another task of the job makes need not exist yet; its columns are unknown then. A rerun is not checked
    again: it reads the table that exists."""

    tx: Transaction
    kinds: Kinds
    modules: Mapping[str, ModuleInfo]
    spec: JobSpec
    party: Party
    own_seats: tuple[Party, ...]

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the tables that tasks read here; each text begins with the task."""
        for task in self.spec.tasks_of(self.party):
            if self.party not in task.passed_at:
                problem = self._unreadable(task)
                for one in [problem] if problem else self._columns(task):
                    yield f"{task.name} ({task.module}): {one}"

    def _unreadable(self, task: TaskSpec) -> str:
        named = task.table_at(self.party)
        stored = [(one.namespace, one.name) for one in task.stored_at(self.party) if isinstance(one, NamedTable)]
        made_here = self._made_here() if stored or named else set()
        may_come = self._is_spared(task) or any(one in made_here for one in (named, *stored) if one is not None)
        problem = why_unreadable(self.kinds, self.tx, task, self.party, self._is_own, may_come)
        if problem or may_come or named is None or self.tx.table(*named) is not None:
            return problem
        return f"there is no table {'.'.join(named)} at {self.party} (flow data upload, there)"

    @property
    def _is_own(self) -> bool:
        return self.spec.initiator in self.own_seats

    def _is_spared(self, task: TaskSpec) -> bool:
        """Return whether the job may go on without this party's share of the task."""
        return self.party.role in task.min_available and self.party.role in task.goes_on_without

    def _made_here(self) -> set[tuple[str, str] | None]:
        """Return namespace and name of the tables that tasks of this job make at this server by their parameters."""
        found: set[tuple[str, str] | None] = set()
        for task in self.spec.tasks.values():
            module = self.modules.get(task.module)
            if isinstance(module, MakesNamedTable):
                here = (one for one in task.parties if one in self.own_seats)
                found |= {module.table_made(task.parameters.get(party, {})) for party in here}
        return found

    def _columns(self, task: TaskSpec) -> Iterator[str]:
        module = self.modules.get(task.module)
        wanted: Mapping[str, str] = {}
        if isinstance(module, KnowsColumns):
            wanted = module.columns_read(task.parameters[self.party])
        read = self._read_by(task) if wanted else None
        if read is None:
            return
        called, columns = read
        for key, column in wanted.items():
            if column not in columns:
                yield (
                    f"{key}: {called} has no column {shown(column)} at {self.party}"
                    f"{self._there_are(column, columns)}"
                )

    def _there_are(self, column: str, columns: tuple[str, ...]) -> str:
        """Return text about the table's columns. Only its own party sees their names."""
        if not self._is_own:
            return " (flow table info, there, lists its columns)"
        more = f" and {len(columns) - _MOST_COLUMNS} more" if len(columns) > _MOST_COLUMNS else ""
        return f"; its columns are: {', '.join(columns[:_MOST_COLUMNS]) or 'none'}{more}{nearest(column, columns)}"

    def _read_by(self, task: TaskSpec) -> tuple[str, tuple[str, ...]] | None:
        """Return name and columns of the table that the only data input of a task gets; None if they are unknown."""
        sources = [source for one in task.inputs if one.kind == "data" for source in one.sources]
        return self._made_by(self.spec.tasks[sources[0].producer]) if len(sources) == 1 else None

    def _made_by(self, task: TaskSpec) -> tuple[str, tuple[str, ...]] | None:
        module = self.modules.get(task.module)
        if not isinstance(module, KnowsColumns):
            return None
        read = self._read_by(task) if task.inputs else self._named_by(task)
        if read is None:
            return None
        columns = module.columns_made(task.parameters.get(self.party, {}), read[1])
        return None if columns is None else (read[0], columns)

    def _named_by(self, task: TaskSpec) -> tuple[str, tuple[str, ...]] | None:
        table: TableMeta | str | None
        if task.output_at(self.party):
            table = table_of_output(self.tx, task, self.party)
        else:
            table = None if task.table_at(self.party) in self._made_here() else table_named(self.tx, task, self.party)
        header = table.schema.get("header") if isinstance(table, TableMeta) else None
        if not isinstance(table, TableMeta) or not isinstance(header, (list, tuple)):
            return None
        if table.is_disabled and not self._is_own:
            return None
        return _called(table, task, self.party, self._is_own), tuple(map(str, header))
