"""Tables: rows of `t_storage_table_meta`, and in `t_tracking_output_data_info` which task made or read them.

Besides outputs, tasks read tables that their parameters name: by namespace and name, or as an output of another job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fate_flow.core.access.permission import Kind, Thing
from fate_flow.core.model.artifact import DATA, TABLE, Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.modules import DescribesArtifacts, KeepsTables, output_names
from fate_flow.core.model.spec import NamedOutput, NamedTable, Party, Stored, TaskSpec
from fate_flow.services.artifacts.kind import ArtifactKind, Kept, Maker, Removed
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import READ, OutputTable, Scope, TableMeta

MADE = "output"          # the origin of a table that a task wrote


class TableKind(ArtifactKind):
    port = "data"
    noun = "table"
    has_rows = True

    # ------------------------------------------------------------------ when a task has ended

    def publish(self, tx: Transaction, maker: Maker, artifacts: Sequence[Artifact]) -> None:
        names, outputs = _names(maker), list[OutputTable]()
        for one in artifacts:
            table, data_name = _save(tx, maker, _as_made(one)), names.get(one.key, one.key)
            if _is_multi(maker, one.key):
                data_name = _part(data_name, sum(_is_part(each.data_name, data_name) for each in outputs))
            outputs.append(OutputTable(maker.task, data_name, table.namespace, table.name, table.job_id))
        tx.save_outputs([*outputs, *_read_by(maker)], maker.at)

    def is_of_attempt(self, tx: Transaction, task: TaskKey, artifact: Artifact) -> bool:
        """Return False for a table that the task only handed on."""
        namespace, name = _name_of(artifact)
        return namespace == f"output_{task.job_id}" and tx.table(namespace, name) is None

    # ------------------------------------------------------------------ for the next task

    def is_published(self, tx: Transaction, task: TaskKey) -> bool:
        return any(one.task.version == task.version for one in tx.outputs(task.job_id, task.name, task.party))

    def published(self, tx: Transaction, job_id: str, task: str, party: Party, name: str) -> tuple[Artifact, ...]:
        """Return the tables with `namespace`, `name` and, if they still exist, `schema` in their metadata."""
        return tuple(_as_published(tx, each) for each in tables_of(tx.outputs(job_id, task, party), name))

    def why_unreadable(self, tx: Transaction, task: TaskSpec, party: Party, is_own: bool, may_come: bool) -> str:
        """Return why the task cannot read its table.

        For a job of this party, the caller looks for a named table that is missing. Other parties only see the names
        that they wrote themselves, and not whether a table is missing or disabled."""
        for one in task.stored_at(party):
            if problem := _why_not_stored(tx, one, party, is_own, may_come):
                return problem
        output, named = task.output_at(party), task.table_at(party)
        table = table_named(tx, task, party) if output is None else table_of_output(tx, task, party)
        if is_own:
            return table if isinstance(table, str) else _disabled(table, party)
        is_usable = isinstance(table, TableMeta) and not table.is_disabled
        if is_usable or (output is None and (named is None or may_come)):
            return ""
        called = f"table {'.'.join(named)}" if output is None and named is not None else str(output)
        return f"{called} is missing or disabled at {party} (flow table info, there, says which)"

    def parameters(self, tx: Transaction, task: TaskSpec, party: Party, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters, with an output of another job replaced by the name of its table."""
        table = table_of_output(tx, task, party) if task.output_at(party) else ""
        if isinstance(table, str):
            return given
        return {**given, "table": {"namespace": table.namespace, "name": table.name}}

    def grants(self, task: TaskSpec, party: Party) -> Iterator[Thing]:
        if (table := task.table_at(party)) is not None:
            namespace, name = table
            yield Thing(Kind.DATASET, name, namespace)
        if (output := task.output_at(party)) is not None:
            yield _thing_of(output)
        for one in task.stored_at(party):
            yield Thing(Kind.DATASET, one.name, one.namespace) if isinstance(one, NamedTable) else _thing_of(one)

    def stored(self, tx: Transaction, one: Stored, party: Party) -> Artifact | None:
        """Return the table, which may be one that a task made of a data frame."""
        table = tx.table(one.namespace, one.name) if isinstance(one, NamedTable) else table_of(tx, one, party)
        return _as_input(table) if isinstance(table, TableMeta) else None

    # ------------------------------------------------------------------ removal

    def made(self, tx: Transaction, scope: Scope) -> tuple[Kept, ...]:
        """Return the tables that these tasks wrote, without those that readers handed on."""
        named = {(one.namespace, one.name) for one in tx.results_of(scope.job_id) if scope.has(one.task)}
        found = [tx.table(namespace, name) for namespace, name in sorted(named)]
        return tuple(
            _kept(one) for one in found if one is not None and (one.origin, one.job_id) == (MADE, scope.job_id)
        )

    def older(self, tx: Transaction, before: int, after: tuple[Any, ...] | None, limit: int) -> tuple[Kept, ...]:
        at, namespace, name = after or (0, "", "")
        return tuple(map(_kept, tx.output_tables(before, (at, namespace, name), limit)))

    def forget(self, tx: Transaction, kept: Kept) -> bool:
        namespace, name = _name_of(kept.artifact)
        table = tx.table(namespace, name)
        return table is not None and _kept(table) == kept and tx.drop_table(namespace, name)

    def clear(self, tx: Transaction, scope: Scope) -> Removed:
        found = self.made(tx, scope)
        for one in found:
            tx.drop_table(*_name_of(one.artifact))
        return Removed(tuple(one.artifact for one in found), len(found))


