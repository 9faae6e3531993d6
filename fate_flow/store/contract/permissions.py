"""The store contract for grants: what jobs of other parties may use, and how far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fate_flow.core.access.limits import Grants
from fate_flow.core.access.permission import Thing


class Permissions(Protocol):
    """Part of `contract.Transaction`."""

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        """Grant these things; existing grants and all limits stay."""

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None:
        """Revoke these things, with the limits of these tables."""

    def granted(self, party_id: str) -> frozenset[Thing]: ...

    def grants(self, party_id: str) -> Grants:
        """Return all that the party was granted, with the limits."""

    def replace_grants(self, party_id: str, grants: Grants) -> None:
        """Grant exactly these things with these limits; all others are revoked."""

    def grantees(self) -> tuple[str, ...]:
        """Return the ids of the parties that were granted something, or have limits."""

    def use_table(self, party_id: str, table: Thing, share: str, at: int, most: int) -> bool:
        """Count the use of a granted table by a share of the party's job, unless `most` other shares used it on the day
        before `at` (milliseconds); False then. A use of the same share counts once."""

    def uses_of_table(self, party_id: str, table: Thing, since: int) -> int:
        """Return how many shares of jobs of the party have used the table since this time (milliseconds)."""
