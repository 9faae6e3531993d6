"""HTTP requests to the servers of other parties. Time and size of every request are limited, whatever they send.

The limits are applied at the socket. Each read waits at most until the deadline of the whole request, and its bytes are
counted, whether they belong to the status line, the header, the framing of chunks or the body. So a server that sends
one byte a second, an endless header, or a compressed body that grows costs a thread its deadline and no more. What is
no body may have 128 KiB, and besides as many bytes as the body has had until then: interim answers and chunks of a byte
would cost seconds of processor time before they reach the size of a long body. No other thread watches, and a
connection that exceeds a limit is closed at once.

Not limited: the resolution of a host name, which the resolver does (resolv.conf: timeout, attempts).
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError, ReadTimeoutError
from urllib3.util.ssl_ import create_urllib3_context

from fate_flow.core.access.joined_party import DIALED
from fate_flow.core.metrics.measures import ANSWERED, PEER_REQUESTS, PEER_SECONDS, Measures, Unmeasured
from fate_flow.core.model.errors import FlowError
from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID, MOST_VALUES, SRC_PARTY_ID, values_in
from fate_flow.peers.dialed import use_connection
from fate_flow.peers.network_errors import class_of_error
from fate_flow.peers.pinned import Recognised, Recognises
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.tls import NotAPeer

CONNECT_SECONDS = 5.0
_LATE_SECONDS = 1.0          # for reading an answer that is there already, if this process stood still until too late
_FRAME_BYTES = 128 * 1024    # of the head, of interim answers, of chunks around a body, and of what was read ahead
_MOST_SERVERS = 256          # servers to which connections are kept
_PIECE_BYTES = 64 * 1024
_DIALED_HOST = "party-"
_DIALED_AS = f"http://{_DIALED_HOST}"        # what `requests` can parse; only a session of its own gets such addresses

_current = threading.local()


@dataclass(frozen=True)
class PeerResponse:
    """The complete answer of another server."""

    status: int
    body: bytes
    said_by: str             # the party id in the header of the answer; empty from plain v1 servers

    def document(self) -> Any:
        """Return the body as JSON. Raises ValueError if it is not JSON, or too deep or too large to be read."""
        if values_in(self.body) > MOST_VALUES:
            raise ValueError(f"its answer has more than {MOST_VALUES} values")
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("its answer is nested too deeply") from error


class AnswerTooLong(ValueError):
    """An answer is longer than allowed, or more of it than allowed is no body."""


OnRequest = Callable[[str, str, bool], None]
"""Called after a request: the party id, the URL, and whether there was an answer."""


class PeerHttp:
    """Kept-alive connections to other parties' servers; may be shared by threads."""

    def __init__(
        self, auth: SiteSignature | None = None, connections: int = 10, pinned: Recognises | None = None,
        dialed: Path | None = None, measures: Measures | None = None, on_request: OnRequest | None = None,
    ) -> None:  # fmt: skip
        """`auth` signs each request, and checks the answers that have to be signed; at most `connections` to one
        server are kept open. `pinned`: the parties whose https servers are recognised by their keys, instead of by
        certificates of an authority. `dialed`: the socket of the own gateway for parties that keep connections open
        there (`dialed.py`). `measures`: where requests are counted. `on_request` is called after each of them."""
        self._auth = auth
        self._connections = connections
        self._pinned = pinned
        self._measures = measures or Unmeasured()
        self._on_request: OnRequest = on_request or (lambda *_: None)
        self._session = self._make_session(_Adapter(pool_connections=_MOST_SERVERS, pool_maxsize=connections))
        self._sessions: dict[str, tuple[Recognised, _Session]] = {}
        adapter = None if dialed is None else _DialedAdapter(dialed, connections, pinned)
        self._to_dialing = None if adapter is None else self._make_session(adapter)
        self._lock = threading.Lock()

    def post(
        self, url: str, data: bytes, head: Mapping[str, str], *, seconds: float, most_bytes: int, ca_file: str = "",
        query: Mapping[str, str | int] | None = None,
    ) -> PeerResponse:
        """Send a request and return the answer, with any status, within `seconds` and `most_bytes` altogether.

        Redirects are not followed. `ca_file`: certificates for the https server instead of keys and usual authorities.
        `head` names the party (DEST-PARTY-ID).
        If the server has closed a kept connection meanwhile, the request is sent again; it may arrive twice.
        Raises requests.RequestException if there is no complete answer in time; ValueError for an answer that is not
        accepted."""
        bounds = _Bounds(seconds)
        request: dict[str, Any] = {"data": data, "params": query, "headers": head, "verify": ca_file or True}
        outer, _current.bounds = getattr(_current, "bounds", None), bounds
        begin = time.monotonic()
        try:
            try:
                answer = self._exchange(url, request, bounds, most_bytes)
            except requests.exceptions.ConnectionError as error:
                if isinstance(error, requests.exceptions.Timeout) or bounds.has_connected:
                    raise
                answer = self._exchange(url, request, bounds, most_bytes)
        except (requests.RequestException, ValueError) as error:
            self._measures.count(PEER_REQUESTS, _party_of(request), class_of_error(error))
            self._on_request(_party_of(request), url, False)
            raise
        else:
            self._measures.count(PEER_REQUESTS, _party_of(request), ANSWERED)
            self._on_request(_party_of(request), url, True)
            self._measures.observe(PEER_SECONDS, _party_of(request), value=time.monotonic() - begin)
            return answer
        finally:
            _current.bounds = outer

    def close(self) -> None:
        for session in (self._session, self._to_dialing, *(session for _, session in self._sessions.values())):
            if session is not None:
                session.close()

    def _session_for(self, url: str, request: Mapping[str, Any]) -> tuple[_Session, str]:
        """Return the session for a request, and the address in it. Raises requests.RequestException."""
        if self._to_dialing is not None and url.startswith(DIALED):
            return self._to_dialing, _DIALED_AS + url.removeprefix(DIALED)
        is_pinned = url.startswith("https:") and request["verify"] is True
        return self._session_of(_party_of(request)) if is_pinned else self._session, url

    def _session_of(self, party_id: str) -> _Session:
        """Return the session of a party with the keys and the own certificate of this moment, without connections that
        were made with older ones. Raises requests.RequestException."""
        try:
            pinned = self._pinned.of(party_id) if self._pinned else None
        except (FlowError, NotAPeer) as error:
            if isinstance(error, NotAPeer):
                self._forget(party_id)
            raise requests.exceptions.SSLError(_no_tls(str(error))) from error
        if pinned is None:
            self._forget(party_id)
            return self._session
        with self._lock:
            before = self._sessions.get(party_id)
            if before is not None and before[0] is pinned:
                return before[1]
            session = self._make_session(_PinnedAdapter(pinned, self._connections))
            self._sessions[party_id] = (pinned, session)
        if before is not None:
            before[1].close()        # a connection in use ends after its request
        return session

    def _forget(self, party_id: str) -> None:
        """Close what was kept for a party that is no longer recognised by its keys."""
        with self._lock:
            _, session = self._sessions.pop(party_id, (None, None))
        if session is not None:
            session.close()

    def _make_session(self, adapter: HTTPAdapter) -> _Session:
        session = _Session()
        session.trust_env = False          # a proxy in the environment is not for requests between parties
        session.auth = self._auth
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session

    def _exchange(self, url: str, request: Mapping[str, Any], bounds: _Bounds, most_bytes: int) -> PeerResponse:
        session, address = self._session_for(url, request)       # also for the second try: keys may have changed
        try:
            seconds = bounds.wait_seconds()
        except TimeoutError as error:
            raise requests.exceptions.ReadTimeout(error) from error
        response = session.post(
            address, **request, stream=True, allow_redirects=False, timeout=(min(CONNECT_SECONDS, seconds), seconds)
        )
        with closing(response):
            try:
                body = _body_of(response, bounds, most_bytes)
            except ReadTimeoutError as error:
                raise requests.exceptions.ReadTimeout(error) from error
            except HTTPError as error:
                raise requests.exceptions.ChunkedEncodingError(error) from error
        if self._auth is not None:
            self._auth.check_answer(_party_of(request), response, body)
        if self._pinned is not None and session is not self._session:
            self._pinned.has_answered(_party_of(request))
        return PeerResponse(response.status_code, body, response.headers.get(SRC_PARTY_ID, ""))


