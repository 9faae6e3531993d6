"""Connectors to database servers, in memory; the counterpart of `sql/connectors.py`."""

from __future__ import annotations

from fate_flow.core.model.frozen import changed
from fate_flow.store.memory.tables import as_json
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Connector


class Connectors(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def save_connector(self, connector: Connector, at: int) -> None:  # noqa: ARG002  # only SQL stores the time
        self._rows.connectors.put(connector.name, changed(connector, info=as_json(connector.info)))

    def connector(self, name: str) -> Connector | None:
        return self._rows.connectors.rows.get(name)
