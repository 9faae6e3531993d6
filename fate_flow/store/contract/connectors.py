"""The store contract for connectors to database servers."""

from __future__ import annotations

from typing import Protocol

from fate_flow.store.values import Connector


class Connectors(Protocol):
    """Part of `contract.Transaction`."""

    def save_connector(self, connector: Connector, at: int) -> None:
        """Save a connector; it replaces one with the same name."""

    def connector(self, name: str) -> Connector | None: ...
