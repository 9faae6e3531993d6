"""Connectors to database servers."""

from __future__ import annotations

from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.database.models import ConnectorRow
from fate_flow.store.sql.unit import SqlUnitOfWork
from fate_flow.store.values import Connector


class Connectors(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def save_connector(self, connector: Connector, at: int) -> None:
        ConnectorRow.replace(
            f_name=connector.name, f_engine=connector.engine, f_connector_info=to_json(dict(connector.info)),
            f_create_time=at,
        ).execute()  # fmt: skip

    def connector(self, name: str) -> Connector | None:
        row = ConnectorRow.get_or_none(ConnectorRow.f_name == name)
        return None if row is None else Connector(row.f_name, row.f_engine, from_json(row.f_connector_info))
