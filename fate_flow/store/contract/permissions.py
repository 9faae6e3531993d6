"""The store contract for grants: what jobs of other parties may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fate_flow.core.access.permission import Thing


class Permissions(Protocol):
    """Part of `contract.Transaction`."""

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        """Grant these things; existing grants stay."""

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None: ...

    def granted(self, party_id: str) -> frozenset[Thing]: ...
