"""What every store promises of places outside of the tables."""

from __future__ import annotations

from typing import Protocol

from fate_flow.store.values import Connector


class Connectors(Protocol):
    """Part of `contract.Transaction`."""

    def save_connector(self, connector: Connector, at: int) -> None:
        """In the place of one of this name."""

    def connector(self, name: str) -> Connector | None: ...
