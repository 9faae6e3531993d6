"""How the gateway of another party is reached, and the request that opens a stream there."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import h11

from fate_flow.core.access.joined_party import DIALED
from fate_flow.core.text.phrases import sanitized
from fate_flow.gateway.accepting import connected
from fate_flow.gateway.heads import UPGRADE
from fate_flow.gateway.peer_connection import Stream as Connection
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.gateway.unproved import OpenStream
from fate_flow.peers.network_errors import describe_cause

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_MOST_BYTES = 64 * 1024
_LATER = frozenset({425, 429, 502, 503, 504})
"""425: the attempt has not begun there; the others: that server is busy, starts or stops."""
BUSY = frozenset({429})
"""What a server answers that has too much to do for this party at the moment."""


class NotOpened(Exception):
    """A stream cannot be opened; `is_for_now`: perhaps it can be later."""

    def __init__(self, text: str, *, is_for_now: bool, status: int = 0) -> None:
        """`status`: of the answer of the other server; 0: it has not answered."""
        super().__init__(text)
        self.text = text
        self.is_for_now = is_for_now
        self.status = status


@dataclass(frozen=True)
class Way:
    """How one party is reached. `url`: `dialed://<party id>` if it dials this one. `context`: None without TLS, and for
    a party that dials. `check` gets the certificate (DER) of the server, and raises ValueError if it is not that of the
    party. `check_upgrade` gets the fields of our request and of the answer 101, and raises ValueError if the party had
    to sign that, and did not. `still_holds`: whether its key has not been revoked since."""

    url: str
    fields: Callable[[str], Mapping[str, str]]         # of a POST without a body to this path with its query
    context: ssl.SSLContext | None = None
    check: Callable[[bytes | None], None] = field(default=lambda _: None)
    still_holds: Callable[[], bool] = field(default=lambda: True)
    check_upgrade: Callable[[Mapping[str, str], Mapping[str, str]], None] = field(default=lambda _, __: None)


class Ways(Protocol):
    def to(self, party_id: str) -> Way:
        """Return how a party is reached now. Called in a thread. Raises NotOpened."""
        ...


@dataclass(frozen=True)
class Opened:
    """A connection that carries a stream. `leftover` came after the answer."""

    connection: Connection
    leftover: bytes
    way: Way


class Kept(Protocol):
    """Connections that other parties keep open here; `gateway/dialed.py` has the real ones."""

    async def take(self, party_id: str) -> TlsStream | None:
        """Return one of this party, which is the caller's from now on; None if there is none in time. Raises
        OSError."""
        ...


async def opened(way: Way, target: str, kept: Kept | None = None) -> Opened:
    """Return a connection on which the other gateway carries the stream that `target` names. Raises NotOpened."""
    place = urlsplit(way.url)
    host, path = place.hostname or "", place.path
    try:
        if way.url.startswith(DIALED):
            connection: Connection = await _taken(host, kept)
        else:
            port = place.port or (443 if way.context is not None else 80)
            connection = await _connected(host, port, way.context)
    except OSError as error:
        raise NotOpened(f"its server is not reached: {_text(error)}", is_for_now=True) from error
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            if isinstance(connection, TlsStream):
                if way.context is not None:
                    await connection.handshake()
                way.check(connection.leaf)
            leftover = await _upgraded(connection, host_of(way.url), path + target, way)
    except BaseException as error:
        connection.sock.close()
        if isinstance(error, OSError):           # ssl.SSLError and TimeoutError are two
            raise NotOpened(f"its server is not reached: {_text(error)}", is_for_now=True) from error
        if isinstance(error, ValueError):        # NotAPeer is one
            raise NotOpened(str(error), is_for_now=True) from error
        raise
    return Opened(connection, leftover, way)


async def _connected(host: str, port: int, context: ssl.SSLContext | None) -> Connection:
    """Return a connection, before its handshake. Raises OSError."""
    sock, _ = await connected(host, port, _CONNECT_SECONDS)
    return OpenStream(sock) if context is None else TlsStream(sock, context, is_client=True, name=host)


async def _taken(party_id: str, kept: Kept | None) -> Connection:
    """Return a connection of a party that dials this one. Raises NotOpened, OSError."""
    if kept is None:
        raise NotOpened("its server dials others, and this one has no port for it (parties.listen)", is_for_now=False)
    found = await kept.take(party_id)
    if found is None:
        raise NotOpened("its server dials this one, and keeps no connection open now", is_for_now=True)
    return found


def host_of(url: str) -> str:
    """Return the name of a server in requests to it; that of a party that dials is none of the network."""
    host = urlsplit(url).hostname or ""
    return f"party-{host}" if url.startswith(DIALED) else host


async def _upgraded(connection: Connection, host: str, target: str, way: Way) -> bytes:
    """Send the request; return what came after the answer that allows the stream. Raises NotOpened, OSError."""
    http = h11.Connection(h11.CLIENT, _MOST_BYTES)
    fields = {
        "Host": host, **way.fields(target), "Content-Length": "0", "Connection": "Upgrade", "Upgrade": UPGRADE.decode(),
    }  # fmt: skip
    request = h11.Request(method="POST", target=target, headers=list(fields.items()))
    await connection.send(http.send(request) + http.send(h11.EndOfMessage()))
    status, body = 0, b""
    try:
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await connection.receive()
                if not data and not status:
                    raise NotOpened("its server has ended the connection", is_for_now=True)
                http.receive_data(data)
            elif isinstance(event, h11.InformationalResponse) and event.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                way.check_upgrade(fields, {name.decode(): value.decode() for name, value in event.headers})
                return http.trailing_data[0]
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data) and len(body) < _MOST_BYTES:
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                raise NotOpened(_refusal(status, body), is_for_now=status in _LATER, status=status)
            elif isinstance(event, h11.ConnectionClosed):
                raise NotOpened("its server has ended the connection", is_for_now=True)
    except h11.RemoteProtocolError as error:
        raise NotOpened(f"its server does not answer in HTTP: {error}", is_for_now=False) from error


def _refusal(status: int, body: bytes) -> str:
    with suppress(ValueError, AttributeError):
        if text := json.loads(body).get("retmsg"):
            return sanitized(str(text), 500)
    return f"its server does not carry streams (HTTP status {status})"


def _text(error: OSError) -> str:
    return describe_cause(error) or error.strerror or type(error).__name__
