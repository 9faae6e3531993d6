"""Requests to the servers of other parties: every exchange is bounded in time and size, whatever the other side sends.

The bounds hold where bytes come in, at the socket: each read waits at most until the deadline of the whole exchange and
is counted, whether it belongs to the status line, the head, the framing of chunks or the body. So a server that sends
one byte a second, a head without end or a body that grows when it is unpacked costs a thread its deadline and no more.
No other thread watches, and a connection that exceeds a bound is closed at once.

Not bounded: the resolution of a host name, which is the resolver's (resolv.conf: timeout, attempts).
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError, ReadTimeoutError
from urllib3.util.ssl_ import create_urllib3_context

from fate_flow.peers.wire import SRC_PARTY_ID

CONNECT_SECONDS = 5.0
_LATE_SECONDS = 1.0          # to read what is there already, when this process stood still until after the deadline
_HEAD_BYTES = 64 * 1024
_MOST_SERVERS = 256          # to which connections are kept
_PIECE_BYTES = 64 * 1024
_MOST_VALUES = 1_000_000     # of a JSON text: each costs a hundred bytes of memory, and may cost three of the text

_current = threading.local()


@dataclass(frozen=True)
class PeerResponse:
    """What another server answered, read to its end."""

    status: int
    body: bytes
    said_by: str             # the party that it says it is of; plain v1 servers say none

    def document(self) -> Any:
        """The body as JSON. Raises ValueError for what is none, or is too deep or too large to be read."""
        if sum(map(self.body.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            raise ValueError(f"its answer has more than {_MOST_VALUES} values")
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("its answer is nested too deeply") from error


class AnswerTooLong(ValueError):
    """More came than is taken."""

    def __init__(self, most: int) -> None:
        super().__init__(f"its answer is longer than {most} bytes")


class PeerHttp:
    """Kept-alive connections to other parties' servers; may be shared by threads."""

    def __init__(self, auth: AuthBase | None = None, connections: int = 10) -> None:
        """`auth` signs each request; `connections` to one server are kept."""
        self._session = _Session()
        self._session.trust_env = False          # a proxy of the environment is not between parties
        self._session.auth = auth
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = _Adapter(pool_connections=_MOST_SERVERS, pool_maxsize=connections)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)

    def post(
        self, url: str, data: bytes, head: Mapping[str, str], *, seconds: float, most_bytes: int, ca_file: str = "",
        query: Mapping[str, str | int] | None = None,
    ) -> PeerResponse:
        """The answer, of any status; a redirect is not followed. Bounded by `seconds` and `most_bytes` altogether.

        `ca_file` has the certificates that an https server is checked with, instead of the usual authorities.
        A kept connection that the server has closed meanwhile is opened again: the request may arrive twice.
        Raises requests.RequestException when there is no whole answer in time, ValueError for what is not taken."""
        bounds = _Bounds(seconds, most_bytes)
        request: dict[str, Any] = {"data": data, "params": query, "headers": head, "verify": ca_file or True}
        outer, _current.bounds = getattr(_current, "bounds", None), bounds
        try:
            try:
                return self._exchange(url, request, bounds)
            except requests.exceptions.ConnectionError as error:
                if isinstance(error, requests.exceptions.Timeout) or bounds.has_connected:
                    raise
                return self._exchange(url, request, bounds)
        finally:
            _current.bounds = outer

    def close(self) -> None:
        self._session.close()

    def _exchange(self, url: str, request: Mapping[str, Any], bounds: _Bounds) -> PeerResponse:
        try:
            seconds = bounds.wait_seconds()
        except TimeoutError as error:
            raise requests.exceptions.ReadTimeout(error) from error
        response = self._session.post(
            url, **request, stream=True, allow_redirects=False, timeout=(min(CONNECT_SECONDS, seconds), seconds)
        )
        with closing(response):
            try:
                return PeerResponse(
                    response.status_code, _body_of(response, bounds.most_bytes), response.headers.get(SRC_PARTY_ID, "")
                )
            except ReadTimeoutError as error:
                raise requests.exceptions.ReadTimeout(error) from error
            except HTTPError as error:
                raise requests.exceptions.ChunkedEncodingError(error) from error


