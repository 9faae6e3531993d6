"""Limits of grants: how far the jobs of another party may use what this party lets them use.

A limit holds whether or not the configuration requires grants. This party's own jobs have none.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from fate_flow.core.access.permission import EVERYTHING, Kind, Reads, Thing
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import HandsTablesOn, KnowsColumns, ModuleInfo
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.text.phrases import counted

DAY = 86_400_000
"""Milliseconds: a use of a table counts for so long."""

OUTPUTS = "output_"
"""With this, the namespaces of tables begin that jobs made."""


@dataclass(frozen=True)
class TableLimits:
    """Limits of the use of one table; None: no limit."""

    columns: frozenset[str] | None = None      # the columns that tasks may read, besides the ids
    uses_a_day: int | None = None              # starts of tasks that read it, in any 24 hours


@dataclass(frozen=True)
class PartyLimits:
    """Limits of all jobs of one party; None: no limit, or that of the configuration."""

    cores: int | None = None                   # that its jobs may hold here at once
    approval: bool | None = None               # whether each of its jobs needs approval; None: as configured
    least_intersection: int | None = None      # ids or rows below which nothing that is computed of them may leave
    programs: frozenset[str] | None = None     # sha256:DIGEST of the programs that it may run; None: as configured
    gpus: int | None = None                    # as `cores`


@dataclass(frozen=True)
class Grants:
    """All that this party has granted to another one."""

    things: frozenset[Thing] = frozenset()
    tables: Mapping[Thing, TableLimits] = field(default_factory=dict)     # only tables with limits
    limits: PartyLimits = PartyLimits()
    by: str = ""                               # who changed the grants last; empty: not known
    at: int = 0                                # when; milliseconds since the epoch

    def limits_of(self, table: Thing) -> TableLimits:
        return self.tables.get(table, TableLimits())


_PLURALS = {Kind.COMPONENT: "components", Kind.DATASET: "tables"}


def described(grants: Grants) -> dict[Hashable, str]:
    """Return a line for each grant and each limit, in a fixed order, with a key that tells them apart.

    Two grants differ if their keys do: names may make equal lines."""
    lines: dict[Hashable, str] = {}
    for thing in EVERYTHING.values():
        if thing in grants.things:
            lines[thing] = f"all {_PLURALS[thing.kind]}"
    for thing in sorted(grants.things - set(EVERYTHING.values()), key=lambda one: (one.kind.value, str(one))):
        limits = grants.limits_of(thing)
        lines[thing, limits] = f"{thing}{_limits_text(limits)}"
    cores, approval, least = grants.limits.cores, grants.limits.approval, grants.limits.least_intersection
    if cores is not None:
        lines["cores", cores] = f"at most {counted(cores, 'core')} at once"
    if grants.limits.gpus is not None:
        lines["gpus", grants.limits.gpus] = f"at most {counted(grants.limits.gpus, 'GPU')} at once"
    if least is not None:
        lines["least_intersection", least] = f"intersections of at least {counted(least, 'id')}"
    if approval is not None:
        lines["approval", approval] = "approval of each job" if approval else "no approval of jobs"
    if grants.limits.programs is not None:
        lines["only listed programs"] = "no programs but those that are listed"
        for digest in sorted(grants.limits.programs):
            lines["program", digest] = f"program {digest}"
    return lines


def _limits_text(limits: TableLimits) -> str:
    found = []
    if limits.columns is not None:
        found.append(f"columns {', '.join(sorted(limits.columns))}" if limits.columns else "no columns")
    if limits.uses_a_day is not None:
        found.append(f"{counted(limits.uses_a_day, 'use')} a day")
    return f" ({'; '.join(found)})" if found else ""


@dataclass(frozen=True)
class TableUse:
    """What a job reads of this party's tables at one seat, as far as its document says."""

    spec: JobSpec
    party: Party
    modules: Mapping[str, ModuleInfo]
    reads: Reads

    def tables_read(self, task: TaskSpec) -> frozenset[Thing]:
        """Return the tables of which a start of the task is a use: those that its parameters name, and those that it
        gets from tasks that only hand them on. A task that only hands tables on uses none."""
        found = frozenset() if self._hands_on(task) else self._named(task)
        for producer in self._producers(task):
            if self._hands_on(producer):
                found |= self._named(producer)
        return found

    def beyond(self, task: TaskSpec, grants: Grants) -> Iterator[str]:
        """Yield text about what the task reads beyond the granted columns of tables with such a limit."""
        limited = {table: one.columns for table, one in grants.tables.items() if one.columns is not None}
        if limited:
            yield from self._outputs_beyond(task, grants)
            for table in sorted(self._tables_behind(task) & limited.keys(), key=str):
                yield from self._columns_beyond(task, table, limited[table])

    def _outputs_beyond(self, task: TaskSpec, grants: Grants) -> Iterator[str]:
        """Yield outputs of other jobs that are not granted by name: they may have any column of a limited table."""
        for table in sorted(self._named(task) - grants.things, key=str):
            if table.namespace.startswith(OUTPUTS):
                yield str(table)

    def _columns_beyond(self, task: TaskSpec, table: Thing, columns: Collection[str]) -> Iterator[str]:
        module = self.modules.get(task.module)
        wanted: Collection[str] = ()
        if isinstance(module, KnowsColumns):
            wanted = module.columns_read(task.parameters.get(self.party, {})).values()
        if not wanted and not self._keeps_columns(task):
            yield f"{table} as a whole (component {task.module})"
        for column in dict.fromkeys(wanted):
            if column not in columns:
                yield f"column {shown(column)} of {table}"

    def _tables_behind(self, task: TaskSpec) -> frozenset[Thing]:
        """Return the tables whose columns the task can read under their own names."""
        found, seen, open_tasks = self._named(task), {task.name}, [task]
        while open_tasks:
            for producer in self._producers(open_tasks.pop()):
                if producer.name not in seen and self._keeps_columns(producer):
                    seen.add(producer.name)
                    open_tasks.append(producer)
                    found |= self._named(producer)
        return found

    def _producers(self, task: TaskSpec) -> Iterator[TaskSpec]:
        for name in sorted(task.producers):
            producer = self.spec.tasks[name]
            if self.party in producer.parties and self.party not in producer.passed_at:
                yield producer

    def _named(self, task: TaskSpec) -> frozenset[Thing]:
        return frozenset(self.reads(task, self.party))

    def _hands_on(self, task: TaskSpec) -> bool:
        module = self.modules.get(task.module)
        return isinstance(module, HandsTablesOn) and module.only_hands_on

    def _keeps_columns(self, task: TaskSpec) -> bool:
        module = self.modules.get(task.module)
        return isinstance(module, KnowsColumns) and (
            module.columns_made(task.parameters.get(self.party, {}), ()) is not None
        )