_PART = "."     # no name of an output has it


def _part(name: str, index: int) -> str:
    """Return the name of one of several tables that a task makes as one output."""
    return f"{name}{_PART}{index}"


def _is_part(data_name: str, name: str) -> bool:
    return data_name.startswith(f"{name}{_PART}")


def _is_multi(maker: Maker, key: str) -> bool:
    info = maker.module.outputs.get(key) if isinstance(maker.module, DescribesArtifacts) else None
    return info is not None and info.is_multi


def _names(maker: Maker) -> dict[str, str]:
    """Return the names of outputs in the document, by the keys that the component has for them."""
    return output_names(maker.module, maker.spec.outputs, DATA, maker.spec.stage) if maker.spec is not None else {}


def _as_published(tx: Transaction, made: OutputTable) -> Artifact:
    table = tx.table(made.namespace, made.name)
    if table is None:
        return Artifact(TABLE, "", {"namespace": made.namespace, "name": made.name})
    return _as_input(table)


def _as_input(table: TableMeta) -> Artifact:
    metadata = {"namespace": table.namespace, "name": table.name, "schema": dict(table.schema)}
    return Artifact(TABLE, table.uri, metadata)


def tables_of(outputs: Iterable[OutputTable], name: str) -> list[OutputTable]:
    """Return the table that is the output with this name, or all of them in order if the component makes several."""
    made = {one.data_name: one for one in outputs}
    if name in made:
        return [made[name]]
    parts = (one for one in made if _is_part(one, name))
    return [made[one] for one in sorted(parts, key=lambda one: (len(one), one))]     # .2 before .10


def stored(table: TableMeta) -> Artifact:
    """Return a table of this party as an artifact."""
    return Artifact(TABLE, table.uri, {"namespace": table.namespace, "name": table.name})


def table_named(tx: Transaction, task: TaskSpec, party: Party) -> TableMeta | None:
    """Return the table that the parameters name by namespace and name."""
    named = task.table_at(party)
    return tx.table(*named) if named else None


def table_of_output(tx: Transaction, task: TaskSpec, party: Party) -> TableMeta | str:
    """Return the table of the other job's output that the parameters name, or text that says why there is none."""
    output = task.output_at(party)
    assert output is not None, "the parameters name an output"
    return table_of(tx, output, party)


