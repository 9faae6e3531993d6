"""Where a request of another party came in, and what that proves.

Those that the gateway passes on come over a Unix socket that only this user can reach: it has verified the key of the
party behind the connection, or says that it has not. On any other socket, the same headers are text that anybody can
send, and mean nothing. The listener of `parties.plain` believes the names of some parties, because the operator has
said so.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Response, request

from fate_flow.api.http.client_auth import NotAuthenticated, is_for_parties
from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.access.joining import JOIN
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id, shown
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.settings.parties import PlainParties

STRANGERS = f"/v1{JOIN}"
"""The one route of callers whose key nobody knows yet; nobody else has it."""

PLAIN, PROXY = "plain", "proxy"
"""What the gateway says of callers whose key it has not verified: one over the listener of `parties.plain`, who is
believed by its name there, and one over that of `parties.behind_proxy`, whose every request is signed."""

_PEER, _ADDRESS, _TLS = "HTTP_X_FATE_FLOW_PEER", "HTTP_X_FATE_FLOW_ADDRESS", "HTTP_X_FATE_FLOW_TLS"
_LONGEST_VERSION = 20
_IDENTITY = re.compile(r"([0-9]{1,20}) ([0-9a-f]{64})")
_STRANGER = re.compile(r"stranger ([0-9a-f]{64})")


@dataclass(frozen=True)
class PartyConnection:
    """Whose key is behind a connection."""

    party_id: str
    key_id: str


def is_from_gateway(environ: Mapping[str, Any]) -> bool:
    """Return whether the gateway passed this request on."""
    sock = environ.get("gunicorn.socket")
    return sock is not None and sock.family == socket.AF_UNIX


def unproved(environ: Mapping[str, Any]) -> str:
    """Return how a request came that the gateway has passed on without verifying a key, PLAIN or PROXY; "" for any
    other request."""
    said = environ.get(_PEER)
    return str(said) if said in (PLAIN, PROXY) and is_from_gateway(environ) else ""


def has_proved_key(environ: Mapping[str, Any]) -> bool:
    """Return whether the gateway has verified a key of the party behind the connection."""
    return is_from_gateway(environ) and not unproved(environ)


def connection_of(environ: Mapping[str, Any]) -> PartyConnection | None:
    """Return whose connection a request came over; None if not over the gateway. Raise NotAuthenticated if the gateway
    does not say whose it is."""
    if not is_from_gateway(environ):
        return None
    found = _IDENTITY.fullmatch(str(environ.get(_PEER, "")))
    if found is None:
        raise NotAuthenticated("the request does not say over whose connection it came")
    return PartyConnection(found[1], found[2])


def stranger_saw(environ: Mapping[str, Any]) -> str | None:
    """Return the id of the own tls key that a stranger has seen; None if the request is not one of a stranger."""
    found = _STRANGER.fullmatch(str(environ.get(_PEER, ""))) if is_from_gateway(environ) else None
    return found[1] if found else None


def address_of(environ: Mapping[str, Any]) -> str:
    """Return the address of the caller, for the log."""
    return str(environ.get(_ADDRESS if is_from_gateway(environ) else "REMOTE_ADDR") or "-")


Heard = Callable[[str, str, str], None]
"""Called with the party id, the version of TLS, and the id of the tls key of the party."""


class PlainPartyCheck:
    """The check of each request that came over the listener of `parties.plain`: only named parties come that way, and
    none with a key list."""

    def __init__(self, own_party_id: str, plain: PlainParties | None, has_list: Callable[[str], bool]) -> None:
        self._own = own_party_id
        self._party_ids = plain.party_ids if plain else frozenset()
        self._has_list = has_list

    def check(self) -> None:
        """Raise NotAuthenticated."""
        if unproved(request.environ) != PLAIN:
            return
        try:
            source = check_party_id(request.headers.get(SRC_PARTY_ID, ""), SRC_PARTY_ID)
        except BadRequest as error:
            raise NotAuthenticated(error.message) from error
        if source not in self._party_ids:
            raise NotAuthenticated(
                f"{SRC_PARTY_ID}: this port is for peers that speak plain v1, and party {self._own} does not list "
                f"party {source} (parties.plain.from)"
            )
        if self._has_list(source):
            raise NotAuthenticated(
                f"{SRC_PARTY_ID}: party {self._own} knows party {source} by its keys: the route of that party has to "
                "name the gateway here (https)"
            )


def _no_such_route() -> Response:
    return Response(f"{shown(request.path)}: other parties have no such route", 404, mimetype="text/plain")


class PartyConnectionCheck:
    """The check of each request that the gateway passes on: only other parties come that way, each for itself."""

    def __init__(self, own_party_id: str, heard: Heard = lambda *_: None) -> None:
        """`heard` is called with each request that passes."""
        self._own = own_party_id
        self._heard = heard

    def check(self) -> Response | None:
        """Return an answer if the route is not for other parties. Raise NotAuthenticated."""
        if not is_from_gateway(request.environ):
            return None
        rule = request.url_rule.rule if request.url_rule else ""
        is_stranger = stranger_saw(request.environ) is not None
        if not is_for_parties(rule) or is_stranger != (rule == STRANGERS):
            return _no_such_route()
        if is_stranger or unproved(request.environ):
            return None
        connection = connection_of(request.environ)
        source = request.headers.get(SRC_PARTY_ID, "")
        if connection is None or connection.party_id in (PARTY_0, self._own) or source != connection.party_id:
            raise NotAuthenticated(
                f"{SRC_PARTY_ID}: is {shown(source)}, but the connection belongs to party "
                f"{connection.party_id if connection else shown('')}: a party speaks for itself alone"
            )
        self._heard(source, str(request.environ.get(_TLS, ""))[:_LONGEST_VERSION], connection.key_id)
        return None
