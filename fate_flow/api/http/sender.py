"""Refuse requests whose sender is this party itself: a server carries out its own commands without requests."""

from __future__ import annotations

from flask import request

from fate_flow.api.http.client_auth import is_for_clients
from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.errors import BadRequest, PermissionDenied
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID


class SenderCheck:
    """The check on every route of other parties, for a server that does not require signatures."""

    def __init__(self, own_party_id: str) -> None:
        self._own = own_party_id

    def check(self) -> None:
        """Raise PermissionDenied."""
        if request.url_rule is None or is_for_clients(request.url_rule.rule):
            return
        try:
            sender = check_party_id(request.headers.get(SRC_PARTY_ID, ""))
        except BadRequest:
            return          # the route reports what is wrong with it
        if sender in (PARTY_0, self._own):
            raise PermissionDenied(
                f"{SRC_PARTY_ID}: party {sender} is this server itself, which sends itself no requests; "
                "does another server have its party id (fateflow.party_id)?"
            )
