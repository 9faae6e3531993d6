"""What the name of a sender is worth on the port of clients, on a server that does not require signatures of all.

A name that is this party's own is refused: a server carries out its own commands without requests. That of a party with
a key list proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import request

from fate_flow.api.http.client_auth import is_at_route_of_parties
from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.errors import BadRequest, PermissionDenied
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.services.context.recent import Recent


def named_sender() -> str:
    """Return the party that the present request names, without leading zeros, so that each party has one name; as it
    came if it is no party id, which the route reports."""
    text = request.headers.get(SRC_PARTY_ID, "")
    try:
        return check_party_id(text)
    except BadRequest:
        return text


class SenderCheck:
    """The check on every route of other parties, for a server that does not require signatures."""

    def __init__(self, own_party_id: str) -> None:
        self._own = own_party_id

    def check(self) -> None:
        """Raise PermissionDenied."""
        if not is_at_route_of_parties():
            return
        sender = named_sender()
        if sender in (PARTY_0, self._own):
            raise PermissionDenied(
                f"{SRC_PARTY_ID}: party {sender} is this server itself, which sends itself no requests; "
                "does another server have its party id (fateflow.party_id)?"
            )


class ListedParties:
    """The ids of the parties with a key list, also of those that were removed or revoked: such a party does not become
    one that is believed by its name. `passed` returns seconds from any moment on."""

    def __init__(self, read: Callable[[], frozenset[str]], passed: Callable[[], float]) -> None:
        self._recent = Recent(read, passed)

    def has(self, party_id: str) -> bool:
        """Return whether this party is one of them. Raise StorageFailed if they could never be read."""
        return party_id in self._recent.read()

    def has_sender(self) -> bool:
        """Return whether the party that the present request names on a route of parties is one of them."""
        if not is_at_route_of_parties():
            return False
        return self.has(named_sender())
