"""Names of places outside, in memory: what `sql/connectors.py` does, without a database."""

from __future__ import annotations

from fate_flow.store.memory.tables import as_json, changed
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Connector


class Connectors(MemoryUnitOfWork):
    """Part of the transaction: what each method promises stands in `contract.Transaction`."""

    def save_connector(self, connector: Connector, at: int) -> None:  # noqa: ARG002  # when, SQL alone tells
        self._rows.connectors.put(connector.name, changed(connector, info=as_json(connector.info)))

    def connector(self, name: str) -> Connector | None:
        return self._rows.connectors.rows.get(name)