def _party_of(request: Mapping[str, Any]) -> str:
    return str(request["headers"].get(DEST_PARTY_ID, ""))


def _body_of(response: requests.Response, bounds: _Bounds, most_bytes: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ValueError(f"its answer has the Content-Encoding {encoding[:20]!r}, which was not asked for")
    too_long = AnswerTooLong(f"its answer is longer than {most_bytes} bytes")
    if int(response.raw.length_remaining or 0) > most_bytes:
        raise too_long
    body = bytearray()
    for piece in response.raw.stream(_PIECE_BYTES, decode_content=False):
        body += piece
        if len(body) > most_bytes:
            raise too_long
        bounds.give(2 * len(piece))
    return bytes(body)


class _Session(requests.Session):
    """Sends a request once, and leaves the reading of the answer to `_body_of`."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002  # requests' own signature
        """Return None; otherwise `requests` would read and unpack the whole body of a redirect that is not followed."""
        return None

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        prepared = super().prepare_request(request)
        prepared.headers["Accept-Encoding"] = "identity"
        return prepared


class _Adapter(HTTPAdapter):
    """Uses the connections below, which apply the limits."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


class _PinnedAdapter(HTTPAdapter):
    """Uses connections to the server of one party, which is recognised by its keys."""

    def __init__(self, pinned: Recognised, connections: int) -> None:
        self._pinned = pinned
        pinned.context.sslsocket_class = _TlsSocket
        super().__init__(pool_connections=1, pool_maxsize=connections)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"https": self._pool}

    def _pool(self, host: str, port: int, **options: Any) -> _PinnedPool:
        pool = _PinnedPool(host, port, **options)
        pool.pinned = self._pinned
        return pool