def table_of(tx: Transaction, output: NamedOutput, party: Party) -> TableMeta | str:
    """Return the table of another job's output at this party, or text that says why there is none."""
    made = {one.data_name: one for one in tx.outputs(output.job_id, output.task, party)}
    found = made.get(output.data_name)
    table = tx.table(found.namespace, found.name) if found else None
    return table or f"{output} has no table at {party} (flow component output-data-table, there, shows what there is)"


def _why_not_stored(tx: Transaction, one: Stored, party: Party, is_own: bool, may_come: bool) -> str:
    """Return why an input cannot be read from the store of this party. Others do not hear whether it is missing or
    disabled."""
    table = tx.table(one.namespace, one.name) if isinstance(one, NamedTable) else table_of(tx, one, party)
    if isinstance(table, TableMeta) and not table.is_disabled:
        return ""
    if isinstance(one, NamedTable) and table is None and may_come:
        return ""
    if not is_own:
        return f"{one} is missing or disabled at {party} (flow table info, there, says which)"
    if isinstance(table, TableMeta):
        return _disabled(table, party)
    return table or f"there is no {one} at {party} (flow data upload, there)"


def _thing_of(output: NamedOutput) -> Thing:
    return Thing(Kind.DATASET, f"{output.task}.{output.data_name}", f"output_{output.job_id}")


def _disabled(table: TableMeta | None, party: Party) -> str:
    if table is None or not table.is_disabled:
        return ""
    return f"table {table.namespace}.{table.name} is disabled at {party} (flow table enable, there)"


def _name_of(artifact: Artifact) -> tuple[str, str]:
    return artifact.metadata["namespace"], artifact.metadata["name"]


def _kept(table: TableMeta) -> Kept:
    return Kept(
        stored(table), table.job_id, f"{table.namespace} {table.name}",
        frozenset({table.namespace, table.name}), (table.create_time, table.namespace, table.name),
    )  # fmt: skip


def _as_made(artifact: Artifact) -> TableMeta:
    meta = artifact.metadata
    return TableMeta(
        meta["namespace"], meta["name"], artifact.uri, meta["count"], meta["schema"], origin=MADE,
        job_id=meta["job_id"], replaced=meta["replaced"],
    )  # fmt: skip


def _save(tx: Transaction, maker: Maker, table: TableMeta) -> TableMeta:
    """Store the row of a table. A component that only hands on a table does not change its row."""
    given = maker.parameters
    origin = maker.module.table_origin(given) if isinstance(maker.module, KeepsTables) else ""
    known = tx.table(table.namespace, table.name)
    if known is not None and known.uri == table.uri and not origin:
        return known
    saved = _as_kept(table, origin, given) if origin else table
    if known is not None and known.is_disabled:
        saved = replace(saved, is_disabled=True)     # who uploads it anew need not be one who may enable it
    tx.save_table(saved, maker.at)
    return saved


def _as_kept(table: TableMeta, origin: str, given: Mapping[str, Any]) -> TableMeta:
    """Return the table with the settings that the parameters of the task give.

    The removal of a job's results does not touch a table of this origin."""
    return replace(
        table, origin=origin, partitions=given.get("partition") or 1,
        id_delimiter=given.get("id_delimiter") or ",",
        have_head=bool(given.get("head", 1)), extend_sid=bool(given.get("extend_sid")),
    )


def _read_by(maker: Maker) -> list[OutputTable]:
    """Return the table that the task read by its name, so that it is known what its own were made from.

    A table in the parameter `table` needs no entry: the task hands it on as its output."""
    if maker.spec is None:
        return []
    table = maker.spec.table_at(maker.task.party) if maker.spec.reads_by_name else None
    stored = [one for one in maker.spec.stored_at(maker.task.party) if isinstance(one, NamedTable)]
    if table is None and stored:         # a row for each task: of several tables, the first one
        table = stored[0].namespace, stored[0].name
    return [OutputTable(maker.task, READ, *table)] if table else []
