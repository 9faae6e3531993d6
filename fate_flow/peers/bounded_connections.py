"""Connections to the servers of other parties, for urllib3: each keeps the bounds of the request that it carries.

Each read waits at most until the deadline of the whole request, and its bytes are counted, whether they belong to the
status line, the header, the framing of chunks or the body. So a server that sends one byte a second, an endless header,
or a compressed body that grows costs a thread its deadline and no more. What is no body may have 128 KiB, and besides
as many bytes as the body has had until then: interim answers and chunks of a byte would cost seconds of processor time
before they reach the size of a long body. No other thread watches.

Not limited: the resolution of a host name, which the resolver does (resolv.conf: timeout, attempts).
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.ssl_ import create_urllib3_context

from fate_flow.peers.dialed import use_connection
from fate_flow.peers.pinned import Recognised, Recognises
from fate_flow.peers.tls import NotAPeer

CONNECT_SECONDS = 5.0
DIALED_HOST = "party-"       # before the id of a party that dials, as urllib3 knows its host
_LATE_SECONDS = 1.0          # for reading an answer that is there already, if this process stood still until too late
_FRAME_BYTES = 128 * 1024    # of the head, of interim answers, of chunks around a body, and of what was read ahead

_current = threading.local()

MakePool = Callable[..., HTTPConnectionPool]
"""Returns a new pool, by host and port, and the options of urllib3."""


class AnswerTooLong(ValueError):
    """An answer is longer than allowed, or more of it than allowed is no body."""


class Bounds:
    """The time and the bytes that the present request of this thread may still take."""

    def __init__(self, seconds: float) -> None:
        self.has_connected = False
        self._deadline = time.monotonic() + seconds
        self._late_until: float | None = None
        self._bytes_left = _FRAME_BYTES

    def wait_seconds(self) -> float:
        """Return how long the next read or write may take. Raises TimeoutError if the time is over.

        An answer that has arrived counts even after the deadline, because this process may have stood still."""
        now = time.monotonic()
        if now < self._deadline:
            return self._deadline - now
        if self._late_until is None:
            self._late_until = now + _LATE_SECONDS
        if now >= self._late_until:
            raise TimeoutError("timed out")
        return self._late_until - now

    def take(self, count: int) -> None:
        """Count received bytes. Raises AnswerTooLong."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise AnswerTooLong("too many bytes of its answer are its head, or the framing of its chunks")

    def give(self, count: int) -> None:
        """Allow so many bytes more."""
        self._bytes_left += count


def present_bounds() -> Bounds:
    """Return those of the request that this thread sends."""
    found: Bounds = _current.bounds
    return found


@contextmanager
def bound_by(bounds: Bounds) -> Iterator[Bounds]:
    """Let the connections of this thread keep these bounds within the block."""
    outer, _current.bounds = getattr(_current, "bounds", None), bounds
    try:
        yield bounds
    finally:
        _current.bounds = outer


class _Socket(socket.socket):
    """A socket whose reads and writes keep the limits of the present request."""

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(present_bounds().wait_seconds())
        count = super().recv_into(*args, **kwargs)
        present_bounds().take(count)
        return count

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(present_bounds().wait_seconds())        # for all bytes together
        super().sendall(*args, **kwargs)


class _TlsSocket(_Socket, ssl.SSLSocket):
    """The same with TLS."""

    def send(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(present_bounds().wait_seconds())        # for each piece that `sendall` sends
        return super().send(*args, **kwargs)


def _connect(connection: HTTPConnection) -> _Socket:
    """Open a connection within the timeout of `connection`, for any number of addresses of its host name."""
    bounds = present_bounds()
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
            sock.settimeout(min(CONNECT_SECONDS, bounds.wait_seconds()))       # of a handshake that follows
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


class PlainPool(HTTPConnectionPool):
    ConnectionCls = _Connection


class TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _PinnedConnection(HTTPSConnection):
    """Makes TLS of the pinned context alone: what `requests` and urllib3 know of authorities is not used."""

    pinned: Recognised

    def connect(self) -> None:
        sock = _connect(self)
        try:
            made = self.pinned.context.wrap_socket(sock, server_hostname=self._dns_host.rstrip("."))
        except ssl.SSLCertVerificationError as error:
            of = self.pinned.party_id
            raise no_tls(
                f"its server shows no valid key of party {of}; if an authority has made its certificate, name the "
                f"authority in parties.certified.{of}, or, if that is of a proxy in front of it, in routes.{of}.ca"
            ) from error
        try:
            self.pinned.check(made)
        except NotAPeer as error:
            made.close()
            raise no_tls(str(error)) from error
        self.sock = made
        self.is_verified = True


class _DialedConnection(HTTPConnection):
    socket_at: Path
    pinned: Recognises | None

    def _new_conn(self) -> socket.socket:
        bounds, sock = present_bounds(), _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        bounds.has_connected = True
        try:
            sock.settimeout(bounds.wait_seconds())
            party_id = self._dns_host.removeprefix(DIALED_HOST)
            seen = use_connection(sock, self.socket_at, party_id)
        except OSError as error:
            sock.close()
            raise NewConnectionError(self, f"Failed to establish a new connection: {error}") from error
        if self.pinned is not None:
            self.pinned.has_dialed(party_id, seen)
        return sock


class _DialedPool(HTTPConnectionPool):
    ConnectionCls = _DialedConnection
    socket_at: Path
    pinned: Recognises | None

    def _new_conn(self) -> Any:
        connection: Any = super()._new_conn()
        connection.socket_at, connection.pinned = self.socket_at, self.pinned
        return connection


def dialed_pools(socket_at: Path, pinned: Recognises | None) -> MakePool:
    """Return what makes pools of connections that parties keep open at the own gateway."""

    def make(host: str, port: int, **options: Any) -> _DialedPool:
        pool = _DialedPool(host, port, **options)
        pool.socket_at, pool.pinned = socket_at, pinned
        return pool

    return make


class _PinnedPool(HTTPSConnectionPool):
    ConnectionCls = _PinnedConnection
    pinned: Recognised

    def _new_conn(self) -> Any:
        connection: Any = super()._new_conn()
        connection.pinned = self.pinned
        return connection


def pinned_pools(pinned: Recognised) -> MakePool:
    """Return what makes pools of connections to the server of one party, which is recognised by its keys."""
    pinned.context.sslsocket_class = _TlsSocket

    def make(host: str, port: int, **options: Any) -> _PinnedPool:
        pool = _PinnedPool(host, port, **options)
        pool.pinned = pinned
        return pool

    return make


def no_tls(text: str) -> ssl.SSLError:
    """Return the error that this text says."""
    return ssl.SSLError(ssl.SSL_ERROR_SSL, text)