# ---------------------------------------------------------------------- limits of one request


class _Bounds:
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


def _bounds() -> _Bounds:
    found: _Bounds = _current.bounds
    return found


class _Socket(socket.socket):
    """A socket whose reads and writes keep the limits of the present request."""

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_bounds().wait_seconds())
        count = super().recv_into(*args, **kwargs)
        _bounds().take(count)
        return count

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(_bounds().wait_seconds())        # for all bytes together
        super().sendall(*args, **kwargs)


class _TlsSocket(ssl.SSLSocket):
    """The same with TLS."""

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_bounds().wait_seconds())
        count = super().recv_into(*args, **kwargs)
        _bounds().take(count)
        return count

    def send(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_bounds().wait_seconds())        # for each piece that `sendall` sends
        return super().send(*args, **kwargs)


def _connect(connection: HTTPConnection) -> _Socket:
    """Open a connection within the timeout of `connection`, for any number of addresses of its host name."""
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


class _PinnedConnection(HTTPSConnection):
    """Makes TLS of the pinned context alone: what `requests` and urllib3 know of authorities is not used."""

    pinned: Recognised

    def connect(self) -> None:
        sock = _connect(self)
        sock.settimeout(min(CONNECT_SECONDS, _bounds().wait_seconds()))      # for the whole handshake
        try:
            made = self.pinned.context.wrap_socket(sock, server_hostname=self._dns_host.rstrip("."))
        except ssl.SSLCertVerificationError as error:
            of = self.pinned.party_id
            raise _no_tls(
                f"its server shows no valid key of party {of}; if an authority has made its certificate, name the "
                f"authority in parties.certified.{of}, or, if that is of a proxy in front of it, in routes.{of}.ca"
            ) from error
        try:
            self.pinned.check(made)
        except NotAPeer as error:
            made.close()
            raise _no_tls(str(error)) from error
        self.sock = made
        self.is_verified = True


class _DialedAdapter(HTTPAdapter):
    """Uses connections that parties keep open at the own gateway."""

    def __init__(self, socket_at: Path, connections: int, pinned: Recognises | None) -> None:
        self._socket_at = socket_at
        self._pinned = pinned
        super().__init__(pool_connections=_MOST_SERVERS, pool_maxsize=connections)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": self._pool}

    def _pool(self, host: str, port: int, **options: Any) -> _DialedPool:
        pool = _DialedPool(host, port, **options)
        pool.socket_at, pool.pinned = self._socket_at, self._pinned
        return pool


class _DialedConnection(HTTPConnection):
    socket_at: Path
    pinned: Recognises | None

    def _new_conn(self) -> socket.socket:
        bounds, sock = _bounds(), _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        bounds.has_connected = True
        try:
            sock.settimeout(bounds.wait_seconds())
            party_id = self._dns_host.removeprefix(_DIALED_HOST)
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


class _PinnedPool(HTTPSConnectionPool):
    ConnectionCls = _PinnedConnection
    pinned: Recognised

    def _new_conn(self) -> Any:
        connection: Any = super()._new_conn()
        connection.pinned = self.pinned
        return connection


def _no_tls(text: str) -> ssl.SSLError:
    return ssl.SSLError(ssl.SSL_ERROR_SSL, text)
