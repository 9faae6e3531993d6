"""Tables of this party, and connectors to tables elsewhere, as clients manage them."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import shown
from fate_flow.services.artifacts.tables import stored
from fate_flow.services.context.effects import RemoveArtifacts
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.upkeep.results import drop_disabled_tables
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_act, table_text
from fate_flow.store.values import Connector, TableMeta


class Tables:
    """Tables and connectors of this party."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def drop_table(self, namespace: str, name: str, by: str = "") -> None:
        """Remove a table, row and file. Raises NotFound."""

        def drop(unit: UnitOfWork) -> None:
            table = _table(unit, namespace, name)
            unit.tx.drop_table(namespace, name)
            unit.after_commit(RemoveArtifacts((stored(table),)))
            _note(unit, namespace, name, "deleted", by)

        self._units.carry_out(drop, is_repeatable=False)

    def drop_disabled_tables(self, by: str = "") -> tuple[TableMeta, ...]:
        """Remove all tables that jobs may not read, and return them. Raises NotFound if there is none."""

        def drop(unit: UnitOfWork) -> tuple[TableMeta, ...]:
            dropped = drop_disabled_tables(unit)
            for table in dropped:
                _note(unit, table.namespace, table.name, "deleted", by)
            return dropped

        return self._units.carry_out(drop, is_repeatable=False)

    def allow_table(self, namespace: str, name: str, is_allowed: bool, by: str = "") -> None:
        """Set whether jobs may read the table. Raises NotFound."""

        def allow(unit: UnitOfWork) -> None:
            table = _table(unit, namespace, name)
            unit.tx.save_table(replace(table, is_disabled=not is_allowed), table.create_time)
            _note(unit, namespace, name, "enabled" if is_allowed else "disabled", by)

        self._units.carry_out(allow)

    def save_connector(self, connector: Connector, by: str = "") -> None:
        """Save a connector, which clients can then name; it replaces one of the same name."""

        def save(unit: UnitOfWork) -> None:
            unit.tx.save_connector(connector, unit.now)
            text = f"connector {connector.name}: {connector.engine} {dict(connector.info)}"
            note_act(unit, "connector saved", text, by)

        self._units.carry_out(save)


def _note(unit: UnitOfWork, namespace: str, name: str, done: str, by: str) -> None:
    note_act(unit, f"table {done}", f"{table_text(namespace, name)} was {done}", by)


def _table(unit: UnitOfWork, namespace: str, name: str) -> TableMeta:
    table = unit.tx.table(namespace, name)
    if table is None:
        raise NotFound(f"no find table: namespace {shown(namespace)}, table_name {shown(name)}")
    return table