def _body_of(response: requests.Response, most_bytes: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ValueError(f"its answer has the Content-Encoding {encoding[:20]!r}, which was not asked for")
    if int(response.raw.length_remaining or 0) > most_bytes:
        raise AnswerTooLong(most_bytes)
    body = bytearray()
    for piece in response.raw.stream(_PIECE_BYTES, decode_content=False):
        body += piece
        if len(body) > most_bytes:
            raise AnswerTooLong(most_bytes)
    return bytes(body)


class _Session(requests.Session):
    """Sends a request once, and reads of the answer only what `_body_of` reads."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002  # requests' own signature
        """None: else `requests` would read and unpack the whole body of a redirect that nobody follows."""
        return None

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        prepared = super().prepare_request(request)
        prepared.headers["Accept-Encoding"] = "identity"
        return prepared


class _Adapter(HTTPAdapter):
    """Its connections are those below."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


# ---------------------------------------------------------------------- bounds of one exchange


class _Bounds:
    """What the exchange that this thread carries out may still take."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.has_connected = False
        self._deadline = time.monotonic() + seconds
        self._late_until: float | None = None
        # A body in chunks may be half framing.
        self._bytes_left = 2 * (_HEAD_BYTES + most_bytes)

    def wait_seconds(self) -> float:
        """How long the next read or write may take. Raises TimeoutError once the time is over.

        An answer that is all there counts, however late: it may be this process that stood still."""
        now = time.monotonic()
        if now < self._deadline:
            return self._deadline - now
        if self._late_until is None:
            self._late_until = now + _LATE_SECONDS
        if now >= self._late_until:
            raise TimeoutError("timed out")
        return self._late_until - now

    def take(self, count: int) -> None:
        """So many bytes came in. Raises AnswerTooLong."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise AnswerTooLong(self.most_bytes)


def _bounds() -> _Bounds:
    found: _Bounds = _current.bounds
    return found


class _Socket(socket.socket):
    """A connection whose reads and writes keep to the bounds of the current exchange."""

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_bounds().wait_seconds())
        count = super().recv_into(*args, **kwargs)
        _bounds().take(count)
        return count

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(_bounds().wait_seconds())        # of all of it together
        super().sendall(*args, **kwargs)


class _TlsSocket(ssl.SSLSocket):
    """The same with TLS."""

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_bounds().wait_seconds())
        count = super().recv_into(*args, **kwargs)
        _bounds().take(count)
        return count

    def send(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_bounds().wait_seconds())        # of each piece of what `sendall` sends
        return super().send(*args, **kwargs)


def _connect(connection: HTTPConnection) -> _Socket:
    """A new connection, in the time that `connection` has for it, whatever number of addresses its name has."""
    bounds = _bounds()
    bounds.has_connected = True
    deadline = time.monotonic() + float(connection.timeout or CONNECT_SECONDS)
    try:
        found = socket.getaddrinfo(connection._dns_host, connection.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise NameResolutionError(connection.host, connection, error) from error
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in found:
        sock = _Socket(family, kind, protocol)
        try:
            for option in connection.socket_options or ():
                sock.setsockopt(*option)
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    if isinstance(failure, TimeoutError):
        raise ConnectTimeoutError(connection, "no connection in time") from failure
    raise NewConnectionError(connection, f"Failed to establish a new connection: {failure}") from failure


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)


class _TlsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self)

    def connect(self) -> None:
        if self.ssl_context is None:
            self.ssl_context = create_urllib3_context()
            self.ssl_context.sslsocket_class = _TlsSocket
        super().connect()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection
